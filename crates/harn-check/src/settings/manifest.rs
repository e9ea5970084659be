//! Reads `harn.toml`, and reports errors and unknown keys.
//!
//! Tables that do not resemble a known name are not reported: other tools may use them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_system::{System, SystemExt};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{PreflightSeverity, Queue, RuleFilter, Settings, capabilities};
use crate::Located;
use crate::codes::{CODES, MANIFEST_ENTRY, MANIFEST_SYNTAX};
use crate::retry::{BACKOFFS, MOST_RETRIES};
use harn_syntax::suggest::close;

/// The tables of a manifest.
const TABLES: &[&str] = &[
    "package",
    "dependencies",
    "exports",
    "asset_roots",
    "check",
    "workspace",
    "lint",
    "fmt",
    "run",
    "runs",
    "queues",
    "store",
    "sessions",
    "llm",
    "capabilities",
    "skills",
    "skill",
    "mcp",
    "hooks",
    "triggers",
    "providers",
    "personas",
    "orchestrator",
    "registry",
    "eval",
];

/// A key and its setter.
struct Key {
    name: &'static str,
    /// Stores the value in the settings; the error describes the valid values.
    set: fn(&mut Manifest<'_>, &Spanned<DeValue<'_>>) -> Result<(), Wrong>,
}

const CHECK: &[Key] = &[
    Key { name: "strict", set: |m, value| boolean(value).map(|strict| m.settings.strict = strict) },
    Key {
        name: "strict_types",
        set: |m, value| boolean(value).map(|strict| m.settings.strict_types = strict),
    },
    Key {
        name: "preflight_severity",
        set: |m, value| severity(value).map(|level| m.settings.preflight = level),
    },
    Key { name: "bundle_root", set: |m, value| m.bundle_root(value) },
    Key { name: "host_capabilities", set: |m, value| m.host_capabilities(value) },
    Key { name: "host_capabilities_path", set: |m, value| m.host_capabilities_path(value) },
    Key { name: "preflight_allow", set: |m, value| m.allow(value) },
    Key { name: "disable_rules", set: |m, value| m.rules(value) },
];

const LINT: &[Key] = &[
    Key { name: "disabled", set: |m, value| m.rules(value) },
    Key {
        name: "require_file_header",
        set: |m, value| boolean(value).map(|required| m.settings.require_file_header = required),
    },
    Key {
        name: "complexity_threshold",
        set: |m, value| whole(value, COUNT).map(|most| m.settings.complexity_threshold = Some(most)),
    },
    Key {
        name: "template_variant_branch_threshold",
        set: |m, value| {
            whole(value, COUNT).map(|most| m.settings.template_variant_branch_threshold = Some(most))
        },
    },
];

const FMT: &[Key] = &[
    Key {
        name: "line_width",
        set: |m, value| width(value).map(|columns| m.settings.line_width = Some(columns)),
    },
    Key {
        name: "separator_width",
        set: |m, value| width(value).map(|columns| m.settings.separator_width = Some(columns)),
    },
];

const RUN: &[Key] =
    &[Key { name: "durable", set: |m, value| boolean(value).map(|durable| m.settings.durable = durable) }];

const RUNS: &[Key] = &[
    Key { name: "keep", set: |m, value| time(value).map(|keep| m.settings.runs.keep = Some(keep)) },
    Key {
        name: "retries",
        set: |m, value| retries(value).map(|most| m.settings.runs.retry.retries = Some(most)),
    },
    Key {
        name: "backoff",
        set: |m, value| backoff(value).map(|kind| m.settings.runs.retry.backoff = Some(kind)),
    },
    Key {
        name: "retry_delay",
        set: |m, value| time(value).map(|delay| m.settings.runs.retry.delay = Some(delay)),
    },
    Key {
        name: "max_retry_delay",
        set: |m, value| time(value).map(|delay| m.settings.runs.retry.max_delay = Some(delay)),
    },
];

const QUEUE: &[Key] = &[
    Key { name: "concurrency", set: |m, value| limit(value).map(|most| m.queue.concurrency = Some(most)) },
    Key { name: "rate", set: |m, value| rate(value).map(|rate| m.queue.rate = Some(rate)) },
    Key {
        name: "group_concurrency",
        set: |m, value| limit(value).map(|most| m.queue.group_concurrency = Some(most)),
    },
    Key { name: "group_rate", set: |m, value| rate(value).map(|rate| m.queue.group_rate = Some(rate)) },
];

const WORKSPACE: &[Key] = &[Key { name: "pipelines", set: |m, value| m.pipelines(value) }];

const EVAL: &[Key] = &[Key { name: "fleets", set: |m, value| m.fleets(value) }];

const STORE: &[Key] = &[Key { name: "url", set: |_, value| address(value) }];

const SESSIONS: &[Key] = &[Key { name: "persist", set: |_, value| boolean(value).map(|_| ()) }];

const PACKAGE: &[Key] = &[
    Key {
        name: "name",
        set: |m, value| string(value).map(|name| m.settings.package = Some(name.to_owned())),
    },
    Key { name: "version", set: |_, value| string(value).map(|_| ()) },
    Key { name: "description", set: |_, value| string(value).map(|_| ()) },
    Key { name: "license", set: |_, value| string(value).map(|_| ()) },
    Key { name: "repository", set: |_, value| string(value).map(|_| ()) },
    Key { name: "harn", set: |_, value| string(value).map(|_| ()) },
    Key { name: "docs_url", set: |_, value| string(value).map(|_| ()) },
    Key { name: "authors", set: |_, value| texts(value, "a list of strings").map(|_| ()) },
    Key { name: "keywords", set: |_, value| texts(value, "a list of strings").map(|_| ()) },
    Key { name: "evals", set: |m, value| m.evals(value) },
];

const SKILLS: &[Key] = &[
    Key { name: "paths", set: |_, value| texts(value, "a list of strings").map(|_| ()) },
    Key { name: "lookup_order", set: |_, value| texts(value, "a list of strings").map(|_| ()) },
    Key { name: "disable", set: |_, value| texts(value, "a list of strings").map(|_| ()) },
    Key { name: "defaults", set: |_, value| is_table(value) },
    Key { name: "signer_registry_url", set: |_, value| string(value).map(|_| ()) },
];

const HOOK: &[Key] = &[
    Key { name: "event", set: |_, value| string(value).map(|_| ()) },
    Key { name: "pattern", set: |_, value| string(value).map(|_| ()) },
    Key { name: "handler", set: |_, value| string(value).map(|_| ()) },
];

/// The tables in which programs reject an unknown key: with another store, other skills or other hooks than intended
/// they do not start.
const REFUSED: [&str; 5] = ["hooks", "runs", "sessions", "skills", "store"];

/// Why a value is rejected.
struct Wrong {
    /// The requirement, as in "must be true or false".
    must: &'static str,
    /// The value, or its type.
    got: String,
    /// The advice.
    help: Option<String>,
}

/// The state of parsing a manifest.
struct Manifest<'a> {
    system: &'a dyn System,
    path: &'a Path,
    shown: Arc<SourceFile>,
    settings: Settings,
    /// The queue whose table is read.
    queue: Queue,
    problems: Vec<Located>,
}

/// A length of time, such as `30d`.
fn time(value: &Spanned<DeValue<'_>>) -> Result<Duration, Wrong> {
    let must = || wrong("a time such as \"30s\", \"12h\" or \"30d\"", value);
    let text = value.get_ref().as_str().ok_or_else(must)?;
    duration(text).ok_or_else(|| Wrong { got: format!("\"{text}\""), ..must() })
}

/// Parses a number with its unit: `ms`, `s`, `m`, `h` or `d`.
fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &text[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    text[..at].parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_millis)
}

/// A limit of a queue.
fn limit(value: &Spanned<DeValue<'_>>) -> Result<u32, Wrong> {
    let must = "a number from 1 to 1000000";
    match whole(value, must)? {
        count @ 1..=1_000_000 => Ok(count as u32),
        other => Err(Wrong { got: other.to_string(), ..wrong(must, value) }),
    }
}

/// A rate, such as `100/1m`.
fn rate(value: &Spanned<DeValue<'_>>) -> Result<(u32, Duration), Wrong> {
    let must = || wrong("a count and a time such as \"100/1m\"", value);
    let text = value.get_ref().as_str().ok_or_else(must)?;
    let parsed = text.split_once('/').and_then(|(count, time)| {
        let count = count.trim().parse().ok().filter(|count| (1..=1_000_000).contains(count))?;
        let time = duration(time.trim()).filter(|time| !time.is_zero() && time.as_secs() <= 366 * 86_400)?;
        Some((count, time))
    });
    parsed.ok_or_else(|| Wrong { got: format!("\"{text}\""), ..must() })
}

fn retries(value: &Spanned<DeValue<'_>>) -> Result<u64, Wrong> {
    let must = "a number from 0 to 1000";
    match whole(value, must)? {
        count if count as u64 <= MOST_RETRIES => Ok(count as u64),
        other => Err(Wrong { got: other.to_string(), ..wrong(must, value) }),
    }
}

fn backoff(value: &Spanned<DeValue<'_>>) -> Result<String, Wrong> {
    let must = || wrong("\"exponential\", \"linear\" or \"fixed\"", value);
    let text = value.get_ref().as_str().ok_or_else(must)?;
    match text {
        known if BACKOFFS.contains(&known) => Ok(text.to_owned()),
        other => Err(Wrong { got: format!("\"{other}\""), ..must() }),
    }
}

/// Returns a manifest for diagnostics, with its path relative to the current directory if it is below.
pub fn manifest_file(system: &dyn System, path: &Path, text: impl Into<String>) -> Arc<SourceFile> {
    let here = system.cwd().ok();
    let shown = here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path);
    Arc::new(SourceFile::new(shown.display().to_string(), text))
}

/// Reads a manifest: a regular file of at most 16 MiB.
///
/// # Errors
/// The error of the system, or why the file is invalid.
pub(crate) fn text(system: &dyn System, path: &Path) -> std::io::Result<String> {
    system.read_text(path, 16 << 20)
}

/// Returns the tables of a manifest that Harn does not know. Other tools may use them.
pub fn unknown_tables(text: &str) -> Vec<String> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let names = document.get_ref().keys().map(|name| name.get_ref().to_string());
    names.filter(|name| !TABLES.contains(&name.as_str())).collect()
}

/// Returns the values of a TOML file with the paths of their keys, such as `run.durable` and `true`. Empty for a file that cannot be
/// parsed.
pub fn flat_values(text: &str) -> Vec<(String, String)> {
    fn add(path: &str, value: &toml::Value, found: &mut Vec<(String, String)>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    add(&path, value, found);
                }
            }
            toml::Value::String(text) => found.push((path.to_owned(), text.clone())),
            other => found.push((path.to_owned(), other.to_string())),
        }
    }
    let mut found = Vec::new();
    add("", &toml::Value::Table(text.parse().unwrap_or_default()), &mut found);
    found
}

/// Reads a manifest. Invalid values are treated as absent.
pub(super) fn read(system: &dyn System, path: &Path) -> (Settings, Vec<Located>) {
    match text(system, path) {
        Ok(text) => from_text(system, &text, path),
        Err(error) => {
            let mut manifest = Manifest::new(system, "", path);
            manifest.unparsable(&error.to_string(), None);
            manifest.finish()
        }
    }
}

/// Parses the manifest at `path`.
pub(super) fn from_text(system: &dyn System, text: &str, path: &Path) -> (Settings, Vec<Located>) {
    let mut manifest = Manifest::new(system, text, path);
    match DeTable::parse(text) {
        Ok(document) => manifest.document(document.get_ref()),
        Err(error) => manifest.unparsable(error.message(), error.span()),
    }
    manifest.finish()
}

impl<'a> Manifest<'a> {
    fn new(system: &'a dyn System, text: &str, path: &'a Path) -> Self {
        Self {
            system,
            path,
            shown: manifest_file(system, path, text),
            settings: Settings {
                root: path.parent().map(Path::to_owned),
                cwd: system.work_dir(),
                ..Settings::default()
            },
            queue: Queue::default(),
            problems: Vec::new(),
        }
    }

    fn finish(self) -> (Settings, Vec<Located>) {
        (self.settings, self.problems)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        let code = if diagnostic.code.is_empty() { MANIFEST_ENTRY } else { diagnostic.code };
        let diagnostic = diagnostic.with_code(code);
        self.problems.push(Located { file: Some(self.shown.clone()), diagnostic });
    }

    fn unparsable(&mut self, reason: &str, place: Option<Range<usize>>) {
        let message = format!("failed to parse {}: {}", self.path.display(), reason.trim_end());
        let error = Diagnostic::error(message).with_code(MANIFEST_SYNTAX);
        self.report(match place {
            Some(place) => error.with_label(span(place), ""),
            None => error,
        });
    }

    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let place = span(name.span());
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("check", DeValue::Table(table)) => self.table("check", CHECK, table),
                ("lint", DeValue::Table(table)) => self.table("lint", LINT, table),
                ("fmt", DeValue::Table(table)) => self.table("fmt", FMT, table),
                ("run", DeValue::Table(table)) => self.table("run", RUN, table),
                ("runs", DeValue::Table(table)) => self.table("runs", RUNS, table),
                ("queues", DeValue::Table(table)) => self.queues(table),
                ("workspace", DeValue::Table(table)) => self.table("workspace", WORKSPACE, table),
                ("store", DeValue::Table(table)) => self.table("store", STORE, table),
                ("eval", DeValue::Table(table)) => self.table("eval", EVAL, table),
                ("asset_roots", DeValue::Table(table)) => self.asset_roots(table),
                ("package", DeValue::Table(table)) => self.table("package", PACKAGE, table),
                ("sessions", DeValue::Table(table)) => self.table("sessions", SESSIONS, table),
                ("skills", DeValue::Table(table)) => self.table("skills", SKILLS, table),
                ("hooks", DeValue::Array(hooks)) => self.hooks(hooks),
                ("exports", DeValue::Table(table)) => self.exports(table),
                ("llm", DeValue::Table(_)) => {}
                (
                    known @ ("check" | "lint" | "fmt" | "run" | "runs" | "queues" | "workspace" | "store"
                    | "sessions" | "asset_roots" | "llm" | "eval" | "package" | "skills" | "exports"),
                    _,
                ) => {
                    let message = format!("`{known}` must be a table, got {}", kind(value));
                    let help = format!("write a line `[{known}]`, and its keys below");
                    self.report(Diagnostic::error(message).with_label(place, "").with_help(help));
                }
                (unknown, DeValue::Table(_) | DeValue::Array(_)) if !TABLES.contains(&unknown) => {
                    // Short names that differ by more than a typo are different names.
                    let near = close(unknown, TABLES.iter().copied());
                    let near =
                        near.filter(|near| unknown.len() > 4 || near.len().abs_diff(unknown.len()) <= 1);
                    if let Some(near) = near {
                        let warning =
                            Diagnostic::warning(format!("unknown table `[{unknown}]`: it has no effect"));
                        self.report(
                            warning.with_label(place, "").with_help(format!("did you mean `[{near}]`?")),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    fn table(&mut self, table: &str, keys: &[Key], entries: &DeTable<'_>) {
        for (name, value) in entries {
            // Dashes are accepted for underscores.
            let written = name.get_ref();
            let plain = written.replace('-', "_");
            let place = span(name.span());
            if let Some(key) = keys.iter().find(|key| key.name == plain) {
                if let Err(wrong) = (key.set)(self, value) {
                    self.wrong_value(table, written, value, wrong);
                }
            } else {
                let names = || keys.iter().map(|key| key.name);
                let known = format!("known keys: {}", names().collect::<Vec<_>>().join(", "));
                let near = close(&plain, names());
                let help = near.map_or(known.clone(), |near| format!("did you mean `{near}`? {known}"));
                let key = format!("unknown key `{written}` in [{table}]");
                let found = if REFUSED.contains(&table) || table.starts_with("queues.") {
                    Diagnostic::error(format!("{key}: programs refuse it"))
                } else {
                    Diagnostic::warning(format!("{key}: it has no effect"))
                };
                self.report(found.with_label(place, "").with_help(help));
            }
        }
    }

    /// Reads the limits of the queues.
    fn queues(&mut self, tables: &DeTable<'_>) {
        for (name, value) in tables {
            let written = name.get_ref();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if written.is_empty() || written.len() > 64 || !written.chars().all(fits) {
                let must = "1 to 64 letters, digits, `-`, `_` and `.`";
                let found = Wrong { must, got: format!("{written:?}"), help: None };
                self.wrong_value("queues", "name of a queue", value, found);
                continue;
            }
            let Some(table) = value.get_ref().as_table() else {
                self.wrong_value("queues", written, value, wrong("a table", value));
                continue;
            };
            self.table(&format!("queues.{written}"), QUEUE, table);
            let queue = std::mem::take(&mut self.queue);
            self.settings.queues.insert(written.to_string(), queue);
        }
    }

    /// Checks that hooks have an event and a handler.
    fn hooks(&mut self, hooks: &DeArray<'_>) {
        for hook in hooks {
            let Some(entries) = hook.get_ref().as_table() else { continue };
            self.table("hooks", HOOK, entries);
            for needed in ["event", "handler"] {
                if entries.get(needed).is_none() {
                    let error = Diagnostic::error(format!("[[hooks]] needs `{needed}`"));
                    self.report(error.with_label(span(hook.span()), ""));
                }
            }
        }
    }

    /// Checks the modules that a package exports by name.
    fn exports(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let name = name.get_ref();
            match value.get_ref().as_str() {
                Some(path) if self.system.is_file(&self.path.with_file_name(path)) => {}
                Some(path) => {
                    let message = format!("[exports] {name}: file not found: {path}");
                    self.report(Diagnostic::error(message).with_label(span(value.span()), ""));
                }
                None => self.wrong_value("exports", name, value, wrong("the path of a module", value)),
            }
        }
    }

    fn wrong_value(&mut self, table: &str, key: &str, value: &Spanned<DeValue<'_>>, wrong: Wrong) {
        let message = format!("[{table}] {key} must be {}, got {}", wrong.must, wrong.got);
        let mut error = Diagnostic::error(message).with_label(span(value.span()), "");
        error.help = wrong.help;
        self.report(error);
    }

    /// Checks the evaluation packs of the package, which `harn test package --evals` runs.
    fn evals(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let must = "a list of paths of packs";
        let entries = texts(value, must)?;
        for (path, place) in &entries {
            if !self.system.is_file(&self.path.with_file_name(path)) {
                let message = format!("[package] evals: file not found: {path}");
                self.report(Diagnostic::error(message).with_label(*place, ""));
            }
        }
        match entries.is_empty() {
            true => Err(Wrong { got: "an empty list".to_owned(), ..wrong(must, value) }),
            false => Ok(()),
        }
    }

    /// Checks the named lists of models for `harn eval prompt --fleet`.
    fn fleets(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let example = "as in `[eval.fleets.small]` with `models = [\"openai:gpt-4o-mini\"]` below";
        let fleets = value.get_ref().as_table();
        let fleets = fleets.ok_or_else(|| wrong("a table of fleets", value).help(example))?;
        for (name, fleet) in fleets {
            let models = fleet.get_ref().as_table().and_then(|fleet| fleet.get("models"));
            let models = models.and_then(|models| models.get_ref().as_array());
            let is_model = |model: &Spanned<DeValue<'_>>| model.get_ref().as_str().is_some();
            if !models.is_some_and(|models| !models.is_empty() && models.iter().all(is_model)) {
                let name = name.get_ref();
                let message = format!("[eval.fleets.{name}] models must be a list of names of models");
                let error = Diagnostic::error(message).with_label(span(fleet.span()), "");
                self.report(error.with_help(example.to_owned()));
            }
        }
        Ok(())
    }

    fn asset_roots(&mut self, roots: &DeTable<'_>) {
        for (alias, value) in roots {
            let alias = alias.get_ref();
            let place = span(value.span());
            match value.get_ref().as_str() {
                Some(folder) if harn_template::is_project_path(folder) => {}
                Some(folder) => {
                    let problem = harn_template::ErrorKind::UnsafeAlias {
                        alias: alias.to_string(),
                        value: folder.to_owned(),
                    };
                    self.report(Diagnostic::error(problem.to_string()).with_label(place, ""));
                }
                None => {
                    let message = format!(
                        "[asset_roots] {alias} must be the path of a folder of the project, got {}",
                        kind(value)
                    );
                    let help = format!("as in `{alias} = \"prompts\"`");
                    self.report(Diagnostic::error(message).with_label(place, "").with_help(help));
                }
            }
        }
    }

    fn bundle_root(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let Some(folder) = value.get_ref().as_str() else {
            return Err(wrong("the path of a folder", value).help("as in `bundle_root = \"dist\"`"));
        };
        let root = self.settings.root.as_deref().unwrap_or(Path::new("")).join(folder);
        if !self.system.is_dir(&root) {
            let message = format!("[check] bundle_root: directory not found: {}", root.display());
            self.report(Diagnostic::warning(message).with_label(span(value.span()), ""));
        }
        self.settings.bundle_root = Some(root);
        Ok(())
    }

    fn host_capabilities(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let Some(table) = value.get_ref().as_table() else {
            let help = "as in `[check.host_capabilities]` with `notes = [\"list\"]` below";
            return Err(wrong("a table of capabilities", value).help(help));
        };
        match capabilities::of_table(table) {
            Ok(operations) => self.settings.host_operations.extend(operations),
            Err((wrong, place)) => {
                let message = format!("[check] host_capabilities: {wrong}");
                self.report(Diagnostic::error(message).with_label(span(place), ""));
            }
        }
        Ok(())
    }

    fn host_capabilities_path(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let Some(file) = value.get_ref().as_str() else {
            return Err(wrong("the path of a JSON or TOML file", value));
        };
        let path = self.settings.root.as_deref().unwrap_or(Path::new("")).join(file);
        match capabilities::read_operations(self.system, &path) {
            Ok(operations) => self.settings.host_operations.extend(operations),
            Err(wrong) => {
                let message = format!("[check] host_capabilities_path: cannot read {file}: {wrong}");
                self.report(Diagnostic::error(message).with_label(span(value.span()), ""));
            }
        }
        Ok(())
    }

    fn pipelines(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        for (path, _) in texts(value, "a list of paths")? {
            self.settings.pipelines.push(self.path.with_file_name(path));
        }
        Ok(())
    }

    fn allow(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let must = "a list of operations such as \"editor.open\", \"editor.*\" or \"*\"";
        let entries = value.get_ref().as_array().ok_or_else(|| wrong(must, value))?;
        for entry in entries.iter() {
            let text = entry.get_ref().as_str().filter(|text| !text.trim().is_empty());
            let text =
                text.ok_or_else(|| Wrong { got: format!("{} in it", kind(entry)), ..wrong(must, entry) })?;
            self.settings.preflight_allow.push(text.to_owned());
        }
        Ok(())
    }

    fn rules(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let must = "a list of rule names";
        let Some(entries) = value.get_ref().as_array() else {
            let example = value.get_ref().as_str().unwrap_or("template-parse");
            return Err(wrong(must, value).help(&format!("put brackets around it: `[\"{example}\"]`")));
        };
        for entry in entries.iter() {
            let Some(text) = entry.get_ref().as_str() else {
                return Err(Wrong { got: format!("{} in it", kind(entry)), ..wrong(must, entry) });
            };
            let filter = RuleFilter::parse(text);
            let known = || {
                let templates = harn_template::RULES.iter().map(|rule| rule.name);
                templates.chain(CODES.iter().map(|entry| entry.code))
            };
            if !known().any(|name| name == filter.rule) {
                let message = format!("no rule is named `{}`", filter.rule);
                let mut warning = Diagnostic::warning(message).with_label(span(entry.span()), "");
                warning.help = close(&filter.rule, known()).map(|near| format!("did you mean `{near}`?"));
                self.report(warning);
            }
            self.settings.disabled.push(filter);
        }
        Ok(())
    }
}

impl Wrong {
    fn help(self, text: &str) -> Self {
        Self { help: Some(text.to_owned()), ..self }
    }
}

/// Returns the strings of a list, each with its span.
fn texts<'v>(value: &'v Spanned<DeValue<'_>>, must: &'static str) -> Result<Vec<(&'v str, Span)>, Wrong> {
    let entries = value.get_ref().as_array().ok_or_else(|| wrong(must, value))?;
    let text = |entry: &'v Spanned<DeValue<'_>>| match entry.get_ref().as_str() {
        Some(text) => Ok((text, span(entry.span()))),
        None => Err(Wrong { got: format!("{} in it", kind(entry)), ..wrong(must, entry) }),
    };
    entries.iter().map(text).collect()
}

/// The requirement for a threshold.
const COUNT: &str = "a whole number, 0 or more";

fn string<'v>(value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| wrong("a string", value))
}

fn is_table(value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
    value.get_ref().as_table().map(|_| ()).ok_or_else(|| wrong("a table", value))
}

fn boolean(value: &Spanned<DeValue<'_>>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| wrong("true or false", value))
}

fn whole(value: &Spanned<DeValue<'_>>, must: &'static str) -> Result<usize, Wrong> {
    let number = value.get_ref().as_integer().ok_or_else(|| wrong(must, value))?;
    usize::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| Wrong { got: number.to_string(), ..wrong(must, value) })
}

/// Checks a number of columns.
fn width(value: &Spanned<DeValue<'_>>) -> Result<usize, Wrong> {
    let must = "a number of columns from 20 to 1000";
    match whole(value, must)? {
        columns @ 20..=1000 => Ok(columns),
        other => Err(Wrong { got: other.to_string(), ..wrong(must, value) }),
    }
}

fn severity(value: &Spanned<DeValue<'_>>) -> Result<PreflightSeverity, Wrong> {
    let must = "\"error\", \"warning\" or \"off\"";
    let Some(text) = value.get_ref().as_str() else { return Err(wrong(must, value)) };
    PreflightSeverity::parse(text).ok_or_else(|| Wrong { got: format!("\"{text}\""), ..wrong(must, value) })
}

/// Checks the address of a database. It is not displayed, because it may contain a password.
fn address(value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
    let must = "an address such as \"postgres://user@host/database\"";
    let text = value.get_ref().as_str().ok_or_else(|| wrong(must, value))?;
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(());
    }
    Err(Wrong { got: "text of another kind".to_owned(), ..wrong(must, value) })
}

fn wrong(must: &'static str, value: &Spanned<DeValue<'_>>) -> Wrong {
    Wrong { must, got: kind(value).to_owned(), help: None }
}

/// Returns the type of a value, for messages.
fn kind(value: &Spanned<DeValue<'_>>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn span(range: Range<usize>) -> Span {
    Span::new(range.start as u32, range.end as u32)
}
