//! Assignments, and the cases in which they change a value in place.

use std::rc::Rc;

use harn_syntax::ast::*;

use super::Compiler;
use super::effects::Effects;
use super::expr::{is_number, variable_name};
use super::facts::mentions;
use super::scope::{Binding, Reg};
use crate::bytecode::{FailKind, GROWN, Op, PathStep, TAKE};
use crate::params::{Annotated, Check, TypeCheck};

impl<'a> Compiler<'a> {
    pub(super) fn assign(
        &mut self,
        target: &'a harn_syntax::ast::Target,
        op: Option<BinaryOp>,
        op_span: harn_syntax::Span,
        value: &'a Expr,
    ) {
        let name = &target.root.name;
        let Some(binding) = self.resolve(name) else {
            let t = self.f().temp();
            self.expr(value, t);
            self.f().at(target.root.span);
            let text = format!("Undefined variable: {name}{}", self.hint(name));
            self.fail(FailKind::Plain, &text);
            return;
        };
        let mutable = match binding {
            Binding::Local { mutable, .. }
            | Binding::Up { mutable, .. }
            | Binding::Global { mutable, .. } => mutable,
            _ => false,
        };
        if !mutable {
            let t = self.f().temp();
            self.expr(value, t);
            self.f().at(target.root.span);
            let text = format!("Cannot assign to immutable binding: {name}");
            self.fail(FailKind::Plain, &text);
            return;
        }
        if target.path.is_empty() {
            match self.declared_annotation(name) {
                Some(check) => self.assign_annotated(name, &binding, &check, (op, op_span), value),
                None => self.assign_variable(name, &binding, op, op_span, value),
            }
        } else {
            self.assign_path(target, &binding, op, op_span, value);
        }
    }

    /// An assignment whose value must pass the check of the variable's annotation.
    fn assign_annotated(
        &mut self,
        name: &Name,
        binding: &Binding,
        check: &Rc<Check>,
        (op, span): (Option<BinaryOp>, harn_syntax::Span),
        value: &'a Expr,
    ) {
        let Some(op) = op else {
            let in_place = !matches!(binding, Binding::Local { cell: false, .. })
                || !self.survives_error(name)
                || self.is_grown(value, check, name);
            if in_place || self.proves(check, value) {
                self.assign_expecting(name, binding, check, (None, span), value);
                return;
            }
            // An error must leave the variable as it was.
            let t = self.f().temp();
            self.expecting(value, (check, name), None, |compiler| {
                compiler.expr(value, t);
                t
            });
            self.f().at(span);
            self.set_binding(binding, t);
            self.f().emit(Op::Clear, t, 0, 0);
            return;
        };
        if self.is_closed(op, check) {
            self.assign_expecting(name, binding, check, (Some(op), span), value);
            return;
        }
        let (old, t) = (self.f().temp(), self.f().temp());
        self.load_binding(name, binding, old);
        self.expr(value, t);
        self.f().at(span);
        self.arithmetic(op, old, old, t);
        let annotation = TypeCheck { name: name.to_string(), check: check.clone(), place: Annotated::Value };
        self.emit_check(old, annotation);
        self.set_binding(binding, old);
        self.f().emit(Op::Clear, old, 0, 1);
    }

    /// An assignment that checks `value`, or what it adds to the variable, on the way.
    fn assign_expecting(
        &mut self,
        name: &Name,
        binding: &Binding,
        check: &Rc<Check>,
        (op, span): (Option<BinaryOp>, harn_syntax::Span),
        value: &'a Expr,
    ) {
        let before = self.f().expected.len();
        self.expect(value, check, name, op.is_none().then_some(name));
        self.assign_variable(name, binding, op, span, value);
        if self.f().expected.len() > before {
            self.f().expected.truncate(before);
            let t = self.f().temp();
            self.load_binding(name, binding, t);
            self.f().at(value.span);
            let annotation =
                TypeCheck { name: name.to_string(), check: check.clone(), place: Annotated::Value };
            self.emit_check(t, annotation);
            self.f().emit(Op::Clear, t, 0, 0);
        }
    }

    fn assign_variable(
        &mut self,
        name: &Name,
        binding: &Binding,
        op: Option<BinaryOp>,
        span: harn_syntax::Span,
        value: &'a Expr,
    ) {
        if let Binding::Local { reg, cell: false, .. } = *binding {
            match op {
                Some(op) => {
                    if let Some(number) = Self::number(value) {
                        self.f().at(span);
                        self.arithmetic_with(op, reg, reg, &number);
                        return;
                    }
                    let old = if Effects::of(value).assigns(name) {
                        let t = self.f().temp();
                        self.f().emit(Op::Move, t, reg, 0);
                        t
                    } else {
                        reg
                    };
                    let r = self.operand(value);
                    self.f().at(span);
                    self.arithmetic(op, reg, old, r);
                    if op != BinaryOp::Add {
                        self.used_up(r);
                    }
                }
                None => self.assign_local(name, reg, value),
            }
            return;
        }
        // Captured and module variables: `x += e` and `x = x + e` append in place.
        let added = match (op, &value.kind) {
            (Some(BinaryOp::Add), _) => Some(value),
            (None, ExprKind::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if lhs.as_name() == Some(name) => {
                Some(&**rhs)
            }
            _ => None,
        };
        match (op, added) {
            (_, Some(added))
                if matches!(binding, Binding::Local { .. } | Binding::Up { .. })
                    && self.is_at_hand(added) =>
            {
                let right = self.operand(added);
                if !self.f().is_variable(right) {
                    self.f().dirty.push(right);
                }
                let k = self.text_constant(name);
                self.f().at(span);
                match *binding {
                    Binding::Up { index, .. } => self.f().emit(Op::AddUpCell, index, right, k),
                    Binding::Local { reg, .. } => self.f().emit(Op::AddCell, reg, right, k),
                    _ => return,
                };
            }
            (_, Some(added)) if !matches!(added.kind, ExprKind::Int(_) | ExprKind::Float(_)) => {
                let cell = self.cell_of(binding);
                let old = self.f().temp();
                self.load_binding(name, binding, old);
                let t = self.f().temp();
                self.expr(added, t);
                self.f().at(span);
                self.f().emit(Op::AddToCell, cell, old, u32::from(t));
                self.f().emit(Op::Clear, t, 0, 0);
            }
            (Some(op), _) => {
                let old = self.f().temp();
                self.load_binding(name, binding, old);
                if let Some(number) = Self::number(value) {
                    self.f().at(span);
                    self.arithmetic_with(op, old, old, &number);
                } else {
                    let r = self.operand(value);
                    self.f().at(span);
                    self.arithmetic(op, old, old, r);
                }
                self.set_binding(binding, old);
            }
            (None, _) => {
                let t = self.f().temp();
                self.expr(value, t);
                self.f().at(span);
                self.set_binding(binding, t);
                self.f().emit(Op::Clear, t, 0, 0);
            }
        }
    }

    /// Returns whether evaluating `e` only reads values that cannot change and cannot fail. Then it may be evaluated
    /// before or after a variable is read.
    fn is_at_hand(&mut self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) => true,
            ExprKind::Paren(inner) => self.is_at_hand(inner),
            ExprKind::List(items) => items.iter().all(|item| !item.spread && self.is_at_hand(&item.value)),
            ExprKind::Name(name) if name != "_" => matches!(
                self.resolve(name),
                Some(Binding::Local { cell: false, .. } | Binding::Up { cell: false, .. })
            ),
            _ => Self::number(e).is_some(),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, dst: Reg, l: Reg, r: Reg) {
        let op = match op {
            BinaryOp::Add => Op::Add,
            BinaryOp::Sub => Op::Sub,
            BinaryOp::Mul => Op::Mul,
            BinaryOp::Div => Op::Div,
            _ => Op::Rem,
        };
        self.f().emit(op, dst, l, u32::from(r));
    }

    /// Compiles `x = e` for a variable in a register.
    fn assign_local(&mut self, name: &Name, reg: Reg, value: &'a Expr) {
        match &value.kind {
            // x = x + a + b: append the operands one after the other.
            ExprKind::Binary { op: BinaryOp::Add, lhs, .. }
                if matches!(lhs.kind, ExprKind::Binary { op: BinaryOp::Add, .. }) =>
            {
                let mut parts = Vec::new();
                let mut left = value;
                while let ExprKind::Binary { op: BinaryOp::Add, lhs, rhs, op_span } = &left.kind {
                    parts.push((&**rhs, *op_span));
                    left = lhs;
                }
                let is_first = left.as_name() == Some(name);
                if is_first && self.may_take(name, parts.iter().map(|(e, _)| *e)) {
                    for (part, span) in parts.into_iter().rev() {
                        let mark = self.f().next;
                        let r = self.operand(part);
                        self.f().at(span);
                        self.f().emit(Op::Add, reg, reg, u32::from(r));
                        self.f().next = mark;
                    }
                    return;
                }
                parts.reverse();
                if is_first && parts.iter().all(|(e, _)| !Effects::of(e).assigns(name)) {
                    self.append_together(reg, &parts);
                    return;
                }
            }
            // x = f(x): the variable's last use is the argument.
            ExprKind::Call { callee, args, .. } if args.iter().all(|a| !a.spread) => {
                let is_name = |a: &&Arg| a.value.as_name() == Some(name);
                let others = || args.iter().filter(|a| !is_name(a)).map(|a| &a.value);
                if args.iter().filter(is_name).count() == 1
                    && !mentions(callee, name)
                    && self.may_take(name, others())
                {
                    self.moved = Some(reg);
                }
            }
            // x = x.push(y): the same for the receiver.
            ExprKind::MethodCall { object, name: method, args, optional: false }
                if object.as_name() == Some(name) && args.iter().all(|a| !a.spread) =>
            {
                if let [arg] = &args[..]
                    && let Some(op) = set_change(&method.name)
                    && !Effects::of(&arg.value).assigns(name)
                    && !matches!(self.resolve_type(name), Some(Binding::Enum(_)))
                {
                    self.change_set(op, name, reg, method, &arg.value);
                    return;
                }
                if self.may_take(name, args.iter().map(|a| &a.value)) {
                    self.moved = Some(reg);
                } else if let [arg] = &args[..]
                    && !Effects::of(&arg.value).assigns(name)
                    && (method.name == "push"
                        || method.name == "skip" && matches!(arg.value.kind, ExprKind::Int(n) if n >= 0))
                {
                    self.change_in_place(reg, method, &arg.value);
                    return;
                }
            }
            // x = {...x, k: v}
            ExprKind::Dict(items)
                if spreads_first(items, name)
                    && self.may_take(name, items.iter().skip(1).flat_map(parts_of)) =>
            {
                self.moved = Some(reg);
            }
            _ => {}
        }
        self.expr(value, reg);
        self.moved = None;
    }

    /// Returns whether a plain variable that is about to be assigned may lose its old value before `rest` is evaluated
    /// and the new value is stored: nothing reads it meanwhile, and if the assignment never happens, nothing reads the
    /// variable again.
    fn may_take<'e>(&mut self, name: &Name, rest: impl Iterator<Item = &'e Expr> + Clone) -> bool {
        rest.clone().all(|e| !mentions(e, name))
            && !Effects::of_all(rest).leaves()
            && !self.survives_error(name)
    }

    /// Compiles `x = x + a + b` where an error must leave `x` unchanged. If `x` and `a` are both strings, lists or
    /// dicts, the other operands are joined and appended at once; otherwise the sum is built in another register.
    fn append_together(&mut self, reg: Reg, parts: &[(&'a Expr, harn_syntax::Span)]) {
        let [(first, span), rest @ ..] = parts else { return };
        let (sum, appends) = (self.f().temp(), self.f().temp());
        self.expr(first, sum);
        self.f().at(*span);
        self.f().emit(Op::LoadBool, appends, 1, 0);
        let other = self.f().jump(Op::JumpNotAppends, reg, sum);
        let joined = self.f().jump(Op::Jump, 0, 0);
        self.f().land(other);
        self.f().emit(Op::LoadBool, appends, 0, 0);
        self.f().emit(Op::Add, sum, reg, u32::from(sum));
        self.f().land(joined);
        for (part, span) in rest {
            let mark = self.f().next;
            let right = self.operand(part);
            self.f().at(*span);
            self.f().emit(Op::Add, sum, sum, u32::from(right));
            self.f().next = mark;
        }
        self.f().at(*span);
        let beside = self.f().jump(Op::JumpIfNot, appends, 0);
        self.f().emit(Op::Add, reg, reg, u32::from(sum));
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().land(beside);
        self.f().emit(Op::Take, reg, sum, 0);
        self.f().land(done);
        self.f().emit(Op::Clear, sum, 0, 0);
    }

    /// Compiles `x = x.push(e)` or `x = x.skip(2)` where an error must leave `x` unchanged. A list is changed in place
    /// once nothing can fail any more; for other values the method is called.
    fn change_in_place(&mut self, reg: Reg, method: &'a Ident, value: &'a Expr) {
        let t = self.f().temp();
        self.expr(value, t);
        self.f().at(method.span);
        let other = self.f().jump(Op::JumpNotList, reg, 0);
        if method.name == "push" {
            self.f().emit(Op::ListPush, reg, t, 0);
        } else {
            let to = self.f().temp();
            self.load_nil(to);
            self.f().emit(Op::Slice, reg, reg, u32::from(t));
        }
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().land(other);
        let base = self.f().temp();
        let (receiver, arg) = (self.f().temp(), self.f().temp());
        self.f().emit(Op::Move, receiver, reg, 0);
        self.f().emit(Op::Take, arg, t, 0);
        let site = self.method_site(&method.name, false);
        self.f().emit(Op::CallMethod, base, 2, site);
        self.f().emit(Op::Take, reg, base, 0);
        self.f().land(done);
    }

    /// Compiles `x = x.add(e)` or `x = x.remove(e)`. `op` handles a set and an int; otherwise the method is called, and
    /// the variable's value is moved into the call unless an error must leave it in place.
    fn change_set(&mut self, op: Op, name: &Name, reg: Reg, method: &'a Ident, value: &'a Expr) {
        let base = self.f().temp();
        let (receiver, arg) = (self.f().temp(), self.f().temp());
        // A variable is used from its own register.
        let known = variable_name(value).and_then(|name| self.plain_local(name)).filter(|r| *r != reg);
        if known.is_none() {
            self.expr(value, arg);
        }
        self.f().at(method.span);
        self.f().emit(op, reg, known.unwrap_or(arg), 0);
        let done = self.f().jump(Op::Jump, 0, 0);
        let last = !self.survives_error(name);
        self.f().emit(if last { Op::Take } else { Op::Move }, receiver, reg, 0);
        if let Some(known) = known {
            self.f().emit(Op::Move, arg, known, 0);
        }
        let site = self.method_site(&method.name, false);
        self.f().emit(Op::CallMethod, base, 2, site);
        self.f().emit(Op::Take, reg, base, 0);
        self.f().land(done);
    }

    /// Returns a register that holds the cell of a captured or module variable.
    fn cell_of(&mut self, binding: &Binding) -> Reg {
        match *binding {
            Binding::Local { reg, .. } => reg,
            Binding::Up { index, .. } => {
                let t = self.f().temp();
                self.f().emit(Op::GetUp, t, index, 0);
                t
            }
            Binding::Global { module, index, .. } => {
                let t = self.f().temp();
                self.f().emit(Op::GetGlobal, t, module as u16, index);
                t
            }
            _ => self.f().temp(),
        }
    }

    fn set_binding(&mut self, binding: &Binding, value: Reg) {
        match *binding {
            Binding::Local { reg, cell: true, .. } => drop(self.f().emit(Op::SetCell, reg, value, 0)),
            Binding::Local { reg, .. } => drop(self.f().emit(Op::Move, reg, value, 0)),
            Binding::Up { index, .. } => drop(self.f().emit(Op::SetUpCell, index, value, 0)),
            Binding::Global { module, index, .. } => {
                self.f().emit(Op::SetGlobalVar, value, module as u16, index);
            }
            _ => {}
        }
    }

    /// Compiles `root.a[i].b = e` and its compound forms.
    fn assign_path(
        &mut self,
        target: &'a harn_syntax::ast::Target,
        binding: &Binding,
        op: Option<BinaryOp>,
        span: harn_syntax::Span,
        value: &'a Expr,
    ) {
        let place = self.cell_of(binding);
        let added = match (op, &value.kind) {
            (Some(_), _) => Some((value, op.unwrap_or(BinaryOp::Add))),
            // p = p + e with the same path is compiled as p += e.
            (None, ExprKind::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if same_place(target, lhs) => {
                Some((&**rhs, BinaryOp::Add))
            }
            _ => None,
        };
        if let (None, Some((method, arg, is_new))) = (op, pushed_to(target, value)) {
            self.push_to_path(target, place, method, arg, is_new);
            return;
        }
        let Some((operand, op)) = added else {
            let v = self.operand(value);
            let indices = || {
                Effects::of_all(target.path.iter().filter_map(|step| match step {
                    TargetStep::Index { index, .. } => Some(index),
                    TargetStep::Member(_) => None,
                }))
            };
            let v = self.settled(value, v, indices);
            let take = if self.f().is_variable(v) { 0 } else { TAKE };
            self.f().dirty.retain(|r| *r != v);
            self.store_path(target, place, v, take);
            return;
        };
        if let ([step], Binding::Local { cell: false, .. }) = (&target.path[..], binding) {
            self.update_part(step, place, operand, op, span);
            return;
        }
        // Evaluate the indices once, then the old value, then the right side.
        let steps = self.path_steps(target);
        let path = self.path(steps);
        let done = if op == BinaryOp::Add { self.add_in_place(place, path, operand, span) } else { None };
        let old = self.f().temp();
        let right = self.f().temp();
        self.f().at(target.span);
        self.f().emit(Op::GetPath, old, place, path);
        match done {
            Some((r, _)) => drop(self.f().emit(Op::Move, right, r, 0)),
            None => self.expr(operand, right),
        }
        self.f().at(span);
        if op == BinaryOp::Add {
            self.f().emit(Op::ReleasePath, place, old, path);
        }
        self.arithmetic(op, old, old, right);
        self.f().at(target.path.last().map_or(target.span, TargetStep::span));
        let grown = if op == BinaryOp::Add { GROWN } else { 0 };
        self.f().emit(Op::SetPath, place, old, path | TAKE | grown);
        self.f().emit(Op::Clear, right, 0, 0);
        if let Some((_, done)) = done {
            self.f().land(done);
        }
    }

    /// Compiles `p = p.push(e)`, or `p = (p ?? []).push(e)` if `or_new`, for a nested place. The list is moved out of
    /// the place while it is appended to, because a shared list would be copied each time. For other values the method
    /// is called.
    fn push_to_path(
        &mut self,
        target: &'a harn_syntax::ast::Target,
        place: Reg,
        method: &'a Ident,
        arg: &'a Expr,
        or_new: bool,
    ) {
        let steps = self.path_steps(target);
        let path = self.path(steps);
        // The order matters: the list, and next to it the appended value.
        let (old, right) = (self.f().temp(), self.f().temp());
        self.f().at(target.span);
        self.f().emit(Op::GetPath, old, place, path);
        if or_new {
            let there = self.f().jump(Op::JumpIfNotNil, old, 0);
            self.f().emit(Op::NewList, old, 0, 0);
            self.f().land(there);
        }
        let item = self.f().temp();
        self.expr(arg, item);
        self.f().at(method.span);
        let other = self.f().jump(Op::JumpNotList, old, 0);
        self.f().emit(Op::NewList, right, item, 1);
        self.f().emit(Op::ReleasePath, place, old, path);
        self.f().emit(Op::Add, old, old, u32::from(right));
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().land(other);
        let base = self.f().temp();
        let (receiver, given) = (self.f().temp(), self.f().temp());
        self.f().emit(Op::Take, receiver, old, 0);
        self.f().emit(Op::Take, given, item, 0);
        let site = self.method_site(&method.name, false);
        self.f().emit(Op::CallMethod, base, 2, site);
        self.f().emit(Op::Take, old, base, 0);
        self.f().land(done);
        self.f().at(target.path.last().map_or(target.span, TargetStep::span));
        self.f().emit(Op::SetPath, place, old, path | TAKE | GROWN);
        self.f().emit(Op::Clear, right, 0, 0);
        self.f().emit(Op::Clear, item, 0, 0);
    }

    /// Compiles `place.path += e` to one instruction, for an operand that cannot fail and has no effects, so that it
    /// may be evaluated before the old value is read. The code after the instruction handles all other cases. Returns
    /// the register of the operand, and the jump to the end of that code.
    fn add_in_place(
        &mut self,
        place: Reg,
        path: u32,
        operand: &'a Expr,
        span: harn_syntax::Span,
    ) -> Option<(Reg, usize)> {
        if !self.is_at_hand(operand) {
            return None;
        }
        let r = self.operand(operand);
        let r = if r == place { self.copied(r) } else { r };
        if !self.f().is_variable(r) {
            self.f().dirty.push(r);
        }
        self.f().at(span);
        self.f().emit(Op::AddPath, place, r, path);
        Some((r, self.f().jump(Op::Jump, 0, 0)))
    }

    /// Compiles `place.name op= e` and `place[i] op= e` for a variable in a register.
    fn update_part(
        &mut self,
        step: &'a TargetStep,
        place: Reg,
        operand: &'a Expr,
        op: BinaryOp,
        span: harn_syntax::Span,
    ) {
        let field = match step {
            TargetStep::Member(name) => Err(self.text_constant(&name.name)),
            TargetStep::Index { index, .. } => {
                let i = self.operand(index);
                let i = self.settled(index, i, || Effects::of(operand));
                Ok(if i == place { self.copied(i) } else { i })
            }
        };
        // An operand that is a list or string literal is probably appended rather than added as a number.
        if op == BinaryOp::Add && matches!(operand.kind, ExprKind::List(_) | ExprKind::Str(_)) {
            let path = self.part(field, step);
            if let Some((r, done)) = self.add_in_place(place, path, operand, span) {
                let old = self.f().temp();
                let right = self.f().temp();
                self.f().at(step.span());
                self.f().emit(Op::GetPath, old, place, path);
                self.f().emit(Op::Move, right, r, 0);
                self.f().at(span);
                self.f().emit(Op::ReleasePath, place, old, path);
                self.arithmetic(op, old, old, right);
                self.set_part(field, step, place, (old, GROWN));
                self.f().emit(Op::Clear, right, 0, 0);
                self.f().land(done);
                return;
            }
        }
        let old = self.f().temp();
        self.f().at(step.span());
        match field {
            Ok(i) => self.f().emit(Op::GetIndex, old, place, u32::from(i)),
            Err(k) => self.f().emit(Op::GetField, old, place, k),
        };
        let number = is_number(operand);
        let grown = if op == BinaryOp::Add { GROWN } else { 0 };
        if let Some(literal) = Self::number(operand) {
            self.f().at(span);
            self.arithmetic_with(op, old, old, &literal);
            self.set_part(field, step, place, (old, grown));
            return;
        }
        let right = if op == BinaryOp::Add && !number {
            let right = self.f().temp();
            self.expr(operand, right);
            let path = self.part(field, step);
            self.f().at(span);
            self.f().emit(Op::ReleasePath, place, old, path);
            right
        } else {
            self.operand(operand)
        };
        self.f().at(span);
        self.arithmetic(op, old, old, right);
        self.set_part(field, step, place, (old, grown));
        if !number && op == BinaryOp::Add {
            self.f().dirty.push(right);
        } else {
            self.used_up(right);
        }
    }

    /// Returns the path of one step: an index in a register, or a field.
    fn part(&mut self, field: Result<Reg, u32>, step: &TargetStep) -> u32 {
        let step = match (field, step) {
            (Ok(i), _) => PathStep::Index(i),
            (_, TargetStep::Member(name)) => PathStep::Field(self.vm.intern(&name.name)),
            (_, TargetStep::Index { .. }) => unreachable!("an index is in a register"),
        };
        self.path(vec![step])
    }

    /// Stores the new value of a field (its name's constant) or element (its index).
    fn set_part(
        &mut self,
        field: Result<Reg, u32>,
        step: &TargetStep,
        place: Reg,
        (value, grown): (Reg, u32),
    ) {
        self.f().at(step.span());
        match field {
            Ok(i) => self.f().emit(Op::SetIndex, place, i, u32::from(value) | TAKE),
            Err(k) => self.f().emit(Op::SetField, place, value, k | TAKE | grown),
        };
    }

    fn store_path(&mut self, target: &'a harn_syntax::ast::Target, place: Reg, value: Reg, take: u32) {
        match &target.path[..] {
            [TargetStep::Member(name)] => {
                self.f().at(name.span);
                let k = self.text_constant(&name.name);
                self.f().emit(Op::SetField, place, value, k | take);
            }
            [TargetStep::Index { index, span }] => {
                let i = self.operand(index);
                // `x[x] = v`: the index register would be read while the place is written.
                let i = if i == place { self.copied(i) } else { i };
                self.f().at(*span);
                self.f().emit(Op::SetIndex, place, i, u32::from(value) | take);
            }
            _ => {
                let steps = self.path_steps(target);
                let path = self.path(steps);
                self.f().at(target.path.last().map_or(target.span, TargetStep::span));
                self.f().emit(Op::SetPath, place, value, path | take);
            }
        }
    }

    /// Copies a register; the copy lives until the end of the statement.
    fn copied(&mut self, reg: Reg) -> Reg {
        let t = self.f().temp();
        self.f().emit(Op::Move, t, reg, 0);
        self.f().dirty.push(t);
        t
    }

    fn path_steps(&mut self, target: &'a harn_syntax::ast::Target) -> Vec<PathStep> {
        target
            .path
            .iter()
            .map(|step| match step {
                TargetStep::Member(name) => PathStep::Field(self.vm.intern(&name.name)),
                TargetStep::Index { index, .. } => {
                    let t = self.f().temp();
                    self.expr(index, t);
                    PathStep::Index(t)
                }
            })
            .collect()
    }

    fn path(&mut self, steps: Vec<PathStep>) -> u32 {
        self.f().paths.push(steps.into());
        self.f().paths.len() as u32 - 1
    }
}

/// Returns the method and argument of `p.push(e)` or `(p ?? []).push(e)` for the place that `target` assigns, and
/// whether it is the second form.
fn pushed_to<'e>(target: &harn_syntax::ast::Target, value: &'e Expr) -> Option<(&'e Ident, &'e Expr, bool)> {
    let ExprKind::MethodCall { object, name, args, optional: false } = &value.kind else { return None };
    let [Arg { value: arg, spread: false, .. }] = &args[..] else { return None };
    if name.name != "push" {
        return None;
    }
    if same_place(target, object) {
        return Some((name, arg, false));
    }
    let ExprKind::Paren(inner) = &object.kind else { return None };
    let ExprKind::Logic { op: LogicOp::Coalesce, lhs, rhs, .. } = &inner.kind else { return None };
    let is_new = matches!(&rhs.kind, ExprKind::List(items) if items.is_empty()) && same_place(target, lhs);
    is_new.then_some((name, arg, true))
}

/// Returns whether `e` reads exactly the place that `target` assigns, with steps without effects.
fn same_place(target: &harn_syntax::ast::Target, e: &Expr) -> bool {
    let mut e = e;
    for step in target.path.iter().rev() {
        match (step, &e.kind) {
            (TargetStep::Member(name), ExprKind::Member { object, name: other, optional: false })
                if name.name == other.name =>
            {
                e = object;
            }
            (
                TargetStep::Index { index, .. },
                ExprKind::Index { object, index: other, optional: false, .. },
            ) if same_simple(index, other) => {
                e = object;
            }
            _ => return false,
        }
    }
    e.as_name() == Some(&target.root.name)
}

fn same_simple(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Name(x), ExprKind::Name(y)) => x == y,
        (ExprKind::Int(x), ExprKind::Int(y)) => x == y,
        (ExprKind::Str(x), ExprKind::Str(y)) => x == y,
        (ExprKind::Paren(x), _) => same_simple(x, b),
        (_, ExprKind::Paren(y)) => same_simple(a, y),
        (
            ExprKind::Member { object: x, name: n, optional: false },
            ExprKind::Member { object: y, name: m, optional: false },
        ) => n.name == m.name && same_simple(x, y),
        _ => false,
    }
}

/// Returns the instruction that performs the set method of this name in place.
fn set_change(method: &str) -> Option<Op> {
    match method {
        "add" => Some(Op::SetAdd),
        "remove" | "delete" => Some(Op::SetRemove),
        _ => None,
    }
}

/// Returns whether a dict literal starts with `...name`.
fn spreads_first(items: &[DictItem], name: &Name) -> bool {
    matches!(items, [DictItem::Spread(first), ..] if first.as_name() == Some(name))
}

/// Iterates over the expressions in an item of a dict literal.
fn parts_of(item: &DictItem) -> impl Iterator<Item = &Expr> + Clone {
    let (key, value) = match item {
        DictItem::Entry { value, .. } | DictItem::Spread(value) => (None, value),
        DictItem::Computed { key, value } => (Some(key), value),
    };
    key.into_iter().chain([value])
}
