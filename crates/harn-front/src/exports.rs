//! The declarations that a file exports to its importers.

use harn_syntax::ast::{Decl, DeclKind, Program, StmtKind};

fn declarations(tree: &Program) -> impl Iterator<Item = &Decl> {
    tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) => Some(&**decl),
        _ => None,
    })
}

/// Returns whether a file contains `pub`. If so, it exports only `pub` declarations, type aliases and interfaces.
fn is_marked(tree: &Program) -> bool {
    tree.imports().any(|import| import.is_pub) || declarations(tree).any(|decl| decl.is_pub)
}

/// Returns the declarations that a file exports: those marked `pub`, or without any `pub` all functions, structs,
/// enums and pipelines; and always type aliases and interfaces, which exist only as names.
pub fn exports(tree: &Program) -> impl Iterator<Item = &Decl> {
    selectable(tree).filter(|decl| decl.is_pub || !decl.kind.is_variable())
}

/// Returns the declarations that an import may name: the exported ones, and in files without `pub` also tools,
/// skills and eval packs.
pub fn selectable(tree: &Program) -> impl Iterator<Item = &Decl> {
    let explicit = is_marked(tree);
    declarations(tree).filter(move |decl| match &decl.kind {
        DeclKind::Type(_) | DeclKind::Interface(_) => true,
        DeclKind::Impl(_) => false,
        _ => decl.is_pub || !explicit,
    })
}

/// Returns whether a file declares a name without exporting it, because other declarations are marked `pub`.
pub fn is_hidden(tree: &Program, name: &str) -> bool {
    let named = |decl: &&Decl| decl.kind.name().name == name && !matches!(decl.kind, DeclKind::Impl(_));
    declarations(tree).any(|decl| named(&decl)) && !selectable(tree).any(|decl| named(&decl))
}
