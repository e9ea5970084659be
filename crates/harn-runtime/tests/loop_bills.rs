//! Compares the costs of programs with loops, sub-agents and concurrent calls with the usage that their server
//! reported.

use std::sync::{Arc, Mutex};

use harn_strict_servers::cases::{Reply, Stop};
use harn_strict_servers::{Anthropic, Bedrock, Format, Gemini, OpenAi, Request, Responses, answer};
use harn_value::{Data as Json, json};
use proptest::prelude::*;

use crate::features::{keys, reply};
use crate::wire::{Seen, http, serve_with};

/// Returns a format, with USD per million tokens of input, of input read from the cache and written to it, and of
/// output.
fn format(at: usize) -> (Box<dyn Format>, [f64; 4]) {
    match at {
        0 => (Box::new(Anthropic { model: "claude-sonnet-4-20250514" }), [3.0, 0.3, 3.75, 15.0]),
        1 => (Box::new(OpenAi { provider: "openai", model: "gpt-4o" }), [2.5, 1.25, 2.5, 10.0]),
        2 => (Box::new(Responses), [2.5, 0.25, 2.5, 15.0]),
        3 => (Box::new(Gemini { provider: "gemini", model: "gemini-2.5-pro" }), [1.25, 0.125, 1.25, 10.0]),
        _ => (Box::new(Bedrock { model: "anthropic.claude-sonnet-4-20250514-v1:0" }), [3.0, 0.3, 3.75, 15.0]),
    }
}

const STEPS: [&str; 11] = [
    r#"llm_call("Hi.", nil, OPTIONS)"#,
    r#"for piece in llm_stream("Hi.", nil, OPTIONS) { }"#,
    r#"agent_loop("Add.", nil, {...OPTIONS, tools: [add]})"#,
    r#"sub_agent_run("Add.", {...OPTIONS, tools: [add]})"#,
    r#"agent_loop("Ask.", nil, {...OPTIONS, tools: [ask]})"#,
    r#"parallel each [1, 2, 3] { n -> llm_call("Hi ${n}.", nil, OPTIONS) }"#,
    r#"parallel each [1, 2] { n -> sub_agent_run("Add ${n}.", {...OPTIONS, tools: [add]}) }"#,
    r#"parallel each [1, 2, 3, 4, 5, 6] { n -> llm_call("Hi ${n}. ${TEXT}", nil, OPTIONS) }"#,
    r#"parallel each [1, 2, 3, 4] { n -> if n < 3 { llm_call("Hi ${TEXT}", nil, OPTIONS) } else { agent_loop("Add. ${TEXT}", nil, {...OPTIONS, tools: [add]}) } }"#,
    r#"parallel each [1, 2, 3] { n -> for piece in llm_stream("Hi ${n}. ${TEXT}", nil, OPTIONS) { llm_call("Hi.", nil, OPTIONS) } }"#,
    r#"parallel each [1, 2] { n -> llm_call("Hi ${n}. ${TEXT}", nil, {...OPTIONS, on_delta: { piece -> llm_call("Hi.", nil, OPTIONS) }}) }"#,
];

const TOOLS: &str = r#"
tool add(a: int, b: int) -> int {
  description "Adds"
  a + b
}
tool ask(a: int, b: int) -> string {
  description "Asks another model"
  sub_agent_run("Add.", {...OPTIONS, tools: [add]})
  llm_call("Hi.", nil, OPTIONS).text
}
"#;

/// The usage that the server reported: tokens of input and output, USD, and the USD of its most expensive reply.
#[derive(Debug, Clone, Copy, Default)]
struct Bill {
    input: i64,
    output: i64,
    usd: f64,
    dearest: f64,
}

/// Limits the reported usage of a request: at most one token for each byte received, and a reply of 1,000 tokens, which
/// every program requests.
fn within(request: &Request, [input, output, read, write]: [i64; 4], reasoning: i64) -> ([i64; 4], i64) {
    let bytes = i64::try_from(request.body.to_string().len()).unwrap();
    let counted = input.min(bytes);
    let part = |tokens: i64| tokens * counted / input;
    let output = output.min(1000);
    ([counted, output, part(read), part(write)], reasoning.min(output))
}

/// Runs steps on a server that reports the next of `usages` with each reply (limited by `within` or not), calls a tool
/// that was not called yet, and is overloaded before every fifth reply. Returns the totals of the program, its last
/// output, and the bill.
fn run(
    at: usize,
    steps: &[usize],
    usages: Vec<([i64; 4], i64)>,
    first: &str,
    is_within: bool,
) -> (Json, Bill) {
    let bill = Arc::new(Mutex::new(Bill::default()));
    let (books, prices) = (bill.clone(), format(at).1);
    let mut usages = usages.into_iter().cycle().enumerate();
    let mut overloaded = false;
    // More connections than any program makes; the thread ends with the tests.
    let (url, _seen) = serve_with::<Seen>(10_000, move |request: &Request| {
        overloaded = !overloaded;
        let (count, (mut usage, mut reasoning)) = usages.next().unwrap();
        if is_within {
            (usage, reasoning) = within(request, usage, reasoning);
        }
        if overloaded && count % 5 == 0 {
            return http("503 Service Unavailable", "application/json", "", "{}").into_bytes();
        }
        let (format, _) = format(at);
        if at == 3 {
            // The format has no field for tokens written to the cache.
            usage = [usage[0] - usage[3], usage[1], usage[2], 0];
        }
        let text = request.body.to_string();
        let name = ["add", "ask"].into_iter().find(|name| text.contains(&format!("\"name\":\"{name}\"")));
        let answered =
            ["tool_result", "\"role\":\"tool\"", "function_call_output", "functionResponse", "toolResult"];
        let calls = match name.filter(|_| !answered.iter().any(|word| text.contains(word))) {
            Some(name) => vec![("id_1", name, json!({"a": 2, "b": 3}))],
            None => Vec::new(),
        };
        let stop = if calls.is_empty() { Stop::End } else { Stop::Tools };
        let said = Reply { thinking: "", text: "It is 5.", calls, usage, reasoning, stop };
        let [input, output, read, write] = usage;
        let parts = [input - read - write, read, write, output];
        let usd = parts.iter().zip(prices).map(|(tokens, usd)| *tokens as f64 * usd).sum::<f64>() / 1e6;
        let mut books = books.lock().unwrap();
        let dearest = books.dearest.max(usd);
        *books =
            Bill { input: books.input + input, output: books.output + output, usd: books.usd + usd, dearest };
        answer("loop_bills", request, &reply(&*format, request, &said, false))
    });
    let mut options = format(at).0.options();
    options["base_url"] = url.into();
    options["llm_backoff_ms"] = 1.into();
    options["max_tokens"] = 1000.into();
    let body: String = steps.iter().map(|step| format!("  {}\n", STEPS[*step])).collect();
    let program = format!(
        "let OPTIONS = json_parse({:?})\nvar TEXT = \"\"\n{TOOLS}{first}\nlet ended = try {{\n{body}}}\nprintln(json_stringify({{cost: llm_session_cost(), failed: if is_err(ended) {{ error_info(unwrap_err(ended)).category }} else {{ nil }}}}))",
        options.to_string()
    );
    let run = crate::common::run_with("test.harn", &program, std::path::Path::new("/"), &keys(), None);
    assert!(run.error.is_none(), "{:?}\n{}\n{program}", run.error, run.errors);
    let out = serde_json::from_str(run.output.trim())
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.output, run.errors));
    let bill = *bill.lock().unwrap();
    (out, bill)
}

fn usage() -> impl Strategy<Value = ([i64; 4], i64)> {
    (1..3000i64, 0..40_000i64, 0..40_000i64, 1..900i64, 0..900i64).prop_map(
        |(new, read, write, said, thought)| ([new + read + write, said + thought, read, write], thought),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_program_costs_what_its_server_reported(
        at in 0..5usize,
        steps in prop::collection::vec(0..STEPS.len(), 1..5),
        usages in prop::collection::vec(usage(), 3..12),
    ) {
        let (out, bill) = run(at, &steps, usages, "", false);
        prop_assert_eq!(&out["failed"], &Json::Null, "{}", out);
        let cost = &out["cost"];
        prop_assert_eq!((cost["input_tokens"].as_i64(), cost["output_tokens"].as_i64()), (Some(bill.input), Some(bill.output)));
        prop_assert!((cost["total_cost"].as_f64().unwrap() - bill.usd).abs() < 1e-9, "{} {:?}", cost, bill);
    }

    /// Concurrent calls exceed a limit by no more than sequential calls: by the call that reaches it.
    #[test]
    fn a_program_passes_its_limit_by_one_call_at_most(
        at in 0..5usize,
        steps in prop::collection::vec(0..STEPS.len(), 2..7),
        usages in prop::collection::vec(usage(), 3..12),
        bytes in 0..12_000usize,
        limit in 0.01..0.3f64,
    ) {
        let first = format!("llm_budget({limit})\nTEXT = \"{}\"", "text ".repeat(bytes / 5));
        let (out, bill) = run(at, &steps, usages, &first, true);
        let spent = out["cost"]["total_cost"].as_f64().unwrap();
        prop_assert!(spent <= limit + bill.dearest + 1e-9, "{} {:?} {}", out, bill, limit);
        let failed = &out["failed"];
        prop_assert!(failed.is_null() || failed == "budget_exceeded", "{}", out);
    }

    /// This server reports far more input than the prompt has bytes, like a gateway that extends the prompt. Concurrent
    /// calls exceed the limit before any usage is known: calls in flight exceed it, later ones do not.
    #[test]
    fn a_limit_holds_against_a_server_that_adds_to_the_prompt(
        at in 0..5usize,
        steps in prop::collection::vec(0..STEPS.len(), 2..7),
        usages in prop::collection::vec(usage(), 3..12),
        limit in 0.02..0.8f64,
    ) {
        let (out, bill) = run(at, &steps, usages, &format!("llm_budget({limit})"), false);
        let spent = out["cost"]["total_cost"].as_f64().unwrap();
        let at_once = steps.iter().map(|step| match step { 5 => 3, 6 => 2, 7 => 6, 8 => 4, 9 => 6, 10 => 4, _ => 1 }).max().unwrap_or(1);
        prop_assert!(spent <= limit + f64::from(at_once) * bill.dearest, "{} {:?} {}", out, bill, limit);
        let failed = &out["failed"];
        prop_assert!(failed.is_null() || failed == "budget_exceeded", "{}", out);
    }
}
