//! Classification of an error that ended a program.

use harn_vm::{Error, ErrorKind};

use crate::convert::to_json;

/// Returns the category of an error, as `error_category` does.
#[must_use]
pub fn error_category(error: &Error) -> String {
    if let ErrorKind::Category { category, .. } = error.kind() {
        return category.clone();
    }
    harn_llm::runtime::category_of(&to_json(&error.caught())).as_str().to_owned()
}
