//! Fibers: the futures that drive the interpreter.
//!
//! Polling a fiber runs instructions until the program ends, a native function has to wait, or a time slice is used up.
//! Functions of the program never recurse on the Rust stack: calls push frames, native functions that call back are
//! futures that the fiber polls in place, and generators are coroutines that it switches to.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use harn_system::Waiting;
use harn_value::{Foreign, Tag, Value, memory, short, steps};

use crate::access::Limit;
use crate::builtin::{Builtin, NativeFuture, Run};
use crate::bytecode::{HandlerKind, Op, Proto};
use crate::call_loop::Advance;
use crate::cleanup::Cleanups;
use crate::closure::{Closure, Constructor, Partial};
use crate::coroutine::{
    Coroutine, Delivery, ENTRY, Frame, Interlude, NATIVE, Native, TO_NATIVE, bind_args, stack_overflow,
};
use crate::cx::{Cx, Request};
use crate::error::{Error, ErrorKind, Result, SHOWN};
use crate::failures::Failures;
use crate::generator::Generator;
use crate::held::Held;
use crate::interp::Event;
use crate::iter::Iter;
use crate::native;
use crate::task::Task;
use crate::vm::Vm;
use crate::vm_id::of_another_vm;

/// Number of slices after which a program without other tasks yields to the host's futures: some hundred microseconds.
const HOST_TURN: u32 = 4;

/// Maximum number of nested calls per coroutine.
pub(crate) const MAX_FRAMES: usize = 200_000;

/// Number of steps (calls and backward jumps) between checks for cancellation, deadlines and other tasks.
pub(crate) const SLICE: u32 = 8192;

/// Number of slices that cleanup blocks of an interrupted program may use; then it ends without running the remaining
/// ones (recursive cleanup would never end).
const MAX_INTERRUPTIONS: u32 = 64;

/// Maximum number of coroutines that may wait for each other.
const MAX_COROUTINES: usize = 10_000;

/// A running program or task.
pub(crate) struct Fiber {
    pub(crate) co: Box<Coroutine>,
    /// Coroutines that wait for the current one, outermost first.
    #[allow(clippy::vec_box, reason = "coroutines are switched by swapping boxes")]
    pub(crate) outer: Vec<Box<Coroutine>>,
    pub(crate) fuel: u32,
    /// Slices since the host's futures last ran.
    slices: u32,
    /// Number of the VM; every function that the fiber calls must have it.
    pub(crate) vm: u32,
    /// Dropped generators of the VM whose cleanup is pending.
    pub(crate) cleanups: Rc<Cleanups>,
    /// Remaining steps of a slice that was cut short to collect cycles.
    cut_short: Option<u32>,
    /// Module variables, by module. Invariant: the tables are as long as those of the VM.
    pub(crate) globals: Vec<*mut Vec<Value>>,
    /// The VM's functions. Invariant: this and `globals` belong to `version`, which equals the VM's version while the
    /// fiber is polled: nothing is compiled then, and a poll starts with a check of the version.
    pub(crate) functions: *const Value,
    /// Version of the VM's tables that the pointers above belong to.
    version: u64,
    /// Buffer for string interpolation.
    pub(crate) text: String,
    /// Number of interruptions while cleanup blocks ran.
    interruptions: u32,
    /// Timer for the earliest deadline.
    timer: Option<(Duration, Waiting<'static, ()>)>,
    /// The call that starts the fiber.
    start: Option<(Value, Vec<Value>)>,
    /// Whether this fiber is polled by a native function of another fiber.
    nested: bool,
    /// Whether another fiber polls this one concurrently with others: it yields to them after a long run.
    beside_others: bool,
    /// An error to be thrown into the topmost code.
    thrown: Option<Error>,
    /// Its result, while cleanup still runs.
    ended: Option<Result<Value>>,
    /// Holds the VM. Last field, so that functions stay alive while the stacks above are dropped.
    pub(crate) cx: Cx,
}

/// Outcome of a step of the fiber.
enum Step {
    Continue,
    Wait,
    Yielded,
    Done(Result<Value>),
}

impl Fiber {
    /// Creates a fiber that calls `callee`.
    pub(crate) fn new(vm: &Rc<Vm>, task: &Rc<Task>, callee: Value, args: Vec<Value>) -> Fiber {
        Fiber {
            cx: Cx::new(vm.clone(), task.clone()),
            co: Box::new(Coroutine::new(0)),
            outer: Vec::new(),
            fuel: SLICE,
            slices: 0,
            vm: vm.id.number(),
            cleanups: vm.cleanups.clone(),
            cut_short: None,
            globals: Vec::new(),
            functions: std::ptr::null(),
            version: u64::MAX,
            text: String::new(),
            interruptions: 0,
            timer: None,
            start: Some((callee, args)),
            nested: false,
            beside_others: false,
            thrown: None,
            ended: None,
        }
    }

    /// Creates a fiber that pulls one item for the task of `cx`; its result is [`Value::ABSENT`] at the end.
    pub(crate) fn for_pull(cx: &Cx, iter: Iter) -> Fiber {
        let mut fiber = Fiber::new(cx.vm(), cx.task(), Value::NIL, Vec::new());
        fiber.start = None;
        fiber.beside_others = true;
        let cx = fiber.cx.clone();
        let pull = async move { Ok(iter.next(&cx).await?.unwrap_or(Value::ABSENT)) };
        *fiber.co = Coroutine::for_native(Box::pin(pull), 0);
        fiber.co.access = fiber.cx.access();
        fiber
    }

    /// Returns whether a fiber that pulls an item only waits for a source: no function of the program is in progress,
    /// and it may be dropped without loss.
    pub(crate) fn only_waits(&self) -> bool {
        let reply = self.cx.0.link.reply.take();
        let nothing = reply.is_none();
        self.cx.0.link.reply.set(reply);
        nothing && self.outer.is_empty() && self.co.frames.len() == 1 && self.thrown.is_none()
    }

    /// Returns whether the fiber that polls this one handles interruptions of the wait: it can cancel the wait without
    /// loss, while an error here would end the source.
    fn leaves_waiting(&self) -> bool {
        self.beside_others && self.only_waits()
    }

    /// Ends a waiting fiber. Returns the stack on which its cleanup blocks run, if there are any.
    pub(crate) fn give_up(mut self: Box<Fiber>) -> Option<Box<Coroutine>> {
        let has_cleanup = self.outer.iter().chain([&self.co]).any(|co| co.has_cleanup());
        if has_cleanup {
            self.thrown = Some(Error::new(ErrorKind::Abort));
            let access = self.outer.first().unwrap_or(&self.co).access.clone();
            let mut co = Coroutine::for_native(Box::into_pin(self), 0);
            co.access = access;
            return Some(Box::new(co));
        }
        for co in self.outer.iter().chain([&self.co]) {
            if let Some(generator) = co.owner.downcast::<Generator>() {
                generator.done.set(true);
            }
        }
        None
    }

    /// Creates a fiber that only runs the cleanup blocks of dropped generators.
    pub(crate) fn for_cleanup(vm: &Rc<Vm>, task: &Rc<Task>) -> Fiber {
        let mut fiber = Fiber::new(vm, task, Value::NIL, Vec::new());
        fiber.start = None;
        fiber.ended = Some(Ok(Value::NIL));
        fiber
    }

    /// Updates the pointers to the functions and to the variables of all modules; variables of the entry file are the
    /// task's own.
    #[cold]
    fn refresh_tables(&mut self) {
        let vm = self.cx.vm().clone();
        self.version = vm.version.get();
        self.functions = vm.functions();
        if !vm.modules.borrow().is_empty() {
            crate::isolate::extend(&self.cx.task().globals, &vm.module_globals(0));
        }
        let modules = vm.modules.borrow();
        self.globals = modules.iter().map(|m| m.globals.get()).collect();
        if let Some(entry) = self.globals.first_mut() {
            *entry = self.cx.task().globals.get();
        }
    }

    fn begin(&mut self, callee: Value, args: Vec<Value>) {
        let (cx, count) = (self.cx.clone(), args.len());
        let call = async move { cx.call(&callee, args).await };
        *self.co = Coroutine::for_native(Box::pin(call), count);
    }

    /// Like [`Fiber::run_step`], but converts a stop or a failure of native code to an error at its call.
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        match native::catch(|| self.run_step(context)) {
            Ok(step) => step,
            Err(error) => self.stopped(error),
        }
    }

    #[cold]
    fn stopped(&mut self, error: Error) -> Step {
        let _calm = native::Calm::new();
        self.interruptions += u32::from(matches!(error.kind(), ErrorKind::Abort));
        let is_native = self.co.frames.last().map(|frame| frame.flags & NATIVE != 0);
        let step = match is_native {
            Some(true) => {
                self.pop_native();
                self.native_returned(Err(error))
            }
            Some(false) => self.unwind(error),
            None => Step::Done(Err(error)),
        };
        self.after_interruption(step)
    }

    /// Code that repeatedly catches its interruption must not prevent others from running.
    fn after_interruption(&self, step: Step) -> Step {
        match step {
            Step::Continue if self.others_run() => Step::Yielded,
            step => step,
        }
    }

    /// Returns whether other work could run while this fiber is suspended.
    fn others_run(&self) -> bool {
        self.beside_others || self.cx.vm().live_tasks.get() > 0
    }

    /// Advances by one run of the interpreter or one poll of a native function.
    fn run_step(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(error) = self.thrown.take() {
            return self.unwind(error);
        }
        if self.cleanups.pending() {
            if let Some(step) = self.begin_cleanup() {
                return step;
            }
            self.show_statement();
        }
        if self.co.frames.is_empty() {
            return Step::Done(self.ended.take().unwrap_or(Ok(Value::NIL)));
        }
        let is_native = self.co.frames.last().is_some_and(|f| f.flags & NATIVE != 0);
        if is_native {
            let step = self.poll_native(context);
            // Calls from native functions use steps too: their callees may have no loops and make no calls.
            if matches!(step, Step::Continue) {
                if steps::turn_is_due() {
                    self.end_slice();
                }
                self.fuel -= 1;
                if self.fuel == 0 {
                    return self.pause();
                }
            }
            return step;
        }
        match self.run() {
            Event::Native(future, base) => {
                self.push_native(Native::Future(future), base, 0);
                Step::Continue
            }
            Event::Continue | Event::Switched => Step::Continue,
            Event::Returned(result) => self.native_returned(result),
            Event::ToNative(value) => {
                self.cx.0.link.reply.set(Some(Ok(value)));
                Step::Continue
            }
            Event::Done(value) => self.end_coroutine(Ok(value)),
            Event::Throw(error) => self.unwind(error),
            // A value that cleanup yields has no consumer.
            Event::Yield(_) if matches!(self.co.delivery, Delivery::Nowhere(_)) => Step::Continue,
            Event::Yield(value) => {
                self.switch_back(Ok(value));
                Step::Continue
            }
            Event::Pause => self.pause(),
        }
    }

    pub(crate) fn push_native(&mut self, native: Native, base: u32, flags: u32) {
        self.co.natives.push(native);
        self.co.frames.push(Frame {
            proto: std::ptr::null(),
            closure: std::ptr::null(),
            pc: std::ptr::null(),
            base,
            flags: NATIVE | flags,
        });
    }

    /// Returns whether cleanup runs in a task that is to stop.
    fn cleans_up(&self) -> bool {
        let task = self.cx.task();
        let runs = |co: &Coroutine| co.frames.iter().any(|frame| co.cleaning(frame).is_some());
        task.is_stopping() && (task.cleans_up() || self.outer.iter().chain([&self.co]).any(|co| runs(co)))
    }

    fn poll_native(&mut self, context: &mut Context<'_>) -> Step {
        crate::scheduler::waits_for_more();
        let cleans_up = self.cleans_up();
        let future = match self.co.natives.last_mut() {
            Some(Native::Future(future)) => future,
            Some(Native::Loop(_)) => return self.step_loop(),
            None => return Step::Done(Err(Error::runtime("internal error: no native function to resume"))),
        };
        let around = self.cx.0.task.note_cleanup(cleans_up);
        let polled = future.as_mut().poll(context);
        self.cx.0.task.note_cleanup(around);
        match polled {
            Poll::Ready(result) => {
                self.cx.task().wait_over();
                self.pop_native();
                self.native_returned(
                    result.and_then(|value| memory::settle().map(|()| value).map_err(Error::from)),
                )
            }
            Poll::Pending => match self.cx.0.link.request.take() {
                Some(Request::Call(callee, args)) => {
                    self.call_from_native(callee, args);
                    Step::Continue
                }
                Some(Request::Resume(generator)) => self.resume(&generator, Delivery::Native),
                Some(Request::GiveWay) => {
                    self.cx.0.link.reply.set(Some(Ok(Value::NIL)));
                    // This step ends the slice.
                    self.fuel = 1;
                    Step::Continue
                }
                // Values collected during the wait may exceed the memory limit.
                None => match memory::settle()
                    .map_err(Error::from)
                    .err()
                    .or_else(|| {
                        if self.leaves_waiting() { None } else { self.cx.task().interruption(cleans_up) }
                    })
                    .or_else(|| self.deadlock())
                {
                    Some(error) => {
                        self.cx.task().wait_over();
                        self.pop_native();
                        self.native_returned(Err(error))
                    }
                    None => Step::Wait,
                },
            },
        }
    }

    /// Returns the deadlock error if all tasks wait for each other. Only the root task receives it.
    fn deadlock(&self) -> Option<Error> {
        if self.cx.task().parent().is_some() || !crate::scheduler::take_deadlock() {
            return None;
        }
        Some(Error::runtime(match self.cx.vm().live_tasks.get() {
            0 => "deadlock: no task is left that could end this wait".to_owned(),
            1 => "deadlock: this task and another one wait for each other".to_owned(),
            others => format!("deadlock: this task and {others} others wait for each other"),
        }))
    }

    /// Advances a loop whose function was called from outside the interpreter.
    fn step_loop(&mut self) -> Step {
        let advance = match self.cx.0.link.reply.take().transpose() {
            Ok(reply) => self.advance_loop(reply),
            Err(error) => {
                self.fail_loop();
                Err(error)
            }
        };
        match advance {
            Ok(Advance::Frame | Advance::Native) => Step::Continue,
            Ok(Advance::Done(value)) => {
                self.pop_native();
                self.native_returned(Ok(value))
            }
            Err(error) => {
                self.pop_native();
                self.native_returned(Err(error))
            }
        }
    }

    /// Removes a finished native function; its frame stays until its result is delivered.
    pub(crate) fn pop_native(&mut self) {
        self.co.natives.pop();
    }

    fn native_returned(&mut self, result: Result<Value>) -> Step {
        let Some(frame) = self.co.frames.pop() else { return Step::Done(result) };
        if frame.flags & TO_NATIVE != 0 {
            self.cx.0.link.reply.set(Some(result));
            return Step::Continue;
        }
        if frame.flags & ENTRY != 0 {
            return self.end_coroutine(result);
        }
        match result {
            Ok(value) => {
                self.co.stack[frame.base as usize - 1].put(value);
                Step::Continue
            }
            Err(error) => self.unwind(error),
        }
    }

    /// Returns the first register above all registers in use.
    fn free_register(&self) -> usize {
        self.co
            .frames
            .iter()
            .rev()
            .find(|f| f.flags & NATIVE == 0)
            // SAFETY: functions live as long as the VM.
            .map_or(1, |f| f.base as usize + unsafe { (*f.proto).registers as usize })
            .max(self.co.frames.last().map_or(1, |f| f.base as usize))
            + 1
    }

    /// Calls a function for the topmost native function, which receives the result in the mailbox.
    pub(crate) fn call_from_native(&mut self, callee: Value, args: crate::cx::CallArgs) {
        let callee = match crate::closure::tool_caller(&self.cx.0.vm, &callee) {
            Some(builtin) => Partial::value(builtin, vec![callee]),
            None => callee,
        };
        let base = self.free_register() + 1;
        let count = args.len();
        if self.co.frames.len() >= MAX_FRAMES {
            self.cx.0.link.reply.set(Some(Err(stack_overflow())));
            return;
        }
        let partial = callee.downcast::<Partial>();
        if let Some(builtin) = Builtin::of(&callee).or(partial.map(|p| p.builtin)) {
            let mut args = match partial {
                Some(partial) => partial.arguments(args.into_iter()).into(),
                None => args,
            };
            if !builtin.takes(args.len()) {
                self.cx.0.link.reply.set(Some(Err(builtin.wrong_count(args.len()))));
                return;
            }
            if self.cx.0.vm.gate().active.get()
                && let Err(error) = self.cx.permit(builtin, &args)
            {
                self.cx.0.link.reply.set(Some(Err(error)));
                return;
            }
            steps::reads(&args);
            match builtin.run {
                Run::Sync(f) => {
                    let result = native::catch(|| f(&self.cx, &mut args)).and_then(|result| result);
                    self.cx.0.link.reply.set(Some(result));
                }
                Run::Async(f) => {
                    let future = f(self.cx.clone(), args.into_vec());
                    self.push_native(Native::Future(future), base as u32, TO_NATIVE);
                }
                Run::Loop(f) => match native::catch(|| f(&self.cx, &mut args)).and_then(|calls| calls) {
                    Ok(calls) => self.push_native(Native::Loop(calls), base as u32, TO_NATIVE),
                    Err(error) => self.cx.0.link.reply.set(Some(Err(error))),
                },
            }
            return;
        }
        let Some(closure) = Closure::of(&callee) else {
            let result = match callee.downcast::<Constructor>() {
                Some(ctor) => construct(&ctor.0, args.into_iter().next().unwrap_or_default()),
                None => Err(Error::type_error(format!("Cannot call {}", short(&callee, SHOWN)))),
            };
            self.cx.0.link.reply.set(Some(result));
            return;
        };
        if closure.hot.vm != self.vm {
            self.cx.0.link.reply.set(Some(Err(of_another_vm("function"))));
            return;
        }
        let proto: *const Proto = &raw const *closure.proto;
        let closure: *const Closure = closure;
        // SAFETY: functions live as long as the VM.
        let proto_ref = unsafe { &*proto };
        if proto_ref.generator {
            let value = self.make_generator(proto_ref, callee, args.into_iter());
            self.cx.0.link.reply.set(Some(Ok(value)));
            return;
        }
        let top = base + (proto_ref.registers as usize).max(count) + 1;
        if top > self.co.stack.len()
            && let Err(error) = self.co.grow(top)
        {
            self.cx.0.link.reply.set(Some(Err(error)));
            return;
        }
        self.co.stack[base - 1].put(callee);
        for (i, arg) in args.into_iter().enumerate() {
            self.co.stack[base + i].put(arg);
        }
        // SAFETY: the stack was grown to hold the registers and arguments.
        unsafe { bind_args(proto_ref, self.co.stack.as_mut_ptr().add(base), count) };
        self.co.frames.push(Frame {
            proto,
            closure,
            pc: proto_ref.code.as_ptr(),
            base: base as u32,
            flags: TO_NATIVE,
        });
    }

    // ---- generators ----

    /// Creates the generator of a call.
    pub(crate) fn make_generator(
        &self,
        proto: &Proto,
        callee: Value,
        args: impl Iterator<Item = Value>,
    ) -> Value {
        let mut co = Coroutine::for_call(proto, callee, args);
        co.access = self.cx.access();
        Generator::value(Box::new(co), proto, &self.cleanups)
    }

    fn resume(&mut self, generator: &Value, delivery: Delivery) -> Step {
        let Some(g) = generator.downcast::<Generator>() else {
            return self.unwind(Error::runtime("internal error: not a generator"));
        };
        if !Rc::ptr_eq(&g.vm, &self.cx.0.vm.id) {
            return self.deliver(delivery, Err(of_another_vm(g.type_name())));
        }
        let taken = g.coroutine.borrow_mut().take();
        let Some(mut co) = taken else {
            // Ended, or running in an outer coroutine.
            let result = if g.done.get() {
                Ok(Value::ABSENT)
            } else {
                Err(Error::runtime("generator is already running"))
            };
            return self.deliver(delivery, result);
        };
        if self.outer.len() >= MAX_COROUTINES {
            *g.coroutine.borrow_mut() = Some(co);
            return self.deliver(delivery, Err(stack_overflow()));
        }
        co.delivery = delivery;
        co.owner = generator.clone();
        let below = std::mem::replace(&mut self.co, co);
        self.outer.push(below);
        Step::Continue
    }

    /// Switches to a generator for a `for` loop of the running function, whose next item goes to `register`. Returns
    /// false if there is an error to throw instead. In both cases a function of the program is on top afterwards.
    pub(crate) fn resume_for_loop(&mut self, generator: &Value, register: usize) -> bool {
        // Delivery to a register never ends the fiber.
        let _ = self.resume(generator, Delivery::Register(register));
        self.thrown.is_none()
    }

    /// Suspends the running generator and passes `value` to the `for` loop that resumed it, which is on top afterwards.
    /// Returns false, without any effect, if it was not resumed by a loop.
    pub(crate) fn yield_to_loop(&mut self, value: &mut Value) -> bool {
        let to_loop = matches!(self.co.delivery, Delivery::Register(_)) && !self.outer.is_empty();
        if to_loop {
            self.switch_back(Ok(value.take()));
        }
        to_loop
    }

    /// Runs a generator to its next value, which goes to the topmost native function.
    pub(crate) fn resume_for_native(&mut self, generator: &Value) {
        // Delivery to a native function never ends the fiber.
        let _ = self.resume(generator, Delivery::Native);
    }

    /// Waits for a future whose result goes to the topmost native function.
    pub(crate) fn push_waiting(&mut self, future: NativeFuture) {
        let base = self.free_register() + 1;
        self.push_native(Native::Future(future), base as u32, TO_NATIVE);
    }

    fn deliver(&mut self, delivery: Delivery, result: Result<Value>) -> Step {
        match (delivery, result) {
            (Delivery::Native, result) => {
                self.cx.0.link.reply.set(Some(result));
                Step::Continue
            }
            (Delivery::Register(register), Ok(value)) => {
                self.co.stack[register].put(value);
                Step::Continue
            }
            // Deferred: an error may pass through thousands of generators that wait for each other.
            (Delivery::Register(_), Err(error)) => {
                self.thrown = Some(error);
                Step::Continue
            }
            (Delivery::Nowhere(interlude), result) => {
                drop(interlude.limit);
                self.cleanups.put_back(interlude.next);
                self.cx.0.link.reply.set(interlude.reply);
                match result {
                    // Errors of cleanup are dropped, except those that end or interrupt the program.
                    Err(error) if error.is_interruption() => self.thrown = Some(error),
                    _ => {}
                }
                Step::Continue
            }
        }
    }

    /// Starts the cleanup of the generator that was dropped first. It runs on its own stack, above the code that
    /// dropped it, which continues afterwards. If too many coroutines wait for each other, the remaining cleanup is
    /// postponed.
    #[cold]
    fn begin_cleanup(&mut self) -> Option<Step> {
        if !self.may_clean_up() {
            return None;
        }
        let (mut co, next) = self.cleanups.take()?;
        let limit = co.access.take().map(|access| Limit::carried(&self.cx, &access));
        co.delivery = Delivery::Nowhere(Interlude { reply: self.cx.0.link.reply.take(), next, limit });
        let below = std::mem::replace(&mut self.co, co);
        self.outer.push(below);
        // A native function on top drives another fiber, in which the error that ends it is already set.
        if self.co.frames.last().is_some_and(|frame| frame.flags & NATIVE != 0) {
            return Some(Step::Continue);
        }
        Some(self.unwind(Error::new(ErrorKind::Abort)))
    }

    /// Returns whether cleanup is pending and there is room for its stack and for those of generators that it pulls.
    fn may_clean_up(&self) -> bool {
        self.cleanups.waiting() && self.outer.len() < MAX_COROUTINES / 2
    }

    /// Suspends the running generator and passes `value` to the code that resumed it.
    fn switch_back(&mut self, value: Result<Value>) {
        let Some(below) = self.outer.pop() else { return };
        let mut co = std::mem::replace(&mut self.co, below);
        let delivery = std::mem::replace(&mut co.delivery, Delivery::Native);
        let owner = co.owner.take();
        if let Some(generator) = owner.downcast::<Generator>() {
            *generator.coroutine.borrow_mut() = Some(co);
        }
        self.deliver(delivery, value);
    }

    /// Ends the current coroutine.
    fn end_coroutine(&mut self, result: Result<Value>) -> Step {
        let Some(below) = self.outer.pop() else { return Step::Done(result) };
        let mut co = std::mem::replace(&mut self.co, below);
        let delivery = std::mem::replace(&mut co.delivery, Delivery::Native);
        if let Some(generator) = co.owner.downcast::<Generator>() {
            generator.done.set(true);
        }
        drop(co);
        // The return value of a generator is dropped.
        self.deliver(delivery, result.map(|_| Value::ABSENT))
    }

    // ---- errors ----

    /// Reports whether the program handles an effect in doubt, as soon as that is certain: a native function that
    /// called the program may handle its error, and so may the parent of a task.
    #[cold]
    fn settle_doubt(&self) {
        let stacks = std::iter::once(&self.co).chain(self.outer.iter().rev());
        let mut frames = stacks.flat_map(|co| co.frames.iter().rev()).peekable();
        while let Some(frame) = frames.next() {
            if frame.flags & NATIVE == 0 {
                let (proto, at) = crate::observe::position(frame);
                let around = |start: u32, end: u32| (start as usize..end as usize).contains(&at);
                let mut handlers = proto.handlers.iter();
                if handlers.any(|h| h.kind != HandlerKind::Finally && around(h.start, h.end)) {
                    return self.cx.vm().system().settle_doubt(true);
                }
            }
            // The function that starts the program propagates its errors.
            if frame.flags & TO_NATIVE != 0 && frames.peek().is_some_and(|below| below.flags & ENTRY == 0) {
                return;
            }
        }
        if !self.nested && self.cx.task().parent().is_none() {
            self.cx.vm().system().settle_doubt(false);
        }
    }

    /// Finds the handler of `error` and continues there.
    fn unwind(&mut self, mut error: Error) -> Step {
        if error.facts().is_some() {
            self.cx.state::<Failures>().learn(&error);
        }
        self.show_error(&error);
        if error.is_in_doubt() {
            self.settle_doubt();
        }
        loop {
            let Some(frame) = self.co.frames.last().copied() else {
                return self.end_coroutine(Err(error));
            };
            if frame.flags & NATIVE != 0 {
                // The native function never received the error, which was thrown from outside (an interruption). It
                // does not receive the result of a completed call either.
                self.cx.0.link.reply.set(None);
                self.co.natives.pop();
                self.co.frames.pop();
                if frame.flags & TO_NATIVE != 0 {
                    self.cx.0.link.reply.set(Some(Err(error)));
                    return Step::Continue;
                }
                if frame.flags & ENTRY != 0 {
                    return self.end_coroutine(Err(error));
                }
                continue;
            }
            // SAFETY: functions live as long as the VM; a frame's pc points after the failing instruction.
            let (proto, pc) = unsafe {
                let proto = &*frame.proto;
                (proto, frame.pc.offset_from(proto.code.as_ptr()).max(1) as usize - 1)
            };
            let catchable = error.is_catchable();
            let cleaning =
                if catchable && self.cx.task().has_to_stop() { self.co.cleaning(&frame) } else { None };
            let first = cleaning.map_or(0, |(begin, _)| begin);
            let handler = proto.handlers.iter().find(|h| {
                h.start as usize >= first
                    && (h.start as usize..h.end as usize).contains(&pc)
                    && (catchable
                        || (h.kind == HandlerKind::Finally && self.interruptions < MAX_INTERRUPTIONS))
            });
            if let Some(handler) = handler {
                let register = frame.base as usize + handler.register as usize;
                let first = frame.base as usize + handler.live as usize;
                let top = (frame.base as usize + proto.registers as usize).min(self.co.stack.len());
                for slot in self.co.stack.get_mut(first..top).unwrap_or_default().iter_mut().rev() {
                    slot.put(Value::NIL);
                }
                let value = match handler.kind {
                    HandlerKind::Catch => error.caught(),
                    HandlerKind::CatchHeld | HandlerKind::Finally => {
                        note_passed(&mut error, proto, pc);
                        Held::value(error)
                    }
                };
                self.co.stack[register].put(value);
                if let Some(frame) = self.co.frames.last_mut() {
                    // SAFETY: the verifier checked that handler targets are inside the function.
                    frame.pc = unsafe { proto.code.as_ptr().add(handler.target as usize) };
                }
                return Step::Continue;
            }
            if let Some((_, place)) = cleaning {
                // An error of cleanup must not resume a task that has to stop.
                error = Held::take(&self.co.stack[place]);
                continue;
            }
            note_passed(&mut error, proto, pc);
            let base = frame.base as usize;
            let top = (base + proto.registers as usize).min(self.co.stack.len());
            for slot in self.co.stack[base - 1..top].iter_mut().rev() {
                slot.put(Value::NIL);
            }
            self.co.frames.pop();
            if frame.flags & TO_NATIVE != 0 {
                self.cx.0.link.reply.set(Some(Err(error)));
                return Step::Continue;
            }
            if frame.flags & ENTRY != 0 {
                return self.end_coroutine(Err(error));
            }
        }
    }

    /// Called when a captured variable was created: a collection of cycles may be due. It runs when the fiber pauses,
    /// not here.
    #[inline(always)]
    pub(crate) fn made_variable(&mut self) {
        if crate::cycles::is_due() {
            self.cut_short.get_or_insert(self.fuel);
            self.fuel = 1;
        }
    }

    /// Ends the slice after bulk work: the next step pauses.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_slice(&mut self) {
        self.cut_short = None;
        self.fuel = 1;
    }

    /// At the end of a slice: collects cycles, checks deadlines and yields.
    fn pause(&mut self) -> Step {
        if let Some(left) = self.cut_short.take() {
            // Cleanup of garbage generators runs at the next step.
            crate::cycles::collect_if_due();
            // Collections do not change when tasks take turns.
            if left > 1 {
                self.fuel = left - 1;
                return Step::Continue;
            }
        }
        self.fuel = SLICE;
        let is_long = steps::turn_is_due();
        steps::begin_turn();
        if is_long {
            crate::scheduler::end_long_slice();
        }
        if memory::check(0).is_err() {
            crate::cycles::collect(true);
        }
        if let Err(over) = memory::check(0) {
            let step = self.unwind(over.into());
            return self.after_interruption(step);
        }
        let (vm, task) = (self.cx.vm().clone(), self.cx.task().clone());
        if let Err(error) = task.check(&vm) {
            self.interruptions += u32::from(matches!(error.kind(), ErrorKind::Abort));
            let step = self.unwind(error);
            return self.after_interruption(step);
        }
        if self.others_run() || self.is_turn_of_host(is_long) { Step::Yielded } else { Step::Continue }
    }

    /// Returns whether to yield to the host's futures on this thread: a timeout around the run, a second run. Never
    /// with a journal, so that a replay yields at the same points.
    fn is_turn_of_host(&mut self, is_long: bool) -> bool {
        self.slices += 1;
        if self.slices < HOST_TURN && !is_long {
            return false;
        }
        self.slices = 0;
        !crate::scheduler::follows_outside()
    }

    /// Returns the fiber's result, unless dropped generators have cleanup to run first.
    fn finish(&mut self, result: Result<Value>) -> Option<Result<Value>> {
        let result = match (self.ended.take(), result) {
            // An error that ends the program during the last cleanup is its result, unless it has failed before.
            (Some(Err(earlier)), _) => Err(earlier),
            (_, result) => result,
        };
        if self.cleanups.waiting() {
            *self.co = Coroutine::new(0);
            self.ended = Some(result);
            return None;
        }
        Some(result.map_err(|mut error| {
            // SAFETY: the trace holds only addresses of functions, which live as long as the VM; this fiber holds the
            // VM.
            error.resolve_trace(|function, pc| unsafe { crate::cx::passed(function, pc) });
            error
        }))
    }

    /// Sets the timer for the earliest deadline. Returns true if one has already passed.
    fn watch_deadline(&mut self, context: &mut Context<'_>) -> bool {
        let Some(at) = self.cx.task().next_deadline() else {
            self.timer = None;
            return false;
        };
        let (_, timer) = match self.timer.take_if(|(until, _)| *until == at) {
            Some(armed) => self.timer.insert(armed),
            None => {
                let system = self.cx.vm().system();
                let left = at.saturating_sub(system.monotonic());
                self.timer.insert((at, system.sleep(left)))
            }
        };
        timer.as_mut().poll(context).is_ready()
    }
}

impl Future for Fiber {
    type Output = Result<Value>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Value>> {
        let this = self.get_mut();
        if this.version != this.cx.vm().version.get() {
            this.refresh_tables();
        }
        // A fiber may be polled by a native function of another fiber.
        let before = this.cx.vm().running.replace(Some(this.cx.task().clone()));
        let nested = before.is_some();
        this.nested = nested;
        if !nested {
            this.cx.task().note_cleanup(false);
        }
        let result = this.advance(context);
        this.cx.vm().running.replace(before);
        if nested || this.timer.is_some() || !this.cx.vm().tells_deadlocks {
            crate::scheduler::waits_for_more();
        }
        result
    }
}

impl Fiber {
    /// Runs until the program ends or has to wait.
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Result<Value>> {
        let this = self;
        if let Some((callee, args)) = this.start.take() {
            this.begin(callee, args);
        }
        let is_root = this.cx.task().parent().is_none();
        let _watch = native::Watch::new(&this.cx);
        loop {
            match this.step(context) {
                Step::Continue => {}
                Step::Done(result) => {
                    let _calm = native::Calm::new();
                    if let Some(result) = this.finish(result) {
                        return Poll::Ready(result);
                    }
                }
                Step::Yielded => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Wait => {
                    if this.may_clean_up() {
                        continue;
                    }
                    if this.leaves_waiting() {
                        return Poll::Pending;
                    }
                    let _calm = native::Calm::new();
                    if is_root {
                        // Show the output while the program waits.
                        let _ = this.cx.vm().system.flush();
                        this.cx.vm().interrupt().register(context.waker());
                        if this.cx.vm().is_interrupted() {
                            let error = this.cx.task().stop_waiting(this.cleans_up());
                            this.pop_native();
                            if let Step::Done(result) = this.native_returned(Err(error))
                                && let Some(result) = this.finish(result)
                            {
                                return Poll::Ready(result);
                            }
                            continue;
                        }
                    }
                    this.cx.task().set_waker(context.waker());
                    if this.watch_deadline(context) {
                        continue;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Records that an error passed an instruction of a function. An error rethrown after cleanup was already recorded for
/// the function.
fn note_passed(error: &mut Error, proto: &Proto, pc: usize) {
    let function = (&raw const *proto).cast();
    if proto.code[pc].op() != Op::Rethrow || !error.passed_last(function) {
        error.pass(function, pc);
    }
}

/// Checks the fields of a struct against their types. A missing field reads as nil.
fn check_fields(ty: &harn_value::StructType, slots: &[Value]) -> Result<()> {
    let Some(types) = ty.types.get() else { return Ok(()) };
    let problem = slots.iter().enumerate().find_map(|(slot, value)| {
        let value = if value.is_absent() { &Value::NIL } else { value };
        types.problem(slot, value, false)
    });
    problem.map_or(Ok(()), |problem| Err(Error::type_error(problem)))
}

/// Creates an instance of a struct from a dict of fields; undeclared fields are dropped.
pub(crate) fn construct(ty: &harn_value::Ref<harn_value::StructType>, fields: Value) -> Result<Value> {
    let Some(dict) = fields.to_dict() else {
        return Err(Error::type_error(format!(
            "{}: expected a dict of fields, got {}",
            ty.name,
            fields.type_name()
        )));
    };
    let slots = ty.fields.iter().map(|name| dict.get(name).cloned().unwrap_or(Value::ABSENT)).collect();
    let value = harn_value::StructValue { ty: ty.clone(), slots, extra: None };
    check_fields(ty, &value.slots)?;
    Ok(value.into())
}

const _: () = assert!(Tag::Closure as u8 > Tag::Struct as u8);
