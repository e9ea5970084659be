//! Detection of functions that assign variables declared outside of them. A separate task would assign copies of those
//! variables.

use std::rc::Rc;

use harn_value::Value;
use rustc_hash::FxHashSet;

use crate::bytecode::{Capture, Op, Proto};
use crate::closure::{Closure, Variable};
use crate::cx::Cx;

impl Cx {
    /// Returns whether a call of a function may assign a variable that exists independently of the call: a captured
    /// one, or one of the entry file. The code of functions that it names and of functions in its variables, including
    /// those in lists and dicts there, is treated as its own; arguments are not.
    pub fn assigns_outside(&self, function: &Value) -> bool {
        let mut walk =
            Walk { cx: self, seen: FxHashSet::default(), code: FxHashSet::default(), todo: Vec::new() };
        walk.todo.push(function.clone());
        walk.finds()
    }
}

/// Traverses the values that a function can reach, and the code of each function once.
struct Walk<'a> {
    cx: &'a Cx,
    /// Addresses of the visited objects; `todo` or their owners hold them.
    seen: FxHashSet<usize>,
    code: FxHashSet<*const Proto>,
    todo: Vec<Value>,
}

impl Walk<'_> {
    fn finds(&mut self) -> bool {
        while let Some(value) = self.todo.pop() {
            if let Some(variable) = Variable::of(&value) {
                self.todo.push(variable.get());
                continue;
            }
            let Some((address, _)) = value.holder() else { continue };
            if !self.seen.insert(address) {
                continue;
            }
            if let Some(closure) = Closure::of(&value) {
                if self.code.insert(Rc::as_ptr(&closure.proto)) && self.code(&closure.proto, closure, &Some) {
                    return true;
                }
                self.todo.extend(closure.upvalues.iter().cloned());
            } else {
                value.children(&mut |part| {
                    if part.holder().is_some() {
                        self.todo.push(part.clone());
                    }
                });
            }
        }
        false
    }

    /// Scans the code of a closure, or of a function nested in it. `outer` maps a captured variable of that code to the
    /// number in the closure; `None` for variables of the call itself.
    fn code(&mut self, proto: &Proto, closure: &Closure, outer: &dyn Fn(usize) -> Option<usize>) -> bool {
        for ins in proto.code.iter() {
            let found = match ins.op() {
                Op::SetUpCell | Op::AddUpCell => outer(ins.a()).is_some(),
                // The variable itself, not its value: something inside it will be assigned.
                Op::GetUp => outer(ins.b())
                    .and_then(|number| closure.upvalues.get(number))
                    .is_some_and(|value| Variable::of(value).is_some()),
                Op::SetGlobal | Op::SetGlobalVar => ins.b() == ENTRY,
                Op::GetGlobal | Op::GetGlobalVar if ins.b() == ENTRY => {
                    let global = self.global(ins.c());
                    let assigns = ins.op() == Op::GetGlobal && Variable::of(&global).is_some();
                    self.todo.push(global);
                    assigns
                }
                Op::GetFunction | Op::CallFunction => {
                    let function = self.cx.vm().function(u32::try_from(ins.c()).unwrap_or(u32::MAX));
                    self.todo.push(function);
                    false
                }
                _ => false,
            };
            if found {
                return true;
            }
        }
        proto.protos.iter().any(|inner| {
            let outer = |number: usize| match inner.captures.get(number)? {
                Capture::Local(_) => None,
                Capture::Up(number) => outer(usize::from(*number)),
            };
            self.code(inner, closure, &outer)
        })
    }

    /// Returns a variable of the entry file, as this task sees it.
    fn global(&self, number: usize) -> Value {
        // SAFETY: single-threaded, and no code of the program runs while the value is copied.
        unsafe { &*self.cx.task().globals.get() }.get(number).cloned().unwrap_or(Value::NIL)
    }
}

/// Module number of the entry file, whose variables are copied for tasks.
const ENTRY: usize = 0;
