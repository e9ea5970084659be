//! Observers: whoever looks at a program while it runs, statement by statement. Coverage and the debugger are two.
//!
//! A program is compiled with a place in front of every statement only when there is an observer. The place is the
//! instruction with which the interpreter looks after dropped generators anyway (`Op::Settle`); the fiber then shows the
//! observer a [`Scene`]. So a program without an observer has neither more instructions nor more to ask.

use std::rc::Rc;

use harn_syntax::Span;
use harn_value::Value;

use crate::bytecode::{HandlerKind, Proto};
use crate::closure::Variable;
use crate::coroutine::{Coroutine, Frame, NATIVE};
use crate::error::Error;
use crate::fiber::Fiber;

/// Looks at a program while it runs. The program stands still until a method returns.
pub trait Observer {
    /// A statement is about to run.
    fn statement(&self, scene: &Scene<'_>);

    /// Whether functions that return the result of a call are to be seen while it runs. They need room then: a program
    /// that calls itself so without end comes to its limit.
    fn keeps_calls(&self) -> bool {
        false
    }

    /// An error was thrown, or has come to a function that called another one.
    fn thrown(&self, _scene: &Scene<'_>, _error: &Error) {}
}

/// A task that stands still, with its calls and variables.
pub struct Scene<'a> {
    fiber: &'a Fiber,
}

/// A call in progress.
#[derive(Debug, Clone)]
pub struct Level {
    /// Name of the function, `<closure>` or `pipeline`.
    pub function: String,
    /// The file, as it is shown.
    pub file: Rc<str>,
    /// Number of the module, for its source text.
    pub module: u32,
    /// The statement or expression that it is at.
    pub span: Span,
}

/// Names with values, in order of declaration.
pub type Variables = Vec<(String, Value)>;

impl<'a> Scene<'a> {
    pub(crate) fn new(fiber: &'a Fiber) -> Scene<'a> {
        Scene { fiber }
    }

    /// The machine.
    pub fn vm(&self) -> &Rc<crate::Vm> {
        self.fiber.cx.vm()
    }

    pub(crate) fn cx(&self) -> &crate::Cx {
        &self.fiber.cx
    }

    /// Whether the innermost call is at its first statement.
    pub fn begins(&self) -> bool {
        let Some((_, frame)) = self.frames().next() else { return false };
        let (proto, at) = position(frame);
        proto.shown.as_ref().and_then(|shown| shown.statements.first()) == Some(&(at as u32))
    }

    /// The name of the innermost function.
    pub fn function(&self) -> Option<&'a str> {
        let (_, frame) = self.frames().next()?;
        Some(&position(frame).0.name)
    }

    /// The task: its path from the root.
    pub fn task(&self) -> String {
        self.fiber.cx.task().path()
    }

    /// Module and place of the innermost call.
    pub fn place(&self) -> Option<(u32, Span)> {
        let (_, frame) = self.frames().next()?;
        let (proto, at) = position(frame);
        Some((proto.module, proto.span_at(at)))
    }

    /// How many calls of the program are in progress.
    pub fn depth(&self) -> usize {
        self.frames().count()
    }

    /// The calls in progress, the innermost first.
    pub fn levels(&self) -> Vec<Level> {
        let level = |(_, frame): (&Coroutine, &Frame)| {
            let (proto, at) = position(frame);
            let (function, file) = (proto.name.clone(), proto.file.clone());
            Level { function, file, module: proto.module, span: proto.span_at(at) }
        };
        self.frames().map(level).collect()
    }

    /// The variables of a call, by its number from the innermost.
    pub fn locals(&self, level: usize) -> Variables {
        let Some((co, frame)) = self.frames().nth(level) else { return Vec::new() };
        let (proto, at) = position(frame);
        let mut found: Variables = Vec::new();
        let locals = proto.shown.iter().flat_map(|shown| &shown.locals);
        for local in locals.filter(|local| (local.from as usize..local.to as usize).contains(&at)) {
            // A variable hides those of the same name that were declared before.
            found.retain(|(name, _)| *name != local.name);
            let value = co.stack.get(frame.base as usize + usize::from(local.register));
            found.extend(value.and_then(content).map(|value| (local.name.clone(), value)));
        }
        found
    }

    /// The variables that the function of a call captured.
    pub fn captured(&self, level: usize) -> Variables {
        let Some((_, frame)) = self.frames().nth(level) else { return Vec::new() };
        let (proto, _) = position(frame);
        // A function without captured variables has none to look for, and its frame need not know a closure.
        if proto.captures.is_empty() {
            return Vec::new();
        }
        let names = proto.shown.iter().flat_map(|shown| &shown.captured);
        // SAFETY: the interpreter reaches captured variables through the same pointer.
        let Some(closure) = (unsafe { frame.closure.as_ref() }) else { return Vec::new() };
        let pairs = names.zip(&closure.upvalues).filter(|(name, _)| !name.is_empty());
        pairs.filter_map(|(name, value)| Some((name.clone(), content(value)?))).collect()
    }

    /// The variables of the module that the function of a call belongs to.
    pub fn globals(&self, level: usize) -> Variables {
        let Some((_, frame)) = self.frames().nth(level) else { return Vec::new() };
        let module = position(frame).0.module as usize;
        let own = self.fiber.cx.task().globals.clone();
        let globals = if module == 0 { own } else { self.vm().module_globals(module) };
        // SAFETY: nothing runs, so nobody holds a reference into the variables or makes new ones.
        let values = unsafe { &*globals.get() };
        let named = values.iter().enumerate().filter_map(|(at, value)| {
            let name = self.vm().global_name(module, at);
            Some((name, content(value)?))
        });
        named.filter(|(name, _)| !name.is_empty()).collect()
    }

    /// Whether a handler of this task waits for an error that is thrown now.
    pub fn is_caught(&self, error: &Error) -> bool {
        let catches = |(_, frame): (&Coroutine, &Frame)| {
            let (proto, at) = position(frame);
            let around = |start: u32, end: u32| (start as usize..end as usize).contains(&at);
            let mut handlers = proto.handlers.iter();
            handlers.any(|h| h.kind != HandlerKind::Finally && around(h.start, h.end))
        };
        error.is_catchable() && self.frames().any(catches)
    }

    /// The frames of functions of the program, the innermost first.
    fn frames(&self) -> impl Iterator<Item = (&'a Coroutine, &'a Frame)> + use<'a> {
        let stacks = std::iter::once(&self.fiber.co).chain(self.fiber.outer.iter().rev());
        stacks.flat_map(|co| {
            let frames = co.frames.iter().rev().filter(|frame| frame.flags & NATIVE == 0);
            frames.map(move |frame| (&**co, frame))
        })
    }
}

/// Function and last instruction of a frame of the program.
pub(crate) fn position(frame: &Frame) -> (&Proto, usize) {
    // SAFETY: the VM keeps functions alive; a frame's pc lies in its function, or behind its last instruction.
    unsafe {
        let proto = &*frame.proto;
        (proto, frame.pc.offset_from(proto.code.as_ptr()).max(1) as usize - 1)
    }
}

/// The value of a variable; nothing while it has none.
fn content(place: &Value) -> Option<Value> {
    let value = Variable::of(place).map_or_else(|| place.clone(), Variable::get);
    (!value.is_absent()).then_some(value)
}

impl Fiber {
    /// Shows the observer the statement that comes next, when the interpreter has just left its loop in front of one.
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

    /// Shows the observer an error, where it is thrown and in each call that it comes to.
    pub(crate) fn show_error(&mut self, error: &Error) {
        if let Some(observer) = self.cx.vm().observer.clone() {
            observer.thrown(&Scene::new(self), error);
        }
    }
}
