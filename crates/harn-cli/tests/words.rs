//! Counts nonstandard idioms in the docs, comments and messages of the project.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::common::repository;

/// Idioms, with the terms that replace them. A match is only a hint, because some uses are correct; therefore limits
/// are per 1,000 words.
const IDIOMS: &[(&str, &str)] = &[
    (
        r"\b(?:is|are|was|were|be|been) told\b|\btells? (?:of|that|what|which|whether|how|where|the|it)\b",
        "reports, warns, returns",
    ),
    (r"\bmend(?:s|ed|ing)?\b", "fixes"),
    (r"\b(?:goes|go|going|gone|went) on\b", "continues, resumes"),
    (r"\banew\b", "again, restarts"),
    (r"\bstands?\b(?: (?:in|at|on|under|above|below|there|where|before|after|for it))\b", "is, appears"),
    (r"\b(?:some|no)body\b|\bwhoever\b", "the caller, the user, no process"),
    (r"\b(?:is|are|was|were) (?:no|none)\b", "is not a, has no, invalid"),
    (r"\bof (?:today|others|yours|theirs|their own|its own|one's own)\b", "current, third-party, its"),
    (r"\brelatives\b|\bkin\b", "variants"),
    (r"\bslips?\b", "typo"),
    (r"\bhand(?:s|ed|ing)? (?:over|on|out)\b", "passes, emits"),
    (r"\b(?:a|the|this|that|each|every|no|its) texts?\b|\btexts\b", "string, message, prompt, content"),
    (r"\brests?\b", "is idle"),
    (r"\bblanks?\b", "space, whitespace"),
    (r"\bgives?\b", "returns, yields"),
    (r"\bbeside\b|\bbehind\b", "next to, after"),
    (r"\bcounts?(?: as| when| for| only| too|\.|;|,)", "applies, is treated as"),
    (r"\blook(?:s|ed|ing)? (?:whether|if|at|after)\b", "checks, inspects"),
    (
        r"(?m)(?:^|[.;:(] ?)What (?:is|was|has|had|are|comes?|a|an|the)\b|\b(?:of|with|for) what\b",
        "name the thing",
    ),
    (r"\bwords?\b", "keyword, name"),
    (r"\bkept\b|\bkeeps?\b", "stores, retains"),
    (r"\bfolders?\b", "directory"),
    (r"\btake(?:s|n)? (?:for|up|back|along)\b", "treats as, accepts, withdraws"),
    (r"\bcomes? (?:to|of)\b", "results from, amounts to"),
    (r"\bmeant so\b|\bsays? so\b", "intends, reports it"),
    (r"\bmay (?:no|never) more\b", "exceeds, is limited to"),
];

/// Maximum number of hits per 1,000 words of a kind; the limit of a page of the docs is twice as high.
const LIMIT: f64 = 3.0;

/// Pages with fewer words are not checked, because a single hit could exceed the limit.
const SHORT_PAGE: usize = 400;

/// Hits of parts that still exceed the limit: `KIND PART HITS`. The numbers may only decrease.
const ALLOWED: &str = include_str!("words.txt");

/// The kinds of prose, each with its own extraction rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Prose,
    Comments,
    Messages,
}

/// Number of words and hits of a part of the project.
#[derive(Default, Clone)]
struct Count {
    words: usize,
    hits: usize,
    /// Hits by index of the idiom.
    of: BTreeMap<usize, usize>,
}

impl Count {
    fn rate(&self) -> f64 {
        self.hits as f64 * 1000.0 / self.words.max(1) as f64
    }

    fn add(&mut self, other: &Count) {
        self.words += other.words;
        self.hits += other.hits;
        for (idiom, hits) in &other.of {
            *self.of.entry(*idiom).or_default() += hits;
        }
    }
}

struct Counter(Vec<Regex>);

impl Counter {
    fn new() -> Counter {
        let compiled = IDIOMS.iter().map(|(pattern, _)| Regex::new(&format!("(?i){pattern}")).unwrap());
        Counter(compiled.collect())
    }

    fn count(&self, text: &str) -> Count {
        let mut count = Count { words: text.split_whitespace().count(), ..Count::default() };
        for (idiom, regex) in self.0.iter().enumerate() {
            let hits = regex.find_iter(text).count();
            if hits > 0 {
                count.hits += hits;
                count.of.insert(idiom, hits);
            }
        }
        count
    }
}

/// Returns the prose of a Markdown file, without code blocks. Inline code is replaced by one word.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            without_code(line, &mut out);
        }
    }
    out
}

/// Appends a line with each inline code replaced by one word.
fn without_code(line: &str, out: &mut String) {
    for (at, part) in line.split('`').enumerate() {
        out.push_str(if at % 2 == 0 { part } else { "code" });
    }
    out.push('\n');
}

/// Returns the comments and the string literals of Rust source code.
fn parts(source: &str) -> (String, String) {
    let bytes = source.as_bytes();
    let (mut comments, mut literals) = (String::new(), String::new());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            let line = rest.lines().next().unwrap_or_default();
            without_code(line.trim_start_matches(['/', '!']), &mut comments);
            at += line.len();
        } else if let Some(hashes) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let start = at + hashes + 2;
            let length = source[start..].find(&close).unwrap_or(0);
            push_message(&source[start..start + length], &mut literals);
            at = start + length + close.len();
        } else if bytes[at] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            push_message(source.get(at + 1..end).unwrap_or_default(), &mut literals);
            at = end + 1;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            at += rest[1..].find('\'').map_or(1, |length| length + 2);
        } else {
            at += 1;
        }
        while at < bytes.len() && !source.is_char_boundary(at) {
            at += 1;
        }
    }
    (comments, literals)
}

/// Returns the number of `#` of the raw string that starts here; `None` if none starts here.
fn raw_string(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix('r')?;
    let hashes = behind.bytes().take_while(|byte| *byte == b'#').count();
    (behind.as_bytes().get(hashes) == Some(&b'"')).then_some(hashes)
}

/// Appends a literal that has at least three words: names and keys are not messages.
fn push_message(literal: &str, out: &mut String) {
    if literal.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_alphabetic())).count() > 2 {
        without_code(&literal.replace("\\n", " "), out);
    }
}

/// Collects the files in a directory tree, without tests, vendored files and build output.
fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    const SKIPPED: [&str; 8] =
        ["target", "node_modules", "tests", "benches", "snapshots", "corpus", "vendor", "fixtures"];
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) && !name.starts_with('.') {
                files(&path, out);
            }
        } else if name != "tests.rs" && !name.ends_with("_tests.rs") {
            out.push(path);
        }
    }
}

/// Returns the counts by kind and part. A part is a crate, a directory or a page of the docs.
fn counts(root: &Path) -> BTreeMap<(Kind, String), Count> {
    let counter = Counter::new();
    let mut found: BTreeMap<(Kind, String), Count> = BTreeMap::new();
    let mut paths = Vec::new();
    for folder in ["docs", "crates", "python", "stdlib", "editors", "dev", "examples"] {
        files(&root.join(folder), &mut paths);
    }
    let pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "conformance/README.md"];
    paths.extend(pages.iter().map(|page| root.join(page)).filter(|path| path.exists()));
    for path in paths {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        let part = match name.split('/').collect::<Vec<_>>()[..] {
            ["crates", folder, _, ..] => folder.to_owned(),
            [folder, _, ..] => folder.to_owned(),
            _ => name.clone(),
        };
        let mut add =
            |kind, part: String, text: &str| found.entry((kind, part)).or_default().add(&counter.count(text));
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        match extension.as_deref() {
            Some("md") => add(Kind::Prose, name, &prose(&text)),
            Some("rs") => {
                let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                let (comments, literals) = parts(&text[..end]);
                add(Kind::Comments, part.clone(), &comments);
                add(Kind::Messages, part, &literals);
            }
            Some("py" | "harn" | "js") => {
                let mark = if extension.as_deref() == Some("py") { "#" } else { "//" };
                let mut comments = String::new();
                for line in text.lines().filter_map(|line| line.trim_start().strip_prefix(mark)) {
                    without_code(line, &mut comments);
                }
                add(Kind::Comments, part, &comments);
            }
            _ => {}
        }
    }
    found
}

fn allowed() -> BTreeMap<(String, String), usize> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [kind, part, hits] => ((kind.to_owned(), part.to_owned()), hits.parse().unwrap()),
            _ => panic!("words.txt: expected KIND PART HITS, got `{line}`"),
        })
        .collect()
}

#[test]
fn standard_terms_are_used() {
    let found = counts(&repository());
    let allowed = allowed();
    let (mut table, mut wrong) = (String::new(), String::new());
    let mut totals: BTreeMap<Kind, Count> = BTreeMap::new();
    for ((kind, part), count) in &found {
        totals.entry(*kind).or_default().add(count);
        let is_page = *kind == Kind::Prose;
        let limit = if is_page { 2.0 * LIMIT } else { LIMIT };
        let key = (format!("{kind:?}").to_lowercase(), part.clone());
        let listed = allowed.get(&key).copied();
        let is_high = count.rate() > limit && (!is_page || count.words >= SHORT_PAGE);
        if !is_page || is_high {
            writeln!(
                table,
                "{:<9} {part:<40} {:>5} hits in {:>7} words, {:>5.1} per 1,000",
                key.0,
                count.hits,
                count.words,
                count.rate()
            )
            .unwrap();
        }
        if is_high && listed.is_none_or(|listed| count.hits > listed) {
            let mut worst: Vec<_> = count.of.iter().collect();
            worst.sort_by_key(|(_, hits)| std::cmp::Reverse(**hits));
            let worst = worst.iter().take(5).map(|(idiom, hits)| {
                let (pattern, term) = IDIOMS[**idiom];
                format!("    {hits} x {pattern}: {term}\n")
            });
            writeln!(
                wrong,
                "{} {part}: {} hits, {:.1} per 1,000 words, at most {limit} (listed: {listed:?})\n{}",
                key.0,
                count.hits,
                count.rate(),
                worst.collect::<String>()
            )
            .unwrap();
        }
        if !is_high && listed.is_some() {
            writeln!(wrong, "{} {part} is within the limit: remove it from words.txt", key.0).unwrap();
        }
    }
    for (kind, count) in &totals {
        writeln!(
            table,
            "{kind:?}: {} hits in {} words, {:.1} per 1,000",
            count.hits,
            count.words,
            count.rate()
        )
        .unwrap();
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn code_is_not_counted() {
    let counter = Counter::new();
    let hits = |text: &str| counter.count(text).hits;
    assert_eq!(hits(&prose("It `gives` a value.\n```text\nnobody\n```\n")), 0);
    assert_eq!(hits(&prose("It gives a value.\n")), 1);
    let (comments, literals) = parts(
        "/// It gives.\nlet a = \"nobody is told of it\"; // stored\nlet b = r#\"// a \"text\" that is\"#;",
    );
    assert_eq!((hits(&comments), hits(&literals)), (1, 2));
    assert!(!comments.contains("text"), "{comments}");
}
