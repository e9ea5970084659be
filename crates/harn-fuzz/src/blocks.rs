//! Rewrites expressions of a program to equivalent ones: `e` becomes `(if true { e } else { nil })`, `{ -> e }()`,
//! or `[e][0]`.
//!
//! The value of an operand must not depend on whether its neighbours contain statements, and a variable must not
//! depend on whether a function has captured it. A compiler that stores intermediate results in registers can
//! violate this without an error.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use harn_syntax::ast::*;
use harn_syntax::parse;
use harn_syntax::span::Span;
use harn_syntax::visit::{self, Visitor};

use crate::rng::Rng;

/// Expression templates that preserve the value; the last two only for expressions without control flow.
const FORMS: [(&str, &str); 4] = [
    ("(if true { ", " } else { nil })"),
    ("(match 1 { 1 -> { ", " } })"),
    ("({ -> ", " })()"),
    ("[", "][0]"),
];

/// Rewrites some expressions of a program; the selection depends on its source and the round.
pub(crate) fn rewritten(text: &str, round: u64) -> String {
    let parsed = parse(text);
    if !parsed.errors.is_empty() {
        return text.to_owned();
    }
    let mut found = Values { text, spans: Vec::new(), assigned: HashSet::new(), fixed: HashSet::new() };
    found.stmts(&parsed.program.items);
    found.assigned.retain(|name| !found.fixed.contains(name));
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let mut rng = Rng::new(hasher.finish(), round);
    // From the end, so that earlier offsets remain valid; expressions around a rewritten one are not changed.
    found.spans.sort_by_key(|(span, _)| std::cmp::Reverse((span.start, span.end)));
    let mut out = text.to_owned();
    let mut from = text.len();
    for (span, plain) in std::mem::take(&mut found.spans) {
        let (start, end) = (span.start as usize, span.end as usize);
        if end > from || rng.below(3) != 0 {
            continue;
        }
        let expr = &text[start..end];
        let written = if found.assigned.contains(expr) && rng.chance(50) {
            // Assigns the variable its own value while a previous operand is pending.
            format!("(if true {{ let t_ = {expr}; {expr} = t_; t_ }} else {{ nil }})")
        } else {
            let (open, close) = FORMS[rng.below(if plain { 4 } else { 2 })];
            format!("{open}{expr}{close}")
        };
        let changed = format!("{}{written}{}", &out[..start], &out[end..]);
        // After a `<`, parentheses may become those of a call: `[a < b, c > (d)]` calls `a<b, c>`.
        let place = Span::new(span.start, span.start + written.len() as u32);
        if stands_at(&parse(&changed), place) {
            out = changed;
            from = start;
        }
    }
    out
}

/// Returns whether a program contains an expression with exactly this span.
fn stands_at(parsed: &harn_syntax::Parsed, place: Span) -> bool {
    struct Search(Span, bool);
    impl<'a> Visitor<'a> for Search {
        fn expr(&mut self, expr: &'a Expr) {
            self.1 |= expr.span == self.0;
            visit::walk_expr(self, expr);
        }
    }
    let mut search = Search(place, false);
    search.stmts(&parsed.program.items);
    parsed.errors.is_empty() && search.1
}

/// Collects the spans of expressions that are evaluated.
struct Values<'t> {
    text: &'t str,
    /// Each span, and whether it contains no control flow.
    spans: Vec<(Span, bool)>,
    /// Names that are assigned somewhere, and names that are declared somewhere as immutable.
    assigned: HashSet<String>,
    fixed: HashSet<String>,
}

/// Finds control flow in an expression, which must not be moved into a function.
struct Plain(bool);

impl<'a> Visitor<'a> for Plain {
    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Nil
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Duration(_)
            | ExprKind::Str(_)
            | ExprKind::Closure { .. } => {}
            ExprKind::Name(name) if name != "_" => {}
            ExprKind::Interp(_)
            | ExprKind::List(_)
            | ExprKind::Dict(_)
            | ExprKind::Paren(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Logic { .. }
            | ExprKind::Ternary { .. }
            | ExprKind::Call { .. }
            | ExprKind::MethodCall { .. }
            | ExprKind::Member { .. }
            | ExprKind::Index { .. }
            | ExprKind::Slice { .. } => visit::walk_expr(self, expr),
            _ => self.0 = false,
        }
    }
}

impl<'a> Visitor<'a> for Values<'_> {
    fn expr(&mut self, expr: &'a Expr) {
        let starts_a_line = {
            let before = &self.text[..expr.span.start as usize];
            before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty())
        };
        // An upper-case name may denote a type, a closure is named after its variable, and the result of `?` and of
        // errors with a location depends on their position.
        let is_value = match &expr.kind {
            ExprKind::Name(name) => !name.starts_with(char::is_uppercase) && name != "_",
            ExprKind::Closure { .. } | ExprKind::Error => false,
            _ => true,
        };
        if is_value && !starts_a_line {
            let mut plain = Plain(true);
            plain.expr(expr);
            self.spans.push((expr.span, plain.0));
        }
        match &expr.kind {
            // The callee or the object may be a name without a value: a builtin, a module, an enum.
            ExprKind::Call { callee, args, .. } => {
                if !matches!(callee.kind, ExprKind::Name(_) | ExprKind::Member { .. }) {
                    self.expr(callee);
                }
                args.iter().for_each(|arg| self.expr(&arg.value));
            }
            ExprKind::MethodCall { object, args, .. } => {
                if !matches!(object.kind, ExprKind::Name(_) | ExprKind::Member { .. }) {
                    self.expr(object);
                }
                args.iter().for_each(|arg| self.expr(&arg.value));
            }
            ExprKind::Member { object, .. } if matches!(object.kind, ExprKind::Name(_)) => {}
            // Strings in strings would require other quotes.
            ExprKind::Interp(_) => {}
            _ => visit::walk_expr(self, expr),
        }
    }

    fn function(&mut self, func: &'a Function, _type_params: &'a [TypeParam]) {
        self.fixed.extend(func.params.iter().map(|p| p.name.name.to_string()));
        visit::walk_function(self, func);
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => drop(self.assigned.insert(target.root.name.to_string())),
            StmtKind::Let { mutable: false, pattern, .. } => {
                if let PatternKind::Name(name) = &pattern.kind {
                    self.fixed.insert(name.name.to_string());
                }
            }
            _ => {}
        }
        let before = self.spans.len();
        visit::walk_stmt(self, stmt);
        // In its own initializer a name refers to the previous variable, except in a closure, which may call
        // itself.
        if let StmtKind::Let { pattern, value, .. } = &stmt.kind {
            let text = |span: Span| &self.text[span.start as usize..span.end as usize];
            let words = |text: &str| {
                text.split(|c: char| c != '_' && !c.is_alphanumeric()).map(str::to_owned).collect()
            };
            let (bound, read): (HashSet<String>, HashSet<String>) =
                (words(text(pattern.span)), words(text(value.span)));
            if bound.intersection(&read).any(|word| !word.is_empty()) {
                self.spans[before..].iter_mut().for_each(|(_, plain)| *plain = false);
            }
        }
    }

    fn decl(&mut self, decl: &'a Decl) {
        // Fields of tools and skills are declarations instead of code.
        if !matches!(decl.kind, DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_)) {
            visit::walk_decl(self, decl);
        }
    }

    fn match_pattern(&mut self, _pattern: &'a MatchPattern) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rewritten_and_nothing_else() {
        let text = "fn f(a) { return a + 1 }\nlet b = f(2) == {x: 3}.x\nprintln(b)\n";
        let blocks = rewritten(text, 0);
        assert_ne!(blocks, text);
        assert!(parse(&blocks).errors.is_empty(), "{blocks}");
        assert!(blocks.contains("println(") && blocks.contains("fn f(a)"), "{blocks}");
    }

    #[test]
    fn operators_stay_what_they_are() {
        let text = "let a = 1\nprintln([a < 1, a > 2])\n";
        let tree = |text: &str| format!("{:?}", parse(text).program.items);
        assert!((0..50).all(|round| !tree(&rewritten(text, round)).contains("type_args: [TypeExpr")));
    }

    #[test]
    fn an_initialiser_that_mentions_its_variable_stays_out_of_closures() {
        let text = "fn f(x) {\nvar x = x + 1\nreturn x }\nprintln(f(1))\n";
        let first = |text: String| text.lines().nth(1).map(str::to_owned);
        assert!(
            (0..50).all(|round| first(rewritten(text, round)).is_some_and(|line| !line.contains("{ -> x }")))
        );
    }

    #[test]
    fn variables_are_assigned_what_they_hold() {
        let text = "var x = 1\nx = x + 1\nlet y = x\nprintln(x + y)\n";
        let found =
            (0..20).map(|round| rewritten(text, round)).find(|text| text.contains("let t_ = x; x = t_"));
        assert!(found.is_some_and(|text| parse(&text).errors.is_empty() && !text.contains("y = t_")));
    }
}
