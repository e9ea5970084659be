//! The type of an expression, as far as literals, annotations and declarations tell.

use harn_syntax::ast::*;

use crate::scope::{Kind, Lookup};
use crate::types::{Field, Ty, TypeName};
use crate::walk::Pass;

/// Elements of a literal that are looked at for the type of all of them.
const MAX_ELEMENTS: usize = 1000;

impl<'a> Pass<'a> {
    /// The type of an expression of the scope that the walk is in.
    pub(crate) fn infer(&mut self, expr: &'a Expr) -> Ty {
        // Operators nest deeply, and each level asks for its operands.
        let key = std::ptr::from_ref(expr);
        if let Some(known) = self.inferred.get(&key) {
            return known.clone();
        }
        let ty = self.infer_anew(expr);
        self.inferred.insert(key, ty.clone());
        ty
    }

    fn infer_anew(&mut self, expr: &'a Expr) -> Ty {
        match &expr.kind {
            ExprKind::Nil => Ty::Nil,
            ExprKind::Bool(_) | ExprKind::Unary { op: UnaryOp::Not, .. } => Ty::named("bool"),
            ExprKind::Int(_) => Ty::named("int"),
            ExprKind::Float(_) => Ty::named("float"),
            ExprKind::Str(_) | ExprKind::Interp(_) => Ty::named("string"),
            ExprKind::Range { .. } => Ty::named("range"),
            ExprKind::Closure { .. } => Ty::named("closure"),
            ExprKind::Paren(inner) => self.infer(inner),
            ExprKind::List(items) => self.list(items),
            ExprKind::Dict(items) => self.dict(items),
            ExprKind::StructLit { name, .. } => self.instance(&name.name),
            ExprKind::Name(name) => self.name_type(name, expr),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match self.infer(operand) {
                ty if matches!(ty.plain(), Some("int" | "float")) => ty,
                _ => Ty::Any,
            },
            ExprKind::Binary { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.infer(lhs), self.infer(rhs));
                binary(*op, &lhs, &rhs)
            }
            ExprKind::Ternary { then, other, .. } => {
                let types = [self.infer(then), self.infer(other)];
                Ty::union(types)
            }
            ExprKind::If { arms, else_body: Some(last) } => {
                let blocks = arms.iter().map(|arm| &arm.body).chain([last]);
                let types: Vec<Ty> = blocks.filter_map(|block| self.block_type(block)).collect();
                Ty::union(types)
            }
            ExprKind::Call { callee, args, .. } => self.call_type(callee, args),
            ExprKind::MethodCall { object, name, optional: false, .. } => {
                self.method_type(object, &name.name)
            }
            ExprKind::Member { object, name, optional: false } => self.member_type(object, &name.name),
            ExprKind::Index { object, optional: false, .. } => match self.infer(object) {
                Ty::Named(name, args) if name == "list" && args.len() == 1 => {
                    args.into_iter().next().unwrap_or(Ty::Any)
                }
                _ => Ty::Any,
            },
            _ => Ty::Any,
        }
    }

    fn list(&mut self, items: &'a [Arg]) -> Ty {
        if items.is_empty() || items.len() > MAX_ELEMENTS || items.iter().any(|item| item.spread) {
            return Ty::named("list");
        }
        let types: Vec<Ty> = items.iter().map(|item| self.infer(&item.value)).collect();
        Ty::list_of(Ty::union(types))
    }

    fn dict(&mut self, items: &'a [DictItem]) -> Ty {
        if items.is_empty() || items.len() > MAX_ELEMENTS {
            return Ty::named("dict");
        }
        let mut fields: Vec<Field> = Vec::with_capacity(items.len());
        for item in items {
            let DictItem::Entry { key, value } = item else { return Ty::named("dict") };
            fields.push(Field { name: key.name.clone(), optional: false, ty: self.infer(value) });
        }
        Ty::Shape(fields)
    }

    /// The type of an instance of a struct.
    fn instance(&self, name: &Name) -> Ty {
        match self.typing.name(name) {
            TypeName::Own(DeclKind::Struct(_)) | TypeName::Imported(DeclKind::Struct(_)) => {
                Ty::Named(name.clone(), Vec::new())
            }
            _ => Ty::Any,
        }
    }

    fn name_type(&self, name: &Name, expr: &Expr) -> Ty {
        match self.scopes.look_up(name, expr.span.start) {
            Lookup::Is(Kind::Fn(decl, _)) if !self.overridden.contains(name.as_str()) => {
                if decl.func.is_gen
                    || decl.func.params.iter().any(|param| param.rest || param.default.is_some())
                {
                    return Ty::named("closure");
                }
                let of = |ty: &Option<TypeExpr>| ty.as_ref().map_or(Ty::Any, |ty| self.typing.resolve(ty));
                let params = decl.func.params.iter().map(|param| of(&param.ty)).collect();
                Ty::Fn(params, Box::new(of(&decl.func.ret)))
            }
            Lookup::Is(_) => self.known_at(name).map_or(Ty::Any, |known| known.ty.clone()),
            _ => Ty::Any,
        }
    }

    /// The value of a block that only has one expression, which sees what is visible here; nothing for a block that
    /// is left otherwise.
    fn block_type(&mut self, block: &'a Block) -> Option<Ty> {
        match block.stmts.as_slice() {
            [] => Some(Ty::Nil),
            [Stmt { kind: StmtKind::Expr(expr), .. }] => Some(self.infer(expr)),
            [.., last] => match last.kind {
                StmtKind::Return(_) | StmtKind::Throw(_) | StmtKind::Break | StmtKind::Continue => None,
                _ => Some(Ty::Any),
            },
        }
    }

    fn call_type(&mut self, callee: &'a Expr, args: &'a [Arg]) -> Ty {
        let ExprKind::Name(name) = &callee.kind else { return Ty::Any };
        match self.scopes.look_up(name, callee.span.start) {
            Lookup::Is(Kind::Fn(decl, _))
                if decl.type_params.is_empty() && !self.overridden.contains(name.as_str()) =>
            {
                let is_plain = !decl.func.is_gen && !decl.func.has_yield;
                let ret = decl.func.ret.as_ref().filter(|_| is_plain);
                ret.map_or(Ty::Any, |ret| self.typing.resolve(ret))
            }
            Lookup::Is(Kind::Struct(_)) => self.instance(name),
            Lookup::Missing if self.is_builtin(name) => match (name.as_str(), args) {
                ("Ok", [arg]) => Ty::Named(Name::new_static("Result"), vec![self.infer(&arg.value), Ty::Any]),
                ("Err", [arg]) => {
                    Ty::Named(Name::new_static("Result"), vec![Ty::Any, self.infer(&arg.value)])
                }
                _ => result(self.world.signatures.builtin(name).map(|signature| signature.returns)),
            },
            _ => Ty::Any,
        }
    }

    fn method_type(&mut self, object: &'a Expr, name: &str) -> Ty {
        if let Some(decl) = self.enum_named(object) {
            let is_variant = decl.variants.iter().any(|variant| variant.name.name == name);
            return if is_variant { Ty::Named(decl.name.name.clone(), Vec::new()) } else { Ty::Any };
        }
        let ty = self.infer(object);
        match ty.word() {
            // What a dict holds may be called like a method.
            Some("dict") | None => Ty::Any,
            Some(word) => result(self.world.signatures.method(word, name).map(|signature| signature.returns)),
        }
    }

    fn member_type(&mut self, object: &'a Expr, name: &str) -> Ty {
        if let Some(decl) = self.enum_named(object) {
            let is_variant = decl.variants.iter().any(|variant| variant.name.name == name);
            return if is_variant { Ty::Named(decl.name.name.clone(), Vec::new()) } else { Ty::Any };
        }
        match self.infer(object) {
            Ty::Shape(fields) => fields
                .into_iter()
                .find(|field| field.name == name && !field.optional)
                .map_or(Ty::Any, |field| field.ty),
            Ty::Named(type_name, _) => match self.typing.name(&type_name) {
                TypeName::Own(DeclKind::Struct(decl)) if decl.type_params.is_empty() => {
                    let field = decl.fields.iter().find(|field| field.name.name == name && !field.optional);
                    let ty = field.and_then(|field| field.ty.as_ref());
                    ty.map_or(Ty::Any, |ty| self.typing.resolve(ty))
                }
                _ => Ty::Any,
            },
            _ => Ty::Any,
        }
    }
}

/// The result of a builtin from its table; nothing for what is no single known type.
fn result(returns: Option<&'static str>) -> Ty {
    match returns {
        Some("nil") => Ty::Nil,
        Some(name @ ("int" | "float" | "string" | "bool" | "list" | "dict" | "set" | "bytes" | "range")) => {
            Ty::named(name)
        }
        _ => Ty::Any,
    }
}

/// The type of `lhs op rhs`.
fn binary(op: BinaryOp, lhs: &Ty, rhs: &Ty) -> Ty {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Sub};
    let numbers = |ty: Option<&str>| matches!(ty, Some("int" | "float"));
    match (op, lhs.word(), rhs.word()) {
        (Add | Sub | Mul | Div | Rem | Pow, Some("int"), Some("int")) if !matches!(op, Div | Pow) => {
            Ty::named("int")
        }
        (Add | Sub | Mul | Div | Rem | Pow, a, b)
            if numbers(a) && numbers(b) && (a, b) != (Some("int"), Some("int")) =>
        {
            Ty::named("float")
        }
        (Add, Some(a @ ("string" | "list" | "dict")), Some(b)) if a == b => Ty::named(a),
        (Mul, Some("string"), Some("int")) | (Mul, Some("int"), Some("string")) => Ty::named("string"),
        (Add | Sub | Mul | Div | Rem | Pow, ..) => Ty::Any,
        (BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge, ..)
        | (BinaryOp::Eq | BinaryOp::Ne | BinaryOp::In | BinaryOp::NotIn, ..) => Ty::named("bool"),
    }
}
