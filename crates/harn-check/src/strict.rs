//! Strict types: parts of untrusted values are used only after the whole value was validated.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};
use rustc_hash::FxHashMap;

use crate::codes::UNVALIDATED;
use crate::scope::names_of;
use crate::types::type_text;

/// Builtins with untrusted results.
const BOUNDARIES: [&str; 26] = [
    "connector_call",
    "host_call",
    "host_tool_call",
    "http_delete",
    "http_download",
    "http_get",
    "http_patch",
    "http_post",
    "http_put",
    "http_request",
    "http_session_request",
    "http_stream_info",
    "json_extract",
    "json_parse",
    "llm_call",
    "llm_call_safe",
    "llm_completion",
    "mcp_call",
    "sse_receive",
    "sse_server_mock_receive",
    "sse_server_response",
    "sse_server_status",
    "toml_parse",
    "websocket_accept",
    "websocket_receive",
    "yaml_parse",
];

/// Returns the findings of strict types.
pub fn strict_types(tree: &Program) -> Vec<Diagnostic> {
    let mut pass = Strict { scopes: vec![FxHashMap::default()], out: Vec::new() };
    pass.stmts(&tree.items);
    pass.out
}

struct Strict<'a> {
    /// For each block, its variables with the call that produced their untrusted value; `None` for trusted ones.
    scopes: Vec<FxHashMap<&'a str, Option<&'a str>>>,
    out: Vec<Diagnostic>,
}

impl<'a> Strict<'a> {
    fn report(&mut self, message: String, span: Span) {
        let help = "validate it first: annotate the variable, or use `schema_expect` or `schema_is`";
        self.out.push(Diagnostic::warning(message).with_code(UNVALIDATED).at(span).with_help(help));
    }

    fn bind(&mut self, name: &'a str, from: Option<&'a str>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, from);
        }
    }

    /// Returns the call that produced the untrusted value of a variable.
    fn origin(&self, name: &str) -> Option<&'a str> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied()).flatten()
    }

    /// Returns the call that produced the untrusted value of an expression.
    fn source(&self, expr: &'a Expr) -> Option<&'a str> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.source(inner),
            ExprKind::Name(name) => self.origin(name),
            _ => boundary(expr),
        }
    }

    fn access(&mut self, object: &'a Expr, span: Span, property: bool) {
        let inner = match &object.kind {
            ExprKind::Paren(inner) => inner,
            _ => object,
        };
        if let Some(call) = boundary(inner) {
            let what = if property { "property" } else { "subscript" };
            self.report(format!("Direct {what} access on unvalidated `{call}()` result"), span);
        } else if let Some(name) = inner.as_name()
            && let Some(call) = self.origin(name)
        {
            let what = if property { "Accessing property" } else { "Subscript access" };
            self.report(format!("{what} on unvalidated value '{name}' from `{call}`"), span);
        }
    }

    /// Collects the variables that a condition validates if it is true.
    fn tested(cond: &'a Expr, found: &mut Vec<&'a str>) {
        match &cond.kind {
            ExprKind::Paren(inner) => Self::tested(inner, found),
            ExprKind::Logic { op: LogicOp::And, lhs, rhs, .. } => {
                Self::tested(lhs, found);
                Self::tested(rhs, found);
            }
            ExprKind::Call { callee, args, .. } => {
                let name = callee.as_name().map_or("", |name| name.as_str());
                if let ("schema_is" | "is_type", [value, _]) = (name, args.as_slice()) {
                    found.extend(value.value.as_name().map(|name| name.as_str()));
                }
            }
            _ => {}
        }
    }

    fn with_clean(&mut self, cond: &'a Expr, body: impl FnOnce(&mut Self)) {
        let mut names = Vec::new();
        Self::tested(cond, &mut names);
        self.scopes.push(names.into_iter().map(|name| (name, None)).collect());
        body(self);
        self.scopes.pop();
    }
}

/// Returns the name of a called boundary.
pub(crate) fn boundary(expr: &Expr) -> Option<&str> {
    let ExprKind::Call { callee, args, .. } = &expr.kind else { return None };
    let name = callee.as_name()?.as_str();
    let known = BOUNDARIES.contains(&name);
    let has_schema = |arg: &Arg| {
        match &arg.value.kind {
        ExprKind::Dict(items) => items.iter().any(|item| {
            matches!(item, DictItem::Entry { key, .. } if matches!(key.name.as_str(), "schema" | "output_schema"))
        }),
        _ => false,
    }
    };
    (known && !(name.starts_with("llm_") && args.iter().any(has_schema))).then_some(name)
}

impl<'a> Visitor<'a> for Strict<'a> {
    fn block(&mut self, block: &'a Block) {
        self.scopes.push(FxHashMap::default());
        self.stmts(&block.stmts);
        self.scopes.pop();
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, ty, value, .. } => {
                visit::walk_stmt(self, stmt);
                let concrete = ty
                    .as_ref()
                    .is_some_and(|ty| !matches!(type_text(ty).as_str(), "any" | "dict" | "unknown" | "list"));
                let from = if concrete { None } else { self.source(value) };
                match &pattern.kind {
                    PatternKind::Name(name) => self.bind(&name.name, from),
                    _ => names_of(pattern, &mut |name| self.bind(&name.name, None)),
                }
                return;
            }
            StmtKind::Assign { target, op: None, value, .. } if target.path.is_empty() => {
                visit::walk_stmt(self, stmt);
                let from = self.source(value);
                self.bind(&target.root.name, from);
                return;
            }
            StmtKind::Guard { cond, .. } => {
                visit::walk_stmt(self, stmt);
                let mut names = Vec::new();
                Self::tested(cond, &mut names);
                names.into_iter().for_each(|name| self.bind(name, None));
                return;
            }
            StmtKind::Require { cond, .. } => {
                let mut names = Vec::new();
                Self::tested(cond, &mut names);
                names.into_iter().for_each(|name| self.bind(name, None));
            }
            StmtKind::While { cond, body } => {
                self.expr(cond);
                return self.with_clean(cond, |pass| pass.block(body));
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Member { object, name, .. } => self.access(object, name.span, true),
            ExprKind::Index { object, op_span, .. } => self.access(object, *op_span, false),
            ExprKind::If { arms, else_body } => {
                for arm in arms {
                    self.expr(&arm.cond);
                    self.with_clean(&arm.cond, |pass| pass.block(&arm.body));
                }
                return else_body.iter().for_each(|body| self.block(body));
            }
            ExprKind::Ternary { cond, then, other } => {
                self.expr(cond);
                self.with_clean(cond, |pass| pass.expr(then));
                return self.expr(other);
            }
            ExprKind::Call { callee, args, .. } => {
                visit::walk_expr(self, expr);
                if callee.as_name().is_some_and(|name| name == "schema_expect")
                    && let Some(name) = args.first().and_then(|arg| arg.value.as_name())
                {
                    self.bind(name, None);
                }
                return;
            }
            _ => {}
        }
        visit::walk_expr(self, expr);
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        self.scopes.push(func.params.iter().map(|param| (param.name.name.as_str(), None)).collect());
        visit::walk_function(self, func);
        self.scopes.pop();
    }
}
