//! `harn test conformance`: runs the suite in `./conformance` and reports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_value::json;

use harn_system::{Real, Stream, System, SystemExt};

use super::Times;
use crate::args::{TestArgs, usage_error};
use crate::conformance::captured::{How, Replies};
use crate::conformance::case::{self, Case};
use crate::conformance::filter::Filter;
use crate::conformance::junit;
use crate::conformance::run::{self, Result as CaseResult};
use crate::style::Colour;

/// The directory of the suite.
const ROOT: &str = "conformance";

/// Number of listed slowest cases.
const SLOWEST: usize = 10;

/// Runs the suite. Returns 1 if a case failed.
pub(super) fn test(args: &TestArgs) -> u8 {
    let filter = Filter::parse(args.filter.as_deref()).unwrap_or_else(|text| usage_error("test", &text));
    match select(args.selection.as_deref(), &filter).and_then(|cases| report(args, &cases)) {
        Ok(failed) => u8::from(failed),
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            1
        }
    }
}

/// Returns the cases that match the selection and the filter.
fn select(selection: Option<&Path>, filter: &Filter) -> Result<Vec<Case>, String> {
    let root = PathBuf::from(ROOT);
    if !Real::new().is_dir(&root) {
        return Err(format!("Directory not found: {ROOT}"));
    }
    let target = match selection {
        None => root.clone(),
        Some(given) => inside(&root, given)?,
    };
    let cases: Vec<Case> =
        case::find(&root, &target)?.into_iter().filter(|c| filter.takes(&c.name)).collect();
    if cases.is_empty() {
        return Err(format!("No .harn conformance tests found under {}", target.display()));
    }
    Ok(cases)
}

/// Resolves a selection, which is relative to the current directory or to the suite, and must be inside of the suite.
fn inside(root: &Path, given: &Path) -> Result<PathBuf, String> {
    let shown = given.display();
    let system = Real::new();
    let path = [given.to_owned(), root.join(given)].into_iter().find(|path| system.exists(path)).ok_or_else(
        || format!("Conformance target not found: {shown}. Expected a file or directory under {ROOT}"),
    )?;
    let absolute =
        |path: &Path| system.canonical(path).map_err(|e| format!("cannot read {}: {e}", path.display()));
    let (whole, part) = (absolute(root)?, absolute(&path)?);
    let Ok(relative) = part.strip_prefix(&whole) else {
        return Err(format!("Conformance target must be inside {ROOT}: {shown}"));
    };
    if !system.is_dir(&part) && part.extension().is_none_or(|e| e != "harn") {
        return Err(format!("Conformance target must be a .harn file or directory: {shown}"));
    }
    Ok(root.join(relative))
}

/// Runs the cases and writes all reports. Returns whether a case failed.
fn report(args: &TestArgs, cases: &[Case]) -> Result<bool, String> {
    let jobs = super::jobs(args);
    let clock = Real::new();
    let how = match (args.in_memory, args.journal, args.determinism) {
        (true, ..) => How::Memory,
        (_, true, _) => How::Journal { kills: args.kills },
        (.., true) => How::Twice,
        _ => How::Real,
    };
    let limit = Duration::from_millis(args.timeout);
    let replies = match (args.record, args.replay) {
        (true, _) => Replies::Record(super::one::replies()),
        (_, true) => Replies::Replay(super::one::replies()),
        _ => Replies::None,
    };
    let results = run::run(cases, jobs, limit, how, &replies, &args.skill_dirs);
    let total = clock.monotonic();
    let failed = results.iter().filter(|r| r.failure.is_some()).count();
    let text = if args.json { json_text(&results, total) } else { plain_text(args, &results, total) };
    {
        // The reader may close the pipe; the exit code still reports the result.
        crate::out::write(&text);
    }
    if let Some(path) = &args.junit {
        let rows: Vec<junit::Row> =
            results.iter().map(|r| (r.name.as_str(), r.time, r.failure.as_deref())).collect();
        super::write_report(path, &junit::report(&rows))?;
        if !args.json {
            crate::out::write(&format!("JUnit XML written to {}\n", path.display()));
        }
    }
    if let Some(path) = &args.json_out {
        super::write_report(path, &json_text(&results, total))?;
    }
    Ok(failed > 0)
}

fn plain_text(args: &TestArgs, results: &[CaseResult], total: Duration) -> String {
    let colour = Colour::of(Stream::Output);
    let mut out = String::new();
    for result in results {
        let mark = if result.failure.is_none() { colour.good("PASS") } else { colour.error("FAIL") };
        let time = if args.verbose || args.timing {
            format!(" ({} ms)", result.time.as_millis())
        } else {
            String::new()
        };
        out += &format!("  {mark}  {}{time}\n", result.name);
    }
    let failures: Vec<&CaseResult> = results.iter().filter(|r| r.failure.is_some()).collect();
    let passed = results.len() - failures.len();
    out += &format!("\n{passed} passed, {} failed, {} total\n", failures.len(), results.len());
    if args.timing {
        out += &timing_text(results, total);
    }
    if !failures.is_empty() {
        out += "\nFailures:\n";
        for result in failures {
            out += &format!("  {}\n", result.name);
            for line in result.failure.as_deref().unwrap_or_default().lines() {
                out += &format!("    {line}\n");
            }
        }
    }
    out
}

fn timing_text(results: &[CaseResult], total: Duration) -> String {
    let times = Times::of(results.iter().map(|r| r.time));
    let mut out = format!(
        "\nTotal time: {} ms\nPer-test: avg={} ms  p50={} ms  p95={} ms  p99={} ms\n",
        total.as_millis(),
        times.average,
        times.at(50),
        times.at(95),
        times.at(99)
    );
    let mut slowest: Vec<&CaseResult> = results.iter().collect();
    slowest.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    slowest.truncate(SLOWEST);
    out += &format!("\nSlowest {} tests:\n", slowest.len());
    for result in slowest {
        out += &format!("  {:>6} ms  {}\n", result.time.as_millis(), result.name);
    }
    out
}

fn json_text(results: &[CaseResult], total: Duration) -> String {
    let failed = results.iter().filter(|r| r.failure.is_some()).count();
    let times = Times::of(results.iter().map(|r| r.time));
    let rows: Vec<_> = results
        .iter()
        .map(|r| {
            json!({
                "name": r.name,
                "outcome": if r.failure.is_none() { "pass" } else { "fail" },
                "duration_ms": r.time.as_millis() as u64,
                "message": r.failure,
            })
        })
        .collect();
    let error = (failed > 0).then(
        || json!({"code": "tests_failed", "message": format!("{failed} tests failed"), "details": null}),
    );
    let document = json!({
        "schemaVersion": super::SCHEMA_VERSION,
        "ok": failed == 0,
        "data": {
            "results": rows,
            "summary": {"pass": results.len() - failed, "fail": failed, "skipped": 0},
            "timing": {
                "total_ms": total.as_millis() as u64,
                "average_ms": times.average,
                "p50_ms": times.at(50),
                "p95_ms": times.at(95),
                "p99_ms": times.at(99),
            },
        },
        "error": error,
        "warnings": [],
    });
    format!("{document}\n")
}
