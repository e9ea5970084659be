//! The rules for programs: valid code that has another meaning than its author intended, or none.
//!
//! Names are compared as strings: a name that is read anywhere is treated as used in all its bindings. So a rule may
//! miss a mistake, but reports no false ones.

use std::path::Path;

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Severity, Span};
use rustc_hash::FxHashSet;

use super::idle::{is_idle, may_fail};
use super::inferred::Types;
use super::registry::MaxTools;
use super::uses::Uses;
use crate::codes::*;
use crate::scope::{names_of, names_of_match};
use crate::settings::Settings;
use crate::world::{Source, World};

/// Runs the rules that `settings` enable on a program without syntax errors. Findings are in source order.
pub fn lint_program(
    source: &Source<'_>,
    world: &World<'_>,
    settings: &Settings,
    max_tools: &MaxTools<'_>,
) -> Vec<Diagnostic> {
    let Source { name, text, tree, .. } = *source;
    let mut uses = Uses::default();
    uses.stmts(&tree.items);
    let types = Types::new(source, world);
    let mut rules = Rules {
        text,
        uses,
        types: &types,
        world,
        in_pipeline: false,
        tries: 0,
        removable: None,
        out: Vec::new(),
    };
    rules.imports(tree);
    rules.stmts(&tree.items);
    let mut out = rules.out;
    out.extend(super::simplify::run(text, tree, &rules.uses, &types));
    out.extend(super::declared::run(text, tree, settings.complexity_threshold));
    out.extend(super::calls::run(tree));
    out.extend(super::mistakes::run(text, tree));
    out.extend(super::shadow::run(tree));
    out.extend(super::effects::run(tree, world.signatures));
    let file = Path::new(name).file_name().and_then(|name| name.to_str());
    out.extend(super::layout::run(text, tree, file.filter(|_| settings.require_file_header)));
    out.extend(super::registry::run(tree, max_tools));
    super::suppress::apply(text, tree, &mut out);
    out.retain(|found| {
        found.severity == Severity::Error || !settings.is_disabled(found.code, Path::new(name))
    });
    out.sort_by_key(|found| found.span.map_or(0, |span| span.start));
    out
}

struct Rules<'a> {
    text: &'a str,
    uses: Uses<'a>,
    types: &'a Types<'a>,
    world: &'a World<'a>,
    /// The number of enclosing `try` blocks: their content may be intended to fail.
    tries: u32,
    /// The runtime passes the parameters of pipelines.
    in_pipeline: bool,
    /// The span to remove together with the current statement, if it does nothing with an empty block.
    removable: Option<Span>,
    out: Vec<Diagnostic>,
}

impl<'a> Rules<'a> {
    fn report(&mut self, rule: &'static str, span: Span, message: String) -> &mut Diagnostic {
        let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
        self.out.push(found);
        let last = self.out.len() - 1;
        &mut self.out[last]
    }

    fn slice(&self, span: Span) -> &'a str {
        span.slice(self.text)
    }

    /// Returns whether a name is never read; names with `_` are ignored.
    fn is_unused(&self, name: &str) -> bool {
        !name.starts_with('_') && !self.uses.read.contains(name)
    }

    fn imports(&mut self, tree: &'a Program) {
        let listing: Vec<&Import> =
            tree.imports().filter(|import| !import.is_pub && import.names.is_some()).collect();
        if listing.is_empty() {
            return;
        }
        // Types are mentioned in annotations.
        let mut mentioned: FxHashSet<&str> = FxHashSet::default();
        for token in &harn_syntax::lexer::lex(self.text).tokens {
            if !tree
                .imports()
                .any(|import| import.span.start <= token.span.start && token.span.end <= import.span.end)
            {
                mentioned.insert(token.span.slice(self.text));
            }
        }
        for import in listing {
            let names: Vec<&Ident> = import.names.iter().flatten().collect();
            let all = names.iter().all(|name| !mentioned.contains(name.name.as_str()));
            for (at, name) in names.iter().enumerate() {
                if mentioned.contains(name.name.as_str()) || name.name.starts_with('_') {
                    continue;
                }
                let edit = if all {
                    let end = import.span.end as usize;
                    let rest = &self.text[end..];
                    let line_end = ["\r\n", "\n"].into_iter().find(|line_end| rest.starts_with(line_end));
                    Span::new(import.span.start, (end + line_end.map_or(0, str::len)) as u32)
                } else {
                    match (names.get(at + 1), at.checked_sub(1).map(|before| names[before])) {
                        (Some(next), _) => Span::new(name.span.start, next.span.start),
                        (None, Some(before)) => Span::new(before.span.end, name.span.end),
                        (None, None) => name.span,
                    }
                };
                let message = format!("imported name `{}` is never used", name.name);
                let found = self.report(UNUSED_IMPORT, name.span, message);
                *found = found.clone().with_fix("remove it", vec![(edit, String::new())]);
            }
        }
    }

    fn bindings(&mut self, stmt: &Stmt, mutable: bool, pattern: &Pattern) {
        let PatternKind::Name(name) = &pattern.kind else {
            let mut unused = Vec::new();
            names_of(pattern, &mut |name| unused.push((name.name.clone(), name.span)));
            unused.retain(|(name, _)| self.is_unused(name));
            for (name, span) in unused {
                let message = format!("variable `{name}` is declared but never used");
                self.report(UNUSED_PATTERN, span, message);
            }
            return;
        };
        let assigned = self.uses.assigned.contains(name.name.as_str());
        if self.is_unused(&name.name) {
            let message = format!("variable `{}` is declared but never used", name.name);
            let renamed = format!("_{}", name.name);
            let found = self.report(UNUSED_VARIABLE, name.span, message);
            if !assigned {
                *found = found.clone().with_fix(format!("write `{renamed}`"), vec![(name.span, renamed)]);
            }
        } else if mutable && !assigned && !name.name.starts_with('_') {
            let message = format!("variable `{}` is declared as `var` but never reassigned", name.name);
            let word = Span::new(stmt.span.start, stmt.span.start + "var".len() as u32);
            let found = self.report(NEVER_REASSIGNED, name.span, message);
            *found = found.clone().with_fix("write `let`", vec![(word, "let".to_owned())]);
        }
    }

    /// Returns whether a block is empty, also of comments.
    fn is_empty(&self, block: &Block) -> bool {
        let inner = self.slice(block.span);
        block.stmts.is_empty() && !inner.contains("//") && !inner.contains("/*")
    }

    fn empty(&mut self, what: &str, block: &Block) {
        if self.is_empty(block) {
            let removed = self.removable.take();
            let found = self.report(EMPTY_BLOCK, block.span, format!("{what} has an empty body"));
            if let Some(span) = removed {
                *found = found.clone().with_fix("remove it", vec![(span, String::new())]);
            }
        }
    }

    /// Returns the span of a statement without side effects, with its line if it is alone there. The last statement
    /// of a block is its value.
    fn without(&self, stmt: &Stmt) -> Option<Span> {
        let pure = match &stmt.kind {
            StmtKind::For { iter, .. } => is_plain_list(iter),
            StmtKind::Expr(Expr { kind: ExprKind::If { arms, else_body: None }, .. }) => {
                matches!(arms.as_slice(), [arm] if is_plain(&arm.cond))
            }
            _ => false,
        };
        let (before, behind) = (&self.text[..stmt.span.start as usize], &self.text[stmt.span.end as usize..]);
        let blank = |text: &str| text.chars().all(|c| matches!(c, ' ' | '\t' | '\r'));
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = behind.find('\n')?;
        let alone = blank(&before[line..]) && blank(&behind[..rest]);
        (pure && alone).then(|| Span::new(line as u32, stmt.span.end + rest as u32 + 1))
    }

    fn comparison(&mut self, expr: &Expr, op: BinaryOp, lhs: &Expr, rhs: &Expr) {
        if !matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            return;
        }
        for side in [lhs, rhs] {
            if let ExprKind::Bool(value) = side.kind {
                let message = format!("comparison to `{value}` is redundant");
                let other = if std::ptr::eq(side, lhs) { rhs } else { lhs };
                let kept = self.slice(other.span);
                let certain = is_bool(other) || self.types.is_bool(other.span);
                let found = self.report(COMPARISON_TO_BOOL, expr.span, message);
                found.help = Some("bools are conditions themselves; `!` negates".to_owned());
                // The fix is safe only for a certain bool: for other values `x` differs from `x == true`.
                if certain {
                    let new = match &other.kind {
                        _ if value == (op == BinaryOp::Eq) => kept.to_owned(),
                        ExprKind::Name(_) | ExprKind::Member { .. } | ExprKind::Call { .. } => {
                            format!("!{kept}")
                        }
                        _ => format!("!({kept})"),
                    };
                    *found = found.clone().with_fix("take the bool itself", vec![(expr.span, new)]);
                }
            }
        }
        let quiet = matches!(lhs.kind, ExprKind::Name(_) | ExprKind::Member { .. } | ExprKind::Index { .. });
        if quiet && self.slice(lhs.span) == self.slice(rhs.span) && !has_call(lhs) {
            let shown = self.slice(lhs.span);
            let equal = lhs.as_name().is_some_and(|name| self.uses.equals_itself(name));
            let found =
                self.report(POINTLESS_COMPARISON, expr.span, format!("`{shown}` is compared with itself"));
            if equal {
                let new = (op == BinaryOp::Eq).to_string();
                *found = found.clone().with_fix(format!("write `{new}`"), vec![(expr.span, new)]);
            } else {
                found.help = Some(format!("only NaN differs from itself, which `is_nan({shown})` asks for"));
            }
        }
    }

    fn arms(&mut self, arms: &[MatchArm]) {
        let mut seen: FxHashSet<String> = FxHashSet::default();
        let mut all: Option<Span> = None;
        for arm in arms {
            if let Some(before) = all {
                let first = arm.patterns.first().map_or(arm.span, |pattern| pattern.span);
                let line = self.text[..before.start as usize].matches('\n').count() + 1;
                let message = format!("this arm is never reached: the one in line {line} matches everything");
                self.report(UNREACHABLE_ARM, first, message);
                continue;
            }
            let guard = arm.guard.as_ref().map_or("", |guard| self.slice(guard.span));
            for pattern in &arm.patterns {
                if !seen.insert(format!("{} if {guard}", self.slice(pattern.span))) {
                    let message = format!("`{}` is matched by an arm before", self.slice(pattern.span));
                    self.report(DUPLICATE_ARM, pattern.span, message);
                }
                let takes_all =
                    matches!(pattern.kind, MatchPatternKind::Wildcard | MatchPatternKind::Bind(_));
                if takes_all && arm.guard.is_none() && arm.patterns.len() == 1 {
                    all = Some(pattern.span);
                }
            }
        }
    }

    fn conditions(&mut self, arms: &[IfArm]) {
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        for arm in arms.iter().filter(|arm| !has_call(&arm.cond)) {
            if !seen.insert(self.slice(arm.cond.span)) {
                let message = format!("`{}` was asked before in this chain", self.slice(arm.cond.span));
                self.report(REPEATED_CONDITION, arm.cond.span, message);
            }
        }
    }

    /// Reports assignments of a task to outer variables, of which it has copies. `help` explains how to return a
    /// value.
    fn copies(&mut self, func: &'a Function, help: &str) {
        let mut inside = Inside::default();
        inside.function(func, &[]);
        for (name, span) in inside.assigned {
            if !inside.bound.contains(name) {
                let message = format!("`{name}` is a copy in here: the variable outside keeps its value");
                self.report(PARALLEL_ASSIGNMENT, span, message).help = Some(help.to_owned());
            }
        }
    }

    /// Checks a statement whose value is unused.
    fn thrown_away(&mut self, stmt: &Stmt) {
        let StmtKind::Expr(value) = &stmt.kind else { return };
        if !is_idle(value, &self.uses, self.world.signatures) || self.tries > 0 && may_fail(value) {
            return;
        }
        let text = self.slice(value.span);
        let shown =
            if text.len() > 40 || text.contains('\n') { "this expression" } else { &format!("`{text}`") };
        let message = format!("the value of {shown} is never used");
        let target = match &value.kind {
            ExprKind::MethodCall { object, name, .. } => Some(format!(
                "`{}` returns a new value: write `{} = {text}`",
                name.name,
                self.slice(object.span)
            )),
            ExprKind::Binary { op: BinaryOp::Eq, .. } => Some("`=` assigns, `==` compares".to_owned()),
            ExprKind::Name(name) if !self.uses.bound.contains_key(name.as_str()) => {
                Some(format!("to call a function, write `{name}()`"))
            }
            // A docstring as in Python.
            ExprKind::Str(_) => Some("comments start with `//`".to_owned()),
            _ => None,
        };
        self.report(UNUSED_RESULT, value.span, message).help = target;
    }
}

impl<'a> Visitor<'a> for Rules<'a> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        if let Some((_, before)) = stmts.split_last() {
            before.iter().for_each(|stmt| self.thrown_away(stmt));
        }
        for (at, stmt) in stmts.iter().enumerate() {
            self.removable = if at + 1 < stmts.len() { self.without(stmt) } else { None };
            self.stmt(stmt);
            self.removable = None;
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { mutable, pattern, .. } => self.bindings(stmt, *mutable, pattern),
            StmtKind::For { body, .. } => self.empty("for loop", body),
            StmtKind::While { body, .. } => self.empty("while loop", body),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        self.in_pipeline = matches!(decl.kind, DeclKind::Pipeline(_));
        visit::walk_decl(self, decl);
        self.in_pipeline = false;
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        if !std::mem::take(&mut self.in_pipeline) {
            for param in &func.params {
                if param.name.name != "self" && self.is_unused(&param.name.name) {
                    let message = format!("parameter `{}` is declared but never used", param.name.name);
                    self.report(UNUSED_PARAMETER, param.name.span, message).help =
                        Some(format!("rename it to `_{}` if it is unused on purpose", param.name.name));
                }
            }
        }
        visit::walk_function(self, func);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Binary { op, lhs, rhs, .. } => self.comparison(expr, *op, lhs, rhs),
            ExprKind::If { arms, .. } => {
                self.conditions(arms);
                arms.iter().for_each(|arm| self.empty("if block", &arm.body));
            }
            ExprKind::Match { arms, .. } => self.arms(arms),
            ExprKind::Try { body, catch, finally } => {
                self.empty("try block", body);
                if let Some(catch) = catch.as_ref().filter(|catch| self.is_empty(&catch.body)) {
                    self.report(EMPTY_CATCH, catch.body.span, "errors are swallowed here".to_owned()).help =
                        Some("handle the error, or say in a comment why it does not matter".to_owned());
                }
                self.tries += 1;
                self.block(body);
                self.tries -= 1;
                catch.iter().for_each(|catch| self.catch(catch));
                return finally.iter().for_each(|block| self.block(block));
            }
            ExprKind::Parallel(parallel) => {
                self.copies(
                    &parallel.func,
                    "return the value from the body; `parallel` collects the values in a list",
                );
            }
            ExprKind::Spawn(func) => self.copies(func, "let the task give the value, which `await` gets"),
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}

/// Returns whether an expression is certainly a bool.
fn is_bool(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Paren(inner) => is_bool(inner),
        ExprKind::Bool(_) | ExprKind::Unary { op: UnaryOp::Not, .. } => true,
        ExprKind::Binary { op, .. } => matches!(
            op,
            BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Gt
                | BinaryOp::Le
                | BinaryOp::Ge
                | BinaryOp::In
                | BinaryOp::NotIn
        ),
        _ => false,
    }
}

/// Returns whether a condition has no side effects and cannot fail.
fn is_plain(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Name(_) | ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Str(_) | ExprKind::Nil => true,
        ExprKind::Paren(inner) | ExprKind::Unary { op: UnaryOp::Not, operand: inner, .. } => is_plain(inner),
        ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, lhs, rhs, .. }
        | ExprKind::Logic { lhs, rhs, .. } => is_plain(lhs) && is_plain(rhs),
        _ => false,
    }
}

/// Returns whether an expression is a list literal, so that its iteration has no effects. A name may be a generator.
fn is_plain_list(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::List(items) => items.iter().all(|item| !item.spread && is_plain(&item.value)),
        ExprKind::Range { start, end, .. } => {
            [start, end].into_iter().all(|side| matches!(side.kind, ExprKind::Int(_)))
        }
        _ => false,
    }
}

/// The names that the body of a function binds and assigns, at any depth.
#[derive(Default)]
struct Inside<'a> {
    bound: FxHashSet<&'a str>,
    assigned: Vec<(&'a str, Span)>,
}

impl<'a> Visitor<'a> for Inside<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, .. } | StmtKind::For { pattern, .. } => {
                names_of(pattern, &mut |name| self.bound.extend([name.name.as_str()]));
            }
            StmtKind::Assign { target, .. } => self.assigned.push((&target.root.name, target.span)),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        self.bound.extend(func.params.iter().map(|param| param.name.name.as_str()));
        visit::walk_function(self, func);
    }

    fn match_arm(&mut self, arm: &'a MatchArm) {
        for pattern in &arm.patterns {
            names_of_match(pattern, &mut |name| self.bound.extend([name.name.as_str()]));
        }
        visit::walk_match_arm(self, arm);
    }

    fn catch(&mut self, catch: &'a Catch) {
        self.bound.extend(catch.name.iter().map(|name| name.name.as_str()));
        self.block(&catch.body);
    }

    fn select_case(&mut self, case: &'a SelectCase) {
        self.bound.insert(&case.name.name);
        self.block(&case.body);
    }
}

/// Returns whether an expression contains a call, which may return another value each time.
fn has_call(expr: &Expr) -> bool {
    struct Calls(bool);
    impl<'a> Visitor<'a> for Calls {
        fn expr(&mut self, expr: &'a Expr) {
            let runs = matches!(
                expr.kind,
                ExprKind::Call { .. }
                    | ExprKind::MethodCall { .. }
                    | ExprKind::Pipe { .. }
                    | ExprKind::Propagate { .. }
                    | ExprKind::TryStar(_)
                    | ExprKind::Spawn(_)
                    | ExprKind::Parallel(_)
                    | ExprKind::Select(_)
            );
            self.0 |= runs;
            visit::walk_expr(self, expr);
        }
    }
    let mut calls = Calls(false);
    calls.expr(expr);
    calls.0
}
