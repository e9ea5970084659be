//! Option dicts of builtins: those that a struct describes, and the number of those that only a signature describes.

use harn_syntax::signature::{self, Kinds};
use harn_vm::builtin::{OptionField, Param};

use crate::wrong_calls::machine;

/// Parameters with a dict whose options are written in the signature. The number may only shrink: new option dicts are structs
/// with `#[derive(Options)]`.
const WRITTEN_IN_SIGNATURES: usize = 31;

fn params() -> Vec<(String, &'static Param)> {
    let vm = machine();
    let methods = vm.method_tables().iter().flat_map(|table| table.methods);
    let entries = vm.builtins().chain(methods);
    entries.flat_map(|entry| entry.params.iter().map(|param| (entry.full_name.to_owned(), param))).collect()
}

fn check_described(whose: &str, options: &[OptionField]) {
    for option in options {
        let place = format!("{whose}: {}", option.name);
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(option.name.chars().all(is_name), "{place}");
        assert!(Kinds::of(option.ty).0 & !Kinds::NIL.0 != 0, "{place}: unknown type `{}`", option.ty);
        assert!(option.doc.ends_with('.') && option.doc.len() <= 240, "{place}: {}", option.doc);
        let others = options.iter().filter(|other| other.name == option.name);
        assert_eq!(others.count(), 1, "{place}: twice");
    }
}

#[test]
fn described_options_are_complete() {
    let mut count = 0;
    for (builtin, param) in params().into_iter().filter(|(_, param)| !param.options.is_empty()) {
        let shape = signature::shape(param.ty).unwrap_or_else(|| panic!("{builtin}: {}", param.ty));
        let written: Vec<_> = signature::options(shape).collect();
        let described: Vec<_> = param.options.iter().map(|option| (option.name, option.ty)).collect();
        assert_eq!(written, described, "{builtin}");
        check_described(&builtin, param.options);
        count += param.options.len();
    }
    for (set, options) in
        [("call_options", harn_runtime::call_options()), ("loop_options", harn_runtime::loop_options())]
    {
        check_described(set, options);
        count += options.len();
    }
    assert!(count > 380, "only {count} options are described");
}

#[test]
fn fewer_and_fewer_options_are_written_in_signatures() {
    let params = params();
    let written = params.iter().filter(|(_, param)| param.options.is_empty() && param.ty.contains('{'));
    let names: Vec<_> = written.map(|(builtin, param)| format!("{builtin}({})", param.name)).collect();
    assert_eq!(names.len(), WRITTEN_IN_SIGNATURES, "{names:#?}");
}
