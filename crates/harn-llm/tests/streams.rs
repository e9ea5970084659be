//! A recorded stream yields the same result wherever its chunks are split.
use crate::support::*;
use harn_llm::response::ResponseBuilder;
use harn_llm::wire::ReplyReader;
use harn_llm::{Call, Request, Response, StreamEvent};
use harn_value::{Data as Value, json};

fn request(provider: &str, options: Value) -> Request {
    let (runtime, _) = runtime(KEYS);
    let mut all = json!({"provider": provider});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    runtime.prepare(&Call::new("hi", None, all)).unwrap().request
}

fn read(request: &Request, chunks: &[&[u8]]) -> Response {
    let mut reader = ReplyReader::new(request, true);
    let mut builder = ResponseBuilder::default();
    let mut events: Vec<StreamEvent> = Vec::new();
    for chunk in chunks {
        reader.feed(chunk, &mut events).unwrap();
    }
    reader.finish(request, "text/event-stream", &mut events).unwrap();
    events.iter().for_each(|e| builder.push(e));
    builder.finish("p", "m", harn_llm::config::Dialect::Plain).unwrap()
}

#[test]
fn every_cut_of_every_format_gives_the_same_reply() {
    let formats = [
        ("openai", json!({}), OPENAI_STREAM),
        ("anthropic", json!({}), ANTHROPIC_STREAM),
        ("openai", json!({"api_mode": "responses", "model": "gpt-5.4"}), RESPONSES_STREAM),
        ("ollama", json!({"ollama": {"num_ctx": 1}}), OLLAMA_STREAM),
    ];
    for (provider, options, text) in formats {
        let request = request(provider, options);
        let bytes = text.as_bytes();
        let whole = read(&request, &[bytes]);
        assert!(!whole.text.is_empty() && whole.tool_calls.len() == 1, "{provider}: {whole:?}");
        for cut in 0..=bytes.len() {
            assert_eq!(read(&request, &[&bytes[..cut], &bytes[cut..]]), whole, "{provider} cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&request, &single), whole, "{provider} byte by byte");
    }
}

#[test]
fn every_truncation_is_an_error_or_the_whole_reply() {
    for (provider, text) in [("openai", OPENAI_STREAM), ("anthropic", ANTHROPIC_STREAM)] {
        let request = request(provider, json!({}));
        let end = if provider == "openai" {
            text.find("\"finish_reason\"").unwrap()
        } else {
            text.rfind("message_stop").unwrap()
        };
        for cut in 0..end {
            let mut reader = ReplyReader::new(&request, true);
            let mut events = Vec::new();
            reader.feed(&text.as_bytes()[..cut], &mut events).unwrap();
            assert!(
                reader.finish(&request, "text/event-stream", &mut events).is_err(),
                "{provider} cut at {cut}"
            );
        }
    }
}
