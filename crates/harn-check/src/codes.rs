//! The codes of diagnostics. Codes never change their meaning; documentation is generated from this table.

/// A diagnostic code with its documentation.
#[derive(Debug)]
pub struct CodeDoc {
    /// The code.
    pub code: &'static str,
    /// Describes the mistake.
    pub doc: &'static str,
    /// The advice.
    pub fix: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $doc:literal, $fix:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*
        /// All codes of this crate, in order.
        pub const CODES: &[CodeDoc] = &[$(CodeDoc { code: $code, doc: $doc, fix: $fix }),*];
    };
}

codes! {
    CALL_TARGET = "E0100", "A call of a name that is neither declared, imported nor a builtin.",
        "Declare the function, import it, or correct the name.";
    EMIT_OUTSIDE = "E0101", "`emit` is used outside of a `gen fn`.",
        "Declare the function with `gen fn`, or write `yield` to make it a generator.";
    YIELD_INSIDE = "E0102", "`yield` is used inside a `gen fn`, which emits its values with `emit`.",
        "Write `emit` instead of `yield`.";
    UNKNOWN_STRUCT = "E0103", "A struct literal names a struct that is neither declared nor imported.",
        "Declare the struct, import it, or write a plain dict without a name.";
    STREAM_RESULT = "E0104", "The return type of a `gen fn` is not a stream.",
        "Write `-> Stream<T>`, where T is the type of the emitted values.";
    WRONG_COUNT = "E0105", "A builtin or method is called with too few or too many arguments.",
        "`harn explain NAME` shows the parameters of a builtin.";
    WRONG_ARGUMENT = "E0106", "An argument of a builtin, method or struct has the wrong type or is an unknown option; a regular expression is invalid; or a `for` iterates over a value that has no items.",
        "`harn explain NAME` shows the accepted types and options; convert the value.";
    UNKNOWN_METHOD = "E0107", "A method that values of this type do not have.",
        "`harn explain` lists the methods of each type; declare methods of a struct with `impl`.";
    UNKNOWN_VARIABLE = "E0108", "A variable that is neither declared, imported nor a builtin.",
        "Declare it with `let` or `var` in an enclosing block, or correct the name.";
    UNKNOWN_VARIANT = "E0109", "A variant that the enum does not have.",
        "Write a variant that the enum declares, or add this one to its declaration.";
    UNKNOWN_FIELD = "E0110", "A struct literal sets a field that the struct does not have.",
        "Write a field that the struct declares, or add this one to its declaration.";
    UNKNOWN_MEMBER = "E0111", "A field is read that the struct does not have; it is nil.",
        "Write a field that the struct declares, or add this one to its declaration.";
    RESULT_FIELD = "E0115", "A field is read that the result of a builtin does not have; it is nil.",
        "`harn explain NAME` and the page on results list the fields.";
    REDECLARED = "E0112", "A name is declared twice in the same scope.",
        "Rename it, or declare the first one with `var` and assign to it.";
    PAYLOAD = "E0113", "A variant of an enum is created with the wrong number of values, or with a value of the wrong type.",
        "Pass the values that the variant declares, or change its declaration.";
    MAY_BE_NIL = "E0116", "An operation on a value that may be nil, by its type: the program fails there when it is.",
        "Test the value before, use `?.`, or give a default with `??`.";
    LATER_PARAMETER = "E0117", "The default of a parameter uses a parameter that has no value yet.",
        "Write the other parameter first, or set the value in the body.";
    RETURN_DROPPED = "E0114", "A generator or `gen fn` returns a value, which is lost.",
        "Pass the value to `yield` or `emit`, and write `return` without a value.";
    DECLARED_TYPE = "E0200", "The value of a variable does not match its type annotation.",
        "Change the value or the annotation; `to_int`, `to_float` and `to_string` convert.";
    ARGUMENT_TYPE = "E0201", "An argument does not match the type annotation of the parameter.",
        "Pass a value of the annotated type, or change the annotation.";
    RESULT_TYPE = "E0202", "The return value of a function does not match its return type.",
        "Change the returned value, or the type after `->`.";
    OPERAND_TYPE = "E0203", "An operator does not support the types of its operands.",
        "Convert one side: `to_string(n)` or \"${n}\" converts to a string, `to_int(s)` to a number.";
    INFERRED_TWICE = "E0204", "The arguments of a call bind a type parameter to two types.",
        "Pass values of one type, or declare a separate type parameter for each parameter.";
    NOT_EXHAUSTIVE = "E0205", "A `match` does not cover all cases of its value.",
        "Add an arm for each case that the message names, or `_ -> { ... }` for all others.";
    STILL_REACHED = "E0206", "`unreachable(x)` can be reached: `x` may still have a value.",
        "Handle the types that the message names before the call.";
    TYPE_ARGUMENTS = "E0207", "A call passes type arguments to a function that declares none, or the wrong number of them.",
        "Pass one type argument for each type parameter of the function, or none.";
    NOT_SATISFIED = "E0208", "A type does not implement the interface in a `where` clause.",
        "Add the methods that the message names with `impl`, or pass a value of another type.";
    VARIANCE = "E0209", "A type parameter marked `in` or `out` is used in a position that its mark does not allow.",
        "Use `out` for results and `in` for parameters; remove the mark if the type is used for both.";
    ARGUMENT_COUNT = "W0100", "A call passes a function too few arguments (missing ones are nil) or too many (ignored).",
        "Pass one argument for each parameter, or give the parameter a default.";
    UNREACHABLE = "W0101", "A statement after `return`, `throw`, `break` or `continue` never runs.",
        "Remove it, or move it before that statement.";
    NOT_EXECUTED = "W0102", "In a file with pipelines, only declarations, `let` and `var` run at top level; in a file without pipelines, nothing calls `main`.",
        "Move it into a pipeline, or into a function that is called; call `main()` at the end of the file.";
    ASSIGN_TO_LET = "W0103", "An assignment to a name that was declared with `let`; it fails at run time.",
        "Declare the name with `var`, or give the new value another name.";
    STRUCT_FIELD = "W0104", "A struct literal lacks a field that the struct needs.",
        "Give the field a value, or mark it with `?` in the declaration.";
    ATTRIBUTE = "W0105", "An attribute that does not exist or has no meaning on this declaration.",
        "Remove it, or write an attribute that this declaration supports.";
    DEPRECATED = "W0106", "A call of a function marked `@deprecated`.",
        "Call the replacement that the attribute names.";
    COMPARED_TYPES = "W0107", "An operator that compares values which have no order, or are never equal.",
        "Convert one side, or compare values of the same type.";
    PATTERN_TYPE = "W0108", "An arm of a `match` has a literal of a type that the value never has.",
        "Write a literal of the type of the value, or remove the arm.";
    NOT_COVERED = "W0109", "A value of type `unknown` was tested for some types, but not for all types that reach this place.",
        "Test for the types that the message names, or leave with a plain `return`.";
    UNVALIDATED = "W0110", "With strict types: a field of external data is used before the data is validated.",
        "Annotate the variable with its type, or use `schema_expect` or `schema_is`.";
    CONSTRAINT_METHOD = "W0111", "The interface in the `where` clause of the function does not have this method.",
        "Call a method of the interface, or add this one to it.";
    OPTION_SLIP = "W0112", "An option of a model call or a loop that has no effect: its name is close to a known one.",
        "Write the name in the message; `harn explain llm_call` and `harn explain agent_loop` list all options.";
    TYPE_NAME = "W0113", "A type that does not exist, whose name is similar to an existing one. An unknown type is compatible only with itself.",
        "Write the name in the message, or declare the type.";
    LOGARITHM = "W0114", "`log` of a float, which writes a log line: in other languages, `log` is the natural logarithm.",
        "Write `ln(x)`, `log10(x)` or `log2(x)` for a logarithm, `log(\"${x}\")` to write the number.";
    BIG_NUMBER = "W0115", "JSON in the source of a program has an integer beyond 64 bits: it becomes a float, with 15 to 17 digits.",
        "Write `json_parse(text, {big_numbers: \"string\"})` to keep its digits, or `\"error\"` to reject it.";
    HIDDEN_DIVISION = "W0116", "A number after `//`: in other languages this divides, in Harn it begins a comment.",
        "Write `/`, which divides two ints without a remainder; a comment that begins with a word is not reported.";
    NO_RESULT = "W0117", "A function whose return type excludes nil may reach its end without a value, and then returns nil.",
        "End each path with a value, `return` or `throw`, or add `| nil` to the return type.";
    SECONDS = "W0118", "A limit of a model call is a number without a unit. Harn reads it as seconds, but it looks like milliseconds.",
        "Write a duration: `5s`, `500ms` or `30m`.";
    UNRESOLVED_IMPORT = "P0100", "An import names a file, package or `std/` module that does not exist or does not parse.",
        "Write the path relative to the directory of the file, with or without `.harn`, or `std/NAME` for a bundled module.";
    TEMPLATE_PATH = "P0101", "A template path is malformed, or its `@` alias is not defined.",
        "Write a path relative to the directory of the file, `@/path` for a path in the project, or an alias from `[asset_roots]`.";
    TEMPLATE_MISSING = "P0102", "A template does not exist.",
        "Create the file, or correct the path.";
    TEMPLATE_SYNTAX = "P0103", "A template does not parse.",
        "Fix the template at the location in the message.";
    TEMPLATE_INCLUDE = "P0104", "An `include` names a template that cannot be read.",
        "Write the path of an existing template; a template must not include itself.";
    MISSING_BINDING = "P0105", "A template uses a name that is not bound in the call.",
        "Add the binding to the call, or make it optional in the template: `{{ if name }}`, `{{ name | default: \"x\" }}`.";
    UNUSED_BINDING = "P0106", "A binding that the template and its includes never use.",
        "Remove the binding, or use it in the template.";
    TEMPLATE_FILTER = "template-unknown-filter", "A filter that does not exist: rendering fails when it is reached.",
        "Write one of the filters of the template reference.";
    MANIFEST_SYNTAX = "P0107", "The `harn.toml` cannot be parsed; defaults are used.",
        "Fix the TOML at the location in the message.";
    MANIFEST_ENTRY = "P0108", "A key or table of `harn.toml` is unknown, or its value has the wrong type; it is ignored.",
        "Correct the key, and give it a value of the type in the message.";
    UNKNOWN_IMPORT = "P0109", "An import lists a name that its file does not declare.",
        "Write a name that the file declares, or mark the declaration `pub`.";
    HOST_OPERATION = "P0110", "A host call names an unknown operation, or its name is not a literal and cannot be checked.",
        "Correct the name, or declare the operations of your host in `[check.host_capabilities]` of `harn.toml`.";
    IMPORT_COLLISION = "P0111", "An import declares a name that the file or another import also declares: the program fails at this import.",
        "Import only the names that you need, `import { name } from \"file\"`, or rename one of the two.";
    PROMPT_TOOL = "P0112", "A prompt mentions a tool that the file does not declare, or that is deferred until a search finds it.",
        "Correct the name of the tool, or declare it; for a deferred tool, describe the task instead of naming the tool.";
    MISSING_FOLDER = "P0113", "A program or a sub-agent is started in a directory that does not exist.",
        "Write a path relative to the working directory, or create the directory in the program.";
    INVARIANT_FORM = "I0100", "With `--invariants`: an `@invariant(\"NAME\")` that does not exist or has invalid arguments.",
        "Write one of `approval.reachability`, `budget.remaining` and `fs.writes`, with the arguments in the message.";
    WRITES_ELSEWHERE = "I0101", "With `--invariants`: a handler with the invariant `fs.writes` may write a file outside of its globs, or a file with an unknown path.",
        "Pass a literal path that matches one of the globs, directly or through a `let` or an argument.";
    BUDGET_GROWS = "I0102", "With `--invariants`: the variable of the invariant `budget.remaining` may grow.",
        "Only decrease it, or read it again with `llm_budget_remaining()`.";
    APPROVAL_REACHED = "I0103", "With `--invariants`: a handler with the invariant `approval.reachability` has an external effect without an approval.",
        "Call `request_approval` on every path to the effect, or wrap the effect in `dual_control`.";
    UNUSED_VARIABLE = "unused-variable", "A variable is declared and never read.",
        "Remove it, or begin its name with `_`.";
    UNUSED_PATTERN = "unused-pattern-binding", "A name of a pattern is never read.",
        "Remove it, or begin its name with `_`.";
    UNUSED_PARAMETER = "unused-parameter", "A parameter of a function is never read.",
        "Remove it, or begin its name with `_`.";
    UNUSED_IMPORT = "unused-import", "An import lists a name that the file never mentions.", "Remove the name.";
    NEVER_REASSIGNED = "mutable-never-reassigned", "A `var` is never assigned again.", "Write `let`.";
    COMPARISON_TO_BOOL = "comparison-to-bool", "A value is compared with `true` or `false`.",
        "Write the condition itself, or its negation with `!`.";
    FIELD_WITHOUT_COLON = "field-without-colon", "Two fields of a struct on one line without a comma, and the second has the name of a type.",
        "Write `name: type` for a field with a type, a comma between two fields.";
    POINTLESS_COMPARISON = "pointless-comparison", "A value is compared with itself.",
        "Compare it with another value.";
    EMPTY_BLOCK = "empty-block", "A block that does nothing.", "Remove it, or explain in a comment why it is empty.";
    EMPTY_CATCH = "empty-catch", "A handler that ignores errors without a comment.",
        "Handle the error, or explain in a comment why it can be ignored.";
    DUPLICATE_ARM = "duplicate-match-arm", "A pattern of a `match` that an earlier arm already has.",
        "Remove the arm, or correct the pattern.";
    UNREACHABLE_ARM = "unreachable-match-arm", "An arm after one that matches everything.",
        "Move the arm that matches everything to the end.";
    REPEATED_CONDITION = "repeated-condition", "A condition that an earlier branch of the same chain tests.",
        "Remove the branch, or correct the condition.";
    PARALLEL_ASSIGNMENT = "parallel-assignment", "The body of a `parallel` assigns to a copy of an outer variable.",
        "Return the value from the body; `parallel` collects the values in a list.";
    NIL_TERNARY = "redundant-nil-ternary", "A ternary that replaces nil with another value.",
        "Write `value ?? other`.";
    LET_RETURN = "let-then-return", "A variable that the next statement returns.", "Return the value itself.";
    ELSE_RETURN = "unnecessary-else-return", "An `else` after a branch that returns.",
        "Move the body of the `else` after the `if`.";
    NO_CAST = "unnecessary-cast", "A conversion of a value that already has the type.",
        "Use the value itself.";
    UNUSED_FUNCTION = "unused-function", "A function that the file never mentions and does not export.",
        "Remove it, mark it `pub`, or begin its name with `_`.";
    UNUSED_TYPE = "unused-type", "A type that the file never mentions and does not export.",
        "Remove it, mark it `pub`, or begin its name with `_`.";
    NAMING = "naming-convention", "A name that does not follow the convention: snake_case for functions and tools, PascalCase for types.",
        "Rename it.";
    COMPLEXITY = "cyclomatic-complexity", "A function with more than 25 paths.",
        "Split it, or write `@complexity(allow)` before it.";
    ASSERT_OUTSIDE = "assert-outside-test", "An assertion in a program that has no tests.",
        "Write `require`, or move it into a pipeline named `test_...`.";
    REQUIRE_IN_TEST = "require-in-test", "A `require` in a test: it does not show the values.",
        "Write `assert` or `assert_eq`.";
    INJECTION = "prompt-injection-risk", "A system prompt that contains inserted values.",
        "Keep the system prompt fixed, and pass values in the prompt or through a template.";
    APPROVAL = "unhandled-approval-result", "The result of `request_approval` is never used.",
        "Use the result.";
    CLEANUP = "long-running-without-cleanup", "A task or command is left running, and nothing cancels it.",
        "Call `cancel_handle` in a `defer` or `finally`.";
    REGISTRY_SIZE = "tool-registry-size", "A registry has more tools than the model accepts: its calls fail.",
        "Pass fewer tools, or let the model find them with `tool_search`.";
    BREAK_OUTSIDE = "break-outside-loop", "A `break` or `continue` outside of a loop.",
        "To leave the function, use `return`; otherwise move it into the loop.";
    BOOL_OPERAND = "invalid-binary-op-literal", "Arithmetic with `true`, `false` or `nil`, which fails at run time.",
        "Use a number or a string.";
    PIPELINE_RETURN = "pipeline-return-type", "A public pipeline has no return type.",
        "Add the return type, or `nil` if it returns nothing.";
    DEAD_CODE = "dead-code-after-return", "A statement after `return`, `throw`, `break` or `continue` never runs.",
        "Remove it, or move it before that statement.";
    SHADOW = "shadow-variable", "A variable has the name of a variable in an outer scope, or of an earlier one in its own scope.",
        "Rename it; to change the existing variable, assign to it without `let`.";
    NO_CLONE = "redundant-clone", "An argument that is copied before it is passed.",
        "Pass the value itself: a function does not change the values of its caller.";
    EAGER = "eager-collection-conversion", "An iterator is used where a list, set or dict is expected.",
        "Collect it with `.to_list()`, `.to_set()` or `.to_dict()`.";
    UNTYPED_ACCESS = "untyped-dict-access", "A field of external data is used before the data is validated.",
        "Assign the data to a variable with a type annotation, or use `schema_expect` or `schema_is`.";
    SECRET_SCAN = "pr-open-without-secret-scan", "A pull request is opened on a path without a scan for secrets.",
        "Call `secret_scan` on the content before it is published.";
    CONNECTOR = "connector-effect-policy", "An export of a connector calls a model, runs a program or writes a file; or `normalize_inbound` reaches the network or waits.",
        "Move it to the handler of the trigger.";
    NO_DOC = "missing-harndoc", "A public function without a doc comment.",
        "Describe it in a `/** */` comment above it.";
    LEGACY_DOC = "legacy-doc-comment", "Lines of `///`, or `//` lines above a public declaration, instead of a doc comment.",
        "Write it as `/** */`, or add an empty line after a plain comment.";
    FILE_HEADER = "require-file-header", "A file has no header comment. The rule is off unless the manifest or a flag enables it.",
        "Write a `/** */` comment, or lines of `//!`, at the top of the file.";
    IMPORT_ORDER = "import-order", "The imports at the top of a file, or the names in an import, are not in the order of the formatter.",
        "Sort them, or run `harn fmt`.";
    BLANK_LINE = "blank-line-between-items", "A top-level declaration without an empty line before it.",
        "Write an empty line between them, or run `harn fmt`.";
    TRAILING_COMMA = "trailing-comma", "The last item of a list, dict or call over several lines has no comma.",
        "Add a comma, or run `harn fmt`.";
    SUPPRESSION = "suppression", "A comment that suppresses a finding, without a reason or without such a finding.",
        "Write `// harn-lint: allow RULE: REASON`, or remove the comment.";
    UNUSED_RESULT = "unused-result", "A value is computed but never used.",
        "Assign it; methods of lists and strings return new values.";
}

/// Returns whether a warning with this code predicts a visible effect at run time: a failure, nil in place of a
/// value, or a lost value. `harn check` reports it as an error.
pub fn is_certain(code: &str) -> bool {
    [
        WRONG_COUNT,
        WRONG_ARGUMENT,
        UNKNOWN_METHOD,
        UNKNOWN_VARIABLE,
        UNKNOWN_VARIANT,
        UNKNOWN_MEMBER,
        REDECLARED,
        PAYLOAD,
        RETURN_DROPPED,
        ARGUMENT_TYPE,
        OPERAND_TYPE,
    ]
    .contains(&code)
}

/// Returns whether a run ignores findings with this code: an option without effect, which the call reports itself; a
/// number that the program may want as a float; a path without a value, which the program may never take.
pub fn is_slip(code: &str) -> bool {
    [OPTION_SLIP, BIG_NUMBER, NO_RESULT].contains(&code)
}

/// Returns whether `harn check` reports this code as an error, even if `harn run` would run the program.
pub fn is_error(code: &str) -> bool {
    is_certain(code)
        || [
            ARGUMENT_COUNT,
            UNKNOWN_FIELD,
            RESULT_FIELD,
            MAY_BE_NIL,
            DECLARED_TYPE,
            RESULT_TYPE,
            LATER_PARAMETER,
            NOT_EXHAUSTIVE,
            OPTION_SLIP,
            TYPE_NAME,
            ASSIGN_TO_LET,
            COMPARED_TYPES,
        ]
        .contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        for (at, entry) in CODES.iter().enumerate() {
            assert!(CODES[..at].iter().all(|other| other.code != entry.code), "{}", entry.code);
            assert!(entry.doc.ends_with('.') && entry.fix.ends_with(['.', '`']), "{}", entry.code);
        }
    }
}
