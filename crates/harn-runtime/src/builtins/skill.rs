//! Skill registries.

use harn_agent::loop_skill::{LoopSkills, REQUIRE_SIGNED};
use harn_agent::skills;
use harn_value::{Data as Json, json};
use harn_value::{Dict, Value};
use harn_vm::builtin::{Rest, Text};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, builtins};

use crate::convert::{OrThrow, entry, text, thrown};
use crate::session::Sessions;
use crate::skill_files::{read_file, registry_options};
use crate::skill_host;

/// Maximum length of a name in bytes, because error messages repeat it.
const LONGEST_NAME: usize = 1 << 16;

/// Returns the value of a variable in the body of a skill.
fn variable(cx: &Cx, name: &str, folder: Option<&str>) -> Option<String> {
    match name {
        "HARN_SKILL_DIR" if folder.is_some() => folder.map(str::to_owned),
        "HARN_SESSION_ID" => cx.state::<Sessions>().running(cx).map(|running| running.session.id.clone()),
        _ => cx.system().env(name),
    }
}

builtins! {
    /// Skills.
    pub(crate) static SKILLS: "skills";

    /// Creates an empty skill registry.
    ///
    /// ```harn
    /// println(skill_registry()) // -> {_type: skill_registry, skills: []}
    /// ```
    Pure fn skill_registry(cx) -> "dict" {
        skills::empty()
    }

    /// Returns a registry with an additional skill; a skill of the same name is replaced in place.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "ship", {description: "Ship a release"})
    /// println(skill_describe(skills).lines()[1]) // -> - ship: Ship a release
    /// ```
    Pure fn skill_define(cx, args: Rest) -> "dict" {
        skills::define(&args.0).or_throw()?
    }

    /// Returns the number of skills.
    ///
    /// ```harn
    /// println(skill_count(skill_registry())) // -> 0
    /// ```
    Pure fn skill_count(cx, skills: Value as "!dict") -> "int" {
        skills::entries("skill_count", &skills).or_throw()?.len()
    }

    /// Returns a skill, or nil if no skill has that name.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "ship", {prompt: "Follow the runbook."})
    /// println(skill_find(skills, "ship").prompt) // -> Follow the runbook.
    /// ```
    Pure fn skill_find(cx, skills: Value, name: Text) -> "dict | nil" {
        skills::find(&skills, &name).or_throw()?
    }

    /// Returns the skills without their closures.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "s", {on_activate: { -> 1 }})
    /// println(skill_list(skills)) // -> [{description: , name: s}]
    /// ```
    Pure fn skill_list(cx, skills: Value as "!dict") -> "list<dict>" {
        skills::list(&skills, is_callable).or_throw()?
    }

    /// Returns a registry with only the named skills.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "a", {})
    /// println(skill_count(skill_select(skills, ["a", "b"]))) // -> 1
    /// ```
    Pure fn skill_select(cx, skills: Value as "!dict", names: Value as "!list") -> "dict" {
        skills::select(&skills, &names).or_throw()?
    }

    /// Returns a registry without a skill.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "a", {})
    /// println(skill_count(skill_remove(skills, "a"))) // -> 0
    /// ```
    Pure fn skill_remove(cx, skills: Value, name: Text) -> "dict" {
        skills::remove(&skills, &name).or_throw()?
    }

    /// Returns a plain-text listing of the skills, sorted by name.
    ///
    /// ```harn
    /// println(skill_describe(skill_registry()).lines()) // -> [Available skills:, (none)]
    /// ```
    Pure fn skill_describe(cx, skills: Value as "!dict") -> "string" {
        skills::describe(&skills).or_throw()
    }

    /// Returns the entries of a skill catalog, sorted by id.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "ship", {namespace: "ops", short: "Ship it"})
    /// println(skills_catalog_entries(skills)[0].name) // -> ops/ship
    /// ```
    Pure fn skills_catalog_entries(cx, skills: Value as "!dict") -> "list<dict>" {
        let entries = skills::catalog("skills_catalog_entries", &skills).or_throw()?;
        entries
            .into_iter()
            .map(|e| {
                let mut dict = Dict::new();
                dict.insert("name", e.id);
                dict.insert("description", e.description);
                dict.insert("when_to_use", e.when_to_use);
                Value::from(dict)
            })
            .collect::<Vec<Value>>()
    }

    /// Returns the body of a skill with its placeholders replaced.
    ///
    /// `$ARGUMENTS` and `$1` to `$9` are replaced by the arguments, `${HARN_...}` by environment
    /// variables.
    ///
    /// ```harn
    /// println(skill_render("Deploy $1 to $2.", ["api", "staging"])) // -> Deploy api to staging.
    /// ```
    Env async fn skill_render(cx, skill: Value as "!string | dict", args: Value as "any?") -> "string" {
        let body = match skill.as_str() {
            Some(body) => body.to_string(),
            None if skill.to_dict().is_some() => {
                let written = text(&entry(&skill, "body")).or_else(|| text(&entry(&skill, "prompt")));
                match (written, text(&entry(&skill, "skill_dir"))) {
                    (None, Some(folder)) => {
                        let file = read_file(&cx, &folder, &[]).await;
                        file.map_err(|e| thrown(format!("skill_render: {e}")))?.body
                    }
                    (written, _) => written.unwrap_or_default(),
                }
            }
            None => return Err(thrown("skill_render: first argument must be a skill entry or a string body")),
        };
        let wrong = || Error::thrown("skill_render: second argument must be a list of strings");
        let args: Vec<String> = match args.as_list() {
            None if args.is_nil() => Vec::new(),
            None => return Err(wrong()),
            Some(list) => list
                .iter()
                .map(|a| a.as_str().map(|s| s.to_string()).ok_or_else(wrong))
                .collect::<Result<_, _>>()?,
        };
        let folder = text(&entry(&skill, "skill_dir"));
        skills::render(&body, &args, |name| variable(&cx, name, folder.as_deref()))
    }

    /// Returns the rendered body of a skill of the global registry `skills` or of the host.
    ///
    /// Skills of the registry may be stored on disk. An unsigned skill that must be signed is an error.
    ///
    /// ```harn
    /// println(unwrap_err(try { load_skill("deploy") })) // -> load_skill: skill 'deploy' not found
    /// ```
    State async fn load_skill(cx, name: Value as "!string") -> "string" {
        let Some(name) = name.as_str().filter(|name| !name.trim().is_empty()) else {
            return Err(thrown("load_skill: requires a non-empty skill name"));
        };
        if name.len() > LONGEST_NAME {
            let len = name.len();
            return Err(thrown(format!("load_skill: the name has {len} bytes; the limit is {LONGEST_NAME}")));
        }
        let registry = cx.vm().global("skills").unwrap_or_default();
        let mut options = registry_options(&registry);
        skill_host::join(&cx, &mut options).await?;
        let mut found = LoopSkills::from_options(&options).or_throw()?;
        found.variables.extend(cx.system().env(REQUIRE_SIGNED).map(|value| (REQUIRE_SIGNED.to_owned(), value)));
        for skill in &mut found.list {
            // The skill was requested by the program, not by a model.
            skill.for_models = true;
            if let Some(folder) = skill.folder().filter(|_| skill.id == name.as_str() || skill.name == name.as_str()) {
                let file = read_file(&cx, folder, &skill.trusted_signers()).await;
                skill.file = Some(file.map_err(|e| thrown(format!("load_skill: {e}")))?);
            }
        }
        let wanted = json!({"name": name.as_str()});
        if let Some(skill) = found.unread(&wanted).cloned() {
            let read = skill_host::fetch(&cx, &skill).await?;
            let not_given = || thrown(format!("load_skill: skill '{name}' not found: the host does not give it"));
            found.put(read.ok_or_else(not_given)?);
        }
        for variable in found.wanted_variables() {
            let value = self::variable(&cx, &variable, None);
            found.variables.extend(value.map(|value| (variable, value)));
        }
        let loaded = found.load(&wanted);
        if loaded.skill.is_none() {
            let problem: Json = serde_json::from_str(&loaded.text).unwrap_or_default();
            return Err(thrown(match problem["error"].as_str() {
                Some("skill_not_found") | None => format!("load_skill: skill '{name}' not found"),
                Some(code) => format!("load_skill: {code}: {}", problem["message"].printed()),
            }));
        }
        loaded.text
    }
}
