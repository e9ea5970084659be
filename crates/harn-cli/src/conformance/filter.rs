//! Filters for cases: `re:<regex>`, `a|b`, `*` and `?` globs, or a substring of the path.

use regex::Regex;

/// A parsed `--filter`.
#[derive(Debug)]
pub(crate) enum Filter {
    /// Matches everything.
    All,
    /// A pattern that matches anywhere in the path.
    Pattern(Regex),
}

impl Filter {
    /// Parses the value of `--filter`.
    ///
    /// # Errors
    /// A message about an invalid regular expression.
    pub(crate) fn parse(text: Option<&str>) -> Result<Filter, String> {
        let Some(text) = text else { return Ok(Filter::All) };
        let pattern = match text.strip_prefix("re:") {
            Some(regex) => regex.to_owned(),
            None => text.split('|').map(glob_regex).collect::<Vec<_>>().join("|"),
        };
        let regex =
            Regex::new(&pattern).map_err(|e| format!("invalid regular expression in --filter: {e}"))?;
        Ok(Filter::Pattern(regex))
    }

    /// Whether a path matches.
    pub(crate) fn takes(&self, path: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Pattern(regex) => regex.is_match(path),
        }
    }
}

/// Converts a glob to an unanchored regular expression.
fn glob_regex(glob: &str) -> String {
    glob.chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            other => regex::escape(&other.to_string()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(filter: &str, path: &str) -> bool {
        Filter::parse(Some(filter)).unwrap().takes(path)
    }

    #[test]
    fn the_four_forms() {
        assert!(takes("split", "language/strings/split_keeps.harn"));
        assert!(!takes("split", "language/lists/map.harn"));
        assert!(takes("lists|maps", "language/lists/a.harn"));
        assert!(takes("lang*/a.h?rn", "language/lists/a.harn"));
        assert!(takes(r"re:lists/[ab]\.harn$", "language/lists/b.harn"));
        assert!(!takes("a.b", "axb"));
    }

    #[test]
    fn an_invalid_expression_is_refused() {
        assert!(Filter::parse(Some("re:(")).unwrap_err().contains("--filter"));
    }
}
