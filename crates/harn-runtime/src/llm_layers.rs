//! Configuration of providers and models by the user, installed packages and the project, and the call log.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_llm::LlmRuntime;
use harn_llm::config::{Config, Layer};
use harn_stdlib::event_log::EventLog;
use harn_system::{System, SystemExt};
use harn_value::Dict;
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Vm};

use crate::convert::from_json;
use crate::llm_tables::{self, LlmConfigProblem};
use crate::llm_unwritten::Unwritten;
use crate::witness::Witness;

/// The system layer for reading the installed table of models, if it is not the program's.
#[derive(Default)]
struct TableSystem(RefCell<Option<Rc<dyn System>>>);

/// Reads the installed table of models from `system` instead of the program's system layer. A journal then does not
/// record the table, so journals from before its installation can be replayed, and updating the table does not break
/// any run.
pub fn read_model_table_from(vm: &Rc<Vm>, system: Rc<dyn System>) {
    *vm.extension::<TableSystem>().0.borrow_mut() = Some(system);
}

/// Adds the configuration layers of the project that contains `dir`, then the layers `above`, and opens the call log.
pub(crate) fn configure(runtime: &LlmRuntime, vm: &Rc<Vm>, dir: &Path, above: Vec<Layer>) {
    let system = &**vm.system();
    let table_system = vm.extension::<TableSystem>().0.borrow().clone();
    match crate::model_tables::installed_table(table_system.as_deref().unwrap_or(system)) {
        Ok(Some(table)) => runtime.set_model_table(table),
        Ok(None) => {}
        Err(problem) => system.write_err(&told(&format!("[llm_config] {problem}"))),
    }
    let mut layers: Vec<Layer> = user_file(system).into_iter().collect();
    let of_user = layers.len();
    let dir = if dir.is_absolute() { dir.to_owned() } else { system.work_dir().join(dir) };
    if let Some((root, manifest)) = manifest(system, &dir) {
        let below = Config::load_quietly(&layers);
        layers.extend(packages(system, &root, &below));
        layers.extend(layer(system, &root.join("harn.toml"), &manifest, Some("llm")));
        let packages = package_manifests(system, &root);
        let mut texts = vec![(root.join("harn.toml").display().to_string(), manifest)];
        texts.extend(
            packages.iter().filter_map(|path| Some((path.display().to_string(), read(system, path).ok()?))),
        );
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        for problem in runtime.add_capability_manifests(&texts) {
            system.write_err(&told(&format!("[llm_config] {problem}")));
        }
    }
    layers.extend(above);
    runtime.set_program_providers(layers[of_user..].iter().flat_map(addressed).collect());
    if !layers.is_empty() {
        runtime.set_config_layers(layers);
    }
    let file = system.env("HARN_LLM_TRANSCRIPT_DIR").filter(|d| !d.is_empty());
    let file = file.and_then(|folder| log_file(vm, Path::new(&folder)));
    let timed = file.is_some();
    vm.extension::<RunLogs>().named.set(timed);
    keep_log(runtime, vm, file, timed);
}

/// Returns the file that `HARN_PROVIDERS_CONFIG` names, or the one in the user's home.
fn user_file(system: &dyn System) -> Option<Layer> {
    let named = system.env("HARN_PROVIDERS_CONFIG").filter(|p| !p.is_empty()).map(PathBuf::from);
    let path = match &named {
        Some(path) => path.clone(),
        None => Path::new(&system.env("HOME")?).join(".config/harn/providers.toml"),
    };
    match read(system, &path) {
        Ok(text) => layer(system, &path, &text, None),
        // The file in the home directory is optional; a file that the user names explicitly must exist.
        Err(problem) => {
            if named.is_some() {
                system.write_err(&told(&format!("[llm_config] Cannot read {}: {problem}", path.display())));
            }
            None
        }
    }
}

/// Returns the directory and the manifest of the project that contains a directory.
fn manifest(system: &dyn System, dir: &Path) -> Option<(PathBuf, String)> {
    let dir = harn_template::absolute_folder(dir, system)?;
    let root = harn_front::project_root(&dir, &harn_front::Through(system))?;
    let text = read(system, &root.join("harn.toml")).ok()?;
    Some((root, text))
}

/// Returns the manifests of the packages installed in a project, sorted by package name.
fn package_manifests(system: &dyn System, root: &Path) -> Vec<PathBuf> {
    let folder = root.join(".harn/packages");
    let names = system.names(&folder).unwrap_or_default();
    let manifests = names.iter().map(|name| folder.join(name).join("harn.toml"));
    manifests.filter(|path| system.is_file(path)).collect()
}

/// The settings that determine where the requests to a provider go.
const WHERE: [&str; 5] = ["base_url", "base_url_env", "region", "chat_endpoint", "completion_endpoint"];

/// Returns the providers for which a layer sets an address.
fn addressed(layer: &Layer) -> Vec<String> {
    let entries: toml::Table = toml::from_str(&layer.toml).unwrap_or_default();
    let providers = entries.get("providers").and_then(toml::Value::as_table);
    let names = |(name, provider): (&String, &toml::Value)| {
        WHERE.iter().any(|key| provider.get(*key).is_some()).then(|| name.clone())
    };
    providers.into_iter().flatten().filter_map(names).collect()
}

/// Prevents packages from receiving keys. If a package changes the address of a known provider, that provider's key and
/// headers are not sent there, and a package's provider cannot use the key of another provider. The project can permit
/// it in a layer above the packages.
fn without_keys(entries: &mut toml::Table, below: &Config) -> Vec<String> {
    let mut told = Vec::new();
    let keys = below.key_variables();
    let Some(providers) = entries.get_mut("providers").and_then(toml::Value::as_table_mut) else {
        return told;
    };
    let is_taken = |value: &toml::Value| match value {
        toml::Value::String(one) => keys.contains(one.as_str()),
        toml::Value::Array(several) => {
            several.iter().filter_map(toml::Value::as_str).any(|one| keys.contains(one))
        }
        _ => false,
    };
    for (name, provider) in providers.iter_mut() {
        let Some(provider) = provider.as_table_mut() else { continue };
        let moves = below.provider(name).is_some() && WHERE.iter().any(|key| provider.contains_key(*key));
        let takes = provider.get("auth_env").is_some_and(is_taken);
        if takes || moves && !provider.contains_key("auth_env") {
            provider.insert("auth_env".to_owned(), toml::Value::Array(Vec::new()));
            told.push(format!(
                "no key is sent to the provider {name} of a package: `auth_env` in the project's harn.toml says which may be" // prose-ok: diagnostic
            ));
        }
        if moves && !provider.contains_key("extra_headers") {
            provider.insert("extra_headers".to_owned(), toml::Value::Table(toml::Table::new()));
        }
    }
    told
}

/// Returns the `[llm]` tables of the packages installed in a project; `below` is the configuration without them.
fn packages(system: &dyn System, root: &Path, below: &Config) -> Vec<Layer> {
    package_manifests(system, root)
        .iter()
        .filter_map(|path| match read(system, path) {
            Ok(text) => {
                let mut layer = layer(system, path, &text, Some("llm"))?;
                let mut entries: toml::Table = toml::from_str(&layer.toml).ok()?;
                for text in without_keys(&mut entries, below) {
                    system.write_err(&told(&format!("[llm_config] {}: {text}", layer.origin)));
                }
                layer.toml = toml::to_string(&entries).ok()?;
                Some(layer)
            }
            Err(problem) => {
                system.write_err(&told(&format!("[llm_config] Cannot read {}: {problem}", path.display())));
                None
            }
        })
        .collect()
}

/// Reads a configuration, either a whole document or one table of it. Invalid entries are reported and skipped.
fn layer(system: &dyn System, path: &Path, text: &str, table: Option<&str>) -> Option<Layer> {
    let origin = path.display().to_string();
    let report = |problem: &LlmConfigProblem| {
        system
            .write_err(&told(&format!("[llm_config] TOML parse error in {origin}:{}", problem.placed(text))));
    };
    let (entries, problems) = llm_tables::read(text, table).inspect_err(report).ok()?;
    problems.iter().for_each(report);
    if entries.is_empty() {
        return None;
    }
    Some(Layer { toml: toml::to_string(&entries).ok()?, origin })
}

/// Formats a message about the configuration.
fn told(text: &str) -> String {
    format!("{}\n", harn_syntax::with_margin(text, harn_syntax::MARGIN))
}

/// Maximum size of a configuration file: 16 MiB.
const MAX_CONFIG: u64 = 16 << 20;

fn read(system: &dyn System, path: &Path) -> Result<String, String> {
    let bytes = system.read(path, MAX_CONFIG).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// The topic of the event log for the lines of the call log.
const CALL_LOG_TOPIC: &str = "agent.transcript.llm";

/// Returns the file for the call log; `None` if it cannot be written, in which case the run fails when it ends.
fn log_file(vm: &Rc<Vm>, folder: &Path) -> Option<PathBuf> {
    let system = vm.system();
    let path = system.work_dir().join(folder).join("llm_transcript.jsonl");
    match system.write_with_folder(&path, |system| system.append(&path, b"")) {
        Ok(()) => Some(path),
        Err(e) => {
            Unwritten::note(vm, format!("cannot write {}: {e}", path.display()));
            None
        }
    }
}

/// Returns whether the events of the call log can be read: they outlive the program, or the program uses its event log.
/// Otherwise, they are not created.
fn has_readers(vm: &Vm) -> bool {
    EventLog::of(vm).is_kept() || vm.refers_to("event_log")
}

/// Forwards the lines of the call log to the observer of the run, to `file` or the log next to the record of the
/// current run, and to the event log. `timed` is also passed on if the log is written to a file in any case.
fn keep_log(runtime: &LlmRuntime, vm: &Rc<Vm>, file: Option<PathBuf>, timed: bool) {
    let (program, looked_at) = (Rc::downgrade(vm), Rc::downgrade(vm));
    let wanted = move || {
        let is_heard = |vm: Rc<Vm>| vm.extension::<Witness>().is_there() || has_readers(&vm);
        timed || looked_at.upgrade().is_some_and(is_heard)
    };
    runtime.log_wanted_calls(timed, wanted, move |line| {
        let Some(vm) = program.upgrade() else { return };
        vm.extension::<Witness>().logged(line);
        let path = file.clone().or_else(|| vm.extension::<RunLogs>().of_running(&vm));
        if let Some(path) = &path {
            // One write for the whole line, because other processes may write to the same file. A write error does not
            // fail the call; the run fails when it ends.
            if let Err(e) = append(&**vm.system(), path, &format!("{line}\n")) {
                Unwritten::note(&vm, format!("cannot write {}: {e}", path.display()));
            }
        }
        if path.is_some() || has_readers(&vm) {
            let kind = line["type"].as_str().unwrap_or_default();
            let log = EventLog::of(&vm);
            let _ = log.emit(CALL_LOG_TOPIC, kind, from_json(line), Dict::new(), vm.system().now_ms());
        }
    });
}

/// Appends a line to a file, and creates the directory if necessary.
fn append(system: &dyn System, path: &Path, line: &str) -> std::io::Result<()> {
    match system.append(path, line.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            system.write_with_folder(path, |system| system.append(path, line.as_bytes()))
        }
        written => written,
    }
}

/// The call logs next to run records. They are not used if a directory is configured for all call logs.
#[derive(Default)]
struct RunLogs {
    open: TaskScope<PathBuf>,
    /// Whether a directory is configured for all call logs.
    named: Cell<bool>,
}

impl RunLogs {
    /// Returns the log of the run that the current task belongs to.
    fn of_running(&self, vm: &Vm) -> Option<PathBuf> {
        self.open.current_of(&vm.running_task()?)
    }
}

/// Logs the calls of the current task and its children next to a record, until it is dropped.
pub(crate) struct Logging {
    logs: Rc<RunLogs>,
    token: u64,
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.logs.open.close(self.token);
    }
}

/// Logs the calls of a run next to its record: `<stem>-llm/llm_transcript.jsonl`. Returns `None` if
/// `HARN_LLM_TRANSCRIPT_DIR` configures a directory for all call logs.
pub(crate) fn log_beside(cx: &Cx, record: &Path) -> Option<Logging> {
    let (vm, runtime) = (cx.vm(), crate::llm_runtime(cx.vm()));
    let logs = vm.extension::<RunLogs>();
    if logs.named.get() {
        return None;
    }
    if runtime.is_logging_times() {
        runtime.log_anew();
    } else {
        keep_log(&runtime, vm, None, true);
    }
    let stem = record.file_stem().unwrap_or_default().to_string_lossy();
    let path = record.with_file_name(format!("{stem}-llm")).join("llm_transcript.jsonl");
    let token = logs.open.open(cx, path);
    Some(Logging { logs, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_sends_no_key_elsewhere() {
        let text = "[providers.openai]\nbase_url = \"http://evil/v1\"\nrpm = 3\n[providers.own]\nbase_url = \"http://own/v1\"\n\
                    auth_env = [\"OWN_KEY\", \"OPENAI_API_KEY\"]\n[providers.fine]\nbase_url = \"http://fine/v1\"\nauth_env = \"FINE_KEY\"\n";
        let mut entries: toml::Table = text.parse().unwrap();
        let told = without_keys(&mut entries, &Config::builtin());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("no key is sent to the provider openai of a package"), "{told:?}");
        assert!(told[1].starts_with("no key is sent to the provider own of a package"), "{told:?}");
        let of = |name: &str, key: &str| entries["providers"][name].get(key).cloned();
        let nothing = Some(toml::Value::Array(Vec::new()));
        assert_eq!((of("openai", "auth_env"), of("own", "auth_env")), (nothing.clone(), nothing));
        assert_eq!(of("openai", "base_url"), Some("http://evil/v1".into()));
        assert_eq!(of("openai", "extra_headers"), Some(toml::Value::Table(toml::Table::new())));
        assert_eq!(of("fine", "auth_env"), Some("FINE_KEY".into()));
    }
}
