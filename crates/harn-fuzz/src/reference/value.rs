//! Values of the reference interpreter: plain trees without sharing optimizations. Generators are suspended
//! functions, which in turn own values.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use harn_syntax::ast::{Function, Name, TypeExpr, TypeKind};

/// Maximum number of parts of a value before a program is abandoned: a walk visits shared parts repeatedly, and `d
/// = [d, d]` in a loop quickly creates more of them than can be visited.
const PARTS: usize = 20_000;

/// The copies of captured variables for a task.
pub(super) struct Copies<'p> {
    known: Vec<(*const RefCell<V<'p>>, Place<'p>)>,
    left: usize,
}

impl Copies<'_> {
    pub(super) fn new() -> Self {
        Copies { known: Vec::new(), left: PARTS }
    }

    /// Returns whether the limit was exceeded.
    pub(super) fn too_many(&self) -> bool {
        self.left == 0
    }
}

/// A value.
#[derive(Clone)]
pub(super) enum V<'p> {
    Nil,
    Bool(bool),
    Int(i64),
    Str(Rc<str>),
    List(Rc<Vec<V<'p>>>),
    Dict(Rc<BTreeMap<String, V<'p>>>),
    /// Name of the type, fields in declaration order.
    Struct(Rc<(Name, Vec<(Name, V<'p>)>)>),
    /// Names of the type and of the variant, payload.
    Enum(Rc<(Name, Name, Vec<V<'p>>)>),
    Fun(Rc<Fun<'p>>),
    Gen(Rc<Gen<'p>>),
}

/// Whether a value certainly passes an annotation. Types other than the simplest ones are not compared.
pub(super) fn passes(ty: Option<&TypeExpr>, value: &V<'_>) -> bool {
    let Some(ty) = ty else { return true };
    let TypeKind::Named { name, args } = &ty.kind else { return false };
    let is_of_kind = matches!(
        (name.name.as_str(), value),
        ("any", _)
            | ("nil", V::Nil)
            | ("bool", V::Bool(_))
            | ("int", V::Int(_))
            | ("string", V::Str(_))
            | ("list", V::List(_))
            | ("dict", V::Dict(_))
    );
    args.is_empty() && is_of_kind
}

/// A variable, shared by the closures that capture it.
pub(super) type Place<'p> = Rc<RefCell<V<'p>>>;

/// A variable with its name, and whether it can be assigned.
pub(super) type Variable<'p> = (Name, Place<'p>, bool);

/// A function with its captured variables.
pub(super) struct Fun<'p> {
    pub(super) func: &'p Function,
    pub(super) captured: Vec<Variable<'p>>,
}

/// A generator. Dropping it runs its pending cleanup blocks.
pub(super) struct Gen<'p> {
    pub(super) coroutine: RefCell<Option<Coroutine<'p>>>,
}

impl Drop for Gen<'_> {
    fn drop(&mut self) {
        if let Some(coroutine) = self.coroutine.get_mut().take() {
            coroutine.abandon();
        }
    }
}

/// The reason why evaluation stops.
pub(super) enum Exit<'p> {
    Break,
    Continue,
    Return(V<'p>),
    Throw(V<'p>),
    /// The generator was dropped: only cleanup blocks run.
    Abandoned,
    /// The program uses a feature that the reference does not support, or exceeds a limit.
    Unknown,
}

pub(super) type Done<'p, T> = Result<T, Exit<'p>>;
pub(super) type Future_<'p, T> = Pin<Box<dyn Future<Output = Done<'p, T>> + 'p>>;

/// Connects a running generator with its consumer.
#[derive(Default)]
pub(super) struct Link<'p> {
    value: RefCell<Option<V<'p>>>,
    abandoned: Cell<bool>,
}

/// A suspended function.
pub(super) struct Coroutine<'p> {
    future: Future_<'p, V<'p>>,
    link: Rc<Link<'p>>,
    started: bool,
}

impl<'p> Coroutine<'p> {
    pub(super) fn new(future: Future_<'p, V<'p>>, link: Rc<Link<'p>>) -> Coroutine<'p> {
        Coroutine { future, link, started: false }
    }

    /// Returns the value of the next `yield`; `Ok(None)` at the end.
    pub(super) fn pull(mut self) -> (Done<'p, Option<V<'p>>>, Option<Coroutine<'p>>) {
        self.started = true;
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => (end.map(|_| None), None),
            Poll::Pending => (Ok(self.link.value.take()), Some(self)),
        }
    }

    /// Runs the cleanup blocks to their end.
    pub(super) fn abandon(mut self) {
        self.link.abandoned.set(true);
        if self.started {
            let _ = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Passes a value to the consumer.
pub(super) async fn suspend<'p>(link: &Link<'p>, value: V<'p>) -> Done<'p, ()> {
    if link.abandoned.get() {
        // Values yielded during cleanup are discarded.
        return Ok(());
    }
    *link.value.borrow_mut() = Some(value);
    let mut first = true;
    std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
    if link.abandoned.get() { Err(Exit::Abandoned) } else { Ok(()) }
}

impl<'p> V<'p> {
    pub(super) fn str(text: &str) -> V<'p> {
        V::Str(text.into())
    }

    pub(super) fn list(items: Vec<V<'p>>) -> V<'p> {
        V::List(Rc::new(items))
    }

    /// `Result.Ok(v)` or `Result.Err(v)`.
    pub(super) fn result(variant: &str, v: V<'p>) -> V<'p> {
        V::Enum(Rc::new(("Result".into(), variant.into(), vec![v])))
    }

    pub(super) fn truthy(&self) -> bool {
        match self {
            V::Nil | V::Bool(false) | V::Int(0) => false,
            V::Str(text) => !text.is_empty(),
            V::List(items) => !items.is_empty(),
            V::Dict(d) => !d.is_empty(),
            _ => true,
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            V::Nil => "nil",
            V::Bool(_) => "bool",
            V::Int(_) => "int",
            V::Str(_) => "string",
            V::List(_) => "list",
            V::Dict(_) => "dict",
            V::Struct(_) => "struct",
            V::Enum(_) => "enum",
            V::Fun(_) => "closure",
            V::Gen(_) => "generator",
        }
    }

    pub(super) fn equals(&self, other: &V<'p>) -> bool {
        match (self, other) {
            (V::Nil, V::Nil) => true,
            (V::Bool(a), V::Bool(b)) => a == b,
            (V::Int(a), V::Int(b)) => a == b,
            (V::Str(a), V::Str(b)) => a == b,
            (V::List(a), V::List(b)) => a.len() == b.len() && a.iter().zip(&**b).all(|(a, b)| a.equals(b)),
            (V::Dict(a), V::Dict(b)) => {
                a.len() == b.len() && a.iter().zip(&**b).all(|((k, v), (l, w))| k == l && v.equals(w))
            }
            (V::Struct(a), V::Struct(b)) => {
                a.0 == b.0 && a.1.iter().zip(&b.1).all(|((_, v), (_, w))| v.equals(w))
            }
            (V::Enum(a), V::Enum(b)) => {
                (&a.0, &a.1, a.2.len()) == (&b.0, &b.1, b.2.len())
                    && a.2.iter().zip(&b.2).all(|(v, w)| v.equals(w))
            }
            _ => false,
        }
    }

    /// Returns the printed form.
    pub(super) fn show(&self) -> String {
        let all = |items: &[V<'p>]| items.iter().map(V::show).collect::<Vec<_>>().join(", ");
        match self {
            V::Nil => "nil".to_owned(),
            V::Bool(b) => b.to_string(),
            V::Int(i) => i.to_string(),
            V::Str(text) => text.to_string(),
            V::List(items) => format!("[{}]", all(items)),
            V::Dict(d) => {
                let entries: Vec<String> = d.iter().map(|(k, v)| format!("{k}: {}", v.show())).collect();
                format!("{{{}}}", entries.join(", "))
            }
            V::Struct(s) => {
                let fields: Vec<String> = s.1.iter().map(|(k, v)| format!("{k}: {}", v.show())).collect();
                format!("{} {{{}}}", s.0, fields.join(", "))
            }
            V::Enum(e) if e.2.is_empty() => format!("{}.{}", e.0, e.1),
            V::Enum(e) => format!("{}.{}({})", e.0, e.1, all(&e.2)),
            V::Fun(fun) => {
                let params: Vec<&str> = fun.func.params.iter().map(|param| &*param.name.name).collect();
                format!("<fn({})>", params.join(", "))
            }
            V::Gen(_) => "<generator>".to_owned(),
        }
    }

    /// Returns whether the value is small enough to be printed and compared.
    pub(super) fn is_small(&self) -> bool {
        fn walk(v: &V<'_>, left: &mut usize) -> bool {
            *left = left.saturating_sub(1);
            *left > 0
                && match v {
                    V::List(items) => items.iter().all(|v| walk(v, left)),
                    V::Dict(d) => d.values().all(|v| walk(v, left)),
                    V::Struct(s) => s.1.iter().all(|(_, v)| walk(v, left)),
                    V::Enum(e) => e.2.iter().all(|v| walk(v, left)),
                    _ => true,
                }
        }
        walk(self, &mut PARTS.clone())
    }

    /// Copies the value for a task, with copies of the variables captured by its closures.
    pub(super) fn isolated(&self, copies: &mut Copies<'p>) -> V<'p> {
        copies.left = copies.left.saturating_sub(1);
        if copies.too_many() {
            return V::Nil;
        }
        let fun = match self {
            V::Fun(fun) => fun,
            V::List(items) => return V::list(items.iter().map(|v| v.isolated(copies)).collect()),
            V::Dict(d) => {
                let copy = d.iter().map(|(k, v)| (k.clone(), v.isolated(copies)));
                return V::Dict(Rc::new(copy.collect()));
            }
            other => return other.clone(),
        };
        let captured = fun.captured.iter().map(|(name, place, mutable)| {
            let address = Rc::as_ptr(place);
            if let Some((_, copy)) = copies.known.iter().find(|(p, _)| *p == address) {
                return (name.clone(), copy.clone(), *mutable);
            }
            let copy: Place<'p> = Rc::new(RefCell::new(V::Nil));
            copies.known.push((address, copy.clone()));
            let value = place.borrow().isolated(copies);
            *copy.borrow_mut() = value;
            (name.clone(), copy, *mutable)
        });
        let captured = captured.collect();
        V::Fun(Rc::new(Fun { func: fun.func, captured }))
    }
}
