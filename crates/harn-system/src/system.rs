//! The [`System`] trait: every external effect of a program is a call of it, which layers can reject, replace and
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

/// Delivers external completions, one at a time.
pub trait Outside {
    /// Delivers one completion by waking the task that waits for it. `idle` means that no task is ready. Returns
    /// pending if there is no completion; the waker of `context` is woken when one arrives.
    fn hand_over(&self, context: &mut Context<'_>, idle: bool) -> Poll<()>;

    /// Makes progress on pending operations while tasks are ready, without delivering completions.
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

/// The function of a [`Beside`], which receives the real system.
pub type Work = Box<dyn for<'a> FnOnce(&'a dyn System) -> Waiting<'a, io::Result<Vec<u8>>>>;

/// Work of the runtime that a program waits for, such as reading a session from a store. The program sees only its
/// result: a resumed run gets the recorded result, and the work is not repeated.
pub struct Beside {
    /// A short name.
    pub name: &'static str,
    /// A description for users, equal in every run.
    pub note: String,
    /// The work. It is repeated if it is unknown whether it was completed, so it must be idempotent.
    pub work: Work,
}

impl Beside {
    /// Creates a piece of work.
    pub fn new<F>(name: &'static str, note: impl Into<String>, work: F) -> Beside
    where
        F: for<'a> FnOnce(&'a dyn System) -> Waiting<'a, io::Result<Vec<u8>>> + 'static,
    {
        Beside { name, note: note.into(), work: Box::new(work) }
    }
}

/// The operating system. Only [`System::limit`] and [`System::settle_doubt`] have defaults, so that an implementation
/// states its behavior. Implementations that modify another system implement [`Layer`].
///
/// Paths are absolute, or relative to the working directory of the *process*; Harn resolves them against
/// [`System::cwd`] before a call.
pub trait System {
    // ---- files ----

    /// Returns the metadata of a path, following links.
    ///
    /// # Errors
    /// The error of the system.
    fn facts(&self, path: &Path) -> io::Result<Facts>;

    /// Returns the metadata of a path without following a link in its last component.
    ///
    /// # Errors
    /// The error of the system.
    fn link_facts(&self, path: &Path) -> io::Result<Facts>;

    /// Returns the absolute path without links, `.` and `..`.
    ///
    /// # Errors
    /// The error of the system; the path must exist.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// The error of the system.
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Reads a regular file.
    ///
    /// # Errors
    /// The error of the system; `not a regular file`; `larger than N bytes` if the file is larger than `limit`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Replaces the content of a file atomically, or creates it; its permissions are preserved.
    ///
    /// # Errors
    /// The error of the system; the old content is unchanged.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Starts to replace a file by the content written to the draft.
    ///
    /// # Errors
    /// As [`System::replace`].
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>>;

    /// Appends bytes to a file with one write, or creates it.
    ///
    /// # Errors
    /// The error of the system; the file is unchanged.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Creates a directory and its missing parents; an existing directory is not an error.
    ///
    /// # Errors
    /// The error of the system.
    fn make_dirs(&self, path: &Path) -> io::Result<()>;

    /// Creates a new directory.
    ///
    /// # Errors
    /// The error of the system; its kind is `AlreadyExists` if the path exists.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Copies a regular file with its permissions, replacing the target atomically.
    ///
    /// # Errors
    /// The error of the system; an error if both are the same file.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file, directory or link, also to another file system.
    ///
    /// # Errors
    /// See [`MoveError`]; an error if both are the same file.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError>;

    /// Removes a file, a link, or a directory with its content.
    ///
    /// # Errors
    /// The error of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Acquires the lock of a path, creating a file for it; `None` if another process holds it.
    ///
    /// # Errors
    /// The error of the system.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>>;

    /// Returns whether another user owns a file or its directory, or can change one of them. The superuser is not
    /// considered; on systems without such owners no file is foreign.
    fn is_foreign(&self, path: &Path) -> bool;

    /// Marks `place` as derived by the runtime for a program: from then on no file operation on it follows a link out
    /// of `root`.
    fn confine(&self, place: &Path, root: &Path);

    /// Checks whether the policy permits reading a file, without accessing it.
    ///
    /// # Errors
    /// The rejection.
    fn check_read(&self, path: &Path) -> io::Result<()>;

    /// Checks whether the policy permits writing a file: for files that are written by other means, such as a database.
    ///
    /// # Errors
    /// The rejection.
    fn check_write(&self, path: &Path) -> io::Result<()>;

    // ---- processes ----

    /// Runs a program to completion. Dropping the wait kills it and its child processes.
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>>;

    /// Sends a request to a peer program and returns its complete response as JSON. The program is started if it is not
    /// running.
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>>;

    /// Terminates a peer program if it is running; with `ID#EXCHANGE` cancels a pending exchange.
    fn leave_peer(&self, id: &str);

    /// Does work of the runtime outside of the program, and waits for its result.
    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>>;

    // ---- network ----

    /// Sends a request and waits for the head of the reply; the body is a stream.
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>>;

    /// Opens a WebSocket. The URL has the scheme `ws` or `wss`, `max_response` limits each message, redirects are not
    /// followed.
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>>;

    // ---- time ----

    /// Returns the milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// Returns the time since a fixed moment; it never decreases.
    fn monotonic(&self) -> Duration;

    /// Waits for a duration.
    fn sleep(&self, time: Duration) -> Waiting<'static, ()>;

    /// Waits for the time limit of an exchange. In a durable run it restarts when the run is resumed, because the
    /// exchange restarts.
    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        self.sleep(time)
    }

    // ---- human reviewers ----

    /// Returns whether there are human reviewers who are not at the terminal and answer later.
    fn has_people(&self) -> bool;

    /// Sends an inquiry to human reviewers and waits for the next answer. Without reviewers this waits until the time
    /// limit.
    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked>;

    /// Ends an inquiry: further answers are not needed.
    fn end_inquiry(&self, id: &str);

    /// Reports that a handler catches the error of an effect in doubt, or that nothing does and the error ends the
    /// program.
    fn settle_doubt(&self, _is_caught: bool) {}

    // ---- randomness ----

    /// Fills `bytes` with cryptographically secure random bytes.
    fn random(&self, bytes: &mut [u8]);

    // ---- the process and its environment ----

    /// Returns an environment variable; `None` if it is unset or not valid UTF-8.
    fn env(&self, name: &str) -> Option<String>;

    /// Returns the working directory.
    ///
    /// # Errors
    /// The error of the system: the directory may have been removed.
    fn cwd(&self) -> io::Result<PathBuf>;

    /// Returns the directory for temporary files.
    fn temp_dir(&self) -> PathBuf;

    /// Returns the id of this process.
    fn pid(&self) -> u32;

    /// Returns the operating system and the processor, e.g. `("linux", "x86_64")`.
    fn platform(&self) -> (&'static str, &'static str);

    // ---- standard streams ----

    /// Writes to standard output. It may be buffered until [`System::flush`].
    ///
    /// # Errors
    /// The error of the system.
    fn write_out(&self, text: &str) -> io::Result<()>;

    /// Flushes the buffered output.
    ///
    /// # Errors
    /// The error of the system, also an earlier one: lost output cannot be recovered.
    fn flush(&self) -> io::Result<()>;

    /// Writes to standard error. Failures are ignored.
    fn write_err(&self, text: &str);

    /// Waits for a line of standard input, and returns it without its terminator; `None` at the end of the input. This
    /// is cancel safe.
    ///
    /// # Errors
    /// The error of the system; an error for a line that is not valid UTF-8, which is consumed.
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>>;

    /// Returns the remaining standard input.
    ///
    /// # Errors
    /// As [`System::read_line`].
    fn read_input(&self) -> Waiting<'static, io::Result<String>>;

    /// Returns whether a stream is a terminal.
    fn is_terminal(&self, stream: Stream) -> bool;
}

/// Convenience methods of all systems.
pub trait SystemExt: System {
    /// Reads a text file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`System::read`]; an error for content that is not valid UTF-8.
    fn read_text(&self, path: &Path, limit: u64) -> io::Result<String> {
        String::from_utf8(self.read(path, limit)?)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }

    /// Returns whether a path exists.
    fn exists(&self, path: &Path) -> bool {
        self.facts(path).is_ok()
    }

    /// Returns whether a path is a regular file, following links.
    fn is_file(&self, path: &Path) -> bool {
        self.facts(path).is_ok_and(|facts| facts.is_file())
    }

    /// Returns whether a path is a directory, following links.
    fn is_dir(&self, path: &Path) -> bool {
        self.facts(path).is_ok_and(|facts| facts.is_dir())
    }

    /// Writes a file after creating its missing parent directories. If writing fails, the created directories are
    /// removed.
    ///
    /// # Errors
    /// The error of writing or of [`System::make_dirs`].
    fn write_with_folder<T>(&self, path: &Path, write: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        let above = path.ancestors().skip(1);
        let missing = above.take_while(|folder| !folder.as_os_str().is_empty() && !self.exists(folder));
        let missing: Vec<&Path> = missing.collect();
        if let Some(folder) = missing.first() {
            self.make_dirs(folder)?;
        }
        let written = write(self);
        if written.is_err() {
            // Directories that are not empty, because another process has used them, are not removed.
            for folder in missing {
                if !self.names(folder).is_ok_and(|names| names.is_empty()) || self.remove(folder).is_err() {
                    break;
                }
            }
        }
        written
    }

    /// Returns the working directory; empty if it no longer exists.
    fn work_dir(&self) -> PathBuf {
        self.cwd().unwrap_or_default()
    }

    /// Waits for `work`, at most for `time`; returns `None` on timeout.
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

    /// Returns 64 random bits.
    fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

impl<S: System + ?Sized> SystemExt for S {}

/// Waits for `work`; returns `None` if the timer ends first.
async fn until<F: Future>(mut timer: Waiting<'static, ()>, work: F) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// A system that implements some methods itself and forwards the others. The defaults only forward.
#[allow(missing_docs, reason = "each method is that of `System` with the same name")]
pub trait Layer {
    /// Returns the wrapped system.
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
        // Existing directories and files of other processes remain.
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
