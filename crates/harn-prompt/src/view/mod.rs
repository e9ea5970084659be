//! Explanations for users: plain text (optionally with ANSI colours), as pure functions from values to a `String`.
//!
//! [`explanation`] shows one prompt, optionally with the same prompt without some tools; [`call()`] shows the prompt of
//! one model call in a run (`harn explain prompt`).

mod call;
mod layout;
mod margin;

pub use call::{CallHead, call};
pub use margin::explanation;

/// The layout of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the output; parts that cannot be wrapped may be longer.
    pub width: usize,
    /// Whether ANSI colours are written.
    pub color: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, color: false }
    }
}

/// The colours of the views.
#[derive(Clone, Copy, Debug)]
enum Paint {
    Heading,
    Included,
    Excluded,
    Quiet,
}

impl Style {
    fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Heading => "1",
            Paint::Included => "36",
            Paint::Excluded => "33",
            Paint::Quiet => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Returns `n thing` or `n things`.
fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}
