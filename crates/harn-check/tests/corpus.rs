//! No false errors: every program of the conformance suite that is expected to run, and every example, passes.

use std::path::{Path, PathBuf};

use harn_check::{Signatures, Source, World, check_program, is_certain, is_slip};
use harn_syntax::Severity;
use harn_syntax::signature::{GivenOption, OptionProblem, Record, Signature};
use harn_vm::{Builtin, Vm};

/// Builtins that the conformance suite calls and no crate has yet.
const PLANNED: [&str; 2] = ["mcp_connect", "mcp_serve"];

/// The names of the machine, as the command line passes them on.
pub(crate) struct Names(std::rc::Rc<Vm>);

/// The names of a machine with everything that programs can call.
pub(crate) fn machine() -> Names {
    let mut builder = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Memory::new()));
    for name in ["argv", "context"] {
        builder = builder.global(name, harn_vm::Value::NIL);
    }
    Names(builder.build())
}

impl Signatures for Names {
    fn is_builtin(&self, name: &str) -> bool {
        self.0.builtin(name).is_some() || self.0.global(name).is_some() || PLANNED.contains(&name)
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

    fn record(&self, builtin: &str) -> Option<&'static Record> {
        harn_runtime::record(builtin)
    }

    fn wrong_pattern(&self, pattern: &str, flags: &str) -> Option<String> {
        harn_runtime::wrong_pattern(pattern, flags)
    }

    fn method_names(&self, type_name: &'static str) -> Vec<&str> {
        self.0.method_names(type_name)
    }
}

pub(crate) fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "harn") {
            found.push(path);
        }
    }
}

/// What is wrong with the findings for a program that runs and prints `expected`.
fn failures(path: &Path, shown: &str, expected: &str, world: &World<'_>) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a program that was just found");
    let parsed = harn_syntax::parse(&text);
    let dir = path.parent().expect("a file in a folder");
    let found = check_program(&Source { name: shown, dir, text: &text, tree: &parsed.program }, world);
    let of = |severity| found.iter().filter(move |diagnostic| diagnostic.severity == severity);
    let mut failures: Vec<String> =
        of(Severity::Error).map(|error| format!("{shown}: {}", error.message)).collect();
    // The suite compares warnings too, as lines before the output, but for those of calls that fail when they are run.
    let warnings: String = of(Severity::Warning)
        .filter(|d| !is_certain(d.code) && !is_slip(d.code))
        .map(|d| format!("warning: {}\n", d.message))
        .collect();
    if !expected.starts_with(&warnings) {
        failures.push(format!("{shown}: {warnings}"));
    }
    // What fails when it is reached shows in the output, but for what reads as nil and what is never reached.
    let is_about = |message: &str| {
        let name = message.split(['\'', '`', ':', ' ']).filter(|word| word.len() > 1).collect::<Vec<_>>();
        name.iter().any(|word| expected.contains(word)) || ABOUT.contains(&shown)
    };
    let certain = of(Severity::Warning).filter(|d| is_certain(d.code) && !is_about(&d.message));
    failures.extend(certain.map(|d| format!("{shown}: {}", d.message)));
    failures
}

/// Programs that are about a finding and do not print its words.
const ABOUT: [&str; 12] = [
    "conformance/agents/sub_agents/a_bug_in_a_tool_is_told_to_the_model.harn",
    "conformance/agents/workers/a_bug_that_is_raised_fails_the_worker.harn",
    "conformance/builtins/regex/bad_patterns_and_flags.harn",
    "conformance/check/names/argument_of_an_imported_function_fails_when_reached.harn",
    "conformance/check/names/undefined_variable_that_is_not_reached.harn",
    "conformance/check/names/unknown_field_of_a_struct_is_nil.harn",
    "conformance/check/names/unknown_variant_fails_when_reached.harn",
    "conformance/concurrency/select/channel_select_errors.harn",
    "conformance/language/access/property_results.harn",
    "conformance/language/builtin_facts/error_texts_of_builtins.harn",
    "conformance/language/structs/absent_struct_fields_read_nil.harn",
    "conformance/llm/vault/128_flags_are_checked_at_definition.harn",
];

#[test]
fn valid_programs_have_no_errors_and_the_expected_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let names = machine();
    let system = harn_system::Real::new();
    let world = World {
        signatures: &names,
        files: harn_front::Through(&system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    };
    let mut paths = Vec::new();
    programs(&root.join("conformance"), &mut paths);
    paths.sort();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in &paths {
        let Ok(expected) = std::fs::read_to_string(path.with_extension("expected")) else { continue };
        let shown = path.strip_prefix(&root).unwrap().display().to_string();
        wrong.extend(failures(path, &shown, &expected, &world));
        checked += 1;
    }
    let mut examples = Vec::new();
    programs(&root.join("examples"), &mut examples);
    for path in &examples {
        let shown = path.strip_prefix(&root).unwrap().display().to_string();
        wrong.extend(failures(path, &shown, "", &world));
    }
    assert!(checked > 500, "only {checked} programs were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
