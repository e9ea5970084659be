//! The reference interpreter: walks the tree without optimizations. Programs with unsupported features
//! (`Exit::Unknown`) are not compared.
//!
//! Its functions are futures only because generators are suspended inside them. Nothing else is asynchronous.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use harn_syntax::ast::*;

use super::calls::{builtin, is_builtin, method};
use super::machine::{Env, It, Machine, SIZE, STEPS, Scope, closure, declare, find, inner, throw};
use super::value::{Coroutine, Done, Exit, Fun, Future_, Gen, Link, V, passes, suspend};

/// Runs a program and returns its output. Returns `None` if it uses a feature that the reference does not support.
pub(super) fn run(program: &Program) -> Option<String> {
    let mut machine = Machine {
        out: RefCell::new(vec![String::new()]),
        steps: Cell::new(0),
        functions: BTreeMap::new(),
        structs: BTreeMap::new(),
        enums: BTreeMap::new(),
        methods: BTreeMap::new(),
        call,
    };
    let mut declared = HashSet::new();
    for stmt in &program.items {
        let StmtKind::Decl(decl) = &stmt.kind else { continue };
        // The attribute creates a tool or a skill, whose fields are checked at the start of the program.
        if decl.attrs.iter().any(|attr| matches!(attr.name.name.as_str(), "acp_tool" | "acp_skill")) {
            return None;
        }
        match &decl.kind {
            DeclKind::Fn(d) => drop(machine.functions.insert(d.name.name.clone(), &d.func)),
            DeclKind::Struct(d) => drop(machine.structs.insert(d.name.name.clone(), d)),
            DeclKind::Enum(d) => drop(machine.enums.insert(d.name.name.clone(), d)),
            DeclKind::Impl(d) => {
                for m in &d.methods {
                    let key = (d.name.name.clone(), m.decl.name.name.clone());
                    machine.methods.insert(key, &m.decl.func);
                }
                continue;
            }
            _ => return None,
        }
        // Duplicate declarations are rejected by the compiler; the reference does not check them.
        if !declared.insert(decl.kind.name().name.clone()) {
            return None;
        }
    }
    let it = Rc::new(machine);
    let env = Rc::new(Scope { places: RefCell::default(), up: None });
    let link = Rc::<Link<'_>>::default();
    let mut future = statements(it.clone(), &program.items, env, link);
    let Poll::Ready(end) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { return None };
    drop(future);
    // The message of an uncaught error depends on its kind, which the reference does not track.
    end.ok()?;
    // Cleanup of a dropped generator may have used an unsupported feature.
    if it.steps.get() > STEPS {
        return None;
    }
    let out = it.out.borrow().concat();
    Some(out)
}

fn call<'p>(it: It<'p>, callee: V<'p>, args: Vec<V<'p>>) -> Future_<'p, V<'p>> {
    Box::pin(async move {
        it.tick()?;
        let V::Fun(fun) = callee else { return it.unknown() };
        let env = Rc::new(Scope { places: RefCell::new(fun.captured.clone()), up: None });
        let env = inner(&env);
        let mut args = args.into_iter();
        for param in &fun.func.params {
            if param.rest || param.default.is_some() || param.ty.is_some() {
                return it.unknown();
            }
            declare(&env, &param.name.name, false, args.next().unwrap_or(V::Nil));
        }
        drop(args);
        let link = Rc::<Link<'p>>::default();
        let body = block(it.clone(), &fun.func.body, env, link.clone());
        if fun.func.has_yield {
            let coroutine = Coroutine::new(body, link);
            return Ok(V::Gen(Rc::new(Gen { coroutine: RefCell::new(Some(coroutine)) })));
        }
        let value = match body.await {
            Err(Exit::Return(value)) => value,
            other => other?,
        };
        if passes(fun.func.ret.as_ref(), &value) { Ok(value) } else { it.unknown() }
    })
}

/// Runs a function as a task: captured variables are copied, and its output is collected.
async fn task<'p>(it: &It<'p>, func: V<'p>, args: Vec<V<'p>>) -> (Done<'p, V<'p>>, String) {
    it.out.borrow_mut().push(String::new());
    let result = call(it.clone(), func, args).await;
    let output = it.out.borrow_mut().pop().unwrap_or_default();
    (result, output)
}

/// Calls a name that the program does not declare: a builtin.
async fn named<'p>(
    it: &It<'p>,
    name: &str,
    args: &'p [Arg],
    env: &Env<'p>,
    link: &Rc<Link<'p>>,
) -> Done<'p, V<'p>> {
    // `await(spawn { .. })`: a task without concurrency.
    if let ("await", [Arg { value: Expr { kind: ExprKind::Spawn(func), .. }, spread: false }]) = (name, args)
    {
        let (result, output) = task(it, it.isolated(&closure(func, env))?, Vec::new()).await;
        it.out.borrow_mut().last_mut().into_iter().for_each(|o| o.push_str(&output));
        return result;
    }
    // Checked before the argument is evaluated: it may throw, and calling an unknown function is a separate error.
    let [Arg { value, spread: false }] = args else { return it.unknown() };
    if !is_builtin(name) {
        return it.unknown();
    }
    let v = expr(it.clone(), value, env.clone(), link.clone()).await?;
    builtin(it, name, v)
}

/// Executes a block in its own scope.
fn block<'p>(it: It<'p>, block: &'p Block, env: Env<'p>, link: Rc<Link<'p>>) -> Future_<'p, V<'p>> {
    let env = inner(&env);
    statements(it, &block.stmts, env, link)
}

/// Runs `body`, then `cleanup` on every exit from it.
async fn finally<'p>(
    it: &It<'p>,
    body: Future_<'p, V<'p>>,
    cleanup: impl Future<Output = Done<'p, V<'p>>>,
) -> Done<'p, V<'p>> {
    let result = body.await;
    if matches!(result, Err(Exit::Unknown)) || it.steps.get() > STEPS {
        return Err(Exit::Unknown);
    }
    cleanup.await?;
    result
}

fn statements<'p>(it: It<'p>, stmts: &'p [Stmt], env: Env<'p>, link: Rc<Link<'p>>) -> Future_<'p, V<'p>> {
    Box::pin(async move {
        for (i, stmt) in stmts.iter().enumerate() {
            if let StmtKind::Defer(body) = &stmt.kind {
                let declared = env.places.borrow().len();
                let rest = statements(it.clone(), &stmts[i + 1..], env.clone(), link.clone());
                let places = env.clone();
                // Variables declared after a `defer` are dropped before it runs.
                let rest = Box::pin(async move {
                    let result = rest.await;
                    while places.places.borrow().len() > declared {
                        let last = places.places.borrow_mut().pop();
                        drop(last);
                    }
                    result
                });
                let cleanup = block(it.clone(), body, env.clone(), link.clone());
                return finally(&it, rest, cleanup).await;
            }
            let value = statement(it.clone(), stmt, env.clone(), link.clone()).await?;
            if i + 1 == stmts.len() && matches!(stmt.kind, StmtKind::Expr(_)) {
                return Ok(value);
            }
        }
        Ok(V::Nil)
    })
}

fn without_parens(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Paren(inner) => without_parens(inner),
        _ => e,
    }
}

/// Handles the result of a loop body; `Some` ends the loop.
fn after_body<'p>(result: Done<'p, V<'p>>) -> Option<Done<'p, V<'p>>> {
    match result {
        Ok(_) | Err(Exit::Continue) => None,
        Err(Exit::Break) => Some(Ok(V::Nil)),
        Err(other) => Some(Err(other)),
    }
}

fn statement<'p>(it: It<'p>, stmt: &'p Stmt, env: Env<'p>, link: Rc<Link<'p>>) -> Future_<'p, V<'p>> {
    Box::pin(async move {
        it.tick()?;
        macro_rules! value {
            ($e:expr) => {
                expr(it.clone(), $e, env.clone(), link.clone()).await?
            };
        }
        match &stmt.kind {
            StmtKind::Expr(e) => return Ok(value!(e)),
            StmtKind::Let { mutable, pattern, value, ty: None } => {
                let v = value!(value);
                match &pattern.kind {
                    PatternKind::Name(name) => {
                        // The reference does not check which variables can be redeclared.
                        let hides = find(&env, &name.name).is_some() || it.functions.contains_key(&name.name);
                        if !mutable && hides || name.name == "_" {
                            return it.unknown();
                        }
                        declare(&env, &name.name, *mutable, v);
                    }
                    PatternKind::List { elems, rest: None } if elems.iter().all(|e| e.default.is_none()) => {
                        let V::List(items) = v else { return it.unknown() };
                        let names: HashSet<&str> = elems.iter().map(|elem| elem.name.name.as_str()).collect();
                        if names.len() < elems.len() {
                            return it.unknown();
                        }
                        for (i, elem) in elems.iter().enumerate() {
                            declare(&env, &elem.name.name, *mutable, items.get(i).cloned().unwrap_or(V::Nil));
                        }
                    }
                    _ => return it.unknown(),
                }
            }
            StmtKind::Assign { target, op, value, .. } => {
                let Some((place, true)) = find(&env, &target.root.name) else { return it.unknown() };
                let mut path = Vec::new();
                let v = match op {
                    // Evaluation order: the value, then the indices.
                    None => {
                        let v = value!(value);
                        for step in &target.path {
                            path.push(match step {
                                TargetStep::Member(name) => V::str(&name.name),
                                TargetStep::Index { index, .. } => value!(index),
                            });
                        }
                        v
                    }
                    // Evaluation order: the indices, the old value, then the other operand.
                    Some(op) => {
                        for step in &target.path {
                            path.push(match step {
                                TargetStep::Member(name) => V::str(&name.name),
                                TargetStep::Index { index, .. } => value!(index),
                            });
                        }
                        let mut old = place.borrow().clone();
                        for step in &path {
                            old = match (&old, step) {
                                (V::List(_), V::Int(_)) => it.index(&old, step)?,
                                (_, V::Str(name)) => it.field(&old, name)?,
                                _ => return it.unknown(),
                            };
                        }
                        let right = value!(value);
                        it.binary(*op, old, right)?
                    }
                };
                let now = place.borrow().clone();
                let new = it.changed(&now, &path, v)?;
                // Dropping the old value may run cleanup code, which must see the new value.
                let old = place.replace(new);
                drop((now, old));
            }
            StmtKind::While { cond, body } => {
                while value!(cond).truthy() {
                    it.tick()?;
                    let result = block(it.clone(), body, env.clone(), link.clone()).await;
                    if let Some(end) = after_body(result) {
                        return end;
                    }
                }
            }
            StmtKind::For { pattern, iter, body } => {
                let PatternKind::Name(name) = &pattern.kind else { return it.unknown() };
                let source = match &without_parens(iter).kind {
                    ExprKind::Range { start, end, exclusive, .. } => {
                        let (V::Int(from), V::Int(to)) = (value!(start), value!(end)) else {
                            return it.unknown();
                        };
                        let to = if *exclusive { to.saturating_sub(1) } else { to };
                        if to.saturating_sub(from) > SIZE as i64 {
                            return it.unknown();
                        }
                        V::list((from..=to).map(V::Int).collect())
                    }
                    _ => value!(iter),
                };
                let mut at = 0;
                loop {
                    it.tick()?;
                    let item = match &source {
                        V::List(items) => items.get(at).cloned(),
                        V::Gen(generator) => it.next(generator)?,
                        _ => return it.unknown(),
                    };
                    let Some(item) = item else { break };
                    at += 1;
                    let scope = inner(&env);
                    declare(&scope, &name.name, true, item);
                    let result = block(it.clone(), body, scope, link.clone()).await;
                    if let Some(end) = after_body(result) {
                        drop(source);
                        return end;
                    }
                }
            }
            StmtKind::Guard { cond, body } => {
                if !value!(cond).truthy() {
                    block(it.clone(), body, env.clone(), link.clone()).await?;
                }
            }
            StmtKind::Require { cond, message: Some(message) } => {
                if !value!(cond).truthy() {
                    return Err(Exit::Throw(value!(message)));
                }
            }
            StmtKind::Return(Some(e)) => return Err(Exit::Return(value!(e))),
            StmtKind::Return(None) => return Err(Exit::Return(V::Nil)),
            StmtKind::Throw(e) => return Err(Exit::Throw(value!(e))),
            StmtKind::Break => return Err(Exit::Break),
            StmtKind::Continue => return Err(Exit::Continue),
            StmtKind::Yield(Some(e)) => {
                let v = value!(e);
                suspend(&link, v).await?;
            }
            StmtKind::Decl(_) if env.up.is_none() => {}
            _ => return it.unknown(),
        }
        Ok(V::Nil)
    })
}

fn try_expr<'p>(
    it: It<'p>,
    body: &'p Block,
    catch: Option<&'p Catch>,
    env: Env<'p>,
    link: Rc<Link<'p>>,
) -> Future_<'p, V<'p>> {
    Box::pin(async move {
        let result = block(it.clone(), body, env.clone(), link.clone()).await;
        let (Some(catch), Err(Exit::Throw(error))) = (catch, &result) else { return result };
        if catch.ty.is_some() {
            return it.unknown();
        }
        let scope = inner(&env);
        if let Some(name) = &catch.name {
            declare(&scope, &name.name, false, error.clone());
        }
        drop(result);
        block(it.clone(), &catch.body, scope, link).await
    })
}

/// Binds the variables of a pattern; returns whether it matches.
fn matches<'p>(
    it: It<'p>,
    pattern: &'p MatchPattern,
    v: V<'p>,
    env: Env<'p>,
    link: Rc<Link<'p>>,
) -> Future_<'p, bool> {
    Box::pin(async move {
        Ok(match (&pattern.kind, &v) {
            (MatchPatternKind::Wildcard, _) => true,
            (MatchPatternKind::Bind(name), _) => {
                declare(&env, &name.name, false, v);
                true
            }
            (MatchPatternKind::Value(Expr { kind: ExprKind::Range { .. }, .. }), _) => return it.unknown(),
            (MatchPatternKind::Value(e), _) => {
                let other = expr(it.clone(), e, env, link).await?;
                it.equal(&v, &other)?
            }
            (MatchPatternKind::List { items, rest: None }, V::List(list)) => {
                if list.len() < items.len() {
                    return Ok(false);
                }
                for (item, v) in items.iter().zip(&**list) {
                    if !matches(it.clone(), item, v.clone(), env.clone(), link.clone()).await? {
                        return Ok(false);
                    }
                }
                true
            }
            (MatchPatternKind::List { rest: None, .. }, _) => false,
            (MatchPatternKind::Variant { enum_name, variant, fields }, _) => {
                if enum_name.name != "Result" {
                    it.variant(&enum_name.name, &variant.name)?;
                }
                let V::Enum(e) = &v else { return Ok(false) };
                if (&e.0, &e.1) != (&enum_name.name, &variant.name) {
                    return Ok(false);
                }
                for (i, field) in fields.iter().flatten().enumerate() {
                    let part = e.2.get(i).cloned().unwrap_or(V::Nil);
                    if !matches(it.clone(), field, part, env.clone(), link.clone()).await? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => return it.unknown(),
        })
    })
}

fn expr<'p>(it: It<'p>, e: &'p Expr, env: Env<'p>, link: Rc<Link<'p>>) -> Future_<'p, V<'p>> {
    Box::pin(async move {
        it.tick()?;
        macro_rules! value {
            ($e:expr) => {
                expr(it.clone(), $e, env.clone(), link.clone()).await?
            };
        }
        macro_rules! values {
            ($args:expr) => {{
                let mut values = Vec::new();
                for arg in $args {
                    if arg.spread {
                        return it.unknown();
                    }
                    values.push(value!(&arg.value));
                }
                values
            }};
        }
        macro_rules! block {
            ($body:expr) => {
                block(it.clone(), $body, env.clone(), link.clone()).await
            };
        }
        Ok(match &e.kind {
            ExprKind::Nil => V::Nil,
            ExprKind::Bool(b) => V::Bool(*b),
            ExprKind::Int(i) => V::Int(*i),
            ExprKind::Str(text) => V::str(text),
            ExprKind::Paren(inner) => value!(inner),
            ExprKind::Name(name) => match (find(&env, name), it.functions.get(name)) {
                (Some((place, _)), _) => place.borrow().clone(),
                (None, Some(func)) => V::Fun(Rc::new(Fun { func, captured: Vec::new() })),
                _ => return it.unknown(),
            },
            ExprKind::Interp(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        StrPart::Text(t) => text.push_str(t),
                        StrPart::Expr(e) => {
                            let v = value!(e);
                            text.push_str(&it.show(&v)?);
                        }
                    }
                }
                if text.len() > SIZE {
                    return it.unknown();
                }
                V::str(&text)
            }
            ExprKind::List(items) => V::list(values!(items)),
            ExprKind::Dict(items) => {
                let mut d = BTreeMap::new();
                for item in items {
                    let DictItem::Entry { key, value } = item else { return it.unknown() };
                    d.insert(key.name.to_string(), value!(value));
                }
                V::Dict(Rc::new(d))
            }
            ExprKind::StructLit { name, items } => {
                let Some(decl) = it.structs.get(&name.name) else { return it.unknown() };
                let mut given = BTreeMap::new();
                for item in items {
                    let DictItem::Entry { key, value } = item else { return it.unknown() };
                    given.insert(key.name.clone(), value!(value));
                }
                let fields =
                    decl.fields.iter().map(|f| Some((f.name.name.clone(), given.remove(&f.name.name)?)));
                let Some(fields) = fields.collect::<Option<Vec<_>>>() else { return it.unknown() };
                let mut typed = decl.fields.iter().zip(&fields);
                if !typed.all(|(field, (_, value))| passes(field.ty.as_ref(), value)) {
                    return it.unknown();
                }
                V::Struct(Rc::new((name.name.clone(), fields)))
            }
            ExprKind::Closure { func, .. } => closure(func, &env),
            ExprKind::If { arms, else_body } => {
                for arm in arms {
                    if value!(&arm.cond).truthy() {
                        return block!(&arm.body);
                    }
                }
                match else_body {
                    Some(body) => return block!(body),
                    None => V::Nil,
                }
            }
            ExprKind::Match { value, arms } => {
                let v = value!(value);
                for arm in arms {
                    let [pattern] = &arm.patterns[..] else { return it.unknown() };
                    let scope = inner(&env);
                    if !matches(it.clone(), pattern, v.clone(), scope.clone(), link.clone()).await? {
                        continue;
                    }
                    if let Some(guard) = &arm.guard
                        && !expr(it.clone(), guard, scope.clone(), link.clone()).await?.truthy()
                    {
                        continue;
                    }
                    return block(it.clone(), &arm.body, scope, link.clone()).await;
                }
                return throw("No match arm matched the value");
            }
            ExprKind::Try { body, catch: None, finally: None } => match block!(body) {
                Ok(V::Enum(e)) if e.0 == "Result" => V::Enum(e),
                Ok(v) => V::result("Ok", v),
                Err(Exit::Throw(v)) => V::result("Err", v),
                Err(other) => return Err(other),
            },
            ExprKind::Try { body, catch, finally: cleanup } => {
                let tried = try_expr(it.clone(), body, catch.as_deref(), env.clone(), link.clone());
                match cleanup {
                    Some(cleanup) => {
                        let cleanup = block(it.clone(), cleanup, env.clone(), link.clone());
                        return finally(&it, tried, cleanup).await;
                    }
                    None => return tried.await,
                }
            }
            ExprKind::Retry { count, body } => {
                let V::Int(count) = value!(count) else { return it.unknown() };
                let mut left = count.max(1);
                loop {
                    it.tick()?;
                    left -= 1;
                    match block!(body) {
                        Err(Exit::Throw(_)) if left > 0 => {}
                        result => return result,
                    }
                }
            }
            // Programs are too short to reach a deadline, so it is a plain block.
            ExprKind::Deadline { limit, body } => {
                if !matches!(limit.kind, ExprKind::Duration(ms) if ms >= 60_000) {
                    return it.unknown();
                }
                return block!(body);
            }
            ExprKind::Unary { op: UnaryOp::Not, operand, .. } => V::Bool(!value!(operand).truthy()),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match value!(operand) {
                V::Int(i) => match i.checked_neg() {
                    Some(i) => V::Int(i),
                    None => return throw(format!("Runtime error: Integer overflow: -({i})")),
                },
                _ => return it.unknown(),
            },
            ExprKind::Binary { op, lhs, rhs, .. } => {
                let left = value!(lhs);
                let right = value!(rhs);
                it.binary(*op, left, right)?
            }
            ExprKind::Logic { op, lhs, rhs, .. } => {
                let left = value!(lhs);
                match op {
                    LogicOp::And => V::Bool(left.truthy() && value!(rhs).truthy()),
                    LogicOp::Or => V::Bool(left.truthy() || value!(rhs).truthy()),
                    LogicOp::Coalesce if matches!(left, V::Nil) => value!(rhs),
                    LogicOp::Coalesce => left,
                }
            }
            ExprKind::Ternary { cond, then, other } => {
                if value!(cond).truthy() {
                    value!(then)
                } else {
                    value!(other)
                }
            }
            ExprKind::Index { object, index, optional: false, .. } => {
                let object = value!(object);
                let index = value!(index);
                it.index(&object, &index)?
            }
            ExprKind::Slice { object, start, end, .. } => {
                let object = value!(object);
                let start = match start {
                    Some(e) => Some(value!(e)),
                    None => None,
                };
                let end = match end {
                    Some(e) => Some(value!(e)),
                    None => None,
                };
                it.slice(&object, start, end)?
            }
            ExprKind::Member { object, name, optional: false } => {
                if let Some(ty) = object.as_name().filter(|n| it.enums.contains_key(*n)) {
                    it.variant(ty, &name.name)?;
                    return Ok(V::Enum(Rc::new((ty.clone(), name.name.clone(), Vec::new()))));
                }
                let object = value!(object);
                it.field(&object, &name.name)?
            }
            ExprKind::Call { callee, args, .. } => match callee.as_name() {
                Some(name) if find(&env, name).is_none() && !it.functions.contains_key(name) => {
                    return named(&it, name, args, &env, &link).await;
                }
                _ => {
                    let callee = value!(callee);
                    let args = values!(args);
                    return call(it.clone(), callee, args).await;
                }
            },
            ExprKind::MethodCall { object, name, args, optional: false } => {
                if let Some(ty) = object.as_name().filter(|n| it.enums.contains_key(*n)) {
                    it.variant(ty, &name.name)?;
                    return Ok(V::Enum(Rc::new((ty.clone(), name.name.clone(), values!(args)))));
                }
                let object = value!(object);
                let args = values!(args);
                return method(&it, object, &name.name, args).await;
            }
            ExprKind::Propagate { operand, .. } => match value!(operand) {
                V::Enum(e) if e.0 == "Result" && e.1 == "Ok" => e.2[0].clone(),
                V::Enum(e) if e.0 == "Result" => return Err(Exit::Return(V::Enum(e))),
                _ => return it.unknown(),
            },
            ExprKind::Parallel(p)
                if p.kind == ParallelKind::Each && !p.as_stream && p.max_concurrent.is_none() =>
            {
                let V::List(items) = value!(&p.source) else { return it.unknown() };
                let func = closure(&p.func, &env);
                let mut values = Vec::new();
                let mut outputs = Vec::new();
                for item in items.iter() {
                    let child = it.isolated(&func)?;
                    let (result, output) = task(&it, child, vec![item.clone()]).await;
                    // The fate of the other tasks after a failure depends on timing.
                    values.push(match result {
                        Ok(v) => v,
                        Err(_) => return it.unknown(),
                    });
                    outputs.push(output);
                }
                outputs.iter().for_each(|text| {
                    it.out.borrow_mut().last_mut().into_iter().for_each(|o| o.push_str(text))
                });
                V::list(values)
            }
            _ => return it.unknown(),
        })
    })
}
