//! JSON written straight into bytes: what a format says of a message goes from the message to the text, and no tree of
//! values is made on the way.

use harn_value::Data as Value;

/// The members of an object that is being written, in the order in which they are given.
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

/// The items of a list that is being written.
pub(super) struct Items<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

/// Writes an object that stands for itself.
pub(super) fn object(fill: impl FnOnce(&mut Members<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_object(&mut out, fill);
    out
}

/// A message that is only text.
pub(super) fn said(role: &str, text: &str) -> Vec<u8> {
    object(|message| {
        message.text("role", role);
        message.text("content", text);
    })
}

impl Members<'_> {
    /// A member that is a text.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_text(self.out, text);
    }

    /// A member that is data already: arguments of a call, a block of an unknown kind.
    pub(super) fn value(&mut self, key: &str, value: &Value) {
        self.key(key);
        write_value(self.out, value);
    }

    /// A member that is an object.
    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Members<'_>)) {
        self.key(key);
        write_object(self.out, fill);
    }

    /// A member that is a list.
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
    /// Items of a list of which nothing is written.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Items<'a> {
        Items { out, any: false }
    }

    /// Items behind others, if there are any.
    pub(super) fn behind(out: &'a mut Vec<u8>, any: bool) -> Items<'a> {
        Items { out, any }
    }

    /// An item that is a text.
    pub(super) fn text(&mut self, text: &str) {
        self.begin();
        write_text(self.out, text);
    }

    /// An item that is data already.
    pub(super) fn value(&mut self, value: &Value) {
        self.begin();
        write_value(self.out, value);
    }

    /// An item that is an object.
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Members<'_>)) {
        self.begin();
        write_object(self.out, fill);
    }

    /// An item that is written already.
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
    // A text can always be written, and a vector takes it.
    let _ = serde_json::to_writer(out, text);
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    // So can data.
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
