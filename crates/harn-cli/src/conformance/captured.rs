//! Runs conformance cases in one of several modes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_check::Settings;
use harn_journal::{Entry, Journal, Keeper, MemoryKeeper, Nowhere, Setup, Stop, What};
use harn_runtime::{Generation, ModelTraffic};
use harn_syntax::source_map::line_column;
use harn_system::{Layer, Memory, Real, System, SystemExt, Waiting};
use harn_value::Data as Json;
use harn_vm::Interrupt;

use super::expect::Outcome;
use super::printed::Printed;
use super::watched::{Chance, Happened, Watched, each_once, same_effects};
use crate::program::{self, End, Program, RunOptions, is_error};
use crate::report::Problem;

/// The mode in which a case runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// On the real system.
    Real,
    /// In an in-memory system.
    Memory,
    /// Twice on the real system, with the same result.
    Twice,
    /// On the real system with a journal; again from the journal alone; the same with delays; and in memory, killed and
    /// resumed. All results must be the same, and so must the external effects of cases that do not depend on timing.
    Journal {
        /// Number of kills.
        kills: u64,
    },
}

/// Files that programs create in the directory of a case.
const LEFT_BEHIND: [&str; 6] = [
    ".harn-runs",
    ".harn/checkpoints",
    ".harn/daemons",
    ".harn/store.json",
    ".harn/workers",
    ".harn/workflows",
];

/// Number of speeds at which a case runs to detect whether its result depends on timing.
const PACES: usize = 4;

/// Duration of a clock read in these runs.
const SLOW_LOOK: Duration = Duration::from_millis(2);

/// Returns an in-memory system with the files of a case: those of its directory, and of the parent directory if the
/// case mentions it. Files left by earlier runs are excluded: they accumulate, and change while other cases run.
fn in_memory(path: &Path) -> Memory {
    let real = Real::new();
    let here = real.work_dir();
    let mut memory = Memory::new().with_cwd(&here.display().to_string());
    let folder = path.parent().unwrap_or(Path::new(""));
    let text = real.read_text(path, harn_vm::MAX_SOURCE).unwrap_or_default();
    let above = folder.parent().filter(|above| text.contains("../") && above.components().count() > 1);
    let mut waiting = vec![above.unwrap_or(folder).to_owned()];
    while let Some(folder) = waiting.pop() {
        for path in real.names(&folder).unwrap_or_default().iter().map(|name| folder.join(name)) {
            if LEFT_BEHIND.iter().any(|left| path.ends_with(left)) {
                continue;
            }
            if real.is_dir(&path) {
                waiting.push(path);
            } else if let Ok(bytes) = real.read(&path, harn_vm::MAX_SOURCE) {
                memory = memory.with_file(&here.join(&path).display().to_string(), bytes);
            }
        }
    }
    memory
}

/// The source of model replies, besides the mocks of a case.
#[derive(Clone, Default)]
pub(crate) enum Replies {
    /// None: model calls are disabled.
    #[default]
    None,
    /// Models. The replies are recorded into a directory.
    Record(PathBuf),
    /// The recorded replies in a directory.
    Replay(PathBuf),
}

/// The system of a conformance case: output is captured, and models are called only to record replies.
struct CaseSystem {
    inner: Watched,
    replies: Replies,
    /// The user's model configuration, if the case has one.
    providers: Option<String>,
    out: Printed,
}

impl Layer for CaseSystem {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        self.out.push(text)
    }

    fn write_err(&self, _text: &str) {}

    fn read_line(&self) -> Waiting<'static, std::io::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn env(&self, name: &str) -> Option<String> {
        // Results must not depend on the model configuration of the user.
        let about_models =
            ["HARN_LLM_", "HARN_DEFAULT_PROVIDER", "LLM_PROVIDER", "LOCAL_LLM_", "OLLAMA_", "AWS_"];
        match name {
            // To record and replay, the user's configuration selects the models.
            _ if matches!(self.replies, Replies::Record(_)) => System::env(&self.inner, name),
            "HARN_LLM_CALLS_DISABLED" => Some("1".to_owned()),
            _ if matches!(self.replies, Replies::Replay(_)) => System::env(&self.inner, name),
            "HARN_PROVIDERS_CONFIG" => self.providers.clone(),
            _ if about_models.iter().any(|start| name.starts_with(start)) => None,
            _ if name.ends_with("_API_KEY") || name.ends_with("_TOKEN") => None,
            _ => System::env(&self.inner, name),
        }
    }
}

/// Runs a conformance case.
///
/// # Errors
/// A message if the program cannot be read, or if its results differ.
pub(crate) fn run_captured(
    path: &Path,
    mock: Option<&Path>,
    how: How,
    replies: &Replies,
    skills: &[PathBuf],
    ready: &dyn Fn(&Interrupt),
) -> Result<Outcome, String> {
    let case = Case { path, mock, replies, skills, ready };
    let answers = Some(path.with_extension("answers")).filter(|answers| Real::new().is_file(answers));
    if let Some(answers) = answers {
        let inner: Box<dyn System> = match how {
            How::Memory => Box::new(in_memory(path)),
            How::Real | How::Twice | How::Journal { .. } => Box::new(Real::new()),
        };
        return case.with_people(&case.over(inner), &answers);
    }
    match how {
        How::Real => case.run(&case.over(Box::new(Real::new())), None),
        How::Memory => case.run(&case.over(Box::new(in_memory(path))), None),
        How::Twice => {
            let once = || case.run(&case.over(Box::new(Real::new())), None);
            let (first, second) = (once()?, once()?);
            same("replay changed stdout: run again", &first, &second)?;
            Ok(second)
        }
        How::Journal { kills } => case.again_and_again(kills),
    }
}

/// Returns the lint findings of a program, one per line: location, code, message.
///
/// # Errors
/// A message if the program cannot be read.
pub(crate) fn findings_of(path: &Path) -> Result<Outcome, String> {
    let program = Program::read(path)?;
    let (settings, _) = Settings::find(&Real::new(), program.dir());
    let line = |problem: Problem| {
        let start = problem.diagnostic.span.map_or(0, |span| span.start);
        let (line, column) = line_column(program.text(), start);
        format!("{line}:{column} {}: {}\n", problem.diagnostic.code, problem.diagnostic.message)
    };
    Ok(Outcome { output: program.lint(&settings).into_iter().map(line).collect(), error: None })
}

struct Case<'a> {
    path: &'a Path,
    mock: Option<&'a Path>,
    replies: &'a Replies,
    skills: &'a [PathBuf],
    ready: &'a dyn Fn(&Interrupt),
}

impl Case<'_> {
    fn over(&self, inner: Box<dyn System>) -> Rc<CaseSystem> {
        self.watched(Watched::over(inner, None))
    }

    fn watched(&self, inner: Watched) -> Rc<CaseSystem> {
        let providers = self.path.with_extension("providers.toml");
        let providers = Real::new().is_file(&providers).then(|| providers.display().to_string());
        Rc::new(CaseSystem { inner, replies: self.replies.clone(), providers, out: Printed::default() })
    }

    /// Returns random numbers seeded by the name of the case.
    fn chance(&self) -> Chance {
        Chance::of(&self.path.display().to_string())
    }

    /// Runs the case in a system, with a journal if one is given.
    fn run(&self, system: &Rc<CaseSystem>, journal: Option<Journal>) -> Result<Outcome, String> {
        let program = Program::read(self.path)?;
        let warnings = RefCell::new(String::new());
        let cassette = self.path.with_extension("llm-cassette.jsonl");
        let cassette = Real::new().is_file(&cassette).then_some(cassette);
        let replies = self.mock.map(Path::to_owned);
        let mut traffic = ModelTraffic { replies, cassette, ..ModelTraffic::default() };
        match self.replies {
            Replies::None => {}
            Replies::Record(folder) => traffic.keep = Some(folder.clone()),
            Replies::Replay(folder) => traffic.kept = Some(folder.clone()),
        }
        let mut generation = Generation::default();
        let (first, mut journal) = (journal.clone(), journal);
        let is_stopped = || first.as_ref().is_some_and(|journal| journal.stopped().is_some());
        let end = loop {
            let options = RunOptions {
                traffic: traffic.clone(),
                journal: journal.clone(),
                skills: self.skills.to_vec(),
                generation: Some(generation.clone()),
                ..RunOptions::default()
            };
            // After `continue_as_new`, the program has a new journal elsewhere.
            let system: Rc<dyn System> = match journal.take() {
                Some(journal) => Rc::new(journal),
                None => {
                    system.inner.stop_counting();
                    system.clone()
                }
            };
            let warn = |problem: &Problem| {
                // A finding that is certain to fail is not repeated as a warning: the case shows the failure itself.
                if generation.number == 1 && !harn_check::is_certain(problem.diagnostic.code) {
                    warnings.borrow_mut().push_str(&format!("warning: {}\n", problem.diagnostic.message));
                }
            };
            let end = program::run(&program, options, system, warn, |interrupt| (self.ready)(&interrupt));
            if let Some(journal) = &first {
                // The output is complete only after all entries that led to it are persisted.
                journal.settle().map_err(|stop| stop.to_string())?;
            }
            match end {
                End::Anew(state) if !is_stopped() => generation = generation.next(state),
                end => break end,
            }
        };
        let output = warnings.into_inner() + &system.out.text();
        let error = match end {
            End::Result { .. } | End::Anew(_) => None,
            End::Refused(problems) => {
                let first = problems.into_iter().find(is_error);
                Some(first.map_or_else(String::new, |p| p.plain))
            }
            End::Failed(problem) => Some(problem.plain),
            End::Stopped => Some("interrupted".to_owned()),
        };
        Ok(Outcome { output, error })
    }

    /// Runs the case with a journal. Returns the result and the journal.
    fn record(&self, system: &Rc<CaseSystem>, setup: Setup) -> Result<(Outcome, Journal), String> {
        // There is no process that would resume a suspended run.
        let setup = Setup { suspend_after: Some(Duration::MAX), people: false, ..setup };
        self.record_as_it_is(system, setup)
    }

    fn record_as_it_is(&self, system: &Rc<CaseSystem>, setup: Setup) -> Result<(Outcome, Journal), String> {
        let journal = Journal::new(setup);
        let outcome = self.run(system, Some(journal.clone()))?;
        Ok((outcome, journal))
    }

    /// Runs the case as a durable run. Whenever it only waits, its process ends, and it is resumed with the next line
    /// of its answers or after its delay. Finally it is replayed.
    fn with_people(&self, system: &Rc<CaseSystem>, answers: &Path) -> Result<Outcome, String> {
        let text = Real::new().read_text(answers, harn_vm::MAX_SOURCE);
        let text = text.map_err(|error| format!("cannot read {}: {error}", answers.display()))?;
        let lines = text.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            serde_json::from_str::<Json>(line)
                .map_err(|error| format!("{}: {line}: {error}", answers.display()))
        });
        let mut lines = lines.collect::<Result<VecDeque<Json>, String>>()?;
        let kept = MemoryKeeper::default();
        let outcome = loop {
            let setup =
                Setup { entries: kept.entries(), ..Setup::new(system.clone(), Box::new(kept.clone())) };
            let (outcome, journal) = self.record_as_it_is(system, setup)?;
            let due_ms = match journal.stopped() {
                None | Some(Stop::Interrupted) => break outcome,
                Some(Stop::Suspended { due_ms, .. }) => due_ms,
                Some(stop) => return Err(stop.to_string()),
            };
            match lines.pop_front() {
                Some(line) if line["wait"] != true => answered(&kept, &line, System::now_ms(&**system))?,
                _ => {
                    let due_ms = due_ms.ok_or("the case waits for an answer, and there is none left")?;
                    let left = u64::try_from(due_ms.saturating_sub(System::now_ms(&**system))).unwrap_or(0);
                    if left > 5_000 {
                        return Err(format!(
                            "the case waits for {left} ms more, and there is no answer left"
                        ));
                    }
                    let waited = harn_vm::block_on(async {
                        System::sleep(&**system, Duration::from_millis(left + 1)).await
                    });
                    waited.map_err(|error| error.to_string())?;
                }
            }
        };
        if outcome.error.is_none()
            && let Some(line) = lines.pop_front()
        {
            return Err(format!("the case has ended, and nobody asked for the answer {line}"));
        }
        let empty = self.over(Box::new(Memory::new()));
        let setup =
            Setup { entries: kept.entries(), replay: true, ..Setup::new(empty.clone(), Box::new(Nowhere)) };
        let (again, journal) = self.record_as_it_is(&empty, setup)?;
        match journal.stopped() {
            None | Some(Stop::Interrupted) => {}
            Some(stop) => return Err(format!("replayed: {stop}")),
        }
        // The combined output of all parts includes the output printed before each answer.
        same("replayed", &outcome, &again)?;
        Ok(outcome)
    }

    fn again_and_again(&self, kills: u64) -> Result<Outcome, String> {
        let outcome = self.replayed("", None)?;
        self.replayed(" with delays", Some(self.chance()))?;
        let system = self.over(Box::new(in_memory(self.path)));
        let kept = MemoryKeeper::default();
        let (wanted, _) = self.record(&system, Setup::new(system.clone(), Box::new(kept.clone())))?;
        let entries = kept.entries();
        let begun = entries.iter().find(|entry| entry.what == What::Program).map_or(0, |entry| entry.seq + 1);
        let whole = Whole { wanted, places: begun..length(&entries), effects: system.inner.counted() };
        if whole.places.is_empty() {
            return Ok(outcome);
        }
        let (chance, mut left) = (self.chance(), kills);
        while left > 0 {
            left -= self.killed(&whole, &chance, left)?.max(1);
        }
        Ok(outcome)
    }

    /// Runs the case on the real system, and again from its journal alone.
    fn replayed(&self, how: &str, delays: Option<Chance>) -> Result<Outcome, String> {
        let real = self.watched(Watched::over(Box::new(Real::new()), delays));
        let kept = MemoryKeeper::default();
        let (outcome, journal) = self.record(&real, Setup::new(real.clone(), Box::new(kept.clone())))?;
        not_stopped(&format!("with a journal{how}"), &journal)?;
        self.replay_of(&format!("replayed{how}"), kept.entries(), &outcome)?;
        Ok(outcome)
    }

    /// Runs the case from a journal alone. It must reach the last entry and have the same result.
    fn replay_of(&self, how: &str, entries: Vec<Entry>, wanted: &Outcome) -> Result<(), String> {
        // This system contains nothing else.
        let empty = self.over(Box::new(Memory::new()));
        let setup = Setup { entries, replay: true, ..Setup::new(empty.clone(), Box::new(Nowhere)) };
        let (again, journal) = self.record(&empty, setup)?;
        not_stopped(how, &journal)?;
        if let Some(left) = journal.left_over() {
            return Err(format!(
                "{how}: the program has ended, the journal goes on with {} at {}",
                left.was, left.was_at
            ));
        }
        same(how, wanted, &again)
    }

    /// Runs the case, repeatedly kills it after effects that are not persisted yet, and resumes it, until it ends or
    /// was killed `limit` times. Returns the number of kills.
    fn killed(&self, whole: &Whole, chance: &Chance, limit: u64) -> Result<u64, String> {
        let system = self.over(Box::new(in_memory(self.path)));
        let kept = MemoryKeeper::default();
        let mut places = Vec::new();
        let ended = loop {
            let from = places.last().map_or(whole.places.start, |last| last + 1);
            let until = from + chance.below(whole.places.end.saturating_sub(from));
            let setup = Setup {
                entries: kept.entries(),
                until: Some(until).filter(|_| (places.len() as u64) < limit),
                in_doubt: harn_journal::InDoubtPolicy::Retry,
                ..Setup::new(system.clone(), Box::new(kept.clone()))
            };
            let (ended, journal) = self.record(&system, setup)?;
            if !matches!(journal.stopped(), Some(Stop::Until(_))) {
                not_stopped(&format!("killed at entries {places:?} and resumed"), &journal)?;
                break ended;
            }
            places.push(until);
            note_output(&kept, system.out.text().len() as u64);
        };
        let how = format!("killed at entries {places:?} and resumed");
        if let Err(wrong) = same(&how, &whole.wanted, &ended)
            && !self.follows_time(|outcome, _| same("", &whole.wanted, outcome).is_err())?
        {
            return Err(wrong);
        }
        if let (Some(happened), Some(undisturbed)) = (system.inner.counted(), &whole.effects) {
            each_once(&kept.entries(), &happened, places.len() as u64)
                .map_err(|wrong| format!("{how}: {wrong}"))?;
            if let Err(wrong) = same_effects(undisturbed, &kept.entries())
                && !self.follows_time(|_, entries| same_effects(undisturbed, entries).is_err())?
            {
                return Err(format!("{how}: {wrong}"));
            }
        }
        self.replay_of(&format!("{how}, and replayed"), kept.entries(), &ended)?;
        Ok(places.len() as u64)
    }

    /// Whether the result of the case changes if slow operations take longer, without kills. A resumed run executes at
    /// another time, so the result of such a case may change after a kill, too.
    fn follows_time(&self, is_other: impl Fn(&Outcome, &[Entry]) -> bool) -> Result<bool, String> {
        for delays in self.chance().split(PACES) {
            let slow = in_memory(self.path).with_slow_clock(SLOW_LOOK);
            let system = self.watched(Watched::over(Box::new(slow), Some(delays)));
            let kept = MemoryKeeper::default();
            let (outcome, _) = self.record(&system, Setup::new(system.clone(), Box::new(kept.clone())))?;
            if is_other(&outcome, &kept.entries()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The behaviour of a case without kills.
struct Whole {
    wanted: Outcome,
    /// The positions where it can be killed: after the entry with which the program begins.
    places: std::ops::Range<u64>,
    /// Its external effects; `None` if not all of them were counted.
    effects: Option<Happened>,
}

fn length(entries: &[Entry]) -> u64 {
    entries.last().map_or(0, |entry| entry.seq + 1)
}

fn not_stopped(how: &str, journal: &Journal) -> Result<(), String> {
    match journal.stopped() {
        None | Some(Stop::Interrupted) => Ok(()),
        Some(stop) => Err(format!("{how}: {stop}")),
    }
}

/// Answers the first matching request with a line of the case's answers.
fn answered(kept: &MemoryKeeper, line: &Json, now_ms: i64) -> Result<(), String> {
    let open = kept.requests();
    let wanted = line["to"].as_str().unwrap_or_default();
    let asked: Vec<String> =
        open.iter().map(|request| format!("{}: {}", request.kind, request.prompt)).collect();
    let Some(at) = asked.iter().position(|asked| asked.contains(wanted)) else {
        return Err(format!("nobody asks for the answer {line}; the case asks {asked:?}"));
    };
    let mut value = line.clone();
    if let Some(map) = value.as_object_mut() {
        map.remove("to");
        map.remove("by");
    }
    let by = line["by"].as_str().unwrap_or("ada");
    let now_ms = line["at_ms"].as_i64().unwrap_or(now_ms);
    match kept.answer(&open[at].request_id, &value.to_string(), by, now_ms) {
        true => Ok(()),
        false => Err(format!("the answer {line} is not taken")),
    }
}

/// Records how much was printed: the last output may not be in the journal yet.
fn note_output(kept: &MemoryKeeper, out: u64) {
    let (seq, what) = (length(&kept.entries()), What::Printed { out, err: 0 });
    let entry = Entry { seq, task: "0".into(), count: 0, place: "".into(), at_ms: 0, what };
    // This keeper stores immediately, even if the future is not awaited.
    drop(kept.append(vec![entry], 0));
}

fn same(what: &str, first: &Outcome, second: &Outcome) -> Result<(), String> {
    if first.output == second.output && first.error == second.error {
        return Ok(());
    }
    let shown = |outcome: &Outcome| format!("{}{}", outcome.output, outcome.error.as_deref().unwrap_or(""));
    Err(format!("{what}, it ends otherwise\n--- first\n{}\n--- then\n{}", shown(first), shown(second)))
}
