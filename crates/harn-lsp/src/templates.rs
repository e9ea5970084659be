//! Prompt templates: completion in directives, documentation of filters, targets of includes.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_syntax::Span;
use harn_syntax::ast::{DictItem, Expr, ExprKind};
use harn_syntax::visit::{self, Visitor};
use harn_system::SystemExt;
use harn_template::{Caller, FILTERS, FilterSpec, FsLoader, Origin, SECTIONS, Template};
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, DocumentLink, Documentation, Hover, Location,
    MarkupContent, MarkupKind, TextEdit,
};

use crate::document::{Document, uri_of};
use crate::hover;
use crate::text::word_start;
use crate::workspace::Workspace;

/// The keywords of directives.
const WORDS: [(&str, &str); 8] = [
    ("if", "`{{ if CONDITION }} ... {{ end }}`"),
    ("elif", "Another condition of an `if`."),
    ("else", "What is rendered otherwise."),
    ("end", "Ends an `if`, a `for` or a `section`."),
    ("for", "`{{ for item in items }} ... {{ end }}`"),
    ("include", "`{{ include \"other.harn.prompt\" }}`"),
    ("raw", "`{{ raw }} ... {{ endraw }}`: text as it is."),
    ("section", "`{{ section \"task\" }} ... {{ endsection }}`"),
];

/// Returns the directive around an offset: the source between its braces, up to the offset.
fn directive(document: &Document, offset: u32) -> Option<&str> {
    let head = &document.text[..offset as usize];
    let open = head.rfind("{{")?;
    let inside = &head[open + 2..];
    (!inside.contains("}}")).then_some(inside)
}

pub(crate) fn complete(workspace: &Workspace<'_>, document: &Document, offset: u32) -> Vec<CompletionItem> {
    let Some(inside) = directive(document, offset) else { return Vec::new() };
    if inside.trim_start().starts_with('#') {
        return Vec::new();
    }
    let replaced = Span::new(word_start(&document.text, offset), offset);
    let mut items = Vec::new();
    let mut add = |label: &str, kind: CompletionItemKind, detail: &str, doc: &str| {
        let edit = TextEdit::new(document.range(replaced), label.to_owned());
        let value = doc.to_owned();
        items.push(CompletionItem {
            label: label.to_owned(),
            kind: Some(kind),
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
            documentation: (!value.is_empty())
                .then_some(Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })),
            text_edit: Some(CompletionTextEdit::Edit(edit)),
            ..CompletionItem::default()
        });
    };
    let before = inside[..inside.len() - (replaced.len() as usize).min(inside.len())].trim_end();
    if before.matches('"').count() % 2 == 1 {
        if before.trim_start().trim_start_matches('-').trim_start().starts_with("section") {
            SECTIONS.iter().for_each(|section| add(section.name, CompletionItemKind::VALUE, "section", ""));
        }
        return items;
    }
    if before.ends_with('|') && !before.ends_with("||") {
        for filter in FILTERS {
            add(filter.name, CompletionItemKind::FUNCTION, &form(filter), filter.doc);
        }
        return items;
    }
    if before.ends_with('.') {
        return items;
    }
    if before.trim_matches(['-', ' ']).is_empty() {
        WORDS.iter().for_each(|(word, doc)| add(word, CompletionItemKind::KEYWORD, "", doc));
    }
    let mut names = bound(workspace, &document.path);
    names.extend(free(workspace, document).into_iter().map(|name| (name, String::new())));
    names.push(("llm".to_owned(), "what the call says of its model".to_owned()));
    let mut seen: Vec<String> = Vec::new();
    for (name, detail) in names {
        if !seen.contains(&name) && name != document.slice(replaced) {
            add(&name, CompletionItemKind::VARIABLE, &detail, "");
            seen.push(name);
        }
    }
    items
}

fn form(filter: &FilterSpec) -> String {
    if filter.params.is_empty() {
        filter.name.to_owned()
    } else {
        format!("{}: {}", filter.name, filter.params)
    }
}

/// Returns the names that a template takes from its bindings.
fn free(workspace: &Workspace<'_>, document: &Document) -> Vec<String> {
    let Some(template) = parse(document) else { return Vec::new() };
    let assets = workspace.world().prompt_asset;
    let loader = FsLoader::new(&workspace.overlay, &assets, document.dir());
    template.free_names(&loader).names.into_iter().map(|name| name.name).collect()
}

fn parse(document: &Document) -> Option<Template> {
    Template::parse(Origin::File(document.path.clone()), document.text.clone()).ok()
}

/// Returns the names that programs of the workspace bind in a template, each with the file.
fn bound(workspace: &Workspace<'_>, template: &Path) -> Vec<(String, String)> {
    let Some(file) = template.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let mut found = Vec::new();
    for program in workspace.programs().filter(|program| program.text.contains(file)) {
        let mut renders = Renders { workspace, program: &program, template, names: Vec::new() };
        renders.stmts(&program.parsed().program.items);
        let by = program.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.extend(renders.names.into_iter().map(|name| (name, format!("given by {by}"))));
    }
    found
}

/// Finds `render("path", {name: ...})`.
struct Renders<'a> {
    workspace: &'a Workspace<'a>,
    program: &'a Rc<Document>,
    template: &'a Path,
    names: Vec<String>,
}

impl<'a> Visitor<'a> for Renders<'_> {
    fn expr(&mut self, expr: &'a Expr) {
        if let ExprKind::Call { callee, args, .. } = &expr.kind
            && matches!(&callee.kind, ExprKind::Name(name) if name.starts_with("render"))
            && let [path, bindings, ..] = args.as_slice()
            && let ExprKind::Str(path) = &path.value.kind
            && let ExprKind::Dict(items) = &bindings.value.kind
            && resolve(self.workspace, path, self.program).as_deref() == Some(self.template)
        {
            self.names.extend(items.iter().filter_map(|item| match item {
                DictItem::Entry { key, .. } => Some(key.name.to_string()),
                _ => None,
            }));
        }
        visit::walk_expr(self, expr);
    }
}

/// Resolves the path of a template in a document.
fn resolve(workspace: &Workspace<'_>, path: &str, from: &Document) -> Option<PathBuf> {
    let assets = workspace.world().prompt_asset;
    let loader = FsLoader::new(&workspace.overlay, &assets, from.dir());
    let found = loader.resolve(path, Caller::Module).ok().flatten()?;
    workspace.overlay.is_file(&found).then_some(found)
}

pub(crate) fn hover(document: &Document, offset: u32) -> Option<Hover> {
    let inside = directive(document, offset)?;
    let start = word_start(&document.text, offset);
    let rest = &document.text[start as usize..];
    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let word = &rest[..length];
    let head = inside.get(..inside.len().checked_sub((offset - start) as usize)?)?.trim_end();
    let text = if head.ends_with('|') && !head.ends_with("||") {
        let filter = FILTERS.iter().find(|filter| filter.name == word)?;
        let (template, result) = filter.example;
        format!("`{}`\n\n{}\n\n`{template}` gives `{result}`", form(filter), filter.doc)
    } else {
        WORDS.iter().find(|(known, _)| *known == word)?.1.to_owned()
    };
    let range = document.range(Span::new(start, start + length as u32));
    Some(Hover { contents: hover::markdown(text), range: Some(range) })
}

/// Returns the includes of a template, with their files.
fn includes(workspace: &Workspace<'_>, document: &Document) -> Vec<(Span, PathBuf)> {
    let Some(template) = parse(document) else { return Vec::new() };
    let sites = template.includes().into_iter();
    sites
        .filter_map(|site| {
            let path = site.path?;
            let text = document.text.get(site.span.clone())?;
            let at = text.find(&path)? + site.span.start;
            let span = Span::new(at as u32, (at + path.len()) as u32);
            Some((span, resolve(workspace, &path, document)?))
        })
        .collect()
}

pub(crate) fn links(workspace: &Workspace<'_>, document: &Document) -> Vec<DocumentLink> {
    let link = |(span, path): (Span, PathBuf)| {
        Some(DocumentLink {
            range: document.range(span),
            target: Some(uri_of(&path)?),
            tooltip: None,
            data: None,
        })
    };
    includes(workspace, document).into_iter().filter_map(link).collect()
}

pub(crate) fn definition(workspace: &Workspace<'_>, document: &Document, offset: u32) -> Option<Location> {
    let found = includes(workspace, document);
    let (_, path) = found.into_iter().find(|(span, _)| span.start <= offset && offset <= span.end)?;
    Some(Location::new(uri_of(&path)?, lsp_types::Range::default()))
}
