//! The assumptions of the Python half of the package about the Rust crates. Each of these tests fails if one side
//! changes.

use std::collections::BTreeSet;
use std::rc::Rc;

use harn_system::Memory;

use super::{failure, loaded};
use crate::data::Data;
use crate::pending::KINDS;

const ERRORS: &str = include_str!("../../harn/_errors.py");
const RUNTIME: &str = include_str!("../../harn/_runtime.py");
const SPECS: &str = include_str!("../../harn/_specs.py");
const INIT: &str = include_str!("../../harn/__init__.py");
const VALUES: &str = include_str!("../../harn/_values.py");

/// Returns the quoted strings directly after `before`.
fn quoted_after<'t>(text: &'t str, before: &str) -> BTreeSet<&'t str> {
    let quoted = |rest: &'t str| rest.trim_start().strip_prefix('"')?.split('"').next();
    text.split(before).skip(1).filter_map(quoted).collect()
}

/// Returns the part of `text` from `from` to the next `to`.
fn section<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let start = text.find(from).unwrap_or_else(|| panic!("`{from}` is missing"));
    text[start..].split_once(to).unwrap_or_else(|| panic!("`{to}` is missing after `{from}`")).0
}

/// Returns the keyword arguments of a Python function.
fn keywords<'t>(text: &'t str, function: &str) -> BTreeSet<&'t str> {
    let signature = section(text, &format!("\ndef {function}("), "\n) -> ");
    let names = signature.lines().filter_map(|line| line.trim().split_once([':', '=']));
    names.map(|(name, _)| name.trim()).collect()
}

#[test]
fn every_kind_of_failure_has_an_exception() {
    let table = section(ERRORS, "_KINDS = {", "\n}");
    let known: Vec<&str> =
        table.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
    assert_eq!(known, KINDS);
}

#[test]
fn every_failure_has_a_known_kind() {
    let sources = [
        include_str!("../machine.rs"),
        include_str!("../pending.rs"),
        include_str!("../python/convert.rs"),
        include_str!("../python/classes.rs"),
    ];
    for source in sources {
        let used =
            quoted_after(source, "Failure::plain(").into_iter().chain(quoted_after(source, "error(py, "));
        for kind in used {
            assert!(KINDS.contains(&kind), "'{kind}' is not in KINDS");
        }
    }
}

#[test]
fn the_builtins_of_the_python_half_exist() {
    let vm = harn_runtime::vm_builder(Rc::new(Memory::new())).build();
    let mut names = quoted_after(SPECS, "call_builtin(");
    names.extend(quoted_after(SPECS, "_define_agent("));
    names.extend(quoted_after(RUNTIME, "native.builtin("));
    assert!(names.len() >= 20, "{names:?}");
    for name in names {
        assert!(vm.builtin(name).is_some(), "unknown builtin '{name}'");
    }
}

#[test]
fn the_factories_of_the_python_half_exist() {
    let sources = [include_str!("../python/convert.rs"), include_str!("../python/classes.rs")];
    let used: BTreeSet<&str> =
        sources.into_iter().flat_map(|source| quoted_after(source, "factory(py, ")).collect();
    let table = section(INIT, "set_factories(", "\n    }");
    let known = table.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
    assert_eq!(used, known);
}

#[test]
fn adapted_kinds_are_known() {
    let known = section(include_str!("../python/convert.rs"), "match kind.as_str()", "_ =>");
    let known: BTreeSet<&str> =
        known.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
    assert_eq!(quoted_after(VALUES, "Adapted("), known);
}

#[test]
fn create_runtime_takes_the_keys_of_harn() {
    let program = loaded("fn f() { create_runtime(\"{}\", {colour: 1}) }");
    let message = failure(&program.call("f".into(), Vec::new())).message;
    let (_, known) = message.split_once("unknown key 'colour'; there are ").expect("a list of keys");
    let mut expected: BTreeSet<&str> = known.split(", ").collect();
    // The spec, and the keys that replace the environment of a program in Harn.
    expected.extend(["spec", "mocks", "env"]);
    assert_eq!(keywords(RUNTIME, "create_runtime"), expected);
    let coroutine = RUNTIME.replace("async def acreate_runtime(", "def acreate_runtime(");
    assert_eq!(keywords(&coroutine, "acreate_runtime"), expected);
}

#[test]
fn constructors_take_the_keys_of_harn() {
    let machine = loaded("");
    for function in [
        "layered_prompt",
        "define_tool",
        "define_coordinator",
        "define_planner",
        "define_executor",
        "define_specialist",
        "define_reference",
        "define_runtime",
    ] {
        let names = keywords(SPECS, function);
        assert!(!names.is_empty(), "{function}");
        for name in names {
            let dict = Data::Dict(vec![(name.to_owned(), Data::Nil)]);
            let pending = machine.builtin(function.to_owned(), vec![dict]);
            let message = super::result(&pending).err().map(|failure| failure.message).unwrap_or_default();
            assert!(!message.contains("unknown key"), "{message}");
        }
        let unknown = Data::Dict(vec![("colour".to_owned(), Data::Nil), ("name".to_owned(), Data::Nil)]);
        let message = failure(&machine.builtin(function.to_owned(), vec![unknown])).message;
        assert!(message.contains("colour") || message.contains("name"), "{function}: {message}");
    }
}
