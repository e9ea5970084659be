//! Skills of the host: reading its answers, and merging its skills with those of the program.

use harn_value::{Data as Json, data::Map, json};

use crate::loop_skill::{LoopSkill, id_of};
use crate::run::unwrapped;
use crate::skill_file::{self, HOST, HOST_ID, SkillFile};

/// Maximum size of a skill's body: 4 MiB, the same as for `SKILL.md`.
const MAX_BODY: usize = 4 << 20;

/// Reads the answer to `skills/list`: the valid entries without bodies, and the problems of the invalid ones.
///
/// # Errors
/// The answer is not a list of skills.
pub fn listed(answer: &Json) -> Result<(Vec<Json>, Vec<String>), String> {
    let answer = unwrapped(answer);
    let list = answer.get("skills").unwrap_or(answer);
    let Some(list) = list.as_array() else {
        return Err(format!("the answer must be a list of skills, got {}", list.type_name()));
    };
    let (mut entries, mut problems): (Vec<Json>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, given) in list.iter().enumerate() {
        let called = given["name"].as_str().or_else(|| given["id"].as_str());
        let called = called.map_or_else(String::new, |name| format!(" (`{}`)", name.escape_debug()));
        match entry(given) {
            Ok(entry) if entries.iter().any(|other| other["name"] == entry["name"]) => {
                problems.push(format!("skill {at}{called}: an earlier one has its name"));
            }
            Ok(entry) => entries.push(entry),
            Err(why) => problems.push(format!("skill {at}{called}: {why}")),
        }
    }
    Ok((entries, problems))
}

/// Builds an entry from the host's description of a skill.
fn entry(given: &Json) -> Result<Json, String> {
    let Some(map) = given.as_object() else {
        return Err(format!("it must be a dict, got {}", given.type_name()));
    };
    let id = map.get("id").and_then(Json::as_str).filter(|id| !id.trim().is_empty());
    let id = id.ok_or("`id` must be a text that is not empty")?;
    if map.get("name").is_some_and(|name| !name.is_null() && !name.is_string()) {
        return Err("`name` must be a text".to_owned());
    }
    let text = |key: &str| map.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let short = text("short").or_else(|| text("description"));
    let short = short.ok_or("`description` must be a text that is not empty")?;
    checked(map.clone(), short, id)
}

/// Validates an entry in the same way as the front matter of a file.
fn checked(mut front: Map<String, Json>, short: &str, id: &str) -> Result<Json, String> {
    front.insert("short".to_owned(), short.into());
    // Unknown names are ignored, as in all answers of hosts.
    let (mut entry, _) = skill_file::entry(&Json::Object(front), id)?;
    entry.insert("source".to_owned(), HOST.into());
    entry.insert(HOST_ID.to_owned(), id.into());
    entry.insert("provenance".to_owned(), json!({"layer": HOST, "id": id}));
    Ok(Json::Object(entry))
}

/// Reads the answer to `skills/fetch`: the skill with its body and any additional fields.
///
/// # Errors
/// The answer is malformed.
pub fn fetched(skill: &LoopSkill, answer: &Json) -> Result<LoopSkill, String> {
    let answer = unwrapped(answer);
    let Some(body) = answer.get("body").and_then(Json::as_str) else {
        let got = answer.get("body").unwrap_or(answer).type_name();
        return Err(format!("the answer must be a dict whose `body` is a text, got {got}"));
    };
    if body.len() > MAX_BODY {
        return Err(format!("`body` is longer than {MAX_BODY} bytes"));
    }
    let mut front = skill.entry.as_object().cloned().unwrap_or_default();
    for (key, value) in answer.as_object().into_iter().flatten() {
        // The identity of the skill does not change.
        if !["id", "name", "short"].contains(&key.as_str()) {
            front.insert(key.replace('-', "_"), value.clone());
        }
    }
    let entry = checked(front, skill.text("short"), skill.host_id().unwrap_or_default())?;
    let mut read = LoopSkill::from_entry(&entry).map_err(|error| error.to_string())?;
    read.file = Some(SkillFile { body: body.trim_end().to_owned(), ..SkillFile::default() });
    Ok(read)
}

/// Merges the skills of the host into those of a registry. `order` lists the layers: of two skills with the same name,
/// the one of the earlier layer is used, and a skill that a program defines itself hides all others.
pub fn join(mut list: Vec<Json>, hosted: Vec<Json>, order: &[&str]) -> Vec<Json> {
    let rank = |entry: &Json| order.iter().position(|layer| entry["source"].as_str() == Some(layer));
    let Some(own) = order.iter().position(|layer| *layer == HOST) else { return list };
    let is_behind = |entry: &Json| rank(entry).is_some_and(|rank| rank > own);
    for skill in hosted {
        if let Some(same) = list.iter().position(|other| id_of(other) == id_of(&skill)) {
            if !is_behind(&list[same]) {
                continue;
            }
            list.remove(same);
        }
        let at = list.iter().position(is_behind).unwrap_or(list.len());
        list.insert(at, skill);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[Json]) -> Vec<&str> {
        list.iter().filter_map(|entry| entry["name"].as_str()).collect()
    }

    #[test]
    fn what_is_no_skill_is_told_and_left_out() {
        let (entries, problems) = listed(&json!({"result": {"skills": [
            {"id": "a/1", "name": "a", "description": "First", "paths": ["*.rs"], "colour": "red"},
            {"id": "b", "description": "Second"},
            "c", {"name": "d", "description": "x"}, {"id": "e", "name": "e"}, {"id": "f", "name": 3, "description": "x"},
            {"id": "g", "name": "a", "description": "Again"}, {"id": "h", "description": "x", "paths": 3},
            {"id": "i", "name": "i\nj", "description": "x"},
        ]}}))
        .unwrap();
        assert_eq!(names(&entries), ["a", "b"]);
        assert_eq!(
            entries[0],
            json!({"name": "a", "description": "First", "paths": ["*.rs"], "short": "First", "source": "host",
                   "host_id": "a/1", "provenance": {"layer": "host", "id": "a/1"}})
        );
        assert_eq!(
            problems,
            [
                "skill 2: it must be a dict, got string",
                "skill 3 (`d`): `id` must be a text that is not empty",
                "skill 4 (`e`): `description` must be a text that is not empty",
                "skill 5 (`f`): `name` must be a text",
                "skill 6 (`a`): an earlier one has its name",
                "skill 7 (`h`): 'paths' must be a list of strings",
                "skill 8 (`i\\nj`): 'name' must be one line",
            ]
        );
        assert_eq!(listed(&json!("x")).unwrap_err(), "the answer must be a list of skills, got string");
        assert_eq!(
            listed(&json!({"skills": 1})).unwrap_err(),
            "the answer must be a list of skills, got int"
        );
    }

    #[test]
    fn a_text_comes_with_what_was_not_said_before() {
        let entries = listed(&json!([{"id": "1", "name": "a", "description": "First"}])).unwrap().0;
        let skill = LoopSkill::from_entry(&entries[0]).unwrap();
        assert!(skill.is_unread());
        let answer = json!({"id": "2", "name": "b", "body": "Do it.\n", "allowed-tools": ["x"]});
        let read = fetched(&skill, &answer).unwrap();
        assert!(!read.is_unread());
        assert_eq!((read.id.as_str(), read.body(), read.host_id()), ("a", "Do it.", Some("1")));
        assert_eq!(read.allowed_tools.as_deref().unwrap_or_default(), ["x"]);
        let error = |answer: Json| fetched(&skill, &answer).unwrap_err();
        assert_eq!(error(json!({"text": "x"})), "the answer must be a dict whose `body` is a text, got dict");
        assert_eq!(error(json!({"body": 3})), "the answer must be a dict whose `body` is a text, got int");
        assert_eq!(
            error(json!({"body": "x", "allowed_tools": 3})),
            "'allowed_tools' must be a list of strings"
        );
        assert!(error(json!({"body": "x".repeat(MAX_BODY + 1)})).contains("is longer than"));
    }

    #[test]
    fn the_earlier_layer_wins() {
        let disk = |name: &str, layer: &str| json!({"name": name, "source": layer});
        let host = |name: &str| json!({"name": name, "source": "host"});
        let list = vec![disk("a", "project"), disk("b", "user"), json!({"name": "own"})];
        let hosted = || vec![host("b"), host("c"), host("own")];
        let sources = |list: &[Json]| -> Vec<String> {
            let source = |entry: &Json| format!("{} {}", entry["name"].printed(), entry["source"].printed());
            list.iter().map(source).collect()
        };
        let last = join(list.clone(), hosted(), &["project", "user", "host"]);
        assert_eq!(sources(&last), ["a project", "b user", "own nil", "c host"]);
        let between = join(list.clone(), hosted(), &["project", "host", "user"]);
        assert_eq!(sources(&between), ["a project", "own nil", "b host", "c host"]);
        let first = join(list.clone(), hosted(), &["host", "project", "user"]);
        assert_eq!(sources(&first), ["b host", "c host", "a project", "own nil"]);
        assert_eq!(join(list.clone(), hosted(), &["project", "user"]), list);
    }
}
