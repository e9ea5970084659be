//! Plain tables for a terminal of 80 columns.

/// The width that no line exceeds.
const WIDTH: usize = 80;

/// Draws rows below their headings: columns are as wide as their widest cell, two blanks apart, or one where two
/// would pass the width. What passes it all the same is cut, with `…` for what is missing.
pub(crate) fn draw(headings: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = headings.iter().map(|h| (*h).to_owned()).collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|n| {
            std::iter::once(&head).chain(rows).map(|row| cell(row, n).chars().count()).max().unwrap_or(0)
        })
        .collect();
    let wide = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > WIDTH;
    let gap = if wide { " " } else { "  " };
    let mut out = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let cells: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(n, width)| format!("{:<width$}", cell(row, n), width = *width))
            .collect();
        out.push_str(&cut(cells.join(gap).trim_end(), WIDTH));
        out.push('\n');
    }
    out
}

fn cell(row: &[String], n: usize) -> &str {
    row.get(n).map_or("", String::as_str)
}

/// Text of at most `width` characters.
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
        assert_eq!(draw(&["N", "VALUE"], &rows[1..]), "N    VALUE\nbbb  y\n");
    }
}
