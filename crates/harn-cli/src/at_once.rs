//! Detects findings that the program's own run-time error would repeat immediately, so that they are reported once.

use harn_syntax::Span;
use harn_syntax::ast::{Expr, ExprKind, Program, Stmt, StmtKind};
use harn_syntax::visit::{Visitor, walk_expr, walk_stmt};

/// Builtins with negligible run time.
const QUICK: [&str; 8] =
    ["println", "print", "eprintln", "len", "to_string", "to_int", "json_parse", "json_stringify"];

/// The program's statements that run without slow statements before them.
pub(crate) struct AtOnce<'a>(&'a [Stmt]);

impl<'a> AtOnce<'a> {
    pub(crate) fn of(tree: &'a Program, entry: Option<&str>) -> AtOnce<'a> {
        let pipelines = || tree.pipelines().map(|(_, pipeline)| pipeline);
        let stmts: &[Stmt] =
            match pipelines().find(|pipeline| pipeline.name.name == entry.unwrap_or("default")) {
                Some(pipeline) => &pipeline.func.body.stmts,
                None if pipelines().next().is_none() => &tree.items,
                None => &[],
            };
        let takes_time = |stmt: &Stmt| {
            let mut look = Look { place: None, found: false };
            look.stmt(stmt);
            look.found
        };
        let end = stmts.iter().position(takes_time).map_or(stmts.len(), |at| at + 1);
        AtOnce(&stmts[..end])
    }

    /// Whether execution reaches `place` unconditionally, without slow code before it.
    pub(crate) fn reaches(&self, place: Span) -> bool {
        let at = self.0.partition_point(|stmt| stmt.span.end < place.end);
        let Some(stmt) = self.0.get(at).filter(|stmt| holds(stmt.span, place)) else { return false };
        let plain = matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Expr(_));
        let mut look = Look { place: Some(place), found: false };
        look.stmt(stmt);
        plain && !look.found
    }
}

fn holds(span: Span, place: Span) -> bool {
    span.start <= place.start && place.end <= span.end
}

/// Searches for a branch around a place, or, without a place, for slow code.
struct Look {
    place: Option<Span>,
    found: bool,
}

impl<'a> Visitor<'a> for Look {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Decl(_) | StmtKind::Import(_) => return,
            StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Expr(_) => {}
            _ => self.found = true,
        }
        walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        let branches = matches!(
            expr.kind,
            ExprKind::Closure { .. }
                | ExprKind::If { .. }
                | ExprKind::Match { .. }
                | ExprKind::Try { .. }
                | ExprKind::TryStar(_)
                | ExprKind::Retry { .. }
                | ExprKind::Deadline { .. }
                | ExprKind::Spawn(_)
                | ExprKind::Parallel(_)
                | ExprKind::Select(_)
                | ExprKind::Logic { .. }
                | ExprKind::Ternary { .. }
        );
        self.found |= match self.place {
            Some(place) => branches && holds(expr.span, place),
            None => match &expr.kind {
                ExprKind::Call { callee, .. } => {
                    !matches!(&callee.kind, ExprKind::Name(name) if QUICK.contains(&name.as_str()))
                }
                _ => branches && !matches!(expr.kind, ExprKind::Closure { .. }),
            },
        };
        walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the code reaches `missing` immediately.
    fn at_once(text: &str) -> bool {
        let tree = harn_syntax::parse(text).program;
        let start = text.find("missing").unwrap() as u32;
        AtOnce::of(&tree, None).reaches(Span { start, end: start + 7 })
    }

    #[test]
    fn straight_ways_are_told_from_branches_and_waits() {
        for text in [
            "missing = 1",
            "let a = 1\nprintln(a)\nprintln(missing)",
            "fn f() { return 1 }\nlet x = [1].map({ n -> n + 1 })\nx.missing()",
            "pipeline default(task) { println(missing) }",
        ] {
            assert!(at_once(text), "{text}");
        }
        for text in [
            "fn f() { missing }",
            "if a { missing }",
            "let r = llm_call(\"x\")\nprintln(missing)",
            "while true { }\nmissing",
            "let f = { -> missing }",
            "a() && missing",
            "let t = spawn { missing }",
            "pipeline other(task) { println(missing) }",
        ] {
            assert!(!at_once(text), "{text}");
        }
    }
}
