//! A JSON object in a file that several programs may change at the same time: each change is made under a lock, to what
//! the file holds at that moment, and replaces the file as a whole.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_system::{Lock, System, SystemExt};
use harn_value::{Dict, Value, json};
use harn_vm::{Cx, Error, Result};
use rustc_hash::FxHashMap;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// How often the lock is tried, and the longest pause between two tries: about ten seconds.
const TRIES: u32 = 300;
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// What the program knows of its files, each read when it was first used.
#[derive(Default)]
struct Known {
    files: RefCell<FxHashMap<PathBuf, Content>>,
}

/// A file's text, and what it says.
#[derive(Clone, Default)]
struct Content {
    text: Vec<u8>,
    values: Dict,
}

/// See the module.
pub(super) struct JsonFile {
    known: Rc<Known>,
    system: Rc<dyn System>,
    path: PathBuf,
    /// What it is called in messages.
    name: &'static str,
}

impl JsonFile {
    pub(super) fn new(cx: &Cx, path: PathBuf, name: &'static str) -> JsonFile {
        JsonFile { known: cx.state(), system: cx.vm().system().clone(), path, name }
    }

    fn with<R>(&self, f: impl FnOnce(&Dict) -> R) -> R {
        let mut files = self.known.files.borrow_mut();
        // A file that cannot be read counts as empty.
        let read = || content(self.system.read(&self.path, MAX_BYTES).unwrap_or_default());
        f(&files.entry(self.path.clone()).or_insert_with(read).values)
    }

    pub(super) fn read(&self, key: &str) -> Option<Value> {
        self.with(|values| values.get_str(key).cloned())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.with(|values| values.contains(key))
    }

    pub(super) fn keys(&self) -> Vec<Value> {
        self.with(|values| values.keys().map(Value::from).collect())
    }

    /// Changes the values and writes the file; an error leaves both as they were.
    pub(super) async fn change(&self, cx: &Cx, change: impl FnOnce(&mut Dict)) -> Result<()> {
        let _lock = self.lock(cx).await?;
        self.rewrite(change).map_err(|error| self.failed(&error))
    }

    /// Forgets all values and removes the file.
    pub(super) async fn clear(&self, cx: &Cx) -> Result<()> {
        if !self.path.parent().is_some_and(|folder| self.system.is_dir(folder)) {
            return Ok(());
        }
        let _lock = self.lock(cx).await?;
        match self.system.remove(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failed(&error)),
            _ => {}
        }
        self.known.files.borrow_mut().insert(self.path.clone(), Content::default());
        Ok(())
    }

    fn rewrite(&self, change: impl FnOnce(&mut Dict)) -> io::Result<()> {
        let text = match self.system.read(&self.path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let known = self.known.files.borrow().get(&self.path).filter(|known| known.text == text).cloned();
        let Content { mut values, .. } = known.unwrap_or_else(|| content(text));
        change(&mut values);
        let text = json::pretty(&Value::dict(values.clone())).into_bytes();
        self.system.replace(&self.path, &text)?;
        self.known.files.borrow_mut().insert(self.path.clone(), Content { text, values });
        Ok(())
    }

    /// Waits until no other program changes the file. The lock file beside it stays: removing it would let two programs
    /// hold two locks.
    async fn lock(&self, cx: &Cx) -> Result<Lock> {
        if let Some(folder) = self.path.parent() {
            self.system.make_dirs(folder).map_err(|error| self.failed(&error))?;
        }
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        for tried in 0..TRIES {
            if let Some(lock) = self.system.try_lock(Path::new(&name)).map_err(|error| self.failed(&error))? {
                return Ok(lock);
            }
            cx.sleep(LONGEST_PAUSE.min(Duration::from_millis(1 + u64::from(tried)))).await?;
        }
        let held = format!("another program has held the lock of {} for ten seconds", self.path.display());
        Err(self.failed(&io::Error::new(io::ErrorKind::WouldBlock, held)))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::runtime(format!("{} write error: {error}", self.name))
    }
}

/// A broken text counts as empty.
fn content(text: Vec<u8>) -> Content {
    let values = std::str::from_utf8(&text)
        .ok()
        .and_then(|text| json::parse(text).ok())
        .and_then(|value| value.as_dict().map(|values| (**values).clone()))
        .unwrap_or_default();
    Content { text, values }
}
