//! The language server: what an editor asks about Harn programs and prompt templates, over the language server protocol.
//!
//! It knows nothing of the machine. What builtins there are, what they do, and what `harn check` says of a text it learns from
//! its [`Host`]; files it reads through the host's system. Everything else is made from one parse of a text, which goes on
//! behind errors, and from what its names stand for ([`harn_front::Names`]).
//!
//! | File | What it holds |
//! | --- | --- |
//! | `frame` | how messages are cut out of a stream |
//! | `server` | the loop: which message is answered by whom |
//! | `host` | what the server is told about the machine |
//! | `text` | places in a text, as bytes and as the protocol counts them |
//! | `document` | a text with its tree, names and types |
//! | `workspace` | the texts that are open, and those on disk |
//! | `meaning` | what stands at a place, across files |
//! | `complete` | completion of names, members, options and imports |
//! | `call` | the call around a place; help with its parameters |
//! | `hover` | what is told about a name |
//! | `navigate` | definition, references, rename |
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
mod server;
mod templates;
mod text;
mod workspace;

use std::path::Path;
use std::rc::Rc;

pub use frame::read_frame;
pub use host::{Host, Word};
pub use server::{Ended, serve};

/// What may stand in an import or as the key of a struct or of options, at a place of a text that is being written in a folder, and where
/// the word begins; nothing at other places.
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
