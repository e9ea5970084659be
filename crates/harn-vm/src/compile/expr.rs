//! Compilation of expressions.

use harn_syntax::ast::*;
use harn_syntax::{Span, schema_place};
use harn_value::Value;
use rustc_hash::FxHashSet;

use super::Compiler;
use super::effects::Effects;
use super::scope::{Binding, Reg};
use crate::bytecode::{FailKind, MAX_C, Op};
use crate::params::{Annotated, TypeCheck};

impl<'a> Compiler<'a> {
    /// Evaluates `e` for its side effects.
    pub(super) fn effect(&mut self, e: &'a Expr) {
        let mark = self.f().next;
        match &e.kind {
            ExprKind::If { arms, else_body } => self.if_expr(arms, else_body.as_ref(), None),
            ExprKind::Match { value, arms } => self.match_expr(value, arms, None, false),
            ExprKind::Try { body, catch, finally } if catch.is_some() || finally.is_some() => {
                self.try_expr(body, catch.as_deref(), finally.as_ref(), None);
            }
            ExprKind::Paren(inner) => self.effect(inner),
            _ => {
                let t = self.f().temp();
                self.expr(e, t);
                // A reference that a call leaves in a register would prevent in-place updates of containers.
                if !matches!(e.kind, ExprKind::Int(_) | ExprKind::Nil | ExprKind::Bool(_)) {
                    self.f().emit(Op::Clear, t, 0, 0);
                }
            }
        }
        self.f().next = mark;
    }

    /// Evaluates `e` into any register: the variable's own register if it is a plain local.
    pub(super) fn operand(&mut self, e: &'a Expr) -> Reg {
        match &e.kind {
            ExprKind::Name(name) => {
                if let Some(reg) = self.plain_local(name) {
                    self.checked(e, reg);
                    return reg;
                }
            }
            ExprKind::Paren(inner) => return self.operand(inner),
            _ => {}
        }
        let t = self.f().temp();
        self.expr(e, t);
        if matches!(e.kind, ExprKind::Name(_) | ExprKind::Member { .. } | ExprKind::Index { .. }) {
            self.f().dirty.push(t);
        }
        t
    }

    /// Like [`Self::operand`], for a value that is used after `later` is evaluated.
    pub(super) fn operand_before(&mut self, e: &'a Expr, later: &Expr) -> Reg {
        let reg = self.operand(e);
        self.settled(e, reg, || Effects::of(later))
    }

    /// Returns the register of operand `e`, or a copy of it if `e` is a variable that later code may assign.
    pub(super) fn settled(&mut self, e: &Expr, reg: Reg, later: impl FnOnce() -> Effects) -> Reg {
        let variable = variable_name(e).filter(|_| self.f().is_variable(reg));
        if variable.is_none_or(|name| !later().assigns(name)) {
            return reg;
        }
        let t = self.f().temp();
        self.f().emit(Op::Move, t, reg, 0);
        self.f().dirty.push(t);
        t
    }

    /// Evaluates an operand; the flag is true for an intermediate result, which the next instruction may move out.
    fn owned_operand(&mut self, e: &'a Expr) -> (Reg, bool) {
        if let Some(reg) = e.as_name().cloned().and_then(|name| self.plain_local(&name)) {
            self.checked(e, reg);
            return (reg, false);
        }
        let t = self.f().temp();
        self.expr(e, t);
        (t, true)
    }

    pub(super) fn plain_local(&mut self, name: &Name) -> Option<Reg> {
        if name == "_" {
            return self.f().piped;
        }
        match self.f().find_local(name, false) {
            Some(Binding::Local { reg, cell: false, .. }) => Some(*reg),
            _ => None,
        }
    }

    /// Evaluates `e` into `dst`. If `dst` is a variable that `e` may still read, an intermediate register is used.
    pub(super) fn expr(&mut self, e: &'a Expr, dst: Reg) {
        let direct = matches!(
            e.kind,
            ExprKind::Nil
                | ExprKind::Bool(_)
                | ExprKind::Int(_)
                | ExprKind::Float(_)
                | ExprKind::Duration(_)
                | ExprKind::Str(_)
                | ExprKind::Name(_)
                | ExprKind::Interp(_)
                | ExprKind::Unary { .. }
                | ExprKind::Call { .. }
                | ExprKind::MethodCall { optional: false, .. }
                | ExprKind::Member { optional: false, .. }
                | ExprKind::Index { optional: false, .. }
                | ExprKind::Slice { .. }
                | ExprKind::Closure { .. }
                | ExprKind::Paren(_)
        ) || matches!(&e.kind, ExprKind::Binary { op, .. } if !is_comparison(*op))
            || matches!(&e.kind, ExprKind::List(args) if args.iter().all(|a| !a.spread));
        let mark = self.f().next;
        if self.f().is_variable(dst) && !direct {
            let t = self.f().temp();
            self.expr_into(e, t);
            self.f().emit(Op::Take, dst, t, 0);
        } else {
            self.expr_into(e, dst);
        }
        self.checked(e, dst);
        self.f().next = mark;
    }

    fn expr_into(&mut self, e: &'a Expr, dst: Reg) {
        self.f().at(e.span);
        match &e.kind {
            ExprKind::Nil | ExprKind::Error => self.load_nil(dst),
            ExprKind::Bool(b) => drop(self.f().emit(Op::LoadBool, dst, u16::from(*b), 0)),
            ExprKind::Int(i) => self.load_int(*i, dst),
            ExprKind::Float(f) => self.load_const(Value::float(*f), dst),
            ExprKind::Duration(ms) => self.load_const(Value::duration(*ms), dst),
            ExprKind::Str(text) => self.load_text(text, dst),
            ExprKind::Interp(parts) => self.interp(parts, dst),
            ExprKind::Name(name) => self.name(name, e.span, dst),
            ExprKind::Paren(inner) => self.expr(inner, dst),
            ExprKind::List(items) => self.list(items, dst),
            ExprKind::Dict(items) => self.dict(items, dst),
            ExprKind::StructLit { name, items } => self.struct_literal(name, items, dst),
            ExprKind::Closure { func, .. } => self.closure(func, "<closure>", dst),
            ExprKind::If { arms, else_body } => self.if_expr(arms, else_body.as_ref(), Some(dst)),
            ExprKind::Match { value, arms } => self.match_expr(value, arms, Some(dst), false),
            ExprKind::Try { body, catch, finally } => {
                self.try_expr(body, catch.as_deref(), finally.as_ref(), Some(dst));
            }
            ExprKind::TryStar(operand) => {
                if !self.f().is_function {
                    self.error(
                        e.span,
                        "try* requires an enclosing function (fn, tool, or pipeline) so the rethrow has a target",
                    );
                }
                self.expr(operand, dst);
            }
            ExprKind::Retry { count, body } => self.retry(count, body, dst),
            ExprKind::Deadline { limit, body } => self.deadline(limit, body, dst),
            ExprKind::Spawn(func) => {
                let base = self.call_base(dst);
                let arg = self.f().temp();
                self.closure(func, "<closure>", arg);
                self.f().at(e.span);
                self.call_builtin("__spawn", base, 1, dst);
            }
            ExprKind::Parallel(parallel) => self.parallel(parallel, e.span, dst),
            ExprKind::Select(select) => self.select(select, e.span, dst),
            ExprKind::Unary { op, op_span, operand } => self.unary(*op, *op_span, operand, dst),
            ExprKind::Binary { op, op_span, lhs, rhs } => self.binary(*op, *op_span, lhs, rhs, dst),
            ExprKind::Logic { op: LogicOp::Coalesce, lhs, rhs, .. } => {
                self.expr(lhs, dst);
                let done = self.f().jump(Op::JumpIfNotNil, dst, 0);
                self.expr(rhs, dst);
                self.f().land(done);
            }
            ExprKind::Logic { .. } => self.condition_value(e, dst),
            ExprKind::Ternary { cond, then, other } => {
                let mut no = Vec::new();
                self.jump_unless(cond, &mut no);
                self.expr(then, dst);
                let done = self.f().jump(Op::Jump, 0, 0);
                self.f().land_all(no);
                self.expr(other, dst);
                self.f().land(done);
            }
            ExprKind::Range { start, end, exclusive, op_span } => {
                let a = self.operand_before(start, end);
                let b = self.operand(end);
                self.f().at(*op_span);
                let op = if *exclusive { Op::NewRangeExclusive } else { Op::NewRange };
                self.f().emit(op, dst, a, u32::from(b));
            }
            ExprKind::Pipe { value, func, op_span } => self.pipe(value, func, *op_span, dst, false),
            ExprKind::Call { callee, args, .. } => self.call(callee, args, e, dst, false),
            ExprKind::MethodCall { object, name, args, optional } => {
                self.method_call(object, name, args, *optional, dst);
            }
            ExprKind::Member { object, name, optional } => self.member(object, name, *optional, dst),
            ExprKind::Index { object, index, optional, op_span } => {
                self.index(object, index, *optional, *op_span, dst);
            }
            ExprKind::Slice { object, start, end, op_span } => {
                let bounds = || Effects::of_all(start.iter().chain(end).map(|e| &**e));
                let subject = self.operand(object);
                let object = self.settled(object, subject, bounds);
                let from = self.f().temp();
                let to = self.f().temp();
                for (bound, reg) in [(start, from), (end, to)] {
                    match bound {
                        Some(bound) => self.expr(bound, reg),
                        None => self.load_nil(reg),
                    }
                }
                self.f().at(*op_span);
                self.f().emit(Op::Slice, dst, object, u32::from(from));
            }
            ExprKind::Propagate { operand, op_span } => {
                let r = self.operand(operand);
                self.f().at(*op_span);
                let err = self.f().jump(Op::Propagate, dst, r);
                let done = self.f().jump(Op::Jump, 0, 0);
                self.f().land(err);
                self.leave(super::scope::Exit::Return, Some(r));
                self.f().land(done);
            }
        }
    }

    // ---- loads ----

    pub(super) fn load_nil(&mut self, dst: Reg) {
        self.f().emit(Op::LoadNil, dst, 0, 0);
    }

    pub(super) fn load_const(&mut self, value: Value, dst: Reg) {
        let k = self.f().constant(value);
        self.f().emit(Op::LoadK, dst, 0, k);
    }

    fn load_int(&mut self, i: i64, dst: Reg) {
        if fits_c(i) {
            self.f().emit(Op::LoadInt, dst, 0, i as u32 & MAX_C);
        } else {
            self.load_const(Value::int(i), dst);
        }
    }

    /// Jumps unless the int in `reg` is `number`.
    pub(super) fn jump_not_int(&mut self, reg: Reg, number: i64) -> usize {
        let k = self.f().constant(Value::int(number));
        match u16::try_from(k) {
            Ok(k) => self.f().jump(Op::JumpNeK, reg, k),
            Err(_) => {
                let t = self.f().temp();
                self.load_int(number, t);
                self.f().next -= 1;
                self.f().jump(Op::JumpNe, reg, t)
            }
        }
    }

    pub(super) fn text_constant(&mut self, text: &str) -> u32 {
        let vm = self.vm;
        self.f().text(text, |t| vm.intern(t))
    }

    pub(super) fn load_text(&mut self, text: &str, dst: Reg) {
        let k = self.text_constant(text);
        self.f().emit(Op::LoadK, dst, 0, k);
    }

    pub(super) fn fail(&mut self, kind: FailKind, text: &str) {
        let k = self.text_constant(text);
        self.f().emit(Op::Fail, 0, kind as u16, k);
    }

    fn name(&mut self, name: &Name, span: Span, dst: Reg) {
        if name == "_" {
            match self.f().piped {
                Some(reg) => drop(self.f().emit(Op::Move, dst, reg, 0)),
                None => self.fail(FailKind::Plain, "Undefined variable: _"),
            }
            return;
        }
        match self.resolve(name) {
            Some(binding) => self.load_binding(name, &binding, dst),
            None => {
                if let Some(value) = self.vm.global(name) {
                    self.load_const(value, dst);
                } else if let Some(builtin) = self.vm.refer_to(name) {
                    self.load_const(builtin.value(), dst);
                } else {
                    self.f().at(span);
                    let text = format!("Undefined variable: {name}{}", self.hint(name));
                    self.fail(FailKind::Plain, &text);
                }
            }
        }
    }

    pub(super) fn load_binding(&mut self, name: &Name, binding: &Binding, dst: Reg) {
        match *binding {
            Binding::Local { reg, cell: false, .. } => {
                if reg != dst {
                    self.f().emit(Op::Move, dst, reg, 0);
                }
            }
            Binding::Local { reg, cell: true, .. } => {
                let k = self.text_constant(name);
                self.f().emit(Op::GetCell, dst, reg, k);
            }
            Binding::Up { index, cell: false, .. } => drop(self.f().emit(Op::GetUp, dst, index, 0)),
            Binding::Up { index, cell: true, .. } => {
                let k = self.text_constant(name);
                self.f().emit(Op::GetUpCell, dst, index, k);
            }
            Binding::Global { module, index, mutable } => {
                let op = if mutable { Op::GetGlobalVar } else { Op::GetGlobal };
                self.f().emit(op, dst, module as u16, index);
            }
            Binding::Function { index, .. } => drop(self.f().emit(Op::GetFunction, dst, 0, index)),
            Binding::Struct(ref ty, _) => {
                let ctor = Value::foreign(crate::closure::Constructor(ty.clone()));
                self.load_const(ctor, dst);
            }
            Binding::Enum(_) | Binding::Alias(_) | Binding::Interface(_) | Binding::Pipeline => {
                let text = format!("Undefined variable: {name}");
                self.fail(FailKind::Plain, &text);
            }
        }
    }

    fn interp(&mut self, parts: &'a [StrPart], dst: Reg) {
        let span = self.f().span();
        let first = self.f().next as Reg;
        for part in parts {
            let t = self.f().temp();
            match part {
                StrPart::Text(text) => self.load_text(text, t),
                StrPart::Expr(e) => self.expr(e, t),
            }
        }
        self.f().at(span);
        self.f().emit(Op::Interp, dst, first, parts.len() as u32);
    }

    // ---- operators ----

    fn unary(&mut self, op: UnaryOp, span: Span, operand: &'a Expr, dst: Reg) {
        match (op, &operand.kind) {
            (UnaryOp::Neg, ExprKind::Int(i)) => self.load_int(i.wrapping_neg(), dst),
            (UnaryOp::Neg, ExprKind::Float(f)) => self.load_const(Value::float(-f), dst),
            _ => {
                let r = self.operand(operand);
                self.f().at(span);
                self.f().emit(if op == UnaryOp::Neg { Op::Neg } else { Op::Not }, dst, r, 0);
            }
        }
    }

    pub(super) fn number(e: &Expr) -> Option<Value> {
        match &e.kind {
            ExprKind::Int(i) => Some(Value::int(*i)),
            ExprKind::Float(f) => Some(Value::float(*f)),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match operand.kind {
                ExprKind::Int(i) => Some(Value::int(i.wrapping_neg())),
                ExprKind::Float(f) => Some(Value::float(-f)),
                _ => None,
            },
            ExprKind::Paren(inner) => Self::number(inner),
            _ => None,
        }
    }

    /// Returns a literal operand as a constant for the instruction forms with a 16-bit constant.
    fn literal(&mut self, e: &Expr) -> Option<u16> {
        let k = match &e.kind {
            ExprKind::Str(text) => self.text_constant(text),
            ExprKind::Bool(b) => self.f().constant(Value::bool(*b)),
            _ => {
                let number = Self::number(e)?;
                self.f().constant(number)
            }
        };
        u16::try_from(k).ok()
    }

    fn binary(&mut self, op: BinaryOp, span: Span, lhs: &'a Expr, rhs: &'a Expr, dst: Reg) {
        let ops = match op {
            BinaryOp::Add => Some((Op::Add, Some(Op::AddK))),
            BinaryOp::Sub => Some((Op::Sub, Some(Op::SubK))),
            BinaryOp::Mul => Some((Op::Mul, Some(Op::MulK))),
            BinaryOp::Div => Some((Op::Div, Some(Op::DivK))),
            BinaryOp::Rem => Some((Op::Rem, Some(Op::RemK))),
            BinaryOp::Pow => Some((Op::Pow, None)),
            BinaryOp::Eq => Some((Op::Eq, None)),
            BinaryOp::Ne => Some((Op::Ne, None)),
            _ => None,
        };
        if let Some((plain, with_constant)) = ops {
            // `a + b + c`: the sum so far is in a temporary register, where the interpreter appends in place.
            let l = if matches!(lhs.kind, ExprKind::Binary { op: BinaryOp::Add, .. })
                && !self.f().is_variable(dst)
            {
                self.expr(lhs, dst);
                dst
            } else {
                self.operand_before(lhs, rhs)
            };
            if let (BinaryOp::Add, true, ExprKind::List(items)) = (op, l == dst, &rhs.kind)
                && let [Arg { value: item, spread: false, .. }] = &items[..]
            {
                let t = self.f().temp();
                self.expr(item, t);
                self.f().at(span);
                self.f().emit(Op::Append, dst, t, 0);
            } else if let (Some(_), Some(number)) = (with_constant, Self::number(rhs)) {
                self.f().at(span);
                self.arithmetic_with(op, dst, l, &number);
                self.used_up(l);
            } else {
                let r = self.operand(rhs);
                self.f().at(span);
                self.f().emit(plain, dst, l, u32::from(r));
                if is_arithmetic(op) && (op != BinaryOp::Add || is_number(lhs) || is_number(rhs)) {
                    self.used_up(l);
                    self.used_up(r);
                }
            }
            return;
        }
        let l = self.operand_before(lhs, rhs);
        let r = self.operand(rhs);
        self.f().at(span);
        let (op, a, b, negate) = match op {
            BinaryOp::Lt => (Op::Lt, l, r, false),
            BinaryOp::Le => (Op::Le, l, r, false),
            BinaryOp::Gt => (Op::Lt, r, l, false),
            BinaryOp::Ge => (Op::Le, r, l, false),
            BinaryOp::In => (Op::In, l, r, false),
            _ => (Op::In, l, r, true),
        };
        self.f().emit(op, dst, a, u32::from(b));
        if negate {
            self.f().emit(Op::Not, dst, dst, 0);
        }
    }

    /// Compiles `dst = l op number`. The int forms need neither a constant nor a type check of it.
    pub(super) fn arithmetic_with(&mut self, op: BinaryOp, dst: Reg, l: Reg, number: &Value) {
        let (with_constant, with_int) = match op {
            BinaryOp::Add => (Op::AddK, Op::AddI),
            BinaryOp::Sub => (Op::SubK, Op::SubI),
            BinaryOp::Mul => (Op::MulK, Op::MulI),
            BinaryOp::Div => (Op::DivK, Op::DivI),
            _ => (Op::RemK, Op::RemI),
        };
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem);
        match number.as_int() {
            Some(i) if fits_c(i) && (i > 0 || !divides) => {
                self.f().emit(with_int, dst, l, i as u32 & MAX_C);
            }
            _ => {
                let k = self.f().constant(number.clone());
                self.f().emit(with_constant, dst, l, k);
            }
        }
    }

    /// Marks an operand register as clean: after arithmetic with numbers (or with a string that was copied) it no
    /// longer shares a container.
    pub(super) fn used_up(&mut self, reg: Reg) {
        self.f().dirty.retain(|r| *r != reg);
    }

    /// Evaluates a comparison or logical expression to a bool in `dst`.
    fn condition_value(&mut self, e: &'a Expr, dst: Reg) {
        let mut no = Vec::new();
        self.jump_unless(e, &mut no);
        self.f().emit(Op::LoadBool, dst, 1, 0);
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().land_all(no);
        self.f().emit(Op::LoadBool, dst, 0, 0);
        self.f().land(done);
    }

    /// Jumps if `e` is falsy; falls through if it is truthy.
    pub(super) fn jump_unless(&mut self, e: &'a Expr, out: &mut Vec<usize>) {
        self.branch(e, false, out);
    }

    /// Jumps if `e` is truthy; falls through if it is falsy.
    pub(super) fn jump_if(&mut self, e: &'a Expr, out: &mut Vec<usize>) {
        self.branch(e, true, out);
    }

    fn branch(&mut self, e: &'a Expr, when: bool, out: &mut Vec<usize>) {
        let mark = self.f().next;
        match &e.kind {
            ExprKind::Paren(inner) => self.branch(inner, when, out),
            ExprKind::Unary { op: UnaryOp::Not, operand, .. } => self.branch(operand, !when, out),
            ExprKind::Logic { op: op @ (LogicOp::And | LogicOp::Or), lhs, rhs, .. } => {
                if (*op == LogicOp::Or) == when {
                    // Each side alone can decide the result.
                    self.branch(lhs, when, out);
                    self.branch(rhs, when, out);
                } else {
                    let mut skip = Vec::new();
                    self.branch(lhs, !when, &mut skip);
                    self.branch(rhs, when, out);
                    self.f().land_all(skip);
                }
            }
            ExprKind::Binary { op, op_span, lhs, rhs } if is_comparison(*op) => {
                self.compare_branch(*op, *op_span, lhs, rhs, when, out);
            }
            _ => {
                let r = self.operand(e);
                self.f().at(e.span);
                let jump = self.f().jump(if when { Op::JumpIf } else { Op::JumpIfNot }, r, 0);
                out.push(jump);
            }
        }
        self.f().next = mark;
    }

    fn compare_branch(
        &mut self,
        op: BinaryOp,
        span: Span,
        lhs: &'a Expr,
        rhs: &'a Expr,
        when: bool,
        out: &mut Vec<usize>,
    ) {
        let l = self.operand_before(lhs, rhs);
        if let Some(i) = Self::number(rhs).and_then(|n| n.as_int()).and_then(|i| i16::try_from(i).ok()) {
            let op = match (op, when) {
                (BinaryOp::Lt, true) => Op::JumpLtI,
                (BinaryOp::Le, true) => Op::JumpLeI,
                (BinaryOp::Gt, true) => Op::JumpGtI,
                (BinaryOp::Ge, true) => Op::JumpGeI,
                (BinaryOp::Lt, false) => Op::JumpNotLtI,
                (BinaryOp::Le, false) => Op::JumpNotLeI,
                (BinaryOp::Gt, false) => Op::JumpNotGtI,
                (BinaryOp::Ge, false) => Op::JumpNotGeI,
                (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => Op::JumpEqI,
                _ => Op::JumpNeI,
            };
            self.f().at(span);
            let jump = self.f().jump(op, l, i as u16);
            out.push(jump);
            return;
        }
        let is_equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        if is_equality && matches!(rhs.kind, ExprKind::Nil) {
            self.f().at(span);
            let op = if (op == BinaryOp::Eq) == when { Op::JumpIfNil } else { Op::JumpIfNotNil };
            let jump = self.f().jump(op, l, 0);
            out.push(jump);
            return;
        }
        let literal = if is_equality || Self::number(rhs).is_some() { self.literal(rhs) } else { None };
        let jump = if let Some(k) = literal {
            let op = match (op, when) {
                (BinaryOp::Lt, true) => Op::JumpLtK,
                (BinaryOp::Le, true) => Op::JumpLeK,
                (BinaryOp::Gt, true) => Op::JumpGtK,
                (BinaryOp::Ge, true) => Op::JumpGeK,
                (BinaryOp::Lt, false) => Op::JumpNotLtK,
                (BinaryOp::Le, false) => Op::JumpNotLeK,
                (BinaryOp::Gt, false) => Op::JumpNotGtK,
                (BinaryOp::Ge, false) => Op::JumpNotGeK,
                (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => Op::JumpEqK,
                _ => Op::JumpNeK,
            };
            self.f().at(span);
            self.f().jump(op, l, k)
        } else {
            let r = self.operand(rhs);
            self.f().at(span);
            let (op, a, b) = match (op, when) {
                (BinaryOp::Lt, true) => (Op::JumpLt, l, r),
                (BinaryOp::Le, true) => (Op::JumpLe, l, r),
                (BinaryOp::Gt, true) => (Op::JumpLt, r, l),
                (BinaryOp::Ge, true) => (Op::JumpLe, r, l),
                (BinaryOp::Lt, false) => (Op::JumpNotLt, l, r),
                (BinaryOp::Le, false) => (Op::JumpNotLe, l, r),
                (BinaryOp::Gt, false) => (Op::JumpNotLt, r, l),
                (BinaryOp::Ge, false) => (Op::JumpNotLe, r, l),
                (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => (Op::JumpEq, l, r),
                _ => (Op::JumpNe, l, r),
            };
            self.f().jump(op, a, b)
        };
        out.push(jump);
    }

    // ---- access ----

    fn member(&mut self, object: &'a Expr, name: &'a Ident, optional: bool, dst: Reg) {
        if let Some(enum_name) = object.as_name()
            && let Some(Binding::Enum(ty)) = self.resolve_type(enum_name)
        {
            self.enum_value(&ty, &name.name, name.span, None, dst);
            return;
        }
        if let Some(builtin) = self.namespaced(object, &name.name) {
            self.load_const(builtin.value(), dst);
            return;
        }
        if self.fails_as_unknown(object, name) {
            return;
        }
        let (r, owned) = self.owned_operand(object);
        self.f().at(name.span);
        let k = self.text_constant(&name.name);
        let op = match (optional, owned) {
            (true, _) => Op::GetFieldOpt,
            (false, true) => Op::GetFieldTake,
            (false, false) => Op::GetField,
        };
        self.f().emit(op, dst, r, k);
        if optional && owned && r != dst {
            self.f().emit(Op::Clear, r, 0, 0);
        }
    }

    fn index(&mut self, object: &'a Expr, index: &'a Expr, optional: bool, span: Span, dst: Reg) {
        let (variable, owned) = self.owned_operand(object);
        let r = self.settled(object, variable, || Effects::of(index));
        let owned = owned || r != variable;
        let nil = optional.then(|| self.f().jump(Op::JumpIfNil, r, 0));
        let i = self.operand(index);
        self.f().at(span);
        self.f().emit(if owned { Op::GetIndexTake } else { Op::GetIndex }, dst, r, u32::from(i));
        if let Some(nil) = nil {
            let done = self.f().jump(Op::Jump, 0, 0);
            self.f().land(nil);
            self.load_nil(dst);
            self.f().land(done);
        }
    }

    // ---- collections ----

    pub(super) fn list(&mut self, items: &'a [Arg], dst: Reg) {
        let span = self.f().span();
        if items.iter().all(|a| !a.spread) && items.len() < 200 {
            let first = self.f().next as Reg;
            for item in items {
                let t = self.f().temp();
                self.expr(&item.value, t);
            }
            self.f().at(span);
            self.f().emit(Op::NewList, dst, first, items.len() as u32);
            return;
        }
        // Long lists and lists with spreads are built item by item, in a register that no other code reads.
        let out = if self.f().is_variable(dst) { self.f().temp() } else { dst };
        self.f().emit(Op::NewList, out, 0, 0);
        for item in items {
            let mark = self.f().next;
            let t = self.f().temp();
            self.expr(&item.value, t);
            self.f().at(if item.spread { item.value.span } else { span });
            self.f().emit(if item.spread { Op::ListSpread } else { Op::ListPush }, out, t, 0);
            self.f().next = mark;
        }
        if out != dst {
            self.f().emit(Op::Take, dst, out, 0);
        }
    }

    fn dict(&mut self, items: &'a [DictItem], dst: Reg) {
        let span = self.f().span();
        let moved = self.moved.take();
        self.f().emit(Op::NewDict, dst, 0, items.len() as u32);
        for item in items {
            let mark = self.f().next;
            match item {
                DictItem::Entry { key, value } => {
                    let t = self.f().temp();
                    match value
                        .as_name()
                        .and_then(|n| schema_place::is_key(&key.name).then(|| self.alias_schema(n)).flatten())
                    {
                        Some(schema) => self.load_const(schema, t),
                        None => self.expr(value, t),
                    }
                    self.f().at(key.span);
                    let k = self.text_constant(&key.name);
                    self.f().emit(Op::DictSetK, dst, t, k);
                }
                DictItem::Computed { key, value } => {
                    let k = self.f().temp();
                    self.expr(key, k);
                    let t = self.f().temp();
                    self.expr(value, t);
                    self.f().at(span);
                    self.f().emit(Op::DictSet, dst, k, u32::from(t));
                }
                DictItem::Spread(value) => {
                    let t = self.f().temp();
                    self.arg(value, t, moved);
                    self.f().at(value.span);
                    self.f().emit(Op::DictSpread, dst, t, 0);
                }
            }
            self.f().next = mark;
        }
    }

    fn struct_literal(&mut self, name: &'a Ident, items: &'a [DictItem], dst: Reg) {
        let Some(Binding::Struct(ty, alias)) = self.resolve_type(&name.name) else {
            let text = format!("Undefined variable: {}{}", name.name, self.hint(&name.name));
            self.f().at(name.span);
            self.fail(FailKind::Plain, &text);
            return;
        };
        if let Some((DictItem::Spread(base), changes)) = items.split_first() {
            self.struct_update(&ty, name, base, changes, dst);
            return;
        }
        let number = self.f().structs.len() as u32;
        self.f().structs.push(ty.clone());
        let mut given = FxHashSet::default();
        let simple = items.iter().all(|item| match item {
            DictItem::Entry { key, .. } => ty.position(&key.name).is_some_and(|slot| given.insert(slot)),
            _ => false,
        });
        if !simple {
            let t = self.f().temp();
            self.dict(items, t);
            self.f().at(name.span);
            self.f().emit(Op::StructFromDict, dst, t, number);
            return;
        }
        let first = self.f().next as Reg;
        for _ in &ty.fields {
            self.f().temp();
        }
        let checks = self.literal_checks(&ty, &alias);
        for slot in 0..ty.fields.len() {
            if given.contains(&slot) {
                continue;
            }
            let reg = first + slot as Reg;
            // A missing field reads as nil.
            if let Some((check, field)) = checks.get(slot).cloned().flatten()
                && !check.accepts(&Value::NIL)
            {
                self.f().at(name.span);
                self.load_nil(reg);
                self.emit_check(reg, TypeCheck { name: field, check, place: Annotated::Value });
            }
            self.f().emit(Op::LoadAbsent, reg, 0, 0);
        }
        for item in items {
            if let DictItem::Entry { key, value } = item {
                let slot = ty.position(&key.name).unwrap_or_default();
                let reg = first + slot as Reg;
                match checks.get(slot).cloned().flatten() {
                    Some((check, field)) => {
                        self.expecting(value, (&check, &field), None, |compiler| {
                            compiler.expr(value, reg);
                            reg
                        });
                    }
                    None => self.expr(value, reg),
                }
            }
        }
        self.f().at(name.span);
        self.f().emit(Op::NewStruct, dst, first, number);
    }

    /// Compiles `P {...base, x: 1}`.
    fn struct_update(
        &mut self,
        ty: &harn_value::Ref<harn_value::StructType>,
        name: &'a Ident,
        base: &'a Expr,
        changes: &'a [DictItem],
        dst: Reg,
    ) {
        let mark = self.f().next;
        let call = self.call_base(dst);
        let t = self.f().temp();
        self.expr(base, t);
        let t = self.f().temp();
        self.dict(changes, t);
        let slots = ty.fields.iter().map(|_| Value::ABSENT).collect();
        let model = harn_value::StructValue { ty: ty.clone(), slots, extra: None };
        let t = self.f().temp();
        self.load_const(model.into(), t);
        self.f().at(name.span);
        self.call_builtin("__struct_update", call, 3, dst);
        self.f().next = mark;
    }

    /// Compiles `E.V` or `E.V(args)`.
    pub(super) fn enum_value(
        &mut self,
        ty: &harn_value::Ref<harn_value::EnumType>,
        variant: &str,
        span: Span,
        args: Option<&'a [Arg]>,
        dst: Reg,
    ) {
        let Some(index) = ty.variant(variant) else {
            self.f().at(span);
            let text = format!("enum {} has no variant '{variant}'", ty.name);
            self.fail(FailKind::Runtime, &text);
            return;
        };
        let prototype = harn_value::EnumValue { ty: ty.clone(), variant: index, fields: Default::default() };
        let k = self.f().constant(prototype.into());
        let args = args.unwrap_or_default();
        if args.is_empty() {
            self.f().emit(Op::LoadK, dst, 0, k);
            return;
        }
        if args.iter().any(|a| a.spread) {
            let list = self.f().temp();
            self.list(args, list);
            self.f().emit(Op::NewEnum, dst, list, k | crate::bytecode::TAKE);
            return;
        }
        let first = self.f().next as Reg;
        for arg in args {
            let t = self.f().temp();
            self.expr(&arg.value, t);
        }
        self.f().at(span);
        // The payload starts one register after `a`, as in a call; the result is moved if needed.
        if dst + 1 == first && !self.f().is_variable(dst) {
            self.f().emit(Op::NewEnum, dst, args.len() as u16, k);
        } else {
            // Shift by one, because the register before the first payload register is in use.
            let base = self.f().temp();
            let moved: Vec<Reg> = args.iter().map(|_| self.f().temp()).collect();
            for (i, to) in moved.iter().enumerate() {
                self.f().emit(Op::Take, *to, first + i as Reg, 0);
            }
            self.f().emit(Op::NewEnum, base, args.len() as u16, k);
            self.f().emit(Op::Take, dst, base, 0);
        }
    }

    /// Returns the schema value of a type alias or struct, for `output_schema: T`.
    pub(super) fn alias_schema(&mut self, name: &Name) -> Option<Value> {
        match self.resolve(name)? {
            Binding::Alias(alias) | Binding::Struct(_, alias) => {
                Some(self.with_types(|scope| crate::schema::schema_of(&alias, scope)))
            }
            _ => None,
        }
    }

    /// The schema of the type in `schema_of(list<Item>)`.
    pub(super) fn written_schema(&mut self, call: &Expr) -> Option<Value> {
        let ExprKind::Call { callee, type_args, args } = &call.kind else { return None };
        let name = callee.as_name()?;
        let ty = schema_place::written_type(name, type_args, args)?;
        match self.resolve(name) {
            Some(_) => None,
            None => Some(self.with_types(|scope| crate::schema::schema_of_type(ty, scope))),
        }
    }

    /// Returns the builtin `namespace.name`, unless the program shadows the namespace.
    pub(super) fn namespaced(&mut self, object: &Expr, name: &str) -> Option<&'static crate::Builtin> {
        let namespace = match &object.kind {
            ExprKind::Name(namespace) => namespace.clone(),
            _ => return None,
        };
        if self.resolve(&namespace).is_some() {
            return None;
        }
        self.vm.refer_to(&format!("{namespace}.{name}"))
    }

    /// Emits a failure if `object` is a namespace of builtins without the member `name`; returns false for any other
    /// object.
    pub(super) fn fails_as_unknown(&mut self, object: &Expr, name: &Ident) -> bool {
        let Some(namespace) = object.as_name().filter(|_| !name.name.is_empty()).cloned() else {
            return false;
        };
        let start = format!("{namespace}.");
        let is_space = self.vm.builtin(&namespace).is_none()
            && self.vm.global(&namespace).is_none()
            && self.resolve(&namespace).is_none()
            && self.vm.builtin_names().any(|known| known.starts_with(&start));
        if is_space {
            let full = format!("{start}{}", name.name);
            self.f().at(name.span);
            let hint = crate::suggest::hint(
                &full,
                self.vm.builtin_names().filter(|known| known.starts_with(&start)),
            );
            self.fail(FailKind::Plain, &format!("Undefined builtin: {full}{hint}"));
        }
        is_space
    }
}

/// Returns the name if the operand is only a name.
pub(super) fn variable_name(e: &Expr) -> Option<&Name> {
    match &e.kind {
        ExprKind::Paren(inner) => variable_name(inner),
        _ => e.as_name(),
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge)
}

/// Returns whether `i` fits operand `c` of an instruction.
fn fits_c(i: i64) -> bool {
    (-(1 << 23)..1 << 23).contains(&i)
}

/// Returns whether `e` always evaluates to a number or a duration, unless it throws.
pub(super) fn is_number(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Unary { op: UnaryOp::Neg, .. } => true,
        ExprKind::Binary { op: BinaryOp::Sub | BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow, .. } => true,
        ExprKind::Paren(inner) => is_number(inner),
        _ => false,
    }
}

fn is_arithmetic(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Sub};
    matches!(op, Add | Sub | Mul | Div | Rem | Pow)
}
