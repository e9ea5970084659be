//! The model catalogue: prices, limits, features and retirement dates as generated data.
//!
//! `data/models.tsv` is generated (`make models`). `data/models.overlay.tsv` is maintained by hand and adds data that
//! the source lacks. Both are searched as text: nothing is parsed before a model is looked up.

mod build;
mod entry;
mod table;
mod vendors;

pub use build::table_of_litellm;
pub use entry::{Entry, Match};
pub use table::{Catalog, Days, Table};
