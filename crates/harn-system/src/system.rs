//! The [`System`] trait: every effect of a program outside of itself is a call of it, which layers can reject, replace and
//! record.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::file::{Draft, Facts, Lock, MoveError};
use crate::net::{HttpError, HttpReply, HttpRequest};
use crate::peer::PeerRequest;
use crate::people::{Asked, Inquiry};
use crate::process::{Command, Finished};
use crate::socket::Socket;
use crate::wait::Waiting;

/// Hands over what comes from outside, one thing at a time.
pub trait Outside {
    /// Hands one completion to whoever waits for it, by waking its task. `idle`: no task is ready. Pending when there is
    /// none; the waker of `context` is woken when that changes.
    fn hand_over(&self, context: &mut Context<'_>, idle: bool) -> Poll<()>;

    /// Lets what is under way go on while tasks are ready, and hands nothing over.
    fn work(&self, context: &mut Context<'_>);
}

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// What a piece of [`Beside`] does, with the machine itself.
pub type Work = Box<dyn for<'a> FnOnce(&'a dyn System) -> Waiting<'a, io::Result<Vec<u8>>>>;

/// Work of the runtime that a program waits for, such as reading a session from a store. What it gives is all that the program
/// learns of it: a run that goes on is given the same again, and nothing is done.
pub struct Beside {
    /// What it is, in a word.
    pub name: &'static str,
    /// What it is about, for people: equal from run to run.
    pub note: String,
    /// The work. It may be done again when nobody knows how far it came, so it must do no harm when it is.
    pub work: Work,
}

impl Beside {
    /// A piece of work.
    pub fn new<F>(name: &'static str, note: impl Into<String>, work: F) -> Beside
    where
        F: for<'a> FnOnce(&'a dyn System) -> Waiting<'a, io::Result<Vec<u8>>> + 'static,
    {
        Beside { name, note: note.into(), work: Box::new(work) }
    }
}

/// The operating system. Nothing has a default: an implementation says everything that it does.
/// Those that change another system's answers implement [`Layer`].
///
/// Paths are absolute, or relative to the working directory of the *process*; Harn resolves them against
/// [`System::cwd`] before it asks.
pub trait System {
    // ---- files ----

    /// Facts about what a path leads to.
    ///
    /// # Errors
    /// The system's error.
    fn facts(&self, path: &Path) -> io::Result<Facts>;

    /// Facts about a path itself, be it a link.
    ///
    /// # Errors
    /// The system's error.
    fn link_facts(&self, path: &Path) -> io::Result<Facts>;

    /// The absolute path without links, `.` and `..`.
    ///
    /// # Errors
    /// The system's error; there must be something at the path.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The system's error.
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// The system's error; `not a regular file`; `larger than N bytes` when there are more than `limit`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Replaces the content of a file as a whole, making the file; its permissions stay.
    ///
    /// # Errors
    /// The system's error; the old content is as it was.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Begins to replace a file by what is written to the draft.
    ///
    /// # Errors
    /// As [`System::replace`].
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>>;

    /// Adds bytes at the end of a file with one write, making the file.
    ///
    /// # Errors
    /// The system's error; the file is as it was.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a directory and its parents; one that exists is fine.
    ///
    /// # Errors
    /// The system's error.
    fn make_dirs(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory that was not there.
    ///
    /// # Errors
    /// The system's error; one of kind `AlreadyExists` when there is something at the path.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Copies a regular file with its permissions, replacing the target as a whole.
    ///
    /// # Errors
    /// The system's error; an error when both are one file.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file, directory or link, also to another file system.
    ///
    /// # Errors
    /// See [`MoveError`]; an error when both are one file.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError>;

    /// Removes a file, a link, or a directory with everything in it.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Takes the lock that belongs to a path, making a file for it; `None` when another process has it.
    ///
    /// # Errors
    /// The system's error.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>>;

    /// Whether another user owns a file or its directory, or may change one of them. The super-user is no other user; where
    /// systems have no owners of this kind, no file is foreign.
    fn is_foreign(&self, path: &Path) -> bool;

    /// Says that the runtime derived `place` for a program: from now on no file operation on it follows a link out of `root`.
    fn confine(&self, place: &Path, root: &Path);

    /// Checks whether permissions let a file be read, without looking at it.
    ///
    /// # Errors
    /// What forbids it.
    fn check_read(&self, path: &Path) -> io::Result<()>;

    /// Checks whether permissions let a file be written: for files that are written by other means, such as a database.
    ///
    /// # Errors
    /// What forbids it.
    fn check_write(&self, path: &Path) -> io::Result<()>;

    // ---- processes ----

    /// Runs a program to its end. When the wait is dropped, it ends with everything it has started.
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>>;

    /// Asks a program that answers requests, and gives its whole answer as JSON. It is started when it does not run.
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>>;

    /// Has a program end that answered requests, if it runs; with `ID#EXCHANGE` cancels an exchange that is not answered.
    fn leave_peer(&self, id: &str);

    /// Does work of the runtime beside the program, and waits for what it gives.
    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>>;

    // ---- network ----

    /// Sends a request and waits for the head of the reply; the body comes as a stream.
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>>;

    /// Opens a WebSocket. The address begins with `ws://` or `wss://`, `max_response` holds each message, redirects are not followed.
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>>;

    // ---- time ----

    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// Time since some fixed moment; never goes backwards.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration) -> Waiting<'static, ()>;

    /// Waits as the limit of an exchange. In a durable run it restarts when the run is resumed, because the exchange does.
    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        self.sleep(time)
    }

    // ---- people ----

    /// Whether there are people to ask who are elsewhere and answer later.
    fn has_people(&self) -> bool;

    /// Asks people who are elsewhere and waits for the next answer. Where there are none, this waits until the time is over.
    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked>;

    /// Says that an inquiry is over: no answer to it is wanted any more.
    fn end_inquiry(&self, id: &str);

    /// Reports that a handler catches the error of an effect in doubt, or that nothing does and the error ends the program.
    fn settle_doubt(&self, _is_caught: bool) {}

    // ---- chance ----

    /// Fills `bytes` with random ones that nobody can foretell.
    fn random(&self, bytes: &mut [u8]);

    // ---- the process and its surroundings ----

    /// An environment variable; `None` when it is not set or no text.
    fn env(&self, name: &str) -> Option<String>;

    /// The working directory.
    ///
    /// # Errors
    /// The system's error: it may have been removed.
    fn cwd(&self) -> io::Result<PathBuf>;

    /// The directory for temporary files.
    fn temp_dir(&self) -> PathBuf;

    /// The number of this process.
    fn pid(&self) -> u32;

    /// The operating system and the processor, e.g. `("linux", "x86_64")`.
    fn platform(&self) -> (&'static str, &'static str);

    // ---- standard streams ----

    /// Writes to standard output. It may be kept back until [`System::flush`].
    ///
    /// # Errors
    /// The system's error.
    fn write_out(&self, text: &str) -> io::Result<()>;

    /// Hands over what was kept back.
    ///
    /// # Errors
    /// The system's error, also one that happened before: output that was lost stays lost.
    fn flush(&self) -> io::Result<()>;

    /// Writes to standard error. Where that is closed there is nobody to tell.
    fn write_err(&self, text: &str);

    /// Waits for a line of standard input, and gives it without its end; `None` when there is none left. A wait that is
    /// dropped takes nothing away.
    ///
    /// # Errors
    /// The system's error; an error for a line that is not UTF-8, which is used up.
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>>;

    /// What is left of standard input.
    ///
    /// # Errors
    /// As [`System::read_line`].
    fn read_input(&self) -> Waiting<'static, io::Result<String>>;

    /// Whether a stream is a terminal.
    fn is_terminal(&self, stream: Stream) -> bool;
}

/// Convenience that every system has.
pub trait SystemExt: System {
    /// A text file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`System::read`]; an error for what is not UTF-8.
    fn read_text(&self, path: &Path, limit: u64) -> io::Result<String> {
        String::from_utf8(self.read(path, limit)?)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }

    /// Whether there is something at a path.
    fn exists(&self, path: &Path) -> bool {
        self.facts(path).is_ok()
    }

    /// Whether a path leads to a regular file.
    fn is_file(&self, path: &Path) -> bool {
        self.facts(path).is_ok_and(|facts| facts.is_file())
    }

    /// Whether a path leads to a directory.
    fn is_dir(&self, path: &Path) -> bool {
        self.facts(path).is_ok_and(|facts| facts.is_dir())
    }

    /// Writes a file whose folder may be missing: makes that first. When the writing fails, the folders that were made are
    /// taken away again.
    ///
    /// # Errors
    /// That of the writing, or of [`System::make_dirs`].
    fn write_with_folder<T>(&self, path: &Path, write: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        let above = path.ancestors().skip(1);
        let missing = above.take_while(|folder| !folder.as_os_str().is_empty() && !self.exists(folder));
        let missing: Vec<&Path> = missing.collect();
        if let Some(folder) = missing.first() {
            self.make_dirs(folder)?;
        }
        let written = write(self);
        if written.is_err() {
            // What somebody else has put there meanwhile stays.
            for folder in missing {
                if !self.names(folder).is_ok_and(|names| names.is_empty()) || self.remove(folder).is_err() {
                    break;
                }
            }
        }
        written
    }

    /// The working directory; empty when there is none any more.
    fn work_dir(&self) -> PathBuf {
        self.cwd().unwrap_or_default()
    }

    /// Waits for `work`, at most for `time`; `None` when that was over first.
    fn within<F: Future>(
        &self,
        time: Duration,
        work: F,
    ) -> impl Future<Output = Option<F::Output>> + use<Self, F> {
        until(self.sleep(time), work)
    }

    /// Waits for an exchange, at most for `time` ([`System::limit`]).
    fn within_limit<F: Future>(
        &self,
        time: Duration,
        exchange: F,
    ) -> impl Future<Output = Option<F::Output>> + use<Self, F> {
        until(self.limit(time), exchange)
    }

    /// 64 random bits.
    fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

impl<S: System + ?Sized> SystemExt for S {}

/// Waits for `work`; `None` when the timer was over first.
async fn until<F: Future>(mut timer: Waiting<'static, ()>, work: F) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// A system that answers some questions itself and passes the others on. Its defaults do nothing but that.
#[allow(missing_docs, reason = "each method is that of `System` with the same name")]
pub trait Layer {
    /// The system below.
    fn inner(&self) -> &dyn System;

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.inner().facts(path)
    }
    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.inner().link_facts(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner().canonical(path)
    }
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner().names(path)
    }
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.inner().read(path, limit)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inner().replace(path, bytes)
    }
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.inner().draft(path)
    }
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inner().append(path, bytes)
    }
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.inner().make_dirs(path)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.inner().make_dir(path)
    }
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().copy(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.inner().rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner().remove(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        self.inner().try_lock(path)
    }
    fn is_foreign(&self, path: &Path) -> bool {
        self.inner().is_foreign(path)
    }
    fn confine(&self, place: &Path, root: &Path) {
        self.inner().confine(place, root);
    }
    fn check_read(&self, path: &Path) -> io::Result<()> {
        self.inner().check_read(path)
    }
    fn check_write(&self, path: &Path) -> io::Result<()> {
        self.inner().check_write(path)
    }
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        self.inner().run(command)
    }
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.inner().ask_peer(request)
    }
    fn leave_peer(&self, id: &str) {
        self.inner().leave_peer(id);
    }
    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.inner().beside(work)
    }
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        self.inner().http(request)
    }
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.inner().websocket(request)
    }
    fn now_ms(&self) -> i64 {
        self.inner().now_ms()
    }
    fn monotonic(&self) -> Duration {
        self.inner().monotonic()
    }
    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        self.inner().sleep(time)
    }
    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        self.inner().limit(time)
    }
    fn has_people(&self) -> bool {
        self.inner().has_people()
    }
    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        self.inner().inquire(inquiry)
    }
    fn end_inquiry(&self, id: &str) {
        self.inner().end_inquiry(id);
    }
    fn settle_doubt(&self, is_caught: bool) {
        self.inner().settle_doubt(is_caught);
    }
    fn random(&self, bytes: &mut [u8]) {
        self.inner().random(bytes);
    }
    fn env(&self, name: &str) -> Option<String> {
        self.inner().env(name)
    }
    fn cwd(&self) -> io::Result<PathBuf> {
        self.inner().cwd()
    }
    fn temp_dir(&self) -> PathBuf {
        self.inner().temp_dir()
    }
    fn pid(&self) -> u32 {
        self.inner().pid()
    }
    fn platform(&self) -> (&'static str, &'static str) {
        self.inner().platform()
    }
    fn write_out(&self, text: &str) -> io::Result<()> {
        self.inner().write_out(text)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner().flush()
    }
    fn write_err(&self, text: &str) {
        self.inner().write_err(text);
    }
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        self.inner().read_line()
    }
    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        self.inner().read_input()
    }
    fn is_terminal(&self, stream: Stream) -> bool {
        self.inner().is_terminal(stream)
    }
}

impl<L: Layer> System for L {
    fn facts(&self, path: &Path) -> io::Result<Facts> {
        Layer::facts(self, path)
    }
    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        Layer::link_facts(self, path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Layer::canonical(self, path)
    }
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Layer::names(self, path)
    }
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        Layer::read(self, path, limit)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Layer::replace(self, path, bytes)
    }
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        Layer::draft(self, path)
    }
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Layer::append(self, path, bytes)
    }
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        Layer::make_dirs(self, path)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        Layer::make_dir(self, path)
    }
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        Layer::copy(self, from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        Layer::rename(self, from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Layer::remove(self, path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        Layer::try_lock(self, path)
    }
    fn is_foreign(&self, path: &Path) -> bool {
        Layer::is_foreign(self, path)
    }
    fn confine(&self, place: &Path, root: &Path) {
        Layer::confine(self, place, root);
    }
    fn check_read(&self, path: &Path) -> io::Result<()> {
        Layer::check_read(self, path)
    }
    fn check_write(&self, path: &Path) -> io::Result<()> {
        Layer::check_write(self, path)
    }
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        Layer::run(self, command)
    }
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        Layer::ask_peer(self, request)
    }
    fn leave_peer(&self, id: &str) {
        Layer::leave_peer(self, id);
    }
    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        Layer::beside(self, work)
    }
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        Layer::http(self, request)
    }
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        Layer::websocket(self, request)
    }
    fn now_ms(&self) -> i64 {
        Layer::now_ms(self)
    }
    fn monotonic(&self) -> Duration {
        Layer::monotonic(self)
    }
    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        Layer::sleep(self, time)
    }
    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        Layer::limit(self, time)
    }
    fn has_people(&self) -> bool {
        Layer::has_people(self)
    }
    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        Layer::inquire(self, inquiry)
    }
    fn end_inquiry(&self, id: &str) {
        Layer::end_inquiry(self, id);
    }
    fn settle_doubt(&self, is_caught: bool) {
        Layer::settle_doubt(self, is_caught);
    }
    fn random(&self, bytes: &mut [u8]) {
        Layer::random(self, bytes);
    }
    fn env(&self, name: &str) -> Option<String> {
        Layer::env(self, name)
    }
    fn cwd(&self) -> io::Result<PathBuf> {
        Layer::cwd(self)
    }
    fn temp_dir(&self) -> PathBuf {
        Layer::temp_dir(self)
    }
    fn pid(&self) -> u32 {
        Layer::pid(self)
    }
    fn platform(&self) -> (&'static str, &'static str) {
        Layer::platform(self)
    }
    fn write_out(&self, text: &str) -> io::Result<()> {
        Layer::write_out(self, text)
    }
    fn flush(&self) -> io::Result<()> {
        Layer::flush(self)
    }
    fn write_err(&self, text: &str) {
        Layer::write_err(self, text);
    }
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        Layer::read_line(self)
    }
    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        Layer::read_input(self)
    }
    fn is_terminal(&self, stream: Stream) -> bool {
        Layer::is_terminal(self, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::{System, SystemExt};
    use crate::Memory;
    use std::path::Path;

    #[test]
    fn a_failed_write_leaves_no_folders() {
        let system = Memory::new();
        system.set_room(0);
        let path = Path::new("/a/b/c.json");
        system.write_with_folder(path, |system| system.replace(path, b"text")).expect_err("no room");
        assert!(!system.exists(Path::new("/a")));
        system.set_room(100);
        system.write_with_folder(path, |system| system.replace(path, b"text")).expect("room");
        // What was there before, and what others have put there, stays.
        system.set_room(0);
        let path = Path::new("/a/b/d/e.json");
        system.write_with_folder(path, |system| system.replace(path, b"text")).expect_err("no room");
        assert!(system.is_file(Path::new("/a/b/c.json")) && !system.exists(Path::new("/a/b/d")));
        let path = Path::new("/n/m/e.json");
        let failed: std::io::Result<()> = system.write_with_folder(path, |system| {
            system.make_dirs(Path::new("/n/other"))?;
            Err(std::io::Error::other("no"))
        });
        failed.expect_err("it fails");
        assert!(system.is_dir(Path::new("/n/other")) && !system.exists(Path::new("/n/m")));
    }
}
