//! Shapes: expected values of options, described as data. They are used for checks at run time, for error messages and
//! for the descriptions of `harn explain`.

use std::fmt;

use harn_value::Data as Value;

use crate::near::nearest;

/// A dict of data.
pub type Object = harn_value::data::Map<String, Value>;

/// The expected form of a value. Every shape accepts nil, which means that the option is absent.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Any value; it is checked elsewhere.
    Any,
    /// True or false.
    Bool,
    /// Only false, for features that can be turned off but have no separate switch.
    False,
    /// An int with this minimum; `i64::MIN` accepts all ints.
    Int(i64),
    /// An int or a float in this inclusive range; infinity means no bound.
    Number(f64, f64),
    /// A string. An empty one is treated as absent by options of type `String`.
    Str,
    /// A string that does not consist of whitespace only.
    Text,
    /// One of these strings.
    Word(&'static [&'static str]),
    /// A list of such strings, or a single one.
    Names,
    /// A closure.
    Closure,
    /// A list of values of this shape.
    List(&'static Shape),
    /// A dict with these fields and no others.
    Dict(&'static [(&'static str, Shape)]),
    /// A dict with any keys and with values of this shape.
    Map(&'static Shape),
    /// A value of one of these shapes.
    Either(&'static [Shape]),
    /// A value with a custom check.
    Special(&'static SpecialShape),
}

/// A custom check and the description of its values.
#[derive(Debug)]
pub struct SpecialShape {
    /// The description of one value.
    pub one: &'static str,
    /// The description of several values.
    pub many: &'static str,
    /// Checks the value at a place; returns `None` for a value of the wrong type.
    pub check: fn(&str, &Value) -> Option<Result<(), ShapeError>>,
}

use Shape::{
    Any, Bool, Closure, Dict, Either, False, Int, List, Map, Names, Number, Special, Str, Text, Word,
};

/// The error of a value that does not have the expected shape. Its display form starts with the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    /// The name of the option, followed by the fields and indices that lead to the value.
    pub place: String,
    /// The description of the problem.
    pub problem: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.problem)
    }
}

impl std::error::Error for ShapeError {}

/// Returns the display string of a value: strings and opaque values as their text, null as `nil`, and other values as
/// JSON.
pub fn display(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "nil".to_string(),
        Value::Opaque(opaque) => opaque.text.to_string(),
        other => other.to_string(),
    }
}

/// Returns the description of a value in an error: its type, and its display string if it is short.
pub fn shown(value: &Value) -> String {
    let (kind, text) = (value.type_name(), display(value));
    if value.is_null() || text.chars().count() > 40 { kind.to_owned() } else { format!("{kind} `{text}`") }
}

impl Shape {
    /// Returns the description of the accepted values.
    pub fn words(&self) -> String {
        match self {
            Any => "any value".to_owned(),
            Bool => "a bool".to_owned(),
            False => "false".to_owned(),
            Int(i64::MIN) => "an int".to_owned(),
            Int(least) => format!("an int of at least {least}"),
            Number(least, most) if most.is_finite() => format!("a number from {least} to {most}"),
            Number(least, _) if least.is_finite() => format!("a number of at least {least}"),
            Number(..) => "a number".to_owned(),
            Str => "a string".to_owned(),
            Text => "a string that is not blank".to_owned(),
            Word(words) => format!("one of {}", words.join(", ")),
            Names => "a list of strings".to_owned(),
            Closure => "a closure".to_owned(),
            List(Str) => "a list of strings".to_owned(),
            List(Special(special)) => format!("a list of {}", special.many),
            List(_) => "a list".to_owned(),
            Special(special) => special.one.to_owned(),
            Dict(_) | Map(_) => "a dict".to_owned(),
            Either(shapes) => shapes.iter().map(Shape::words).collect::<Vec<_>>().join(" or "),
        }
    }

    /// Checks the value of the option or field `place`.
    ///
    /// # Errors
    /// The value, or a value nested in it, has another shape.
    pub fn check(&self, place: &str, value: &Value) -> Result<(), ShapeError> {
        let wrong = || {
            let problem = format!("must be {}, got {}", self.words(), shown(value));
            Err(ShapeError { place: place.to_string(), problem })
        };
        if value.is_null() {
            return Ok(());
        }
        let name = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        match self {
            Any => Ok(()),
            Bool if value.is_boolean() => Ok(()),
            Bool => wrong(),
            False if value.as_bool() == Some(false) => Ok(()),
            False => wrong(),
            Number(least, most) if value.as_f64().is_some_and(|n| (*least..=*most).contains(&n)) => Ok(()),
            Number(..) => wrong(),
            Special(special) => (special.check)(place, value).unwrap_or_else(wrong),
            Int(least) if value.as_i64().is_some_and(|n| n >= *least) => Ok(()),
            Int(_) => wrong(),
            Str if value.is_string() => Ok(()),
            Str => wrong(),
            Text if name(value) => Ok(()),
            Text => wrong(),
            Word(words) if value.as_str().is_some_and(|word| words.contains(&word)) => Ok(()),
            Word(_) => wrong(),
            Names if name(value) => Ok(()),
            Names => match value.as_array().map(|list| list.iter().position(|item| !name(item))) {
                None => wrong(),
                Some(None) => Ok(()),
                Some(Some(at)) => {
                    let item = value.get(at).unwrap_or(&Value::Null);
                    let problem = format!("must be a string that is not blank, got {}", shown(item));
                    Err(ShapeError { place: format!("{place}[{at}]"), problem })
                }
            },
            Either(shapes) if shapes.iter().any(|shape| shape.check(place, value).is_ok()) => Ok(()),
            Either(_) => wrong(),
            Closure if value.as_opaque().is_some() => Ok(()),
            Closure => wrong(),
            List(inner) => match value.as_array() {
                None => wrong(),
                Some(list) => list
                    .iter()
                    .enumerate()
                    .try_for_each(|(at, item)| inner.check(&format!("{place}[{at}]"), item)),
            },
            Map(inner) => match value.as_object() {
                None => wrong(),
                Some(map) => {
                    map.iter().try_for_each(|(key, item)| inner.check(&format!("{place}.{key}"), item))
                }
            },
            Dict(fields) => match value.as_object() {
                None => wrong(),
                Some(map) => {
                    map.iter().try_for_each(|(key, item)| match fields.iter().find(|(name, _)| name == key) {
                        Some((_, shape)) => shape.check(&format!("{place}.{key}"), item),
                        None => Err(unknown_field(place, key, fields.iter().map(|(name, _)| *name))),
                    })
                }
            },
        }
    }
}

/// Checks the values of known fields in a dict; other keys are ignored.
///
/// # Errors
/// The first invalid value, in the order of `fields`.
pub fn check_fields(
    fields: impl IntoIterator<Item = (&'static str, Shape)>,
    given: &Object,
) -> Result<(), ShapeError> {
    fields.into_iter().try_for_each(|(name, shape)| match given.get(name) {
        Some(value) => shape.check(name, value),
        None => Ok(()),
    })
}

/// Returns the error of an unknown field, with a suggestion or the list of known fields.
pub fn unknown_field<'n>(
    place: &str,
    key: &str,
    fields: impl Iterator<Item = &'n str> + Clone,
) -> ShapeError {
    let names = || fields.clone();
    let hint = match nearest(key, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
    };
    ShapeError { place: place.to_string(), problem: format!("has no field `{key}`; {hint}") }
}
