//! `harn eval`: evaluates run records. `experiment.rs` runs a program with and without a structural experiment,
//! `prompt.rs` compares one template across models.

mod experiment;
mod html;
mod prompt;

use std::fmt::Write as _;

use harn_runtime::{Evaluation, NO_COMPARE, evaluate_pack_file, evaluate_path, package_packs};
use harn_system::{Real, SystemExt};
use harn_value::{Data as Value, json};

use super::providers::{envelope, fail, print};
use super::runs::{differences, line};
use crate::args::{EvalArgs, EvalCommand, TestArgs, usage_error};

/// Evaluates records. Returns 1 if a check failed.
pub(crate) fn eval(args: &EvalArgs) -> u8 {
    if let Some(EvalCommand::Prompt(prompt)) = &args.command {
        return prompt::prompt(prompt);
    }
    let Some(path) = &args.path else { usage_error("eval", "there is nothing to evaluate") };
    let is_program = path.extension().is_some_and(|word| word == "harn");
    match &args.structural_experiment {
        Some(spec) if is_program => return experiment::experiment(args, path, spec),
        Some(_) => usage_error("eval", "--structural-experiment needs a program: a file that ends in .harn"),
        None if is_program => {
            let text = format!(
                "a program is evaluated with --structural-experiment SPEC; `harn run {}` runs it",
                path.display()
            );
            usage_error("eval", &text)
        }
        None => {}
    }
    let system = Real::new();
    for path in [Some(path), args.compare.as_ref()].into_iter().flatten() {
        if !system.exists(path) {
            return failed(
                "no_such_path",
                &format!("Run path does not exist: {}", path.display()),
                args.json,
            );
        }
    }
    let (path, baseline) =
        (path.display().to_string(), args.compare.as_ref().map(|path| path.display().to_string()));
    match evaluate_path(&system, &path, baseline.as_deref()) {
        Ok(found) => {
            let (text, data) = match found {
                Evaluation::Run(case) => (of_run(&case), case),
                Evaluation::Suite(report) | Evaluation::Pack(report) => (of_many(&report, ""), report),
            };
            tell(&text, &data, args.json)
        }
        Err(text) if text == NO_COMPARE => usage_error("eval", &text),
        Err(text) => failed("not_evaluated", &text, args.json),
    }
}

/// `harn test package --evals`.
pub(crate) fn package(args: &TestArgs) -> u8 {
    match args.target.as_deref() {
        Some("package") if args.evals => {}
        Some("package") => {
            usage_error("test", "`harn test package` needs --evals: it evaluates the packs of the package")
        }
        _ => usage_error("test", "the argument '--evals' can only be used with `package`"),
    }
    let others = [
        ("a selection", args.selection.is_some()),
        ("--filter", args.filter.is_some()),
        ("--watch", args.watch),
        ("--record", args.record),
        ("--replay", args.replay),
        ("--determinism", args.determinism),
        ("--coverage", args.coverage || args.coverage_out.is_some()),
        ("--update-snapshots", args.update_snapshots),
        ("--junit", args.junit.is_some()),
        ("--json-out", args.json_out.is_some()),
        ("--in-memory", args.in_memory),
        ("--journal", args.journal),
        ("--skill-dir", !args.skill_dirs.is_empty()),
    ];
    if let Some((name, _)) = others.iter().find(|(_, given)| *given) {
        usage_error("test", &format!("{name} cannot be used with `package`"));
    }
    let system = Real::new();
    let reports = package_packs(&system, &system.work_dir()).and_then(|packs| {
        let one = |path: &String| evaluate_pack_file(&system, path).map(|report| (path.clone(), report));
        packs.iter().map(one).collect::<Result<Vec<(String, Value)>, String>>()
    });
    match reports {
        Err(text) => failed("not_evaluated", &text, args.json),
        Ok(reports) => {
            let text: String = reports.iter().map(|(path, report)| of_many(report, path)).collect();
            let pass = reports.iter().all(|(_, report)| report["pass"] == true);
            let packs = reports.into_iter().map(|(path, mut report)| {
                report["path"] = path.into();
                report
            });
            tell(&text, &json!({"pass": pass, "packs": packs.collect::<Vec<_>>()}), args.json)
        }
    }
}

fn tell(text: &str, data: &Value, as_json: bool) -> u8 {
    print(&if as_json { envelope(data) } else { text.to_owned() });
    u8::from(data["pass"] != true)
}

fn failed(code: &str, text: &str, as_json: bool) -> u8 {
    fail(code, &harn_syntax::printable(text), &Value::Null, as_json)
}

fn word(pass: &Value) -> &'static str {
    if *pass == true { "PASS" } else { "FAIL" }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Formats the result of one record.
fn of_run(case: &Value) -> String {
    let mut out = format!("{}\nRun: {}\n", word(&case["pass"]), line(&case["run_id"]));
    let _ = writeln!(out, "Workflow: {}\nStages: {}", line(&case["workflow_id"]), case["stage_count"]);
    list(case, "failures").iter().for_each(|failure| {
        let _ = writeln!(out, "- {}", line(failure));
    });
    if !case["comparison"].is_null() {
        out.push_str(&differences(&case["comparison"]));
    }
    out
}

/// Formats the result of a suite, a directory of records or a pack.
fn of_many(report: &Value, path: &str) -> String {
    let name = if path.is_empty() { String::new() } else { format!("{}: ", harn_syntax::printable(path)) };
    let mut out = format!(
        "{name}{} {} passed, {} failed, {} total\n",
        word(&report["pass"]),
        report["passed"],
        report["failed"],
        report["total"]
    );
    for case in list(report, "cases") {
        // Cases that do not block are shown with their severity.
        let counts = case["severity"].as_str().filter(|word| *word != "blocking");
        let counts = counts.map(|word| format!(" ({word})")).unwrap_or_default();
        let run = case["run_id"]
            .as_str()
            .map(|id| format!(" [{}]", harn_syntax::printable(id)))
            .unwrap_or_default();
        let _ = writeln!(out, "- {} {}{run}{counts}", word(&case["pass"]), line(&case["label"]));
        for failure in ["failures", "warnings", "informational"].into_iter().flat_map(|key| list(case, key)) {
            let _ = writeln!(out, "  - {}", line(failure));
        }
        if case["comparison"]["identical"] == false {
            differences(&case["comparison"]).lines().for_each(|row| {
                let _ = writeln!(out, "    {row}");
            });
        }
    }
    out
}
