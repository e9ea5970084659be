//! What is kept or sent must be data as JSON has it: the one look at values before that.

use harn_value::{Value, View, steps};
use harn_vm::{Error, Result, check_nesting};

/// Refuses a value that JSON has no word for, and says where in it that stands. `what` is how the error calls the value.
///
/// # Errors
/// There is a closure, set, duration, … in it.
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

/// Where the first part is that is no data, and what it is.
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
