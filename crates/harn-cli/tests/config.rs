//! `harn config show`, and the reports of `harn doctor` about unknown settings.

use std::path::Path;

use serde_json::Value;

use crate::common::{Ran, command, finish, folder};

fn harn(folder: &Path, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder).env("HOME", folder).envs(env.iter().copied());
    finish(command, b"")
}

/// Returns the value and the source of a setting.
fn of(shown: &Ran, name: &str) -> Option<(String, String)> {
    let data: Value = serde_json::from_str(&shown.out).unwrap_or_else(|_| panic!("{}", shown.shown()));
    let values = data["data"]["values"].as_array().unwrap();
    let found = values.iter().find(|entry| entry["name"] == name)?;
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    Some((text("value"), text("source")))
}

const SHOW: &[&str] = &["config", "show", "--json"];

#[test]
fn each_value_has_its_source() {
    let manifest = "[run]\ndurable = true\n[runs]\nretry-delay = \"5s\"\n[llm]\ndefault_provider = \"openai\"\n\
                    [llm.models.m]\nmax_tokens = 5\n[[mcp]]\nname = \"s\"\n[mine]\nx = 1\n";
    let user = "default_provider = \"groq\"\n[providers.own]\nbase_url = \"http://127.0.0.1:1\"\napi_key = \"sk-secret\"\n";
    let dir = folder(&[("harn.toml", manifest), (".config/harn/providers.toml", user)]);
    let path = dir.path();
    let env = [("HARN_LLM_TIMEOUT", "30s"), ("HARN_SERVE_API_KEY", "1234567"), ("HARN_OF_MINE", "1")];
    let shown = harn(path, &env, SHOW);
    assert_eq!(shown.code, 0, "{}", shown.shown());
    let manifest = path.canonicalize().unwrap().join("harn.toml").display().to_string();
    let user = path.join(".config/harn/providers.toml").display().to_string();
    for (name, value, source) in [
        ("run.durable", "true", manifest.as_str()),
        ("runs.keep", "for ever", "default"),
        ("runs.retry_delay", "5s", &manifest),
        ("llm.provider", "openai", &manifest),
        ("llm.models.m.max_tokens", "5", &manifest),
        ("llm.providers.own.base_url", "http://127.0.0.1:1", &user),
        ("llm.providers.own.api_key", "(hidden)", &user),
        ("HARN_LLM_TIMEOUT", "30s", "environment"),
        ("HARN_SERVE_API_KEY", "(hidden)", "environment"),
        ("HARN_OF_MINE", "unknown variable: it has no effect", "environment"),
    ] {
        let found = of(&shown, name).unwrap_or_else(|| panic!("{name}: {}", shown.shown()));
        let same_file = found.1.ends_with("harn.toml") && source.ends_with("harn.toml");
        assert_eq!(found.0, value, "{name}");
        assert!(found.1 == source || same_file, "{name}: {found:?}, not {source}");
    }
    assert!(!shown.out.contains("secret") && !shown.out.contains("1234567"), "{}", shown.out);
    assert_eq!(of(&shown, "mine.x"), None);
    let store = of(&shown, "store").unwrap();
    assert!(store.0.ends_with(".harn/state.db") && store.1 == "default", "{store:?}");
    // Environment variables take precedence.
    let env = [("HARN_LLM_PROVIDER", "mock"), ("HARN_STATE_FILE", "own.db"), ("HARN_LLM_MODEL", "m")];
    let shown = harn(path, &env, SHOW);
    let is = |value: &str, source: &str| Some((value.to_owned(), source.to_owned()));
    assert_eq!(of(&shown, "llm.provider"), is("mock", "HARN_LLM_PROVIDER"));
    assert_eq!(of(&shown, "llm.model"), is("m", "HARN_LLM_MODEL"));
    assert_eq!(of(&shown, "store").unwrap().1, "HARN_STATE_FILE");
    let table = harn(path, &[], &["config", "show"]);
    assert!(table.out.starts_with("NAME") && table.out.contains("runs.backoff"), "{}", table.shown());
    // The address of a database is shown without its password.
    let env = [("HARN_STORE_URL", "postgres://ann:secret@db.invalid/runs")];
    let shown = harn(path, &env, SHOW);
    assert_eq!(of(&shown, "store"), is("postgres://ann@db.invalid/runs", "HARN_STORE_URL"));
    assert!(!shown.out.contains("secret"), "{}", shown.out);
}

#[test]
fn a_manifest_that_cannot_be_parsed_is_an_error() {
    let dir = folder(&[("harn.toml", "[run\n")]);
    let shown = harn(dir.path(), &[], &["config", "show"]);
    assert!(shown.code == 1 && shown.err.contains("failed to parse"), "{}", shown.shown());
}

#[test]
fn the_doctor_lists_all_unknown_settings() {
    let manifest =
        "[run]\ndurble = true\n[fmt]\nline_witdh = 80\n[deploy]\nx = 1\n[sesions]\npersist = true\n";
    let dir = folder(&[("harn.toml", manifest)]);
    let env = [("HARN_LLM_PROVDER", "mock"), ("HARN_OF_MINE", "1")];
    let doctor = harn(dir.path(), &env, &["doctor", "--no-network"]);
    for text in [
        "unknown key `durble` in [run]",
        "unknown key `line_witdh` in [fmt]",
        "unknown table `[deploy]`",
        "unknown table `[sesions]`",
        "without effect: HARN_LLM_PROVDER (did you mean HARN_LLM_PROVIDER?)",
        "without effect: HARN_OF_MINE",
    ] {
        assert_eq!(doctor.out.matches(text).count(), 1, "{text}: {}", doctor.shown());
    }
}
