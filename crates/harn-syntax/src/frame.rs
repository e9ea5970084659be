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
//! Several places at once are drawn by `ariadne`.

use std::fmt::Write;

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use crate::diagnostic::{Diagnostic, Severity};
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

/// Draws a diagnostic; without file (or place) only its texts.
pub(crate) fn render(diagnostic: &Diagnostic, file: Option<&SourceFile>, color: bool) -> String {
    let paint = Paint { on: color };
    let word = paint.severity(diagnostic.severity, diagnostic.severity.word());
    let mut out = format!("{word}: {}\n", paint.wrap("1", &diagnostic.message));
    let mut width = 1;
    if let (Some(file), Some(span)) = (file, diagnostic.span) {
        let (line, column) = file.line_column(span.start);
        width = line.to_string().len();
        let _ = writeln!(out, "{:width$} {} {}:{line}:{column}", "", paint.frame("-->"), file.name());
        if diagnostic.labels.len() > 1 {
            out.push_str(&several_places(diagnostic, file, color));
        } else {
            one_place(&mut out, diagnostic, file, line, width, &paint);
        }
    }
    // Notes stand under the arrow, the help line under the gutter.
    for note in &diagnostic.notes {
        let _ = writeln!(out, "{:width$} {} note: {note}", "", paint.frame("="));
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{:width$}  {} help: {help}", "", paint.frame("="));
    }
    out
}

fn one_place(
    out: &mut String,
    diagnostic: &Diagnostic,
    file: &SourceFile,
    line: usize,
    width: usize,
    paint: &Paint,
) {
    let Some(text) = file.line_text(line) else { return };
    let bar = paint.frame("|");
    let _ = writeln!(out, "{:width$}  {bar}", "");
    let number = paint.frame(&format!("{line:>width$}"));
    let _ = writeln!(out, "{}", format!(" {number} {bar} {text}").trim_end());
    if let Some((span, label)) = diagnostic.labels.first() {
        let (label_line, _) = file.line_column(span.start);
        if label_line == line {
            let carets = carets(file, *span, line);
            let marks = paint.severity(diagnostic.severity, format!("{} {label}", carets.1).trim_end());
            let _ = writeln!(out, "{:width$}  {bar} {}{marks}", "", carets.0);
        }
    }
}

/// The blanks before the carets (tabs stay tabs, so that they line up) and the carets.
fn carets(file: &SourceFile, span: Span, line: usize) -> (String, String) {
    let Some(line_span) = file.line_span(line) else { return (String::new(), "^".to_owned()) };
    let text = file.text();
    let start = span.start.min(line_span.end);
    let before = Span::new(line_span.start, start).slice(text);
    let blanks = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let marked = Span::new(start, span.end.clamp(start, line_span.end)).slice(text);
    (blanks, "^".repeat(marked.chars().count().max(1)))
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
    let mut report = Report::build(kind, place).with_config(config);
    for (order, (span, text)) in diagnostic.labels.iter().enumerate() {
        let mut label = Label::new(span.range()).with_order(order as i32);
        if !text.is_empty() {
            label = label.with_message(text);
        }
        report = report.with_label(label);
    }
    let mut bytes = Vec::new();
    if report.finish().write(Source::from(file.text()), &mut bytes).is_err() {
        return String::new();
    }
    let drawn = String::from_utf8_lossy(&bytes);
    // The first two lines repeat severity and position.
    drawn.lines().skip(2).map(|line| format!("{}\n", line.trim_end())).collect()
}
