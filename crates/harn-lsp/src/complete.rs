//! Completion of names, members, keys of options and structs, and imports.

use std::rc::Rc;

use harn_front::{SymbolId, SymbolKind};
use harn_syntax::Span;
use harn_syntax::ast::{Arg, DictItem, Expr, ExprKind, Import};
use harn_syntax::token::{Token, TokenKind};
use harn_syntax::visit::{self, Visitor};
use harn_system::{System, SystemExt};
use lsp_types::{CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, TextEdit};
use lsp_types::{MarkupContent, MarkupKind};
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::document::Document;
use crate::hover;
use crate::meaning;
use crate::text::word_start;
use crate::workspace::Workspace;

/// Returns the completions at an offset. Each replaces the identifier before it.
pub(crate) fn complete(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
) -> Vec<CompletionItem> {
    let mut list = List {
        workspace,
        document,
        replaced: Span::new(word_start(&document.text, offset), offset),
        items: Vec::new(),
        seen: FxHashSet::default(),
    };
    if document.in_comment(offset) {
        return Vec::new();
    }
    if let Some(text) = string_at(document, offset) {
        list.in_string(text, offset);
    } else if let Some(import) = import_list(document, offset) {
        list.imported(import);
    } else if let Some(object) = object_before(document, list.replaced.start) {
        list.members(object);
    } else if list.keys(offset) {
        // Only keys of a struct or of options.
    } else {
        list.names(offset);
    }
    list.items
}

/// Returns the completions in an import, or for a key of a struct or of options, with the start of the identifier;
/// `None` at other positions.
pub(crate) fn special(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
) -> Option<(usize, Vec<String>)> {
    let replaced = Span::new(word_start(&document.text, offset), offset);
    let mut list = List { workspace, document, replaced, items: Vec::new(), seen: FxHashSet::default() };
    if document.in_comment(offset) {
        return None;
    }
    if let Some(text) = string_at(document, offset) {
        list.in_string(text, offset);
    } else if let Some(import) = import_list(document, offset) {
        list.imported(import);
    } else if object_before(document, list.replaced.start).is_some() || !list.keys(offset) {
        return None;
    }
    let typed = &document.text[list.replaced.start as usize..offset as usize];
    let mut labels: Vec<String> = list.items.into_iter().map(|item| item.label).collect();
    labels.retain(|label| label.starts_with(typed));
    labels.sort();
    (!labels.is_empty()).then_some((list.replaced.start as usize, labels))
}

/// Returns the span of the string around an offset, without its quotes. Interpolations are not part of a string.
fn string_at(document: &Document, offset: u32) -> Option<Span> {
    let tokens = &document.parsed().tokens;
    let at = tokens.partition_point(|token| token.span.start < offset);
    let token = tokens[..at].last()?;
    let inside = match token.kind {
        TokenKind::Str | TokenKind::RawStr => {
            offset < token.span.end || !is_closed(document.slice(token.span))
        }
        TokenKind::StrText | TokenKind::StrStart => {
            offset <= token.span.end
                && tokens
                    .get(at)
                    .is_none_or(|next| next.kind != TokenKind::InterpStart || next.span.start >= offset)
        }
        _ => unclosed(document, token.span.end, offset),
    };
    inside.then_some(token.span)
}

fn is_closed(text: &str) -> bool {
    text.len() >= 2 && text.ends_with('"')
}

/// Returns whether a quote was opened on the line after the last token: an unclosed string is not a token.
fn unclosed(document: &Document, from: u32, offset: u32) -> bool {
    let from = from.max(document.lines.start(document.lines.line(offset), &document.text));
    let between = document.text.get(from as usize..offset as usize).unwrap_or("");
    between.matches('"').count() % 2 == 1
}

/// Returns the import whose braces contain an offset.
fn import_list(document: &Document, offset: u32) -> Option<&Import> {
    let imports = document.parsed().program.imports();
    let mut around = imports.filter(|import| import.span.start < offset && offset <= import.path_span.start);
    around.find(|import| {
        let text = document.slice(Span::new(import.span.start, offset));
        import.names.is_some() && text.contains('{') && !text.contains('}')
    })
}

/// Returns the span of the object before the dot that precedes an offset.
fn object_before(document: &Document, start: u32) -> Option<Span> {
    let head = document.text[..start as usize].trim_end();
    let dot = head.strip_suffix('.').filter(|rest| !rest.ends_with('.'))?;
    let dot = dot.strip_suffix('?').unwrap_or(dot);
    // `1.` is a number, and a dot at the end of a line continues on the next line only.
    let members = &document.names().members;
    let end = dot.trim_end().len() as u32;
    let found = members.iter().find(|used| used.object.end == end && used.span.start <= start + 1);
    found.map(|used| used.object).or_else(|| {
        let begin = word_start(&document.text, end);
        let word = document.slice(Span::new(begin, end));
        word.starts_with(|c: char| c.is_alphabetic() || c == '_').then(|| Span::new(begin, end))
    })
}

struct List<'a> {
    workspace: &'a Workspace<'a>,
    document: &'a Rc<Document>,
    replaced: Span,
    items: Vec<CompletionItem>,
    seen: FxHashSet<String>,
}

impl List<'_> {
    fn add(&mut self, label: &str, kind: CompletionItemKind, detail: Option<String>, rank: u8) {
        self.add_with(label, kind, detail, None, rank);
    }

    fn add_with(
        &mut self,
        label: &str,
        kind: CompletionItemKind,
        detail: Option<String>,
        doc: Option<String>,
        rank: u8,
    ) {
        if label.is_empty() || !self.seen.insert(label.to_owned()) {
            return;
        }
        let edit = TextEdit::new(self.document.range(self.replaced), label.to_owned());
        self.items.push(CompletionItem {
            label: label.to_owned(),
            kind: Some(kind),
            detail,
            documentation: doc.filter(|doc| !doc.is_empty()).map(|value| {
                Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
            }),
            sort_text: Some(format!("{rank}{label}")),
            text_edit: Some(CompletionTextEdit::Edit(edit)),
            ..CompletionItem::default()
        });
    }

    /// Adds a builtin or a method; its signature and documentation are resolved on demand.
    fn add_known(&mut self, label: &str, kind: CompletionItemKind, full: &str, rank: u8) {
        let before = self.items.len();
        self.add(label, kind, None, rank);
        if let Some(item) = self.items.get_mut(before) {
            item.data = Some(Value::String(full.to_owned()));
        }
    }

    fn symbol(&mut self, file: &Document, id: SymbolId, rank: u8) {
        let symbol = &file.names().symbols[id];
        let head = match symbol.kind {
            SymbolKind::Let | SymbolKind::Var => None,
            _ => Some(hover::head(self.workspace, file, id)),
        };
        let doc = if symbol.kind.is_declaration() {
            file.comments_above(symbol.whole.start)
        } else {
            String::new()
        };
        self.add_with(&symbol.name, kind_of(symbol.kind), head, Some(doc), rank);
    }

    fn names(&mut self, offset: u32) {
        let document = self.document.clone();
        for id in document.names().visible(offset) {
            let (file, id) = meaning::declared(self.workspace, &document, id);
            self.symbol(&file, id, 1);
        }
        for import in document.parsed().program.imports().filter(|import| import.names.is_none()) {
            let Some(target) = self.workspace.target(&import.path, document.dir()) else { continue };
            for (file, id) in meaning::exports(self.workspace, &target) {
                self.symbol(&file, id, 2);
            }
        }
        // Documentation is resolved when an item is selected, because there are many builtins.
        for name in self.workspace.builtin_names() {
            let (name, kind) = match name.split_once('.') {
                Some((space, _)) => (space, CompletionItemKind::MODULE),
                None => (name.as_str(), CompletionItemKind::FUNCTION),
            };
            self.add_known(name, kind, name, 3);
        }
        for word in self.workspace.host.keywords() {
            self.add_with(&word.name, CompletionItemKind::KEYWORD, Some(word.form), Some(word.doc), 4);
        }
    }

    fn members(&mut self, object: Span) {
        let document = self.document.clone();
        let space = document.slice(object).to_owned();
        // The variants of an enum.
        if let Some((file, owner)) = meaning::type_named(self.workspace, &document, &space) {
            let own: Vec<SymbolId> = (0..file.names().symbols.len())
                .filter(|id| file.names().symbols[*id].owner == Some(owner))
                .filter(|id| file.names().symbols[*id].kind == SymbolKind::Variant)
                .collect();
            own.into_iter().for_each(|id| self.symbol(&file, id, 1));
        }
        let prefix = format!("{space}.");
        for name in self.workspace.builtin_names() {
            if let Some(short) = name.strip_prefix(&prefix) {
                self.add_known(short, CompletionItemKind::FUNCTION, name, 1);
            }
        }
        let ty = meaning::type_of(self.workspace, &document, object).cloned();
        if let Some(ty) = &ty {
            if let Some(of) = &ty.name
                && let Some((file, owner)) = meaning::type_named(self.workspace, &document, of)
            {
                let own: Vec<SymbolId> = (0..file.names().symbols.len())
                    .filter(|id| file.names().symbols[*id].owner == Some(owner))
                    .collect();
                own.into_iter().for_each(|id| self.symbol(&file, id, 1));
            }
            for field in &ty.fields {
                self.add(&field.name, CompletionItemKind::FIELD, Some(field.text.clone()), 1);
            }
        }
        if !self.items.is_empty() && ty.as_ref().is_none_or(|ty| ty.word.is_none()) {
            return;
        }
        for (type_name, methods) in self.workspace.host.methods() {
            if ty.as_ref().and_then(|ty| ty.word).is_some_and(|word| word != type_name && type_name != "any")
            {
                continue;
            }
            for name in methods {
                self.add_known(&name, CompletionItemKind::METHOD, &format!("{type_name}:{name}"), 2);
            }
        }
    }

    fn imported(&mut self, import: &Import) {
        let Some(target) = self.workspace.target(&import.path, self.document.dir()) else { return };
        let listed: Vec<&str> = import.names.iter().flatten().map(|name| name.name.as_str()).collect();
        for (file, id) in meaning::exports(self.workspace, &target) {
            let name = file.names().symbols[id].name.clone();
            if !listed.contains(&name.as_str()) || self.document.slice(self.replaced) == name {
                self.symbol(&file, id, 1);
            }
        }
    }

    /// Completes the path of an import, in a string.
    fn in_string(&mut self, string: Span, offset: u32) {
        let document = self.document.clone();
        let line = document.lines.start(document.lines.line(offset), &document.text);
        let head = &document.text[line as usize..offset as usize];
        let Some((before, typed)) = head.rsplit_once('"') else { return };
        let before = before.trim();
        let is_import = (before.starts_with("import") || before.starts_with("pub import"))
            && (before.ends_with("import") || before.ends_with("from"));
        if !is_import || string.end < line {
            return;
        }
        self.replaced = Span::new(offset - typed.len() as u32, offset);
        if !typed.starts_with('.') {
            for name in self.workspace.host.modules() {
                self.add(&name, CompletionItemKind::MODULE, Some("embedded module".to_owned()), 2);
            }
        }
        let (folder, _) = typed.rsplit_once('/').map_or(("", typed), |(folder, name)| (folder, name));
        let lead = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let system = &self.workspace.overlay;
        let at = document.dir().join(folder);
        for name in system.names(&at).unwrap_or_default() {
            let path = at.join(&name);
            let shown = name.to_string_lossy().into_owned();
            if shown.starts_with('.') || path == document.path {
                continue;
            }
            if let Some(stem) = shown.strip_suffix(".harn") {
                self.add(&format!("{lead}{stem}"), CompletionItemKind::FILE, None, 1);
            } else if system.is_dir(&path) && !matches!(&*shown, "target" | "node_modules") {
                self.add(&format!("{lead}{shown}/"), CompletionItemKind::FOLDER, None, 1);
            }
        }
    }

    /// Completes keys of the literal around an offset, if it is at a key: fields of a struct, options of a call.
    /// Returns whether it is.
    fn keys(&mut self, offset: u32) -> bool {
        let document = self.document.clone();
        if !at_key(&document, self.replaced.start) {
            return false;
        }
        let mut finder = Literals { offset, text: &document.text, found: None };
        finder.stmts(&document.parsed().program.items);
        match finder.found {
            Some(Literal::Struct { name, given }) => {
                let Some((file, owner)) = meaning::type_named(self.workspace, &document, &name) else {
                    return false;
                };
                let fields: Vec<SymbolId> = (0..file.names().symbols.len())
                    .filter(|id| {
                        let symbol = &file.names().symbols[*id];
                        symbol.owner == Some(owner) && symbol.kind == SymbolKind::Field
                    })
                    .collect();
                for id in fields {
                    if !given.contains(&file.names().symbols[id].name.to_string()) {
                        self.symbol(&file, id, 1);
                    }
                }
                true
            }
            Some(Literal::Options { callee, param, given }) => {
                let options = self.workspace.host.options(&callee, param);
                let is_known = !options.is_empty();
                for option in options.into_iter().filter(|option| !given.contains(&option.name)) {
                    let detail = match option.ty {
                        Some(ty) => format!("{ty}, option of {callee}"),
                        None => format!("option of {callee}"),
                    };
                    let doc = Some(option.doc);
                    self.add_with(&option.name, CompletionItemKind::PROPERTY, Some(detail), doc, 1);
                }
                is_known
            }
            None => false,
        }
    }
}

/// Returns whether the identifier that begins at an offset is a key: it follows `{` or `,`.
fn at_key(document: &Document, start: u32) -> bool {
    let tokens: &[Token] = &document.parsed().tokens;
    let at = tokens.partition_point(|token| token.span.start < start);
    let before = tokens[..at].iter().rev().find(|token| token.kind != TokenKind::Newline);
    before.is_some_and(|before| before.kind == TokenKind::Comma || before.kind.is_lbrace())
}

/// The literal around an offset.
enum Literal {
    Struct { name: String, given: Vec<String> },
    Options { callee: String, param: usize, given: Vec<String> },
}

struct Literals<'t> {
    offset: u32,
    text: &'t str,
    found: Option<Literal>,
}

impl Literals<'_> {
    /// Returns whether the offset is between the braces of a literal, which may lack the closing one.
    fn around(&self, span: Span) -> bool {
        let text = span.slice(self.text);
        span.start < self.offset
            && (self.offset < span.end || !text.ends_with('}'))
            && self.text[span.start as usize..self.offset as usize].contains('{')
    }

    fn given(&self, items: &[DictItem]) -> Vec<String> {
        let key = |item: &DictItem| match item {
            // The incomplete key is offered again.
            DictItem::Entry { key, .. } if self.offset <= key.span.start || key.span.end < self.offset => {
                Some(key.name.to_string())
            }
            _ => None,
        };
        items.iter().filter_map(key).collect()
    }

    fn options(&mut self, callee: &str, args: &[Arg]) {
        for (param, arg) in args.iter().enumerate() {
            match &arg.value.kind {
                ExprKind::Dict(items) if self.around(arg.value.span) => {
                    let given = self.given(items);
                    self.found = Some(Literal::Options { callee: callee.to_owned(), param, given });
                }
                // An empty pair of braces may be read as a closure or block.
                ExprKind::Closure { func, .. }
                    if func.body.stmts.is_empty() && self.around(arg.value.span) =>
                {
                    self.found =
                        Some(Literal::Options { callee: callee.to_owned(), param, given: Vec::new() });
                }
                _ => {}
            }
        }
    }
}

impl<'a> Visitor<'a> for Literals<'_> {
    fn expr(&mut self, expr: &'a Expr) {
        let outer = expr.span.start > self.offset;
        if outer {
            return;
        }
        match &expr.kind {
            ExprKind::StructLit { name, items } if self.around(expr.span) => {
                self.found = Some(Literal::Struct { name: name.name.to_string(), given: self.given(items) });
            }
            ExprKind::Dict(_) if self.around(expr.span) => self.found = None,
            ExprKind::Call { callee, args, .. } => {
                visit::walk_expr(self, expr);
                if let ExprKind::Name(name) = &callee.kind
                    && self.found.is_none()
                {
                    self.options(name, args);
                }
                return;
            }
            ExprKind::MethodCall { object, name, args, .. } => {
                visit::walk_expr(self, expr);
                if self.found.is_none() {
                    let callee = format!("{}.{}", object.span.slice(self.text), name.name);
                    self.options(&callee, args);
                }
                return;
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}

/// Adds signature and documentation to an item.
pub(crate) fn resolve(workspace: &Workspace<'_>, mut item: CompletionItem) -> CompletionItem {
    let word = match item.data.as_ref().and_then(Value::as_str).map(|full| full.split_once(':').ok_or(full)) {
        Some(Ok((type_name, name))) => workspace.host.method(type_name, name),
        Some(Err(name)) => workspace.host.builtin(name),
        None => None,
    };
    if let Some(word) = word {
        item.detail = Some(word.form);
        item.documentation =
            Some(Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value: word.doc }));
    }
    item
}

pub(crate) fn kind_of(kind: SymbolKind) -> CompletionItemKind {
    match kind {
        SymbolKind::Function | SymbolKind::Pipeline | SymbolKind::Tool => CompletionItemKind::FUNCTION,
        SymbolKind::Skill | SymbolKind::EvalPack => CompletionItemKind::CONSTANT,
        SymbolKind::Enum => CompletionItemKind::ENUM,
        SymbolKind::Variant => CompletionItemKind::ENUM_MEMBER,
        SymbolKind::Struct => CompletionItemKind::STRUCT,
        SymbolKind::Field => CompletionItemKind::FIELD,
        SymbolKind::Method => CompletionItemKind::METHOD,
        SymbolKind::Type => CompletionItemKind::CLASS,
        SymbolKind::Interface => CompletionItemKind::INTERFACE,
        SymbolKind::TypeParam => CompletionItemKind::TYPE_PARAMETER,
        SymbolKind::Let | SymbolKind::Var | SymbolKind::Param => CompletionItemKind::VARIABLE,
        SymbolKind::Import => CompletionItemKind::REFERENCE,
    }
}
