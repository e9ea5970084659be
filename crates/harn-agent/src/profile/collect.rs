//! Collects signals from the options, the directory and the environment.

use std::path::Path;

use harn_value::{Data as Value, data::Map};

use super::fingerprint::Scan;
use super::folder::FolderReader;
use super::remote::find_remote;
use super::signals::{CREDENTIAL_VARIABLES, Signals, Supplied};
use harn_prompt::value::names;

/// Collects the signals of the project in `directory`.
///
/// Supplied signals replace detection. `variable` looks up an environment variable; only the presence of a credential
/// variable is used, never its value.
#[must_use]
pub fn collect(
    directory: &Path,
    options: &Map<String, Value>,
    reader: &dyn FolderReader,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Signals {
    let supplied = Supplied::of(options);
    let default = if supplied.any() { "provided" } else { "scan" };
    let source = supplied.source.unwrap_or_else(|| default.to_owned());
    let mut credentials = supplied.credentials;
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    if supplied.include_env_credentials && CREDENTIAL_VARIABLES.iter().any(is_set) {
        credentials.insert("github".to_owned());
    }
    let (fingerprint, test_runners) = match supplied.fingerprint {
        Some(fingerprint) => {
            let runners = fingerprint.get("test_runners").map(names).unwrap_or_default();
            (fingerprint, runners)
        }
        None => {
            let scan = Scan::of(directory, reader);
            (scan.fingerprint(), scan.test_runners())
        }
    };
    Signals {
        source,
        fingerprint,
        test_runners,
        remote: supplied.remote.unwrap_or_else(|| find_remote(directory, reader)),
        credentials,
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::profile::folder::testing::MemoryFolder;

    fn run(options: &Value, set: &[&str]) -> Signals {
        let folder = MemoryFolder::of(&[
            ("/p/Cargo.toml", "[package]\nname = \"p\""),
            ("/p/.git/config", "[remote \"origin\"]\nurl = https://github.com/o/r"),
        ]);
        let variable = |name: &str| set.contains(&name).then(|| "secret".to_owned());
        collect(Path::new("/p"), options.as_object().unwrap(), &folder, &variable)
    }

    #[test]
    fn a_scan_finds_languages_and_the_remote() {
        let signals = run(&json!({}), &[]);
        assert_eq!(signals.source, "scan");
        assert!(signals.has_language("rust"));
        assert_eq!(signals.remote.as_ref().unwrap().slug.as_deref(), Some("o/r"));
        assert!(signals.credentials.is_empty());
    }

    #[test]
    fn supplied_signals_replace_detection() {
        let signals = run(&json!({"signals": {"languages": ["swift"]}}), &[]);
        assert_eq!(signals.source, "provided");
        assert!(signals.has_language("swift") && !signals.has_language("rust"));
        assert_eq!(signals.remote, None);
        let part = run(&json!({"remote": "https://example.org/x", "source": "ide"}), &[]);
        assert_eq!(part.source, "ide");
        assert!(part.has_language("rust"));
        assert_eq!(part.remote.unwrap().host.as_deref(), Some("example.org"));
    }

    #[test]
    fn credentials_are_names_only() {
        for name in CREDENTIAL_VARIABLES {
            let signals = run(&json!({"credentials": ["Slack"]}), &[name]);
            assert_eq!(signals.credentials.iter().collect::<Vec<_>>(), ["github", "slack"]);
            assert!(!signals.to_json().to_string().contains("secret"));
        }
        assert!(run(&json!({"include_env_credentials": false}), &["GH_TOKEN"]).credentials.is_empty());
    }
}
