//! Every builtin and method refuses calls that cannot be right: too many arguments, too few, a value of a wrong type in
//! each place, options that it does not have. The calls are made from the table of builtins, so that a new builtin is
//! covered by itself; more, written by hand, are in `wrong_calls.txt`.
//!
//! Each call is an error when it runs, and the checker finds it before, in the same words.

use std::path::Path;
use std::rc::Rc;

use harn_check::{Signatures, Source, World, check_program, is_certain};
use harn_syntax::signature::{self, GivenOption, Kinds, OptionProblem, Parameter, Signature};
use harn_vm::{Builtin, Vm};

/// The table of a machine, as the command line passes it on.
pub(crate) struct Table(pub(crate) Rc<Vm>);

impl Signatures for Table {
    fn is_builtin(&self, name: &str) -> bool {
        self.0.builtin(name).is_some() || self.0.global(name).is_some()
    }

    fn builtin_names(&self) -> Vec<&str> {
        self.0.builtin_names().collect()
    }

    fn builtin(&self, name: &str) -> Option<Signature> {
        self.0.builtin(name).map(Builtin::check_signature)
    }

    fn wrong_options(
        &self,
        builtin: &str,
        parameter: &str,
        set: &str,
        given: &[GivenOption],
        complete: bool,
    ) -> Vec<OptionProblem> {
        harn_runtime::wrong_options(builtin, parameter, set, given, complete)
    }

    fn method(&self, type_name: &'static str, name: &str) -> Option<Signature> {
        self.0.method(type_name, name).map(Builtin::check_signature)
    }

    fn wrong_pattern(&self, pattern: &str, flags: &str) -> Option<String> {
        harn_runtime::wrong_pattern(pattern, flags)
    }

    fn method_names(&self, type_name: &'static str) -> Vec<&str> {
        self.0.method_names(type_name)
    }
}

pub(crate) fn machine() -> Rc<Vm> {
    harn_runtime::vm_builder(Rc::new(harn_system::Memory::new())).build()
}

/// A call and what is known of it.
struct Call {
    /// Its source.
    source: String,
    /// What the message has to name.
    names: Vec<String>,
    /// The whole message, where it comes from the table.
    text: Option<String>,
    /// Whether the checker can see it: the receiver and the wrong argument are literals.
    literal: bool,
}

/// Literals, and for kinds without one the shortest source.
const VALUES: [(&str, Kinds, bool); 16] = [
    ("\"x\"", Kinds::STRING, true),
    ("1", Kinds::INT, true),
    ("[]", Kinds::LIST, true),
    ("{}", Kinds::DICT, true),
    ("{ -> 1 }", Kinds::CLOSURE, true),
    ("5s", Kinds::DURATION, true),
    ("1.5", Kinds::FLOAT, true),
    ("true", Kinds::BOOL, true),
    ("(1 to 2)", Kinds::RANGE, true),
    ("nil", Kinds::NIL, true),
    ("bytes_from_hex(\"00\")", Kinds::BYTES, false),
    ("set()", Kinds::SET, false),
    ("rng_seed(1)", Kinds::RNG, false),
    ("channel()", Kinds::CHANNEL, false),
    ("atomic(1)", Kinds::ATOMIC, false),
    ("iter([])", Kinds::ITER, false),
];

/// A value that fits.
fn fitting(parameter: &Parameter) -> &'static str {
    let kinds = Kinds::of(parameter.ty);
    VALUES.iter().find(|(_, kind, _)| kinds.meets(*kind)).map_or("1", |(source, ..)| source)
}

/// A literal that does not fit, and the word for its kind.
fn unfitting(parameter: &Parameter) -> Option<(&'static str, &'static str)> {
    const WORDS: [(&str, &str, Kinds); 7] = [
        ("{ -> 1 }", "closure", Kinds::CLOSURE),
        ("[]", "list", Kinds::LIST),
        ("{}", "dict", Kinds::DICT),
        ("1", "int", Kinds::INT),
        ("\"x\"", "string", Kinds::STRING),
        ("5s", "duration", Kinds::DURATION),
        ("nil", "nil", Kinds::NIL),
    ];
    let kinds = Kinds::of(parameter.ty);
    let found = WORDS.iter().find(|(_, _, kind)| !kinds.meets(*kind));
    found.map(|(source, word, _)| (*source, *word))
}

/// All wrong calls of one builtin. `head` is what stands before the bracket.
fn wrong_calls(entry: &'static Builtin, head: &str, literal: bool, calls: &mut Vec<Call>) {
    let known = entry.check_signature();
    let name = known.name.to_owned();
    // A receiver is the first parameter of the entry.
    let own: Vec<bool> =
        entry.params.iter().skip(usize::from(entry.is_method())).map(|p| p.own_missing).collect();
    let fit: Vec<&str> = known.parameters.iter().filter(|p| !p.rest).map(fitting).collect();
    let mut add = |args: &[&str], names: Vec<String>, text: Option<String>| {
        calls.push(Call { source: format!("{head}({})", args.join(", ")), names, text, literal });
    };
    if !known.parameters.iter().any(|p| p.rest) {
        let mut args = fit.clone();
        args.push("1");
        let text = signature::too_many(known.name, fit.len(), args.len());
        add(&args, vec![name.clone()], Some(text));
    }
    if let Some(text) = known.wrong_count(0) {
        // Where the builtin has words of its own for an argument that is missing, those are said.
        let says_itself = own.iter().any(|own| *own);
        let names = if says_itself { Vec::new() } else { vec![name.clone()] };
        add(&[], names, (!says_itself).then_some(text));
    }
    for (at, parameter) in known.parameters.iter().enumerate() {
        let Some((wrong, word)) = unfitting(parameter) else { continue };
        if at > 0 && own[..at].iter().any(|own| *own) && own[at] {
            continue;
        }
        let mut args: Vec<&str> = fit.iter().copied().take(at).collect();
        args.push(wrong);
        args.extend(fit.iter().copied().skip(at + 1));
        let text = signature::wrong_type(known.name, parameter.name, parameter.ty, word);
        if own[at] {
            add(&args, Vec::new(), None);
        } else {
            add(&args, vec![name.clone(), parameter.name.to_owned()], Some(text));
        }
        let shape = signature::shape(parameter.ty).unwrap_or_default();
        let options: Vec<(&str, &str)> = signature::options(shape).collect();
        for (given, option) in with_wrong_options(parameter.ty) {
            let given = given.replacen('{', &format!("{{{}", beside(known.name, &given)), 1);
            // Loops and calls have words of their own for what is theirs.
            let names = if known.name == "agent_loop" { vec![option] } else { vec![name.clone(), option] };
            let args: Vec<&str> =
                fit.iter().enumerate().map(|(n, fit)| if n == at { &*given } else { *fit }).collect();
            add(&args, names, None);
        }
        let mut with = |given: String, names: Vec<String>| {
            let mut args: Vec<&str> = fit.iter().copied().take(at).collect();
            args.push(&given);
            add(&args, names, None);
        };
        for given in with_unknown_options(parameter.ty) {
            with(given, vec![name.clone(), "no_such_option".to_owned()]);
        }
        for (option, ty) in options {
            let kind = Parameter { name: option, ty: "any", optional: true, rest: false };
            if let Some((wrong, _)) = unfitting(&Parameter { ty: leak(ty), ..kind }) {
                with(format!("{{{option}: {wrong}}}"), vec![name.clone(), option.to_owned()]);
            }
        }
    }
}

/// Values with an option of a loop that is wrong, at the top and wherever options of a loop stand inside, and the option.
fn with_wrong_options(ty: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let word = ty.trim_end_matches('?');
    let is_set = |set: &str| word.split('|').any(|branch| branch.trim() == set);
    if is_set(signature::LOOP_OPTIONS) || is_set(signature::STAGE_OPTIONS) {
        let strict = harn_runtime::loop_options().iter().filter(|option| option.has_shape());
        let of_calls = ["tool_format", "session_id", "timeout", "model_tier"];
        let names = strict.map(|option| option.name).chain(of_calls);
        all.extend(names.map(|name| (format!("{{{name}: {{no_such_field: 1}}}}"), name.to_owned())));
    }
    if is_set(signature::WORKFLOW_OPTIONS) {
        let names =
            ["max_iterations", "max_nudges", "tool_format", "turn_policy", "stop_after_successful_tools"];
        all.extend(names.map(|name| (format!("{{{name}: {{no_such_field: 1}}}}"), name.to_owned())));
    }
    let mut wrap = |ty: &str, around: &dyn Fn(String) -> String| {
        all.extend(with_wrong_options(ty).into_iter().map(|(inner, name)| (around(inner), name)));
    };
    for (option, ty) in signature::options(signature::shape(ty).unwrap_or_default()) {
        wrap(ty, &|inner| format!("{{{option}: {inner}}}"));
    }
    if let Some(entry) = word.strip_prefix("dict<").and_then(|word| word.strip_suffix('>')) {
        wrap(entry, &|inner| format!("{{key: {inner}}}"));
    }
    all
}

/// What a builtin needs to have besides, to look at its options.
fn beside(builtin: &str, given: &str) -> &'static str {
    match builtin {
        "daemon_spawn" => "task: \"x\", persist_path: \"d\", ",
        "spawn_agent" if given.starts_with("{options") => "task: \"x\", graph: {act: {}}, ",
        "spawn_agent" => "task: \"x\", ",
        _ => "",
    }
}

/// Values that have an option too many, at the top and in each dict inside whose options are known.
fn with_unknown_options(ty: &str) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(shape) = signature::shape(ty) {
        if !shape.ends_with("...}") {
            all.push("{no_such_option: 1}".to_owned());
        }
        for (option, ty) in signature::options(shape) {
            all.extend(with_unknown_options(ty).into_iter().map(|inner| format!("{{{option}: {inner}}}")));
        }
    }
    let word = ty.trim_end_matches('?');
    if let Some(item) = word.strip_prefix("list<").and_then(|word| word.strip_suffix('>')) {
        all.extend(with_unknown_options(item).into_iter().map(|inner| format!("[{inner}]")));
    }
    if let Some(entry) = word.strip_prefix("dict<").and_then(|word| word.strip_suffix('>')) {
        all.extend(with_unknown_options(entry).into_iter().map(|inner| format!("{{key: {inner}}}")));
    }
    all
}

/// Parameters that take a dict with names of the program's own, or one that another builtin has made: there is no name that
/// they could refuse.
const ANY_NAMES: &[(&str, &str)] = &[
    ("dict", "data"),
    ("data", "facts of the program's own"),
    ("other", "data"),
    ("value", "data"),
    ("items", "data"),
    ("rows", "data"),
    ("container", "data"),
    ("fields", "what a line of the log is to hold"),
    ("field", "a field of a form, as multipart_parse gave it"),
    ("cell", "a handle, as shared_cell gave it"),
    ("map", "a handle, as shared_map gave it"),
    ("handle", "a handle, as shared_cell, shared_map or mailbox_open gave it"),
    ("initial", "entries of a shared map"),
    ("headers", "headers of an event"),
    ("bindings", "names of a template"),
    ("args", "arguments of a tool, a prompt or a skill"),
    ("arguments", "arguments of a tool of the host"),
    ("metadata", "the program's own"),
    ("params", "each operation of the host has its own; those that are built in are calls written by hand"),
    ("context", "what a command policy gives its functions, and what they add"),
    ("message", "a message keeps what providers add"),
    ("messages", "messages keep what providers add"),
    ("asset", "an asset keeps what describes it"),
    ("transcript", "made by the runtime"),
    ("to", "made by the runtime"),
    ("daemon", "made by the runtime"),
    ("worker", "made by the runtime"),
    ("id_or_path", "made by the runtime"),
    ("waitpoint", "made by the runtime"),
    ("agent", "made by `agent`, which has looked at it"),
    ("parent", "made by `artifact`, which has looked at it"),
    ("diff", "made by `artifact`, which has looked at it"),
    ("review", "made by `artifact`, which has looked at it"),
    ("target", "made by `artifact`, which has looked at it"),
    ("handoff", "made by `handoff`, which has looked at it"),
    ("plan", "made by `plan_artifact`, which has looked at it, or by a model"),
    ("record", "made by `request_approval`"),
    ("registry", "made by `tool_registry`"),
    ("tools", "made by `tool_registry`"),
    ("surface", "a registry, or what stands for one; told when it runs"),
    ("skills", "made by `skill_registry`"),
    ("skill", "a skill has fields of its own"),
    ("run", "the record of a run, of whatever version"),
    ("left", "the record of a run, of whatever version"),
    ("right", "the record of a run, of whatever version"),
    ("fixture", "made by `run_record_fixture`"),
    ("schema", "a schema is looked at as one"),
    ("components", "schemas by name"),
    ("spec", "a spec that `define_runtime` has made"),
    ("resource", "data"),
    ("session", "what a program keeps of a session; whatever else is in it has no effect on prompts"),
    ("topic", "made by `event_log.topic`"),
    ("claims", "names of the program's own"),
    ("secret_or_keys", "secrets by the names of keys"),
    ("request", "headers by name"),
    ("set_cookie", "headers by name"),
];

/// Dicts that a builtin reads in a way of its own. Each has calls in `wrong_calls.txt`, one of them with `no_such_option`.
const OWN_READERS: &[&str] = &[
    "agent_session_clear_reminders",
    "agent_session_compact",
    "agent_session_remind",
    "create_runtime",
    "define_runtime",
    "define_tenant",
    "handoff",
    "layered_prompt",
    "project_context_profile",
    "register_reminder_provider",
    "tool_surface_validate",
    "tool_synthesize",
    "transcripts.clear_reminders",
    "transcripts.inject_reminder",
];

#[test]
fn the_names_in_every_dict_are_looked_at() {
    let vm = machine();
    let by_hand = include_str!("wrong_calls.txt");
    let mut silent = Vec::new();
    let functions = vm.builtin_names().filter_map(|name| vm.builtin(name));
    let kinds = [
        "string",
        "list",
        "dict",
        "set",
        "iter",
        "range",
        "builtin",
        "channel",
        "stream",
        "generator",
        "closure",
    ];
    let methods = kinds
        .iter()
        .flat_map(|kind| vm.method_names(kind).into_iter().filter_map(|name| vm.method(kind, name)));
    for entry in functions.chain(methods).filter(|entry| !entry.name().starts_with("__")) {
        for parameter in entry.check_signature().parameters {
            let kinds = Kinds::of(parameter.ty);
            let options = ["options", "config", "opts", "settings", "deps"].contains(&parameter.name);
            let takes_dict = kinds.meets(Kinds::DICT)
                && (kinds.0 & !Kinds::NIL.0 != Kinds::ANY.0 & !Kinds::NIL.0 || options);
            let known = signature::shape(parameter.ty).is_some()
                || signature::is_option_set(parameter.ty)
                || ANY_NAMES.iter().any(|(name, _)| *name == parameter.name)
                || OWN_READERS.contains(&entry.full_name);
            if takes_dict && !known {
                silent.push(format!("{}.{}: {}", entry.full_name, parameter.name, parameter.ty));
            }
        }
    }
    for reader in OWN_READERS {
        let name = reader.rsplit('.').next().unwrap_or(reader);
        let told =
            by_hand.lines().any(|line| line.contains(&format!("{name}(")) && line.contains("no_such_option"));
        if !told {
            silent.push(format!("{reader} has no call in wrong_calls.txt"));
        }
    }
    silent.sort_unstable();
    assert_eq!(silent, [""; 0], "say which names the dict may have, in the type of the parameter");
}

/// Names of times that are none of those a duration may stand for, and why.
const NO_TIMES: &[(&str, &str)] = &[
    ("backoff_factor", "a factor"),
    ("backoff_multiplier", "a factor"),
    ("estimated_time_ms", "what a record says, as JSON keeps it"),
];

/// Whether a parameter or option is a limit, a wait or an interval by its name.
fn is_time(name: &str) -> bool {
    name.ends_with("_ms")
        || name.split('_').any(|word| {
            ["timeout", "interval", "deadline", "delay", "backoff", "ttl", "pause", "lifetime"]
                .contains(&word)
        })
}

/// The names and types of everything that a type lets one write down, with the path to it.
fn inside(path: &str, ty: &'static str, found: &mut Vec<(String, &'static str)>) {
    let Some(shape) = signature::shape(ty) else { return };
    for (name, ty) in signature::options(shape) {
        let path = format!("{path}.{name}");
        inside(&path, ty, found);
        found.push((path, ty));
    }
}

#[test]
fn times_take_durations() {
    let vm = machine();
    let mut found = Vec::new();
    for entry in vm.builtin_names().filter_map(|name| vm.builtin(name)) {
        for parameter in entry.check_signature().parameters {
            let path = format!("{}.{}", entry.full_name, parameter.name);
            inside(&path, parameter.ty, &mut found);
            found.push((path, parameter.ty));
        }
    }
    let refused: Vec<String> = found
        .into_iter()
        .filter(|(path, _)| path.rsplit('.').next().is_some_and(is_time))
        .filter(|(path, ty)| {
            !Kinds::of(ty.trim_start_matches('!')).meets(Kinds::DURATION)
                && !NO_TIMES.iter().any(|(known, _)| path.rsplit('.').next() == Some(*known))
        })
        .map(|(path, ty)| format!("{path}: {ty}"))
        .collect();
    assert_eq!(refused, [""; 0], "a time takes a duration, too: say so in the type, and read it");
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The wrong calls of the whole table.
fn from_the_table(vm: &Vm) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut names: Vec<&str> = vm.builtin_names().filter(|name| !name.starts_with("__")).collect();
    names.sort_unstable();
    for name in names {
        let entry = vm.builtin(name).expect("a name from the table");
        wrong_calls(entry, name, true, &mut calls);
    }
    let receivers = [
        ("string", "\"ab\"", true),
        ("list", "[1]", true),
        ("dict", "({a: 1})", true),
        ("range", "(1 to 3)", true),
    ];
    let others = [("set", "set(1)", false), ("iter", "iter([1])", false)];
    for (kind, receiver, literal) in receivers.into_iter().chain(others) {
        let mut names = vm.method_names(kind);
        names.sort_unstable();
        names.dedup();
        for name in names {
            let entry = vm.method(kind, name).expect("a name from the table");
            if entry.name() != "to_string" {
                wrong_calls(entry, &format!("{receiver}.{name}"), literal, &mut calls);
            }
        }
    }
    calls
}

/// The calls that are written by hand: the call, an arrow, a part of the message.
fn by_hand() -> Vec<Call> {
    let lines = include_str!("wrong_calls.txt").lines().filter(|line| line.contains(" => "));
    let call = |line: &str| {
        let (source, part) = line.split_once(" => ").expect("an arrow");
        let literal = !source.starts_with('~');
        let source = source.trim_start_matches("~ ").to_owned();
        Call { source, names: vec![part.trim().to_owned()], text: None, literal }
    };
    lines.map(call).collect()
}

/// What each call gives when it runs: the error's text, or nothing for a value.
fn run(calls: &[Call]) -> Vec<Option<String>> {
    let mut program = String::from("let results = [\n");
    for call in calls {
        program.push_str(&format!("  {{ -> {} }},\n", call.source));
    }
    program.push_str("]\nfor call in results {\n  let end = try { call() }\n");
    program.push_str("  println(is_err(end) ? \"!\" + replace(to_string(unwrap_err(end)), \"\\n\", \" \") : \"value\")\n}\n");
    let system = Rc::new(harn_system::Memory::new());
    let vm = harn_runtime::vm_builder(system.clone()).build();
    let source = harn_vm::Source { name: "calls.harn".into(), text: program, dir: "/".into() };
    let program =
        harn_vm::load(&vm, &source).unwrap_or_else(|error| panic!("{}", error.canonical(&source.text)));
    let outcome = harn_vm::block_on(program.run(&vm, None, &[]));
    let text = system.output();
    let found: Vec<Option<String>> =
        text.lines().map(|line| line.strip_prefix('!').map(str::to_owned)).collect();
    assert_eq!(found.len(), calls.len(), "the program ended early: {:?}", outcome.err());
    found
}

/// What the checker says of one call.
fn found_by_the_checker(call: &Call, world: &World<'_>) -> Vec<String> {
    let parsed = harn_syntax::parse(&call.source);
    assert!(parsed.errors.is_empty(), "{}: {:?}", call.source, parsed.errors);
    let source = Source { name: "call.harn", dir: Path::new(""), text: &call.source, tree: &parsed.program };
    let found = check_program(&source, world);
    found.into_iter().filter(|d| is_certain(d.code)).map(|d| d.message).collect()
}

fn all_are_refused(calls: &[Call]) {
    let table = Table(machine());
    let system = harn_system::Memory::new();
    let files = harn_front::Through(&system);
    let world = World { signatures: &table, files, std_module: |_| None, prompt_asset: |_| None };
    let mut failures = Vec::new();
    for (call, result) in calls.iter().zip(run(calls)) {
        let source = &call.source;
        let Some(text) = result else {
            failures.push(format!("{source} gives a value"));
            continue;
        };
        if let Some(missing) = call.names.iter().find(|name| !text.contains(name.as_str())) {
            failures.push(format!("{source} does not name {missing}: {text}"));
        }
        if let Some(expected) = &call.text
            && !text.ends_with(expected.as_str())
        {
            failures.push(format!("{source} says: {text}\n    instead of: {expected}"));
        }
        if call.literal {
            let said = found_by_the_checker(call, &world);
            if said.is_empty() {
                failures.push(format!("{source} is not found by the checker"));
            } else if call.text.as_ref().is_some_and(|text| !said.contains(text)) {
                failures.push(format!("{source}: the checker says {said:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), calls.len(), failures.join("\n"));
}

#[test]
fn every_builtin_and_method_refuses_wrong_calls() {
    let calls = from_the_table(&machine());
    assert!(calls.len() > 1000, "only {} calls", calls.len());
    all_are_refused(&calls);
}

#[test]
fn calls_written_by_hand_are_refused() {
    all_are_refused(&by_hand());
}
