//! Tests that every parser of replies takes time linear in the size of its input, for every kind of input.
//!
//! Measured as a ratio: four times the input may take about four times the time; quadratic work would take sixteen
//! times. The minimum of several runs is used because other programs share the machine.

use cpu_time::ThreadTime;

use harn_prompt::untrusted::{quote, quote_speech, quote_summary, quote_tokens};

use crate::sse::{Framer, Framing};
use crate::structured::extract::from_text;
use crate::tool_text::{has_opening_tag, parse_reply, sanitize, sanitize_partial};
use crate::wire::think::ThinkSplitter;

/// Inputs that open constructs without closing them, close constructs that were never opened, or resemble constructs.
const PIECES: &[&str] = &[
    "<tool_call>\nt({ a: ",
    "<tool_call>a</tool_call",
    "<tool_call>",
    "</tool_call>",
    "<tool_call>t({ a: 1 })</tool_call>",
    "<tool_call>x</tool_call>\ny\n",
    "<t({ a: \"",
    "<t({ a: <<E\n",
    "<t({ a: /* ",
    "t({ a: ",
    "t({ a: \"<<A\", ",
    "t({ a: [",
    "\"<<A\",",
    "<think>",
    "</think>",
    "<think></think>",
    "<thi",
    "<assistant_prose>",
    "<user_response>a",
    "</user_response><done>",
    "<tool_result ",
    "<tool_result>x</tool_result>",
    "<runtime_feedback",
    "[result of a]\n",
    "[result of a]\n[end of b",
    "[result of",
    "```\n",
    "```",
    "`",
    "~~~\nt({})\n",
    "```json\n{\"plan\": ",
    "{\"mode\": \"fast_execute\", \"x\": ",
    "{\"mode\": \"fast_execute\", \"x\": \"",
    "{\"a\": ",
    "[",
    "[\"[",
    "{ \"",
    "[a] ",
    "\\",
    "\n",
    "\r\n",
    " ",
    "a",
    "##DONE##\n",
    "call: ",
    "python: t",
    "data: {",
    "é<",
];

fn stream(text: &str) {
    let mut seen = 0;
    for framing in [Framing::Sse, Framing::Lines] {
        let mut framer = Framer::new(framing, usize::MAX);
        for chunk in text.as_bytes().chunks(7) {
            let _ = framer.feed(chunk, &mut |message| seen += message.len());
        }
        framer.finish(&mut |message| seen += message.len());
    }
    let mut splitter = ThinkSplitter::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(7));
        splitter.feed(piece, &mut |_| seen += 1);
        rest = tail;
    }
    splitter.finish(&mut |_| seen += 1);
    assert!(seen < usize::MAX);
}

fn read(text: &str) {
    parse_reply(text, &["t".to_string()]);
    has_opening_tag(text);
    sanitize(text);
    sanitize_partial(text);
    from_text(text);
    for quote in [quote, quote_summary, quote_speech, quote_tokens] {
        quote(text);
    }
}

/// Returns the minimum processor time of several runs, in nanoseconds. Wall-clock time would include other processes,
/// which interrupt a run on a large input more often than one on a small input.
fn cost(run: &dyn Fn(&str), text: &str) -> u128 {
    let once = || {
        let start = ThreadTime::now();
        run(text);
        start.elapsed().as_nanos()
    };
    (0..3).map(|_| once()).min().unwrap_or(0).max(1)
}

#[test]
fn readers_are_linear() {
    for (name, run) in [("reply", read as fn(&str)), ("stream", stream)] {
        for piece in PIECES {
            let text = |bytes: usize| piece.repeat(bytes / piece.len());
            let (small, large) = (text(32 << 10), text(128 << 10));
            // Other processes also evict this one from the caches, so a measurement is repeated before it fails the
            // test.
            let mut ratios: Vec<u128> = Vec::new();
            let linear = (0..10).any(|_| {
                ratios.push(cost(&run, &large) / cost(&run, &small));
                ratios.last().is_some_and(|ratio| *ratio < 9)
            });
            assert!(linear, "{name} of {piece:?}: four times the text cost {ratios:?} times the time");
        }
    }
}
