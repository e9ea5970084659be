//! Bedrock's binary streams that do not end with a complete reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use harn_llm::CallError;
use harn_llm::error::LlmError;
use harn_strict_servers::{ENV, event, exception};
use harn_value::{Data as Value, json};

use super::streamed;
use crate::support::*;

const KIND: &str = "application/vnd.amazon.eventstream";
const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

async fn call(script: Vec<Step>, options: Value) -> (Result<Value, CallError>, Seen) {
    let server = Server::start(vec![script]).await;
    let result = ask_with(&runtime(ENV).0, &server, "bedrock", options).await;
    (result, server.request(0))
}

async fn failure(body: &[u8]) -> LlmError {
    match call(streamed(KIND, body, false), json!({"model": CLAUDE})).await.0 {
        Err(CallError::Llm(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn begun() -> Vec<u8> {
    let delta = json!({"contentBlockIndex": 0, "delta": {"text": "Half a"}});
    [event("messageStart", &json!({"role": "assistant"})), event("contentBlockDelta", &delta)].concat()
}

#[tokio::test]
async fn exceptions_have_the_categories_of_their_statuses() {
    local(async {
        for (name, message, category, transient) in [
            ("throttlingException", "Too many tokens, please wait before trying again.", "rate_limit", true),
            ("serviceUnavailableException", "Not now.", "overloaded", true),
            ("internalServerException", "Oops.", "server_error", true),
            ("modelStreamErrorException", "The model failed.", "server_error", true),
            ("modelTimeoutException", "Too late.", "timeout", true),
            ("validationException", "The toolConfig is invalid.", "generic", false),
            ("accessDeniedException", "No access.", "auth", false),
        ] {
            let body = [begun(), exception(name, &json!({"message": message}))].concat();
            let error = failure(&body).await;
            assert_eq!(error.category.as_str(), category, "{name}: {error}");
            assert_eq!(error.kind == harn_llm::error::Kind::Transient, transient, "{name}: {error}");
            assert!(error.message.contains(name) && error.message.contains(message), "{error}");
        }
        let message = json!({"message": "Input is too long for requested model."});
        let error = failure(&exception("validationException", &message)).await;
        assert_eq!(error.reason, "context_overflow", "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_or_is_corrupt_is_no_reply() {
    local(async {
        let stop = event("messageStop", &json!({"stopReason": "end_turn"}));
        let whole = [begun(), stop.clone()].concat();
        // Without token usage, it is still a reply.
        let (result, _) = call(streamed(KIND, &whole, false), json!({"model": CLAUDE})).await;
        assert_eq!(result.unwrap()["text"], "Half a");
        for body in [begun(), whole[..whole.len() - 1].to_vec(), begun()[..9].to_vec()] {
            let error = failure(&body).await;
            assert_eq!(error.category.as_str(), "transient_network", "{error}");
            assert!(error.message.contains("unexpected EOF"), "{error}");
        }
        let mut flipped = whole;
        flipped[20] ^= 1;
        let error = failure(&flipped).await;
        assert_eq!(error.category.as_str(), "transient_network", "{error}");
        assert!(error.message.contains("the checksum of a message is wrong"), "{error}");
        let (result, _) =
            call(reply("200 OK", "content-type: text/html\r\n", "<p>Hello"), json!({"model": CLAUDE})).await;
        let error = result.unwrap_err();
        assert!(error.message().contains("text/html): <p>Hello"), "{error}");
    })
    .await;
}

/// A cassette contains the bytes of a stream, even if it ends prematurely, without the secrets that the server echoes.
#[tokio::test]
async fn recorded_streams_replay_as_they_were() {
    local(async {
        let token = "session-token-1234567890";
        let delta = |text: &str| event("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}}));
        let start = json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "look"}}});
        let arguments = |text: &str| {
            event("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": text}}}))
        };
        let usage = json!({"usage": {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12, "cacheReadInputTokens": 2},
                           "metrics": {"latencyMs": 1}});
        let whole = [
            begun(),
            delta(" reply with session-tok"),
            delta("en-1234567890 and grüezi."),
            event("contentBlockStart", &start),
            arguments("{\"q\":"),
            arguments("\"x\"}"),
            event("messageStop", &json!({"stopReason": "tool_use"})),
            event("metadata", &usage),
        ]
        .concat();
        let failed = [begun(), exception("throttlingException", &json!({"message": "Too many tokens."}))].concat();
        let cut = [begun(), whole[..90].to_vec()].concat();
        let scripts: Vec<Vec<Step>> = [&whole, &failed, &cut].iter().map(|body| streamed(KIND, body, true)).collect();
        let server = Server::start(scripts).await;
        let env = [ENV, &[("AWS_SESSION_TOKEN", token)]].concat();
        let options = |seed: i64| json!({"model": CLAUDE, "tools": [{"name": "look"}], "llm_retries": 0, "temperature": seed});
        let (recording, _) = runtime(&env);
        let tape = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let sink = tape.clone();
        recording.record_exchanges(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let first = ask_with(&recording, &server, "bedrock", options(0)).await.unwrap();
        assert_eq!(first["tool_calls"][0]["arguments"], json!({"q": "x"}));
        let throttled = llm_error(ask_with(&recording, &server, "bedrock", options(1)).await);
        let broken = llm_error(ask_with(&recording, &server, "bedrock", options(1)).await);
        assert_eq!((throttled.category.as_str(), broken.category.as_str()), ("rate_limit", "transient_network"));

        let tape = tape.borrow().clone();
        for line in tape.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let bytes = BASE64.decode(line["response"]["body_base64"].as_str().expect("the bytes of a stream")).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("session-tok") && !text.contains("1234567890"), "{text}");
        }
        let (replaying, _) = runtime(&[]);
        replaying.replay_exchanges(&tape).unwrap();
        let again = ask_with(&replaying, &server, "bedrock", options(0)).await.unwrap();
        let hidden = first["text"].as_str().unwrap();
        assert!(!hidden.contains(token) && hidden.ends_with(" and grüezi."), "{hidden}");
        for key in ["text", "tool_calls", "usage", "stop_reason"] {
            assert_eq!(again[key], first[key], "{key}");
        }
        let error = llm_error(ask_with(&replaying, &server, "bedrock", options(1)).await);
        assert_eq!(error, throttled);
        let error = llm_error(ask_with(&replaying, &server, "bedrock", options(1)).await);
        assert_eq!(error, broken);
        assert_eq!((replaying.unused_exchanges(), server.count()), (0, 3));
    })
    .await;
}

/// Models that do not support streaming with tools are called without streaming.
#[tokio::test]
async fn tools_of_models_that_do_not_stream_calls() {
    local(async {
        let tools = json!([{"name": "look"}]);
        let usage = json!({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3});
        let body = json!({"output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
                          "stopReason": "end_turn", "usage": usage});
        for (model, tools, verb) in [
            ("meta.llama3-3-70b-instruct-v1:0", Some(&tools), "/converse "),
            ("meta.llama3-3-70b-instruct-v1:0", None, "/converse-stream "),
            (CLAUDE, Some(&tools), "/converse-stream "),
        ] {
            let mut options = json!({"model": model});
            if let Some(tools) = tools {
                options["tools"] = tools.clone();
            }
            // A server may reply in one piece to a streaming request.
            let (result, seen) = call(ok_json(&body), options).await;
            assert_eq!(result.unwrap()["text"], "ok", "{model}");
            assert!(seen.line.contains(verb), "{model}: {}", seen.line);
        }
    })
    .await;
}
