//! The environment of the process, and its exit.

use std::path::{Path, PathBuf};

use harn_system::SystemExt;
use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, builtins};

use crate::args::Int;
use crate::places::{resolve, show};

builtins! {
    /// Environment.
    pub(crate) static ENVIRONMENT: "environment";

    /// Returns an environment variable, or nil if it is not set.
    ///
    /// ```harn
    /// println(env("HARN_DOC_NO_SUCH_VARIABLE")) // -> nil
    /// ```
    Env fn env(cx, name: Text as "string") -> "string | nil" {
        cx.system().env(&name)
    }

    /// Returns an environment variable, or `default` when it is not set.
    ///
    /// ```harn
    /// println(env_or("HARN_DOC_NO_SUCH_VARIABLE", 8080)) // -> 8080
    /// ```
    Env fn env_or(cx, name: Text as "string", default: Value) -> "any" {
        cx.system().env(&name).map_or(default, Value::from)
    }

    /// Returns the working directory of the run.
    ///
    /// ```harn
    /// println(path_is_absolute(cwd())) // -> true
    /// ```
    Env fn cwd(cx) -> "string" {
        match cx.system().cwd() {
            Ok(path) => show(&path),
            Err(error) => return Err(Error::thrown(format!("cwd: the working directory is gone: {error}"))),
        }
    }

    /// Returns the base directory of relative paths: the working directory.
    ///
    /// ```harn
    /// println(execution_root() == cwd()) // -> true
    /// ```
    Env fn execution_root(cx) -> "string" {
        show(&cx.system().work_dir())
    }

    /// Returns the directory of the running module.
    ///
    /// ```harn
    /// println(path_is_absolute(source_dir())) // -> true
    /// ```
    Env fn source_dir(cx) -> "string" {
        show(&source_directory(cx))
    }

    /// Returns the directory of templates and other assets: the source directory.
    ///
    /// ```harn
    /// println(asset_root() == source_dir()) // -> true
    /// ```
    Env fn asset_root(cx) -> "string" {
        show(&source_directory(cx))
    }

    /// Returns the directory of the `harn.toml` that applies to the working directory.
    ///
    /// It is the nearest one, at most 16 directories above the working directory and not above a repository (a
    /// directory with `.git`).
    ///
    /// ```harn
    /// let root = project_root()
    /// println(root == nil || file_exists(path_join(root, "harn.toml"))) // -> true
    /// ```
    Fs fn project_root(cx) -> "string | nil" {
        find_project_root(cx).map(|root| show(&root))
    }

    /// Returns the directories of the runtime: `{execution_root, asset_root, state_root, run_root, worktree_root}`.
    ///
    /// ```harn
    /// println(runtime_paths().execution_root == cwd()) // -> true
    /// ```
    Env fn runtime_paths(cx) -> "dict" {
        let base = base(cx);
        let place = |name: &str, default: PathBuf| match cx.system().env(name).filter(|v| !v.is_empty()) {
            Some(path) => resolve(cx, &path),
            None => default,
        };
        let state = state_root(cx);
        let mut dict = Dict::new();
        dict.insert("execution_root", show(&cx.system().work_dir()));
        dict.insert("asset_root", show(&source_directory(cx)));
        dict.insert("run_root", show(&place("HARN_RUN_DIR", base.join(".harn-runs"))));
        dict.insert("worktree_root", show(&place("HARN_WORKTREE_DIR", state.join("worktrees"))));
        dict.insert("state_root", show(&state));
        dict
    }

    /// Returns the user's home directory, or `""` if it is unknown.
    ///
    /// ```harn
    /// println(type_of(home_dir())) // -> string
    /// ```
    Env fn home_dir(cx) -> "string" {
        let known = cx.system().env("HOME").filter(|home| !home.is_empty());
        known.or_else(|| user_entry(cx)?.split(':').nth(5).map(str::to_owned)).unwrap_or_default()
    }

    /// Returns the user's name, or `""` if it is unknown.
    ///
    /// ```harn
    /// println(type_of(username())) // -> string
    /// ```
    Env fn username(cx) -> "string" {
        let names = ["USER", "LOGNAME"].into_iter().filter_map(|name| cx.system().env(name));
        let known = names.into_iter().find(|name| !name.is_empty());
        known.or_else(|| user_entry(cx)?.split(':').next().map(str::to_owned)).unwrap_or_default()
    }

    /// Returns the host name, or `""` if it is unknown.
    ///
    /// ```harn
    /// println(type_of(hostname())) // -> string
    /// ```
    Env fn hostname(cx) -> "string" {
        let known = cx.system().env("HOSTNAME").filter(|name| !name.is_empty());
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        let system = || files.iter().find_map(|path| cx.vm().system().read_text(Path::new(path), 1 << 20).ok());
        known.or_else(|| system().map(|name| name.trim().to_owned())).unwrap_or_default()
    }

    /// Returns the name of the operating system: `linux`, `darwin` or `windows`.
    ///
    /// ```harn
    /// println(platform() in ["linux", "darwin", "windows"]) // -> true
    /// ```
    Env fn platform(cx) -> "string" {
        platform_name(cx)
    }

    /// Returns the processor architecture: `x86_64`, `aarch64` and so on.
    ///
    /// ```harn
    /// println(arch() != "") // -> true
    /// ```
    Env fn arch(cx) -> "string" {
        cx.system().platform().1
    }

    /// Returns the process ID.
    ///
    /// ```harn
    /// println(pid() > 0) // -> true
    /// ```
    Env fn pid(cx) -> "int" {
        i64::from(cx.system().pid())
    }

    /// Exits the program with an exit code.
    ///
    /// Output is flushed, and pending `defer` and `finally` blocks run.
    ///
    /// ```harn
    /// println("before") // -> before
    /// exit(0)
    /// println("after")
    /// ```
    Process fn exit(cx, code: Int) -> "never" {
        match u8::try_from(code.or(0)) {
            Ok(code) => Err::<Value, Error>(Error::exit(i32::from(code))),
            Err(_) => {
                Err(Error::runtime(format!("exit: code must be between 0 and 255, got {}", code.or(0))))
            }
        }
    }
}

/// Returns the directory of the calling code, or the working directory if it has none.
fn source_directory(cx: &Cx) -> PathBuf {
    let mut dir = cx.caller_dir();
    if cx.caller_file().starts_with("std/") {
        // An embedded module has no directory: it acts for the program.
        let program = cx.vm().source(0).map(|(name, _)| PathBuf::from(&*name)).unwrap_or_default();
        dir = program.parent().map(PathBuf::from).unwrap_or_default();
    }
    if dir.as_os_str().is_empty() { cx.system().work_dir() } else { resolve(cx, &show(&dir)) }
}

fn find_project_root(cx: &Cx) -> Option<PathBuf> {
    let system = cx.vm().system();
    harn_front::project_root(&system.work_dir(), &harn_front::Through(&**system))
}

/// Returns the default directory for files of the runtime: the project root, or the directory of the calling code.
fn base(cx: &Cx) -> PathBuf {
    find_project_root(cx).unwrap_or_else(|| source_directory(cx))
}

/// A path that the runtime derives for a program, and the directory that links must not leave.
struct Derived {
    place: PathBuf,
    root: PathBuf,
}

impl Derived {
    /// Returns the path in `variable`, or else `default`. A path in a variable may be anywhere, but a relative path is
    /// below the working directory, and no link leads out of it.
    fn of(cx: &Cx, variable: &str, default: impl FnOnce() -> Derived) -> Derived {
        match cx.system().env(variable).filter(|path| !path.is_empty()) {
            None => default(),
            Some(path) => {
                let place = resolve(cx, &path);
                let work = Some(Path::new(&path)).filter(|path| path.is_relative() && place.ends_with(path));
                let work = work.and_then(|path| place.ancestors().nth(path.components().count()));
                let root = work.unwrap_or(&place).to_owned();
                Derived { place, root }
            }
        }
    }

    fn join(mut self, name: &str) -> Derived {
        self.place.push(name);
        self
    }

    /// Confines the path and returns it, for file operations.
    fn path(self, cx: &Cx) -> PathBuf {
        cx.system().confine(&self.place, &self.root);
        self.place
    }
}

/// Returns the state directory of the runtime: `HARN_STATE_DIR`, or `.harn` in the project.
fn state(cx: &Cx) -> Derived {
    Derived::of(cx, "HARN_STATE_DIR", || {
        let root = base(cx);
        Derived { place: root.join(".harn"), root }
    })
}

/// Returns the path of the state directory for display, without confining it.
pub(crate) fn state_root(cx: &Cx) -> PathBuf {
    state(cx).place
}

/// Returns a file or directory in the state directory.
pub(crate) fn state_file(cx: &Cx, name: &str) -> PathBuf {
    state(cx).join(name).path(cx)
}

/// Returns a directory of the runtime's state: the path in the environment variable `variable`, or `name` in the state
/// directory.
pub fn state_place(cx: &Cx, variable: &str, name: &str) -> PathBuf {
    Derived::of(cx, variable, || state(cx).join(name)).path(cx)
}

/// Returns the directory of run records: `HARN_RUN_DIR`, or `.harn-runs` in the project.
pub fn run_folder(cx: &Cx) -> PathBuf {
    let default = || {
        let root = base(cx);
        Derived { place: root.join(".harn-runs"), root }
    };
    Derived::of(cx, "HARN_RUN_DIR", default).path(cx)
}

/// Returns the name of the operating system for programs.
pub(super) fn platform_name(cx: &Cx) -> &'static str {
    match cx.system().platform().0 {
        "macos" => "darwin",
        name => name,
    }
}

/// Returns the line in the user database of the owner of this process.
fn user_entry(cx: &Cx) -> Option<String> {
    let system = cx.vm().system();
    let status = system.read_text(Path::new("/proc/self/status"), 1 << 20).ok()?;
    let uid =
        status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next())?.to_owned();
    let users = system.read_text(Path::new("/etc/passwd"), 1 << 24).ok()?;
    users.lines().find(|line| line.split(':').nth(2) == Some(&uid)).map(str::to_owned)
}
