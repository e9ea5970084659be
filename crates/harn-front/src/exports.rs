//! What a file gives to those who import it.

use harn_syntax::ast::{Decl, DeclKind, Program, StmtKind};

fn declarations(tree: &Program) -> impl Iterator<Item = &Decl> {
    tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) => Some(&**decl),
        _ => None,
    })
}

/// Whether a file marks anything `pub`. Then it exports only what is marked, and its aliases and interfaces.
fn is_marked(tree: &Program) -> bool {
    tree.imports().any(|import| import.is_pub) || declarations(tree).any(|decl| decl.is_pub)
}

/// The declarations that a file exports itself: what is marked `pub`, without any mark all functions, structs, enums and
/// pipelines; and type aliases and interfaces, which are only names.
pub fn exports(tree: &Program) -> impl Iterator<Item = &Decl> {
    selectable(tree).filter(|decl| decl.is_pub || !decl.kind.is_variable())
}

/// The declarations that an import may name: the exported ones, and without any `pub` also tools, skills and packs.
pub fn selectable(tree: &Program) -> impl Iterator<Item = &Decl> {
    let explicit = is_marked(tree);
    declarations(tree).filter(move |decl| match &decl.kind {
        DeclKind::Type(_) | DeclKind::Interface(_) => true,
        DeclKind::Impl(_) => false,
        _ => decl.is_pub || !explicit,
    })
}

/// Whether a file declares a name and keeps it to itself: it marks others `pub`.
pub fn is_hidden(tree: &Program, name: &str) -> bool {
    let named = |decl: &&Decl| decl.kind.name().name == name && !matches!(decl.kind, DeclKind::Impl(_));
    declarations(tree).any(|decl| named(&decl)) && !selectable(tree).any(|decl| named(&decl))
}
