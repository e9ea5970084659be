//! Validation of values that are stored or sent, which must be JSON data.

use harn_value::{Value, View, steps};
use harn_vm::{Error, Result, check_nesting};

/// Checks that a value is JSON data; the error contains the position of the first other value. `what` is the name of
/// the value in the error.
///
/// # Errors
/// The value contains a closure, set, duration or another value that JSON cannot represent.
pub fn check_data(what: &str, value: &Value) -> Result<()> {
    match foreign(value, 0) {
        None => Ok(()),
        Some((place, name)) => {
            let text = format!("{what} must be data as JSON has it, and there is a {name}{}", at(&place));
            Err(Error::thrown(text))
        }
    }
}

fn at(place: &[String]) -> String {
    if place.is_empty() { String::new() } else { format!(" at {}", place.join(".")) }
}

/// Returns the position and the type of the first part that is not JSON data.
fn foreign(value: &Value, depth: usize) -> Option<(Vec<String>, &'static str)> {
    check_nesting(depth);
    steps::step();
    let below = |key: &str, item: &Value| {
        let (mut place, name) = foreign(item, depth + 1)?;
        place.insert(0, key.to_owned());
        Some((place, name))
    };
    match value.view() {
        View::Nil | View::Bool(_) | View::Int(_) | View::Str(_) => None,
        View::Float(number) if number.is_finite() => None,
        View::Float(_) => Some((Vec::new(), "float that is no finite number")),
        View::List(items) => items.iter().enumerate().find_map(|(at, item)| below(&at.to_string(), item)),
        View::Dict(dict) => dict.written().find_map(|(key, item)| below(key.as_str(), item)),
        View::Struct(instance) => {
            instance.fields().into_iter().find_map(|(key, item)| below(&key.to_string(), item))
        }
        _ => Some((Vec::new(), value.type_name())),
    }
}
