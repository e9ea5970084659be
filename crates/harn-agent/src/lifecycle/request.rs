//! The request of a worker, as its caller stated it.

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

/// The lists of a request.
const LISTS: [&str; 4] = ["research_questions", "action_items", "workflow_stages", "verification_steps"];

/// The first task of a unit of work, with additional data. Later tasks do not change it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    task: String,
    system: Option<String>,
    payload: Json,
    lists: [Vec<Json>; 4],
}

impl Request {
    /// Reads the request from the options of a sub-agent, or from the metadata of a node or graph.
    pub fn new(task: &str, system: Option<&str>, from: &Json) -> Request {
        let lists = LISTS.map(|key| match from.get(key) {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        });
        let payload =
            from.get("request").filter(|payload| !payload.is_null()).cloned().unwrap_or_else(|| {
                let filled = LISTS.iter().zip(&lists).filter(|(_, list)| !list.is_empty());
                let map: Map<String, Json> =
                    filled.map(|(key, list)| ((*key).to_owned(), json!(list))).collect();
                if map.is_empty() { Json::Null } else { Json::Object(map) }
            });
        Request { task: task.to_owned(), system: system.map(str::to_owned), payload, lists }
    }

    /// Returns the keys from which a request is read.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        std::iter::once("request").chain(LISTS)
    }

    /// Returns the dict for scripts.
    pub fn to_json(&self) -> Json {
        let mut out = json!({"task": self.task, "system": self.system, "payload": self.payload});
        for (key, list) in LISTS.iter().zip(&self.lists) {
            out[*key] = json!(list);
        }
        out
    }
}
