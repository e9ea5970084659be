//! `@json`, `@csv` and the other formats of jq.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use harn_value::{Value, steps};

use super::values::{array, json_text, shown, text, type_name};
use super::{Flow, fail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
    Csv,
    Tsv,
    Html,
    Uri,
    Sh,
    Base64,
    Base64d,
}

impl Format {
    pub(super) fn named(name: &str) -> Option<Format> {
        Some(match name {
            "text" => Format::Text,
            "json" => Format::Json,
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "html" => Format::Html,
            "uri" => Format::Uri,
            "sh" => Format::Sh,
            "base64" => Format::Base64,
            "base64d" => Format::Base64d,
            _ => return None,
        })
    }

    /// Formats a value.
    ///
    /// # Errors
    /// The format does not support the value.
    pub(super) fn apply(self, value: &Value) -> Flow<String> {
        let escaped = |escape: fn(char) -> Option<&'static str>| {
            let mut out = String::new();
            for c in steps::each(text(value).chars()) {
                match escape(c) {
                    Some(entity) => out.push_str(entity),
                    None => out.push(c),
                }
            }
            out
        };
        Ok(match self {
            Format::Text => text(value).to_string(),
            Format::Json => json_text(value),
            Format::Csv => row(value, ",", "csv")?,
            Format::Tsv => row(value, "\t", "tsv")?,
            Format::Html => escaped(|c| match c {
                '&' => Some("&amp;"),
                '<' => Some("&lt;"),
                '>' => Some("&gt;"),
                '\'' => Some("&#39;"),
                '"' => Some("&quot;"),
                _ => None,
            }),
            Format::Uri => {
                let mut out = String::new();
                for byte in steps::each(text(value).bytes()) {
                    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                        out.push(char::from(byte));
                    } else {
                        out.push_str(&format!("%{byte:02X}"));
                    }
                }
                out
            }
            Format::Sh => {
                let items =
                    if type_name(value) == "array" { array(value, "escaped")? } else { vec![value.clone()] };
                let quoted = |item: &Value| match type_name(item) {
                    "string" => Ok(format!("'{}'", text(item).replace('\'', "'\\''"))),
                    "array" | "object" => fail(format!("{} can not be escaped for shell", shown(item))),
                    _ => Ok(json_text(item)),
                };
                items.iter().map(quoted).collect::<Flow<Vec<_>>>()?.join(" ")
            }
            Format::Base64 => STANDARD.encode(text(value).as_bytes()),
            Format::Base64d => {
                let coded = text(value);
                let packed = coded.trim_end_matches('=');
                match base64::engine::general_purpose::STANDARD_NO_PAD.decode(packed) {
                    Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Err(_) => return fail(format!("{} is not valid base64 data", shown(value))),
                }
            }
        })
    }
}

/// Returns the fields of a row of CSV or TSV.
fn row(value: &Value, separator: &str, name: &str) -> Flow<String> {
    let field = |item: &Value| match (type_name(item), name) {
        ("null", _) => Ok(String::new()),
        ("string", "csv") => Ok(format!("\"{}\"", text(item).replace('"', "\"\""))),
        ("string", _) => Ok(text(item)
            .replace('\\', "\\\\")
            .replace('\t', "\\t")
            .replace('\n', "\\n")
            .replace('\r', "\\r")),
        ("boolean" | "number", _) => Ok(json_text(item)),
        _ => fail(format!("{} is not valid in a {name} row", shown(item))),
    };
    let fields = array(value, &format!("{name}-formatted, only an array can be"))?;
    Ok(fields.iter().map(field).collect::<Flow<Vec<_>>>()?.join(separator))
}
