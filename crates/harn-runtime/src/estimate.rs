//! Estimates of the cost of model calls, from the source of a program.

use harn_agent::config::{Format, LoopConfig};
use harn_llm::{CallOptions, LlmRuntime};
use harn_syntax::signature::GivenOption;
use harn_value::Data as Json;
use harn_value::data::Map;

use crate::option_check::json;

/// An estimate of one call, or of one loop.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEstimate {
    /// The provider of the call.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens of the strings, at four bytes per token.
    pub input_tokens: i64,
    /// Maximum number of tokens of a reply; `None` when the provider decides.
    pub output_tokens: Option<i64>,
    /// Maximum number of calls; for a loop, its turns.
    pub calls: i64,
    /// Maximum cost of all calls in USD; `None` without a price or without a limit of the reply.
    pub cost_usd: Option<f64>,
}

/// Estimates a call with these options and strings, as it would be routed now. Options with unknown values are treated
/// as absent.
///
/// # Errors
/// The call would be rejected.
pub fn estimate_call(
    runtime: &LlmRuntime,
    is_loop: bool,
    given: &[GivenOption],
    texts: &[&str],
) -> Result<CallEstimate, String> {
    let known = given.iter().filter_map(|o| Some((o.name.clone(), json(&o.name, o.value.as_ref()?)?)));
    let options: Map = known.collect();
    let calls = if is_loop {
        let config = LoopConfig::new("", None, options.clone(), Format::Text);
        i64::from(config.map_err(|error| error.to_string())?.max_iterations)
    } else {
        1
    };
    let call = CallOptions::from_json(&Json::Object(options.clone())).map_err(|error| error.to_string())?;
    let config = runtime.config();
    let choice = config.choose(&call, runtime.embedder()).map_err(|error| error.to_string())?;
    let given: Vec<Json> =
        ["prompt", "system", "messages"].iter().filter_map(|key| options.get(*key)).cloned().collect();
    let texts = texts.iter().map(|text| Json::from(*text)).chain(given);
    let input_tokens = texts.map(|text| harn_llm::cost::estimate_tokens_of(&text)).sum();
    let output_tokens = runtime.most_output(&choice, &call).map_err(|error| error.message().to_string())?;
    let price =
        |output| harn_llm::cost::price(&config, &choice.provider, &choice.model, input_tokens, output);
    let cost_usd = output_tokens.and_then(price).map(|usd| usd * calls as f64);
    Ok(CallEstimate {
        provider: choice.provider,
        model: choice.model,
        input_tokens,
        output_tokens,
        calls,
        cost_usd,
    })
}
