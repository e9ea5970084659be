//! The table of features by provider in `docs/llm/features.md`: the same programs run on the strict server of each
//! provider, and the page contains the results. `INSTA_UPDATE=always` rewrites the page.

use harn_strict_servers::cases::{Case, Reply, Stop};
use harn_strict_servers::{Bedrock, ENV, Format, Gemini, Ollama, OpenAi, Request, Responses, answer};
use harn_value::{Data as Json, json};

use crate::wire::{http_bytes, serve_with};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/llm/features.md");

/// The smallest image and document that servers accept.
const IMAGE: &str = "iVBORw0KGgo=";
const DOCUMENT: &str = "JVBERi0xLjQK";

/// A provider with a model, and its server.
struct Host {
    name: &'static str,
    format: Box<dyn Format>,
}

fn hosts() -> Vec<Host> {
    let host = |name, format| Host { name, format };
    let chat = |provider, model| -> Box<dyn Format> { Box::new(OpenAi { provider, model }) };
    vec![
        host("anthropic", Box::new(harn_strict_servers::Anthropic { model: "claude-sonnet-4-5" })),
        host("openai", chat("openai", "gpt-4o")),
        host("openai (reasoning)", chat("openai", "o4-mini")),
        host("openai (Responses)", Box::new(Responses)),
        host("gemini", Box::new(Gemini { provider: "gemini", model: "gemini-2.5-pro" })),
        host("gemini (Gemini 3)", Box::new(Gemini { provider: "gemini", model: "gemini-3.1-pro-preview" })),
        host("vertex", Box::new(Gemini { provider: "vertex", model: "gemini-2.5-pro" })),
        host("bedrock", Box::new(Bedrock { model: "anthropic.claude-sonnet-4-20250514-v1:0" })),
        host(
            "bedrock (Claude 4.5)",
            Box::new(Bedrock { model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" }),
        ),
        host("bedrock (Claude 4.7)", Box::new(Bedrock { model: "global.anthropic.claude-opus-4-7" })),
        host("azure_openai", chat("azure_openai", "gpt-4o-prod")),
        host("openrouter", chat("openrouter", "google/gemini-2.5-pro")),
        host("deepseek", chat("deepseek", "deepseek-chat")),
        host("groq", chat("groq", "llama-3.3-70b-versatile")),
        host("groq (schema)", chat("groq", "openai/gpt-oss-120b")),
        host("together", chat("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo")),
        host("fireworks", chat("fireworks", "accounts/fireworks/models/qwen3-8b")),
        host("huggingface", chat("huggingface", "Qwen/Qwen3.5-9B")),
        host("dashscope", chat("dashscope", "qwen3.6-plus")),
        host("ollama", Box::new(Ollama { model: "llama3.2-vision" })),
        host("ollama (reasoning)", Box::new(Ollama { model: "qwen3:8b" })),
        host("vllm", chat("vllm", "my-own-model")),
        host("vllm (vision)", chat("vllm", "Qwen/Qwen2.5-VL-7B-Instruct")),
        host("tgi", chat("tgi", "my-own-model")),
        host("mlx", chat("mlx", "my-own-model")),
        host("local", chat("local", "my-own-model")),
        host("local (vision)", chat("local", "google/gemma-3-12b-it")),
    ]
}

/// A column: a program with `OPTIONS`, its replies, and a function that checks in the requests whether the feature was
/// used.
struct Feature {
    name: &'static str,
    /// Prints `ok` when the program received what the server sent.
    program: &'static str,
    replies: Vec<Reply>,
    /// Whether to add options that request reasoning.
    thinks: bool,
    cell: fn(&[Request], &dyn Format) -> &'static str,
}

fn said(text: &'static str) -> Reply {
    Reply { thinking: "", text, calls: Vec::new(), usage: [900, 20, 300, 0], reasoning: 0, stop: Stop::End }
}

fn calling(calls: &[(&'static str, Json)]) -> Reply {
    let calls = calls.iter().map(|(id, arguments)| (*id, "add", arguments.clone())).collect();
    Reply { calls, stop: Stop::Tools, ..said("I add.") }
}

fn sent(requests: &[Request], n: usize) -> String {
    requests.get(n).map(|request| request.body.to_string()).unwrap_or_default()
}

/// Returns whether a request asks for a stream.
fn is_streamed(request: &Request) -> bool {
    let of_target = [":streamGenerateContent", "/converse-stream"];
    request.body["stream"] == json!(true) || has_any(request.target(), &of_target)
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn yes(_: &[Request], _: &dyn Format) -> &'static str {
    "yes"
}

const ADD: &str = r#"
tool add(a: int, b: int) -> int {
  description "Adds"
  a + b
}
let r = agent_loop("Add.", nil, {...OPTIONS, tools: add})
"#;

fn features() -> Vec<Feature> {
    // Tools are native if they are in the field of the format instead of the prompt.
    let tools: fn(&[Request], &dyn Format) -> &'static str = |requests, _| {
        let native = requests[0].body.get("tools").or_else(|| requests[0].body.get("toolConfig"));
        if native.is_some() { "yes" } else { "as text" }
    };
    let feature = |name, program, replies, cell| Feature { name, program, replies, thinks: false, cell };
    vec![
        feature(
            "text",
            r#"if llm_call("Hi.", nil, OPTIONS).text == "Hello there." { println("ok") }"#,
            vec![said("Hello there.")],
            yes,
        ),
        feature(
            "stream",
            r#"
var pieces = []
for piece in llm_stream("Hi.", nil, OPTIONS) { pieces = pieces + [piece] }
if join(pieces, "") == "Hello there." { println("ok") }
"#,
            vec![said("Hello there.")],
            |requests, _| {
                if is_streamed(&requests[0]) { "yes" } else { "in one piece" }
            },
        ),
        feature(
            "tools",
            concat!(
                "TOOLS",
                r#"if r.status == "done" && r.tools_used == ["add"] && contains(r.visible_text, "It is 5.") { println("ok") }"#
            ),
            vec![calling(&[("id_1", json!({"a": 2, "b": 3}))]), said("It is 5.")],
            tools,
        ),
        feature(
            "parallel tools",
            concat!("TOOLS", r#"if r.status == "done" && r.iterations == 2 { println("ok") }"#),
            vec![
                calling(&[("id_1", json!({"a": 20, "b": 3})), ("id_2", json!({"a": 40, "b": 5}))]),
                said("They are 23 and 45."),
            ],
            |requests, _| {
                let both = sent(requests, 1);
                if both.contains("23") && both.contains("45") { "yes" } else { "no" }
            },
        ),
        feature(
            "images",
            r#"
let content = [{type: "text", text: "What is it?"}, {type: "image", base64: "IMAGE", media_type: "image/png"}]
if llm_call(nil, nil, {...OPTIONS, messages: [{role: "user", content: content}]}).text == "A cat." { println("ok") }
"#,
            vec![said("A cat.")],
            |requests, _| if sent(requests, 0).contains(IMAGE) { "yes" } else { "no" },
        ),
        feature(
            "documents",
            r#"
let content = [{type: "text", text: "Sum it up."}, {type: "document", base64: "DOCUMENT", media_type: "application/pdf"}]
if llm_call(nil, nil, {...OPTIONS, messages: [{role: "user", content: content}]}).text == "A report." { println("ok") }
"#,
            vec![said("A report.")],
            |requests, _| if sent(requests, 0).contains(DOCUMENT) { "yes" } else { "no" },
        ),
        feature(
            "structured",
            r#"
let schema = {type: "object", properties: {answer: {type: "integer"}}, required: ["answer"]}
if llm_call("How many?", nil, {...OPTIONS, schema: schema}).data.answer == 42 { println("ok") }
"#,
            vec![said("{\"answer\":42}")],
            |requests, _| match sent(requests, 0) {
                body if body.contains("\"json_object\"") => "by JSON mode",
                body if has_any(
                    &body,
                    &[
                        "\"response_format\"",
                        "responseSchema",
                        "\"output_config\"",
                        "\"outputConfig\"",
                        "\"text\":{\"format\"",
                    ],
                ) =>
                {
                    "by schema"
                }
                body if has_any(&body, &["\"format\":{"]) => "by schema",
                body if body.contains("json_response") => "by a tool",
                _ => "by prompt",
            },
        ),
        Feature {
            thinks: true,
            ..feature(
                "thinking",
                r#"let r = llm_call("Hi.", nil, OPTIONS)
let thoughts = r.thinking ?? r.thinking_summary
if r.text == "Hello there." {
  if thoughts == "Hm, well." { println("ok") }
  if thoughts == nil { println("ok, hidden") }
}"#,
                vec![Reply { thinking: "Hm, well.", ..said("Hello there.") }],
                yes,
            )
        },
        feature(
            "cache",
            r#"if llm_call("Hi.", "Be kind.", {...OPTIONS, cache: true}).text == "Hello there." { println("ok") }"#,
            vec![said("Hello there.")],
            |requests, _| {
                if has_any(&sent(requests, 0), &["cache_control", "cachePoint"]) {
                    "by marks"
                } else {
                    "automatic"
                }
            },
        ),
        feature(
            "usage",
            r#"let r = llm_call("Hi.", nil, OPTIONS)
if r.input_tokens == 900 && r.output_tokens == 20 { println(if r.cache_read_tokens == 300 { "ok, cached" } else { "ok" }) }"#,
            vec![said("Hello there.")],
            yes,
        ),
    ]
}

/// Returns the reply of a provider to a request: a stream if the request asks for one.
pub(crate) fn reply(format: &dyn Format, request: &Request, reply: &Reply, thinks: bool) -> Vec<u8> {
    let name = if request.body.to_string().contains("json_response") { "json" } else { "feature" };
    let case = Case { name, options: json!({}), thinks, reply: reply.clone() };
    let streams = is_streamed(request);
    let whole = format.whole(&case).filter(|_| !streams);
    match (whole, format.stream(&case)) {
        (Some(body), _) => http_bytes("application/json", body.to_string().as_bytes()),
        (None, Some((kind, body))) => http_bytes(kind, &body),
        (None, None) => panic!("{} has no reply", format.name()),
    }
}

/// Returns one cell: the value of the feature, or `no` if Harn rejects the call before sending it.
fn cell(host: &Host, feature: &Feature, wrong: &mut Vec<String>) -> String {
    let what = format!("{}, {}", host.name, feature.name);
    let (test, replies, thinks) = (what.clone(), feature.replies.clone(), feature.thinks);
    let format = hosts().into_iter().find(|other| other.name == host.name).unwrap().format;
    let mut left = replies.into_iter();
    let (url, requests) = serve_with(left.len(), move |request| {
        let next = left.next().unwrap();
        answer(&test, request, &reply(&*format, request, &next, thinks))
    });
    let mut options = host.format.options();
    options["base_url"] = url.into();
    options["llm_retries"] = 0.into();
    options["max_tokens"] = 20_000.into();
    if feature.thinks {
        let more = host.format.thinking().unwrap_or_else(|| json!({"thinking": true}));
        more.as_object().unwrap().iter().for_each(|(key, value)| options[key.as_str()] = value.clone());
    }
    let body = feature.program.replace("TOOLS", ADD).replace("IMAGE", IMAGE).replace("DOCUMENT", DOCUMENT);
    let program = format!("let OPTIONS = json_parse({:?})\n{body}", options.to_string());
    let run = crate::common::run_with("test.harn", &program, std::path::Path::new("/"), &keys(), None);
    let requests: Vec<Request> = requests.try_iter().collect();
    if let Some(error) = &run.error {
        // An unsupported call must be rejected before it is sent.
        if !requests.is_empty() {
            wrong.push(format!("{what}: {error}"));
        }
        return "no".to_owned();
    }
    if !run.output.starts_with("ok") {
        let bodies: Vec<Json> = requests.iter().map(|request| request.body.clone()).collect();
        wrong.push(format!("{what}: {}{}\n{:#}", run.output, run.errors, Json::from(bodies)));
        return "no".to_owned();
    }
    let more = run.output.trim().strip_prefix("ok").unwrap_or_default();
    format!("{}{more}", (feature.cell)(&requests, &*host.format))
}

pub(crate) fn keys() -> Vec<(&'static str, &'static str)> {
    let more = ["DEEPSEEK", "GROQ", "TOGETHER_AI", "FIREWORKS", "HUGGINGFACE"];
    let more = more.map(|name| (Box::leak(format!("{name}_API_KEY").into_boxed_str()) as &str, "k-more"));
    ENV.iter().copied().chain(more).collect()
}

fn table() -> String {
    let (features, mut wrong) = (features(), Vec::new());
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = features.iter().map(|feature| feature.name.to_owned());
    let mut out = row([String::from("Provider"), String::from("Model")].into_iter().chain(names).collect());
    out += &format!("|{}\n", "---|".repeat(features.len() + 2));
    for host in hosts() {
        let model = host.format.options()["model"].as_str().unwrap_or_default().to_owned();
        let cells = features.iter().map(|feature| cell(&host, feature, &mut wrong)).collect::<Vec<_>>();
        out +=
            &row([format!("`{}`", host.name).replace(" (", "` (").replace(")`", ")"), format!("`{model}`")]
                .into_iter()
                .chain(cells)
                .collect());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    out
}

/// Every provider must have a row, because features of other providers are untested.
#[test]
fn every_provider_has_a_row() {
    let program = "println(join(llm_providers(), \" \"))";
    let run = crate::common::run_with("test.harn", program, std::path::Path::new("/"), &keys(), None);
    let hosts = hosts();
    let rows: Vec<&str> = hosts.iter().map(|host| host.name.split(' ').next().unwrap()).collect();
    let missing: Vec<&str> =
        run.output.split_whitespace().filter(|name| *name != "mock" && !rows.contains(name)).collect();
    assert!(run.output.contains("anthropic") && missing.is_empty(), "{missing:?} {}", run.output);
}

#[test]
fn the_page_of_features_is_what_the_servers_saw() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once("<!-- table -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end of table -->").unwrap();
    let fresh = format!("{head}<!-- table -->\n{}<!-- end of table -->{tail}", table());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(PAGE, &fresh).unwrap();
    }
    assert_eq!(fresh, page, "docs/llm/features.md is out of date: run this test with INSTA_UPDATE=always");
}
