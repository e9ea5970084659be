//! What a bare model id says about its provider and family.

use super::Config;
use crate::embedder::Embedder;

impl Config {
    /// Splits `PROVIDER:MODEL`, when the first part is the name of a configured provider (`hf` is short for `huggingface`).
    pub(crate) fn split_prefix<'a>(&'a self, id: &'a str) -> Option<(&'a str, &'a str)> {
        let (head, model) = id.split_once(':')?;
        let provider = if head == "hf" { "huggingface" } else { head };
        (!model.is_empty() && self.provider(provider).is_some()).then_some((provider, model))
    }

    /// Removes the leading `PROVIDER:` of an id that is no alias.
    pub fn strip_prefix<'a>(&'a self, id: &'a str) -> &'a str {
        self.split_prefix(id).map_or(id, |(_, model)| model)
    }

    /// Removes the leading `PROVIDER:` of an id that goes to `provider`. Another provider's name may be part of the id:
    /// Ollama serves models such as `deepseek:7b`.
    pub(super) fn strip_prefix_of<'a>(&'a self, id: &'a str, provider: &str) -> &'a str {
        self.split_prefix(id).filter(|(named, _)| *named == provider).map_or(id, |(_, model)| model)
    }

    /// Infers the provider of a model id; `None` when nothing fits and the default provider is meant.
    pub(crate) fn infer_provider(&self, id: &str) -> Option<String> {
        let found = |p: &str| Some(p.to_string());
        if let Some((provider, _)) = self.split_prefix(id) {
            return found(provider);
        }
        if let Some(rule) = self.file.inference_rules.iter().find(|r| r.provider.is_some() && r.matches(id)) {
            return rule.provider.clone();
        }
        if id.matches('/').count() == 1 {
            return found("openrouter");
        }
        if id.starts_with("claude-") {
            return found("anthropic");
        }
        if ["gpt-", "o1", "o3", "o4"].iter().any(|p| id.starts_with(p)) {
            return found("openai");
        }
        if id.starts_with("gemini-") {
            return found("gemini");
        }
        if id.contains(':') {
            return found("ollama");
        }
        None
    }

    /// Returns the default provider: `HARN_DEFAULT_PROVIDER`, the configured one, else `anthropic`.
    pub fn default_provider(&self, embedder: &dyn Embedder) -> String {
        super::env(embedder, "HARN_DEFAULT_PROVIDER")
            .filter(|p| !p.eq_ignore_ascii_case("auto"))
            .or_else(|| self.file.default_provider.clone())
            .unwrap_or_else(|| "anthropic".to_string())
    }

    /// Infers the provider of a model id, falling back to the default provider.
    pub fn infer_or_default(&self, id: &str, embedder: &dyn Embedder) -> String {
        self.infer_provider(id).unwrap_or_else(|| self.default_provider(embedder))
    }
}

/// Returns the family token of a model, for templates that write differently for different families.
pub fn family(provider: &str, model: &str) -> String {
    let id = model.to_lowercase();
    let part_starts =
        |heads: &[&str]| id.split(['/', ':', '.']).any(|part| heads.iter().any(|h| part.starts_with(h)));
    let token = if id.contains("claude") {
        "anthropic-claude"
    } else if id.contains("gpt") || part_starts(&["o1", "o3", "o4"]) {
        "openai-gpt"
    } else if id.contains("gemini") {
        "google-gemini"
    } else if id.contains("qwen") {
        "qwen"
    } else if id.contains("deepseek") {
        "deepseek"
    } else if id.contains("llama") {
        "llama"
    } else if ["mistral", "mixtral", "codestral", "devstral", "magistral"].iter().any(|m| id.contains(m)) {
        "mistral"
    } else if id.contains("gemma") {
        "google-gemma"
    } else if id.contains("kimi") {
        "moonshot-kimi"
    } else {
        match provider {
            "anthropic" => "anthropic-claude",
            "openai" | "azure_openai" => "openai-gpt",
            "gemini" | "vertex" => "google-gemini",
            "deepseek" => "deepseek",
            "dashscope" => "qwen",
            other => other,
        }
    };
    token.to_string()
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
        assert_eq!(config.strip_prefix("ollama:qwen3:30b"), "qwen3:30b");
    }

    #[test]
    fn families_follow_the_id_then_the_provider() {
        assert_eq!(family("openrouter", "anthropic/claude-opus-4.6"), "anthropic-claude");
        assert_eq!(family("openai", "o3-mini"), "openai-gpt");
        assert_eq!(family("together", "deepseek-ai/DeepSeek-V3"), "deepseek");
        assert_eq!(family("dashscope", "custom"), "qwen");
        assert_eq!(family("mine", "custom"), "mine");
    }
}
