//! A system that counts the external effects of a case and optionally adds random delays.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use harn_journal::{Entry, What};
use harn_system::{
    Command, Facts, Finished, HttpError, HttpReply, HttpRequest, Layer, MoveError, PeerRequest, Socket,
    System, Waiting,
};

/// Effects that change something, by their name in the journal, and whether one in doubt is simply repeated.
const CHANGES: [(&str, bool); 10] = [
    ("append", false),
    ("copy", true),
    ("http", true),
    ("make_dir", false),
    ("make_dirs", true),
    ("peer", true),
    ("remove", false),
    ("rename", false),
    ("replace", true),
    ("run", true),
];

/// Maximum delay of synchronous operations, and of asynchronous ones.
const AT_ONCE: Duration = Duration::from_micros(200);
const LATER: Duration = Duration::from_millis(4);

/// Number of occurrences of each effect, by name and subject.
type Counted = BTreeMap<(String, String), u64>;

/// Number of occurrences of each effect, and of those that failed without a change.
#[derive(Clone, Default)]
pub(super) struct Happened {
    all: Counted,
    in_vain: Counted,
}

/// Pseudorandom numbers seeded by the name of a case.
pub(super) struct Chance(Cell<u64>);

impl Chance {
    /// Seeds the numbers with a name.
    pub(super) fn of(name: &str) -> Chance {
        Chance(Cell::new(
            name.bytes().fold(7, |n: u64, byte| n.wrapping_mul(31).wrapping_add(u64::from(byte))),
        ))
    }

    /// Returns a number from 0 up to, but not including, `limit`.
    pub(super) fn below(&self, limit: u64) -> u64 {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % limit.max(1)
    }

    /// Returns `count` new sequences.
    pub(super) fn split(self, count: usize) -> impl Iterator<Item = Chance> {
        (0..count).map(move |_| Chance(Cell::new(self.below(u64::MAX))))
    }

    fn up_to(&self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Counts effects that change something, and delays all operations if it has a source of delays.
pub(super) struct Watched {
    inner: Box<dyn System>,
    delays: Option<Chance>,
    counted: RefCell<Happened>,
    counts: Cell<bool>,
}

impl Watched {
    /// Wraps `inner`.
    pub(super) fn over(inner: Box<dyn System>, delays: Option<Chance>) -> Watched {
        Watched { inner, delays, counted: RefCell::default(), counts: Cell::new(true) }
    }

    /// Stops counting.
    pub(super) fn stop_counting(&self) {
        self.counts.set(false);
    }

    /// Returns the counts, or `None` if counting was stopped.
    pub(super) fn counted(&self) -> Option<Happened> {
        self.counts.get().then(|| self.counted.borrow().clone())
    }

    fn change(&self, name: &str, note: String) -> &dyn System {
        if self.counts.get() {
            *self.counted.borrow_mut().all.entry((name.to_owned(), note)).or_default() += 1;
        }
        self.at_once()
    }

    /// Performs an atomic change of files.
    fn change_or_fail<T, E>(
        &self,
        name: &str,
        note: String,
        change: impl FnOnce(&dyn System) -> Result<T, E>,
    ) -> Result<T, E> {
        let result = change(self.change(name, note.clone()));
        if result.is_err() && self.counts.get() {
            *self.counted.borrow_mut().in_vain.entry((name.to_owned(), note)).or_default() += 1;
        }
        result
    }

    /// Returns the inner system after a delay, for a synchronous operation.
    fn at_once(&self) -> &dyn System {
        if let Some(delays) = &self.delays {
            let until = self.inner.monotonic() + delays.up_to(AT_ONCE);
            while self.inner.monotonic() < until {
                std::hint::spin_loop();
            }
        }
        &*self.inner
    }

    /// Starts an asynchronous operation after a delay.
    fn later<'a, T: 'a>(
        &'a self,
        begin: impl FnOnce(&'a dyn System) -> Waiting<'a, T> + 'a,
    ) -> Waiting<'a, T> {
        let Some(delays) = &self.delays else { return begin(&*self.inner) };
        let pause = self.inner.sleep(delays.up_to(LATER));
        Box::pin(async move {
            pause.await;
            begin(&*self.inner).await
        })
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn both(from: &Path, to: &Path) -> String {
    format!("{} to {}", from.display(), to.display())
}

impl Layer for Watched {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.at_once().facts(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.at_once().read(path, limit)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.change("replace", shown(path)).replace(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.change("append", shown(path)).append(path, bytes)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.change("make_dirs", shown(path)).make_dirs(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.change_or_fail("make_dir", shown(path), |system| system.make_dir(path))
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("copy", both(from, to)).copy(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.change_or_fail("rename", both(from, to), |system| system.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change_or_fail("remove", shown(path), |system| system.remove(path))
    }

    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        let words = std::iter::once(&command.program).chain(&command.arguments);
        let note = words.map(String::as_str).collect::<Vec<_>>().join(" ");
        let _ = self.change("run", note);
        self.later(|system| system.run(command))
    }

    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        let _ = self.change("peer", format!("{} of {}", request.method, request.peer.command.program));
        self.later(|system| system.ask_peer(request))
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        let url = request.url.split(['?', '#']).next().unwrap_or_default();
        let _ = self.change("http", format!("{} {url}", request.method));
        self.later(|system| system.http(request))
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.later(|system| system.websocket(request))
    }

    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        let more = self.delays.as_ref().map_or(Duration::ZERO, |delays| delays.up_to(LATER));
        self.inner.sleep(time.saturating_add(more))
    }
}

/// Counts the effects in a journal that changed something.
fn recorded(entries: &[Entry]) -> Counted {
    let mut found = Counted::new();
    for entry in entries {
        let (name, note) = (entry.what.name(), entry.what.note());
        if matches!(entry.what, What::Call { .. } | What::Finish { .. })
            && CHANGES.iter().any(|(change, _)| *change == name)
        {
            *found.entry((name.to_owned(), note.to_owned())).or_default() += 1;
        }
    }
    found
}

fn by_name(counted: &Counted) -> BTreeMap<&str, u64> {
    let mut found = BTreeMap::new();
    for ((name, _), times) in counted {
        *found.entry(name.as_str()).or_default() += times;
    }
    found
}

/// Compares the effects of a case that was killed `kills` times with its journal, which contains each effect once.
///
/// # Errors
/// Effects that occurred too often or not at all.
pub(super) fn each_once(entries: &[Entry], happened: &Happened, kills: u64) -> Result<(), String> {
    let recorded = recorded(entries);
    let mut again = 0;
    for key in happened.all.keys().chain(recorded.keys()).collect::<BTreeSet<_>>() {
        let times = |of: &Counted| of.get(key).copied().unwrap_or(0);
        let (wanted, found) = (times(&recorded), times(&happened.all));
        let changed = found - times(&happened.in_vain);
        let may_repeat = CHANGES.iter().any(|(name, repeats)| *name == key.0 && *repeats);
        if found < wanted || changed > wanted && !may_repeat {
            let (name, note) = key;
            return Err(format!(
                "{name} {note} happened {found} times, and the journal has it {wanted} times"
            ));
        }
        again += found - wanted;
    }
    if again > kills {
        return Err(format!("{again} effects happened again after {kills} kills"));
    }
    Ok(())
}

/// Compares the effects of an undisturbed case with those in a journal.
///
/// # Errors
/// The effects whose counts differ.
pub(super) fn same_effects(undisturbed: &Happened, entries: &[Entry]) -> Result<(), String> {
    let recorded = recorded(entries);
    let (then, now) = (by_name(&undisturbed.all), by_name(&recorded));
    if then != now {
        return Err(format!("without kills {then:?} happens, with them {now:?}"));
    }
    Ok(())
}
