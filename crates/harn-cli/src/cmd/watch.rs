//! `harn watch FILE`: runs a program, and again whenever a `.harn` file below its directory changes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harn_system::{Real, Stream, System};
use harn_vm::{Interrupt, block_on};

use crate::args::WatchArgs;
use crate::findings;
use crate::program::{self, Program, RunOptions};
use crate::signal;
use crate::style::Colour;

/// Interval between checks of the files. They must be unchanged for one interval before the program runs again.
const PAUSE: Duration = Duration::from_millis(200);

/// Size and modification time of each file, to detect changes.
pub(crate) type Stamps = BTreeMap<PathBuf, (u64, u64)>;

/// Runs until interrupted.
pub(crate) fn watch(args: &WatchArgs) -> u8 {
    again_and_again(&args.file, |set| once(args, set))
}

/// Calls `once`, and calls it again whenever a program below the file's directory changes. `once` returns an exit code,
/// and passes a handle to interrupt it to its argument.
pub(crate) fn again_and_again(file: &Path, mut once: impl FnMut(&dyn Fn(Option<Interrupt>)) -> u8) -> u8 {
    let running: Arc<Mutex<Option<Interrupt>>> = Arc::default();
    let watched = running.clone();
    signal::interrupt_on_signal(move || watched.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let facts = Real::new().facts(file).map_err(|reason| reason.to_string());
    let facts = facts.and_then(|facts| if facts.is_file() { Ok(()) } else { Err("not a file".to_owned()) });
    if let Err(reason) = facts {
        let path = file.display().to_string();
        eprintln!("error: cannot read {}: {reason}", harn_syntax::printable(&path));
        return 1;
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut known = stamps(folder);
    loop {
        say(&format!("running {}", file.display()));
        let code = once(&|to| *running.lock().unwrap_or_else(PoisonError::into_inner) = to);
        say(&format!("ended with {code}, waiting for changes below {}", folder.display()));
        let (now, changed) = wait(folder, &known, PAUSE);
        known = now;
        say(&format!("{} changed", changed.display()));
    }
}

/// Prints a status line on standard error.
pub(crate) fn say(text: &str) {
    // If standard error is closed, the message is dropped.
    let _ = writeln!(std::io::stderr(), "[watch] {}", harn_syntax::printable(text));
}

/// Runs the program once and returns its exit code.
fn once(args: &WatchArgs, set: &dyn Fn(Option<Interrupt>)) -> u8 {
    let colour = Colour::of(Stream::Error).on();
    let packages = super::packages::ready(args.file.parent().into_iter());
    let program = match packages.and_then(|()| Program::read(&args.file)) {
        Ok(program) => program,
        Err(text) => {
            eprintln!("{}", harn_syntax::printable(&text));
            return 1;
        }
    };
    let names = super::run::names(args.allow.clone(), args.deny.clone());
    let options = RunOptions { names, ..RunOptions::default() };
    let warn = |problem: &crate::report::Problem| eprintln!("{}", problem.draw(colour));
    let end = program::run(&program, options, std::rc::Rc::new(Real::new()), warn, |interrupt| {
        set(Some(interrupt))
    });
    set(None);
    let (code, result) = end.settle();
    if let Err(failure) = result {
        eprint!("{}", failure.draw(colour));
    }
    code
}

/// Waits until a file has changed and all files are stable. Returns the new stamps and the first changed file.
pub(crate) fn wait(folder: &Path, known: &Stamps, pause: Duration) -> (Stamps, PathBuf) {
    let rest = || {
        // Without an event loop there is no way to wait.
        let _ = block_on(async { Real::new().sleep(pause).await });
    };
    loop {
        rest();
        let mut now = stamps(folder);
        let Some(changed) = difference(known, &now) else { continue };
        loop {
            rest();
            let again = stamps(folder);
            if again == now {
                return (now, changed);
            }
            now = again;
        }
    }
}

/// Returns the first new, changed or removed file.
fn difference(before: &Stamps, now: &Stamps) -> Option<PathBuf> {
    let differs = |path: &&PathBuf| before.get(*path) != now.get(*path);
    now.keys().find(differs).or_else(|| before.keys().find(differs)).cloned()
}

/// Returns the stamps of all programs below a directory.
pub(crate) fn stamps(folder: &Path) -> Stamps {
    let files = findings::collect(&[folder.to_owned()], findings::is_program, false).unwrap_or_default();
    let stamp = |path: PathBuf| {
        let facts = Real::new().facts(&path).ok()?;
        Some((path, (facts.size, facts.modified.to_bits())))
    };
    files.into_iter().filter_map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
            folder.path().join(name)
        };
        let main = file("main.harn", "println(1)\n");
        let before = stamps(folder.path());
        assert_eq!(difference(&before, &stamps(folder.path())), None);
        file("notes.txt", "not a program");
        assert_eq!(difference(&before, &stamps(folder.path())), None);
        file("main.harn", "println(12)\n");
        assert_eq!(difference(&before, &stamps(folder.path())), Some(main.clone()));
        let lib = file("lib.harn", "");
        let with = stamps(folder.path());
        assert_eq!(difference(&before, &with), Some(lib.clone()));
        std::fs::remove_file(&lib).expect("removed");
        assert_eq!(difference(&with, &stamps(folder.path())), Some(lib));
    }
}
