//! Diagnostics: the one form in which errors, warnings and advice reach people and tools.
//!
//! A [`Diagnostic`] speaks about one file, and may point to places in others. [`Diagnostic::render`] draws it for people, [`Diagnostic::to_json`] is for
//! tools; both need the file only to turn offsets into lines and columns.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::source_map::SourceFile;
use crate::span::Span;

/// How serious a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The program is not run (or has ended).
    Error,
    /// The program runs.
    Warning,
    /// A suggestion.
    Info,
}

impl Severity {
    /// Returns the word that begins the message.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// Something to tell about a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// A stable code such as `E0010` or a lint rule's name; empty if there is none.
    pub code: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What is wrong, without final period.
    pub message: String,
    /// Where; `None` for diagnostics without position.
    pub span: Option<Span>,
    /// Places to underline with what is to say about each (which may be empty). Without labels nothing is
    /// underlined.
    pub labels: Vec<(Span, String)>,
    /// Places in other files that explain it.
    pub elsewhere: Vec<Elsewhere>,
    /// Further facts, one line each.
    pub notes: Vec<String>,
    /// A way out.
    pub help: Option<String>,
    /// A change that removes the problem.
    pub fix: Option<Fix>,
}

/// A place in another file, with what is to say about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The place in it.
    pub span: Span,
    /// What is to say; may be empty.
    pub text: String,
}

/// A change of the source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// What it does.
    pub title: String,
    /// The places replaced and the new texts; they do not overlap.
    pub edits: Vec<(Span, String)>,
}

/// Characters of a word from which on a message does not repeat it as a whole.
const LONG_WORD: usize = 500;

/// Characters of a long word that are shown.
const SHOWN: usize = 200;

/// Cuts words that are no words: a name or a value may be as long as the program.
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
    /// Makes a diagnostic. Of words longer than 500 characters in the message the first 200 are kept.
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

    /// Makes an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// Makes a warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Underlines a place; the first one becomes the place of the diagnostic unless [`at`](Self::at) gave another.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.span.get_or_insert(span);
        self.labels.push((span, text.into()));
        self
    }

    /// Underlines a place in another file.
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

    /// Returns the diagnostic as JSON: `{severity, code, message, file, span, labels, notes, help, fix}`, where every
    /// span is `{start, end, line, column, end_line, end_column}`: byte offsets, and positions from 1. A label in another
    /// file has a `file` of its own.
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
