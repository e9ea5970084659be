//! Plans: how they are created from a planner's output, and their state transitions.

use harn_prompt::value::object;
use harn_value::{Data as Value, data::Map};

use crate::harness::PlanSpec;

/// The status of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not approved yet.
    Draft,
    /// May be executed.
    Approved,
    /// Is being executed, or was when the process ended.
    Executing,
    /// Was executed.
    Executed,
    /// Failed to execute.
    Failed,
}

impl Status {
    const ALL: [Self; 5] = [Self::Draft, Self::Approved, Self::Executing, Self::Executed, Self::Failed];

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Approved => "approved",
            Self::Executing => "executing",
            Self::Executed => "executed",
            Self::Failed => "failed",
        }
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns whether the status is final.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Executed | Self::Failed)
    }
}

/// An error of a plan or of an operation on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No spec has this name.
    #[error("unknown plan spec: {0}")]
    UnknownSpec(String),
    /// The body does not match the schema.
    #[error("schema validation failed for spec '{0}': [{1}]")]
    Schema(String, String),
    /// The actions are missing.
    #[error("planner output for spec '{0}' is missing the required `actions` field")]
    NoActions(String),
    /// The actions are not a list.
    #[error("`actions` for spec '{0}' must be a JSON array")]
    ActionsType(String),
    /// The list is empty.
    #[error("planner output for spec '{0}' produced an empty action sequence")]
    EmptyActions(String),
    /// An action is malformed.
    #[error("action #{1} for spec '{0}' failed to decode: {2}")]
    Action(String, usize, String),
    /// No plan has this id.
    #[error("plan not found: {0}")]
    NotFound(String),
    /// A plan that is not a draft cannot be overwritten.
    #[error("plan already exists: {0}")]
    Exists(String),
    /// The plan is in another status.
    #[error("plan transition error: invalid transition: expected {expected}, got {got}")]
    Transition {
        /// The status that the transition requires.
        expected: &'static str,
        /// The current status.
        got: &'static str,
    },
    /// The status of the plan is final.
    #[error("plan is in terminal state: {0}")]
    Terminal(&'static str),
    /// A stored plan is malformed.
    #[error("stored plan '{0}' cannot be read")]
    Unreadable(String),
}

/// A plan in its stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan(Map<String, Value>);

impl Plan {
    /// Creates a draft from a planner's output.
    ///
    /// # Errors
    /// The body does not match the schema of its spec, or its actions are malformed.
    pub fn draft(spec: &PlanSpec, id: &str, owner: &str, body: &Value, now: &str) -> Result<Plan, PlanError> {
        let name = || spec.name.clone();
        let errors = harn_schema::errors(&spec.schema, body);
        if !errors.is_empty() {
            return Err(PlanError::Schema(name(), errors.join(", ")));
        }
        let given = body.as_object().and_then(|map| map.get("actions"));
        let list = match given {
            None | Some(Value::Null) => return Err(PlanError::NoActions(name())),
            Some(Value::Array(list)) if list.is_empty() => return Err(PlanError::EmptyActions(name())),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(PlanError::ActionsType(name())),
        };
        let decode = |(at, action): (usize, &Value)| {
            action_of(action).map_err(|why| PlanError::Action(name(), at, why))
        };
        let actions: Vec<Value> = list.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        let mut context = body.as_object().cloned().unwrap_or_default();
        context.shift_remove("actions");
        let description = context.get("description").filter(|d| d.is_string()).cloned().unwrap_or_default();
        let fields = object([
            ("id", id.into()),
            ("owner", owner.into()),
            ("actions", actions.into()),
            ("status", Status::Draft.as_str().into()),
            ("description", description),
            ("context", context.into()),
            ("createdAt", now.into()),
            ("approvedAt", Value::Null),
            ("startedAt", Value::Null),
            ("completedAt", Value::Null),
            ("failedAt", Value::Null),
            ("approvedBy", Value::Null),
            ("outcome", Value::Null),
        ]);
        match fields {
            Value::Object(map) => Ok(Plan(map)),
            _ => Err(PlanError::Unreadable(id.to_owned())),
        }
    }

    /// Reads a stored plan.
    ///
    /// # Errors
    /// The value is not a valid plan.
    pub fn of(id: &str, stored: Value) -> Result<Plan, PlanError> {
        match stored {
            Value::Object(map)
                if map.get("status").and_then(Value::as_str).and_then(Status::named).is_some() =>
            {
                Ok(Plan(map))
            }
            _ => Err(PlanError::Unreadable(id.to_owned())),
        }
    }

    /// Returns its fields.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.get("status").and_then(Value::as_str).and_then(Status::named).unwrap_or(Status::Failed)
    }

    /// Returns its actions.
    #[must_use]
    pub fn actions(&self) -> &[Value] {
        self.0.get("actions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the references in its actions as unique `(kind, id)` pairs, in order.
    #[must_use]
    pub fn references(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for reference in self.actions().iter().filter_map(|a| a["references"].as_array()).flatten() {
            let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
            let pair = (text("kind"), text("id"));
            if !found.contains(&pair) {
                found.push(pair);
            }
        }
        found
    }

    /// Checks that the plan may be overwritten.
    ///
    /// # Errors
    /// It is not a draft.
    pub fn may_be_replaced(&self, id: &str) -> Result<(), PlanError> {
        if self.status() == Status::Draft { Ok(()) } else { Err(PlanError::Exists(id.to_owned())) }
    }

    /// Changes the status from draft to approved.
    ///
    /// # Errors
    /// It is not a draft.
    pub fn approve(&mut self, by: &str, now: &str) -> Result<(), PlanError> {
        self.go(Status::Draft, Status::Approved)?;
        self.set("approvedAt", now.into());
        self.set("approvedBy", by.into());
        Ok(())
    }

    /// Changes the status from approved to executing. Only the caller that makes this transition may execute the plan.
    ///
    /// # Errors
    /// It is not approved.
    pub fn start(&mut self, now: &str) -> Result<(), PlanError> {
        self.go(Status::Approved, Status::Executing)?;
        self.set("startedAt", now.into());
        Ok(())
    }

    /// Changes the status from executing to executed.
    ///
    /// # Errors
    /// It is not executing.
    pub fn complete(&mut self, done: &Executed, now: &str) -> Result<(), PlanError> {
        self.go(Status::Executing, Status::Executed)?;
        self.set("completedAt", now.into());
        self.set("outcome", done.to_json());
        Ok(())
    }

    /// Changes the status from executing to failed.
    ///
    /// # Errors
    /// It is not executing.
    pub fn fail(&mut self, message: &str, code: &str, now: &str) -> Result<(), PlanError> {
        self.go(Status::Executing, Status::Failed)?;
        self.set("failedAt", now.into());
        let outcome = object([
            ("state", "failed".into()),
            ("message", message.into()),
            ("code", code.into()),
            ("details", Value::Null),
        ]);
        self.set("outcome", outcome);
        Ok(())
    }

    fn go(&mut self, from: Status, to: Status) -> Result<(), PlanError> {
        let now = self.status();
        if now.is_terminal() {
            return Err(PlanError::Terminal(now.as_str()));
        }
        if now != from {
            return Err(PlanError::Transition { expected: from.as_str(), got: now.as_str() });
        }
        self.set("status", to.as_str().into());
        Ok(())
    }

    fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }
}

/// The result that a dispatcher reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executed {
    entities: u64,
    summary: Value,
    details: Value,
}

impl Executed {
    /// Reads the return value of a dispatcher: nil, or `{entitiesAffected, summary?, details?}`.
    ///
    /// # Errors
    /// The value has another form.
    pub fn read(value: &Value) -> Result<Executed, String> {
        if value.is_null() {
            return Ok(Executed::default());
        }
        let wrong =
            || "action_dispatcher must return nil or {entitiesAffected: int >= 0, summary?, details?}";
        let map = value.as_object().ok_or_else(wrong)?;
        if map.keys().any(|key| !["entitiesAffected", "summary", "details"].contains(&key.as_str())) {
            return Err(wrong().to_owned());
        }
        let entities = map.get("entitiesAffected").and_then(Value::as_u64).ok_or_else(wrong)?;
        let part = |key: &str| map.get(key).cloned().unwrap_or_default();
        Ok(Executed { entities, summary: part("summary"), details: part("details") })
    }

    /// Returns the outcome of the plan.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("state", "executed".into()),
            ("entitiesAffected", self.entities.into()),
            ("summary", self.summary.clone()),
            ("details", self.details.clone()),
        ])
    }
}

/// Reads a flat action: all keys except `kind` and `references` become its payload.
fn action_of(action: &Value) -> Result<Value, String> {
    let map = action.as_object().ok_or("an action must be an object")?;
    let kind = map.get("kind").and_then(Value::as_str).filter(|kind| !kind.trim().is_empty());
    let kind = kind.ok_or("`kind` must be a non-empty string")?;
    let mut references = Vec::new();
    match map.get("references") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for item in list {
                let text = |key: &str| item.as_object().and_then(|r| r.get(key)?.as_str());
                let (Some(kind), Some(id)) = (text("kind"), text("id")) else {
                    return Err("`references` must be a list of {kind, id}".to_owned());
                };
                references.push(object([("kind", kind.into()), ("id", id.into())]));
            }
        }
        Some(_) => return Err("`references` must be a list of {kind, id}".to_owned()),
    }
    let payload: Map<String, Value> = map
        .iter()
        .filter(|(key, _)| !["kind", "references"].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Ok(object([("kind", kind.into()), ("payload", payload.into()), ("references", references.into())]))
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::harness::define_plan;

    fn spec() -> PlanSpec {
        define_plan(&json!({"name": "P", "schema": {"type": "object"}})).unwrap()
    }

    fn draft(body: Value) -> Result<Plan, String> {
        Plan::draft(&spec(), "p1", "acme", &body, "now").map_err(|e| e.to_string())
    }

    fn good() -> Plan {
        draft(json!({"actions": [{"kind": "price", "sku": "a", "to": 9}], "goal": "up", "description": "d"}))
            .unwrap()
    }

    #[test]
    fn actions_are_flat_and_the_rest_is_context() {
        let plan = good().to_json();
        assert_eq!(
            plan["actions"],
            json!([{"kind": "price", "payload": {"sku": "a", "to": 9}, "references": []}])
        );
        assert_eq!(plan["context"], json!({"goal": "up", "description": "d"}));
        assert_eq!((&plan["status"], &plan["description"]), (&json!("draft"), &json!("d")));
        let keys: Vec<_> = plan.as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys.join(" "),
            "id owner actions status description context createdAt approvedAt startedAt completedAt failedAt approvedBy outcome"
        );
    }

    #[test]
    fn bodies_without_actions_are_refused() {
        assert_eq!(
            draft(json!({})).unwrap_err(),
            "planner output for spec 'P' is missing the required `actions` field"
        );
        assert_eq!(draft(json!({"actions": 1})).unwrap_err(), "`actions` for spec 'P' must be a JSON array");
        assert_eq!(
            draft(json!({"actions": []})).unwrap_err(),
            "planner output for spec 'P' produced an empty action sequence"
        );
        assert_eq!(
            draft(json!({"actions": [{"kind": "a"}, 5]})).unwrap_err(),
            "action #1 for spec 'P' failed to decode: an action must be an object"
        );
        assert_eq!(
            draft(json!({"actions": [{"kind": ""}]})).unwrap_err(),
            "action #0 for spec 'P' failed to decode: `kind` must be a non-empty string"
        );
        assert!(draft(json!({"actions": [{"kind": "a", "references": [1]}]})).is_err());
        let narrow = define_plan(&json!({"name": "N", "schema": {"goal": "string"}})).unwrap();
        let error = Plan::draft(&narrow, "p", "acme", &json!({}), "now").unwrap_err().to_string();
        assert!(error.starts_with("schema validation failed for spec 'N': [at root"), "{error}");
    }

    #[test]
    fn the_lifecycle_goes_one_way() {
        let mut plan = good();
        assert_eq!(
            plan.start("t").unwrap_err().to_string(),
            "plan transition error: invalid transition: expected approved, got draft"
        );
        plan.approve("ann", "t1").unwrap();
        assert_eq!(plan.may_be_replaced("p1").unwrap_err().to_string(), "plan already exists: p1");
        plan.start("t2").unwrap();
        assert_eq!(
            plan.start("t2").unwrap_err().to_string(),
            "plan transition error: invalid transition: expected approved, got executing"
        );
        plan.complete(&Executed::read(&json!({"entitiesAffected": 2})).unwrap(), "t3").unwrap();
        assert_eq!(plan.fail("x", "y", "t4").unwrap_err().to_string(), "plan is in terminal state: executed");
        let json = plan.to_json();
        assert_eq!(
            json["outcome"],
            json!({"state": "executed", "entitiesAffected": 2, "summary": null, "details": null})
        );
        assert_eq!(Plan::of("p1", json).unwrap(), plan);
    }

    #[test]
    fn dispatchers_say_what_they_did() {
        assert_eq!(Executed::read(&Value::Null).unwrap().to_json()["entitiesAffected"], 0);
        for bad in
            [json!(1), json!({}), json!({"entitiesAffected": -1}), json!({"entitiesAffected": 1, "x": 1})]
        {
            assert!(Executed::read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn references_are_listed_once() {
        let action = json!({"kind": "a", "references": [{"kind": "S", "id": "1"}, {"kind": "S", "id": "2"}]});
        let plan = draft(json!({"actions": [action, action]})).unwrap();
        assert_eq!(plan.references(), [("S".to_owned(), "1".to_owned()), ("S".to_owned(), "2".to_owned())]);
    }
}
