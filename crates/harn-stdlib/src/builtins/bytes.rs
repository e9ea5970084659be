//! Bytes values and text encodings.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use harn_value::{Ref, Str, Value};
use harn_vm::builtin::Text;
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, printed, room_for_bytes, size};

builtins! {
    /// Bytes.
    pub(crate) static BYTES: "bytes";

    /// Returns the UTF-8 bytes of a string.
    ///
    /// ```harn
    /// println(bytes_from_string("hi")) // -> b"6869"
    /// ```
    Pure fn bytes_from_string(cx, s: Given as "string") -> "bytes" {
        let s = string("bytes_from_string", 1, s)?;
        Value::bytes(s.as_bytes().to_vec())
    }

    /// Decodes hexadecimal digits to bytes.
    ///
    /// ```harn
    /// println(bytes_len(bytes_from_hex("00fF"))) // -> 2
    /// ```
    Pure fn bytes_from_hex(cx, s: Given as "string") -> "bytes" {
        let s = string("bytes_from_hex", 1, s)?;
        Value::bytes(from_hex(&s).map_err(|reason| Error::runtime(format!("bytes_from_hex: {reason}")))?)
    }

    /// Decodes standard base64 to bytes.
    ///
    /// ```harn
    /// println(bytes_from_base64("aGk=")) // -> b"6869"
    /// ```
    Pure fn bytes_from_base64(cx, s: Given as "string") -> "bytes" {
        let s = string("bytes_from_base64", 1, s)?;
        let bytes = STANDARD.decode(s.as_bytes());
        Value::bytes(bytes.map_err(|reason| Error::runtime(format!("bytes_from_base64: {reason}")))?)
    }

    /// Decodes bytes as UTF-8.
    ///
    /// ```harn
    /// println(bytes_to_string(bytes_from_hex("c3a9"))) // -> é
    /// ```
    Pure fn bytes_to_string(cx, b: Given as "bytes") -> "string" {
        let b = bytes("bytes_to_string", 1, b)?;
        match std::str::from_utf8(&b) {
            Ok(text) => Value::str(text),
            Err(reason) => return Err(Error::runtime(format!("bytes_to_string: {reason}"))),
        }
    }

    /// Decodes bytes as UTF-8; invalid sequences become U+FFFD.
    ///
    /// ```harn
    /// println(bytes_to_string_lossy(bytes_from_hex("61ff")) == "a\u{fffd}") // -> true
    /// ```
    Pure fn bytes_to_string_lossy(cx, b: Given as "bytes") -> "string" {
        String::from_utf8_lossy(&bytes("bytes_to_string_lossy", 1, b)?).into_owned()
    }

    /// Encodes bytes as lower-case hexadecimal digits.
    ///
    /// ```harn
    /// println(bytes_to_hex(bytes_from_string("hi"))) // -> 6869
    /// ```
    Pure fn bytes_to_hex(cx, b: Given as "bytes") -> "string" {
        to_hex(&bytes("bytes_to_hex", 1, b)?)
    }

    /// Encodes bytes as standard base64 with padding.
    ///
    /// ```harn
    /// println(bytes_to_base64(bytes_from_string("hi"))) // -> aGk=
    /// ```
    Pure fn bytes_to_base64(cx, b: Given as "bytes") -> "string" {
        STANDARD.encode(&**bytes("bytes_to_base64", 1, b)?)
    }

    /// Returns the number of bytes.
    ///
    /// ```harn
    /// println(bytes_len(bytes_from_string("é"))) // -> 2
    /// ```
    Pure fn bytes_len(cx, b: Given as "bytes") -> "int" {
        bytes("bytes_len", 1, b)?.len()
    }

    /// Concatenates two bytes values.
    ///
    /// ```harn
    /// println(bytes_concat(bytes_from_hex("01"), bytes_from_hex("02"))) // -> b"0102"
    /// ```
    Pure fn bytes_concat(cx, a: Given as "bytes", b: Given as "bytes") -> "bytes" {
        let (a, b) = (bytes("bytes_concat", 1, a)?, bytes("bytes_concat", 2, b)?);
        room_for_bytes(a.len() + b.len())?;
        Value::bytes([a.as_slice(), b.as_slice()].concat())
    }

    /// Compares two bytes values in constant time.
    ///
    /// ```harn
    /// println(bytes_eq(bytes_from_hex("01"), bytes_from_hex("01"))) // -> true
    /// ```
    Pure fn bytes_eq(cx, a: Given as "bytes", b: Given as "bytes") -> "bool" {
        let (a, b) = (bytes("bytes_eq", 1, a)?, bytes("bytes_eq", 2, b)?);
        constant_time_equal(&a, &b)
    }

    /// Returns the bytes from `start` to before `end`.
    ///
    /// Bounds are clamped to the length; a negative bound is treated as 0.
    ///
    /// ```harn
    /// println(bytes_slice(bytes_from_hex("01020304"), 1, 3)) // -> b"0203"
    /// ```
    Pure fn bytes_slice(cx, b: Given as "bytes", start: Given as "int", end: Given as "int") -> "bytes" {
        let b = bytes("bytes_slice", 1, b)?;
        let end = size(int("bytes_slice", 3, end)?).min(b.len());
        let start = size(int("bytes_slice", 2, start)?).min(end);
        Value::bytes(b[start..end].to_vec())
    }
}

fn given(name: &str, place: usize, value: Given) -> Result<Value> {
    value.0.ok_or_else(|| Error::runtime(format!("{name}: missing argument {place}")))
}

fn wrong(name: &str, place: usize, expected: &str, got: &Value) -> Error {
    let got = got.type_name();
    Error::runtime(format!("{name}: expected {expected} at argument {place}, got {got}"))
}

fn bytes(name: &str, place: usize, value: Given) -> Result<Ref<Vec<u8>>> {
    let value = given(name, place, value)?;
    value.as_bytes().cloned().ok_or_else(|| wrong(name, place, "bytes", &value))
}

fn string(name: &str, place: usize, value: Given) -> Result<Str> {
    let value = given(name, place, value)?;
    value.as_str().cloned().ok_or_else(|| wrong(name, place, "string", &value))
}

fn int(name: &str, place: usize, value: Given) -> Result<i64> {
    let value = given(name, place, value)?;
    value.as_int().ok_or_else(|| wrong(name, place, "int", &value))
}

builtins! {
    /// Text encodings.
    pub(crate) static ENCODINGS: "encodings";

    /// Encodes a string or bytes as standard base64 with padding.
    ///
    /// ```harn
    /// println(base64_encode("hi")) // -> aGk=
    /// ```
    Pure fn base64_encode(cx, value: Value as "text | bytes") -> "string" {
        match value.as_bytes() {
            Some(bytes) => STANDARD.encode(&***bytes),
            None => STANDARD.encode(printed(&value).as_bytes()),
        }
    }

    /// Decodes standard base64 to a string.
    ///
    /// ```harn
    /// println(base64_decode("aGk=")) // -> hi
    /// ```
    Pure fn base64_decode(cx, s: Text) -> "string" {
        let bytes = STANDARD.decode(s.as_bytes());
        lossy(bytes.map_err(|reason| Error::runtime(format!("base64 decode error: {reason}")))?)
    }

    /// Encodes a string as URL-safe base64 without padding.
    ///
    /// ```harn
    /// println(base64url_encode("hi?>")) // -> aGk_Pg
    /// ```
    Pure fn base64url_encode(cx, s: Text) -> "string" {
        URL_SAFE_NO_PAD.encode(s.as_bytes())
    }

    /// Decodes URL-safe base64 without padding to a string.
    ///
    /// ```harn
    /// println(base64url_decode("aGk_Pg")) // -> hi?>
    /// ```
    Pure fn base64url_decode(cx, s: Text) -> "string" {
        let bytes = URL_SAFE_NO_PAD.decode(s.as_bytes());
        lossy(bytes.map_err(|reason| Error::runtime(format!("base64url decode error: {reason}")))?)
    }

    /// Encodes a string as base32 with padding.
    ///
    /// ```harn
    /// println(base32_encode("hi")) // -> NBUQ====
    /// ```
    Pure fn base32_encode(cx, s: Text) -> "string" {
        to_base32(s.as_bytes())
    }

    /// Decodes base32 with padding to a string.
    ///
    /// ```harn
    /// println(base32_decode("NBUQ====")) // -> hi
    /// ```
    Pure fn base32_decode(cx, s: Text) -> "string" {
        let bytes = from_base32(s.as_bytes());
        lossy(bytes.map_err(|reason| Error::runtime(format!("base32 decode error: {reason}")))?)
    }

    /// Encodes a string as lower-case hexadecimal digits.
    ///
    /// ```harn
    /// println(hex_encode("hi")) // -> 6869
    /// ```
    Pure fn hex_encode(cx, s: Text) -> "string" {
        to_hex(s.as_bytes())
    }

    /// Decodes hexadecimal digits of any case to a string.
    ///
    /// ```harn
    /// println(hex_decode("6869")) // -> hi
    /// ```
    Pure fn hex_decode(cx, s: Text) -> "string" {
        lossy(from_hex(&s).map_err(|reason| Error::runtime(format!("hex decode error: {reason}")))?)
    }

    /// Percent-encodes a string for use in a URL.
    ///
    /// All bytes except `A-Z a-z 0-9 - _ . ~` become `%XX`.
    ///
    /// ```harn
    /// println(url_encode("a b/ü")) // -> a%20b%2F%C3%BC
    /// ```
    Pure fn url_encode(cx, s: Text) -> "string" {
        percent_encode(&s)
    }

    /// Decodes `%XX`, and `+` as a space; malformed sequences stay unchanged.
    ///
    /// ```harn
    /// println(url_decode("a%20b+c%zz")) // -> a b c%zz
    /// ```
    Pure fn url_decode(cx, s: Text) -> "string" {
        lossy(percent_decode(&s))
    }
}

fn lossy(bytes: Vec<u8>) -> Value {
    Value::str(&String::from_utf8_lossy(&bytes))
}

/// Compares two byte strings in constant time for equal lengths.
pub fn constant_time_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

/// Returns lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
    out
}

pub(crate) fn from_hex(text: &str) -> std::result::Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err("odd number of digits".to_owned());
    }
    let mut digits = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c.to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None => return Err(format!("invalid character '{c}' at position {at}")),
        }
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn to_base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(5) {
        let bits = group.iter().enumerate().fold(0u64, |bits, (i, &b)| bits | u64::from(b) << (32 - 8 * i));
        let digits = (group.len() * 8).div_ceil(5);
        for i in 0..8 {
            let digit = BASE32[(bits >> (35 - 5 * i)) as usize & 31] as char;
            out.push(if i < digits { digit } else { '=' });
        }
    }
    out
}

fn from_base32(text: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(8) {
        return Err("invalid length".to_owned());
    }
    let mut out = Vec::new();
    for (number, group) in text.chunks(8).enumerate() {
        let digits = group.iter().position(|b| *b == b'=').unwrap_or(8);
        let padded = group[digits..].iter().all(|b| *b == b'=');
        let last = (number + 1) * 8 == text.len();
        if !matches!(digits, 2 | 4 | 5 | 7 | 8) || !padded || (digits < 8 && !last) {
            return Err("invalid padding".to_owned());
        }
        let mut bits = 0u64;
        for (i, b) in group[..digits].iter().enumerate() {
            let Some(digit) = BASE32.iter().position(|d| d == b) else {
                return Err(format!("invalid symbol at position {}", number * 8 + i));
            };
            bits |= (digit as u64) << (35 - 5 * i);
        }
        out.extend((0..digits * 5 / 8).map(|i| (bits >> (32 - 8 * i)) as u8));
    }
    Ok(out)
}

/// Encodes every byte that is not unreserved as `%XX`.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => {
                out.push('%');
                out.push_str(&to_hex(&[byte]).to_ascii_uppercase());
            }
        }
    }
    out
}

/// Decodes percent-encoded text, with `+` as a space; malformed sequences remain unchanged.
pub(crate) fn percent_decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let digit = |at: usize| (*tail.get(at)? as char).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &tail[2..];
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    out
}
