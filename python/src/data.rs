//! Values that cross between threads. A program runs on its own thread, and its values never leave it: they cross as
//! [`Data`].

use std::rc::Rc;
use std::sync::Arc;

use harn_value::{Dict, Range, Ref, Set, Str, StructType, StructValue, Value, View};
use harn_vm::NativeFunction;
use harn_vm::closure::is_callable;
use harn_vm::iter::Iter;

use crate::host::{self, HostValue, Object};
use crate::machine::{Command, CommandSender, MachineState, Target};
use crate::pending::Pending;

/// The maximum depth of nested data, as everywhere in Harn.
pub const MAX_DEPTH: usize = 512;

/// A value of a program that stays on its thread; dropping the last reference releases it there.
pub struct RemoteValue {
    pub(crate) id: u64,
    pub(crate) machine: u64,
    /// Its type in Harn.
    pub type_name: String,
    /// Its printed form, shortened.
    pub text: String,
    pub(crate) commands: CommandSender,
}

impl RemoteValue {
    /// Calls the value.
    pub fn call(self: &Arc<Self>, args: Vec<Data>) -> Pending {
        self.commands.call(Target::Remote(self.clone()), args)
    }

    /// Requests the next item of the value: a list with the item, or nil at the end.
    pub fn next_item(self: &Arc<Self>) -> Pending {
        self.commands.call(Target::NextItem(self.clone()), Vec::new())
    }
}

impl Drop for RemoteValue {
    fn drop(&mut self) {
        // A machine that has ended has released all values.
        self.commands.send(Command::Release(self.id));
    }
}

/// A value outside of any program.
pub enum Data {
    /// nil
    Nil,
    /// bool
    Bool(bool),
    /// int
    Int(i64),
    /// float
    Float(f64),
    /// string
    Str(String),
    /// bytes
    Bytes(Vec<u8>),
    /// Milliseconds.
    Duration(i64),
    /// list
    List(Vec<Data>),
    /// dict, in insertion order
    Dict(Vec<(String, Data)>),
    /// set
    Set(Vec<Data>),
    /// pair
    Pair(Box<[Data; 2]>),
    /// The start, and the end that the range excludes.
    Range(i64, i64),
    /// An instance of a struct.
    Record {
        /// The name of the struct.
        name: String,
        /// In the order of their declaration.
        fields: Vec<(String, Data)>,
        /// The instance itself, for its own machine.
        origin: Option<Arc<RemoteValue>>,
    },
    /// A value of an enum.
    Variant {
        /// The name of the enum.
        name: String,
        /// The name of the variant.
        variant: String,
        /// The payload.
        fields: Vec<Data>,
        /// The value itself, for its own machine.
        origin: Arc<RemoteValue>,
    },
    /// A function of a program.
    Function(Arc<RemoteValue>),
    /// A generator, iterator, stream or channel of a program.
    Stream(Arc<RemoteValue>),
    /// Any other value of a program.
    Remote(Arc<RemoteValue>),
    /// A function of the host.
    Callable(Object),
    /// A function of the host that returns a list with the next item, or nil at the end.
    Pull(Object),
    /// An object of the host that the program only passes on.
    Opaque(Object),
}

/// Runs one level of a conversion. Threads of hosts may have small stacks, so nested data allocates its own.
pub(crate) fn with_stack<T>(convert: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(64 * 1024, 1024 * 1024, convert)
}

/// Converts a value of a program. Functions, streams and other values without a plain form stay on its thread.
///
/// # Errors
/// The data is nested more than [`MAX_DEPTH`] levels deep.
pub(crate) fn to_data(state: &MachineState, value: &Value, depth: usize) -> Result<Data, String> {
    if depth > MAX_DEPTH {
        return Err(format!("data is nested too deeply: more than {MAX_DEPTH} levels"));
    }
    with_stack(|| level_to_data(state, value, depth))
}

fn level_to_data(state: &MachineState, value: &Value, depth: usize) -> Result<Data, String> {
    let all = |values: &mut dyn Iterator<Item = &Value>| -> Result<Vec<Data>, String> {
        values.map(|value| to_data(state, value, depth + 1)).collect()
    };
    let entry =
        |(key, value): (&Str, &Value)| to_data(state, value, depth + 1).map(|value| (key.to_string(), value));
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
        View::Dict(dict) => Data::Dict(dict.written().map(entry).collect::<Result<_, _>>()?),
        View::Range(range) => {
            Data::Range(range.start, range.last().map_or(range.start, |last| last.saturating_add(1)))
        }
        View::Pair(pair) => Data::Pair(Box::new([
            to_data(state, &pair.first, depth + 1)?,
            to_data(state, &pair.second, depth + 1)?,
        ])),
        View::Enum(e) => Data::Variant {
            name: e.ty.name.to_string(),
            variant: e.variant_name().to_string(),
            fields: all(&mut e.fields.iter())?,
            origin: state.export(value),
        },
        View::Struct(instance) => Data::Record {
            name: instance.ty.name.to_string(),
            fields: instance.fields().into_iter().map(entry).collect::<Result<_, _>>()?,
            origin: Some(state.export(value)),
        },
        View::Native(_) => Data::Function(state.export(value)),
        View::Foreign(_) => {
            let function = NativeFunction::host(value).and_then(|host| host.downcast::<HostValue>().ok());
            if let Some(function) = function {
                Data::Callable(function.0.clone())
            } else if let Some(object) = value.downcast::<HostValue>() {
                Data::Opaque(object.0.clone())
            } else if is_callable(value) {
                Data::Function(state.export(value))
            } else if Iter::over(value).is_ok() {
                Data::Stream(state.export(value))
            } else {
                Data::Remote(state.export(value))
            }
        }
    })
}

/// Converts data to a value of a program.
///
/// # Errors
/// The data refers to a value of another program.
pub(crate) fn to_value(state: &Rc<MachineState>, data: &Data) -> Result<Value, String> {
    with_stack(|| level_to_value(state, data))
}

fn level_to_value(state: &Rc<MachineState>, data: &Data) -> Result<Value, String> {
    let all = |items: &[Data]| items.iter().map(|item| to_value(state, item)).collect::<Result<Vec<_>, _>>();
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
                dict.insert(key.as_str(), to_value(state, value)?);
            }
            dict.into()
        }
        Data::Pair(parts) => Value::pair(to_value(state, &parts[0])?, to_value(state, &parts[1])?),
        Data::Range(start, end) => Value::range(Range { start: *start, end: *end, exclusive: true }),
        Data::Record { origin: Some(origin), .. } if state.owns(origin) => state.lookup(origin)?,
        Data::Record { name, fields, .. } => {
            let names = fields.iter().map(|(key, _)| key.as_str().into()).collect();
            let ty = Ref::new(StructType::frozen(name.as_str().into(), names));
            let slots: Vec<Value> =
                fields.iter().map(|(_, value)| to_value(state, value)).collect::<Result<_, _>>()?;
            StructValue { ty, slots: slots.into(), extra: None }.into()
        }
        Data::Variant { origin, .. } if state.owns(origin) => state.lookup(origin)?,
        Data::Variant { name, variant, fields, .. } => match (name.as_str(), variant.as_str(), &fields[..]) {
            ("Result", "Ok", [value]) => Value::ok(to_value(state, value)?),
            ("Result", "Err", [value]) => Value::err(to_value(state, value)?),
            _ => return Err(format!("{name}.{variant} belongs to another program")),
        },
        Data::Function(remote) | Data::Stream(remote) | Data::Remote(remote) => state.lookup(remote)?,
        Data::Callable(object) => host::function(state, object),
        Data::Pull(object) => host::stream(state, object),
        Data::Opaque(object) => Value::foreign(HostValue(object.clone())),
    })
}
