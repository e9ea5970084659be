//! Evaluates expressions in a frame. Existing values are borrowed.

use std::borrow::Cow;

use harn_value::{Value, equal};

use crate::error::{ErrorKind, Fail};
use crate::expr::{Comparison, Expr, FilterCall, FilterProblem, LoopField, Name, Path, Step};
use crate::filters::{Call, MAX_ARGS, Piped};
use crate::form::{field, index, order, truthy, write_value};
use crate::frame::Frame;

impl<'f> Frame<'f> {
    /// Evaluates `expr`.
    pub(crate) fn eval<'v>(&'v self, expr: &'v Expr) -> Result<Cow<'v, Value>, Fail> {
        Ok(match expr {
            Expr::Path(path) => self.path(path),
            Expr::Literal(value) => Cow::Borrowed(value),
            Expr::Loop { depth, field } => Cow::Owned(self.loop_field(*depth, *field)),
            Expr::Not(inner) => Cow::Owned(Value::bool(!self.test(inner)?)),
            Expr::And(all) => self.first_operand(all, false)?,
            Expr::Or(all) => self.first_operand(all, true)?,
            Expr::Compare(parts) => Cow::Owned(Value::bool(self.compare(parts.0, &parts.1, &parts.2)?)),
            Expr::Pipeline(parts) => self.pipeline(&parts.0, &parts.1)?.into_value(),
        })
    }

    /// Returns whether `expr` is truthy.
    #[inline]
    pub(crate) fn test(&self, expr: &Expr) -> Result<bool, Fail> {
        match expr {
            Expr::Compare(parts) => self.compare(parts.0, &parts.1, &parts.2),
            Expr::Not(inner) => Ok(!self.test(inner)?),
            _ => Ok(truthy(&*self.eval(expr)?)),
        }
    }

    /// Writes the string form of `expr`.
    #[inline]
    pub(crate) fn write(&self, expr: &Expr, out: &mut String) -> Result<(), Fail> {
        match expr {
            Expr::Path(path) => write_value(&self.path(path), out),
            Expr::Loop { depth, field } => write_value(&self.loop_field(*depth, *field), out),
            Expr::Pipeline(parts) => match self.pipeline(&parts.0, &parts.1)? {
                Piped::Text(text) => out.push_str(&text),
                Piped::Value(value) => write_value(&value, out),
            },
            _ => write_value(&*self.eval(expr)?, out),
        }
        Ok(())
    }

    /// Returns the first operand whose truth is `wanted`, otherwise the last one.
    fn first_operand<'v>(&'v self, all: &'v [Expr], wanted: bool) -> Result<Cow<'v, Value>, Fail> {
        let mut value = Cow::Owned(Value::NIL);
        for operand in all {
            value = self.eval(operand)?;
            if truthy(&value) == wanted {
                break;
            }
        }
        Ok(value)
    }

    fn compare(&self, operator: Comparison, left: &Expr, right: &Expr) -> Result<bool, Fail> {
        let (left, right) = (self.eval(left)?, self.eval(right)?);
        Ok(match operator {
            Comparison::Equal => equal(&left, &right),
            Comparison::NotEqual => !equal(&left, &right),
            Comparison::Less => order(&left, &right).is_some_and(|o| o.is_lt()),
            Comparison::LessEqual => order(&left, &right).is_some_and(|o| o.is_le()),
            Comparison::Greater => order(&left, &right).is_some_and(|o| o.is_gt()),
            Comparison::GreaterEqual => order(&left, &right).is_some_and(|o| o.is_ge()),
        })
    }

    #[inline]
    fn path<'v>(&'v self, path: &'v Path) -> Cow<'v, Value> {
        let mut value = match path.root {
            Name::Local(slot) => &self.locals[slot as usize],
            Name::Free(free) => match &self.free[free as usize] {
                Some(value) => value,
                None => return Cow::Owned(Value::NIL),
            },
            Name::Loop(depth) => return self.owned_path(self.loop_dict(depth), &path.steps),
        };
        for (at, step) in path.steps.iter().enumerate() {
            let next = match step {
                Step::Field(name) => field(value, name).map(Cow::Borrowed),
                Step::Index(i) => index(value, *i),
            };
            value = match next {
                Some(Cow::Borrowed(next)) => next,
                Some(Cow::Owned(next)) => return self.owned_path(next, &path.steps[at + 1..]),
                None => return Cow::Owned(Value::NIL),
            };
        }
        Cow::Borrowed(value)
    }

    /// Evaluates the remaining steps of a path on a temporary value.
    fn owned_path<'v>(&self, mut value: Value, steps: &[Step]) -> Cow<'v, Value> {
        for step in steps {
            let next = match step {
                Step::Field(name) => field(&value, name).cloned(),
                Step::Index(i) => index(&value, *i).map(Cow::into_owned),
            };
            match next {
                Some(next) => value = next,
                None => return Cow::Owned(Value::NIL),
            }
        }
        Cow::Owned(value)
    }

    fn loop_field(&self, depth: u16, field: LoopField) -> Value {
        self.loops[depth as usize].field(field)
    }

    fn pipeline<'v>(&'v self, value: &'v Expr, calls: &'v [FilterCall]) -> Result<Piped<'v>, Fail> {
        let mut piped = Piped::Value(self.eval(value)?);
        for call in calls {
            let filter = call.filter.map_err(|problem| {
                let name = self.template.text(call.name.0, call.name.1).to_owned();
                Box::new(match problem {
                    FilterProblem::Unknown => ErrorKind::UnknownFilter { name },
                    FilterProblem::Arity => ErrorKind::FilterArity { name },
                })
            })?;
            let mut args: [Value; MAX_ARGS] = Default::default();
            for (slot, arg) in args.iter_mut().zip(&call.args) {
                *slot = self.eval(arg)?.into_owned();
            }
            let call = Call { args: &args[..call.args.len()], limit: self.limit };
            piped = filter.run(piped, &call)?;
        }
        Ok(piped)
    }
}
