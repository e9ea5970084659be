//! The walk over one file: it keeps the scopes and hands every node to the checks that look at its kind.

use harn_syntax::ast::*;
use harn_syntax::{Diagnostic, Severity};
use rustc_hash::FxHashSet;

use crate::checks::{argument_count, assign_to_let, attribute, call_target, deprecated, not_executed};
use crate::checks::{stream_emit, stream_result, struct_literal, unreachable, wrong_call};
use crate::scope::{Kind, Scopes};
use crate::world::{Source, World};
use harn_syntax::visit::{self, Visitor};

/// Checks one file. Diagnostics come in source order; only those of [`Severity::Error`] forbid to run the program.
///
/// Imported files are read only when a call is left that they could explain, and when one of them cannot be read the
/// check of names is off.
pub fn check_program(source: &Source<'_>, world: &World<'_>) -> Vec<Diagnostic> {
    let mut pass = Pass::new(source, world);
    pass.file();
    pass.finish()
}

/// What the checks see and fill.
pub(crate) struct Pass<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) world: &'a World<'a>,
    pub(crate) scopes: Scopes<'a>,
    /// For each function around the node, innermost last, whether it is a `gen fn`.
    pub(crate) streams: Vec<bool>,
    /// Everything that is declared in the file, at any depth.
    pub(crate) declared: FxHashSet<&'a str>,
    /// The structs among it, in order.
    pub(crate) structs: Vec<&'a str>,
    /// Names that a pipeline gives another body.
    pub(crate) overridden: FxHashSet<&'a str>,
    /// Calls and literals whose name no scope knows; settled at the end.
    pub(crate) unknown: Vec<call_target::Unknown<'a>>,
    /// Findings about the arguments of functions that a pipeline may still override.
    pub(crate) argument_counts: Vec<(&'a str, Diagnostic)>,
    /// Findings about calls of builtins, by name: a file that is imported may declare a function of that name.
    pub(crate) wrong_calls: Vec<(String, Diagnostic)>,
    /// More than zero inside pipelines whose parent is not at hand: its names are visible there.
    opaque: u32,
    out: Vec<Diagnostic>,
}

impl<'a> Pass<'a> {
    fn new(source: &'a Source<'a>, world: &'a World<'a>) -> Self {
        Self {
            source,
            world,
            scopes: Scopes::new(source.tree),
            streams: Vec::new(),
            declared: FxHashSet::default(),
            structs: Vec::new(),
            overridden: FxHashSet::default(),
            unknown: Vec::new(),
            argument_counts: Vec::new(),
            wrong_calls: Vec::new(),
            opaque: 0,
            out: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.out.push(diagnostic);
    }

    /// Whether names may exist that this file cannot tell.
    pub(crate) fn is_opaque(&self) -> bool {
        self.opaque > 0
    }

    fn file(&mut self) {
        let items = &self.source.tree.items;
        if self.source.tree.pipelines().next().is_none() {
            return self.stmts(items);
        }
        not_executed::check(self, items);
        items.iter().for_each(|item| self.stmt(item));
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        call_target::settle(&mut self);
        let wrong = std::mem::take(&mut self.wrong_calls);
        if !wrong.is_empty() {
            // Without its imports nobody can tell what a name of this file stands for.
            let imported = crate::imports::names(self.source, self.world);
            let is_builtin = |name: &str| {
                !self.declared.contains(name) && imported.as_ref().is_some_and(|names| !names.contains(name))
            };
            let certain: Vec<Diagnostic> =
                wrong.into_iter().filter(|(name, _)| is_builtin(name)).map(|(_, d)| d).collect();
            self.out.extend(certain);
        }
        let overridden = std::mem::take(&mut self.overridden);
        let counts = std::mem::take(&mut self.argument_counts);
        self.out.extend(counts.into_iter().filter(|(name, _)| !overridden.contains(name)).map(|(_, d)| d));
        let place = |d: &Diagnostic| d.span.map_or(0, |span| span.start);
        self.out.sort_by_key(|d| (place(d), d.severity != Severity::Error));
        self.out
    }

    /// Runs `body` in a scope of its own.
    fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        self.scopes.enter();
        body(self);
        self.scopes.leave();
    }

    /// The body of a pipeline sees the names of the pipelines that it extends.
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
                // A circle is an error of its own.
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
                base.func.params.iter().for_each(|param| pass.scopes.bind(&param.name.name, Kind::Other));
                pass.scopes.hoist(&base.func.body.stmts);
            }
            visit::Visitor::function(pass, &pipeline.func, &[]);
        });
        self.opaque -= u32::from(!known);
    }
}

/// The name of a builtin such as `stream.map`, and the part before the point.
fn namespaced<'a>(object: &'a Expr, name: &Ident) -> Option<(&'a str, String)> {
    let ExprKind::Name(space) = &object.kind else { return None };
    Some((space.as_str(), format!("{space}.{}", name.name)))
}

impl<'a> Visitor<'a> for Pass<'a> {
    fn block(&mut self, block: &'a Block) {
        self.scoped(|pass| {
            pass.scopes.hoist(&block.stmts);
            pass.stmts(&block.stmts);
        });
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        let live = unreachable::check(self, stmts);
        stmts[..live].iter().for_each(|stmt| self.stmt(stmt));
        // What is dead is not checked, but declarations hold in the whole block.
        let declarations = stmts[live..].iter().filter(|stmt| matches!(stmt.kind, StmtKind::Decl(_)));
        declarations.for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Emit(_) | StmtKind::Yield(_) => stream_emit::check(self, stmt),
            StmtKind::Assign { target, .. } => assign_to_let::check(self, target),
            StmtKind::Override { name, .. } => {
                self.declared.insert(&name.name);
                self.overridden.insert(&name.name);
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Call { callee, args, .. } => {
                if let ExprKind::Name(name) = &callee.kind {
                    let found = call_target::check(self, name, callee.span);
                    argument_count::check(self, expr, args, &found);
                    deprecated::check(self, expr, &found);
                    wrong_call::builtin(self, name, expr, args, &found);
                }
            }
            ExprKind::MethodCall { object, name, args, .. } => {
                match namespaced(object, name).filter(|(space, _)| {
                    matches!(self.scopes.look_up(space, expr.span.start), crate::scope::Lookup::Missing)
                }) {
                    Some((_, full)) => {
                        let found = crate::scope::Lookup::Missing;
                        wrong_call::builtin(self, &full, expr, args, &found);
                    }
                    None => wrong_call::method(self, object, name, expr, args),
                }
            }
            ExprKind::StructLit { name, items } => struct_literal::check(self, name, items),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn decl(&mut self, decl: &'a Decl) {
        attribute::check(self, decl);
        if !matches!(decl.kind, DeclKind::Impl(_)) {
            self.declared.insert(&decl.kind.name().name);
        }
        match &decl.kind {
            DeclKind::Struct(d) => self.structs.push(&d.name.name),
            DeclKind::Pipeline(d) if d.extends.is_some() => return self.extending(d),
            _ => {}
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, type_params: &'a [TypeParam]) {
        stream_result::check(self, func);
        self.streams.push(func.is_gen);
        self.scoped(|pass| {
            type_params.iter().for_each(|param| pass.scopes.bind(&param.name.name, Kind::Other));
            func.params.iter().for_each(|param| pass.scopes.bind(&param.name.name, Kind::Other));
            visit::walk_function(pass, func);
        });
        self.streams.pop();
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.scoped(|pass| {
            pass.scopes.bind_pattern(pattern);
            pass.pattern(pattern);
            pass.block(body);
        });
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        self.scoped(|pass| {
            arm.patterns.iter().for_each(|pattern| pass.scopes.bind_match_pattern(pattern));
            visit::walk_match_arm(pass, arm);
        });
    }

    fn catch(&mut self, catch: &'a Catch) {
        self.scoped(|pass| {
            catch.name.iter().for_each(|name| pass.scopes.bind(&name.name, Kind::Other));
            pass.block(&catch.body);
        });
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.scoped(|pass| {
            pass.scopes.bind(&case.name.name, Kind::Other);
            pass.block(&case.body);
        });
    }

    fn eval_pack_body(&mut self, pack: &'a EvalPackDecl) {
        self.scoped(|pass| {
            pack.fields.iter().for_each(|field| pass.scopes.bind(&field.key.name, Kind::Other));
            pass.scopes.hoist(&pack.stmts);
            pass.stmts(&pack.stmts);
            pack.summarize.iter().for_each(|block| pass.block(block));
        });
    }
}
