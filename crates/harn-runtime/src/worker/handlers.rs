//! Functions in options: files cannot store them, so a program that resumes from a file must pass them again.

use harn_value::{Dict, Value};
use harn_vm::Cx;
use harn_vm::closure::is_callable;

use crate::convert::entry;
use crate::session::Sessions;

/// Returns the places (`node.tools.tools.0.handler`) whose functions are still missing.
pub(crate) fn lost(places: &[String], config: &Value) -> Vec<String> {
    places.iter().filter(|place| is_lost(place, config)).cloned().collect()
}

fn is_lost(place: &str, config: &Value) -> bool {
    let mut at = config.clone();
    for part in place.split('.') {
        at = match part.parse::<usize>() {
            Ok(index) => at.as_list().and_then(|list| list.get(index).cloned()).unwrap_or_default(),
            Err(_) => entry(&at, part),
        };
    }
    !is_callable(&at)
}

/// Adds handlers from the active registry, by name, to tools without handlers.
pub(crate) fn with_handlers(cx: &Cx, config: &Value) -> Value {
    let Some(registry) = cx.state::<Sessions>().tools(cx) else { return config.clone() };
    let known = entry(&registry, "tools");
    let handler_of = |name: &Value| {
        let tools = known.as_list().into_iter().flat_map(|list| list.iter());
        tools.filter(|tool| entry(tool, "name") == *name).map(|tool| entry(tool, "handler")).find(is_callable)
    };
    filled(config, &handler_of)
}

fn filled(value: &Value, handler_of: &dyn Fn(&Value) -> Option<Value>) -> Value {
    if let Some(list) = value.as_list() {
        return Value::list(list.iter().map(|item| filled(item, handler_of)).collect());
    }
    let Some(dict) = value.to_dict() else { return value.clone() };
    let mut out: Dict = dict.written().map(|(key, item)| (key.as_str(), filled(item, handler_of))).collect();
    let tool = dict.contains("name") && dict.contains("handler") && entry(value, "handler").is_nil();
    if tool && let Some(handler) = handler_of(&entry(value, "name")) {
        out.insert("handler", handler);
    }
    out.into()
}
