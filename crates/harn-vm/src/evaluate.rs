//! Expressions that a debugger evaluates while the program is stopped: names, literals, fields, elements, operators,
//! and calls of builtins without side effects. Expressions that would run code of the program are rejected.

use harn_syntax::ast::{
    Arg, BinaryOp, DictItem, Expr, ExprKind, LogicOp, Program as Tree, StmtKind, StrPart, UnaryOp,
};
use harn_value::{Dict, Value};

use crate::builtin::{Builtin, Effect, Run};
use crate::error::Error;
use crate::native;
use crate::observe::Scene;
use crate::ops::{self, Arith};

/// Why an expression cannot be evaluated, as a sentence.
pub type Refusal = String;

impl Scene<'_> {
    /// Evaluates an expression with the names visible in the call at `level`, counted from the innermost.
    ///
    /// # Errors
    /// The expression cannot be parsed, fails, or would have side effects.
    pub fn evaluate(&self, text: &str, level: usize) -> Result<Value, Refusal> {
        let parsed = harn_syntax::parse(text);
        if let Some(error) = parsed.errors.first() {
            return Err(error.canonical(text));
        }
        let expr = only_expression(&parsed.program)?;
        let evaluator = Evaluator { scene: self, level };
        // Native code that is interrupted unwinds to here.
        match native::catch(|| evaluator.value(expr)) {
            Ok(result) => result,
            Err(error) => Err(error.uncaught_text()),
        }
    }

    /// Returns the value of a name, as a call sees it.
    pub fn lookup(&self, name: &str, level: usize) -> Option<Value> {
        let of = |variables: crate::observe::Variables| {
            variables.into_iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        of(self.locals(level))
            .or_else(|| of(self.captured(level)))
            .or_else(|| of(self.globals(level)))
            .or_else(|| self.vm().global(name))
    }
}

fn only_expression(tree: &Tree) -> Result<&Expr, Refusal> {
    match &tree.items[..] {
        [item] => match &item.kind {
            StmtKind::Expr(expr) => Ok(expr),
            _ => Err("only expressions can be evaluated here".to_owned()),
        },
        [] => Err("there is no expression".to_owned()),
        _ => Err("only one expression can be evaluated at a time".to_owned()),
    }
}

struct Evaluator<'s, 'a> {
    scene: &'s Scene<'a>,
    level: usize,
}

fn told(error: Error) -> Refusal {
    error.uncaught_text()
}

impl Evaluator<'_, '_> {
    fn value(&self, expr: &Expr) -> Result<Value, Refusal> {
        Ok(match &expr.kind {
            ExprKind::Nil => Value::NIL,
            ExprKind::Bool(b) => Value::from(*b),
            ExprKind::Int(n) => Value::int(*n),
            ExprKind::Float(n) => Value::from(*n),
            ExprKind::Duration(ms) => Value::duration(*ms),
            ExprKind::Str(text) => Value::str(text),
            ExprKind::Interp(parts) => self.text(parts)?,
            ExprKind::Name(name) => {
                let found = self.scene.lookup(name, self.level);
                let builtin = || self.scene.vm().builtin(name).map(Builtin::value);
                found.or_else(builtin).ok_or_else(|| format!("Undefined variable: {name}"))?
            }
            ExprKind::Paren(inner) => self.value(inner)?,
            ExprKind::List(items) => Value::from(self.arguments(items)?),
            ExprKind::Dict(items) => self.dict(items)?,
            ExprKind::Unary { op: UnaryOp::Not, operand, .. } => Value::from(!self.value(operand)?.truthy()),
            ExprKind::Unary { op: UnaryOp::Neg, operand, .. } => {
                ops::negate(&self.value(operand)?).map_err(told)?
            }
            ExprKind::Binary { op, lhs, rhs, .. } => binary(*op, &self.value(lhs)?, &self.value(rhs)?)?,
            ExprKind::Logic { op, lhs, rhs, .. } => self.logic(*op, lhs, rhs)?,
            ExprKind::Ternary { cond, then, other } => {
                self.value(if self.value(cond)?.truthy() { then } else { other })?
            }
            ExprKind::Range { start, end, exclusive, .. } => {
                ops::range(&self.value(start)?, &self.value(end)?, *exclusive).map_err(told)?.into()
            }
            ExprKind::Member { object, name, optional } => {
                let object = self.value(object)?;
                if *optional && object.is_nil() {
                    return Ok(Value::NIL);
                }
                ops::get_field(&object, &self.scene.vm().intern(&name.name)).map_err(told)?
            }
            ExprKind::Index { object, index, optional, .. } => {
                let object = self.value(object)?;
                if *optional && object.is_nil() {
                    return Ok(Value::NIL);
                }
                ops::get_index(&object, &self.value(index)?).map_err(told)?
            }
            ExprKind::Slice { object, start, end, .. } => {
                let bound = |bound: &Option<Box<Expr>>| {
                    bound.as_ref().map_or(Ok(Value::NIL), |bound| self.value(bound))
                };
                ops::slice(&self.value(object)?, &bound(start)?, &bound(end)?).map_err(told)?
            }
            ExprKind::Call { callee, args, .. } => {
                let builtin = match callee.as_name() {
                    Some(name) if self.scene.lookup(name, self.level).is_none() => {
                        self.scene.vm().builtin(name)
                    }
                    _ => None,
                };
                let builtin =
                    builtin.ok_or("functions of the program are not called while it stands still")?;
                self.call(builtin, self.arguments(args)?)?
            }
            ExprKind::MethodCall { object, name, args, optional } => {
                let object = self.value(object)?;
                if *optional && object.is_nil() {
                    return Ok(Value::NIL);
                }
                let method = self.scene.vm().method(object.type_name(), &name.name);
                let method = method.ok_or_else(|| {
                    format!("{} has no built-in method `{}`", object.type_name(), name.name)
                })?;
                let mut all = vec![object];
                all.extend(self.arguments(args)?);
                self.call(method, all)?
            }
            _ => {
                return Err(
                    "this kind of expression is not evaluated while the program stands still".to_owned()
                );
            }
        })
    }

    fn text(&self, parts: &[StrPart]) -> Result<Value, Refusal> {
        let mut out = String::new();
        for part in parts {
            match part {
                StrPart::Text(text) => out.push_str(text),
                StrPart::Expr(expr) => harn_value::print(&self.value(expr)?, &mut out),
            }
        }
        Ok(Value::from(out))
    }

    fn arguments(&self, args: &[Arg]) -> Result<Vec<Value>, Refusal> {
        let mut values = Vec::new();
        for arg in args {
            let value = self.value(&arg.value)?;
            match (arg.spread, value.as_list()) {
                (false, _) => values.push(value),
                (true, Some(list)) => values.extend(list.iter().cloned()),
                (true, None) => return Err(format!("`...` needs a list here, got {}", value.type_name())),
            }
        }
        Ok(values)
    }

    fn dict(&self, items: &[DictItem]) -> Result<Value, Refusal> {
        let mut dict = Dict::new();
        for item in items {
            match item {
                DictItem::Entry { key, value } => {
                    dict.insert(self.scene.vm().intern(&key.name), self.value(value)?);
                }
                DictItem::Computed { key, value } => {
                    dict.insert(ops::key_text(&self.value(key)?), self.value(value)?);
                }
                DictItem::Spread(value) => {
                    let value = self.value(value)?;
                    let Some(entries) = value.as_dict() else {
                        return Err(format!("`...` needs a dict here, got {}", value.type_name()));
                    };
                    for (key, value) in entries.iter() {
                        dict.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        Ok(Value::dict(dict))
    }

    fn logic(&self, op: LogicOp, lhs: &Expr, rhs: &Expr) -> Result<Value, Refusal> {
        let left = self.value(lhs)?;
        let short = match op {
            LogicOp::And => !left.truthy(),
            LogicOp::Or => left.truthy(),
            LogicOp::Coalesce => !left.is_nil(),
        };
        match (short, op) {
            (true, LogicOp::And) => Ok(Value::FALSE),
            (true, LogicOp::Or) => Ok(Value::TRUE),
            (true, LogicOp::Coalesce) => Ok(left),
            (false, LogicOp::Coalesce) => self.value(rhs),
            (false, _) => Ok(Value::from(self.value(rhs)?.truthy())),
        }
    }

    /// Calls a pure builtin.
    fn call(&self, builtin: &'static Builtin, mut args: Vec<Value>) -> Result<Value, Refusal> {
        let refused = || format!("`{}` does more than look: it is not called here", builtin.full_name);
        let Run::Sync(run) = builtin.run else { return Err(refused()) };
        if builtin.effect != Effect::Pure {
            return Err(refused());
        }
        if !builtin.takes(args.len()) {
            return Err(told(builtin.wrong_count(args.len())));
        }
        run(self.scene.cx(), &mut args).map_err(told)
    }
}

fn binary(op: BinaryOp, l: &Value, r: &Value) -> Result<Value, Refusal> {
    let arith = |op| ops::arith(op, l, r).map_err(told);
    let less = |a: &Value, b: &Value| ops::less(a, b).map(Value::from).map_err(told);
    let less_equal = |a: &Value, b: &Value| ops::less_equal(a, b).map(Value::from).map_err(told);
    match op {
        BinaryOp::Add => arith(Arith::Add),
        BinaryOp::Sub => arith(Arith::Sub),
        BinaryOp::Mul => arith(Arith::Mul),
        BinaryOp::Div => arith(Arith::Div),
        BinaryOp::Rem => arith(Arith::Rem),
        BinaryOp::Pow => arith(Arith::Pow),
        BinaryOp::Eq => Ok(Value::from(l == r)),
        BinaryOp::Ne => Ok(Value::from(l != r)),
        BinaryOp::Lt => less(l, r),
        BinaryOp::Gt => less(r, l),
        BinaryOp::Le => less_equal(l, r),
        BinaryOp::Ge => less_equal(r, l),
        BinaryOp::In => Ok(Value::from(ops::contains(l, r))),
        BinaryOp::NotIn => Ok(Value::from(!ops::contains(l, r))),
    }
}
