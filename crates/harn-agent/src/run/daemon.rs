//! Daemons: a loop that becomes idle instead of ending, and continues when it is woken.

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

/// Messages, events, replies and names of tools that remain of a history whose older half is removed.
const MOST_RECORDED: usize = 2_048;

/// Bytes that remain of the text that stands for compacted messages.
const MOST_SUMMARY: usize = 64 << 10;

/// The request of an idle loop: save it if it has just become idle, wait, and poll for a reason to wake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Whether it has just become idle.
    pub first: bool,
    /// How long to wait, in milliseconds.
    pub wait_ms: u64,
    /// Whether the wait is a timer; its expiry wakes the loop.
    pub timer: bool,
    /// Files to poll for changes.
    pub watch: Vec<String>,
    /// Whether the loop has no turns left; a pending message must then not be taken.
    pub spent: bool,
    /// Whether the loop already has an unread message, so that it must not wait.
    #[serde(default)]
    pub heard: bool,
    /// Whether a watchdog limits the wait.
    pub watched: bool,
    /// The number of the next iteration.
    pub iteration: u32,
}

/// The result of a poll.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Whether anything can wake the loop at all.
    pub can_wake: bool,
    /// A message for the loop.
    pub message: Option<String>,
    /// Whether a message is pending that was not taken.
    pub message_waits: bool,
    /// Whether the host requests the loop to continue.
    pub resume: bool,
    /// Modification times of the watched files; missing files have no entry.
    pub changed_at: BTreeMap<String, f64>,
    /// Duration of the wait in milliseconds.
    pub waited_ms: u64,
}

impl AgentLoop {
    /// Returns the number of iterations since the loop was started or resumed.
    pub(super) fn own_iterations(&self) -> u32 {
        self.state.iterations - self.state.resting.earlier
    }

    /// Makes a daemon idle after a turn without calls.
    pub(super) fn go_idle(&mut self) {
        self.trim_history();
        self.moment("daemon_idle", |_| json!({}));
        let consolidates = self.config.daemon.as_ref().is_some_and(|daemon| daemon.consolidate);
        if !consolidates || !self.consolidate(Phase::Rest(true)) {
            self.state.phase = Phase::Rest(true);
        }
    }

    /// Removes the older half of a long history, so that a daemon does not grow with each event. Before the first compaction, the
    /// history is what the model receives, and stays.
    fn trim_history(&mut self) {
        let state = &mut self.state;
        // A summary covers the ones before it, so the older half says nothing more.
        if let Some(summary) = state.summary.as_mut().filter(|summary| summary.len() > MOST_SUMMARY) {
            keep_newer_half(summary);
        }
        let is_long = state.messages.len().max(state.notes.len()) > 2 * MOST_RECORDED;
        if state.seen.is_none() || !is_long {
            return;
        }
        state.messages = state.messages.newest(MOST_RECORDED);
        keep_newest(&mut state.notes);
        keep_newest(&mut state.visible);
        keep_newest(&mut state.tools_used);
        // It consists of replies, of which the older half is removed.
        keep_newer_half(&mut state.text);
        state.resting.trims += 1;
    }

    /// Returns how often older history was removed: after that, marks of what is stored elsewhere are void.
    #[must_use]
    pub fn history_trims(&self) -> u64 {
        self.state.resting.trims
    }

    /// Returns the request of an idle loop.
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

    /// Sets the initial state of the watched files before the first turn, unless a snapshot contains an earlier one.
    pub fn watch_from(&mut self, changed_at: BTreeMap<String, f64>) {
        let resting = &mut self.state.resting;
        if !std::mem::replace(&mut resting.looked, true) {
            resting.changed_at = changed_at;
        }
    }

    /// Handles the result of a poll: the loop continues, ends, or remains idle.
    pub(super) fn rested(&mut self, look: Look, prose: &dyn Prose) -> Result<(), LoopError> {
        let daemon = self.config.daemon.clone().unwrap_or_default();
        if self.has_unheard() {
            // Messages without a turn left are reported in the result.
            if self.own_iterations() >= self.config.max_iterations {
                self.end_out_of_turns();
            } else {
                self.pass_on(|_| true);
                self.wake("message", &[]);
            }
            return Ok(());
        }
        if !look.can_wake {
            // Without turns left, the loop does not wait for a timer or file change.
            if daemon.wakes_itself() {
                self.end_out_of_turns()
            } else {
                self.end(Status::Idle)
            }
            return Ok(());
        }
        self.state.resting.waited_ms += look.waited_ms;
        if look.message_waits && look.message.is_none() {
            // The message remains in the queue, for a loop that has turns left.
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

    /// Adds a message to the record and to the model's view.
    pub(super) fn say(&mut self, message: Rc<Message>) {
        if let Some(seen) = &mut self.state.seen {
            seen.push(message.clone());
        }
        self.state.messages.push(message);
    }

    /// Returns the snapshot from which a later process can resume, without the part before the marks `earlier`. `state`
    /// is the daemon's state.
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
        // The model's view ends in the same messages as the record; if there is an earlier part, these are not stored
        // twice.
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

    /// Resumes from a snapshot: messages and counters are restored, and the prompt is not added again. With `rests`, a
    /// daemon without pending input becomes idle; otherwise it starts with a turn.
    ///
    /// # Errors
    /// A message that describes the invalid part of the snapshot.
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

/// Removes all entries but the newest ones.
fn keep_newest<T>(list: &mut Vec<T>) {
    list.drain(..list.len().saturating_sub(MOST_RECORDED));
}

/// Removes the first half of a text.
fn keep_newer_half(text: &mut String) {
    let half = text.len() / 2;
    text.drain(..text.ceil_char_boundary(half));
}

/// Returns the number of messages that two conversations have in common at their end.
fn common_end(a: &Conversation, b: &Conversation) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| Rc::ptr_eq(a, b) || a == b).count()
}

/// Returns the exit code in the result of a `run` tool, else one that represents success or failure.
fn exit_code((succeeded, text): &(bool, String)) -> i64 {
    let told = text.split("exit_code=").nth(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        &rest[..end]
    });
    told.and_then(|code| code.parse().ok()).unwrap_or(i64::from(!succeeded))
}
