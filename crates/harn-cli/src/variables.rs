//! The environment variables of Harn, and detection of misspelt ones.

/// All variables that Harn reads, except those of [`FAMILIES`]. docs/cli.md documents each of them.
const KNOWN: [&str; 46] = [
    "HARN_AGENT_TOOL_FORMAT",
    "HARN_CACHE_DIR",
    "HARN_DEBUG_MESSAGE_SHAPES",
    "HARN_DEFAULT_PROVIDER",
    "HARN_DEFAULT_SHELL",
    "HARN_EGRESS_ALLOW",
    "HARN_EGRESS_DEFAULT",
    "HARN_EGRESS_DENY",
    "HARN_EVENT_LOG_BACKEND",
    "HARN_EVENT_LOG_DIR",
    "HARN_EVENT_LOG_QUEUE_DEPTH",
    "HARN_EVENT_LOG_SQLITE_PATH",
    "HARN_HANDLER_SANDBOX",
    "HARN_LLM_CALLS_DISABLED",
    "HARN_LLM_IDLE_TIMEOUT",
    "HARN_LLM_MODEL",
    "HARN_LLM_PROVIDER",
    "HARN_LLM_STREAM",
    "HARN_LLM_TIMEOUT",
    "HARN_LLM_TRANSCRIPT_DIR",
    "HARN_MCP_SERVER",
    "HARN_MEMORY_ROOT",
    "HARN_OLLAMA_KEEP_ALIVE",
    "HARN_OLLAMA_NUM_CTX",
    "HARN_OLLAMA_UNLOAD_GRACE_MS",
    "HARN_PROFILE",
    "HARN_PROFILE_JSON",
    "HARN_PROJECT_ROOT",
    "HARN_PROVIDERS_CONFIG",
    "HARN_REQUIRE_SIGNED_SKILLS",
    "HARN_RUN_DIR",
    "HARN_SERVE_API_KEY",
    "HARN_SKILLS_PATH",
    "HARN_SKILL_SIGNER_REGISTRY_URL",
    "HARN_STATE_DIR",
    "HARN_STATE_FILE",
    "HARN_STORE_URL",
    "HARN_STRUCTURAL_EXPERIMENT",
    "HARN_TASK",
    "HARN_TEST_JOBS",
    "HARN_TRACE",
    "HARN_TRUST",
    "HARN_UPDATE_SNAPSHOTS",
    "HARN_WORKER_STATE_DIR",
    "HARN_WORKFLOW_STATE_DIR",
    "HARN_WORKTREE_DIR",
];

/// Prefixes of variables that end with the name of a provider or an MCP server.
const FAMILIES: [&str; 2] = ["HARN_MCP_TOKEN_", "HARN_RATE_LIMIT_"];

/// A variable that starts with `HARN_` and that Harn does not read.
pub(crate) struct Unknown {
    pub(crate) name: String,
    /// The known variable with the most similar name.
    pub(crate) near: Option<&'static str>,
}

/// Returns the variables in `names` that Harn does not read.
pub(crate) fn unknown(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let ours = names.filter(|name| name.starts_with("HARN_") && !KNOWN.contains(&name.as_str()));
    let strange = ours.filter(|name| !FAMILIES.iter().any(|family| name.starts_with(family)));
    let mut strange: Vec<Unknown> = strange
        .map(|name| {
            let near = harn_syntax::suggest::close(&name, KNOWN);
            Unknown { near, name }
        })
        .collect();
    strange.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    strange
}

/// Returns the variables in `names` that Harn reads, sorted.
pub(crate) fn known(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known = |name: &String| {
        KNOWN.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let mut found: Vec<String> = names.filter(is_known).collect();
    found.sort_unstable();
    found
}

/// Warns about variables that are probably misspelt. A program may define its own variables that start with `HARN_`, so
/// names that resemble no known one are only reported by `harn doctor`.
pub(crate) fn warn() {
    for Unknown { name, near } in unknown(harn_system::Real::variable_names()) {
        if let Some(near) = near {
            let name = harn_syntax::printable(&name);
            eprintln!("[harn] warning: the variable {name} has no effect: did you mean {near}?");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_found_with_the_name_that_was_meant() {
        let names =
            ["HARN_LLM_PROVDER", "HARN_LLM_MODEL", "HARN_RATE_LIMIT_OPENAI", "HARN_OF_A_PROGRAM", "PATH"];
        let found = unknown(names.into_iter().map(str::to_owned));
        let found: Vec<_> = found.iter().map(|unknown| (unknown.name.as_str(), unknown.near)).collect();
        assert_eq!(found, [("HARN_LLM_PROVDER", Some("HARN_LLM_PROVIDER")), ("HARN_OF_A_PROGRAM", None)]);
    }

    /// Returns the names in a source that start with `HARN_` and are enclosed in these characters.
    fn names(text: &str, quote: char) -> impl Iterator<Item = &str> {
        let is_name = |name: &&str| {
            let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            name.len() > "HARN_".len() && name.starts_with("HARN_") && name.chars().all(is_letter)
        };
        text.split(quote).filter(is_name)
    }

    fn sources(folder: &std::path::Path, found: &mut String) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "harn") {
                let text = std::fs::read_to_string(path).unwrap();
                found.push_str(text.split("#[cfg(test)]").next().unwrap());
            }
        }
    }

    /// Names in the sources that are not environment variables for users: variables of skills and tests, and prefixes.
    const OTHERS: [&str; 8] = [
        "HARN_DOC_NO_SUCH_VARIABLE",
        "HARN_EVENT_LOG_",
        "HARN_EVERY_CASE",
        "HARN_LLM_",
        "HARN_SESSION_ID",
        "HARN_SKILL_DIR",
        "HARN_WIRE_HISTORIES",
        "HARN_WIRE_LOG",
    ];

    #[test]
    fn the_sources_read_exactly_the_known_variables() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = String::new();
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            let path = entry.unwrap().path();
            // The fuzzer lists variables to change them.
            if path.file_name().is_some_and(|name| name != "harn-fuzz") {
                sources(&path.join("src"), &mut text);
            }
        }
        sources(&root.join("stdlib"), &mut text);
        // The list itself is not a use.
        let own = include_str!("variables.rs").split("#[cfg(test)]").next().unwrap();
        let text = text.replace(own, "");
        let mut read: Vec<&str> = names(&text, '"').filter(|name| !OTHERS.contains(name)).collect();
        read.sort_unstable();
        read.dedup();
        let mut known: Vec<&str> = KNOWN.into_iter().chain(["HARN_MCP_TOKEN_"]).collect();
        known.sort_unstable();
        assert_eq!(read, known);
    }

    #[test]
    fn the_page_describes_every_variable() {
        let page = include_str!("../../../docs/cli.md");
        let described: Vec<&str> = names(page, '`').collect();
        let missing: Vec<&&str> = KNOWN.iter().filter(|name| !described.contains(name)).collect();
        assert!(missing.is_empty(), "docs/cli.md: {missing:?}");
        let strange: Vec<&&str> = described.iter().filter(|name| !KNOWN.contains(name)).collect();
        assert!(strange.is_empty(), "docs/cli.md: {strange:?}");
    }

    fn pages(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                pages(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                found.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }

    #[test]
    fn the_pages_name_no_other_variables() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found =
            vec![("README.md".to_owned(), std::fs::read_to_string(root.join("README.md")).unwrap())];
        pages(&root.join("docs"), &mut found);
        assert!(found.len() > 50, "{}", found.len());
        let mut strange = Vec::new();
        for (page, text) in &found {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            for name in text.split(|c: char| !is_part(c)) {
                let is_family = FAMILIES.iter().any(|family| name.starts_with(family.trim_end_matches('_')));
                let is_known = is_family || KNOWN.contains(&name) || OTHERS.contains(&name);
                if name.starts_with("HARN_") && name != "HARN_" && !is_known {
                    strange.push(format!("{page}: {name}"));
                }
            }
        }
        assert!(strange.is_empty(), "{strange:#?}");
    }
}
