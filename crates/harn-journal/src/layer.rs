//! The system that a program sees: effects with an immediate answer.
//!
//! An effect that only reads is an entry. An effect that changes something is announced in the journal first, and all
//! earlier entries are persisted by then: a resumed run knows that it may have happened, and everything that led to
//! it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_system::{
    Asked, Beside, Command, Draft, Facts, Finished, HttpError, HttpReply, HttpRequest, InDoubt, Inquiry,
    Layer, Lock, MoveError, PeerRequest, Socket, Stream, System, Waiting,
};

use crate::doubt::Decision;
use crate::entry::{Digester, What, digest};
use crate::journal::{Core, Journal, Known, Status};
use crate::secrets::UNKNOWN;
use crate::setup::Stop;
use crate::wire::{Answer, path_bytes};

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn in_doubt(what: &str, path: &Path) -> io::Error {
    io::Error::other(InDoubt(format!(
        "{what} {}: the run was interrupted in the middle of it, and it is unknown whether it happened; look at the file, or resume with --retry-in-doubt to repeat it",
        path.display()
    )))
}

impl Core {
    /// Returns the digest of the arguments of an effect. Keys do not contribute: with a renewed key the effect is the
    /// same.
    pub(crate) fn digest<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
        let mut text = self.keeps_requests().then(String::new);
        let digest = {
            let secrets = self.secrets.borrow();
            let add = |digester: Digester, piece: &'a [u8]| {
                if let Some(text) = &mut text {
                    *text += &String::from_utf8_lossy(piece);
                    text.push('\n');
                }
                digester.add(&secrets.without(piece))
            };
            pieces.into_iter().fold(Digester::new(), add).end()
        };
        if let Some(text) = text {
            self.note_request(digest, text);
        }
        digest
    }

    fn of_path(&self, path: &Path) -> u64 {
        self.digest([path_bytes(path).as_slice()])
    }

    fn of_paths(&self, from: &Path, to: &Path) -> u64 {
        self.digest([path_bytes(from).as_slice(), path_bytes(to).as_slice()])
    }

    /// Executes a change that can be repeated without harm.
    fn change_again<T: Answer>(
        &self,
        name: &str,
        digest: u64,
        note: impl Fn() -> String,
        work: impl Fn(&dyn System) -> T,
    ) -> T {
        self.change(name, digest, note, |_| None, &work, |system, _| work(system))
    }
}

/// Changes the bytes of a path. A path that is not UTF-8 is returned unchanged.
fn changed(path: PathBuf, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> PathBuf {
    match path.into_os_string().into_string() {
        Ok(text) => String::from_utf8_lossy(&change(text.into_bytes())).into_owned().into(),
        Err(other) => other.into(),
    }
}

impl Layer for Journal {
    fn inner(&self) -> &dyn System {
        &*self.0.inner
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.0.ask("facts", self.0.of_path(path), || shown(path), |system| system.facts(path))
    }

    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.0.ask("link_facts", self.0.of_path(path), || shown(path), |system| system.link_facts(path))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let core = &self.0;
        let found = core.ask(
            "canonical",
            self.0.of_path(path),
            || shown(path),
            |system| {
                system.canonical(path).map(|found| changed(found, |bytes| core.secrets.borrow().hide(bytes)))
            },
        );
        found.map(|found| changed(found, |bytes| core.show_keys(bytes)))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let core = &self.0;
        let found: io::Result<Vec<PathBuf>> = core.ask(
            "names",
            self.0.of_path(path),
            || shown(path),
            |system| {
                let hide = |name| changed(name, |bytes| core.secrets.borrow().hide(bytes));
                Ok(system.names(path)?.into_iter().map(hide).collect())
            },
        );
        let show = |name| changed(name, |bytes| core.show_keys(bytes));
        Ok(found?.into_iter().map(show).collect())
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let core = &self.0;
        let hidden = core.ask(
            "read",
            self.0.of_path(path),
            || shown(path),
            |system| system.read(path, limit).map(|bytes| core.secrets.borrow().hide(bytes)),
        );
        hidden.map(|bytes| core.show_keys(bytes))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let digest = self.0.digest([path_bytes(path).as_slice(), bytes]);
        self.0.change_again("replace", digest, || shown(path), |system| system.replace(path, bytes))
    }

    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.0.ask("draft", self.0.of_path(path), || shown(path), |system| system.draft(path).map(drop))?;
        Ok(Box::new(JournalDraft { journal: self.clone(), path: path.to_owned(), bytes: Vec::new() }))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let digest = self.0.digest([path_bytes(path).as_slice(), bytes]);
        let length = |system: &dyn System| system.facts(path).map_or(0, |facts| facts.size);
        self.0.change(
            "append",
            digest,
            || shown(path),
            |system| Some(length(system)),
            |system| system.append(path, bytes),
            |system, before| match before.map(|before| length(system).checked_sub(before)) {
                Some(Some(0)) => system.append(path, bytes),
                Some(Some(more)) if more == bytes.len() as u64 => Ok(()),
                _ => match self.0.decide_at_once("append", &shown(path)) {
                    Decision::Again => system.append(path, bytes),
                    Decision::Result(_) => Ok(()),
                    Decision::Fail => Err(in_doubt("append to", path)),
                },
            },
        )
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.0.change_again(
            "make_dirs",
            self.0.of_path(path),
            || shown(path),
            |system| system.make_dirs(path),
        )
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let there = |system: &dyn System| system.link_facts(path).is_ok();
        self.0.change(
            "make_dir",
            self.0.of_path(path),
            || shown(path),
            |system| Some(u64::from(there(system))),
            |system| system.make_dir(path),
            |system, before| match before {
                Some(0) if there(system) => Ok(()),
                _ => system.make_dir(path),
            },
        )
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let note = || format!("{} to {}", from.display(), to.display());
        self.0.change_again("copy", self.0.of_paths(from, to), note, |system| system.copy(from, to))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        let there = |system: &dyn System, path: &Path| system.link_facts(path).is_ok();
        self.0.change(
            "rename",
            self.0.of_paths(from, to),
            || format!("{} to {}", from.display(), to.display()),
            |system| Some(u64::from(there(system, from))),
            |system| system.rename(from, to),
            |system, before| match before {
                Some(1) if !there(system, from) && there(system, to) => Ok(()),
                _ => system.rename(from, to),
            },
        )
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let there = |system: &dyn System| system.link_facts(path).is_ok();
        self.0.change(
            "remove",
            self.0.of_path(path),
            || shown(path),
            |system| Some(u64::from(there(system))),
            |system| system.remove(path),
            |system, before| match before {
                Some(1) if !there(system) => Ok(()),
                _ => system.remove(path),
            },
        )
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let mut held = None;
        let got: io::Result<bool> = self.0.ask(
            "try_lock",
            self.0.of_path(path),
            || shown(path),
            |system| {
                held = system.try_lock(path)?;
                Ok(held.is_some())
            },
        );
        if !got? {
            return Ok(None);
        }
        if held.is_none() && !self.0.replay {
            // The process that held the lock is gone, and the resumed run needs it again.
            held = match self.0.inner.try_lock(path) {
                // The directory is gone: the run has removed it since, and no other process can use it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Lock::of(())),
                held => held?,
            };
            if held.is_none() {
                let text = format!("{}: another process has taken the lock that the run had", path.display());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
        }
        Ok(Some(held.unwrap_or_else(|| Lock::of(()))))
    }

    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        self.0.begin_run(command)
    }

    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.0.begin_peer(request)
    }

    fn leave_peer(&self, id: &str) {
        // A replay has started no peer.
        self.0.inner.leave_peer(id);
    }

    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.0.begin_beside(work)
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        self.0.begin_http(request)
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.0.begin_websocket(request)
    }

    fn now_ms(&self) -> i64 {
        self.0.clocks().0
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.clocks().1)
    }

    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        self.0.begin_sleep(time, false)
    }

    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        self.0.begin_sleep(time, true)
    }

    fn has_people(&self) -> bool {
        self.0.people
    }

    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        self.0.begin_inquiry(inquiry)
    }

    fn end_inquiry(&self, id: &str) {
        self.0.end_inquiry(id);
    }

    fn settle_doubt(&self, is_caught: bool) {
        self.0.settle_doubt(is_caught);
    }

    fn random(&self, bytes: &mut [u8]) {
        self.0.draw(bytes);
    }

    fn env(&self, name: &str) -> Option<String> {
        let core = &self.0;
        // The environment of a process is constant, so each variable is recorded once.
        let known = core.environment.borrow().get(name).cloned();
        let Known { is_secret, value } = known.unwrap_or_else(|| {
            let key = digest([name.as_bytes()]);
            let is_secret = harn_system::is_secret_variable(name);
            let value = if is_secret {
                // Records only whether it is set.
                let is_set: bool =
                    core.ask("key", key, || name.to_owned(), |system| system.env(name).is_some());
                is_set.then(String::new)
            } else {
                core.ask("env", key, || name.to_owned(), |system| system.env(name))
            };
            let known = Known { is_secret, value };
            if !core.is_stopped() {
                core.environment.borrow_mut().insert(name.to_owned(), known.clone());
            }
            known
        });
        if !is_secret || value.is_none() {
            return value;
        }
        match core.inner.env(name) {
            Some(value) => {
                core.secrets.borrow_mut().know(name, &value);
                Some(value)
            }
            None if core.replay => {
                core.secrets.borrow_mut().know(name, UNKNOWN);
                Some(UNKNOWN.to_owned())
            }
            None => {
                core.stop(Stop::MissingKey(name.to_owned()));
                None
            }
        }
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        self.0.ask("cwd", 0, String::new, |system| system.cwd())
    }

    fn temp_dir(&self) -> PathBuf {
        let found: io::Result<PathBuf> =
            self.0.ask("temp_dir", 0, String::new, |system| Ok(system.temp_dir()));
        found.unwrap_or_default()
    }

    fn pid(&self) -> u32 {
        self.0.ask("pid", 0, String::new, |system| system.pid())
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        let core = &self.0;
        if core.is_stopped() {
            return Ok(());
        }
        let (fresh, at) = core.fresh(text, false);
        // A failed print records its position in the output; older journals do not have it.
        let failed = |what: &What| matches!(what, What::Call { name, digest, .. } if name == "write_out" && (*digest == at || *digest == 0));
        let known = core.state.borrow().next_is(failed);
        if known && core.status() == Status::Following {
            return match core.take().map(|entry| entry.what) {
                Some(What::Call { outcome, .. }) => core.decoded(&outcome),
                _ => Ok(()),
            };
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let written = core.show(fresh, false);
        // Only a failure is visible to the program.
        if written.is_err() && core.status() == Status::Live {
            let (name, note) = ("write_out".to_owned(), String::new());
            core.push(What::Call { name, note, digest: at, outcome: written.encode() });
        }
        written
    }

    fn flush(&self) -> io::Result<()> {
        if self.0.is_stopped() {
            return Ok(());
        }
        // Output that waits for entries is written when they are persisted, and does not block the program.
        self.0.inner.flush().and_then(|()| self.0.state.borrow().output.failure())
    }

    fn write_err(&self, text: &str) {
        if self.0.is_stopped() {
            return;
        }
        let (fresh, _) = self.0.fresh(text, true);
        if !fresh.is_empty() {
            // A failure of this write cannot be reported.
            let _ = self.0.show(fresh, true);
        }
    }

    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        self.0.begin_input("read_line", |system| system.read_line())
    }

    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        let text = self.0.begin_input("read_input", |system| {
            let text = system.read_input();
            Box::pin(async { text.await.map(Some) })
        });
        Box::pin(async { text.await.map(Option::unwrap_or_default) })
    }

    fn is_terminal(&self, stream: Stream) -> bool {
        let digest = match stream {
            Stream::Input => 0,
            Stream::Output => 1,
            Stream::Error => 2,
        };
        self.0.ask(
            "is_terminal",
            digest,
            || format!("{stream:?}").to_lowercase(),
            |system| system.is_terminal(stream),
        )
    }
}

/// The new content of a file, stored until the file is replaced: a resumed run writes it again.
struct JournalDraft {
    journal: Journal,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Write for JournalDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Draft for JournalDraft {
    fn commit(self: Box<Self>) -> io::Result<()> {
        Layer::replace(&self.journal, &self.path, &self.bytes)
    }
}
