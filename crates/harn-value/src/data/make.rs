//! Creation of data: from Rust types, and as literals with [`json!`](crate::json!).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Number;

use super::{Data, Map};

/// A type that may be used as an expression in [`json!`](crate::json!).
pub trait ToData {
    /// Returns a copy as data.
    fn to_data(&self) -> Data;
}

impl ToData for Data {
    fn to_data(&self) -> Data {
        self.clone()
    }
}

impl ToData for Map {
    fn to_data(&self) -> Data {
        Data::Object(self.clone())
    }
}

impl ToData for str {
    fn to_data(&self) -> Data {
        Data::String(self.to_owned())
    }
}

impl ToData for String {
    fn to_data(&self) -> Data {
        Data::String(self.clone())
    }
}

impl ToData for Number {
    fn to_data(&self) -> Data {
        Data::Number(self.clone())
    }
}

impl ToData for serde_json::Value {
    fn to_data(&self) -> Data {
        Data::from(self.clone())
    }
}

impl ToData for () {
    fn to_data(&self) -> Data {
        Data::Null
    }
}

impl<T: ToData + ?Sized> ToData for &T {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData + ?Sized> ToData for &mut T {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData + ?Sized> ToData for Rc<T> {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData + ?Sized> ToData for Arc<T> {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData + ?Sized> ToData for Box<T> {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData + ToOwned + ?Sized> ToData for Cow<'_, T> {
    fn to_data(&self) -> Data {
        (**self).to_data()
    }
}

impl<T: ToData> ToData for Option<T> {
    fn to_data(&self) -> Data {
        self.as_ref().map_or(Data::Null, T::to_data)
    }
}

impl<T: ToData> ToData for [T] {
    fn to_data(&self) -> Data {
        Data::Array(self.iter().map(T::to_data).collect())
    }
}

impl<T: ToData, const N: usize> ToData for [T; N] {
    fn to_data(&self) -> Data {
        self.as_slice().to_data()
    }
}

impl<T: ToData> ToData for Vec<T> {
    fn to_data(&self) -> Data {
        self.as_slice().to_data()
    }
}

impl<T: ToData> ToData for std::collections::BTreeSet<T> {
    fn to_data(&self) -> Data {
        Data::Array(self.iter().map(T::to_data).collect())
    }
}

impl<K: AsRef<str>, T: ToData> ToData for BTreeMap<K, T> {
    fn to_data(&self) -> Data {
        self.iter().map(|(key, value)| (key.as_ref(), value.to_data())).collect()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Data {
            fn from(number: $number) -> Data {
                Data::Number(number.into())
            }
        }

        impl ToData for $number {
            fn to_data(&self) -> Data {
                Data::from(*self)
            }
        }

        impl PartialEq<$number> for Data {
            fn eq(&self, other: &$number) -> bool {
                self.as_number() == Some(&Number::from(*other))
            }
        }

        impl PartialEq<Data> for $number {
            fn eq(&self, other: &Data) -> bool {
                other == self
            }
        }
    )*};
}

numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<f64> for Data {
    /// Non-finite floats become null, as in JSON.
    fn from(float: f64) -> Data {
        Number::from_f64(float).map_or(Data::Null, Data::Number)
    }
}

impl From<f32> for Data {
    fn from(float: f32) -> Data {
        f64::from(float).into()
    }
}

impl ToData for f64 {
    fn to_data(&self) -> Data {
        Data::from(*self)
    }
}

impl ToData for f32 {
    fn to_data(&self) -> Data {
        Data::from(*self)
    }
}

impl ToData for bool {
    fn to_data(&self) -> Data {
        Data::Bool(*self)
    }
}

impl From<bool> for Data {
    fn from(bool: bool) -> Data {
        Data::Bool(bool)
    }
}

impl From<Number> for Data {
    fn from(number: Number) -> Data {
        Data::Number(number)
    }
}

impl From<&str> for Data {
    fn from(text: &str) -> Data {
        Data::String(text.to_owned())
    }
}

impl From<String> for Data {
    fn from(text: String) -> Data {
        Data::String(text)
    }
}

impl From<Cow<'_, str>> for Data {
    fn from(text: Cow<'_, str>) -> Data {
        Data::String(text.into_owned())
    }
}

impl From<Map> for Data {
    fn from(map: Map) -> Data {
        Data::Object(map)
    }
}

impl From<()> for Data {
    fn from((): ()) -> Data {
        Data::Null
    }
}

impl<T: Into<Data>> From<Option<T>> for Data {
    fn from(value: Option<T>) -> Data {
        value.map_or(Data::Null, Into::into)
    }
}

impl<T: Into<Data>> From<Vec<T>> for Data {
    fn from(items: Vec<T>) -> Data {
        items.into_iter().collect()
    }
}

impl<T: Into<Data>, const N: usize> From<[T; N]> for Data {
    fn from(items: [T; N]) -> Data {
        items.into_iter().collect()
    }
}

impl<T: Into<Data> + Clone> From<&[T]> for Data {
    fn from(items: &[T]) -> Data {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Data>> FromIterator<T> for Data {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Data {
        Data::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<String>, V: Into<Data>> FromIterator<(K, V)> for Data {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Data {
        Data::Object(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

macro_rules! equals {
    ($($other:ty => |$data:ident, $value:ident| $equal:expr;)*) => {$(
        impl PartialEq<$other> for Data {
            fn eq(&self, other: &$other) -> bool {
                let ($data, $value) = (self, other);
                $equal
            }
        }

        impl PartialEq<Data> for $other {
            fn eq(&self, other: &Data) -> bool {
                other == self
            }
        }
    )*};
}

equals! {
    str => |data, text| data.as_str() == Some(text);
    &str => |data, text| data.as_str() == Some(*text);
    String => |data, text| data.as_str() == Some(text.as_str());
    bool => |data, bool| data.as_bool() == Some(*bool);
    f64 => |data, float| data.as_f64() == Some(*float);
}

/// A data literal: `json!({"name": name, "tags": [1, null, {"deep": true}]})`. An expression may have any type that
/// implements [`ToData`]; it is copied.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Data::Null };
    ([]) => { $crate::Data::Array(Vec::new()) };
    ([ $($items:tt)+ ]) => { $crate::json!(@items [] $($items)+) };
    ({}) => { $crate::Data::Object($crate::data::Map::new()) };
    ({ $($entries:tt)+ }) => {{
        let mut map = $crate::data::Map::new();
        $crate::json!(@entries map $($entries)+);
        $crate::Data::Object(map)
    }};

    (@items [$($done:expr),*]) => { $crate::Data::Array(vec![$($done),*]) };
    (@items [$($done:expr),*] null $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::Data::Null] $($($rest)*)?)
    };
    (@items [$($done:expr),*] [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!([$($inner)*])] $($($rest)*)?)
    };
    (@items [$($done:expr),*] {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!({$($inner)*})] $($($rest)*)?)
    };
    (@items [$($done:expr),*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::data::ToData::to_data(&$item)] $($($rest)*)?)
    };

    (@entries $map:ident) => {};
    (@entries $map:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($key.into(), $crate::Data::Null);
        $crate::json!(@entries $map $($($rest)*)?);
    };
    (@entries $map:ident $key:tt : [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $map.insert($key.into(), $crate::json!([$($inner)*]));
        $crate::json!(@entries $map $($($rest)*)?);
    };
    (@entries $map:ident $key:tt : {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $map.insert($key.into(), $crate::json!({$($inner)*}));
        $crate::json!(@entries $map $($($rest)*)?);
    };
    (@entries $map:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($key.into(), $crate::data::ToData::to_data(&$value));
        $crate::json!(@entries $map $($($rest)*)?);
    };

    ($value:expr) => { $crate::data::ToData::to_data(&$value) };
}

#[cfg(test)]
mod tests {
    use crate::Data;

    #[test]
    fn what_is_written_is_what_is_made() {
        let (name, list, none) = ("n".to_owned(), vec![1, 2], None::<&str>);
        let key = "k".to_owned();
        let data = json!({
            "name": name, "list": list, "none": none, (key): [null, [], {}, {"x": [1.5, -1]}, &name],
            "call": list.len(), "last": [1, 2].len(),
        });
        let text =
            r#"{"name":"n","list":[1,2],"none":null,"k":[null,[],{},{"x":[1.5,-1]},"n"],"call":2,"last":2}"#;
        assert_eq!(data.to_string(), text);
        assert_eq!(json!(f64::NAN), Data::Null);
        assert_eq!((json!(3), json!("a"), json!(null)), (3.into(), "a".into(), Data::Null));
    }

    #[test]
    fn data_is_small() {
        assert!(size_of::<Data>() <= 32);
    }
}
