//! Runs a program without and with a structural experiment in its model calls, and compares the results.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_runtime::{Evaluation, ModelTraffic, evaluate_path};
use harn_system::{Layer, Real, Stream, System, SystemExt};
use harn_value::{Data as Value, json};
use harn_vm::block_on;

use super::{failed, list, tell, word};
use crate::args::EvalArgs;
use crate::cmd::runs::line;
use crate::program::{self, Program, RunOptions};
use crate::signal;
use crate::style::Colour;

/// Environment variable with the default experiment of model calls.
const EXPERIMENT: &str = "HARN_STRUCTURAL_EXPERIMENT";

/// The system of a run: with or without the experiment, with its own record directory and captured output.
struct World {
    real: Real,
    experiment: Option<String>,
    records: PathBuf,
    printed: Rc<RefCell<String>>,
}

impl Layer for World {
    fn inner(&self) -> &dyn System {
        &self.real
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            EXPERIMENT => self.experiment.clone(),
            "HARN_RUN_DIR" => Some(self.records.display().to_string()),
            _ => self.real.env(name),
        }
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.printed.borrow_mut().push_str(text);
        Ok(())
    }
}

/// Runs the program twice. Returns 1 if it or its records fail.
pub(super) fn experiment(args: &EvalArgs, path: &Path, spec: &str) -> u8 {
    let system = Real::new();
    if !system.exists(path) {
        return failed("no_such_path", &format!("Run path does not exist: {}", path.display()), args.json);
    }
    // A typo would only fail the second run, after the first one was paid for.
    if let Err(error) = harn_runtime::check_experiment(spec) {
        return failed("bad_experiment", &error, args.json);
    }
    let read = super::super::packages::ready(path.parent().into_iter()).and_then(|()| Program::read(path));
    let program = match read {
        Ok(program) => program,
        Err(text) => return failed("unreadable", &text, args.json),
    };
    let folder = match scratch() {
        Ok(folder) => folder,
        Err(error) => {
            return failed("no_folder", &format!("cannot make a folder for the records: {error}"), args.json);
        }
    };
    let mut runs = Vec::new();
    for (name, experiment) in [("plain", None), ("experiment", Some(spec))] {
        match once(args, &program, experiment, &folder.path().join(name)) {
            Ok(Some(mut run)) => {
                run["variant"] = name.into();
                runs.push(run);
            }
            Ok(None) => return signal::exit_code(),
            Err(text) => return failed("not_evaluated", &text, args.json),
        }
    }
    let pass = runs.iter().all(|run| run["exit_code"] == 0 && run["records"]["pass"] != false);
    let same = runs[0]["output"] == runs[1]["output"];
    let data = json!({
        "pass": pass, "program": path.display().to_string(), "structural_experiment": spec, "same_output": same,
        "metrics": metrics(&runs), "runs": runs,
    });
    tell(&text(&data), &data, args.json)
}

#[expect(clippy::disallowed_methods, reason = "a folder that is gone at the end, also after a panic")]
fn scratch() -> io::Result<tempfile::TempDir> {
    tempfile::tempdir()
}

/// Returns the path next to `path` for the run with the experiment.
fn beside(path: &Path) -> PathBuf {
    let word = path
        .extension()
        .map_or_else(|| "experiment".to_owned(), |word| format!("experiment.{}", word.display()));
    path.with_extension(word)
}

/// Returns the result of one run, or `None` if a signal stopped it.
fn once(
    args: &EvalArgs,
    program: &Program,
    experiment: Option<&str>,
    records: &Path,
) -> Result<Option<Value>, String> {
    let is_plain = experiment.is_none();
    let own = |path: &PathBuf| if is_plain { path.clone() } else { beside(path) };
    let replies = args.llm_mock.as_ref().map(|path| {
        let own = own(path);
        if Real::new().is_file(&own) { own } else { path.clone() }
    });
    let record = args.llm_mock_record.as_ref().map(own);
    let mut options = RunOptions {
        argv: args.args.clone(),
        traffic: ModelTraffic { replies, record_replies: record, ..ModelTraffic::default() },
        ..RunOptions::default()
    };
    let printed = Rc::new(RefCell::new(String::new()));
    let world = World {
        real: Real::new(),
        experiment: experiment.map(str::to_owned),
        records: records.to_owned(),
        printed: printed.clone(),
    };
    let colour = Colour::of(Stream::Error).on();
    let prepared = program::prepare(program, &mut options, Rc::new(world), signal::stop_on_signal);
    let (end, vm) = match prepared {
        Err(end) => (end, None),
        Ok(prepared) => {
            if is_plain {
                prepared.warnings.iter().for_each(|problem| eprint!("{}", problem.draw(colour)));
            }
            let vm = prepared.vm.clone();
            harn_runtime::keep_attempts(&vm);
            let outcome = block_on(prepared.run(None, harn_value::Value::NIL));
            let outcome = outcome.map_err(|error| format!("cannot start the event loop: {error}"))??;
            (program::unless_unwritten(&vm, program.end(&vm, &outcome)), Some(vm))
        }
    };
    let (code, result) = end.settle();
    if let Err(failure) = &result {
        if failure.code == "stopped" {
            return Ok(None);
        }
        eprint!("{}", failure.draw(colour));
    }
    let total = vm.as_ref().map(harn_runtime::attempts_total).unwrap_or_default();
    let found = if Real::new().is_dir(records) {
        match evaluate_path(&Real::new(), &records.display().to_string(), None)? {
            Evaluation::Suite(report) => report,
            Evaluation::Run(_) | Evaluation::Pack(_) => Value::Null,
        }
    } else {
        Value::Null
    };
    let output = printed.borrow().clone();
    Ok(Some(json!({
        "exit_code": code, "error": result.err().map(|failure| failure.message), "output": output,
        "llm": {
            "calls": total.calls, "input_tokens": total.input_tokens, "output_tokens": total.output_tokens,
            "time_ms": total.duration_ms, "cost_usd": total.cost_usd,
        },
        "metrics": vm.as_ref().map(|vm| harn_runtime::noted_metrics(vm)).unwrap_or_default(), "records": found,
    })))
}

/// Returns the last value of each metric in both runs, and the difference.
fn metrics(runs: &[Value]) -> Vec<Value> {
    let mut names: Vec<&Value> = Vec::new();
    for one in runs.iter().flat_map(|run| list(run, "metrics")) {
        if !names.contains(&&one["name"]) {
            names.push(&one["name"]);
        }
    }
    let value = |run: &Value, name: &Value| {
        let last = list(run, "metrics").iter().rev().find(|one| one["name"] == *name);
        last.map_or(Value::Null, |one| one["value"].clone())
    };
    let row = |name: &Value| {
        let (plain, with) = (value(&runs[0], name), value(&runs[1], name));
        let change = with.as_f64().zip(plain.as_f64()).map(|(with, plain)| with - plain);
        json!({"name": name, "plain": plain, "experiment": with, "change": change})
    };
    names.into_iter().map(row).collect()
}

fn text(data: &Value) -> String {
    let mut out = format!("{} {}\n", word(&data["pass"]), line(&data["structural_experiment"]));
    for run in list(data, "runs") {
        let llm = &run["llm"];
        let _ = writeln!(
            out,
            "{}: exit code {}, {} calls, {} + {} tokens, ${:.4}",
            line(&run["variant"]),
            run["exit_code"],
            llm["calls"],
            llm["input_tokens"],
            llm["output_tokens"],
            llm["cost_usd"].as_f64().unwrap_or_default(),
        );
        for case in list(&run["records"], "cases") {
            let _ = writeln!(out, "- {} run {}", word(&case["pass"]), line(&case["run_id"]));
            list(case, "failures").iter().for_each(|failure| {
                let _ = writeln!(out, "  - {}", line(failure));
            });
        }
    }
    for metric in list(data, "metrics") {
        let shown = |key: &str| if metric[key].is_null() { "-".to_owned() } else { line(&metric[key]) };
        let change = metric["change"].as_f64().map(|change| format!(" ({change:+})")).unwrap_or_default();
        let _ =
            writeln!(out, "{}: {} -> {}{change}", line(&metric["name"]), shown("plain"), shown("experiment"));
    }
    let same = if data["same_output"] == true { "the same" } else { "different" };
    let _ = writeln!(out, "Output: {same}");
    out
}
