//! Compares the ledger with the usage that the server reported, over random sequences of calls.
use crate::support::*;
use harn_llm::{Call, StreamEvent};
use harn_strict_servers::cases::cases;
use harn_strict_servers::{ENV, Format, formats};
use harn_value::{Data as Value, json};
use proptest::prelude::*;

/// One call: the usage that the server reports, and how the call ends.
#[derive(Debug, Clone)]
struct Ask {
    input: i64,
    read: i64,
    write: i64,
    output: i64,
    text: usize,
    ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Streamed,
    Whole,
    /// The stream ends prematurely, and is not retried.
    Cut,
    /// The stream ends prematurely, and the retry succeeds.
    CutAndRetried,
    /// The server is overloaded first.
    RefusedAndRetried,
    /// The program drops the stream once it has received some text.
    Left,
}

use Ending::*;

fn ask_strategy() -> impl Strategy<Value = Ask> {
    let ending = prop_oneof![
        Just(Streamed),
        Just(Whole),
        Just(Cut),
        Just(CutAndRetried),
        Just(RefusedAndRetried),
        Just(Left)
    ];
    (1..5000i64, 0..90_000i64, 0..90_000i64, 1..900i64, 1..400usize, ending).prop_map(
        |(input, read, write, output, text, ending)| Ask { input, read, write, output, text, ending },
    )
}

/// The prices of claude-sonnet-4: USD per million tokens.
const MODEL: &str = "claude-sonnet-4-20250514";

impl Ask {
    fn start(&self) -> String {
        let message = json!({"type": "message_start", "message": {"content": [], "usage": {
            "input_tokens": self.input, "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.write, "output_tokens": 1}}});
        let text = json!({"type": "content_block_delta", "index": 0,
                          "delta": {"type": "text_delta", "text": "x".repeat(self.text)}});
        format!("data: {message}\n\ndata: {text}\n\n")
    }

    fn answer(&self) -> Vec<Step> {
        let usage = json!({"output_tokens": self.output});
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
        stream(&format!("{}data: {end}\n\ndata: {{\"type\":\"message_stop\"}}\n\n", self.start()))
    }

    fn scripts(&self) -> Vec<Vec<Step>> {
        let cut = || stream(&self.start());
        let overloaded = || reply("529 Overloaded", "", "{}");
        match self.ending {
            Streamed => vec![self.answer()],
            Whole => vec![ok_json(&json!({"content": [{"type": "text", "text": "x".repeat(self.text)}],
                "usage": {"input_tokens": self.input, "cache_read_input_tokens": self.read,
                          "cache_creation_input_tokens": self.write, "output_tokens": self.output}}))],
            Cut => vec![cut()],
            CutAndRetried => vec![cut(), self.answer()],
            RefusedAndRetried => vec![overloaded(), self.answer()],
            Left => {
                let mut script = stream(&self.start());
                script.push(Step::Hang);
                vec![script]
            }
        }
    }

    /// Computes the cost without the ledger. Each attempt costs its prompt, and either the reply tokens that it
    /// reported or one token per four bytes.
    fn bill(&self) -> (f64, i64, i64) {
        let written = i64::try_from(self.text.div_ceil(4)).unwrap();
        let outputs = match self.ending {
            Streamed | Whole | RefusedAndRetried => vec![self.output],
            Cut | Left => vec![written],
            CutAndRetried => vec![written, self.output],
        };
        let prompt = self.input as f64 * 3.0 + self.read as f64 * 0.3 + self.write as f64 * 3.75;
        let usd = outputs.iter().map(|n| prompt + *n as f64 * 15.0).sum::<f64>() / 1e6;
        let attempts = i64::try_from(outputs.len()).unwrap();
        (usd, attempts * (self.input + self.read + self.write), outputs.iter().sum())
    }

    fn options(&self, url: &str) -> Value {
        let retries = i64::from(matches!(self.ending, CutAndRetried | RefusedAndRetried));
        json!({"provider": "anthropic", "model": MODEL, "base_url": url, "max_tokens": 1000,
               "stream": self.ending != Whole, "llm_retries": retries})
    }

    async fn run(&self, runtime: &harn_llm::LlmRuntime, url: &str) -> Result<(), String> {
        let call = Call::new("hi", None, self.options(url));
        let seen = tokio::sync::Notify::new();
        let mut sink = |event: &StreamEvent| {
            if matches!(event, StreamEvent::Text(_)) {
                seen.notify_one();
            }
        };
        let leave = async {
            match self.ending {
                Left => seen.notified().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = leave => Ok(()),
            done = runtime.call(&call, &mut sink) => done.map(drop).map_err(|e| e.category().as_str().to_owned()),
        }
    }
}

fn on_one_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(local(work))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_is_what_the_server_reported(asks in prop::collection::vec(ask_strategy(), 1..7)) {
        on_one_thread(async {
            let server = Server::start(asks.iter().flat_map(Ask::scripts).collect()).await;
            let (runtime, _) = runtime(KEYS);
            let mut bill = (0.0, 0, 0);
            for ask in &asks {
                let _ = ask.run(&runtime, &server.url).await;
                let (usd, input, output) = ask.bill();
                bill = (bill.0 + usd, bill.1 + input, bill.2 + output);
                let totals = runtime.ledger().totals();
                assert!((totals.cost - bill.0).abs() < 1e-9, "{ask:?}: {totals:?} {bill:?}");
                assert_eq!((totals.input_tokens, totals.output_tokens), (bill.1, bill.2), "{ask:?}");
            }
        });
    }

    #[test]
    fn a_limit_is_passed_by_one_call_at_most(
        asks in prop::collection::vec(ask_strategy(), 1..10),
        limit in 0.01..0.6f64,
    ) {
        on_one_thread(async {
            let server = Server::start(asks.iter().flat_map(Ask::scripts).collect()).await;
            let (runtime, _) = runtime(KEYS);
            runtime.ledger().set_budget(limit);
            for ask in &asks {
                let before = runtime.ledger().totals().cost;
                let result = ask.run(&runtime, &server.url).await;
                let after = runtime.ledger().totals().cost;
                if before > limit {
                    assert_eq!((result, after), (Err("budget_exceeded".to_owned()), before), "{ask:?}");
                    break;
                }
            }
        });
    }

    #[test]
    fn calls_at_once_do_not_pass_a_limit_together(
        outputs in prop::collection::vec(1..1000i64, 2..8),
        limit in 0.015..0.06f64,
    ) {
        on_one_thread(async {
            let asks: Vec<Ask> = outputs
                .iter()
                .map(|output| Ask { input: 1, read: 0, write: 0, output: *output, text: 4, ending: Streamed })
                .collect();
            let server = Server::start(asks.iter().flat_map(Ask::scripts).collect()).await;
            let (runtime, _) = runtime(KEYS);
            runtime.ledger().set_budget(limit);
            let calls = asks.iter().map(|ask| ask.run(&runtime, &server.url));
            futures_util::future::join_all(calls).await;
            let totals = runtime.ledger().totals();
            assert!(totals.cost <= limit, "{totals:?}");
            // A rejected call would not have fitted into the budget.
            assert!(totals.calls as usize == outputs.len() || totals.cost + 0.0151 > limit, "{totals:?}");
        });
    }
}

/// The formats, with the prices of their models in USD per million tokens: input, cache read, cache write, output.
fn priced() -> Vec<(Box<dyn Format>, [f64; 4])> {
    let prices = |options: &Value| match (options["provider"].as_str()?, options["model"].as_str()?) {
        ("anthropic", MODEL) => Some([3.0, 0.3, 3.75, 15.0]),
        ("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0") => Some([3.0, 0.3, 3.75, 15.0]),
        ("openai", "gpt-4o") => Some([2.5, 1.25, 2.5, 10.0]),
        ("openai", "o4-mini") => Some([1.1, 0.275, 1.1, 4.4]),
        ("openai", "gpt-5.4") => Some([2.5, 0.25, 2.5, 15.0]),
        ("gemini", "gemini-2.5-pro") => Some([1.25, 0.125, 1.25, 10.0]),
        ("ollama", _) => Some([0.0; 4]),
        _ => None,
    };
    let priced: Vec<_> =
        formats().into_iter().filter_map(|f| prices(&f.options()).map(|prices| (f, prices))).collect();
    assert_eq!(priced.len(), 8, "one for each wire format");
    priced
}

/// A call in one of the formats: the format's index, its usage, its reasoning tokens, whether it is streamed, and
/// whether the server is overloaded first.
type Reported = (usize, [i64; 4], i64, bool, bool);

fn reported_strategy() -> impl Strategy<Value = Reported> {
    let usage = (1..4000i64, 0..60_000i64, 0..60_000i64, 1..900i64, 0..900i64);
    (0..8usize, usage, any::<bool>(), any::<bool>()).prop_map(
        |(format, (new, read, write, said, reasoning), streams, refused)| {
            (format, [new + read + write, said + reasoning, read, write], reasoning, streams, refused)
        },
    )
}

fn answer_of(format: &dyn Format, usage: [i64; 4], reasoning: i64, streams: bool) -> Vec<Step> {
    let mut case = cases().into_iter().find(|case| case.name == "plain").unwrap();
    (case.reply.usage, case.reply.reasoning) = (usage, reasoning);
    match format.whole(&case).filter(|_| !streams) {
        Some(body) => ok_json(&body),
        // Some formats only support streams.
        None => {
            let (kind, body) = format.stream(&case).expect("a stream");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            vec![Step::Send(head.into_bytes()), Step::Send(body)]
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_is_billed_as_its_server_reported(calls in prop::collection::vec(reported_strategy(), 1..9), limit in 0.05..2.0f64) {
        on_one_thread(async {
            let priced = priced();
            let (runtime, _) = runtime(ENV);
            runtime.ledger().set_budget(limit);
            let mut bill = (0.0, 0, 0);
            for (at, usage, reasoning, streams, refused) in calls {
                let (format, prices) = &priced[at];
                // Some formats have no field for tokens written to the cache, and one has none for tokens read from it.
                let lacks = |provider: &str| format.options()["provider"] == provider;
                let [input, output, read, write] = match usage {
                    [input, output, read, write] if lacks("gemini") => [input - write, output, read, 0],
                    [input, output, read, write] if lacks("ollama") => [input - write - read, output, 0, 0],
                    usage => usage,
                };
                let mut scripts = vec![answer_of(&**format, [input, output, read, write], reasoning, streams)];
                if refused {
                    scripts.insert(0, reply("503 Service Unavailable", "", "{}"));
                }
                let server = Server::start(scripts).await;
                let mut options = format.options();
                options["base_url"] = server.url.as_str().into();
                (options["stream"], options["llm_retries"], options["max_tokens"]) = (streams.into(), 2.into(), 1000.into());
                options["llm_backoff_ms"] = 1.into();
                let before = runtime.ledger().totals().cost;
                let result = runtime.llm_call(&Call::new("hi", None, options)).await;
                let totals = runtime.ledger().totals();
                if let Err(error) = &result {
                    assert_eq!(error.category().as_str(), "budget_exceeded", "{error:?}");
                    assert!(server.count() > 0 || before + 0.02 > limit, "{before} {limit}");
                }
                if server.count() == 0 {
                    continue;
                }
                assert!(before <= limit, "a limit is passed by one call at most");
                let parts = [input - read - write, read, write, output];
                bill.0 += parts.iter().zip(prices).map(|(tokens, usd)| *tokens as f64 * usd).sum::<f64>() / 1e6;
                (bill.1, bill.2) = (bill.1 + input, bill.2 + output);
                if result.is_ok() {
                    assert!((totals.cost - bill.0).abs() < 1e-9, "{}: {totals:?} {bill:?}", format.name());
                    assert_eq!((totals.input_tokens, totals.output_tokens), (bill.1, bill.2), "{}", format.name());
                } else {
                    // An aborted stream is billed for the part that arrived.
                    assert!(totals.cost <= bill.0 + 1e-9, "{totals:?} {bill:?}");
                    break;
                }
            }
        });
    }
}

/// Usage reports of all wire formats, as booked by the ledger.
#[tokio::test]
async fn every_format_counts_cached_and_reasoning_tokens() {
    local(async {
        let text = json!([{"message": {"content": "x"}, "finish_reason": "stop"}]);
        for (provider, body, counts) in [
            ("openai", json!({"choices": text, "usage": {"prompt_tokens": 100, "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 30}}}),
             [100, 50, 40, 30]),
            // Separate reasoning tokens, as reported by xAI.
            ("openai", json!({"choices": text, "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150,
                "completion_tokens_details": {"reasoning_tokens": 30}}}), [100, 50, 0, 30]),
            ("deepseek", json!({"choices": text, "usage": {"prompt_tokens": 100, "completion_tokens": 20,
                "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}}), [100, 20, 60, 0]),
            ("anthropic", json!({"content": [{"type": "text", "text": "x"}], "usage": {"input_tokens": 3,
                "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7, "output_tokens": 9}}), [50, 9, 40, 0]),
            ("gemini", json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 90, "toolUsePromptTokenCount": 10, "candidatesTokenCount": 5,
                "thoughtsTokenCount": 20, "cachedContentTokenCount": 30}}), [100, 25, 30, 20]),
        ] {
            let model: Value = match provider {
                "deepseek" => "deepseek-chat".into(),
                "gemini" => "gemini-2.5-pro".into(),
                _ => Value::Null,
            };
            let server = Server::start(vec![ok_json(&body)]).await;
            let keys = [KEYS, &[("GEMINI_API_KEY", "g"), ("DEEPSEEK_API_KEY", "d")]].concat();
            let (runtime, _) = runtime(&keys);
            let result = ask_with(&runtime, &server, provider, json!({"stream": false, "model": model})).await.unwrap();
            let usage = &result["usage"];
            let keys = ["input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens"];
            assert_eq!(keys.map(|key| usage[key].as_i64()), counts.map(Some), "{provider} {usage}");
            assert_eq!(usage["estimated"], false);
            let totals = runtime.ledger().totals();
            assert_eq!((totals.input_tokens, totals.output_tokens), (counts[0], counts[1]), "{provider}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_cost_that_the_provider_reports_is_the_cost() {
    local(async {
        let reply = |usage: Value| {
            ok_json(
                &json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}),
            )
        };
        let counts = json!({"prompt_tokens": 10, "completion_tokens": 1});
        for (more, usd) in [
            (json!({"cost": 0.25}), 0.25),
            (json!({"cost": 0.25, "is_byok": true, "cost_details": {"upstream_inference_cost": 1.5}}), 1.75),
            (json!({"cost": 0.0}), 0.0),
        ] {
            let mut usage = counts.clone();
            usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let server = Server::start(vec![reply(usage)]).await;
            let (runtime, _) = runtime(&[("OPENROUTER_API_KEY", "o")]);
            ask_with(&runtime, &server, "openrouter", json!({"stream": false})).await.unwrap();
            assert_eq!(runtime.ledger().totals().cost, usd);
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_reports_nothing_is_estimated() {
    local(async {
        let chunk =
            json!({"choices": [{"delta": {"content": "word ".repeat(400)}, "finish_reason": "stop"}]});
        let server = Server::start(vec![stream(&format!("data: {chunk}\n\ndata: [DONE]\n\n"))]).await;
        let (runtime, _) = runtime(KEYS);
        let result = ask_with(&runtime, &server, "openai", json!({"model": "gpt-4o"})).await.unwrap();
        assert_eq!(
            (&result["usage"]["output_tokens"], &result["usage"]["estimated"]),
            (&json!(500), &json!(true))
        );
        let totals = runtime.ledger().totals();
        assert!(totals.output_tokens == 500 && totals.cost > 0.005, "{totals:?}");
    })
    .await;
}
