//! Model calls over a real socket: wire formats, retries, fallbacks, recording.
use crate::support::*;
use harn_llm::{Call, CallError, Category};
use harn_value::{Data as Value, json};

#[tokio::test]
async fn openai_streams_by_default() {
    local(async {
        let server = Server::start(vec![stream(OPENAI_STREAM)]).await;
        let tools = json!([{"name": "read", "parameters": {"path": "string"}}]);
        let result = ask(&server, "openai", json!({"tools": tools})).await.unwrap();
        let seen = server.request(0);
        assert_eq!(seen.line, "POST /chat/completions HTTP/1.1");
        assert_eq!(seen.header("authorization"), Some("Bearer sk-open-1234"));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!((&seen.body["stream"], &seen.body["model"]), (&json!(true), &json!("gpt-4o")));
        assert_eq!(result["text"], "Grüße 😀!");
        assert_eq!(result["thinking"], "hm");
        assert_eq!(result["tool_calls"], json!([{"id": "c1", "name": "read", "arguments": {"path": "ü"}}]));
        assert_eq!(result["stop_reason"], "tool_use");
        assert_eq!((&result["input_tokens"], &result["cache_read_tokens"]), (&json!(11), &json!(3)));
        assert_eq!(result["provider"], "openai");
        let last = result["transcript"]["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["tool_calls"][0]["function"]["arguments"], "{\"path\":\"ü\"}");
    })
    .await;
}

/// Gateways require a version or a tenant in the query of every request.
#[tokio::test]
async fn the_query_of_an_address_stays_behind_the_path() {
    local(async {
        let server = Server::start(vec![stream(OPENAI_STREAM)]).await;
        let base = format!("{}/v1?api-version=2", server.url);
        ask(&server, "openai", json!({"base_url": base})).await.unwrap();
        assert_eq!(server.request(0).line, "POST /v1/chat/completions?api-version=2 HTTP/1.1");
    })
    .await;
}

#[tokio::test]
async fn anthropic_streams_and_replies_whole() {
    local(async {
        let whole = json!({"model": "claude", "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2},
                           "content": [{"type": "text", "text": "hey"}]});
        let server = Server::start(vec![stream(ANTHROPIC_STREAM), ok_json(&whole)]).await;
        let result = ask(&server, "anthropic", json!({})).await.unwrap();
        let seen = server.request(0);
        assert_eq!(seen.line, "POST /messages HTTP/1.1");
        assert_eq!((seen.header("x-api-key"), seen.header("authorization")), (Some("sk-anth-1234"), None));
        assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!((&result["text"], &result["thinking"]), (&json!("Hello wörld"), &json!("hm ü")));
        assert_eq!(result["tool_calls"], json!([{"id": "t1", "name": "deploy", "arguments": {"env": "prod"}}]));
        let kinds: Vec<&str> =
            result["blocks"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["reasoning", "output_text", "tool_search_query", "tool_search_result", "tool_call"]);
        assert_eq!((&result["input_tokens"], &result["output_tokens"]), (&json!(13), &json!(21)));
        let events: Vec<&str> =
            result["transcript"]["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
        assert!(events.contains(&"tool_search_query") && events.contains(&"provider_payload"), "{events:?}");

        let result = ask(&server, "anthropic", json!({"stream": false})).await.unwrap();
        assert_eq!(server.request(1).body.get("stream"), None);
        assert_eq!((&result["text"], &result["stop_reason"]), (&json!("hey"), &json!("end_turn")));
    })
    .await;
}

#[tokio::test]
async fn transient_failures_are_tried_again_after_the_hinted_time() {
    local(async {
        let server = Server::start(vec![
            reply("429 Too Many Requests", "retry-after: 2\r\n", "slow"),
            reply("503 Service Unavailable", "", "busy"),
            stream(OPENAI_STREAM),
        ])
        .await;
        let (runtime, embedder) = runtime(KEYS);
        let result =
            ask_with(&runtime, &server, "openai", json!({"llm_retries": 2, "llm_backoff_ms": 10})).await;
        assert_eq!(result.unwrap()["text"], "Grüße 😀!");
        let waits = embedder.waits.borrow();
        assert!(waits[0] == 2000 && (20..=25).contains(&waits[1]) && waits.len() == 2, "{waits:?}");
        assert_eq!(embedder.warnings.borrow().len(), 2);
        assert_eq!(runtime.ledger().totals().calls, 1);
    })
    .await;
}

#[tokio::test]
async fn terminal_failures_are_not_tried_again() {
    local(async {
        let server = Server::start(vec![reply("401 Unauthorized", "", "no"), stream(OPENAI_STREAM)]).await;
        let error = llm_error(ask(&server, "openai", json!({"llm_retries": 5})).await);
        assert_eq!((error.category, server.count()), (Category::Auth, 1));
    })
    .await;
}

#[tokio::test]
async fn ollama_speaks_its_own_protocol_and_falls_back() {
    local(async {
        let ndjson = |body: &str| reply("200 OK", "content-type: application/x-ndjson\r\n", body);
        let chat = json!({"choices": [{"message": {"content": "compat"}, "finish_reason": "stop"}]});
        let server = Server::start(vec![
            ndjson(OLLAMA_STREAM),
            reply("404 Not Found", "", "404 page not found"),
            ok_json(&chat),
            ndjson("{\"message\":{\"content\":\"a\"},\"done\":false}\n"),
            ndjson("{\"error\":\"model 'x' not found\"}"),
        ])
        .await;
        let o = json!({"ollama": {"num_ctx": 4096}});
        let result = ask(&server, "ollama", o.clone()).await.unwrap();
        let seen = server.request(0);
        assert_eq!(seen.line, "POST /api/chat HTTP/1.1");
        assert_eq!((&seen.body["options"]["num_ctx"], seen.header("authorization")), (&json!(4096), None));
        assert_eq!((&result["text"], &result["thinking"]), (&json!("Héllo"), &json!("hm")));
        assert_eq!((&result["model"], &result["input_tokens"]), (&json!("llama3.2:latest"), &json!(8)));
        assert_eq!(
            result["tool_calls"],
            json!([{"id": "ollama_tool_0", "name": "f", "arguments": {"a": 1}}])
        );

        assert_eq!(ask(&server, "ollama", o.clone()).await.unwrap()["text"], "compat");
        assert_eq!(server.request(2).line, "POST /v1/chat/completions HTTP/1.1");

        let error = llm_error(ask(&server, "ollama", o.clone()).await);
        assert_eq!(
            error.message,
            "ollama stream error: unexpected EOF before done=true after partial content"
        );
        assert_eq!(error.category, Category::TransientNetwork);
        let error = llm_error(ask(&server, "ollama", o).await);
        assert_eq!(error.message, "ollama API error: model 'x' not found");
    })
    .await;
}

/// The prompts of some models are rendered here unless they have tools; rendered prompts cannot switch thinking on or
/// off. A call that sets `thinking` uses the endpoint that can.
#[tokio::test]
async fn ollama_models_without_tools_are_told_whether_to_think() {
    local(async {
        let tools = json!([{"name": "t"}]);
        for (model, options, path, think) in [
            ("qwen3:8b", json!({"thinking": true}), "/api/chat", Some(true)),
            ("qwen3.6:27b", json!({"thinking": "enabled"}), "/api/chat", Some(true)),
            ("qwen3:8b", json!({"thinking": false}), "/api/chat", Some(false)),
            (
                "qwen3:8b",
                json!({"thinking": true, "tools": tools, "tool_format": "text"}),
                "/api/chat",
                Some(true),
            ),
            ("llama3.2", json!({"thinking": false}), "/api/chat", Some(false)),
            ("llama3.2", json!({}), "/v1/chat/completions", Some(false)),
            ("qwen3:8b", json!({}), "/api/generate", None),
        ] {
            let answer = match path {
                "/v1/chat/completions" => {
                    ok_json(&json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}))
                }
                "/api/chat" => ok_json(&json!({"message": {"content": "hi"}, "done": true})),
                _ => ok_json(&json!({"response": "hi", "done": true})),
            };
            let server = Server::start(vec![answer]).await;
            let mut all = options.clone();
            all["model"] = model.into();
            assert_eq!(ask(&server, "ollama", all).await.unwrap()["text"], "hi", "{model} {options}");
            let seen = server.request(0);
            assert_eq!(seen.line, format!("POST {path} HTTP/1.1"), "{model} {options}");
            assert_eq!(seen.body.get("think"), think.map(Value::from).as_ref(), "{model} {options}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_responses_api_is_used_when_asked_for() {
    local(async {
        let server = Server::start(vec![stream(RESPONSES_STREAM)]).await;
        let result =
            ask(&server, "openai", json!({"api_mode": "responses", "model": "gpt-5.4"})).await.unwrap();
        assert_eq!(server.request(0).line, "POST /responses HTTP/1.1");
        assert_eq!((&result["text"], &result["thinking_summary"]), (&json!("Héllo"), &json!("thought")));
        assert_eq!(result["tool_calls"], json!([{"id": "c", "name": "f", "arguments": {"a": 1}}]));
        assert_eq!(result["stop_reason"], "tool_use");
    })
    .await;
}

#[tokio::test]
async fn a_failed_route_falls_back() {
    local(async {
        let good = Server::start(vec![ok_json(
            &json!({"choices": [{"message": {"content": "from local"}, "finish_reason": "stop"}]}),
        )])
        .await;
        let oops = || reply("500 Internal Server Error", "", "oops");
        let bad = Server::start(vec![oops(), oops()]).await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "k-123456"), ("LOCAL_LLM_BASE_URL", &good.url)]);
        // The URL of the call applies only to its own provider.
        let chain = json!(["openai", "openai:gpt-4o-mini", "anthropic", "local:tiny"]);
        let options =
            json!({"provider": "openai", "base_url": bad.url, "fallback_chain": chain, "llm_retries": 0});
        let result = runtime.llm_call(&Call::new("hi", None, options)).await.unwrap();
        assert_eq!((&result["text"], &result["provider"]), (&json!("from local"), &json!("local")));
        assert_eq!((bad.count(), &bad.request(1).body["model"]), (2, &json!("gpt-4o-mini")));
        let seen = good.request(0);
        assert_eq!(
            (seen.line.as_str(), &seen.body["model"]),
            ("POST /v1/chat/completions HTTP/1.1", &json!("tiny"))
        );
        assert_eq!(seen.body.get("stream"), None);
    })
    .await;
}

/// With a fallback route, a route without a key fails and the next one is tried. Without one, the call itself is
/// invalid.
#[tokio::test]
async fn a_missing_key_falls_back() {
    local(async {
        let good = || {
            ok_json(&json!({"choices": [{"message": {"content": "from local"}, "finish_reason": "stop"}]}))
        };
        let server = Server::start(vec![good(), good(), good()]).await;
        let (runtime, embedder) = runtime(&[("LOCAL_LLM_BASE_URL", &server.url)]);
        let call = |options: Value| Call::new("hi", None, options);
        let options = json!({"provider": "anthropic", "fallback_chain": ["openai", "local:tiny"]});
        let result = runtime.llm_call(&call(options.clone())).await.unwrap();
        assert_eq!((&result["text"], &result["provider"]), (&json!("from local"), &json!("local")));
        let told = embedder.warnings.borrow().join("\n");
        assert!(
            told.ends_with("llm_call: anthropic failed (auth_failure), local answers instead with tiny"),
            "{told}"
        );
        let mut chunks = Vec::new();
        runtime.llm_stream(&call(options), &mut |item| chunks.push(item)).await.unwrap();
        assert_eq!(chunks[0], harn_llm::runtime::StreamItem::Chunk("from local".into()));
        // No other route has a key either, so the call is invalid.
        for chain in [json!(["openai"]), json!([])] {
            let options = json!({"provider": "anthropic", "fallback_chain": chain});
            let error = runtime.llm_call(&call(options)).await.unwrap_err();
            let CallError::Option(text) = error else { panic!("{error:?}") };
            assert!(text.starts_with("Missing API key: set ANTHROPIC_API_KEY"), "{text}");
        }
        let layer = "[providers.groq]\nfallback = \"local\"".to_owned();
        runtime.set_config_layers(vec![harn_llm::config::Layer { origin: "t".into(), toml: layer }]);
        let result = runtime.llm_call(&call(json!({"provider": "groq", "model": "m"}))).await.unwrap();
        assert_eq!((&result["provider"], &server.request(2).body["model"]), (&json!("local"), &json!("m")));
    })
    .await;
}

/// A valid option without an effect in a call is reported.
#[tokio::test]
async fn options_without_an_effect_are_told() {
    local(async {
        let told = async |options: Value| {
            let server = Server::start(vec![vec![]]).await;
            let (runtime, embedder) = runtime(KEYS);
            let mut all = json!({"base_url": server.url, "stream": false, "llm_retries": 0});
            all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            let _ = runtime.llm_call(&Call::new("hi", None, all)).await;
            embedder.warnings.borrow().join("|")
        };
        for (options, text) in [
            (json!({"provider": "openai", "idle_timeout": 3}), "option `idle_timeout` has no effect here: it belongs to `llm_stream`; use `timeout`"),
            (json!({"provider": "openai", "retries": 4, "repair": false}), "option `retries` has no effect here: it belongs to `llm_call_structured` and its variants; use `schema_retries`"),
            (json!({"provider": "openai", "repair": true}), "option `repair` has no effect here: it belongs to `llm_call_structured_result`"),
            (json!({"provider": "openai", "tool_choice": "required"}), "option `tool_choice` has no effect: the call has no tools"),
            (json!({"provider": "openai", "tool_choice": "auto"}), ""),
            (json!({"provider": "anthropic", "api_mode": "responses"}), "\"api_mode\" is not supported by provider \"anthropic\", ignoring"),
            (json!({"provider": "openai", "api_mode": "responses"}), ""),
            (json!({"provider": "local", "model": "qwen3-8b", "thinking": {"budget_tokens": 9}}), "\"thinking.budget_tokens\" is not supported by \"qwen3-8b\" (provider \"local\"), ignoring the number"),
            (json!({"provider": "local", "model": "qwen3-8b", "thinking": true}), ""),
            (json!({"provider": "anthropic", "thinking": {"budget_tokens": 2000}}), ""),
            (json!({"provider": "anthropic", "model": "claude-opus-4-7", "thinking": {"budget_tokens": 2000}}), "\"thinking.budget_tokens\" is not supported by \"claude-opus-4-7\" (provider \"anthropic\"), ignoring the number"),
        ] {
            assert_eq!(told(options.clone()).await, text, "{options}");
        }
        // Variants of the call use options that the call itself does not.
        let (runtime, embedder) = runtime(&[]);
        runtime.mock_push(&json!({"text": "{}"})).unwrap();
        runtime.mock_push(&json!({"text": "a"})).unwrap();
        let schema = json!({"type": "object"});
        let options = json!({"provider": "mock", "retries": 1, "repair": true});
        let envelope = runtime.llm_call_structured_result(&"x".into(), Some(&schema), &options).await;
        assert_eq!(envelope["ok"], json!(true));
        let call = Call::new("hi", None, json!({"provider": "mock", "idle_timeout": 3}));
        runtime.llm_stream(&call, &mut |_| {}).await.unwrap();
        assert_eq!(embedder.warnings.borrow().join("|"), "");
    })
    .await;
}

#[tokio::test]
async fn a_stream_falls_back_only_before_its_first_text() {
    local(async {
        let good = || {
            ok_json(&json!({"choices": [{"message": {"content": "from local"}, "finish_reason": "stop"}]}))
        };
        let local_server = Server::start(vec![good(), good()]).await;
        let started = stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
        let server = Server::start(vec![reply("500 Internal Server Error", "", "oops"), started]).await;
        let (runtime, _) =
            runtime(&[("OPENAI_API_KEY", "k-123456"), ("LOCAL_LLM_BASE_URL", &local_server.url)]);
        let layer = format!("[providers.openai]\nbase_url = \"{}\"", server.url);
        runtime.set_config_layers(vec![harn_llm::config::Layer { origin: "t".into(), toml: layer }]);
        let options = json!({"provider": "openai", "fallback_chain": "local:tiny", "llm_retries": 0});
        let mut seen = Vec::new();
        for _ in 0..2 {
            let call = Call::new("hi", None, options.clone());
            let mut deliver = |item| match item {
                harn_llm::runtime::StreamItem::Chunk(text) => seen.push(text),
                harn_llm::runtime::StreamItem::Result(_) => {}
                harn_llm::runtime::StreamItem::Failed(error) => {
                    seen.push(error.category().as_str().to_string())
                }
            };
            runtime.llm_stream(&call, &mut deliver).await.unwrap();
        }
        assert_eq!(seen, ["from local", "half", "transient_network"]);
    })
    .await;
}

#[tokio::test]
async fn a_route_is_tried_again_before_another_is_asked() {
    local(async {
        let good = ok_json(&json!({"choices": [{"message": {"content": "from local"}, "finish_reason": "stop"}]}));
        let other = Server::start(vec![good]).await;
        let busy = || reply("503 Service Unavailable", "", "busy");
        let bad = Server::start(vec![busy(), busy(), busy(), reply("401 Unauthorized", "", "who?")]).await;
        let (runtime, embedder) = runtime(&[("OPENAI_API_KEY", "k-123456"), ("LOCAL_LLM_BASE_URL", &other.url)]);
        let options = json!({"provider": "openai", "base_url": bad.url, "fallback_chain": "local:tiny", "llm_retries": 2,
                             "llm_backoff_ms": 1});
        let result = runtime.llm_call(&Call::new("hi", None, options.clone())).await.unwrap();
        assert_eq!((&result["text"], bad.count(), other.count()), (&json!("from local"), 3, 1));
        let told = embedder.warnings.borrow().join("\n");
        assert!(told.ends_with("llm_call: openai failed (server_error), local answers instead with tiny"), "{told}");
        // A terminal failure is not retried, and the fallback server no longer exists.
        let error = runtime.llm_call(&Call::new("hi", None, options)).await.unwrap_err();
        assert_eq!((error.category(), bad.count()), (Category::Auth, 4));
        let told = embedder.warnings.borrow().join("\n");
        assert!(told.contains("llm_call: openai failed (auth_failure), and local cannot answer instead with tiny: "), "{told}");
    })
    .await;
}

/// A typo must not send the prompt to the default provider.
#[tokio::test]
async fn a_slip_in_the_name_of_a_provider_sends_nothing() {
    local(async {
        let server = Server::start(vec![]).await;
        let (runtime, _) = runtime(&[("ANTHROPIC_API_KEY", "k-123456"), ("LOCAL_LLM_BASE_URL", &server.url)]);
        let layer = format!(
            "[providers.anthropic]\nbase_url = \"{0}\"\n[providers.acme]\nbase_url = \"{0}\"",
            server.url
        );
        runtime.set_config_layers(vec![harn_llm::config::Layer { origin: "t".into(), toml: layer }]);
        for (options, told) in [
            (
                json!({"provider": "local", "model": "m", "fallback_chain": ["opnai"]}),
                "did you mean `openai`?",
            ),
            (
                json!({"provider": "local", "model": "m", "fallback_chain": "acmee:good"}),
                "did you mean `acme`?",
            ),
            (json!({"model": "acmee:good"}), "did you mean `acme:good`?"),
            (json!({"provider": "auto", "model": "acmee:good"}), "did you mean `acme:good`?"),
            (json!({"route_policy": "always(acmee:good)"}), "did you mean `acme:good`?"),
            (json!({"provider": "antropic"}), "unknown provider `antropic` (did you mean `anthropic`?)"),
        ] {
            let error = runtime.llm_call(&Call::new("secret", None, options.clone())).await.unwrap_err();
            assert!(error.message().contains(told), "{options}: {}", error.message());
        }
        assert_eq!(server.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_key_of_a_call_is_sent_and_nowhere_else() {
    local(async {
        let good = |text: &str| {
            ok_json(&json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}))
        };
        let server = Server::start(vec![good("ok sk-of-call-1"), reply("500 Oops", "", "oops")]).await;
        let other = Server::start(vec![good("ok")]).await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "sk-of-env"), ("LOCAL_LLM_BASE_URL", &other.url)]);
        let said = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let (log, lines) = (said.clone(), said.clone());
        runtime.log_calls(true, move |line| log.borrow_mut().push_str(&line.to_string()));
        runtime.record_fixtures(move |line| lines.borrow_mut().push_str(line));
        let options = json!({"provider": "openai", "base_url": server.url, "stream": false, "api_key": "sk-of-call-1",
                             "fallback_chain": "local:tiny"});
        for _ in 0..2 {
            runtime.llm_call(&Call::new("hi", None, options.clone())).await.unwrap();
        }
        assert_eq!(server.request(0).header("authorization"), Some("Bearer sk-of-call-1"));
        assert_eq!(other.request(0).header("authorization"), None, "the key is openai's");
        assert!(!said.borrow().contains("sk-of"), "{}", said.borrow());
        let blank = runtime.llm_call(&Call::new("hi", None, json!({"api_key": " "}))).await.unwrap_err();
        assert_eq!(blank.message(), "api_key must be a string that is not blank, got string ` `");
    })
    .await;
}

#[tokio::test]
async fn a_broken_event_in_a_stream_is_an_error() {
    local(async {
        let piece =
            |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let broken = format!(
            "{}data: {{\"choices\":[{{\"delta\":{{\"content\":\"00 EUR\n\n{}{end}",
            piece("pay 1"),
            piece(" to Ada")
        );
        let whole = format!("{}{}{end}", piece("pay 100 EUR"), piece(" to Ada"));
        let server = Server::start(vec![stream(&broken), stream(&broken), stream(&whole)]).await;
        let error = ask(&server, "openai", json!({})).await.unwrap_err();
        assert_eq!(error.category(), Category::TransientNetwork);
        assert!(
            error.message().starts_with("openai stream error (body): an event is not valid JSON, "),
            "{}",
            error.message()
        );
        let result = ask(&server, "openai", json!({"llm_retries": 1, "llm_backoff_ms": 1})).await.unwrap();
        assert_eq!(result["text"], "pay 100 EUR to Ada");
    })
    .await;
}

/// A listener that can discard text receives the whole reply of the next attempt.
#[tokio::test]
async fn a_broken_stream_is_void_for_listeners_that_can_forget() {
    use harn_llm::runtime::Live;
    local(async {
        let started = || stream("data: {\"choices\":[{\"delta\":{\"content\":\"Good mor\"}}]}\n\n");
        let whole = || {
            stream(
                "data: {\"choices\":[{\"delta\":{\"content\":\"Good evening\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
            )
        };
        let server = Server::start(vec![started(), whole(), started()]).await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "k-123456")]);
        let options = json!({"provider": "openai", "base_url": server.url, "llm_retries": 1, "llm_backoff_ms": 1});
        let call = Call::new("hi", None, options);
        let mut heard = Vec::new();
        runtime.llm_turn_telling(&call, true, &mut |live| heard.push(live)).await.unwrap();
        let text = |text: &str| Live::Text(text.to_string());
        assert_eq!(heard, [text("Good mor"), Live::Void, text("Good evening")]);
        let mut heard = String::new();
        let error = runtime.call_live(&call, &mut |text| heard.push_str(&text)).await.unwrap_err();
        assert_eq!((heard.as_str(), error.category(), server.count()), ("Good mor", Category::TransientNetwork, 3));
    })
    .await;
}

/// Listeners receive a tool call while the model writes it.
#[tokio::test]
async fn calls_are_told_while_they_arrive() {
    use harn_llm::runtime::Live;
    local(async {
        let piece =
            |call: Value| format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
        let body = [
            piece(json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}})),
            piece(json!({"index": 0, "function": {"arguments": "{\"a\": 1"}})),
            piece(json!({"index": 0, "function": {"arguments": "}"}})),
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
                .to_owned(),
        ];
        let server = Server::start(vec![stream(&body.concat())]).await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "k-123456")]);
        let options = json!({"provider": "openai", "base_url": server.url, "tools": [{"name": "f"}]});
        let mut heard = Vec::new();
        let call = Call::new("hi", None, options);
        let result = runtime.llm_turn_telling(&call, true, &mut |live| heard.push(live)).await.unwrap();
        assert_eq!(result["tool_calls"][0]["arguments"], json!({"a": 1}));
        assert_eq!(heard[0], Live::CallOpens { id: "c1".to_owned(), name: "f".to_owned() });
        let written: String = heard[1..]
            .iter()
            .map(|live| match live {
                Live::CallGoesOn { arguments, .. } => arguments.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(written, "{\"a\": 1}");
    })
    .await;
}

#[tokio::test]
async fn an_empty_reply_names_its_server() {
    local(async {
        let body = json!({"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 7}});
        let server = Server::start(vec![ok_json(&body), ok_json(&body)]).await;
        let (runtime, embedder) = runtime(&[]);
        let toml = format!("[providers.acme]\nbase_url = \"{}\"\nchat_endpoint = \"/m\"\nwire = \"anthropic\"\nauth_style = \"none\"", server.url);
        runtime.set_config_layers(vec![harn_llm::config::Layer { origin: "t".into(), toml }]);
        let options = json!({"provider": "acme", "model": "m", "stream": false});
        let result = runtime.llm_call(&Call::new("hi", None, options)).await.unwrap();
        assert_eq!(result["stop_reason"], "empty");
        let traced = embedder.traces.borrow()[0]["error"].as_str().unwrap().to_owned();
        assert!(traced.starts_with("acme model m reported completion_tokens=7 but delivered no content"), "{traced}");
    })
    .await;
}

#[tokio::test]
async fn bedrock_requests_are_signed() {
    local(async {
        let body = json!({"output": {"message": {"role": "assistant", "content": [{"text": "hey"}]}}, "stopReason": "end_turn",
                          "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}});
        let server = Server::start(vec![ok_json(&body)]).await;
        let (runtime, _) = runtime(&[
            ("AWS_ACCESS_KEY_ID", "AKID"),
            ("AWS_SECRET_ACCESS_KEY", "verysecret"),
            ("AWS_REGION", "eu-west-1"),
            ("BEDROCK_BASE_URL", &server.url),
        ]);
        let options = json!({"provider": "bedrock", "model": "meta.llama3-8b:0"});
        let result = runtime.llm_call(&Call::new("hi", None, options)).await.unwrap();
        assert_eq!((&result["text"], &result["stop_reason"]), (&json!("hey"), &json!("end_turn")));
        let seen = server.request(0);
        assert_eq!(seen.line, "POST /model/meta.llama3-8b%3A0/converse-stream HTTP/1.1");
        let authorization = seen.header("authorization").unwrap();
        assert!(
            authorization
                .starts_with("AWS4-HMAC-SHA256 Credential=AKID/20231114/eu-west-1/bedrock/aws4_request")
        );
    })
    .await;
}

#[tokio::test]
async fn gemini_and_azure_have_their_own_addresses() {
    local(async {
        let sse = concat!(
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"he\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"y\"}]},\"finishReason\":\"STOP\"}]}\n\n"
        );
        let server = Server::start(vec![stream(sse), stream(OPENAI_STREAM)]).await;
        let (runtime, _) = runtime(&[
            ("GEMINI_API_KEY", "g-123456"),
            ("GEMINI_BASE_URL", &server.url),
            ("AZURE_OPENAI_ENDPOINT", &server.url),
            ("AZURE_OPENAI_API_KEY", "az-123456"),
        ]);
        let ask = |provider: &str, model: &str| Call::new("hi", None, json!({"provider": provider, "model": model}));
        assert_eq!(runtime.llm_call(&ask("gemini", "gemini-2.5-pro")).await.unwrap()["text"], "hey");
        let seen = server.request(0);
        assert_eq!(seen.line, "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse HTTP/1.1");
        assert_eq!(seen.header("x-goog-api-key"), Some("g-123456"));
        runtime.llm_call(&ask("azure_openai", "gpt-4o-prod")).await.unwrap();
        let seen = server.request(1);
        assert_eq!(
            seen.line,
            "POST /openai/deployments/gpt-4o-prod/chat/completions?api-version=2024-10-21 HTTP/1.1"
        );
        assert_eq!((seen.header("api-key"), seen.body.get("model")), (Some("az-123456"), None));
    })
    .await;
}

#[tokio::test]
async fn completions_use_their_endpoint_or_the_chat() {
    local(async {
        let done = json!({"choices": [{"text": " world", "finish_reason": "length"}], "usage": {"prompt_tokens": 2, "completion_tokens": 1}});
        let chat = json!({"choices": [{"message": {"content": "chatty"}, "finish_reason": "stop"}]});
        let generated = json!({"response": "x", "done": true, "done_reason": "stop", "eval_count": 1});
        let server = Server::start(vec![
            ok_json(&done),
            reply("404 Not Found", "", "gone"),
            ok_json(&chat),
            ok_json(&generated),
        ])
        .await;
        let (runtime, _) = runtime(KEYS);
        let complete = |provider: &str, suffix: &str| harn_llm::runtime::Completion {
            prefix: "hello".into(),
            suffix: suffix.into(),
            system: None,
            options: json!({"provider": provider, "base_url": server.url, "max_tokens": 5}),
        };
        let result = runtime.llm_completion(&complete("openai", ";")).await.unwrap();
        assert_eq!((&result["text"], &result["stop_reason"]), (&json!(" world"), &json!("max_tokens")));
        assert_eq!(server.request(0).line, "POST /completions HTTP/1.1");
        assert_eq!(
            server.request(0).body,
            json!({"model": "gpt-4o", "prompt": "hello", "suffix": ";", "max_tokens": 5})
        );
        let result = runtime.llm_completion(&complete("openai", "")).await.unwrap();
        assert_eq!(result["text"], "chatty");
        assert_eq!(server.request(2).body["messages"][1]["content"], "PREFIX:\nhello");
        runtime.llm_completion(&complete("ollama", "")).await.unwrap();
        let seen = server.request(3);
        assert_eq!((seen.line.as_str(), &seen.body["raw"]), ("POST /api/generate HTTP/1.1", &json!(true)));
        assert_eq!(seen.body["options"]["num_predict"], 5);
    })
    .await;
}

#[tokio::test]
async fn recorded_exchanges_replay_without_a_server() {
    local(async {
        let server = Server::start(vec![
            stream(OPENAI_STREAM),
            reply("429 Too Many Requests", "retry-after: 1\r\n", "x"),
        ])
        .await;
        let (recording, _) = runtime(KEYS);
        let tape = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let sink = tape.clone();
        recording.record_exchanges(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let first = ask_with(&recording, &server, "openai", json!({})).await.unwrap();
        let failed = llm_error(ask_with(&recording, &server, "openai", json!({"seed": 1})).await);
        assert!(!tape.borrow().contains("sk-open-1234"));

        let (replaying, _) = runtime(&[]);
        replaying.replay_exchanges(&tape.borrow()).unwrap();
        let again = ask_with(&replaying, &server, "openai", json!({})).await.unwrap();
        assert_eq!(again, first);
        let error = llm_error(ask_with(&replaying, &server, "openai", json!({"seed": 1})).await);
        assert_eq!(error, failed);
        let error = llm_error(ask_with(&replaying, &server, "openai", json!({"seed": 2})).await);
        assert!(
            error.message.contains("nearest recorded request") && error.message.contains("+ body.seed: 2"),
            "{error}"
        );
        assert_eq!((replaying.unused_exchanges(), server.count()), (0, 2));
    })
    .await;
}

#[tokio::test]
async fn health_checks_tell_what_is_wrong() {
    local(async {
        let models = json!({"data": [{"id": "gpt-4o-2024"}]});
        let tags = json!({"models": [{"name": "llama3.2:latest"}]});
        let server = Server::start(vec![
            ok_json(&models),
            ok_json(&models),
            ok_json(&models),
            reply("401 Unauthorized", "", "no sk-open-1234"),
            ok_json(&tags),
        ])
        .await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "sk-open-1234"), ("OLLAMA_HOST", &server.url)]);
        let layer = format!("[providers.openai]\nbase_url = \"{}\"", server.url);
        runtime.set_config_layers(vec![harn_llm::config::Layer { origin: "t".into(), toml: layer }]);
        let reason = |v: &Value| v["metadata"]["reason"].clone();
        assert_eq!(reason(&runtime.healthcheck("openai", &Value::Null).await), "ok");
        let found = runtime.healthcheck("openai", &json!({"model": "gpt-4o"})).await;
        assert_eq!((&found["valid"], &found["metadata"]["category"]), (&json!(true), &json!("ok")));
        let missing = runtime.healthcheck("openai", &json!({"model": "gpt-9"})).await;
        assert_eq!(missing["metadata"]["category"], "model_missing");
        let refused = runtime.healthcheck("openai", &Value::Null).await;
        assert_eq!((reason(&refused), &refused["metadata"]["status"]), (json!("http_status"), &json!(401)));
        assert_eq!(refused["metadata"]["body"], "no ***");
        let ollama = runtime.healthcheck("ollama", &json!({"model": "llama3.2"})).await;
        assert_eq!((&ollama["status"], &ollama["matched_model"]), (&json!("ok"), &json!("llama3.2:latest")));
        let unknown = runtime.healthcheck("zzz", &Value::Null).await;
        assert_eq!(
            (reason(&unknown), &unknown["message"]),
            (json!("unknown_provider"), &json!("Unknown provider: zzz"))
        );
        assert_eq!(reason(&runtime.healthcheck("groq", &Value::Null).await), "missing_credentials");
        let warm = runtime.healthcheck("ollama", &json!({"warm": true})).await;
        assert_eq!((&warm["valid"], &warm["status"]), (&json!(false), &json!("invalid_request")));
    })
    .await;
}

#[tokio::test]
async fn disabled_calls_disable_probes_as_well() {
    local(async {
        let server = Server::start(vec![]).await;
        let (runtime, _) = runtime(&[
            ("HARN_LLM_CALLS_DISABLED", "1"),
            ("OPENAI_API_KEY", "k"),
            ("OLLAMA_HOST", &server.url),
            ("LOCAL_LLM_BASE_URL", &server.url),
        ]);
        for (provider, options, at, word) in [
            ("local", Value::Null, "/metadata/reason", "request_failed"),
            ("local", json!({"model": "m"}), "/metadata/category", "unreachable"),
            ("ollama", json!({"model": "m", "warm": true}), "/status", "daemon_down"),
        ] {
            let verdict = runtime.healthcheck(provider, &options).await;
            assert_eq!(verdict.pointer(at), Some(&json!(word)), "{verdict}");
            assert_eq!(verdict["valid"], false);
            let message = verdict["message"].as_str().unwrap();
            assert!(message.contains("disabled by HARN_LLM_CALLS_DISABLED"), "{message}");
        }
        assert_eq!(server.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn ollama_is_asked_where_nothing_is_lost() {
    local(async {
        let long = "word ".repeat(2000);
        let plain = "POST /v1/chat/completions HTTP/1.1";
        let native = "POST /api/chat HTTP/1.1";
        let ask = |system: &str, options: Value, prompt: &str| {
            let (system, prompt) = (system.to_string(), prompt.to_string());
            async move {
                let server = Server::start(vec![reply("500 Busy", "", "no")]).await;
                let (runtime, embedder) = runtime(&[("OLLAMA_HOST", &server.url)]);
                let mut all = json!({"provider": "ollama", "model": "llama3.2", "llm_retries": 0});
                all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
                let system = Some(system.as_str()).filter(|s| !s.is_empty());
                runtime.llm_call(&Call::new(prompt, system, all)).await.unwrap_err();
                let warnings = embedder.warnings.borrow().join("\n");
                (server.request(0), warnings)
            }
        };
        let (seen, _) = ask("", json!({}), "hi").await;
        assert_eq!(seen.line, plain);
        assert_eq!(seen.body["options"]["num_ctx"], 32768);
        assert_eq!(ask("", json!({}), &long).await.0.line, native);
        assert_eq!(ask(&long, json!({}), "hi").await.0.line, native, "the system text is part of the prompt");
        let (seen, warnings) = ask("", json!({"top_k": 5}), "hi").await;
        assert_eq!((seen.line.as_str(), &seen.body["options"]["top_k"]), (native, &json!(5)));
        assert_eq!(warnings, "");
        let (seen, warnings) = ask("", json!({"frequency_penalty": 0.5}), "hi").await;
        assert_eq!((seen.line.as_str(), seen.body.get("frequency_penalty")), (plain, None));
        assert_eq!(warnings, "\"frequency_penalty\" is not supported by provider \"ollama\", ignoring");
    })
    .await;
}

/// If reply formats and tools exclude each other, the answer comes through a separate tool.
#[tokio::test]
async fn answers_come_through_a_tool_beside_other_tools() {
    local(async {
        let turn = |parts: Value| json!({"choices": [{"finish_reason": "tool_calls", "message": parts}]});
        let call = |id: &str, name: &str, arguments: &str| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        };
        let answer = call("c2", "json_response", "{\"answer\": 5}");
        let server = Server::start(vec![
            ok_json(&turn(json!({"content": "One moment.", "tool_calls": [call("c1", "add", "{\"answer\": 2}"), answer]}))),
            ok_json(&turn(json!({"content": "Here it is.", "tool_calls": [answer]}))),
            ok_json(&turn(json!({"content": null, "tool_calls": [call("c3", "json_response", "{\"answer\": \"x\"}")]}))),
            ok_json(&turn(json!({"content": "{\"answer\": 7}"}))),
        ])
        .await;
        let options = json!({
            "stream": false, "model": "llama-3.3-70b-versatile", "api_key": "k", "tool_format": "native", "api_key": "k",
            "tools": [{"name": "add", "description": "Add", "parameters": {"answer": "int"}}],
            "schema": {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]},
        });
        // With another call, the turn is not over.
        let first = ask(&server, "groq", options.clone()).await.unwrap();
        assert_eq!((first.get("data"), &first["tool_calls"][0]["name"]), (None, &json!("add")));
        assert_eq!(first["tool_calls"].as_array().unwrap().len(), 1);
        let sent = &server.request(0).body;
        let names: Vec<&str> =
            sent["tools"].as_array().unwrap().iter().map(|t| t["function"]["name"].as_str().unwrap()).collect();
        assert_eq!((names, sent.get("response_format")), (vec!["add", "json_response"], None));
        assert_eq!(sent["tools"][1]["function"]["parameters"]["required"], json!(["answer"]));
        // Text before the answer does not hide it.
        let second = ask(&server, "groq", options.clone()).await.unwrap();
        assert_eq!(second["data"], json!({"answer": 5}));
        assert_eq!(second["stop_reason"], "end_turn");
        // An invalid answer is requested again, and may then also be text.
        let third = ask(&server, "groq", options).await.unwrap();
        assert_eq!(third["data"], json!({"answer": 7}));
    })
    .await;
}
