//! Infers the type of an expression from literals, annotations and declarations.
//!
//! An expression is inferred when the walk reaches it, with the facts that hold there. Types that are needed later
//! (of the last expression of a block, of the branches of a condition) are cached during the walk.

mod call;
mod method;
mod schema;

pub(crate) use call::Called;

use harn_syntax::ast::*;

use crate::checks::unreachable::block_exits;
use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Field, Ty, TypeName, Typing, from_table, members, only, without};

/// Maximum number of elements of a literal that determine its element type.
const MAX_ELEMENTS: usize = 1000;

impl<'a> Pass<'a> {
    /// The type of an expression of the scope that the walk is in.
    pub(crate) fn infer(&mut self, expr: &'a Expr) -> Ty {
        // Cached, because operators nest deeply and each level infers its operands.
        let key = std::ptr::from_ref(expr);
        if let Some(known) = self.inferred.get(&key) {
            return known.clone();
        }
        let ty = self.infer_anew(expr);
        self.inferred.insert(key, ty.clone());
        ty
    }

    /// Infers the current type of an expression, without the cache.
    pub(crate) fn infer_anew(&mut self, expr: &'a Expr) -> Ty {
        match &expr.kind {
            ExprKind::Nil => Ty::Nil,
            ExprKind::Bool(_) | ExprKind::Unary { op: UnaryOp::Not, .. } => Ty::named("bool"),
            ExprKind::Int(_) => Ty::named("int"),
            ExprKind::Float(_) => Ty::named("float"),
            ExprKind::Duration(_) => Ty::named("duration"),
            ExprKind::Str(_) | ExprKind::Interp(_) => Ty::named("string"),
            ExprKind::Range { .. } => Ty::named("range"),
            ExprKind::Closure { func, .. } => self.closure_type(func),
            ExprKind::Paren(inner) => self.infer(inner),
            ExprKind::List(items) => self.list(items),
            ExprKind::Dict(items) => self.dict(items),
            ExprKind::StructLit { name, items } => self.literal(name, items),
            ExprKind::Name(name) => self.fact(expr).unwrap_or_else(|| self.name_type(name, expr)),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => match self.infer(operand) {
                ty if matches!(ty.plain(), Some("int" | "float")) => ty,
                _ => Ty::Any,
            },
            ExprKind::Binary { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.infer(lhs), self.infer(rhs));
                self.binary(*op, &lhs, &rhs)
            }
            ExprKind::Logic { op: LogicOp::Coalesce, lhs, rhs, .. } => match self.infer(lhs) {
                Ty::Any | Ty::Unknown => Ty::Any,
                Ty::Nil => self.infer(rhs),
                left @ (Ty::Union(_) | Ty::OneOf(_)) => {
                    let left = without(&left, |member| *member == Ty::Nil);
                    let right = self.infer(rhs);
                    Ty::union([left, right])
                }
                left => left,
            },
            ExprKind::Logic { .. } => Ty::Any,
            ExprKind::Ternary { then, other, .. } => {
                let types = [self.infer(then), self.infer(other)];
                Ty::union(types)
            }
            ExprKind::If { arms, else_body: Some(last) } => {
                let blocks = arms.iter().map(|arm| &arm.body).chain([last]);
                Ty::union(blocks.map(|block| self.block_type(block)).collect::<Vec<_>>())
            }
            ExprKind::Match { arms, .. } => {
                Ty::union(arms.iter().map(|arm| self.block_type(&arm.body)).collect::<Vec<_>>())
            }
            ExprKind::Try { body, catch: None, finally: None } => match self.block_type(body) {
                Ty::Named(name, args) if name == "Result" => Ty::Named(name, args),
                ty => Ty::Named(Name::new_static("Result"), vec![ty, Ty::Any]),
            },
            ExprKind::TryStar(inner) => self.infer(inner),
            ExprKind::Propagate { operand, .. } => match self.infer(operand) {
                Ty::Named(name, args) if name == "Result" && args.len() == 2 => args[0].clone(),
                _ => Ty::Any,
            },
            ExprKind::Parallel(parallel) => self.parallel_type(parallel),
            ExprKind::Spawn(_) => Ty::named("task_handle"),
            ExprKind::Call { callee, type_args, args } => self.call_type(callee, type_args, args),
            ExprKind::MethodCall { object, name, args, optional: false } => {
                self.method_type(object, &name.name, args)
            }
            ExprKind::Member { object, name, optional: false } => {
                self.fact(expr).unwrap_or_else(|| self.member_type(object, &name.name))
            }
            ExprKind::Index { object, index, optional: false, .. } => {
                self.fact(expr).unwrap_or_else(|| self.element_type(object, index))
            }
            ExprKind::Slice { object, .. } => match self.infer(object) {
                ty if matches!(ty.word(), Some("list" | "string")) => ty,
                _ => Ty::Any,
            },
            _ => Ty::Any,
        }
    }

    /// The type of the result of an operation; a sum of lists has the items of both.
    pub(crate) fn binary(&self, op: BinaryOp, lhs: &Ty, rhs: &Ty) -> Ty {
        match (op, lhs, rhs) {
            (BinaryOp::Add, Ty::Named(name, items), Ty::Named(other, added))
                if name == "list" && other == "list" =>
            {
                match (items.as_slice(), added.as_slice()) {
                    ([item], [added]) => Ty::list_of(self.joined(item, added)),
                    _ => Ty::named("list"),
                }
            }
            _ => binary(op, lhs, rhs),
        }
    }

    /// The type of the items of a list or set to which an item is added.
    fn joined(&self, item: &Ty, added: &Ty) -> Ty {
        if self.typing.fits(item, added) { item.clone() } else { Ty::union([item.clone(), added.clone()]) }
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

    /// A closure with annotated parameters has a known function type.
    fn closure_type(&self, func: &'a Function) -> Ty {
        let params: Option<Vec<Ty>> = func
            .params
            .iter()
            .map(|param| Some(self.typing.resolve(param.ty.as_ref().filter(|_| !param.rest)?)))
            .collect();
        let result = match func.body.stmts.last().map(|stmt| &stmt.kind) {
            Some(StmtKind::Return(Some(value))) => {
                self.inferred.get(&std::ptr::from_ref(value)).cloned().unwrap_or(Ty::Any)
            }
            _ => self.block_type(&func.body),
        };
        match params.filter(|params| !params.is_empty() && !func.has_yield) {
            Some(params) if !matches!(result, Ty::Any | Ty::Never) && !returns_early(func) => {
                Ty::Fn(params, Box::new(result))
            }
            _ => Ty::named("closure"),
        }
    }

    /// The type of an instance of a struct.
    fn instance(&self, name: &Name) -> Ty {
        match self.typing.name(name) {
            TypeName::Own(DeclKind::Struct(decl)) | TypeName::Imported(DeclKind::Struct(decl)) => {
                Ty::Named(name.clone(), vec![Ty::Any; decl.type_params.len()])
            }
            _ => Ty::Any,
        }
    }

    fn name_type(&mut self, name: &Name, expr: &Expr) -> Ty {
        match self.scopes.look_up(name, expr.span.start) {
            Lookup::Is(Kind::Fn(decl, _)) if !self.overridden.contains(name.as_str()) => {
                if decl.func.is_gen
                    || decl.func.has_yield
                    || decl.func.params.iter().any(|param| param.rest || param.default.is_some())
                {
                    return Ty::named("closure");
                }
                let of = |ty: &Option<TypeExpr>| ty.as_ref().map_or(Ty::Any, |ty| self.typing.resolve(ty));
                let params = decl.func.params.iter().map(|param| of(&param.ty)).collect();
                Ty::Fn(params, Box::new(of(&decl.func.ret)))
            }
            Lookup::Is(_) => match self.known_at(name) {
                Some(known) => known.ty.clone(),
                None => self.alias_schema(name),
            },
            _ => Ty::Any,
        }
    }

    /// Returns the type of a walked block.
    pub(crate) fn block_type(&self, block: &Block) -> Ty {
        self.block_types.get(&std::ptr::from_ref(block)).cloned().unwrap_or(Ty::Any)
    }

    /// Caches the type of a block whose statements have just been walked.
    pub(crate) fn note_block(&mut self, block: &'a Block) {
        // The type of the value of a final `return` is needed after its scope is gone.
        if let Some(StmtKind::Return(Some(value))) = block.stmts.last().map(|stmt| &stmt.kind) {
            self.infer(value);
        }
        let ty = match block.stmts.last().map(|stmt| &stmt.kind) {
            None => Ty::Nil,
            _ if block_exits(block) => Ty::Never,
            Some(StmtKind::Expr(expr)) => self.infer(expr),
            Some(_) => Ty::Any,
        };
        if ty != Ty::Any {
            self.block_types.insert(std::ptr::from_ref(block), ty);
        }
    }

    fn parallel_type(&self, parallel: &'a Parallel) -> Ty {
        let item = match self.block_type(&parallel.func.body) {
            Ty::Never => Ty::Any,
            _ if returns_early(&parallel.func) => Ty::Any,
            item => item,
        };
        match parallel.kind {
            ParallelKind::Settle => Ty::named("dict"),
            _ if parallel.as_stream => Ty::Named(Name::new_static("Stream"), vec![item]),
            _ => Ty::list_of(item),
        }
    }

    fn member_type(&mut self, object: &'a Expr, name: &str) -> Ty {
        if let Some(decl) = self.enum_named(object) {
            return enum_type(decl, name);
        }
        let ty = self.infer(object);
        self.field_of(&ty, name)
    }

    /// The type of a field of a value.
    pub(crate) fn field_of(&self, ty: &Ty, name: &str) -> Ty {
        let of = |fields: &[Field]| match fields.iter().find(|field| field.name == name) {
            Some(field) if field.optional && !members(&field.ty).contains(&Ty::Nil) => {
                Ty::union([Ty::Nil, field.ty.clone()])
            }
            Some(field) => field.ty.clone(),
            None => Ty::Any,
        };
        match ty {
            Ty::Shape(fields) => of(fields),
            Ty::Named(owner, args) => match (owner.as_str(), name, args.as_slice()) {
                ("Pair", "first", [first, _]) => first.clone(),
                ("Pair", "second", [_, second]) => second.clone(),
                ("dict", ..) => Ty::Any,
                _ => match self.typing.struct_fields(owner, args) {
                    Some(fields) => of(&fields),
                    None if name == "variant" && self.enum_declared(owner).is_some() => Ty::named("string"),
                    None => Ty::Any,
                },
            },
            _ => Ty::Any,
        }
    }

    /// Resolves a type name to an enum.
    pub(crate) fn enum_declared(&self, name: &str) -> Option<&'a EnumDecl> {
        let typing: Typing<'a> = self.typing;
        match typing.name(name) {
            TypeName::Own(DeclKind::Enum(decl)) | TypeName::Imported(DeclKind::Enum(decl)) => Some(decl),
            _ => None,
        }
    }

    fn element_type(&mut self, object: &'a Expr, index: &'a Expr) -> Ty {
        match self.infer(object) {
            Ty::Named(name, args) => match (name.as_str(), args.as_slice()) {
                // Other elements are not tracked.
                ("list", [item]) if !matches!(index.kind, ExprKind::Int(_)) => soft(item),
                ("list", [item]) => item.clone(),
                ("dict", [_, value]) => Ty::union([Ty::OneOf(vec![Ty::Nil]), value.clone()]),
                ("string", _) if matches!(index.kind, ExprKind::Int(_)) => Ty::named("string"),
                _ => Ty::Any,
            },
            shape @ Ty::Shape(_) => match &index.kind {
                ExprKind::Str(key) => self.field_of(&shape, key),
                _ => Ty::Any,
            },
            _ => Ty::Any,
        }
    }

    /// Infers the type of a struct literal; its fields determine the type arguments.
    fn literal(&mut self, name: &Ident, items: &'a [DictItem]) -> Ty {
        let typing: Typing<'a> = self.typing;
        let Some((decl, home)) = typing.struct_named(&name.name) else { return Ty::Any };
        if decl.type_params.is_empty() {
            return Ty::Named(name.name.clone(), Vec::new());
        }
        let bound = self.struct_bindings(decl, home, items);
        let arg = |param: &TypeParam| {
            bound.iter().find(|(name, _)| *name == param.name.name).map_or(Ty::Any, |(_, ty)| ty.clone())
        };
        Ty::Named(name.name.clone(), decl.type_params.iter().map(arg).collect())
    }
}

/// The type of `E.V`.
fn enum_type(decl: &EnumDecl, name: &str) -> Ty {
    if decl.variants.iter().any(|variant| variant.name.name == name) {
        Ty::Named(decl.name.name.clone(), vec![Ty::Any; decl.type_params.len()])
    } else {
        Ty::Any
    }
}

/// Returns whether a function may return before its last statement.
fn returns_early(func: &Function) -> bool {
    use harn_syntax::visit::{self, Visitor};
    struct Returns(usize);
    impl<'a> Visitor<'a> for Returns {
        fn stmt(&mut self, stmt: &'a Stmt) {
            self.0 += usize::from(matches!(stmt.kind, StmtKind::Return(_)));
            visit::walk_stmt(self, stmt);
        }
        fn function(&mut self, _: &'a Function, _: &'a [TypeParam]) {}
    }
    let mut returns = Returns(0);
    returns.block(&func.body);
    let last = func.body.stmts.last().is_some_and(|stmt| matches!(stmt.kind, StmtKind::Return(_)));
    returns.0 > usize::from(last)
}

/// The result of a builtin from its table.
fn result(returns: Option<&'static str>) -> Ty {
    returns.map_or(Ty::Any, from_table)
}

/// The type of `lhs op rhs`.
fn binary(op: BinaryOp, lhs: &Ty, rhs: &Ty) -> Ty {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Sub};
    let numbers = |ty: Option<&str>| matches!(ty, Some("int" | "float"));
    match (op, lhs.word(), rhs.word()) {
        (Add | Sub | Mul | Div | Rem | Pow, Some("int"), Some("int")) if op != Pow => Ty::named("int"),
        (Add | Sub | Mul | Div | Rem | Pow, a, b)
            if numbers(a) && numbers(b) && (a, b) != (Some("int"), Some("int")) =>
        {
            Ty::named("float")
        }
        (Add, Some(a @ ("string" | "list" | "dict")), Some(b)) if a == b => Ty::named(a),
        (Mul, Some("string"), Some("int")) | (Mul, Some("int"), Some("string")) => Ty::named("string"),
        (Add | Sub, Some("duration"), Some("duration"))
        | (Mul, Some("duration"), Some("int"))
        | (Mul, Some("int"), Some("duration")) => Ty::named("duration"),
        (Div, Some("duration"), Some("duration")) => Ty::named("float"),
        (Add | Sub | Mul | Div | Rem | Pow, ..) => Ty::Any,
        (BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge, ..)
        | (BinaryOp::Eq | BinaryOp::Ne | BinaryOp::In | BinaryOp::NotIn, ..) => Ty::named("bool"),
    }
}

/// Returns the union of which the program may know more than its members.
pub(crate) fn soft(ty: &Ty) -> Ty {
    match ty {
        Ty::Union(members) => Ty::OneOf(members.clone()),
        other => other.clone(),
    }
}

/// Returns the type without nil.
pub(super) fn present(ty: &Ty) -> Ty {
    only(ty, |member| *member != Ty::Nil)
}
