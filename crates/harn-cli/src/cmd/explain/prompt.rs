//! `harn explain prompt FILE`: runs a program without models and prints the prompt of each call.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use harn_prompt::explain::assembly_json;
use harn_prompt::view::{CallHead, Style, call};
use harn_prompt::{Assembly, compare, stability_report};
use harn_runtime::{ModelTraffic, SentCall};
use harn_system::{Layer, Real, Stream, System};
use harn_value::{Data as Value, json};

use crate::args::ExplainPromptArgs;
use crate::out::Out;
use crate::program::{self, End, Program, RunOptions};
use crate::report::Problem;
use crate::signal;
use crate::style::Colour;

/// Width of the text output in columns.
const WIDTH: usize = 80;

/// Maximum number of characters of a message in a heading.
const LONGEST_MESSAGE: usize = 100;

/// Runs the program and prints its prompts. Returns the program's exit code.
pub(crate) fn explain_prompt(args: ExplainPromptArgs) -> u8 {
    let report = Rc::new(RefCell::new(Report::new(args.json)));
    let program = match Program::read(&args.file) {
        Ok(program) => program,
        Err(text) => return report.borrow().unreadable(&text),
    };
    let seen = report.clone();
    let options = RunOptions {
        argv: args.args,
        task: args.task,
        traffic: ModelTraffic { replies: args.llm_mock, ..ModelTraffic::default() },
        watch: Some(Box::new(move |call| seen.borrow_mut().show(call))),
        ..RunOptions::default()
    };
    let end = program::run(&program, options, Rc::new(Aside(Real::new())), warn, signal::stop_on_signal);
    report.borrow().finish(&args.file.display().to_string(), end)
}

/// Prints a warning. The program still runs.
fn warn(problem: &Problem) {
    eprint!("{}", problem.draw(Colour::of(Stream::Error).on()));
}

/// The real system, with output redirected to standard error: standard output contains the prompts.
struct Aside(Real);

impl Layer for Aside {
    fn inner(&self) -> &dyn System {
        &self.0
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.0.write_err(text);
        Ok(())
    }
}

/// The calls of a run so far.
struct Report {
    /// With JSON, one document is printed at the end; otherwise each call is printed immediately.
    json: bool,
    style: Style,
    /// The prompt of the last call.
    last: Option<Assembly>,
    count: usize,
    /// The tool calls.
    calls: Vec<Value>,
}

impl Report {
    fn new(json: bool) -> Report {
        let style = Style { width: WIDTH, color: Colour::of(Stream::Output).on() };
        Report { json, style, last: None, count: 0, calls: Vec::new() }
    }

    fn show(&mut self, sent: SentCall) {
        self.count += 1;
        if self.json {
            self.calls.push(call_json(self.count, &sent, self.last.as_ref()));
        } else {
            let head = CallHead { number: self.count, to: &recipient(&sent), details: &details(&sent) };
            let gap = if self.count > 1 { "\n" } else { "" };
            let text = call(head, &sent.assembly, self.last.as_ref(), self.style);
            let mut out = Out;
            // The reader may close the pipe; the program still runs to its end.
            let _ = write!(out, "{gap}{text}").and_then(|()| out.flush());
        }
        self.last = Some(sent.assembly);
    }

    fn unreadable(&self, text: &str) -> u8 {
        if self.json {
            print(&document(Value::Null, Some(("unreadable", text.to_owned(), Value::Null))));
        } else {
            eprintln!("{text}");
        }
        1
    }

    fn finish(&self, file: &str, end: End) -> u8 {
        let (code, result) = end.settle();
        let failure = result.err();
        if self.json {
            let error = failure.map(|f| (f.code, f.message.clone(), f.details()));
            print(&document(json!({"file": file, "calls": self.calls, "exit_code": code}), error));
        } else if let Some(failure) = failure {
            eprint!("{}", failure.draw(Colour::of(Stream::Error).on()));
        } else if self.count == 0 {
            let _ = writeln!(Out, "{file}: no model calls");
        }
        code
    }
}

/// Returns the provider and model of a call.
fn recipient(sent: &SentCall) -> String {
    let turn = sent.iteration.map(|n| format!(", turn {} of an agent loop", n + 1)).unwrap_or_default();
    format!("{}/{}{turn}", sent.provider, sent.model)
}

/// Returns the details of a call besides the prompt.
fn details(sent: &SentCall) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(last) = sent.messages.last() {
        let plural = if sent.messages.len() == 1 { "message" } else { "messages" };
        let role = last["role"].as_str().unwrap_or("user");
        lines.push(format!(
            "{} {plural}, the last from {role}: {}",
            sent.messages.len(),
            clipped(&text_of(&last["content"]))
        ));
    }
    if !sent.tools.is_empty() {
        lines.push(format!("tools: {}", sent.tools.join(", ")));
    }
    if let Some(answer) = sent.answer {
        let how = match answer {
            "format" => "response format of the provider",
            "tool" => "tool json_response",
            _ => "instruction in the system prompt",
        };
        lines.push(format!("schema of the answer: {how}"));
    }
    lines
}

/// Returns the text of a message's content, which may be a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match (block.get("text"), block.get("content")) {
                (Some(text), _) => text_of(text),
                (None, Some(content)) => text_of(content),
                _ => format!("[{}]", block["type"].as_str().unwrap_or("block")),
            });
            texts.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

/// Truncates a string and joins its lines.
fn clipped(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

fn call_json(number: usize, sent: &SentCall, last: Option<&Assembly>) -> Value {
    let difference = last.map(|last| compare(last, &sent.assembly).to_json());
    let mut out = json!({
        "number": number, "provider": sent.provider, "model": sent.model, "iteration": sent.iteration,
    });
    if let Some(fields) = out.as_object_mut() {
        fields.extend(assembly_json(&sent.assembly, true));
        fields.insert("stability".to_owned(), stability_report(&sent.assembly).to_json());
        fields.insert("since_last_call".to_owned(), difference.into());
        fields.insert("messages".to_owned(), sent.messages.clone().into());
        fields.insert("tools".to_owned(), sent.tools.clone().into());
        fields.insert("answer".to_owned(), sent.answer.into());
    }
    out
}

pub(super) fn document(data: Value, error: Option<(&str, String, Value)>) -> Value {
    let error =
        error.map(|(code, message, details)| json!({"code": code, "message": message, "details": details}));
    json!({"schemaVersion": 1, "ok": error.is_none(), "data": data, "error": error, "warnings": []})
}

pub(super) fn print(document: &Value) {
    let _ = writeln!(Out, "{document}");
}
