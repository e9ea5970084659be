//! Methods of all values.

use harn_value::Value;
use harn_vm::builtins;

use crate::args::printed;

builtins! {
    /// Methods of all values.
    pub(crate) static ANY: "any";

    /// Returns the printed form.
    ///
    /// ```harn
    /// println(3.0.to_string() + "!") // -> 3.0!
    /// println([1, "a"].to_string()) // -> [1, a]
    /// ```
    Pure fn to_string(cx, this: Value) -> "string" {
        printed(&this)
    }
}
