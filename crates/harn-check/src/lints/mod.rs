//! The rules of `harn lint`.

mod calls;
mod declared;
mod effects;
mod idle;
mod inferred;
mod layout;
mod mistakes;
mod program;
mod registry;
mod shadow;
mod simplify;
mod suppress;
mod template_file;
mod uses;

pub(crate) use template_file::diagnostic;

pub use layout::LAYOUT_RULES;
pub use program::lint_program;
pub use registry::MaxTools;
pub use template_file::lint_template_file;
