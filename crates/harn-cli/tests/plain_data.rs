//! Data is plain: no value is encoded under a hidden key.

use std::path::Path;

/// Prefixes of such keys. (Tests of strings may contain the character; a JSON key follows a quote.)
const MARKS: &[&str] = &[r#""\0"#, r#""\x00"#, r#""\u{0}"#, r#""\u{00}"#, r#""\u0000"#];

/// Returns the lines of a file, outside of its tests, that create or search for such a key.
fn hidden_keys(text: &str) -> Vec<String> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    let found =
        text[..end].lines().map(str::trim).filter(|line| MARKS.iter().any(|mark| line.contains(mark)));
    found.map(str::to_owned).collect()
}

fn look(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            look(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_stem().is_none_or(|stem| stem != "tests")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(hidden_keys(&text).into_iter().map(|line| format!("{}: {line}", path.display())));
        }
    }
}

#[test]
fn no_values_are_smuggled_under_special_keys() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in ["harn-value", "harn-schema", "harn-prompt", "harn-llm", "harn-agent", "harn-runtime"] {
        look(&crates.join(name).join("src"), &mut found);
    }
    assert!(found.is_empty(), "use Data::Opaque for what JSON has no word for: {found:#?}");
}

/// Keys that start with an underscore and that the contract or a protocol defines.
const NAMED: &[&str] = &[
    // The type of a dict: skills, tools, transcripts.
    "_type",
    // Fragments that replace the system prompt (05, B1).
    "_system_fragments",
    // The turn of a loop that a call belongs to: `llm_caller` passes the options on.
    "_iteration",
    // The Model Context Protocol.
    "_meta",
    "_mcp_server",
    "_mcp_tool",
    // Fields of a tool entry that represents an agent: its name and the names of its tools.
    "_agent",
    "_tools",
    // The number of the closure `output_validator`, which plain data cannot contain.
    "_validator",
];

#[test]
fn options_carry_nothing_of_the_runtime_under_keys_of_its_own() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = Vec::new();
    for name in ["harn-prompt", "harn-llm", "harn-agent"] {
        sources(&crates.join(name).join("src"), &mut texts);
    }
    let mut found = Vec::new();
    for (path, text) in &texts {
        let end = text.find("#[cfg(test)]").unwrap_or(text.len());
        for word in text[..end].split('"').skip(1).step_by(2) {
            let is_key = word.starts_with('_')
                && word.len() > 1
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                && !word.starts_with("__");
            // Infixes between other words are not keys.
            let is_joint = ["_ref", "_ms", "_clone", "_id"].contains(&word);
            if is_key && !is_joint && !NAMED.contains(&word) {
                found.push(format!("{path}: {word}"));
            }
        }
    }
    assert!(found.is_empty(), "make it a field of what carries the options: {found:#?}");
}

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_stem().is_none_or(|stem| stem != "tests")
        {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn a_special_key_is_found() {
    let text = "const KEY: &str = \"\\u{0}harn\";\nlet s = \"a\\0\";\n#[cfg(test)]\nlet t = \"\\0\";";
    assert_eq!(hidden_keys(text), ["const KEY: &str = \"\\u{0}harn\";"]);
    assert_eq!(hidden_keys("map.get(\"\\0kept\")").len(), 1);
}
