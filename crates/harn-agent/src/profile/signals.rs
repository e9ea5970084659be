//! Signals of a project, detected or supplied.

use std::collections::BTreeSet;

use harn_value::{Data as Value, data::Map};

use super::remote::Remote;
use harn_prompt::value::{flag, object, present};

/// Variables that contain a GitHub credential; only their presence is used.
pub(crate) const CREDENTIAL_VARIABLES: [&str; 3] =
    ["GITHUB_PERSONAL_ACCESS_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"];

/// The known facts about a project. Credential values are never included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// The source of the signals: `scan`, `provided`, or a name chosen by the caller.
    pub source: String,
    /// The dict of `project_fingerprint`.
    pub fingerprint: Map<String, Value>,
    /// All test runners; the fingerprint contains only the first.
    pub test_runners: Vec<String>,
    /// The Git remote.
    pub remote: Option<Remote>,
    /// Alias names of the available credentials.
    pub credentials: BTreeSet<String>,
}

/// The signals that the options of `project_context_profile` supply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Supplied {
    /// A fingerprint that replaces detection.
    pub fingerprint: Option<Map<String, Value>>,
    /// A remote that replaces detection; `Some(None)` means that the project has none.
    pub remote: Option<Option<Remote>>,
    /// A name for the source.
    pub source: Option<String>,
    /// Aliases of `credentials`.
    pub credentials: BTreeSet<String>,
    /// Whether credentials in the environment are used.
    pub include_env_credentials: bool,
}

impl Supplied {
    /// Reads the options. A dict `signals` replaces all detection, `fingerprint` and `remote` only their own part.
    #[must_use]
    pub fn of(options: &Map<String, Value>) -> Self {
        let signals = options.get("signals").and_then(Value::as_object);
        let fields = |dict: &Map<String, Value>| {
            ["fingerprint", "project_fingerprint"]
                .iter()
                .find_map(|key| present(dict, key)?.as_object())
                .cloned()
        };
        let remote = |dict: &Map<String, Value>| {
            ["remote", "git_remote"].iter().find_map(|key| present(dict, key)).map(Remote::from_json)
        };
        let bare = |dict: &Map<String, Value>| {
            let own = ["remote", "git_remote", "source"];
            dict.iter()
                .filter(|(k, _)| !own.contains(&k.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        };
        let source = |dict: &Map<String, Value>| present(dict, "source").map(Value::printed);
        Self {
            fingerprint: fields(options).or_else(|| signals.map(|s| fields(s).unwrap_or_else(|| bare(s)))),
            remote: remote(options).or_else(|| signals.map(|s| remote(s).flatten())),
            source: source(options).or_else(|| signals.and_then(source)),
            credentials: options.get("credentials").map(credential_aliases).unwrap_or_default(),
            include_env_credentials: options.get("include_env_credentials") != Some(&Value::Bool(false)),
        }
    }

    /// Returns whether anything was supplied in place of detection.
    #[must_use]
    pub fn any(&self) -> bool {
        self.fingerprint.is_some() || self.remote.is_some()
    }
}

/// Reads credential names from a list, or from a dict of bools, as aliases.
fn credential_aliases(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(credential_alias).collect(),
        Value::Object(dict) => {
            dict.keys().filter(|key| flag(dict, key)).map(|key| credential_alias(key)).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns the alias of a credential: any name that contains GitHub becomes `github`.
#[must_use]
pub(crate) fn credential_alias(name: &str) -> String {
    let lower = name.trim().to_lowercase();
    let alias: String = lower.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if alias.contains("github") || alias == "gh_token" { "github".to_owned() } else { alias }
}

impl Signals {
    /// Returns a string field of the fingerprint.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        harn_prompt::value::text(&self.fingerprint, key)
    }

    /// Returns a list of strings of the fingerprint.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<&str> {
        let items = self.fingerprint.get(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns whether `name` is one of the project's languages.
    #[must_use]
    pub(crate) fn has_language(&self, name: &str) -> bool {
        self.list("languages").contains(&name) || self.text("primary_language") == Some(name)
    }

    /// Returns whether the project uses the package manager `name`.
    #[must_use]
    pub(crate) fn has_package_manager(&self, name: &str) -> bool {
        self.list("package_managers").contains(&name) || self.text("package_manager") == Some(name)
    }

    /// Returns `{source, fingerprint, remote, credentials}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let credentials: Vec<&String> = self.credentials.iter().collect();
        object([
            ("source", self.source.clone().into()),
            ("fingerprint", self.fingerprint.clone().into()),
            ("remote", self.remote.as_ref().map(Remote::to_json).into()),
            ("credentials", credentials.into_iter().cloned().collect::<Vec<_>>().into()),
        ])
    }

    /// Returns the bindings for profile bodies: the fields of the fingerprint, and the remote.
    #[must_use]
    pub fn bindings(&self) -> Map<String, Value> {
        let mut bindings = Map::new();
        for key in ["primary_language", "package_manager", "test_runner", "build_tool", "vcs", "ci"] {
            bindings.insert(key.to_owned(), self.text(key).into());
        }
        for key in ["languages", "frameworks", "package_managers", "lockfile_paths"] {
            bindings.insert(key.to_owned(), self.list(key).into());
        }
        for key in ["has_tests", "has_ci"] {
            bindings.insert(key.to_owned(), flag(&self.fingerprint, key).into());
        }
        bindings.insert("remote".to_owned(), self.remote.as_ref().map(Remote::to_json).into());
        bindings
    }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn supplied(options: Value) -> Supplied {
        Supplied::of(options.as_object().unwrap())
    }

    #[test]
    fn credential_names_become_aliases() {
        for name in ["GITHUB_TOKEN", "my-github-app", "gh_token", "GH_TOKEN", "GitHub"] {
            assert_eq!(credential_alias(name), "github");
        }
        assert_eq!(credential_alias("Slack-Bot Token"), "slack_bot_token");
        let list = supplied(json!({"credentials": ["Slack", "GH_TOKEN", 5]})).credentials;
        assert_eq!(list.into_iter().collect::<Vec<_>>(), ["github", "slack"]);
        let dict = supplied(json!({"credentials": {"a-b": true, "c": false, "d": "value"}})).credentials;
        assert_eq!(dict.into_iter().collect::<Vec<_>>(), ["a_b"]);
    }

    #[test]
    fn signals_replace_detection_altogether() {
        let some = supplied(json!({"signals": {"languages": ["rust"], "source": "librarian"}}));
        assert_eq!(some.fingerprint.unwrap()["languages"], json!(["rust"]));
        assert_eq!(some.remote, Some(None), "no remote was supplied, so there is none");
        assert_eq!(some.source.as_deref(), Some("librarian"));
        let nested = supplied(
            json!({"signals": {"project_fingerprint": {"vcs": "git"}, "git_remote": "https://github.com/o/r"}}),
        );
        assert_eq!(nested.fingerprint.unwrap()["vcs"], "git");
        assert_eq!(nested.remote.flatten().unwrap().slug.as_deref(), Some("o/r"));
    }

    #[test]
    fn single_options_replace_their_part() {
        let only = supplied(json!({"fingerprint": {"languages": []}}));
        assert!(only.any() && only.remote.is_none());
        let none = supplied(json!({}));
        assert!(!none.any() && none.include_env_credentials);
        assert!(!supplied(json!({"include_env_credentials": false})).include_env_credentials);
    }
}
