//! A loop that rests instead of ending, and goes on when there is a reason to.

use std::collections::BTreeMap;
use std::rc::Rc;

use harn_llm::{Conversation, Message, Role, transcript};
use harn_prompt::Prose;
use harn_prompt::prose::agent_asset;
use harn_prompt::untrusted::quote_name;
use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

use super::reply::bindings;
use super::state::{Input, Note, Packed, Phase, Resting};
use super::{AgentLoop, Delivery, LoopError, Status};
use crate::daemon::history::Marks;
use crate::daemon::{IDLE_WAITS_MS, check_snapshot};
use crate::event::AgentEvent;

/// What a resting loop asks for: to be saved when it has just come to rest, to wait, and to look whether there is a reason to
/// go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Whether it has just come to rest.
    pub first: bool,
    /// How long to wait.
    pub wait_ms: u64,
    /// Whether the wait is a timer, which is a reason by itself.
    pub timer: bool,
    /// Files to look at.
    pub watch: Vec<String>,
    /// Whether there is no turn left: a message that waits is not to be taken.
    pub spent: bool,
    /// Whether somebody said something that the loop holds already: there is nothing to wait for.
    #[serde(default)]
    pub heard: bool,
    /// Whether a watchdog ends the wait.
    pub watched: bool,
    /// The number of the iteration that would be next.
    pub iteration: u32,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Whether there is anything that could ever wake the loop.
    pub can_wake: bool,
    /// A message for it.
    pub message: Option<String>,
    /// Whether a message waits that was not taken.
    pub message_waits: bool,
    /// Whether the host wants it to go on.
    pub resume: bool,
    /// When the watched files were changed last; those that are not there have no entry.
    pub changed_at: BTreeMap<String, f64>,
    /// How long it waited.
    pub waited_ms: u64,
}

impl AgentLoop {
    /// Iterations since the loop was started or resumed.
    pub(super) fn own_iterations(&self) -> u32 {
        self.state.iterations - self.state.resting.earlier
    }

    /// A daemon's turn without calls is over.
    pub(super) fn go_idle(&mut self) {
        self.moment("daemon_idle", |_| json!({}));
        let consolidates = self.config.daemon.as_ref().is_some_and(|daemon| daemon.consolidate);
        if !consolidates || !self.consolidate(Phase::Rest(true)) {
            self.state.phase = Phase::Rest(true);
        }
    }

    /// What the loop asks for while it rests.
    pub(super) fn resting(&self, first: bool) -> Rest {
        let daemon = self.config.daemon.clone().unwrap_or_default();
        let resting = &self.state.resting;
        Rest {
            first,
            wait_ms: daemon.wake_interval_ms.unwrap_or(IDLE_WAITS_MS[resting.backoff]),
            timer: daemon.wake_interval_ms.is_some(),
            watch: daemon.watch_paths,
            spent: self.own_iterations() >= self.config.max_iterations,
            heard: self.has_unheard(),
            watched: daemon.watchdog.is_some(),
            iteration: self.state.iterations,
        }
    }

    /// Takes the state of the watched files before the first turn; a snapshot may know an earlier one.
    pub fn watch_from(&mut self, changed_at: BTreeMap<String, f64>) {
        let resting = &mut self.state.resting;
        if !std::mem::replace(&mut resting.looked, true) {
            resting.changed_at = changed_at;
        }
    }

    /// Takes what was seen, and goes on, ends, or rests again.
    pub(super) fn rested(&mut self, look: Look, prose: &dyn Prose) -> Result<(), LoopError> {
        let daemon = self.config.daemon.clone().unwrap_or_default();
        if self.has_unheard() {
            // What has no turn left is told in the result.
            if self.own_iterations() >= self.config.max_iterations {
                self.end_out_of_turns();
            } else {
                self.pass_on(|_| true);
                self.wake("message", &[]);
            }
            return Ok(());
        }
        if !look.can_wake {
            // A wake that has no turn left is not waited for.
            if daemon.wakes_itself() {
                self.end_out_of_turns()
            } else {
                self.end(Status::Idle)
            }
            return Ok(());
        }
        self.state.resting.waited_ms += look.waited_ms;
        if look.message_waits && look.message.is_none() {
            // It stays where it is, for a loop that has turns left.
            self.end_out_of_turns();
            return Ok(());
        }
        if let Some(text) = look.message {
            self.say(Rc::new(Message::text_of(Role::User, text)));
            self.wake("message", &[]);
            return Ok(());
        }
        if look.resume {
            self.wake("resume", &[]);
            return Ok(());
        }
        let before = std::mem::replace(&mut self.state.resting.changed_at, look.changed_at.clone());
        let changed = |path: &&String| {
            let (then, now) = (before.get(*path), look.changed_at.get(*path));
            then.is_some() && now.is_some() && then != now
        };
        let changed: Vec<String> = daemon.watch_paths.iter().filter(changed).cloned().collect();
        let wakes = !changed.is_empty() || daemon.wake_interval_ms.is_some();
        if wakes && self.own_iterations() >= self.config.max_iterations {
            self.end_out_of_turns();
            return Ok(());
        }
        if !changed.is_empty() {
            let asset = agent_asset("daemon_watch_feedback");
            let paths: Json = changed.iter().map(|path| Json::from(quote_name(path))).collect();
            let text = prose.render(&asset, &bindings([("watch_paths", paths)]))?;
            self.events.push(AgentEvent::FsWatch { watch_paths: changed.clone() });
            self.feedback("watch", &text);
            self.wake("watch", &changed);
            return Ok(());
        }
        if let Some(interval) = daemon.wake_interval_ms {
            let asset = agent_asset("daemon_timer_feedback");
            let text = prose.render(&asset, &bindings([("interval_ms", json!(interval))]))?;
            self.feedback("timer", &text);
            self.wake("timer", &[]);
            return Ok(());
        }
        let resting = &mut self.state.resting;
        resting.attempts += 1;
        resting.backoff = (resting.backoff + 1).min(IDLE_WAITS_MS.len() - 1);
        if daemon.watchdog.is_some_and(|limit| resting.attempts >= limit) {
            let (attempts, elapsed_ms) = (resting.attempts, resting.waited_ms);
            self.events.push(AgentEvent::DaemonWatchdogTripped { attempts, elapsed_ms });
            self.end(Status::Watchdog);
            return Ok(());
        }
        self.state.phase = Phase::Rest(false);
        Ok(())
    }

    fn wake(&mut self, reason: &str, changed: &[String]) {
        let resumed = self.state.resting.resumed;
        let metadata = json!({"reason": reason, "watch_paths": changed, "resumed": resumed});
        self.state.notes.push(Note::internal("daemon_wake", "system", reason, metadata));
        let resting = &mut self.state.resting;
        (resting.backoff, resting.attempts, resting.waited_ms) = (0, 0, 0);
        self.state.nudges = 0;
        self.state.phase = Phase::Start;
    }

    /// Adds a message to what was said and to what the model sees.
    pub(super) fn say(&mut self, message: Rc<Message>) {
        if let Some(seen) = &mut self.state.seen {
            seen.push(message.clone());
        }
        self.state.messages.push(message);
    }

    /// Returns what a later process needs to go on, without what is `earlier` than these marks. `state` is the word for where
    /// the daemon stands.
    pub fn daemon_snapshot(
        &self,
        state: &str,
        saved_at: &str,
        ids: &dyn Fn() -> String,
        earlier: &Marks,
    ) -> Json {
        let s = &self.state;
        let event = |note: &Note| {
            let metadata = Some(note.metadata.read()).filter(|m| !m.is_null());
            transcript::event(&note.kind, &note.role, &note.visibility, &note.text, metadata, ids)
        };
        let events: Vec<Json> = s.notes.iter().skip(earlier.events).map(event).collect();
        let recorded = s.messages.to_json_from(earlier.messages);
        // What is seen goes on as it was recorded behind this message: with an earlier part it need not be there twice.
        let seen = self.seen();
        let same = if earlier.messages == 0 { 0 } else { common_end(seen, &s.messages) };
        let seen = seen.to_json_to(seen.len() - same);
        let mut snapshot = json!({
            "_type": "daemon_snapshot", "saved_at": saved_at, "daemon_state": state,
            "visible_messages": seen, "recorded_messages": recorded,
            "transcript_summary": s.summary, "transcript_events": events,
            "total_text": s.text.get(earlier.text..).unwrap_or_default(),
            "total_visible_texts": s.visible.iter().skip(earlier.visible).collect::<Vec<_>>(),
            "last_iteration_text": s.turn.text,
            "all_tools_used": s.tools_used.iter().skip(earlier.tools).collect::<Vec<_>>(),
            "successful_tools": s.successful, "rejected_tools": s.rejected, "deferred_user_messages": self.unheard(),
            "total_iterations": s.iterations, "counters": Json::lossy(&s.counts),
            "idle_backoff_ms": IDLE_WAITS_MS[s.resting.backoff],
            "last_run_exit_code": s.verified.as_ref().map(exit_code), "watch_state": s.resting.changed_at,
        });
        if earlier.messages > 0 {
            snapshot["visible_from"] = (s.messages.len() - same).into();
        }
        snapshot
    }

    /// Goes on from a snapshot: everything that was said and counted is there again, and the prompt is not added. With
    /// `rests` a daemon that has nothing to answer waits for a reason, else it begins with a turn.
    ///
    /// # Errors
    /// What is wrong with the snapshot.
    pub fn restore(&mut self, snapshot: &Json, rests: bool) -> Result<(), String> {
        check_snapshot(snapshot)?;
        let read = |key: &str| -> Result<Conversation, String> {
            let list = snapshot[key].as_array().ok_or_else(|| format!("{key} is missing"))?;
            Conversation::from_json(list).map_err(|e| format!("{key}: {e}"))
        };
        let (recorded, visible) = (read("recorded_messages")?, read("visible_messages")?);
        let same = snapshot["recorded_messages"] == snapshot["visible_messages"];
        let words = |key: &str| -> Vec<String> {
            let list = snapshot[key].as_array().into_iter().flatten();
            list.filter_map(Json::as_str).map(str::to_owned).collect()
        };
        let text = |value: &Json, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let note = |event: &Json| Note {
            kind: text(event, "kind"),
            role: text(event, "role"),
            visibility: text(event, "visibility"),
            text: text(event, "text"),
            metadata: Packed::of(&event["metadata"]),
        };
        let state = &mut self.state;
        state.seen = (!same).then_some(visible);
        state.messages = recorded;
        state.summary = snapshot["transcript_summary"].as_str().map(str::to_owned);
        state.notes = snapshot["transcript_events"].as_array().into_iter().flatten().map(note).collect();
        state.text = text(snapshot, "total_text");
        state.visible = words("total_visible_texts");
        state.turn.text = text(snapshot, "last_iteration_text");
        state.tools_used = words("all_tools_used");
        state.successful = words("successful_tools");
        state.rejected = words("rejected_tools");
        let heard = words("deferred_user_messages").into_iter();
        state.heard = heard.map(|text| Input { text, delivery: Delivery::WaitForCompletion }).collect();
        state.counts = snapshot["counters"].clone().read().unwrap_or_default();
        let iterations = snapshot["total_iterations"].as_u64().and_then(|n| u32::try_from(n).ok());
        state.iterations = iterations.unwrap_or_default();
        let code = snapshot["last_run_exit_code"].as_i64();
        state.verified = code.map(|code| (code == 0, format!("exit_code={code}")));
        let backoff = snapshot["idle_backoff_ms"].as_u64().unwrap_or_default();
        let watched = snapshot["watch_state"].as_object().is_some_and(|map| !map.is_empty());
        state.resting = Resting {
            backoff: IDLE_WAITS_MS.iter().position(|wait| *wait == backoff).unwrap_or_default(),
            changed_at: snapshot["watch_state"].clone().read().unwrap_or_default(),
            looked: watched,
            resumed: true,
            earlier: state.iterations,
            ..Resting::default()
        };
        let answered = state.messages.last().is_some_and(|message| message.role == Role::Assistant);
        state.phase = if rests && answered { Phase::Rest(true) } else { Phase::Start };
        Ok(())
    }
}

/// How many messages two conversations have in common at their end.
fn common_end(a: &Conversation, b: &Conversation) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| Rc::ptr_eq(a, b) || a == b).count()
}

/// The exit code that a `run` tool told of, else one that stands for how it ended.
fn exit_code((succeeded, text): &(bool, String)) -> i64 {
    let told = text.split("exit_code=").nth(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        &rest[..end]
    });
    told.and_then(|code| code.parse().ok()).unwrap_or(i64::from(!succeeded))
}
