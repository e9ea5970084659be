//! YAML.

use harn_value::Value;
use harn_vm::builtin::Text;
use harn_vm::{Error, builtins};

use crate::yaml;

builtins! {
    /// YAML.
    pub(crate) static YAML: "yaml";

    /// Reads one YAML document; scalars are as in JSON, dates stay text.
    ///
    /// ```harn
    /// println(yaml_parse("a: 1\nb: [x, 1.5, ~]\nc:\n  - d: 2024-01-15")) // -> {a: 1, b: [x, 1.5, nil], c: [{d: 2024-01-15}]}
    /// println(is_err(try { yaml_parse("a: [") })) // -> true
    /// ```
    Pure fn yaml_parse(cx, s: Text as "string") -> "any" {
        yaml::parse(&s).map_err(|reason| Error::thrown(format!("YAML parse error: {reason}")))?
    }

    /// Writes a value as YAML in block style, keys in byte order.
    ///
    /// ```harn
    /// println(yaml_stringify({b: [1, "x"], a: nil}).lines()) // -> [a: null, b:,   - 1,   - x]
    /// ```
    Pure fn yaml_stringify(cx, value: Value) -> "string" {
        yaml::stringify(&value)
    }
}
