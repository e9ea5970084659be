//! SIGINT, SIGTERM, SIGHUP and SIGQUIT, and the equivalent events on Windows: a thread waits for them and interrupts
//! the running program.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use harn_vm::Interrupt;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The running program. A process may run several programs, one after the other.
static RUNNING: Mutex<Option<Interrupt>> = Mutex::new(None);

/// Drains the run that a worker started.
static DRAIN: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Whether SIGTERM was received: a program that starts afterwards is drained, too.
static DRAINS: AtomicBool = AtomicBool::new(false);

/// Ensures that the signal handler is installed once, for the first program.
static WATCHED: Once = Once::new();

/// Whether a signal was received.
static HAS_COME: AtomicBool = AtomicBool::new(false);

/// Maximum time that a program may take to stop.
const GRACE: std::time::Duration = std::time::Duration::from_millis(750);

/// Exit code after Ctrl-C, by the shell's rule: 128 plus the signal number.
const INTERRUPTED: u8 = 130;

/// The number of SIGINT, which Ctrl-C sends.
const SIGINT: i32 = 2;

/// The number of SIGTERM. On Windows it represents Ctrl-Break and a closed window.
const SIGTERM: i32 = 15;

/// The number of SIGHUP: the terminal was closed.
#[cfg(unix)]
const SIGHUP: i32 = 1;

/// The number of SIGQUIT, which Ctrl-\ sends.
#[cfg(unix)]
const SIGQUIT: i32 = 3;

/// The exit code for the last signal.
static CODE: AtomicU8 = AtomicU8::new(INTERRUPTED);

/// Returns the exit code of a program stopped by a signal: 130 for SIGINT (Ctrl-C), 143 for SIGTERM, 129 for SIGHUP,
/// 131 for SIGQUIT.
pub(crate) fn exit_code() -> u8 {
    CODE.load(Ordering::Relaxed)
}

/// Whether a signal was received. Then a process that executes runs starts no further one.
pub(crate) fn has_come() -> bool {
    HAS_COME.load(Ordering::SeqCst)
}

/// Ends the process immediately.
fn end() -> ! {
    std::process::exit(i32::from(exit_code()))
}

/// Interrupts a program run by `harn run` at a signal: prints a line, allows 750 ms for cleanup, then ends the process.
/// A second signal ends it immediately.
pub(crate) fn stop_on_signal(interrupt: Interrupt) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupt);
    WATCHED.call_once(watch_programs);
}

/// From now on, SIGTERM drains the run of a worker. The other signals stop it.
pub(crate) fn drain_on_sigterm(drain: impl Fn() + Send + 'static) {
    if DRAINS.load(Ordering::SeqCst) {
        drain();
    }
    *DRAIN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(drain));
    WATCHED.call_once(watch_programs);
}

/// Drains the run of a worker. Returns false if this process has none.
fn drains() -> bool {
    let drain = DRAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(drain) = &*drain {
        DRAINS.store(true, Ordering::SeqCst);
        drain();
    }
    drain.is_some()
}

/// The first signal sets `first`. The second one sets `second` and ends the process after 750 ms. The third one ends it
/// immediately.
#[expect(clippy::disallowed_methods, reason = "the way out must not need anything that still works")]
pub(crate) fn stop_in_two_steps(first: Interrupt, second: Interrupt) {
    watch(move |count, _| match count {
        1 => first.interrupt(),
        2 => {
            second.interrupt();
            std::thread::spawn(|| {
                std::thread::sleep(GRACE);
                end();
            });
        }
        _ => end(),
    });
}

#[expect(clippy::disallowed_methods, reason = "the way out must not need anything that still works")]
fn watch_programs() {
    watch(move |count, signal| {
        if signal == SIGTERM && drains() {
            return;
        }
        if count > 1 {
            // The second signal ends the process immediately.
            end();
        }
        std::thread::spawn(|| {
            std::thread::sleep(GRACE);
            end();
        });
        // Print before the interrupt, because the program may end the process. But a blocked terminal must not delay
        // the interrupt.
        let (told, is_told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            eprintln!("[harn] signal received, flushing state...");
            let _ = told.send(());
        });
        let _ = is_told.recv_timeout(GRACE / 8);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(interrupt) = running {
            interrupt.interrupt();
        }
    });
}

/// Interrupts the current evaluation and keeps the process alive: Ctrl-C in the REPL. SIGTERM ends the process. So does
/// SIGINT if an evaluation was already interrupted, or if no evaluation runs and no line editor handles Ctrl-C.
pub(crate) fn interrupt_on_signal(current: impl Fn() -> Option<Interrupt> + Send + 'static) {
    watch(move |_, signal| match current() {
        Some(interrupt) if signal == SIGINT && !interrupt.is_set() => interrupt.interrupt(),
        _ => end(),
    });
}

/// Calls a function for each signal, for commands that end without an interrupt handle.
pub(crate) fn tell(told: impl Fn() + Send + 'static) {
    watch(move |_, _| told());
}

/// Calls a function for each signal with the number of signals so far and the signal's number. If the handler cannot be
/// installed, the system's default applies.
fn watch(on_signal: impl Fn(usize, i32) + Send + 'static) {
    #[cfg(unix)]
    use unix::each;
    #[cfg(windows)]
    use windows::each;
    let mut count = 0;
    each(move |signal| {
        count += 1;
        HAS_COME.store(true, Ordering::SeqCst);
        CODE.store(u8::try_from(128 + signal).unwrap_or(INTERRUPTED), Ordering::Relaxed);
        on_signal(count, signal);
    });
}
