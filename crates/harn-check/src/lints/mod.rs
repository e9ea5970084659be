//! The rules of `harn lint`.

mod template_file;

pub(crate) use template_file::diagnostic;

pub use template_file::lint_template_file;
