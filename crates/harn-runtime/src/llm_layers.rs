//! What the user, installed packages and the project say about providers and models, and the call log.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_llm::LlmRuntime;
use harn_llm::config::Layer;
use harn_stdlib::event_log::EventLog;
use harn_value::Dict;
use harn_vm::{Host, Vm};

use crate::convert::from_json;
use crate::llm_tables::{self, LlmConfigProblem};

/// Adds the configuration layers of the project that `dir` belongs to, and opens the call log.
pub(crate) fn configure(runtime: &LlmRuntime, vm: &Rc<Vm>, dir: &Path) {
    let host = vm.host();
    let mut layers: Vec<Layer> = user_file(host).into_iter().collect();
    let dir = if dir.is_absolute() { dir.to_owned() } else { host.cwd().join(dir) };
    if let Some((root, manifest)) = manifest(host, &dir) {
        layers.extend(packages(host, &root));
        layers.extend(layer(host, &root.join("harn.toml"), &manifest, Some("llm")));
        if let Err(problem) = runtime.add_capability_manifests(&[&manifest]) {
            host.write_err(&format!("warning: {problem}\n"));
        }
    }
    if !layers.is_empty() {
        runtime.set_config_layers(layers);
    }
    if let Some(folder) = host.env("HARN_LLM_TRANSCRIPT_DIR").filter(|d| !d.is_empty()) {
        open_log(runtime, vm, Path::new(&folder));
    }
}

/// The file that `HARN_PROVIDERS_CONFIG` names, or the one in the user's home.
fn user_file(host: &dyn Host) -> Option<Layer> {
    let named = host.env("HARN_PROVIDERS_CONFIG").filter(|p| !p.is_empty()).map(PathBuf::from);
    let path = match &named {
        Some(path) => path.clone(),
        None => Path::new(&host.env("HOME")?).join(".config/harn/providers.toml"),
    };
    match read(host, &path) {
        Ok(text) => layer(host, &path, &text, None),
        // The file in the home folder is optional, one that was asked for is not.
        Err(problem) => {
            if named.is_some() {
                host.write_err(&format!("[llm_config] Cannot read {}: {problem}\n", path.display()));
            }
            None
        }
    }
}

/// The manifest of the project that a folder belongs to, with the project's folder.
fn manifest(host: &dyn Host, dir: &Path) -> Option<(PathBuf, String)> {
    let dir = harn_template::absolute_folder(dir)?;
    dir.ancestors().find_map(|folder| Some((folder.to_owned(), read(host, &folder.join("harn.toml")).ok()?)))
}

/// The `[llm]` tables of the packages installed in a project, sorted by package name.
fn packages(host: &dyn Host, root: &Path) -> Vec<Layer> {
    let Ok(entries) = std::fs::read_dir(root.join(".harn/packages")) else { return Vec::new() };
    let mut manifests: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path().join("harn.toml")).filter(|path| path.is_file()).collect();
    manifests.sort();
    manifests
        .iter()
        .filter_map(|path| match read(host, path) {
            Ok(text) => layer(host, path, &text, Some("llm")),
            Err(problem) => {
                host.write_err(&format!("[llm_config] Cannot read {}: {problem}\n", path.display()));
                None
            }
        })
        .collect()
}

/// A configuration without what is wrong in it, which is reported: a whole document, or a table of one.
fn layer(host: &dyn Host, path: &Path, text: &str, table: Option<&str>) -> Option<Layer> {
    let origin = path.display().to_string();
    let report = |problem: &LlmConfigProblem| {
        host.write_err(&format!("[llm_config] TOML parse error in {origin}:{}\n", problem.placed(text)));
    };
    let (entries, problems) = llm_tables::read(text, table).inspect_err(report).ok()?;
    problems.iter().for_each(report);
    if entries.is_empty() {
        return None;
    }
    Some(Layer { toml: toml::to_string(&entries).ok()?, origin })
}

fn read(host: &dyn Host, path: &Path) -> Result<String, String> {
    let bytes = host.read_file(path).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// The topic of the event log that the lines of the call log go to.
const CALL_LOG_TOPIC: &str = "agent.transcript.llm";

fn open_log(runtime: &LlmRuntime, vm: &Rc<Vm>, folder: &Path) {
    let host = vm.host();
    let path = folder.join("llm_transcript.jsonl");
    let opened = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&path));
    match opened {
        Ok(mut file) => {
            let program = Rc::downgrade(vm);
            runtime.log_calls(move |line| {
                // A log that cannot be written must not fail the call it describes.
                let _ = writeln!(file, "{line}");
                if let Some(vm) = program.upgrade() {
                    let kind = line["type"].as_str().unwrap_or_default();
                    let log = EventLog::of(&vm);
                    let _ = log.emit(CALL_LOG_TOPIC, kind, from_json(line), Dict::new(), vm.host().now_ms());
                }
            });
        }
        Err(e) => host.write_err(&format!("warning: cannot write {}: {e}\n", path.display())),
    }
}
