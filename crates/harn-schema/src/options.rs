//! Option dicts described by a Rust struct: names, types, defaults, documentation and the parser are derived from
//! its fields (`#[derive(Options)]` of `harn-derive`).

use std::time::Duration;

pub use harn_derive::Options;
pub use harn_value::Value;
use harn_value::{Dict, List, Ref, Str};

/// The description of an option.
#[derive(Debug, Clone, Copy)]
pub struct OptionField {
    /// Its name.
    pub name: &'static str,
    /// Its type in the notation of signatures.
    pub ty: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// Its documented default; `None` for optional values.
    pub default: Option<&'static str>,
}

/// A struct that describes an option dict and stores its values.
pub trait Options: Sized {
    /// The options in documentation order.
    const FIELDS: &'static [OptionField];
    /// The type of the dict in the notation of signatures: `{width?: int, height?: int}`, with a trailing `?` as
    /// for an optional argument.
    const TYPE: &'static str;
    /// Whether the builtin throws an error for invalid values.
    const IS_THROWN: bool;
    /// Whether the builtin also throws its own error if the value is not a dict, instead of a type error of the
    /// call.
    const OWN_TYPE: bool;
    /// The option whose value can be passed instead of the dict.
    const SHORT: Option<&'static str>;

    /// Parses the options. Their names and types have already been checked against [`Options::TYPE`].
    ///
    /// # Errors
    /// Returns the name of the first option with an invalid value and what is expected.
    fn read(given: &Entries<'_>) -> Result<Self, String>;
}

/// The Rust type of an option.
pub trait FromOption: Sized {
    /// The type in the notation of signatures.
    const TYPE: &'static str;
    /// The documented value of a missing option.
    const MISSING: Option<&'static str> = None;

    /// Parses a value that is not nil.
    ///
    /// # Errors
    /// Returns what is expected: `must be a positive int`.
    fn from_option(value: &Value) -> Result<Self, String>;
}

/// The entries of an option dict passed by the caller.
pub enum Entries<'a> {
    /// No options.
    None,
    /// A dict.
    Dict(&'a Dict),
    /// The value of one option instead of a dict.
    Short(&'static str, &'a Value),
}

impl Entries<'_> {
    /// Parses an option; `None` if it is missing or nil.
    ///
    /// # Errors
    /// Returns the name of the option and the problem with its value.
    pub fn read<T>(
        &self,
        name: &str,
        from: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.get(name).filter(|value| !value.is_nil()) {
            Some(value) => from(value).map(Some).map_err(|wrong| match wrong.starts_with(['.', ':']) {
                // A problem in a nested option, or an explanation.
                true => format!("{name}{wrong}"),
                false => format!("{name} {wrong}"),
            }),
            None => Ok(None),
        }
    }

    /// Returns the value of an option for which nil is a valid value.
    pub fn given(&self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Entries::None => None,
            Entries::Dict(dict) => dict.get_str(name),
            Entries::Short(of, value) => (*of == name).then_some(*value),
        }
    }
}

/// Parses an option dict; nil is equivalent to an empty one.
///
/// # Errors
/// Returns the name of the first invalid option and what is expected.
pub fn read<T: Options>(value: &Value) -> Result<T, String> {
    match (value.to_dict(), T::SHORT) {
        (Some(dict), _) => T::read(&Entries::Dict(&dict)),
        (None, Some(short)) if !value.is_nil() => T::read(&Entries::Short(short, value)),
        (None, _) => T::read(&Entries::None),
    }
}

/// Parses a dict nested in another option.
///
/// # Errors
/// Like [`read`], with the problem marked as nested in the outer option.
pub fn within<T: Options>(value: &Value) -> Result<T, String> {
    if value.to_dict().is_none() && T::SHORT.is_none() {
        return Err(format!("must be a dict, got {}", value.type_name()));
    }
    read(value).map_err(|wrong| format!(".{wrong}"))
}

macro_rules! from_option {
    ($($ty:ty, $name:literal, $value:ident => $convert:expr;)*) => {$(
        impl FromOption for $ty {
            const TYPE: &'static str = $name;

            fn from_option($value: &Value) -> Result<$ty, String> {
                $convert.ok_or_else(|| format!("must be {}, got {}", $name, $value.type_name()))
            }
        }
    )*};
}

from_option! {
    i64, "int", value => value.as_int();
    f64, "int | float", value => value.as_number();
    Str, "string", value => value.as_str().cloned();
    String, "string", value => value.as_str().map(|text| text.to_string());
    Ref<Dict>, "dict", value => value.to_dict();
    Ref<List>, "list", value => value.as_list().cloned();
    Value, "any", value => Some(value.clone());
}

impl FromOption for bool {
    const TYPE: &'static str = "bool";
    const MISSING: Option<&'static str> = Some("false");

    fn from_option(value: &Value) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| format!("must be bool, got {}", value.type_name()))
    }
}

impl<T: FromOption> FromOption for Option<T> {
    const TYPE: &'static str = T::TYPE;

    fn from_option(value: &Value) -> Result<Option<T>, String> {
        T::from_option(value).map(Some)
    }
}

/// A timeout or interval: a duration, or a number of milliseconds.
impl FromOption for Duration {
    const TYPE: &'static str = "duration | int";

    fn from_option(value: &Value) -> Result<Duration, String> {
        let ms = value.as_duration().or_else(|| value.as_int()).and_then(|ms| u64::try_from(ms).ok());
        ms.map(Duration::from_millis)
            .ok_or_else(|| "must be a duration or a number of milliseconds".to_owned())
    }
}

/// Returns the number of options in all groups.
#[doc(hidden)]
pub const fn count(groups: &[&[OptionField]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < groups.len() {
        sum += groups[at].len();
        at += 1;
    }
    sum
}

/// Returns the options of all groups.
#[doc(hidden)]
pub const fn joined<const N: usize>(groups: &[&[OptionField]]) -> [OptionField; N] {
    let mut all = [OptionField { name: "", ty: "", doc: "", default: None }; N];
    let (mut end, mut group) = (0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            all[end] = groups[group][at];
            end += 1;
            at += 1;
        }
        group += 1;
    }
    all
}

/// Returns the option with this name.
const fn option_of<'a>(fields: &'a [OptionField], name: &str) -> &'a OptionField {
    let mut at = 0;
    while at < fields.len() {
        let (known, name) = (fields[at].name.as_bytes(), name.as_bytes());
        let mut end = 0;
        while end < name.len() && end < known.len() && name[end] == known[end] {
            end += 1;
        }
        if end == name.len() && end == known.len() {
            return &fields[at];
        }
        at += 1;
    }
    panic!("the short form names an option")
}

/// A string built by constant functions. With `N` = 0 only its length is computed.
struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    const fn push(mut self, part: &str) -> Text<N> {
        let bytes = part.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if self.len < N {
                self.bytes[self.len] = bytes[at];
            }
            self.len += 1;
            at += 1;
        }
        self
    }
}

/// Returns the type of a dict with these options, `{name?: type, ...}?`, preceded by the type of the short form.
const fn write<const N: usize>(short: Option<&str>, fields: &[OptionField]) -> Text<N> {
    let mut text = Text { bytes: [0; N], len: 0 };
    if let Some(name) = short {
        text = text.push(option_of(fields, name).ty).push(" | ");
    }
    text = text.push("{");
    let mut at = 0;
    while at < fields.len() {
        if at > 0 {
            text = text.push(", ");
        }
        text = text.push(fields[at].name).push("?: ").push(fields[at].ty);
        at += 1;
    }
    text.push("}?")
}

/// Returns the length of [`notation`].
#[doc(hidden)]
pub const fn notation_len(short: Option<&str>, fields: &[OptionField]) -> usize {
    write::<0>(short, fields).len
}

/// Returns the type of a dict with these options in the notation of signatures.
#[doc(hidden)]
pub const fn notation<const N: usize>(short: Option<&str>, fields: &[OptionField]) -> [u8; N] {
    write::<N>(short, fields).bytes
}

/// Converts the notation to a string.
#[doc(hidden)]
pub const fn as_text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("names and types of options are text"),
    }
}
