//! Risky or misplaced calls of builtins.

use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use crate::codes::{APPROVAL, ASSERT_OUTSIDE, CLEANUP, INJECTION, REQUIRE_IN_TEST, UNTYPED_ACCESS};
use crate::strict::boundary;

/// Runs the rules of this file.
pub(super) fn run(tree: &Program) -> Vec<Diagnostic> {
    let mut rules = Rules { out: Vec::new(), has_tests: tree.pipelines().any(is_test), in_test: false };
    rules.unread(&tree.items);
    rules.stmts(&tree.items);
    rules.out
}

fn is_test((decl, pipeline): (&Decl, &PipelineDecl)) -> bool {
    let name = pipeline.name.name.as_str();
    name == "test" || name.starts_with("test_") || decl.attrs.iter().any(|attr| attr.name.name == "test")
}

struct Rules {
    out: Vec<Diagnostic>,
    /// The file has tests, so that its functions may be their helpers.
    has_tests: bool,
    in_test: bool,
}

impl Rules {
    fn report(&mut self, rule: &'static str, span: Span, message: &str, help: &str) {
        let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
        self.out.push(found.with_help(help));
    }

    fn call(&mut self, expr: &Expr, name: &str, args: &[Arg]) {
        match (name, args) {
            ("assert" | "assert_eq" | "assert_ne", _) if !self.has_tests => self.report(
                ASSERT_OUTSIDE,
                expr.span,
                &format!("`{name}` used outside of a test"),
                "use `require` in programs; tests are pipelines named `test_...`",
            ),
            ("llm_call", [_, system, ..]) if has_value(&system.value) => self.report(
                INJECTION,
                system.value.span,
                "a system prompt with values put in: who writes them, writes instructions",
                "keep the system prompt fixed, and pass values in the prompt or through a template",
            ),
            _ => {}
        }
    }

    /// Checks the use of a part of an untrusted value. The results of model calls and requests are dicts with known
    /// keys; only data that a model wrote is untrusted.
    fn part(&mut self, object: &Expr, span: Span, key: Option<&str>) {
        let object = match &object.kind {
            ExprKind::Paren(inner) => inner,
            _ => object,
        };
        let Some(call) = boundary(object) else { return };
        let known = ["http_", "llm_", "sse_", "websocket_"].iter().any(|start| call.starts_with(start));
        if known && !(call.starts_with("llm_") && key == Some("data")) {
            return;
        }
        self.report(
            UNTYPED_ACCESS,
            span,
            &format!("a part of the result of `{call}` is used before the result is validated"),
            "assign the result to a variable with a type, or use `schema_expect`",
        );
    }

    /// Checks statements whose value is unused. The last one of a block is the value of the block.
    fn unread<'a>(&mut self, stmts: impl IntoIterator<Item = &'a Stmt>) {
        for stmt in stmts {
            if let StmtKind::Expr(Expr { kind: ExprKind::Call { callee, .. }, span }) = &stmt.kind
                && callee.as_name().is_some_and(|name| name == "request_approval")
            {
                self.report(
                    APPROVAL,
                    *span,
                    "the result of `request_approval` is never used",
                    "use the result, for example in a condition",
                );
            }
        }
    }

    /// Reports a long-running command in a body that never cancels it.
    fn long_running(&mut self, body: &Block) {
        struct Search {
            started: Vec<Span>,
            cancels: bool,
        }
        impl<'a> Visitor<'a> for Search {
            fn expr(&mut self, expr: &'a Expr) {
                if let ExprKind::Call { callee, args, .. } = &expr.kind {
                    self.cancels |= callee.as_name().is_some_and(|name| name == "cancel_handle");
                    let left_running = |arg: &Arg| {
                        match &arg.value.kind {
                        ExprKind::Dict(items) => items.iter().any(|item| {
                            matches!(item, DictItem::Entry { key, value: Expr { kind: ExprKind::Bool(true), .. } }
                                if matches!(key.name.as_str(), "long_running" | "background"))
                        }),
                        _ => false,
                    }
                    };
                    if args.iter().any(left_running) {
                        self.started.push(expr.span);
                    }
                }
                visit::walk_expr(self, expr);
            }
        }
        let mut search = Search { started: Vec::new(), cancels: false };
        search.block(body);
        if !search.cancels {
            for span in search.started {
                self.report(
                    CLEANUP,
                    span,
                    "what is started here goes on after this body",
                    "keep its handle, and call `cancel_handle` in a `defer` or `finally`",
                );
            }
        }
    }
}

/// Returns whether a string has interpolations.
fn has_value(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Interp(parts) => parts.iter().any(|part| matches!(part, StrPart::Expr(_))),
        ExprKind::Paren(inner) => has_value(inner),
        _ => false,
    }
}

impl<'a> Visitor<'a> for Rules {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Require { .. } if self.in_test => self.report(
                REQUIRE_IN_TEST,
                stmt.span,
                "`require` stands in a test",
                "`assert` and `assert_eq` show the values when they fail",
            ),
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => self.unread(body.stmts.last()),
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn block(&mut self, block: &'a Block) {
        if let Some((_, before)) = block.stmts.split_last() {
            self.unread(before);
        }
        self.stmts(&block.stmts);
    }

    fn decl(&mut self, decl: &'a Decl) {
        let before = self.in_test;
        if let DeclKind::Pipeline(pipeline) = &decl.kind {
            self.in_test = is_test((decl, pipeline));
            self.long_running(&pipeline.func.body);
            self.unread(pipeline.func.body.stmts.last());
        }
        if let DeclKind::Fn(function) = &decl.kind {
            self.long_running(&function.func.body);
        }
        visit::walk_decl(self, decl);
        self.in_test = before;
    }

    fn expr(&mut self, expr: &'a Expr) {
        if let ExprKind::Call { callee, args, .. } = &expr.kind
            && let Some(name) = callee.as_name()
        {
            self.call(expr, name, args);
        }
        match &expr.kind {
            ExprKind::Member { object, name, .. } => self.part(object, name.span, Some(&name.name)),
            ExprKind::Index { object, index, .. } => match &index.kind {
                ExprKind::Str(key) => self.part(object, index.span, Some(key)),
                _ => self.part(object, index.span, None),
            },
            _ => {}
        }
        visit::walk_expr(self, expr);
    }
}
