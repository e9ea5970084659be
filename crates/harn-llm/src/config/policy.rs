//! `route_policy`: selects the model by price, latency or a rule.

use harn_value::{Data as Value, json};

use super::{Choice, Config, tier_rank};
use crate::embedder::Embedder;
use crate::error::OptionError;
use crate::options::{CallOptions, RoutePolicy};

/// Selects a route by the policy of a call. Returns the choice and its `routing_decision` for the call log; `None` when
/// the call has no policy.
///
/// # Errors
/// The option is invalid.
pub(crate) fn decide(
    config: &Config,
    options: &CallOptions,
    embedder: &dyn Embedder,
) -> Result<Option<(Choice, Value)>, OptionError> {
    let Some(policy) = &options.route_policy else { return Ok(None) };
    let (name, quality, by_price) = match policy {
        RoutePolicy::Always(target) => {
            config.check_model_name(target)?;
            let (provider, model) = config.selector(target, embedder);
            let (model, retired) = config.replace_retired(Some(target), &provider, model, embedder);
            let decision = json!({"policy": "always", "requested_quality": null, "selected_provider": provider,
                                  "selected_model": model, "alternatives": []});
            return Ok(Some((Choice { retired, ..chosen(provider, model) }, decision)));
        }
        RoutePolicy::Cheapest(t) => ("cheapest_over_quality", t, true),
        RoutePolicy::Fastest(t) => ("fastest_over_quality", t, false),
    };
    config.check_quality(quality)?;
    let floor = tier_rank(quality);
    let mut candidates: Vec<(f64, bool, String, String)> = Vec::new();
    for (_, alias) in config.aliases() {
        let known = candidates.iter().any(|(_, _, p, m)| *p == alias.provider && *m == alias.id);
        if known || tier_rank(&config.tier_of(&alias.id)) < floor {
            continue;
        }
        let score = if by_price {
            config.price_per_1k(&alias.provider, &alias.id)
        } else {
            config.latency(&alias.provider)
        };
        let available = config.is_available(&alias.provider, embedder);
        candidates.push((score, available, alias.provider.clone(), alias.id.clone()));
    }
    let order = |a: &(f64, bool, String, String), b: &(f64, bool, String, String)| {
        a.0.total_cmp(&b.0).then_with(|| a.2.cmp(&b.2)).then_with(|| a.3.cmp(&b.3))
    };
    candidates.sort_by(order);
    let Some(best) = candidates.iter().find(|c| c.1).or(candidates.first()).cloned() else { return Ok(None) };
    let (served, retired) = config.replace_retired(None, &best.2, best.3.clone(), embedder);
    let alternatives: Vec<Value> = candidates
        .iter()
        .map(|(_, available, provider, model)| {
            let selected = (provider, model) == (&best.2, &best.3);
            let table = config.provider(provider);
            let reason = match (selected, available) {
                (true, _) => "selected",
                (false, true) => "ranked lower",
                (false, false) => "no key available",
            };
            let pricing = crate::cost::call_pricing(config, provider, model);
            json!({"provider": provider, "model": model, "quality_tier": config.tier_of(model),
                   "available": available, "selected": selected,
                   "cost_per_1k_in": pricing.map(|p| p.input_per_mtok / 1000.0),
                   "cost_per_1k_out": pricing.map(|p| p.output_per_mtok / 1000.0),
                   "latency_p50_ms": table.and_then(|t| t.latency_p50_ms), "reason": reason})
        })
        .collect();
    let decision = json!({"policy": name, "requested_quality": quality, "selected_provider": best.2,
                          "selected_model": served, "alternatives": alternatives});
    Ok(Some((Choice { retired, ..chosen(best.2, served) }, decision)))
}

fn chosen(provider: String, model: String) -> Choice {
    Choice { provider, model, model_is_default: false, warnings: Vec::new(), retired: None }
}

impl Config {
    /// Resolves an alias, a model id, or `provider:model` with a known provider.
    pub fn selector(&self, selector: &str, embedder: &dyn Embedder) -> (String, String) {
        if self.alias(selector).is_none()
            && let Some((provider, model)) = selector.split_once(':')
            && self.knows(provider)
            && !model.is_empty()
        {
            return (provider.to_string(), model.to_string());
        }
        let (id, provider, _) = self.resolve(selector, embedder);
        (provider, id)
    }

    /// Returns the sum of input and output price per 1,000 tokens; infinity when unknown.
    fn price_per_1k(&self, provider: &str, model: &str) -> f64 {
        crate::cost::call_pricing(self, provider, model)
            .map_or(f64::INFINITY, |p| (p.input_per_mtok + p.output_per_mtok) / 1000.0)
    }

    fn latency(&self, provider: &str) -> f64 {
        self.provider(provider).and_then(|p| p.latency_p50_ms).map_or(f64::INFINITY, |ms| ms as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedder::StdEmbedder;

    fn choose(policy: Value, env: &[(&str, &str)]) -> Result<Option<(String, String)>, String> {
        let embedder = StdEmbedder::with_env(env.iter().copied());
        let options = CallOptions::from_json(&json!({"route_policy": policy})).map_err(|e| e.0)?;
        decide(&Config::builtin(), &options, &embedder)
            .map(|c| c.map(|(c, _)| (c.provider, c.model)))
            .map_err(|e| e.0)
    }

    #[test]
    fn policies_choose() {
        let pair = |p: &str, m: &str| Ok(Some((p.to_string(), m.to_string())));
        assert_eq!(choose(json!("manual"), &[]), Ok(None));
        assert_eq!(choose(json!("always(openai:gpt-5)"), &[]), pair("openai", "gpt-5"));
        assert_eq!(choose(json!({"mode": "always", "target": "mid"}), &[]), pair("openai", "gpt-4o-mini"));
        let key = [("OPENAI_API_KEY", "k")];
        assert_eq!(choose(json!("cheapest_over_quality(frontier)"), &key), pair("local", "gemma-4-31b-it"));
    }

    #[test]
    fn wrong_policies_are_named() {
        assert_eq!(
            choose(json!("best"), &[]).unwrap_err(),
            "route_policy: expected manual, always(id), cheapest_over_quality(t), or fastest_over_quality(t), got \"best\""
        );
        assert_eq!(
            choose(json!("cheapest_over_quality(frontir)"), &[]).unwrap_err(),
            "route_policy: unknown tier `frontir`; did you mean `frontier`?"
        );
        assert_eq!(
            choose(json!({"mode": "fastest_over_quality", "quality": "gpt-4o"}), &[]).unwrap_err(),
            "route_policy: unknown tier `gpt-4o`; tiers are small, mid, frontier"
        );
        assert!(choose(json!("fastest_over_quality(HIGH)"), &[]).is_ok());
        assert_eq!(choose(json!("always()"), &[]).unwrap_err(), "route_policy: target must not be empty");
        assert_eq!(
            choose(json!({"mode": "x"}), &[]).unwrap_err(),
            "route_policy.mode: unsupported value \"x\""
        );
        assert_eq!(choose(json!(3), &[]).unwrap_err(), "route_policy: expected string or dict");
    }
}
