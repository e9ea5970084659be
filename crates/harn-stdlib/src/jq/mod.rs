//! A subset of the jq language, with the results of jq 1.7: an expression yields any number of results for an input.
//!
//! Paths are not tracked, so assignments, `del` and `path` are not supported, and neither are definitions. Using an
//! unsupported name of jq is an error that names it.

mod eval;
mod expr;
mod format;
mod functions;
mod order;
mod parse;
mod values;
mod view;

use harn_value::{Value, steps};

/// A parsed expression.
pub(crate) struct Query(expr::Expr);

/// Parses an expression.
///
/// # Errors
/// The reason and the position, without the leading `jq: `.
pub(crate) fn parse(text: &str) -> Result<Query, String> {
    parse::parse(text).map(Query)
}

impl Query {
    /// Returns all results for an input, or the first `limit`.
    ///
    /// # Errors
    /// An error that the expression does not catch.
    pub(crate) fn results(&self, input: &Value, limit: usize) -> Result<Vec<Value>, String> {
        let mut results = Vec::new();
        let flow = self.0.eval(input, None, &mut |value| {
            steps::push(&mut results, value);
            if results.len() < limit { Ok(()) } else { Err(Stop::Break) }
        });
        match flow {
            Err(Stop::Error(error)) => Err(match error.as_str() {
                Some(text) => text.to_string(),
                None => format!("(not a string): {}", harn_value::json::stringify(&error)),
            }),
            _ => Ok(results),
        }
    }
}

/// The reason why an evaluation ends early.
enum Stop {
    /// An error with its value.
    Error(Value),
    /// The receiver needs no further results.
    Break,
}

type Flow<T = ()> = Result<T, Stop>;

/// Receives the results of an expression.
type Out<'o> = &'o mut dyn FnMut(Value) -> Flow;

fn fail<T>(message: impl Into<String>) -> Flow<T> {
    Err(Stop::Error(Value::from(message.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    /// Filters with inputs and the outputs of jq 1.7.
    const PAIRS: &str = include_str!("../../tests/jq_1_7.jsonl");

    fn results(filter: &str, input: &Value) -> Result<Vec<Value>, String> {
        parse(filter)?.results(input, usize::MAX)
    }

    #[test]
    fn results_are_those_of_jq() {
        let mut wrong = String::new();
        for line in PAIRS.lines() {
            let pair = json::parse(line).expect("a line of the table");
            let pair = pair.as_dict().expect("a dict");
            let field = |name| pair.get_str(name).cloned().unwrap_or_default();
            let filter = field("filter").as_str().expect("a filter").to_string();
            let got = results(&filter, &field("input"));
            let fits = match (&got, pair.get_str("output")) {
                (Ok(got), Some(output)) => order::same(&Value::list(got.clone()), output),
                (Err(_), None) => true,
                // An unsupported form is an error that names it.
                (Err(error), Some(_)) => error.contains("not supported"),
                (Ok(_), None) => false,
            };
            if !fits {
                let got = got.map(|got| json::stringify(&Value::list(got)));
                wrong.push_str(&format!("{line}\n  got {got:?}\n"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
