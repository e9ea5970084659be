//! `harn providers`, `harn models`, and the source of model replies in `harn run`.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};

use crate::common::{Ran, command, finish, folder, harn_in};
use harn_strict_servers::{Request, answer as strict};
use serde_json::{Value, json};

/// Runs the binary in a directory that is also the home directory, without keys but with these variables.
pub(crate) fn harn_with_env(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = command(args);
    for name in ["HF_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "HARN_PROVIDERS_CONFIG", "OLLAMA_HOST"] {
        command.env_remove(name);
    }
    command.current_dir(folder).env("HOME", folder).envs(env.iter().copied());
    finish(command, b"")
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}\n{}", ran.shown()))
}

#[test]
fn providers_fit_the_terminal_and_show_no_key() {
    let home = folder(&[]);
    let ran = harn_with_env(home.path(), &["providers"], &[("OPENAI_API_KEY", "sk-very-secret")]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(!ran.out.contains("sk-very-secret"));
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let line = |name: &str| {
        let line =
            ran.out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{}", ran.out));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("anthropic"), "anthropic * not set ANTHROPIC_API_KEY claude-sonnet-4-6");
    let told = "  anthropic: claude-sonnet-4-20250514 -> claude-sonnet-4-6\n";
    assert!(ran.out.contains(told), "{}", ran.out);
    assert_eq!(line("openai"), "openai set OPENAI_API_KEY gpt-4o");
    assert_eq!(line("ollama"), "ollama none - llama3.2");
    assert_eq!(line("groq"), "groq not set GROQ_API_KEY -");
}

#[test]
fn a_model_that_nobody_knows_is_told() {
    let home = folder(&[]);
    let of = |name: &str| harn_with_env(home.path(), &["models", name], &[]);
    let ran = of("fronteir");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let told = "note: unknown model `fronteir` (did you mean `frontier`?): calls with this name go to the \
                provider `anthropic`\n";
    assert_eq!(ran.err, told);
    assert_eq!(of("gpt-4o").err, "");
}

const LIST: &str = r#"{"gpt-99": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-06,
    "output_cost_per_token": 2e-06, "max_output_tokens": 4096, "deprecation_date": "2020-01-02",
    "successor_model": "gpt-100", "source": "https://example.com/prices"}}"#;

#[test]
fn a_newer_table_is_installed_and_shown() {
    let home = folder(&[
        ("list.json", LIST),
        ("harn.toml", "[llm.aliases]\nmine = {id = \"gpt-99\", provider = \"openai\"}\n"),
    ]);
    let ran = |args: &[&str]| {
        harn_with_env(home.path(), args, &[("XDG_STATE_HOME", ""), ("HARN_LLM_PROVIDER", "mock")])
    };
    let before = ran(&["models", "show", "gpt-99"]);
    assert!(before.out.contains("(family)"), "{}", before.shown());
    let done = ran(&["models", "update", "list.json", "--origin", "a list"]);
    assert_eq!(done.code, 0, "{}", done.shown());
    assert!(home.path().join(".local/state/harn/models.tsv").is_file());
    let shown = ran(&["models", "show", "mine"]).out;
    for part in ["1 USD per million tokens", "https://example.com/prices (a list, 20", "gpt-100", "4096"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let doctor = ran(&["doctor", "--no-network"]).out;
    let told = "model `gpt-99` of openai is retired since 2020-01-02; its successor is `gpt-100`";
    assert!(doctor.contains(told), "{doctor}");
    // A damaged table is reported, and the built-in one is used.
    std::fs::write(home.path().join(".local/state/harn/models.tsv"), "nonsense").unwrap();
    let damaged = ran(&["models", "show", "gpt-4o"]);
    assert!(
        damaged.err.contains("not a model table") && damaged.out.contains("2.5 USD"),
        "{}",
        damaged.shown()
    );
}

#[test]
fn wrong_tables_are_refused() {
    let home = folder(&[("list.json", "{}")]);
    let ran = |source: &str| harn_with_env(home.path(), &["models", "update", source], &[]);
    for (source, told) in [
        ("list.json", "not a model list of LiteLLM"),
        ("gone.json", "cannot read"),
        ("http://127.0.0.1:9/x", "cannot read http://127.0.0.1:9/x"),
    ] {
        let ran = ran(source);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.err.contains(told), "{}", ran.shown());
    }
}

#[test]
fn providers_as_json() {
    let home = folder(&[]);
    let ran = harn_with_env(home.path(), &["providers", "--json"], &[("OPENAI_API_KEY", "sk-very-secret")]);
    assert!(!ran.out.contains("sk-very-secret"));
    let json = json_of(&ran);
    assert_eq!(json["ok"], true);
    let all = json["data"]["providers"].as_array().unwrap();
    let of = |name: &str| all.iter().find(|p| p["name"] == name).unwrap();
    assert_eq!(of("openai")["key"], "set");
    assert_eq!(of("openai")["base_url"], "https://api.openai.com/v1");
    assert_eq!(of("groq")["key"], "not set");
    assert_eq!(of("groq")["default_model"], Value::Null);
    assert_eq!(of("anthropic")["is_default"], true);
}

#[test]
fn one_provider_and_an_unknown_one() {
    let home = folder(&[]);
    let ran = harn_with_env(home.path(), &["providers", "ollama"], &[("OLLAMA_HOST", "10.0.0.1:99")]);
    assert!(ran.out.contains("address              http://10.0.0.1:99\n"), "{}", ran.out);
    let ran = harn_with_env(home.path(), &["providers", "nobody"], &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: unknown provider `nobody`; known providers: anthropic, "),
        "{}",
        ran.err
    );
    let ran = harn_with_env(home.path(), &["providers", "nobody", "--json"], &[]);
    assert_eq!((ran.code, json_of(&ran)["error"]["code"].as_str()), (1, Some("unknown_provider")));
}

#[test]
fn models_fit_the_terminal_and_know_the_project() {
    let home = folder(&[(
        "harn.toml",
        "[llm.providers.mine]\nbase_url = \"http://x\"\nauth_env = \"MINE_KEY\"\n\
         [llm.aliases]\nmy-fast = { id = \"vendor/fast\", provider = \"mine\" }\n",
    )]);
    let ran = harn_with_env(home.path(), &["models"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let words = |start: &str| {
        let line =
            ran.out.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{}", ran.out));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        words("claude-sonnet-4-20250514"),
        "claude-sonnet-4-20250514 anthropic frontier 200000 3/15 not set"
    );
    assert_eq!(words("vendor/fast"), "vendor/fast mine mid - - not set");
    assert_eq!(words("my-fast"), "my-fast vendor/fast at mine");
    let json = json_of(&harn_with_env(home.path(), &["models", "--json"], &[("MINE_KEY", "k")]));
    let mine = json["data"]["models"].as_array().unwrap().iter().find(|m| m["provider"] == "mine").unwrap();
    assert_eq!((mine["key"].as_str(), mine["aliases"][0].as_str()), (Some("set"), Some("my-fast")));
}

#[test]
fn one_model() {
    let home = folder(&[]);
    let ran = harn_with_env(home.path(), &["models", "frontier"], &[]);
    assert!(ran.out.contains("model                claude-sonnet-4-20250514\n"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let model = &json_of(&harn_with_env(home.path(), &["models", "mid", "--json"], &[]))["data"];
    assert_eq!(model["id"], "gpt-4o-mini");
    assert_eq!(
        (model["resolved_alias"].as_str(), model["api_key_set"].as_bool()),
        (Some("mid"), Some(false))
    );
    assert_eq!(model["capabilities"]["native_tools"], true);
}

#[test]
fn model_info_is_one_json_object() {
    let home = folder(&[]);
    let ran = harn_with_env(home.path(), &["model-info", "mid"], &[("OPENAI_API_KEY", "sk-very-secret")]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    let model = json_of(&ran);
    let keys: Vec<&str> = model.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "alias",
        "id",
        "provider",
        "resolved_alias",
        "tool_format",
        "tier",
        "api_key_set",
        "context_window",
        "readiness",
        "catalog",
        "capabilities",
        "qc_default_model",
    ] {
        assert!(keys.contains(&key), "{key} is missing in {keys:?}");
    }
    assert_eq!(
        (&model["alias"], &model["id"], &model["provider"]),
        (&json!("mid"), &json!("gpt-4o-mini"), &json!("openai"))
    );
    assert_eq!((&model["readiness"], &model["api_key_set"]), (&Value::Null, &json!(true)));
    assert!(!ran.out.contains("sk-very-secret"));
}

const OPENAI_MODELS: &str = r#"{"data": [{"id": "small-1"}, {"id": "large-1"}]}"#;
const OLLAMA_TAGS: &str = r#"{"models": [{"name": "qwen3:8b"}]}"#;

#[test]
fn model_info_asks_the_server_on_demand() {
    let home = folder(&[(
        "harn.toml",
        "[llm.aliases]\nhere = { id = \"small-1\", provider = \"local\" }\ngone = { id = \"tiny-1\", provider = \"local\" }\n",
    )]);
    let (address, asked) = serve(&[OPENAI_MODELS, OPENAI_MODELS]);
    let env = [("LOCAL_LLM_BASE_URL", address.as_str())];
    let ran = harn_with_env(home.path(), &["model-info", "here", "--verify"], &env);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    assert_eq!(json_of(&ran)["readiness"]["metadata"]["category"], "ok");
    assert_eq!(asked.recv().unwrap(), "GET /v1/models HTTP/1.1 ");
    let ran = harn_with_env(home.path(), &["model-info", "gone", "--verify"], &env);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: local does not serve tiny-1\n"), "{}", ran.shown());
    assert_eq!(json_of(&ran)["readiness"]["metadata"]["available_models"], json!(["large-1", "small-1"]));
    // The server is gone.
    let ran = harn_with_env(home.path(), &["model-info", "here", "--verify"], &env);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: local API error: "), "{}", ran.err);
}

#[test]
fn model_info_warms_a_model_up() {
    let home = folder(&[]);
    let (address, asked) = serve(&[OLLAMA_TAGS, "{}"]);
    let args = ["model-info", "ollama:qwen3:8b", "--warm", "--keep-alive", "-1"];
    let ran = harn_with_env(home.path(), &args, &[("OLLAMA_HOST", &address)]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let model = json_of(&ran);
    assert_eq!(
        (&model["readiness"]["status"], &model["readiness"]["warmup"]["ok"]),
        (&json!("ok"), &json!(true))
    );
    assert_eq!(asked.recv().unwrap(), "GET /api/tags HTTP/1.1 ");
    let load = asked.recv().unwrap();
    assert!(
        load.starts_with("POST /api/generate HTTP/1.1 ") && load.contains(r#""keep_alive":-1"#),
        "{load}"
    );
    let ran = harn_with_env(home.path(), &["model-info", "m", "--keep-alive", "5m"], &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--warm"), "{}", ran.err);
}

#[test]
fn disabled_calls_disable_probes() {
    let home = folder(&[]);
    let env = [("HARN_LLM_CALLS_DISABLED", "1")];
    for args in [&["model-info", "ollama:m", "--verify"][..], &["provider-ready", "ollama"][..]] {
        let ran = harn_with_env(home.path(), args, &env);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(
            ran.err.starts_with("error: LLM calls are disabled by HARN_LLM_CALLS_DISABLED"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_catalogue_can_be_cut_to_what_is_usable() {
    let home = folder(&[]);
    let catalog = |args: &[&str], env: &[(&str, &str)]| {
        let ran = harn_with_env(home.path(), args, env);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        json_of(&ran)
    };
    let names = |catalog: &Value, list: &str, key: &str| -> Vec<String> {
        let rows = catalog[list].as_array().unwrap();
        rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
    };
    let all = catalog(&["provider-catalog"], &[]);
    for key in ["providers", "models", "aliases", "known_model_names", "available_providers", "qc_defaults"] {
        assert!(!all[key].is_null(), "{key}");
    }
    assert!(names(&all, "providers", "name").contains(&"openai".to_owned()));
    assert!(names(&all, "aliases", "name").contains(&"mid".to_owned()));
    let usable = catalog(&["provider-catalog", "--available-only"], &[]);
    assert_eq!(json!(names(&usable, "providers", "name")), usable["available_providers"]);
    assert!(!names(&usable, "providers", "name").contains(&"openai".to_owned()));
    assert_eq!(names(&usable, "models", "provider"), ["ollama"]);
    assert!(!names(&usable, "aliases", "name").contains(&"mid".to_owned()));
    assert!(usable["qc_defaults"].get("openai").is_none() && usable["qc_defaults"].get("ollama").is_some());
    let with_key = catalog(&["provider-catalog", "--available-only"], &[("OPENAI_API_KEY", "k")]);
    assert_eq!(names(&with_key, "models", "id"), ["gpt-4o-mini", "llama3.2"]);
    assert!(with_key["known_model_names"].as_array().unwrap().contains(&json!("mid")));
}

#[test]
fn a_provider_is_ready_or_says_why_not() {
    let home = folder(&[]);
    let ready = |args: &[&str], env: &[(&str, &str)]| {
        harn_with_env(home.path(), &[&["provider-ready"], args].concat(), env)
    };
    let (address, asked) = serve(&[OPENAI_MODELS; 4]);
    let ran = ready(&["local", "--base-url", &address], &[]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            format!(
                "provider             local\nready                yes\nmessage              the local server is reachable\n\
                 address              {address}/v1/models\n\
                 selected             no: calls that name no provider use `anthropic`\n"
            )
            .as_str()
        ),
        "{}",
        ran.shown()
    );
    assert_eq!(asked.recv().unwrap(), "GET /v1/models HTTP/1.1 ");
    let key = [("OPENAI_API_KEY", "sk-very-secret")];
    let ran = ready(&["openai", "--base-url", &address, "--model", "small-1", "--json"], &key);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(asked.recv().unwrap(), "GET /models HTTP/1.1 ");
    let json = json_of(&ran);
    assert_eq!((&json["ok"], &json["data"]["metadata"]["category"]), (&json!(true), &json!("ok")));
    let ran = ready(&["local", "--base-url", &address, "--model", "tiny-1"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: local does not serve tiny-1\n"), "{}", ran.shown());
    assert!(
        ran.out.contains("ready                no\n")
            && ran.out.contains("models               large-1, small-1\n")
            && !ran.out.contains("message"),
        "{}",
        ran.out
    );
    let ran = ready(&["mock"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.contains("ready                not checked\n"), "{}", ran.out);
    // A check at a separate address would not test this server.
    let ran = ready(&["huggingface", "--base-url", &address], &[("HF_TOKEN", "k")]);
    assert_eq!(ran.code, 0, "{}", ran.shown());

    let ran = ready(&["openai", "--json"], &[]);
    assert_eq!(
        (ran.code, &json_of(&ran)["error"]["code"]),
        (1, &json!("missing_credentials")),
        "{}",
        ran.shown()
    );
    assert_eq!(json_of(&ran)["error"]["details"]["metadata"]["auth_env"], json!(["OPENAI_API_KEY"]));
    let ran = ready(&["nobody"], &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("error: unknown provider `nobody`; known providers: anthropic, "),
        "{}",
        ran.err
    );
}

const PROGRAM: &str = r#"
let r = llm_call_safe("What is " + argv[0] + "?", nil, {provider: "mock"})
println(r.ok ? r.response.text : r.error.message)
"#;

#[test]
fn replies_are_recorded_and_replayed() {
    let home = folder(&[("ask.harn", PROGRAM)]);
    let run = |args: &[&str]| harn_in(home.path(), args);
    let first = run(&["run", "ask.harn", "--llm-mock-record", "new/folder/replies.jsonl", "--", "Harn"]);
    assert_eq!(first.out, "Mock response to 3-word prompt: What is Harn?\n", "{}", first.shown());
    let lines = std::fs::read_to_string(home.path().join("new/folder/replies.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1);
    let again = run(&["run", "ask.harn", "--llm-mock", "new/folder/replies.jsonl", "--", "another thing"]);
    assert_eq!(again.out, first.out, "{}", again.shown());
}

#[test]
fn replies_are_recorded_also_when_the_program_fails() {
    let home = folder(&[("fail.harn", "llm_call(\"x\", nil, {provider: \"mock\"})\nthrow \"broken\"\n")]);
    let ran = harn_in(home.path(), &["run", "fail.harn", "--llm-mock-record", "r.jsonl"]);
    assert_eq!(ran.code, 1);
    assert_eq!(std::fs::read_to_string(home.path().join("r.jsonl")).unwrap().lines().count(), 1);
}

#[test]
fn a_run_without_calls_says_what_is_in_its_recording() {
    let home = folder(&[
        ("one.harn", "println(1)\n"),
        ("ask.harn", PROGRAM),
        ("old.jsonl", "{\"text\": \"old\"}\n"),
    ]);
    let run = |args: &[&str]| harn_in(home.path(), args);
    for record in ["--llm-mock-record", "--llm-cassette-record"] {
        let ran = run(&["run", "one.harn", record, "old.jsonl"]);
        let told = "warning: nothing was recorded, so old.jsonl still holds what an earlier run recorded\n";
        assert_eq!((ran.code, ran.err.as_str()), (0, told), "{}", ran.shown());
        assert_eq!(std::fs::read_to_string(home.path().join("old.jsonl")).unwrap(), "{\"text\": \"old\"}\n");
        let new = format!("new{record}.jsonl");
        let ran = run(&["run", "one.harn", record, &new]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
        let replay = record.trim_end_matches("-record");
        let again = run(&["run", "one.harn", replay, &new]);
        assert_eq!((again.code, again.out.as_str()), (0, "1\n"), "{}", again.shown());
    }
    let ran = run(&["run", "ask.harn", "--llm-mock-record", "old.jsonl", "--", "Harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
    assert!(!std::fs::read_to_string(home.path().join("old.jsonl")).unwrap().contains("old"));
}

#[test]
fn a_loop_that_searches_its_tools_falls_back() {
    let program = r#"
var tools = tool_define(tool_registry(), "look", "Look", {parameters: {}, handler: { _ -> "seen" }, defer_loading: true})
tools = tool_define(tools, "stay", "Stay", {parameters: {}, handler: { _ -> "here" }})
let r = agent_loop("go", nil, {
  provider: "anthropic", fallback_chain: ["mock:gpt-4o"], tools: tools, tool_search: "bm25", max_iterations: 1,
})
println(r.status)
"#;
    let home = folder(&[("a.harn", program)]);
    let ran = harn_with_env(home.path(), &["run", "a.harn"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.err.contains("mock answers instead with gpt-4o"), "{}", ran.shown());
}

#[test]
fn wrong_fixtures_and_options_are_named() {
    let home =
        folder(&[("ask.harn", PROGRAM), ("bad.jsonl", "{}\n{\"text\": 5}\n"), ("worse.jsonl", "nope\n")]);
    let err = |args: &[&str]| {
        let ran = harn_in(home.path(), args);
        (ran.code, ran.err)
    };
    let (code, text) = err(&["run", "ask.harn", "--llm-mock", "bad.jsonl", "--", "x"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("invalid --llm-mock fixture in bad.jsonl line 2: `text` must be a string"),
        "{text}"
    );
    let (code, text) = err(&["run", "ask.harn", "--llm-mock", "worse.jsonl", "--", "x"]);
    assert_eq!(code, 1);
    assert!(text.contains("invalid JSON in worse.jsonl line 1: "), "{text}");
    let (code, text) = err(&["run", "ask.harn", "--llm-mock", "none.jsonl", "--", "x"]);
    assert_eq!(code, 1);
    assert!(text.contains("cannot read none.jsonl"), "{text}");
    let (code, text) = err(&["run", "ask.harn", "--llm-mock", "bad.jsonl", "--llm-mock-record", "r.jsonl"]);
    assert_eq!(code, 2);
    assert!(text.contains("cannot be used with"), "{text}");
}

/// Serves one request per reply with JSON. Returns the address and a receiver of the requests.
pub(crate) fn serve(replies: &'static [&'static str]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || replies.iter().for_each(|reply| answer(&listener, reply, &tell)));
    (address, told)
}

/// Responds to a request; `tell` receives its first line and its body.
fn answer(listener: &TcpListener, reply: &str, tell: &Sender<String>) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let request = Request::read(&mut reader).unwrap();
    let body = if request.body.is_null() { String::new() } else { request.body.to_string() };
    let _ = tell.send(format!("{} {body}", request.line));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    stream.write_all(&strict("models", &request, (head + reply).as_bytes())).unwrap();
}

pub(crate) const REPLY: &str = r#"{"choices": [{"message": {"role": "assistant", "content": "From the wire."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3}}"#;

#[test]
fn exchanges_are_recorded_and_replayed() {
    let program = r#"println(llm_call(argv[0], nil, {provider: "mine", model: "m", stream: false}).text)"#;
    let home = folder(&[("ask.harn", program)]);
    let (address, _) = serve(&[REPLY]);
    let manifest =
        |url: &str| format!("[llm.providers.mine]\nbase_url = \"{url}\"\nauth_env = \"MINE_KEY\"\n");
    std::fs::write(home.path().join("harn.toml"), manifest(&address)).unwrap();
    let run = |args: &[&str], key: &[(&str, &str)]| harn_with_env(home.path(), args, key);
    let key = [("MINE_KEY", "sk-very-secret")];
    let first = run(&["run", "ask.harn", "--llm-cassette-record", "tape.jsonl", "--", "Hi"], &key);
    assert_eq!(first.out, "From the wire.\n", "{}", first.shown());
    let tape = std::fs::read_to_string(home.path().join("tape.jsonl")).unwrap();
    assert!(!tape.contains("sk-very-secret") && tape.lines().count() == 1, "{tape}");
    // There is no server and no key.
    let again = run(&["run", "ask.harn", "--llm-cassette", "tape.jsonl", "--", "Hi"], &[]);
    assert_eq!((again.code, again.out.as_str()), (0, "From the wire.\n"), "{}", again.shown());
    let other = run(&["run", "ask.harn", "--llm-cassette", "tape.jsonl", "--", "Ho"], &[]);
    assert_eq!(other.code, 1);
    assert!(
        other.err.contains("the nearest recorded request differs (- recorded, + made):"),
        "{}",
        other.err
    );
    assert!(other.err.contains("1 exchange of tape.jsonl was not asked for"), "{}", other.err);
}

#[test]
fn packages_and_the_project_configure_providers() {
    let home = folder(&[
        (
            "ask.harn",
            "println(llm_config(\"a\").base_url)\nprintln(llm_config(\"b\").base_url)\nprintln(llm_resolve_model(\"fast\").id)\n",
        ),
        ("harn.toml", "[llm.providers.b]\nbase_url = \"http://project\"\n"),
        (
            ".harn/packages/one/harn.toml",
            "[llm.providers.a]\nbase_url = \"http://one\"\n[llm.providers.b]\nbase_url = \"http://one\"\n[llm.aliases]\nfast = { id = \"first\", provider = \"a\" }\n",
        ),
        (".harn/packages/two/harn.toml", "[llm.aliases]\nfast = { id = \"second\", provider = \"a\" }\n"),
        (".harn/packages/broken/harn.toml", "[llm"),
    ]);
    let ran = harn_with_env(home.path(), &["run", "ask.harn"], &[]);
    assert_eq!(ran.out, "http://one\nhttp://project\nsecond\n", "{}", ran.shown());
    assert!(
        ran.err.contains("[llm_config] TOML parse error in ") && ran.err.contains("broken"),
        "{}",
        ran.err
    );
}

#[test]
fn the_call_log_tells_of_renders_requests_and_failures() {
    let program = r#"
let caller = default_llm_caller({provider: "mock", handlers: [{ call, next ->
  next({...call, system: render_string("{{ if llm.capabilities.native_tools }}tools{{ else }}none{{ end }}")})
}]})
caller({prompt: "Hi", options: {model: "gpt-4o"}})
render_string("outside of any call")
llm_mock({error: {category: "auth", message: "no"}})
llm_call_safe("again", nil, {provider: "mock"})
"#;
    let home = folder(&[("ask.harn", program)]);
    let ran = harn_with_env(home.path(), &["run", "ask.harn"], &[("HARN_LLM_TRANSCRIPT_DIR", "log")]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let text = std::fs::read_to_string(home.path().join("log/llm_transcript.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(
        kinds,
        [
            "template.render",
            "system_prompt",
            "message",
            "provider_call_request",
            "provider_call_response",
            "interpreted_response",
            "message",
            "provider_call_request",
            "provider_call_error",
        ]
    );
    let render = &lines[0];
    assert_eq!((render["template_uri"].as_str(), render["rendered_bytes"].as_u64()), (Some(""), Some(5)));
    assert_eq!(render["template_revision_hash"].as_str().map(str::len), Some(64));
    assert_eq!(
        (render["llm"]["provider"].as_str(), render["llm"]["model"].as_str()),
        (Some("mock"), Some("gpt-4o"))
    );
    let branch = &render["branches"][0];
    assert_eq!((branch["kind"].as_str(), branch["branch_id"].as_str()), (Some("if"), Some("if")));
    assert_eq!(branch["branch_label"], "llm.capabilities.native_tools");
    assert!(render["timestamp"].is_string() && render["span_id"].is_null());
    assert_eq!(lines[3]["call_id"], lines[4]["call_id"]);
    assert_eq!((lines[8]["category"].as_str(), lines[8]["message"].as_str()), (Some("auth"), Some("no")));
}

#[test]
fn configurations_are_read_in_order() {
    let alias = |table: &str, model: &str| format!("[{table}.who]\nid = \"{model}\"\nprovider = \"mock\"\n");
    let place = folder(&[
        ("main.harn", "println(llm_resolve_model(\"who\").id)\n"),
        (".config/harn/providers.toml", &alias("aliases", "of-the-user")),
        ("named.toml", &alias("aliases", "of-the-variable")),
        (".harn/packages/b/harn.toml", &alias("llm.aliases", "of-package-b")),
        (".harn/packages/a/harn.toml", &alias("llm.aliases", "of-package-a")),
        ("harn.toml", &alias("llm.aliases", "of-the-project")),
    ]);
    let named = place.path().join("named.toml");
    let named = [("HARN_PROVIDERS_CONFIG", named.to_str().unwrap())];
    let resolved = |env: &[(&str, &str)]| {
        let ran = harn_with_env(place.path(), &["run", "main.harn"], env);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.shown());
        ran.out.trim().to_owned()
    };
    // When a configuration is removed, the next one applies; the file of the variable replaces the user's.
    assert_eq!(resolved(&named), "of-the-project");
    std::fs::write(place.path().join("harn.toml"), "").unwrap();
    assert_eq!(resolved(&named), "of-package-b");
    std::fs::remove_dir_all(place.path().join(".harn/packages/b")).unwrap();
    assert_eq!(resolved(&named), "of-package-a");
    std::fs::remove_dir_all(place.path().join(".harn/packages/a")).unwrap();
    assert_eq!(resolved(&named), "of-the-variable");
    assert_eq!(resolved(&[]), "of-the-user");
    std::fs::remove_file(place.path().join(".config/harn/providers.toml")).unwrap();
    assert_eq!(resolved(&[]), "who");
}

/// The capabilities of models: the error of a call that exceeds a model's capabilities refers to this table.
#[test]
fn what_models_can_do_is_a_table() {
    let ran = crate::common::harn(&["check", "--provider-matrix"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let claude = ran.out.lines().find(|line| line.starts_with("anthropic:claude-sonnet-4-20250514 "));
    assert!(claude.is_some_and(|line| line.contains(" native ") && line.contains("think")), "{}", ran.out);
    let json = |filter: &str| {
        let ran =
            crate::common::harn(&["check", "--provider-matrix", "--format", "json", "--filter", filter]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        report["data"]["models"].as_array().unwrap().clone()
    };
    let hearing = json("audio");
    assert!(!hearing.is_empty() && hearing.iter().all(|model| model["audio"] == true), "{hearing:?}");
    assert!(json("thinking").iter().any(|model| model["model"] == "claude-sonnet-4-20250514"));
    let ran = crate::common::harn(&["check", "--provider-matrix", "--filter", "vison_supported"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("unknown feature 'vison_supported' (did you mean `vision_supported`?)"),
        "{}",
        ran.err
    );
    for wrong in [&["check", "--format", "json", "x.harn"][..], &["check", "--provider-matrix", "x.harn"]] {
        let ran = crate::common::harn(wrong);
        assert_eq!(ran.code, 2, "{}", ran.err);
    }
}
