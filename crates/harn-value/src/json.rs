//! JSON text to values and back.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::equal::with_stack;
use crate::{Dict, Str, Value, View};

/// Nesting that [`parse`] accepts; deeper text is refused with an error.
pub const MAX_DEPTH: usize = 128;

/// Parses JSON text straight into values. Whole numbers that fit become ints, others floats.
///
/// # Errors
/// serde_json's error, with line and column.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut de = serde_json::Deserializer::from_str(text);
    let value = Seed.deserialize(&mut de)?;
    de.end()?;
    Ok(value)
}

struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Value, D::Error> {
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NIL)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Value, E> {
        Ok(Value::int(i))
    }

    fn visit_u64<E>(self, i: u64) -> Result<Value, E> {
        Ok(i64::try_from(i).map_or(Value::float(i as f64), Value::int))
    }

    fn visit_f64<E>(self, f: f64) -> Result<Value, E> {
        Ok(Value::float(f))
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::str(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Seed)? {
            items.push(item);
        }
        Ok(Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut dict = Dict::new();
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let value = map.next_value_seed(Seed)?;
            dict.insert(Str::new(&key), value);
        }
        Ok(Value::dict(dict))
    }
}

/// Converts a parsed serde value.
pub fn from_serde(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::NIL,
        Json::Bool(b) => Value::bool(*b),
        Json::Number(n) => {
            n.as_i64().map_or_else(|| Value::float(n.as_f64().unwrap_or(f64::NAN)), Value::int)
        }
        Json::String(s) => Value::str(s),
        Json::Array(items) => with_stack(|| Value::list(items.iter().map(from_serde).collect())),
        Json::Object(map) => {
            with_stack(|| Value::dict(map.iter().map(|(k, v)| (k.as_str(), from_serde(v))).collect()))
        }
    }
}

/// Converts to a serde value, keys in byte order. Values that JSON lacks: non-finite floats become
/// null, durations their milliseconds, sets, ranges, pairs and iterators nothing special — sets,
/// ranges and pairs become arrays, enum values their printed form or `{variant, fields}`-free text,
/// anything else its printed form.
pub fn to_serde(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value.view() {
        View::Nil => Json::Null,
        View::Bool(b) => Json::Bool(b),
        View::Int(i) | View::Duration(i) => Json::from(i),
        View::Float(f) => serde_json::Number::from_f64(f).map_or(Json::Null, Json::Number),
        View::Str(s) => Json::String(s.to_string()),
        View::List(items) => with_stack(|| Json::Array(items.iter().map(to_serde).collect())),
        View::Set(items) => with_stack(|| Json::Array(items.iter().map(to_serde).collect())),
        View::Pair(p) => with_stack(|| Json::Array(vec![to_serde(&p.first), to_serde(&p.second)])),
        View::Dict(d) => {
            with_stack(|| Json::Object(d.iter().map(|(k, v)| (k.to_string(), to_serde(v))).collect()))
        }
        View::Struct(s) => with_stack(|| {
            Json::Object(s.fields().into_iter().map(|(k, v)| (k.to_string(), to_serde(v))).collect())
        }),
        _ => Json::String(value.to_string()),
    }
}
