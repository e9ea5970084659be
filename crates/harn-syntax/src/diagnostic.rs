//! Diagnostics: the common form of errors, warnings and suggestions for users and tools.
//!
//! A [`Diagnostic`] belongs to one file and may refer to locations in others. [`Diagnostic::render`] draws it for
//! users, [`Diagnostic::to_json`] serializes it for tools; both need the file only to convert offsets to lines and
//! columns.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::source_map::SourceFile;
use crate::span::Span;

/// How serious a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The program is not run, or has been terminated.
    Error,
    /// The program still runs.
    Warning,
    /// A suggestion.
    Info,
}

impl Severity {
    /// Returns the prefix of the message.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A diagnostic about a source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// A stable code such as `E0010` or the name of a lint rule; may be empty.
    pub code: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// The problem, without a trailing period.
    pub message: String,
    /// The location; `None` for diagnostics without one.
    pub span: Option<Span>,
    /// Locations to underline, each with its message (which may be empty). Without labels nothing is underlined.
    pub labels: Vec<(Span, String)>,
    /// Related locations in other files.
    pub elsewhere: Vec<Elsewhere>,
    /// Additional notes, one line each.
    pub notes: Vec<String>,
    /// A suggestion to solve the problem.
    pub help: Option<String>,
    /// A source edit that solves the problem.
    pub fix: Option<Fix>,
}

/// A location in another file, with a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The location in it.
    pub span: Span,
    /// The message; may be empty.
    pub text: String,
}

/// An edit of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// The description of the edit.
    pub title: String,
    /// The replaced ranges with their replacements; the ranges do not overlap.
    pub edits: Vec<(Span, String)>,
}

/// Number of characters above which a word in a message is truncated.
const LONG_WORD: usize = 500;

/// Number of characters shown of a truncated word.
const SHOWN: usize = 200;

/// Truncates very long words: a quoted name or value may be as long as the program.
fn cut_words(text: String) -> String {
    let is_long = |word: &str| word.len() > LONG_WORD && word.chars().nth(LONG_WORD).is_some();
    if text.len() <= LONG_WORD || !text.split_whitespace().any(is_long) {
        return text;
    }
    let mut out = String::new();
    for piece in text.split_inclusive(char::is_whitespace) {
        if is_long(piece.trim_end()) {
            out.extend(piece.chars().take(SHOWN));
            out.push_str("...");
            out.extend(piece.chars().next_back().filter(|c| c.is_whitespace()));
        } else {
            out.push_str(piece);
        }
    }
    out
}

impl Diagnostic {
    /// Creates a diagnostic. Words longer than 500 characters in the message are truncated to their first 200.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code: "",
            severity,
            message: cut_words(message.into()),
            span: None,
            labels: Vec::new(),
            elsewhere: Vec::new(),
            notes: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// Creates an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// Creates a warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Underlines a location; the first one also becomes the location of the diagnostic unless [`at`](Self::at) has
    /// set it.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.span.get_or_insert(span);
        self.labels.push((span, text.into()));
        self
    }

    /// Underlines a location in another file.
    #[must_use]
    pub fn with_label_in(mut self, file: Arc<SourceFile>, span: Span, text: impl Into<String>) -> Self {
        self.elsewhere.push(Elsewhere { file, span, text: text.into() });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the help line.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn with_fix(mut self, title: impl Into<String>, edits: Vec<(Span, String)>) -> Self {
        self.fix = Some(Fix { title: title.into(), edits });
        self
    }

    /// Returns the diagnostic as JSON: `{severity, code, message, file, span, labels, notes, help, fix}`. Every
    /// span is `{start, end, line, column, end_line, end_column}` with byte offsets and 1-based positions. A label
    /// in another file has its own `file`.
    pub fn to_json(&self, file: &SourceFile) -> Value {
        let span_in = |file: &SourceFile, span: Span| {
            let (line, column) = file.line_column(span.start);
            let (end_line, end_column) = file.line_column(span.end);
            json!({
                "start": span.start, "end": span.end, "line": line, "column": column,
                "end_line": end_line, "end_column": end_column,
            })
        };
        let span = |at: Span| span_in(file, at);
        let pieces = |pieces: &[(Span, String)]| -> Vec<Value> {
            pieces.iter().map(|(at, text)| json!({"span": span(*at), "text": text})).collect()
        };
        let mut labels = pieces(&self.labels);
        labels.extend(self.elsewhere.iter().map(|place| {
            json!({"file": place.file.name(), "span": span_in(&place.file, place.span), "text": place.text})
        }));
        json!({
            "severity": self.severity.word(),
            "code": (!self.code.is_empty()).then_some(self.code),
            "message": self.message,
            "file": file.name(),
            "span": self.span.map(span),
            "labels": labels,
            "notes": self.notes,
            "help": self.help,
            "fix": self.fix.as_ref().map(|fix| json!({"title": fix.title, "edits": pieces(&fix.edits)})),
        })
    }
}
