//! Unix signals.

use super::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Calls a function on a new thread with the number of each signal.
pub(super) fn each(mut on_signal: impl FnMut(i32) + Send + 'static) {
    let mut wanted = vec![SIGINT, SIGTERM, SIGQUIT];
    if !is_ignored(SIGHUP) {
        // With `nohup`, a program continues after its terminal is closed.
        wanted.push(SIGHUP);
    }
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    let _ = std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        for signal in signals.forever() {
            on_signal(signal);
        }
    });
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action nothing changes; the old one is written to memory of its type.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: all zeros are a valid value of the type, and a successful call has written one.
    asked == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}
