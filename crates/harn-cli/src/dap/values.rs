//! Presentation of values: a short string, and the children on demand.

use harn_value::{Data as Json, json};
use harn_value::{Value, View};

/// Maximum number of characters of a value in one line.
const SHOWN: usize = 200;

/// Default number of children per response.
const PARTS: usize = 1000;

/// The object behind a variables reference, valid while the program is stopped.
#[derive(Clone)]
pub(super) enum Holder {
    /// Variables of a scope.
    Scope(Vec<(String, Value)>),
    /// A value with children.
    Value(Value),
}

/// The variables references.
#[derive(Default)]
pub(super) struct Holders(Vec<Holder>);

impl Holders {
    /// Invalidates all references, because the program continues.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns a reference to a holder.
    pub(super) fn add(&mut self, holder: Holder) -> usize {
        self.0.push(holder);
        self.0.len()
    }

    /// Returns a value for the client: its string, its type, and a reference if it has children.
    pub(super) fn shown(&mut self, value: &Value) -> Json {
        let count = parts_of(value);
        let number = if count > 0 { self.add(Holder::Value(value.clone())) } else { 0 };
        let text = text(value);
        let mut shown = json!({
            "value": text, "result": text, "type": value.type_name(), "variablesReference": number,
        });
        let key = if value.as_list().is_some() { "indexedVariables" } else { "namedVariables" };
        if count > 0 {
            shown[key] = count.into();
        }
        shown
    }

    /// Returns the children of a reference.
    ///
    /// # Errors
    /// The reference is invalid.
    pub(super) fn parts(
        &mut self,
        number: usize,
        start: usize,
        count: Option<usize>,
    ) -> Result<Json, String> {
        let holder = number.checked_sub(1).and_then(|at| self.0.get(at)).cloned();
        let parts = match holder {
            Some(Holder::Scope(variables)) => variables,
            Some(Holder::Value(value)) => parts(&value),
            None => return Err(format!("there is no value {number}: the program has gone on since")),
        };
        let count = count.filter(|n| *n > 0).unwrap_or(PARTS);
        let shown = |(name, value): (String, Value)| {
            let mut shown = self.shown(&value);
            shown["name"] = name.into();
            shown
        };
        let variables: Vec<Json> = parts.into_iter().skip(start).take(count).map(shown).collect();
        Ok(json!({"variables": variables}))
    }
}

/// Formats a value in one line. Strings are quoted.
pub(crate) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => {
            let short: String = text.chars().take(SHOWN).collect();
            let tail = if short.len() < text.len() { "..." } else { "" };
            format!("{short:?}{tail}")
        }
        None => harn_value::short(value, SHOWN),
    }
}

fn parts_of(value: &Value) -> usize {
    match value.view() {
        View::List(list) => list.len(),
        View::Dict(dict) => dict.len(),
        View::Set(set) => set.len(),
        View::Pair(_) => 2,
        View::Struct(found) => found.ty.fields.len(),
        View::Enum(found) => found.fields.len(),
        _ => 0,
    }
}

/// Returns the named children of a value.
fn parts(value: &Value) -> Vec<(String, Value)> {
    let numbered = |values: Vec<Value>| {
        values.into_iter().enumerate().map(|(at, value)| (format!("[{at}]"), value)).collect()
    };
    match value.view() {
        View::List(list) => numbered(list.iter().cloned().collect()),
        View::Dict(dict) => dict.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        View::Set(set) => numbered(set.iter().cloned().collect()),
        View::Pair(pair) => {
            vec![("first".to_owned(), pair.first.clone()), ("second".to_owned(), pair.second.clone())]
        }
        View::Struct(found) => {
            let slots = found.ty.fields.iter().zip(found.slots.iter());
            slots
                .filter(|(_, value)| !value.is_absent())
                .map(|(name, value)| (name.to_string(), value.clone()))
                .collect()
        }
        View::Enum(found) => numbered(found.fields.iter().cloned().collect()),
        _ => Vec::new(),
    }
}
