//! Tool Vault: tools whose schemas stay out of the model's context until a search brings them up.
//!
//! [`plan()`] decides whether the provider or the client searches and which tools travel; [`Vault`] is the
//! client's side for loops: it ranks, promotes within a budget, and reports what it did.

mod bm25;
mod index;
mod plan;
mod vault;

pub use index::{Hits, ToolIndex};
pub use plan::{SearchPlan, Situation, plan};
pub use vault::{Promotion, Vault};
