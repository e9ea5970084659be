//! Lists of providers and models for the command line. Keys are only reported as set or not set.

use std::collections::BTreeMap;

use harn_llm::config::{Config, Provider};
use harn_llm::models::Match;
use harn_llm::options::CallOptions;
use harn_llm::{Embedder, LlmRuntime};
use harn_value::{Data as Json, json};

/// Returns all providers, sorted by name: `{name, display_name, key, key_envs, default_model, served_model, base_url,
/// api, features, rpm, cost_per_1k_in, cost_per_1k_out, latency_p50_ms, is_default}`.
///
/// `key` is `set`, `not set` or `not needed`; `default_model` is null when calls must name a model.
pub fn list_providers(runtime: &LlmRuntime) -> Vec<Json> {
    let (config, embedder) = (runtime.config(), runtime.embedder());
    let default = config.provider_without_options(embedder);
    let row = |name: String| {
        let table = config.provider(&name).cloned().unwrap_or_default();
        let (model, cost) = (default_model(&table, embedder), config.cost_per_1k(&name));
        // A retired shipped default is replaced by its successor.
        let served = model.as_ref().map(|model| match config.is_shipped_default(model) {
            true => config.served(&name, model, embedder),
            false => model.clone(),
        });
        json!({
            "name": name, "display_name": table.display_name, "key": key_word(&table, embedder),
            "key_envs": table.auth_envs(), "default_model": model, "served_model": served,
            "base_url": harn_llm::secret::redact_url(&table.base_url(embedder)), "base_url_env": table.base_url_env, "api": table.chat_endpoint(),
            "features": table.features.clone().unwrap_or_default(), "rpm": table.rpm,
            "cost_per_1k_in": cost.map(|(input, _)| input), "cost_per_1k_out": cost.map(|(_, output)| output),
            "latency_p50_ms": table.latency_p50_ms, "is_default": name == default,
        })
    };
    config.provider_names().into_iter().map(row).collect()
}

/// Returns the models that have an alias or a catalogue entry, sorted by provider and id: `{id, provider, name,
/// aliases, tier, tool_format, context_window, input_per_mtok, output_per_mtok, key}`; prices are in USD per
/// million tokens, null when unknown.
pub fn list_models(runtime: &LlmRuntime) -> Vec<Json> {
    let (config, embedder) = (runtime.config(), runtime.embedder());
    let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (name, alias) in config.aliases() {
        found.entry((alias.provider.clone(), alias.id.clone())).or_default().push(name.to_owned());
    }
    let catalogue = config.catalog_json(embedder);
    for model in catalogue["models"].as_array().into_iter().flatten() {
        let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
        found.entry((text("provider"), text("id"))).or_default();
    }
    let row = |((provider, id), aliases): ((String, String), Vec<String>)| {
        let entry = config.model(&id).filter(|model| model.provider == provider);
        let pricing = harn_llm::cost::call_pricing(&config, &provider, &id);
        let known = config.catalog().find(&provider, &id).filter(|known| known.found != Match::Family);
        json!({
            "id": id, "provider": provider, "name": entry.map(|model| model.name.clone()), "aliases": aliases,
            "tier": config.tier_of(&id),
            "tool_format": config.tool_format(&id, &id, &provider, &runtime.capabilities()),
            "context_window": entry.map(|model| model.context_window).filter(|n| *n > 0)
                .or_else(|| known.as_ref().and_then(|known| known.context)),
            "input_per_mtok": pricing.map(|p| p.input_per_mtok),
            "output_per_mtok": pricing.map(|p| p.output_per_mtok), "key": key_of(&config, &provider, embedder),
        })
    };
    found.into_iter().map(row).collect()
}

/// Returns the capabilities of every model of [`list_models`], each as the dict of `provider_capabilities`.
pub fn provider_matrix(runtime: &LlmRuntime) -> Vec<Json> {
    let text = |model: &Json, key: &str| model[key].as_str().unwrap_or_default().to_owned();
    let models = list_models(runtime).into_iter();
    models.map(|model| runtime.capabilities_json(&text(&model, "provider"), &text(&model, "id"))).collect()
}

/// Returns a description of the model for an alias or id: `{alias, id, provider, resolved_alias, tool_format, tier,
/// api_key_set, key, context_window, catalog, capabilities, qc_default_model}`.
pub fn describe_model(runtime: &LlmRuntime, selector: &str) -> Json {
    let (config, embedder) = (runtime.config(), runtime.embedder());
    let info = config.model_info_json(selector, &runtime.capabilities(), embedder);
    let provider = info["provider"].as_str().unwrap_or_default();
    // 0 represents an unknown context window.
    let window = info["catalog"]["context_window"].as_i64().filter(|tokens| *tokens > 0);
    json!({
        "alias": selector, "id": info["id"], "provider": provider, "resolved_alias": info["alias"],
        "tool_format": info["tool_format"], "tier": info["tier"], "api_key_set": info["auth_available"],
        "key": key_of(&config, provider, embedder), "context_window": window,
        "catalog": info["catalog"], "capabilities": info["capabilities"],
        "qc_default_model": info["qc_default_model"],
    })
}

/// Returns the provider of a call that names only this model.
pub fn provider_of_model(runtime: &LlmRuntime, model: &str) -> String {
    runtime.config().provider_of_call(&json!({"model": model}), runtime.embedder())
}

/// Returns whether the name of a model determines its provider: the model is listed, is an alias, or matches the naming
/// pattern of a provider.
pub fn tells_provider(runtime: &LlmRuntime, model: &Json) -> bool {
    let listed = !model["catalog"].is_null() || !model["resolved_alias"].is_null();
    listed || model["id"].as_str().is_some_and(|id| runtime.config().infer_provider(id).is_some())
}

/// Returns the catalogue (`llm_provider_catalog`); with `available_only`, only providers that can be used now, because
/// their key is set or not needed.
pub fn provider_catalog(runtime: &LlmRuntime, available_only: bool) -> Json {
    let mut catalog = runtime.config().catalog_json(runtime.embedder());
    if !available_only {
        return catalog;
    }
    let usable = catalog["available_providers"].clone();
    let usable = |name: &Json| usable.as_array().is_some_and(|names| names.contains(name));
    for (list, key) in [("providers", "name"), ("models", "provider"), ("aliases", "provider")] {
        if let Some(rows) = catalog[list].as_array_mut() {
            rows.retain(|row| usable(&row[key]));
        }
    }
    if let Some(defaults) = catalog["qc_defaults"].as_object_mut() {
        defaults.retain(|provider, _| usable(&provider.as_str().into()));
    }
    let names = catalog["aliases"].as_array().into_iter().flatten().map(|alias| alias["name"].clone());
    catalog["known_model_names"] = names.collect();
    catalog
}

/// Returns the route of calls with this provider and model, as `provider/model`, and the number of tools that it
/// accepts; `None` without a limit or a valid route.
pub fn max_tools(runtime: &LlmRuntime, provider: Option<&str>, model: Option<&str>) -> Option<(String, u64)> {
    let options = CallOptions::from_json(&json!({"provider": provider, "model": model})).ok()?;
    let route = runtime.config().choose(&options, runtime.embedder()).ok()?;
    let most = runtime.capabilities().lookup(&route.provider, &route.model).max_tools?;
    Some((format!("{}/{}", route.provider, route.model), u64::try_from(most).ok()?))
}

/// Checks a provider as `llm_healthcheck` does, and blocks until it completes.
pub fn check_provider(runtime: &LlmRuntime, provider: &str, options: &Json) -> Json {
    let check = harn_vm::block_on(runtime.healthcheck(provider, options));
    check.unwrap_or_else(|error| json!({"valid": false, "message": format!("cannot start: {error}")}))
}

fn key_of(config: &Config, provider: &str, embedder: &dyn Embedder) -> &'static str {
    config.provider(provider).map_or("not needed", |table| key_word(table, embedder))
}

fn key_word(table: &Provider, embedder: &dyn Embedder) -> &'static str {
    let is_set = |name: &str| harn_llm::config::env(embedder, name).is_some();
    let envs = table.auth_envs();
    let set = match table.auth_style() {
        "none" => return "not needed",
        "aws_sigv4" => {
            let file = harn_llm::config::env(embedder, "HOME").map(|home| format!("{home}/.aws/credentials"));
            is_set("AWS_ACCESS_KEY_ID")
                || file.is_some_and(|file| embedder.system().facts(file.as_ref()).is_ok())
        }
        _ if envs.is_empty() => return "not needed",
        _ => envs.into_iter().any(is_set),
    };
    if set { "set" } else { "not set" }
}

fn default_model(table: &Provider, embedder: &dyn Embedder) -> Option<String> {
    let names = table.default_model_env.iter().flatten();
    let from_env = names.filter_map(|name| harn_llm::config::env(embedder, name)).next();
    from_env.or_else(|| table.default_model.clone())
}
