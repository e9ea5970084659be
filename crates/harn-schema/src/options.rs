//! Option dicts described by a Rust struct: names, types, defaults, documentation and the parser are derived from
//! its fields (`#[derive(Options)]` of `harn-derive`).

use std::time::Duration;

pub use harn_derive::Options;
pub use harn_value::{Data, Value};
use harn_value::{Dict, List, Ref, Str};

pub use crate::shape::Object;
use crate::shape::{Shape, ShapeError, check_fields, display};

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
    /// The expected shape of its value, in a data dict.
    pub shape: Shape,
    /// Its names in other libraries.
    pub foreign: &'static [&'static str],
    /// Whether its value can only be checked together with other options.
    pub is_dependent: bool,
}

impl OptionField {
    /// Creates the description of an option that is parsed elsewhere.
    pub const fn named(name: &'static str) -> OptionField {
        let shape = Shape::Any;
        OptionField { name, ty: "any", doc: "", default: None, shape, foreign: &[], is_dependent: false }
    }

    /// Returns whether values are checked before they are parsed.
    pub fn has_shape(&self) -> bool {
        !matches!(self.shape, Shape::Any)
    }

    /// Returns a description of the accepted values: the shape or the type.
    pub fn takes(&self) -> String {
        match self.shape {
            Shape::Any => self.ty.trim_end_matches('?').to_owned(),
            shape => shape.words(),
        }
    }
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

/// A struct that describes a data dict of options (`#[options(data)]`) and stores its values.
///
/// ```
/// use harn_schema::options::{DataOptions, Options};
///
/// #[derive(Options)]
/// #[options(data)]
/// struct Sample {
///     /// How many.
///     #[option(range = 1.., default = 3, foreign = ["n"])]
///     count: u32,
/// }
/// assert_eq!(Sample::FIELDS[0].foreign, ["n"]);
/// ```
///
/// A `range` needs a lower bound, `one_of` accepts only strings, and without `data` a field cannot have a shape:
///
/// ```compile_fail
/// # use harn_schema::options::Options;
/// #[derive(Options)]
/// #[options(data)]
/// struct Sample {
///     /// How many.
///     #[option(range = ..3)]
///     count: u32,
/// }
/// ```
///
/// ```compile_fail
/// # use harn_schema::options::Options;
/// #[derive(Options)]
/// #[options(data)]
/// struct Sample {
///     /// Which.
///     #[option(one_of = [1, 2])]
///     which: String,
/// }
/// ```
///
/// ```compile_fail
/// # use harn_schema::options::Options;
/// #[derive(Options)]
/// struct Sample {
///     /// How many.
///     #[option(range = 1..)]
///     count: i64,
/// }
/// ```
pub trait DataOptions: Sized {
    /// The options in documentation order.
    const FIELDS: &'static [OptionField];

    /// Parses the options. Nil is treated as missing, unless a field has the key `nil`; unknown keys are ignored.
    ///
    /// # Errors
    /// Returns the name of the first option with an invalid value and what is expected.
    fn read(given: &Object) -> Result<Self, String>;
}

/// The Rust type of an option in a data dict.
pub trait FromData: Sized {
    /// The type in the notation of signatures.
    const TYPE: &'static str;
    /// The expected shape of a value.
    const SHAPE: Shape;

    /// Converts a value that has the option's shape; `None` if the value is treated as missing.
    fn from_data(value: &Data) -> Option<Self>;
}

macro_rules! from_data {
    ($($ty:ty, $name:literal, $shape:expr, $value:ident => $convert:expr;)*) => {$(
        impl FromData for $ty {
            const TYPE: &'static str = $name;
            const SHAPE: Shape = $shape;

            fn from_data($value: &Data) -> Option<$ty> {
                $convert
            }
        }
    )*};
}

from_data! {
    bool, "bool", Shape::Bool, value => value.as_bool();
    i64, "int", Shape::Int(i64::MIN), value => value.as_i64();
    u64, "int", Shape::Int(0), value => value.as_u64();
    u32, "int", Shape::Int(0), value => value.as_i64().map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX));
    usize, "int", Shape::Int(0), value => value.as_u64().and_then(|n| usize::try_from(n).ok());
    f64, "int | float", Shape::Number(f64::NEG_INFINITY, f64::INFINITY), value => value.as_f64();
    String, "string", Shape::Str, value => Some(display(value)).filter(|text| !text.is_empty());
    Data, "any", Shape::Any, value => Some(value.clone());
    // An option that is documented here but parsed elsewhere, or of which only the presence matters.
    (), "any", Shape::Any, _value => Some(());
    Object, "dict", Shape::Map(&Shape::Any), value => value.as_object().cloned();
}

/// A list of strings, or a single string.
impl FromData for Vec<String> {
    const TYPE: &'static str = "list<string> | string";
    const SHAPE: Shape = Shape::Names;

    fn from_data(value: &Data) -> Option<Vec<String>> {
        Some(match value {
            Data::Array(items) => items.iter().map(display).collect(),
            one => vec![display(one)],
        })
    }
}

impl FromData for Vec<Data> {
    const TYPE: &'static str = "list";
    const SHAPE: Shape = Shape::List(&Shape::Any);

    fn from_data(value: &Data) -> Option<Vec<Data>> {
        value.as_array().cloned()
    }
}

impl<T: FromData> FromData for Option<T> {
    const TYPE: &'static str = T::TYPE;
    const SHAPE: Shape = T::SHAPE;

    fn from_data(value: &Data) -> Option<Option<T>> {
        T::from_data(value).map(Some)
    }
}

/// Checks the options in `given` against their shapes; see [`DataOptions`].
///
/// # Errors
/// The first invalid value, in the order of `fields`.
pub fn check_options(fields: &[OptionField], given: &Object) -> Result<(), ShapeError> {
    check_fields(fields.iter().map(|field| (field.name, field.shape)), given)
}

/// Returns the value of an option for which nil is a valid value.
#[doc(hidden)]
pub fn given_data(given: &Object, name: &str, shape: Shape) -> Result<Option<Data>, String> {
    let Some(value) = given.get(name) else { return Ok(None) };
    shape.check(name, value).map(|()| Some(value.clone())).map_err(|wrong| wrong.to_string())
}

/// Parses an option of a data dict; `None` if it is missing or nil.
#[doc(hidden)]
pub fn read_data<T, E: std::fmt::Display>(
    given: &Object,
    name: &str,
    shape: Shape,
    from: impl FnOnce(&Data) -> Result<Option<T>, E>,
) -> Result<Option<T>, String> {
    let Some(value) = given.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    shape.check(name, value).map_err(|wrong| wrong.to_string())?;
    from(value).map_err(|wrong| wrong.to_string())
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
    let mut all = [OptionField::named(""); N];
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
