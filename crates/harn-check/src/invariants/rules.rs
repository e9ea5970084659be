//! The rules of the invariants.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use harn_syntax::ast::*;

use super::unknown;

/// An invariant with its arguments.
pub(super) enum Rule {
    /// `fs.writes`: files are written in these paths only.
    Writes { globs: GlobSet, shown: Vec<String> },
    /// `budget.remaining`: this variable never grows.
    Budget { target: String },
    /// `approval.reachability`: an approval precedes every effect.
    Approval,
}

/// Name, message and help.
type Wrong = (String, String, String);

impl Rule {
    /// Parses an attribute whose first argument names the invariant.
    pub(super) fn read(attr: &Attribute, first: &AttrArg) -> Result<(String, Rule), Wrong> {
        let name = match (&first.name, &first.value) {
            (None, AttrValue::Str(name)) => name.to_string(),
            _ => {
                let message = "the first argument of `@invariant` is the name of an invariant, a text";
                let help = "write it as in `@invariant(\"fs.writes\", \"out/**\")`";
                return Err(("invariant".to_owned(), message.to_owned(), help.to_owned()));
            }
        };
        let args = &attr.args[1..];
        let wrong = |message: String, help: &str| (name.clone(), message, help.to_owned());
        let takes = |allowed: &[&str], positional: bool, help: &str| {
            let odd = args.iter().find(|arg| match &arg.name {
                Some(name) => !allowed.contains(&name.name.as_str()),
                None => !positional,
            });
            match odd.map(|arg| &arg.name) {
                None => Ok(()),
                Some(Some(odd)) => Err(wrong(format!("`{name}` takes no argument `{}`", odd.name), help)),
                Some(None) => Err(wrong(format!("`{name}` takes no argument without a name"), help)),
            }
        };
        let rule = match name.as_str() {
            "fs.writes" => {
                let help = "give it globs of paths: `@invariant(\"fs.writes\", \"out/**\")`, `allow: [...]`";
                takes(&["allow", "glob", "path_glob"], true, help)?;
                let mut shown = Vec::new();
                for arg in args {
                    texts(&arg.value, &mut shown)
                        .ok_or_else(|| wrong("a glob of `fs.writes` must be a text".to_owned(), help))?;
                }
                let mut set = GlobSetBuilder::new();
                for glob in &shown {
                    let glob = normal(glob);
                    let parsed = GlobBuilder::new(&glob).literal_separator(true).build();
                    set.add(
                        parsed.map_err(|why| wrong(format!("`{glob}` is no glob: {}", why.kind()), help))?,
                    );
                }
                let globs =
                    set.build().map_err(|why| wrong(format!("the globs are too large: {why}"), help))?;
                Rule::Writes { globs, shown }
            }
            "budget.remaining" => {
                let help = "name the variable: `@invariant(\"budget.remaining\", target: left)`";
                takes(&["target"], false, help)?;
                match args {
                    [AttrArg { value: AttrValue::Str(target) | AttrValue::Name(target), .. }] => {
                        Rule::Budget { target: target.to_string() }
                    }
                    [] => return Err(wrong("`budget.remaining` needs a `target`".to_owned(), help)),
                    _ => {
                        let message = "`target` of `budget.remaining` must be the name of one variable";
                        return Err(wrong(message.to_owned(), help));
                    }
                }
            }
            "approval.reachability" => {
                takes(&[], false, "write only `@invariant(\"approval.reachability\")`")?;
                Rule::Approval
            }
            _ => {
                let (message, help) = unknown(&name);
                return Err((name, message, help));
            }
        };
        Ok((name, rule))
    }
}

/// Collects the strings of an argument.
fn texts(value: &AttrValue, out: &mut Vec<String>) -> Option<()> {
    match value {
        AttrValue::Str(text) => out.push(text.to_string()),
        AttrValue::List(values) => {
            for value in values {
                texts(value, out)?;
            }
        }
        _ => return None,
    }
    Some(())
}

/// Normalizes a path; a leading `..` remains.
pub(super) fn normal(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Returns whether an assigned value is not larger than the current one, or than the remaining budget.
pub(super) fn never_grows(value: &Expr, variable: &str, is_builtin: &dyn Fn(&Expr) -> bool) -> bool {
    let same = |value: &Expr| never_grows(value, variable, is_builtin);
    match &value.kind {
        ExprKind::Name(name) => name == variable,
        ExprKind::Int(0) => true,
        ExprKind::Float(number) => *number == 0.0,
        ExprKind::Paren(inner) => same(inner),
        ExprKind::Binary { op, lhs, rhs, .. } => same(lhs) && shrinks(*op, rhs),
        ExprKind::Logic { op: LogicOp::Coalesce, lhs, rhs, .. } => same(lhs) && same(rhs),
        ExprKind::Ternary { then, other, .. } => same(then) && same(other),
        ExprKind::Call { callee, args, .. } => match callee.as_name().map(|name| &**name) {
            Some("llm_budget_remaining") => is_builtin(callee),
            Some("min") if is_builtin(callee) => args.iter().any(|arg| !arg.spread && same(&arg.value)),
            Some("max") if is_builtin(callee) => {
                !args.is_empty() && args.iter().all(|arg| !arg.spread && same(&arg.value))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether an operator with this right side does not increase a non-negative number.
pub(super) fn shrinks(op: BinaryOp, rhs: &Expr) -> bool {
    match (op, literal(rhs)) {
        (BinaryOp::Sub, Some(number)) => number >= 0.0,
        // Spending is measured, and not negative.
        (BinaryOp::Sub, None) => !matches!(rhs.kind, ExprKind::Unary { op: UnaryOp::Neg, .. }),
        (BinaryOp::Mul, Some(number)) => (0.0..=1.0).contains(&number),
        (BinaryOp::Div, Some(number)) => number >= 1.0,
        _ => false,
    }
}

fn literal(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Int(number) => Some(*number as f64),
        ExprKind::Float(number) => Some(*number),
        ExprKind::Paren(inner) => literal(inner),
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => literal(operand).map(|number| -number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_straight() {
        for (path, straight) in [
            ("out/a.txt", "out/a.txt"),
            ("./out//a.txt", "out/a.txt"),
            ("out/../etc/x", "etc/x"),
            ("out/../../x", "../x"),
            ("/a/./b", "/a/b"),
            ("a\\b", "a/b"),
        ] {
            assert_eq!(normal(path), straight);
        }
    }
}
