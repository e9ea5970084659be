//! Converts Rust structures to data, without loss or with an error.

use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::{Data, Map};

/// The name of the unit struct as which opaque data serializes itself. Text formats write `null`.
pub(super) const OPAQUE: &str = "$harn_opaque";

type Result<T = Data> = std::result::Result<T, Error>;

/// Serializes one value to data.
pub(super) struct ToTree;

fn int<N: Copy + std::fmt::Display + TryInto<i64>>(number: N) -> Result {
    match number.try_into() {
        Ok(int) => Ok(int.into()),
        Err(_) => Err(Error::custom(format!("integer {number} does not fit into 64 signed bits"))),
    }
}

/// `{variant: value}`
fn tagged(variant: &str, value: Data) -> Data {
    [(variant, value)].into_iter().collect()
}

impl Serializer for ToTree {
    type Ok = Data;
    type Error = Error;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Entries;
    type SerializeStruct = Entries;
    type SerializeStructVariant = Entries;

    fn serialize_bool(self, bool: bool) -> Result {
        Ok(bool.into())
    }

    fn serialize_i8(self, number: i8) -> Result {
        int(number)
    }

    fn serialize_i16(self, number: i16) -> Result {
        int(number)
    }

    fn serialize_i32(self, number: i32) -> Result {
        int(number)
    }

    fn serialize_i64(self, number: i64) -> Result {
        int(number)
    }

    fn serialize_i128(self, number: i128) -> Result {
        int(number)
    }

    fn serialize_u8(self, number: u8) -> Result {
        int(number)
    }

    fn serialize_u16(self, number: u16) -> Result {
        int(number)
    }

    fn serialize_u32(self, number: u32) -> Result {
        int(number)
    }

    fn serialize_u64(self, number: u64) -> Result {
        int(number)
    }

    fn serialize_u128(self, number: u128) -> Result {
        int(number)
    }

    fn serialize_f32(self, float: f32) -> Result {
        self.serialize_f64(float.into())
    }

    fn serialize_f64(self, float: f64) -> Result {
        if float.is_finite() {
            Ok(float.into())
        } else {
            Err(Error::custom(format!("{float} cannot be represented in JSON")))
        }
    }

    fn serialize_char(self, char: char) -> Result {
        Ok(Data::String(char.into()))
    }

    fn serialize_str(self, text: &str) -> Result {
        Ok(text.into())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result {
        Ok(bytes.into())
    }

    fn serialize_none(self) -> Result {
        Ok(Data::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result {
        Ok(Data::Null)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result {
        if name == OPAQUE {
            return Err(Error::custom("a runtime value such as a closure cannot be represented in JSON"));
        }
        Ok(Data::Null)
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result {
        Ok(tagged(variant, value.serialize(ToTree)?))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Items> {
        Ok(Items { variant: None, items: Vec::new() })
    }

    fn serialize_tuple(self, len: usize) -> Result<Items> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<Items> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items> {
        Ok(Items { variant: Some(variant), items: Vec::new() })
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Entries> {
        Ok(Entries { variant: None, map: Map::new(), key: None })
    }

    fn serialize_struct(self, _name: &'static str, len: usize) -> Result<Entries> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Entries> {
        Ok(Entries { variant: Some(variant), map: Map::new(), key: None })
    }
}

/// A list under construction; that of an enum variant is nested under the variant's name.
pub(super) struct Items {
    variant: Option<&'static str>,
    items: Vec<Data>,
}

impl Items {
    fn add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<()> {
        self.items.push(item.serialize(ToTree)?);
        Ok(())
    }

    fn finish(self) -> Result {
        let items = Data::Array(self.items);
        Ok(match self.variant {
            Some(variant) => tagged(variant, items),
            None => items,
        })
    }
}

/// Implements the traits of lists and tuples.
macro_rules! items {
    ($($name:ident $add:ident),*) => {$(
        impl $name for Items {
            type Ok = Data;
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<()> {
                self.add(item)
            }

            fn end(self) -> Result {
                self.finish()
            }
        }
    )*};
}

items!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// A dict under construction; that of an enum variant is nested under the variant's name.
pub(super) struct Entries {
    variant: Option<&'static str>,
    map: Map,
    key: Option<String>,
}

impl Entries {
    fn add<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<()> {
        let value = value.serialize(ToTree)?;
        // Keys of different types can have the same string: `1` and `"1"`.
        match self.map.insert(key.clone(), value) {
            None => Ok(()),
            Some(_) => Err(Error::custom(format!("two keys have the string `{key}`"))),
        }
    }

    fn finish(self) -> Result {
        let map = Data::Object(self.map);
        Ok(match self.variant {
            Some(variant) => tagged(variant, map),
            None => map,
        })
    }
}

impl SerializeMap for Entries {
    type Ok = Data;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(key.serialize(Key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let key = self.key.take().ok_or_else(|| Error::custom("a value without a key"))?;
        self.add(key, value)
    }

    fn end(self) -> Result {
        self.finish()
    }
}

/// Implements the traits of structs.
macro_rules! entries {
    ($($name:ident),*) => {$(
        impl $name for Entries {
            type Ok = Data;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.add(name.to_owned(), value)
            }

            fn end(self) -> Result {
                self.finish()
            }
        }
    )*};
}

entries!(SerializeStruct, SerializeStructVariant);

/// Serializes a key: strings, chars, ints, bools and names of variants.
struct Key;

fn no_key<T>(kind: &str) -> Result<T> {
    Err(Error::custom(format!("dict key must be a string, got {kind}")))
}

macro_rules! keys {
    ($($name:ident $ty:ty),*) => {$(
        fn $name(self, key: $ty) -> Result<String> {
            Ok(key.to_string())
        }
    )*};
}

impl Serializer for Key {
    type Ok = String;
    type Error = Error;
    type SerializeSeq = Impossible<String, Error>;
    type SerializeTuple = Impossible<String, Error>;
    type SerializeTupleStruct = Impossible<String, Error>;
    type SerializeTupleVariant = Impossible<String, Error>;
    type SerializeMap = Impossible<String, Error>;
    type SerializeStruct = Impossible<String, Error>;
    type SerializeStructVariant = Impossible<String, Error>;

    keys!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_i128 i128, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64,
        serialize_u128 u128, serialize_char char, serialize_str &str
    );

    fn serialize_f32(self, _key: f32) -> Result<String> {
        no_key("a float")
    }

    fn serialize_f64(self, _key: f64) -> Result<String> {
        no_key("a float")
    }

    fn serialize_bytes(self, _key: &[u8]) -> Result<String> {
        no_key("bytes")
    }

    fn serialize_none(self) -> Result<String> {
        no_key("nothing")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, key: &T) -> Result<String> {
        key.serialize(self)
    }

    fn serialize_unit(self) -> Result<String> {
        no_key("nothing")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<String> {
        no_key(name)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<String> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, key: &T) -> Result<String> {
        key.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _key: &T,
    ) -> Result<String> {
        no_key(name)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq> {
        no_key("a list")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple> {
        no_key("a tuple")
    }

    fn serialize_tuple_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeTupleStruct> {
        no_key(name)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        no_key(name)
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap> {
        no_key("a dict")
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeStruct> {
        no_key(name)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant> {
        no_key(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use crate::{Data, json};

    fn error(of: &impl Serialize) -> String {
        Data::of(of).unwrap_err().to_string()
    }

    #[test]
    fn structures_convert_as_serde_json_writes_them() {
        #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
        enum Kind {
            Unit,
            One(i8),
            Two(u8, char),
            Named { a: bool },
        }
        #[derive(Serialize)]
        struct Whole {
            kinds: Vec<Kind>,
            by: BTreeMap<i32, f32>,
            none: Option<()>,
            pair: (String, u64),
            data: Data,
        }
        let whole = Whole {
            kinds: vec![Kind::Unit, Kind::One(-1), Kind::Two(2, 'x'), Kind::Named { a: true }],
            by: [(7, 0.5)].into(),
            none: None,
            pair: ("é".to_owned(), i64::MAX as u64),
            data: json!({"n": [null, 1.5]}),
        };
        let expected = json!({
            "kinds": ["Unit", {"One": -1}, {"Two": [2, "x"]}, {"Named": {"a": true}}],
            "by": {"7": 0.5}, "none": null, "pair": ["é", i64::MAX], "data": {"n": [null, 1.5]},
        });
        assert_eq!(Data::of(&whole).unwrap(), expected);
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(text.parse::<Data>().unwrap(), expected, "as serde_json writes it");
    }

    #[test]
    fn lossy_conversions_are_errors() {
        #[derive(Serialize)]
        struct Odd {
            name: &'static str,
            by: BTreeMap<(i32, i32), i32>,
        }
        let odd = Odd { name: "lost?", by: [((1, 2), 3)].into() };
        assert_eq!(error(&odd), "dict key must be a string, got a tuple");
        assert_eq!(error(&vec![u64::MAX]), "integer 18446744073709551615 does not fit into 64 signed bits");
        assert_eq!(error(&i128::MIN), format!("integer {} does not fit into 64 signed bits", i128::MIN));
        assert_eq!(error(&[1.0, f64::NAN]), "NaN cannot be represented in JSON");
        let closure = json!([Data::opaque("closure", "<fn(x)>")]);
        assert!(error(&closure).contains("such as a closure"), "{}", error(&closure));
        assert_eq!(serde_json::to_string(&closure).unwrap(), "[null]");
        #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
        #[serde(untagged)]
        enum Alike {
            Text(&'static str),
            Number(i32),
        }
        let alike: BTreeMap<Alike, i32> = [(Alike::Text("1"), 1), (Alike::Number(1), 2)].into();
        assert_eq!(error(&alike), "two keys have the string `1`");
    }
}
