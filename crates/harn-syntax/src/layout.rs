//! The layout pass: resolves on the token list what depends on newlines and lookahead.
//!
//! It takes three steps, each linear in the number of tokens:
//!
//! 1. [`join_lines`] drops every newline that separates nothing, so that each remaining one is a separator (of
//!    statements, or of elements instead of a comma), and joins `not in`.
//! 2. [`match_brackets`] links brackets and distinguishes the three meanings of `{`.
//! 3. [`resolve`](Resolver) distinguishes the meanings of `?` and `<` and computes an upper bound of the tree
//!    depth.
//!
//! After that the parser needs at most two tokens of lookahead.

use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::lexer::Lexed;
use crate::token::{Token, TokenKind};
use crate::type_scan::ends_type_args;
use crate::{MAX_CHAIN, MAX_NESTING};

/// Runs the pass over the tokens of `lexed`, in place.
pub(crate) fn lay_out(lexed: &mut Lexed, source: &str) {
    let mut tokens = join_lines(std::mem::take(&mut lexed.tokens), source);
    match_brackets(&mut tokens, source);
    let too_long = Resolver::new(&mut tokens).run();
    if let Some(error) = too_long {
        lexed.errors.push(error);
        lexed.aborted = true;
    }
    lexed.tokens = tokens;
}

/// Returns the kind of the token at `at`; `Eof` out of bounds.
fn kind_at(tokens: &[Token], at: usize) -> TokenKind {
    tokens.get(at).map_or(TokenKind::Eof, |token| token.kind)
}

/// Drops the newlines that separate nothing.
fn join_lines(tokens: Vec<Token>, source: &str) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for (at, &token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Newline => {
                let next = kind_at(&tokens, at + 1);
                let behind = kind_at(&tokens, at + 2);
                if !line_goes_on(&out) && !joins_previous_line(next, behind) {
                    out.push(token);
                }
            }
            TokenKind::In if is_negated(&out, source) => {
                if let Some(not) = out.last_mut() {
                    not.kind = TokenKind::NotIn;
                    not.span = not.span.to(token.span);
                }
            }
            _ => out.push(token),
        }
    }
    out
}

/// Returns whether `out` ends in an operand followed by the word `not`, so that a following `in` belongs to it.
fn is_negated(out: &[Token], source: &str) -> bool {
    let [.., before, last] = out else { return false };
    last.kind == TokenKind::Ident && last.span.slice(source) == "not" && ends_operand(before.kind)
}

/// Returns whether a token can end an operand.
fn ends_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Ident
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Duration
            | TokenKind::Str
            | TokenKind::RawStr
            | TokenKind::StrEnd
            | TokenKind::True
            | TokenKind::False
            | TokenKind::Nil
            | TokenKind::Question
    ) || kind.closes()
}

/// Returns whether the line that ends with `out` continues on the next line, regardless of its first token.
///
/// `?` and `>` may also end a line (propagation, a type); the parser skips the newline if they are operators.
fn line_goes_on(out: &[Token]) -> bool {
    use TokenKind::*;
    let Some(last) = out.last() else { return true };
    let after_dot = out.len() >= 2 && matches!(out[out.len() - 2].kind, Dot | QuestionDot);
    match last.kind {
        In | To | NotIn => !after_dot,
        PipeGt | OrOr | AndAnd | EqEq | NotEq | Lt | LtEq | GtEq | Plus | Minus | Star | Slash | Percent
        | StarStar | QuestionQuestion | Pipe | Colon | Eq | PlusEq | MinusEq | StarEq | SlashEq
        | PercentEq | Arrow | Comma | Semi | Newline => true,
        kind => kind.opens(),
    }
}

/// Returns whether a line that begins with the tokens `next` and `behind` continues the previous line.
fn joins_previous_line(next: TokenKind, behind: TokenKind) -> bool {
    use TokenKind::*;
    match next {
        PipeGt | OrOr | AndAnd | EqEq | NotEq | Lt | Gt | LtEq | GtEq | Plus | Star | Slash | Percent
        | StarStar | QuestionQuestion | Dot | QuestionDot | Question | Colon | Pipe | Comma | Eof => true,
        // As a dict key or field name, the keyword begins a new entry.
        Else | Catch | Finally => !matches!(behind, Colon | Question),
        _ => false,
    }
}

/// Links every opening bracket to its partner and classifies `{`.
fn match_brackets(tokens: &mut [Token], source: &str) {
    struct Open {
        at: usize,
        has_arrow: bool,
    }
    let mut open: Vec<Open> = Vec::new();
    for at in 0..tokens.len() {
        let kind = tokens[at].kind;
        if kind.opens() {
            if kind == TokenKind::LBrace && begins_struct_literal(tokens, at, source) {
                tokens[at].kind = TokenKind::BraceStruct;
            }
            open.push(Open { at, has_arrow: false });
        } else if kind == TokenKind::Arrow {
            if let Some(innermost) = open.last_mut() {
                innermost.has_arrow = true;
            }
        } else if kind.closes() {
            // A closing bracket of another kind also closes the brackets left open inside its partner.
            let Some(depth) = open.iter().rposition(|open| is_partner(tokens[open.at].kind, kind)) else {
                continue;
            };
            let partner = open.swap_remove(depth);
            open.truncate(depth);
            tokens[partner.at].link = at as u32;
            if partner.has_arrow && tokens[partner.at].kind == TokenKind::LBrace {
                tokens[partner.at].kind = TokenKind::BraceArrow;
            }
        }
    }
    // Distinguishes closures from dicts also in unclosed braces, for better errors.
    for unclosed in open {
        if unclosed.has_arrow && tokens[unclosed.at].kind == TokenKind::LBrace {
            tokens[unclosed.at].kind = TokenKind::BraceArrow;
        }
    }
}

/// Returns whether `close` closes `open`.
pub(crate) fn is_partner(open: TokenKind, close: TokenKind) -> bool {
    match close {
        TokenKind::RParen => open == TokenKind::LParen,
        TokenKind::RBracket => open == TokenKind::LBracket,
        TokenKind::InterpEnd => open == TokenKind::InterpStart,
        _ => open.is_lbrace(),
    }
}

/// Returns whether the `{` at `at` continues a bare upper-case name as a struct literal.
fn begins_struct_literal(tokens: &[Token], at: usize, source: &str) -> bool {
    let Some(name) = at.checked_sub(1).map(|before| tokens[before]) else { return false };
    let upper = name.span.slice(source).chars().next().is_some_and(char::is_uppercase);
    if name.kind != TokenKind::Ident || !upper {
        return false;
    }
    let before_name = at.checked_sub(2).map(|before| tokens[before].kind);
    if matches!(before_name, Some(TokenKind::Dot | TokenKind::QuestionDot)) {
        return false;
    }
    if kind_at(tokens, at + 1) == TokenKind::Ellipsis {
        return true;
    }
    if kind_at(tokens, at + 1) != TokenKind::RBrace {
        return is_entry(tokens, at + 1);
    }
    // `if Ready {}` ends after its braces, so they must be the block.
    let is_head = matches!(before_name, Some(TokenKind::If | TokenKind::While | TokenKind::In));
    let behind = kind_at(tokens, at + 2);
    let ends = match behind {
        TokenKind::Newline => !kind_at(tokens, at + 3).is_lbrace(),
        _ => matches!(behind, TokenKind::Semi | TokenKind::Else | TokenKind::RBrace | TokenKind::Eof),
    };
    !(is_head && ends)
}

/// Returns whether the tokens at `at` are `key :`.
fn is_entry(tokens: &[Token], at: usize) -> bool {
    let key = kind_at(tokens, at);
    (key.is_word() || key == TokenKind::Str) && kind_at(tokens, at + 1) == TokenKind::Colon
}

/// A `?` or `<` whose meaning is not resolved yet.
#[derive(Clone, Copy)]
struct Candidate {
    at: usize,
    /// Preferred as the `?` of a following `:`.
    strong: bool,
}

/// State of one bracket level or of the current statement in it.
#[derive(Default)]
struct Level {
    /// The current statement or element has at least one token.
    begun: bool,
    /// The statement begins with `if`, and every `}` so far is followed by `else`.
    plain_if: bool,
    /// The brackets contain dict or struct entries.
    entries: bool,
    /// `?` that may be ternary operators.
    ternaries: Vec<Candidate>,
    /// `<` that may open type arguments.
    angles: Vec<usize>,
    /// Operators and keywords since the last separator.
    operators: usize,
    /// The depth of the deepest bracket since the last separator.
    inner: usize,
    /// The depth of the deepest statement or element so far.
    deepest: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.deepest.max(self.operators + self.inner)
    }

    /// Ends the current statement or element.
    fn separate(&mut self) {
        self.deepest = self.depth();
        self.operators = 0;
        self.inner = 0;
        self.begun = false;
        self.ternaries.clear();
        self.angles.clear();
    }
}

/// Performs the third step.
struct Resolver<'t> {
    tokens: &'t mut [Token],
    levels: Vec<Level>,
}

/// Maximum number of `<` per level that are tracked as possible starts of type arguments.
const MAX_ANGLES: usize = 32;

impl<'t> Resolver<'t> {
    fn new(tokens: &'t mut [Token]) -> Self {
        let mut levels = Vec::with_capacity(MAX_NESTING + 1);
        levels.push(Level::default());
        Self { tokens, levels }
    }

    /// Returns an error if a statement chains too many operators.
    fn run(mut self) -> Option<SyntaxError> {
        for at in 0..self.tokens.len() {
            let kind = self.tokens[at].kind;
            self.note_start(at, kind);
            if kind.opens() {
                self.open(at);
            } else if kind.closes() {
                self.close();
            } else {
                self.plain(at, kind);
            }
            if self.level().depth() > MAX_CHAIN {
                let span = self.tokens[at].span;
                return Some(SyntaxError { kind: SyntaxErrorKind::ChainTooLong, span });
            }
        }
        None
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Tracks plain `if` statements.
    fn note_start(&mut self, at: usize, kind: TokenKind) {
        use TokenKind::*;
        if matches!(kind, Newline | Semi | Comma) || kind.closes() {
            return;
        }
        let after_brace = kind_at(self.tokens, at.wrapping_sub(1)) == RBrace;
        let level = self.level();
        if !level.begun {
            level.begun = true;
            level.plain_if = kind == If;
        } else if after_brace && kind != Else {
            level.plain_if = false;
        }
    }

    fn open(&mut self, at: usize) {
        self.level().operators += 1;
        let kind = self.tokens[at].kind;
        let first = kind_at(self.tokens, at + 1);
        let entries = match kind {
            TokenKind::BraceStruct => true,
            TokenKind::LBrace => {
                matches!(first, TokenKind::Ellipsis | TokenKind::LBracket) || is_entry(self.tokens, at + 1)
            }
            _ => false,
        };
        self.levels.push(Level { entries, ..Level::default() });
    }

    fn close(&mut self) {
        if self.levels.len() > 1
            && let Some(closed) = self.levels.pop()
        {
            let depth = closed.depth() + 1;
            let level = self.level();
            level.inner = level.inner.max(depth);
        }
    }

    fn plain(&mut self, at: usize, kind: TokenKind) {
        use TokenKind::*;
        match kind {
            Comma => {
                // Commas also separate type arguments.
                let angles = std::mem::take(&mut self.level().angles);
                self.level().separate();
                self.level().angles = angles;
            }
            Semi => self.level().separate(),
            Newline => self.newline(at),
            Question => {
                self.level().operators += 1;
                self.question(at);
            }
            Colon => self.colon(),
            Lt => {
                self.level().operators += 1;
                let name = kind_at(self.tokens, at.wrapping_sub(1)) == Ident;
                let member = matches!(kind_at(self.tokens, at.wrapping_sub(2)), Dot | QuestionDot);
                if name && !member && self.level().angles.len() < MAX_ANGLES {
                    self.level().angles.push(at);
                }
            }
            Gt => {
                self.level().operators += 1;
                self.greater(at);
            }
            Ident | Int | Float | Duration | Str | RawStr | StrStart | StrText | StrEnd | Eof => {}
            Nil | True | False | Dot | Arrow | Pipe => self.level().operators += 1,
            Else if self.level().plain_if => {
                // The branches of an `if` are siblings in the tree, so they do not add depth.
                let level = self.level();
                level.deepest = level.depth();
                level.operators = 0;
                level.inner = 0;
            }
            _ => self.level().operators += 1,
        }
    }

    /// Treats a newline as a separator unless the expression may continue after a `?` or an operator `>`.
    fn newline(&mut self, at: usize) {
        let Some(before) = at.checked_sub(1) else { return };
        let open_question = self.level().ternaries.last().is_some_and(|candidate| candidate.at == before);
        if !open_question && !goes_on_behind(self.tokens[before]) {
            self.level().separate();
        }
    }

    fn question(&mut self, at: usize) {
        let mut next_at = at + 1;
        let line_end = kind_at(self.tokens, next_at) == TokenKind::Newline;
        if line_end {
            next_at += 1;
        }
        let next = kind_at(self.tokens, next_at);
        let spaced = self.tokens[at].spaced;
        if next == TokenKind::LBracket && !line_end {
            // It is an optional subscript unless a matching `:` follows.
            self.tokens[at].kind = TokenKind::QuestionIndex;
            if !spaced {
                return;
            }
        }
        let propagates = line_end && self.level().entries && is_entry(self.tokens, next_at);
        if propagates || !starts_expression(next) {
            return;
        }
        let doubtful = line_end
            || !spaced
                && matches!(
                    next,
                    TokenKind::Minus | TokenKind::LParen | TokenKind::LBrace | TokenKind::BraceArrow
                );
        self.level().ternaries.push(Candidate { at, strong: !doubtful });
    }

    fn colon(&mut self) {
        let ternaries = &mut self.level().ternaries;
        let found =
            ternaries.iter().rposition(|candidate| candidate.strong).or(ternaries.len().checked_sub(1));
        if let Some(found) = found {
            let candidate = ternaries.remove(found);
            self.tokens[candidate.at].kind = TokenKind::QuestionTernary;
        } else {
            self.level().operators += 1;
        }
    }

    /// Finds the `<` that this `>` closes as the end of type arguments. Without one, the `>` is an operator, and a
    /// newline after it does not end the statement.
    fn greater(&mut self, at: usize) {
        let next = kind_at(self.tokens, at + 1);
        while let Some(open) = self.level().angles.pop() {
            if ends_type_args(self.tokens, open) == Some(at) {
                if next == TokenKind::LParen {
                    self.tokens[open].kind = TokenKind::LtTypeArgs;
                }
                return;
            }
        }
        if next == TokenKind::Newline {
            self.tokens[at].link = GOES_ON;
        }
    }
}

/// The link of a `>` that is an operator at the end of a line.
const GOES_ON: u32 = 1;

/// Returns whether the newline after this token is inside an expression.
pub(crate) fn goes_on_behind(token: Token) -> bool {
    token.kind == TokenKind::Gt && token.link == GOES_ON
}

/// Returns whether an expression can begin with this token.
pub(crate) fn starts_expression(kind: TokenKind) -> bool {
    use TokenKind::*;
    matches!(
        kind,
        Ident
            | Int
            | Float
            | Duration
            | Str
            | RawStr
            | StrStart
            | True
            | False
            | Nil
            | LParen
            | LBracket
            | Minus
            | Bang
            | Fn
            | If
            | Match
            | Try
            | Retry
            | Deadline
            | Spawn
            | Parallel
            | Select
    ) || kind.is_lbrace()
}
