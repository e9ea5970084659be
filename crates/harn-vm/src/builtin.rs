//! The table of builtin functions. One entry holds all information about a builtin; the checker, `harn explain`, the
//! REPL and the reference pages read it. Entries are written with the [`builtins!`](crate::builtins) macro, next to
//! their implementation.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

pub use harn_schema::options::OptionField;
use harn_schema::options::{self, Options};
pub use harn_syntax::signature::Effect;
use harn_syntax::signature::{self, Given, Kinds, Parameter, Signature, Wants, WrongOption, WrongTime};
use harn_value::{Dict, List, NativeHeader, Ref, Set, Str, Tag, Value, View, steps};

use crate::call_loop::CallLoop;
use crate::cx::Cx;
use crate::error::{Error, Result};

/// A future of a native function; runs on the program's thread.
pub type NativeFuture = Pin<Box<dyn Future<Output = Result<Value>>>>;

/// The implementation of a builtin.
#[derive(Clone, Copy)]
pub enum Run {
    /// Runs to completion at once. Arguments are the caller's registers and may be moved out.
    Sync(fn(&Cx, &mut [Value]) -> Result<Value>),
    /// May wait, and may call closures through [`Cx::call`].
    Async(fn(Cx, Vec<Value>) -> NativeFuture),
    /// Calls one function repeatedly and never waits itself.
    Loop(fn(&Cx, &mut [Value]) -> Result<CallLoop>),
}

/// A parameter of a builtin.
#[derive(Debug)]
pub struct Param {
    /// Parameter name.
    pub name: &'static str,
    /// Type in Harn's notation.
    pub ty: &'static str,
    /// Whether the argument may be omitted.
    pub optional: bool,
    /// Source of the default, if any.
    pub default: Option<&'static str>,
    /// Whether it takes all remaining arguments.
    pub rest: bool,
    /// Whether the body reports a missing argument with its own message.
    pub own_missing: bool,
    /// Options of a dict parameter that a struct describes.
    pub options: &'static [OptionField],
}

/// A builtin function (or a method of a value type, whose first parameter is the receiver).
#[repr(C)]
pub struct Builtin {
    /// The name. First field, because function values point here.
    pub header: NativeHeader,
    /// Topic under which it is documented.
    pub topic: &'static str,
    /// Doc comment: a one-sentence summary, details, a runnable example. (One string, because a list of lines would
    /// give the loader one address per line to relocate at startup.)
    pub doc: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Result type in Harn's notation.
    pub returns: &'static str,
    /// Side effect.
    pub effect: Effect,
    /// Minimum number of arguments, including the receiver.
    pub least: u8,
    /// Maximum number of arguments, including the receiver; 255 means any number.
    pub most: u8,
    /// Implementation.
    pub run: Run,
    /// Name in messages; methods include their type.
    pub full_name: &'static str,
}

/// Returns how many arguments a call must pass.
pub const fn least(params: &[Param]) -> u8 {
    let mut count = 0;
    let mut at = 0;
    while at < params.len() {
        let param = &params[at];
        if !param.optional && !param.rest && !param.own_missing {
            count = at as u8 + 1;
        }
        at += 1;
    }
    count
}

/// Returns the maximum number of arguments for these parameters.
pub const fn most(params: &[Param]) -> u8 {
    match params {
        [.., Param { rest: true, .. }] => u8::MAX,
        _ => params.len() as u8,
    }
}

impl Builtin {
    /// Returns whether a call with this many arguments, including the receiver, is valid.
    #[inline(always)]
    pub fn takes(&self, count: usize) -> bool {
        count >= self.least as usize && (count <= self.most as usize || self.most == u8::MAX)
    }

    /// Returns whether it is a method, whose first parameter is the receiver.
    pub fn is_method(&self) -> bool {
        self.params.first().is_some_and(|param| param.name == "this")
    }

    /// Returns the error of a call with a wrong number of arguments.
    #[cold]
    pub fn wrong_count(&self, count: usize) -> Error {
        let receiver = usize::from(self.is_method());
        let (least, most, got) = (self.least as usize, self.most as usize, count.max(receiver));
        Error::runtime(if got < least {
            signature::too_few(self.full_name, least - receiver, got - receiver)
        } else {
            signature::too_many(self.full_name, most - receiver, got - receiver)
        })
    }

    /// Returns the signature for the checker.
    pub fn check_signature(&self) -> Signature {
        let parameter = |p: &Param| Parameter { name: p.name, ty: p.ty, optional: p.optional, rest: p.rest };
        let parameters = self.params.iter().skip(usize::from(self.is_method())).map(parameter).collect();
        Signature {
            name: self.full_name,
            parameters,
            returns: self.returns,
            effect: self.effect,
            waits: matches!(self.run, Run::Async(_)),
        }
    }

    /// Returns the name by which programs call it.
    pub fn name(&self) -> &'static str {
        self.header.name
    }

    /// Returns this builtin as a function value.
    pub fn value(&'static self) -> Value {
        // SAFETY: the entry is static and `repr(C)` with the header first.
        unsafe { Value::native((&raw const *self).cast()) }
    }

    /// Returns the table entry that a function value refers to.
    #[inline(always)]
    pub fn of(value: &Value) -> Option<&'static Builtin> {
        // SAFETY: all native values of the VM are made by `Builtin::value`.
        value.as_native().map(|header| unsafe { &*header.cast::<Builtin>() })
    }

    /// Returns the doc comment without the common leading space.
    pub fn doc_text(&self) -> String {
        let lines: Vec<&str> = self.doc.lines().map(|l| l.strip_prefix(' ').unwrap_or(l)).collect();
        lines.join("\n").trim().to_owned()
    }

    /// Returns the first paragraph of the documentation on one line.
    pub fn summary(&self) -> String {
        let text = self.doc_text();
        text.split("\n\n").next().unwrap_or_default().replace('\n', " ")
    }

    /// Formats the signature: `name(a: int, b?: string) -> list`.
    pub fn signature(&self) -> String {
        let mut out = format!("{}(", self.name());
        for (i, p) in self.params.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            if p.rest {
                out.push_str("...");
            }
            out.push_str(p.name);
            if p.optional && p.default.is_none() && !p.rest {
                out.push('?');
            }
            out.push_str(": ");
            // The mark for an optional parameter follows its name.
            out.push_str(p.ty.trim_end_matches('?'));
            if let Some(default) = p.default {
                out.push_str(" = ");
                out.push_str(default);
            }
        }
        out.push_str(") -> ");
        out.push_str(self.returns);
        out
    }
}

/// Converts an argument to a typed Rust value.
pub trait FromArg: Sized {
    /// The type in Harn's notation.
    const TYPE: &'static str;
    /// Whether the argument may be omitted.
    const OPTIONAL: bool = false;
    /// Whether it takes all remaining arguments.
    const REST: bool = false;
    /// Whether the body reports an argument of a wrong type with its own message.
    const OWN_TYPE: bool = false;
    /// Whether the body reports a missing argument with its own message.
    const OWN_MISSING: bool = false;
    /// Options of a dict that a struct describes.
    const FIELDS: &'static [OptionField] = &[];

    /// Converts `value`. `what` names the builtin and the parameter for error messages.
    ///
    /// # Errors
    /// A type error with the expected and the actual type.
    fn from_arg(value: Value, what: &ArgName) -> Result<Self>;

    /// Returns the value for a missing argument.
    ///
    /// # Errors
    /// As for [`FromArg::from_arg`]; by default a missing argument is nil.
    fn missing(what: &ArgName) -> Result<Self> {
        Self::from_arg(Value::NIL, what)
    }

    /// Converts all remaining arguments; called if `REST` is true.
    ///
    /// # Errors
    /// As for [`FromArg::from_arg`].
    fn rest(_values: &mut [Value], what: &ArgName) -> Result<Self> {
        Self::missing(what)
    }
}

/// The argument that an error refers to.
pub struct ArgName {
    /// The builtin.
    pub builtin: &'static str,
    /// Position, from 1.
    pub index: usize,
    /// Parameter name.
    pub param: &'static str,
}

impl ArgName {
    /// Returns the error `Type error: <builtin>: <param> must be <expected>, got <type>`.
    #[cold]
    pub fn expected(&self, expected: &str, got: &Value) -> Error {
        Error::type_error(signature::wrong_type(self.builtin, self.param, expected, got.type_name()))
    }

    /// Checks more than the kind: the parameter count of a function, the options in a dict, that a duration is not
    /// negative.
    #[cold]
    #[inline(never)]
    fn check_inside(&self, wants: &Wants, value: &Value) -> Result<()> {
        if let Some(closure) = crate::closure::Closure::of(value) {
            let takes = closure.proto.required as usize;
            if takes > wants.gives as usize {
                let text = signature::wrong_function(self.builtin, takes, wants.gives as usize);
                return Err(Error::type_error(text));
            }
        }
        if wants.time
            && let Some(wrong) = Argument::new(value).wrong_time()
        {
            return Err(Error::runtime(wrong.text(self.builtin, self.param)));
        }
        if wants.shape { check_options(self.builtin, wants.ty, value) } else { Ok(()) }
    }
}

/// Checks a value against a type that contains dicts with known keys.
///
/// # Errors
/// The first unknown option or option with a wrong type; `name` identifies the owner of the options.
pub fn check_options(name: &str, ty: &str, value: &Value) -> Result<()> {
    let first = Cell::new(None);
    let is_done = Cell::new(false);
    signature::wrong_options(name, ty, &Argument { value, is_done: Some(&is_done) }, &mut |wrong, ()| {
        if !is_done.replace(true) {
            first.set(Some(wrong));
        }
    });
    match first.into_inner() {
        Some(WrongOption::Unknown(text) | WrongOption::Value(text)) => Err(Error::runtime(text)),
        Some(WrongOption::Type(text)) => Err(Error::type_error(text)),
        None => Ok(()),
    }
}

/// Checks an argument of a function that is not a builtin against a type in the notation of the builtin tables.
///
/// # Errors
/// A value of another type, a negative or infinite duration, and the errors of [`check_options`].
pub fn check_value(function: &str, param: &str, ty: &str, value: &Value) -> Result<()> {
    let kinds = Kinds::of(ty);
    if !kinds.meets(kind(value)) {
        return Err(Error::type_error(signature::wrong_type(function, param, ty, value.type_name())));
    }
    if kinds.is_time()
        && let Some(wrong) = Argument::new(value).wrong_time()
    {
        return Err(Error::runtime(wrong.text(function, param)));
    }
    check_options(function, ty, value)
}

/// Calls `look` for each option dict with its own table, anywhere inside a value of type `ty`, with its path (empty for
/// the value itself), the name of the table and the dict.
pub fn option_sets(ty: &'static str, value: &Value, look: &mut dyn FnMut(&str, &'static str, &Value)) {
    signature::option_sets(ty, &Argument::new(value), &mut |path, set, given| look(path, set, given.value));
}

/// An argument that is checked against a shape.
#[derive(Clone, Copy)]
struct Argument<'a> {
    value: &'a Value,
    /// Set when the first mistake is found, to stop reading.
    is_done: Option<&'a Cell<bool>>,
}

impl<'a> Argument<'a> {
    fn new(value: &'a Value) -> Argument<'a> {
        Argument { value, is_done: None }
    }

    /// Wraps a value inside this dict or list.
    fn part(self, value: &'a Value) -> Argument<'a> {
        Argument { value, ..self }
    }

    /// Iterates over the parts; each one takes a step.
    fn read<T>(self, parts: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        steps::each(parts).take_while(move |_| !self.is_done.is_some_and(Cell::get))
    }
}

impl Given for Argument<'_> {
    type Place = ();

    fn kind(&self) -> Option<(Kinds, &'static str)> {
        Some((kind(self.value), self.value.type_name()))
    }

    fn place(&self) {}

    fn wrong_time(&self) -> Option<WrongTime> {
        match self.value.view() {
            View::Int(n) | View::Duration(n) => WrongTime::of(n as f64),
            View::Float(n) => WrongTime::of(n),
            _ => None,
        }
    }

    fn entries(&self, look: &mut dyn FnMut(&str, (), &Self)) {
        for (key, value) in self.read(self.value.as_dict().into_iter().flat_map(|dict| dict.iter())) {
            look(key, (), &self.part(value));
        }
    }

    fn items(&self, look: &mut dyn FnMut(&Self)) {
        for value in self.read(self.value.as_list().into_iter().flat_map(|list| list.iter())) {
            look(&self.part(value));
        }
    }
}

/// Returns the kind of a value.
#[inline(always)]
pub fn kind(value: &Value) -> Kinds {
    let tag = value.tag();
    if (tag as u8) <= Tag::Closure as u8 { Kinds(1 << tag as u8) } else { Kinds::named(value.type_name()) }
}

/// All remaining arguments.
pub struct Rest(pub Vec<Value>);

/// A callable value: a closure, a function, a builtin or a struct constructor.
#[derive(Clone)]
pub struct Callable(pub Value);

macro_rules! from_arg {
    ($($ty:ty, $name:literal, $value:ident => $convert:expr;)*) => {$(
        impl FromArg for $ty {
            const TYPE: &'static str = $name;
            #[inline]
            fn from_arg($value: Value, what: &ArgName) -> Result<Self> {
                $convert.ok_or_else(|| what.expected($name, &$value))
            }
        }
    )*};
}

from_arg! {
    i64, "int", v => v.as_int();
    bool, "bool", v => v.as_bool();
    f64, "int | float", v => v.as_number();
    Str, "string", v => v.as_str().cloned();
    Ref<List>, "list", v => v.as_list().cloned();
    Ref<Dict>, "dict", v => v.to_dict();
    Ref<Set>, "set", v => v.as_set().cloned();
    Callable, "function", v => crate::closure::is_callable(&v).then(|| Callable(v.clone()));
}

impl FromArg for Value {
    const TYPE: &'static str = "any";
    #[inline(always)]
    fn from_arg(value: Value, _what: &ArgName) -> Result<Value> {
        Ok(value)
    }
}

impl<T: FromArg> FromArg for Option<T> {
    const TYPE: &'static str = T::TYPE;
    const OPTIONAL: bool = true;
    fn from_arg(value: Value, what: &ArgName) -> Result<Option<T>> {
        if value.is_nil() { Ok(None) } else { T::from_arg(value, what).map(Some) }
    }
}

impl FromArg for Rest {
    const TYPE: &'static str = "any";
    const OPTIONAL: bool = true;
    const REST: bool = true;
    fn from_arg(value: Value, _what: &ArgName) -> Result<Rest> {
        Ok(Rest(vec![value]))
    }
    fn missing(_what: &ArgName) -> Result<Rest> {
        Ok(Rest(Vec::new()))
    }
    fn rest(values: &mut [Value], _what: &ArgName) -> Result<Rest> {
        Ok(Rest(values.iter_mut().map(Value::take).collect()))
    }
}

/// An argument that distinguishes "missing" from nil.
pub struct Maybe(pub Option<Value>);

impl FromArg for Maybe {
    const TYPE: &'static str = "any";
    const OWN_TYPE: bool = true;
    const OWN_MISSING: bool = true;
    fn from_arg(value: Value, _what: &ArgName) -> Result<Maybe> {
        Ok(Maybe(Some(value)))
    }
    fn missing(_what: &ArgName) -> Result<Maybe> {
        Ok(Maybe(None))
    }
}

/// An option dict described by a struct.
pub struct OptionDict<T> {
    given: Value,
    builtin: &'static str,
    param: &'static str,
    described: PhantomData<T>,
}

impl<T: Options> OptionDict<T> {
    /// Reads the options into the struct.
    ///
    /// # Errors
    /// The first option with a wrong value.
    pub fn read(&self) -> Result<T> {
        let error = |wrong| {
            let text = format!("{}: {wrong}", self.builtin);
            if T::IS_THROWN { Error::thrown(text) } else { Error::runtime(text) }
        };
        if T::SHORT.is_none() && !self.given.is_nil() && self.given.to_dict().is_none() {
            return Err(error(format!("{} must be a dict", self.param)));
        }
        options::read(&self.given).map_err(error)
    }

    /// Returns the dict that the program passed.
    pub fn given(&self) -> &Value {
        &self.given
    }
}

impl<T: Options> FromArg for OptionDict<T> {
    const TYPE: &'static str = T::TYPE;
    const OPTIONAL: bool = true;
    const FIELDS: &'static [OptionField] = T::FIELDS;
    const OWN_TYPE: bool = T::OWN_TYPE;
    const OWN_MISSING: bool = T::OWN_TYPE;

    fn from_arg(given: Value, what: &ArgName) -> Result<OptionDict<T>> {
        Ok(OptionDict { given, builtin: what.builtin, param: what.param, described: PhantomData })
    }
}

/// A string made from any value: strings unchanged, others in printed form.
pub struct Text(pub Str);

impl FromArg for Text {
    const TYPE: &'static str = "text";
    fn from_arg(value: Value, _what: &ArgName) -> Result<Text> {
        Ok(Text(match value.as_str() {
            Some(s) => s.clone(),
            None => Str::new(&value.to_string()),
        }))
    }
    fn missing(_what: &ArgName) -> Result<Text> {
        Ok(Text(Str::new("")))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Str::new(text))
    }
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// Takes an argument out of the registers. This is the only place where argument types are checked. `wants` is a
/// compile-time constant, so the check is reduced to testing one bit.
///
/// # Errors
/// A type error if the parameter does not accept the value, and errors of [`FromArg`].
#[inline(always)]
pub fn take_arg<T: FromArg>(
    args: &mut [Value],
    what: &ArgName,
    default: Option<fn() -> T>,
    wants: Wants,
) -> Result<T> {
    // The compiler folds all constants: the fast path only tests the kind of the value.
    let simple =
        !T::REST && !T::OWN_TYPE && !wants.own && !wants.shape && !wants.time && wants.gives == u8::MAX;
    if simple
        && let Some(value) = args.get_mut(what.index - 1)
        && !value.is_nil()
        && (wants.kinds == Kinds::ANY || wants.kinds.meets(kind(value)))
    {
        return T::from_arg(value.take(), what);
    }
    take_unusual_arg(args, what, default, wants)
}

/// The slow path of [`take_arg`]: missing and invalid arguments, and arguments whose contents are checked.
#[inline(never)]
fn take_unusual_arg<T: FromArg>(
    args: &mut [Value],
    what: &ArgName,
    default: Option<fn() -> T>,
    wants: Wants,
) -> Result<T> {
    let index = what.index - 1;
    if T::REST {
        let rest = args.get_mut(index..).unwrap_or_default();
        for value in rest.iter() {
            check_arg(value, what, &wants)?;
        }
        return T::rest(rest, what);
    }
    match args.get_mut(index) {
        Some(value) => {
            if !(T::OWN_TYPE || wants.own) {
                if value.is_nil() && (wants.optional || default.is_some()) {
                    return default.map_or_else(|| T::missing(what), |default| Ok(default()));
                }
                check_arg(value, what, &wants)?;
            } else if wants.gives != u8::MAX || wants.shape {
                what.check_inside(&wants, value)?;
            }
            T::from_arg(value.take(), what)
        }
        None => default.map_or_else(|| T::missing(what), |default| Ok(default())),
    }
}

#[inline(always)]
fn check_arg(value: &Value, what: &ArgName, wants: &Wants) -> Result<()> {
    if wants.kinds != Kinds::ANY && !wants.kinds.meets(kind(value)) {
        return Err(what.expected(wants.ty, value));
    }
    if wants.shape || wants.time || wants.gives != u8::MAX { what.check_inside(wants, value) } else { Ok(()) }
}

/// Methods of one type of value; the receiver is the first parameter.
#[derive(Clone, Copy)]
pub struct MethodTable {
    /// The type as `type_of` names it; `any` for methods of every type.
    pub type_name: &'static str,
    /// The methods. If several tables of one [`VmBuilder::methods`](crate::VmBuilder::methods) call define a method of
    /// the same name, the earlier table wins.
    pub methods: &'static [Builtin],
}

/// A type that the body of a builtin may return.
pub trait IntoResult {
    /// Converts to the result for the VM.
    ///
    /// # Errors
    /// The body's error.
    fn into_result(self) -> Result<Value>;
}

macro_rules! into_result {
    ($($ty:ty),* $(,)?) => {$(
        impl IntoResult for $ty {
            #[inline(always)]
            fn into_result(self) -> Result<Value> {
                Ok(self.into())
            }
        }
    )*};
}

into_result!(
    Value,
    Str,
    String,
    &str,
    i64,
    usize,
    f64,
    bool,
    (),
    Vec<Value>,
    Dict,
    Set,
    Ref<Dict>,
    Ref<List>
);

impl<T: Into<Value>> IntoResult for Option<T> {
    #[inline]
    fn into_result(self) -> Result<Value> {
        Ok(self.into())
    }
}

impl<T: Into<Value>> IntoResult for Result<T> {
    #[inline(always)]
    fn into_result(self) -> Result<Value> {
        self.map(Into::into)
    }
}

/// Declares a table of builtins.
///
/// ```ignore
/// builtins! {
///     /// Strings.
///     pub static STRINGS: "strings";
///
///     /// Splits `text` at every `sep`.
///     ///
///     /// ```harn
///     /// println(split("a,b", ",")) // -> [a, b]
///     /// ```
///     Pure fn split(cx, text: Text, sep: Text = Text(Str::new(","))) -> "list<string>" { ... }
///
///     /// Waits.
///     Clock async fn sleep(cx, time: Value) -> "nil" { ... cx.call(&f, [x]).await? ... }
///
///     /// Gives what `f` gives for every item.
///     Pure loop fn map(cx, this: List, f: Value) -> "list" { CallLoop::over(f, this, ...) }
/// }
/// ```
///
/// `cx` is `&Cx` in plain functions and an owned [`Cx`] in async ones. The body is a block whose value is
/// anything that implements [`IntoResult`]; `?` and `return` work on [`Result`]. The effect is one of
/// [`Effect`]'s variants and is required. A name that is a Rust keyword is written as
/// `fn name = "await"`: `State async fn await_ = "await"(cx, h: Value) -> "any" { ... }`.
#[macro_export]
macro_rules! builtins {
    // All entries processed: emit the table.
    (@munch [$(#[$table_meta:meta])* $vis:vis $TABLE:ident $topic:literal] [$($entries:tt)*]) => {
        $(#[$table_meta])*
        $vis static $TABLE: &[$crate::Builtin] = &[$($entries)*];
    };
    // A plain function: emit it and add its table entry.
    (@munch [$($head:tt)*] [$($entries:tt)*]
        $(#[doc = $doc:literal])*
        $effect:ident fn $name:ident $(= $alias:literal)? ($cx:ident $(, $param:ident : $ty:ty $(as $kinds:literal)? $(= $default:expr)?)* $(,)?) -> $returns:literal $body:block
        $($rest:tt)*
    ) => {
        #[allow(dead_code, unused_mut, unused_variables, unused_assignments, reason = "not every builtin has parameters or uses the context")]
        fn $name($cx: &$crate::Cx, args: &mut [$crate::Value]) -> $crate::Result<$crate::Value> {
            const NAME: &str = $crate::builtins!(@full [$($head)*] $name [$($alias)?] [$($param),*]);
            $crate::builtins!(@take args NAME index $($param : $ty $(as $kinds)? $(= $default)?),*);
            $crate::builtin::IntoResult::into_result($body)
        }
        $crate::builtins! { @munch [$($head)*] [$($entries)*
            $crate::builtins!(@entry [$($head)*] [$($doc)*] $effect Sync $name [$($alias)?] [$($param : $ty $(as $kinds)? $(= $default)?),*] $returns),
        ] $($rest)* }
    };
    // An async function.
    (@munch [$($head:tt)*] [$($entries:tt)*]
        $(#[doc = $doc:literal])*
        $effect:ident async fn $name:ident $(= $alias:literal)? ($cx:ident $(, $param:ident : $ty:ty $(as $kinds:literal)? $(= $default:expr)?)* $(,)?) -> $returns:literal $body:block
        $($rest:tt)*
    ) => {
        #[allow(dead_code, unused_mut, unused_variables, unused_assignments, reason = "not every builtin has parameters or uses the context")]
        fn $name($cx: $crate::Cx, mut args: Vec<$crate::Value>) -> $crate::builtin::NativeFuture {
            Box::pin(async move {
                const NAME: &str = $crate::builtins!(@full [$($head)*] $name [$($alias)?] [$($param),*]);
                $crate::builtins!(@take args NAME index $($param : $ty $(as $kinds)? $(= $default)?),*);
                drop(args);
                $crate::builtin::IntoResult::into_result($body)
            })
        }
        $crate::builtins! { @munch [$($head)*] [$($entries)*
            $crate::builtins!(@entry [$($head)*] [$($doc)*] $effect Async $name [$($alias)?] [$($param : $ty $(as $kinds)? $(= $default)?),*] $returns),
        ] $($rest)* }
    };
    // A function that calls a function per item.
    (@munch [$($head:tt)*] [$($entries:tt)*]
        $(#[doc = $doc:literal])*
        $effect:ident loop fn $name:ident $(= $alias:literal)? ($cx:ident $(, $param:ident : $ty:ty $(as $kinds:literal)? $(= $default:expr)?)* $(,)?) -> $returns:literal $body:block
        $($rest:tt)*
    ) => {
        #[allow(unused_variables, reason = "not every builtin uses the context")]
        fn $name($cx: &$crate::Cx, args: &mut [$crate::Value]) -> $crate::Result<$crate::CallLoop> {
            const NAME: &str = $crate::builtins!(@full [$($head)*] $name [$($alias)?] [$($param),*]);
            $crate::builtins!(@take args NAME index $($param : $ty $(as $kinds)? $(= $default)?),*);
            Ok($body)
        }
        $crate::builtins! { @munch [$($head)*] [$($entries)*
            $crate::builtins!(@entry [$($head)*] [$($doc)*] $effect Loop $name [$($alias)?] [$($param : $ty $(as $kinds)? $(= $default)?),*] $returns),
        ] $($rest)* }
    };
    (@entry [$(#[$table_meta:meta])* $vis:vis $TABLE:ident $topic:literal] [$($doc:literal)*] $effect:ident $run:ident $name:ident [$($alias:literal)?] [$($param:ident : $ty:ty $(as $kinds:literal)? $(= $default:expr)?),*] $returns:literal) => {
        {
            const PARAMS: &[$crate::builtin::Param] = &[$($crate::builtin::Param {
                name: stringify!($param),
                ty: $crate::signature::Wants::of($crate::builtins!(@type $ty $(, $kinds)?)).ty,
                optional: <$ty as $crate::builtin::FromArg>::OPTIONAL
                    || $crate::builtins!(@has_default $($default)?)
                    || $crate::signature::Wants::of($crate::builtins!(@type $ty $(, $kinds)?)).optional,
                default: $crate::builtins!(@default_text $($default)?),
                rest: <$ty as $crate::builtin::FromArg>::REST,
                own_missing: <$ty as $crate::builtin::FromArg>::OWN_MISSING
                    || $crate::signature::Wants::of($crate::builtins!(@type $ty $(, $kinds)?)).own,
                options: <$ty as $crate::builtin::FromArg>::FIELDS,
            }),*];
        $crate::Builtin {
            header: $crate::NativeHeader { name: $crate::builtins!(@name $name $($alias)?) },
            topic: $topic,
            doc: concat!($($doc, "\n"),*),
            params: PARAMS,
            returns: $returns,
            effect: $crate::Effect::$effect,
            least: $crate::builtin::least(PARAMS),
            most: $crate::builtin::most(PARAMS),
            run: $crate::builtin::Run::$run($name),
            full_name: $crate::builtins!(@full [$(#[$table_meta])* $vis $TABLE $topic] $name [$($alias)?] [$($param),*]),
        }
        }
    };
    (@type $ty:ty) => { <$ty as $crate::builtin::FromArg>::TYPE };
    (@type $ty:ty, $kinds:literal) => { $kinds };
    // The name in messages.
    (@full [$(#[$table_meta:meta])* $vis:vis $TABLE:ident $topic:literal] $name:ident [$($alias:literal)?] [this $(, $param:ident)*]) => {
        concat!($topic, ".", $crate::builtins!(@name $name $($alias)?))
    };
    (@full [$($head:tt)*] $name:ident [$($alias:literal)?] [$($param:ident),*]) => {
        $crate::builtins!(@name $name $($alias)?)
    };
    // Binds the parameters to variables. The caller names the counter so that, by macro hygiene, it is the caller's
    // variable.
    (@take $args:ident $NAME:ident $index:ident $($param:ident : $ty:ty $(as $kinds:literal)? $(= $default:expr)?),*) => {
        let mut $index = 0;
        $(
            $index += 1;
            let $param: $ty = $crate::builtin::take_arg(
                &mut $args[..],
                &$crate::builtin::ArgName { builtin: $NAME, index: $index, param: stringify!($param) },
                $crate::builtins!(@default $($default)?),
                const { $crate::signature::Wants::of($crate::builtins!(@type $ty $(, $kinds)?)) },
            )?;
        )*
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $alias:literal) => { $alias };
    (@default) => { None };
    (@default $default:expr) => { Some(|| ::core::convert::Into::into($default)) };
    (@has_default) => { false };
    (@has_default $default:expr) => { true };
    (@default_text) => { None };
    (@default_text $default:expr) => { Some(stringify!($default)) };
    (
        $(#[$table_meta:meta])*
        $vis:vis static $TABLE:ident: $topic:literal;
        $($rest:tt)*
    ) => {
        $crate::builtins! { @munch [$(#[$table_meta])* $vis $TABLE $topic] [] $($rest)* }
    };
}
