//! Where work runs: a directory, an environment, a git worktree.

use std::collections::BTreeMap;

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

/// How a worktree is cleaned up after the work has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// It is preserved.
    #[default]
    Preserve,
    /// It is removed; its branch is preserved.
    Remove,
}

/// A git worktree for the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository.
    pub repo: String,
    /// The directory of the worktree; `None` lets the driver choose one.
    pub path: Option<String>,
    /// Its branch.
    pub branch: String,
    /// The starting point of a new branch.
    pub base_ref: String,
    /// How it is cleaned up.
    pub cleanup: Cleanup,
}

/// The option `execution`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The working directory.
    pub cwd: Option<String>,
    /// Environment variables that override those of the program.
    pub env: BTreeMap<String, String>,
    /// The worktree.
    pub worktree: Option<Worktree>,
}

impl Execution {
    /// Reads the option; `id` is the id of the work.
    ///
    /// # Errors
    /// A key is unknown, a value has the wrong type, or git would parse a name as an option.
    pub fn from_option(value: &Json, id: &str) -> Result<Execution, String> {
        let Some(map) = dict(value, "execution", &["cwd", "env", "worktree"])? else {
            return Ok(Execution::default());
        };
        let env = match map.get("env") {
            None | Some(Json::Null) => BTreeMap::new(),
            Some(Json::Object(env)) => {
                let pair = |(name, value): (&String, &Json)| match value {
                    Json::String(text) if !name.is_empty() && !name.contains(['=', '\0']) => {
                        Ok((name.clone(), text.clone()))
                    }
                    Json::String(_) => Err(format!("execution.env has a name that is none: '{name}'")),
                    _ => Err(format!("execution.env.{name} must be a string")),
                };
                env.iter().map(pair).collect::<Result<_, _>>()?
            }
            Some(_) => return Err("execution.env must be a dict".to_owned()),
        };
        let tree = map.get("worktree").unwrap_or(&Json::Null);
        let keys = ["repo", "path", "branch", "base_ref", "cleanup"];
        let worktree = match dict(tree, "execution.worktree", &keys)? {
            None => None,
            Some(tree) => {
                let get = |key: &str| text(tree, "execution.worktree", key);
                let repo = get("repo")?.ok_or("execution.worktree.repo is required")?;
                let branch = get("branch")?.unwrap_or_else(|| format!("harn-{id}"));
                let base_ref = get("base_ref")?.unwrap_or_else(|| "HEAD".to_owned());
                if let Some(name) = [&branch, &base_ref].into_iter().find(|name| name.starts_with('-')) {
                    return Err(format!("execution.worktree: '{name}' is no name of a branch or commit"));
                }
                let cleanup = match get("cleanup")?.as_deref() {
                    None | Some("preserve") => Cleanup::Preserve,
                    Some("remove") => Cleanup::Remove,
                    Some(other) => {
                        return Err(format!(
                            "unknown execution.worktree.cleanup '{other}' (expected preserve or remove)"
                        ));
                    }
                };
                Some(Worktree { repo, path: get("path")?, branch, base_ref, cleanup })
            }
        };
        let cwd = text(map, "execution", "cwd")?;
        if cwd.is_some() && worktree.is_some() {
            return Err(
                "execution: give either cwd or worktree, whose folder is the working directory".to_owned()
            );
        }
        Ok(Execution { cwd, env, worktree })
    }

    /// Returns whether the work runs in the same place as the program.
    pub fn is_default(&self) -> bool {
        *self == Execution::default()
    }

    /// Returns the dict for scripts; nil if the work runs in the same place as the program.
    pub fn to_json(&self) -> Json {
        if self.is_default() {
            return Json::Null;
        }
        json!({"cwd": self.cwd, "env": self.env, "worktree": self.worktree.as_ref().map(Json::lossy)})
    }
}

fn dict<'a>(value: &'a Json, name: &str, keys: &[&str]) -> Result<Option<&'a Map<String, Json>>, String> {
    let map = match value {
        Json::Null => return Ok(None),
        Json::Object(map) => map,
        _ => return Err(format!("{name} must be a dict")),
    };
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(Some(map)),
        Some(key) => Err(format!("{name} has no key '{key}'; there are {}", keys.join(", "))),
    }
}

fn text(map: &Map<String, Json>, name: &str, key: &str) -> Result<Option<String>, String> {
    match map.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name}.{key} must be a string that is not empty")),
    }
}
