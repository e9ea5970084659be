//! Line coverage: execution counts per statement, as a table, as JSON and in LCOV format.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use harn_syntax::source_map::line_column;
use harn_system::{Real, System, SystemExt};
use harn_value::json;
use harn_vm::{Observer, Scene};

use crate::table;

/// Execution count of the statements that begin on each line.
pub(super) type Lines = BTreeMap<usize, u64>;

/// Line counts by file.
pub(super) type Files = BTreeMap<PathBuf, Lines>;

/// Counts the executed statements of one run.
#[derive(Default)]
pub(super) struct Counter {
    counted: RefCell<Counted>,
}

#[derive(Default)]
struct Counted {
    /// By module number: the file, and the execution count of each statement by its start offset.
    modules: BTreeMap<u32, (PathBuf, BTreeMap<u32, u64>)>,
    begun: bool,
    /// Line of each statement, by module and offset.
    lines: BTreeMap<(u32, u32), usize>,
}

impl Observer for Counter {
    fn statement(&self, scene: &Scene<'_>) {
        let mut counted = self.counted.borrow_mut();
        if !std::mem::replace(&mut counted.begun, true) {
            counted.learn(scene);
        }
        if let Some((module, span)) = scene.place()
            && let Some((_, counts)) = counted.modules.get_mut(&module)
        {
            *counts.entry(span.start).or_default() += 1;
        }
    }
}

impl Counted {
    /// Records all statements: all modules are loaded before the first statement runs.
    fn learn(&mut self, scene: &Scene<'_>) {
        for (module, span) in scene.vm().statements() {
            let Some((name, text)) = scene.vm().source(module) else { continue };
            let path = || Real::new().canonical(Path::new(&*name)).unwrap_or_else(|_| PathBuf::from(&*name));
            let (_, counts) = self.modules.entry(module).or_insert_with(|| (path(), BTreeMap::new()));
            counts.insert(span.start, 0);
            self.lines.insert((module, span.start), line_column(&text, span.start).0);
        }
    }
}

impl Counter {
    /// Returns the counts by file and line.
    pub(super) fn files(&self) -> Files {
        let counted = self.counted.borrow();
        let mut files = Files::new();
        for (module, (path, counts)) in &counted.modules {
            let lines = files.entry(path.clone()).or_default();
            for (start, count) in counts {
                let line = counted.lines.get(&(*module, *start)).copied().unwrap_or(1);
                // A line with several statements gets their maximum.
                let known = lines.entry(line).or_default();
                *known = (*known).max(*count);
            }
        }
        files
    }
}

/// The combined coverage of all tests.
#[derive(Default)]
pub(super) struct Coverage {
    files: Files,
}

impl Coverage {
    /// Adds the coverage of one test.
    pub(super) fn add(&mut self, files: Files) {
        for (path, lines) in files {
            let known = self.files.entry(path).or_default();
            for (line, count) in lines {
                *known.entry(line).or_default() += count;
            }
        }
    }

    /// Excludes the test files and the files of packages, and makes paths relative to the working directory.
    pub(super) fn without<'a>(mut self, tests: impl Iterator<Item = &'a Path>) -> Coverage {
        let here = Real::new().canonical(&Real::new().work_dir()).unwrap_or_default();
        let tests: BTreeSet<PathBuf> = tests.filter_map(|path| Real::new().canonical(path).ok()).collect();
        let is_package = |path: &Path| path.components().any(|part| part.as_os_str() == ".harn");
        self.files.retain(|path, _| !tests.contains(path) && !is_package(path));
        let short = |path: PathBuf| path.strip_prefix(&here).map(Path::to_owned).unwrap_or(path);
        self.files = self.files.into_iter().map(|(path, lines)| (short(path), lines)).collect();
        self
    }

    /// Returns the table for display.
    pub(super) fn table(&self) -> String {
        if self.files.is_empty() {
            return "\nCoverage: the tests import no module of their own\n".to_owned();
        }
        let row = |name: String, lines: usize, hit: usize, missed: String| {
            vec![name, lines.to_string(), hit.to_string(), percent(hit, lines), missed]
        };
        let mut rows: Vec<Vec<String>> = self
            .files
            .iter()
            .map(|(path, lines)| {
                let name = harn_syntax::printable_name(&path.display().to_string());
                row(name, lines.len(), hit(lines), ranges(&missed(lines)))
            })
            .collect();
        let (all, hit) = self.totals();
        rows.push(row("Total".to_owned(), all, hit, String::new()));
        format!("\n{}", table::draw(&["Coverage", "Lines", "Hit", "Part", "Missed"], &rows))
    }

    fn totals(&self) -> (usize, usize) {
        let all = self.files.values().map(BTreeMap::len).sum();
        (all, self.files.values().map(hit).sum())
    }

    /// Returns the coverage as JSON.
    pub(super) fn json(&self) -> harn_value::Data {
        let file = |(path, lines): (&PathBuf, &Lines)| {
            json!({
                "file": path.display().to_string(), "lines": lines.len(), "hit": hit(lines), "missed": missed(lines),
            })
        };
        let (all, hit) = self.totals();
        json!({"files": self.files.iter().map(file).collect::<Vec<_>>(), "lines": all, "hit": hit})
    }

    /// Returns the coverage in LCOV format.
    pub(super) fn lcov(&self) -> String {
        let mut out = String::new();
        for (path, lines) in &self.files {
            let _ = writeln!(out, "TN:\nSF:{}", path.display());
            for (line, count) in lines {
                let _ = writeln!(out, "DA:{line},{count}");
            }
            let _ = writeln!(out, "LF:{}\nLH:{}\nend_of_record", lines.len(), hit(lines));
        }
        out
    }
}

fn hit(lines: &Lines) -> usize {
    lines.values().filter(|count| **count > 0).count()
}

fn missed(lines: &Lines) -> Vec<usize> {
    lines.iter().filter(|(_, count)| **count == 0).map(|(line, _)| *line).collect()
}

/// Formats a percentage such as `75.0%`. It is truncated, so that only full coverage is 100 %.
fn percent(part: usize, whole: usize) -> String {
    let tenths = (part * 1000).checked_div(whole).unwrap_or(1000);
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Formats line numbers as ranges: `3-5, 9`.
fn ranges(lines: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &line in lines {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => ranges.push((line, line)),
        }
    }
    let shown = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_shown() {
        let lines = Lines::from([(1, 2), (3, 0), (4, 0), (6, 0), (8, 1)]);
        let mut coverage = Coverage::default();
        coverage.add(Files::from([(PathBuf::from("lib/a.harn"), lines.clone())]));
        coverage.add(Files::from([(PathBuf::from("lib/a.harn"), Lines::from([(1, 1), (3, 4)]))]));
        assert_eq!(ranges(&missed(&lines)), "3-4, 6");
        let table = coverage.table();
        assert!(table.contains("lib/a.harn  5      3    60.0%  4, 6"), "{table}");
        assert!(table.contains("Total       5      3    60.0%"), "{table}");
        let lcov = "TN:\nSF:lib/a.harn\nDA:1,3\nDA:3,4\nDA:4,0\nDA:6,0\nDA:8,1\nLF:5\nLH:3\nend_of_record\n";
        assert_eq!(coverage.lcov(), lcov);
        assert_eq!(coverage.json()["files"][0]["missed"], json!([4, 6]));
        assert_eq!((percent(999, 1000), percent(0, 0)), ("99.9%".to_owned(), "100.0%".to_owned()));
    }
}
