//! Templates with hostile values: deep, shared, huge, unusual.

use std::path::PathBuf;
use std::rc::Rc;

use harn_system::Memory;
use harn_vm::{Source, block_on, load};

use crate::rng::Rng;

/// Memory limit of a render in bytes.
const MEMORY: usize = 64 << 20;

/// The values passed to templates, and a render with a deadline. Both runs must produce the same output or the same
/// error, unless the deadline is exceeded. The clock of the in-memory system advances on every read, so the
/// deadline is a number of reads.
const PROGRAM: &str = r#"
var shared = ["x"]
for i in 1 to 60 { shared = [shared, shared] }
var deep = []
for i in 1 to 3000 { deep = [deep] }
let bindings = {
  shared: shared, deep: deep, long: "ab<{{ x }}>\u{0}\u{1b}[31m\u{202e}\n".repeat(2000), text: "{{ include \"t\" }}{{ if }}", nan: 0.0 / 0.0,
  big: 9223372036854775807, small: -9223372036854775807 - 1, range: 1 to 1000000000000, call: { x -> x }, empty: {}, none: nil,
  odd: {"": 1, "a b": [nil, {"}}": "%"}], loop: 1, llm: {}}, keys: {a: {b: {c: "</runtime_feedback>"}}}, set: set("b", "a"), wait: 5ms,
}
let template = read_file("t")
let first = try { deadline 30ms { render_string(template, bindings) } }
let second = try { deadline 30ms { render_string(template, bindings) } }
let late = [first, second].any({ r -> is_err(r) && to_string(r).contains("Deadline") })
if !late { assert_eq(to_string(first), to_string(second)) }
"#;

/// Generates a template that uses the names of the program.
pub(crate) fn generate(rng: &mut Rng) -> Vec<u8> {
    const VALUES: &[&str] = &[
        "shared",
        "deep",
        "long",
        "text",
        "nan",
        "big",
        "small",
        "range",
        "call",
        "empty",
        "none",
        "odd",
        "keys.a.b.c",
        "set",
        "wait",
        "x",
        "loop.index",
        "shared[0][1]",
        "odd[\"a b\"]",
        "range[5]",
        "missing",
        "long | upper",
        "shared | join: \", \"",
        "deep | length",
        "range | first",
        "big + 1",
        "small | default: 1",
        "long | truncate: 5",
        "keys | json",
        "deep | json",
        "odd | keys | sort",
        "set | last",
        "nan == nan",
        "long | indent: 1000000",
        "long | replace: \"\", \"x\"",
        "shared == shared",
        "text | trim",
    ];
    let mut out = String::new();
    let mut open = 0;
    for _ in 0..rng.below(10) {
        match rng.below(7) {
            0 => out.push_str(rng.pick(&["text ", "\n", "{", "}}", "{{", "é", "{{# c #}}"])),
            1 | 2 => out.push_str(&format!("{{{{ {} }}}}", rng.pick(VALUES))),
            3 => {
                open += 1;
                out.push_str(&format!("{{{{ if {} }}}}", rng.pick(VALUES)));
            }
            4 | 5 => {
                open += 1;
                out.push_str(&format!("{{{{ for x in {} }}}}", rng.pick(VALUES)));
            }
            _ => out.push_str(&format!(
                "{{{{ include \"{}\" with {{ x: {} }} }}}}",
                rng.pick(&["t", "../t", "/t", ""]),
                rng.pick(VALUES)
            )),
        }
    }
    out.push_str(&"{{ end }}".repeat(open));
    out.into_bytes()
}

/// A render ends with output, an error, or at its deadline.
pub(crate) fn check(bytes: &[u8]) {
    harn_value::memory::set_limit(MEMORY);
    let memory = Memory::new().with_file("/project/t", bytes).with_file("/project/harn.toml", "");
    let vm = harn_runtime::vm_builder(Rc::new(memory)).build();
    let source =
        Source { name: "fuzz.harn".to_owned(), text: PROGRAM.to_owned(), dir: PathBuf::from("/project") };
    let Ok(program) = load(&vm, &source) else { panic!("the program does not load") };
    let Ok(outcome) = block_on(program.run(&vm, None, &[])) else { return };
    if let Err(error) = &outcome.result {
        let text = error.uncaught_text();
        let expected = text.contains("valid UTF-8") || text.contains("memory limit");
        assert!(expected, "two renderings differ, or the program fails: {text}");
    }
}
