//! Hover information about a name: its declaration and documentation.

use std::rc::Rc;

use harn_front::{SymbolId, SymbolKind, Target};
use harn_syntax::Span;
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};

use crate::document::Document;
use crate::host::Word;
use crate::meaning::{self, Meaning};
use crate::workspace::Workspace;

/// Maximum length of a displayed declaration, in bytes.
const MAX_HEAD: usize = 1_000;

pub(crate) fn hover(workspace: &Workspace<'_>, document: &Rc<Document>, offset: u32) -> Option<Hover> {
    let (meaning, span) = meaning::at(workspace, document, offset)?;
    let text = match meaning {
        Meaning::Word(word) => about_word(&word),
        Meaning::Symbol(file, id) => about_symbol(workspace, &file, id),
        Meaning::Field(ty) => code(&format!("{}: {ty}", document.slice(span))),
        Meaning::Module(Target::Std(name)) => format!("{}embedded module", code(&format!("std/{name}"))),
        Meaning::Module(Target::File(path)) => code(&path.display().to_string()),
    };
    Some(Hover { contents: markdown(text), range: Some(document.range(span)) })
}

pub(crate) fn markdown(value: String) -> HoverContents {
    HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value })
}

fn code(text: &str) -> String {
    format!("```harn\n{text}\n```\n\n")
}

/// Formats the documentation of a builtin, a method or a keyword.
pub(crate) fn about_word(word: &Word) -> String {
    format!("{}{}", code(&word.form), word.doc)
}

/// Formats a symbol: its declaration and the comment above it.
pub(crate) fn about_symbol(workspace: &Workspace<'_>, document: &Document, id: SymbolId) -> String {
    let doc = document.comments_above(document.names().symbols[id].whole.start);
    format!("{}{doc}", code(&head(workspace, document, id)))
}

/// Returns the declaration of a symbol, without bodies and values.
pub(crate) fn head(workspace: &Workspace<'_>, document: &Document, id: SymbolId) -> String {
    let names = document.names();
    let symbol = &names.symbols[id];
    let whole = document.slice(symbol.whole);
    let behind = (symbol.span.end - symbol.whole.start) as usize;
    let text = match symbol.kind {
        SymbolKind::Let | SymbolKind::Var => {
            let word = if symbol.kind == SymbolKind::Var { "var" } else { "let" };
            let ty = match symbol.ty {
                Some(ty) => Some(document.slice(ty).to_owned()),
                None => {
                    let told = document.told(&workspace.world());
                    let of = |(span, _): &&(Span, _)| *span == symbol.span;
                    told.variables.iter().find(of).map(|(_, ty)| ty.text.clone())
                }
            };
            let ty = ty.map_or(String::new(), |ty| format!(": {ty}"));
            format!("{word} {}{ty}", symbol.name)
        }
        SymbolKind::Param | SymbolKind::Field | SymbolKind::Type | SymbolKind::Variant => whole.to_owned(),
        SymbolKind::TypeParam | SymbolKind::Import => symbol.name.to_string(),
        SymbolKind::Enum | SymbolKind::Struct | SymbolKind::Interface => whole.to_owned(),
        // Up to the body.
        _ => whole.get(..body_start(whole, behind)).unwrap_or(whole).trim_end().to_owned(),
    };
    let text = if symbol.kind == SymbolKind::Method && !text.starts_with("fn") {
        format!("fn {text}")
    } else {
        text
    };
    if text.len() > MAX_HEAD {
        let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at < MAX_HEAD).last().unwrap_or(0);
        return format!("{} ...", &text[..cut]);
    }
    text
}

/// Returns the start of the body of a declaration: the first brace after its name that is not inside brackets.
fn body_start(text: &str, from: usize) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < from) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' if depth == 0 && !text[..at].trim_end().ends_with("->") => return at,
            _ => {}
        }
    }
    text.len()
}
