//! Tasks, builtins and methods: what programs of this target call besides their own functions.

use std::rc::Rc;

use harn_syntax::ast::*;

use super::eval::{Done, Env, It, Link, SIZE, call, closure, expr, throw};
use super::value::{Fun, V};

/// Runs a function as a task: it has copies of the variables it captured, and its output is collected.
pub(super) async fn task<'p>(it: &It<'p>, func: V<'p>, args: Vec<V<'p>>) -> (Done<'p, V<'p>>, String) {
    it.out.borrow_mut().push(String::new());
    let result = call(it.clone(), func, args).await;
    let output = it.out.borrow_mut().pop().unwrap_or_default();
    (result, output)
}

/// The builtins that programs of this target use.
pub(super) async fn builtin<'p>(
    it: &It<'p>,
    name: &str,
    args: &'p [Arg],
    env: &Env<'p>,
    link: &Rc<Link<'p>>,
) -> Done<'p, V<'p>> {
    // `await(spawn { .. })`: a task that nothing runs beside.
    if let ("await", [Arg { value: Expr { kind: ExprKind::Spawn(func), .. }, .. }]) = (name, args) {
        let (result, output) = task(it, it.isolated(&closure(func, env))?, Vec::new()).await;
        it.out.borrow_mut().last_mut().into_iter().for_each(|o| o.push_str(&output));
        return result;
    }
    // Before the argument is evaluated: it may throw, and a call of what does not exist is an error of its own.
    let known = ["println", "len", "is_ok", "unwrap", "to_string"].contains(&name);
    let [Arg { value, spread: false }] = args else { return it.unknown() };
    if !known {
        return it.unknown();
    }
    let v = expr(it.clone(), value, env.clone(), link.clone()).await?;
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

/// A function that a method of lists calls takes no more arguments than it gets.
fn takes_no_more<'p>(method: &str, function: &V<'p>, gets: usize) -> Done<'p, ()> {
    match function {
        V::Fun(fun) if fun.func.params.len() > gets => {
            let takes = fun.func.params.len();
            throw(format!("Type error: list.{method}: the function takes {takes} arguments, but gets {gets}"))
        }
        _ => Ok(()),
    }
}

pub(super) async fn method<'p>(it: &It<'p>, object: V<'p>, name: &str, args: Vec<V<'p>>) -> Done<'p, V<'p>> {
    let first = args.first().cloned().unwrap_or(V::Nil);
    match (&object, name, args.as_slice()) {
        (V::List(_), "map" | "filter", [f]) => takes_no_more(name, f, 1)?,
        (V::List(_), "reduce", [_, f]) => takes_no_more(name, f, 2)?,
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
                out.push(call(it.clone(), first.clone(), vec![item.clone()]).await?);
            }
            V::list(out)
        }
        (V::List(items), "filter", 1) => {
            let mut out = Vec::new();
            for item in items.iter() {
                if call(it.clone(), first.clone(), vec![item.clone()]).await?.truthy() {
                    out.push(item.clone());
                }
            }
            V::list(out)
        }
        (V::List(items), "reduce", 2) => {
            let mut acc = first;
            for item in items.iter() {
                acc = call(it.clone(), args[1].clone(), vec![acc, item.clone()]).await?;
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
            return call(it.clone(), method, all).await;
        }
        _ => return it.unknown(),
    };
    Ok(result)
}
