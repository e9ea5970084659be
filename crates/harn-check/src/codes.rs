//! The codes of diagnostics. Codes never change their meaning; documentation is made from this table.

/// A code and what it stands for.
#[derive(Debug)]
pub struct CodeDoc {
    /// The code.
    pub code: &'static str,
    /// What is wrong and what to do, in a sentence or two.
    pub doc: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*
        /// All codes of this crate, in order.
        pub const CODES: &[CodeDoc] = &[$(CodeDoc { code: $code, doc: $doc }),*];
    };
}

codes! {
    CALL_TARGET = "E0100", "A call of a name that is neither declared, imported nor a builtin.";
    EMIT_OUTSIDE = "E0101", "`emit` stands outside of a `gen fn`, where nobody takes the value.";
    YIELD_INSIDE = "E0102", "`yield` stands inside a `gen fn`, whose values go out with `emit`.";
    UNKNOWN_STRUCT = "E0103", "A struct literal names a struct that is neither declared nor imported.";
    STREAM_RESULT = "E0104", "The annotated result of a `gen fn` is no stream.";
    WRONG_COUNT = "E0105", "A builtin or method is called with too few or too many arguments.";
    WRONG_ARGUMENT = "E0106", "An argument of a builtin or method is of a type that it does not take, or an option that it does not have.";
    UNKNOWN_METHOD = "E0107", "A method that values of this type do not have.";
    ARGUMENT_COUNT = "W0100", "A call gives a function too few arguments (missing ones are nil) or too many (ignored).";
    UNREACHABLE = "W0101", "A statement behind `return`, `throw`, `break` or `continue` never runs.";
    NOT_EXECUTED = "W0102", "Of a file with pipelines only declarations and `let`/`var` run at top level.";
    ASSIGN_TO_LET = "W0103", "An assignment to a name that was declared with `let`; it fails at run time.";
    STRUCT_FIELD = "W0104", "A struct literal has a field that the struct lacks, or lacks one that it needs.";
    ATTRIBUTE = "W0105", "An attribute that does not exist, or that means nothing on this declaration.";
    DEPRECATED = "W0106", "A call of a function marked `@deprecated`.";
    UNRESOLVED_IMPORT = "P0100", "An import names a file, package or `std/` module that does not exist.";
    TEMPLATE_PATH = "P0101", "A template path is malformed, or its `@` alias is not defined.";
    TEMPLATE_MISSING = "P0102", "A template does not exist.";
    TEMPLATE_SYNTAX = "P0103", "A template does not parse.";
    TEMPLATE_INCLUDE = "P0104", "An `include` names a template that cannot be read.";
    MISSING_BINDING = "P0105", "A template uses a name that the bindings of the call lack.";
    UNUSED_BINDING = "P0106", "A binding that the template and its includes never use.";
    TEMPLATE_FILTER = "template-unknown-filter", "A filter that does not exist: rendering fails when it is reached.";
    MANIFEST_SYNTAX = "P0107", "The `harn.toml` cannot be parsed; defaults are used.";
    MANIFEST_ENTRY = "P0108", "A key or table of `harn.toml` is unknown, or its value is of the wrong kind; it is ignored.";
    UNKNOWN_IMPORT = "P0109", "An import lists a name that its file does not declare.";
}

/// Whether a finding with this code is an error for `harn check`, also where running a program leaves it to the moment
/// when the place is reached.
pub fn is_certain(code: &str) -> bool {
    [WRONG_COUNT, WRONG_ARGUMENT, UNKNOWN_METHOD].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        for (at, entry) in CODES.iter().enumerate() {
            assert!(CODES[..at].iter().all(|other| other.code != entry.code), "{}", entry.code);
            assert!(entry.doc.ends_with('.'), "{}", entry.code);
        }
    }
}
