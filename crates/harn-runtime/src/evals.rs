//! Evaluates run records, suites and packs from files.

use std::path::{Path, PathBuf};

use harn_agent::evals::{self, Reader};
use harn_agent::workflow::fixture as pure;
use harn_system::{System, SystemExt};
use harn_value::{Data as Json, json};

/// Maximum size of a JSON or TOML file: 1 GiB, as for records.
const MAX_FILE: u64 = 1 << 30;

/// Files below a directory, and the sources of fields that records lack.
pub(crate) struct Files<'a> {
    pub(crate) system: &'a dyn System,
    /// The directory.
    pub(crate) base: PathBuf,
    pub(crate) now: &'a dyn Fn() -> String,
    pub(crate) ids: &'a dyn Fn() -> String,
}

impl Files<'_> {
    fn below(&self, path: &str) -> String {
        self.base.join(path).display().to_string()
    }

    /// Evaluates a manifest returned by [`suite_manifest`].
    ///
    /// # Errors
    /// A message for the user.
    pub(crate) fn suite(&self, manifest: &Json) -> Result<Json, String> {
        let mut cases = Vec::new();
        for case in manifest["cases"].as_array().into_iter().flatten() {
            let run_of = |key: &str| case[key].as_str().map_or(Ok(Json::Null), |path| self.run(path));
            let fixture = match case["fixture_path"].as_str() {
                None => Json::Null,
                Some(path) => self.json(path).and_then(|found| {
                    let wrong = format!("{path} is no fixture (run_record_fixture makes one)");
                    if pure::is_fixture(&found) { Ok(found) } else { Err(wrong) }
                })?,
            };
            cases.push(json!({
                "run": run_of("run_path")?, "fixture": fixture, "baseline": run_of("compare_to")?,
                "label": case["label"], "path": case["run_path"],
            }));
        }
        Ok(pure::suite(&cases))
    }
}

impl Reader for Files<'_> {
    fn run(&self, path: &str) -> Result<Json, String> {
        let path = self.below(path);
        let run = crate::workflow::load(self.system, &path)?;
        self.inline_run(&run).map_err(|error| format!("{path}: {error}"))
    }

    fn inline_run(&self, run: &Json) -> Result<Json, String> {
        pure::normalise(run, &(self.now)(), self.ids)
    }

    fn json(&self, path: &str) -> Result<Json, String> {
        json_file(self.system, &self.below(path))
    }

    fn millis(&self, moment: &str) -> Option<i64> {
        moment.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
    }
}

fn json_file(system: &dyn System, path: &str) -> Result<Json, String> {
    let file = system.work_dir().join(path);
    let bytes = system.read(&file, MAX_FILE).map_err(|e| format!("cannot read {path}: {e}"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{path} is not valid JSON: {e}"))
}

/// Reads the manifest of a suite, filling in defaults.
///
/// # Errors
/// A message that starts with the location.
pub(crate) fn suite_manifest(given: &Json) -> Result<Json, String> {
    if !given.is_object() {
        return Err("manifest must be a dict".to_owned());
    }
    let cases = match &given["cases"] {
        Json::Null => Vec::new(),
        Json::Array(cases) => cases.clone(),
        _ => return Err("cases must be a list".to_owned()),
    };
    let mut read = Vec::with_capacity(cases.len());
    for (at, case) in cases.iter().enumerate() {
        let path = |key: &str| match &case[key] {
            text @ (Json::Null | Json::String(_)) => Ok(text.clone()),
            _ => Err(format!("cases[{at}].{key} must be a path")),
        };
        let run = path("run_path")?;
        if run.is_null() {
            return Err(format!("cases[{at}].run_path is required"));
        }
        let label = if case["label"].is_null() { run.clone() } else { case["label"].clone() };
        read.push(json!({
            "label": label, "run_path": run, "fixture_path": path("fixture_path")?, "compare_to": path("compare_to")?,
        }));
    }
    Ok(json!({
        "_type": "eval_suite_manifest", "id": given["id"], "name": given["name"], "base_dir": given["base_dir"],
        "cases": read,
    }))
}

/// Maximum length of a configuration in bytes, because the TOML parser cannot be interrupted.
const LONGEST_CONFIGURATION: usize = 4 << 20;

/// # Errors
/// The configuration is too long to be parsed.
pub(crate) fn check_size(source: &str) -> Result<(), String> {
    if source.len() > LONGEST_CONFIGURATION {
        return Err(format!("it has {} bytes; the limit is {LONGEST_CONFIGURATION}", source.len()));
    }
    Ok(())
}

/// Parses a TOML document.
///
/// # Errors
/// A message with the location.
pub(crate) fn toml_data(source: &str) -> Result<Json, String> {
    check_size(source)?;
    let table: toml::Table = source.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = source[..at].matches('\n').count() + 1;
        format!("that is no TOML (line {line}): {}", error.message())
    })?;
    Ok(Json::lossy(&table))
}

/// The report of an evaluated file.
pub enum Evaluation {
    /// The record of one run: `{pass, failures, stage_count, …}`, the case of a suite.
    Run(Json),
    /// The report of a suite, or of a directory of records.
    Suite(Json),
    /// The report of a pack.
    Pack(Json),
}

/// Evaluates a path: a run record, a directory of records, the manifest of a suite, or a pack. `baseline` is the record
/// (or, for a directory, the directory of records) to compare with.
///
/// # Errors
/// A message for the user.
pub fn evaluate_path(system: &dyn System, path: &str, baseline: Option<&str>) -> Result<Evaluation, String> {
    let file = system.work_dir().join(path);
    if system.is_dir(&file) {
        return folder(system, path, baseline).map(Evaluation::Suite);
    }
    let is_toml = file.extension().is_some_and(|word| word == "toml");
    if is_toml {
        if baseline.is_some() {
            return Err(NO_COMPARE.to_owned());
        }
        return evaluate_pack_file(system, path).map(Evaluation::Pack);
    }
    let found = json_file(system, path)?;
    match found["_type"].as_str() {
        Some("run_record") => {
            let report = records(system, &[path.to_owned()], |_| Ok(baseline.map(str::to_owned)))?;
            Ok(Evaluation::Run(report["cases"][0].clone()))
        }
        Some("eval_suite_manifest") => {
            let mut manifest = suite_manifest(&found).map_err(|error| format!("{path}: {error}"))?;
            // The path of the baseline is relative to the working directory of the command.
            if let Some(baseline) = baseline {
                let baseline = system.work_dir().join(baseline).display().to_string();
                for case in manifest["cases"].as_array_mut().into_iter().flatten() {
                    if case["compare_to"].is_null() {
                        case["compare_to"] = baseline.as_str().into();
                    }
                }
            }
            let base = base_of(path, &manifest["base_dir"]);
            files(system, base).suite(&manifest).map(Evaluation::Suite)
        }
        kind => {
            let found = kind.map_or_else(|| "without `_type`".to_owned(), |kind| format!("of type {kind}"));
            let known = "a run record or a suite manifest (`_type`: run_record, eval_suite_manifest), or an eval pack (TOML)";
            Err(format!("cannot evaluate {path}: it is JSON {found}; expected {known}"))
        }
    }
}

/// The error message for `--compare` with a pack.
pub const NO_COMPARE: &str = "--compare is not supported with eval pack manifests";

/// Evaluates a pack in TOML; its paths are relative to its directory, or to `base_dir` within it.
///
/// # Errors
/// A message with the file.
pub fn evaluate_pack_file(system: &dyn System, path: &str) -> Result<Json, String> {
    let file = system.work_dir().join(path);
    let bytes = system.read(&file, MAX_FILE).map_err(|e| format!("cannot read {path}: {e}"))?;
    let inside = |error: String| format!("{path}: {error}");
    let source = String::from_utf8(bytes).map_err(|_| inside("not valid UTF-8".to_owned()))?;
    let pack = evals::manifest(&toml_data(&source).map_err(inside)?).map_err(inside)?;
    evals::evaluate(&pack, &files(system, base_of(path, &pack["base_dir"]))).map_err(inside)
}

fn base_of(path: &str, base: &Json) -> PathBuf {
    Path::new(path).parent().unwrap_or(Path::new("")).join(base.as_str().unwrap_or_default())
}

fn files(system: &dyn System, base: PathBuf) -> Files<'_> {
    // Missing fields are not generated, so that reports of the same files are identical.
    Files { system, base, now: &String::new, ids: &String::new }
}

/// Evaluates records, each with its baseline.
fn records(
    system: &dyn System,
    paths: &[String],
    baseline: impl Fn(&str) -> Result<Option<String>, String>,
) -> Result<Json, String> {
    let case = |path: &String| Ok(json!({"label": path, "run_path": path, "compare_to": baseline(path)?}));
    let cases = paths.iter().map(case).collect::<Result<Vec<Json>, String>>()?;
    files(system, PathBuf::new()).suite(&json!({"cases": cases}))
}

/// Evaluates the records in a directory and its subdirectories. Other JSON files are ignored.
fn folder(system: &dyn System, folder: &str, baseline: Option<&str>) -> Result<Json, String> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(folder)];
    while let Some(dir) = open.pop() {
        let names = system
            .names(&system.work_dir().join(&dir))
            .map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
        for path in names.into_iter().map(|name| dir.join(name)) {
            let place = system.work_dir().join(&path);
            // A link could lead to a cycle.
            if system.is_dir(&place) && !system.link_facts(&place).is_ok_and(|facts| facts.is_link()) {
                open.push(path);
            } else if path.extension().is_some_and(|word| word == "json") {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort_unstable();
    let mut paths = Vec::new();
    for path in found {
        // An unreadable file is an error, because it may be a damaged record.
        if json_file(system, &path)?["_type"] == "run_record" {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let pack = Path::new(folder).join(PACK_FILE);
        let hint = if system.is_file(&system.work_dir().join(&pack)) {
            format!("; there is a pack: {}", pack.display())
        } else {
            String::new()
        };
        return Err(format!("there are no run records in {folder}{hint}"));
    }
    let other = |path: &str| -> Result<Option<String>, String> {
        let Some(baseline) = baseline else { return Ok(None) };
        if !system.is_dir(&system.work_dir().join(baseline)) {
            return Ok(Some(baseline.to_owned()));
        }
        let inside = Path::new(path).strip_prefix(folder).unwrap_or(Path::new(path));
        Ok(Some(Path::new(baseline).join(inside).display().to_string()))
    };
    records(system, &paths, other)
}

/// The file name of a project's pack.
pub(crate) const PACK_FILE: &str = "harn.eval.toml";
