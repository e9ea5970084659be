//! Programs of the conformance suite with one error each: a wrong type, a nil or a misspelled option. Counts how many are found.
//!
//! A place is changed if both sides state their types: an annotation or a parameter of a builtin on one; a literal, an
//! annotated name or a call of an annotated function on the other.

use std::collections::HashMap;
use std::path::Path;

use harn_check::{Signatures, Source, World, check_program};
use harn_syntax::ast::*;
use harn_syntax::signature::{Kinds, is_option_set, shape};
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Severity, Span};

use crate::corpus::{machine, programs};

/// The least share of wrong programs that must be found, in percent.
const LEAST: usize = 90;

/// The same, of one kind. Under a misspelled name a dict may be the settings of a provider.
const LEAST_OF_KIND: usize = 85;

/// Programs that are made without `HARN_EVERY_CASE`.
const SAMPLE: usize = 1200;

/// The kind of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Type,
    Nil,
    Option,
}

/// A change of a program: what replaces a part of its text.
struct Change {
    kind: Kind,
    span: Span,
    new: String,
}

/// A literal that is no value of a type, and another type.
fn wrong(ty: &TypeExpr) -> Option<(&'static str, &'static str)> {
    let (name, args) = match &ty.kind {
        TypeKind::Named { name, args } => (name, args),
        TypeKind::Shape(_) => return Some(("42", "int")),
        TypeKind::Union(members) => {
            let text = |ty: &TypeExpr| {
                matches!(&ty.kind, TypeKind::Nil | TypeKind::Str(_))
                    || wrong(ty).is_some_and(|(_, other)| other == "int")
            };
            return members.iter().all(text).then_some(("42", "int"));
        }
        _ => return None,
    };
    Some(match (name.name.as_str(), args.len()) {
        ("int" | "float", 0) => ("\"wrong\"", "string"),
        ("string", 0) => ("42", "int"),
        ("bool", 0) => ("\"wrong\"", "string"),
        ("list" | "dict" | "Result" | "set" | "closure" | "iter" | "Stream" | "Generator", _) => {
            ("42", "int")
        }
        _ => return None,
    })
}

struct Places<'a> {
    signatures: &'a dyn Signatures,
    /// Functions by name; `None` when there are several, or something else has the name.
    functions: HashMap<&'a str, Option<&'a FnDecl>>,
    /// Names that are bound once, with their annotation.
    names: HashMap<&'a str, Option<&'a TypeExpr>>,
    structs: HashMap<&'a str, Option<&'a StructDecl>>,
    results: Vec<Option<&'a TypeExpr>>,
    found: Vec<Change>,
    collecting: bool,
}

impl<'a> Places<'a> {
    fn new(signatures: &'a dyn Signatures) -> Places<'a> {
        Places {
            signatures,
            functions: HashMap::new(),
            names: HashMap::new(),
            structs: HashMap::new(),
            results: Vec::new(),
            found: Vec::new(),
            collecting: true,
        }
    }

    fn change(&mut self, kind: Kind, span: Span, new: &str) {
        self.found.push(Change { kind, span, new: new.to_owned() });
    }

    /// Changes the arguments of a call of a builtin.
    fn builtin(&mut self, name: &str, args: &'a [Arg]) {
        let Some(signature) = self.signatures.builtin(name) else { return };
        for (at, arg) in args.iter().enumerate() {
            let Some(parameter) = signature.parameter(at) else { break };
            let kinds = Kinds::of(parameter.ty);
            if !parameter.optional && !kinds.meets(Kinds::NIL) {
                self.change(Kind::Nil, arg.value.span, "nil");
            }
            let literals = [
                ("42", Kinds::INT),
                ("\"wrong\"", Kinds::STRING),
                ("[]", Kinds::LIST),
                ("true", Kinds::BOOL),
            ];
            if let Some((literal, _)) = literals.iter().find(|(_, kind)| !kinds.meets(*kind)) {
                self.change(Kind::Type, arg.value.span, literal);
            }
            let ExprKind::Dict(items) = &arg.value.kind else { continue };
            if !is_option_set(parameter.ty) && shape(parameter.ty).is_none() {
                continue;
            }
            for item in items {
                if let DictItem::Entry { key, .. } = item
                    && !key.name.starts_with('_')
                {
                    self.change(Kind::Option, key.span, &format!("{}x", key.name));
                }
            }
        }
    }

    fn name(&mut self, name: &'a Ident, ty: Option<&'a TypeExpr>) {
        self.names.entry(&name.name).and_modify(|known| *known = None).or_insert(ty);
    }

    /// Whether the other side says its type, too.
    fn typed(&self, value: &Expr) -> bool {
        match &value.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Interp(_) => true,
            ExprKind::List(_) | ExprKind::Dict(_) | ExprKind::StructLit { .. } => true,
            ExprKind::Paren(inner) => self.typed(inner),
            ExprKind::Binary { lhs, rhs, .. } => self.typed(lhs) && self.typed(rhs),
            ExprKind::Name(name) => {
                self.names.get(name.as_str()).is_some_and(|ty| ty.and_then(wrong).is_some())
            }
            ExprKind::Call { callee, .. } => callee.as_name().is_some_and(|name| {
                let called = self.functions.get(name.as_str()).copied().flatten();
                called.is_some_and(|decl| {
                    decl.type_params.is_empty() && decl.func.ret.as_ref().and_then(wrong).is_some()
                })
            }),
            _ => false,
        }
    }
}

impl<'a> Visitor<'a> for Places<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let { pattern, ty, value, .. } => {
                if let PatternKind::Name(name) = &pattern.kind
                    && self.collecting
                {
                    self.name(name, ty.as_ref());
                }
                if let Some(ty) = ty
                    && !self.collecting
                    && self.typed(value)
                    && let Some((_, other)) = wrong(ty)
                {
                    self.change(Kind::Type, ty.span, other);
                }
            }
            StmtKind::Return(Some(value)) if !self.collecting && self.typed(value) => {
                if let Some((literal, _)) = self.results.last().copied().flatten().and_then(wrong) {
                    self.change(Kind::Type, value.span, literal);
                }
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }

    fn decl(&mut self, decl: &'a Decl) {
        if let DeclKind::Struct(d) = &decl.kind
            && self.collecting
        {
            self.structs.entry(&d.name.name).and_modify(|known| *known = None).or_insert(Some(d));
        }
        if let DeclKind::Fn(d) = &decl.kind
            && self.collecting
        {
            self.functions.entry(&d.name.name).and_modify(|known| *known = None).or_insert(Some(d));
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, params: &'a [TypeParam]) {
        if self.collecting {
            func.params.iter().for_each(|param| self.name(&param.name, param.ty.as_ref()));
        }
        let plain = params.is_empty() && !func.is_gen && !func.has_yield;
        if let (Some(ret), Some(Stmt { kind: StmtKind::Expr(value), .. })) =
            (&func.ret, func.body.stmts.last())
            && !self.collecting
            && plain
            && let Some((literal, other)) = wrong(ret)
        {
            self.change(Kind::Type, value.span, literal);
            if self.typed(value) {
                self.change(Kind::Type, ret.span, other);
            }
        }
        self.results.push(func.ret.as_ref().filter(|_| plain));
        visit::walk_function(self, func);
        self.results.pop();
    }

    fn expr(&mut self, expr: &'a Expr) {
        if let ExprKind::Call { callee, args, .. } = &expr.kind
            && !self.collecting
            && let Some(name) = callee.as_name()
            && !self.names.contains_key(name.as_str())
            && let Some(decl) = self.functions.get(name.as_str()).copied().flatten()
            && decl.type_params.is_empty()
            && !args.iter().any(|arg| arg.spread)
        {
            for (arg, param) in args.iter().zip(&decl.func.params) {
                let Some(ty) = param.ty.as_ref().filter(|_| !param.rest) else { continue };
                let Some((literal, other)) = wrong(ty) else { continue };
                self.change(Kind::Type, arg.value.span, literal);
                if self.typed(&arg.value) {
                    self.change(Kind::Type, ty.span, other);
                }
                if param.default.is_none() && !matches!(ty.kind, TypeKind::Union(_)) {
                    self.change(Kind::Nil, arg.value.span, "nil");
                }
            }
        }
        if let ExprKind::Call { callee, args, .. } = &expr.kind
            && !self.collecting
            && let Some(name) = callee.as_name()
            && ![self.names.contains_key(name.as_str()), self.functions.contains_key(name.as_str())]
                .contains(&true)
            && !args.iter().any(|arg| arg.spread)
        {
            self.builtin(name, args);
        }
        if let ExprKind::StructLit { name, items } = &expr.kind
            && !self.collecting
            && let Some(decl) = self.structs.get(name.name.as_str()).copied().flatten()
            && decl.type_params.is_empty()
        {
            for item in items {
                let DictItem::Entry { key, value } = item else { continue };
                let field = decl.fields.iter().find(|field| field.name.name == key.name);
                if let Some((literal, _)) = field.and_then(|field| field.ty.as_ref()).and_then(wrong) {
                    self.change(Kind::Type, value.span, literal);
                    self.change(Kind::Nil, value.span, "nil");
                }
            }
        }
        visit::walk_expr(self, expr);
    }
}

/// A seeded order of numbers, the same in every run.
fn shuffle<T>(items: &mut [T]) {
    let mut state: u64 = 46;
    for at in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (state >> 33) as usize % (at + 1));
    }
}

#[test]
fn errors_are_found_where_both_sides_state_their_types() {
    let names = machine();
    let system = harn_system::Real::new();
    let world = World {
        signatures: &names,
        files: harn_front::Through(&system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut paths = Vec::new();
    programs(&root.join("conformance"), &mut paths);
    paths.sort();
    let mut changes = Vec::new();
    for path in paths.iter().filter(|path| path.with_extension("expected").exists()) {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = harn_syntax::parse(&text);
        if !parsed.errors.is_empty() || text.contains("override") {
            continue;
        }
        let mut places = Places::new(&names);
        places.stmts(&parsed.program.items);
        places.collecting = false;
        places.stmts(&parsed.program.items);
        changes.extend(places.found.into_iter().map(|change| (path, change)));
    }
    shuffle(&mut changes);
    if std::env::var_os("HARN_EVERY_CASE").is_none() {
        changes.truncate(SAMPLE);
    }
    let is_error = |d: &Diagnostic| d.severity == Severity::Error || harn_check::is_error(d.code);
    let mut made = Vec::new();
    let mut missed = Vec::new();
    for (path, Change { kind, span, new }) in changes {
        let text = std::fs::read_to_string(path).unwrap();
        let count = |text: &str| {
            let parsed = harn_syntax::parse(text);
            let source =
                Source { name: "main.harn", dir: path.parent().unwrap(), text, tree: &parsed.program };
            let found = check_program(&source, &world);
            parsed.errors.is_empty().then(|| found.iter().filter(|d| is_error(d)).count())
        };
        let mut changed = text.clone();
        changed.replace_range(span.range(), &new);
        let Some(after) = count(&changed) else { continue };
        // Some cases are wrong on purpose.
        if count(&text) != Some(0) {
            continue;
        }
        made.push(kind);
        if after == 0 {
            let line = text[..span.start as usize].matches('\n').count() + 1;
            missed.push((kind, format!("{}:{line}: {} -> {new}", path.display(), span.slice(&text))));
        }
    }
    let list: Vec<&str> = missed.iter().map(|(_, place)| place.as_str()).collect();
    let share = |made: usize, missed: usize| (made - missed) * 100 / made.max(1);
    for kind in [Kind::Type, Kind::Nil, Kind::Option] {
        let made = made.iter().filter(|of| **of == kind).count();
        let missed = missed.iter().filter(|(of, _)| *of == kind).count();
        let share = share(made, missed);
        println!("{kind:?}: {made} programs, {missed} missed, {share} % found");
        assert!(made > 100, "only {made} programs with an error of the kind {kind:?}");
        assert!(share >= LEAST_OF_KIND, "{kind:?}: only {share} % of {made} found:\n{}", list.join("\n"));
    }
    let share = share(made.len(), missed.len());
    assert!(share >= LEAST, "only {share} % of {} found:\n{}", made.len(), list.join("\n"));
}
