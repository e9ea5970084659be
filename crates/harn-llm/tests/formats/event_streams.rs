//! Binary streams of Bedrock that end in another way than a reply.

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
        // Without its counters it is a reply.
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

/// Models that do not stream calls are asked in one piece.
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
            // A server may answer in one piece where a stream was asked for.
            let (result, seen) = call(ok_json(&body), options).await;
            assert_eq!(result.unwrap()["text"], "ok", "{model}");
            assert!(seen.line.contains(verb), "{model}: {}", seen.line);
        }
    })
    .await;
}
