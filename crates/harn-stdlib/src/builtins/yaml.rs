//! YAML.

use harn_value::Value;
use harn_vm::builtin::Text;
use harn_vm::{Error, builtins};

use crate::yaml;

builtins! {
    /// YAML.
    pub(crate) static YAML: "yaml";

    /// Parses one YAML document by the core schema of YAML 1.2; dates and `yes`/`no` are strings.
    ///
    /// The merge key `<<` adds the entries of its map, or of a list of maps, in which earlier maps take precedence; the
    /// map's own entries take precedence over merged ones. Keys are strings as written in the document. A second
    /// document, a repeated key, a list or map as key and a tag outside of the core schema (`!Ref`) are errors;
    /// `!!binary` becomes bytes.
    ///
    /// ```harn
    /// println(yaml_parse("a: 1\nb: [x, 1.5, ~]\nc:\n  - d: 2024-01-15")) // -> {a: 1, b: [x, 1.5, nil], c: [{d: 2024-01-15}]}
    /// println(yaml_parse("base: &b {image: alpine, restart: always}\nweb: {<<: *b, image: nginx}").web) // -> {image: nginx, restart: always}
    /// println(is_err(try { yaml_parse("a: [") })) // -> true
    /// ```
    Pure fn yaml_parse(cx, s: Text as "string") -> "any" {
        yaml::parse(&s).map_err(|reason| Error::thrown(format!("YAML parse error: {reason}")))?
    }

    /// Serializes a value as YAML in block style, with keys in byte order.
    ///
    /// Bytes become `!!binary`. Strings are quoted if a YAML 1.1 or 1.2 parser could interpret them as another
    /// type.
    ///
    /// ```harn
    /// println(yaml_stringify({b: [1, "x"], a: nil}).lines()) // -> [a: null, b:,   - 1,   - x]
    /// ```
    Pure fn yaml_stringify(cx, value: Value) -> "string" {
        yaml::stringify(&value)
    }
}
