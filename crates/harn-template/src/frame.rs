//! The state of a template during rendering: bound names, loop variables, loop counters, and for an included
//! template the frame of the including one.

use harn_value::{Dict, List, Ref, Set, Str, Value, View};

use crate::error::{ErrorKind, Fail};
use crate::expr::{LoopField, Name};
use crate::program::Include;
use crate::template::Template;

/// A template that is being rendered.
pub(crate) struct Frame<'f> {
    pub(crate) template: &'f Template,
    /// The values of `template.program.free`; `None` for unbound names.
    pub(crate) free: Vec<Option<Value>>,
    pub(crate) locals: Vec<Value>,
    /// The running loops, outermost first.
    pub(crate) loops: Vec<LoopState>,
    /// Maximum size of the output in bytes.
    pub(crate) limit: usize,
    scope: Scope<'f>,
}

/// The source of names that the template does not bind.
pub(crate) enum Scope<'f> {
    /// The bindings of the render and the injected `llm`.
    Entry { bindings: &'f Value, llm: &'f Value },
    /// Everything visible at an `include`, shadowed by the entries of its `with`.
    Included { with: Vec<(Str, Value)>, parent: &'f Frame<'f>, site: &'f Include },
}

impl<'f> Frame<'f> {
    pub(crate) fn new(template: &'f Template, scope: Scope<'f>, limit: usize) -> Frame<'f> {
        let program = &template.program;
        let mut frame = Frame {
            template,
            free: Vec::new(),
            locals: vec![Value::NIL; program.locals],
            loops: Vec::new(),
            limit,
            scope,
        };
        frame.free = program.free.iter().map(|name| frame.outside(name)).collect();
        frame
    }

    /// Returns the value of a name that is bound outside this frame's template; `None` if it is unbound.
    fn outside(&self, name: &Str) -> Option<Value> {
        let mut scope = &self.scope;
        loop {
            match scope {
                Scope::Entry { bindings, llm } => {
                    let bound = crate::form::field(bindings, name).cloned();
                    return bound.or_else(|| (*name == "llm").then(|| (*llm).clone()));
                }
                Scope::Included { with, parent, site } => {
                    if let Some((_, value)) = with.iter().find(|(key, _)| key == name) {
                        return Some(value.clone());
                    }
                    if let Some((_, place)) = site.scope.iter().find(|(variable, _)| variable == name) {
                        return parent.get(*place);
                    }
                    scope = &parent.scope;
                }
            }
        }
    }

    /// Returns the value of a resolved name.
    pub(crate) fn get(&self, name: Name) -> Option<Value> {
        match name {
            Name::Local(slot) => Some(self.locals[slot as usize].clone()),
            Name::Loop(depth) => Some(self.loop_dict(depth)),
            Name::Free(free) => self.free[free as usize].clone(),
        }
    }

    /// Returns the `loop` dict of a running loop.
    pub(crate) fn loop_dict(&self, depth: u16) -> Value {
        let state = &self.loops[depth as usize];
        let fields = [
            ("first", LoopField::First),
            ("index", LoopField::Index),
            ("index0", LoopField::Index0),
            ("last", LoopField::Last),
            ("length", LoopField::Length),
        ];
        Value::dict(fields.into_iter().map(|(name, field)| (name, state.field(field))).collect::<Dict>())
    }
}

/// The state of a running loop.
pub(crate) struct LoopState {
    items: Items,
    at: u64,
    length: u64,
    /// Index into the program's loops.
    pub(crate) info: u32,
    /// Length of the output at the start of the current iteration.
    pub(crate) round_start: usize,
}

enum Items {
    List(Ref<List>),
    Dict(Ref<Dict>),
    Set(Ref<Set>),
    /// First element of a range.
    Range(i64),
    Fields(Vec<(Str, Value)>),
}

impl LoopState {
    /// Starts a loop over `value`; `None` if it is nil or empty.
    pub(crate) fn start(value: &Value, info: u32) -> Result<Option<LoopState>, Fail> {
        let (items, length) = match value.view() {
            View::Nil => return Ok(None),
            View::List(items) => (Items::List(items.clone()), items.len() as u64),
            View::Dict(dict) => (Items::Dict(dict.clone()), dict.len() as u64),
            View::Set(items) => (Items::Set(items.clone()), items.len() as u64),
            View::Range(range) => (Items::Range(range.start), range.len()),
            View::Struct(object) => {
                let fields: Vec<(Str, Value)> =
                    object.fields().into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let length = fields.len() as u64;
                (Items::Fields(fields), length)
            }
            _ => return Err(Box::new(ErrorKind::CannotIterate { ty: value.type_name().to_owned() })),
        };
        Ok((length > 0).then_some(LoopState { items, at: 0, length, info, round_start: 0 }))
    }

    /// Advances to the next item; returns false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        self.at += 1;
        self.at < self.length
    }

    /// Returns the current item.
    #[inline]
    pub(crate) fn value(&self) -> Value {
        let at = self.at as usize;
        match &self.items {
            Items::List(items) => items[at].clone(),
            Items::Dict(dict) => dict.nth(at).map(|(_, value)| value.clone()).unwrap_or_default(),
            Items::Set(items) => items.nth(at).cloned().unwrap_or_default(),
            Items::Range(start) => Value::int(start.wrapping_add(self.at as i64)),
            Items::Fields(fields) => fields[at].1.clone(),
        }
    }

    /// Returns the key of the current item: the name for dicts and structs, otherwise the 0-based index.
    #[inline]
    pub(crate) fn key(&self) -> Value {
        let at = self.at as usize;
        match &self.items {
            Items::Dict(dict) => dict.nth(at).map(|(key, _)| Value::from(key)).unwrap_or_default(),
            Items::Fields(fields) => Value::from(&fields[at].0),
            Items::List(_) | Items::Set(_) | Items::Range(_) => Value::int(self.at as i64),
        }
    }

    pub(crate) fn field(&self, field: LoopField) -> Value {
        match field {
            LoopField::First => Value::bool(self.at == 0),
            LoopField::Index => Value::int(self.at as i64 + 1),
            LoopField::Index0 => Value::int(self.at as i64),
            LoopField::Last => Value::bool(self.at + 1 == self.length),
            LoopField::Length => Value::int(i64::try_from(self.length).unwrap_or(i64::MAX)),
        }
    }
}
