//! Errors of a running program: what a script can catch, and where it came from.

use harn_value::{Dict, Value};

/// `Result` with the runtime error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A runtime error: one word, so that results stay small.
#[derive(Debug)]
pub struct Error(Box<Failure>);

/// What went wrong, and the calls it passed through.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Places from the innermost outwards.
    pub trace: Vec<TraceEntry>,
    /// Facts that people see and programs do not: the values of a failed assertion.
    notes: Vec<String>,
    /// Facts that programs ask for with `error_info`.
    facts: Option<Value>,
    /// Whether it was thrown from outside: a deadline, a cancellation, the end of the program.
    interruption: bool,
    /// Whether its first place is the declaration of a parameter, and the mistake is in the call.
    at_parameter: bool,
    /// Places not yet looked up: address of the function, and instruction. The VM keeps its functions alive.
    raw: Vec<(*const (), u32)>,
}

/// A place in the program that an error passed.
#[derive(Debug, Clone)]
pub struct TraceEntry {
    /// Name of the function, `<closure>` or `pipeline`.
    pub function: String,
    /// File as given on the command line or resolved by the import.
    pub file: std::rc::Rc<str>,
    /// Number of the module, for its source text.
    pub module: u32,
    /// Byte offsets of the failing part in that file.
    pub span: harn_syntax::Span,
}

/// Bytes of a value or a name that a message repeats.
pub const SHOWN: usize = 200;

/// Bytes of a thrown value that are shown when nobody catches it.
pub const LONG: usize = 64 << 10;

/// The kinds of error, by how they look when caught.
#[derive(Debug)]
pub enum ErrorKind {
    /// `throw v`: caught as `v` itself.
    Thrown(Value),
    /// Caught as `Runtime error: <text>`.
    Runtime(String),
    /// Caught as `Type error: <text>`.
    Type(String),
    /// Caught as the bare text (`Division by zero`, `Undefined variable: x`).
    Plain(String),
    /// Caught as `Error [<category>]: <text>`.
    Category {
        /// One of the categories of the contract (`timeout`, `rate_limit`, ...).
        category: String,
        /// What happened.
        message: String,
    },
    /// `exit(n)`: cannot be caught, runs `finally` and `defer` blocks.
    Exit(i32),
    /// The task was aborted: cannot be caught, runs `finally` and `defer` blocks.
    Abort,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind) -> Error {
        Error(Box::new(Failure {
            kind,
            trace: Vec::new(),
            notes: Vec::new(),
            facts: None,
            interruption: false,
            at_parameter: false,
            raw: Vec::new(),
        }))
    }

    /// The error with a fact that people see where it is not caught.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Error {
        self.0.notes.push(note.into());
        self
    }

    /// The error with facts that the program finds again by the error's text (`category`, `kind`, `path`, ...).
    #[must_use]
    pub fn with_facts(mut self, facts: Dict) -> Error {
        self.0.facts = Some(Value::dict(facts));
        self
    }

    /// Facts that the program finds again by the error's text.
    pub fn facts(&self) -> Option<&Dict> {
        self.0.facts.as_ref().and_then(|facts| facts.as_dict().map(|facts| &**facts))
    }

    /// Facts that people see where it is not caught.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// `Runtime error: <text>`
    #[cold]
    pub fn runtime(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime(text.into()))
    }

    /// `Type error: <text>`
    #[cold]
    pub fn type_error(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type(text.into()))
    }

    /// An error whose caught form is the text without a prefix, and whose uncaught form has one.
    #[cold]
    pub fn plain(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Plain(text.into()))
    }

    /// The value a script throws.
    pub fn thrown(value: impl Into<Value>) -> Error {
        Error::new(ErrorKind::Thrown(value.into()))
    }

    /// `Error [<category>]: <text>`
    #[cold]
    pub fn category(category: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Category { category: category.to_owned(), message: message.into() })
    }

    /// The dict `{category, message}` that `throw_error` throws.
    pub fn structured(category: &str, message: &str) -> Error {
        Error::thrown(Value::dict(
            [("category", category), ("message", message)].into_iter().collect::<Dict>(),
        ))
    }

    /// Whether it says that nobody knows if an effect happened.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match &self.0.kind {
            ErrorKind::Category { category, .. } => category == "in_doubt",
            ErrorKind::Thrown(thrown) => {
                let category = thrown.as_dict().and_then(|dict| dict.get_str("category"));
                category.and_then(Value::as_str).is_some_and(|category| category == "in_doubt")
            }
            _ => false,
        }
    }

    /// Ends the program with this exit code.
    pub fn exit(code: i32) -> Error {
        Error::new(ErrorKind::Exit(code))
    }

    /// Marks an error that is thrown from outside, at whatever code happens to run.
    pub(crate) fn interrupting(mut self) -> Error {
        self.0.interruption = true;
        self
    }

    /// Whether it ends or interrupts the program, so that it must not get lost in cleanup that nobody waits for.
    pub fn is_interruption(&self) -> bool {
        self.0.interruption || matches!(self.0.kind, ErrorKind::Exit(_))
    }

    /// Marks an error that is found where a parameter is declared: the wrong value stands in the call.
    pub(crate) fn of_parameter(mut self) -> Error {
        self.0.at_parameter = true;
        self
    }

    /// The parts of the way here: the declaration of the parameter that was given a wrong value, the place that is shown,
    /// and the calls that led there.
    pub fn places(&self) -> (Option<&TraceEntry>, Option<&TraceEntry>, &[TraceEntry]) {
        match &*self.0.trace {
            [declared, at, calls @ ..] if self.0.at_parameter => (Some(declared), Some(at), calls),
            [at, calls @ ..] => (None, Some(at), calls),
            [] => (None, None, &[]),
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Where it came from, innermost first.
    pub fn trace(&self) -> &[TraceEntry] {
        &self.0.trace
    }

    /// Adds a place further out.
    pub(crate) fn push_trace(&mut self, entry: TraceEntry) {
        self.0.trace.push(entry);
    }

    /// Notes that it passed an instruction of the function at an address.
    pub(crate) fn pass(&mut self, function: *const (), pc: usize) {
        self.0.raw.push((function, pc as u32));
    }

    /// Whether the function at an address is the last that it passed.
    pub(crate) fn passed_last(&self, function: *const ()) -> bool {
        self.0.raw.last().is_some_and(|(last, _)| *last == function)
    }

    /// Looks up the places passed so far.
    pub(crate) fn resolve_trace(&mut self, mut place: impl FnMut(*const (), usize) -> TraceEntry) {
        for (function, pc) in std::mem::take(&mut self.0.raw) {
            self.0.trace.push(place(function, pc as usize));
        }
    }

    /// Whether `catch` may handle it.
    pub fn is_catchable(&self) -> bool {
        !matches!(self.0.kind, ErrorKind::Exit(_) | ErrorKind::Abort)
    }

    /// The value that `catch (e)` binds.
    pub fn caught(&self) -> Value {
        match &self.0.kind {
            ErrorKind::Thrown(v) => v.clone(),
            ErrorKind::Runtime(t) => Value::from(format!("Runtime error: {t}")),
            ErrorKind::Type(t) => Value::from(format!("Type error: {t}")),
            ErrorKind::Plain(t) => Value::str(t),
            ErrorKind::Category { category, message } => {
                Value::from(format!("Error [{category}]: {message}"))
            }
            ErrorKind::Exit(code) => Value::from(format!("exit {code}")),
            ErrorKind::Abort => Value::str("kind:cancelled:VM cancelled by host"),
        }
    }

    /// The text of an uncaught error, without the leading `error: ` and without the line.
    pub fn uncaught_text(&self) -> String {
        match &self.0.kind {
            ErrorKind::Thrown(v) => format!("Thrown: {}", harn_value::short(v, LONG)),
            ErrorKind::Plain(t) => format!("Runtime error: {t}"),
            _ => self.caught().to_string(),
        }
    }

    /// Whether the uncaught text carries ` (line N)`.
    pub fn shows_line(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Runtime(_) | ErrorKind::Type(_) | ErrorKind::Plain(_))
    }

    /// The error as text for `parallel settle` and the like: `Thrown: boom`, or with ` (line N)` when
    /// `line` is known.
    pub(crate) fn settled_text(&self, line: Option<usize>) -> String {
        match (self.shows_line(), line) {
            (true, Some(line)) => format!("{} (line {line})", self.uncaught_text()),
            _ => self.uncaught_text(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.uncaught_text())
    }
}

impl std::error::Error for Error {}

impl From<harn_value::memory::OverLimit> for Error {
    fn from(over: harn_value::memory::OverLimit) -> Error {
        harn_value::memory::told();
        Error::runtime(format!(
            "memory limit exceeded: the program may use {} bytes (see --max-memory)",
            over.limit
        ))
    }
}

const _: () = assert!(size_of::<Error>() == 8);
