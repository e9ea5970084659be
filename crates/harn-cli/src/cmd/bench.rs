//! `harn bench FILE`: measures the run time of a program.

use std::rc::Rc;
use std::time::Duration;

use harn_runtime::ModelTraffic;
use harn_system::{Layer, Real, Stream, System};
use harn_value::Value;
use harn_value::json;
use harn_vm::block_on;

use crate::args::BenchArgs;
use crate::program::{self, End, Failure, Program, RunOptions};
use crate::style::Colour;

/// The time and model usage of one run.
struct Run {
    time: Duration,
    models: Models,
}

/// Total usage of model calls.
#[derive(Clone, Copy, Default)]
struct Models {
    calls: usize,
    input_tokens: i64,
    output_tokens: i64,
    duration_ms: i64,
    cost_usd: f64,
}

/// Runs a program several times and prints the times. Returns 1 if it fails.
pub(crate) fn bench(args: &BenchArgs) -> u8 {
    let failed = |text: &str| {
        eprintln!("{}", harn_syntax::error_line(text));
        1
    };
    if args.iterations == 0 {
        return failed("`harn bench` requires at least one iteration");
    }
    let packages = super::packages::ready(args.file.parent().into_iter());
    let program = match packages.and_then(|()| program::source_text(&args.file)) {
        Ok(text) => Program::of(&args.file, text),
        Err(text) => return failed(&text),
    };
    let mut runs = Vec::new();
    for number in 1..=args.iterations {
        match once(args, &program) {
            Ok(run) => runs.push(run),
            Err(failure) => {
                eprint!("{}", failure.draw(Colour::of(Stream::Error).on()));
                return failed(&format!("run {number} of {} failed", args.iterations));
            }
        }
    }
    crate::out::write(&text(args, &runs));
    let Some(path) = &args.profile_json else { return 0 };
    let profile = format!("{:#}\n", profile(args, &runs));
    match Real::new().replace(path, profile.as_bytes()) {
        Ok(()) => 0,
        Err(error) => failed(&format!("cannot write {}: {error}", path.display())),
    }
}

/// Runs the program in its own VM. Preparation is not timed.
fn once(args: &BenchArgs, program: &Program) -> Result<Run, Failure> {
    let mut options = RunOptions {
        argv: args.args.clone(),
        traffic: ModelTraffic { replies: args.llm_mock.clone(), ..ModelTraffic::default() },
        ..RunOptions::default()
    };
    let failure = |end: End| end.settle().1.err();
    let system = Rc::new(Quiet(Real::new()));
    let prepared = match program::prepare(program, &mut options, system, |_| {}) {
        Ok(prepared) => prepared,
        Err(end) => return Err(failure(end).unwrap_or_else(|| unable("the program cannot be run"))),
    };
    let vm = prepared.vm.clone();
    harn_runtime::keep_attempts(&vm);
    let clock = Real::new();
    let begin = clock.monotonic();
    let outcome = block_on(prepared.run(None, Value::NIL));
    let time = clock.monotonic().saturating_sub(begin);
    let outcome = outcome.map_err(|error| unable(&format!("cannot start the event loop: {error}")))?;
    let outcome = outcome.map_err(|text| unable(&text))?;
    let total = harn_runtime::attempts_total(&vm);
    let models = Models {
        calls: total.calls,
        input_tokens: total.input_tokens,
        output_tokens: total.output_tokens,
        duration_ms: total.duration_ms,
        cost_usd: total.cost_usd,
    };
    match failure(program.end(&vm, &outcome)) {
        Some(failure) => Err(failure),
        None => Ok(Run { time, models }),
    }
}

fn unable(text: &str) -> Failure {
    Failure { code: "not_run", message: text.to_owned(), problems: Vec::new() }
}

/// The system with the program's output discarded.
struct Quiet(Real);

impl Layer for Quiet {
    fn inner(&self) -> &dyn System {
        &self.0
    }

    fn write_out(&self, _text: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the minimum, mean, maximum and total time in milliseconds.
fn times(runs: &[Run]) -> [f64; 4] {
    let all = || runs.iter().map(|run| run.time.as_secs_f64() * 1000.0);
    let total: f64 = all().sum();
    let min = all().fold(f64::INFINITY, f64::min);
    [min, total / runs.len().max(1) as f64, all().fold(0.0, f64::max), total]
}

fn models(runs: &[Run]) -> Models {
    runs.iter().fold(Models::default(), |sum, run| Models {
        calls: sum.calls + run.models.calls,
        input_tokens: sum.input_tokens.saturating_add(run.models.input_tokens),
        output_tokens: sum.output_tokens.saturating_add(run.models.output_tokens),
        duration_ms: sum.duration_ms.saturating_add(run.models.duration_ms),
        cost_usd: sum.cost_usd + run.models.cost_usd,
    })
}

fn text(args: &BenchArgs, runs: &[Run]) -> String {
    let [min, mean, max, total] = times(runs);
    let models = models(runs);
    let name = args.file.display().to_string();
    format!(
        "Benchmark: {}\nIterations: {}\n\
         Wall time: min {min:.2} ms | avg {mean:.2} ms | max {max:.2} ms | total {total:.2} ms\n\
         LLM time: {} ms\nLLM calls: {}\nTokens: {} in + {} out\nCost: ${:.4}\n",
        harn_syntax::printable(&name),
        runs.len(),
        models.duration_ms,
        models.calls,
        models.input_tokens,
        models.output_tokens,
        models.cost_usd,
    )
}

fn profile(args: &BenchArgs, runs: &[Run]) -> harn_value::Data {
    let [min, mean, max, total] = times(runs);
    let model_figures = |models: &Models| {
        json!({
            "calls": models.calls, "time_ms": models.duration_ms, "input_tokens": models.input_tokens,
            "output_tokens": models.output_tokens, "cost_usd": models.cost_usd,
        })
    };
    let run = |run: &Run| json!({"wall_time_ms": run.time.as_secs_f64() * 1000.0, "llm": model_figures(&run.models)});
    json!({
        "file": args.file.display().to_string(),
        "iterations": runs.len(),
        "wall_time_ms": {"min": min, "avg": mean, "max": max, "total": total},
        "llm": model_figures(&models(runs)),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}
