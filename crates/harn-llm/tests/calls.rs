//! Calls answered by the mock: the contract of result dicts, capability checks, rounds, budgets, streams.
use crate::support::*;
use harn_llm::runtime::{Completion, StreamItem};
use harn_llm::{Call, CallError, LlmRuntime};
use harn_value::{Data as Value, json};

async fn call(runtime: &LlmRuntime, prompt: &str, options: Value) -> Result<Value, CallError> {
    runtime.llm_call(&Call::new(prompt, None, options)).await
}

fn mocks(runtime: &LlmRuntime, list: &[Value]) {
    list.iter().for_each(|dict| runtime.mock_push(dict).unwrap());
}

fn message(result: Result<Value, CallError>) -> String {
    result.unwrap_err().message().to_string()
}

#[tokio::test]
async fn the_unscripted_mock_echoes() {
    let (runtime, _) = runtime(&[]);
    let result = call(&runtime, "Hello world", json!({"provider": "mock"})).await.unwrap();
    assert_eq!(result["prose"], "Mock response to 2-word prompt: Hello world");
    assert_eq!((&result["provider"], &result["model"]), (&json!("mock"), &json!("claude-sonnet-4-20250514")));
    assert_eq!(result["transcript"]["state"], "active");
    assert_eq!(result["transcript"]["messages"].as_array().unwrap().len(), 2);
    let calls = runtime.mock_calls();
    assert_eq!(
        calls,
        [json!({"messages": [{"role": "user", "content": "Hello world"}], "system": null, "tools": null,
                "thinking": {"mode": "disabled"}})]
    );
}

#[tokio::test]
async fn a_queue_answers_for_every_provider_without_keys_or_gates() {
    let (runtime, _) = runtime(&[("HARN_LLM_CALLS_DISABLED", "1")]);
    mocks(
        &runtime,
        &[json!({"text": "a", "tool_calls": [{"name": "t", "arguments": {"k": 1}}], "stop_reason": "stop"})],
    );
    let result =
        call(&runtime, "x", json!({"provider": "anthropic", "reasoning_effort": "low"})).await.unwrap();
    assert_eq!(
        (&result["text"], &result["provider"], &result["stop_reason"]),
        (&json!("a"), &json!("mock"), &json!("stop"))
    );
    assert_eq!(
        result["tool_calls"],
        json!([{"id": "mock_call_1", "name": "t", "arguments": {"k": 1}, "type": "tool_call"}])
    );
    let error = message(call(&runtime, "x", json!({"provider": "openai"})).await);
    assert_eq!(
        error,
        "LLM calls are disabled by HARN_LLM_CALLS_DISABLED; provider `openai` would make a real LLM request"
    );
}

#[tokio::test]
async fn a_queue_that_runs_dry_leaves_the_key_missing() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "no json"})]);
    let options = json!({"provider": "openai", "response_format": "json"});
    let error = call(&runtime, "x", options).await.unwrap_err();
    assert_eq!(error.category().as_str(), "auth");
    assert!(error.message().starts_with("Missing API key: set OPENAI_API_KEY"), "{error}");
}

#[tokio::test]
async fn gates_close_in_order() {
    let (runtime, _) = runtime(KEYS);
    let gate = |name: &str, model: &str, provider: &str| {
        format!(
            "option `{name}` is not supported by `{model}` (provider `{provider}`). If the model supports it, add to harn.toml:\n\
             [[capabilities.provider.{provider}]]\nmodel_match = \"{model}\"\n"
        )
    };
    for (name, options) in [
        ("reasoning_effort", json!({"reasoning_effort": "low", "cache": true})),
        ("thinking", json!({"thinking": true})),
        ("interleaved_thinking", json!({"interleaved_thinking": true})),
    ] {
        let mut o = options.clone();
        o["provider"] = "openai".into();
        let said = message(call(&runtime, "x", o).await);
        assert!(said.starts_with(&gate(name, "gpt-4o", "openai")), "{said}");
    }
    let o = json!({"provider": "mock", "model": "gpt-4o", "thinking": true});
    assert!(message(call(&runtime, "x", o).await).starts_with(&gate("thinking", "gpt-4o", "mock")));
    // A thinking mode is converted to another one that the model supports, and an explicit option for native tools is
    // always honoured.
    for o in [
        json!({"provider": "mock", "model": "gpt-5", "thinking": true}),
        json!({"provider": "mock", "model": "nobody", "tools": [{"name": "t"}], "tool_format": "native"}),
    ] {
        assert!(call(&runtime, "x", o.clone()).await.is_ok(), "{o}");
    }
}

#[tokio::test]
async fn a_missing_key_is_an_option_error_with_category_auth() {
    let (runtime, _) = runtime(&[]);
    let safe = runtime.llm_call_safe(&Call::new("x", None, json!({"provider": "groq", "model": "m"}))).await;
    assert_eq!((&safe["ok"], &safe["error"]["category"]), (&json!(false), &json!("auth")));
    assert!(safe["error"]["message"].as_str().unwrap().starts_with("Missing API key: set GROQ_API_KEY"));
    let safe = runtime.llm_call_safe(&Call::new("x", None, json!({"response_format": "xml"}))).await;
    assert_eq!(safe["error"]["reason"], "unknown");
    let error = message(call(&runtime, "x", json!({"provider": "zzz", "model": "m"})).await);
    assert!(error.starts_with("llm_call: unknown provider `zzz`; known providers: anthropic, "), "{error}");
}

#[tokio::test]
async fn transient_mock_errors_are_retried_without_waiting() {
    let (runtime, embedder) = runtime(&[]);
    mocks(
        &runtime,
        &[
            json!({"error": {"category": "overloaded", "message": "busy", "retry_after_ms": 900}}),
            json!({"error": {"category": "server_error", "message": "delivered no content completion_tokens=3"}}),
            json!({"text": "done"}),
        ],
    );
    let result = call(&runtime, "x", json!({"provider": "mock", "llm_retries": 2})).await.unwrap();
    assert_eq!(result["text"], "done");
    assert!(embedder.waits.borrow().is_empty());
    let traces = embedder.traces.borrow().clone();
    assert_eq!(
        (traces[0]["type"].as_str(), &traces[0]["attempt"]),
        (Some("empty_completion_retry"), &json!(2))
    );
    assert_eq!(runtime.mock_calls().len(), 3);
    mocks(
        &runtime,
        &[json!({"error": {"category": "rate_limit", "message": "slow", "retry_after_ms": 500}})],
    );
    let error = call(&runtime, "x", json!({"provider": "mock"})).await.unwrap_err().to_thrown();
    assert_eq!(
        error,
        json!({"category": "rate_limit", "kind": "transient", "reason": "rate_limit", "message": "slow\nretry-after: 0.5",
               "provider": "mock", "model": "claude-sonnet-4-20250514", "retry_after_ms": 500})
    );
}

#[tokio::test]
async fn text_tools_are_described_and_parsed() {
    let (runtime, _) = runtime(&[]);
    let reply = "<assistant_prose>hey</assistant_prose>\n<tool_call>\nread({ path: \"x\" })\n</tool_call>\n<done>##DONE##</done>";
    mocks(&runtime, &[json!({"text": reply})]);
    let tools = json!([{"name": "read", "parameters": {"path": "string"}}]);
    let result = call(&runtime, "x", json!({"provider": "mock", "tools": tools, "tool_format": "text"}))
        .await
        .unwrap();
    assert_eq!(result["tool_calls"][0]["arguments"], json!({"path": "x"}));
    assert_eq!((&result["prose"], &result["visible_text"]), (&json!("hey"), &json!("hey")));
    assert_eq!((&result["done_marker"], result.get("protocol_violations")), (&json!("##DONE##"), None));
    let recorded = &runtime.mock_calls()[0];
    assert_eq!(recorded["tools"], Value::Null);
    assert!(recorded["system"].as_str().unwrap().contains("declare function read"));
}

#[tokio::test]
async fn deferred_tools_travel_by_the_plan() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "a", "match": "*"})]);
    let tools = json!([{"name": "look"}, {"name": "deploy", "defer_loading": true}]);
    let o = |model: &str| json!({"provider": "mock", "model": model, "tools": tools, "tool_search": true});
    let native = |n: usize| runtime.mock_calls()[n]["tools"].clone();
    call(&runtime, "x", o("claude-opus-4-7")).await.unwrap();
    assert_eq!(native(0)[0]["type"], "tool_search_tool_bm25_20251119");
    call(&runtime, "x", o("gpt-5.4")).await.unwrap();
    assert_eq!(native(1)[0], json!({"type": "tool_search", "execution": "server"}));
    let default = json!({"provider": "mock", "tools": tools, "tool_search": true});
    call(&runtime, "x", default).await.unwrap();
    assert_eq!(native(2)[0]["function"]["name"], "__harn_tool_search");
    assert_eq!(native(2).as_array().unwrap().len(), 2);
}

fn verdict_schema() -> Value {
    json!({"type": "dict", "properties": {"ok": {"type": "bool"}}, "required": ["ok"]})
}

#[tokio::test]
async fn structured_calls_correct_themselves() {
    let (runtime, embedder) = runtime(&[]);
    mocks(
        &runtime,
        &[json!({"text": "no json"}), json!({"text": "{}"}), json!({"text": "sure: {\"ok\": true}"})],
    );
    let data = runtime
        .llm_call_structured(&"judge".into(), Some(&verdict_schema()), &json!({"provider": "mock"}))
        .await;
    assert_eq!(data.unwrap(), json!({"ok": true}));
    let calls = runtime.mock_calls();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1]["messages"].as_array().unwrap().len(), 2);
    assert!(calls[2]["messages"][1]["content"].as_str().unwrap().contains("missing required key 'ok'"));
    let retries = embedder.traces.borrow().iter().filter(|t| t["type"] == "schema_retry").count();
    assert_eq!(retries, 2);
}

#[tokio::test]
async fn structured_failures_have_their_category() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "{}", "match": "*"})]);
    let options = json!({"provider": "mock", "retries": 0});
    let safe = runtime.llm_call_structured_safe(&"x".into(), Some(&verdict_schema()), &options).await;
    assert_eq!(safe["error"]["category"], "schema_validation");
    let text = safe["error"]["message"].as_str().unwrap();
    assert!(
        text.starts_with("LLM output failed schema validation: at root: missing required key 'ok' (hint: "),
        "{text}"
    );
    let safe = runtime.llm_call_structured_safe(&"x".into(), None, &options).await;
    assert_eq!(
        safe["error"]["message"],
        "llm_call_structured: missing required `schema` argument (expected (prompt, schema, options?))"
    );
    let safe = runtime.llm_call_structured_safe(&"x".into(), Some(&json!("s")), &options).await;
    assert_eq!(
        safe["error"]["message"],
        "llm_call_structured: `schema` must be a dict (JSON Schema), got string"
    );
}

#[tokio::test]
async fn the_envelope_tells_what_happened() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "{}"}), json!({"text": "```json\n{\"ok\": true}\n```"})]);
    let options = json!({"provider": "mock", "retries": 0, "repair": true});
    let envelope = runtime.llm_call_structured_result(&"x".into(), Some(&verdict_schema()), &options).await;
    assert_eq!(
        (&envelope["ok"], &envelope["repaired"], &envelope["attempts"]),
        (&json!(true), &json!(true), &json!(1))
    );
    assert_eq!((&envelope["extracted_json"], &envelope["error"]), (&json!(true), &json!("")));
    assert_eq!(runtime.mock_calls().len(), 2);
    runtime.mock_clear();
    mocks(&runtime, &[json!({"text": "nope", "match": "*"})]);
    let envelope = runtime
        .llm_call_structured_result(
            &"x".into(),
            Some(&verdict_schema()),
            &json!({"provider": "mock", "retries": 1}),
        )
        .await;
    assert_eq!((&envelope["error_category"], &envelope["attempts"]), (&json!("missing_json"), &json!(2)));
    let envelope = runtime.llm_call_structured_result(&"x".into(), None, &Value::Null).await;
    assert_eq!((&envelope["error_category"], &envelope["attempts"]), (&json!("generic"), &json!(0)));
}

#[tokio::test]
async fn budgets_refuse_before_and_report_after() {
    let (runtime, _) = runtime(&[]);
    mocks(
        &runtime,
        &[
            json!({"text": "a", "match": "*", "model": "gpt-4o-mini", "input_tokens": 1000, "output_tokens": 500}),
        ],
    );
    let error = call(&runtime, "x", json!({"provider": "mock", "budget": {"max_cost_usd": 0.0001}}))
        .await
        .unwrap_err();
    let dict = error.to_thrown();
    assert_eq!((&dict["category"], &dict["limit"]), (&json!("budget_exceeded"), &json!("max_cost_usd")));
    assert!(
        dict["message"]
            .as_str()
            .unwrap()
            .starts_with("LLM budget exceeded before provider call: projected cost $0.245775")
    );
    assert!(runtime.mock_calls().is_empty());
    call(&runtime, "x", json!({"provider": "mock"})).await.unwrap();
    let cost = runtime.ledger().session_json();
    assert!((cost["total_cost"].as_f64().unwrap() - 0.00045).abs() < 1e-12);
    assert_eq!((&cost["call_count"], &cost["input_tokens"]), (&json!(1), &json!(1000)));
}

#[tokio::test]
async fn rate_limits_delay_every_attempt() {
    let (runtime, embedder) = runtime(&[("HARN_RATE_LIMIT_MOCK", "1")]);
    for _ in 0..2 {
        call(&runtime, "x", json!({"provider": "mock"})).await.unwrap();
    }
    assert_eq!(*embedder.waits.borrow(), [60_000]);
    assert_eq!(runtime.rate_limit("mock"), Some(1));
    runtime.set_rate_limit("mock", 0);
    assert_eq!(runtime.rate_limit("mock"), None);
}

#[tokio::test]
async fn streams_deliver_words_chunks_or_an_error() {
    let (runtime, _) = runtime(&[]);
    async fn run(runtime: &LlmRuntime, prompt: &str) -> Vec<String> {
        let mut out = Vec::new();
        let call = Call::new(prompt, None, json!({"provider": "mock"}));
        let mut deliver = |item| match item {
            StreamItem::Chunk(text) => out.push(text),
            StreamItem::Result(_) => {}
            StreamItem::Failed(error) => out.push(format!("failed: {}", error.message())),
        };
        runtime.llm_stream(&call, &mut deliver).await.unwrap();
        out
    }
    assert_eq!(run(&runtime, "one two three").await, ["one", "two", "three"]);
    mocks(
        &runtime,
        &[
            json!({"text": "a b  c"}),
            json!({"chunks": ["x<thi", "nk>no</think>", "y"]}),
            json!({"error": {"category": "auth", "message": "bad"}}),
        ],
    );
    assert_eq!(run(&runtime, "x").await, ["a ", "b  ", "c"]);
    assert_eq!(run(&runtime, "x").await, ["x", "y"]);
    assert_eq!(run(&runtime, "x").await, ["failed: bad"]);
    assert_eq!(runtime.mock_calls().len(), 4);
}

#[tokio::test]
async fn completions_of_the_mock() {
    let (runtime, _) = runtime(&[]);
    let complete = |prefix: &str, suffix: &str| Completion {
        prefix: prefix.into(),
        suffix: suffix.into(),
        system: None,
        options: json!({"provider": "mock"}),
    };
    let result = runtime.llm_completion(&complete("let é = ", ";")).await.unwrap();
    assert_eq!(result["text"], "Mock completion after 8 chars before 1 chars");
    assert_eq!(
        (&result["input_tokens"], &result["output_tokens"], &result["stop_reason"]),
        (&json!(10), &json!(16), &json!("stop"))
    );
    assert!(result.get("transcript").is_none());
    mocks(&runtime, &[json!({"text": "queued", "match": "*tail*"})]);
    assert_eq!(runtime.llm_completion(&complete("head", "tail")).await.unwrap()["text"], "queued");
}

#[tokio::test]
async fn transcripts_continue_and_carry_their_summary() {
    let (runtime, _) = runtime(&[]);
    let first = call(&runtime, "Plan", json!({"provider": "mock"})).await.unwrap();
    let mut transcript = first["transcript"].clone();
    transcript["summary"] = "We plan.".into();
    let second =
        call(&runtime, "Continue", json!({"provider": "mock", "transcript": transcript})).await.unwrap();
    assert_eq!(second["transcript"]["messages"].as_array().unwrap().len(), 4);
    assert_eq!(second["transcript"]["id"], transcript["id"]);
    let recorded = &runtime.mock_calls()[1];
    assert_eq!(recorded["system"], "Conversation summary:\nWe plan.");
    assert_eq!(recorded["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn transcripts_are_summarised_and_compacted() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "In short.", "match": "*"})]);
    let messages: Vec<Value> = (0..8)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": format!("m{n}")}))
        .collect();
    let t = harn_llm::transcript::from_messages(&messages.into(), &|| "i".to_string()).unwrap();
    let options = json!({"provider": "mock", "keep_last": 2});
    let short = runtime.transcript_summarize(&t, &options).await.unwrap();
    assert_eq!((&short["summary"], &short["archived_messages"]), (&json!("In short."), &json!(6)));
    let options = json!({"provider": "mock", "keep_last": 2, "strategy": "llm"});
    let done = runtime.transcript_compact(&t, &options, &|_, _| unreachable!()).await.unwrap();
    assert_eq!(done.transcript["messages"][0]["content"], "[auto-compacted 6 older messages]\nIn short.");
    assert_eq!(done.metadata.unwrap()["archived_messages"], 6);
}

#[tokio::test]
async fn experiments_are_applied_and_recorded() {
    let (runtime, _) = runtime(&[]);
    let o = json!({"provider": "mock", "structural_experiment": "doubled_prompt"});
    let result = call(&runtime, "x", o).await.unwrap();
    assert_eq!(runtime.mock_calls()[0]["messages"].as_array().unwrap().len(), 3);
    let payload = result["transcript"]["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(payload["metadata"]["structural_experiment"]["name"], "doubled_prompt");
    let o = json!({"provider": "mock", "structural_experiment": "zzz"});
    assert_eq!(message(call(&runtime, "x", o).await), "unknown structural experiment `zzz`");
}

#[tokio::test]
async fn fixtures_and_the_call_log_hold_what_happened() {
    let (first, _) = runtime(&[]);
    let lines = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
    let log = std::rc::Rc::new(std::cell::RefCell::new(Vec::<Value>::new()));
    let (line_sink, log_sink) = (lines.clone(), log.clone());
    first.record_fixtures(move |line| line_sink.borrow_mut().push(line.to_string()));
    first.log_calls(true, move |line| log_sink.borrow_mut().push(line.clone()));
    let made = call(&first, "hello", json!({"provider": "mock", "system": "s"})).await.unwrap();
    let kinds: Vec<String> = log.borrow().iter().map(|l| l["type"].as_str().unwrap().to_string()).collect();
    assert_eq!(
        kinds,
        [
            "system_prompt",
            "message",
            "provider_call_request",
            "provider_call_response",
            "interpreted_response"
        ]
    );
    assert_eq!(log.borrow()[0]["timestamp"], "1700000000.000");
    let (second, _) = runtime(&[]);
    second.replay_fixtures(harn_llm::mock::parse_fixtures("f", &lines.borrow().join("\n")).unwrap());
    let replayed = call(&second, "hello", json!({"provider": "anthropic"})).await.unwrap();
    assert_eq!((&replayed["text"], &replayed["usage"]), (&made["text"], &made["usage"]));
    let error = message(call(&second, "again", json!({})).await);
    assert_eq!(error, "No --llm-mock fixture matched prompt: \"again\"; all replies of the file are used");
}

#[tokio::test]
async fn values_of_the_environment_that_are_none_are_told() {
    let (runtime, embedder) = runtime(&[
        ("HARN_LLM_TIMEOUT", "abc"),
        ("HARN_LLM_STREAM", "banana"),
        ("HARN_LLM_CALLS_DISABLED", "maybe"),
        ("HARN_RATE_LIMIT_LOCAL", "abc"),
        ("HARN_OLLAMA_NUM_CTX", "big"),
    ]);
    let error = message(call(&runtime, "x", json!({"provider": "local", "model": "m"})).await);
    assert!(error.contains("LLM calls are disabled by HARN_LLM_CALLS_DISABLED"), "{error}");
    let mut told = embedder.warnings.borrow().clone();
    told.sort();
    assert_eq!(
        told,
        [
            "HARN_LLM_CALLS_DISABLED must be 1 or 0, got `maybe`; it counts as 1",
            "HARN_LLM_STREAM must be 1 or 0, got `banana`; it counts as 1",
            "HARN_LLM_TIMEOUT must be a duration such as 500ms or a number of seconds above 0, got `abc`; it has no effect",
            "HARN_OLLAMA_NUM_CTX must be a whole number of at least 1, got `big`; it has no effect",
            "HARN_RATE_LIMIT_LOCAL must be a whole number of at least 0, got `abc`; it has no effect",
        ]
    );
}

#[tokio::test]
async fn a_limit_of_the_environment_is_a_duration_too() {
    let (runtime, embedder) = runtime(&[("HARN_LLM_TIMEOUT", "500ms"), ("HARN_LLM_IDLE_TIMEOUT", "2m")]);
    let prepared = runtime.prepare(&Call::new("x", None, json!({"provider": "mock"}))).unwrap();
    assert_eq!(prepared.request.timeout, std::time::Duration::from_millis(500));
    assert_eq!(prepared.idle_timeout, std::time::Duration::from_secs(120));
    assert!(embedder.warnings.borrow().is_empty());
}

#[tokio::test]
async fn vertex_needs_a_project() {
    let options = json!({"provider": "vertex", "model": "gemini-2.5-pro"});
    let (bare, _) = runtime(&[("VERTEX_AI_ACCESS_TOKEN", "t")]);
    assert_eq!(
        message(call(&bare, "x", options.clone()).await),
        "vertex: no project: set VERTEX_AI_PROJECT or GOOGLE_CLOUD_PROJECT environment variable"
    );
    let (named, _) = runtime(&[("VERTEX_AI_ACCESS_TOKEN", "t"), ("GOOGLE_CLOUD_PROJECT", "p1")]);
    let prepared = named.prepare(&Call::new("x", None, options)).unwrap();
    assert!(prepared.request.route.endpoint.starts_with("/projects/p1/locations/us-central1/"));
}

/// The chunks of the mock's streamed default reply match its result and its replayed recording.
#[tokio::test]
async fn a_stream_of_the_mock_is_what_its_result_and_its_recording_say() {
    async fn run(runtime: &LlmRuntime) -> (Vec<String>, Value) {
        let (mut pieces, mut result) = (Vec::new(), Value::Null);
        let call = Call::new("tell me a story", None, json!({"provider": "mock"}));
        let mut deliver = |item| match item {
            StreamItem::Chunk(text) => pieces.push(text),
            StreamItem::Result(dict) => result = *dict,
            StreamItem::Failed(error) => panic!("{}", error.message()),
        };
        runtime.llm_stream(&call, &mut deliver).await.unwrap();
        (pieces, result["text"].clone())
    }
    let (first, _) = runtime(&[]);
    let lines = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
    let sink = lines.clone();
    first.record_fixtures(move |line| sink.borrow_mut().push(line.to_string()));
    let made = run(&first).await;
    assert_eq!(made.0, ["tell", "me", "a", "story"]);
    assert_eq!(made.1, "tellmeastory");
    let (second, _) = runtime(&[]);
    second.replay_fixtures(harn_llm::mock::parse_fixtures("f", &lines.borrow().join("\n")).unwrap());
    assert_eq!(run(&second).await, made);
}

/// Lines are written as replies finish. Replay returns each call its own reply, even if some prompts were edited since.
#[tokio::test]
async fn recorded_replies_go_to_the_calls_they_came_from() {
    let (first, _) = runtime(&[]);
    let lines = std::rc::Rc::new(std::cell::RefCell::new(Vec::<String>::new()));
    let sink = lines.clone();
    first.record_fixtures(move |line| sink.borrow_mut().push(line.to_string()));
    let missing = message(call(&first, "zero", json!({"provider": "openai"})).await);
    assert!(missing.starts_with("Missing API key: "), "{missing}");
    for prompt in ["one", "two", "three"] {
        call(&first, prompt, json!({"provider": "mock"})).await.unwrap();
    }
    let mut recorded = lines.borrow().clone();
    assert!(recorded[0].contains("\"refused\""), "{}", recorded[0]);
    recorded.reverse();
    let replay = async |prompts: [&str; 4]| {
        let (second, _) = runtime(&[]);
        second.replay_fixtures(harn_llm::mock::parse_fixtures("f", &recorded.join("\n")).unwrap());
        let mut got = Vec::new();
        for prompt in prompts {
            let result = call(&second, prompt, json!({"provider": "openai"})).await;
            got.push(
                result.map_or_else(|e| e.message().to_owned(), |r| r["text"].as_str().unwrap().to_owned()),
            );
        }
        got
    };
    let said = |text: &str| format!("Mock response to 1-word prompt: {text}");
    assert_eq!(
        replay(["zero", "one", "two", "three"]).await,
        [missing.clone(), said("one"), said("two"), said("three")]
    );
    assert_eq!(
        replay(["zero", "three", "one", "two"]).await,
        [missing.clone(), said("three"), said("one"), said("two")]
    );
    assert_eq!(
        replay(["zero", "three", "uno", "two"]).await,
        [missing, said("three"), said("one"), said("two")]
    );
}

#[tokio::test]
async fn system_messages_move_where_a_format_has_no_role_for_them() {
    let (runtime, _) = runtime(&[]);
    mocks(&runtime, &[json!({"text": "a", "match": "*"})]);
    let o = json!({"provider": "anthropic", "system": "base", "messages": [
        {"role": "system", "content": "late"}, {"role": "user", "content": "u"}]});
    call(&runtime, "", o.clone()).await.unwrap();
    assert_eq!(runtime.mock_calls()[0]["system"], "base\n\nlate");
    let mut o = o;
    o["provider"] = "openai".into();
    call(&runtime, "", o).await.unwrap();
    assert_eq!(runtime.mock_calls()[1]["system"], "base");
}

#[tokio::test]
async fn repeated_prompts_hit_the_imagined_cache() {
    let (runtime, _) = runtime(&[]);
    let o = json!({"provider": "mock", "cache": true, "model": "claude-sonnet-4-20250514"});
    let first = call(&runtime, "cached", o.clone()).await.unwrap();
    let second = call(&runtime, "cached", o).await.unwrap();
    assert_eq!((&first["cache_write_tokens"], &first["cache_hit_ratio"]), (&json!(6), &json!(0.0)));
    assert_eq!((&second["cache_read_tokens"], &second["cache_hit_ratio"]), (&json!(6), &json!(1.0)));
    assert!(second["cache_savings_usd"].as_f64().unwrap() > 0.0);
}
