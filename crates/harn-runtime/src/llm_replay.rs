//! Model traffic in files: replies that are replayed or recorded (fixtures), and complete HTTP exchanges (cassettes).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_llm::runtime::KeptReplies;
use harn_system::{System, SystemExt};
use harn_vm::Vm;

use crate::llm_embedder::{llm_runtime, llm_runtime_at};
use crate::llm_unwritten::Unwritten;

/// The sources of model replies, and the files to which traffic is recorded.
#[derive(Debug, Clone, Default)]
pub struct ModelTraffic {
    /// Answers every call from this file of replies (`--llm-mock`); no model is called.
    pub replies: Option<PathBuf>,
    /// Writes every reply to this file, in the same format (`--llm-mock-record`).
    pub record_replies: Option<PathBuf>,
    /// Takes every HTTP exchange with a provider from this cassette (`--llm-cassette`).
    pub cassette: Option<PathBuf>,
    /// Writes every HTTP exchange with a provider to this cassette (`--llm-cassette-record`).
    pub record_cassette: Option<PathBuf>,
    /// Takes every model reply from this directory, by request (`harn test --replay`).
    pub kept: Option<PathBuf>,
    /// Writes every model reply to this directory, by request (`harn test --record`).
    pub keep: Option<PathBuf>,
}

impl ModelTraffic {
    /// Configures the model calls of a program before it runs. `dir` is the program's directory, from which its project
    /// is located.
    ///
    /// # Errors
    /// A message: a file cannot be read or written, or contains an invalid line.
    pub fn apply(&self, vm: &Rc<Vm>, dir: &Path) -> Result<(), String> {
        let runtime = llm_runtime_at(vm, dir);
        if let Some(path) = &self.replies {
            let (name, text) = read(vm, path)?;
            runtime.replay_fixtures(harn_llm::mock::parse_fixtures(&name, &text)?);
        }
        if let Some(path) = &self.cassette {
            let (name, text) = read(vm, path)?;
            runtime.replay_exchanges(&text).map_err(|e| format!("{name}: {e}"))?;
        }
        if let Some(path) = &self.record_replies {
            runtime.record_fixtures(writer(vm, path)?);
        }
        if let Some(path) = &self.record_cassette {
            runtime.record_exchanges(writer(vm, path)?);
        }
        if let Some(folder) = &self.kept {
            let (system, folder) = (vm.system().clone(), system_path(vm, folder));
            runtime.keep_replies(KeptReplies::Read(Box::new(move |key| {
                let path = folder.join(format!("{key}.json"));
                match system.read(&path, MAX_REPLY) {
                    Ok(bytes) => String::from_utf8(bytes)
                        .map(Some)
                        .map_err(|_| format!("{} is not UTF-8 text", path.display())),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(format!("cannot read {}: {e}", path.display())),
                }
            })));
        }
        if let Some(folder) = &self.keep {
            let (system, folder) = (vm.system().clone(), system_path(vm, folder));
            let made = system.make_dirs(&folder);
            made.map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
            runtime.keep_replies(KeptReplies::Write(Box::new(move |key, line| {
                let path = folder.join(format!("{key}.json"));
                let written = system.replace(&path, format!("{line}\n").as_bytes());
                written.map_err(|e| format!("cannot write {}: {e}", path.display()))
            })));
        }
        Ok(())
    }

    /// Returns a message about unused exchanges of a cassette after the program has run: usually a sign that the
    /// program has changed since it was recorded. Also reports a recording of an earlier run that was not replaced,
    /// because no model was called.
    pub fn leftovers(&self, vm: &Rc<Vm>) -> Option<String> {
        let unused = self.cassette.as_ref().and_then(|path| match llm_runtime(vm).unused_exchanges() {
            0 => None,
            1 => Some(format!("1 exchange of {} was not asked for", path.display())),
            n => Some(format!("{n} exchanges of {} were not asked for", path.display())),
        });
        let earlier = vm.extension::<Earlier>();
        let earlier = earlier.0.borrow();
        let stale = earlier
            .iter()
            .map(|name| format!("nothing was recorded, so {name} still holds what an earlier run recorded"));
        let told: Vec<String> = unused.into_iter().chain(stale).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Recordings of an earlier run that this run has not replaced yet.
#[derive(Default)]
struct Earlier(RefCell<BTreeSet<String>>);

/// Maximum size of a recorded reply: 64 MiB.
const MAX_REPLY: u64 = 64 << 20;

/// Resolves a path relative to the working directory of the program.
fn system_path(vm: &Rc<Vm>, path: &Path) -> PathBuf {
    vm.system().work_dir().join(path)
}

fn read(vm: &Rc<Vm>, path: &Path) -> Result<(String, String), String> {
    let name = path.display().to_string();
    let bytes = vm.system().read(path, u64::MAX).map_err(|e| format!("cannot read {name}: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text"))?;
    Ok((name, text))
}

/// Returns a function that writes lines to a file immediately, so that they exist even if the program fails. The first
/// line replaces the content of the file: a run that fails before it records anything does not change an earlier
/// recording. A missing file is created empty at the beginning, as a recording of a run without calls.
fn writer(vm: &Rc<Vm>, path: &Path) -> Result<impl FnMut(&str) + 'static, String> {
    let name = path.display().to_string();
    let system = vm.system().clone();
    let path = system.work_dir().join(path);
    let begun = system.write_with_folder(&path, |system| {
        // The draft is dropped; it only tests whether the file can be written.
        drop(system.draft(&path)?);
        if system.is_file(&path) {
            vm.extension::<Earlier>().0.borrow_mut().insert(name.clone());
            return Ok(());
        }
        system.replace(&path, b"")
    });
    begun.map_err(|e| format!("cannot write {name}: {e}"))?;
    let mut begun = false;
    let program = Rc::downgrade(vm);
    Ok(move |line: &str| {
        let line = format!("{line}\n");
        let write = if begun { System::append } else { System::replace };
        match write(&*system, &path, line.as_bytes()) {
            Ok(()) => {
                if let Some(vm) = program.upgrade().filter(|_| !begun) {
                    vm.extension::<Earlier>().0.borrow_mut().remove(&name);
                }
                begun = true;
            }
            // The program continues; the error is reported when the run ends.
            Err(e) => {
                if let Some(vm) = program.upgrade() {
                    Unwritten::note(&vm, format!("cannot write {name}: {e}"));
                }
            }
        }
    })
}
