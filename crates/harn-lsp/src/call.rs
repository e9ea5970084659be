//! The call around a position, and signature help.

use std::rc::Rc;

use harn_front::SymbolKind;
use harn_syntax::Span;
use harn_syntax::ast::{Decl, DeclKind, Param, StmtKind};
use harn_syntax::token::TokenKind;
use lsp_types::{
    Documentation, MarkupContent, MarkupKind, ParameterInformation, ParameterLabel, SignatureHelp,
    SignatureInformation,
};

use crate::document::Document;
use crate::hover;
use crate::meaning::{self, Meaning};
use crate::workspace::Workspace;

/// An incomplete call.
pub(crate) struct Call {
    /// The span of the name of the callee.
    pub(crate) callee: Span,
    /// Index of the argument at the offset.
    pub(crate) argument: usize,
}

/// Returns the innermost incomplete call with an argument at an offset; enclosing closures and dicts are skipped.
pub(crate) fn around(document: &Document, offset: u32) -> Option<Call> {
    let tokens = &document.parsed().tokens;
    let mut at = tokens.partition_point(|token| token.span.start < offset);
    let mut argument = 0;
    let mut depth = 0usize;
    while at > 0 {
        at -= 1;
        let kind = tokens[at].kind;
        match kind {
            TokenKind::Eof => {}
            kind if kind.closes() && tokens[at].span.end <= offset => {
                depth += 1;
            }
            kind if kind.opens() && depth > 0 => depth -= 1,
            TokenKind::LParen => {
                let callee = tokens[..at].last().filter(|before| before.kind.is_word());
                let is_declared =
                    at >= 2 && matches!(tokens[at - 2].kind, TokenKind::Fn | TokenKind::Pipeline);
                return callee.filter(|_| !is_declared).map(|callee| Call { callee: callee.span, argument });
            }
            // The call encloses this open bracket.
            kind if kind.opens() => argument = 0,
            TokenKind::Comma if depth == 0 => argument += 1,
            TokenKind::Semi if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

pub(crate) fn help(workspace: &Workspace<'_>, document: &Rc<Document>, offset: u32) -> Option<SignatureHelp> {
    if document.in_comment(offset) {
        return None;
    }
    let call = around(document, offset)?;
    let (meaning, _) = meaning::at(workspace, document, call.callee.start)?;
    let (label, params, doc, rest) = match meaning {
        Meaning::Word(word) if !word.params.is_empty() || word.form.contains('(') => {
            let rest = word.params.last().is_some_and(|param| param.starts_with("..."));
            (word.form, word.params, word.doc, rest)
        }
        Meaning::Symbol(file, id) => {
            let symbol = &file.names().symbols[id];
            let callable = matches!(
                symbol.kind,
                SymbolKind::Function | SymbolKind::Tool | SymbolKind::Pipeline | SymbolKind::Method
            );
            if !callable {
                return None;
            }
            let params = parameters(&file, symbol.whole, symbol.span)?;
            let rest = params.last().is_some_and(|param| param.starts_with("..."));
            let doc = file.comments_above(symbol.whole.start);
            (hover::head(workspace, &file, id), params, doc, rest)
        }
        _ => return None,
    };
    let last = params.len().saturating_sub(1);
    let active = if rest { call.argument.min(last) } else { call.argument };
    let parameters = params
        .into_iter()
        .map(|param| ParameterInformation { label: ParameterLabel::Simple(param), documentation: None })
        .collect();
    Some(SignatureHelp {
        signatures: vec![SignatureInformation {
            label,
            documentation: Some(Documentation::MarkupContent(MarkupContent {
                kind: MarkupKind::Markdown,
                value: doc,
            })),
            parameters: Some(parameters),
            active_parameter: Some(active as u32),
        }],
        active_signature: Some(0),
        active_parameter: Some(active as u32),
    })
}

/// Returns the parameters, as written, of the function whose name has the span `name`.
fn parameters(document: &Document, whole: Span, name: Span) -> Option<Vec<String>> {
    let written = |params: &[Param]| {
        let own = params.iter().filter(|param| param.name.name != "self");
        own.map(|param| document.slice(param.span).to_owned()).collect::<Vec<_>>()
    };
    let items = &document.parsed().program.items;
    let decls = items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) => Some(&**decl),
        _ => None,
    });
    for decl in decls.filter(|decl: &&Decl| decl.span.start <= whole.start && whole.end <= decl.span.end) {
        match &decl.kind {
            DeclKind::Fn(d) if d.name.span == name => return Some(written(&d.func.params)),
            DeclKind::Tool(d) if d.name.span == name => return Some(written(&d.func.params)),
            DeclKind::Pipeline(d) if d.name.span == name => return Some(written(&d.func.params)),
            DeclKind::Impl(d) => {
                let method = d.methods.iter().find(|method| method.decl.name.span == name);
                return method.map(|method| written(&method.decl.func.params));
            }
            DeclKind::Interface(d) => {
                let method = d.methods.iter().find(|method| method.name.span == name);
                return method.map(|method| written(&method.params));
            }
            _ => {}
        }
    }
    // A nested function: its parameters are read from the source between its parentheses.
    let text = document.slice(whole);
    let open = text.get((name.end - whole.start) as usize..)?.find('(')? + (name.end - whole.start) as usize;
    let mut depth = 0usize;
    let mut params = vec![String::new()];
    for c in text[open..].chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 1 => {
                params.push(String::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        let opens = depth == 1 && c == '(' && params[0].is_empty();
        if !opens {
            params.last_mut()?.push(c);
        }
    }
    Some(params.into_iter().map(|param| param.trim().to_owned()).filter(|param| !param.is_empty()).collect())
}
