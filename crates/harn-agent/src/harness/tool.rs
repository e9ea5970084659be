//! Tool specs: the tools that a model may call, without their handlers.

use harn_value::Data as Value;

use super::fields::Fields;
use super::schema::lower_schema;
use super::{Approval, HarnessError};
use harn_prompt::layered::ToolRow;
use harn_prompt::value::object;

/// A tool of the role runtime. The caller stores the handler and a closure predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name for the model.
    pub name: String,
    /// Its description; may be empty.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether a call needs approval.
    pub approval: Approval,
    /// Whether the definition sets the approval; a default is only displayed and overrides nothing.
    pub approval_given: bool,
    /// JSON Schema of the result.
    pub output_schema: Option<Value>,
    /// The binding id of the handler, if it differs from the name.
    pub binding_id: Option<String>,
}

const FUNCTION: &str = "define_tool";

/// Builds a tool spec from `{name, input_schema, description?, approval?, output_schema?, binding_id?, handler?}`. A
/// handler is accepted and ignored; a closure as approval becomes the dynamic rule `<binding_id or name_approval>`.
///
/// # Errors
/// A key is unknown or a field has a wrong type.
pub fn define_tool(config: &Value) -> Result<ToolSpec, HarnessError> {
    let keys = ["name", "input_schema", "description", "approval", "output_schema", "binding_id", "handler"];
    let fields = Fields::of(FUNCTION, config, &keys)?;
    let name = fields.name("name")?;
    if fields.get("handler").is_some_and(|handler| !handler.is_closure()) {
        return Err(fields.wrong("handler", "a closure"));
    }
    let binding_id = fields.get("binding_id").map(|_| fields.name("binding_id")).transpose()?;
    let closure_id = binding_id.clone().unwrap_or_else(|| format!("{name}_approval"));
    let approval = fields
        .get("approval")
        .map(|value| Approval::parse(FUNCTION, value, Some(&closure_id)))
        .transpose()?;
    let schema = |key| fields.get(key).map(|value| lower_schema(FUNCTION, value)).transpose();
    Ok(ToolSpec {
        description: fields.string("description")?.unwrap_or_default(),
        input_schema: schema("input_schema")?.ok_or_else(|| fields.wrong("input_schema", "a schema"))?,
        approval_given: approval.is_some(),
        approval: approval.unwrap_or(Approval::Never),
        output_schema: schema("output_schema")?,
        name,
        binding_id,
    })
}

impl ToolSpec {
    /// Returns the binding id of the handler.
    #[must_use]
    pub fn binding(&self) -> &str {
        self.binding_id.as_deref().unwrap_or(&self.name)
    }

    /// Returns the approval in the tool's definition, if set.
    pub(crate) fn own_approval(&self) -> Option<&Approval> {
        self.approval_given.then_some(&self.approval)
    }

    /// Returns the tool's row in a prompt, with its approval kind in the last cell.
    #[must_use]
    pub fn row(&self) -> ToolRow {
        ToolRow {
            name: self.name.clone(),
            description: self.description.clone(),
            approval: self.approval.kind().to_owned(),
        }
    }

    /// Returns the fields of the struct `ToolSpec`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("name", self.name.clone().into()),
            ("description", self.description.clone().into()),
            ("input_schema", self.input_schema.clone()),
            ("approval", self.approval.to_json()),
            ("output_schema", self.output_schema.clone().unwrap_or_default()),
            ("binding_id", self.binding_id.clone().into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn error(config: Value) -> String {
        define_tool(&config).unwrap_err().to_string()
    }

    #[test]
    fn a_spec_has_its_defaults() {
        let tool = define_tool(&json!({"name": "find", "input_schema": {"query": "string"}})).unwrap();
        assert!(!tool.approval_given);
        assert_eq!(tool.binding(), "find");
        assert_eq!(
            tool.to_json(),
            json!({"name": "find", "description": "", "input_schema": {"type": "object",
                "properties": {"query": {"type": "string"}}, "required": ["query"]},
                "approval": {"kind": "never"}, "output_schema": null, "binding_id": null})
        );
    }

    #[test]
    fn a_closure_as_approval_names_its_predicate() {
        let closure = Value::opaque("closure", "<fn(args, ctx)>");
        let tool = |binding: Value| {
            define_tool(&json!({"name": "t", "input_schema": {}, "approval": closure, "handler": closure, "binding_id": binding}))
                .unwrap()
        };
        assert_eq!(tool(json!(null)).approval, Approval::Dynamic("t_approval".into()));
        assert_eq!(tool(json!("b")).approval, Approval::Dynamic("b".into()));
        assert_eq!(tool(json!("b")).binding(), "b");
        assert!(tool(json!("b")).approval_given);
    }

    #[test]
    fn a_spec_is_accepted_as_its_own_config() {
        let tool =
            define_tool(&json!({"name": "t", "input_schema": {"a": "int"}, "approval": "always"})).unwrap();
        assert_eq!(define_tool(&tool.to_json()).unwrap(), tool);
        assert_eq!(tool.row().approval, "always");
    }

    #[test]
    fn errors_are_exact() {
        assert_eq!(error(json!({"name": "t", "input_schema": {}, "x": 1})), "define_tool: unknown key 'x'");
        assert_eq!(error(json!({"input_schema": {}})), "define_tool: name must be a non-empty string");
        assert_eq!(error(json!({"name": "t"})), "define_tool: input_schema must be a schema");
        assert_eq!(error(json!({"name": "t", "input_schema": "string"})), "define_tool: unsupported schema");
        assert_eq!(
            error(json!({"name": "t", "input_schema": {}, "approval": "maybe"})),
            "define_tool: approval must be 'never', 'always', or a dynamic policy"
        );
        assert_eq!(
            error(json!({"name": "t", "input_schema": {}, "description": 1})),
            "define_tool: description must be a string"
        );
    }
}
