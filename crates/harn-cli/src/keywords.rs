//! The reserved words, and a line or two about each.

/// A reserved word.
pub(crate) struct Keyword {
    /// The word.
    pub(crate) name: &'static str,
    /// How it is written.
    pub(crate) form: &'static str,
    /// What it does.
    pub(crate) text: &'static str,
}

const fn keyword(name: &'static str, form: &'static str, text: &'static str) -> Keyword {
    Keyword { name, form, text }
}

/// All of them, in alphabetical order.
pub(crate) const KEYWORDS: &[Keyword] = &[
    keyword("break", "break", "Leaves the innermost loop."),
    keyword(
        "catch",
        "try { } catch (e) { }",
        "Handles an error of the `try` block; `catch (e: T)` only errors of a type.",
    ),
    keyword("continue", "continue", "Goes on with the next round of the innermost loop."),
    keyword(
        "deadline",
        "deadline 5s { }",
        "Throws `Deadline exceeded` when the block takes longer; its value is that of the block.",
    ),
    keyword("defer", "defer { }", "Runs the block when the surrounding block is left, on every way out."),
    keyword("else", "if c { } else { }", "The other branch of `if`, and the block of `guard`."),
    keyword("emit", "emit value", "Hands a value to the consumer of a `gen fn`."),
    keyword(
        "enum",
        "enum Shape { Dot, Circle(r) }",
        "Declares a type with variants, which may carry values.",
    ),
    keyword("eval_pack", "eval_pack name { }", "Declares a manifest for evaluation tools."),
    keyword("exclusive", "a to b exclusive", "Leaves the end out of a range."),
    keyword("extends", "pipeline child() extends base { }", "Runs the body of another pipeline first."),
    keyword("false", "false", "The bool that is not true."),
    keyword("finally", "try { } finally { }", "Runs on every way out of the `try`."),
    keyword("fn", "fn name(a, b = 1, ...rest) { }", "Declares a function, or makes one without a name."),
    keyword(
        "for",
        "for x in xs { }",
        "Repeats for every item; also `for (k, v) in dict` and `for {a, b} in list`.",
    ),
    keyword("from", "import { a } from \"path\"", "Says where selected names come from."),
    keyword(
        "guard",
        "guard c else { return }",
        "Runs the block when the condition does not hold; the block normally leaves.",
    ),
    keyword("if", "if c { } else { }", "Chooses by a condition; has a value."),
    keyword("impl", "impl Point { fn area(self) { } }", "Adds methods to a struct."),
    keyword("import", "import \"path\"", "Brings the exported names of another file into this one."),
    keyword(
        "in",
        "x in xs",
        "Whether something is an element, a key, a part or inside of a range; also in `for`.",
    ),
    keyword(
        "interface",
        "interface Shape { fn area(self) -> float }",
        "Names the methods that a value must have.",
    ),
    keyword(
        "let",
        "let name = value",
        "Binds a name that cannot be assigned again; takes lists and dicts apart.",
    ),
    keyword("match", "match v { pattern -> { } }", "Chooses the first pattern that fits; has a value."),
    keyword("mutex", "mutex { }", "Lets one task at a time into the block."),
    keyword("nil", "nil", "The absence of a value."),
    keyword("override", "override name() { }", "Replaces a function of the pipeline that is extended."),
    keyword(
        "parallel",
        "parallel each xs { x -> }",
        "Runs tasks side by side and collects their results in order; also `parallel n` and `parallel settle xs`.",
    ),
    keyword("pipeline", "pipeline default(task) { }", "Declares an entry of the program."),
    keyword("pub", "pub fn name() { }", "Exports a declaration."),
    keyword("require", "require condition, message", "Throws the message when the condition does not hold."),
    keyword("retry", "retry 3 { }", "Runs the block until it does not fail, at most so many times."),
    keyword("return", "return value", "Leaves the function with a value."),
    keyword(
        "select",
        "select { x from channel { } timeout 1s { } }",
        "Waits for the first channel that has something.",
    ),
    keyword("skill", "skill name { key value }", "Declares a skill that an agent can activate."),
    keyword("spawn", "spawn { }", "Starts a task and gives its handle; `await(handle)` gives its result."),
    keyword("struct", "struct Point { x: int, y?: int }", "Declares a type with fields."),
    keyword("throw", "throw value", "Throws any value as an error."),
    keyword("to", "1 to 10", "Makes a range; both ends belong to it."),
    keyword(
        "tool",
        "tool name(a: int) { description \"...\" }",
        "Declares a function that a model may call.",
    ),
    keyword("true", "true", "The bool that is true."),
    keyword(
        "try",
        "try { }",
        "Without `catch`: gives `Ok(value)` or `Err(error)`. `try* f()` marks a call whose error goes up.",
    ),
    keyword("type", "type Name = {a: int}", "Names a type."),
    keyword("var", "var name = value", "Binds a name that can be assigned again."),
    keyword("while", "while c { }", "Repeats as long as a condition holds."),
    keyword("yield", "yield value", "Hands a value to the consumer; makes the function a generator."),
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
