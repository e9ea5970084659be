//! Types for editors: of the objects whose members are mentioned, and of variables without an annotation.

use harn_syntax::ast::*;

use crate::imports::Imports;
use crate::pass::Pass;
use crate::told::{Told, ToldMember, ToldType};
use crate::types::{Declared, Ty, TypeName, Typing, type_text};
use crate::world::{Source, World};

/// Returns the known types of a file, which may have errors.
#[must_use]
pub fn types_of(source: &Source<'_>, world: &World<'_>) -> Told {
    let declared = Declared::of(source.tree);
    let imports = Imports::default();
    let mut pass = Pass::new(Typing { declared: &declared, imports: &imports, source, world });
    pass.told = Some(Told::default());
    pass.file();
    pass.told.take().unwrap_or_default()
}

/// Records the type of an object whose member is mentioned, and bools that are compared with a literal.
pub(crate) fn expression<'a>(pass: &mut Pass<'a>, expr: &'a Expr) {
    if pass.told.is_none() {
        return;
    }
    if let ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, lhs, rhs, .. } = &expr.kind {
        for (side, other) in [(lhs, rhs), (rhs, lhs)] {
            let is_bool = matches!(side.kind, ExprKind::Bool(_)) && pass.infer(other) == Ty::named("bool");
            if let Some(out) = pass.told.as_mut().filter(|_| is_bool) {
                out.bools.push(other.span);
            }
        }
    }
    let (ExprKind::Member { object, .. } | ExprKind::MethodCall { object, .. }) = &expr.kind else { return };
    let ty = pass.infer(object);
    let told = told(pass, &ty);
    if let (Some(told), Some(out)) = (told, pass.told.as_mut()) {
        out.objects.push((object.span, told));
    }
}

/// Records the type of a variable.
pub(crate) fn statement<'a>(pass: &mut Pass<'a>, stmt: &'a Stmt) {
    if pass.told.is_none() {
        return;
    }
    let StmtKind::Let { pattern, ty: None, value, .. } = &stmt.kind else { return };
    let PatternKind::Name(name) = &pattern.kind else { return };
    let ty = pass.infer(value);
    let told = told(pass, &ty);
    if let (Some(told), Some(out)) = (told, pass.told.as_mut()) {
        out.variables.push((name.span, told));
    }
}

fn told(pass: &Pass<'_>, ty: &Ty) -> Option<ToldType> {
    let mut name = None;
    let fields = match ty {
        Ty::Any => return None,
        Ty::Shape(fields) => fields
            .iter()
            .map(|field| ToldMember { name: field.name.clone(), text: field.ty.to_string() })
            .collect(),
        Ty::Named(of, _) => match pass.typing.name(of) {
            TypeName::Own(DeclKind::Struct(decl)) | TypeName::Imported(DeclKind::Struct(decl)) => {
                name = Some(of.clone());
                let field = |field: &StructField| ToldMember {
                    name: field.name.name.clone(),
                    text: field.ty.as_ref().map_or_else(|| "any".to_owned(), type_text),
                };
                decl.fields.iter().map(field).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    Some(ToldType { text: ty.to_string(), word: ty.word(), name, fields })
}
