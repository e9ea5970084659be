//! Native functions that call one function repeatedly: `map`, `sort_by`, `group_by`.
//!
//! They are state machines that the interpreter advances when the called function returns, without leaving its
//! dispatch loop, so a call costs about as much as a call between functions of the program. A function that has to
//! wait between two calls for other reasons is an async builtin instead.

use std::ops::ControlFlow;
use std::rc::Rc;

use harn_value::{List, Ref, Value};

use crate::bytecode::Proto;
use crate::closure::Closure;
use crate::coroutine::{Frame, LOOP, Native, TO_NATIVE, bind_args, stack_overflow};
use crate::error::{Error, Result};
use crate::fiber::{Fiber, MAX_FRAMES};
use crate::iter::Iter;

/// Maximum number of arguments that a loop may pass to its function.
pub const MAX_ARGS: usize = 2;

/// The arguments of the next call.
pub type Slots = [Value; MAX_ARGS];

/// The next action of a loop.
pub enum Turn {
    /// Call the function with this many of the argument slots.
    Call(usize),
    /// Call another function with this many of the argument slots.
    CallOther(Value, usize),
    /// Get the next value of a generator; the reply is [`Value::ABSENT`] at its end.
    Resume(Value),
    /// Wait for the source of an iterator; the reply is [`Value::ABSENT`] at its end.
    Wait(Iter),
    /// Let the fiber check deadlines, interruption and other tasks; there is no reply.
    Pause,
    /// Finish with this result.
    Done(Value),
}

/// The state of a native function between two calls.
pub trait Steps {
    /// Takes the result of the last action (`None` at first) and fills the slots for the next call.
    ///
    /// # Errors
    /// The error that the native function ends with.
    fn next(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Turn>;

    /// Called when the last action threw; the native function ends with that error.
    fn failed(&mut self) {}
}

/// A native function in progress that calls one function repeatedly.
pub struct CallLoop {
    callee: Value,
    steps: Box<dyn Steps>,
}

impl CallLoop {
    /// Creates a loop that calls `callee` as `steps` directs.
    pub fn new(callee: Value, steps: impl Steps + 'static) -> CallLoop {
        CallLoop { callee, steps: Box::new(steps) }
    }

    /// Calls `callee` with every item. `step` receives the item and the result of the call, and may end the loop
    /// with a result. `end` makes the result after the last item.
    pub fn over<S: 'static>(
        callee: Value,
        items: Ref<List>,
        state: S,
        step: impl FnMut(&mut S, &Value, Value) -> ControlFlow<Value> + 'static,
        end: impl FnOnce(S) -> Value + 'static,
    ) -> CallLoop {
        CallLoop::new(callee, PerItem { items, at: 0, step, rest: Some((state, end)) })
    }

    /// Returns a loop that already has its result.
    pub fn done(value: Value) -> CallLoop {
        struct Done(Option<Value>);
        impl Steps for Done {
            fn next(&mut self, _: Option<Value>, _: &mut Slots) -> Result<Turn> {
                Ok(Turn::Done(self.0.take().unwrap_or_default()))
            }
        }
        CallLoop::new(Value::NIL, Done(Some(value)))
    }
}

struct PerItem<S, Step, End> {
    items: Ref<List>,
    /// Position after the item that was passed last.
    at: usize,
    step: Step,
    /// Taken at the end.
    rest: Option<(S, End)>,
}

impl<S, Step, End> Steps for PerItem<S, Step, End>
where
    Step: FnMut(&mut S, &Value, Value) -> ControlFlow<Value>,
    End: FnOnce(S) -> Value,
{
    fn next(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Turn> {
        if let (Some(reply), Some((state, _))) = (reply, &mut self.rest)
            && let Some(item) = self.at.checked_sub(1).and_then(|at| self.items.get(at))
            && let ControlFlow::Break(result) = (self.step)(state, item, reply)
        {
            return Ok(Turn::Done(result));
        }
        match self.items.get(self.at) {
            Some(item) => {
                slots[0].put(item.clone());
                self.at += 1;
                Ok(Turn::Call(1))
            }
            None => Ok(Turn::Done(self.rest.take().map(|(state, end)| end(state)).unwrap_or_default())),
        }
    }
}

/// Outcome of advancing a loop.
pub(crate) enum Advance {
    /// A frame of the program is on top.
    Frame,
    /// A native function was called or resumed.
    Native,
    /// The loop has finished; its frame is still on the stack.
    Done(Value),
}

impl Fiber {
    /// Advances the topmost loop with the result of its last call.
    ///
    /// # Errors
    /// The error of the loop or of the call; the loop's frame is still on the stack.
    pub(crate) fn advance_loop(&mut self, reply: Option<Value>) -> Result<Advance> {
        let Some(frame) = self.co.frames.last() else {
            return Err(Error::runtime("internal error: no loop to advance"));
        };
        // The register before the callee's receives its result, which nothing reads.
        let base = frame.base as usize + 1;
        if base + MAX_ARGS > self.co.stack.len() {
            self.co.grow(base + MAX_ARGS)?;
        }
        // The arguments are stored where the callee expects them.
        let Some(slots) = self.co.stack.get_mut(base..).and_then(<[Value]>::first_chunk_mut::<MAX_ARGS>)
        else {
            return Err(stack_overflow());
        };
        let Some(Native::Loop(this)) = self.co.natives.last_mut() else {
            return Err(Error::runtime("internal error: no loop to advance"));
        };
        let (callee, count) = match this.steps.next(reply, slots)? {
            Turn::Call(count) => (None, count),
            Turn::CallOther(callee, count) => (Some(callee), count),
            Turn::Done(value) => return Ok(Advance::Done(value)),
            Turn::Pause => {
                // The next step of the fiber ends the time slice.
                self.fuel = 1;
                return Ok(Advance::Native);
            }
            Turn::Resume(generator) => {
                self.resume_for_native(&generator);
                return Ok(Advance::Native);
            }
            Turn::Wait(iter) => {
                let future = iter.wait_owned(self.cx.clone());
                self.push_waiting(future);
                return Ok(Advance::Native);
            }
        };
        let function = callee.as_ref().unwrap_or(&this.callee);
        let enters = |c: &&Closure| c.hot.vm == self.vm && (c.hot.plain || !c.proto.generator);
        let Some(closure) = Closure::of(function).filter(enters) else {
            let args = slots.iter_mut().take(count).map(Value::take).collect();
            let function = function.clone();
            self.call_from_native(function, args);
            return Ok(Advance::Native);
        };
        if self.co.frames.len() >= MAX_FRAMES {
            return Err(stack_overflow());
        }
        let hot = closure.hot;
        let proto: *const Proto = Rc::as_ptr(&closure.proto);
        let closure: *const Closure = closure;
        let top = base + (hot.registers as usize).max(MAX_ARGS) + 1;
        if top > self.co.stack.len() {
            self.co.grow(top)?;
        }
        if let Some(callee) = callee {
            // The loop holds its own function; another callee is stored in the register before its frame.
            self.co.stack[base - 1].put(callee);
        }
        if !hot.plain || count != hot.params as usize {
            // SAFETY: functions live as long as the VM; the stack has room for the registers and the arguments.
            unsafe { bind_args(&*proto, self.co.stack.as_mut_ptr().add(base), count) };
        }
        self.co.frames.push(Frame {
            proto,
            closure,
            pc: hot.code,
            base: base as u32,
            flags: TO_NATIVE | LOOP,
        });
        Ok(Advance::Frame)
    }

    /// Notifies the topmost loop that its last action threw.
    pub(crate) fn fail_loop(&mut self) {
        if let Some(Native::Loop(this)) = self.co.natives.last_mut() {
            this.steps.failed();
        }
    }
}
