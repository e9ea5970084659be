//! Output of skills: all of them, one of them, and those that match a task.

use std::fmt::Write as _;
use std::path::Path;

use harn_runtime::SkillOnDisk;
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, data::Map, json};
use harn_vm::block_on;

use super::{Outcome, Shown, found, named};
use crate::args::LookArgs;
use crate::table;

/// Front matter keys that are shown first.
const FIRST: [&str; 4] = ["name", "short", "description", "when_to_use"];

/// Maximum number of listed files of a skill.
const MAX_FILES: usize = 1_000;

pub(super) fn list(system: &Real, all: bool, look: &LookArgs) -> Outcome {
    let found = found(system, look)?;
    let shown: Vec<&SkillOnDisk> = found.found.iter().filter(|skill| all || !skill.hidden).collect();
    let data: Vec<Value> = shown.iter().map(|skill| described(skill)).collect();
    let text = match shown.as_slice() {
        [] => "No skills.\n".to_owned(),
        shown => {
            let row = |skill: &&SkillOnDisk| {
                let mark = if skill.hidden { " (hidden)" } else { "" };
                vec![format!("{}{mark}", skill.name()), skill.layer.to_owned(), line(skill, "short")]
            };
            table::draw(&["SKILL", "LAYER", "WHAT FOR"], &shown.iter().map(row).collect::<Vec<_>>())
        }
    };
    Ok(Shown { text, data: json!({"skills": data}), code: 0 })
}

/// Returns a string of the front matter in one line.
fn line(skill: &SkillOnDisk, key: &str) -> String {
    let text = skill.entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    harn_syntax::printable(&words.join(" ")).to_string()
}

fn described(skill: &SkillOnDisk) -> Value {
    json!({
        "name": skill.name(), "layer": skill.layer, "short": skill.entry.get("short"),
        "folder": skill.folder.display().to_string(), "hidden": skill.hidden,
    })
}

pub(super) fn inspect(system: &Real, name: &str, look: &LookArgs) -> Outcome {
    let found = found(system, look)?;
    let skill = named(&found, name)?;
    let trusted = skill.trusted_signers();
    let read = harn_runtime::read_skill(system, &skill.folder, &trusted, &found.signers);
    let file = block_on(read).map_err(|error| error.to_string())??;
    let front = front_matter(skill);
    let files = files_of(system, &skill.folder);
    let mut text = String::new();
    let mut field = |key: &str, value: &str| {
        let _ = writeln!(text, "{:<12} {}", format!("{key}:"), harn_syntax::printable(value));
    };
    field("skill", skill.name());
    field("layer", skill.layer);
    field("folder", &skill.folder.display().to_string());
    field("signature", &super::sign::told(&file.signature));
    for (key, value) in &front {
        let value = match value {
            Value::Array(items) => items.iter().map(Value::printed).collect::<Vec<_>>().join(", "),
            value => value.printed(),
        };
        if key != "name" {
            field(key, value.split_whitespace().collect::<Vec<_>>().join(" ").as_str());
        }
    }
    field("files", &files.join(", "));
    for key in &skill.unknown {
        field("ignored", key);
    }
    let _ = write!(text, "\n{}\n", file.body);
    let data = json!({
        "name": skill.name(), "layer": skill.layer, "folder": skill.folder.display().to_string(),
        "signed": file.signature.signed, "trusted": file.signature.trusted, "signer_fingerprint": file.signature.fingerprint,
        "front_matter": Value::Object(front), "ignored": skill.unknown, "files": files, "body": file.body,
    });
    Ok(Shown { text, data, code: 0 })
}

/// Returns the front matter of a skill, with the `FIRST` keys first.
fn front_matter(skill: &SkillOnDisk) -> Map<String, Value> {
    let made = ["source", "skill_dir", "provenance"];
    let own = |key: &str| !made.contains(&key) && !FIRST.contains(&key);
    let first = FIRST.iter().filter_map(|key| Some(((*key).to_owned(), skill.entry.get(*key)?.clone())));
    let rest =
        skill.entry.iter().filter(|(key, _)| own(key)).map(|(key, value)| (key.clone(), value.clone()));
    first.chain(rest).collect()
}

/// Returns the files below a skill's directory, without hidden ones.
fn files_of(system: &Real, folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![std::path::PathBuf::new()];
    while let Some(place) = folders.pop() {
        for name in system.names(&folder.join(&place)).unwrap_or_default() {
            let path = place.join(&name);
            if name.to_string_lossy().starts_with('.') || files.len() >= MAX_FILES {
                continue;
            }
            if system.link_facts(&folder.join(&path)).is_ok_and(|facts| facts.kind == harn_system::Kind::Dir)
            {
                folders.push(path);
            } else if system.is_file(&folder.join(&path)) {
                files.push(path.display().to_string());
            }
        }
    }
    files.sort();
    files
}

pub(super) fn fitting(
    system: &Real,
    task: &str,
    files: Vec<String>,
    top: Option<usize>,
    look: &LookArgs,
) -> Outcome {
    let found = found(system, look)?;
    let mut candidates = harn_runtime::rank_skills(&found, task, files)?;
    candidates.truncate(top.unwrap_or(usize::MAX));
    let rows: Vec<Vec<String>> = candidates
        .iter()
        .map(|candidate| {
            vec![candidate.id.clone(), format!("{:.2}", candidate.score), candidate.reason.clone()]
        })
        .collect();
    let text = if rows.is_empty() {
        "No skill fits.\n".to_owned()
    } else {
        table::draw(&["SKILL", "SCORE", "WHY"], &rows)
    };
    let data: Vec<Value> =
        candidates.iter().map(|c| json!({"name": c.id, "score": c.score, "reason": c.reason})).collect();
    Ok(Shown { text, data: json!({"candidates": data}), code: 0 })
}
