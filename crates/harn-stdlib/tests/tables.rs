//! Rules for all entries of the tables.

use std::collections::HashSet;

use harn_vm::Builtin;

fn entries() -> Vec<(String, &'static Builtin)> {
    let functions =
        harn_stdlib::builtins().into_iter().flatten().map(|entry| (entry.name().to_owned(), entry));
    let methods = harn_stdlib::methods();
    let methods = methods.into_iter().flat_map(|table| {
        table.methods.iter().map(move |entry| (format!("{}.{}()", table.type_name, entry.name()), entry))
    });
    functions.chain(methods).collect()
}

#[test]
fn functions_have_unique_legal_names() {
    let mut seen = HashSet::new();
    for entry in harn_stdlib::builtins().into_iter().flatten() {
        let name = entry.name();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        assert!(!name.is_empty() && name.chars().all(legal), "{name}");
        assert!(seen.insert(name), "{name} is in the tables twice");
    }
}

#[test]
fn methods_take_their_receiver_first() {
    for (name, entry) in entries().into_iter().filter(|(name, _)| name.ends_with("()")) {
        assert_eq!(entry.params.first().map(|p| p.name), Some("this"), "{name}");
    }
}

#[test]
fn a_type_has_no_method_twice_in_its_own_tables() {
    let mut seen = HashSet::new();
    for table in harn_stdlib::methods() {
        for entry in table.methods {
            // A range has some methods of its own and inherits the others from the tables of iterators.
            let fresh = seen.insert((table.type_name, entry.name()));
            assert!(fresh || table.type_name == "range", "{}.{}", table.type_name, entry.name());
        }
    }
}

#[test]
fn summaries_are_one_sentence() {
    for (name, entry) in entries() {
        let summary = entry.summary();
        let sentence = summary.ends_with('.') || summary.ends_with("`.");
        assert!(sentence && !summary.trim_end_matches('.').contains(". "), "{name}: {summary}");
        assert!(summary.starts_with(|c: char| c.is_uppercase()), "{name}: {summary}");
        assert!(summary.len() <= 120, "{name}: {summary}");
    }
}

#[test]
fn every_entry_has_an_example_with_a_result() {
    for (name, entry) in entries() {
        let text = entry.doc_text();
        assert!(text.contains("```harn\n") && text.contains("// -> "), "{name}");
    }
}

#[test]
fn parameters_and_results_have_types() {
    for (name, entry) in entries() {
        assert!(!entry.returns.is_empty(), "{name}");
        for param in entry.params {
            assert!(!param.ty.is_empty() && !param.ty.contains("::"), "{name}: {}", param.name);
        }
    }
}
