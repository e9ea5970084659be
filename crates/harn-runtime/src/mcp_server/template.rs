//! URI templates such as `note://{folder}/{id}`: level 1 of RFC 6570, and `{+name}` of level 2.

use harn_value::{Dict, Value};
use percent_encoding::percent_decode_str;

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    /// A value up to the next `/`, `?` or `#`.
    Name(String),
    /// A value that may contain those characters.
    Path(String),
}

/// A URI template.
#[derive(Debug, Clone)]
pub(super) struct UriTemplate(Vec<Part>);

impl UriTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// Describes a syntax error.
    pub(super) fn parse(text: &str) -> Result<UriTemplate, String> {
        let mut parts = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if before.is_empty() && !matches!(parts.last(), None | Some(Part::Text(_))) {
                return Err("two places need a text between them".to_owned());
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let Some((inside, behind)) = after.split_once('}') else {
                return Err("a `{` is not closed".to_owned());
            };
            let (name, is_path) = inside.strip_prefix('+').map_or((inside, false), |name| (name, true));
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(fits) {
                return Err(format!("`{{{inside}}}` is no place: write {{name}} or {{+path}}"));
            }
            if names.contains(&name) {
                return Err(format!("`{name}` stands there twice"));
            }
            names.push(name);
            parts.push(if is_path { Part::Path(name.to_owned()) } else { Part::Name(name.to_owned()) });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if names.is_empty() {
            return Err("it has no place such as {name}; use mcp_resource".to_owned());
        }
        Ok(UriTemplate(parts))
    }

    /// Returns the values in a URI that matches the template.
    pub(super) fn values(&self, uri: &str) -> Option<Dict> {
        let mut out = Dict::new();
        let mut rest = uri;
        let mut parts = self.0.iter().peekable();
        while let Some(part) = parts.next() {
            let (name, is_path) = match part {
                Part::Text(text) => {
                    rest = rest.strip_prefix(text.as_str())?;
                    continue;
                }
                Part::Name(name) => (name, false),
                Part::Path(name) => (name, true),
            };
            let end = match parts.peek() {
                Some(Part::Text(text)) if is_path => rest.rfind(text.as_str())?,
                Some(Part::Text(text)) => rest.find(text.as_str())?,
                _ => rest.len(),
            };
            let value = &rest[..end];
            if value.is_empty() || (!is_path && value.contains(['/', '?', '#'])) {
                return None;
            }
            let value = percent_decode_str(value).decode_utf8().ok()?;
            out.insert(name.as_str(), Value::str(&value));
            rest = &rest[end..];
        }
        rest.is_empty().then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(template: &str, uri: &str) -> Option<String> {
        let values = UriTemplate::parse(template).expect("a template").values(uri)?;
        Some(Value::from(values).to_string())
    }

    #[test]
    fn addresses_are_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(values("note://{id}", "note://7"), some("{id: 7}"));
        assert_eq!(values("note://{folder}/{id}.md", "note://a%20b/x.md"), some("{folder: a b, id: x}"));
        assert_eq!(values("file:///{+path}", "file:///a/b?c"), some("{path: a/b?c}"));
        for wrong in ["note://", "note://a/b", "other://7", "note://7#x"] {
            assert_eq!(values("note://{id}", wrong), None, "{wrong}");
        }
        // Values must be valid UTF-8.
        assert_eq!(values("note://{id}", "note://%ff"), None);
    }

    #[test]
    fn wrong_templates() {
        for wrong in ["note://", "a{b", "a{}", "a{b c}", "a{b}{c}", "a{b}/{b}", "a{?q}"] {
            assert!(UriTemplate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
