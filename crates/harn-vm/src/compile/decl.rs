//! Functions, closures and other declarations.

use std::rc::Rc;

use harn_syntax::ast::*;
use harn_value::{EnumType, Ref, StructType, Value};
use rustc_hash::FxHashSet;

use super::Compiler;
use super::scope::{Binding, Func, Known, Reg};
use crate::bytecode::{FieldSite, Hot, Ins, Op, Proto, scanned};
use crate::closure::Closure;
use crate::params::{Annotated, Check, TypeCheck};
use crate::types::Alias;

/// Role of a function node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A function, closure, method or tool body.
    Function,
    /// A pipeline: `yield` has no consumer.
    Pipeline,
}

impl<'a> Compiler<'a> {
    /// Creates a closure value of `func` in `dst`.
    pub(super) fn closure(&mut self, func: &'a Function, name: &str, dst: Reg) {
        let span = self.f().span();
        let proto = self.function(func, name, Role::Function);
        self.f().at(span);
        if proto.captures.is_empty() {
            let value = Closure::value(proto, Box::default());
            self.load_const(value, dst);
            return;
        }
        let index = self.f().protos.len() as u32;
        self.f().protos.push(proto);
        self.f().emit(Op::Closure, dst, 0, index);
    }

    /// Runs `compile` with the type parameters of a function in scope.
    pub(super) fn generic<T>(&mut self, d: &FnDecl, compile: impl FnOnce(&mut Self) -> T) -> T {
        let outside = self.type_params.len();
        self.type_params.extend(d.type_params.iter().map(|param| param.name.name.clone()));
        let done = compile(self);
        self.type_params.truncate(outside);
        done
    }

    /// Compiles the function of a declaration, which programs can use as a tool.
    pub(super) fn declared<T>(&mut self, d: &FnDecl, compile: impl FnOnce(&mut Self) -> T) -> T {
        self.generic(d, |compiler| {
            compiler.described = compiler.description(d);
            compile(compiler)
        })
    }

    /// The definition of a function as a tool, if it is used as a value and a model can give all of its parameters.
    fn description(&self, d: &FnDecl) -> Option<Value> {
        let is_used = self.is_imported || self.facts.values.contains(&d.name.name);
        let func = &d.func;
        let has_rest = func.params.iter().any(|param| param.rest);
        if !is_used || has_rest || func.is_gen || func.has_yield || self.module.file.starts_with("std/") {
            return None;
        }
        let (doc, documented) = harn_syntax::doc::split_params(d.doc.as_deref().unwrap_or_default());
        let parameter = |param: &Param| {
            let mut schema = self.parameter_schema(param, &documented);
            if let (Some(default), Some(dict)) = (&param.default, schema.as_dict_mut()) {
                let dict = dict.make_mut();
                if let Some(value) = literal(default) {
                    dict.insert("default", value);
                }
                dict.insert("required", Value::bool(false));
            }
            (self.vm.intern(&param.name.name), schema)
        };
        let parameters: harn_value::Dict = func.params.iter().map(parameter).collect();
        let mut definition: harn_value::Dict = [
            ("name", Value::str(&d.name.name)),
            ("description", Value::str(&doc)),
            ("parameters", Value::dict(parameters)),
        ]
        .into_iter()
        .collect();
        if let Some(ret) = &func.ret {
            let schema = self.with_types(|scope| crate::schema::json_schema(ret, scope));
            definition.insert("returns", schema);
        }
        Some(Value::dict(definition))
    }

    /// The schema of a parameter of a tool; `documented` are the parameters that its doc comment describes.
    fn parameter_schema(&self, param: &Param, documented: &[(&str, &str)]) -> Value {
        let schema = match &param.ty {
            Some(ty) => self.with_types(|scope| crate::schema::json_schema(ty, scope)),
            None => Value::dict([("type", "any")].into_iter().collect()),
        };
        let mut note = param.note.as_deref().cloned().unwrap_or_default();
        if note.doc.is_none() {
            note.doc =
                documented.iter().find(|(name, _)| *name == param.name.name).map(|(_, doc)| Name::new(doc));
        }
        crate::schema::annotate(schema, Some(&note), true)
    }

    /// Compiles a function whose enclosing functions are on the stack.
    pub(super) fn function(&mut self, func: &'a Function, name: &str, role: Role) -> Rc<Proto> {
        self.begin_function(func, name, role);
        self.tail_block(&func.body);
        self.end_function(func)
    }

    pub(super) fn begin_function(&mut self, func: &'a Function, name: &str, role: Role) {
        let facts = self.facts.of(func);
        let mut f = Func::new(name, facts, func.span);
        f.plain_yield = role == Role::Pipeline;
        f.generator = (func.has_yield && role == Role::Function) || func.is_gen;
        f.shown = self.shown();
        self.funcs.push(f);
        let of_tool = std::mem::take(&mut self.tool_comes);
        let receiver = self.receiver.take();
        self.f().described = self.described.take();
        // Parameters take the first registers; each name becomes visible after the defaults of earlier parameters.
        let regs: Vec<Reg> = func.params.iter().map(|_| self.f().temp()).collect();
        for (param, &reg) in func.params.iter().zip(&regs) {
            self.f().at(param.span);
            if let Some(default) = &param.default {
                let missing = self.f().jump(Op::JumpIfAbsent, reg, 0);
                let given = self.f().jump(Op::Jump, 0, 0);
                self.f().land(missing);
                self.expr(default, reg);
                self.f().land(given);
            }
            let check = param
                .ty
                .as_ref()
                .and_then(|ty| self.with_types(|scope| Check::of(ty, scope, of_tool)))
                .map(Rc::new);
            if let Some(check) = &check {
                self.f().at(param.span);
                let place = if self.f().generator { Annotated::LateParameter } else { Annotated::Parameter };
                let name = param.name.name.to_string();
                self.emit_check(reg, TypeCheck { name, check: check.clone(), place });
            }
            if param.name.name == "_" {
                continue;
            }
            let cell = self.needs_cell(&param.name.name);
            if cell {
                self.f().emit(Op::NewCell, reg, 0, 0);
            }
            self.f().declare(&param.name.name, Binding::Local { reg, mutable: false, cell }, true, true);
            let known = match &check {
                Some(check) => Some(Known::passing(check)),
                None if param.name.name == "self" => receiver.clone().map(Known::instance),
                None => None,
            };
            self.f().learn(&param.name.name, known);
        }
        if role == Role::Function && !self.f().generator {
            self.f().result = func.ret.as_ref().and_then(|ty| self.annotation(ty));
        }
        if role == Role::Function {
            self.open_span(name);
        }
    }

    /// Opens a tracing span at the start of a named function, if the program records spans. Generators have none,
    /// because other code runs while they are suspended.
    fn open_span(&mut self, name: &str) {
        if !self.vm.traces.get() || self.f().generator || name.starts_with('<') {
            return;
        }
        // The span stays in its register and is closed when the call releases that register.
        let (span, argument) = (self.f().temp(), self.f().temp());
        self.load_const(Value::str(name), argument);
        self.call_builtin("__span", span, 1, span);
        self.f().next -= 1;
    }

    pub(super) fn end_function(&mut self, func: &'a Function) -> Rc<Proto> {
        let rest = func.params.last().is_some_and(|p| p.rest);
        let params = func.params.len() - usize::from(rest);
        let required = func.params.iter().position(|p| p.default.is_some()).unwrap_or(params);
        let names = func.params.iter().map(|p| p.name.name.to_string()).collect();
        self.finish(func.span, params, required, rest, names, func.is_gen)
    }

    /// Turns the innermost function under construction into a [`Proto`].
    pub(super) fn finish(
        &mut self,
        span: harn_syntax::Span,
        params: usize,
        required: usize,
        rest: bool,
        param_names: Vec<String>,
        stream: bool,
    ) -> Rc<Proto> {
        // Unreachable if every path of the body returns, but execution must not run past the end of the code.
        self.f().emit(Op::ReturnNil, 0, 0, 0);
        let last = self.funcs.len() - 1;
        let mut f = self.funcs.swap_remove(last);
        let shown = f.take_shown();
        if f.is_too_large() {
            self.error(span, "function is too large: split it into smaller ones");
        }
        let named = |ins: &Ins| matches!(ins.op(), Op::GetField).then(|| ins.c() + 1);
        let fields = (0..f.code.iter().filter_map(named).max().unwrap_or(0)).map(|_| FieldSite::new());
        let fields = fields.collect();
        let registers = f.registers() + 1;
        let scanned = scanned(&f.code, &f.consts, &f.handlers, params + usize::from(rest)).min(registers);
        let code = self.vm.arena.pack(f.code);
        let consts = self.vm.arena.pack(f.consts);
        let proto = Proto {
            hot: Hot {
                code: code.as_ptr(),
                consts: consts.as_ptr(),
                registers,
                scanned,
                params: params as u16,
                plain: !rest && !f.generator,
                vm: self.vm.id.number(),
            },
            vm: self.vm.id.clone(),
            registers,
            name: f.name,
            code,
            consts,
            fields,
            protos: f.protos.into(),
            captures: f.captures.into(),
            params: params as u16,
            rest,
            generator: f.generator,
            stream,
            required: required as u16,
            param_names,
            handlers: f.handlers.into(),
            spans: f.spans.into(),
            methods: f.methods.into(),
            paths: f.paths.into(),
            checks: f.checks.into(),
            structs: f.structs.into(),
            file: self.module.file.clone(),
            module: self.module.source,
            span,
            described: f.described,
            shown,
        };
        if self.errors.is_empty()
            && self.vm.verifies
            && let Err(problem) = crate::verify::verify(&proto, self.vm)
        {
            panic!("the compiler made wrong code: {problem}\n{}", proto.listing());
        }
        let proto = Rc::new(proto);
        self.vm.keep(&proto);
        proto
    }

    pub(super) fn struct_type(&self, d: &StructDecl) -> Ref<StructType> {
        let fields = d.fields.iter().map(|f| self.vm.intern(&f.name.name)).collect();
        Ref::new(StructType::new(self.vm.intern(&d.name.name), fields))
    }

    pub(super) fn enum_type(&self, d: &EnumDecl) -> Ref<EnumType> {
        let variants = d.variants.iter().map(|v| self.vm.intern(&v.name.name)).collect();
        Ref::new(EnumType { name: self.vm.intern(&d.name.name), variants })
    }

    /// Hoists to the start of a block: types, functions, and cells for variables that functions mention before their
    /// declaration.
    pub(super) fn hoist(&mut self, stmts: &'a [Stmt]) {
        let decls = || {
            stmts.iter().filter_map(|s| match &s.kind {
                StmtKind::Decl(d) => Some(&d.kind),
                _ => None,
            })
        };
        for decl in decls() {
            let name = &decl.name().name;
            let binding = match decl {
                DeclKind::Struct(d) => Binding::Struct(self.struct_type(d), Alias::of_struct(d, None)),
                DeclKind::Enum(d) => Binding::Enum(self.enum_type(d)),
                DeclKind::Type(d) => Binding::Alias(Alias::of_type(d, None)),
                DeclKind::Interface(_) => Binding::Interface(self.module.id),
                _ => continue,
            };
            if self.is_taken(decl.name()) {
                self.fail_redeclared(decl.name());
            }
            self.f().declare(name, binding, matches!(decl, DeclKind::Struct(_)), true);
        }
        for decl in decls() {
            if let DeclKind::Struct(d) = decl
                && let Some(Binding::Struct(ty, alias)) = self.resolve_type(&d.name.name)
            {
                self.set_field_types(&ty, &alias);
            }
        }
        let hoisted: Vec<&Function> = decls()
            .flat_map(|d| match d {
                DeclKind::Fn(d) => vec![&d.func],
                DeclKind::Impl(d) => d.methods.iter().map(|m| &m.decl.func).collect(),
                _ => Vec::new(),
            })
            .collect();
        let mut variables: Vec<(&Ident, Option<&TypeExpr>)> = Vec::new();
        for stmt in stmts {
            if let StmtKind::Let { mutable, pattern, ty, .. } = &stmt.kind {
                let facts = self.f().facts;
                let names = match &pattern.kind {
                    PatternKind::Name(name) => vec![name],
                    PatternKind::Dict { fields, rest } => {
                        fields.iter().map(|f| &f.name).chain(rest).collect()
                    }
                    PatternKind::List { elems, rest } => elems.iter().map(|e| &e.name).chain(rest).collect(),
                    PatternKind::Pair(a, b) => vec![a, b],
                };
                for name in names {
                    let earlier = facts.nested.get(&name.name).is_some_and(|&first| first < stmt.span.end);
                    let table = self.facts;
                    if earlier || hoisted.iter().any(|f| table.of(f).mentioned.contains(&name.name)) {
                        variables.push((name, ty.as_ref().filter(|_| *mutable)));
                    }
                }
            }
        }
        for (name, ty) in &variables {
            if name.name == "_" || self.f().in_scope(&name.name).is_some() {
                continue;
            }
            let reg = self.f().temp();
            self.f().at(name.span);
            self.f().emit(Op::NewEmptyCell, reg, 0, 0);
            self.f().declare(&name.name, Binding::Local { reg, mutable: true, cell: true }, false, false);
            // Functions that are compiled before the declaration assign it, too.
            let check = ty.and_then(|ty| self.annotation(ty));
            let facts = self.f().facts;
            let known = check.map(|check| Known::variable(&check, &name.name, facts));
            self.f().learn(&name.name, known);
        }
        self.hoist_functions(stmts);
        self.impl_blocks(stmts);
    }

    /// Returns whether the innermost scope has a binding of this name that a declaration must not replace.
    fn is_taken(&mut self, name: &Ident) -> bool {
        self.redeclares(name, false)
            || self.f().in_scope(&name.name).is_some_and(|local| local.binding.named().is_some())
    }

    fn hoist_functions(&mut self, stmts: &'a [Stmt]) {
        let overrides = self.overrides.clone();
        let fns: Vec<(&'a FnDecl, &'a Function)> = stmts
            .iter()
            .filter_map(|s| match &s.kind {
                StmtKind::Decl(d) => match &d.kind {
                    DeclKind::Fn(d) => Some((d, overrides.get(&d.name.name).copied().unwrap_or(&d.func))),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        if fns.is_empty() {
            return;
        }
        // Functions that mention no variable of the enclosing functions are created once, at compile time.
        let later: FxHashSet<&Name> = stmts
            .iter()
            .filter_map(|s| match &s.kind {
                StmtKind::Let { pattern, .. } => Some(pattern),
                _ => None,
            })
            .flat_map(|p| match &p.kind {
                PatternKind::Name(n) => vec![&n.name],
                PatternKind::Dict { fields, rest } => {
                    fields.iter().map(|f| &f.name.name).chain(rest.iter().map(|r| &r.name)).collect()
                }
                PatternKind::List { elems, rest } => {
                    elems.iter().map(|e| &e.name.name).chain(rest.iter().map(|r| &r.name)).collect()
                }
                PatternKind::Pair(a, b) => vec![&a.name, &b.name],
            })
            .collect();
        let mut constant: FxHashSet<&Name> = fns.iter().map(|(d, _)| &d.name.name).collect();
        loop {
            let before = constant.len();
            for (d, func) in &fns {
                let captures = self.facts.of(func).mentioned.iter().any(|name| {
                    if constant.contains(name) {
                        return false;
                    }
                    fns.iter().any(|(other, _)| other.name.name == *name)
                        || later.contains(name)
                        || self.is_enclosing_variable(name)
                });
                if captures {
                    constant.remove(&d.name.name);
                }
            }
            if constant.len() == before {
                break;
            }
        }
        let mut dynamic = Vec::new();
        for (d, _) in &fns {
            let name = &d.name;
            if self.is_taken(name) {
                self.fail_redeclared(name);
            }
            if constant.contains(&name.name) {
                let index = self.vm.new_function();
                self.f().declare(&name.name, Binding::Function { index }, true, true);
            } else {
                let cell = self.f().facts.nested.contains_key(&name.name);
                let reg = self.f().temp();
                if cell {
                    self.f().emit(Op::NewEmptyCell, reg, 0, 0);
                }
                self.f().declare(&name.name, Binding::Local { reg, mutable: false, cell }, true, true);
                dynamic.push((reg, cell));
            }
        }
        let mut dynamic = dynamic.into_iter();
        for (d, func) in &fns {
            if constant.contains(&d.name.name) {
                let Some(Binding::Function { index, .. }) = self.f().find_local(&d.name.name, false).cloned()
                else {
                    continue;
                };
                let proto =
                    self.declared(d, |compiler| compiler.function(func, &d.name.name, Role::Function));
                self.vm.set_function(index, Closure::value(proto, Box::default()));
            } else if let Some((reg, cell)) = dynamic.next() {
                if cell {
                    let t = self.f().temp();
                    self.declared(d, |compiler| compiler.closure(func, &d.name.name, t));
                    self.f().emit(Op::SetCell, reg, t, 0);
                    self.f().emit(Op::Clear, t, 0, 0);
                    self.f().next -= 1;
                } else {
                    self.declared(d, |compiler| compiler.closure(func, &d.name.name, reg));
                }
            }
        }
    }

    fn is_enclosing_variable(&self, name: &Name) -> bool {
        self.funcs
            .iter()
            .any(|f| matches!(f.find_local(name, true), Some(Binding::Local { .. } | Binding::Up { .. })))
    }

    /// Compiles the `impl` blocks of a scope. They are merged, so no two may define a method of the same name.
    pub(super) fn impl_blocks(&mut self, stmts: &'a [Stmt]) {
        let mut seen: FxHashSet<(&Name, &Name)> = FxHashSet::default();
        for stmt in stmts {
            let StmtKind::Decl(decl) = &stmt.kind else { continue };
            let DeclKind::Impl(d) = &decl.kind else { continue };
            for Method { decl: FnDecl { name, .. }, .. } in &d.methods {
                if !seen.insert((&d.name.name, &name.name)) {
                    self.error(name.span, &format!("duplicate method name '{}'", name.name));
                }
            }
            self.impl_block(d);
        }
    }

    fn impl_block(&mut self, d: &'a ImplDecl) {
        let Some(Binding::Struct(ty, alias)) = self.resolve_type(&d.name.name) else {
            self.error(d.name.span, &format!("impl for unknown struct '{}'", d.name.name));
            return;
        };
        let outside = self.type_params.len();
        self.type_params.extend(alias.params.iter().cloned());
        for method in &d.methods {
            let mark = self.f().next;
            let t = self.f().temp();
            let name = format!("{}.{}", d.name.name, method.decl.name.name);
            self.receiver = Some(alias.clone());
            self.generic(&method.decl, |compiler| compiler.closure(&method.decl.func, &name, t));
            let number = self.f().structs.len() as u32;
            self.f().structs.push(ty.clone());
            let name = self.f().temp();
            self.load_text(&method.decl.name.name, name);
            self.f().emit(Op::AddMethod, t, name, number);
            self.f().emit(Op::Clear, t, 0, 0);
            self.f().next = mark;
        }
        self.type_params.truncate(outside);
    }

    /// Compiles a declaration in place: tools, skills and eval packs become variables.
    pub(super) fn decl(&mut self, decl: &'a Decl) {
        match &decl.kind {
            DeclKind::Tool(d) => self.value_decl(&d.name, |c, t| c.tool(d, t)),
            DeclKind::Skill(d) => self.value_decl(&d.name, |c, t| c.skill(d, t)),
            DeclKind::EvalPack(d) => {
                self.value_decl(&d.name, |c, t| c.eval_pack(d, t));
                self.eval_pack_body(d);
            }
            DeclKind::Fn(d) => self.attributes(decl, d),
            _ => {
                self.reject_function_attributes(decl);
            }
        }
    }

    fn value_decl(&mut self, name: &'a Ident, make: impl FnOnce(&mut Self, Reg)) {
        let clash = self.is_taken(name);
        let target = self.target_of(name, false);
        let mark = self.f().next;
        let t = self.f().temp();
        make(self, t);
        if clash {
            self.fail_redeclared(name);
        }
        self.store(name, target, t, false);
        self.f().next = mark;
    }

    pub(super) fn reject_function_attributes(&mut self, decl: &'a Decl) {
        for attr in &decl.attrs {
            if matches!(&*attr.name.name, "acp_tool" | "acp_skill") {
                let text = format!("@{} can only be applied to function declarations", attr.name.name);
                self.error(decl.span, &text);
            }
        }
    }

    /// Evaluates the definitions of `@acp_tool` and `@acp_skill`; their results are dropped.
    pub(super) fn attributes(&mut self, decl: &'a Decl, d: &'a FnDecl) {
        for attr in &decl.attrs {
            let (define, registry, hook) = match &*attr.name.name {
                "acp_tool" => ("tool_define", "tool_registry", "handler"),
                "acp_skill" => ("skill_define", "skill_registry", "on_activate"),
                _ => continue,
            };
            let mark = self.f().next;
            let base = self.f().temp();
            let registry_reg = self.f().temp();
            let inner = self.f().temp();
            self.call_builtin(registry, inner, 0, registry_reg);
            self.f().next = u32::from(registry_reg) + 1;
            let named = attr.args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.name == "name"));
            let name = match named.map(|a| &a.value) {
                Some(AttrValue::Str(text) | AttrValue::Name(text)) => text.clone(),
                _ => d.name.name.clone(),
            };
            let t = self.f().temp();
            self.load_text(&name, t);
            if define == "tool_define" {
                let t = self.f().temp();
                self.load_text("", t);
            }
            let config = self.f().temp();
            self.f().emit(Op::NewDict, config, 0, 2);
            let rest: harn_value::Dict = attr
                .args
                .iter()
                .filter_map(|a| {
                    let name = a.name.as_ref().filter(|n| n.name != "name")?;
                    Some((self.vm.intern(&name.name), attr_value(&a.value)))
                })
                .collect();
            let t = self.f().temp();
            if let Some(binding) = self.resolve(&d.name.name) {
                self.load_binding(&d.name.name, &binding, t);
            }
            let k = self.text_constant(hook);
            self.f().emit(Op::DictSetK, config, t, k);
            self.load_const(Value::dict(rest), t);
            if define == "tool_define" {
                let k = self.text_constant("annotations");
                self.f().emit(Op::DictSetK, config, t, k);
            } else {
                self.f().emit(Op::DictSpread, config, t, 0);
            }
            let count = config - base;
            self.call_builtin(define, base, count, base);
            self.f().emit(Op::Clear, base, 0, 0);
            self.f().next = mark;
        }
    }

    fn tool(&mut self, d: &'a ToolDecl, dst: Reg) {
        let base = self.call_base(dst);
        let registry = self.f().temp();
        let inner = self.f().temp();
        self.call_builtin("tool_registry", inner, 0, registry);
        self.f().next = u32::from(registry) + 1;
        let t = self.f().temp();
        self.load_text(&d.name.name, t);
        let t = self.f().temp();
        let (doc, documented) = harn_syntax::doc::split_params(d.doc.as_deref().unwrap_or_default());
        self.load_text(d.description.as_deref().unwrap_or(&doc), t);
        let config = self.f().temp();
        self.f().emit(Op::NewDict, config, 0, 4);
        let t = self.f().temp();
        // The schema shows the defaults of parameters, so they are evaluated here as well.
        self.f().emit(Op::NewDict, t, 0, d.func.params.len() as u32);
        for param in d.func.params.iter().filter(|p| !p.rest) {
            let entry = self.f().temp();
            let schema = self.parameter_schema(param, &documented);
            self.load_const(schema, entry);
            if let Some(default) = &param.default {
                let value = self.f().temp();
                self.expr(default, value);
                let k = self.text_constant("default");
                self.f().emit(Op::DictSetK, entry, value, k);
                self.f().emit(Op::LoadBool, value, 0, 0);
                let k = self.text_constant("required");
                self.f().emit(Op::DictSetK, entry, value, k);
            }
            let k = self.text_constant(&param.name.name);
            self.f().emit(Op::DictSetK, t, entry, k);
            self.f().next = u32::from(t) + 1;
        }
        let k = self.text_constant("parameters");
        self.f().emit(Op::DictSetK, config, t, k);
        self.tool_comes = true;
        self.closure(&d.func, &d.name.name, t);
        let k = self.text_constant("handler");
        self.f().emit(Op::DictSetK, config, t, k);
        if let Some(ret) = &d.func.ret {
            let schema = self.with_types(|scope| crate::schema::json_schema(ret, scope));
            self.load_const(schema, t);
            let k = self.text_constant("returns");
            self.f().emit(Op::DictSetK, config, t, k);
        }
        for field in &d.fields {
            self.expr(&field.value, t);
            let k = self.text_constant(&field.name.name);
            self.f().emit(Op::DictSetK, config, t, k);
        }
        self.f().at(d.name.span);
        self.call_builtin("tool_define", base, 4, dst);
    }

    fn skill(&mut self, d: &'a SkillDecl, dst: Reg) {
        let base = self.call_base(dst);
        let registry = self.f().temp();
        let inner = self.f().temp();
        self.call_builtin("skill_registry", inner, 0, registry);
        self.f().next = u32::from(registry) + 1;
        let t = self.f().temp();
        self.load_text(&d.name.name, t);
        let config = self.f().temp();
        self.config_fields(&d.fields, config);
        self.f().at(d.name.span);
        self.call_builtin("skill_define", base, 3, dst);
    }

    fn config_fields(&mut self, fields: &'a [SkillField], config: Reg) {
        self.f().emit(Op::NewDict, config, 0, fields.len() as u32);
        for field in fields {
            let t = self.f().temp();
            self.expr(&field.value, t);
            let k = self.text_constant(&field.key.name);
            self.f().emit(Op::DictSetK, config, t, k);
            self.f().next -= 1;
        }
    }

    fn eval_pack(&mut self, d: &'a EvalPackDecl, dst: Reg) {
        let base = self.call_base(dst);
        let config = self.f().temp();
        self.f().emit(Op::NewDict, config, 0, d.fields.len() as u32 + 2);
        let t = self.f().temp();
        for (key, value) in [("version", Value::int(1)), ("id", Value::str(&d.id))] {
            self.load_const(value, t);
            let k = self.text_constant(key);
            self.f().emit(Op::DictSetK, config, t, k);
        }
        for field in &d.fields {
            self.expr(&field.value, t);
            let k = self.text_constant(&field.key.name);
            self.f().emit(Op::DictSetK, config, t, k);
        }
        self.f().next = u32::from(config) + 1;
        self.f().at(d.name.span);
        self.call_builtin("eval_pack_manifest", base, 1, dst);
    }

    fn eval_pack_body(&mut self, d: &'a EvalPackDecl) {
        if self.is_top_level() && self.module.has_pipelines {
            return;
        }
        self.f().open_scope();
        for field in &d.fields {
            let reg = self.f().temp();
            if let Some(binding) = self.resolve(&d.name.name) {
                self.load_binding(&d.name.name, &binding, reg);
            }
            let k = self.text_constant(&field.key.name);
            self.f().emit(Op::GetField, reg, reg, k);
            self.finish_variable(&field.key, reg, false);
        }
        self.hoist(&d.stmts);
        self.stmts(&d.stmts, None);
        if let Some(block) = &d.summarize {
            self.block(block, None);
        }
        self.f().close_scope();
    }
}

/// The value of a literal.
fn literal(e: &Expr) -> Option<Value> {
    Some(match &e.kind {
        ExprKind::Nil => Value::NIL,
        ExprKind::Bool(b) => Value::bool(*b),
        ExprKind::Int(i) => Value::int(*i),
        ExprKind::Float(f) => Value::float(*f),
        ExprKind::Str(text) => Value::str(text),
        ExprKind::Paren(inner) => literal(inner)?,
        ExprKind::List(items) if items.is_empty() => Value::list(Vec::new()),
        ExprKind::Dict(items) if items.is_empty() => Value::dict(harn_value::Dict::new()),
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match literal(operand)? {
            number if number.as_int().is_some() => Value::int(number.as_int()?.checked_neg()?),
            number => Value::float(-number.as_float()?),
        },
        _ => return None,
    })
}

pub(crate) fn attr_value(value: &AttrValue) -> Value {
    match value {
        AttrValue::Str(text) | AttrValue::Name(text) => Value::str(text),
        AttrValue::Int(i) => Value::int(*i),
        AttrValue::Float(f) => Value::float(*f),
        AttrValue::Duration(ms) => Value::duration(*ms),
        AttrValue::Bool(b) => Value::bool(*b),
        AttrValue::Nil => Value::NIL,
        AttrValue::List(items) => Value::list(items.iter().map(attr_value).collect()),
    }
}
