//! Compression and archives. These builtins do not access files: archives are created from values and extracted to
//! values.
//!
//! | File | Content |
//! | --- | --- |
//! | `streams` | gzip, Zstandard and Brotli |
//! | `archives` | tar and zip |
//! | `unpack` | reading a decoder within the memory limit |

mod archives;
mod streams;
mod unpack;

use harn_value::{Ref, Value};
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::Given;
use archives::{read_tar, read_zip, write_tar, write_zip};
use unpack::Check;

builtins! {
    /// Compression and archives.
    pub(crate) static COMPRESSION: "compression";

    /// Compresses bytes, or the UTF-8 bytes of a string, as gzip.
    ///
    /// `level` ranges from 0 (stored) to 9 (smallest). The timestamp is 0, so equal input produces equal
    /// output.
    ///
    /// ```harn
    /// println(bytes_to_string(gzip_decode(gzip_encode("hi")))) // -> hi
    /// ```
    Pure fn gzip_encode(cx, v: Given as "bytes | string", level: i64 = 6) -> "bytes" {
        let level = between(NAME, "level", level, 0, 9)?;
        Value::bytes(streams::gzip(NAME, &source(NAME, v)?, level, &check(cx))?)
    }

    /// Decompresses gzip.
    ///
    /// Consecutive members are concatenated. Output above the memory limit is an error before decompression.
    ///
    /// ```harn
    /// println(bytes_to_string(gzip_decode(gzip_encode("hi", 9)))) // -> hi
    /// println(is_err(try { gzip_decode(bytes_from_string("hi")) })) // -> true
    /// ```
    Pure fn gzip_decode(cx, b: Given as "bytes") -> "bytes" {
        Value::bytes(streams::gunzip(NAME, &packed(NAME, b)?, &check(cx))?)
    }

    /// Compresses bytes, or the UTF-8 bytes of a string, as Zstandard.
    ///
    /// `level` ranges up to 22 (smallest); negative levels are faster than 1.
    ///
    /// ```harn
    /// println(bytes_to_string(zstd_decode(zstd_encode("hi")))) // -> hi
    /// ```
    Pure fn zstd_encode(cx, v: Given as "bytes | string", level: i64 = 3) -> "bytes" {
        let range = zstd::compression_level_range();
        let level = between(NAME, "level", level, i64::from(*range.start()), i64::from(*range.end()))?;
        Value::bytes(streams::zstd(NAME, &source(NAME, v)?, level, &check(cx))?)
    }

    /// Decompresses Zstandard.
    ///
    /// Output above the memory limit is an error before decompression.
    ///
    /// ```harn
    /// println(bytes_to_string(zstd_decode(zstd_encode("hi", 19)))) // -> hi
    /// ```
    Pure fn zstd_decode(cx, b: Given as "bytes") -> "bytes" {
        Value::bytes(streams::unzstd(NAME, &packed(NAME, b)?, &check(cx))?)
    }

    /// Compresses bytes, or the UTF-8 bytes of a string, as Brotli.
    ///
    /// `quality` ranges from 0 (fastest) to 11 (smallest).
    ///
    /// ```harn
    /// println(bytes_to_string(brotli_decode(brotli_encode("hi")))) // -> hi
    /// ```
    Pure fn brotli_encode(cx, v: Given as "bytes | string", quality: i64 = 11) -> "bytes" {
        let quality = between(NAME, "quality", quality, 0, 11)?;
        Value::bytes(streams::brotli(NAME, &source(NAME, v)?, quality, &check(cx))?)
    }

    /// Decompresses Brotli.
    ///
    /// Output above the memory limit is an error before decompression.
    ///
    /// ```harn
    /// println(bytes_to_string(brotli_decode(brotli_encode("hi", 4)))) // -> hi
    /// ```
    Pure fn brotli_decode(cx, b: Given as "bytes") -> "bytes" {
        Value::bytes(streams::unbrotli(NAME, &packed(NAME, b)?, &check(cx))?)
    }

    /// Creates a tar archive of `{path, content, mode}` entries.
    ///
    /// `content` is bytes or a string. The default `mode` is 420 (`rw-r--r--`). Owners and times are 0. Paths must be
    /// relative, without `..`.
    ///
    /// ```harn
    /// let archive = tar_create([{path: "a.txt", content: "hi"}])
    /// println(tar_extract(archive)[0].path) // -> a.txt
    /// ```
    Pure fn tar_create(cx, entries: Given as "list") -> "bytes" {
        Value::bytes(write_tar(NAME, &given(NAME, entries)?, &check(cx))?)
    }

    /// Lists the files of a tar archive: `{path, content, mode}` each.
    ///
    /// Directories and links are omitted, and nothing is written to disk. A path is untrusted content of the archive
    /// and may be absolute or contain `..`: validate it before you use it as a file name.
    ///
    /// ```harn
    /// let files = tar_extract(tar_create([{path: "a", content: "hi", mode: 493}]))
    /// println([bytes_to_string(files[0].content), files[0].mode]) // -> [hi, 493]
    /// ```
    Pure fn tar_extract(cx, b: Given as "bytes") -> "list" {
        Value::list(read_tar(NAME, &packed(NAME, b)?, &check(cx))?)
    }

    /// Creates a zip archive of `{path, content}` entries.
    ///
    /// `content` is bytes or a string. Times are the earliest that zip supports. Paths must be relative,
    /// without `..`.
    ///
    /// ```harn
    /// println(zip_extract(zip_create([{path: "a.txt", content: "hi"}]))[0].path) // -> a.txt
    /// ```
    Pure fn zip_create(cx, entries: Given as "list") -> "bytes" {
        Value::bytes(write_zip(NAME, &given(NAME, entries)?, &check(cx))?)
    }

    /// Lists the files of a zip archive: `{path, content}` each.
    ///
    /// Directories and links are omitted, and nothing is written to disk. A path is untrusted content of the archive
    /// and may be absolute or contain `..`: validate it before you use it as a file name.
    ///
    /// ```harn
    /// println(bytes_to_string(zip_extract(zip_create([{path: "a", content: "hi"}]))[0].content)) // -> hi
    /// ```
    Pure fn zip_extract(cx, b: Given as "bytes") -> "list" {
        Value::list(read_zip(NAME, &packed(NAME, b)?, &check(cx))?)
    }
}

/// Returns the check that long operations call regularly: deadlines, cancellation and the memory limit.
fn check(cx: &Cx) -> impl Check {
    move || cx.check()
}

fn given(name: &str, value: Given) -> Result<Value> {
    value.0.ok_or_else(|| Error::runtime(format!("{name}: missing argument 1")))
}

fn wrong(name: &str, expected: &str, got: &Value) -> Error {
    let got = got.type_name();
    Error::runtime(format!("{name}: expected {expected} at argument 1, got {got}"))
}

fn between(name: &str, what: &str, number: i64, least: i64, most: i64) -> Result<i32> {
    if !(least..=most).contains(&number) {
        let text = format!("{name}: {what} must be between {least} and {most}, got {number}");
        return Err(Error::runtime(text));
    }
    Ok(number as i32)
}

/// Bytes, or the bytes of a string, without a copy.
enum Bytes {
    Bytes(Ref<Vec<u8>>),
    Text(harn_value::Str),
}

impl Bytes {
    fn of(value: &Value) -> Option<Bytes> {
        let text = || value.as_str().cloned().map(Bytes::Text);
        value.as_bytes().cloned().map(Bytes::Bytes).or_else(text)
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Bytes(bytes) => bytes,
            Bytes::Text(text) => text.as_bytes(),
        }
    }
}

fn source(name: &str, value: Given) -> Result<Bytes> {
    let value = given(name, value)?;
    Bytes::of(&value).ok_or_else(|| wrong(name, "bytes or string", &value))
}

fn packed(name: &str, value: Given) -> Result<Ref<Vec<u8>>> {
    let value = given(name, value)?;
    let bytes = value.as_bytes().cloned().ok_or_else(|| wrong(name, "bytes", &value))?;
    if bytes.is_empty() {
        return Err(unpack::broken(name, "unexpected end of data"));
    }
    Ok(bytes)
}
