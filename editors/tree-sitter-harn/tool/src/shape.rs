//! Compares a tree with Harn's own syntax tree: every statement and expression must have the same location and
//! form.

use std::collections::HashSet;

use harn_syntax::Span;
use harn_syntax::ast::{DeclKind, Expr, ExprKind, Program, Stmt, StmtKind};
use harn_syntax::visit::{Visitor, walk_expr, walk_stmt};
use tree_sitter::Tree;

/// Returns the first node that is missing in the tree: its form and byte range.
pub(crate) fn difference(program: &Program, tree: &Tree) -> Option<(&'static str, Span)> {
    let mut compare = Compare { nodes: HashSet::new(), missing: None };
    let mut walk = tree.walk();
    'tree: loop {
        let node = walk.node();
        compare.nodes.insert((node.kind(), node.start_byte(), node.end_byte()));
        if walk.goto_first_child() {
            continue;
        }
        while !walk.goto_next_sibling() {
            if !walk.goto_parent() {
                break 'tree;
            }
        }
    }
    compare.stmts(&program.items);
    compare.missing
}

struct Compare<'t> {
    nodes: HashSet<(&'t str, usize, usize)>,
    missing: Option<(&'static str, Span)>,
}

impl Compare<'_> {
    fn expect(&mut self, kind: &'static str, span: Span) {
        let has = |kind: &str| self.nodes.contains(&(kind, span.start as usize, span.end as usize));
        // A string may be raw, and an integer that does not fit an int is a float.
        let known = has(kind) || kind == "string" && has("raw_string") || kind == "float" && has("integer");
        if !known && self.missing.is_none() {
            self.missing = Some((kind, span));
        }
    }
}

impl<'a> Visitor<'a> for Compare<'_> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        // The statement is generated for a parameter that is written as a pattern.
        if let StmtKind::Let { value, pattern, .. } = &stmt.kind
            && value.span == pattern.span
        {
            return self.pattern(pattern);
        }
        if let Some(kind) = statement(&stmt.kind) {
            self.expect(kind, stmt.span);
        }
        walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.expect(expression(&expr.kind), expr.span);
        walk_expr(self, expr);
    }
}

fn statement(kind: &StmtKind) -> Option<&'static str> {
    Some(match kind {
        StmtKind::Let { .. } => "let",
        StmtKind::Assign { .. } => "assignment",
        StmtKind::For { .. } => "for",
        StmtKind::While { .. } => "while",
        StmtKind::Guard { .. } => "guard",
        StmtKind::Require { .. } => "require",
        StmtKind::Return(_) => "return",
        StmtKind::Throw(_) => "throw",
        StmtKind::Break => "break",
        StmtKind::Continue => "continue",
        StmtKind::Yield(_) => "yield",
        StmtKind::Emit(_) => "emit",
        StmtKind::Defer(_) => "defer",
        StmtKind::Mutex(_) => "mutex",
        StmtKind::Override { .. } => "override",
        StmtKind::Import(_) => "import",
        StmtKind::Decl(decl) => match decl.kind {
            DeclKind::Fn(_) => "function",
            DeclKind::Pipeline(_) => "pipeline",
            DeclKind::Tool(_) => "tool",
            DeclKind::Skill(_) => "skill",
            DeclKind::EvalPack(_) => "eval_pack",
            DeclKind::Enum(_) => "enum",
            DeclKind::Struct(_) => "struct",
            DeclKind::Type(_) => "type_alias",
            DeclKind::Interface(_) => "interface",
            DeclKind::Impl(_) => "impl",
        },
        // The expression determines the form.
        _ => return None,
    })
}

fn expression(kind: &ExprKind) -> &'static str {
    match kind {
        ExprKind::Nil => "nil",
        ExprKind::Bool(_) => "boolean",
        ExprKind::Int(_) => "integer",
        ExprKind::Float(_) => "float",
        ExprKind::Duration(_) => "duration",
        ExprKind::Str(_) | ExprKind::Interp(_) => "string",
        ExprKind::Name(_) => "identifier",
        ExprKind::Paren(_) => "parenthesized",
        ExprKind::List(_) => "list",
        ExprKind::Dict(_) => "dict",
        ExprKind::StructLit { .. } => "struct_literal",
        ExprKind::Closure { is_fn: true, .. } => "anonymous_function",
        ExprKind::Closure { .. } => "closure",
        ExprKind::If { .. } => "if",
        ExprKind::Match { .. } => "match",
        ExprKind::Try { .. } => "try",
        ExprKind::TryStar(_) | ExprKind::Unary { .. } => "unary",
        ExprKind::Retry { .. } => "retry",
        ExprKind::Deadline { .. } => "deadline",
        ExprKind::Spawn(_) => "spawn",
        ExprKind::Parallel(_) => "parallel",
        ExprKind::Select(_) => "select",
        ExprKind::Binary { .. } | ExprKind::Logic { .. } => "binary",
        ExprKind::Ternary { .. } => "ternary",
        ExprKind::Range { .. } => "range",
        ExprKind::Pipe { .. } => "pipe",
        ExprKind::Call { .. } | ExprKind::MethodCall { .. } => "call",
        ExprKind::Member { .. } => "member",
        ExprKind::Index { .. } => "index",
        ExprKind::Slice { .. } => "slice",
        ExprKind::Propagate { .. } => "propagate",
        ExprKind::Error => "ERROR",
    }
}
