//! Values on their way between threads: a program lives on a thread of its own, and its values never leave it.

use std::any::Any;
use std::sync::Arc;

use harn_value::{Dict, Foreign, Range, Ref, Set, StructType, StructValue, Value, View};
use harn_vm::NativeFunction;
use harn_vm::closure::is_callable;
use harn_vm::iter::Iter;
use pyo3::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use crate::calls;
use crate::machine::{Command, Side};

/// Levels of nesting that are converted, as in the rest of Harn.
pub(crate) const MAX_DEPTH: usize = 512;

/// A value of the program that stays on its thread.
pub(crate) struct Remote {
    /// Its number there.
    pub(crate) id: u64,
    /// The number of the machine.
    pub(crate) machine: u64,
    /// Its type in Harn.
    pub(crate) type_name: String,
    /// Its printed form.
    pub(crate) text: String,
    pub(crate) commands: UnboundedSender<Command>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A machine that has ended has let go of everything.
        let _ = self.commands.send(Command::Release(self.id));
    }
}

/// An object of Python.
pub(crate) type Object = Arc<Py<PyAny>>;

/// A value.
pub(crate) enum Data {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    /// Milliseconds.
    Duration(i64),
    List(Vec<Data>),
    Dict(Vec<(String, Data)>),
    Set(Vec<Data>),
    Pair(Box<[Data; 2]>),
    /// Start and the place behind the end.
    Range(i64, i64),
    /// An instance of a struct.
    Record {
        name: String,
        fields: Vec<(String, Data)>,
        /// The instance itself, for its own machine.
        origin: Option<Arc<Remote>>,
    },
    /// A value of an enum.
    Variant {
        name: String,
        variant: String,
        fields: Vec<Data>,
        origin: Arc<Remote>,
    },
    /// A function of the program.
    Function(Arc<Remote>),
    /// Something that gives items.
    Stream(Arc<Remote>),
    /// Anything else.
    Other(Arc<Remote>),
    /// A function of Python.
    Callable(Object),
    /// A function of Python that gives a list of the next item, or nothing at the end.
    Pull(Object),
    /// An object of Python that the program only hands on.
    Opaque(Object),
}

/// An object of Python as a program holds it.
pub(crate) struct PythonObject(pub(crate) Object);

impl Foreign for PythonObject {
    fn type_name(&self) -> &'static str {
        "python_object"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<python object>");
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<PythonObject>().is_some_and(|other| self.0.as_ptr() == other.0.as_ptr())
    }
}

fn too_deep() -> String {
    format!("data is nested too deeply: more than {MAX_DEPTH} levels")
}

/// Takes a value of the program of `side` along.
///
/// # Errors
/// What cannot be taken along.
pub(crate) fn to_data(side: &Side, value: &Value, depth: usize) -> Result<Data, String> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let all = |values: &mut dyn Iterator<Item = &Value>| -> Result<Vec<Data>, String> {
        values.map(|value| to_data(side, value, depth + 1)).collect()
    };
    Ok(match value.view() {
        View::Nil => Data::Nil,
        View::Bool(b) => Data::Bool(b),
        View::Int(i) => Data::Int(i),
        View::Float(f) => Data::Float(f),
        View::Duration(ms) => Data::Duration(ms),
        View::Str(text) => Data::Str(text.to_string()),
        View::Bytes(bytes) => Data::Bytes(bytes.to_vec()),
        View::List(items) => Data::List(all(&mut items.iter())?),
        View::Set(items) => Data::Set(all(&mut items.iter())?),
        View::Dict(dict) => {
            let entry = |(key, value): (&harn_value::Str, &Value)| {
                to_data(side, value, depth + 1).map(|value| (key.to_string(), value))
            };
            Data::Dict(dict.written().map(entry).collect::<Result<_, _>>()?)
        }
        View::Range(range) => {
            Data::Range(range.start, range.last().map_or(range.start, |last| last.saturating_add(1)))
        }
        View::Pair(pair) => Data::Pair(Box::new([
            to_data(side, &pair.first, depth + 1)?,
            to_data(side, &pair.second, depth + 1)?,
        ])),
        View::Enum(e) => Data::Variant {
            name: e.ty.name.to_string(),
            variant: e.variant_name().to_string(),
            fields: all(&mut e.fields.iter())?,
            origin: side.keep(value),
        },
        View::Struct(instance) => {
            let field = |(key, value): (&harn_value::Str, &Value)| {
                to_data(side, value, depth + 1).map(|value| (key.to_string(), value))
            };
            Data::Record {
                name: instance.ty.name.to_string(),
                fields: instance.fields().into_iter().map(field).collect::<Result<_, _>>()?,
                origin: Some(side.keep(value)),
            }
        }
        View::Native(_) => Data::Function(side.keep(value)),
        View::Foreign(_) => {
            let own = NativeFunction::host(value).and_then(|host| host.downcast::<PythonObject>().ok());
            if let Some(own) = own {
                Data::Callable(own.0.clone())
            } else if let Some(object) = value.downcast::<PythonObject>() {
                Data::Opaque(object.0.clone())
            } else if is_callable(value) {
                Data::Function(side.keep(value))
            } else if Iter::over(value).is_ok() {
                Data::Stream(side.keep(value))
            } else {
                Data::Other(side.keep(value))
            }
        }
    })
}

/// Makes a value of the program of `side`.
///
/// # Errors
/// It belongs to another program.
pub(crate) fn to_value(side: &std::rc::Rc<Side>, data: &Data) -> Result<Value, String> {
    let all = |items: &[Data]| items.iter().map(|item| to_value(side, item)).collect::<Result<Vec<_>, _>>();
    Ok(match data {
        Data::Nil => Value::NIL,
        Data::Bool(b) => Value::bool(*b),
        Data::Int(i) => Value::int(*i),
        Data::Float(f) => Value::float(*f),
        Data::Str(text) => Value::str(text),
        Data::Bytes(bytes) => Value::bytes(bytes.clone()),
        Data::Duration(ms) => Value::duration(*ms),
        Data::List(items) => Value::list(all(items)?),
        Data::Set(items) => Value::set_of(all(items)?.into_iter().collect::<Set>()),
        Data::Dict(entries) => {
            let mut dict = Dict::new();
            for (key, value) in entries {
                dict.insert(key.as_str(), to_value(side, value)?);
            }
            dict.into()
        }
        Data::Pair(parts) => Value::pair(to_value(side, &parts[0])?, to_value(side, &parts[1])?),
        Data::Range(start, end) => Value::range(Range { start: *start, end: *end, exclusive: true }),
        Data::Record { origin: Some(origin), .. } if origin.machine == side.machine => side.kept(origin)?,
        Data::Record { name, fields, .. } => {
            let names = fields.iter().map(|(key, _)| key.as_str().into()).collect();
            let ty = Ref::new(StructType::frozen(name.as_str().into(), names));
            let slots: Vec<Value> =
                fields.iter().map(|(_, value)| to_value(side, value)).collect::<Result<_, _>>()?;
            StructValue { ty, slots: slots.into(), extra: None }.into()
        }
        Data::Variant { name, variant, fields, origin } => {
            if origin.machine == side.machine {
                side.kept(origin)?
            } else {
                match (name.as_str(), variant.as_str(), fields.as_slice()) {
                    ("Result", "Ok", [value]) => Value::ok(to_value(side, value)?),
                    ("Result", "Err", [value]) => Value::err(to_value(side, value)?),
                    _ => return Err(format!("{name}.{variant} belongs to another program")),
                }
            }
        }
        Data::Function(remote) | Data::Stream(remote) | Data::Other(remote) => side.kept(remote)?,
        Data::Callable(object) => calls::function(side, object),
        Data::Pull(object) => calls::stream(side, object),
        Data::Opaque(object) => Value::foreign(PythonObject(object.clone())),
    })
}
