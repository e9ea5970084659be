//! The parser: converts tokens to the syntax tree with a grammar written in `chumsky`.
//!
//! Every rule is a function that returns a parser; recursive rules use `custom(rule)`, where `rule` is an ordinary
//! function over the input. Nothing is boxed or cached: building the grammar is free, because combinators over
//! functions are zero-sized values.
//!
//! The layout pass has resolved all ambiguities, so every rule needs at most two tokens of lookahead. Failures
//! ([`Fail`]) are cheap to copy; only reported ones are converted to a [`SyntaxError`].
//!
//! Recovery happens in one place, [`stmt::statements`]: a failing statement is reported and skipped. Lists of
//! statements nest, so an error inside a function body skips one statement of that body.

mod attribute;
mod decl;
mod expr;
mod limits;
mod list;
mod literal;
mod match_pattern;
mod pattern;
mod primary;
mod stmt;
mod ty;

use chumsky::error::LabelError;
use chumsky::extra;
use chumsky::input::InputRef;
use chumsky::inspector::SimpleState;
use chumsky::prelude::*;
use chumsky::util::MaybeRef;
use smol_str::SmolStr;

use crate::MAX_ERRORS;
use crate::ast::{Ident, Name, Program, Stmt};
use crate::error::{CompileRule, Rule, SyntaxError, SyntaxErrorKind};
use crate::lexer::Lexed;
use crate::span::Span;
use crate::token::{Comment, Token, TokenKind};

/// The input: tokens terminated by [`TokenKind::Eof`].
type Tokens<'s> = &'s [Token];
/// The error type and the state of the parser.
type Extra<'s> = extra::Full<Fail, SimpleState<State<'s>>, ()>;
/// The input inside a `custom` rule.
type Input<'s, 'p> = InputRef<'s, 'p, Tokens<'s>, Extra<'s>>;
/// The result of a `custom` rule.
type Parse<T> = Result<T, Fail>;

/// A rule of the grammar.
trait Grammar<'s, T>: Parser<'s, Tokens<'s>, T, Extra<'s>> + Clone {}
impl<'s, T, P: Parser<'s, Tokens<'s>, T, Extra<'s>> + Clone> Grammar<'s, T> for P {}

/// The state available to all rules.
struct State<'s> {
    source: &'s str,
    tokens: &'s [Token],
    texts: &'s [SmolStr],
    comments: &'s [Comment],
    errors: Vec<SyntaxError>,
    /// Whether a `yield` was found since the start of the innermost function.
    yields: bool,
    /// The failure furthest to the right in the current statement, from the rule that got furthest. `chumsky` has
    /// one too, but reports it at the start of the `custom` rule instead of the location of the failure.
    furthest: Option<Fail>,
    /// Whether the tree includes the valid parts of statements with errors.
    keep: bool,
    /// Whether a statement with an error is being parsed again to retain its valid parts: missing tokens are
    /// treated as present, and no errors are reported.
    lenient: bool,
    /// The token index at which the input ends while a broken statement is parsed again.
    limit: usize,
}

/// A failure of a rule. It is cheap to create, because most failures only select the next alternative.
#[derive(Clone, Copy, Debug)]
struct Fail {
    /// Index of the token at which the rule failed.
    at: u32,
    reason: Reason,
}

/// The reason of a [`Fail`]. Of several failures at the same token the last one is reported.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// An optional part is absent; not reported.
    Absent,
    /// A different token was expected.
    Expected(&'static str),
    /// A variable name was expected; a keyword gets an explanation.
    ExpectedBinding,
    /// An attribute precedes something other than a declaration.
    AttributeOnStatement,
    /// An unknown option of `parallel ... with`; the token is its name.
    UnknownOption,
    /// A grammar rule with its own message.
    Rule(Rule),
    /// An error of the compile stage.
    Compile(CompileRule),
}

impl<'s> LabelError<'s, Tokens<'s>, chumsky::DefaultExpected<'s, Token>> for Fail {
    fn expected_found<E: IntoIterator<Item = chumsky::DefaultExpected<'s, Token>>>(
        _expected: E,
        _found: Option<MaybeRef<'s, Token>>,
        span: SimpleSpan<usize>,
    ) -> Self {
        Fail { at: span.start as u32, reason: Reason::Absent }
    }
}

impl<'s> chumsky::error::Error<'s, Tokens<'s>> for Fail {}

/// Parses the tokens of the layout pass. Errors are in the order in which they were found; with `keep`, the tree
/// includes statements with errors.
pub(crate) fn parse_program(source: &str, lexed: &Lexed, keep: bool) -> (Vec<Stmt>, Vec<SyntaxError>) {
    let tokens = &lexed.tokens[..];
    let state = State {
        source,
        tokens,
        texts: &lexed.texts,
        comments: &lexed.comments,
        errors: Vec::new(),
        yields: false,
        furthest: None,
        keep,
        lenient: false,
        limit: usize::MAX,
    };
    let mut state = SimpleState(state);
    let items = stmt::items().parse_with_state(tokens, &mut state).into_output().unwrap_or_default();
    (items, state.0.errors)
}

/// Adds the parts that do not come from the grammar.
pub(crate) fn finish_program(items: Vec<Stmt>, lexed: Lexed) -> Program {
    Program { items, shebang: lexed.shebang, comments: lexed.comments }
}

/// Access to the input from `custom` rules.
trait InputExt<'s> {
    /// Returns the index of the next token.
    fn at(&self) -> usize;
    /// Returns the token `ahead` positions after the next one; `Eof` past the end.
    fn look(&mut self, ahead: usize) -> Token;
    /// Returns the kind of that token.
    fn look_kind(&mut self, ahead: usize) -> TokenKind;
    /// Fails at the next token.
    fn fail<T>(&mut self, reason: Reason) -> Parse<T>;
    /// Fails at the token with this index.
    fn fail_at<T>(&mut self, at: usize, reason: Reason) -> Parse<T>;
    /// Fails at the next token because another one was expected.
    fn expected<T>(&mut self, what: &'static str) -> Parse<T>;
    /// Consumes the next token and returns it.
    fn bump(&mut self) -> Token;
    /// Consumes the next token if it is of this kind.
    fn eat(&mut self, kind: TokenKind) -> Option<Span>;
    /// Returns whether the token at `ahead` is this contextual keyword.
    fn is_word(&mut self, ahead: usize, word: &str) -> bool;
    /// Returns the span from the token at `start` to the last consumed one.
    fn span_from_token(&mut self, start: usize) -> Span;
    /// Records an error without failing.
    fn report(&mut self, fail: Fail);
    /// Records an error at a span without failing.
    fn report_at(&mut self, kind: SyntaxErrorKind, span: Span);
    /// Returns the doc comment directly before the next token.
    fn doc_comment(&mut self) -> Option<Name>;
    /// Returns the token as an identifier.
    fn ident_of(&mut self, token: Token) -> Ident;
    /// Returns the location of a missing token that is treated as present; `None` if it is required.
    fn missing(&mut self) -> Option<Span>;
}

impl<'s> InputExt<'s> for Input<'s, '_> {
    fn at(&self) -> usize {
        *self.cursor().inner()
    }

    fn doc_comment(&mut self) -> Option<Name> {
        let start = self.look(0).span.start;
        let state = &self.state().0;
        crate::doc::before(state.source, state.comments, start).map(Name::from)
    }

    fn look(&mut self, ahead: usize) -> Token {
        let at = self.at() + ahead;
        let (tokens, limit) = (self.state().0.tokens, self.state().0.limit);
        tokens.get(at).filter(|_| at < limit).copied().unwrap_or(Token {
            kind: TokenKind::Eof,
            spaced: false,
            span: Span::at(self.state().0.source.len() as u32),
            link: 0,
        })
    }

    fn look_kind(&mut self, ahead: usize) -> TokenKind {
        let at = self.at() + ahead;
        let state = &self.state().0;
        state.tokens.get(at).filter(|_| at < state.limit).map_or(TokenKind::Eof, |token| token.kind)
    }

    fn fail<T>(&mut self, reason: Reason) -> Parse<T> {
        let at = self.at();
        self.fail_at(at, reason)
    }

    fn fail_at<T>(&mut self, at: usize, reason: Reason) -> Parse<T> {
        let fail = Fail { at: at as u32, reason };
        if !matches!(reason, Reason::Absent) {
            let furthest = &mut self.state().0.furthest;
            if furthest.is_none_or(|known| known.at <= fail.at) {
                *furthest = Some(fail);
            }
        }
        Err(fail)
    }

    fn expected<T>(&mut self, what: &'static str) -> Parse<T> {
        self.fail(Reason::Expected(what))
    }

    fn bump(&mut self) -> Token {
        let token = self.look(0);
        if token.kind != TokenKind::Eof {
            self.skip();
        }
        token
    }

    fn eat(&mut self, kind: TokenKind) -> Option<Span> {
        let token = self.look(0);
        (token.kind == kind).then(|| {
            self.skip();
            token.span
        })
    }

    fn is_word(&mut self, ahead: usize, word: &str) -> bool {
        let token = self.look(ahead);
        token.kind == TokenKind::Ident && token.span.slice(self.state().0.source) == word
    }

    fn span_from_token(&mut self, start: usize) -> Span {
        let end = self.at();
        let tokens = self.state().0.tokens;
        let first = tokens.get(start).map_or(0, |token| token.span.start);
        let last = end.checked_sub(1).filter(|&last| last >= start).and_then(|last| tokens.get(last));
        Span::new(first, last.map_or(first, |token| token.span.end))
    }

    fn report(&mut self, fail: Fail) {
        let state = &mut self.state().0;
        let error = state.describe(fail);
        state.push_error(error);
    }

    fn report_at(&mut self, kind: SyntaxErrorKind, span: Span) {
        self.state().0.push_error(SyntaxError { kind, span });
    }

    fn ident_of(&mut self, token: Token) -> Ident {
        Ident { name: token.span.slice(self.state().0.source).into(), span: token.span }
    }

    fn missing(&mut self) -> Option<Span> {
        if !self.state().0.lenient {
            return None;
        }
        let before = self.at().checked_sub(1);
        let tokens = self.state().0.tokens;
        Some(Span::at(before.and_then(|at| tokens.get(at)).map_or(0, |token| token.span.end)))
    }
}

impl State<'_> {
    fn push_error(&mut self, error: SyntaxError) {
        if self.errors.len() < MAX_ERRORS && !self.lenient {
            self.errors.push(error);
        }
    }

    /// Converts a failure to an error.
    fn describe(&self, fail: Fail) -> SyntaxError {
        let last = self.tokens.len().saturating_sub(1);
        let Some(&token) = self.tokens.get((fail.at as usize).min(last)) else {
            return SyntaxError {
                kind: SyntaxErrorKind::UnexpectedEnd { what: "expression" },
                span: Span::at(0),
            };
        };
        let kind = match fail.reason {
            Reason::Rule(rule) => SyntaxErrorKind::Rule(rule),
            Reason::Compile(rule) => SyntaxErrorKind::Compile(rule),
            Reason::UnknownOption => {
                SyntaxErrorKind::UnknownParallelOption { name: token.span.slice(self.source).into() }
            }
            Reason::AttributeOnStatement => SyntaxErrorKind::Expected {
                what: "fn/tool/skill/eval_pack/pipeline/struct/enum/type/interface/impl declaration after `@attr`",
                found: "non-declaration statement".into(),
            },
            Reason::ExpectedBinding => {
                let what = "variable name or destructuring pattern";
                if token.kind.is_keyword() {
                    let found = format!("'{}' (reserved keyword)", token.kind.text()).into();
                    SyntaxErrorKind::Expected { what, found }
                } else {
                    self.expected(what, token)
                }
            }
            Reason::Expected(what) => self.expected(what, token),
            Reason::Absent => self.expected("expression", token),
        };
        SyntaxError { kind, span: token.span }
    }

    fn expected(&self, what: &'static str, token: Token) -> SyntaxErrorKind {
        if token.kind == TokenKind::Eof {
            return SyntaxErrorKind::UnexpectedEnd { what };
        }
        SyntaxErrorKind::Expected { what, found: self.show(token) }
    }

    /// Formats a token for messages.
    fn show(&self, token: Token) -> SmolStr {
        let text = token.span.slice(self.source);
        match token.kind {
            TokenKind::Ident => smol_str::format_smolstr!("id({text})"),
            TokenKind::Int => smol_str::format_smolstr!("int({text})"),
            TokenKind::Float => smol_str::format_smolstr!("float({text})"),
            TokenKind::Duration => smol_str::format_smolstr!("duration({text})"),
            TokenKind::Str => smol_str::format_smolstr!("str({})", brief(&self.text(token))),
            TokenKind::RawStr => smol_str::format_smolstr!("rstr({})", brief(&self.text(token))),
            TokenKind::StrStart => "istr(...)".into(),
            kind => kind.text().into(),
        }
    }

    /// Returns the content of a string token, or the source of another token.
    fn text(&self, token: Token) -> Name {
        if let Some(text) = (token.link as usize).checked_sub(1).and_then(|at| self.texts.get(at))
            && matches!(token.kind, TokenKind::Str | TokenKind::StrText)
        {
            return text.clone();
        }
        let source = token.span.slice(self.source);
        let quotes = match token.kind {
            TokenKind::Str => 1,
            TokenKind::RawStr => 2,
            _ => return source.into(),
        };
        source.get(quotes..source.len() - 1).unwrap_or("").into()
    }
}

/// Shortens a string for messages: one line of limited length.
fn brief(text: &str) -> String {
    const LIMIT: usize = 60;
    let mut out: String = text.chars().take(LIMIT).collect::<String>().replace('\n', "\\n");
    if text.chars().nth(LIMIT).is_some() {
        out.push_str("...");
    }
    out
}

/// Runs a rule on a new stack segment if the current one is nearly used up.
fn grow<T>(rule: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(128 * 1024, 1024 * 1024, rule)
}

/// A token of this kind; the failure names the token as expected.
fn tok<'s>(kind: TokenKind) -> impl Grammar<'s, Span> {
    tok_as(kind, kind.text())
}

/// A token of this kind; the failure names `what` as expected.
fn tok_as<'s>(kind: TokenKind, what: &'static str) -> impl Grammar<'s, Span> {
    custom(move |inp: &mut Input<'s, '_>| match inp.eat(kind) {
        Some(span) => Ok(span),
        None => match inp.missing() {
            Some(place) => Ok(place),
            None => inp.expected(what),
        },
    })
}

/// An optional token of this kind.
fn maybe<'s>(kind: TokenKind) -> impl Grammar<'s, Option<Span>> {
    custom(move |inp: &mut Input<'s, '_>| Ok(inp.eat(kind)))
}

/// Consumes a token of this kind and runs `rule`, or returns `None` if the next token has another kind.
fn after<'s, T>(kind: TokenKind, rule: impl Grammar<'s, T>) -> impl Grammar<'s, Option<T>> {
    custom(move |inp: &mut Input<'s, '_>| match inp.eat(kind) {
        Some(_) => inp.parse(&rule).map(Some),
        None => Ok(None),
    })
}

/// Skips a newline.
fn newline<'s>() -> impl Grammar<'s, ()> {
    maybe(TokenKind::Newline).ignored()
}

/// `{` in any meaning, possibly on the next line. Returns the index of its partner, or 0 if it is never closed.
fn open_brace<'s>() -> impl Grammar<'s, usize> {
    custom(|inp: &mut Input<'s, '_>| {
        let skip = usize::from(inp.look_kind(0) == TokenKind::Newline && inp.look_kind(1).is_lbrace());
        if skip == 1 {
            inp.bump();
        }
        if !inp.look_kind(0).is_lbrace() {
            return inp.expected("{");
        }
        Ok(inp.bump().link as usize)
    })
}

/// A name.
fn ident<'s>(what: &'static str) -> impl Grammar<'s, Ident> {
    custom(move |inp: &mut Input<'s, '_>| {
        let token = inp.look(0);
        if token.kind != TokenKind::Ident {
            return nameless(inp, what);
        }
        inp.bump();
        Ok(inp.ident_of(token))
    })
}

/// A name or keyword.
fn word<'s>(what: &'static str) -> impl Grammar<'s, Ident> {
    custom(move |inp: &mut Input<'s, '_>| {
        let token = inp.look(0);
        if !token.kind.is_word() || is_next_statement(inp, token) {
            return nameless(inp, what);
        }
        inp.bump();
        Ok(inp.ident_of(token))
    })
}

/// Returns an empty name if missing tokens are treated as present, otherwise fails.
fn nameless(inp: &mut Input<'_, '_>, what: &'static str) -> Parse<Ident> {
    match inp.missing() {
        Some(span) => Ok(Ident { name: Name::default(), span }),
        None => inp.expected(what),
    }
}

/// Returns whether a keyword on a new line begins the statement after a broken one, as after `user.`.
fn is_next_statement(inp: &mut Input<'_, '_>, token: Token) -> bool {
    token.kind.is_keyword()
        && inp.missing().is_some_and(|end| {
            Span::new(end.start, token.span.start).slice(inp.state().0.source).contains('\n')
        })
}
