//! Primary expressions: literals, names, brackets, and the expressions that begin with a keyword.

use chumsky::prelude::*;

use super::decl::{closure_params, function, params};
use super::expr::{arg, expr, part};
use super::list::{entries, list};
use super::literal::{interpolated, number};
use super::match_pattern::match_arm;
use super::stmt::{block, statements};
use super::ty::annotation;
use super::{Grammar, Input, InputExt, Parse, Reason, ident, newline, open_brace, tok, word};
use crate::ast::{
    Catch, DictItem, Expr, ExprKind, Ident, IfArm, Parallel, ParallelKind, Select, SelectCase, UnaryOp,
};
use crate::error::{CompileRule, Rule};
use crate::token::TokenKind;

/// A primary expression.
pub(super) fn primary<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let start = inp.at();
    let token = inp.look(0);
    let kind = match token.kind {
        TokenKind::Ident => {
            inp.bump();
            ExprKind::Name(inp.ident_of(token).name)
        }
        TokenKind::Int | TokenKind::Float | TokenKind::Duration => inp.parse(number())?,
        TokenKind::Str | TokenKind::RawStr => {
            inp.bump();
            ExprKind::Str(inp.state().0.text(token))
        }
        TokenKind::StrStart => inp.parse(interpolated())?,
        TokenKind::True | TokenKind::False => {
            inp.bump();
            ExprKind::Bool(token.kind == TokenKind::True)
        }
        TokenKind::Nil => {
            inp.bump();
            ExprKind::Nil
        }
        TokenKind::LParen => {
            inp.bump();
            let inner = inp.parse(expr().then_ignore(newline()).then_ignore(tok(TokenKind::RParen)))?;
            ExprKind::Paren(Box::new(inner))
        }
        TokenKind::LBracket => {
            inp.bump();
            ExprKind::List(inp.parse(list(arg(), TokenKind::RBracket))?)
        }
        TokenKind::BraceArrow => closure(inp)?,
        TokenKind::LBrace | TokenKind::BraceStruct => {
            inp.bump();
            ExprKind::Dict(inp.parse(dict_items())?)
        }
        TokenKind::Fn => anonymous_fn(inp)?,
        TokenKind::If => if_chain(inp)?,
        TokenKind::Match => inp.parse(match_expr())?,
        TokenKind::Try => try_expr(inp)?,
        TokenKind::Retry => inp.parse(
            tok(TokenKind::Retry)
                .ignore_then(custom(head))
                .then(block())
                .map(|(count, body)| ExprKind::Retry { count: Box::new(count), body }),
        )?,
        TokenKind::Deadline => inp.parse(
            tok(TokenKind::Deadline)
                .ignore_then(custom(head))
                .then(block())
                .map(|(limit, body)| ExprKind::Deadline { limit: Box::new(limit), body }),
        )?,
        TokenKind::Spawn => {
            inp.bump();
            let func = inp.parse(function(block().map(|body| (Vec::new(), None, body))))?;
            ExprKind::Spawn(Box::new(func))
        }
        TokenKind::Parallel => ExprKind::Parallel(Box::new(parallel(inp)?)),
        TokenKind::Select => ExprKind::Select(Box::new(select(inp)?)),
        TokenKind::Ellipsis => return inp.fail(Reason::Compile(CompileRule::Spread)),
        TokenKind::Lt if inp.look_kind(1) == TokenKind::Lt => {
            return inp.fail(Reason::Rule(Rule::Heredoc));
        }
        _ => {
            return match inp.missing() {
                Some(place) => Ok(Expr::new(ExprKind::Error, place)),
                None => inp.expected("expression"),
            };
        }
    };
    Ok(Expr::new(kind, inp.span_from_token(start)))
}

/// The operand between `deadline` or `retry` and the block: a primary expression, possibly with a minus sign, which
/// is rejected at run time.
fn head<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let token = inp.look(0);
    if token.kind != TokenKind::Minus {
        return primary(inp);
    }
    inp.bump();
    let operand = Box::new(primary(inp)?);
    let span = token.span.to(operand.span);
    Ok(Expr::new(ExprKind::Unary { op: UnaryOp::Neg, op_span: token.span, operand }, span))
}

/// The entries of a dict or struct literal with the closing brace.
pub(super) fn dict_items<'s>() -> impl Grammar<'s, Vec<DictItem>> {
    list(custom(dict_item), TokenKind::RBrace)
}

fn dict_item<'s>(inp: &mut Input<'s, '_>) -> Parse<DictItem> {
    let start = inp.at();
    let token = inp.look(0);
    let value = || tok(TokenKind::Colon).ignore_then(part());
    match token.kind {
        TokenKind::Ellipsis => {
            inp.bump();
            inp.parse(expr()).map(DictItem::Spread)
        }
        TokenKind::Str | TokenKind::RawStr => {
            inp.bump();
            let key = Ident { name: inp.state().0.text(token), span: token.span };
            Ok(DictItem::Entry { key, value: inp.parse(value())? })
        }
        TokenKind::StrStart => {
            let kind = inp.parse(interpolated())?;
            let key = Expr::new(kind, inp.span_from_token(start));
            Ok(DictItem::Computed { key, value: inp.parse(value())? })
        }
        TokenKind::LBracket => {
            inp.bump();
            let key = inp.parse(expr().then_ignore(newline()).then_ignore(tok(TokenKind::RBracket)))?;
            Ok(DictItem::Computed { key, value: inp.parse(value())? })
        }
        _ => {
            let key = inp.parse(word("dict key"))?;
            Ok(DictItem::Entry { key, value: inp.parse(value())? })
        }
    }
}

/// `{ params -> statements }`.
fn closure<'s>(inp: &mut Input<'s, '_>) -> Parse<ExprKind> {
    let func = inp.parse(function(custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let close = inp.bump().link as usize;
        let (params, lets) = inp.parse(closure_params())?;
        let mut body = inp.parse(statements(close, start))?;
        body.stmts.splice(0..0, lets);
        Ok((params, None, body))
    })))?;
    Ok(ExprKind::Closure { func: Box::new(func), is_fn: false })
}

/// `fn(params) { }`.
fn anonymous_fn<'s>(inp: &mut Input<'s, '_>) -> Parse<ExprKind> {
    let rule = tok(TokenKind::Fn).ignore_then(params()).then(block());
    let func = inp.parse(function(rule.map(|(params, body)| (params, None, body))))?;
    Ok(ExprKind::Closure { func: Box::new(func), is_fn: true })
}

fn if_chain<'s>(inp: &mut Input<'s, '_>) -> Parse<ExprKind> {
    let mut arms = Vec::new();
    let mut else_body = None;
    loop {
        let (cond, body) = inp.parse(tok(TokenKind::If).ignore_then(expr()).then(block()))?;
        arms.push(IfArm { cond, body });
        if inp.eat(TokenKind::Else).is_none() {
            break;
        }
        if inp.look_kind(0) != TokenKind::If {
            else_body = Some(inp.parse(block())?);
            break;
        }
    }
    Ok(ExprKind::If { arms, else_body })
}

fn match_expr<'s>() -> impl Grammar<'s, ExprKind> {
    tok(TokenKind::Match)
        .ignore_then(expr())
        .then_ignore(open_brace())
        .then(entries(match_arm()))
        .map(|(value, arms)| ExprKind::Match { value: Box::new(value), arms })
}

fn try_expr<'s>(inp: &mut Input<'s, '_>) -> Parse<ExprKind> {
    inp.bump();
    let body = inp.parse(block())?;
    let catch = match inp.eat(TokenKind::Catch) {
        Some(_) => Some(Box::new(catch(inp)?)),
        None => None,
    };
    let finally = match inp.eat(TokenKind::Finally) {
        Some(_) => Some(inp.parse(block())?),
        None => None,
    };
    Ok(ExprKind::Try { body, catch, finally })
}

fn catch<'s>(inp: &mut Input<'s, '_>) -> Parse<Catch> {
    let name = || ident("error name");
    let (name, ty) = match inp.look_kind(0) {
        TokenKind::LParen => {
            inp.bump();
            let close = newline().ignore_then(tok(TokenKind::RParen));
            inp.parse(name().map(Some).then(annotation()).then_ignore(close))?
        }
        TokenKind::Ident => (Some(inp.parse(name())?), None),
        _ => (None, None),
    };
    Ok(Catch { name, ty, body: inp.parse(block())? })
}

fn parallel<'s>(inp: &mut Input<'s, '_>) -> Parse<Parallel> {
    inp.bump();
    // A variable named `each` or `settle` may also be the count; then the body follows directly.
    let is_form = !inp.look_kind(1).is_lbrace() && inp.look_kind(1) != TokenKind::Newline;
    let kind = if is_form && inp.is_word(0, "each") {
        ParallelKind::Each
    } else if is_form && inp.is_word(0, "settle") {
        ParallelKind::Settle
    } else {
        ParallelKind::Count
    };
    if kind != ParallelKind::Count {
        inp.bump();
    }
    let source = inp.parse(expr())?;
    let max_concurrent = if inp.is_word(0, "with") { Some(max_concurrent(inp)?) } else { None };
    let func = inp.parse(function(custom(parallel_body)))?;
    let mut as_stream = false;
    if inp.is_word(0, "as") {
        if kind != ParallelKind::Each {
            return inp.expected("`as stream` is only valid after `parallel each ... { ... }`");
        }
        inp.bump();
        if !inp.is_word(0, "stream") {
            return inp.expected("`stream` after `parallel each ... as`");
        }
        inp.bump();
        as_stream = true;
    }
    Ok(Parallel { kind, source, max_concurrent, func, as_stream })
}

/// `with { max_concurrent: expr }`.
fn max_concurrent<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    inp.bump();
    inp.parse(open_brace())?;
    inp.eat(TokenKind::Newline);
    if inp.look_kind(0).is_word() && !inp.is_word(0, "max_concurrent") {
        return inp.fail(Reason::UnknownOption);
    }
    let option = ident("`max_concurrent`").then(tok(TokenKind::Colon)).ignore_then(expr());
    let value = inp.parse(option)?;
    if inp.eat(TokenKind::Comma).is_some() || inp.eat(TokenKind::Newline).is_some() {
        inp.eat(TokenKind::Newline);
        if inp.look_kind(0).is_word() {
            return inp.fail(Reason::UnknownOption);
        }
    }
    inp.parse(tok(TokenKind::RBrace))?;
    Ok(value)
}

type FunctionParts = (Vec<crate::ast::Param>, Option<crate::ast::TypeExpr>, crate::ast::Block);

/// `{ name -> statements }`; the name (or pattern) and the arrow are optional.
fn parallel_body<'s>(inp: &mut Input<'s, '_>) -> Parse<FunctionParts> {
    let close = inp.parse(open_brace())?;
    let start = inp.at().saturating_sub(1);
    inp.eat(TokenKind::Newline);
    let first = inp.look(0);
    let behind = match first.kind {
        TokenKind::Arrow => 0,
        kind if kind == TokenKind::LBracket || kind.is_lbrace() => {
            (first.link as usize + 1).saturating_sub(inp.at())
        }
        _ => 1,
    };
    let has_params = inp.look_kind(behind) == TokenKind::Arrow;
    let (params, lets) = if has_params { inp.parse(closure_params())? } else { Default::default() };
    let mut body = inp.parse(statements(close, start))?;
    body.stmts.splice(0..0, lets);
    Ok((params, None, body))
}

fn select<'s>(inp: &mut Input<'s, '_>) -> Parse<Select> {
    inp.bump();
    inp.parse(open_brace())?;
    let mut select = Select { cases: Vec::new(), timeout: None, default: None };
    loop {
        inp.eat(TokenKind::Newline);
        let start = inp.at();
        match inp.look_kind(0) {
            TokenKind::RBrace => break,
            TokenKind::Eof if inp.missing().is_some() => break,
            TokenKind::Eof => return inp.expected("}"),
            _ => {}
        }
        let from = inp.look_kind(1) == TokenKind::From;
        if !from && inp.is_word(0, "timeout") {
            inp.bump();
            let case = inp.parse(expr().then(block()))?;
            if select.timeout.replace(case).is_some() {
                inp.report(super::Fail { at: start as u32, reason: Reason::Rule(Rule::RepeatedSelectCase) });
            }
        } else if !from && inp.is_word(0, "default") {
            inp.bump();
            let body = inp.parse(block())?;
            if select.default.replace(body).is_some() {
                inp.report(super::Fail { at: start as u32, reason: Reason::Rule(Rule::RepeatedSelectCase) });
            }
        } else {
            select.cases.push(inp.parse(select_case())?);
        }
        if select.timeout.is_some() && select.default.is_some() {
            return inp.fail_at(start, Reason::Rule(Rule::TimeoutAndDefault));
        }
        // A case can be empty if missing tokens are treated as present; consume one token to guarantee progress.
        if inp.at() == start {
            inp.bump();
        }
    }
    if select.cases.is_empty() && select.timeout.is_none() && select.default.is_none() {
        return inp.expected("at least one select case");
    }
    inp.bump();
    Ok(select)
}

fn select_case<'s>() -> impl Grammar<'s, SelectCase> {
    ident("select case")
        .then_ignore(tok(TokenKind::From))
        .then(expr())
        .then(block())
        .map(|((name, channel), body)| SelectCase { name, channel, body })
}
