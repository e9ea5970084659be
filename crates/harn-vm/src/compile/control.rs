//! Exits from a block of code: loops, `finally`, `defer`, and the jumps through them.

use harn_syntax::ast::Block;
use rustc_hash::FxHashSet;

use super::Compiler;
use super::effects::Effects;
use super::facts::mentioned_in;
use super::scope::{Control, Exit, Guard, Reg};
use crate::bytecode::{Handler, HandlerKind, Op};

/// Values of the state register: 0 for a normal end, 1 for an error in flight, then the exits.
const ERROR: u32 = 1;
const FIRST_EXIT: usize = 2;

impl Compiler<'_> {
    /// Compiles `body`, then `cleanup` for every exit from it. `block` is the source of the cleanup, if any: the
    /// variables that it mentions are still needed when the body throws.
    pub(super) fn with_finally(
        &mut self,
        block: Option<&Block>,
        body: impl FnOnce(&mut Self),
        cleanup: impl FnOnce(&mut Self),
    ) {
        let mentioned = block.map(mentioned_in).unwrap_or_default();
        let declared = self.f().scope_names().len();
        let state = self.f().temp();
        let value = self.f().temp();
        self.f().control.push(Control::Finally { state, value, exits: Vec::new(), jumps: Vec::new() });
        // Cleanup that executes `break` or `continue` swallows the error, and execution continues.
        let swallows = block.is_some_and(|block| Effects::of_block(block).jumps);
        let guard = if swallows { Guard::Handler } else { Guard::Cleanup(mentioned.clone()) };
        let start = self.f().pc();
        let around = self.f().live();
        self.guarded(guard, body);
        let end = self.f().pc();
        let Some(Control::Finally { exits, jumps, .. }) = self.f().control.pop() else { return };
        // Variables declared in the body are dropped before the cleanup runs, unless a `defer` mentions a variable
        // that is declared after it.
        let later = self.f().scope_names().split_off(declared);
        let live = if later.iter().any(|name| mentioned.contains(name)) { self.f().live() } else { around };
        self.f().emit(Op::LoadInt, state, 0, 0);
        let normal = self.f().jump(Op::Jump, 0, 0);
        let target = self.f().pc() as u32;
        self.f().handlers.push(Handler {
            start: start as u32,
            end: end as u32,
            target,
            register: value,
            live,
            kind: HandlerKind::Finally,
        });
        self.f().emit(Op::LoadInt, state, 0, ERROR);
        self.f().land(normal);
        self.f().land_all(jumps);
        self.release_from(live);
        // The exits leave from here: a `return` inside the cleanup block takes precedence.
        self.guarded(Guard::Cleanup(FxHashSet::default()), cleanup);
        let skip = self.jump_not_int(state, i64::from(ERROR));
        self.f().emit(Op::Rethrow, value, 0, 0);
        self.f().land(skip);
        for (i, exit) in exits.into_iter().enumerate() {
            let skip = self.jump_not_int(state, (FIRST_EXIT + i) as i64);
            self.leave(exit, Some(value));
            self.f().land(skip);
        }
        self.f().emit(Op::Clear, value, 0, 0);
    }

    /// Leaves through `exit`, running the nearest enclosing `finally` first. `value` holds the result of a return.
    pub(super) fn leave(&mut self, exit: Exit, value: Option<Reg>) {
        for at in (0..self.f().control.len()).rev() {
            match &mut self.f().control[at] {
                Control::Loop { .. } if exit == Exit::Return => {}
                Control::Loop { .. } => {
                    let jump = self.f().jump(Op::Jump, 0, 0);
                    if let Control::Loop { breaks, continues } = &mut self.f().control[at] {
                        if exit == Exit::Break { breaks } else { continues }.push(jump);
                    }
                    return;
                }
                Control::Finally { state, value: slot, exits, .. } => {
                    let (state, slot) = (*state, *slot);
                    let number = exits.iter().position(|e| *e == exit).unwrap_or_else(|| {
                        exits.push(exit);
                        exits.len() - 1
                    });
                    match value {
                        Some(value) if value != slot => drop(self.f().emit(Op::Move, slot, value, 0)),
                        _ => {}
                    }
                    self.f().emit(Op::LoadInt, state, 0, (FIRST_EXIT + number) as u32);
                    let jump = self.f().jump(Op::Jump, 0, 0);
                    if let Control::Finally { jumps, .. } = &mut self.f().control[at] {
                        jumps.push(jump);
                    }
                    return;
                }
            }
        }
        match (exit, value) {
            (Exit::Return, Some(value)) => drop(self.f().emit(Op::Return, value, 0, 0)),
            _ => drop(self.f().emit(Op::ReturnNil, 0, 0, 0)),
        }
    }

    /// Returns whether the code is inside a loop of the current function.
    pub(super) fn in_loop(&mut self) -> bool {
        self.f().control.iter().any(|c| matches!(c, Control::Loop { .. }))
    }

    /// Compiles code whose errors go to `guard`.
    pub(super) fn guarded(&mut self, guard: Guard, body: impl FnOnce(&mut Self)) {
        let scopes = self.f().scopes.len();
        self.f().guards.push((guard, scopes));
        body(self);
        self.f().guards.pop();
    }

    /// Returns whether the local variable may still be read after an error in the code being compiled: a handler of
    /// this function receives the error, or a cleanup block mentions the variable, and the variable was declared in
    /// an outer scope.
    pub(super) fn survives_error(&mut self, name: &str) -> bool {
        let f = self.f();
        let Some(declared) = f.scope_of(name) else { return true };
        f.guards.iter().any(|(guard, scopes)| {
            declared < *scopes
                && match guard {
                    Guard::Handler => true,
                    Guard::Cleanup(mentioned) => mentioned.contains(name),
                }
        })
    }
}
