//! Differential testing of the virtual machine against a second interpreter: random programs must have the same
//! output in both.
//!
//! `generate.rs` generates programs with all statements, closures, generators, tasks, structs and enums, and many
//! blocks inside expressions. `eval.rs` walks the tree according to the specification (`operators.rs` and
//! `calls.rs` contain everything that needs no walk, `machine.rs` the state); it does not share code with the
//! virtual machine. Programs that use unsupported features or run too long are not compared, so inputs may also be
//! mutated.

mod calls;
mod eval;
mod generate;
mod machine;
mod operators;
mod value;

use crate::rng::Rng;

/// Generates a program for this target.
pub(crate) fn generate(rng: &mut Rng) -> Vec<u8> {
    generate::program(rng).into_bytes()
}

/// Runs a program in both interpreters.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(difference) = difference(&String::from_utf8_lossy(bytes)) {
        panic!("{difference}");
    }
}

/// Returns the difference between the two interpreters.
fn difference(text: &str) -> Option<String> {
    let expected = expected(text)?;
    let found = crate::machine::run(text)?;
    // The VM also prints the value of the script, which is always nil here.
    let found = found.strip_suffix("\nnil").unwrap_or(&found).trim_end().to_owned();
    let expected = expected.trim_end();
    (found != expected)
        .then(|| format!("the reference disagrees:\n{text}\n--- expected\n{expected}\n--- found\n{found}"))
}

/// Returns the output of a program according to the reference; `None` if it uses unsupported features.
fn expected(text: &str) -> Option<String> {
    // Both the tree and the walk over it may be deep. The tree is created on the thread that drops it: memory is
    // counted per thread, and otherwise the count of the main thread would grow with every program.
    let walk = || {
        let parsed = harn_syntax::parse(text);
        if parsed.errors.is_empty() { eval::run(&parsed.program) } else { None }
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(scope, walk).ok()?.join().ok()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_knows_most_of_what_is_generated() {
        let known = (0..200).filter(|i| {
            let text = generate::program(&mut Rng::new(11, *i));
            let parsed = harn_syntax::parse(&text);
            assert!(parsed.errors.is_empty(), "{}\n{text}", parsed.errors[0].canonical(&text));
            expected(&text).is_some()
        });
        let count = known.count();
        assert!(count > 150, "{count} of 200");
    }

    #[test]
    fn the_reference_reads_the_specification() {
        let text = "fn g() { try { yield 1\nyield 2 } finally { println(\"cleanup\") } }\n\
                    for x in g() { println(x)\nbreak }\n\
                    var x = 1\nx += (if true { x = 10\n5 } else { 0 })\nprintln(x)\n\
                    println(try { [1, 2].map({ v -> v / 0 }) })";
        let expected = "1\ncleanup\n6\nResult.Err(Division by zero)\n";
        assert_eq!(super::expected(text).as_deref(), Some(expected));
        assert_eq!(difference(text), None);
    }

    /// Programs found by this target or written for it, some of them in reviews.
    #[test]
    fn kept_programs_hold() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let kept = std::fs::read_dir(root.join("corpus/reference")).expect("the kept programs");
        let kept: Vec<String> = kept
            .map(|entry| std::fs::read_to_string(entry.expect("a file").path()).expect("a text"))
            .collect();
        assert!(!kept.is_empty());
        for text in &kept {
            assert!(expected(text).is_some(), "the reference does not know all of\n{text}");
            assert_eq!(difference(text), None);
        }
    }

    /// The reference agrees with the conformance programs that it supports.
    #[test]
    fn conformance_programs_hold() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let programs = crate::corpus::read(&root, "reference", ".harn");
        let found: Vec<String> =
            programs.iter().filter_map(|text| difference(&String::from_utf8_lossy(text))).collect();
        assert!(found.is_empty(), "{} programs differ:\n\n{}", found.len(), found.join("\n=====\n"));
    }

    /// A value with shared parts is small in memory but has an exponentially long printed form.
    #[test]
    fn shared_data_is_given_up() {
        for end in ["println(d)", "println(d == [d, d])", "println(d in [d])", "println(await(spawn { d }))"]
        {
            let text = format!("var d = [\"x\"]\nfor i in 0 to 70 {{ d = [d, d] }}\n{end}");
            assert_eq!(expected(&text), None, "{end}");
        }
    }

    #[test]
    fn random_programs_hold() {
        for index in 0..300 {
            let text = generate::program(&mut Rng::new(5, index));
            if let Some(difference) = difference(&text) {
                panic!("{difference}");
            }
        }
    }
}
