//! JSON out of a reply: the reply itself, a fenced block, or a span of its text; as it is, else repaired.

use harn_value::Data as Value;

use super::repair;

/// JSON found in a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The value.
    pub value: Value,
    /// Whether a whole candidate text was JSON, with nothing around it.
    pub whole: bool,
    /// Whether the text was no JSON until it was repaired.
    pub repaired: bool,
}

/// Passes over a text in search of balanced spans. Each may look at all that follows, so there are only so many.
const MAX_PASSES: usize = 64;

/// Values of a text that are compared with the schema.
const MAX_OFFERS: usize = 64;

/// Places of a text from which repairs are tried.
const MAX_REPAIRS: usize = 16;

/// Finds the data of a reply in its texts, then in the tagged prose of each. The first value that fits wins, else the first
/// one. With `may_end` a text may end inside of its value.
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

/// A search for a value that fits.
struct Search<'f> {
    fits: &'f dyn Fn(&Value) -> bool,
    /// Whether a text may end inside of its value.
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

    /// Goes through the balanced spans that are JSON.
    ///
    /// One pass from a bracket finds every balanced span behind it, also when that bracket is never closed. Only brackets
    /// that the pass took for text in quotes can begin another one, so passes are few; hostile text ends them at
    /// [`MAX_PASSES`].
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
            // A pass that found its end has used what it looked at.
            passes += usize::from(!pass.closed);
            at += pass.next?;
        }
        None
    }

    /// Goes through what brackets begin that is JSON once it is repaired.
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

/// Fenced code blocks: info word and body.
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

/// What a pass over a text found; places count from its beginning.
struct Pass {
    /// The outermost balanced spans, in order.
    spans: Vec<(usize, usize)>,
    /// Whether the first bracket is closed.
    closed: bool,
    /// Where the next pass begins: behind a span that was closed, else at the first bracket inside quotes.
    next: Option<usize>,
}

/// Goes from an opening bracket to where it is closed, or to the end when it is not. Brackets in strings do not count.
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
