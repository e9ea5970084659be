//! `harn config show`: prints the effective configuration and the source of each value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use harn_check::{Settings, flat_values, unknown_tables};
use harn_fmt::Options;
use harn_system::{Real, System, SystemExt, is_secret_variable};
use harn_value::{Data as Value, json};

use super::runs::{Failure, Outcome, Shown, show};
use crate::args::ConfigCommand;
use crate::{program, table, variables};

/// The largest file that is read.
const MAX_FILE: u64 = 16 << 20;

/// Runs the command and returns the exit code.
pub(crate) fn config(command: &ConfigCommand) -> u8 {
    match command {
        ConfigCommand::Show { json } => show(shown(), *json),
    }
}

/// A value and its source.
struct Entry {
    name: String,
    value: String,
    source: String,
}

/// The files and environment variables that configure Harn.
struct Sources {
    entries: Vec<Entry>,
    /// Path of the manifest, and its values by key path.
    manifest: BTreeMap<String, String>,
    manifest_path: String,
    /// Path of the user's file of providers and models, and its values by key path.
    user: BTreeMap<String, String>,
    user_path: String,
}

fn shown() -> Outcome<Shown> {
    let mut sources = Sources::read()?;
    sources.settings();
    sources.store()?;
    sources.models();
    sources.others();
    sources.environment();
    let entries = sources.entries;
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| vec![entry.name.clone(), entry.value.clone(), entry.source.clone()])
        .collect();
    let data: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({"name": entry.name.as_str(), "value": entry.value.as_str(), "source": entry.source.as_str()})
        })
        .collect();
    let text = table::draw_all_but(&["NAME", "VALUE", "SOURCE"], &rows, 1);
    Ok(Shown::new(text, json!({"values": data})))
}

impl Sources {
    fn read() -> Outcome<Sources> {
        let real = Real::new();
        let read = |path: &Path| real.read_text(path, MAX_FILE).unwrap_or_default();
        let manifest_path = Settings::manifest(&real, Path::new(""));
        let text = manifest_path.as_deref().map(&read).unwrap_or_default();
        if let Some(located) = Settings::unparsable(&real, Path::new("")) {
            return Err(Failure::new("wrong_manifest", located.diagnostic.message));
        }
        let unknown = unknown_tables(&text);
        let mut manifest: BTreeMap<String, String> = flat_values(&text).into_iter().collect();
        manifest.retain(|key, _| !unknown.iter().any(|table| is_below(key, table)));
        let named = real.env("HARN_PROVIDERS_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let user_path =
            named.or_else(|| Some(Path::new(&real.env("HOME")?).join(".config/harn/providers.toml")));
        let user = user_path.as_deref().map(read).unwrap_or_default();
        let display = |path: Option<PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        Ok(Sources {
            entries: Vec::new(),
            manifest,
            manifest_path: display(manifest_path),
            user: flat_values(&user).into_iter().collect(),
            user_path: display(user_path),
        })
    }

    fn add(&mut self, name: &str, value: impl Into<String>, source: impl Into<String>) {
        let (name, mut value) = (name.to_owned(), value.into());
        // `api_key` contains a key; `auth_env` contains only the name of a variable. `max_tokens` is a number, not a
        // secret.
        let is_number = name.contains('.') && value.parse::<f64>().is_ok();
        if is_secret_variable(&name.replace(['.', '-'], "_")) && !name.ends_with("_env") && !is_number {
            "(hidden)".clone_into(&mut value);
        }
        self.entries.push(Entry { name, value, source: source.into() });
    }

    /// Adds a manifest setting with its default.
    fn setting(&mut self, name: &str, default: &str) {
        // Keys may use dashes in place of underscores.
        let found = self.manifest.keys().find(|key| key.replace('-', "_") == name).cloned();
        match found.and_then(|key| self.manifest.remove(&key)) {
            Some(value) => self.add(name, value, self.manifest_path.clone()),
            None => self.add(name, default, "default"),
        }
    }

    fn settings(&mut self) {
        let Options { line_width, separator_width } = Options::default();
        for (name, default) in [
            ("run.durable", "false"),
            ("runs.keep", "for ever"),
            ("runs.retries", "0"),
            ("runs.backoff", "exponential"),
            ("runs.retry_delay", "1s"),
            ("runs.max_retry_delay", "1h"),
            ("sessions.persist", "false"),
            ("check.strict", "false"),
            ("check.strict_types", "false"),
            ("check.preflight_severity", "error"),
            ("lint.require_file_header", "false"),
            ("fmt.line_width", &line_width.to_string()),
            ("fmt.separator_width", &separator_width.to_string()),
        ] {
            self.setting(name, default);
        }
    }

    fn store(&mut self) -> Outcome<()> {
        let real = Real::new();
        let place = program::store_place(&real).map_err(|text| Failure::new("wrong_manifest", text))?;
        let in_manifest = self.manifest.remove("store.url").is_some();
        let set = |name: &&str| real.env(name).is_some_and(|value| !value.is_empty());
        let source = match ["HARN_STORE_URL", "HARN_STATE_FILE"].into_iter().find(set) {
            Some(name) => name.to_owned(),
            None if in_manifest => self.manifest_path.clone(),
            None if set(&"HARN_STATE_DIR") => "HARN_STATE_DIR".to_owned(),
            None => "default".to_owned(),
        };
        self.add("store", place.to_string(), source);
        Ok(())
    }

    /// Adds the default provider and model.
    fn models(&mut self) {
        let set = |name: &str| Real::new().env(name).filter(|value| !value.is_empty());
        let of_manifest = self.manifest.remove("llm.default_provider");
        let of_user = self.user.remove("default_provider");
        let variable = ["HARN_LLM_PROVIDER", "HARN_DEFAULT_PROVIDER"]
            .into_iter()
            .find_map(|name| Some((set(name)?, name.to_owned())));
        let (provider, source) = match (variable, of_manifest, of_user) {
            (Some(found), _, _) => found,
            (None, Some(value), _) => (value, self.manifest_path.clone()),
            (None, None, Some(value)) => (value, self.user_path.clone()),
            (None, None, None) => (harn_runtime::builtin_provider().to_owned(), "default".to_owned()),
        };
        // Addresses of local servers and available keys also select a provider.
        let vm = program::session_vm(std::rc::Rc::new(Real::new()));
        let all = harn_runtime::list_providers(&harn_runtime::llm_runtime(&vm));
        let selected = all.iter().find(|row| row["is_default"] == true).and_then(|row| row["name"].as_str());
        let (provider, source) = match selected.filter(|selected| *selected != provider) {
            Some(selected) => (selected.to_owned(), "environment".to_owned()),
            None => (provider, source),
        };
        self.add("llm.provider", provider, source);
        match set("HARN_LLM_MODEL") {
            Some(model) => self.add("llm.model", model, "HARN_LLM_MODEL"),
            None => self.add("llm.model", "that of the provider", "default"),
        }
    }

    /// Adds all other values of the files. The manifest takes precedence over the user's file.
    fn others(&mut self) {
        let (manifest, user) = (std::mem::take(&mut self.manifest), std::mem::take(&mut self.user));
        for (key, value) in user {
            let name = format!("llm.{key}");
            if !manifest.contains_key(&name) {
                self.add(&name, value, self.user_path.clone());
            }
        }
        for (name, value) in manifest {
            self.add(&name, value, self.manifest_path.clone());
        }
    }

    /// Adds the environment variables of Harn that are set.
    fn environment(&mut self) {
        for name in variables::known(Real::variable_names()) {
            let value = Real::new().env(&name).unwrap_or_default();
            self.add(&name, value, "environment");
        }
        for unknown in variables::unknown(Real::variable_names()) {
            self.add(&unknown.name, "unknown variable: it has no effect", "environment");
        }
    }
}

/// Whether a key path is in a table.
fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
