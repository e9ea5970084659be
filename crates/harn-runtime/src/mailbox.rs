//! The mailbox of a workflow: messages, replies and published values in a file that several programs may change
//! concurrently. Each change locks the file, applies to its current content, and replaces it atomically.

use std::io;
use std::path::PathBuf;

use harn_stdlib::state_place;
use harn_system::Lock;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Error, Result};

use crate::convert::thrown;

/// Maximum size of a file that is read: 64 MiB.
const MAX_STATE: u64 = 64 << 20;

/// The mailbox of one workflow.
pub(crate) struct Mailbox<'a> {
    cx: &'a Cx,
    function: &'static str,
    /// The id of the workflow.
    pub(crate) id: String,
    folder: PathBuf,
}

impl<'a> Mailbox<'a> {
    /// Returns the mailbox of a target: a dict with `workflow_id`, a run or session, or an id.
    pub(crate) fn of(cx: &'a Cx, function: &'static str, target: &Json) -> Result<Mailbox<'a>> {
        let run = if target["workflow_id"].is_string() { target } else { &target["run"] };
        let id = target.as_str().or_else(|| run["workflow_id"].as_str()).filter(|id| !id.is_empty());
        let Some(id) = id else {
            return Err(thrown(format!(
                "{function}: target must be a workflow id, or a run, session or dict with workflow_id"
            )));
        };
        let folder = state_place(cx, "HARN_WORKFLOW_STATE_DIR", "workflows").join(file_name(id));
        Ok(Mailbox { cx, function, id: id.to_owned(), folder })
    }

    fn file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        let text = || thrown(format!("{}: cannot {what} {}: {error}", self.function, self.file().display()));
        self.cx.refusal(error).unwrap_or_else(text)
    }

    /// Reads the state. A damaged file is an error, because the next change would overwrite it.
    pub(crate) fn read(&self) -> Result<Json> {
        let bytes = match self.cx.system().read(&self.file(), MAX_STATE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty(&self.id)),
            Err(error) => return Err(self.failed("read", &error)),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| self.failed("read", &io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    /// Changes the state.
    pub(crate) async fn change<T>(&self, change: impl FnOnce(&mut Json) -> T) -> Result<T> {
        let _lock = self.lock().await?;
        let mut state = self.read()?;
        let out = change(&mut state);
        let text = serde_json::to_vec_pretty(&state).map_err(thrown)?;
        self.cx.system().replace(&self.file(), &text).map_err(|error| self.failed("write", &error))?;
        Ok(out)
    }

    async fn lock(&self) -> Result<Lock> {
        let system = self.cx.system();
        system.make_dirs(&self.folder).map_err(|error| self.failed("make the folder of", &error))?;
        let path = self.folder.join("state.lock");
        let lock = harn_stdlib::wait_for_lock(self.cx, &*system, &path).await?;
        lock.map_err(|error| self.failed("lock", &error))
    }

    /// Returns the status that scripts receive.
    pub(crate) fn status(&self, state: &Json) -> Json {
        let count = |key: &str| match &state[key] {
            Json::Array(list) => list.len(),
            Json::Object(map) => map.len(),
            _ => 0,
        };
        json!({
            "workflow_id": self.id, "base_dir": self.folder.display().to_string(), "generation": state["generation"],
            "paused": state["paused"], "pending_count": count("mailbox"), "query_count": count("queries"),
            "response_count": count("responses"), "continue_as_new_count": state["continue_as_new_count"],
            "last_continue_as_new_at": state["last_continue_as_new_at"],
        })
    }
}

fn empty(id: &str) -> Json {
    json!({
        "_type": "workflow_state", "workflow_id": id, "generation": 1, "paused": false, "next_seq": 1, "mailbox": [],
        "queries": {}, "responses": {}, "continue_as_new_count": 0, "last_continue_as_new_at": null,
    })
}

/// Adds a message and returns it.
pub(crate) fn post(
    state: &mut Json,
    kind: &str,
    name: &str,
    request: &Json,
    payload: Json,
    now: &str,
) -> Json {
    let seq = state["next_seq"].as_i64().unwrap_or(1);
    let message = json!({
        "workflow_id": state["workflow_id"], "seq": seq, "kind": kind, "name": name, "request_id": request,
        "payload": payload, "enqueued_at": now,
    });
    state["next_seq"] = (seq + 1).into();
    if let Some(list) = state["mailbox"].as_array_mut() {
        list.push(message.clone());
    }
    message
}

/// Returns a directory name for any id: different ids have different names, and no name contains a path.
fn file_name(id: &str) -> String {
    let mut out = String::new();
    for (at, byte) in id.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && at > 0);
        if plain { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    if out.len() <= 200 {
        return out;
    }
    // Too long for a file name: use a prefix and a hash of the whole id.
    let number = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |n, byte| (n ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}%{number:016x}", &out[..180])
}
