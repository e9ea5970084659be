//! The environment of the process, and its end.

use std::path::{Path, PathBuf};

use harn_value::{Dict, Value};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, builtins};

use super::files::{resolve, show};
use crate::args::Int;

builtins! {
    /// Environment.
    pub(crate) static ENVIRONMENT: "environment";

    /// Gives an environment variable, nil when it is not set.
    ///
    /// ```harn
    /// println(env("HARN_DOC_NO_SUCH_VARIABLE")) // -> nil
    /// ```
    Env fn env(cx, name: Text) -> "string | nil" {
        cx.host().env(&name)
    }

    /// Gives an environment variable, or `default` when it is not set.
    ///
    /// ```harn
    /// println(env_or("HARN_DOC_NO_SUCH_VARIABLE", 8080)) // -> 8080
    /// ```
    Env fn env_or(cx, name: Text, default: Value) -> "any" {
        cx.host().env(&name).map_or(default, Value::from)
    }

    /// Gives the working directory of the run.
    ///
    /// ```harn
    /// println(path_is_absolute(cwd())) // -> true
    /// ```
    Env fn cwd(cx) -> "string" {
        show(&cx.host().cwd())
    }

    /// Gives the directory that relative paths are taken from: the working directory.
    ///
    /// ```harn
    /// println(execution_root() == cwd()) // -> true
    /// ```
    Env fn execution_root(cx) -> "string" {
        show(&cx.host().cwd())
    }

    /// Gives the directory of the module whose code runs.
    ///
    /// ```harn
    /// println(path_is_absolute(source_dir())) // -> true
    /// ```
    Env fn source_dir(cx) -> "string" {
        show(&source_directory(cx))
    }

    /// Gives the directory where templates and other assets are looked up: the source directory.
    ///
    /// ```harn
    /// println(asset_root() == source_dir()) // -> true
    /// ```
    Env fn asset_root(cx) -> "string" {
        show(&source_directory(cx))
    }

    /// Gives the nearest directory at or above the working directory that holds a `harn.toml`.
    ///
    /// ```harn
    /// let root = project_root()
    /// println(root == nil || file_exists(path_join(root, "harn.toml"))) // -> true
    /// ```
    Fs fn project_root(cx) -> "string | nil" {
        find_project_root(cx).map(|root| show(&root))
    }

    /// Gives the directories of the runtime: `{execution_root, asset_root, state_root, run_root, worktree_root}`.
    ///
    /// ```harn
    /// println(runtime_paths().execution_root == cwd()) // -> true
    /// ```
    Env fn runtime_paths(cx) -> "dict" {
        let base = find_project_root(cx).unwrap_or_else(|| source_directory(cx));
        let place = |name: &str, default: PathBuf| match cx.host().env(name).filter(|v| !v.is_empty()) {
            Some(path) => resolve(cx, &path),
            None => default,
        };
        let state = state_root(cx);
        let mut dict = Dict::new();
        dict.insert("execution_root", show(&cx.host().cwd()));
        dict.insert("asset_root", show(&source_directory(cx)));
        dict.insert("run_root", show(&place("HARN_RUN_DIR", base.join(".harn-runs"))));
        dict.insert("worktree_root", show(&place("HARN_WORKTREE_DIR", state.join("worktrees"))));
        dict.insert("state_root", show(&state));
        dict
    }

    /// Gives the user's home directory, `""` when there is none.
    ///
    /// ```harn
    /// println(type_of(home_dir())) // -> string
    /// ```
    Env fn home_dir(cx) -> "string" {
        let known = cx.host().env("HOME").filter(|home| !home.is_empty());
        known.or_else(|| user_entry()?.split(':').nth(5).map(str::to_owned)).unwrap_or_default()
    }

    /// Gives the user's name, `""` when there is none.
    ///
    /// ```harn
    /// println(type_of(username())) // -> string
    /// ```
    Env fn username(cx) -> "string" {
        let names = ["USER", "LOGNAME"].into_iter().filter_map(|name| cx.host().env(name));
        let known = names.into_iter().find(|name| !name.is_empty());
        known.or_else(|| user_entry()?.split(':').next().map(str::to_owned)).unwrap_or_default()
    }

    /// Gives the name of the machine, `""` when there is none.
    ///
    /// ```harn
    /// println(type_of(hostname())) // -> string
    /// ```
    Env fn hostname(cx) -> "string" {
        let known = cx.host().env("HOSTNAME").filter(|name| !name.is_empty());
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        let system = || files.iter().find_map(|path| std::fs::read_to_string(path).ok());
        known.or_else(|| system().map(|name| name.trim().to_owned())).unwrap_or_default()
    }

    /// Names the operating system: `linux`, `darwin` or `windows`.
    ///
    /// ```harn
    /// println(platform() in ["linux", "darwin", "windows"]) // -> true
    /// ```
    Env fn platform(cx) -> "string" {
        if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS }
    }

    /// Names the processor: `x86_64`, `aarch64` and so on.
    ///
    /// ```harn
    /// println(arch() != "") // -> true
    /// ```
    Env fn arch(cx) -> "string" {
        std::env::consts::ARCH
    }

    /// Gives the number of the process.
    ///
    /// ```harn
    /// println(pid() > 0) // -> true
    /// ```
    Env fn pid(cx) -> "int" {
        i64::from(std::process::id())
    }

    /// Ends the program with an exit code.
    ///
    /// Output written so far is not lost, and pending `defer` and `finally` blocks run.
    ///
    /// ```harn
    /// println("before") // -> before
    /// exit(0)
    /// println("after")
    /// ```
    Process fn exit(cx, code: Int) -> "never" {
        let code = i32::try_from(code.or(0)).unwrap_or(if code.or(0) < 0 { i32::MIN } else { i32::MAX });
        Err::<Value, Error>(Error::exit(code))
    }
}

/// The directory of the calling code, the working directory when it has none.
fn source_directory(cx: &Cx) -> PathBuf {
    let dir = cx.caller_dir();
    if dir.as_os_str().is_empty() { cx.host().cwd() } else { resolve(cx, &show(&dir)) }
}

fn find_project_root(cx: &Cx) -> Option<PathBuf> {
    let cwd = cx.host().cwd();
    cwd.ancestors().find(|dir| dir.join("harn.toml").is_file()).map(Path::to_owned)
}

/// Where the runtime keeps its state: `HARN_STATE_DIR`, or `.harn` in the project.
pub(crate) fn state_root(cx: &Cx) -> PathBuf {
    match cx.host().env("HARN_STATE_DIR").filter(|v| !v.is_empty()) {
        Some(path) => resolve(cx, &path),
        None => find_project_root(cx).unwrap_or_else(|| source_directory(cx)).join(".harn"),
    }
}

/// The line of the user database that belongs to the owner of this process.
fn user_entry() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find(|line| line.split(':').nth(2) == Some(&uid)).map(str::to_owned)
}
