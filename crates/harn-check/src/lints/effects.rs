//! Effects at forbidden places, or without a required check.

use harn_syntax::ast::*;
use harn_syntax::signature::Effect;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Span};

use crate::checks::block_exits;
use crate::codes::{CONNECTOR, SECRET_SCAN};
use crate::invariants::written_paths;
use crate::world::Signatures;

/// Runs the rules of this file.
pub(super) fn run(tree: &Program, signatures: &dyn Signatures) -> Vec<Diagnostic> {
    let mut search = Search { signatures, scanned: false, export: None, out: Vec::new() };
    if Search::is_connector(tree) {
        search.connector(tree);
    }
    search.stmts(&tree.items);
    search.out
}

/// Prefixes of builtins that use the network: forbidden while a message is normalized.
const NETWORK: &[&str] = &["connector_call", "http_", "mcp_", "sse_", "websocket_"];

struct Search<'a> {
    signatures: &'a dyn Signatures,
    /// A scan for secrets was executed on every path to this place.
    scanned: bool,
    /// The enclosing export of a connector.
    export: Option<&'a str>,
    out: Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    fn report(&mut self, rule: &'static str, span: Span, message: String, help: &str) {
        let found = Diagnostic::warning(message).with_code(rule).with_label(span, format!("lint[{rule}]"));
        self.out.push(found.with_help(help));
    }

    /// The public functions of a file.
    fn exports(tree: &'a Program) -> impl Iterator<Item = &'a FnDecl> {
        tree.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Decl(decl) if decl.is_pub => match &decl.kind {
                DeclKind::Fn(function) => Some(function),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns whether a file is a connector: other files may also have functions named `call` and `activate`.
    fn is_connector(tree: &'a Program) -> bool {
        Self::exports(tree).any(|decl| matches!(decl.name.name.as_str(), "normalize_inbound" | "poll_tick"))
    }

    fn connector(&mut self, tree: &'a Program) {
        for decl in Self::exports(tree) {
            let name = decl.name.name.as_str();
            if matches!(name, "normalize_inbound" | "poll_tick" | "call" | "activate") {
                self.export = Some(name);
                let before = self.out.len();
                self.block(&decl.func.body);
                // The walk over the file finds the others.
                let found = self.out.split_off(before);
                self.out.extend(found.into_iter().filter(|found| found.code == CONNECTOR));
            }
        }
        self.export = None;
        self.scanned = false;
    }

    /// Returns whether exports of a connector must not call a builtin: it calls models, runs a program or writes a file.
    fn is_forbidden(&self, name: &str) -> bool {
        let reaches_network = NETWORK.iter().any(|start| name.starts_with(start));
        written_paths(name).is_some()
            || self.signatures.builtin(name).is_some_and(|builtin| match builtin.effect {
                Effect::Keep => true,
                Effect::Process => builtin.waits && !reaches_network,
                _ => builtin.calls_models(),
            })
    }

    fn call(&mut self, expr: &Expr, name: &str, args: &[Arg]) {
        let asked = |wanted: &[&str]| {
            let last = |text: &str| {
                let word = text.rsplit([':', '.', '/']).next().unwrap_or(text);
                wanted.contains(&word.rsplit("__").next().unwrap_or(word))
            };
            args.iter().any(|arg| matches!(&arg.value.kind, ExprKind::Str(text) if last(text)))
        };
        let foreign = matches!(name, "mcp_call" | "host_tool_call");
        if name == "secret_scan" || (foreign && asked(&["secret_scan"])) {
            self.scanned = true;
        } else if foreign && !self.scanned && asked(&["push_pr", "create_pr"]) {
            self.report(
                SECRET_SCAN,
                expr.span,
                "a pull request is opened, and nothing has looked for secrets before".to_owned(),
                "call `secret_scan` on what it publishes first",
            );
        }
        if let Some(export) = self.export {
            let network =
                export == "normalize_inbound" && NETWORK.iter().any(|start| name.starts_with(start));
            let waits = export == "normalize_inbound" && name == "sleep";
            if network || waits || self.is_forbidden(name) {
                let message = format!("`{export}` of a connector calls `{name}`");
                let help = "connectors bring messages in and out; leave this to the handler of the trigger";
                self.report(CONNECTOR, expr.span, message, help);
            }
        }
    }
}

impl<'a> Visitor<'a> for Search<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        let before = self.scanned;
        visit::walk_stmt(self, stmt);
        // A loop may not run at all.
        if matches!(stmt.kind, StmtKind::For { .. } | StmtKind::While { .. }) {
            self.scanned = before;
        }
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        let before = self.scanned;
        visit::walk_function(self, func);
        self.scanned = before;
    }

    fn decl(&mut self, decl: &'a Decl) {
        let before = std::mem::take(&mut self.scanned);
        visit::walk_decl(self, decl);
        self.scanned = before;
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::If { arms, else_body } => {
                let mut all = true;
                for arm in arms {
                    self.expr(&arm.cond);
                    let asked = self.scanned;
                    self.block(&arm.body);
                    all &= self.scanned || block_exits(&arm.body);
                    self.scanned = asked;
                }
                let asked = self.scanned;
                else_body.iter().for_each(|body| self.block(body));
                let last = else_body.as_ref();
                self.scanned = asked || (all && last.is_some_and(|body| self.scanned || block_exits(body)));
            }
            ExprKind::Match { value, arms } => {
                self.expr(value);
                let before = self.scanned;
                let mut all = true;
                for arm in arms {
                    self.match_arm(arm);
                    all &= self.scanned || block_exits(&arm.body);
                    self.scanned = before;
                }
                self.scanned = before || (all && !arms.is_empty());
            }
            ExprKind::Try { body, catch, finally } => {
                let before = self.scanned;
                self.block(body);
                let mut after = self.scanned;
                if let Some(catch) = catch {
                    self.scanned = before;
                    self.catch(catch);
                    after &= self.scanned || block_exits(&catch.body);
                }
                self.scanned = after;
                finally.iter().for_each(|block| self.block(block));
            }
            ExprKind::Ternary { cond, then, other } => {
                self.expr(cond);
                let before = self.scanned;
                self.expr(then);
                let first = std::mem::replace(&mut self.scanned, before);
                self.expr(other);
                self.scanned &= first;
            }
            ExprKind::Logic { lhs, rhs, .. } => {
                self.expr(lhs);
                let before = self.scanned;
                self.expr(rhs);
                self.scanned = before;
            }
            ExprKind::Call { callee, args, .. } => {
                visit::walk_expr(self, expr);
                if let Some(name) = callee.as_name() {
                    self.call(expr, name, args);
                }
            }
            _ => visit::walk_expr(self, expr),
        }
    }
}
