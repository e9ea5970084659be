//! Serializes JSON directly to bytes, without an intermediate tree of values.

use harn_value::Data as Value;

/// Writes the members of an object, in call order.
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

/// Writes the items of a list.
pub(super) struct Items<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

/// Serializes an object.
pub(super) fn object(fill: impl FnOnce(&mut Members<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_object(&mut out, fill);
    out
}

/// Serializes a message with only text.
pub(super) fn said(role: &str, text: &str) -> Vec<u8> {
    object(|message| {
        message.text("role", role);
        message.text("content", text);
    })
}

impl Members<'_> {
    /// Writes a string member.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_text(self.out, text);
    }

    /// Writes a member from data, such as the arguments of a call or a block of an unknown type.
    pub(super) fn value(&mut self, key: &str, value: &Value) {
        self.key(key);
        write_value(self.out, value);
    }

    /// Writes an object member.
    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Members<'_>)) {
        self.key(key);
        write_object(self.out, fill);
    }

    /// Writes a list member.
    pub(super) fn list(&mut self, key: &str, fill: impl FnOnce(&mut Items<'_>)) {
        self.key(key);
        self.out.push(b'[');
        fill(&mut Items::new(self.out));
        self.out.push(b']');
    }

    fn key(&mut self, key: &str) {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        write_text(self.out, key);
        self.out.push(b':');
    }
}

impl<'a> Items<'a> {
    /// Starts a list without items.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Items<'a> {
        Items { out, any: false }
    }

    /// Continues a list that already has items if `any` is true.
    pub(super) fn behind(out: &'a mut Vec<u8>, any: bool) -> Items<'a> {
        Items { out, any }
    }

    /// Writes a string item.
    pub(super) fn text(&mut self, text: &str) {
        self.begin();
        write_text(self.out, text);
    }

    /// Writes an item from data.
    pub(super) fn value(&mut self, value: &Value) {
        self.begin();
        write_value(self.out, value);
    }

    /// Writes an object item.
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Members<'_>)) {
        self.begin();
        write_object(self.out, fill);
    }

    /// Writes a serialized item.
    pub(super) fn written(&mut self, item: &[u8]) {
        self.begin();
        self.out.extend_from_slice(item);
    }

    fn begin(&mut self) {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
    }
}

fn write_object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Members<'_>)) {
    out.push(b'{');
    fill(&mut Members { out, any: false });
    out.push(b'}');
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    // Never fails: a string is always serializable, and writing to a vector cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    // Never fails, as in `write_text`.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn what_is_written_is_what_a_tree_would_be_written_as() {
        let data = json!({"b": [1, 2.5, null], "a": "ü\"\n"});
        let written = object(|o| {
            o.text("te\"xt", "a\u{1}\\ü");
            o.value("value", &data);
            o.object("empty", |_| {});
            o.list("none", |_| {});
            o.list("list", |l| {
                l.text("x");
                l.value(&data);
                l.object(|o| o.text("k", ""));
                l.written(b"[3]");
            });
        });
        let tree = json!({"te\"xt": "a\u{1}\\ü", "value": data, "empty": {}, "none": [], "list": ["x", data, {"k": ""}, [3]]});
        assert_eq!(String::from_utf8(written).unwrap(), tree.to_string());
    }
}
