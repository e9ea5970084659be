//! Finds the tools that a prompt mentions.

use std::collections::HashSet;

/// Identifiers before a parenthesis that do not mention a tool.
const COMMON: [&str; 14] = [
    "if",
    "for",
    "while",
    "switch",
    "return",
    "function",
    "fn",
    "JSON",
    "print",
    "println",
    "contains",
    "len",
    "render",
    "render_prompt",
];

/// Returns whether a name that is not a known tool was probably meant as one.
#[must_use]
pub fn looks_like_a_tool(name: &str) -> bool {
    name.contains('_') || name.starts_with("tool") || name.starts_with("run")
}

/// Returns the names that may refer to tools, without duplicates: identifiers before a parenthesis or after
/// `<tool_call>`.
#[must_use]
pub fn mentions<'a>(text: &'a str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // With a set, the time is linear in the length of the prompt.
    let mut seen: HashSet<&str> = HashSet::new();
    let mut out: Vec<String> = Vec::new();
    let mut add = |name: &'a str| {
        let starts = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        if starts && !COMMON.contains(&name) && seen.insert(name) {
            out.push(name.to_owned());
        }
    };
    for (at, _) in text.match_indices('(') {
        let before = &text[..at];
        let start = before.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map(|(at, _)| at);
        if let Some(start) = start {
            add(&before[start..]);
        }
    }
    for (at, tag) in text.match_indices("<tool_call>") {
        let rest = text[at + tag.len()..].trim_start();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        add(&rest[..end]);
    }
    out
}

/// Removes fenced code.
#[must_use]
pub fn outside_fences(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}
