//! SIGINT and SIGTERM: a thread waits for them and asks the running program to stop.

use harn_vm::Interrupt;

/// Exit code of a program stopped by a signal.
pub(crate) const STOPPED: u8 = 124;

/// Longest time that a program may take to stop.
#[cfg(unix)]
const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// Stops a program run by `harn run`: prints a line, lets cleanup run for two seconds, then ends the process.
#[cfg(unix)]
pub(crate) fn stop_on_signal(interrupt: Interrupt) {
    watch(move |count, _| {
        if count > 1 {
            // Asked twice: no more patience.
            std::process::exit(i32::from(STOPPED));
        }
        eprintln!("[harn] signal received, flushing state...");
        interrupt.interrupt();
        std::thread::spawn(|| {
            std::thread::sleep(GRACE);
            std::process::exit(i32::from(STOPPED));
        });
    });
}

/// Stops the evaluation that runs, and lets the process live: Ctrl-C in the REPL. SIGTERM, and SIGINT while nothing
/// runs, end the process.
#[cfg(unix)]
pub(crate) fn interrupt_on_signal(current: impl Fn() -> Option<Interrupt> + Send + 'static) {
    watch(move |_, signal| match current() {
        Some(interrupt) if signal == signal_hook::consts::SIGINT => interrupt.interrupt(),
        _ => std::process::exit(i32::from(STOPPED)),
    });
}

/// Calls a function for each signal, with its count from 1 and its number. If signals cannot be watched the system's default stays.
#[cfg(unix)]
fn watch(on_signal: impl Fn(usize, i32) + Send + 'static) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    let _ = std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            on_signal(count + 1, signal);
        }
    });
}

/// Elsewhere the system's own handling stays.
#[cfg(not(unix))]
pub(crate) fn stop_on_signal(_interrupt: Interrupt) {}

/// Elsewhere the system's own handling stays.
#[cfg(not(unix))]
pub(crate) fn interrupt_on_signal(_current: impl Fn() -> Option<Interrupt> + Send + 'static) {}
