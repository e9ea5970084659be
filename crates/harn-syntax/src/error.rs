//! Lexical and syntax errors.

use smol_str::SmolStr;

use crate::diagnostic::Diagnostic;
use crate::source_map::line_column;
use crate::span::Span;
use crate::token::TokenKind;
use crate::{brackets, habits};

/// An error found while lexing or parsing a source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// The kind of error.
    pub kind: SyntaxErrorKind,
    /// Its location.
    pub span: Span,
}

/// The kinds of errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyntaxErrorKind {
    /// A character that cannot start a token.
    UnexpectedCharacter(char),
    /// A number directly followed by a name, as in `12abc`; the character is the first of the name.
    NumberSuffix(char),
    /// A string that is not closed on its line (or, for `"""`, before the end of the file); the span is the opening
    /// quote.
    UnterminatedString,
    /// A block comment that is not closed; the span is its opening marker.
    UnterminatedComment,
    /// A `\u{...}` escape that is not a Unicode scalar value.
    InvalidUnicodeEscape,
    /// More than [`MAX_NESTING`](crate::MAX_NESTING) open brackets.
    NestingTooDeep,
    /// More than `MAX_CHAIN` chained operators.
    ChainTooLong,
    /// A source longer than 4 GiB.
    TooLong,
    /// An unexpected token.
    Expected {
        /// The expected token or construct.
        what: &'static str,
        /// The token found.
        found: SmolStr,
    },
    /// The file ends too early.
    UnexpectedEnd {
        /// The expected token or construct.
        what: &'static str,
    },
    /// `with { name: ... }` on a `parallel` with an unknown option.
    UnknownParallelOption {
        /// The option.
        name: SmolStr,
    },
    /// A duplicate name in a list of distinct names.
    Duplicate {
        /// The kind of the named item, such as `parameter`.
        what: &'static str,
        /// The name.
        name: SmolStr,
    },
    /// A grammar rule with its own message.
    Rule(Rule),
    /// Well-formed source that cannot be compiled.
    Compile(CompileRule),
}

/// Grammar rules that have their own message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A parameter without default after one with a default.
    RequiredAfterDefault,
    /// A parameter after the rest parameter.
    RestNotLast,
    /// A rest parameter with a default value.
    RestWithDefault,
    /// `timeout` and `default` in one `select`.
    TimeoutAndDefault,
    /// More than one `timeout` or `default` in one `select`.
    RepeatedSelectCase,
    /// `<<TAG`.
    Heredoc,
    /// A repeated field of a tool.
    RepeatedToolField,
    /// An integer type literal or attribute value that does not fit 64 bits.
    IntTooLarge,
    /// More than one `summarize` in one `eval_pack`.
    RepeatedSummarize,
    /// An unknown constraint attribute before a field or parameter.
    UnknownLimit,
    /// A constraint attribute with an invalid argument.
    LimitArgument,
    /// A constraint attribute that does not apply to the type of its field.
    LimitOfOtherType,
    /// Two constraints of the same kind on one field.
    RepeatedLimit,
    /// `@pattern` with an invalid regular expression.
    LimitPattern,
}

/// Rules reported as compile errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompileRule {
    /// A spread `...x` outside lists, dicts and calls.
    Spread,
    /// `a | b` outside a match arm.
    OrPattern,
    /// A duration that does not fit 64 bits of milliseconds.
    DurationTooLarge,
    /// A call or another expression as the value of an attribute's argument.
    AttributeArgument,
}

impl Rule {
    /// Returns the message.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RequiredAfterDefault => "Required parameter cannot follow a parameter with a default value",
            Self::RestNotLast => "Rest parameter must be the last parameter",
            Self::RestWithDefault => "Rest parameter cannot have a default value",
            Self::TimeoutAndDefault => "select cannot have both timeout and default",
            Self::RepeatedSelectCase => "select can have only one timeout or default",
            Self::Heredoc => {
                "Expected an expression — heredocs are only valid inside LLM tool-call argument JSON; \
                 use a triple-quoted string (\"\"\"...\"\"\") for text of several lines"
            }
            Self::RepeatedToolField => "a tool field can be given only once",
            Self::IntTooLarge => "integer literal is too large",
            Self::RepeatedSummarize => "eval_pack can have only one summarize block",
            Self::UnknownLimit => {
                "unknown limit; a field or parameter takes @range(0..=150), @length(1..=80), @items(1..=10) and \
                 @pattern(\"[a-z]+\")"
            }
            Self::LimitArgument => {
                "wrong argument of a limit: write the smallest and the largest value as `0..=150`, `1..` or `..=80`, \
                 and a pattern as a string"
            }
            Self::RepeatedLimit => "a field has one limit of each kind",
            Self::LimitPattern => {
                "invalid regular expression in @pattern; look-around and back-references are not supported"
            }
            Self::LimitOfOtherType => {
                "this limit does not apply to the type: @range is for int and float, @length and @pattern for string, \
                 @items for list and set"
            }
        }
    }
}

impl CompileRule {
    /// Returns the message.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Spread => {
                "spread (...) can only be used inside list literals, dict literals, or function call arguments"
            }
            Self::OrPattern => "or-pattern (|) can only appear as a match arm pattern",
            Self::DurationTooLarge => "duration literal is too large",
            Self::AttributeArgument => "attribute argument must be a literal value",
        }
    }
}

/// The stage that reports an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Lexing.
    Lex,
    /// Parsing.
    Parse,
    /// Reported in the format of a compile error although the parser detects it.
    Compile,
}

impl std::fmt::Display for SyntaxError {
    /// Writes the message with its byte offset. [`SyntaxError::canonical`] takes the source and returns line and
    /// column.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = format!("byte {}", self.span.start);
        f.write_str(&self.placed(&place, &place))
    }
}

impl std::error::Error for SyntaxError {}

impl SyntaxError {
    /// Returns the stage that reports the error.
    pub fn stage(&self) -> Stage {
        use SyntaxErrorKind::*;
        match self.kind {
            UnexpectedCharacter(_)
            | NumberSuffix(_)
            | UnterminatedString
            | UnterminatedComment
            | InvalidUnicodeEscape
            | TooLong => Stage::Lex,
            Compile(_) => Stage::Compile,
            _ => Stage::Parse,
        }
    }

    /// Returns the message that the test runner compares, including the position: `Expected ), got id(x) at 3:13`.
    pub fn canonical(&self, source: &str) -> String {
        let (line, column) = line_column(source, self.span.start);
        self.placed(&format!("line {line}"), &format!("{line}:{column}"))
    }

    /// Returns the message with its location: `line` for compile errors, `place` for the others.
    fn placed(&self, line: &str, place: &str) -> String {
        let text = match &self.kind {
            SyntaxErrorKind::UnexpectedEnd { what } => {
                return format!("Unexpected end of file, expected {what}");
            }
            SyntaxErrorKind::Compile(rule) => {
                return format!("Compile error at {line}: {}", rule.text());
            }
            SyntaxErrorKind::UnexpectedCharacter(c) | SyntaxErrorKind::NumberSuffix(c) => {
                format!("Unexpected character '{c}'")
            }
            SyntaxErrorKind::UnterminatedString => "Unterminated string".to_owned(),
            SyntaxErrorKind::UnterminatedComment => "Unterminated block comment".to_owned(),
            SyntaxErrorKind::Expected { what, found } => format!("Expected {what}, got {found}"),
            SyntaxErrorKind::UnknownParallelOption { name } => {
                format!("Expected {}", unknown_option(name))
            }
            SyntaxErrorKind::Rule(rule) => rule.text().to_owned(),
            other => other.plain(),
        };
        format!("{text} at {place}")
    }

    /// Converts the error to a diagnostic with label and help line.
    pub fn diagnostic(&self, source: &str) -> Diagnostic {
        let (line, _) = line_column(source, self.span.start);
        let (code, message, label, help) = match &self.kind {
            SyntaxErrorKind::UnexpectedCharacter(c) => {
                let message = format!("unexpected character '{}'", c.escape_debug());
                ("E0001", message, "here", habits::character(*c))
            }
            SyntaxErrorKind::NumberSuffix(c) => (
                "E0002",
                format!("unexpected character '{c}' directly after a number"),
                "here",
                Some("put a space or an operator between them; durations end in ms, s, m, h, d or w"),
            ),
            SyntaxErrorKind::UnterminatedString => (
                "E0003",
                "unterminated string".to_owned(),
                "here",
                Some("add the closing `\"`; a string of several lines begins and ends with `\"\"\"`"),
            ),
            SyntaxErrorKind::UnterminatedComment => {
                ("E0004", "unterminated block comment".to_owned(), "here", Some("add a closing `*/`"))
            }
            SyntaxErrorKind::InvalidUnicodeEscape => ("E0005", self.kind.plain(), "here", None),
            SyntaxErrorKind::NestingTooDeep => (
                "E0006",
                self.kind.plain(),
                "here",
                Some("name inner parts with `let`, or move them into functions"),
            ),
            SyntaxErrorKind::ChainTooLong => {
                ("E0007", self.kind.plain(), "here", Some("split the expression with `let`"))
            }
            SyntaxErrorKind::TooLong => ("E0008", self.kind.plain(), "here", None),
            SyntaxErrorKind::Expected { what, found } => {
                let help = closing_help(what, found);
                (
                    "E0010",
                    format!("expected {}, found {}", shown(what), self.found(found, source)),
                    "unexpected token",
                    help,
                )
            }
            SyntaxErrorKind::UnexpectedEnd { what } => (
                "E0011",
                format!("unexpected end of file, expected {}", shown(what)),
                "file ends here",
                closing_help(what, ""),
            ),
            SyntaxErrorKind::UnknownParallelOption { name } => {
                ("E0012", format!("expected {}", unknown_option(name)), "here", None)
            }
            SyntaxErrorKind::Duplicate { .. } => ("E0013", self.kind.plain(), "here", None),
            SyntaxErrorKind::Rule(rule) => ("E0014", rule.text().to_owned(), "here", None),
            SyntaxErrorKind::Compile(rule) => (
                "E0015",
                format!("compile error: Compile error at line {line}: {}", rule.text()),
                "here",
                None,
            ),
        };
        let mut diagnostic = Diagnostic::error(message).with_code(code).with_label(self.span, label);
        let missing_closer = matches!(
            self.kind,
            SyntaxErrorKind::Expected { what: ")" | "]" | "}", .. } | SyntaxErrorKind::UnexpectedEnd { .. }
        );
        let opener = if missing_closer { brackets::opener(source, self.span.start) } else { None };
        let hidden = opener.and_then(|opener| habits::hidden_closer(source, opener));
        diagnostic.help = hidden.or_else(|| self.advice(source)).or_else(|| help.map(str::to_owned));
        if let Some(opener) = opener {
            let bracket = opener.slice(source);
            diagnostic.labels.push((opener, format!("this `{bracket}` is never closed")));
        }
        diagnostic
    }

    /// Returns advice for users of other languages about the correct Harn syntax at this location.
    fn advice(&self, source: &str) -> Option<String> {
        match self.kind {
            SyntaxErrorKind::Expected { .. }
            | SyntaxErrorKind::UnexpectedCharacter(_)
            | SyntaxErrorKind::NumberSuffix(_)
            | SyntaxErrorKind::Compile(CompileRule::OrPattern)
            | SyntaxErrorKind::UnexpectedEnd { .. } => habits::advice(source, self.span),
            SyntaxErrorKind::UnterminatedString => habits::open_interpolation(source, self.span),
            _ => None,
        }
    }

    /// Returns whether a name was expected where a keyword was found.
    fn is_word_for_a_name(&self, text: &str) -> bool {
        let wanted = matches!(&self.kind, SyntaxErrorKind::Expected { what, .. } if what.ends_with("name"));
        wanted && TokenKind::is_keyword_text(text)
    }

    /// Returns the found token as it is written in the source.
    fn found(&self, found: &str, source: &str) -> String {
        let text = self.span.slice(source);
        match found {
            "\\n" => "the end of the line".to_owned(),
            _ if found.contains(' ') && !found.contains('(') => found.to_owned(),
            _ if found.ends_with("(reserved keyword)") || self.is_word_for_a_name(text) => {
                format!("`{text}` (reserved keyword)")
            }
            _ if text.is_empty() => "the end of the file".to_owned(),
            _ => format!("`{}`", cut(text)),
        }
    }
}

/// Truncates a piece of source for a message to one line of at most 60 characters.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < text.len() => format!("{line}..."),
        None => line.to_owned(),
    }
}

/// Formats the expected item for a message: punctuation and keywords in backquotes.
fn shown(what: &str) -> String {
    match what {
        _ if what.ends_with("separator (`;` or newline)") => "`;` or a new line".to_owned(),
        "in" | "else" | "catch" | "from" => format!("`{what}`"),
        _ if what.chars().all(|c| c.is_ascii_punctuation()) => format!("`{what}`"),
        _ => what.to_owned(),
    }
}

impl SyntaxErrorKind {
    /// Returns the message of the kinds that have the same message in all formats.
    fn plain(&self) -> String {
        match self {
            Self::InvalidUnicodeEscape => "invalid Unicode escape: no such character".to_owned(),
            Self::NestingTooDeep => {
                format!("brackets are nested too deeply (more than {} levels)", crate::MAX_NESTING)
            }
            Self::ChainTooLong => {
                format!("expression is too long (more than {} operators in one statement)", crate::MAX_CHAIN)
            }
            Self::TooLong => "source text is too long (more than 4 GiB)".to_owned(),
            Self::Duplicate { what, name } => format!("duplicate {what} name '{name}'"),
            _ => String::new(),
        }
    }
}

fn unknown_option(name: &str) -> String {
    format!(
        "known option (only `max_concurrent` is supported in `parallel ... with {{ ... }}`; got `{name}`)"
    )
}

/// Returns the help line for a missing closing bracket; `found` is the token found instead.
fn closing_help(what: &str, found: &str) -> Option<&'static str> {
    let entry = ["id(", "str(", "int(", "float(", "duration("].iter().any(|start| found.starts_with(start));
    match what {
        "}" if entry => Some("put a `,` before this entry, or add a closing `}`"),
        ")" if entry => Some("put a `,` before this entry, or add a closing `)`"),
        "]" if entry => Some("put a `,` before this entry, or add a closing `]`"),
        "}" => Some("add a closing `}` to finish this block"),
        ")" => Some("add a closing `)` to finish this expression or parameter list"),
        "]" => Some("add a closing `]` to finish this list or subscript"),
        _ => None,
    }
}

/// Merges the errors of lexer and parser in source order. Drops parser errors on lines with a lexical error,
/// because they are consequences of it.
pub(crate) fn merge(source: &str, lexical: Vec<SyntaxError>, syntax: Vec<SyntaxError>) -> Vec<SyntaxError> {
    if syntax.is_empty() {
        return lexical;
    }
    let mut errors = syntax;
    if !lexical.is_empty() {
        let file = crate::source_map::SourceFile::new("", source);
        let lines: std::collections::BTreeSet<usize> =
            lexical.iter().map(|error| file.line(error.span.start)).collect();
        let open_ended = lexical.iter().any(|error| {
            matches!(error.kind, SyntaxErrorKind::UnterminatedString | SyntaxErrorKind::UnterminatedComment)
        });
        errors.retain(|error| {
            let at_end = matches!(error.kind, SyntaxErrorKind::UnexpectedEnd { .. });
            !(lines.contains(&file.line(error.span.start)) || open_ended && at_end)
        });
        errors.extend(lexical);
    }
    errors.sort_by_key(|error| error.span.start);
    errors.dedup();
    errors
}
