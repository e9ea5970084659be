//! The interpreter loop: a synchronous function that runs instructions until one requires the fiber.
//!
//! # Safety
//! Registers, constants and code are accessed through raw pointers. This is sound because
//! [`verify`](crate::verify::verify) has checked register numbers, jumps and constant numbers of every function; a
//! frame's registers are inside the stack, which grows only in calls (after which `regs` is recomputed); the VM keeps
//! every function alive. References made from `regs` never live across an instruction that runs other code of the
//! program.
//!
//! Native code that is stopped unwinds through this loop (`native.rs`), so every instruction that calls code that
//! traverses data saves `pc` first: the error is thrown there. Otherwise it would be thrown at an earlier instruction
//! of the function, which is wrong but memory-safe.

#![allow(clippy::needless_borrow, reason = "references to what a raw pointer points at are made visibly")]
#![allow(clippy::collapsible_if, reason = "the outer test is the fast path, the inner one the slow call")]

use std::rc::Rc;

use harn_value::{EnumValue, Ref, StructValue, Tag, Value, View};

use crate::builtin::{Builtin, NativeFuture, Run};
use crate::bytecode::{Capture, FailKind, GROWN, Hot, Ins, MethodSite, Op, Proto, TAKE};
use crate::calls::Called;
use crate::closure::{Closure, Variable, acts_as_function};
use crate::coroutine::{Coroutine, Frame, LOOP, Native, TO_NATIVE, bind_args, stack_overflow};
use crate::error::{Error, Result};
use crate::fiber::{Fiber, MAX_FRAMES, construct};
use crate::generator::Generator;
use crate::held::Held;
use crate::iteration::{Next, Spread, prepare_iteration, spread_items};
use crate::ops::{self, Arith};
use crate::vm_id::of_another_vm;

/// Why the interpreter stopped.
pub(crate) enum Event {
    /// A native function that may wait was called; its result goes to the register before the base.
    Native(NativeFuture, u32),
    /// A native function was called or has returned without waiting: continue with the topmost frame.
    Continue,
    /// Another coroutine is running; a function of the program is on top.
    Switched,
    /// A native function has ended; its frame is on top.
    Returned(Result<Value>),
    /// A function that a native function called has returned.
    ToNative(Value),
    /// The first function of the coroutine has returned.
    Done(Value),
    /// An error.
    Throw(Error),
    /// The generator yields a value.
    Yield(Value),
    /// The slice of steps is used up.
    Pause,
}

impl Fiber {
    /// Runs the topmost frame, and the coroutines that its loops over generators switch to.
    pub(crate) fn run(&mut self) -> Event {
        loop {
            match self.run_coroutine() {
                Event::Switched if self.cleanups.pending() => return Event::Continue,
                Event::Switched => {}
                event => return event,
            }
        }
    }

    /// Runs the topmost frame.
    #[allow(clippy::too_many_lines, reason = "one flat table of cases")]
    fn run_coroutine(&mut self) -> Event {
        let mut pc: *const Ins;
        let mut regs: *mut Value;
        let mut consts: *const Value;
        let mut proto: *const Proto;
        // The coroutine does not change until this function returns: a variable one would cost the loop machine
        // registers.
        let co: *mut Coroutine = &raw mut *self.co;

        // Frames and stack of the coroutine, for unsafe blocks: see above; the references are used immediately.
        macro_rules! frames {
            () => {
                (&mut (*co).frames)
            };
        }
        macro_rules! stack {
            () => {
                (&mut (*co).stack)
            };
        }
        // Loads the state of the topmost frame.
        macro_rules! load_frame {
            () => {{
                // SAFETY: `run` is called with a frame of the program on top.
                unsafe {
                    let at = (&(*co).frames).len() - 1;
                    let frame = frames!().get_unchecked(at);
                    pc = frame.pc;
                    proto = frame.proto;
                    consts = (*proto).hot.consts;
                    regs = stack!().as_mut_ptr().add(frame.base as usize);
                }
            }};
        }
        macro_rules! save_pc {
            () => {{
                // SAFETY: there is a frame.
                unsafe {
                    let at = (&(*co).frames).len() - 1;
                    frames!().get_unchecked_mut(at).pc = pc;
                }
            }};
        }
        // SAFETY (all four): see the module documentation.
        macro_rules! reg {
            ($i:expr) => {
                (unsafe { &mut *regs.add($i) })
            };
        }
        macro_rules! constant {
            ($i:expr) => {
                (unsafe { &*consts.add($i) })
            };
        }
        macro_rules! throw {
            ($e:expr) => {{
                save_pc!();
                return Event::Throw($e);
            }};
        }
        macro_rules! check {
            ($e:expr) => {
                match $e {
                    Ok(v) => v,
                    Err(e) => throw!(e),
                }
            };
        }
        // After an instruction that may have created a large value: the next call or backward jump ends the slice.
        macro_rules! settle {
            () => {
                if harn_value::steps::turn_is_due() {
                    self.end_slice();
                }
            };
        }
        macro_rules! jump {
            ($ins:expr) => {{
                let distance = $ins.sc();
                // SAFETY: the verifier checked the target.
                pc = unsafe { pc.offset(distance) };
                if distance < 0 {
                    self.fuel -= 1;
                    if self.fuel == 0 {
                        save_pc!();
                        return Event::Pause;
                    }
                }
            }};
        }
        macro_rules! arith {
            ($ins:expr, $r:expr, $op:ident, $int:ident, $float:tt) => {{
                let l = &*reg!($ins.b());
                let r = &*$r;
                if l.tag() == Tag::Int
                    && r.tag() == Tag::Int
                    && let Some(v) = l.int_bits().$int(r.int_bits())
                {
                    reg!($ins.a()).set_int(v);
                } else if l.tag() == Tag::Float && r.tag() == Tag::Float {
                    let v = l.float_bits() $float r.float_bits();
                    reg!($ins.a()).set_float(v);
                } else {
                    save_pc!();
                    let v = check!(ops::arith(Arith::$op, l, r));
                    reg!($ins.a()).put(v);
                    settle!();
                }
            }};
        }
        macro_rules! add {
            ($ins:expr, $r:expr) => {{
                let l = &*reg!($ins.b());
                let r = $r;
                if l.tag() == Tag::Int
                    && r.tag() == Tag::Int
                    && let Some(v) = l.int_bits().checked_add(r.int_bits())
                {
                    reg!($ins.a()).set_int(v);
                } else if l.tag() == Tag::Float && r.tag() == Tag::Float {
                    let v = l.float_bits() + r.float_bits();
                    reg!($ins.a()).set_float(v);
                } else {
                    save_pc!();
                    let to: *mut Value = reg!($ins.a());
                    // SAFETY: registers and constants are live, and `l` and `r` are not used afterwards.
                    check!(unsafe { add_odd(to, l, r) });
                    settle!();
                }
            }};
        }
        macro_rules! divide {
            ($ins:expr, $r:expr, $op:ident, $int:ident, $float:tt) => {{
                let l = &*reg!($ins.b());
                let r = &*$r;
                if l.tag() == Tag::Int
                    && r.tag() == Tag::Int
                    && let Some(v) = l.int_bits().$int(r.int_bits())
                {
                    reg!($ins.a()).set_int(v);
                } else if l.tag() == Tag::Float && r.tag() == Tag::Float && (r.float_bits() != 0.0 || stringify!($op) == "Div") {
                    let v = l.float_bits() $float r.float_bits();
                    reg!($ins.a()).set_float(v);
                } else {
                    save_pc!();
                    let v = check!(ops::arith(Arith::$op, l, r));
                    reg!($ins.a()).put(v);
                }
            }};
        }
        macro_rules! arith_int {
            ($ins:expr, $op:ident, $int:ident) => {{
                let l = &*reg!($ins.b());
                if l.tag() == Tag::Int
                    && let Some(v) = l.int_bits().$int($ins.sc() as i64)
                {
                    reg!($ins.a()).set_int(v);
                } else {
                    let v = check!(ops::arith(Arith::$op, l, &Value::int($ins.sc() as i64)));
                    reg!($ins.a()).put(v);
                    settle!();
                }
            }};
        }
        macro_rules! divide_int {
            ($ins:expr, $op:ident, $int:ident) => {{
                let l = &*reg!($ins.b());
                let r = $ins.sc() as i64;
                if l.tag() == Tag::Int && r > 0 {
                    let v = l.int_bits().$int(r);
                    reg!($ins.a()).set_int(v);
                } else {
                    let v = check!(ops::arith(Arith::$op, l, &Value::int(r)));
                    reg!($ins.a()).put(v);
                }
            }};
        }
        // Compares register `a` with the int in operand `b`.
        macro_rules! compare_int {
            ($ins:expr, $op:tt, $slow:expr) => {{
                let l = &*reg!($ins.a());
                if l.tag() == Tag::Int {
                    l.int_bits() $op $ins.sb()
                } else {
                    save_pc!();
                    check!($slow(l, &Value::int($ins.sb())))
                }
            }};
        }
        macro_rules! compare {
            ($l:expr, $r:expr, $op:tt, $slow:expr) => {{
                let (l, r) = ($l, $r);
                if l.tag() == Tag::Int && r.tag() == Tag::Int {
                    l.int_bits() $op r.int_bits()
                } else if l.tag() == Tag::Float && r.tag() == Tag::Float {
                    l.float_bits() $op r.float_bits()
                } else {
                    save_pc!();
                    check!($slow(l, r))
                }
            }};
        }
        macro_rules! lt {
            ($l:expr, $r:expr) => {
                compare!($l, $r, <, ops::less)
            };
        }
        macro_rules! le {
            ($l:expr, $r:expr) => {
                compare!($l, $r, <=, ops::less_equal)
            };
        }
        macro_rules! eq {
            ($l:expr, $r:expr) => {{
                let (l, r) = ($l, $r);
                if l.tag() == Tag::Int && r.tag() == Tag::Int {
                    l.int_bits() == r.int_bits()
                } else {
                    save_pc!();
                    l == r
                }
            }};
        }
        macro_rules! branch {
            ($ins:expr, $cond:expr) => {
                if $cond {
                    jump!($ins);
                }
            };
        }
        // Enters a closure of the program whose arguments are after register `a`.
        macro_rules! enter {
            ($a:expr, $count:expr, $closure:expr) => {{
                let closure: *const Closure = $closure;
                // SAFETY: functions live as long as the VM; the callee's register or the function table holds the
                // closure.
                let hot: *const Hot = unsafe { &raw const (*closure).hot };
                let (a, count): (usize, usize) = ($a, $count);
                // SAFETY (all of this): as above; `regs` is the base of the topmost frame.
                let plain = unsafe { (*hot).plain && count == (*hot).params as usize };
                if plain {
                    let at = unsafe { (&(*co).frames).len() };
                    let base = unsafe { frames!().get_unchecked(at - 1).base } as usize + a + 1;
                    unsafe { frames!().get_unchecked_mut(at - 1).pc = pc };
                    let top = base + unsafe { (*hot).registers } as usize + 1;
                    if unsafe { at == frames!().capacity() || top > stack!().len() } {
                        if let Err(e) = self.make_room(top) {
                            return Event::Throw(e);
                        }
                    }
                    unsafe {
                        regs = stack!().as_mut_ptr().add(base);
                        proto = Rc::as_ptr(&(*closure).proto);
                        consts = (*hot).consts;
                        pc = (*hot).code;
                        let frame = Frame { proto, closure, pc, base: base as u32, flags: 0 };
                        frames!().as_mut_ptr().add(at).write(frame);
                        frames!().set_len(at + 1);
                    }
                } else {
                    save_pc!();
                    match self.enter_odd(regs, a, count, closure) {
                        Ok(true) => load_frame!(),
                        Ok(false) => continue,
                        Err(e) => return Event::Throw(e),
                    }
                }
                self.fuel -= 1;
                if self.fuel == 0 {
                    return Event::Pause;
                }
            }};
        }
        macro_rules! called {
            ($called:expr) => {{
                save_pc!();
                match $called {
                    // Spread arguments may have moved the stack: no register pointer is valid after a slow-path call.
                    Ok(Called::Value) => regs = self.registers(),
                    Ok(Called::Frame) => load_frame!(),
                    Ok(Called::Native(future, base)) => return Event::Native(future, base),
                    Ok(Called::Pushed) => return Event::Continue,
                    Err(e) => return Event::Throw(e),
                }
            }};
        }

        load_frame!();
        loop {
            // SAFETY: the verifier proved that execution cannot run past the end of the code.
            let ins = unsafe { *pc };
            debug_assert!(std::ptr::eq(regs, self.registers()), "{ins:?} after a call that moved the stack");
            pc = unsafe { pc.add(1) };
            match ins.op() {
                Op::Move => {
                    let v = reg!(ins.b()).clone();
                    reg!(ins.a()).put_counted(v);
                }
                Op::Take => {
                    let v = reg!(ins.b()).take();
                    reg!(ins.a()).put_counted(v);
                }
                Op::LoadK => {
                    let v = constant!(ins.c()).clone();
                    reg!(ins.a()).put(v);
                }
                Op::LoadInt => reg!(ins.a()).set_int(ins.sc() as i64),
                Op::LoadNil => reg!(ins.a()).release(),
                Op::Clear => {
                    for i in ins.a()..=ins.a() + ins.c() {
                        reg!(i).release();
                    }
                }
                Op::LoadBool => reg!(ins.a()).set_bool(ins.b() != 0),
                Op::LoadAbsent => reg!(ins.a()).put(Value::ABSENT),

                Op::NewCell => {
                    let v = reg!(ins.a()).take();
                    reg!(ins.a()).put(Variable::value(v));
                    self.made_variable();
                }
                Op::NewEmptyCell => {
                    reg!(ins.a()).put(Variable::value(Value::ABSENT));
                    self.made_variable();
                }
                Op::GetCell => {
                    let v = Variable::of(reg!(ins.b())).map_or(Value::ABSENT, Variable::get);
                    if v.is_absent() {
                        throw!(undefined(constant!(ins.c())));
                    }
                    reg!(ins.a()).put(v);
                }
                Op::SetCell => {
                    let v = reg!(ins.b()).clone();
                    if let Some(cell) = Variable::of(reg!(ins.a())) {
                        cell.set(v);
                    }
                }
                Op::GetUp => {
                    let v = self.upvalue(ins.b()).clone();
                    reg!(ins.a()).put(v);
                }
                Op::GetUpCell => {
                    let v = Variable::of(self.upvalue(ins.b())).map_or(Value::ABSENT, Variable::get);
                    if v.is_absent() {
                        throw!(undefined(constant!(ins.c())));
                    }
                    reg!(ins.a()).put(v);
                }
                Op::SetUpCell => {
                    let v = reg!(ins.b()).clone();
                    if let Some(cell) = Variable::of(self.upvalue(ins.a())) {
                        cell.set(v);
                    }
                }
                Op::AddCell | Op::AddUpCell => {
                    let holder =
                        if ins.op() == Op::AddCell { &*reg!(ins.a()) } else { self.upvalue(ins.a()) };
                    let Some(cell) = Variable::of(holder) else { continue };
                    // SAFETY: no other reference into the cell is held; the addition runs no code of the program.
                    let place = unsafe { &mut *cell.place() };
                    let right = &*reg!(ins.b());
                    if place.tag() == Tag::Int
                        && right.tag() == Tag::Int
                        && let Some(sum) = place.int_bits().checked_add(right.int_bits())
                    {
                        place.set_int(sum);
                    } else if place.is_absent() {
                        throw!(undefined(constant!(ins.c())));
                    } else {
                        check!(ops::add_assign(place, right));
                        settle!();
                    }
                }
                Op::GetGlobal => {
                    let v = self.global(ins.b(), ins.c()).clone();
                    if v.is_absent() {
                        throw!(self.undefined_global(ins.b(), ins.c()));
                    }
                    reg!(ins.a()).put(v);
                }
                Op::GetGlobalVar => {
                    let v = Variable::of(self.global(ins.b(), ins.c())).map_or(Value::ABSENT, Variable::get);
                    if v.is_absent() {
                        throw!(self.undefined_global(ins.b(), ins.c()));
                    }
                    reg!(ins.a()).put(v);
                }
                Op::SetGlobal => {
                    let v = reg!(ins.a()).clone();
                    let old = std::mem::replace(self.global(ins.b(), ins.c()), v);
                    drop(old);
                }
                Op::SetGlobalVar => {
                    let v = reg!(ins.a()).clone();
                    if let Some(cell) = Variable::of(self.global(ins.b(), ins.c())) {
                        cell.set(v);
                    }
                }
                Op::GetFunction => {
                    // SAFETY: the compiler got the number from `new_function`.
                    let v = unsafe { &*self.functions.add(ins.c()) }.clone();
                    reg!(ins.a()).put(v);
                }
                Op::SetFunction => {
                    let v = reg!(ins.a()).clone();
                    self.cx.0.vm.set_function(ins.c() as u32, v);
                }

                Op::Add => add!(ins, &*reg!(ins.c())),
                Op::AddK => add!(ins, constant!(ins.c())),
                Op::Sub => arith!(ins, reg!(ins.c()), Sub, checked_sub, -),
                Op::SubK => arith!(ins, constant!(ins.c()), Sub, checked_sub, -),
                Op::Mul => arith!(ins, reg!(ins.c()), Mul, checked_mul, *),
                Op::MulK => arith!(ins, constant!(ins.c()), Mul, checked_mul, *),
                Op::Div => divide!(ins, reg!(ins.c()), Div, checked_div, /),
                Op::DivK => divide!(ins, constant!(ins.c()), Div, checked_div, /),
                Op::Rem => divide!(ins, reg!(ins.c()), Rem, checked_rem, %),
                Op::RemK => divide!(ins, constant!(ins.c()), Rem, checked_rem, %),
                Op::AddI => arith_int!(ins, Add, checked_add),
                Op::SubI => arith_int!(ins, Sub, checked_sub),
                Op::MulI => arith_int!(ins, Mul, checked_mul),
                Op::DivI => divide_int!(ins, Div, wrapping_div),
                Op::RemI => divide_int!(ins, Rem, wrapping_rem),
                Op::Pow => {
                    let v = check!(ops::arith(Arith::Pow, reg!(ins.b()), reg!(ins.c())));
                    reg!(ins.a()).put(v);
                }
                Op::Neg => {
                    let v = check!(ops::negate(reg!(ins.b())));
                    reg!(ins.a()).put(v);
                }
                Op::Not => {
                    let v = !reg!(ins.b()).truthy();
                    reg!(ins.a()).set_bool(v);
                }
                Op::Truthy => {
                    let v = reg!(ins.b()).truthy();
                    reg!(ins.a()).set_bool(v);
                }
                Op::Eq => {
                    let v = eq!(&*reg!(ins.b()), &*reg!(ins.c()));
                    reg!(ins.a()).set_bool(v);
                }
                Op::Ne => {
                    let v = !eq!(&*reg!(ins.b()), &*reg!(ins.c()));
                    reg!(ins.a()).set_bool(v);
                }
                Op::Lt => {
                    let v = lt!(&*reg!(ins.b()), &*reg!(ins.c()));
                    reg!(ins.a()).set_bool(v);
                }
                Op::Le => {
                    let v = le!(&*reg!(ins.b()), &*reg!(ins.c()));
                    reg!(ins.a()).set_bool(v);
                }
                Op::In => {
                    save_pc!();
                    let v = ops::contains(reg!(ins.b()), reg!(ins.c()));
                    reg!(ins.a()).set_bool(v);
                }

                Op::Jump => jump!(ins),
                Op::JumpIf => branch!(ins, reg!(ins.a()).truthy()),
                Op::JumpIfNot => branch!(ins, !reg!(ins.a()).truthy()),
                Op::JumpIfNil => branch!(ins, reg!(ins.a()).is_nil()),
                Op::JumpIfNotNil => branch!(ins, !reg!(ins.a()).is_nil()),
                Op::JumpIfAbsent => branch!(ins, reg!(ins.a()).is_absent()),
                Op::JumpIfPresent => branch!(ins, !reg!(ins.a()).is_absent()),
                Op::JumpLt => branch!(ins, lt!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpLe => branch!(ins, le!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpNotLt => branch!(ins, !lt!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpNotLe => branch!(ins, !le!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpEq => branch!(ins, eq!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpNe => branch!(ins, !eq!(&*reg!(ins.a()), &*reg!(ins.b()))),
                Op::JumpLtK => branch!(ins, lt!(&*reg!(ins.a()), constant!(ins.b()))),
                Op::JumpLeK => branch!(ins, le!(&*reg!(ins.a()), constant!(ins.b()))),
                Op::JumpGtK => branch!(ins, lt!(constant!(ins.b()), &*reg!(ins.a()))),
                Op::JumpGeK => branch!(ins, le!(constant!(ins.b()), &*reg!(ins.a()))),
                Op::JumpNotLtK => branch!(ins, !lt!(&*reg!(ins.a()), constant!(ins.b()))),
                Op::JumpNotLeK => branch!(ins, !le!(&*reg!(ins.a()), constant!(ins.b()))),
                Op::JumpNotGtK => branch!(ins, !lt!(constant!(ins.b()), &*reg!(ins.a()))),
                Op::JumpNotGeK => branch!(ins, !le!(constant!(ins.b()), &*reg!(ins.a()))),
                Op::JumpEqK => branch!(ins, eq!(&*reg!(ins.a()), constant!(ins.b()))),
                Op::JumpNeK => branch!(ins, !eq!(&*reg!(ins.a()), constant!(ins.b()))),

                Op::JumpLtI => branch!(ins, compare_int!(ins, <, ops::less)),
                Op::JumpLeI => branch!(ins, compare_int!(ins, <=, ops::less_equal)),
                Op::JumpGtI => branch!(ins, compare_int!(ins, >, greater)),
                Op::JumpGeI => branch!(ins, compare_int!(ins, >=, greater_equal)),
                Op::JumpNotLtI => branch!(ins, !compare_int!(ins, <, ops::less)),
                Op::JumpNotLeI => branch!(ins, !compare_int!(ins, <=, ops::less_equal)),
                Op::JumpNotGtI => branch!(ins, !compare_int!(ins, >, greater)),
                Op::JumpNotGeI => branch!(ins, !compare_int!(ins, >=, greater_equal)),
                Op::JumpEqI => branch!(ins, compare_int!(ins, ==, same)),
                Op::JumpNeI => branch!(ins, !compare_int!(ins, ==, same)),

                Op::RangePrep => {
                    let a = ins.a();
                    let range = check!(ops::range(reg!(a), reg!(a + 1), ins.b() != 0));
                    match range.last() {
                        Some(last) => {
                            reg!(a).set_int(range.start);
                            reg!(a + 1).set_int(last);
                            reg!(a + 2).set_int(range.start);
                        }
                        None => jump!(ins),
                    }
                }
                Op::RangeNext => {
                    let a = ins.a();
                    let at = reg!(a).int_bits();
                    if at < reg!(a + 1).int_bits() {
                        reg!(a).set_int(at + 1);
                        reg!(a + 2).set_int(at + 1);
                        jump!(ins);
                    }
                }
                Op::IterPrep => {
                    let a = ins.a();
                    check!(prepare_iteration(reg!(a)));
                    reg!(a + 1).set_int(0);
                }
                Op::IterNext => {
                    let a = ins.a();
                    if let Some(items) = reg!(a).as_list() {
                        let at = reg!(a + 1).int_bits();
                        if let Some(item) = items.get(at as usize) {
                            let item = item.clone();
                            reg!(a + 1).set_int(at + 1);
                            reg!(a + 2).put_counted(item);
                            jump!(ins);
                        } else {
                            // SAFETY: the compiler puts one instruction after this one, and more code after that.
                            pc = unsafe { pc.add(1) };
                        }
                    } else {
                        save_pc!();
                        match check!(self.next_item(regs, a, ins.b() != 0)) {
                            Next::Item => jump!(ins),
                            // SAFETY: as above.
                            Next::End => pc = unsafe { pc.add(1) },
                            Next::Generator(generator) => {
                                save_pc!();
                                // SAFETY: both point into the stack.
                                let register = unsafe { regs.add(a + 2).offset_from(self.co.stack.as_ptr()) };
                                let resumed = self.resume_for_loop(&generator, register as usize);
                                return if resumed { Event::Switched } else { Event::Continue };
                            }
                            Next::Pull(pull) => {
                                save_pc!();
                                // SAFETY: as above.
                                let register = unsafe { regs.add(a + 2).offset_from(self.co.stack.as_ptr()) };
                                self.push_native(Native::Loop(pull), register as u32 + 1, 0);
                                return Event::Continue;
                            }
                        }
                    }
                }

                Op::EndLoop => {
                    // Leaving a loop stops its source, even if other references to it exist.
                    if let Some(generator) = reg!(ins.a()).downcast::<Generator>() {
                        generator.close();
                    } else {
                        crate::iter::Iter::left(reg!(ins.a()));
                    }
                    for i in 0..3 {
                        reg!(ins.a() + i).put(Value::NIL);
                    }
                    if self.cleanups.pending() {
                        save_pc!();
                        return Event::Continue;
                    }
                }
                Op::ClearFrom => {
                    // SAFETY: the registers of the running function.
                    for i in (ins.a()..unsafe { (*proto).registers as usize }).rev() {
                        reg!(i).put(Value::NIL);
                    }
                }
                Op::Settle => {
                    if self.cleanups.pending() {
                        save_pc!();
                        return Event::Continue;
                    }
                }

                Op::CallFunction => {
                    // SAFETY: the compiler got the number from `new_function`, and `Fiber::functions` is up to date.
                    let callee = unsafe { &*self.functions.add(ins.c()) };
                    match Closure::of(callee) {
                        Some(closure) => enter!(ins.a(), ins.b(), closure),
                        None => throw!(Error::type_error("internal error: function is not compiled yet")),
                    }
                }
                Op::Call => match Closure::of(reg!(ins.a())) {
                    Some(closure) if closure.hot.vm == self.vm => enter!(ins.a(), ins.b(), closure),
                    _ => called!(self.call_other(regs, ins.a(), ins.b(), ins.c(), proto)),
                },
                Op::CallLocal => match Closure::of(reg!(ins.c())) {
                    // The callee's variable holds it: nothing assigns the variable before the call returns.
                    Some(closure) if closure.hot.plain && closure.hot.vm == self.vm => {
                        enter!(ins.a(), ins.b(), closure);
                    }
                    _ => {
                        let callee = reg!(ins.c()).clone();
                        reg!(ins.a()).put(callee);
                        match Closure::of(reg!(ins.a())) {
                            Some(closure) if closure.hot.vm == self.vm => enter!(ins.a(), ins.b(), closure),
                            _ => called!(self.call_other(regs, ins.a(), ins.b(), 0, proto)),
                        }
                    }
                },
                Op::CallBuiltin => {
                    let entry = constant!(ins.c()).as_native();
                    // SAFETY: the compiler emits this only for constants made by `Builtin::value`.
                    let builtin = unsafe { &*entry.unwrap_unchecked().cast::<Builtin>() };
                    match builtin.run {
                        Run::Sync(f) => {
                            let count = ins.b();
                            self.cx.0.caller.set(proto);
                            self.cx.0.call.set(pc);
                            // SAFETY: the arguments are in the frame.
                            let args =
                                unsafe { std::slice::from_raw_parts_mut(regs.add(ins.a() + 1), count) };
                            save_pc!();
                            if self.cx.0.vm.gate().active.get() {
                                check!(self.cx.permit(builtin, args));
                            }
                            harn_value::steps::reads(args);
                            let result = check!(f(&self.cx, args));
                            check!(harn_value::memory::settle().map_err(Error::from));
                            settle!();
                            for i in 1..=count {
                                reg!(ins.a() + i).release();
                            }
                            reg!(ins.a()).put(result);
                        }
                        _ => called!(self.call_native(regs, ins.a(), ins.b(), builtin, proto)),
                    }
                }
                Op::CallMethod => {
                    // SAFETY: the verifier checked the number.
                    let site: *const MethodSite = unsafe { (*proto).methods.as_ptr().add(ins.c()) };
                    let site = unsafe { &*site };
                    let receiver = &*reg!(ins.a() + 1);
                    if let Some(s) = receiver.as_struct() {
                        let key = s.ty.address();
                        let epoch = self.cx.0.vm.method_epoch.get();
                        if site.key.get() != key || site.epoch.get() != epoch {
                            if !self.find_struct_method(site, s, epoch) {
                                called!(self.call_missing(regs, ins.a(), ins.b(), site, proto));
                                continue;
                            }
                        }
                        let closure = site.target.get().cast::<Closure>();
                        // SAFETY: alive by the invariant of `MethodSite::target`. A method with captured variables may
                        // be replaced while it runs; the callee's register holds it. A method without captures is a
                        // constant of the function that declares it.
                        if unsafe { !(&(*closure).upvalues).is_empty() } {
                            self.keep_method(regs, ins.a(), site);
                        }
                        enter!(ins.a(), ins.b(), closure);
                    } else {
                        let tag = receiver.tag();
                        if site.key.get() == tag as usize && (tag as u8) < Tag::Closure as u8 {
                            // SAFETY: set together with the key, to a static entry.
                            let builtin = unsafe { &*site.target.get().cast::<Builtin>() };
                            if let Run::Sync(f) = builtin.run {
                                let count = ins.b();
                                self.cx.0.caller.set(proto);
                                self.cx.0.call.set(pc);
                                // SAFETY: the arguments are in the frame.
                                let args =
                                    unsafe { std::slice::from_raw_parts_mut(regs.add(ins.a() + 1), count) };
                                save_pc!();
                                harn_value::steps::reads(args);
                                let result = check!(f(&self.cx, args));
                                check!(harn_value::memory::settle().map_err(Error::from));
                                settle!();
                                for i in 1..=count {
                                    reg!(ins.a() + i).release();
                                }
                                reg!(ins.a()).put(result);
                                continue;
                            }
                        }
                        called!(self.call_method(regs, ins.a(), ins.b(), site, proto));
                    }
                }
                Op::SetHas => {
                    let arg = &*reg!(ins.c());
                    let known = match (arg.as_int(), reg!(ins.b()).as_set()) {
                        (Some(int), Some(set)) => set.contains_int(int),
                        _ => None,
                    };
                    // SAFETY: the verifier checked that the `Jump` is there.
                    let jump = unsafe { *pc };
                    pc = unsafe { pc.add(1) };
                    if let Some(known) = known {
                        reg!(ins.a()).set_bool(known);
                        jump!(jump);
                    }
                }
                Op::SetAdd | Op::SetRemove => {
                    let int = reg!(ins.b()).as_int();
                    let set = reg!(ins.a()).as_set_mut().and_then(Ref::get_mut);
                    // SAFETY: as above.
                    let jump = unsafe { *pc };
                    pc = unsafe { pc.add(1) };
                    if let (Some(int), Some(set)) = (int, set) {
                        let done =
                            if ins.op() == Op::SetAdd { set.insert_int(int) } else { set.remove_int(int) };
                        if done {
                            jump!(jump);
                        }
                    }
                }
                Op::CallSpread => called!(self.call_spread(regs, ins.a(), ins.c(), proto)),
                Op::CallBuiltinSpread => {
                    let Some(builtin) = Builtin::of(constant!(ins.c())) else { continue };
                    called!(self.call_builtin_spread(regs, ins.a(), builtin, proto));
                }
                Op::CallMethodSpread => {
                    // SAFETY: the verifier checked the number.
                    let site: *const MethodSite = unsafe { (*proto).methods.as_ptr().add(ins.c()) };
                    let site = unsafe { &*site };
                    called!(self.call_method_spread(regs, ins.a(), site, proto));
                }
                Op::TailCall => {
                    match Closure::of(reg!(ins.a())) {
                        Some(closure) if closure.hot.vm != self.vm => {
                            throw!(of_another_vm("function"));
                        }
                        Some(closure) if !closure.proto.generator => {
                            save_pc!();
                            let target: *const Proto = Rc::as_ptr(&closure.proto);
                            let closure: *const Closure = closure;
                            // SAFETY: functions live as long as the VM.
                            let target_ref = unsafe { &*target };
                            let count = ins.b();
                            let at = self.co.frames.len() - 1;
                            // SAFETY: there is a frame.
                            let base = unsafe { self.co.frames.get_unchecked(at).base } as usize;
                            // Move callee and arguments down; clear the other registers of the frame.
                            for i in 0..=count {
                                let v = reg!(ins.a() + i).take();
                                // SAFETY: the register before the frame receives the callee and holds it.
                                unsafe { (*regs.add(i).sub(1)).put(v) };
                            }
                            // SAFETY: the registers of the running function.
                            let size = unsafe { (*proto).registers as usize };
                            for i in count..size {
                                reg!(i).put(Value::NIL);
                            }
                            let top = base + (target_ref.registers as usize).max(count) + 1;
                            if top > self.co.stack.len() {
                                if let Err(e) = self.co.grow(top) {
                                    return Event::Throw(e);
                                }
                            }
                            // SAFETY: inside the stack.
                            regs = unsafe { self.co.stack.as_mut_ptr().add(base) };
                            if count != target_ref.params as usize || target_ref.rest {
                                // SAFETY: room was made above.
                                unsafe { bind_args(target_ref, regs, count) };
                            }
                            proto = target;
                            consts = target_ref.hot.consts;
                            pc = target_ref.hot.code;
                            // SAFETY: there is a frame.
                            let frame = unsafe { self.co.frames.get_unchecked_mut(at) };
                            frame.proto = target;
                            frame.closure = closure;
                            frame.pc = pc;
                            self.fuel -= 1;
                            if self.fuel == 0 {
                                return Event::Pause;
                            }
                            if self.cleanups.pending() {
                                return Event::Continue;
                            }
                        }
                        Some(closure) => enter!(ins.a(), ins.b(), closure),
                        None => called!(self.call_other(regs, ins.a(), ins.b(), ins.c(), proto)),
                    }
                }
                Op::Return | Op::ReturnNil => {
                    let result = if ins.op() == Op::Return { reg!(ins.a()).take() } else { Value::NIL };
                    // SAFETY: the registers of the running function.
                    let size = unsafe { (*proto).hot.scanned as usize };
                    let mut tags = 0;
                    for i in 0..size {
                        tags |= reg!(i).tag_bits();
                    }
                    if tags & Value::HEAP_BITS != 0 {
                        // The variable declared last is dropped first, as everywhere.
                        for i in (0..size).rev() {
                            reg!(i).release();
                        }
                    }
                    // SAFETY: the frame of the running function exists; its memory stays allocated.
                    let frame = unsafe {
                        let at = (&(*co).frames).len() - 1;
                        frames!().set_len(at);
                        (&(*co).frames).as_ptr().add(at)
                    };
                    let flags = unsafe { (*frame).flags };
                    if flags != 0 {
                        // SAFETY: the callee's register.
                        unsafe { (*regs.sub(1)).put(Value::NIL) };
                        if flags & LOOP != 0 {
                            match self.return_to_loop(result) {
                                Some(event) => return event,
                                None => load_frame!(),
                            }
                            if tags & Value::HEAP_BITS != 0 && self.cleanups.pending() {
                                return Event::Continue;
                            }
                            self.fuel -= 1;
                            if self.fuel == 0 {
                                return Event::Pause;
                            }
                            continue;
                        }
                        return if flags & TO_NATIVE != 0 {
                            Event::ToNative(result)
                        } else {
                            Event::Done(result)
                        };
                    }
                    // SAFETY: the register before the frame belongs to the caller, a function of the program whose
                    // frame is below: this frame is not the first (`ENTRY`) and was not pushed by a native function.
                    unsafe {
                        (*regs.sub(1)).put_counted(result);
                        let caller = frame.sub(1);
                        pc = (*caller).pc;
                        proto = (*caller).proto;
                        consts = (*proto).hot.consts;
                        regs = stack!().as_mut_ptr().add((*caller).base as usize);
                    }
                    if tags & Value::HEAP_BITS != 0 && self.cleanups.pending() {
                        return Event::Continue;
                    }
                }
                Op::Closure => {
                    // SAFETY: the verifier checked the number.
                    let child = unsafe { (&(*proto).protos).get_unchecked(ins.c()) };
                    let closure = self.capture(child, regs);
                    reg!(ins.a()).put(closure);
                }

                Op::NewList => {
                    let count = ins.c();
                    let mut items = Vec::with_capacity(count);
                    for i in 0..count {
                        items.push(reg!(ins.b() + i).take());
                    }
                    reg!(ins.a()).put(Value::list(items));
                }
                Op::Append => {
                    let v = reg!(ins.b()).take();
                    let list = reg!(ins.a());
                    if let Some(items) = list.as_list_mut().and_then(Ref::get_mut)
                        && items.len() < items.capacity()
                    {
                        items.push(v);
                    } else {
                        check!(ops::append(list, v));
                    }
                }
                Op::ListPush => {
                    if let Some(list) = reg!(ins.a()).as_list_mut() {
                        if list.len() > 1 << 16 {
                            check!(ops::room_to_push(list));
                        }
                        let v = reg!(ins.b()).take();
                        list.make_mut().push(v);
                    }
                }
                Op::ListSpread => {
                    let v = reg!(ins.b()).take();
                    match spread_items(&v) {
                        Spread::Items(items) => {
                            check!(
                                harn_value::memory::check(items.len() * size_of::<Value>())
                                    .map_err(Error::from)
                            );
                            if let Some(list) = reg!(ins.a()).as_list_mut() {
                                list.make_mut().extend(items);
                            }
                            settle!();
                        }
                        Spread::Iter(iter) => {
                            // The future returns the list in the register of the spread value; the list then moves to
                            // its own register.
                            let list = reg!(ins.a()).take();
                            let cx = self.cx.clone();
                            let future: NativeFuture = Box::pin(async move {
                                let mut items = list;
                                while let Some(item) = iter.next(&cx).await? {
                                    if let Some(list) = items.as_list_mut() {
                                        crate::iter::drain::room_for_one(list.len(), list.capacity())?;
                                        list.make_mut().push(item);
                                        if list.len() % 4096 == 0 {
                                            cx.give_way().await?;
                                        }
                                    }
                                }
                                Ok(items)
                            });
                            save_pc!();
                            // SAFETY: both point into the stack.
                            let register = unsafe { regs.add(ins.a()).offset_from(self.co.stack.as_ptr()) };
                            return Event::Native(future, register as u32 + 1);
                        }
                        Spread::No => throw!(ops::expect_pattern(&v, false)),
                    }
                }
                Op::NewDict => {
                    let dict = harn_value::Dict::with_capacity(ins.c().min(64));
                    reg!(ins.a()).put(Value::dict(dict));
                }
                Op::DictSetK => {
                    let v = reg!(ins.b()).take();
                    let key = constant!(ins.c()).as_str();
                    if let (Some(dict), Some(key)) = (reg!(ins.a()).as_dict_mut(), key) {
                        dict.make_mut().insert(key.clone(), v);
                    }
                }
                Op::DictSet => {
                    save_pc!();
                    let key = ops::key_text(reg!(ins.b()));
                    let v = reg!(ins.c()).take();
                    if let Some(dict) = reg!(ins.a()).as_dict_mut() {
                        dict.make_mut().insert(key, v);
                    }
                }
                Op::DictSpread => {
                    let v = reg!(ins.b()).take();
                    if v.as_dict().is_some() && reg!(ins.a()).as_dict().is_some_and(|dict| dict.is_empty()) {
                        // Shared until one of them changes; moved if the other reference is gone.
                        reg!(ins.a()).put(v);
                        continue;
                    }
                    let Some(more) = v.to_dict() else { throw!(ops::expect_pattern(&v, true)) };
                    if let Some(dict) = reg!(ins.a()).as_dict_mut() {
                        dict.make_mut().spread(&more);
                    }
                }
                Op::NewStruct => {
                    // SAFETY: the verifier checked the number.
                    let ty = unsafe { (&(*proto).structs).get_unchecked(ins.c()) }.clone();
                    // SAFETY: the fields are in the frame.
                    let slots = take_values(unsafe { regs.add(ins.b()) }, ty.fields.len());
                    reg!(ins.a()).put(StructValue { ty, slots, extra: None }.into());
                }
                Op::StructFromDict => {
                    // SAFETY: as above.
                    let ty = unsafe { (&(*proto).structs).get_unchecked(ins.c()) };
                    let v = check!(construct(ty, reg!(ins.b()).take()));
                    reg!(ins.a()).put(v);
                }
                Op::NewEnum => {
                    let (count, k) = (ins.b(), ins.c());
                    let Some(model) = constant!(k & (TAKE as usize - 1)).as_enum() else { continue };
                    let fields = if k & TAKE as usize != 0 {
                        reg!(count).as_list().map(|l| l.iter().cloned().collect()).unwrap_or_default()
                    } else {
                        // SAFETY: the payload is in the frame.
                        take_values(unsafe { regs.add(ins.a() + 1) }, count)
                    };
                    let v = EnumValue { ty: model.ty.clone(), variant: model.variant, fields };
                    reg!(ins.a()).put(v.into());
                }
                Op::Interp => {
                    save_pc!();
                    let (first, count) = (ins.b(), ins.c());
                    let mut text = std::mem::take(&mut self.text);
                    text.clear();
                    for i in 0..count {
                        let part = reg!(first + i);
                        harn_value::print(part, &mut text);
                        part.put(Value::NIL);
                    }
                    if text.len() > 1 << 16 {
                        check!(harn_value::memory::check(text.len()).map_err(Error::from));
                    }
                    let v = Value::str(&text);
                    self.text = text;
                    settle!();
                    reg!(ins.a()).put(v);
                }
                Op::NewRange | Op::NewRangeExclusive => {
                    let exclusive = ins.op() == Op::NewRangeExclusive;
                    let range = check!(ops::range(reg!(ins.b()), reg!(ins.c()), exclusive));
                    reg!(ins.a()).put(Value::range(range));
                }

                Op::GetField => {
                    let object = &*reg!(ins.b());
                    if let Some(s) = object.as_struct() {
                        // SAFETY: the verifier checked the number.
                        let site = unsafe { (&(*proto).fields).get_unchecked(ins.c()) };
                        if site.ty.get() == s.ty.address() {
                            if let Some(v) = s.slots.get(site.slot.get() as usize)
                                && !v.is_absent()
                            {
                                let v = v.clone();
                                reg!(ins.a()).put_counted(v);
                                continue;
                            }
                        } else if let Some(name) = constant!(ins.c()).as_str() {
                            site.remember(&s.ty, name);
                        }
                    }
                    let Some(name) = constant!(ins.c()).as_str() else { continue };
                    if let Some(d) = reg!(ins.b()).as_dict()
                        && let Some(v) = d.get(name)
                    {
                        let v = v.clone();
                        reg!(ins.a()).put_counted(v);
                        continue;
                    }
                    let v = match reg!(ins.b()).view() {
                        View::Struct(s) => s.get(name).cloned().unwrap_or_default(),
                        View::Dict(_) => check!(self.no_field(reg!(ins.b()), name)),
                        _ => match ops::get_field(reg!(ins.b()), name) {
                            Ok(v) => v,
                            Err(_) => check!(self.no_field(reg!(ins.b()), name)),
                        },
                    };
                    reg!(ins.a()).put(v);
                }
                Op::GetFieldTake => {
                    let Some(name) = constant!(ins.c()).as_str() else { continue };
                    let v = match ops::get_field(reg!(ins.b()), name) {
                        Ok(v) if !v.is_nil() => v,
                        _ => check!(self.no_field(reg!(ins.b()), name)),
                    };
                    reg!(ins.b()).release();
                    reg!(ins.a()).put(v);
                }
                Op::GetFieldOpt => {
                    let Some(name) = constant!(ins.c()).as_str() else { continue };
                    let v = match ops::get_field(reg!(ins.b()), name) {
                        Ok(v) => v,
                        Err(error) if ops::is_result(reg!(ins.b())) => check!(Err::<Value, _>(error)),
                        Err(_) => Value::NIL,
                    };
                    reg!(ins.a()).put(v);
                }
                Op::GetIndex => {
                    let index = &*reg!(ins.c());
                    if index.tag() == Tag::Int
                        && let Some(items) = reg!(ins.b()).as_list()
                        && let Some(item) = items.get(index.int_bits() as usize)
                    {
                        let item = item.clone();
                        reg!(ins.a()).put_counted(item);
                    } else {
                        save_pc!();
                        let v = check!(get_index_odd(reg!(ins.b()), index));
                        reg!(ins.a()).put_counted(v);
                    }
                }
                Op::GetIndexTake => {
                    let v = get_index_fast(reg!(ins.b()), reg!(ins.c()));
                    let v = match v {
                        Some(v) => v,
                        None => {
                            save_pc!();
                            check!(ops::get_index(reg!(ins.b()), reg!(ins.c())))
                        }
                    };
                    reg!(ins.b()).release();
                    reg!(ins.a()).put_counted(v);
                }
                Op::Slice => {
                    save_pc!();
                    if ins.a() == ins.b() {
                        check!(ops::slice_in_place(reg!(ins.a()), reg!(ins.c()), reg!(ins.c() + 1)));
                    } else {
                        let v = check!(ops::slice(reg!(ins.b()), reg!(ins.c()), reg!(ins.c() + 1)));
                        reg!(ins.a()).put(v);
                    }
                    settle!();
                }
                Op::SetField => {
                    let k = ins.c();
                    let Some(name) = constant!(k & (GROWN as usize - 1)).as_str() else { continue };
                    let v = if k & TAKE as usize != 0 { reg!(ins.b()).take() } else { reg!(ins.b()).clone() };
                    // SAFETY: used immediately.
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    check!(ops::set_field(place, name, v, k & GROWN as usize != 0));
                    settle!();
                }
                Op::SetIndex => {
                    let c = ins.c();
                    let value = c & (TAKE as usize - 1);
                    let v = if c & TAKE as usize != 0 { reg!(value).take() } else { reg!(value).clone() };
                    // SAFETY: used immediately.
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    let index = &*reg!(ins.b());
                    if index.tag() == Tag::Int
                        && let Some(list) = place.as_list_mut()
                        && let Some(items) = list.get_mut()
                        && let Some(slot) = items.get_mut(index.int_bits() as usize)
                    {
                        slot.put(v);
                    } else if index.tag() == Tag::Int
                        && let Some(dict) = place.as_dict_mut()
                        && let Some(entries) = dict.get_mut()
                        && let Some(slot) = entries.known_int_mut(index.int_bits())
                    {
                        slot.put(v);
                    } else {
                        save_pc!();
                        check!(ops::set_index(place, index, v));
                        settle!();
                    }
                }
                Op::SetPath => {
                    save_pc!();
                    let c = ins.c();
                    // SAFETY: the verifier checked the number.
                    let path = unsafe { (&(*proto).paths).get_unchecked(c & (GROWN as usize - 1)) };
                    let v = if c & TAKE as usize != 0 { reg!(ins.b()).take() } else { reg!(ins.b()).clone() };
                    // SAFETY: used immediately.
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    check!(ops::set_path(place, path, regs, v, c & GROWN as usize != 0));
                    settle!();
                }
                Op::GetPath => {
                    save_pc!();
                    // SAFETY: as above.
                    let path = unsafe { (&(*proto).paths).get_unchecked(ins.c()) };
                    let place = unsafe { ops::place(regs.add(ins.b())) };
                    let v = check!(ops::get_path(place, path, regs));
                    reg!(ins.a()).put(v);
                }
                Op::ReleasePath => {
                    // SAFETY: as above.
                    if !reg!(ins.b()).is_heap() {
                        continue;
                    }
                    save_pc!();
                    let path = unsafe { (&(*proto).paths).get_unchecked(ins.c()) };
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    ops::release_path(place, path, regs, reg!(ins.b()), reg!(ins.b() + 1));
                }
                Op::AddPath => {
                    save_pc!();
                    // SAFETY: the verifier checked the number, and that the `Jump` is there.
                    let path = unsafe { (&(*proto).paths).get_unchecked(ins.c()) };
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    let jump = unsafe { *pc };
                    pc = unsafe { pc.add(1) };
                    if ops::add_at_path(place, path, regs, reg!(ins.b())) {
                        jump!(jump);
                    }
                }
                Op::AddToCell => {
                    let right = ins.c();
                    // SAFETY: used immediately.
                    let place = unsafe { ops::place(regs.add(ins.a())) };
                    let old = reg!(ins.b());
                    if old.tag() == Tag::Int
                        && reg!(right).tag() == Tag::Int
                        && let Some(sum) = old.int_bits().checked_add(reg!(right).int_bits())
                    {
                        place.set_int(sum);
                        continue;
                    }
                    let released = place.same(old) && ops::appends(old, reg!(right));
                    if released {
                        place.put(Value::NIL);
                    }
                    save_pc!();
                    let added = ops::add_assign(old, reg!(right));
                    if added.is_ok() || released {
                        let v = old.take();
                        place.put(v);
                    }
                    check!(added);
                    settle!();
                }

                Op::ExpectDict => {
                    let v = &*reg!(ins.a());
                    if v.as_dict().is_none() && v.as_struct().is_none() {
                        throw!(ops::expect_pattern(v, true));
                    }
                }
                Op::ExpectList => {
                    let v = &*reg!(ins.a());
                    if v.as_list().is_none() {
                        throw!(ops::expect_pattern(v, false));
                    }
                }
                Op::PatternField => {
                    let Some(name) = constant!(ins.c()).as_str() else { continue };
                    let v = ops::pattern_field(reg!(ins.b()), name);
                    reg!(ins.a()).put(v);
                }
                Op::PatternItem => {
                    let v = reg!(ins.b()).as_list().and_then(|l| l.get(ins.c()).cloned()).unwrap_or_default();
                    reg!(ins.a()).put(v);
                }
                Op::RestDict => {
                    let v = ops::rest_dict(reg!(ins.b()), constant!(ins.c()));
                    reg!(ins.a()).put(v);
                }
                Op::RestList => {
                    let rest = reg!(ins.b()).as_list().and_then(|l| l.get(ins.c()..).map(<[Value]>::to_vec));
                    reg!(ins.a()).put(Value::list(rest.unwrap_or_default()));
                }
                Op::SplitPair => {
                    let (first, second) = check!(ops::split_pair(reg!(ins.b())));
                    reg!(ins.a()).put(first);
                    reg!(ins.a() + 1).put(second);
                }
                Op::JumpNotDict => {
                    let v = &*reg!(ins.a());
                    branch!(ins, v.as_dict().is_none() && v.as_struct().is_none());
                }
                Op::JumpNotList => {
                    branch!(ins, reg!(ins.a()).as_list().is_none_or(|l| l.len() < ins.b()));
                }
                Op::JumpNotVariant => {
                    let hit = match (reg!(ins.a()).as_enum(), constant!(ins.b()).as_enum()) {
                        (Some(v), Some(model)) => same_variant(v, model),
                        _ => false,
                    };
                    branch!(ins, !hit);
                }
                Op::JumpNotVariantOf => {
                    let hit = match (reg!(ins.a()).as_enum(), reg!(ins.b()).as_enum()) {
                        (Some(v), Some(model)) => same_variant(v, model),
                        _ => false,
                    };
                    branch!(ins, !hit);
                }
                Op::JumpNotAppends => {
                    let hit = ops::appends(reg!(ins.a()), reg!(ins.b()));
                    branch!(ins, !hit);
                }
                Op::EnumField => {
                    let v = reg!(ins.b())
                        .as_enum()
                        .and_then(|e| e.fields.get(ins.c()).cloned())
                        .unwrap_or_default();
                    reg!(ins.a()).put(v);
                }

                Op::Throw => throw!(Error::thrown(reg!(ins.a()).clone())),
                Op::Fail => {
                    save_pc!();
                    let text = constant!(ins.c()).to_string();
                    throw!(match ins.b() as u16 {
                        k if k == FailKind::Runtime as u16 => Error::runtime(text),
                        k if k == FailKind::Type as u16 => Error::type_error(text),
                        k if k == FailKind::Plain as u16 => Error::plain(text),
                        _ => Error::thrown(text),
                    });
                }
                Op::Rethrow => throw!(Held::take(reg!(ins.a()))),
                Op::CaughtValue => {
                    save_pc!();
                    let v = Held::caught(reg!(ins.b()));
                    reg!(ins.a()).put(v);
                }
                Op::JumpNotCaught => {
                    let ty = reg!(ins.b()).as_str();
                    let hit = ty.is_some_and(|ty| ops::catches(reg!(ins.a()), ty));
                    branch!(ins, !hit);
                }
                Op::WrapOk => {
                    let v = reg!(ins.b()).take();
                    let v =
                        if v.as_enum().is_some_and(|e| e.as_result().is_some()) { v } else { Value::ok(v) };
                    reg!(ins.a()).put(v);
                }
                Op::WrapErr => {
                    let v = Value::err(reg!(ins.b()).take());
                    reg!(ins.a()).put(v);
                }
                Op::Propagate => match reg!(ins.b()).as_enum().and_then(|e| e.as_result()) {
                    Some(Ok(payload)) => reg!(ins.a()).put(payload),
                    Some(Err(_)) => jump!(ins),
                    None => throw!(Error::type_error(format!(
                        "? operator requires a Result value, got {}",
                        reg!(ins.b()).type_name()
                    ))),
                },
                Op::CheckType => {
                    let value = &*reg!(ins.a());
                    if ins.b() >> value.tag() as usize & 1 == 0 {
                        // SAFETY: the verifier checked the number.
                        let annotation = unsafe { (&(*proto).checks).get_unchecked(ins.c()) };
                        save_pc!();
                        check!(annotation.check(value));
                    }
                }
                Op::Yield => {
                    let mut v = reg!(ins.a()).take();
                    save_pc!();
                    return if self.yield_to_loop(&mut v) { Event::Switched } else { Event::Yield(v) };
                }
                Op::AddMethod => {
                    // SAFETY: as above.
                    let ty = unsafe { (&(*proto).structs).get_unchecked(ins.c()) };
                    if let Some(name) = reg!(ins.b()).as_str() {
                        let method = reg!(ins.a()).clone();
                        // SAFETY: a replaced method starts a new epoch below, and running calls hold it.
                        let old = unsafe { ty.set_method(name.clone(), method) };
                        // A method without captured variables is always the same value, however often its block runs.
                        // Running calls of a replaced method hold it: see `CallMethod`.
                        if old.is_some_and(|old| !old.same(reg!(ins.a()))) {
                            let epoch = &self.cx.0.vm.method_epoch;
                            epoch.set(epoch.get() + 1);
                        }
                    }
                }
                Op::ExpectCallable => {
                    let v = &*reg!(ins.a());
                    if !acts_as_function(v) {
                        throw!(Error::type_error(format!("cannot pipe into {}", v.type_name())));
                    }
                }
            }
        }
    }

    /// Returns the current address of the topmost frame's registers.
    #[inline(always)]
    fn registers(&mut self) -> *mut Value {
        let base = self.co.frames.last().map_or(0, |f| f.base) as usize;
        // SAFETY: a frame's registers are inside the stack.
        unsafe { self.co.stack.as_mut_ptr().add(base) }
    }

    /// Makes room for one more frame and for registers up to `top`.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, top: usize) -> Result<()> {
        if self.co.frames.len() >= MAX_FRAMES {
            return Err(stack_overflow());
        }
        self.co.frames.reserve(1);
        if top > self.co.stack.len() { self.co.grow(top) } else { Ok(()) }
    }

    /// Calls a generator function (returns false: its result is in place), or a function whose arguments have to be
    /// rearranged first (returns true: its frame is on top).
    #[inline(never)]
    fn enter_odd(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        closure: *const Closure,
    ) -> Result<bool> {
        // SAFETY: functions live as long as the VM.
        let callee = unsafe { &*Rc::as_ptr(&(*closure).proto) };
        if callee.generator {
            self.call_generator(regs, a, count, callee);
            return Ok(false);
        }
        if self.co.frames.len() >= MAX_FRAMES {
            return Err(stack_overflow());
        }
        // SAFETY: both point into the stack.
        let base = unsafe { regs.add(a + 1).offset_from(self.co.stack.as_ptr()) } as usize;
        let top = base + (callee.registers as usize).max(count) + 1;
        if top > self.co.stack.len() {
            self.co.grow(top)?;
        }
        // SAFETY: room was made above.
        unsafe { bind_args(callee, self.co.stack.as_mut_ptr().add(base), count) };
        let pc = callee.hot.code;
        self.co.frames.push(Frame { proto: callee, closure, pc, base: base as u32, flags: 0 });
        Ok(true)
    }

    /// Creates the closure over `child` in the running function. (A separate function: a Rust closure over `regs` or
    /// `self` would force those into memory for the whole loop.)
    #[inline(never)]
    fn capture(&self, child: &Rc<Proto>, regs: *const Value) -> Value {
        let captured = |capture: &Capture| match *capture {
            // SAFETY: the verifier checked the register.
            Capture::Local(r) => unsafe { (*regs.add(r as usize)).clone() },
            Capture::Up(i) => self.upvalue(i as usize).clone(),
        };
        Closure::value(child.clone(), child.captures.iter().map(captured).collect())
    }

    #[inline(always)]
    fn upvalue(&self, index: usize) -> &Value {
        let at = self.co.frames.len() - 1;
        // SAFETY: only functions with captures use this, and they run as closures; the verifier checked the number
        // against the captures.
        unsafe { (&(*self.co.frames.get_unchecked(at).closure).upvalues).get_unchecked(index) }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "module variables are shared cells of a single-threaded program")]
    fn global(&self, module: usize, index: usize) -> &mut Value {
        // The tables have the length of the VM's (see `Fiber::globals`), from which the compiler got the numbers.
        debug_assert!(self.globals.get(module).is_some_and(|g| unsafe { (&**g).len() } > index));
        // SAFETY: by the lines above; no reference outlives an instruction.
        unsafe { (&mut **self.globals.get_unchecked(module)).get_unchecked_mut(index) }
    }

    #[cold]
    fn undefined_global(&self, module: usize, index: usize) -> Error {
        let name = self.cx.0.vm.global_name(module, index);
        Error::plain(format!("Undefined variable: {name}"))
    }
}

/// Takes `count` values out of registers.
#[inline(never)]
fn take_values<A: smallvec::Array<Item = Value>>(from: *mut Value, count: usize) -> smallvec::SmallVec<A> {
    // SAFETY: callers name registers of the running function.
    (0..count).map(|i| unsafe { (*from.add(i)).take() }).collect()
}

#[inline(never)]
fn greater(l: &Value, r: &Value) -> Result<bool> {
    ops::less(r, l)
}

#[inline(never)]
fn greater_equal(l: &Value, r: &Value) -> Result<bool> {
    ops::less_equal(r, l)
}

#[inline(never)]
#[allow(clippy::unnecessary_wraps, reason = "used where comparisons may fail")]
fn same(l: &Value, r: &Value) -> Result<bool> {
    Ok(l == r)
}

#[cold]
fn undefined(name: &Value) -> Error {
    Error::plain(format!("Undefined variable: {name}"))
}

#[inline(always)]
fn get_index_fast(v: &Value, index: &Value) -> Option<Value> {
    if let Some(items) = v.as_list() {
        return if index.tag() == Tag::Int { items.get(index.int_bits() as usize).cloned() } else { None };
    }
    let d = v.as_dict()?;
    let found = match index.as_str() {
        Some(key) => d.get(key),
        None => d.get_int(index.as_int()?),
    };
    Some(found.cloned().unwrap_or_default())
}

/// Slow path of `v[index]` for anything but an item of a list. A separate function, so that the fast path needs few
/// machine registers: with one more, the address of the next instruction would be spilled to memory.
#[inline(never)]
fn get_index_odd(v: &Value, index: &Value) -> Result<Value> {
    match get_index_fast(v, index) {
        Some(v) => Ok(v),
        None => ops::get_index(v, index),
    }
}

/// Slow path of `to = l + r` for anything but two numbers of the same type; a separate function like [`get_index_odd`].
/// A string or list that grows in place is not copied.
///
/// # Safety
/// All three are live, and no other reference into them is held; `to` may be `l` or `r`.
#[inline(never)]
unsafe fn add_odd(to: *mut Value, l: *const Value, r: *const Value) -> Result<()> {
    // SAFETY: by contract; `l` and `r` are not used after `to` is written.
    unsafe {
        if std::ptr::eq(to, l) && !std::ptr::eq(l, r) && (*l).is_heap() {
            return ops::add_assign(&mut *to, &*r);
        }
        let v = ops::arith(Arith::Add, &*l, &*r)?;
        (*to).put(v);
    }
    Ok(())
}

#[inline(always)]
fn same_variant(a: &Ref<EnumValue>, b: &Ref<EnumValue>) -> bool {
    if Ref::same(&a.ty, &b.ty) {
        return a.variant == b.variant;
    }
    a.ty.name == b.ty.name && a.variant_name() == b.variant_name()
}
