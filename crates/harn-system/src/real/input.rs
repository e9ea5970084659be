//! Standard input as text.

use std::io::{self, BufRead};

/// A line without its end; `None` when there is none left.
pub(crate) fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if input.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    text(bytes, "a line of standard input").map(Some)
}

/// What is left.
pub(crate) fn rest(input: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    text(bytes, "standard input")
}

fn text(bytes: Vec<u8>, what: &str) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let reason = format!("{what} is not UTF-8: invalid byte {at} (counted from 0)");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_text_is_an_error_and_the_next_one_is_read() {
        let mut input = b"good\nb\xffad\r\nmore\r\n\nend".as_slice();
        let mut next = || line(&mut input);
        assert_eq!(next().expect("text").as_deref(), Some("good"));
        assert!(next().expect_err("no text").to_string().contains("not UTF-8: invalid byte 1"));
        assert_eq!(next().expect("text").as_deref(), Some("more"));
        assert_eq!(next().expect("text").as_deref(), Some(""));
        assert_eq!(next().expect("text").as_deref(), Some("end"));
        assert_eq!(next().expect("text"), None);
        assert!(rest(&mut b"a\xff".as_slice()).is_err());
        assert_eq!(rest(&mut "ä".as_bytes()).expect("text"), "ä");
    }
}
