//! Forms as `multipart/form-data` (RFC 7578): building from fields, and parsing of untrusted bodies.

use std::collections::BTreeMap;

use harn_schema::options::Options;
use harn_value::{Dict, Value};
use harn_vm::builtin::OptionDict;
use harn_vm::{Error, Result, builtins};
use memchr::memmem;
use sha2::{Digest, Sha256};

use super::bytes::to_hex;
use crate::args::{Given, printed, room_for_bytes};

/// Default limits: bytes of a body and of a field, and number of fields.
const MAX_BYTES: usize = 8 << 20;
const MAX_FIELDS: usize = 128;

const BUILD: &str = "multipart_form_data";
const PARSE: &str = "multipart_parse";

builtins! {
    /// Multipart forms.
    pub(crate) static MULTIPART: "multipart";

    /// Builds the body of a form: `{boundary, content_type, body}`.
    ///
    /// A field is `{name, content}` with bytes or a string as content, and may have `filename`, `content_type` and
    /// `headers`. Equal fields produce equal bodies.
    ///
    /// ```harn
    /// let form = multipart_form_data([{name: "a", content: "1"}], {boundary: "cut"})
    /// println(form.content_type) // -> multipart/form-data; boundary=cut
    /// println(len(bytes_to_string(form.body))) // -> 63
    /// ```
    Pure fn multipart_form_data(cx, fields: Given as "list", options: OptionDict<BuildOptions>) -> "dict" {
        let fields = fields.or_nil();
        let Some(fields) = fields.as_list() else {
            return Err(build(&format!("fields must be a list, got {}", fields.type_name())));
        };
        let parts: Vec<Part> = fields.iter().map(Part::of).collect::<Result<_>>()?;
        let boundary = match options.read()?.boundary {
            Some(given) => own_boundary(&given, &parts)?,
            None => boundary_of(&parts),
        };
        let body = body_of(&boundary, &parts)?;
        let mut form = Dict::new();
        form.insert("content_type", format!("multipart/form-data; boundary={}", quoted_boundary(&boundary)));
        form.insert("boundary", boundary);
        form.insert("body", Value::bytes(body));
        form
    }

    /// Parses a submitted form: `{boundary, fields, field_count, total_bytes}`.
    ///
    /// A field is `{name, filename, content_type, headers, bytes, text}`, with lower-case header names; `text` is nil
    /// for bytes that are not UTF-8. The file name is untrusted content of the sender: validate it before you use it as
    /// a file name.
    ///
    /// ```harn
    /// let form = multipart_form_data([{name: "a", content: "1"}])
    /// println(multipart_parse(form.body, form.content_type).fields[0].text) // -> 1
    /// ```
    Pure fn multipart_parse(cx, body: Value as "bytes | string", content_type: Value as "string", options: OptionDict<ParseOptions>) -> "dict" {
        let limits = options.read()?;
        let content_type = content_type.as_str().map(|text| text.to_string()).unwrap_or_default();
        match (body.as_bytes(), body.as_str()) {
            (Some(bytes), _) => read(bytes, &content_type, &limits)?,
            (None, Some(text)) => read(text.as_bytes(), &content_type, &limits)?,
            (None, None) => Dict::new(),
        }
    }

    /// Returns the bytes of a field from `multipart_parse`.
    ///
    /// ```harn
    /// let form = multipart_form_data([{name: "a", content: "hi"}])
    /// println(multipart_field_bytes(multipart_parse(form.body, form.content_type).fields[0])) // -> b"6869"
    /// ```
    Pure fn multipart_field_bytes(cx, field: Value as "dict") -> "bytes" {
        content(NAME, &field)?
    }

    /// Returns the text of a field from `multipart_parse`; bytes that are not UTF-8 are an error.
    ///
    /// ```harn
    /// let form = multipart_form_data([{name: "a", content: "hi"}])
    /// println(multipart_field_text(multipart_parse(form.body, form.content_type).fields[0])) // -> hi
    /// ```
    Pure fn multipart_field_text(cx, field: Value as "dict") -> "string" {
        let bytes = content(NAME, &field)?;
        match bytes.as_bytes().map(|bytes| std::str::from_utf8(bytes)) {
            Some(Ok(text)) => Value::str(text),
            Some(Err(reason)) => return Err(Error::runtime(format!("{NAME}: {reason}"))),
            None => Value::str(""),
        }
    }
}

fn build(text: &str) -> Error {
    Error::runtime(format!("{BUILD}: {text}"))
}

fn wrong(text: &str) -> Error {
    Error::runtime(format!("{PARSE}: {text}"))
}

fn content(name: &str, field: &Value) -> Result<Value> {
    let bytes = field
        .to_dict()
        .and_then(|field| field.get_str("bytes").filter(|bytes| bytes.as_bytes().is_some()).cloned());
    bytes.ok_or_else(|| {
        Error::runtime(format!("{name}: the field has no bytes; it must be one of multipart_parse"))
    })
}

/// An encoded field.
struct Part {
    head: String,
    content: Vec<u8>,
}

impl Part {
    fn of(field: &Value) -> Result<Part> {
        let Some(field) = field.to_dict() else {
            return Err(build(&format!("a field must be a dict, got {}", field.type_name())));
        };
        let get = |name: &str| field.get_str(name).filter(|value| !value.is_nil());
        let name = printed(get("name").ok_or_else(|| build("field is missing name"))?);
        if name.is_empty() {
            return Err(build("name must not be empty"));
        }
        let content = get("content").or_else(|| get("value"));
        let content = content.ok_or_else(|| build("field is missing content"))?;
        let mut head = format!("Content-Disposition: form-data; name=\"{}\"", escaped(&name));
        if let Some(file) = get("filename") {
            head.push_str(&format!("; filename=\"{}\"", escaped(&printed(file))));
        }
        head.push_str("\r\n");
        let headers = match get("headers") {
            None => Dict::new(),
            Some(headers) => (*headers
                .to_dict()
                .ok_or_else(|| build(&format!("headers must be a dict, got {}", headers.type_name())))?)
            .clone(),
        };
        let named = |wanted: &str| {
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        if let Some(kind) =
            get("content_type").or_else(|| named("content-type").filter(|kind| !kind.is_nil()))
        {
            push_header(&mut head, "Content-Type", &printed(kind))?;
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_nil()) {
            // These headers are written from the properties of the field.
            if !["content-type", "content-disposition"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
                push_header(&mut head, name, &printed(value))?;
            }
        }
        let content = match content.as_bytes() {
            Some(bytes) => bytes.to_vec(),
            None => printed(content).as_bytes().to_vec(),
        };
        Ok(Part { head, content })
    }
}

fn push_header(head: &mut String, name: &str, value: &str) -> Result<()> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(build(&format!("invalid header name '{name}'")));
    }
    if value.contains(['\r', '\n', '\0']) {
        return Err(build(&format!(
            "invalid value of the header '{name}': it has a line break or zero byte"
        )));
    }
    head.push_str(&format!("{name}: {value}\r\n"));
    Ok(())
}

/// Escapes names as browsers do (the HTML standard, "multipart/form-data encoding algorithm").
fn escaped(text: &str) -> String {
    text.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

fn unescaped(text: &str) -> String {
    text.replace("%0D", "\r").replace("%0A", "\n").replace("%22", "\"")
}

fn occurs(boundary: &str, parts: &[Part]) -> bool {
    let finder = memmem::Finder::new(boundary);
    parts.iter().any(|part| finder.find(&part.content).is_some())
}

fn boundary_of(parts: &[Part]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        for piece in [part.head.as_bytes(), &part.content] {
            digest.update((piece.len() as u64).to_le_bytes());
            digest.update(piece);
        }
    }
    let base = format!("----harn-boundary-{}", to_hex(&digest.finalize()[..8]));
    let mut boundary = base.clone();
    let mut number = 0;
    while occurs(&boundary, parts) {
        number += 1;
        boundary = format!("{base}-{number}");
    }
    boundary
}

fn own_boundary(given: &str, parts: &[Part]) -> Result<String> {
    if !is_boundary(given) {
        return Err(build(
            "boundary must be 1 to 70 letters, digits, blanks and '()+_,-./:=? and not end with a blank",
        ));
    }
    if occurs(given, parts) {
        return Err(build("boundary occurs in a content; choose another one or leave it out"));
    }
    Ok(given.to_owned())
}

/// Checks the syntax of a boundary (RFC 2046 section 5.1.1).
fn is_boundary(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "'()+_,-./:=? ".contains(c);
    (1..=70).contains(&text.len()) && text.chars().all(known) && !text.ends_with(' ')
}

fn quoted_boundary(boundary: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "'+_-.".contains(c);
    if boundary.chars().all(plain) { boundary.to_owned() } else { format!("\"{boundary}\"") }
}

fn body_of(boundary: &str, parts: &[Part]) -> Result<Vec<u8>> {
    let sizes = parts.iter().map(|part| part.head.len() + part.content.len() + boundary.len() + 8);
    let size = sizes.sum::<usize>() + boundary.len() + 6;
    room_for_bytes(size)?;
    let mut body = Vec::with_capacity(size);
    for part in parts {
        body.extend_from_slice(format!("--{boundary}\r\n{}\r\n", part.head).as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(body)
}

/// Options of `multipart_form_data`.
#[derive(Options)]
struct BuildOptions {
    /// The boundary; by default, it is derived from the fields.
    boundary: Option<String>,
}

/// Options of `multipart_parse`.
#[derive(Options)]
struct ParseOptions {
    /// Maximum size of the body in bytes.
    #[option(default = MAX_BYTES, shown = "8 MiB", ty = "int", with = limit)]
    max_total_bytes: usize,
    /// Maximum size of a field in bytes.
    #[option(default = MAX_BYTES, shown = "8 MiB", ty = "int", with = limit)]
    max_field_bytes: usize,
    /// Maximum number of fields.
    #[option(default = MAX_FIELDS, shown = "128", ty = "int", with = limit)]
    max_fields: usize,
}

fn limit(value: &Value) -> std::result::Result<usize, String> {
    let limit = value.as_int().and_then(|limit| usize::try_from(limit).ok());
    limit.ok_or_else(|| "must not be negative".to_owned())
}

fn read(body: &[u8], content_type: &str, limits: &ParseOptions) -> Result<Dict> {
    let boundary = boundary_in(content_type)?;
    if body.len() > limits.max_total_bytes {
        return Err(wrong(&format!(
            "total body size {} exceeds max_total_bytes {}",
            body.len(),
            limits.max_total_bytes
        )));
    }
    // Each content is stored as bytes and usually also as text.
    room_for_bytes(body.len().saturating_mul(2))?;
    let fields = split(body, &boundary, limits)?;
    let mut form = Dict::new();
    form.insert("boundary", boundary);
    form.insert("field_count", fields.len());
    form.insert("fields", Value::list(fields));
    form.insert("total_bytes", body.len());
    Ok(form)
}

fn boundary_in(content_type: &str) -> Result<String> {
    let (kind, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(wrong(&format!("expected multipart/form-data content type, got {content_type}")));
    }
    let boundary = parameters(content_type).remove("boundary").filter(|boundary| !boundary.is_empty());
    boundary.ok_or_else(|| wrong("content type is missing boundary"))
}

/// Parses the parameters of a header's value; names are in lower case. The first of several parameters with the same
/// name is used.
fn parameters(value: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        // Parameters without a value are skipped.
        let name = name.rsplit(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let (text, next) = parameter_value(after.trim_start());
        found.entry(name).or_insert(text);
        rest = next;
    }
    found
}

/// Parses a value, with or without quotes, and returns the remaining text.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_once(';').unwrap_or((text, ""));
        return (value.trim().to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => return (value, &quoted[at + 1..]),
            // Other backslashes are path separators, which some browsers send.
            ('\\', Some((_, next @ ('"' | '\\')))) => {
                value.push(*next);
                chars.next();
            }
            _ => value.push(c),
        }
    }
    (value, "")
}

fn split(body: &[u8], boundary: &str, limits: &ParseOptions) -> Result<Vec<Value>> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(&delimiter);
    // The first delimiter has no line before it.
    let Some(mut rest) = body.strip_prefix(&delimiter.as_bytes()[2..]) else {
        return Err(wrong("body does not start with multipart boundary"));
    };
    let mut fields = Vec::new();
    loop {
        if let Some(tail) = rest.strip_prefix(b"--") {
            let tail = tail.trim_ascii_start();
            return if tail.is_empty() {
                Ok(fields)
            } else {
                Err(wrong("unexpected bytes after closing boundary"))
            };
        }
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        // The line break may belong to the next delimiter, if a part has no content.
        let Some(line) = rest[padding..].strip_prefix(b"\r\n") else {
            return Err(wrong("malformed boundary delimiter line"));
        };
        if fields.len() == limits.max_fields {
            return Err(wrong(&format!("field count exceeds max_fields {}", limits.max_fields)));
        }
        let end = finder.find(line);
        let part = &line[..end.unwrap_or(line.len())];
        let (head, content) = head_and_content(part)?;
        let Some(end) = end else { return Err(wrong("part is missing following boundary")) };
        fields.push(field(head, content, limits)?.into());
        rest = &line[end + delimiter.len()..];
    }
}

fn head_and_content(part: &[u8]) -> Result<(&[u8], &[u8])> {
    if let Some(content) = part.strip_prefix(b"\r\n") {
        return Ok((b"", content));
    }
    let end = memmem::find(part, b"\r\n\r\n").ok_or_else(|| wrong("part is missing header terminator"))?;
    Ok((&part[..end], &part[end + 4..]))
}

fn field(head: &[u8], content: &[u8], limits: &ParseOptions) -> Result<Dict> {
    if content.len() > limits.max_field_bytes {
        let text = format!("field size {} exceeds max_field_bytes {}", content.len(), limits.max_field_bytes);
        return Err(wrong(&text));
    }
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let head = String::from_utf8_lossy(head);
    for line in head.split("\r\n").filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return Err(wrong("part has a malformed header line"));
        };
        headers.entry(name.trim().to_ascii_lowercase()).or_insert_with(|| value.trim().to_owned());
    }
    let Some(disposition) = headers.get("content-disposition") else {
        return Err(wrong("part is missing Content-Disposition header"));
    };
    let mut parameters = parameters(disposition);
    let name = parameters.remove("name").ok_or_else(|| wrong("part Content-Disposition is missing name"))?;
    let mut field = Dict::new();
    field.insert("name", unescaped(&name));
    field.insert("filename", parameters.remove("filename").map(|name| unescaped(&name)));
    field.insert("content_type", headers.get("content-type").cloned());
    field.insert("headers", Value::dict(headers.into_iter().collect()));
    field.insert("text", std::str::from_utf8(content).ok().map(str::to_owned));
    field.insert("bytes", Value::bytes(content.to_vec()));
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: ParseOptions =
        ParseOptions { max_total_bytes: MAX_BYTES, max_field_bytes: MAX_BYTES, max_fields: MAX_FIELDS };

    fn part(name: &str, content: &[u8]) -> Part {
        let head = format!("Content-Disposition: form-data; name=\"{}\"\r\n", escaped(name));
        Part { head, content: content.to_vec() }
    }

    proptest! {
        #[test]
        fn any_content_comes_back(contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..5)) {
            let parts: Vec<Part> = contents.iter().map(|content| part("a\"b\r\nc", content)).collect();
            let boundary = boundary_of(&parts);
            let body = body_of(&boundary, &parts).unwrap();
            let kind = format!("multipart/form-data; boundary={boundary}");
            // Without parts, only the closing delimiter is left.
            let form = read(&body, &kind, &LIMITS).unwrap();
            let fields = form.get_str("fields").unwrap().as_list().cloned().unwrap();
            prop_assert_eq!(fields.len(), contents.len());
            for (field, content) in fields.iter().zip(&contents) {
                let field = field.to_dict().unwrap();
                prop_assert_eq!(&**field.get_str("bytes").unwrap().as_bytes().unwrap(), content);
                prop_assert_eq!(field.get_str("name").unwrap().as_str().unwrap().as_str(), "a\"b\r\nc");
            }
        }

        #[test]
        fn random_bodies_are_no_panic(body in "(--x)?[\\r\\n:;=\"a-]{0,60}(\r\n--x(--)?)?", kind in "multipart/form-data[;= \"a-z\\\\]{0,30}") {
            let _ = read(body.as_bytes(), "multipart/form-data; boundary=x", &LIMITS);
            let _ = read(body.as_bytes(), &kind, &LIMITS);
        }
    }

    #[test]
    fn a_boundary_that_occurs_gets_a_number() {
        let plain = boundary_of(&[part("a", b"1")]);
        assert_eq!(plain.len(), "----harn-boundary-".len() + 16);
        assert!(is_boundary(&plain) && !is_boundary("") && !is_boundary("a ") && !is_boundary("a\"b"));
    }

    #[test]
    fn parameters_of_all_kinds() {
        let found = parameters("form-data; name=\"a;=\\\"b\"; x; FileName=C:\\t.txt ;name=c");
        let pairs: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("filename", "C:\\t.txt"), ("name", "a;=\"b")]);
    }
}
