//! Infers provider and family from a bare model id.

use super::{Config, Provider};
use crate::embedder::Embedder;

impl Config {
    /// Splits `PROVIDER:MODEL` when the first part is the name or the short name of a known provider.
    pub(crate) fn split_prefix<'a>(&'a self, id: &'a str) -> Option<(&'a str, &'a str)> {
        let (head, model) = id.split_once(':')?;
        let short = |provider: &Provider| provider.short_name.as_deref() == Some(head);
        let named =
            || self.file.providers.iter().find(|(_, table)| short(table)).map(|(name, _)| name.as_str());
        let found = if self.knows(head) { Some(head) } else { named() };
        found.filter(|_| !model.is_empty()).map(|provider| (provider, model))
    }

    /// Removes a leading `PROVIDER:` from an id that is not an alias.
    pub fn strip_prefix<'a>(&'a self, id: &'a str) -> &'a str {
        self.split_prefix(id).map_or(id, |(_, model)| model)
    }

    /// Removes a leading `PROVIDER:` from an id that is sent to `provider`. The name of another provider may be part of
    /// the id: Ollama serves models such as `deepseek:7b`.
    pub(super) fn strip_prefix_of<'a>(&'a self, id: &'a str, provider: &str) -> &'a str {
        self.split_prefix(id).filter(|(named, _)| *named == provider).map_or(id, |(_, model)| model)
    }

    /// Infers the provider of a model id. Returns `None` when no rule matches; the caller then uses the default
    /// provider.
    pub fn infer_provider(&self, id: &str) -> Option<String> {
        if let Some((provider, _)) = self.split_prefix(id) {
            return Some(provider.to_owned());
        }
        let rule = self.file.inference_rules.iter().find(|rule| rule.provider.is_some() && rule.matches(id));
        let ruled = rule.and_then(|rule| rule.provider.clone());
        self.listed_provider(id, ruled.as_deref()).map(str::to_owned).or(ruled)
    }

    /// Returns whether an alias or a model id identifies its provider by name. A slash or a tag is not enough: any
    /// server may use them.
    pub(super) fn names_provider(&self, id: &str) -> bool {
        let by_pattern =
            |rule: &super::Rule| rule.provider.is_some() && rule.pattern.is_some() && rule.matches(id);
        self.alias(id).is_some()
            || self.model(id).is_some()
            || self.split_prefix(id).is_some()
            || self.file.inference_rules.iter().any(by_pattern)
    }

    /// Returns the provider whose catalogue entry or alias has this model id. When several providers have it, prefers
    /// `told`, the provider that the name suggests.
    fn listed_provider(&self, id: &str, told: Option<&str>) -> Option<&str> {
        let catalogued = self.model(id).map(|model| model.provider.as_str()).filter(|name| !name.is_empty());
        let behind =
            self.file.aliases.values().filter(|alias| alias.id == id).map(|alias| alias.provider.as_str());
        let listed: Vec<&str> = catalogued.into_iter().chain(behind).collect();
        listed.iter().find(|name| Some(**name) == told).or(listed.first()).copied()
    }

    /// Returns the default provider: `HARN_DEFAULT_PROVIDER`, else the configured one.
    pub fn default_provider(&self, embedder: &dyn Embedder) -> String {
        super::env(embedder, "HARN_DEFAULT_PROVIDER")
            .filter(|p| !p.eq_ignore_ascii_case("auto"))
            .or_else(|| self.file.default_provider.clone())
            .expect("the shipped table names one")
    }

    /// Infers the provider of a model id, falling back to the default provider.
    pub fn infer_or_default(&self, id: &str, embedder: &dyn Embedder) -> String {
        self.infer_provider(id).unwrap_or_else(|| self.default_provider(embedder))
    }

    /// Returns the family of a model, for templates that differ by family.
    pub(crate) fn family(&self, provider: &str, model: &str) -> String {
        let id = model.to_lowercase();
        let of_id = self.file.family_rules.iter().filter(|rule| rule.matches(&id));
        let of_provider = || self.provider(provider).and_then(|table| table.family.clone());
        let family = of_id.filter_map(|rule| rule.family.clone()).next();
        family.or_else(of_provider).unwrap_or_else(|| provider.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_provider() {
        let config = Config::builtin();
        let infer = |id: &str| config.infer_provider(id).unwrap_or_else(|| "-".into());
        assert_eq!(infer("qwen/qwen3-coder"), "openrouter");
        assert_eq!(infer("llama3.2:latest"), "ollama");
        assert_eq!(infer("a/b/c"), "-");
        assert_eq!(infer("local:gemma-4-e4b-it"), "local");
        assert_eq!(infer("openai:gpt-4o"), "openai");
        assert_eq!(infer("mistral:7b"), "ollama", "no provider of that name");
        assert_eq!(config.strip_prefix("openai:gpt-4o"), "gpt-4o");
        assert_eq!(config.strip_prefix_of("deepseek:7b", "ollama"), "deepseek:7b");
        assert_eq!(infer("hf:x/y"), "huggingface");
        assert_eq!(infer("o3-mini"), "openai");
        assert_eq!(infer("meta.llama3-70b-instruct-v1:0"), "bedrock");
        assert_eq!(infer("llama3.2"), "ollama", "catalogued there");
        assert_eq!(infer("gemma-4-31b-it"), "local", "an alias stands for it");
        assert_eq!(config.strip_prefix("ollama:qwen3:30b"), "qwen3:30b");
    }

    #[test]
    fn families_follow_the_id_then_the_provider() {
        let config = Config::builtin();
        let family = |provider: &str, model: &str| config.family(provider, model);
        assert_eq!(family("openrouter", "anthropic/claude-opus-4.6"), "anthropic-claude");
        assert_eq!(family("openai", "o3-mini"), "openai-gpt");
        assert_eq!(family("together", "deepseek-ai/DeepSeek-V3"), "deepseek");
        assert_eq!(family("dashscope", "custom"), "qwen");
        assert_eq!(family("mine", "custom"), "mine");
        assert_eq!(family("azure_openai", "my-deployment"), "openai-gpt");
        assert_eq!(family("mine", "x/O3-mini"), "openai-gpt");
        assert_eq!(family("mine", "solo1"), "mine", "a part begins so");
    }
}
