//! The host operations that a project may call: `{capability: [operations]}`, in the manifest or in a separate file.

use std::collections::BTreeSet;
use std::path::Path;

use harn_system::System;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads operations from a JSON or TOML file, as `capability.operation`.
///
/// # Errors
/// Why the file is invalid, without its path.
pub fn read_operations(system: &dyn System, path: &Path) -> Result<BTreeSet<String>, String> {
    let text = super::manifest::text(system, path).map_err(|error| error.to_string())?;
    if path.extension().is_some_and(|extension| extension == "toml") {
        let table = DeTable::parse(&text).map_err(|error| error.message().to_owned())?;
        let table = table.get_ref();
        let inner = table.get("capabilities").and_then(|inner| inner.get_ref().as_table());
        return of_table(inner.unwrap_or(table)).map_err(|(wrong, _)| wrong);
    }
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    of_json(json.get("capabilities").unwrap_or(&json))
}

/// Returns the operations of a TOML table; the error has its span.
pub(super) fn of_table(table: &DeTable<'_>) -> Result<BTreeSet<String>, (String, std::ops::Range<usize>)> {
    let mut all = BTreeSet::new();
    for (capability, value) in table {
        let name = |op: &str| format!("{}.{op}", capability.get_ref());
        let is_text = |op: &Spanned<DeValue<'_>>| op.get_ref().as_str().is_some();
        match value.get_ref() {
            DeValue::Array(ops) if ops.iter().all(is_text) => {
                all.extend(ops.iter().filter_map(|op| op.get_ref().as_str()).map(name));
            }
            // Operations with their description by a host.
            DeValue::Table(ops) => all.extend(ops.keys().map(|op| name(op.get_ref()))),
            _ => return Err((must(capability.get_ref()), value.span())),
        }
    }
    Ok(all)
}

fn of_json(value: &Value) -> Result<BTreeSet<String>, String> {
    let Value::Object(capabilities) = value else {
        return Err("it must be a dict of capabilities".to_owned());
    };
    let mut all = BTreeSet::new();
    for (capability, ops) in capabilities {
        let names: Option<Vec<&str>> = match ops {
            Value::Array(ops) => ops.iter().map(Value::as_str).collect(),
            Value::Object(ops) => Some(ops.keys().map(String::as_str).collect()),
            _ => None,
        };
        let names = names.ok_or_else(|| must(capability))?;
        all.extend(names.into_iter().map(|op| format!("{capability}.{op}")));
    }
    Ok(all)
}

fn must(capability: &str) -> String {
    format!("`{capability}` must be a list of names of operations")
}
