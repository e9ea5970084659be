//! Evaluates the inputs of a REPL in one VM.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use harn_syntax::Severity;
use harn_syntax::ast::{DeclKind, Name, PatternKind, StmtKind};
use harn_syntax::error::SyntaxError;
use harn_syntax::source_map::line_column;
use harn_system::{Real, System, SystemExt};
use harn_value::Value;
use harn_vm::{Error, ErrorKind, EvalError, Interrupt, LoadError, Vm};

use super::editor::Known;
use crate::{describe, program};

/// The output of `:help`.
const HELP: &str =
    "Type a declaration, a statement or an expression. Values of expressions are printed and assigned
to _1, _2, ... A name can be declared again; `await(task)` works at the prompt.

  :help        show this text
  :doc NAME    describe a builtin, a method (list.map) or a keyword
  :type EXPR   print the type of a value
  :all NAME    print a value in full, as in `:all _1`
  :time EXPR   print the value and the elapsed time
  :load FILE   evaluate a file in this session
  :save FILE   save the successful input
  :reset       clear the session
  :quit        end the session (or Ctrl-D)

Tab completes names and members. Ctrl-C interrupts an evaluation.
";

/// Maximum number of printed bytes of a value, and with `:all`.
const SHOWN: usize = 4 << 10;
const SHOWN_ALL: usize = 1 << 20;

/// The largest file that `:load` reads.
const MAX_FILE: u64 = 8 << 20;

/// The reply to an input.
pub(crate) enum Reply {
    /// Output, possibly empty.
    Text(String),
    /// An error message.
    Error(String),
    /// The end of the session with this exit code.
    Quit(u8),
}

/// The interrupt handle of the current evaluation.
pub(crate) type Running = Arc<Mutex<Option<Interrupt>>>;

/// A REPL session.
pub(crate) struct Session {
    vm: Rc<Vm>,
    session: harn_vm::Session,
    /// Number of the last `_n` variable.
    count: usize,
    running: Running,
    /// Members of the session's variables, by name.
    members: BTreeMap<String, Vec<String>>,
    /// Whether the session is interactive: strings are quoted and long values are truncated.
    talks: bool,
    /// The successful inputs, for `:save`.
    history: Vec<String>,
    /// The inputs whose types are known to the next one.
    context: Context,
}

impl Session {
    /// Creates an empty session.
    pub(crate) fn new(running: Running, talks: bool) -> Session {
        let vm = program::session_vm(std::rc::Rc::new(Real::new()));
        let session = harn_vm::Session::new(&vm);
        Session {
            vm,
            session,
            count: 0,
            running,
            members: BTreeMap::new(),
            talks,
            history: Vec::new(),
            context: Context::default(),
        }
    }

    /// Handles a complete input: a command or source code.
    pub(crate) async fn take(&mut self, input: &str) -> Reply {
        let input = input.trim();
        // Commands of other REPLs, unless the session has such a name.
        match input {
            "help" if !self.session.names().iter().any(|name| name == "help") => {
                return Reply::Text(HELP.to_owned());
            }
            "exit" | "quit" if !self.session.names().iter().any(|name| name == input) => {
                return Reply::Quit(0);
            }
            _ => {}
        }
        let Some(command) = input.strip_prefix(':') else { return self.evaluate(input).await };
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match word {
            "help" | "h" | "?" => Reply::Text(HELP.to_owned()),
            "quit" | "q" | "exit" => Reply::Quit(0),
            "reset" => {
                self.end().await;
                *self = Session::new(self.running.clone(), self.talks);
                Reply::Text(String::new())
            }
            "doc" if !rest.is_empty() => match describe::describe(&self.vm, rest) {
                Ok(text) => Reply::Text(text),
                Err(text) => Reply::Error(text),
            },
            "type" if !rest.is_empty() => match self.run(rest).await {
                Ok(value) => Reply::Text(format!("{}\n", value.type_name())),
                Err(error) => error_reply(&error, rest),
            },
            "all" if !rest.is_empty() => match self.run(rest).await {
                Ok(value) => Reply::Text(format!("{}\n", shown(&value, SHOWN_ALL))),
                Err(error) => error_reply(&error, rest),
            },
            "time" if !rest.is_empty() => {
                let start = Real::new().monotonic();
                let reply = self.evaluate(rest).await;
                let took = Real::new().monotonic().saturating_sub(start);
                match reply {
                    Reply::Text(text) => {
                        Reply::Text(format!("{text}took {:.1} ms\n", took.as_secs_f64() * 1e3))
                    }
                    other => other,
                }
            }
            "load" if !rest.is_empty() => match Real::new().read_text(Path::new(rest), MAX_FILE) {
                Ok(text) => self.evaluate(&text).await,
                Err(error) => Reply::Error(format!("cannot read {rest}: {error}")),
            },
            "save" if !rest.is_empty() => {
                let text = self.history.iter().fold(String::new(), |text, input| text + input + "\n");
                match Real::new().replace(Path::new(rest), text.as_bytes()) {
                    Ok(()) => Reply::Text(format!("wrote {} inputs to {rest}\n", self.history.len())),
                    Err(error) => Reply::Error(format!("cannot write {rest}: {error}")),
                }
            }
            "doc" | "type" | "all" | "time" | "load" | "save" => {
                Reply::Error(format!("`:{word}` needs something behind it, see :help"))
            }
            _ => Reply::Error(format!("unknown command `:{word}`, see :help")),
        }
    }

    /// Ends the session: stops its tasks, and runs the cleanup of suspended generators.
    pub(crate) async fn end(&mut self) {
        // An `exit` has no effect here.
        let _ = self.session.end().await;
    }

    /// Evaluates source code. The value of an expression is printed and bound.
    async fn evaluate(&mut self, input: &str) -> Reply {
        if input.is_empty() {
            return Reply::Text(String::new());
        }
        self.warn(input);
        if let Err(text) = self.check(input) {
            return Reply::Error(text);
        }
        let value = match self.run(input).await {
            Ok(value) => value,
            Err(error) => return error_reply(&error, input),
        };
        self.history.push(input.to_owned());
        self.context.add(input);
        let names = self.session.names();
        for name in words_of(input).filter(|word| names.iter().any(|name| name == word)) {
            if let Ok(value) = self.session.eval(name).await {
                self.members.insert(name.to_owned(), members(&self.vm, &value));
            }
        }
        if value.is_nil() || !ends_in_expression(input) {
            return Reply::Text(String::new());
        }
        self.count += 1;
        let name = format!("_{}", self.count);
        self.vm.set_global(&name, value.clone());
        self.members.insert(name, members(&self.vm, &value));
        if !self.talks {
            return Reply::Text(format!("{}\n", harn_value::short(&value, SHOWN_ALL)));
        }
        let text = shown(&value, SHOWN);
        if text.len() < SHOWN || shown(&value, SHOWN_ALL) == text {
            return Reply::Text(format!("{text}\n"));
        }
        Reply::Text(format!("{text}\n(the beginning; `:all _{}` shows the rest)\n", self.count))
    }

    /// Checks types with the declarations of earlier inputs.
    ///
    /// # Errors
    /// The error that prevents the evaluation.
    fn check(&self, input: &str) -> Result<(), String> {
        let (text, start) = self.context.before(input);
        let parsed = harn_syntax::parse(&text);
        if !parsed.errors.is_empty() {
            return Ok(());
        }
        let found = program::check_text(&self.vm, &text, &parsed.program);
        let own = found.into_iter().filter(|d| d.span.is_some_and(|span| span.start as usize >= start));
        let (wrong, rest): (Vec<_>, Vec<_>) = own
            .filter(|d| d.code.starts_with("E02") || matches!(d.code, "E0110" | "W0104"))
            .partition(|d| d.severity == Severity::Error || harn_check::is_error(d.code));
        for warning in rest {
            self.vm.system().write_err(&format!("warning: {}\n", warning.message));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(wrong.into_iter().map(|d| d.message.to_string()).collect::<Vec<_>>().join("\nError: "))
    }

    /// Warns about a comment that was probably meant as a division.
    fn warn(&self, input: &str) {
        let text = if ends_in_expression(input) && !input.contains('\n') {
            format!("return {input}")
        } else {
            input.to_owned()
        };
        let comments = harn_syntax::parse(&text).program.comments;
        let names = self.session.names();
        for found in
            harn_check::hidden_divisions(&text, &comments, |name| names.iter().any(|known| known == name))
        {
            let help = found.help.unwrap_or_default().replace("`return ", "`");
            self.vm.system().write_err(&format!("warning: {}\n  help: {help}\n", found.message));
        }
    }

    /// Evaluates source code. Ctrl-C interrupts it.
    async fn run(&mut self, text: &str) -> Result<Value, EvalError> {
        let interrupt = self.vm.interrupt().clone();
        interrupt.clear();
        let running = self.running.clone();
        let set = |to| *running.lock().unwrap_or_else(PoisonError::into_inner) = to;
        set(Some(interrupt.clone()));
        let result = self.session.eval(text).await;
        set(None);
        interrupt.clear();
        result
    }

    /// Returns the current data for completion.
    pub(crate) fn known(&self) -> Known {
        let builtins = self.vm.builtin_names().map(str::to_owned);
        let names = builtins.chain(self.vm.global_names()).chain(self.session.names()).collect();
        let mut of_type: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for table in self.vm.method_tables() {
            let methods = table.methods.iter().map(|method| method.name().to_owned());
            of_type.entry(table.type_name.to_owned()).or_default().extend(methods);
        }
        Known { names, of_type, of_name: self.members.clone() }
    }
}

/// Formats a value for the prompt. Strings are quoted, so that `"1"` and `1` differ.
fn shown(value: &Value, limit: usize) -> String {
    let mut out = String::new();
    print(value, limit, 0, &mut out);
    if out.len() > limit {
        out.truncate(out.floor_char_boundary(limit));
        out.push_str("...");
    }
    out
}

/// Maximum nesting depth at which strings are quoted.
const MAX_DEPTH: usize = 32;

fn print(value: &Value, limit: usize, depth: usize, out: &mut String) {
    if out.len() > limit {
        return;
    }
    if let Some(text) = value.as_str() {
        let end = text.as_str().floor_char_boundary(limit.saturating_add(1));
        let escaped = text.as_str()[..end].replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        out.push_str(&format!("\"{escaped}\""));
    } else if let Some(list) = value.as_list().filter(|_| depth < MAX_DEPTH) {
        out.push('[');
        for (at, item) in list.iter().enumerate() {
            if out.len() > limit {
                break;
            }
            out.push_str(if at == 0 { "" } else { ", " });
            print(item, limit, depth + 1, out);
        }
        out.push(']');
    } else if let Some(dict) = value.as_dict().filter(|_| depth < MAX_DEPTH) {
        out.push('{');
        for (at, (key, item)) in dict.iter().enumerate() {
            if out.len() > limit {
                break;
            }
            out.push_str(if at == 0 { "" } else { ", " });
            out.push_str(&format!("{key}: "));
            print(item, limit, depth + 1, out);
        }
        out.push('}');
    } else {
        out.push_str(&harn_value::short(value, limit));
    }
}

/// Returns the approximate identifiers in a source.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the members of a value: its keys or fields, and the methods of its type.
fn members(vm: &Vm, value: &Value) -> Vec<String> {
    let mut members: Vec<String> = Vec::new();
    if let Some(dict) = value.as_dict() {
        members.extend(dict.iter().map(|(key, _)| key.to_string()));
    }
    if let Some(instance) = value.as_struct() {
        members.extend(instance.ty.method_names().iter().map(ToString::to_string));
        members.extend(instance.fields().into_iter().map(|(name, _)| name.to_string()));
    }
    let tables =
        vm.method_tables().iter().filter(|t| t.type_name == value.type_name() || t.type_name == "any");
    members.extend(tables.flat_map(|t| t.methods.iter().map(|method| method.name().to_owned())));
    members.sort();
    members.dedup();
    members
}

/// Whether the value of an input is printed: its last statement is an expression.
fn ends_in_expression(text: &str) -> bool {
    let parsed = harn_syntax::parse(text);
    parsed.program.items.last().is_some_and(|item| matches!(item.kind, StmtKind::Expr(_)))
}

/// The successful inputs that the checker sees before the next one, with the names that they declare.
#[derive(Default)]
struct Context(Vec<(Vec<Name>, String)>);

/// Maximum total size of these inputs in bytes: all of them are checked again with each input.
const MAX_CONTEXT: usize = 64 << 10;

impl Context {
    /// Adds a successful input. Earlier inputs that declare one of its names are removed.
    fn add(&mut self, input: &str) {
        let names = declared(input);
        self.0.retain(|(old, _)| !old.iter().any(|name| names.contains(name)));
        self.0.push((names, input.to_owned()));
        let mut size: usize = self.0.iter().map(|(_, text)| text.len()).sum();
        while size > MAX_CONTEXT {
            size -= self.0.remove(0).1.len();
        }
    }

    /// Returns the inputs followed by another one, and the offset of that one.
    fn before(&self, input: &str) -> (String, usize) {
        let names = declared(input);
        let mut text = String::new();
        for (_, known) in self.0.iter().filter(|(old, _)| !old.iter().any(|name| names.contains(name))) {
            text.push_str(known);
            text.push('\n');
        }
        let start = text.len();
        (text + input, start)
    }
}

/// Returns the names that an input declares for the session.
fn declared(input: &str) -> Vec<Name> {
    let mut names = Vec::new();
    for stmt in harn_syntax::parse(input).program.items {
        match stmt.kind {
            StmtKind::Let { pattern, .. } => match pattern.kind {
                PatternKind::Name(name) => names.push(name.name),
                PatternKind::Pair(first, second) => names.extend([first.name, second.name]),
                PatternKind::Dict { fields, rest } => {
                    names.extend(fields.into_iter().map(|field| field.name.name));
                    names.extend(rest.map(|name| name.name));
                }
                PatternKind::List { elems, rest } => {
                    names.extend(elems.into_iter().map(|elem| elem.name.name));
                    names.extend(rest.map(|name| name.name));
                }
            },
            StmtKind::Decl(decl) if !matches!(decl.kind, DeclKind::Impl(_)) => {
                names.push(decl.kind.name().name.clone());
            }
            _ => {}
        }
    }
    names
}

fn error_reply(error: &EvalError, input: &str) -> Reply {
    match error {
        EvalError::Load(LoadError::Syntax(errors)) => {
            Reply::Error(errors.iter().map(|e| in_words(e, input)).collect::<Vec<_>>().join("\nError: "))
        }
        EvalError::Load(error) => Reply::Error(error.canonical(input)),
        EvalError::Run(error) => match error.kind() {
            ErrorKind::Exit(code) => Reply::Quit((*code).clamp(0, 255) as u8),
            ErrorKind::Abort => Reply::Error("interrupted".to_owned()),
            _ => Reply::Error(text_of(error)),
        },
    }
}

/// Formats a syntax error with its location and fix.
fn in_words(error: &SyntaxError, input: &str) -> String {
    let diagnostic = error.diagnostic(input);
    let (line, column) = line_column(input, error.span.start);
    let help = diagnostic.help.map(|help| format!("\n  help: {help}")).unwrap_or_default();
    format!("{} at {line}:{column}{help}", diagnostic.message)
}

/// Returns the message of an error as a script would catch it, with thrown values marked.
fn text_of(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Thrown(_) => error.uncaught_text(),
        _ => error.caught().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_in_quotes_and_long_values_are_cut() {
        assert_eq!(shown(&Value::str("1"), 100), "\"1\"");
        assert_eq!(shown(&Value::int(1), 100), "1");
        let list = Value::from(vec![Value::str("a\"\n"), Value::int(2), Value::NIL]);
        assert_eq!(shown(&list, 100), "[\"a\\\"\\n\", 2, nil]");
        let long = Value::from(vec![Value::str("éé"); 1000]);
        let cut = shown(&long, 50);
        assert!(cut.len() <= 53 && cut.ends_with("..."), "{cut}");
    }
}
