//! Skills of the host. The host is asked for their list when a loop with the registry `skills` begins, or when a
//! program loads one by name, and for the body of a skill on demand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use harn_agent::Answer;
use harn_agent::host_skill;
use harn_agent::loop_skill::{LoopSkill, LoopSkills};
use harn_agent::skills::HOST_TOO;
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Cx, Result};

use crate::convert::{OrThrow, entry, from_json, to_json};
use crate::skill_files;

/// Warnings that were already printed, because consecutive loops find the same problems.
#[derive(Default)]
struct Told(RefCell<BTreeSet<String>>);

fn tell(cx: &Cx, text: String) {
    if cx.vm().extension::<Told>().0.borrow_mut().insert(text.clone()) {
        cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
    }
}

/// Returns whether a loop with these options also uses the skills of the host.
pub(crate) fn is_open(options: &Value) -> bool {
    entry(&entry(options, "skills"), HOST_TOO).as_bool() == Some(true)
}

/// Reads all layers again for a loop whose options contain the registry `skills`. Skills that the program added remain.
///
/// # Errors
/// A file can no longer be read, or the program is interrupted.
pub(crate) async fn read_again(cx: &Cx, options: &Value) -> Result<Answer> {
    if let Err(why) = skill_files::install_again(cx.vm()) {
        tell(cx, why);
    }
    let mut option = skill_files::registry_options(&entry(options, "skills"));
    let found = to_json(&cx.vm().global("skills").unwrap_or_default());
    if let Some(Json::Array(list)) = option.get_mut("skills").and_then(|registry| registry.get_mut("skills"))
    {
        let own = list.drain(..).filter(|skill| skill["source"].is_null());
        let own: Vec<Json> = own.collect();
        let hidden = |skill: &&Json| own.iter().any(|own| own["name"] == skill["name"]);
        list.extend(found["skills"].as_array().into_iter().flatten().filter(|skill| !hidden(skill)).cloned());
        list.extend(own);
    }
    join(cx, &mut option).await?;
    let mut read = LoopSkills::from_options(&option).or_throw()?;
    skill_files::fill(cx, &mut read).await?;
    let variables = variables(cx, read.wanted_variables());
    let option = option.shift_remove("skills").unwrap_or_default();
    Ok(Answer::SkillsRead { option, list: read.list, variables })
}

/// Returns the values of variables that skills mention.
fn variables(cx: &Cx, names: BTreeSet<String>) -> BTreeMap<String, String> {
    names.into_iter().filter_map(|name| Some((name.clone(), cx.system().env(&name)?))).collect()
}

/// Adds the skills of the host to the option `skills` if that is the registry `skills`.
///
/// # Errors
/// The program is interrupted.
pub(crate) async fn join(cx: &Cx, options: &mut Map<String, Json>) -> Result<()> {
    let Some(Json::Object(registry)) = options.get_mut("skills") else { return Ok(()) };
    if registry.get(HOST_TOO) != Some(&Json::Bool(true)) {
        return Ok(());
    }
    let Some(answer) = ask(cx, "list", &json!({})).await? else { return Ok(()) };
    match answer.and_then(|answer| host_skill::listed(&answer)) {
        Ok((hosted, problems)) => {
            for problem in problems {
                tell(cx, format!("skills/list: {problem}; it is not there"));
            }
            if let Some(Json::Array(list)) = registry.get_mut("skills") {
                *list = host_skill::join(std::mem::take(list), hosted, &skill_files::layers_of(cx.vm()));
            }
        }
        Err(why) => tell(cx, format!("skills/list: {why}; the skills of the host are not there")),
    }
    Ok(())
}

/// Asks the host for a skill of its list, including the body. Failures are reported as warnings.
///
/// # Errors
/// The program is interrupted.
pub(crate) async fn fetch(cx: &Cx, skill: &LoopSkill) -> Result<Option<LoopSkill>> {
    let asked = ask(cx, "fetch", &json!({"id": skill.host_id()})).await?;
    let answer = asked.unwrap_or_else(|| Err("no host answers".to_owned()));
    match answer.and_then(|answer| host_skill::fetched(skill, &answer)) {
        Ok(read) => Ok(Some(read)),
        Err(why) => {
            let text = format!("skills/fetch: skill `{}`: {why}", skill.id);
            tell(cx, text);
            Ok(None)
        }
    }
}

/// Like [`fetch`], for a loop that needs several of its skills.
///
/// # Errors
/// The program is interrupted.
pub(crate) async fn fetch_for(cx: &Cx, known: &LoopSkills, ids: &[String]) -> Result<Answer> {
    let (mut skills, mut wanted) = (Vec::new(), BTreeSet::new());
    for id in ids {
        let read = match known.get(id) {
            Some(skill) => fetch(cx, skill).await?,
            None => None,
        };
        wanted.extend(read.iter().flat_map(LoopSkill::wanted_variables));
        skills.push(read);
    }
    Ok(Answer::Skills { skills, variables: variables(cx, wanted) })
}

/// Asks the host; `None` without a host, or if it does not support skills.
///
/// # Errors
/// The program is interrupted.
async fn ask(cx: &Cx, operation: &str, params: &Json) -> Result<Option<std::result::Result<Json, String>>> {
    match harn_stdlib::ask_host(cx, "skills", operation, &from_json(params)).await {
        None => Ok(None),
        Some(Ok(answer)) => Ok(Some(Ok(to_json(&answer)))),
        Some(Err(error)) if error.is_catchable() => {
            Ok(Some(Err(format!("the host failed: {}", to_json(&error.caught()).printed()))))
        }
        Some(Err(error)) => Err(error),
    }
}
