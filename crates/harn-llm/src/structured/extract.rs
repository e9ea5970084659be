//! Extracts JSON from a reply: the whole reply, a fenced block, or a span within it; as it is, or else repaired.

use harn_value::Data as Value;

use super::repair;

/// JSON found in a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The value.
    pub value: Value,
    /// Whether the JSON is a whole candidate text, without anything around it.
    pub whole: bool,
    /// Whether the JSON had to be repaired.
    pub repaired: bool,
}

/// The maximum number of scans for balanced spans. Each may scan all remaining input.
const MAX_PASSES: usize = 64;

/// The maximum number of values per input that are checked against the schema.
const MAX_OFFERS: usize = 64;

/// The maximum number of positions per input at which repairs are tried.
const MAX_REPAIRS: usize = 16;

/// Finds the data of a reply in `texts`, then in the tagged prose of each. Returns the first value that fits, else the
/// first value. With `may_end`, the input may end inside its value.
pub fn extract(texts: &[&str], may_end: bool, fits: &dyn Fn(&Value) -> bool) -> Option<Extracted> {
    let prose = texts.iter().map(|text| crate::tool_text::parse_reply(text, &[]).prose());
    let prose: Vec<String> = prose.filter(|text| !text.is_empty()).collect();
    let mut search = Search { fits, may_end, offers: 0, first: None };
    let found =
        texts.iter().copied().chain(prose.iter().map(String::as_str)).find_map(|text| search.text(text));
    found.or(search.first)
}

/// Finds JSON in one text.
pub fn from_text(text: &str) -> Option<Extracted> {
    Search { fits: &|_| true, may_end: true, offers: 0, first: None }.text(text)
}

/// A search for a value that matches the schema.
struct Search<'f> {
    fits: &'f dyn Fn(&Value) -> bool,
    /// Whether the input may end inside its value.
    may_end: bool,
    offers: usize,
    first: Option<Extracted>,
}

impl Search<'_> {
    fn offer(&mut self, value: Value, whole: bool, repaired: bool) -> Option<Extracted> {
        self.offers += 1;
        let found = Extracted { value, whole, repaired };
        if (self.fits)(&found.value) {
            return Some(found);
        }
        self.first.get_or_insert(found);
        None
    }

    fn text(&mut self, text: &str) -> Option<Extracted> {
        let text = text.trim();
        self.offers = 0;
        if text.is_empty() {
            return None;
        }
        let strict = |text: &str| serde_json::from_str::<Value>(text.trim()).ok();
        if let Some(value) = strict(text) {
            return self.offer(value, true, false);
        }
        let (json, other): (Vec<_>, Vec<_>) =
            fences(text).into_iter().partition(|(info, _)| info.eq_ignore_ascii_case("json"));
        let bodies = || json.iter().chain(&other).map(|(_, body)| *body);
        for value in bodies().filter_map(strict).take(MAX_OFFERS) {
            if let Some(found) = self.offer(value, false, false) {
                return Some(found);
            }
        }
        for (body, whole) in
            [(text, true)].into_iter().chain(bodies().map(|body| (body, false))).take(MAX_REPAIRS)
        {
            let body = body.trim();
            let repaired = repair::parse(body, self.may_end).filter(|_| body.starts_with(['{', '[']));
            if let Some((value, _)) = repaired.filter(|(_, end)| *end == body.len())
                && let Some(found) = self.offer(value, whole, true)
            {
                return Some(found);
            }
        }
        self.spans(text).or_else(|| self.repaired_spans(text))
    }

    /// Tries the balanced spans that are JSON.
    ///
    /// One scan from a bracket finds every balanced span after it, even if that bracket is never closed. Only brackets
    /// that the scan treated as part of a quoted string can start another one, so there are few scans. [`MAX_PASSES`]
    /// bounds their number for malicious text.
    fn spans(&mut self, text: &str) -> Option<Extracted> {
        let bytes = text.as_bytes();
        let (mut at, mut passes) = (0, 0);
        while passes < MAX_PASSES && self.offers < MAX_OFFERS {
            at += memchr::memchr2(b'{', b'[', &bytes[at..])?;
            let pass = spans_from(&bytes[at..]);
            for (start, end) in pass.spans {
                if let Ok(value) = serde_json::from_str(&text[at + start..at + end])
                    && let Some(found) = self.offer(value, false, false)
                {
                    return Some(found);
                }
                if self.offers >= MAX_OFFERS {
                    return None;
                }
            }
            // A scan that reached the end of its span has consumed what it scanned.
            passes += usize::from(!pass.closed);
            at += pass.next?;
        }
        None
    }

    /// Tries the spans after opening brackets that are JSON once they are repaired.
    fn repaired_spans(&mut self, text: &str) -> Option<Extracted> {
        let mut at = 0;
        for _ in 0..MAX_REPAIRS {
            at += memchr::memchr2(b'{', b'[', &text.as_bytes()[at..])?;
            match repair::parse(&text[at..], self.may_end) {
                Some((value, end)) => {
                    if let Some(found) = self.offer(value, false, true) {
                        return Some(found);
                    }
                    at += end;
                }
                None => at += 1,
            }
        }
        None
    }
}

/// Returns the info string and body of each fenced code block.
fn fences(text: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("```") {
        let inner = &rest[open + 3..];
        let Some(close) = inner.find("```") else { break };
        let block = &inner[..close];
        match block.split_once('\n') {
            Some((info, body)) => out.push((info.trim(), body)),
            None => out.push(("", block)),
        }
        rest = &inner[close + 3..];
    }
    out
}

/// The result of a scan; offsets are relative to its start.
struct Pass {
    /// The outermost balanced spans, in order.
    spans: Vec<(usize, usize)>,
    /// Whether the first bracket is closed.
    closed: bool,
    /// The start of the next scan: after a span that was closed, else the first bracket inside quotes.
    next: Option<usize>,
}

/// Scans from an opening bracket to its closing bracket, or to the end of the input. Ignores brackets in strings.
fn spans_from(bytes: &[u8]) -> Pass {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut quoted = None;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if in_string => quoted = quoted.or(Some(at)),
            _ if in_string => {}
            b'{' | b'[' => open.push(at),
            b'}' | b']' => {
                let Some(start) = open.pop() else { continue };
                while spans.last().is_some_and(|(inner, _)| *inner > start) {
                    spans.pop();
                }
                spans.push((start, at + 1));
                if open.is_empty() {
                    return Pass { spans, closed: true, next: Some(at + 1) };
                }
            }
            _ => {}
        }
    }
    Pass { spans, closed: false, next: quoted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn value(text: &str) -> Option<Value> {
        from_text(text).map(|e| e.value)
    }

    #[test]
    fn json_is_found_wherever_it_is() {
        assert_eq!(value(" {\"a\": 1} "), Some(json!({"a": 1})));
        assert_eq!(value("```\nnot\n```\n```json\n[1]\n```"), Some(json!([1])));
        assert_eq!(value("sure: [1, {\"x\": \"]\"}] ok {\"b\": 2}"), Some(json!([1, {"x": "]"}])));
        assert_eq!(value("an [aside] then {\"b\": 2}"), Some(json!({"b": 2})));
        assert_eq!(value("open { and {\"b\": 2}"), Some(json!({"b": 2})));
        assert_eq!(value("none"), None);
        assert_eq!(value("as asked: {'a': 1,} so"), Some(json!({"a": 1})));
        assert_eq!(value("```json\n{\"a\": {\"b\": 1},}\n```"), Some(json!({"a": {"b": 1}})));
        assert!(from_text("{}").unwrap().whole && !from_text("x {}").unwrap().whole);
    }

    #[test]
    fn spans_behind_open_brackets_are_found() {
        assert_eq!(value(&("[".repeat(200_000) + " {\"b\": 2}")), Some(json!({"b": 2})));
        assert_eq!(value("{ \"open {\"b\": 2} [3]"), Some(json!({"b": 2})));
        assert_eq!(value("{ [1] x"), Some(json!([1])));
        assert_eq!(value(&("[aside] ".repeat(500) + "{\"b\": 2}")), Some(json!({"b": 2})));
    }
}
