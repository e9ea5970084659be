//! Decides when an input of the REPL is complete: brackets and strings are closed, and the last line does not require
//! another one.

/// The completeness of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It can be parsed, possibly with errors.
    Complete,
    /// It needs more lines.
    Incomplete,
}

/// Operators that cannot end a statement.
const OPEN_ENDS: &[&str] = &[
    "+", "-", "*", "/", "%", "=", "==", "!=", "<", "<=", ">=", "&&", "||", "|>", "??", "->", ",", ".", "?.",
    "\\",
];

/// Returns the state of an input.
pub(crate) fn state(text: &str) -> State {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, last: 0..0 };
    match scanner.code(None, 0) {
        Scan::Open => State::Incomplete,
        Scan::Wrong => State::Complete,
        Scan::Closed => {
            let end = text.get(..scanner.last.end).unwrap_or_default();
            let open = OPEN_ENDS.iter().any(|op| end.ends_with(op)) && !end.ends_with("++");
            if open { State::Incomplete } else { State::Complete }
        }
    }
}

/// The result of the scanner.
#[derive(PartialEq, Eq)]
enum Scan {
    /// Everything is closed.
    Closed,
    /// The input ends inside of something that further lines can close.
    Open,
    /// There is a surplus closing bracket, or a string that is not closed on its line. Further lines cannot fix this.
    Wrong,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The last token that is neither whitespace nor a comment.
    last: std::ops::Range<usize>,
}

impl Scanner<'_> {
    fn looks_at(&self, piece: &[u8]) -> bool {
        self.text[self.at..].starts_with(piece)
    }

    /// Scans code up to `close`, or to the end of the input if it is `None`.
    fn code(&mut self, close: Option<u8>, depth: usize) -> Scan {
        // The parser reports nesting that is too deep.
        if depth > harn_syntax::MAX_NESTING {
            return Scan::Wrong;
        }
        while let Some(&byte) = self.text.get(self.at) {
            let start = self.at;
            let inner = match byte {
                b'/' if self.looks_at(b"//") => {
                    self.at += self.text[self.at..].iter().take_while(|b| **b != b'\n').count();
                    continue;
                }
                b'/' if self.looks_at(b"/*") => self.comment(),
                b'"' if self.looks_at(b"\"\"\"") => self.string(b"\"\"\"", depth),
                b'"' => self.string(b"\"", depth),
                b'r' if self.looks_at(b"r\"") && !self.inside_name() => self.raw_string(),
                b'(' => self.bracket(b')', depth),
                b'[' => self.bracket(b']', depth),
                b'{' => self.bracket(b'}', depth),
                b')' | b']' | b'}' => {
                    self.at += 1;
                    return if close == Some(byte) { Scan::Closed } else { Scan::Wrong };
                }
                _ => {
                    self.at += 1;
                    Scan::Closed
                }
            };
            if inner != Scan::Closed {
                return inner;
            }
            if !byte.is_ascii_whitespace() && !self.text[start..].starts_with(b"/*") {
                self.last = start..self.at;
            }
        }
        if close.is_none() { Scan::Closed } else { Scan::Open }
    }

    /// Whether the previous byte is part of a name, so that an `r` is not a string prefix.
    fn inside_name(&self) -> bool {
        self.at > 0 && (self.text[self.at - 1].is_ascii_alphanumeric() || self.text[self.at - 1] == b'_')
    }

    fn bracket(&mut self, close: u8, depth: usize) -> Scan {
        self.at += 1;
        self.code(Some(close), depth + 1)
    }

    fn comment(&mut self) -> Scan {
        let mut open = 0;
        while self.at < self.text.len() {
            if self.looks_at(b"/*") {
                open += 1;
                self.at += 2;
            } else if self.looks_at(b"*/") {
                open -= 1;
                self.at += 2;
                if open == 0 {
                    return Scan::Closed;
                }
            } else {
                self.at += 1;
            }
        }
        Scan::Open
    }

    fn raw_string(&mut self) -> Scan {
        self.at += 2;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return Scan::Closed,
                b'\n' => return Scan::Wrong,
                _ => {}
            }
        }
        Scan::Wrong
    }

    fn string(&mut self, quote: &[u8], depth: usize) -> Scan {
        self.at += quote.len();
        let lines = quote.len() == 3;
        while self.at < self.text.len() {
            if self.looks_at(quote) {
                self.at += quote.len();
                return Scan::Closed;
            }
            match self.text[self.at] {
                b'\\' if !lines => self.at += 2,
                b'\n' if !lines => return Scan::Wrong,
                b'$' if self.looks_at(b"${") => {
                    self.at += 2;
                    let inner = self.code(Some(b'}'), depth + 1);
                    if inner != Scan::Closed {
                        return inner;
                    }
                }
                _ => self.at += 1,
            }
        }
        self.at = self.text.len();
        if lines { Scan::Open } else { Scan::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_texts_are_complete() {
        for text in [
            "",
            "1 + 2",
            "let s = \"a { b\"",
            "f(\n1)",
            "// {",
            "/* { */ 1",
            "\"${ {a: 1}[\"}\"] }\"",
            "x // (",
        ] {
            assert_eq!(state(text), State::Complete, "{text}");
        }
    }

    #[test]
    fn open_texts_ask_for_more() {
        for text in
            ["fn f() {", "[1,", "f(", "\"\"\"\nabc", "/* open", "let x =", "xs\n  |>", "\"${ f(", "1 + \\"]
        {
            assert_eq!(state(text), State::Incomplete, "{text}");
        }
    }

    #[test]
    fn what_more_lines_cannot_mend_is_complete() {
        for text in ["let s = \"abc", "}", "(]", "r\"abc\n"] {
            assert_eq!(state(text), State::Complete, "{text}");
        }
    }
}
