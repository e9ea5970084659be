//! Signatures of builtins, and the messages for invalid calls. The virtual machine uses them at run time and the
//! checker statically, so both report the same messages.
//!
//! Types of parameters are written in Harn's notation: `int | float`, `list<string>`, `function(2)` for a function
//! that is called with two arguments, `{width?: int, height?: int}` for a dict of options, `any`. A trailing `?`
//! marks an optional argument; nil is then equivalent to a missing argument. `text` stands for all values with a
//! one-line printed form: strings, numbers, bools, durations and enum values. With a leading `!` the builtin itself
//! reports values of other types and missing arguments. `call_options` and `loop_options` are dicts whose names and
//! values are defined by the tables of model calls and loops; `workflow_options` are the options of a workflow run,
//! `stage_options` the additional options of a workflow stage. Such a set may also be nested in another dict
//! ([`option_sets`]). Dicts that are long or used by several builtins have a name in [`SHAPES`].

use crate::shapes::SHAPES;
use crate::suggest::nearest;

/// The type of the options of a model call.
pub const CALL_OPTIONS: &str = "call_options";

/// The type of the options of a loop, which include those of its model calls.
pub const LOOP_OPTIONS: &str = "loop_options";

/// The type of the options of a workflow run.
pub const WORKFLOW_OPTIONS: &str = "workflow_options";

/// The type of the options of a stage's loop or call, in addition to those of its node and run.
pub const STAGE_OPTIONS: &str = "stage_options";

/// Returns whether a type denotes options that are defined by a separate table.
pub fn is_option_set(ty: &str) -> bool {
    [CALL_OPTIONS, LOOP_OPTIONS, WORKFLOW_OPTIONS, STAGE_OPTIONS].contains(&ty.trim_end_matches('?'))
}

/// A value written as a literal in the source.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A duration, in milliseconds.
    Duration(i64),
    /// A string without interpolation.
    Str(String),
    /// A list of literals.
    List(Vec<Literal>),
    /// A dict of literals.
    Dict(Vec<(String, Literal)>),
    /// A closure.
    Closure,
}

/// An option written in the source.
#[derive(Clone, PartialEq, Debug)]
pub struct GivenOption {
    /// Its name.
    pub name: String,
    /// Its value, if it is a literal.
    pub value: Option<Literal>,
}

/// The fields of a dict that a builtin returns.
#[derive(Debug)]
pub struct Record {
    /// Its name in messages.
    pub name: &'static str,
    /// All possible fields.
    pub fields: &'static [RecordField],
    /// Names of the fields in other libraries, with the Harn name.
    pub foreign: &'static [(&'static str, &'static str)],
}

/// A field of a [`Record`].
#[derive(Clone, Copy, Debug)]
pub struct RecordField {
    /// Its name.
    pub name: &'static str,
    /// The fields of its value, if that is a dict with known fields.
    pub record: Option<&'static Record>,
}

impl Record {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&RecordField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// A problem with an option, reported by the tables of model calls and loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionProblem {
    /// The option; empty if several are concerned.
    pub name: String,
    /// The message.
    pub text: String,
    /// The effect on the call.
    pub effect: OptionEffect,
}

/// The effect of an invalid option on the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionEffect {
    /// The call fails.
    Fails,
    /// The call warns and ignores the option.
    Ignored,
    /// The call uses the option as it is.
    Used,
}

/// A set of kinds of values, as a bit set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds(pub u32);

macro_rules! kinds {
    ($($NAME:ident = $bit:literal, $word:literal;)*) => {
        impl Kinds {
            $(#[doc = concat!("`", $word, "`")] pub const $NAME: Kinds = Kinds(1 << $bit);)*
        }
        const WORDS: &[(&str, u32)] = &[
            $(($word, 1 << $bit),)*
            ("any", u32::MAX),
            ("function", Kinds::CLOSURE.0 | Kinds::BUILTIN.0),
            ("text", Kinds::TEXT.0),
            (CALL_OPTIONS, Kinds::DICT.0),
            (LOOP_OPTIONS, Kinds::DICT.0),
            (WORKFLOW_OPTIONS, Kinds::DICT.0),
            (STAGE_OPTIONS, Kinds::DICT.0),
        ];
    };
}

// The numbers up to 17 are the tags of values.
kinds! {
    NIL = 0, "nil";
    BOOL = 1, "bool";
    INT = 2, "int";
    FLOAT = 3, "float";
    DURATION = 4, "duration";
    BUILTIN = 6, "builtin";
    STRING = 8, "string";
    BYTES = 9, "bytes";
    LIST = 10, "list";
    DICT = 11, "dict";
    SET = 12, "set";
    RANGE = 13, "range";
    PAIR = 14, "pair";
    ENUM = 15, "enum";
    STRUCT = 16, "struct";
    CLOSURE = 17, "closure";
    ITER = 18, "iter";
    GENERATOR = 19, "generator";
    STREAM = 20, "stream";
    CHANNEL = 21, "channel";
    ATOMIC = 22, "atomic";
    RNG = 23, "rng";
    TASK_HANDLE = 24, "task_handle";
    MCP_CLIENT = 25, "mcp_client";
    SYNC_PERMIT = 26, "sync_permit";
    OTHER = 27, "other";
}

impl Kinds {
    /// The kinds accepted by parameters of type `text`.
    pub const TEXT: Kinds = Kinds(
        Kinds::STRING.0 | Kinds::INT.0 | Kinds::FLOAT.0 | Kinds::BOOL.0 | Kinds::DURATION.0 | Kinds::ENUM.0,
    );

    /// All kinds.
    pub const ANY: Kinds = Kinds(u32::MAX);

    /// Returns the kind that `type_of` names `name`.
    pub fn named(name: &str) -> Kinds {
        WORDS.iter().find(|(word, _)| *word == name).map_or(Kinds::OTHER, |&(_, bits)| Kinds(bits))
    }

    /// No kind.
    pub const NONE: Kinds = Kinds(0);

    /// The kinds of both sets.
    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// The kinds that the sets have in common.
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// The kinds that `other` has not.
    pub const fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// Whether `other` has all of these kinds.
    pub const fn is_within(self, other: Kinds) -> bool {
        self.0 & !other.0 == 0
    }

    /// The bits of the first 16 kinds: those that annotations name most often.
    pub const fn low(self) -> u16 {
        self.0 as u16
    }

    /// Returns whether the sets intersect.
    pub const fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the type is a limit, a wait or an interval: a non-negative duration, or a number of
    /// milliseconds or of the unit in its name. Types that accept bools accept any text, and types that accept
    /// pairs accept any ordered value, so both are excluded.
    pub const fn is_time(self) -> bool {
        let takes_more = self.meets(Kinds::BOOL) || self.meets(Kinds::PAIR);
        self.meets(Kinds::DURATION) && self.meets(Kinds::INT) && !takes_more
    }

    /// Returns the kinds of a type; an unknown name has none.
    pub const fn of(ty: &str) -> Kinds {
        let ty = ty.as_bytes();
        let mut bits = if optional(ty) { Kinds::NIL.0 } else { 0 };
        let mut at = 0;
        while at < ty.len() {
            let start = skip_blanks(ty, at);
            let mut end = start;
            while end < ty.len() && (ty[end].is_ascii_alphanumeric() || ty[end] == b'_') {
                end += 1;
            }
            bits |= if end == start && start < ty.len() && ty[start] == b'{' {
                Kinds::DICT.0
            } else {
                word_bits(ty, start, end)
            };
            at = end_of_branch(ty, end) + 1;
        }
        // A struct is accepted wherever a dict is.
        if bits & Kinds::DICT.0 != 0 {
            bits |= Kinds::STRUCT.0;
        }
        Kinds(bits)
    }
}

const fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    at
}

/// Returns the offset of the next `|` outside brackets, or of the end.
const fn end_of_branch(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < text.len() {
        match text[at] {
            b'(' | b'<' | b'{' => depth += 1,
            b')' | b'>' | b'}' => depth -= 1,
            b'|' if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    at
}

const fn word_bits(text: &[u8], start: usize, end: usize) -> u32 {
    let mut entry = 0;
    while entry < WORDS.len() {
        let word = WORDS[entry].0.as_bytes();
        if word.len() == end - start {
            let mut at = 0;
            while at < word.len() && word[at] == text[start + at] {
                at += 1;
            }
            if at == word.len() {
                return WORDS[entry].1;
            }
        }
        entry += 1;
    }
    if is_named(text, start, end) { Kinds::DICT.0 } else { 0 }
}

/// Returns whether this is the name of a shape.
const fn is_named(text: &[u8], start: usize, end: usize) -> bool {
    let mut entry = 0;
    while entry < SHAPES.len() {
        let word = SHAPES[entry].0.as_bytes();
        let mut at = 0;
        while at < word.len() && start + at < end && word[at] == text[start + at] {
            at += 1;
        }
        if at == word.len() && start + at == end {
            return true;
        }
        entry += 1;
    }
    false
}

/// Returns whether the type includes a dict of options with known names.
const fn has_shape(ty: &[u8]) -> bool {
    let mut at = 0;
    while at < ty.len() {
        if ty[at] == b'{' {
            return true;
        }
        let start = at;
        while at < ty.len() && (ty[at].is_ascii_alphanumeric() || ty[at] == b'_') {
            at += 1;
        }
        if at > start {
            if is_named(ty, start, at) {
                return true;
            }
        } else {
            at += 1;
        }
    }
    false
}

const fn optional(ty: &[u8]) -> bool {
    !ty.is_empty() && ty[ty.len() - 1] == b'?'
}

/// The requirements on one argument, computed at build time from the parameter's type.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// The type.
    pub ty: &'static str,
    /// The accepted kinds of values.
    pub kinds: Kinds,
    /// Whether the argument is optional.
    pub optional: bool,
    /// Number of arguments that a function is called with; 255 if unknown.
    pub gives: u8,
    /// Whether it may be a dict of options with known names.
    pub shape: bool,
    /// Whether it is a time ([`Kinds::is_time`]).
    pub time: bool,
    /// Whether the builtin itself reports invalid values.
    pub own: bool,
}

impl Wants {
    /// Returns the requirements of a type.
    ///
    /// # Panics
    /// Panics on an unknown type name. The tables are constants, so this fails the build.
    pub const fn of(ty: &'static str) -> Wants {
        let own = ty.as_bytes()[0] == b'!';
        let ty = if own { ty.split_at(1).1 } else { ty };
        let kinds = Kinds::of(ty);
        assert!(kinds.0 & !Kinds::NIL.0 != 0, "unknown type of a parameter");
        let bytes = ty.as_bytes();
        let (optional, gives, shape) = (optional(bytes), gives(bytes), has_shape(bytes));
        Wants { ty, kinds, optional, gives, shape, time: kinds.is_time() && !own, own }
    }
}

/// Returns the number in `function(N)`.
const fn gives(ty: &[u8]) -> u8 {
    let mut at = 0;
    while at + 1 < ty.len() {
        if ty[at] == b'(' {
            return ty[at + 1] - b'0';
        }
        at += 1;
    }
    u8::MAX
}

/// Returns the number of arguments that a function passed for a parameter of this type is called with.
pub fn call_arguments(ty: &str) -> Option<u8> {
    Some(gives(ty.as_bytes())).filter(|&count| count != u8::MAX)
}

/// The side effect of a builtin. Every effect except `Pure` passes through the system layer, which can reject,
/// replace and record it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None.
    Pure,
    /// Writes to the program's output.
    Output,
    /// Reads the clock or waits.
    Clock,
    /// Random numbers.
    Random,
    /// Environment variables and process information.
    Env,
    /// Files.
    Fs,
    /// Writes files of the runtime in which programs persist values.
    Keep,
    /// The network.
    Net,
    /// Other processes.
    Process,
    /// Model calls.
    Llm,
    /// Loops that call models: each has its own policy, limited by the enclosing one.
    Loop,
    /// Asks a human.
    Human,
    /// State of the running program: tasks, channels, locks, mocks.
    State,
}

impl Effect {
    /// Returns the name used in documentation and permissions.
    pub const fn word(self) -> &'static str {
        match self {
            Effect::Pure => "pure",
            Effect::Output => "output",
            Effect::Clock => "clock",
            Effect::Random => "random",
            Effect::Env => "env",
            Effect::Fs | Effect::Keep => "fs",
            Effect::Net => "net",
            Effect::Process => "process",
            Effect::Llm | Effect::Loop => "llm",
            Effect::Human => "human",
            Effect::State => "state",
        }
    }
}

/// A parameter, as seen by the checker.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: &'static str,
    /// Whether it is optional.
    pub optional: bool,
    /// Whether it takes all remaining arguments.
    pub rest: bool,
}

/// A builtin or method, as seen by the checker.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name; methods include their type: `list.sort`.
    pub name: &'static str,
    /// Its parameters, without the receiver.
    pub parameters: Vec<Parameter>,
    /// The type of its result.
    pub returns: &'static str,
    /// Its side effect.
    pub effect: Effect,
    /// Whether it can block.
    pub waits: bool,
}

impl Signature {
    /// Returns the message for a wrong number of arguments, `None` if it is valid.
    pub fn wrong_count(&self, got: usize) -> Option<String> {
        let rest = self.parameters.iter().any(|p| p.rest);
        let least = self.parameters.iter().filter(|p| !p.optional && !p.rest).count();
        let most = if rest { usize::MAX } else { self.parameters.len() };
        if got < least {
            Some(too_few(self.name, least, got))
        } else {
            (got > most).then(|| too_many(self.name, most, got))
        }
    }

    /// Returns whether it calls models: other builtins with the `Llm` effect only compute.
    pub fn calls_models(&self) -> bool {
        self.effect == Effect::Loop || self.effect == Effect::Llm && self.waits
    }

    /// Returns the parameter for the argument at this index.
    pub fn parameter(&self, at: usize) -> Option<&Parameter> {
        self.parameters.get(at).or_else(|| self.parameters.last().filter(|p| p.rest))
    }
}

fn arguments(count: usize) -> String {
    format!("{count} argument{}", if count == 1 { "" } else { "s" })
}

/// `NAME: expected at most 2 arguments, got 3`
pub fn too_many(name: &str, most: usize, got: usize) -> String {
    // In other languages this argument is the indentation.
    let also = if name == "json_stringify" { "; `json_pretty(value)` writes with indents" } else { "" };
    format!("{name}: expected at most {}, got {got}{also}", arguments(most))
}

/// `NAME: expected at least 1 argument, got 0`
pub fn too_few(name: &str, least: usize, got: usize) -> String {
    format!("{name}: expected at least {}, got {got}", arguments(least))
}

/// `NAME: PARAM must be TYPE, got TYPE`
pub fn wrong_type(name: &str, param: &str, ty: &str, got: &str) -> String {
    // A dict of options passed as system prompt would be sent to the model.
    let also = match (param, got) {
        ("system", "dict") => format!("; options are the third argument: {name}(prompt, nil, {{...}})"),
        _ => String::new(),
    };
    format!("{name}: {param} must be {}, got {got}{also}", words(ty))
}

/// `list.map: the function takes 2 arguments, but gets 1`
pub fn wrong_function(name: &str, takes: usize, gets: usize) -> String {
    format!("{name}: the function takes {}, but gets {gets}", arguments(takes))
}

/// Formats a type for a message: `int or float`.
pub fn words(ty: &str) -> String {
    let ty = ty.trim_end_matches('?');
    let mut parts = Vec::new();
    let mut rest = ty;
    loop {
        let end = end_of_branch(rest.as_bytes(), 0);
        let part = rest[..end].trim();
        let word = part.split(['<', '(', '{']).next().unwrap_or_default();
        let named = word.is_empty() || is_option_set(word) || SHAPES.iter().any(|(name, _)| *name == word);
        let word = if named { "dict" } else { word };
        if !parts.contains(&word) {
            parts.push(word);
        }
        if end == rest.len() {
            break;
        }
        rest = &rest[end + 1..];
    }
    match parts.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => parts.concat(),
    }
}

/// Iterates over the branches of a type; names of shapes are replaced by their shapes.
fn branches(ty: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(ty.trim_end_matches('?'));
    std::iter::from_fn(move || {
        let ty = rest?;
        let end = end_of_branch(ty.as_bytes(), 0);
        rest = ty.get(end + 1..);
        let word = ty[..end].trim();
        Some(SHAPES.iter().find(|(name, _)| *name == word).map_or(word, |&(_, shape)| shape))
    })
}

/// Returns the dict of options among the branches of a type: `{max?: int}` for `int | {max?: int}?`.
pub fn shape(ty: &str) -> Option<&str> {
    branches(ty).find(|branch| branch.starts_with('{'))
}

/// Returns the argument of `word<...>` if it is a branch of the type.
fn inside<'a>(ty: &'a str, word: &str) -> Option<&'a str> {
    branches(ty).find_map(|branch| branch.strip_prefix(word)?.strip_prefix('<')?.strip_suffix('>'))
}

/// Iterates over names and types of the options of a type like `{width?: int, height?: int}`. Yields nothing for a
/// dict with arbitrary names, which ends with `...`.
pub fn options(ty: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = ty.trim_end_matches('?').strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or("");
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let mut end = 0;
            let mut depth = 0;
            for (at, c) in rest.bytes().enumerate() {
                match c {
                    b'(' | b'<' | b'{' => depth += 1,
                    b')' | b'>' | b'}' => depth -= 1,
                    b',' if depth == 0 => break,
                    _ => {}
                }
                end = at + 1;
            }
            let entry = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or("");
            if let Some((name, ty)) = entry.split_once(':') {
                return Some((name.trim().trim_end_matches('?'), ty.trim()));
            }
        }
        None
    })
}

/// A problem with an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WrongOption {
    /// The name is unknown.
    Unknown(String),
    /// The value has the wrong type.
    Type(String),
    /// The value has the right type but is not allowed.
    Value(String),
}

impl WrongOption {
    /// Returns the message.
    pub fn text(self) -> String {
        let (WrongOption::Unknown(text) | WrongOption::Type(text) | WrongOption::Value(text)) = self;
        text
    }
}

/// The problem of an invalid time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongTime {
    /// It is negative.
    Negative,
    /// It is infinite or NaN.
    Endless,
}

impl WrongTime {
    /// Returns the problem of a number used as time, if any.
    pub fn of(number: f64) -> Option<WrongTime> {
        if !number.is_finite() {
            Some(WrongTime::Endless)
        } else {
            (number < 0.0).then_some(WrongTime::Negative)
        }
    }

    /// `NAME: PARAM must not be negative`
    pub fn text(self, name: &str, param: &str) -> String {
        let must = match self {
            WrongTime::Negative => "must not be negative",
            WrongTime::Endless => "must be finite",
        };
        format!("{name}: {param} {must}")
    }
}

/// Something checked against a shape: a value, or an expression whose value may be unknown.
pub trait Given {
    /// The type of locations.
    type Place;

    /// Returns its kind and the name of the kind, if known.
    fn kind(&self) -> Option<(Kinds, &'static str)>;

    /// Returns its location.
    fn place(&self) -> Self::Place;

    /// Returns its problem as a limit, a wait or an interval, if known.
    fn wrong_time(&self) -> Option<WrongTime>;

    /// Calls `look` for each entry of a dict with key, location of the key, and value.
    fn entries(&self, look: &mut dyn FnMut(&str, Self::Place, &Self));

    /// Calls `look` for each item of a list.
    fn items(&self, look: &mut dyn FnMut(&Self));
}

/// Calls `found` for every problem with the options of a value, including nested ones.
pub fn wrong_options<G: Given>(
    name: &str,
    ty: &str,
    given: &G,
    found: &mut dyn FnMut(WrongOption, G::Place),
) {
    wrong_inside(name, "", ty, given, found);
}

fn wrong_inside<G: Given>(
    name: &str,
    path: &str,
    ty: &str,
    given: &G,
    found: &mut dyn FnMut(WrongOption, G::Place),
) {
    // The values of structs and variables are checked at run time.
    if let Some(item) = inside(ty, "list") {
        let mut at = 0;
        given.items(&mut |value| {
            wrong_inside(name, &format!("{path}[{at}]"), item, value, found);
            at += 1;
        });
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(entry) = inside(ty, "dict") {
        given.entries(&mut |key, _, value| wrong_value(name, &below(key), entry, value, found));
    }
    let Some(shape) = shape(ty) else { return };
    given.entries(&mut |key, place, value| match options(shape).find(|(option, _)| *option == key) {
        Some((_, ty)) => wrong_value(name, &below(key), ty, value, found),
        None if shape.ends_with("...}") => {}
        None => {
            let known = options(shape).map(|(option, _)| option).filter(|option| !option.starts_with('_'));
            found(WrongOption::Unknown(unknown_option_in(name, path, key, known)), place);
        }
    });
}

/// Calls `look` for each dict of options with a separate table, at any depth in a value of type `ty`. Passes its
/// path (empty for the value itself), the name of the table, and the dict.
pub fn option_sets<G: Given>(ty: &'static str, given: &G, look: &mut dyn FnMut(&str, &'static str, &G)) {
    sets_inside("", ty, given, look);
}

fn sets_inside<G: Given>(
    path: &str,
    ty: &'static str,
    given: &G,
    look: &mut dyn FnMut(&str, &'static str, &G),
) {
    if let Some(set) = branches(ty).find(|branch| is_option_set(branch)) {
        look(path, set, given);
    }
    if let Some(item) = inside(ty, "list") {
        let mut at = 0;
        given.items(&mut |value| {
            sets_inside(&format!("{path}[{at}]"), item, value, look);
            at += 1;
        });
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let each = inside(ty, "dict");
    let shape = shape(ty);
    given.entries(&mut |key, _, value| {
        let known = || options(shape?).find(|(option, _)| *option == key).map(|(_, ty)| ty);
        if let Some(ty) = each.or_else(known) {
            sets_inside(&below(key), ty, value, look);
        }
    });
}

fn wrong_value<G: Given>(
    name: &str,
    path: &str,
    ty: &str,
    value: &G,
    found: &mut dyn FnMut(WrongOption, G::Place),
) {
    if let Some((kind, word)) = value.kind()
        // A nil option is treated as missing.
        && !kind.meets(Kinds(Kinds::of(ty).0 | Kinds::NIL.0))
    {
        return found(WrongOption::Type(wrong_type(name, path, ty, word)), value.place());
    }
    if let Some(wrong) = value.wrong_time()
        && Kinds::of(ty).is_time()
    {
        return found(WrongOption::Value(wrong.text(name, path)), value.place());
    }
    wrong_inside(name, path, ty, value, found);
}

/// ``NAME: unknown option `header`, did you mean `headers`?``
pub fn unknown_option<'a>(name: &str, key: &str, known: impl Iterator<Item = &'a str>) -> String {
    unknown_option_in(name, "", key, known)
}

/// Like [`unknown_option`], for a nested dict of the options.
fn unknown_option_in<'a>(name: &str, path: &str, key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("{name}: unknown option `{key}`{place}, did you mean `{near}`?"),
        None if known.is_empty() => format!("{name}: unknown option `{key}`{place}; it takes none"),
        None => format!("{name}: unknown option `{key}`{place}; it takes {}", known.join(", ")),
    }
}

impl Given for Literal {
    type Place = ();

    fn kind(&self) -> Option<(Kinds, &'static str)> {
        Some(match self {
            Literal::Nil => (Kinds::NIL, "nil"),
            Literal::Bool(_) => (Kinds::BOOL, "bool"),
            Literal::Int(_) => (Kinds::INT, "int"),
            Literal::Float(_) => (Kinds::FLOAT, "float"),
            Literal::Duration(_) => (Kinds::DURATION, "duration"),
            Literal::Str(_) => (Kinds::STRING, "string"),
            Literal::List(_) => (Kinds::LIST, "list"),
            Literal::Dict(_) => (Kinds::DICT, "dict"),
            Literal::Closure => (Kinds::CLOSURE, "closure"),
        })
    }

    fn place(&self) {}

    fn wrong_time(&self) -> Option<WrongTime> {
        match self {
            Literal::Int(n) | Literal::Duration(n) => WrongTime::of(*n as f64),
            Literal::Float(n) => WrongTime::of(*n),
            _ => None,
        }
    }

    fn entries(&self, look: &mut dyn FnMut(&str, (), &Self)) {
        if let Literal::Dict(entries) = self {
            entries.iter().for_each(|(key, value)| look(key, (), value));
        }
    }

    fn items(&self, look: &mut dyn FnMut(&Self)) {
        if let Literal::List(items) = self {
            items.iter().for_each(look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_kinds() {
        assert_eq!(Kinds::of("int | float"), Kinds(Kinds::INT.0 | Kinds::FLOAT.0));
        assert_eq!(Kinds::of("list<string | int>?"), Kinds(Kinds::LIST.0 | Kinds::NIL.0));
        assert_eq!(Kinds::of("function(2)"), Kinds::named("function"));
        assert_eq!(Kinds::of("{a?: int | bool}?"), Kinds(Kinds::of("dict").0 | Kinds::NIL.0));
        assert_eq!(Kinds::of("any"), Kinds::ANY);
        assert_eq!(Kinds::of("nonsense"), Kinds(0));
        assert_eq!(Wants::of("function(2)?").gives, 2);
    }

    #[test]
    fn times_are_never_negative_or_endless() {
        for (ty, is_time) in [
            ("duration | int?", true),
            ("duration | int | float", true),
            ("text", false),
            ("int | duration | pair", false),
            ("int", false),
            ("any", false),
        ] {
            assert_eq!(Wants::of(ty).time, is_time, "{ty}");
        }
        let wrong = |value| {
            let mut all = Vec::new();
            let given = Literal::Dict(vec![("wait".to_owned(), value)]);
            wrong_options("f", "{wait?: duration | int | float}", &given, &mut |wrong, ()| {
                all.push(wrong.text())
            });
            all
        };
        assert_eq!(wrong(Literal::Int(-1)), ["f: wait must not be negative"]);
        assert_eq!(wrong(Literal::Duration(-5)), ["f: wait must not be negative"]);
        assert_eq!(wrong(Literal::Float(f64::NAN)), ["f: wait must be finite"]);
        assert_eq!(wrong(Literal::Duration(5)), [""; 0]);
    }

    #[test]
    fn types_in_words() {
        assert_eq!(words("int | float"), "int or float");
        assert_eq!(words("string | list<int> | {a: int}?"), "string, list or dict");
        assert_eq!(words("function(1)"), "function");
    }

    #[test]
    fn options_have_names_and_types() {
        let ty = "{headers?: bool, delimiter?: string | {x: int, y: int}}?";
        let found: Vec<_> = options(ty).collect();
        assert_eq!(found, [("headers", "bool"), ("delimiter", "string | {x: int, y: int}")]);
        let wrong = |given: Literal| {
            let mut all = Vec::new();
            wrong_options("f", ty, &given, &mut |wrong, ()| all.push(wrong));
            all
        };
        let dict = |key: &str, value| Literal::Dict(vec![(key.to_owned(), value)]);
        assert_eq!(wrong(dict("headers", Literal::Bool(true))), []);
        assert_eq!(wrong(dict("headers", Literal::Nil)), []);
        let text = "f: headers must be bool, got int";
        assert_eq!(wrong(dict("headers", Literal::Int(1))), [WrongOption::Type(text.into())]);
        let text = "f: unknown option `header`, did you mean `headers`?";
        assert_eq!(wrong(dict("header", Literal::Bool(true))), [WrongOption::Unknown(text.into())]);
    }

    #[test]
    fn what_is_inside_of_options_has_names_and_types_too() {
        let ty = "string | {all?: dict<{n?: int}>, list?: list<{size?: int}>, free?: dict, open?: {a?: int, ...}}?";
        let wrong = |given: Literal| {
            let mut all = Vec::new();
            wrong_options("f", ty, &given, &mut |wrong, ()| all.push(wrong.text()));
            all
        };
        let dict = |key: &str, value| Literal::Dict(vec![(key.to_owned(), value)]);
        let one = || Literal::Int(1);
        assert_eq!(wrong(Literal::Str("x".into())), [""; 0]);
        assert_eq!(wrong(dict("free", dict("x", one()))), [""; 0]);
        assert_eq!(wrong(dict("open", dict("x", one()))), [""; 0]);
        assert_eq!(
            wrong(dict("all", dict("x", dict("m", one())))),
            ["f: unknown option `m` in `all.x`; it takes n"]
        );
        assert_eq!(wrong(dict("all", dict("x", one()))), ["f: all.x must be dict, got int"]);
        let items = Literal::List(vec![dict("size", one()), dict("size", Literal::Str("1".into()))]);
        assert_eq!(wrong(dict("list", items)), ["f: list[1].size must be int, got string"]);
    }
}
