//! Messages to workflows: signals, updates with a reply, and published values.

use std::time::Duration;

use harn_schema::options::Options;
use harn_stdlib::timestamp_now;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::builtin::OptionDict;
use harn_vm::closure::Closure;
use harn_vm::{Builtin, Cx, Error, Result, builtins};

use crate::anew;
use crate::convert::{data, from_json, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::mailbox::{Mailbox, post};

/// Options of `workflow.update`.
#[derive(Options)]
struct UpdateOptions {
    /// Time limit for the answer.
    #[option(default = Duration::from_secs(30), shown = "30s")]
    timeout_ms: Duration,
}

/// Options of `continue_as_new`.
#[derive(Options)]
struct ContinueOptions {
    /// Data that the next generation starts with; the current program ends.
    #[option(nil)]
    state: Option<Value>,
}

builtins! {
    /// Messages to workflows.
    pub(crate) static MAILBOX: "workflows";

    /// Starts the next generation of a workflow: its mailbox stays, its answers are dropped.
    ///
    /// With the option `state`, JSON data, the program exits here and restarts from its first line; there, `continued_state`
    /// returns the state. A durable run starts a new journal.
    ///
    /// ```harn
    /// println(continue_as_new("demo-next").generation) // -> 2
    /// ```
    Fs async fn continue_as_new(cx, target: Value as "any?", options: OptionDict<ContinueOptions>) -> "dict" {
        next_generation(&cx, "continue_as_new", &target, options.read()?).await?
    }

    /// Returns the state passed to `continue_as_new(target, {state: ...})` before the restart; nil the first time.
    ///
    /// ```harn
    /// let n = continued_state()?.n ?? 1
    /// println("turn ${n}") // -> turn 1
    /// ```
    State fn continued_state(cx) -> "any" {
        from_json(&anew::state(cx))
    }
}

builtins! {
    /// Methods of `workflow`: the builtin `workflow` is the receiver of `workflow.NAME(…)`.
    pub(crate) static METHODS: "workflows";

    /// Adds a message to the mailbox of a workflow: `{workflow_id, message, status}`.
    ///
    /// ```harn
    /// let sent = workflow.signal("demo-signal", "hello", {n: 1})
    /// println(sent.message.payload) // -> {n: 1}
    /// workflow.receive("demo-signal")
    /// ```
    Fs async fn signal(cx, this: Value, target: Value as "any?", name: Value as "any?", payload: Value as "any?") -> "dict" {
        let name = called(&this, "signal", &name)?;
        let mailbox = Mailbox::of(&cx, "workflow.signal", &to_json(&target))?;
        let (now, payload) = (timestamp_now(&cx), data("workflow.signal: payload", &payload)?);
        let (message, status) = mailbox
            .change(|state| (post(state, "signal", &name, &Json::Null, payload, &now), mailbox.status(state)))
            .await?;
        from_json(&json!({"workflow_id": mailbox.id, "message": message, "status": status}))
    }

    /// Takes the oldest message of a workflow; nil if the mailbox is empty.
    ///
    /// ```harn
    /// workflow.signal("demo-receive", "hello")
    /// println([workflow.receive("demo-receive").name, workflow.receive("demo-receive")]) // -> [hello, nil]
    /// ```
    Fs async fn receive(cx, this: Value, target: Value as "any?") -> "dict | nil" {
        of_workflow(&this, "receive")?;
        let mailbox = Mailbox::of(&cx, "workflow.receive", &to_json(&target))?;
        let take = |state: &mut Json| match state["mailbox"].as_array_mut() {
            Some(list) if !list.is_empty() => list.remove(0),
            _ => Json::Null,
        };
        // An empty mailbox is not written to the file.
        if mailbox.read()?["mailbox"].as_array().is_none_or(Vec::is_empty) {
            return Ok(Value::NIL);
        }
        from_json(&mailbox.change(take).await?)
    }

    /// Publishes a value of a workflow for queries; returns its status.
    ///
    /// ```harn
    /// println(workflow.publish_query("demo-query", "progress", 40).query_count) // -> 1
    /// ```
    Fs async fn publish_query(cx, this: Value, target: Value as "any?", name: Value as "any?", value: Value as "any?") -> "dict" {
        let name = called(&this, "publish_query", &name)?;
        let mailbox = Mailbox::of(&cx, "workflow.publish_query", &to_json(&target))?;
        let value = data("workflow.publish_query: value", &value)?;
        let status = mailbox.change(|state| { state["queries"][name.as_str()] = value; mailbox.status(state) }).await?;
        from_json(&status)
    }

    /// Returns the value that a workflow published last; nil if no value was published.
    ///
    /// ```harn
    /// workflow.publish_query("demo-ask", "progress", 40)
    /// println([workflow.query("demo-ask", "progress"), workflow.query("demo-ask", "other")]) // -> [40, nil]
    /// ```
    Fs fn query(cx, this: Value, target: Value as "any?", name: Value as "any?") -> "any" {
        let name = called(&this, "query", &name)?;
        let mailbox = Mailbox::of(cx, "workflow.query", &to_json(&target))?;
        from_json(&mailbox.read()?["queries"][name.as_str()])
    }

    /// Adds a message and waits for its answer.
    ///
    /// The option `timeout_ms` is the time limit (30000, or a duration).
    ///
    /// ```harn
    /// println(try { workflow.update("demo-update", "rename", nil, {timeout_ms: 1}) }) // -> Result.Err(workflow update 'rename' timed out for 'demo-update')
    /// workflow.receive("demo-update")
    /// ```
    Fs async fn update(cx, this: Value, target: Value as "any?", name: Value as "any?", payload: Value as "any?", options: OptionDict<UpdateOptions>) -> "any" {
        let name = called(&this, "update", &name)?;
        let mailbox = Mailbox::of(&cx, "workflow.update", &to_json(&target))?;
        let UpdateOptions { timeout_ms } = options.read()?;
        let payload = data("workflow.update: payload", &payload)?;
        let (now, request) = (timestamp_now(&cx), new_id(cx.vm()));
        let asked = Json::from(request.as_str());
        mailbox.change(|state| drop(post(state, "update", &name, &asked, payload, &now))).await?;
        let started = cx.system().monotonic();
        let mut pause = 2;
        loop {
            if !mailbox.read()?["responses"][request.as_str()].is_null() {
                let answer = mailbox
                    .change(|state| state["responses"].as_object_mut().and_then(|map| map.shift_remove(&request)))
                    .await?;
                return Ok(from_json(&answer.unwrap_or_default()["value"]));
            }
            let left = timeout_ms.saturating_sub(cx.system().monotonic().saturating_sub(started));
            if left.is_zero() {
                return Err(thrown(format!("workflow update '{name}' timed out for '{}'", mailbox.id)));
            }
            cx.sleep(left.min(Duration::from_millis(pause))).await?;
            pause = (pause * 2).min(50);
        }
        #[allow(unreachable_code, reason = "the loop returns; the macro wants a value")]
        Value::NIL
    }

    /// Answers an update; returns the status of the workflow.
    ///
    /// ```harn
    /// println(workflow.respond_update("demo-respond", "r1", "done").response_count > 0) // -> true
    /// ```
    Fs async fn respond_update(cx, this: Value, target: Value as "any?", request_id: Value as "any?", value: Value as "any?", name: Value as "any?") -> "dict" {
        of_workflow(&this, "respond_update")?;
        let Some(request) = request_id.as_str().map(ToString::to_string) else {
            return Err(thrown("workflow.respond_update: request_id must be a string"));
        };
        let mailbox = Mailbox::of(&cx, "workflow.respond_update", &to_json(&target))?;
        let value = data("workflow.respond_update: value", &value)?;
        let answer = json!({"value": value, "name": to_json(&name), "responded_at": timestamp_now(&cx)});
        let status = mailbox.change(|state| { state["responses"][request.as_str()] = answer; mailbox.status(state) }).await?;
        from_json(&status)
    }

    /// Marks a workflow as paused and adds the message `pause`.
    ///
    /// ```harn
    /// println(workflow.pause("demo-pause").paused) // -> true
    /// workflow.receive("demo-pause")
    /// ```
    Fs async fn pause(cx, this: Value, target: Value as "any?") -> "dict" {
        of_workflow(&this, "pause")?;
        control(&cx, "workflow.pause", &target, "pause", true).await?
    }

    /// Ends the pause of a workflow and adds the message `resume`.
    ///
    /// ```harn
    /// println(workflow.resume("demo-resume").paused) // -> false
    /// workflow.receive("demo-resume")
    /// ```
    Fs async fn resume(cx, this: Value, target: Value as "any?") -> "dict" {
        of_workflow(&this, "resume")?;
        control(&cx, "workflow.resume", &target, "resume", false).await?
    }

    /// Returns the status of a workflow.
    ///
    /// ```harn
    /// println(workflow.status("demo-nobody").generation) // -> 1
    /// ```
    Fs fn status(cx, this: Value, target: Value as "any?") -> "dict" {
        of_workflow(&this, "status")?;
        let mailbox = Mailbox::of(cx, "workflow.status", &to_json(&target))?;
        from_json(&mailbox.status(&mailbox.read()?))
    }

    /// The same as `continue_as_new`, including the option `state`.
    ///
    /// ```harn
    /// println(workflow.continue_as_new("demo-again").generation) // -> 2
    /// ```
    Fs async fn continue_as_new_method = "continue_as_new"(cx, this: Value, target: Value as "any?", options: OptionDict<ContinueOptions>) -> "dict" {
        of_workflow(&this, "continue_as_new")?;
        next_generation(&cx, "workflow.continue_as_new", &target, options.read()?).await?
    }
}

/// Returns the status of the next generation. The current program ends here if it passes its own state on.
async fn next_generation(
    cx: &Cx,
    function: &'static str,
    target: &Value,
    options: ContinueOptions,
) -> Result<Value> {
    let handed = options.state.map(|state| data(&format!("{function}: state"), &state)).transpose()?;
    if handed.is_some() {
        anew::allowed(cx, &format!("{function}: state"))?;
    }
    let mailbox = Mailbox::of(cx, function, &to_json(target))?;
    let now = timestamp_now(cx);
    let status = mailbox
        .change(|state| {
            for key in ["generation", "continue_as_new_count"] {
                state[key] = (state[key].as_i64().unwrap_or(0) + 1).into();
            }
            state["last_continue_as_new_at"] = now.as_str().into();
            state["responses"] = json!({});
            mailbox.status(state)
        })
        .await?;
    match handed {
        Some(state) => Err(anew::hand_over(cx, state)),
        None => Ok(from_json(&status)),
    }
}

async fn control(cx: &Cx, function: &'static str, target: &Value, word: &str, paused: bool) -> Result<Value> {
    let mailbox = Mailbox::of(cx, function, &to_json(target))?;
    let now = timestamp_now(cx);
    let status = mailbox
        .change(|state| {
            state["paused"] = paused.into();
            post(state, "control", word, &Json::Null, Json::Null, &now);
            mailbox.status(state)
        })
        .await?;
    Ok(from_json(&status))
}

/// Reads the name of a message.
fn called(this: &Value, method: &str, name: &Value) -> Result<String> {
    of_workflow(this, method)?;
    let name = name.as_str().map(ToString::to_string).filter(|name| !name.is_empty());
    name.ok_or_else(|| thrown(format!("workflow.{method}: name must be a string that is not empty")))
}

/// Checks that the receiver is `workflow`, because methods are registered for all builtins.
fn of_workflow(this: &Value, name: &str) -> Result<()> {
    let is_builtin = Builtin::of(this).is_some_and(|builtin| builtin.name() == "workflow");
    // `std/agents` exports a function with this name.
    let is_exported = Closure::of(this)
        .is_some_and(|closure| closure.proto.name == "workflow" && closure.proto.file.contains("std/agents"));
    if is_builtin || is_exported {
        return Ok(());
    }
    Err(Error::type_error(format!("unknown method `{name}` on {}", this.type_name())))
}
