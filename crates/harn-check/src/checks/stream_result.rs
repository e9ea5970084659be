//! The annotated result type of a `gen fn` must be a stream.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Function, TypeKind};

use crate::codes::STREAM_RESULT;
use crate::pass::Pass;
use crate::types::type_text;

/// Built-in types that are not streams. Any other name may be an alias of a stream.
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

/// Checks the annotation of a function.
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
