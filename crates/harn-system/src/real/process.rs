//! Running programs. Each program gets its own process group, which is killed on timeout, on too much output, on
//! request, and when the future that runs it is dropped.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::os::{self, Group};
use crate::process::{Command, Finished};

/// How long the output may be silent after the program has ended before it is considered complete: a background process
/// keeps it open.
const QUIET: Duration = Duration::from_millis(20);

/// Maximum number of bytes per read.
const CHUNK: usize = 64 << 10;

/// Prepares a command for [`Group::start`].
pub(super) fn prepared(command: &Command) -> tokio::process::Command {
    let mut prepared = tokio::process::Command::new(&command.program);
    prepared.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    os::arguments(&mut prepared, &command.program, &command.arguments);
    if let Some(dir) = &command.dir {
        prepared.current_dir(dir);
    }
    if command.clear_env {
        prepared.env_clear();
    }
    for (name, value) in &command.env {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    prepared
}

/// Runs a program to completion and collects its output.
///
/// # Errors
/// The error of the system if the program cannot be started; `the output is larger than N bytes`.
pub async fn run(command: Command) -> io::Result<Finished> {
    supervise(command, None, std::future::pending(), std::future::pending(), None::<fn(Source, &[u8])>).await
}

/// The stream of an output chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Runs a program to completion, or until `stop` is ready, which kills it and its child processes. When `ask` is ready,
/// the program receives SIGTERM (on Unix) and may continue. Its output is streamed to `told` and not stored: the
/// streams of [`Finished`] are empty, and `max_output` is ignored. With `feed`, its standard input stays open until the
/// sender is dropped.
///
/// # Errors
/// The error of the system if the program cannot be started.
pub async fn run_told(
    command: Command,
    feed: Option<UnboundedReceiver<Vec<u8>>>,
    ask: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
    told: impl FnMut(Source, &[u8]),
) -> io::Result<Finished> {
    supervise(command, feed, ask, stop, Some(told)).await
}

async fn supervise(
    command: Command,
    feed: Option<UnboundedReceiver<Vec<u8>>>,
    ask: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
    mut told: Option<impl FnMut(Source, &[u8])>,
) -> io::Result<Finished> {
    let mut prepared = prepared(&command);
    let mut fed = command.input.is_empty() && feed.is_none();
    prepared.stdin(if fed { Stdio::null() } else { Stdio::piped() });
    let (mut child, mut group) = Group::start(&mut prepared)?;
    let pid = child.id().unwrap_or_default();
    let mut out = Stream::new(child.stdout.take());
    let mut err = Stream::new(child.stderr.take());
    let stdin = child.stdin.take();
    let input = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input is not an error.
            let _ = stdin.write_all(&command.input).await;
            if let Some(mut feed) = feed {
                while let Some(bytes) = feed.recv().await {
                    if stdin.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
            }
        }
    };
    let mut input = std::pin::pin!(input);
    let mut timer = std::pin::pin!(tokio::time::sleep(command.timeout.unwrap_or_default()));
    let mut timed = command.timeout.is_some();
    let mut ask = std::pin::pin!(ask);
    let mut stop = std::pin::pin!(stop);
    let (mut asked, mut stopped) = (false, false);
    let mut finished = Finished { pid, ..Finished::default() };
    let mut ended = false;
    while !ended || out.is_open() || err.is_open() {
        tokio::select! {
            biased;
            read = out.next(), if out.is_open() => {
                read?;
                out.tell(told.as_mut().map(|told| |piece: &[u8]| told(Source::Out, piece)));
            }
            read = err.next(), if err.is_open() => {
                read?;
                err.tell(told.as_mut().map(|told| |piece: &[u8]| told(Source::Err, piece)));
            }
            status = child.wait(), if !ended => {
                let status = status?;
                (finished.code, finished.signal) = (status.code(), os::signal(status));
                ended = true;
                group.forget();
            }
            () = &mut input, if !fed => fed = true,
            () = &mut timer, if timed && !ended => {
                timed = false;
                finished.timed_out = true;
                group.end();
            }
            () = &mut ask, if !asked && !ended => {
                asked = true;
                group.ask();
            }
            () = &mut stop, if !stopped && !ended => {
                stopped = true;
                group.end();
            }
            () = tokio::time::sleep(QUIET), if ended => break,
        }
        if (out.len + err.len) as u64 > command.max_output {
            let text = format!("the output is larger than {} bytes", command.max_output);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
    }
    (finished.stdout, finished.stderr) = (out.whole(), err.whole());
    Ok(finished)
}

/// An output stream and its content.
struct Stream<R> {
    from: Option<R>,
    /// In chunks: growing one buffer would need twice its size.
    pieces: VecDeque<Vec<u8>>,
    len: usize,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(from: Option<R>) -> Stream<R> {
        Stream { from, pieces: VecDeque::new(), len: 0 }
    }

    fn is_open(&self) -> bool {
        self.from.is_some()
    }

    /// Reads available bytes. This is cancel safe.
    async fn next(&mut self) -> io::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        if self.pieces.back().is_none_or(|piece| piece.len() == piece.capacity()) {
            self.pieces.push_back(Vec::with_capacity(CHUNK.min(self.len.max(8192))));
        }
        let Some(piece) = self.pieces.back_mut() else { return Ok(()) };
        let read = from.read_buf(piece).await?;
        self.len += read;
        if read == 0 {
            self.from = None;
        }
        Ok(())
    }

    /// Passes the chunk to the callback, if there is one, and discards it.
    fn tell(&mut self, told: Option<impl FnMut(&[u8])>) {
        if let (Some(mut told), Some(piece)) = (told, self.pieces.back_mut()) {
            told(piece);
            piece.clear();
            self.len = 0;
        }
    }

    /// Returns the collected content.
    fn whole(mut self) -> Vec<u8> {
        let mut out = self.pieces.pop_front().unwrap_or_default();
        out.reserve_exact(self.len - out.len());
        while let Some(piece) = self.pieces.pop_front() {
            out.extend_from_slice(&piece);
        }
        out
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Pid, Signal};

    use super::*;

    fn shell(line: &str) -> Command {
        Command { arguments: vec!["-c".to_owned(), line.to_owned()], ..Command::new("sh") }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(future)
    }

    /// Returns whether a process runs; zombies do not.
    fn runs(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    fn gone(pid: &str) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !runs(pid)
        })
    }

    #[test]
    fn output_code_and_signal() {
        let ran = block_on(run(shell("echo out; echo err >&2; exit 3"))).expect("runs");
        assert_eq!((ran.code, ran.signal), (Some(3), None));
        assert_eq!(
            (ran.stdout.as_slice(), ran.stderr.as_slice()),
            (b"out\n".as_slice(), b"err\n".as_slice())
        );
        assert_eq!(block_on(run(shell("kill -TERM $$"))).expect("runs").signal, Some(15));
        assert!(block_on(run(Command::new("/no/such/program"))).is_err());
        let echoed = Command { input: vec![b'x'; 1 << 20], ..Command::new("cat") };
        assert_eq!(block_on(run(echoed)).expect("runs").stdout.len(), 1 << 20);
    }

    #[test]
    fn the_environment_is_what_was_said() {
        let mut command = shell("echo \"$A-$B\"");
        command.env = vec![("A".to_owned(), Some("1".to_owned())), ("B".to_owned(), None)];
        assert_eq!(block_on(run(command)).expect("runs").stdout, b"1-\n");
    }

    #[test]
    fn a_timeout_ends_the_children_too() {
        let mut command = shell("sleep 1000 & echo $!; wait");
        command.timeout = Some(Duration::from_millis(300));
        let ran = block_on(run(command)).expect("runs");
        assert!(ran.timed_out);
        assert!(gone(String::from_utf8_lossy(&ran.stdout).trim()));
    }

    #[test]
    fn dropping_the_future_ends_the_children_too() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let note = folder.path().join("pid");
        let line = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", note.display());
        block_on(async {
            tokio::select! {
                biased;
                _ = run(shell(&line)) => panic!("it sleeps"),
                () = async { while !note.exists() { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
            }
        });
        assert!(gone(std::fs::read_to_string(&note).expect("a number").trim()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_in_a_group_of_its_own_ends_too() {
        // As in a shell with job control, where each job has its own process group.
        let mut command = shell("set -m; sh -c 'set -m; sleep 1000 & echo $!; wait' & wait");
        command.timeout = Some(Duration::from_millis(500));
        let ran = block_on(run(command)).expect("runs");
        assert!(ran.timed_out);
        assert!(gone(String::from_utf8_lossy(&ran.stdout).trim()));
    }

    #[test]
    fn one_that_is_stopped_has_told_all() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut command = shell("echo out; echo err >&2; head -c 200000 /dev/zero; sleep 1000");
        command.max_output = 10;
        let stop = tokio::sync::Notify::new();
        let ran =
            block_on(run_told(command, None, std::future::pending(), stop.notified(), |source, piece| {
                match source {
                    Source::Out => out.extend_from_slice(piece),
                    Source::Err => err.extend_from_slice(piece),
                }
                if out.len() == 4 + 200_000 && !err.is_empty() {
                    stop.notify_one();
                }
            }));
        let ran = ran.expect("runs");
        assert_eq!((ran.signal, ran.stdout.len(), ran.timed_out), (Some(9), 0, false));
        assert_eq!((&out[..4], err.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    }

    #[test]
    fn one_that_is_asked_ends_by_itself() {
        let command = shell("trap 'echo asked; exit 7' TERM; echo ready; while true; do sleep 0.05; done");
        let (mut out, ask) = (Vec::new(), tokio::sync::Notify::new());
        let ran = block_on(run_told(command, None, ask.notified(), std::future::pending(), |_, piece| {
            out.extend_from_slice(piece);
            ask.notify_one();
        }));
        assert_eq!((ran.expect("runs").code, out.as_slice()), (Some(7), b"ready\nasked\n".as_slice()));
    }

    #[test]
    fn a_process_in_the_background_is_not_waited_for() {
        let ran = block_on(run(shell("sleep 1000 & echo $!"))).expect("runs");
        let pid = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        assert!(runs(&pid));
        let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a number");
        rustix::process::kill_process(pid, Signal::KILL).expect("it ran");
    }

    #[test]
    fn too_much_output_is_an_error() {
        let mut command = shell("yes");
        command.max_output = 100_000;
        let error = block_on(run(command)).expect_err("too much");
        assert_eq!(error.to_string(), "the output is larger than 100000 bytes");
    }
}
