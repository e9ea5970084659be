//! All builtins that access files, in random sequences with hostile arguments: next to a canary directory, and on a
//! disk that becomes full at random times.
//!
//! The tree is in memory or in a temporary directory. For the latter, a layer at the bottom rejects every change
//! outside the roots and every read of the canary, and records it as a finding. It does not panic, because a
//! program would catch that as an error. The state directory of the runtime is sometimes a link, contains one, or
//! is set by a variable.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::LazyLock;

use harn_system::{Ceiling, Draft, Facts, Layer, Memory, MoveError, Real, System};
use harn_vm::{Source, Vm, block_on, load};

use crate::rng::Rng;

/// Paths; `@` is replaced by the directory that contains project, home and canary.
const PATHS: &[&str] = &[
    "",
    ".",
    "..",
    "/",
    "./",
    "../",
    "//",
    "a",
    "b",
    "./a",
    "a/",
    "sub",
    "sub/",
    "sub/x",
    "sub/..",
    "sub/../..",
    "sub/../../..",
    "../work",
    "../../project",
    "@/project",
    "@/project/work",
    "@/home",
    "@",
    "link",
    "up",
    "up/work",
    "self",
    "self/self/a",
    "out",
    "out/keep",
    "hole",
    "loop",
    "@/project/harn.toml",
    "new/deep",
    "a/b",
    "@/canary",
    "@/canary/keep",
    "../../canary/keep",
    "@/canary/new",
    "sub/../../../canary",
    "twin",
    "out/../canary/new",
    "/dev/null",
    "/etc",
    "~",
    "*",
    "**/*",
    "{a,b}",
    "a\\0b",
    "nul\u{0}",
    "a\\nb",
    "sub/x\\n@/canary/keep: File",
    "-rf",
    "harn.toml",
    ".harn",
    ".harn/store.json",
    "é\u{202e}",
];

/// Arguments other than paths.
const OTHERS: &[&str] = &[
    "nil",
    "true",
    "-1",
    "0",
    "1.5",
    "[]",
    "{}",
    "\"text\"",
    "\"x\".repeat(5000)",
    "bytes_from_hex(\"00ff\")",
    "{follow_symlinks: true}",
    "{max_depth: -1}",
    "{max_depth: 2}",
    "{a: [1, {b: 2}]}",
    "{ x -> x }",
    "[\"a\", \"../b\"]",
    "9223372036854775807",
];

/// The names of the builtins, sorted.
static BUILTINS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let all = harn_runtime::tables().into_iter().flatten().filter(|builtin| builtin.effect.word() == "fs");
    let mut names: Vec<&str> = all.map(|builtin| builtin.name()).collect();
    names.sort_unstable();
    names
});

/// Builtins that modify files, which are called more often.
const CHANGING: &[&str] = &[
    "write_file",
    "write_file_bytes",
    "append_file",
    "copy_file",
    "move_file",
    "delete_file",
    "mkdir",
    "store_set",
    "checkpoint",
    "store_clear",
];

/// Links that a hostile checkout may contain: in `project/.harn`, or that directory itself.
const STATE_LINKS: &[(&str, &str)] = &[
    ("@/canary", ".harn"),
    ("@/nowhere", ".harn"),
    ("../canary", ".harn"),
    ("@/canary/keep", ".harn/store.json"),
    ("@/canary/new", ".harn/store.json"),
    ("../../canary/keep", ".harn/store.json"),
    ("../work/a", ".harn/store.json"),
    ("@/canary/new", ".harn/store.json.lock"),
    ("@/canary", ".harn/checkpoints"),
    ("@/canary/keep", ".harn/checkpoints/fuzz.json"),
    ("@/canary", ".harn/metadata"),
    ("@/canary", ".harn/workers"),
    ("@/canary", ".harn/workflows"),
    ("@/canary", ".harn/worktrees"),
    ("@/canary", ".harn-runs"),
];

/// Variables that set directories of the runtime.
const VARIABLES: &[&str] = &[
    "HARN_STATE_DIR",
    "HARN_STATE_FILE",
    "HARN_RUN_DIR",
    "HARN_WORKER_STATE_DIR",
    "HARN_WORKTREE_DIR",
    "HARN_WORKFLOW_STATE_DIR",
];

/// The values of these variables.
const PLACES: &[&str] =
    &["@/canary", "@/canary/new", "../../canary", "out", "out/new", "@/nowhere", "@/home/state"];

/// Generates lines of calls; the first line contains the seed of the disk.
pub(crate) fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut out = format!("{}\n", rng.bits());
    let path = |rng: &mut Rng| format!("\"{}\"", rng.pick(PATHS));
    for _ in 0..1 + rng.below(12) {
        let name = if rng.chance(70) { rng.pick(CHANGING) } else { rng.pick(&BUILTINS) };
        let mut arguments = Vec::new();
        for _ in 0..rng.below(4) {
            arguments.push(if rng.chance(80) { path(rng) } else { rng.pick(OTHERS).to_owned() });
        }
        out.push_str(&format!("{name}({})\n", arguments.join(", ")));
    }
    out.into_bytes()
}

/// The system of the programs, with fault injection and a guard.
struct Disk {
    /// The temporary directory, unless the tree is in memory.
    scratch: Option<tempfile::TempDir>,
    inner: Rc<dyn System>,
    /// The directory that contains project, home and canary; empty in memory.
    top: PathBuf,
    rng: RefCell<Rng>,
    faults: Cell<bool>,
    /// The directory that programs may access: the working directory or the project.
    root: PathBuf,
    /// An environment variable.
    variable: Option<(&'static str, String)>,
    /// The first rejected change outside the roots.
    outside: RefCell<Option<String>>,
}

impl Disk {
    fn new(real: bool, seed: u64) -> Rc<Disk> {
        let rng = RefCell::new(Rng::new(seed, 1));
        let files = [
            ("project/harn.toml", ""),
            ("project/work/a", "content of a"),
            ("project/work/b", "content of b"),
            ("project/work/sub/x", "inner"),
            ("home/mine", "mine"),
            ("canary/keep", "canary"),
        ];
        let links = [
            ("a", "link"),
            ("..", "up"),
            (".", "self"),
            ("@/canary", "out"),
            ("@/canary/hole", "hole"),
            ("loop", "loop"),
        ];
        let faults = Cell::new(false);
        let mut odds = Rng::new(seed, 2);
        let state = odds.chance(40).then(|| STATE_LINKS[odds.below(STATE_LINKS.len())]);
        let named = odds.chance(30).then(|| (odds.pick(VARIABLES), odds.pick(PLACES)));
        let wide = odds.chance(50);
        let root = |top: &Path| top.join(if wide { "project" } else { "project/work" });
        let variable =
            |top: &Path| named.map(|(name, place)| (name, place.replace('@', &top.to_string_lossy())));
        if !real {
            let mut memory = Memory::new().with_cwd("/project/work").with_env("HOME", "/home");
            for (path, text) in files {
                memory = memory.with_file(&format!("/{path}"), text);
            }
            for (target, path) in links {
                memory = memory.with_link(&target.replace('@', ""), &format!("/project/work/{path}"));
            }
            if let Some((target, path)) = state {
                let path = format!("/project/{path}");
                let folder = Path::new(&path).parent().expect("a directory");
                memory.make_dirs(folder).expect("a directory");
                memory = memory.with_link(&target.replace('@', ""), &path);
            }
            let (inner, outside) = (Rc::new(memory), RefCell::default());
            let (root, variable) = (root(Path::new("/")), variable(Path::new("")));
            return Rc::new(Disk {
                scratch: None,
                inner,
                top: PathBuf::new(),
                rng,
                faults,
                root,
                variable,
                outside,
            });
        }
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let top = scratch.path().canonicalize().expect("a path");
        for (path, text) in files {
            let path = top.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        for (target, path) in links {
            let target = target.replace('@', &top.to_string_lossy());
            std::os::unix::fs::symlink(target, top.join("project/work").join(path)).expect("a link");
        }
        if let Some((target, path)) = state {
            let path = top.join("project").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            let target = target.replace('@', &top.to_string_lossy());
            std::os::unix::fs::symlink(target, path).expect("a link");
        }
        fs::hard_link(top.join("project/work/a"), top.join("project/work/twin")).expect("a link");
        let (scratch, inner, outside) = (Some(scratch), Rc::new(Real::new()), RefCell::default());
        let (root, variable) = (root(&top), variable(&top));
        Rc::new(Disk { scratch, inner, top, rng, faults, root, variable, outside })
    }

    fn work(&self) -> PathBuf {
        if self.scratch.is_some() { self.top.join("project/work") } else { PathBuf::from("/project/work") }
    }

    /// Returns an injected error at random.
    fn fault(&self) -> io::Result<()> {
        if self.faults.get() && self.rng.borrow_mut().chance(25) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    /// Rejects and records a change outside the roots. Independent of the permission checks of the runtime.
    fn guard(&self, path: &Path, follow: bool) -> io::Result<()> {
        if self.scratch.is_none() {
            return Ok(());
        }
        let mut path = path.to_owned();
        if follow {
            for _ in 0..50 {
                let Ok(next) = fs::read_link(&path) else { break };
                path = path.parent().unwrap_or(Path::new("/")).join(next);
            }
        }
        // An existing directory is not replaced, only its content can change, also if a link points to `.`.
        let folder = if follow && path.is_dir() { &path } else { path.parent().unwrap_or(Path::new("/")) };
        // Existing directories are canonicalized; missing ones would be created below them.
        let mut real = PathBuf::from("/");
        for part in folder.components() {
            match part {
                Component::ParentDir => drop(real.pop()),
                part => real.push(part),
            }
            real = real.canonicalize().unwrap_or(real);
        }
        if real.starts_with(&self.root) {
            return Ok(());
        }
        self.outside.borrow_mut().get_or_insert(path.display().to_string());
        Err(io::Error::from(io::ErrorKind::PermissionDenied))
    }

    /// Rejects and records a read of the canary.
    fn guard_read(&self, path: &Path) -> io::Result<()> {
        let real = self.inner.canonical(path).unwrap_or_else(|_| path.to_owned());
        if !self.faults.get() || !real.starts_with(self.top.join("canary")) || self.top.as_os_str().is_empty()
        {
            return Ok(());
        }
        self.outside.borrow_mut().get_or_insert(format!("{} (read)", path.display()));
        Err(io::Error::from(io::ErrorKind::PermissionDenied))
    }

    /// Formats everything below a directory.
    fn content(&self, folder: &Path, out: &mut String) {
        for name in self.inner.names(folder).expect("a folder") {
            let path = folder.join(name);
            // The state of the runtime is not part of the program's files.
            let is_state =
                [".harn", ".harn-runs"].iter().any(|own| path.file_name().is_some_and(|name| name == *own));
            if is_state {
                continue;
            }
            let facts = self.inner.link_facts(&path).expect("an entry");
            // Escaped, so that each entry is one line regardless of its name.
            out.push_str(&format!("{}: {:?} ", path.display().to_string().escape_debug(), facts.kind));
            if facts.is_file() {
                let bytes = self.inner.read(&path, u64::MAX).expect("a file");
                out.push_str(&format!("{:?}", String::from_utf8_lossy(&bytes)));
            }
            out.push('\n');
            if facts.is_dir() {
                self.content(&path, out);
            }
        }
    }

    fn all(&self) -> String {
        let mut out = String::new();
        let top = if self.top.as_os_str().is_empty() { Path::new("/") } else { &self.top };
        self.content(top, &mut out);
        out
    }
}

/// A draft file on a disk that may become full.
struct Faulty {
    inner: Box<dyn Draft>,
    full: bool,
}

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full {
            // A part is still written.
            self.inner.write_all(&bytes[..bytes.len() / 2])?;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Draft for Faulty {
    fn commit(self: Box<Self>) -> io::Result<()> {
        self.inner.commit()
    }
}

impl Layer for Disk {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.work())
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            "HOME" => {
                Some(self.top.join("home").display().to_string()).filter(|_| !self.top.as_os_str().is_empty())
            }
            _ if self.variable.as_ref().is_some_and(|(known, _)| *known == name) => {
                self.variable.as_ref().map(|(_, value)| value.clone())
            }
            _ if self.scratch.is_some() => None,
            _ => self.inner.env(name),
        }
    }

    fn link_facts(&self, path: &Path) -> io::Result<Facts> {
        self.inner.link_facts(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.guard_read(path)?;
        self.inner.read(path, limit)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.guard_read(path)?;
        self.inner.names(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.guard(path, true)?;
        self.fault()?;
        self.inner.replace(path, bytes)
    }

    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.guard(path, true)?;
        let inner = self.inner.draft(path)?;
        Ok(Box::new(Faulty { inner, full: self.fault().is_err() }))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.guard(path, true)?;
        self.fault()?;
        self.inner.append(path, bytes)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.guard(&path.join("x"), true)?;
        self.fault()?;
        self.inner.make_dirs(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.guard(&path.join("x"), true)?;
        self.fault()?;
        self.inner.make_dir(path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.guard(to, true)?;
        self.fault()?;
        self.inner.copy(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.guard(from, false).and_then(|()| self.guard(to, false)).map_err(MoveError::NotMoved)?;
        self.fault().map_err(MoveError::NotMoved)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.guard(path, false)?;
        self.inner.remove(path)
    }
}

/// Creates a virtual machine for the calls of one input.
fn machine(disk: &Rc<Disk>) -> Rc<Vm> {
    let ceiling = Ceiling { roots: Some(vec![disk.root.clone()]), ..Ceiling::default() };
    harn_runtime::vm_builder(disk.clone()).limit(ceiling).build()
}

/// Runs one call.
///
/// # Errors
/// Returns the message of the error.
fn run(vm: &Rc<Vm>, disk: &Disk, call: &str) -> Result<(), String> {
    let source = Source { name: "fuzz.harn".to_owned(), text: call.to_owned(), dir: disk.work() };
    let Ok(program) = load(vm, &source) else { return Err("no program".to_owned()) };
    disk.faults.set(true);
    let outcome = block_on(program.run(vm, None, &[])).map_err(|error| error.to_string());
    disk.faults.set(false);
    outcome?.result.map(|_| ()).map_err(|error| error.uncaught_text())
}

/// Checks that nothing outside the root directory is changed, that the canary is not read, that the root directory
/// itself remains, and that a failing call changes nothing.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let seed = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0_u64);
    let disk = Disk::new(seed % 2 == 1, seed);
    let work = format!("{}/", disk.root.display().to_string().escape_debug());
    let outside = |all: &str| {
        all.lines()
            .filter(|line| !line.starts_with(&work))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let vm = machine(&disk);
    let mut before = disk.all();
    let kept = outside(&before);
    for line in lines.take(40) {
        // Runs only calls of these builtins: mutated input must not call others.
        let Some((name, rest)) = line.split_once('(') else { continue };
        // Runs only single calls: with two calls in one line, the first may have changed something when the second
        // fails.
        let bare = OTHERS.iter().fold(rest.to_owned(), |bare, other| bare.replace(other, ""));
        let plain =
            !bare.contains(['(', '$']) && bare.find(')').is_some_and(|at| at + 1 == bare.trim_end().len());
        if !BUILTINS.contains(&name) || !plain || line.len() > 400 {
            continue;
        }
        let call = line.replace('@', &disk.top.to_string_lossy());
        let result = run(&vm, &disk, &call);
        let after = disk.all();
        let reached = disk.outside.borrow_mut().take();
        assert!(reached.is_none(), "{call} wants {reached:?}, outside of {}", disk.root.display());
        assert_eq!(outside(&after), kept, "{call} changed something outside of {}", disk.root.display());
        if let Err(error) = result {
            assert!(!error.is_empty() && !error.contains("internal error"), "{call} fails with {error:?}");
            assert_eq!(after, before, "{call} failed ({error}) and changed something");
        }
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_refused_and_noted() {
        let disk = Disk::new(true, 1);
        let work = disk.work();
        for path in ["a", "new/deep", "sub/x", "self", "self/new", "link"] {
            disk.guard(&work.join(path), true).expect(path);
        }
        assert_eq!(*disk.outside.borrow(), None);
        for path in ["out/keep", "hole", "/etc/new", "../../canary/keep"] {
            disk.guard(&work.join(path), true).expect_err(path);
            assert!(disk.outside.borrow_mut().take().is_some(), "{path}");
        }
    }

    /// A program catches a panic as an error, so a rejected access must be detected at the end.
    #[test]
    fn a_call_that_reaches_out_is_a_finding() {
        let disk = Disk::new(true, 1);
        let vm = harn_runtime::vm_builder(disk.clone()).build();
        run(&vm, &disk, "write_file(\"../../out.txt\", \"x\")").expect_err("refused");
        assert!(disk.outside.borrow().is_some());
    }
}
