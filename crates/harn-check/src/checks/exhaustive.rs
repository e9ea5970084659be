//! `match`: missing cases, literals that cannot match, and bindings of patterns.

use harn_syntax::Diagnostic;
use harn_syntax::ast::{EnumDecl, Expr, ExprKind, MatchArm, MatchPattern, MatchPatternKind, VariantField};

use crate::codes::{NOT_EXHAUSTIVE, PATTERN_TYPE};
use crate::pass::{Known, Pass};
use crate::types::{Ty, Typing, members, union_tag};

/// The cases that the arms of a `match` cover.
#[derive(Default)]
struct Covered<'a> {
    strings: Vec<&'a str>,
    ints: Vec<i64>,
    variants: Vec<&'a str>,
    /// Types with a literal.
    types: Vec<&'static str>,
}

/// Checks a `match` whose value was walked.
pub(crate) fn check<'a>(pass: &mut Pass<'a>, expr: &'a Expr, value: &'a Expr, arms: &'a [MatchArm]) {
    let ty = pass.infer(value);
    mismatches(pass, &ty, arms);
    // A guard may be false. If the arms cover all cases only with their guards, the program runs until a case is missed.
    let without_guards = arms.iter().filter(|arm| arm.guard.is_none());
    let Some(covered_for_sure) = covered(without_guards) else { return };
    let Some(message) = missing(pass, value, &ty, &covered_for_sure) else { return };
    let never_covered = covered(arms.iter()).is_some_and(|all| missing(pass, value, &ty, &all).is_some());
    let end = arms.first().map_or(expr.span.end, |arm| arm.span.start);
    let head = harn_syntax::Span::new(expr.span.start, value.span.end.min(end));
    let (diagnostic, help) = if never_covered {
        (Diagnostic::error(message), "add an arm for each, or `_ -> { ... }` for all others")
    } else {
        (
            Diagnostic::warning(message),
            "the guards may be false: add an arm without a guard for each, or `_ -> { ... }`",
        )
    };
    pass.report(diagnostic.with_code(NOT_EXHAUSTIVE).at(head).with_help(help));
}

/// Returns the covered cases; `None` if an arm matches everything.
fn covered<'a>(arms: impl Iterator<Item = &'a MatchArm>) -> Option<Covered<'a>> {
    let mut covered = Covered::default();
    for pattern in arms.flat_map(|arm| &arm.patterns) {
        match &pattern.kind {
            MatchPatternKind::Variant { variant, .. } => covered.variants.push(&variant.name),
            MatchPatternKind::Value(value) => match &value.kind {
                ExprKind::Str(text) => {
                    covered.strings.push(text);
                    covered.types.push("string");
                }
                ExprKind::Int(number) => {
                    covered.ints.push(*number);
                    covered.types.push("int");
                }
                ExprKind::Unary { operand, .. } => match &operand.kind {
                    ExprKind::Int(number) => {
                        covered.ints.push(number.wrapping_neg());
                        covered.types.push("int");
                    }
                    ExprKind::Float(_) => covered.types.push("float"),
                    _ => return None,
                },
                ExprKind::Float(_) => covered.types.push("float"),
                ExprKind::Bool(_) => covered.types.push("bool"),
                ExprKind::Nil => covered.types.push("nil"),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(covered)
}

fn missing<'a>(pass: &mut Pass<'a>, value: &'a Expr, ty: &Ty, covered: &Covered<'a>) -> Option<String> {
    if let ExprKind::Member { object, name, .. } = &value.kind {
        let owner = pass.infer(object);
        if name.name == "variant"
            && let Some(decl) = enum_of(pass, &owner)
        {
            return of_enum(decl, covered);
        }
        if union_tag(&owner) == Some(&name.name) {
            let tags: Vec<Ty> =
                members(&owner).iter().map(|member| pass.field_of(member, &name.name)).collect();
            let left = literals(&tags, covered);
            return (!left.is_empty())
                .then(|| format!("Non-exhaustive match on tagged shape union: missing variants {left}"));
        }
    }
    if let Some(decl) = enum_of(pass, ty) {
        return of_enum(decl, covered);
    }
    let Ty::Union(types) = ty else { return None };
    if types.iter().all(|member| matches!(member, Ty::Str(_) | Ty::Int(_))) {
        let left = literals(types, covered);
        return (!left.is_empty()).then(|| format!("Non-exhaustive match on literal union: missing {left}"));
    }
    if !types
        .iter()
        .all(|member| matches!(member, Ty::Nil) || matches!(member, Ty::Named(_, args) if args.is_empty()))
    {
        return None;
    }
    let left: Vec<&str> = types
        .iter()
        .filter_map(Ty::plain)
        .filter(|word| !covered.types.iter().any(|known| known == word))
        .collect();
    (!left.is_empty()).then(|| format!("Non-exhaustive match on union type: missing {}", left.join(", ")))
}

/// Returns the enum of a type, except generic ones.
fn enum_of<'a>(pass: &Pass<'a>, ty: &Ty) -> Option<&'a EnumDecl> {
    let Ty::Named(name, _) = ty else { return None };
    pass.enum_declared(name).filter(|decl| decl.type_params.is_empty())
}

fn of_enum(decl: &EnumDecl, covered: &Covered<'_>) -> Option<String> {
    let is_covered = |name: &str| covered.variants.contains(&name) || covered.strings.contains(&name);
    let names = decl.variants.iter().map(|variant| variant.name.name.as_str());
    let left: Vec<String> =
        names.filter(|name| !is_covered(name)).map(|name| format!("\"{name}\"")).collect();
    let (name, left) = (&decl.name.name, left.join(", "));
    (!left.is_empty()).then(|| format!("Non-exhaustive match on enum {name}: missing variants {left}"))
}

/// Lists the literals without an arm.
fn literals(types: &[Ty], covered: &Covered<'_>) -> String {
    let left = types.iter().filter(|ty| match ty {
        Ty::Str(text) => !covered.strings.contains(&text.as_str()),
        Ty::Int(number) => !covered.ints.contains(number),
        _ => false,
    });
    left.map(Ty::to_string).collect::<Vec<_>>().join(", ")
}

/// Reports literals of a kind that the value cannot have.
fn mismatches(pass: &mut Pass<'_>, ty: &Ty, arms: &[MatchArm]) {
    let takes = |word: &str| {
        members(ty).iter().any(|member| match member {
            Ty::Named(name, _) => match name.as_str() {
                "int" | "float" => matches!(word, "int" | "float"),
                "string" | "bool" => name == word,
                "list" | "dict" | "range" | "set" | "bytes" | "closure" | "duration" | "Result" => false,
                other => pass.enum_declared(other).is_none(),
            },
            Ty::Str(_) => word == "string",
            Ty::Int(_) => matches!(word, "int" | "float"),
            Ty::Nil | Ty::Shape(_) | Ty::Fn(..) => false,
            _ => true,
        })
    };
    let mut found = Vec::new();
    for pattern in arms.iter().flat_map(|arm| &arm.patterns) {
        let MatchPatternKind::Value(value) = &pattern.kind else { continue };
        let word = match &value.kind {
            ExprKind::Str(_) => "string",
            ExprKind::Int(_) => "int",
            ExprKind::Float(_) => "float",
            ExprKind::Bool(_) => "bool",
            _ => continue,
        };
        if !takes(word) {
            let message = format!("Match pattern type mismatch: matching {ty} against {word} literal");
            found.push(Diagnostic::warning(message).with_code(PATTERN_TYPE).at(pattern.span));
        }
    }
    found.into_iter().for_each(|diagnostic| pass.report(diagnostic));
}

/// Records the bindings of the patterns of an arm: the payload of a variant, or the value itself.
pub(crate) fn payload<'a>(pass: &mut Pass<'a>, value: &'a Expr, patterns: &'a [MatchPattern]) {
    let [pattern] = patterns else { return };
    let known = |ty| Known { ty, written: None, is_open: false };
    match &pattern.kind {
        MatchPatternKind::Bind(name) if !pass.typing.declared.is_assigned(&name.name) => {
            let ty = pass.now(value);
            pass.known.insert(name.span.start, known(ty));
        }
        MatchPatternKind::Variant { enum_name, variant, fields: Some(fields) } => {
            let args = match pass.infer(value) {
                Ty::Named(name, args) if name == enum_name.name => args,
                _ => Vec::new(),
            };
            let types: Vec<Ty> = match pass.enum_of(&enum_name.name, enum_name.span.start) {
                Some(decl) => {
                    let Some(found) = decl.variants.iter().find(|v| v.name.name == variant.name) else {
                        return;
                    };
                    let env = Typing::env(&decl.type_params, &args);
                    let own = pass.typing.declared.get(&enum_name.name).is_some();
                    let of = |field: &VariantField| match &field.ty {
                        Some(ty) if own => pass.typing.resolve_with(ty, &env),
                        _ => Ty::Any,
                    };
                    found.fields.iter().map(of).collect()
                }
                None if enum_name.name == "Result" && args.len() == 2 => match variant.name.as_str() {
                    "Ok" => vec![args[0].clone()],
                    "Err" => vec![args[1].clone()],
                    _ => return,
                },
                None => return,
            };
            for (field, ty) in fields.iter().zip(types) {
                if let MatchPatternKind::Bind(name) = &field.kind
                    && !pass.typing.declared.is_assigned(&name.name)
                {
                    pass.known.insert(name.span.start, known(ty));
                }
            }
        }
        _ => {}
    }
}
