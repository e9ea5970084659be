//! Queries in a subset of the jq language.

use harn_value::Value;
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, printed};
use crate::jq;

builtins! {
    /// jq queries.
    pub(crate) static JQ: "jq";

    /// Lists all results of a jq expression for a value.
    ///
    /// It knows paths, slices, `.[]`, `..`, pipes, commas, comparisons, `and or not`, `length keys values
    /// type`, `map`, `select`, objects and literals.
    ///
    /// ```harn
    /// let users = [{name: "Ada", age: 36}, {name: "Bob", age: 17}]
    /// println(jq(users, ".[] | select(.age > 18) | .name")) // -> [Ada]
    /// println(try { jq(1, "foo") }) // -> Result.Err(jq: unknown identifier 'foo')
    /// ```
    Pure fn jq_ = "jq"(cx, value: Given, expression: Given) -> "list" {
        results(value, expression)?
    }

    /// Returns the first result of a jq expression for a value, or nil if there is none.
    ///
    /// ```harn
    /// println(jq_first({a: [{b: 7}]}, ".a[0].b")) // -> 7
    /// ```
    Pure fn jq_first(cx, value: Given, expression: Given) -> "any" {
        results(value, expression)?.into_iter().next()
    }
}

fn results(value: Given, expression: Given) -> Result<Vec<Value>> {
    let (Some(value), Some(expression)) = (value.0, expression.0) else {
        return Err(Error::thrown("jq requires 2 arguments"));
    };
    let expr = jq::parse(&printed(&expression)).map_err(|error| Error::thrown(format!("jq: {error}")))?;
    Ok(expr.results(&value))
}
