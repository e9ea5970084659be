//! Specs of typed plans and of references.

use harn_value::{Data as Value, data::Map};

use super::HarnessError;
use super::fields::Fields;
use super::schema::lower_schema;
use harn_prompt::value::{object, present};

/// The statuses of a plan.
pub(crate) const PLAN_STATUSES: [&str; 5] = ["draft", "approved", "executing", "executed", "failed"];

/// A kind of plan: the schema of its body and the display names of its statuses.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSpec {
    /// The plan's name.
    pub name: String,
    /// JSON Schema of the body.
    pub schema: Value,
    /// Statuses with their display names.
    pub display_aliases: Vec<(String, String)>,
}

/// Builds a plan spec from `{name, schema, display_aliases?}`. Aliases are a dict from status to display name, or a
/// list of `{status, alias}`.
///
/// # Errors
/// A key is unknown, a field has a wrong type, or an alias is for an unknown status.
pub fn define_plan(config: &Value) -> Result<PlanSpec, HarnessError> {
    let fields = Fields::of("define_plan", config, &["name", "schema", "display_aliases"])?;
    let name = fields.name("name")?;
    let schema = fields.get("schema").ok_or_else(|| fields.wrong("schema", "a schema"))?;
    let schema = lower_schema("define_plan", schema)?;
    let wrong = || fields.wrong("display_aliases", "a dict or a list of statuses and aliases");
    let mut display_aliases = Vec::new();
    match fields.get("display_aliases") {
        None => {}
        Some(Value::Array(items)) => {
            for item in items {
                let dict = item.as_object().ok_or_else(wrong)?;
                let text =
                    |key| present(dict, key).and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong);
                display_aliases.push((text("status")?, text("alias")?));
            }
        }
        Some(other) => {
            for (status, alias) in other.as_object().ok_or_else(wrong)?.sorted() {
                display_aliases.push((status.clone(), alias.as_str().ok_or_else(wrong)?.to_owned()));
            }
        }
    }
    match display_aliases.iter().find(|(status, _)| !PLAN_STATUSES.contains(&status.as_str())) {
        Some((status, _)) => Err(HarnessError::PlanStatus(status.clone())),
        None => Ok(PlanSpec { name, schema, display_aliases }),
    }
}

impl PlanSpec {
    /// Returns the fields of the struct `PlanSpec`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.fields("display_aliases")
    }

    /// Returns the wire form.
    #[must_use]
    pub(crate) fn to_wire(&self) -> Value {
        self.fields("displayAliases")
    }

    fn fields(&self, aliases: &str) -> Value {
        let alias = |(status, alias): &(String, String)| {
            object([("status", status.clone().into()), ("alias", alias.clone().into())])
        };
        object([
            ("name", self.name.clone().into()),
            ("schema", self.schema.clone()),
            (aliases, self.display_aliases.iter().map(alias).collect::<Vec<_>>().into()),
        ])
    }
}

/// A kind of reference: a value that is passed by id.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceSpec {
    /// The kind's name.
    pub name: String,
    /// JSON Schema of the value.
    pub schema: Value,
    /// Lifetime of a value in milliseconds; `None` means unlimited.
    pub ttl_ms: Option<u64>,
}

/// Builds a reference spec from `{name, schema, ttl_ms?, glimpse?}`. The caller stores the glimpse closure.
///
/// # Errors
/// A key is unknown or a field has a wrong type.
pub fn define_reference(config: &Value) -> Result<ReferenceSpec, HarnessError> {
    let fields = Fields::of("define_reference", config, &["name", "schema", "ttl_ms", "glimpse"])?;
    let name = fields.name("name")?;
    let schema = fields.get("schema").ok_or_else(|| fields.wrong("schema", "a schema"))?;
    if fields.get("glimpse").is_some_and(|value| !value.is_closure()) {
        return Err(fields.wrong("glimpse", "a closure"));
    }
    Ok(ReferenceSpec {
        name,
        schema: lower_schema("define_reference", schema)?,
        ttl_ms: fields.positive("ttl_ms")?,
    })
}

impl ReferenceSpec {
    /// Returns the fields of the struct `ReferenceSpec`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.fields("ttl_ms")
    }

    /// Returns the wire form.
    #[must_use]
    pub(crate) fn to_wire(&self) -> Value {
        self.fields("ttlMs")
    }

    fn fields(&self, ttl: &str) -> Value {
        object([
            ("name", self.name.clone().into()),
            ("schema", self.schema.clone()),
            (ttl, self.ttl_ms.into()),
        ])
    }
}

/// Builds a `oneOf` of object schemas that differ in a constant property.
///
/// # Errors
/// There are fewer than two schemas, or a discriminator is missing, not constant or repeated.
pub fn tagged_union(schemas: &[Value], discriminator: &str) -> Result<Value, HarnessError> {
    let refuse = |text: String| Err(HarnessError::TaggedUnion(text));
    if schemas.len() < 2 {
        return refuse("at least two schemas are required".to_owned());
    }
    let mut seen: Vec<Value> = Vec::new();
    let mut members = Vec::new();
    for (index, schema) in schemas.iter().enumerate() {
        let lowered = lower_schema("tagged_union", schema)?;
        let property = &lowered["properties"][discriminator];
        let single = property["enum"].as_array().filter(|values| values.len() == 1).map(|values| &values[0]);
        let Some(constant) = property.get("const").or(single).cloned() else {
            return refuse(format!("schema #{index} has no constant `{discriminator}`"));
        };
        if seen.contains(&constant) {
            return refuse(format!("`{discriminator}` {constant} is used twice"));
        }
        seen.push(constant);
        members.push(lowered);
    }
    let mut union = Map::new();
    union.insert("oneOf".into(), members.into());
    Ok(union.into())
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn plans_keep_their_aliases() {
        let plan = define_plan(&json!({"name": "P", "schema": {"actions": "list"},
            "display_aliases": {"draft": "Proposal", "approved": "Go"}}))
        .unwrap();
        assert_eq!(plan.display_aliases[0], ("approved".into(), "Go".into()));
        assert_eq!(define_plan(&plan.to_json()).unwrap(), plan, "the list form is accepted too");
        assert_eq!(plan.to_wire()["displayAliases"][1], json!({"status": "draft", "alias": "Proposal"}));
    }

    #[test]
    fn plan_errors() {
        let error = |config: Value| define_plan(&config).unwrap_err().to_string();
        assert_eq!(
            error(json!({"name": "P", "schema": {}, "display_aliases": {"done": "x"}})),
            "unsupported plan display status `done`"
        );
        assert_eq!(error(json!({"name": "P"})), "define_plan: schema must be a schema");
        assert_eq!(error(json!({"name": "P", "schema": 1})), "define_plan: unsupported schema");
        assert_eq!(
            error(json!({"name": "P", "schema": {}, "display_aliases": ["draft"]})),
            "define_plan: display_aliases must be a dict or a list of statuses and aliases"
        );
    }

    #[test]
    fn references_may_expire() {
        let reference =
            define_reference(&json!({"name": "R", "schema": {"type": "object"}, "ttl_ms": 100})).unwrap();
        assert_eq!(reference.to_wire(), json!({"name": "R", "schema": {"type": "object"}, "ttlMs": 100}));
        assert_eq!(reference.to_json()["ttl_ms"], 100);
        let endless = define_reference(&json!({"name": "R", "schema": {}})).unwrap();
        assert_eq!(endless.to_wire()["ttlMs"], json!(null));
        assert_eq!(
            define_reference(&json!({"name": "R", "schema": {}, "ttl_ms": 0})).unwrap_err().to_string(),
            "define_reference: ttl_ms must be an int of at least 1"
        );
    }

    #[test]
    fn unions_need_distinct_constants() {
        let member = |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}}});
        let union = tagged_union(&[member("a"), member("b")], "kind").unwrap();
        assert_eq!(union["oneOf"].as_array().unwrap().len(), 2);
        let error = |schemas: &[Value]| tagged_union(schemas, "kind").unwrap_err().to_string();
        assert_eq!(error(&[member("a")]), "tagged_union: at least two schemas are required");
        assert_eq!(error(&[member("a"), member("a")]), "tagged_union: `kind` \"a\" is used twice");
        assert_eq!(
            error(&[member("a"), json!({"x": "int"})]),
            "tagged_union: schema #1 has no constant `kind`"
        );
        let single = json!({"type": "object", "properties": {"kind": {"enum": ["c"]}}});
        assert!(tagged_union(&[member("a"), single], "kind").is_ok());
    }
}
