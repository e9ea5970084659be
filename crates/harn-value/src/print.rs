//! The printed form of values, as in `println`, interpolation and `to_string`.

use std::fmt;

use crate::equal::with_stack;
use crate::{Data, Value, View, steps};

/// Maximum length in bytes of a string that costs a single step.
const SHORT: usize = 63;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        print(self, &mut out);
        f.write_str(&out)
    }
}

/// Appends the printed form of an int.
pub fn print_int(i: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(i));
}

/// Appends the printed form of a float: the shortest digits that parse to the same float, never an
/// exponent, at least one decimal below 1e15.
pub(crate) fn print_float(f: f64, out: &mut String) {
    if f.is_nan() {
        out.push_str("NaN");
    } else if f.is_infinite() {
        out.push_str(if f < 0.0 { "-inf" } else { "inf" });
    } else if f.fract() == 0.0 && f.abs() < 1e15 {
        if f.is_sign_negative() {
            out.push('-');
        }
        print_int(f.abs() as i64, out);
        out.push_str(".0");
    } else if f.abs() >= 1e-5 && f.abs() < 1e15 {
        // In this range ryu writes plain digits.
        out.push_str(ryu::Buffer::new().format(f));
    } else {
        use fmt::Write;
        // Rust's Display writes the shortest digits without an exponent.
        let _ = write!(out, "{f}");
    }
}

/// Appends the printed form of a number of data.
pub(crate) fn print_number(number: &serde_json::Number, out: &mut String) {
    match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => print_int(int, out),
        (None, Some(large)) => out.push_str(itoa::Buffer::new().format(large)),
        (None, None) => print_float(number.as_f64().unwrap_or(f64::NAN), out),
    }
}

/// Appends the printed form of a duration: the largest of `h m s ms` that divides it.
pub(crate) fn print_duration(ms: i64, out: &mut String) {
    let (unit, name) = match ms {
        0 => (1, "ms"),
        _ if ms % 3_600_000 == 0 => (3_600_000, "h"),
        _ if ms % 60_000 == 0 => (60_000, "m"),
        _ if ms % 1000 == 0 => (1000, "s"),
        _ => (1, "ms"),
    };
    print_int(ms / unit, out);
    out.push_str(name);
}

/// Appends the printed form of `value`.
#[inline]
pub fn print(value: &Value, out: &mut String) {
    // Short strings that fit the buffer are printed most often, so they have a fast path.
    match value.as_str() {
        Some(text) if text.len() <= (out.capacity() - out.len()).min(SHORT) => {
            steps::step();
            out.push_str(text);
        }
        _ => print_any(value, out),
    }
}

fn print_any(value: &Value, out: &mut String) {
    Printer { out, end: usize::MAX }.print(value);
}

impl Data {
    /// Returns the printed form, like `to_string` in the language. (`Display` writes JSON.)
    #[must_use]
    pub fn printed(&self) -> String {
        let mut out = String::new();
        Printer { out: &mut out, end: usize::MAX }.data(self);
        out
    }
}

/// Returns the printed form for a message, truncated to `max` bytes and `...` if it is longer.
pub fn short(value: &Value, max: usize) -> String {
    let mut out = String::new();
    Printer { out: &mut out, end: max }.print(value);
    if out.len() > max {
        out.truncate(out.floor_char_boundary(max));
        out.push_str("...");
    }
    out
}

/// A printing traversal that stops when the output is a little longer than `end`.
struct Printer<'a> {
    out: &'a mut String,
    end: usize,
}

impl Printer<'_> {
    fn is_full(&self) -> bool {
        self.out.len() > self.end
    }

    fn text(&mut self, text: &str) {
        steps::bytes(text.len());
        steps::reserve(self.out, text.len().min(self.end.saturating_sub(self.out.len())));
        match self.end.saturating_sub(self.out.len()) {
            room if room >= text.len() => self.out.push_str(text),
            room => self.out.push_str(&text[..text.ceil_char_boundary(room + 1)]),
        }
    }

    fn items<'a>(&mut self, items: impl Iterator<Item = &'a Value>) {
        self.items_by(items, Self::print);
    }

    fn items_by<T>(&mut self, items: impl Iterator<Item = T>, print: impl Fn(&mut Self, T)) {
        for (i, item) in items.enumerate() {
            if self.is_full() {
                return;
            }
            if i > 0 {
                self.out.push_str(", ");
            }
            print(self, item);
        }
    }

    fn entries<'a>(&mut self, items: impl Iterator<Item = (&'a crate::Str, &'a Value)>) {
        self.entries_by(items.map(|(key, value)| (key.as_str(), value)), Self::print);
    }

    fn entries_by<'a, T>(&mut self, items: impl Iterator<Item = (&'a str, T)>, print: impl Fn(&mut Self, T)) {
        self.out.push('{');
        for (i, (key, value)) in items.enumerate() {
            if self.is_full() {
                return;
            }
            if i > 0 {
                self.out.push_str(", ");
            }
            self.text(key);
            self.out.push_str(": ");
            print(self, value);
        }
        self.out.push('}');
    }

    fn data(&mut self, data: &Data) {
        steps::step();
        match data {
            Data::Null => self.out.push_str("nil"),
            Data::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Data::Number(number) => print_number(number, self.out),
            Data::String(text) => self.text(text),
            Data::Array(items) => with_stack(|| {
                self.out.push('[');
                self.items_by(items.iter(), Self::data);
                self.out.push(']');
            }),
            Data::Object(map) => with_stack(|| {
                self.entries_by(map.sorted().map(|(key, value)| (key.as_str(), value)), Self::data);
            }),
            Data::Opaque(opaque) => self.text(&opaque.text),
        }
    }

    #[inline]
    fn print(&mut self, value: &Value) {
        steps::step();
        if let Some(int) = value.as_int() {
            return print_int(int, self.out);
        }
        match value.view() {
            View::Nil => self.out.push_str("nil"),
            View::Bool(b) => self.out.push_str(if b { "true" } else { "false" }),
            View::Int(i) => print_int(i, self.out),
            View::Float(f) => print_float(f, self.out),
            View::Duration(ms) => print_duration(ms, self.out),
            View::Str(s) => self.text(s),
            View::Native(n) => {
                self.out.push_str("<builtin ");
                self.out.push_str(n.name);
                self.out.push('>');
            }
            View::Bytes(b) => print_bytes(b, self.out),
            View::Range(r) => {
                print_int(r.start, self.out);
                self.out.push_str(" to ");
                print_int(r.end, self.out);
                if r.exclusive {
                    self.out.push_str(" exclusive");
                }
            }
            _ => with_stack(|| self.compound(value)),
        }
    }

    fn compound(&mut self, value: &Value) {
        match value.view() {
            View::List(items) => {
                self.out.push('[');
                self.items(items.iter());
                self.out.push(']');
            }
            View::Dict(d) => self.entries(d.iter()),
            View::Set(s) => {
                self.out.push_str("set(");
                self.items(s.iter());
                self.out.push(')');
            }
            View::Pair(p) => {
                self.out.push('(');
                self.items([&p.first, &p.second].into_iter());
                self.out.push(')');
            }
            View::Enum(e) => {
                self.text(&e.ty.name);
                self.out.push('.');
                self.text(e.variant_name());
                if !e.fields.is_empty() {
                    self.out.push('(');
                    self.items(e.fields.iter());
                    self.out.push(')');
                }
            }
            View::Struct(s) => {
                self.text(&s.ty.name);
                self.out.push(' ');
                self.entries(s.fields().into_iter());
            }
            View::Foreign(f) => f.print(self.out),
            _ => {}
        }
    }
}

fn print_bytes(bytes: &[u8], out: &mut String) {
    const SHOWN: usize = 32;
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str("b\"");
    for byte in bytes.iter().take(SHOWN) {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
    if bytes.len() > SHOWN {
        out.push_str("...+");
        print_int((bytes.len() - SHOWN) as i64, out);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(f: f64) -> String {
        Value::float(f).to_string()
    }

    #[test]
    fn floats_print_as_the_contract_says() {
        assert_eq!(float(3.0), "3.0");
        assert_eq!(float(-0.0), "-0.0");
        assert_eq!(float(999_999_999_999_999.0), "999999999999999.0");
        assert_eq!(float(1e15), "1000000000000000");
        assert_eq!(float(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(float(0.0000001), "0.0000001");
        assert_eq!(float(9223372036854775808.0), "9223372036854776000");
        assert_eq!(float(1.5e300).len(), 301);
        assert_eq!(float(123456789012345.6), "123456789012345.6");
        assert_eq!(float(0.00012), "0.00012");
        assert_eq!(float(f64::NEG_INFINITY), "-inf");
    }

    #[test]
    fn durations_use_the_largest_exact_unit() {
        let show = |ms| Value::duration(ms).to_string();
        assert_eq!(show(86_400_000), "24h");
        assert_eq!(show(90_000), "90s");
        assert_eq!(show(1500), "1500ms");
        assert_eq!(show(-60_000), "-1m");
        assert_eq!(show(0), "0ms");
    }

    #[test]
    fn messages_show_the_beginning_of_long_values() {
        assert_eq!(short(&Value::str("äöü"), 6), "äöü");
        assert_eq!(short(&Value::str("äöüß"), 5), "äö...");
        let shared = (0..70).fold(Value::str("x"), |d, _| Value::list(vec![d.clone(), d]));
        assert_eq!(short(&shared, 80).len(), 83);
        assert!(short(&shared, 80).ends_with("[x, x], [x,..."), "{}", short(&shared, 80));
    }

    #[test]
    fn containers_print_without_quotes() {
        let dict: crate::Dict =
            [("b", Value::str("x")), ("a", Value::list(vec![Value::float(1.5)]))].into_iter().collect();
        let list =
            Value::list(vec![Value::int(1), Value::float(2.0), Value::str("a"), Value::NIL, dict.into()]);
        assert_eq!(list.to_string(), "[1, 2.0, a, nil, {a: [1.5], b: x}]");
        assert_eq!(Value::ok(Value::int(1)).to_string(), "Result.Ok(1)");
    }
}
