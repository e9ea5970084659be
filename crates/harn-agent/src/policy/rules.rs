//! `permissions`: rules over tools and arguments decide what an agent may do, and the program can override a denial in
//! `on_escalation`.

use harn_llm::options::nearest;
use harn_value::{Data as Json, data::Map, glob, json};
use serde::{Deserialize, Serialize};

use super::answer::RuleList;
use super::judge::{Judge, Question, Reply, Stop};
use super::path::Paths;
use super::read::{part, strings};
use super::value;
use crate::tool::LoopTool;

/// The option `permissions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Rules {
    given: bool,
    /// `None` means no limit.
    allow: Option<Vec<Rule>>,
    deny: Vec<Rule>,
    /// Whether the program defines `on_escalation`.
    escalates: bool,
}

/// A tool glob and a condition on the arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SavedRule")]
pub(super) struct Rule {
    pub(super) tool: String,
    matcher: Matcher,
}

/// A rule in a snapshot; old snapshots contain only the names of `approval_policy`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SavedRule {
    Tool(String),
    Rule { tool: String, matcher: Matcher },
}

impl From<SavedRule> for Rule {
    fn from(saved: SavedRule) -> Rule {
        match saved {
            SavedRule::Tool(tool) => Rule::always(tool),
            SavedRule::Rule { tool, matcher } => Rule { tool, matcher },
        }
    }
}

impl Rule {
    /// Creates a rule without a condition.
    pub(super) fn always(tool: String) -> Rule {
        Rule { tool, matcher: Matcher::Always }
    }

    /// Reads an entry of a dict of rules.
    pub(super) fn read(tool: &str, condition: &Json) -> Result<Rule, String> {
        Ok(Rule { tool: tool.to_owned(), matcher: Matcher::from_json(condition)? })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Matcher {
    Always,
    Never,
    /// Globs over every string in the arguments.
    Any(Vec<String>),
    /// Globs over one argument.
    Key(String, Vec<String>),
    /// A closure of the arguments.
    Asked,
}

impl Rules {
    /// Reads the option.
    pub(super) fn read(options: &Map<String, Json>) -> Result<Rules, String> {
        let Some(map) = part(options, "permissions", &["allow", "deny", "on_escalation"])? else {
            return Ok(Rules::default());
        };
        let escalates = match map.get("on_escalation") {
            None | Some(Json::Null) => false,
            Some(value) => {
                if !value.is_closure() {
                    return Err("agent_loop: permissions.on_escalation must be a closure".to_owned());
                }
                true
            }
        };
        let (allow, deny) = (rules(map.get("allow"))?, rules(map.get("deny"))?.unwrap_or_default());
        Ok(Rules { given: true, allow, deny, escalates })
    }

    /// Returns the rules with their lists.
    pub(super) fn lists(&self) -> impl Iterator<Item = (RuleList, &Rule)> {
        let allow = self.allow.iter().flatten().map(|rule| (RuleList::Allow, rule));
        allow.chain(self.deny.iter().map(|rule| (RuleList::Deny, rule)))
    }

    /// Decides about a call; asks the program where a closure decides.
    pub(super) fn judge(
        &self,
        judge: &mut Judge<'_>,
        layer: usize,
        tool: &LoopTool,
        arguments: &Json,
    ) -> Result<(), Stop> {
        if !self.given {
            return Ok(());
        }
        let name = &tool.name;
        let allowed = |judge: &mut Judge<'_>| -> Result<bool, Stop> {
            let Some(rules) = &self.allow else { return Ok(true) };
            Ok(first(rules, RuleList::Allow, judge, layer, tool, arguments)?.is_some())
        };
        let reason = if let Some(rule) = first(&self.deny, RuleList::Deny, judge, layer, tool, arguments)? {
            format!("permission denied by deny rule: {}", rule.tool)
        } else if allowed(judge)? {
            judge.granted("permission allow rule matched");
            return Ok(());
        } else {
            format!("permission denied: tool '{name}' is not allowed by this agent's permissions")
        };
        if !self.escalates {
            return Err(judge.denied(reason, None));
        }
        let request = json!({
            "_type": "PermissionRequest", "tool": name, "args": arguments, "reason": reason,
            "grant_options": ["once", "session", false],
        });
        match judge.ask(|| Question::Escalate { layer, request })? {
            Reply::Remembered => {
                judge.granted("session grant");
                Ok(())
            }
            Reply::Escalated(verdict) => {
                judge.escalated(&reason);
                let word = if verdict.granted { "granted" } else { "denied" };
                let text = verdict.reason.clone().unwrap_or_else(|| format!("permission escalation {word}"));
                if !verdict.granted {
                    return Err(judge.denied(text, None));
                }
                judge.granted(&text);
                Ok(())
            }
            _ => Err(Stop::Unexpected),
        }
    }
}

/// Rejects a rule about an argument that none of its tools has, because it would never match.
pub(super) fn check_arguments<'a>(
    rules: impl Iterator<Item = (RuleList, &'a Rule)>,
    tools: &[LoopTool],
) -> Result<(), String> {
    for (list, rule) in rules {
        let Matcher::Key(key, _) = &rule.matcher else { continue };
        let bound: Vec<&LoopTool> = tools.iter().filter(|tool| glob(&rule.tool, &tool.name)).collect();
        if bound.is_empty() || bound.iter().any(|tool| tool.may_have(key)) {
            continue;
        }
        let alias = bound.iter().flat_map(|tool| &tool.annotations.aliases).find(|(alias, _)| alias == key);
        let names = || bound.iter().flat_map(|tool| tool.declared()).map(|(name, _)| name.as_str());
        let near = alias.map(|(_, name)| name.as_str()).or_else(|| nearest(key, names()));
        let hint = near.map(|near| format!(", did you mean '{near}'?")).unwrap_or_default();
        let (option, list) = list.place();
        return Err(format!("agent_loop: {option}.{list}: '{}' has no argument '{key}'{hint}", rule.tool));
    }
    Ok(())
}

/// Returns the first rule that matches.
pub(super) fn first<'a>(
    rules: &'a [Rule],
    list: RuleList,
    judge: &mut Judge<'_>,
    layer: usize,
    tool: &LoopTool,
    arguments: &Json,
) -> Result<Option<&'a Rule>, Stop> {
    for rule in rules.iter().filter(|rule| glob(&rule.tool, &tool.name)) {
        let matches = if rule.matcher == Matcher::Asked {
            let question =
                || Question::Matches { layer, list, rule: rule.tool.clone(), arguments: arguments.clone() };
            match judge.ask(question)? {
                Reply::Matches(matches) => *matches,
                _ => return Err(Stop::Unexpected),
            }
        } else {
            rule.matcher.matches(list, tool, arguments, judge.paths)
        };
        if matches {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

/// Reads the rules of a list; `None` if missing.
fn rules(value: Option<&Json>) -> Result<Option<Vec<Rule>>, String> {
    let always = |tool: &str| Rule::always(tool.to_owned());
    let rules: Result<Vec<Rule>, String> = match value {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::String(tool)) => Ok(vec![always(tool)]),
        Some(Json::Array(list)) => list
            .iter()
            .map(|item| {
                item.as_str().map(always).ok_or("agent_loop: list entries must be strings".to_owned())
            })
            .collect(),
        Some(Json::Object(map)) => map.iter().map(|(tool, condition)| Rule::read(tool, condition)).collect(),
        Some(_) => Err("agent_loop: permissions must be lists or dicts of tool names".to_owned()),
    };
    rules.map(Some)
}

impl Matcher {
    fn from_json(value: &Json) -> Result<Matcher, String> {
        let incomplete = || "agent_loop: dict matchers must include arg_key and patterns".to_owned();
        let globs = |value: &Json| match value {
            Json::Array(items) if !items.iter().all(Json::is_string) => {
                Err("agent_loop: list entries must be strings".to_owned())
            }
            Json::String(_) | Json::Array(_) => Ok(strings(Some(value))),
            _ => Err(incomplete()),
        };
        Ok(match value {
            Json::Null | Json::Bool(true) => Matcher::Always,
            Json::Bool(false) => Matcher::Never,
            Json::String(_) | Json::Array(_) => Matcher::Any(globs(value)?),
            Json::Object(map) => {
                let key = map.get("arg_key").and_then(Json::as_str).ok_or_else(incomplete)?;
                let patterns = map.get("patterns").ok_or_else(incomplete)?;
                if let Some(key) = map.keys().find(|key| !["arg_key", "patterns"].contains(&key.as_str())) {
                    return Err(format!(
                        "agent_loop: a condition has no key '{key}'; there are arg_key, patterns"
                    ));
                }
                Matcher::Key(key.to_owned(), globs(patterns)?)
            }
            Json::Number(_) => return Err(incomplete()),
            value if value.is_closure() => Matcher::Asked,
            Json::Opaque(other) => {
                return Err(format!("agent_loop: a permission rule cannot be a {}", other.type_name));
            }
        })
    }

    /// Returns whether the arguments of a call match. An allow rule must match every part of a value, a deny rule only
    /// one; paths are resolved before matching.
    fn matches(&self, list: RuleList, tool: &LoopTool, arguments: &Json, paths: &dyn Paths) -> bool {
        let is_path = |key: &String| tool.annotations.path_params.contains(key);
        let paths_of = |key| is_path(key).then_some(paths);
        match self {
            Matcher::Always => true,
            Matcher::Never | Matcher::Asked => false,
            Matcher::Key(key, patterns) => {
                let Some(given) = arguments.get(key) else { return false };
                match list.permits() {
                    true => value::is_allowed(Some(given), patterns, paths_of(key)),
                    false => value::is_forbidden(given, patterns, paths_of(key)),
                }
            }
            Matcher::Any(patterns) => {
                let given = || arguments.as_object().into_iter().flatten();
                let mut values = given().filter(|(key, _)| is_path(key)).map(|(_, value)| value).peekable();
                match list.permits() {
                    // A string in another argument must not be accepted in place of a path.
                    true if values.peek().is_some() => {
                        values.all(|path| value::is_allowed(Some(path), patterns, Some(paths)))
                    }
                    false if values.any(|path| value::is_forbidden(path, patterns, Some(paths))) => true,
                    _ => any_text(arguments, patterns),
                }
            }
        }
    }
}

/// Returns whether any string in the arguments matches; without strings, the arguments as JSON.
fn any_text(arguments: &Json, patterns: &[String]) -> bool {
    let mut texts = Vec::new();
    collect_texts(arguments, &mut texts);
    if texts.is_empty() {
        texts.push(arguments.to_string());
    }
    texts.iter().any(|text| patterns.iter().any(|pattern| glob(pattern, text)))
}

fn collect_texts(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::String(text) => out.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| collect_texts(item, out)),
        Json::Object(map) => map.values().for_each(|item| collect_texts(item, out)),
        _ => {}
    }
}
