//! Draws diagnostics.
//!
//! One place is drawn in the language's own frame, whose layout programs rely on:
//!
//! ```text
//! error: expected ), found id(x)
//!   --> main.harn:3:13
//!    |
//!  3 | println(f(x x))
//!    |             ^ unexpected token
//!    = help: add a closing `)` to finish this expression or parameter list
//! ```
//!
//! Several places of one file at once are drawn by `ariadne`; places in other files follow in frames of their own, whose
//! arrow is `:::`.

use std::borrow::Cow;
use std::fmt::Write;

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use crate::diagnostic::{Diagnostic, Elsewhere, Severity};
use crate::source_map::SourceFile;
use crate::span::Span;

/// ANSI sequences, or nothing.
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

/// Whether a character has power over a terminal, or over the order of what is read there.
fn is_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || c.is_control() && !matches!(c, '\n' | '\t')
}

/// Text from sources, values and file names as it may go to a terminal: control characters other than line feed and tab,
/// and those of bidirectional text, are written `\u{..}`.
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

/// A name as it may stand within a line of a terminal: as [`printable`], and line feeds are written `\u{a}`.
pub fn printable_name(name: &str) -> String {
    printable(name).replace('\n', "\\u{a}")
}

/// As [`printable`], with `margin` at the beginning of each further line: a string of others cannot look like a line of the
/// runtime.
pub fn with_margin(text: &str, margin: &str) -> String {
    printable(text.trim_end_matches('\n')).replace('\n', &format!("\n{margin}"))
}

/// The margin of further lines in a [`notice`].
pub const MARGIN: &str = "    | ";

/// An error of a command for standard error, without the last line feed.
pub fn error_line(text: &str) -> String {
    format!("error: {}", with_margin(text, MARGIN))
}

/// A line of the runtime for standard error: `[harn] `, the text, and a line feed.
pub fn notice(text: &str) -> String {
    format!("[harn] {}\n", with_margin(text, MARGIN))
}

/// How many columns [`printable`] gives a character.
fn width_of(c: char) -> usize {
    if is_control(c) { c.escape_unicode().len() } else { 1 }
}

/// A source text for a drawing that counts bytes: control characters become others of the same length.
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
    /// Draws the diagnostic for people, with ANSI colours if `color` is set. Ends in a line feed.
    pub fn render(&self, file: &SourceFile, color: bool) -> String {
        render(self, Some(file), color)
    }

    /// Draws a diagnostic without position, or whose source text is not at hand.
    pub fn render_plain(&self, color: bool) -> String {
        render(self, None, color)
    }
}

/// Draws a diagnostic; without file (or place) only its texts.
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
    // Notes stand under the arrow, the help line under the gutter.
    for note in &diagnostic.notes {
        let _ = writeln!(out, "{:width$} {} note: {}", "", paint.frame("="), with_margin(note, MARGIN));
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{:width$}  {} help: {}", "", paint.frame("="), with_margin(help, MARGIN));
    }
    out
}

/// One line of a file, with a mark below it.
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

/// How many characters of a line are shown at most; longer lines are cut around the place of the error.
const LINE_LIMIT: usize = 240;
/// How many of them stand before that place.
const LINE_BEFORE: usize = 80;
/// What stands for the part that is cut off.
const CUT: &str = "...";

/// The part of a line that is shown.
struct Excerpt<'s> {
    source: &'s str,
    span: Span,
    cut_before: bool,
    cut_after: bool,
}

impl<'s> Excerpt<'s> {
    /// Cuts `line` to a bearable length around `place`.
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

    /// The blanks before the carets (tabs stay tabs, so that they line up) and the carets.
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

/// The labelled lines as `ariadne` draws them, without its header.
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
    // In the order of the text `ariadne` keeps them in one frame.
    labels.sort_by_key(|(span, _)| (span.start, span.end));
    let mut report = Report::build(kind, place).with_config(config);
    for (order, (span, text)) in labels.into_iter().enumerate() {
        // A label must not end behind a line feed.
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
    // The first two lines repeat severity and position, the last one closes the frame.
    let lines: Vec<_> = drawn.lines().skip(2).collect();
    let inner = lines.len().saturating_sub(1);
    lines[..inner].iter().map(|line| format!("{}\n", line.trim_end())).collect()
}
