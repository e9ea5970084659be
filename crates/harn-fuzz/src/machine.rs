//! The virtual machine as a fuzz target: programs run with an in-memory system.
//!
//! Inputs are mutations of real programs, so access to files, processes and the network is prevented by the names
//! of the builtins: a program that mentions one of those is only parsed.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use harn_syntax::lexer::lex;
use harn_syntax::token::TokenKind;
use harn_system::{Asked, Inquiry, Layer, Memory, System, Waiting};
use harn_vm::{Effect, Interrupt, Source, Vm, block_on, load, uncaught};

/// Time limit of a program. Many random programs do not terminate.
const LIMIT: Duration = Duration::from_millis(400);

/// Memory limit of a program's data in bytes.
const MEMORY: usize = 256 << 20;

/// Number of rewrites of a program, each at different expressions.
const ROUNDS: u64 = 3;

/// Maximum output in bytes before printing ends the program.
const OUTPUT: usize = 1 << 20;

/// An in-memory system without files, with limited output and deterministic random numbers.
struct Nowhere {
    inner: Memory,
    out: Rc<RefCell<String>>,
}

impl Nowhere {
    fn new(out: Rc<RefCell<String>>) -> Nowhere {
        Nowhere { inner: Memory::new(), out }
    }
}

impl Layer for Nowhere {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.borrow_mut();
        out.push_str(text);
        // A closed pipe ends the program without an error message.
        if out.len() > OUTPUT { Err(io::Error::from(io::ErrorKind::BrokenPipe)) } else { Ok(()) }
    }

    /// Never returns an answer, regardless of the timeout.
    fn inquire(&self, _: Inquiry) -> Waiting<'static, Asked> {
        Box::pin(async { Ok(None) })
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        if let Some(first) = bytes.first_mut() {
            *first = 4;
        }
    }
}

/// Names that a program must not mention to be run.
static FORBIDDEN: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let harmless = |effect| {
        matches!(effect, Effect::Pure | Effect::Output | Effect::Clock | Effect::Random | Effect::State)
    };
    harn_runtime::tables()
        .into_iter()
        .flatten()
        .filter(|builtin| !harmless(builtin.effect))
        .map(|builtin| builtin.name())
        .collect()
});

/// Runs a program. It must end in a value or an error.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if !harmless(&text) {
        return;
    }
    limit_memory();
    let _ = run(&text);
}

/// Sets the memory limit for the next program relative to the current use, which includes memory freed by other
/// threads: a little for every watcher.
fn limit_memory() {
    harn_value::memory::set_limit(harn_value::memory::used() + MEMORY);
}

/// Returns whether a program imports nothing and mentions no builtin with external effects.
fn harmless(text: &str) -> bool {
    lex(text).tokens.iter().all(|token| match token.kind {
        TokenKind::Import => false,
        _ => !FORBIDDEN.contains(token.span.slice(text)),
    })
}

/// Runs a program and rewritten versions of it, in which expressions are replaced by equivalent blocks. Output and
/// result must be the same.
pub(crate) fn check_blocks(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(difference) = (0..ROUNDS).find_map(|round| difference(&text, round)) {
        panic!("{difference}");
    }
}

/// Returns the difference between a program and its rewritten version.
fn difference(text: &str, round: u64) -> Option<String> {
    if !harmless(text) {
        return None;
    }
    let blocks = crate::blocks::rewritten(text, round);
    if blocks == text {
        return None;
    }
    limit_memory();
    let (before, after) = (run(text)?, run(&blocks)?);
    let same = before == after || text.contains("yield") && lines_in_order(&before) == lines_in_order(&after);
    (!same).then(|| format!("blocks change the meaning:\n{blocks}\n--- before\n{before}\n--- after\n{after}"))
}

/// Sorts the lines of an output: a variable captured by a closure lives longer than others, so generators that are
/// still suspended at the end of a script run their cleanup in another order if a block is inserted around their
/// name.
fn lines_in_order(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs a program to its end. Returns its output with its result or error; `None` if it was rejected or stopped.
pub(crate) fn run(text: &str) -> Option<String> {
    run_with(text, |vm| Watched::start(vm.interrupt().clone()))
}

/// Like [`run`], with a guard object that lives as long as the program runs.
fn run_with<T>(text: &str, beside: impl FnOnce(&Vm) -> T) -> Option<String> {
    let out = Rc::<RefCell<String>>::default();
    let vm = harn_runtime::vm_builder(Rc::new(Nowhere::new(out.clone()))).verify().tell_deadlocks().build();
    let source = Source { name: "fuzz.harn".to_owned(), text: text.to_owned(), dir: PathBuf::new() };
    let program = match load(&vm, &source) {
        Ok(program) => program,
        Err(error) => {
            assert!(!error.canonical(text).is_empty(), "a refusal without a text");
            return None;
        }
    };
    let _beside = beside(&vm);
    let outcome = block_on(program.run(&vm, None, &[])).ok()?;
    let stopped = vm.interrupt().is_set();
    let (code, _) = outcome.exit_code();
    assert!((0..=255).contains(&code), "the exit code is {code}");
    let end = match &outcome.result {
        Ok(value) => Some(value.to_string()),
        Err(error) => {
            let (diagnostic, file) = uncaught(&vm, error);
            let drawn = harn_vm::drawn(&diagnostic, file.as_ref());
            assert!(drawn.starts_with("error: "), "an error without a text");
            error.is_catchable().then(|| error.uncaught_text())
        }
    };
    drop(outcome);
    drop(program);
    // A virtual machine that is still referenced is a leak, and leaks accumulate here.
    drop(Rc::try_unwrap(vm).ok());
    // A task of the stopped program may have caught the interruption.
    end.filter(|_| !stopped).map(|end| without_suggestions(&format!("{}\n{end}", out.borrow())))
}

/// Removes suggestions of names, which depend on the scope of the expression.
fn without_suggestions(text: &str) -> String {
    let mut parts = text.split(" (did you mean `");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("`?)").map_or(part, |(_, rest)| rest))
}

/// Watches a program while it is alive. Each program has its own watcher, because tests run programs in parallel.
struct Watched(#[expect(dead_code, reason = "the watcher ends when it is dropped")] Sender<()>);

impl Watched {
    fn start(interrupt: Interrupt) -> Watched {
        let (alive, ended) = channel();
        std::thread::spawn(move || {
            // A program that still continues is a hang, which the parent detects.
            if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        Watched(alive)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn programs_that_reach_outside_are_not_run() {
        assert!(harmless("println([1].map({ x -> x }))"));
        assert!(!harmless("write_file(\"a\", \"b\")"));
        assert!(!harmless("let f = delete_file\nf(\"a\")"));
        assert!(!harmless("import \"lib\""));
        assert!(!harmless("println(\"${exec(\"ls\")}\")"));
    }

    #[test]
    fn suggestions_are_taken_out() {
        assert_eq!(without_suggestions("a (did you mean `b`?) c\nd (did you mean `e`?)"), "a c\nd");
        assert_eq!(without_suggestions("plain"), "plain");
    }

    /// Returns the bytes not freed by a program that has run before: the first runs fill the shared caches.
    /// Measures only this thread, since other tests run in parallel; therefore there is no watcher, which could
    /// free memory of the program.
    fn left_behind(text: &str) -> isize {
        (0..2).for_each(|_| drop(run_with(text, |_| ())));
        let before = harn_value::memory::used_by_thread();
        drop(run_with(text, |_| ()));
        harn_value::memory::used_by_thread() - before
    }

    #[test]
    fn programs_leave_nothing_behind() {
        harn_value::memory::set_limit(MEMORY);
        harn_value::memory::program_thread();
        let methods = "struct P { x }\nimpl P {\n  fn moved(self) { P {x: self.x + 1} }\n}\nprintln(P {x: 1}.moved().x)";
        assert_eq!(left_behind(methods), 0);
        let captured = "fn t() {\n  struct P { x }\n  let one = 1\n  impl P {\n    fn moved(self) { P {x: self.x + one} }\n  }\n\
                        return P {x: 1}.moved().x }\nprintln(t())";
        assert_eq!(left_behind(captured), 0);
        for seed in 0..300 {
            let text = crate::generate::program(&mut Rng::new(13, seed));
            assert_eq!(left_behind(&text), 0, "{text}");
        }
    }

    /// Tests every tenth program; the fuzz target starts with all of them.
    #[test]
    fn blocks_do_not_change_known_programs() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let programs = crate::corpus::read(&root, "program", ".harn");
        let sample = programs.iter().enumerate().step_by(10);
        let found: Vec<String> = sample
            .filter_map(|(at, bytes)| difference(&String::from_utf8_lossy(bytes), at as u64 / 10 % ROUNDS))
            .collect();
        assert!(found.is_empty(), "{} programs differ:\n\n{}", found.len(), found.join("\n=====\n"));
    }

    #[test]
    fn an_endless_program_is_stopped() {
        let begin = Instant::now();
        run("while true { }");
        run("fn f(n) { n + 1 }\nvar n = 0\nwhile n >= 0 { n = f(0) }");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    /// Interrupts a program that starts tasks, waits, catches errors and cleans up, at many different times. If an
    /// interruption were lost, the last task would keep the program running forever.
    #[test]
    fn an_interruption_is_never_lost() {
        let text =
            "fn f(n) { try { if n > 2 { throw n }; sleep(1ms) } catch (e) { n } finally { sleep(1ms) } }
            for i in 0 to 3 {
              println(parallel 3 { n -> f(n) })
              let t = spawn { f(i) }
              retry 2 { println(await(t)) }
              println(parallel each [1, 2, 3] { n -> [n].map({ m -> f(m) }) })
              deadline 1s { f(0) }
            }
            parallel 2 { n -> while true { sleep(1ms) } }";
        for moment in 0..60 {
            let vm = harn_runtime::vm_builder(Rc::new(Nowhere::new(Rc::default()))).build();
            let source = Source { name: "fuzz.harn".to_owned(), text: text.to_owned(), dir: PathBuf::new() };
            let program = load(&vm, &source).expect("a program");
            let interrupt = vm.interrupt().clone();
            let (ended, end) = channel::<()>();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(moment * 500));
                interrupt.interrupt();
                if end.recv_timeout(Duration::from_secs(30)).is_err() {
                    eprintln!("the interruption at moment {moment} was lost");
                    std::process::abort();
                }
            });
            let outcome = block_on(program.run(&vm, None, &[])).expect("an event loop");
            assert!(outcome.result.is_err(), "interrupted at moment {moment}, it ended by itself");
            ended.send(()).expect("the thread waits");
            thread.join().expect("the thread ends");
        }
    }
}
