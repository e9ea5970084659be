//! Functions on sets. Elements are compared by structure and type: `1`, `1.0`, `"1"` and `true` differ.

use harn_value::{Ref, Set, Value, steps};
use harn_vm::builtin::Rest;
use harn_vm::{Error, Result, builtins};

builtins! {
    /// Sets.
    pub(crate) static SETS: "sets";

    /// Creates a set of its arguments; list and set arguments contribute their items.
    ///
    /// ```harn
    /// println(set(1, [1, 2], set(3))) // -> set(1, 2, 3)
    /// println(len(set(1, 1.0, "1"))) // -> 3
    /// ```
    Pure fn set(cx, items: Rest) -> "set" {
        let mut set = Set::new();
        for item in items.0 {
            if let Some(list) = item.as_list() {
                list.iter().for_each(|x| insert(&mut set, x));
            } else if let Some(other) = item.as_set() {
                other.iter().for_each(|x| insert(&mut set, x));
            } else {
                set.insert(item);
            }
        }
        set
    }

    /// Returns the set with an additional element.
    ///
    /// ```harn
    /// println(set_add(set(1), 2)) // -> set(1, 2)
    /// ```
    Pure fn set_add(cx, set: Value as "!set", item: Value) -> "set" {
        let mut set = one("set_add", set)?;
        set.make_mut().insert(item);
        Value::from(set)
    }

    /// Returns the set without an element.
    ///
    /// ```harn
    /// println(set_remove(set(1, 2), 1)) // -> set(2)
    /// ```
    Pure fn set_remove(cx, set: Value as "!set", item: Value) -> "set" {
        let mut set = one("set_remove", set)?;
        set.make_mut().remove(&item);
        Value::from(set)
    }

    /// Returns whether a value is an element of a set.
    ///
    /// ```harn
    /// println([set_contains(set([1]), [1]), set_contains(set("1"), 1)]) // -> [false, false]
    /// ```
    Pure fn set_contains(cx, set: Value as "set", item: Value) -> "bool" {
        set.as_set().is_some_and(|set| set.contains(&item))
    }

    /// Returns the elements of `a`, then the elements of `b` that are not in `a`.
    ///
    /// ```harn
    /// println(set_union(set(1, 2), set(2, 3))) // -> set(1, 2, 3)
    /// ```
    Pure fn set_union(cx, a: Value as "!set", b: Value as "!set") -> "set" {
        let (a, b) = two("set_union", a, b)?;
        union(a, b.iter())
    }

    /// Returns the elements of `a` that are also in `b`.
    ///
    /// ```harn
    /// println(set_intersect(set(1, 2), set(2, 3))) // -> set(2)
    /// ```
    Pure fn set_intersect(cx, a: Value as "!set", b: Value as "!set") -> "set" {
        let (a, b) = two("set_intersect", a, b)?;
        intersection(&a, &b)
    }

    /// Returns the elements of `a` that are not in `b`.
    ///
    /// ```harn
    /// println(set_difference(set(1, 2), set(2, 3))) // -> set(1)
    /// ```
    Pure fn set_difference(cx, a: Value as "!set", b: Value as "!set") -> "set" {
        let (a, b) = two("set_difference", a, b)?;
        difference(&a, &b)
    }

    /// Returns the elements that are in exactly one of the two sets.
    ///
    /// ```harn
    /// println(set_symmetric_difference(set(1, 2), set(2, 3))) // -> set(1, 3)
    /// ```
    Pure fn set_symmetric_difference(cx, a: Value as "!set", b: Value as "!set") -> "set" {
        let (a, b) = two("set_symmetric_difference", a, b)?;
        symmetric_difference(&a, &b)
    }

    /// Returns whether all elements of `a` are in `b`.
    ///
    /// ```harn
    /// println([set_is_subset(set(1), set(1, 2)), set_is_subset(set(), set())]) // -> [true, true]
    /// ```
    Pure fn set_is_subset(cx, a: Value as "set", b: Value as "set") -> "bool" {
        both(&a, &b).is_some_and(|(a, b)| is_subset(a, b))
    }

    /// Returns whether all elements of `b` are in `a`.
    ///
    /// ```harn
    /// println(set_is_superset(set(1, 2), set(1))) // -> true
    /// ```
    Pure fn set_is_superset(cx, a: Value as "set", b: Value as "set") -> "bool" {
        both(&a, &b).is_some_and(|(a, b)| is_subset(b, a))
    }

    /// Returns whether the sets have no element in common.
    ///
    /// ```harn
    /// println([set_is_disjoint(set(1), set(2)), set_is_disjoint(set(1), set(1))]) // -> [true, false]
    /// ```
    Pure fn set_is_disjoint(cx, a: Value as "set", b: Value as "set") -> "bool" {
        both(&a, &b).is_none_or(|(a, b)| is_disjoint(a, b))
    }
}

fn insert(set: &mut Set, item: &Value) {
    set.insert(item.clone());
}

fn one(name: &str, set: Value) -> Result<Ref<Set>> {
    set.as_set().cloned().ok_or_else(|| Error::thrown(format!("{name}: first argument must be a set")))
}

fn both<'a>(a: &'a Value, b: &'a Value) -> Option<(&'a Set, &'a Set)> {
    Some((&**a.as_set()?, &**b.as_set()?))
}

fn two(name: &str, a: Value, b: Value) -> Result<(Ref<Set>, Ref<Set>)> {
    match (a.as_set(), b.as_set()) {
        (Some(a), Some(b)) => Ok((a.clone(), b.clone())),
        _ => Err(Error::thrown(format!("{name}: arguments must be sets"))),
    }
}

/// Adds elements to `a`, in place if it has no other reference.
pub(crate) fn union<'a>(mut a: Ref<Set>, more: impl Iterator<Item = &'a Value>) -> Value {
    let set = a.make_mut();
    for item in steps::each(more) {
        set.insert(item.clone());
    }
    a.into()
}

pub(crate) fn intersection(a: &Set, b: &Set) -> Set {
    steps::each(a.iter()).filter(|x| b.contains(x)).cloned().collect()
}

pub(crate) fn difference(a: &Set, b: &Set) -> Set {
    steps::each(a.iter()).filter(|x| !b.contains(x)).cloned().collect()
}

pub(crate) fn symmetric_difference(a: &Set, b: &Set) -> Set {
    let only_a = steps::each(a.iter()).filter(|x| !b.contains(x));
    only_a.chain(steps::each(b.iter()).filter(|x| !a.contains(x))).cloned().collect()
}

pub(crate) fn is_subset(a: &Set, b: &Set) -> bool {
    a.len() <= b.len() && steps::each(a.iter()).all(|x| b.contains(x))
}

pub(crate) fn is_disjoint(a: &Set, b: &Set) -> bool {
    !steps::each(a.iter()).any(|x| b.contains(x))
}
