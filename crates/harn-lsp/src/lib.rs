//! The language server: answers requests of editors about Harn programs and prompt templates, over the language
//! server protocol.
//!
//! It does not depend on the virtual machine. Its [`Host`] supplies the builtins, their documentation and the
//! diagnostics of `harn check`; files are read through the host's system. Everything else is derived from one parse of a
//! document, which recovers from errors, and from the meaning of its names ([`harn_front::Names`]).
//!
//! | File | Content |
//! | --- | --- |
//! | `frame` | reading messages from a stream |
//! | `server` | the loop, and the handlers of messages |
//! | `host` | the interface between the server and the virtual machine |
//! | `text` | conversion between byte offsets and positions of the protocol |
//! | `document` | a source with its tree, names and types |
//! | `workspace` | open documents, and files on disk |
//! | `meaning` | the meaning of the name at a position, across files |
//! | `complete` | completion of names, members, options and imports |
//! | `call` | the call around a position; signature help |
//! | `hover` | hover information about a name |
//! | `navigate` | definition, references |
//! | `rename` | rename |
//! | `outline` | symbols, folding, selection, links |
//! | `colours` | semantic tokens |
//! | `findings` | diagnostics, code actions |
//! | `edits` | formatting, hints |
//! | `templates` | `.harn.prompt` files |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod call;
mod colours;
mod complete;
mod document;
mod edits;
mod findings;
mod frame;
mod host;
mod hover;
mod meaning;
mod navigate;
mod outline;
mod rename;
mod server;
mod templates;
mod text;
mod workspace;

use std::path::Path;
use std::rc::Rc;

pub use frame::read_frame;
pub use host::{Host, OptionKey, Word};
pub use server::{Ended, serve};

/// Returns the completions in an import, or for a key of a struct or of options, in source code that belongs to a
/// directory, and the start of the identifier; `None` at other positions.
pub fn complete_special(
    host: &dyn Host,
    folder: &Path,
    text: &str,
    offset: usize,
) -> Option<(usize, Vec<String>)> {
    let path = folder.join("input.harn");
    let workspace = workspace::Workspace::new(host, Vec::new());
    let document = Rc::new(document::Document::new(path.clone(), document::uri_of(&path)?, text.to_owned()));
    complete::special(&workspace, &document, u32::try_from(offset).ok()?)
}
