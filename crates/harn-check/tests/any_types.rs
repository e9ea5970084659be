//! `any` in the table of builtins takes a reason: a line in `any.txt`. A new builtin says of what types its parameters and
//! results are, or why nothing can be said.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Parameters and results that are `any`, by their names in `any.txt`: the general one, and the one of the builtin.
fn found() -> Vec<(String, String)> {
    let vm = harn_runtime::vm_builder(Rc::new(harn_system::Memory::new())).build();
    let methods: Vec<_> = vm.method_tables().iter().flat_map(|table| table.methods).collect();
    let mut found = Vec::new();
    for builtin in vm.builtins().chain(methods) {
        let name = builtin.full_name;
        let is_any = |ty: &str| ty.trim_end_matches('?') == "any";
        // The receiver of a method is of the type that the method belongs to.
        for param in builtin.params.iter().filter(|param| is_any(param.ty) && param.name != "this") {
            found.push((param.name.to_owned(), format!("{name}({})", param.name)));
        }
        if is_any(builtin.returns) {
            found.push((format!("{name} ->"), format!("{name} ->")));
        }
    }
    found
}

/// The names that have a reason.
fn reasons() -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    let lines = include_str!("any.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (names, reason) = line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}"));
        let (names, end) = match names.strip_suffix(" ->") {
            Some(names) => (names, " ->"),
            None => (names, ""),
        };
        for name in names.split(", ") {
            let twice = reasons.insert(format!("{name}{end}"), reason.to_owned());
            assert!(twice.is_none(), "`{name}` has two reasons");
        }
    }
    reasons
}

#[test]
fn any_has_a_reason() {
    let reasons = reasons();
    assert!(reasons.values().all(|reason| reason.len() > 10));
    let mut used = BTreeSet::new();
    let mut without = Vec::new();
    for (general, own) in found() {
        let reason = [&own, &general].into_iter().find(|name| reasons.contains_key(*name)).cloned();
        match reason {
            Some(name) => drop(used.insert(name)),
            None => without.push(own),
        }
    }
    assert!(without.is_empty(), "`any` without a reason in any.txt: {without:#?}");
    let unused: Vec<&String> = reasons.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "reasons in any.txt for what is no `any`: {unused:#?}");
}
