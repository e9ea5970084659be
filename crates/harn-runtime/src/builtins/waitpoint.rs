//! Waitpoints.

use std::time::Duration;

use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Result, builtins};

use crate::convert::{data_option as data, from_json, thrown};
use crate::hitl::options;
use crate::waitpoint::{Wait, checked, create, resolve};

builtins! {
    /// Waitpoints.
    pub(crate) static WAITPOINTS: "waitpoints";

    /// Makes a waitpoint, and gives it: `{id, status, created_at, created_by, completed_at, completed_by, cancelled_at, cancelled_by, value, reason, metadata}`.
    ///
    /// Takes an id (without one it is drawn) or `{id, by, metadata}`. Who makes one that is there gets it as it stands.
    /// `std/waitpoint` has the same with shorter names.
    ///
    /// ```harn
    /// println(waitpoint_create("paid").status) // -> open
    /// ```
    Random fn waitpoint_create(cx, waitpoint: Value as "!string | {id?: string, by?: string, metadata?: dict}?") -> "dict" {
        let (id, given) = match waitpoint.as_str() {
            Some(id) => (Some(id.to_string()), Map::new()),
            None => {
                let given = options("waitpoint_create", &waitpoint, &["id", "by", "metadata"])?;
                (text("waitpoint_create", &given, "id")?, given)
            }
        };
        let id = id.map(|id| checked("waitpoint_create", &id)).transpose()?;
        let by = text("waitpoint_create", &given, "by")?.into();
        from_json(&create(cx, id, by, metadata("waitpoint_create", &waitpoint, &given)?)?)
    }

    /// Completes a waitpoint: all who wait for it go on.
    ///
    /// Options: `value` (data as JSON has it), `by`, `reason`, `metadata` (added to that of the waitpoint). One that is completed
    /// or cancelled already is an error.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// println(waitpoint_complete("paid", {value: 120, by: "bank"}).status) // -> completed
    /// ```
    State fn waitpoint_complete(cx, waitpoint: Value as "!string | dict", options: Value as "!{value?: any, by?: string, reason?: string, metadata?: dict}?") -> "dict" {
        let name = "waitpoint_complete";
        let id = id_of(name, &waitpoint)?;
        let given = self::options(name, &options, &["value", "by", "reason", "metadata"])?;
        let value = data(name, &options, "value")?;
        let payload = json!({
            "value": value, "by": text(name, &given, "by")?, "reason": text(name, &given, "reason")?,
            "metadata": metadata(name, &options, &given)?,
        });
        from_json(&resolve(cx, name, &id, "waitpoint.completed", &payload)?)
    }

    /// Cancels a waitpoint: it will not be completed.
    ///
    /// Options: `by`, `reason`, `metadata`. One that is completed or cancelled already is an error.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// println(waitpoint_cancel("paid", {reason: "too late"}).reason) // -> too late
    /// ```
    State fn waitpoint_cancel(cx, waitpoint: Value as "!string | dict", options: Value as "!{by?: string, reason?: string, metadata?: dict}?") -> "dict" {
        let name = "waitpoint_cancel";
        let id = id_of(name, &waitpoint)?;
        let given = self::options(name, &options, &["by", "reason", "metadata"])?;
        let payload = json!({
            "by": text(name, &given, "by")?, "reason": text(name, &given, "reason")?,
            "metadata": metadata(name, &options, &given)?,
        });
        from_json(&resolve(cx, name, &id, "waitpoint.cancelled", &payload)?)
    }

    /// Waits until a waitpoint, or each of a list, is completed, one is cancelled, or `timeout` is over.
    ///
    /// The result is `{status, waitpoints, reason, ...}` with `status` `completed`, `cancelled`, `timed_out` or `interrupted` (the
    /// task that waits was cancelled); nothing is thrown.
    /// A durable run that only waits holds no process; `harn answer RUN ID VALUE` completes the waitpoint. A host is asked
    /// `waitpoint.wait`. Options: `timeout` (a duration or milliseconds; without one there is no limit), `wait_id`.
    ///
    /// ```harn
    /// waitpoint_create("paid")
    /// spawn { waitpoint_complete("paid", {value: 120}) }
    /// println(waitpoint_wait("paid").waitpoints[0].value) // -> 120
    /// println(waitpoint_wait([waitpoint_create("never")], {timeout: 1ms}).status) // -> timed_out
    /// ```
    Random async fn waitpoint_wait(cx, waitpoint: Value as "!string | dict | list", options: Value as "!{timeout?: duration | int | float, wait_id?: string}?") -> "dict" {
        let name = "waitpoint_wait";
        let ids = match waitpoint.as_list() {
            Some(list) => list.iter().map(|one| id_of(name, one)).collect::<Result<Vec<_>>>()?,
            None => vec![id_of(name, &waitpoint)?],
        };
        let given = self::options(name, &options, &["timeout", "wait_id"])?;
        let wait_id = text(name, &given, "wait_id")?;
        let wait = Wait { wait_id, ids, timeout: time(&options)? };
        from_json(&wait.run(&cx).await?)
    }
}

/// The id of a waitpoint that is given by its id or as a value.
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

/// An option that is text.
fn text(function: &str, given: &Map<String, Json>, key: &str) -> Result<Option<String>> {
    match given.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(thrown(format!("{function}: {key} must be a string"))),
    }
}

fn metadata(function: &str, options: &Value, given: &Map<String, Json>) -> Result<Json> {
    match given.get("metadata") {
        None | Some(Json::Null) => Ok(Json::Null),
        Some(Json::Object(_)) => data(function, options, "metadata"),
        Some(_) => Err(thrown(format!("{function}: metadata must be a dict"))),
    }
}

/// How long a wait may take, if it is limited.
fn time(options: &Value) -> Result<Option<Duration>> {
    let value = crate::convert::entry(options, "timeout");
    if value.is_nil() {
        return Ok(None);
    }
    let ms = value.as_duration().or_else(|| value.as_int()).and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.ok_or_else(|| {
        thrown("waitpoint_wait: timeout: expected a duration or millisecond count, not below zero")
    })?;
    Ok(Some(Duration::from_millis(ms)))
}
