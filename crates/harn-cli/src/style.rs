//! Colours: only on a terminal and if `NO_COLOR` is unset; `FORCE_COLOR=1` forces them.

use harn_system::{Real, Stream, System};

/// Whether a stream is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Colour(bool);

impl Colour {
    /// Decides for a stream.
    pub(crate) fn of(stream: Stream) -> Colour {
        let set = |name: &str| Real::new().env(name).is_some_and(|v| !v.is_empty());
        Colour(if set("NO_COLOR") { false } else { Real::new().is_terminal(stream) || set("FORCE_COLOR") })
    }

    /// Whether colours are enabled.
    pub(crate) fn on(self) -> bool {
        self.0
    }

    /// Colours `text` with an ANSI code.
    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Errors: bold red.
    pub(crate) fn error(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Headings and names: bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Success: green.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }
}
