//! SIGINT, SIGTERM, SIGHUP and SIGQUIT, and what stands for them on Windows: a thread waits for them and asks the running program to stop.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use harn_vm::Interrupt;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The program that runs now. A process may run several, one after the other.
static RUNNING: Mutex<Option<Interrupt>> = Mutex::new(None);

/// Asks the run that a worker has started to make room.
static DRAIN: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Whether SIGTERM has asked for that: a program that starts again makes room, too.
static DRAINS: AtomicBool = AtomicBool::new(false);

/// Signals are watched from the first program on.
static WATCHED: Once = Once::new();

/// Whether a signal has come.
static HAS_COME: AtomicBool = AtomicBool::new(false);

/// Longest time that a program may take to stop.
const GRACE: std::time::Duration = std::time::Duration::from_millis(750);

/// Exit code of what Ctrl-C stopped, by the shell's rule: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// The number of SIGINT, which Ctrl-C sends.
const SIGINT: i32 = 2;

/// The number of SIGTERM: Ctrl-Break and a window that is closed stand for it on Windows.
const SIGTERM: i32 = 15;

/// The number of SIGHUP: the terminal is gone.
#[cfg(unix)]
const SIGHUP: i32 = 1;

/// The number of SIGQUIT, which Ctrl-\ sends.
#[cfg(unix)]
const SIGQUIT: i32 = 3;

/// The exit code by the last signal.
static CODE: AtomicU8 = AtomicU8::new(INTERRUPTED);

/// Exit code of a program stopped by a signal: 130 for SIGINT (Ctrl-C), 143 for SIGTERM, 129 for SIGHUP, 131 for SIGQUIT.
pub(crate) fn exit_code() -> u8 {
    CODE.load(Ordering::Relaxed)
}

/// Whether a signal has come: a process that executes runs takes no other one then.
pub(crate) fn has_come() -> bool {
    HAS_COME.load(Ordering::SeqCst)
}

/// Ends the process at once, whatever it does.
fn end() -> ! {
    std::process::exit(i32::from(exit_code()))
}

/// Stops a program run by `harn run`: prints a line, lets cleanup run for most of a second, then ends the process. A
/// second signal ends it at once.
pub(crate) fn stop_on_signal(interrupt: Interrupt) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupt);
    WATCHED.call_once(watch_programs);
}

/// From now on SIGTERM asks the run of a worker to make room. The other signals stop it.
pub(crate) fn drain_on_sigterm(drain: impl Fn() + Send + 'static) {
    if DRAINS.load(Ordering::SeqCst) {
        drain();
    }
    *DRAIN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(drain));
    WATCHED.call_once(watch_programs);
}

/// Asks the run of a worker to make room; false when this process has none.
fn drains() -> bool {
    let drain = DRAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(drain) = &*drain {
        DRAINS.store(true, Ordering::SeqCst);
        drain();
    }
    drain.is_some()
}

/// The first signal sets one flag, the second one another and leaves most of a second; the third ends the process.
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
            // Asked twice: no more patience.
            end();
        }
        std::thread::spawn(|| {
            std::thread::sleep(GRACE);
            end();
        });
        // Before the program stops, or it may have ended by then; but a terminal that keeps the text waiting must not
        // keep the program running.
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

/// Stops the evaluation that runs, and lets the process live: Ctrl-C in the REPL. SIGTERM, and SIGINT while an evaluation does
/// not stop, end the process; so does SIGINT between evaluations where no line editor has a prompt on the screen.
pub(crate) fn interrupt_on_signal(current: impl Fn() -> Option<Interrupt> + Send + 'static) {
    watch(move |_, signal| match current() {
        Some(interrupt) if signal == SIGINT && !interrupt.is_set() => interrupt.interrupt(),
        _ => end(),
    });
}

/// Calls a function for each signal: what runs is no program, and ends by itself when it is told.
pub(crate) fn tell(told: impl Fn() + Send + 'static) {
    watch(move |_, _| told());
}

/// Calls a function for each signal, with its count from 1 and its number. If signals cannot be watched the system's default stays.
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
