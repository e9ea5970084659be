//! The methods of values, one file per type. The receiver is the first parameter, `this`.

use harn_vm::builtin::MethodTable;

mod any;
mod dict;
mod iter;
mod list;
mod range;
mod set;
mod string;

pub(crate) use iter::Reduce;
pub(crate) use range::length;

/// Returns all method tables. A type may have several tables, of which the earlier takes precedence; `"any"` is the
/// fallback.
pub fn methods() -> Vec<MethodTable> {
    let table = |type_name, methods| MethodTable { type_name, methods };
    vec![
        table("string", string::STRING),
        table("string", string::STRING_ALIASES),
        table("list", list::ACCESS),
        table("list", list::CALLBACKS),
        table("list", list::PIECES),
        table("dict", dict::DICT),
        table("set", set::SET),
        // A range has some methods with direct results; the others are those of an iterator over its ints.
        table("range", range::RANGE),
        table("range", iter::COMBINATORS),
        table("range", iter::SINKS),
        table("iter", iter::COMBINATORS),
        table("iter", iter::SINKS),
        table("generator", iter::PULL),
        table("stream", iter::PULL),
        table("channel", iter::PULL),
        table("any", any::ANY),
    ]
}
