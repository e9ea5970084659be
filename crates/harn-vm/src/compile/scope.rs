//! The function being compiled: emitted code, scopes, registers, and name lookup.

use std::rc::Rc;

use harn_syntax::Span;
use harn_syntax::ast::Name;
use harn_syntax::signature::Kinds;
use harn_value::{EnumType, Ref, Str, StructType, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::facts::Facts;
use crate::bytecode::{
    Capture, GROWN, Handler, Ins, MAX_C, MethodSite, Op, PathStep, Proto, Shown, ShownLocal,
};
use crate::params::{Check, TypeCheck};
use crate::types::{Alias, Named};

/// A register number.
pub(super) type Reg = u16;

/// An enclosing construct that `break`, `continue`, `return` and `?` must pass through.
pub(super) enum Control {
    /// A loop: jumps to be patched to its end and to its next iteration.
    Loop { breaks: Vec<usize>, continues: Vec<usize> },
    /// Code with a `finally` or `defer` block.
    Finally { state: Reg, value: Reg, exits: Vec<Exit>, jumps: Vec<usize> },
}

/// Receiver of the errors of a block of code.
pub(super) enum Guard {
    /// A handler, after which the function continues (`catch`, `retry`).
    Handler,
    /// A cleanup block that mentions these names, after which the error propagates.
    Cleanup(FxHashSet<Name>),
}

/// An exit that first runs a `finally` block. Its number in the block's state register follows from its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Return,
    Break,
    Continue,
}

/// Maximum number of instructions of a function: jumps reach 2^23 instructions.
const MAX_CODE: usize = 8_000_000;

/// The meaning of a name.
#[derive(Clone)]
pub(crate) enum Binding {
    /// A register of the function that declares it.
    Local { reg: Reg, mutable: bool, cell: bool },
    /// Captured variable `index` of the current function.
    Up { index: u16, mutable: bool, cell: bool },
    /// A module-level variable.
    Global { module: u32, index: u32, mutable: bool },
    /// A module-level function.
    Function { index: u32 },
    /// A struct type and the shape of its fields.
    Struct(Ref<StructType>, Rc<Alias>),
    /// An enum type.
    Enum(Ref<EnumType>),
    /// A type alias, which has no value at run time, and its type.
    Alias(Rc<Alias>),
    /// An interface, which has no value at run time, and the file that declares it.
    Interface(u32),
    /// A pipeline: not callable.
    Pipeline,
}

impl Binding {
    /// Returns the named type; `None` for other names and for types without a known structure.
    pub(crate) fn named(&self) -> Option<Named<'static>> {
        match self {
            Binding::Struct(ty, alias) => Some(Named::Struct(ty.clone(), alias.clone())),
            Binding::Enum(ty) => Some(Named::Enum(ty.clone())),
            Binding::Alias(alias) => Some(Named::Alias(alias.clone())),
            Binding::Interface(_) => Some(Named::Interface),
            _ => None,
        }
    }
}

/// What is known of a value or variable.
#[derive(Clone)]
pub(super) struct Known {
    /// The kinds that it can have.
    pub(super) kinds: Kinds,
    /// A check that it passes.
    pub(super) exact: Option<Rc<Check>>,
    /// The check of an annotated variable that can be assigned.
    pub(super) declared: Option<Rc<Check>>,
    /// The struct that it is an instance of.
    pub(super) instance: Option<Rc<Alias>>,
}

impl Known {
    /// A value of these kinds.
    pub(super) fn kinds(kinds: Kinds) -> Known {
        let kinds = if kinds == Kinds::NONE { Kinds::ANY } else { kinds };
        Known { kinds, exact: None, declared: None, instance: None }
    }

    /// A value that passes `check`.
    pub(super) fn passing(check: &Rc<Check>) -> Known {
        Known { exact: Some(check.clone()), ..Known::kinds(check.possible()) }
    }

    /// A variable with the annotation `check` that can be assigned. Assignments to parts of the variable `name` are not checked:
    /// then only its kind is known.
    pub(super) fn variable(check: &Rc<Check>, name: &Name, facts: &Facts) -> Known {
        let exact = (!facts.parts_assigned.contains(name)).then(|| check.clone());
        Known { exact, declared: Some(check.clone()), ..Known::kinds(check.possible()) }
    }

    /// An instance of a struct.
    pub(super) fn instance(alias: Rc<Alias>) -> Known {
        Known { instance: Some(alias), ..Known::kinds(Kinds::STRUCT) }
    }
}

/// The annotations of a file's top level.
#[derive(Default)]
pub(super) struct TopAnnotations {
    /// What is known of the variables that functions share.
    pub(super) variables: FxHashMap<Name, Known>,
    /// The checks of the results of functions.
    pub(super) results: FxHashMap<Name, Rc<Check>>,
}

/// A name in a scope.
pub(super) struct Local {
    pub(super) name: Name,
    pub(super) binding: Binding,
    /// False for a variable whose declaration has not been reached: only nested functions see it.
    pub(super) declared: bool,
    /// Whether a second declaration in the same scope is an error.
    pub(super) fixed: bool,
    /// The first instruction after its declaration.
    from: usize,
    /// What is known of its value.
    pub(super) known: Option<Box<Known>>,
}

#[derive(Default)]
pub(super) struct Scope {
    locals: Vec<Local>,
    /// Positions in `locals` by name, once there are more than `FEW`.
    places: FxHashMap<Name, Vec<usize>>,
    /// First register that belongs to the scope.
    pub(super) base: Reg,
}

/// Maximum number of names that are searched linearly.
const FEW: usize = 16;

impl Scope {
    fn new(base: Reg) -> Scope {
        Scope { base, ..Scope::default() }
    }

    fn add(&mut self, local: Local) {
        self.locals.push(local);
        if self.locals.len() <= FEW {
            return;
        }
        let unknown = if self.places.is_empty() { 0 } else { self.locals.len() - 1 };
        for (at, local) in self.locals.iter().enumerate().skip(unknown) {
            self.places.entry(local.name.clone()).or_default().push(at);
        }
    }

    /// Returns the positions of a name, the last declaration first.
    fn places<'s>(&'s self, name: &'s str) -> impl Iterator<Item = usize> + 's {
        let few = (self.locals.len() <= FEW).then_some(0..self.locals.len()).into_iter().flatten().rev();
        let known = self.places.get(name).into_iter().flatten().rev().copied();
        few.filter(move |&at| self.locals[at].name == name).chain(known)
    }

    /// Returns its names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.locals.iter().map(|local| &local.name)
    }

    /// Returns whether `name` has a declaration that must not be repeated.
    pub(super) fn is_fixed(&self, name: &str) -> bool {
        self.places(name).any(|at| self.locals[at].fixed)
    }
}

/// A function under construction.
pub(super) struct Func<'a> {
    pub(super) name: String,
    pub(super) facts: &'a Facts,
    pub(super) code: Vec<Ins>,
    pub(super) spans: Vec<(u32, Span)>,
    pub(super) consts: Vec<Value>,
    numbers: FxHashMap<(u8, u64), u32>,
    texts: FxHashMap<String, u32>,
    pub(super) protos: Vec<Rc<Proto>>,
    pub(super) captures: Vec<Capture>,
    captured: Vec<(Name, Binding, u32)>,
    pub(super) methods: Vec<MethodSite>,
    pub(super) paths: Vec<Box<[PathStep]>>,
    pub(super) checks: Vec<TypeCheck>,
    /// What expressions must be that are compiled next.
    pub(super) expected: Vec<(*const harn_syntax::ast::Expr, TypeCheck)>,
    /// What describes it as a tool.
    pub(super) described: Option<Value>,
    /// What its result must be.
    pub(super) result: Option<Rc<Check>>,
    pub(super) structs: Vec<Ref<StructType>>,
    pub(super) handlers: Vec<Handler>,
    pub(super) scopes: Vec<Scope>,
    pub(super) control: Vec<Control>,
    /// Next free register.
    pub(super) next: u32,
    most: u32,
    /// Registers that hold declared variables (as opposed to intermediate results).
    variables: Vec<bool>,
    /// Intermediate registers that may share a container; cleared at the end of the statement.
    pub(super) dirty: Vec<Reg>,
    /// Register to which `_` refers on the right side of a pipe.
    pub(super) piped: Option<Reg>,
    /// Whether this is a function, tool or pipeline, not the top level of a file.
    pub(super) is_function: bool,
    pub(super) generator: bool,
    /// Whether this is the top level of a file or a pipeline, where `yield` has no consumer.
    pub(super) plain_yield: bool,
    /// Receivers of errors of the code being compiled, outermost first, each with the number of scopes that were open
    /// around it.
    pub(super) guards: Vec<(Guard, usize)>,
    /// Whether a number did not fit its field in an instruction.
    too_large: bool,
    span: Span,
    /// Debug information, if there is an observer.
    pub(super) shown: Option<Box<Shown>>,
}

impl<'a> Func<'a> {
    pub(super) fn new(name: &str, facts: &'a Facts, span: Span) -> Func<'a> {
        Func {
            name: name.to_owned(),
            facts,
            code: Vec::new(),
            spans: Vec::new(),
            consts: Vec::new(),
            numbers: FxHashMap::default(),
            texts: FxHashMap::default(),
            protos: Vec::new(),
            captures: Vec::new(),
            captured: Vec::new(),
            methods: Vec::new(),
            paths: Vec::new(),
            checks: Vec::new(),
            expected: Vec::new(),
            result: None,
            described: None,
            structs: Vec::new(),
            handlers: Vec::new(),
            scopes: vec![Scope::default()],
            control: Vec::new(),
            next: 0,
            most: 0,
            variables: Vec::new(),
            dirty: Vec::new(),
            piped: None,
            is_function: true,
            generator: false,
            plain_yield: false,
            guards: Vec::new(),
            too_large: false,
            span,
            shown: None,
        }
    }

    // ---- code ----

    pub(super) fn at(&mut self, span: Span) {
        self.span = span;
    }

    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn emit(&mut self, op: Op, a: Reg, b: u16, c: u32) -> usize {
        let pc = self.code.len();
        self.too_large |= c > MAX_C;
        if self.spans.last().is_none_or(|&(_, span)| span != self.span) {
            self.spans.push((pc as u32, self.span));
        }
        self.code.push(Ins::new(op, a, b, c));
        pc
    }

    pub(super) fn pc(&self) -> usize {
        self.code.len()
    }

    /// Emits a jump whose target is set later with [`Func::land`].
    pub(super) fn jump(&mut self, op: Op, a: Reg, b: u16) -> usize {
        self.emit(op, a, b, 0)
    }

    /// Makes the jump at `pc` go to the next instruction.
    pub(super) fn land(&mut self, pc: usize) {
        self.aim(pc, self.code.len());
    }

    pub(super) fn land_all(&mut self, jumps: Vec<usize>) {
        jumps.into_iter().for_each(|pc| self.land(pc));
    }

    pub(super) fn aim(&mut self, pc: usize, target: usize) {
        let distance = target as i64 - (pc as i64 + 1);
        let ins = self.code[pc];
        self.code[pc] = Ins::new(ins.op(), ins.a() as u16, ins.b() as u16, distance as u32 & MAX_C);
    }

    pub(super) fn jump_to(&mut self, op: Op, a: Reg, b: u16, target: usize) {
        let pc = self.emit(op, a, b, 0);
        self.aim(pc, target);
    }

    // ---- constants ----

    pub(super) fn constant(&mut self, value: Value) -> u32 {
        let number = match (value.as_int(), value.as_float(), value.as_duration()) {
            (Some(i), _, _) => Some((0, i as u64)),
            (_, Some(f), _) => Some((1, f.to_bits())),
            (_, _, Some(d)) => Some((2, d as u64)),
            _ => None,
        };
        let next = self.consts.len() as u32;
        if let Some(key) = number {
            let at = *self.numbers.entry(key).or_insert(next);
            if at == next {
                self.consts.push(value);
            }
            return at;
        }
        self.consts.push(value);
        next
    }

    /// Adds a string constant; `make` interns it.
    pub(super) fn text(&mut self, text: &str, make: impl FnOnce(&str) -> Str) -> u32 {
        if let Some(&at) = self.texts.get(text) {
            return at;
        }
        let at = self.consts.len() as u32;
        self.consts.push(make(text).into());
        self.texts.insert(text.to_owned(), at);
        at
    }

    // ---- registers ----

    /// Allocates a register above all others in use. The caller reports exhaustion through [`Func::most`].
    pub(super) fn temp(&mut self) -> Reg {
        let reg = self.next;
        self.next += 1;
        self.most = self.most.max(self.next);
        reg.min(u32::from(Reg::MAX)) as Reg
    }

    pub(super) fn registers(&self) -> u32 {
        self.most
    }

    /// Returns whether the function needs more registers, code or constants than instructions can address.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large
            || self.most > u32::from(Reg::MAX)
            || self.code.len() > MAX_CODE
            || self.consts.len() > GROWN as usize
            || self.paths.len() > GROWN as usize
    }

    /// Converts `number` to 16 bits, and records an overflow.
    pub(super) fn narrow(&mut self, number: usize) -> u16 {
        u16::try_from(number).unwrap_or_else(|_| {
            self.too_large = true;
            0
        })
    }

    /// Number of registers in use: all below the next free one.
    pub(super) fn live(&mut self) -> u16 {
        self.narrow(self.next as usize)
    }

    pub(super) fn is_variable(&self, reg: Reg) -> bool {
        self.variables.get(reg as usize).copied().unwrap_or(false)
    }

    /// Returns whether `reg` is the topmost register and holds no variable, so that a call may be built on it.
    pub(super) fn is_top_temp(&self, reg: Reg) -> bool {
        u32::from(reg) + 1 == self.next && !self.is_variable(reg)
    }

    // ---- scopes ----

    pub(super) fn open_scope(&mut self) {
        let base = self.next as Reg;
        self.scopes.push(Scope::new(base));
    }

    pub(super) fn close_scope(&mut self) {
        if let Some(scope) = self.scopes.pop() {
            for local in &scope.locals {
                if let Binding::Local { reg, .. } = local.binding
                    && let Some(flag) = self.variables.get_mut(reg as usize)
                {
                    *flag = false;
                }
            }
            self.show_locals(&scope);
            self.next = u32::from(scope.base);
        }
    }

    /// Returns the names declared in the innermost scope, in order.
    pub(super) fn scope_names(&mut self) -> Vec<Name> {
        self.scope().locals.iter().map(|local| local.name.clone()).collect()
    }

    /// Returns the registers of the variables in the innermost scope.
    pub(super) fn scope_registers(&mut self) -> Vec<Reg> {
        let locals = self.scope().locals.iter();
        locals
            .filter_map(|local| match local.binding {
                Binding::Local { reg, .. } => Some(reg),
                _ => None,
            })
            .collect()
    }

    fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Adds a name to the innermost scope.
    pub(super) fn declare(&mut self, name: &Name, binding: Binding, fixed: bool, declared: bool) {
        if let Binding::Local { reg, .. } = binding {
            let at = reg as usize;
            if self.variables.len() <= at {
                self.variables.resize(at + 1, false);
            }
            self.variables[at] = true;
        }
        let from = self.code.len();
        self.scope().add(Local { name: name.clone(), binding, declared, fixed, from, known: None });
    }

    /// Records the variables of a scope that ends here for an observer.
    fn show_locals(&mut self, scope: &Scope) {
        let to = self.code.len() as u32;
        let Some(shown) = &mut self.shown else { return };
        for local in &scope.locals {
            if let Binding::Local { reg, .. } = local.binding {
                let (name, from) = (local.name.to_string(), local.from as u32);
                shown.locals.push(ShownLocal { name, register: reg, from, to });
            }
        }
    }

    /// Returns the debug information of the completed function.
    pub(super) fn take_shown(&mut self) -> Option<Box<Shown>> {
        for scope in std::mem::take(&mut self.scopes) {
            self.show_locals(&scope);
        }
        let mut shown = self.shown.take()?;
        shown.locals.sort_by_key(|local| local.from);
        for (name, binding, _) in &self.captured {
            if let Binding::Up { index, .. } = binding {
                let at = usize::from(*index);
                shown.captured.resize(shown.captured.len().max(at + 1), String::new());
                shown.captured[at] = name.to_string();
            }
        }
        Some(shown)
    }

    /// Returns the entry of `name` in the innermost scope.
    pub(super) fn in_scope(&mut self, name: &Name) -> Option<&mut Local> {
        let scope = self.scope();
        let at = scope.places(name).next()?;
        scope.locals.get_mut(at)
    }

    /// Looks up a name in the scopes of this function. If `nested`, the lookup is for a nested function, which also
    /// sees variables that are declared later.
    pub(super) fn find_local(&self, name: &str, nested: bool) -> Option<&Binding> {
        self.find_entry(name, nested).map(|local| &local.binding)
    }

    /// The entry behind [`Self::find_local`].
    pub(super) fn find_entry(&self, name: &str, nested: bool) -> Option<&Local> {
        self.scopes
            .iter()
            .rev()
            .flat_map(|scope| scope.places(name).map(move |at| &scope.locals[at]))
            .find(|local| local.declared || nested)
    }

    /// Notes what is known of the variable that was declared last under this name.
    pub(super) fn learn(&mut self, name: &Name, known: Option<Known>) {
        if let (Some(known), Some(local)) = (known, self.in_scope(name)) {
            local.known = Some(Box::new(known));
        }
    }

    /// The name of the result in messages.
    pub(super) fn result_name(&self) -> String {
        if self.name.starts_with('<') { "result".to_owned() } else { format!("{}()", self.name) }
    }

    /// Returns whether code of this function may run after an error of the code being compiled.
    pub(super) fn guards_errors(&self) -> bool {
        !self.guards.is_empty()
    }

    /// Returns the index of the scope in which a visible name was declared.
    pub(super) fn scope_of(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rposition(|s| s.locals.iter().any(|l| l.declared && l.name == name))
    }

    pub(super) fn find_captured(&self, name: &str, key: u32) -> Option<Binding> {
        self.captured.iter().find(|(n, _, k)| n == name && *k == key).map(|(_, b, _)| b.clone())
    }

    pub(super) fn add_capture(
        &mut self,
        name: &Name,
        capture: Capture,
        mutable: bool,
        cell: bool,
        key: u32,
    ) -> Binding {
        let index = self.narrow(self.captures.len());
        let binding = Binding::Up { index, mutable, cell };
        self.captures.push(capture);
        self.captured.push((name.clone(), binding.clone(), key));
        binding
    }
}
