//! Skills in a loop, and how well they match a task.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobMatcher};
use harn_llm::json::truthy;
use harn_llm::options::shape::Shape;
use harn_value::{Data as Json, data::Map, glob, json};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;
use crate::skill_file::{HOST, HOST_ID, SkillFile};

/// The tool with which a model loads the body of a skill.
pub(crate) const LOAD_SKILL: &str = "load_skill";

/// The environment variable that makes signatures mandatory.
pub const REQUIRE_SIGNED: &str = "HARN_REQUIRE_SIGNED_SKILLS";

/// A skill of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopSkill {
    /// `namespace/name` or `name`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its entry; closures are opaque values.
    pub entry: Json,
    /// Globs of the files that it applies to.
    pub paths: Vec<String>,
    /// The tools that remain visible while the skill is active: names, `namespace:TAG` or `*`. `None` means all.
    pub allowed_tools: Option<Vec<String>>,
    /// The MCP servers that it uses.
    pub servers: Vec<String>,
    /// Whether the model may use it, by matching or by loading.
    pub for_models: bool,
    /// The content of its file, for a skill on disk.
    #[serde(default)]
    pub file: Option<SkillFile>,
}

impl LoopSkill {
    pub(crate) fn from_entry(entry: &Json) -> Result<LoopSkill, ConfigError> {
        let map = entry.as_object();
        let field = |key: &str| map.and_then(|map| map.get(key)).filter(|value| !value.is_null());
        let (Some(id), Some(name)) = (id_of(entry), field("name").and_then(Json::as_str)) else {
            return Err(no_skills());
        };
        if let Some(map) = map {
            crate::skills::check(&format!("agent_loop: skill '{name}'"), map).map_err(ConfigError)?;
        }
        let list = |keys: &[&str]| -> Vec<String> {
            let lists = keys.iter().filter_map(|key| field(key)?.as_array());
            lists.flatten().map(Json::printed).collect()
        };
        let hidden = ["disable-model-invocation", "disable_model_invocation"];
        Ok(LoopSkill {
            id,
            name: name.to_owned(),
            entry: entry.clone(),
            paths: list(&["paths"]),
            allowed_tools: field("allowed_tools").map(|_| list(&["allowed_tools"])),
            servers: list(&["mcp", "requires_mcp"]),
            for_models: !hidden.iter().any(|key| field(key).is_some_and(truthy)),
            file: None,
        })
    }

    /// Returns a string field; `""` if missing.
    pub fn text(&self, key: &str) -> &str {
        self.entry.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns whether there is a closure for a hook: `on_activate` or `on_deactivate`.
    pub(crate) fn has_hook(&self, hook: &str) -> bool {
        self.entry.get(hook).is_some_and(|value| value.as_opaque().is_some())
    }

    /// Returns the directory of a skill on disk.
    pub fn folder(&self) -> Option<&str> {
        self.entry.get("skill_dir").and_then(Json::as_str).filter(|folder| !folder.is_empty())
    }

    /// Returns the host's id of a skill of the host.
    pub fn host_id(&self) -> Option<&str> {
        let hosted = self.text("source") == HOST;
        self.entry.get(HOST_ID).and_then(Json::as_str).filter(|_| hosted)
    }

    /// Returns whether it is a skill of the host whose body has not been fetched yet.
    pub(crate) fn is_unread(&self) -> bool {
        self.file.is_none() && self.host_id().is_some()
    }

    /// Returns the names of the variables that its body contains.
    pub fn wanted_variables(&self) -> BTreeSet<String> {
        let pieces = self.body().split("${").skip(1);
        let names = pieces.filter_map(|piece| piece.split_once('}').map(|(name, _)| name.to_owned()));
        names.filter(|name| name.starts_with("HARN_")).collect()
    }

    /// Returns the signers that are accepted; an empty list accepts any trusted signer.
    pub fn trusted_signers(&self) -> Vec<String> {
        let list = self.entry.get("trusted_signers").and_then(Json::as_array);
        list.into_iter().flatten().map(Json::printed).collect()
    }

    /// Returns the entry for prompt assembly, including the body of a skill on disk.
    pub fn shown(&self) -> Json {
        let mut entry = self.entry.clone();
        if let Some(file) = &self.file
            && let Some(map) = entry.as_object_mut()
        {
            map.insert("prompt".to_owned(), file.body.as_str().into());
        }
        entry
    }

    /// Returns the unrendered instructions.
    pub fn body(&self) -> &str {
        if let Some(file) = &self.file {
            return &file.body;
        }
        match self.text("body") {
            "" => self.text("prompt"),
            body => body,
        }
    }

    /// Returns whether a tool remains visible while this skill is active.
    pub fn allows(&self, tool: &str, namespace: Option<&str>) -> bool {
        self.allowed_tools.iter().flatten().any(|allowed| match allowed.strip_prefix("namespace:") {
            Some(tag) => namespace == Some(tag),
            None => allowed == "*" || allowed == tool,
        })
    }

    /// Returns whether a signature is required. Skills that a program defines have none.
    fn wants_signature(&self) -> bool {
        let wanted = |key: &str| self.entry.get(key).is_some_and(truthy);
        wanted("require_signature") || wanted("trusted_signers")
    }
}

/// Returns the id of an entry: `namespace/name` or `name`.
pub(crate) fn id_of(entry: &Json) -> Option<String> {
    let text = |key: &str| entry.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let name = text("name")?;
    Some(text("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}")))
}

fn no_skills() -> ConfigError {
    ConfigError("agent_loop: skills must be a skill registry or a list of skill entries with a `name`".into()) // prose-ok: diagnostic
}

/// The skills of a loop and how they are selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopSkills {
    /// In registry order.
    pub list: Vec<LoopSkill>,
    /// `metadata`, or a strategy that needs a host.
    pub strategy: String,
    /// Maximum number of matched skills.
    pub top_n: usize,
    /// Whether the selection of the first turn is retained.
    pub sticky: bool,
    /// Files that the task concerns.
    pub working_files: Vec<String>,
    /// Skills that were active when the session's last loop ended.
    pub carried: Option<Vec<String>>,
    /// Values of `${HARN_...}` in bodies, and [`REQUIRE_SIGNED`].
    pub variables: BTreeMap<String, String>,
    /// Whether the model may load a body.
    pub loadable: bool,
}

const MATCH: Shape =
    Shape::Dict(&[("strategy", Shape::Str), ("top_n", Shape::Int(1)), ("sticky", Shape::Bool)]);

impl LoopSkills {
    /// Reads the options `skills`, `skill_match` and `working_files`.
    ///
    /// # Errors
    /// An option has the wrong type.
    pub fn from_options(options: &Map<String, Json>) -> Result<LoopSkills, ConfigError> {
        let nil = Json::Null;
        let option = |key: &str| options.get(key).unwrap_or(&nil);
        let wrong = |e| ConfigError(format!("agent_loop: {e}"));
        let entries: &[Json] = match option("skills") {
            Json::Null => &[],
            Json::Array(list) => list,
            registry => registry.get("skills").and_then(Json::as_array).ok_or_else(no_skills)?,
        };
        let rules = option("skill_match");
        MATCH.check("skill_match", rules).map_err(wrong)?;
        Shape::Names.check("working_files", option("working_files")).map_err(wrong)?;
        let working_files = match option("working_files") {
            Json::String(one) => vec![one.clone()],
            Json::Array(list) => list.iter().map(Json::printed).collect(),
            _ => Vec::new(),
        };
        let strategy = rules.get("strategy").and_then(Json::as_str).unwrap_or("metadata");
        let top_n = rules.get("top_n").and_then(Json::as_u64).unwrap_or(1);
        Ok(LoopSkills {
            list: entries.iter().map(LoopSkill::from_entry).collect::<Result<_, _>>()?,
            strategy: strategy.to_owned(),
            top_n: usize::try_from(top_n).unwrap_or(usize::MAX),
            sticky: rules.get("sticky").and_then(Json::as_bool).unwrap_or(true),
            working_files,
            ..LoopSkills::default()
        })
    }

    /// Returns the names of the variables that bodies contain, and [`REQUIRE_SIGNED`].
    pub fn wanted_variables(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([REQUIRE_SIGNED.to_owned()]);
        names.extend(self.list.iter().flat_map(LoopSkill::wanted_variables));
        names
    }

    /// Replaces the skill with the same id.
    pub fn put(&mut self, skill: LoopSkill) {
        if let Some(place) = self.list.iter_mut().find(|known| known.id == skill.id) {
            *place = skill;
        }
    }

    /// Returns the skill with this id.
    pub fn get(&self, id: &str) -> Option<&LoopSkill> {
        self.list.iter().find(|skill| skill.id == id)
    }

    /// Returns the skill that a model named: by id, or by a name that only one skill has.
    fn meant(&self, name: &str) -> Option<&LoopSkill> {
        self.get(name).or_else(|| {
            let mut named = self.list.iter().filter(|skill| skill.name == name);
            named.next().filter(|_| named.next().is_none())
        })
    }

    /// Returns the skills that match a task, best first.
    pub fn rank(&self, query: &str) -> Vec<Candidate> {
        let lower = query.to_lowercase();
        let words: BTreeSet<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2).collect();
        let skills = self.list.iter().filter(|skill| skill.for_models);
        let mut found: Vec<Candidate> =
            skills.filter_map(|skill| self.score(skill, &lower, &words)).collect();
        // The sort is stable: skills with equal scores stay in registry order.
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found
    }

    fn score(&self, skill: &LoopSkill, query: &str, words: &BTreeSet<&str>) -> Option<Candidate> {
        let hits_in = |key: &str| {
            let text = skill.text(key).to_lowercase();
            words.iter().filter(|word| text.contains(**word)).count()
        };
        let hits = hits_in("description") + hits_in("when_to_use");
        let (mut score, mut reasons) = (0.0, Vec::new());
        if hits > 0 {
            #[expect(clippy::cast_precision_loss, reason = "there are as many hits as words in a prompt")]
            let hits_as_float = hits as f64;
            score += hits_as_float / (hits_as_float + 1.5);
            reasons.push(format!("{hits} keyword hit(s)"));
        }
        if query.contains(&skill.name.to_lowercase()) {
            score += 2.0;
            reasons.push(format!("prompt mentions '{}'", skill.name));
        }
        let globs: Vec<GlobMatcher> = skill.paths.iter().filter_map(|path| path_glob(path)).collect();
        let fitting = globs.iter().filter(|glob| self.working_files.iter().any(|f| glob.is_match(f)));
        let fitting = fitting.count();
        if fitting > 0 {
            score += 1.5 * f64::from(u32::try_from(fitting).unwrap_or(u32::MAX));
            reasons.push(format!("{fitting} path glob(s) matched"));
        }
        (score > 0.0).then(|| Candidate { id: skill.id.clone(), score, reason: reasons.join("; ") })
    }

    /// Returns the skill of a `load_skill` call if its body must be fetched from the host first.
    pub fn unread(&self, arguments: &Json) -> Option<&LoopSkill> {
        self.allowed(arguments).ok().filter(|skill| skill.is_unread())
    }

    /// Answers a call of `load_skill`.
    pub fn load(&self, arguments: &Json) -> Loaded<'_> {
        let skill = match self.allowed(arguments) {
            Ok(skill) => skill,
            Err(failed) => return failed,
        };
        if skill.is_unread() {
            return Loaded::failed("skill_not_found", "the host does not give this skill", &skill.id);
        }
        let text = crate::skills::render(skill.body(), &[], |name| match (name, &skill.file) {
            ("HARN_SKILL_DIR", Some(file)) if !file.folder.is_empty() => Some(file.folder.clone()),
            _ => self.variables.get(name).cloned(),
        });
        Loaded { skill: Some(skill), refused: None, text }
    }

    /// Returns the skill of a `load_skill` call, or why it is not available.
    fn allowed(&self, arguments: &Json) -> Result<&LoopSkill, Loaded<'_>> {
        let Some(name) = arguments.get("name").and_then(Json::as_str).filter(|n| !n.trim().is_empty()) else {
            return Err(Loaded::failed("invalid_arguments", "`name` must be the id of a skill", ""));
        };
        let Some(skill) = self.meant(name) else {
            let known: Vec<&str> = self.list.iter().filter(|s| s.for_models).map(|s| s.id.as_str()).collect();
            let message = format!("there is no skill `{name}`; known: {}", known.join(", "));
            return Err(Loaded::failed("skill_not_found", &message, name));
        };
        if !skill.for_models {
            let message = "this skill is not for models to load";
            return Err(Loaded::failed("skill_model_invocation_disabled", message, &skill.id));
        }
        let everywhere = self.variables.get(REQUIRE_SIGNED).map(String::as_str);
        let everywhere = matches!(everywhere, Some("1" | "true" | "yes"));
        let asked = arguments.get("require_signature").is_some_and(truthy);
        if asked || everywhere || skill.wants_signature() {
            let signature = skill.file.as_ref().map(|file| &file.signature);
            if !signature.is_some_and(|signature| signature.signed) {
                let message = "a signature is required, and this skill has none";
                return Err(Loaded::unsigned(skill, "UnsignedSkillError", message));
            }
            if !signature.is_some_and(|signature| signature.trusted) {
                let message = "a trusted signature is required, and the signer of this skill is not trusted"; // prose-ok: diagnostic
                return Err(Loaded::unsigned(skill, "UntrustedSignerError", message));
            }
        }
        Ok(skill)
    }
}

/// Parses a path glob: `*` does not match `/`, `**` does.
fn path_glob(pattern: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(pattern).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
}

/// A skill that matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The skill.
    pub id: String,
    /// Greater than 0; comparable only with the scores of other skills.
    pub score: f64,
    /// Why it matches.
    pub reason: String,
}

/// The answer to a call of `load_skill`.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<'a> {
    /// The skill, if it may be loaded.
    pub skill: Option<&'a LoopSkill>,
    /// A skill that was rejected because of its signature, with the error code.
    pub refused: Option<(&'a LoopSkill, &'static str)>,
    /// Its rendered body, or the error as JSON.
    pub text: String,
}

impl<'a> Loaded<'a> {
    fn failed(code: &str, message: &str, skill: &str) -> Self {
        let error = json!({"error": code, "message": message, "skill": skill});
        let text = serde_json::to_string_pretty(&error).unwrap_or_default();
        Loaded { skill: None, refused: None, text }
    }

    fn unsigned(skill: &'a LoopSkill, code: &'static str, message: &str) -> Self {
        Loaded { refused: Some((skill, code)), ..Loaded::failed(code, message, &skill.id) }
    }
}

/// Returns whether a tool belongs to the runtime; skills do not hide such tools.
pub(crate) fn is_runtime_tool(name: &str) -> bool {
    name == LOAD_SKILL || name == crate::ledger::LEDGER || glob("__harn_*", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skills(entries: Json, more: Json) -> LoopSkills {
        let mut options = more.as_object().cloned().unwrap();
        options.insert("skills".into(), entries);
        LoopSkills::from_options(&options).unwrap()
    }

    fn ranked(entries: Json, more: Json, query: &str) -> Vec<(String, String)> {
        let found = skills(entries, more).rank(query);
        found.into_iter().map(|c| (c.id, format!("{:.2} {}", c.score, c.reason))).collect()
    }

    #[test]
    fn words_names_and_files_count() {
        let entries = json!([
            {"name": "deploy", "description": "Deploy a service to production", "when_to_use": "shipping a service"},
            {"name": "sql", "description": "Write queries", "paths": ["db/**/*.sql", "*.md"]},
            {"name": "secret", "description": "Deploy service", "disable-model-invocation": true},
        ]);
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(
            ranked(entries.clone(), json!({}), "Please deploy the service"),
            pairs(&[("deploy", "2.67 3 keyword hit(s); prompt mentions 'deploy'")])
        );
        assert_eq!(
            ranked(entries.clone(), json!({"working_files": ["db/a/b.sql", "docs/x.md"]}), "go on"),
            pairs(&[("sql", "1.50 1 path glob(s) matched")])
        );
        assert!(ranked(entries, json!({}), "xyz").is_empty());
    }

    #[test]
    fn a_skill_is_meant_by_its_id_or_a_name_of_its_own() {
        let set = skills(
            json!([{"name": "a", "namespace": "x"}, {"name": "a", "namespace": "y"}, {"name": "b", "prompt": "B"}]),
            json!({}),
        );
        let code = |arguments: Json| {
            let text = set.load(&arguments).text;
            serde_json::from_str::<Json>(&text).ok().and_then(|e| Some(e["error"].as_str()?.to_owned()))
        };
        assert_eq!(code(json!({"name": "a"})).as_deref(), Some("skill_not_found"));
        assert_eq!(code(json!({"name": "x/a"})), None);
        assert_eq!(code(json!({})).as_deref(), Some("invalid_arguments"));
        assert_eq!(
            code(json!({"name": "b", "require_signature": true})).as_deref(),
            Some("UnsignedSkillError")
        );
        assert_eq!(set.load(&json!({"name": "b"})).text, "B");
    }

    #[test]
    fn wrong_options_are_named() {
        let error = |options: Json| LoopSkills::from_options(options.as_object().unwrap()).unwrap_err().0;
        assert_eq!(
            error(json!({"skills": 3})),
            "agent_loop: skills must be a skill registry or a list of skill entries with a `name`"
        );
        assert_eq!(
            error(json!({"skill_match": {"top": 3}})),
            "agent_loop: skill_match has no field `top`; it has strategy, top_n, sticky"
        );
        assert!(error(json!({"skill_match": {"top_n": 0}})).contains("skill_match.top_n must be an int"));
        assert!(error(json!({"working_files": 3})).contains("working_files must be"));
    }
}
