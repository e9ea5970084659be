//! What the nearest `harn.toml` says about checks.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobMatcher};
use harn_syntax::Diagnostic;

use crate::codes::MANIFEST;

/// How many folders are searched for a manifest.
const MAX_LEVELS: usize = 16;

/// Settings of `[check]` and `[lint]`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The folder of the manifest; `None` without one.
    pub root: Option<PathBuf>,
    /// `[lint] disabled` and `[check] disable_rules`.
    pub disabled: Vec<RuleFilter>,
    /// `[lint] template_variant_branch_threshold`; `None` for the default.
    pub template_variant_branch_threshold: Option<usize>,
    /// `[check] strict`: warnings fail the check.
    pub strict: bool,
    /// `[check] preflight_severity`.
    pub preflight: PreflightSeverity,
    /// `[check] bundle_root`: templates are looked for here first. Absolute, or relative to the current folder.
    pub bundle_root: Option<PathBuf>,
}

/// How serious findings of the preflight are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreflightSeverity {
    /// As each finding says.
    #[default]
    Error,
    /// None is worse than a warning.
    Warning,
    /// There is no preflight.
    Off,
}

impl PreflightSeverity {
    /// Reads a setting or flag; `warn`, `allow` and `silent` are accepted too.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "error" => Some(Self::Error),
            "warning" | "warn" => Some(Self::Warning),
            "off" | "allow" | "silent" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A rule that is off: everywhere, or in the files that a glob matches.
#[derive(Clone, Debug)]
pub struct RuleFilter {
    rule: String,
    files: Option<GlobMatcher>,
}

impl RuleFilter {
    /// Reads `rule` or `rule:glob`; a glob that does not parse matches only the very path it spells.
    pub fn parse(entry: &str) -> Self {
        let Some((rule, glob)) = entry.split_once(':') else {
            return Self { rule: entry.trim().to_owned(), files: None };
        };
        let literal = || Glob::new(&globset::escape(glob));
        let files = Glob::new(glob).or_else(|_| literal()).map(|glob| glob.compile_matcher()).ok();
        Self { rule: rule.trim().to_owned(), files }
    }
}

impl Settings {
    /// Finds the manifest for the files of `dir`: from there upwards at most 16 folders, not beyond one that holds `.git`.
    pub fn manifest(dir: &Path) -> Option<PathBuf> {
        let start = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let start = std::path::absolute(start).ok()?;
        for folder in start.ancestors().take(MAX_LEVELS) {
            let path = folder.join("harn.toml");
            if path.is_file() {
                return Some(path);
            }
            if folder.join(".git").exists() {
                break;
            }
        }
        None
    }

    /// Reads the manifest for the files of `dir`. One that cannot be parsed gives the defaults and a warning.
    pub fn find(dir: &Path) -> (Self, Option<Diagnostic>) {
        Self::manifest(dir).map_or_else(Default::default, |path| Self::read(&path))
    }

    /// Reads a manifest.
    fn read(path: &Path) -> (Self, Option<Diagnostic>) {
        let root = path.parent().map(Path::to_owned);
        let broken = |reason: String| {
            let message = format!("failed to parse {}: {}", path.display(), reason.trim_end());
            Some(Diagnostic::warning(message).with_code(MANIFEST))
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return (Self { root, ..Self::default() }, broken(error.to_string())),
        };
        match text.parse::<toml::Table>() {
            Ok(table) => (Self::from_table(&table, root), None),
            Err(error) => (Self { root, ..Self::default() }, broken(error.message().to_owned())),
        }
    }

    fn from_table(table: &toml::Table, root: Option<PathBuf>) -> Self {
        // Dashes are accepted for underscores.
        let key = |section: &str, name: &str| {
            let section = table.get(section)?;
            section.get(name).or_else(|| section.get(name.replace('_', "-")))
        };
        let rules = |section, name| {
            let entries = key(section, name).and_then(toml::Value::as_array).into_iter().flatten();
            entries.filter_map(toml::Value::as_str).map(RuleFilter::parse).collect::<Vec<_>>()
        };
        let mut disabled = rules("lint", "disabled");
        disabled.extend(rules("check", "disable_rules"));
        let bundle_root = key("check", "bundle_root").and_then(toml::Value::as_str);
        Self {
            disabled,
            template_variant_branch_threshold: key("lint", "template_variant_branch_threshold")
                .and_then(toml::Value::as_integer)
                .and_then(|count| usize::try_from(count).ok()),
            strict: key("check", "strict").and_then(toml::Value::as_bool).unwrap_or(false),
            preflight: key("check", "preflight_severity")
                .and_then(toml::Value::as_str)
                .and_then(PreflightSeverity::parse)
                .unwrap_or_default(),
            bundle_root: bundle_root.map(|dir| root.as_deref().unwrap_or(Path::new("")).join(dir)),
            root,
        }
    }

    /// Whether a rule is off for a file.
    pub fn is_disabled(&self, rule: &str, file: &Path) -> bool {
        let mut relative = None;
        self.disabled.iter().filter(|filter| filter.rule == rule).any(|filter| match &filter.files {
            None => true,
            Some(glob) => glob.is_match(relative.get_or_insert_with(|| self.relative(file))),
        })
    }

    /// A path as globs see it: relative to the manifest.
    fn relative(&self, file: &Path) -> PathBuf {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        match &self.root {
            Some(root) => absolute.strip_prefix(root).map(Path::to_owned).unwrap_or(absolute),
            None => file.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::from_table(&text.parse().unwrap(), Some(PathBuf::from("/project")))
    }

    #[test]
    fn keys_may_be_written_with_dashes() {
        let read = settings(
            "[lint]\ntemplate-variant-branch-threshold = 5\n[check]\nstrict = true\npreflight-severity = \"warn\"\nbundle_root = \"out\"\n",
        );
        assert_eq!(read.template_variant_branch_threshold, Some(5));
        assert!(read.strict);
        assert_eq!(read.preflight, PreflightSeverity::Warning);
        assert_eq!(read.bundle_root, Some(PathBuf::from("/project/out")));
    }

    #[test]
    fn rules_are_off_everywhere_or_for_a_glob() {
        let read = settings(
            "[lint]\ndisabled = [\"a\", \"b:prompts/**\", \"c:[\"]\n[check]\ndisable_rules = [\"d\"]\n",
        );
        let off = |rule, file| read.is_disabled(rule, Path::new(file));
        assert!(off("a", "/project/x.prompt") && off("d", "/elsewhere"));
        assert!(off("b", "/project/prompts/deep/x.prompt"));
        assert!(!off("b", "/project/x.prompt") && !off("c", "/project/x") && !off("e", "/project/x"));
        assert!(off("c", "/project/["));
    }

    #[test]
    fn a_broken_manifest_is_told_and_defaults_are_used() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("harn.toml"), "[lint\n").unwrap();
        let (read, problem) = Settings::find(dir.path());
        assert!(read.disabled.is_empty());
        let message = problem.unwrap().message;
        assert!(message.starts_with("failed to parse ") && message.contains("harn.toml: "), "{message}");
    }
}
