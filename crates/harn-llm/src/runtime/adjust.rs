//! Adjusts options that a model does not support, with a notice, or rejects them before anything is sent.

use std::rc::Rc;
use std::sync::LazyLock;

use serde::Deserialize;

use super::LlmRuntime;
use crate::capabilities::{Capabilities, model_version};
use crate::dialect::Dialect;
use crate::error::OptionError;
use crate::models::{Entry, Match};
use crate::options::{DEFAULT_MAX_TOKENS, Effort, Thinking};
use crate::request::{Request, Route};
use crate::tools::ToolChoice;

/// A combination of options that a provider rejects; see `data/option_rules.toml`.
#[derive(Debug, Deserialize)]
struct OptionRule {
    family: String,
    feature: Option<String>,
    version_min: Option<(u32, u32)>,
    #[serde(default)]
    when: Vec<String>,
    #[serde(default)]
    drop: Vec<String>,
    refuse: Option<String>,
    /// The documentation of the restriction.
    source: String,
}

#[derive(Debug, Deserialize)]
struct RuleFile {
    rule: Vec<OptionRule>,
}

const SHIPPED: &str = include_str!("../data/option_rules.toml");

static RULES: LazyLock<Vec<OptionRule>> =
    LazyLock::new(|| toml::from_str::<RuleFile>(SHIPPED).expect("the shipped rules are valid").rule);

impl OptionRule {
    fn holds(&self, family: &str, entry: Option<&Entry>, request: &Request) -> bool {
        let has = |feature: &str| match feature.strip_prefix('!') {
            Some(name) => entry.and_then(|entry| entry.can(name)) == Some(false),
            None => entry.and_then(|entry| entry.can(feature)) == Some(true),
        };
        let version = || model_version(&request.route.model);
        self.family == family
            && self.feature.as_deref().is_none_or(has)
            && self.version_min.is_none_or(|least| version().is_some_and(|version| version >= least))
            && self.when.iter().all(|option| is_set(request, option))
    }
}

/// Returns whether a request sets an option, given by its name or the name of a combination.
fn is_set(request: &Request, option: &str) -> bool {
    match option {
        "thinking" => request.thinking.is_on(),
        "forced_tool" => {
            let forces = |choice: &ToolChoice| matches!(choice, ToolChoice::Required | ToolChoice::Tool(_));
            request.tool_choice.as_ref().is_some_and(forces)
        }
        "stop" => !request.sampling.stop.is_empty(),
        other => request.sampling.is_set(other),
    }
}

/// The thinking budget in tokens that corresponds to each effort.
const BUDGETS: [(Effort, i64); 6] = [
    (Effort::Minimal, 1024),
    (Effort::Low, 2048),
    (Effort::Medium, 8192),
    (Effort::High, 16_384),
    (Effort::XHigh, 24_576),
    (Effort::Max, 32_768),
];

fn budget_of(effort: Effort) -> Option<i64> {
    BUDGETS.iter().find(|(of, _)| *of == effort).map(|(_, tokens)| *tokens)
}

/// Returns the effort that corresponds to a thinking budget, limited to efforts that every model supports.
fn effort_of(tokens: i64) -> Effort {
    let every = [Effort::Low, Effort::Medium];
    let fits = BUDGETS.iter().find(|(effort, most)| every.contains(effort) && tokens <= *most);
    fits.map_or(Effort::High, |(effort, _)| *effort)
}

impl LlmRuntime {
    /// Returns the catalogue entry of a route's model.
    pub(super) fn entry_of(&self, route: &Route) -> Option<Rc<Entry>> {
        self.config().catalog().find(&route.provider, &route.model)
    }

    /// Returns the reply limit when the call sets none: the model's limit, at most 16384. Returns 0 (no limit) for an
    /// unknown model on a free provider, such as a local server.
    pub(super) fn default_max_tokens(&self, route: &Route) -> i64 {
        let most = self.entry_of(route).and_then(|entry| entry.output);
        let is_own = || self.config().provider(&route.provider).is_some_and(|table| table.free == Some(true));
        match most {
            Some(most) => DEFAULT_MAX_TOKENS.min(most),
            None if route.dialect != Dialect::Mock && is_own() => 0,
            None => DEFAULT_MAX_TOKENS,
        }
    }

    /// Returns the capabilities of a model: those of the rules, plus images and documents if the catalogue lists them.
    pub fn media_capabilities(&self, provider: &str, model: &str) -> Capabilities {
        let mut caps = self.capabilities().lookup(provider, model);
        let config = self.config();
        if let Some(entry) = config.catalog().find(provider, model).filter(|e| e.found != Match::Family) {
            caps.vision_supported |= entry.can("vision") == Some(true);
            caps.pdf |= entry.can("pdf") == Some(true);
        }
        caps
    }

    /// Returns whether a model is known not to cache prompts. Other models cache automatically, or the option has no
    /// effect.
    pub(super) fn refuses_cache(&self, route: &Route) -> bool {
        self.entry_of(route).is_some_and(|entry| entry.can("cache") == Some(false))
    }

    /// Returns whether a call needs OpenAI's Responses API.
    pub(super) fn wants_responses(&self, route: &Route, has_tools: bool, thinks: bool) -> bool {
        let entry = self.entry_of(route).filter(|entry| entry.found != Match::Family);
        if entry.is_some_and(|entry| entry.can("responses_only") == Some(true)) {
            return true;
        }
        // Required for tools with an effort since GPT-5.4, for all tools since GPT-5.6.
        let version = model_version(&route.model);
        has_tools && version.is_some_and(|version| version >= (5, 6) || (thinks && version >= (5, 4)))
    }

    /// Adjusts the options of a request to those that its model supports.
    ///
    /// # Errors
    /// A combination has no equivalent.
    pub(super) fn adjust_options(&self, request: &mut Request) -> Result<(), OptionError> {
        let entry = self.entry_of(&request.route);
        let (provider, model) = (request.route.provider.clone(), request.route.model.clone());
        request.thinking = self.adjusted_thinking(request, entry.as_deref())?;
        let family = self.config().family(&provider, &model);
        for rule in RULES.iter() {
            if !rule.holds(&family, entry.as_deref(), request) {
                continue;
            }
            if let Some(why) = &rule.refuse {
                let source = &rule.source;
                return Err(OptionError::new(format!("`{model}` (provider `{provider}`): {why} ({source})")));
            }
            for option in rule.drop.iter().filter(|option| is_set(request, option)).collect::<Vec<_>>() {
                request.sampling.unset(option);
                self.warn_once(&format!(
                    "\"{option}\" is not supported by \"{model}\" (provider \"{provider}\"), ignoring"
                ));
            }
        }
        Ok(())
    }

    /// Converts thinking to a mode that the model supports.
    fn adjusted_thinking(&self, request: &Request, entry: Option<&Entry>) -> Result<Thinking, OptionError> {
        let caps = &request.route.caps;
        let (model, provider) = (&request.route.model, &request.route.provider);
        let adapts = caps.thinks("adaptive");
        let by_effort = caps.thinks("effort") && !caps.thinks("enabled");
        let by_budget = caps.thinks("enabled") && !caps.thinks("effort") && !adapts;
        // OpenRouter converts modes itself.
        if request.route.dialect == Dialect::Openrouter {
            return Ok(request.thinking);
        }
        let thinking = match request.thinking {
            Thinking::Enabled { budget_tokens: None } if by_effort && adapts => Thinking::Adaptive,
            Thinking::Enabled { budget_tokens: None } | Thinking::Adaptive if by_effort && !adapts => {
                Thinking::Effort(Effort::Medium)
            }
            Thinking::Enabled { budget_tokens: Some(tokens) } if by_effort => {
                let effort = effort_of(tokens);
                self.warn_once(&format!(
                    "\"thinking.budget_tokens\" is not supported by \"{model}\" (provider \"{provider}\"), using effort \"{}\"",
                    effort.as_str()
                ));
                Thinking::Effort(effort)
            }
            Thinking::Adaptive if by_budget => Thinking::Enabled { budget_tokens: None },
            other => other,
        };
        if let Thinking::Effort(effort) = thinking {
            let listed = &caps.reasoning_efforts;
            let is_listed = listed.is_empty() || listed.iter().any(|word| word == effort.as_str());
            // The catalogue lists the efforts of the API, not those that stand for budgets.
            let catalogued =
                entry.filter(|_| !by_budget).and_then(|entry| entry.takes_effort(effort.as_str()));
            if !catalogued.unwrap_or(is_listed) {
                let instead = if listed.is_empty() {
                    String::new()
                } else {
                    format!("; it takes {}", listed.join(", "))
                };
                return Err(OptionError::new(format!(
                    "reasoning_effort: `{model}` (provider `{provider}`) takes no effort \"{}\"{instead}",
                    effort.as_str()
                )));
            }
        }
        let [least, most] = caps.thinking_budget[..] else {
            return Ok(match thinking {
                // These models do not think unless thinking is requested.
                Thinking::Effort(Effort::None) if by_budget => Thinking::Disabled,
                Thinking::Effort(effort) if by_budget => {
                    Thinking::Enabled { budget_tokens: budget_of(effort) }
                }
                other => other,
            });
        };
        Ok(match thinking {
            Thinking::Effort(Effort::None) if by_budget => Thinking::Enabled { budget_tokens: Some(0) },
            Thinking::Effort(effort) if by_budget => {
                Thinking::Enabled { budget_tokens: budget_of(effort).map(|tokens| tokens.clamp(least, most)) }
            }
            Thinking::Enabled { budget_tokens: Some(tokens) } if !(least..=most).contains(&tokens) => {
                let may_be_off = caps.reasoning_efforts.iter().any(|word| word == "none");
                if tokens != 0 || !may_be_off {
                    let off = if may_be_off { ", or 0" } else { "" };
                    return Err(OptionError::new(format!(
                        "thinking.budget_tokens: `{model}` (provider `{provider}`) takes {least} to {most} tokens{off}, got {tokens}"
                    )));
                }
                thinking
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_source_and_an_effect() {
        assert!(RULES.len() >= 5);
        assert_eq!(SHIPPED.matches("\nchecked = \"20").count(), RULES.len());
        for rule in RULES.iter() {
            assert!(rule.source.starts_with("https://"), "{rule:?}");
            assert!(rule.refuse.is_some() == rule.drop.is_empty(), "{rule:?}");
        }
    }
}
