//! Plain tables for a terminal of 80 columns.

/// Maximum width of a line.
const WIDTH: usize = 80;

/// Minimum width of a truncated column.
const LEAST: usize = 12;

/// Formats rows below their headings. Columns are as wide as their widest cell and separated by two spaces, or by one
/// if two would exceed the width. Longer lines are truncated with `…`.
pub(crate) fn draw(headings: &[&str], rows: &[Vec<String>]) -> String {
    lines(headings, rows, |line| cut(line, WIDTH))
}

/// Like [`draw`], but truncates only one column, for tables whose last columns matter most. The column keeps a minimum
/// width, even if the line then exceeds the maximum.
pub(crate) fn draw_all_but(headings: &[&str], rows: &[Vec<String>], column: usize) -> String {
    let rows = &in_one_line(rows);
    let (_, widths, gap) = measured(headings, rows);
    let all = widths.iter().sum::<usize>() + gap.len() * widths.len().saturating_sub(1);
    let own = widths.get(column).copied().unwrap_or(0);
    let fits = own.saturating_sub(all.saturating_sub(WIDTH)).max(LEAST.min(own));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            if let Some(cell) = row.get_mut(column) {
                *cell = cut(cell, fits);
            }
            row
        })
        .collect();
    lines(headings, &rows, |line| line.to_owned())
}

/// Replaces control characters, line feeds and tabs, which would shift cells.
fn in_one_line(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let clean = |cell: &String| harn_syntax::printable(cell).replace(['\n', '\t'], " ");
    rows.iter().map(|row| row.iter().map(clean).collect()).collect()
}

fn lines(headings: &[&str], rows: &[Vec<String>], fit: impl Fn(&str) -> String) -> String {
    let rows = &in_one_line(rows);
    let (head, widths, gap) = measured(headings, rows);
    let mut out = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let cells: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(n, width)| format!("{:<width$}", cell(row, n), width = *width))
            .collect();
        out.push_str(&fit(cells.join(gap).trim_end()));
        out.push('\n');
    }
    out
}

/// Returns the heading row, the widths of the columns, and the separator.
fn measured(headings: &[&str], rows: &[Vec<String>]) -> (Vec<String>, Vec<usize>, &'static str) {
    let head: Vec<String> = headings.iter().map(|h| (*h).to_owned()).collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|n| {
            std::iter::once(&head).chain(rows).map(|row| cell(row, n).chars().count()).max().unwrap_or(0)
        })
        .collect();
    let is_wide = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > WIDTH;
    (head, widths, if is_wide { " " } else { "  " })
}

fn cell(row: &[String], n: usize) -> &str {
    row.get(n).map_or("", String::as_str)
}

/// Truncates a string to at most `width` characters.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_long_lines_are_cut() {
        let rows = [vec!["a".to_owned(), "x".repeat(90)], vec!["bbb".to_owned(), "y".to_owned()]];
        let table = draw(&["N", "VALUE"], &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "N   VALUE");
        assert_eq!(lines[1].chars().count(), 80);
        assert!(lines[1].starts_with("a   xx") && lines[1].ends_with('…'));
        assert_eq!(lines[2], "bbb y");
        assert_eq!(draw_all_but(&["N", "VALUE"], &rows, 1), table);
        let last = [vec!["z".repeat(90), "0.0123".to_owned()], vec!["y".to_owned(), "1.5000".to_owned()]];
        let table = draw_all_but(&["NAME", "USD"], &last, 0);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], format!("{}… 0.0123", "z".repeat(72)));
        assert_eq!(lines[2], format!("y{} 1.5000", " ".repeat(72)));
        let wide = draw_all_but(&["NAME", "A"], &[vec!["z".repeat(90), "a".repeat(90)]], 0);
        assert_eq!(wide.lines().last().unwrap(), format!("{}… {}", "z".repeat(11), "a".repeat(90)));
        assert_eq!(draw(&["N", "VALUE"], &rows[1..]), "N    VALUE\nbbb  y\n");
    }
}
