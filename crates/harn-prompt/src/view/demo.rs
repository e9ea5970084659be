//! The report of the demo `prompt-guidance`: the same prompt with a tool and without it, and a receipt.

use serde_json::Value;

use super::table::side_by_side;
use super::{Paint, Style};
use crate::reduce::{Assembly, Provenance};
use crate::value::object;

/// What the demo prints and what it returns.
#[derive(Clone, Debug, PartialEq)]
pub struct GuidanceDemo {
    /// The report, without the receipt line.
    pub report: String,
    /// The receipt; printed as JSON it is the report's last line.
    pub receipt: Value,
}

/// Renders the demo from three assemblies: with the tool, without it, and without it but with the same sentence as an
/// explicit fragment that requires the tool. `tool` is the tool's name.
#[must_use]
pub fn guidance_demo(
    tool: &str,
    with: &Assembly,
    without: &Assembly,
    gated: &Assembly,
    style: Style,
) -> GuidanceDemo {
    let mut out = String::new();
    let heading = |out: &mut String, text: &str| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&style.paint(Paint::Heading, text));
        out.push('\n');
    };
    heading(&mut out, "Guidance rides with its tool");
    heading(&mut out, &format!("With `{tool}`"));
    push_text(&mut out, with);
    for entry in &with.provenance {
        out.push_str(&format!("    - {}\n", entry_line(entry)));
    }
    heading(&mut out, &format!("Without `{tool}`"));
    push_text(&mut out, without);
    heading(&mut out, "Side by side");
    let titles = (format!("with {tool}"), format!("without {tool}"));
    out.push_str(&side_by_side((&titles.0, with), (&titles.1, without), style));
    heading(&mut out, "The same sentence as a fragment that requires the tool");
    for entry in gated.provenance.iter().filter(|entry| !entry.included()) {
        out.push_str(&format!("{} | excluded, {}\n", entry.id, entry.reason));
    }

    let guidance = format!("tool:{tool}.guidance");
    let ids = |assembly: &Assembly| -> Vec<Value> {
        assembly.provenance.iter().filter(|p| p.included()).map(|p| p.id.clone().into()).collect()
    };
    let guided = |assembly: &Assembly| assembly.provenance.iter().any(|p| p.included() && p.id == guidance);
    let receipt = object([
        ("receipt_kind", "prompt_guidance_receipt".into()),
        ("guidance_with_tool", guided(with).into()),
        ("guidance_without_tool", guided(without).into()),
        ("drift_proof", (guided(with) && !guided(without)).into()),
        ("included_with", ids(with).into()),
        ("included_without", ids(without).into()),
        ("fragment_count_with", with.provenance.len().into()),
        ("fragment_count_without", without.provenance.len().into()),
    ]);
    GuidanceDemo { report: out, receipt }
}

fn push_text(out: &mut String, assembly: &Assembly) {
    for line in assembly.as_str().lines() {
        out.push_str(format!("  {line}").trim_end());
        out.push('\n');
    }
}

fn entry_line(entry: &Provenance) -> String {
    format!("{} [{}] included={} — {}", entry.id, entry.bucket, entry.included(), entry.reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::explain;

    #[test]
    fn the_demo_proves_that_guidance_cannot_drift() {
        let todo = json!({"name": "todo", "guidance": "Tick items."});
        let read = json!({"name": "read"});
        let run = |options: Value| explain(&options).unwrap().assembly;
        let with = run(json!({"system": "You help.", "tools": [todo, read]}));
        let without = run(json!({"system": "You help.", "tools": [read]}));
        let gated = run(json!({"tools": [read], "_system_fragments": [
            {"id": "primary", "body": "You help."},
            {"id": "primary:todo_note", "body": "Tick items.", "requires_tools": ["todo"]}]}));
        let demo = guidance_demo("todo", &with, &without, &gated, Style::default());
        assert_eq!(
            demo.receipt.to_string(),
            "{\"receipt_kind\":\"prompt_guidance_receipt\",\"guidance_with_tool\":true,\"guidance_without_tool\":false,\
             \"drift_proof\":true,\"included_with\":[\"primary\",\"tool:todo.guidance\"],\"included_without\":[\"primary\"],\
             \"fragment_count_with\":2,\"fragment_count_without\":1}"
        );
        for line in [
            "    - primary [before] included=true — unconditional\n",
            "    - tool:todo.guidance [before] included=true — tool(s) present: todo\n",
            "tool:todo.guidance | included 11 B, tool(s) present: todo | -\n",
            "primary:todo_note | excluded, requires tool `todo` (not available)\n",
        ] {
            assert!(demo.report.contains(line), "{}", demo.report);
        }
        assert_eq!(demo.report.matches("Tick items.").count(), 1, "only in the prompt with the tool");
        assert!(demo.report.lines().all(|line| line.chars().count() <= 80), "{}", demo.report);
    }
}
