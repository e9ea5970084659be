//! Tests every wire format against a server that checks the request against the format's published rules and replies
//! like the real one: whole and streamed, with tool calls, reasoning, usage, cache counts, refusals. A reply that is
//! split at any byte is the same reply.

mod completions;
mod event_streams;
mod privacy;
mod statuses;

use harn_llm::response::ResponseBuilder;
use harn_llm::wire::ReplyReader;
use harn_llm::{Call, LlmRuntime, Request, Response};
use harn_value::{Data as Value, json};

use crate::support::{Seen, Server, Step, local, ok_json, runtime};
use harn_strict_servers::cases::{Case, cases};
use harn_strict_servers::{ENV, Format, formats, violation};

fn call(format: &dyn Format, case: &Case, url: &str, stream: bool) -> Option<Call> {
    let mut options = format.options();
    let map = options.as_object_mut().unwrap();
    map.insert("base_url".into(), url.into());
    map.insert("stream".into(), stream.into());
    map.extend(case.options.as_object().unwrap().clone());
    if case.thinks {
        map.extend(format.thinking()?.as_object().unwrap().clone());
    }
    (!format.lacks().contains(&case.name)).then(|| Call::new("The question.", None, options))
}

fn assert_rules(format: &dyn Format, seen: &Seen, streamed: bool, what: &str) {
    let mut broken = format.rules(seen, streamed);
    broken.extend(violation(seen).map(|violation| violation.to_string()));
    if seen.header("content-type") != Some("application/json") {
        broken.push("the content type is not JSON".into());
    }
    assert!(broken.is_empty(), "{what}: {broken:#?}\n{:#}", seen.body);
}

/// Checks the fields of a result that a case determines.
fn assert_result(format: &dyn Format, case: &Case, result: &Value, what: &str) {
    let mut expected = case.expected();
    format.adjust(case, &mut expected);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(result.get(key).unwrap_or(&Value::Null), value, "{what}: `{key}` of {result:#}");
    }
}

async fn exchange(format: &dyn Format, case: &Case, script: Vec<Step>, stream: bool) {
    let what = format!("{}, {}, stream {stream}", format.name(), case.name);
    let server = Server::start(vec![script]).await;
    let Some(call) = call(format, case, &server.url, stream) else { return };
    let result = runtime(ENV).0.llm_call(&call).await.unwrap_or_else(|e| panic!("{what}: {e:?}"));
    assert_rules(format, &server.request(0), stream, &what);
    assert_result(format, case, &result, &what);
}

fn streamed(kind: &str, body: &[u8], drip: bool) -> Vec<Step> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    let body = body.to_vec();
    vec![Step::Send(head.into_bytes()), if drip { Step::Drip(body) } else { Step::Send(body) }]
}

#[tokio::test]
async fn whole_replies() {
    local(async {
        for format in formats() {
            for case in cases() {
                if let Some(body) = format.whole(&case) {
                    exchange(&*format, &case, ok_json(&body), false).await;
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn streamed_replies() {
    local(async {
        for format in formats() {
            for case in cases() {
                if let Some((kind, body)) = format.stream(&case) {
                    exchange(&*format, &case, streamed(kind, &body, false), true).await;
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn streams_that_come_byte_by_byte() {
    local(async {
        let case = cases().into_iter().find(|c| c.name == "tools").unwrap();
        for format in formats() {
            if let Some((kind, body)) = format.stream(&case) {
                exchange(&*format, &case, streamed(kind, &body, true), true).await;
            }
        }
    })
    .await;
}

/// The messages of a result and the results of its calls, matched by id, form the next request.
#[tokio::test]
async fn results_continue_the_transcript_of_a_call() {
    local(async {
        let case = cases().into_iter().find(|c| c.name == "tools").unwrap();
        for format in formats() {
            let reply = || match (format.stream(&case), format.whole(&case)) {
                (Some((kind, body)), _) => streamed(kind, &body, false),
                (None, body) => ok_json(&body.unwrap()),
            };
            let server = Server::start(vec![reply(), reply()]).await;
            let Some(call) = call(&*format, &case, &server.url, true) else { continue };
            let (runtime, _) = runtime(ENV);
            let result = runtime.llm_call(&call).await.unwrap();
            let mut messages = result["transcript"]["messages"].as_array().unwrap().clone();
            for (call, found) in result["tool_calls"].as_array().unwrap().iter().zip(["FOUND_1", "FOUND_2"]) {
                messages.push(json!({"role": "tool_result", "tool_use_id": call["id"], "content": found}));
            }
            let mut options = (*call.options).clone();
            options["messages"] = messages.into();
            runtime.llm_call(&Call::new("", None, options)).await.unwrap();
            let sent = server.request(1).body.to_string();
            let whole = sent.contains("FOUND_1") && sent.contains("FOUND_2");
            assert!(whole && !sent.contains("no result"), "{}: {sent}", format.name());
        }
    })
    .await;
}

fn read(request: &Request, kind: &str, chunks: &[&[u8]]) -> Response {
    let mut reader = ReplyReader::new(request, true);
    let mut builder = ResponseBuilder::default();
    let mut events = Vec::new();
    for chunk in chunks {
        reader.feed(chunk, &mut events).unwrap();
    }
    reader.finish(request, kind, &mut events).unwrap();
    events.iter().for_each(|e| builder.push(e));
    builder.finish("p", "m", harn_llm::config::Dialect::Plain).unwrap()
}

#[test]
fn every_cut_of_every_answer_is_the_same_reply() {
    let runtime: std::rc::Rc<LlmRuntime> = runtime(ENV).0;
    // By default, samples every third split position, with a different start for each reply.
    let step = if std::env::var_os("HARN_EVERY_CASE").is_some() { 1 } else { 3 };
    for (at, format) in formats().into_iter().enumerate() {
        for (number, case) in cases().into_iter().enumerate() {
            let Some((kind, body)) = format.stream(&case) else { continue };
            let Some(call) = call(&*format, &case, "http://127.0.0.1:9", true) else { continue };
            let request = runtime.prepare(&call).unwrap().request;
            let bytes = body.as_slice();
            let whole = read(&request, kind, &[bytes]);
            for cut in ((at + number) % step..=bytes.len()).step_by(step) {
                let pieces = read(&request, kind, &[&bytes[..cut], &bytes[cut..]]);
                assert_eq!(pieces, whole, "{}, {}, cut at {cut}", format.name(), case.name);
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&request, kind, &single), whole, "{}, {}", format.name(), case.name);
        }
    }
}

/// A reply without its terminal event is never accepted.
#[test]
fn every_truncation_of_every_answer_is_an_error_or_the_reply() {
    let runtime = runtime(ENV).0;
    for format in formats() {
        let case = cases().into_iter().find(|c| c.name == "tools").unwrap();
        let Some((kind, body)) = format.stream(&case) else { continue };
        let Some(call) = call(&*format, &case, "http://127.0.0.1:9", true) else { continue };
        let request = runtime.prepare(&call).unwrap().request;
        let whole = read(&request, kind, &[&body]);
        for cut in 0..body.len() {
            let mut reader = ReplyReader::new(&request, true);
            let mut events = Vec::new();
            reader.feed(&body[..cut], &mut events).unwrap();
            if reader.finish(&request, kind, &mut events).is_ok() {
                let mut builder = ResponseBuilder::default();
                events.iter().for_each(|e| builder.push(e));
                let mut reply = builder.finish("p", "m", harn_llm::config::Dialect::Plain).unwrap();
                // Token counts may come after the end.
                reply.usage = whole.usage;
                assert_eq!(reply, whole, "{} cut at {cut}", format.name());
            }
        }
    }
}
