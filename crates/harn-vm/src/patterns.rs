//! Internal builtins for patterns and struct literals.

use std::cmp::Ordering;

use harn_value::{Dict, StructValue, Value, order};

use crate::builtins;
use crate::error::{Error, Result};
use crate::suggest::hint;

builtins! {
    /// Patterns and struct literals.
    pub(crate) static PATTERNS: "patterns";

    /// Returns whether a number is in a range: implements the pattern `start to end`.
    Pure fn in_range = "__in_range"(cx, subject: Value, start: Value, end: Value, exclusive: bool) -> "bool" {
        for bound in [&start, &end] {
            if bound.as_number().is_none() {
                return Err(Error::type_error(format!("range pattern: bounds must be numbers, got {}", bound.type_name())));
            }
        }
        // NaN is not in any range.
        let lies = |a: &Value, b: &Value, equal: bool| match order(a, b) {
            Ok(Some(Ordering::Less)) => true,
            Ok(Some(Ordering::Equal)) => equal,
            _ => false,
        };
        lies(&start, &subject, true) && lies(&subject, &end, !exclusive)
    }

    /// Copies a struct with some fields replaced: `P {...p, x: 1}`; `model` is an instance of `P`.
    Pure fn struct_update = "__struct_update"(cx, base: Value, changes: Value, model: Value) -> "any" {
        update(&base, &changes, &model)?
    }
}

fn update(base: &Value, changes: &Value, model: &Value) -> Result<Value> {
    let (Some(model), Some(changes)) = (model.as_struct(), changes.as_dict()) else {
        return Err(Error::runtime("internal error: no struct to update"));
    };
    let ty = &model.ty;
    let Some(base) = base.as_struct().filter(|base| harn_value::Ref::same(&base.ty, ty)) else {
        let got = match base.as_struct() {
            Some(other) => other.ty.name.as_str(),
            None => base.type_name(),
        };
        return Err(Error::type_error(format!("{}: `...` takes a {}, got {got}", ty.name, ty.name)));
    };
    let mut slots = base.slots.clone();
    for (name, value) in changes.iter() {
        let Some(slot) = ty.slot(name) else {
            let near = hint(name.as_str(), ty.fields.iter().map(|field| field.as_str()));
            return Err(Error::type_error(format!("{} has no field '{name}'{near}", ty.name)));
        };
        if let Some(problem) = ty.problem(name, value, false) {
            return Err(Error::type_error(problem));
        }
        slots[slot] = value.clone();
    }
    let extra: Option<Box<Dict>> = base.extra.clone();
    Ok(StructValue { ty: ty.clone(), slots, extra }.into())
}
