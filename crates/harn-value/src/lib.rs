//! The values of a Harn program: layout, equality, order, printed form.
//!
//! A [`Value`] is 16 bytes. nil, bool, int, float, duration and builtin functions are inline,
//! all other values are reference-counted pointers. Lists, dicts, sets and structs have value semantics: change
//! them through `as_*_mut` and [`Ref::make_mut`], which copies if there is another reference.
//!
//! ```
//! use harn_value::{Dict, Value, View};
//!
//! let mut d = Dict::new();
//! d.insert("name", "Ada");
//! d.insert("tags", vec![Value::int(1), Value::float(2.0)]);
//! let v = Value::from(d);
//! assert_eq!(v.to_string(), "{name: Ada, tags: [1, 2.0]}");
//! match v.view() {
//!     View::Dict(d) => assert_eq!(d.get_str("name").unwrap().as_str().unwrap().as_str(), "Ada"),
//!     _ => unreachable!(),
//! }
//! ```
//!
//! Reading order: `value.rs` (the layout), `text.rs`, `dict.rs`. The crate does not depend on
//! source text, bytecode or I/O. `unsafe` code is only in `object.rs`, `list.rs`, `text.rs`, `value.rs` and
//! `foreign.rs`; `compound.rs` declares two `unsafe` functions. Values are not `Send`: a program runs on one thread.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod array_part;
mod char_index;
mod compound;
pub mod data;
mod dict;
mod equal;
mod foreign;
mod glob;
pub mod json;
pub mod json_partial;
mod list;
pub mod memory;
mod object;
mod pace;
mod print;
mod set;
pub mod steps;
mod text;
mod trace;
mod value;

pub use compound::{EnumType, EnumValue, FieldTypes, Pair, Range, StructType, StructValue, Structural};
pub use data::Data;
pub use dict::Dict;
pub use equal::{Unordered, compare, equal, identical, order, with_stack};
pub use foreign::Foreign;
pub use glob::glob;
pub use list::List;
pub use object::Ref;
pub use print::{print, print_int, short};
pub use set::Set;
pub use text::Str;
pub use value::{NativeHeader, Tag, Value, View};

const _: () = assert!(size_of::<Value>() == 16);
