//! Expressions.

use std::borrow::Cow;

use harn_syntax::ast::*;
use harn_syntax::schema_place;

use crate::doc::{Doc, List};
use crate::{Fmt, Item, literal};

impl<'s> Fmt<'s> {
    pub(crate) fn expr(&mut self, expr: &Expr) -> Doc<'s> {
        let before = self.comments.inline(expr.span.start);
        let doc = self.bare(expr);
        let behind = self.comments.behind(expr.span.end);
        if before.is_nil() && behind.is_nil() { doc } else { Doc::concat(vec![before, doc, behind]) }
    }

    fn bare(&mut self, expr: &Expr) -> Doc<'s> {
        match &expr.kind {
            ExprKind::Nil
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Str(_)
            | ExprKind::Interp(_)
            | ExprKind::Name(_)
            | ExprKind::Error => {
                self.comments.skip_to(expr.span.end);
                Doc::text(self.slice(expr.span))
            }
            ExprKind::Float(value) => match literal::float(self.slice(expr.span), *value) {
                Cow::Borrowed(text) => Doc::text(text),
                Cow::Owned(text) => Doc::owned(text),
            },
            ExprKind::Duration(milliseconds) => Doc::owned(literal::duration(*milliseconds)),
            ExprKind::Paren(inner) => self.paren(inner),
            ExprKind::List(items) => self.args("[", items, "]", expr.span.end, false),
            ExprKind::Dict(items) => self.dict("{", items, expr.span.end),
            ExprKind::StructLit { name, items } => {
                let name = self.word(name.span);
                Doc::concat(vec![name, Doc::text(" "), self.dict("{", items, expr.span.end)])
            }
            ExprKind::Closure { func, is_fn } => self.closure(func, *is_fn),
            ExprKind::If { arms, else_body } => self.if_chain(arms, else_body.as_ref()),
            ExprKind::Match { value, arms } => {
                let head = vec![Doc::text("match "), self.expr(value), Doc::text(" ")];
                let items: Vec<Item<'_>> = arms.iter().map(Item::Arm).collect();
                let body = self.braces(&items, value.span.end, expr.span.end);
                Doc::concat(head.into_iter().chain([body]).collect())
            }
            ExprKind::Try { body, catch, finally } => self.try_expr(body, catch.as_deref(), finally.as_ref()),
            ExprKind::TryStar(inner) => Doc::concat(vec![Doc::text("try* "), self.expr(inner)]),
            ExprKind::Retry { count: head, body } => self.headed("retry ", head, body),
            ExprKind::Deadline { limit: head, body } => self.headed("deadline ", head, body),
            ExprKind::Spawn(func) => Doc::concat(vec![Doc::text("spawn "), self.block(&func.body)]),
            ExprKind::Parallel(parallel) => self.parallel(parallel),
            ExprKind::Select(select) => self.select(select, expr.span.start, expr.span.end),
            ExprKind::Unary { op, operand, .. } => {
                let sign = if *op == UnaryOp::Not { "!" } else { "-" };
                Doc::concat(vec![Doc::text(sign), self.expr(operand)])
            }
            ExprKind::Binary { .. } | ExprKind::Logic { .. } | ExprKind::Pipe { .. } => self.operators(expr),
            ExprKind::Ternary { cond, then, other } => {
                let broken = self.comments.lines_between(cond.span.end, then.span.start) > 0
                    || self.comments.lines_between(then.span.end, other.span.start) > 0;
                let mut parts = vec![self.expr(cond), self.comments.trailing(cond.span.end)];
                let mut tail = vec![Doc::line(), Doc::text("? "), self.expr(then)];
                tail.push(self.comments.trailing(then.span.end));
                tail.extend([Doc::line(), Doc::text(": "), self.expr(other)]);
                parts.push(Doc::indent(Doc::concat(tail)));
                Doc::group(Doc::concat(parts), broken)
            }
            ExprKind::Range { start, end, exclusive, .. } => {
                let mut parts = vec![self.expr(start), Doc::text(" to "), self.expr(end)];
                if *exclusive {
                    parts.push(Doc::text(" exclusive"));
                }
                Doc::concat(parts)
            }
            ExprKind::Call { .. }
            | ExprKind::MethodCall { .. }
            | ExprKind::Member { .. }
            | ExprKind::Index { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Propagate { .. } => self.postfix(expr),
        }
    }

    fn paren(&mut self, inner: &Expr) -> Doc<'s> {
        let inner = self.expr(inner);
        let body = Doc::concat(vec![Doc::indent(Doc::concat(vec![Doc::soft(), inner])), Doc::soft()]);
        Doc::group(Doc::concat(vec![Doc::text("("), body, Doc::text(")")]), false)
    }

    /// Lays out items between brackets with their comments. `end` is the offset after the closing bracket. `each`
    /// also returns the end of an item.
    pub(crate) fn items<T>(
        &mut self,
        brackets: (&'static str, &'static str),
        items: &[T],
        end: u32,
        hugs: bool,
        each: impl FnMut(&mut Self, &T) -> (u32, Doc<'s>),
        start_of: impl Fn(&T) -> u32,
    ) -> Doc<'s> {
        let list = self.inside(items, end, each, start_of).list(brackets, hugs);
        let behind = self.comments.behind(end);
        if behind.is_nil() { list } else { Doc::concat(vec![list, behind]) }
    }

    /// Lays out the content of brackets; see [`Fmt::items`].
    pub(crate) fn inside<T>(
        &mut self,
        items: &[T],
        end: u32,
        mut each: impl FnMut(&mut Self, &T) -> (u32, Doc<'s>),
        start_of: impl Fn(&T) -> u32,
    ) -> Inside<'s> {
        let mut docs = Vec::with_capacity(items.len());
        let head = items.first().map_or_else(Doc::nil, |first| self.comments.behind_bracket(start_of(first)));
        let mut broken = !head.is_nil();
        for item in items {
            let (leading, any) = self.above(start_of(item));
            broken |= any;
            let (item_end, doc) = each(self, item);
            let behind = self.comments.behind(item_end);
            let trailing = self.comments.trailing(item_end);
            broken |= !trailing.is_nil();
            docs.push(match any || !behind.is_nil() || !trailing.is_nil() {
                false => doc,
                true => Doc::concat(vec![leading, doc, behind, trailing]),
            });
        }
        // Comments before the closing bracket remain inside: with their own lines, or after the last item.
        let (mut only, mut tail) = (Vec::new(), Vec::new());
        while let Some(comment) = self.comments.take_before(end.saturating_sub(1)) {
            let alone = items.is_empty() && tail.is_empty();
            if alone && self.comments.lines_between(comment.span.start, end) == 0 {
                only.extend([
                    Doc::text(if only.is_empty() { "" } else { " " }),
                    Doc::text(self.comments.text(comment)),
                ]);
                continue;
            }
            broken = true;
            match docs.pop() {
                Some(last) if tail.is_empty() && !self.comments.has_own_line(comment) => {
                    docs.push(Doc::concat(vec![last, Doc::suffix(self.comments.text(comment))]));
                }
                last => {
                    docs.extend(last);
                    let comment = self.comments.run(comment);
                    tail.push(self.comments.block(comment));
                }
            }
        }
        Inside { head, only, items: docs, tail, broken }
    }

    /// The comments above an item of a list, each on its line; and whether there are any.
    pub(crate) fn above(&mut self, start: u32) -> (Doc<'s>, bool) {
        let mut parts = Vec::new();
        while let Some(comment) = self.comments.take_before(start) {
            let comment = self.comments.run(comment);
            parts.push(self.comments.block(comment));
            let next = self.comments.lines_between(comment.span.end, start);
            parts.push(if next == 0 { Doc::text(" ") } else { Doc::hard() });
        }
        let any = !parts.is_empty();
        (Doc::concat(parts), any)
    }

    /// Lays out arguments, or the elements of a list. `end` is the offset after the closing bracket.
    pub(crate) fn args(
        &mut self,
        open: &'static str,
        args: &[Arg],
        close: &'static str,
        end: u32,
        is_call: bool,
    ) -> Doc<'s> {
        let hugs = is_call && args.last().is_some_and(|last| can_hug(&last.value, args.len() == 1));
        let each = |fmt: &mut Self, arg: &Arg| {
            let doc = fmt.expr(&arg.value);
            let doc = if arg.spread { Doc::concat(vec![Doc::text("..."), doc]) } else { doc };
            (arg.value.span.end, doc)
        };
        self.items((open, close), args, end, hugs, each, |arg| arg.value.span.start)
    }

    fn dict(&mut self, open: &'static str, items: &[DictItem], end: u32) -> Doc<'s> {
        let start = |item: &DictItem| match item {
            DictItem::Entry { key, .. } => key.span.start,
            DictItem::Computed { key, .. } => key.span.start,
            DictItem::Spread(value) => value.span.start,
        };
        let each = |fmt: &mut Self, item: &DictItem| match item {
            DictItem::Entry { key, value } => {
                let text = fmt.key(key);
                let value = fmt.expr(value);
                (item_end(item), Doc::concat(vec![text, Doc::text(": "), value]))
            }
            DictItem::Computed { key, value } => {
                let bracketed = fmt.comments.code_before(key.span.start).ends_with('[')
                    || !matches!(key.kind, ExprKind::Interp(_));
                let (name, value) = (fmt.expr(key), fmt.expr(value));
                let (open, close) = if bracketed { ("[", "]: ") } else { ("", ": ") };
                let parts = vec![Doc::text(open), name, Doc::text(close), value];
                (item_end(item), Doc::concat(parts))
            }
            DictItem::Spread(value) => {
                let doc = fmt.expr(value);
                (value.span.end, Doc::concat(vec![Doc::text("..."), doc]))
            }
        };
        self.items((open, "}"), items, end, false, each, start)
    }

    /// A key of a dict; one that can be a name needs no quotes.
    pub(crate) fn key(&mut self, key: &Ident) -> Doc<'s> {
        let text = self.slice(key.span);
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let before = self.comments.inline(key.span.start);
        let name = Doc::text(inner.filter(|inner| is_name(inner)).unwrap_or(text));
        Doc::concat(vec![before, name, self.comments.behind(key.span.end)])
    }

    /// Lays out a function expression.
    fn closure(&mut self, func: &Function, is_fn: bool) -> Doc<'s> {
        let commented = self.comments.any_between(func.span.start, func.span.end);
        let head = if is_fn {
            let params = self.params(&func.params, func.span.start);
            Doc::concat(vec![Doc::text("fn"), params, Doc::text(" {")])
        } else {
            let mut parts = vec![Doc::text("{ ")];
            for (at, param) in self.closure_params(func).into_iter().enumerate() {
                parts.push(Doc::text(if at == 0 { "" } else { ", " }));
                parts.push(param);
            }
            if !func.params.is_empty() {
                parts.push(Doc::text(" "));
            }
            parts.push(Doc::text("->"));
            Doc::concat(parts)
        };
        let start = if is_fn { func.body.span.start + 1 } else { self.behind_arrow(func) };
        self.body(head, func.split_body().1, start, func.body.span.end, commented)
    }

    /// The parameters of a closure, the patterns as they are written.
    fn closure_params(&mut self, func: &Function) -> Vec<Doc<'s>> {
        let mut lets = func.split_body().0.iter();
        let mut docs = Vec::with_capacity(func.params.len());
        for param in &func.params {
            docs.push(match lets.as_slice().first().map(|stmt| &stmt.kind) {
                Some(StmtKind::Let { pattern, .. }) if param.is_pattern() => {
                    lets.next();
                    let before = self.comments.inline(param.span.start);
                    Doc::concat(vec![before, self.pattern(pattern)])
                }
                _ => self.param(param),
            });
        }
        docs
    }

    /// Returns the offset after the arrow of a closure.
    fn behind_arrow(&self, func: &Function) -> u32 {
        let from = func.params.last().map_or(func.body.span.start + 1, |param| param.span.end);
        self.comments.find(from, "->").map_or(from, |at| at + 2)
    }

    /// A head and a body in braces, on one line if the body is one simple statement.
    pub(crate) fn body(
        &mut self,
        head: Doc<'s>,
        body: &[Stmt],
        start: u32,
        end: u32,
        commented: bool,
    ) -> Doc<'s> {
        if let ([only], false) = (body, commented)
            && is_simple(only)
        {
            let inner = self.stmt(only);
            let broken = inner.is_hard();
            let parts =
                vec![head, Doc::indent(Doc::concat(vec![Doc::line(), inner])), Doc::line(), Doc::text("}")];
            return Doc::group(Doc::concat(parts), broken);
        }
        if body.is_empty() && !commented {
            return Doc::concat(vec![head, Doc::text(" }")]);
        }
        let items: Vec<Item<'_>> = body.iter().map(Item::Stmt).collect();
        let inner = self.lines(&items, start, end.saturating_sub(1), false);
        Doc::concat(vec![head, Doc::indent(inner), Doc::close(), Doc::text("}")])
    }

    fn if_chain(&mut self, arms: &[IfArm], last: Option<&Block>) -> Doc<'s> {
        let mut parts = Vec::new();
        for (at, arm) in arms.iter().enumerate() {
            if at > 0 {
                parts.push(self.behind_block(&arms[at - 1].body, "else"));
            }
            parts.push(Doc::text(if at == 0 { "if " } else { " else if " }));
            parts.push(self.expr(&arm.cond));
            parts.push(Doc::text(" "));
            parts.push(self.block(&arm.body));
        }
        if let Some(last) = last {
            parts.extend(arms.last().map(|arm| self.behind_block(&arm.body, "else")));
            parts.push(Doc::text(" else "));
            parts.push(self.block(last));
        }
        Doc::concat(parts)
    }

    fn try_expr(&mut self, body: &Block, catch: Option<&Catch>, finally: Option<&Block>) -> Doc<'s> {
        let mut parts = vec![Doc::text("try "), self.block(body)];
        if let Some(catch) = catch {
            parts.push(self.behind_block(body, "catch"));
            parts.push(Doc::text(" catch "));
            if let Some(name) = &catch.name {
                parts.push(Doc::text("("));
                parts.push(self.word(name.span));
                if let Some(ty) = &catch.ty {
                    parts.push(Doc::text(": "));
                    parts.push(self.ty(ty));
                }
                parts.push(Doc::text(") "));
            }
            parts.push(self.block(&catch.body));
        }
        if let Some(finally) = finally {
            parts.push(self.behind_block(catch.map_or(body, |catch| &catch.body), "finally"));
            parts.push(Doc::text(" finally "));
            parts.push(self.block(finally));
        }
        Doc::concat(parts)
    }

    /// Takes the comments between a block and the keyword that continues the statement.
    fn behind_block(&mut self, block: &Block, word: &str) -> Doc<'s> {
        match self.comments.find(block.span.end, word) {
            Some(at) => self.comments.inline_behind(at),
            None => Doc::nil(),
        }
    }

    fn headed(&mut self, word: &'static str, head: &Expr, body: &Block) -> Doc<'s> {
        Doc::concat(vec![Doc::text(word), self.expr(head), Doc::text(" "), self.block(body)])
    }

    fn parallel(&mut self, parallel: &Parallel) -> Doc<'s> {
        let word = match parallel.kind {
            ParallelKind::Count => "parallel ",
            ParallelKind::Each => "parallel each ",
            ParallelKind::Settle => "parallel settle ",
        };
        let mut parts = vec![Doc::text(word), self.expr(&parallel.source), Doc::text(" ")];
        if let Some(max) = &parallel.max_concurrent {
            parts.push(Doc::text("with { max_concurrent: "));
            parts.push(self.expr(max));
            parts.push(Doc::text(" } "));
        }
        let body = &parallel.func.body;
        parts.push(self.comments.inline(body.span.start));
        let mut start = body.span.start + 1;
        parts.push(Doc::text("{"));
        if let [_] = parallel.func.params.as_slice() {
            start = self.behind_arrow(&parallel.func);
            parts.push(Doc::text(" "));
            parts.extend(self.closure_params(&parallel.func));
            parts.push(Doc::text(" ->"));
        } else if self.first_token(start) == "->" {
            parts.push(Doc::text(" ->"));
        }
        let items: Vec<Item<'_>> = parallel.func.split_body().1.iter().map(Item::Stmt).collect();
        let inner = self.lines(&items, start, body.span.end.saturating_sub(1), false);
        parts.extend([Doc::indent(inner), Doc::close(), Doc::text("}")]);
        if parallel.as_stream {
            parts.push(Doc::text(" as stream"));
        }
        Doc::concat(parts)
    }

    fn select(&mut self, select: &Select, start: u32, end: u32) -> Doc<'s> {
        let mut items: Vec<Item<'_>> = select.cases.iter().map(Item::Case).collect();
        items.extend(select.timeout.iter().map(|(limit, block)| Item::Headed("timeout ", limit, block)));
        items.extend(select.default.iter().map(|block| Item::Worded("default ", block)));
        items.sort_by_key(|item| item.span().start);
        let word = "select".len() as u32;
        Doc::concat(vec![Doc::text("select "), self.braces(&items, start + word, end)])
    }

    /// A chain of operators of one precedence: all on one line, or each at the start of a line.
    fn operators(&mut self, expr: &Expr) -> Doc<'s> {
        let mut operands = Vec::new();
        let mut rest = expr;
        let level = precedence(expr);
        while let Some((lhs, sign, op_start, rhs)) = parts_of(rest) {
            operands.push((sign, op_start, rhs));
            rest = lhs;
            // `**` is right-associative, and comparisons are not a chain.
            if level.is_none() || precedence(rest) != level {
                break;
            }
        }
        let broken = {
            let mut before = rest.span.end;
            operands.iter().rev().any(|(_, _, rhs)| {
                let gap = self.comments.lines_between(before, rhs.span.start) > 0;
                before = rhs.span.end;
                gap
            })
        };
        let first = self.operand(rest, expr);
        let mut tail = Vec::with_capacity(operands.len() * 4);
        let mut before = rest.span.end;
        for (sign, op_start, rhs) in operands.into_iter().rev() {
            let joined = matches!(sign, "-" | "in" | "not in");
            // After a backslash no comment is allowed, also not on the next line.
            let on_line =
                if joined { self.comments.inline_behind(op_start) } else { self.comments.on_line(op_start) };
            tail.push(on_line);
            let above = self.above(op_start).0;
            // After an operator at the end of a line: the comment belongs to the content of the line.
            if self.comments.lines_between(before, op_start) == 0 {
                tail.push(self.comments.behind_bracket(rhs.span.start));
            }
            before = rhs.span.end;
            if joined {
                tail.push(Doc::if_broken(" \\"));
            }
            tail.push(Doc::line());
            tail.push(above);
            tail.push(Doc::text(sign));
            tail.push(Doc::text(" "));
            tail.push(self.operand(rhs, expr));
        }
        Doc::group(Doc::concat(vec![first, Doc::indent(Doc::concat(tail))]), broken)
    }

    /// Lays out an operand, with parentheses where precedence is confusing: `&&` in `||`, `??` in operators of lower
    /// precedence.
    fn operand(&mut self, operand: &Expr, around: &Expr) -> Doc<'s> {
        let inner = match &operand.kind {
            ExprKind::Logic { op, .. } => *op,
            _ => return self.expr(operand),
        };
        let unclear = match &around.kind {
            ExprKind::Logic { op: LogicOp::Or, .. } if inner == LogicOp::And => true,
            ExprKind::Logic { op, .. } => inner == LogicOp::Coalesce && *op != LogicOp::Coalesce,
            ExprKind::Binary { .. } => inner == LogicOp::Coalesce,
            _ => false,
        };
        if unclear { self.paren(operand) } else { self.expr(operand) }
    }

    /// A receiver and what follows it: members, methods, subscripts, calls.
    fn postfix(&mut self, expr: &Expr) -> Doc<'s> {
        let mut links = Vec::new();
        let mut base = expr;
        while let Some(object) = object_of(base) {
            links.push(base);
            base = object;
        }
        let methods = links.iter().filter(|link| matches!(link.kind, ExprKind::MethodCall { .. })).count();
        let mut before = self.expr(base);
        let mut parts: Vec<(bool, Doc<'s>)> = Vec::with_capacity(links.len());
        // After `?`, adjacent characters would be parsed as `??`, `?.` or `?[`.
        let mut after_mark = false;
        for link in links.into_iter().rev() {
            let object_end = object_of(link).map_or(link.span.start, |object| object.span.end);
            let apart = if std::mem::take(&mut after_mark) { " " } else { "" };
            match &link.kind {
                ExprKind::Member { name, optional, .. } | ExprKind::MethodCall { name, optional, .. } => {
                    let breaks = self.comments.lines_between(object_end, name.span.start) > 0;
                    let mut link_parts = Vec::new();
                    if breaks {
                        link_parts.push(self.comments.trailing(object_end));
                        link_parts.push(Doc::hard());
                        link_parts.push(self.above(name.span.start).0);
                    } else {
                        link_parts.push(self.comments.inline_behind(name.span.start));
                        if matches!(link.kind, ExprKind::MethodCall { .. }) && methods > 2 {
                            link_parts.push(Doc::soft());
                        }
                    }
                    if !breaks {
                        link_parts.push(Doc::text(apart));
                    }
                    link_parts.push(Doc::text(if *optional { "?." } else { "." }));
                    link_parts.push(self.word(name.span));
                    if let ExprKind::MethodCall { args, .. } = &link.kind {
                        link_parts.push(self.args("(", args, ")", link.span.end, true));
                    }
                    link_parts.push(self.comments.behind(link.span.end));
                    parts.push((breaks, Doc::concat(link_parts)));
                }
                ExprKind::Call { callee, type_args, args } => {
                    let mut call = Vec::new();
                    let written =
                        callee.as_name().and_then(|name| schema_place::written_type(name, type_args, args));
                    if written.is_some_and(schema_place::is_clearly_a_type) {
                        call.extend([Doc::text("("), self.types(type_args), Doc::text(")")]);
                    } else {
                        if !type_args.is_empty() {
                            call.extend([Doc::text("<"), self.types(type_args), Doc::text(">")]);
                        }
                        call.push(self.args("(", args, ")", link.span.end, true));
                    }
                    call.push(self.comments.behind(link.span.end));
                    parts.push((false, Doc::concat(call)));
                }
                ExprKind::Index { index, optional, .. } => {
                    let open = if *optional { "?[" } else { "[" };
                    let mut subscript = vec![Doc::text(apart), Doc::text(open)];
                    subscript.extend([self.expr(index), Doc::text("]")]);
                    subscript.push(self.comments.behind(link.span.end));
                    parts.push((false, Doc::concat(subscript)));
                }
                ExprKind::Slice { start, end, .. } => {
                    let mut slice = vec![Doc::text(apart), Doc::text("[")];
                    slice.extend(start.iter().map(|start| self.expr(start)));
                    slice.push(Doc::text(":"));
                    slice.extend(end.iter().map(|end| self.expr(end)));
                    slice.push(Doc::text("]"));
                    slice.push(self.comments.behind(link.span.end));
                    parts.push((false, Doc::concat(slice)));
                }
                _ => {
                    parts.push((false, Doc::concat(vec![Doc::text(apart), Doc::text("?")])));
                    after_mark = true;
                }
            }
        }
        let broken = parts.iter().any(|(breaks, _)| *breaks);
        if broken || methods <= 2 || parts.iter().any(|(_, doc)| doc.is_hard()) {
            // From the first line break on, everything is one level deeper.
            let first = parts.iter().position(|(breaks, _)| *breaks).unwrap_or(parts.len());
            let tail: Vec<Doc<'s>> = parts.split_off(first).into_iter().map(|(_, doc)| doc).collect();
            let mut all = vec![before];
            all.extend(parts.into_iter().map(|(_, doc)| Doc::group(doc, false)));
            all.push(Doc::indent(Doc::concat(tail)));
            return Doc::concat(all);
        }
        let tail: Vec<Doc<'s>> = parts.into_iter().map(|(_, doc)| doc).collect();
        before = Doc::concat(vec![before, Doc::indent(Doc::concat(tail))]);
        Doc::group(before, false)
    }
}

/// The layout of the content of brackets.
pub(crate) struct Inside<'s> {
    /// Comments at the opening bracket.
    head: Doc<'s>,
    /// Comments on the line of both brackets, where there is nothing else.
    only: Vec<Doc<'s>>,
    pub(crate) items: Vec<Doc<'s>>,
    /// Comments with their own lines before the closing bracket.
    tail: Vec<Doc<'s>>,
    /// A comment forces one item per line.
    pub(crate) broken: bool,
}

impl<'s> Inside<'s> {
    pub(crate) fn list(self, (open, close): (&'static str, &'static str), hugs: bool) -> Doc<'s> {
        let Inside { head, only, items, tail, broken } = self;
        if !only.is_empty() {
            return Doc::concat(vec![Doc::text(open), Doc::concat(only), Doc::text(close)]);
        }
        let list = Doc::list(List { open, items, close, tail, hugs, broken });
        if head.is_nil() { list } else { Doc::concat(vec![head, list]) }
    }

    /// Prints on one line, even if it is too long, except for comments that need lines.
    pub(crate) fn row(self, (open, close): (&'static str, &'static str)) -> Doc<'s> {
        if self.broken || self.items.is_empty() {
            return self.list((open, close), false);
        }
        let mut parts = vec![Doc::text(open)];
        for (at, item) in self.items.into_iter().enumerate() {
            if at > 0 {
                parts.push(Doc::text(", "));
            }
            parts.push(item);
        }
        parts.push(Doc::text(close));
        Doc::concat(parts)
    }
}

fn item_end(item: &DictItem) -> u32 {
    match item {
        DictItem::Entry { value, .. } | DictItem::Computed { value, .. } | DictItem::Spread(value) => {
            value.span.end
        }
    }
}

/// Returns the object of a postfix expression.
fn object_of(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Member { object, .. }
        | ExprKind::MethodCall { object, .. }
        | ExprKind::Index { object, .. }
        | ExprKind::Slice { object, .. }
        | ExprKind::Call { callee: object, .. }
        | ExprKind::Propagate { operand: object, .. } => Some(object),
        _ => None,
    }
}

/// The operands of an operator, its sign and its place.
fn parts_of(expr: &Expr) -> Option<(&Expr, &'static str, u32, &Expr)> {
    match &expr.kind {
        ExprKind::Binary { op, op_span, lhs, rhs } => Some((lhs, op.symbol(), op_span.start, rhs)),
        ExprKind::Logic { op, op_span, lhs, rhs } => Some((lhs, op.symbol(), op_span.start, rhs)),
        ExprKind::Pipe { value, func, op_span } => Some((value, "|>", op_span.start, func)),
        _ => None,
    }
}

/// The precedence of operators that make chains.
fn precedence(expr: &Expr) -> Option<u8> {
    Some(match &expr.kind {
        ExprKind::Pipe { .. } => 0,
        ExprKind::Logic { op: LogicOp::Or, .. } => 1,
        ExprKind::Logic { op: LogicOp::And, .. } => 2,
        ExprKind::Logic { op: LogicOp::Coalesce, .. } => 3,
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. } => 4,
        ExprKind::Binary { op: BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem, .. } => 5,
        _ => return None,
    })
}

/// Whether an argument may begin after the bracket and continue on the lines below.
fn can_hug(value: &Expr, is_only: bool) -> bool {
    match &value.kind {
        ExprKind::Closure { .. }
        | ExprKind::If { .. }
        | ExprKind::Match { .. }
        | ExprKind::Try { .. }
        | ExprKind::Retry { .. }
        | ExprKind::Deadline { .. }
        | ExprKind::Spawn(_)
        | ExprKind::Parallel(_)
        | ExprKind::Select(_) => true,
        ExprKind::List(items) => !items.is_empty(),
        ExprKind::Dict(items) | ExprKind::StructLit { items, .. } => !items.is_empty(),
        ExprKind::Call { args, .. } | ExprKind::MethodCall { args, .. } => is_only && !args.is_empty(),
        _ => false,
    }
}

/// Whether a statement may be on the line of its braces.
pub(crate) fn is_simple(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Expr(value) | StmtKind::Return(Some(value)) => !has_block(value),
        StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => true,
        StmtKind::Require { cond, message } => {
            !has_block(cond) && message.as_ref().is_none_or(|message| !has_block(message))
        }
        StmtKind::Assign { value, .. } => !has_block(value),
        _ => false,
    }
}

/// Whether an expression begins with a keyword and a block.
const fn has_block(value: &Expr) -> bool {
    matches!(
        value.kind,
        ExprKind::If { .. }
            | ExprKind::Match { .. }
            | ExprKind::Try { .. }
            | ExprKind::Retry { .. }
            | ExprKind::Deadline { .. }
            | ExprKind::Spawn(_)
            | ExprKind::Parallel(_)
            | ExprKind::Select(_)
    )
}
