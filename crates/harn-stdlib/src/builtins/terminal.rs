//! Standard error, standard input, terminal checks and colour.

use harn_system::Stream;
use harn_value::Value;
use harn_vm::builtin::{Rest, Text};
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::{Given, spaced};
use crate::state::{ColorMode, MockInput, State};

builtins! {
    /// Standard error, standard input and terminal checks.
    pub(crate) static TERMINAL: "terminal";

    /// Writes the printed forms of all arguments, separated by spaces, to standard error.
    ///
    /// ```harn
    /// capture_stderr_start()
    /// eprint("warn")
    /// println(capture_stderr_take()) // -> warn
    /// ```
    Output fn eprint(cx, values: Rest) -> "nil" {
        write_error(cx, &spaced(&values.0));
    }

    /// Writes the printed forms of all arguments, separated by spaces, and a newline to standard error.
    ///
    /// ```harn
    /// capture_stderr_start()
    /// eprintln([1])
    /// print(capture_stderr_take()) // -> [1]
    /// ```
    Output fn eprintln(cx, values: Rest) -> "nil" {
        write_error(cx, &format!("{}\n", spaced(&values.0)));
    }

    /// Redirects the output of `eprint` and `eprintln` to an empty buffer.
    ///
    /// ```harn
    /// capture_stderr_start()
    /// eprint("a")
    /// eprint("b")
    /// println(capture_stderr_take()) // -> ab
    /// ```
    State fn capture_stderr_start(cx) -> "nil" {
        *cx.state::<State>().captured_errors.borrow_mut() = Some(String::new());
    }

    /// Returns the output captured since `capture_stderr_start`, and stops capturing.
    ///
    /// ```harn
    /// println(capture_stderr_take() == "") // -> true
    /// ```
    State fn capture_stderr_take(cx) -> "string" {
        cx.state::<State>().captured_errors.borrow_mut().take().unwrap_or_default()
    }

    /// Reads the rest of standard input.
    ///
    /// Input that is not UTF-8 is an error.
    ///
    /// ```harn
    /// mock_stdin("a\nb")
    /// read_line()
    /// println(read_stdin()) // -> b
    /// ```
    Human async fn read_stdin(cx) -> "string | nil" {
        let mocked = cx.state::<State>().mock_input.borrow_mut().as_mut().map(|mock| {
            let rest = mock.text[mock.at..].to_owned();
            mock.at = mock.text.len();
            rest
        });
        match mocked {
            Some(rest) => Some(rest),
            None => Some(cx.wait(cx.system().read_input()).await?.map_err(|error| unreadable("read_stdin", &error))?),
        }
    }

    /// Reads the next line of standard input without its line ending; nil at the end.
    ///
    /// Other tasks run while it waits. A deadline or Ctrl-C ends the wait; input that was already received is not
    /// lost.
    ///
    /// ```harn
    /// mock_stdin("a\r\nb")
    /// println([read_line(), read_line(), read_line()]) // -> [a, b, nil]
    /// ```
    Human async fn read_line(cx) -> "string | nil" {
        next_line(&cx, "read_line").await?
    }

    /// Replaces standard input by a string, until `unmock_stdin`.
    ///
    /// ```harn
    /// mock_stdin("x\n")
    /// println(read_line()) // -> x
    /// ```
    State fn mock_stdin(cx, text: Text as "string") -> "nil" {
        *cx.state::<State>().mock_input.borrow_mut() = Some(MockInput { text: text.to_string(), at: 0 });
    }

    /// Restores the real standard input.
    ///
    /// ```harn
    /// mock_stdin("x")
    /// println(unmock_stdin()) // -> nil
    /// ```
    State fn unmock_stdin(cx) -> "nil" {
        *cx.state::<State>().mock_input.borrow_mut() = None;
    }

    /// Returns whether standard input is a terminal.
    ///
    /// ```harn
    /// mock_tty("stdin", true)
    /// println(is_stdin_tty()) // -> true
    /// ```
    Env fn is_stdin_tty(cx) -> "bool" {
        is_terminal(cx, 0)
    }

    /// Returns whether standard output is a terminal.
    ///
    /// ```harn
    /// mock_tty("stdout", false)
    /// println(is_stdout_tty()) // -> false
    /// ```
    Env fn is_stdout_tty(cx) -> "bool" {
        is_terminal(cx, 1)
    }

    /// Returns whether standard error is a terminal.
    ///
    /// ```harn
    /// mock_tty("stderr", true)
    /// println(is_stderr_tty()) // -> true
    /// ```
    Env fn is_stderr_tty(cx) -> "bool" {
        is_terminal(cx, 2)
    }

    /// Sets the result of the terminal check of `"stdin"`, `"stdout"` or `"stderr"`.
    ///
    /// ```harn
    /// mock_tty("stdout", true)
    /// println(is_stdout_tty()) // -> true
    /// ```
    State fn mock_tty(cx, stream: Text as "string", answer: Value as "bool") -> "nil" {
        let Some(at) = ["stdin", "stdout", "stderr"].iter().position(|name| *name == &*stream) else {
            return Err(Error::thrown(format!(
                "mock_tty: invalid stream '{}'. Expected 'stdin', 'stdout', or 'stderr'.",
                &*stream
            )));
        };
        let state = cx.state::<State>();
        let mut answers = state.mock_tty.get();
        answers[at] = Some(answer.truthy());
        state.mock_tty.set(answers);
    }

    /// Removes the results set with `mock_tty`.
    ///
    /// ```harn
    /// mock_tty("stdin", true)
    /// println(unmock_tty()) // -> nil
    /// ```
    State fn unmock_tty(cx) -> "nil" {
        cx.state::<State>().mock_tty.set([None; 3]);
    }
}

fn write_error(cx: &Cx, text: &str) {
    match &mut *cx.state::<State>().captured_errors.borrow_mut() {
        Some(captured) => captured.push_str(text),
        None => cx.system().write_err(text),
    }
}

/// Returns the next line of input, mocked or real.
pub(super) async fn next_line(cx: &Cx, builtin: &str) -> Result<Option<String>> {
    let mocked = cx.state::<State>().mock_input.borrow_mut().as_mut().map(MockInput::line);
    match mocked {
        Some(line) => Ok(line),
        None => cx.wait(cx.system().read_line()).await?.map_err(|error| unreadable(builtin, &error)),
    }
}

impl MockInput {
    fn line(&mut self) -> Option<String> {
        let rest = Some(&self.text[self.at..]).filter(|rest| !rest.is_empty())?;
        let (line, used) = match rest.find('\n') {
            Some(end) => (&rest[..end], end + 1),
            None => (rest, rest.len()),
        };
        let line = line.strip_suffix('\r').unwrap_or(line).to_owned();
        self.at += used;
        Some(line)
    }
}

/// Asks the user at the terminal; returns `None` if standard input is not a terminal or has ended.
///
/// # Errors
/// Standard input cannot be read.
pub async fn ask_terminal(cx: &Cx, question: &str) -> Result<Option<String>> {
    if !is_terminal(cx, 0) {
        return Ok(None);
    }
    let _ = cx.system().flush();
    write_error(cx, question);
    next_line(cx, "ask_user").await
}

/// Returns whether standard input is a terminal, so that the user can be asked.
pub fn has_terminal(cx: &Cx) -> bool {
    is_terminal(cx, 0)
}

/// Returns the error for input that cannot be read or is not valid UTF-8.
fn unreadable(builtin: &str, error: &std::io::Error) -> Error {
    Error::thrown(format!("{builtin}: cannot read standard input: {error}"))
}

fn is_terminal(cx: &Cx, stream: usize) -> bool {
    cx.state::<State>().mock_tty.get()[stream].unwrap_or_else(|| match stream {
        0 => cx.system().is_terminal(Stream::Input),
        1 => cx.system().is_terminal(Stream::Output),
        _ => cx.system().is_terminal(Stream::Error),
    })
}

builtins! {
    /// Colour of terminal output.
    pub(crate) static COLOR: "color";

    /// Wraps a string in the escape code of a colour, if colour is enabled.
    ///
    /// The names are black, red, green, yellow, blue, magenta, cyan, white, and each with the prefix
    /// `bright_`; `gray` is `bright_black`. An unknown name leaves the string unchanged.
    ///
    /// ```harn
    /// set_color_mode("never")
    /// println(color("alert", "red")) // -> alert
    /// ```
    Env fn color(cx, value: Text, name: Text) -> "string" {
        match color_code(&name) {
            Some(code) => paint(cx, &value, code),
            None => value.to_string(),
        }
    }

    /// Wraps a string in the escape code for bold, if colour is enabled.
    ///
    /// ```harn
    /// set_color_mode("always")
    /// println(len(bold("x"))) // -> 9
    /// ```
    Env fn bold(cx, value: Text) -> "string" {
        paint(cx, &value, 1)
    }

    /// Wraps a string in the escape code for dim, if colour is enabled.
    ///
    /// ```harn
    /// set_color_mode("never")
    /// println(dim("x")) // -> x
    /// ```
    Env fn dim(cx, value: Text) -> "string" {
        paint(cx, &value, 2)
    }

    /// Sets when colour is enabled: `"auto"`, `"always"` or `"never"`.
    ///
    /// In mode `auto`, the variable `FORCE_COLOR` enables it and `NO_COLOR` disables it; otherwise, it is enabled if
    /// standard output is a terminal.
    ///
    /// ```harn
    /// println(try { set_color_mode("on") }) // -> Result.Err(set_color_mode: invalid mode 'on'. Expected 'auto', 'always', or 'never'.)
    /// ```
    State fn set_color_mode(cx, mode: Given) -> "nil" {
        let mode = mode.or_nil();
        let new = match mode.as_str().map(|m| m.as_str()) {
            Some("auto") => ColorMode::Auto,
            Some("always") => ColorMode::Always,
            Some("never") => ColorMode::Never,
            _ => return Err(invalid_mode(&mode)),
        };
        cx.state::<State>().color_mode.set(new);
    }
}

fn invalid_mode(mode: &Value) -> Error {
    Error::thrown(format!("set_color_mode: invalid mode '{mode}'. Expected 'auto', 'always', or 'never'."))
}

fn color_code(name: &str) -> Option<u8> {
    const NAMES: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
    let place = |name: &str| NAMES.iter().position(|n| *n == name).map(|at| at as u8);
    match name {
        "gray" | "grey" => Some(90),
        _ => match name.strip_prefix("bright_") {
            Some(name) => Some(90 + place(name)?),
            None => Some(30 + place(name)?),
        },
    }
}

fn paint(cx: &Cx, text: &str, code: u8) -> String {
    if color_on(cx) { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn color_on(cx: &Cx) -> bool {
    match cx.state::<State>().color_mode.get() {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => {
            cx.system().env("FORCE_COLOR").is_some()
                || (cx.system().env("NO_COLOR").is_none() && is_terminal(cx, 1))
        }
    }
}
