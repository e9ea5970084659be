//! Approval rules: which actions need approval.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

use super::HarnessError;
use harn_prompt::value::{object, present};

/// When an action needs approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Never.
    Never,
    /// Always.
    Always,
    /// A predicate decides; contains its binding id.
    Dynamic(String),
}

impl Approval {
    /// Returns the kind: `never`, `always` or `dynamic`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::Dynamic(_) => "dynamic",
        }
    }

    /// Returns the wire form, such as `{kind: "dynamic", value: id}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Dynamic(id) => object([("kind", "dynamic".into()), ("value", id.clone().into())]),
            other => object([("kind", other.kind().into())]),
        }
    }

    /// Reads an approval. A closure becomes a dynamic rule with the id `closure_id`, or is an error if that is `None`.
    ///
    /// # Errors
    /// The value has none of the forms; the message names `function`.
    pub fn parse(function: &str, value: &Value, closure_id: Option<&str>) -> Result<Self, HarnessError> {
        let wrong = || HarnessError::Approval(function.to_owned());
        if let Some(foreign) = value.as_opaque() {
            return match closure_id.filter(|_| ["closure", "builtin"].contains(&foreign.type_name)) {
                Some(id) => Ok(Self::Dynamic(id.to_owned())),
                None => Err(wrong()),
            };
        }
        let dict = value.as_object();
        let kind = value.as_str().or_else(|| dict.and_then(|d| d.get("kind")?.as_str()));
        match (kind, dict) {
            (Some("never"), _) => Ok(Self::Never),
            (Some("always"), _) => Ok(Self::Always),
            (Some("dynamic"), Some(dict)) => {
                let id = dict.get("value").and_then(Value::as_str).filter(|id| !id.trim().is_empty());
                id.map(|id| Self::Dynamic(id.to_owned()))
                    .ok_or_else(|| HarnessError::DynamicApproval(function.to_owned()))
            }
            _ => Err(wrong()),
        }
    }
}

/// The action that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// Executing a plan.
    Plan,
    /// Calling a tool.
    Tool {
        /// The name for the model.
        name: &'a str,
        /// The approval in the tool's definition, if any.
        own: Option<&'a Approval>,
    },
}

/// The rules of both channels, where set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Rule for plans.
    pub plans: Option<Approval>,
    /// Rule for tools.
    pub tools: Option<Approval>,
}

impl Patch {
    /// Returns whether no channel is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plans.is_none() && self.tools.is_none()
    }

    /// Returns a dict of the channels that are set.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (name, rule) in [("plans", &self.plans), ("tools", &self.tools)] {
            if let Some(rule) = rule {
                map.insert(name.to_owned(), rule.to_json());
            }
        }
        map.into()
    }

    /// Reads `{plans?, tools?}`; the rule `"default"` sets nothing.
    ///
    /// # Errors
    /// The value is not a dict, has an unknown key, or a rule has none of the forms.
    pub fn parse(function: &str, value: &Value) -> Result<Self, HarnessError> {
        let dict = value.as_object().ok_or_else(|| HarnessError::Field {
            function: function.to_owned(),
            field: "approval".to_owned(),
            expected: "a dict {plans?, tools?}",
        })?;
        if let Some(key) = dict.keys().find(|key| !["plans", "tools"].contains(&key.as_str())) {
            return Err(HarnessError::UnknownKey { function: function.to_owned(), key: key.clone() });
        }
        let rule = |key| match present(dict, key) {
            None => Ok(None),
            Some(Value::String(word)) if word == "default" => Ok(None),
            Some(value) => Approval::parse(function, value, None).map(Some),
        };
        Ok(Self { plans: rule("plans")?, tools: rule("tools")? })
    }
}

/// The default rules of a runtime, one per channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// Rule for plans.
    pub plans: Approval,
    /// Rule for tools.
    pub tools: Approval,
}

impl Default for Policies {
    fn default() -> Self {
        Self { plans: Approval::Always, tools: Approval::Never }
    }
}

impl Policies {
    /// Returns the policies with a patch applied.
    #[must_use]
    pub fn with(self, patch: &Patch) -> Self {
        Self {
            plans: patch.plans.clone().unwrap_or(self.plans),
            tools: patch.tools.clone().unwrap_or(self.tools),
        }
    }

    /// Returns `{plans, tools}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([("plans", self.plans.to_json()), ("tools", self.tools.to_json())])
    }
}

/// Rules of agents and their tools that take precedence over the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Agent names with their patches.
    pub agents: BTreeMap<String, Patch>,
    /// Agent names with tool names and their rules.
    pub tools: BTreeMap<String, BTreeMap<String, Approval>>,
}

impl Overrides {
    /// Returns whether nothing is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.tools.is_empty()
    }

    /// Returns `{agents, tools}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let agents: Map<_, _> =
            self.agents.iter().map(|(name, patch)| (name.clone(), patch.to_json())).collect();
        let rules = |rules: &BTreeMap<String, Approval>| {
            rules.iter().map(|(tool, rule)| (tool.clone(), rule.to_json())).collect::<Map<_, _>>().into()
        };
        let tools: Map<_, _> = self.tools.iter().map(|(name, map)| (name.clone(), rules(map))).collect();
        object([("agents", agents.into()), ("tools", tools.into())])
    }

    /// Reads `{agents: {name: patch}, tools: {agent: {tool: rule}}}`.
    ///
    /// # Errors
    /// A part has the wrong type.
    pub fn parse(function: &str, value: &Value) -> Result<Self, HarnessError> {
        let wrong = |field: &str| HarnessError::Field {
            function: function.to_owned(),
            field: field.to_owned(),
            expected: "a dict",
        };
        let dict = value.as_object().ok_or_else(|| wrong("approval_overrides"))?;
        if let Some(key) = dict.keys().find(|key| !["agents", "tools"].contains(&key.as_str())) {
            return Err(HarnessError::UnknownKey { function: function.to_owned(), key: key.clone() });
        }
        let part = |key: &str, field: &str| match present(dict, key) {
            None => Ok(Vec::new()),
            Some(value) => value.as_object().map(|map| map.sorted().collect()).ok_or_else(|| wrong(field)),
        };
        let mut overrides = Self::default();
        for (agent, patch) in part("agents", "approval_overrides.agents")? {
            overrides.agents.insert(agent.clone(), Patch::parse(function, patch)?);
        }
        for (agent, rules) in part("tools", "approval_overrides.tools")? {
            let rules = rules.as_object().ok_or_else(|| wrong("approval_overrides.tools"))?;
            overrides.tools.insert(agent.clone(), tool_rules(function, rules)?);
        }
        Ok(overrides)
    }

    /// Replaces exactly the rules that `other` contains; all other rules are unchanged.
    pub(super) fn overlay(&mut self, other: Overrides) {
        for (agent, patch) in other.agents {
            let own = self.agents.entry(agent).or_default();
            own.plans = patch.plans.or(own.plans.take());
            own.tools = patch.tools.or(own.tools.take());
        }
        for (agent, rules) in other.tools {
            self.tools.entry(agent).or_default().extend(rules);
        }
    }

    /// Returns the rule for a call of `agent`. The most specific rule wins, whether it is stricter or not: the tool's,
    /// then the agent's, then the default.
    pub(super) fn rule<'a>(&'a self, floor: &'a Policies, agent: &str, subject: Subject<'a>) -> &'a Approval {
        let patch = self.agents.get(agent);
        match subject {
            Subject::Plan => patch.and_then(|patch| patch.plans.as_ref()).unwrap_or(&floor.plans),
            Subject::Tool { name, own } => {
                let named = self.tools.get(agent).and_then(|rules| rules.get(name)).or(own);
                named.or(patch.and_then(|patch| patch.tools.as_ref())).unwrap_or(&floor.tools)
            }
        }
    }
}

/// Reads a dict that maps tool names to rules.
pub(super) fn tool_rules(
    function: &str,
    rules: &Map<String, Value>,
) -> Result<BTreeMap<String, Approval>, HarnessError> {
    let mut map = BTreeMap::new();
    for (tool, rule) in rules {
        if tool.trim().is_empty() {
            return Err(HarnessError::ToolApprovalName);
        }
        map.insert(tool.clone(), Approval::parse(function, rule, None)?);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn parse(value: Value, id: Option<&str>) -> Result<Value, String> {
        Approval::parse("define_tool", &value, id).map(|a| a.to_json()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_forms_and_their_wire_form() {
        assert_eq!(parse(json!("never"), None).unwrap(), json!({"kind": "never"}));
        assert_eq!(parse(json!("always"), None).unwrap(), json!({"kind": "always"}));
        assert_eq!(parse(json!({"kind": "always"}), None).unwrap(), json!({"kind": "always"}));
        let dynamic = json!({"kind": "dynamic", "value": "id"});
        assert_eq!(parse(dynamic.clone(), None).unwrap(), dynamic);
        assert_eq!(
            parse(Value::opaque("closure", "<fn(a, c)>"), Some("t_approval")).unwrap(),
            json!({"kind": "dynamic", "value": "t_approval"})
        );
    }

    #[test]
    fn other_forms_are_refused() {
        let text = "define_tool: approval must be 'never', 'always', or a dynamic policy";
        for bad in [
            json!("dynamic"),
            json!(true),
            json!({"kind": "x"}),
            json!({}),
            json!([]),
            Value::opaque("closure", "f"),
            Value::opaque("set", "s"),
        ] {
            assert_eq!(parse(bad, None).unwrap_err(), text);
        }
        for bad in [
            json!({"kind": "dynamic"}),
            json!({"kind": "dynamic", "value": " "}),
            json!({"kind": "dynamic", "value": 1}),
        ] {
            assert_eq!(
                parse(bad, None).unwrap_err(),
                "define_tool: approval dynamic value must be a non-empty binding id"
            );
        }
    }

    #[test]
    fn patches_list_only_what_they_set() {
        let patch = |value: Value| Patch::parse("f", &value);
        assert_eq!(
            patch(json!({"plans": "always", "tools": "default"})).unwrap().to_json(),
            json!({"plans": {"kind": "always"}})
        );
        assert!(patch(json!({"plans": null})).unwrap().is_empty());
        assert_eq!(patch(json!({"x": 1})).unwrap_err().to_string(), "f: unknown key 'x'");
        assert!(patch(json!("always")).is_err());
    }

    #[test]
    fn the_most_specific_rule_wins_in_both_directions() {
        let overrides = Overrides::parse(
            "f",
            &json!({"agents": {"e": {"tools": "always", "plans": "never"}}, "tools": {"e": {"read": "never"}, "p": {"post": "always"}}}),
        )
        .unwrap();
        let floor = Policies::default();
        let tool =
            |agent: &str, name| overrides.rule(&floor, agent, Subject::Tool { name, own: None }).kind();
        assert_eq!(tool("e", "read"), "never");
        assert_eq!(tool("e", "other"), "always");
        assert_eq!(tool("p", "post"), "always");
        assert_eq!(tool("p", "read"), "never");
        let own = Some(&Approval::Always);
        assert_eq!(overrides.rule(&floor, "p", Subject::Tool { name: "read", own }).kind(), "always");
        assert_eq!(overrides.rule(&floor, "e", Subject::Tool { name: "read", own }).kind(), "never");
        assert_eq!(overrides.rule(&floor, "e", Subject::Plan).kind(), "never");
        assert_eq!(overrides.rule(&floor, "p", Subject::Plan).kind(), "always");
    }

    #[test]
    fn overrides_have_a_shape() {
        let error = |value: Value| Overrides::parse("define_runtime", &value).unwrap_err().to_string();
        assert_eq!(error(json!([])), "define_runtime: approval_overrides must be a dict");
        assert_eq!(error(json!({"agents": 1})), "define_runtime: approval_overrides.agents must be a dict");
        assert_eq!(
            error(json!({"tools": {"a": 1}})),
            "define_runtime: approval_overrides.tools must be a dict"
        );
        assert_eq!(error(json!({"x": {}})), "define_runtime: unknown key 'x'");
        assert_eq!(
            error(json!({"tools": {"a": {"": "never"}}})),
            "tool_approvals keys must be non-empty tool names"
        );
    }
}
