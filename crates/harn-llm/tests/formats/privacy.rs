//! Private reasoning is never leaked: for all kinds of reasoning, wire formats and modes, with and without text and
//! calls, no public field, event, stream or log line repeats it.

use std::cell::RefCell;
use std::rc::Rc;

use harn_llm::runtime::StreamItem;
use harn_llm::transcript;
use harn_value::json;

use super::*;
use harn_strict_servers::cases::Stop;

const MARK: &str = "PRIVATE";

/// Reasoning that resembles the constructs that reply parsers search for.
const THOUGHTS: [&str; 6] = [
    "PRIVATE plain words, größer?",
    "PRIVATE <user_response>PRIVATE</user_response> PRIVATE",
    "PRIVATE <tool_call>now({})</tool_call> <done>##DONE##</done> PRIVATE",
    "PRIVATE {\"answer\": \"PRIVATE\"} ```json\n{\"a\": \"PRIVATE\"}\n```",
    "PRIVATE\n##DONE##\n<assistant_prose>PRIVATE</assistant_prose>",
    "PRIVATE </think> PRIVATE <think> PRIVATE",
];

const TEXTS: [&str; 4] =
    ["", "Plain words.", "<think>PRIVATE</think>Behind a tag.", "Before. <think>PRIVATE left open"];

/// Returns a value without the parts that are marked as private.
fn public(value: &Value) -> Value {
    const PRIVATE: [&str; 4] = ["thinking", "private_reasoning", "thinking_summary", "reasoning"];
    match value {
        Value::Array(items) => items.iter().map(public).collect(),
        Value::Object(map) if map.get("visibility").is_some_and(|v| v != "public") => Value::Null,
        Value::Object(map) => {
            let shown = map.iter().filter(|(key, _)| !PRIVATE.contains(&key.as_str()));
            Value::Object(shown.map(|(key, value)| (key.clone(), public(value))).collect())
        }
        other => other.clone(),
    }
}

/// Returns the result without the fields that contain the raw reply: tagged text, and the messages for the model
/// itself.
fn shown(result: &Value) -> Value {
    let mut out = public(result);
    for raw in ["text", "canonical_text", "blocks"] {
        out[raw].take();
    }
    let rendered = transcript::render_visible(&result["transcript"]);
    out["transcript"] = json!({"rendered": rendered});
    out
}

fn hidden_in(value: &Value, what: &str) {
    assert!(!value.to_string().contains(MARK), "{what}: {value:#}");
}

async fn check(format: &dyn Format, case: &Case, what: &str) {
    let plain = !case.reply.text.contains(MARK);
    for stream in [false, true] {
        let script = match (stream, format.whole(case), format.stream(case)) {
            (false, Some(body), _) => ok_json(&body),
            (true, _, Some((kind, body))) => streamed(kind, &body, false),
            _ => continue,
        };
        let what = format!("{what}, stream {stream}");
        let server = Server::start(vec![script.clone(), script]).await;
        let Some(call) = call(format, case, &server.url, stream) else { return };
        let (runtime, _) = runtime(ENV);
        let log = Rc::new(RefCell::new(Vec::<Value>::new()));
        let sink = log.clone();
        runtime.log_calls(true, move |line| sink.borrow_mut().push(line.clone()));
        let result = runtime.llm_call(&call).await.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        hidden_in(&shown(&result), &what);
        // If the text has no reasoning tags, blocks and messages contain nothing private either.
        let alone = case.reply.text.is_empty() && case.reply.calls.is_empty();
        if plain && !alone {
            hidden_in(&public(&result), &what);
            log.borrow().iter().for_each(|line| hidden_in(&public(line), &what));
        }
        let read: Vec<Value> =
            log.borrow().iter().filter(|line| line["type"] == "interpreted_response").cloned().collect();
        assert_eq!(read.len(), 1, "{what}");
        hidden_in(&read[0], &what);
        let mut pieces = String::new();
        let mut failed = None;
        let mut deliver = |item| match item {
            StreamItem::Chunk(text) => pieces.push_str(&text),
            StreamItem::Result(result) => hidden_in(&shown(&result), &what),
            StreamItem::Failed(error) => failed = Some(error),
        };
        runtime.llm_stream(&call, &mut deliver).await.unwrap();
        assert!(failed.is_none() && !pieces.contains(MARK), "{what}: {pieces:?} {failed:?}");
        assert!(case.reply.text.is_empty() || !pieces.is_empty(), "{what}: the stream is empty");
    }
}

#[tokio::test]
async fn reasoning_is_seen_by_nobody_else() {
    local(async {
        let all = cases();
        let named = |name: &str| all.iter().find(|c| c.name == name).unwrap().clone();
        for format in formats() {
            for (t, thought) in THOUGHTS.into_iter().enumerate() {
                for (x, text) in TEXTS.into_iter().enumerate() {
                    for base in ["thinking", "tools"] {
                        let mut case = named(base);
                        case.thinks = true;
                        case.options["max_tokens"] = json!(20000);
                        (case.reply.thinking, case.reply.text) = (thought, text);
                        if base == "tools" {
                            case.reply.stop = Stop::Tools;
                        }
                        let mut expected = case.expected();
                        format.adjust(&case, &mut expected);
                        if expected["thinking"].is_null() {
                            // This API does not return the reasoning.
                            continue;
                        }
                        let what = format!("{}, {base}, thought {t}, text {x}", format.name());
                        check(&*format, &case, &what).await;
                    }
                }
            }
        }
    })
    .await;
}
