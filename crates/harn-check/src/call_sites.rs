//! Finds the calls of builtins in a program, with their literal arguments.

use harn_syntax::Span;
use harn_syntax::ast::*;
use harn_syntax::signature::GivenOption;
use harn_syntax::visit::{self, Visitor};
use rustc_hash::FxHashSet;

use crate::checks::wrong_call::given_options;

/// A call of a builtin.
#[derive(Debug)]
pub struct CallSite {
    /// The builtin.
    pub name: String,
    /// The span of the call.
    pub span: Span,
    /// The arguments in order, up to a spread one.
    pub args: Vec<SiteArgument>,
}

/// The literal content of an argument.
#[derive(Debug, Default)]
pub struct SiteArgument {
    /// The literal parts of a string, joined.
    pub text: String,
    /// Whether the argument is complete: a string without interpolation, or nil.
    pub is_whole: bool,
    /// The entries of a dict.
    pub options: Vec<GivenOption>,
    /// Whether the dict has no other entries, and all its values are literals.
    pub is_complete: bool,
}

/// Returns the calls of the builtins that are `wanted`, in source order. Functions of the program with the same name
/// are not included.
pub fn call_sites(tree: &Program, wanted: impl Fn(&str) -> bool) -> Vec<CallSite> {
    let mut own = Declared(FxHashSet::default());
    own.stmts(&tree.items);
    let mut sites = Sites { own: own.0, wanted: &wanted, found: Vec::new() };
    sites.stmts(&tree.items);
    let mut found = sites.found;
    found.sort_by_key(|site| site.span.start);
    found
}

/// The functions that the program declares.
struct Declared<'a>(FxHashSet<&'a str>);

impl<'a> Visitor<'a> for Declared<'a> {
    fn decl(&mut self, decl: &'a Decl) {
        if let DeclKind::Fn(declared) = &decl.kind {
            self.0.insert(&declared.name.name);
        }
        visit::walk_decl(self, decl);
    }
}

struct Sites<'a, 'w> {
    own: FxHashSet<&'a str>,
    wanted: &'w dyn Fn(&str) -> bool,
    found: Vec<CallSite>,
}

impl<'a> Visitor<'a> for Sites<'a, '_> {
    fn expr(&mut self, expr: &'a Expr) {
        if let ExprKind::Call { callee, args, .. } = &expr.kind
            && let Some(name) = callee.as_name()
            && !self.own.contains(&**name)
            && (self.wanted)(name)
        {
            let args = args.iter().take_while(|arg| !arg.spread).map(|arg| argument(&arg.value)).collect();
            self.found.push(CallSite { name: name.to_string(), span: expr.span, args });
        }
        visit::walk_expr(self, expr);
    }
}

fn argument(value: &Expr) -> SiteArgument {
    match &value.kind {
        ExprKind::Paren(inner) => argument(inner),
        ExprKind::Nil => SiteArgument { is_whole: true, is_complete: true, ..SiteArgument::default() },
        ExprKind::Str(text) => {
            SiteArgument { text: text.to_string(), is_whole: true, ..SiteArgument::default() }
        }
        ExprKind::Interp(parts) => {
            let literal = parts.iter().filter_map(|part| match part {
                StrPart::Text(text) => Some(&**text),
                StrPart::Expr(_) => None,
            });
            SiteArgument { text: literal.collect(), ..SiteArgument::default() }
        }
        ExprKind::Binary { op: BinaryOp::Add, lhs, rhs, .. } => {
            let (left, right) = (argument(lhs), argument(rhs));
            let is_whole = left.is_whole && right.is_whole;
            SiteArgument { text: left.text + &right.text, is_whole, ..SiteArgument::default() }
        }
        ExprKind::Dict(items) => {
            let options = given_options(items);
            let is_complete = options.len() == items.len() && options.iter().all(|o| o.value.is_some());
            SiteArgument { options, is_complete, ..SiteArgument::default() }
        }
        _ => SiteArgument::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(text: &str) -> Vec<CallSite> {
        call_sites(&harn_syntax::parse(text).program, |name| name.starts_with("llm_"))
    }

    #[test]
    fn calls_are_found_wherever_they_stand() {
        let found = sites(
            "fn f(x) { parallel each x { y -> llm_call(\"a ${y} b\", nil, {max_tokens: 3}) } }\nlet g = { -> llm_x(...q) }",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        let args = &found[0].args;
        assert_eq!((args[0].text.as_str(), args[0].is_whole, args[1].is_whole), ("a  b", false, true));
        assert!(args[2].is_complete && args[2].options[0].name == "max_tokens");
        assert!(found[1].args.is_empty());
    }

    #[test]
    fn functions_of_the_program_are_no_builtins() {
        assert!(sites("fn llm_call(x) { x }\nllm_call(1)").is_empty());
        assert!(!sites("let o = {}\nllm_call(\"a\" + \"b\", o.s, {...o, model: m})")[0].args[2].is_complete);
    }
}
