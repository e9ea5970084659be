//! Builtins and methods of the reference interpreter.

use std::rc::Rc;

use super::machine::{It, SIZE, throw};
use super::value::{Done, Fun, V};

/// Returns whether the reference implements a builtin.
pub(super) fn is_builtin(name: &str) -> bool {
    ["println", "len", "is_ok", "unwrap", "to_string"].contains(&name)
}

/// Calls a builtin.
pub(super) fn builtin<'p>(it: &It<'p>, name: &str, v: V<'p>) -> Done<'p, V<'p>> {
    Ok(match (name, v) {
        ("println", v) => {
            it.print(&it.show(&v)?);
            V::Nil
        }
        ("len", V::List(items)) => V::Int(items.len() as i64),
        ("len", V::Str(text)) => V::Int(text.chars().count() as i64),
        ("is_ok", V::Enum(e)) if e.0 == "Result" => V::Bool(e.1 == "Ok"),
        ("unwrap", V::Enum(e)) if e.0 == "Result" && e.1 == "Ok" => e.2[0].clone(),
        ("to_string", v) => V::str(&it.show(&v)?),
        _ => return it.unknown(),
    })
}

/// Checks that the callback of a list method is a function with at most as many parameters as it gets arguments.
fn may_be_called<'p>(method: &str, function: &V<'p>, gets: usize) -> Done<'p, ()> {
    match function {
        V::Fun(fun) if fun.func.params.len() > gets => {
            let takes = fun.func.params.len();
            throw(format!("Type error: list.{method}: the function takes {takes} arguments, but gets {gets}"))
        }
        V::Fun(_) => Ok(()),
        _ => throw(format!("Type error: list.{method}: expected callable")),
    }
}

pub(super) async fn method<'p>(it: &It<'p>, object: V<'p>, name: &str, args: Vec<V<'p>>) -> Done<'p, V<'p>> {
    let first = args.first().cloned().unwrap_or(V::Nil);
    match (&object, name, args.as_slice()) {
        (V::List(_), "map" | "filter", [f]) => may_be_called(name, f, 1)?,
        (V::List(_), "reduce", [_, f]) => may_be_called(name, f, 2)?,
        _ => {}
    }
    let result = match (&object, name, args.len()) {
        (V::List(items), "push", 1) if items.len() < SIZE => {
            let mut items = (**items).clone();
            items.push(first);
            V::list(items)
        }
        (V::List(items), "map", 1) => {
            let mut out = Vec::new();
            for item in items.iter() {
                out.push((it.call)(it.clone(), first.clone(), vec![item.clone()]).await?);
            }
            V::list(out)
        }
        (V::List(items), "filter", 1) => {
            let mut out = Vec::new();
            for item in items.iter() {
                if (it.call)(it.clone(), first.clone(), vec![item.clone()]).await?.truthy() {
                    out.push(item.clone());
                }
            }
            V::list(out)
        }
        (V::List(items), "reduce", 2) => {
            let mut acc = first;
            for item in items.iter() {
                acc = (it.call)(it.clone(), args[1].clone(), vec![acc, item.clone()]).await?;
            }
            acc
        }
        (V::Gen(generator), "next", 0) => {
            let (done, value) = match it.next(generator)? {
                Some(v) => (false, v),
                None => (true, V::Nil),
            };
            let entries = [("done", V::Bool(done)), ("value", value)];
            V::Dict(Rc::new(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
        }
        (V::Struct(s), ..) => {
            let Some(func) = it.methods.get(&(s.0.clone(), name.into())) else { return it.unknown() };
            let method = V::Fun(Rc::new(Fun { func, captured: Vec::new() }));
            let all = std::iter::once(object.clone()).chain(args).collect();
            drop(object);
            return (it.call)(it.clone(), method, all).await;
        }
        _ => return it.unknown(),
    };
    Ok(result)
}
