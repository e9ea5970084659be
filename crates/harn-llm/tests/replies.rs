//! Unusual replies: parallel calls that share an index, split surrogate pairs, empty replies, paused turns, refusals,
//! provider-specific stop reasons.

use harn_llm::Call;
use harn_value::{Data as Value, json};

use crate::support::{KEYS, Server, ask, ask_with, llm_error, local, ok_json, reply, runtime, stream};

fn events(list: &[Value]) -> String {
    list.iter().map(|event| format!("data: {event}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(index: Option<i64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        call["index"] = index.into();
    }
    if let Some(id) = id {
        call["id"] = id.into();
    }
    if let Some(name) = name {
        call["function"]["name"] = name.into();
    }
    delta(json!({"tool_calls": [call]}))
}

async fn calls_of(pieces: Vec<Value>) -> Value {
    let list: Vec<Value> = pieces.into_iter().chain([end("tool_calls")]).collect();
    let server = Server::start(vec![stream(&events(&list))]).await;
    let result = ask(&server, "openai", json!({})).await.unwrap();
    let calls = result["tool_calls"].as_array().unwrap().clone();
    calls.iter().map(|call| json!([call["name"], call["arguments"]])).collect()
}

#[tokio::test]
async fn streamed_calls_are_told_apart() {
    local(async {
        let two = json!([["look", {"q": "a"}], ["look", {"q": "b"}]]);
        let (a, b) = ("{\"q\": \"a\"}", "{\"q\": \"b\"}");
        let (look, x, y) = (Some("look"), Some("x"), Some("y"));
        // Each in one piece, all with the same index.
        assert_eq!(calls_of(vec![call(Some(0), x, look, a), call(Some(0), y, look, b)]).await, two);
        // In fragments, with the id in each, all with the same index.
        let pieces = [x, y].map(|id| {
            [
                call(Some(0), id, look, "{\"q\": "),
                call(Some(0), id, None, if id == x { "\"a\"}" } else { "\"b\"}" }),
            ]
        });
        assert_eq!(calls_of(pieces.concat()).await, two);
        // The remaining fragment of a call has another index, without id and name.
        let pieces = vec![
            call(Some(0), x, look, "{\"q\": "),
            call(Some(1), None, None, "\"a\"}"),
            call(Some(2), y, look, "{\"q\": "),
            call(Some(3), None, None, "\"b\"}"),
        ];
        assert_eq!(calls_of(pieces).await, two);
        // Interleaved, as the API specifies.
        let pieces = vec![
            call(Some(0), x, look, "{\"q\": "),
            call(Some(1), y, look, "{\"q\": "),
            call(Some(0), None, None, "\"a\"}"),
            call(Some(1), None, None, "\"b\"}"),
        ];
        assert_eq!(calls_of(pieces).await, two);
        // Without an index.
        assert_eq!(calls_of(vec![call(None, x, look, a), call(None, y, look, b)]).await, two);
        // The name is repeated in each fragment.
        let pieces = vec![
            call(Some(0), x, look, "{\"q\": "),
            call(Some(0), None, look, "\"a\"}"),
            call(Some(1), y, look, b),
        ];
        assert_eq!(calls_of(pieces).await, two);
    })
    .await;
}

#[tokio::test]
async fn halves_of_characters_are_put_together() {
    local(async {
        let piece = |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let body = [piece("a\\ud83d"), piece("\\ude00b"), piece("\\ud83d c"), piece("\\ude00"), piece("\\ud83d"), events(&[end("stop")])];
        let server = Server::start(vec![stream(&body.concat())]).await;
        let result = ask(&server, "openai", json!({})).await.unwrap();
        assert_eq!(result["text"], "a\u{1f600}b\u{fffd} c\u{fffd}\u{fffd}");
        let whole = "{\"choices\":[{\"message\":{\"content\":\"x\\ud83d\\ude00\\ud83d\"},\"finish_reason\":\"stop\"}]}";
        let server = Server::start(vec![reply("200 OK", "content-type: application/json\r\n", whole)]).await;
        let result = ask(&server, "openai", json!({"stream": false})).await.unwrap();
        assert_eq!(result["text"], "x\u{1f600}\u{fffd}");
        let arguments = "{\"q\": \"\\ud83d!\"}";
        let server = Server::start(vec![stream(&events(&[call(Some(0), Some("x"), Some("look"), arguments), end("tool_calls")]))]).await;
        let result = ask(&server, "openai", json!({})).await.unwrap();
        assert_eq!(result["tool_calls"][0]["arguments"], json!({"q": "\u{fffd}!"}));
    })
    .await;
}

#[tokio::test]
async fn a_reply_without_an_answer_is_asked_for_once_more() {
    local(async {
        let empty = json!({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 7}});
        let good = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
        let options = json!({"stream": false, "llm_retries": 0});
        let server = Server::start(vec![ok_json(&empty), ok_json(&good)]).await;
        assert_eq!(ask(&server, "openai", options.clone()).await.unwrap()["text"], "hi");
        let server = Server::start(vec![ok_json(&empty), ok_json(&empty)]).await;
        let result = ask(&server, "openai", options).await.unwrap();
        assert_eq!((&result["text"], &result["stop_reason"], &result["output_tokens"]), (&json!(""), &json!("empty"), &json!(7)));
        assert_eq!(server.count(), 2);
        let malformed = json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]});
        let body = format!("data: {malformed}\n\n");
        let server = Server::start(vec![stream(&body), stream(&body)]).await;
        let result = ask(&server, "gemini", json!({"model": "gemini-2.5-flash", "api_key": "k", "llm_retries": 0})).await.unwrap();
        assert_eq!((&result["stop_reason"], server.count()), (&json!("malformed_call"), 2));
    })
    .await;
}

/// Gateways reply this way when their upstream server fails.
#[tokio::test]
async fn an_empty_reply_without_usage_is_retried_like_a_failure() {
    local(async {
        let empty = json!({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]});
        let zeros = json!({"choices": [{"message": {"content": null}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 0, "completion_tokens": 0}});
        let good = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
        for (retries, scripts, text, stop) in [
            (2, vec![&empty, &zeros, &good], "hi", "end_turn"),
            (1, vec![&zeros, &empty], "", "empty"),
            (0, vec![&empty], "", "empty"),
        ] {
            let server = Server::start(scripts.iter().map(|body| ok_json(body)).collect()).await;
            let (runtime, _) = runtime(KEYS);
            let options = json!({"stream": false, "llm_retries": retries, "llm_backoff_ms": 1});
            let result = ask_with(&runtime, &server, "openai", options).await.unwrap();
            assert_eq!((&result["text"], &result["stop_reason"]), (&json!(text), &json!(stop)));
            assert_eq!(server.count(), scripts.len());
            // Each request was sent, so its prompt is booked.
            assert_eq!(runtime.ledger().totals().calls, i64::try_from(scripts.len()).unwrap());
        }
    })
    .await;
}

#[tokio::test]
async fn calls_in_the_older_form_are_read() {
    local(async {
        let call = |name: Option<&str>, arguments: &str| {
            let mut call = json!({"arguments": arguments});
            name.iter().for_each(|name| call["name"] = (*name).into());
            call
        };
        let whole = json!({"choices": [{"message": {"content": null, "function_call": call(Some("look"), "{\"q\":1}")}, "finish_reason": "function_call"}]});
        let pieces: String = [call(Some("look"), ""), call(None, "{\"q\":"), call(None, "1}")]
            .iter()
            .map(|call| format!("data: {}\n\n", json!({"choices": [{"delta": {"function_call": call}}]})))
            .collect();
        let end = json!({"choices": [{"delta": {}, "finish_reason": "function_call"}]});
        for reply in [ok_json(&whole), stream(&format!("{pieces}data: {end}\n\ndata: [DONE]\n\n"))] {
            let server = Server::start(vec![reply]).await;
            let result = ask(&server, "openai", json!({})).await.unwrap();
            assert_eq!(result["tool_calls"][0]["name"], "look", "{result}");
            assert_eq!(result["tool_calls"][0]["arguments"], json!({"q": 1}));
            assert_eq!(result["stop_reason"], "tool_use");
        }
    })
    .await;
}

#[tokio::test]
async fn a_paused_turn_is_continued() {
    local(async {
        let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}});
        let paused = json!({"content": [{"type": "text", "text": "I search. "}, search], "stop_reason": "pause_turn", "usage": {"input_tokens": 1, "output_tokens": 2}});
        let done = json!({"content": [{"type": "text", "text": "Found."}], "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}});
        let server = Server::start(vec![ok_json(&paused), ok_json(&done)]).await;
        let result = ask(&server, "anthropic", json!({"stream": false})).await.unwrap();
        assert_eq!((&result["text"], &result["stop_reason"]), (&json!("I search. Found."), &json!("end_turn")));
        assert_eq!((&result["input_tokens"], &result["output_tokens"]), (&json!(4), &json!(6)));
        let messages = &server.request(1).body["messages"];
        assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
        assert_eq!(messages[1]["content"][1], search);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_one_and_is_not_asked_for_again() {
    local(async {
        let refusal = json!({"choices": [{"message": {"content": null, "refusal": "I cannot help."}, "finish_reason": "stop"}]});
        let streamed = events(&[delta(json!({"refusal": "I cannot help."})), end("stop")]);
        for script in [ok_json(&refusal), stream(&streamed)] {
            let server = Server::start(vec![script]).await;
            let result = ask(&server, "openai", json!({})).await.unwrap();
            assert_eq!((&result["text"], &result["stop_reason"]), (&json!("I cannot help."), &json!("refusal")));
        }
        let server = Server::start(vec![ok_json(&refusal)]).await;
        let (runtime, _) = runtime(&[("OPENAI_API_KEY", "sk-x")]);
        let options = json!({"provider": "openai", "model": "gpt-4o", "base_url": server.url, "stream": false, "schema": {"type": "object"},
                             "output_validation": "error", "schema_retries": 3});
        let error = llm_error(runtime.llm_call(&Call::new("x", None, options)).await);
        assert_eq!((error.reason, error.message.as_str()), ("refusal", "the model refused: I cannot help."));
        assert_eq!(server.count(), 1);
    })
    .await;
}

#[tokio::test]
async fn words_for_the_end_of_a_reply_have_one_meaning() {
    local(async {
        for (word, reason) in [("STOP", "end_turn"), ("MAX_TOKENS", "max_tokens"), ("SAFETY", "content_filter"),
                               ("PROHIBITED_CONTENT", "content_filter"), ("RECITATION", "content_filter"), ("LANGUAGE", "language")] {
            let body = json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": word}]});
            let server = Server::start(vec![stream(&format!("data: {body}\n\n"))]).await;
            assert_eq!(ask(&server, "gemini", json!({"model": "gemini-2.5-flash", "api_key": "k"})).await.unwrap()["stop_reason"], reason, "{word}");
        }
        let body = json!({"content": [{"type": "text", "text": "x"}], "stop_reason": "model_context_window_exceeded", "usage": {"input_tokens": 1, "output_tokens": 1}});
        let server = Server::start(vec![ok_json(&body)]).await;
        assert_eq!(ask(&server, "anthropic", json!({"stream": false})).await.unwrap()["stop_reason"], "context_overflow");
    })
    .await;
}

#[tokio::test]
async fn an_error_inside_a_choice_or_a_stream_is_one() {
    local(async {
        let choice = json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "upstream failed"}}]});
        let server = Server::start(vec![stream(&events(&[choice]))]).await;
        let error = llm_error(ask(&server, "openai", json!({"llm_retries": 0})).await);
        assert_eq!((error.reason, error.kind.as_str()), ("server_error", "transient"));
        for (status, kind) in [("409 Conflict", "transient"), ("425 Too Early", "transient"), ("520 Unknown", "transient"), ("402 Payment Required", "terminal")] {
            let server = Server::start(vec![reply(status, "", "no")]).await;
            let error = llm_error(ask(&server, "openai", json!({"llm_retries": 0})).await);
            assert_eq!(error.kind.as_str(), kind, "{status}: {error:?}");
        }
        for words in ["Input is too long for requested model.", "The input token count (1200000) exceeds the maximum number of tokens allowed",
                      "Please reduce the length of the messages or completion.", "request (9000 tokens) exceeds the available context size"] {
            let server = Server::start(vec![reply("400 Bad Request", "", words)]).await;
            let error = llm_error(ask(&server, "openai", json!({"llm_retries": 0})).await);
            assert_eq!(error.reason, "context_overflow", "{words}");
        }
    })
    .await;
}
