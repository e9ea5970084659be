//! The documentation about prompts shows the actual output of this crate.

use harn_prompt::{LayeredPrompt, layered_prompt, prompt_explain};
use harn_value::{Data as Value, json};

const GUIDE: &str = concat!(
    include_str!("../../../docs/prompt-assembly.md"),
    include_str!("../../../docs/layered-prompts.md")
);

fn guide_shows(text: &str) {
    assert!(GUIDE.contains(text.trim_end()), "the pages about prompts should show:\n{text}");
}

fn worked_example() -> Value {
    json!({
        "system": "You are a pragmatic engineering partner.",
        "system_appendix": {"title": "House rules", "content": "Small commits."},
        "tools": [
            {"name": "todo", "description": "Track plan items", "guidance": "Always update the TODO tracker."},
            {"name": "deploy", "description": "Ship it", "guidance": "Deploy only green builds.", "defer_loading": true},
            {"name": "read", "description": "Read a file"},
        ],
        "tool_search": true,
    })
}

#[test]
fn the_worked_example_is_what_the_guide_shows() {
    let result = prompt_explain(&worked_example()).unwrap();
    guide_shows(result["system"].as_str().unwrap());
    let line = |f: &Value| {
        let text = |key: &str| f[key].as_str().unwrap().to_owned();
        format!("{} [{}] {}, {} bytes", text("id"), text("bucket"), text("reason"), f["bytes"])
    };
    let lines: Vec<String> = result["fragments"].as_array().unwrap().iter().map(line).collect();
    guide_shows(&lines.join("\n"));
}

#[test]
fn the_comparison_is_what_the_guide_shows() {
    let mut options = worked_example();
    options["without"] = json!(["todo"]);
    let result = prompt_explain(&options).unwrap();
    let difference = &result["difference"];
    guide_shows(&format!("[{}]", difference["removed"][0].as_str().unwrap()));
    guide_shows(&format!("{} bytes, {} shared", difference["bytes"], difference["shared_prefix_bytes"]));
}

#[test]
fn the_layered_prompt_is_what_the_guide_shows() {
    let prompt: LayeredPrompt = layered_prompt(&json!({
        "identity": "You coordinate refunds.",
        "operational_rules": ["Ask the planner first.", "Never guess an amount."],
        "tools": ["send_mail", {"name": "lookup_order", "description": "Find an order by id.", "approval": "never"}],
    }))
    .unwrap();
    guide_shows(&prompt.text);
    guide_shows(&prompt.cache_key);
}
