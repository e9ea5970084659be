//! Calls of builtins and methods with wrong arguments: too few, too many, literals of a wrong type, unknown options.
//! The table of builtins defines the parameters and the type names in messages.

use harn_syntax::ast::{Arg, DictItem, Expr, ExprKind, Ident, UnaryOp};
use harn_syntax::habits::{failed, method_help};
use harn_syntax::shapes;
use harn_syntax::signature::{
    self, GivenOption, Kinds, Literal, OptionEffect, OptionProblem, Parameter, Signature, WrongTime,
};
use harn_syntax::{Diagnostic, Span};

use crate::checks::nilable;
use crate::codes::{
    BIG_NUMBER, LOGARITHM, OPTION_SLIP, SECONDS, UNKNOWN_METHOD, WRONG_ARGUMENT, WRONG_COUNT,
};
use crate::imports;
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::Ty;

/// Checks the call of a name without a definition in scope.
pub(crate) fn builtin<'a>(pass: &mut Pass<'a>, name: &str, call: &Expr, args: &'a [Arg], found: &Lookup<'_>) {
    if matches!(found, Lookup::Missing)
        && !pass.declared.contains(name)
        && !pass.is_opaque()
        && let Some(signature) = pass.world.signatures.builtin(name)
    {
        if name == "log"
            && let [arg] = args
            && matches!(arg.value.kind, ExprKind::Float(_))
        {
            let number = arg.value.span.slice(pass.source.text);
            let text = format!("`log` writes a line and gives nil; the natural logarithm is `ln({number})`");
            pass.report(Diagnostic::warning(text).with_code(LOGARITHM).at(call.span));
        }
        // A second argument states the intention.
        if let ("json_parse", [Arg { value: Expr { kind: ExprKind::Str(json), span, .. }, .. }]) =
            (name, args)
            && let Some(number) = big_number(json)
        {
            let text = format!(
                "`{number}` does not fit into 64 bits and loses digits as a float; `json_parse(text, {{big_numbers: \"string\"}})` keeps them"
            );
            pass.report(Diagnostic::warning(text).with_code(BIG_NUMBER).at(*span));
        }
        for found in arguments(pass, &signature, call.span, args) {
            // Several calls may get the same variable.
            let is_same = |known: &Diagnostic| known.span == found.span && known.message == found.message;
            if !pass.wrong_calls.iter().any(|(of, known)| of == name && is_same(known)) {
                pass.wrong_calls.push((name.to_owned(), found));
            }
        }
    }
}

/// Checks the call of a struct by its name, which takes a dict of fields.
pub(crate) fn structure<'a>(
    pass: &mut Pass<'a>,
    name: &str,
    call: &Expr,
    args: &'a [Arg],
    found: &Lookup<'_>,
) {
    let (Lookup::Is(Kind::Struct(_)), Some(first)) = (found, args.first()) else { return };
    if let Some((_, word)) = known_kind(pass, &first.value).filter(|_| !first.spread)
        && ["bool", "int", "float", "duration", "string", "list", "range", "closure"].contains(&word)
    {
        let found = wrong(format!("{name}: expected a dict of fields, got {word}"), call.span);
        pass.report(with_way_out(pass, found));
    }
}

/// Checks the operand of a `for`.
pub(crate) fn iterated<'a>(pass: &mut Pass<'a>, iter: &'a Expr) {
    if let Some((_, word)) = known_kind(pass, iter)
        && ["bool", "int", "float", "duration", "closure"].contains(&word)
    {
        let found = wrong(format!("cannot iterate over {word}"), iter.span);
        pass.report(with_way_out(pass, found));
    }
}

/// Adds the help of the run-time error to a finding.
fn with_way_out(pass: &Pass<'_>, mut found: Diagnostic) -> Diagnostic {
    let place = found.span.map_or("", |span| span.slice(pass.source.text));
    found.help = failed(&found.message, place);
    found
}

/// Returns the first integer in a JSON string that exceeds 64 bits.
fn big_number(json: &str) -> Option<&str> {
    let mut in_string = false;
    let mut escaped = false;
    let outside = |c: char| {
        let quoted = in_string;
        match c {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        quoted || !(c.is_ascii_digit() || "+-.eE".contains(c))
    };
    json.split(outside).find(|word| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && word.parse::<i64>().is_err()
    })
}

/// Checks the call of a method on a value of known type.
pub(crate) fn method<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &Ident, call: &Expr, args: &'a [Arg]) {
    let Some((_, word)) = known_kind(pass, object) else { return of_struct(pass, object, name) };
    // An entry of a dict may be called like a method, and nil has no methods.
    if word == "nil" {
        return;
    }
    match pass.world.signatures.method(word, &name.name) {
        Some(signature) => {
            arguments(pass, &signature, call.span, args).into_iter().for_each(|d| pass.report(d));
        }
        None if word != "dict" => {
            let names = pass.world.signatures.method_names(word);
            unknown_method(pass, name, word, names);
        }
        None => {}
    }
}

/// Checks the call of a method of a struct.
fn of_struct<'a>(pass: &mut Pass<'a>, object: &'a Expr, name: &Ident) {
    let Ty::Named(owner, _) = pass.infer(object) else { return };
    let Some((decl, _)) = pass.typing.struct_named(&owner) else { return };
    let wanted = name.name.as_str();
    let methods: Vec<&str> =
        pass.typing.declared.methods(&owner).iter().map(|method| method.name.name.as_str()).collect();
    // A field may hold a function.
    let exists = methods.contains(&wanted)
        || decl.fields.iter().any(|field| field.name.name == wanted)
        || pass.world.signatures.method("struct", wanted).is_some();
    // A file that imports this one cannot add methods, but one that it imports could.
    if !exists && !imports::gives_method(pass.source, pass.world, &owner, wanted) {
        unknown_method(pass, name, &owner, methods);
    }
}

fn unknown_method(pass: &mut Pass<'_>, name: &Ident, owner: &str, names: Vec<&str>) {
    let message = format!("unknown method `{}` on {owner}", name.name);
    let mut diagnostic = Diagnostic::warning(message).with_code(UNKNOWN_METHOD).at(name.span);
    let mut names = names;
    names.sort_unstable();
    names.dedup();
    diagnostic.help = method_help(&name.name, owner, &names);
    pass.report(diagnostic);
}

/// Checks the arguments.
fn arguments<'a>(pass: &mut Pass<'a>, signature: &Signature, call: Span, args: &'a [Arg]) -> Vec<Diagnostic> {
    if args.iter().any(|arg| arg.spread) {
        return Vec::new();
    }
    if let Some(text) = signature.wrong_count(args.len()) {
        return vec![Diagnostic::warning(text).with_code(WRONG_COUNT).at(call)];
    }
    if let ("host_call", [Arg { value: Expr { kind: ExprKind::Str(operation), .. }, .. }, params]) =
        (signature.name, args)
        && let Some((operation, takes)) = shapes::host_operation(operation)
    {
        return shaped(pass, &format!("host_call {operation}"), takes, &params.value);
    }
    if let Some(found) = pattern(pass, signature, args) {
        return vec![found];
    }
    if signature.name == "tool_define" {
        return tool(pass, args);
    }
    let pairs = args.iter().enumerate();
    let pairs = pairs.filter_map(|(at, arg)| Some((signature.parameter(at)?, &arg.value)));
    pairs.flat_map(|(parameter, value)| argument(pass, signature.name, parameter, value)).collect()
}

/// Checks the config of a tool, the last argument of `tool_define`.
fn tool<'a>(pass: &Pass<'a>, args: &'a [Arg]) -> Vec<Diagnostic> {
    // In a pipe the registry precedes the other arguments.
    let [.., name, _, config] = args else { return Vec::new() };
    let config = pass.written(&config.value);
    match (&pass.written(&name.value).kind, &config.kind) {
        (ExprKind::Str(name), ExprKind::Dict(items)) => {
            option_set(pass, "tool_define", name, "dict", items, config.span)
        }
        _ => Vec::new(),
    }
}

/// Checks a literal regular expression, if its flags are known.
fn pattern(pass: &Pass<'_>, signature: &Signature, args: &[Arg]) -> Option<Diagnostic> {
    if !signature.name.starts_with("regex_") {
        return None;
    }
    let given = |name: &str| args.get(signature.parameters.iter().position(|own| own.name == name)?);
    let text = |arg: &'_ Arg| match &arg.value.kind {
        ExprKind::Str(text) => Some((text.to_string(), arg.value.span)),
        _ => None,
    };
    let (pattern, span) = text(given("pattern")?)?;
    let flags = given("flags").map_or(Some(String::new()), |arg| text(arg).map(|(flags, _)| flags))?;
    Some(wrong(pass.world.signatures.wrong_pattern(&pattern, &flags)?, span))
}

/// Checks one argument.
fn argument<'a>(pass: &mut Pass<'a>, name: &str, parameter: &Parameter, value: &'a Expr) -> Vec<Diagnostic> {
    if !parameter.optional
        && !Kinds::of(parameter.ty).meets(Kinds::NIL)
        && let Some(found) = nilable::argument(pass, name, value)
    {
        return vec![found];
    }
    let Some((got, word)) = known_kind(pass, value) else { return Vec::new() };
    let nothing = got == Kinds::NIL && parameter.optional;
    if !nothing && !Kinds::of(parameter.ty).meets(got) {
        let found = wrong(signature::wrong_type(name, parameter.name, parameter.ty, word), value.span);
        return vec![with_way_out(pass, found)];
    }
    if Kinds::of(parameter.ty).is_time()
        && let Some(time) = number(value).and_then(WrongTime::of)
    {
        return vec![wrong(time.text(name, parameter.name), value.span)];
    }
    let value = pass.written(value);
    match (&value.kind, signature::call_arguments(parameter.ty)) {
        (ExprKind::Closure { func, .. }, Some(gets)) => {
            let needed = func.params.iter().take_while(|p| p.default.is_none() && !p.rest).count();
            if needed > gets as usize {
                return vec![wrong(signature::wrong_function(name, needed, gets as usize), value.span)];
            }
        }
        (ExprKind::Dict(items), _)
            if signature::is_option_set(parameter.ty) || signature::shape(parameter.ty).is_none() =>
        {
            let set = parameter.ty.trim_end_matches('?');
            return option_set(pass, name, parameter.name, set, items, value.span);
        }
        _ => {}
    }
    shaped(pass, name, parameter.ty, value)
}

/// Checks literal options.
fn shaped<'a>(pass: &Pass<'a>, name: &str, ty: &'static str, value: &'a Expr) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    signature::wrong_options(name, ty, &Written(value), &mut |problem, span| {
        found.push(wrong(problem.text(), span));
    });
    signature::option_sets(ty, &Written(value), &mut |path, set, given| {
        if let ExprKind::Dict(items) = &given.0.kind {
            found.extend(option_set(pass, &format!("{name}: {path}"), path, set, items, given.0.span));
        }
    });
    found
}

/// Returns the kind of a value of known type, and its name.
fn known_kind<'a>(pass: &mut Pass<'a>, e: &'a Expr) -> Option<(Kinds, &'static str)> {
    kind(e).or_else(|| pass.infer(e).word().map(|word| (Kinds::named(word), word)))
}

/// Checks the options of a model call or a loop, or a dict with keys that a builtin defines.
fn option_set<'a>(
    pass: &Pass<'a>,
    name: &str,
    parameter: &str,
    set: &str,
    items: &'a [DictItem],
    dict: Span,
) -> Vec<Diagnostic> {
    let entries: Vec<(&Ident, &Expr)> = items
        .iter()
        .filter_map(|item| match item {
            DictItem::Entry { key, value } => Some((key, value)),
            _ => None,
        })
        .collect();
    let given = options(items, &|value| pass.written(value));
    let complete = entries.len() == items.len() && given.iter().all(|option| option.value.is_some());
    let found = pass.world.signatures.wrong_options(name, parameter, set, &given, complete);
    let diagnostic = |problem: OptionProblem| {
        let place = entries.iter().find(|(key, _)| key.name == problem.name);
        let (of_name, of_value) = place.map_or((dict, dict), |(key, value)| (key.span, value.span));
        match problem.effect {
            OptionEffect::Fails => wrong(problem.text, of_value),
            OptionEffect::Ignored => Diagnostic::warning(problem.text).with_code(OPTION_SLIP).at(of_name),
            OptionEffect::Used => Diagnostic::warning(problem.text).with_code(SECONDS).at(of_value),
        }
    };
    found.into_iter().map(diagnostic).collect()
}

/// Returns the named entries of a dict.
pub(crate) fn given_options(items: &[DictItem]) -> Vec<GivenOption> {
    options(items, &|value| value)
}

/// Returns the named entries of a dict; `follow` replaces a name by the value that it stands for.
fn options<'e>(items: &'e [DictItem], follow: &dyn Fn(&'e Expr) -> &'e Expr) -> Vec<GivenOption> {
    let option = |item: &'e DictItem| match item {
        DictItem::Entry { key, value } => {
            Some(GivenOption { name: key.name.to_string(), value: literal(value, follow) })
        }
        _ => None,
    };
    items.iter().filter_map(option).collect()
}

/// Returns the literal value of an expression.
fn literal<'e>(e: &'e Expr, follow: &dyn Fn(&'e Expr) -> &'e Expr) -> Option<Literal> {
    Some(match &follow(e).kind {
        ExprKind::Nil => Literal::Nil,
        ExprKind::Bool(value) => Literal::Bool(*value),
        ExprKind::Int(value) => Literal::Int(*value),
        ExprKind::Float(value) => Literal::Float(*value),
        ExprKind::Duration(value) => Literal::Duration(*value),
        ExprKind::Str(text) => Literal::Str(text.to_string()),
        ExprKind::Closure { .. } => Literal::Closure,
        ExprKind::Paren(inner) => return literal(inner, follow),
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match literal(operand, follow)? {
            Literal::Int(value) => Literal::Int(value.checked_neg()?),
            Literal::Float(value) => Literal::Float(-value),
            Literal::Duration(value) => Literal::Duration(value.checked_neg()?),
            _ => return None,
        },
        ExprKind::List(args) => {
            let item = |arg: &'e Arg| if arg.spread { None } else { literal(&arg.value, follow) };
            Literal::List(args.iter().map(item).collect::<Option<_>>()?)
        }
        ExprKind::Dict(items) => {
            let entry = |item: &'e DictItem| match item {
                DictItem::Entry { key, value } => Some((key.name.to_string(), literal(value, follow)?)),
                _ => None,
            };
            Literal::Dict(items.iter().map(entry).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// An argument, as written.
struct Written<'a>(&'a Expr);

impl signature::Given for Written<'_> {
    type Place = Span;

    fn kind(&self) -> Option<(Kinds, &'static str)> {
        kind(self.0)
    }

    fn place(&self) -> Span {
        self.0.span
    }

    fn wrong_time(&self) -> Option<WrongTime> {
        number(self.0).and_then(WrongTime::of)
    }

    fn entries(&self, look: &mut dyn FnMut(&str, Span, &Self)) {
        match &self.0.kind {
            ExprKind::Dict(items) => {
                for item in items {
                    if let DictItem::Entry { key, value } = item {
                        look(&key.name, key.span, &Written(value));
                    }
                }
            }
            ExprKind::Paren(inner) => Written(inner).entries(look),
            _ => {}
        }
    }

    fn items(&self, look: &mut dyn FnMut(&Self)) {
        match &self.0.kind {
            ExprKind::List(args) => {
                args.iter().filter(|arg| !arg.spread).for_each(|arg| look(&Written(&arg.value)))
            }
            ExprKind::Paren(inner) => Written(inner).items(look),
            _ => {}
        }
    }
}

fn wrong(text: String, span: Span) -> Diagnostic {
    Diagnostic::warning(text).with_code(WRONG_ARGUMENT).at(span)
}

/// Returns a literal number, durations in milliseconds.
fn number(e: &Expr) -> Option<f64> {
    Some(match &e.kind {
        ExprKind::Int(n) | ExprKind::Duration(n) => *n as f64,
        ExprKind::Float(n) => *n,
        ExprKind::Paren(inner) => return number(inner),
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => -number(operand)?,
        _ => return None,
    })
}

/// Returns the kind of a literal, and its name.
fn kind(e: &Expr) -> Option<(Kinds, &'static str)> {
    Some(match &e.kind {
        ExprKind::Nil => (Kinds::NIL, "nil"),
        ExprKind::Bool(_) | ExprKind::Unary { op: UnaryOp::Not, .. } => (Kinds::BOOL, "bool"),
        ExprKind::Int(_) => (Kinds::INT, "int"),
        ExprKind::Float(_) => (Kinds::FLOAT, "float"),
        ExprKind::Duration(_) => (Kinds::DURATION, "duration"),
        ExprKind::Str(_) | ExprKind::Interp(_) => (Kinds::STRING, "string"),
        ExprKind::List(_) => (Kinds::LIST, "list"),
        ExprKind::Dict(_) => (Kinds::DICT, "dict"),
        ExprKind::Range { .. } => (Kinds::RANGE, "range"),
        ExprKind::Closure { .. } => (Kinds::CLOSURE, "closure"),
        ExprKind::Paren(inner) => return kind(inner),
        ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => {
            return kind(operand).filter(|(_, word)| matches!(*word, "int" | "float" | "duration"));
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::big_number;

    #[test]
    fn numbers_without_room_are_found_outside_of_strings() {
        for (json, found) in [
            ("12345678901234567890", Some("12345678901234567890")),
            ("{\"a\": [1, -9223372036854775809]}", Some("-9223372036854775809")),
            ("{\"a\": \"\\\"12345678901234567890\"}", None),
            ("9223372036854775807", None),
            ("[1e400, 0.12345678901234567890, 12345678901234567890.5]", None),
            ("", None),
        ] {
            assert_eq!(big_number(json), found, "{json}");
        }
    }
}
