//! Declarations, attributes, parameters and imports.

use std::collections::HashSet;

use chumsky::prelude::*;

use super::attribute::attribute;
use super::expr::expr;
use super::limits::{check_limits, note};
use super::list::{entries, list, loose_list};
use super::pattern::pattern;
use super::primary::{dict_items, primary};
use super::stmt::{IN_BLOCK, IN_SKILL, IN_TOOL, Scope, block, statement};
use super::ty::{annotation, optional_mark, result_type, ty, type_params};
use super::{Grammar, Input, InputExt, Parse, Reason, after, ident, newline, open_brace, tok, word};
use crate::ast::{
    AssocType, Block, Decl, DeclKind, EnumDecl, EvalPackDecl, Expr, ExprKind, FnDecl, Function, Ident,
    ImplDecl, Import, InterfaceDecl, Method, MethodSig, Name, Param, Pattern, PipelineDecl, SkillDecl,
    SkillField, Stmt, StmtKind, StructDecl, StructField, ToolDecl, ToolField, TypeDecl, TypeExpr, Variant,
    VariantField, WhereBound,
};
use crate::error::{Rule, SyntaxErrorKind};
use crate::span::Span;
use crate::token::TokenKind;

/// A declaration with its attributes.
pub(super) fn declaration<'s>() -> impl Grammar<'s, Decl> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let doc = inp.doc_comment();
        let mut attrs = Vec::new();
        while inp.look_kind(0) == TokenKind::At {
            attrs.push(inp.parse(attribute())?);
            inp.parse(newline())?;
        }
        let is_pub = inp.eat(TokenKind::Pub).is_some();
        let gen_fn = inp.look_kind(1) == TokenKind::Fn && inp.is_word(0, "gen");
        let mut kind = match inp.look_kind(0) {
            _ if gen_fn => inp.parse(fn_decl().map(DeclKind::Fn))?,
            TokenKind::Fn => inp.parse(fn_decl().map(DeclKind::Fn))?,
            TokenKind::Pipeline => inp.parse(pipeline().map(DeclKind::Pipeline))?,
            TokenKind::Tool => DeclKind::Tool(tool(inp)?),
            TokenKind::Skill => inp.parse(skill().map(DeclKind::Skill))?,
            TokenKind::EvalPack => DeclKind::EvalPack(eval_pack(inp)?),
            TokenKind::Enum => inp.parse(enum_decl().map(DeclKind::Enum))?,
            TokenKind::Struct => inp.parse(struct_decl().map(DeclKind::Struct))?,
            TokenKind::Type => inp.parse(type_decl().map(DeclKind::Type))?,
            TokenKind::Interface => inp.parse(interface().map(DeclKind::Interface))?,
            TokenKind::Impl if !is_pub => inp.parse(impl_decl().map(DeclKind::Impl))?,
            _ if is_pub => {
                return inp
                    .expected("fn, tool, skill, eval_pack, struct, enum, pipeline, or import after pub");
            }
            _ => return inp.fail(Reason::AttributeOnStatement),
        };
        match &mut kind {
            DeclKind::Fn(decl) => decl.doc = doc,
            DeclKind::Tool(decl) => decl.doc = doc,
            DeclKind::Struct(decl) => decl.doc = doc,
            DeclKind::Type(decl) => decl.doc = doc,
            _ => {}
        }
        Ok(Decl { attrs, is_pub, kind, span: inp.span_from_token(start) })
    })
}

/// Wraps the parts of a function and records whether its body yields.
pub(super) fn function<'s>(
    parts: impl Grammar<'s, (Vec<Param>, Option<TypeExpr>, Block)>,
) -> impl Grammar<'s, Function> {
    custom(move |inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let outer = std::mem::take(&mut inp.state().0.yields);
        let result = inp.parse(&parts);
        let has_yield = std::mem::replace(&mut inp.state().0.yields, outer);
        let (params, ret, body) = result?;
        Ok(Function { params, ret, body, is_gen: false, has_yield, span: inp.span_from_token(start) })
    })
}

/// `(params)`.
pub(super) fn params<'s>() -> impl Grammar<'s, Vec<Param>> {
    tok(TokenKind::LParen).ignore_then(param_list(TokenKind::RParen, true))
}

/// The parameters of a closure with the arrow, and the statements that destructure its pattern parameters.
///
/// A pattern becomes a parameter with a name that no program can write and a `let` at the start of the body, so
/// that all other passes handle only one kind of parameter.
pub(super) fn closure_params<'s>() -> impl Grammar<'s, (Vec<Param>, Vec<Stmt>)> {
    custom(|inp: &mut Input<'s, '_>| {
        let items = inp.parse(list(custom(closure_param), TokenKind::Arrow))?;
        let mut params = Vec::with_capacity(items.len());
        let mut lets = Vec::new();
        for item in items {
            match item {
                ClosureParam::Named(param) => params.push(param),
                ClosureParam::Pattern(pattern) => {
                    let span = pattern.span;
                    let name = Ident { name: Param::pattern_name(params.len()), span };
                    let value = Expr::new(ExprKind::Name(name.name.clone()), span);
                    lets.push(Stmt {
                        kind: StmtKind::Let { mutable: false, pattern, ty: None, value },
                        span,
                    });
                    params.push(Param { name, ty: None, default: None, rest: false, note: None, span });
                }
            }
        }
        check_params(inp, &params);
        Ok((params, lets))
    })
}

enum ClosureParam {
    Named(Param),
    Pattern(Pattern),
}

fn closure_param<'s>(inp: &mut Input<'s, '_>) -> Parse<ClosureParam> {
    let kind = inp.look_kind(0);
    if kind == TokenKind::LBracket || kind.is_lbrace() {
        return inp.parse(pattern()).map(ClosureParam::Pattern);
    }
    param(inp, true).map(ClosureParam::Named)
}

/// `(names)`.
fn plain_params<'s>() -> impl Grammar<'s, Vec<Param>> {
    tok(TokenKind::LParen).ignore_then(param_list(TokenKind::RParen, false))
}

fn param_list<'s>(close: TokenKind, full: bool) -> impl Grammar<'s, Vec<Param>> {
    custom(move |inp: &mut Input<'s, '_>| {
        let item = custom(move |inp: &mut Input<'s, '_>| param(inp, full));
        let params = inp.parse(list(item, close))?;
        check_params(inp, &params);
        Ok(params)
    })
}

fn param<'s>(inp: &mut Input<'s, '_>, full: bool) -> Parse<Param> {
    let start = inp.at();
    let note = if full { note(inp)? } else { None };
    let rest = full && inp.eat(TokenKind::Ellipsis).is_some();
    let name = inp.parse(ident("parameter name"))?;
    let (mut ty, mut default) = (None, None);
    if full {
        ty = inp.parse(annotation())?;
        default = inp.parse(after(TokenKind::Eq, expr()))?;
    }
    check_limits(inp, note.as_deref(), ty.as_ref());
    Ok(Param { name, ty, default, rest, note, span: inp.span_from_token(start) })
}

/// Reports invalid orders and names of parameters.
fn check_params(inp: &mut Input<'_, '_>, params: &[Param]) {
    let mut default_seen = false;
    for (at, param) in params.iter().enumerate() {
        if param.rest && at + 1 < params.len() {
            inp.report_at(SyntaxErrorKind::Rule(Rule::RestNotLast), param.span);
        }
        if param.rest && param.default.is_some() {
            inp.report_at(SyntaxErrorKind::Rule(Rule::RestWithDefault), param.span);
        }
        if default_seen && param.default.is_none() && !param.rest {
            inp.report_at(SyntaxErrorKind::Rule(Rule::RequiredAfterDefault), param.span);
        }
        default_seen |= param.default.is_some();
    }
    report_repeated(inp, "parameter", params.iter().map(|param| &param.name));
}

/// Reports repeated names.
fn report_repeated<'a>(
    inp: &mut Input<'_, '_>,
    what: &'static str,
    names: impl ExactSizeIterator<Item = &'a Ident>,
) {
    let mut seen = HashSet::with_capacity(names.len());
    for Ident { name, span } in names.filter(|ident| ident.name != "_") {
        if !seen.insert(name) {
            inp.report_at(SyntaxErrorKind::Duplicate { what, name: name.clone() }, *span);
        }
    }
}

/// A list whose items must have distinct names.
fn distinct<'s, T>(
    inp: &mut Input<'s, '_>,
    what: &'static str,
    items: impl Grammar<'s, Vec<T>>,
    name: fn(&T) -> &Ident,
) -> Parse<Vec<T>> {
    let items = inp.parse(items)?;
    report_repeated(inp, what, items.iter().map(name));
    Ok(items)
}

fn fn_decl<'s>() -> impl Grammar<'s, FnDecl> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let is_gen = inp.look_kind(0) == TokenKind::Ident;
        if is_gen {
            inp.bump();
        }
        inp.parse(tok(TokenKind::Fn))?;
        let head = ident("function name").then(type_params()).then(params()).then(result_type());
        let (((name, type_params), params), ret) = inp.parse(head)?;
        let bounds = where_clause(inp)?;
        let func = inp.parse(function(block().map(|body| (Vec::new(), None, body))))?;
        let func = Function { params, ret, is_gen, span: inp.span_from_token(start), ..func };
        Ok(FnDecl { name, type_params, bounds, doc: None, func })
    })
}

/// An optional `where T: I, U: J`.
fn where_clause<'s>(inp: &mut Input<'s, '_>) -> Parse<Vec<WhereBound>> {
    let mut bounds = Vec::new();
    if !inp.is_word(0, "where") {
        return Ok(bounds);
    }
    inp.bump();
    loop {
        let bound = ident("type parameter name")
            .then_ignore(tok(TokenKind::Colon))
            .then(ident("interface name"))
            .map(|(param, bound)| WhereBound { param, bound });
        bounds.push(inp.parse(bound)?);
        if inp.eat(TokenKind::Comma).is_none() || inp.look_kind(0) != TokenKind::Ident {
            return Ok(bounds);
        }
    }
}

fn pipeline<'s>() -> impl Grammar<'s, PipelineDecl> {
    custom(|inp: &mut Input<'s, '_>| {
        inp.bump();
        let name = inp.parse(ident("pipeline name"))?;
        let start = inp.at();
        let head = plain_params().then(result_type()).then(after(TokenKind::Extends, ident("pipeline name")));
        let ((params, ret), extends) = inp.parse(head)?;
        let mut func = inp.parse(function(block().map(|body| (Vec::new(), None, body))))?;
        func = Function { params, ret, span: inp.span_from_token(start), ..func };
        Ok(PipelineDecl { name, extends, func })
    })
}

/// `override name(params) { }`.
pub(super) fn override_decl<'s>() -> impl Grammar<'s, StmtKind> {
    let parts = plain_params().then(block()).map(|(params, body)| (params, None, body));
    tok(TokenKind::Override)
        .ignore_then(ident("function name"))
        .then(function(parts))
        .map(|(name, func)| StmtKind::Override { name, func: Box::new(func) })
}

fn tool<'s>(inp: &mut Input<'s, '_>) -> Parse<ToolDecl> {
    inp.bump();
    let name = inp.parse(ident("tool name"))?;
    let start = inp.at();
    let (params, ret) = inp.parse(params().then(result_type()))?;
    let outer = std::mem::take(&mut inp.state().0.yields);
    let body = tool_body(inp);
    let has_yield = std::mem::replace(&mut inp.state().0.yields, outer);
    let ToolBody { description, fields, body } = body?;
    let span = inp.span_from_token(start);
    let func = Function { params, ret, body, is_gen: false, has_yield, span };
    Ok(ToolDecl { name, doc: None, description, fields, func })
}

/// The content of a tool's braces.
struct ToolBody {
    description: Option<Name>,
    fields: Vec<ToolField>,
    body: Block,
}

/// An entry of a tool body.
enum ToolEntry {
    Description(Name),
    Field(ToolField),
    Statement(Stmt),
}

fn tool_body<'s>(inp: &mut Input<'s, '_>) -> Parse<ToolBody> {
    let close = inp.parse(open_brace())?;
    let start = inp.at() - 1;
    let scope = Scope::new(close, IN_TOOL);
    let mut out = ToolBody { description: None, fields: Vec::new(), body: Block::default() };
    let mut entries = Vec::new();
    let mut first = true;
    while scope.is_open(inp)? {
        let in_head = out.body.stmts.is_empty();
        let rule = custom(move |inp: &mut Input<'s, '_>| tool_entry(inp, first, in_head));
        scope.next(inp, rule, &mut entries);
        first = false;
        match entries.pop() {
            Some(ToolEntry::Description(text)) => out.description = Some(text),
            Some(ToolEntry::Field(field)) => {
                if out.fields.iter().any(|earlier| earlier.name.name == field.name.name) {
                    inp.report_at(SyntaxErrorKind::Rule(Rule::RepeatedToolField), field.name.span);
                }
                out.fields.push(field);
            }
            Some(ToolEntry::Statement(stmt)) => out.body.stmts.push(stmt),
            None => {}
        }
    }
    inp.bump();
    out.body.span = inp.span_from_token(start);
    Ok(out)
}

const TOOL_FIELDS: [&str; 5] = ["guidance", "namespace", "defer_loading", "compact", "annotations"];

fn tool_entry<'s>(inp: &mut Input<'s, '_>, first: bool, in_head: bool) -> Parse<ToolEntry> {
    let value = inp.look(1);
    if first && inp.is_word(0, "description") && matches!(value.kind, TokenKind::Str | TokenKind::RawStr) {
        inp.bump();
        inp.bump();
        return Ok(ToolEntry::Description(inp.state().0.text(value)));
    }
    let is_value = matches!(
        value.kind,
        TokenKind::Str
            | TokenKind::RawStr
            | TokenKind::True
            | TokenKind::False
            | TokenKind::LBrace
            | TokenKind::BraceStruct
    );
    if in_head && is_value && TOOL_FIELDS.iter().any(|field| inp.is_word(0, field)) {
        let name = inp.parse(ident("tool field"))?;
        let start = inp.at();
        let value = if value.kind.is_lbrace() {
            inp.bump();
            let items = inp.parse(dict_items())?;
            Expr::new(ExprKind::Dict(items), inp.span_from_token(start))
        } else {
            primary(inp)?
        };
        return Ok(ToolEntry::Field(ToolField { name, value }));
    }
    inp.parse(statement()).map(ToolEntry::Statement)
}

fn skill<'s>() -> impl Grammar<'s, SkillDecl> {
    custom(|inp: &mut Input<'s, '_>| {
        inp.bump();
        let name = inp.parse(ident("skill name"))?;
        let close = inp.parse(open_brace())?;
        let scope = Scope::new(close, IN_SKILL);
        let mut fields = Vec::new();
        while scope.is_open(inp)? {
            let field = word("skill field name").then(expr()).map(|(key, value)| SkillField { key, value });
            scope.next(inp, field, &mut fields);
        }
        inp.bump();
        Ok(SkillDecl { name, fields })
    })
}

/// An entry of an `eval_pack` body.
enum PackEntry {
    Field(SkillField),
    Statement(Stmt),
    Summarize(Block, Span),
}

fn eval_pack<'s>(inp: &mut Input<'s, '_>) -> Parse<EvalPackDecl> {
    inp.bump();
    let token = inp.look(0);
    let is_text = |kind| matches!(kind, TokenKind::Str | TokenKind::RawStr);
    let (name, id) = if is_text(token.kind) {
        inp.bump();
        let id = inp.state().0.text(token);
        (Ident { name: pack_variable(&id), span: token.span }, id)
    } else {
        let name = inp.parse(ident("eval_pack name or id"))?;
        let token = inp.look(0);
        let mut id = name.name.clone();
        if is_text(token.kind) {
            inp.bump();
            id = inp.state().0.text(token);
        }
        (name, id)
    };
    let close = inp.parse(open_brace())?;
    let start = inp.at() - 1;
    let scope = Scope::new(close, IN_BLOCK);
    let (mut fields, mut stmts, mut summarize) = (Vec::new(), Vec::new(), None);
    let mut entries = Vec::new();
    while scope.is_open(inp)? {
        scope.next(inp, custom(pack_entry), &mut entries);
        match entries.pop() {
            Some(PackEntry::Field(field)) => fields.push(field),
            Some(PackEntry::Statement(stmt)) => stmts.push(stmt),
            Some(PackEntry::Summarize(_, word)) if summarize.is_some() => {
                inp.report_at(SyntaxErrorKind::Rule(Rule::RepeatedSummarize), word);
            }
            Some(PackEntry::Summarize(block, _)) => summarize = Some(block),
            None => {}
        }
    }
    inp.bump();
    let body_span = inp.span_from_token(start);
    Ok(EvalPackDecl { name, id, fields, stmts, summarize, body_span })
}

fn pack_entry<'s>(inp: &mut Input<'s, '_>) -> Parse<PackEntry> {
    if inp.look_kind(0).is_word() && inp.look_kind(1) == TokenKind::Colon {
        let field = word("field name").then_ignore(tok(TokenKind::Colon)).then(expr());
        return inp.parse(field.map(|(key, value)| PackEntry::Field(SkillField { key, value })));
    }
    if inp.is_word(0, "summarize") && inp.look_kind(1).is_lbrace() {
        let word = inp.bump().span;
        return inp.parse(block()).map(|block| PackEntry::Summarize(block, word));
    }
    inp.parse(statement()).map(PackEntry::Statement)
}

/// Returns the variable name of an `eval_pack` that has only a string id.
fn pack_variable(id: &str) -> Name {
    let mut out = String::new();
    for c in id.chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() || c == '_' {
            out.push(c);
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    let begins_name = out.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let keyword = crate::lexer::lex(&out).tokens.first().is_some_and(|token| token.kind.is_keyword());
    if begins_name && !keyword { out.into() } else { format!("eval_pack_{out}").into() }
}

fn enum_decl<'s>() -> impl Grammar<'s, EnumDecl> {
    tok(TokenKind::Enum)
        .ignore_then(ident("enum name"))
        .then(type_params())
        .then_ignore(open_brace())
        .then(custom(|inp: &mut Input<'s, '_>| {
            distinct(inp, "variant", loose_list(variant()), |variant| &variant.name)
        }))
        .map(|((name, type_params), variants)| EnumDecl { name, type_params, variants })
}

fn variant<'s>() -> impl Grammar<'s, Variant> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let name = inp.parse(ident("variant name"))?;
        let fields = inp.parse(after(TokenKind::LParen, list(custom(variant_field), TokenKind::RParen)))?;
        Ok(Variant { name, fields: fields.unwrap_or_default(), span: inp.span_from_token(start) })
    })
}

fn variant_field<'s>(inp: &mut Input<'s, '_>) -> Parse<VariantField> {
    if inp.look_kind(0).is_word() && inp.look_kind(1) == TokenKind::Colon {
        let field = word("field name").then_ignore(tok(TokenKind::Colon)).then(ty());
        return inp.parse(field.map(|(name, ty)| VariantField { name: Some(name), ty: Some(ty) }));
    }
    let alone = matches!(inp.look_kind(1), TokenKind::Comma | TokenKind::Newline | TokenKind::RParen);
    if inp.look_kind(0) == TokenKind::Ident && alone {
        let name = inp.parse(ident("field name"))?;
        return Ok(VariantField { name: Some(name), ty: None });
    }
    Ok(VariantField { name: None, ty: Some(inp.parse(ty())?) })
}

fn struct_field<'s>() -> impl Grammar<'s, StructField> {
    custom(|inp: &mut Input<'s, '_>| {
        let note = note(inp)?;
        let ((name, optional), ty) =
            inp.parse(word("field name").then(optional_mark()).then(annotation()))?;
        check_limits(inp, note.as_deref(), ty.as_ref());
        Ok(StructField { name, optional, ty, note })
    })
}

fn struct_decl<'s>() -> impl Grammar<'s, StructDecl> {
    tok(TokenKind::Struct)
        .ignore_then(ident("struct name"))
        .then(type_params())
        .then_ignore(open_brace())
        .then(custom(|inp: &mut Input<'s, '_>| {
            distinct(inp, "field", loose_list(struct_field()), |field| &field.name)
        }))
        .map(|((name, type_params), fields)| StructDecl { name, doc: None, type_params, fields })
}

fn type_decl<'s>() -> impl Grammar<'s, TypeDecl> {
    tok(TokenKind::Type)
        .ignore_then(ident("type name"))
        .then(type_params())
        .then_ignore(tok(TokenKind::Eq))
        .then(ty())
        .map(|((name, type_params), ty)| TypeDecl { name, doc: None, type_params, ty })
}

/// A member of an interface.
enum Member {
    Type(AssocType),
    Method(MethodSig),
}

impl Member {
    fn name(&self) -> &Ident {
        match self {
            Self::Type(assoc) => &assoc.name,
            Self::Method(method) => &method.name,
        }
    }
}

fn interface<'s>() -> impl Grammar<'s, InterfaceDecl> {
    tok(TokenKind::Interface)
        .ignore_then(ident("interface name"))
        .then(type_params())
        .then_ignore(open_brace())
        .then(custom(|inp: &mut Input<'s, '_>| {
            distinct(inp, "member", entries(custom(interface_member)), Member::name)
        }))
        .map(|((name, type_params), members)| {
            let (mut assoc_types, mut methods) = (Vec::new(), Vec::new());
            for member in members {
                match member {
                    Member::Type(assoc) => assoc_types.push(assoc),
                    Member::Method(method) => methods.push(method),
                }
            }
            InterfaceDecl { name, type_params, assoc_types, methods }
        })
}

fn interface_member<'s>(inp: &mut Input<'s, '_>) -> Parse<Member> {
    let start = inp.at();
    let member = if inp.eat(TokenKind::Type).is_some() {
        let assoc = ident("type name").then(after(TokenKind::Eq, ty()));
        inp.parse(assoc.map(|(name, default)| Member::Type(AssocType { name, default })))?
    } else if inp.eat(TokenKind::Fn).is_some() {
        let sig = ident("method name").then(type_params()).then(params()).then(result_type());
        let (((name, type_params), params), ret) = inp.parse(sig)?;
        Member::Method(MethodSig { name, type_params, params, ret, span: inp.span_from_token(start) })
    } else {
        return inp.expected("`fn` or `type` in interface");
    };
    inp.eat(TokenKind::Semi);
    Ok(member)
}

fn impl_decl<'s>() -> impl Grammar<'s, ImplDecl> {
    tok(TokenKind::Impl)
        .ignore_then(ident("struct name"))
        .then_ignore(open_brace())
        .then(entries(custom(method)))
        .map(|(name, methods)| ImplDecl { name, methods })
}

fn method<'s>(inp: &mut Input<'s, '_>) -> Parse<Method> {
    let is_pub = inp.eat(TokenKind::Pub).is_some();
    let gen_fn = inp.look_kind(1) == TokenKind::Fn && inp.is_word(0, "gen");
    if !gen_fn && inp.look_kind(0) != TokenKind::Fn {
        return inp.expected("`fn` in impl");
    }
    let decl = inp.parse(fn_decl())?;
    inp.eat(TokenKind::Semi);
    Ok(Method { is_pub, decl })
}

/// `[pub] import ...`.
pub(super) fn import<'s>() -> impl Grammar<'s, Import> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let is_pub = inp.eat(TokenKind::Pub).is_some();
        inp.parse(tok(TokenKind::Import))?;
        let mut names = None;
        if inp.look_kind(0).is_lbrace() {
            inp.bump();
            names = Some(inp.parse(list(ident("imported name"), TokenKind::RBrace))?);
            inp.parse(tok(TokenKind::From))?;
        }
        let token = inp.look(0);
        if !matches!(token.kind, TokenKind::Str | TokenKind::RawStr) {
            let what = if names.is_some() { "import path" } else { "import path or `{`" };
            let Some(path_span) = inp.missing() else { return inp.expected(what) };
            let span = inp.span_from_token(start);
            return Ok(Import { is_pub, names, path: Name::default(), path_span, span });
        }
        inp.bump();
        let path = inp.state().0.text(token);
        Ok(Import { is_pub, names, path, path_span: token.span, span: inp.span_from_token(start) })
    })
}
