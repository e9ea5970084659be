//! Calls of functions of the program, imported ones too: too few or too many arguments, and values that the
//! annotations of the parameters do not allow.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, DeclKind, Expr, FnDecl, Function};

use crate::codes::{ARGUMENT_COUNT, ARGUMENT_TYPE};
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, fits, type_text};
use crate::walk::Pass;

/// Compares the arguments of a call with the parameters of what is called.
pub(crate) fn check<'a>(
    pass: &mut Pass<'a>,
    name: &'a str,
    call: &Expr,
    args: &'a [Arg],
    found: &Lookup<'a>,
) {
    let (decl, is_own) = match found {
        Lookup::Is(Kind::Fn(decl, _)) => (*decl, true),
        Lookup::Is(Kind::Imported) | Lookup::Missing
            if !pass.is_opaque() && !pass.declared.contains(name) =>
        {
            match pass.imported(name).and_then(|imported| imported.decl()).map(|decl| &decl.kind) {
                Some(DeclKind::Fn(decl)) => (decl, false),
                _ => return,
            }
        }
        _ => return,
    };
    let count = count(decl, call, args);
    let wrong = if count.is_empty() { types(pass, decl, args, is_own) } else { count };
    pass.arguments.extend(wrong.into_iter().map(|diagnostic| (name, diagnostic)));
}

fn count(decl: &FnDecl, call: &Expr, args: &[Arg]) -> Vec<Diagnostic> {
    let (least, most) = range(&decl.func);
    let rest = decl.func.params.iter().any(|param| param.rest);
    if rest || args.iter().any(|arg| arg.spread) || (least..=most).contains(&args.len()) {
        return Vec::new();
    }
    let expected = match (least, most) {
        (least, most) if least != most => format!("{least}-{most} arguments"),
        (_, count) => format!("{count} arguments"),
    };
    let message = format!("Function '{}' expects {expected}, got {}", decl.name.name, args.len());
    vec![Diagnostic::warning(message).with_code(ARGUMENT_COUNT).at(call.span)]
}

/// How many arguments a function takes at least and at most.
fn range(func: &Function) -> (usize, usize) {
    let least = func.params.iter().filter(|param| param.default.is_none() && !param.rest).count();
    (least, func.params.len())
}

/// What is wrong with the types of the arguments. A wrong call of a function of this file keeps the program from
/// running; one of another file fails when it is reached.
fn types<'a>(pass: &mut Pass<'a>, decl: &'a FnDecl, args: &'a [Arg], is_own: bool) -> Vec<Diagnostic> {
    let known = args.iter().take_while(|arg| !arg.spread);
    let mut found = Vec::new();
    for ((at, arg), param) in known.enumerate().zip(&decl.func.params) {
        let Some(written) = param.ty.as_ref().filter(|_| !param.rest) else { continue };
        if decl.type_params.iter().any(|generic| mentions(&type_text(written), &generic.name.name)) {
            continue;
        }
        let wanted = if is_own { pass.typing.resolve(written) } else { pass.typing.resolve_foreign(written) };
        let got = pass.infer(&arg.value);
        if fits(&wanted, &got) || (got == Ty::Nil && param.default.is_some()) {
            continue;
        }
        let message = format!(
            "Argument {} ('{}'): expected {}, got {got}",
            at + 1,
            param.name.name,
            type_text(written)
        );
        let diagnostic = if is_own { Diagnostic::error(message) } else { Diagnostic::warning(message) };
        found.push(diagnostic.with_code(ARGUMENT_TYPE).at(arg.value.span));
    }
    found
}

/// Whether a type as written has a name in it.
fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}
