//! Records which classes of external resources a program uses.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::file::{Draft, Facts, Lock, MoveError};
use crate::net::{HttpError, HttpReply, HttpRequest};
use crate::peer::PeerRequest;
use crate::people::{Asked, Inquiry};
use crate::process::{Command, Finished};
use crate::socket::Socket;
use crate::system::{Layer, Stream, System};
use crate::wait::Waiting;

/// Classes of external resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Files.
    pub files: bool,
    /// Other processes.
    pub processes: bool,
    /// The network.
    pub network: bool,
    /// Clocks and waits.
    pub time: bool,
    /// Randomness.
    pub chance: bool,
    /// Environment, working directory and properties of the process.
    pub env: bool,
    /// Standard output and error.
    pub output: bool,
    /// Standard input.
    pub input: bool,
}

/// A system that records used resources.
pub struct Recorder {
    inner: Rc<dyn System>,
    touched: Cell<Touched>,
}

impl Recorder {
    /// Records the calls to `inner`.
    pub fn over(inner: Rc<dyn System>) -> Recorder {
        Recorder { inner, touched: Cell::default() }
    }

    /// Returns the classes used since the last call.
    pub fn take(&self) -> Touched {
        self.touched.take()
    }

    fn note(&self, change: impl FnOnce(&mut Touched)) -> &dyn System {
        let mut touched = self.touched.get();
        change(&mut touched);
        self.touched.set(touched);
        &*self.inner
    }

    fn files(&self) -> &dyn System {
        self.note(|touched| touched.files = true)
    }
}

impl Layer for Recorder {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.files().facts(path)
    }
    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.files().link_facts(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.files().canonical(path)
    }
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.files().names(path)
    }
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.files().read(path, limit)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.files().replace(path, bytes)
    }
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.files().draft(path)
    }
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.files().append(path, bytes)
    }
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.files().make_dirs(path)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.files().make_dir(path)
    }
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files().copy(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.files().rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files().remove(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        self.files().try_lock(path)
    }
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        self.note(|touched| touched.processes = true).run(command)
    }
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.note(|touched| touched.processes = true).ask_peer(request)
    }
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        self.note(|touched| touched.network = true).http(request)
    }
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.note(|touched| touched.network = true).websocket(request)
    }
    fn now_ms(&self) -> i64 {
        self.note(|touched| touched.time = true).now_ms()
    }
    fn monotonic(&self) -> Duration {
        self.note(|touched| touched.time = true).monotonic()
    }
    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        self.note(|touched| touched.time = true).sleep(time)
    }
    fn limit(&self, time: Duration) -> Waiting<'static, ()> {
        self.note(|touched| touched.time = true).limit(time)
    }
    fn inquire(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        self.note(|touched| touched.time = true).inquire(inquiry)
    }
    fn random(&self, bytes: &mut [u8]) {
        self.note(|touched| touched.chance = true).random(bytes);
    }
    fn env(&self, name: &str) -> Option<String> {
        self.note(|touched| touched.env = true).env(name)
    }
    fn cwd(&self) -> io::Result<PathBuf> {
        self.note(|touched| touched.env = true).cwd()
    }
    fn temp_dir(&self) -> PathBuf {
        self.note(|touched| touched.env = true).temp_dir()
    }
    fn pid(&self) -> u32 {
        self.note(|touched| touched.env = true).pid()
    }
    fn platform(&self) -> (&'static str, &'static str) {
        self.note(|touched| touched.env = true).platform()
    }
    fn write_out(&self, text: &str) -> io::Result<()> {
        self.note(|touched| touched.output = true).write_out(text)
    }
    fn write_err(&self, text: &str) {
        self.note(|touched| touched.output = true).write_err(text);
    }
    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        self.note(|touched| touched.input = true).read_line()
    }
    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        self.note(|touched| touched.input = true).read_input()
    }
    fn is_terminal(&self, stream: Stream) -> bool {
        self.note(|touched| touched.env = true).is_terminal(stream)
    }
}
