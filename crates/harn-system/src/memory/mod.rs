//! An in-memory system for tests: files, streams, environment, a simulated clock, seeded randomness, and programs and
//! servers with canned replies. It does not access the machine.

mod clock;
mod tree;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::confine::Confined;
use crate::file::{Draft, Facts, Lock, MoveError};
use crate::net::{Body, HttpError, HttpErrorKind, HttpReply, HttpRequest};
use crate::peer::PeerRequest;
use crate::people::{Asked, Inquiry};
use crate::process::{Command, Finished};
use crate::real::input::Input;
use crate::socket::Socket;
use crate::system::{Beside, Stream, System};
use crate::wait::Waiting;
use clock::Clock;
use tree::Tree;

/// Simulates a program.
type Programs = Box<dyn Fn(&Command) -> io::Result<Finished>>;

/// Simulates a server: returns status, headers and body.
type Servers = Box<dyn Fn(&HttpRequest) -> Result<(u16, Vec<(String, String)>, Vec<u8>), HttpError>>;

/// The in-memory system. Its working directory is `/project`, its home directory `/home/user`, its temporary directory
/// `/tmp`.
pub struct Memory {
    tree: Rc<RefCell<Tree>>,
    locks: Rc<RefCell<Vec<PathBuf>>>,
    env: RefCell<BTreeMap<String, String>>,
    cwd: RefCell<PathBuf>,
    clock: Rc<Clock>,
    began_ms: Cell<i64>,
    chance: Cell<u64>,
    out: RefCell<String>,
    err: RefCell<String>,
    input: Rc<RefCell<Input<VecDeque<u8>>>>,
    programs: RefCell<Option<Programs>>,
    servers: RefCell<Option<Servers>>,
    confined: Confined,
}

impl Default for Memory {
    fn default() -> Memory {
        let mut tree = Tree::default();
        for folder in ["/project", "/home/user", "/tmp"] {
            tree.make_dirs(Path::new(folder)).expect("an empty tree takes folders");
        }
        Memory {
            tree: Rc::new(RefCell::new(tree)),
            locks: Rc::default(),
            env: RefCell::new(BTreeMap::from([("HOME".to_owned(), "/home/user".to_owned())])),
            cwd: RefCell::new(PathBuf::from("/project")),
            clock: Rc::default(),
            // 2024-01-01, so that times are realistic.
            began_ms: Cell::new(1_704_067_200_000),
            chance: Cell::new(1),
            out: RefCell::default(),
            err: RefCell::default(),
            input: Rc::new(RefCell::new(Input::new(VecDeque::new()))),
            programs: RefCell::default(),
            servers: RefCell::default(),
            confined: Confined::default(),
        }
    }
}

impl Memory {
    /// Returns an empty system.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a file and its parent directories.
    ///
    /// # Panics
    /// If a component of the path is a file.
    #[must_use]
    pub fn with_file(self, path: &str, content: impl AsRef<[u8]>) -> Memory {
        let path = self.absolute(Path::new(path));
        let mut tree = self.tree();
        if let Some(folder) = path.parent() {
            tree.make_dirs(folder).expect("folders");
        }
        tree.write(&path, content.as_ref(), false).expect("a file");
        drop(tree);
        self
    }

    /// Adds a symbolic link.
    ///
    /// # Panics
    /// If the path exists, or its directory does not.
    #[must_use]
    pub fn with_link(self, target: &str, path: &str) -> Memory {
        let path = self.absolute(Path::new(path));
        self.tree().symlink(Path::new(target), &path).expect("a link");
        self
    }

    /// Makes a file read-only.
    ///
    /// # Panics
    /// If the file does not exist.
    #[must_use]
    pub fn with_readonly(self, path: &str) -> Memory {
        let path = self.absolute(Path::new(path));
        self.tree().set_readonly(&path).expect("a file");
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn with_env(self, name: &str, value: &str) -> Memory {
        self.env.borrow_mut().insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets the working directory and creates it.
    ///
    /// # Panics
    /// If a component of the path is a file.
    #[must_use]
    pub fn with_cwd(self, path: &str) -> Memory {
        self.tree().make_dirs(Path::new(path)).expect("folders");
        *self.cwd.borrow_mut() = PathBuf::from(path);
        self
    }

    /// Appends to standard input.
    #[must_use]
    pub fn with_input(self, input: impl AsRef<[u8]>) -> Memory {
        self.input.borrow_mut().source().extend(input.as_ref());
        self
    }

    /// Sets the time that a reading of the clock takes, to simulate slow programs.
    #[must_use]
    pub fn with_slow_clock(self, look: Duration) -> Memory {
        self.clock.slow_down(look);
        self
    }

    /// Sets the simulation of programs. Without it no program can be started.
    #[must_use]
    pub fn with_programs(self, programs: impl Fn(&Command) -> io::Result<Finished> + 'static) -> Memory {
        *self.programs.borrow_mut() = Some(Box::new(programs));
        self
    }

    /// Sets the simulation of servers: status, headers and body. Without it no server is reachable.
    #[must_use]
    pub fn with_servers(
        self,
        servers: impl Fn(&HttpRequest) -> Result<(u16, Vec<(String, String)>, Vec<u8>), HttpError> + 'static,
    ) -> Memory {
        *self.servers.borrow_mut() = Some(Box::new(servers));
        self
    }

    /// Sets the free space of the disk in bytes.
    pub fn set_room(&self, bytes: u64) {
        self.tree().room = bytes;
    }

    /// Returns the standard output.
    pub fn output(&self) -> String {
        self.out.borrow().clone()
    }

    /// Returns the standard error.
    pub fn errors(&self) -> String {
        self.err.borrow().clone()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.borrow().join(path)
    }

    fn inside(&self, path: &Path) -> io::Result<()> {
        let path = self.absolute(path);
        let canonical = |path: &Path| self.canonical(path);
        self.confined.check(&path, &canonical, &|path| self.link_facts(path).is_ok())
    }

    /// Borrows the tree for a change at the current time.
    fn tree(&self) -> RefMut<'_, Tree> {
        let mut tree = self.tree.borrow_mut();
        tree.now = self.now_ms() as f64 / 1000.0;
        tree
    }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"))
}

impl System for Memory {
    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.inside(path)?;
        self.tree.borrow().facts(&self.absolute(path), true)
    }

    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.tree.borrow().facts(&self.absolute(path), false)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.tree.borrow().canonical(&self.absolute(path))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.inside(path)?;
        self.tree.borrow().names(&self.absolute(path))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.inside(path)?;
        let tree = self.tree.borrow();
        let bytes = tree.read(&self.absolute(path))?;
        if bytes.len() as u64 > limit { Err(too_large(limit)) } else { Ok(bytes.to_vec()) }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inside(path)?;
        self.tree().write(&self.absolute(path), bytes, false)
    }

    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.inside(path)?;
        let path = self.absolute(path);
        self.tree.borrow().writable(&path)?;
        Ok(Box::new(Written { tree: self.tree.clone(), path, bytes: Vec::new() }))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inside(path)?;
        self.tree().write(&self.absolute(path), bytes, true)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        self.tree().make_dirs(&self.absolute(path))
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        let path = self.absolute(path);
        if self.link_facts(&path).is_ok() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        self.facts(path.parent().unwrap_or(Path::new("/")))?;
        self.tree().make_dirs(&path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inside(from)?;
        self.inside(to)?;
        self.different(from, to)?;
        let bytes = self.read(from, u64::MAX)?;
        self.replace(to, &bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.inside(from).and_then(|()| self.inside(to)).map_err(MoveError::NotMoved)?;
        self.link_facts(from).map_err(MoveError::NotMoved)?;
        self.different(from, to).map_err(MoveError::NotMoved)?;
        let moved = self.tree().rename(&self.absolute(from), &self.absolute(to));
        moved.map_err(MoveError::NotMoved)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inside(path)?;
        self.tree().remove(&self.absolute(path))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        self.inside(path)?;
        self.append(path, b"")?;
        let path = self.canonical(path)?;
        let mut locks = self.locks.borrow_mut();
        if locks.contains(&path) {
            return Ok(None);
        }
        locks.push(path.clone());
        Ok(Some(Lock(Box::new(Held { locks: self.locks.clone(), path }))))
    }

    fn is_foreign(&self, _path: &Path) -> bool {
        false
    }

    fn confine(&self, place: &Path, root: &Path) {
        self.confined.add(&self.absolute(place), &self.absolute(root));
    }

    fn check_read(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn check_write(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        let ran = match &*self.programs.borrow() {
            Some(programs) => programs(&command),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Box::pin(std::future::ready(ran))
    }

    fn ask_peer(&self, _request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        Box::pin(std::future::ready(Err(io::Error::from(io::ErrorKind::NotFound))))
    }

    fn leave_peer(&self, _id: &str) {}

    fn beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        (work.work)(self)
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        let blocked = request.egress.as_ref().and_then(|egress| {
            let by = egress.check(&url::Url::parse(&request.url).ok()?).err()?;
            Some(HttpError::new(HttpErrorKind::Egress, by.to_text(&request.url)))
        });
        let reply = match (blocked, &*self.servers.borrow()) {
            (Some(blocked), _) => Err(blocked),
            (None, Some(servers)) => servers(&request).map(|(status, headers, body)| HttpReply {
                status,
                headers,
                body: Box::new(Whole(Some(body), request.max_response)),
            }),
            (None, None) => Err(HttpError::new(HttpErrorKind::Connect, "there is no network")),
        };
        Box::pin(std::future::ready(reply))
    }

    fn websocket(&self, _request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        let error = HttpError::new(HttpErrorKind::Connect, "there is no network");
        Box::pin(std::future::ready(Err(error)))
    }

    fn now_ms(&self) -> i64 {
        self.began_ms.get() + i64::try_from(self.clock.now().as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.clock.look()
    }

    /// Waits end in the order of their deadlines, once no other task is ready; the clock then advances to the deadline.
    fn sleep(&self, time: Duration) -> Waiting<'static, ()> {
        Box::pin(clock::Sleep::new(self.clock.clone(), time))
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
        // splitmix64: the same sequence in every run.
        for piece in bytes.chunks_mut(8) {
            self.chance.set(self.chance.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
            let mut x = self.chance.get();
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            piece.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..piece.len()]);
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.borrow().get(name).cloned()
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.cwd.borrow().clone())
    }

    fn temp_dir(&self) -> PathBuf {
        PathBuf::from("/tmp")
    }

    fn pid(&self) -> u32 {
        1
    }

    fn platform(&self) -> (&'static str, &'static str) {
        ("linux", "x86_64")
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.out.borrow_mut().push_str(text);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.err.borrow_mut().push_str(text);
    }

    fn read_line(&self) -> Waiting<'static, io::Result<Option<String>>> {
        let input = self.input.clone();
        Box::pin(async move { input.borrow_mut().line() })
    }

    fn read_input(&self) -> Waiting<'static, io::Result<String>> {
        let input = self.input.clone();
        Box::pin(async move { input.borrow_mut().rest() })
    }

    fn is_terminal(&self, _stream: Stream) -> bool {
        false
    }
}

impl Memory {
    fn different(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.facts(from), self.facts(to)) {
            (Ok(from), Ok(to)) if from.identity == to.identity => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "source and target are the same file"))
            }
            _ => Ok(()),
        }
    }
}

struct Written {
    tree: Rc<RefCell<Tree>>,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Draft for Written {
    fn commit(self: Box<Self>) -> io::Result<()> {
        self.tree.borrow_mut().write(&self.path, &self.bytes, false)
    }
}

struct Held {
    locks: Rc<RefCell<Vec<PathBuf>>>,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.borrow_mut().retain(|path| *path != self.path);
    }
}

struct Whole(Option<Vec<u8>>, u64);

impl Body for Whole {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        let piece = self.0.take().filter(|body| !body.is_empty());
        let large = piece.as_ref().is_some_and(|body| body.len() as u64 > self.1);
        let next = if large { Err(crate::net::too_large(self.1)) } else { Ok(piece.map(Bytes::from)) };
        Box::pin(std::future::ready(next))
    }

    fn is_over(&self) -> bool {
        self.0.is_none()
    }

    fn release(self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
