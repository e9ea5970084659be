//! Resolves names in the file that mentions them and in its imports.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use harn_front::{Names, Sources, SymbolId, SymbolKind, Unit};
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{SourceFile, Span};
use rustc_hash::FxHashMap;

use crate::imports::{self, Imported};

/// A file on the path.
pub(super) struct File<'w> {
    tree: Tree<'w>,
    dir: PathBuf,
    /// Its name in diagnostics; `None` for the checked program.
    pub(super) shown: Option<Arc<SourceFile>>,
    pub(super) names: Names,
    brought: OnceCell<FxHashMap<Name, Imported>>,
}

enum Tree<'w> {
    Checked(&'w Program),
    Imported(Rc<Unit>),
}

/// The meaning of a name.
pub(super) enum Meaning<'t> {
    /// A function of this file.
    Here(&'t Function),
    /// A declaration of another file: the unit, and the number of the item.
    There(Rc<Unit>, usize),
    /// A variable that is bound once, to this expression.
    Bound(&'t Expr),
    /// A parameter, by the offset of its declaration.
    Param(u32),
    /// A builtin, or an unknown name.
    Builtin,
    /// Another variable.
    Other,
}

impl<'w> File<'w> {
    pub(super) fn checked(tree: &'w Program, text_len: usize, dir: &Path) -> File<'w> {
        let names = Names::of(tree, text_len as u32);
        File { tree: Tree::Checked(tree), dir: dir.to_owned(), shown: None, names, brought: OnceCell::new() }
    }

    pub(super) fn imported(unit: Rc<Unit>) -> File<'w> {
        File {
            names: Names::of(&unit.tree, unit.file.text().len() as u32),
            dir: unit.dir.clone(),
            shown: Some(unit.file.clone()),
            tree: Tree::Imported(unit),
            brought: OnceCell::new(),
        }
    }

    pub(super) fn tree(&self) -> &Program {
        match &self.tree {
            Tree::Checked(tree) => tree,
            Tree::Imported(unit) => &unit.tree,
        }
    }

    /// Returns the symbol of a name at a span.
    pub(super) fn symbol(&self, span: Span) -> Option<SymbolId> {
        self.names.use_at(span.start).filter(|used| used.span == span).and_then(|used| used.symbol)
    }

    /// Resolves a name at a place.
    pub(super) fn meaning(&self, name: &str, span: Span, sources: &Sources<'_>) -> Meaning<'_> {
        let Some(id) = self.symbol(span) else {
            return self.brought(name, sources).unwrap_or(Meaning::Builtin);
        };
        let symbol = &self.names.symbols[id];
        match symbol.kind {
            SymbolKind::Import => self.brought(name, sources).unwrap_or(Meaning::Other),
            SymbolKind::Param => Meaning::Param(symbol.span.start),
            SymbolKind::Function | SymbolKind::Pipeline | SymbolKind::Tool | SymbolKind::Let => {
                let mut search = Search { name: symbol.span, function: None, value: None };
                search.stmts(&self.tree().items);
                let found = search.function.map(Meaning::Here).or(search.value.map(Meaning::Bound));
                found.unwrap_or(Meaning::Other)
            }
            _ => Meaning::Other,
        }
    }

    fn brought(&self, name: &str, sources: &Sources<'_>) -> Option<Meaning<'_>> {
        let all = self.brought.get_or_init(|| imports::names_of(sources, self.tree(), &self.dir));
        let (unit, item) = all.get(name)?.place()?;
        Some(Meaning::There(unit.clone(), item))
    }

    pub(super) fn methods(&self, name: &str) -> Vec<&Function> {
        let impls = self.tree().items.iter().filter_map(|item| match &item.kind {
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Impl(declared) => Some(&declared.methods),
                _ => None,
            },
            _ => None,
        });
        let named = impls.flatten().filter(|method| method.decl.name.name == name);
        named.map(|method| &method.decl.func).collect()
    }
}

/// The function of a declaration.
pub(super) fn function(decl: &Decl) -> Option<&Function> {
    match &decl.kind {
        DeclKind::Fn(declared) => Some(&declared.func),
        DeclKind::Tool(declared) => Some(&declared.func),
        DeclKind::Pipeline(declared) => Some(&declared.func),
        _ => None,
    }
}

/// Searches for the declaration of a name.
struct Search<'t> {
    name: Span,
    function: Option<&'t Function>,
    value: Option<&'t Expr>,
}

impl<'t> Visitor<'t> for Search<'t> {
    fn stmt(&mut self, stmt: &'t Stmt) {
        match &stmt.kind {
            StmtKind::Let { mutable: false, pattern, value, .. } => {
                if matches!(&pattern.kind, PatternKind::Name(name) if name.span == self.name) {
                    self.value = Some(value);
                    return;
                }
            }
            StmtKind::Decl(decl) if decl.kind.name().span == self.name => {
                self.function = function(decl);
                return;
            }
            _ => {}
        }
        if stmt.span.start <= self.name.start && self.name.start < stmt.span.end {
            visit::walk_stmt(self, stmt);
        }
    }
}
