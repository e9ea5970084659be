//! Semantic tokens: the kind of each name.

use harn_front::SymbolKind;
use harn_syntax::Span;
use harn_syntax::token::TokenKind;
use lsp_types::{SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};
use rustc_hash::FxHashMap;

use crate::document::Document;
use crate::workspace::Workspace;

/// The token types, by number.
const TYPES: [(&str, SemanticTokenType); 16] = [
    ("function", SemanticTokenType::FUNCTION),
    ("variable", SemanticTokenType::VARIABLE),
    ("parameter", SemanticTokenType::PARAMETER),
    ("enum", SemanticTokenType::ENUM),
    ("enumMember", SemanticTokenType::ENUM_MEMBER),
    ("struct", SemanticTokenType::STRUCT),
    ("property", SemanticTokenType::PROPERTY),
    ("method", SemanticTokenType::METHOD),
    ("type", SemanticTokenType::TYPE),
    ("interface", SemanticTokenType::INTERFACE),
    ("typeParameter", SemanticTokenType::TYPE_PARAMETER),
    ("keyword", SemanticTokenType::KEYWORD),
    ("string", SemanticTokenType::STRING),
    ("number", SemanticTokenType::NUMBER),
    ("comment", SemanticTokenType::COMMENT),
    ("decorator", SemanticTokenType::DECORATOR),
];

const DECLARATION: u32 = 1;
const READONLY: u32 = 2;
const DEFAULT_LIBRARY: u32 = 4;

pub(crate) fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: TYPES.iter().map(|(_, ty)| ty.clone()).collect(),
        token_modifiers: vec![
            SemanticTokenModifier::DECLARATION,
            SemanticTokenModifier::READONLY,
            SemanticTokenModifier::DEFAULT_LIBRARY,
        ],
    }
}

fn number(name: &str) -> u32 {
    TYPES.iter().position(|(known, _)| *known == name).unwrap_or(0) as u32
}

fn of_symbol(kind: SymbolKind) -> (&'static str, u32) {
    match kind {
        SymbolKind::Function | SymbolKind::Pipeline | SymbolKind::Tool | SymbolKind::Import => {
            ("function", 0)
        }
        SymbolKind::Skill | SymbolKind::EvalPack => ("variable", READONLY),
        SymbolKind::Enum => ("enum", 0),
        SymbolKind::Variant => ("enumMember", 0),
        SymbolKind::Struct => ("struct", 0),
        SymbolKind::Field => ("property", 0),
        SymbolKind::Method => ("method", 0),
        SymbolKind::Type => ("type", 0),
        SymbolKind::Interface => ("interface", 0),
        SymbolKind::TypeParam => ("typeParameter", 0),
        SymbolKind::Let => ("variable", READONLY),
        SymbolKind::Var => ("variable", 0),
        SymbolKind::Param => ("parameter", 0),
    }
}

/// Returns the semantic tokens of a file, or of a part of it.
pub(crate) fn tokens(
    workspace: &Workspace<'_>,
    document: &Document,
    within: Option<Span>,
) -> Vec<SemanticToken> {
    let names = document.names();
    let signatures = workspace.world().signatures;
    let mut known: FxHashMap<u32, (&'static str, u32)> = FxHashMap::default();
    for member in &names.members {
        known.insert(member.span.start, (if member.call { "method" } else { "property" }, 0));
    }
    for used in &names.uses {
        let meant = match used.symbol {
            Some(id) => of_symbol(names.symbols[id].kind),
            None if signatures.is_builtin(&used.name) => ("function", DEFAULT_LIBRARY),
            None => continue,
        };
        known.insert(used.span.start, meant);
    }
    for symbol in &names.symbols {
        let (ty, modifiers) = of_symbol(symbol.kind);
        known.insert(symbol.span.start, (ty, modifiers | DECLARATION));
    }
    let mut pieces: Vec<(Span, &'static str, u32)> = Vec::new();
    let parsed = document.parsed();
    let mut after_at = false;
    for token in &parsed.tokens {
        let decorates = std::mem::replace(&mut after_at, token.kind == TokenKind::At);
        let piece = match token.kind {
            TokenKind::Ident if decorates => ("decorator", 0),
            kind if kind.is_word() => match known.get(&token.span.start) {
                Some(&meant) => meant,
                None if kind.is_keyword() => ("keyword", 0),
                None => continue,
            },
            TokenKind::Int | TokenKind::Float | TokenKind::Duration => ("number", 0),
            TokenKind::Str
            | TokenKind::RawStr
            | TokenKind::StrStart
            | TokenKind::StrText
            | TokenKind::StrEnd => ("string", 0),
            _ => continue,
        };
        pieces.push((token.span, piece.0, piece.1));
    }
    pieces.extend(parsed.program.comments.iter().map(|comment| (comment.span, "comment", 0)));
    pieces.retain(|(span, ..)| within.is_none_or(|part| span.start < part.end && span.end > part.start));
    pieces.sort_by_key(|(span, ..)| (span.start, span.end));
    encode(document, &pieces)
}

/// Encodes tokens for the protocol: positions relative to the previous token; multi-line tokens are
/// split.
fn encode(document: &Document, pieces: &[(Span, &'static str, u32)]) -> Vec<SemanticToken> {
    let mut out = Vec::with_capacity(pieces.len());
    let (mut line, mut column, mut end) = (0, 0, 0);
    for &(span, ty, modifiers) in pieces {
        let mut start = span.start.max(end);
        while start < span.end {
            let text = document.slice(Span::new(start, span.end));
            let length = text.find(['\n', '\r']).unwrap_or(text.len());
            let units: usize = text[..length].chars().map(char::len_utf16).sum();
            if units > 0 {
                let place = document.lines.position(&document.text, start);
                let delta_line = place.line - line;
                let delta_start = if delta_line == 0 { place.character - column } else { place.character };
                out.push(SemanticToken {
                    delta_line,
                    delta_start,
                    length: units as u32,
                    token_type: number(ty),
                    token_modifiers_bitset: modifiers,
                });
                (line, column) = (place.line, place.character);
            }
            start += length as u32 + 1;
        }
        end = end.max(span.end);
    }
    out
}
