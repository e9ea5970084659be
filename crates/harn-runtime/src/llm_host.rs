//! What model calls see of the program: its environment, clock, prompts, and prompt assembly.

use std::cell::{OnceCell, RefCell};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use harn_llm::config::Layer;
use harn_llm::{Fragment, LlmRuntime};
use harn_prompt::{CallParts, Prose};
use harn_vm::{Cx, Vm};
use serde_json::{Map, Value as Json};

use crate::assets::EmbeddedPrompts;

/// Model calls of one program.
#[derive(Default)]
pub(crate) struct LlmState {
    runtime: OnceCell<Rc<LlmRuntime>>,
    /// Trace events so far, for `agent_trace`.
    pub(crate) trace: RefCell<Vec<Json>>,
    /// Embedded prompts, parsed once.
    pub(crate) prompts: EmbeddedPrompts,
}

/// Returns the model calls of a program, for the command line: fixtures are replayed and recorded there.
pub fn llm_runtime(vm: &Rc<Vm>) -> Rc<LlmRuntime> {
    runtime_at(vm, &vm.host().cwd())
}

/// Answers the model calls of a program from a file of recorded replies (`--llm-mock`).
///
/// # Errors
/// The file cannot be read, or a line of it is no reply.
pub fn replay_replies(vm: &Rc<Vm>, file: &Path) -> Result<(), String> {
    let name = file.display().to_string();
    let bytes = vm.host().read_file(file).map_err(|e| format!("cannot read {name}: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text"))?;
    llm_runtime(vm).replay_fixtures(harn_llm::mock::parse_fixtures(&name, &text)?);
    Ok(())
}

/// The model calls of the running program.
pub(crate) fn runtime(cx: &Cx) -> Rc<LlmRuntime> {
    match cx.state::<LlmState>().runtime.get() {
        Some(runtime) => runtime.clone(),
        None => runtime_at(cx.vm(), &cx.caller_dir()),
    }
}

fn runtime_at(vm: &Rc<Vm>, dir: &Path) -> Rc<LlmRuntime> {
    let state = vm.extension::<LlmState>();
    let make = || {
        let runtime = LlmRuntime::new(Rc::new(ProgramHost { vm: Rc::downgrade(vm) }));
        configure(&runtime, vm, dir);
        Rc::new(runtime)
    };
    state.runtime.get_or_init(make).clone()
}

/// Adds what the user and the project say about providers, and opens the call log.
fn configure(runtime: &LlmRuntime, vm: &Vm, dir: &Path) {
    let host = vm.host();
    let read = |path: &Path| host.read_file(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let mut layers = Vec::new();
    let user = host
        .env("HARN_PROVIDERS_CONFIG")
        .filter(|p| !p.is_empty())
        .map(PathBuf::from)
        .or_else(|| host.env("HOME").map(|home| Path::new(&home).join(".config/harn/providers.toml")));
    if let Some((path, toml)) = user.and_then(|path| Some((path.clone(), read(&path)?))) {
        layers.push(Layer { origin: path.display().to_string(), toml });
    }
    if let Some((root, manifest)) = manifest(&absolute(vm, dir), &read) {
        if let Some(toml) = table(&manifest, "llm") {
            layers.push(Layer { origin: root.join("harn.toml").display().to_string(), toml });
        }
        if let Err(problem) = runtime.add_capability_manifests(&[&manifest]) {
            host.write_err(&format!("warning: {problem}\n"));
        }
    }
    if !layers.is_empty() {
        runtime.set_config_layers(layers);
    }
    if let Some(folder) = host.env("HARN_LLM_TRANSCRIPT_DIR").filter(|d| !d.is_empty()) {
        let path = Path::new(&folder).join("llm_transcript.jsonl");
        let opened = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&path));
        match opened {
            Ok(mut file) => runtime.log_calls(move |line| {
                // A log that cannot be written must not fail the call it describes.
                let _ = writeln!(file, "{line}");
            }),
            Err(e) => host.write_err(&format!("warning: cannot write {}: {e}\n", path.display())),
        }
    }
}

fn absolute(vm: &Vm, dir: &Path) -> PathBuf {
    if dir.is_absolute() { dir.to_owned() } else { vm.host().cwd().join(dir) }
}

/// The manifest of the project that a folder belongs to.
fn manifest(dir: &Path, read: &impl Fn(&Path) -> Option<String>) -> Option<(PathBuf, String)> {
    dir.ancestors().find_map(|folder| Some((folder.to_owned(), read(&folder.join("harn.toml"))?)))
}

/// A table of a manifest as a document of its own.
fn table(manifest: &str, name: &str) -> Option<String> {
    let document: toml::Table = manifest.parse().ok()?;
    toml::to_string(document.get(name)?.as_table()?).ok()
}

struct ProgramHost {
    vm: Weak<Vm>,
}

impl ProgramHost {
    fn prompts(&self) -> Option<Rc<LlmState>> {
        self.vm.upgrade().map(|vm| vm.extension::<LlmState>())
    }
}

impl harn_llm::Host for ProgramHost {
    fn env(&self, name: &str) -> Option<String> {
        self.vm.upgrade()?.host().env(name)
    }

    fn now_ms(&self) -> i64 {
        self.vm.upgrade().map_or(0, |vm| vm.host().now_ms())
    }

    fn new_id(&self) -> String {
        self.vm.upgrade().map(|vm| new_id(&vm)).unwrap_or_default()
    }

    fn warn(&self, message: &str) {
        if let Some(vm) = self.vm.upgrade() {
            vm.host().write_err(&format!("[harn] warning: llm: {message}\n"));
        }
    }

    fn prose(&self, name: &str, bindings: &Json) -> String {
        let Some(state) = self.prompts() else { return String::new() };
        let empty = Map::new();
        let bindings = bindings.as_object().unwrap_or(&empty);
        match state.prompts.render(&format!("std/{name}.harn.prompt"), bindings) {
            Ok(text) => text,
            Err(error) => {
                self.warn(&error.to_string());
                String::new()
            }
        }
    }

    fn assemble_system(&self, options: &Json, fragments: &[Fragment]) -> Result<Option<String>, String> {
        let empty = Map::new();
        let options = options.as_object().unwrap_or(&empty);
        let (system, live) = parts(fragments);
        let assembly = harn_prompt::assemble(options, system.as_ref(), &live, None)
            .map_err(|error| error.to_string())?;
        Ok(assembly.text)
    }

    fn trace(&self, event: Json) {
        if let Some(state) = self.prompts() {
            state.trace.borrow_mut().push(event);
        }
    }
}

/// Sorts what a call contributes into the rows of prompt assembly: the system text and the live parts.
fn parts(fragments: &[Fragment]) -> (Option<Json>, CallParts) {
    let mut live = CallParts::default();
    let mut system = None;
    for fragment in fragments {
        let body = fragment.body.clone();
        match fragment.id.as_str() {
            "primary" => system = Some(Json::String(body)),
            "primary:text_tool_contract" => live.text_tool_contract = Some(body),
            "call:output_instruction" => live.output_instruction = Some(body),
            "transcript:summary" => {
                // Assembly writes the heading itself.
                let summary = body.strip_prefix("Conversation summary:\n").map(str::to_owned);
                live.transcript_summary = Some(summary.unwrap_or(body));
            }
            id => {
                let index = id.strip_prefix("message:").and_then(|n| n.parse().ok()).unwrap_or(0);
                live.messages.push((index, body));
            }
        }
    }
    (system, live)
}

/// A new identifier (UUIDv7) from the program's own clock and randomness.
pub(crate) fn new_id(vm: &Vm) -> String {
    let host = vm.host();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&host.random().to_be_bytes());
    random[8..].copy_from_slice(&host.random().to_be_bytes()[..2]);
    let millis = u64::try_from(host.now_ms()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}
