//! Waitpoints.

use std::time::Duration;

use harn_schema::options::Options;
use harn_value::{Value, json};
use harn_vm::builtin::OptionDict;
use harn_vm::{Result, builtins};

use crate::convert::{data, from_json, thrown};
use crate::waitpoint::{Wait, checked, create, resolve};

/// Fields of `waitpoint_create`.
#[derive(Options)]
#[options(thrown, own_type, short = "id")]
struct NewWaitpoint {
    /// Id; generated if missing.
    id: Option<String>,
    /// Creator.
    by: Option<String>,
    /// Data of the program.
    #[option(ty = "dict")]
    metadata: Value,
}

/// Options of `waitpoint_complete`.
#[derive(Options)]
#[options(thrown, own_type)]
struct CompleteOptions {
    /// The result, as JSON data.
    value: Value,
    /// Name of the completing party.
    by: Option<String>,
    /// Reason.
    reason: Option<String>,
    /// Data to add to the metadata of the waitpoint.
    #[option(ty = "dict")]
    metadata: Value,
}

/// Options of `waitpoint_cancel`.
#[derive(Options)]
#[options(thrown, own_type)]
struct CancelOptions {
    /// Name of the cancelling party.
    by: Option<String>,
    /// Reason.
    reason: Option<String>,
    /// Data to add to the metadata of the waitpoint.
    #[option(ty = "dict")]
    metadata: Value,
}

/// Options of `waitpoint_wait`.
#[derive(Options)]
#[options(thrown, own_type)]
struct WaitOptions {
    /// Time limit: a duration or milliseconds; unlimited if missing.
    #[option(ty = "duration | int | float", with = wait_limit)]
    timeout: Option<Duration>,
    /// Id of the wait in errors and records.
    wait_id: Option<String>,
}

builtins! {
    /// Waitpoints.
    pub(crate) static WAITPOINTS: "waitpoints";

    /// Creates a waitpoint and returns it.
    ///
    /// The result is `{id, status, created_at, created_by, completed_at, completed_by, cancelled_at, cancelled_by,
    /// value, reason, metadata}`.
    ///
    /// The argument is an id (generated if missing) or `{id, by, metadata}`. An existing waitpoint with that id is
    /// returned unchanged. `std/waitpoint` has the same functions under shorter names.
    ///
    /// ```harn
    /// println(waitpoint_create("paid").status) // -> open
    /// ```
    Random fn waitpoint_create(cx, waitpoint: OptionDict<NewWaitpoint>) -> "dict" {
        let NewWaitpoint { id, by, metadata } = waitpoint.read()?;
        let id = id.as_deref().map(|id| checked("waitpoint_create", id)).transpose()?;
        from_json(&create(cx, id, by.into(), data("waitpoint_create: metadata", &metadata)?)?)
    }

    /// Completes a waitpoint: all tasks that wait for it continue.
    ///
    /// Completing a completed or cancelled waitpoint is an error.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// println(waitpoint_complete("paid", {value: 120, by: "bank"}).status) // -> completed
    /// ```
    State fn waitpoint_complete(cx, waitpoint: Value as "!string | dict", options: OptionDict<CompleteOptions>) -> "dict" {
        let name = "waitpoint_complete";
        let id = id_of(name, &waitpoint)?;
        let CompleteOptions { value, by, reason, metadata } = options.read()?;
        let value = data("waitpoint_complete: value", &value)?;
        let metadata = data("waitpoint_complete: metadata", &metadata)?;
        let payload = json!({"value": value, "by": by, "reason": reason, "metadata": metadata});
        from_json(&resolve(cx, name, &id, "waitpoint.completed", &payload)?)
    }

    /// Cancels a waitpoint: it cannot be completed later.
    ///
    /// Cancelling a completed or cancelled waitpoint is an error.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// println(waitpoint_cancel("paid", {reason: "too late"}).reason) // -> too late
    /// ```
    State fn waitpoint_cancel(cx, waitpoint: Value as "!string | dict", options: OptionDict<CancelOptions>) -> "dict" {
        let name = "waitpoint_cancel";
        let id = id_of(name, &waitpoint)?;
        let CancelOptions { by, reason, metadata } = options.read()?;
        let metadata = data("waitpoint_cancel: metadata", &metadata)?;
        let payload = json!({"by": by, "reason": reason, "metadata": metadata});
        from_json(&resolve(cx, name, &id, "waitpoint.cancelled", &payload)?)
    }

    /// Waits until a waitpoint, or each of a list, is completed, one is cancelled, or `timeout` expires.
    ///
    /// The result is `{status, waitpoints, reason, ...}` with `status` `completed`, `cancelled`, `timed_out` or
    /// `interrupted` (the waiting task was cancelled); nothing is thrown. A durable run that only waits needs no
    /// process `harn answer RUN ID VALUE` completes the waitpoint. A host receives the request `waitpoint.wait`.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// spawn { waitpoint_complete("paid", {value: 120}) }
    /// println(waitpoint_wait("paid").waitpoints[0].value) // -> 120
    /// println(waitpoint_wait([waitpoint_create("never")], {timeout: 1ms}).status) // -> timed_out
    /// ```
    Random async fn waitpoint_wait(cx, waitpoint: Value as "!string | dict | list", options: OptionDict<WaitOptions>) -> "dict" {
        let name = "waitpoint_wait";
        let ids = match waitpoint.as_list() {
            Some(list) => list.iter().map(|one| id_of(name, one)).collect::<Result<Vec<_>>>()?,
            None => vec![id_of(name, &waitpoint)?],
        };
        let WaitOptions { timeout, wait_id } = options.read()?;
        let wait = Wait { wait_id, ids, timeout };
        from_json(&wait.run(&cx).await?)
    }
}

/// Returns the id of a waitpoint that is passed as an id or as a value.
fn id_of(function: &str, waitpoint: &Value) -> Result<String> {
    let entry = crate::convert::entry(waitpoint, "id");
    match waitpoint.as_str().or_else(|| entry.as_str()) {
        Some(id) => checked(function, id),
        None => Err(thrown(format!(
            "{function}: expected the id of a waitpoint or a waitpoint, got {}",
            harn_value::short(waitpoint, 60)
        ))),
    }
}

fn wait_limit(value: &Value) -> std::result::Result<Option<Duration>, String> {
    let ms = value.as_duration().or_else(|| value.as_int()).and_then(|ms| u64::try_from(ms).ok());
    let wrong = || ": expected a duration or millisecond count, not below zero".to_owned();
    ms.map(|ms| Some(Duration::from_millis(ms))).ok_or_else(wrong)
}
