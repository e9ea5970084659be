//! A key is sent in the one header that needs it and appears nowhere else: not in errors, results, transcripts, logs,
//! fixtures, recordings, warnings or debug output, whatever a server does with it.
use std::cell::RefCell;
use std::rc::Rc;

use crate::support::*;
use harn_llm::config::Layer;
use harn_llm::runtime::{Completion, StreamItem};
use harn_llm::{Call, LlmRuntime};
use harn_value::{Data as Value, json};

const CANARY: &str = "canary-5e7a1c-key";
/// A token that the configuration adds as a header.
const TOKEN: &str = "canary-9b2f40-token";

/// The signing secret, which is never sent.
const NEVER_SENT: &str = "canary-c03d18-secret";

const ENV: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", CANARY),
    ("ANTHROPIC_API_KEY", CANARY),
    ("GEMINI_API_KEY", CANARY),
    ("AZURE_OPENAI_AD_TOKEN", CANARY),
    ("VERTEX_AI_ACCESS_TOKEN", CANARY),
    ("VERTEX_AI_PROJECT", "p"),
    ("AWS_ACCESS_KEY_ID", "AKID"),
    ("AWS_SECRET_ACCESS_KEY", NEVER_SENT),
    ("AWS_SESSION_TOKEN", TOKEN),
];

const PROVIDERS: &[(&str, &str)] = &[
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-20250514"),
    ("gemini", "gemini-2.5-pro"),
    ("azure_openai", "gpt-4o"),
    ("vertex", "gemini-2.5-pro"),
    ("bedrock", "anthropic.claude-3"),
];

/// Returns a runtime with all sinks enabled, and their output.
fn listening() -> (Rc<LlmRuntime>, Rc<TestEmbedder>, Rc<RefCell<String>>) {
    let (runtime, embedder) = runtime(ENV);
    let layer = |name: &str| {
        format!("[providers.{name}.extra_headers]\nx-proxy-token = \"{TOKEN}\"\nx-team = \"blue\"\n")
    };
    let toml = PROVIDERS.iter().map(|(name, _)| layer(name)).collect();
    runtime.set_config_layers(vec![Layer { origin: "t".into(), toml }]);
    let said: Rc<RefCell<String>> = Rc::default();
    let sink = || {
        let said = said.clone();
        move |line: &str| said.borrow_mut().push_str(&format!("{line}\n"))
    };
    runtime.record_exchanges(sink());
    runtime.record_fixtures(sink());
    let log = sink();
    runtime.log_calls(true, move |line| log(&line.to_string()));
    (runtime, embedder, said)
}

#[track_caller]
fn assert_clean(text: &str, what: &str) {
    for secret in [CANARY, TOKEN, NEVER_SENT] {
        // Half a key must not appear either.
        assert!(!text.contains(&secret[..secret.len() / 2]), "{what}: {text}");
    }
}

/// Replies of a server that echoes everything it received.
fn echoes(key: &str) -> Vec<(&'static str, Vec<Step>)> {
    let both = format!("{key} and Bearer {key} and {TOKEN}");
    let kind = "content-type: application/json\r\n";
    let error = json!({"error": {"message": both, "type": "authentication_error"}});
    vec![
        ("error body", reply("401 Unauthorized", kind, &error.to_string())),
        ("text body", reply("500 Internal Server Error", "", &both)),
        ("hint", reply("429 Too Many Requests", &format!("retry-after: {TOKEN}\r\n"), "slow")),
        ("error in a stream", stream(&format!("data: {error}\n\n"))),
        ("error in a success", ok_json(&error)),
        ("page", reply("200 OK", "content-type: text/html\r\n", &format!("<p>{both}</p>"))),
        ("redirect", reply("302 Found", &format!("location: http://{TOKEN}.example/{key}\r\n"), "")),
        // The reply is truncated within the key, so that a part of it would remain.
        ("page cut", reply("200 OK", "", &format!("<p>{}{key}", "x".repeat(200 - 3 - key.len() / 2)))),
        ("json cut", ok_json(&json!({"x": format!("{}{key}", "x".repeat(200 - 6 - key.len() / 2))}))),
        ("error cut", reply("500 No", "", &format!("{}{key}", "x".repeat((16 << 10) - key.len() / 2)))),
        ("stream cut", stream(&format!("data {}{key}", "x".repeat(200 - 5 - key.len() / 2)))),
        ("half a stream", stream(&format!(": {both}\n\ndata: {{\"x\": \"{both}\"}}\n\n"))),
        ("dropped", vec![]),
    ]
}

#[tokio::test]
async fn servers_that_repeat_the_key_do_not_spread_it() {
    local(async {
        for (provider, model) in PROVIDERS {
            // The signing secret is not sent, so the server cannot echo it.
            let key = if *provider == "bedrock" { TOKEN } else { CANARY };
            for (echo, script) in echoes(key) {
                let what = format!("{provider}, {echo}");
                let (runtime, embedder, said) = listening();
                let server = Server::start(vec![script.clone(), script]).await;
                let options =
                    json!({"provider": provider, "model": model, "base_url": server.url, "llm_retries": 0});
                let call = Call::new("hi", None, options.clone());
                let error = runtime.llm_call(&call).await.unwrap_err();
                assert_clean(
                    &format!("{error:?} {} {} {}", error.message(), error.to_thrown(), error.to_safe_json()),
                    &what,
                );
                runtime
                    .llm_stream(&call, &mut |item| assert_clean(&format!("{item:?}"), &what))
                    .await
                    .unwrap();
                assert!(
                    server.count() == 2
                        && server
                            .request(0)
                            .headers
                            .iter()
                            .any(|(_, v)| v.contains(CANARY) || v.contains("AWS4")),
                    "{what}"
                );
                assert_clean(&said.borrow(), &what);
                assert_clean(&format!("{:?} {:?}", embedder.warnings, embedder.traces), &what);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn good_calls_leave_no_key_behind() {
    local(async {
        let (runtime, embedder, said) = listening();
        let server = Server::start(vec![stream(OPENAI_STREAM), stream(ANTHROPIC_STREAM)]).await;
        for provider in ["openai", "anthropic"] {
            let result =
                ask_with(&runtime, &server, provider, json!({"openai": {"user": "u"}})).await.unwrap();
            assert_clean(&result.to_string(), provider);
        }
        let seen = server.request(0);
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
        assert_eq!((seen.header("x-proxy-token"), seen.header("x-team")), (Some(TOKEN), Some("blue")));
        assert!(said.borrow().contains("Grüße") && said.borrow().contains("/messages"));
        assert_clean(&said.borrow(), "sinks");
        assert_clean(&format!("{:?} {:?}", embedder.warnings, embedder.traces), "host");
    })
    .await;
}

#[tokio::test]
async fn good_replies_that_repeat_the_key_are_recorded_without_it() {
    local(async {
        let (runtime, _, said) = listening();
        let body = OPENAI_STREAM.replace("Grüße ", &format!("The key is {CANARY}. "));
        let server = Server::start(vec![stream(&body)]).await;
        let result = ask_with(&runtime, &server, "openai", json!({})).await.unwrap();
        assert_clean(&result.to_string(), "the result");
        assert!(said.borrow().contains("The key is ***. "));
        assert_clean(&said.borrow(), "sinks");
    })
    .await;
}

#[tokio::test]
async fn keys_that_a_stream_cuts_are_recorded_without_them() {
    local(async {
        let (runtime, _, said) = listening();
        let (head, tail) = CANARY.split_at(9);
        let event = |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}));
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let body = [&event(&format!("The key is Bearer {head}")), &event(&format!("{tail}. ")), end].concat();
        let tape: Rc<RefCell<String>> = Rc::default();
        let sink = tape.clone();
        runtime.record_exchanges(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let server = Server::start(vec![stream(&body)]).await;
        let options = json!({"provider": "openai", "base_url": server.url});
        runtime.llm_call(&Call::new("hi", None, options.clone())).await.unwrap();
        assert_clean(&tape.borrow(), "cassette");
        assert!(!tape.borrow().contains(tail), "{}", tape.borrow());
        assert_clean(&said.borrow(), "sinks");
        let (replaying, _) = crate::support::runtime(&[]);
        replaying.replay_exchanges(&tape.borrow()).unwrap();
        let result = replaying.llm_call(&Call::new("hi", None, options)).await.unwrap();
        assert_eq!(result["text"], "The key is Bearer ***. ");
    })
    .await;
}

#[tokio::test]
async fn a_request_that_holds_the_key_replays_and_is_not_shown() {
    local(async {
        let (runtime, ..) = listening();
        let tape: Rc<RefCell<String>> = Rc::default();
        let sink = tape.clone();
        runtime.record_exchanges(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let server = Server::start(vec![stream(OPENAI_STREAM), stream(OPENAI_STREAM)]).await;
        let of_call = "canary-of-the-call";
        let options = |temperature: f64, key: &str| {
            json!({"provider": "openai", "base_url": server.url, "temperature": temperature, "openai": {"user": key}})
        };
        let mut given = options(0.1, of_call);
        given["api_key"] = of_call.into();
        for options in [options(0.1, CANARY), given.clone()] {
            runtime.llm_call(&Call::new("hi", None, options)).await.unwrap();
        }
        assert_clean(&tape.borrow(), "cassette");
        assert!(!tape.borrow().contains(of_call), "{}", tape.borrow());
        let (replaying, _) = crate::support::runtime(ENV);
        replaying.replay_exchanges(&tape.borrow()).unwrap();
        for options in [options(0.1, CANARY), given] {
            replaying.llm_call(&Call::new("hi", None, options)).await.unwrap();
        }
        let error = replaying.llm_call(&Call::new("hi", None, options(0.2, CANARY))).await.unwrap_err();
        assert!(error.message().contains("body.temperature"), "{}", error.message());
        assert_clean(&format!("{error:?}"), "replay");
    })
    .await;
}

#[test]
fn debug_output_hides_keys() {
    let (runtime, ..) = listening();
    for (provider, model) in PROVIDERS {
        let options = json!({"provider": provider, "model": model, "base_url": format!("http://me:{TOKEN}@h/?key={TOKEN}")});
        let prepared = runtime.prepare(&Call::new("hi", None, options)).unwrap();
        assert_clean(&format!("{:?}", prepared.request.route), provider);
        let request = format!("{:?} {:?}", prepared.request, prepared.request.route.auth);
        assert_clean(&request, provider);
    }
}

#[tokio::test]
async fn addresses_with_passwords_are_shown_without_them() {
    local(async {
        let (runtime, _, said) = listening();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for url in [format!("http://me:{TOKEN}@{gone}/v1?key={TOKEN}"), format!("http://me:{TOKEN}@bad host")]
        {
            let options = json!({"provider": "openai", "base_url": url});
            let error = runtime.llm_call(&Call::new("hi", None, options)).await.unwrap_err();
            assert_clean(&format!("{error:?}"), &url);
        }
        assert_clean(&said.borrow(), "sinks");
        let (replaying, _) = crate::support::runtime(ENV);
        replaying.replay_exchanges("").unwrap();
        let options = json!({"provider": "openai", "base_url": format!("http://me:{TOKEN}@h/")});
        let error = replaying.llm_call(&Call::new("hi", None, options)).await.unwrap_err();
        assert_clean(&format!("{error:?}"), "replay");
    })
    .await;
}

#[tokio::test]
async fn health_checks_and_completions_keep_it_too() {
    local(async {
        let (runtime, _, said) = listening();
        let both = format!("{CANARY} {TOKEN}");
        let refuse = || reply("401 Unauthorized", "", &both);
        let server = Server::start(vec![refuse(), refuse()]).await;
        let completion = Completion {
            prefix: "a".into(),
            options: json!({"provider": "openai", "base_url": server.url}),
            ..Completion::default()
        };
        let error = runtime.llm_completion(&completion).await.unwrap_err();
        assert_clean(&format!("{error:?}"), "completion");
        let layer = format!("[providers.openai]\nbase_url = \"{}\"\n[providers.openai.extra_headers]\nx-proxy-token = \"{TOKEN}\"", server.url);
        runtime.set_config_layers(vec![Layer { origin: "t".into(), toml: layer }]);
        let verdict = runtime.healthcheck("openai", &Value::Null).await;
        assert_eq!(verdict["valid"], json!(false));
        assert_clean(&verdict.to_string(), "health");
        assert_clean(&said.borrow(), "sinks");
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_leaves_early_is_recorded_without_it() {
    local(async {
        let (runtime, _, said) = listening();
        let mut script = stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
        script.push(Step::Hang);
        let server = Server::start(vec![script]).await;
        let call = Call::new("hi", None, json!({"provider": "openai", "base_url": server.url}));
        let mut items = Vec::new();
        let mut deliver = |item| items.push(item);
        let work = runtime.llm_stream(&call, &mut deliver);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(300), work).await;
        assert_eq!(items, [StreamItem::Chunk("half".into())]);
        assert!(said.borrow().contains("half"), "{}", said.borrow());
        assert_clean(&said.borrow(), "sinks");
    })
    .await;
}
