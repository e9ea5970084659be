//! Arbitrary input never causes a panic: text replies, JSON in prose, options, mocks, stream bytes.
use crate::support::*;
use harn_llm::wire::ReplyReader;
use harn_llm::{Call, CallOptions, Mock};
use harn_value::{Data as Value, json};
use proptest::prelude::*;

/// Text that consists of the constructs that parsers search for.
fn fragments() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<done>",
        "</done>",
        "<think>",
        "</think>",
        "<user_response>",
        "read(",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "`",
        "\\",
        "<<EOF\n",
        "EOF",
        "\n",
        ":",
        ",",
        ")",
        "a",
        "é",
        "😀",
        " ",
        "```json\n",
        "```",
        "\\u12",
        "-1e9",
        "//",
        "/*",
        "*/",
        "<read({",
        "[result of x]",
        "##DONE##",
        "{\"mode\": \"ask_user\"}",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|v| v.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        "[a-z_]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "type",
            "role",
            "content",
            "text",
            "tools",
            "name",
            "parameters",
            "budget",
            "thinking",
            "mode",
            "messages",
            "output_format",
            "schema",
            "kind",
            "error",
            "category",
            "tool_calls",
            "arguments",
            "match",
            "chunks",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(k, v)| (k.to_string(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_of_any_text_are_read(text in fragments()) {
        let reply = harn_llm::tool_text::parse_reply(&text, &["read".to_string()]);
        let _ = (reply.prose(), reply.canonical_text());
        harn_llm::tool_text::sanitize(&text);
        harn_llm::tool_text::sanitize_partial(&text);
        harn_llm::structured::extract::from_text(&text);
    }

    #[test]
    fn options_and_mocks_of_any_shape_are_read(value in json_value()) {
        if let Ok(options) = CallOptions::from_json(&value) {
            let messages = harn_llm::options::request_messages(&options, &value).unwrap_or_default();
            let _ = harn_llm::Conversation::from_json(&messages);
        }
        let _ = Mock::from_json(&value);
        let _ = harn_schema::errors(&value, &value);
        let _ = harn_llm::transcript::from_messages(&value, &|| String::new());
    }

    #[test]
    fn streams_of_any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), text in fragments()) {
        for provider in ["openai", "anthropic", "ollama"] {
            let (runtime, _) = runtime(KEYS);
            let options = json!({"provider": provider, "ollama": {"num_ctx": 1}});
            let request = runtime.prepare(&Call::new("hi", None, options)).unwrap().request;
            let stream = format!("data: {}\n\ndata: {{\"choices\": [{}\n\n", text, json!(text));
            for body in [bytes.as_slice(), stream.as_bytes()] {
                let mut reader = ReplyReader::new(&request, true);
                let mut events = Vec::new();
                if reader.feed(body, &mut events).is_ok() {
                    let _ = reader.finish(&request, "x", &mut events);
                }
            }
        }
    }
}
