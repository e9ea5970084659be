//! Match arms. A pattern is parsed as an expression and then converted to a pattern, because the syntax is the
//! same.

use chumsky::prelude::*;

use super::expr::expr;
use super::stmt::block;
use super::{Grammar, Input, InputExt, Parse, after, tok};
use crate::ast::{Arg, DictItem, Expr, ExprKind, Ident, MatchArm, MatchPattern, MatchPatternKind, Name};
use crate::token::TokenKind;

/// `pattern | pattern if guard -> block`.
pub(super) fn match_arm<'s>() -> impl Grammar<'s, MatchArm> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let alternatives = alternatives(inp)?;
        let binds = alternatives.len() == 1;
        let patterns = alternatives.into_iter().map(|expr| read(expr, binds)).collect();
        let guard = inp.parse(after(TokenKind::If, expr()))?;
        let body = inp.parse(tok(TokenKind::Arrow).ignore_then(block()))?;
        Ok(MatchArm { patterns, guard, body, span: inp.span_from_token(start) })
    })
}

fn alternatives<'s>(inp: &mut Input<'s, '_>) -> Parse<Vec<Expr>> {
    let mut found = vec![inp.parse(expr())?];
    while inp.eat(TokenKind::Pipe).is_some() {
        found.push(inp.parse(expr())?);
    }
    Ok(found)
}

/// Converts an expression to a pattern. Inside or-patterns (`binds` is false) names are values.
fn read(expr: Expr, binds: bool) -> MatchPattern {
    let span = expr.span;
    let kind = match expr.kind {
        ExprKind::Name(name) if name == "_" => MatchPatternKind::Wildcard,
        ExprKind::Name(name) if binds => MatchPatternKind::Bind(Ident { name, span }),
        ExprKind::List(items) if spread_at_end_only(items.iter().map(rest_of_arg)) => {
            let mut rest = None;
            let mut patterns = Vec::with_capacity(items.len());
            for item in items {
                match rest_of_arg(&item) {
                    Element::Rest(name) => rest = Some(name),
                    _ => patterns.push(read(item.value, binds)),
                }
            }
            MatchPatternKind::List { items: patterns, rest }
        }
        ExprKind::Dict(items) if spread_at_end_only(items.iter().map(rest_of_item)) => {
            let mut rest = None;
            let mut entries = Vec::with_capacity(items.len());
            for item in items {
                match (rest_of_item(&item), item) {
                    (Element::Rest(name), _) => rest = Some(name),
                    (_, DictItem::Entry { key, value }) => entries.push((key, read(value, binds))),
                    _ => {}
                }
            }
            MatchPatternKind::Dict { entries, rest }
        }
        ExprKind::Member { object, name, optional: false } if is_enum_name(&object) => {
            MatchPatternKind::Variant { enum_name: enum_name(&object), variant: name, fields: None }
        }
        ExprKind::MethodCall { object, name, args, optional: false }
            if is_enum_name(&object) && no_spread(&args) =>
        {
            let fields = Some(read_args(args, binds));
            MatchPatternKind::Variant { enum_name: enum_name(&object), variant: name, fields }
        }
        ExprKind::Call { callee, args, .. } if is_result_variant(&callee) && no_spread(&args) => {
            let variant = enum_name(&callee);
            let enum_name = Ident { name: Name::new_static("Result"), span: variant.span };
            MatchPatternKind::Variant { enum_name, variant, fields: Some(read_args(args, binds)) }
        }
        kind => MatchPatternKind::Value(Expr::new(kind, span)),
    };
    MatchPattern { kind, span }
}

fn read_args(args: Vec<Arg>, binds: bool) -> Vec<MatchPattern> {
    args.into_iter().map(|arg| read(arg.value, binds)).collect()
}

/// The meaning of a list or dict element in a pattern.
enum Element {
    Plain,
    Rest(Ident),
    /// The whole literal is a value.
    Other,
}

fn rest_of_arg(arg: &Arg) -> Element {
    if arg.spread { rest_of(&arg.value) } else { Element::Plain }
}

fn rest_of_item(item: &DictItem) -> Element {
    match item {
        DictItem::Entry { .. } => Element::Plain,
        DictItem::Spread(value) => rest_of(value),
        DictItem::Computed { .. } => Element::Other,
    }
}

fn rest_of(value: &Expr) -> Element {
    match &value.kind {
        ExprKind::Name(name) => Element::Rest(Ident { name: name.clone(), span: value.span }),
        _ => Element::Other,
    }
}

fn spread_at_end_only(elements: impl Iterator<Item = Element>) -> bool {
    let mut seen_rest = false;
    for element in elements {
        match element {
            Element::Other => return false,
            _ if seen_rest => return false,
            Element::Rest(_) => seen_rest = true,
            Element::Plain => {}
        }
    }
    true
}

fn no_spread(args: &[Arg]) -> bool {
    args.iter().all(|arg| !arg.spread)
}

fn is_enum_name(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name.starts_with(char::is_uppercase))
}

fn is_result_variant(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name == "Ok" || name == "Err")
}

fn enum_name(expr: &Expr) -> Ident {
    Ident { name: expr.as_name().cloned().unwrap_or_default(), span: expr.span }
}
