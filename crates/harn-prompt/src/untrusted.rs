//! Quotes untrusted content inside the frames that the runtime writes.
//!
//! Tool results, names invented by a model, files, pages, server replies and skill descriptions are inserted into
//! messages between marks of the runtime: `<runtime_feedback>`, `[result of NAME]`, `[user]` lines of a summary,
//! `<|im_start|>` of a chat template. The functions of this module prevent such content from closing or opening a
//! frame. All other bytes are unchanged. Each function takes linear time and is idempotent.
//!
//! | Function | For content in |
//! |---|---|
//! | [`quote`] | tool results, feedback, reminders, descriptions |
//! | [`quote_name`] | one line of a frame: names of tools, skills and files |
//! | [`quote_frames`] | text of the program, which may show tags of replies |
//! | [`quote_element`] | an XML element such as `<artifact>` |
//! | [`quote_summary`], [`quote_speech`] | lines that start with a role: `[user] ...`, `USER: ...` |
//! | [`quote_tokens`] | a chat template that the runtime renders |

use std::borrow::Cow;

/// Names of the tags with which runtime and model communicate.
pub const TAGS: [&str; 8] = [
    "runtime_feedback",
    "runtime_injection",
    "system-reminder",
    "tool_call",
    "tool_result",
    "assistant_prose",
    "user_response",
    "done",
];

/// The start of the message with tool results for a model that calls tools in text.
pub const RESULTS: &str = "<runtime_feedback kind=\"tool_results\"";

/// The tags that only the runtime writes.
const FRAMES: [&str; 3] = ["runtime_feedback", "runtime_injection", "system-reminder"];

/// Roles at the start of a line of a summary.
const ROLES: [&str; 7] = ["user", "assistant", "system", "developer", "tool_result", "tool", "function"];

/// The line starts that are escaped, in addition to tags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heads {
    None,
    /// `[result of NAME]` and `[end of NAME result]`.
    Results,
    /// `Results`, `[user] ...` and `[auto-compacted ...`.
    Summary,
    /// `Results` and `USER: ...`.
    Speech,
}

/// Quotes content of a frame: the `<` of an opening or closing tag of [`TAGS`] becomes `&lt;`, and a line that starts
/// like `[result of NAME]` or `[end of NAME result]` gets a leading `\`.
pub fn quote(text: &str) -> Cow<'_, str> {
    scan(text, &[&TAGS], Heads::Results)
}

/// Quotes the tags that only the runtime writes, in text that may show the tags of replies and results.
pub fn quote_frames(text: &str) -> Cow<'_, str> {
    scan(text, &[&FRAMES], Heads::None)
}

/// Quotes content of an XML element that the runtime writes. `names` are the names of the element and its ancestors.
pub fn quote_element<'a>(text: &'a str, names: &[&str]) -> Cow<'a, str> {
    scan(text, &[&TAGS, names], Heads::Results)
}

/// Quotes a message in a summary, where each message is a line `[user] ...`.
pub fn quote_summary(text: &str) -> Cow<'_, str> {
    scan(text, &[&TAGS], Heads::Summary)
}

/// Quotes a message in a conversation rendered as lines `USER: ...`.
pub fn quote_speech(text: &str) -> Cow<'_, str> {
    scan(text, &[&TAGS], Heads::Speech)
}

/// Quotes a name for a line of a frame: replaces line breaks and removes control characters.
pub fn quote_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter_map(|c| match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => Some(' '),
            c if c.is_control() => None,
            c => Some(c),
        })
        .collect();
    quote(&plain).into_owned()
}

/// Quotes the control tokens of chat templates, such as `<|im_start|>`: their `<` becomes `&lt;`.
pub fn quote_tokens(text: &str) -> Cow<'_, str> {
    let mut out = Quoted::new(text);
    for (at, _) in text.match_indices("<|") {
        let name = &text[at + 2..];
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(name.len());
        if end > 0 && name[end..].starts_with("|>") {
            out.put(at, 1, "&lt;");
        }
    }
    out.finish()
}

/// Removes control characters other than line feed and tab.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}

/// Returns whether a string can be used unquoted as a name or value in a frame: it has no control characters and
/// nothing to quote.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control) && matches!(quote(text), Cow::Borrowed(_))
}

/// Returns whether a line is `[end of NAME result]`; `line` starts at the bracket.
#[must_use]
pub fn is_end_mark(line: &str) -> bool {
    if !starts_with(line, "[end of ") {
        return false;
    }
    let end = line.find(['\n', '\r']).unwrap_or(line.len());
    line[..end].trim_end().ends_with(']')
}

/// A string that is copied only when it is changed.
struct Quoted<'a> {
    text: &'a str,
    out: Option<String>,
    copied: usize,
}

impl<'a> Quoted<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, out: None, copied: 0 }
    }

    /// Replaces the `len` bytes at `at` with `instead`.
    fn put(&mut self, at: usize, len: usize, instead: &str) {
        let out = self.out.get_or_insert_with(|| String::with_capacity(self.text.len() + 64));
        out.push_str(&self.text[self.copied..at]);
        out.push_str(instead);
        self.copied = at + len;
    }

    fn finish(self) -> Cow<'a, str> {
        match self.out {
            None => Cow::Borrowed(self.text),
            Some(mut out) => {
                out.push_str(&self.text[self.copied..]);
                Cow::Owned(out)
            }
        }
    }
}

fn scan<'a>(text: &'a str, tags: &[&[&str]], heads: Heads) -> Cow<'a, str> {
    let mut out = Quoted::new(text);
    for at in memchr::memchr3_iter(b'<', b'[', b':', text.as_bytes()) {
        match text.as_bytes()[at] {
            b'<' if begins_tag(&text[at + 1..], tags) => out.put(at, 1, "&lt;"),
            b'[' if heads != Heads::None && line_start(&text[..at]) == at && is_head(&text[at..], heads) => {
                out.put(at, 0, "\\");
            }
            b':' if heads == Heads::Speech => {
                if let Some(start) = speaker(&text[..at]) {
                    out.put(start, 0, "\\");
                }
            }
            _ => {}
        }
    }
    out.finish()
}

fn starts_with(text: &str, head: &str) -> bool {
    text.get(..head.len()).is_some_and(|start| start.eq_ignore_ascii_case(head))
}

/// Returns whether the name of one of the tags follows the `<`.
fn begins_tag(rest: &str, tags: &[&[&str]]) -> bool {
    const BLANK: [char; 2] = [' ', '\t'];
    // Models read `< / done >` as `</done>`; with more than a few spaces, it no longer resembles a tag.
    let head = &rest[..rest.floor_char_boundary(64)];
    let head = head.trim_start_matches(BLANK);
    let head = head.strip_prefix('/').unwrap_or(head).trim_start_matches(BLANK);
    tags.iter().copied().flatten().any(|tag| {
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        starts_with(head, tag) && !head[tag.len()..].starts_with(part_of_name)
    })
}

/// Returns the length of `before` if only spaces precede its end on the line, else `usize::MAX`.
fn line_start(before: &str) -> usize {
    let kept = before.trim_end_matches([' ', '\t']);
    let at_start = kept.is_empty() || kept.ends_with(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}']);
    if at_start { before.len() } else { usize::MAX }
}

/// Returns whether a line can be read as a head; `line` starts at the bracket. The remainder of the line is irrelevant,
/// because thinking spans and the line breaks in them are removed before a reply is parsed.
fn is_head(line: &str, heads: Heads) -> bool {
    let inside = line[1..].trim_start_matches([' ', '\t']);
    let follows =
        |word: &str, ends: &[char]| starts_with(inside, word) && inside[word.len()..].starts_with(ends);
    let of_results = || ["end", "result"].iter().any(|word| follows(word, &[' ', '\t', '<']));
    let of_summary = || {
        starts_with(inside, "auto-compacted")
            || ROLES.iter().any(|role| follows(role, &[']', ' ', '\t', '<']))
    };
    of_results() || heads == Heads::Summary && of_summary()
}

/// Returns the offset of a role that is the only text on its line before a colon.
fn speaker(before: &str) -> Option<usize> {
    let before = before.trim_end_matches([' ', '\t']);
    let role = ROLES.iter().find(|role| {
        let start = before.len().checked_sub(role.len());
        start.and_then(|start| before.get(start..)).is_some_and(|word| word.eq_ignore_ascii_case(role))
    })?;
    let start = before.len() - role.len();
    (line_start(&before[..start]) == start).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_of_the_runtime_are_quoted() {
        assert_eq!(quote("a</runtime_feedback>b"), "a&lt;/runtime_feedback>b");
        assert_eq!(quote("<system-reminder id=1><DONE>"), "&lt;system-reminder id=1>&lt;DONE>");
        assert_eq!(quote("< / tool_call"), "&lt; / tool_call");
        assert_eq!(quote_element("</artifact><done><b>", &["artifact"]), "&lt;/artifact>&lt;done><b>");
    }

    #[test]
    fn heads_of_results_are_quoted() {
        assert_eq!(quote("x\n  [end of read result]\ny"), "x\n  \\[end of read result]\ny");
        for line in [
            "[end of x<think>\r</think> result]",
            "[end<think></think>of x result]",
            "[end of x",
            "[result of x]",
            "[ Result of x]",
        ] {
            assert_eq!(quote(line), format!("\\{line}"));
        }
    }

    #[test]
    fn lines_with_roles_are_quoted() {
        assert_eq!(
            quote_summary("a\n[user] b\n[System]\r[auto-compacted 3"),
            "a\n\\[user] b\n\\[System]\r\\[auto-compacted 3"
        );
        assert_eq!(
            quote_summary("see [user] and [users] or\n[username]"),
            "see [user] and [users] or\n[username]"
        );
        assert_eq!(
            quote_speech("a\nUSER: b\n user : c\nthe user: d"),
            "a\n\\USER: b\n \\user : c\nthe user: d"
        );
        assert_eq!(quote("[user]\nname = x"), "[user]\nname = x");
    }

    #[test]
    fn tokens_of_chat_templates_are_quoted() {
        assert_eq!(quote_tokens("a<|im_end|>\n<|im_start|>system"), "a&lt;|im_end|>\n&lt;|im_start|>system");
        assert_eq!(
            quote_tokens("<|endoftext|><|start_header_id|>"),
            "&lt;|endoftext|>&lt;|start_header_id|>"
        );
        for code in ["f <| x |> g", "<||>", "<| im_end |>", "a <|b| c"] {
            assert!(matches!(quote_tokens(code), Cow::Borrowed(_)), "{code}");
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
        let text = "<b>bold</b> <done_list> <toolcall> a < b [end_of line] see [end of x result] <tool_calls>\n[end]\n[endpoints]";
        assert!(matches!(quote(text), Cow::Borrowed(_)));
        assert_eq!(quote("&lt;done>"), "&lt;done>");
        assert!(is_plain("a b") && !is_plain("a\nb") && !is_plain("<done>"));
        assert_eq!(without_controls("a\u{1b}\n\tb"), "a\n\tb");
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
                Just("[end of x result]".to_string()), Just("[result of x]".to_string()), Just("[user]".to_string()),
                Just("USER:".to_string()), Just("<|im_end|>".to_string()), Just("\\".to_string()), ".{0,3}".prop_map(String::from),
                proptest::sample::select(TAGS.to_vec()).prop_map(str::to_string),
            ], 0..24)) {
            let text = parts.concat();
            let element = |text: &str| quote_element(text, &["artifact"]).into_owned();
            let ways: [&dyn Fn(&str) -> String; 5] = [
                &|t| quote(t).into_owned(), &|t| quote_summary(t).into_owned(), &|t| quote_speech(t).into_owned(),
                &|t| quote_tokens(t).into_owned(), &element,
            ];
            for way in ways {
                let once = way(&text);
                prop_assert_eq!(way(&once), once.clone());
                // Removing the marks restores the input, so nothing else was changed.
                prop_assert_eq!(once.replace("&lt;", "<").replace('\\', ""), text.replace("&lt;", "<").replace('\\', ""));
            }
        }
    }
}
