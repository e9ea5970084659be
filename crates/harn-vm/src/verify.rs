//! Proves of a compiled function what the interpreter takes for granted.

use crate::bytecode::{Op, Proto, TAKE};

/// Checks every instruction of `proto`.
pub(crate) fn verify(proto: &Proto) -> Result<(), String> {
    let length = proto.code.len() as isize;
    let bad = |at: usize, what: &str| Err(format!("{}: instruction {at}: {what}", proto.name));
    let registers = proto.registers as usize;
    if usize::from(proto.params) + usize::from(proto.rest) > registers {
        return bad(0, "parameters do not fit the registers");
    }
    for (at, ins) in proto.code.iter().enumerate() {
        let op = ins.op();
        let (a, b, c) = (ins.a(), ins.b(), ins.c());
        let low = c & (TAKE as usize - 1);
        let (uses_a, uses_b, uses_c) = registers_of(op);
        if uses_a && a >= registers {
            return bad(at, "register a out of range");
        }
        if uses_b && b >= registers {
            return bad(at, "register b out of range");
        }
        if uses_c && low >= registers {
            return bad(at, "register c out of range");
        }
        if is_jump(op) {
            let target = at as isize + 1 + ins.sc();
            if target < 0 || target >= length {
                return bad(at, "jump out of range");
            }
        }
        if let Some(k) = constant_of(op, b, c, low)
            && k >= proto.consts.len()
        {
            return bad(at, "constant out of range");
        }
        let last_register = match op {
            Op::RangePrep | Op::RangeNext | Op::IterPrep | Op::IterNext | Op::EndLoop => a + 2,
            Op::Call | Op::CallFunction | Op::CallBuiltin | Op::CallMethod | Op::TailCall => a + b,
            Op::CallSpread | Op::CallBuiltinSpread | Op::SplitPair => a + 1,
            Op::CallMethodSpread => a + 2,
            Op::NewList | Op::Interp if c > 0 => b + c - 1,
            Op::ReleasePath => b + 1,
            Op::Slice => low + 1,
            _ => 0,
        };
        if last_register >= registers {
            return bad(at, "register window out of range");
        }
        let (table, size) = match op {
            Op::Closure => (low, proto.protos.len()),
            Op::CallMethod | Op::CallMethodSpread => (c, proto.methods.len()),
            Op::SetPath | Op::ReleasePath | Op::GetPath => (low, proto.paths.len()),
            Op::CheckParam => (c, proto.checks.len()),
            Op::NewStruct | Op::StructFromDict | Op::AddMethod => (c, proto.structs.len()),
            Op::GetUp | Op::GetUpCell => (b, proto.captures.len()),
            Op::SetUpCell => (a, proto.captures.len()),
            _ => (0, 1),
        };
        if table >= size {
            return bad(at, "table index out of range");
        }
    }
    match proto.code.last().map(|ins| ins.op()) {
        Some(Op::Return | Op::ReturnNil | Op::Jump) => Ok(()),
        _ => bad(proto.code.len(), "falls off the end"),
    }
}

fn constant_of(op: Op, b: usize, c: usize, low: usize) -> Option<usize> {
    Some(match op {
        Op::LoadK | Op::GetCell | Op::GetUpCell | Op::CallBuiltin | Op::CallBuiltinSpread | Op::Fail => c,
        Op::AddK | Op::SubK | Op::MulK | Op::DivK | Op::RemK | Op::DictSetK => c,
        Op::GetField | Op::GetFieldTake | Op::GetFieldOpt | Op::PatternField | Op::RestDict => c,
        Op::SetField | Op::NewEnum => low,
        Op::JumpLtK
        | Op::JumpLeK
        | Op::JumpGtK
        | Op::JumpGeK
        | Op::JumpNotLtK
        | Op::JumpNotLeK
        | Op::JumpNotGtK
        | Op::JumpNotGeK
        | Op::JumpEqK
        | Op::JumpNeK
        | Op::JumpNotVariant
        | Op::JumpNotCaught
        | Op::AddMethod => b,
        _ => return None,
    })
}

fn is_jump(op: Op) -> bool {
    matches!(
        op,
        Op::Jump
            | Op::JumpIf
            | Op::JumpIfNot
            | Op::JumpIfNil
            | Op::JumpIfNotNil
            | Op::JumpIfAbsent
            | Op::JumpIfPresent
            | Op::JumpLt
            | Op::JumpLe
            | Op::JumpNotLt
            | Op::JumpNotLe
            | Op::JumpEq
            | Op::JumpNe
            | Op::JumpLtK
            | Op::JumpLeK
            | Op::JumpGtK
            | Op::JumpGeK
            | Op::JumpNotLtK
            | Op::JumpNotLeK
            | Op::JumpNotGtK
            | Op::JumpNotGeK
            | Op::JumpEqK
            | Op::JumpNeK
            | Op::RangePrep
            | Op::RangeNext
            | Op::IterNext
            | Op::JumpNotDict
            | Op::JumpNotList
            | Op::JumpNotVariant
            | Op::JumpNotCaught
            | Op::Propagate
    )
}

/// Which of `a`, `b` and `c` are registers.
fn registers_of(op: Op) -> (bool, bool, bool) {
    match op {
        Op::Move | Op::Take | Op::SetCell | Op::Neg | Op::Not | Op::Truthy => (true, true, false),
        Op::GetCell | Op::ListPush | Op::ListSpread | Op::DictSpread | Op::DictSetK => (true, true, false),
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Pow => (true, true, true),
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::In => (true, true, true),
        Op::AddK | Op::SubK | Op::MulK | Op::DivK | Op::RemK => (true, true, false),
        Op::JumpLt | Op::JumpLe | Op::JumpNotLt | Op::JumpNotLe | Op::JumpEq | Op::JumpNe => {
            (true, true, false)
        }
        Op::Propagate | Op::StructFromDict | Op::CaughtValue | Op::WrapOk | Op::WrapErr => {
            (true, true, false)
        }
        Op::DictSet | Op::NewRange | Op::NewRangeExclusive | Op::GetIndex | Op::GetIndexTake => {
            (true, true, true)
        }
        Op::Slice | Op::SetIndex | Op::AddToCell => (true, true, true),
        Op::GetField | Op::GetFieldTake | Op::GetFieldOpt | Op::SetField | Op::SetPath | Op::GetPath => {
            (true, true, false)
        }
        Op::ReleasePath | Op::PatternField | Op::PatternItem | Op::RestDict | Op::RestList => {
            (true, true, false)
        }
        Op::SplitPair | Op::EnumField => (true, true, false),
        Op::SetUpCell => (false, true, false),
        Op::Jump | Op::Fail | Op::ReturnNil => (false, false, false),
        _ => (true, false, false),
    }
}
