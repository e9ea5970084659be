//! Names of types in the position of a value: they are values only where a schema is expected.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{Arg, DictItem, Expr};
use harn_syntax::schema_place;

use crate::codes::UNKNOWN_VARIABLE;
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};

/// Checks a name that is read.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, name: &'a str, expr: &'a Expr) {
    if matches!(pass.scopes.look_up(name, expr.span.start), Lookup::Is(Kind::Type))
        && !pass.schemas.contains(&std::ptr::from_ref(expr))
    {
        let mut found = Diagnostic::warning(format!("Undefined variable: {name}"))
            .with_code(UNKNOWN_VARIABLE)
            .at(expr.span);
        found.help = Some(format!("`{name}` is a type; `schema_of({name})` gives its schema"));
        pass.report(found);
    }
}

/// Records the schema argument of a call.
pub(crate) fn arguments<'a>(pass: &mut Pass<'a>, function: &str, args: &'a [Arg]) {
    let Some(at) = schema_place::argument(function) else { return };
    pass.schemas.extend(args.get(at).map(|arg| &raw const arg.value));
}

/// Records the schema entries of a dict.
pub(crate) fn entries<'a>(pass: &mut Pass<'a>, items: &'a [DictItem]) {
    for item in items {
        if let DictItem::Entry { key, value } = item
            && schema_place::is_key(&key.name)
        {
            pass.schemas.insert(&raw const *value);
        }
    }
}
