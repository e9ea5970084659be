//! Calls: functions, builtins, methods, pipes, and the language constructs that are compiled to calls of internal
//! builtins (`spawn`, `parallel`, `select`, `deadline`).

use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_value::Value;

use super::Compiler;
use super::effects::Effects;
use super::expr::variable_name;
use super::scope::{Binding, Exit, Guard, Reg};
use crate::bytecode::{FailKind, Handler, HandlerKind, MethodSite, Op};

impl<'a> Compiler<'a> {
    /// Returns a register on which a call can be built: `dst` itself if it is the topmost one.
    pub(super) fn call_base(&mut self, dst: Reg) -> Reg {
        if self.f().is_top_temp(dst) { dst } else { self.f().temp() }
    }

    fn deliver(&mut self, base: Reg, dst: Reg) {
        if base != dst {
            self.f().emit(Op::Take, dst, base, 0);
        }
    }

    /// Calls an internal builtin with the `count` arguments after `base`.
    pub(super) fn call_builtin(&mut self, name: &str, base: Reg, count: u16, dst: Reg) {
        let Some(builtin) = self.vm.builtin(name) else {
            let text = format!("Undefined builtin: {name}");
            self.fail(FailKind::Plain, &text);
            return;
        };
        let k = self.f().constant(builtin.value());
        self.f().emit(Op::CallBuiltin, base, count, k);
        self.deliver(base, dst);
    }

    /// Emits a call of a builtin. The fast instruction does not check the number of arguments, so an invalid number is
    /// compiled as a call of an unknown value, which reports it at run time.
    fn emit_builtin(&mut self, builtin: &'static crate::Builtin, base: Reg, count: u16) {
        if builtin.takes(count as usize) {
            let k = self.f().constant(builtin.value());
            self.f().emit(Op::CallBuiltin, base, count, k);
        } else {
            self.load_const(builtin.value(), base);
            self.f().emit(Op::Call, base, count, 0);
        }
    }

    /// Compiles arguments into the registers after `base`; `moved` names a variable whose last use this is.
    fn args(&mut self, args: &'a [Arg], moved: Option<Reg>) -> u16 {
        for arg in args {
            let t = self.f().temp();
            self.arg(&arg.value, t, moved);
        }
        args.len() as u16
    }

    /// Compiles one operand into `t`; `moved` as in `args`.
    pub(super) fn arg(&mut self, e: &'a Expr, t: Reg, moved: Option<Reg>) {
        match e.as_name().cloned().and_then(|name| self.plain_local(&name)) {
            Some(reg) if Some(reg) == moved => {
                self.f().emit(Op::Take, t, reg, 0);
                self.checked(e, t);
            }
            _ => self.expr(e, t),
        }
    }

    /// Compiles a call; with `tail`, it replaces the frame of the running function.
    pub(super) fn call(&mut self, callee: &'a Expr, args: &'a [Arg], whole: &'a Expr, dst: Reg, tail: bool) {
        if let Some(schema) = self.written_schema(whole) {
            return self.load_const(schema, dst);
        }
        let moved = self.moved.take();
        let spread = args.iter().any(|a| a.spread);
        let base = self.call_base(dst);
        let blame = whole.blame();
        // The callee, if known at compile time.
        enum Target {
            Function(u32),
            Builtin(&'static crate::Builtin),
            Struct(harn_value::Ref<harn_value::StructType>),
            Value(Option<Name>),
        }
        let target = match &callee.kind {
            ExprKind::Name(name) if name != "_" => match self.resolve(name) {
                Some(Binding::Function { index, .. }) => Target::Function(index),
                Some(Binding::Struct(ty, _)) => Target::Struct(ty),
                Some(Binding::Pipeline | Binding::Alias(_) | Binding::Interface(_) | Binding::Enum(_))
                | None => match self.vm.refer_to(name) {
                    Some(builtin) => Target::Builtin(builtin),
                    None => {
                        if self.vm.global(name).is_some() {
                            Target::Value(Some(name.clone()))
                        } else {
                            self.f().at(callee.span);
                            let text = format!("Undefined builtin: {name}{}", self.hint(name));
                            self.fail(FailKind::Plain, &text);
                            return;
                        }
                    }
                },
                Some(_) => Target::Value(Some(name.clone())),
            },
            _ => Target::Value(None),
        };
        // A variable in a register stays there if the arguments cannot assign it. (A variable with the name of a
        // builtin may hold a value that is not a function; the call then means the builtin.)
        let kept = match &target {
            Target::Value(Some(name))
                if !spread
                    && !tail
                    && self.vm.builtin(name).is_none()
                    && !args.iter().any(|a| Effects::of(&a.value).assigns(name)) =>
            {
                self.plain_local(name).filter(|reg| Some(*reg) != moved)
            }
            _ => None,
        };
        match &target {
            Target::Function(index) if spread || tail => {
                self.f().emit(Op::GetFunction, base, 0, *index);
            }
            Target::Value(_) if kept.is_some() => {}
            Target::Value(_) => self.expr(callee, base),
            _ => {}
        }
        if let Target::Struct(ty) = target {
            let t = self.f().temp();
            match args.first() {
                Some(arg) if !arg.spread => self.expr(&arg.value, t),
                _ => self.load_nil(t),
            }
            let number = self.f().structs.len() as u32;
            self.f().structs.push(ty);
            self.f().at(blame);
            self.f().emit(Op::StructFromDict, dst, t, number);
            return;
        }
        if spread {
            let list = self.f().temp();
            self.f().at(blame);
            self.list(args, list);
            self.f().at(blame);
            match target {
                Target::Builtin(builtin) => {
                    let k = self.f().constant(builtin.value());
                    self.f().emit(Op::CallBuiltinSpread, base, 0, k);
                }
                Target::Value(name) => {
                    let k = name.map_or(0, |n| self.text_constant(&n) + 1);
                    self.f().emit(Op::CallSpread, base, 0, k);
                }
                _ => drop(self.f().emit(Op::CallSpread, base, 0, 0)),
            }
        } else {
            let alias = match &target {
                Target::Builtin(builtin) => harn_syntax::schema_place::argument(builtin.name()),
                _ => None,
            };
            let count =
                match alias.and_then(|at| Some((at, self.alias_schema(args.get(at)?.value.as_name()?)?))) {
                    Some((at, schema)) => {
                        for (i, arg) in args.iter().enumerate() {
                            let t = self.f().temp();
                            if i == at {
                                self.load_const(schema.clone(), t);
                            } else {
                                self.arg(&arg.value, t, moved);
                            }
                        }
                        args.len() as u16
                    }
                    None => self.args(args, moved),
                };
            self.f().at(blame);
            match target {
                Target::Function(_) if tail => drop(self.f().emit(Op::TailCall, base, count, 0)),
                Target::Function(index) => drop(self.f().emit(Op::CallFunction, base, count, index)),
                Target::Builtin(builtin) => self.emit_builtin(builtin, base, count),
                Target::Value(name) => match kept {
                    Some(reg) => drop(self.f().emit(Op::CallLocal, base, count, u32::from(reg))),
                    None => {
                        let k = name.map_or(0, |n| self.text_constant(&n) + 1);
                        self.f().emit(if tail { Op::TailCall } else { Op::Call }, base, count, k);
                    }
                },
                Target::Struct(_) => {}
            }
        }
        self.deliver(base, dst);
    }

    pub(super) fn method_call(
        &mut self,
        object: &'a Expr,
        name: &'a Ident,
        args: &'a [Arg],
        optional: bool,
        dst: Reg,
    ) {
        let moved = self.moved.take();
        if let Some(enum_name) = object.as_name()
            && let Some(Binding::Enum(ty)) = self.resolve_type(enum_name)
        {
            self.enum_value(&ty, &name.name, name.span, Some(args), dst);
            return;
        }
        let base = self.call_base(dst);
        if let Some(builtin) = self.namespaced(object, &name.name) {
            let k = self.f().constant(builtin.value());
            if args.iter().any(|a| a.spread) {
                let list = self.f().temp();
                self.list(args, list);
                self.f().emit(Op::CallBuiltinSpread, base, 0, k);
            } else {
                let count = self.args(args, moved);
                self.f().at(name.span);
                self.emit_builtin(builtin, base, count);
            }
            self.deliver(base, dst);
            return;
        }
        if self.fails_as_unknown(object, name) {
            return;
        }
        let receiver = self.f().temp();
        if let (false, "contains" | "has", [arg]) = (optional, name.name.as_str(), args)
            && !arg.spread
            && let Some(object) = object.as_name()
            && let Some(this) = self.plain_local(object).filter(|this| Some(*this) != moved)
            && !Effects::of(&arg.value).assigns(object)
        {
            self.has(this, name, &arg.value, base, dst);
            return;
        }
        self.arg(object, receiver, moved);
        let nil = optional.then(|| self.f().jump(Op::JumpIfNil, receiver, 0));
        let site = self.method_site(&name.name, optional);
        if args.iter().any(|a| a.spread) {
            let list = self.f().temp();
            self.list(args, list);
            self.f().at(name.span);
            self.f().emit(Op::CallMethodSpread, base, 0, site);
        } else {
            let count = self.args(args, moved);
            self.f().at(name.span);
            self.f().emit(Op::CallMethod, base, count + 1, site);
        }
        self.deliver(base, dst);
        if let Some(nil) = nil {
            let done = self.f().jump(Op::Jump, 0, 0);
            self.f().land(nil);
            self.load_nil(dst);
            self.f().land(done);
        }
    }

    /// Compiles `x.contains(e)` for a variable that `e` does not assign: one instruction for a set and an int. The
    /// registers after `base` are used by the method call for all other values.
    fn has(&mut self, this: Reg, method: &'a Ident, value: &'a Expr, base: Reg, dst: Reg) {
        let (receiver, arg) = (base + 1, self.f().temp());
        // A variable is used from its own register.
        let known = variable_name(value).and_then(|name| self.plain_local(name));
        if known.is_none() {
            self.expr(value, arg);
        }
        self.f().at(method.span);
        self.f().emit(Op::SetHas, dst, this, u32::from(known.unwrap_or(arg)));
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().emit(Op::Move, receiver, this, 0);
        if let Some(known) = known {
            self.f().emit(Op::Move, arg, known, 0);
        }
        let site = self.method_site(&method.name, false);
        self.f().emit(Op::CallMethod, base, 2, site);
        self.deliver(base, dst);
        self.f().land(done);
    }

    /// Adds a call site of a method.
    pub(super) fn method_site(&mut self, name: &Name, optional: bool) -> u32 {
        let name = self.vm.intern(name);
        self.f().methods.push(MethodSite {
            name,
            optional,
            key: std::cell::Cell::new(usize::MAX),
            epoch: std::cell::Cell::new(0),
            target: std::cell::Cell::new(std::ptr::null()),
        });
        self.f().methods.len() as u32 - 1
    }

    /// Compiles `value |> func`.
    pub(super) fn pipe(&mut self, value: &'a Expr, func: &'a Expr, span: Span, dst: Reg, tail: bool) {
        if uses_placeholder(func) {
            let t = self.f().temp();
            self.expr(value, t);
            let outer = self.f().piped.replace(t);
            self.expr(func, dst);
            self.f().piped = outer;
            self.f().emit(Op::Clear, t, 0, 0);
            return;
        }
        let base = self.call_base(dst);
        let arg = self.f().temp();
        self.expr(value, arg);
        // The value is evaluated first; the callee's register is below it.
        if let Some(name) = func.as_name() {
            match self.resolve(name) {
                Some(
                    Binding::Struct(..)
                    | Binding::Function { .. }
                    | Binding::Local { .. }
                    | Binding::Up { .. }
                    | Binding::Global { .. },
                ) => {
                    self.expr(func, base);
                }
                _ => self.expr(func, base),
            }
        } else {
            self.expr(func, base);
        }
        self.f().at(span);
        self.f().emit(Op::ExpectCallable, base, 0, 0);
        self.f().emit(if tail { Op::TailCall } else { Op::Call }, base, 1, 0);
        self.deliver(base, dst);
    }

    pub(super) fn parallel(&mut self, parallel: &'a Parallel, span: Span, dst: Reg) {
        let base = self.call_base(dst);
        let kind = self.f().temp();
        let word = match (parallel.kind, parallel.as_stream) {
            (ParallelKind::Count, _) => "count",
            (ParallelKind::Each, false) => "each",
            (ParallelKind::Each, true) => "stream",
            (ParallelKind::Settle, _) => "settle",
        };
        self.load_text(word, kind);
        let source = self.f().temp();
        self.expr(&parallel.source, source);
        let cap = self.f().temp();
        match &parallel.max_concurrent {
            Some(e) => self.expr(e, cap),
            None => self.load_nil(cap),
        }
        let body = self.f().temp();
        self.closure(&parallel.func, "<closure>", body);
        self.f().at(span);
        self.call_builtin("__parallel", base, 4, dst);
    }

    pub(super) fn select(&mut self, select: &'a Select, span: Span, dst: Reg) {
        // __select(channels, timeout, has_default) returns [index, value]: -1 for timeout and default, -2 when every
        // channel is closed.
        let base = self.f().temp();
        let list = self.f().temp();
        self.f().emit(Op::NewList, list, 0, 0);
        for case in &select.cases {
            let t = self.f().temp();
            self.expr(&case.channel, t);
            self.f().emit(Op::ListPush, list, t, 0);
            self.f().next -= 1;
        }
        let limit = self.f().temp();
        match &select.timeout {
            Some((e, _)) => self.expr(e, limit),
            None => drop(self.f().emit(Op::LoadAbsent, limit, 0, 0)),
        }
        let has_default = self.f().temp();
        self.f().emit(Op::LoadBool, has_default, u16::from(select.default.is_some()), 0);
        self.f().at(span);
        self.call_builtin("__select", base, 3, base);
        let chosen = list;
        let received = limit;
        self.f().emit(Op::PatternItem, chosen, base, 0);
        self.f().emit(Op::PatternItem, received, base, 1);
        self.f().emit(Op::Clear, base, 0, 0);
        let mut done = Vec::new();
        for (i, case) in select.cases.iter().enumerate() {
            let skip = self.jump_not_int(chosen, i as i64);
            self.f().open_scope();
            self.bind(&case.name, false, received);
            self.block_in_scope(&case.body, Some(dst));
            self.f().close_scope();
            done.push(self.f().jump(Op::Jump, 0, 0));
            self.f().land(skip);
        }
        let other = select.timeout.as_ref().map(|(_, b)| b).or(select.default.as_ref());
        if let Some(body) = other {
            let skip = self.jump_not_int(chosen, -1);
            self.block(body, Some(dst));
            done.push(self.f().jump(Op::Jump, 0, 0));
            self.f().land(skip);
        }
        self.load_nil(dst);
        self.f().land_all(done);
    }

    pub(super) fn deadline(&mut self, limit: &'a Expr, body: &'a Block, dst: Reg) {
        let base = self.f().temp();
        let t = self.f().temp();
        self.expr(limit, t);
        self.call_builtin("__deadline_push", base, 1, base);
        // The token stays in `base`: it identifies the deadline to remove.
        self.with_finally(
            None,
            |c| c.block(body, Some(dst)),
            |c| {
                let call = c.f().temp();
                let token = c.f().temp();
                c.f().emit(Op::Move, token, base, 0);
                c.call_builtin("__deadline_pop", call, 1, call);
            },
        );
    }

    pub(super) fn mutex(&mut self, body: &'a Block) {
        let base = self.f().temp();
        self.call_builtin("__mutex_enter", base, 0, base);
        self.with_finally(
            None,
            |c| c.block(body, None),
            |c| {
                let call = c.f().temp();
                let permit = c.f().temp();
                c.f().emit(Op::Move, permit, base, 0);
                c.call_builtin("__mutex_leave", call, 1, call);
            },
        );
    }

    pub(super) fn retry(&mut self, count: &'a Expr, body: &'a Block, dst: Reg) {
        let left = self.f().temp();
        let arg = self.f().temp();
        self.expr(count, arg);
        self.call_builtin("__retry_count", left, 1, left);
        let deadlines = self.f().temp();
        self.call_builtin("__deadline_count", deadlines, 0, deadlines);
        let held = arg;
        let live = self.f().live();
        let start = self.f().pc();
        self.guarded(Guard::Handler, |c| c.block(body, Some(dst)));
        let end = self.f().pc();
        let done = self.f().jump(Op::Jump, 0, 0);
        let target = self.f().pc() as u32;
        self.f().handlers.push(Handler {
            start: start as u32,
            end: end as u32,
            target,
            register: held,
            live,
            kind: HandlerKind::CatchHeld,
        });
        let one = self.f().constant(Value::int(1));
        self.f().emit(Op::SubK, left, left, one);
        let again = self.f().temp();
        for known in [left, deadlines] {
            let argument = self.f().temp();
            self.f().emit(Op::Move, argument, known, 0);
        }
        self.call_builtin("__retry_goes_on", again, 2, again);
        self.f().jump_to(Op::JumpIf, again, 0, start);
        self.f().emit(Op::Rethrow, held, 0, 0);
        self.f().land(done);
    }

    /// Compiles `return e`.
    pub(super) fn return_expr(&mut self, e: &'a Expr) {
        let mark = self.f().next;
        if self.f().control.iter().all(|c| matches!(c, super::scope::Control::Loop { .. }))
            && !self.f().guards_errors()
            && !self.f().generator
        {
            self.tail(e, true);
        } else {
            let t = self.f().temp();
            self.result(e, |compiler| {
                compiler.expr(e, t);
                t
            });
            self.leave(Exit::Return, Some(t));
        }
        self.f().next = mark;
    }

    /// Compiles the value that the function returns, which must pass the check of its annotation.
    fn result(&mut self, e: &'a Expr, evaluate: impl FnOnce(&mut Self) -> Reg) -> Reg {
        match self.f().result.clone() {
            Some(check) => {
                let name = self.f().result_name();
                self.expecting(e, (&check, &name), None, evaluate)
            }
            None => evaluate(self),
        }
    }

    /// Whether the function need not look at what the last call returns.
    fn accepts_result(&mut self, e: &Expr) -> bool {
        self.f().result.clone().is_none_or(|check| self.proves(&check, e))
    }

    /// Returns whether a returned call may replace the frame of its caller. It must not if an observer may inspect both
    /// frames, if the caller's tracing span must last as long as the call, or if the caller's locks must be held until
    /// it returns.
    fn makes_tail_calls(&mut self) -> bool {
        !self.f().facts.takes_locks
            && !self.vm.traces.get()
            && !self.vm.observer.as_ref().is_some_and(|observer| observer.keeps_calls())
    }

    /// Returns the value of `e`. Calls are tail calls if `explicit`.
    pub(super) fn tail(&mut self, e: &'a Expr, explicit: bool) {
        let mark = self.f().next;
        match &e.kind {
            ExprKind::Paren(inner) => self.tail(inner, explicit),
            ExprKind::If { arms, else_body: Some(else_body) } if !explicit => {
                for arm in arms {
                    let mut no = Vec::new();
                    self.jump_unless(&arm.cond, &mut no);
                    self.tail_block(&arm.body);
                    self.f().land_all(no);
                }
                self.tail_block(else_body);
            }
            ExprKind::Match { value, arms } if !explicit => self.match_expr(value, arms, None, true),
            ExprKind::Call { callee, args, .. } if explicit && args.iter().all(|a| !a.spread) => {
                let t = self.f().temp();
                let takes_place = self.accepts_result(e) && self.makes_tail_calls();
                let t = self.result(e, |compiler| {
                    compiler.call(callee, args, e, t, takes_place);
                    t
                });
                self.f().emit(Op::Return, t, 0, 0);
            }
            ExprKind::Pipe { value, func, op_span } if explicit => {
                let t = self.f().temp();
                self.f().at(*op_span);
                let takes_place = self.accepts_result(e) && self.makes_tail_calls();
                let t = self.result(e, |compiler| {
                    compiler.pipe(value, func, *op_span, t, takes_place);
                    t
                });
                self.f().emit(Op::Return, t, 0, 0);
            }
            // The function ends here, so the left operand may be appended to in place.
            ExprKind::Binary { op: BinaryOp::Add, op_span, lhs, rhs } => {
                let sum = self.result(e, |compiler| {
                    let l = compiler.operand_before(lhs, rhs);
                    let r = compiler.operand(rhs);
                    compiler.f().at(*op_span);
                    let sum = if l == r { compiler.f().temp() } else { l };
                    compiler.f().emit(Op::Add, sum, l, u32::from(r));
                    sum
                });
                self.f().emit(Op::Return, sum, 0, 0);
            }
            _ => {
                let r = self.result(e, |compiler| compiler.operand(e));
                self.f().emit(Op::Return, r, 0, 0);
            }
        }
        self.f().next = mark;
    }
}

/// Returns whether `_` occurs in the right side of a pipe, outside nested closures, tasks and pipes.
fn uses_placeholder(e: &Expr) -> bool {
    struct Placeholder(bool);
    impl<'e> Visitor<'e> for Placeholder {
        fn expr(&mut self, e: &'e Expr) {
            match &e.kind {
                ExprKind::Name(name) => self.0 |= name == "_",
                ExprKind::Pipe { value, .. } => self.expr(value),
                _ if !self.0 => visit::walk_expr(self, e),
                _ => {}
            }
        }

        fn function(&mut self, _: &'e Function, _: &'e [TypeParam]) {}
    }
    let mut found = Placeholder(false);
    found.expr(e);
    found.0
}
