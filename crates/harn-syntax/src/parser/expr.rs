//! Expressions: operators and postfix forms. `primary.rs` parses the operands.

use chumsky::pratt::{infix, left};
use chumsky::prelude::*;

use super::list::list;
use super::primary::{dict_items, primary};
use super::ty::{angle_items, ty};
use super::{Grammar, Input, InputExt, Parse, Reason, grow, newline, tok, word};
use crate::ast::{Arg, BinaryOp, Expr, ExprKind, Ident, LogicOp, TypeExpr, UnaryOp};
use crate::error::CompileRule;
use crate::layout::goes_on_behind;
use crate::schema_place::SCHEMA_OF;
use crate::span::Span;
use crate::token::TokenKind;

/// Any expression.
pub(super) fn expr<'s>() -> impl Grammar<'s, Expr> {
    custom(|inp: &mut Input<'s, '_>| grow(|| inp.parse(pipe())))
}

/// `range |> range |> ...`.
fn pipe<'s>() -> impl Grammar<'s, Expr> {
    range().foldl(pipe_sign().then(range()).repeated(), |value, (op_span, func)| {
        let span = value.span.to(func.span);
        Expr::new(ExprKind::Pipe { value: Box::new(value), func: Box::new(func), op_span }, span)
    })
}

fn pipe_sign<'s>() -> impl Grammar<'s, Span> {
    custom(|inp: &mut Input<'s, '_>| match inp.eat(TokenKind::PipeGt) {
        Some(span) => Ok(span),
        None => inp.fail(Reason::Absent),
    })
}

/// `ternary to ternary exclusive`; does not chain.
fn range<'s>() -> impl Grammar<'s, Expr> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.parse(ternary())?;
        let Some(op_span) = inp.eat(TokenKind::To) else { return Ok(start) };
        let end = inp.parse(ternary())?;
        let exclusive = inp.eat(TokenKind::Exclusive);
        let span = start.span.to(exclusive.unwrap_or(end.span));
        let (start, end) = (Box::new(start), Box::new(end));
        Ok(Expr::new(ExprKind::Range { start, end, exclusive: exclusive.is_some(), op_span }, span))
    })
}

/// The operators of one precedence level.
fn operator<'s, Op: Copy>(table: &'static [(TokenKind, Op)]) -> impl Grammar<'s, (Op, Span)> {
    custom(move |inp: &mut Input<'s, '_>| {
        let token = inp.look(0);
        let Some(&(_, op)) = table.iter().find(|(kind, _)| *kind == token.kind) else {
            return inp.fail(Reason::Absent);
        };
        inp.bump();
        if goes_on_behind(token) {
            inp.eat(TokenKind::Newline);
        }
        Ok((op, token.span))
    })
}

const OR: &[(TokenKind, LogicOp)] = &[(TokenKind::OrOr, LogicOp::Or)];
const AND: &[(TokenKind, LogicOp)] = &[(TokenKind::AndAnd, LogicOp::And)];
const COALESCE: &[(TokenKind, LogicOp)] = &[(TokenKind::QuestionQuestion, LogicOp::Coalesce)];
const EQUALITY: &[(TokenKind, BinaryOp)] =
    &[(TokenKind::EqEq, BinaryOp::Eq), (TokenKind::NotEq, BinaryOp::Ne)];
const COMPARE: &[(TokenKind, BinaryOp)] = &[
    (TokenKind::Lt, BinaryOp::Lt),
    (TokenKind::LtTypeArgs, BinaryOp::Lt),
    (TokenKind::Gt, BinaryOp::Gt),
    (TokenKind::LtEq, BinaryOp::Le),
    (TokenKind::GtEq, BinaryOp::Ge),
    (TokenKind::In, BinaryOp::In),
    (TokenKind::NotIn, BinaryOp::NotIn),
];
const ADD: &[(TokenKind, BinaryOp)] = &[(TokenKind::Plus, BinaryOp::Add), (TokenKind::Minus, BinaryOp::Sub)];
const MULTIPLY: &[(TokenKind, BinaryOp)] = &[
    (TokenKind::Star, BinaryOp::Mul),
    (TokenKind::Slash, BinaryOp::Div),
    (TokenKind::Percent, BinaryOp::Rem),
];

fn logic(lhs: Expr, (op, op_span): (LogicOp, Span), rhs: Expr) -> Expr {
    let span = lhs.span.to(rhs.span);
    Expr::new(ExprKind::Logic { op, op_span, lhs: Box::new(lhs), rhs: Box::new(rhs) }, span)
}

fn binary(lhs: Expr, (op, op_span): (BinaryOp, Span), rhs: Expr) -> Expr {
    let span = lhs.span.to(rhs.span);
    Expr::new(ExprKind::Binary { op, op_span, lhs: Box::new(lhs), rhs: Box::new(rhs) }, span)
}

/// `cond ? then : other`, right associative. A chain is collected in a loop, so that long chains do not use stack.
fn ternary<'s>() -> impl Grammar<'s, Expr> {
    custom(|inp: &mut Input<'s, '_>| {
        let mut branches = Vec::new();
        let mut last = inp.parse(left_operators())?;
        while inp.eat(TokenKind::QuestionTernary).is_some() {
            let then = newline().ignore_then(custom(|inp| grow(|| inp.parse(ternary()))));
            let then: Expr = inp.parse(then.then_ignore(tok(TokenKind::Colon)))?;
            branches.push((last, then));
            last = inp.parse(left_operators())?;
        }
        Ok(branches.into_iter().rfold(last, |other, (cond, then)| {
            let span = cond.span.to(other.span);
            let (cond, then, other) = (Box::new(cond), Box::new(then), Box::new(other));
            Expr::new(ExprKind::Ternary { cond, then, other }, span)
        }))
    })
}

/// Levels 4 to 10 of the precedence table.
fn left_operators<'s>() -> impl Grammar<'s, Expr> {
    custom(power).pratt((
        infix(left(10), operator(MULTIPLY), |l, op, r, _| binary(l, op, r)),
        infix(left(9), operator(COALESCE), |l, op, r, _| logic(l, op, r)),
        infix(left(8), operator(ADD), |l, op, r, _| binary(l, op, r)),
        infix(left(7), operator(COMPARE), |l, op, r, _| binary(l, op, r)),
        infix(left(6), operator(EQUALITY), |l, op, r, _| binary(l, op, r)),
        infix(left(5), operator(AND), |l, op, r, _| logic(l, op, r)),
        infix(left(4), operator(OR), |l, op, r, _| logic(l, op, r)),
    ))
}

/// `unary ** unary ** ...`, right associative.
fn power<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let mut last = unary(inp)?;
    if inp.look_kind(0) != TokenKind::StarStar {
        return Ok(last);
    }
    let mut bases = Vec::new();
    while let Some(op_span) = inp.eat(TokenKind::StarStar) {
        bases.push((last, op_span));
        last = unary(inp)?;
    }
    Ok(bases.into_iter().rfold(last, |rhs, (lhs, op_span)| binary(lhs, (BinaryOp::Pow, op_span), rhs)))
}

/// `!`, `-` and `try*` before an operand.
fn unary<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let token = inp.look(0);
    let op = match token.kind {
        TokenKind::Bang => Some(UnaryOp::Not),
        TokenKind::Minus => Some(UnaryOp::Neg),
        TokenKind::Try if inp.look_kind(1) == TokenKind::Star => {
            inp.bump();
            None
        }
        _ => return operand(inp),
    };
    inp.bump();
    let operand = Box::new(grow(|| unary(inp))?);
    let span = token.span.to(operand.span);
    let kind = match op {
        Some(op) => ExprKind::Unary { op, op_span: token.span, operand },
        None => ExprKind::TryStar(operand),
    };
    Ok(Expr::new(kind, span))
}

/// The postfix forms of an operand.
enum Postfix {
    Member { name: Ident, optional: bool },
    Method { name: Ident, args: Vec<Arg>, optional: bool },
    Index { index: Expr, optional: bool, op_span: Span },
    Slice { start: Option<Expr>, end: Option<Expr>, op_span: Span },
    Call { type_args: Vec<TypeExpr>, args: Vec<Arg> },
    Struct { items: Vec<crate::ast::DictItem> },
    Propagate { op_span: Span },
}

/// A primary expression with its postfix forms.
fn operand<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let mut operand = primary(inp)?;
    loop {
        let kind = inp.look_kind(0);
        let postfix = match kind {
            TokenKind::LParen
                if operand.as_name().is_some_and(|name| name == SCHEMA_OF) && starts_type(inp) =>
            {
                let type_args = inp.parse(list_of_one_type())?;
                Some(Postfix::Call { type_args, args: Vec::new() })
            }
            _ => postfix(inp, kind)?,
        };
        let Some(postfix) = postfix else { return Ok(operand) };
        let end = inp.at().saturating_sub(1);
        let span = operand.span.to(inp.span_from_token(end));
        operand = Expr::new(attach(operand, postfix), span);
    }
}

/// Whether `(` is followed by a type that is not an expression as well: `list<Item>` or `Item | nil`.
fn starts_type(inp: &mut Input<'_, '_>) -> bool {
    let first = inp.look_kind(1);
    let second = inp.look_kind(2);
    match first {
        TokenKind::Ident => matches!(second, TokenKind::Lt | TokenKind::LtTypeArgs | TokenKind::Pipe),
        TokenKind::Nil | TokenKind::Str | TokenKind::Int => second == TokenKind::Pipe,
        _ => false,
    }
}

/// `(type)`.
fn list_of_one_type<'s>() -> impl Grammar<'s, Vec<TypeExpr>> {
    tok(TokenKind::LParen)
        .ignore_then(ty())
        .then_ignore(tok(TokenKind::Comma).or_not())
        .then_ignore(newline())
        .then_ignore(tok(TokenKind::RParen))
        .map(|ty| vec![ty])
}

fn attach(object: Expr, postfix: Postfix) -> ExprKind {
    let start_span = object.span;
    let boxed = |expr: Expr| Box::new(expr);
    match postfix {
        Postfix::Member { name, optional } => ExprKind::Member { object: boxed(object), name, optional },
        Postfix::Method { name, args, optional } => {
            ExprKind::MethodCall { object: boxed(object), name, args, optional }
        }
        Postfix::Index { index, optional, op_span } => {
            ExprKind::Index { object: boxed(object), index: boxed(index), optional, op_span }
        }
        Postfix::Slice { start, end, op_span } => ExprKind::Slice {
            object: boxed(object),
            start: start.map(Box::new),
            end: end.map(Box::new),
            op_span,
        },
        Postfix::Call { type_args, args } => ExprKind::Call { callee: boxed(object), type_args, args },
        Postfix::Struct { items } => {
            let name = object.as_name().cloned().unwrap_or_default();
            ExprKind::StructLit { name: Ident { name, span: start_span }, items }
        }
        Postfix::Propagate { op_span } => ExprKind::Propagate { operand: boxed(object), op_span },
    }
}

fn postfix<'s>(inp: &mut Input<'s, '_>, kind: TokenKind) -> Parse<Option<Postfix>> {
    Ok(Some(match kind {
        TokenKind::Dot | TokenKind::QuestionDot => {
            inp.bump();
            let optional = kind == TokenKind::QuestionDot;
            let name = inp.parse(word("member name"))?;
            if inp.look_kind(0) == TokenKind::LParen {
                Postfix::Method { name, args: inp.parse(args())?, optional }
            } else {
                Postfix::Member { name, optional }
            }
        }
        TokenKind::LBracket => subscript(inp, false)?,
        TokenKind::QuestionIndex => subscript(inp, true)?,
        TokenKind::LParen => Postfix::Call { type_args: Vec::new(), args: inp.parse(args())? },
        TokenKind::LtTypeArgs => {
            inp.bump();
            let type_args = inp.parse(angle_items(ty()))?;
            Postfix::Call { type_args, args: inp.parse(args())? }
        }
        TokenKind::BraceStruct => {
            inp.bump();
            Postfix::Struct { items: inp.parse(dict_items())? }
        }
        TokenKind::Question => Postfix::Propagate { op_span: inp.bump().span },
        _ => return Ok(None),
    }))
}

fn subscript<'s>(inp: &mut Input<'s, '_>, optional: bool) -> Parse<Postfix> {
    let start = inp.at();
    if optional {
        inp.bump();
    }
    inp.parse(tok(TokenKind::LBracket))?;
    let op_span = inp.span_from_token(start);
    let first = match inp.look_kind(0) {
        TokenKind::Colon => None,
        _ => Some(inp.parse(expr())?),
    };
    let close = || newline().ignore_then(tok(TokenKind::RBracket));
    if !optional && inp.eat(TokenKind::Colon).is_some() {
        let end = match inp.look_kind(0) {
            TokenKind::RBracket => None,
            _ => Some(inp.parse(expr())?),
        };
        inp.parse(close())?;
        return Ok(Postfix::Slice { start: first, end, op_span });
    }
    let Some(index) = first else { return inp.expected("expression") };
    inp.parse(close())?;
    Ok(Postfix::Index { index, optional, op_span })
}

/// `(args)`.
pub(super) fn args<'s>() -> impl Grammar<'s, Vec<Arg>> {
    tok(TokenKind::LParen).ignore_then(list(arg(), TokenKind::RParen))
}

/// An argument or list element, possibly with `...`.
pub(super) fn arg<'s>() -> impl Grammar<'s, Arg> {
    custom(|inp: &mut Input<'s, '_>| {
        let spread = inp.eat(TokenKind::Ellipsis).is_some();
        Ok(Arg { spread, value: inp.parse(part())? })
    })
}

/// An expression inside a literal or a call, and therefore possibly inside a pattern: `|` is only allowed between
/// patterns of a whole arm.
pub(super) fn part<'s>() -> impl Grammar<'s, Expr> {
    custom(|inp: &mut Input<'s, '_>| {
        let value = inp.parse(expr())?;
        if inp.look_kind(0) == TokenKind::Pipe && inp.missing().is_none() {
            return inp.fail(Reason::Compile(CompileRule::OrPattern));
        }
        Ok(value)
    })
}
