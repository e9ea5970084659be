//! Results and errors of operators and accesses. Nothing here suspends or runs code of the program.

use std::rc::Rc;

use harn_syntax::ast::BinaryOp;

use super::machine::{Machine, SIZE, throw};
use super::value::{Done, V, passes};

/// Returns the result of int arithmetic, or an overflow error.
fn fits<'p>(result: Option<i64>, x: &i64, sign: &str, y: &i64) -> Done<'p, i64> {
    result.map_or_else(|| throw(format!("Runtime error: Integer overflow: {x} {sign} {y}")), Ok)
}
impl<'p> Machine<'p> {
    fn add(&self, a: V<'p>, b: V<'p>) -> Done<'p, V<'p>> {
        Ok(match (&a, &b) {
            (V::Int(x), V::Int(y)) => V::Int(fits(x.checked_add(*y), x, "+", y)?),
            (V::Str(x), V::Str(y)) if x.len() + y.len() <= SIZE => V::str(&format!("{x}{y}")),
            (V::List(x), V::List(y)) if x.len() + y.len() <= SIZE => {
                V::list(x.iter().chain(&**y).cloned().collect())
            }
            (V::Dict(x), V::Dict(y)) => {
                let all = x.iter().chain(&**y).map(|(k, v)| (k.clone(), v.clone()));
                V::Dict(Rc::new(all.collect()))
            }
            (V::Str(_), V::Str(_)) | (V::List(_), V::List(_)) => return self.unknown(),
            _ => return throw(format!("Type error: Cannot add {} and {}", a.type_name(), b.type_name())),
        })
    }

    pub(super) fn binary(&self, op: BinaryOp, a: V<'p>, b: V<'p>) -> Done<'p, V<'p>> {
        let zero = |b: i64| if b == 0 { throw("Division by zero") } else { Ok(b) };
        Ok(match (op, &a, &b) {
            (BinaryOp::Add, ..) => return self.add(a, b),
            (BinaryOp::Eq, ..) => V::Bool(self.equal(&a, &b)?),
            (BinaryOp::Ne, ..) => V::Bool(!self.equal(&a, &b)?),
            (BinaryOp::Sub, V::Int(x), V::Int(y)) => V::Int(fits(x.checked_sub(*y), x, "-", y)?),
            (BinaryOp::Mul, V::Int(x), V::Int(y)) => V::Int(fits(x.checked_mul(*y), x, "*", y)?),
            (BinaryOp::Div, V::Int(x), V::Int(y)) => V::Int(x.wrapping_div(zero(*y)?)),
            (BinaryOp::Rem, V::Int(x), V::Int(y)) => V::Int(x.wrapping_rem(zero(*y)?)),
            (BinaryOp::Lt, V::Int(x), V::Int(y)) => V::Bool(x < y),
            (BinaryOp::Le, V::Int(x), V::Int(y)) => V::Bool(x <= y),
            (BinaryOp::Gt, V::Int(x), V::Int(y)) => V::Bool(x > y),
            (BinaryOp::Ge, V::Int(x), V::Int(y)) => V::Bool(x >= y),
            (BinaryOp::Lt, V::Str(x), V::Str(y)) => V::Bool(x < y),
            (BinaryOp::Le, V::Str(x), V::Str(y)) => V::Bool(x <= y),
            (BinaryOp::Gt, V::Str(x), V::Str(y)) => V::Bool(x > y),
            (BinaryOp::Ge, V::Str(x), V::Str(y)) => V::Bool(x >= y),
            (BinaryOp::In, _, V::List(items)) => {
                if !a.is_small() {
                    return self.unknown();
                }
                V::Bool(items.iter().any(|v| v.equals(&a)))
            }
            (BinaryOp::Sub, ..) => {
                let (a, b) = (a.type_name(), b.type_name());
                return throw(format!("Type error: Cannot subtract {b} from {a}"));
            }
            _ => return self.unknown(),
        })
    }

    /// Returns the position of an index in a sequence.
    fn position(i: i64, len: usize) -> Option<usize> {
        let i = if i < 0 { i + len as i64 } else { i };
        usize::try_from(i).ok().filter(|i| *i < len)
    }

    pub(super) fn index(&self, of: &V<'p>, at: &V<'p>) -> Done<'p, V<'p>> {
        Ok(match (of, at) {
            (V::List(items), V::Int(i)) => {
                Self::position(*i, items.len()).map_or(V::Nil, |i| items[i].clone())
            }
            (V::Dict(d), V::Str(key)) => d.get(&**key).cloned().unwrap_or(V::Nil),
            _ => return self.unknown(),
        })
    }

    pub(super) fn field(&self, of: &V<'p>, name: &str) -> Done<'p, V<'p>> {
        Ok(match of {
            V::Dict(d) => d.get(name).cloned().unwrap_or(V::Nil),
            V::Struct(s) => s.1.iter().find(|(n, _)| n == name).map_or(V::Nil, |(_, v)| v.clone()),
            _ => return self.unknown(),
        })
    }

    pub(super) fn slice(&self, of: &V<'p>, from: Option<V<'p>>, to: Option<V<'p>>) -> Done<'p, V<'p>> {
        let bound = |v: Option<V<'p>>, default: usize, len: usize| match v {
            None => Ok(default),
            Some(V::Int(i)) => {
                Ok(if i < 0 { (i + len as i64).max(0) as usize } else { (i as usize).min(len) })
            }
            Some(_) => self.unknown(),
        };
        match of {
            V::List(items) => {
                let (from, to) = (bound(from, 0, items.len())?, bound(to, items.len(), items.len())?);
                Ok(V::list(items.get(from..to).unwrap_or_default().to_vec()))
            }
            V::Str(text) => {
                let chars: Vec<char> = text.chars().collect();
                let (from, to) = (bound(from, 0, chars.len())?, bound(to, chars.len(), chars.len())?);
                Ok(V::str(&chars.get(from..to).unwrap_or_default().iter().collect::<String>()))
            }
            _ => self.unknown(),
        }
    }

    /// Returns `of` with the value at a path replaced; all steps except the last must exist.
    pub(super) fn changed(&self, of: &V<'p>, path: &[V<'p>], value: V<'p>) -> Done<'p, V<'p>> {
        let [step, rest @ ..] = path else { return Ok(value) };
        match (of, step) {
            (V::List(items), V::Int(i)) => {
                let Some(at) = Self::position(*i, items.len()) else {
                    let len = items.len();
                    return throw(format!("Runtime error: Index {i} out of bounds for list of length {len}"));
                };
                let mut items = (**items).clone();
                items[at] = self.changed(&items[at], rest, value)?;
                Ok(V::list(items))
            }
            (V::Dict(d), V::Str(key)) => {
                let mut d = (**d).clone();
                let old = d.get(&**key).cloned().unwrap_or(V::Nil);
                d.insert(key.to_string(), self.changed(&old, rest, value)?);
                Ok(V::Dict(Rc::new(d)))
            }
            (V::Struct(s), V::Str(name)) => {
                let mut fields = s.1.clone();
                let Some(field) = fields.iter_mut().find(|(n, _)| *n == **name) else {
                    return self.unknown();
                };
                field.1 = self.changed(&field.1, rest, value)?;
                let declared = self.structs.get(&s.0).into_iter().flat_map(|decl| &decl.fields);
                let mut typed = declared.zip(&fields);
                if !typed.all(|(field, (_, value))| passes(field.ty.as_ref(), value)) {
                    return self.unknown();
                }
                Ok(V::Struct(Rc::new((s.0.clone(), fields))))
            }
            _ => self.unknown(),
        }
    }
}
