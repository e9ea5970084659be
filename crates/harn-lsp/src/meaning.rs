//! The meaning of the name at a position: a name of this file, a name of another file, a builtin, a
//! member.

use std::path::PathBuf;
use std::rc::Rc;

use harn_check::ToldType;
use harn_front::{SymbolId, SymbolKind, Target};
use harn_syntax::Span;
use harn_syntax::ast::Import;

use crate::document::Document;
use crate::host::Word;
use crate::workspace::Workspace;

/// The meaning of a name.
pub(crate) enum Meaning {
    /// A symbol, and the file that declares it.
    Symbol(Rc<Document>, SymbolId),
    /// A builtin or a built-in method.
    Word(Word),
    /// A field of a value without a known struct, with its type.
    Field(String),
    /// An imported file.
    Module(Target),
}

/// Returns the meaning of the name at an offset, and its span.
pub(crate) fn at(workspace: &Workspace<'_>, document: &Rc<Document>, offset: u32) -> Option<(Meaning, Span)> {
    let names = document.names();
    let mut imports = document.parsed().program.imports();
    if let Some(import) = imports.find(|import| contains(import.path_span, offset)) {
        let target = workspace.target(&import.path, document.dir())?;
        return Some((Meaning::Module(target), import.path_span));
    }
    if document.in_comment(offset) {
        return None;
    }
    if let Some(used) = names.use_at(offset) {
        let meaning = match used.symbol {
            Some(id) => follow(workspace, document, id),
            None => by_name(workspace, document, &used.name),
        };
        return meaning.map(|meaning| (meaning, used.span));
    }
    if let Some(part) = names.qualified.iter().find(|part| contains(part.span, offset))
        && let Some((file, owner)) = owner_of(workspace, document, part.owner_symbol, &part.owner)
        && let Some(id) = member(&file, owner, &part.name)
    {
        return Some((Meaning::Symbol(file, id), part.span));
    }
    if let Some(used) = names.member_at(offset) {
        return Some((member_meaning(workspace, document, used.object, &used.name)?, used.span));
    }
    if let Some(id) = names.symbol_at(offset) {
        let span = names.symbols[id].span;
        return follow(workspace, document, id).map(|meaning| (meaning, span));
    }
    // Keywords.
    let token = document.parsed().tokens.iter().find(|token| contains(token.span, offset))?;
    let text = document.slice(token.span);
    let word = workspace.host.keywords().into_iter().find(|word| word.name == text)?;
    token.kind.is_keyword().then_some((Meaning::Word(word), token.span))
}

/// Returns the meaning of a name that no scope of the file declares.
fn by_name(workspace: &Workspace<'_>, document: &Rc<Document>, name: &str) -> Option<Meaning> {
    if let Some((file, id)) = brought(workspace, document, name) {
        return Some(Meaning::Symbol(file, id));
    }
    workspace.host.builtin(name).map(Meaning::Word)
}

/// Resolves an imported symbol to its declaration.
fn follow(workspace: &Workspace<'_>, document: &Rc<Document>, id: SymbolId) -> Option<Meaning> {
    let (file, id) = declared(workspace, document, id);
    Some(Meaning::Symbol(file, id))
}

/// Returns the declaration of a symbol; the import itself if it cannot be resolved.
pub(crate) fn declared(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    id: SymbolId,
) -> (Rc<Document>, SymbolId) {
    let symbol = &document.names().symbols[id];
    if symbol.kind != SymbolKind::Import {
        return (document.clone(), id);
    }
    let mut imports = document.parsed().program.imports();
    let lists = |import: &&Import| import.span == symbol.whole;
    let found = imports.find(lists).and_then(|import| of_import(workspace, document, import, &symbol.name));
    found.unwrap_or_else(|| (document.clone(), id))
}

/// Resolves a name in the module of an import.
pub(crate) fn of_import(
    workspace: &Workspace<'_>,
    document: &Document,
    import: &Import,
    name: &str,
) -> Option<(Rc<Document>, SymbolId)> {
    let target = workspace.target(&import.path, document.dir())?;
    exported(workspace, &target, name, &mut Vec::new())
}

/// Resolves a name in the import of a whole file.
pub(crate) fn brought(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    name: &str,
) -> Option<(Rc<Document>, SymbolId)> {
    let mut whole = document.parsed().program.imports().filter(|import| import.names.is_none());
    whole.find_map(|import| of_import(workspace, document, import, name))
}

fn exported(
    workspace: &Workspace<'_>,
    target: &Target,
    name: &str,
    visiting: &mut Vec<PathBuf>,
) -> Option<(Rc<Document>, SymbolId)> {
    let document = workspace.of_target(target)?;
    if visiting.contains(&document.path) {
        return None;
    }
    let tree = &document.parsed().program;
    if harn_front::selectable(tree).any(|decl| decl.kind.name().name == name) {
        let id = document.names().top(name)?;
        return Some((document, id));
    }
    visiting.push(document.path.clone());
    let imports = tree.imports().filter(|import| import.is_pub);
    let listed = |import: &&Import| import.names.iter().flatten().any(|listed| listed.name == name);
    for import in imports.filter(|import| import.names.is_none() || listed(import)) {
        let target = workspace.target(&import.path, document.dir());
        if let Some(found) = target.and_then(|target| exported(workspace, &target, name, visiting)) {
            return Some(found);
        }
    }
    None
}

/// Returns the names that an import may list.
pub(crate) fn exports(workspace: &Workspace<'_>, target: &Target) -> Vec<(Rc<Document>, SymbolId)> {
    let mut found = Vec::new();
    let mut visiting = Vec::new();
    collect(workspace, target, &mut visiting, &mut found);
    found
}

fn collect(
    workspace: &Workspace<'_>,
    target: &Target,
    visiting: &mut Vec<PathBuf>,
    found: &mut Vec<(Rc<Document>, SymbolId)>,
) {
    let Some(document) = workspace.of_target(target) else { return };
    if visiting.contains(&document.path) {
        return;
    }
    visiting.push(document.path.clone());
    let tree = &document.parsed().program;
    for decl in harn_front::selectable(tree) {
        if let Some(id) = document.names().top(&decl.kind.name().name) {
            found.push((document.clone(), id));
        }
    }
    for import in tree.imports().filter(|import| import.is_pub) {
        let Some(target) = workspace.target(&import.path, document.dir()) else { continue };
        match &import.names {
            None => collect(workspace, &target, visiting, found),
            Some(names) => {
                let each =
                    names.iter().filter_map(|n| exported(workspace, &target, &n.name, &mut Vec::new()));
                found.extend(each);
            }
        }
    }
}

/// Returns the struct or enum of the owner of a member.
fn owner_of(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    symbol: Option<SymbolId>,
    name: &str,
) -> Option<(Rc<Document>, SymbolId)> {
    let (file, id) = match symbol {
        Some(id) => declared(workspace, document, id),
        None => brought(workspace, document, name)?,
    };
    let kind = file.names().symbols[id].kind;
    matches!(kind, SymbolKind::Enum | SymbolKind::Struct | SymbolKind::Interface).then_some((file, id))
}

/// Resolves a name to a struct or enum in a document.
pub(crate) fn type_named(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    name: &str,
) -> Option<(Rc<Document>, SymbolId)> {
    owner_of(workspace, document, document.names().top(name), name)
}

/// Returns a member of a struct or enum.
pub(crate) fn member(document: &Document, owner: SymbolId, name: &str) -> Option<SymbolId> {
    document.names().symbols.iter().position(|symbol| symbol.owner == Some(owner) && symbol.name == name)
}

/// Returns the known type of an object.
pub(crate) fn type_of<'d>(
    workspace: &Workspace<'_>,
    document: &'d Document,
    object: Span,
) -> Option<&'d ToldType> {
    let told = document.told(&workspace.world());
    told.objects.iter().find(|(span, _)| *span == object).map(|(_, ty)| ty)
}

fn member_meaning(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    object: Span,
    name: &str,
) -> Option<Meaning> {
    let space = document.slice(object);
    if let Some(word) = workspace.host.builtin(&format!("{space}.{name}")) {
        return Some(Meaning::Word(word));
    }
    let ty = type_of(workspace, document, object);
    if let Some(of) = ty.and_then(|ty| ty.name.as_ref())
        && let Some((file, owner)) = type_named(workspace, document, of)
        && let Some(id) = member(&file, owner, name)
    {
        return Some(Meaning::Symbol(file, id));
    }
    if let Some(field) = ty.and_then(|ty| ty.fields.iter().find(|field| field.name == name)) {
        return Some(Meaning::Field(field.text.clone()));
    }
    if let Some(word) = ty.and_then(|ty| ty.word) {
        return workspace.host.method(word, name).map(Meaning::Word);
    }
    // For an object of unknown type, a method name that only one type has is sufficient.
    let methods = workspace.host.methods();
    let mut types = methods.iter().filter(|(_, names)| names.iter().any(|method| method == name));
    let first = types.next()?;
    if types.next().is_some() && ty.is_none() {
        let mut word = workspace.host.method(&first.0, name)?;
        let all = methods.iter().filter(|(_, names)| names.iter().any(|method| method == name));
        let all: Vec<&str> = all.map(|(ty, _)| ty.as_str()).collect();
        word.doc = format!("{}\n\nA method of {}.", word.doc, all.join(", "));
        return Some(Meaning::Word(word));
    }
    workspace.host.method(&first.0, name).map(Meaning::Word)
}

/// Returns whether an offset is in a span or directly after it.
pub(crate) fn contains(span: Span, offset: u32) -> bool {
    span.start <= offset && offset <= span.end && !span.is_empty()
}
