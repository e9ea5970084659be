//! Conversion of data to and from JSON text and serde structures.

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Data, Map};

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Data::Null => to.serialize_unit(),
            // Opaque data is meaningful only in the process that made it.
            Data::Opaque(_) => to.serialize_unit_struct(super::serialize::OPAQUE),
            Data::Bool(bool) => to.serialize_bool(*bool),
            Data::Number(number) => number.serialize(to),
            Data::String(text) => to.serialize_str(text),
            Data::Array(items) => to.collect_seq(items),
            Data::Object(map) => map.serialize(to),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Data, D::Error> {
        Data::deserialize(from)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Data, E> {
        Ok(bool.into())
    }

    fn visit_i64<E>(self, int: i64) -> Result<Data, E> {
        Ok(int.into())
    }

    fn visit_u64<E>(self, int: u64) -> Result<Data, E> {
        Ok(int.into())
    }

    fn visit_f64<E>(self, float: f64) -> Result<Data, E> {
        Ok(float.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Data, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Data, E> {
        Ok(Data::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Data::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<Data, A::Error> {
        Entries.visit_map(from).map(Data::Object)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E>(self) -> Result<Map, E> {
        Ok(Map::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Map, A::Error> {
        let mut map = Map::new();
        while let Some((key, value)) = from.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Data;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Data, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Data, D::Error> {
        from.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Map, D::Error> {
        from.deserialize_map(Entries)
    }
}

impl fmt::Display for Data {
    /// Writes JSON in insertion order; with `{:#}` indented.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

impl std::str::FromStr for Data {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Data, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl From<serde_json::Value> for Data {
    fn from(json: serde_json::Value) -> Data {
        use serde_json::Value as Json;
        match json {
            Json::Null => Data::Null,
            Json::Bool(bool) => Data::Bool(bool),
            Json::Number(number) => Data::Number(number),
            Json::String(text) => Data::String(text),
            Json::Array(items) => items.into_iter().map(Data::from).collect(),
            Json::Object(map) => map.into_iter().map(|(key, value)| (key, Data::from(value))).collect(),
        }
    }
}

impl From<Data> for serde_json::Value {
    fn from(data: Data) -> serde_json::Value {
        use serde_json::Value as Json;
        match data {
            Data::Null | Data::Opaque(_) => Json::Null,
            Data::Bool(bool) => Json::Bool(bool),
            Data::Number(number) => Json::Number(number),
            Data::String(text) => Json::String(text),
            Data::Array(items) => items.into_iter().map(Json::from).collect(),
            Data::Object(map) => map.into_iter().map(|(key, value)| (key, Json::from(value))).collect(),
        }
    }
}

impl Data {
    /// Converts a structure to data, in the form in which `serde_json` writes it.
    ///
    /// # Errors
    /// Data cannot represent a part of it: an integer beyond 64 signed bits, a non-finite float, a key that is not a
    /// string, int, bool or name of a variant, opaque data such as a closure.
    pub fn of(structure: &(impl Serialize + ?Sized)) -> Result<Data, serde_json::Error> {
        structure.serialize(super::serialize::ToTree)
    }

    /// Converts a structure to data like a round trip through JSON text: opaque data and non-finite floats become null,
    /// integers beyond 64 signed bits become floats. For types of which every value has a form in JSON.
    ///
    /// # Panics
    /// If a key of a map is neither a string nor a scalar, or the structure's `Serialize` fails.
    pub fn lossy(structure: &impl Serialize) -> Data {
        match serde_json::to_value(structure) {
            Ok(value) => value.into(),
            Err(error) => panic!("a structure of the runtime has no form in JSON: {error}"),
        }
    }

    /// Deserializes a structure.
    ///
    /// # Errors
    /// The data does not match the structure.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn text_is_what_serde_json_writes_and_reads() {
        let text = r#"{"z":[1,-2,2.5,1e300,18446744073709551615,null,true,"a\"\u0001é"],"a":{},"b":[]}"#;
        let data: Data = text.parse().unwrap();
        let theirs: serde_json::Value = text.parse().unwrap();
        assert_eq!((data.to_string(), format!("{data:#}")), (theirs.to_string(), format!("{theirs:#}")));
        assert_eq!((Data::from(theirs.clone()), serde_json::Value::from(data.clone())), (data, theirs));
        let twice: Data = r#"{"a":1,"a":2}"#.parse().unwrap();
        assert_eq!(twice, json!({"a": 2}));
        assert!("[1".parse::<Data>().is_err());
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert!(deep.parse::<Data>().is_err(), "a limit of depth, no stack that overflows");
    }

    #[test]
    fn structures_are_written_and_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Node {
            id: String,
            fields: Map,
        }
        let node = Node { id: "a".to_owned(), fields: [("k".to_owned(), json!([1]))].into_iter().collect() };
        let data = Data::of(&node).unwrap();
        assert_eq!(data, json!({"id": "a", "fields": {"k": [1]}}));
        assert_eq!(data.read::<Node>().unwrap(), node);
        assert!(json!({"id": 1}).read::<Node>().is_err());
    }
}
