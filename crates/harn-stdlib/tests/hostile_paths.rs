//! Random sequences of all file builtins with hostile arguments, in an in-memory file system: a canary never changes,
//! the directories that a run needs are kept, and a failed call changes nothing, also on a disk that is full at random
//! moments.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use harn_system::{Ceiling, Layer, Memory, System, SystemExt};
use harn_vm::{Source, VmBuilder, block_on, load};

const PATHS: [&str; 34] = [
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
    "/project",
    "/project/work",
    "/home",
    "/home/user",
    "link",
    "up",
    "up/work",
    "self",
    "self/self/a",
    "out",
    "hole",
    "loop",
    "/project/harn.toml",
    "new/deep",
    "a/b",
];

const OUTSIDE: [&str; 6] =
    ["/canary", "/canary/keep", "../../canary/keep", "out/keep", "/canary/new", "sub/../../../canary"];

/// A disk that is sometimes full.
struct Disk {
    inner: Memory,
    state: Cell<u64>,
}

impl Disk {
    fn new(seed: u64) -> Disk {
        let inner = Memory::new()
            .with_cwd("/project/work")
            .with_file("/project/harn.toml", "")
            .with_file("/project/work/a", "content of a")
            .with_file("/project/work/b", "content of b")
            .with_file("/project/work/sub/x", "inner")
            .with_file("/home/user/mine", "mine")
            .with_file("/canary/keep", "canary")
            .with_link("a", "/project/work/link")
            .with_link("..", "/project/work/up")
            .with_link(".", "/project/work/self")
            .with_link("/canary", "/project/work/out")
            .with_link("/canary/hole", "/project/work/hole")
            .with_link("loop", "/project/work/loop");
        Disk { inner, state: Cell::new(seed) }
    }

    fn next(&self, bound: usize) -> usize {
        self.state.set(
            self.state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
        (self.state.get() >> 33) as usize % bound
    }

    fn fill(&self) {
        self.inner.set_room(if self.next(4) == 0 { self.next(20) as u64 } else { u64::MAX });
    }

    /// Describes everything below a directory.
    fn content(&self, folder: &Path, out: &mut String) {
        for name in self.inner.names(folder).expect("a folder") {
            let path = folder.join(name);
            let facts = self.inner.link_facts(&path).expect("an entry");
            out.push_str(&format!("{}: {:?}", path.display(), facts.kind));
            if facts.is_file() {
                out.push_str(&self.inner.read_text(&path, u64::MAX).expect("text"));
            }
            out.push('\n');
            if facts.is_dir() {
                self.content(&path, out);
            }
        }
    }

    fn all(&self, folder: &str) -> String {
        let mut out = String::new();
        self.content(Path::new(folder), &mut out);
        out
    }
}

impl Layer for Disk {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.fill();
        self.inner.replace(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.fill();
        self.inner.append(path, bytes)
    }
}

/// Returns a random call.
fn call(disk: &Disk, paths: &[&str]) -> String {
    let path = || format!("\"{}\"", paths[disk.next(paths.len())]);
    match disk.next(10) {
        0 | 1 => format!("delete_file({})", path()),
        2 | 3 => format!("move_file({}, {})", path(), path()),
        4 => format!("copy_file({}, {})", path(), path()),
        5 => format!("write_file({}, \"new\")", path()),
        6 => format!("append_file({}, \"more\")", path()),
        7 => format!("mkdir({})", path()),
        8 => format!("write_file_bytes({}, bytes_from_hex(\"00\"))", path()),
        _ => format!(
            "read_file({})\nlist_dir({})\nwalk_dir({}, {{follow_symlinks: true}})",
            path(),
            path(),
            path()
        ),
    }
}

/// Runs one call; returns whether it succeeded.
fn run(disk: &Rc<Disk>, code: &str, ceiling: Option<&Ceiling>) -> bool {
    let mut builder = VmBuilder::new(disk.clone())
        .builtins(harn_stdlib::builtins())
        .methods(harn_stdlib::methods())
        .std_modules(harn_stdlib::module);
    if let Some(ceiling) = ceiling {
        builder = builder.limit(ceiling.clone());
    }
    let vm = builder.build();
    let source = Source { name: "main.harn".into(), text: code.into(), dir: "/project/work".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{code}") };
    block_on(program.run(&vm, None, &[])).expect("an event loop").result.is_ok()
}

#[test]
fn what_the_run_stands_on_stays_and_errors_change_nothing() {
    let (mut failed, mut done) = (0, 0);
    for seed in 0..25 {
        let disk = Rc::new(Disk::new(seed * 7919 + 1));
        let canary = disk.all("/canary");
        for _ in 0..60 {
            let code = call(&disk, &PATHS);
            let before = disk.all("/");
            if run(&disk, &code, None) {
                done += 1;
            } else {
                failed += 1;
                assert_eq!(disk.all("/"), before, "{code} failed and changed something");
            }
            for place in ["/project/work", "/home/user", "/canary"] {
                assert!(disk.inner.is_dir(Path::new(place)), "{code} took {place} away");
            }
            // Links into the canary are followed only if the program does so explicitly.
            if !code.contains("out") && !code.contains("hole") && !code.contains("link") {
                assert!(disk.all("/canary").contains("/canary/keep: Filecanary"), "{code}: {canary}");
            }
        }
    }
    assert!(failed > 300 && done > 300, "{failed} failed, {done} did not");
}

#[test]
fn nothing_outside_of_the_roots_changes() {
    let ceiling = Ceiling { roots: Some(vec!["/project/work".into()]), ..Ceiling::default() };
    let paths: Vec<&str> = PATHS.into_iter().chain(OUTSIDE).collect();
    let outside = |disk: &Disk| {
        let all = disk.all("/");
        all.lines().filter(|line| !line.starts_with("/project/work/")).collect::<Vec<_>>().join("\n")
    };
    let mut done = 0;
    for seed in 0..25 {
        let disk = Rc::new(Disk::new(seed * 104_729 + 3));
        let before = outside(&disk);
        for _ in 0..60 {
            let code = call(&disk, &paths);
            done += usize::from(run(&disk, &code, Some(&ceiling)));
            assert_eq!(outside(&disk), before, "{code}");
        }
    }
    assert!(done > 200, "{done} calls did something");
}
