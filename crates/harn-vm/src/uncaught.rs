//! Uncaught errors of a program as diagnostics for users.

use std::cell::RefCell;

use harn_syntax::{Diagnostic, SourceFile, Span};

use crate::error::{Error, ErrorKind, TraceEntry};
use crate::vm::Vm;

/// Number of frames displayed of a deep call stack: innermost and outermost.
const SHOWN: (usize, usize) = (20, 10);

/// Maximum length of a field of a thrown dict in a note, in bytes.
const NOTE: usize = 200;

/// How the entry file is displayed if the executed source differs from the one that the user wrote.
#[derive(Default)]
struct Written(RefCell<Option<(SourceFile, Place)>>);

/// Maps a span in the executed source to the source that the user wrote.
type Place = Box<dyn Fn(Span) -> Span>;

impl Vm {
    /// Displays errors in the entry file in the source that the user wrote; `place` maps spans of the executed source
    /// to it.
    pub fn show_entry_as(&self, file: SourceFile, place: impl Fn(Span) -> Span + 'static) {
        *self.state::<Written>().0.borrow_mut() = Some((file, Box::new(place)));
    }

    /// Returns the source in which a location of a module is displayed, and the span in it.
    fn shown(&self, module: u32, span: Span) -> Option<(SourceFile, Span)> {
        let written = self.state::<Written>();
        if let Some((file, place)) = written.0.borrow().as_ref().filter(|_| module == 0) {
            return Some((file.clone(), place(span)));
        }
        let (name, text) = self.source(module)?;
        Some((SourceFile::new(&*name, &*text), span))
    }
}

/// Returns the message of an error that a builtin threw as a dict with `message` and `category`, and a note with the
/// other fields.
fn sentence(error: &Error) -> Option<(String, String)> {
    let ErrorKind::Thrown(value) = error.kind() else { return None };
    let fields = value.as_dict()?;
    let message = fields.get_str("message")?.as_str()?.to_string();
    fields.get_str("category")?.as_str()?;
    let others = fields.iter().filter(|(name, _)| name.as_str() != "message");
    let others: Vec<String> =
        others.map(|(name, value)| format!("{name}: {}", harn_value::short(value, NOTE))).collect();
    Some((message, format!("`catch` receives a dict with {}", others.join(", "))))
}

/// Converts an uncaught error to a diagnostic, and returns the file that it points into.
pub fn uncaught(vm: &Vm, error: &Error) -> (Diagnostic, Option<SourceFile>) {
    let (declared, place, callers) = error.places();
    let sentence = sentence(error);
    let told = || sentence.as_ref().map_or_else(|| error.uncaught_text(), |(text, _)| text.clone());
    let Some(place) = place else {
        return (Diagnostic::error(told()), None);
    };
    let (source, span) = vm.shown(place.module, place.span).unzip();
    let span = span.unwrap_or(place.span);
    let line = source.as_ref().map(|s| s.line(span.start));
    let text = match line {
        Some(line) if error.shows_line() => format!("{} (line {line})", error.uncaught_text()),
        _ => told(),
    };
    let mut diagnostic = Diagnostic::error(text).at(span);
    let of_place = || source.as_ref().and_then(|source| advice(vm, error, source, span));
    diagnostic.help = failed_call(error).or_else(of_place);
    if let Some(declared) = declared {
        let text = "the parameter";
        diagnostic = match vm.shown(declared.module, declared.span) {
            Some((_, span)) if declared.module == place.module => diagnostic.with_label(span, text),
            Some((file, span)) => diagnostic.with_label_in(std::sync::Arc::new(file), span, text),
            None => diagnostic,
        };
    }
    if let Some((_, fields)) = sentence {
        diagnostic = diagnostic.with_note(fields);
    }
    for note in error.notes() {
        diagnostic = diagnostic.with_note(note.clone());
    }
    let shown = |entry: &TraceEntry| {
        let line = vm
            .source(entry.module)
            .map_or(0, |(_, text)| harn_syntax::source_map::line_column(&text, entry.span.start).0);
        format!("called from {} at {}:{line}", entry.function, entry.file)
    };
    let total = callers.len();
    for (i, entry) in callers.iter().enumerate() {
        if total > SHOWN.0 + SHOWN.1 {
            if i == SHOWN.0 {
                diagnostic = diagnostic.with_note(format!("... {} more frames", total - SHOWN.0 - SHOWN.1));
            }
            if i >= SHOWN.0 && i < total - SHOWN.1 {
                continue;
            }
        }
        diagnostic = diagnostic.with_note(shown(entry));
    }
    (diagnostic, source)
}

/// Renders a diagnostic without colours, with the lines of the file that it points into.
pub fn drawn(diagnostic: &Diagnostic, file: Option<&SourceFile>) -> String {
    file.map_or_else(|| diagnostic.render_plain(false), |file| diagnostic.render(file, false))
}

/// Returns how to fix a failed model call, whose error is a dict with the category, the provider and the model.
fn failed_call(error: &Error) -> Option<String> {
    let ErrorKind::Thrown(value) = error.kind() else { return None };
    let fields = value.to_dict()?;
    let text =
        |name: &str| fields.get(&name.into()).and_then(|value| value.as_str().map(ToString::to_string));
    let provider = text("provider")?;
    text("model")?;
    let message = text("message").unwrap_or_default();
    if message.contains("InvalidContentType") {
        return Some("the server does not answer with TLS: write `http://` in its address".to_owned());
    }
    let is_page = ["<!doctype html", "<html"].iter().any(|page| message.to_lowercase().contains(page));
    // A proxy returns an HTML page for its own errors, regardless of the address.
    if is_page && !message.contains("HTTP 5") {
        return Some(
            "the address is that of a web page: check `base_url`, or a variable such as LOCAL_LLM_BASE_URL"
                .to_owned(),
        );
    }
    let lower = message.to_lowercase();
    let rejects_tools =
        ["not supported", "not support", "unsupported"].iter().any(|word| lower.contains(word));
    if lower.contains("tool") && rejects_tools {
        return Some(
            "if the model cannot call tools natively, set the option `tool_format: \"text\"`".to_owned(),
        );
    }
    if message.contains("response parse error") {
        return Some("check that `base_url`, or a variable such as LOCAL_LLM_BASE_URL, is the address of the provider's API".to_owned());
    }
    let help = match text("category")?.as_str() {
        "transient_network" => Some(
            "check that the server is running and that its address is right (`base_url`, or a variable such as LOCAL_LLM_BASE_URL)",
        ),
        "auth" => {
            return Some(format!(
                "check the API key: the option `api_key`, or the variable that `harn providers {provider}` lists"
            ));
        }
        "not_found" => Some(
            "check the model and `base_url`; `harn provider-ready NAME` lists the models of the server, `harn models` those that Harn knows",
        ),
        "rate_limit" => Some("try again later, or set `llm_retries`"),
        "timeout" => Some("try again later, or raise `timeout`"),
        _ => None,
    };
    help.map(str::to_owned)
}

/// Returns help for errors that users of other languages often make.
fn advice(vm: &Vm, error: &Error, source: &SourceFile, at: Span) -> Option<String> {
    let text = error.uncaught_text();
    let text = text.split_once(": ").map_or(&*text, |(_, rest)| rest);
    if let Some(rest) = text.strip_prefix("Undefined variable: ").or(text.strip_prefix("Undefined builtin: "))
    {
        let name = rest.split(' ').next().unwrap_or(rest);
        return harn_syntax::habits::undefined(name, source.text().get(at.end as usize..)?);
    }
    if text.starts_with("Cannot assign to immutable binding: ") {
        return Some("declare it with `var`, or give the new value another name".to_owned());
    }
    if let Some(help) = missing_value(text, source, at) {
        return Some(help);
    }
    let place = source.text().get(at.start as usize..at.end as usize).unwrap_or_default();
    if let Some(help) = harn_syntax::habits::failed(text, place) {
        return Some(help);
    }
    let (name, type_name) = text.strip_prefix("unknown method `")?.split_once("` on ")?;
    let tables = vm.method_tables().iter().filter(|table| table.type_name == type_name);
    let mut names: Vec<&str> = tables.flat_map(|table| table.methods).map(|method| method.name()).collect();
    names.sort_unstable();
    names.dedup();
    harn_syntax::habits::method_help(name, type_name, &names)
}

/// Returns help for an operation on operands of these types: `add string and int`.
fn operands(text: &str) -> Option<&'static str> {
    let has = |name: &str| text.split(' ').skip(1).any(|word| word == name);
    let numbers = has("int") || has("float");
    if has("task_handle") {
        return Some("get the result of a task with `await(task)`");
    }
    (has("string") && numbers)
        .then_some("convert the text with `to_int(text)`, or put the number into a text: `\"${number}\"`")
}

/// Returns help for errors about a value of an unexpected type: nil, a string in place of a dict, a function.
fn missing_value(text: &str, source: &SourceFile, at: Span) -> Option<String> {
    if let Some(help) = text.strip_prefix("Cannot ").and_then(operands) {
        return Some(help.to_owned());
    }
    if let Some(rest) = text.strip_prefix("Cannot ")
        && [" nil and ", " nil from ", " nil by "].iter().any(|part| rest.contains(part))
    {
        let line = source.line_text(source.line(at.start)).unwrap_or_default();
        let counted = line.split_once("+=").filter(|(target, _)| target.trim_end().ends_with(']'));
        return Some(match counted {
            Some((target, more)) => {
                let target = target.rsplit(['{', ';', '}']).next().unwrap_or(target).trim();
                let more = more.split(['}', ';']).next().unwrap_or(more).trim();
                format!("a missing entry is nil: `{target} = ({target} ?? 0) + {more}`")
            }
            None if rest.contains("string") => "replace nil with a default: `value ?? \"\"`".to_owned(),
            None => "replace nil with a default: `value ?? 0`".to_owned(),
        });
    }
    if let Some(name) = text.strip_prefix("cannot access property `")
        && let Some((name, of)) = name.split_once("` on ")
    {
        return match of {
            "nil" => Some(format!(
                "`?.{name}` returns nil for nil, and `value?.{name} ?? other` returns a default"
            )),
            "task_handle" => Some(format!("get the result of a task with `await`: `await(task).{name}`")),
            "string" => Some(format!("the value is a string; if it is JSON: `json_parse(text).{name}`")),
            _ => None,
        };
    }
    if text.starts_with("cannot destructure ") && text.contains("(a, b) pattern") {
        return Some(
            "iterate with index and value: `for (i, x) in xs.iter().enumerate() { ... }`".to_owned(),
        );
    }
    if text.contains("No match arm matched the value") {
        return Some("add `_ -> { ... }` at the end for all other values".to_owned());
    }
    if let Some((_, rest)) = text.split_once("process spawn failed: ")
        && let Some(command) = rest.split('`').nth(1).filter(|command| command.contains(' '))
    {
        let words: Vec<String> = command.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        let words = words.join(", ");
        return Some(format!(
            "pass each argument separately: `exec({words})`; run a shell line with `shell(\"{command}\")`"
        ));
    }
    if text.starts_with("cannot index into builtin") {
        return Some("this is a function: call it with parentheses, as `env(\"HOME\")`".to_owned());
    }
    let durations = ["duration to dict", "duration from dict", "dict and duration"];
    durations
        .iter()
        .any(|part| text.contains(part))
        .then(|| "move dates with `date_add(date, -1d)`, compare them with `date_diff(a, b)`".to_owned())
}
