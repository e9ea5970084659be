//! Errors of a running program: the values that a script can catch, and stack traces.

use harn_value::{Dict, Value};

/// `Result` with the runtime error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A runtime error, one pointer in size, so that results stay small.
#[derive(Debug)]
pub struct Error(Box<Failure>);

/// An error and the calls that it passed through.
#[derive(Debug)]
pub struct Failure {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Locations, innermost first.
    pub trace: Vec<TraceEntry>,
    /// Details that are displayed to users but not visible to programs, such as the values of a failed assertion.
    notes: Vec<String>,
    /// Details that programs get from `error_info`.
    facts: Option<Value>,
    /// Whether it was thrown from outside the running code: a deadline, a cancellation, the end of the program.
    interruption: bool,
    /// Whether its first location is the declaration of a parameter while the mistake is in the call.
    at_parameter: bool,
    /// Locations not yet resolved: address of the function, and instruction. Functions live as long as the VM.
    raw: Vec<(*const (), u32)>,
}

/// A location in the program that an error passed through.
#[derive(Debug, Clone)]
pub struct TraceEntry {
    /// Name of the function, `<closure>` or `pipeline`.
    pub function: String,
    /// File, as given on the command line or resolved by the import.
    pub file: std::rc::Rc<str>,
    /// Number of the module, to find its source.
    pub module: u32,
    /// Byte offsets of the failing code in that file.
    pub span: harn_syntax::Span,
}

/// Maximum number of bytes of a value or a name in a message.
pub const SHOWN: usize = 200;

/// Maximum number of bytes of an uncaught thrown value that are displayed.
pub const LONG: usize = 64 << 10;

/// Kinds of error, by their form when caught.
#[derive(Debug)]
pub enum ErrorKind {
    /// `throw v`: caught as `v` itself.
    Thrown(Value),
    /// Caught as `Runtime error: <message>`.
    Runtime(String),
    /// Caught as `Type error: <message>`.
    Type(String),
    /// Caught as the message alone (`Division by zero`, `Undefined variable: x`).
    Plain(String),
    /// Caught as `Error [<category>]: <message>`.
    Category {
        /// One of the categories of the contract (`timeout`, `rate_limit`, ...).
        category: String,
        /// Message.
        message: String,
    },
    /// `exit(n)`: cannot be caught, runs `finally` and `defer` blocks.
    Exit(i32),
    /// The task was aborted: cannot be caught, runs `finally` and `defer` blocks.
    Abort,
}

impl Error {
    /// Creates an error of this kind.
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

    /// Adds a detail that is displayed if the error is not caught.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Error {
        self.0.notes.push(note.into());
        self
    }

    /// Adds details that the program can look up by the error's message (`category`, `kind`, `path`, ...).
    #[must_use]
    pub fn with_facts(mut self, facts: Dict) -> Error {
        self.0.facts = Some(Value::dict(facts));
        self
    }

    /// Returns the details that the program can look up by the error's message.
    pub fn facts(&self) -> Option<&Dict> {
        self.0.facts.as_ref().and_then(|facts| facts.as_dict().map(|facts| &**facts))
    }

    /// Returns the details that are displayed if the error is not caught.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Creates a `Runtime error: <text>`.
    #[cold]
    pub fn runtime(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime(text.into()))
    }

    /// Creates a `Type error: <text>`.
    #[cold]
    pub fn type_error(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type(text.into()))
    }

    /// Creates an error that is caught as its message without prefix, and displayed with a prefix if uncaught.
    #[cold]
    pub fn plain(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Plain(text.into()))
    }

    /// Creates the error of a value that a script throws.
    pub fn thrown(value: impl Into<Value>) -> Error {
        Error::new(ErrorKind::Thrown(value.into()))
    }

    /// Creates an `Error [<category>]: <message>`.
    #[cold]
    pub fn category(category: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Category { category: category.to_owned(), message: message.into() })
    }

    /// Creates the error of `throw_error`, which throws the dict `{category, message}`.
    pub fn structured(category: &str, message: &str) -> Error {
        Error::thrown(Value::dict(
            [("category", category), ("message", message)].into_iter().collect::<Dict>(),
        ))
    }

    /// Returns whether it reports an effect in doubt: it is unknown whether the effect happened.
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

    /// Creates the error that ends the program with this exit code.
    pub fn exit(code: i32) -> Error {
        Error::new(ErrorKind::Exit(code))
    }

    /// Marks an error that is thrown from outside, into any running code.
    pub(crate) fn interrupting(mut self) -> Error {
        self.0.interruption = true;
        self
    }

    /// Returns whether it ends or interrupts the program, and therefore must not be dropped as an error of cleanup.
    pub fn is_interruption(&self) -> bool {
        self.0.interruption || matches!(self.0.kind, ErrorKind::Exit(_))
    }

    /// Marks an error that is detected at the declaration of a parameter, while the wrong value is in the call.
    pub(crate) fn of_parameter(mut self) -> Error {
        self.0.at_parameter = true;
        self
    }

    /// Splits the trace into the declaration of the parameter that received a wrong value, the location to display, and
    /// the calls that led there.
    pub fn places(&self) -> (Option<&TraceEntry>, Option<&TraceEntry>, &[TraceEntry]) {
        match &*self.0.trace {
            [declared, at, calls @ ..] if self.0.at_parameter => (Some(declared), Some(at), calls),
            [at, calls @ ..] => (None, Some(at), calls),
            [] => (None, None, &[]),
        }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the trace, innermost first.
    pub fn trace(&self) -> &[TraceEntry] {
        &self.0.trace
    }

    /// Adds an outer location.
    pub(crate) fn push_trace(&mut self, entry: TraceEntry) {
        self.0.trace.push(entry);
    }

    /// Records that it passed an instruction of the function at an address.
    pub(crate) fn pass(&mut self, function: *const (), pc: usize) {
        self.0.raw.push((function, pc as u32));
    }

    /// Returns whether the function at an address is the last that it passed.
    pub(crate) fn passed_last(&self, function: *const ()) -> bool {
        self.0.raw.last().is_some_and(|(last, _)| *last == function)
    }

    /// Resolves the locations passed so far.
    pub(crate) fn resolve_trace(&mut self, mut place: impl FnMut(*const (), usize) -> TraceEntry) {
        for (function, pc) in std::mem::take(&mut self.0.raw) {
            self.0.trace.push(place(function, pc as usize));
        }
    }

    /// Returns whether `catch` may handle it.
    pub fn is_catchable(&self) -> bool {
        !matches!(self.0.kind, ErrorKind::Exit(_) | ErrorKind::Abort)
    }

    /// Returns the value that `catch (e)` binds.
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

    /// Returns the message of an uncaught error, without the leading `error: ` and without the line.
    pub fn uncaught_text(&self) -> String {
        match &self.0.kind {
            ErrorKind::Thrown(v) => format!("Thrown: {}", harn_value::short(v, LONG)),
            ErrorKind::Plain(t) => format!("Runtime error: {t}"),
            _ => self.caught().to_string(),
        }
    }

    /// Returns whether the uncaught message includes ` (line N)`.
    pub fn shows_line(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Runtime(_) | ErrorKind::Type(_) | ErrorKind::Plain(_))
    }

    /// Formats the error for `parallel settle` and similar functions: `Thrown: boom`, or with ` (line N)` if `line` is
    /// known.
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
