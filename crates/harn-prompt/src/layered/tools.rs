//! The tools table of a layered prompt.

use harn_value::{Data as Value, data::Map};

use super::LayeredError;
use crate::value::present;

/// The first line of the table.
pub(super) const HEADER: &str = "| Tool | Description | Approval |";
/// The second line of the table.
pub(super) const RULE: &str = "| --- | --- | --- |";

/// One row of the tools table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRow {
    /// The tool's name; rows without one are dropped.
    pub name: String,
    /// The description; may be empty.
    pub description: String,
    /// The approval kind; may be empty.
    pub approval: String,
}

/// Parses rows from a list of tool specs, dicts `{name, description?, approval?}` or names, or from a tool registry.
///
/// # Errors
/// The value is neither a list nor a registry, or an entry has no name or an invalid approval.
pub fn tool_rows(tools: &Value) -> Result<Vec<ToolRow>, LayeredError> {
    match tools {
        Value::Array(items) => items.iter().map(row).collect(),
        other => match other.as_object().filter(|dict| dict.get("_type") == Some(&"tool_registry".into())) {
            Some(registry) => registry_rows(registry),
            None => Err(LayeredError::ToolsType),
        },
    }
}

fn row(item: &Value) -> Result<ToolRow, LayeredError> {
    match item {
        Value::String(name) => Ok(ToolRow { name: name.clone(), ..ToolRow::default() }),
        other => {
            let dict = other.as_object().ok_or(LayeredError::ToolsType)?;
            Ok(ToolRow { approval: approval(dict.get("approval"))?, ..entry_row(dict)? })
        }
    }
}

/// Rows of a registry have no approval, because policies rather than tools decide which calls need one.
fn registry_rows(registry: &Map<String, Value>) -> Result<Vec<ToolRow>, LayeredError> {
    let entries = registry.get("tools").and_then(Value::as_array).ok_or(LayeredError::ToolsType)?;
    entries.iter().map(|entry| entry_row(entry.as_object().ok_or(LayeredError::ToolsType)?)).collect()
}

fn entry_row(dict: &Map<String, Value>) -> Result<ToolRow, LayeredError> {
    let name = dict.get("name").and_then(Value::as_str).ok_or(LayeredError::ToolsType)?;
    let description = present(dict, "description").map(Value::printed).unwrap_or_default();
    Ok(ToolRow { name: name.to_owned(), description, approval: String::new() })
}

fn approval(value: Option<&Value>) -> Result<String, LayeredError> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(kind)) => Ok(kind.clone()),
        Some(other) => {
            let kind = other.as_object().and_then(|dict| dict.get("kind")?.as_str());
            kind.map(str::to_owned).ok_or(LayeredError::Approval)
        }
    }
}

/// Renders rows as a Markdown table, sorted by name. Of several rows with the same name, the first one is used. Empty
/// without rows.
#[must_use]
pub(crate) fn tools_table(rows: Vec<ToolRow>) -> String {
    let mut kept: Vec<ToolRow> = Vec::with_capacity(rows.len());
    for mut row in rows {
        row.name = row.name.trim().to_owned();
        if !row.name.is_empty() && kept.iter().all(|k| k.name != row.name) {
            kept.push(row);
        }
    }
    if kept.is_empty() {
        return String::new();
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    let mut lines = vec![HEADER.to_owned(), RULE.to_owned()];
    lines.extend(kept.iter().map(|row| {
        let [name, description, approval] =
            [&row.name, &row.description, &row.approval].map(|cell| escape(cell));
        format!("| {name} | {description} | {approval} |")
    }));
    lines.join("\n")
}

fn escape(cell: &str) -> String {
    cell.trim().replace("\r\n", " ").replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// Parses a row from a line of the table; `None` for the header, the separator, and lines that are not table rows.
pub(super) fn parse_row(line: &str) -> Option<ToolRow> {
    let line = line.trim();
    if line == HEADER || line == RULE {
        return None;
    }
    let inner = line.strip_prefix('|')?;
    let mut cells = vec![String::new()];
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, cells.last_mut()) {
            ('\\', Some(cell)) if chars.peek() == Some(&'|') => {
                cell.push('|');
                chars.next();
            }
            ('|', _) => cells.push(String::new()),
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    let mut cells = cells.into_iter().map(|cell| cell.trim().to_owned());
    let name = cells.next().filter(|name| !name.is_empty())?;
    Some(ToolRow {
        name,
        description: cells.next().unwrap_or_default(),
        approval: cells.next().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn table(tools: Value) -> String {
        tools_table(tool_rows(&tools).unwrap())
    }

    fn body(tools: Value) -> Vec<String> {
        table(tools).lines().skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn rows_are_sorted_and_the_first_of_a_name_wins() {
        let rows = body(
            json!(["b", {"name": " a ", "description": "first"}, {"name": "a", "description": "second"}, "B", " "]),
        );
        assert_eq!(rows, ["| B |  |  |", "| a | first |  |", "| b |  |  |"]);
    }

    #[test]
    fn approval_cells_come_from_strings_dicts_and_specs() {
        let rows = body(json!([
            {"name": "a", "approval": "ask me"},
            {"name": "b", "approval": {"kind": "dynamic", "value": "x"}},
            {"name": "c", "approval": null},
            {"name": "d", "input_schema": {}, "binding_id": null, "approval": {"kind": "always"}},
        ]));
        assert_eq!(rows, ["| a |  | ask me |", "| b |  | dynamic |", "| c |  |  |", "| d |  | always |"]);
        for bad in [json!(1), json!({"value": "x"}), json!({"kind": 3}), json!([])] {
            let error = tool_rows(&json!([{"name": "a", "approval": bad}])).unwrap_err();
            assert_eq!(
                error.to_string(),
                "layered_prompt: tool approval must be a string or a dict with a string `kind`"
            );
        }
    }

    #[test]
    fn cells_are_escaped() {
        let rows = body(json!([{"name": "a|b", "description": " one\ntwo | three\r\nfour "}]));
        assert_eq!(rows, ["| a\\|b | one two \\| three four |  |"]);
    }

    #[test]
    fn a_registry_shows_no_approval() {
        let registry = json!({"_type": "tool_registry", "tools": [{"name": "t", "description": "d", "approval": "always"}]});
        assert_eq!(body(registry), ["| t | d |  |"]);
    }

    #[test]
    fn wrong_shapes_are_refused() {
        for bad in [
            json!("t"),
            json!({"a": 1}),
            json!(3),
            json!([1]),
            json!([{"description": "nameless"}]),
            json!([{"name": 5}]),
        ] {
            assert_eq!(
                tool_rows(&bad).unwrap_err().to_string(),
                "layered_prompt: tools must be a list of tool specs, dicts or names"
            );
        }
    }

    #[test]
    fn what_was_written_reads_back() {
        let row = ToolRow { name: "a|b".into(), description: "x | y".into(), approval: "never".into() };
        let text = tools_table(vec![row.clone()]);
        assert_eq!(text.lines().filter_map(parse_row).collect::<Vec<_>>(), [row]);
        assert_eq!(parse_row("prose"), None);
        assert_eq!(parse_row("| only |").map(|r| r.name), Some("only".into()));
    }
}
