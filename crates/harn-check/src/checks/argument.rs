//! Calls of functions of the program, also imported ones: too few or too many arguments, and values that the
//! annotations of the parameters do not allow.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, DeclKind, Expr, Function, Ident, Param, TypeExpr};

use super::generic;
use crate::codes::{ARGUMENT_COUNT, ARGUMENT_TYPE, INFERRED_TWICE};
use crate::infer::Called;
use crate::pass::Pass;
use crate::scope::Lookup;
use crate::types::{Ty, Typing, substitute};

/// Label of the declaration of the parameter.
pub(super) const THE_PARAMETER: &str = "the parameter";

/// Label of the argument.
pub(super) const THE_ARGUMENT: &str = "the argument";

/// Compares the arguments of a call with the parameters of the callee.
pub(crate) fn check<'a>(
    pass: &mut Pass<'a>,
    name: &'a str,
    call: &'a Expr,
    type_args: &'a [TypeExpr],
    args: &'a [Arg],
    found: &Lookup<'a>,
) {
    let Some(called) = pass.called(name, found) else { return };
    let count = count("Function", &called.decl.name, &called.decl.func, call, args);
    let wrong = if count.is_empty() { types(pass, called, type_args, args) } else { count };
    pass.arguments.extend(wrong.into_iter().map(|diagnostic| (name, diagnostic)));
}

/// Compares the arguments of a method of a struct of this file with its parameters. The call fails when it is reached.
pub(crate) fn method<'a>(
    pass: &mut Pass<'a>,
    object: &'a Expr,
    name: &'a Ident,
    call: &'a Expr,
    args: &'a [Arg],
) {
    if pass.enum_named(object).is_some() {
        return;
    }
    let Ty::Named(owner, _) = pass.infer(object) else { return };
    let Some(DeclKind::Struct(decl)) = pass.typing.declared.get(&owner) else { return };
    let Some(method) = pass.impl_method(&owner, &name.name) else { return };
    let of_method = |param: &&Param| param.name.name != "self";
    let wrong = count_of("Method", name, method.func.params.iter().filter(of_method), call, args);
    if !wrong.is_empty() {
        return pass.out.extend(wrong);
    }
    let mut params: Vec<_> = decl.type_params.clone();
    params.extend(method.type_params.iter().cloned());
    let env = Typing::env(&params, &[]);
    let taken = method.func.params.iter().filter(|param| param.name.name != "self" && !param.rest);
    for ((at, arg), param) in args.iter().take_while(|arg| !arg.spread).enumerate().zip(taken) {
        let Some(written) = &param.ty else { continue };
        let wanted = pass.typing.resolve_with(written, &env);
        let got = pass.argument_type(&wanted, &arg.value);
        let stands_for_default = got == Ty::Nil && param.default.is_some();
        if !stands_for_default && !pass.typing.fits(&wanted, &got) {
            let message =
                format!("Argument {} ('{}'): expected {wanted}, got {got}", at + 1, param.name.name);
            let found = Diagnostic::warning(message).with_code(ARGUMENT_TYPE);
            pass.report(found.with_label(arg.value.span, THE_ARGUMENT).with_label(param.span, THE_PARAMETER));
        }
    }
}

/// Checks the number of arguments; `what` is `Function` or `Tool`.
pub(super) fn count(what: &str, name: &Ident, func: &Function, call: &Expr, args: &[Arg]) -> Vec<Diagnostic> {
    count_of(what, name, func.params.iter(), call, args)
}

fn count_of<'a>(
    what: &str,
    name: &Ident,
    params: impl Iterator<Item = &'a Param>,
    call: &Expr,
    args: &[Arg],
) -> Vec<Diagnostic> {
    let params: Vec<&Param> = params.collect();
    let rest = params.iter().any(|param| param.rest);
    let (least, most) = (params.iter().filter(|param| param.default.is_none()).count(), params.len());
    if rest || args.iter().any(|arg| arg.spread) || (least..=most).contains(&args.len()) {
        return Vec::new();
    }
    let expected = match (least, most) {
        (least, most) if least != most => format!("{least}-{most} arguments"),
        (_, count) => format!("{count} arguments"),
    };
    let message = format!("{what} '{}' expects {expected}, got {}", name.name, args.len());
    vec![Diagnostic::warning(message).with_code(ARGUMENT_COUNT).at(call.span)]
}

/// Checks the types of the arguments. A wrong call of a function of this file prevents the run; one of a function of
/// another file fails when it is reached.
fn types<'a>(
    pass: &mut Pass<'a>,
    called: Called<'a>,
    type_args: &'a [TypeExpr],
    args: &'a [Arg],
) -> Vec<Diagnostic> {
    let severity = |message: String| {
        if called.is_own { Diagnostic::error(message) } else { Diagnostic::warning(message) }
    };
    let (bound, conflict) = pass.bindings(called, type_args, args);
    if let Some(conflict) = conflict {
        let span = args[conflict.at].value.span;
        return vec![severity(conflict.message).with_code(INFERRED_TWICE).at(span)];
    }
    let known = args.iter().take_while(|arg| !arg.spread);
    let mut found = Vec::new();
    for (at, arg) in known.enumerate() {
        let params = &called.decl.func.params;
        let Some(param) = params.get(at).or_else(|| params.last().filter(|param| param.rest)) else { break };
        let Some(written) = &param.ty else { continue };
        let mut wanted = substitute(&pass.parameter_type(called, written), &bound);
        if param.rest {
            // A rest parameter collects the remaining arguments.
            wanted = match wanted {
                Ty::Named(name, mut items) if name == "list" && items.len() == 1 => {
                    items.pop().unwrap_or(Ty::Any)
                }
                _ => continue,
            };
        }
        let got = pass.argument_type(&wanted, &arg.value);
        if pass.typing.fits(&wanted, &got) || (got == Ty::Nil && param.default.is_some()) {
            continue;
        }
        let shown = if called.decl.type_params.is_empty() && !param.rest {
            crate::types::type_text(written)
        } else {
            wanted.to_string()
        };
        let message = format!("Argument {} ('{}'): expected {shown}, got {got}", at + 1, param.name.name);
        // A literal outside of the expected literals fails only when the call is reached.
        let by_literal = pass.differs_by_literal(&wanted, &arg.value);
        let wrong = if by_literal { Diagnostic::warning(message) } else { severity(message) };
        let wrong = wrong.with_code(ARGUMENT_TYPE);
        let wrong = wrong.with_label(arg.value.span, THE_ARGUMENT);
        found.push(match called.unit {
            None => wrong.with_label(param.span, THE_PARAMETER),
            Some(unit) => wrong.with_label_in(unit.file.clone(), param.span, THE_PARAMETER),
        });
    }
    if found.is_empty() {
        found.extend(match called.unit {
            None => generic::constraints(pass, called.decl, &bound, args),
            Some(unit) => generic::constraints_of(pass, unit, called.decl, &bound, args),
        });
    }
    found
}
