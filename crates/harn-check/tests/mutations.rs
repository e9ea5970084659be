//! Programs of the conformance suite with one wrong type put in, each at a place of its own: how many are found.
//!
//! A place counts when both sides say their types: an annotation on one, a literal, an annotated name or a call of an
//! annotated function on the other.

use std::collections::HashMap;
use std::path::Path;

use harn_check::{Source, World, check_program};
use harn_syntax::ast::*;
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Severity, Span};

use crate::corpus::{machine, programs};

/// The least share of wrong programs that must be found, in percent.
const LEAST: usize = 90;

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

#[derive(Default)]
struct Places<'a> {
    /// Functions by name; `None` when there are several, or something else has the name.
    functions: HashMap<&'a str, Option<&'a FnDecl>>,
    /// Names that are bound once, with their annotation.
    names: HashMap<&'a str, Option<&'a TypeExpr>>,
    structs: HashMap<&'a str, Option<&'a StructDecl>>,
    results: Vec<Option<&'a TypeExpr>>,
    found: Vec<(Span, &'static str)>,
    collecting: bool,
}

impl<'a> Places<'a> {
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
                    self.found.push((ty.span, other));
                }
            }
            StmtKind::Return(Some(value)) if !self.collecting && self.typed(value) => {
                if let Some((literal, _)) = self.results.last().copied().flatten().and_then(wrong) {
                    self.found.push((value.span, literal));
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
            self.found.push((value.span, literal));
            if self.typed(value) {
                self.found.push((ret.span, other));
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
                self.found.push((arg.value.span, literal));
                if self.typed(&arg.value) {
                    self.found.push((ty.span, other));
                }
            }
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
                    self.found.push((value.span, literal));
                }
            }
        }
        visit::walk_expr(self, expr);
    }
}

#[test]
fn wrong_types_are_found_where_both_sides_say_theirs() {
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
    let (mut made, mut missed) = (0, Vec::new());
    for path in paths.iter().filter(|path| path.with_extension("expected").exists()) {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = harn_syntax::parse(&text);
        if !parsed.errors.is_empty() || text.contains("override") {
            continue;
        }
        let mut places = Places { collecting: true, ..Places::default() };
        places.stmts(&parsed.program.items);
        places.collecting = false;
        places.stmts(&parsed.program.items);
        let dir = path.parent().unwrap();
        let source = Source { name: "main.harn", dir, text: &text, tree: &parsed.program };
        let is_error = |d: &&Diagnostic| d.severity == Severity::Error || harn_check::is_error(d.code);
        let before = check_program(&source, &world).iter().filter(is_error).count();
        for (span, new) in places.found {
            let mut changed = text.clone();
            changed.replace_range(span.range(), new);
            let tree = harn_syntax::parse(&changed);
            if !tree.errors.is_empty() {
                continue;
            }
            made += 1;
            let found = check_program(&Source { text: &changed, tree: &tree.program, ..source }, &world);
            if found.iter().filter(is_error).count() <= before {
                let line = text[..span.start as usize].matches('\n').count() + 1;
                missed.push(format!("{}:{line}: {} -> {new}", path.display(), span.slice(&text)));
            }
        }
    }
    let share = (made - missed.len()) * 100 / made.max(1);
    println!("{made} programs, {} missed, {share} % found", missed.len());
    assert!(made > 100, "only {made} programs");
    assert!(share >= LEAST, "only {share} % of {made} found:\n{}", missed.join("\n"));
}
