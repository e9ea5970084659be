//! `harn new NAME` and `harn init [NAME]`: create a project.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use harn_system::{Real, System, SystemExt};

use crate::args::{InitArgs, NewArgs, Template};

/// A file of a template: its path, and its content with `{{name}}` for the name of the project.
type File = (&'static str, &'static str);

macro_rules! files {
    ($template:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/", $template, "/", $path)))),+]
    };
}

impl Template {
    fn files(self) -> &'static [File] {
        match self {
            Template::Basic => {
                files!("basic": "harn.toml", "main.harn", "lib/helpers.harn", "tests/test_main.harn")
            }
            Template::Agent => files!("agent": "harn.toml", "main.harn", "tests/test_agent.harn"),
            Template::Eval => {
                files!("eval": "harn.toml", "main.harn", "tests/test_eval.harn", "eval-suite.json")
            }
            Template::McpServer => files!("mcp-server": "harn.toml", "main.harn", "tests/test_server.harn"),
            Template::PipelineLab => files!(
                "pipeline-lab": "harn.toml", "host.harn", "pipeline.harn", "README.md", "tests/test_pipeline.harn",
            ),
            Template::Package => files!(
                "package": "harn.toml", "lib/text.harn", "tests/test_text.harn", "ci/check.sh", "docs/README.md",
            ),
        }
    }

    /// Returns the suggested next commands.
    fn next(self) -> &'static [&'static str] {
        match self {
            Template::Basic | Template::Eval => &["harn run main.harn", "harn test"],
            Template::Agent => &["harn test", "harn run main.harn -- \"What is in main.harn?\""],
            Template::Package => &["harn test", "sh ci/check.sh"],
            Template::McpServer => &["harn test", "harn serve mcp main.harn"],
            Template::PipelineLab => &["harn test", "harn playground --task \"What is new?\""],
        }
    }
}

/// Creates a directory with a project.
pub(crate) fn new(args: &NewArgs) -> u8 {
    // `harn new agent NAME` is an alternative to `--template agent`.
    let (name, template) = match (Template::from_str(&args.name, false), &args.second) {
        (Ok(template), Some(name)) => (name, template),
        (Err(_), Some(surplus)) => {
            let known: Vec<String> = Template::value_variants()
                .iter()
                .filter_map(|t| Some(t.to_possible_value()?.get_name().to_owned()))
                .collect();
            let hint = harn_vm::suggest::hint(&args.name, known.iter().map(String::as_str));
            let text = format!(
                "unexpected argument '{surplus}': unknown template '{}'{hint}; known templates: {}",
                args.name,
                known.join(", ")
            );
            crate::args::usage_error("new", &text);
        }
        (Ok(_), None) if args.template.is_none() => {
            let name = &args.name;
            eprintln!(
                "note: creates the project `{name}` from the template `basic`; for the template `{name}`: harn new {name} NAME"
            );
            (name, Template::Basic)
        }
        _ => (&args.name, args.template.unwrap_or(Template::Basic)),
    };
    make_folder(name, template)
}

/// Makes the current directory a project, or creates a directory with a project.
pub(crate) fn init(args: &InitArgs) -> u8 {
    let template = args.template.unwrap_or(Template::Basic);
    match &args.name {
        Some(name) => make_folder(name, template),
        None => {
            crate::out::write("Initializing harn project in current directory...\n");
            let here = Real::new().work_dir();
            let name = here.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            fill(Path::new(""), &name, template)
        }
    }
}

fn make_folder(name: &str, template: Template) -> u8 {
    let path = PathBuf::from(name);
    let Some(last) = path.file_name().and_then(|last| last.to_str()).filter(|last| is_name(last)) else {
        eprintln!(
            "error: invalid project name '{}': use letters, digits, '.', '_' and '-'",
            harn_syntax::printable(name)
        );
        return 1;
    };
    if Real::new().exists(&path) {
        eprintln!("error: Directory '{name}' already exists");
        return 1;
    }
    crate::out::write(&format!("Creating project '{name}'...\n"));
    fill(&path, last, template)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Writes the files that do not exist yet.
fn fill(folder: &Path, name: &str, template: Template) -> u8 {
    let system = Real::new();
    // A directory name may contain any characters.
    let safe: String = name.chars().map(|c| if is_name(&format!("a{c}")) { c } else { '-' }).collect();
    let safe = if safe.is_empty() { "project" } else { &safe };
    for (file, text) in template.files() {
        let path = folder.join(file);
        if system.exists(&path) {
            crate::out::write(&format!("  skip  {file} (already exists)\n"));
            continue;
        }
        let made = path.parent().map_or(Ok(()), |parent| {
            if parent.as_os_str().is_empty() { Ok(()) } else { system.make_dirs(parent) }
        });
        let written = made.and_then(|()| system.replace(&path, text.replace("{{name}}", safe).as_bytes()));
        if let Err(error) = written {
            eprintln!(
                "error: cannot write {}: {error}",
                harn_syntax::printable_name(&path.display().to_string())
            );
            return 1;
        }
        crate::out::write(&format!("  create  {file}\n"));
    }
    let mut next = String::from("\nNext:\n");
    if !folder.as_os_str().is_empty() {
        next.push_str(&format!("  cd {}\n", folder.display()));
    }
    template.next().iter().for_each(|line| next.push_str(&format!("  {line}\n")));
    crate::out::write(&next);
    0
}

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;
    use crate::args::{Cli, Command};

    /// Runs a command as from the command line and returns its exit code.
    fn harn(args: &[&str]) -> u8 {
        let cli = Cli::try_parse_from(["harn"].iter().chain(args)).expect("the command line is understood");
        match cli.command {
            Command::New(args) => new(&args),
            Command::Check(args) => crate::cmd::check::check(&args),
            Command::Lint(args) => crate::cmd::lint::lint(&args),
            Command::Fmt(args) => crate::cmd::fmt::fmt(&args),
            Command::Test(args) => crate::cmd::test::test(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_template_passes_everything() {
        let folder = tempfile::tempdir().expect("a folder");
        for template in Template::value_variants() {
            let value = template.to_possible_value().expect("a name");
            let path = folder.path().join(format!("my-{}", value.get_name()));
            let path = path.to_str().expect("a path");
            assert_eq!(harn(&["new", path, "--template", value.get_name()]), 0, "{template:?}");
            assert_eq!(harn(&["check", path]), 0, "{template:?}");
            assert_eq!(harn(&["lint", path]), 0, "{template:?}");
            assert_eq!(harn(&["fmt", "--check", path]), 0, "{template:?}");
            assert_eq!(harn(&["test", &format!("{path}/tests")]), 0, "{template:?}");
            let manifest = std::fs::read_to_string(format!("{path}/harn.toml")).expect("a manifest");
            assert!(manifest.contains(&format!("name = \"my-{}\"", value.get_name())), "{manifest}");
            assert_eq!(harn(&["new", path]), 1, "what is there is not made again");
        }
    }

    #[test]
    fn files_are_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("main.harn"), "// mine\n").expect("written");
        assert_eq!(fill(folder.path(), "odd \"name\"", Template::Basic), 0);
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(text("main.harn"), "// mine\n");
        assert!(text("harn.toml").contains("name = \"odd--name-\""), "{}", text("harn.toml"));
    }

    #[test]
    fn names_of_projects() {
        for name in ["a", "my-app", "été", "a.b_c9"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".hidden", "-x", "a b", "a\"b", ".."] {
            assert!(!is_name(name), "{name}");
        }
    }
}
