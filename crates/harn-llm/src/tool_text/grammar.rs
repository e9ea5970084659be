//! The call grammar: `name({ key: value, … })` with JavaScript-like values and heredocs.

use harn_value::Data as Value;
use serde_json::Number;

use crate::json::Object;

/// A call parsed from text.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// The name of the tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
    /// The offset after the call.
    pub end: usize,
}

/// The maximum nesting of values.
const MAX_DEPTH: usize = 128;

/// Parses the argument list of a call of `name`; `text[start]` is the opening parenthesis.
///
/// # Errors
/// The diagnostic for the model.
pub(crate) fn parse_call(text: &str, start: usize, name: &str) -> Result<ParsedCall, String> {
    let mut p = Parser { text, at: start + 1, depth: 0 };
    let problem = |cause: String| format!("TOOL CALL PARSE ERROR: `{name}(...)` — {cause}");
    p.blanks().map_err(problem)?;
    if p.eat(')') {
        return Ok(ParsedCall { name: name.to_string(), arguments: Value::Object(Object::new()), end: p.at });
    }
    match p.peek() {
        Some('{') => {}
        None => return Err(problem("the text ends before the closing `)`".to_string())),
        Some(_) => {
            return Err(format!(
                // prose-ok: contract text
                "Tool '{name}' must be called with an object literal argument like {name}({{ ... }})."
            ));
        }
    }
    let arguments = p.object().map_err(problem)?;
    p.blanks().map_err(problem)?;
    if !p.eat(')') {
        let found = p.describe_next();
        return Err(problem(format!("expected `)` after the argument object, found {found}")));
    }
    Ok(ParsedCall { name: name.to_string(), arguments, end: p.at })
}

/// Prefixes of the ReAct lines that name the tool and hold its arguments. The section `tools` of a template asks for
/// this form if a model receives its tools as text.
pub(crate) const ACTION: &str = "Action:";
const ACTION_INPUT: &str = "Action Input:";

/// Returns the tool name of a ReAct call and the offset of its arguments. `line` is the offset of its first line.
/// Returns `None` if no `Action Input:` follows that line.
pub(crate) fn action_at(text: &str, line: usize) -> Option<(&str, usize)> {
    let rest = text[line..].strip_prefix(ACTION)?;
    let (name, after) = rest.split_once('\n')?;
    let input = after.trim_start().strip_prefix(ACTION_INPUT)?;
    Some((name.trim(), text.len() - input.len()))
}

/// Parses the arguments of a ReAct call of `name`, which begin at `text[start]`.
///
/// # Errors
/// The diagnostic that the model receives.
pub(crate) fn parse_action_input(text: &str, start: usize, name: &str) -> Result<ParsedCall, String> {
    let problem = |cause: String| format!("TOOL CALL PARSE ERROR: `{ACTION} {name}` — {cause}");
    let mut p = Parser { text, at: start, depth: 0 };
    p.at += p.rest().len() - p.rest().trim_start().len();
    if p.peek() != Some('{') {
        let found = p.describe_next();
        return Err(problem(format!("expected a JSON object after `{ACTION_INPUT}`, found {found}")));
    }
    let arguments = p.object().map_err(problem)?;
    Ok(ParsedCall { name: name.to_string(), arguments, end: p.at })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Parse<T> = Result<T, String>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.at += c.len_utf8();
        }
        hit
    }

    fn describe_next(&self) -> String {
        match self.peek() {
            None => "the end of the text".to_string(),
            Some('\n') => "a line end".to_string(),
            Some(c) => format!("`{c}`"),
        }
    }

    /// Skips whitespace and comments.
    fn blanks(&mut self) -> Parse<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                match trimmed.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return Err("a `/*` comment is not closed".to_string()),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Parse<Value> {
        self.blanks()?;
        if self.depth >= MAX_DEPTH {
            return Err(format!("values are nested deeper than {MAX_DEPTH} levels"));
        }
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.list(),
            Some(quote @ ('"' | '\'')) => {
                let inner = &self.rest()[1..];
                // A heredoc in quotes is parsed like a heredoc.
                if inner.starts_with("<<") && heredoc_tag(inner).is_some() {
                    self.at += 1;
                    let text = self.heredoc()?;
                    // The closing quote may be on its own line; after a value it has no other meaning.
                    self.blanks()?;
                    self.eat(quote);
                    return Ok(text);
                }
                self.string().map(Value::String)
            }
            Some('`') => self.template().map(Value::String),
            Some('<') if self.rest().starts_with("<<") => self.heredoc(),
            Some(c) if c == '-' || c == '+' || c == '.' || c.is_ascii_digit() => self.number(),
            Some(c) if is_name_start(c) => {
                let word = self.name();
                match word.as_str() {
                    "true" | "True" => Ok(Value::Bool(true)),
                    "false" | "False" => Ok(Value::Bool(false)),
                    "null" | "undefined" | "None" => Ok(Value::Null),
                    _ => Err(format!("`{word}` is not a value; put text in quotes")),
                }
            }
            _ => Err(format!("expected a value, found {}", self.describe_next())),
        }
    }

    fn object(&mut self) -> Parse<Value> {
        self.depth += 1;
        self.at += 1;
        let mut map = Object::new();
        loop {
            self.blanks()?;
            if self.eat('}') {
                self.depth -= 1;
                return Ok(Value::Object(map));
            }
            let key = match self.peek() {
                Some('"' | '\'') => self.string()?,
                Some(c) if is_name_start(c) => self.name(),
                _ => return Err(format!("expected a key or `}}`, found {}", self.describe_next())),
            };
            self.blanks()?;
            if !self.eat(':') {
                let key = harn_prompt::untrusted::quote(crate::json::clip(&key, 60));
                return Err(format!("expected `:` after key `{key}`, found {}", self.describe_next()));
            }
            let value = self.value()?;
            map.insert(key, value);
            self.blanks()?;
            if !self.eat(',') && self.peek() != Some('}') {
                return Err(format!("expected `,` or `}}` in the object, found {}", self.describe_next()));
            }
        }
    }

    fn list(&mut self) -> Parse<Value> {
        self.depth += 1;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blanks()?;
            if self.eat(']') {
                self.depth -= 1;
                return Ok(Value::Array(items));
            }
            items.push(self.value()?);
            self.blanks()?;
            if !self.eat(',') && self.peek() != Some(']') {
                return Err(format!("expected `,` or `]` in the list, found {}", self.describe_next()));
            }
        }
    }

    fn name(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        let name = rest[..end].to_string();
        self.at += end;
        name
    }

    fn number(&mut self) -> Parse<Value> {
        let rest = self.rest();
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        let end = rest.find(|c: char| !part(c)).unwrap_or(rest.len());
        let text = rest[..end].replace('_', "");
        let text = text.strip_prefix('+').unwrap_or(&text);
        let number = text
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| text.parse::<u64>().map(Number::from))
            .ok()
            .or_else(|| text.parse::<f64>().ok().filter(|f| f.is_finite()).and_then(Number::from_f64));
        match number {
            Some(n) => {
                self.at += end;
                Ok(Value::Number(n))
            }
            None => Err(format!("`{text}` is not a number")),
        }
    }

    fn string(&mut self) -> Parse<String> {
        let quote = self.next().unwrap_or('"');
        let mut out = String::new();
        loop {
            match self.next() {
                None => return Err(format!("a string is not closed by {quote}")),
                Some(c) if c == quote => return Ok(out),
                Some('\\') => self.escape(&mut out)?,
                Some(c) => out.push(c),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Parse<()> {
        match self.next() {
            None => return Err("a string ends inside an escape".to_string()),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\n') => {}
            Some('\r') => {
                self.eat('\n');
            }
            Some('x') => {
                let code = self.hex_digits(2)?;
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some('u') => out.push(self.unicode_escape()?),
            Some(c) => out.push(c),
        }
        Ok(())
    }

    fn unicode_escape(&mut self) -> Parse<char> {
        if self.eat('{') {
            let end = self.rest().find('}').ok_or_else(|| "a `\\u{` escape is not closed".to_string())?;
            let code = u32::from_str_radix(&self.rest()[..end], 16)
                .map_err(|_| "a `\\u{}` escape is not a hexadecimal number".to_string())?;
            self.at += end + 1;
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let first = self.hex_digits(4)?;
        // Two escapes may form one character beyond the basic multilingual plane.
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            if let Ok(second) = self.hex_digits(4)
                && (0xDC00..0xE000).contains(&second)
            {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex_digits(&mut self, count: usize) -> Parse<u32> {
        let digits = self.rest().get(..count).filter(|d| d.chars().all(|c| c.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let code = code.ok_or_else(|| format!("an escape needs {count} hexadecimal digits"))?;
        self.at += count;
        Ok(code)
    }

    fn template(&mut self) -> Parse<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            match self.next() {
                None => return Err("a template literal is not closed by `".to_string()),
                Some('`') => return Ok(out),
                Some('\\') => match self.next() {
                    None => return Err("a template literal ends inside an escape".to_string()),
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some(c @ ('\\' | '`' | '$')) => out.push(c),
                    Some(c) => {
                        out.push('\\');
                        out.push(c);
                    }
                },
                Some(c) => out.push(c),
            }
        }
    }

    fn heredoc(&mut self) -> Parse<Value> {
        let (tag, head) = heredoc_tag(self.rest())
            .ok_or_else(|| "a heredoc starts with `<<TAG` and a line end".to_string())?;
        let tag = tag.to_string();
        self.at += head;
        let body_start = self.at;
        let mut line_start = self.at;
        loop {
            let line_end = self.text[line_start..].find('\n').map(|n| line_start + n);
            let line = &self.text[line_start..line_end.unwrap_or(self.text.len())];
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            let after = line[indent..].strip_prefix(tag.as_str());
            if after.is_some_and(|a| !a.starts_with(|c: char| c.is_alphanumeric() || c == '_')) {
                let body = &self.text[body_start..line_start];
                let body = body.strip_suffix('\n').unwrap_or(body);
                let body = body.strip_suffix('\r').unwrap_or(body);
                self.at = line_start + indent + tag.len();
                return Ok(Value::String(body.to_string()));
            }
            match line_end {
                Some(end) => line_start = end + 1,
                None => return Err(format!("heredoc `<<{tag}` has no closing line `{tag}`")),
            }
        }
    }
}

/// Parses `<<TAG`, `<<'TAG'` or `<<"TAG"` and the line end; returns the tag and the number of bytes used.
fn heredoc_tag(text: &str) -> Option<(&str, usize)> {
    let rest = text.strip_prefix("<<")?;
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let body = &rest[quote.map_or(0, char::len_utf8)..];
    let len = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let tag = &body[..len];
    let mut tail = &body[len..];
    if let Some(q) = quote {
        tail = tail.strip_prefix(q)?;
    }
    // Searching for the line end would scan the whole line for each string that only starts like a heredoc.
    let tail = tail.trim_start_matches(|c: char| c.is_whitespace() && c != '\n').strip_prefix('\n')?;
    (!tag.is_empty()).then(|| (tag, text.len() - tail.len()))
}

pub(super) fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(text: &str) -> Result<Value, String> {
        let open = text.find('(').unwrap();
        parse_call(text, open, &text[..open]).map(|c| c.arguments)
    }

    #[test]
    fn values_of_every_kind() {
        assert_eq!(read("t()"), Ok(json!({})));
        assert_eq!(
            read(
                "t({ a: 1, 'b': -2.5, c: [true, null, undefined,], /* x */ d: {}, // y\n e: \"q\\u00e9\\x41\\u{1F600}\\q\", })"
            ),
            Ok(json!({"a": 1, "b": -2.5, "c": [true, null, null], "d": {}, "e": "qéA😀q"}))
        );
        assert_eq!(read("t({ a: \"\\ud83d\\ude00\" })"), Ok(json!({"a": "😀"})));
        assert_eq!(read("t({ a: `x ${y} \\` \\d` })"), Ok(json!({"a": "x ${y} ` \\d"})));
        assert_eq!(read("t({ a: 'line\nline', b: 'a\\\nb' })"), Ok(json!({"a": "line\nline", "b": "ab"})));
    }

    #[test]
    fn heredocs_are_raw() {
        assert_eq!(
            read("t({ a: <<EOF\nx \\n {\n  EOFX\n\nEOF, b: <<'E'\r\ny\r\n  E })"),
            Ok(json!({"a": "x \\n {\n  EOFX\n", "b": "y"}))
        );
        assert_eq!(read("t({ a: \"<<EOF\nbody\nEOF\" })"), Ok(json!({"a": "body"})));
        assert_eq!(read("t({ a: \"<<'EOF'\nbody\nEOF\n\", b: 1 })"), Ok(json!({"a": "body", "b": 1})));
        assert_eq!(read("t({ a: <<EOF\nEOF })"), Ok(json!({"a": ""})));
        assert!(read("t({ a: <<EOF\nx })").unwrap_err().contains("has no closing line `EOF`"));
    }

    #[test]
    fn problems_are_named() {
        assert_eq!(
            read("t('x')").unwrap_err(),
            "Tool 't' must be called with an object literal argument like t({ ... })."
        );
        assert!(read("t({ a: 1 ").unwrap_err().starts_with("TOOL CALL PARSE ERROR: `t(...)` — "));
        assert!(read("t({ a }").unwrap_err().contains("expected `:` after key `a`"));
        assert!(read("t({ a: foo })").unwrap_err().contains("`foo` is not a value"));
        let deep = format!("t({{a: {}", "[".repeat(100_000));
        assert!(read(&deep).unwrap_err().contains("nested deeper"));
    }
}
