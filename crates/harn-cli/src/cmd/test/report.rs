//! Reports about the tests of a project: as text, JSON and JUnit XML.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_system::Stream;
use harn_value::json;

use super::Times;
use super::coverage::Coverage;
use super::find::Test;
use crate::args::TestArgs;
use crate::conformance::junit;
use crate::style::Colour;

/// Number of listed slowest tests.
const SLOWEST: usize = 10;

/// The outcome of a test.
pub(super) enum Fate {
    Passed,
    /// With the failure message.
    Failed(String),
    /// With the limit in milliseconds.
    TimedOut(u64),
}

impl Fate {
    fn message(&self) -> Option<String> {
        match self {
            Fate::Passed => None,
            Fate::Failed(text) => Some(text.trim_end().to_owned()),
            Fate::TimedOut(limit) => Some(format!("error: timed out after {limit}ms")),
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Fate::Passed => "passed",
            Fate::Failed(_) => "failed",
            Fate::TimedOut(_) => "timed_out",
        }
    }
}

/// A completed test.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) time: Duration,
    pub(super) fate: Fate,
    /// The captured output.
    pub(super) output: String,
}

/// `Running 3 tests from 1 file...`
pub(super) fn head(tests: &[Test]) -> String {
    let files = tests.iter().map(|test| &test.path).collect::<BTreeSet<_>>().len();
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    format!("Running {} from {}...\n\n", count(tests.len(), "test"), count(files, "file"))
}

/// Writes all requested reports.
///
/// # Errors
/// A message about a file that cannot be written.
pub(super) fn write(
    args: &TestArgs,
    root: &Path,
    outcomes: &[Outcome],
    total: Duration,
    coverage: Option<&Coverage>,
) -> Result<(), String> {
    if args.json {
        crate::out::write(&format!("{}\n", document(root, outcomes, total, coverage)));
    } else if !outcomes.is_empty() {
        crate::out::write(&text(args, outcomes, total));
        crate::out::write(&coverage.map_or_else(String::new, Coverage::table));
    }
    if let Some(path) = &args.junit {
        let names: Vec<String> =
            outcomes.iter().map(|o| format!("{} [{}]", o.name, o.path.display())).collect();
        let failures: Vec<Option<String>> = outcomes.iter().map(|o| o.fate.message()).collect();
        let rows: Vec<junit::Row<'_>> = names
            .iter()
            .zip(outcomes)
            .zip(&failures)
            .map(|((name, outcome), failure)| (name.as_str(), outcome.time, failure.as_deref()))
            .collect();
        super::write_report(path, &junit::report(&rows))?;
        if !args.json {
            crate::out::write(&format!("JUnit XML written to {}\n", path.display()));
        }
    }
    if let Some(path) = &args.json_out {
        super::write_report(path, &format!("{}\n", document(root, outcomes, total, coverage)))?;
    }
    if let (Some(path), Some(coverage)) = (&args.coverage_out, coverage) {
        super::write_report(path, &coverage.lcov())?;
        if !args.json {
            crate::out::write(&format!("LCOV written to {}\n", path.display()));
        }
    }
    Ok(())
}

fn text(args: &TestArgs, outcomes: &[Outcome], total: Duration) -> String {
    let colour = Colour::of(Stream::Output);
    let mut out = String::new();
    // A compile error is the same for every test of a file.
    let mut told: BTreeMap<(&Path, String), &str> = BTreeMap::new();
    for outcome in outcomes {
        let failure = outcome.fate.message();
        let mark = if failure.is_none() { colour.good("PASS") } else { colour.error("FAIL") };
        let name = format!("{} [{}]", outcome.name, outcome.path.display());
        let time = if failure.is_none() || args.verbose || args.timing {
            format!(" ({} ms)", outcome.time.as_millis())
        } else {
            String::new()
        };
        let _ = writeln!(out, "  {mark}  {}{time}", harn_syntax::printable_name(&name));
        match failure.clone().map(|text| told.entry((&*outcome.path, text))) {
            Some(Entry::Occupied(first)) => {
                indented(&mut out, &format!("the same error as in {}", first.get()), 8);
            }
            Some(Entry::Vacant(new)) => {
                indented(&mut out, &new.key().1, 8);
                new.insert(&outcome.name);
            }
            None => {}
        }
        if (failure.is_some() || args.verbose) && !outcome.output.is_empty() {
            out += "        output:\n";
            indented(&mut out, &outcome.output, 10);
        }
    }
    let passed = outcomes.iter().filter(|outcome| matches!(outcome.fate, Fate::Passed)).count();
    let failed = outcomes.len() - passed;
    let failures = if failed > 0 { format!("{failed} failed, ") } else { String::new() };
    let _ = writeln!(out, "\n{passed} passed, {failures}{} total ({} ms)", outcomes.len(), total.as_millis());
    if args.timing {
        timing(&mut out, outcomes, total);
    }
    out
}

fn timing(out: &mut String, outcomes: &[Outcome], total: Duration) {
    let times = Times::of(outcomes.iter().map(|outcome| outcome.time));
    let _ = write!(
        out,
        "\nTotal time: {} ms\nPer-test: avg={} ms  p50={} ms  p95={} ms  p99={} ms\n",
        total.as_millis(),
        times.average,
        times.at(50),
        times.at(95),
        times.at(99)
    );
    let mut slowest: Vec<&Outcome> = outcomes.iter().collect();
    slowest.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    slowest.truncate(SLOWEST);
    let _ = writeln!(out, "\nSlowest {} tests:", slowest.len());
    for outcome in slowest {
        let _ = writeln!(
            out,
            "  {:>6} ms  {} [{}]",
            outcome.time.as_millis(),
            outcome.name,
            outcome.path.display()
        );
    }
}

fn indented(out: &mut String, text: &str, columns: usize) {
    for line in text.trim_end().lines() {
        let line = harn_syntax::printable(line);
        let _ = match line.is_empty() {
            true => writeln!(out),
            false => writeln!(out, "{:columns$}{line}", ""),
        };
    }
}

fn document(
    root: &Path,
    outcomes: &[Outcome],
    total: Duration,
    coverage: Option<&Coverage>,
) -> harn_value::Data {
    let times = Times::of(outcomes.iter().map(|outcome| outcome.time));
    let count = |word: &str| outcomes.iter().filter(|outcome| outcome.fate.word() == word).count();
    let cases: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let mut case = json!({
                "name": outcome.name,
                "file": outcome.path.display().to_string(),
                "classname": outcome.path.with_extension("").display().to_string().replace(['/', '\\'], "."),
                "outcome": outcome.fate.word(),
                "duration_ms": outcome.time.as_millis() as u64,
            });
            if let Some(message) = outcome.fate.message() {
                case["message"] = message.into();
            }
            if let Fate::TimedOut(limit) = outcome.fate {
                case["timeout"] = json!({"phase": "run", "limit_ms": limit});
            }
            case
        })
        .collect();
    let mut document = json!({
        "schemaVersion": super::SCHEMA_VERSION,
        "suite": "user",
        "root": root.display().to_string(),
        "duration_ms": total.as_millis() as u64,
        "timing": {
            "sample_count": outcomes.len(),
            "average_ms": times.average,
            "p50_ms": times.at(50),
            "p90_ms": times.at(90),
            "p95_ms": times.at(95),
            "p99_ms": times.at(99),
        },
        "summary": {
            "total": outcomes.len(),
            "passed": count("passed"),
            "failed": count("failed"),
            "timed_out": count("timed_out"),
            "skipped": 0,
        },
        "cases": cases,
    });
    if let Some(coverage) = coverage {
        document["coverage"] = coverage.json();
    }
    document
}
