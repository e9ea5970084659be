//! `harn replay ID --debug`: steps from effect to effect, forwards and backwards.
//!
//! A first replay counts statements, and records after which statement of its task each effect was requested. Stopping
//! at an effect means a replay up to that statement; stepping back means another replay from the beginning. Every
//! replay of a journal executes the same statements, so a statement number identifies a point of the run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use harn_journal::{Entry, Journal, Nowhere, Setup, Stop, What};
use harn_syntax::source_map::line_column;
use harn_system::{Capture, Real, Stream, System};
use harn_vm::{Interrupt, Observer, Scene};

use super::durable::{Failed, Known, failed, generation, given, known, known_store, shown_difference};
use super::run::{options, program_of};
use crate::args::ReplayArgs;
use crate::dap::shown;
use crate::out;
use crate::program::{self, End};

/// Number of effects that `:effects` shows before and after the current one.
const AROUND: usize = 5;

/// Number of lines that `:list` shows before and after the current one.
const LINES: usize = 4;

/// Read-only effects, which mostly prepare another effect.
const LOOKS: [&str; 6] = ["cwd", "facts", "link_facts", "canonical", "env", "random"];

/// Prints a line. A write error is reported when the command ends.
macro_rules! say {
    ($($text:tt)*) => { out::write(&format!("{}\n", format_args!($($text)*))) };
}

const HELP: &str = "\
an empty line, :next   go to the next effect
:back                  go to the previous effect
:go N                  go to the first effect from entry N on
:vars [LEVEL]          the variables of a call (default: the innermost)
:stack                 the calls in progress
:list                  the nearby source lines
:effects               the nearby effects; :effects all lists all of them
:output                what the program has printed so far
:quit                  end
EXPRESSION             its value: names, fields, operators, builtins without effects
";

/// An effect of the run.
struct Effect {
    entry: u64,
    name: String,
    note: String,
    task: String,
    place: String,
    /// Number of the statement that its task had reached.
    statement: u64,
}

impl Effect {
    fn is_look(&self) -> bool {
        LOOKS.contains(&&*self.name)
    }

    fn told(&self) -> String {
        let place = if self.place.is_empty() { String::new() } else { format!(" at {}", self.place) };
        let note = if self.note.is_empty() { String::new() } else { format!(" {}", self.note) };
        let line = format!("{}{note}{place} (entry {}, task {})", self.name, self.entry, self.task);
        harn_syntax::printable(&line).into_owned()
    }
}

/// Debugs a run. Returns the exit code.
pub(crate) fn debug(args: &ReplayArgs) -> u8 {
    match known_store(&args.id).and_then(|store| Ok(known(&*store, &args.id)?)) {
        Ok(known) => talk_about(&known),
        Err(text) => failed(&text),
    }
}

fn talk_about(known: &Known) -> u8 {
    let id = &*known.run.id;
    let (effects, end) = match index(known) {
        Ok(indexed) => indexed,
        Err(text) => return failed(&text),
    };
    if let Ended::Differs(difference) = &end {
        return shown_difference(id, difference);
    }
    let talk = Rc::new(Talk {
        effects,
        current: Cell::new(0),
        wish: Cell::new(Wish::On),
        printed: Cell::new(0),
        is_terminal: Real::new().is_terminal(Stream::Input),
    });
    say!("run {id}: {} effects; :help lists the commands", talk.effects.len());
    loop {
        let ended = match talk.effects.is_empty() {
            true => None,
            false => match play(known, &talk) {
                Ok(ended) => Some(ended),
                Err(text) => return failed(&text),
            },
        };
        match talk.wish.replace(Wish::On) {
            Wish::Quit => return 0,
            Wish::Again => continue,
            Wish::On => {}
        }
        let text = ended.as_ref().map_or_else(|| end.told(), Ended::told);
        say!("{}", harn_syntax::printable(&text));
        talk.stand_at_end();
        if talk.wish.replace(Wish::On) == Wish::Quit || talk.effects.is_empty() {
            return 0;
        }
    }
}

/// How a replay ended.
enum Ended {
    Differs(Box<harn_journal::Difference>),
    Text(String),
}

impl Ended {
    fn told(&self) -> String {
        match self {
            Ended::Differs(difference) => Stop::Difference(difference.clone()).to_string(),
            Ended::Text(text) => text.clone(),
        }
    }
}

/// Replays a run under an observer.
fn replay(
    known: &Known,
    journal: &Journal,
    system: Rc<dyn System>,
    observer: Rc<dyn Observer>,
    ready: impl FnOnce(Interrupt),
) -> Failed<Ended> {
    let (args, info) = given(&known.run)?;
    let program = program_of(&args, known.text.clone());
    let options = program::RunOptions {
        journal: Some(journal.clone()),
        observer: Some(observer),
        generation: Some(generation(&info, journal)),
        ..options(args)
    };
    let end = program::run(&program, options, system, |_| {}, ready);
    Ok(match journal.stopped() {
        Some(Stop::Difference(difference)) => Ended::Differs(difference),
        Some(stop) => Ended::Text(stop.to_string()),
        None => match journal.left_over() {
            Some(difference) => Ended::Differs(Box::new(difference)),
            None => Ended::Text(told_end(end)),
        },
    })
}

fn told_end(end: End) -> String {
    let (code, result) = end.settle();
    match result {
        Ok(_) => format!("the program has ended with exit code {code}"),
        Err(failure) => format!("the program has ended with exit code {code}: {}", failure.message),
    }
}

fn journal_over(known: &Known, inner: Rc<dyn System>) -> Journal {
    let (entries, secrets) = (known.entries.clone(), known.secrets());
    Journal::new(Setup { entries, replay: true, secrets, ..Setup::new(inner, Box::new(Nowhere)) })
}

/// Returns the effects of a run, and how it ends.
fn index(known: &Known) -> Failed<(Vec<Effect>, Ended)> {
    let journal = journal_over(known, Rc::new(Capture::over(Rc::new(Real::new()))));
    let counter = Rc::new(Counter {
        journal: journal.clone(),
        tasks: known.entries.iter().map(|entry| (entry.seq, entry.task.to_string())).collect(),
        statements: Cell::new(0),
        last: RefCell::default(),
        next: Cell::new(0),
        found: RefCell::default(),
    });
    let system: Rc<dyn System> = Rc::new(journal.clone());
    let ended = replay(known, &journal, system, counter.clone(), crate::signal::stop_on_signal)?;
    counter.settle();
    let found = counter.found.borrow();
    let program = known.entries.iter().position(|entry| entry.what == What::Program).unwrap_or(0);
    let effect = |entry: &Entry| {
        let statement = *found.get(&entry.seq)?;
        Some(Effect {
            entry: entry.seq,
            name: entry.what.name().to_owned(),
            note: entry.what.note().to_owned(),
            task: entry.task.to_string(),
            place: entry.place.to_string(),
            statement,
        })
    };
    let effects = known.entries.iter().skip(program).filter(|entry| entry.what.is_effect());
    Ok((worth_a_stop(effects.filter_map(effect).collect()), ended))
}

/// Selects the effects to stop at. Of consecutive effects at the same statement or line of a task, read-only ones are
/// skipped if there are others; otherwise the first one represents all.
fn worth_a_stop(all: Vec<Effect>) -> Vec<Effect> {
    let mut kept: Vec<Effect> = Vec::new();
    let mut last: Option<(u64, String)> = None;
    for effect in all {
        let place = (effect.statement, effect.task.clone());
        let is_same = last.replace(place.clone()).is_some_and(|last| last == place);
        // Effects that the runtime reads after a function returned belong to the function's last line.
        let is_after =
            |last: &Effect| !last.is_look() && last.place == effect.place && last.task == effect.task;
        if effect.is_look() && (is_same || kept.last().is_some_and(is_after)) {
            continue;
        }
        if is_same && kept.last().is_some_and(Effect::is_look) {
            kept.pop();
        }
        kept.push(effect);
    }
    kept
}

/// Counts statements, and records the statement at which each entry was replayed.
struct Counter {
    journal: Journal,
    tasks: HashMap<u64, String>,
    statements: Cell<u64>,
    /// The last statement of each task.
    last: RefCell<HashMap<String, u64>>,
    /// The first entry without a recorded statement.
    next: Cell<u64>,
    found: RefCell<BTreeMap<u64, u64>>,
}

impl Counter {
    /// Records the entries that were replayed since the last statement.
    fn settle(&self) {
        let upto = self.journal.next_entry().unwrap_or(u64::MAX);
        let last = self.last.borrow();
        while self.next.get() < upto {
            let entry = self.next.get();
            let Some(task) = self.tasks.get(&entry) else { return };
            self.next.set(entry + 1);
            // A task without executed statements uses those of its nearest ancestor.
            let mut path = task.as_str();
            let statement = loop {
                match (last.get(path), path.rsplit_once('.')) {
                    (Some(statement), _) => break Some(*statement),
                    (None, Some((parent, _))) => path = parent,
                    (None, None) => break None,
                }
            };
            if let Some(statement) = statement {
                self.found.borrow_mut().insert(entry, statement);
            }
        }
    }
}

impl Observer for Counter {
    fn statement(&self, scene: &Scene<'_>) {
        self.settle();
        let statement = self.statements.get() + 1;
        self.statements.set(statement);
        self.last.borrow_mut().insert(scene.task(), statement);
    }
}

/// Replays up to the current effect, and then follows the user's commands.
fn play(known: &Known, talk: &Rc<Talk>) -> Failed<Ended> {
    let console = Rc::new(Capture::over(Rc::new(Real::new())));
    let journal = journal_over(known, console.clone());
    let interrupt: Rc<RefCell<Option<Interrupt>>> = Rc::default();
    let stand = Rc::new(Stand {
        talk: talk.clone(),
        console: console.clone(),
        statements: Cell::new(0),
        interrupt: interrupt.clone(),
        over: Cell::new(false),
    });
    let system: Rc<dyn System> = Rc::new(journal.clone());
    let ready = |own: Interrupt| {
        crate::signal::stop_on_signal(own.clone());
        *interrupt.borrow_mut() = Some(own);
    };
    let ended = replay(known, &journal, system, stand, ready)?;
    if talk.wish.get() == Wish::On {
        talk.print_output(&console);
    }
    Ok(ended)
}

/// What happens after the program was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Continue to the end.
    On,
    /// Replay from the beginning.
    Again,
    Quit,
}

/// State that persists across replays: the effects, and the user's choice.
struct Talk {
    effects: Vec<Effect>,
    /// Index of the effect to stop at. The number of effects means the end.
    current: Cell<usize>,
    wish: Cell<Wish>,
    /// Number of output bytes already shown.
    printed: Cell<usize>,
    is_terminal: bool,
}

impl Talk {
    /// Reads a line from the user; `None` at the end of input.
    fn ask(&self) -> Option<String> {
        if self.is_terminal {
            eprint!("debug> ");
        }
        Real::new().read_line_now().ok().flatten()
    }

    /// Prints program output that was not shown yet.
    fn print_output(&self, console: &Capture) {
        let output = console.output();
        if let Some(new) = output.get(self.printed.get()..).filter(|new| !new.is_empty()) {
            out::write(&harn_syntax::printable(new));
            if !new.ends_with('\n') {
                say!("");
            }
            self.printed.set(output.len());
        }
    }

    fn print_effects(&self, all: bool) {
        let at = self.current.get();
        for (number, effect) in self.effects.iter().enumerate() {
            if all || number.abs_diff(at) <= AROUND {
                let mark = if number == at { '>' } else { ' ' };
                say!("{mark} {:>4}  {}", number + 1, effect.told());
            }
        }
    }

    /// Returns the effect that a command selects, or `None` if the command does not select one. The error is a message
    /// for the user.
    fn target(&self, command: &str, rest: &str) -> Option<Result<usize, String>> {
        let at = self.current.get();
        Some(match command {
            "" | ":next" | ":n" => match at < self.effects.len() {
                true => Ok(at + 1),
                false => Err("this is the end".to_owned()),
            },
            ":back" | ":b" => at.checked_sub(1).ok_or_else(|| "this is the first effect".to_owned()),
            ":go" | ":g" => match rest.parse::<u64>() {
                Ok(entry) => self
                    .effects
                    .iter()
                    .position(|effect| effect.entry >= entry)
                    .ok_or_else(|| format!("there is no effect from entry {entry} on")),
                Err(_) => Err(format!(":go needs the number of an entry, got '{rest}'")),
            },
            _ => return None,
        })
    }

    /// Reads commands after the end of the program.
    fn stand_at_end(&self) {
        self.current.set(self.effects.len());
        loop {
            let Some(line) = self.ask() else { return self.wish.set(Wish::Quit) };
            let (command, rest) = split(&line);
            match self.target(command, rest) {
                Some(Ok(target)) => {
                    self.current.set(target);
                    return;
                }
                Some(Err(text)) => say!("{text}"),
                None => match command {
                    ":quit" | ":q" => return self.wish.set(Wish::Quit),
                    ":effects" | ":e" => self.print_effects(rest == "all"),
                    ":help" | ":h" => out::write(HELP),
                    _ => say!("the program has ended: :back, :go N, :effects or :quit"),
                },
            }
        }
    }
}

fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    match line.split_once(char::is_whitespace) {
        Some((command, rest)) if command.starts_with(':') => (command, rest.trim()),
        _ => (line, ""),
    }
}

/// Stops the program at the current effect and reads commands from the user.
struct Stand {
    talk: Rc<Talk>,
    console: Rc<Capture>,
    statements: Cell<u64>,
    interrupt: Rc<RefCell<Option<Interrupt>>>,
    /// The program is about to end; its cleanup is not shown to the user.
    over: Cell<bool>,
}

impl Observer for Stand {
    fn statement(&self, scene: &Scene<'_>) {
        let statement = self.statements.get() + 1;
        self.statements.set(statement);
        while !self.over.get() {
            let Some(effect) = self.talk.effects.get(self.talk.current.get()) else { return };
            if effect.statement > statement {
                return;
            }
            if effect.statement < statement {
                return self.end(Wish::Again);
            }
            self.stand(scene, effect);
        }
    }
}

impl Stand {
    fn end(&self, wish: Wish) {
        self.talk.wish.set(wish);
        self.over.set(true);
        if let Some(interrupt) = &*self.interrupt.borrow() {
            interrupt.interrupt();
        }
    }

    /// Shows an effect and reads commands until one selects another effect.
    fn stand(&self, scene: &Scene<'_>, effect: &Effect) {
        self.talk.print_output(&self.console);
        let (at, all) = (self.talk.current.get() + 1, self.talk.effects.len());
        say!("[{at}/{all}] {}", effect.told());
        self.print_lines(scene, 0);
        loop {
            let Some(line) = self.talk.ask() else { return self.end(Wish::Quit) };
            let (command, rest) = split(&line);
            match self.talk.target(command, rest) {
                Some(Ok(target)) => {
                    self.talk.current.set(target);
                    return;
                }
                Some(Err(text)) => {
                    say!("{text}");
                    continue;
                }
                None => {}
            }
            match command {
                ":quit" | ":q" => return self.end(Wish::Quit),
                ":help" | ":h" => out::write(HELP),
                ":list" | ":l" => self.print_lines(scene, LINES),
                ":stack" | ":s" => print_stack(scene),
                ":vars" | ":v" => print_variables(scene, rest),
                ":effects" | ":e" => self.talk.print_effects(rest == "all"),
                ":output" | ":o" => out::write(&harn_syntax::printable(&self.console.output())),
                unknown if unknown.starts_with(':') => {
                    say!("unknown command '{unknown}'; :help lists the commands");
                }
                _ => match scene.evaluate(line.trim(), 0) {
                    Ok(value) => say!("{}", harn_syntax::printable(&shown(&value))),
                    Err(why) => {
                        let is_command =
                            matches!(line.trim(), "q" | "quit" | "exit" | "h" | "help" | "next" | "back");
                        let hint = if is_command { " (commands begin with `:`, see :help)" } else { "" };
                        say!("{}{hint}", harn_syntax::printable(&why));
                    }
                },
            }
        }
    }

    /// Prints the current line with `around` lines before and after it.
    fn print_lines(&self, scene: &Scene<'_>, around: usize) {
        let Some((module, span)) = scene.place() else { return };
        let Some((_, text)) = scene.vm().source(module) else { return };
        let at = line_column(&text, span.start).0;
        for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
            if number.abs_diff(at) <= around {
                let mark = if number == at && around > 0 { '>' } else { ' ' };
                say!("{mark} {number:>4} | {}", harn_syntax::printable(line));
            }
        }
    }
}

fn print_stack(scene: &Scene<'_>) {
    for (number, level) in scene.levels().iter().enumerate() {
        let line = scene.vm().source(level.module).map(|(_, text)| line_column(&text, level.span.start).0);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        say!("#{number} {} at {}{line}", level.function, level.file);
    }
}

fn print_variables(scene: &Scene<'_>, level: &str) {
    let level = match (level, level.parse::<usize>()) {
        ("", _) => 0,
        (_, Ok(level)) if level < scene.depth() => level,
        _ => {
            say!(
                "there is no call {level}: :stack lists them, from 0 to {}",
                scene.depth().saturating_sub(1)
            );
            return;
        }
    };
    let groups =
        [("", scene.locals(level)), ("captured ", scene.captured(level)), ("module ", scene.globals(level))];
    let mut any = false;
    for (kind, variables) in groups {
        for (name, value) in variables {
            any = true;
            say!("{kind}{name} = {}", harn_syntax::printable(&shown(&value)));
        }
    }
    if !any {
        say!("no variables");
    }
}
