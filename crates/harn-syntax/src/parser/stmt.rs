//! Statements, lists of statements, and recovery after an error.

use chumsky::prelude::*;

use super::decl::{declaration, import, override_decl};
use super::expr::expr;
use super::pattern::{for_pattern, pattern};
use super::ty::ty;
use super::{Grammar, Input, InputExt, Parse, Reason, after, open_brace, tok};
use crate::MAX_ERRORS;
use crate::ast::{BinaryOp, Block, Expr, ExprKind, Ident, PatternKind, Stmt, StmtKind, Target, TargetStep};
use crate::error::CompileRule;
use crate::span::Span;
use crate::token::{Token, TokenKind};

pub(super) const IN_FILE: &str = "top-level item separator (`;` or newline)";
pub(super) const IN_BLOCK: &str = "statement separator (`;` or newline)";
pub(super) const IN_TOOL: &str = "tool body item separator (`;` or newline)";
pub(super) const IN_SKILL: &str = "skill field separator (`;` or newline)";

/// A whole file.
pub(super) fn items<'s>() -> impl Grammar<'s, Vec<Stmt>> {
    custom(|inp: &mut Input<'s, '_>| {
        let mut items = Vec::new();
        let scope = Scope::new(0, IN_FILE);
        while inp.look_kind(0) != TokenKind::Eof {
            scope.next(inp, item(), &mut items);
        }
        inp.skip();
        Ok(items)
    })
}

/// `{ statements }`, possibly on the next line.
pub(super) fn block<'s>() -> impl Grammar<'s, Block> {
    custom(|inp: &mut Input<'s, '_>| {
        let opens = inp.look_kind(0).is_lbrace()
            || inp.look_kind(0) == TokenKind::Newline && inp.look_kind(1).is_lbrace();
        if let Some(span) = inp.missing().filter(|_| !opens) {
            return Ok(Block { stmts: Vec::new(), span });
        }
        let close = inp.parse(open_brace())?;
        let start = inp.at() - 1;
        inp.parse(statements(close, start))
    })
}

/// The statements of a block with its closing brace. `close` is the index of that brace (0 if it is missing),
/// `start` the index of the opening one.
pub(super) fn statements<'s>(close: usize, start: usize) -> impl Grammar<'s, Block> {
    custom(move |inp: &mut Input<'s, '_>| {
        let mut stmts = Vec::new();
        let scope = Scope::new(close, IN_BLOCK);
        while scope.is_open(inp)? {
            scope.next(inp, statement(), &mut stmts);
        }
        inp.bump();
        Ok(Block { stmts, span: inp.span_from_token(start) })
    })
}

/// A sequence of statements or entries.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    /// The index of the closing brace, `usize::MAX` if it is missing.
    close: usize,
    /// The name of the separator in errors.
    separator: &'static str,
}

impl Scope {
    /// Creates a scope; `close` is the index of the closing brace, 0 if it is missing.
    pub(super) fn new(close: usize, separator: &'static str) -> Self {
        Self { close: if close == 0 { usize::MAX } else { close }, separator }
    }

    /// Returns whether entries remain before the closing brace; fails at the end of the file.
    pub(super) fn is_open(self, inp: &mut Input<'_, '_>) -> Parse<bool> {
        while inp.eat(TokenKind::Newline).is_some() {}
        match inp.look_kind(0) {
            TokenKind::RBrace => Ok(false),
            TokenKind::Eof if inp.missing().is_some() => Ok(false),
            TokenKind::Eof => inp.expected("}"),
            _ => Ok(true),
        }
    }

    /// Parses one entry with its separator. An error is reported, and the remainder of the entry is skipped.
    pub(super) fn next<'s, T>(self, inp: &mut Input<'s, '_>, rule: impl Grammar<'s, T>, found: &mut Vec<T>) {
        while inp.eat(TokenKind::Newline).is_some() {}
        let start = inp.at();
        let before = inp.save();
        inp.state().0.furthest = None;
        if inp.state().0.lenient {
            return self.keep(inp, rule, found);
        }
        let entry = rule.clone().map(Some).then_ignore(self.separated());
        match inp.parse(entry) {
            Ok(entry) => found.extend(entry),
            Err(fail) => {
                let fail = inp.state().0.furthest.take().unwrap_or(fail);
                inp.report(fail);
                inp.rewind(before);
                let target = self.recovery(inp, start, fail.at as usize);
                if inp.state().0.keep {
                    inp.state().0.lenient = true;
                    inp.state().0.limit = target;
                    while inp.look_kind(0) != TokenKind::Eof {
                        self.keep(inp, rule.clone(), found);
                    }
                    inp.state().0.lenient = false;
                    inp.state().0.limit = usize::MAX;
                    inp.state().0.furthest = None;
                }
                skip_to(inp, target);
            }
        }
    }

    /// Parses one entry of a broken statement: retains its valid parts and skips the others.
    fn keep<'s, T>(self, inp: &mut Input<'s, '_>, rule: impl Grammar<'s, T>, found: &mut Vec<T>) {
        let start = inp.at();
        let before = inp.save();
        match inp.parse(&rule) {
            Ok(entry) => found.push(entry),
            Err(_) => inp.rewind(before),
        }
        match inp.look_kind(0) {
            TokenKind::Newline | TokenKind::Semi => {
                inp.bump();
            }
            TokenKind::RBrace | TokenKind::Eof if inp.at() > start => {}
            // The next statement follows one that ends too early.
            _ if inp.at() > start && begins_line(inp) => {}
            _ => {
                let failed = inp.at().max(start + 1);
                let target = self.recovery(inp, start, failed);
                skip_to(inp, target);
                // Guarantees progress.
                if inp.at() == start {
                    inp.bump();
                }
            }
        }
    }

    /// The separator after an entry; a closing brace is not consumed.
    fn separated<'s>(self) -> impl Grammar<'s, ()> {
        custom(move |inp: &mut Input<'s, '_>| match inp.look_kind(0) {
            TokenKind::Newline | TokenKind::Semi => {
                inp.bump();
                Ok(())
            }
            TokenKind::RBrace if self.close == inp.at() => Ok(()),
            TokenKind::Eof => Ok(()),
            TokenKind::Pipe => inp.fail(Reason::Compile(CompileRule::OrPattern)),
            _ => inp.expected(self.separator),
        })
    }

    /// Returns the end of the entry that began at `start` and failed at `failed`: after the first separator at or
    /// after `failed` that is not inside brackets, or at the end of the scope.
    fn recovery(self, inp: &mut Input<'_, '_>, start: usize, failed: usize) -> usize {
        let (tokens, source) = (inp.state().0.tokens, inp.state().0.source);
        let give_up = inp.state().0.errors.len() >= MAX_ERRORS;
        if give_up {
            return tokens.len();
        }
        let mut at = start;
        loop {
            let Some(token) = tokens.get(at) else { break at };
            match token.kind {
                TokenKind::Eof => break at,
                TokenKind::RBrace if at == self.close => break at,
                TokenKind::Newline | TokenKind::Semi if at + 1 >= failed => break at + 1,
                // Recovery resumes at a declaration on a new line, even inside an unclosed bracket.
                kind if at > start
                    && at >= failed
                    && begins_declaration(kind)
                    && is_first_of_line(source, tokens, at) =>
                {
                    break at;
                }
                kind if kind.opens() && token.link as usize > at => at = token.link as usize + 1,
                _ => at += 1,
            }
        }
    }
}

/// Skips to a token, or to the end of the input.
fn skip_to(inp: &mut Input<'_, '_>, target: usize) {
    while inp.at() < target && inp.look_kind(0) != TokenKind::Eof {
        inp.bump();
    }
}

/// Returns whether the next token is the first of its line.
fn begins_line(inp: &mut Input<'_, '_>) -> bool {
    let (tokens, source, at) = (inp.state().0.tokens, inp.state().0.source, inp.at());
    at < tokens.len() && is_first_of_line(source, tokens, at)
}

/// Returns whether there is a line feed between the token at `at` and the previous one.
fn is_first_of_line(source: &str, tokens: &[Token], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    Span::new(tokens[before].span.end, tokens[at].span.start).slice(source).contains('\n')
        || tokens[before].kind == TokenKind::Newline
}

fn begins_declaration(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Fn
            | TokenKind::Pipeline
            | TokenKind::Pub
            | TokenKind::Struct
            | TokenKind::Enum
            | TokenKind::Tool
    )
}

/// An import or statement.
fn item<'s>() -> impl Grammar<'s, Stmt> {
    custom(|inp: &mut Input<'s, '_>| {
        let imports = inp.look_kind(0) == TokenKind::Import
            || inp.look_kind(0) == TokenKind::Pub && inp.look_kind(1) == TokenKind::Import;
        if !imports {
            return inp.parse(statement());
        }
        let import = inp.parse(import())?;
        let span = import.span;
        Ok(Stmt { kind: StmtKind::Import(Box::new(import)), span })
    })
}

/// A statement without its separator.
pub(super) fn statement<'s>() -> impl Grammar<'s, Stmt> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let kind = statement_kind(inp)?;
        Ok(Stmt { kind, span: inp.span_from_token(start) })
    })
}

fn statement_kind<'s>(inp: &mut Input<'s, '_>) -> Parse<StmtKind> {
    match inp.look_kind(0) {
        TokenKind::Let | TokenKind::Var => inp.parse(binding()),
        TokenKind::For => inp.parse(for_loop()),
        TokenKind::While => inp.parse(while_loop()),
        TokenKind::Guard => inp.parse(guard()),
        TokenKind::Require => inp.parse(require()),
        TokenKind::Return => inp.parse(value_after(TokenKind::Return).map(StmtKind::Return)),
        TokenKind::Yield => {
            let value = inp.parse(value_after(TokenKind::Yield))?;
            inp.state().0.yields = true;
            Ok(StmtKind::Yield(value))
        }
        TokenKind::Throw => inp.parse(tok(TokenKind::Throw).ignore_then(expr()).map(StmtKind::Throw)),
        TokenKind::Emit => inp.parse(tok(TokenKind::Emit).ignore_then(expr()).map(StmtKind::Emit)),
        TokenKind::Break => inp.parse(tok(TokenKind::Break).to(StmtKind::Break)),
        TokenKind::Continue => inp.parse(tok(TokenKind::Continue).to(StmtKind::Continue)),
        TokenKind::Defer => inp.parse(tok(TokenKind::Defer).ignore_then(block()).map(StmtKind::Defer)),
        TokenKind::Mutex => inp.parse(tok(TokenKind::Mutex).ignore_then(block()).map(StmtKind::Mutex)),
        TokenKind::Override => inp.parse(override_decl()),
        TokenKind::Fn if inp.look_kind(1) == TokenKind::LParen => expression(inp),
        TokenKind::At
        | TokenKind::Pub
        | TokenKind::Fn
        | TokenKind::Tool
        | TokenKind::Skill
        | TokenKind::EvalPack
        | TokenKind::Enum
        | TokenKind::Struct
        | TokenKind::Type
        | TokenKind::Interface
        | TokenKind::Impl
        | TokenKind::Pipeline => inp.parse(declaration()).map(|decl| StmtKind::Decl(Box::new(decl))),
        TokenKind::Ident if inp.look_kind(1) == TokenKind::Fn && inp.is_word(0, "gen") => {
            inp.parse(declaration()).map(|decl| StmtKind::Decl(Box::new(decl)))
        }
        _ => expression(inp),
    }
}

fn binding<'s>() -> impl Grammar<'s, StmtKind> {
    custom(|inp: &mut Input<'s, '_>| {
        let mutable = inp.bump().kind == TokenKind::Var;
        let pattern = inp.parse(pattern())?;
        let is_name = matches!(pattern.kind, PatternKind::Name(_));
        let ty = if is_name { inp.parse(after(TokenKind::Colon, ty()))? } else { None };
        let value = inp.parse(tok(TokenKind::Eq).ignore_then(expr()))?;
        Ok(StmtKind::Let { mutable, pattern, ty, value })
    })
}

fn for_loop<'s>() -> impl Grammar<'s, StmtKind> {
    tok(TokenKind::For)
        .ignore_then(for_pattern())
        .then_ignore(tok(TokenKind::In))
        .then(expr())
        .then(block())
        .map(|((pattern, iter), body)| StmtKind::For { pattern, iter, body })
}

fn while_loop<'s>() -> impl Grammar<'s, StmtKind> {
    tok(TokenKind::While).ignore_then(expr()).then(block()).map(|(cond, body)| StmtKind::While { cond, body })
}

fn guard<'s>() -> impl Grammar<'s, StmtKind> {
    tok(TokenKind::Guard)
        .ignore_then(expr())
        .then_ignore(tok(TokenKind::Else))
        .then(block())
        .map(|(cond, body)| StmtKind::Guard { cond, body })
}

fn require<'s>() -> impl Grammar<'s, StmtKind> {
    tok(TokenKind::Require)
        .ignore_then(expr())
        .then(after(TokenKind::Comma, expr()))
        .map(|(cond, message)| StmtKind::Require { cond, message })
}

/// A keyword with an optional expression after it.
fn value_after<'s>(kind: TokenKind) -> impl Grammar<'s, Option<Expr>> {
    custom(move |inp: &mut Input<'s, '_>| {
        inp.parse(tok(kind))?;
        match inp.look_kind(0) {
            TokenKind::Newline | TokenKind::Semi | TokenKind::RBrace | TokenKind::Eof => Ok(None),
            _ => inp.parse(expr()).map(Some),
        }
    })
}

/// An assignment or an expression.
fn expression<'s>(inp: &mut Input<'s, '_>) -> Parse<StmtKind> {
    let value = inp.parse(expr())?;
    let op = match inp.look_kind(0) {
        TokenKind::Eq => None,
        TokenKind::PlusEq => Some(BinaryOp::Add),
        TokenKind::MinusEq => Some(BinaryOp::Sub),
        TokenKind::StarEq => Some(BinaryOp::Mul),
        TokenKind::SlashEq => Some(BinaryOp::Div),
        TokenKind::PercentEq => Some(BinaryOp::Rem),
        _ => return Ok(StmtKind::Expr(value)),
    };
    if !is_target(&value) {
        return Ok(StmtKind::Expr(value));
    }
    let op_span = inp.bump().span;
    let Some(target) = target(value) else {
        return inp.expected("assignment target");
    };
    let value = inp.parse(expr())?;
    Ok(StmtKind::Assign { target, op, op_span, value })
}

/// Returns whether an expression can be the left side of `=`.
fn is_target(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Name(_) => true,
        ExprKind::Member { object, optional: false, .. }
        | ExprKind::Index { object, optional: false, .. } => is_target(object),
        _ => false,
    }
}

/// Converts `a.b[i]` to a target.
fn target(expr: Expr) -> Option<Target> {
    let span = expr.span;
    let mut path = Vec::new();
    let mut rest = expr;
    let root = loop {
        match rest.kind {
            ExprKind::Name(name) => break Ident { name, span: rest.span },
            ExprKind::Member { object, name, .. } => {
                path.push(TargetStep::Member(name));
                rest = *object;
            }
            ExprKind::Index { object, index, op_span, .. } => {
                path.push(TargetStep::Index { index: *index, span: Span::new(op_span.start, rest.span.end) });
                rest = *object;
            }
            _ => return None,
        }
    };
    path.reverse();
    Some(Target { root, path, span })
}
