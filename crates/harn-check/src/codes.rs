//! The codes of diagnostics. Codes never change their meaning; documentation is generated from this table.

/// A diagnostic code with its documentation.
#[derive(Debug)]
pub struct CodeDoc {
    /// The code.
    pub code: &'static str,
    /// Describes the mistake.
    pub doc: &'static str,
    /// The advice.
    pub mend: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $doc:literal, $mend:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*
        /// All codes of this crate, in order.
        pub const CODES: &[CodeDoc] = &[$(CodeDoc { code: $code, doc: $doc, mend: $mend }),*];
    };
}

codes! {
    CALL_TARGET = "E0100", "A call of a name that is neither declared, imported nor a builtin.",
        "Declare the function, import it, or write the name that is meant.";
    EMIT_OUTSIDE = "E0101", "`emit` stands outside of a `gen fn`, where nobody takes the value.",
        "Declare the function with `gen fn`, or write `yield` to make it a generator.";
    YIELD_INSIDE = "E0102", "`yield` stands inside a `gen fn`, whose values go out with `emit`.",
        "Write `emit` in place of `yield`.";
    UNKNOWN_STRUCT = "E0103", "A struct literal names a struct that is neither declared nor imported.",
        "Declare the struct, import it, or write a plain dict without a name.";
    STREAM_RESULT = "E0104", "The annotated result of a `gen fn` is no stream.",
        "Write `-> Stream<T>` with the type of what is emitted.";
    WRONG_COUNT = "E0105", "A builtin or method is called with too few or too many arguments.",
        "`harn explain NAME` shows the parameters of a builtin.";
    WRONG_ARGUMENT = "E0106", "An argument of a builtin, method or struct is of a type that it does not take, or an option that it does not have; a regular expression is none; a `for` goes through a value without items.",
        "`harn explain NAME` shows the types and options that it takes; convert the value where it has to be.";
    UNKNOWN_METHOD = "E0107", "A method that values of this type do not have.",
        "`harn explain` lists the methods of each type; those of a struct are declared with `impl`.";
    UNKNOWN_VARIABLE = "E0108", "A variable that is neither declared, imported nor a builtin.",
        "Declare it with `let` or `var` in a block around the place, or write the name that is meant.";
    UNKNOWN_VARIANT = "E0109", "A variant that the enum does not have.",
        "Write a variant that the enum declares, or add this one to its declaration.";
    UNKNOWN_FIELD = "E0110", "A struct literal gives a field that the struct does not have.",
        "Write a field that the struct declares, or add this one to its declaration.";
    UNKNOWN_MEMBER = "E0111", "A field is read that the struct does not have; it is nil.",
        "Write a field that the struct declares, or add this one to its declaration.";
    RESULT_FIELD = "E0115", "A field is read that the result of a builtin does not have; it is nil.",
        "`harn explain NAME` and the page on results list the fields.";
    REDECLARED = "E0112", "A name is declared that the same scope declares before.",
        "Give it another name, or declare the first one with `var` and assign to it.";
    PAYLOAD = "E0113", "A variant of an enum is made with another number of values than it declares, or with one of another type.",
        "Pass the values that the variant declares, or change its declaration.";
    MAY_BE_NIL = "E0116", "An operation on a value that may be nil, by its type: the program fails there when it is.",
        "Test the value before, use `?.`, or give a default with `??`.";
    LATER_PARAMETER = "E0117", "The default of a parameter uses a parameter that has no value yet.",
        "Write the other parameter first, or set the value in the body.";
    RETURN_DROPPED = "E0114", "A generator or `gen fn` returns a value, which nobody gets.",
        "Hand the value out with `yield` or `emit`, and write `return` alone.";
    DECLARED_TYPE = "E0200", "A variable is given a value that its annotation does not allow.",
        "Change the value or the annotation; `to_int`, `to_float` and `to_string` convert.";
    ARGUMENT_TYPE = "E0201", "An argument is of a type that the annotation of the parameter does not allow.",
        "Pass a value of the type that the parameter asks for, or change its annotation.";
    RESULT_TYPE = "E0202", "A function gives back a value that its annotated result does not allow.",
        "Change what is returned, or the type behind `->`.";
    OPERAND_TYPE = "E0203", "An operator is used on types that it does not work on.",
        "Convert one side: `to_string(n)` or \"${n}\" makes text, `to_int(text)` a number.";
    INFERRED_TWICE = "E0204", "The arguments of a call bind a type parameter to two types.",
        "Pass values of one type, or give the parameters type parameters of their own.";
    NOT_EXHAUSTIVE = "E0205", "A `match` leaves out cases that its value may be.",
        "Add an arm for each case that the message names, or `_ -> { ... }` for all others.";
    STILL_REACHED = "E0206", "`unreachable(x)` stands where `x` may still have a value.",
        "Handle the types that the message names before the call.";
    TYPE_ARGUMENTS = "E0207", "A call gives type arguments to a function that declares none, or another number of them.",
        "Give as many type arguments as the function has type parameters, or none.";
    NOT_SATISFIED = "E0208", "A type lacks what the interface in a `where` clause asks for.",
        "Add the methods that the message names with `impl`, or pass a value of another type.";
    VARIANCE = "E0209", "A type parameter marked `in` or `out` stands where its mark does not allow it.",
        "`out` is for results, `in` for parameters; remove the mark where the type is used both ways.";
    ARGUMENT_COUNT = "W0100", "A call gives a function too few arguments (missing ones are nil) or too many (ignored).",
        "Pass one argument for each parameter, or give the parameter a default.";
    UNREACHABLE = "W0101", "A statement behind `return`, `throw`, `break` or `continue` never runs.",
        "Remove it, or move it before the statement that leaves.";
    NOT_EXECUTED = "W0102", "Of a file with pipelines only declarations and `let`/`var` run at top level; without, nothing calls `main`.",
        "Move it into a pipeline, or into a function that is called; call `main()` at the end of the file.";
    ASSIGN_TO_LET = "W0103", "An assignment to a name that was declared with `let`; it fails at run time.",
        "Declare the name with `var`, or give the new value another name.";
    STRUCT_FIELD = "W0104", "A struct literal lacks a field that the struct needs.",
        "Give the field a value, or mark it with `?` in the declaration.";
    ATTRIBUTE = "W0105", "An attribute that does not exist, or that means nothing on this declaration.",
        "Write an attribute that means something on this declaration, or remove it.";
    DEPRECATED = "W0106", "A call of a function marked `@deprecated`.",
        "Call what the attribute names in its place.";
    COMPARED_TYPES = "W0107", "An ordering operator between values that have no order among each other.",
        "Convert one side, or compare what has an order.";
    PATTERN_TYPE = "W0108", "An arm of a `match` has a literal of a type that the value never has.",
        "Write a literal of the type of the value, or remove the arm.";
    NOT_COVERED = "W0109", "A value of type `unknown` was tested for some types, and the rest ends up where nothing should.",
        "Test for the types that the message names, or leave with a plain `return`.";
    UNVALIDATED = "W0110", "With strict types: a part of a value from outside is used before anything has looked at the whole.",
        "Annotate the variable with its type, or use `schema_expect` or `schema_is`.";
    CONSTRAINT_METHOD = "W0111", "A method that the interface in the `where` clause of the function does not have.",
        "Call a method of the interface, or add this one to it.";
    OPTION_SLIP = "W0112", "An option of a model call or a loop that has no effect: its name is close to a known one.",
        "Write the name that the message names; `harn explain llm_call` and `harn explain agent_loop` list all options.";
    TYPE_NAME = "W0113", "A type that does not exist, whose name is close to one that does. Such a type only equals itself.",
        "Write the name that the message names, or declare the type.";
    LOGARITHM = "W0114", "`log` of a float, which it writes as a line: in other languages that is the natural logarithm.",
        "Write `ln(x)`, `log10(x)` or `log2(x)` for a logarithm, `log(\"${x}\")` to write the number.";
    BIG_NUMBER = "W0115", "JSON in the text of a program has a whole number beyond 64 bits: it becomes a float, which has 15 to 17 digits.",
        "Write `json_parse(text, {big_numbers: \"string\"})` to keep its digits, or `\"error\"` to refuse it.";
    HIDDEN_DIVISION = "W0116", "A number behind `//` where a value ends: in other languages that divides, here a comment begins.",
        "Write `/`, which divides ints without rest; a comment of words is no division.";
    NO_RESULT = "W0117", "A function with a result that is never nil may reach its end without a value: it gives nil then.",
        "End each way with a value, `return` or `throw`, or write `| nil` behind the type.";
    SECONDS = "W0118", "A limit of a model call is a bare number, which is in seconds, and looks like one of milliseconds.",
        "Write a duration: `5s`, `500ms` or `30m`.";
    UNRESOLVED_IMPORT = "P0100", "An import names a file, package or `std/` module that does not exist or does not parse.",
        "Write the path from the folder of the file, without or with `.harn`; `std/NAME` for an embedded module.";
    TEMPLATE_PATH = "P0101", "A template path is malformed, or its `@` alias is not defined.",
        "Write the path from the folder of the file, `@/path` from the project, or an alias of `[asset_roots]`.";
    TEMPLATE_MISSING = "P0102", "A template does not exist.",
        "Make the file, or write the path of the one that is meant.";
    TEMPLATE_SYNTAX = "P0103", "A template does not parse.",
        "Mend the template at the place that the message names.";
    TEMPLATE_INCLUDE = "P0104", "An `include` names a template that cannot be read.",
        "Write the path of a template, and let no template lead back to itself.";
    MISSING_BINDING = "P0105", "A template uses a name that the bindings of the call lack.",
        "Add the binding to the call, or ask for it in the template: `{{ if name }}`, `{{ name | default: \"x\" }}`.";
    UNUSED_BINDING = "P0106", "A binding that the template and its includes never use.",
        "Remove the binding, or use it in the template.";
    TEMPLATE_FILTER = "template-unknown-filter", "A filter that does not exist: rendering fails when it is reached.",
        "Write one of the filters of the template reference.";
    MANIFEST_SYNTAX = "P0107", "The `harn.toml` cannot be parsed; defaults are used.",
        "Mend the TOML at the place that the message names.";
    MANIFEST_ENTRY = "P0108", "A key or table of `harn.toml` is unknown, or its value is of the wrong kind; it is ignored.",
        "Write the key that is meant with a value of the kind that the message names.";
    UNKNOWN_IMPORT = "P0109", "An import lists a name that its file does not declare.",
        "Write a name that the file declares, or mark the declaration `pub` where only marked names go out.";
    HOST_OPERATION = "P0110", "A call of the host names an operation that hosts do not have, or no literal that could be looked at.",
        "Write the name that is meant; declare the operations of your host in `[check.host_capabilities]` of `harn.toml`.";
    IMPORT_COLLISION = "P0111", "An import brings a name that the file declares itself, or that another import brings from elsewhere: the run ends there.",
        "List the names that are needed, `import { name } from \"file\"`, or rename one of the two.";
    PROMPT_TOOL = "P0112", "A prompt speaks of a tool that the file does not make, or that is deferred until a search finds it.",
        "Write the name of the tool, or make it; a prompt should tell what a deferred tool can do, not call it.";
    MISSING_FOLDER = "P0113", "A program or a sub-agent is to run in a folder that does not exist.",
        "Write the path from the folder that the program is started in, or make the folder in the program.";
    INVARIANT_FORM = "I0100", "With `--invariants`: an `@invariant(\"NAME\")` that does not exist, or whose arguments say nothing.",
        "Write one of `approval.reachability`, `budget.remaining` and `fs.writes`, with the arguments that the message names.";
    WRITES_ELSEWHERE = "I0101", "With `--invariants`: what has the invariant `fs.writes` may write a file outside of its globs, or one whose path is not known.",
        "Give the call a path that is a literal and lies in one of the globs; paths may come through a `let` or an argument.";
    BUDGET_GROWS = "I0102", "With `--invariants`: the variable of the invariant `budget.remaining` may grow.",
        "Keep it, make it smaller, or read it anew with `llm_budget_remaining()`.";
    APPROVAL_REACHED = "I0103", "With `--invariants`: what has the invariant `approval.reachability` changes something outside without an approval.",
        "Call `request_approval` on every way that leads there, or put the call into `dual_control`.";
    UNUSED_VARIABLE = "unused-variable", "A variable is declared and never read.",
        "Remove it, or begin its name with `_`.";
    UNUSED_PATTERN = "unused-pattern-binding", "A name of a pattern is never read.",
        "Leave it out, or begin its name with `_`.";
    UNUSED_PARAMETER = "unused-parameter", "A parameter of a function is never read.",
        "Remove it, or begin its name with `_`.";
    UNUSED_IMPORT = "unused-import", "An import lists a name that the file never mentions.", "Remove the name.";
    NEVER_REASSIGNED = "mutable-never-reassigned", "A `var` is never assigned again.", "Write `let`.";
    COMPARISON_TO_BOOL = "comparison-to-bool", "A value is compared with `true` or `false`.",
        "Write the condition itself, or its negation with `!`.";
    FIELD_WITHOUT_COLON = "field-without-colon", "Two fields of a struct on one line without a comma, the second with the name of a type.",
        "Write `name: type` for a field with a type, a comma between two fields.";
    POINTLESS_COMPARISON = "pointless-comparison", "A value is compared with itself.",
        "Compare it with what was meant.";
    EMPTY_BLOCK = "empty-block", "A block that does nothing.", "Remove it, or say in a comment why it is empty.";
    EMPTY_CATCH = "empty-catch", "A handler that swallows errors without a word.",
        "Handle the error, or say in a comment why it does not matter.";
    DUPLICATE_ARM = "duplicate-match-arm", "A pattern of a `match` that stands in an arm before.",
        "Remove the arm, or write the pattern that was meant.";
    UNREACHABLE_ARM = "unreachable-match-arm", "An arm behind one that matches everything.",
        "Move the arm that matches everything to the end.";
    REPEATED_CONDITION = "repeated-condition", "A condition that was asked before in the same chain.",
        "Remove the branch, or write the condition that was meant.";
    PARALLEL_ASSIGNMENT = "parallel-assignment", "The body of a `parallel` assigns a variable outside of it, which is a copy there.",
        "Let the body give the value; `parallel` collects them in a list.";
    NIL_TERNARY = "redundant-nil-ternary", "A ternary that gives a value, or another one in place of nil.",
        "Write `value ?? other`.";
    LET_RETURN = "let-then-return", "A variable that is returned by the next statement.", "Return the value itself.";
    ELSE_RETURN = "unnecessary-else-return", "An `else` behind a branch that returns.",
        "Write what stands in the `else` behind the `if`.";
    NO_CAST = "unnecessary-cast", "A conversion of a value that is of the wanted type already.",
        "Take the value itself.";
    UNUSED_FUNCTION = "unused-function", "A function that the file never mentions and does not export.",
        "Remove it, mark it `pub`, or begin its name with `_`.";
    UNUSED_TYPE = "unused-type", "A type that the file never mentions and does not export.",
        "Remove it, mark it `pub`, or begin its name with `_`.";
    NAMING = "naming-convention", "A name in an unusual form: functions and tools are in snake_case, types in PascalCase.",
        "Write the name in its usual form.";
    COMPLEXITY = "cyclomatic-complexity", "A function that goes more than 25 ways.",
        "Split it, or say `@complexity(allow)` before it.";
    ASSERT_OUTSIDE = "assert-outside-test", "An assertion in a program that has no tests.",
        "Write `require`, or move it into a pipeline named `test_...`.";
    REQUIRE_IN_TEST = "require-in-test", "A `require` in a test, which does not show the values.",
        "Write `assert` or `assert_eq`.";
    INJECTION = "prompt-injection-risk", "A system prompt with values put in.",
        "Keep the system prompt fixed, and pass values in the prompt or through a template.";
    APPROVAL = "unhandled-approval-result", "The answer of `request_approval` is thrown away.",
        "Take the answer, and act on it.";
    CLEANUP = "long-running-without-cleanup", "Something is left running, and nothing cancels it.",
        "Call `cancel_handle` in a `defer` or `finally`.";
    REGISTRY_SIZE = "tool-registry-size", "A registry has more tools than a model in use accepts: its calls fail.",
        "Give the model fewer tools, or let it look for them with `tool_search`.";
    BREAK_OUTSIDE = "break-outside-loop", "A `break` or `continue` that no loop of its function is around.",
        "Leave the function with `return`, or move it into the loop.";
    BOOL_OPERAND = "invalid-binary-op-literal", "Arithmetic with `true`, `false` or `nil`, which fails when it is reached.",
        "Write a number or a text.";
    PIPELINE_RETURN = "pipeline-return-type", "A public pipeline does not say what it returns.",
        "Write the type of its result, `nil` for none.";
    DEAD_CODE = "dead-code-after-return", "A statement behind `return`, `throw`, `break` or `continue` never runs.",
        "Remove it, or move it before the statement that leaves.";
    SHADOW = "shadow-variable", "A variable takes the name of one in a scope around it, or of one that was declared before in its own.",
        "Give it another name; an assignment without `let` changes the variable that is there.";
    NO_CLONE = "redundant-clone", "An argument that is copied before it is passed.",
        "Pass the value itself: a function does not change the values of its caller.";
    EAGER = "eager-collection-conversion", "An iterator stands where a list, set or dict is wanted.",
        "Collect it with `.to_list()`, `.to_set()` or `.to_dict()`.";
    UNTYPED_ACCESS = "untyped-dict-access", "A part of a value from outside is used directly, before anything has looked at the whole.",
        "Give it a variable with a type, or use `schema_expect` or `schema_is`.";
    SECRET_SCAN = "pr-open-without-secret-scan", "A pull request is opened on a way on which nothing has looked for secrets.",
        "Call `secret_scan` on what it publishes before.";
    CONNECTOR = "connector-effect-policy", "An export of a connector calls a model, runs a program or writes a file; or `normalize_inbound` reaches the network or waits.",
        "Leave it to the handler of the trigger.";
    NO_DOC = "missing-harndoc", "A public function without a doc comment.",
        "Write a `/** */` comment above it that says what it does.";
    LEGACY_DOC = "legacy-doc-comment", "Lines of `///`, or of `//` above what is public, stand where a doc comment belongs.",
        "Write it as `/** */`, or leave an empty line below a remark.";
    FILE_HEADER = "require-file-header", "A file does not say at its head what it is for. The rule is off unless the manifest or a flag asks for it.",
        "Write a `/** */` comment, or lines of `//!`, at the head of the file.";
    IMPORT_ORDER = "import-order", "The imports at the head of a file, or the names in one, are not in the order of the formatter.",
        "Sort them, or run `harn fmt`.";
    BLANK_LINE = "blank-line-between-items", "A declaration at the top of a file follows what is before it without an empty line.",
        "Write an empty line between them, or run `harn fmt`.";
    TRAILING_COMMA = "trailing-comma", "The last item of a list, dict or call over several lines has no comma.",
        "Write a comma behind it, or run `harn fmt`.";
    SUPPRESSION = "suppression", "A comment that allows a finding, without a reason or without such a finding.",
        "Write `// harn-lint: allow RULE: REASON`, or remove the comment.";
    UNUSED_RESULT = "unused-result", "A value is computed and thrown away.",
        "Assign it; methods of lists and texts give new values.";
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
            assert!(entry.doc.ends_with('.') && entry.mend.ends_with(['.', '`']), "{}", entry.code);
        }
    }
}
