//! The documented examples, through the public API.

use harn_agent::harness::{ToolkitDescriptions, define_runtime, define_tool, runtime_spec_json};
use harn_prompt::view::{Style, explanation};
use harn_prompt::{explain, layered_prompt, prompt_explain};
use harn_value::{Data as Value, json};

fn options() -> Value {
    json!({
        "system": "You are a pragmatic engineering partner.",
        "tools": [
            {"name": "todo", "description": "Track plan items", "guidance": "Always update the TODO tracker."},
            {"name": "read", "description": "Read a file"},
        ],
    })
}

#[test]
fn guidance_is_there_with_its_tool() {
    let explained = prompt_explain(&options()).unwrap();
    assert_eq!(
        explained["system"],
        "You are a pragmatic engineering partner.\n\nAlways update the TODO tracker."
    );
    assert_eq!(explained["fragments"][1]["reason"], "tool(s) present: todo");
    assert_eq!(explained["fragments"][1]["id"], "tool:todo.guidance");
    assert_eq!(explained["fragments"][1]["source"], "tool:todo");
    assert_eq!((&explained["included"], &explained["excluded"]), (&json!(2), &json!(0)));
}

#[test]
fn guidance_is_gone_with_its_tool() {
    let mut options = options();
    options["tools"].as_array_mut().unwrap().remove(0);
    let explained = prompt_explain(&options).unwrap();
    assert_eq!(explained["system"], "You are a pragmatic engineering partner.");
    assert_eq!(explained["fragments"].as_array().unwrap().len(), 1);
}

#[test]
fn a_gated_fragment_says_which_tool_is_missing() {
    let explained = prompt_explain(&json!({"_system_fragments": [
        {"id": "primary:note", "body": "Use the tracker.", "requires_tools": ["todo"]}]}))
    .unwrap();
    assert_eq!(explained["system"], Value::Null);
    assert_eq!(explained["fragments"][0]["reason"], "requires tool `todo` (not available)");
    assert_eq!(explained["fragments"][0]["bytes"], 0);
}

#[test]
fn the_question_why_is_this_sentence_there_has_an_answer_in_bytes() {
    let explanation = explain(&options()).unwrap();
    let text = explanation.assembly.as_str();
    let offset = text.find("TODO").unwrap();
    assert_eq!(explanation.assembly.at(offset).unwrap().id, "tool:todo.guidance");
}

#[test]
fn the_question_what_without_a_tool_has_an_answer_to_read() {
    let mut options = options();
    options["without"] = json!(["todo"]);
    let text = explanation(&explain(&options).unwrap(), Style::default());
    let tail = "Without todo\n  40 bytes (-33), 40 leading bytes shared\n  removed tool:todo.guidance\n";
    assert!(text.ends_with(tail), "{text}");
}

#[test]
fn the_coordinator_prompt_has_all_layers() {
    let search = define_tool(&json!({"name": "search_products", "description": "Search products by query.",
        "input_schema": {"query": "string", "limit": "int"}, "approval": "never"}))
    .unwrap();
    let prompt = layered_prompt(&json!({
        "identity": "You coordinate scenario planning for Acme customers.",
        "communication": "Be concise and surface approval points explicitly.",
        "operational_rules": ["Route plan-building work to the planner.",
            "Route approved materialization work to the executor."],
        "tools": [search.to_json()],
        "domain_knowledge": {"entities": ["product", "segment", "channel"], "metrics": ["revenue", "margin"]},
        "safety": ["Never execute side-effecting tools without approval."],
        "output_format": {"events": ["plan_proposed", "approval_required", "tool_result"]},
        "examples": [{"user": "Branch Q3 pricing into a 5% promotion for top EU SKUs."}],
    }))
    .unwrap();
    let expected = r#"# Identity
You coordinate scenario planning for Acme customers.

# Communication
Be concise and surface approval points explicitly.

# Operational Rules
- Route plan-building work to the planner.
- Route approved materialization work to the executor.

# Tools
| Tool | Description | Approval |
| --- | --- | --- |
| search_products | Search products by query. | never |

# Domain Knowledge
```json
{
  "entities": [
    "product",
    "segment",
    "channel"
  ],
  "metrics": [
    "revenue",
    "margin"
  ]
}
```

# Safety
- Never execute side-effecting tools without approval.

# Output Format
```json
{
  "events": [
    "plan_proposed",
    "approval_required",
    "tool_result"
  ]
}
```

# Examples
```json
[
  {
    "user": "Branch Q3 pricing into a 5% promotion for top EU SKUs."
  }
]
```"#;
    assert_eq!(prompt.text, expected);
    assert_eq!(prompt.cache_key.len(), 64);
}

#[test]
fn the_planner_travels_as_promised() {
    let plan = json!({"name": "scenario", "schema": {"actions": "list"}});
    let spec = define_runtime(
        &json!({"tenant": {"resource_id": "acme", "version": "v1"}, "agents": [{
            "role": "planner", "name": "scenario_planner", "model": "claude-sonnet-4-6", "plan": plan,
            "prompt": layered_prompt(&json!({"identity": "You produce typed scenario plans."})).unwrap().to_json()}]}),
        &ToolkitDescriptions::default(),
    )
    .unwrap();
    let wire: Value = serde_json::from_str(&runtime_spec_json(&spec)).unwrap();
    assert_eq!(
        wire["agents"][0],
        json!({"name": "scenario_planner", "role": "planner", "stateful": true,
            "model": {"id": "claude-sonnet-4-6", "provider": null},
            "systemPrompt": "# Identity\nYou produce typed scenario plans.", "routes": [], "toolkits": []})
    );
}
