//! A stack with its call frames, on which a fiber runs: one for the program and one for each generator.

use std::rc::Rc;

use harn_value::Value;

use crate::access::{Access, Limit};
use crate::builtin::NativeFuture;
use crate::bytecode::{HandlerKind, Ins, Proto};
use crate::call_loop::CallLoop;
use crate::cleanup::Queue;
use crate::closure::Closure;
use crate::error::{Error, Result};
use crate::held::Held;

/// Registers allowed per coroutine (64 MiB).
const MAX_REGISTERS: usize = 4 << 20;

/// The frame is the first of its coroutine.
pub(crate) const ENTRY: u32 = 1;
/// The result goes to the native function below.
pub(crate) const TO_NATIVE: u32 = 2;
/// The frame is a native function's.
pub(crate) const NATIVE: u32 = 4;
/// With [`TO_NATIVE`]: the native function below is a [`CallLoop`].
pub(crate) const LOOP: u32 = 8;

/// A call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The function; null for a native function.
    pub(crate) proto: *const Proto,
    /// The closure, if it has captured variables; otherwise null.
    pub(crate) closure: *const Closure,
    /// Where execution resumes when a callee returns.
    pub(crate) pc: *const Ins,
    /// Its first register; the result goes to the register before it.
    pub(crate) base: u32,
    pub(crate) flags: u32,
}

/// A native function in progress.
pub(crate) enum Native {
    /// An async function, which may wait.
    Future(NativeFuture),
    /// A function that only calls other functions.
    Loop(CallLoop),
}

/// Destination of the values of a generator.
pub(crate) enum Delivery {
    /// The native function that resumed it.
    Native,
    /// A register of the coroutine below.
    Register(usize),
    /// None: it only runs cleanup blocks.
    Nowhere(Interlude),
}

/// State to restore when a stack that runs cleanup blocks has ended.
pub(crate) struct Interlude {
    /// A reply that the native function below has not taken yet.
    pub(crate) reply: Option<Result<Value>>,
    /// Stacks of other generators waiting for cleanup, to be run next.
    pub(crate) next: Queue,
    /// The limit in effect for the cleanup, if any.
    pub(crate) limit: Option<Limit>,
}

/// A stack with its call frames.
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) natives: Vec<Native>,
    pub(crate) delivery: Delivery,
    /// The generator that runs on this stack.
    pub(crate) owner: Value,
    /// The limits of the task that created the generator. Its cleanup runs in whatever code drops the last reference,
    /// so it may do only what both sets of limits allow.
    pub(crate) access: Option<Rc<Access>>,
}

impl Coroutine {
    pub(crate) fn new(registers: usize) -> Coroutine {
        Coroutine {
            stack: vec![Value::NIL; registers],
            frames: Vec::new(),
            natives: Vec::new(),
            delivery: Delivery::Native,
            owner: Value::NIL,
            access: None,
        }
    }

    /// Creates a stack on which `callee` is about to run with `args`.
    pub(crate) fn for_call(proto: &Proto, callee: Value, args: impl Iterator<Item = Value>) -> Coroutine {
        let mut co = Coroutine::new(proto.registers as usize + 2);
        let closure = Closure::of(&callee).map_or(std::ptr::null(), |c| &raw const *c);
        co.stack[0] = callee;
        let mut count = 0;
        for arg in args {
            count += 1;
            if count < co.stack.len() {
                co.stack[count] = arg;
            } else {
                co.stack.push(arg);
            }
        }
        if co.stack.len() < count + 2 + proto.registers as usize {
            co.stack.resize(count + 2 + proto.registers as usize, Value::NIL);
        }
        // SAFETY: the stack has `proto.registers` registers after the callee.
        unsafe { bind_args(proto, co.stack.as_mut_ptr().add(1), count) };
        co.frames.push(Frame { proto, closure, pc: proto.code.as_ptr(), base: 1, flags: ENTRY });
        co
    }

    /// Creates a stack whose first call is a native function's.
    pub(crate) fn for_native(future: NativeFuture, registers: usize) -> Coroutine {
        let mut co = Coroutine::new(registers + 8);
        // An entry frame without registers that only receives the result.
        co.frames.push(Frame {
            proto: std::ptr::null(),
            closure: std::ptr::null(),
            pc: std::ptr::null(),
            base: 1,
            flags: NATIVE | ENTRY,
        });
        co.natives.push(Native::Future(future));
        co
    }

    /// Visits the values on the stack, except those held by its native functions.
    pub(crate) fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.stack.iter().for_each(&mut *visit);
        visit(&self.owner);
    }

    /// Returns whether unwinding it now would run a `finally` or `defer` block.
    pub(crate) fn has_cleanup(&self) -> bool {
        self.frames.iter().filter(|f| f.flags & NATIVE == 0).any(|frame| {
            // SAFETY: functions live as long as the VM; the frame's code pointer is inside its function.
            let (proto, pc) =
                unsafe { (&*frame.proto, frame.pc.offset_from((*frame.proto).code.as_ptr()) as u32) };
            pc > 0
                && proto
                    .handlers
                    .iter()
                    .any(|h| h.kind == HandlerKind::Finally && h.start < pc && pc <= h.end)
        })
    }

    /// Returns the start of the cleanup block that runs in a call because of an error, and the stack position of that
    /// error, which is rethrown afterwards.
    pub(crate) fn cleaning(&self, frame: &Frame) -> Option<(usize, usize)> {
        if frame.flags & NATIVE != 0 {
            return None;
        }
        // SAFETY: as in `has_cleanup`.
        let (proto, pc) =
            unsafe { (&*frame.proto, frame.pc.offset_from((*frame.proto).code.as_ptr()) as u32) };
        let begun = proto.handlers.iter().filter(|h| h.kind == HandlerKind::Finally && h.target < pc);
        let places = begun.map(|h| (h.target as usize, frame.base as usize + usize::from(h.register)));
        // A nested cleanup block starts after the outer one.
        places.filter(|(_, place)| self.stack.get(*place).is_some_and(Held::holds)).max()
    }

    /// Grows the stack to `top` registers.
    ///
    /// # Errors
    /// Stack overflow.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self, top: usize) -> Result<()> {
        if top > MAX_REGISTERS {
            return Err(stack_overflow());
        }
        let size = (top + 16).max(self.stack.len() * 2);
        self.stack.resize(size, Value::NIL);
        Ok(())
    }
}

#[cold]
pub(crate) fn stack_overflow() -> Error {
    Error::plain("Stack overflow: too many nested calls")
}

/// Converts `count` arguments at `args` to the registers of the parameters.
///
/// # Safety
/// `args` has room for the function's registers and for `count` values.
#[inline(never)]
pub(crate) unsafe fn bind_args(proto: &Proto, args: *mut Value, count: usize) {
    let params = proto.params as usize;
    // SAFETY: by contract.
    unsafe {
        if proto.rest {
            let rest: Vec<Value> = (params..count).map(|i| (*args.add(i)).take()).collect();
            for i in count..params {
                (*args.add(i)).put(if i < proto.required as usize { Value::NIL } else { Value::ABSENT });
            }
            (*args.add(params)).put(Value::list(rest));
            return;
        }
        for i in count..params {
            (*args.add(i)).put(if i < proto.required as usize { Value::NIL } else { Value::ABSENT });
        }
        for i in params..count {
            (*args.add(i)).put(Value::NIL);
        }
    }
}
