//! What follows a journal and records it: the next entry, what is kept, the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use harn_store::wait;
use harn_system::System;

use crate::chance::Chance;
use crate::entry::{Entry, Place, What};
use crate::keeper::{Keeper, Kept, Trouble};
use crate::op::{Drainer, Exchange, Inquired, Op, Pending, Wakes};
use crate::output::Output;
use crate::secrets::{Secrets, UNKNOWN, marked};
use crate::setup::{Difference, InDoubtPolicy, Reins, Setup, Stop};
use crate::wire::{Answer, nanos};

/// The look at the clock that is none: the clock was set back while nobody worked on the run.
const SET_BACK: u32 = 0;

/// Entries wait for each other at most this long while the program is busy.
const PATIENCE: Duration = Duration::from_millis(100);

/// A system that records what another one answers, and answers what was recorded. Clones are one journal.
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
    /// How many answers of people there are, and when that was looked at.
    pub(crate) answered: Cell<(u64, u64)>,
    until: Option<u64>,
    reins: RefCell<Option<Reins>>,
    stopped: RefCell<Option<Stop>>,
    pub(crate) state: RefCell<State>,
    pub(crate) secrets: RefCell<Secrets>,
    pub(crate) chance: RefCell<Chance>,
    /// The variables that were asked for.
    pub(crate) environment: RefCell<HashMap<String, Known>>,
    pub(crate) wakes: Arc<Wakes>,
    /// Whether the program was loaded by sources of today: what the loader asks is neither followed nor recorded.
    pub(crate) loading: Cell<bool>,
}

/// A variable of the environment that was asked for.
#[derive(Clone)]
pub(crate) struct Known {
    /// Whether it holds a key.
    pub(crate) is_secret: bool,
    /// Its value; of one that holds a key only whether it is set.
    pub(crate) value: Option<String>,
}

/// Effects in doubt that no policy and no answer decides.
#[derive(Default)]
pub(crate) struct Undecided {
    /// The number of the last entry that was followed and says that an effect began.
    pub(crate) begun: u64,
    /// Those that take time, by operation.
    pub(crate) ops: BTreeMap<u64, Rc<Inquired>>,
    /// The one that is answered at once.
    pub(crate) at_once: Option<Rc<Inquired>>,
    /// The first whose error the program has got, and the number of its entry.
    pub(crate) handed_over: Option<(u64, Rc<Inquired>)>,
}

pub(crate) struct State {
    /// What is to be followed.
    pub(crate) recorded: VecDeque<Entry>,
    /// Whether what is done happens outside.
    pub(crate) live: bool,
    /// New entries that nobody keeps yet.
    pub(crate) buffer: Vec<Entry>,
    /// The number of the next entry.
    pub(crate) next: u64,
    counts: HashMap<Arc<str>, u64>,
    pub(crate) clock: Clock,
    /// Looks at what is outside while the program was busy, since the last thing was handed over.
    pub(crate) looks: u32,
    pub(crate) ops: BTreeMap<u64, Op>,
    pub(crate) next_op: u64,
    /// Operations that have ended and are to be handed over, and what they gave; whether they had only just begun.
    pub(crate) ended_ops: VecDeque<(u64, Vec<u8>, bool)>,
    pub(crate) aside: BTreeMap<u64, Kept>,
    asides: u64,
    /// Printed so far on both streams, by this process and those before it.
    pub(crate) printed: (u64, u64),
    /// Written already when this process began.
    pub(crate) known: (u64, u64),
    /// Printed by a process before this one until nothing was handed over, as far as the journal says.
    pub(crate) promised: (u64, u64),
    /// Whether the program was busy and something could have been handed over since the last entry. What it prints then rests on
    /// its not having been.
    pub(crate) is_loose: bool,
    /// As the last entry says.
    pub(crate) noted: (u64, u64),
    /// Printed, and not written yet.
    pub(crate) output: Output,
    /// Groups of entries on their way.
    pub(crate) under_way: VecDeque<(u64, Kept)>,
    /// Requests that must not be sent twice, and their replies.
    pub(crate) exchanges: Vec<Weak<dyn Exchange>>,
    /// Requests to people that are not over.
    pub(crate) inquired: BTreeSet<String>,
    /// Requests that are over, as the journal says. Whoever wrote it may not have come to say so.
    pub(crate) ended: Vec<String>,
    /// Entries before this number are kept.
    pub(crate) kept: u64,
    /// Since when somebody waits for entries to be kept that are not on their way.
    pub(crate) wanted: Option<u64>,
    /// Until more has been gathered to be kept with it.
    pub(crate) gathering: Option<harn_system::Waiting<'static, ()>>,
    /// Who waits for entries to be kept.
    pub(crate) waiting: Vec<std::task::Waker>,
    /// Effects in doubt that no policy and no answer decides.
    pub(crate) undecided: Undecided,
    flushed_at: u64,
}

/// The clocks as the program sees them.
#[derive(Default)]
pub(crate) struct Clock {
    /// Milliseconds since 1970.
    pub(crate) wall: i64,
    /// Nanoseconds that never go back.
    pub(crate) mono: u64,
    /// Looks since the last entry that shows it.
    pub(crate) looks: u32,
    /// What is added to the clock of the system: a run that goes on has been going on all the time.
    pub(crate) ahead: u64,
}

/// What to do about an effect.
pub(crate) enum Next {
    /// The journal has the answer.
    Known(Vec<u8>),
    /// It happens.
    Live,
    /// Nothing happens any more.
    Stopped,
}

impl Journal {
    /// A journal over a system.
    pub fn new(setup: Setup) -> Journal {
        let Setup { inner, keeper, entries, replay, until, reload, in_doubt, .. } = setup;
        let Setup { keeps_requests, copies, suspend_after, people, secrets: names, .. } = setup;
        let mut secrets = Secrets::default();
        for name in names {
            match inner.env(&name) {
                Some(value) => secrets.know(&name, &value),
                None if replay => secrets.know(&name, UNKNOWN),
                // The run is stopped when it comes to a place that needs it.
                None => {}
            }
        }
        let next = entries.last().filter(|_| !copies).map_or(0, |entry| entry.seq + 1);
        let (mut known, mut promised) = ((0, 0), (0, 0));
        let mut counts: HashMap<Arc<str>, u64> = HashMap::new();
        let mut recorded = VecDeque::with_capacity(entries.len());
        let mut loaded = !reload;
        for entry in entries {
            if !copies {
                let count = counts.entry(entry.task.clone()).or_default();
                *count = (*count).max(entry.count + u64::from(entry.what.is_effect()));
            }
            match entry.what {
                What::Printed { out, err } => known = (out, err),
                What::Printing { out, err } => promised = (out, err),
                // With the sources of today the loader asks anew; what it asked is passed over.
                What::Program if !loaded => {
                    loaded = true;
                    recorded.push_back(entry);
                }
                _ if !loaded => {}
                _ => recorded.push_back(entry),
            }
        }
        // The clocks of the journal are those of its first entries.
        let first = recorded.iter().find_map(|entry| match &entry.what {
            What::Clock { clock, .. } | What::Finish { clock, .. } => Some(*clock),
            _ => None,
        });
        let (wall, mono) = first.unwrap_or_default();
        let live = recorded.is_empty() && !replay;
        let state = State {
            recorded,
            live,
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

    /// Ties the journal to its program.
    pub fn hold(&self, reins: Reins) {
        *self.0.reins.borrow_mut() = Some(reins);
    }

    /// Says that the program is loaded and begins now.
    pub fn begin_program(&self) {
        self.0.loading.set(false);
        // With sources of today the loader may have asked for something else.
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

    /// Why the run was stopped from here, if it was.
    pub fn stopped(&self) -> Option<Stop> {
        let _ = self.0.is_stopped();
        self.0.stopped.borrow().clone()
    }

    /// What asks the run to make room.
    pub fn drainer(&self) -> Drainer {
        Drainer(self.0.wakes.clone())
    }

    /// The number of the next entry.
    pub fn length(&self) -> u64 {
        self.0.state.borrow().next
    }

    /// The number of the next entry to follow; nothing when all were followed.
    pub fn next_entry(&self) -> Option<u64> {
        self.0.state.borrow().recorded.front().map(|entry| entry.seq)
    }

    /// Whether everything in the journal was followed, and the program goes on by itself.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().live
    }

    /// Writes down all that is not kept yet.
    ///
    /// # Errors
    /// Why the journal cannot be written.
    pub fn settle(&self) -> Result<(), Stop> {
        if self.0.replay {
            return Ok(());
        }
        self.0.commit();
        // What went out by that is noted, too.
        let shown = self.0.state.borrow().shown();
        if shown != self.0.state.borrow().noted {
            self.0.commit();
        }
        self.stopped().filter(|stop| matches!(stop, Stop::Unkept(_))).map_or(Ok(()), Err)
    }

    /// What could not be printed although the program was told that it is: it was not written at once.
    ///
    /// # Errors
    /// Why not.
    pub fn output(&self) -> std::io::Result<()> {
        self.0.state.borrow().output.failure()
    }

    /// A text that is kept outside of the journal, with names in the place of keys.
    #[must_use]
    pub fn hide(&self, text: String) -> String {
        let hidden = self.0.secrets.borrow().hide(text.into_bytes());
        String::from_utf8(hidden).unwrap_or_default()
    }

    /// That text with the keys of today; the run is stopped when one is missing.
    #[must_use]
    pub fn reveal(&self, text: String) -> String {
        let (mut out, mut rest) = (String::new(), &*text);
        while let Some((before, name, after)) = marked(rest) {
            out += before;
            match self.0.inner.env(name) {
                Some(value) => {
                    self.0.secrets.borrow_mut().know(name, &value);
                    out += &value;
                }
                None if self.0.replay => {
                    self.0.secrets.borrow_mut().know(name, UNKNOWN);
                    out += UNKNOWN;
                }
                None => self.0.stop(Stop::MissingKey(name.to_owned())),
            }
            rest = after;
        }
        if out.is_empty() && rest.len() == text.len() { text } else { out + rest }
    }

    /// The arguments of the effect with this digest, with names in the place of secrets.
    pub fn request(&self, digest: u64) -> Option<String> {
        self.0.requests.as_ref()?.borrow().get(&digest).cloned()
    }

    /// The first entry that the program has not come to, when it has ended before its journal.
    pub fn left_over(&self) -> Option<Difference> {
        let state = self.0.state.borrow();
        let entry = state.recorded.iter().find(|entry| !matches!(entry.what, What::Clock { .. }))?;
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

/// Where a run is in its journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// There is an entry to follow.
    Following,
    /// Nothing was recorded.
    Live,
    /// Nothing happens any more.
    Stopped,
}

fn described(entry: &Entry) -> String {
    match entry.what.note() {
        "" => entry.what.name().to_owned(),
        note => format!("{} {note}", entry.what.name()),
    }
}

impl State {
    /// Whether the next entry to follow is one that fits.
    pub(crate) fn next_is(&self, fits: impl FnOnce(&What) -> bool) -> bool {
        self.recorded.front().is_some_and(|entry| fits(&entry.what))
    }

    /// When the first of the waits for time is over, and the first of all waits; nothing when the program waits for
    /// something else, too.
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

    /// How far entries are kept when all that is under way is written.
    pub(crate) fn kept_when_written(&self) -> u64 {
        self.under_way.back().map_or(self.kept, |(upto, _)| *upto)
    }

    /// The number that the next entry will have.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Adds an entry that is not the doing of a task.
    pub(crate) fn note(&mut self, what: What) {
        let (seq, at_ms) = (self.next, self.clock.wall);
        self.next += 1;
        self.buffer.push(Entry { seq, task: "0".into(), count: 0, place: "".into(), at_ms, what });
    }

    /// Whether the last entry was followed, and nothing has happened since.
    pub(crate) fn is_over(&self) -> bool {
        !self.live && self.recorded.is_empty()
    }

    /// Whether there is no entry left.
    pub(crate) fn is_followed(&self) -> bool {
        self.recorded.is_empty()
    }

    /// What the program waits for.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        self.ops.values().filter(|op| op.is_open()).map(Op::described).collect()
    }

    pub(crate) fn next_aside(&mut self) -> u64 {
        self.asides += 1;
        self.asides
    }
}

impl Core {
    /// Where the program is.
    pub(crate) fn here(&self) -> Place {
        self.place()
    }

    pub(crate) fn own(&self) -> Rc<Core> {
        self.own.upgrade().expect("a core that is used is held")
    }

    /// Whether nothing happens any more.
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

    /// Stops the run. The first reason stays.
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

    /// Whether the loader asks, with sources of today.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.get()
    }

    fn place(&self) -> Place {
        let place = self.reins.borrow().as_ref().and_then(|reins| (reins.place)());
        place.unwrap_or_else(|| Place { task: "0".into(), at: "".into() })
    }

    /// Where the run is.
    pub(crate) fn status(&self) -> Status {
        if self.is_stopped() || self.drains() {
            return Status::Stopped;
        }
        self.follow_set_back();
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

    /// Passes over the note that the clock was set back, which is no look of the program.
    pub(crate) fn follow_set_back(&self) {
        let clock = match self.state.borrow().recorded.front() {
            Some(Entry { what: What::Clock { look: SET_BACK, clock }, .. }) => *clock,
            _ => return,
        };
        self.take();
        self.set_clocks(clock);
    }

    /// Follows the next entry if it is the one that is looked for; stops the run if it is another.
    pub(crate) fn follow(
        &self,
        fits: impl FnOnce(&What) -> bool,
        digest: u64,
        now: impl FnOnce() -> String,
    ) -> Option<Entry> {
        let fits = self.state.borrow().recorded.front().is_some_and(|entry| fits(&entry.what));
        if fits { self.take() } else { self.differs(now(), digest).and(None) }
    }

    /// Passes over the entry that is followed.
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

    /// All entries were followed.
    #[cold]
    pub(crate) fn end_of_record(&self) -> Status {
        if self.replay {
            self.stop(Stop::End);
            return Status::Stopped;
        }
        let mut state = self.state.borrow_mut();
        state.live = true;
        // The run has been going on while nobody worked on it: its deadlines did not wait.
        let (now, own) = (self.inner.now_ms(), nanos(self.inner.monotonic()));
        // A journal in which nobody has looked at the clock does not say when it ended.
        let known = if state.clock.wall == 0 { now } else { state.clock.wall };
        let gone = u64::try_from(now.saturating_sub(known)).unwrap_or(0);
        let target = state.clock.mono.saturating_add(gone.saturating_mul(1_000_000));
        state.clock.ahead = target.saturating_sub(own);
        state.clock.looks = 0;
        let waiting: Vec<u64> = state.ops.keys().copied().collect();
        let ended = std::mem::take(&mut state.ended);
        // A clock that was set back: whoever goes on later counts from where it is now, or the wait would begin anew each time.
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

    /// Bytes of the journal with the keys of today in the place of their names; the run is stopped when one is missing.
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

    /// A text for people, with `$NAME` in the place of keys.
    pub(crate) fn named(&self, text: &str) -> String {
        self.secrets.borrow().named(text)
    }

    /// Whether the arguments of effects are stored.
    pub(crate) fn keeps_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Stores the arguments of an effect.
    pub(crate) fn note_request(&self, digest: u64, text: String) {
        if let Some(requests) = &self.requests {
            requests.borrow_mut().insert(digest, self.named(&text));
        }
    }

    /// Stops because the program does something else than the journal says.
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
        state.next += 1;
        let count = state.counts.entry(place.task.clone()).or_default();
        let own = *count;
        *count += u64::from(what.is_effect());
        state.clock.looks = 0;
        state.is_loose = false;
        // Before the first look at the clock, its place in time is that of the system: nothing rests on it.
        let at_ms = if state.clock.wall == 0 { self.inner.now_ms() } else { state.clock.wall };
        state.buffer.push(Entry { seq, task: place.task, count: own, place: place.at, at_ms, what });
        let due = state.clock.mono.saturating_sub(state.flushed_at) > nanos(PATIENCE);
        drop(state);
        if due {
            self.flush();
        }
    }

    /// What to do about something that is answered at once.
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

    /// An effect that only looks.
    pub(crate) fn ask<T: Answer>(
        &self,
        name: &str,
        digest: u64,
        note: impl Fn() -> String,
        work: impl FnOnce(&dyn System) -> T,
    ) -> T {
        if self.loading.get() {
            let answer = work(&*self.inner);
            let (name, note) = (name.to_owned(), note());
            self.push(What::Call { name, note, digest, outcome: answer.encode() });
            return answer;
        }
        match self.next(name, digest, &note) {
            Next::Stopped => T::stopped(),
            Next::Known(outcome) => self.decoded(&outcome),
            Next::Live => {
                let answer = work(&*self.inner);
                let (name, note) = (name.to_owned(), note());
                self.push(What::Call { name, note, digest, outcome: answer.encode() });
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

    /// An effect that changes something. It is written down before it happens. `before` is what helps to tell later whether
    /// it happened; `again` does it when nobody knows.
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

    /// Whether an effect was begun by a process before this one.
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

    /// Hands new entries to the keeper once it has kept those before. One group is on its way at a time: what comes meanwhile
    /// makes up the next, so a thousand tasks that each want something kept cost a few hundred writes.
    pub(crate) fn flush_next(&self) {
        if self.state.borrow().under_way.is_empty() {
            self.flush();
        }
    }

    /// Hands new entries to the keeper, and does not wait.
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
            // What is noted as printed is out.
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

    /// Writes all entries, and waits for it.
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

    /// Looks after entries on their way.
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

    /// The number that the next entry will have.
    pub(crate) fn position(&self) -> u64 {
        self.state.borrow().position()
    }
}

/// Whether an effect was begun.
pub(crate) enum Begun {
    /// By a process before this one, which may have ended before it happened.
    Before(Option<u64>),
    /// It begins now.
    Now,
    /// Nothing happens any more.
    Stopped,
}
