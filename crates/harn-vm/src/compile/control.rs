//! Ways out of a piece of code: loops, `finally`, `defer`, and the jumps through them.

use super::Compiler;
use super::scope::Reg;
use crate::bytecode::{Handler, HandlerKind, Op};

/// Something that `break`, `continue`, `return` and `?` have to know on their way out.
pub(super) enum Control {
    /// A loop: jumps waiting for its end and for its next iteration.
    Loop { breaks: Vec<usize>, continues: Vec<usize> },
    /// Code with a `finally` or `defer` block.
    Finally { state: Reg, value: Reg, exits: Vec<Exit>, jumps: Vec<usize> },
}

/// A way out that first runs a `finally` block. Its number in the block's state register is its
/// position plus [`FIRST_EXIT`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Return,
    Break,
    Continue,
}

/// State register: 0 normal end, 1 an error is in flight, then the exits.
const ERROR: u32 = 1;
const FIRST_EXIT: usize = 2;

impl Compiler<'_> {
    /// Compiles `body`, then `cleanup` for every way out of it.
    pub(super) fn with_finally(&mut self, body: impl FnOnce(&mut Self), cleanup: impl FnOnce(&mut Self)) {
        let state = self.f().temp();
        let value = self.f().temp();
        self.f().control.push(Control::Finally { state, value, exits: Vec::new(), jumps: Vec::new() });
        let start = self.f().pc();
        body(self);
        let end = self.f().pc();
        let Some(Control::Finally { exits, jumps, .. }) = self.f().control.pop() else { return };
        self.f().emit(Op::LoadInt, state, 0, 0);
        let normal = self.f().jump(Op::Jump, 0, 0);
        let target = self.f().pc() as u32;
        self.f().handlers.push(Handler {
            start: start as u32,
            end: end as u32,
            target,
            register: value,
            kind: HandlerKind::Finally,
        });
        self.f().emit(Op::LoadInt, state, 0, ERROR);
        self.f().land(normal);
        self.f().land_all(jumps);
        // The exits leave from here: a `return` inside the block itself wins over them.
        self.f().try_depth += 1;
        cleanup(self);
        self.f().try_depth -= 1;
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

    /// Leaves by `exit`, through the nearest `finally` if one is in the way. `value` holds the result
    /// of a return.
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

    /// Whether a loop of the current function is around.
    pub(super) fn in_loop(&mut self) -> bool {
        self.f().control.iter().any(|c| matches!(c, Control::Loop { .. }))
    }

    /// Whether an error here may be caught, or code run on it, in the current function.
    pub(super) fn is_guarded(&mut self) -> bool {
        self.f().try_depth > 0 || self.f().control.iter().any(|c| matches!(c, Control::Finally { .. }))
    }
}
