//! Renders the prompt with a margin that shows the name of each fragment and why it is included.

use super::layout::{pad, width, wrap};
use super::{Paint, Style, count};
use crate::compare::{Change, Difference};
use crate::explain::Explanation;
use crate::reduce::{Assembly, Provenance};
use crate::stability::{Stability, stability_report};

/// Columns of the margin without its rule: the length of the longest fragment name that every agent has.
const MARGIN: usize = 28;
/// The minimum number of columns for the prompt, however narrow the terminal.
const MIN_TEXT: usize = 20;

/// Renders an explanation: the prompt fragment by fragment, excluded fragments with the reason, the size of the
/// cacheable prefix, and, if requested, the difference from the prompt without some tools.
#[must_use]
pub fn explanation(explanation: &Explanation, style: Style) -> String {
    let mut out = prompt(&explanation.assembly, style);
    if let (Some(without), Some(difference)) = (&explanation.without, explanation.difference()) {
        let names = without.tools.join(", ");
        out.push(String::new());
        out.push(style.paint(Paint::Heading, &format!("Without {names}")));
        let size = count(without.assembly.as_str().len(), "byte");
        let shared = count(difference.shared_prefix, "leading byte");
        out.extend(wrap(&format!("  {size} ({:+}), {shared} shared", difference.byte_delta), style.width));
        out.extend(changes(&difference, style));
    }
    joined(&out)
}

/// Returns the lines of a prompt with its margin, its excluded fragments, and its stability.
pub(super) fn prompt(assembly: &Assembly, style: Style) -> Vec<String> {
    let mut out = vec![style.paint(Paint::Heading, &headline(assembly))];
    for entry in assembly.in_text_order() {
        out.push(String::new());
        out.extend(beside(entry, assembly.body(entry), style));
    }
    out.extend(left_out(assembly, style));
    out.extend(prefix_note(assembly, style));
    out
}

/// Returns one line per changed fragment.
pub(super) fn changes(difference: &Difference<'_>, style: Style) -> Vec<String> {
    let changed = difference.rows.iter().filter(|row| row.change != Change::Same);
    changed.map(|row| format!("  {} {}", row.change.as_str(), style.paint(Paint::Excluded, row.id))).collect()
}

/// Joins lines without trailing spaces.
pub(super) fn joined(lines: &[String]) -> String {
    let mut text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

fn headline(assembly: &Assembly) -> String {
    let total = assembly.provenance.len();
    match &assembly.text {
        Some(text) => {
            let size = count(text.len(), "byte");
            format!("System prompt: {} of {}, {size}", assembly.included(), count(total, "fragment"))
        }
        None => format!("No system prompt: 0 of {}", count(total, "fragment")),
    }
}

/// Renders one fragment's body next to its name, reason and size.
fn beside(entry: &Provenance, body: &str, style: Style) -> Vec<String> {
    let columns = style.width.saturating_sub(MARGIN + 4).max(MIN_TEXT);
    let id = wrap(&entry.id, MARGIN);
    let named = id.len();
    let reason = wrap(&entry.reason.to_string(), MARGIN);
    let mut margin: Vec<String> = id.into_iter().chain(reason).collect();
    let after = if entry.bucket.as_str() == "after" { ", after" } else { "" };
    margin.push(format!("{}{after}", count(entry.bytes(), "byte")));
    let text = wrap(body, columns);
    (0..margin.len().max(text.len()))
        .map(|i| {
            let label = pad(margin.get(i).map_or("", String::as_str), MARGIN);
            let paint = if i < named { Paint::Included } else { Paint::Quiet };
            format!(" {} │ {}", style.paint(paint, &label), text.get(i).map_or("", String::as_str))
        })
        .collect()
}

fn left_out(assembly: &Assembly, style: Style) -> Vec<String> {
    let excluded: Vec<_> = assembly.provenance.iter().filter(|entry| !entry.included()).collect();
    if excluded.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), style.paint(Paint::Heading, "Left out")];
    for entry in excluded {
        let id = pad(&entry.id, MARGIN);
        let indent = width(&id) + 4;
        let reason = wrap(&entry.reason.to_string(), style.width.saturating_sub(indent).max(MIN_TEXT));
        for (i, line) in reason.iter().enumerate() {
            out.push(match i {
                0 => format!(" {}   {line}", style.paint(Paint::Excluded, &id)),
                _ => format!("{}{line}", " ".repeat(indent)),
            });
        }
    }
    out
}

fn prefix_note(assembly: &Assembly, style: Style) -> Vec<String> {
    if assembly.text.is_none() {
        return Vec::new();
    }
    let report = stability_report(assembly);
    let note = match report.first() {
        None => "Cacheable prefix: the whole prompt.".to_owned(), // prose-ok: for the terminal
        Some(first) => {
            let when = match first.stability {
                Stability::EachTurn => "in every turn",
                _ => "with the active tools or skills",
            };
            format!(
                // prose-ok: for the terminal
                "Cacheable prefix: the first {} of {} bytes. The next fragment, `{}`, changes {when}.",
                report.stable_prefix_bytes, report.total_bytes, first.id
            )
        }
    };
    let mut out = vec![String::new()];
    out.extend(wrap(&note, style.width));
    out
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::explain::explain;

    fn shown(options: &harn_value::Data, style: Style) -> String {
        explanation(&explain(options).unwrap(), style)
    }

    #[test]
    fn the_margin_names_fragments_and_reasons() {
        let options = json!({
            "system": "You help.\nBe brief, and say so whenever the question is larger than the answer that was given.",
            "tools": [{"name": "todo", "guidance": "Tick items."}, {"name": "deploy", "guidance": "x", "defer_loading": true}],
            "tool_search": true,
            "system_suffix": "Bye.",
            "without": ["todo"],
        });
        let expected = "\
System prompt: 3 of 4 fragments, 113 bytes

 primary                      │ You help.
 unconditional                │ Be brief, and say so whenever the question is
 94 bytes                     │ larger than the answer that was given.

 tool:todo.guidance           │ Tick items.
 tool(s) present: todo        │
 11 bytes                     │

 host:system_suffix           │ Bye.
 unconditional                │
 4 bytes, after               │

Left out
 tool:deploy.guidance           requires tool `deploy` (not available)

Cacheable prefix: the first 96 of 113 bytes. The next fragment,
`tool:todo.guidance`, changes with the active tools or skills.

Without todo
  100 bytes (-13), 96 leading bytes shared
  removed tool:todo.guidance
";
        let text = shown(&options, Style::default());
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| width(line) <= 80));
    }

    #[test]
    fn no_prompt_says_so() {
        assert_eq!(shown(&json!({}), Style::default()), "No system prompt: 0 of 0 fragments\n");
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let options =
            json!({"system": "You help.", "tools": [{"name": "t", "guidance": "g"}], "without": "t"});
        let plain = shown(&options, Style::default());
        let mut rest = shown(&options, Style { color: true, ..Style::default() });
        assert!(rest.contains("\u{1b}[36m"));
        for code in ["0", "1", "2", "33", "36"] {
            rest = rest.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(
            rest.lines().map(str::trim_end).collect::<Vec<_>>(),
            plain.lines().map(str::trim_end).collect::<Vec<_>>()
        );
    }

    #[test]
    fn long_names_and_narrow_terminals_still_work() {
        let name = "n".repeat(60);
        let options = json!({"tools": [{"name": name, "guidance": "g"}, {"name": "d", "guidance": "x", "defer_loading": true}], "tool_search": true});
        let text = shown(&options, Style { width: 10, color: false });
        assert!(text.contains("Left out"));
        assert!(text.contains(&"n".repeat(28)));
    }
}
