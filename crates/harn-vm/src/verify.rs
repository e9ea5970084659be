//! Bytecode verifier: proves the invariants that make the unchecked accesses of `interp.rs` safe. Debug builds check
//! every function, as does a VM built with [`VmBuilder::verify`](crate::VmBuilder::verify).
//!
//! It checks for every instruction that its registers, register windows and the registers named by its path are inside
//! the frame; that the targets of jumps and error handlers, and the instructions that `IterNext`, `AddPath` and the set
//! instructions skip, are inside the code; that constants exist and have the kind that the instruction expects; that
//! functions, module variables, captured variables and table entries exist; that registers which the interpreter
//! accesses at the same time, one of them for writing, are different; and that execution cannot run past the end of the
//! code.

use harn_value::Value;

use crate::builtin::Builtin;
use crate::bytecode::{Capture, FailKind, GROWN, Ins, Op, PathStep, Proto, TAKE};
use crate::vm::Vm;

type Verdict = Result<(), String>;

/// Checks a function.
pub(crate) fn verify(proto: &Proto, vm: &Vm) -> Verdict {
    let whole = Check { proto, vm, at: proto.code.len() };
    whole.that(
        usize::from(proto.params) + usize::from(proto.rest) <= proto.registers as usize,
        "parameters do not fit the registers",
    )?;
    whole.that(
        proto.code.last().is_some_and(|ins| matches!(ins.op(), Op::Return | Op::ReturnNil | Op::Jump)),
        "falls off the end",
    )?;
    for handler in &proto.handlers {
        whole.that(
            handler.start <= handler.end && handler.end as usize <= proto.code.len(),
            "handler covers no code",
        )?;
        whole.that((handler.target as usize) < proto.code.len(), "handler target out of range")?;
        whole.register(handler.register as usize)?;
        whole.that(u32::from(handler.live) <= proto.registers, "handler keeps too many registers")?;
    }
    proto.code.iter().enumerate().try_for_each(|(at, &ins)| Check { proto, vm, at }.instruction(ins))
}

/// The kind of constant that an instruction expects.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Text,
    Texts,
    Enum,
    Builtin,
}

struct Check<'a> {
    proto: &'a Proto,
    vm: &'a Vm,
    /// Index of the instruction.
    at: usize,
}

impl Check<'_> {
    fn that(&self, holds: bool, what: &str) -> Verdict {
        if holds { Ok(()) } else { Err(format!("{}: instruction {}: {what}", self.proto.name, self.at)) }
    }

    fn register(&self, register: usize) -> Verdict {
        self.that(register < self.proto.registers as usize, "register out of range")
    }

    fn registers<const N: usize>(&self, registers: [usize; N]) -> Verdict {
        registers.into_iter().try_for_each(|r| self.register(r))
    }

    /// Checks `count` registers from `first` on.
    fn window(&self, first: usize, count: usize) -> Verdict {
        self.that(first + count <= self.proto.registers as usize, "register window out of range")
    }

    fn differ(&self, a: usize, b: usize) -> Verdict {
        self.that(a != b, "a register is read while it is written")
    }

    fn constant(&self, number: usize, kind: Kind) -> Verdict {
        let Some(value) = self.proto.consts.get(number) else {
            return self.that(false, "constant out of range");
        };
        let fits = match kind {
            Kind::Any => true,
            Kind::Text => value.as_str().is_some(),
            Kind::Texts => value.as_list().is_some_and(|l| l.iter().all(|v: &Value| v.as_str().is_some())),
            Kind::Enum => value.as_enum().is_some(),
            Kind::Builtin => Builtin::of(value).is_some(),
        };
        self.that(fits, "constant of another kind")
    }

    /// Checks a constant that is encoded as its number plus one; 0 means none.
    fn optional_text(&self, number: usize) -> Verdict {
        number.checked_sub(1).map_or(Ok(()), |k| self.constant(k, Kind::Text))
    }

    fn jump(&self, ins: Ins) -> Verdict {
        let target = self.at as isize + 1 + ins.sc();
        self.that((0..self.proto.code.len() as isize).contains(&target), "jump out of range")
    }

    fn table(&self, number: usize, size: usize) -> Verdict {
        self.that(number < size, "table index out of range")
    }

    /// Checks a path for a place in register `place`.
    fn path(&self, number: usize, place: usize) -> Verdict {
        self.table(number, self.proto.paths.len())?;
        self.proto.paths[number].iter().try_for_each(|step| match step {
            PathStep::Index(register) => {
                self.register(usize::from(*register))?;
                self.differ(usize::from(*register), place)
            }
            PathStep::Field(_) => Ok(()),
        })
    }

    /// At the end, `IterNext` skips the next instruction: a jump to the same target, which is used for generators.
    fn iteration(&self, ins: Ins) -> Verdict {
        let code = &self.proto.code;
        let target = self.at as isize + 1 + ins.sc();
        let follows = code.get(self.at + 1).is_some_and(|next| {
            next.op() == Op::JumpIfPresent
                && next.a() == ins.a() + 2
                && self.at as isize + 2 + next.sc() == target
        });
        self.that(follows && self.at + 2 < code.len(), "IterNext without its second half")
    }

    /// Checks an instruction that executes or skips the `Jump` that follows it.
    fn jump_follows(&self) -> Verdict {
        let follows = self.proto.code.get(self.at + 1).is_some_and(|next| next.op() == Op::Jump);
        self.that(follows && self.at + 2 < self.proto.code.len(), "an instruction without its second half")
    }

    /// Checks the variables that a new closure captures.
    fn captures(&self, number: usize) -> Verdict {
        self.table(number, self.proto.protos.len())?;
        self.proto.protos[number].captures.iter().try_for_each(|capture| match *capture {
            Capture::Local(register) => self.register(usize::from(register)),
            Capture::Up(index) => self.table(usize::from(index), self.proto.captures.len()),
        })
    }

    #[allow(clippy::too_many_lines, reason = "one flat table of cases")]
    fn instruction(&self, ins: Ins) -> Verdict {
        let (a, b, c) = (ins.a(), ins.b(), ins.c());
        let low = c & (TAKE as usize - 1);
        let lower = c & (GROWN as usize - 1);
        let captured = self.proto.captures.len();
        match ins.op() {
            Op::Move | Op::Take | Op::Neg | Op::Not | Op::Truthy | Op::SetCell => self.registers([a, b]),
            Op::ListPush | Op::ListSpread | Op::DictSpread | Op::CaughtValue | Op::WrapOk | Op::WrapErr => {
                self.registers([a, b])
            }
            Op::Append => {
                self.differ(a, b)?;
                self.registers([a, b])
            }
            Op::PatternItem | Op::RestList | Op::EnumField => self.registers([a, b]),
            Op::LoadInt | Op::LoadNil | Op::LoadBool | Op::LoadAbsent => self.register(a),
            Op::Clear => self.window(a, c + 1),
            Op::ClearFrom => self.that(a <= self.proto.registers as usize, "register out of range"),
            Op::NewCell | Op::NewEmptyCell | Op::NewDict | Op::Return | Op::Throw | Op::Rethrow => {
                self.register(a)
            }
            Op::ExpectDict | Op::ExpectList | Op::ExpectCallable => self.register(a),
            // In a function that is not a generator (an `emit` that the checker rejects), execution continues, because
            // no consumer exists to resume it.
            Op::Yield => self.register(a),
            Op::Settle | Op::ReturnNil => Ok(()),
            Op::LoadK => {
                self.constant(c, Kind::Any)?;
                self.register(a)
            }

            Op::GetCell => {
                self.constant(c, Kind::Text)?;
                self.registers([a, b])
            }
            Op::GetUp => {
                self.table(b, captured)?;
                self.register(a)
            }
            Op::GetUpCell => {
                self.constant(c, Kind::Text)?;
                self.table(b, captured)?;
                self.register(a)
            }
            Op::SetUpCell => {
                self.table(a, captured)?;
                self.register(b)
            }
            Op::AddUpCell => {
                self.constant(c, Kind::Text)?;
                self.table(a, captured)?;
                self.register(b)
            }
            Op::AddCell => {
                self.constant(c, Kind::Text)?;
                self.differ(a, b)?;
                self.registers([a, b])
            }
            Op::GetGlobal | Op::GetGlobalVar | Op::SetGlobal | Op::SetGlobalVar => {
                self.that(c < self.vm.global_count(b), "no such module variable")?;
                self.register(a)
            }
            Op::GetFunction | Op::SetFunction => {
                self.that(c < self.vm.function_count(), "no such function")?;
                self.register(a)
            }

            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Pow => self.registers([a, b, c]),
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::In => self.registers([a, b, c]),
            Op::NewRange | Op::NewRangeExclusive | Op::GetIndex | Op::GetIndexTake => {
                self.registers([a, b, c])
            }
            Op::DictSet => self.registers([a, b, c]),
            Op::AddK | Op::SubK | Op::MulK | Op::DivK | Op::RemK => {
                self.constant(c, Kind::Any)?;
                self.registers([a, b])
            }

            Op::AddI | Op::SubI | Op::MulI | Op::DivI | Op::RemI => self.registers([a, b]),

            Op::Jump => self.jump(ins),
            Op::JumpLtI | Op::JumpLeI | Op::JumpGtI | Op::JumpGeI | Op::JumpEqI | Op::JumpNeI => {
                self.jump(ins)?;
                self.register(a)
            }
            Op::JumpNotLtI | Op::JumpNotLeI | Op::JumpNotGtI | Op::JumpNotGeI => {
                self.jump(ins)?;
                self.register(a)
            }
            Op::JumpIf | Op::JumpIfNot | Op::JumpIfNil | Op::JumpIfNotNil => {
                self.jump(ins)?;
                self.register(a)
            }
            Op::JumpIfAbsent | Op::JumpIfPresent | Op::JumpNotDict | Op::JumpNotList => {
                self.jump(ins)?;
                self.register(a)
            }
            Op::JumpLt | Op::JumpLe | Op::JumpNotLt | Op::JumpNotLe | Op::JumpEq | Op::JumpNe => {
                self.jump(ins)?;
                self.registers([a, b])
            }
            Op::JumpNotVariantOf | Op::JumpNotCaught | Op::JumpNotAppends | Op::Propagate => {
                self.jump(ins)?;
                self.registers([a, b])
            }
            Op::JumpLtK | Op::JumpLeK | Op::JumpGtK | Op::JumpGeK | Op::JumpEqK | Op::JumpNeK => {
                self.jump(ins)?;
                self.constant(b, Kind::Any)?;
                self.register(a)
            }
            Op::JumpNotLtK | Op::JumpNotLeK | Op::JumpNotGtK | Op::JumpNotGeK => {
                self.jump(ins)?;
                self.constant(b, Kind::Any)?;
                self.register(a)
            }
            Op::JumpNotVariant => {
                self.jump(ins)?;
                self.constant(b, Kind::Enum)?;
                self.register(a)
            }

            Op::RangePrep | Op::RangeNext => {
                self.jump(ins)?;
                self.window(a, 3)
            }
            Op::IterNext => {
                self.jump(ins)?;
                self.iteration(ins)?;
                self.window(a, 3)
            }
            Op::IterPrep | Op::EndLoop => self.window(a, 3),

            Op::Call | Op::TailCall => {
                self.optional_text(c)?;
                self.window(a, b + 1)
            }
            Op::CallLocal => {
                self.register(c)?;
                self.that(!(a..=a + b).contains(&c), "a callee among the arguments")?;
                self.window(a, b + 1)
            }
            Op::CallFunction => {
                self.that(c < self.vm.function_count(), "no such function")?;
                self.window(a, b + 1)
            }
            Op::CallBuiltin => {
                self.constant(c, Kind::Builtin)?;
                self.window(a, b + 1)
            }
            Op::CallMethod => {
                self.table(c, self.proto.methods.len())?;
                self.that(b > 0, "a method without a receiver")?;
                self.window(a, b + 1)
            }
            Op::CallSpread => {
                self.optional_text(c)?;
                self.window(a, 2)
            }
            Op::CallBuiltinSpread => {
                self.constant(c, Kind::Builtin)?;
                self.window(a, 2)
            }
            Op::CallMethodSpread => {
                self.table(c, self.proto.methods.len())?;
                self.window(a, 3)
            }
            Op::Closure => {
                self.captures(c)?;
                self.register(a)
            }

            Op::NewList | Op::Interp => {
                self.window(b, c)?;
                self.register(a)
            }
            Op::DictSetK => {
                self.constant(c, Kind::Text)?;
                self.registers([a, b])
            }
            Op::NewStruct => {
                self.table(c, self.proto.structs.len())?;
                self.window(b, self.proto.structs[c].fields.len())?;
                self.register(a)
            }
            Op::StructFromDict => {
                self.table(c, self.proto.structs.len())?;
                self.registers([a, b])
            }
            Op::AddMethod => {
                self.table(c, self.proto.structs.len())?;
                self.registers([a, b])
            }
            Op::NewEnum => {
                self.constant(low, Kind::Enum)?;
                if c == low { self.window(a, b + 1) } else { self.registers([a, b]) }
            }

            Op::GetField => {
                self.constant(c, Kind::Text)?;
                self.table(c, self.proto.fields.len())?;
                self.registers([a, b])
            }
            Op::GetFieldTake | Op::GetFieldOpt | Op::PatternField => {
                self.constant(c, Kind::Text)?;
                self.registers([a, b])
            }
            Op::RestDict => {
                self.constant(c, Kind::Texts)?;
                self.registers([a, b])
            }
            Op::Slice => {
                self.window(c, 2)?;
                self.registers([a, b])
            }
            Op::SetField => {
                self.constant(lower, Kind::Text)?;
                self.registers([a, b])
            }
            Op::SetIndex => {
                self.differ(a, b)?;
                self.registers([a, b, low])
            }
            Op::SetPath => {
                self.path(lower, a)?;
                self.registers([a, b])
            }
            Op::GetPath => {
                self.path(c, b)?;
                self.registers([a, b])
            }
            Op::ReleasePath => {
                self.path(c, a)?;
                self.that(a != b && a != b + 1, "a register is read while it is written")?;
                self.window(b, 2)?;
                self.register(a)
            }
            Op::AddPath => {
                self.path(c, a)?;
                self.differ(a, b)?;
                self.jump_follows()?;
                self.registers([a, b])
            }
            Op::SetHas => {
                self.jump_follows()?;
                self.registers([a, b, c])
            }
            Op::SetAdd | Op::SetRemove => {
                self.differ(a, b)?;
                self.jump_follows()?;
                self.registers([a, b])
            }
            Op::AddToCell => {
                self.differ(a, b)?;
                self.differ(b, c)?;
                self.registers([a, b, c])
            }
            Op::SplitPair => {
                self.window(a, 2)?;
                self.register(b)
            }
            Op::Fail => {
                self.that(b <= FailKind::Thrown as usize, "no such kind of failure")?;
                self.constant(c, Kind::Text)
            }
            Op::CheckType => {
                self.table(c, self.proto.checks.len())?;
                self.register(a)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use harn_syntax::Span;

    use super::*;
    use crate::bytecode::{FieldSite, Handler, HandlerKind, Hot, MethodSite};
    use crate::vm::VmBuilder;

    /// Creates a function of four registers whose code is `code` and a return. Every table has one entry: constants
    /// "text" and 1, a captured variable, a method, a path that uses register 2, a struct of three fields.
    fn proto(code: &[Ins], vm: &Vm) -> Proto {
        let mut code = code.to_vec();
        code.push(Ins::new(Op::ReturnNil, 0, 0, 0));
        let ty = harn_value::StructType::new(vm.intern("S"), ["a", "b", "c"].map(|f| vm.intern(f)).into());
        let code = vm.arena.pack(code);
        let consts = vm.arena.pack(vec![Value::from(vm.intern("text")), Value::int(1)]);
        Proto {
            hot: Hot {
                code: code.as_ptr(),
                consts: consts.as_ptr(),
                registers: 4,
                scanned: 4,
                params: 0,
                plain: true,
                vm: vm.id.number(),
            },
            vm: vm.id.clone(),
            name: "test".to_owned(),
            code,
            consts,
            fields: [FieldSite::new()].into(),
            protos: Box::default(),
            captures: [Capture::Local(0)].into(),
            registers: 4,
            params: 0,
            rest: false,
            generator: false,
            stream: false,
            required: 0,
            param_names: Vec::new(),
            handlers: Box::default(),
            spans: Box::default(),
            methods: [MethodSite {
                name: vm.intern("m"),
                optional: false,
                key: Cell::new(0),
                epoch: Cell::new(0),
                target: Cell::new(std::ptr::null()),
            }]
            .into(),
            paths: [vec![PathStep::Index(2)].into()].into(),
            checks: Box::default(),
            structs: [harn_value::Ref::new(ty)].into(),
            file: "test".into(),
            module: 0,
            span: Span::default(),
            described: None,
            shown: None,
        }
    }

    fn vm() -> Rc<Vm> {
        let vm = VmBuilder::new(Rc::new(harn_system::Memory::new())).build();
        let module = vm.new_module("test", "");
        vm.new_global(module, "x", false);
        vm.new_function();
        vm
    }

    #[test]
    fn what_is_in_range_is_accepted_and_what_is_just_outside_is_not() {
        let vm = vm();
        let cases: &[(Ins, Ins)] = &[
            (Ins::new(Op::Move, 3, 0, 0), Ins::new(Op::Move, 4, 0, 0)),
            (Ins::new(Op::Move, 0, 3, 0), Ins::new(Op::Move, 0, 4, 0)),
            (Ins::new(Op::Add, 0, 1, 3), Ins::new(Op::Add, 0, 1, 4)),
            (Ins::new(Op::LoadK, 0, 0, 1), Ins::new(Op::LoadK, 0, 0, 2)),
            (Ins::new(Op::GetField, 0, 1, 0), Ins::new(Op::GetField, 0, 1, 1)),
            (Ins::new(Op::Fail, 0, 3, 0), Ins::new(Op::Fail, 0, 4, 0)),
            (Ins::new(Op::Jump, 0, 0, 0), Ins::new(Op::Jump, 0, 0, 1)),
            (Ins::new(Op::JumpIf, 3, 0, 0), Ins::new(Op::JumpIf, 4, 0, 0)),
            (Ins::new(Op::GetUp, 0, 0, 0), Ins::new(Op::GetUp, 0, 1, 0)),
            (Ins::new(Op::SetUpCell, 0, 0, 0), Ins::new(Op::SetUpCell, 1, 0, 0)),
            (Ins::new(Op::AddUpCell, 0, 3, 0), Ins::new(Op::AddUpCell, 0, 4, 0)),
            (Ins::new(Op::AddUpCell, 0, 0, 0), Ins::new(Op::AddUpCell, 1, 0, 0)),
            (Ins::new(Op::AddCell, 0, 1, 0), Ins::new(Op::AddCell, 1, 1, 0)),
            (Ins::new(Op::AddCell, 0, 1, 0), Ins::new(Op::AddCell, 0, 1, 1)),
            (Ins::new(Op::AddI, 0, 3, 9), Ins::new(Op::AddI, 0, 4, 9)),
            (Ins::new(Op::JumpLtI, 3, 9, 0), Ins::new(Op::JumpLtI, 4, 9, 0)),
            (Ins::new(Op::Clear, 1, 0, 2), Ins::new(Op::Clear, 1, 0, 3)),
            (Ins::new(Op::CallLocal, 1, 2, 0), Ins::new(Op::CallLocal, 1, 3, 0)),
            (Ins::new(Op::CallLocal, 1, 2, 0), Ins::new(Op::CallLocal, 0, 2, 2)),
            (Ins::new(Op::GetGlobal, 0, 0, 0), Ins::new(Op::GetGlobal, 0, 0, 1)),
            (Ins::new(Op::GetGlobal, 0, 0, 0), Ins::new(Op::GetGlobal, 0, 1, 0)),
            (Ins::new(Op::CallFunction, 0, 3, 0), Ins::new(Op::CallFunction, 0, 3, 1)),
            (Ins::new(Op::CallFunction, 0, 3, 0), Ins::new(Op::CallFunction, 0, 4, 0)),
            (Ins::new(Op::Call, 0, 1, 1), Ins::new(Op::Call, 0, 1, 2)),
            (Ins::new(Op::CallMethod, 0, 1, 0), Ins::new(Op::CallMethod, 0, 0, 0)),
            (Ins::new(Op::CallMethod, 0, 1, 0), Ins::new(Op::CallMethod, 0, 1, 1)),
            (Ins::new(Op::CallMethodSpread, 1, 0, 0), Ins::new(Op::CallMethodSpread, 2, 0, 0)),
            (Ins::new(Op::NewList, 0, 1, 3), Ins::new(Op::NewList, 0, 1, 4)),
            (Ins::new(Op::NewStruct, 0, 1, 0), Ins::new(Op::NewStruct, 0, 2, 0)),
            (Ins::new(Op::Slice, 0, 1, 2), Ins::new(Op::Slice, 0, 1, 3)),
            (Ins::new(Op::SetIndex, 0, 1, 2), Ins::new(Op::SetIndex, 0, 0, 2)),
            (Ins::new(Op::SetPath, 0, 1, TAKE), Ins::new(Op::SetPath, 0, 1, 1)),
            (Ins::new(Op::SetPath, 0, 1, 0), Ins::new(Op::SetPath, 2, 1, 0)),
            (Ins::new(Op::ReleasePath, 0, 1, 0), Ins::new(Op::ReleasePath, 0, 3, 0)),
            (Ins::new(Op::ReleasePath, 3, 1, 0), Ins::new(Op::ReleasePath, 1, 1, 0)),
            (Ins::new(Op::AddToCell, 0, 1, 2), Ins::new(Op::AddToCell, 0, 1, 1)),
            (Ins::new(Op::EndLoop, 1, 0, 0), Ins::new(Op::EndLoop, 2, 0, 0)),
            (Ins::new(Op::SplitPair, 2, 0, 0), Ins::new(Op::SplitPair, 3, 0, 0)),
        ];
        for &(good, bad) in cases {
            assert_eq!(verify(&proto(&[good], &vm), &vm), Ok(()), "{good:?}");
            assert!(verify(&proto(&[bad], &vm), &vm).is_err(), "{bad:?}");
        }
        let kinds = [Op::CallBuiltin, Op::CallBuiltinSpread, Op::NewEnum, Op::RestDict, Op::DictSetK];
        for op in kinds {
            assert!(verify(&proto(&[Ins::new(op, 0, 1, 1)], &vm), &vm).is_err(), "{op:?}");
        }
        assert!(verify(&proto(&[Ins::new(Op::JumpNotVariant, 0, 1, 0)], &vm), &vm).is_err());
    }

    #[test]
    fn loops_come_in_pairs() {
        let vm = vm();
        let back = |from: u32| 0u32.wrapping_sub(from + 1) & crate::bytecode::MAX_C;
        let pair = [Ins::new(Op::IterNext, 0, 0, back(0)), Ins::new(Op::JumpIfPresent, 2, 0, back(1))];
        assert_eq!(verify(&proto(&pair, &vm), &vm), Ok(()));
        assert!(verify(&proto(&pair[..1], &vm), &vm).is_err());
        let other = [pair[0], Ins::new(Op::JumpIfPresent, 2, 0, 0)];
        assert!(verify(&proto(&other, &vm), &vm).is_err());
        let add = |a, b, c| [Ins::new(Op::AddPath, a, b, c), Ins::new(Op::Jump, 0, 0, 0)];
        assert_eq!(verify(&proto(&add(0, 3, 0), &vm), &vm), Ok(()));
        for bad in [add(0, 0, 0), add(0, 4, 0), add(0, 3, 1), add(2, 3, 0)] {
            assert!(verify(&proto(&bad, &vm), &vm).is_err(), "{bad:?}");
        }
        assert!(verify(&proto(&add(0, 3, 0)[..1], &vm), &vm).is_err());
        assert!(verify(&proto(&[add(0, 3, 0)[0], pair[1]], &vm), &vm).is_err());
        let set = |op, a, b, c| [Ins::new(op, a, b, c), Ins::new(Op::Jump, 0, 0, 0)];
        for (good, bad) in [
            (set(Op::SetHas, 3, 3, 3), set(Op::SetHas, 0, 0, 4)),
            (set(Op::SetHas, 0, 1, 2), set(Op::SetHas, 4, 1, 2)),
            (set(Op::SetAdd, 0, 3, 0), set(Op::SetAdd, 1, 1, 0)),
            (set(Op::SetRemove, 3, 0, 0), set(Op::SetRemove, 0, 4, 0)),
        ] {
            assert_eq!(verify(&proto(&good, &vm), &vm), Ok(()), "{good:?}");
            assert!(verify(&proto(&bad, &vm), &vm).is_err(), "{bad:?}");
            assert!(verify(&proto(&good[..1], &vm), &vm).is_err(), "{good:?}");
            assert!(verify(&proto(&[good[0], pair[1]], &vm), &vm).is_err(), "{good:?}");
        }
    }

    #[test]
    fn handlers_and_captures_lie_in_the_function() {
        let vm = vm();
        let handler = |target, register| Handler {
            start: 0,
            end: 1,
            target,
            register,
            live: 4,
            kind: HandlerKind::Catch,
        };
        let with = |handler| Proto { handlers: [handler].into(), ..proto(&[], &vm) };
        assert_eq!(verify(&with(handler(0, 3)), &vm), Ok(()));
        assert!(verify(&with(handler(1, 3)), &vm).is_err());
        assert!(verify(&with(handler(0, 4)), &vm).is_err());
        for (capture, fits) in [
            (Capture::Local(3), true),
            (Capture::Local(4), false),
            (Capture::Up(0), true),
            (Capture::Up(1), false),
        ] {
            let child = Rc::new(Proto { captures: [capture].into(), ..proto(&[], &vm) });
            let outer = Proto { protos: [child].into(), ..proto(&[Ins::new(Op::Closure, 0, 0, 0)], &vm) };
            assert_eq!(verify(&outer, &vm).is_ok(), fits, "{capture:?}");
        }
    }
}
