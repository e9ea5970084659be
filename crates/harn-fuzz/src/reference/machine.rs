//! The state of a program in the reference interpreter: its scopes, declarations, output and limits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};

use super::value::{Copies, Done, Exit, Fun, Future_, Gen, Place, V, Variable};

/// Maximum number of steps before a program is abandoned.
pub(super) const STEPS: u32 = 30_000;

/// Maximum number of characters of a string or items of a list before a program is abandoned.
pub(super) const SIZE: usize = 5_000;

/// The variables of a block.
pub(super) struct Scope<'p> {
    pub(super) places: RefCell<Vec<Variable<'p>>>,
    pub(super) up: Option<Env<'p>>,
}

pub(super) type Env<'p> = Rc<Scope<'p>>;

impl Drop for Scope<'_> {
    /// Drops variables in reverse order of declaration.
    fn drop(&mut self) {
        while let Some(last) = self.places.get_mut().pop() {
            drop(last);
        }
    }
}

pub(super) fn inner<'p>(up: &Env<'p>) -> Env<'p> {
    Rc::new(Scope { places: RefCell::default(), up: Some(up.clone()) })
}

pub(super) fn declare<'p>(env: &Env<'p>, name: &Name, mutable: bool, value: V<'p>) {
    env.places.borrow_mut().push((name.clone(), Rc::new(RefCell::new(value)), mutable));
}

pub(super) fn find<'p>(env: &Env<'p>, name: &str) -> Option<(Place<'p>, bool)> {
    let mut scope = Some(env);
    while let Some(env) = scope {
        if let Some((_, place, mutable)) = env.places.borrow().iter().rev().find(|(n, ..)| n == name) {
            return Some((place.clone(), *mutable));
        }
        scope = env.up.as_ref();
    }
    None
}

/// A running program.
pub(super) struct Machine<'p> {
    /// The output of the program and of the running tasks.
    pub(super) out: RefCell<Vec<String>>,
    pub(super) steps: Cell<u32>,
    pub(super) functions: BTreeMap<Name, &'p Function>,
    pub(super) structs: BTreeMap<Name, &'p StructDecl>,
    pub(super) enums: BTreeMap<Name, &'p EnumDecl>,
    pub(super) methods: BTreeMap<(Name, Name), &'p Function>,
    /// Calls a function.
    pub(super) call: Call<'p>,
}

/// A function that calls a function value; list methods use it for their callbacks.
pub(super) type Call<'p> = fn(It<'p>, V<'p>, Vec<V<'p>>) -> Future_<'p, V<'p>>;

pub(super) type It<'p> = Rc<Machine<'p>>;

pub(super) fn throw<'p, T>(text: impl AsRef<str>) -> Done<'p, T> {
    Err(Exit::Throw(V::str(text.as_ref())))
}

impl<'p> Machine<'p> {
    pub(super) fn tick(&self) -> Done<'p, ()> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS { Err(Exit::Unknown) } else { Ok(()) }
    }

    /// Abandons the program, even if the error is not propagated.
    pub(super) fn unknown<T>(&self) -> Done<'p, T> {
        self.steps.set(STEPS + 1);
        Err(Exit::Unknown)
    }

    /// Returns the printed form.
    pub(super) fn show(&self, v: &V<'p>) -> Done<'p, String> {
        if v.is_small() { Ok(v.show()) } else { self.unknown() }
    }

    /// Returns whether two values are equal.
    pub(super) fn equal(&self, a: &V<'p>, b: &V<'p>) -> Done<'p, bool> {
        if a.is_small() || b.is_small() { Ok(a.equals(b)) } else { self.unknown() }
    }

    /// Copies a function for a task.
    pub(super) fn isolated(&self, func: &V<'p>) -> Done<'p, V<'p>> {
        let mut copies = Copies::new();
        let copy = func.isolated(&mut copies);
        if copies.too_many() { self.unknown() } else { Ok(copy) }
    }

    pub(super) fn print(&self, text: &str) {
        if let Some(out) = self.out.borrow_mut().last_mut() {
            out.push_str(text);
            out.push('\n');
        }
    }

    /// Checks that a variant is declared.
    pub(super) fn variant(&self, ty: &str, variant: &str) -> Done<'p, ()> {
        let known = self.enums.get(ty).is_some_and(|d| d.variants.iter().any(|v| v.name.name == *variant));
        if known { Ok(()) } else { self.unknown() }
    }

    /// Resumes a generator and returns its next value.
    pub(super) fn next(&self, generator: &Gen<'p>) -> Done<'p, Option<V<'p>>> {
        let Some(coroutine) = generator.coroutine.take() else { return Ok(None) };
        let (value, rest) = coroutine.pull();
        *generator.coroutine.borrow_mut() = rest;
        value
    }
}

/// The names that a function uses.
struct Mentions(Vec<Name>);

impl<'a> Visitor<'a> for Mentions {
    fn expr(&mut self, e: &'a Expr) {
        if let ExprKind::Name(name) = &e.kind {
            self.0.push(name.clone());
        }
        visit::walk_expr(self, e);
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Assign { target, .. } = &stmt.kind {
            self.0.push(target.root.name.clone());
        }
        visit::walk_stmt(self, stmt);
    }
}

pub(super) fn closure<'p>(func: &'p Function, env: &Env<'p>) -> V<'p> {
    let mut mentions = Mentions(Vec::new());
    mentions.function(func, &[]);
    mentions.0.sort();
    mentions.0.dedup();
    let captured = mentions.0.into_iter().filter_map(|name| {
        let (place, mutable) = find(env, &name)?;
        Some((name, place, mutable))
    });
    V::Fun(Rc::new(Fun { func, captured: captured.collect() }))
}
