//! Polls standard input for readiness.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns standard input without the buffer of the standard library, whose content cannot be polled.
pub(super) fn source() -> Box<dyn Read + Send> {
    use std::os::fd::AsFd;
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(input) => Box::new(std::fs::File::from(input)),
        Err(_) => Box::new(io::stdin()),
    }
}

/// Returns whether a read of standard input does not block.
pub(super) fn is_ready() -> bool {
    look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
}

/// Waits until standard input can be read, at most for `time`.
fn look(time: Option<&Timespec>) -> bool {
    let input = io::stdin();
    // Input that cannot be polled is read, because the read returns the error.
    poll(&mut [PollFd::new(&input, PollFlags::IN)], time)
        .map_or_else(|error| error != rustix::io::Errno::INTR, |ready| ready > 0)
}

/// The tasks that wait while a thread polls standard input. The thread consumes no input, so a wait may be dropped.
static WAITING: Mutex<Option<Vec<Waker>>> = Mutex::new(None);

/// Wakes `waker` when standard input can be read.
pub(super) fn watch(waker: &Waker) -> io::Result<()> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let wakers = match &mut *waiting {
        Some(wakers) => wakers,
        none => {
            let thread = std::thread::Builder::new().name("input".to_owned()).stack_size(64 << 10);
            thread.spawn(|| {
                while !look(None) {}
                let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
                waiting.into_iter().flatten().for_each(Waker::wake);
            })?;
            none.insert(Vec::new())
        }
    };
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
    Ok(())
}
