//! Malicious servers, on loopback: whatever one sends, in every wire format, streamed or not, a call ends in time with
//! a reply or an error of a known category, without the key, and with little memory.

use std::time::{Duration, Instant};

use crate::support::*;
use harn_llm::CallError;
use harn_value::{Data as Value, json};

/// The behaviour of a server, and the permitted outcomes: categories, or `ok`.
struct Behaviour {
    name: &'static str,
    script: fn() -> Vec<Step>,
    /// Empty permits any of [`KNOWN`].
    ends: &'static [&'static str],
}

/// The permitted outcomes of a malicious reply.
const KNOWN: [&str; 6] = ["ok", "transient_network", "timeout", "server_error", "generic", "auth"];

const MANY: usize = 64 << 20;

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

fn chunk(text: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

fn flood(head: &str, piece: Vec<u8>) -> Vec<Step> {
    vec![send(head), Step::Flood { piece, total: MANY }]
}

const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn redirect(to: &str) -> Vec<Step> {
    reply("307 Temporary Redirect", &format!("location: {to}\r\n"), "")
}

fn said(text: &str) -> Vec<Step> {
    ok_json(&json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "role": "assistant", "type": "message",
        "message": {"role": "assistant", "content": text}, "done": true, "response": text,
        "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
        "usage": {"prompt_tokens": -5, "completion_tokens": i64::MAX, "input_tokens": -5, "output_tokens": i64::MAX},
    }))
}

fn calls(arguments: &str, indices: &[Value]) -> Vec<Step> {
    let events: String = indices
        .iter()
        .enumerate()
        .map(|(n, index)| {
            let call = json!({"index": index, "id": format!("c{n}"), "function": {"name": "t", "arguments": arguments}});
            format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
        })
        .collect();
    stream(
        &(events
            + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"),
    )
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour { name: "silence", script: || vec![Step::Hang], ends: &["timeout"] },
    Behaviour {
        name: "a head that never ends, slowly",
        script: || vec![send("HTTP/1.1 200 OK\r\nx-a: "), Step::Hang],
        ends: &["timeout"],
    },
    Behaviour {
        name: "headers without end",
        script: || flood("HTTP/1.1 200 OK\r\n", b"x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(1000)),
        ends: &["transient_network"],
    },
    Behaviour {
        name: "one header without end",
        script: || flood("HTTP/1.1 200 OK\r\nx-a: ", vec![b'a'; 1 << 16]),
        ends: &["transient_network"],
    },
    Behaviour {
        name: "a body that stops",
        script: || vec![send("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n   "), Step::Hang],
        ends: &["timeout"],
    },
    Behaviour { name: "a body without end", script: || flood(JSON, chunk(&[b'a'; 1 << 16])), ends: &[] },
    Behaviour { name: "blanks without end", script: || flood(JSON, chunk(&[b' '; 1 << 16])), ends: &[] },
    Behaviour { name: "an event without end", script: || flood(EVENTS, chunk(&[b'a'; 1 << 16])), ends: &[] },
    Behaviour {
        name: "a data line without end",
        script: || [vec![send(EVENTS), send(chunk(b"data: "))], flood("", chunk(&[b'a'; 1 << 16]))].concat(),
        ends: &[],
    },
    Behaviour {
        name: "comments without end",
        script: || flood(EVENTS, chunk(&b": ping\n\n".repeat(4000))),
        ends: &[],
    },
    Behaviour {
        name: "events without end",
        script: || {
            flood(EVENTS, chunk(&b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n".repeat(500)))
        },
        ends: &[],
    },
    Behaviour {
        name: "packed content that nobody asked for",
        script: || {
            reply(
                "200 OK",
                "content-encoding: gzip\r\ncontent-type: application/json\r\n",
                "\u{1f}\u{8b}garbage",
            )
        },
        ends: &["server_error", "transient_network", "generic"],
    },
    Behaviour {
        name: "fewer bytes than announced",
        script: || vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\": [")],
        ends: &["transient_network"],
    },
    Behaviour {
        name: "an absurd length",
        script: || vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775000\r\n\r\n{}")],
        ends: &["transient_network", "server_error"],
    },
    Behaviour {
        name: "broken chunks",
        script: || vec![send(format!("{JSON}zzzz\r\nhello\r\n0\r\n\r\n"))],
        ends: &["transient_network"],
    },
    Behaviour {
        name: "interim statuses without end",
        script: || flood("", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000)),
        ends: &["timeout", "transient_network"],
    },
    Behaviour {
        name: "another protocol",
        script: || vec![send([0, 0, 0x12, 4, 0, 0xff, 0xfe, 1].repeat(1000))],
        ends: &["transient_network"],
    },
    Behaviour { name: "a redirect to a file", script: || redirect("file:///etc/passwd"), ends: &[] },
    Behaviour { name: "a redirect to nowhere", script: || redirect("http://"), ends: &[] },
    Behaviour {
        name: "a redirect with a password",
        script: || redirect("http://u:p@127.0.0.1:1/"),
        ends: &[],
    },
    Behaviour {
        name: "bytes that are no text",
        script: || {
            let body =
                b"{\"choices\":[{\"message\":{\"content\":\"a\xff\xfe\x80b\"},\"finish_reason\":\"stop\"}]}";
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            vec![send(head), send(&body[..])]
        },
        ends: &[],
    },
    Behaviour {
        name: "events that are no JSON",
        script: || stream("data: {not json}\n\ndata: {\"choices\":[{\"x\":1e999}]}\n\ndata: [DONE]\n\n"),
        ends: &[],
    },
    Behaviour {
        name: "absurd places of calls",
        script: || {
            calls("{}", &[json!(4_294_967_295_u64), json!(i64::MAX), json!(-1), json!(1e30), json!("x")])
        },
        ends: &[],
    },
    Behaviour {
        name: "ten thousand calls",
        script: || calls("{}", &(0..10_000).map(Value::from).collect::<Vec<_>>()),
        ends: &[],
    },
    Behaviour {
        name: "deep arguments",
        script: || calls(&format!("{{\"a\":{}{}}}", "[".repeat(9000), "]".repeat(9000)), &[json!(0)]),
        ends: &[],
    },
    Behaviour {
        name: "text that opens calls",
        script: || said(&"<tool_call>\nt({ a: ".repeat(20_000)),
        ends: &[],
    },
    Behaviour {
        name: "text that ends calls",
        script: || said(&"<tool_call>a</tool_call".repeat(20_000)),
        ends: &[],
    },
    Behaviour { name: "absurd numbers of tokens", script: || said("hi"), ends: &[] },
    Behaviour { name: "nothing", script: || vec![send("")], ends: &["transient_network"] },
];

/// Options of a call in each wire format.
fn formats() -> Vec<(&'static str, Value)> {
    vec![
        ("openai", json!({})),
        ("openai", json!({"api_mode": "responses", "model": "gpt-5.4"})),
        ("anthropic", json!({})),
        ("ollama", json!({"ollama": {"num_ctx": 1}})),
        ("gemini", json!({"model": "gemini-2.5-flash"})),
    ]
}

const ENV: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "sk-open-1234567890"),
    ("ANTHROPIC_API_KEY", "sk-anth-1234567890"),
    ("GEMINI_API_KEY", "sk-gemi-1234567890"),
];

/// Returns how a call ended, and how long it took.
async fn attempt(
    behaviour: &Behaviour,
    provider: &str,
    format: &Value,
    streamed: bool,
) -> (String, Duration) {
    // A call may be retried, or query the server's capabilities first.
    let server = Server::start((0..8).map(|_| (behaviour.script)()).collect()).await;
    let (runtime, _) = runtime(ENV);
    let mut options =
        json!({"timeout": 2, "stream": streamed, "max_response_bytes": 2 << 20, "llm_retries": 0});
    options.as_object_mut().unwrap().extend(format.as_object().unwrap().clone());
    let begin = Instant::now();
    let end = match ask_with(&runtime, &server, provider, options).await {
        Ok(value) => {
            for count in ["input_tokens", "output_tokens"] {
                let tokens = value[count].as_i64().unwrap_or(0);
                assert!((0..1 << 50).contains(&tokens), "{}: {count} are {tokens}", behaviour.name);
            }
            "ok".to_string()
        }
        Err(CallError::Llm(error)) => {
            assert!(!error.to_string().contains("1234567890"), "{}: {error}", behaviour.name);
            assert!(
                error.message.len() < 40_000,
                "{}: a message of {} bytes",
                behaviour.name,
                error.message.len()
            );
            error.category.as_str().to_string()
        }
        Err(other) => panic!("{}: the call was not made: {other:?}", behaviour.name),
    };
    (end, begin.elapsed())
}

#[tokio::test]
async fn every_call_ends_as_it_should() {
    local(async {
        let formats = formats();
        let mut wrong = Vec::new();
        // Runs several at a time, because most of the time is spent waiting for timeouts.
        for behaviours in BEHAVIOURS.chunks(4) {
            let attempts = behaviours.iter().flat_map(|behaviour| {
                formats.iter().flat_map(move |(provider, format)| {
                    [true, false].map(|streamed| async move {
                        let (end, took) = attempt(behaviour, provider, format, streamed).await;
                        let name = format!("{} ({provider} {format} stream={streamed})", behaviour.name);
                        (behaviour, name, end, took)
                    })
                })
            });
            for (behaviour, name, end, took) in futures_util::future::join_all(attempts).await {
                let ends = if behaviour.ends.is_empty() { &KNOWN[..] } else { behaviour.ends };
                if !ends.contains(&end.as_str()) {
                    wrong.push(format!("{name} ended in {end}, not in {ends:?}"));
                }
                // Much longer than the call's timeout, because other processes share the machine.
                if took > Duration::from_secs(40) {
                    wrong.push(format!("{name} took {took:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}

#[test]
fn floods_take_little_memory() {
    for behaviour in BEHAVIOURS.iter().filter(|b| b.name.contains("without end")) {
        let memory = allocation_counter::measure(|| {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            reactor.block_on(local(async {
                let (end, _) = attempt(behaviour, "openai", &json!({}), true).await;
                assert!(KNOWN.contains(&end.as_str()), "{}: {end}", behaviour.name);
            }));
        });
        assert!(memory.bytes_max < 24 << 20, "{}: {} bytes at once", behaviour.name, memory.bytes_max);
    }
}
