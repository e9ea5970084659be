//! Evaluation: every result of an expression is passed to a receiver.

use harn_value::{Dict, Value, steps};

use super::expr::{Expr, Fold, Operator, Piece, Scope, Variable};
use super::order::{less, same};
use super::values::{
    add, children, divide, holds, index, multiply, negated, remainder, shown, slice, subtract,
};
use super::{Flow, Out, Stop, fail};
use crate::args::with_stack;

impl Expr {
    pub(super) fn eval(&self, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
        // The call depth for passing a result is proportional to the size of the expression.
        let out = &mut |value| with_stack(|| out(value));
        steps::step();
        with_stack(|| self.eval_part(input, scope, out))
    }

    /// Collects all results.
    pub(super) fn collect(&self, input: &Value, scope: Scope<'_>) -> Flow<Vec<Value>> {
        let mut all = Vec::new();
        self.eval(input, scope, &mut |value| {
            steps::push(&mut all, value);
            Ok(())
        })?;
        Ok(all)
    }

    fn eval_part(&self, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
        match self {
            Expr::Input => out(input.clone()),
            Expr::Literal(value) => out(value.clone()),
            Expr::Variable(name) => {
                let mut at = scope;
                while let Some(variable) = at.filter(|variable| variable.name != name) {
                    at = variable.outer;
                }
                out(at.map(|variable| variable.value.clone()).unwrap_or_default())
            }
            Expr::Text(format, pieces) => {
                let mut insert = |value: &Value| format.apply(value);
                joined(pieces, String::new(), input, scope, &mut insert, out)
            }
            Expr::Format(format) => out(Value::from(format.apply(input)?)),
            Expr::Descend => descend(input, out),
            Expr::Index(of, key) => key
                .eval(input, scope, &mut |key| of.eval(input, scope, &mut |value| out(index(&value, &key)?))),
            Expr::Slice(of, start, end) => {
                let bound = |bound: &Option<Box<Expr>>, out: Out<'_>| match bound {
                    Some(bound) => bound.eval(input, scope, out),
                    None => out(Value::NIL),
                };
                bound(end, &mut |end| {
                    bound(start, &mut |start| {
                        of.eval(input, scope, &mut |value| out(slice(&value, &start, &end)?))
                    })
                })
            }
            Expr::Each(of) => of.eval(input, scope, &mut |value| each(&value, out)),
            Expr::Pipe(a, b) => a.eval(input, scope, &mut |value| b.eval(&value, scope, out)),
            Expr::Comma(a, b) => {
                a.eval(input, scope, out)?;
                b.eval(input, scope, out)
            }
            Expr::Operator(operator, a, b) => b.eval(input, scope, &mut |right| {
                a.eval(input, scope, &mut |left| out(operator.apply(&left, &right)?))
            }),
            Expr::And(a, b) => a.eval(input, scope, &mut |left| {
                if !holds(&left) {
                    return out(Value::FALSE);
                }
                b.eval(input, scope, &mut |right| out(Value::bool(holds(&right))))
            }),
            Expr::Or(a, b) => a.eval(input, scope, &mut |left| {
                if holds(&left) {
                    return out(Value::TRUE);
                }
                b.eval(input, scope, &mut |right| out(Value::bool(holds(&right))))
            }),
            Expr::Alternative(a, b) => {
                let mut any = false;
                a.eval(input, scope, &mut |value| {
                    if !holds(&value) {
                        return Ok(());
                    }
                    any = true;
                    out(value)
                })?;
                if any { Ok(()) } else { b.eval(input, scope, out) }
            }
            Expr::Negate(a) => a.eval(input, scope, &mut |value| match negated(&value) {
                Some(value) => out(value),
                None => fail(format!("{} cannot be negated", shown(&value))),
            }),
            Expr::Try(body, handler) => match (attempt(body, input, scope, out)?, handler) {
                (Some(error), Some(handler)) => handler.eval(&error, scope, out),
                _ => Ok(()),
            },
            Expr::Array(None) => out(Value::list(Vec::new())),
            Expr::Array(Some(items)) => out(Value::list(items.collect(input, scope)?)),
            Expr::Object(entries) => object(entries, &Dict::new(), input, scope, out),
            Expr::If(condition, then, otherwise) => condition.eval(input, scope, &mut |value| {
                if holds(&value) { then } else { otherwise }.eval(input, scope, out)
            }),
            Expr::Bind(source, name, body) => source.eval(input, scope, &mut |value| {
                body.eval(input, Some(&Variable { name, value, outer: scope }), out)
            }),
            Expr::Reduce(fold) => fold.start.eval(input, scope, &mut |start| {
                let mut state = start;
                fold.steps(input, scope, &mut |inner| {
                    // Without a result the state is null; of several results the last one is used.
                    let mut last = Value::NIL;
                    fold.update.eval(&state.take(), Some(inner), &mut |value| {
                        last = value;
                        Ok(())
                    })?;
                    state = last;
                    Ok(())
                })?;
                out(state)
            }),
            Expr::Foreach(fold, extract) => fold.start.eval(input, scope, &mut |start| {
                let mut state = start;
                fold.steps(input, scope, &mut |inner| {
                    let before = state.clone();
                    fold.update.eval(&before, Some(inner), &mut |value| {
                        state = value.clone();
                        match extract {
                            Some(extract) => extract.eval(&value, Some(inner), out),
                            None => out(value),
                        }
                    })
                })
            }),
            Expr::Call(function, arguments) => function.call(arguments, input, scope, out),
        }
    }
}

impl Fold {
    /// Runs a step for each value of the source.
    fn steps(&self, input: &Value, scope: Scope<'_>, step: &mut dyn FnMut(&Variable<'_>) -> Flow) -> Flow {
        self.source.eval(input, scope, &mut |value| step(&Variable { name: &self.name, value, outer: scope }))
    }
}

impl Operator {
    fn apply(self, a: &Value, b: &Value) -> Flow<Value> {
        Ok(match self {
            Operator::Add => add(a, b)?,
            Operator::Subtract => subtract(a, b)?,
            Operator::Multiply => multiply(a, b)?,
            Operator::Divide => divide(a, b)?,
            Operator::Remainder => remainder(a, b)?,
            Operator::Equal => Value::bool(same(a, b)),
            Operator::Unequal => Value::bool(!same(a, b)),
            Operator::Less => Value::bool(less(a, b)),
            Operator::LessOrEqual => Value::bool(less(a, b) || same(a, b)),
            Operator::Greater => Value::bool(!less(a, b) && !same(a, b)),
            Operator::GreaterOrEqual => Value::bool(!less(a, b)),
        })
    }
}

/// Evaluates a body and returns the value of its error. Errors of the receiver are propagated.
fn attempt(body: &Expr, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow<Option<Value>> {
    let mut received = false;
    let flow = body.eval(input, scope, &mut |value| {
        let flow = out(value);
        received |= flow.is_err();
        flow
    });
    match flow {
        Err(Stop::Error(error)) if !received => Ok(Some(error)),
        other => other.map(|()| None),
    }
}

/// Passes the first `count` results to the receiver.
pub(super) fn limit(count: usize, body: &Expr, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
    if count == 0 {
        return Ok(());
    }
    let mut left = count;
    let flow = body.eval(input, scope, &mut |value| {
        out(value)?;
        left -= 1;
        if left == 0 { Err(Stop::Break) } else { Ok(()) }
    });
    match flow {
        Err(Stop::Break) if left == 0 => Ok(()),
        other => other,
    }
}

/// Evaluates `.[]`.
pub(super) fn each(value: &Value, out: Out<'_>) -> Flow {
    match children(value) {
        Some(children) => children.into_iter().try_for_each(out),
        None if value.is_nil() => fail("cannot iterate over null"),
        None => fail(format!("cannot iterate over {}", shown(value))),
    }
}

fn descend(value: &Value, out: Out<'_>) -> Flow {
    out(value.clone())?;
    with_stack(|| children(value).unwrap_or_default().iter().try_for_each(|child| descend(child, out)))
}

/// Builds a string from its parts; the last part is the outermost loop.
fn joined(
    pieces: &[Piece],
    after: String,
    input: &Value,
    scope: Scope<'_>,
    insert: &mut dyn FnMut(&Value) -> Flow<String>,
    out: Out<'_>,
) -> Flow {
    steps::bytes(after.len());
    match pieces.split_last() {
        None => out(Value::from(after)),
        Some((Piece::Text(text), before)) => {
            joined(before, format!("{text}{after}"), input, scope, insert, out)
        }
        Some((Piece::Value(value), before)) => value.eval(input, scope, &mut |value| {
            let text = insert(&value)?;
            steps::room(text.len() + after.len());
            joined(before, format!("{text}{after}"), input, scope, insert, out)
        }),
    }
}

/// Returns an object for each combination of keys and values.
fn object(entries: &[(Expr, Expr)], done: &Dict, input: &Value, scope: Scope<'_>, out: Out<'_>) -> Flow {
    let Some(((key, value), rest)) = entries.split_first() else { return out(Value::dict(done.clone())) };
    key.eval(input, scope, &mut |key| {
        let Some(name) = key.as_str() else {
            return fail(format!("object keys must be strings, got {}", shown(&key)));
        };
        value.eval(input, scope, &mut |value| {
            let mut more = done.clone();
            more.insert(name.clone(), value);
            object(rest, &more, input, scope, out)
        })
    })
}
