//! The structure of a file: symbols, folding, selection, links.

use std::rc::Rc;

use harn_front::{SymbolKind as Kind, Target};
use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::token::TokenKind;
use harn_syntax::visit::{self, Visitor};
use lsp_types::{
    DocumentLink, DocumentSymbol, FoldingRange, FoldingRangeKind, Position, SelectionRange,
    SymbolInformation, SymbolKind,
};

use rustc_hash::FxHashMap;

use crate::document::{Document, uri_of};
use crate::workspace::Workspace;

fn kind_of(kind: Kind) -> SymbolKind {
    match kind {
        Kind::Function | Kind::Pipeline | Kind::Tool => SymbolKind::FUNCTION,
        Kind::Skill | Kind::EvalPack => SymbolKind::OBJECT,
        Kind::Enum => SymbolKind::ENUM,
        Kind::Variant => SymbolKind::ENUM_MEMBER,
        Kind::Struct => SymbolKind::STRUCT,
        Kind::Field => SymbolKind::FIELD,
        Kind::Method => SymbolKind::METHOD,
        Kind::Type => SymbolKind::CLASS,
        Kind::Interface => SymbolKind::INTERFACE,
        Kind::TypeParam => SymbolKind::TYPE_PARAMETER,
        Kind::Let => SymbolKind::CONSTANT,
        Kind::Var | Kind::Param | Kind::Import => SymbolKind::VARIABLE,
    }
}

/// Returns the declarations of a file with their members.
#[expect(deprecated, reason = "a field of the protocol's own type")]
pub(crate) fn symbols(document: &Document) -> Vec<DocumentSymbol> {
    let names = document.names();
    let make = |id: usize, children: Option<Vec<DocumentSymbol>>| {
        let symbol = &names.symbols[id];
        let range = document.range(symbol.whole.to(symbol.span));
        DocumentSymbol {
            name: symbol.name.to_string(),
            detail: symbol.ty.map(|ty| document.slice(ty).to_owned()),
            kind: kind_of(symbol.kind),
            tags: None,
            deprecated: None,
            range,
            selection_range: document.range(symbol.span),
            children,
        }
    };
    let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (id, symbol) in names.symbols.iter().enumerate() {
        if let Some(owner) = symbol.owner {
            members.entry(owner).or_default().push(id);
        }
    }
    let mut found: Vec<DocumentSymbol> = (0..names.symbols.len())
        .filter(|&id| {
            let symbol = &names.symbols[id];
            symbol.top && symbol.owner.is_none() && !matches!(symbol.kind, Kind::Import | Kind::Method)
        })
        .map(|id| {
            let own = members.get(&id).into_iter().flatten().copied();
            // Methods of an `impl` are outside of the struct.
            let inside = |member: &usize| {
                let (of, member) = (&names.symbols[id], &names.symbols[*member]);
                of.whole.start <= member.span.start && member.span.end <= of.whole.end
            };
            let children: Vec<_> = own.filter(inside).map(|member| make(member, None)).collect();
            make(id, (!children.is_empty()).then_some(children))
        })
        .collect();
    for item in &document.parsed().program.items {
        let StmtKind::Decl(decl) = &item.kind else { continue };
        let DeclKind::Impl(block) = &decl.kind else { continue };
        let method = |method: &Method| DocumentSymbol {
            name: method.decl.name.name.to_string(),
            detail: None,
            kind: SymbolKind::METHOD,
            tags: None,
            deprecated: None,
            range: document.range(method.decl.name.span.to(method.decl.func.span)),
            selection_range: document.range(method.decl.name.span),
            children: None,
        };
        let named = |method: &&Method| !method.decl.name.name.is_empty();
        found.push(DocumentSymbol {
            name: format!("impl {}", block.name.name),
            detail: None,
            kind: SymbolKind::OBJECT,
            tags: None,
            deprecated: None,
            range: document.range(decl.span.to(block.name.span)),
            selection_range: document.range(block.name.span),
            children: Some(block.methods.iter().filter(named).map(method).collect()),
        });
    }
    found.sort_by_key(|symbol| symbol.range.start);
    found
}

/// Returns the symbols of the workspace whose names contain the letters of a query in order.
#[expect(deprecated, reason = "a field of the protocol's own type")]
pub(crate) fn workspace_symbols(workspace: &Workspace<'_>, query: &str) -> Vec<SymbolInformation> {
    let mut found = Vec::new();
    for document in workspace.programs() {
        let names = document.names();
        for symbol in names.symbols.iter().filter(|symbol| symbol.top && symbol.kind != Kind::Import) {
            if !matches_query(&symbol.name, query) {
                continue;
            }
            found.push(SymbolInformation {
                name: symbol.name.to_string(),
                kind: kind_of(symbol.kind),
                tags: None,
                deprecated: None,
                location: document.location(symbol.span),
                container_name: symbol.owner.map(|owner| names.symbols[owner].name.to_string()),
            });
        }
    }
    found
}

fn matches_query(name: &str, query: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    query.chars().flat_map(char::to_lowercase).all(|wanted| letters.any(|letter| letter == wanted))
}

/// Returns foldable ranges: brackets, comments and imports of more than one line.
pub(crate) fn folding(document: &Document) -> Vec<FoldingRange> {
    let parsed = document.parsed();
    let line = |offset: u32| document.lines.line(offset);
    let mut found = Vec::new();
    let mut add = |start: u32, end: u32, kind: Option<FoldingRangeKind>| {
        if end > start {
            found.push(FoldingRange { start_line: start, end_line: end, kind, ..FoldingRange::default() });
        }
    };
    let mut open: Vec<u32> = Vec::new();
    for token in &parsed.tokens {
        if token.kind.opens() {
            open.push(token.span.start);
        } else if token.kind.closes()
            && let Some(start) = open.pop()
        {
            // The line of the closing bracket remains visible.
            add(line(start), line(token.span.start).saturating_sub(1), None);
        }
    }
    let mut run: Option<(u32, u32)> = None;
    for comment in &parsed.program.comments {
        let (start, end) = (line(comment.span.start), line(comment.span.end));
        let alone = document.text
            [document.lines.start(start, &document.text) as usize..comment.span.start as usize]
            .trim()
            .is_empty();
        run = match run {
            Some((first, last)) if alone && start == last + 1 => Some((first, end)),
            Some((first, last)) => {
                add(first, last, Some(FoldingRangeKind::Comment));
                alone.then_some((start, end))
            }
            None => alone.then_some((start, end)),
        };
    }
    if let Some((first, last)) = run {
        add(first, last, Some(FoldingRangeKind::Comment));
    }
    let mut imports = parsed.program.imports();
    if let Some(first) = imports.next() {
        let last = imports.last().unwrap_or(first);
        add(line(first.span.start), line(last.span.end), Some(FoldingRangeKind::Imports));
    }
    found.sort_by_key(|range| (range.start_line, range.end_line));
    found.dedup_by_key(|range| (range.start_line, range.end_line));
    found
}

/// Returns the nodes of the tree around a position, the smallest first.
pub(crate) fn selection(document: &Document, position: Position) -> SelectionRange {
    let offset = document.offset(position);
    let mut spans = Spans { offset, found: vec![Span::new(0, document.text.len() as u32)] };
    spans.stmts(&document.parsed().program.items);
    let word = document.parsed().tokens.iter().find(|token| {
        token.kind != TokenKind::Newline && token.span.start <= offset && offset <= token.span.end
    });
    spans.found.extend(word.map(|token| token.span));
    spans.found.sort_by_key(|span| (std::cmp::Reverse(span.len()), span.start));
    spans.found.dedup();
    let mut chain: Option<SelectionRange> = None;
    let mut outer: Option<Span> = None;
    for span in spans.found {
        if outer.is_some_and(|outer| span.start < outer.start || span.end > outer.end) {
            continue;
        }
        outer = Some(span);
        chain = Some(SelectionRange { range: document.range(span), parent: chain.map(Box::new) });
    }
    chain.unwrap_or(SelectionRange { range: document.range(Span::at(offset)), parent: None })
}

struct Spans {
    offset: u32,
    found: Vec<Span>,
}

impl Spans {
    fn add(&mut self, span: Span) -> bool {
        let inside = span.start <= self.offset && self.offset <= span.end;
        if inside && !span.is_empty() {
            self.found.push(span);
        }
        inside
    }
}

impl<'a> Visitor<'a> for Spans {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if self.add(stmt.span) {
            visit::walk_stmt(self, stmt);
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        if self.add(expr.span) {
            visit::walk_expr(self, expr);
        }
    }

    fn block(&mut self, block: &'a Block) {
        if self.add(block.span) {
            self.stmts(&block.stmts);
        }
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        if self.add(arm.span) {
            visit::walk_match_arm(self, arm);
        }
    }
}

/// Returns the files that the imports of a program name.
pub(crate) fn links(workspace: &Workspace<'_>, document: &Rc<Document>) -> Vec<DocumentLink> {
    let imports = document.parsed().program.imports();
    imports
        .filter_map(|import| match workspace.target(&import.path, document.dir())? {
            Target::File(path) => {
                let path = workspace.host.system().canonical(&path).unwrap_or(path);
                Some(DocumentLink {
                    range: document.range(import.path_span),
                    target: Some(uri_of(&path)?),
                    tooltip: None,
                    data: None,
                })
            }
            Target::Std(_) => None,
        })
        .collect()
}
