//! Tiers: the strength of a model, and the model that represents a tier.

use super::{Alias, Config, env};
use crate::embedder::Embedder;
use crate::error::OptionError;

/// Returns the rank of a tier name; unknown names rank in the middle.
pub(crate) fn tier_rank(tier: &str) -> u8 {
    match tier.to_lowercase().as_str() {
        "small" | "low" => 0,
        "frontier" | "large" | "high" => 2,
        _ => 1,
    }
}

/// The names that [`tier_rank`] knows.
const RANKED: [&str; 7] = ["small", "low", "mid", "medium", "frontier", "large", "high"];

/// The tiers that exist without configuration.
const TIERS: [&str; 3] = ["small", "mid", "frontier"];

/// The result of resolving a tier; `warning` is set when it is a substitute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TierChoice {
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) warning: Option<String>,
}

impl Config {
    /// Returns the tier of a model id.
    pub fn tier_of(&self, id: &str) -> String {
        if let Some(rule) = self.file.tier_rules.iter().find(|r| r.tier.is_some() && r.matches(id)) {
            return rule.tier.clone().unwrap_or_default();
        }
        let lower = id.to_lowercase();
        if lower.contains("9b") || lower.contains("a3b") {
            return "small".into();
        }
        if lower.starts_with("claude-") || lower == "gpt-4o" {
            return "frontier".into();
        }
        self.file.tier_defaults.get("default").cloned().unwrap_or_else(|| "mid".into())
    }

    /// Returns the alias that takes precedence for a tier.
    pub(super) fn tier_alias(&self, tier: &str, preferred: Option<&str>) -> Option<&Alias> {
        let mut names = vec![tier.to_string()];
        if let Some(p) = preferred {
            names.push(format!("{p}/{tier}"));
            names.push(format!("{p}:{tier}"));
        }
        names.push(format!("tier/{tier}"));
        names.iter().find_map(|name| self.alias(name))
    }

    /// Rejects a name that is neither a tier nor an alias. Otherwise the call would silently use the default model.
    ///
    /// # Errors
    /// The unknown name, with the valid ones.
    pub(super) fn check_tier(&self, tier: &str) -> Result<(), OptionError> {
        let of_rules = self.file.tier_rules.iter().filter_map(|rule| rule.tier.as_deref());
        let of_models = self.file.aliases.values().map(|alias| self.tier_of(&alias.id)).collect::<Vec<_>>();
        let named = |word: &str| word == tier || word.rsplit(['/', ':']).next() == Some(tier);
        let known = TIERS.contains(&tier)
            || of_rules.chain(of_models.iter().map(String::as_str)).any(|word| word == tier)
            || self.file.aliases.keys().any(|name| named(name));
        if known {
            return Ok(());
        }
        let words = TIERS.iter().copied().chain(self.file.aliases.keys().map(String::as_str));
        let hint = match crate::options::nearest(tier, words) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("tiers are {}, and every alias of `harn models` is one", TIERS.join(", ")),
        };
        Err(OptionError::new(format!("model_tier: unknown tier `{tier}`; {hint}")))
    }

    /// Rejects a quality that is not a tier name. Otherwise it would silently rank in the middle.
    ///
    /// # Errors
    /// The unknown name, with the valid ones.
    pub(super) fn check_quality(&self, word: &str) -> Result<(), OptionError> {
        let of_rules = self.file.tier_rules.iter().filter_map(|rule| rule.tier.as_deref());
        let of_default = self.file.tier_defaults.get("default").map(String::as_str);
        let words = || RANKED.into_iter().chain(of_rules.clone()).chain(of_default);
        let lower = word.to_lowercase();
        if RANKED.contains(&lower.as_str()) || words().any(|known| known == word) {
            return Ok(());
        }
        let hint = match crate::options::nearest(&lower, words()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("tiers are {}", TIERS.join(", ")),
        };
        Err(OptionError::new(format!("route_policy: unknown tier `{word}`; {hint}")))
    }

    /// Returns whether calls to the provider can be authorised.
    pub(crate) fn is_available(&self, provider: &str, embedder: &dyn Embedder) -> bool {
        self.provider(provider).is_some_and(|p| p.is_available(embedder))
    }

    /// Returns the first alias of a provider whose model is in the tier.
    fn alias_in_tier(&self, provider: &str, tier: &str) -> Option<&Alias> {
        self.file.aliases.values().find(|a| a.provider == provider && self.tier_of(&a.id) == tier)
    }

    /// Resolves a tier within the provider that the caller named; never selects another provider.
    pub(super) fn tier_within(&self, tier: &str, provider: &str) -> Option<String> {
        let own = |name: String| self.alias(&name).filter(|a| a.provider == provider);
        own(format!("{provider}/{tier}"))
            .or_else(|| own(format!("{provider}:{tier}")))
            .or_else(|| own(tier.to_string()))
            .or_else(|| self.alias_in_tier(provider, tier))
            .map(|a| a.id.clone())
    }

    /// Resolves a tier to any available provider.
    pub(super) fn resolve_tier(
        &self,
        tier: &str,
        preferred: Option<&str>,
        embedder: &dyn Embedder,
    ) -> Option<TierChoice> {
        let candidate = self.tier_alias(tier, preferred);
        let choice =
            |a: &Alias, warning| TierChoice { provider: a.provider.clone(), model: a.id.clone(), warning };
        if let Some(alias) = candidate
            && preferred.is_none_or(|p| p == alias.provider)
            && self.is_available(&alias.provider, embedder)
        {
            return Some(choice(alias, None));
        }
        let substitute = |provider: &str, model: &str| {
            Some(format!(
                "model tier \"{tier}\": no usable provider for it, using \"{model}\" at \"{provider}\" instead"
            ))
        };
        for name in ["HARN_LLM_MODEL", "LOCAL_LLM_MODEL"] {
            if let Some(selector) = env(embedder, name) {
                let own = super::BUILTIN.providers.iter().find(|(_, table)| {
                    table
                        .default_model_env
                        .as_ref()
                        .and_then(|names| names.first())
                        .is_some_and(|n| n == name)
                });
                let own = own.map(|(provider, _)| provider.as_str());
                let provider = match self.alias(&selector) {
                    Some(alias) => alias.provider.clone(),
                    None => own
                        .map(str::to_owned)
                        .or_else(|| {
                            env(embedder, "HARN_LLM_PROVIDER").filter(|p| !p.eq_ignore_ascii_case("auto"))
                        })
                        .unwrap_or_else(|| self.infer_or_default(&selector, embedder)),
                };
                let model = self
                    .alias(&selector)
                    .map_or_else(|| self.strip_prefix(&selector).into(), |a| a.id.clone());
                if self.is_available(&provider, embedder) {
                    let warning = substitute(&provider, &model);
                    return Some(TierChoice { provider, model, warning });
                }
            }
        }
        for provider in self.tier_order(preferred, embedder) {
            if let Some(alias) =
                self.alias_in_tier(&provider, tier).filter(|_| self.is_available(&provider, embedder))
            {
                return Some(choice(alias, substitute(&alias.provider, &alias.id)));
            }
        }
        candidate.map(|alias| choice(alias, None))
    }

    fn tier_order(&self, preferred: Option<&str>, embedder: &dyn Embedder) -> Vec<String> {
        let mut order: Vec<String> = preferred.map(str::to_string).into_iter().collect();
        order.extend(env(embedder, "HARN_LLM_PROVIDER").filter(|p| !p.eq_ignore_ascii_case("auto")));
        order.extend(Self::addressed_by("LOCAL_LLM_BASE_URL", embedder));
        for name in ["HARN_LLM_MODEL", "LOCAL_LLM_MODEL"] {
            order.extend(env(embedder, name).and_then(|id| self.infer_provider(&id)));
        }
        order.extend(self.file.tier_order.iter().cloned());
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;

    #[test]
    fn ids_have_tiers() {
        let config = Config::builtin();
        assert_eq!(config.tier_of("Qwen3.5-9B"), "small");
        assert_eq!(config.tier_of("deepseek-v3"), "mid");
        assert_eq!(config.tier_of("gemma-4-31b-it"), "frontier");
        assert_eq!(config.tier_of("claude-x"), "frontier");
    }

    #[test]
    fn a_tier_goes_where_a_key_is() {
        let config = Config::builtin();
        let embedder = StdEmbedder::with_env([("OPENAI_API_KEY", "k")]);
        let choice = config.resolve_tier("mid", None, &embedder).unwrap();
        assert_eq!((choice.provider.as_str(), choice.model.as_str()), ("openai", "gpt-4o-mini"));
        let embedder = StdEmbedder::with_env([("X", "")]);
        let choice = config.resolve_tier("mid", None, &embedder).unwrap();
        assert_eq!(choice.provider, "local", "the first alias in the tier whose provider needs no key");
        assert!(choice.warning.is_some());
        assert_eq!(config.resolve_tier("nonsense", None, &embedder), None);
        assert_eq!(
            config.check_tier("fronteir").unwrap_err().0,
            "model_tier: unknown tier `fronteir`; did you mean `frontier`?"
        );
        assert!(config.check_tier("nonsense").unwrap_err().0.contains("tiers are small, mid, frontier"));
        assert!(["small", "tier/mid", "local-gemma4"].iter().all(|tier| config.check_tier(tier).is_ok()));
    }
}
