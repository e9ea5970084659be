//! The store and the checkpoints: values that outlive the program, saved as JSON in the state directory.

use std::path::Path;

use harn_value::{Dict, Value, json};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, Result, builtins};

use super::env::state_file;
use super::json_file::JsonFile;

builtins! {
    /// Persistent values.
    pub(crate) static STORE: "store";

    /// Returns a value from the store, or nil if the key does not exist.
    ///
    /// ```harn
    /// store_set("harn_doc_get", 1)
    /// println(store_get("harn_doc_get")) // -> 1
    /// store_delete("harn_doc_get")
    /// ```
    Fs fn store_get(cx, key: Text as "string") -> "any" {
        store(cx).read(&key)?
    }

    /// Stores a value and writes it to disk immediately.
    ///
    /// The value is converted to JSON: a value that JSON cannot represent is stored as nil, and nesting that is too
    /// deep to be read is an error. Concurrent programs do not overwrite each other's values.
    ///
    /// ```harn
    /// store_set("harn_doc_set", {a: [1, 2.5]})
    /// println(store_get("harn_doc_set")) // -> {a: [1, 2.5]}
    /// store_delete("harn_doc_set")
    /// ```
    Keep async fn store_set(cx, key: Text as "string", value: Value) -> "nil" {
        let value = through_json("store_set", &value)?;
        store(&cx).change(&cx, |dict| drop(dict.insert(key.0, value))).await?;
    }

    /// Removes a value from the store.
    ///
    /// ```harn
    /// store_set("harn_doc_delete", 1)
    /// store_delete("harn_doc_delete")
    /// println(store_get("harn_doc_delete")) // -> nil
    /// ```
    Keep async fn store_delete(cx, key: Text as "string") -> "nil" {
        store(&cx).change(&cx, |dict| drop(dict.remove(&key))).await?;
    }

    /// Removes all values from the store.
    ///
    /// ```harn
    /// store_set("harn_doc_clear", 1)
    /// store_clear()
    /// println(store_list()) // -> []
    /// ```
    Keep async fn store_clear(cx) -> "nil" {
        store(&cx).change(&cx, |dict| *dict = Dict::new()).await?;
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
        store(cx).keys()?
    }

    /// Writes the store to disk.
    ///
    /// Not needed: every change is written immediately.
    ///
    /// ```harn
    /// println(store_save()) // -> nil
    /// ```
    Keep async fn store_save(cx) -> "nil" {
        store(&cx).change(&cx, |_| {}).await?;
    }

    /// Stores a value under a key for later runs of this program.
    ///
    /// ```harn
    /// checkpoint("step", 2)
    /// println(checkpoint_get("step")) // -> 2
    /// checkpoint_clear()
    /// ```
    Keep async fn checkpoint(cx, key: Text as "string", value: Value) -> "nil" {
        let value = through_json("checkpoint", &value)?;
        checkpoints(&cx).change(&cx, |dict| drop(dict.insert(key.0, value))).await?;
    }

    /// Returns a checkpoint of this program, or nil if it does not exist.
    ///
    /// ```harn
    /// println(checkpoint_get("no such step")) // -> nil
    /// ```
    Fs fn checkpoint_get(cx, key: Text as "string") -> "any" {
        checkpoints(cx).read(&key)?
    }

    /// Returns whether this program has a checkpoint with this key.
    ///
    /// ```harn
    /// println(checkpoint_exists("no such step")) // -> false
    /// ```
    Fs fn checkpoint_exists(cx, key: Text as "string") -> "bool" {
        checkpoints(cx).has(&key)?
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
        checkpoints(cx).keys()?
    }

    /// Removes a checkpoint of this program.
    ///
    /// ```harn
    /// checkpoint("a", 1)
    /// checkpoint_delete("a")
    /// println(checkpoint_exists("a")) // -> false
    /// checkpoint_clear()
    /// ```
    Keep async fn checkpoint_delete(cx, key: Text as "string") -> "nil" {
        checkpoints(&cx).change(&cx, |dict| drop(dict.remove(&key))).await?;
    }

    /// Removes all checkpoints of this program, and their file.
    ///
    /// ```harn
    /// checkpoint("a", 1)
    /// checkpoint_clear()
    /// println(checkpoint_list()) // -> []
    /// ```
    Keep async fn checkpoint_clear(cx) -> "nil" {
        checkpoints(&cx).clear(&cx).await?;
    }
}

fn store(cx: &Cx) -> JsonFile {
    JsonFile::new(cx, state_file(cx, "store.json"), "store")
}

/// Returns the checkpoints of the program, which all its modules share.
fn checkpoints(cx: &Cx) -> JsonFile {
    let file = cx.vm().program_file();
    let stem = Path::new(&*file).file_stem().map_or_else(|| "main".into(), |stem| stem.to_string_lossy());
    JsonFile::new(cx, state_file(cx, &format!("checkpoints/{stem}.json")), "checkpoint")
}

/// Returns the value as it will be parsed. It is nested one level deeper in the file, where an unparsable value would
/// make the other values unreadable.
pub(super) fn through_json(function: &str, value: &Value) -> Result<Value> {
    let read = json::parse(&format!("[{}]", json::stringify(value)));
    read.ok().and_then(|list| list.as_list()?.first().cloned()).ok_or_else(|| {
        Error::runtime(format!("{function}: value is nested deeper than {} levels", json::MAX_DEPTH - 1))
    })
}
