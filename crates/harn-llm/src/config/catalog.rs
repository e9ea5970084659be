//! The configuration as programs see it: catalogue dicts, introspection, tool formats.

use harn_value::{Data as Value, json};

use super::{Config, Model, Provider, env};
use crate::capabilities::CapabilityMatrix;
use crate::embedder::Embedder;
use crate::json::Object;

fn put<T: Into<Value>>(out: &mut Object, key: &str, value: Option<T>) {
    if let Some(value) = value {
        out.insert(key.to_string(), value.into());
    }
}

/// Returns headers with the values of credentials replaced by `***`.
fn shown_headers(headers: &std::collections::BTreeMap<String, String>) -> Value {
    let shown = |(name, value): (&String, &String)| {
        let value = if crate::secret::is_secret_header(name) { "***" } else { value };
        (name.clone(), Value::from(value))
    };
    Value::Object(headers.iter().map(shown).collect())
}

impl Provider {
    /// Returns the dict of `llm_config`.
    pub fn to_json(&self, embedder: &dyn Embedder) -> Value {
        let mut out = Object::new();
        out.insert("base_url".into(), crate::secret::redact_url(&self.base_url(embedder)).into());
        out.insert("auth_style".into(), self.auth_style().into());
        out.insert("auth_envs".into(), self.auth_envs().into());
        out.insert("auth_available".into(), self.is_available(embedder).into());
        out.insert("chat_endpoint".into(), self.chat_endpoint().into());
        put(&mut out, "base_url_env", self.base_url_env.clone());
        put(&mut out, "completion_endpoint", self.completion_endpoint.clone());
        put(&mut out, "auth_header", self.auth_header.clone());
        put(&mut out, "extra_headers", self.extra_headers.as_ref().map(shown_headers));
        put(&mut out, "features", self.features.clone());
        put(&mut out, "rpm", self.rpm);
        put(&mut out, "latency_p50_ms", self.latency_p50_ms);
        put(&mut out, "display_name", self.display_name.clone());
        put(&mut out, "icon", self.icon.clone());
        Value::Object(out)
    }
}

impl Model {
    fn to_json(&self, id: &str, pricing: Option<super::Pricing>) -> Value {
        let pricing = pricing.map(super::Pricing::to_json);
        json!({"id": id, "name": self.name, "provider": self.provider, "context_window": self.context_window,
               "stream_timeout": self.stream_timeout, "capabilities": self.capabilities, "pricing": pricing})
    }
}

impl Config {
    /// Returns the sorted names of all known providers.
    pub fn provider_names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<String> =
            self.file.providers.keys().chain(&self.registered).cloned().collect();
        names.into_iter().collect()
    }

    /// Returns a provider's prices per 1,000 tokens, (input, output): the configured ones, or those of its default
    /// model.
    pub fn cost_per_1k(&self, name: &str) -> Option<(f64, f64)> {
        let table = self.provider(name)?;
        let model = table.default_model.as_deref().unwrap_or_default();
        let pricing = crate::cost::call_pricing(self, name, model)?;
        // Rounds away floating-point noise: 0.0025 must not become 0.0025000000000000001.
        let of = |per_mtok: f64| (per_mtok * 1e6).round() / 1e9;
        Some((of(pricing.input_per_mtok), of(pricing.output_per_mtok)))
    }

    fn provider_json(&self, name: &str, table: &Provider, embedder: &dyn Embedder) -> Value {
        let mut out = table.to_json(embedder);
        if let Some((input, output)) = self.cost_per_1k(name) {
            (out["cost_per_1k_in"], out["cost_per_1k_out"]) = (input.into(), output.into());
        }
        out
    }

    /// Returns the sorted names of the providers that need no key or whose key is set.
    pub fn available_providers(&self, embedder: &dyn Embedder) -> Vec<String> {
        self.file
            .providers
            .iter()
            .filter(|(_, p)| p.is_available(embedder))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns the sorted alias names.
    pub fn alias_names(&self) -> Vec<String> {
        self.file.aliases.keys().cloned().collect()
    }

    /// Returns all aliases as (name, model id, provider).
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &super::Alias)> {
        self.file.aliases.iter().map(|(name, alias)| (name.as_str(), alias))
    }

    /// Returns the requests per minute set in the configuration.
    pub fn rpm(&self, provider: &str) -> Option<i64> {
        self.provider(provider).and_then(|p| p.rpm)
    }

    /// Returns the model used for cheap checks at a provider.
    pub fn qc_default(&self, provider: &str) -> Option<&str> {
        self.file.qc_defaults.get(provider).map(String::as_str)
    }

    /// Resolves a selector to (id, provider, alias name).
    pub fn resolve(&self, selector: &str, embedder: &dyn Embedder) -> (String, String, Option<String>) {
        match self.alias(selector) {
            Some(alias) => (alias.id.clone(), alias.provider.clone(), Some(selector.to_string())),
            None => {
                (self.strip_prefix(selector).to_string(), self.infer_or_default(selector, embedder), None)
            }
        }
    }

    /// Returns the preferred tool format of a route (or an alias): `native` or `text`.
    pub fn tool_format(&self, selector: &str, id: &str, provider: &str, caps: &CapabilityMatrix) -> String {
        let by_name = self.alias(selector).and_then(|a| a.tool_format.clone());
        let by_target = || {
            let same = |a: &&super::Alias| a.id == id && a.provider == provider;
            self.file.aliases.values().filter(same).find_map(|a| a.tool_format.clone())
        };
        let by_rule = || {
            let rule = caps.lookup(provider, id);
            rule.preferred_tool_format.clone().or_else(|| rule.native_tools.then(|| "native".to_string()))
        };
        let by_feature = || {
            let features = self.provider(provider).and_then(|p| p.features.as_ref())?;
            features.iter().any(|f| f == "native_tools").then(|| "native".to_string())
        };
        by_name.or_else(by_target).or_else(by_rule).or_else(by_feature).unwrap_or_else(|| "text".into())
    }

    /// Returns the dict of `llm_resolve_model`.
    pub fn resolve_model_json(
        &self,
        selector: &str,
        caps: &CapabilityMatrix,
        embedder: &dyn Embedder,
    ) -> Value {
        let (id, provider, alias) = self.resolve(selector, embedder);
        let format = self.tool_format(selector, &id, &provider, caps);
        let tier = self.tier_of(&id);
        json!({"id": id, "provider": provider, "alias": alias, "tool_format": format, "tier": tier})
    }

    /// Returns the dict of `llm_model_info`.
    pub fn model_info_json(&self, selector: &str, caps: &CapabilityMatrix, embedder: &dyn Embedder) -> Value {
        let mut out = self.resolve_model_json(selector, caps, embedder);
        let (id, provider, _) = self.resolve(selector, embedder);
        out["capabilities"] = caps.lookup(&provider, &id).to_json(&provider, &id);
        out["catalog"] = self
            .model(&id)
            .map_or(Value::Null, |m| m.to_json(&id, crate::cost::call_pricing(self, &provider, &id)));
        out["qc_default_model"] = self.qc_default(&provider).map_or(Value::Null, Into::into);
        out["auth_available"] = self.is_available(&provider, embedder).into();
        out
    }

    /// Returns the dict of `llm_pick_model`: the alias or tier named `target` if there is one, else an inferred route.
    pub fn pick_model_json(&self, target: &str, provider: Option<&str>, embedder: &dyn Embedder) -> Value {
        let named = provider.and_then(|p| {
            [format!("{p}/{target}"), format!("{p}:{target}")]
                .iter()
                .find_map(|name| self.alias(name).cloned())
        });
        let alias = named.or_else(|| {
            [target.to_string(), format!("tier/{target}")].iter().find_map(|name| self.alias(name).cloned())
        });
        let (id, found) = match alias {
            Some(alias) => (alias.id, alias.provider),
            None => {
                let (id, inferred, _) = self.resolve(target, embedder);
                (id, provider.map_or(inferred, str::to_string))
            }
        };
        let tier = self.tier_of(&id);
        json!({"id": id, "provider": found, "tier": tier})
    }

    /// Returns the dict of `llm_provider_catalog`.
    pub fn catalog_json(&self, embedder: &dyn Embedder) -> Value {
        let providers: Vec<Value> = self
            .file
            .providers
            .iter()
            .map(|(name, provider)| {
                let mut dict = self.provider_json(name, provider, embedder);
                dict["name"] = name.as_str().into();
                dict
            })
            .collect();
        let aliases: Vec<Value> = self
            .aliases()
            .map(|(name, a)| json!({"name": name, "id": a.id, "provider": a.provider, "tool_format": a.tool_format}))
            .collect();
        let models: Vec<Value> = self
            .file
            .models
            .iter()
            .map(|(id, model)| model.to_json(id, crate::cost::call_pricing(self, &model.provider, id)))
            .collect();
        json!({"providers": providers, "known_model_names": self.alias_names(),
               "available_providers": self.available_providers(embedder), "aliases": aliases, "models": models,
               "qc_defaults": self.file.qc_defaults})
    }

    /// Returns the dict of `llm_config`: of one provider (null if unknown) or of all.
    pub fn config_json(&self, provider: Option<&str>, embedder: &dyn Embedder) -> Value {
        match provider {
            Some(name) => self.provider(name).map_or(Value::Null, |p| self.provider_json(name, p, embedder)),
            None => {
                let all = self
                    .file
                    .providers
                    .iter()
                    .map(|(name, p)| (name.clone(), self.provider_json(name, p, embedder)));
                Value::Object(all.collect())
            }
        }
    }

    /// Returns the dict of `llm_info`: the route of a call without options, from environment and defaults.
    pub fn info_json(&self, embedder: &dyn Embedder) -> Value {
        let empty = crate::options::CallOptions::from_json(&Value::Null);
        let choice = empty.ok().and_then(|o| self.choose(&o, embedder).ok());
        let provider = env(embedder, "HARN_LLM_PROVIDER")
            .or_else(|| choice.as_ref().map(|c| c.provider.clone()))
            .unwrap_or_else(|| self.default_provider(embedder));
        let model = env(embedder, "HARN_LLM_MODEL").unwrap_or_default();
        let key_set = self.is_available(&provider, embedder);
        json!({"provider": provider, "model": model, "api_key_set": key_set})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;

    fn embedder() -> StdEmbedder {
        StdEmbedder::with_env([("X", "")])
    }

    #[test]
    fn selectors_resolve() {
        let (config, caps) = (Config::builtin(), CapabilityMatrix::shipped());
        assert_eq!(
            config.resolve_model_json("local:gemma-4-e4b-it", &caps, &embedder()),
            json!({"id": "gemma-4-e4b-it", "provider": "local", "alias": null, "tool_format": "native", "tier": "small"})
        );
        assert_eq!(config.pick_model_json("frontier", None, &embedder())["provider"], "anthropic");
    }

    #[test]
    fn local_servers_are_always_available() {
        let names = Config::builtin().available_providers(&embedder());
        assert!(names.contains(&"ollama".to_string()) && names.contains(&"local".to_string()));
        assert!(!names.contains(&"openai".to_string()));
    }

    #[test]
    fn the_catalogue_shows_no_key() {
        let embedder = StdEmbedder::with_env([("OPENAI_API_KEY", "sk-secret")]);
        let text = Config::builtin().catalog_json(&embedder).to_string();
        assert!(text.contains("OPENAI_API_KEY") && !text.contains("sk-secret"));
        let headers = [("x-proxy-token", "sk-secret"), ("x-team", "blue")];
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_string())).into();
        assert_eq!(shown_headers(&headers), json!({"x-proxy-token": "***", "x-team": "blue"}));
    }
}
