//! The environment of a scenario: a scratch directory with its files, and streams that are shown and captured.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;

use harn_system::{Layer, Real, Stream, System};

use crate::out::Out;
use crate::style::Colour;

/// An empty file of replies.
pub(super) const NO_REPLIES: &str = ".no-replies.jsonl";

/// A scratch directory, removed when dropped.
pub(super) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    /// Writes the files of a scenario.
    ///
    /// # Errors
    /// A message for the user.
    #[expect(clippy::disallowed_methods, reason = "a folder that is gone at the end, also after a panic")]
    pub(super) fn set(files: &[(&str, &str)]) -> Result<Stage, String> {
        let cannot = |e: io::Error| format!("cannot write the files of the demo: {e}");
        let folder = tempfile::tempdir().map_err(cannot)?;
        for (name, text) in files.iter().chain(&[(NO_REPLIES, "")]) {
            let path = folder.path().join(name);
            if let Some(parent) = path.parent() {
                Real::new().make_dirs(parent).map_err(cannot)?;
            }
            Real::new().replace(&path, text.as_bytes()).map_err(cannot)?;
        }
        Ok(Stage { folder })
    }

    /// The path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the system of the scenario. `calls` is the directory for the log of its model calls.
    pub(super) fn system(&self, streams: &Streams, calls: Option<PathBuf>) -> Rc<dyn System> {
        Rc::new(StageSystem {
            inner: Real::new(),
            folder: self.folder.path().to_owned(),
            streams: streams.clone(),
            calls,
        })
    }
}

/// The captured output of a scenario. Clones share it.
#[derive(Clone)]
pub(super) struct Streams {
    shown: bool,
    kept: Rc<RefCell<(String, String)>>,
}

impl Streams {
    /// Captures both streams. With `shown`, output is also printed.
    pub(super) fn new(shown: bool) -> Streams {
        Streams { shown, kept: Rc::default() }
    }

    /// Returns the standard output without colour codes.
    pub(super) fn out(&self) -> String {
        without_colour(&self.kept.borrow().0)
    }

    /// Returns the standard error output without colour codes.
    pub(super) fn err(&self) -> String {
        without_colour(&self.kept.borrow().1)
    }

    /// Whether diagnostics are coloured.
    pub(super) fn colour(&self) -> bool {
        self.shown && Colour::of(Stream::Error).on()
    }

    pub(super) fn write_err(&self, text: &str) {
        if self.shown {
            let _ = io::stderr().write_all(text.as_bytes());
        }
        self.kept.borrow_mut().1.push_str(text);
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.kept.borrow_mut().0.push_str(text);
        if self.shown {
            Out.write_all(text.as_bytes())?;
            Out.flush()?;
        }
        Ok(())
    }
}

/// Removes colour codes, which must not be written to files.
fn without_colour(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let rest = &part[end..];
        text + rest.strip_prefix('m').unwrap_or(rest)
    })
}

/// The real system, except for the working directory, the streams and the directory for logs of model calls.
struct StageSystem {
    inner: Real,
    folder: PathBuf,
    streams: Streams,
    calls: Option<PathBuf>,
}

impl Layer for StageSystem {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.streams.write_out(text)
    }

    fn write_err(&self, text: &str) {
        self.streams.write_err(text);
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.folder.clone())
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            // Captured output is not coloured.
            "NO_COLOR" if !self.streams.shown => Some("1".to_owned()),
            "FORCE_COLOR" if !self.streams.shown => None,
            "HARN_LLM_TRANSCRIPT_DIR" => {
                let named = self.inner.env(name).filter(|folder| !folder.is_empty());
                named.or_else(|| Some(self.calls.as_ref()?.display().to_string()))
            }
            _ => self.inner.env(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(without_colour("a\u{1b}[1;31mb\u{1b}[0mc\u{1b}[m"), "abc");
        assert_eq!(without_colour("plain é"), "plain é");
    }
}
