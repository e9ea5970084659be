//! Slow paths of operators and accesses.

use std::cmp::Ordering;

use harn_value::{Dict, List, Range, Ref, Str, Tag, Value, View, compare, memory};

use crate::bytecode::PathStep;
use crate::closure::Variable;
use crate::error::{Error, Result};

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
}

#[cold]
fn wrong_types(op: Arith, l: &Value, r: &Value) -> Error {
    let (a, b) = (l.type_name(), r.type_name());
    match op {
        Arith::Add => Error::type_error(format!("Cannot add {a} and {b}")),
        Arith::Sub => Error::type_error(format!("Cannot subtract {b} from {a}")),
        Arith::Mul => Error::type_error(format!("Cannot multiply {a} and {b}")),
        Arith::Div => Error::runtime(format!("Cannot divide {a} by {b}")),
        Arith::Rem => Error::runtime(format!("Cannot modulo {a} by {b}")),
        Arith::Pow => Error::type_error(format!("Cannot exponentiate {a} by {b}")),
    }
}

#[cold]
pub(crate) fn division_by_zero() -> Error {
    Error::plain("Division by zero")
}

/// Computes `l op r` for all types.
#[inline(never)]
pub(crate) fn arith(op: Arith, l: &Value, r: &Value) -> Result<Value> {
    if let (Some(x), Some(y)) = (l.as_int(), r.as_int()) {
        return int_arith(op, x, y);
    }
    if let (Some(x), Some(y)) = (l.as_number(), r.as_number()) {
        return match op {
            Arith::Add => Ok(Value::float(x + y)),
            Arith::Sub => Ok(Value::float(x - y)),
            Arith::Mul => Ok(Value::float(x * y)),
            Arith::Div => Ok(Value::float(x / y)),
            Arith::Rem if y == 0.0 => Err(division_by_zero()),
            Arith::Rem => Ok(Value::float(x % y)),
            Arith::Pow => Ok(Value::float(x.powf(y))),
        };
    }
    match (op, l.view(), r.view()) {
        (Arith::Add, View::Str(a), View::Str(b)) => {
            memory::check(a.len() + b.len())?;
            Ok(Str::concat(a, b).into())
        }
        (Arith::Add, View::List(a), View::List(b)) => {
            memory::check((a.len() + b.len()) * size_of::<Value>())?;
            let mut items = Vec::with_capacity(a.len() + b.len());
            items.extend_from_slice(a);
            items.extend_from_slice(b);
            Ok(Value::list(items))
        }
        (Arith::Add, View::Dict(a), View::Dict(b)) => {
            memory::check((a.len() + b.len()) * 2 * size_of::<Value>())?;
            let mut out = (**a).clone();
            out.extend(b.iter().map(|(k, v)| (k.clone(), v.clone())));
            Ok(out.into())
        }
        (Arith::Mul, View::Str(text), View::Int(n)) | (Arith::Mul, View::Int(n), View::Str(text)) => {
            let n = usize::try_from(n).unwrap_or(0);
            memory::check(text.len().saturating_mul(n))?;
            Ok(Value::from(text.repeat(n)))
        }
        (Arith::Add, View::Duration(a), View::Duration(b)) => {
            a.checked_add(b).map(Value::duration).ok_or_else(|| overflow("Duration", l, "+", r))
        }
        (Arith::Sub, View::Duration(a), View::Duration(b)) => {
            a.checked_sub(b).map(Value::duration).ok_or_else(|| overflow("Duration", l, "-", r))
        }
        (Arith::Mul, View::Duration(a), View::Int(b)) | (Arith::Mul, View::Int(b), View::Duration(a)) => {
            a.checked_mul(b).map(Value::duration).ok_or_else(|| overflow("Duration", l, "*", r))
        }
        (Arith::Div, View::Duration(a), View::Duration(b)) => Ok(Value::float(a as f64 / b as f64)),
        _ => Err(wrong_types(op, l, r)),
    }
}

fn int_arith(op: Arith, x: i64, y: i64) -> Result<Value> {
    let (result, sign) = match op {
        Arith::Add => (x.checked_add(y), "+"),
        Arith::Sub => (x.checked_sub(y), "-"),
        Arith::Mul => (x.checked_mul(y), "*"),
        Arith::Div | Arith::Rem if y == 0 => return Err(division_by_zero()),
        // The smallest int divided by -1 wraps to itself, as the language defines.
        Arith::Div => (Some(x.wrapping_div(y)), "/"),
        Arith::Rem => (Some(x.wrapping_rem(y)), "%"),
        Arith::Pow if y < 0 => return Ok(Value::float((x as f64).powf(y as f64))),
        Arith::Pow => (power(x, y), "**"),
    };
    result.map(Value::int).ok_or_else(|| overflow("Integer", &Value::int(x), sign, &Value::int(y)))
}

/// Computes `x ** y` for a non-negative `y`.
fn power(x: i64, y: i64) -> Option<i64> {
    match u32::try_from(y) {
        Ok(y) => x.checked_pow(y),
        Err(_) => match x {
            0 | 1 => Some(x),
            -1 => Some(if y % 2 == 0 { 1 } else { -1 }),
            _ => None,
        },
    }
}

/// Returns the error `Integer overflow: A + B`.
#[cold]
fn overflow(kind: &str, l: &Value, sign: &str, r: &Value) -> Error {
    Error::runtime(format!("{kind} overflow: {l} {sign} {r}"))
}

/// Computes `place = place + r`, appending in place if `place` holds the only reference. `r` must be in another
/// register than `place`: appending a list to itself must not read what it writes.
#[inline(never)]
pub(crate) fn add_assign(place: &mut Value, r: &Value) -> Result<()> {
    match r.view() {
        View::Str(tail) => {
            if let Some(text) = place.as_str_mut() {
                memory::check(tail.len())?;
                text.push_str(tail);
                return Ok(());
            }
        }
        View::List(tail) => {
            if let Some(list) = place.as_list_mut() {
                // `extend` checks amortized growth; only large tails need a separate check.
                memory::check(tail.len() * size_of::<Value>())?;
                match list.get_mut() {
                    Some(items) => {
                        make_room(items, tail.len());
                        items.extend_from_slice(tail);
                    }
                    None => {
                        let mut items = Vec::with_capacity(list.len() + tail.len());
                        items.extend_from_slice(list);
                        items.extend_from_slice(tail);
                        *list = Ref::new(items.into());
                    }
                }
                return Ok(());
            }
        }
        View::Dict(more) => {
            if let Some(dict) = place.as_dict_mut() {
                let more = more.clone();
                dict.make_mut().extend(more.iter().map(|(k, v)| (k.clone(), v.clone())));
                return Ok(());
            }
        }
        _ => {}
    }
    let sum = arith(Arith::Add, place, r)?;
    place.put(sum);
    Ok(())
}

/// Checks that there is memory for one more item of a long list, before anything is changed.
#[cold]
pub(crate) fn room_to_push(list: &mut Ref<List>) -> Result<()> {
    let grows = list.get_mut().is_none_or(|items| items.len() == items.capacity());
    if grows {
        memory::check(list.len() * size_of::<Value>())?;
    }
    Ok(())
}

/// Reserves room for `more` items; large lists do not grow beyond the memory limit.
#[inline]
fn make_room(items: &mut List, more: usize) {
    let needed = items.len() + more;
    if needed > items.capacity() && needed > 1 << 16 {
        let bytes = memory::growth(items.capacity() * size_of::<Value>(), needed * size_of::<Value>());
        let more = bytes / size_of::<Value>() - items.len();
        items.with_vec(|items| items.reserve_exact(more));
    }
}

/// Computes `place = place + [item]`.
#[cold]
#[inline(never)]
pub(crate) fn append(place: &mut Value, item: Value) -> Result<()> {
    if let Some(items) = place.as_list_mut().and_then(Ref::get_mut) {
        // The list is full, so memory for its growth is needed.
        memory::check(items.len() * size_of::<Value>())?;
        items.push(item);
        return Ok(());
    }
    add_assign(place, &Value::list(vec![item]))
}

/// Returns whether `l + r` can append to `l` and cannot fail.
pub(crate) fn appends(l: &Value, r: &Value) -> bool {
    match (l.view(), r.view()) {
        (View::Str(_), View::Str(tail)) => memory::check(tail.len()).is_ok(),
        (View::List(_), View::List(tail)) => memory::check(tail.len() * size_of::<Value>()).is_ok(),
        (View::Dict(_), View::Dict(_)) => true,
        _ => false,
    }
}

pub(crate) fn negate(v: &Value) -> Result<Value> {
    match v.view() {
        View::Int(i) => {
            let negative = i.checked_neg().map(Value::int);
            negative.ok_or_else(|| Error::runtime(format!("Integer overflow: -({i})")))
        }
        View::Float(f) => Ok(Value::float(-f)),
        View::Duration(ms) => {
            let negative = ms.checked_neg().map(Value::duration);
            negative.ok_or_else(|| Error::runtime(format!("Duration overflow: -({v})")))
        }
        _ => Err(Error::runtime(format!("Cannot negate value of type {}", v.type_name()))),
    }
}

/// Computes `l < r`.
#[inline(never)]
pub(crate) fn less(l: &Value, r: &Value) -> Result<bool> {
    match compare(l, r) {
        Some(Ordering::Less) => Ok(true),
        Some(Ordering::Greater) => Ok(false),
        _ => need_order(l, r).map(|()| false),
    }
}

/// Computes `l <= r`.
#[inline(never)]
pub(crate) fn less_equal(l: &Value, r: &Value) -> Result<bool> {
    match compare(l, r) {
        Some(Ordering::Less) => Ok(true),
        Some(Ordering::Greater) => Ok(false),
        order => need_order(l, r).map(|()| order.is_some()),
    }
}

fn need_order(l: &Value, r: &Value) -> Result<()> {
    harn_value::order(l, r).map(drop).map_err(|e| Error::type_error(e.to_string()))
}

/// Computes `x in c`.
pub(crate) fn contains(x: &Value, c: &Value) -> bool {
    match c.view() {
        View::List(items) => harn_value::steps::each(items.iter()).any(|v| v == x),
        View::Set(items) => items.contains(x),
        View::Dict(d) => match x.as_str() {
            Some(key) => d.get(key).is_some(),
            None => d.contains(&x.to_string()),
        },
        View::Str(text) => match x.as_str() {
            Some(part) => text.contains(part.as_str()),
            None => text.contains(x.to_string().as_str()),
        },
        View::Range(r) => x.as_int().is_some_and(|i| r.contains(i)),
        _ => false,
    }
}

pub(crate) fn range(start: &Value, end: &Value, exclusive: bool) -> Result<Range> {
    match (start.as_int(), end.as_int()) {
        (Some(start), Some(end)) => Ok(Range { start, end, exclusive }),
        _ => Err(Error::type_error(format!(
            "range bounds must be integers, got {} and {}",
            start.type_name(),
            end.type_name()
        ))),
    }
}

// ---- access ----

/// Returns the dict key for a value.
pub(crate) fn key_text(v: &Value) -> Str {
    match v.as_str() {
        Some(s) => s.clone(),
        None => Str::new(&v.to_string()),
    }
}

/// Reads `v.name`.
#[inline(never)]
pub(crate) fn get_field(v: &Value, name: &Str) -> Result<Value> {
    Ok(match v.view() {
        View::Dict(d) => d.get(name).cloned().unwrap_or_default(),
        View::Struct(s) => s.get(name).cloned().unwrap_or_default(),
        View::List(items) => match name.as_str() {
            "count" => Value::int(items.len() as i64),
            "empty" => Value::bool(items.is_empty()),
            "first" => items.first().cloned().unwrap_or_default(),
            "last" => items.last().cloned().unwrap_or_default(),
            _ => return Err(no_property(v, name)),
        },
        View::Str(s) => match name.as_str() {
            "count" => Value::int(s.char_count() as i64),
            "empty" => Value::bool(s.is_empty()),
            // A caught error may be a string or a dict: both have a message.
            "message" => v.clone(),
            _ => return Err(no_property(v, name)),
        },
        View::Enum(e) => match name.as_str() {
            "variant" => e.variant_name().into(),
            "fields" => Value::list(e.fields.to_vec()),
            _ if e.as_result().is_some() => return Err(no_field_of_result(name)),
            _ => Value::NIL,
        },
        View::Pair(p) => match name.as_str() {
            "first" => p.first.clone(),
            "second" => p.second.clone(),
            _ => {
                return Err(Error::type_error(format!(
                    "cannot access property `{name}` on pair (expected `first` or `second`)"
                )));
            }
        },
        _ => return Err(no_property(v, name)),
    })
}

/// Returns whether a value is an `Ok` or `Err`.
pub(crate) fn is_result(v: &Value) -> bool {
    v.as_enum().is_some_and(|e| e.as_result().is_some())
}

/// Returns the error for a field of an `Ok` or `Err` value, where the program should use its payload.
#[cold]
fn no_field_of_result(name: &str) -> Error {
    Error::type_error(format!(
        "Result has no field '{name}'; use match, ?, unwrap(r) or unwrap_or(r, default)"
    ))
}

/// Returns the error ``cannot access property `x` on int``.
#[cold]
pub(crate) fn no_property(v: &Value, name: &Str) -> Error {
    Error::type_error(format!("cannot access property `{name}` on {}", v.type_name()))
}

/// Returns the position in a sequence of `len` items; negative indices count from the end.
pub(crate) fn position(i: i64, len: usize) -> Option<usize> {
    let at = if i < 0 { i.checked_add(len as i64)? } else { i };
    usize::try_from(at).ok().filter(|at| *at < len)
}

/// Reads `v[index]`.
#[inline(never)]
pub(crate) fn get_index(v: &Value, index: &Value) -> Result<Value> {
    Ok(match (v.view(), index.view()) {
        (View::List(items), View::Int(i)) => {
            position(i, items.len()).map(|at| items[at].clone()).unwrap_or_default()
        }
        (View::Dict(d), View::Str(key)) => d.get(key).cloned().unwrap_or_default(),
        (View::Dict(d), View::Int(i)) => d.get_int(i).cloned().unwrap_or_default(),
        (View::Dict(d), _) => d.get_str(&index.to_string()).cloned().unwrap_or_default(),
        (View::Str(s), View::Int(i)) => match position(i, s.char_count()) {
            Some(at) => s.char_at(at).into(),
            None => Value::NIL,
        },
        (View::Range(r), View::Int(i)) => {
            let len = r.len();
            let at = if i < 0 { i128::from(i) + i128::from(len) } else { i128::from(i) };
            if at < 0 || at >= i128::from(len) {
                return Err(Error::runtime(format!(
                    "range index out of range: index {i} for range of length {len}"
                )));
            }
            Value::int((i128::from(r.start) + at) as i64)
        }
        (View::Struct(s), View::Str(name)) => s.get(name).cloned().unwrap_or_default(),
        (View::Enum(e), View::Str(name)) if e.as_result().is_some() => return Err(no_field_of_result(name)),
        _ => {
            return Err(Error::type_error(format!(
                "cannot index into {} with {}",
                v.type_name(),
                index.type_name()
            )));
        }
    })
}

/// Returns the start and end position of `v[start:end]`.
fn slice_bounds(v: &Value, start: &Value, end: &Value) -> Result<(usize, usize)> {
    let len = match v.view() {
        View::List(items) => items.len(),
        View::Str(s) => s.char_count(),
        _ => return Err(Error::type_error(format!("cannot slice {}", v.type_name()))),
    };
    let bound = |bound: &Value, default: usize, which: &str| match bound.view() {
        View::Nil => Ok(default),
        View::Int(i) if i < 0 => Ok(usize::try_from(i.saturating_add(len as i64)).unwrap_or(0)),
        View::Int(i) => Ok(usize::try_from(i).unwrap_or(usize::MAX).min(len)),
        _ => Err(Error::type_error(format!("slice {which} must be an integer, got {}", bound.type_name()))),
    };
    let from = bound(start, 0, "start")?;
    let to = bound(end, len, "end")?;
    Ok((from, to.max(from)))
}

/// Computes `v[start:end]`.
pub(crate) fn slice(v: &Value, start: &Value, end: &Value) -> Result<Value> {
    let (from, to) = slice_bounds(v, start, end)?;
    Ok(match v.view() {
        View::List(items) if from < to => {
            memory::check((to - from) * size_of::<Value>())?;
            Value::list(items[from..to].to_vec())
        }
        View::Str(s) => {
            let part = s.char_range(from, to);
            memory::check(part.len())?;
            Value::str(part)
        }
        _ => Value::list(Vec::new()),
    })
}

/// Computes `place = place[start:end]`: an unshared list drops the other items. After an error it is unchanged.
pub(crate) fn slice_in_place(place: &mut Value, start: &Value, end: &Value) -> Result<()> {
    if place.as_list().is_some_and(Ref::is_unique) {
        let (from, to) = slice_bounds(place, start, end)?;
        if let Some(items) = place.as_list_mut().and_then(Ref::get_mut) {
            items.truncate(to);
            items.remove_front(from);
        }
        return Ok(());
    }
    let part = slice(place, start, end)?;
    place.put(part);
    Ok(())
}

/// Returns the value of a place register: the register's own, or that of the cell in it.
///
/// # Safety
/// `register` points to a live register, and the result is not used across anything that runs code of the program.
#[inline(always)]
pub(crate) unsafe fn place<'a>(register: *mut Value) -> &'a mut Value {
    // SAFETY: by contract; only the thread of the program accesses cells.
    unsafe {
        match Variable::of(&*register) {
            Some(cell) => &mut *cell.place(),
            None => &mut *register,
        }
    }
}

/// Assigns `place.name = value`.
#[inline(never)]
pub(crate) fn set_field(place: &mut Value, name: &Str, value: Value, grown: bool) -> Result<()> {
    may_take(place, name, &value, grown)?;
    if let Some(s) = place.as_struct_mut() {
        s.make_mut().entry(name).put(value);
        return Ok(());
    }
    if let Some(d) = place.as_dict_mut() {
        d.make_mut().entry(name).put(value);
        return Ok(());
    }
    Err(cannot_set(place, name))
}

/// Rejects a value that the type of a struct's field excludes, and every value for a frozen struct.
#[inline]
fn may_take(place: &Value, name: &Str, value: &Value, grown: bool) -> Result<()> {
    may_change(place, name)?;
    let problem = place.as_struct().and_then(|s| s.ty.problem(name, value, grown));
    problem.map_or(Ok(()), |problem| Err(Error::type_error(problem)))
}

/// As [`may_take`], for the last step of a path.
fn step_may_take(
    place: &Value,
    step: &PathStep,
    regs: *const Value,
    value: &Value,
    grown: bool,
) -> Result<()> {
    if place.as_struct().is_none() {
        return Ok(());
    }
    match step {
        PathStep::Field(name) => may_take(place, name, value, grown),
        PathStep::Index(reg) => {
            // SAFETY: as in `step_into`.
            let index = unsafe { &*regs.add(*reg as usize) };
            index.as_str().map_or(Ok(()), |name| may_take(place, name, value, grown))
        }
    }
}

/// Rejects a change of a field of a frozen value.
fn may_change(place: &Value, name: &str) -> Result<()> {
    match place.as_struct().filter(|s| s.ty.frozen) {
        Some(s) => {
            Err(Error::type_error(format!("cannot assign field `{name}` of {}: it is frozen", s.ty.name)))
        }
        None => Ok(()),
    }
}

fn cannot_set(place: &Value, name: &str) -> Error {
    match place.view() {
        View::List(_) => Error::type_error(format!("cannot set property '{name}' on list")),
        _ => Error::type_error(format!("cannot set property `{name}` on {}", place.type_name())),
    }
}

/// Assigns `place[index] = value`.
#[inline(never)]
pub(crate) fn set_index(place: &mut Value, index: &Value, value: Value) -> Result<()> {
    if let (true, Some(name)) = (place.as_struct().is_some(), index.as_str()) {
        may_take(place, name, &value, false)?;
    }
    element(place, index)?.put(value);
    Ok(())
}

/// Returns the element `place[index]` for writing; a missing dict key is added as nil.
#[inline]
fn element<'a>(place: &'a mut Value, index: &Value) -> Result<&'a mut Value> {
    if place.as_dict().is_some() {
        let dict = place.as_dict_mut().expect("checked above").make_mut();
        return Ok(match (index.as_str(), index.as_int()) {
            (Some(key), _) => dict.entry(key),
            (_, Some(i)) => dict.entry_int(i),
            _ => dict.entry(&key_text(index)),
        });
    }
    if let Some(list) = place.as_list() {
        let len = list.len();
        let Some(i) = index.as_int() else {
            return Err(Error::type_error(format!("cannot index into list with {}", index.type_name())));
        };
        let Some(at) = position(i, len) else {
            return Err(Error::runtime(format!("Index {i} out of bounds for list of length {len}")));
        };
        let list = place.as_list_mut().expect("checked above");
        return Ok(&mut list.make_mut()[at]);
    }
    match (place.as_struct().is_some(), index.as_str()) {
        (true, Some(name)) => {
            let name = name.clone();
            may_change(place, &name)?;
            Ok(place.as_struct_mut().expect("checked above").make_mut().entry(&name))
        }
        _ => Err(Error::type_error(format!("cannot assign into {}", place.type_name()))),
    }
}

fn step_into<'a>(place: &'a mut Value, step: &PathStep, regs: *const Value) -> Result<&'a mut Value> {
    match step {
        PathStep::Field(name) => {
            if place.as_struct().is_some() {
                may_change(place, name)?;
                return Ok(place.as_struct_mut().expect("checked above").make_mut().entry(name));
            }
            if place.as_dict().is_some() {
                return Ok(place.as_dict_mut().expect("checked above").make_mut().entry(name));
            }
            Err(cannot_set(place, name))
        }
        // SAFETY: the verifier has checked that register numbers are inside the frame.
        PathStep::Index(reg) => element(place, unsafe { &*regs.add(*reg as usize) }),
    }
}

/// Returns the value at a path, if all steps exist and no container on the path is shared: then it may be changed in
/// place.
#[inline]
fn own<'a>(place: &'a mut Value, path: &[PathStep], regs: *const Value) -> Option<&'a mut Value> {
    let mut value = place;
    for step in path {
        value = match step {
            PathStep::Field(name) => value.as_dict_mut()?.get_mut()?.get_mut(name)?,
            PathStep::Index(reg) => {
                // SAFETY: as in `step_into`.
                let index = unsafe { &*regs.add(*reg as usize) };
                if value.as_list().is_some() {
                    value.as_list_mut()?.get_mut()?.get_mut(usize::try_from(index.as_int()?).ok()?)?
                } else {
                    let dict = value.as_dict_mut()?.get_mut()?;
                    match index.as_str() {
                        Some(key) => dict.get_mut(key)?,
                        None => dict.get_int_mut(index.as_int()?)?,
                    }
                }
            }
        };
    }
    Some(value)
}

/// Reads the value at a path.
pub(crate) fn get_path(root: &Value, path: &[PathStep], regs: *const Value) -> Result<Value> {
    let mut value = root;
    for (i, step) in path.iter().enumerate() {
        match existing(value, step, regs) {
            Some(inner) => value = inner,
            None => return get_path_slow(value, &path[i..], regs),
        }
    }
    Ok(value.clone())
}

/// Returns the value that a step leads to, if it exists and `value` stores it.
#[inline]
fn existing<'a>(value: &'a Value, step: &PathStep, regs: *const Value) -> Option<&'a Value> {
    match step {
        PathStep::Field(name) => match value.as_dict() {
            Some(d) => d.get(name),
            None => value.as_struct()?.get(name),
        },
        PathStep::Index(reg) => {
            // SAFETY: as in `step_into`.
            let index = unsafe { &*regs.add(*reg as usize) };
            if let Some(items) = value.as_list() {
                return items.get(position(index.as_int()?, items.len())?);
            }
            let d = value.as_dict()?;
            match index.as_str() {
                Some(key) => d.get(key),
                None => d.get_int(index.as_int()?),
            }
        }
    }
}

fn get_path_slow(root: &Value, path: &[PathStep], regs: *const Value) -> Result<Value> {
    let mut value = root.clone();
    for step in path {
        value = match step {
            PathStep::Field(name) => get_field(&value, name)?,
            // SAFETY: as in `step_into`.
            PathStep::Index(reg) => get_index(&value, unsafe { &*regs.add(*reg as usize) })?,
        };
    }
    Ok(value)
}

/// Checks that every step of `path` below `place` leads to a place that can be assigned.
fn check_path(place: &Value, path: &[PathStep], regs: *const Value) -> Result<()> {
    let Some((last, inner)) = path.split_last() else { return Ok(()) };
    let mut value = place.clone();
    for step in inner {
        value = match step {
            PathStep::Field(name) if value.as_dict().is_some() || value.as_struct().is_some() => {
                get_field(&value, name)?
            }
            PathStep::Field(name) => return Err(cannot_set(&value, name)),
            // SAFETY: as in `step_into`.
            PathStep::Index(reg) => {
                let index = unsafe { &*regs.add(*reg as usize) };
                if let (Some(list), Some(i)) = (value.as_list(), index.as_int())
                    && position(i, list.len()).is_none()
                {
                    return Err(Error::runtime(format!(
                        "Index {i} out of bounds for list of length {}",
                        list.len()
                    )));
                }
                if value.is_nil() {
                    return Err(Error::type_error("cannot assign into nil"));
                }
                get_index(&value, index)?
            }
        };
    }
    // A test on a copy reports the last step's error before anything is changed.
    let mut probe = value;
    step_into(&mut probe, last, regs).map(|_| ())
}

/// Assigns `place.path = value`; nothing changes if a step fails.
pub(crate) fn set_path(
    place: &mut Value,
    path: &[PathStep],
    regs: *const Value,
    value: Value,
    grown: bool,
) -> Result<()> {
    match own(place, path, regs) {
        Some(inner) => {
            inner.put(value);
            Ok(())
        }
        None => set_path_slow(place, path, regs, value, grown),
    }
}

/// Slow path of [`set_path`], for shared or missing values on the path.
#[inline(never)]
fn set_path_slow(
    place: &mut Value,
    path: &[PathStep],
    regs: *const Value,
    value: Value,
    grown: bool,
) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        place.put(value);
        return Ok(());
    };
    if rest.is_empty() {
        step_may_take(place, step, regs, &value, grown)?;
        step_into(place, step, regs)?.put(value);
        return Ok(());
    }
    // The walk would add a missing key in the middle of the path, so check first.
    let missing = match (place.tag(), step) {
        (Tag::Dict, PathStep::Field(name)) => {
            let inner = place.as_dict_mut().and_then(|dict| dict.make_mut().get_mut(name));
            if let Some(inner) = inner {
                return set_path_slow(inner, rest, regs, value, grown);
            }
            true
        }
        _ => is_missing(place, step, regs),
    };
    if missing {
        return check_path(place, path, regs).and_then(|()| Err(Error::runtime("assignment failed")));
    }
    set_path_slow(step_into(place, step, regs)?, rest, regs, value, grown)
}

fn is_missing(place: &Value, step: &PathStep, regs: *const Value) -> bool {
    match (place.view(), step) {
        (View::Dict(d), PathStep::Field(name)) => d.get(name).is_none(),
        // SAFETY: as in `step_into`.
        (View::Dict(d), PathStep::Index(reg)) => {
            let index = unsafe { &*regs.add(*reg as usize) };
            match index.as_int() {
                Some(i) => d.get_int(i).is_none(),
                None if index.as_str().is_some() => index.as_str().and_then(|key| d.get(key)).is_none(),
                None => d.get(&key_text(index)).is_none(),
            }
        }
        (View::Struct(s), PathStep::Field(name)) => s.get(name).is_none(),
        _ => false,
    }
}

/// Adds to the value at a path, if that cannot fail and no container on the path is shared; returns whether it did.
#[inline(never)]
pub(crate) fn add_at_path(place: &mut Value, path: &[PathStep], regs: *const Value, right: &Value) -> bool {
    let Some(target) = own(place, path, regs) else { return false };
    match (target.tag(), right.tag()) {
        (Tag::Int, Tag::Int) => match target.int_bits().checked_add(right.int_bits()) {
            Some(sum) => target.set_int(sum),
            None => return false,
        },
        (Tag::Float, Tag::Float) => target.set_float(target.float_bits() + right.float_bits()),
        _ => return appends(target, right) && add_assign(target, right).is_ok(),
    }
    true
}

/// If `old + right` appends and the value at the path is `old`, removes it from the path so that `old` is the only
/// reference.
pub(crate) fn release_path(
    place: &mut Value,
    path: &[PathStep],
    regs: *const Value,
    old: &Value,
    right: &Value,
) {
    if !old.is_heap() {
        return;
    }
    if let Some(target) = own(place, path, regs) {
        if target.same(old) && appends(old, right) {
            target.put(Value::NIL);
        }
        return;
    }
    let mut target = place;
    for step in path {
        if is_missing(target, step, regs) {
            return;
        }
        match step_into(target, step, regs) {
            Ok(inner) => target = inner,
            Err(_) => return,
        }
    }
    // The walk may have copied shared containers, so the remaining memory is known only now. Nothing else uses memory
    // before the addition.
    if target.same(old) && appends(old, right) {
        target.put(Value::NIL);
    }
}

// ---- patterns ----

pub(crate) fn pattern_field(v: &Value, name: &Str) -> Value {
    match v.view() {
        View::Dict(d) => d.get(name).cloned().unwrap_or_default(),
        View::Struct(s) => s.get(name).cloned().unwrap_or_default(),
        _ => Value::NIL,
    }
}

pub(crate) fn rest_dict(v: &Value, named: &Value) -> Value {
    let Some(dict) = v.to_dict() else { return Value::NIL };
    let named: &[Value] = named.as_list().map_or(&[], |l| l);
    let rest: Dict = dict
        .iter()
        .filter(|(k, _)| !named.iter().any(|n| n.as_str() == Some(*k)))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    rest.into()
}

pub(crate) fn expect_pattern(v: &Value, braces: bool) -> Error {
    let (pattern, kind) = if braces { ("{...}", "dict") } else { ("[...]", "list") };
    Error::type_error(format!(
        "cannot destructure {} with {pattern} pattern — expected {kind}",
        v.type_name()
    ))
}

/// Splits a value for `(a, b)`: a pair, a list of two, and the items of `enumerate()` and `entries()`, which are dicts
/// with exactly the keys `index` (or `key`) and `value`.
pub(crate) fn split_pair(v: &Value) -> Result<(Value, Value)> {
    if let View::Dict(dict) = v.view()
        && dict.len() == 2
        && let Some(first) = dict.get_str("index").or_else(|| dict.get_str("key"))
        && let Some(second) = dict.get_str("value")
    {
        return Ok((first.clone(), second.clone()));
    }
    match v.view() {
        View::Pair(p) => Ok((p.first.clone(), p.second.clone())),
        View::List(items) if items.len() == 2 => Ok((items[0].clone(), items[1].clone())),
        _ => Err(Error::type_error(format!(
            "cannot destructure {} with (a, b) pattern — expected pair",
            v.type_name()
        ))),
    }
}

/// Returns whether a caught value has the type that `catch (e: T)` names.
pub(crate) fn catches(v: &Value, ty: &str) -> bool {
    match v.view() {
        View::Enum(e) => e.ty.name == ty,
        View::Struct(s) => s.ty.name == ty,
        View::Foreign(_) => false,
        _ => matches!(ty, "any" | "unknown") || v.type_name() == ty,
    }
}
