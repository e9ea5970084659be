//! Compilation of statements and blocks.

use std::rc::Rc;

use harn_syntax::ast::*;
use harn_syntax::signature::Kinds;

use super::Compiler;
use super::scope::{Binding, Control, Exit, Guard, Known, Reg};
use crate::bytecode::{FailKind, Handler, HandlerKind, Op};
use crate::params::{Annotated, Check, TypeCheck};

impl<'a> Compiler<'a> {
    /// Compiles a block in a new scope; its value goes to `dst`.
    pub(super) fn block(&mut self, block: &'a Block, dst: Option<Reg>) {
        self.f().open_scope();
        self.block_in_scope(block, dst);
        self.release_scope();
        self.f().close_scope();
    }

    /// Drops the values of a block's variables at its end, in programs where that can run cleanup.
    fn release_scope(&mut self) {
        if self.vm.settles.get() {
            for reg in self.f().scope_registers().into_iter().rev() {
                self.f().emit(Op::Clear, reg, 0, 0);
            }
            self.f().emit(Op::Settle, 0, 0, 0);
        }
    }

    /// Compiles a block in the scope that is already open.
    pub(super) fn block_in_scope(&mut self, block: &'a Block, dst: Option<Reg>) {
        self.hoist(&block.stmts);
        self.stmts(&block.stmts, dst);
    }

    /// Compiles the block at the end of a function: its value is returned.
    pub(super) fn tail_block(&mut self, block: &'a Block) {
        if block.stmts.iter().any(|s| matches!(s.kind, StmtKind::Defer(_))) || self.f().generator {
            let t = self.f().temp();
            self.block(block, Some(t));
            self.check_result(t);
            self.leave(Exit::Return, Some(t));
            return;
        }
        self.f().open_scope();
        self.hoist(&block.stmts);
        match block.stmts.split_last() {
            Some((last @ Stmt { kind: StmtKind::Expr(e), .. }, rest)) => {
                self.stmts(rest, None);
                self.show(last);
                self.tail(e, false);
            }
            _ => {
                self.stmts(&block.stmts, None);
                let leaves = block.stmts.last().map(|last| &last.kind);
                if !matches!(leaves, Some(StmtKind::Return(_) | StmtKind::Throw(_))) {
                    self.check_nil_result();
                }
                self.leave(Exit::Return, None);
            }
        }
        self.f().close_scope();
    }

    /// Compiles statements in order; the value of the last goes to `dst`. Inside an expression, the intermediate
    /// results of the surrounding expression are still needed and are not cleared.
    pub(super) fn stmts(&mut self, stmts: &'a [Stmt], dst: Option<Reg>) {
        let around = std::mem::take(&mut self.f().dirty);
        self.stmts_alone(stmts, dst);
        self.f().dirty = around;
    }

    fn stmts_alone(&mut self, stmts: &'a [Stmt], dst: Option<Reg>) {
        for (i, stmt) in stmts.iter().enumerate() {
            if let StmtKind::Defer(body) = &stmt.kind {
                let rest = &stmts[i + 1..];
                self.with_finally(Some(body), |c| c.stmts(rest, dst), |c| c.block(body, None));
                return;
            }
            self.show(stmt);
            if i + 1 == stmts.len()
                && let (StmtKind::Expr(e), Some(dst)) = (&stmt.kind, dst)
            {
                self.expr(e, dst);
                self.clean_up(Some(dst));
                return;
            }
            self.stmt(stmt);
            self.clean_up(None);
            if self.vm.settles.get() && drops(stmt) {
                self.f().emit(Op::Settle, 0, 0, 0);
            }
        }
        if let Some(dst) = dst {
            self.load_nil(dst);
        }
    }

    /// Emits the point at which an observer sees a statement: the interpreter leaves its loop there.
    fn show(&mut self, stmt: &Stmt) {
        if self.f().shown.is_none() || matches!(stmt.kind, StmtKind::Decl(_) | StmtKind::Import(_)) {
            return;
        }
        self.f().at(stmt.span);
        let at = self.f().emit(Op::Settle, 0, 0, 0) as u32;
        if let Some(shown) = &mut self.f().shown {
            shown.statements.push(at);
        }
    }

    /// Clears intermediate registers that could keep a container shared.
    fn clean_up(&mut self, keep: Option<Reg>) {
        let mut dirty = std::mem::take(&mut self.f().dirty);
        dirty.retain(|reg| Some(*reg) != keep && !self.f().is_variable(*reg));
        dirty.sort_unstable();
        // One instruction clears adjacent registers and unused ones between them: above the variables, no other
        // register is in use.
        let mut runs: Vec<(Reg, Reg)> = Vec::new();
        for reg in dirty {
            match runs.last_mut() {
                Some((_, last)) if reg - *last <= 2 && self.is_dead(*last + 1..reg, keep) => *last = reg,
                _ => runs.push((reg, reg)),
            }
        }
        for (first, last) in runs {
            self.f().emit(Op::Clear, first, 0, u32::from(last - first));
        }
    }

    /// Returns whether no register of the range is in use between two statements.
    fn is_dead(&mut self, mut regs: std::ops::Range<Reg>, keep: Option<Reg>) -> bool {
        let free = self.f().next;
        regs.all(|reg| u32::from(reg) >= free && Some(reg) != keep && !self.f().is_variable(reg))
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        self.f().at(stmt.span);
        let mark = self.f().next;
        match &stmt.kind {
            StmtKind::Expr(e) => self.effect(e),
            StmtKind::Let { mutable, pattern, ty, value } => {
                // The registers of declared variables stay reserved.
                self.let_stmt(*mutable, pattern, ty.as_ref(), value);
                return;
            }
            StmtKind::Assign { target, op, op_span, value } => self.assign(target, *op, *op_span, value),
            StmtKind::For { pattern, iter, body } => self.for_stmt(pattern, iter, body),
            StmtKind::While { cond, body } => {
                self.f().control.push(Control::Loop { breaks: Vec::new(), continues: Vec::new() });
                let enter = self.f().jump(Op::Jump, 0, 0);
                let start = self.f().pc();
                self.block(body, None);
                let test = self.f().pc();
                self.next_round();
                self.f().land(enter);
                let mut again = Vec::new();
                self.jump_if(cond, &mut again);
                again.into_iter().for_each(|pc| self.f().aim(pc, start));
                self.end_loop(test);
            }
            StmtKind::Guard { cond, body } => {
                let mut yes = Vec::new();
                self.jump_if(cond, &mut yes);
                self.block(body, None);
                self.f().land_all(yes);
            }
            StmtKind::Require { cond, message } => {
                let mut yes = Vec::new();
                self.jump_if(cond, &mut yes);
                match message {
                    Some(message) => {
                        let r = self.operand(message);
                        self.f().at(message.span);
                        self.f().emit(Op::Throw, r, 0, 0);
                    }
                    None => self.fail(FailKind::Thrown, "require condition failed"),
                }
                self.f().land_all(yes);
            }
            StmtKind::Return(Some(e)) => self.return_expr(e),
            StmtKind::Return(None) => self.leave_with_nil(),
            StmtKind::Throw(e) => {
                let r = self.operand(e);
                self.f().at(e.span);
                self.f().emit(Op::Throw, r, 0, 0);
            }
            StmtKind::Break if self.in_loop() => self.leave(Exit::Break, None),
            StmtKind::Continue if self.in_loop() => self.leave(Exit::Continue, None),
            StmtKind::Break => self.error(stmt.span, "break outside of loop"),
            StmtKind::Continue => self.error(stmt.span, "continue outside of loop"),
            StmtKind::Yield(e) => {
                let t = self.f().temp();
                match e {
                    Some(e) => self.expr(e, t),
                    None => self.load_nil(t),
                }
                if !self.f().plain_yield {
                    self.f().at(stmt.span);
                    self.f().emit(Op::Yield, t, 0, 0);
                }
            }
            StmtKind::Emit(e) => {
                let t = self.f().temp();
                self.expr(e, t);
                self.f().at(stmt.span);
                self.f().emit(Op::Yield, t, 0, 0);
            }
            StmtKind::Mutex(body) => self.mutex(body),
            // Handled by `stmts`, which compiles the enclosing block.
            StmtKind::Defer(_) | StmtKind::Import(_) | StmtKind::Override { .. } => {}
            StmtKind::Decl(decl) => {
                self.decl(decl);
                return;
            }
        }
        self.f().next = mark;
    }

    /// Checks the result of the function.
    fn check_result(&mut self, reg: Reg) {
        if let Some(check) = self.f().result.clone() {
            let name = self.f().result_name();
            self.emit_check(reg, TypeCheck { name, check, place: Annotated::Value });
        }
    }

    /// Checks that the function may return nil.
    fn check_nil_result(&mut self) {
        if self.f().result.as_ref().is_some_and(|check| !check.accepts(&harn_value::Value::NIL)) {
            let t = self.f().temp();
            self.load_nil(t);
            self.check_result(t);
            self.f().next -= 1;
        }
    }

    fn leave_with_nil(&mut self) {
        self.check_nil_result();
        if self.f().control.iter().any(|c| matches!(c, Control::Finally { .. })) {
            let t = self.f().temp();
            self.load_nil(t);
            self.leave(Exit::Return, Some(t));
        } else {
            self.leave(Exit::Return, None);
        }
    }

    // ---- declarations of variables ----

    fn let_stmt(&mut self, mutable: bool, pattern: &'a Pattern, ty: Option<&TypeExpr>, value: &'a Expr) {
        if let PatternKind::Name(name) = &pattern.kind {
            if name.name == "_" {
                self.effect(value);
                return;
            }
            let fixed = self.redeclares(name, mutable);
            let check = ty.and_then(|ty| self.annotation(ty));
            let known = self.known_variable(&name.name, check.as_ref(), value, mutable);
            let target = self.target_of(name, mutable);
            if let Target::Register(reg) = target {
                self.initial(value, check.as_ref(), &name.name, reg);
                self.clean_up(Some(reg));
                if fixed {
                    self.fail_redeclared(name);
                }
                self.finish_variable(name, reg, mutable);
                self.f().learn(&name.name, known);
            } else {
                let mark = self.f().next;
                let t = self.f().temp();
                self.initial(value, check.as_ref(), &name.name, t);
                if fixed {
                    self.fail_redeclared(name);
                }
                self.store(name, target, t, mutable);
                if matches!(target, Target::Cell(_)) {
                    self.f().learn(&name.name, known);
                }
                self.f().next = mark;
            }
            return;
        }
        // Names first, so that their registers are below the value's.
        let targets = self.pattern_targets(pattern, mutable);
        let mark = self.f().next;
        let t = self.f().temp();
        self.expr(value, t);
        self.destructure(pattern, t, targets, mutable);
        self.f().emit(Op::Clear, t, 0, 0);
        self.f().next = mark;
    }

    /// Evaluates the first value of a variable, which must pass the check of the annotation.
    fn initial(&mut self, value: &'a Expr, check: Option<&Rc<Check>>, name: &Name, dst: Reg) {
        let evaluate = |compiler: &mut Self| {
            compiler.expr(value, dst);
            dst
        };
        match check {
            Some(check) => drop(self.expecting(value, (check, name), None, evaluate)),
            None => drop(evaluate(self)),
        }
    }

    /// Returns whether this declaration repeats an immutable name of the same scope.
    pub(super) fn redeclares(&mut self, name: &Ident, mutable: bool) -> bool {
        if mutable || name.name == "_" {
            return false;
        }
        if self.is_top_level() && self.module.names.contains_key(&name.name) {
            return self.top_fixed.get(&name.name).copied().unwrap_or(false);
        }
        // The outermost scope of a function body shares its names with the parameters.
        self.f().in_scope(&name.name).is_some_and(|l| l.declared && l.fixed)
            || (self.f().scopes.len() == 2 && self.f().is_function && self.f().scopes[0].is_fixed(&name.name))
    }

    pub(super) fn fail_redeclared(&mut self, name: &Ident) {
        self.f().at(name.span);
        let text = format!(
            "Cannot redeclare immutable variable '{}' in the same scope (use 'var' for mutable bindings)",
            name.name
        );
        self.fail(FailKind::Runtime, &text);
    }

    /// Returns the storage for a variable that is about to be declared.
    pub(super) fn target_of(&mut self, name: &Ident, mutable: bool) -> Target {
        if self.is_top_level()
            && let Some(Binding::Global { module, index, mutable: cell }) = self.module.names.get(&name.name)
        {
            let (module, index, cell) = (*module, *index, *cell);
            let _ = mutable;
            return Target::Global { module, index, cell };
        }
        if let Some(local) = self.f().in_scope(&name.name)
            && !local.declared
            && let Binding::Local { reg, .. } = local.binding
        {
            return Target::Cell(reg);
        }
        Target::Register(self.f().temp())
    }

    /// Declares the variable whose value is in `reg`.
    pub(super) fn finish_variable(&mut self, name: &Ident, reg: Reg, mutable: bool) {
        let cell = self.needs_cell(&name.name);
        if cell {
            self.f().emit(Op::NewCell, reg, 0, 0);
        }
        self.f().declare(&name.name, Binding::Local { reg, mutable, cell }, !mutable, true);
    }

    /// Returns whether a variable of this name must be shared with functions that captured it.
    pub(super) fn needs_cell(&mut self, name: &Name) -> bool {
        let facts = self.f().facts;
        facts.nested.contains_key(name) && facts.assigned.contains(name)
    }

    /// Stores `value` in a reserved place and makes the name visible.
    pub(super) fn store(&mut self, name: &Ident, target: Target, value: Reg, mutable: bool) {
        match target {
            Target::Register(reg) => {
                self.f().emit(Op::Take, reg, value, 0);
                self.finish_variable(name, reg, mutable);
            }
            Target::Cell(reg) => {
                self.f().emit(Op::SetCell, reg, value, 0);
                self.f().emit(Op::Clear, value, 0, 0);
                if let Some(local) = self.f().in_scope(&name.name) {
                    local.declared = true;
                    local.fixed = !mutable;
                    local.binding = Binding::Local { reg, mutable, cell: true };
                }
            }
            Target::Global { module, index, cell } => {
                let op = if cell { Op::SetGlobalVar } else { Op::SetGlobal };
                self.f().emit(op, value, module as u16, index);
                self.f().emit(Op::Clear, value, 0, 0);
                self.top_fixed.insert(name.name.clone(), !mutable);
            }
        }
    }

    /// Binds `name` in the open scope to a copy of `value`.
    pub(super) fn bind(&mut self, name: &Ident, mutable: bool, value: Reg) {
        if name.name == "_" {
            return;
        }
        let reg = self.f().temp();
        self.f().emit(Op::Move, reg, value, 0);
        self.finish_variable(name, reg, mutable);
    }

    // ---- loops ----

    /// Emits the cleanup at the start of the next iteration of a loop, also after `continue`.
    fn next_round(&mut self) {
        let skipped =
            matches!(self.f().control.last(), Some(Control::Loop { continues, .. }) if !continues.is_empty());
        self.release_after(skipped);
    }

    fn end_loop(&mut self, next: usize) {
        if let Some(Control::Loop { breaks, continues }) = self.f().control.pop() {
            let skipped = !breaks.is_empty();
            self.f().land_all(breaks);
            continues.into_iter().for_each(|pc| self.f().aim(pc, next));
            self.release_after(skipped);
        }
    }

    /// Like [`Self::release_scope`], at a point where the ends of blocks may have been skipped.
    fn release_after(&mut self, skipped: bool) {
        if skipped {
            let live = self.f().live();
            self.release_from(live);
        }
    }

    /// Drops the values of the registers from `first` on, in programs where that can run cleanup.
    pub(super) fn release_from(&mut self, first: Reg) {
        if self.vm.settles.get() {
            self.f().emit(Op::ClearFrom, first, 0, 0);
            self.f().emit(Op::Settle, 0, 0, 0);
        }
    }

    fn for_stmt(&mut self, pattern: &'a Pattern, iter: &'a Expr, body: &'a Block) {
        let state = self.f().temp();
        let second = self.f().temp();
        let item = self.f().temp();
        let inner = match &iter.kind {
            ExprKind::Paren(e) => e,
            _ => iter,
        };
        if let ExprKind::Range { start, end, exclusive, op_span } = &inner.kind {
            self.expr(start, state);
            self.expr(end, second);
            self.f().at(*op_span);
            let empty = self.f().jump(Op::RangePrep, state, u16::from(*exclusive));
            self.f().control.push(Control::Loop { breaks: Vec::new(), continues: Vec::new() });
            let top = self.f().pc();
            self.loop_body(pattern, item, Some(Known::kinds(Kinds::INT)), body);
            let next = self.f().pc();
            self.next_round();
            self.f().at(*op_span);
            self.f().jump_to(Op::RangeNext, state, 0, top);
            self.end_loop(next);
            self.f().land(empty);
            return;
        }
        let pairs = u16::from(matches!(pattern.kind, PatternKind::Pair(..)));
        self.expr(iter, state);
        self.f().at(iter.span);
        self.f().emit(Op::IterPrep, state, pairs, 0);
        self.f().control.push(Control::Loop { breaks: Vec::new(), continues: Vec::new() });
        let enter = self.f().jump(Op::Jump, 0, 0);
        let top = self.f().pc();
        self.loop_body(pattern, item, None, body);
        let next = self.f().pc();
        self.next_round();
        self.f().land(enter);
        self.f().at(iter.span);
        self.f().jump_to(Op::IterNext, state, pairs, top);
        self.f().jump_to(Op::JumpIfPresent, item, 0, top);
        self.end_loop(next);
        self.f().emit(Op::EndLoop, state, 0, 0);
    }

    /// Compiles the body in a new scope, with the loop variables bound from `item`.
    fn loop_body(&mut self, pattern: &'a Pattern, item: Reg, known: Option<Known>, body: &'a Block) {
        self.f().open_scope();
        match &pattern.kind {
            PatternKind::Name(name) if name.name == "_" => {}
            PatternKind::Name(name) if self.needs_cell(&name.name) => self.bind(name, true, item),
            PatternKind::Name(name) => {
                self.f().declare(
                    &name.name,
                    Binding::Local { reg: item, mutable: true, cell: false },
                    false,
                    true,
                );
                // The body may assign it.
                if !self.f().facts.assigned.contains(&name.name) {
                    self.f().learn(&name.name, known);
                }
            }
            _ => {
                let targets = self.pattern_targets(pattern, true);
                self.destructure(pattern, item, targets, true);
            }
        }
        self.block(body, None);
        self.f().close_scope();
    }

    // ---- branches ----

    pub(super) fn if_expr(&mut self, arms: &'a [IfArm], else_body: Option<&'a Block>, dst: Option<Reg>) {
        let mut done = Vec::new();
        for (i, arm) in arms.iter().enumerate() {
            let mut no = Vec::new();
            self.jump_unless(&arm.cond, &mut no);
            self.block(&arm.body, dst);
            let last = i + 1 == arms.len() && else_body.is_none() && dst.is_none();
            if !last {
                done.push(self.f().jump(Op::Jump, 0, 0));
            }
            self.f().land_all(no);
        }
        match (else_body, dst) {
            (Some(body), _) => self.block(body, dst),
            (None, Some(dst)) => self.load_nil(dst),
            (None, None) => {}
        }
        self.f().land_all(done);
    }

    pub(super) fn try_expr(
        &mut self,
        body: &'a Block,
        catch: Option<&'a Catch>,
        finally: Option<&'a Block>,
        dst: Option<Reg>,
    ) {
        match (catch, finally) {
            (_, Some(finally)) => self.with_finally(
                Some(finally),
                |c| match catch {
                    Some(catch) => c.try_catch(body, catch, dst),
                    None => c.block(body, dst),
                },
                |c| c.block(finally, None),
            ),
            (Some(catch), None) => self.try_catch(body, catch, dst),
            (None, None) => {
                let dst = dst.unwrap_or_else(|| self.f().temp());
                let (start, live) = (self.f().pc(), self.f().live());
                self.guarded(Guard::Handler, |c| c.block(body, Some(dst)));
                let end = self.f().pc();
                self.f().emit(Op::WrapOk, dst, dst, 0);
                let done = self.f().jump(Op::Jump, 0, 0);
                self.handler(start, end, live, dst, HandlerKind::Catch);
                self.f().emit(Op::WrapErr, dst, dst, 0);
                self.f().land(done);
            }
        }
    }

    /// Starts the handler of the code from `start` to `end`, around which `live` registers were in use.
    fn handler(&mut self, start: usize, end: usize, live: u16, register: Reg, kind: HandlerKind) {
        let target = self.f().pc() as u32;
        self.f().handlers.push(Handler {
            start: start as u32,
            end: end as u32,
            target,
            register,
            live,
            kind,
        });
    }

    fn try_catch(&mut self, body: &'a Block, catch: &'a Catch, dst: Option<Reg>) {
        let error = self.f().temp();
        let (start, live) = (self.f().pc(), self.f().live());
        self.guarded(Guard::Handler, |c| c.block(body, dst));
        let end = self.f().pc();
        let done = self.f().jump(Op::Jump, 0, 0);
        self.f().open_scope();
        let caught = match &catch.ty {
            None => {
                self.handler(start, end, live, error, HandlerKind::Catch);
                error
            }
            Some(ty) => {
                self.handler(start, end, live, error, HandlerKind::CatchHeld);
                let value = self.f().temp();
                self.f().emit(Op::CaughtValue, value, error, 0);
                let name = self.f().temp();
                self.load_text(&crate::params::type_text(ty), name);
                let other = self.f().jump(Op::JumpNotCaught, value, name);
                self.f().next -= 1;
                let matched = self.f().jump(Op::Jump, 0, 0);
                self.f().land(other);
                self.f().emit(Op::Rethrow, error, 0, 0);
                self.f().land(matched);
                self.f().emit(Op::Clear, error, 0, 0);
                value
            }
        };
        if let Some(name) = &catch.name
            && name.name != "_"
        {
            if self.needs_cell(&name.name) {
                self.bind(name, false, caught);
            } else {
                self.f().declare(
                    &name.name,
                    Binding::Local { reg: caught, mutable: false, cell: false },
                    true,
                    true,
                );
            }
        }
        self.block(&catch.body, dst);
        self.f().emit(Op::Clear, caught, 0, 0);
        self.f().close_scope();
        self.f().land(done);
    }
}

/// Returns whether a statement may drop the last reference to a value before the next statement starts.
fn drops(stmt: &Stmt) -> bool {
    matches!(
        stmt.kind,
        StmtKind::Expr(_) | StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Decl(_)
    )
}

/// Storage of a variable.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// A new register.
    Register(Reg),
    /// A cell made at the start of the block.
    Cell(Reg),
    /// A module variable.
    Global { module: u32, index: u32, cell: bool },
}
