//! Constructors of iterators, pairs and ranges.

use harn_value::Value;
use harn_vm::builtin::Rest;
use harn_vm::{Error, builtins};

use crate::args::Given;

builtins! {
    /// Iterators, pairs and ranges.
    pub(crate) static CONSTRUCTORS: "iterators";

    /// Returns a lazy, single-pass iterator over a collection, string, range, generator, stream or
    /// channel.
    ///
    /// A dict yields pairs `(key, value)`. The iterator uses the current value of the collection; an
    /// iterator is returned unchanged.
    ///
    /// ```harn
    /// for (k, v) in iter({a: 1}) { println("${k}=${v}") } // -> a=1
    /// println(iter([1, 2, 3]).map({ x -> x * x }).to_list()) // -> [1, 4, 9]
    /// ```
    Pure fn iter(cx, source: Given) -> "iter" {
        match source.0 {
            Some(source) => cx.iter(&source)?.into_value(),
            None => return Err(Error::type_error("iter: expected 1 argument")),
        }
    }

    /// Returns the pair `(first, second)`.
    ///
    /// ```harn
    /// let p = pair(1, "a")
    /// println("${p} ${p.first} ${p.second}") // -> (1, a) 1 a
    /// ```
    Pure fn pair(cx, first: Given, second: Given) -> "pair" {
        match (first.0, second.0) {
            (Some(first), Some(second)) => Value::pair(first, second),
            (first, _) => {
                let given = usize::from(first.is_some());
                return Err(Error::type_error(format!("pair: expected 2 arguments, got {given}")));
            }
        }
    }

    /// Returns the lazy range of ints from 0, or from `a`, to before the last argument.
    ///
    /// ```harn
    /// println(range(3)) // -> 0 to 3 exclusive
    /// println(range(3, 7).to_list()) // -> [3, 4, 5, 6]
    /// ```
    Pure fn range(cx, a: Given as "int", b: Given as "int?", more: Rest) -> "range" {
        let given = more.0.len() + usize::from(a.0.is_some()) + usize::from(b.0.is_some());
        let (start, end) = match (given, a.0, b.0) {
            (1, Some(end), _) => match end.as_int() {
                Some(end) => (0, end),
                None => return Err(Error::type_error("range(n): expected integer argument")),
            },
            (2, Some(start), Some(end)) => match (start.as_int(), end.as_int()) {
                (Some(start), Some(end)) => (start, end),
                _ => return Err(Error::type_error("range(a, b): expected integer arguments")),
            },
            _ => {
                let text = format!("range expects 1 or 2 integer arguments, got {given}");
                return Err(Error::type_error(text));
            }
        };
        Value::range(harn_value::Range { start, end, exclusive: true })
    }
}
