//! Renders diagnostics.
//!
//! A single location is drawn in the following frame. Programs parse this layout, so it is stable:
//! ```text
//! error: expected ), found id(x)
//!   --> main.harn:3:13
//!    |
//!  3 | println(f(x x))
//!    |             ^ unexpected token
//!    = help: add a closing `)` to finish this expression or parameter list
//! ```
//!
//! Several locations in one file are drawn by `ariadne`. Locations in other files follow in separate frames with
//! the arrow `:::`.

use std::borrow::Cow;
use std::fmt::Write;

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use crate::diagnostic::{Diagnostic, Elsewhere, Severity};
use crate::source_map::SourceFile;
use crate::span::Span;

/// Writes ANSI escape sequences if enabled.
struct Paint {
    on: bool,
}

impl Paint {
    fn wrap(&self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn severity(&self, severity: Severity, text: &str) -> String {
        let code = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "1;33",
            Severity::Info => "1;36",
        };
        self.wrap(code, text)
    }

    fn frame(&self, text: &str) -> String {
        self.wrap("34", text)
    }
}

/// Returns whether a character controls the terminal or changes the direction of text.
fn is_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || c.is_control() && !matches!(c, '\n' | '\t')
}

/// Escapes text from sources, values and file names for a terminal: control characters other than line feed and
/// tab, and bidirectional control characters, are written as `\u{..}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        match is_control(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
        out
    }))
}

/// Escapes a name for use within a line of terminal output: like [`printable`], and line feeds are written as
/// `\u{a}`.
pub fn printable_name(name: &str) -> String {
    printable(name).replace('\n', "\\u{a}")
}

/// Like [`printable`], and prefixes every line after the first with `margin`, so that untrusted text cannot imitate
/// a line of the runtime.
pub fn with_margin(text: &str, margin: &str) -> String {
    printable(text.trim_end_matches('\n')).replace('\n', &format!("\n{margin}"))
}

/// The margin of continuation lines in a [`notice`].
pub const MARGIN: &str = "    | ";

/// Formats an error of a command for standard error, without the last line feed.
pub fn error_line(text: &str) -> String {
    format!("error: {}", with_margin(text, MARGIN))
}

/// Formats a message of the runtime for standard error: `[harn] `, the message, and a line feed.
pub fn notice(text: &str) -> String {
    format!("[harn] {}\n", with_margin(text, MARGIN))
}

/// Returns the number of columns that a character occupies after [`printable`].
fn width_of(c: char) -> usize {
    if is_control(c) { c.escape_unicode().len() } else { 1 }
}

/// Replaces control characters by others of the same byte length, because `ariadne` locates text by byte offsets.
fn same_length(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_control(c) && c != '\r';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let instead = |c: char| match (harmful(c), c.len_utf8()) {
        (false, _) => c,
        (true, 1) => '?',
        (true, 2) => '\u{bf}',
        (true, _) => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(instead).collect())
}

impl Diagnostic {
    /// Renders the diagnostic for users, with ANSI colours if `color` is set. The result ends in a line feed.
    pub fn render(&self, file: &SourceFile, color: bool) -> String {
        render(self, Some(file), color)
    }

    /// Renders a diagnostic that has no location, or whose source is not available.
    pub fn render_plain(&self, color: bool) -> String {
        render(self, None, color)
    }
}

/// Renders a diagnostic; without a file or location only its messages.
fn render(diagnostic: &Diagnostic, file: Option<&SourceFile>, color: bool) -> String {
    let paint = Paint { on: color };
    let word = paint.severity(diagnostic.severity, diagnostic.severity.word());
    let mut out = format!("{word}: {}\n", paint.wrap("1", &with_margin(&diagnostic.message, MARGIN)));
    let mut width = 1;
    if let (Some(file), Some(span)) = (file, diagnostic.span) {
        let (line, column) = file.line_column(span.start);
        width = line.to_string().len();
        let _ = writeln!(
            out,
            "{:width$} {} {}:{line}:{column}",
            "",
            paint.frame("-->"),
            printable_name(file.name())
        );
        if diagnostic.labels.len() > 1 {
            out.push_str(&several_places(diagnostic, file, color));
        } else {
            let label = diagnostic.labels.first().map(|(span, text)| (*span, text.as_str()));
            one_place(&mut out, diagnostic.severity, file, span, label, width, &paint);
        }
    }
    for Elsewhere { file, span, text } in &diagnostic.elsewhere {
        let (line, column) = file.line_column(span.start);
        width = width.max(line.to_string().len());
        let _ = writeln!(
            out,
            "{:width$} {} {}:{line}:{column}",
            "",
            paint.frame(":::"),
            printable_name(file.name())
        );
        one_place(&mut out, Severity::Info, file, *span, Some((*span, text)), width, &paint);
    }
    // Notes are aligned with the arrow, the help line with the gutter.
    for note in &diagnostic.notes {
        let _ = writeln!(out, "{:width$} {} note: {}", "", paint.frame("="), with_margin(note, MARGIN));
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{:width$}  {} help: {}", "", paint.frame("="), with_margin(help, MARGIN));
    }
    out
}

/// Draws one line of a file with a mark below it.
fn one_place(
    out: &mut String,
    severity: Severity,
    file: &SourceFile,
    span: Span,
    label: Option<(Span, &str)>,
    width: usize,
    paint: &Paint,
) {
    let line = file.line(span.start);
    let Some(line_span) = file.line_span(line) else { return };
    let shown = Excerpt::around(file.text(), line_span, span.start);
    let bar = paint.frame("|");
    let number = paint.frame(&format!("{line:>width$}"));
    let _ = writeln!(out, "{:width$}  {bar}", "");
    let _ = writeln!(out, "{}", format!(" {number} {bar} {}", shown.text()).trim_end());
    if let Some((label_span, label)) = label
        && file.line(label_span.start) == line
    {
        let (blanks, carets) = shown.carets(label_span);
        let marks = paint.severity(severity, format!("{carets} {}", printable(label)).trim_end());
        let _ = writeln!(out, "{:width$}  {bar} {blanks}{marks}", "");
    }
}

/// Maximum number of characters shown of a line; longer lines are truncated around the location of the error.
const LINE_LIMIT: usize = 240;
/// Number of characters shown before that location.
const LINE_BEFORE: usize = 80;
/// Marks a truncated part.
const CUT: &str = "...";

/// The shown part of a line.
struct Excerpt<'s> {
    source: &'s str,
    span: Span,
    cut_before: bool,
    cut_after: bool,
}

impl<'s> Excerpt<'s> {
    /// Truncates `line` to at most `LINE_LIMIT` characters around `place`.
    fn around(source: &'s str, line: Span, place: u32) -> Self {
        let whole = Self { source, span: line, cut_before: false, cut_after: false };
        if line.slice(source).chars().nth(LINE_LIMIT).is_none() {
            return whole;
        }
        let place = place.min(line.end);
        let before = Span::new(line.start, place).slice(source);
        let start = before.char_indices().rev().nth(LINE_BEFORE - 1).map_or(0, |(at, _)| at);
        let start = line.start + start as u32;
        let rest = Span::new(start, line.end).slice(source);
        let end = rest.char_indices().nth(LINE_LIMIT).map_or(rest.len(), |(at, _)| at);
        let span = Span::new(start, start + end as u32);
        Self { source, span, cut_before: start > line.start, cut_after: span.end < line.end }
    }

    fn text(&self) -> String {
        let mark = |cut: bool| if cut { CUT } else { "" };
        let shown = printable(self.span.slice(self.source).trim_end_matches('\r'));
        format!("{}{shown}{}", mark(self.cut_before), mark(self.cut_after))
    }

    /// Returns the whitespace before the carets (tabs are retained for alignment) and the carets.
    fn carets(&self, span: Span) -> (String, String) {
        let start = span.start.clamp(self.span.start, self.span.end);
        let before = Span::new(self.span.start, start).slice(self.source);
        let mut blanks = if self.cut_before { " ".repeat(CUT.len()) } else { String::new() };
        for c in before.chars() {
            match c {
                '\t' => blanks.push('\t'),
                c => blanks.extend(std::iter::repeat_n(' ', width_of(c))),
            }
        }
        let marked = Span::new(start, span.end.clamp(start, self.span.end)).slice(self.source);
        (blanks, "^".repeat(marked.chars().map(width_of).sum::<usize>().max(1)))
    }
}

/// Returns the labelled lines as drawn by `ariadne`, without its header.
fn several_places(diagnostic: &Diagnostic, file: &SourceFile, color: bool) -> String {
    let kind = match diagnostic.severity {
        Severity::Error => ReportKind::Error,
        Severity::Warning => ReportKind::Warning,
        Severity::Info => ReportKind::Advice,
    };
    let place = diagnostic.span.unwrap_or_default().range();
    let config = Config::default()
        .with_color(color)
        .with_char_set(CharSet::Ascii)
        .with_index_type(IndexType::Byte)
        .with_compact(false);
    let mut labels: Vec<_> = diagnostic.labels.iter().collect();
    // Sorted by position, the labels stay in one frame of `ariadne`.
    labels.sort_by_key(|(span, _)| (span.start, span.end));
    let mut report = Report::build(kind, place).with_config(config);
    for (order, (span, text)) in labels.into_iter().enumerate() {
        // A label must not include a trailing line feed.
        let end = span.start as usize + span.slice(file.text()).trim_end().len();
        let mut label = Label::new(span.start as usize..end).with_order(order as i32);
        if !text.is_empty() {
            label = label.with_message(printable(text));
        }
        report = report.with_label(label);
    }
    let mut bytes = Vec::new();
    if report.finish().write(Source::from(same_length(file.text())), &mut bytes).is_err() {
        return String::new();
    }
    let drawn = String::from_utf8_lossy(&bytes);
    // The first two lines repeat severity and location, the last one closes the frame.
    let lines: Vec<_> = drawn.lines().skip(2).collect();
    let inner = lines.len().saturating_sub(1);
    lines[..inner].iter().map(|line| format!("{}\n", line.trim_end())).collect()
}
