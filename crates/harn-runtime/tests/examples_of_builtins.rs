//! Every example in the documentation of this crate's builtins runs and prints the documented output.
use harn_vm::Builtin;

fn example(entry: &Builtin) -> Option<String> {
    let text = entry.doc_text();
    let (_, after) = text.split_once("```harn\n")?;
    let (code, _) = after.split_once("```")?;
    Some(code.to_owned())
}

fn promised(code: &str) -> Vec<&str> {
    code.lines().filter_map(|line| Some(line.split_once("// -> ")?.1.trim_end())).collect()
}

#[test]
fn every_example_prints_what_it_promises() {
    let known: Vec<&str> = harn_stdlib::builtins().into_iter().flatten().map(Builtin::name).collect();
    let own = harn_runtime::tables().into_iter().flatten().filter(|b| !known.contains(&b.name()));
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in own.filter(|b| !b.name().starts_with("__")) {
        count += 1;
        let Some(code) = example(entry) else {
            failures.push(format!("{}: no example", entry.name()));
            continue;
        };
        let run = crate::common::run(&code);
        let printed: Vec<&str> = run.output.lines().map(str::trim_end).collect();
        if let Some(error) = run.error {
            failures.push(format!("{}: {error}\n{code}", entry.name()));
        } else if printed != promised(&code) {
            failures.push(format!(
                "{}: promised {:?}, printed {printed:?}\n{code}",
                entry.name(),
                promised(&code)
            ));
        }
    }
    assert!(count > 100, "only {count} builtins");
    assert!(failures.is_empty(), "{} of {count} fail:\n\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn names_are_defined_once() {
    let mut seen = std::collections::BTreeSet::new();
    let twice: Vec<&str> = harn_runtime::tables()
        .into_iter()
        .flatten()
        .map(Builtin::name)
        .filter(|name| !seen.insert(*name))
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
}
