//! The valid order of events. Tests check runs against it.

use std::collections::BTreeMap;

use harn_value::Data as Value;

/// Returns the violations of the event order in a finished run; empty if the order is valid.
#[must_use]
pub fn violations(events: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut state = State::default();
    for (at, event) in events.iter().enumerate() {
        if let Err(why) = state.take(event) {
            found.push(format!("event {at} ({}): {why}", event["type"].as_str().unwrap_or("?")));
        }
    }
    if state.ended.is_none() {
        found.push("the run has no end".to_owned());
    }
    if let (Some("finish"), Some(tool)) = (state.ended.as_deref(), state.open.values().next()) {
        found.push(format!("the call of {tool} has no result"));
    }
    found
}

#[derive(Default)]
struct State {
    begun: bool,
    entry: Option<String>,
    /// `finish` or `error`.
    ended: Option<String>,
    closed: bool,
    stepped: bool,
    /// Calls without a result, by id.
    open: BTreeMap<String, String>,
    asked: BTreeMap<String, bool>,
}

impl State {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        let kind = event["type"].as_str().ok_or("it has no type")?;
        if self.ended.as_deref() == Some("error") {
            return Err("it follows an error".to_owned());
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.entry = event["agentName"].as_str().map(str::to_owned);
            let begins = kind == "tool-agent" && event["state"] == "call";
            if !begins && kind != "error" {
                return Err("a run begins with the call of its agent".to_owned());
            }
        }
        let id = || event["toolInvocationId"].as_str().unwrap_or_default().to_owned();
        if self.ended.is_some() {
            let closes = kind == "tool-agent" && event["state"] == "result";
            if closes && !std::mem::replace(&mut self.closed, true) {
                return Ok(());
            }
            let summary = ["data-cost-summary", "data-latency-summary"].contains(&kind);
            return if summary && self.closed { Ok(()) } else { Err("it follows the end".to_owned()) };
        }
        match kind {
            "step-start" => self.stepped = true,
            "text" | "reasoning" if !self.stepped => return Err("no step has begun".to_owned()),
            "tool-invocation" if event["state"] == "call" => {
                let tool = event["toolName"].as_str().unwrap_or_default().to_owned();
                if self.open.insert(id(), tool).is_some() {
                    return Err("the call is made twice".to_owned());
                }
            }
            "tool-invocation" => {
                self.open.remove(&id()).ok_or("a result without a call")?;
            }
            "approval-required" => {
                if self.open.is_empty() {
                    return Err("no call is under way".to_owned());
                }
                let id = event["data"]["id"].as_str().unwrap_or_default();
                if self.asked.insert(id.to_owned(), false).is_some() {
                    return Err("the request is made twice".to_owned());
                }
            }
            "approval-decision" => {
                let id = event["data"]["id"].as_str().unwrap_or_default();
                match self.asked.get_mut(id) {
                    Some(answered @ false) => *answered = true,
                    _ => return Err("an answer without a request".to_owned()),
                }
            }
            "finish" | "error" => self.ended = Some(kind.to_owned()),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::roles::event;

    fn run(middle: &[Value]) -> Vec<Value> {
        let mut events = vec![event::tool_agent("c", "1", "call"), event::step_start()];
        events.extend(middle.iter().cloned());
        events.push(event::finish("stop", Default::default()));
        events.push(event::tool_agent("c", "1", "result"));
        events.push(event::with_data("data-cost-summary", json!({})));
        events
    }

    #[test]
    fn good_runs_have_no_violations() {
        let call = |result: Option<&Value>| event::tool_invocation("t1", "t", &json!({}), result);
        let asked = event::with_data("approval-required", json!({"id": "a"}));
        let answered = event::with_data("approval-decision", json!({"id": "a"}));
        let events = run(&[call(None), asked, answered, call(Some(&json!(1))), event::text("x")]);
        assert_eq!(violations(&events), [] as [&str; 0]);
        assert_eq!(violations(&[event::error("no", None)]), [] as [&str; 0]);
    }

    #[test]
    fn bad_runs_are_found() {
        let call = |result: Option<&Value>| event::tool_invocation("t1", "t", &json!({}), result);
        let bad: Vec<Vec<Value>> = vec![
            vec![],
            vec![event::text("x")],
            run(&[call(Some(&json!(1)))]),
            run(&[call(None)]),
            run(&[event::with_data("approval-decision", json!({"id": "a"}))]),
            run(&[event::with_data("approval-required", json!({"id": "a"}))]),
            run(&[event::finish("stop", Default::default())]),
            run(&[event::error("x", None)]),
        ];
        for events in bad {
            assert!(!violations(&events).is_empty(), "{events:?}");
        }
    }
}
