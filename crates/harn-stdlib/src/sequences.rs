//! List operations without callbacks, shared by functions and methods.

use std::hash::BuildHasherDefault;

use harn_value::{Dict, Structural, Value, steps};
use harn_vm::Result;
use rustc_hash::FxHasher;

use crate::args::{printed, room_for};

/// A set of values by structure and type.
pub(crate) type Seen = std::collections::HashSet<Structural, BuildHasherDefault<FxHasher>>;

/// Splits items into consecutive lists of `size` items; the last list may be shorter.
pub(crate) fn chunks(items: &[Value], size: usize) -> Result<Vec<Value>> {
    room_for(items.len())?;
    Ok(steps::each(items.chunks(size)).map(|piece| Value::list(piece.to_vec())).collect())
}

/// Returns all full windows of `size` items, `step` apart.
pub(crate) fn windows(items: &[Value], size: usize, step: usize) -> Result<Vec<Value>> {
    if size > items.len() {
        return Ok(Vec::new());
    }
    let count = (items.len() - size) / step + 1;
    room_for(count.saturating_mul(size))?;
    let pieces = items.windows(size).step_by(step).inspect(|piece| steps::bytes(size_of_val(*piece)));
    Ok(steps::each(pieces).map(|piece| Value::list(piece.to_vec())).collect())
}

/// Returns the first occurrences, by structure and type.
pub(crate) fn unique(items: &[Value]) -> Vec<Value> {
    let mut seen = Seen::default();
    items.iter().filter(|item| seen.insert(Structural((*item).clone()))).cloned().collect()
}

/// Flattens nested lists by one level.
pub(crate) fn flatten(items: &[Value]) -> Result<Vec<Value>> {
    room_for(items.iter().map(|item| item.as_list().map_or(1, |list| list.len())).sum())?;
    let mut out = Vec::new();
    for item in items {
        splice(&mut out, item.clone());
    }
    Ok(out)
}

/// Appends the items of a list, or any other value itself.
pub(crate) fn splice(out: &mut Vec<Value>, item: Value) {
    match item.as_list() {
        Some(list) => {
            steps::bytes(size_of_val(&list[..]));
            out.extend(list.iter().cloned());
        }
        None => out.push(item),
    }
}

/// Lists of items by the printed form of their key.
#[derive(Default)]
pub(crate) struct Groups(Dict);

impl Groups {
    /// Adds `item` to the group of `key`.
    pub(crate) fn add(&mut self, key: &Value, item: Value) {
        let group = self.0.entry(&printed(key));
        match group.as_list_mut() {
            Some(list) => list.make_mut().push(item),
            None => *group = Value::list(vec![item]),
        }
    }

    /// Returns the groups.
    pub(crate) fn into_dict(self) -> Dict {
        self.0
    }
}
