//! Methods of sets. Elements are compared by structure and type, and retain their insertion order.

use harn_value::{Ref, Set, Value, steps};
use harn_vm::{Error, Result, builtins};

use crate::args::callable;
use crate::builtins::sets::{difference, intersection, is_disjoint, is_subset, symmetric_difference, union};

builtins! {
    /// Methods of sets.
    pub(crate) static SET: "set";

    /// Counts the elements.
    ///
    /// ```harn
    /// println(set(1, 1, 2).count()) // -> 2
    /// ```
    Pure fn count(cx, this: Ref<Set>) -> "int" {
        this.len()
    }

    /// Counts the elements; an alias of `count`.
    ///
    /// ```harn
    /// println(set().len()) // -> 0
    /// ```
    Pure fn len(cx, this: Ref<Set>) -> "int" {
        this.len()
    }

    /// Returns whether the set is empty.
    ///
    /// ```harn
    /// println(set().empty()) // -> true
    /// ```
    Pure fn empty(cx, this: Ref<Set>) -> "bool" {
        this.is_empty()
    }

    /// Returns whether a value is an element.
    ///
    /// ```harn
    /// println([set(1).contains(1), set(1).contains(1.0)]) // -> [true, false]
    /// ```
    Pure fn contains(cx, this: Ref<Set>, value: Value) -> "bool" {
        this.contains(&value)
    }

    /// Returns whether a value is an element; an alias of `contains`.
    ///
    /// ```harn
    /// println(set("a").has("a")) // -> true
    /// ```
    Pure fn has(cx, this: Ref<Set>, value: Value) -> "bool" {
        this.contains(&value)
    }

    /// Returns the set with an additional element.
    ///
    /// ```harn
    /// println(set(1).add(2)) // -> set(1, 2)
    /// ```
    Pure fn add(cx, this: Ref<Set>, value: Value) -> "set" {
        let mut this = this;
        this.make_mut().insert(value);
        Value::from(this)
    }

    /// Returns the set without an element.
    ///
    /// ```harn
    /// println(set(1, 2).remove(1)) // -> set(2)
    /// ```
    Pure fn remove(cx, this: Ref<Set>, value: Value) -> "set" {
        without(this, &value)
    }

    /// Returns the set without an element; an alias of `remove`.
    ///
    /// ```harn
    /// println(set(1, 2).delete(2)) // -> set(1)
    /// ```
    Pure fn delete(cx, this: Ref<Set>, value: Value) -> "set" {
        without(this, &value)
    }

    /// Returns the elements of both sets; the argument may be a list.
    ///
    /// ```harn
    /// println(set(1, 2).union([2, 3])) // -> set(1, 2, 3)
    /// ```
    Pure fn union_ = "union"(cx, this: Ref<Set>, other: Value) -> "set" {
        let other = operand("union", &other)?;
        union(this, other.iter())
    }

    /// Returns the elements that are in both sets.
    ///
    /// ```harn
    /// println(set(1, 2).intersect(set(2, 3))) // -> set(2)
    /// ```
    Pure fn intersect(cx, this: Ref<Set>, other: Value) -> "set" {
        intersection(&this, &*operand("intersect", &other)?)
    }

    /// Returns the elements that are in both sets; an alias of `intersect`.
    ///
    /// ```harn
    /// println(set(1, 2).intersection([1])) // -> set(1)
    /// ```
    Pure fn intersection_ = "intersection"(cx, this: Ref<Set>, other: Value) -> "set" {
        intersection(&this, &*operand("intersection", &other)?)
    }

    /// Returns the elements that are not in the other set.
    ///
    /// ```harn
    /// println(set(1, 2).difference(set(2))) // -> set(1)
    /// ```
    Pure fn difference_ = "difference"(cx, this: Ref<Set>, other: Value) -> "set" {
        difference(&this, &*operand("difference", &other)?)
    }

    /// Returns the elements that are in exactly one of the two sets.
    ///
    /// ```harn
    /// println(set(1, 2).symmetric_difference(set(2, 3))) // -> set(1, 3)
    /// ```
    Pure fn symmetric_difference_ = "symmetric_difference"(cx, this: Ref<Set>, other: Value) -> "set" {
        symmetric_difference(&this, &*operand("symmetric_difference", &other)?)
    }

    /// Returns whether all elements are in the other set.
    ///
    /// ```harn
    /// println(set(1).is_subset([1, 2])) // -> true
    /// ```
    Pure fn is_subset_ = "is_subset"(cx, this: Ref<Set>, other: Value) -> "bool" {
        is_subset(&this, &*operand("is_subset", &other)?)
    }

    /// Returns whether all elements of the other set are in this set.
    ///
    /// ```harn
    /// println(set(1, 2).is_superset(set(2))) // -> true
    /// ```
    Pure fn is_superset(cx, this: Ref<Set>, other: Value) -> "bool" {
        is_subset(&*operand("is_superset", &other)?, &this)
    }

    /// Returns whether the sets have no element in common.
    ///
    /// ```harn
    /// println(set(1).is_disjoint(set(2))) // -> true
    /// ```
    Pure fn is_disjoint_ = "is_disjoint"(cx, this: Ref<Set>, other: Value) -> "bool" {
        is_disjoint(&this, &*operand("is_disjoint", &other)?)
    }

    /// Returns the set of the results of `f` for the elements.
    ///
    /// ```harn
    /// println(set(1, 2, 3).map({ x -> x % 2 })) // -> set(1, 0)
    /// ```
    Pure async fn map(cx, this: Ref<Set>, f: Value as "!function(1)") -> "set" {
        callable("set.map", &f)?;
        let mut out = Set::new();
        for item in this.iter() {
            out.insert(cx.call(&f, [item.clone()]).await?);
        }
        out
    }

    /// Returns the set of the elements for which `f` holds.
    ///
    /// ```harn
    /// println(set(1, 2, 3).filter({ x -> x > 1 })) // -> set(2, 3)
    /// ```
    Pure async fn filter(cx, this: Ref<Set>, f: Value as "!function(1)") -> "set" {
        callable("set.filter", &f)?;
        let mut out = Set::new();
        for item in this.iter() {
            if cx.call(&f, [item.clone()]).await?.truthy() {
                out.insert(item.clone());
            }
        }
        out
    }

    /// Returns whether `f` holds for any element.
    ///
    /// ```harn
    /// println(set(1, 2).any({ x -> x > 1 })) // -> true
    /// ```
    Pure async fn any(cx, this: Ref<Set>, f: Value as "!function(1)") -> "bool" {
        callable("set.any", &f)?;
        some(&cx, &this, &f, true).await?
    }

    /// Returns whether `f` holds for every element.
    ///
    /// ```harn
    /// println(set(1, 2).all({ x -> x > 1 })) // -> false
    /// ```
    Pure async fn all(cx, this: Ref<Set>, f: Value as "!function(1)") -> "bool" {
        callable("set.all", &f)?;
        !some(&cx, &this, &f, false).await?
    }

    /// Returns whether `f` holds for every element; an alias of `all`.
    ///
    /// ```harn
    /// println(set(2, 4).every({ x -> x % 2 == 0 })) // -> true
    /// ```
    Pure async fn every(cx, this: Ref<Set>, f: Value as "!function(1)") -> "bool" {
        callable("set.every", &f)?;
        !some(&cx, &this, &f, false).await?
    }

    /// Lists the elements in order.
    ///
    /// ```harn
    /// println(set(2, 1).to_list()) // -> [2, 1]
    /// ```
    Pure fn to_list(cx, this: Ref<Set>) -> "list" {
        this.iter().cloned().collect::<Vec<_>>()
    }

    /// Returns an iterator over the elements.
    ///
    /// ```harn
    /// println(set(1, 2).iter().map({ x -> x * 2 }).to_list()) // -> [2, 4]
    /// ```
    Pure fn iter(cx, this: Value) -> "iter" {
        cx.iter(&this)?.into_value()
    }
}

fn without(mut set: Ref<Set>, value: &Value) -> Value {
    if set.is_unique() || set.contains(value) {
        set.make_mut().remove(value);
    }
    set.into()
}

/// Returns the argument of a set method: a set, or a list converted to a set.
fn operand(method: &str, other: &Value) -> Result<Ref<Set>> {
    if let Some(set) = other.as_set() {
        return Ok(set.clone());
    }
    match other.as_list() {
        Some(list) => Ok(Ref::new(steps::each(list.iter()).cloned().collect())),
        None => {
            let text = format!("set.{method}: expected a set, got {}", other.type_name());
            Err(Error::type_error(text))
        }
    }
}

/// Returns whether the truthiness of `f(element)` is `wanted` for any element.
async fn some(cx: &harn_vm::Cx, set: &Set, f: &Value, wanted: bool) -> Result<bool> {
    for item in set.iter() {
        if cx.call(f, [item.clone()]).await?.truthy() == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}
