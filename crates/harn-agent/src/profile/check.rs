//! Validates the options of `project_context_profile`. A misspelt signal would otherwise be silently ignored.

use harn_value::{Data as Value, data::Map};

/// An invalid option. The display form is the error that a script catches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileOptionError {
    /// An unknown key.
    #[error("project_context_profile: unknown key `{key}` in {place}; known are {}", known.join(", "))]
    Unknown {
        /// The key.
        key: String,
        /// The dict that contains it, such as `options.signals`.
        place: String,
        /// The valid keys.
        known: Vec<&'static str>,
    },
    /// A value of the wrong type.
    #[error("project_context_profile: {place} must be {must}, got {got}")]
    Type {
        /// The path of the value, such as `options.signals.languages`.
        place: String,
        /// The expected type.
        must: &'static str,
        /// The actual type.
        got: String,
    },
}

/// The type of a value; nil is always accepted.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Flag,
    /// A URL, or a dict with these keys.
    Remote,
    Fingerprint,
    Signals,
    /// Names, or a dict of bools.
    Credentials,
}

type Keys = &'static [(&'static str, Kind)];

const OPTIONS: Keys = &[
    ("fingerprint", Kind::Fingerprint),
    ("project_fingerprint", Kind::Fingerprint),
    ("remote", Kind::Remote),
    ("git_remote", Kind::Remote),
    ("source", Kind::Text),
    ("signals", Kind::Signals),
    ("credentials", Kind::Credentials),
    ("include_env_credentials", Kind::Flag),
];

const SIGNALS: Keys = &[
    ("fingerprint", Kind::Fingerprint),
    ("project_fingerprint", Kind::Fingerprint),
    ("remote", Kind::Remote),
    ("git_remote", Kind::Remote),
    ("source", Kind::Text),
];

const REMOTE: Keys = &[("name", Kind::Text), ("host", Kind::Text), ("slug", Kind::Text), ("url", Kind::Text)];

const FINGERPRINT: Keys = &[
    ("primary_language", Kind::Text),
    ("languages", Kind::Texts),
    ("frameworks", Kind::Texts),
    ("package_manager", Kind::Text),
    ("package_managers", Kind::Texts),
    ("test_runner", Kind::Text),
    ("test_runners", Kind::Texts),
    ("build_tool", Kind::Text),
    ("vcs", Kind::Text),
    ("ci", Kind::Text),
    ("has_tests", Kind::Flag),
    ("has_ci", Kind::Flag),
    ("lockfile_paths", Kind::Texts),
];

/// Validates the options of `project_context_profile`. Nil is treated as absent everywhere.
///
/// # Errors
/// A key is unknown, or a value has the wrong type.
pub fn check_options(options: &Value) -> Result<(), ProfileOptionError> {
    match options {
        Value::Null => Ok(()),
        options => entries(options, "options", "a dict", &[OPTIONS]),
    }
}

fn entries(value: &Value, place: &str, must: &'static str, keys: &[Keys]) -> Result<(), ProfileOptionError> {
    let dict = value.as_object().ok_or_else(|| wrong(place, must, value))?;
    each(dict, place, keys)
}

fn each(dict: &Map<String, Value>, place: &str, keys: &[Keys]) -> Result<(), ProfileOptionError> {
    let known = || keys.iter().flat_map(|keys| keys.iter());
    for (key, value) in dict {
        let Some((_, kind)) = known().find(|(name, _)| name == key) else {
            let known = known().map(|(name, _)| *name).collect();
            return Err(ProfileOptionError::Unknown { key: key.clone(), place: place.to_owned(), known });
        };
        if !value.is_null() {
            check(value, &format!("{place}.{key}"), *kind)?;
        }
    }
    Ok(())
}

fn check(value: &Value, place: &str, kind: Kind) -> Result<(), ProfileOptionError> {
    let ok = |right: bool, must: &'static str| if right { Ok(()) } else { Err(wrong(place, must, value)) };
    match kind {
        Kind::Text => ok(value.is_string(), "a string"),
        Kind::Texts => texts(value, place, "a list of strings"),
        Kind::Flag => ok(value.is_boolean(), "a bool"),
        Kind::Remote if value.is_string() => Ok(()),
        Kind::Remote => entries(value, place, "a URL or a dict", &[REMOTE]),
        Kind::Fingerprint => entries(value, place, "a dict", &[FINGERPRINT]),
        // Fields of the fingerprint may appear among the signals.
        Kind::Signals => entries(value, place, "a dict", &[SIGNALS, FINGERPRINT]),
        Kind::Credentials => match value.as_object() {
            Some(_) => Ok(()),
            None => texts(value, place, "a list of names or a dict of bools"),
        },
    }
}

fn texts(value: &Value, place: &str, must: &'static str) -> Result<(), ProfileOptionError> {
    let items = value.as_array().ok_or_else(|| wrong(place, must, value))?;
    match items.iter().position(|item| !item.is_string()) {
        Some(at) => Err(wrong(&format!("{place}[{at}]"), "a string", &items[at])),
        None => Ok(()),
    }
}

fn wrong(place: &str, must: &'static str, value: &Value) -> ProfileOptionError {
    ProfileOptionError::Type { place: place.to_owned(), must, got: value.type_name().to_owned() }
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn error(options: Value) -> String {
        let text = check_options(&options).unwrap_err().to_string();
        text.strip_prefix("project_context_profile: ").unwrap().to_owned()
    }

    #[test]
    fn what_the_documentation_names_is_taken() {
        for options in [
            json!(null),
            json!({}),
            json!({"fingerprint": {"languages": ["rust"], "ci": null}, "remote": "https://x/y", "source": "ide"}),
            json!({"signals": {"languages": ["swift"], "remote": {"slug": "o/r"}, "source": "librarian"}}),
            json!({"signals": {"fingerprint": {"vcs": "git"}}, "credentials": ["github"]}),
            json!({"credentials": {"a": true}, "include_env_credentials": false, "signals": null}),
        ] {
            assert_eq!(check_options(&options), Ok(()), "{options}");
        }
    }

    #[test]
    fn mistakes_name_place_and_way_out() {
        assert_eq!(error(json!(5)), "options must be a dict, got int");
        assert_eq!(
            error(json!({"signls": {}})),
            "unknown key `signls` in options; known are fingerprint, project_fingerprint, remote, git_remote, source, signals, credentials, include_env_credentials"
        );
        assert!(
            error(json!({"signals": {"language": ["rust"]}}))
                .starts_with("unknown key `language` in options.signals; known are ")
        );
        assert_eq!(
            error(json!({"signals": {"languages": "rust"}})),
            "options.signals.languages must be a list of strings, got string"
        );
        assert_eq!(
            error(json!({"fingerprint": {"languages": ["a", 1]}})),
            "options.fingerprint.languages[1] must be a string, got int"
        );
        assert_eq!(error(json!({"remote": 5})), "options.remote must be a URL or a dict, got int");
        assert_eq!(
            error(json!({"credentials": "x"})),
            "options.credentials must be a list of names or a dict of bools, got string"
        );
        assert_eq!(
            error(json!({"include_env_credentials": "no"})),
            "options.include_env_credentials must be a bool, got string"
        );
    }
}
