//! Queries in a subset of the jq language.

use harn_value::Value;
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, printed};
use crate::jq;

builtins! {
    /// jq queries.
    pub(crate) static JQ: "jq";

    /// Lists all results of a jq expression for a value, compatible with jq 1.7.
    ///
    /// Supported: paths, slices, `..`, `?`, pipes, commas, arrays, objects, strings with `\(..)` and `@format`,
    /// operators, `//`, `if`, `try`, `reduce`, `foreach`, `as $x`, and the builtin functions, except those for paths,
    /// dates, and input and output. Of the regular expression functions, only `test` is supported. Assignments, `def`,
    /// `del`, `path` and destructuring are errors that name the unsupported form.
    ///
    /// ```harn
    /// let users = [{name: "Ada", age: 36}, {name: "Bob", age: 17}]
    /// println(jq(users, ".[] | select(.age > 18) | .name")) // -> [Ada]
    /// println(jq(users, "(map(.age) | add), (map(.age > 18) | all | not)")) // -> [53, true]
    /// println(try { jq(1, "foo") }) // -> Result.Err(jq: unknown identifier 'foo')
    /// println(try { jq(1, ".[]") }) // -> Result.Err(jq: cannot iterate over number (1))
    /// ```
    Pure fn jq_ = "jq"(cx, value: Given, expression: Given) -> "list" {
        results(value, expression, usize::MAX)?
    }

    /// Returns the first result of a jq expression for a value, or nil if it has no results.
    ///
    /// Later results are not computed.
    ///
    /// ```harn
    /// println(jq_first({a: [{b: 7}]}, ".a[0].b")) // -> 7
    /// ```
    Pure fn jq_first(cx, value: Given, expression: Given) -> "any" {
        results(value, expression, 1)?.into_iter().next()
    }
}

fn results(value: Given, expression: Given, limit: usize) -> Result<Vec<Value>> {
    let (Some(value), Some(expression)) = (value.0, expression.0) else {
        return Err(Error::thrown("jq requires 2 arguments"));
    };
    let failed = |error: String| Error::thrown(format!("jq: {error}"));
    jq::parse(&printed(&expression)).and_then(|query| query.results(&value, limit)).map_err(failed)
}
