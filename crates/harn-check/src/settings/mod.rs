//! The settings of checks in the nearest `harn.toml`. `manifest.rs` reads it and reports its errors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use harn_front::Through;
use harn_system::System;

use crate::Located;
use crate::codes::{DEAD_CODE, MANIFEST_SYNTAX, UNREACHABLE};
use crate::retry::RetryPolicy;

mod capabilities;
mod manifest;

pub use capabilities::read_operations;
pub use manifest::{flat_values, manifest_file, unknown_tables};

/// Settings of `[check]`, `[lint]`, `[fmt]` and `[run]`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The directory of the manifest; `None` without one.
    pub root: Option<PathBuf>,
    /// Base of relative paths.
    pub cwd: PathBuf,
    /// `[lint] disabled` and `[check] disable_rules`.
    pub disabled: Vec<RuleFilter>,
    /// `[lint] template_variant_branch_threshold`; `None` for the default.
    pub template_variant_branch_threshold: Option<usize>,
    /// `[lint] complexity_threshold`; `None` for the default.
    pub complexity_threshold: Option<usize>,
    /// `[lint] require_file_header`: files need a description at their head.
    pub require_file_header: bool,
    /// `[check] strict`: warnings fail the check.
    pub strict: bool,
    /// `[check] strict_types`: untrusted values must be validated before parts of them are used.
    pub strict_types: bool,
    /// `[check] preflight_severity`.
    pub preflight: PreflightSeverity,
    /// `[check] host_capabilities` and the file of `host_capabilities_path`: host operations in addition to the
    /// default ones.
    pub host_operations: BTreeSet<String>,
    /// `[check] preflight_allow`: operations that are not checked, as `capability.operation`, `capability.*`,
    /// `capability` or `*`.
    pub preflight_allow: Vec<String>,
    /// `[fmt] line_width`; `None` for the default.
    pub line_width: Option<usize>,
    /// `[fmt] separator_width`; `None` for the default.
    pub separator_width: Option<usize>,
    /// `[check] bundle_root`: the first search directory of templates. Absolute, or relative to the current
    /// directory.
    pub bundle_root: Option<PathBuf>,
    /// `[workspace] pipelines`: programs and directories of the project, relative to the manifest.
    pub pipelines: Vec<PathBuf>,
    /// `[package] name`.
    pub package: Option<String>,
    /// `[run] durable`: `harn run` records a journal.
    pub durable: bool,
    /// `[runs]`.
    pub runs: Runs,
    /// `[queues.NAME]` by name.
    pub queues: BTreeMap<String, Queue>,
}

/// Limits of a queue of runs; `None` limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// `concurrency`: how many runs execute at once.
    pub concurrency: Option<u32>,
    /// `rate`: how many runs start in a period.
    pub rate: Option<(u32, Duration)>,
    /// `group_concurrency`: how many runs of a group execute at once.
    pub group_concurrency: Option<u32>,
    /// `group_rate`: how many runs of a group start in a period.
    pub group_rate: Option<(u32, Duration)>,
}

/// Settings of stored runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// `keep`: how long runs are stored after their end; `None` for ever.
    pub keep: Option<Duration>,
    /// `retries`, `backoff`, `retry_delay` and `max_retry_delay`.
    pub retry: RetryPolicy,
}

/// Severity of the findings of the preflight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreflightSeverity {
    /// The severity of each finding.
    #[default]
    Error,
    /// At most warnings.
    Warning,
    /// No preflight.
    Off,
}

impl PreflightSeverity {
    /// Parses a setting or flag; also accepts `warn`, `allow` and `silent`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "error" => Some(Self::Error),
            "warning" | "warn" => Some(Self::Warning),
            "off" | "allow" | "silent" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A disabled rule: everywhere, or in the files that a glob matches.
#[derive(Clone, Debug)]
pub struct RuleFilter {
    rule: String,
    files: Option<GlobMatcher>,
}

/// Returns the canonical name of a rule.
pub(crate) fn canonical(rule: &str) -> &str {
    match rule {
        // The checker reports dead code if the rule does not run.
        "unreachable-code" | UNREACHABLE => DEAD_CODE,
        other => other,
    }
}

impl RuleFilter {
    /// Parses `rule` or `rule:glob`; an invalid glob matches only the identical path.
    pub fn parse(entry: &str) -> Self {
        let Some((rule, glob)) = entry.split_once(':') else {
            return Self { rule: canonical(entry.trim()).to_owned(), files: None };
        };
        let literal = || Glob::new(&globset::escape(glob));
        // Long patterns and nested braces may exceed the limits of the matcher.
        let simple = glob.len() <= 4096 && glob.matches('{').count() <= 16;
        let parsed = if simple { Glob::new(glob).or_else(|_| literal()) } else { literal() };
        let files = parsed.map(|glob| glob.compile_matcher()).ok();
        Self { rule: canonical(rule.trim()).to_owned(), files }
    }
}

impl Settings {
    /// Finds the manifest for the files of `dir`: in it or at most 16 directories above, not beyond one that contains
    /// `.git`.
    pub fn manifest(system: &dyn System, dir: &Path) -> Option<PathBuf> {
        let dir = harn_template::absolute_folder(dir, system)?;
        harn_front::manifest_near(&dir, &Through(system))
    }

    /// Reads the manifest for the files of `dir`, and returns its errors. Invalid values are treated as absent; an
    /// unparsable manifest yields the defaults.
    pub fn find(system: &dyn System, dir: &Path) -> (Self, Vec<Located>) {
        Self::manifest(system, dir).map_or_else(Default::default, |path| manifest::read(system, &path))
    }

    /// Returns the error of an unparsable manifest for the files of `dir`.
    pub fn unparsable(system: &dyn System, dir: &Path) -> Option<Located> {
        let (_, problems) = Self::find(system, dir);
        problems.into_iter().find(|located| located.diagnostic.code == MANIFEST_SYNTAX)
    }

    /// Reads `[runs]` and `[queues]` of the manifest for the files of `dir`.
    ///
    /// # Errors
    /// The first error in these tables: runs must not be removed, retried or started in another way than intended.
    pub fn of_runs(system: &dyn System, dir: &Path) -> Result<(Runs, BTreeMap<String, Queue>), String> {
        let (settings, problems) = Self::find(system, dir);
        let wrong = problems.iter().find(|located| {
            let found = &located.diagnostic;
            found.severity == harn_syntax::Severity::Error
                && (found.code == MANIFEST_SYNTAX
                    || ["[runs]", "`runs`", "[queues", "`queues"]
                        .iter()
                        .any(|table| found.message.contains(table)))
        });
        match wrong {
            Some(located) => Err(format!("harn.toml: {}", located.message_with_help())),
            None => Ok((settings.runs, settings.queues)),
        }
    }

    /// Returns whether a rule is disabled for a file.
    pub fn is_disabled(&self, rule: &str, file: &Path) -> bool {
        let mut relative = None;
        let rule = canonical(rule);
        self.disabled.iter().filter(|filter| filter.rule == rule).any(|filter| match &filter.files {
            None => true,
            Some(glob) => glob.is_match(relative.get_or_insert_with(|| self.relative(file))),
        })
    }

    /// Returns a path relative to the manifest, for globs.
    fn relative(&self, file: &Path) -> PathBuf {
        let whole = self.cwd.join(file);
        let absolute: PathBuf = whole.components().collect();
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
        let (read, problems) =
            manifest::from_text(&harn_system::Memory::new(), text, Path::new("/project/harn.toml"));
        assert!(problems.is_empty(), "{problems:?}");
        read
    }

    #[test]
    fn keys_may_be_written_with_dashes() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[lint]\ntemplate-variant-branch-threshold = 5\n[check]\nstrict = true\npreflight-severity = \"warn\"\nbundle_root = \".\"\n";
        std::fs::write(dir.path().join("harn.toml"), text).unwrap();
        let (read, problems) = Settings::find(&harn_system::Real::new(), dir.path());
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(read.template_variant_branch_threshold, Some(5));
        assert!(read.strict);
        assert_eq!(read.preflight, PreflightSeverity::Warning);
        assert_eq!(read.bundle_root, Some(dir.path().join(".")));
    }

    #[test]
    fn rules_are_off_everywhere_or_for_a_glob() {
        let read = settings(
            "[lint]\ndisabled = [\"W0100\", \"W0101:prompts/**\", \"W0102:[\"]\n[check]\ndisable_rules = [\"W0103\"]\n",
        );
        let off = |rule, file| read.is_disabled(rule, Path::new(file));
        assert!(off("W0100", "/project/x.prompt") && off("W0103", "/elsewhere"));
        assert!(off("W0101", "/project/prompts/deep/x.prompt"));
        assert!(
            !off("W0101", "/project/x.prompt") && !off("W0102", "/project/x") && !off("W0104", "/project/x")
        );
        assert!(off("W0102", "/project/["));
    }

    #[test]
    fn settings_of_runs_are_read() {
        let text = "[runs]\nkeep = \"30d\"\nretries = 5\nbackoff = \"fixed\"\nretry-delay = \"10s\"\nmax_retry_delay = \"1h\"\n";
        let seconds = |n| Some(Duration::from_secs(n));
        let expected = Runs {
            keep: seconds(30 * 86_400),
            retry: RetryPolicy {
                retries: Some(5),
                backoff: Some("fixed".to_owned()),
                delay: seconds(10),
                max_delay: seconds(3_600),
            },
        };
        assert_eq!(settings(text).runs, expected);
    }

    #[test]
    fn limits_of_queues_are_read() {
        let text = "[queues.mail]\nconcurrency = 2\nrate = \"100/1m\"\n[queues.slow]\ngroup-concurrency = 1\ngroup_rate = \"5/1h\"\n[queues.plain]\n";
        let seconds = Duration::from_secs;
        let mail = Queue { concurrency: Some(2), rate: Some((100, seconds(60))), ..Queue::default() };
        let slow =
            Queue { group_concurrency: Some(1), group_rate: Some((5, seconds(3_600))), ..Queue::default() };
        let expected = [("mail", mail), ("plain", Queue::default()), ("slow", slow)];
        let expected = expected.map(|(name, queue)| (name.to_owned(), queue));
        assert_eq!(settings(text).queues, BTreeMap::from(expected));
    }

    #[test]
    fn packs_and_fleets_are_looked_at() {
        let told = |text: &str| {
            let system = harn_system::Memory::new().with_file("/project/a.eval.toml", "");
            let (_, problems) = manifest::from_text(&system, text, Path::new("/project/harn.toml"));
            problems.into_iter().map(|problem| problem.diagnostic.message).collect::<Vec<_>>()
        };
        let fine = "[package]\nevals = [\"a.eval.toml\"]\n[eval.fleets.small]\nmodels = [\"mock:a\"]\n";
        assert_eq!(told(fine), [""; 0]);
        for (wrong, expected) in [
            ("[package]\nevals = [\"b.toml\"]\n", "[package] evals: file not found: b.toml"),
            ("[package]\nevals = \"a\"\n", "[package] evals must be a list of paths of packs, got a string"),
            (
                "[package]\nevals = [1]\n",
                "[package] evals must be a list of paths of packs, got an integer in it",
            ),
            (
                "[package]\nevals = []\n",
                "[package] evals must be a list of paths of packs, got an empty list",
            ),
            ("[package]\nnam = \"x\"\n", "unknown key `nam` in [package]: it has no effect"),
            ("[package]\nversion = 1\n", "[package] version must be a string, got an integer"),
            ("[sessions]\npersit = true\n", "unknown key `persit` in [sessions]: programs refuse it"),
            ("[runs]\nkep = \"30d\"\n", "unknown key `kep` in [runs]: programs refuse it"),
            (
                "[runs]\nkeep = \"30\"\n",
                "[runs] keep must be a time such as \"30s\", \"12h\" or \"30d\", got \"30\"",
            ),
            ("[runs]\nretries = -1\n", "[runs] retries must be a number from 0 to 1000, got -1"),
            (
                "[runs]\nbackoff = \"slow\"\n",
                "[runs] backoff must be \"exponential\", \"linear\" or \"fixed\", got \"slow\"",
            ),
            ("queues = 1\n", "`queues` must be a table, got an integer"),
            ("[queues]\nmail = 3\n", "[queues] mail must be a table, got an integer"),
            (
                "[queues.\"a b\"]\n",
                "[queues] name of a queue must be 1 to 64 letters, digits, `-`, `_` and `.`, got \"a b\"",
            ),
            ("[queues.mail]\nlimit = 3\n", "unknown key `limit` in [queues.mail]: programs refuse it"),
            (
                "[queues.mail]\nconcurrency = 0\n",
                "[queues.mail] concurrency must be a number from 1 to 1000000, got 0",
            ),
            (
                "[queues.mail]\nrate = \"fast\"\n",
                "[queues.mail] rate must be a count and a time such as \"100/1m\", got \"fast\"",
            ),
            ("[sesions]\npersist = true\n", "unknown table `[sesions]`: it has no effect"),
            ("[skills]\npaths = \"x\"\n", "[skills] paths must be a list of strings, got a string"),
            ("[exports]\na = \"no.harn\"\n", "[exports] a: file not found: no.harn"),
            ("[[hooks]]\nevent = \"PreToolUse\"\n", "[[hooks]] needs `handler`"),
            (
                "[[hooks]]\nevent = \"PreToolUse\"\nhandler = \"x::f\"\npatern = \"*\"\n",
                "unknown key `patern` in [hooks]: programs refuse it",
            ),
            ("eval = 1\n", "`eval` must be a table, got an integer"),
            ("[eval]\nfleets = 1\n", "[eval] fleets must be a table of fleets, got an integer"),
            ("[eval.fleet.a]\nmodels = []\n", "unknown key `fleet` in [eval]: it has no effect"),
            (
                "[eval.fleets.a]\nmodel = [\"x\"]\n",
                "[eval.fleets.a] models must be a list of names of models",
            ),
            ("[eval.fleets.a]\nmodels = []\n", "[eval.fleets.a] models must be a list of names of models"),
        ] {
            assert_eq!(told(wrong), [expected], "{wrong}");
        }
    }
}
