//! Type checks of annotated variables, results and fields, and static proofs that make them unnecessary.
//!
//! [`Compiler::expect`] records the type that an expression must have. If the compiler cannot prove it, the value is
//! checked at run time as soon as it has been evaluated. If an expression extends a proved value (`xs + [x]`,
//! `xs.push(x)`, `{...d, k: v}`), only the added parts are checked: a check of the complete value at each step would
//! make loops quadratic.

use std::rc::Rc;

use harn_syntax::ast::*;
use harn_syntax::signature::Kinds;
use harn_value::{Ref, StructType};

use super::Compiler;
use super::scope::{Binding, Known, Local, Reg, TopAnnotations};
use crate::bytecode::Op;
use crate::params::{Annotated, Check, FieldChecks, Literal, TypeCheck};
use crate::types::Alias;

const NUMBER: Kinds = Kinds::INT.or(Kinds::FLOAT);

/// Kinds that `+` concatenates or merges with values of the same kind.
const JOINED: Kinds = Kinds::STRING.or(Kinds::LIST).or(Kinds::DICT);

impl<'a> Compiler<'a> {
    /// Returns the check of an annotation; `None` if it accepts all values.
    pub(super) fn annotation(&self, ty: &TypeExpr) -> Option<Rc<Check>> {
        self.with_types(|scope| Check::of(ty, scope, false)).map(Rc::new)
    }

    /// Collects the annotations of the top level, and sets the field types of its structs.
    pub(super) fn top_annotations(&mut self, program: &'a Program) {
        let mut found = TopAnnotations::default();
        let mut twice = Vec::new();
        for item in &program.items {
            match &item.kind {
                StmtKind::Let { mutable, pattern, ty, .. } => {
                    let PatternKind::Name(name) = &pattern.kind else { continue };
                    let known = match ty.as_ref().and_then(|ty| self.annotation(ty)) {
                        Some(check) if *mutable => Known::variable(&check, &name.name, &self.facts.top),
                        Some(check) => Known::passing(&check),
                        None => Known::kinds(Kinds::ANY),
                    };
                    if found.variables.insert(name.name.clone(), known).is_some() {
                        twice.push(&name.name);
                    }
                }
                StmtKind::Decl(decl) => match &decl.kind {
                    DeclKind::Fn(d) if d.type_params.is_empty() && !d.func.is_gen && !d.func.has_yield => {
                        if let Some(check) = d.func.ret.as_ref().and_then(|ty| self.annotation(ty)) {
                            found.results.insert(d.name.name.clone(), check);
                        }
                    }
                    DeclKind::Struct(d) => {
                        if let Some(Binding::Struct(ty, alias)) = self.module.names.get(&d.name.name) {
                            self.set_field_types(ty, alias);
                        }
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        for name in twice {
            found.variables.remove(name);
        }
        self.top_known = found;
    }

    /// Sets the field types of a struct.
    pub(super) fn set_field_types(&self, ty: &Ref<StructType>, alias: &Rc<Alias>) {
        let checks = self.field_checks(alias);
        if checks.iter().all(Option::is_none) {
            return;
        }
        let checks = ty.fields.iter().zip(checks).map(|(field, check)| {
            let name = format!("{}.{field}", ty.name);
            check.map(|check| TypeCheck { name, check, place: Annotated::Value })
        });
        // The first declaration of a name wins.
        let _ = ty.types.set(Box::new(FieldChecks(checks.collect())));
    }

    /// Returns the checks of the fields of a struct, in declaration order.
    fn field_checks(&self, alias: &Rc<Alias>) -> Vec<Option<Rc<Check>>> {
        let TypeKind::Shape(fields) = &alias.ty.kind else { return Vec::new() };
        fields.iter().map(|field| self.field_check(alias, field)).collect()
    }

    fn field_check(&self, alias: &Rc<Alias>, field: &ShapeField) -> Option<Rc<Check>> {
        let check =
            self.with_types(|scope| Check::of_field(&field.ty, &scope.of(alias, &[], scope), alias))?;
        Some(Rc::new(if field.optional { check.or_nil() } else { check }))
    }

    /// Returns the checks of the fields of a struct literal, with the field names for messages.
    pub(super) fn literal_checks(
        &self,
        ty: &StructType,
        alias: &Rc<Alias>,
    ) -> Vec<Option<(Rc<Check>, String)>> {
        let checks = self.field_checks(alias).into_iter().zip(&ty.fields);
        checks.map(|(check, field)| Some((check?, format!("{}.{field}", ty.name)))).collect()
    }

    /// Emits an instruction that checks a register.
    pub(super) fn emit_check(&mut self, reg: Reg, check: TypeCheck) {
        let kinds = check.check.kinds().low();
        let index = self.f().checks.len() as u32;
        self.f().checks.push(check);
        self.f().emit(Op::CheckType, reg, kinds, index);
    }

    // ---- expected types of expressions ----

    /// Compiles `e` with `evaluate`, which returns the register of its value, and emits a check unless the value is
    /// proved to pass. `grows` is the assigned variable, whose current value passes the check.
    pub(super) fn expecting(
        &mut self,
        e: &'a Expr,
        (check, name): (&Rc<Check>, &str),
        grows: Option<&Name>,
        evaluate: impl FnOnce(&mut Self) -> Reg,
    ) -> Reg {
        let before = self.f().expected.len();
        self.expect(e, check, name, grows);
        let reg = evaluate(self);
        // The expression was compiled on a path that does not call `checked` for it.
        if self.f().expected.len() > before {
            self.f().expected.truncate(before);
            self.f().at(e.span);
            self.emit_check(
                reg,
                TypeCheck { name: name.to_owned(), check: check.clone(), place: Annotated::Value },
            );
        }
        reg
    }

    pub(super) fn expect(&mut self, e: &'a Expr, check: &Rc<Check>, name: &str, grows: Option<&Name>) {
        let mut e = e;
        while let ExprKind::Paren(inner) = &e.kind {
            e = inner;
        }
        if self.proves(check, e) {
            return;
        }
        if let Some(parts) = self.grown(e, check, name, grows) {
            for (part, check, name) in parts {
                self.expect(part, &check, &name, None);
            }
            return;
        }
        let check = TypeCheck { name: name.to_owned(), check: check.clone(), place: Annotated::Value };
        self.f().expected.push((std::ptr::from_ref(e), check));
    }

    /// Emits the recorded check of `e`, if any, after `e` has been evaluated into `reg`.
    pub(super) fn checked(&mut self, e: &Expr, reg: Reg) {
        if self.f().expected.is_empty() {
            return;
        }
        let at = self.f().expected.iter().rposition(|(expected, _)| std::ptr::eq(*expected, e));
        if let Some(at) = at {
            let (_, check) = self.f().expected.remove(at);
            self.f().at(e.span);
            self.emit_check(reg, check);
        }
    }

    /// Returns the parts that `e` adds to a value that passes `check`, with their checks and names; `None` if `e` does
    /// not extend such a value.
    fn grown<'e>(
        &self,
        e: &'e Expr,
        check: &Rc<Check>,
        name: &str,
        grows: Option<&Name>,
    ) -> Option<Vec<(&'e Expr, Rc<Check>, String)>> {
        let passes =
            |base: &Expr| base.as_name().is_some_and(|n| Some(n) == grows) || self.proves(check, base);
        match (&e.kind, &**check) {
            (ExprKind::Binary { op, lhs, rhs, .. }, _) if self.is_closed(*op, check) && passes(lhs) => {
                Some(vec![(rhs, check.clone(), name.to_owned())])
            }
            (ExprKind::Binary { op, lhs, rhs, .. }, _) if self.is_closed(*op, check) => {
                let mut parts = self.grown(lhs, check, name, grows)?;
                parts.push((rhs, check.clone(), name.to_owned()));
                Some(parts)
            }
            (ExprKind::MethodCall { object, name: method, args, optional: false }, Check::List(item))
                if method.name == "push" && passes(object) =>
            {
                let [Arg { value, spread: false }] = &args[..] else { return None };
                let item = item.as_ref().map(|item| Rc::new((**item).clone()));
                Some(item.map(|item| (value, item, format!("{name}[]"))).into_iter().collect())
            }
            (ExprKind::Dict(items), Check::Dict(Some(item))) => {
                let (DictItem::Spread(base), added) = items.split_first()? else { return None };
                if !passes(base) {
                    return None;
                }
                let item = Rc::new((**item).clone());
                let part = |added: &'e DictItem| match added {
                    DictItem::Entry { key, value } => {
                        Some((value, item.clone(), format!("{name}.{}", key.name)))
                    }
                    DictItem::Computed { value, .. } => Some((value, item.clone(), format!("{name}[]"))),
                    DictItem::Spread(_) => None,
                };
                added.iter().map(part).collect()
            }
            _ => None,
        }
    }

    /// Returns whether `e` extends the variable `name`, whose value passes `check`.
    pub(super) fn is_grown(&self, e: &Expr, check: &Rc<Check>, name: &Name) -> bool {
        match &e.kind {
            ExprKind::Paren(inner) => self.is_grown(inner, check, name),
            _ => self.grown(e, check, name, Some(name)).is_some(),
        }
    }

    /// Returns whether `a op b` passes `check` if `a` and `b` do and the operation succeeds.
    pub(super) fn is_closed(&self, op: BinaryOp, check: &Check) -> bool {
        let possible = check.possible();
        let kinds = match check {
            Check::List(_) | Check::Dict(_) => possible,
            check => check.kinds(),
        };
        match op {
            BinaryOp::Add => kinds == possible && possible.is_within(NUMBER.or(JOINED)),
            BinaryOp::Sub | BinaryOp::Mul => kinds == possible && possible.is_within(NUMBER),
            _ => false,
        }
    }

    // ---- proofs ----

    /// Returns whether the compiler can prove that every value of `e` passes `check`.
    pub(super) fn proves(&self, check: &Check, e: &Expr) -> bool {
        let known = self.known(e);
        if known.kinds.is_within(check.kinds()) {
            return true;
        }
        if let Some(exact) = known.exact.as_deref()
            && (exact == check || matches!(check, Check::Union(members) if members.contains(exact)))
        {
            return true;
        }
        match (check, &e.kind) {
            (_, ExprKind::Paren(inner)) => self.proves(check, inner),
            (_, ExprKind::Ternary { then, other, .. }) => {
                self.proves(check, then) && self.proves(check, other)
            }
            (Check::List(Some(item)), ExprKind::List(items)) => {
                items.iter().all(|arg| !arg.spread && self.proves(item, &arg.value))
            }
            (Check::Dict(Some(item)), ExprKind::Dict(items)) => items.iter().all(|entry| match entry {
                DictItem::Entry { value, .. } | DictItem::Computed { value, .. } => self.proves(item, value),
                DictItem::Spread(_) => false,
            }),
            (Check::Shape(fields), ExprKind::Dict(items)) => self.proves_shape(fields, items),
            (Check::Union(members), _) => members.iter().any(|member| self.proves(member, e)),
            (Check::Named(_, check), _) => self.proves(check, e),
            (Check::Literal(Literal::Str(text)), ExprKind::Str(value)) => **value == **text,
            (Check::Literal(Literal::Int(i)), ExprKind::Int(value)) => i == value,
            (Check::Struct(name, _), ExprKind::StructLit { name: own, .. }) => {
                matches!(self.lookup_type(&own.name), Some(Binding::Struct(ty, _)) if ty.name == *name)
            }
            (
                Check::Enum(name),
                ExprKind::Member { object, .. } | ExprKind::MethodCall { object, optional: false, .. },
            ) => object.as_name().is_some_and(|object| {
                self.local(object).is_none()
                    && matches!(self.lookup_type(object), Some(Binding::Enum(ty)) if ty.name == *name)
            }),
            _ => false,
        }
    }

    fn proves_shape(
        &self,
        fields: &[(harn_value::Str, bool, Option<Check>, String)],
        items: &[DictItem],
    ) -> bool {
        let mut entries = Vec::new();
        for item in items {
            let DictItem::Entry { key, value } = item else { return false };
            entries.push((&key.name, value));
        }
        fields.iter().all(|(name, optional, check, _)| {
            let mut own = entries.iter().filter(|(key, _)| **key == name.as_str()).peekable();
            if own.peek().is_none() {
                return *optional;
            }
            own.all(|(_, value)| check.as_ref().is_none_or(|check| self.proves(check, value)))
        })
    }

    /// Returns the static knowledge about the value of `e`.
    fn known(&self, e: &Expr) -> Known {
        let kinds = match &e.kind {
            ExprKind::Nil => Kinds::NIL,
            ExprKind::Bool(_) | ExprKind::Unary { op: UnaryOp::Not, .. } => Kinds::BOOL,
            ExprKind::Int(_) => Kinds::INT,
            ExprKind::Float(_) => Kinds::FLOAT,
            ExprKind::Duration(_) => Kinds::DURATION,
            ExprKind::Str(_) | ExprKind::Interp(_) => Kinds::STRING,
            ExprKind::List(_) => Kinds::LIST,
            ExprKind::Dict(_) => Kinds::DICT,
            ExprKind::StructLit { name, .. } => match self.lookup_type(&name.name) {
                Some(Binding::Struct(_, alias)) => return Known::instance(alias),
                _ => Kinds::STRUCT,
            },
            ExprKind::Closure { .. } => Kinds::CLOSURE,
            ExprKind::Range { .. } => Kinds::RANGE,
            ExprKind::Paren(inner) => return self.known(inner),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => {
                self.known(operand).kinds.and(NUMBER.or(Kinds::DURATION))
            }
            ExprKind::Binary { op, lhs, rhs, .. } => {
                result_kinds(*op, self.known(lhs).kinds, self.known(rhs).kinds)
            }
            ExprKind::Logic { op: LogicOp::Coalesce, lhs, rhs, .. } => {
                self.known(lhs).kinds.without(Kinds::NIL).or(self.known(rhs).kinds)
            }
            ExprKind::Ternary { then, other, .. } => self.known(then).kinds.or(self.known(other).kinds),
            ExprKind::Name(name) => return self.known_name(name),
            ExprKind::Call { callee, .. } => return self.known_call(callee),
            ExprKind::Member { object, name, optional: false } => {
                return self.known_field(object, name).unwrap_or_else(|| Known::kinds(Kinds::ANY));
            }
            _ => Kinds::ANY,
        };
        Known::kinds(kinds)
    }

    /// Returns the entry of a name in the enclosing functions.
    fn local(&self, name: &Name) -> Option<&Local> {
        let top = self.funcs.len() - 1;
        let levels = self.funcs.iter().enumerate().rev();
        levels.filter_map(|(level, f)| f.find_entry(name, level < top)).next()
    }

    fn known_name(&self, name: &Name) -> Known {
        let unknown = || Known::kinds(Kinds::ANY);
        if name == "_" {
            return unknown();
        }
        match self.local(name) {
            Some(local) => local.known.as_deref().cloned().unwrap_or_else(unknown),
            None if self.module.id == self.own_module
                && matches!(self.module.names.get(name), Some(Binding::Global { .. })) =>
            {
                self.top_known.variables.get(name).cloned().unwrap_or_else(unknown)
            }
            None => unknown(),
        }
    }

    /// Returns the check of the annotation that an assigned value must pass.
    pub(super) fn declared_annotation(&self, name: &Name) -> Option<Rc<Check>> {
        self.known_name(name).declared
    }

    fn known_call(&self, callee: &Expr) -> Known {
        let unknown = || Known::kinds(Kinds::ANY);
        let Some(name) = callee.as_name() else { return unknown() };
        if self.local(name).is_some_and(|local| !matches!(local.binding, Binding::Struct(..))) {
            return unknown();
        }
        match self.module.names.get(name) {
            Some(Binding::Function { .. }) if self.module.id == self.own_module => {
                self.top_known.results.get(name).map_or_else(unknown, Known::passing)
            }
            Some(_) => unknown(),
            None => match self.vm.builtin(name) {
                Some(builtin) => {
                    // A type name that is not a kind may be any value.
                    let kinds = Kinds::of(builtin.returns);
                    let is_known = kinds.without(Kinds::NIL) != Kinds::NONE;
                    if is_known { Known::kinds(kinds) } else { unknown() }
                }
                None => unknown(),
            },
        }
    }

    /// Returns the static knowledge about a field of a value that is known to be an instance of a struct.
    fn known_field(&self, object: &Expr, name: &Ident) -> Option<Known> {
        let alias = self.known(object).instance?;
        let TypeKind::Shape(fields) = &alias.ty.kind else { return None };
        let field = fields.iter().find(|field| field.name.name == name.name)?;
        self.field_check(&alias, field).map(|check| Known::passing(&check))
    }

    /// Returns the static knowledge about a variable that is declared with this value.
    pub(super) fn known_variable(
        &self,
        name: &Name,
        check: Option<&Rc<Check>>,
        value: &Expr,
        mutable: bool,
    ) -> Option<Known> {
        match (check, mutable) {
            (Some(check), true) => Some(Known::variable(check, name, self.funcs[self.funcs.len() - 1].facts)),
            (Some(check), false) => Some(Known::passing(check)),
            (None, true) => None,
            (None, false) => {
                let known = self.known(value);
                Some(Known { declared: None, ..known }).filter(|known| known.kinds != Kinds::ANY)
            }
        }
    }
}

/// Returns the possible kinds of the result of an operation that succeeds.
fn result_kinds(op: BinaryOp, left: Kinds, right: Kinds) -> Kinds {
    let numbers = left.is_within(NUMBER) && right.is_within(NUMBER);
    let ints = left == Kinds::INT && right == Kinds::INT;
    let has_float = left == Kinds::FLOAT || right == Kinds::FLOAT;
    match op {
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge => {
            Kinds::BOOL
        }
        BinaryOp::In | BinaryOp::NotIn => Kinds::BOOL,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Rem if ints => Kinds::INT,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div if numbers && has_float => Kinds::FLOAT,
        BinaryOp::Add if left.is_within(NUMBER) || right.is_within(NUMBER) => NUMBER,
        // Both operands must have the same kind.
        BinaryOp::Add if left.is_within(JOINED) => left,
        BinaryOp::Add if right.is_within(JOINED) => right,
        _ if numbers => NUMBER,
        _ => Kinds::ANY,
    }
}
