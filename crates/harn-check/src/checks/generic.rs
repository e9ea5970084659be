//! Type parameters: number of type arguments, constraints of `where`, and positions of `in` and `out`.

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::visit::Visitor;

use crate::codes::{ARGUMENT_TYPE, CONSTRAINT_METHOD, NOT_SATISFIED, TYPE_ARGUMENTS, VARIANCE};
use crate::imports;
use crate::pass::{Bounded, Pass};
use crate::scope::Lookup;
use crate::types::{Bindings, Ty, TypeName, misplaced};

/// Checks the explicit type arguments of a call.
pub(crate) fn type_arguments<'a>(
    pass: &mut Pass<'a>,
    name: &'a str,
    call: &'a Expr,
    given: &'a [TypeExpr],
    found: &Lookup<'a>,
) {
    if given.is_empty() {
        return;
    }
    let (what, declared) = match pass.called(name, found) {
        Some(called) => ("Function", called.decl.type_params.len()),
        None if matches!(found, Lookup::Missing) && pass.is_builtin(name) => ("Builtin function", 0),
        None => return,
    };
    let message = match declared {
        // The result type that a schema describes.
        0 if name.starts_with("schema_") || name.starts_with("llm_call") => match given.len() {
            1 => return,
            count => format!("{what} '{name}' expects 1 type argument, got {count}"),
        },
        0 => format!("{what} '{name}' does not declare type parameters"),
        count if count != given.len() => {
            format!("{what} '{name}' expects {count} type arguments, got {}", given.len())
        }
        _ => return,
    };
    pass.report(Diagnostic::error(message).with_code(TYPE_ARGUMENTS).at(call.span));
}

/// Checks the types that a call binds against the `where` clause of a function.
pub(crate) fn constraints<'a>(
    pass: &Pass<'a>,
    decl: &FnDecl,
    bound: &Bindings,
    args: &[Arg],
) -> Option<Diagnostic> {
    let span = args.first()?.value.span;
    decl.bounds.iter().find_map(|bounds| {
        let (param, interface) = (&bounds.param.name, &bounds.bound.name);
        let (_, ty) = bound.iter().find(|(name, _)| name == param)?;
        let reason = unsatisfied(pass, ty, interface)?;
        let message = format!(
            "Type '{ty}' does not satisfy interface '{interface}': {reason} (required by constraint `where {param}: \
             {interface}`)"
        );
        Some(Diagnostic::error(message).with_code(NOT_SATISFIED).at(span))
    })
}

/// Checks them against the `where` clause of a function of another file. Only the methods of the interface are known,
/// and each file may define more methods of a struct.
pub(crate) fn constraints_of(
    pass: &Pass<'_>,
    unit: &Rc<Unit>,
    decl: &FnDecl,
    bound: &Bindings,
    args: &[Arg],
) -> Option<Diagnostic> {
    let span = args.first()?.value.span;
    decl.bounds.iter().find_map(|bounds| {
        let (param, interface) = (&bounds.param.name, &bounds.bound.name);
        let (_, ty) = bound.iter().find(|(name, _)| name == param)?;
        let Ty::Named(owner, _) = ty else { return None };
        let is_struct = matches!(
            pass.typing.name(owner),
            TypeName::Own(DeclKind::Struct(_)) | TypeName::Imported(DeclKind::Struct(_))
        );
        let (file, at) = pass.typing.imports.type_in(pass.world, unit, interface).filter(|_| is_struct)?;
        let StmtKind::Decl(found) = &file.tree.items.get(at)?.kind else { return None };
        let DeclKind::Interface(asked) = &found.kind else { return None };
        let lacks = |method: &&MethodSig| {
            !imports::gives_method(pass.source, pass.world, owner, &method.name.name)
        };
        let method = &asked.methods.iter().find(lacks)?.name.name;
        let message = format!(
            "Type '{ty}' does not satisfy interface '{interface}': missing method '{method}' (required by constraint \
             `where {param}: {interface}`)"
        );
        Some(Diagnostic::warning(message).with_code(ARGUMENT_TYPE).at(span))
    })
}

/// Why a type does not satisfy an interface.
fn unsatisfied(pass: &Pass<'_>, ty: &Ty, interface: &str) -> Option<String> {
    let (decl, home) = match pass.typing.name(interface) {
        TypeName::Own(DeclKind::Interface(decl)) => (decl, None),
        TypeName::Imported(DeclKind::Interface(decl)) => (decl, Some(pass.typing.home(interface)?)),
        TypeName::Opaque | TypeName::Builtin | TypeName::Own(_) => {
            return Some(format!("interface '{interface}' not found"));
        }
        _ => return None,
    };
    match ty {
        Ty::Any | Ty::Never | Ty::Var(_) | Ty::OneOf(_) => None,
        Ty::Interface(name, _) if name == interface => None,
        Ty::Named(name, _) => pass.typing.lacks(name, decl, home),
        _ => Some("only named types can satisfy interfaces".to_owned()),
    }
}

/// Checks the variance of type parameters.
pub(crate) fn variance(pass: &mut Pass<'_>, decl: &Decl) {
    for found in misplaced(&pass.typing, &decl.kind) {
        pass.report(Diagnostic::error(found.message).with_code(VARIANCE).at(found.span));
    }
}

/// Walks a function with a `where` clause.
pub(crate) fn bounded<'a>(pass: &mut Pass<'a>, decl: &'a FnDecl) {
    let mut found = Vec::new();
    for param in &decl.func.params {
        let Some(TypeExpr { kind: TypeKind::Named { name, .. }, .. }) = &param.ty else { continue };
        if let Some(bound) = decl.bounds.iter().find(|bound| bound.param.name == name.name) {
            let (param_name, interface) = (bound.param.name.as_str(), bound.bound.name.as_str());
            found.push(Bounded { name: &param.name.name, param: param_name, interface });
        }
    }
    pass.next_bounds = found;
    pass.function(&decl.func, &decl.type_params);
}

/// Checks the call of a method on a value whose type is a bounded parameter.
pub(crate) fn method<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &Ident) {
    let Some(variable) = object.as_name() else { return };
    let Some(bounded) = pass.bounds.last().and_then(|all| all.iter().find(|one| one.name == variable)) else {
        return;
    };
    let (TypeName::Own(DeclKind::Interface(decl)) | TypeName::Imported(DeclKind::Interface(decl))) =
        pass.typing.name(bounded.interface)
    else {
        return;
    };
    if decl.methods.iter().all(|method| method.name.name != name.name) {
        let (interface, param) = (bounded.interface, bounded.param);
        let message =
            format!("Method '{}' not found in interface '{interface}' (constraint on '{param}')", name.name);
        pass.report(Diagnostic::warning(message).with_code(CONSTRAINT_METHOD).at(name.span));
    }
}
