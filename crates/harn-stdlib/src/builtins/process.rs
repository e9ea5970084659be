//! Running other programs.

use std::path::Path;
use std::time::Duration;

use harn_system::{Command, Finished, SystemExt, Uncertain};
use harn_value::{Dict, Ref, Value, memory};
use harn_vm::builtin::Rest;
use harn_vm::{Cx, Error, Result, builtins};

use super::host_process::{default_shell_path, line_arguments};
use crate::args::{MaybePath, MaybeText, printed};
use crate::command_guard::{Later, guard};
use crate::failures;
use crate::http::{Doubts, uncertain};
use crate::places::resolve;

builtins! {
    /// Processes.
    pub(crate) static PROCESS: "processes";

    /// Runs a program with arguments: `{stdout, stderr, status, success}`.
    ///
    /// A non-zero exit status is not an error. For a program that a signal terminated, `signal` is the number of the
    /// signal and `status` is -1. Standard input is empty; output is decoded as UTF-8. Background processes of the
    /// program are not awaited.
    ///
    /// A dict as last argument contains options: `timeout` (a duration or milliseconds; after it, the program and its
    /// child processes are killed, and the result has `timed_out: true`) and `max_output_bytes` (64 MiB; more output is
    /// an error). For a durable run that was interrupted while the program ran, `idempotent: true` or `on_uncertain:
    /// "retry"` runs it again and `"ask"` asks a human; otherwise, an error of category `in_doubt` is thrown.
    ///
    /// ```harn
    /// let r = exec("echo", "a b")
    /// println([r.stdout.trim(), r.status, r.success]) // -> [a b, 0, true]
    /// ```
    Process async fn exec(cx, command: MaybeText as "string", arguments: Rest as "text | process_limits") -> "dict" {
        let Some(command) = command.0 else {
            return Err(Error::thrown("exec: command is required"));
        };
        let (arguments, options) = with_options("exec", arguments.0)?;
        guarded(&cx, &cx.system().work_dir(), What::program(&command, arguments), &options).await?
    }

    /// Runs a program with arguments in a directory.
    ///
    /// ```harn
    /// println(exec_at("/", "pwd").stdout.trim()) // -> /
    /// ```
    Process async fn exec_at(cx, dir: MaybePath, command: MaybeText as "string", arguments: Rest as "text | process_limits") -> "dict" {
        let (Some(dir), Some(command)) = (dir.0, command.0) else {
            return Err(Error::thrown("exec_at: directory and command are required"));
        };
        let (arguments, options) = with_options("exec_at", arguments.0)?;
        guarded(&cx, &resolve(&cx, &dir), What::program(&command, arguments), &options).await?
    }

    /// Runs a command line in the default shell.
    ///
    /// Options are those of `exec`.
    ///
    /// ```harn
    /// println(shell("echo a | tr a b; exit 3").status) // -> 3
    /// ```
    Process async fn shell(cx, line: MaybeText as "string", options: Value as "process_limits?") -> "dict" {
        let Some(line) = line.0 else {
            return Err(Error::thrown("shell: command string is required"));
        };
        guarded(&cx, &cx.system().work_dir(), What::Line(line.to_string()), &Limits::of("shell", &options)?).await?
    }

    /// Runs a command line in the default shell in a directory.
    ///
    /// ```harn
    /// println(shell_at("/", "pwd").stdout.trim()) // -> /
    /// ```
    Process async fn shell_at(cx, dir: MaybePath, line: MaybeText as "string", options: Value as "process_limits?") -> "dict" {
        let Some(dir) = dir.0 else {
            return Err(Error::thrown("shell_at: directory and command string are required"));
        };
        let Some(line) = line.0 else {
            return Err(Error::thrown("shell_at: command string is required"));
        };
        guarded(&cx, &resolve(&cx, &dir), What::Line(line.to_string()), &Limits::of("shell_at", &options)?).await?
    }
}

/// Limits of a program: time, output, and whether it may run again.
struct Limits {
    timeout: Option<Duration>,
    max_output: u64,
    idempotent: bool,
    on_uncertain: Value,
}

impl Limits {
    /// Parses options.
    ///
    /// # Errors
    /// An unknown option, or an invalid value.
    fn of(builtin: &str, options: &Value) -> Result<Limits> {
        let mut limits = Limits {
            timeout: None,
            max_output: Command::MAX_OUTPUT,
            idempotent: false,
            on_uncertain: Value::NIL,
        };
        if options.is_nil() {
            return Ok(limits);
        }
        let Some(options) = options.to_dict() else {
            return Err(Error::type_error(format!(
                "{builtin}: options must be dict, got {}",
                options.type_name()
            )));
        };
        for (name, value) in options.iter() {
            let number = value.as_int().and_then(|n| u64::try_from(n).ok());
            match name.as_str() {
                _ if value.is_nil() => {}
                "timeout" => {
                    let ms = number.or_else(|| value.as_duration().and_then(|ms| u64::try_from(ms).ok()));
                    let wrong =
                        || Error::thrown(format!("{builtin}: timeout must be a duration or milliseconds"));
                    limits.timeout = Some(Duration::from_millis(ms.ok_or_else(wrong)?));
                }
                "max_output_bytes" => {
                    let wrong =
                        || Error::thrown(format!("{builtin}: max_output_bytes must be a positive int"));
                    limits.max_output = number.filter(|n| *n > 0).ok_or_else(wrong)?;
                }
                "idempotent" => {
                    let wrong = || Error::thrown(format!("{builtin}: idempotent must be true or false"));
                    limits.idempotent = value.as_bool().ok_or_else(wrong)?;
                }
                "on_uncertain" => limits.on_uncertain = value.clone(),
                // The table of builtins has no other options.
                _ => {}
            }
        }
        Doubts::read(&limits.idempotent.into(), &limits.on_uncertain)
            .map_err(|text| Error::thrown(format!("{builtin}: {text}")))?;
        Ok(limits)
    }

    /// Returns how to handle a program in doubt.
    fn uncertain(&self, cx: &Cx, builtin: &str) -> Result<Uncertain> {
        let word = Some(&self.on_uncertain).filter(|word| !word.is_nil());
        uncertain(cx, builtin, self.idempotent, word)
    }
}

/// Describes a program that was not found, and where it was searched.
fn sought(cx: &Cx, dir: &Path, program: &str) -> String {
    if cx.system().facts(dir).is_err() {
        return format!("no directory `{}`", dir.display());
    }
    if program.contains('/') || (cfg!(windows) && program.contains('\\')) {
        return format!("`{program}`");
    }
    let path = cx.system().env("PATH").unwrap_or_default();
    format!("`{program}` (searched in PATH: {})", harn_value::short(&Value::from(path), 200))
}

/// Splits the options off the end of the arguments.
fn with_options(builtin: &str, mut arguments: Vec<Value>) -> Result<(Vec<String>, Limits)> {
    let options = arguments.pop_if(|last| last.to_dict().is_some()).unwrap_or_default();
    let texts = arguments.iter().map(|value| printed(value).to_string()).collect();
    Ok((texts, Limits::of(builtin, &options)?))
}

/// The command to run.
enum What {
    /// A program and its arguments.
    Program(Vec<String>),
    /// A command line for the default shell.
    Line(String),
}

impl What {
    fn program(program: &str, arguments: Vec<String>) -> What {
        What::Program(std::iter::once(program.to_owned()).chain(arguments).collect())
    }

    async fn run(&self, cx: &Cx, dir: &Path, limits: &Limits) -> Result<Dict> {
        match self {
            What::Program(argv) => {
                let [program, arguments @ ..] = &argv[..] else {
                    return Err(Error::thrown("exec failed: argv is empty"));
                };
                run(cx, dir, program, arguments.to_vec(), limits, "exec failed").await
            }
            What::Line(line) => {
                let shell = default_shell_path(cx)?;
                run(cx, dir, &shell, line_arguments(&shell, line), limits, "shell failed").await
            }
        }
    }

    /// Returns the request for guards.
    fn request(&self, dir: &Path) -> Dict {
        let mut request = Dict::new();
        match self {
            What::Program(argv) => {
                request.insert("mode", "argv");
                request.insert("argv", argv.iter().map(|part| Value::str(part)).collect::<Vec<Value>>());
            }
            What::Line(line) => {
                request.insert("mode", "shell");
                request.insert("command", line.as_str());
            }
        }
        request.insert("cwd", dir.display().to_string());
        request
    }

    /// Returns the command of a request that a guard may have changed.
    fn of(request: &Dict) -> What {
        let line = request.get_str("command").filter(|line| !line.is_nil());
        let argv = request.get_str("argv").and_then(Value::as_list);
        match (line, argv) {
            (Some(line), _) => What::Line(printed(line).to_string()),
            (None, argv) => What::Program(
                argv.into_iter().flat_map(|list| list.iter()).map(|part| printed(part).to_string()).collect(),
            ),
        }
    }
}

/// Runs a command through the guard, if there is one.
async fn guarded(cx: &Cx, dir: &Path, what: What, limits: &Limits) -> Result<Value> {
    let Some(guard) = guard(cx) else { return Ok(what.run(cx, dir, limits).await?.into()) };
    let run = Box::new(move |request: Ref<Dict>| -> Later<'_> {
        Box::pin(async move {
            let dir = request.get_str("cwd").map_or_else(|| dir.to_owned(), |dir| resolve(cx, &printed(dir)));
            Ok(What::of(&request).run(cx, &dir, limits).await?.into())
        })
    });
    guard.run(cx, Ref::new(what.request(dir)), run).await
}

/// Runs a program to completion. If the task is cancelled this future is dropped, which kills the program and its
/// children.
async fn run(
    cx: &Cx,
    dir: &Path,
    program: &str,
    arguments: Vec<String>,
    limits: &Limits,
    failure: &str,
) -> Result<Dict> {
    let system = cx.system();
    // Converting the output needs memory for it twice, as bytes and as text.
    let room = (memory::left() / 2) as u64;
    // On a shared terminal, earlier output must appear before that of the program.
    let _ = system.flush();
    let named = program.to_owned();
    let command = Command {
        arguments,
        dir: Some(dir.to_owned()),
        timeout: limits.timeout,
        max_output: limits.max_output.min(room),
        uncertain: limits.uncertain(cx, failure)?,
        ..Command::new(program)
    };
    let ran = system.run(command).await.map_err(|error| {
        let kind = error.kind();
        if kind == std::io::ErrorKind::FileTooLarge && room < limits.max_output {
            return memory::check(usize::MAX).err().map_or_else(|| Error::thrown(failure), Error::from);
        }
        let missing = if system.is_dir(dir) { Path::new(&named) } else { dir };
        failures::of_io(cx, &error, Some(missing), || match kind {
            std::io::ErrorKind::FileTooLarge => format!("{failure}: {error} (option max_output_bytes)"),
            std::io::ErrorKind::NotFound => {
                format!("{failure}: process spawn failed: {error}: {}", sought(cx, dir, &named))
            }
            _ => format!("{failure}: process spawn failed: {error}: `{named}`"),
        })
    })?;
    let timed_out = ran.timed_out;
    let mut outcome = outcome(ran);
    if limits.timeout.is_some() {
        outcome.insert("timed_out", timed_out);
    }
    Ok(outcome)
}

fn outcome(ran: Finished) -> Dict {
    // Valid UTF-8 is not copied.
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    };
    let mut dict = Dict::new();
    dict.insert("stdout", text(ran.stdout));
    dict.insert("stderr", text(ran.stderr));
    dict.insert("status", i64::from(ran.code.unwrap_or(-1)));
    if let Some(signal) = ran.signal {
        dict.insert("signal", i64::from(signal));
    }
    dict.insert("success", ran.code == Some(0));
    dict
}
