//! For any arguments, a builtin returns a value or a catchable error: it does not panic, loop endlessly or use
//! unbounded memory.

use harn_vm::Builtin;

/// Values that functions often do not expect.
const POOL: &str = r#"
let deep = range(2000).reduce([], { inner, i -> [inner] })
let pool = [
  nil, true, 0, 1, -1, 3, 9223372036854775807, -9223372036854775807 - 1, 1.5, 0.0 / 0.0, 1.0 / 0.0, -1e300,
  "", "a", "é🎉\n", "{\"a\": [1", "%{~1$", "2024-02-30", [], [1, "x", nil], deep, {}, {a: 1, "": [2]}, set(), set(1, [2]),
  range(3), 1 to 0, iter([1, 2]), pair(1, nil), 5s, bytes_from_hex("00ff"), Ok(1), { x -> x }, { -> [1] }, len, rng_seed(1),
]
"#;

/// Calls `call(f)` for argument lists of every length up to three.
const CALLS: &str = r#"
mock_stdin("")
var calls = 0
fn attempt(args) {
  calls = calls + 1
  let result = try { call(args) }
  // Looking at the result must work, too.
  len(to_string(result))
}
attempt([])
for a in pool { attempt([a]) }
let rng = rng_seed(7)
for i in 1 to 200 {
  attempt([random_choice(rng, pool), random_choice(rng, pool)])
  attempt([random_choice(rng, pool), random_choice(rng, pool), random_choice(rng, pool)])
}
unmock_stdin()
println("done")
"#;

/// Builtins that end the program, wait, access files outside of a temporary directory, or start other programs.
const SKIPPED: [&str; 10] = [
    "exit",
    "sleep",
    "sleep_ms",
    "exec",
    "exec_at",
    "shell",
    "shell_at",
    "delete_file",
    "move_file",
    "host_call",
];

fn survives(name: &str, call: &str) -> Option<String> {
    harn_value::memory::set_limit(64 << 20);
    let program = format!("{POOL}\nfn call(args) {{ {call} }}\n{CALLS}");
    let run = crate::common::run("odd.harn", &program, std::path::Path::new("/"));
    let done = run.error.is_none() && run.output.ends_with("done\n");
    (!done).then(|| format!("{name}: {:?}", run.error))
}

fn all_survive(calls: impl Iterator<Item = (String, String)>) {
    let failures: Vec<String> = calls.filter_map(|(name, call)| survives(&name, &call)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn functions_take_any_argument() {
    let entries = harn_stdlib::builtins().into_iter().flatten().map(Builtin::name);
    let entries = entries.filter(|name| !SKIPPED.contains(name));
    all_survive(entries.map(|name| (name.to_owned(), format!("{name}(...args)"))));
}

#[test]
fn methods_take_any_argument() {
    let receivers = |type_name: &str| match type_name {
        "string" => vec!["\"\"", "\"é🎉 a\""],
        "list" => vec!["[]", "[1, nil, \"x\", [2], 0.0 / 0.0]"],
        "dict" => vec!["{}", "{b: 1, a: nil}"],
        "set" => vec!["set()", "set(1, [2], nil)"],
        "range" => vec!["range(0)", "(1 to 4)"],
        "iter" => vec!["iter([])", "iter([1, 2, 3])"],
        _ => vec!["pair(1, 2)"],
    };
    let mut calls = Vec::new();
    for table in
        harn_stdlib::methods().iter().filter(|t| !["generator", "stream", "channel"].contains(&t.type_name))
    {
        for entry in table.methods {
            for receiver in receivers(table.type_name) {
                let name = format!("{receiver}.{}", entry.name());
                calls.push((name.clone(), format!("{name}(...args)")));
            }
        }
    }
    all_survive(calls.into_iter());
}
