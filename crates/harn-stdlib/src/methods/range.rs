//! Methods of ranges with direct results. All others are those of iterators.

use harn_value::{Range, Ref, Value};
use harn_vm::builtin::{ArgName, FromArg};
use harn_vm::{Error, Result, builtins};

/// The receiver.
struct This(Ref<Range>);

impl FromArg for This {
    const TYPE: &'static str = "range";
    const OWN_TYPE: bool = true;
    fn from_arg(value: Value, what: &ArgName) -> Result<This> {
        value.as_range().cloned().map(This).ok_or_else(|| what.expected("range", &value))
    }
}

builtins! {
    /// Methods of ranges.
    pub(crate) static RANGE: "range";

    /// Counts the ints.
    ///
    /// ```harn
    /// println((1 to 1000000000).count()) // -> 1000000000
    /// ```
    Pure fn count(cx, this: This) -> "int" {
        length(&this.0)?
    }

    /// Counts the ints; an alias of `count`.
    ///
    /// ```harn
    /// println([range(5).len(), range(5, 5).len()]) // -> [5, 0]
    /// ```
    Pure fn len(cx, this: This) -> "int" {
        length(&this.0)?
    }

    /// Returns whether the range is empty.
    ///
    /// ```harn
    /// println([(1 to 0).empty(), (1 to 1).empty()]) // -> [true, false]
    /// ```
    Pure fn empty(cx, this: This) -> "bool" {
        this.0.is_empty()
    }

    /// Returns the first int, or nil if the range is empty.
    ///
    /// ```harn
    /// println([(3 to 5).first(), (3 to 2).first()]) // -> [3, nil]
    /// ```
    Pure fn first(cx, this: This) -> "any" {
        (!this.0.is_empty()).then_some(this.0.start)
    }

    /// Returns the last int, or nil if the range is empty.
    ///
    /// ```harn
    /// println([(3 to 5).last(), range(5).last()]) // -> [5, 4]
    /// ```
    Pure fn last(cx, this: This) -> "any" {
        this.0.last()
    }

    /// Returns whether an int is in the range; false for floats.
    ///
    /// ```harn
    /// println([(1 to 5).contains(5), range(5).contains(5), (1 to 5).contains(2.0)]) // -> [true, false, false]
    /// ```
    Pure fn contains(cx, this: This, value: Value) -> "bool" {
        value.as_int().is_some_and(|i| this.0.contains(i))
    }
}

/// Returns the number of ints in a range.
///
/// # Errors
/// `Runtime error: Integer overflow: len(A to B)`, if the number does not fit into an int.
pub(crate) fn length(range: &Ref<Range>) -> Result<i64> {
    i64::try_from(range.len())
        .map_err(|_| Error::runtime(format!("Integer overflow: len({})", Value::from(range.clone()))))
}
