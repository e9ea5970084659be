//! Checks that a source and its formatted form are the same program.

use std::borrow::Cow;
use std::collections::HashSet;

use harn_syntax::Span;
use harn_syntax::token::{Comment, CommentKind, Token, TokenKind};

use crate::comments::title;

/// The tokens and comments of a program, without differences of layout.
pub(crate) struct Words<'s> {
    tokens: Vec<Cow<'s, str>>,
    comments: Vec<String>,
}

impl<'s> Words<'s> {
    /// Creates the words of a source whose tokens have a layout. `lists` are the types that are written `[T]` and
    /// become `list<T>`.
    pub(crate) fn of(source: &'s str, laid_out: &[Token], of_text: &[Comment], lists: &[Span]) -> Words<'s> {
        let mut comments = comments(source, of_text);
        // A comment within a line moves to its end, possibly past another one.
        comments.sort_unstable();
        Words { tokens: tokens(source, laid_out, lists), comments }
    }

    /// Compares with those of the formatted text.
    ///
    /// # Errors
    /// The difference.
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

/// Returns the comments without differences of layout: whitespace around their lines, the length of lines of dashes.
/// Doc comments are compared by their lines, because their delimiters may change.
fn comments(source: &str, comments: &[Comment]) -> Vec<String> {
    let mut out = Vec::with_capacity(comments.len());
    for comment in comments {
        let text = comment.span.slice(source);
        if matches!(comment.kind, CommentKind::DocBlock | CommentKind::DocLine) {
            let said = |line: &str| line.replace(|c: char| c.is_whitespace() || c == '*' || c == '/', "");
            out.extend(text.lines().map(said).filter(|line| !line.is_empty()));
        } else if let Some(title) = title(text) {
            out.push(format!("// ---- {title}"));
        } else {
            out.push(text.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
        }
    }
    out
}

/// Returns the tokens without those that layout adds or removes, with imports sorted.
fn tokens<'s>(source: &'s str, laid_out: &[Token], lists: &[Span]) -> Vec<Cow<'s, str>> {
    let starts: HashSet<u32> = lists.iter().map(|span| span.start).collect();
    let ends: HashSet<u32> = lists.iter().map(|span| span.end).collect();
    let mut out: Vec<Cow<'s, str>> = Vec::with_capacity(laid_out.len());
    let mut imports: Vec<Vec<Cow<'s, str>>> = Vec::new();
    let mut tokens = laid_out.iter().peekable();
    while let Some(token) = tokens.next() {
        if token.kind == TokenKind::Import {
            let mut import = vec!["import".into()];
            if out.last().is_some_and(|word| word == "pub") {
                out.pop();
                import.push("pub".into());
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
            TokenKind::LBracket if starts.contains(&token.span.start) => {
                out.extend(["list".into(), "<".into()])
            }
            TokenKind::RBracket if ends.contains(&token.span.end) => out.push(">".into()),
            _ => out.extend(text_of(source, token)),
        }
    }
    imports.sort_unstable();
    out.extend(imports.into_iter().flatten());
    out
}

fn text_of<'s>(source: &'s str, token: &Token) -> Option<Cow<'s, str>> {
    use TokenKind::{Comma, Duration, Eof, Float, LParen, Newline, NotIn, RParen, Semi, Str};
    let text = token.span.slice(source);
    match token.kind {
        Eof | Newline | Comma | Semi | LParen | RParen => None,
        // Two keywords with any distance.
        NotIn => Some("not in".into()),
        // Redundant quotes of dict keys are removed.
        Str => Some(text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text).into()),
        // Equal numbers have one form.
        Float => text
            .replace('_', "")
            .parse::<f64>()
            .ok()
            .map(|value| format!("{:#x} float", value.to_bits()).into()),
        Duration => Some(milliseconds(text).map_or(text.into(), |length| format!("{length}ms").into())),
        _ => Some(text.into()),
    }
}

/// The length of a duration.
fn milliseconds(text: &str) -> Option<i64> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    digits.replace('_', "").parse::<i64>().ok()?.checked_mul(factor)
}
