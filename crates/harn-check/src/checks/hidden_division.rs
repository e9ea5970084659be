//! `let half = n // 2`: integer division in Python. In Harn a comment begins, and `half` is `n`.
//!
//! Comments often contain numbers: `let n = len(xs) // 3` documents a value. So this check reports only comments
//! after a lone name, a lone number or redundant parentheses, and only if the comment is just a number from 2 on, or
//! continues with arithmetic.

use harn_syntax::token::{Comment, CommentKind};
use harn_syntax::{Diagnostic, Span};

use crate::codes::HIDDEN_DIVISION;
use crate::pass::Pass;

/// Checks the comments of a file.
pub(crate) fn check(pass: &mut Pass<'_>) {
    let is_name = |name: &str| pass.declared.contains(name);
    let found = hidden_divisions(pass.source.text, &pass.source.tree.comments, is_name);
    found.into_iter().for_each(|found| pass.report(found));
}

/// Returns the findings about the comments of a source.
pub fn hidden_divisions(text: &str, comments: &[Comment], is_name: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for comment in comments.iter().filter(|comment| comment.kind == CommentKind::Line) {
        let start = comment.span.start as usize;
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let code = text[line_start..start].rsplit(['{', ';']).next().unwrap_or_default().trim();
        let Some(divisor) = text[start..comment.span.end as usize].strip_prefix("//").map(str::trim) else {
            continue;
        };
        let Some(value) = divided(code) else { continue };
        if !is_number_or_more(divisor, &is_name) {
            continue;
        }
        let message = format!("`// {divisor}` is a comment: what stands here is `{value}` alone");
        let head = code.strip_suffix(value).unwrap_or_default();
        let help = format!("ints divide without rest by `/`: `{head}{value} / {divisor}`");
        let span = Span::new(comment.span.start, comment.span.end);
        let fix = vec![(span, format!("/ {divisor}"))];
        let found = Diagnostic::warning(message).with_code(HIDDEN_DIVISION).at(span).with_help(help);
        out.push(found.with_fix("divide".to_owned(), fix));
    }
    out
}

/// Returns the value at the end of a statement that could be a dividend.
fn divided(code: &str) -> Option<&str> {
    let value = match code.strip_prefix("return ") {
        Some(value) => value,
        None => code.split_once('=').filter(|(target, _)| is_target(target))?.1,
    };
    let value = value.trim();
    let is_word = value.chars().all(|c| c.is_alphanumeric() || c == '_') && !value.is_empty();
    let is_value = !["true", "false", "nil"].contains(&value);
    (is_word && is_value || is_reckoned(value)).then_some(value)
}

/// `let x`, `var x: int`, `x`, `x +`.
fn is_target(text: &str) -> bool {
    let text = text.trim();
    let name = text.strip_prefix("let ").or_else(|| text.strip_prefix("var ")).unwrap_or(text);
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['+', '-', '*', '/']).trim();
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// `(a + b)`: redundant parentheses.
fn is_reckoned(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else { return false };
    let is_plain = inner.chars().all(|c| c.is_alphanumeric() || " _+-*/%.".contains(c));
    is_plain && inner.contains(['+', '-', '*', '/', '%'])
}

/// A number from 2 on, or a calculation that begins with one.
fn is_number_or_more(text: &str, is_name: impl Fn(&str) -> bool) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut operands = words.iter().step_by(2);
    let first = operands.next().and_then(|word| word.parse::<u64>().ok());
    let is_operand = |word: &&str| word.parse::<f64>().is_ok() || is_name(word);
    let mut signs = words.iter().skip(1).step_by(2);
    first.is_some_and(|number| number > 1)
        && words.len() % 2 == 1
        && signs.all(|sign| ["+", "-", "*", "/", "%"].contains(sign))
        && operands.all(is_operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_on_is_a_division() {
        let names = |name: &str| name == "k";
        for code in [
            "let half = n",
            "var half: int = n",
            "half = n",
            "half += n",
            "return n",
            "let mid = (lo + hi)",
            "let x = 7",
        ] {
            assert!(divided(code).is_some(), "{code}");
        }
        for code in [
            "println(7)",
            "let n = len(xs)",
            "let xs = [1, 2]",
            "f(x",
            "let ok = true",
            "a == b",
            "let s = \"a\"",
            "return",
            "n",
        ] {
            assert!(divided(code).is_none(), "{code}");
        }
        for text in ["2", "10", "2 + 1", "2 * k"] {
            assert!(is_number_or_more(text, names), "{text}");
        }
        for text in
            ["", "1", "0", "two", "2 items", "2.", "2 + more", "2 +", "seconds", "3rd", "2, 3", "-> 2", "3 4"]
        {
            assert!(!is_number_or_more(text, names), "{text}");
        }
    }
}
