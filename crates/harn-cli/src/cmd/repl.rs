//! `harn repl`: an interactive session, or the evaluation of standard input.

use std::io::{BufRead, Write};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use harn_system::{Real, Stream, System};
use harn_vm::block_on;

use crate::repl::editor::{self, Shared};
use crate::repl::input::{State, state};
use crate::repl::session::{Reply, Running, Session};
use crate::signal;

/// Runs the session. Returns the exit code.
pub(crate) fn repl() -> u8 {
    let running = Running::default();
    let watched = running.clone();
    signal::interrupt_on_signal(move || watched.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let outcome = if Real::new().is_terminal(Stream::Input) { interactive(running) } else { piped(running) };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", harn_syntax::error_line(&error.to_string()));
            1
        }
    }
}

/// Prints a reply. Returns the exit code if the session ends.
fn show(reply: Reply, failed: &mut bool) -> Option<u8> {
    match reply {
        // A closed pipe ends the session.
        Reply::Text(text) => write!(crate::out::Out, "{text}").is_err().then_some(0),
        Reply::Error(text) => {
            *failed = true;
            eprintln!("Error: {text}");
            None
        }
        Reply::Quit(code) => Some(code),
    }
}

/// Evaluates standard input to its end. Returns 1 if an input failed.
#[expect(clippy::disallowed_methods, reason = "lines as bytes: one that is no text must not end the session")]
fn piped(running: Running) -> std::io::Result<u8> {
    block_on(async {
        let mut session = Session::new(running, false);
        let mut failed = false;
        let mut input = String::new();
        let mut lines = std::io::stdin().lock().split(b'\n');
        loop {
            let line = lines.next().transpose()?;
            let ended = line.is_none();
            if let Some(line) = line {
                let Ok(line) = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(&line)) else {
                    failed = true;
                    eprintln!("Error: a line is not valid UTF-8 and was left out");
                    continue;
                };
                input.push_str(line);
                input.push('\n');
            }
            if !ended && !input.starts_with(':') && state(&input) == State::Incomplete {
                continue;
            }
            if let Some(code) = show(session.take(&std::mem::take(&mut input)).await, &mut failed) {
                session.end().await;
                return Ok(if code == 0 { u8::from(failed) } else { code });
            }
            if ended {
                session.end().await;
                return Ok(u8::from(failed));
            }
        }
    })?
}

/// Runs a session on a terminal. Lines are read on a separate thread, so that tasks continue while the prompt waits.
fn interactive(running: Running) -> std::io::Result<u8> {
    crate::out::write(concat!(
        "Harn REPL v",
        env!("CARGO_PKG_VERSION"),
        "\n:help lists the commands, Ctrl-D ends the session.\n"
    ));
    let known: Shared = Arc::new(Mutex::default());
    let (to_machine, mut inputs) = tokio::sync::mpsc::unbounded_channel::<String>();
    let (to_editor, done) = sync_channel::<()>(1);
    let shared = known.clone();
    let editor = std::thread::spawn(move || editor::read(shared, &to_machine, &done));
    let code = block_on(async {
        let mut session = Session::new(running, true);
        let mut failed = false;
        let code = loop {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = session.known();
            let Some(input) = inputs.recv().await else { break 0 };
            if let Some(code) = show(session.take(&input).await, &mut failed) {
                break code;
            }
            let _ = crate::out::Out.flush();
            if to_editor.send(()).is_err() {
                break 0;
            }
        };
        session.end().await;
        code
    })?;
    // The thread is not joined after `:quit`, because the editor would wait for an answer that never arrives.
    drop(to_editor);
    if let Ok(Err(error)) = editor.join() {
        return Err(std::io::Error::other(error));
    }
    crate::out::write("Goodbye!\n");
    Ok(code)
}
