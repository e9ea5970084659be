//! Files written by users and other programs: manifests, transcripts.

use std::path::Path;
use std::rc::Rc;

use harn_check::Settings;
use harn_front::Through;
use harn_llm::config::Layer;
use harn_llm::transcript::{self, CompactOptions};
use harn_llm::{Call, Conversation, LlmRuntime, StdEmbedder};
use harn_system::Memory;
use harn_value::{Data as Value, json};

use crate::rng::Rng;

/// Generates a manifest with known tables and unusual values.
pub(crate) fn generate_manifest(rng: &mut Rng) -> Vec<u8> {
    const TABLES: &[&str] = &[
        "[package]",
        "[check]",
        "[check.preflight]",
        "[lint]",
        "[asset_roots]",
        "[llm.providers.p]",
        "[llm.providers.openai]",
        "[llm.aliases.a]",
        "[llm.models.\"m\"]",
        "[[llm.inference_rules]]",
        "[llm.tier_defaults]",
        "[llm.model_defaults.m]",
        "[capabilities]",
        "[[capabilities.provider.p]]",
        "[provider_family]",
        "[dependencies]",
        "[exports]",
        "[unknown]",
        "[[llm.providers.p]]",
        "[llm]",
    ];
    const KEYS: &[&str] = &[
        "base_url",
        "chat_endpoint",
        "auth_env",
        "auth_style",
        "auth_header",
        "extra_headers",
        "wire",
        "id",
        "provider",
        "model",
        "context_window",
        "pattern",
        "model_match",
        "native_tools",
        "name",
        "p",
        "loop",
        "disabled",
        "preflight_severity",
        "severity",
        "prompts",
        "input_per_mtok",
        "\"\"",
        "\"a.b\"",
        "temperature",
        "fallback",
        "healthcheck",
    ];
    const VALUES: &[&str] = &[
        "\"http://u:pw@127.0.0.1:1/v1?x=1\"",
        "\"\"",
        "\"p\"",
        "\"*\"",
        "\"[\"",
        "\"../..\"",
        "\"/etc\"",
        "0",
        "-1",
        "9223372036854775807",
        "1e308",
        "nan",
        "inf",
        "true",
        "[]",
        "[\"a\", \"b\"]",
        "{}",
        "{ a = \"b\" }",
        "[[[]]]",
        "1979-05-27",
        "\"bearer\"",
        "\"anthropic\"",
        "\"\\u0000\"",
        "[{ name = \"x\" }]",
        "\"**********a\"",
        "\"warning\"",
    ];
    let mut out = String::new();
    for _ in 0..rng.below(12) {
        if rng.chance(40) {
            out.push_str(rng.pick(TABLES));
        } else {
            out.push_str(rng.pick(KEYS));
            out.push_str(" = ");
            out.push_str(rng.pick(VALUES));
        }
        out.push('\n');
    }
    out.into_bytes()
}

/// Passes a manifest to all its readers: problems must have a message and a location, and calls must be prepared or
/// rejected.
pub(crate) fn check_manifest(bytes: &[u8]) {
    let memory = Memory::new()
        .with_file("/project/harn.toml", bytes)
        .with_file("/project/.harn/packages/p/harn.toml", bytes);
    let (_, problems) = Settings::find(&memory, Path::new("/project"));
    assert!(problems.iter().all(|problem| !format!("{:?}", problem.diagnostic.message).is_empty()));
    for import in ["p", "p/x", "./harn.toml", "p/../../x"] {
        let _ =
            harn_front::resolve(import, Path::new("/project"), &Through(&memory), harn_runtime::std_module);
    }
    let Ok(text) = str::from_utf8(bytes) else { return };
    for problem in harn_runtime::llm_config_problems(text) {
        assert!(
            !problem.message.is_empty() && problem.span.end <= text.len(),
            "a problem without text or place"
        );
    }
    let runtime = LlmRuntime::new(Rc::new(StdEmbedder::with_env([("P_KEY", "sk-fuzz")])));
    runtime.set_config_layers(vec![Layer { origin: "harn.toml".to_owned(), toml: text.to_owned() }]);
    runtime.add_capability_manifests(&[("harn.toml", text)]);
    for options in [json!({"provider": "p"}), json!({"model": "a"}), json!({"provider": "p", "model": "m"})] {
        let _ = runtime.prepare(&Call::new("hi", None, options));
    }
}

/// Generates a transcript of unusual messages.
pub(crate) fn generate_transcript(rng: &mut Rng) -> Vec<u8> {
    const MESSAGES: &[&str] = &[
        "{\"role\": \"user\", \"content\": \"hi\"}",
        "{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_call\", \"id\": \"c\", \"name\": \"t\", \"arguments\": {}}]}",
        "{\"role\": \"tool_result\", \"tool_use_id\": \"c\", \"content\": \"x\"}",
        "{\"role\": \"tool\", \"tool_call_id\": null, \"content\": [{\"text\": 1}]}",
        "{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"url\": \"data:,\"}]}",
        "{\"role\": 1, \"content\": [[[]]]}",
        "{\"role\": \"system\", \"content\": {}}",
        "{\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"t\", \"arguments\": \"{\"}}]}",
        "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"x\", \"signature\": 2}]}",
        "null",
        "[]",
        "\"x\"",
        "1e300",
        "{}",
    ];
    let list = |rng: &mut Rng| (0..rng.below(8)).map(|_| rng.pick(MESSAGES)).collect::<Vec<_>>().join(",");
    let (messages, events) = (list(rng), list(rng));
    let kind = rng.pick(&["\"transcript\"", "\"transcript\"", "\"transcript\"", "null"]);
    let rest = rng.pick(&[
        "\"assets\": []",
        "\"assets\": {\"a\": 1}",
        "\"summary\": 5, \"state\": []",
        "\"metadata\": {\"x\": {}}",
    ]);
    format!("{{\"_type\": {kind}, \"version\": 2, \"id\": \"i\", \"messages\": [{messages}], \"events\": [{events}], {rest}}}").into_bytes()
}

/// An imported transcript can be rendered, modified, compacted and exported, and re-importing the export returns
/// the same transcript.
pub(crate) fn check_transcript(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let ids = || "i".to_owned();
    let Ok(value) = transcript::import(&text) else { return };
    let again = transcript::import(&transcript::export(&value)).expect("what was exported");
    assert_eq!(again, value, "export and import change a transcript");
    let _ = (transcript::render_visible(&value), transcript::render_full(&value), transcript::stats(&value));
    for options in [json!({}), json!({"retain_messages": false}), json!({"retain_summary": false}), json!(7)]
    {
        let forked = transcript::fork(&value, &options, &ids).expect("a transcript");
        assert!(transcript::is_transcript(&forked));
    }
    let messages = value.get("messages").cloned().unwrap_or_default();
    let _ = transcript::from_messages(&messages, &ids);
    if let Ok(conversation) = Conversation::from_json(messages.as_array().into_iter().flatten()) {
        assert!(conversation.tokens_from(0) >= 0);
        let _ = conversation.to_json();
    }
    for options in [
        json!({"keep_last": 1}),
        json!({"strategy": "truncate", "keep_last": 0}),
        json!({"target_tokens": -1}),
    ] {
        let Ok(options) = CompactOptions::from_json(&options) else { continue };
        let Ok(Some(first)) = transcript::compact_plan(&value, &options) else { continue };
        let all: Vec<Value> = messages.as_array().cloned().unwrap_or_default();
        let text = transcript::compact_text(&all[..first.min(all.len())], options.strategy, None);
        let done = transcript::compact(&value, &options, Some(first), &text, &ids);
        assert!(transcript::is_transcript(&done.transcript));
    }
}
