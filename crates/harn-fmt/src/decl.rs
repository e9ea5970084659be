//! Declarations, imports and types.

use harn_syntax::ast::*;

use crate::doc::Doc;
use crate::{Fmt, Item};

impl<'s> Fmt<'s> {
    pub(crate) fn decl(&mut self, decl: &Decl) -> Doc<'s> {
        let mut parts = Vec::new();
        for attr in &decl.attrs {
            parts.push(self.above(attr.span.start).0);
            parts.push(Doc::text("@"));
            parts.push(self.word(attr.name.span));
            if !attr.args.is_empty() {
                parts.push(Doc::text("("));
                for (at, arg) in attr.args.iter().enumerate() {
                    if at > 0 {
                        parts.push(Doc::text(", "));
                    }
                    parts.push(self.comments.inline(arg.span.start));
                    let written = self.slice(arg.span);
                    let is_one_line =
                        !written.contains('\n') && !self.comments.any_between(arg.span.start, arg.span.end);
                    parts.push(if is_one_line { Doc::owned(spaced(written)) } else { Doc::text(written) });
                    self.comments.skip_to(arg.span.end);
                    parts.push(self.comments.behind(arg.span.end));
                }
                parts.push(self.comments.inline(attr.span.end));
                parts.push(Doc::text(")"));
            }
            parts.push(self.comments.behind(attr.span.end));
            parts.push(self.comments.trailing(attr.span.end));
            parts.push(Doc::hard());
        }
        if !decl.attrs.is_empty() {
            parts.push(self.above(decl.kind.name().span.start).0);
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
        let head = |fmt: &mut Self, word: &'static str| vec![Doc::text(word), fmt.word(name.span)];
        match &decl.kind {
            DeclKind::Fn(d) => self.fn_decl(d),
            DeclKind::Pipeline(d) => {
                let mut parts = head(self, "pipeline ");
                parts.push(self.params(&d.func.params, name.span.end));
                parts.push(self.result(d.func.ret.as_ref()));
                if let Some(base) = &d.extends {
                    parts.push(Doc::text(" extends "));
                    parts.push(self.word(base.span));
                }
                parts.push(Doc::text(" "));
                parts.push(self.block(&d.func.body));
                Doc::concat(parts)
            }
            DeclKind::Tool(d) => {
                let mut parts = head(self, "tool ");
                parts.push(self.params(&d.func.params, name.span.end));
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
                // A name, a string or both follow the keyword.
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
        parts.push(self.word(d.name.span));
        parts.push(self.type_params(&d.type_params));
        parts.push(self.params(&d.func.params, d.name.span.end));
        parts.push(self.result(d.func.ret.as_ref()));
        for (at, bound) in d.bounds.iter().enumerate() {
            parts.push(Doc::text(if at == 0 { " where " } else { ", " }));
            parts.push(self.word(bound.param.span));
            parts.push(Doc::text(": "));
            parts.push(self.word(bound.bound.span));
        }
        parts.push(Doc::text(" "));
        parts.push(self.block(&d.func.body));
        Doc::concat(parts)
    }

    pub(crate) fn signature(&mut self, sig: &MethodSig) -> Doc<'s> {
        let mut parts = vec![Doc::text("fn "), self.word(sig.name.span)];
        parts.push(self.type_params(&sig.type_params));
        parts.push(self.params(&sig.params, sig.name.span.end));
        parts.push(self.result(sig.ret.as_ref()));
        Doc::concat(parts)
    }

    pub(crate) fn variant(&mut self, variant: &Variant) -> Doc<'s> {
        let name = self.word(variant.name.span);
        if variant.fields.is_empty() {
            return name;
        }
        let start = |field: &VariantField| match (&field.name, &field.ty) {
            (Some(name), _) => name.span.start,
            (None, ty) => ty.as_ref().map_or(0, |ty| ty.span.start),
        };
        let each = |fmt: &mut Self, field: &VariantField| {
            let mut parts = Vec::new();
            let mut end = 0;
            if let Some(name) = &field.name {
                parts.push(fmt.word(name.span));
                end = name.span.end;
            }
            if let Some(ty) = &field.ty {
                parts.push(Doc::text(if field.name.is_some() { ": " } else { "" }));
                parts.push(fmt.ty(ty));
                end = ty.span.end;
            }
            (end, Doc::concat(parts))
        };
        let fields = self.items(("(", ")"), &variant.fields, variant.span.end, false, each, start);
        Doc::concat(vec![name, fields])
    }

    /// Lays out parameters in parentheses, which begin after `from`.
    pub(crate) fn params(&mut self, params: &[Param], from: u32) -> Doc<'s> {
        let close = match params.last() {
            Some(last) => self.comments.find(last.span.end, ")"),
            // A pipeline needs no parentheses.
            None => self
                .comments
                .find(from, "(")
                .filter(|open| self.comments.find(from, "{").is_none_or(|brace| *open < brace))
                .and_then(|open| self.comments.find(open, ")")),
        };
        // A doc comment before the parentheses does not describe the first parameter.
        let open = close.and_then(|_| self.comments.find(from, "("));
        let head = self.comments.inline_behind(open.unwrap_or(0));
        let each = |fmt: &mut Self, param: &Param| (param.span.end, fmt.param(param));
        let end = close.map_or(0, |close| close + 1);
        let items = self.items(("(", ")"), params, end, false, each, |param| param.span.start);
        Doc::concat(vec![head, items])
    }

    pub(crate) fn param(&mut self, param: &Param) -> Doc<'s> {
        let mut parts = vec![self.comments.inline(param.span.start)];
        parts.push(self.limits(param.note.as_deref(), param.name.span.start));
        if param.rest {
            parts.push(Doc::text("..."));
        }
        parts.push(self.word(param.name.span));
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

    /// The limits before a field or parameter, whose name begins at `name`. Comments after a limit stay there.
    pub(crate) fn limits(&mut self, note: Option<&Note>, name: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        for limit in note.into_iter().flat_map(|note| &note.limits) {
            parts.push(self.above(limit.span.start).0);
            parts.push(Doc::text(self.slice(limit.span)));
            self.comments.skip_to(limit.span.end);
            parts.push(self.comments.behind(limit.span.end));
            let trailing = self.comments.trailing(limit.span.end);
            parts.extend(if trailing.is_nil() {
                [Doc::text(" "), Doc::nil()]
            } else {
                [trailing, Doc::hard()]
            });
        }
        if !parts.is_empty() {
            parts.push(self.above(name).0);
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
            let last = names.last().map_or(import.span.start, |name| name.span.end);
            let end = self.comments.find(last, "}").map_or(last, |brace| brace + 1);
            let mut sorted: Vec<&Ident> = names.iter().collect();
            if !self.comments.any_between(import.span.start, end) {
                sorted.sort_by(|a, b| a.name.cmp(&b.name));
            }
            let each = |fmt: &mut Self, name: &&Ident| (name.span.end, fmt.word(name.span));
            let inside = self.inside(&sorted, end, each, |name| name.span.start);
            parts.push(if inside.items.is_empty() || inside.broken {
                inside.list(("{", "}"), false)
            } else {
                spaced_list(inside.items)
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
            parts.push(self.word(param.name.span));
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
                let each = |fmt: &mut Self, field: &ShapeField| {
                    let limits = fmt.limits(field.note.as_deref(), field.name.span.start);
                    let name = fmt.word(field.name.span);
                    let sign = Doc::text(if field.optional { "?: " } else { ": " });
                    (field.ty.span.end, Doc::concat(vec![limits, name, sign, fmt.ty(&field.ty)]))
                };
                let start = |field: &ShapeField| Note::start(field.note.as_deref(), field.name.span);
                self.items(("{", "}"), fields, ty.span.end, false, each, start)
            }
            TypeKind::Fn { params, ret } => {
                let params = self.types(params);
                Doc::concat(vec![Doc::text("fn("), params, Doc::text(") -> "), self.ty(ret)])
            }
            TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => Doc::text(self.slice(ty.span)),
        };
        Doc::concat(vec![before, doc, self.comments.behind(ty.span.end)])
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

/// Formats an argument of an attribute with one space after each `:` and `,`, and none elsewhere. Strings are not
/// changed.
fn spaced(written: &str) -> String {
    let mut out = String::with_capacity(written.len() + 4);
    let (mut in_string, mut raw, mut escaped) = (false, false, false);
    for c in written.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !raw && !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                raw = out.ends_with('r');
                in_string = true;
                out.push(c);
            }
            ':' | ',' => out.extend([c, ' ']),
            ']' => {
                out.truncate(out.trim_end_matches([' ', ',']).len());
                out.push(c);
            }
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}
