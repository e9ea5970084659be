//! Toolkits: the tools of a toolkit id, and their prompt rows.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

use super::fields::Fields;
use super::{HarnessError, Role, ToolSpec, define_tool};
use harn_prompt::layered::ToolRow;
use harn_prompt::prose::Prose;
use harn_prompt::value::object;

/// A toolkit of a runtime spec.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolkitSpec {
    /// A built-in id, or the id of a custom toolkit.
    pub id: String,
    /// `{tools: [names]}` restricts the toolkit to these tools; other keys are not interpreted.
    pub config: Option<Map<String, Value>>,
    /// The tools of a custom toolkit; empty for a built-in one. They are not part of the wire form.
    pub tools: Vec<ToolSpec>,
}

/// The built-in toolkits and their tools.
const BUILT_IN: [(&str, &[&str]); 4] = [
    ("agents", &["call_agent"]),
    ("plans", &["storePlan", "getPlan", "executePlan"]),
    ("references", &["resolveRef", "glimpseRef"]),
    (
        "catalog",
        &[
            "search_catalog",
            "get_catalog_entities",
            "list_schema_fields",
            "get_catalog_relations",
            "get_relation_paths_between",
            "sample_table_data",
            "execute_query",
        ],
    ),
];

/// Returns the names of the tools that a built-in toolkit provides to agents of `role`; `None` for an unknown id.
#[must_use]
pub fn built_in_tools(id: &str, role: Role) -> Option<Vec<&'static str>> {
    let (_, tools) = BUILT_IN.iter().find(|(known, _)| *known == id)?;
    let offered = |name: &&&str| match (id, role) {
        ("plans", Role::Planner) => **name != "executePlan",
        ("plans", Role::Executor) => **name != "storePlan",
        ("plans", _) => **name == "getPlan",
        _ => true,
    };
    Some(tools.iter().filter(offered).copied().collect())
}

/// Returns the asset name of a built-in tool's description.
#[must_use]
pub(crate) fn description_asset(tool: &str) -> String {
    format!("std/harness/tools/{tool}.harn.prompt")
}

/// Descriptions of the built-in tools, rendered once from their assets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolkitDescriptions(BTreeMap<String, String>);

impl ToolkitDescriptions {
    /// Renders the description of every built-in tool.
    ///
    /// # Errors
    /// An asset does not render.
    pub fn render(prose: &dyn Prose) -> Result<Self, HarnessError> {
        let mut map = BTreeMap::new();
        for tool in BUILT_IN.iter().flat_map(|(_, tools)| *tools) {
            let text = prose.render(&description_asset(tool), &Map::new())?;
            map.insert((*tool).to_owned(), text.trim().to_owned());
        }
        Ok(Self(map))
    }

    /// Returns the description of a tool, or an empty string.
    #[must_use]
    pub fn of(&self, tool: &str) -> &str {
        self.0.get(tool).map_or("", String::as_str)
    }

    /// Returns the prompt row of a built-in tool; its approval cell says that the runtime decides.
    #[must_use]
    pub fn row(&self, tool: &str) -> ToolRow {
        ToolRow {
            name: tool.to_owned(),
            description: self.of(tool).to_owned(),
            approval: "runtime".to_owned(),
        }
    }
}

impl ToolkitSpec {
    /// Reads a toolkit: its id, or `{id, config?, tools?}`.
    ///
    /// # Errors
    /// The value has another form.
    pub fn from_json(function: &str, value: &Value) -> Result<Self, HarnessError> {
        if let Some(id) = value.as_str().filter(|id| !id.trim().is_empty()) {
            return Ok(Self { id: id.to_owned(), config: None, tools: Vec::new() });
        }
        let fields = Fields::of(function, value, &["id", "config", "tools"])?;
        Ok(Self {
            id: fields.name("id")?,
            config: fields.dict("config")?.cloned(),
            tools: fields.tools("tools")?.iter().map(define_tool).collect::<Result<_, _>>()?,
        })
    }

    /// Returns `{id, config}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([("id", self.id.clone().into()), ("config", self.config.clone().into())])
    }

    /// Returns the names to which the config restricts the toolkit; `None` for all.
    pub(crate) fn selected(&self) -> Option<Vec<&str>> {
        let names = self.config.as_ref()?.get("tools")?.as_array()?;
        Some(names.iter().filter_map(Value::as_str).collect())
    }

    /// Returns the prompt rows of the toolkit for an agent of `role`, restricted by the config, in the toolkit's order.
    /// Returns none for an unknown toolkit, which is an error when the runtime is created.
    #[must_use]
    pub fn rows(&self, role: Role, descriptions: &ToolkitDescriptions) -> Vec<ToolRow> {
        let selected = self.selected();
        let wanted = |name: &str| selected.as_ref().is_none_or(|names| names.contains(&name));
        if !self.tools.is_empty() {
            let own = self.tools.iter().filter(|tool| wanted(&tool.name));
            return own.map(|tool| ToolRow { approval: "runtime".to_owned(), ..tool.row() }).collect();
        }
        let built_in = built_in_tools(&self.id, role).unwrap_or_default();
        built_in.into_iter().filter(|name| wanted(name)).map(|name| descriptions.row(name)).collect()
    }
}

/// Builds a custom toolkit from `{id, tools: [ToolSpec]}` (`name` is an alias of `id`).
///
/// # Errors
/// The id is missing or a tool is malformed.
pub fn define_toolkit(config: &Value) -> Result<ToolkitSpec, HarnessError> {
    let mut dict = config.as_object().cloned().unwrap_or_default();
    if let Some(name) = dict.shift_remove("name") {
        dict.insert("id".to_owned(), name);
    }
    ToolkitSpec::from_json("define_toolkit", &Value::Object(dict))
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use harn_prompt::prose::FixedProse;

    fn names(value: Value, role: Role) -> Vec<String> {
        let toolkit = ToolkitSpec::from_json("f", &value).unwrap();
        toolkit.rows(role, &ToolkitDescriptions::default()).into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn roles_see_their_share() {
        assert_eq!(names(json!("plans"), Role::Planner), ["storePlan", "getPlan"]);
        assert_eq!(names(json!("plans"), Role::Executor), ["getPlan", "executePlan"]);
        assert_eq!(names(json!("plans"), Role::Coordinator), ["getPlan"]);
        assert_eq!(names(json!({"id": "agents"}), Role::Specialist), ["call_agent"]);
        assert_eq!(names(json!("nobody"), Role::Planner), [] as [&str; 0]);
    }

    #[test]
    fn config_narrows() {
        let narrow = |tools: Value| json!({"id": "catalog", "config": {"tools": tools}});
        assert_eq!(
            names(narrow(json!(["execute_query", "search_catalog"])), Role::Planner),
            ["search_catalog", "execute_query"]
        );
        assert_eq!(names(narrow(json!([])), Role::Planner), [] as [&str; 0]);
        assert_eq!(names(narrow(json!(null)), Role::Planner).len(), 7);
    }

    #[test]
    fn own_toolkits_bring_their_tools() {
        let own = define_toolkit(
            &json!({"name": "mine", "tools": [{"name": "t", "input_schema": {}, "approval": "always"}]}),
        )
        .unwrap();
        assert_eq!(own.rows(Role::Specialist, &ToolkitDescriptions::default())[0].approval, "runtime");
        assert_eq!(own.to_json(), json!({"id": "mine", "config": null}));
        assert_eq!(
            define_toolkit(&json!({"tools": []})).unwrap_err().to_string(),
            "define_toolkit: id must be a non-empty string"
        );
    }

    #[test]
    fn descriptions_come_from_assets() {
        let mut prose = FixedProse::new();
        for (_, tools) in BUILT_IN {
            for tool in tools {
                prose = prose.with(description_asset(tool), format!("{tool} does.\n"));
            }
        }
        let descriptions = ToolkitDescriptions::render(&prose).unwrap();
        assert_eq!(descriptions.row("getPlan").description, "getPlan does.");
        assert!(ToolkitDescriptions::render(&FixedProse::new()).is_err());
    }
}
