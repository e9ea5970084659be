//! Attributes, and the values of their arguments.

use chumsky::prelude::*;

use super::list::list;
use super::literal::{number, type_int};
use super::{Grammar, Input, InputExt, Parse, Reason, after, ident, tok, word};
use crate::ast::{AttrArg, AttrValue, Attribute, ExprKind};
use crate::error::CompileRule;
use crate::token::TokenKind;

/// `@name(args)`.
pub(super) fn attribute<'s>() -> impl Grammar<'s, Attribute> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        inp.bump();
        // The attribute `@retry` is named like a keyword.
        let name = match inp.look_kind(0) {
            TokenKind::Retry => inp.parse(word("attribute name"))?,
            _ => inp.parse(ident("attribute name"))?,
        };
        let args = inp.parse(after(TokenKind::LParen, list(attr_arg(), TokenKind::RParen)))?;
        Ok(Attribute { name, args: args.unwrap_or_default(), span: inp.span_from_token(start) })
    })
}

fn attr_arg<'s>() -> impl Grammar<'s, AttrArg> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let named = inp.look_kind(0).is_word() && inp.look_kind(1) == TokenKind::Colon;
        let name = if named {
            Some(inp.parse(word("argument name").then_ignore(tok(TokenKind::Colon)))?)
        } else {
            None
        };
        let value = attr_value(inp)?;
        Ok(AttrArg { name, value, span: inp.span_from_token(start) })
    })
}

pub(super) fn attr_value<'s>(inp: &mut Input<'s, '_>) -> Parse<AttrValue> {
    let token = inp.look(0);
    Ok(match token.kind {
        TokenKind::Str | TokenKind::RawStr => {
            inp.bump();
            AttrValue::Str(inp.state().0.text(token))
        }
        TokenKind::True | TokenKind::False => {
            inp.bump();
            AttrValue::Bool(token.kind == TokenKind::True)
        }
        TokenKind::Nil => {
            inp.bump();
            AttrValue::Nil
        }
        TokenKind::Ident if !matches!(inp.look_kind(1), TokenKind::LParen | TokenKind::Dot) => {
            inp.bump();
            AttrValue::Name(inp.ident_of(token).name)
        }
        TokenKind::LBracket => {
            inp.bump();
            AttrValue::List(inp.parse(list(custom(attr_value), TokenKind::RBracket))?)
        }
        TokenKind::Float => AttrValue::Float(float(inp)?),
        TokenKind::Minus if inp.look_kind(1) == TokenKind::Float => {
            inp.bump();
            AttrValue::Float(-float(inp)?)
        }
        TokenKind::Duration => match inp.parse(number())? {
            ExprKind::Duration(ms) => AttrValue::Duration(ms),
            _ => return inp.expected("duration"),
        },
        TokenKind::Int | TokenKind::Minus => AttrValue::Int(inp.parse(type_int())?),
        TokenKind::RParen | TokenKind::RBracket | TokenKind::Comma | TokenKind::Eof => {
            return inp.expected("attribute value");
        }
        _ => return inp.fail(Reason::Compile(CompileRule::AttributeArgument)),
    })
}

fn float<'s>(inp: &mut Input<'s, '_>) -> Parse<f64> {
    match inp.parse(number())? {
        ExprKind::Float(value) => Ok(value),
        _ => inp.expected("float"),
    }
}
