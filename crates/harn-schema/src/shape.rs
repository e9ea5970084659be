//! What the values of options must look like, as data: the check at run time, its errors, and the words of `harn explain`.

use std::fmt;

use harn_value::Data as Value;

use crate::near::nearest;

/// A dict of data.
pub type Object = harn_value::data::Map<String, Value>;

/// What a value must look like. Nil fits everywhere: the option is then absent.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Anything; checked elsewhere.
    Any,
    /// True or false.
    Bool,
    /// Only false: it switches off what has no switch of its own.
    False,
    /// An int of at least this; `i64::MIN` takes all.
    Int(i64),
    /// An int or a float from here to there, both included; infinity is no end.
    Number(f64, f64),
    /// A string; a blank one counts as absent.
    Str,
    /// A string that is not blank.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of strings that are not blank, or one of them.
    Names,
    /// A closure.
    Closure,
    /// A list of these.
    List(&'static Shape),
    /// A dict with these fields and no others.
    Dict(&'static [(&'static str, Shape)]),
    /// A dict from any name to these.
    Map(&'static Shape),
    /// One of these.
    Either(&'static [Shape]),
    /// A value with rules of its own.
    Special(&'static SpecialShape),
}

/// The check of a value with rules of its own.
#[derive(Debug)]
pub struct SpecialShape {
    /// One value, in words.
    pub one: &'static str,
    /// Several of them, in words.
    pub many: &'static str,
    /// Checks the value of a place; `None` for a value of another kind.
    pub check: fn(&str, &Value) -> Option<Result<(), ShapeError>>,
}

use Shape::{
    Any, Bool, Closure, Dict, Either, False, Int, List, Map, Names, Number, Special, Str, Text, Word,
};

/// A value that has not the shape it must have; the display form names the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    /// The option with the fields and indices behind it.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.problem)
    }
}

impl std::error::Error for ShapeError {}

/// Returns the text of a value: strings as they are, nil, and other values as JSON.
pub fn display(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "nil".to_string(),
        Value::Opaque(opaque) => opaque.text.to_string(),
        other => other.to_string(),
    }
}

/// A value in an error: its type, and what it says when that is short.
pub fn shown(value: &Value) -> String {
    let (kind, text) = (value.type_name(), display(value));
    if value.is_null() || text.chars().count() > 40 { kind.to_owned() } else { format!("{kind} `{text}`") }
}

impl Shape {
    /// Returns what it takes, in words.
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
    /// The value, or something inside it, has another shape.
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

/// Checks the fields that a dict has; others are passed over.
///
/// # Errors
/// The first that is wrong, in the order of the fields.
pub fn check_fields(
    fields: impl IntoIterator<Item = (&'static str, Shape)>,
    given: &Object,
) -> Result<(), ShapeError> {
    fields.into_iter().try_for_each(|(name, shape)| match given.get(name) {
        Some(value) => shape.check(name, value),
        None => Ok(()),
    })
}

/// The error of a field that a dict does not have, with the one that was meant.
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
