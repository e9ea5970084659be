//! Function values of the program, struct constructors, and other callable values.

use std::cell::UnsafeCell;
use std::rc::Rc;

use harn_value::{Foreign, Ref, StructType, Tag, Value};

use crate::builtin::Builtin;
use crate::bytecode::{Hot, Proto};
use crate::cycles::Link;

/// A function with its captured variables. With its header it fills one cache line.
#[repr(C)]
pub struct Closure {
    /// Copy of the function's `hot`.
    pub(crate) hot: Hot,
    /// Its code.
    pub proto: Rc<Proto>,
    /// Captured variables: constant values, or cells.
    pub(crate) upvalues: Box<[Value]>,
}

impl Closure {
    /// Creates a function value; `upvalues` are the captures of `proto`.
    pub(crate) fn value(proto: Rc<Proto>, upvalues: Box<[Value]>) -> Value {
        // SAFETY: this tag is for closures.
        unsafe { Value::tagged(Tag::Closure, Closure { hot: proto.hot, proto, upvalues }) }
    }

    /// Returns the closure of a value.
    #[inline(always)]
    pub fn of(value: &Value) -> Option<&Closure> {
        // SAFETY: only `Closure::value` creates values with this tag.
        (value.tag() == Tag::Closure).then(|| unsafe { value.downcast_unchecked::<Closure>() })
    }
}

impl Foreign for Closure {
    fn type_name(&self) -> &'static str {
        "closure"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<fn(");
        out.push_str(&self.proto.param_names.join(", "));
        out.push_str(")>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.upvalues.iter().for_each(visit);
    }
}

/// The name of a struct used as a function; takes a dict of fields.
pub struct Constructor(pub Ref<StructType>);

impl Foreign for Constructor {
    fn type_name(&self) -> &'static str {
        "closure"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<fn(fields)>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}

/// A builtin with its first arguments bound: native code uses it to return functions with state.
pub struct Partial {
    pub(crate) builtin: &'static Builtin,
    pub(crate) args: Vec<Value>,
}

impl Partial {
    /// Creates a function value; the arguments of a call follow `args`.
    pub fn value(builtin: &'static Builtin, args: Vec<Value>) -> Value {
        Value::foreign(Partial { builtin, args })
    }

    /// Returns all arguments of a call.
    pub(crate) fn arguments(&self, given: impl Iterator<Item = Value>) -> Vec<Value> {
        self.args.iter().cloned().chain(given).collect()
    }
}

impl Foreign for Partial {
    fn type_name(&self) -> &'static str {
        "closure"
    }

    fn print(&self, out: &mut String) {
        let names: Vec<&str> = self.builtin.params.iter().skip(self.args.len()).map(|p| p.name).collect();
        out.push_str("<fn(");
        out.push_str(&names.join(", "));
        out.push_str(")>");
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.args.iter().for_each(visit);
    }
}

/// Returns the builtin that calls a tool registry, as made by a `tool` declaration: tools can be called like
/// functions.
pub(crate) fn tool_caller(vm: &crate::Vm, callee: &Value) -> Option<&'static Builtin> {
    if is_registry(callee) { vm.builtin("__call_tool") } else { None }
}

fn is_registry(value: &Value) -> bool {
    let word = value.as_dict().and_then(|dict| dict.get_str("_type"));
    word.and_then(Value::as_str).is_some_and(|word| word.as_str() == "tool_registry")
}

/// Returns whether a value is accepted as a function: callable values and tools.
pub fn acts_as_function(value: &Value) -> bool {
    is_callable(value) || is_registry(value)
}

/// Returns whether a value is the registry made by the declaration of a tool with this name.
pub(crate) fn is_tool(value: &Value, name: &str) -> bool {
    let tools = value.as_dict().and_then(|dict| dict.get_str("tools")).and_then(Value::as_list);
    let Some([tool]) = tools.map(|tools| &tools[..]) else { return false };
    tool.as_dict()
        .and_then(|tool| tool.get_str("name"))
        .is_some_and(|own| own.as_str().is_some_and(|own| own == name))
}

/// The definition of the tool that calls a declared function: its name, the description and the parameters from its doc comment and
/// annotations. Nothing for values without a name or with parameters that a model cannot give.
pub fn tool_definition(value: &Value) -> Option<Value> {
    let mut definition = Closure::of(value)?.proto.described.clone()?;
    definition.as_dict_mut()?.make_mut().insert("handler", value.clone());
    Some(definition)
}

/// Returns the declared name of a function; `None` for closures without a name and for other values.
pub fn declared_name(value: &Value) -> Option<&str> {
    let name = Closure::of(value)?.proto.name.as_str();
    (!name.starts_with('<')).then_some(name)
}

/// Returns how many arguments a call of the function should pass; `None` for values that cannot be called.
pub fn parameter_count(value: &Value) -> Option<usize> {
    if let Some(closure) = Closure::of(value) {
        return Some(closure.proto.params as usize);
    }
    if let Some(builtin) = Builtin::of(value) {
        return Some(builtin.least as usize);
    }
    is_callable(value).then_some(1)
}

/// Whether a value can be called.
#[inline]
pub fn is_callable(value: &Value) -> bool {
    matches!(value.tag(), Tag::Closure | Tag::Native)
        || value.downcast::<Constructor>().is_some()
        || value.downcast::<Partial>().is_some()
}

/// A captured variable that is assigned after the capture; shared by all closures that capture it.
pub(crate) struct Variable {
    content: UnsafeCell<Value>,
    /// Its entry in the list of variables that may be part of cycles.
    pub(crate) link: Link,
}

impl Variable {
    /// Creates a cell with this value ([`Value::ABSENT`] until the variable is set).
    pub(crate) fn value(value: Value) -> Value {
        let cell = Variable::of_module(value);
        crate::cycles::link(&cell);
        cell
    }

    /// Creates a cell for a module variable. It lives as long as the module, so the cycle collector ignores it.
    pub(crate) fn of_module(value: Value) -> Value {
        // SAFETY: this tag is for variables.
        unsafe { Value::tagged(Tag::Cell, Variable { content: UnsafeCell::new(value), link: Link::new() }) }
    }

    /// Returns a pointer to the stored value.
    pub(crate) fn place(&self) -> *mut Value {
        self.content.get()
    }

    /// Returns the cell of a value.
    #[inline(always)]
    pub(crate) fn of(value: &Value) -> Option<&Variable> {
        // SAFETY: only `Variable::of_module` creates values with this tag.
        (value.tag() == Tag::Cell).then(|| unsafe { value.downcast_unchecked::<Variable>() })
    }

    /// Returns the variable's value.
    #[inline(always)]
    pub(crate) fn get(&self) -> Value {
        // SAFETY: single-threaded, and no reference into the cell outlives an instruction.
        unsafe { (*self.content.get()).clone() }
    }

    /// Assigns a value.
    #[inline(always)]
    pub(crate) fn set(&self, value: Value) {
        // The old value is dropped after the new one is in place, because a drop may run code that reads the cell.
        drop(self.replace(value));
    }

    /// Assigns a value and returns the old one.
    #[inline(always)]
    pub(crate) fn replace(&self, value: Value) -> Value {
        // SAFETY: as in `get`.
        unsafe { std::mem::replace(&mut *self.content.get(), value) }
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        crate::cycles::unlink(&self.link);
    }
}

impl Foreign for Variable {
    fn type_name(&self) -> &'static str {
        "variable"
    }

    fn print(&self, out: &mut String) {
        harn_value::print(&self.get(), out);
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        // SAFETY: as in `get`; no code assigns while references are traced.
        visit(unsafe { &*self.content.get() });
    }
}
