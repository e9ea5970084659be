//! Rename, across the files of the workspace.
//!
//! A rename is rejected if it may change the meaning of a name: the names of the changed files are resolved before and
//! after, and the files that the rename can affect are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_front::{NameChanges, SymbolId, SymbolKind, Target as ImportTarget};
use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::token::TokenKind;
use harn_syntax::visit::{self, Visitor};
use lsp_types::{TextEdit, Uri, WorkspaceEdit};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::document::Document;
use crate::meaning::{self, Meaning};
use crate::navigate::{is_place, mentions};
use crate::workspace::Workspace;

/// Returns the span that can be renamed at a position.
///
/// # Errors
/// The reason why it cannot be renamed, as a sentence.
pub(crate) fn renamable(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
) -> Result<(Rc<Document>, SymbolId, Span), String> {
    let nothing = || "no name at this position".to_owned();
    let (meaning, span) = meaning::at(workspace, document, offset).ok_or_else(nothing)?;
    match meaning {
        Meaning::Symbol(file, _) if !is_place(&file) => {
            Err("names of embedded modules cannot be renamed".to_owned())
        }
        Meaning::Symbol(file, id) => match file.names().symbols[id].kind {
            SymbolKind::Field | SymbolKind::Method => Err(
                "fields and methods cannot be renamed: the values that have one of this name are known only at run time"
                    .to_owned(),
            ),
            SymbolKind::Import => Err("the import leads to no declaration".to_owned()),
            _ => match interface(&file, id) {
                Some(reason) => Err(reason),
                None => Ok((file, id, span)),
            },
        },
        Meaning::Word(word) => Err(format!("`{}` belongs to the language", word.name)),
        Meaning::Field(_) => Err("keys of dicts are not renamed".to_owned()),
        Meaning::Module(_) => Err("files are not renamed from here".to_owned()),
    }
}

/// The names of a file that are also used outside of their mentions, each with the reason.
#[derive(Default)]
struct Interface<'a> {
    reasons: FxHashMap<Span, &'static str>,
    attributes: Vec<&'a Attribute>,
    functions: Vec<&'a FnDecl>,
    /// Names that are mentioned in a list of tools.
    tools: FxHashSet<&'a str>,
    in_tools: bool,
}

const TOOL: &str = "callers and models pass the parameters of tools by name";

impl<'a> Interface<'a> {
    fn of(document: &'a Document) -> Interface<'a> {
        let mut interface = Interface::default();
        interface.stmts(&document.parsed().program.items);
        for func in std::mem::take(&mut interface.functions) {
            if interface.tools.contains(func.name.name.as_str()) {
                interface.params(&func.func.params, TOOL);
            }
        }
        interface
    }

    fn item(&mut self, item: &'a DictItem) {
        match item {
            DictItem::Entry { key, value } => {
                let around = self.in_tools;
                self.in_tools |= key.name == "tools";
                self.expr(value);
                self.in_tools = around;
            }
            DictItem::Computed { key, value } => {
                self.expr(key);
                self.expr(value);
            }
            DictItem::Spread(value) => self.expr(value),
        }
    }

    fn params(&mut self, params: &[Param], reason: &'static str) {
        self.reasons.extend(params.iter().map(|param| (param.name.span, reason)));
    }

    /// Returns whether an attribute mentions a name, as an identifier or as a string.
    fn has_attribute(&self, name: &str) -> bool {
        fn says(value: &AttrValue, name: &str) -> bool {
            match value {
                AttrValue::Str(word) | AttrValue::Name(word) => word == name,
                AttrValue::List(items) => items.iter().any(|item| says(item, name)),
                _ => false,
            }
        }
        let mut args = self.attributes.iter().flat_map(|attribute| &attribute.args);
        args.any(|AttrArg { value, .. }| says(value, name))
    }
}

impl<'a> Visitor<'a> for Interface<'a> {
    fn decl(&mut self, decl: &'a Decl) {
        self.attributes.extend(&decl.attrs);
        match &decl.kind {
            DeclKind::Tool(tool) => self.params(&tool.func.params, TOOL),
            DeclKind::Fn(func) if decl.attrs.iter().any(|attr| attr.name.name == "acp_tool") => {
                self.params(&func.func.params, TOOL);
            }
            DeclKind::Fn(func) => {
                if func.name.name == "main" {
                    self.reasons.insert(
                        func.name.span,
                        "`harn check` and `harn run` look for a function of this name",
                    );
                }
                self.functions.push(func);
            }
            DeclKind::Pipeline(pipeline) if is_entry(&pipeline.name.name) => {
                self.reasons.insert(
                    pipeline.name.span,
                    "`harn run` and `harn test` select this pipeline by its name",
                );
            }
            _ => {}
        }
        visit::walk_decl(self, decl);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) if self.in_tools => drop(self.tools.insert(name)),
            ExprKind::Dict(items) => return items.iter().for_each(|item| self.item(item)),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn eval_pack_body(&mut self, pack: &'a EvalPackDecl) {
        self.reasons
            .extend(pack.fields.iter().map(|field| (field.key.span, "the keys of eval packs are fixed")));
        self.stmts(&pack.stmts);
        pack.summarize.iter().for_each(|block| self.block(block));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Override { name, .. } = &stmt.kind {
            self.reasons.insert(name.span, "it is the name of a builtin");
        }
        visit::walk_stmt(self, stmt);
    }
}

/// Returns whether `harn run` or `harn test` selects a pipeline by its name.
fn is_entry(name: &str) -> bool {
    matches!(name, "default" | "main" | "auto") || name.starts_with("test")
}

/// Returns why a symbol cannot be renamed, although all its mentions are known.
fn interface(file: &Document, id: SymbolId) -> Option<String> {
    let symbol = &file.names().symbols[id];
    if symbol.kind == SymbolKind::Param && symbol.name == "self" {
        return Some("`self` is the receiver of a method".to_owned());
    }
    let interface = Interface::of(file);
    if let Some(reason) = interface.reasons.get(&symbol.span) {
        return Some(format!("`{}` is not renamed: {reason}", symbol.name));
    }
    let named = interface.has_attribute(&symbol.name);
    named.then(|| format!("`{}` is not renamed: an attribute mentions it", symbol.name))
}

/// Returns why a symbol cannot have a name.
fn unusable(workspace: &Workspace<'_>, kind: SymbolKind, new: &str) -> Option<String> {
    let tokens = harn_syntax::lexer::lex(new).tokens;
    let is_name = !tokens.is_empty()
        && tokens[0].kind == TokenKind::Ident
        && tokens[0].span == Span::new(0, new.len() as u32);
    if !is_name || new == "_" {
        return Some(format!("`{new}` is not a name"));
    }
    if kind.is_member() {
        return None;
    }
    if workspace.builtin_names().iter().any(|name| name == new) {
        return Some(format!("`{new}` already means something: it is a builtin"));
    }
    if harn_check::is_builtin_type(new) {
        return Some(format!("`{new}` already means something: it is a type"));
    }
    if new == "self" {
        return Some("`self` already means something: it is the receiver of a method".to_owned());
    }
    (kind == SymbolKind::Pipeline && is_entry(new))
        .then(|| format!("`{new}` already means something: pipelines of this name are run by their name"))
}

/// A file with its edits.
struct Change {
    document: Rc<Document>,
    edits: Vec<(Span, String)>,
}

/// Returns the edits that rename the symbol at a position.
///
/// # Errors
/// The reason why it cannot be renamed, as a sentence.
#[allow(clippy::mutable_key_type, reason = "the protocol's own type of changes")]
pub(crate) fn rename(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
    new: &str,
) -> Result<WorkspaceEdit, String> {
    let (file, id, _) = renamable(workspace, document, offset)?;
    let symbol = &file.names().symbols[id];
    if symbol.name == new {
        return Ok(WorkspaceEdit::default());
    }
    if let Some(reason) = unusable(workspace, symbol.kind, new) {
        return Err(reason);
    }
    if let Some(owner) = symbol.owner
        && meaning::member(&file, owner, new).is_some()
    {
        return Err(format!("`{new}` is declared there already"));
    }
    // A closure may run before or after the second declaration.
    if !symbol.kind.is_member() && file.names().declares_beside(id, new) {
        return Err(format!("`{new}` already means something: the same scope declares it"));
    }
    let changes = changes(workspace, &file, id, new)?;
    prove(workspace, &file, id, new, &changes)?;
    let edits = |change: &Change| {
        let each = change.edits.iter();
        let each = each.map(|(span, text)| TextEdit::new(change.document.range(*span), text.clone()));
        (change.document.uri.clone(), each.collect::<Vec<TextEdit>>())
    };
    let all: Vec<(Uri, Vec<TextEdit>)> = changes.iter().map(edits).collect();
    Ok(WorkspaceEdit { changes: Some(all.into_iter().collect()), ..WorkspaceEdit::default() })
}

/// Returns the edits of each file that mentions a symbol.
fn changes(
    workspace: &Workspace<'_>,
    file: &Rc<Document>,
    id: SymbolId,
    new: &str,
) -> Result<Vec<Change>, String> {
    let (old, is_member) = {
        let symbol = &file.names().symbols[id];
        (symbol.name.clone(), symbol.kind.is_member())
    };
    let mut changes: BTreeMap<PathBuf, Change> = BTreeMap::new();
    let all = file.names().redeclared(id).into_iter();
    for mention in all.flat_map(|id| mentions(workspace, file, id, true)) {
        let at = &mention.document;
        let change = changes
            .entry(at.path.clone())
            .or_insert_with(|| Change { document: at.clone(), edits: Vec::new() });
        if change.edits.iter().any(|(span, _)| *span == mention.span) {
            continue;
        }
        let names = at.names();
        let taken = || names.visible(mention.span.start).into_iter().any(|id| names.symbols[id].name == new);
        if !is_member && taken() {
            return Err(means_something(new, at, mention.span));
        }
        // A key of a pattern is not renamed.
        let shorthand = names.symbols.iter().any(|s| s.span == mention.span && s.shorthand);
        let text = if shorthand { format!("{old}: {new}") } else { new.to_owned() };
        change.edits.push((mention.span, text));
    }
    Ok(changes.into_values().collect())
}

fn means_something(name: &str, document: &Document, span: Span) -> String {
    let line = document.lines.line(span.start) + 1;
    format!("`{name}` already means something at {}:{line}", document.path.display())
}

/// Checks that all names of the changed files still refer to the same declarations, and that no file in which the new
/// name is visible has new errors.
fn prove(
    workspace: &Workspace<'_>,
    file: &Rc<Document>,
    id: SymbolId,
    new: &str,
    changes: &[Change],
) -> Result<(), String> {
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    for Change { document, edits } in changes {
        let text = harn_front::apply_edits(&document.text, edits);
        let parsed = harn_syntax::parse_for_tools(&text);
        if parsed.errors.len() > document.parsed().errors.len() {
            return Err(format!("`{new}` is not a valid name in {}", document.path.display()));
        }
        let after = harn_front::Names::of(&parsed.program, text.len() as u32);
        let NameChanges { rebound, removed } = document.names().changes(&after, edits);
        if let Some((name, span)) = rebound {
            return Err(means_something(&name, document, span));
        }
        if let Some(span) = removed.first() {
            return Err(means_something(new, document, *span));
        }
        texts.insert(document.path.clone(), text);
    }
    let symbol = &file.names().symbols[id];
    let mut reached: BTreeSet<PathBuf> = texts.keys().cloned().collect();
    if symbol.top && symbol.kind.is_declaration() {
        reached.extend(importers(workspace, &file.path));
    }
    let after = workspace.overlay.with(&texts);
    for path in &reached {
        let Some(document) = workspace.document(path) else { continue };
        let text = texts.get(path).unwrap_or(&document.text);
        let count = |text: &str, system: &dyn harn_system::System| {
            let mut counts: FxHashMap<&'static str, usize> = FxHashMap::default();
            let found = workspace.host.check(path, text, system);
            let mistakes =
                found.iter().filter(|found| !found.code.starts_with(|c: char| c.is_ascii_lowercase()));
            mistakes.for_each(|found| *counts.entry(found.code).or_default() += 1);
            (counts, found)
        };
        let (before, _) = count(&document.text, &workspace.overlay);
        let (counts, found) = count(text, &after);
        let worse = counts.iter().find(|(code, count)| **count > before.get(*code).copied().unwrap_or(0));
        if let Some((code, _)) = worse
            && let Some(found) = found.iter().find(|found| found.code == *code)
        {
            let message = &found.message;
            return Err(format!("`{new}` already means something in {}: {message}", path.display()));
        }
    }
    Ok(())
}

/// Returns the programs of the workspace that import a file, directly or indirectly.
fn importers(workspace: &Workspace<'_>, file: &Path) -> BTreeSet<PathBuf> {
    let imports: Vec<(PathBuf, Vec<PathBuf>)> = workspace
        .programs()
        .map(|document| {
            let paths = document.parsed().program.imports().filter_map(|import| {
                match workspace.target(&import.path, document.dir())? {
                    target @ ImportTarget::File(_) => Some(workspace.of_target(&target)?.path.clone()),
                    ImportTarget::Std(_) => None,
                }
            });
            (document.path.clone(), paths.collect())
        })
        .collect();
    let mut found: BTreeSet<PathBuf> = BTreeSet::new();
    let mut waiting = vec![file.to_owned()];
    while let Some(target) = waiting.pop() {
        for (path, paths) in &imports {
            if paths.contains(&target) && found.insert(path.clone()) {
                waiting.push(path.clone());
            }
        }
    }
    found
}
