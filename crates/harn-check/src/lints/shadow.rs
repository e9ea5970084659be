//! Variables that shadow another one.

use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashSet;

use crate::codes::SHADOW;
use crate::scope::{names_of, names_of_match};

/// Runs the rule of this file.
pub(super) fn run(tree: &Program) -> Vec<Diagnostic> {
    let mut search = Search { scopes: vec![FxHashSet::default()], out: Vec::new() };
    search.stmts(&tree.items);
    search.out
}

struct Search<'a> {
    /// The variables and parameters bound so far, for each enclosing scope.
    scopes: Vec<FxHashSet<&'a str>>,
    out: Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    /// Declares a variable. A name that starts with `_` is marked as unused.
    fn declare(&mut self, name: &'a Ident, again_fails: bool) {
        if name.name.starts_with('_') {
            return;
        }
        let Some((own, outer)) = self.scopes.split_last_mut() else { return };
        let first = own.insert(&name.name);
        let message = if !first && again_fails {
            format!("variable `{}` is declared before in the same scope", name.name)
        } else if first && outer.iter().any(|scope| scope.contains(name.name.as_str())) {
            format!("variable `{}` shadows a variable in an outer scope", name.name)
        } else {
            return;
        };
        let help = "give it another name; to change the variable, assign to it without `let`";
        let found = Diagnostic::warning(message).with_code(SHADOW).with_help(help);
        self.out.push(found.with_label(name.span, format!("lint[{SHADOW}]")));
    }

    /// Handles a binding other than a declaration.
    fn bind(&mut self, name: &'a Ident) {
        self.scopes.last_mut().map(|scope| scope.insert(&name.name));
    }

    fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        self.scopes.push(FxHashSet::default());
        body(self);
        self.scopes.pop();
    }
}

impl<'a> Visitor<'a> for Search<'a> {
    fn block(&mut self, block: &'a Block) {
        self.scoped(|search| search.stmts(&block.stmts));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        visit::walk_stmt(self, stmt);
        if let StmtKind::Let { mutable, pattern, .. } = &stmt.kind {
            names_of(pattern, &mut |name| self.declare(name, !mutable));
        }
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        self.scoped(|search| {
            func.params.iter().for_each(|param| search.bind(&param.name));
            visit::walk_function(search, func);
        });
    }

    fn for_body(&mut self, pattern: &'a Pattern, body: &'a Block) {
        self.scoped(|search| {
            names_of(pattern, &mut |name| search.declare(name, false));
            search.pattern(pattern);
            search.block(body);
        });
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        self.scoped(|search| {
            arm.patterns.iter().for_each(|pattern| names_of_match(pattern, &mut |name| search.bind(name)));
            visit::walk_match_arm(search, arm);
        });
    }

    fn catch(&mut self, catch: &'a Catch) {
        self.scoped(|search| {
            catch.name.iter().for_each(|name| search.bind(name));
            search.block(&catch.body);
        });
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.scoped(|search| {
            search.bind(&case.name);
            search.block(&case.body);
        });
    }
}
