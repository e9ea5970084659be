//! Whether a text and its formatted form are the same program.

use std::collections::HashSet;

use harn_syntax::Span;

use harn_syntax::token::{Comment, Token, TokenKind};

/// What a program says: its tokens and comments, without what layout changes.
pub(crate) struct Words<'s> {
    tokens: Vec<&'s str>,
    comments: Vec<String>,
}

impl<'s> Words<'s> {
    /// Those of a text whose tokens are laid out. `lists` are the types that are written `[T]` and become `list<T>`.
    pub(crate) fn of(source: &'s str, laid_out: &[Token], of_text: &[Comment], lists: &[Span]) -> Words<'s> {
        let mut comments = comments(source, of_text);
        // A comment within a line moves to its end, and may pass another there.
        comments.sort_unstable();
        Words { tokens: tokens(source, laid_out, lists), comments }
    }

    /// Compares with those of the formatted text.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check(self, after: Words<'_>) -> Result<(), String> {
        if self.comments.len() != after.comments.len() {
            return Err(format!("{} comments would become {}", self.comments.len(), after.comments.len()));
        }
        if let Some((was, _)) = self.comments.iter().zip(&after.comments).find(|(was, is)| was != is) {
            return Err(format!("the comment `{}` would change", was.lines().next().unwrap_or("")));
        }
        let (old, new) = (self.tokens, after.tokens);
        match old.iter().zip(&new).position(|(was, is)| was != is) {
            Some(at) => Err(format!("`{}` would become `{}`", old[at], new[at])),
            None if old.len() != new.len() => Err(format!("{} tokens would become {}", old.len(), new.len())),
            None => Ok(()),
        }
    }
}

/// The comments, without what layout changes: blanks around their lines, the length of lines of dashes.
fn comments(source: &str, comments: &[Comment]) -> Vec<String> {
    let text = |span: Span| {
        let text = span.slice(source);
        if text
            .strip_prefix("//")
            .is_some_and(|bar| bar.trim().len() >= 4 && bar.trim().bytes().all(|b| b == b'-'))
        {
            return "// ----".to_owned();
        }
        text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
    };
    comments.iter().map(|comment| text(comment.span)).collect()
}

/// The tokens without those that layout adds and takes away, the imports in order of their text.
fn tokens<'s>(source: &'s str, laid_out: &[Token], lists: &[Span]) -> Vec<&'s str> {
    let starts: HashSet<u32> = lists.iter().map(|span| span.start).collect();
    let ends: HashSet<u32> = lists.iter().map(|span| span.end).collect();
    let mut out = Vec::with_capacity(laid_out.len());
    let mut imports: Vec<Vec<&'s str>> = Vec::new();
    let mut tokens = laid_out.iter().peekable();
    while let Some(token) = tokens.next() {
        if token.kind == TokenKind::Import {
            let mut import = vec!["import"];
            if out.last() == Some(&"pub") {
                out.pop();
                import.push("pub");
            }
            for part in tokens.by_ref() {
                import.extend(text_of(source, part));
                if matches!(part.kind, TokenKind::Str | TokenKind::RawStr | TokenKind::Eof) {
                    break;
                }
            }
            import.sort_unstable();
            imports.push(import);
            continue;
        }
        match token.kind {
            TokenKind::LBracket if starts.contains(&token.span.start) => out.extend(["list", "<"]),
            TokenKind::RBracket if ends.contains(&token.span.end) => out.push(">"),
            _ => out.extend(text_of(source, token)),
        }
    }
    imports.sort_unstable();
    out.extend(imports.into_iter().flatten());
    out
}

fn text_of<'s>(source: &'s str, token: &Token) -> Option<&'s str> {
    use TokenKind::{Comma, Eof, LParen, Newline, NotIn, RParen, Semi, Str};
    let text = token.span.slice(source);
    match token.kind {
        Eof | Newline | Comma | Semi | LParen | RParen => None,
        // Two words, however far apart.
        NotIn => Some("not in"),
        // Keys of dicts lose quotes that they do not need.
        Str => Some(text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)),
        _ => Some(text),
    }
}
