//! Every documentation example runs and prints the output in its comments.

use harn_vm::Builtin;

/// Returns the fenced code in the documentation of an entry.
fn example(entry: &Builtin) -> Option<String> {
    let text = entry.doc_text();
    let (_, after) = text.split_once("```harn\n")?;
    let (code, _) = after.split_once("```")?;
    Some(code.to_owned())
}

/// Returns the expected output, after `// -> ` on the lines of an example.
fn promised(code: &str) -> Vec<&str> {
    code.lines().filter_map(|line| Some(line.split_once("// -> ")?.1.trim_end())).collect()
}

fn check(owner: &str, entry: &Builtin, failures: &mut Vec<String>) {
    let name = format!("{owner}{}", entry.name());
    let Some(code) = example(entry) else {
        failures.push(format!("{name}: no example"));
        return;
    };
    let run = crate::common::run("example.harn", &code, std::path::Path::new("/"));
    let output: Vec<&str> = run.output.lines().map(str::trim_end).collect();
    if let Some(error) = run.error {
        failures.push(format!("{name}: {error}\n{code}"));
    } else if output != promised(&code) {
        failures.push(format!("{name}: promised {:?}, printed {output:?}\n{code}", promised(&code)));
    }
}

#[test]
fn every_example_prints_what_it_promises() {
    let mut failures = Vec::new();
    for table in harn_stdlib::builtins() {
        table.iter().for_each(|entry| check("", entry, &mut failures));
    }
    let mut seen = Vec::new();
    for table in harn_stdlib::methods() {
        // Tables of several types are documented once.
        if !seen.contains(&table.methods.as_ptr()) {
            seen.push(table.methods.as_ptr());
            let owner = format!("{}.", table.type_name);
            table.methods.iter().for_each(|entry| check(&owner, entry, &mut failures));
        }
    }
    assert!(failures.is_empty(), "{} examples fail:\n\n{}", failures.len(), failures.join("\n"));
}
