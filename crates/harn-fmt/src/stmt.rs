//! Statements, blocks, and other line-based constructs.

use harn_syntax::Span;
use harn_syntax::ast::*;

use crate::Fmt;
use crate::doc::Doc;
use crate::expr::is_simple;

/// An item with its own lines.
pub(crate) enum Item<'a> {
    Stmt(&'a Stmt),
    Arm(&'a MatchArm),
    Case(&'a SelectCase),
    /// A keyword, an expression and a block.
    Headed(&'static str, &'a Expr, &'a Block),
    /// A keyword and a block.
    Worded(&'static str, &'a Block),
    /// A key and a value with a sign between them.
    Entry(&'a Ident, &'static str, &'a Expr),
    /// Source that is printed unchanged.
    Text(Span),
    Variant(&'a Variant),
    Field(&'a StructField),
    Assoc(&'a AssocType),
    Signature(&'a MethodSig),
    Method(&'a Method),
}

impl Item<'_> {
    /// Returns the span of the item, as far as it is known.
    pub(crate) fn span(&self) -> Span {
        match self {
            Item::Stmt(stmt) => stmt.span,
            Item::Arm(arm) => arm.span,
            Item::Case(case) => case.name.span.to(case.body.span),
            Item::Headed(_, head, body) => head.span.to(body.span),
            Item::Worded(_, body) => body.span,
            Item::Entry(key, _, value) => key.span.to(value.span),
            Item::Text(span) => *span,
            Item::Variant(variant) => variant.span,
            Item::Field(field) => {
                let end = field.ty.as_ref().map_or(field.name.span.end, |ty| ty.span.end);
                Span::new(Note::start(field.note.as_deref(), field.name.span), end)
            }
            Item::Assoc(assoc) => match &assoc.default {
                Some(ty) => assoc.name.span.to(ty.span),
                None => assoc.name.span,
            },
            Item::Signature(sig) => sig.span,
            Item::Method(method) => method.decl.func.span,
        }
    }

    /// Returns whether empty lines separate it at the top level of a file.
    fn stands_apart(&self) -> bool {
        match self {
            Item::Stmt(stmt) => stmt.stands_apart(),
            Item::Method(_) => true,
            _ => false,
        }
    }

    const fn is_import(&self) -> bool {
        matches!(self, Item::Stmt(Stmt { kind: StmtKind::Import(_), .. }))
    }
}

/// A part of a pattern that has brackets.
enum Part<'a> {
    Inner(&'a MatchPattern),
    Entry(&'a Ident, &'a MatchPattern),
    Field(&'a DictField),
    Elem(&'a ListElem),
    /// The name after `...`.
    Rest(&'a Ident),
}

impl Part<'_> {
    const fn start(&self) -> u32 {
        match self {
            Part::Inner(pattern) => pattern.span.start,
            Part::Entry(name, _) | Part::Rest(name) => name.span.start,
            Part::Field(field) => field.key.span.start,
            Part::Elem(elem) => elem.name.span.start,
        }
    }
}

impl<'s> Fmt<'s> {
    /// Lays out `{`, items with their own lines, `}`. The opening brace is after `from`, the closing one before
    /// `end`.
    pub(crate) fn braces(&mut self, items: &[Item<'_>], from: u32, end: u32) -> Doc<'s> {
        let open = self.comments.find(from, "{").map_or(from, |at| at + 1);
        let head = self.comments.inline(open.saturating_sub(1));
        let apart = items.iter().any(|item| matches!(item, Item::Method(_)));
        let inner = self.lines(items, open, end.saturating_sub(1), apart);
        Doc::concat(vec![head, Doc::text("{"), Doc::indent(inner), Doc::close(), Doc::text("}")])
    }

    /// A block over several lines.
    pub(crate) fn block(&mut self, block: &Block) -> Doc<'s> {
        let head = self.comments.inline(block.span.start);
        let items: Vec<Item<'_>> = block.stmts.iter().map(Item::Stmt).collect();
        let inner = self.lines(&items, block.span.start + 1, block.span.end.saturating_sub(1), false);
        let mut parts = vec![head, Doc::text("{"), Doc::indent(inner), Doc::close(), Doc::text("}")];
        parts.push(self.comments.behind(block.span.end));
        Doc::concat(parts)
    }

    /// Lays out items with their comments, each after a line break. `start` is the end of the source before them.
    pub(crate) fn lines(&mut self, items: &[Item<'_>], start: u32, end: u32, apart: bool) -> Doc<'s> {
        let mut parts = Vec::new();
        self.each_line(items, start, end, apart, &mut |part| parts.push(part));
        Doc::concat(parts)
    }

    /// Passes the parts of [`Fmt::lines`] to `give`, in order. The part after an item begins with a line break or is
    /// a comment that waits for one, so each part can be printed without the following ones.
    pub(crate) fn each_line(
        &mut self,
        items: &[Item<'_>],
        start: u32,
        end: u32,
        apart: bool,
        give: &mut dyn FnMut(Doc<'s>),
    ) {
        // A comment at the start of a file does not belong to an earlier line.
        if start > 0 {
            give(self.comments.trailing(start));
        }
        let mut before = start.max(self.comments.last_end());
        let mut first = true;
        // Remaining lines of a section header, which is separated from its surroundings.
        let (mut head, mut below) = (0_u8, false);
        for (at, item) in items.iter().enumerate() {
            let span = item.span();
            let imports = at > 0 && item.is_import() && items[at - 1].is_import();
            let leaves_imports = at > 0 && !item.is_import() && items[at - 1].is_import();
            let mut wanted = apart
                && at > 0
                && !imports
                && (item.stands_apart() || items[at - 1].stands_apart() || leaves_imports);
            let mut same_line = false;
            while let Some(comment) = self.comments.take_before(span.start) {
                let comment = self.comments.run(comment);
                if apart && self.comments.opens_section(comment) {
                    (head, wanted) = (3, true);
                }
                let gap = self.comments.lines_between(before, comment.span.start);
                give(if same_line && gap == 0 {
                    Doc::text(" ")
                } else if !first && wanted {
                    Doc::apart()
                } else if !first && gap > 1 {
                    Doc::blank()
                } else {
                    Doc::hard()
                });
                wanted = head == 1;
                head = head.saturating_sub(1);
                first = false;
                give(self.comments.block(comment));
                before = comment.span.end;
                same_line = true;
            }
            let gap = self.comments.lines_between(before, span.start);
            give(if same_line && gap == 0 {
                Doc::text(" ")
            } else if !first && wanted {
                Doc::apart()
            } else if !first && gap > 1 && !imports {
                Doc::blank()
            } else {
                Doc::hard()
            });
            first = false;
            give(self.item(item));
            let end = match item {
                Item::Field(field) if field.optional && field.ty.is_none() => {
                    self.comments.find(span.end, "?").map_or(span.end, |at| at + 1)
                }
                _ => span.end,
            };
            give(self.comments.behind(end));
            give(self.comments.trailing(end));
            before = end.max(self.comments.last_end());
        }
        while let Some(comment) = self.comments.take_before(end) {
            let comment = self.comments.run(comment);
            if apart && self.comments.opens_section(comment) {
                (head, below) = (3, true);
            }
            let gap = self.comments.lines_between(before, comment.span.start);
            let blank = !first && (gap > 1 || below);
            below = head == 1;
            head = head.saturating_sub(1);
            give(if blank { Doc::blank() } else { Doc::hard() });
            first = false;
            give(self.comments.block(comment));
            before = comment.span.end;
        }
    }

    fn item(&mut self, item: &Item<'_>) -> Doc<'s> {
        match item {
            Item::Stmt(stmt) => self.stmt(stmt),
            Item::Arm(arm) => self.arm(arm),
            Item::Case(case) => {
                let head = vec![self.word(case.name.span), Doc::text(" from ")];
                let (channel, body) = (self.expr(&case.channel), self.block(&case.body));
                Doc::concat(head.into_iter().chain([channel, Doc::text(" "), body]).collect())
            }
            Item::Headed(word, head, body) => {
                Doc::concat(vec![Doc::text(word), self.expr(head), Doc::text(" "), self.block(body)])
            }
            Item::Worded(word, body) => Doc::concat(vec![Doc::text(word), self.block(body)]),
            Item::Entry(key, sign, value) => {
                Doc::concat(vec![self.word(key.span), Doc::text(sign), self.expr(value)])
            }
            Item::Text(span) => {
                self.comments.skip_to(span.end);
                Doc::text(self.slice(*span))
            }
            Item::Variant(variant) => self.variant(variant),
            Item::Field(field) => {
                let limits = self.limits(field.note.as_deref(), field.name.span.start);
                let mut parts = vec![limits, self.word(field.name.span)];
                if field.optional {
                    parts.push(Doc::text("?"));
                }
                if let Some(ty) = &field.ty {
                    parts.push(Doc::text(": "));
                    parts.push(self.ty(ty));
                }
                Doc::concat(parts)
            }
            Item::Assoc(assoc) => {
                let mut parts = vec![Doc::text("type "), self.word(assoc.name.span)];
                if let Some(ty) = &assoc.default {
                    parts.push(Doc::text(" = "));
                    parts.push(self.ty(ty));
                }
                Doc::concat(parts)
            }
            Item::Signature(sig) => self.signature(sig),
            Item::Method(method) => {
                let public = if method.is_pub { "pub " } else { "" };
                Doc::concat(vec![Doc::text(public), self.fn_decl(&method.decl)])
            }
        }
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) -> Doc<'s> {
        match &stmt.kind {
            StmtKind::Let { mutable, pattern, ty, value } => {
                let word = if *mutable { "var " } else { "let " };
                let mut parts = vec![Doc::text(word), self.pattern(pattern)];
                if let Some(ty) = ty {
                    parts.push(Doc::text(": "));
                    parts.push(self.ty(ty));
                }
                parts.push(Doc::text(" = "));
                parts.push(self.expr(value));
                Doc::concat(parts)
            }
            StmtKind::Assign { target, op, value, .. } => {
                let target = self.target(target);
                let sign = op.map_or(" = ".to_owned(), |op| format!(" {}= ", op.symbol()));
                Doc::concat(vec![target, Doc::owned(sign), self.expr(value)])
            }
            StmtKind::For { pattern, iter, body } => {
                let head = vec![Doc::text("for "), self.pattern(pattern), Doc::text(" in ")];
                let (iter, body) = (self.expr(iter), self.block(body));
                Doc::concat(head.into_iter().chain([iter, Doc::text(" "), body]).collect())
            }
            StmtKind::While { cond, body } => self.with_block("while ", cond, " ", body),
            StmtKind::Guard { cond, body } => self.with_block("guard ", cond, " else ", body),
            StmtKind::Require { cond, message } => {
                let mut parts = vec![Doc::text("require "), self.expr(cond)];
                if let Some(message) = message {
                    parts.push(Doc::text(", "));
                    parts.push(self.expr(message));
                }
                Doc::concat(parts)
            }
            StmtKind::Return(value) => self.with_value("return", value.as_ref()),
            StmtKind::Yield(value) => self.with_value("yield", value.as_ref()),
            StmtKind::Throw(value) => self.with_value("throw", Some(value)),
            StmtKind::Emit(value) => self.with_value("emit", Some(value)),
            StmtKind::Break => Doc::text("break"),
            StmtKind::Continue => Doc::text("continue"),
            StmtKind::Defer(block) => Doc::concat(vec![Doc::text("defer "), self.block(block)]),
            StmtKind::Mutex(block) => Doc::concat(vec![Doc::text("mutex "), self.block(block)]),
            StmtKind::Override { name, func } => {
                let head = vec![Doc::text("override "), self.word(name.span)];
                let params = self.params(&func.params, name.span.end);
                let body = self.block(&func.body);
                Doc::concat(head.into_iter().chain([params, Doc::text(" "), body]).collect())
            }
            StmtKind::Decl(decl) => self.decl(decl),
            StmtKind::Import(import) => self.import(import),
            StmtKind::Expr(value) => self.expr(value),
        }
    }

    fn with_block(
        &mut self,
        word: &'static str,
        cond: &Expr,
        between: &'static str,
        body: &Block,
    ) -> Doc<'s> {
        Doc::concat(vec![Doc::text(word), self.expr(cond), Doc::text(between), self.block(body)])
    }

    fn with_value(&mut self, word: &'static str, value: Option<&Expr>) -> Doc<'s> {
        match value {
            Some(value) => Doc::concat(vec![Doc::text(word), Doc::text(" "), self.expr(value)]),
            None => Doc::text(word),
        }
    }

    fn target(&mut self, target: &Target) -> Doc<'s> {
        let mut parts = vec![self.word(target.root.span)];
        for step in &target.path {
            match step {
                TargetStep::Member(name) => {
                    parts.push(Doc::text("."));
                    parts.push(self.word(name.span));
                }
                TargetStep::Index { index, .. } => {
                    parts.push(Doc::text("["));
                    parts.push(self.expr(index));
                    parts.push(Doc::text("]"));
                }
            }
        }
        Doc::concat(parts)
    }

    fn arm(&mut self, arm: &MatchArm) -> Doc<'s> {
        let mut parts = Vec::new();
        for (at, pattern) in arm.patterns.iter().enumerate() {
            if at > 0 {
                parts.push(Doc::text(" | "));
            }
            parts.push(self.match_pattern(pattern));
        }
        if let Some(guard) = &arm.guard {
            parts.push(Doc::text(" if "));
            parts.push(self.expr(guard));
        }
        parts.push(Doc::text(" -> "));
        let body = &arm.body;
        let from = arm.patterns.last().map_or(body.span.start, |pattern| pattern.span.end);
        let from = from.max(self.comments.last_end());
        let commented = self.comments.any_between(from, body.span.end);
        let simple = matches!(body.stmts.as_slice(), [only] if is_simple(only));
        if simple && !commented {
            parts.push(self.body(Doc::text("{"), &body.stmts, body.span.start + 1, body.span.end, false));
        } else {
            parts.push(self.block(body));
        }
        Doc::concat(parts)
    }

    fn match_pattern(&mut self, pattern: &MatchPattern) -> Doc<'s> {
        let before = self.comments.inline(pattern.span.start);
        let doc = match &pattern.kind {
            MatchPatternKind::Wildcard | MatchPatternKind::Bind(_) => Doc::text(self.slice(pattern.span)),
            MatchPatternKind::Value(value) => self.expr(value),
            MatchPatternKind::Dict { entries, rest } => {
                let parts = entries.iter().map(|(key, inner)| Part::Entry(key, inner));
                self.parts(("{", "}"), parts.collect(), rest.as_ref(), pattern.span.end)
            }
            MatchPatternKind::List { items, rest } => {
                let parts = items.iter().map(Part::Inner).collect();
                self.parts(("[", "]"), parts, rest.as_ref(), pattern.span.end)
            }
            MatchPatternKind::Variant { enum_name, variant, fields } => {
                let mut parts = Vec::new();
                // `Ok(x)` stands for `Result.Ok(x)`.
                if enum_name.span != variant.span {
                    parts.push(self.word(enum_name.span));
                    parts.push(Doc::text("."));
                }
                parts.push(self.word(variant.span));
                if let Some(fields) = fields {
                    let fields = fields.iter().map(Part::Inner).collect();
                    parts.push(self.parts(("(", ")"), fields, None, pattern.span.end));
                }
                Doc::concat(parts)
            }
        };
        Doc::concat(vec![before, doc, self.comments.behind(pattern.span.end)])
    }

    /// Lays out the parts of a pattern; `end` is the offset after the closing bracket.
    fn parts<'a>(
        &mut self,
        brackets: (&'static str, &'static str),
        mut parts: Vec<Part<'a>>,
        rest: Option<&'a Ident>,
        end: u32,
    ) -> Doc<'s> {
        parts.extend(rest.map(Part::Rest));
        let row = self.inside(&parts, end, Self::part, Part::start).row(brackets);
        Doc::concat(vec![row, self.comments.behind(end)])
    }

    /// A part of a pattern, and its end.
    fn part(&mut self, part: &Part<'_>) -> (u32, Doc<'s>) {
        match part {
            Part::Inner(pattern) => (pattern.span.end, self.match_pattern(pattern)),
            Part::Entry(key, pattern) => {
                let parts = vec![self.key(key), Doc::text(": "), self.match_pattern(pattern)];
                (pattern.span.end, Doc::concat(parts))
            }
            Part::Field(field) => {
                let mut parts = vec![self.word(field.key.span)];
                if field.key.span != field.name.span {
                    parts.extend([Doc::text(": "), self.word(field.name.span)]);
                }
                parts.push(self.default(field.default.as_ref()));
                let end = field.default.as_ref().map_or(field.name.span.end, |value| value.span.end);
                (end, Doc::concat(parts))
            }
            Part::Elem(elem) => {
                let parts = vec![self.word(elem.name.span), self.default(elem.default.as_ref())];
                let end = elem.default.as_ref().map_or(elem.name.span.end, |value| value.span.end);
                (end, Doc::concat(parts))
            }
            Part::Rest(name) => (name.span.end, Doc::concat(vec![Doc::text("..."), self.word(name.span)])),
        }
    }

    pub(crate) fn pattern(&mut self, pattern: &Pattern) -> Doc<'s> {
        match &pattern.kind {
            PatternKind::Name(name) => self.word(name.span),
            PatternKind::Pair(first, second) => {
                let (first, second) = (self.word(first.span), self.word(second.span));
                Doc::concat(vec![Doc::text("("), first, Doc::text(", "), second, Doc::text(")")])
            }
            PatternKind::Dict { fields, rest } => {
                let parts = fields.iter().map(Part::Field).collect();
                self.parts(("{", "}"), parts, rest.as_ref(), pattern.span.end)
            }
            PatternKind::List { elems, rest } => {
                let parts = elems.iter().map(Part::Elem).collect();
                self.parts(("[", "]"), parts, rest.as_ref(), pattern.span.end)
            }
        }
    }

    fn default(&mut self, default: Option<&Expr>) -> Doc<'s> {
        match default {
            Some(value) => Doc::concat(vec![Doc::text(" = "), self.expr(value)]),
            None => Doc::nil(),
        }
    }
}
