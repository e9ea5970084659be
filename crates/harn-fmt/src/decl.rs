//! Declarations, imports and types.

use harn_syntax::ast::*;

use crate::doc::{Doc, List};
use crate::{Fmt, Item};

impl<'s> Fmt<'s> {
    pub(crate) fn decl(&mut self, decl: &Decl) -> Doc<'s> {
        let mut parts = Vec::new();
        for attr in &decl.attrs {
            parts.push(self.comments.inline(attr.span.start));
            parts.push(Doc::text("@"));
            parts.push(Doc::text(self.slice(attr.name.span)));
            if !attr.args.is_empty() {
                parts.push(Doc::text("("));
                for (at, arg) in attr.args.iter().enumerate() {
                    if at > 0 {
                        parts.push(Doc::text(", "));
                    }
                    parts.push(self.comments.inline(arg.span.start));
                    parts.push(Doc::text(self.slice(arg.span)));
                    self.comments.skip_to(arg.span.end);
                }
                parts.push(self.comments.inline(attr.span.end));
                parts.push(Doc::text(")"));
            }
            parts.push(self.comments.trailing(attr.span.end));
            parts.push(Doc::hard());
        }
        if decl.is_pub {
            parts.push(Doc::text("pub "));
        }
        parts.push(self.decl_kind(decl));
        Doc::concat(parts)
    }

    fn decl_kind(&mut self, decl: &Decl) -> Doc<'s> {
        let end = decl.span.end;
        let name = decl.kind.name();
        let head = |fmt: &Self, word: &'static str| vec![Doc::text(word), Doc::text(fmt.slice(name.span))];
        match &decl.kind {
            DeclKind::Fn(d) => self.fn_decl(d),
            DeclKind::Pipeline(d) => {
                let mut parts = head(self, "pipeline ");
                parts.push(self.params(&d.func.params, d.func.body.span.start));
                parts.push(self.result(d.func.ret.as_ref()));
                if let Some(base) = &d.extends {
                    parts.push(Doc::text(" extends "));
                    parts.push(Doc::text(self.slice(base.span)));
                }
                parts.push(Doc::text(" "));
                parts.push(self.block(&d.func.body));
                Doc::concat(parts)
            }
            DeclKind::Tool(d) => {
                let mut parts = head(self, "tool ");
                parts.push(self.params(&d.func.params, d.func.body.span.start));
                parts.push(self.result(d.func.ret.as_ref()));
                parts.push(Doc::text(" "));
                let mut items: Vec<Item<'_>> = Vec::new();
                if d.description.is_some() {
                    items.extend(self.description(d.func.body.span.start).map(Item::Text));
                }
                items.extend(d.fields.iter().map(|field| Item::Entry(&field.name, " ", &field.value)));
                items.extend(d.func.body.stmts.iter().map(Item::Stmt));
                parts.push(self.braces(&items, d.func.body.span.start, end));
                Doc::concat(parts)
            }
            DeclKind::Skill(d) => {
                let mut parts = head(self, "skill ");
                parts.push(Doc::text(" "));
                let fields = d.fields.iter();
                let items: Vec<Item<'_>> = fields.map(|f| Item::Entry(&f.key, " ", &f.value)).collect();
                parts.push(self.braces(&items, name.span.end, end));
                Doc::concat(parts)
            }
            DeclKind::EvalPack(d) => {
                // Between the word and the brace stand a name, a string or both.
                let start = decl.attrs.last().map_or(decl.span.start, |attr| attr.span.end);
                let mut parts = vec![Doc::text("eval_pack ")];
                let mut is_behind = false;
                for words in self.comments.words_between(start, d.body_span.start) {
                    let names = match words.split_once("eval_pack") {
                        Some((_, names)) if !is_behind => names.trim(),
                        _ if is_behind => words,
                        _ => continue,
                    };
                    is_behind = true;
                    if !names.is_empty() {
                        parts.extend([Doc::text(names), Doc::text(" ")]);
                    }
                }
                let mut items: Vec<Item<'_>> =
                    d.fields.iter().map(|f| Item::Entry(&f.key, ": ", &f.value)).collect();
                items.extend(d.stmts.iter().map(Item::Stmt));
                items.extend(d.summarize.iter().map(|block| Item::Worded("summarize ", block)));
                items.sort_by_key(|item| item.span().start);
                parts.push(self.braces(&items, d.body_span.start, end));
                Doc::concat(parts)
            }
            DeclKind::Enum(d) => {
                let mut parts = head(self, "enum ");
                parts.push(self.type_params(&d.type_params));
                parts.push(Doc::text(" "));
                let items: Vec<Item<'_>> = d.variants.iter().map(Item::Variant).collect();
                parts.push(self.braces(&items, name.span.end, end));
                Doc::concat(parts)
            }
            DeclKind::Struct(d) => {
                let mut parts = head(self, "struct ");
                parts.push(self.type_params(&d.type_params));
                parts.push(Doc::text(" "));
                let items: Vec<Item<'_>> = d.fields.iter().map(Item::Field).collect();
                parts.push(self.braces(&items, name.span.end, end));
                Doc::concat(parts)
            }
            DeclKind::Type(d) => {
                let mut parts = head(self, "type ");
                parts.push(self.type_params(&d.type_params));
                parts.push(Doc::text(" = "));
                parts.push(self.ty(&d.ty));
                Doc::concat(parts)
            }
            DeclKind::Interface(d) => {
                let mut parts = head(self, "interface ");
                parts.push(self.type_params(&d.type_params));
                parts.push(Doc::text(" "));
                let mut items: Vec<Item<'_>> = d.assoc_types.iter().map(Item::Assoc).collect();
                items.extend(d.methods.iter().map(Item::Signature));
                items.sort_by_key(|item| item.span().start);
                parts.push(self.braces(&items, name.span.end, end));
                Doc::concat(parts)
            }
            DeclKind::Impl(d) => {
                let mut parts = head(self, "impl ");
                parts.push(Doc::text(" "));
                let items: Vec<Item<'_>> = d.methods.iter().map(Item::Method).collect();
                parts.push(self.braces(&items, name.span.end, end));
                Doc::concat(parts)
            }
        }
    }

    pub(crate) fn fn_decl(&mut self, d: &FnDecl) -> Doc<'s> {
        let mut parts = vec![Doc::text(if d.func.is_gen { "gen fn " } else { "fn " })];
        parts.push(Doc::text(self.slice(d.name.span)));
        parts.push(self.type_params(&d.type_params));
        parts.push(self.params(&d.func.params, d.func.body.span.start));
        parts.push(self.result(d.func.ret.as_ref()));
        for (at, bound) in d.bounds.iter().enumerate() {
            parts.push(Doc::text(if at == 0 { " where " } else { ", " }));
            parts.push(Doc::text(self.slice(bound.param.span)));
            parts.push(Doc::text(": "));
            parts.push(Doc::text(self.slice(bound.bound.span)));
        }
        parts.push(Doc::text(" "));
        parts.push(self.block(&d.func.body));
        Doc::concat(parts)
    }

    pub(crate) fn signature(&mut self, sig: &MethodSig) -> Doc<'s> {
        let mut parts = vec![Doc::text("fn "), Doc::text(self.slice(sig.name.span))];
        parts.push(self.type_params(&sig.type_params));
        parts.push(self.params(&sig.params, sig.span.end));
        parts.push(self.result(sig.ret.as_ref()));
        Doc::concat(parts)
    }

    pub(crate) fn variant(&mut self, variant: &Variant) -> Doc<'s> {
        let name = Doc::text(self.slice(variant.name.span));
        if variant.fields.is_empty() {
            return name;
        }
        let items = variant
            .fields
            .iter()
            .map(|field| {
                let mut parts = Vec::new();
                if let Some(name) = &field.name {
                    parts.push(Doc::text(self.slice(name.span)));
                }
                if let Some(ty) = &field.ty {
                    parts.push(Doc::text(if field.name.is_some() { ": " } else { "" }));
                    parts.push(self.ty(ty));
                }
                Doc::concat(parts)
            })
            .collect();
        let fields = List { open: "(", items, close: ")", hugs: false, broken: false };
        Doc::concat(vec![name, Doc::list(fields)])
    }

    /// Parameters in parentheses; `end` is where the text behind them begins.
    pub(crate) fn params(&mut self, params: &[Param], end: u32) -> Doc<'s> {
        let mut broken = false;
        let mut items = Vec::with_capacity(params.len());
        for (at, param) in params.iter().enumerate() {
            let next = params.get(at + 1).map_or(end, |next| next.span.start);
            let mut parts = Vec::new();
            while let Some(comment) = self.comments.take_before(param.span.start) {
                broken = true;
                let comment = self.comments.run(comment);
                parts.push(self.comments.block(comment));
                let same = self.comments.lines_between(comment.span.end, param.span.start) == 0;
                parts.push(if same { Doc::text(" ") } else { Doc::hard() });
            }
            parts.push(self.param(param));
            if self.comments.any_between(param.span.end, next)
                && self.comments.lines_between(param.span.end, next) > 0
            {
                let trailing = self.comments.trailing(param.span.end);
                broken |= !trailing.is_nil();
                parts.push(trailing);
            }
            items.push(Doc::concat(parts));
        }
        Doc::list(List { open: "(", items, close: ")", hugs: false, broken })
    }

    pub(crate) fn param(&mut self, param: &Param) -> Doc<'s> {
        let mut parts = vec![self.comments.inline(param.span.start)];
        if param.rest {
            parts.push(Doc::text("..."));
        }
        parts.push(Doc::text(self.slice(param.name.span)));
        if let Some(ty) = &param.ty {
            parts.push(Doc::text(": "));
            parts.push(self.ty(ty));
        }
        if let Some(default) = &param.default {
            parts.push(Doc::text(" = "));
            parts.push(self.expr(default));
        }
        Doc::concat(parts)
    }

    fn result(&mut self, ret: Option<&TypeExpr>) -> Doc<'s> {
        match ret {
            Some(ty) => Doc::concat(vec![Doc::text(" -> "), self.ty(ty)]),
            None => Doc::nil(),
        }
    }

    pub(crate) fn import(&mut self, import: &Import) -> Doc<'s> {
        let mut parts = vec![Doc::text(if import.is_pub { "pub import " } else { "import " })];
        if let Some(names) = &import.names {
            let brace = self.source[..import.path_span.start as usize].rfind('}').map_or(0, |at| at as u32);
            let commented = self.comments.any_between(import.span.start, brace);
            let mut sorted: Vec<&Ident> = names.iter().collect();
            if !commented {
                sorted.sort_by(|a, b| a.name.cmp(&b.name));
            }
            let mut items = Vec::with_capacity(sorted.len());
            for name in sorted {
                let before = self.comments.inline(name.span.start);
                let inside = self.comments.any_between(name.span.end, brace);
                let trailing = if inside { self.comments.trailing(name.span.end) } else { Doc::nil() };
                items.push(Doc::concat(vec![before, Doc::text(self.slice(name.span)), trailing]));
            }
            let spaced = !items.is_empty();
            parts.push(if spaced && !commented {
                spaced_list(items)
            } else {
                Doc::list(List { open: "{", items, close: "}", hugs: false, broken: commented })
            });
            parts.push(Doc::text(" from "));
        }
        parts.push(self.comments.inline(import.path_span.start));
        parts.push(Doc::text(self.slice(import.path_span)));
        Doc::concat(parts)
    }

    fn type_params(&mut self, params: &[TypeParam]) -> Doc<'s> {
        if params.is_empty() {
            return Doc::nil();
        }
        let mut parts = vec![Doc::text("<")];
        for (at, param) in params.iter().enumerate() {
            if at > 0 {
                parts.push(Doc::text(", "));
            }
            parts.push(Doc::text(match param.variance {
                Some(Variance::In) => "in ",
                Some(Variance::Out) => "out ",
                None => "",
            }));
            parts.push(Doc::text(self.slice(param.name.span)));
        }
        parts.push(Doc::text(">"));
        Doc::concat(parts)
    }

    pub(crate) fn types(&mut self, types: &[TypeExpr]) -> Doc<'s> {
        let mut parts = Vec::new();
        for (at, ty) in types.iter().enumerate() {
            if at > 0 {
                parts.push(Doc::text(", "));
            }
            parts.push(self.ty(ty));
        }
        Doc::concat(parts)
    }

    pub(crate) fn ty(&mut self, ty: &TypeExpr) -> Doc<'s> {
        let before = self.comments.inline(ty.span.start);
        let doc = match &ty.kind {
            TypeKind::Named { name, args } if args.is_empty() => Doc::text(self.slice(name.span)),
            TypeKind::Named { name, args } => {
                let listed = self.slice(name.span).starts_with('[');
                let name = if listed { "list" } else { self.slice(name.span) };
                if listed {
                    self.lists.push(ty.span);
                }
                Doc::concat(vec![Doc::text(name), Doc::text("<"), self.types(args), Doc::text(">")])
            }
            TypeKind::Union(members) => {
                let mut members = members.iter();
                let first = members.next().map_or_else(Doc::nil, |first| self.ty(first));
                let mut tail = Vec::new();
                for member in members {
                    tail.push(Doc::line());
                    tail.push(Doc::text("| "));
                    tail.push(self.ty(member));
                }
                Doc::group(Doc::concat(vec![first, Doc::indent(Doc::concat(tail))]), false)
            }
            TypeKind::Shape(fields) => {
                let mut items = Vec::with_capacity(fields.len());
                let first = fields.first().map_or(ty.span.end, |field| field.name.span.start);
                let head = self.comments.behind_bracket(first);
                let mut broken = !head.is_nil();
                for field in fields {
                    let mut parts = Vec::new();
                    while let Some(comment) = self.comments.take_before(field.name.span.start) {
                        broken = true;
                        let comment = self.comments.run(comment);
                        parts.push(self.comments.block(comment));
                        parts.push(Doc::hard());
                    }
                    parts.push(Doc::text(self.slice(field.name.span)));
                    parts.push(Doc::text(if field.optional { "?: " } else { ": " }));
                    parts.push(self.ty(&field.ty));
                    let trailing = self.comments.trailing(field.ty.span.end);
                    broken |= !trailing.is_nil();
                    parts.push(trailing);
                    items.push(Doc::concat(parts));
                }
                Doc::concat(vec![head, Doc::list(List { open: "{", items, close: "}", hugs: false, broken })])
            }
            TypeKind::Fn { params, ret } => {
                let params = self.types(params);
                Doc::concat(vec![Doc::text("fn("), params, Doc::text(") -> "), self.ty(ret)])
            }
            TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => Doc::text(self.slice(ty.span)),
        };
        Doc::concat(vec![before, doc])
    }
}

/// `{ a, b }`
fn spaced_list(items: Vec<Doc<'_>>) -> Doc<'_> {
    let mut inner = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            inner.push(Doc::text(","));
        }
        inner.push(Doc::line());
        inner.push(item);
    }
    inner.push(Doc::if_broken(","));
    let parts = vec![Doc::text("{"), Doc::indent(Doc::concat(inner)), Doc::line(), Doc::text("}")];
    Doc::group(Doc::concat(parts), false)
}
