//! `harn resume --jobs`: executes the runs that a worker lists on standard input, one after the other.
//!
//! Each run executes on its own thread, with the memory limit and the state of a new process. The store stays open.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use harn_store::Store;

use super::durable::{execute, failed, store};
use crate::{limits, out, signal};

/// Stack size of a run: that of a process's main thread.
const STACK: usize = 8 << 20;

/// The marker that a process writes after a run. Only the worker knows its token.
#[derive(Clone)]
pub(crate) struct Mark(String);

impl Mark {
    pub(super) fn new(token: String) -> Mark {
        Mark(token)
    }

    pub(super) fn token(&self) -> &str {
        &self.0
    }

    /// Returns the prefix of each marker.
    pub(super) fn prefix(&self) -> Vec<u8> {
        format!("\u{1e}{} ", self.0).into_bytes()
    }

    /// Returns the marker for a run that ended with exit code `code`.
    pub(super) fn line(&self, code: i32) -> String {
        format!("\u{1e}{} {code}\n", self.0)
    }
}

/// A run, as listed by the worker.
pub(super) struct Job {
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) lease_ms: i64,
}

impl Job {
    pub(super) fn line(&self) -> String {
        format!("{} {} {}\n", self.id, self.epoch, self.lease_ms)
    }

    fn parse(line: &str) -> Option<Job> {
        let mut parts = line.split_whitespace();
        let id = parts.next()?.to_owned();
        let job = Job { id, epoch: parts.next()?.parse().ok()?, lease_ms: parts.next()?.parse().ok()? };
        parts.next().is_none().then_some(job)
    }
}

/// Executes runs until standard input ends or a signal drains this process.
pub(crate) fn serve(token: &str) -> u8 {
    let mark = Mark::new(token.to_owned());
    let opened = take_input().and_then(|input| Ok((input, store()?)));
    let (input, store) = match opened {
        Ok(opened) => opened,
        Err(text) => return failed(&text),
    };
    for line in BufReader::new(input).lines() {
        let Ok(line) = line else { break };
        let Some(job) = Job::parse(&line) else { return failed("expected ID EPOCH MILLISECONDS") };
        let Some(code) = in_thread(&store, job) else {
            // The run panicked. The state of this process is no longer trusted.
            return 101;
        };
        let line = mark.line(i32::from(out::settle(code)));
        out::write(&line);
        out::settle(0);
        let _ = std::io::stderr().write_all(line.as_bytes());
        if signal::has_come() {
            break;
        }
    }
    0
}

/// Executes a run on a new thread.
fn in_thread(store: &Arc<dyn Store>, job: Job) -> Option<u8> {
    let store = Arc::clone(store);
    let run = move || {
        limits::limit_memory();
        execute(&store, &job.id, job.epoch, job.lease_ms)
    };
    let thread = std::thread::Builder::new().name("run".to_owned()).stack_size(STACK).spawn(run);
    thread.ok()?.join().ok()
}

/// Takes over standard input. Programs read an empty one, as in their own process.
#[cfg(unix)]
fn take_input() -> Result<std::io::PipeReader, String> {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let wrong = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    // SAFETY: the calls receive descriptors by number and a NUL-terminated string. Nothing has read standard input yet.
    // The returned reader owns the copy.
    unsafe {
        let input = libc::fcntl(libc::STDIN_FILENO, libc::F_DUPFD_CLOEXEC, 3);
        if input < 0 {
            return Err(wrong("cannot copy the standard input"));
        }
        let input = OwnedFd::from_raw_fd(input);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if null < 0 || libc::dup2(null, libc::STDIN_FILENO) < 0 {
            return Err(wrong("cannot open /dev/null"));
        }
        libc::close(null);
        Ok(input.into())
    }
}

/// On other systems each process executes one run, with `--lease`.
#[cfg(not(unix))]
fn take_input() -> Result<std::io::Empty, String> {
    Err("--jobs requires Unix".to_owned())
}
