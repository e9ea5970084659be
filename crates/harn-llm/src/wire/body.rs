//! The body of a request: JSON whose large parts are shared byte buffers.

use bytes::Bytes;
use harn_system::Payload;
use harn_value::Data as Value;

use crate::json::Object;

/// Smaller parts are copied together, because a separate packet would cost more.
const WORTH_SHARING: usize = 4 << 10;

/// A JSON object to be sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    fields: Object,
    /// Serialized lists, without their brackets; the corresponding fields are null.
    lists: Vec<(&'static str, Vec<Bytes>)>,
}

impl Body {
    /// Creates a body from its fields.
    pub fn new(fields: Object) -> Body {
        Body { fields, lists: Vec::new() }
    }

    /// Sets serialized items, separated by commas, as the value of a field that is null. A field with another value (an
    /// override of the caller) is unchanged.
    pub(super) fn with_list(mut self, key: &'static str, items: Vec<Bytes>) -> Body {
        if self.fields.get(key).is_some_and(Value::is_null) {
            self.lists.push((key, items));
        }
        self
    }

    /// Returns the JSON in pieces; large ones are shared with their owner.
    pub fn pieces(&self) -> Vec<Bytes> {
        let mut out = Pieces::default();
        out.own.push(b'{');
        for (n, (key, value)) in self.fields.iter().enumerate() {
            if n > 0 {
                out.own.push(b',');
            }
            out.json(&Value::from(key.as_str()));
            out.own.push(b':');
            match self.lists.iter().find(|(name, _)| name == key) {
                None => out.json(value),
                Some((_, items)) => {
                    out.own.push(b'[');
                    items.iter().for_each(|piece| out.shared(piece));
                    out.own.push(b']');
                }
            }
        }
        out.own.push(b'}');
        out.close();
        out.done
    }

    /// Returns the JSON as a payload.
    pub(crate) fn into_payload(self) -> Payload {
        Payload(self.pieces())
    }

    /// Returns the whole JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces().concat()
    }

    /// Returns the body as a value, for records and tests.
    pub fn to_json(&self) -> Value {
        serde_json::from_slice(&self.to_bytes()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Pieces {
    done: Vec<Bytes>,
    own: Vec<u8>,
}

impl Pieces {
    fn json(&mut self, value: &Value) {
        // Never fails: a value is always serializable, and writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut self.own, value);
    }

    fn shared(&mut self, piece: &Bytes) {
        if piece.len() < WORTH_SHARING {
            self.own.extend_from_slice(piece);
        } else {
            self.close();
            self.done.push(piece.clone());
        }
    }

    fn close(&mut self) {
        if !self.own.is_empty() {
            self.own.shrink_to_fit();
            self.done.push(Bytes::from(std::mem::take(&mut self.own)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn body(fields: Value) -> Body {
        Body::new(fields.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn written_lists_stand_in_their_place() {
        let large = Bytes::from(format!("\"{}\"", "x".repeat(WORTH_SHARING)));
        let items = vec![Bytes::from_static(b"1,"), large.clone(), Bytes::from_static(b",2")];
        let b = body(json!({"a": 1, "list": null, "z": null})).with_list("list", items);
        let pieces = b.pieces();
        assert_eq!(pieces[1].as_ptr(), large.as_ptr(), "a large piece is not copied");
        let text = String::from_utf8(b.to_bytes()).unwrap();
        assert!(text.starts_with("{\"a\":1,\"list\":[1,\"xx") && text.ends_with("\",2],\"z\":null}"));
        assert_eq!(b.to_json()["list"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_field_that_holds_something_stays() {
        let b = body(json!({"list": [7]})).with_list("list", vec![Bytes::from_static(b"1")]);
        assert_eq!(b.to_json(), json!({"list": [7]}));
    }
}
