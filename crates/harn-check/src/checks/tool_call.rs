//! Calls of tools of the program like functions: with the arguments in order, or with one dict of them by name.

use std::rc::Rc;

use harn_front::Unit;
use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, DeclKind, DictItem, Expr, ExprKind, Ident, Param, ToolDecl};

use super::argument::{self, THE_ARGUMENT, THE_PARAMETER};
use crate::codes::{ARGUMENT_COUNT, ARGUMENT_TYPE};
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Ty, type_text};
use harn_syntax::suggest::close;

/// A tool that is called.
#[derive(Clone, Copy)]
struct Called<'a> {
    decl: &'a ToolDecl,
    is_own: bool,
    /// The other file that declares it.
    unit: Option<&'a Rc<Unit>>,
}

/// Compares the arguments of a call with the parameters of the tool that is called.
pub(crate) fn check<'a>(
    pass: &mut Pass<'a>,
    name: &'a str,
    call: &'a Expr,
    args: &'a [Arg],
    found: &Lookup<'a>,
) {
    let Some(called) = called(pass, name, found) else { return };
    let wrong = match by_name(pass, called, args) {
        Given::Named(entries) => names(pass, called, call, &entries),
        Given::Either => Vec::new(),
        Given::InOrder => {
            let count = argument::count("Tool", &called.decl.name, &called.decl.func, call, args);
            if count.is_empty() { types(pass, called, args) } else { count }
        }
    };
    pass.arguments.extend(wrong.into_iter().map(|diagnostic| (name, diagnostic)));
}

fn called<'a>(pass: &Pass<'a>, name: &'a str, found: &Lookup<'a>) -> Option<Called<'a>> {
    match found {
        Lookup::Is(Kind::Tool(decl)) => Some(Called { decl, is_own: true, unit: None }),
        Lookup::Is(Kind::Imported) | Lookup::Missing
            if !pass.is_opaque() && !pass.declared.contains(name) =>
        {
            let imported = pass.imported(name)?;
            let DeclKind::Tool(decl) = &imported.decl()?.kind else { return None };
            Some(Called { decl, is_own: false, unit: imported.place().map(|(unit, _)| unit) })
        }
        _ => None,
    }
}

/// The form of the arguments of a call.
enum Given<'a> {
    Named(Vec<(&'a Ident, &'a Expr)>),
    InOrder,
    /// Unknown before the run.
    Either,
}

fn by_name<'a>(pass: &mut Pass<'a>, called: Called<'a>, args: &'a [Arg]) -> Given<'a> {
    let [arg] = args else { return Given::InOrder };
    if arg.spread {
        return Given::Either;
    }
    let takes_dict = match called.decl.func.params.first() {
        Some(param) => match param.ty.as_ref().filter(|_| !param.rest) {
            Some(_) => pass.typing.fits(&wanted(pass, called, param), &Ty::named("dict")),
            None => true,
        },
        None => false,
    };
    let ExprKind::Dict(items) = &arg.value.kind else {
        // Whether an unknown value or a struct is a dict of arguments is known only at run time.
        let simple = pass.infer(&arg.value).word().is_some_and(|word| !matches!(word, "dict" | "struct"));
        return if simple { Given::InOrder } else { Given::Either };
    };
    let entries: Option<Vec<_>> = items
        .iter()
        .map(|item| match item {
            DictItem::Entry { key, value } => Some((key, value)),
            _ => None,
        })
        .collect();
    let Some(entries) = entries else { return Given::Either };
    let knows = |name: &str| called.decl.func.params.iter().any(|p| !p.rest && p.name.name == name);
    let all_known = entries.iter().all(|(key, _)| knows(&key.name));
    match all_known && !entries.is_empty() || !takes_dict {
        true => Given::Named(entries),
        false => Given::InOrder,
    }
}

fn wanted<'a>(pass: &Pass<'a>, called: Called<'a>, param: &'a Param) -> Ty {
    match &param.ty {
        None => Ty::Any,
        Some(ty) => match called.unit {
            Some(unit) => pass.typing.resolve_in(ty, &[], unit),
            None => pass.typing.resolve(ty),
        },
    }
}

/// Checks named arguments.
fn names<'a>(
    pass: &mut Pass<'a>,
    called: Called<'a>,
    call: &'a Expr,
    entries: &[(&'a Ident, &'a Expr)],
) -> Vec<Diagnostic> {
    let tool = called.decl.name.name.as_str();
    let params = || called.decl.func.params.iter().filter(|param| !param.rest);
    let mut found = Vec::new();
    for (key, value) in entries {
        let Some(param) = params().find(|param| param.name.name == key.name) else {
            let near = close(&key.name, params().map(|param| param.name.name.as_str()));
            let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            let message = format!("{tool}: unknown parameter `{}`{hint}", key.name);
            found.push(Diagnostic::warning(message).with_code(ARGUMENT_COUNT).at(key.span));
            continue;
        };
        found.extend(one(pass, called, param, value, &format!("Argument '{}'", key.name)));
    }
    let missing = params()
        .find(|param| param.default.is_none() && !entries.iter().any(|(key, _)| key.name == param.name.name));
    if let Some(param) = missing.filter(|_| found.is_empty()) {
        let message = format!("{tool}: missing required parameter `{}`", param.name.name);
        found.push(Diagnostic::warning(message).with_code(ARGUMENT_COUNT).at(call.span));
    }
    found
}

/// Checks the types of positional arguments.
fn types<'a>(pass: &mut Pass<'a>, called: Called<'a>, args: &'a [Arg]) -> Vec<Diagnostic> {
    let known = args.iter().take_while(|arg| !arg.spread).zip(&called.decl.func.params);
    let known = known.take_while(|(_, param)| !param.rest).enumerate();
    known
        .filter_map(|(at, (arg, param))| {
            let place = format!("Argument {} ('{}')", at + 1, param.name.name);
            one(pass, called, param, &arg.value, &place)
        })
        .collect()
}

/// A wrong call of a tool of this file prevents the run, like that of a function.
fn one<'a>(
    pass: &mut Pass<'a>,
    called: Called<'a>,
    param: &'a Param,
    value: &'a Expr,
    place: &str,
) -> Option<Diagnostic> {
    let written = param.ty.as_ref()?;
    let wanted = wanted(pass, called, param);
    let got = pass.infer_as(&wanted, value);
    if pass.typing.fits(&wanted, &got) || (got == Ty::Nil && param.default.is_some()) {
        return None;
    }
    let message = format!("{place}: expected {}, got {got}", type_text(written));
    let is_certain = called.is_own && !pass.differs_by_literal(&wanted, value);
    let wrong = if is_certain { Diagnostic::error(message) } else { Diagnostic::warning(message) };
    let wrong = wrong.with_code(ARGUMENT_TYPE).with_label(value.span, THE_ARGUMENT);
    Some(match called.unit {
        None => wrong.with_label(param.span, THE_PARAMETER),
        Some(unit) => wrong.with_label_in(unit.file.clone(), param.span, THE_PARAMETER),
    })
}
