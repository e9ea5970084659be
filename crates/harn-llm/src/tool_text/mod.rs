//! Tool calls written as text: the grammar inside `<tool_call>`, and replies that consist of tagged blocks.

mod declare;
mod grammar;
mod quoted;
mod reply;
mod scan;
mod visible;

pub use declare::{declarations, first_sentence, type_text};
pub use grammar::ParsedCall;
pub use reply::{Block, TaggedReply, has_opening_tag, parse_reply};
pub(crate) use scan::may_be_call;
pub use visible::{sanitize, sanitize_partial};
