//! Responses of model servers: framed streams, the decoders of every wire format, JSON in prose, tagged text.

use std::rc::Rc;
use std::sync::LazyLock;

use harn_llm::sse::{Framer, Framing};
use harn_llm::structured::extract::from_text;
use harn_llm::tool_text::{has_opening_tag, parse_reply, sanitize, sanitize_partial};
use harn_llm::wire::{ReplyReader, WireStyle};
use harn_llm::{Call, LlmRuntime, Request, Secret, StdEmbedder, StreamEvent};
use harn_prompt::untrusted::quote;
use harn_value::{Data as Value, json};

use crate::rng::Rng;

/// Maximum size of a line and of an event in a stream.
const LIMIT: usize = 4096;

/// Splits an input: the first byte selects how it is cut, the rest is the content.
fn parts(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest))
}

/// Splits `bytes` into chunks of random length, determined by `choice`.
fn pieces(choice: usize, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rng = Rng::new(choice as u64, bytes.len() as u64);
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (piece, tail) = rest.split_at((1 + rng.below(9)).min(rest.len()));
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Generates a random first byte followed by random fragments of a list.
fn text(rng: &mut Rng, pieces: &[&str], most: usize) -> Vec<u8> {
    let mut out = vec![rng.bits() as u8];
    for _ in 0..rng.below(most) {
        let piece = rng.pick(pieces);
        let times = if rng.chance(3) { 1 + rng.below(200) } else { 1 };
        out.extend(piece.as_bytes().repeat(times));
    }
    out
}

/// Generates lines of a stream.
pub(crate) fn generate_sse(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "data: ",
        "data:",
        "data",
        "event: x",
        "id: 1",
        "retry: 5",
        ": comment",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\u{feff}",
        "{\"a\":1}",
        "{\"a\":",
        "1}",
        "[DONE]",
        "é",
        "😀",
        " ",
        "\u{0}",
        "x",
    ];
    text(rng, PIECES, 60)
}

/// The messages do not depend on how the stream is cut, and none exceeds the limit.
pub(crate) fn check_sse(bytes: &[u8]) {
    let (choice, bytes) = parts(bytes);
    let framing = if choice % 2 == 0 { Framing::Sse } else { Framing::Lines };
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>, limit: usize| {
        let mut framer = Framer::new(framing, limit);
        let mut out: Vec<String> = Vec::new();
        let mut whole = true;
        for chunk in chunks {
            if framer.feed(chunk, &mut |message| out.push(message.to_owned())).is_err() {
                whole = false;
                break;
            }
        }
        if whole {
            framer.finish(&mut |message| out.push(message.to_owned()));
        }
        (out, whole)
    };
    let whole = read(&mut std::iter::once(bytes), usize::MAX);
    let cut = read(&mut pieces(choice, bytes), usize::MAX);
    assert_eq!(whole, cut, "where the stream is cut changes its messages");
    let (bounded, _) = read(&mut pieces(choice, bytes), LIMIT);
    // Each invalid UTF-8 byte becomes three bytes.
    let longest = bounded.iter().map(String::len).max().unwrap_or(0);
    assert!(longest <= 3 * (LIMIT + 16), "a message of {longest} bytes");
    assert!(whole.0.starts_with(&bounded) || framing == Framing::Sse, "the limit changes messages before it");
}

/// The supported wire formats.
const STYLES: [WireStyle; 8] = [
    WireStyle::OpenAiChat,
    WireStyle::OpenAiResponses,
    WireStyle::Anthropic,
    WireStyle::Gemini,
    WireStyle::Bedrock,
    WireStyle::OllamaChat,
    WireStyle::OllamaRaw,
    WireStyle::Completion,
];

/// Generates complete and partial events and responses of all formats.
pub(crate) fn generate_stream(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"t\",\"arguments\":\"{\\\"a\\\":\"}}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":4294967295,\"function\":{\"arguments\":\"1}\"}}]}}]}",
        "{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":9223372036854775807}}",
        "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}",
        "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"t\",\"input\":{}}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\"\"}}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}",
        "{\"type\":\"content_block_stop\",\"index\":0}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1e300}}",
        "{\"type\":\"message_stop\"}",
        "{\"type\":\"response.output_text.delta\",\"delta\":\"hi\",\"output_index\":0}",
        "{\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"delta\":\"{\"}",
        "{\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"t\",\"arguments\":\"{}\"}}",
        "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[],\"usage\":{}}}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"},{\"functionCall\":{\"name\":\"t\",\"args\":{}}}]},\"finishReason\":\"STOP\"}]}",
        "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":\"hi\"}]}},\"stopReason\":\"end_turn\"}",
        "{\"message\":{\"role\":\"assistant\",\"content\":\"<think>a</thi\",\"tool_calls\":[{\"function\":{\"name\":\"t\",\"arguments\":{}}}]},\"done\":false}",
        "{\"response\":\"hi\",\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":1}",
        "{\"error\":{\"message\":\"sk-fuzz-0123456789 is no key\",\"type\":\"x\",\"code\":429}}",
        "{\"error\":\"overloaded\"}",
        "data: ",
        "event: message_start\n",
        "\n\n",
        "\n",
        "[DONE]",
        "null",
        "[",
        "{",
        "}",
        "\"",
        ",",
        "[[[[",
        "é",
        "\\ud800",
    ];
    text(rng, PIECES, 16)
}

static KEY: &str = "sk-fuzz-0123456789";

thread_local! {
    /// A request whose wire format is replaced by each test.
    static REQUEST: Request = {
        let embedder = Rc::new(StdEmbedder::with_env([("OPENAI_API_KEY", KEY)]));
        let runtime = LlmRuntime::new(embedder);
        let call = Call::new("hi", None, json!({"provider": "openai", "model": "m"}));
        runtime.prepare(&call).ok().map(|prepared| prepared.request).expect("a request")
    };
}

/// The events or the error of a response do not depend on how it is cut, and no error contains the key.
pub(crate) fn check_stream(bytes: &[u8]) {
    let (choice, bytes) = parts(bytes);
    let mut request = REQUEST.with(Clone::clone);
    request.route.style = STYLES[choice % STYLES.len()];
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>, streamed: bool| {
        let mut reader = ReplyReader::new(&request, streamed);
        let mut events: Vec<StreamEvent> = Vec::new();
        let mut result = Ok(());
        for chunk in chunks {
            result = result.and_then(|()| reader.feed(chunk, &mut events));
        }
        let result = result.and_then(|()| reader.finish(&request, "application/json", &mut events));
        let usage = reader.usage();
        assert!(
            [usage.input, usage.output].into_iter().flatten().all(|n| n >= 0),
            "negative tokens: {usage:?}"
        );
        (events, result)
    };
    for streamed in [true, false] {
        let whole = read(&mut std::iter::once(bytes), streamed);
        if let Err(error) = &whole.1 {
            // Every caller redacts errors. If the error were truncated first, a part of the key would remain.
            let shown = Secret::new(KEY).redact(&error.to_string());
            let parts = String::from_utf8_lossy(bytes).replace(KEY, "").contains(&KEY[..12]);
            assert!(parts || !shown.contains(&KEY[..12]), "an error shows the key: {error}");
        }
        let cut = read(&mut pieces(choice, bytes), streamed);
        assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "where the reply is cut changes it");
    }
}

/// Generates text with embedded JSON.
pub(crate) fn generate_json(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ":",
        ",",
        "\"a\": ",
        "1",
        "-1e999",
        "null",
        "true",
        "```",
        "```json\n",
        "\n",
        " ",
        "Here is it: ",
        "{\"a\": [1, {\"b\": \"}\"}]}",
        "<assistant_prose>",
        "</assistant_prose>",
        "é",
        "\\u12",
        "'",
        "//",
        "NaN",
    ];
    text(rng, PIECES, 60)[1..].to_vec()
}

/// Input that is valid JSON is returned unchanged, and extraction is idempotent.
pub(crate) fn check_json(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = from_text(&text);
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(value) => {
            let found = found.expect("a text that is JSON");
            assert!(
                found.whole && !found.repaired && found.value == value,
                "JSON was read as something else"
            );
        }
        Err(_) => {
            if let Some(found) = found {
                assert!(!found.whole || found.repaired, "the text is not valid JSON");
                let again = from_text(&found.value.to_string()).expect("JSON was written");
                assert_eq!(again.value, found.value);
            }
        }
    }
}

/// Generates replies in the tagged format.
pub(crate) fn generate_tagged(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&str] = &[
        "<tool_call>",
        "</tool_call>",
        "t({ a: 1 })",
        "t({",
        "})",
        "<tool_result>",
        "</tool_result>",
        "<tool_result id=1>",
        "<runtime_feedback kind=\"x\">",
        "</runtime_feedback>",
        "<system-reminder>",
        "</system-reminder>",
        "<assistant_prose>",
        "</assistant_prose>",
        "<user_response>",
        "</user_response>",
        "<done>",
        "</done>",
        "##DONE##",
        "<think>",
        "</think>",
        "[result of t]\n",
        "[end of t result]\n",
        "[end of ",
        "```\n",
        "```",
        "~~~",
        "\n",
        " ",
        "<",
        "/",
        ">",
        "</",
        "<tool_",
        "call>",
        "result>",
        "<thi",
        "nk>",
        "<<EOF\n",
        "EOF\n",
        "\"",
        "\\",
        "é",
        "\u{2028}",
        "\r",
        "&lt;",
        "< / tool_result >",
        "</TOOL_RESULT>",
        "{\"mode\": \"x\"}",
        "a",
        "call: t({})\n",
        "<|tool_call|>",
        "\u{0}",
        "\u{200b}",
        "<t({ a: 1 })>",
    ];
    text(rng, PIECES, 40)[1..].to_vec()
}

/// Every input is parsed; untrusted content in a frame never ends the frame, and no call in it is executed.
pub(crate) fn check_tagged(bytes: &[u8]) {
    static TOOLS: LazyLock<Vec<String>> = LazyLock::new(|| vec!["t".to_owned()]);
    let text = String::from_utf8_lossy(bytes);
    let reply = parse_reply(&text, &TOOLS);
    let _ = (reply.prose(), has_opening_tag(&text), sanitize(&text), sanitize_partial(&text));
    let whole = reply.clone().with_loose_text().canonical_text();
    for canonical in reply.canonical_text().into_iter().chain(whole) {
        let again = parse_reply(&canonical, &TOOLS);
        let names = |calls: Vec<harn_llm::ToolCall>| {
            calls.into_iter().map(|c| (c.name, c.arguments)).collect::<Vec<_>>()
        };
        assert_eq!(
            names(again.calls()),
            names(reply.calls()),
            "written anew, the reply calls something else:\n{canonical}"
        );
    }
    let quoted = quote(&text);
    assert_eq!(quote(&quoted), quoted, "quoting twice is quoting once");
    for (open, close) in [
        ("<tool_result>\n", "\n</tool_result>"),
        ("<runtime_feedback kind=\"tool_results\">\n", "\n</runtime_feedback>"),
        ("<system-reminder>\n", "\n</system-reminder>"),
        ("[result of t]\n", "\n[end of t result]"),
    ] {
        let framed = format!("{open}{quoted}{close}");
        let calls = parse_reply(&framed, &TOOLS).calls();
        assert!(calls.is_empty(), "a call in a quoted result is run: {framed}");
        if let Some(tag) = close.trim().strip_prefix("</") {
            let name = tag.trim_end_matches('>');
            let ends =
                |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'));
            let closed = framed
                .match_indices("</")
                .filter(|(at, _)| framed[at + 2..].strip_prefix(name).is_some_and(ends));
            assert_eq!(closed.count(), 1, "the frame is closed from within: {framed}");
        }
    }
}
