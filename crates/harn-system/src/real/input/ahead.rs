//! Reads input ahead in a thread, on systems where input cannot be polled. A chunk is read when a task waits for it; if
//! the wait is dropped, the chunk remains for the next one.

use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// The state of the thread.
#[derive(PartialEq)]
enum Doing {
    /// Waits for a request.
    Nothing,
    /// Reads.
    Reading,
    /// Has read a chunk; an empty one is the end of the input.
    Done(Vec<u8>),
    Failed(io::ErrorKind, String),
}

struct State {
    doing: Doing,
    wakers: Vec<Waker>,
    is_running: bool,
}

impl State {
    fn has_come(&self) -> bool {
        matches!(self.doing, Doing::Done(_) | Doing::Failed(..))
    }
}

/// Input that is read ahead.
#[derive(Clone)]
pub(super) struct Ahead(Arc<(Mutex<State>, Condvar)>);

impl Ahead {
    pub(super) fn new() -> Ahead {
        let state = State { doing: Doing::Nothing, wakers: Vec::new(), is_running: false };
        Ahead(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while a condition holds.
    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let wait = self.0.1.wait_while(self.state(), |state| condition(state));
        wait.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state().has_come()
    }

    /// Requests a chunk, unless one has been read or requested. `source` is called for the first request.
    pub(super) fn ask<R: Read>(
        &self,
        waker: Option<&Waker>,
        source: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state();
        if let Some(waker) = waker
            && !state.wakers.iter().any(|known| known.will_wake(waker))
        {
            state.wakers.push(waker.clone());
        }
        if state.doing == Doing::Nothing {
            if !state.is_running {
                let ahead = self.clone();
                let thread = std::thread::Builder::new().name("input".to_owned()).stack_size(256 << 10);
                thread.spawn(move || ahead.serve(source()))?;
                state.is_running = true;
            }
            state.doing = Doing::Reading;
            self.0.1.notify_all();
        } else if state.has_come() {
            // The chunk has arrived since the caller checked.
            state.wakers.drain(..).for_each(Waker::wake);
        }
        Ok(())
    }

    /// Reads a chunk for each request.
    fn serve(&self, mut source: impl Read) {
        let mut bytes = vec![0; PIECE];
        loop {
            drop(self.wait_while(|state| state.doing != Doing::Reading));
            let read = loop {
                match source.read(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            let mut state = self.state();
            state.doing = match read {
                Ok(read) => Doing::Done(bytes[..read].to_vec()),
                Err(error) => Doing::Failed(error.kind(), error.to_string()),
            };
            state.wakers.drain(..).for_each(Waker::wake);
            self.0.1.notify_all();
        }
    }

    /// Takes bytes from the chunk, or waits for it.
    pub(super) fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.wait_while(|state| state.doing == Doing::Reading);
        match std::mem::replace(&mut state.doing, Doing::Nothing) {
            Doing::Done(mut piece) => {
                let now = piece.len().min(buffer.len());
                buffer[..now].copy_from_slice(&piece[..now]);
                piece.drain(..now);
                if !piece.is_empty() {
                    state.doing = Doing::Done(piece);
                }
                Ok(now)
            }
            Doing::Failed(kind, text) => Err(io::Error::new(kind, text)),
            Doing::Nothing | Doing::Reading => Err(io::Error::other("nothing was asked for")),
        }
    }
}

#[cfg(windows)]
mod standard {
    use std::sync::LazyLock;

    use super::*;

    static INPUT: LazyLock<Ahead> = LazyLock::new(Ahead::new);

    struct Source;

    impl Read for Source {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            INPUT.ask(None, io::stdin)?;
            INPUT.take(buffer)
        }
    }

    /// Returns the standard input that the thread reads.
    pub(in super::super) fn source() -> Box<dyn Read + Send> {
        Box::new(Source)
    }

    /// Returns whether a read of standard input does not block.
    pub(in super::super) fn is_ready() -> bool {
        INPUT.is_ready()
    }

    /// Wakes `waker` when standard input can be read.
    pub(in super::super) fn watch(waker: &Waker) -> io::Result<()> {
        INPUT.ask(Some(waker), io::stdin)
    }
}

#[cfg(windows)]
pub(super) use standard::{is_ready, source, watch};

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::task::{Context, Poll};

    use super::*;

    /// A source that returns the strings and errors sent to it.
    struct Sent(mpsc::Receiver<io::Result<&'static str>>);

    impl Read for Sent {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Ok(text) = self.0.recv() else { return Ok(0) };
            let text = text?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    async fn more(input: &Ahead, from: &mut Option<Sent>) -> io::Result<String> {
        let mut buffer = [0; 4];
        poll_fn(|context: &mut Context<'_>| {
            if input.is_ready() {
                return Poll::Ready(());
            }
            let source = from.take();
            input.ask(Some(context.waker()), || source.expect("asked once")).expect("a thread");
            Poll::Pending
        })
        .await;
        let read = input.take(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
    }

    #[test]
    fn a_wait_that_is_dropped_loses_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (send, sent) = mpsc::channel();
        let input = Ahead::new();
        let mut from = Some(Sent(sent));
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = more(&input, &mut from) => panic!("nothing was sent"),
                () = tokio::task::yield_now() => {}
            }
            send.send(Ok("abcdef")).expect("it reads");
            assert_eq!(more(&input, &mut from).await.expect("text"), "abcd");
            assert_eq!(more(&input, &mut from).await.expect("text"), "ef");
            send.send(Err(io::Error::new(io::ErrorKind::PermissionDenied, "no"))).expect("it reads");
            assert_eq!(more(&input, &mut from).await.expect_err("no").to_string(), "no");
            drop(send);
            assert_eq!(more(&input, &mut from).await.expect("the end"), "");
            assert_eq!(more(&input, &mut from).await.expect("still"), "");
        });
    }

    #[test]
    fn a_thread_may_wait_for_it() {
        let (send, sent) = mpsc::channel();
        let input = Ahead::new();
        let other = input.clone();
        let waits = std::thread::spawn(move || {
            other.ask(None, || Sent(sent)).expect("a thread");
            let mut buffer = [0; 8];
            let read = other.take(&mut buffer).expect("text");
            buffer[..read].to_vec()
        });
        send.send(Ok("line\n")).expect("it reads");
        assert_eq!(waits.join().expect("a thread"), b"line\n");
    }
}
