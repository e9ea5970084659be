//! Options that a model does not support: adjusted with a notice, or rejected before anything is sent.
use crate::support::*;
use harn_strict_servers::ENV;
use harn_value::{Data as Value, json};

const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn anthropic_answer() -> Vec<Step> {
    ok_json(
        &json!({"content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1}}),
    )
}

fn answer(provider: &str) -> Vec<Step> {
    if provider == "anthropic" { anthropic_answer() } else { stream(ANSWER) }
}

/// Returns the body that a call sends, its path, and the warnings.
async fn sent(provider: &str, options: Value) -> (Value, String, Vec<String>) {
    sent_for(answer(provider), provider, options).await
}

async fn sent_for(reply: Vec<Step>, provider: &str, options: Value) -> (Value, String, Vec<String>) {
    let server = Server::start(vec![reply]).await;
    let (runtime, embedder) = runtime(ENV);
    let result = ask_with(&runtime, &server, provider, options).await;
    assert_eq!(server.count(), 1, "{result:?}");
    let seen = server.request(0);
    (seen.body, seen.line, embedder.warnings.borrow().clone())
}

#[tokio::test]
async fn sampling_that_a_model_refuses_is_left_out() {
    local(async {
        for (provider, options, dropped, kept) in [
            (
                "openai",
                json!({"model": "gpt-5", "temperature": 0.2, "stop": ["x"]}),
                vec!["temperature", "stop"],
                None,
            ),
            ("openai", json!({"model": "o3", "temperature": 0.2}), vec!["temperature"], None),
            ("openai", json!({"model": "gpt-4o", "temperature": 0.2, "stop": ["x"]}), vec![], Some("stop")),
            (
                "anthropic",
                json!({"model": "claude-sonnet-4-5", "temperature": 0.3, "top_p": 0.9}),
                vec!["top_p"],
                Some("temperature"),
            ),
            ("anthropic", json!({"model": "claude-sonnet-4-5", "top_p": 0.9}), vec![], Some("top_p")),
            ("anthropic", json!({"model": "claude-fable-5", "temperature": 0.3}), vec!["temperature"], None),
        ] {
            let (body, _, warnings) = sent(provider, options.clone()).await;
            for option in &dropped {
                assert_eq!(body.get(option), None, "{options}");
                assert!(warnings.iter().any(|w| w.contains(option)), "{options} {warnings:?}");
            }
            assert_eq!(dropped.is_empty(), warnings.is_empty(), "{options} {warnings:?}");
            assert!(kept.is_none_or(|option| body.get(option).is_some()), "{options} {body}");
        }
    })
    .await;
}

#[tokio::test]
async fn thinking_is_expressed_as_the_model_takes_it() {
    local(async {
        for (provider, options, place, value) in [
            ("openai", json!({"model": "o3", "thinking": true}), "/reasoning_effort", json!("medium")),
            (
                "openai",
                json!({"model": "o3", "thinking": {"budget_tokens": 1000}}),
                "/reasoning_effort",
                json!("low"),
            ),
            (
                "openai",
                json!({"model": "o3", "thinking": {"budget_tokens": 60_000}}),
                "/reasoning_effort",
                json!("high"),
            ),
            (
                "openai",
                json!({"model": "gpt-5", "reasoning_effort": "minimal"}),
                "/reasoning_effort",
                json!("minimal"),
            ),
            (
                "anthropic",
                json!({"model": "claude-sonnet-4-5", "reasoning_effort": "low"}),
                "/thinking/budget_tokens",
                json!(2048),
            ),
            (
                "anthropic",
                json!({"model": "claude-sonnet-4-6", "thinking": "adaptive"}),
                "/thinking/type",
                json!("adaptive"),
            ),
            (
                "anthropic",
                json!({"model": "claude-opus-4-8", "thinking": true}),
                "/thinking/display",
                json!("summarized"),
            ),
            (
                "anthropic",
                json!({"model": "claude-opus-4-8", "reasoning_effort": "xhigh"}),
                "/output_config/effort",
                json!("xhigh"),
            ),
            (
                "anthropic",
                json!({"model": "claude-sonnet-4-5", "reasoning_effort": "max"}),
                "/thinking/budget_tokens",
                json!(32_768),
            ),
        ] {
            let (body, _, _) = sent(provider, options.clone()).await;
            let body = serde_json::to_value(&body).unwrap();
            let value = serde_json::to_value(&value).unwrap();
            assert_eq!(body.pointer(place), Some(&value), "{options} {body}");
        }
    })
    .await;
}

/// Gemini 2.5 has a thinking budget in tokens, Gemini 3 has levels.
#[tokio::test]
async fn gemini_thinks_by_budget_or_by_level() {
    local(async {
        let budget = |tokens: i64| json!({"includeThoughts": true, "thinkingBudget": tokens});
        let level = |word: &str| json!({"includeThoughts": true, "thinkingLevel": word});
        for (model, options, config) in [
            ("gemini-2.5-pro", json!({}), Value::Null),
            ("gemini-2.5-pro", json!({"thinking": false}), Value::Null),
            ("gemini-2.5-pro", json!({"thinking": true}), budget(-1)),
            ("gemini-2.5-pro", json!({"thinking": "adaptive"}), budget(-1)),
            ("gemini-2.5-pro", json!({"thinking": {"budget_tokens": 4000}}), budget(4000)),
            ("gemini-2.5-pro", json!({"reasoning_effort": "high"}), budget(16_384)),
            ("gemini-2.5-flash", json!({"reasoning_effort": "max"}), budget(24_576)),
            ("gemini-2.5-flash", json!({"reasoning_effort": "none"}), json!({"thinkingBudget": 0})),
            (
                "gemini-2.5-flash-lite",
                json!({"thinking": {"budget_tokens": 0}}),
                json!({"thinkingBudget": 0}),
            ),
            ("gemini-3.1-pro-preview", json!({"thinking": true}), json!({"includeThoughts": true})),
            ("gemini-3.1-pro-preview", json!({"reasoning_effort": "medium"}), level("MEDIUM")),
            ("gemini-3-flash-preview", json!({"thinking": {"budget_tokens": 100}}), level("LOW")),
            ("gemini-3-flash-preview", json!({"reasoning_effort": "minimal"}), level("MINIMAL")),
            ("gemini-4-hydrogen", json!({"reasoning_effort": "xhigh"}), level("XHIGH")),
            ("gemini-flash-latest", json!({"reasoning_effort": "low"}), level("LOW")),
        ] {
            let mut options = options.clone();
            options["model"] = model.into();
            let (body, _, _) = sent_for(ok_json(&json!({})), "gemini", options.clone()).await;
            let found = body["generationConfig"].get("thinkingConfig").cloned().unwrap_or_default();
            assert_eq!(found, config, "{options} {body}");
        }
    })
    .await;
}

/// Thinking of Claude is the same on Bedrock and on Anthropic's API.
#[tokio::test]
async fn claude_thinks_on_bedrock() {
    local(async {
        let (old, new) = ("anthropic.claude-sonnet-4-20250514-v1:0", "global.anthropic.claude-opus-4-7");
        for (model, options, fields, config) in [
            (old, json!({"temperature": 0.5}), Value::Null, json!({"maxTokens": 16384, "temperature": 0.5})),
            (
                old,
                json!({"thinking": {"budget_tokens": 20_000}, "temperature": 0.5, "top_p": 0.95}),
                json!({"thinking": {"type": "enabled", "budget_tokens": 20_000}}),
                json!({"maxTokens": 21_024, "topP": 0.95}),
            ),
            (
                old,
                json!({"reasoning_effort": "low", "bedrock": {"top_k": 5}}),
                json!({"thinking": {"type": "enabled", "budget_tokens": 2048}, "top_k": 5}),
                json!({"maxTokens": 16384}),
            ),
            (old, json!({"reasoning_effort": "none"}), Value::Null, json!({"maxTokens": 16384})),
            (
                new,
                json!({"thinking": true, "temperature": 0.5}),
                json!({"thinking": {"type": "adaptive", "display": "summarized"}}),
                json!({"maxTokens": 16384}),
            ),
            (
                new,
                json!({"reasoning_effort": "high"}),
                json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
                json!({"maxTokens": 16384}),
            ),
        ] {
            let mut options = options.clone();
            options["model"] = model.into();
            let (body, _, _) = sent_for(reply("500 Oops", "", ""), "bedrock", options.clone()).await;
            let found = body.get("additionalModelRequestFields").cloned().unwrap_or_default();
            assert_eq!((found, &body["inferenceConfig"]), (fields, &config), "{options}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_has_no_equivalent_is_refused_before_it_is_sent() {
    local(async {
        let tools = json!([{"name": "look"}]);
        for (provider, options, said) in [
            ("anthropic", json!({"model": "claude-sonnet-4-5", "thinking": true, "tools": tools, "tool_choice": "required"}), "while the model thinks"),
            ("anthropic", json!({"model": "claude-sonnet-4-5", "thinking": true, "tools": tools, "tool_choice": {"name": "look"}}), "while the model thinks"),
            ("anthropic", json!({"model": "claude-opus-5-5", "tools": tools, "tool_choice": "required"}), "takes no forced tool"),
            ("openai", json!({"model": "gpt-5.1", "reasoning_effort": "minimal"}), "takes no effort \"minimal\""),
            ("bedrock", json!({"model": "amazon.nova-pro-v1:0", "thinking": true}), "option `thinking` is not supported by `amazon.nova-pro-v1:0`"),
            ("bedrock", json!({"model": "anthropic.claude-opus-4-20250514-v1:0", "thinking": true, "tools": tools, "tool_choice": "required"}), "while the model thinks"),
            ("gemini", json!({"model": "gemini-2.0-flash", "thinking": true}), "option `thinking` is not supported by `gemini-2.0-flash`"),
            ("gemini", json!({"model": "gemini-2.5-pro", "reasoning_effort": "none"}), "takes no effort \"none\"; it takes minimal, low, "),
            ("gemini", json!({"model": "gemini-2.5-pro", "thinking": {"budget_tokens": 64}}), "takes 128 to 32768 tokens, got 64"),
            ("gemini", json!({"model": "gemini-2.5-flash-lite", "thinking": {"budget_tokens": 9}}), "takes 512 to 24576 tokens, or 0, got 9"),
            ("gemini", json!({"model": "gemini-3-pro-preview", "reasoning_effort": "medium"}), "takes no effort \"medium\"; it takes low, high"),
            ("gemini", json!({"model": "gemini-3.1-pro-preview", "reasoning_effort": "max"}), "takes no effort \"max\""),
            ("gemini", json!({"model": "gemini-3.8-flash", "reasoning_effort": "minimal"}), "takes no effort \"minimal\""),
        ] {
            let server = Server::start(vec![answer(provider)]).await;
            let error = ask_with(&runtime(ENV).0, &server, provider, options.clone()).await.unwrap_err();
            assert!(error.message().contains(said), "{options} {error}");
            assert_eq!(server.count(), 0, "{options}");
        }
    })
    .await;
}

#[tokio::test]
async fn tools_of_newer_openai_models_go_to_responses() {
    local(async {
        let tools = json!([{"name": "look"}]);
        for (options, path) in [
            (json!({"model": "gpt-5.6-terra", "tools": tools}), "/responses"),
            (json!({"model": "gpt-5.6-terra"}), "/chat/completions"),
            (json!({"model": "gpt-5.4", "tools": tools, "reasoning_effort": "low"}), "/responses"),
            (json!({"model": "gpt-5.4", "tools": tools}), "/chat/completions"),
            (json!({"model": "gpt-5-codex"}), "/responses"),
            (json!({"model": "gpt-4o", "tools": tools}), "/chat/completions"),
        ] {
            let reply = stream(if path == "/responses" { RESPONSES_STREAM } else { ANSWER });
            let (_, line, _) = sent_for(reply, "openai", options.clone()).await;
            assert!(line.contains(&format!(" {path} ")), "{options} {line}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_default_limit_of_a_reply_fits_the_model() {
    local(async {
        for (provider, model, limit) in [
            ("anthropic", "claude-3-haiku-20240307", Some(4096)),
            ("anthropic", "claude-3-5-haiku-20241022", Some(8192)),
            ("anthropic", "claude-opus-4-8", Some(16384)),
            ("openai", "gpt-4-turbo", Some(4096)),
            ("openai", "gpt-4o", Some(16384)),
            ("openai", "ft:my-own", Some(16384)),
            ("vllm", "meta-llama/Llama-3.1-8B-Instruct", None),
        ] {
            let (body, _, _) = sent(provider, json!({"model": model})).await;
            assert_eq!(body["max_tokens"].as_i64(), limit, "{model} {body}");
        }
        let (body, _, _) = sent("vllm", json!({"model": "m", "max_tokens": 50})).await;
        assert_eq!(body["max_tokens"], 50);
    })
    .await;
}

#[tokio::test]
async fn unknown_models_get_native_tools() {
    local(async {
        for provider in ["vllm", "local", "openrouter", "groq", "together"] {
            let server = Server::start(vec![stream(ANSWER)]).await;
            let keys = [("OPENROUTER_API_KEY", "k"), ("GROQ_API_KEY", "k"), ("TOGETHER_AI_API_KEY", "k")];
            let (runtime, _) = runtime(&keys);
            let options = json!({"model": "my-own-fine-tune", "tools": [{"name": "look"}]});
            ask_with(&runtime, &server, provider, options).await.unwrap();
            assert_eq!(server.request(0).body["tools"][0]["function"]["name"], "look", "{provider}");
        }
        let told = json!({"error": {"message": "registry.ollama.ai/library/x does not support tools"}});
        let server = Server::start(vec![reply(
            "400 Bad Request",
            "content-type: application/json\r\n",
            &told.to_string(),
        )])
        .await;
        let error =
            llm_error(ask(&server, "local", json!({"model": "x", "tools": [{"name": "look"}]})).await);
        assert!(
            error.message.contains("tool_format: \"text\"")
                && error.message.ends_with("native_tools = false"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn caching_is_accepted_where_it_is_automatic() {
    local(async {
        for (provider, model) in [("openai", "gpt-4o"), ("vllm", "m")] {
            let server = Server::start(vec![stream(ANSWER)]).await;
            ask(&server, provider, json!({"model": model, "cache": true})).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_flows_is_not_cut() {
    local(async {
        // Sixty chunks, each within the timeout, but together beyond it.
        let pieces: String = (0..60)
            .map(|n| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{n} \"}}}}]}}\n\n"))
            .collect();
        let mut script = stream("");
        script.push(Step::Drip(format!("{pieces}{ANSWER}").into_bytes()));
        let server = Server::start(vec![script]).await;
        ask(&server, "openai", json!({"timeout": 5})).await.unwrap();
        let server = Server::start(vec![{
            let mut script = stream(&pieces);
            script.push(Step::Hang);
            script
        }])
        .await;
        let error = llm_error(ask(&server, "openai", json!({"timeout": 0.2, "llm_retries": 0})).await);
        assert_eq!(error.message, "stream idle timeout: no data received for 0.2s");
    })
    .await;
}

#[tokio::test]
async fn real_servers_are_asked_three_times_by_default() {
    local(async {
        let limited = || reply("429 Too Many Requests", "retry-after-ms: 1500\r\nretry-after: 9\r\n", "{}");
        let server = Server::start(vec![limited(), limited(), stream(ANSWER)]).await;
        let (runtime, embedder) = runtime(KEYS);
        ask_with(&runtime, &server, "openai", json!({"llm_retries": null})).await.unwrap();
        assert_eq!((server.count(), embedder.waits.borrow().as_slice()), (3, &[1500, 1500][..]));
        // Scripted failures are retried only on request.
        let (runtime, _) = crate::support::runtime(&[]);
        runtime.mock_push(&json!({"error": {"category": "overloaded", "message": "busy"}})).unwrap();
        let call = harn_llm::Call::new("hi", None, json!({"provider": "mock"}));
        assert!(runtime.llm_call(&call).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_under_a_money_limit() {
    local(async {
        let unpriced = json!({"model": "my-own-model", "budget": {"max_cost_usd": 1.0}});
        let server = Server::start(vec![stream(ANSWER), stream(ANSWER)]).await;
        let error = llm_error(ask(&server, "openai", unpriced.clone()).await);
        assert_eq!(
            (error.category.as_str(), error.reason, server.count()),
            ("budget_exceeded", "unpriced_model", 0)
        );
        assert!(error.message.contains("[llm.models.\"my-own-model\"]"), "{error}");
        let mut allowed = unpriced;
        allowed["budget"]["unpriced"] = "allow".into();
        ask(&server, "openai", allowed).await.unwrap();
        // Self-hosted servers are free.
        ask(&server, "local", json!({"model": "m", "budget": {"max_cost_usd": 0.0}})).await.unwrap();
    })
    .await;
}

/// A conversation continues on a model without vision; only an image in the user's newest message requires vision.
#[tokio::test]
async fn images_of_earlier_messages_do_not_end_a_conversation() {
    local(async {
        let image = json!({"type": "image", "base64": "AA==", "media_type": "image/png"});
        let asked = json!({"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]});
        let call = json!([{"type": "tool_use", "id": "c", "name": "shot", "input": {}}]);
        let result = json!([{"type": "tool_result", "tool_use_id": "c", "content": [image]}]);
        for messages in [
            json!([asked, {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "And now?"}]),
            json!([{"role": "user", "content": "Look."}, {"role": "assistant", "content": call}, {"role": "user", "content": result}]),
        ] {
            let options = json!({"model": "gpt-3.5-turbo", "messages": messages});
            let (body, _, warnings) = sent("openai", options).await;
            let body = body.to_string();
            assert!(body.contains("[image image/png that this model does not accept]"), "{body}");
            assert!(!body.contains("AA=="), "{body}");
            assert!(warnings.iter().any(|text| text.contains("images of earlier messages are left out")), "{warnings:?}");
        }
        let server = Server::start(Vec::new()).await;
        let (runtime, _) = runtime(ENV);
        let options = json!({"model": "gpt-3.5-turbo", "messages": [asked]});
        let error = ask_with(&runtime, &server, "openai", options).await.unwrap_err();
        assert!(error.message().contains("option `vision` is not supported by `gpt-3.5-turbo`"), "{error:?}");
    })
    .await;
}

/// Loops and calls agree on which models accept images, by rules and catalogue.
#[test]
fn images_are_accepted_where_the_catalogue_lists_them() {
    let (runtime, _) = runtime(ENV);
    for (provider, model, images) in [
        ("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0", true),
        ("openai", "gpt-3.5-turbo", false),
        ("vllm", "my-own-model", false),
    ] {
        assert_eq!(
            runtime.media_capabilities(provider, model).vision_supported,
            images,
            "{provider} {model}"
        );
    }
}
