//! Types.

use chumsky::prelude::*;

use super::limits::{check_limits, note};
use super::list::{list, loose_list};
use super::literal::type_int;
use super::{Grammar, Input, InputExt, Parse, after, grow, ident, newline, open_brace, tok, word};
use crate::ast::{Ident, Name, ShapeField, TypeExpr, TypeKind, TypeParam, Variance};
use crate::token::TokenKind;

/// A type, possibly a union.
pub(super) fn ty<'s>() -> impl Grammar<'s, TypeExpr> {
    custom(|inp: &mut Input<'s, '_>| grow(|| union(inp)))
}

fn union<'s>(inp: &mut Input<'s, '_>) -> Parse<TypeExpr> {
    let first = primary(inp)?;
    if inp.look_kind(0) != TokenKind::Pipe {
        return Ok(first);
    }
    let start = first.span;
    let mut members = vec![first];
    while inp.eat(TokenKind::Pipe).is_some() {
        // In `fn() -> a | b` the union is the result type, so a member that is a union belongs to a `fn` type.
        members.push(primary(inp)?);
    }
    let end = members.last().map_or(start, |last| last.span);
    Ok(TypeExpr { kind: TypeKind::Union(members), span: start.to(end) })
}

fn primary<'s>(inp: &mut Input<'s, '_>) -> Parse<TypeExpr> {
    let start = inp.at();
    let token = inp.look(0);
    let kind = match token.kind {
        TokenKind::Ident => {
            let name = inp.parse(ident("type"))?;
            TypeKind::Named { name, args: inp.parse(type_args())? }
        }
        TokenKind::True | TokenKind::False => {
            inp.bump();
            TypeKind::Named {
                name: Ident { name: Name::new_static("bool"), span: token.span },
                args: Vec::new(),
            }
        }
        TokenKind::Nil => {
            inp.bump();
            TypeKind::Nil
        }
        TokenKind::Str | TokenKind::RawStr => {
            inp.bump();
            TypeKind::Str(inp.state().0.text(token))
        }
        TokenKind::Int => TypeKind::Int(inp.parse(type_int())?),
        TokenKind::Minus if inp.look_kind(1) == TokenKind::Int => TypeKind::Int(inp.parse(type_int())?),
        TokenKind::LBracket => {
            inp.bump();
            let item = inp.parse(ty().then_ignore(newline()).then_ignore(tok(TokenKind::RBracket)))?;
            let name = Ident { name: Name::new_static("list"), span: inp.span_from_token(start) };
            TypeKind::Named { name, args: vec![item] }
        }
        TokenKind::Fn => inp.parse(fn_type())?,
        kind if kind.is_lbrace() => {
            inp.parse(open_brace().ignore_then(loose_list(shape_field())).map(TypeKind::Shape))?
        }
        _ => {
            return match inp.missing() {
                Some(span) => {
                    let name = Ident { name: Name::default(), span };
                    Ok(TypeExpr { kind: TypeKind::Named { name, args: Vec::new() }, span })
                }
                None => inp.expected("type"),
            };
        }
    };
    Ok(TypeExpr { kind, span: inp.span_from_token(start) })
}

fn fn_type<'s>() -> impl Grammar<'s, TypeKind> {
    tok(TokenKind::Fn)
        .ignore_then(tok(TokenKind::LParen))
        .ignore_then(list(ty(), TokenKind::RParen))
        .then_ignore(tok(TokenKind::Arrow))
        .then(ty())
        .map(|(params, ret)| TypeKind::Fn { params, ret: Box::new(ret) })
}

fn shape_field<'s>() -> impl Grammar<'s, ShapeField> {
    custom(|inp: &mut Input<'s, '_>| {
        let note = note(inp)?;
        let field = word("field name").then(optional_mark()).then_ignore(tok(TokenKind::Colon)).then(ty());
        let ((name, optional), ty) = inp.parse(field)?;
        check_limits(inp, note.as_deref(), Some(&ty));
        Ok(ShapeField { name, optional, ty, note })
    })
}

/// The optional `?` after a field name, in any of the meanings assigned by the layout pass.
pub(super) fn optional_mark<'s>() -> impl Grammar<'s, bool> {
    custom(|inp: &mut Input<'s, '_>| {
        let kind = inp.look_kind(0);
        let marked =
            matches!(kind, TokenKind::Question | TokenKind::QuestionTernary | TokenKind::QuestionIndex);
        if marked {
            inp.bump();
        }
        Ok(marked)
    })
}

fn open_angle<'s>() -> impl Grammar<'s, bool> {
    custom(|inp: &mut Input<'s, '_>| {
        let opens = matches!(inp.look_kind(0), TokenKind::Lt | TokenKind::LtTypeArgs);
        if opens {
            inp.bump();
        }
        Ok(opens)
    })
}

/// Optional `<type, ...>`.
pub(super) fn type_args<'s>() -> impl Grammar<'s, Vec<TypeExpr>> {
    angle_list(ty())
}

/// Optional `<T, in U>` of a declaration.
pub(super) fn type_params<'s>() -> impl Grammar<'s, Vec<TypeParam>> {
    angle_list(type_param())
}

fn angle_list<'s, T>(item: impl Grammar<'s, T>) -> impl Grammar<'s, Vec<T>> {
    let items = angle_items(item);
    custom(
        move |inp: &mut Input<'s, '_>| {
            if inp.parse(open_angle())? { inp.parse(&items) } else { Ok(Vec::new()) }
        },
    )
}

/// The items after `<` with the closing `>`. An empty list is an error.
pub(super) fn angle_items<'s, T>(item: impl Grammar<'s, T>) -> impl Grammar<'s, Vec<T>> {
    let items = list(item, TokenKind::Gt);
    custom(move |inp: &mut Input<'s, '_>| {
        inp.eat(TokenKind::Newline);
        if inp.look_kind(0) == TokenKind::Gt {
            return inp.expected("type");
        }
        inp.parse(&items)
    })
}

fn type_param<'s>() -> impl Grammar<'s, TypeParam> {
    custom(|inp: &mut Input<'s, '_>| {
        let variance = if inp.eat(TokenKind::In).is_some() {
            Some(Variance::In)
        } else if inp.is_word(0, "out") && inp.look_kind(1) == TokenKind::Ident {
            inp.bump();
            Some(Variance::Out)
        } else {
            None
        };
        Ok(TypeParam { name: inp.parse(ident("type parameter name"))?, variance })
    })
}

/// Optional `: type`.
pub(super) fn annotation<'s>() -> impl Grammar<'s, Option<TypeExpr>> {
    after(TokenKind::Colon, ty())
}

/// Optional `-> type`.
pub(super) fn result_type<'s>() -> impl Grammar<'s, Option<TypeExpr>> {
    after(TokenKind::Arrow, ty())
}
