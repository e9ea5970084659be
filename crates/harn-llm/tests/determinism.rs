//! Equal calls produce equal bytes, independent of the order of their options and tools, because providers cache
//! prompts by their prefix.
use crate::support::*;
use harn_llm::Call;
use harn_llm::wire::encode;
use harn_value::{Data as Value, data::Map, json};

/// Returns the value with reversed order of the keys of the dict and of the dicts under `inner`.
fn reversed(value: &Value, inner: &[&str]) -> Value {
    let turn = |map: &Map<String, Value>| -> Vec<(String, Value)> {
        map.iter().rev().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let mut out: Map<String, Value> = turn(value.as_object().unwrap()).into_iter().collect();
    for key in inner {
        if let Some(Value::Object(map)) = out.get(*key) {
            let map: Map<String, Value> = turn(map).into_iter().collect();
            out.insert((*key).to_string(), Value::Object(map));
        }
    }
    Value::Object(out)
}

#[test]
fn the_order_of_options_does_not_change_the_bytes() {
    let env = [
        ("OPENAI_API_KEY", "k"),
        ("ANTHROPIC_API_KEY", "k"),
        ("GEMINI_API_KEY", "k"),
        ("OPENROUTER_API_KEY", "k"),
    ];
    let tool = json!({"name": "read", "description": "Reads", "namespace": "n", "returns": {"type": "string"},
        "parameters": {"path": {"type": "string", "description": "Where"}, "lines": {"type": "int", "required": false}}});
    for (provider, more) in [
        ("openai", json!({})),
        ("openai", json!({"api_mode": "responses", "model": "gpt-5.4"})),
        ("anthropic", json!({"thinking": true, "cache": true, "anthropic_beta_features": ["b", "a"]})),
        ("openrouter", json!({})),
        ("gemini", json!({"model": "gemini-2.5-pro"})),
        ("ollama", json!({"model": "qwen3:8b", "thinking": true})),
        ("bedrock", json!({"model": "meta.llama3"})),
    ] {
        let mut options = json!({
            "provider": provider, "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop": ["a", "b"],
            "tools": [tool], "tool_choice": "auto", "system": "s", "schema": {"type": "object", "properties": {"z": {}, "a": {}}},
            provider: {"zeta": 1, "alpha": {"x": 1}, "num_ctx": 5},
        });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let bytes = |options: &Value| {
            let (runtime, _) = runtime(&env);
            let prepared = runtime.prepare(&Call::new("hi", None, options.clone()));
            let wire = encode(&prepared.unwrap_or_else(|e| panic!("{provider}: {e:?}")).request).unwrap();
            (wire.body.to_bytes(), wire.headers)
        };
        let first = bytes(&options);
        assert_eq!(bytes(&options), first, "{provider}");
        let mut other = reversed(&options, &[provider]);
        other["tools"] = json!([reversed(&tool, &[])]);
        assert_eq!(bytes(&other), first, "{provider}");
    }
}
