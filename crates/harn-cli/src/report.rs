//! How errors are drawn for people: message, place, source line with carets, help and the calls that led there.

use std::fmt::Write;

use harn_syntax::{SourceFile, Span};

use crate::style::Colour;

/// More calls than this are cut in the middle.
const MAX_CALLS: usize = 30;

/// How many calls of a longer stack are shown from its inner and its outer end.
const INNER_CALLS: usize = 20;
const OUTER_CALLS: usize = 10;

/// One drawn error or warning.
#[derive(Debug, Default)]
pub(crate) struct Frame<'a> {
    /// `error` or `warning`.
    pub(crate) severity: &'a str,
    /// The first line, without the severity.
    pub(crate) message: &'a str,
    /// Where it happened.
    pub(crate) place: Option<Place<'a>>,
    /// Text of the `= help:` line.
    pub(crate) help: Option<&'a str>,
    /// Texts of `= note:` lines.
    pub(crate) notes: &'a [String],
    /// The callers, innermost first: name, file and line.
    pub(crate) calls: &'a [(String, String, usize)],
}

/// A place in a source text.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The file's name as it is shown.
    pub(crate) file: &'a str,
    /// Its text, when it is known.
    pub(crate) source: Option<&'a SourceFile>,
    /// The part that is wrong.
    pub(crate) span: Span,
    /// Words behind the carets.
    pub(crate) label: &'a str,
    /// Whether carets are drawn at all.
    pub(crate) carets: bool,
}

impl Frame<'_> {
    /// The drawn form, with a line feed at its end.
    pub(crate) fn draw(&self, colour: Colour) -> String {
        let severity = match self.severity {
            "warning" => colour.warning("warning"),
            other => colour.error(other),
        };
        let mut out = format!("{severity}: {}\n", self.message);
        let mut gutter = 2;
        if let Some(place) = &self.place {
            gutter = place.draw(&mut out, colour);
        }
        let pad = " ".repeat(gutter);
        let mut advice = |kind: &str, text: &str| {
            let _ = writeln!(out, "{pad}{} {kind}: {text}", colour.frame("="));
        };
        if let Some(help) = self.help {
            advice("help", help);
        }
        for note in self.notes {
            advice("note", note);
        }
        let hidden =
            if self.calls.len() > MAX_CALLS { self.calls.len() - INNER_CALLS - OUTER_CALLS } else { 0 };
        for (i, (name, file, line)) in self.calls.iter().enumerate() {
            if hidden > 0 && i == INNER_CALLS {
                advice("note", &format!("... {hidden} more frames"));
            }
            if hidden == 0 || i < INNER_CALLS || i >= INNER_CALLS + hidden {
                advice("note", &format!("called from {name} at {file}:{line}"));
            }
        }
        out
    }
}

impl Place<'_> {
    /// Draws position, source line and carets; gives the width of the gutter.
    fn draw(&self, out: &mut String, colour: Colour) -> usize {
        let Some(source) = self.source else {
            let _ = writeln!(out, "  {} {}", colour.frame("-->"), self.file);
            return 2;
        };
        let (line, column) = source.line_column(self.span.start);
        let digits = line.to_string().len();
        let pad = " ".repeat(digits + 1);
        let _ = writeln!(out, "{pad}{} {}:{line}:{column}", colour.frame("-->"), self.file);
        let (bar, text) = (colour.frame("|"), source.line_text(line).unwrap_or_default());
        let _ = writeln!(out, "{pad} {bar}");
        // Tabs are one column each here and in the caret line, or the carets would point beside the place.
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (shown, column) = window(&shown, column);
        let _ = writeln!(out, " {} {bar} {}", colour.frame(&line.to_string()), shown.trim_end());
        if self.carets {
            let room = shown.chars().count().saturating_sub(column - 1).max(1);
            let wide = self.span.slice(source.text()).lines().next().map_or(0, |l| l.chars().count());
            let carets = "^".repeat(wide.clamp(1, room));
            let label = if self.label.is_empty() { String::new() } else { format!(" {}", self.label) };
            let _ = writeln!(
                out,
                "{pad} {bar} {}{}",
                " ".repeat(column - 1),
                colour.error(&format!("{carets}{label}"))
            );
        }
        digits + 1
    }
}

/// Cuts a very long line around a column; gives the part and the column in it.
fn window(line: &str, column: usize) -> (String, usize) {
    const WIDE: usize = 240;
    if line.chars().count() <= WIDE {
        return (line.to_owned(), column);
    }
    let skip = (column - 1).saturating_sub(WIDE / 2);
    (line.chars().skip(skip).take(WIDE).collect(), column - skip)
}

/// The span that carets are drawn under for a runtime error: a whole name or number, one character of anything else.
pub(crate) fn token_span(source: &str, span: Span) -> Span {
    let rest = source.get(span.start as usize..).unwrap_or_default();
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let wide: usize = rest.chars().take_while(word).map(char::len_utf8).sum();
    let one = rest.chars().next().map_or(0, char::len_utf8);
    Span::new(span.start, span.start + wide.max(one) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SourceFile {
        SourceFile::new("main.harn", "fn add(x, n) {\n  return x + n\n}\nadd(1, nil)\n")
    }

    #[test]
    fn a_runtime_error_shows_place_and_calls() {
        let source = file();
        let calls = [("total".into(), "main.harn".into(), 6), ("pipeline".into(), "main.harn".into(), 9)];
        let frame = Frame {
            severity: "error",
            message: "Type error: Cannot add int and nil (line 2)",
            place: Some(Place {
                file: "main.harn",
                source: Some(&source),
                span: Span::new(26, 27),
                label: "",
                carets: true,
            }),
            calls: &calls,
            ..Frame::default()
        };
        let expected = "error: Type error: Cannot add int and nil (line 2)
  --> main.harn:2:12
   |
 2 |   return x + n
   |            ^
  = note: called from total at main.harn:6
  = note: called from pipeline at main.harn:9
";
        assert_eq!(frame.draw(Colour::NONE), expected);
    }

    #[test]
    fn a_long_stack_is_cut_in_the_middle() {
        let calls: Vec<_> = (1..=45).map(|i| (format!("f{i}"), "a.harn".to_owned(), i)).collect();
        let drawn = Frame { severity: "error", message: "m", calls: &calls, ..Frame::default() }.draw(Colour::NONE);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), 32);
        assert_eq!(lines[20], "  = note: called from f20 at a.harn:20");
        assert_eq!(lines[21], "  = note: ... 15 more frames");
        assert_eq!(lines[22], "  = note: called from f36 at a.harn:36");
    }

    #[test]
    fn a_whole_word_is_underlined() {
        assert_eq!(token_span("total + 1", Span::new(0, 9)), Span::new(0, 5));
        assert_eq!(token_span("total + 1", Span::new(6, 9)), Span::new(6, 7));
    }
}
