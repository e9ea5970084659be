//! Names of types that do not exist but resemble one: `i32`, `String`, `Strng`. A name that resembles none is a type of its
//! own, which only equals itself.

use harn_syntax::Diagnostic;
use harn_syntax::ast::*;
use harn_syntax::habits::type_instead_of;
use harn_syntax::suggest::distance;
use harn_syntax::visit::{self, Visitor};

use crate::codes::TYPE_NAME;
use crate::types::{TypeName, Typing};

/// Maximum number of names with suggestions: a source that is not Harn may have very many.
const MAX_SUGGESTIONS: usize = 100;

/// Checks every type that a file mentions.
pub(crate) fn check(typing: Typing<'_>) -> Vec<Diagnostic> {
    let mut names = Names { typing, missing: Vec::new() };
    names.stmts(&typing.source.tree.items);
    let missing = std::mem::take(&mut names.missing);
    missing.into_iter().take(MAX_SUGGESTIONS).filter_map(|name| told(&typing, name)).collect()
}

/// Returns the unknown names in a type, with their offset and the finding.
pub(crate) fn misnamed(typing: &Typing<'_>, ty: &TypeExpr) -> Vec<(u32, String)> {
    let mut names = Names { typing: *typing, missing: Vec::new() };
    names.ty(ty);
    let told = |name: &&Ident| Some((name.span.start, told(typing, name)?.message));
    names.missing.iter().filter_map(told).collect()
}

fn told(typing: &Typing<'_>, name: &Ident) -> Option<Diagnostic> {
    let near = type_instead_of(&name.name).or_else(|| nearest(&name.name, &typing.names()))?;
    let message = format!("unknown type `{}`; did you mean `{near}`?", name.name);
    let fix = vec![(name.span, near.to_owned())];
    Some(
        Diagnostic::warning(message)
            .with_code(TYPE_NAME)
            .at(name.span)
            .with_fix(format!("write `{near}`"), fix),
    )
}

/// Returns the name that differs by a typo, or by upper and lower case.
fn nearest<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let limit = match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let lower = name.to_lowercase();
    let near = names.iter().filter_map(|known| {
        let other = known.to_lowercase();
        let far = distance(&lower, &other);
        (far <= limit).then_some((far, *known))
    });
    near.min().map(|(_, known)| known)
}

struct Names<'a> {
    typing: Typing<'a>,
    missing: Vec<&'a Ident>,
}

impl<'a> Names<'a> {
    fn ty(&mut self, ty: &'a TypeExpr) {
        match &ty.kind {
            TypeKind::Named { name, args } => {
                if matches!(self.typing.name(&name.name), TypeName::Opaque) {
                    self.missing.push(name);
                }
                self.types(args);
            }
            TypeKind::Union(members) => self.types(members),
            TypeKind::Fn { params, ret } => {
                self.types(params);
                self.ty(ret);
            }
            TypeKind::Shape(fields) => fields.iter().for_each(|field| self.ty(&field.ty)),
            TypeKind::Nil | TypeKind::Str(_) | TypeKind::Int(_) => {}
        }
    }

    fn types(&mut self, types: impl IntoIterator<Item = &'a TypeExpr>) {
        types.into_iter().for_each(|ty| self.ty(ty));
    }

    fn parameters(&mut self, params: &'a [Param]) {
        self.types(params.iter().filter_map(|param| param.ty.as_ref()));
    }
}

impl<'a> Visitor<'a> for Names<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let StmtKind::Let { ty: Some(ty), .. } = &stmt.kind {
            self.ty(ty);
        }
        visit::walk_stmt(self, stmt);
    }

    fn expr(&mut self, expr: &'a Expr) {
        if let ExprKind::Call { type_args, .. } = &expr.kind {
            self.types(type_args);
        }
        visit::walk_expr(self, expr);
    }

    fn decl(&mut self, decl: &'a Decl) {
        match &decl.kind {
            DeclKind::Struct(d) => self.types(d.fields.iter().filter_map(|field| field.ty.as_ref())),
            DeclKind::Enum(d) => {
                let fields = d.variants.iter().flat_map(|variant| &variant.fields);
                self.types(fields.filter_map(|field| field.ty.as_ref()));
            }
            DeclKind::Type(d) => self.ty(&d.ty),
            DeclKind::Interface(d) => {
                self.types(d.assoc_types.iter().filter_map(|assoc| assoc.default.as_ref()));
                // A method may use its own type parameters.
                for method in d.methods.iter().filter(|method| method.type_params.is_empty()) {
                    self.parameters(&method.params);
                    self.types(&method.ret);
                }
            }
            _ => {}
        }
        visit::walk_decl(self, decl);
    }

    fn function(&mut self, func: &'a Function, _: &'a [TypeParam]) {
        self.parameters(&func.params);
        self.types(&func.ret);
        visit::walk_function(self, func);
    }

    fn catch(&mut self, catch: &'a Catch) {
        self.types(&catch.ty);
        self.block(&catch.body);
    }
}
