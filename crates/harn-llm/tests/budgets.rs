//! Budget limits: a call that would exceed one is not sent, and a stream that exceeds one is aborted.
use crate::support::*;
use harn_llm::runtime::StreamItem;
use harn_llm::{Call, CallError, LlmError};
use harn_value::{Data as Value, json};

/// A stream that never ends: some text, then silence.
fn talker() -> Vec<Step> {
    let piece = |n: usize| json!({"choices": [{"delta": {"content": format!("piece {n} of many. ")}}]});
    let text: String = (0..20).map(|n| format!("data: {}\n\n", piece(n))).collect();
    let mut script = stream(&text);
    script.push(Step::Hang);
    script
}

#[track_caller]
fn assert_exceeded(error: &LlmError, limit: &str, value: f64) {
    assert_eq!(
        [error.category.as_str(), error.kind.as_str(), error.reason],
        ["budget_exceeded", "terminal", "budget_exceeded"],
        "{error}"
    );
    let dict = error.to_json();
    assert_eq!((&dict["limit"], dict["limit_value"].as_f64()), (&json!(limit), Some(value)), "{dict}");
    assert_eq!(dict["provider"], "openai");
}

#[tokio::test]
async fn a_call_that_would_pass_a_limit_is_not_sent() {
    local(async {
        let server = Server::start(vec![stream(OPENAI_STREAM)]).await;
        for (limit, value) in [("max_input_tokens", 1.0), ("max_output_tokens", 15.0), ("max_cost_usd", 0.00001), ("total_budget_usd", 0.00001)] {
            let options = json!({"max_tokens": 16, "budget": {limit: value}, "llm_retries": 3, "fallback_chain": "local:m"});
            let options = match value == 1.0 || value == 15.0 {
                true => json!({"max_tokens": 16, limit: value as i64}),
                false => options,
            };
            let error = llm_error(ask(&server, "openai", options).await);
            assert_exceeded(&error, limit, value);
            assert!(error.message.starts_with("LLM budget exceeded before provider call: projected "), "{error}");
        }
        assert_eq!(server.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_passes_a_limit_is_hung_up_and_paid_for() {
    local(async {
        // Without `max_tokens`, nothing bounds the reply in advance.
        for (budget, limit, value) in [
            (json!({"max_output_tokens": 30}), "max_output_tokens", 30.0),
            (json!({"max_cost_usd": 0.0002}), "max_cost_usd", 0.0002),
            (json!({"total_budget_usd": 0.0003}), "total_budget_usd", 0.0003),
        ] {
            let server = Server::start(vec![talker()]).await;
            let (runtime, _) = runtime(KEYS);
            let options =
                json!({"max_tokens": 0, "budget": budget, "llm_retries": 2, "fallback_chain": "local:m"});
            let error = llm_error(ask_with(&runtime, &server, "openai", options).await);
            assert_exceeded(&error, limit, value);
            assert!(error.message.starts_with("LLM budget exceeded during provider call: "), "{error}");
            server.hung_up(1).await;
            let totals = runtime.ledger().totals();
            assert_eq!(totals.calls, 1);
            let used = error.to_json()["partial_usage"]["output_tokens"].as_i64().unwrap();
            assert_eq!(totals.output_tokens, used);
            assert!(totals.cost > 0.0 && (20..100).contains(&used), "{totals:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_budget_of_the_session_stops_streams_that_others_made_too_dear() {
    local(async {
        let server = Server::start(vec![talker()]).await;
        let (runtime, _) = runtime(KEYS);
        runtime.ledger().set_budget(1.0);
        let other = runtime.clone();
        // Another call of the program spends the remaining budget while this one is in flight.
        let mut spend = Some(move || other.ledger().set_budget(0.0));
        let options = json!({"provider": "openai", "base_url": server.url, "max_tokens": 100});
        let mut items = Vec::new();
        let mut deliver = |item| {
            if let Some(spend) = spend.take() {
                spend();
            }
            items.push(item);
        };
        runtime.llm_stream(&Call::new("hi", None, options), &mut deliver).await.unwrap();
        let Some(StreamItem::Failed(CallError::Llm(error))) = items.last() else { panic!("{items:?}") };
        assert_exceeded(error, "total_budget_usd", 0.0);
        assert_eq!(items[0], StreamItem::Chunk("piece 0 of many. ".into()));
        assert!(items.len() <= 3, "{items:?}");
        server.hung_up(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_reply_that_is_there_is_not_thrown_away() {
    local(async {
        // The provider reports more tokens than expected, but only after the whole reply.
        let server = Server::start(vec![stream(OPENAI_STREAM)]).await;
        let options = json!({"max_tokens": 10, "budget": {"max_input_tokens": 10, "max_output_tokens": 10}});
        let result: Value = ask(&server, "openai", options).await.unwrap();
        assert_eq!((&result["text"], &result["input_tokens"]), (&json!("Grüße 😀!"), &json!(11)));
    })
    .await;
}

#[tokio::test]
async fn a_reply_in_one_piece_is_not_thrown_away() {
    local(async {
        let body = json!({"choices": [{"message": {"content": "many words ".repeat(40)}, "finish_reason": "stop"}],
                          "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
        let server = Server::start(vec![ok_json(&body), ok_json(&body)]).await;
        let (runtime, _) = runtime(KEYS);
        // Whether one piece or a stream was requested.
        for stream in [false, true] {
            let options = json!({"stream": stream, "max_tokens": 0, "budget": {"max_output_tokens": 10}});
            ask_with(&runtime, &server, "openai", options).await.unwrap();
        }
        let totals = runtime.ledger().totals();
        assert_eq!((totals.input_tokens, totals.output_tokens), (6, 4));
    })
    .await;
}

/// The token limit that is sent is the one that budgets use, whatever raises it.
#[tokio::test]
async fn the_limit_that_is_sent_is_the_one_that_counts() {
    local(async {
        for (provider, options, place, most) in [
            ("anthropic", json!({"thinking": {"budget_tokens": 20000}, "max_tokens": 10}), "/max_tokens", 21024),
            ("anthropic", json!({"thinking": true}), "/max_tokens", 16384),
            ("anthropic", json!({"max_tokens": 0}), "/max_tokens", 8192),
            ("anthropic", json!({"max_tokens": 9, "anthropic": {"max_tokens": 700}}), "/max_tokens", 700),
            ("openai", json!({"max_tokens": 9}), "/max_tokens", 9),
            ("openai", json!({"max_tokens": 9, "openai": {"max_tokens": 700}}), "/max_tokens", 700),
            ("gemini", json!({"max_tokens": 9, "model": "gemini-2.5-pro", "gemini": {"generationConfig": {"maxOutputTokens": 700}}}), "/generationConfig/maxOutputTokens", 700),
            ("ollama", json!({"max_tokens": 9, "ollama": {"options": {"num_predict": 700}}}), "/options/num_predict", 700),
        ] {
            let server = Server::start(vec![vec![]]).await;
            let (runtime, _) = runtime(&[KEYS, &[("GEMINI_API_KEY", "k-1234")]].concat());
            let with = |limit: i64| {
                let mut options = options.clone();
                options["budget"] = json!({"max_output_tokens": limit});
                options
            };
            let refused = llm_error(ask_with(&runtime, &server, provider, with(most - 1)).await);
            assert_eq!(refused.to_json()["projected_output_tokens"].as_i64(), Some(most), "{options}");
            assert_eq!(server.count(), 0, "{options}");
            llm_error(ask_with(&runtime, &server, provider, with(most)).await);
            let sent = serde_json::to_value(&server.request(0).body).unwrap();
            assert_eq!(sent.pointer(place).and_then(serde_json::Value::as_i64), Some(most), "{options} {sent}");
        }
    })
    .await;
}

#[tokio::test]
async fn mocks_keep_to_limits_as_well() {
    local(async {
        let (runtime, _) = runtime(&[]);
        runtime.mock_push(&json!({"chunks": ["one two ", "three four ", "five six"]})).unwrap();
        let options = json!({"provider": "mock", "max_tokens": 0, "budget": {"max_output_tokens": 3}});
        let mut items = Vec::new();
        runtime.llm_stream(&Call::new("hi", None, options), &mut |item| items.push(item)).await.unwrap();
        let [StreamItem::Chunk(a), StreamItem::Chunk(b), StreamItem::Failed(error)] = items.as_slice() else {
            panic!("{items:?}")
        };
        assert_eq!(
            (a.as_str(), b.as_str(), error.category().as_str()),
            ("one two ", "three four ", "budget_exceeded")
        );
    })
    .await;
}
