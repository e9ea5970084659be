//! Skill registries.

use harn_agent::skills;
use harn_value::{Dict, Value};
use harn_vm::builtin::{Rest, Text};
use harn_vm::closure::is_callable;
use harn_vm::{Error, builtins};

use crate::convert::{OrThrow, entry, text, thrown};

builtins! {
    /// Skills.
    pub(crate) static SKILLS: "skills";

    /// Makes an empty skill registry.
    ///
    /// ```harn
    /// println(skill_registry()) // -> {_type: skill_registry, skills: []}
    /// ```
    Pure fn skill_registry(cx) -> "dict" {
        skills::empty()
    }

    /// Returns a registry with one more skill; a skill of the same name is replaced in place.
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
    Pure fn skill_count(cx, skills: Value as "any?") -> "int" {
        skills::entries("skill_count", &skills).or_throw()?.len()
    }

    /// Returns a skill, nil when there is none of that name.
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
    Pure fn skill_list(cx, skills: Value as "any?") -> "list<dict>" {
        skills::list(&skills, is_callable).or_throw()?
    }

    /// Returns a registry with only the named skills.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "a", {})
    /// println(skill_count(skill_select(skills, ["a", "b"]))) // -> 1
    /// ```
    Pure fn skill_select(cx, skills: Value as "any?", names: Value as "any?") -> "dict" {
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

    /// Returns a plain listing of the skills, sorted by name.
    ///
    /// ```harn
    /// println(skill_describe(skill_registry()).lines()) // -> [Available skills:, (none)]
    /// ```
    Pure fn skill_describe(cx, skills: Value as "any?") -> "string" {
        skills::describe(&skills).or_throw()
    }

    /// Returns the entries of a skill catalog, sorted by id.
    ///
    /// ```harn
    /// let skills = skill_define(skill_registry(), "ship", {namespace: "ops", short: "Ship it"})
    /// println(skills_catalog_entries(skills)[0].name) // -> ops/ship
    /// ```
    Pure fn skills_catalog_entries(cx, skills: Value as "any?") -> "list<dict>" {
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

    /// Returns the body of a skill with its placeholders filled in.
    ///
    /// `$ARGUMENTS` and `$1` to `$9` are the arguments, `${HARN_...}` variables of the environment.
    ///
    /// ```harn
    /// println(skill_render("Deploy $1 to $2.", ["api", "staging"])) // -> Deploy api to staging.
    /// ```
    Env fn skill_render(cx, skill: Value as "any?", args: Value as "any?") -> "string" {
        let body = match skill.as_str() {
            Some(body) => body.to_string(),
            None if skill.to_dict().is_some() => {
                text(&entry(&skill, "body")).or_else(|| text(&entry(&skill, "prompt"))).unwrap_or_default()
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
        skills::render(&body, &args, |name| cx.system().env(name))
    }
}
