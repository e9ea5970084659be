//! Text of others inside frames that the runtime makes.
//!
//! Results of tools, names that a model made up, files, pages and replies of servers are put into messages between marks of the
//! runtime: `<runtime_feedback>`, `[result of NAME]`, `<system-reminder>`. [`quote`] takes from such text the power to close a
//! frame or to begin one of its own; everything else stays byte for byte.

use std::borrow::Cow;

/// Names of the tags by which runtime and model talk to each other.
pub(crate) const TAGS: [&str; 8] = [
    "runtime_feedback",
    "runtime_injection",
    "system-reminder",
    "tool_call",
    "tool_result",
    "assistant_prose",
    "user_response",
    "done",
];

/// How the message begins that brings results of tools to a model which calls them in its text.
pub(crate) const RESULTS: &str = "<runtime_feedback kind=\"tool_results\"";

/// Those of them that only the runtime writes: no text that goes into one of them holds another.
const FRAMES: &[&str] = &["runtime_feedback", "runtime_injection", "system-reminder"];

/// Makes text of others harmless: the `<` of an opening or closing tag of `TAGS` becomes `&lt;`, and a line that begins as
/// `[end of NAME result]` does gets a `\` in front. Doing it twice changes nothing more. Linear in the length of the text.
pub fn quote(text: &str) -> Cow<'_, str> {
    quote_tags(text, &TAGS, true)
}

/// As [`quote`], for text that may speak of the tags of a model's replies and of results: only the runtime's own frames
/// lose their power.
pub fn quote_frames(text: &str) -> Cow<'_, str> {
    quote_tags(text, FRAMES, false)
}

fn quote_tags<'a>(text: &'a str, tags: &[&str], marks: bool) -> Cow<'a, str> {
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut put = |at: usize, used: usize, instead: &str| {
        let out = out.get_or_insert_with(|| String::with_capacity(text.len() + 64));
        out.push_str(&text[copied..at]);
        out.push_str(instead);
        copied = at + used;
    };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'<', b'[', &bytes[at..]) {
        at += found;
        if bytes[at] == b'<' && begins_tag(&text[at + 1..], tags) {
            put(at, 1, "&lt;");
        } else if marks && bytes[at] == b'[' && begins_line(&text[..at]) && may_end(&text[at..]) {
            put(at, 0, "\\");
        }
        at += 1;
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
    }
}

/// A name inside a frame's own line: on one line, without control characters, and [quoted](quote).
pub fn quote_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter_map(|c| match c {
            '\n' | '\t' => Some(' '),
            c if c.is_control() => None,
            c => Some(c),
        })
        .collect();
    quote(&plain).into_owned()
}

/// Whether one of the tags follows its `<`.
fn begins_tag(rest: &str, tags: &[&str]) -> bool {
    let blanks = |text: &'_ str| text.len() - text.trim_start_matches([' ', '\t']).len();
    // Models read `< / done >` as they read `</done>`; a few blanks are all that anybody would take for a tag.
    let head = crate::json::clip(rest, 64);
    let head = &head[blanks(head)..];
    let head = head.strip_prefix('/').unwrap_or(head);
    let head = &head[blanks(head)..];
    tags.iter().any(|tag| {
        let named = head.get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag));
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        named && !head[tag.len()..].starts_with(part_of_name)
    })
}

/// Whether only blanks stand before, on the line that `before` ends with.
fn begins_line(before: &str) -> bool {
    before.is_empty() || before.trim_end_matches([' ', '\t']).is_empty() || {
        let kept = before.trim_end_matches([' ', '\t']);
        kept.ends_with(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}'])
    }
}

/// Whether a line may be read as the end of a result; `line` begins at its bracket. How the line goes on does not count:
/// spans of thinking, with the line breaks in them, are taken away before a reply is read.
fn may_end(line: &str) -> bool {
    let named = line.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("[end"));
    named && line[4..].starts_with([' ', '\t', '<'])
}

/// Whether a line is `[end of NAME result]`; `line` begins at its bracket.
pub(crate) fn is_end_mark(line: &str) -> bool {
    if !line.get(..8).is_some_and(|head| head.eq_ignore_ascii_case("[end of ")) {
        return false;
    }
    let end = memchr::memchr2(b'\n', b'\r', line.as_bytes()).unwrap_or(line.len());
    line[..end].trim_end().ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_of_the_runtime_lose_their_bracket() {
        assert_eq!(quote("a</runtime_feedback>b"), "a&lt;/runtime_feedback>b");
        assert_eq!(quote("<system-reminder id=1><DONE>"), "&lt;system-reminder id=1>&lt;DONE>");
        assert_eq!(quote("< / tool_call"), "&lt; / tool_call");
        assert_eq!(quote("x\n  [end of read result]\ny"), "x\n  \\[end of read result]\ny");
        for line in ["[end of x<think>\r</think> result]", "[end<think></think>of x result]", "[end of x"] {
            assert_eq!(quote(line), format!("\\{line}"));
        }
    }

    #[test]
    fn frames_of_the_runtime_alone() {
        assert_eq!(
            quote_frames("<tool_call>\n< /system-reminder>\n[end of x result]\n<Runtime_Feedback kind=1>"),
            "<tool_call>\n&lt; /system-reminder>\n[end of x result]\n&lt;Runtime_Feedback kind=1>"
        );
    }

    #[test]
    fn other_text_stays() {
        let text = "<b>bold</b> <done_list> <toolcall> a < b [end of line] see [end of x result] <tool_calls>\n[end]\n[endpoints]";
        assert!(matches!(quote(text), Cow::Borrowed(_)));
        assert_eq!(quote("&lt;done>"), "&lt;done>");
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(quote_name("a]\n[end of a result]\u{1b}\u{7}"), "a] [end of a result]");
        assert_eq!(quote_name("</runtime_feedback>"), "&lt;/runtime_feedback>");
    }

    proptest! {
        #[test]
        fn quoting_twice_is_quoting_once(parts in proptest::collection::vec(
            prop_oneof![
                Just("<".to_string()), Just("/".to_string()), Just("\n".to_string()), Just(" ".to_string()),
                Just("[end of x result]".to_string()), Just("\\".to_string()), ".{0,3}".prop_map(String::from),
                proptest::sample::select(TAGS.to_vec()).prop_map(str::to_string),
            ], 0..24)) {
            let once = quote(&parts.concat()).into_owned();
            prop_assert_eq!(quote(&once).into_owned(), once.clone());
            // Undoing the marks gives the text back: nothing else was touched.
            prop_assert_eq!(once.replace("&lt;", "<").replace('\\', ""), parts.concat().replace("&lt;", "<").replace('\\', ""));
        }
    }
}
