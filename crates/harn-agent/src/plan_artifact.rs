//! Plans: steps with a status, and approvals.

use harn_value::{Data as Json, data::Map, json};
use sha2::{Digest, Sha256};

/// Reads a plan that a model or a program wrote.
///
/// # Errors
/// The value is not a dict, or a field that must be a list is not one.
pub fn plan(input: &Json) -> Result<Json, String> {
    let Some(fields) = input.as_object() else {
        return Err(format!("plan must be a dict, got {}", input.type_name()));
    };
    // Plans of the tool `update_plan` have their steps one level down.
    let nested = fields.get("plan").filter(|plan| !plan.is_null());
    let raw = [fields.get("steps"), fields.get("tasks"), nested.filter(|plan| plan.is_array())];
    let raw = raw.into_iter().flatten().find(|list| !list.is_null());
    let steps: Vec<Json> = match raw {
        None => Vec::new(),
        Some(Json::Array(items)) => items.iter().enumerate().map(|(at, item)| step(at, item)).collect(),
        Some(Json::String(one)) => vec![step(0, &json!(one))],
        Some(_) => return Err("steps must be a list".to_owned()),
    };
    let text = |keys: &[&str]| keys.iter().find_map(|key| fields.get(*key)?.as_str()).map(str::to_owned);
    let verification = if fields.get("verification_commands").is_none_or(Json::is_null) {
        "verification"
    } else {
        "verification_commands"
    };
    let mut out = json!({
        "_type": "plan_artifact",
        "schema_version": "harn.plan.v1",
        "id": null,
        "tool": text(&["tool"]),
        "title": text(&["title"]).unwrap_or_else(|| "Plan".to_owned()),
        "summary": text(&["summary", "direction", "explanation"]),
        "steps": steps,
        "assumptions": texts(fields, "assumptions")?,
        "open_questions": texts(fields, "open_questions")?,
        "verification_commands": texts(fields, verification)?,
        "approval": approval(fields.get("approval"))?,
    });
    let known = text(&["id"]).filter(|id| !id.is_empty());
    out["id"] = known.unwrap_or_else(|| identity(&out)).into();
    Ok(out)
}

/// Returns the plan that a call of `emit_plan` or `update_plan` writes; `None` for other tools.
pub fn emitted(tool: &str, arguments: &Json) -> Option<Result<Json, String>> {
    if tool != "emit_plan" && tool != "update_plan" {
        return None;
    }
    let mut fields = arguments.as_object().cloned().unwrap_or_default();
    if let Some(steps) = fields.shift_remove("plan") {
        fields.insert("steps".to_owned(), steps);
    }
    fields.insert("tool".to_owned(), tool.into());
    Some(plan(&Json::Object(fields)))
}

/// Computes an id from the content only, independent of approvals and step statuses.
fn identity(plan: &Json) -> String {
    let content: Vec<&Json> =
        plan["steps"].as_array().into_iter().flatten().map(|step| &step["content"]).collect();
    let text =
        json!([plan["title"], plan["summary"], content, plan["assumptions"], plan["verification_commands"]])
            .to_string();
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("plan_{hex}")
}

fn texts(fields: &Map<String, Json>, key: &str) -> Result<Json, String> {
    match fields.get(key) {
        None | Some(Json::Null) => Ok(json!([])),
        Some(Json::Array(items)) => Ok(items.iter().map(|item| Json::String(item.printed())).collect()),
        Some(Json::String(one)) => Ok(json!([one])),
        Some(_) => Err(format!("{key} must be a list")),
    }
}

fn step(at: usize, item: &Json) -> Json {
    let content = match item {
        Json::Object(map) => ["content", "step", "task", "goal", "description"]
            .iter()
            .find_map(|key| map.get(*key).filter(|value| !value.is_null()))
            .map(Json::printed)
            .unwrap_or_default(),
        other => other.printed(),
    };
    let id = item["id"].as_str().map_or_else(|| format!("step-{}", at + 1), str::to_owned);
    json!({
        "id": id, "content": content, "status": status(item["status"].as_str().unwrap_or_default()),
        "priority": item["priority"],
    })
}

/// Normalizes the status of a step.
pub fn status(word: &str) -> &'static str {
    match word.trim().to_lowercase().replace([' ', '-'], "_").as_str() {
        "in_progress" | "active" | "running" | "started" => "in_progress",
        "completed" | "complete" | "done" => "completed",
        "blocked" | "waiting" => "blocked",
        "cancelled" | "canceled" | "dropped" | "skipped" => "cancelled",
        _ => "pending",
    }
}

fn approval(given: Option<&Json>) -> Result<Json, String> {
    let mut out = match given {
        Some(Json::Object(map)) => map.clone(),
        Some(state @ Json::String(_)) => Map::from_iter([("state".to_owned(), state.clone())]),
        None | Some(Json::Null) => Map::new(),
        Some(other) => return Err(format!("approval must be a state or a dict, got {}", other.type_name())),
    };
    const STATES: [&str; 4] = ["unrequested", "requested", "approved", "rejected"];
    let state = match out.get("state").unwrap_or(&Json::Null) {
        Json::Null => STATES[0],
        given => STATES.into_iter().find(|state| given == state).ok_or_else(|| {
            format!("approval.state must be one of {}, got {}", STATES.join(", "), given.printed())
        })?,
    };
    out.insert("state".to_owned(), state.into());
    Ok(Json::Object(out))
}

/// Returns the steps as hosts display them. A plan without steps has one entry.
pub fn entries(plan: &Json) -> Vec<Json> {
    let steps = plan["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if steps.is_empty() {
        let text = plan["summary"].as_str().filter(|text| !text.is_empty()).unwrap_or("Plan emitted");
        return vec![json!({"content": text, "status": "pending"})];
    }
    steps
        .iter()
        .map(|step| {
            let mut out = json!({"content": step["content"], "status": step["status"]});
            if !step["priority"].is_null() {
                out["priority"] = step["priority"].clone();
            }
            out
        })
        .collect()
}

/// Renders a plan as Markdown.
pub fn markdown(plan: &Json) -> String {
    let mut lines = vec![format!("# {}", plan["title"].as_str().unwrap_or("Plan"))];
    if let Some(summary) = plan["summary"].as_str() {
        lines.push(String::new());
        lines.push(summary.to_owned());
    }
    let steps = plan["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !steps.is_empty() {
        lines.push(String::new());
    }
    for step in steps {
        let status = step["status"].as_str().unwrap_or("pending");
        let mark = if status == "completed" { "x" } else { " " };
        let note =
            if matches!(status, "pending" | "completed") { String::new() } else { format!(" ({status})") };
        lines.push(format!("- [{mark}] {}{note}", step["content"].printed()));
    }
    for (key, title) in [
        ("assumptions", "Assumptions"),
        ("open_questions", "Open questions"),
        ("verification_commands", "Verification"),
    ] {
        let items = plan[key].as_array().map(Vec::as_slice).unwrap_or_default();
        if !items.is_empty() {
            lines.push(format!("\n## {title}\n"));
            lines.extend(items.iter().map(|item| format!("- {}", item.printed())));
        }
    }
    lines.join("\n")
}

/// Returns a plan with the decision of its reviewers.
pub fn approved(plan: &Json, record: &Json) -> Json {
    let mut out = plan.clone();
    let yes = record["approved"] == true || record["state"] == "approved";
    let reviewers = match &record["reviewers"] {
        Json::Null => json!([]),
        list => list.clone(),
    };
    out["approval"] = json!({
        "state": if yes { "approved" } else { "rejected" }, "reviewers": reviewers,
        "approved_at": record["approved_at"], "reason": record["reason"],
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_many_words() {
        let plan = plan(&json!({"tasks": ["look", {"goal": "mend", "status": "active", "priority": "high"}, {"step": "ship", "status": "skipped"}]}))
            .unwrap();
        assert_eq!(
            entries(&plan),
            [
                json!({"content": "look", "status": "pending"}),
                json!({"content": "mend", "status": "in_progress", "priority": "high"}),
                json!({"content": "ship", "status": "cancelled"}),
            ]
        );
        assert_eq!(plan["steps"][1]["id"], "step-2");
        assert!(markdown(&plan).contains("- [ ] mend (in_progress)"));
    }

    #[test]
    fn the_id_is_that_of_the_content() {
        let first = plan(&json!({"steps": ["a"]})).unwrap();
        let done =
            plan(&json!({"steps": [{"content": "a", "status": "done"}], "approval": "approved"})).unwrap();
        assert_eq!(first["id"], done["id"]);
        assert_ne!(first["id"], plan(&json!({"steps": ["b"]})).unwrap()["id"]);
        assert_eq!(first["id"].as_str().unwrap().len(), "plan_".len() + 12);
        // Reading a plan again does not change it.
        assert_eq!(plan(&first).unwrap(), first);
    }

    #[test]
    fn a_plan_without_steps_has_one_entry() {
        assert_eq!(entries(&plan(&json!({})).unwrap())[0]["content"], "Plan emitted");
        assert_eq!(entries(&plan(&json!({"summary": "Just do it"})).unwrap())[0]["content"], "Just do it");
    }
}
