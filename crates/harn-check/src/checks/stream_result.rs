//! The result type of a `gen fn`, where it is annotated, is a stream.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Function, TypeExpr, TypeKind};

use crate::codes::STREAM_RESULT;
use crate::walk::Pass;

/// Types of the language that are no streams. Any other name may be an alias of one.
const OTHERS: [&str; 17] = [
    "Generator",
    "Iter",
    "Pair",
    "Result",
    "bool",
    "bytes",
    "closure",
    "dict",
    "duration",
    "float",
    "generator",
    "int",
    "iter",
    "list",
    "range",
    "set",
    "string",
];

/// Looks at the annotation of a function.
pub(crate) fn check(pass: &mut Pass<'_>, func: &Function) {
    let Some(ret) = func.ret.as_ref().filter(|_| func.is_gen) else { return };
    let wrong = match &ret.kind {
        TypeKind::Named { name, .. } => OTHERS.contains(&name.name.as_str()),
        TypeKind::Union(_) => false,
        TypeKind::Shape(_) | TypeKind::Fn { .. } | TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {
            true
        }
    };
    if wrong {
        let message = format!("`gen fn` must return Stream<T>, got {}", type_text(ret));
        pass.report(Diagnostic::error(message).with_code(STREAM_RESULT).at(ret.span));
    }
}

/// The canonical form of a type, as messages show it.
fn type_text(ty: &TypeExpr) -> String {
    let list =
        |types: &[TypeExpr], between: &str| types.iter().map(type_text).collect::<Vec<_>>().join(between);
    match &ty.kind {
        TypeKind::Named { name, args } => {
            let name = match name.name.as_str() {
                "generator" => "Generator",
                "stream" => "Stream",
                "Iter" => "iter",
                other => other,
            };
            if args.is_empty() { name.to_owned() } else { format!("{name}<{}>", list(args, ", ")) }
        }
        TypeKind::Union(members) => list(members, " | "),
        TypeKind::Shape(fields) => {
            let field = |field: &harn_syntax::ast::ShapeField| {
                format!(
                    "{}{}: {}",
                    field.name.name,
                    if field.optional { "?" } else { "" },
                    type_text(&field.ty)
                )
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        TypeKind::Fn { params, ret } => format!("fn({}) -> {}", list(params, ", "), type_text(ret)),
        TypeKind::Str(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        TypeKind::Int(value) => value.to_string(),
        TypeKind::Nil => "nil".to_owned(),
    }
}
