//! Tests the order, ids, conditions and contents of a turn's primary block.

use harn_value::json;

use super::*;
use crate::options::{CallParts, assemble};

/// Prose that shows the name of the requested asset and one relevant binding.
fn shown(name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
    let stem = name.strip_prefix("std/agent/prompts/").and_then(|n| n.strip_suffix(".harn.prompt")).unwrap();
    Ok(match stem {
        "loop_until_done_system" => {
            let keys: Vec<_> = bindings.iter().map(|(k, v)| format!("{k}={}", v.printed())).collect();
            format!("<{stem} {}>", keys.join(" "))
        }
        "tool_contract_text" => {
            let part = |key: &str| bindings.get(key).map(Value::printed).unwrap_or_default();
            let keys = [
                "text_response_protocol",
                "action_text_contract",
                "task_ledger_contract",
                "tool_examples",
                "shared_types",
                "expanded_schemas",
                "compact_schemas",
            ];
            format!("<{stem} {}>\n", keys.map(part).join("|"))
        }
        "tool_contract_deferred_tools" => {
            format!("<{stem} {} {}>", bindings["search_tool"].printed(), bindings["tools"].printed())
        }
        _ => format!("<{stem}>\n"),
    })
}

fn build(options: &Value, stored: Option<&str>) -> Vec<Fragment> {
    let listing = ToolListing {
        shared_types: "T".into(),
        expanded: "E".into(),
        compact: "C".into(),
        ..ToolListing::default()
    };
    turn_fragments(&TurnInput { options, session_system: stored, listing: &listing }, &shown).unwrap()
}

fn ids(fragments: &[Fragment]) -> Vec<&str> {
    fragments.iter().map(|f| f.id.as_str()).collect()
}

fn body(options: &Value, name: &str) -> Option<String> {
    let id = format!("primary:{name}");
    build(options, None).into_iter().find(|f| f.id == id).map(|f| f.body)
}

fn everything() -> Value {
    json!({
        "system": "base",
        "mcp_initialize_advisory": true,
        "mcp_context": {"initialize_advisory": [{"name": "files", "instructions": "Use paths."}]},
        "context_profile": {"caps": ["x"], "prompt_fragments": [
            {"id": "profile:x", "source": "profile:x", "body": "Project.", "requires_caps": ["x"]}, {"body": "Other."}]},
        "active_skills": [{"name": "ship", "prompt": "Ship it."}],
        "skills": [{"name": "ship"}, {"name": "test", "description": "Run tests."}],
        "progress_tool": "todo",
        "persistent": true,
        "tools": [{"name": "todo"}],
        "tool_format": "text",
        "recitation": "Remember the plan.",
    })
}

#[test]
fn parts_stand_in_their_order() {
    let fragments = build(&everything(), None);
    assert_eq!(
        ids(&fragments),
        [
            "primary:system",
            "primary:mcp_advisory",
            "profile:x",
            "profile",
            "primary:active_skills",
            "primary:skill_catalog",
            "primary:progress_nudge",
            "primary:loop_contract",
            "primary:text_tool_contract",
            "primary:recitation",
        ]
    );
    assert!(fragments.iter().filter(|f| f.id.starts_with("primary:")).all(|f| f.source == "primary"));
    assert_eq!(fragments[6].requires_tools, ["todo"]);
    assert_eq!(fragments[2].requires_caps, ["x"]);
    assert_eq!(fragments[3].source, "profile");
    let buckets: Vec<_> =
        fragments.iter().filter(|f| f.bucket == Bucket::After).map(|f| f.id.as_str()).collect();
    assert_eq!(buckets, ["primary:recitation"]);
}

#[test]
fn a_list_of_fragments_takes_the_place_of_system_and_profile() {
    let mut options = everything();
    options["_system_fragments"] = json!([
        {"id": "mine", "body": "Mine."}, {"id": "primary:loop_contract", "body": "My contract."},
        {"id": "gated", "body": "Only with x.", "requires_tools": ["x"]}]);
    let fragments = build(&options, None);
    assert_eq!(
        ids(&fragments),
        [
            "mine",
            "primary:loop_contract",
            "gated",
            "primary:mcp_advisory",
            "primary:active_skills",
            "primary:skill_catalog",
            "primary:progress_nudge",
            "primary:text_tool_contract",
            "primary:recitation",
        ]
    );
    assert_eq!(fragments[2].requires_tools, ["x"]);
    options["_system_fragments"] = json!([{"body": "b", "requires_tools": "x"}]);
    let input = TurnInput { options: &options, session_system: None, listing: &ToolListing::default() };
    assert_eq!(
        turn_fragments(&input, &shown).unwrap_err().to_string(),
        "_system_fragments[0].requires_tools must be a list of names; got string `x`"
    );
}

#[test]
fn blank_parts_are_dropped() {
    assert!(build(&json!({}), None).is_empty());
    let options = json!({"system": " ", "mcp_initialize_advisory": true, "active_skills": [], "skills": [],
        "progress_tool": null, "tools": [], "recitation": "\n"});
    assert!(build(&options, None).is_empty());
}

#[test]
fn joining_gives_the_bytes_of_the_assembled_prompt() {
    let mut options = everything();
    options.as_object_mut().unwrap().remove("recitation");
    let listing = ToolListing::default();
    let input = TurnInput { options: &options, session_system: None, listing: &listing };
    let joined = turn_system(&input, &shown).unwrap();
    let list: Vec<Value> = turn_fragments(&input, &shown).unwrap().iter().map(Fragment::to_json).collect();
    options["_system_fragments"] = list.into();
    let assembly = assemble(options.as_object().unwrap(), None, &CallParts::default(), None).unwrap();
    assert_eq!(assembly.excluded(), 0);
    assert_eq!(assembly.as_str(), joined);
}

#[test]
fn the_sessions_system_text_is_the_last_resort() {
    let stored = Some("stored");
    assert_eq!(build(&json!({}), stored)[0].body, "stored");
    assert_eq!(build(&json!({"system": "own"}), stored)[0].body, "own");
    assert!(build(&json!({"system_suffix": "host"}), stored).is_empty());
    assert_eq!(build(&json!({"system_suffix": false, "system": " "}), stored)[0].body, "stored");
    assert_eq!(session_system(&json!({"system": "a"})), Some("a"));
    assert_eq!(session_system(&json!({"system": "", "metadata": {"system": "b"}})), Some("b"));
    assert_eq!(session_system(&json!("id")), None);
}

#[test]
fn mcp_advisory_needs_the_switch_and_instructions() {
    let servers = json!([{"name": "a", "instructions": " One. "}, {"name": "b"}, {"instructions": "Two."}]);
    let options =
        |on: bool| json!({"mcp_initialize_advisory": on, "mcp_context": {"initialize_advisory": servers}});
    assert_eq!(body(&options(false), "mcp_advisory"), None);
    assert_eq!(
        body(&options(true), "mcp_advisory").unwrap(),
        "## MCP Server Advisory Context\n\n### a\n<mcp_advisory_note>\nOne.\n\n### mcp-server\n<mcp_advisory_note>\nTwo."
    );
    let nested = json!({"mcp_initialize_advisory": true, "mcp_context": {"initialize_advisory": {"servers": servers}}});
    assert_eq!(body(&nested, "mcp_advisory"), body(&options(true), "mcp_advisory"));
}

#[test]
fn active_skills_leave_blank_parts_out() {
    let options = json!({"skill_catalog": false, "active_skills": {"_type": "skill_registry", "skills": [
        {"name": "ship", "description": "Ships.", "when_to_use": "On release.", "allowed_tools": ["a", "b"],
         "prompt": "Do it.\n"},
        {"description": "nameless"},
        {"name": "x", "id": "ns/x"},
        {"name": "y", "prompt": "Only this."},
    ]}});
    assert_eq!(
        body(&options, "active_skills").unwrap(),
        "## Active skills\n\n### ship\nShips.\nWhen to use: On release.\nScoped tools: a, b\n\nDo it.\n\n### ns/x\n\n### y\n\nOnly this."
    );
}

#[test]
fn the_catalog_lists_what_may_still_be_loaded() {
    let skills = json!([{"name": "z", "short": "Zed.", "description": "long"}, {"name": "a", "namespace": "n", "when_to_use": "often"},
        {"name": "secret", "disable-model-invocation": true}, {"name": "on"}]);
    let options =
        json!({"skills": {"_type": "skill_registry", "skills": skills}, "active_skills": [{"name": "on"}]});
    assert_eq!(
        body(&options, "skill_catalog").unwrap(),
        "## Available skills\n\n<skill_catalog_intro>\n\n- `n/a`: \n  when: often\n- `z`: Zed."
    );
    let off = json!({"skills": skills, "skill_catalog": false});
    assert_eq!(body(&off, "skill_catalog"), None);
    let own = json!({"skills": skills, "skill_catalog_prompt": "Mine."});
    assert_eq!(body(&own, "skill_catalog").unwrap(), "Mine.");
}

#[test]
fn a_catalog_stays_within_its_budget() {
    let entry = |i: usize| CatalogEntry {
        id: format!("s{i}"),
        description: "d".repeat(50),
        ..CatalogEntry::default()
    };
    let entries: Vec<_> = (0..9).map(entry).collect();
    let text = skill_catalog_text(&entries, 300, &shown).unwrap();
    assert!(text.chars().count() <= 300, "{text}");
    assert!(text.ends_with("\n\n... 6 more skill(s) omitted to stay within budget."), "{text}");
    assert_eq!(skill_catalog_text(&[], 300, &shown).unwrap(), "(none)");
    let all = skill_catalog_text(&entries, 2000, &shown).unwrap();
    assert!(all.contains("`s8`") && !all.contains("omitted"));
    let none = skill_catalog_text(&entries, 1, &shown).unwrap();
    assert_eq!(
        none,
        "## Available skills\n\n<skill_catalog_intro>\n\n... 9 more skill(s) omitted to stay within budget."
    );
}

#[test]
fn the_loop_contract_comes_with_persistence_or_a_sentinel() {
    assert_eq!(body(&json!({"system": "s"}), "loop_contract"), None);
    assert_eq!(
        body(&json!({"persistent": true}), "loop_contract").unwrap(),
        "<loop_until_done_system loop_until_done=true exit_when_verified=false has_tools=false native_mode=false \
         native_done=false sentinel_active=true done_sentinel=##DONE##>"
    );
    assert_eq!(
        body(
            &json!({"done_sentinel": "STOP", "exit_when_verified": true, "tool_format": "native", "tools": [{"name": "t"}],
                "turn_policy": {"allow_done_sentinel": false}}),
            "loop_contract"
        )
        .unwrap(),
        "<loop_until_done_system loop_until_done=false exit_when_verified=true has_tools=true native_mode=true \
         native_done=false sentinel_active=false done_sentinel=STOP>"
    );
}

#[test]
fn tool_contracts_follow_the_format() {
    let tools = json!([{"name": "t"}]);
    let native = json!({"tools": tools, "tool_format": "native"});
    assert_eq!(ids(&build(&native, None)), ["primary:native_tool_contract"]);
    let acting =
        json!({"tools": tools, "tool_format": "native", "turn_policy": {"require_action_or_yield": true}});
    assert_eq!(
        body(&acting, "native_tool_contract").unwrap(),
        "<tool_contract_native>\n\n<tool_contract_action_native>"
    );
    let ledger = json!({"tools": tools, "tool_format": "native", "task_ledger": {}});
    assert_eq!(
        body(&ledger, "native_tool_contract").unwrap(),
        "<tool_contract_native>\n\n<tool_contract_task_ledger>"
    );
    let text = json!({"tools": tools, "tool_format": "text", "tool_examples": "ex", "task_ledger": {},
        "turn_policy": {"require_action_or_yield": true}});
    assert_eq!(
        body(&text, "text_tool_contract").unwrap(),
        "<tool_contract_text <tool_contract_text_response_protocol>|<tool_contract_action_text>|\
         <tool_contract_task_ledger>|ex|T|E|C>\n"
    );
    let plain = json!({"tools": tools});
    assert_eq!(
        body(&plain, "text_tool_contract").unwrap(),
        "<tool_contract_text <tool_contract_text_response_protocol>|||nil|T|E|C>\n"
    );
}

#[test]
fn deferred_tools_are_listed_behind_the_contract() {
    for format in ["text", "native"] {
        let options =
            json!({"tools": [{"name": "t"}], "tool_search": {"name": "find"}, "tool_format": format});
        let listing =
            ToolListing { deferred: vec![("d".into(), "Deploys.".into())], ..ToolListing::default() };
        let input = TurnInput { options: &options, session_system: None, listing: &listing };
        let fragments = turn_fragments(&input, &shown).unwrap();
        let stubs = "\n\n<tool_contract_deferred_tools find [{description: Deploys., name: d}]>";
        assert!(fragments[0].body.ends_with(stubs), "{}", fragments[0].body);
    }
}

#[test]
fn errors_name_function_and_asset() {
    let listing = ToolListing::default();
    let wrong = json!("x");
    let input = TurnInput { options: &wrong, session_system: None, listing: &listing };
    assert_eq!(
        turn_fragments(&input, &shown).unwrap_err().to_string(),
        "agent_build_turn_system_fragments: options must be a dict, got string"
    );
    let options = json!({"progress_tool": "p"});
    let input = TurnInput { options: &options, session_system: None, listing: &listing };
    assert_eq!(
        turn_system(&input, &crate::FixedProse::new()).unwrap_err().to_string(),
        "prompt asset `std/agent/prompts/progress_nudge.harn.prompt`: no such asset"
    );
}
