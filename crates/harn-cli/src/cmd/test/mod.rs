//! `harn test`: the tests of a project (`user.rs`), and, with `conformance`, the conformance suite (`suite.rs`).

mod coverage;
mod find;
mod one;
mod report;
mod suite;
mod twice;
mod user;

use std::path::Path;
use std::time::Duration;

use harn_system::{Real, System};

use crate::args::{TestArgs, need_folders, usage_error};

/// The schema version of JSON reports.
pub(super) const SCHEMA_VERSION: i64 = 2;

/// Runs tests. Returns 1 if one failed.
pub(crate) fn test(args: &TestArgs) -> u8 {
    if args.parallel && args.jobs == Some(1) {
        usage_error("test", "the argument '--parallel' cannot be used with '--jobs 1'");
    }
    need_folders("test", "--skill-dir", &args.skill_dirs);
    if args.target.as_deref() == Some("conformance") {
        let coverage = args.coverage || args.coverage_out.is_some();
        let of_projects = [
            ("--watch", args.watch),
            ("--coverage", coverage),
            ("--update-snapshots", args.update_snapshots),
        ];
        if let Some((name, _)) = of_projects.iter().find(|(_, given)| *given) {
            usage_error("test", &format!("the argument '{name}' cannot be used with `conformance`"));
        }
        return suite::test(args);
    }
    if args.evals || args.target.as_deref() == Some("package") {
        return super::eval::package(args);
    }
    if let Some(surplus) = &args.selection {
        usage_error("test", &format!("unexpected argument '{}'", surplus.display()));
    }
    if args.in_memory {
        usage_error("test", "the argument '--in-memory' can only be used with `conformance`");
    }
    if args.journal {
        usage_error("test", "the argument '--journal' can only be used with `conformance`");
    }
    user::test(args)
}

/// Returns the number of tests that run in parallel.
fn jobs(args: &TestArgs) -> usize {
    let processors = || std::thread::available_parallelism().map_or(2, |n| n.get().min(8));
    args.jobs.map_or_else(processors, usize::from)
}

/// Writes a report and creates its parent directories.
///
/// # Errors
/// A message with the path.
fn write_report(path: &Path, text: &str) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Real::new().make_dirs(folder).map_err(cannot)?;
    }
    Real::new().replace(path, text.as_bytes()).map_err(cannot)
}

/// Durations of all tests in milliseconds, sorted.
struct Times {
    sorted: Vec<u64>,
    average: u64,
}

impl Times {
    fn of(times: impl Iterator<Item = Duration>) -> Times {
        let mut sorted: Vec<u64> = times.map(|time| time.as_millis() as u64).collect();
        sorted.sort_unstable();
        let average = sorted.iter().sum::<u64>() / sorted.len().max(1) as u64;
        Times { sorted, average }
    }

    /// Returns a percentile.
    fn at(&self, percent: usize) -> u64 {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        self.sorted.get(rank).copied().unwrap_or(0)
    }
}
