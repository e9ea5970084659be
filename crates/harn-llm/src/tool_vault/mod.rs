//! Tool Vault: tools whose schemas are not in the model's context until a search finds them.
//!
//! [`plan()`] decides whether the provider or the client searches and which tools are sent. [`Vault`] is the client
//! side for loops: it ranks tools, promotes them within a budget, and reports each search.

mod bm25;
mod index;
mod plan;
mod vault;

pub use index::{Hits, ToolIndex};
pub use plan::{SearchPlan, Situation, plan};
pub use vault::{Promotion, Vault};
