//! A JSON object in a file that several programs may change at the same time: each change is made under a lock, to the
//! current content of the file, and replaces the file atomically.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{Lock, System, SystemExt};
use harn_value::{Dict, Value, json};
use harn_vm::{Cx, Error, Result};
use rustc_hash::FxHashMap;

/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The cached files of the program, each read on first use.
#[derive(Default)]
struct Known {
    files: RefCell<FxHashMap<PathBuf, Content>>,
}

/// The content of a file and its parsed values.
#[derive(Clone, Default)]
struct Content {
    text: Vec<u8>,
    values: Dict,
    /// The reason why the content is malformed, if it is.
    broken: Option<String>,
}

/// See the module documentation.
pub(super) struct JsonFile {
    known: Rc<Known>,
    /// The system with the policy of the code that uses the file.
    system: Rc<dyn System>,
    cx: Cx,
    path: PathBuf,
    /// The name in messages.
    name: &'static str,
}

impl JsonFile {
    pub(super) fn new(cx: &Cx, path: PathBuf, name: &'static str) -> JsonFile {
        JsonFile { known: cx.state(), system: cx.system(), cx: cx.clone(), path, name }
    }

    fn with<R>(&self, f: impl FnOnce(&Dict) -> R) -> Result<R> {
        // The cached content may have been read by a task with more permissions.
        self.system.check_read(&self.path).map_err(|error| self.failed("read", &error))?;
        if !self.known.files.borrow().contains_key(&self.path) {
            let content = self.first_read()?;
            self.known.files.borrow_mut().insert(self.path.clone(), content);
        }
        let files = self.known.files.borrow();
        Ok(f(files.get(&self.path).map_or(&Dict::new(), |content| &content.values)))
    }

    /// Reads the file. An unreadable file is treated as empty, with a warning; a file that the policy or the system
    /// forbids to read is an error.
    fn first_read(&self) -> Result<Content> {
        let text = match self.system.read(&self.path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(self.failed("read", &error));
            }
            Err(error) => {
                self.warn(&format!("cannot be read ({error}) and counts as empty"));
                return Ok(Content::default());
            }
        };
        let content = content(text);
        if let Some(why) = &content.broken {
            self.warn(&format!("{why}. It counts as empty, and is set aside before it is written anew"));
        }
        Ok(content)
    }

    fn warn(&self, what: &str) {
        self.system.write_err(&harn_vm::notice(&format!("warning: {} {what}", self.path.display())));
    }

    pub(super) fn read(&self, key: &str) -> Result<Option<Value>> {
        self.with(|values| values.get_str(key).cloned())
    }

    pub(super) fn has(&self, key: &str) -> Result<bool> {
        self.with(|values| values.contains(key))
    }

    pub(super) fn keys(&self) -> Result<Vec<Value>> {
        self.with(|values| values.keys().map(Value::from).collect())
    }

    /// Changes the values and writes the file; on error, both are unchanged.
    pub(super) async fn change(&self, cx: &Cx, change: impl FnOnce(&mut Dict)) -> Result<()> {
        let _lock = self.lock(cx).await?;
        self.rewrite(change).map_err(|error| self.failed("write", &error))
    }

    /// Removes all values and the file.
    pub(super) async fn clear(&self, cx: &Cx) -> Result<()> {
        if !self.path.parent().is_some_and(|folder| self.system.is_dir(folder)) {
            return Ok(());
        }
        let _lock = self.lock(cx).await?;
        match self.system.remove(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failed("write", &error)),
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
        let Content { mut values, broken, .. } = known.unwrap_or_else(|| content(text));
        change(&mut values);
        let aside = broken.map(|why| self.set_aside().map(|aside| (aside, why))).transpose()?;
        let text = json::pretty(&Value::dict(values.clone())).into_bytes();
        let written = self.system.replace(&self.path, &text);
        if let Some((aside, why)) = aside {
            if written.is_err() {
                let _ = self.system.remove(&aside);
            } else {
                self.warn(&format!("{why}. What it held is kept as {}", aside.display()));
            }
        }
        written?;
        self.known.files.borrow_mut().insert(self.path.clone(), Content { text, values, broken: None });
        Ok(())
    }

    /// Copies a malformed file to an unused name next to it.
    fn set_aside(&self) -> io::Result<PathBuf> {
        let named = |n: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".broken-{n}"));
            PathBuf::from(name)
        };
        let free = (1..).map(named).find(|path| self.system.link_facts(path).is_err());
        let aside = free.unwrap_or_else(|| named(0));
        self.system.copy(&self.path, &aside)?;
        Ok(aside)
    }

    /// Acquires the lock of the file, waiting for other programs.
    async fn lock(&self, cx: &Cx) -> Result<Lock> {
        if let Some(folder) = self.path.parent() {
            self.system.make_dirs(folder).map_err(|error| self.failed("write", &error))?;
        }
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        let lock = crate::file_lock::wait(cx, &*self.system, Path::new(&name)).await?;
        lock.map_err(|error| self.failed("write", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        let text = || Error::runtime(format!("{} {what} error: {error}", self.name));
        self.cx.refusal(error).unwrap_or_else(text)
    }
}

/// Parses the content of a file. An empty file has no values; malformed content is treated as empty.
fn content(text: Vec<u8>) -> Content {
    let (values, broken) = match values(&text) {
        Ok(values) => (values, None),
        Err(why) => (Dict::new(), Some(why)),
    };
    Content { text, values, broken }
}

fn values(text: &[u8]) -> std::result::Result<Dict, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("is no text: {error}"))?;
    if text.trim().is_empty() {
        return Ok(Dict::new());
    }
    let value = json::parse(text).map_err(|error| format!("is not valid JSON: {error}"))?;
    value.as_dict().map(|values| (**values).clone()).ok_or_else(|| "holds JSON that is no object".to_owned())
}
