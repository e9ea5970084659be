//! A world for tests: a handful of builtins, one embedded module, one embedded prompt.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "these are parts of tests")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use harn_check::{Located, Quiet, Settings, Signatures, Source, World, check_program, check_templates};
use harn_syntax::{Diagnostic, SourceFile};

/// The builtins of the tests.
pub(crate) struct Builtins;

const NAMES: [&str; 12] = [
    "argv",
    "host_call",
    "iter",
    "len",
    "print",
    "println",
    "render",
    "render_prompt",
    "split",
    "stream",
    "to_string",
    "tool_define",
];

impl Signatures for Builtins {
    fn is_builtin(&self, name: &str) -> bool {
        NAMES.contains(&name)
    }

    fn builtin_names(&self) -> Vec<&str> {
        NAMES.to_vec()
    }
}

pub(crate) fn world() -> World<'static> {
    World {
        files: harn_front::Through(Box::leak(Box::new(harn_system::Real::new()))),
        signatures: &Builtins,
        std_module: |name| (name == "text").then_some("pub fn shout(s) { s }\nfn hidden() { 1 }\n"),
        prompt_asset: |path| {
            (path == "agent/nudge.harn.prompt").then_some("{{ who }} {{ if extra }}{{ extra }}{{ end }}")
        },
    }
}

/// Parses a text, which must be free of syntax errors.
pub(crate) fn parse(text: &str) -> harn_syntax::ast::Program {
    let parsed = harn_syntax::parse(text);
    assert_eq!(parsed.errors, [], "in {text}");
    parsed.program
}

/// The findings of the check that runs before a program.
pub(crate) fn diagnostics(text: &str, dir: &Path) -> Vec<Diagnostic> {
    let tree = parse(text);
    check_program(&Source { name: "main.harn", dir, text, tree: &tree }, &world())
}

/// The messages alone.
pub(crate) fn messages(text: &str) -> Vec<String> {
    diagnostics(text, Path::new("")).into_iter().map(|diagnostic| diagnostic.message).collect()
}

/// A program and what is said about it, as people see it.
pub(crate) fn drawn(text: &str) -> String {
    let file = SourceFile::new("main.harn", text);
    let mut out = format!("{}\n----\n", text.trim_end());
    for diagnostic in diagnostics(text, Path::new("")) {
        let _ = writeln!(out, "{} {}", diagnostic.code, diagnostic.render(&file, false));
    }
    out.trim_end().to_owned()
}

/// A folder with files, and the preflight of a program in it.
pub(crate) struct Project {
    /// What is outside of the project.
    outside: tempfile::TempDir,
    pub(crate) dir: PathBuf,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let outside = tempfile::tempdir().unwrap();
        let dir = outside.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&dir).unwrap();
        let project = Self { outside, dir };
        files.iter().for_each(|(path, text)| project.write(path, text));
        project
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn preflight(&self, text: &str) -> Vec<Located> {
        let tree = parse(text);
        let dir = &self.dir;
        let (settings, problem) = Settings::find(&harn_system::Real::new(), dir);
        assert!(problem.is_empty(), "{problem:?}");
        check_templates(
            &Source { name: "main.harn", dir, text, tree: &tree },
            &world(),
            &settings,
            &Quiet::default(),
        )
    }

    pub(crate) fn messages(&self, text: &str) -> Vec<String> {
        let shown = |located: Located| self.relative(&located.diagnostic.message);
        self.preflight(text).into_iter().map(shown).collect()
    }

    /// A text without the path of the folder.
    pub(crate) fn relative(&self, text: &str) -> String {
        let dir = self.dir.display().to_string();
        let outside = self.outside.path().canonicalize().unwrap().display().to_string();
        text.replace(&format!("{dir}/"), "").replace(&dir, "PROJECT").replace(&outside, "OUTSIDE")
    }

    /// A program and what the preflight says, as people see it.
    pub(crate) fn drawn(&self, text: &str) -> String {
        let program = SourceFile::new("main.harn", text);
        let mut out = format!("{}\n----\n", text.trim_end());
        for located in self.preflight(text) {
            let file = located.file.as_deref().unwrap_or(&program);
            let _ = writeln!(out, "{} {}", located.diagnostic.code, located.diagnostic.render(file, false));
        }
        self.relative(out.trim_end())
    }
}
