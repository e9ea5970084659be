//! Argument types of the builtin tables of this crate. Some are more lenient than the general conversions of the VM
//! (for example, a count that is not an int means the default).

use harn_value::{Str, Value};
use harn_vm::builtin::{ArgName, FromArg, Text};
use harn_vm::closure::acts_as_function;
use harn_vm::iter::Iter;
use harn_vm::{Error, Result};

/// An argument whose type the body checks; an explicit nil is treated as given.
pub(crate) struct Given(pub(crate) Option<Value>);

impl Given {
    /// Returns the argument, or nil if it was omitted.
    pub(crate) fn or_nil(self) -> Value {
        self.0.unwrap_or_default()
    }
}

impl FromArg for Given {
    const TYPE: &'static str = "any";
    const OWN_TYPE: bool = true;
    const OWN_MISSING: bool = true;
    fn from_arg(value: Value, _what: &ArgName) -> Result<Given> {
        Ok(Given(Some(value)))
    }
    fn missing(_what: &ArgName) -> Result<Given> {
        Ok(Given(None))
    }
}

/// An argument of the type in the table; the body reports a missing one with its own message.
pub(crate) struct Needed(pub(crate) Option<Value>);

impl Needed {
    /// Returns the printed form of the argument.
    pub(crate) fn text(self) -> Option<Str> {
        self.0.as_ref().map(printed)
    }
}

impl FromArg for Needed {
    const TYPE: &'static str = "any";
    const OWN_MISSING: bool = true;
    fn from_arg(value: Value, _what: &ArgName) -> Result<Needed> {
        Ok(Needed(Some(value)))
    }
    fn missing(_what: &ArgName) -> Result<Needed> {
        Ok(Needed(None))
    }
}

/// An optional int; any other value means the default.
#[derive(Clone, Copy)]
pub(crate) struct Int(pub(crate) Option<i64>);

impl Int {
    /// Returns the int or `default`.
    pub(crate) fn or(self, default: i64) -> i64 {
        self.0.unwrap_or(default)
    }

    /// Returns the int or `default`, at least 1.
    pub(crate) fn positive_or(self, default: i64) -> usize {
        size(self.or(default).max(1))
    }
}

impl FromArg for Int {
    const TYPE: &'static str = "int?";
    fn from_arg(value: Value, _what: &ArgName) -> Result<Int> {
        Ok(Int(value.as_int()))
    }
}

/// A time: a duration, or a number of milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Millis(pub(crate) Option<i64>);

impl FromArg for Millis {
    const TYPE: &'static str = "duration | int?";
    fn from_arg(value: Value, what: &ArgName) -> Result<Millis> {
        match value.as_duration().or_else(|| value.as_int()) {
            Some(ms) if ms < 0 => {
                Err(Error::runtime(format!("{}: {} must not be negative", what.builtin, what.param)))
            }
            ms => Ok(Millis(ms)),
        }
    }
}

/// A waiting time in milliseconds, from a duration or a number. It is 0 if omitted; nil is an error.
pub(crate) struct Wait(pub(crate) f64);

impl FromArg for Wait {
    const TYPE: &'static str = "duration | int | float";
    const OPTIONAL: bool = true;
    fn from_arg(value: Value, what: &ArgName) -> Result<Wait> {
        let ms = value.as_duration().map(|ms| ms as f64).or_else(|| value.as_number());
        ms.map(Wait).ok_or_else(|| what.expected(Self::TYPE, &value))
    }
    fn missing(_what: &ArgName) -> Result<Wait> {
        Ok(Wait(0.0))
    }
}

/// Joins the printed forms of values with spaces.
pub(crate) fn spaced(values: &[Value]) -> String {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        harn_value::print(value, &mut out);
    }
    out
}

/// Converts an int to a size; negative values become 0.
pub(crate) fn size(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// A text argument; the body reports a missing one with its own message.
pub(crate) struct MaybeText(pub(crate) Option<Str>);

impl FromArg for MaybeText {
    const TYPE: &'static str = "text";
    const OWN_MISSING: bool = true;
    fn from_arg(value: Value, what: &ArgName) -> Result<MaybeText> {
        Ok(MaybeText(Some(Text::from_arg(value, what)?.0)))
    }
    fn missing(_what: &ArgName) -> Result<MaybeText> {
        Ok(MaybeText(None))
    }
}

/// A path: a nonempty string. An empty path would mean the working directory, and nil a file named `nil`, which is
/// hardly ever intended.
pub(crate) struct PathArg(pub(crate) Str);

impl PathArg {
    /// Checks a path that was not a separate argument.
    ///
    /// # Errors
    /// `NAME: path is empty`
    pub(crate) fn checked(builtin: &str, path: Str) -> Result<PathArg> {
        if path.is_empty() {
            Err(Error::thrown(format!("{builtin}: path is empty")))
        } else {
            Ok(PathArg(path))
        }
    }
}

impl FromArg for PathArg {
    const TYPE: &'static str = "string";
    fn from_arg(value: Value, what: &ArgName) -> Result<PathArg> {
        PathArg::checked(what.builtin, Str::from_arg(value, what)?)
    }
}

impl From<&'static str> for PathArg {
    fn from(path: &'static str) -> PathArg {
        PathArg(Str::new(path))
    }
}

impl std::ops::Deref for PathArg {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A path; the body reports a missing one with its own message.
pub(crate) struct MaybePath(pub(crate) Option<PathArg>);

impl FromArg for MaybePath {
    const TYPE: &'static str = "string";
    const OWN_MISSING: bool = true;
    fn from_arg(value: Value, what: &ArgName) -> Result<MaybePath> {
        PathArg::from_arg(value, what).map(|path| MaybePath(Some(path)))
    }
    fn missing(_what: &ArgName) -> Result<MaybePath> {
        Ok(MaybePath(None))
    }
}

/// The receiver of an iterator method: an iterator, or any iterable value.
pub(crate) struct Items(pub(crate) Iter);

impl FromArg for Items {
    const TYPE: &'static str = "any";
    const OWN_TYPE: bool = true;
    fn from_arg(value: Value, _what: &ArgName) -> Result<Items> {
        Iter::over(&value).map(Items)
    }
}

/// Checks that an argument is callable; the error contains the name of the method.
pub(crate) fn callable(method: &str, f: &Value) -> Result<()> {
    if acts_as_function(f) { Ok(()) } else { Err(Error::type_error(format!("{method}: expected callable"))) }
}

/// Returns the printed form; strings are not copied.
pub(crate) fn printed(value: &Value) -> Str {
    match value.as_str() {
        Some(s) => s.clone(),
        None => {
            let mut out = String::new();
            harn_value::print(value, &mut out);
            Str::new(&out)
        }
    }
}

/// Checks that a result of `items` values fits into the memory limit.
pub(crate) fn room_for(items: usize) -> Result<()> {
    harn_value::memory::check(items.saturating_mul(size_of::<Value>())).map_err(Error::from)
}

/// Checks that a string of `bytes` bytes fits into the memory limit.
pub(crate) fn room_for_bytes(bytes: usize) -> Result<()> {
    harn_value::memory::check(bytes).map_err(Error::from)
}

pub(crate) use harn_value::with_stack;
