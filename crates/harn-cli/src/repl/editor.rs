//! Reads inputs from a terminal on a separate thread, so that tasks continue while the prompt waits.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use harn_system::{Real, Stream, System, SystemExt};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper};

use tokio::sync::mpsc::UnboundedSender;

use super::{input, words};
use crate::editor_host::MachineHost;
use crate::keywords::KEYWORDS;
use crate::style::Colour;

/// Number of history entries.
const HISTORY: usize = 1000;

/// The data for completion. The evaluating thread updates it after every input.
#[derive(Default, Debug)]
pub(crate) struct Known {
    /// Builtins, globals and the names declared in the session.
    pub(crate) names: Vec<String>,
    /// Members by type.
    pub(crate) of_type: BTreeMap<String, Vec<String>>,
    /// Members by name of a session variable.
    pub(crate) of_name: BTreeMap<String, Vec<String>>,
}

/// [`Known`], shared between the two threads.
pub(crate) type Shared = Arc<Mutex<Known>>;

/// Reads inputs and sends each one, waiting for its evaluation, until the user ends the session.
pub(crate) fn read(
    known: Shared,
    inputs: &UnboundedSender<String>,
    done: &Receiver<()>,
) -> Result<(), String> {
    let colour = Colour::of(Stream::Output);
    let config = Config::builder()
        .max_history_size(HISTORY)
        .and_then(|c| c.history_ignore_dups(true))
        .map_err(|e| e.to_string())?
        .auto_add_history(true)
        .completion_type(CompletionType::List)
        .color_mode(if colour.on() { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor: Editor<Assistant, FileHistory> =
        Editor::with_config(config).map_err(|e| e.to_string())?;
    editor.set_helper(Some(Assistant { known, colour, machine: OnceCell::new() }));
    let history = history_file();
    if let Some(path) = &history {
        // The first session has no history file.
        let facts = Real::new().facts(path);
        if facts.is_ok_and(|facts| facts.size <= MAX_HISTORY) {
            let _ = editor.load_history(path);
        }
    }
    loop {
        match editor.readline("harn> ") {
            Ok(line) => {
                if inputs.send(line).is_err() || done.recv().is_err() {
                    break;
                }
            }
            // Ctrl-C discards a nonempty line. rustyline reports both cases with the same error.
            Err(ReadlineError::Interrupted) if editor.helper().is_some_and(Assistant::had_text) => {}
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => break,
            // Invalid UTF-8, typed or pasted: the line is dropped and the session continues.
            Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {}
            Err(error) => return Err(format!("cannot read from the terminal: {error}")),
        }
    }
    if let Some(path) = &history {
        let _ = path.parent().map(|folder| Real::new().make_dirs(folder));
        if let Err(error) = editor.save_history(path) {
            eprintln!("warning: cannot write {}: {error}", path.display());
        }
    }
    Ok(())
}

/// The largest history that is loaded: 16 MiB.
const MAX_HISTORY: u64 = 16 << 20;

/// Returns `~/.harn/repl_history`, unless it could block or is endless.
#[expect(clippy::disallowed_methods, reason = "the home of a person without HOME is for the library to find")]
fn history_file() -> Option<PathBuf> {
    let path = dirs::home_dir()?.join(".harn").join("repl_history");
    if Real::new().facts(&path).is_ok_and(|facts| !facts.is_file()) {
        eprintln!("warning: no history is kept: {} is not a regular file", path.display());
        return None;
    }
    Some(path)
}

/// Lines from this number of bytes on are not coloured, because coloured lines are redrawn for each character.
const LONG: usize = 1000;

/// The callbacks of rustyline.
struct Assistant {
    known: Shared,
    colour: Colour,
    /// Data about imports and options, created on first use.
    machine: OnceCell<MachineHost>,
}

thread_local! {
    /// Whether the line had text when it was last edited. The editor has one thread.
    static TEXT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Assistant {
    /// Whether the line that Ctrl-C ended had text.
    fn had_text(&self) -> bool {
        TEXT.replace(false)
    }

    /// Returns the members of the expression before a dot.
    fn members(known: &Known, receiver: &str) -> Vec<String> {
        if let Some(members) = known.of_name.get(receiver) {
            return members.clone();
        }
        let of_type = |name: &str| known.of_type.get(name).cloned().unwrap_or_default();
        match receiver.chars().last() {
            Some('"') => of_type("string"),
            Some(']') if receiver.starts_with('[') => of_type("list"),
            Some('}') if receiver.starts_with('{') => of_type("dict"),
            // The type of any other expression is only known after evaluation, so every method is offered.
            _ => known.of_type.values().flatten().cloned().collect(),
        }
    }
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, _at: usize, _context: &Context<'_>) -> Option<String> {
        // Called whenever the line changes, so the state for `had_text` is updated here.
        TEXT.set(!line.is_empty());
        None
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let more = !text.starts_with(':')
            && input::state(text) == input::State::Incomplete
            && !text.ends_with("\n\n");
        Ok(if more { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        if self.colour.on() && line.len() < LONG { words::highlight(line) } else { Cow::Borrowed(line) }
    }

    fn highlight_char(&self, line: &str, _at: usize, kind: CmdKind) -> bool {
        // At the limit, the line is redrawn once without colours.
        self.colour.on() && line.len() <= LONG && kind != CmdKind::MoveCursor
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let machine = || self.machine.get_or_init(MachineHost::new);
        let special = special(machine, line, at);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, names) = special.unwrap_or_else(|| candidates(&known, line, at));
        let pairs = names.into_iter().map(|name| Pair { display: name.clone(), replacement: name }).collect();
        Ok((start, pairs))
    }
}

/// Completes module paths in imports and keys of options.
fn special<'m>(
    machine: impl FnOnce() -> &'m MachineHost,
    line: &str,
    at: usize,
) -> Option<(usize, Vec<String>)> {
    let head = line.get(..at)?;
    if !head.contains('{') && !head.contains("import") || head.starts_with(':') {
        return None;
    }
    harn_lsp::complete_special(machine(), &Real::new().work_dir(), line, at)
}

/// Returns the completions at a position of a line, and the start of the completed word.
fn candidates(known: &Known, line: &str, at: usize) -> (usize, Vec<String>) {
    let (start, member) = words::word_before(line, at);
    let prefix = line.get(start..at).unwrap_or_default();
    if let Some(command) = line.get(..at).filter(|head| head.starts_with(':') && !head.contains(' ')) {
        let commands = words::COMMANDS.iter().filter(|c| c.starts_with(command)).map(|c| (*c).to_owned());
        return (0, commands.collect());
    }
    let mut names = if member {
        Assistant::members(known, words::receiver(line, at))
    } else {
        known.names.iter().cloned().chain(KEYWORDS.iter().map(|k| k.name.to_owned())).collect()
    };
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names.dedup();
    (start, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        Known {
            names: words(&["println", "print", "user"]),
            of_type: BTreeMap::from([
                ("string".to_owned(), words(&["trim", "upper"])),
                ("list".to_owned(), words(&["map", "max"])),
            ]),
            of_name: BTreeMap::from([("user".to_owned(), words(&["name", "email"]))]),
        }
    }

    fn complete(line: &str) -> (usize, Vec<String>) {
        candidates(&known(), line, line.len())
    }

    #[test]
    fn names_and_keywords() {
        assert_eq!(complete("let x = pri"), (8, vec!["print".to_owned(), "println".to_owned()]));
        assert_eq!(complete("ret"), (0, vec!["retry".to_owned(), "return".to_owned()]));
    }

    #[test]
    fn members_of_names_and_literals() {
        assert_eq!(complete("user.na"), (5, vec!["name".to_owned()]));
        assert_eq!(complete("\"abc\".").1, ["trim", "upper"]);
        assert_eq!(complete("[1, 2].m").1, ["map", "max"]);
        assert_eq!(complete("f(x).u").1, ["upper"]);
    }

    #[test]
    fn imports_and_keys_of_options() {
        let machine = MachineHost::new();
        let complete = |line: &str| special(|| &machine, line, line.len());
        assert_eq!(
            complete("import \"std/te"),
            Some((8, vec!["std/testing".to_owned(), "std/text".to_owned()]))
        );
        let (start, names) = complete("import { host_call } from \"std/t").expect("modules");
        assert_eq!((start, names.len()), (27, 2));
        let (start, keys) = complete("llm_call(\"q\", nil, {temp").expect("options");
        assert_eq!((start, keys), (20, vec!["temperature".to_owned()]));
        let more = complete("llm_call(\"q\", nil, {temperature: 0, pro").expect("options");
        assert!(more.1.contains(&"provider".to_owned()), "{more:?}");
        assert_eq!((complete("pri"), complete("let d = {a"), complete("d.{x")), (None, None, None));
    }

    #[test]
    fn commands_of_the_repl() {
        assert_eq!(complete(":d"), (0, vec![":doc".to_owned()]));
    }
}
