//! Two assemblies side by side: one row per fragment of either, with what became of it.

use super::layout::{pad, width, wrap};
use super::{Paint, Style};
use crate::compare::compare;
use crate::reduce::{Assembly, Provenance};

/// Columns that a cell keeps when the table is too wide.
const MIN_CELL: usize = 12;

/// Renders the provenance of two assemblies as a table under their titles. A fragment that one side never constructed
/// shows `-`. The last row counts included and excluded fragments.
#[must_use]
pub fn side_by_side(left: (&str, &Assembly), right: (&str, &Assembly), style: Style) -> String {
    let difference = compare(left.1, right.1);
    let mut rows = vec![["fragment".to_owned(), left.0.to_owned(), right.0.to_owned()]];
    rows.extend(difference.rows.iter().map(|row| [row.id.to_owned(), cell(row.left), cell(row.right)]));
    let counts = |assembly: &Assembly| format!("{}/{}", assembly.included(), assembly.excluded());
    rows.push(["included/excluded".to_owned(), counts(left.1), counts(right.1)]);

    let widths = column_widths(&rows, style.width);
    let rule = widths.map(|columns| "-".repeat(columns)).join("-|-");
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        if i == 1 || i + 1 == rows.len() {
            out.push_str(&rule);
            out.push('\n');
        }
        write_row(&mut out, row, widths, i == 0, style);
    }
    out
}

fn cell(entry: Option<&Provenance>) -> String {
    match entry {
        None => "-".to_owned(),
        Some(entry) if entry.included() => format!("included {} B, {}", entry.bytes(), entry.reason),
        Some(entry) => format!("excluded, {}", entry.reason),
    }
}

/// Gives each column what its cells need; when that is too much, the last columns give way first.
fn column_widths(rows: &[[String; 3]], limit: usize) -> [usize; 3] {
    let mut widths = [0, 1, 2].map(|i| rows.iter().map(|row| width(&row[i])).max().unwrap_or(0));
    let separators = 2 * " | ".len();
    for i in [2, 1, 0] {
        let total = widths.iter().sum::<usize>() + separators;
        let spare = widths[i].saturating_sub(MIN_CELL);
        widths[i] -= total.saturating_sub(limit).min(spare);
    }
    widths
}

fn write_row(out: &mut String, row: &[String; 3], widths: [usize; 3], heading: bool, style: Style) {
    let cells: Vec<Vec<String>> = row.iter().zip(widths).map(|(text, columns)| wrap(text, columns)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let mut parts = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            let text = cell.get(line).map_or("", String::as_str);
            let text = if i < 2 { pad(text, widths[i]) } else { text.to_owned() };
            let paint = match (heading, i) {
                (true, _) => Paint::Heading,
                (_, 0) => Paint::Included,
                _ if row[i].starts_with("excluded,") => Paint::Excluded,
                _ => Paint::Quiet,
            };
            parts.push(style.paint(paint, &text));
        }
        out.push_str(parts.join(" | ").trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::explain;

    fn assembly(options: serde_json::Value) -> Assembly {
        explain(&options).unwrap().assembly
    }

    #[test]
    fn rows_show_both_sides() {
        let left =
            assembly(json!({"system": "You help.", "tools": [{"name": "todo", "guidance": "Tick items."}]}));
        let right = assembly(json!({"system": "You help."}));
        let expected = "\
fragment           | with todo                            | without todo
-------------------|--------------------------------------|---------------------
primary            | included 9 B, unconditional          | included 9 B,
                   |                                      | unconditional
tool:todo.guidance | included 11 B, tool(s) present: todo | -
-------------------|--------------------------------------|---------------------
included/excluded  | 2/0                                  | 1/0
";
        assert_eq!(side_by_side(("with todo", &left), ("without todo", &right), Style::default()), expected);
        assert!(expected.lines().all(|line| width(line) <= 80));
    }

    #[test]
    fn excluded_fragments_keep_their_reason() {
        let left =
            assembly(json!({"_system_fragments": [{"id": "n", "body": "b", "requires_tools": ["todo"]}]}));
        let table = side_by_side(("a", &left), ("b", &Assembly::default()), Style::default());
        assert!(table.contains("excluded, requires tool `todo` (not available) | -"), "{table}");
        assert!(table.contains("included/excluded | 0/1"), "{table}");
    }

    #[test]
    fn narrow_terminals_wrap_cells() {
        let left = assembly(json!({"system": "You help."}));
        let table = side_by_side(("a", &left), ("b", &left), Style { width: 30, color: true });
        assert!(table.contains("unconditiona"), "{table}");
    }
}
