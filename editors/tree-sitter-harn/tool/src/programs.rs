//! Tests every program of the repository: if Harn parses it, the tree matches Harn's syntax tree, also after edits.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harn_syntax::ast::Program;
use tree_sitter::{InputEdit, Parser, Point, Tree};

use crate::{Problem, error, shape, shown, tree as tree_of};

/// Parses all programs. Returns the number of failures.
pub(crate) fn run(root: &Path, parser: &mut Parser) -> Result<usize, Problem> {
    let mut sources = Vec::new();
    for folder in ["conformance", "stdlib", "examples", "crates/harn-cli"] {
        for path in files(&root.join(folder), "harn")? {
            sources.push((path.display().to_string(), read(&path)?));
        }
    }
    let programs = sources.len();
    let mut pages = files(&root.join("docs"), "md")?;
    pages.push(root.join("README.md"));
    for page in pages {
        for (line, text) in blocks(&read(&page)?) {
            sources.push((format!("{}:{line}", page.display()), text));
        }
    }
    let blocks = sources.len() - programs;
    if programs == 0 || blocks == 0 {
        return Err(format!("{programs} programs and {blocks} blocks of pages were found").into());
    }
    let (mut parsed, mut failures) = (0, 0);
    for (place, text) in &sources {
        let tree = tree_of(parser, text);
        // Programs with syntax errors have no reference tree; they must not crash the parser.
        let harn = harn_syntax::parse(text);
        if harn.errors.is_empty() {
            parsed += 1;
            if let Some((what, offset)) = difference(&tree, &harn.program) {
                failures += 1;
                let line = text[..offset].matches('\n').count();
                println!(
                    "{place}: {what}, line {}\n    {}",
                    line + 1,
                    text.lines().nth(line).unwrap_or_default()
                );
            }
        }
        if let Some(edit) = edited(parser, text, tree) {
            failures += 1;
            println!("{place}: another tree than that of the whole text, after {edit}");
        }
    }
    failures += hostile(parser);
    println!("programs: {programs} files and {blocks} blocks, {parsed} without syntax errors");
    Ok(failures)
}

/// Sources that are designed to cost time or stack: four times the source must not take ten times the time. Uses
/// the minimum of three runs, and ignores times below a second.
fn hostile(parser: &mut Parser) -> usize {
    let parts = [
        "{",
        "{a: ",
        "(",
        "\"${",
        "a ? ",
        "a?[",
        "[x?",
        "f<",
        "/* ",
        "if a {",
        "{ x -> ",
        "\n/* */ + ",
        "-",
        "X {",
    ];
    let mut failures = 0;
    for part in parts {
        let [short, long] = [2_000, 8_000].map(|count| {
            let text = part.repeat(count);
            let times = (0..3).map(|_| {
                let start = Instant::now();
                tree_of(parser, &text);
                start.elapsed()
            });
            times.min().unwrap_or_default()
        });
        if long > short * 10 && long > Duration::from_secs(1) {
            failures += 1;
            println!("{part:?} 2,000 times takes {short:?}, 8,000 times {long:?}");
        }
    }
    failures
}

/// Returns the first difference to Harn's syntax tree, with its offset.
fn difference(tree: &Tree, program: &Program) -> Option<(String, usize)> {
    if let Some(node) = error(tree) {
        return Some(("an error".to_owned(), node.start_byte()));
    }
    let (form, span) = shape::difference(program, tree)?;
    Some((format!("no `{form}` of {} bytes", span.end - span.start), span.start as usize))
}

/// Tests incremental parsing: removes a character inside the source and checks that the result is the tree of the
/// whole source. Returns the edit if it is not.
fn edited(parser: &mut Parser, text: &str, mut old: Tree) -> Option<String> {
    // A different offset for each source, but the same in every run.
    let place = text.bytes().fold(text.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte as usize));
    let start = (0..text.len())
        .cycle()
        .skip(place % text.len().max(1))
        .take(4)
        .find(|&at| text.is_char_boundary(at))?;
    let length = text[start..].chars().next()?.len_utf8();
    let point = |at: usize| {
        let before = &text[..at];
        let column = before.len() - before.rfind('\n').map_or(0, |feed| feed + 1);
        Point { row: before.matches('\n').count(), column }
    };
    old.edit(&InputEdit {
        start_byte: start,
        old_end_byte: start + length,
        new_end_byte: start,
        start_position: point(start),
        old_end_position: point(start + length),
        new_end_position: point(start),
    });
    let new = format!("{}{}", &text[..start], &text[start + length..]);
    parser.reset();
    let incremental = parser.parse(&new, Some(&old))?;
    // The tree of an invalid source may depend on the previous tree.
    let whole = tree_of(parser, &new);
    let differ = !whole.root_node().has_error() && shown(&incremental) != shown(&whole);
    differ.then(|| format!("{:?} was taken away at byte {start}", &text[start..start + length]))
}

fn read(path: &Path) -> Result<String, Problem> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Problem> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the fenced blocks of a page whose info string begins with `harn`, with the line where each begins.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(words)) => {
                let ours = words.split([' ', ',']).next() == Some("harn");
                open = Some((number + 2, ours, String::new()));
            }
            (Some(_), Some("")) => found.extend(open.take()),
            (Some((.., text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    found.into_iter().filter(|block| block.1).map(|block| (block.0, block.2)).collect()
}
