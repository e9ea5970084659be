//! The REPL on a terminal: typed, pasted and sent input, and a history file that is not a regular file.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::common::{command, folder};

/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session, and its output so far.
struct Session {
    child: Child,
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Session {
    /// Starts a session and waits for its prompt.
    fn start(home: &Path) -> Session {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = || Stdio::from(ioctl_tiocgptpeer(&ours, flags).unwrap());
        let mut harn = command(&["repl"]);
        harn.current_dir(home).env("HOME", home).env("TERM", "xterm").env_remove("NO_COLOR");
        let child = harn.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
        // The command has the other ends open; they must close with the session.
        drop(harn);
        let keys = File::from(ours);
        let (mut screen, shown) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = shown.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        let session = Session { child, keys, shown };
        session.wait_for("harn> ");
        session
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, text: &str) {
        self.wait_for_times(text, 1);
    }

    fn wait_for_times(&self, text: &str, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.text().matches(text).count() < count {
            let shown = self.text();
            assert!(Instant::now() < end, "`{text}` does not come {count} times; the screen shows {shown:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for a number of prompts: before each one the session enables bracketed paste.
    fn wait_for_prompts(&self, count: usize) {
        self.wait_for_times("\u{1b}[?2004h", count);
    }

    /// Ends a session. Returns its exit code.
    fn leave(&mut self) -> Option<i32> {
        self.press(b"exit\r");
        self.end()
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// Types a line and waits for `answer`, which must not have appeared before.
    fn line(&mut self, line: &str, answer: &str) {
        self.press(line.as_bytes());
        self.press(b"\r");
        self.wait_for(answer);
    }

    /// Sends Ctrl-C during an evaluation, which the terminal converts to a signal.
    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Waits for the end. Returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        panic!("the session does not end; the screen shows {:?}", self.text());
    }
}

#[test]
fn a_session_survives_bytes_and_interruptions() {
    let home = folder(&[]);
    let mut session = Session::start(home.path());
    session.press(b"1 + \xff\xc3\x28");
    session.press(b"\r");
    // The line is discarded, with the input that arrived with it; there is a new prompt.
    session.wait_for_prompts(2);
    session.line("40 + 2", "42");
    // Lines sent in advance are evaluated one after the other.
    session.line("println(\"one \" + \"by one\")\rprintln(\"two \" + \"by two\")", "two by two");
    assert!(session.text().contains("one by one"));
    for (number, work) in ["while true { }", "sleep(1h)", "read_line()"].iter().enumerate() {
        let words = format!("println(\"begun \" + \"{number}\")");
        session.line(&format!("if true {{\r{words}\r{work}\r}}"), &format!("begun {number}"));
        session.interrupt();
        // Input typed before may be read by the program.
        session.wait_for_times("Error: interrupted", number + 1);
        session.line(&format!("\"still\" + \" here {number}\""), &format!("still here {number}"));
    }
    assert_eq!(session.leave(), Some(0), "{:?}", session.text());
}

#[test]
fn cleanup_without_end_does_not_hold_the_session() {
    let home = folder(&[]);
    let mut session = Session::start(home.path());
    let deaf =
        "while true { try { while true { } } finally { println(\"so \" + \"what\")\rwhile true { } } }";
    session.line(&format!("if true {{\rprintln(\"be\" + \"gun\")\r{deaf}\r}}"), "begun");
    session.interrupt();
    session.wait_for("so what");
    session.wait_for("Error: interrupted");
    session.line("40 + 2", "42");
    assert_eq!(session.leave(), Some(0), "{:?}", session.text());
}

#[test]
fn a_history_that_is_no_file_is_left_alone() {
    for make in ["mkfifo .harn/repl_history", "ln -s /dev/zero .harn/repl_history"] {
        let home = folder(&[(".harn/other", "")]);
        let made = Command::new("sh").args(["-c", make]).current_dir(home.path()).status().unwrap();
        assert!(made.success());
        let mut session = Session::start(home.path());
        session.line("40 + 2", "42");
        assert_eq!(session.leave(), Some(0), "{make}: {:?}", session.text());
    }
}

/// A line is not redrawn completely for each of its characters.
#[test]
fn a_long_line_is_drawn_in_proportion_to_its_length() {
    let home = folder(&[]);
    let mut session = Session::start(home.path());
    let line = format!("\"{}\".len() + 1", "x".repeat(20_000));
    session.line(&line, "20001");
    let drawn = session.shown.lock().unwrap().len();
    assert!(drawn < 500 * line.len(), "{drawn} bytes were written for a line of {}", line.len());
}
