//! The operations `process.*` of the host: running programs with more control than `exec` provides.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use harn_system::{Command, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};

use super::dates::iso_millis;
use crate::args::printed;
use crate::places::{resolve, show};

/// The shell selected at run time.
#[derive(Default)]
struct Chosen(RefCell<Option<String>>);

fn failed(text: impl std::fmt::Display) -> Error {
    Error::runtime(format!("host_call process.exec{text}"))
}

/// `process.exec`: runs a program or a command line until it ends or times out.
pub(super) async fn exec(cx: &Cx, params: &Dict) -> Result<Dict> {
    let get = |name: &str| params.get_str(name).filter(|value| !value.is_nil());
    let argv = command_line(cx, params)?;
    let mut command = Command { arguments: argv[1..].to_vec(), ..Command::new(&*argv[0]) };
    command.dir = Some(get("cwd").map_or_else(|| cx.system().work_dir(), |dir| resolve(cx, &printed(dir))));
    if let Some(env) = get("env") {
        let Some(env) = env.to_dict() else { return Err(failed(" env must be a dict")) };
        command.clear_env =
            get("env_mode").is_none_or(|mode| mode.as_str().map(|m| m.as_str()) == Some("replace"));
        for (name, value) in env.iter() {
            let Some(value) = value.as_str() else {
                return Err(failed(format_args!(" env value for \"{name}\" must be a string")));
            };
            command.env.push((name.to_string(), Some(value.to_string())));
        }
    }
    let limit = get("timeout").or_else(|| get("timeout_ms"));
    let limit = limit.and_then(|t| t.as_int().or_else(|| t.as_duration()));
    command.timeout = limit.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    run(cx, command).await
}

/// Returns the program and its arguments.
fn command_line(cx: &Cx, params: &Dict) -> Result<Vec<String>> {
    let mode = params.get_str("mode").map_or_else(|| "shell".into(), printed);
    match mode.as_str() {
        "argv" => {
            let Some(argv) = params.get_str("argv").and_then(Value::as_list) else {
                return Err(failed(" missing argv"));
            };
            let argv: Vec<String> = argv.iter().map(|part| printed(part).to_string()).collect();
            match argv.first().map(String::as_str) {
                None => Err(failed(" argv must not be empty")),
                Some("") => Err(failed(" argv[0] must not be empty")),
                Some(_) => Ok(argv),
            }
        }
        "shell" => {
            let command = printed(required(params, "command")?);
            let shell = shell_of(cx, params)?;
            let mut argv = vec![shell.path];
            argv.extend(flags(&argv[0], params)?.into_iter().map(str::to_owned));
            argv.push(command.to_string());
            Ok(argv)
        }
        other => Err(failed(format_args!(" unsupported mode \"{other}\""))),
    }
}

/// Returns the flags with which Windows shells run a command line; `None` for shells that are compatible with `sh`.
fn windows_flags(shell: &str) -> Option<&'static [&'static str]> {
    let name = shell.rsplit(['/', '\\']).next().unwrap_or(shell).to_lowercase();
    match name.trim_end_matches(".exe") {
        "cmd" => Some(&["/d", "/s", "/c"]),
        "powershell" | "pwsh" => Some(&["-NoProfile", "-Command"]),
        _ => None,
    }
}

/// Returns the arguments with which a shell runs a command line.
pub(super) fn line_arguments(shell: &str, line: &str) -> Vec<String> {
    let flags = windows_flags(shell).unwrap_or(&["-c"]);
    flags.iter().copied().chain([line]).map(str::to_owned).collect()
}

fn flags(shell: &str, params: &Dict) -> Result<Vec<&'static str>> {
    let on = |name: &str| params.get_str(name).is_some_and(Value::truthy);
    if let Some(flags) = windows_flags(shell) {
        return match ["login", "interactive"].into_iter().find(|name| on(name)) {
            Some(name) => Err(failed(format_args!(": {shell} knows no `{name}`; leave it out"))),
            None => Ok(flags.to_vec()),
        };
    }
    let mut flags = Vec::new();
    if on("login") {
        flags.push("-l");
    }
    if on("interactive") {
        flags.push("-i");
    }
    flags.push("-c");
    Ok(flags)
}

async fn run(cx: &Cx, command: Command) -> Result<Dict> {
    let system = cx.system();
    let _ = system.flush();
    let started = system.now_ms();
    let ran = system.run(command).await;
    let ran =
        ran.map_err(|reason| cx.refusal(&reason).unwrap_or_else(|| failed(format_args!(": {reason}"))))?;
    let ended = system.now_ms();
    let timed_out = ran.timed_out;
    let pid = (ran.pid > 0).then_some(i64::from(ran.pid));
    let stdout = String::from_utf8_lossy(&ran.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    let code = i64::from(ran.code.unwrap_or(-1));
    let mut dict = Dict::new();
    dict.insert("command_id", format!("cmd-{}", pid.unwrap_or_default()));
    dict.insert("status", if timed_out { "timed_out" } else { "completed" });
    dict.insert("pid", pid);
    dict.insert("process_group_id", pid);
    dict.insert("handle_id", Value::NIL);
    dict.insert("started_at", iso_millis(started));
    dict.insert("ended_at", iso_millis(ended));
    dict.insert("duration_ms", ended - started);
    dict.insert("exit_code", code);
    dict.insert("exit_status", code);
    dict.insert("legacy_status", code);
    dict.insert("signal", ran.signal.map(i64::from));
    dict.insert("timed_out", timed_out);
    dict.insert("combined", format!("{stdout}{stderr}"));
    dict.insert("stdout", stdout);
    dict.insert("stderr", stderr);
    dict.insert("success", code == 0);
    Ok(dict)
}

/// A shell that can run command lines.
struct Shell {
    id: String,
    path: String,
    source: &'static str,
}

impl Shell {
    fn new(path: &str, source: &'static str) -> Shell {
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Shell { id: name.unwrap_or_else(|| path.to_owned()), path: path.to_owned(), source }
    }

    fn to_dict(&self, cx: &Cx) -> Dict {
        let arguments = |parts: &[&str]| Value::list(parts.iter().map(|part| Value::str(part)).collect());
        let mut dict = Dict::new();
        dict.insert("id", self.id.as_str());
        dict.insert("label", self.id.as_str());
        dict.insert("path", self.path.as_str());
        dict.insert("platform", super::env::platform_name(cx));
        dict.insert("available", cx.vm().system().is_file(Path::new(&self.path)));
        let windows = windows_flags(&self.path);
        dict.insert("supports_login", windows.is_none());
        dict.insert("supports_interactive", windows.is_none());
        dict.insert("default_args", arguments(windows.unwrap_or(&["-c"])));
        dict.insert("login_args", arguments(windows.unwrap_or(&["-l", "-c"])));
        dict.insert("source", self.source);
        dict
    }
}

/// Returns the shells of this machine in order of preference, each name once.
fn shells(cx: &Cx) -> Vec<Shell> {
    let mut found: Vec<Shell> = Vec::new();
    let mut add = |path: &str, source| {
        let shell = Shell::new(path, source);
        if cx.vm().system().is_file(Path::new(path)) && !found.iter().any(|known| known.id == shell.id) {
            found.push(shell);
        }
    };
    let windows = cx.system().platform().0 == "windows";
    // On Windows, `SHELL` is the path of a Unix shell.
    for name in ["HARN_DEFAULT_SHELL", if windows { "COMSPEC" } else { "SHELL" }] {
        if let Some(path) = cx.system().env(name) {
            add(&path, "environment");
        }
    }
    if windows {
        let root = cx.system().env("SystemRoot").unwrap_or_else(|| "C:\\Windows".to_owned());
        add(&format!("{root}\\System32\\cmd.exe"), "fallback");
        add(&format!("{root}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe"), "fallback");
        return found;
    }
    let listed = cx.vm().system().read_text(Path::new("/etc/shells"), 1 << 20).unwrap_or_default();
    listed.lines().map(str::trim).filter(|line| line.starts_with('/')).for_each(|path| add(path, "system"));
    ["/bin/zsh", "/bin/bash", "/usr/bin/bash", "/bin/sh"].into_iter().for_each(|path| add(path, "fallback"));
    found
}

fn default_shell(cx: &Cx) -> Result<Shell> {
    let chosen = cx.state::<Chosen>().0.borrow().clone();
    let mut shells = shells(cx);
    let place = chosen.and_then(|id| shells.iter().position(|shell| shell.id == id)).unwrap_or(0);
    if shells.is_empty() {
        return Err(Error::runtime("shell: no shell candidates available"));
    }
    Ok(shells.swap_remove(place))
}

/// Returns the path of the default shell.
pub(super) fn default_shell_path(cx: &Cx) -> Result<String> {
    default_shell(cx).map(|shell| shell.path)
}

fn by_id(cx: &Cx, id: &str) -> Result<Shell> {
    shells(cx)
        .into_iter()
        .find(|shell| shell.id == id)
        .ok_or_else(|| failed(format_args!(": unknown shell id \"{id}\"")))
}

/// Returns the shell in the parameters: by id, by path, or the default one.
fn shell_of(cx: &Cx, params: &Dict) -> Result<Shell> {
    if let Some(id) = params.get_str("shell_id").filter(|id| !id.is_nil()) {
        return by_id(cx, &printed(id));
    }
    match params.get_str("shell").filter(|shell| !shell.is_nil()) {
        None => default_shell(cx),
        Some(shell) => {
            let dict = shell.to_dict();
            let part = |name: &str| dict.as_ref().and_then(|d| d.get_str(name)).map(printed);
            match (part("path"), part("id")) {
                (Some(path), _) => Ok(Shell::new(&show(&resolve(cx, &path)), "parameter")),
                (None, Some(id)) => by_id(cx, &id),
                (None, None) => Err(failed(": shell mode requires `shell` or `shell_id`")),
            }
        }
    }
}

/// `process.list_shells`
pub(super) fn list_shells(cx: &Cx) -> Dict {
    let mut dict = Dict::new();
    let shells = shells(cx);
    dict.insert("default_shell_id", default_shell(cx).ok().map(|shell| shell.id));
    dict.insert("shells", shells.iter().map(|shell| shell.to_dict(cx).into()).collect::<Vec<Value>>());
    dict
}

/// `process.get_default_shell`
pub(super) fn get_default_shell(cx: &Cx) -> Result<Dict> {
    default_shell(cx).map(|shell| shell.to_dict(cx))
}

/// `process.set_default_shell`
pub(super) fn set_default_shell(cx: &Cx, params: &Dict) -> Result<Dict> {
    let shell = by_id(cx, &printed(required(params, "shell_id")?))?;
    *cx.state::<Chosen>().0.borrow_mut() = Some(shell.id.clone());
    Ok(shell.to_dict(cx))
}

/// `process.shell_invocation`: returns how a command line would be run.
pub(super) fn shell_invocation(cx: &Cx, params: &Dict) -> Result<Dict> {
    let command = printed(required(params, "command")?);
    let shell = shell_of(cx, params)?;
    let mut args: Vec<Value> = flags(&shell.path, params)?.into_iter().map(Value::str).collect();
    args.push(command.into());
    let mut dict = Dict::new();
    dict.insert("program", shell.path.as_str());
    dict.insert("command_arg_index", args.len() - 1);
    dict.insert("args", args);
    dict.insert("shell", shell.to_dict(cx));
    Ok(dict)
}

/// Returns a required parameter.
pub(super) fn required<'a>(params: &'a Dict, name: &str) -> Result<&'a Value> {
    let given = params.get_str(name).filter(|value| !value.is_nil());
    given.ok_or_else(|| Error::thrown(format!("host_call: missing required parameter '{name}'")))
}

#[cfg(test)]
mod tests {
    use super::line_arguments;

    #[test]
    fn each_shell_is_told_of_a_line_in_its_own_way() {
        for (shell, flags) in [
            ("/bin/sh", "-c"),
            ("/usr/bin/cmder", "-c"),
            (r"C:\Windows\System32\cmd.exe", "/d /s /c"),
            ("CMD.EXE", "/d /s /c"),
            (r"C:\Program Files\PowerShell\7\pwsh.exe", "-NoProfile -Command"),
        ] {
            assert_eq!(line_arguments(shell, "dir").join(" "), format!("{flags} dir"), "{shell}");
        }
    }
}
