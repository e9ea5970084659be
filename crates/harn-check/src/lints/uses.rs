//! Uses of the names of a file.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scope::{names_of, names_of_match};

/// Uses of the names of a file.
#[derive(Default)]
pub(super) struct Uses<'a> {
    /// Names whose value is read.
    pub(super) read: FxHashSet<&'a str>,
    /// Names that are assigned.
    pub(super) assigned: FxHashSet<&'a str>,
    /// How often a name is bound by `let` or `var`, and whether always to a list or string.
    pub(super) bound: FxHashMap<&'a str, (u32, bool)>,
    /// Names that are bound otherwise, or to a possible float.
    vague: FxHashSet<&'a str>,
    /// Names of declarations and imports.
    declared: FxHashSet<&'a str>,
    /// Whether an import provides names that it does not list.
    brings_names: bool,
}

impl Uses<'_> {
    /// Returns whether a name is bound once, to a list or string.
    pub(super) fn is_plain(&self, name: &str) -> bool {
        self.bound.get(name).is_some_and(|&(count, plain)| plain && count == 1)
    }

    /// Returns whether a name may be something other than a builtin.
    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.brings_names
            || self.bound.contains_key(name)
            || self.vague.contains(name)
            || self.declared.contains(name)
    }

    /// Returns whether the values of a name always equal themselves: it cannot be NaN.
    pub(super) fn equals_itself(&self, name: &str) -> bool {
        self.bound.contains_key(name) && !self.vague.contains(name) && !self.assigned.contains(name)
    }
}

impl<'a> Visitor<'a> for Uses<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => {
                self.assigned.insert(&target.root.name);
                if !target.path.is_empty() {
                    self.read.insert(&target.root.name);
                }
            }
            StmtKind::Let { pattern, value, .. } => {
                let plain = matches!(value.kind, ExprKind::List(_) | ExprKind::Str(_) | ExprKind::Interp(_))
                    && matches!(pattern.kind, PatternKind::Name(_));
                let clear = matches!(pattern.kind, PatternKind::Name(_))
                    && matches!(
                        value.kind,
                        ExprKind::Int(_)
                            | ExprKind::Str(_)
                            | ExprKind::Interp(_)
                            | ExprKind::Bool(_)
                            | ExprKind::Nil
                    );
                names_of(pattern, &mut |name| {
                    if !clear {
                        self.vague.insert(&name.name);
                    }
                    let entry = self.bound.entry(&name.name).or_insert((0, true));
                    *entry = (entry.0 + 1, entry.1 && plain);
                });
            }
            StmtKind::Import(import) => {
                self.brings_names |= import.names.is_none();
                self.declared.extend(import.names.iter().flatten().map(|name| &*name.name));
            }
            StmtKind::Override { name, .. } => drop(self.declared.insert(&name.name)),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        self.declared.insert(&decl.kind.name().name);
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        self.vague.extend(func.params.iter().map(|param| &*param.name.name));
        visit::walk_function(self, func);
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        names_of(pattern, &mut |name| {
            self.vague.insert(&name.name);
        });
        self.pattern(pattern);
        self.block(body);
    }

    fn catch(&mut self, catch: &'a Catch) {
        self.vague.extend(catch.name.iter().map(|name| &*name.name));
        self.block(&catch.body);
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.vague.insert(&case.name.name);
        self.block(&case.body);
    }

    fn match_pattern(&mut self, pattern: &'a MatchPattern) {
        names_of_match(pattern, &mut |name| {
            self.vague.insert(&name.name);
        });
        visit::walk_match_pattern(self, pattern);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => drop(self.read.insert(name)),
            ExprKind::StructLit { name, .. } => drop(self.read.insert(&name.name)),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
