//! The breakpoints of a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use harn_syntax::ast::{Stmt, StmtKind};
use harn_syntax::source_map::line_column;
use harn_syntax::visit::{Visitor, walk_stmt};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Json, json};

/// A breakpoint.
#[derive(Debug, Clone)]
pub(super) struct Breakpoint {
    pub(super) id: i64,
    /// Line of the statement.
    pub(super) line: usize,
    /// Stops only if this expression is true.
    pub(super) condition: Option<String>,
    /// Stops only at these hit counts.
    pub(super) hits: Option<Hits>,
    /// A log message with `{expressions}`, written instead of stopping.
    pub(super) message: Option<String>,
    /// The hit count so far.
    pub(super) reached: u64,
}

/// A condition on the hit count: `5`, `>= 5`, `% 5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hits {
    At(u64),
    From(u64),
    Above(u64),
    Every(u64),
}

impl Hits {
    fn parse(text: &str) -> Option<Hits> {
        let text = text.trim();
        let (make, number): (fn(u64) -> Hits, &str) = if let Some(rest) = text.strip_prefix(">=") {
            (Hits::From, rest)
        } else if let Some(rest) = text.strip_prefix('>') {
            (Hits::Above, rest)
        } else if let Some(rest) = text.strip_prefix('%') {
            (Hits::Every, rest)
        } else {
            (Hits::At, text.trim_start_matches('='))
        };
        number.trim().parse().ok().filter(|n| *n > 0).map(make)
    }

    pub(super) const fn take(self, reached: u64) -> bool {
        match self {
            Hits::At(n) => reached == n,
            Hits::From(n) => reached >= n,
            Hits::Above(n) => reached > n,
            Hits::Every(n) => reached.is_multiple_of(n),
        }
    }
}

/// All breakpoints.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    files: BTreeMap<PathBuf, Vec<Breakpoint>>,
    functions: BTreeSet<String>,
    next: i64,
}

/// Returns the canonical path of a file.
pub(super) fn canonical(path: &str) -> PathBuf {
    Real::new().canonical(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path))
}

impl Breakpoints {
    /// Replaces the breakpoints of a file. Returns the body of the response.
    pub(super) fn set(&mut self, path: &str, wanted: &[Json]) -> Vec<Json> {
        let file = canonical(path);
        let lines = statement_lines(&file);
        let mut known = Vec::new();
        let mut told = Vec::new();
        for wanted in wanted {
            self.next += 1;
            let text = |name: &str| wanted[name].as_str().filter(|text| !text.trim().is_empty());
            let asked = wanted["line"].as_u64().unwrap_or(1) as usize;
            let line = match &lines {
                Ok(lines) => lines.range(asked..).next().copied().ok_or("there is no statement here"),
                Err(why) => Err(*why),
            };
            let hits = match text("hitCondition").map(|hits| (hits, Hits::parse(hits))) {
                None => Ok(None),
                Some((_, Some(hits))) => Ok(Some(hits)),
                Some((given, None)) => {
                    Err(format!("`{given}` is not a hit count: write 5, >= 5, > 5 or % 5"))
                }
            };
            let refused = match (&line, &hits) {
                (Err(why), _) => Some((*why).to_owned()),
                (_, Err(why)) => Some(why.clone()),
                _ => None,
            };
            told.push(match refused {
                Some(why) => json!({"id": self.next, "verified": false, "message": why, "line": asked}),
                None => json!({"id": self.next, "verified": true, "line": line.unwrap_or(asked)}),
            });
            if let (Ok(line), Ok(hits)) = (line, hits) {
                known.push(Breakpoint {
                    id: self.next,
                    line,
                    condition: text("condition").map(str::to_owned),
                    hits,
                    message: text("logMessage").map(str::to_owned),
                    reached: 0,
                });
            }
        }
        self.files.insert(file, known);
        told
    }

    /// Replaces the function breakpoints.
    pub(super) fn set_functions(&mut self, wanted: &[Json]) -> Vec<Json> {
        self.functions = wanted.iter().filter_map(|f| f["name"].as_str()).map(str::to_owned).collect();
        let told = |wanted: &Json| json!({"verified": wanted["name"].is_string()});
        wanted.iter().map(told).collect()
    }

    /// Whether there are function breakpoints.
    pub(super) fn has_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Whether a function has a breakpoint.
    pub(super) fn stops_in(&self, function: &str) -> bool {
        self.functions.contains(function)
    }

    /// Whether a file has breakpoints.
    pub(super) fn is_watched(&self, file: &Path) -> bool {
        self.files.get(file).is_some_and(|known| !known.is_empty())
    }

    /// Returns the breakpoints of a line.
    pub(super) fn at(&mut self, file: &Path, line: usize) -> impl Iterator<Item = &mut Breakpoint> {
        self.files.get_mut(file).into_iter().flatten().filter(move |known| known.line == line)
    }
}

/// Returns the lines of a file on which statements begin.
fn statement_lines(file: &Path) -> Result<BTreeSet<usize>, &'static str> {
    let text = Real::new().read_text(file, harn_vm::MAX_SOURCE).map_err(|_| "the file cannot be read")?;
    let parsed = harn_syntax::parse(&text);
    if !parsed.errors.is_empty() {
        return Err("the file has syntax errors");
    }
    let mut lines = Lines { text: &text, found: BTreeSet::new() };
    lines.stmts(&parsed.program.items);
    Ok(lines.found)
}

struct Lines<'t> {
    text: &'t str,
    found: BTreeSet<usize>,
}

impl<'a> Visitor<'a> for Lines<'_> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        // Declarations and imports are not executed.
        if !matches!(stmt.kind, StmtKind::Decl(_) | StmtKind::Import(_)) {
            self.found.insert(line_column(self.text, stmt.span.start).0);
        }
        walk_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read() {
        let read = |text: &str| Hits::parse(text);
        assert_eq!(read("5"), Some(Hits::At(5)));
        assert_eq!(read("== 5"), Some(Hits::At(5)));
        assert_eq!((read(">=2"), read("> 2")), (Some(Hits::From(2)), Some(Hits::Above(2))));
        assert_eq!((read("% 3"), read("often"), read("0")), (Some(Hits::Every(3)), None, None));
        assert!(Hits::Every(3).take(6) && !Hits::Every(3).take(7) && Hits::From(2).take(9));
    }

    #[test]
    fn breakpoints_move_to_the_next_statement() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.harn");
        std::fs::write(&file, "// a comment\nfn f(n) {\n\n  let m = n + 1\n  m\n}\nprintln(f(1))\n")
            .expect("written");
        let path = file.display().to_string();
        let mut known = Breakpoints::default();
        let told = known
            .set(&path, &[json!({"line": 1}), json!({"line": 5, "condition": "m > 1"}), json!({"line": 8})]);
        let lines: Vec<_> = told.iter().map(|t| (t["verified"] == true, t["line"].as_u64())).collect();
        assert_eq!(lines, [(true, Some(4)), (true, Some(5)), (false, Some(8))]);
        assert_eq!(known.at(&canonical(&path), 5).count(), 1);
        assert!(known.is_watched(&canonical(&path)) && !known.is_watched(Path::new("b.harn")));
        let told = known.set(&path, &[json!({"line": 4, "hitCondition": "often"})]);
        assert!(told[0]["message"].as_str().unwrap_or_default().contains("not a hit count"), "{told:?}");
    }
}
