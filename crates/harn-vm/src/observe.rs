//! Observers: code that inspects a running program, statement by statement, such as coverage and the debugger.
//!
//! Only if there is an observer, the compiler emits an observation point before every statement. It uses the
//! instruction that checks for dropped generators (`Op::Settle`); at such a point the fiber passes a [`Scene`] to the
//! observer. A program without an observer has no additional instructions or checks.

use std::rc::Rc;

use harn_syntax::Span;
use harn_value::Value;

use crate::bytecode::{HandlerKind, Proto};
use crate::closure::Variable;
use crate::coroutine::{Coroutine, Frame, NATIVE};
use crate::error::Error;
use crate::fiber::Fiber;

/// Inspects a running program. The program is stopped until a method returns.
pub trait Observer {
    /// A statement is about to run.
    fn statement(&self, scene: &Scene<'_>);

    /// Returns whether tail calls must keep the caller's frame visible. This uses stack space: endless tail recursion
    /// then reaches the stack limit.
    fn keeps_calls(&self) -> bool {
        false
    }

    /// Called when an error was thrown, or has propagated to a calling function.
    fn thrown(&self, _scene: &Scene<'_>, _error: &Error) {}
}

/// A stopped task with its calls and variables.
pub struct Scene<'a> {
    fiber: &'a Fiber,
}

/// A call in progress.
#[derive(Debug, Clone)]
pub struct Level {
    /// Name of the function, `<closure>` or `pipeline`.
    pub function: String,
    /// The file, as displayed.
    pub file: Rc<str>,
    /// Number of the module, to find its source.
    pub module: u32,
    /// The statement or expression being executed.
    pub span: Span,
}

/// Names with values, in order of declaration.
pub type Variables = Vec<(String, Value)>;

impl<'a> Scene<'a> {
    pub(crate) fn new(fiber: &'a Fiber) -> Scene<'a> {
        Scene { fiber }
    }

    /// Returns the virtual machine.
    pub fn vm(&self) -> &Rc<crate::Vm> {
        self.fiber.cx.vm()
    }

    pub(crate) fn cx(&self) -> &crate::Cx {
        &self.fiber.cx
    }

    /// Returns whether the innermost call is at its first statement.
    pub fn begins(&self) -> bool {
        let Some((_, frame)) = self.frames().next() else { return false };
        let (proto, at) = position(frame);
        proto.shown.as_ref().and_then(|shown| shown.statements.first()) == Some(&(at as u32))
    }

    /// Returns the name of the innermost function.
    pub fn function(&self) -> Option<&'a str> {
        let (_, frame) = self.frames().next()?;
        Some(&position(frame).0.name)
    }

    /// Returns the task's path from the root.
    pub fn task(&self) -> String {
        self.fiber.cx.task().path()
    }

    /// Returns module and span of the innermost call.
    pub fn place(&self) -> Option<(u32, Span)> {
        let (_, frame) = self.frames().next()?;
        let (proto, at) = position(frame);
        Some((proto.module, proto.span_at(at)))
    }

    /// Returns the number of calls of the program in progress.
    pub fn depth(&self) -> usize {
        self.frames().count()
    }

    /// Returns the calls in progress, innermost first.
    pub fn levels(&self) -> Vec<Level> {
        let level = |(_, frame): (&Coroutine, &Frame)| {
            let (proto, at) = position(frame);
            let (function, file) = (proto.name.clone(), proto.file.clone());
            Level { function, file, module: proto.module, span: proto.span_at(at) }
        };
        self.frames().map(level).collect()
    }

    /// Returns the variables of a call, by its number from the innermost.
    pub fn locals(&self, level: usize) -> Variables {
        let Some((co, frame)) = self.frames().nth(level) else { return Vec::new() };
        let (proto, at) = position(frame);
        let mut found: Variables = Vec::new();
        let locals = proto.shown.iter().flat_map(|shown| &shown.locals);
        for local in locals.filter(|local| (local.from as usize..local.to as usize).contains(&at)) {
            // A variable shadows earlier ones of the same name.
            found.retain(|(name, _)| *name != local.name);
            let value = co.stack.get(frame.base as usize + usize::from(local.register));
            found.extend(value.and_then(content).map(|value| (local.name.clone(), value)));
        }
        found
    }

    /// Returns the variables that the function of a call captured.
    pub fn captured(&self, level: usize) -> Variables {
        let Some((_, frame)) = self.frames().nth(level) else { return Vec::new() };
        let (proto, _) = position(frame);
        // A function without captures has none to list, and its frame may have no closure.
        if proto.captures.is_empty() {
            return Vec::new();
        }
        let names = proto.shown.iter().flat_map(|shown| &shown.captured);
        // SAFETY: the interpreter reaches captured variables through the same pointer.
        let Some(closure) = (unsafe { frame.closure.as_ref() }) else { return Vec::new() };
        let pairs = names.zip(&closure.upvalues).filter(|(name, _)| !name.is_empty());
        pairs.filter_map(|(name, value)| Some((name.clone(), content(value)?))).collect()
    }

    /// Returns the variables of the module that the function of a call belongs to.
    pub fn globals(&self, level: usize) -> Variables {
        let Some((_, frame)) = self.frames().nth(level) else { return Vec::new() };
        let module = position(frame).0.module as usize;
        let own = self.fiber.cx.task().globals.clone();
        let globals = if module == 0 { own } else { self.vm().module_globals(module) };
        // SAFETY: nothing runs, so no reference into the variables exists and none are created.
        let values = unsafe { &*globals.get() };
        let named = values.iter().enumerate().filter_map(|(at, value)| {
            let name = self.vm().global_name(module, at);
            Some((name, content(value)?))
        });
        named.filter(|(name, _)| !name.is_empty()).collect()
    }

    /// Returns whether a handler of this task would catch an error that is thrown now.
    pub fn is_caught(&self, error: &Error) -> bool {
        let catches = |(_, frame): (&Coroutine, &Frame)| {
            let (proto, at) = position(frame);
            let around = |start: u32, end: u32| (start as usize..end as usize).contains(&at);
            let mut handlers = proto.handlers.iter();
            handlers.any(|h| h.kind != HandlerKind::Finally && around(h.start, h.end))
        };
        error.is_catchable() && self.frames().any(catches)
    }

    /// Iterates over the frames of functions of the program, innermost first.
    fn frames(&self) -> impl Iterator<Item = (&'a Coroutine, &'a Frame)> + use<'a> {
        let stacks = std::iter::once(&self.fiber.co).chain(self.fiber.outer.iter().rev());
        stacks.flat_map(|co| {
            let frames = co.frames.iter().rev().filter(|frame| frame.flags & NATIVE == 0);
            frames.map(move |frame| (&**co, frame))
        })
    }
}

/// Returns the function of a frame and its last executed instruction.
pub(crate) fn position(frame: &Frame) -> (&Proto, usize) {
    // SAFETY: functions live as long as the VM; a frame's pc is inside its function, or directly after its last
    // instruction.
    unsafe {
        let proto = &*frame.proto;
        (proto, frame.pc.offset_from(proto.code.as_ptr()).max(1) as usize - 1)
    }
}

/// Returns the value of a variable; `None` while it is unset.
fn content(place: &Value) -> Option<Value> {
    let value = Variable::of(place).map_or_else(|| place.clone(), Variable::get);
    (!value.is_absent()).then_some(value)
}

impl Fiber {
    /// Shows the next statement to the observer, if the interpreter has just left its loop before one.
    #[cold]
    pub(crate) fn show_statement(&mut self) {
        let Some(observer) = self.cx.vm().observer.clone() else { return };
        let Some(frame) = self.co.frames.last().filter(|frame| frame.flags & NATIVE == 0) else { return };
        let (proto, at) = position(frame);
        let is_place = |shown: &crate::bytecode::Shown| shown.statements.binary_search(&(at as u32)).is_ok();
        let begun = frame.pc > proto.code.as_ptr();
        if begun && proto.shown.as_deref().is_some_and(is_place) {
            observer.statement(&Scene::new(self));
        }
    }

    /// Shows an error to the observer, where it is thrown and in each call that it propagates to.
    pub(crate) fn show_error(&mut self, error: &Error) {
        if let Some(observer) = self.cx.vm().observer.clone() {
            observer.thrown(&Scene::new(self), error);
        }
    }
}
