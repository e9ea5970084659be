//! The walk over one file: maintains the scopes and passes every node to the checks of its kind.

use harn_syntax::ast::*;
use harn_syntax::{Diagnostic, Severity, schema_place};

use crate::checks::{
    annotation, argument, assign_to_let, attribute, call_target, coverage, deprecated, enum_variant,
};
use crate::checks::{
    exhaustive, generator_return, generic, hidden_division, nilable, not_executed, operator, redeclared,
    result_field, stream_emit, stream_result, struct_field,
};
use crate::checks::{overriding, struct_literal, tool_call, type_name, type_value, unreachable, wrong_call};
use crate::imports::Imports;
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::tell;
use crate::types::{Declared, Typing};
use crate::world::{Source, World};
use harn_syntax::visit::{self, Visitor};

/// Checks one file. Diagnostics come in source order; only those of [`Severity::Error`] forbid to run the program.
///
/// Imported files are read only when a call is left that they could explain, and when one of them cannot be read the
/// check of names is off.
pub fn check_program(source: &Source<'_>, world: &World<'_>) -> Vec<Diagnostic> {
    let declared = Declared::of(source.tree);
    let imports = Imports::default();
    let mut pass = Pass::new(Typing { declared: &declared, imports: &imports, source, world });
    pass.file();
    pass.finish()
}

impl<'a> Pass<'a> {
    pub(crate) fn file(&mut self) {
        let items = &self.source.tree.items;
        if self.source.tree.pipelines().next().is_none() {
            not_executed::check_main(self, items);
            return self.stmts(items);
        }
        not_executed::check(self, items);
        items.iter().for_each(|item| self.stmt(item));
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        call_target::settle(&mut self);
        hidden_division::check(&mut self);
        self.out.extend(redeclared::check(self.source.tree));
        self.out.extend(generator_return::check(self.source.tree));
        let wrong = std::mem::take(&mut self.wrong_calls);
        if !wrong.is_empty() {
            // Without its imports the meaning of a name of this file is unknown.
            let imported = self.typing.imports.get(self.source, self.world);
            let is_builtin = |name: &str| {
                !self.declared.contains(name) && imported.is_some_and(|names| !names.contains_key(name))
            };
            let certain: Vec<Diagnostic> =
                wrong.into_iter().filter(|(name, _)| is_builtin(name)).map(|(_, d)| d).collect();
            self.out.extend(certain);
        }
        let overridden = std::mem::take(&mut self.overridden);
        let counts = std::mem::take(&mut self.arguments);
        self.out.extend(counts.into_iter().filter(|(name, _)| !overridden.contains(name)).map(|(_, d)| d));
        let told_already = |d: &Diagnostic| d.span.is_some_and(|span| self.misnamed.contains(&span.start));
        let names = type_name::check(self.typing);
        self.out.extend(names.into_iter().filter(|d| !told_already(d)));
        let place = |d: &Diagnostic| d.span.map_or(0, |span| span.start);
        self.out.sort_by_key(|d| (place(d), d.severity != Severity::Error));
        self.out
    }

    /// Walks a block; its facts remain.
    pub(crate) fn branch(&mut self, block: &'a Block) {
        self.scoped(|pass| {
            pass.scopes.hoist(&block.stmts);
            pass.stmts(&block.stmts);
            pass.note_block(block);
            annotation::last_value(pass, block);
        });
    }

    /// Walks the body of a loop.
    fn for_loop(&mut self, pattern: &'a Pattern, iter: &'a Expr, body: &'a Block) {
        self.expr(iter);
        wrong_call::iterated(self, iter);
        annotation::loop_variable(self, pattern, iter);
        self.forget_assigned_in(body);
        let mark = self.flow.mark();
        self.loops.push((mark, Vec::new()));
        self.for_body(pattern, body);
        self.loops.pop();
        self.flow.rewind(mark);
    }

    fn guard(&mut self, cond: &'a Expr, body: &'a Block) {
        self.expr(cond);
        let mark = self.flow.mark();
        self.assume(cond, false);
        self.block(body);
        self.flow.rewind(mark);
        self.assume(cond, true);
    }

    /// Walks an expression under a condition; its type there is cached.
    fn under(&mut self, cond: &'a Expr, truth: bool, expr: &'a Expr) {
        let mark = self.flow.mark();
        self.assume(cond, truth);
        self.expr(expr);
        self.infer(expr);
        self.flow.rewind(mark);
    }

    /// Walks an expression by its kind.
    fn expression(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                type_value::check(self, name, expr);
                return call_target::variable(self, name, expr.span);
            }
            ExprKind::If { arms, else_body } => return self.if_chain(arms, else_body.as_ref()),
            ExprKind::Match { value, arms } => {
                self.expr(value);
                exhaustive::check(self, expr, value, arms);
                return self.match_arms(value, arms);
            }
            ExprKind::Try { body, catch, finally } => {
                return self.attempt(body, catch.as_deref(), finally.as_ref());
            }
            ExprKind::Retry { count, body } => {
                self.expr(count);
                // Assignments of a failed attempt are visible in the next one.
                self.forget_assigned_in(body);
                return self.branch(body);
            }
            ExprKind::Deadline { limit, body } => {
                self.expr(limit);
                return self.branch(body);
            }
            ExprKind::Select(select) => return self.select(select),
            ExprKind::Ternary { cond, then, other } => {
                self.expr(cond);
                self.under(cond, true, then);
                return self.under(cond, false, other);
            }
            ExprKind::Logic { op, lhs, rhs, .. } if *op != LogicOp::Coalesce => {
                self.expr(lhs);
                return self.under(lhs, *op == LogicOp::And, rhs);
            }
            ExprKind::Parallel(parallel) => {
                visit::walk_expr(self, expr);
                return operator::max_concurrent(self, parallel);
            }
            ExprKind::Call { callee, args, type_args } => {
                if let ExprKind::Name(name) = &callee.kind {
                    type_value::arguments(self, name, args);
                    let found = call_target::check(self, name, callee.span);
                    args.iter().for_each(|arg| self.expr(&arg.value));
                    generic::type_arguments(self, name, expr, type_args, &found);
                    argument::check(self, name, expr, type_args, args, &found);
                    tool_call::check(self, name, expr, args, &found);
                    coverage::check(self, name, expr, args, &found);
                    deprecated::check(self, name, expr, &found);
                    if schema_place::written_type(name, type_args, args).is_none() {
                        wrong_call::builtin(self, name, expr, args, &found);
                    }
                    wrong_call::structure(self, name, expr, args, &found);
                    return;
                }
            }
            ExprKind::MethodCall { object, name, args, .. } => {
                let is_enum = enum_variant::check(self, object, name);
                let space = namespaced(object, name).filter(|(space, full)| {
                    matches!(self.scopes.look_up(space, expr.span.start), Lookup::Missing)
                        && self.world.signatures.is_builtin(full)
                });
                match space {
                    _ if is_enum => {
                        visit::walk_expr(self, expr);
                        return enum_variant::payload(self, object, name, expr, args);
                    }
                    Some((_, full)) => {
                        args.iter().for_each(|arg| self.expr(&arg.value));
                        return wrong_call::builtin(self, &full, expr, args, &Lookup::Missing);
                    }
                    None if call_target::operation(self, object, name) => {
                        args.iter().for_each(|arg| self.expr(&arg.value));
                        return;
                    }
                    None => {
                        visit::walk_expr(self, expr);
                        argument::method(self, object, name, expr, args);
                        generic::method(self, object, name);
                        return wrong_call::method(self, object, name, expr, args);
                    }
                }
            }
            ExprKind::Member { object, name, optional }
                if !enum_variant::check(self, object, name) && !optional =>
            {
                let space =
                    namespaced(object, name).filter(|(_, full)| self.world.signatures.is_builtin(full));
                if space.is_none() && call_target::operation(self, object, name) {
                    return;
                }
                visit::walk_expr(self, expr);
                if space.is_none() {
                    result_field::check(self, object, &name.name, name.span);
                }
                return struct_field::check(self, object, name);
            }
            ExprKind::Member { object, name, optional: true } => {
                visit::walk_expr(self, expr);
                return result_field::check(self, object, &name.name, name.span);
            }
            ExprKind::Index { object, index, .. } => {
                visit::walk_expr(self, expr);
                if let ExprKind::Str(name) = &index.kind {
                    result_field::check(self, object, name, index.span);
                }
                return operator::check(self, expr);
            }
            ExprKind::Dict(items) => type_value::entries(self, items),
            ExprKind::StructLit { name, items } => {
                visit::walk_expr(self, expr);
                return struct_literal::check(self, name, items);
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
        operator::check(self, expr);
    }

    /// Runs `body` in a new scope.
    pub(crate) fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        self.scopes.enter();
        body(self);
        self.scopes.leave();
    }

    /// Declares the names of the pipelines that a pipeline extends.
    fn extending(&mut self, pipeline: &'a PipelineDecl) {
        let mut bodies: Vec<&'a PipelineDecl> = Vec::new();
        let mut parent = pipeline.extends.as_ref();
        let mut known = true;
        while let Some(name) = parent {
            let found =
                self.source.tree.pipelines().map(|(_, other)| other).find(|p| p.name.name == name.name);
            match found {
                Some(base) if !bodies.iter().any(|other| std::ptr::eq(*other, base)) => {
                    bodies.push(base);
                    parent = base.extends.as_ref();
                }
                // A cycle is a separate error.
                Some(_) => break,
                None => {
                    known = false;
                    break;
                }
            }
        }
        self.opaque += u32::from(!known);
        self.scoped(|pass| {
            for base in bodies.into_iter().rev() {
                base.func.params.iter().for_each(|param| pass.scopes.bind(&param.name, Kind::Other));
                pass.scopes.hoist(&base.func.body.stmts);
            }
            visit::Visitor::function(pass, &pipeline.func, &[]);
        });
        self.opaque -= u32::from(!known);
    }
}

/// Returns the name of a builtin such as `stream.map`, and the part before the dot.
fn namespaced<'a>(object: &'a Expr, name: &Ident) -> Option<(&'a str, String)> {
    let ExprKind::Name(space) = &object.kind else { return None };
    Some((space.as_str(), format!("{space}.{}", name.name)))
}

impl<'a> Visitor<'a> for Pass<'a> {
    fn block(&mut self, block: &'a Block) {
        let mark = self.flow.mark();
        self.branch(block);
        self.flow.rewind(mark);
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        let live = unreachable::check(self, stmts);
        stmts[..live].iter().for_each(|stmt| self.stmt(stmt));
        // Dead code is not checked, but its declarations hold in the whole block.
        let declarations = stmts[live..].iter().filter(|stmt| matches!(stmt.kind, StmtKind::Decl(_)));
        declarations.for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Emit(_) | StmtKind::Yield(_) => stream_emit::check(self, stmt),
            StmtKind::Assign { target, .. } => {
                call_target::variable(self, &target.root.name, target.root.span);
                assign_to_let::check(self, target);
            }
            StmtKind::For { pattern, iter, body } => return self.for_loop(pattern, iter, body),
            StmtKind::While { cond, body } => return self.while_loop(cond, body),
            StmtKind::Guard { cond, body } => return self.guard(cond, body),
            StmtKind::Break => self.breaks(),
            StmtKind::Throw(_) => coverage::leaving(self, stmt.span, "throw"),
            StmtKind::Override { name, .. } => {
                overriding::check(self, name);
                self.declared.insert(&name.name);
                self.overridden.insert(&name.name);
            }
            _ => {}
        }
        match &stmt.kind {
            // The body runs once, so its facts hold after it.
            StmtKind::Mutex(body) => self.branch(body),
            _ => visit::walk_stmt(self, stmt),
        }
        tell::statement(self, stmt);
        annotation::statement(self, stmt);
        match &stmt.kind {
            StmtKind::Require { cond, .. } => self.assume(cond, true),
            StmtKind::Expr(Expr { kind: ExprKind::Call { callee, args, .. }, .. })
                if callee.as_name().is_some_and(|name| name == "assert" && self.is_builtin(name)) =>
            {
                args.iter().take(1).for_each(|arg| self.assume(&arg.value, true));
            }
            _ => {}
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.expression(expr);
        nilable::check(self, expr);
        // After the parts were walked, so that their types are known.
        tell::expression(self, expr);
    }

    fn match_pattern(&mut self, pattern: &'a MatchPattern) {
        if let MatchPatternKind::Variant { enum_name, variant, .. } = &pattern.kind {
            enum_variant::pattern(self, enum_name, variant);
        }
        visit::walk_match_pattern(self, pattern);
    }

    fn decl(&mut self, decl: &'a Decl) {
        attribute::check(self, decl);
        generic::variance(self, decl);
        if !matches!(decl.kind, DeclKind::Impl(_)) {
            self.declared.insert(&decl.kind.name().name);
        }
        match &decl.kind {
            DeclKind::Fn(d) if !d.bounds.is_empty() => return generic::bounded(self, d),
            DeclKind::Struct(d) => self.structs.push(&d.name.name),
            DeclKind::Pipeline(d) if d.extends.is_some() => return self.extending(d),
            _ => {}
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, type_params: &'a [TypeParam]) {
        stream_result::check(self, func);
        self.streams.push(func.is_gen);
        self.results.push(annotation::result_of(self, func));
        let bounds = std::mem::take(&mut self.next_bounds);
        self.bounds.push(bounds);
        let loops = std::mem::take(&mut self.loops);
        let mark = self.enter_function();
        self.scoped(|pass| {
            type_params.iter().for_each(|param| pass.scopes.bind(&param.name, Kind::Other));
            func.params.iter().for_each(|param| pass.scopes.bind(&param.name, Kind::Other));
            annotation::parameters(pass, func);
            visit::walk_function(pass, func);
        });
        self.flow.rewind(mark);
        self.loops = loops;
        self.bounds.pop();
        self.results.pop();
        self.streams.pop();
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.scoped(|pass| {
            pass.scopes.bind_pattern(pattern);
            pass.pattern(pattern);
            pass.block(body);
        });
    }

    fn eval_pack_body(&mut self, pack: &'a EvalPackDecl) {
        self.scoped(|pass| {
            pack.fields.iter().for_each(|field| pass.scopes.bind(&field.key, Kind::Other));
            pass.scopes.hoist(&pack.stmts);
            pass.stmts(&pack.stmts);
            pack.summarize.iter().for_each(|block| pass.block(block));
        });
    }
}
