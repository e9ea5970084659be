//! JSON of a reply, parsed without copying: strings borrow from the source. Streams consist of thousands of small
//! objects with a few relevant members each, so a tree of owned strings and maps would dominate the cost.

use std::borrow::Cow;
use std::fmt;

use harn_value::Data as Value;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// A JSON value that borrows from its source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Str(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// Members in source order. If a key occurs several times, the last one applies, as in [`Value`].
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Objects of a stream rarely have more members.
const MEMBERS: usize = 8;

impl<'a> Node<'a> {
    /// Parses a string that contains one value.
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Node<'a>> {
        serde_json::from_str(text)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Node::Object(members) => members.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the value at `key`, null if it is missing.
    pub(super) fn at(&self, key: &str) -> &Node<'a> {
        self.get(key).unwrap_or(&Node::Null)
    }

    /// Returns the value at `key` unless it is missing or null.
    pub(super) fn present(&self, key: &str) -> Option<&Node<'a>> {
        self.get(key).filter(|v| **v != Node::Null)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Node::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn str_at(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::as_str)
    }

    /// Returns the string at `key`, empty if it is missing.
    pub(super) fn string_at(&self, key: &str) -> String {
        self.str_at(key).unwrap_or_default().to_string()
    }

    pub(super) fn int_at(&self, key: &str) -> Option<i64> {
        match self.get(key) {
            Some(Node::Number(n)) => n.as_i64(),
            _ => None,
        }
    }

    pub(super) fn float_at(&self, key: &str) -> Option<f64> {
        match self.get(key) {
            Some(Node::Number(n)) => n.as_f64(),
            _ => None,
        }
    }

    /// Returns the count or index at `key`.
    pub(super) fn index_at(&self, key: &str) -> Option<usize> {
        self.int_at(key).and_then(|n| usize::try_from(n).ok())
    }

    pub(super) fn as_list(&self) -> Option<&[Node<'a>]> {
        match self {
            Node::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the list at `key`, empty if it is missing.
    pub(super) fn list_at(&self, key: &str) -> &[Node<'a>] {
        self.at(key).as_list().unwrap_or_default()
    }

    /// Returns whether the value at `key` is `true`.
    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Node::Bool(true))
    }

    /// Converts to an owned value.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(b) => Value::Bool(*b),
            Node::Number(n) => Value::Number(n.clone()),
            Node::Str(text) => Value::String(text.to_string()),
            Node::Array(items) => items.iter().map(Node::to_value).collect(),
            Node::Object(members) => members.iter().map(|(k, v)| (k.to_string(), v.to_value())).collect(),
        }
    }

    /// Returns the arguments of a tool call as JSON source: some servers send a string, some a value, some nothing.
    pub(super) fn arguments_text(&self) -> String {
        match self {
            Node::Str(text) => text.to_string(),
            Node::Null => String::new(),
            other => other.to_string(),
        }
    }
}

/// Formats as compact JSON.
impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Node<'de>, E> {
        Ok(Node::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Node<'de>, E> {
        Ok(Node::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Node<'de>, E> {
        Ok(Node::Number(n.into()))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Node<'de>, E> {
        Ok(Number::from_f64(n).map_or(Node::Null, Node::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::Str(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'de>, E> {
        Ok(Node::Str(Cow::Owned(text.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node<'de>, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(Node::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node<'de>, A::Error> {
        let mut out = Vec::new();
        while let Some(Key(key)) = members.next_key()? {
            if out.is_empty() {
                out.reserve(MEMBERS);
            }
            out.push((key, members.next_value()?));
        }
        Ok(Node::Object(out))
    }
}

/// A key. Deserializing a `Cow` directly would always copy.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match from.deserialize_str(NodeVisitor)? {
            Node::Str(key) => Ok(Key(key)),
            _ => Err(serde::de::Error::custom("a key must be a string")),
        }
    }
}

/// Applies a reader of a format to a reply that a test builds as a value.
#[cfg(test)]
pub(super) fn read_value<T>(read: impl Fn(&str, &Node<'_>) -> T, provider: &str, body: Value) -> T {
    read(provider, &Node::parse(&body.to_string()).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;
    use proptest::prelude::*;

    #[test]
    fn only_strings_with_escapes_are_copied() {
        let node = Node::parse(r#"{"plain": "é", "escaped": "a\n"}"#).unwrap();
        assert!(matches!(node.get("plain"), Some(Node::Str(Cow::Borrowed("é")))));
        assert!(matches!(node.get("escaped"), Some(Node::Str(Cow::Owned(text))) if text == "a\n"));
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let node = Node::parse(r#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!((node.int_at("a"), node.to_value()), (Some(2), json!({"a": 2})));
    }

    #[test]
    fn arguments_come_in_three_forms() {
        for (given, text) in [(r#""{\"k\":1}""#, r#"{"k":1}"#), (r#"{"k": 1}"#, r#"{"k":1}"#), ("null", "")] {
            assert_eq!(Node::parse(given).unwrap().arguments_text(), text);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((".{0,4}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(value in any_json()) {
            let text = value.to_string();
            let owned: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Node::parse(&text).unwrap().to_value(), owned);
        }
    }
}
