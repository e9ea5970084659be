//! Glob patterns for names, commands and paths.

/// Returns whether a string matches a pattern in which `*` matches any substring, including an
/// empty one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for pattern in ["*", "a*", "*c", "a*c", "abc", "*b*", "a*b*c", "*a*b*c*", "abc*", "a**c"] {
            assert!(glob(pattern, "abc"), "{pattern}");
        }
        for pattern in ["", "ab", "b*", "*b", "a*bc*c", "abcd", "*bb*", "c*a"] {
            assert!(!glob(pattern, "abc"), "{pattern}");
        }
        assert!(glob("two-*-large-*", "two-x-large-1") && glob("", ""));
    }
}
