//! Selects the provider, model and key of a call, and explains which of them is missing.

use harn_value::json;

use super::{Config, Dialect, env};
use crate::embedder::Embedder;
use crate::error::OptionError;
use crate::models::Days;
use crate::options::CallOptions;
use crate::secret::Secret;

/// The provider and model selected for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The provider.
    pub provider: String,
    /// The model id as it is sent.
    pub model: String,
    /// Whether the model is the provider's default.
    pub model_is_default: bool,
    /// Warnings for the user, each printed once.
    pub warnings: Vec<String>,
    /// A notice that the model replaces a retired default, for calls that reach a provider.
    pub retired: Option<String>,
}

/// The API key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The environment variable that contained it.
    pub env: String,
    /// The key.
    pub secret: Secret,
}

impl Config {
    /// Selects provider and model of a call.
    ///
    /// # Errors
    /// The provider needs an explicit model and the call names none.
    pub fn choose(&self, options: &CallOptions, embedder: &dyn Embedder) -> Result<Choice, OptionError> {
        self.check_tier_of(options)?;
        if let Some(model) = options.model.as_deref().filter(|_| options.provider.is_none()) {
            self.check_model_name(model)?;
        }
        if let (Some(model), Some(provider)) = (&options.model, &options.provider) {
            let one = self.check_one_provider(model, provider);
            one.map_err(|wrong| OptionError::new(format!("llm_call: {wrong}")))?;
        }
        let mut warnings = Vec::new();
        let provider = self.choose_provider(options, embedder, &mut warnings)?;
        // A full route of provider and model may be queried for any provider; an unknown one is rejected when it is
        // called.
        let is_whole = options.provider.is_some() && options.model.is_some();
        if !is_whole && !self.knows(&provider) {
            return Err(self.unknown_choice(&provider, options, embedder));
        }
        let (model, model_is_default) = self.choose_model(options, &provider, embedder, &mut warnings)?;
        let named = options.model.as_deref();
        let (model, retired) = self.replace_retired(named, &provider, model, embedder);
        Ok(Choice { provider, model, model_is_default, warnings, retired })
    }

    /// Returns whether the call names no tier or a known one.
    pub(crate) fn tier_is_known(&self, options: &CallOptions) -> bool {
        self.check_tier_of(options).is_ok()
    }

    fn check_tier_of(&self, options: &CallOptions) -> Result<(), OptionError> {
        match options.model_tier.as_deref().filter(|_| options.model.is_none()) {
            Some(tier) => self.check_tier(tier),
            None => Ok(()),
        }
    }

    fn provider_of_selector(
        &self,
        selector: &str,
        embedder: &dyn Embedder,
        warnings: &mut Vec<String>,
    ) -> Result<String, OptionError> {
        if let Some(alias) = self.alias(selector) {
            return Ok(alias.provider.clone());
        }
        self.check_model_name(selector)?;
        Ok(self.infer_provider(selector).unwrap_or_else(|| {
            let fallback = self.default_provider(embedder);
            warnings.push(format!(
                "could not infer provider from model id '{selector}'; falling back to default provider '{fallback}'"
            ));
            fallback
        }))
    }

    /// Returns the provider set by the environment.
    fn env_provider(&self, embedder: &dyn Embedder) -> Option<String> {
        ["HARN_LLM_PROVIDER", "LLM_PROVIDER"]
            .iter()
            .find_map(|name| env(embedder, name).filter(|p| !p.eq_ignore_ascii_case("auto")))
    }

    /// Returns the provider of a call without options.
    pub fn provider_without_options(&self, embedder: &dyn Embedder) -> String {
        self.provider_of_call(&json!({}), embedder)
    }

    /// Returns the provider of a call with these options. For invalid options, returns the default provider.
    pub fn provider_of_call(&self, options: &harn_value::Data, embedder: &dyn Embedder) -> String {
        let chosen = CallOptions::from_json(options)
            .and_then(|options| self.choose_provider(&options, embedder, &mut Vec::new()));
        chosen.unwrap_or_else(|_| self.default_provider(embedder))
    }

    fn choose_provider(
        &self,
        options: &CallOptions,
        embedder: &dyn Embedder,
        warnings: &mut Vec<String>,
    ) -> Result<String, OptionError> {
        if let Some(provider) = &options.provider {
            return Ok(provider.clone());
        }
        if let Some(model) = options.model.as_deref() {
            let names_it = self.alias(model).is_none() && self.split_prefix(model).is_some();
            if options.provider_auto || names_it {
                return self.provider_of_selector(model, embedder, warnings);
            }
        }
        if let Some(provider) = self.env_provider(embedder) {
            return Ok(provider);
        }
        let env_model = env(embedder, "HARN_LLM_MODEL");
        // A local server receives models whose names do not identify a provider.
        let local = Self::addressed_by("LOCAL_LLM_BASE_URL", embedder);
        let local_of = |model: &str| local.clone().filter(|_| !self.names_provider(model));
        if let Some(model) = &options.model {
            return match local_of(model) {
                Some(local) => Ok(local),
                None => self.provider_of_selector(model, embedder, warnings),
            };
        }
        if let Some(choice) =
            options.model_tier.as_deref().and_then(|tier| self.resolve_tier(tier, None, embedder))
        {
            warnings.extend(choice.warning);
            return Ok(choice.provider);
        }
        if let Some(model) = env_model {
            return match local_of(&model) {
                Some(local) => Ok(local),
                None => self.provider_of_selector(&model, embedder, warnings),
            };
        }
        if let Some(local) = local.clone().filter(|_| env(embedder, "LOCAL_LLM_MODEL").is_some()) {
            return Ok(local);
        }
        let default = self.default_provider(embedder);
        // An unknown default provider is reported and never replaced.
        if self.is_available(&default, embedder) || !self.knows(&default) {
            return Ok(default);
        }
        Ok(Self::addressed_by("OLLAMA_HOST", embedder).or(local).unwrap_or(default))
    }

    fn choose_model(
        &self,
        options: &CallOptions,
        provider: &str,
        embedder: &dyn Embedder,
        warnings: &mut Vec<String>,
    ) -> Result<(String, bool), OptionError> {
        let resolve = |selector: &str| match self.alias(selector) {
            Some(alias) => alias.id.clone(),
            None => self.strip_prefix_of(selector, provider).to_string(),
        };
        if let Some(model) = &options.model {
            return Ok((resolve(model), false));
        }
        if let Some(tier) = &options.model_tier {
            match options.provider.as_deref() {
                // The mock imitates every provider, so the available keys do not affect which model it imitates.
                _ if self.dialect(provider) == Dialect::Mock => {
                    if let Some(alias) = self.tier_alias(tier, None) {
                        return Ok((alias.id.clone(), false));
                    }
                }
                Some(p) => {
                    if let Some(model) = self.tier_within(tier, p) {
                        return Ok((model, false));
                    }
                    let (model, is_default) = self.default_model(p, embedder)?;
                    warnings.push(format!(
                        "provider \"{p}\" has no model in tier \"{tier}\"; using its default model \"{model}\""
                    ));
                    return Ok((model, is_default));
                }
                None => {
                    if let Some(choice) = self.resolve_tier(tier, Some(provider), embedder) {
                        // The environment may have fixed a provider that the tier would leave.
                        if choice.provider == provider {
                            warnings.extend(choice.warning);
                            return Ok((choice.model, false));
                        }
                        if let Some(model) = self.tier_within(tier, provider) {
                            return Ok((model, false));
                        }
                    }
                }
            }
        }
        if let Some(selector) = env(embedder, "HARN_LLM_MODEL") {
            let of_alias = self.alias(&selector).is_some_and(|a| a.provider == provider);
            let inferred = self.env_provider(embedder).is_none()
                && options.provider.is_none()
                && self.alias(&selector).is_none()
                && self.infer_or_default(&selector, embedder) == provider;
            if of_alias || inferred || self.env_provider(embedder).as_deref() == Some(provider) {
                let one = self.check_one_provider(&selector, provider);
                one.map_err(|wrong| OptionError::new(format!("llm_call: HARN_LLM_MODEL: {wrong}")))?;
                return Ok((resolve(&selector), false));
            }
        }
        self.default_model(provider, embedder)
    }

    /// Replaces a retired shipped default with its successor and returns a notice. Models that the program or the
    /// environment names are not replaced.
    pub(super) fn replace_retired(
        &self,
        named: Option<&str>,
        provider: &str,
        model: String,
        embedder: &dyn Embedder,
    ) -> (String, Option<String>) {
        // The environment comes last because reading it costs time in every call.
        if self.dialect(provider) == Dialect::Mock
            || !self.is_shipped_default(&model)
            || named.is_some_and(|name| self.alias(name).is_none())
            || env(embedder, "HARN_LLM_MODEL").is_some_and(|name| name.ends_with(&model))
        {
            return (model, None);
        }
        let served = self.served(provider, &model, embedder);
        let notice = (served != model).then(|| {
            format!(
                "default model `{model}` of provider `{provider}` is retired, using its successor `{served}`; name a model to choose one" // prose-ok: diagnostic
            )
        });
        (served, notice)
    }

    /// Returns the model that serves a default: the default itself, or its successor once it is retired.
    pub fn served(&self, provider: &str, model: &str, embedder: &dyn Embedder) -> String {
        let mut model = model.to_owned();
        if self.dialect(provider) == Dialect::Mock {
            return model;
        }
        let today = Days::of_ms(embedder.now_ms()).to_string();
        // A successor may itself have a successor.
        for _ in 0..4 {
            let found = self.catalog().find(provider, &model).filter(|entry| entry.is_retired_on(&today));
            match found.and_then(|entry| entry.successor.clone()) {
                Some(successor) => model = successor,
                None => break,
            }
        }
        model
    }

    /// Returns a provider's default model. The flag is false when the environment named it.
    fn default_model(&self, provider: &str, embedder: &dyn Embedder) -> Result<(String, bool), OptionError> {
        let table = self.provider(provider);
        let envs = table.and_then(|p| p.default_model_env.as_deref()).unwrap_or_default();
        if let Some(model) = envs.iter().find_map(|name| env(embedder, name)) {
            let id = self
                .alias(&model)
                .map_or_else(|| self.strip_prefix_of(&model, provider).to_string(), |a| a.id.clone());
            return Ok((id, false));
        }
        match table.and_then(|p| p.default_model.clone()) {
            Some(model) => Ok((model, true)),
            None => {
                let is_selected = self.env_provider(embedder).as_deref() == Some(provider);
                let variable = envs.first().map(String::as_str).or(is_selected.then_some("HARN_LLM_MODEL"));
                let or_set = variable.map_or_else(String::new, |name| format!(" or set {name}"));
                Err(OptionError::new(format!(
                    "llm_call: provider \"{provider}\" requires an explicit model: pass `model`{or_set}"
                )))
            }
        }
    }

    /// Returns the key of a provider; `None` when it needs none.
    ///
    /// # Errors
    /// A key is needed and none of its environment variables is set.
    pub fn key(&self, provider: &str, embedder: &dyn Embedder) -> Result<Option<Key>, OptionError> {
        let Some(table) = self.provider(provider) else {
            return Ok(None);
        };
        let envs = table.auth_envs();
        let keyless = matches!(table.dialect(), Dialect::Mock | Dialect::Bedrock);
        if table.auth_style() == "none" || envs.is_empty() || keyless {
            return Ok(None);
        }
        let found = envs.iter().find_map(|name| {
            env(embedder, name).map(|value| Key { env: (*name).to_string(), secret: Secret::new(value) })
        });
        if found.is_some() || table.dialect() == Dialect::Vertex {
            return Ok(found);
        }
        let misspelt = envs.iter().find_map(|name| {
            let meant = name.strip_suffix("_API_KEY")?;
            let wrong = [format!("{meant}_KEY"), format!("{meant}_APIKEY"), format!("{meant}_TOKEN")];
            let wrong = wrong.into_iter().find(|wrong| env(embedder, wrong).is_some())?;
            Some(format!(". {wrong} has no effect: did you mean {name}?")) // prose-ok: diagnostic
        });
        let wanted = match envs.as_slice() {
            [one] => format!("set {one} environment variable"),
            many => format!("set one of {} environment variables", many.join(", ")),
        };
        Err(OptionError::new(format!(
            "Missing API key: {wanted} (provider `{provider}`, config {}; use HARN_LLM_PROVIDER=mock to run without a provider){}",
            self.origin(),
            misspelt.unwrap_or_else(|| self.other_keys(provider, embedder))
        )))
    }

    /// Returns a hint about local servers, for a call to a provider whose key is missing.
    fn local_servers(&self, provider: &str, embedder: &dyn Embedder) -> String {
        let address = self.provider(provider).map(|table| table.base_url(embedder)).unwrap_or_default();
        if ["://localhost", "://127.", "://[::1]"].iter().any(|host| address.contains(host)) {
            return String::new();
        }
        match (Self::addressed_by("LOCAL_LLM_BASE_URL", embedder), env(embedder, "LOCAL_LLM_MODEL")) {
            (Some(local), _) => format!(
                ". LOCAL_LLM_BASE_URL is set, but this call selects `{provider}`: for the local server, use `provider: \"{local}\"` or HARN_LLM_PROVIDER={local}" // prose-ok: diagnostic
            ),
            (None, Some(_)) => {
                ". LOCAL_LLM_MODEL is set, but LOCAL_LLM_BASE_URL is not: set it to use the local server"
                    .to_owned() // prose-ok: diagnostic
            }
            (None, None) => {
                ". No configured provider has a key; for a local server, set LOCAL_LLM_BASE_URL and LOCAL_LLM_MODEL".to_owned() // prose-ok: diagnostic
            }
        }
    }

    /// Returns a hint about the providers that have a key, for a call to a provider without one.
    fn other_keys(&self, provider: &str, embedder: &dyn Embedder) -> String {
        let has_key = |name: &String| {
            let table = self.provider(name);
            let envs = table.map(|table| table.auth_envs()).unwrap_or_default();
            envs.iter().any(|name| env(embedder, name).is_some())
        };
        let names: Vec<String> = self.provider_names().into_iter().filter(has_key).collect();
        match names.as_slice() {
            [] => self.local_servers(provider, embedder),
            [one] => format!(
                ". There is a key for `{one}`: choose it with HARN_LLM_PROVIDER={one}, the option `provider: \"{one}\"` or a model \"{one}:MODEL\"" // prose-ok: diagnostic
            ),
            [first, ..] => format!(
                ". There are keys for {}: choose one with, for example, HARN_LLM_PROVIDER={first}, the option `provider: \"{first}\"` or a model \"{first}:MODEL\"", // prose-ok: diagnostic
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;
    use harn_value::{Data as Value, json};

    fn choose(options: Value, env: &[(&str, &str)]) -> Result<(String, String), String> {
        let embedder = StdEmbedder::with_env(env.iter().copied());
        let options = CallOptions::from_json(&options).unwrap();
        Config::builtin().choose(&options, &embedder).map(|c| (c.provider, c.model)).map_err(|e| e.0)
    }

    fn pair(p: &str, m: &str) -> Result<(String, String), String> {
        Ok((p.to_string(), m.to_string()))
    }

    /// An embedder with a fixed clock.
    struct At(i64, StdEmbedder);

    impl Embedder for At {
        fn system(&self) -> std::rc::Rc<dyn harn_system::System> {
            self.1.system()
        }
        fn now_ms(&self) -> i64 {
            self.0
        }
        fn env(&self, name: &str) -> Option<String> {
            self.1.env(name)
        }
    }

    #[test]
    fn retired_defaults_give_way_to_their_successors() {
        let config = Config::builtin();
        let day = |text: &str| {
            At(Days::parse(text).unwrap().0 * 86_400_000, StdEmbedder::with_env([("ANTHROPIC_API_KEY", "k")]))
        };
        let choose = |options: Value, at: &At| {
            config
                .choose(&CallOptions::from_json(&options).unwrap(), at)
                .map(|c| (c.model, c.retired.iter().count()))
                .unwrap()
        };
        let (before, after) = (day("2026-06-14"), day("2026-06-15"));
        let old = "claude-sonnet-4-20250514";
        for options in [json!({}), json!({"model_tier": "frontier"}), json!({"model": "frontier"})] {
            assert_eq!(choose(options.clone(), &before), (old.into(), 0), "{options}");
            assert_eq!(choose(options.clone(), &after), ("claude-sonnet-4-6".into(), 1), "{options}");
        }
        assert_eq!(choose(json!({"model": old}), &after), (old.into(), 0), "a model that is named stays");
        assert_eq!(
            choose(json!({"provider": "openrouter"}), &after),
            ("anthropic/claude-sonnet-4.6".into(), 1)
        );
        assert_eq!(choose(json!({"provider": "mock"}), &after), (old.into(), 0));
    }

    #[test]
    fn a_local_server_is_asked_for_models_that_name_no_provider() {
        let env = [("LOCAL_LLM_BASE_URL", "http://h"), ("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
        for (options, provider) in [
            (json!({"model": "claude-opus-4-7"}), "anthropic"),
            (json!({"model": "mid"}), "openai"),
            (json!({"model_tier": "mid"}), "openai"),
            (json!({"model": "groq:m"}), "groq"),
            (json!({"model": "my-own"}), "local"),
            (json!({"model": "Qwen/Qwen3-8B"}), "local"),
            (json!({"model": "qwen3:8b"}), "local"),
        ] {
            assert_eq!(
                choose(options.clone(), &env).map(|found| found.0),
                Ok(provider.to_owned()),
                "{options}"
            );
        }
        let with_model = [&env[..], &[("LOCAL_LLM_MODEL", "q")]].concat();
        assert_eq!(choose(json!({}), &with_model), pair("local", "q"));
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let named = json!({"model": "claude-sonnet-4-20250514"});
        assert_eq!(choose(named, &[]), pair("anthropic", "claude-sonnet-4-20250514"));
        assert_eq!(choose(json!({"provider": "AUTO", "model": "gpt-5"}), &[]), pair("openai", "gpt-5"));
        assert_eq!(choose(json!({"model": "small"}), &[]), pair("openrouter", "Qwen/Qwen3.5-9B"));
        assert_eq!(
            choose(json!({}), &[("HARN_LLM_PROVIDER", "mock")]),
            pair("mock", "claude-sonnet-4-20250514")
        );
        assert_eq!(choose(json!({}), &[("OLLAMA_HOST", "x")]), pair("ollama", "llama3.2"));
        assert_eq!(
            choose(json!({}), &[("LOCAL_LLM_BASE_URL", "http://h"), ("LOCAL_LLM_MODEL", "q")]),
            pair("local", "q")
        );
        assert_eq!(choose(json!({}), &[("HARN_LLM_MODEL", "gpt-5")]), pair("openai", "gpt-5"));
        assert_eq!(
            choose(json!({"provider": "ollama", "model": "ollama:qwen3:30b"}), &[]),
            pair("ollama", "qwen3:30b")
        );
        assert_eq!(choose(json!({"model": "openai:gpt-4o"}), &[]), pair("openai", "gpt-4o"));
        assert_eq!(
            choose(json!({"model": "openai:gpt-4o"}), &[("HARN_LLM_PROVIDER", "mock")]),
            pair("openai", "gpt-4o")
        );
        assert_eq!(choose(json!({}), &[("HARN_LLM_MODEL", "groq:llama-3")]), pair("groq", "llama-3"));
        assert_eq!(
            choose(json!({"provider": "ollama", "model": "deepseek:7b"}), &[]),
            pair("ollama", "deepseek:7b")
        );
    }

    #[test]
    fn a_call_has_one_provider() {
        let told = "provider `anthropic` and model `openai:gpt-4o` name two providers; remove one, or write `anthropic:openai:gpt-4o` for a model of this name";
        assert_eq!(
            choose(json!({"provider": "anthropic", "model": "openai:gpt-4o"}), &[]),
            Err(format!("llm_call: {told}"))
        );
        let env = [("HARN_LLM_PROVIDER", "anthropic"), ("HARN_LLM_MODEL", "openai:gpt-4o")];
        assert_eq!(choose(json!({}), &env), Err(format!("llm_call: HARN_LLM_MODEL: {told}")));
        for (provider, model, id) in [
            ("anthropic", "anthropic:openai:gpt-4o", "openai:gpt-4o"),
            ("huggingface", "hf:a/b", "a/b"),
            ("openrouter", "deepseek/deepseek-r1:free", "deepseek/deepseek-r1:free"),
            ("mock", "openai:gpt-4o", "openai:gpt-4o"),
        ] {
            assert_eq!(choose(json!({"provider": provider, "model": model}), &[]), pair(provider, id));
        }
        // The call names a provider, so the variables have no effect.
        assert_eq!(choose(json!({"provider": "groq", "model": "x"}), &env), pair("groq", "x"));
    }

    /// The names that `harn models` lists: aliases, their models, and the catalogue.
    #[test]
    fn every_listed_name_leads_where_it_is_listed() {
        let config = Config::builtin();
        let behind = config
            .aliases()
            .map(|(_, alias)| (alias.id.as_str(), alias.provider.as_str(), alias.id.as_str()));
        let aliases =
            config.aliases().map(|(name, alias)| (name, alias.provider.as_str(), alias.id.as_str()));
        let models =
            config.file.models.iter().map(|(id, model)| (id.as_str(), model.provider.as_str(), id.as_str()));
        for (name, provider, id) in aliases.chain(behind).chain(models) {
            let served = match config.alias(name) {
                Some(_) => config.served(provider, id, &StdEmbedder::with_env([("", "")])),
                None => id.to_owned(),
            };
            assert_eq!(choose(json!({"model": name}), &[]), pair(provider, &served), "{name}");
            let (found_id, found, _) = config.resolve(name, &StdEmbedder::with_env([("", "")]));
            assert_eq!((found.as_str(), found_id.as_str()), (provider, id), "{name}");
        }
    }

    #[test]
    fn an_explicit_provider_keeps_its_tier() {
        assert_eq!(
            choose(json!({"provider": "ollama", "model_tier": "small"}), &[]),
            pair("ollama", "llama3.2")
        );
        assert_eq!(
            choose(json!({"provider": "mock", "model_tier": "small"}), &[]),
            pair("mock", "Qwen/Qwen3.5-9B")
        );
    }

    #[test]
    fn a_missing_model_is_an_error() {
        assert_eq!(
            choose(json!({"provider": "huggingface"}), &[]),
            Err("llm_call: provider \"huggingface\" requires an explicit model: pass `model`".to_string())
        );
    }

    #[test]
    fn a_missing_key_names_its_variables() {
        let embedder = StdEmbedder::with_env([("OPENAI_API_KEY", " sk ")]);
        let config = Config::builtin();
        assert_eq!(config.key("openai", &embedder).unwrap().unwrap().secret.reveal(), "sk");
        assert_eq!(config.key("ollama", &embedder), Ok(None));
        let error = config.key("anthropic", &embedder).unwrap_err().0;
        assert!(
            error.starts_with("Missing API key: set ANTHROPIC_API_KEY environment variable ("),
            "{error}"
        );
        assert!(error.contains("<built-in defaults>") && error.contains("HARN_LLM_PROVIDER=mock"), "{error}");
        assert!(
            error.contains("There is a key for `openai`: choose it with HARN_LLM_PROVIDER=openai"),
            "{error}"
        );
        let error = config.key("anthropic", &StdEmbedder::with_env([("X", "")])).unwrap_err().0;
        assert!(error.contains(". No configured provider has a key; for a local server, set "), "{error}");
        let error = config.key("huggingface", &embedder).unwrap_err().0;
        assert!(
            error.starts_with(
                "Missing API key: set one of HF_TOKEN, HUGGINGFACE_API_KEY environment variables ("
            ),
            "{error}"
        );
    }
}
