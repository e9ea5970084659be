//! Messages with a `Content-Length` header, as editors exchange them with language servers and debuggers.

use std::io::{self, BufRead, Read};

/// Maximum size of a message: 64 MiB.
const MAX_MESSAGE: u64 = 64 << 20;

/// Maximum length of a header line.
const MAX_LINE: u64 = 8 << 10;

/// Reads the next message; `None` at the end of the input. Allocates as data arrives, not as the header announces.
///
/// # Errors
/// The input cannot be read, ends within a message, or is not a valid message; the error says why.
pub fn read_frame(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = None;
    let mut is_first = true;
    loop {
        let mut line = Vec::new();
        input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() && is_first {
            return Ok(None);
        }
        is_first = false;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !line.ends_with(b"\n") {
            return Err(invalid(if line.len() as u64 == MAX_LINE {
                format!(
                    "no message begins with {}: a line of its head has at most {MAX_LINE} bytes",
                    shown(text)
                )
            } else {
                "the input ends in the head of a message".to_owned()
            }));
        }
        if text.is_empty() {
            break;
        }
        let Some((name, value)) = text.split_once(':') else {
            return Err(invalid(format!(
                "no line of the head of a message is {}: expected one such as `Content-Length: 120`",
                shown(text)
            )));
        };
        if name.trim().eq_ignore_ascii_case("content-length") {
            let bytes = value.trim().parse::<u64>().map_err(|_| {
                invalid(format!(
                    "the Content-Length of a message is {}: expected a number of bytes",
                    shown(value.trim())
                ))
            })?;
            length = Some(bytes);
        }
    }
    let length = length.ok_or_else(|| invalid("a message has no Content-Length".to_owned()))?;
    if length > MAX_MESSAGE {
        return Err(invalid(format!(
            "the Content-Length of a message is {length}: at most {MAX_MESSAGE} bytes (64 MiB) are read"
        )));
    }
    let mut body = Vec::new();
    input.by_ref().take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(invalid(format!(
            "the input ends in a message: {} of its {length} bytes are there",
            body.len()
        )));
    }
    Ok(Some(body))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Shortens a header for an error message.
fn shown(text: &str) -> String {
    let head: String = text.chars().take(40).collect();
    format!("{head:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<String>, String> {
        let read = read_frame(&mut io::Cursor::new(text)).map_err(|error| error.to_string())?;
        Ok(read.map(|body| String::from_utf8(body).expect("text")))
    }

    #[test]
    fn messages_stand_behind_their_heads() {
        assert_eq!(read("Content-Length: 2\r\n\r\n{}"), Ok(Some("{}".to_owned())));
        assert_eq!(read("content-type: x\r\ncontent-length:2\n\n{}{}"), Ok(Some("{}".to_owned())));
        assert_eq!(read(""), Ok(None));
    }

    #[test]
    fn broken_heads_are_told() {
        let long = "x".repeat(3 << 20);
        for (text, told) in [
            (
                "Content-Length: 99999999999999\r\n\r\n",
                "is 99999999999999: at most 67108864 bytes (64 MiB) are read",
            ),
            ("Content-Length: -1\r\n\r\n", "is \"-1\": expected a number of bytes"),
            ("Content-Length: 99999999999999999999999\r\n\r\n", "expected a number of bytes"),
            ("A: b\r\n\r\n{}", "a message has no Content-Length"),
            ("\r\n", "a message has no Content-Length"),
            ("{\"id\"\r\n", "no line of the head of a message is \"{\\\"id\\\"\""),
            ("Content-Length: 5", "the input ends in the head of a message"),
            ("Content-Length: 5\r\n", "the input ends in the head of a message"),
            ("Content-Length: 5\r\n\r\n{}", "the input ends in a message: 2 of its 5 bytes are there"),
            (&long, "a line of its head has at most 8192 bytes"),
        ] {
            let error = read(text).expect_err(told);
            assert!(error.contains(told), "{error}");
        }
    }
}
