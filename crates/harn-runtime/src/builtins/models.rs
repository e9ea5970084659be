//! Information about providers and models, and the costs of calls.

use harn_schema::options::Options;
use harn_value::Value;
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::{Error, builtins};

use crate::convert::{entry, from_json, text, thrown};
use crate::llm_embedder::{LlmState, runtime};

/// Options of `llm_pick_model`.
#[derive(Options)]
struct PickOptions {
    /// Required provider of the model.
    provider: Option<String>,
}

builtins! {
    /// Providers and models.
    pub(crate) static MODELS: "models";

    /// Returns the capabilities of a provider and model: tools, streaming, prompt caching, thinking
    /// and others.
    ///
    /// ```harn
    /// println(provider_capabilities("anthropic", "claude-opus-4-7").native_tools) // -> true
    /// ```
    Llm fn provider_capabilities(cx, provider: Value as "text", model: Text) -> "dict" {
        let provider = text(&provider).filter(|name| !name.trim().is_empty());
        let provider = provider.ok_or_else(|| thrown("provider_capabilities: provider name is required"))?;
        from_json(&runtime(cx).capabilities_json(&provider, &model))
    }

    /// Installs capability rules from a TOML string and returns true.
    ///
    /// The rules take precedence over the shipped ones and replace rules that were installed before.
    ///
    /// ```harn
    /// provider_capabilities_install("[[provider.mine]]\nmodel_match = \"*\"\nnative_tools = true\n")
    /// println(provider_capabilities("mine", "m").native_tools) // -> true
    /// ```
    Llm fn provider_capabilities_install(cx, source: Value as "!string") -> "bool" {
        let Some(source) = source.as_str() else {
            return Err(thrown("provider_capabilities_install: TOML source string required"));
        };
        let wrong = |error| thrown(format!("provider_capabilities_install: {error}"));
        crate::evals::check_size(source).map_err(wrong)?;
        runtime(cx).install_capabilities(source).map_err(thrown)?;
        true
    }

    /// Removes the capability rules that were installed or come from `harn.toml`.
    ///
    /// ```harn
    /// provider_capabilities_clear()
    /// println(provider_capabilities("openai", "gpt-4o").native_tools) // -> true
    /// ```
    Llm fn provider_capabilities_clear(cx) -> "bool" {
        runtime(cx).clear_capabilities();
        true
    }

    /// Registers a provider name.
    ///
    /// ```harn
    /// provider_register("mine")
    /// println(llm_providers().contains("mine")) // -> true
    /// ```
    Llm fn provider_register(cx, name: Value as "!string") -> "bool" {
        match name.as_str() {
            Some(name) if !name.trim().is_empty() => runtime(cx).register_provider(name),
            _ => return Err(Error::runtime("provider_register: name is required")),
        }
        true
    }

    /// Returns the names of all providers, sorted.
    ///
    /// ```harn
    /// println(llm_providers().contains("openai")) // -> true
    /// ```
    Llm fn llm_providers(cx) -> "list<string>" {
        names(runtime(cx).config().provider_names())
    }

    /// Returns the names of the providers that are available now, sorted.
    ///
    /// ```harn
    /// println(llm_available_providers().contains("ollama")) // -> true
    /// ```
    Env fn llm_available_providers(cx) -> "list<string>" {
        let runtime = runtime(cx);
        names(runtime.config().available_providers(runtime.embedder()))
    }

    /// Returns the names of model aliases, sorted.
    ///
    /// ```harn
    /// println(type_of(llm_known_models())) // -> list
    /// ```
    Llm fn llm_known_models(cx) -> "list<string>" {
        names(runtime(cx).config().alias_names())
    }

    /// Returns the configuration of one provider, or of all providers.
    ///
    /// ```harn
    /// println(llm_config("openai").auth_envs) // -> [OPENAI_API_KEY]
    /// println(llm_config("nobody")) // -> nil
    /// ```
    Env fn llm_config(cx, provider: Value as "string?") -> "dict | nil" {
        let runtime = runtime(cx);
        let name = text(&provider);
        from_json(&runtime.config().config_json(name.as_deref(), runtime.embedder()))
    }

    /// Returns providers, aliases and models in one dict.
    ///
    /// ```harn
    /// println(llm_provider_catalog().providers.count() >= 6) // -> true
    /// ```
    Env fn llm_provider_catalog(cx) -> "dict" {
        let runtime = runtime(cx);
        from_json(&runtime.config().catalog_json(runtime.embedder()))
    }

    /// Resolves an alias or model id to `{id, provider, alias, tool_format, tier}`.
    ///
    /// ```harn
    /// println(llm_resolve_model("gpt-4o").provider) // -> openai
    /// ```
    Env fn llm_resolve_model(cx, selector: Text) -> "dict" {
        let runtime = runtime(cx);
        from_json(&runtime.config().resolve_model_json(&selector, &runtime.capabilities(), runtime.embedder()))
    }

    /// Returns the known properties of a model.
    ///
    /// ```harn
    /// println(llm_model_info("gpt-4o").capabilities.native_tools) // -> true
    /// ```
    Env fn llm_model_info(cx, selector: Text) -> "dict" {
        let runtime = runtime(cx);
        from_json(&runtime.config().model_info_json(&selector, &runtime.capabilities(), runtime.embedder()))
    }

    /// Picks a model for an alias or a tier.
    ///
    /// ```harn
    /// println(llm_pick_model("frontier").provider) // -> anthropic
    /// ```
    Env fn llm_pick_model(cx, target: Text, options: OptionDict<PickOptions>) -> "dict" {
        let runtime = runtime(cx);
        let PickOptions { provider } = options.read()?;
        let provider = provider.filter(|provider| !provider.is_empty());
        from_json(&runtime.config().pick_model_json(&target, provider.as_deref(), runtime.embedder()))
    }

    /// Infers the provider from a model id.
    ///
    /// ```harn
    /// println(llm_infer_provider("claude-sonnet-4-20250514")) // -> anthropic
    /// ```
    Env fn llm_infer_provider(cx, model: Text) -> "string" {
        let runtime = runtime(cx);
        runtime.config().infer_or_default(&model, runtime.embedder())
    }

    /// Returns the tier of a model: `small`, `mid`, `frontier`.
    ///
    /// ```harn
    /// println(type_of(llm_model_tier("gpt-4o"))) // -> string
    /// ```
    Llm fn llm_model_tier(cx, model: Text) -> "string" {
        runtime(cx).config().tier_of(&model)
    }

    /// Returns the model that a provider uses for quality checks.
    ///
    /// ```harn
    /// println(try { llm_qc_default_model("") }) // -> Result.Err(llm_qc_default_model: provider name is required)
    /// ```
    Llm fn llm_qc_default_model(cx, provider: Text) -> "string | nil" {
        if provider.trim().is_empty() {
            return Err(thrown("llm_qc_default_model: provider name is required"));
        }
        runtime(cx).config().qc_default(&provider).map(str::to_owned)
    }

    /// Returns the provider, the model and whether a key is set, according to the environment.
    ///
    /// ```harn
    /// println(type_of(llm_info().api_key_set)) // -> bool
    /// ```
    Env fn llm_info(cx) -> "dict" {
        let runtime = runtime(cx);
        from_json(&runtime.config().info_json(runtime.embedder()))
    }

    /// Sets or returns the requests per minute of a provider.
    ///
    /// ```harn
    /// llm_rate_limit("mock", {rpm: 60})
    /// println(llm_rate_limit("mock")) // -> 60
    /// ```
    Llm fn llm_rate_limit(cx, provider: Value as "!string", limit: Value as "!int | {rpm?: any}?") -> "any" {
        let provider = match provider.as_str() {
            Some(name) if !name.trim().is_empty() => name.to_string(),
            _ => return Err(Error::runtime("llm_rate_limit: provider name is required")),
        };
        if limit.is_nil() {
            return Ok(runtime(cx).rate_limit(&provider).into());
        }
        let rpm = limit.as_int().or_else(|| entry(&limit, "rpm").as_int());
        let Some(rpm) = rpm else {
            return Err(Error::runtime("llm_rate_limit: options must include 'rpm' (integer)"));
        };
        if rpm < 0 {
            return Err(Error::runtime("llm_rate_limit: rpm must not be negative"));
        }
        runtime(cx).set_rate_limit(&provider, rpm);
        Value::bool(true)
    }

    /// Returns the trace events of the program so far.
    ///
    /// ```harn
    /// llm_call("Hi", nil, {provider: "mock"})
    /// println(agent_trace()[0].type) // -> llm_call
    /// ```
    State fn agent_trace(cx) -> "list<dict>" {
        cx.state::<LlmState>().trace.borrow().events().map(|event| from_json(&event)).collect::<Vec<Value>>()
    }

    /// Returns the totals of the program's trace events: calls, tokens, tools, retries.
    ///
    /// `status` is the status of the last loop, or `unknown` without one.
    ///
    /// ```harn
    /// llm_call("Hi", nil, {provider: "mock"})
    /// let s = agent_trace_summary()
    /// println("${s.status} ${s.llm_calls} ${s.total_output_tokens}") // -> unknown 1 30
    /// ```
    State fn agent_trace_summary(cx) -> "dict" {
        from_json(&cx.state::<LlmState>().trace.borrow().summary())
    }
}

builtins! {
    /// Costs of model calls.
    pub(crate) static COSTS: "costs";

    /// Estimates the cost of tokens in USD; 0 for unknown models.
    ///
    /// ```harn
    /// println(llm_cost("gpt-4o-mini", 1000, 500)) // -> 0.00045
    /// ```
    Llm fn llm_cost(cx, model: Text, input_tokens: i64, output_tokens: i64) -> "float" {
        for (name, count) in [("input_tokens", input_tokens), ("output_tokens", output_tokens)] {
            if count < 0 {
                return Err(Error::runtime(format!("llm_cost: {name} must be at least 0, got {count}")));
            }
        }
        runtime(cx).cost(&model, input_tokens, output_tokens)
    }

    /// Returns tokens, calls and cost of the run.
    ///
    /// ```harn
    /// llm_call("Hi", nil, {provider: "mock"})
    /// println(llm_session_cost().call_count) // -> 1
    /// ```
    Llm fn llm_session_cost(cx) -> "dict" {
        from_json(&runtime(cx).ledger().session_json())
    }

    /// Returns tokens, calls and time of the run.
    ///
    /// ```harn
    /// println(llm_usage().call_count) // -> 0
    /// ```
    Llm fn llm_usage(cx) -> "dict" {
        from_json(&runtime(cx).ledger().usage_json())
    }

    /// Sets the budget of the run in USD; calls that would exceed it are rejected.
    ///
    /// ```harn
    /// llm_budget(0.5)
    /// println(llm_budget_remaining()) // -> 0.5
    /// ```
    Llm fn llm_budget(cx, max_usd: Value as "!int | float") -> "nil" {
        let Some(usd) = max_usd.as_number() else {
            return Err(thrown("llm_budget: requires a numeric argument"));
        };
        // An infinite, NaN or negative limit is a mistake in the computation of the limit.
        if !usd.is_finite() || usd < 0.0 {
            return Err(thrown(format!("llm_budget: expected a finite number of at least 0, got {usd}")));
        }
        runtime(cx).ledger().set_budget(usd);
    }

    /// Returns the remaining budget, or nil without one.
    ///
    /// ```harn
    /// println(llm_budget_remaining()) // -> nil
    /// ```
    Llm fn llm_budget_remaining(cx) -> "float | nil" {
        runtime(cx).ledger().remaining()
    }
}

fn names(list: Vec<String>) -> Vec<Value> {
    list.iter().map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    /// The linter of templates knows every capability.
    #[test]
    fn templates_know_all_capabilities() {
        let all = harn_llm::capabilities::Capabilities::default().to_json("p", "m");
        let mut keys: Vec<&str> = all.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known = harn_template::CAPABILITIES.to_vec();
        keys.sort_unstable();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
