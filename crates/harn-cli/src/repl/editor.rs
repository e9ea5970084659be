//! Reads inputs from a terminal, on a thread of its own so that tasks go on while the prompt waits.

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

/// Entries that the history keeps.
const HISTORY: usize = 1000;

/// What completion knows; the evaluating side writes it after every input.
#[derive(Default, Debug)]
pub(crate) struct Known {
    /// Builtins, globals and the session's own names.
    pub(crate) names: Vec<String>,
    /// Members by type.
    pub(crate) of_type: BTreeMap<String, Vec<String>>,
    /// Members by the session's names.
    pub(crate) of_name: BTreeMap<String, Vec<String>>,
}

/// [`Known`], shared between the two threads.
pub(crate) type Shared = Arc<Mutex<Known>>;

/// Reads inputs and sends each, waiting until it was evaluated, until the user ends the session.
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
        // A first session has no history yet.
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
            // With text Ctrl-C discards it; rustyline says so only by the error.
            Err(ReadlineError::Interrupted) if editor.helper().is_some_and(Assistant::had_text) => {}
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => break,
            // A byte that is no text, typed or pasted: the line is lost, the session is not.
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

/// `~/.harn/repl_history`, unless what is there could block or never end.
#[expect(clippy::disallowed_methods, reason = "the home of a person without HOME is for the library to find")]
fn history_file() -> Option<PathBuf> {
    let path = dirs::home_dir()?.join(".harn").join("repl_history");
    if Real::new().facts(&path).is_ok_and(|facts| !facts.is_file()) {
        eprintln!("warning: no history is kept: {} is not a regular file", path.display());
        return None;
    }
    Some(path)
}

/// A line of so many bytes has no colours: with them it is drawn anew for each character.
const LONG: usize = 1000;

/// What rustyline asks while a line is edited.
struct Assistant {
    known: Shared,
    colour: Colour,
    /// What imports and options there are; made when it is first asked for.
    machine: OnceCell<MachineHost>,
}

thread_local! {
    /// The text under the cursor when a key was last drawn; the editor has one thread.
    static TEXT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Assistant {
    /// Whether the line that Ctrl-C ended had text.
    fn had_text(&self) -> bool {
        TEXT.replace(false)
    }

    /// The members of what stands before a dot.
    fn members(known: &Known, receiver: &str) -> Vec<String> {
        if let Some(members) = known.of_name.get(receiver) {
            return members.clone();
        }
        let of_type = |name: &str| known.of_type.get(name).cloned().unwrap_or_default();
        match receiver.chars().last() {
            Some('"') => of_type("string"),
            Some(']') if receiver.starts_with('[') => of_type("list"),
            Some('}') if receiver.starts_with('{') => of_type("dict"),
            // Of anything else the type is not known without running it: every method is possible.
            _ => known.of_type.values().flatten().cloned().collect(),
        }
    }
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, _at: usize, _context: &Context<'_>) -> Option<String> {
        // Asked whenever the line changed, which is what `had_text` needs to know.
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
        // At its length the line is drawn once more, without them.
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

/// What an import may name, and the keys of options, where a line has one of them.
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

/// What can stand at a place of a line: where the word begins, and the words.
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
