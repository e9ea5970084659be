//! Highlight tests: comments below a line of a sample state the expected highlights.
//!
//! `// <- NAME` refers to the column where the comment begins, `//  ^ NAME` to the column of the caret, both on the
//! last line that is not such a comment.

use std::path::Path;

use tree_sitter::Language;
use tree_sitter_highlight::{HighlightConfiguration, HighlightEvent, Highlighter};

use crate::Problem;

/// Checks all samples. Returns the number of locations that differ.
pub(crate) fn run(grammar: &Path, language: &Language) -> Result<usize, Problem> {
    let query = std::fs::read_to_string(grammar.join("queries/highlights.scm"))?;
    let mut configuration = HighlightConfiguration::new(language.clone(), "harn", &query, "", "")?;
    let names: Vec<String> = configuration.names().iter().map(ToString::to_string).collect();
    configuration.configure(&names);
    let (mut count, mut failures) = (0, 0);
    for word in words(language) {
        count += 1;
        if !query.contains(&format!("\"{word}\"")) && !query.contains(&format!("({word})")) {
            failures += 1;
            println!("highlights.scm does not say how `{word}` looks");
        }
    }
    for entry in std::fs::read_dir(grammar.join("test/highlight"))? {
        let path = entry?.path();
        let source = std::fs::read_to_string(&path)?;
        let found = highlights(&configuration, &source)?;
        for (offset, line, expected) in expectations(&source) {
            count += 1;
            let name = found[offset].map_or("nothing", |at| names[at].as_str());
            if name != expected {
                failures += 1;
                println!("{}:{line}: {name} stands there, and should be {expected}", path.display());
            }
        }
    }
    if count == 0 {
        return Err("no sample says what stands where".into());
    }
    println!("highlights: {count} places");
    Ok(failures)
}

/// Returns the keywords of the grammar.
fn words(language: &Language) -> Vec<&str> {
    let kinds = (0..language.node_kind_count()).filter_map(|id| u16::try_from(id).ok());
    let unnamed = kinds.filter(|&id| language.node_kind_is_visible(id) && !language.node_kind_is_named(id));
    let mut words: Vec<_> = unnamed.filter_map(|id| language.node_kind_for_id(id)).collect();
    // `true` and `false` are highlighted as `boolean`.
    words.retain(|word| {
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && !matches!(*word, "true" | "false")
    });
    words.sort_unstable();
    words.dedup();
    words
}

/// Returns the innermost highlight of each byte.
fn highlights(configuration: &HighlightConfiguration, source: &str) -> Result<Vec<Option<usize>>, Problem> {
    let mut out = vec![None; source.len()];
    let mut open = Vec::new();
    let mut highlighter = Highlighter::new();
    for event in highlighter.highlight(configuration, source.as_bytes(), None, None, |_| None)? {
        match event? {
            HighlightEvent::HighlightStart(highlight) => open.push(highlight.0),
            HighlightEvent::HighlightEnd => {
                open.pop();
            }
            HighlightEvent::Source { start, end } => out[start..end].fill(open.last().copied()),
        }
    }
    Ok(out)
}

/// Returns the expectations: offset, line of the comment, and highlight name.
fn expectations(source: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let (mut offset, mut subject) = (0, 0);
    for (number, line) in source.split('\n').enumerate() {
        let column = line.len() - line.trim_start().len();
        let words = line.trim_start().strip_prefix("//").map(str::trim_start);
        if let Some(name) = words.and_then(|words| words.strip_prefix("<- ")) {
            found.push((subject + column, number + 1, name.trim()));
        } else if let Some(name) = words.and_then(|words| words.strip_prefix("^ "))
            && let Some(column) = line.find('^')
        {
            found.push((subject + column, number + 1, name.trim()));
        } else {
            subject = offset;
        }
        offset += line.len() + 1;
    }
    found
}
