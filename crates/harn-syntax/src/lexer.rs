//! The lexer: converts source text to tokens.
//!
//! `logos` finds the plain tokens; this module scans strings, block comments and names with non-ASCII letters from
//! the first character found by `logos`. There is no recursion: strings interrupted by an interpolation are pushed
//! on a stack, so `"a${"b${c}"}"` becomes one flat list.

use logos::Logos;
use smol_str::SmolStr;

use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::span::Span;
use crate::strings::{self, TextEnd};
use crate::token::{Comment, CommentKind, Token, TokenKind};
use crate::{MAX_ERRORS, MAX_NESTING};

/// The result of lexing.
#[derive(Debug, Default)]
pub struct Lexed {
    /// The tokens including every newline; the last one is [`TokenKind::Eof`].
    pub tokens: Vec<Token>,
    /// The contents of strings that differ from their source; see [`Token::link`].
    pub texts: Vec<SmolStr>,
    /// All comments.
    pub comments: Vec<Comment>,
    /// The `#!` line.
    pub shebang: Option<Span>,
    /// All errors in source order.
    pub errors: Vec<SyntaxError>,
    /// Whether lexing was aborted (nesting limit); the tokens are then not parsed.
    pub aborted: bool,
}

/// Splits a source into tokens.
pub fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer { source, out: Lexed::default(), strings: Vec::new(), open: 0 };
    if u32::try_from(source.len()).is_err() {
        lexer.abort(SyntaxErrorKind::TooLong, Span::at(0));
        return lexer.out;
    }
    // Skips the byte order mark that some editors write.
    let mut start = if source.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
    if source[start..].starts_with("#!") {
        let begin = start;
        start = source.find('\n').unwrap_or(source.len());
        lexer.out.shebang = Some(Span::new(begin as u32, start as u32));
    }
    lexer.run(start);
    lexer.out
}

/// A string interrupted by an open interpolation.
struct OpenString {
    /// The opening quote.
    quote: Span,
    /// Written with `"""`.
    triple: bool,
    /// Braces open inside the current interpolation.
    braces: u32,
    /// Index of its first token in the token list.
    first_token: usize,
    /// Number of open brackets at the start of its current interpolation.
    open: usize,
}

struct Lexer<'s> {
    source: &'s str,
    out: Lexed,
    strings: Vec<OpenString>,
    /// Number of open brackets and interpolations.
    open: usize,
}

impl Lexer<'_> {
    fn run(&mut self, start: usize) {
        let mut at = start;
        // `logos` is restarted after everything scanned by hand; creating a lexer is cheap.
        while !self.out.aborted {
            let mut logos = TokenKind::lexer(&self.source[at..]);
            let mut stop = None;
            while let Some(result) = logos.next() {
                let span = Span::new((at + logos.span().start) as u32, (at + logos.span().end) as u32);
                match result {
                    Ok(kind) => {
                        if let Some(next) = self.token(kind, span) {
                            stop = Some(next);
                            break;
                        }
                    }
                    Err(()) => {
                        stop = Some(self.unknown(span));
                        break;
                    }
                }
            }
            match stop {
                Some(next) => at = next,
                None => break,
            }
        }
        self.finish();
    }

    /// Processes a token found by `logos`. Returns the offset at which lexing continues if more than the token was
    /// consumed.
    fn token(&mut self, kind: TokenKind, span: Span) -> Option<usize> {
        match kind {
            TokenKind::LineComment => Some(self.line_comment(span)),
            TokenKind::BlockComment => Some(self.block_comment(span)),
            TokenKind::Str => Some(self.string(span, false)),
            TokenKind::StrStart => Some(self.string(span, true)),
            TokenKind::RawStr => Some(self.raw_string(span)),
            TokenKind::Int | TokenKind::Float | TokenKind::Duration => self.number(kind, span),
            TokenKind::Newline => {
                if self.out.tokens.last().is_none_or(|last| last.kind != TokenKind::Newline) {
                    self.push(kind, span);
                }
                None
            }
            TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => {
                self.open_bracket(span);
                if kind == TokenKind::LBrace
                    && let Some(string) = self.strings.last_mut()
                {
                    string.braces += 1;
                }
                self.push(kind, span);
                self.out.aborted.then_some(self.source.len())
            }
            TokenKind::RBrace => match self.strings.last_mut() {
                Some(string) if string.braces == 0 => Some(self.end_interpolation(span)),
                string => {
                    if let Some(string) = string {
                        string.braces -= 1;
                    }
                    self.close_bracket(kind, span);
                    None
                }
            },
            TokenKind::RParen | TokenKind::RBracket => {
                self.close_bracket(kind, span);
                None
            }
            _ if kind.is_word() => self.word(kind, span),
            _ => {
                self.push(kind, span);
                None
            }
        }
    }

    fn push(&mut self, kind: TokenKind, span: Span) {
        self.push_linked(kind, span, 0);
    }

    fn push_linked(&mut self, kind: TokenKind, span: Span, link: u32) {
        let spaced = self.out.tokens.last().is_none_or(|last| last.span.end != span.start);
        self.out.tokens.push(Token { kind, spaced, span, link });
    }

    fn error(&mut self, kind: SyntaxErrorKind, span: Span) {
        self.out.errors.push(SyntaxError { kind, span });
        self.out.aborted |= self.out.errors.len() >= MAX_ERRORS;
    }

    fn abort(&mut self, kind: SyntaxErrorKind, span: Span) {
        self.error(kind, span);
        self.out.aborted = true;
    }

    fn open_bracket(&mut self, span: Span) {
        self.open += 1;
        if self.open > MAX_NESTING {
            self.abort(SyntaxErrorKind::NestingTooDeep, span);
        }
    }

    fn close_bracket(&mut self, kind: TokenKind, span: Span) {
        self.open = self.open.saturating_sub(1);
        self.push(kind, span);
    }

    /// Processes a name or keyword; non-ASCII letters may follow the part that `logos` matched.
    fn word(&mut self, kind: TokenKind, span: Span) -> Option<usize> {
        let rest = &self.source[span.end as usize..];
        if !rest.starts_with(|c: char| !c.is_ascii() && c.is_alphanumeric()) {
            self.push(kind, span);
            return None;
        }
        let end = span.end as usize + word_len(rest);
        self.push(TokenKind::Ident, Span::new(span.start, end as u32));
        Some(end)
    }

    /// Processes a character unknown to `logos`: the start of a non-ASCII name, or an error.
    fn unknown(&mut self, span: Span) -> usize {
        let start = span.start as usize;
        let rest = &self.source[start..];
        let Some(c) = rest.chars().next() else { return self.source.len() };
        if c.is_alphabetic() {
            let end = start + word_len(rest);
            self.push(TokenKind::Ident, Span::new(span.start, end as u32));
            return end;
        }
        let end = start + c.len_utf8();
        let span = Span::new(span.start, end as u32);
        self.error(SyntaxErrorKind::UnexpectedCharacter(c), span);
        self.push(TokenKind::Unknown, span);
        end
    }

    /// Processes a number. A name directly after it is an error, not a second token.
    fn number(&mut self, kind: TokenKind, span: Span) -> Option<usize> {
        self.push(kind, span);
        let suffix_len = word_len(&self.source[span.end as usize..]);
        if suffix_len == 0 {
            return None;
        }
        let end = span.end as usize + suffix_len;
        let unit_len = if kind == TokenKind::Duration {
            span.slice(self.source).bytes().rev().take_while(u8::is_ascii_alphabetic).count()
        } else {
            0
        };
        let suffix = Span::new(span.end - unit_len as u32, end as u32);
        if let Some(c) = suffix.slice(self.source).chars().next() {
            self.error(SyntaxErrorKind::NumberSuffix(c), suffix);
        }
        if let Some(last) = self.out.tokens.last_mut() {
            *last = Token { kind: TokenKind::Int, span: Span::new(span.start, end as u32), ..*last };
        }
        Some(end)
    }

    fn line_comment(&mut self, span: Span) -> usize {
        let start = span.start as usize;
        let text = &self.source[start..];
        let len = text.find('\n').unwrap_or(text.len());
        let text = text[..len].trim_end_matches('\r');
        let doc = text.starts_with("///") && !text.starts_with("////");
        let kind = if doc { CommentKind::DocLine } else { CommentKind::Line };
        let span = Span::new(span.start, (start + text.len()) as u32);
        self.out.comments.push(Comment { kind, span });
        start + len
    }

    fn block_comment(&mut self, span: Span) -> usize {
        let start = span.start as usize;
        let bytes = self.source.as_bytes();
        let mut at = span.end as usize;
        let mut depth = 1;
        while depth > 0 {
            match bytes.get(at..at + 2) {
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                Some(b"/*") => (depth, at) = (depth + 1, at + 2),
                Some(_) => at += 1,
                None => {
                    self.error(SyntaxErrorKind::UnterminatedComment, span);
                    return bytes.len();
                }
            }
        }
        let text = &self.source[start..at];
        let doc = text.starts_with("/**") && !text.starts_with("/***") && text != "/**/";
        let kind = if doc { CommentKind::DocBlock } else { CommentKind::Block };
        self.out.comments.push(Comment { kind, span: Span::new(span.start, at as u32) });
        at
    }

    fn raw_string(&mut self, open: Span) -> usize {
        let start = open.end as usize;
        let rest = &self.source[start..];
        let len = rest.find(['"', '\n']).unwrap_or(rest.len());
        if rest[len..].starts_with('"') {
            let end = start + len + 1;
            self.push(TokenKind::RawStr, Span::new(open.start, end as u32));
            return end;
        }
        self.unterminated(Span::new(open.start, open.end), start + len)
    }

    fn string(&mut self, quote: Span, triple: bool) -> usize {
        let first_token = self.out.tokens.len();
        self.string_text(
            OpenString { quote, triple, braces: 0, first_token, open: self.open },
            quote.end as usize,
        )
    }

    /// Scans literal text of `string` from `at` to the closing quote or the next interpolation.
    fn string_text(&mut self, mut string: OpenString, at: usize) -> usize {
        let end = strings::scan(&self.source[at..], string.triple);
        match end {
            TextEnd::Quote { len } => self.close_string(string, at, at + len),
            TextEnd::Interpolation { len } => {
                let open_at = (at + len) as u32;
                if self.out.tokens.len() == string.first_token {
                    self.push(TokenKind::StrStart, string.quote);
                }
                self.push_text(Span::new(at as u32, open_at), string.triple);
                let open = Span::new(open_at, open_at + 2);
                self.push(TokenKind::InterpStart, open);
                string.open = self.open;
                self.open_bracket(open);
                self.strings.push(string);
                open.end as usize
            }
            TextEnd::Missing { len } => self.abandon(string, at + len),
        }
    }

    /// Reports a string without closing quote. `end` is the offset of the line feed or of the end of the file.
    fn abandon(&mut self, string: OpenString, end: usize) -> usize {
        // The quote of the outermost string that begins on this line is missing; it contains everything up to the
        // line feed.
        let mut missing = string;
        while let Some(outer) = self.strings.last() {
            if outer.triple || self.source[outer.quote.start as usize..end].contains('\n') {
                break;
            }
            self.open = outer.open;
            if let Some(outer) = self.strings.pop() {
                missing = outer;
            }
        }
        self.out.tokens.truncate(missing.first_token);
        let end = self.unterminated(missing.quote, end);
        match self.strings.pop() {
            // Continues with the literal text of the enclosing string and drops its broken interpolation.
            Some(outer) if outer.triple && end < self.source.len() => {
                self.open = outer.open;
                self.drop_interpolation();
                self.push(TokenKind::InterpEnd, Span::at(end as u32));
                self.string_text(outer, end)
            }
            Some(outer) => {
                self.strings.push(outer);
                end
            }
            None => end,
        }
    }

    /// Removes the tokens after the last unclosed `${`.
    fn drop_interpolation(&mut self) {
        let mut closed = 0_usize;
        while let Some(last) = self.out.tokens.last() {
            match last.kind {
                TokenKind::InterpEnd => closed += 1,
                TokenKind::InterpStart if closed == 0 => return,
                TokenKind::InterpStart => closed -= 1,
                _ => {}
            }
            self.out.tokens.pop();
        }
    }

    /// Reports a string without closing quote and inserts a string token instead.
    fn unterminated(&mut self, quote: Span, end: usize) -> usize {
        self.error(SyntaxErrorKind::UnterminatedString, quote);
        self.out.texts.push(SmolStr::default());
        self.push_linked(TokenKind::Str, Span::new(quote.start, end as u32), self.out.texts.len() as u32);
        end
    }

    fn push_text(&mut self, span: Span, triple: bool) {
        if span.is_empty() {
            return;
        }
        let link = if triple { 0 } else { self.cook(span) };
        self.push_linked(TokenKind::StrText, span, link);
    }

    /// Resolves escapes; returns the link of the resulting content, or 0 if it equals the source.
    fn cook(&mut self, span: Span) -> u32 {
        let raw = span.slice(self.source);
        if !raw.contains('\\') {
            return 0;
        }
        let (text, bad) = strings::unescape(raw);
        for range in bad {
            let span = Span::new(span.start + range.start as u32, span.start + range.end as u32);
            self.error(SyntaxErrorKind::InvalidUnicodeEscape, span);
        }
        self.out.texts.push(text);
        self.out.texts.len() as u32
    }

    fn close_string(&mut self, string: OpenString, text_start: usize, text_end: usize) -> usize {
        let quotes = if string.triple { 3 } else { 1 };
        let end = text_end + quotes;
        let text = Span::new(text_start as u32, text_end as u32);
        if self.out.tokens.len() == string.first_token {
            let link = if string.triple {
                let mut parts = [strings::Piece::Text(text.slice(self.source).into())];
                strings::dedent(&mut parts);
                let [strings::Piece::Text(text) | strings::Piece::Hole(text)] = parts;
                self.out.texts.push(text.into());
                self.out.texts.len() as u32
            } else {
                self.cook(text)
            };
            self.push_linked(TokenKind::Str, Span::new(string.quote.start, end as u32), link);
            return end;
        }
        self.push_text(text, string.triple);
        if string.triple {
            self.dedent_tokens(string.first_token);
        }
        self.push(TokenKind::StrEnd, Span::new(text_end as u32, end as u32));
        end
    }

    /// Strips the common indentation of a `"""` string that consists of several tokens.
    fn dedent_tokens(&mut self, first_token: usize) {
        let mut pieces = Vec::new();
        let mut depth = 0_u32;
        for token in &self.out.tokens[first_token + 1..] {
            match token.kind {
                TokenKind::InterpStart => {
                    if depth == 0 {
                        pieces.push(strings::Piece::Hole(String::new()));
                    }
                    depth += 1;
                }
                TokenKind::InterpEnd => depth = depth.saturating_sub(1),
                TokenKind::StrText if depth == 0 => {
                    pieces.push(strings::Piece::Text(token.span.slice(self.source).into()));
                }
                _ => {}
            }
        }
        strings::dedent(&mut pieces);
        let mut texts = pieces.into_iter().filter_map(|piece| match piece {
            strings::Piece::Text(text) => Some(text),
            strings::Piece::Hole(_) => None,
        });
        for token in &mut self.out.tokens[first_token + 1..] {
            match token.kind {
                TokenKind::InterpStart => depth += 1,
                TokenKind::InterpEnd => depth = depth.saturating_sub(1),
                TokenKind::StrText if depth == 0 => {
                    self.out.texts.push(texts.next().unwrap_or_default().into());
                    token.link = self.out.texts.len() as u32;
                }
                _ => {}
            }
        }
    }

    /// Processes the `}` that ends the interpolation of the innermost interrupted string.
    fn end_interpolation(&mut self, span: Span) -> usize {
        let Some(string) = self.strings.pop() else { return span.end as usize };
        self.open = self.open.saturating_sub(1);
        let code = self.out.tokens.iter().rev().find(|token| token.kind != TokenKind::Newline);
        if code.is_none_or(|token| token.kind == TokenKind::InterpStart) {
            self.error(SyntaxErrorKind::UnexpectedCharacter('}'), span);
        }
        self.push(TokenKind::InterpEnd, span);
        self.string_text(string, span.end as usize)
    }

    fn finish(&mut self) {
        if !self.out.aborted
            && let Some(string) = self.strings.first()
        {
            let (quote, first_token) = (string.quote, string.first_token);
            self.out.tokens.truncate(first_token);
            self.unterminated(quote, self.source.len());
        }
        self.out.errors.sort_by_key(|error| error.span.start);
        let end = self.out.tokens.iter().rev().find(|token| token.kind != TokenKind::Newline);
        let end = end.map_or(0, |token| token.span.end);
        self.push(TokenKind::Eof, Span::at(end));
    }
}

/// Returns the length of the name (letters, digits, `_`) at the start of `text`.
fn word_len(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}
