//! Recognizes type argument lists in the token list, to distinguish `f<T>(x)` from `a < b`.

use crate::token::{Token, TokenKind};

/// Maximum nesting of a type; deeper ones are parsed as comparisons.
const MAX_DEPTH: usize = 32;

/// Returns the index of the `>` that closes the complete type list opened by the `<` at `open`.
pub(crate) fn ends_type_args(tokens: &[Token], open: usize) -> Option<usize> {
    let close = Scan { tokens }.args(open, 0)?;
    Some(close - 1)
}

struct Scan<'t> {
    tokens: &'t [Token],
}

/// Every method takes the index at which a construct begins and returns the index after it.
impl Scan<'_> {
    fn kind(&self, at: usize) -> TokenKind {
        self.tokens.get(at).map_or(TokenKind::Eof, |token| token.kind)
    }

    fn expect(&self, at: usize, kind: TokenKind) -> Option<usize> {
        (self.kind(at) == kind).then_some(at + 1)
    }

    fn skip_newline(&self, at: usize) -> usize {
        at + usize::from(self.kind(at) == TokenKind::Newline)
    }

    /// A list in `<` and `>`, separated by commas; a trailing comma is allowed.
    fn args(&self, at: usize, depth: usize) -> Option<usize> {
        self.list(at + 1, TokenKind::Gt, depth, |at| self.ty(at, depth + 1))
    }

    /// Items up to `close`, separated by commas or newlines.
    fn list(
        &self,
        mut at: usize,
        close: TokenKind,
        depth: usize,
        item: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        loop {
            at = self.skip_newline(at);
            if self.kind(at) == close {
                return Some(at + 1);
            }
            at = item(at)?;
            match self.kind(at) {
                TokenKind::Comma | TokenKind::Newline => at += 1,
                kind if kind == close => {}
                _ => return None,
            }
        }
    }

    fn ty(&self, mut at: usize, depth: usize) -> Option<usize> {
        loop {
            at = self.primary(at, depth)?;
            if self.kind(at) != TokenKind::Pipe {
                return Some(at);
            }
            at += 1;
        }
    }

    fn primary(&self, at: usize, depth: usize) -> Option<usize> {
        match self.kind(at) {
            TokenKind::Ident if matches!(self.kind(at + 1), TokenKind::Lt | TokenKind::LtTypeArgs) => {
                self.args(at + 1, depth)
            }
            TokenKind::Ident
            | TokenKind::Str
            | TokenKind::Int
            | TokenKind::Nil
            | TokenKind::True
            | TokenKind::False => Some(at + 1),
            TokenKind::Minus => self.expect(at + 1, TokenKind::Int),
            TokenKind::LBracket => {
                let end = self.skip_newline(self.ty(at + 1, depth + 1)?);
                self.expect(end, TokenKind::RBracket)
            }
            kind if kind.is_lbrace() => {
                self.list(at + 1, TokenKind::RBrace, depth + 1, |at| self.field(at, depth + 1))
            }
            TokenKind::Fn => {
                let params = self.expect(at + 1, TokenKind::LParen)?;
                let after = self.list(params, TokenKind::RParen, depth + 1, |at| self.ty(at, depth + 1))?;
                self.ty(self.expect(after, TokenKind::Arrow)?, depth + 1)
            }
            _ => None,
        }
    }

    /// A field of a shape type.
    fn field(&self, at: usize, depth: usize) -> Option<usize> {
        if !self.kind(at).is_word() {
            return None;
        }
        let at = at + 1 + usize::from(self.kind(at + 1) == TokenKind::Question);
        self.ty(self.expect(at, TokenKind::Colon)?, depth)
    }
}
