//! Runs the tests of a project.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_system::{Real, System, SystemExt};

use super::coverage::Coverage;
use super::find::{self, Test};
use super::one::{self, Settings};
use super::report::{self, Fate, Outcome};
use super::twice;
use crate::args::{TestArgs, usage_error};
use crate::cmd::watch;
use crate::conformance::filter::Filter;
use crate::conformance::run::run_each;

/// The default directory.
const FOLDER: &str = "tests";

/// Files must be unchanged for this long before tests run again.
const REST: Duration = Duration::from_millis(100);

/// Runs the tests of a file or directory. Returns 1 if one failed.
pub(super) fn test(args: &TestArgs) -> u8 {
    let filter = Filter::parse(args.filter.as_deref()).unwrap_or_else(|text| usage_error("test", &text));
    let target = match &args.target {
        Some(target) => PathBuf::from(target),
        None if Real::new().is_dir(Path::new(FOLDER)) => PathBuf::from(FOLDER),
        None => usage_error("test", "no path specified and no tests/ directory found"),
    };
    if args.watch {
        return watched(args, &filter, &target);
    }
    once(args, &filter, &target)
}

/// Reruns the tests on every change until interrupted.
fn watched(args: &TestArgs, filter: &Filter, target: &Path) -> u8 {
    let real = Real::new();
    let absolute = real.canonical(target).unwrap_or_else(|_| real.work_dir().join(target));
    // The tested code is in the tests' project.
    let project = harn_front::project_root(&absolute, &harn_front::Through(&real));
    let own = if real.is_dir(&absolute) { Some(absolute.as_path()) } else { absolute.parent() };
    let folder = project.as_deref().or(own).unwrap_or(&absolute).to_owned();
    let mut known = watch::stamps(&folder);
    loop {
        let code = once(args, filter, target);
        watch::say(&format!("ended with {code}, waiting for changes below {}", folder.display()));
        let (now, changed) = watch::wait(&folder, &known, REST);
        known = now;
        let shown = changed.strip_prefix(&folder).unwrap_or(&changed);
        watch::say(&format!("{} changed", shown.display()));
    }
}

fn once(args: &TestArgs, filter: &Filter, target: &Path) -> u8 {
    let failed = |text: &str| {
        eprintln!("{}", harn_syntax::error_line(text));
        1
    };
    if !Real::new().exists(target) {
        let name = target.display();
        let code = failed(&format!("Path not found: {name}"));
        let help = format!("to select tests by name: harn test --filter {name}");
        eprintln!("  = help: {}", harn_syntax::printable(&help));
        return code;
    }
    let tests = match find::find(target) {
        Ok(tests) => tests,
        Err(text) => return failed(&text),
    };
    let files: Vec<PathBuf> = tests.iter().map(|test| test.path.clone()).collect();
    let found = tests.len();
    let tests: Vec<Test> = tests
        .into_iter()
        .filter(|test| filter.takes(&test.name) || filter.takes(&test.path.display().to_string()))
        .collect();
    if let Err(text) = crate::cmd::packages::ready(tests.iter().filter_map(|test| test.path.parent())) {
        return failed(&text);
    }
    if tests.is_empty() && found > 0 {
        let pattern = args.filter.as_deref().unwrap_or_default();
        return failed(&format!("--filter {pattern}: no test matches"));
    }
    if tests.is_empty() && !args.json {
        crate::out::write(
            "No test pipelines found: a test is a pipeline whose name begins with `test_`, such as `pipeline test_sum() { ... }`\n",
        );
    } else if !args.json {
        crate::out::write(&report::head(&tests));
    }
    let clock = Real::new();
    let limit = Duration::from_millis(args.timeout);
    let settings = Settings::of(args);
    let coverage = settings.coverage;
    let run = if args.determinism { twice::run } else { one::run };
    let ended =
        run_each(tests.clone(), super::jobs(args), limit, move |test, ready| run(test, &settings, ready));
    let mut covered = Coverage::default();
    let outcomes: Vec<Outcome> = tests
        .into_iter()
        .zip(ended)
        .map(|(test, ended)| {
            let (fate, output) = match ended.result {
                Ok(run) => {
                    covered.add(run.covered);
                    match run.failure {
                        _ if ended.timed_out => (Fate::TimedOut(args.timeout), run.output),
                        None => (Fate::Passed, run.output),
                        Some(text) => (Fate::Failed(text), run.output),
                    }
                }
                Err(_) if ended.timed_out => (Fate::TimedOut(args.timeout), String::new()),
                Err(panic) => (Fate::Failed(format!("error: {panic}")), String::new()),
            };
            Outcome { name: test.name, path: test.path, time: ended.time, fate, output }
        })
        .collect();
    let covered = coverage.then(|| covered.without(files.iter().map(PathBuf::as_path)));
    match report::write(args, target, &outcomes, clock.monotonic(), covered.as_ref()) {
        Ok(()) => u8::from(outcomes.iter().any(|outcome| !matches!(outcome.fate, Fate::Passed))),
        Err(text) => failed(&text),
    }
}
