//! `harn eval prompt`: renders one template for several models, side by side.

use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use harn_runtime::{ModelTraffic, PromptJob, PromptMode, compare_prompts};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::{failed, html, list};
use crate::args::{EvalMode, EvalOutput, EvalPromptArgs, usage_error};
use crate::cmd::providers::{envelope, print};
use crate::cmd::runs::line;
use crate::{program, table};

/// Width of the text output in columns.
const WIDTH: usize = 80;

/// Minimum width of a readable column.
const NARROWEST: usize = 24;

/// The largest file of bindings.
const MAX_BINDINGS: u64 = 64 << 20;

/// Compares models. Returns 1 if a call failed.
pub(super) fn prompt(args: &EvalPromptArgs) -> u8 {
    if args.judge.is_some() && args.mode != EvalMode::Judge {
        usage_error("eval", "--judge needs --mode judge");
    }
    if args.llm_mock.is_some() && args.mode == EvalMode::Render {
        usage_error("eval", "--llm-mock needs --mode run or judge: `render` calls no model");
    }
    let as_json = args.output == EvalOutput::Json;
    let bindings = match bindings(args.bindings.as_deref()) {
        Ok(bindings) => bindings,
        Err(text) => return failed("bad_bindings", &text, as_json),
    };
    let vm = program::session_vm(Rc::new(Real::new()));
    let traffic = ModelTraffic { replies: args.llm_mock.clone(), ..ModelTraffic::default() };
    let job = PromptJob {
        template: &args.template,
        bindings: &bindings,
        fleet: &args.fleet,
        mode: match args.mode {
            EvalMode::Render => PromptMode::Render,
            EvalMode::Run => PromptMode::Run,
            EvalMode::Judge => PromptMode::Judge,
        },
        judge: args.judge.as_deref(),
    };
    let found = traffic.apply(&vm, Path::new("")).and_then(|()| compare_prompts(&vm, &job));
    let report = match found {
        Ok(report) => report,
        Err(text) => return failed("not_evaluated", &text, as_json),
    };
    let text = match args.output {
        EvalOutput::Terminal => text(&report),
        EvalOutput::Json => envelope(&report),
        EvalOutput::Html => html::page(&report),
    };
    match &args.file {
        None => drop(print(&text)),
        Some(path) => {
            if let Err(error) = Real::new().replace(path, text.as_bytes()) {
                return failed("unwritable", &format!("cannot write {}: {error}", path.display()), as_json);
            }
        }
    }
    u8::from(list(&report, "models").iter().any(|model| !model["error"].is_null()))
}

/// Parses a JSON object, given inline or as a file.
fn bindings(given: Option<&str>) -> Result<Value, String> {
    let Some(given) = given else { return Ok(json!({})) };
    let (name, text) = if given.trim_start().starts_with(['{', '[', '"']) {
        ("--bindings".to_owned(), given.to_owned())
    } else {
        let system = Real::new();
        let bytes = system.read(&system.work_dir().join(given), MAX_BINDINGS).map_err(|error| {
            format!("--bindings is neither a JSON object nor a file that can be read: {given}: {error}")
        })?;
        (given.to_owned(), String::from_utf8(bytes).map_err(|_| format!("{given} is not UTF-8 text"))?)
    };
    let found: Value = text.parse().map_err(|error| format!("{name} is not valid JSON: {error}"))?;
    if found.is_object() {
        Ok(found)
    } else {
        Err(format!("{name} must be a JSON object, got {}", found.type_name()))
    }
}

fn text(report: &Value) -> String {
    let hash: String = line(&report["revision_hash"]).chars().take(12).collect();
    let mut out = format!("{} ({hash})\n\n", line(&report["template"]));
    let models = list(report, "models");
    let row = |model: &Value| {
        ["model", "provider", "family", "variant", "bytes"].iter().map(|key| line(&model[*key])).collect()
    };
    let rows: Vec<Vec<String>> = models.iter().map(row).collect();
    out.push_str(&table::draw(&["MODEL", "PROVIDER", "FAMILY", "VARIANT", "BYTES"], &rows));
    let variants = list(report, "variants");
    out.push('\n');
    out.push_str(&side_by_side(variants));
    let differing = decisions(models);
    if !differing.is_empty() {
        let _ = write!(out, "\nWhat differs:\n{differing}");
    }
    if report["mode"] == "render" {
        return out;
    }
    for model in models {
        let _ = writeln!(out, "\n{}{}", line(&model["model"]), tokens(model));
        if !model["answer"].is_null() {
            for row in wrapped(&answer(model), WIDTH - 2) {
                let _ = writeln!(out, "  {row}");
            }
        }
        if model["error"].is_object() {
            let whose = if model["error"]["by_judge"] == true { "the judge failed" } else { "failed" };
            let _ = writeln!(out, "  {whose}: {}", line(&model["error"]["message"]));
        }
        let verdict = &model["verdict"];
        if !verdict.is_null() {
            let _ = writeln!(out, "  score {} of 10: {}", verdict["score"], line(&verdict["reason"]));
        }
    }
    out
}

fn answer(model: &Value) -> String {
    model["answer"].as_str().map_or_else(String::new, |text| harn_syntax::printable(text).into_owned())
}

fn tokens(model: &Value) -> String {
    let usage = &model["usage"];
    if usage.is_null() {
        return String::new();
    }
    format!(" ({} + {} tokens)", usage["input_tokens"], usage["output_tokens"])
}

/// Formats the variants in columns, or one below the other if the columns would be too narrow.
fn side_by_side(variants: &[Value]) -> String {
    let count = variants.len().max(1);
    let width = (WIDTH - 3 * (count - 1)) / count;
    let heading = |variant: &Value| {
        let models: Vec<String> = list(variant, "models").iter().map(line).collect();
        format!("{}: {}", line(&variant["variant"]), models.join(", "))
    };
    let texts = |variant: &Value, width: usize| {
        let text = variant["text"].as_str().unwrap_or_default();
        wrapped(&harn_syntax::printable(text), width)
    };
    let mut out = String::new();
    if count == 1 || width < NARROWEST {
        for variant in variants {
            let _ = writeln!(out, "--- {}", heading(variant));
            texts(variant, WIDTH).iter().for_each(|row| {
                let _ = writeln!(out, "{row}");
            });
        }
        return out;
    }
    let columns: Vec<Vec<String>> = variants
        .iter()
        .map(|variant| {
            let mut rows = wrapped(&heading(variant), width);
            rows.push("-".repeat(width));
            rows.extend(texts(variant, width));
            rows
        })
        .collect();
    // Align the bodies even if a heading has several lines.
    let head = |rows: &Vec<String>| rows.iter().position(|row| row.starts_with("---")).unwrap_or(0);
    let tallest = columns.iter().map(head).max().unwrap_or(0);
    let columns: Vec<Vec<String>> = columns
        .into_iter()
        .map(|mut rows| {
            let at = head(&rows);
            rows.splice(at..at, std::iter::repeat_n(String::new(), tallest - at));
            rows
        })
        .collect();
    for at in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        let cells: Vec<String> = columns
            .iter()
            .map(|rows| {
                let cell = rows.get(at).map_or("", String::as_str);
                format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count())))
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join(" | ").trim_end());
    }
    out
}

/// Lists the branches that differ between models: location and choice of each model.
fn decisions(models: &[Value]) -> String {
    // All branches of an `if` are one decision. A section is named by its label, a branch by its condition.
    let is_section = |branch: &Value| branch["kind"] == "section";
    let label = |branch: &Value| {
        branch["branch_label"].as_str().map_or(String::new(), |_| line(&branch["branch_label"]))
    };
    let place = |branch: &Value| {
        let (uri, opened) = (line(&branch["template_uri"]), &branch["opened"]);
        let name = if is_section(branch) { label(branch) } else { String::new() };
        format!("{uri}:{}:{} {} {name}", opened["line"], opened["col"], line(&branch["kind"]))
            .trim_end()
            .to_owned()
    };
    let outcome = |branch: &Value| {
        let condition = if is_section(branch) { String::new() } else { label(branch) };
        format!("{} {condition}", line(&branch["branch_id"])).trim_end().to_owned()
    };
    let mut places: Vec<String> = Vec::new();
    for branch in models.iter().flat_map(|model| list(model, "branches")) {
        let place = place(branch);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut out = String::new();
    for at in places {
        let taken: Vec<String> = models
            .iter()
            .map(|model| {
                let here = list(model, "branches").iter().filter(|branch| place(branch) == at);
                let outcomes: Vec<String> = here.map(outcome).collect();
                if outcomes.is_empty() { "not reached".to_owned() } else { outcomes.join(", ") }
            })
            .collect();
        if taken.windows(2).any(|pair| pair[0] != pair[1]) {
            let _ = writeln!(out, "- {at}");
            for (model, taken) in models.iter().zip(taken) {
                let _ = writeln!(out, "    {}: {taken}", line(&model["model"]));
            }
        }
    }
    out
}

/// Wraps a string to lines of at most `width` characters, between words where possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for row in text.lines() {
        let mut current = String::new();
        let mut length = 0;
        for word in row.split_inclusive(' ') {
            let letters = word.trim_end().chars().count();
            if length > 0 && length + letters > width {
                out.push(current.trim_end().to_owned());
                (current, length) = (String::new(), 0);
            }
            for c in word.chars() {
                if length == width {
                    // A space at the end of a line is invisible.
                    if c == ' ' {
                        continue;
                    }
                    out.push(std::mem::take(&mut current));
                    length = 0;
                }
                current.push(c);
                length += 1;
            }
        }
        out.push(current.trim_end().to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_where_they_can_be() {
        assert_eq!(wrapped("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrapped("abcdefg hi", 3), ["abc", "def", "g", "hi"]);
        assert_eq!(wrapped("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(wrapped("é è", 1), ["é", "è"]);
        for width in 1..12 {
            let text = "some words of several lengths, and some more";
            assert!(wrapped(text, width).iter().all(|row| row.chars().count() <= width), "{width}");
        }
    }
}
