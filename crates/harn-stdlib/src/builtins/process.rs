//! Running other programs.

use std::path::Path;
use std::process::{Output, Stdio};

use harn_value::{Dict, Value};
use harn_vm::builtin::Rest;
use harn_vm::{Cx, Error, Result, builtins};

use super::files::resolve;
use super::host_process::default_shell_path;
use crate::args::{MaybePath, MaybeText, printed};

builtins! {
    /// Other programs.
    pub(crate) static PROCESS: "processes";

    /// Runs a program with arguments: `{stdout, stderr, status, success}`.
    ///
    /// A non-zero exit is no error. Standard input is empty; output is decoded as UTF-8.
    ///
    /// ```harn
    /// let r = exec("echo", "a b")
    /// println([r.stdout.trim(), r.status, r.success]) // -> [a b, 0, true]
    /// ```
    Process async fn exec(cx, command: MaybeText, arguments: Rest) -> "dict" {
        let Some(command) = command.0 else {
            return Err(Error::thrown("exec: command is required"));
        };
        run(&cx, &cx.host().cwd(), &command, &texts(&arguments.0), "exec failed").await?
    }

    /// Runs a program with arguments in a directory.
    ///
    /// ```harn
    /// println(exec_at("/", "pwd").stdout.trim()) // -> /
    /// ```
    Process async fn exec_at(cx, dir: MaybePath, command: MaybeText, arguments: Rest) -> "dict" {
        let (Some(dir), Some(command)) = (dir.0, command.0) else {
            return Err(Error::thrown("exec_at: directory and command are required"));
        };
        run(&cx, &resolve(&cx, &dir), &command, &texts(&arguments.0), "exec failed").await?
    }

    /// Runs a line with the default shell.
    ///
    /// ```harn
    /// println(shell("echo a | tr a b; exit 3").status) // -> 3
    /// ```
    Process async fn shell(cx, line: MaybeText) -> "dict" {
        let Some(line) = line.0 else {
            return Err(Error::thrown("shell: command string is required"));
        };
        run_line(&cx, &cx.host().cwd(), &line).await?
    }

    /// Runs a line with the default shell in a directory.
    ///
    /// ```harn
    /// println(shell_at("/", "pwd").stdout.trim()) // -> /
    /// ```
    Process async fn shell_at(cx, dir: MaybePath, line: MaybeText) -> "dict" {
        let Some(dir) = dir.0 else {
            return Err(Error::thrown("shell_at: directory and command string are required"));
        };
        let Some(line) = line.0 else {
            return Err(Error::thrown("shell_at: command string is required"));
        };
        run_line(&cx, &resolve(&cx, &dir), &line).await?
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| printed(value).to_string()).collect()
}

async fn run_line(cx: &Cx, dir: &Path, line: &str) -> Result<Dict> {
    let shell = default_shell_path(cx)?;
    run(cx, dir, &shell, &["-c".to_owned(), line.to_owned()], "shell failed").await
}

/// Runs a program to its end. When the task is cancelled this future is dropped, which kills it.
async fn run(cx: &Cx, dir: &Path, program: &str, arguments: &[String], failure: &str) -> Result<Dict> {
    // What was printed so far belongs before what the program writes to a shared terminal.
    let _ = cx.host().flush();
    let child = tokio::process::Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let spawn_failed = |error| Error::thrown(format!("{failure}: process spawn failed: {error}"));
    let output = child.map_err(spawn_failed)?.wait_with_output().await;
    Ok(outcome(&output.map_err(spawn_failed)?))
}

fn outcome(output: &Output) -> Dict {
    let mut dict = Dict::new();
    dict.insert("stdout", String::from_utf8_lossy(&output.stdout).into_owned());
    dict.insert("stderr", String::from_utf8_lossy(&output.stderr).into_owned());
    dict.insert("status", i64::from(output.status.code().unwrap_or(-1)));
    dict.insert("success", output.status.success());
    dict
}
