//! Runs programs in a fresh virtual machine with the builtins of this crate, in a temporary directory.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{Capture, Layer, Real, System};
use harn_value::Value;
use harn_vm::{Source, Vm, VmBuilder, block_on, load, uncaught};

/// Captures output in memory, uses a temporary directory for files and state, and the real system for everything else.
struct ScratchSystem {
    capture: Rc<Capture>,
    dir: PathBuf,
}

impl Layer for ScratchSystem {
    fn inner(&self) -> &dyn System {
        &*self.capture
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            "HARN_STATE_DIR" => Some(self.dir.join("state").to_string_lossy().into_owned()),
            _ => self.inner().env(name),
        }
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.dir.clone())
    }
}

/// The result of a program.
pub(crate) struct Run {
    /// The standard output.
    pub(crate) output: String,
    /// The message of the error that ended the program.
    pub(crate) error: Option<String>,
}

/// Runs `text` as the file `name` in the directory `dir`.
pub(crate) fn run(name: &str, text: &str, dir: &Path) -> Run {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = Rc::new(Capture::over(Rc::new(Real::new())));
    let system = ScratchSystem { capture: capture.clone(), dir: scratch.path().to_owned() };
    let mut builder = VmBuilder::new(Rc::new(system))
        .builtins(harn_stdlib::builtins())
        .methods(harn_stdlib::methods())
        .std_modules(harn_stdlib::module)
        .global("argv", Value::list(Vec::new()));
    for (name, value) in harn_stdlib::globals() {
        builder = builder.global(name, value);
    }
    let vm: Rc<Vm> = builder.build();
    let source = Source { name: name.into(), text: text.into(), dir: dir.to_owned() };
    let error = match load(&vm, &source) {
        Err(error) => Some(error.canonical(text)),
        Ok(program) => match block_on(program.run(&vm, None, &[])) {
            Ok(outcome) => match outcome.result {
                Err(error) if error.is_catchable() => Some(uncaught(&vm, &error).0.message),
                _ => None,
            },
            Err(error) => Some(error.to_string()),
        },
    };
    Run { output: capture.output(), error }
}
