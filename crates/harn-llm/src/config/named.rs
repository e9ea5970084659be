//! Provider names as programs write them. A typo is reported with a suggestion, so that a prompt is never sent to a
//! provider that the program did not name.

use super::{Config, env};
use crate::dialect::Dialect;
use crate::embedder::Embedder;
use crate::error::OptionError;
use crate::options::{CallOptions, nearest};

impl Config {
    /// Returns the message for an unknown provider: a suggestion and the known names.
    pub(crate) fn unknown_provider(&self, name: &str) -> String {
        let known = self.provider_names();
        let names = known.join(", ");
        match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => {
                format!("unknown provider `{name}` (did you mean `{near}`?); known providers: {names}")
            }
            None => format!("unknown provider `{name}`; known providers: {names}"),
        }
    }

    /// Returns the error of a call whose provider is unknown. It names the origin of the provider unless the call
    /// itself named it.
    pub(super) fn unknown_choice(
        &self,
        provider: &str,
        options: &CallOptions,
        embedder: &dyn Embedder,
    ) -> OptionError {
        let variables = ["HARN_LLM_PROVIDER", "LLM_PROVIDER", "HARN_DEFAULT_PROVIDER"];
        let of_environment =
            || variables.into_iter().find(|name| env(embedder, name).as_deref() == Some(provider));
        let of_file =
            || (self.file.default_provider.as_deref() == Some(provider)).then_some("default_provider");
        let origin = match options.provider {
            Some(_) => None,
            None => of_environment().or_else(of_file),
        };
        let origin = origin.map(|name| format!("{name}: ")).unwrap_or_default();
        OptionError::new(format!("llm_call: {origin}{}", self.unknown_provider(provider)))
    }

    /// Rejects entries of a `fallback_chain` that are neither a provider name, `PROVIDER:MODEL` nor an alias.
    ///
    /// # Errors
    /// The first invalid entry.
    pub(crate) fn check_fallbacks(&self, entries: &[String]) -> Result<(), OptionError> {
        match entries.iter().position(|entry| self.fallback_route(entry, "").is_none()) {
            None => Ok(()),
            Some(at) => {
                let name = entries[at].split(':').next().unwrap_or_default();
                let wrong = match self.knows(name) {
                    true => format!("model is missing after `{}`", entries[at]),
                    false => self.unknown_provider(name),
                };
                Err(OptionError::new(format!("fallback_chain[{at}]: {wrong}")))
            }
        }
    }

    /// Returns provider and model of a fallback entry: a provider name (with the `model` of the call),
    /// `PROVIDER:MODEL`, or an alias.
    pub(crate) fn fallback_route(&self, entry: &str, model: &str) -> Option<(String, String)> {
        if self.knows(entry) {
            return Some((entry.to_owned(), model.to_owned()));
        }
        match self.alias(entry) {
            Some(alias) => Some((alias.provider.clone(), alias.id.clone())),
            None => self.split_prefix(entry).map(|(provider, model)| (provider.to_owned(), model.to_owned())),
        }
    }

    /// Rejects `NAME:MODEL` when the name is a likely typo of a provider name. Other prefixes belong to the model:
    /// `llama3.2:8b`.
    ///
    /// # Errors
    /// The unknown name, with a suggestion.
    pub(crate) fn check_model_name(&self, id: &str) -> Result<(), OptionError> {
        let Some((head, model)) = id.split_once(':') else { return Ok(()) };
        if self.alias(id).is_some() || self.model(id).is_some() || self.split_prefix(id).is_some() {
            return Ok(());
        }
        if self.knows(head) {
            return Err(OptionError::new(format!("llm_call: model is missing after `{id}`")));
        }
        let short = self.file.providers.values().filter_map(|table| table.short_name.as_deref());
        let names = self.file.providers.keys().chain(&self.registered).map(String::as_str).chain(short);
        match nearest(head, names).filter(|_| !self.is_of_family(head)) {
            None => Ok(()),
            Some(near) => {
                let taken = self
                    .infer_provider(id)
                    .map(|provider| format!("; for a model of this name write `{provider}:{id}`"));
                Err(OptionError::new(format!(
                    "llm_call: model `{id}`: unknown provider `{head}` (did you mean `{near}:{model}`?){}",
                    taken.unwrap_or_default()
                )))
            }
        }
    }

    /// Rejects a model prefix that names a provider other than `provider`: one of the two would receive an id that it
    /// does not know.
    ///
    /// # Errors
    /// A message that names both.
    pub(super) fn check_one_provider(&self, model: &str, provider: &str) -> Result<(), String> {
        // Ollama ids have a tag after the colon, so any prefix may be a model name. The mock imitates every provider.
        let takes_all = matches!(self.dialect(provider), Dialect::Ollama | Dialect::Mock);
        if takes_all || !self.knows(provider) || self.alias(model).is_some() || self.model(model).is_some() {
            return Ok(());
        }
        match self.split_prefix(model) {
            Some((named, _)) if named != provider => Err(format!(
                "provider `{provider}` and model `{model}` name two providers; remove one, or write `{provider}:{model}` for a model of this name" // prose-ok: diagnostic
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether a string is the name of a model family, optionally with a version: `llama3.2`, which resembles
    /// `ollama`.
    fn is_of_family(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let parts = self.file.family_rules.iter().filter_map(|rule| rule.contains.as_deref());
        parts
            .filter_map(|part| word.strip_prefix(part))
            .any(|version| !version.contains(|c: char| c.is_alphabetic()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;
    use crate::embedder::StdEmbedder;
    use harn_value::json;

    fn config() -> Config {
        let toml = "[providers.claudish]\nbase_url = \"http://c\"\n[providers.acme]\nbase_url = \"http://a\"\n[providers.qwen]\nbase_url = \"http://q\"";
        let layer = Layer { origin: "t".into(), toml: toml.into() };
        Config::load(&[layer], &StdEmbedder::with_env([("", "")]))
    }

    #[test]
    fn a_slip_in_front_of_a_model_is_told() {
        let config = config();
        let told = |id: &str| config.check_model_name(id).err().map(|e| e.0).unwrap_or_default();
        for (id, near) in [
            ("claudsh:good", "claudish:good"),
            ("acmee:good", "acme:good"),
            ("opnai:gpt-4o", "openai:gpt-4o"),
            ("olama:qwen3:30b", "ollama:qwen3:30b"),
            ("grok:llama", "groq:llama"),
        ] {
            let error = told(id);
            assert!(error.contains(&format!(" (did you mean `{near}`?)")), "{error}");
        }
        assert_eq!(told("openai:"), "llm_call: model is missing after `openai:`");
        for id in [
            "llama3.2:8b",
            "llama3:8b",
            "llama:7b",
            "qwen3:30b",
            "gemma2:2b",
            "mistral:7b",
            "phi4:latest",
            "deepseek-r1:8b",
            "gpt-oss:20b",
            "codellama:7b",
            "deepseek:7b",
            "openai:gpt-4o",
            "claudish:x",
            "hf:x/y",
            "nomic-embed-text:v1.5",
            "anthropic.claude-3-haiku-20240307-v1:0",
            "meta.llama3-70b-instruct-v1:0",
            "smollm2:135m",
            "qwq:32b",
        ] {
            assert_eq!(told(id), "", "{id}");
        }
    }

    #[test]
    fn fallbacks_name_providers() {
        let config = config();
        let check = |entries: &[&str]| {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            config.check_fallbacks(&entries).err().map(|e| e.0).unwrap_or_default()
        };
        assert_eq!(check(&["openai", "ollama:llama3.2:8b", "hf:x/y", "mid", "acme:m"]), "");
        assert!(check(&["openai", "opnai"]).starts_with(
            "fallback_chain[1]: unknown provider `opnai` (did you mean `openai`?); known providers: "
        ));
        assert!(check(&["claudsh:good"]).contains("unknown provider `claudsh` (did you mean `claudish`?)"));
        assert!(check(&["gpt-4o"]).contains("unknown provider `gpt-4o`; known providers: "));
        assert_eq!(check(&["openai:"]), "fallback_chain[0]: model is missing after `openai:`");
    }

    #[test]
    fn an_unknown_provider_says_who_named_it() {
        let error = |config: &Config, options, env: &[(&str, &str)]| {
            let embedder = StdEmbedder::with_env(env.iter().copied());
            config.choose(&CallOptions::from_json(&options).unwrap(), &embedder).unwrap_err().0
        };
        let config = Config::builtin();
        let told = "unknown provider `antropic` (did you mean `anthropic`?); known providers: anthropic, ";
        assert!(
            error(&config, json!({"provider": "antropic"}), &[]).starts_with(&format!("llm_call: {told}"))
        );
        assert!(
            error(&config, json!({}), &[("HARN_LLM_PROVIDER", "antropic")])
                .starts_with(&format!("llm_call: HARN_LLM_PROVIDER: {told}"))
        );
        let layer = Layer { origin: "t".into(), toml: "default_provider = \"antropic\"".into() };
        let config = Config::load(&[layer], &StdEmbedder::with_env([("", "")]));
        for env in [&[][..], &[("OLLAMA_HOST", "x")]] {
            let error = error(&config, json!({}), env);
            assert!(error.starts_with(&format!("llm_call: default_provider: {told}")), "{error}");
        }
    }
}
