//! The formatter: one layout for every program.
//!
//! A source is parsed, its tree is converted to a document with possible line breaks, and the printer chooses the
//! breaks. The result has the same tokens (except for separators, parentheses, trailing commas and the form of
//! numbers) and the same comments; [`format`](format()) checks that each time, and otherwise returns an error.
//!
//! | File | Content |
//! | --- | --- |
//! | `doc` | documents and the printer |
//! | `comments` | the comments, assigned to the code that they belong to |
//! | `expr` | the layout of expressions |
//! | `stmt` | statements, blocks and other line-based constructs |
//! | `decl` | declarations, imports and types |
//! | `literal` | the canonical form of numbers and doc comments |
//! | `same` | comparison of two sources as programs |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod comments;
mod decl;
mod doc;
mod expr;
mod literal;
mod same;
mod stmt;

use std::borrow::Cow;
use std::fmt;

use harn_syntax::Span;
use harn_syntax::ast::{Program, Stmt, StmtKind};
use harn_syntax::token::{Comment, Token};

use comments::Comments;
use doc::{Doc, Printer};
use same::Words;
use stmt::Item;

/// The default line width.
pub const LINE_WIDTH: usize = 100;

/// The default width of a line of dashes.
pub const SEPARATOR_WIDTH: usize = 80;

/// Options of the formatter.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum columns of a line.
    pub line_width: usize,
    /// Columns of a line of dashes.
    pub separator_width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { line_width: LINE_WIDTH, separator_width: SEPARATOR_WIDTH }
    }
}

/// Why a source was not formatted.
#[derive(Debug)]
pub enum Refusal {
    /// Syntax errors: their messages.
    Syntax(Vec<String>),
    /// The result would be a different program: a bug of the formatter.
    Changed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Syntax(errors) => match errors.first() {
                Some(error) => f.write_str(error),
                None => f.write_str("syntax error"),
            },
            Refusal::Changed(what) => {
                write!(f, "formatting would change the program ({what}); the file is left as it is")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Formats a program. All line ends of the result are of the kind of the first one; strings have `\n` in their values in
/// both cases.
///
/// # Errors
/// See [`Refusal`].
pub fn format(source: &str, options: &Options) -> Result<String, Refusal> {
    if !source.contains("\r\n") {
        return format_lines(source, options);
    }
    let text = format_lines(&source.replace("\r\n", "\n"), options)?;
    let is_crlf = source.find('\n').is_some_and(|at| source[..at].ends_with('\r'));
    Ok(if is_crlf { text.replace('\n', "\r\n") } else { text })
}

fn format_lines(source: &str, options: &Options) -> Result<String, Refusal> {
    let parsed = harn_syntax::parse_for_tools(source);
    if !parsed.errors.is_empty() {
        return Err(Refusal::Syntax(parsed.errors.iter().map(|error| error.canonical(source)).collect()));
    }
    let comments = parsed.program.comments.clone();
    let (mut draft, mut program) =
        (Draft { text: source.into(), tokens: parsed.tokens, comments }, parsed.program);
    // Lines that are broken in the source stay broken, also those that an earlier pass has broken. With nested breaks
    // another pass may find a shorter layout, so passes repeat until nothing changes. A pass that broke no line is
    // the last one.
    let mut before: Option<(Draft<'_>, Vec<Span>)> = None;
    for _ in 0..MAX_PASSES {
        let Layout { text, lists, settled } = layout(&draft.text, program, options);
        // Drops the tree first: together with the words it would dominate peak memory.
        same_program(before.take(), &draft)?;
        if text == draft.text {
            return Ok(text);
        }
        if settled {
            let (tokens, comments) = harn_syntax::tokens(&text);
            let new = Draft { text: text.into(), tokens, comments };
            same_program(Some((draft, lists)), &new)?;
            return Ok(new.text.into_owned());
        }
        let parsed = harn_syntax::parse_for_tools(&text);
        program = parsed.program;
        let new = Draft { text: text.into(), tokens: parsed.tokens, comments: program.comments.clone() };
        before = Some((std::mem::replace(&mut draft, new), lists));
    }
    same_program(before, &draft)?;
    Ok(draft.text.into_owned())
}

/// A source with its tokens and comments.
struct Draft<'s> {
    text: Cow<'s, str>,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
}

/// Checks that a pass has not changed the program.
fn same_program(before: Option<(Draft<'_>, Vec<Span>)>, after: &Draft<'_>) -> Result<(), Refusal> {
    let Some((before, lists)) = before else { return Ok(()) };
    let was = Words::of(&before.text, &before.tokens, &before.comments, &lists);
    was.check(Words::of(&after.text, &after.tokens, &after.comments, &[])).map_err(Refusal::Changed)
}

/// Known programs need at most three passes, including a last one without changes.
const MAX_PASSES: usize = 5;

/// The result of one pass.
struct Layout {
    text: String,
    /// Where types were written `[T]`.
    lists: Vec<Span>,
    /// No line was too long: see [`Printer::is_settled`].
    settled: bool,
}

/// One pass. A statement is printed as soon as it is laid out: most of the time for a
/// large file would be spent on memory that is touched for the first time.
fn layout(source: &str, mut program: Program, options: &Options) -> Layout {
    let all = std::mem::take(&mut program.comments);
    let mut fmt =
        Fmt { source, comments: Comments::new(source, all, options.separator_width), lists: Vec::new() };
    let (start, head) = match program.shebang {
        Some(line) => (line.end, format!("{}\n", fmt.slice(line).trim_end())),
        None => (0, String::new()),
    };
    let items = in_order(&program, &fmt);
    let items: Vec<Item<'_>> = items.into_iter().map(Item::Stmt).collect();
    let mut printer = Printer::new(options.line_width);
    fmt.each_line(&items, start, source.len() as u32, true, &mut |part| printer.print(&part));
    let settled = printer.is_settled();
    let text = printer.finish();
    let body = text.trim_start_matches('\n');
    // An empty line after the head of the file is preserved.
    let apart = !head.is_empty()
        && source[start as usize..].trim_start_matches([' ', '\t', '\r']).starts_with("\n\n");
    let text = format!("{head}{}{body}", if apart && !body.is_empty() { "\n" } else { "" });
    Layout { text, lists: fmt.lists, settled }
}

/// Returns the statements of a file with its leading imports sorted. Imports with comments between them keep their
/// order, which may be meaningful.
fn in_order<'a>(program: &'a Program, fmt: &Fmt<'_>) -> Vec<&'a Stmt> {
    let mut items: Vec<&Stmt> = program.items.iter().collect();
    let count = items.iter().take_while(|item| matches!(item.kind, StmtKind::Import(_))).count();
    let block = &mut items[..count];
    if let (Some(first), Some(last)) = (block.first(), block.last())
        && !fmt.comments.any_between(first.span.start, line_end(fmt.source, last.span.end))
    {
        block.sort_by(|a, b| match (&a.kind, &b.kind) {
            (StmtKind::Import(a), StmtKind::Import(b)) => a.sort_key().cmp(&b.sort_key()),
            _ => std::cmp::Ordering::Equal,
        });
    }
    items
}

fn line_end(source: &str, from: u32) -> u32 {
    source[from as usize..].find('\n').map_or(source.len() as u32, |at| from + at as u32)
}

/// The state of a layout.
pub(crate) struct Fmt<'s> {
    source: &'s str,
    comments: Comments<'s>,
    /// Where types were written `[T]`, which become `list<T>`.
    lists: Vec<Span>,
}

impl<'s> Fmt<'s> {
    fn slice(&self, span: Span) -> &'s str {
        span.slice(self.source)
    }

    /// Lays out a name or keyword with its comments.
    fn word(&mut self, span: Span) -> Doc<'s> {
        let (before, text) = (self.comments.inline(span.start), Doc::text(self.slice(span)));
        let behind = self.comments.behind(span.end);
        if before.is_nil() && behind.is_nil() { text } else { Doc::concat(vec![before, text, behind]) }
    }

    /// Returns the first two characters of the next token after an offset, without comments.
    fn first_token(&self, from: u32) -> &'s str {
        let mut rest = self.source[from as usize..].trim_start();
        loop {
            rest = match rest.get(..2) {
                Some("//") => rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start(),
                Some("/*") => rest.split_once("*/").map_or("", |(_, rest)| rest).trim_start(),
                Some(two) => return two,
                None => return "",
            };
        }
    }

    /// The `description "..."` that a tool's braces begin with.
    fn description(&self, brace: u32) -> Option<Span> {
        let lexed = harn_syntax::lexer::lex(&self.source[brace as usize..]);
        let mut tokens = lexed.tokens.iter().skip(1);
        let word = tokens.find(|token| token.kind.is_word())?;
        let text = tokens.next()?;
        Some(Span::new(brace + word.span.start, brace + text.span.end))
    }
}
