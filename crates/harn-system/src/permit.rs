//! A system layer that rejects operations above an upper bound. Permitted systems nest, so an inner bound can only
//! restrict an outer one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::file::{Draft, Facts, Lock, MoveError};
use crate::links::real_path_of;
use crate::net::{HttpError, HttpErrorKind, HttpReply, HttpRequest};
use crate::peer::PeerRequest;
use crate::process::{Command, Finished};
use crate::socket::Socket;
use crate::system::{Layer, System};
use crate::wait::Waiting;

/// Permitted side effects, from none to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No access.
    None,
    /// Reads files.
    ReadOnly,
    /// Also writes files.
    WorkspaceWrite,
    /// Also runs programs.
    ProcessExec,
    /// Also uses the network.
    Network,
}

impl Level {
    /// Returns the level for its name in a policy.
    pub fn of(word: &str) -> Option<Level> {
        Some(match word {
            "none" => Level::None,
            "read_only" => Level::ReadOnly,
            "workspace_write" => Level::WorkspaceWrite,
            "process_exec" => Level::ProcessExec,
            "network" => Level::Network,
            _ => return None,
        })
    }

    /// Returns the name of the level.
    pub fn word(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::ReadOnly => "read_only",
            Level::WorkspaceWrite => "workspace_write",
            Level::ProcessExec => "process_exec",
            Level::Network => "network",
        }
    }
}

/// The effective policy: the upper bound of permitted operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The highest level.
    pub level: Level,
    /// Operations by capability (`workspace`: `read_text`, `list`, `exists`, `write_text`, `delete`; `process`: `exec`;
    /// `network`: `connect`). `None` permits all operations, an empty map none.
    pub capabilities: Option<BTreeMap<String, Vec<String>>>,
    /// Absolute directories that files must be in. `None` permits all paths, an empty list none.
    pub roots: Option<Vec<PathBuf>>,
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling { level: Level::Network, capabilities: None, roots: None }
    }
}

impl Ceiling {
    /// Returns whether an operation of a capability is permitted.
    pub fn allows(&self, capability: &str, operation: &str) -> bool {
        self.capabilities.as_ref().is_none_or(|allowed| {
            allowed
                .get(capability)
                .is_some_and(|operations| operations.iter().any(|o| o == operation || o == "*"))
        })
    }

    /// Returns whether connections to other hosts are permitted.
    pub fn allows_network(&self) -> bool {
        self.level >= Level::Network && self.allows("network", "connect")
    }
}

/// A rejected operation. [`Refusal::of`] extracts it from the [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The operation exceeds the policy; its name, such as `process.exec`.
    Ceiling(&'static str),
    /// The path is outside of the permitted directories.
    Outside {
        /// `read`, `write` or `delete`.
        verb: &'static str,
        /// The path as requested.
        path: PathBuf,
        /// The permitted directories.
        roots: Vec<PathBuf>,
    },
    /// A link leads from a file of the runtime out of its directory.
    Link {
        /// The file.
        path: PathBuf,
        /// The directory.
        root: PathBuf,
    },
    /// The working directory of a program is outside of the permitted directories.
    WorkDir {
        /// The working directory.
        path: PathBuf,
        /// The permitted directories.
        roots: Vec<PathBuf>,
    },
}

impl Refusal {
    /// Returns the rejection that an error contains.
    pub fn of(error: &io::Error) -> Option<&Refusal> {
        error.get_ref()?.downcast_ref()
    }

    pub(crate) fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, self)
    }
}

fn listed(roots: &[PathBuf]) -> String {
    let mut shown: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    // The working directory is often equal to the project directory.
    shown.dedup();
    shown.join(", ")
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Ceiling(what) => write!(f, "exceeds {what} ceiling"),
            Refusal::Outside { verb, path, roots } => {
                let roots = listed(roots);
                write!(f, "attempted to {verb} '{}' outside workspace_roots [{roots}]", path.display())
            }
            Refusal::Link { path, root } => {
                let (path, root) = (path.display(), root.display());
                write!(
                    f,
                    "{path} leads out of {root} through a link; remove the link, or name another directory with HARN_STATE_DIR"
                )
            }
            Refusal::WorkDir { path, roots } => {
                let roots = listed(roots);
                write!(f, "process cwd '{}' is outside workspace_roots [{roots}]", path.display())
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// A file operation: its name in messages, capability, required level and verb.
struct Operation {
    what: &'static str,
    capability: &'static str,
    level: Level,
    verb: &'static str,
}

const READ: Operation =
    Operation { what: "workspace.read_text", capability: "read_text", level: Level::ReadOnly, verb: "read" };
const LIST: Operation =
    Operation { what: "workspace.list", capability: "list", level: Level::ReadOnly, verb: "read" };
const EXISTS: Operation =
    Operation { what: "workspace.exists", capability: "exists", level: Level::ReadOnly, verb: "read" };
const WRITE: Operation = Operation {
    what: "workspace write",
    capability: "write_text",
    level: Level::WorkspaceWrite,
    verb: "write",
};
const DELETE: Operation = Operation {
    what: "workspace.delete",
    capability: "delete",
    level: Level::WorkspaceWrite,
    verb: "delete",
};

/// A system that rejects operations above a policy.
pub struct Permitted {
    inner: Rc<dyn System>,
    ground: Rc<dyn System>,
    ceiling: Rc<Ceiling>,
}

impl Permitted {
    /// Wraps a system in a policy. `inner` may have its own policy, which still applies. `ground` is the system without
    /// policies; it resolves paths.
    pub fn new(inner: Rc<dyn System>, ground: Rc<dyn System>, ceiling: Rc<Ceiling>) -> Permitted {
        Permitted { inner, ground, ceiling }
    }

    /// Checks an operation on the target of a path.
    fn check(&self, operation: &Operation, path: &Path) -> io::Result<()> {
        self.class(operation)?;
        self.inside(operation, path, true)
    }

    /// Checks an operation on the path itself, which may be a link.
    fn check_name(&self, operation: &Operation, path: &Path) -> io::Result<()> {
        self.class(operation)?;
        self.inside(operation, path, false)
    }

    fn class(&self, operation: &Operation) -> io::Result<()> {
        if self.ceiling.level < operation.level || !self.ceiling.allows("workspace", operation.capability) {
            return Err(Refusal::Ceiling(operation.what).error());
        }
        Ok(())
    }

    /// Checks that programs may be run.
    fn check_program(&self, command: &Command) -> io::Result<()> {
        if self.ceiling.level < Level::ProcessExec || !self.ceiling.allows("process", "exec") {
            return Err(Refusal::Ceiling("process.exec").error());
        }
        let dir = command.dir.clone().map_or_else(|| self.inner.cwd(), Ok);
        let dir = dir?;
        self.inside(&READ, &dir, true).map_err(|error| match Refusal::of(&error) {
            Some(Refusal::Outside { path, roots, .. }) => {
                Refusal::WorkDir { path: path.clone(), roots: roots.clone() }.error()
            }
            _ => error,
        })
    }

    /// Checks that the network may be used.
    fn check_network(&self) -> Result<(), HttpError> {
        if !self.ceiling.allows_network() {
            let text = Refusal::Ceiling("network").to_string();
            return Err(HttpError::new(HttpErrorKind::Refused, text));
        }
        Ok(())
    }

    fn inside(&self, operation: &Operation, path: &Path, follow: bool) -> io::Result<()> {
        let Some(roots) = &self.ceiling.roots else { return Ok(()) };
        let real = real_path_of(&*self.ground, path, follow);
        let inside = real.is_some_and(|real| {
            roots.iter().any(|root| {
                let root = real_path_of(&*self.ground, root, true).unwrap_or_else(|| root.clone());
                real.starts_with(root)
            })
        });
        if inside {
            return Ok(());
        }
        Err(Refusal::Outside { verb: operation.verb, path: path.to_owned(), roots: roots.clone() }.error())
    }
}

impl Layer for Permitted {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        self.check(&EXISTS, path)?;
        self.inner.facts(path)
    }

    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.check_name(&EXISTS, path)?;
        self.inner.link_facts(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.check(&EXISTS, path)?;
        self.inner.canonical(path)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.check(&LIST, path)?;
        self.inner.names(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.check(&READ, path)?;
        self.inner.read(path, limit)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.check(&WRITE, path)?;
        self.inner.replace(path, bytes)
    }

    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.check(&WRITE, path)?;
        self.inner.draft(path)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.check(&WRITE, path)?;
        self.inner.append(path, bytes)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.check(&WRITE, path)?;
        self.inner.make_dirs(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.check(&WRITE, path)?;
        self.inner.make_dir(path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(&READ, from)?;
        self.check(&WRITE, to)?;
        self.inner.copy(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        let allowed = self.check_name(&DELETE, from).and_then(|()| self.check(&WRITE, to));
        allowed.map_err(MoveError::NotMoved)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_name(&DELETE, path)?;
        self.inner.remove(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        self.check(&WRITE, path)?;
        self.inner.try_lock(path)
    }

    fn check_read(&self, path: &Path) -> io::Result<()> {
        self.check(&READ, path)?;
        self.inner.check_read(path)
    }

    fn check_write(&self, path: &Path) -> io::Result<()> {
        self.check(&WRITE, path)?;
        self.inner.check_write(path)
    }

    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        match self.check_program(&command) {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(()) => self.inner.run(command),
        }
    }

    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        match self.check_program(&request.peer.command) {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(()) => self.inner.ask_peer(request),
        }
    }

    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        match self.check_network() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(()) => self.inner.http(request),
        }
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        match self.check_network() {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(()) => self.inner.websocket(request),
        }
    }
}

/// Returns the directories of `asked` as absolute, lexically normalized paths. Relative ones are resolved against the
/// working directory.
pub fn absolute_roots(system: &dyn System, asked: &[PathBuf]) -> Vec<PathBuf> {
    let cwd = system.cwd().unwrap_or_default();
    asked.iter().map(|root| normal(&cwd.join(root))).collect()
}

/// Removes `.`, `..` and a trailing slash from a path.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn world() -> Rc<dyn System> {
        Rc::new(
            Memory::new()
                .with_file("/project/in/a", "a")
                .with_file("/project/out/b", "b")
                .with_link("/project/out", "/project/in/link")
                .with_link("/project/out/b", "/project/in/key")
                .with_link("/project/out/new", "/project/in/hole")
                .with_programs(|_| Ok(Finished::default()))
                .with_servers(|_| Ok((200, Vec::new(), Vec::new()))),
        )
    }

    fn under(ceiling: Ceiling) -> Rc<dyn System> {
        let world = world();
        Rc::new(Permitted::new(world.clone(), world, Rc::new(ceiling)))
    }

    fn at_level(level: Level) -> Rc<dyn System> {
        under(Ceiling { level, ..Ceiling::default() })
    }

    fn now<T>(wait: Waiting<'_, T>) -> T {
        let mut wait = wait;
        match wait.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => panic!("nothing waits in memory"),
        }
    }

    fn refused<T>(result: io::Result<T>) -> String {
        let error = result.err().expect("refused");
        Refusal::of(&error).expect("a refusal").to_string()
    }

    #[test]
    fn roots_hold_for_every_operation_and_through_links() {
        let system = under(Ceiling { roots: Some(vec![PathBuf::from("/project/in")]), ..Ceiling::default() });
        for path in [
            "/project/out/b",
            "/project/in/../out/b",
            "/project/in/link/b",
            "/project/in/key",
            "/project/in/hole",
            "/project/inside",
        ] {
            let path = Path::new(path);
            let text = refused(system.read(path, 9));
            assert_eq!(
                text,
                format!("attempted to read '{}' outside workspace_roots [/project/in]", path.display())
            );
            assert!(refused(system.replace(path, b"x")).starts_with("attempted to write"));
            assert!(refused(system.append(path, b"x")).starts_with("attempted to write"));
            assert!(refused(system.draft(path)).starts_with("attempted to write"));
            assert!(refused(system.copy(Path::new("/project/in/a"), path)).starts_with("attempted to write"));
            assert!(refused(system.copy(path, Path::new("/project/in/c"))).starts_with("attempted to read"));
            assert!(refused(system.facts(path)).starts_with("attempted to read"));
            assert!(system.rename(Path::new("/project/in/a"), path).is_err());
        }
        for path in ["/project/out/b", "/project/in/link/b", "/project/out"] {
            assert!(refused(system.remove(Path::new(path))).starts_with("attempted to delete"));
            assert!(system.rename(Path::new(path), Path::new("/project/in/c")).is_err());
        }
        assert!(refused(system.names(Path::new("/project"))).starts_with("attempted to read"));
        assert!(refused(system.make_dirs(Path::new("/project/in/link/x"))).starts_with("attempted to write"));
        let cwd = refused(now(system.run(Command::new("x"))));
        assert_eq!(cwd, "process cwd '/project' is outside workspace_roots [/project/in]");
        assert_eq!(system.read(Path::new("/project/in/a"), 9).expect("inside"), b"a");
        system.replace(Path::new("/project/in/new"), b"x").expect("inside");
        system.make_dirs(Path::new("/project/in/x/y")).expect("inside");
        system.remove(Path::new("/project/in/key")).expect("the link lies inside");
        assert_eq!(world().read(Path::new("/project/out/b"), 9).expect("untouched"), b"b");
    }

    #[test]
    fn levels_and_capabilities_name_what_they_forbid() {
        let a = Path::new("/project/in/a");
        assert_eq!(refused(at_level(Level::None).read(a, 9)), "exceeds workspace.read_text ceiling");
        let read_only = at_level(Level::ReadOnly);
        assert_eq!(read_only.read(a, 9).expect("read"), b"a");
        assert_eq!(refused(read_only.replace(a, b"")), "exceeds workspace write ceiling");
        assert_eq!(refused(read_only.remove(a)), "exceeds workspace.delete ceiling");
        assert_eq!(
            refused(now(at_level(Level::WorkspaceWrite).run(Command::new("x")))),
            "exceeds process.exec ceiling"
        );
        let error = now(at_level(Level::ProcessExec).http(HttpRequest::new("GET", "http://x"))).err();
        assert_eq!(error.expect("refused").text, "exceeds network ceiling");
        assert!(now(at_level(Level::Network).http(HttpRequest::new("GET", "http://x"))).is_ok());
        let only_list = under(Ceiling {
            capabilities: Some(BTreeMap::from([("workspace".to_owned(), vec!["list".to_owned()])])),
            ..Ceiling::default()
        });
        assert!(only_list.names(Path::new("/project")).is_ok());
        assert_eq!(refused(only_list.read(a, 9)), "exceeds workspace.read_text ceiling");
        assert_eq!(refused(now(only_list.run(Command::new("x")))), "exceeds process.exec ceiling");
        let error = now(only_list.http(HttpRequest::new("GET", "http://x"))).err();
        assert_eq!(error.expect("refused").text, "exceeds network ceiling");
        let network = BTreeMap::from([("network".to_owned(), vec!["connect".to_owned()])]);
        let only_network = under(Ceiling { capabilities: Some(network), ..Ceiling::default() });
        assert!(now(only_network.http(HttpRequest::new("GET", "http://x"))).is_ok());
        let nothing = under(Ceiling { capabilities: Some(BTreeMap::new()), ..Ceiling::default() });
        assert_eq!(refused(nothing.read(a, 9)), "exceeds workspace.read_text ceiling");
        assert_eq!(refused(now(nothing.run(Command::new("x")))), "exceeds process.exec ceiling");
        assert!(now(nothing.http(HttpRequest::new("GET", "http://x"))).is_err());
    }

    #[test]
    fn an_inner_ceiling_never_widens_an_outer_one() {
        let outer = under(Ceiling {
            level: Level::ReadOnly,
            roots: Some(vec![PathBuf::from("/project/in")]),
            ..Ceiling::default()
        });
        let inner: Rc<dyn System> = Rc::new(Permitted::new(
            outer,
            world(),
            Rc::new(Ceiling { roots: Some(vec![PathBuf::from("/")]), ..Ceiling::default() }),
        ));
        assert!(inner.read(Path::new("/project/in/a"), 9).is_ok());
        assert!(refused(inner.read(Path::new("/project/out/b"), 9)).contains("[/project/in]"));
        assert_eq!(
            refused(inner.replace(Path::new("/project/in/a"), b"x")),
            "exceeds workspace write ceiling"
        );
    }

    #[test]
    fn roots_are_absolute() {
        let roots = absolute_roots(&*world(), &[PathBuf::from("in/./x/.."), PathBuf::from("/a/../b/")]);
        assert_eq!(roots, [PathBuf::from("/project/in"), PathBuf::from("/b")]);
    }
}
