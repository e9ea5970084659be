//! Calls of functions of this file with too few or too many arguments.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, Expr, Function};

use crate::codes::ARGUMENT_COUNT;
use crate::scope::{Kind, Lookup};
use crate::walk::Pass;

/// Compares the arguments of a call with the parameters of what is called.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, call: &Expr, args: &[Arg], found: &Lookup<'a>) {
    let Lookup::Is(Kind::Fn(decl, _)) = found else { return };
    let (least, most) = range(&decl.func);
    let rest = decl.func.params.iter().any(|param| param.rest);
    if rest || args.iter().any(|arg| arg.spread) || (least..=most).contains(&args.len()) {
        return;
    }
    let expected = match (least, most) {
        (least, most) if least != most => format!("{least}-{most} arguments"),
        (_, count) => format!("{count} arguments"),
    };
    let name = decl.name.name.as_str();
    let message = format!("Function '{name}' expects {expected}, got {}", args.len());
    let diagnostic = Diagnostic::warning(message).with_code(ARGUMENT_COUNT).at(call.span);
    pass.argument_counts.push((name, diagnostic));
}

/// How many arguments a function takes at least and at most.
fn range(func: &Function) -> (usize, usize) {
    let least = func.params.iter().filter(|param| param.default.is_none() && !param.rest).count();
    (least, func.params.len())
}
