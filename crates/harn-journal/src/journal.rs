//! Follows and records a journal: the next entry, persistence, the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use harn_store::wait;
use harn_system::System;

use crate::chance::Chance;
use crate::entry::{Entry, Lookups, Place, What, unpack};
use crate::keeper::{Keeper, Kept, Trouble};
use crate::op::{Drainer, Exchange, Inquired, Op, Pending, Wakes};
use crate::output::Output;
use crate::secrets::{Secrets, UNKNOWN};
use crate::setup::{Difference, InDoubtPolicy, Reins, Setup, Stop};
use crate::wire::{Answer, nanos};

/// Number of the pseudo-look that says that the clock was set back while no process executed the run.
const SET_BACK: u32 = 0;

/// Maximum time that entries are collected while the program is busy.
const PATIENCE: Duration = Duration::from_millis(100);

/// A system that records the answers of another one, and replays recorded answers. Clones share one journal.
#[derive(Clone)]
pub struct Journal(pub(crate) Rc<Core>);

pub(crate) struct Core {
    pub(crate) inner: Rc<dyn System>,
    pub(crate) own: Weak<Core>,
    pub(crate) keeper: Box<dyn Keeper>,
    pub(crate) replay: bool,
    pub(crate) in_doubt: InDoubtPolicy,
    pub(crate) copies: bool,
    /// The arguments of effects by their digest, when they are stored.
    requests: Option<RefCell<HashMap<u64, String>>>,
    pub(crate) suspend_after: Option<Duration>,
    pub(crate) people: bool,
    /// The number of answers from humans, and when it was read.
    pub(crate) answered: Cell<(u64, u64)>,
    until: Option<u64>,
    reins: RefCell<Option<Reins>>,
    stopped: RefCell<Option<Stop>>,
    pub(crate) state: RefCell<State>,
    pub(crate) secrets: RefCell<Secrets>,
    pub(crate) chance: RefCell<Chance>,
    /// The environment variables that were requested.
    pub(crate) environment: RefCell<HashMap<String, Known>>,
    pub(crate) wakes: Arc<Wakes>,
    /// Whether the program was loaded from the current sources: requests of the loader are neither followed nor
    /// recorded.
    pub(crate) loading: Cell<bool>,
}

/// An environment variable that was requested.
#[derive(Clone)]
pub(crate) struct Known {
    /// Whether it holds a key.
    pub(crate) is_secret: bool,
    /// Its value; for a key only whether it is set.
    pub(crate) value: Option<String>,
}

/// Effects in doubt without a decision.
#[derive(Default)]
pub(crate) struct Undecided {
    /// Number of the last followed entry that starts an effect.
    pub(crate) begun: u64,
    /// Those of operations, by number.
    pub(crate) ops: BTreeMap<u64, Rc<Inquired>>,
    /// The immediate one.
    pub(crate) at_once: Option<Rc<Inquired>>,
    /// The first whose error was delivered, and the number of its entry.
    pub(crate) handed_over: Option<(u64, Rc<Inquired>)>,
}

pub(crate) struct State {
    /// Entries to follow.
    pub(crate) recorded: VecDeque<Entry>,
    /// Whether effects happen outside.
    pub(crate) live: bool,
    /// Whether the program is loaded.
    is_loaded: bool,
    /// New entries that are not written yet.
    pub(crate) buffer: Vec<Entry>,
    /// The number of the next entry.
    pub(crate) next: u64,
    counts: HashMap<Arc<str>, u64>,
    pub(crate) clock: Clock,
    /// Polls for results while the program was busy, since the last delivery.
    pub(crate) looks: u32,
    pub(crate) ops: BTreeMap<u64, Op>,
    pub(crate) next_op: u64,
    /// Operations that have ended and are not delivered yet: number, result, and whether they started only just now.
    pub(crate) ended_ops: VecDeque<(u64, Vec<u8>, bool)>,
    pub(crate) aside: BTreeMap<u64, Kept>,
    asides: u64,
    /// Bytes printed so far on both streams, by this process and earlier ones.
    pub(crate) printed: (u64, u64),
    /// Bytes written before this process started.
    pub(crate) known: (u64, u64),
    /// Whether a failed try wrote some of them, after the effect that is repeated.
    pub(crate) is_of_failed_try: bool,
    /// What an earlier process printed before its next delivery, according to the journal.
    pub(crate) promised: (u64, u64),
    /// Whether the program was busy and a delivery was possible since the last entry. Its output then depends on the
    /// fact that nothing was delivered.
    pub(crate) is_loose: bool,
    /// Bytes that the last entry mentions.
    pub(crate) noted: (u64, u64),
    /// Output that is not written yet.
    pub(crate) output: Output,
    /// Groups of entries that are being written.
    pub(crate) under_way: VecDeque<(u64, Kept)>,
    /// Requests that must not be sent twice, and their replies.
    pub(crate) exchanges: Vec<Weak<dyn Exchange>>,
    /// Open requests to humans.
    pub(crate) inquired: BTreeSet<String>,
    /// Requests that are over according to the journal. The process that wrote the entry may not have closed them.
    pub(crate) ended: Vec<String>,
    /// Entries before this number are persisted.
    pub(crate) kept: u64,
    /// Since when a task waits for entries that are not being written yet.
    pub(crate) wanted: Option<u64>,
    /// Timer for collecting more entries into the group.
    pub(crate) gathering: Option<harn_system::Waiting<'static, ()>>,
    /// Tasks that wait for entries to be persisted.
    pub(crate) waiting: Vec<std::task::Waker>,
    /// Effects in doubt without a decision.
    pub(crate) undecided: Undecided,
    flushed_at: u64,
}

/// The clocks that the program sees.
#[derive(Default)]
pub(crate) struct Clock {
    /// Milliseconds since 1970.
    pub(crate) wall: i64,
    /// Monotonic nanoseconds.
    pub(crate) mono: u64,
    /// Looks since the last entry that records them.
    pub(crate) looks: u32,
    /// Offset to the clock of the system: timers keep running while a run is stopped.
    pub(crate) ahead: u64,
}

/// How to execute an effect.
pub(crate) enum Next {
    /// Use the recorded answer.
    Known(Vec<u8>),
    /// Execute it.
    Live,
    /// The run is stopped.
    Stopped,
}

impl Journal {
    /// Creates a journal over a system.
    pub fn new(setup: Setup) -> Journal {
        let Setup { inner, keeper, entries, replay, until, reload, in_doubt, .. } = setup;
        let Setup { keeps_requests, copies, suspend_after, people, secrets: names, .. } = setup;
        let mut secrets = Secrets::default();
        for name in names {
            match inner.env(&name) {
                Some(value) => secrets.know(&name, &value),
                None if replay => secrets.know(&name, UNKNOWN),
                // The run is stopped when it reaches a place that needs the key.
                None => {}
            }
        }
        let next = entries.last().filter(|_| !copies).map_or(0, |entry| entry.seq + 1);
        let (mut known, mut promised) = ((0, 0), (0, 0));
        let mut counts: HashMap<Arc<str>, u64> = HashMap::new();
        let mut recorded = VecDeque::with_capacity(entries.len());
        let (mut loaded, mut is_of_failed_try) = (!reload, false);
        for entry in entries {
            if !copies {
                let count = counts.entry(entry.task.clone()).or_default();
                *count = (*count).max(entry.count + u64::from(entry.what.is_effect()));
            }
            match entry.what {
                What::Printed { out, err } => {
                    (known, is_of_failed_try) = ((out, err), entry.is_retry());
                    if is_of_failed_try {
                        recorded.push_back(entry);
                    }
                }
                What::Printing { out, err } => promised = (out, err),
                // With the current sources the loader asks again; its recorded entries are skipped.
                What::Program if !loaded => {
                    loaded = true;
                    recorded.push_back(entry);
                }
                _ if !loaded => {}
                _ => recorded.extend(unpack(entry)),
            }
        }
        // The first entries contain the initial clocks.
        let first = recorded.iter().find_map(|entry| match &entry.what {
            What::Clock { clock, .. } | What::Finish { clock, .. } => Some(*clock),
            _ => None,
        });
        let (wall, mono) = first.unwrap_or_default();
        let live = recorded.is_empty() && !replay;
        let state = State {
            recorded,
            live,
            is_loaded: false,
            buffer: Vec::new(),
            next,
            counts,
            clock: Clock { wall, mono, looks: 0, ahead: 0 },
            looks: 0,
            ops: BTreeMap::new(),
            next_op: 0,
            ended_ops: VecDeque::new(),
            aside: BTreeMap::new(),
            asides: 0,
            printed: (0, 0),
            known,
            is_of_failed_try,
            promised,
            is_loose: false,
            noted: known,
            output: Output::default(),
            under_way: VecDeque::new(),
            exchanges: Vec::new(),
            inquired: BTreeSet::new(),
            ended: Vec::new(),
            kept: next,
            wanted: None,
            gathering: None,
            waiting: Vec::new(),
            undecided: Undecided::default(),
            flushed_at: 0,
        };
        Journal(Rc::new_cyclic(|own| Core {
            inner,
            own: own.clone(),
            keeper,
            replay,
            in_doubt,
            copies,
            requests: keeps_requests.then(RefCell::default),
            suspend_after,
            people,
            answered: Cell::default(),
            until,
            reins: RefCell::default(),
            stopped: RefCell::default(),
            state: RefCell::new(state),
            secrets: RefCell::new(secrets),
            chance: RefCell::default(),
            environment: RefCell::default(),
            wakes: Arc::default(),
            loading: Cell::new(reload),
        }))
    }

    /// Connects the journal to its program.
    pub fn hold(&self, reins: Reins) {
        *self.0.reins.borrow_mut() = Some(reins);
    }

    /// Notes that the program is loaded and starts now.
    pub fn begin_program(&self) {
        self.0.loading.set(false);
        self.0.state.borrow_mut().is_loaded = true;
        // With the current sources the loader may have made other requests.
        self.0.chance.take();
        self.0.environment.take();
        match self.0.status() {
            Status::Following => {
                let fits = |what: &What| matches!(what, What::Program);
                drop(self.0.follow(fits, 0, || "the program begins".to_owned()));
            }
            Status::Live => self.0.push(What::Program),
            Status::Stopped => {}
        }
    }

    /// Returns why the journal stopped the run, if it did.
    pub fn stopped(&self) -> Option<Stop> {
        let _ = self.0.is_stopped();
        self.0.stopped.borrow().clone()
    }

    /// What asks the run to make room.
    pub fn drainer(&self) -> Drainer {
        Drainer(self.0.wakes.clone())
    }

    /// Returns the number of entries.
    pub fn length(&self) -> u64 {
        self.0.state.borrow().next
    }

    /// Returns the number of the next entry to follow; `None` if all were followed.
    pub fn next_entry(&self) -> Option<u64> {
        self.0.state.borrow().recorded.front().map(|entry| entry.seq)
    }

    /// Returns whether all entries were followed and the program runs live.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().live
    }

    /// Writes all entries that are not persisted yet.
    ///
    /// # Errors
    /// The reason why the journal cannot be written.
    pub fn settle(&self) -> Result<(), Stop> {
        if self.0.replay {
            return Ok(());
        }
        self.0.commit();
        // Records the output that this has written.
        let shown = self.0.state.borrow().shown();
        if shown != self.0.state.borrow().noted {
            self.0.commit();
        }
        self.stopped().filter(|stop| matches!(stop, Stop::Unkept(_))).map_or(Ok(()), Err)
    }

    /// Reports output that failed after the program was told that it succeeded, because it was written later.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn output(&self) -> std::io::Result<()> {
        self.0.state.borrow().output.failure()
    }

    /// Replaces keys by their names in a string that is stored outside of the journal.
    #[must_use]
    pub fn hide(&self, text: String) -> String {
        let hidden = self.0.secrets.borrow().hide(text.into_bytes());
        String::from_utf8(hidden).unwrap_or_default()
    }

    /// Replaces names by the current keys in such a string. Stops the run if a key is missing.
    #[must_use]
    pub fn reveal(&self, text: String) -> String {
        String::from_utf8(self.0.show_keys(text.into_bytes())).unwrap_or_default()
    }

    /// Returns the arguments of the effect with this digest, with names in place of keys.
    pub fn request(&self, digest: u64) -> Option<String> {
        self.0.requests.as_ref()?.borrow().get(&digest).cloned()
    }

    /// Returns the first entry that was not followed, if the program has ended before its journal.
    pub fn left_over(&self) -> Option<Difference> {
        let state = self.0.state.borrow();
        let is_note = |entry: &&Entry| matches!(entry.what, What::Clock { .. }) || entry.is_retry();
        let entry = state.recorded.iter().find(|entry| !is_note(entry))?;
        Some(Difference {
            seq: entry.seq,
            was: described(entry),
            was_at: entry.place.to_string(),
            now: "the end of the program".to_owned(),
            now_at: String::new(),
            digests: (entry.what.digest(), 0),
        })
    }
}

/// The position of a run in its journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// An entry is left to follow.
    Following,
    /// All entries were followed.
    Live,
    /// The run is stopped.
    Stopped,
}

fn described(entry: &Entry) -> String {
    match entry.what.note() {
        "" => entry.what.name().to_owned(),
        note => format!("{} {note}", entry.what.name()),
    }
}

impl State {
    /// Returns whether the next entry to follow satisfies `fits`.
    pub(crate) fn next_is(&self, fits: impl FnOnce(&What) -> bool) -> bool {
        self.recorded.front().is_some_and(|entry| fits(&entry.what))
    }

    /// Returns when the first wait for time ends, and the first of all waits; `None` if the program waits for other
    /// operations too.
    pub(crate) fn waits_until(&self) -> Option<(Option<u64>, Option<u64>)> {
        let (mut timer, mut any) = (None, None);
        let first = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        for op in self.ops.values() {
            match &op.inquired {
                _ if !op.is_open() => return None,
                Some(inquired) if !inquired.waits.get() => return None,
                Some(_) => {}
                None => timer = first(timer, Some(op.due()?)),
            }
            any = first(any, op.due());
        }
        (!self.ops.is_empty()).then_some((timer, any))
    }

    /// Whether something happens outside that the journal does not know yet.
    fn is_under_way(&self) -> bool {
        let is_open = |one: &Weak<dyn Exchange>| one.upgrade().is_some_and(|one| one.is_under_way());
        self.ops.values().any(Op::is_under_way) || self.exchanges.iter().any(is_open)
    }

    pub(crate) fn pending(&self) -> Vec<Pending> {
        let open = self.ops.values().filter(|op| op.is_open()).filter_map(|op| op.inquired.as_ref());
        open.filter(|inquired| inquired.waits.get()).map(|inquired| inquired.request.clone()).collect()
    }

    /// Returns how far entries are persisted once all writes in progress are done.
    pub(crate) fn kept_when_written(&self) -> u64 {
        self.under_way.back().map_or(self.kept, |(upto, _)| *upto)
    }

    /// Returns the number of the next new entry.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Adds an entry that belongs to no task.
    pub(crate) fn note(&mut self, what: What) {
        let (seq, at_ms) = (self.next, self.clock.wall);
        self.next += 1;
        self.buffer.push(Entry { seq, task: "0".into(), count: 0, place: "".into(), at_ms, what });
    }

    /// Adds lookups to the last entry if it has lookups of the same task; otherwise returns them for an entry of their own.
    fn add_lookups(&mut self, new: Lookups, place: &Place) -> Option<Lookups> {
        match self.buffer.last_mut() {
            Some(Entry { what: What::Lookups(last), task, .. }) if *task == place.task => {
                last.append(new);
                None
            }
            _ => Some(new),
        }
    }

    /// Returns whether the last entry was followed, and nothing has happened since.
    pub(crate) fn is_over(&self) -> bool {
        !self.live && self.recorded.is_empty()
    }

    /// Returns whether no entry is left to follow.
    pub(crate) fn is_followed(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Describes the operations that the program waits for.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        self.ops.values().filter(|op| op.is_open()).map(Op::described).collect()
    }

    pub(crate) fn next_aside(&mut self) -> u64 {
        self.asides += 1;
        self.asides
    }
}

impl Core {
    /// Returns the current place of the program.
    pub(crate) fn here(&self) -> Place {
        self.place()
    }

    pub(crate) fn own(&self) -> Rc<Core> {
        self.own.upgrade().expect("a core that is used is held")
    }

    /// Returns whether the run is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        if self.stopped.borrow().is_some() {
            return true;
        }
        let interrupted = self.reins.borrow().as_ref().is_some_and(|reins| (reins.is_stopped)());
        if interrupted {
            *self.stopped.borrow_mut() = Some(Stop::Interrupted);
        }
        interrupted
    }

    /// Stops a run that is to make room, when nothing is under way outside.
    pub(crate) fn drains(&self) -> bool {
        let Some(why) = self.wakes.drain().filter(|_| !self.replay) else { return false };
        let stops = !self.state.borrow().is_under_way();
        if stops {
            self.stop(Stop::Drained(why));
        }
        stops
    }

    /// Stops the run. Only the first reason is stored.
    pub(crate) fn stop(&self, reason: Stop) {
        let first = self.stopped.borrow().is_none();
        if first {
            *self.stopped.borrow_mut() = Some(reason);
        }
        if let Some(reins) = &*self.reins.borrow() {
            (reins.stop)();
        }
        self.wakes.wake_all();
    }

    /// Returns whether the loader makes requests, with the current sources.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.get()
    }

    fn place(&self) -> Place {
        let place = self.reins.borrow().as_ref().and_then(|reins| (reins.place)());
        place.unwrap_or_else(|| Place { task: "0".into(), at: "".into() })
    }

    /// Returns the position of the run.
    pub(crate) fn status(&self) -> Status {
        if self.is_stopped() || self.drains() {
            return Status::Stopped;
        }
        self.follow_notes();
        let state = self.state.borrow();
        if state.live {
            return Status::Live;
        }
        let Some(entry) = state.recorded.front() else {
            drop(state);
            return self.end_of_record();
        };
        match self.until {
            Some(until) if entry.seq >= until => {
                let at = entry.seq;
                drop(state);
                self.stop(Stop::Until(at));
                Status::Stopped
            }
            _ => Status::Following,
        }
    }

    /// Follows entries that answer no request of the program: the clock was set back, or the run was retried.
    pub(crate) fn follow_notes(&self) {
        loop {
            let clock = match self.state.borrow().recorded.front() {
                Some(Entry { what: What::Clock { look: SET_BACK, clock }, .. }) => Some(*clock),
                Some(entry) if entry.is_retry() => None,
                _ => return,
            };
            self.take();
            match clock {
                Some(clock) => self.set_clocks(clock),
                None => {
                    let state = &mut *self.state.borrow_mut();
                    // What was printed is known as of the last retry.
                    if !state.recorded.iter().any(Entry::is_retry) {
                        state.forget_failed_try();
                    }
                }
            }
        }
    }

    /// Follows the next entry if it matches; stops the run if it differs.
    pub(crate) fn follow(
        &self,
        fits: impl FnOnce(&What) -> bool,
        digest: u64,
        now: impl FnOnce() -> String,
    ) -> Option<Entry> {
        let fits = self.state.borrow().recorded.front().is_some_and(|entry| fits(&entry.what));
        if fits { self.take() } else { self.differs(now(), digest).and(None) }
    }

    /// Removes the followed entry.
    pub(crate) fn take(&self) -> Option<Entry> {
        let mut state = self.state.borrow_mut();
        let entry = state.recorded.pop_front();
        state.clock.looks = 0;
        drop(state);
        if self.copies
            && let Some(entry) = &entry
        {
            let place = Place { task: entry.task.clone(), at: entry.place.clone() };
            self.push_at(entry.what.clone(), place);
        }
        entry
    }

    /// Switches to live execution after the last entry.
    #[cold]
    pub(crate) fn end_of_record(&self) -> Status {
        if self.replay {
            self.stop(Stop::End);
            return Status::Stopped;
        }
        let mut state = self.state.borrow_mut();
        state.live = true;
        // Timers keep running while no process executes the run, so deadlines advance.
        let (now, own) = (self.inner.now_ms(), nanos(self.inner.monotonic()));
        // A journal in which the clock was never read does not say when it ended.
        let known = if state.clock.wall == 0 { now } else { state.clock.wall };
        let gone = u64::try_from(now.saturating_sub(known)).unwrap_or(0);
        let target = state.clock.mono.saturating_add(gone.saturating_mul(1_000_000));
        state.clock.ahead = target.saturating_sub(own);
        state.clock.looks = 0;
        let waiting: Vec<u64> = state.ops.keys().copied().collect();
        let ended = std::mem::take(&mut state.ended);
        // The clock was set back: a later resume starts from the current time, or the wait would restart each time.
        let set_back = (now < state.clock.wall).then_some((now, state.clock.mono));
        drop(state);
        if let Some(clock) = set_back {
            self.set_clocks(clock);
            self.push(What::Clock { look: SET_BACK, clock });
        }
        ended.iter().for_each(|id| self.close(id));
        self.wakes.push_all(waiting);
        Status::Live
    }

    /// Replaces names by the current keys in bytes of the journal. Stops the run if a key is missing.
    pub(crate) fn show_keys(&self, bytes: Vec<u8>) -> Vec<u8> {
        let unknown = self.secrets.borrow().unknown_in(&bytes);
        for name in unknown {
            match self.inner.env(&name) {
                Some(value) => self.secrets.borrow_mut().know(&name, &value),
                None if self.replay => self.secrets.borrow_mut().know(&name, UNKNOWN),
                None => self.stop(Stop::MissingKey(name)),
            }
        }
        self.secrets.borrow().show(bytes)
    }

    /// Replaces keys by `$NAME` in a message for humans.
    pub(crate) fn named(&self, text: &str) -> String {
        self.secrets.borrow().named(text)
    }

    /// Returns whether the arguments of effects are stored.
    pub(crate) fn keeps_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Stores the arguments of an effect.
    pub(crate) fn note_request(&self, digest: u64, text: String) {
        if let Some(requests) = &self.requests {
            requests.borrow_mut().insert(digest, self.named(&text));
        }
    }

    /// Stops the run because the program differs from the journal.
    #[cold]
    pub(crate) fn differs(&self, now: String, digest: u64) -> Option<()> {
        let now = self.named(&now);
        let place = self.place();
        let difference = {
            let state = self.state.borrow();
            let entry = state.recorded.front()?;
            Difference {
                seq: entry.seq,
                was: described(entry),
                was_at: entry.place.to_string(),
                now,
                now_at: place.at.to_string(),
                digests: (entry.what.digest(), digest),
            }
        };
        self.stop(Stop::Difference(Box::new(difference)));
        None
    }

    /// Adds an entry.
    pub(crate) fn push(&self, what: What) {
        let place = self.place();
        self.push_at(what, place);
    }

    pub(crate) fn push_at(&self, what: What, place: Place) {
        if self.replay {
            return;
        }
        let mut state = self.state.borrow_mut();
        let seq = state.next;
        if self.until.is_some_and(|until| seq >= until) {
            drop(state);
            self.stop(Stop::Until(seq));
            return;
        }
        let what = what.without_keys(&self.secrets.borrow());
        state.clock.looks = 0;
        state.is_loose = false;
        let what = match what {
            What::Lookups(lookups) => match state.add_lookups(lookups, &place) {
                Some(lookups) => What::Lookups(lookups),
                None => return,
            },
            what => what,
        };
        state.next += 1;
        let count = state.counts.entry(place.task.clone()).or_default();
        let own = *count;
        *count += u64::from(what.is_effect());
        // Before the first look at the clock, entries have the time of the system: nothing depends on it.
        let at_ms = if state.clock.wall == 0 { self.inner.now_ms() } else { state.clock.wall };
        state.buffer.push(Entry { seq, task: place.task, count: own, place: place.at, at_ms, what });
        let due = state.is_loaded && state.clock.mono.saturating_sub(state.flushed_at) > nanos(PATIENCE);
        drop(state);
        if due {
            self.flush();
        }
    }

    /// Adds an answer. Those that the runtime receives for itself share an entry: it loads the program, or no statement is executed.
    fn push_answer(&self, name: &str, note: String, digest: u64, outcome: Vec<u8>) {
        let place = self.place();
        let has_statement = self.reins.borrow().is_none() || !place.at.is_empty();
        let name = name.to_owned();
        let what = match self.state.borrow().is_loaded && has_statement {
            true => What::Call { name, note, digest, outcome },
            false => What::Lookups(Lookups::of(name, note, digest, outcome)),
        };
        self.push_at(what, place);
    }

    /// Decides how to execute an immediate effect.
    pub(crate) fn next(&self, name: &str, digest: u64, note: impl Fn() -> String) -> Next {
        match self.status() {
            Status::Stopped => Next::Stopped,
            Status::Live => Next::Live,
            Status::Following => {
                let fits = |what: &What| matches!(what, What::Call { name: own, digest: found, .. } if own == name && *found == digest);
                match self.follow(fits, digest, || format!("{name} {}", note())) {
                    Some(Entry { what: What::Call { outcome, .. }, .. }) => Next::Known(outcome),
                    _ => Next::Stopped,
                }
            }
        }
    }

    /// Executes an effect that only reads.
    pub(crate) fn ask<T: Answer>(
        &self,
        name: &str,
        digest: u64,
        note: impl Fn() -> String,
        work: impl FnOnce(&dyn System) -> T,
    ) -> T {
        if self.loading.get() {
            let answer = work(&*self.inner);
            self.push_answer(name, note(), digest, answer.encode());
            return answer;
        }
        match self.next(name, digest, &note) {
            Next::Stopped => T::stopped(),
            Next::Known(outcome) => self.decoded(&outcome),
            Next::Live => {
                let answer = work(&*self.inner);
                self.push_answer(name, note(), digest, answer.encode());
                answer
            }
        }
    }

    pub(crate) fn decoded<T: Answer>(&self, outcome: &[u8]) -> T {
        T::decode(outcome).unwrap_or_else(|| {
            let seq = self.state.borrow().recorded.front().map_or(0, |entry| entry.seq);
            self.stop(Stop::Unreadable(seq.saturating_sub(1)));
            T::stopped()
        })
    }

    /// Executes an effect that changes something, after it was recorded. `before` helps to determine later whether it
    /// happened; `again` repeats it if its outcome is unknown.
    pub(crate) fn change<T: Answer>(
        &self,
        name: &str,
        digest: u64,
        note: impl Fn() -> String,
        before: impl FnOnce(&dyn System) -> Option<u64>,
        work: impl FnOnce(&dyn System) -> T,
        again: impl FnOnce(&dyn System, Option<u64>) -> T,
    ) -> T {
        let begun = match self.begun(name, digest, &note) {
            Begun::Stopped => return T::stopped(),
            Begun::Before(before) => Some(before),
            Begun::Now => None,
        };
        let answer = match begun {
            Some(before) => match self.next(name, digest, &note) {
                Next::Stopped => return T::stopped(),
                Next::Known(outcome) => return self.decoded(&outcome),
                Next::Live => {
                    let answer = again(&*self.inner, before);
                    self.state.borrow_mut().hand_over_undecided(None);
                    answer
                }
            },
            None => {
                let before = before(&*self.inner);
                self.push(What::Begin { name: name.to_owned(), note: note(), digest, before });
                self.commit();
                if self.is_stopped() {
                    return T::stopped();
                }
                work(&*self.inner)
            }
        };
        self.push(What::Call { name: name.to_owned(), note: note(), digest, outcome: answer.encode() });
        answer
    }

    /// Returns whether an earlier process has started an effect.
    pub(crate) fn begun(&self, name: &str, digest: u64, note: &impl Fn() -> String) -> Begun {
        match self.status() {
            Status::Stopped => Begun::Stopped,
            Status::Live => Begun::Now,
            Status::Following => {
                let fits = |what: &What| matches!(what, What::Begin { name: own, digest: found, .. } if own == name && *found == digest);
                match self.follow(fits, digest, || format!("{name} {}", note())) {
                    Some(Entry { what: What::Begin { before, .. }, seq, .. }) => {
                        self.state.borrow_mut().undecided.begun = seq;
                        Begun::Before(before)
                    }
                    _ => Begun::Stopped,
                }
            }
        }
    }

    // ---- keeping ----

    /// Passes new entries to the keeper once the earlier ones are persisted. One group is written at a time; entries
    /// that arrive meanwhile form the next group. So a thousand tasks that each wait for an entry cost a few hundred
    /// writes.
    pub(crate) fn flush_next(&self) {
        if self.state.borrow().under_way.is_empty() {
            self.flush();
        }
    }

    /// Passes new entries to the keeper without waiting.
    pub(crate) fn flush(&self) {
        if self.replay || self.state.borrow_mut().holds_undecided() {
            return;
        }
        self.pin_printing();
        let shown = {
            let state = self.state.borrow();
            Some(state.shown()).filter(|shown| *shown != state.noted)
        };
        if let Some((out, err)) = shown {
            // The output that the entry mentions is written.
            let _ = self.inner.flush();
            let mut state = self.state.borrow_mut();
            state.noted = (out, err);
            state.note(What::Printed { out, err });
        }
        let mut state = self.state.borrow_mut();
        (state.flushed_at, state.wanted) = (state.clock.mono, None);
        if state.buffer.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut state.buffer);
        let upto = state.next;
        drop(state);
        let kept = self.keeper.append(entries, self.inner.now_ms());
        self.state.borrow_mut().under_way.push_back((upto, kept));
    }

    /// Writes all entries, and blocks until they are persisted.
    pub(crate) fn commit(&self) {
        self.state.borrow_mut().undecided.handed_over = None;
        self.flush();
        loop {
            let Some((upto, kept)) = self.state.borrow_mut().under_way.pop_front() else { break };
            let result = wait(kept);
            self.was_kept(upto, result);
        }
    }

    fn was_kept(&self, upto: u64, result: Result<(), Trouble>) {
        match result {
            Ok(()) => {
                self.state.borrow_mut().kept = upto;
                self.release();
            }
            Err(text) => self.stop(Stop::Unkept(text)),
        }
        let waiting = std::mem::take(&mut self.state.borrow_mut().waiting);
        self.wakes.are_kept(waiting);
    }

    /// Polls the writes in progress.
    pub(crate) fn look_after(&self, context: &mut std::task::Context<'_>) {
        loop {
            let Some((upto, mut kept)) = self.state.borrow_mut().under_way.pop_front() else { return };
            match kept.as_mut().poll(context) {
                std::task::Poll::Ready(result) => self.was_kept(upto, result),
                std::task::Poll::Pending => {
                    self.state.borrow_mut().under_way.push_front((upto, kept));
                    return;
                }
            }
        }
    }

    /// Returns the number of the next new entry.
    pub(crate) fn position(&self) -> u64 {
        self.state.borrow().position()
    }
}

/// Whether an effect was started.
pub(crate) enum Begun {
    /// An earlier process has started it, and may have ended before it happened.
    Before(Option<u64>),
    /// It starts now.
    Now,
    /// The run is stopped.
    Stopped,
}
