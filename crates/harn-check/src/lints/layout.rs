//! Layout and documentation of a file. `harn fmt` fixes most findings.

use harn_syntax::ast::*;
use harn_syntax::token::{Comment, CommentKind};
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use crate::codes::{BLANK_LINE, FILE_HEADER, IMPORT_ORDER, LEGACY_DOC, NO_DOC, TRAILING_COMMA};

/// The rules that `harn fmt` enforces.
pub const LAYOUT_RULES: [&str; 3] = [BLANK_LINE, IMPORT_ORDER, TRAILING_COMMA];

/// Runs the rules of this file; `header` is the name of the file where it must say what it is for.
pub(super) fn run(text: &str, tree: &Program, header: Option<&str>) -> Vec<Diagnostic> {
    let mut rules = Rules { text, comments: &tree.comments, out: Vec::new() };
    if let Some(name) = header {
        rules.header(tree, name);
    }
    rules.import_order(tree);
    tree.items.windows(2).for_each(|pair| rules.apart(&pair[0], &pair[1]));
    for item in &tree.items {
        if let StmtKind::Decl(decl) = &item.kind {
            rules.doc(item, decl);
        }
    }
    rules.stmts(&tree.items);
    rules.out
}

struct Rules<'a> {
    text: &'a str,
    comments: &'a [Comment],
    out: Vec<Diagnostic>,
}

impl<'a> Rules<'a> {
    fn report(&mut self, rule: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
        self.out.push(found);
        let last = self.out.len() - 1;
        &mut self.out[last]
    }

    fn fix(found: &mut Diagnostic, title: &str, at: Span, new: String) {
        *found = found.clone().with_fix(title, vec![(at, new)]);
    }

    /// The comments between two places.
    fn between(&self, start: u32, end: u32) -> &'a [Comment] {
        let first = self.comments.partition_point(|comment| comment.span.start < start);
        let count = self.comments[first..].partition_point(|comment| comment.span.start < end);
        &self.comments[first..first + count]
    }

    /// Returns the source between two offsets without comments.
    fn bare(&self, start: u32, end: u32) -> String {
        let mut out = String::new();
        let mut from = start;
        for comment in self.between(start, end) {
            out.push_str(&self.text[from as usize..comment.span.start as usize]);
            from = comment.span.end;
        }
        out + &self.text[from.min(end) as usize..end as usize]
    }

    /// Requires a description at the head of a file: a separate doc comment, or lines of `//!`.
    fn header(&mut self, tree: &Program, name: &str) {
        let start = tree.shebang.map_or(0, |line| line.end);
        let first = self
            .comments
            .first()
            .filter(|comment| self.text[start as usize..comment.span.start as usize].trim().is_empty());
        let is_header = first.is_some_and(|comment| {
            let behind = &self.text[comment.span.end as usize..];
            let blank = behind.len() - behind.trim_start().len();
            // A comment directly above a declaration belongs to it.
            let is_own = behind[..blank].matches('\n').count() > 1
                || blank == behind.len()
                || tree.items.first().is_none_or(|item| !matches!(item.kind, StmtKind::Decl(_)));
            match comment.kind {
                CommentKind::DocBlock => is_own,
                _ => comment.span.slice(self.text).starts_with("//!"),
            }
        });
        if is_header {
            return;
        }
        let mut words = name.trim_end_matches(".harn").replace(['_', '-'], " ");
        if let Some(first) = words.get(..1).map(str::to_uppercase) {
            words.replace_range(..1, &first);
        }
        let line_start = tree.shebang.map_or(0, |line| {
            let rest = &self.text[line.end as usize..];
            line.end + u32::from(rest.starts_with('\n'))
        });
        let at = Span::new(line_start, line_start);
        let found = self.report(FILE_HEADER, at, "file is missing a `/** */` header doc block");
        found.help = Some("say in its first lines what the file is for".to_owned());
        Self::fix(found, "write one", at, format!("/** {words}. */\n\n"));
    }

    /// Reports imports, and names in one, that are not in the order of the formatter. With comments between them,
    /// their order may be meaningful.
    fn import_order(&mut self, tree: &Program) {
        let leading = tree.items.iter().map_while(|item| match &item.kind {
            StmtKind::Import(import) => Some(&**import),
            _ => None,
        });
        let imports: Vec<&Import> = leading.collect();
        let (Some(first), Some(last)) = (imports.first(), imports.last()) else { return };
        let block = Span::new(first.span.start, last.span.end);
        if imports.is_sorted_by_key(|import| import.sort_key())
            || !self.between(block.start, block.end).is_empty()
        {
            return tree.imports().for_each(|import| self.name_order(import));
        }
        let mut sorted = imports.clone();
        sorted.sort_by_key(|import| import.sort_key());
        let in_order = |import: &&Import| {
            let text = self.with_sorted_names(import);
            text.unwrap_or_else(|| import.span.slice(self.text).to_owned())
        };
        let lines: Vec<String> = sorted.iter().map(in_order).collect();
        let place = imports.iter().zip(&sorted).find(|(is, should)| is != should);
        let place = place.map_or(first.span, |(import, _)| import.span);
        let found = self.report(IMPORT_ORDER, place, "imports are not in their usual order");
        found.help =
            Some("modules of `std/` come first, then paths, each in the order of the alphabet".to_owned());
        Self::fix(found, "sort them", block, lines.join("\n"));
    }

    fn name_order(&mut self, import: &Import) {
        let Some(text) = self.with_sorted_names(import) else { return };
        let found = self.report(IMPORT_ORDER, import.span, "imported names are not in their usual order");
        found.help = Some("they stand in the order of the alphabet".to_owned());
        Self::fix(found, "sort them", import.span, text);
    }

    /// Returns an import with sorted names, if they are not sorted.
    fn with_sorted_names(&self, import: &Import) -> Option<String> {
        let names = import.names.as_ref().filter(|names| !names.is_sorted_by_key(|name| &name.name))?;
        if !self.between(import.span.start, import.span.end).is_empty() {
            return None;
        }
        let mut sorted: Vec<&Ident> = names.iter().collect();
        sorted.sort_by_key(|name| &name.name);
        let mut out = String::new();
        let mut from = import.span.start;
        for (place, name) in names.iter().zip(sorted) {
            out.push_str(&self.text[from as usize..place.span.start as usize]);
            out.push_str(name.span.slice(self.text));
            from = place.span.end;
        }
        Some(out + &self.text[from as usize..import.span.end as usize])
    }

    /// Checks two items that an empty line should separate.
    fn apart(&mut self, before: &Stmt, item: &Stmt) {
        let is_import = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Import(_));
        let wanted = before.stands_apart() || item.stands_apart() || (is_import(before) && !is_import(item));
        let gap = &self.text[before.span.end as usize..item.span.start as usize];
        if !wanted || has_empty_line(gap) {
            return;
        }
        let line = item.span.slice(self.text).lines().next().unwrap_or_default().trim_end();
        let span = Span::new(item.span.start, item.span.start + line.len() as u32);
        let found = self.report(BLANK_LINE, span, "top-level items should be separated by a blank line");
        if let Some(feed) = gap.find('\n') {
            let at = before.span.end + feed as u32 + 1;
            Self::fix(found, "insert one", Span::new(at, at), "\n".to_owned());
        }
    }

    /// Checks the comment above a declaration: a public function requires a doc comment.
    fn doc(&mut self, item: &Stmt, decl: &Decl) {
        let above = self.comments.partition_point(|comment| comment.span.end <= item.span.start);
        let mut end = item.span.start;
        let mut lines = 0;
        let mut kind = None;
        for comment in self.comments[..above].iter().rev() {
            let line = &self.text[..comment.span.start as usize];
            let own_line = line.rsplit('\n').next().is_none_or(|head| head.trim().is_empty());
            let gap = &self.text[comment.span.end as usize..end as usize];
            let is_next = gap.trim().is_empty() && gap.matches('\n').count() == 1;
            if !own_line || !is_next || kind.is_some_and(|kind| kind != comment.kind) {
                break;
            }
            kind = Some(comment.kind);
            end = comment.span.start;
            lines += 1;
            if matches!(comment.kind, CommentKind::Block | CommentKind::DocBlock) {
                break;
            }
        }
        let name = decl.kind.name();
        match kind {
            // Lines with `//` above private declarations are remarks.
            Some(CommentKind::DocLine) if self.legacy(&self.comments[above - lines..above]) => {}
            Some(CommentKind::Line) if decl.is_pub && self.legacy(&self.comments[above - lines..above]) => {}
            Some(CommentKind::DocBlock) => {}
            _ if decl.is_pub && matches!(decl.kind, DeclKind::Fn(_)) => {
                let message = format!("public function `{}` is missing a `/** */` doc comment", name.name);
                self.report(NO_DOC, name.span, message).help =
                    Some("describe it in a `/** */` comment above; editors show it".to_owned());
            }
            _ => {}
        }
    }

    /// Checks line comments in the place of a doc comment; returns whether they are intended as one.
    fn legacy(&mut self, lines: &[Comment]) -> bool {
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return false };
        let bodies: Vec<&str> =
            lines.iter().map(|line| line.span.slice(self.text).trim_start_matches('/').trim()).collect();
        // Directives, comments about the file, and lines of dashes are not documentation.
        let is_other = |body: &&str| {
            body.starts_with('!')
                || body.starts_with("harn-lint:")
                || body.starts_with("----")
                || body.contains("*/")
        };
        if bodies.iter().any(is_other) {
            return false;
        }
        let new = match bodies.as_slice() {
            [one] => format!("/** {one} */"),
            many => {
                let lines = many.iter().map(|line| format!(" * {line}").trim_end().to_owned() + "\n");
                format!("/**\n{} */", lines.collect::<String>())
            }
        };
        let span = Span::new(first.span.start, last.span.end);
        let found = self.report(LEGACY_DOC, first.span, "a doc comment is written `/** */`");
        found.help = Some("where it is a remark, leave an empty line below it".to_owned());
        Self::fix(found, "write it so", span, new);
        true
    }

    /// Checks the trailing comma of a list over several lines.
    fn comma(&mut self, last: Option<u32>, whole: Span) {
        let Some(last) = last else { return };
        let close = whole.end - 1;
        if last >= close || !self.text[last as usize..close as usize].contains('\n') {
            return;
        }
        let bracket = self.text.as_bytes().get(close as usize).copied();
        if !matches!(bracket, Some(b')' | b']' | b'}')) || !self.bare(last, close).trim().is_empty() {
            return;
        }
        let at = Span::new(last, last);
        let found = self.report(TRAILING_COMMA, Span::new(last - 1, last), "the last item has no comma");
        Self::fix(found, "write one", at, ",".to_owned());
    }
}

/// Returns whether a line between the first and the last one is empty.
fn has_empty_line(gap: &str) -> bool {
    let lines: Vec<&str> = gap.split('\n').collect();
    lines.len() > 2 && lines[1..lines.len() - 1].iter().any(|line| line.trim().is_empty())
}

impl<'a> Visitor<'a> for Rules<'a> {
    fn expr(&mut self, expr: &'a Expr) {
        let last = match &expr.kind {
            ExprKind::List(args) | ExprKind::Call { args, .. } | ExprKind::MethodCall { args, .. } => {
                args.last().map(|arg| arg.value.span.end)
            }
            ExprKind::Dict(items) | ExprKind::StructLit { items, .. } => {
                items.last().map(|item| match item {
                    DictItem::Entry { value, .. } | DictItem::Computed { value, .. } => value.span.end,
                    DictItem::Spread(value) => value.span.end,
                })
            }
            _ => None,
        };
        self.comma(last, expr.span);
        visit::walk_expr(self, expr);
    }
}
