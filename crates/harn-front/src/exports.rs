//! What a file gives to those who import it.

use harn_syntax::ast::{Decl, DeclKind, Program, StmtKind};

fn declarations(tree: &Program) -> impl Iterator<Item = &Decl> {
    tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) => Some(&**decl),
        _ => None,
    })
}

/// The declarations that a file exports itself. As soon as one function is marked `pub`, or one import is, only marked functions are
/// exported; else all are.
pub fn exports(tree: &Program) -> impl Iterator<Item = &Decl> {
    let marked = |decl: &Decl| decl.is_pub && matches!(decl.kind, DeclKind::Fn(_));
    let explicit = tree.imports().any(|import| import.is_pub) || declarations(tree).any(marked);
    declarations(tree).filter(move |decl| match &decl.kind {
        DeclKind::Fn(_) => decl.is_pub || !explicit,
        DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_) => decl.is_pub,
        DeclKind::Impl(_) => false,
        _ => true,
    })
}

/// The declarations that an import may name: the exported ones, and functions that are not.
pub fn selectable(tree: &Program) -> impl Iterator<Item = &Decl> {
    declarations(tree).filter(|decl| !matches!(decl.kind, DeclKind::Impl(_)))
}
