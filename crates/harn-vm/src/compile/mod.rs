//! Compiler from syntax tree to bytecode.
//!
//! One pass over the tree of each file, after [`facts`] has determined which variables functions share. Names are
//! resolved here: locals become registers, variables that a nested function shares become cells, module variables and
//! functions become numbered slots. Mistakes that are runtime errors (an unknown variable, an assignment to a `let`)
//! are compiled to an instruction that fails when reached; mistakes that are invalid anywhere in a file are reported as
//! [`CompileError`].
//!
//! Modules: `scope` (the function under construction), `expr`, `call`, `stmt`, `control` (`finally`, `break`,
//! `return`), `pattern`, `decl` (functions and other declarations), and `effects` (side effects of an expression on
//! variables that were read before).

mod annotation;
mod assign;
mod call;
mod control;
mod decl;
pub(crate) use decl::attr_value;
mod effects;
mod expr;
mod facts;
mod pattern;
mod scope;
mod stmt;

use std::rc::Rc;

use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_value::EnumValue;
use rustc_hash::FxHashMap;

use crate::bytecode::{Capture, Op, Proto};
use crate::types::{Alias, Scope};
use crate::vm::Vm;
use decl::Role;
use facts::FactsTable;
pub(crate) use scope::Binding;
use scope::{Func, Reg, TopAnnotations};

/// An error that does not depend on whether the code is executed.
#[derive(Debug, Clone)]
pub struct CompileError {
    /// Location.
    pub span: Span,
    /// Message, without the leading `Compile error at line N: `.
    pub text: String,
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compile error at byte {}: {}", self.span.start, self.text)
    }
}

impl std::error::Error for CompileError {}

/// The names of a file's top level.
pub(crate) struct ModuleScope {
    /// Owner of the variables.
    pub(crate) id: u32,
    /// Owner of the source.
    pub(crate) source: u32,
    pub(crate) file: Rc<str>,
    pub(crate) names: FxHashMap<Name, Binding>,
    pub(crate) has_pipelines: bool,
}

impl ModuleScope {
    /// Makes the types of this file known to the VM's type table.
    pub(crate) fn know_types(&self, vm: &Vm) {
        let named = |(name, binding): (&Name, &Binding)| Some((name.clone(), binding.named()?));
        vm.types.know(self.id, self.names.iter().filter_map(named));
    }
}

/// Pipelines that may be extended, with the names visible in their bodies.
pub(crate) type Pipelines<'a> = FxHashMap<Name, (&'a PipelineDecl, &'a ModuleScope)>;

/// A compiled file.
pub(crate) struct CompiledModule {
    /// Runs the top level.
    pub(crate) main: Rc<Proto>,
    /// Pipelines in order of declaration.
    pub(crate) pipelines: Vec<(Name, Rc<Proto>)>,
}

/// How a file's top level runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The program's own file.
    Entry,
    /// An imported file: only variables, tools and skills.
    Imported,
    /// A REPL input: like `Entry`, and the value of the last expression is the result.
    Interactive,
}

pub(crate) struct Compiler<'a> {
    vm: &'a Vm,
    module: &'a ModuleScope,
    facts: &'a FactsTable,
    funcs: Vec<Func<'a>>,
    errors: Vec<CompileError>,
    /// Functions with which the pipeline being compiled overrides those of its ancestors.
    overrides: Rc<FxHashMap<Name, &'a Function>>,
    pipelines: &'a Pipelines<'a>,
    /// A variable whose last use is an argument of the call being compiled.
    moved: Option<Reg>,
    /// Top-level names declared so far, and whether each is immutable.
    top_fixed: FxHashMap<Name, bool>,
    /// Type parameters of the enclosing functions.
    type_params: Vec<Name>,
    /// Whether the next function is a tool's body, whose arguments a model writes.
    tool_comes: bool,
    /// The annotations of the top level of `own_module`.
    top_known: TopAnnotations,
    own_module: u32,
    /// The struct whose methods are compiled.
    receiver: Option<Rc<Alias>>,
    /// What describes the next function as a tool.
    described: Option<harn_value::Value>,
    /// Whether other files can use the functions of this one as values.
    is_imported: bool,
    /// Number of suggestions computed for unknown names.
    hints: std::cell::Cell<u32>,
    /// Statements of the top level.
    items: &'a [Stmt],
}

/// Maximum number of unknown names of a file for which a suggestion is computed.
const MAX_HINTS: u32 = 32;

/// Compiles a file whose names were declared by [`declare`]. If it is not whole because an imported file is missing,
/// unknown names get no suggestion.
///
/// # Errors
/// All compile errors, in order of position.
pub(crate) fn compile(
    vm: &Vm,
    program: &Program,
    module: &ModuleScope,
    pipelines: &Pipelines<'_>,
    mode: Mode,
    is_whole: bool,
) -> Result<CompiledModule, Vec<CompileError>> {
    let mut facts = FactsTable::collect(program);
    for (pipeline, _) in pipelines.values() {
        facts.add(&pipeline.func);
    }
    let mut compiler = Compiler {
        vm,
        module,
        facts: &facts,
        funcs: Vec::new(),
        errors: Vec::new(),
        overrides: Rc::default(),
        pipelines,
        moved: None,
        top_fixed: FxHashMap::default(),
        type_params: Vec::new(),
        tool_comes: false,
        top_known: TopAnnotations::default(),
        own_module: module.id,
        receiver: None,
        described: None,
        is_imported: mode == Mode::Imported,
        hints: std::cell::Cell::new(if is_whole { 0 } else { MAX_HINTS }),
        items: &program.items,
    };
    let compiled = compiler.module(program, mode);
    if compiler.errors.is_empty() {
        return Ok(compiled);
    }
    let mut errors = compiler.errors;
    errors.sort_by_key(|e| e.span.start);
    Err(errors)
}

/// Declares the top-level names of a file: functions and types, and the variables that functions share. In a REPL all
/// variables are shared.
pub(crate) fn declare(vm: &Vm, program: &Program, module: &mut ModuleScope, interactive: bool) {
    let facts = FactsTable::collect(program);
    if facts.settles {
        vm.settles.set(true);
    }
    let id = module.id;
    module.has_pipelines |= program.pipelines().next().is_some();
    let shared = |name: &Name| interactive || facts.top.nested.contains_key(name);
    let mut variables: Vec<(Name, bool)> = Vec::new();
    for item in &program.items {
        match &item.kind {
            StmtKind::Let { mutable, pattern, .. } => {
                let names: Vec<&Ident> = match &pattern.kind {
                    PatternKind::Name(name) => vec![name],
                    PatternKind::Dict { fields, rest } => {
                        fields.iter().map(|f| &f.name).chain(rest).collect()
                    }
                    PatternKind::List { elems, rest } => elems.iter().map(|e| &e.name).chain(rest).collect(),
                    PatternKind::Pair(a, b) => vec![a, b],
                };
                for name in names.into_iter().filter(|n| n.name != "_" && shared(&n.name)) {
                    match variables.iter_mut().find(|(n, _)| *n == name.name) {
                        Some((_, earlier)) => *earlier |= *mutable,
                        None => variables.push((name.name.clone(), *mutable)),
                    }
                }
            }
            StmtKind::Decl(decl) => {
                let name = decl.kind.name().name.clone();
                let binding = match &decl.kind {
                    DeclKind::Fn(_) => Binding::Function { index: vm.new_function() },
                    DeclKind::Pipeline(_) => Binding::Pipeline,
                    DeclKind::Struct(d) => {
                        let fields = d.fields.iter().map(|f| vm.intern(&f.name.name)).collect();
                        let ty = harn_value::StructType::new(vm.intern(&name), fields);
                        Binding::Struct(harn_value::Ref::new(ty), Alias::of_struct(d, Some(id)))
                    }
                    DeclKind::Enum(d) => Binding::Enum(harn_value::Ref::new(harn_value::EnumType {
                        name: vm.intern(&name),
                        variants: d.variants.iter().map(|v| vm.intern(&v.name.name)).collect(),
                    })),
                    DeclKind::Type(d) => Binding::Alias(Alias::of_type(d, Some(id))),
                    DeclKind::Interface(_) => Binding::Interface(id),
                    DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_) => {
                        variables.push((name, false));
                        continue;
                    }
                    DeclKind::Impl(_) => continue,
                };
                module.names.insert(name, binding);
            }
            _ => {}
        }
    }
    for (name, mutable) in variables {
        let index = vm.new_global(id, &name, mutable);
        module.names.insert(name, Binding::Global { module: id, index, mutable });
    }
}

impl<'a> Compiler<'a> {
    /// Returns the function being compiled.
    fn f(&mut self) -> &mut Func<'a> {
        let last = self.funcs.len() - 1;
        &mut self.funcs[last]
    }

    /// Returns the debug information to fill in for an observer; `None` for modules of the standard library.
    fn shown(&self) -> Option<Box<crate::bytecode::Shown>> {
        let observed = self.vm.observer.is_some() && !self.module.file.starts_with("std/");
        observed.then(Box::default)
    }

    fn error(&mut self, span: Span, text: &str) {
        self.errors.push(CompileError { span, text: text.to_owned() });
    }

    fn is_top_level(&self) -> bool {
        matches!(&self.funcs[..], [main] if main.scopes.len() == 1 && !main.is_function)
    }

    /// Runs `look` with the types that are in scope here.
    fn with_types<T>(&self, look: impl FnOnce(&Scope<'_>) -> T) -> T {
        let find = |name: &str| {
            // A type parameter of a generic function accepts any type.
            let is_parameter = self.type_params.iter().any(|known| known == name);
            if is_parameter { None } else { self.lookup_type(name)?.named() }
        };
        look(&self.vm.types.through(&find))
    }

    // ---- names ----

    /// Resolves `name`; captures the variable if it belongs to an enclosing function.
    fn resolve(&mut self, name: &Name) -> Option<Binding> {
        let top = self.funcs.len() - 1;
        if let Some(binding) = self.funcs[top].find_local(name, false) {
            return Some(binding.clone());
        }
        for level in (0..top).rev() {
            if let Some(binding) = self.funcs[level].find_local(name, true).cloned() {
                return Some(self.capture(name, level, binding));
            }
        }
        self.module.names.get(name).cloned()
    }

    /// Makes a variable of function `level` available in the innermost function.
    fn capture(&mut self, name: &Name, level: usize, found: Binding) -> Binding {
        let mut binding = found;
        for inner in level + 1..self.funcs.len() {
            let (capture, mutable, cell, key) = match binding {
                Binding::Local { reg, mutable, cell } => (Capture::Local(reg), mutable, cell, u32::from(reg)),
                Binding::Up { index, mutable, cell } => {
                    (Capture::Up(index), mutable, cell, u32::from(index) | 1 << 20)
                }
                other => return other,
            };
            let func = &mut self.funcs[inner];
            binding = match func.find_captured(name, key) {
                Some(known) => known,
                None => func.add_capture(name, capture, mutable, cell, key),
            };
        }
        binding
    }

    fn lookup_type(&self, name: &str) -> Option<Binding> {
        let local = self.funcs.iter().rev().find_map(|f| f.find_local(name, true));
        match local.or_else(|| self.module.names.get(name)) {
            Some(
                binding
                @ (Binding::Struct(..) | Binding::Enum(_) | Binding::Alias(_) | Binding::Interface(_)),
            ) => Some(binding.clone()),
            Some(_) => None,
            None if name == "Result" => Some(Binding::Enum(EnumValue::result_type())),
            None => None,
        }
    }

    /// Returns the struct or enum called `name`, unless a variable shadows it.
    fn resolve_type(&mut self, name: &Name) -> Option<Binding> {
        self.lookup_type(name)
    }

    /// Returns the suggestion `` (did you mean `x`?)`` for an unknown name.
    fn hint(&self, name: &str) -> String {
        // Many unknown names in one file are not typos.
        self.hints.set(self.hints.get() + 1);
        if self.hints.get() > MAX_HINTS {
            return String::new();
        }
        let locals = self.funcs.iter().flat_map(|f| &f.scopes).flat_map(|s| s.names());
        let globals = self.vm.global_names();
        let mut names: Vec<&str> = locals.chain(self.module.names.keys()).map(|name| &**name).collect();
        self.vm.builtin_names().for_each(|name| names.push(name));
        names.extend(globals.iter().map(String::as_str));
        if !matches!(&self.funcs[..], [main] if !main.is_function) {
            names.extend(self.top_variables().map(|name| name.name.as_str()));
        }
        crate::suggest::hint(name, names.into_iter())
    }

    /// Returns the top-level variables, which functions see regardless of their position.
    fn top_variables(&self) -> impl Iterator<Item = &'a Ident> {
        let items: &'a [Stmt] = self.items;
        items.iter().flat_map(|item| match &item.kind {
            StmtKind::Let { pattern, .. } => Self::pattern_names(pattern),
            _ => Vec::new(),
        })
    }

    // ---- the file ----

    fn module(&mut self, program: &'a Program, mode: Mode) -> CompiledModule {
        let mut main = Func::new("pipeline", &self.facts.top, Span::default());
        main.is_function = false;
        main.plain_yield = true;
        main.shown = self.shown();
        self.funcs.push(main);
        self.top_annotations(program);
        self.top_declarations(program);
        self.top_functions(program);
        self.impl_blocks(&program.items);
        if mode != Mode::Interactive {
            let is_fixed =
                |binding: &Binding| matches!(binding, Binding::Function { .. } | Binding::Struct(..));
            let fixed = self.top_variables().filter(|v| self.module.names.get(&v.name).is_some_and(is_fixed));
            self.top_fixed = fixed.map(|variable| (variable.name.clone(), true)).collect();
        }
        if mode == Mode::Imported || self.module.has_pipelines && mode == Mode::Entry {
            self.variables_only(program);
        } else {
            self.script(program, mode);
        }
        let main = self.finish(Span::default(), 0, 0, false, Vec::new(), false);
        let pipelines = program
            .pipelines()
            .map(|(_, pipeline)| (pipeline.name.name.clone(), self.pipeline(pipeline)))
            .collect();
        CompiledModule { main, pipelines }
    }

    /// Fails at the second of two declarations of the same name. For two tools, the failure is at run time where the
    /// second is declared.
    fn top_declarations(&mut self, program: &'a Program) {
        let mut seen: FxHashMap<&Name, bool> = FxHashMap::default();
        for item in &program.items {
            let StmtKind::Decl(decl) = &item.kind else { continue };
            let kind = &decl.kind;
            if matches!(kind, DeclKind::Impl(_)) {
                continue;
            }
            let hoisted = kind.is_hoisted();
            let before = seen.insert(&kind.name().name, hoisted);
            if before.is_some_and(|before| before || hoisted) {
                self.fail_redeclared(kind.name());
            }
        }
    }

    fn top_functions(&mut self, program: &'a Program) {
        for item in &program.items {
            let StmtKind::Decl(decl) = &item.kind else { continue };
            let DeclKind::Fn(d) = &decl.kind else { continue };
            let Some(Binding::Function { index, .. }) = self.module.names.get(&d.name.name).cloned() else {
                self.fail_redeclared(&d.name);
                continue;
            };
            // Top-level functions cannot access registers of the main code.
            let main = std::mem::take(&mut self.funcs);
            let proto = self.declared(d, |compiler| compiler.function(&d.func, &d.name.name, Role::Function));
            self.funcs = main;
            self.vm.set_function(index, crate::closure::Closure::value(proto, Box::default()));
        }
    }

    /// Compiles the top level of an imported file or of a file with pipelines.
    fn variables_only(&mut self, program: &'a Program) {
        let items = &program.items;
        for item in items.iter().filter(|i| matches!(i.kind, StmtKind::Let { .. })) {
            self.stmts(std::slice::from_ref(item), None);
        }
        for item in items {
            if let StmtKind::Decl(decl) = &item.kind {
                self.f().at(item.span);
                self.decl(decl);
            }
        }
    }

    fn script(&mut self, program: &'a Program, mode: Mode) {
        if mode == Mode::Interactive {
            let t = self.f().temp();
            self.stmts(&program.items, Some(t));
            self.f().emit(Op::Return, t, 0, 0);
        } else {
            self.stmts(&program.items, None);
        }
    }

    /// Compiles a pipeline, preceded by the bodies of its ancestors, in one chain of scopes.
    fn pipeline(&mut self, pipeline: &'a PipelineDecl) -> Rc<Proto> {
        let mut chain = vec![(pipeline, self.module)];
        let mut base = pipeline.extends.as_ref();
        while let Some(name) = base {
            let Some(&(parent, module)) = self.pipelines.get(&name.name) else {
                let text =
                    format!("pipeline '{}' extends unknown pipeline '{}'", chain[0].0.name.name, name.name);
                self.error(name.span, &text);
                break;
            };
            if chain.iter().any(|(p, _)| std::ptr::eq(*p, parent)) {
                self.error(name.span, &format!("pipeline '{}' extends itself", name.name));
                break;
            }
            chain.push((parent, module));
            base = parent.extends.as_ref();
        }
        chain.reverse();
        let mut overrides: FxHashMap<Name, &'a Function> = FxHashMap::default();
        for (p, _) in &chain {
            for stmt in &p.func.body.stmts {
                if let StmtKind::Override { name, func } = &stmt.kind {
                    overrides.insert(name.name.clone(), func);
                }
            }
        }
        self.overrides = Rc::new(overrides);
        self.begin_function(&pipeline.func, "pipeline", Role::Pipeline);
        let mut names: Vec<String> = pipeline.func.params.iter().map(|p| p.name.name.to_string()).collect();
        for (parent, _) in &chain[..chain.len() - 1] {
            for param in &parent.func.params {
                if !names.iter().any(|n| n.as_str() == param.name.name) {
                    names.push(param.name.name.to_string());
                    let reg = self.f().temp();
                    self.finish_variable(&param.name, reg, false);
                }
            }
        }
        self.replace_functions();
        let module = self.module;
        for (i, &(p, scope)) in chain.iter().enumerate() {
            self.module = scope;
            if i + 1 == chain.len() {
                self.tail_block(&p.func.body);
            } else {
                self.f().facts = self.facts.of(&p.func);
                self.f().open_scope();
                self.hoist(&p.func.body.stmts);
                self.stmts(&p.func.body.stmts, None);
            }
            self.f().facts = self.facts.of(&pipeline.func);
        }
        self.module = module;
        let count = names.len();
        let proto = self.finish(pipeline.func.span, count, count, false, names, false);
        self.overrides = Rc::default();
        proto
    }

    /// Replaces module functions with the overriding functions, before any code of the pipeline runs.
    fn replace_functions(&mut self) {
        let overrides = self.overrides.clone();
        let mut names: Vec<&Name> = overrides.keys().collect();
        names.sort();
        for name in names {
            if let Some(Binding::Function { index, .. }) = self.module.names.get(name).cloned() {
                let t = self.f().temp();
                self.closure(overrides[name], name, t);
                self.f().emit(Op::SetFunction, t, 0, index);
                self.f().emit(Op::Clear, t, 0, 0);
                self.f().next -= 1;
            }
        }
    }
}
