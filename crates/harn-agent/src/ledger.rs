//! The task ledger: deliverables that a model updates with a tool, and that must be resolved before the task can end.

use harn_llm::options::shape::Shape;
use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// The tool with which the model updates the ledger.
pub(crate) const LEDGER: &str = "ledger";

const STATUSES: [&str; 4] = ["open", "done", "blocked", "dropped"];

/// The deliverables of a task, and observations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The whole task.
    root_task: String,
    deliverables: Vec<Deliverable>,
    observations: Vec<String>,
    rationale: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Deliverable {
    id: String,
    text: String,
    /// One of [`STATUSES`].
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Ledger {
    /// Reads the option `task_ledger`, or `root_task` and `deliverables`; returns `None` if none of them is set.
    ///
    /// # Errors
    /// An option has the wrong type.
    pub fn from_options(options: &Map<String, Json>) -> Result<Option<Ledger>, ConfigError> {
        let given = |map: &Map<String, Json>, key: &str| map.get(key).filter(|v| !v.is_null()).cloned();
        let wrong = |what: String| ConfigError(format!("agent_loop: {what}"));
        let (place, map) = match given(options, "task_ledger") {
            None => (String::new(), options.clone()),
            Some(value @ Json::Object(_)) => {
                let fields = Shape::Dict(&[
                    ("root_task", Shape::Str),
                    ("deliverables", Shape::Any),
                    ("rationale", Shape::Str),
                    ("observations", Shape::Names),
                ]);
                fields.check("task_ledger", &value).map_err(|e| wrong(e.to_string()))?;
                ("task_ledger.".to_owned(), value.as_object().cloned().unwrap_or_default())
            }
            Some(_) => return Err(wrong("task_ledger must be a dict".to_owned())),
        };
        let (root, list) = (given(&map, "root_task"), given(&map, "deliverables"));
        if root.is_none() && list.is_none() && place.is_empty() {
            return Ok(None);
        }
        let root_task = match root {
            Some(Json::String(text)) => text,
            None => String::new(),
            Some(_) => return Err(wrong(format!("{place}root_task must be a string"))),
        };
        let mut ledger = Ledger { root_task, ..Ledger::default() };
        let list = match list {
            Some(Json::Array(list)) => list,
            None => Vec::new(),
            Some(_) => return Err(wrong(format!("{place}deliverables must be a list of strings or dicts"))),
        };
        for (at, item) in list.iter().enumerate() {
            let place = format!("{place}deliverables[{at}]");
            ledger.add_given(item, &place).map_err(wrong)?;
        }
        if !map.contains_key("deliverables") && place.is_empty() {
            return Ok(Some(ledger));
        }
        ledger.rationale =
            given(&map, "rationale").map(|v| v.printed()).filter(|_| !place.is_empty()).unwrap_or_default();
        if let Some(Json::Array(list)) = given(&map, "observations").filter(|_| !place.is_empty()) {
            ledger.observations = list.iter().map(Json::printed).collect();
        }
        Ok(Some(ledger))
    }

    /// Adds a deliverable of the options: its description, or a dict.
    fn add_given(&mut self, item: &Json, place: &str) -> Result<(), String> {
        let fields = Shape::Dict(&[
            ("id", Shape::Text),
            ("text", Shape::Text),
            ("status", Shape::Word(&STATUSES)),
            ("note", Shape::Str),
        ]);
        let field = |key: &str| item.get(key).and_then(Json::as_str).map(str::to_owned);
        let (id, text) = match item {
            Json::String(text) if !text.trim().is_empty() => (None, text.clone()),
            Json::Object(_) => {
                fields.check(place, item).map_err(|e| e.to_string())?;
                (field("id"), field("text").ok_or_else(|| format!("{place} must have a `text`"))?)
            }
            _ => return Err(format!("{place} must be a string or a dict with a `text`")),
        };
        let id = id.unwrap_or_else(|| self.next_id());
        if self.deliverables.iter().any(|d| d.id == id) {
            return Err(format!("{place} has the id '{id}' of another one"));
        }
        let status = field("status").unwrap_or_else(|| "open".to_owned());
        self.deliverables.push(Deliverable { id, text, status, note: field("note") });
        Ok(())
    }

    fn next_id(&self) -> String {
        let free = |n: &usize| !self.deliverables.iter().any(|d| d.id == format!("deliverable-{n}"));
        let n = (self.deliverables.len() + 1..).find(free).unwrap_or_default();
        format!("deliverable-{n}")
    }

    /// Returns the deliverables that prevent the end of the task, as `ID (STATUS)`.
    pub fn pending(&self) -> Vec<String> {
        let holds = |d: &&Deliverable| d.status == "open" || d.status == "blocked";
        self.deliverables.iter().filter(holds).map(|d| format!("{} ({})", d.id, d.status)).collect()
    }

    /// Executes a call of the ledger tool and returns a description of the change.
    ///
    /// # Errors
    /// An error message for the model.
    pub fn apply(&mut self, arguments: &Json) -> Result<String, String> {
        let field = |key: &str| {
            let text = arguments.get(key).and_then(Json::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let needed = |key: &str| field(key).ok_or_else(|| format!("`{key}` is missing"));
        match needed("action")?.as_str() {
            "add" => {
                let (id, text) = (self.next_id(), needed("text")?);
                self.deliverables.push(Deliverable {
                    id: id.clone(),
                    text,
                    status: "open".into(),
                    note: None,
                });
                Ok(format!("added {id}"))
            }
            "mark" => {
                let (id, status, note) = (needed("id")?, needed("status")?, field("note"));
                if !STATUSES.contains(&status.as_str()) {
                    return Err(format!("unknown status '{status}'; use {}", STATUSES.join(", ")));
                }
                if status == "dropped" && note.is_none() {
                    return Err("dropping needs a `note`".to_owned());
                }
                let known: Vec<String> = self.deliverables.iter().map(|d| d.id.clone()).collect();
                let Some(found) = self.deliverables.iter_mut().find(|d| d.id == id) else {
                    return Err(format!("unknown id '{id}'; known: {}", known.join(", ")));
                };
                found.status.clone_from(&status);
                found.note = note.or_else(|| found.note.take());
                Ok(format!("{id} is {status}"))
            }
            "rationale" => {
                self.rationale = needed("text")?;
                Ok("rationale recorded".to_owned())
            }
            "note" => {
                self.observations.push(needed("text")?);
                Ok("noted".to_owned())
            }
            "seed_plan" => {
                let items = arguments.get("items").and_then(Json::as_array).cloned().unwrap_or_default();
                let texts: Vec<String> =
                    items.iter().map(Json::printed).filter(|t| !t.trim().is_empty()).collect();
                if texts.is_empty() {
                    return Err("`items` must be a list of deliverables".to_owned());
                }
                let count = texts.len();
                for text in texts {
                    let id = self.next_id();
                    self.deliverables.push(Deliverable { id, text, status: "open".into(), note: None });
                }
                Ok(format!("added {count} deliverables"))
            }
            other => Err(format!("unknown action '{other}'; use add, mark, rationale, note or seed_plan")),
        }
    }

    /// Returns the dict for results.
    pub fn to_json(&self) -> Json {
        Json::lossy(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(options: Json) -> Result<Option<Ledger>, String> {
        Ledger::from_options(options.as_object().unwrap()).map_err(|e| e.0)
    }

    #[test]
    fn texts_get_ids_and_dicts_keep_theirs() {
        let ledger = read(
            json!({"root_task": "r", "deliverables": ["a", {"id": "x", "text": "b", "status": "done"}]}),
        );
        assert_eq!(
            ledger.unwrap().unwrap().to_json(),
            json!({"root_task": "r", "observations": [], "rationale": "", "deliverables": [
                {"id": "deliverable-1", "text": "a", "status": "open"}, {"id": "x", "text": "b", "status": "done"}]})
        );
        assert_eq!(read(json!({})), Ok(None));
    }

    #[test]
    fn wrong_shapes_are_named() {
        let error = |options: Json| read(options).unwrap_err();
        assert_eq!(error(json!({"task_ledger": 3})), "agent_loop: task_ledger must be a dict");
        assert_eq!(
            error(json!({"deliverables": [3]})),
            "agent_loop: deliverables[0] must be a string or a dict with a `text`"
        );
        assert_eq!(
            error(
                json!({"task_ledger": {"deliverables": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]}})
            ),
            "agent_loop: task_ledger.deliverables[1] has the id 'a' of another one"
        );
        assert!(
            error(json!({"deliverables": [{"text": "x", "status": "later"}]}))
                .contains("status must be one of")
        );
        assert!(error(json!({"root_task": 3})).contains("root_task must be a string"));
    }

    #[test]
    fn calls_change_it_or_say_why_not() {
        let mut ledger = read(json!({"deliverables": ["a"]})).unwrap().unwrap();
        let mut apply = |arguments: Json| ledger.apply(&arguments);
        assert_eq!(apply(json!({"action": "add", "text": "b"})), Ok("added deliverable-2".into()));
        assert_eq!(
            apply(json!({"action": "seed_plan", "items": ["c", "d"]})),
            Ok("added 2 deliverables".into())
        );
        assert_eq!(
            apply(json!({"action": "mark", "id": "deliverable-1", "status": "dropped"})),
            Err("dropping needs a `note`".into())
        );
        assert_eq!(
            apply(json!({"action": "mark", "id": "deliverable-1", "status": "dropped", "note": "no need"})),
            Ok("deliverable-1 is dropped".into())
        );
        assert!(
            apply(json!({"action": "mark", "id": "z", "status": "done"}))
                .unwrap_err()
                .contains("unknown id 'z'")
        );
        assert!(apply(json!({"action": "fly"})).unwrap_err().contains("unknown action 'fly'"));
        assert_eq!(apply(json!({})), Err("`action` is missing".into()));
        assert_eq!(ledger.pending().len(), 3);
    }
}
