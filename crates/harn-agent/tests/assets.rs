//! The real prompt assets, rendered by the template engine: each one exists, renders, and contains the documented text.

use std::borrow::Cow;
use std::path::PathBuf;

use harn_agent::harness::ToolkitDescriptions;
use harn_agent::profile::{FolderReader, Signals, collect, project_context_profile};
use harn_prompt::reminder::providers::{BUILT_IN, BuiltIn};
use harn_prompt::turn::{CatalogEntry, skill_catalog_text};
use harn_prompt::{
    Fragment, Prose, ProseError, ToolListing, TurnInput, prompt_explain, turn_fragments, turn_system,
};
use harn_template::{AssetLoader, Assets, RenderContext, Template};
use harn_value::{Data as Value, data::Map, json};

/// The assets of the source tree.
struct Tree;

impl Assets for Tree {
    fn get(&self, path: &str) -> Option<Cow<'static, str>> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../stdlib");
        std::fs::read_to_string(root.join(path)).ok().map(Cow::Owned)
    }
}

impl Prose for Tree {
    fn render(&self, name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
        let error = |cause: String| ProseError { asset: name.to_owned(), cause };
        let loader = AssetLoader(Tree);
        let template = Template::load(name, &loader).map_err(|e| error(e.to_string()))?;
        let bindings = harn_value::json::from_data(&Value::Object(bindings.clone()));
        let context = RenderContext { loader: &loader, ..RenderContext::default() };
        template.render(&bindings, &context).map_err(|e| error(e.to_string()))
    }
}

fn turn(options: &Value) -> Vec<Fragment> {
    let listing = ToolListing {
        shared_types: "type Id = string;".into(),
        expanded: "declare function todo(args: { item: string }): string;".into(),
        compact: "- `read({ path })` — Reads a file.".into(),
        deferred: vec![("deploy".into(), "Deploys a service.".into())],
    };
    turn_fragments(&TurnInput { options, session_system: None, listing: &listing }, &Tree)
        .expect("the assets render")
}

fn body(options: &Value, name: &str) -> String {
    let id = format!("primary:{name}");
    turn(options).into_iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no {id}")).body
}

const KEEP_WORKING: &str = "IMPORTANT: You MUST keep working until the task is complete. Do NOT stop to explain or summarize — take \
                            action. Output ##DONE## only when the task is fully complete and verified.";

#[test]
fn a_persistent_loop_is_told_word_for_word() {
    assert!(body(&json!({"persistent": true}), "loop_contract").contains(KEEP_WORKING));
    let own = body(&json!({"persistent": true, "done_sentinel": "STOP"}), "loop_contract");
    assert!(own.contains("Output STOP only when") && !own.contains("##DONE##"), "{own}");
    let forbidden = json!({"persistent": true, "turn_policy": {"allow_done_sentinel": false}});
    assert!(!body(&forbidden, "loop_contract").contains("##DONE##"));
}

#[test]
fn the_text_contract_has_its_sections_in_order() {
    let options = json!({"tools": [{"name": "todo"}], "tool_format": "text", "tool_examples": "todo({ item: \"x\" })",
        "task_ledger": {}, "turn_policy": {"require_action_or_yield": true}, "tool_search": {"name": "find_tool"}});
    let text = body(&options, "text_tool_contract");
    let order = [
        "## Tool Calling Contract",
        "Active mode: `text`",
        "## Response protocol",
        "<done>##DONE##</done>",
        "action-gated",
        "## Tool call examples",
        "## Task ledger",
        "## Shared types",
        "## Available tools",
        "## Other tools",
        "## Tools available via `find_tool` (deferred)",
        "- `deploy`: Deploys a service.",
    ];
    let places: Vec<_> =
        order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"))).collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn the_native_contract_names_its_mode() {
    let options = json!({"tools": [{"name": "todo"}], "tool_format": "native"});
    let text = body(&options, "native_tool_contract");
    assert!(text.contains("## Tool Calling Contract") && text.contains("Active mode: `native`"), "{text}");
}

#[test]
fn every_part_of_a_turn_renders_and_is_traced() {
    let mut options = json!({
        "system": "You help.",
        "mcp_initialize_advisory": true,
        "mcp_context": {"initialize_advisory": [{"name": "files", "instructions": "Use paths."}]},
        "active_skills": [{"name": "ship", "prompt": "Ship it."}],
        "skills": [{"name": "test", "description": "Runs tests."}],
        "progress_tool": "todo", "persistent": true, "tools": [{"name": "todo", "guidance": "Tick."}],
        "tool_format": "native", "recitation": "Plan: 1.",
    });
    let fragments = turn(&options);
    assert!(fragments.iter().all(|f| !f.body.trim().is_empty() && !f.body.contains("{{")));
    let list: Vec<Value> = fragments.iter().map(Fragment::to_json).collect();
    options["_system_fragments"] = list.into();
    let explained = prompt_explain(&options).unwrap();
    let ids: Vec<_> =
        explained["fragments"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "primary:system",
            "primary:mcp_advisory",
            "primary:active_skills",
            "primary:skill_catalog",
            "primary:progress_nudge",
            "primary:loop_contract",
            "primary:native_tool_contract",
            "primary:recitation",
            "tool:todo.guidance",
        ]
    );
    assert!(explained["system"].as_str().unwrap().ends_with("\n\nTick.\n\nPlan: 1."));
    assert_eq!(explained["excluded"], 0);
}

#[test]
fn a_turn_renders_to_the_same_bytes_twice() {
    let options =
        json!({"system": "s", "persistent": true, "tools": [{"name": "todo"}], "tool_format": "text"});
    let listing = ToolListing::default();
    let input = TurnInput { options: &options, session_system: None, listing: &listing };
    assert_eq!(turn_system(&input, &Tree).unwrap(), turn_system(&input, &Tree).unwrap());
}

#[test]
fn the_skill_catalog_reads_as_promised() {
    let entry =
        CatalogEntry { id: "ship".into(), description: "Ships.".into(), when_to_use: "On release.".into() };
    assert_eq!(
        skill_catalog_text(&[entry], 2000, &Tree).unwrap(),
        "## Available skills\n\nThese skills are available. Call `load_skill({ name: \"<skill-id>\" })` to load the full \
         body of a skill when it becomes relevant.\n\n- `ship`: Ships.\n  when: On release."
    );
}

#[test]
fn profile_bodies_begin_alike_and_name_what_was_found() {
    struct Nothing;
    impl FolderReader for Nothing {
        fn read(&self, _: &std::path::Path) -> Option<String> {
            None
        }
        fn list(&self, _: &std::path::Path) -> Vec<harn_agent::profile::Entry> {
            Vec::new()
        }
    }
    let options = json!({"signals": {"languages": ["rust", "typescript", "python", "swift"], "test_runner": "nextest",
        "package_manager": "pnpm", "remote": "git@github.com:o/r.git"}});
    let signals = collect("/p".as_ref(), options.as_object().unwrap(), &Nothing, &|_| None);
    let profile = project_context_profile("/p", &signals, &Tree).unwrap();
    let fragments = profile["prompt_fragments"].as_array().unwrap();
    assert_eq!(fragments.len(), 6);
    for fragment in fragments {
        let body = fragment["body"].as_str().unwrap();
        assert!(
            body.starts_with("Project profile:") && !body.contains("{{") && !body.contains('\n'),
            "{body}"
        );
    }
    let of = |i: usize| fragments[i]["body"].as_str().unwrap();
    assert!(of(1).contains("`o/r`") && of(2).contains("cargo nextest run") && of(3).contains("with pnpm"));
    assert!(project_context_profile("/p", &Signals::default(), &Tree).is_ok(), "also without any signal");
}

#[test]
fn every_provider_has_its_text() {
    let none = harn_value::data::Map::new();
    let body = |provider: BuiltIn, payload: harn_value::Data| {
        let always = BuiltIn { fires: |_, _| true, ..provider };
        always.reminder("r", payload.as_object().unwrap(), &none, &Tree).unwrap().unwrap().body
    };
    for provider in BUILT_IN {
        let some = json!({"tool_name": "read", "facts": ["a", "b"], "idle_seconds": 60, "summary": "S."});
        for payload in [some, json!({})] {
            let body = body(provider, payload);
            assert!(!body.is_empty() && !body.contains("{{"), "{body}");
        }
    }
    let pressure = BuiltIn::named("token_pressure").unwrap();
    let levels = [70, 85, 95]
        .map(|level| body(pressure, json!({"level": level, "used_tokens": 99, "context_window": 100})));
    assert!(levels[0] != levels[1] && levels[1] != levels[2]);
    assert!(
        levels[2].starts_with("The context window is 95 percent full (99 of 100 tokens). Stop"),
        "{}",
        levels[2]
    );
}

#[test]
fn every_built_in_tool_has_a_description() {
    let descriptions = ToolkitDescriptions::render(&Tree).unwrap();
    for tool in
        ["call_agent", "storePlan", "getPlan", "executePlan", "resolveRef", "glimpseRef", "execute_query"]
    {
        let text = descriptions.of(tool);
        assert!(text.ends_with('.') && !text.contains('\n'), "{tool}: {text}");
    }
}
