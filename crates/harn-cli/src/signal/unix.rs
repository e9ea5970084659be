//! Signals of Unix.

use super::{SIGINT, SIGTERM};

/// Calls a function in a thread of its own with the number of each signal.
pub(super) fn each(mut on_signal: impl FnMut(i32) + Send + 'static) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    let _ = std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        for signal in signals.forever() {
            on_signal(signal);
        }
    });
}
