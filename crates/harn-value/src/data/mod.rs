//! Data: the representation of values in crates that do not run programs.
//!
//! Model calls, prompts and agent loops read options, tools and messages and write JSON. [`Data`] represents JSON, with
//! one addition: [`Data::Opaque`] replaces a value that JSON cannot represent (a closure, a set, a non-finite float),
//! with its type and its printed form. So code can distinguish a closure from a dict, and no key of a dict has a
//! special meaning. In JSON text an opaque value is `null`.
//!
//! ```
//! use harn_value::{Data, json};
//!
//! let tool = json!({"name": "find", "handler": Data::opaque("closure", "<fn(x)>")});
//! assert!(tool["handler"].is_closure() && !tool["handler"].is_object());
//! assert_eq!(tool.printed(), "{handler: <fn(x)>, name: find}");
//! assert_eq!(tool.to_string(), r#"{"name":"find","handler":null}"#);
//! ```

mod make;
mod map;
mod serialize;
mod text;

use serde_json::Number;

pub use make::ToData;

/// A dict of data, in insertion order.
pub type Map<K = String, V = Data> = map::Map<K, V>;

/// JSON data, with a placeholder for values that JSON cannot represent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Data {
    /// nil.
    #[default]
    Null,
    /// A bool.
    Bool(bool),
    /// An int, or a finite float.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Data>),
    /// A dict, or the fields of a struct.
    Object(Map),
    /// Anything else.
    Opaque(Box<Opaque>),
}

/// Description of a value that JSON cannot represent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// Name of its type in the language, such as `set` or `closure`.
    pub type_name: &'static str,
    /// Its printed form, such as `set(1, 2)`.
    pub text: Box<str>,
    /// ID under which the value itself is stored, if it is; only the code that stored it can resolve it.
    pub kept: Option<usize>,
}

/// An index into [`Data`]: a key or a position.
pub trait Place {
    /// Returns the part of `data` at this index.
    fn get(self, data: &Data) -> Option<&Data>;
    /// Like [`Place::get`], for writing.
    fn get_mut(self, data: &mut Data) -> Option<&mut Data>;
    /// Like [`Place::get_mut`]; creates a missing entry.
    fn made(self, data: &mut Data) -> &mut Data;
}

impl Place for &str {
    fn get(self, data: &Data) -> Option<&Data> {
        data.as_object()?.get(self)
    }

    fn get_mut(self, data: &mut Data) -> Option<&mut Data> {
        data.as_object_mut()?.get_mut(self)
    }

    fn made(self, data: &mut Data) -> &mut Data {
        if data.is_null() {
            *data = Data::Object(Map::new());
        }
        match data {
            Data::Object(map) => map.entry(self).or_default(),
            other => panic!("no dict to put {self:?} into: {}", other.type_name()),
        }
    }
}

/// Other string types as keys.
macro_rules! names {
    ($($name:ty),*) => {$(
        impl Place for $name {
            fn get(self, data: &Data) -> Option<&Data> {
                let name: &str = self;
                Place::get(name, data)
            }

            fn get_mut(self, data: &mut Data) -> Option<&mut Data> {
                let name: &str = self;
                Place::get_mut(name, data)
            }

            fn made(self, data: &mut Data) -> &mut Data {
                let name: &str = self;
                name.made(data)
            }
        }
    )*};
}

names!(&&str, &String);

impl Place for usize {
    fn get(self, data: &Data) -> Option<&Data> {
        data.as_array()?.get(self)
    }

    fn get_mut(self, data: &mut Data) -> Option<&mut Data> {
        data.as_array_mut()?.get_mut(self)
    }

    fn made(self, data: &mut Data) -> &mut Data {
        match data {
            Data::Array(items) => &mut items[self],
            other => panic!("no list with an item {self}: {}", other.type_name()),
        }
    }
}

impl<P: Place> std::ops::Index<P> for Data {
    type Output = Data;

    /// Returns the part at this index, null if missing.
    fn index(&self, place: P) -> &Data {
        static NULL: Data = Data::Null;
        place.get(self).unwrap_or(&NULL)
    }
}

impl<P: Place> std::ops::IndexMut<P> for Data {
    fn index_mut(&mut self, place: P) -> &mut Data {
        place.made(self)
    }
}

impl Data {
    /// Creates a placeholder for a value that JSON cannot represent.
    #[must_use]
    pub fn opaque(type_name: &'static str, text: &str) -> Data {
        Data::Opaque(Box::new(Opaque { type_name, text: text.into(), kept: None }))
    }

    /// Returns the part at an index, if it exists.
    pub fn get(&self, place: impl Place) -> Option<&Data> {
        place.get(self)
    }

    /// Returns the part at an index for writing.
    pub fn get_mut(&mut self, place: impl Place) -> Option<&mut Data> {
        place.get_mut(self)
    }

    /// Moves the value out, leaving null.
    pub fn take(&mut self) -> Data {
        std::mem::take(self)
    }

    /// Returns the part at a JSON pointer such as `/a/0`.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Data> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |data, part| match data {
            Data::Object(map) => map.get(part.replace("~1", "/").replace("~0", "~").as_str()),
            Data::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns the description of an opaque value.
    #[must_use]
    pub fn as_opaque(&self) -> Option<&Opaque> {
        match self {
            Data::Opaque(opaque) => Some(opaque),
            _ => None,
        }
    }

    /// Returns whether it represents a callable value.
    #[must_use]
    pub fn is_closure(&self) -> bool {
        self.as_opaque().is_some_and(|opaque| matches!(opaque.type_name, "closure" | "builtin"))
    }

    /// Returns whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Data::Null)
    }

    /// Returns whether it is a bool.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        matches!(self, Data::Bool(_))
    }

    /// Returns whether it is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Data::Number(_))
    }

    /// Returns whether it is a 64-bit int.
    #[must_use]
    pub fn is_i64(&self) -> bool {
        matches!(self, Data::Number(number) if number.is_i64())
    }

    /// Returns whether it is a non-negative 64-bit int.
    #[must_use]
    pub fn is_u64(&self) -> bool {
        matches!(self, Data::Number(number) if number.is_u64())
    }

    /// Returns whether it is a float.
    #[must_use]
    pub fn is_f64(&self) -> bool {
        matches!(self, Data::Number(number) if number.is_f64())
    }

    /// Returns whether it is a string.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Data::String(_))
    }

    /// Returns whether it is a list.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Data::Array(_))
    }

    /// Returns whether it is a dict.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Data::Object(_))
    }

    /// Returns the bool, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Data::Bool(bool) => Some(*bool),
            _ => None,
        }
    }

    /// Returns the number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Data::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the int, if it is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// Returns the int, if it is one and not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// Returns the number as a float.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// Returns the string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Data::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Data>> {
        match self {
            Data::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items for writing.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Data>> {
        match self {
            Data::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the entries, if it is a dict.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Data::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the entries for writing.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Data::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the name of its type in the language.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Data::Null => "nil",
            Data::Bool(_) => "bool",
            Data::Number(number) if number.is_f64() => "float",
            Data::Number(_) => "int",
            Data::String(_) => "string",
            Data::Array(_) => "list",
            Data::Object(_) => "dict",
            Data::Opaque(opaque) => opaque.type_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn an_opaque_value_is_no_dict_and_no_key_makes_one() {
        let set = Data::opaque("set", "set(1, 2)");
        assert_eq!((set.type_name(), set.as_object(), set.is_closure()), ("set", None, false));
        assert_eq!(json!([set, 1]).printed(), "[set(1, 2), 1]");
        for text in [r#"{"\u0000harn":["closure","f"]}"#, r#"{"\u0000kept":0}"#] {
            let data: Data = serde_json::from_str(text).unwrap();
            assert!(data.is_object() && data.as_opaque().is_none(), "{text}");
            assert_eq!(serde_json::to_string(&data).unwrap(), text);
        }
    }

    #[test]
    fn the_printed_form_is_the_languages_own() {
        let data = json!({"b": [1, 2.0, "a", null], "a": true, "c": {"x": 1e300}, "d": 0.1});
        let long = format!("{}", 1e300);
        assert_eq!(data.printed(), format!("{{a: true, b: [1, 2.0, a, nil], c: {{x: {long}}}, d: 0.1}}"));
        assert_eq!(json!(1e15).printed(), "1000000000000000");
        assert_eq!(json!(-0.0).printed(), "-0.0");
        assert_eq!(json!(u64::MAX).printed(), "18446744073709551615");
    }

    #[test]
    fn parts_are_found_made_and_taken() {
        let mut data = json!({"a": [{"b": 1}, "x"], "m/n": {"~": 2}});
        assert_eq!(data["a"][0]["b"], 1);
        assert_eq!((&data["no"]["such"], &data["a"][9]), (&Data::Null, &Data::Null));
        assert_eq!(data.pointer("/a/0/b"), Some(&json!(1)));
        assert_eq!(data.pointer("/m~1n/~0"), Some(&json!(2)));
        assert_eq!((data.pointer("a"), data.pointer("/a/7")), (None, None));
        data["new"]["deep"] = json!(true);
        data["a"][1] = json!("y");
        assert_eq!(data["new"].take(), json!({"deep": true}));
        assert_eq!(data, json!({"m/n": {"~": 2}, "a": [{"b": 1}, "y"], "new": null}));
    }
}
