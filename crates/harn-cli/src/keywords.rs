//! The keywords and their documentation.

/// A keyword.
pub(crate) struct Keyword {
    /// The keyword itself.
    pub(crate) name: &'static str,
    /// Its syntax.
    pub(crate) form: &'static str,
    /// Its documentation.
    pub(crate) text: &'static str,
}

const fn keyword(name: &'static str, form: &'static str, text: &'static str) -> Keyword {
    Keyword { name, form, text }
}

/// All keywords in alphabetical order.
pub(crate) const KEYWORDS: &[Keyword] = &[
    keyword("break", "break", "Ends the innermost loop."),
    keyword(
        "catch",
        "try { } catch (e) { }",
        "Handles errors of the `try` block; `catch (e: T)` handles only errors of type T.",
    ),
    keyword("continue", "continue", "Continues with the next iteration of the innermost loop."),
    keyword(
        "deadline",
        "deadline 5s { }",
        "Throws `Deadline exceeded` if the block takes longer. Returns the value of the block.",
    ),
    keyword(
        "defer",
        "defer { }",
        "Runs the block when the surrounding block ends, whether it returns or throws.",
    ),
    keyword("else", "if c { } else { }", "Begins the second branch of `if`, or the block of `guard`."),
    keyword("emit", "emit value", "Emits a value to the consumer of a `gen fn`."),
    keyword(
        "enum",
        "enum Shape { Dot, Circle(r) }",
        "Declares a type with variants, with or without values.",
    ),
    keyword("eval_pack", "eval_pack name { }", "Declares a manifest for evaluation tools."),
    keyword("exclusive", "a to b exclusive", "Excludes the end of a range."),
    keyword("extends", "pipeline child() extends base { }", "Runs the body of another pipeline first."),
    keyword("false", "false", "The bool that is not true."),
    keyword(
        "finally",
        "try { } finally { }",
        "Runs the block after `try` and `catch`, whether they return or throw.",
    ),
    keyword("fn", "fn name(a, b = 1, ...rest) { }", "Declares a function, or creates one without a name."),
    keyword(
        "for",
        "for x in xs { }",
        "Repeats the block for every item; also `for (k, v) in dict` and `for {a, b} in list`.",
    ),
    keyword("from", "import { a } from \"path\"", "Names the module of selected imports."),
    keyword(
        "guard",
        "guard c else { return }",
        "Runs the block if the condition is false; the block usually returns or throws.",
    ),
    keyword(
        "if",
        "if c { } else { }",
        "Runs one of two blocks, depending on a condition. Returns the value of that block.",
    ),
    keyword("impl", "impl Point { fn area(self) { } }", "Adds methods to a struct."),
    keyword("import", "import \"path\"", "Imports the exported names of another file."),
    keyword(
        "in",
        "x in xs",
        "Returns whether a value is an element, a key, a substring or in a range. Also part of `for`.",
    ),
    keyword(
        "interface",
        "interface Shape { fn area(self) -> float }",
        "Declares the methods that a type must have.",
    ),
    keyword(
        "let",
        "let name = value",
        "Declares a variable that cannot be assigned again; destructures lists and dicts.",
    ),
    keyword(
        "match",
        "match v { pattern -> { } }",
        "Returns the value of the first arm whose pattern matches.",
    ),
    keyword("mutex", "mutex { }", "Runs the block in one task at a time."),
    keyword("nil", "nil", "The absence of a value."),
    keyword("override", "override name() { }", "Replaces a function of the extended pipeline."),
    keyword(
        "parallel",
        "parallel each xs { x -> }",
        "Runs tasks concurrently and returns their results in order; also `parallel n` and `parallel settle xs`.",
    ),
    keyword("pipeline", "pipeline default(task) { }", "Declares an entry point of the program."),
    keyword("pub", "pub fn name() { }", "Exports a declaration."),
    keyword("require", "require condition, message", "Throws the message if the condition is false."),
    keyword("retry", "retry 3 { }", "Runs the block until it succeeds, at most this many times."),
    keyword("return", "return value", "Returns a value from the function."),
    keyword(
        "select",
        "select { x from channel { } timeout 1s { } }",
        "Waits for the first channel with a message.",
    ),
    keyword("skill", "skill name { key value }", "Declares a skill that an agent can activate."),
    keyword(
        "spawn",
        "spawn { }",
        "Starts a task and returns its handle; `await(handle)` returns its result.",
    ),
    keyword("struct", "struct Point { x: int, y?: int }", "Declares a type with fields."),
    keyword("throw", "throw value", "Throws any value as an error."),
    keyword("to", "1 to 10", "Creates a range that includes both ends."),
    keyword(
        "tool",
        "tool name(a: int) { description \"...\" }",
        "Declares a function that a model may call.",
    ),
    keyword("true", "true", "The bool that is true."),
    keyword(
        "try",
        "try { }",
        "Without `catch`, returns `Ok(value)` or `Err(error)`. `try* f()` marks a call whose error propagates.",
    ),
    keyword("type", "type Name = {a: int}", "Names a type."),
    keyword("var", "var name = value", "Declares a variable that can be assigned again."),
    keyword("while", "while c { }", "Repeats the block while a condition is true."),
    keyword("yield", "yield value", "Yields a value to the consumer, and makes the function a generator."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reserved_words_in_order() {
        assert_eq!(KEYWORDS.len(), 46);
        assert!(KEYWORDS.is_sorted_by_key(|k| k.name));
    }
}
