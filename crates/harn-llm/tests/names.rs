//! Provider-specific behaviour is defined in the tables below `src/data`: the sources contain no provider names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Places where a provider name has another meaning: file, name and meaning.
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[
    ("mock/mod.rs", "mock", "what replies of the mock say of where they come from"),
    ("notices.rs", "ollama", "the key of a call's options for Ollama's own interface"),
    ("runtime/clouds.rs", "bedrock", "the service that a request is signed for"),
    ("runtime/health.rs", "ollama", "the readiness probe of Ollama's own interface, in messages"),
    ("runtime/route.rs", "ollama", "the key of a call's options for Ollama's own interface"),
    ("transcript/call.rs", "anthropic", "how a search was asked for, in an event"),
    ("transcript/call.rs", "openai", "how a search was asked for, in an event"),
    ("wire/style.rs", "anthropic", "a wire format"),
    ("wire/style.rs", "bedrock", "a wire format"),
    ("wire/style.rs", "gemini", "a wire format"),
];

/// The same for other crates: crate, file, name and meaning.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    ("harn-cli", "cmd/test/one.rs", "mock", "the provider that tests have unless they choose one"),
    ("harn-runtime", "builtins/llm.rs", "anthropic", "the default of a parameter, by contract"),
    ("harn-runtime", "builtins/mock.rs", "mock", "the name of a group of builtins"),
    ("harn-stdlib", "builtins/metadata/mod.rs", "local", "facts of the directory itself"),
    ("harn-template", "lint.rs", "anthropic", "what a template compares a provider with, for the advice"),
    ("harn-template", "lint.rs", "llamacpp", "the same"),
    ("harn-template", "lint.rs", "local", "the same"),
    ("harn-template", "lint.rs", "mlx", "the same"),
    ("harn-template", "lint.rs", "ollama", "the same"),
    ("harn-template", "lint.rs", "openai", "the same"),
    ("harn-template", "lint.rs", "vllm", "the same"),
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the names and short names of the providers in the tables.
fn providers() -> BTreeSet<String> {
    let table = |name: &str| {
        std::fs::read_to_string(src().join("data").join(name)).unwrap().parse::<toml::Table>().unwrap()
    };
    let (models, capabilities) = (table("providers.toml"), table("capabilities.toml"));
    let mut names = BTreeSet::new();
    for (name, provider) in models["providers"].as_table().unwrap() {
        names.insert(name.clone());
        names.extend(provider.get("short_name").map(|short| short.as_str().unwrap().to_owned()));
    }
    for key in ["provider", "provider_family"] {
        names.extend(capabilities[key].as_table().unwrap().keys().cloned());
    }
    names
}

/// Returns the sources of a crate without tests and comments, with their paths below `src`.
fn sources(src: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(src).unwrap().to_string_lossy().replace('\\', "/");
            let of_tests = name.ends_with("tests.rs") || ["growth.rs", "sample.rs"].contains(&name.as_str());
            if name.ends_with(".rs") && !of_tests {
                let text = std::fs::read_to_string(&path).unwrap();
                let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
                found.push((name, lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    found
}

#[test]
fn providers_are_named_by_the_tables_alone() {
    let names = providers();
    assert!(["anthropic", "mock", "hf", "llamacpp"].iter().all(|name| names.contains(*name)), "{names:?}");
    let mut found = BTreeSet::new();
    for (file, text) in sources(&src()) {
        let named = names.iter().filter(|name| text.contains(&format!("\"{name}\"")));
        found.extend(named.map(|name| (file.clone(), name.clone())));
    }
    let known: BTreeSet<(String, String)> =
        OTHER_MEANINGS.iter().map(|(file, word, _)| ((*file).to_owned(), (*word).to_owned())).collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "providers named in sources; make it a key of src/data/providers.toml: {new:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no longer there, to be taken out of OTHER_MEANINGS: {gone:#?}");
}

#[test]
fn other_crates_name_no_providers() {
    let (names, crates) = (providers(), Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    let mut found = BTreeSet::new();
    for of in [
        "harn-agent",
        "harn-check",
        "harn-cli",
        "harn-lsp",
        "harn-prompt",
        "harn-runtime",
        "harn-stdlib",
        "harn-template",
    ] {
        for (file, text) in sources(&crates.join(of).join("src")) {
            let named = names.iter().filter(|name| text.contains(&format!("\"{name}\"")));
            found.extend(named.map(|name| (of.to_owned(), file.clone(), name.clone())));
        }
    }
    let known = ELSEWHERE
        .iter()
        .map(|(of, file, word, _)| ((*of).to_owned(), (*file).to_owned(), (*word).to_owned()));
    assert_eq!(found, known.collect(), "a provider is told by what its table says, not by its name");
}
