//! The store and the checkpoints: values that survive the program, kept as JSON in the state folder.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use harn_system::{System, SystemExt};
use harn_value::{Dict, Value, json};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, Result, builtins};

use super::env::state_root;

builtins! {
    /// Values that survive the program.
    pub(crate) static STORE: "store";

    /// Gives a value from the store, nil when there is none.
    ///
    /// ```harn
    /// store_set("harn_doc_get", 1)
    /// println(store_get("harn_doc_get")) // -> 1
    /// store_delete("harn_doc_get")
    /// ```
    Fs fn store_get(cx, key: Text) -> "any" {
        store(cx).read(&key)
    }

    /// Puts a value into the store, on disk at once.
    ///
    /// The value goes through JSON: what JSON cannot hold is stored as nil.
    ///
    /// ```harn
    /// store_set("harn_doc_set", {a: [1, 2.5]})
    /// println(store_get("harn_doc_set")) // -> {a: [1, 2.5]}
    /// store_delete("harn_doc_set")
    /// ```
    Fs fn store_set(cx, key: Text, value: Value) -> "nil" {
        store(cx).change(|dict| drop(dict.insert(key.0, through_json(&value))))?;
    }

    /// Removes a value from the store.
    ///
    /// ```harn
    /// store_set("harn_doc_delete", 1)
    /// store_delete("harn_doc_delete")
    /// println(store_get("harn_doc_delete")) // -> nil
    /// ```
    Fs fn store_delete(cx, key: Text) -> "nil" {
        store(cx).change(|dict| drop(dict.remove(&key)))?;
    }

    /// Empties the store.
    ///
    /// ```harn
    /// store_set("harn_doc_clear", 1)
    /// store_clear()
    /// println(store_list()) // -> []
    /// ```
    Fs fn store_clear(cx) -> "nil" {
        store(cx).change(|dict| *dict = Dict::new())?;
    }

    /// Lists the keys of the store, sorted.
    ///
    /// ```harn
    /// store_clear()
    /// store_set("b", 1)
    /// store_set("a", 2)
    /// println(store_list()) // -> [a, b]
    /// store_clear()
    /// ```
    Fs fn store_list(cx) -> "list" {
        store(cx).keys()
    }

    /// Writes the store to disk.
    ///
    /// Every change does that already.
    ///
    /// ```harn
    /// println(store_save()) // -> nil
    /// ```
    Fs fn store_save(cx) -> "nil" {
        store(cx).change(|_| {})?;
    }

    /// Keeps a value under a key for the next run of this program.
    ///
    /// ```harn
    /// checkpoint("step", 2)
    /// println(checkpoint_get("step")) // -> 2
    /// checkpoint_clear()
    /// ```
    Fs fn checkpoint(cx, key: Text, value: Value) -> "nil" {
        checkpoints(cx).change(|dict| drop(dict.insert(key.0, through_json(&value))))?;
    }

    /// Gives a checkpoint of this program, nil when there is none.
    ///
    /// ```harn
    /// println(checkpoint_get("no such step")) // -> nil
    /// ```
    Fs fn checkpoint_get(cx, key: Text) -> "any" {
        checkpoints(cx).read(&key)
    }

    /// Says whether this program has a checkpoint.
    ///
    /// ```harn
    /// println(checkpoint_exists("no such step")) // -> false
    /// ```
    Fs fn checkpoint_exists(cx, key: Text) -> "bool" {
        checkpoints(cx).has(&key)
    }

    /// Lists the checkpoints of this program, sorted.
    ///
    /// ```harn
    /// checkpoint("b", 1)
    /// checkpoint("a", 1)
    /// println(checkpoint_list()) // -> [a, b]
    /// checkpoint_clear()
    /// ```
    Fs fn checkpoint_list(cx) -> "list" {
        checkpoints(cx).keys()
    }

    /// Removes a checkpoint of this program.
    ///
    /// ```harn
    /// checkpoint("a", 1)
    /// checkpoint_delete("a")
    /// println(checkpoint_exists("a")) // -> false
    /// checkpoint_clear()
    /// ```
    Fs fn checkpoint_delete(cx, key: Text) -> "nil" {
        checkpoints(cx).change(|dict| drop(dict.remove(&key)))?;
    }

    /// Removes all checkpoints of this program, and their file.
    ///
    /// ```harn
    /// checkpoint("a", 1)
    /// checkpoint_clear()
    /// println(checkpoint_list()) // -> []
    /// ```
    Fs fn checkpoint_clear(cx) -> "nil" {
        checkpoints(cx).clear()?;
    }
}

/// What was read of the two files, each when it was first used.
#[derive(Default)]
struct Kept {
    store: RefCell<Option<Dict>>,
    checkpoints: RefCell<Option<Dict>>,
}

/// One of the two files.
struct Place {
    kept: std::rc::Rc<Kept>,
    system: std::rc::Rc<dyn System>,
    path: PathBuf,
    name: &'static str,
}

fn store(cx: &Cx) -> Place {
    Place {
        kept: cx.state(),
        system: cx.vm().system().clone(),
        path: state_root(cx).join("store.json"),
        name: "store",
    }
}

fn checkpoints(cx: &Cx) -> Place {
    let file = cx.caller_file();
    let stem = Path::new(&*file).file_stem().map_or_else(|| "main".into(), |stem| stem.to_string_lossy());
    let path = state_root(cx).join("checkpoints").join(format!("{stem}.json"));
    Place { kept: cx.state(), system: cx.vm().system().clone(), path, name: "checkpoint" }
}

impl Place {
    fn with<R>(&self, f: impl FnOnce(&mut Dict) -> R) -> R {
        let cell = if self.name == "store" { &self.kept.store } else { &self.kept.checkpoints };
        // A broken file counts as empty.
        let read = || {
            let text = self.system.read_text(&self.path, u64::MAX).ok()?;
            json::parse(&text).ok()?.as_dict().map(|dict| (**dict).clone())
        };
        f(cell.borrow_mut().get_or_insert_with(|| read().unwrap_or_default()))
    }

    fn read(&self, key: &str) -> Option<Value> {
        self.with(|dict| dict.get_str(key).cloned())
    }

    fn has(&self, key: &str) -> bool {
        self.with(|dict| dict.contains(key))
    }

    fn keys(&self) -> Vec<Value> {
        self.with(|dict| dict.keys().map(Value::from).collect())
    }

    /// Changes the values and writes the file; an error leaves the file as it was.
    fn change(&self, change: impl FnOnce(&mut Dict)) -> Result<()> {
        let text = self.with(|dict| {
            change(dict);
            json::pretty(&Value::dict(dict.clone()))
        });
        self.write(&text).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::runtime(format!("{} write error: {error}", self.name))
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        if let Some(dir) = self.path.parent() {
            self.system.make_dirs(dir)?;
        }
        self.system.replace(&self.path, text.as_bytes())
    }

    fn clear(&self) -> Result<()> {
        self.with(|dict| *dict = Dict::new());
        match self.system.remove(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }
}

/// The value as it will be read again.
fn through_json(value: &Value) -> Value {
    json::parse(&json::stringify(value)).unwrap_or_default()
}
