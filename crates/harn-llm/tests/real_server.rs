//! Calls to third-party model servers on this machine: a server that replies from fixtures in the format of every
//! provider, and a gateway in front of it that translates between formats.
//!
//! `make test-real-server` installs both and runs these tests. Without the servers, the tests print a notice and pass.
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{llm_error, local};
use harn_llm::runtime::StreamItem;
use harn_llm::{Call, LlmError, LlmRuntime};
use harn_value::{Data as Value, json};

/// A server that is stopped at the end of its test.
struct Running {
    child: Child,
    port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory in which the servers are installed, if it contains this program.
fn installed(program: &str) -> Option<PathBuf> {
    let found = std::env::var_os("HARN_REAL_SERVERS").map(|dir| Path::new(&dir).join(program));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {program} is not installed; `make test-real-server` installs it");
    }
    found
}

/// Starts a server and waits until it listens.
fn start(command: impl FnOnce(u16) -> Command, patience: Duration) -> Running {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = command(port).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut running = Running { child, port };
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.child.try_wait().unwrap().is_none(), "the server ended");
        assert!(started.elapsed() < patience, "the server does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    running
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_server").join(name)
}

fn fixture_server() -> Option<Running> {
    let program = installed("npm/node_modules/.bin/llmock")?;
    let command = |port: u16| {
        let mut command = Command::new(program);
        command.args(["--strict", "--chunk-size", "5", "--log-level", "warn", "--port", &port.to_string()]);
        command.arg("--fixtures").arg(data("fixtures.json"));
        command
    };
    Some(start(command, Duration::from_secs(60)))
}

fn gateway(upstream: &Running) -> Option<Running> {
    let program = installed("venv/bin/litellm")?;
    let command = |port: u16| {
        let mut command = Command::new(program);
        command
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--config"])
            .arg(data("gateway.yaml"));
        command.env("UPSTREAM", format!("http://127.0.0.1:{}/v1", upstream.port));
        // Uses the prices in its package, not those from the network.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_TELEMETRY", "False");
        command.stderr(Stdio::null());
        command
    };
    Some(start(command, Duration::from_secs(300)))
}

/// A way to reach the server: its name, the environment, and the options of the calls.
struct Way {
    name: &'static str,
    env: Vec<(String, String)>,
    options: Value,
    reasons: bool,
    /// The tokens that the server reports: input, output, and input read from the cache. `None` if they are estimated.
    usage: Option<[i64; 3]>,
}

impl Way {
    fn new(name: &'static str, options: Value) -> Way {
        Way { name, env: Vec::new(), options, reasons: false, usage: Some([120, 9, 0]) }
    }

    fn reporting(mut self, usage: Option<[i64; 3]>) -> Way {
        self.usage = usage;
        self
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Way {
        self.env.push((name.to_string(), value.into()));
        self
    }

    fn reasoning(mut self) -> Way {
        self.reasons = true;
        self
    }

    fn runtime(&self) -> std::rc::Rc<LlmRuntime> {
        let env: Vec<(&str, &str)> = self.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        crate::support::runtime(&env).0
    }

    fn call(&self, more: Value) -> Call {
        let mut options = self.options.clone();
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Call::new(more["prompt"].clone(), None, options)
    }

    async fn ask(&self, more: Value) -> Value {
        let name = self.name;
        self.runtime().llm_call(&self.call(more)).await.unwrap_or_else(|e| panic!("{name}: {e:?}"))
    }

    async fn fault(&self, more: Value) -> LlmError {
        llm_error(self.runtime().llm_call(&self.call(more)).await)
    }

    async fn check(&self) {
        let name = self.name;
        for stream in [true, false] {
            let how = format!("{name}, stream {stream}");
            let r = self.ask(json!({"prompt": "greet me", "stream": stream})).await;
            assert_eq!(r["text"], "Good day to you, and grüezi 😀.", "{how}");
            assert_eq!(r["stop_reason"], "end_turn", "{how}");
            assert!(r["output_tokens"].is_i64(), "{how}: {r}");

            if self.reasons {
                let r = self.ask(json!({"prompt": "think", "stream": stream})).await;
                let thoughts = [&r["thinking"], &r["thinking_summary"]];
                assert!(thoughts.contains(&&json!("Three and four.")), "{how}: {r}");
                assert_eq!(r["text"], "Seven.", "{how}");
            }

            let tools = json!([{"name": "get_weather", "description": "Weather of a city",
                                "parameters": {"city": "string", "days": {"type": "int", "required": false}}}]);
            let r = self.ask(json!({"prompt": "weather", "stream": stream, "tools": tools})).await;
            assert_eq!(r["stop_reason"], "tool_use", "{how}");
            let calls = r["tool_calls"].as_array().unwrap_or_else(|| panic!("{how}: {r}"));
            let seen: Vec<(&Value, &Value)> = calls.iter().map(|c| (&c["name"], &c["arguments"])).collect();
            let (bern, rome) = (json!({"city": "Bern", "days": 2}), json!({"city": "Rome", "days": 1}));
            assert_eq!(seen, [(&json!("get_weather"), &bern), (&json!("get_weather"), &rome)], "{how}");

            let mut messages = r["transcript"]["messages"].as_array().unwrap().clone();
            for (call, weather) in calls.iter().zip(["rain", "sun"]) {
                messages.push(json!({"role": "tool_result", "tool_use_id": call["id"], "content": weather}));
            }
            let more = json!({"prompt": "", "stream": stream, "tools": tools, "messages": messages});
            assert_eq!(self.ask(more).await["text"], "Rain in Bern, sun in Rome.", "{how}");

            let schema = json!({"type": "object", "required": ["capital", "cantons"],
                                "properties": {"capital": {"type": "string"}, "cantons": {"type": "integer"}}});
            let r = self.ask(json!({"prompt": "capital", "stream": stream, "schema": schema})).await;
            assert_eq!(r["data"], json!({"capital": "Bern", "cantons": 26}), "{how}: {r}");

            let r = self.ask(json!({"prompt": "bill me", "stream": stream})).await;
            let usage = &r["usage"];
            let counts = ["input_tokens", "output_tokens", "cache_read_tokens"]
                .map(|key| usage[key].as_i64().unwrap());
            let reported = (usage["estimated"] == false).then_some(counts);
            assert_eq!(reported, self.usage, "{how}: {r}");

            let error = self.fault(json!({"prompt": "slow down", "stream": stream})).await;
            assert_eq!(
                (error.category.as_str(), error.kind.as_str()),
                ("rate_limit", "transient"),
                "{how}: {error}"
            );
            let error = self.fault(json!({"prompt": "fall over", "stream": stream})).await;
            assert_eq!(
                (error.category.as_str(), error.kind.as_str()),
                ("server_error", "transient"),
                "{how}: {error}"
            );
        }
        let mut pieces = Vec::new();
        let call = self.call(json!({"prompt": "greet me"}));
        self.runtime().llm_stream(&call, &mut |item| pieces.push(item)).await.unwrap();
        let texts: Vec<&str> = pieces
            .iter()
            .map(|item| match item {
                StreamItem::Chunk(text) => text.as_str(),
                StreamItem::Result(_) => "",
                StreamItem::Failed(error) => panic!("{name}: {error:?}"),
            })
            .collect();
        assert_eq!(texts.concat(), "Good day to you, and grüezi 😀.", "{name}");
    }
}

#[tokio::test]
async fn a_server_of_others_answers_in_every_format() {
    let Some(server) = fixture_server() else { return };
    let base = format!("http://127.0.0.1:{}", server.port);
    let v1 = format!("{base}/v1");
    let at = |provider: &str, model: &str, base: &str| json!({"provider": provider, "model": model, "base_url": base});
    let also = |mut options: Value, more: Value| {
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        options
    };
    let openai = |name| Way::new(name, at("openai", "gpt-4o", &v1)).with("OPENAI_API_KEY", "k-1234");
    let ways = [
        Way::new(
            "anthropic",
            also(at("anthropic", "claude-sonnet-4-20250514", &v1), json!({"thinking": true})),
        )
        .with("ANTHROPIC_API_KEY", "k-1234")
        .reasoning(),
        openai("openai"),
        Way {
            options: also(at("openai", "gpt-5.4", &v1), json!({"api_mode": "responses"})),
            ..openai("openai responses").reasoning()
        },
        Way::new("openrouter", at("openrouter", "qwen/qwen3-8b", &format!("{base}/api/v1")))
            .with("OPENROUTER_API_KEY", "k-1234")
            .reporting(Some([120, 9, 100]))
            .reasoning(),
        Way::new("groq", at("groq", "llama-3.3-70b", &v1)).with("GROQ_API_KEY", "k-1234"),
        Way::new("huggingface", at("huggingface", "Qwen/Qwen3.5-9B", &v1)).with("HF_TOKEN", "k-1234"),
        Way::new("together", at("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", &v1))
            .with("TOGETHER_AI_API_KEY", "k-1234"),
        Way::new("fireworks", at("fireworks", "accounts/fireworks/models/qwen3-8b", &v1))
            .with("FIREWORKS_API_KEY", "k-1234"),
        Way::new("deepseek", at("deepseek", "deepseek-chat", &v1)).with("DEEPSEEK_API_KEY", "k-1234"),
        Way::new("vllm", at("vllm", "m", &base)),
        Way::new("local", json!({"provider": "local", "model": "m", "tool_format": "auto"}))
            .with("LOCAL_LLM_BASE_URL", &base),
        Way::new(
            "ollama",
            also(at("ollama", "qwen3:8b", &base), json!({"ollama": {"num_ctx": 4096}, "thinking": true})),
        )
        .reporting(None),
        Way::new("gemini", at("gemini", "gemini-2.5-pro", &base))
            .with("GEMINI_API_KEY", "k-1234")
            .reasoning(),
        Way::new("azure", json!({"provider": "azure_openai", "model": "gpt-4o"}))
            .with("AZURE_OPENAI_ENDPOINT", &base)
            .with("AZURE_OPENAI_API_KEY", "k-1234"),
        Way::new(
            "bedrock",
            json!({"provider": "bedrock", "model": "anthropic.claude-sonnet-4-20250514-v1:0"}),
        )
        .with("BEDROCK_BASE_URL", &base)
        .with("AWS_ACCESS_KEY_ID", "AKID")
        .with("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    local(async {
        let mut failed = Vec::new();
        for way in ways {
            let name = way.name;
            // A separate task, so that one failure does not hide the others.
            match tokio::task::spawn_local(async move { way.check().await }).await {
                Ok(()) => eprintln!("{name}: passed"),
                Err(_) => failed.push(name),
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    })
    .await;
}

#[tokio::test]
async fn a_gateway_of_others_translates() {
    let Some(server) = fixture_server() else { return };
    let Some(gateway) = gateway(&server) else { return };
    let v1 = format!("http://127.0.0.1:{}/v1", gateway.port);
    let at = |provider: &str, model: &str| json!({"provider": provider, "model": model, "base_url": v1, "timeout": 120});
    let mut responses = at("openai", "gpt-4o");
    responses["api_mode"] = "responses".into();
    let key = "sk-gateway-1234";
    let ways = [
        Way::new("openai", at("openai", "gpt-4o")).with("OPENAI_API_KEY", key),
        Way::new("anthropic", at("anthropic", "claude-sonnet-4-20250514")).with("ANTHROPIC_API_KEY", key),
        Way::new("responses", responses).with("OPENAI_API_KEY", key),
    ];
    local(async {
        for way in ways {
            way.check().await;
            let unknown = way
                .fault(json!({"prompt": "hi", "model": "nobody", "provider": way.options["provider"]}))
                .await;
            assert_eq!(unknown.kind.as_str(), "terminal", "{unknown}");
            eprintln!("gateway, {}: passed", way.name);
        }
    })
    .await;
}
