//! Slow paths of calls: native functions, methods looked up by name, values that are not closures, spread arguments.
//!
//! The safety of the `unsafe` blocks follows from the invariants at the top of `interp.rs`.

#![allow(clippy::needless_borrow, reason = "references to what a raw pointer points at are made visibly")]

use harn_value::{List, Ref, Str, StructValue, Tag, Value, View, memory, short, steps};

use crate::builtin::{Builtin, NativeFuture, Run};
use crate::bytecode::{MethodSite, Proto};
use crate::call_loop::Advance;
use crate::closure::{Closure, Constructor, Partial, is_callable};
use crate::coroutine::{Frame, NATIVE, Native, bind_args, stack_overflow};
use crate::error::{Error, Result, SHOWN};
use crate::fiber::{Fiber, MAX_FRAMES, construct};
use crate::interp::Event;
use crate::vm_id::of_another_vm;

/// Outcome of a slow-path call.
pub(crate) enum Called {
    /// The result is in place.
    Value,
    /// A frame was pushed.
    Frame,
    /// A native function that may have to wait.
    Native(NativeFuture, u32),
    /// A native function that calls functions was pushed.
    Pushed,
}

impl Fiber {
    #[cold]
    #[inline(never)]
    pub(crate) fn call_generator(&mut self, regs: *mut Value, a: usize, count: usize, proto: &Proto) {
        // SAFETY: callee and arguments are in the frame.
        unsafe {
            let at = regs.add(a);
            let callee = (*at).take();
            // A function called directly has no callee register: its closure carries no captures.
            let callee = if Closure::of(&callee).is_some_and(|c| std::ptr::eq(&raw const *c.proto, proto)) {
                callee
            } else {
                self.closure_for(proto, &*at.add(1))
            };
            let args: Vec<Value> = (1..=count).map(|i| (*at.add(i)).take()).collect();
            (*at).put(self.make_generator(proto, callee, args.into_iter()));
        }
    }

    /// Returns the closure value of a function that was called without one in a register.
    pub(crate) fn closure_for(&self, proto: &Proto, receiver: &Value) -> Value {
        if let Some(s) = receiver.as_struct() {
            let is_it = |m: &Value| Closure::of(m).is_some_and(|c| std::ptr::eq(&raw const *c.proto, proto));
            if let Some(method) = s.ty.find_method(is_it) {
                return method;
            }
        }
        self.cx.0.vm.function_of(proto)
    }

    /// Calls a value that is not a closure of this VM.
    #[inline(never)]
    pub(crate) fn call_other(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        name: usize,
        proto: *const Proto,
    ) -> Result<Called> {
        // SAFETY: the callee is in the frame.
        let callee = unsafe { (*regs.add(a)).clone() };
        if let Some(builtin) = Builtin::of(&callee) {
            return self.call_native(regs, a, count, builtin, proto);
        }
        if Closure::of(&callee).is_some() {
            return Err(of_another_vm("function"));
        }
        if let Some(ctor) = callee.downcast::<Constructor>() {
            // SAFETY: the argument is in the frame when there is one.
            let fields = if count > 0 { unsafe { (*regs.add(a + 1)).take() } } else { Value::NIL };
            let v = construct(&ctor.0, fields)?;
            unsafe { (*regs.add(a)).put(v) };
            return Ok(Called::Value);
        }
        if let Some(partial) = callee.downcast::<Partial>() {
            // SAFETY: the arguments are in the frame.
            let given = unsafe { std::slice::from_raw_parts_mut(regs.add(a + 1), count) };
            let mut args = partial.arguments(given.iter_mut().map(Value::take));
            return self.start_native(regs, a, partial.builtin, &mut args, proto);
        }
        if let Some(at) = name.checked_sub(1) {
            // A variable that cannot be called does not shadow the builtin of its name, unless it is the tool of that
            // name. SAFETY: the compiler put the name's constant there.
            let name = unsafe { (&(*proto).consts).get(at).and_then(Value::as_str).cloned() };
            let name = name.filter(|name| !crate::closure::is_tool(&callee, name));
            if let Some(builtin) = name.and_then(|n| self.cx.0.vm.builtin(&n)) {
                return self.call_native(regs, a, count, builtin, proto);
            }
        }
        if let Some(builtin) = crate::closure::tool_caller(&self.cx.0.vm, &callee) {
            // SAFETY: the arguments are in the frame.
            let given = unsafe { std::slice::from_raw_parts_mut(regs.add(a + 1), count) };
            let mut args: Vec<Value> =
                std::iter::once(callee).chain(given.iter_mut().map(Value::take)).collect();
            return self.start_native(regs, a, builtin, &mut args, proto);
        }
        Err(Error::type_error(format!("Cannot call {}", short(&callee, SHOWN))))
    }

    /// Passes a result to the topmost loop. Returns `None` if a frame of the program is on top afterwards.
    pub(crate) fn return_to_loop(&mut self, result: Value) -> Option<Event> {
        let result = match self.advance_loop(Some(result)) {
            Ok(Advance::Frame) => return None,
            Ok(Advance::Native) => return Some(Event::Continue),
            Ok(Advance::Done(value)) => Ok(value),
            Err(error) => Err(error),
        };
        self.pop_native();
        match (result, self.co.frames.last()) {
            (Ok(value), Some(&Frame { base, flags: NATIVE, .. })) => {
                // Called by a function of the program, whose frame is below.
                self.co.frames.pop();
                self.co.stack[base as usize - 1].put(value);
                None
            }
            (result, _) => Some(Event::Returned(result)),
        }
    }

    pub(crate) fn call_native(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        builtin: &'static Builtin,
        proto: *const Proto,
    ) -> Result<Called> {
        // SAFETY: the arguments are in the frame.
        let args = unsafe { std::slice::from_raw_parts_mut(regs.add(a + 1), count) };
        let called = self.start_native(regs, a, builtin, args, proto)?;
        args.iter_mut().for_each(|v| v.put(Value::NIL));
        Ok(called)
    }

    /// Runs or starts a native function, which may move the arguments out; its result goes to register `a`.
    fn start_native(
        &mut self,
        regs: *mut Value,
        a: usize,
        builtin: &'static Builtin,
        args: &mut [Value],
        proto: *const Proto,
    ) -> Result<Called> {
        self.cx.0.caller.set(proto);
        self.cx.0.call.set(self.co.frames.last().map_or(std::ptr::null(), |frame| frame.pc));
        if !builtin.takes(args.len()) {
            return Err(builtin.wrong_count(args.len()));
        }
        if self.cx.0.vm.gate().active.get() {
            self.cx.permit(builtin, args)?;
        }
        // SAFETY: both point into the stack.
        let base = unsafe { regs.add(a).offset_from(self.co.stack.as_ptr()) } as u32 + 1;
        match builtin.run {
            Run::Sync(f) => {
                steps::reads(args);
                let result = f(&self.cx, args)?;
                memory::settle()?;
                if steps::turn_is_due() {
                    self.end_slice();
                }
                // SAFETY: in the frame.
                unsafe { (*regs.add(a)).put(result) };
                Ok(Called::Value)
            }
            Run::Async(f) => {
                steps::reads(args);
                let future = f(self.cx.clone(), args.iter_mut().map(Value::take).collect());
                Ok(Called::Native(future, base))
            }
            Run::Loop(f) => {
                steps::reads(args);
                let calls = f(&self.cx, args)?;
                self.push_native(Native::Loop(calls), base, 0);
                Ok(Called::Pushed)
            }
        }
    }

    #[inline(never)]
    pub(crate) fn find_struct_method(&self, site: &MethodSite, s: &Ref<StructValue>, epoch: usize) -> bool {
        let Some(method) = s.ty.method(&site.name) else { return false };
        let Some(closure) = Closure::of(&method).filter(|closure| closure.hot.vm == self.vm) else {
            return false;
        };
        site.key.set(s.ty.address());
        site.epoch.set(epoch);
        site.target.set((&raw const *closure).cast());
        true
    }

    /// Stores the method that is about to be called in the callee's register `a`.
    #[cold]
    pub(crate) fn keep_method(&self, regs: *mut Value, a: usize, site: &MethodSite) {
        // SAFETY: callee and receiver are in the frame.
        unsafe {
            let method = (*regs.add(a + 1)).as_struct().and_then(|s| s.ty.method(&site.name));
            (*regs.add(a)).put(method.unwrap_or_default());
        }
    }

    /// Calls a method of a value that is not a struct with such a method.
    #[inline(never)]
    pub(crate) fn call_method(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        site: &MethodSite,
        proto: *const Proto,
    ) -> Result<Called> {
        // SAFETY: the receiver is in the frame.
        let receiver = unsafe { &*regs.add(a + 1) };
        match self.cx.0.vm.method(receiver.type_name(), &site.name) {
            Some(builtin) => {
                // The fast path does not check the number of arguments, which is constant for a call site.
                if receiver.tag() < Tag::Closure && builtin.takes(count) {
                    site.key.set(receiver.tag() as usize);
                    site.target.set((&raw const *builtin).cast());
                }
                self.call_native(regs, a, count, builtin, proto)
            }
            None => self.call_missing(regs, a, count, site, proto),
        }
    }

    /// Returns the result of `v.name` if there is no such property. If `name` is a method, the error suggests calling
    /// it.
    #[cold]
    #[inline(never)]
    pub(crate) fn no_field(&self, v: &Value, name: &Str) -> Result<Value> {
        let found = crate::ops::get_field(v, name);
        if matches!(&found, Ok(value) if !value.is_nil()) {
            return found;
        }
        let kind = v.type_name();
        let known = |name: &str| self.cx.0.vm.method(kind, name).is_some();
        match v.view() {
            // A dict may have a key `count` or `empty`, so a missing one is not reported as a forgotten call.
            View::Dict(_) if matches!(name.as_str(), "count" | "empty") => found,
            View::Dict(_) | View::List(_) | View::Str(_)
                if known(name) && (found.is_err() || v.as_dict().is_some()) =>
            {
                Err(Error::type_error(format!("`{name}` is a method of {kind}: call it, `.{name}()`")))
            }
            View::List(_) | View::Str(_) if found.is_ok() => found,
            View::List(_) | View::Str(_) => {
                let names = self.cx.0.vm.method_names(kind);
                let meant = match name.as_str() {
                    "length" | "size" => Some("len"),
                    name => crate::suggest::nearest(name, names)
                        .filter(|near| crate::suggest::distance(near, name) * 3 <= name.len()),
                };
                let hint = meant.map_or(String::new(), |meant| format!(" (did you mean `.{meant}()`?)"));
                Err(Error::type_error(format!("cannot access property `{name}` on {kind}{hint}")))
            }
            _ => found,
        }
    }

    /// Handles a call without built-in or `impl` method: calls a callable dict entry or struct field, or fails.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_missing(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        site: &MethodSite,
        proto: *const Proto,
    ) -> Result<Called> {
        // SAFETY: receiver and arguments are in the frame.
        let receiver = unsafe { (*regs.add(a + 1)).clone() };
        if receiver.as_struct().is_some_and(|s| s.ty.method(&site.name).is_some()) {
            return Err(of_another_vm("method"));
        }
        let stored = match receiver.view() {
            View::Dict(d) => d.get(&site.name).cloned(),
            View::Struct(s) => match self.cx.0.vm.method("struct", &site.name) {
                Some(builtin) if s.get(&site.name).is_none() => {
                    return self.call_native(regs, a, count, builtin, proto);
                }
                _ => s.get(&site.name).cloned(),
            },
            _ => None,
        };
        let Some(callee) = stored.filter(is_callable) else {
            if site.optional {
                // SAFETY: as above.
                unsafe {
                    (*regs.add(a)).put(Value::NIL);
                    for i in 1..=count {
                        (*regs.add(a + i)).put(Value::NIL);
                    }
                }
                return Ok(Called::Value);
            }
            return Err(Error::type_error(format!(
                "unknown method `{}` on {}",
                site.name,
                receiver.type_name()
            )));
        };
        // SAFETY: as above; the arguments move down over the receiver.
        unsafe {
            (*regs.add(a)).put(callee);
            for i in 1..count {
                let v = (*regs.add(a + i + 1)).take();
                (*regs.add(a + i)).put(v);
            }
            (*regs.add(a + count)).put(Value::NIL);
        }
        self.call_value(regs, a, count - 1, proto)
    }

    /// Calls the value in register `a`; pushes a frame if it is a closure.
    pub(crate) fn call_value(
        &mut self,
        regs: *mut Value,
        a: usize,
        count: usize,
        proto: *const Proto,
    ) -> Result<Called> {
        // SAFETY: the callee is in the frame; functions live as long as the VM.
        let callee = unsafe { (*regs.add(a)).clone() };
        let Some(closure) = Closure::of(&callee).filter(|closure| closure.hot.vm == self.vm) else {
            return self.call_other(regs, a, count, 0, proto);
        };
        let target: *const Proto = &raw const *closure.proto;
        let target_ref = unsafe { &*target };
        if target_ref.generator {
            self.call_generator(regs, a, count, target_ref);
            return Ok(Called::Value);
        }
        if self.co.frames.len() >= MAX_FRAMES {
            return Err(stack_overflow());
        }
        // SAFETY: both point into the stack.
        let base = unsafe { regs.add(a + 1).offset_from(self.co.stack.as_ptr()) } as usize;
        let top = base + (target_ref.registers as usize).max(count) + 1;
        if top > self.co.stack.len() {
            self.co.grow(top)?;
        }
        // SAFETY: room was made above.
        unsafe { bind_args(target_ref, self.co.stack.as_mut_ptr().add(base), count) };
        self.co.frames.push(Frame {
            proto: target,
            closure,
            pc: target_ref.code.as_ptr(),
            base: base as u32,
            flags: 0,
        });
        Ok(Called::Frame)
    }

    /// Copies the items of the list in register `list` to the registers from `from` on. Returns the register array
    /// (the stack may have moved) and the number of items.
    pub(crate) fn spread_args(
        &mut self,
        regs: *mut Value,
        from: usize,
        list: usize,
    ) -> Result<(*mut Value, usize)> {
        // SAFETY: the list is in the frame.
        let items = unsafe { (*regs.add(list)).take() };
        let items = items.as_list().cloned().unwrap_or_else(|| Ref::new(List::new()));
        let offset = unsafe { regs.offset_from(self.co.stack.as_ptr()) } as usize;
        let top = offset + from + items.len() + 2;
        if top > self.co.stack.len() {
            self.co.grow(top)?;
        }
        // SAFETY: inside the stack.
        let regs = unsafe { self.co.stack.as_mut_ptr().add(offset) };
        for (i, item) in items.iter().enumerate() {
            unsafe { (*regs.add(from + i)).put(item.clone()) };
        }
        Ok((regs, items.len()))
    }

    #[inline(never)]
    pub(crate) fn call_spread(
        &mut self,
        regs: *mut Value,
        a: usize,
        name: usize,
        proto: *const Proto,
    ) -> Result<Called> {
        let (regs, count) = self.spread_args(regs, a + 1, a + 1)?;
        // SAFETY: the callee is in the frame.
        if Closure::of(unsafe { &*regs.add(a) }).is_some() {
            self.call_value(regs, a, count, proto)
        } else {
            self.call_other(regs, a, count, name, proto)
        }
    }

    #[inline(never)]
    pub(crate) fn call_builtin_spread(
        &mut self,
        regs: *mut Value,
        a: usize,
        builtin: &'static Builtin,
        proto: *const Proto,
    ) -> Result<Called> {
        let (regs, count) = self.spread_args(regs, a + 1, a + 1)?;
        self.call_native(regs, a, count, builtin, proto)
    }

    #[inline(never)]
    pub(crate) fn call_method_spread(
        &mut self,
        regs: *mut Value,
        a: usize,
        site: &MethodSite,
        proto: *const Proto,
    ) -> Result<Called> {
        let (regs, count) = self.spread_args(regs, a + 2, a + 2)?;
        // SAFETY: the receiver is in the frame.
        let receiver = unsafe { (*regs.add(a + 1)).clone() };
        if let Some(s) = receiver.as_struct() {
            let method = s.ty.method(&site.name);
            if let Some(method) = method {
                // SAFETY: in the frame.
                unsafe { (*regs.add(a)).put(method) };
                return self.call_value(regs, a, count + 1, proto);
            }
            return self.call_missing(regs, a, count + 1, site, proto);
        }
        self.call_method(regs, a, count + 1, site, proto)
    }
}
