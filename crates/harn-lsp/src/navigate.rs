//! Definition and references, across the files of the workspace.

use std::rc::Rc;

use harn_front::{SymbolId, SymbolKind, Target};
use harn_syntax::Span;
use lsp_types::{DocumentHighlight, DocumentHighlightKind, Location};

use crate::document::Document;
use crate::meaning::{self, Meaning};
use crate::workspace::Workspace;

/// Returns the declaration of the name at a position.
pub(crate) fn definition(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
) -> Option<Location> {
    match meaning::at(workspace, document, offset)?.0 {
        Meaning::Symbol(file, id) if is_place(&file) => Some(file.location(file.names().symbols[id].span)),
        Meaning::Module(target @ Target::File(_)) => {
            let file = workspace.of_target(&target)?;
            Some(file.location(Span::at(0)))
        }
        _ => None,
    }
}

/// Returns whether an editor can open a document.
pub(crate) fn is_place(document: &Document) -> bool {
    document.uri.as_str().starts_with("file:")
}

/// A mention of a symbol.
pub(crate) struct Mention {
    pub(crate) document: Rc<Document>,
    pub(crate) span: Span,
    write: bool,
}

/// Returns all mentions of a symbol, its declaration first.
pub(crate) fn mentions(
    workspace: &Workspace<'_>,
    file: &Rc<Document>,
    id: SymbolId,
    everywhere: bool,
) -> Vec<Mention> {
    let symbol = &file.names().symbols[id];
    let mut found = vec![Mention { document: file.clone(), span: symbol.span, write: true }];
    own_mentions(file, id, &mut found);
    let owner = symbol.owner.map(|owner| &file.names().symbols[owner]);
    if matches!(symbol.kind, SymbolKind::Field | SymbolKind::Method) {
        typed_members(workspace, file, file, id, &mut found);
    }
    let reaches_out = symbol.top && (symbol.kind.is_declaration() || symbol.kind.is_member());
    if everywhere && reaches_out {
        let outside = owner.map_or(&symbol.name, |owner| &owner.name);
        for other in workspace.programs() {
            if other.path == file.path || !other.text.contains(symbol.name.as_str()) {
                continue;
            }
            if symbol.kind.is_member() {
                members_elsewhere(workspace, &other, file, id, &mut found);
            } else {
                names_elsewhere(workspace, &other, file, id, outside, &mut found);
            }
        }
    }
    found
}

fn own_mentions(file: &Rc<Document>, id: SymbolId, found: &mut Vec<Mention>) {
    let uses = file.names().uses_of(id);
    found.extend(uses.map(|used| Mention { document: file.clone(), span: used.span, write: used.write }));
}

/// Adds the mentions of a declaration in a file that imports it.
fn names_elsewhere(
    workspace: &Workspace<'_>,
    other: &Rc<Document>,
    file: &Rc<Document>,
    id: SymbolId,
    name: &str,
    found: &mut Vec<Mention>,
) {
    let is_it = |(at, symbol): (Rc<Document>, SymbolId)| at.path == file.path && symbol == id;
    let names = other.names();
    for (import, symbol) in names.symbols.iter().enumerate() {
        if symbol.kind == SymbolKind::Import
            && symbol.name == name
            && is_it(meaning::declared(workspace, other, import))
        {
            found.push(Mention { document: other.clone(), span: symbol.span, write: false });
            own_mentions(other, import, found);
        }
    }
    let unresolved = || names.uses.iter().filter(|used| used.symbol.is_none() && used.name == name);
    if unresolved().next().is_some() && meaning::brought(workspace, other, name).is_some_and(is_it) {
        let each =
            unresolved().map(|used| Mention { document: other.clone(), span: used.span, write: false });
        found.extend(each);
    }
}

/// Adds the mentions of a variant, field or method in another file.
fn members_elsewhere(
    workspace: &Workspace<'_>,
    other: &Rc<Document>,
    file: &Rc<Document>,
    id: SymbolId,
    found: &mut Vec<Mention>,
) {
    let symbol = &file.names().symbols[id];
    for part in other.names().qualified.iter().filter(|part| part.name == symbol.name) {
        let owner = match part.owner_symbol {
            Some(owner) => Some(meaning::declared(workspace, other, owner)),
            None => meaning::brought(workspace, other, &part.owner),
        };
        if owner.is_some_and(|(at, owner)| at.path == file.path && Some(owner) == symbol.owner) {
            found.push(Mention { document: other.clone(), span: part.span, write: false });
        }
    }
    typed_members(workspace, other, file, id, found);
}

/// Adds the members of values whose struct is known.
fn typed_members(
    workspace: &Workspace<'_>,
    other: &Rc<Document>,
    file: &Rc<Document>,
    id: SymbolId,
    found: &mut Vec<Mention>,
) {
    let symbol = &file.names().symbols[id];
    for used in other.names().members.iter().filter(|used| used.name == symbol.name) {
        let ty = meaning::type_of(workspace, other, used.object);
        let of = ty.and_then(|ty| ty.name.as_ref());
        let owner = of.and_then(|of| meaning::type_named(workspace, other, of));
        let known = found.iter().any(|m| m.document.path == other.path && m.span == used.span);
        if !known && owner.is_some_and(|(at, owner)| at.path == file.path && Some(owner) == symbol.owner) {
            found.push(Mention { document: other.clone(), span: used.span, write: false });
        }
    }
}

/// Returns the locations that mention the name at an offset.
pub(crate) fn references(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
    with_declaration: bool,
) -> Vec<Location> {
    let Some((meaning, _)) = meaning::at(workspace, document, offset) else { return Vec::new() };
    let mut places = match meaning {
        Meaning::Symbol(file, id) => {
            let all = mentions(workspace, &file, id, true);
            all.into_iter()
                .skip(usize::from(!with_declaration))
                .filter(|mention| is_place(&mention.document))
                .map(|mention| mention.document.location(mention.span))
                .collect::<Vec<_>>()
        }
        // The builtin, if no scope shadows its name.
        Meaning::Word(word) => {
            let uses = document.names().uses.iter();
            let own = uses.filter(|used| used.symbol.is_none() && used.name == word.name);
            own.map(|used| document.location(used.span)).collect()
        }
        _ => Vec::new(),
    };
    sort(&mut places);
    places
}

fn sort(places: &mut Vec<Location>) {
    let key = |place: &Location| {
        (place.uri.as_str().to_owned(), place.range.start.line, place.range.start.character)
    };
    places.sort_by_key(key);
    places.dedup();
}

/// Returns the mentions of a name in its own file.
pub(crate) fn highlights(
    workspace: &Workspace<'_>,
    document: &Rc<Document>,
    offset: u32,
) -> Vec<DocumentHighlight> {
    let Some((Meaning::Symbol(file, id), _)) = meaning::at(workspace, document, offset) else {
        return Vec::new();
    };
    let mut all = mentions(workspace, &file, id, false);
    if file.path != document.path {
        let name = file.names().symbols[id].name.clone();
        names_elsewhere(workspace, document, &file, id, &name, &mut all);
    }
    let here = all.into_iter().filter(|mention| mention.document.path == document.path);
    here.map(|mention| DocumentHighlight {
        range: document.range(mention.span),
        kind: Some(if mention.write { DocumentHighlightKind::WRITE } else { DocumentHighlightKind::READ }),
    })
    .collect()
}
