//! The real machine.

pub mod files;
mod http;
pub(crate) mod input;
pub mod output;
mod peer;
pub mod process;
mod regular;
mod replace;

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use replace::{Replacement, create_private};

use crate::confine::Confined;
use crate::file::{Draft, Facts, Lock, MoveError};
use crate::guard::Protected;
use crate::net::{HttpError, HttpReply, HttpRequest};
use crate::os;
use crate::peer::PeerRequest;
use crate::people::{Asked, Inquiry};
use crate::process::{Command, Finished};
use crate::socket::Socket;
use crate::system::{Beside, Stream, System};
use crate::wait::Waiting;

/// The machine and this process. Files and output work in any context; input, processes, HTTP and timers must be polled
/// in a tokio runtime.
pub struct Real {
    started: Instant,
    out: output::Output,
    clients: http::Clients,
    peers: peer::Peers,
    /// Unused random bytes, requested from the system in batches.
    chance: RefCell<[u8; 256]>,
    used: Cell<usize>,
    /// The working directory when it was first requested.
    place: OnceCell<PathBuf>,
    confined: Confined,
}

/// A locked file.
struct Held(std::fs::File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being started still has a copy of the descriptor,
        // which holds the lock.
        let _ = self.0.unlock();
    }
}

impl Default for Real {
    fn default() -> Real {
        Real {
            started: Instant::now(),
            out: output::Output::default(),
            clients: http::Clients::default(),
            peers: peer::Peers::default(),
            chance: RefCell::new([0; 256]),
            used: Cell::new(256),
            place: OnceCell::new(),
            confined: Confined::default(),
        }
    }
}

impl Real {
    /// Returns the machine, with the standard streams of this process.
    pub fn new() -> Real {
        Real::default()
    }

    /// Returns the names of the environment variables of this process that are valid UTF-8.
    pub fn variable_names() -> impl Iterator<Item = String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
    }

    /// As [`System::read_line`], but blocks the thread: for interactive commands while no program runs.
    ///
    /// # Errors
    /// As [`System::read_line`].
    pub fn read_line_now(&self) -> io::Result<Option<String>> {
        input::line_now()
    }

    fn inside(&self, path: &Path) -> io::Result<()> {
        self.confined.check(path, &os::canonical, &|path| files::facts(path, false).is_ok())
    }

    /// Rejects a directory that is or contains a home directory of the user or the initial working directory. These are
    /// known only here: `HOME` may be unset or invalid UTF-8, and a deleted working directory has no path.
    fn spare(&self, path: &Path) -> io::Result<()> {
        if !self.link_facts(path).is_ok_and(|facts| facts.is_dir()) {
            return Ok(());
        }
        let homes = os::homes().into_iter().filter(|home| home.is_absolute());
        let mut places = homes.fold(Protected::default(), |places, home| places.and("the home folder", home));
        if let Some(place) = self.place.get() {
            places = places.first("the working directory", place);
        }
        match places.held_by(self, path) {
            Some(place) => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it holds {place}"))),
            None => Ok(()),
        }
    }
}

/// Returns the names of the variables of this process that hold secrets, sorted.
#[must_use]
pub fn secret_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| crate::is_secret_variable(name)).collect();
    names.sort();
    names
}

impl System for Real {
    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.inside(path)?;
        files::facts(path, true)
    }

    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        files::facts(path, false)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        os::canonical(path)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.inside(path)?;
        files::names(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.inside(path)?;
        files::read(path, limit)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inside(path)?;
        files::replace(path, bytes)
    }

    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.inside(path)?;
        Ok(Box::new(Replacement::new(path)?))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inside(path)?;
        files::append(path, bytes)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        files::make_dirs(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        std::fs::create_dir(path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inside(from)?;
        self.inside(to)?;
        files::copy(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.inside(from).and_then(|()| self.inside(to)).map_err(MoveError::NotMoved)?;
        self.spare(from).and_then(|()| self.spare(to)).map_err(MoveError::NotMoved)?;
        files::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        self.spare(path)?;
        files::remove(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        self.inside(path)?;
        let file = files::open_to_append(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(Box::new(Held(file))))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_foreign(&self, path: &Path) -> bool {
        os::is_foreign(path)
    }

    fn confine(&self, place: &Path, root: &Path) {
        self.confined.add(place, root);
    }

    fn check_read(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn check_write(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        Box::pin(process::run(command))
    }

    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        Box::pin(self.peers.ask(request))
    }

    fn leave_peer(&self, id: &str) {
        self.peers.leave(id);
    }

    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        (work.work)(self)
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        Box::pin(self.clients.exchange(request))
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        Box::pin(self.clients.websocket(request))
    }

    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn has_people(&self) -> bool {
        false
    }

    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        let time = self.sleep(inquiry.time);
        Box::pin(async move {
            time.await;
            Ok(None)
        })
    }

    fn end_inquiry(&self, _: &str) {}

    fn random(&self, bytes: &mut [u8]) {
        let mut chance = self.chance.borrow_mut();
        for byte in bytes {
            if self.used.get() == chance.len() {
                // Without a source of randomness no program is secure.
                getrandom::fill(&mut *chance).expect("the system has random bytes");
                self.used.set(0);
            }
            *byte = chance[self.used.replace(self.used.get() + 1)];
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        // Names that an environment cannot contain are not set.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        let other = || std::env::var(os::other_name(name)?).ok();
        let token = || crate::token::stored(self, name.strip_prefix(crate::token::VARIABLE)?);
        std::env::var(name).ok().or_else(other).or_else(token)
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        let place = std::env::current_dir()?;
        self.place.get_or_init(|| place.clone());
        Ok(place)
    }

    fn temp_dir(&self) -> PathBuf {
        std::env::temp_dir()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn platform(&self) -> (&'static str, &'static str) {
        (std::env::consts::OS, std::env::consts::ARCH)
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.out.write(text)
    }

    fn flush(&self) -> io::Result<()> {
        self.out.flush()
    }

    fn write_err(&self, text: &str) {
        let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
    }

    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        Box::pin(input::next_line())
    }

    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        Box::pin(input::all_that_is_left())
    }

    fn is_terminal(&self, stream: Stream) -> bool {
        match stream {
            Stream::Input => io::stdin().is_terminal(),
            Stream::Output => io::stdout().is_terminal(),
            Stream::Error => io::stderr().is_terminal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ() {
        let system = Real::new();
        let (mut a, mut b) = ([0; 300], [0; 300]);
        system.random(&mut a);
        system.random(&mut b);
        assert_ne!(a, b);
        assert_ne!(a[..16], a[256..272]);
    }

    #[test]
    fn a_lock_is_held_once() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("lock");
        let held = Real::new().try_lock(&path).expect("a file");
        assert!(held.is_some());
        assert!(Real::new().try_lock(&path).expect("a file").is_none());
        drop(held);
        assert!(Real::new().try_lock(&path).expect("a file").is_some());
    }

    #[test]
    fn the_home_of_the_user_and_the_place_of_the_process_are_spared() {
        let system = Real::new();
        let place = system.cwd().expect("a working directory");
        let homes = os::homes();
        for held in homes.iter().map(PathBuf::as_path).filter(|home| home.is_dir()).chain([place.as_path()]) {
            for path in held.ancestors() {
                let error = system.spare(path).expect_err("spared");
                assert!(error.to_string().starts_with("it holds the "), "{}: {error}", path.display());
            }
        }
        let scratch = tempfile::tempdir().expect("a scratch folder");
        system.spare(scratch.path()).expect("a folder like others");
        system.remove(scratch.path()).expect("removed");
    }
}
