//! The instruction set and compiled functions.
//!
//! An instruction is 8 bytes: `op` (8 bits), registers or small numbers `a` and `b` (16 bits each) and
//! `c` (24 bits: register, constant, count, or a signed jump distance from the next instruction).
//!
//! ```text
//! 63                 40 39         24 23          8 7       0
//! |         c          |      b      |      a      |   op   |
//! ```

use std::cell::Cell;
use std::rc::Rc;

use harn_syntax::Span;
use harn_value::{Ref, Str, StructType, Value};

use crate::arena::Packed;
use crate::params::TypeCheck;
use crate::vm_id::VmId;

macro_rules! ops {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Operation codes. `R[x]` is a register of the running function, `K[x]` a constant.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the lines beside the codes say it")]
        pub enum Op { $($(#[doc = $doc])* $name,)* }

        const NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}

ops! {
    // Moving values.
    /// `R[a]` = `R[b]`
    Move,
    /// `R[a]` = `R[b]`, leaving nil in `R[b]`
    Take,
    /// `R[a]` = `K[c]`
    LoadK,
    /// `R[a]` = c as a signed int
    LoadInt,
    /// `R[a]` = nil
    LoadNil,
    /// `R[a]` = b != 0
    LoadBool,
    /// `R[a]` = no value
    LoadAbsent,
    // Captured variables and globals.
    /// `R[a]` = a cell holding `R[a]`
    NewCell,
    /// `R[a]` = a cell without value
    NewEmptyCell,
    /// `R[a]` = value of the cell in `R[b]`; `K[c]` names it
    GetCell,
    /// value of the cell in `R[a]` = `R[b]`
    SetCell,
    /// `R[a]` = captured value b
    GetUp,
    /// `R[a]` = value of the captured cell b; `K[c]` names it
    GetUpCell,
    /// value of the captured cell a = `R[b]`
    SetUpCell,
    /// value of the cell in `R[a]` = itself + `R[b]`, in place when possible; `K[c]` names it
    AddCell,
    /// value of the captured cell a = itself + `R[b]`, in place when possible; `K[c]` names it
    AddUpCell,
    /// `R[a]` = global c of module b (a cell for `var`)
    GetGlobal,
    /// `R[a]` = value of the cell in global c of module b
    GetGlobalVar,
    /// global c of module b = `R[a]`
    SetGlobal,
    /// value of the cell in global c of module b = `R[a]`
    SetGlobalVar,
    /// `R[a]` = function c
    GetFunction,
    /// function c = `R[a]`
    SetFunction,
    // Arithmetic. The K forms take K[c] on the right.
    Add,
    AddK,
    Sub,
    SubK,
    Mul,
    MulK,
    Div,
    DivK,
    Rem,
    RemK,
    // The I forms take c as a signed int on the right (above 0 for DivI and RemI).
    AddI,
    SubI,
    MulI,
    DivI,
    RemI,
    Pow,
    /// `R[a]` = -`R[b]`
    Neg,
    /// `R[a]` = !`R[b]`
    Not,
    /// `R[a]` = whether `R[b]` is truthy
    Truthy,
    Eq,
    Ne,
    Lt,
    Le,
    /// `R[a]` = `R[b]` in `R[c]`
    In,
    // Jumps: c is the distance.
    Jump,
    JumpIf,
    JumpIfNot,
    JumpIfNil,
    JumpIfNotNil,
    /// if `R[a]` is no value
    JumpIfAbsent,
    /// if `R[a]` is a value
    JumpIfPresent,
    /// if `R[a]` < `R[b]`
    JumpLt,
    JumpLe,
    JumpNotLt,
    JumpNotLe,
    JumpEq,
    JumpNe,
    /// if `R[a]` < `K[b]`
    JumpLtK,
    JumpLeK,
    JumpGtK,
    JumpGeK,
    JumpNotLtK,
    JumpNotLeK,
    JumpNotGtK,
    JumpNotGeK,
    JumpEqK,
    JumpNeK,
    /// if `R[a]` < b as a signed int
    JumpLtI,
    JumpLeI,
    JumpGtI,
    JumpGeI,
    JumpNotLtI,
    JumpNotLeI,
    JumpNotGtI,
    JumpNotGeI,
    JumpEqI,
    JumpNeI,
    // Loops.
    /// `R[a]` = loop state of `R[a]` to `R[a+1]`: checks for ints, sets `R[a+1]` to the last item (b: exclusive); jumps
    /// by c if empty
    RangePrep,
    /// `R[a+2]` = next item of the range state, jumps back by c; falls through at the end
    RangeNext,
    /// `R[a]` = loop state over `R[a]`; `R[a+1]` = position
    IterPrep,
    /// `R[a+2]` = next item and jump by c; at the end skips the next instruction
    IterNext,
    /// drop the loop state `R[a]` .. `R[a+2]`, and run the cleanup of a generator that was dropped with it
    EndLoop,
    /// run the cleanup of generators that were dropped
    Settle,
    /// clear all registers from `R[a]` on
    ClearFrom,
    // Calls. The callee is in R[a], followed by the arguments; the result replaces the callee.
    /// call `R[a]` with b arguments; c: 1 + constant with the name for the error
    Call,
    /// call `R[c]`, which stays in place, with b arguments after `R[a]`
    CallLocal,
    /// call function c with b arguments
    CallFunction,
    /// call the builtin `K[c]` with b arguments
    CallBuiltin,
    /// call method c of `R[a+1]`; b arguments with the receiver
    CallMethod,
    /// `R[a]` = whether the set `R[b]` has the int `R[c]`, and jump like the `Jump` that follows; if the fast lookup is
    /// not conclusive or the operands have other types, only skip that `Jump`
    SetHas,
    /// add the int `R[b]` to the set `R[a]` in place, then continue as SetHas does
    SetAdd,
    /// remove the int `R[b]` from the set `R[a]` in place, then continue as SetHas does
    SetRemove,
    /// call `R[a]` with the list `R[a+1]`
    CallSpread,
    /// call the builtin `K[c]` with the list `R[a+1]`
    CallBuiltinSpread,
    /// call method c of `R[a+1]` with the list `R[a+2]`
    CallMethodSpread,
    /// like Call, replacing the frame of the running function
    TailCall,
    /// return `R[a]`
    Return,
    ReturnNil,
    /// `R[a]` = closure over function c of this function
    Closure,
    // Building values.
    /// `R[a]` = list of c values from `R[b]`
    NewList,
    /// `R[a]` = `R[a]` + a list with the single item `R[b]`
    Append,
    /// append `R[b]` to the list `R[a]`
    ListPush,
    /// append all items of `R[b]` to the list `R[a]`
    ListSpread,
    /// `R[a]` = dict with room for c entries
    NewDict,
    /// `R[a][K[c]]` = `R[b]`
    DictSetK,
    /// `R[a]`[printed `R[b]`] = `R[c]`
    DictSet,
    /// copy the entries of `R[b]` into the dict `R[a]`
    DictSpread,
    /// `R[a]` = instance of struct c with slots from `R[b]`
    NewStruct,
    /// `R[a]` = instance of struct c with the fields of the dict `R[b]`
    StructFromDict,
    /// `R[a]` = enum value like `K[c]` with b payload values from `R[a+1]`
    NewEnum,
    /// `R[a]` = printed forms of c values from `R[b]`, joined
    Interp,
    /// `R[a]` = `R[b]` to `R[c]`
    NewRange,
    /// `R[a]` = `R[b]` to `R[c]` exclusive
    NewRangeExclusive,
    // Access.
    /// `R[a]` = `R[b]`.`K[c]`
    GetField,
    /// like GetField, then `R[b]` = nil
    GetFieldTake,
    /// `R[a]` = `R[b]`?.`K[c]`: nil where GetField fails
    GetFieldOpt,
    /// `R[a]` = `R[b][R[c]]`
    GetIndex,
    /// like GetIndex, then `R[b]` = nil
    GetIndexTake,
    /// `R[a]` = `R[b][R[c] : R[c+1]]`
    Slice,
    /// place `R[a]` .`K[c]` = `R[b]` (a place is a register or the cell in it)
    SetField,
    /// place `R[a]` [`R[b]`] = `R[c]`
    SetIndex,
    /// place `R[a]`, path c = `R[b]`
    SetPath,
    /// if `R[b]` + `R[b+1]` can append in place, move the value at place `R[a]`, path c out
    ReleasePath,
    /// value at place `R[a]`, path c = itself + `R[b]`, and jump like the `Jump` that follows; if that cannot be done
    /// in place or might fail, only skip that `Jump`
    AddPath,
    /// place `R[a]` (a cell) = `R[b]` + `R[c]`, in place when possible
    AddToCell,
    // Patterns.
    /// fail unless `R[a]` is a dict or struct
    ExpectDict,
    /// fail unless `R[a]` is a list
    ExpectList,
    /// `R[a]` = `R[b]`.`K[c]` for a pattern (nil when missing)
    PatternField,
    /// `R[a]` = element c of the list `R[b]`, nil when missing
    PatternItem,
    /// `R[a]` = dict `R[b]` without the keys in the list `K[c]`
    RestDict,
    /// `R[a]` = list `R[b]` from position c
    RestList,
    /// `R[a]`, `R[a+1]` = components of the pair or two-element list `R[b]`
    SplitPair,
    /// jump by c unless `R[a]` is a dict or struct
    JumpNotDict,
    /// jump by c unless `R[a]` is a list of at least b elements
    JumpNotList,
    /// jump by c unless `R[a]` is the variant of the enum value `K[b]`
    JumpNotVariant,
    /// jump by c unless `R[a]` is the variant of the enum value `R[b]`
    JumpNotVariantOf,
    /// jump by c unless `R[a] + R[b]` appends string to string, list to list or dict to dict and cannot fail
    JumpNotAppends,
    /// `R[a]` = payload value c of the enum value `R[b]`
    EnumField,
    // Errors.
    /// throw `R[a]`
    Throw,
    /// fail with message `K[c]`; b: kind (see FailKind)
    Fail,
    /// throw the error held by `R[a]` again
    Rethrow,
    /// `R[a]` = value that `catch` binds of the error held by `R[b]`
    CaughtValue,
    /// jump by c unless the caught value `R[a]` is of the type that `R[b]` names
    JumpNotCaught,
    /// `R[a]` = value of the place path c of `R[b]`
    GetPath,
    /// `R[a]` = Ok(`R[b]`) unless it is a Result
    WrapOk,
    /// `R[a]` = Err(`R[b]`)
    WrapErr,
    /// `R[a]` = payload of the Ok in `R[b]`; jumps by c if it is an Err
    Propagate,
    // Functions.
    /// check `R[a]` against check c, unless its kind is one of the set b
    CheckType,
    /// yield `R[a]`
    Yield,
    /// clear `R[a]` .. `R[a+c]`
    Clear,
    /// add a method to struct c: `R[a]` is a function, `R[b]` its name
    AddMethod,
    /// callable `R[a]` for a pipe, or fail with "cannot pipe into"
    ExpectCallable,
}

/// How `Op::Fail` fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum FailKind {
    /// A runtime error.
    Runtime,
    /// A type error.
    Type,
    /// A message without prefix.
    Plain,
    /// A thrown string.
    Thrown,
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ins(pub u64);

/// Flag in `c` of `SetIndex`, `SetField` and `SetPath`: the value register may be moved out of.
pub(crate) const TAKE: u32 = 1 << 23;

/// Bit of c of `SetField` and `SetPath`: the new value was made from the old one by adding to it.
pub(crate) const GROWN: u32 = TAKE >> 1;

/// Largest `c`.
pub(crate) const MAX_C: u32 = (1 << 24) - 1;

impl Ins {
    /// Packs an instruction. `c` is truncated to 24 bits.
    pub fn new(op: Op, a: u16, b: u16, c: u32) -> Ins {
        Ins(op as u64 | (u64::from(a) << 8) | (u64::from(b) << 24) | (u64::from(c & MAX_C) << 40))
    }

    /// Returns the operation.
    #[inline(always)]
    pub fn op(self) -> Op {
        // SAFETY: only `Ins::new` makes instructions, from an `Op`.
        unsafe { std::mem::transmute::<u8, Op>(self.0 as u8) }
    }

    /// Returns operand `a`.
    #[inline(always)]
    pub fn a(self) -> usize {
        (self.0 >> 8) as u16 as usize
    }

    /// Returns operand `b`.
    #[inline(always)]
    pub fn b(self) -> usize {
        (self.0 >> 24) as u16 as usize
    }

    /// Returns operand `b` as a signed number.
    #[inline(always)]
    pub(crate) fn sb(self) -> i64 {
        i64::from((self.0 >> 24) as i16)
    }

    /// Returns operand `c`.
    #[inline(always)]
    pub fn c(self) -> usize {
        (self.0 >> 40) as usize
    }

    /// Returns operand `c` as a signed number.
    #[inline(always)]
    pub(crate) fn sc(self) -> isize {
        ((self.0 as i64) >> 40) as isize
    }
}

impl std::fmt::Debug for Ins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<18} {:>5} {:>5} {:>7}", NAMES[self.op() as usize], self.a(), self.b(), self.sc())
    }
}

/// Where a new closure gets a captured variable from.
#[derive(Clone, Copy, Debug)]
pub enum Capture {
    /// A register of the function that creates the closure.
    Local(u16),
    /// A captured variable of the function that creates the closure.
    Up(u16),
}

/// A range of code whose errors go to a handler. Inner ranges come first.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// First instruction covered.
    pub start: u32,
    /// First instruction after the range.
    pub end: u32,
    /// Instruction at which the handler starts.
    pub target: u32,
    /// Register that receives the error.
    pub register: u16,
    /// Number of registers in use around the range. Registers from here on belong to the range: they are cleared before
    /// its error is handled, so that their values are dropped.
    pub live: u16,
    /// Which errors it handles and what the register receives.
    pub kind: HandlerKind,
}

/// Which errors a handler handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandlerKind {
    /// Catchable errors; the register gets the value that `catch` binds.
    Catch,
    /// Catchable errors; the register gets the error itself, which the code inspects and may rethrow.
    CatchHeld,
    /// All errors; the register gets the error itself, which is rethrown.
    Finally,
}

/// A call site of a method: its name and an inline cache of the last target.
pub struct MethodSite {
    /// The method's name.
    pub name: Str,
    /// `x?.name()`: nil if there is no such method.
    pub optional: bool,
    /// Key of the cached target: a tag, or the address of a struct type.
    pub(crate) key: Cell<usize>,
    /// For a struct type: the VM's `method_epoch` when the target was found.
    pub(crate) epoch: Cell<usize>,
    /// The cached target: a `Builtin` for tags, a `Closure` value for struct types. Invariant: the closure is alive
    /// while the VM's epoch equals `epoch`, because replacing a method starts a new epoch.
    pub(crate) target: Cell<*const ()>,
}

/// A step of a path to a nested place.
pub enum PathStep {
    /// `.name`
    Field(Str),
    /// `[R[n]]`
    Index(u16),
}

/// Inline cache of a field access, by the field's name: the slot that was found last.
pub struct FieldSite {
    /// Address of the struct type.
    pub(crate) ty: Cell<usize>,
    pub(crate) slot: Cell<u32>,
    /// Holds a reference to the type so that its address is not reused.
    held: Cell<Option<Ref<StructType>>>,
}

impl FieldSite {
    pub(crate) fn new() -> FieldSite {
        FieldSite { ty: Cell::new(0), slot: Cell::new(0), held: Cell::new(None) }
    }

    /// Caches the slot of `name` in instances of `ty`, if the type declares it.
    #[cold]
    #[inline(never)]
    pub(crate) fn remember(&self, ty: &Ref<StructType>, name: &Str) {
        if let Some(slot) = ty.slot(name) {
            self.ty.set(ty.address());
            self.slot.set(slot as u32);
            self.held.set(Some(ty.clone()));
        }
    }
}

/// The data of a function that a call needs. Closures hold a copy, so that a call reads one cache line.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Hot {
    /// First instruction.
    pub(crate) code: *const Ins,
    /// First constant.
    pub(crate) consts: *const Value,
    /// Number of registers.
    pub(crate) registers: u32,
    /// Number of leading registers that may hold reference-counted values; the others need no check when the function
    /// returns.
    pub(crate) scanned: u32,
    /// Parameters before a rest parameter.
    pub(crate) params: u16,
    /// Whether a call only pushes a frame with the arguments in place: not a generator, no rest parameter.
    pub(crate) plain: bool,
    /// Number of the VM that may run it.
    pub(crate) vm: u32,
}

// A larger one would move the captured values of a closure out of its first cache line.
const _: () = assert!(size_of::<Hot>() == 32);

/// Returns how many registers, from the first, may receive a reference-counted value from an instruction of `code` or
/// from a caller. Includes every `R[a]` unless the instruction is known to store only a number, a bool or nothing.
pub(crate) fn scanned(code: &[Ins], consts: &[Value], handlers: &[Handler], params: usize) -> u32 {
    let last = |ins: &Ins| {
        let a = ins.a() + 1;
        match ins.op() {
            Op::LoadInt | Op::LoadNil | Op::LoadBool | Op::LoadAbsent | Op::Clear | Op::ClearFrom => 0,
            Op::LoadK if consts.get(ins.c()).is_some_and(|k| !k.is_heap()) => 0,
            Op::Sub | Op::SubK | Op::SubI | Op::Div | Op::DivK | Op::DivI | Op::Rem | Op::RemK | Op::RemI => {
                0
            }
            Op::Neg | Op::Not | Op::Truthy | Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::In => 0,
            // These only read registers; the callee clears the arguments that a call leaves.
            op if (Op::Jump as u8..=Op::JumpNeI as u8).contains(&(op as u8)) => 0,
            Op::RangePrep | Op::RangeNext | Op::Return | Op::ReturnNil => 0,
            Op::IterPrep | Op::IterNext | Op::SplitPair | Op::CallMethodSpread => a + 2,
            _ => a,
        }
    };
    let handled = handlers.iter().map(|h| usize::from(h.register) + 1);
    code.iter().map(last).chain(handled).max().unwrap_or(0).max(params) as u32
}

/// A compiled function.
#[repr(C)]
pub struct Proto {
    /// The data that a call needs, in the first cache line.
    pub(crate) hot: Hot,
    /// The VM that compiled it; reserves the number in `hot`.
    pub(crate) vm: Rc<VmId>,
    /// Name in stack traces: the declared name, `<closure>`, `pipeline`, `Type.method`.
    pub name: String,
    /// Instructions.
    pub code: Packed<Ins>,
    /// Constants.
    pub consts: Packed<Value>,
    /// Inline caches of field accesses, by the constant that names the field.
    pub fields: Box<[FieldSite]>,
    /// Functions inside this one.
    pub protos: Box<[Rc<Proto>]>,
    /// Variables captured when a closure is made.
    pub captures: Box<[Capture]>,
    /// Number of registers.
    pub registers: u32,
    /// Parameters before a rest parameter.
    pub params: u16,
    /// Whether there is a rest parameter.
    pub rest: bool,
    /// Whether calling it makes a generator.
    pub generator: bool,
    /// Whether that generator is a stream (`gen fn`).
    pub stream: bool,
    /// Number of parameters before the first one with a default; missing arguments after it stay absent, and the code
    /// fills them in.
    pub required: u16,
    /// Names of all parameters, for the printed form.
    pub param_names: Vec<String>,
    /// Error handlers, innermost first.
    pub handlers: Box<[Handler]>,
    /// `(first instruction, span)` in order of instructions.
    pub spans: Box<[(u32, Span)]>,
    /// Method call sites.
    pub methods: Box<[MethodSite]>,
    /// Paths of assignments to nested places.
    pub paths: Box<[Box<[PathStep]>]>,
    /// Checks of parameters, variables, results and fields.
    pub checks: Box<[TypeCheck]>,
    /// Struct types that the code makes instances of.
    pub structs: Box<[Ref<StructType>]>,
    /// Source file, as displayed.
    pub file: Rc<str>,
    /// Number of the module it belongs to.
    pub module: u32,
    /// Span of the declaration, to which parameter errors refer.
    pub span: Span,
    /// The definition of the function as a tool, without its handler.
    pub described: Option<Value>,
    /// Debug information for an observer; `None` in programs without one.
    pub(crate) shown: Option<Box<Shown>>,
}

/// Debug information about a function for an observer.
#[derive(Default)]
pub(crate) struct Shown {
    /// The `Settle` instructions before statements, in order.
    pub(crate) statements: Vec<u32>,
    /// Variables in registers, by the first instruction that sees them.
    pub(crate) locals: Vec<ShownLocal>,
    /// Names of captured variables, by number.
    pub(crate) captured: Vec<String>,
}

/// A variable of a function, and the instruction range in which it is visible.
pub(crate) struct ShownLocal {
    pub(crate) name: String,
    pub(crate) register: u16,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Proto {
    /// Returns the spans of its statements, if they are recorded for an observer.
    pub(crate) fn statements(&self) -> impl Iterator<Item = Span> + '_ {
        self.shown.iter().flat_map(|shown| &shown.statements).map(|&at| self.span_at(at as usize))
    }

    /// Returns the source range of the instruction at `pc`.
    pub fn span_at(&self, pc: usize) -> Span {
        let after = self.spans.partition_point(|&(start, _)| start as usize <= pc);
        after.checked_sub(1).map_or(self.span, |at| self.spans[at].1)
    }

    /// Returns a readable listing.
    pub fn listing(&self) -> String {
        use std::fmt::Write;
        let mut out = format!("{} ({} registers)\n", self.name, self.registers);
        for (at, ins) in self.code.iter().enumerate() {
            let _ = writeln!(out, "{at:>5} {ins:?}");
        }
        for proto in &self.protos {
            out.push_str(&proto.listing());
        }
        out
    }
}
