//! Generates the reference page docs/template-reference.md from the tables.

use std::fmt::Write;

use crate::error::ERRORS;
use crate::filters::FILTERS;
use crate::lint::{RULES, Severity};
use crate::sections::SECTIONS;

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Formats `text` as a code span; it may contain backticks.
fn code(text: &str) -> String {
    let text = cell(text);
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Formats output as a code span with visible line breaks.
fn output(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { code(&text.replace('\n', "⏎")) }
}

/// Returns the page.
pub fn reference() -> String {
    let mut page = String::from(
        "# Template reference\n\n\
         All filters, sections, errors and lint rules of [prompt templates](templates.md). [Template syntax](template-syntax.md) \
         describes the language.\n\nThis page is generated from the tables of the template engine; do not edit it.\n",
    );
    write_filters(&mut page);
    write_sections(&mut page);
    write_errors(&mut page);
    write_rules(&mut page);
    page
}

fn write_filters(page: &mut String) {
    page.push_str("\n## Filters\n\n| Filter | Result | Notes | Example | Output |\n|---|---|---|---|---|\n");
    for spec in FILTERS {
        let call = if spec.params.is_empty() {
            spec.name.to_owned()
        } else {
            format!("{}: {}", spec.name, spec.params)
        };
        let (template, result) = spec.example;
        let _ = writeln!(
            page,
            "| `{call}` | {} | {} | {} | {} |",
            cell(spec.doc),
            cell(spec.notes),
            code(template),
            output(result)
        );
    }
}

fn write_sections(page: &mut String) {
    page.push_str(
        "\n## Sections\n\n`llm.capabilities` selects the envelope: the first row whose condition is true applies. BODY is the \
         rendered body without surrounding whitespace; ⏎ is a line break.\n",
    );
    for spec in SECTIONS {
        let _ = writeln!(page, "\n### `{}`\n\n{}\n", spec.name, spec.purpose);
        if let Some(argument) = spec.argument {
            let _ = writeln!(page, "Argument: `{argument}`.\n");
        }
        page.push_str(
            "| Condition | Output | Label in traces | Default for an empty BODY |\n|---|---|---|---|\n",
        );
        for envelope in spec.envelopes {
            let default =
                spec.defaults.iter().find(|(label, _)| *label == envelope.label).map_or("", |(_, text)| text);
            let _ = writeln!(
                page,
                "| {} | {} | `{}` | {default} |",
                envelope.when,
                output(envelope.output),
                envelope.label
            );
        }
    }
}

fn write_errors(page: &mut String) {
    page.push_str(
        "\n## Errors\n\nA failed render throws the string `<path> at <line>:<col>: <message>`. Inline templates have no path.\n\n\
         | Message | Cause |\n|---|---|\n",
    );
    for error in ERRORS {
        let _ = writeln!(page, "| {} | {} |", code(&error.text()), cell(error.when.trim()));
    }
}

fn write_rules(page: &mut String) {
    page.push_str("\n## Lint rules\n\n| Rule | Severity | Reports |\n|---|---|---|\n");
    for rule in RULES {
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(page, "| `{}` | {severity} | {} |", rule.name, cell(rule.doc));
    }
}
