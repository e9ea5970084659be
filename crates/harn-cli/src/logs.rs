//! `--log-format`: messages and output of long-running commands as JSON, one object per line.

use std::fmt::Write as _;
use std::sync::Mutex;

use harn_system::{Real, System};
use harn_value::json;

/// The form of log messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Plain text lines
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// Returns the level at the beginning of a text line.
    fn of(line: &str) -> Level {
        let line = line.strip_prefix("[harn] ").unwrap_or(line);
        match line {
            line if line.starts_with("error") => Level::Error,
            line if line.starts_with("warning") => Level::Warn,
            _ => Level::Info,
        }
    }
}

/// The stream of an output line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Converts text to JSON lines.
fn lines(at_ms: i64, level: Option<Level>, run: Option<&str>, stream: Option<Stream>, text: &str) -> String {
    let time =
        jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| String::new(), |at| format!("{at:.3}"));
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let level = match stream {
            Some(Stream::Out) => Level::Info,
            _ => level.unwrap_or_else(|| Level::of(line)),
        };
        let message = line.strip_prefix("[harn] ").unwrap_or(line);
        let mut object = json!({"time": time.as_str(), "level": level.word()});
        if let Some(run) = run {
            object["run"] = run.into();
        }
        if let Some(stream) = stream {
            object["stream"] = if stream == Stream::Out { "stdout" } else { "stderr" }.into();
        }
        object["message"] = message.into();
        let _ = writeln!(out, "{object}");
    }
    out
}

impl LogFormat {
    /// Writes a message of the command to standard error.
    pub(crate) fn tell(self, level: Level, run: Option<&str>, text: &str) {
        let system = Real::new();
        match self {
            LogFormat::Json => system.write_err(&lines(system.now_ms(), Some(level), run, None, text)),
            LogFormat::Text => system.write_err(&harn_syntax::notice(text)),
        }
    }

    /// Formats program output for the log. It consists of complete lines.
    pub(crate) fn output(self, run: Option<&str>, stream: Stream, text: String) -> String {
        match self {
            LogFormat::Text => text,
            LogFormat::Json => lines(Real::new().now_ms(), None, run, Some(stream), &text),
        }
    }
}

/// Joins pieces of output to lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

/// Longer lines are split.
const LONGEST_LINE: usize = 64 << 10;

impl Lines {
    /// Adds a piece. Returns the complete lines.
    pub(crate) fn add(&mut self, piece: &[u8]) -> String {
        self.0.extend_from_slice(piece);
        let whole = match self.0.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            // Split before the last character, which may be incomplete.
            None if self.0.len() > LONGEST_LINE => {
                let last = self.0.len() - 4;
                self.0[last..].iter().rposition(|byte| byte & 0xc0 != 0x80).map_or(last, |at| last + at)
            }
            None => 0,
        };
        let rest = self.0.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }

    /// Returns the incomplete last line.
    pub(crate) fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// Standard error of a server, in its log format.
#[derive(Debug, Default)]
pub(crate) struct Log {
    format: LogFormat,
    partial: Mutex<Lines>,
}

impl Log {
    pub(crate) fn new(format: LogFormat) -> Log {
        Log { format, partial: Mutex::default() }
    }

    /// Logs a request. Text logs omit requests.
    pub(crate) fn request(&self, method: &str, outcome: &str, time: std::time::Duration) {
        if self.format == LogFormat::Json {
            let level = if outcome == "error" { Level::Warn } else { Level::Info };
            self.format.tell(level, None, &format!("{method}: {outcome} after {} ms", time.as_millis()));
        }
    }

    /// Writes program output to standard error.
    pub(crate) fn write(&self, text: &str) {
        let system = Real::new();
        if self.format == LogFormat::Text {
            return system.write_err(text);
        }
        let mut partial = self.partial.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let whole = partial.add(text.as_bytes());
        system.write_err(&self.format.output(None, Stream::Err, whole));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let rest = self.partial.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).rest();
        Real::new().write_err(&self.format.output(None, Stream::Err, rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"a\nb"), "a\n");
        assert_eq!(lines.add(b"c"), "");
        assert_eq!(lines.add("\nd\nä".as_bytes()), "bc\nd\n");
        assert_eq!(lines.rest(), "ä");
        let long = "ä".repeat(LONGEST_LINE);
        let (first, last) = long.as_bytes().split_at(LONGEST_LINE + 1);
        let shown = lines.add(first);
        assert!(!shown.contains('\u{fffd}') && shown.len() >= LONGEST_LINE);
        assert_eq!(shown + &lines.add(last) + &lines.rest(), long);
    }

    #[test]
    fn each_line_is_an_object() {
        let text = "[harn] warning: a \"b\"\n\nerror: c\nd\n";
        let shown = lines(1_500, None, Some("r"), Some(Stream::Err), text);
        let expected = [
            r#"{"time":"1970-01-01T00:00:01.500Z","level":"warn","run":"r","stream":"stderr","message":"warning: a \"b\""}"#,
            r#"{"time":"1970-01-01T00:00:01.500Z","level":"error","run":"r","stream":"stderr","message":"error: c"}"#,
            r#"{"time":"1970-01-01T00:00:01.500Z","level":"info","run":"r","stream":"stderr","message":"d"}"#,
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
        // Program output has no levels.
        let shown = lines(0, None, None, Some(Stream::Out), "error: c");
        assert!(shown.contains(r#""level":"info","stream":"stdout""#), "{shown}");
    }
}
