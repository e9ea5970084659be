//! Invalid input is an error, never a panic: random values wherever script values are accepted.

use harn_agent::harness::{
    ToolkitDescriptions, define_runtime, lower_schema, parse_conversation, runtime_spec_parse,
};
use harn_agent::profile::{Remote, signals::Supplied};
use harn_prompt::layered::{ToolRow, tool_rows};
use harn_prompt::reminder::{SlotCaps, clear_reminders, compact, inject_reminder, pending, place};
use harn_prompt::view::{CallHead, Style, call, explanation};
use harn_prompt::{
    ToolListing, TurnInput, augment_prompt_tools, explain, layered_prompt, prompt_explain, turn_fragments,
};
use harn_value::{Data as Value, data::Map, json};
use proptest::prelude::*;

/// Generates any JSON value, with keys and strings that are relevant to this crate.
fn value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("before".to_owned()),
        Just("after".to_owned()),
        Just("never".to_owned()),
        Just("dynamic".to_owned()),
        Just("planner".to_owned()),
        Just("coordinator".to_owned()),
        Just("string?".to_owned()),
        Just("transcript".to_owned()),
        Just("#/$defs/a".to_owned()),
        Just("user".to_owned()),
        Just("system_reminder".to_owned()),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(Value::from),
        word.prop_map(Value::from),
        Just(Value::opaque("closure", "<fn(x)>")),
        Just(Value::opaque("float", "NaN")),
    ];
    let key = prop::sample::select(vec![
        "system",
        "system_prefix",
        "system_suffix",
        "_system_fragments",
        "context_profile",
        "prompt_fragments",
        "tools",
        "name",
        "guidance",
        "id",
        "source",
        "bucket",
        "body",
        "content",
        "parts",
        "title",
        "position",
        "enabled",
        "caps",
        "requires_tools",
        "requires_caps",
        "without",
        "detail",
        "policy",
        "tool_search",
        "always_loaded",
        "identity",
        "communication",
        "domain_knowledge",
        "approval",
        "kind",
        "value",
        "tenant",
        "resource_id",
        "version",
        "agents",
        "role",
        "model",
        "prompt",
        "plan",
        "schema",
        "properties",
        "type",
        "$ref",
        "$defs",
        "a",
        "_type",
        "events",
        "messages",
        "reminder",
        "tags",
        "ttl_turns",
        "dedupe_key",
        "url",
        "slug",
        "signals",
        "remote",
        "credentials",
        "skills",
        "active_skills",
        "mcp_initialize_advisory",
        "mcp_context",
        "initialize_advisory",
        "persistent",
        "transcript",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..7).prop_map(|entries| entries
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Generates a dict of options; a value that is not a dict becomes the value of options.
fn dict() -> impl Strategy<Value = Value> {
    value().prop_map(|value| match value.as_object() {
        Some(_) => value,
        None => json!({"system_prefix": value.clone(), "tools": value}),
    })
}

proptest! {
    #[test]
    fn assembly_and_views_take_anything(options in dict(), width in 0usize..100) {
        let _ = prompt_explain(&options);
        if let Ok(found) = explain(&options) {
            let style = Style { width, color: width % 2 == 0 };
            prop_assert!(!explanation(&found, style).is_empty());
            let head = CallHead { number: 2, to: "mock/mock", details: &[] };
            prop_assert!(!call(head, &found.assembly, Some(&found.assembly), style).is_empty());
        }
        let listing = ToolListing::default();
        let input = TurnInput { options: &options, session_system: None, listing: &listing };
        let prose = |name: &str, _: &Map<String, Value>| Ok(name.to_owned());
        // Only malformed input is an error, and the error names its location.
        if let Err(error) = turn_fragments(&input, &prose) {
            let text = error.to_string();
            prop_assert!(text.contains("_system_fragments[") || text.contains("profile"), "{}", text);
        }
    }

    #[test]
    fn layers_and_specs_take_anything(value in value(), text in "(\\PC|\n|# |```|\\|){0,60}") {
        let _ = layered_prompt(&value);
        let _ = layered_prompt(&json!({"identity": "i", "tools": value, "examples": value}));
        let rows = tool_rows(&value).unwrap_or_else(|_| vec![ToolRow { name: text.clone(), ..ToolRow::default() }]);
        let once = augment_prompt_tools(&text, rows.clone());
        prop_assert_eq!(&augment_prompt_tools(&text, rows), &once);
        let _ = lower_schema("f", &value);
        let _ = define_runtime(&value, &ToolkitDescriptions::default());
        let _ = runtime_spec_parse(&value);
        let _ = parse_conversation(value.as_array().map_or(&[], Vec::as_slice));
    }

    #[test]
    fn reminders_and_signals_take_anything(value in value(), other in value(), url in "\\PC{0,40}") {
        let _ = inject_reminder(&value, &other, "r");
        let _ = inject_reminder(&json!({"_type": "transcript", "events": value}), &json!({"body": "b"}), "r");
        let _ = clear_reminders(&json!({"_type": "transcript", "events": value}), &other);
        let transcript = json!({"events": value});
        let left = compact(&transcript);
        prop_assert!(left.reminders.len() <= pending(&transcript).len());
        let messages = other.as_array().cloned().unwrap_or_default();
        for anthropic_wire in [false, true] {
            let caps = SlotCaps { anthropic_wire, ..SlotCaps::default() };
            prop_assert!(place(&pending(&transcript), &messages, caps).messages.len() >= messages.len());
        }
        let _ = Remote::from_json(&value);
        prop_assert!(Remote::from_url(None, &url).url.is_some());
        if let Some(options) = value.as_object() {
            let _ = Supplied::of(options);
        }
    }
}
