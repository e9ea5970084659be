//! When the arguments of a call are changed (by defaults, hooks, approvals or command policies), the tool only receives
//! arguments that the gates of the loop have accepted in their final form. Path patterns cannot be bypassed by links.

use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use harn_system::{Memory, System};
use harn_value::Value;
use harn_vm::{Source, block_on, load};

/// A small deterministic random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Returns random numbers below 6; about a third are missing.
    fn some(&mut self) -> Vec<u64> {
        (0..6).filter(|_| self.below(3) > 0).collect()
    }
}

/// Runs a program and returns its output.
fn run(memory: &Rc<Memory>, code: &str) -> String {
    let vm = harn_runtime::vm_builder(memory.clone()).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "main.harn".into(), text: code.into(), dir: "/project".into() };
    let program = load(&vm, &source).unwrap_or_else(|error| panic!("{}\n{code}", error.canonical(code)));
    let outcome = block_on(async {
        harn_runtime::install_manifest_hooks(&vm, Path::new("/project")).await.unwrap();
        program.run(&vm, None, &[]).await
    });
    if let Err(error) = outcome.unwrap().result {
        panic!("{}\n{code}", error.uncaught_text());
    }
    memory.output()
}

/// The gates of a call. Each list contains the numbers that pass.
#[derive(Debug)]
struct Gates {
    outer: Option<Vec<u64>>,
    permitted: Option<Vec<u64>>,
    approved: Option<Vec<u64>>,
    constrained: Option<Vec<u64>>,
    /// The numbers that need approval.
    asked: Option<Vec<u64>>,
    /// The number by which the host replaces the argument.
    host: Option<u64>,
    /// The results of the hook, by number.
    hook: Option<Vec<u64>>,
    /// The results of the command policy by number, and the numbers that it blocks.
    pre: Option<(Vec<u64>, Vec<u64>)>,
    default: u64,
    call: &'static str,
}

impl Gates {
    fn roll(chance: &mut Chance) -> Gates {
        let maybe = |chance: &mut Chance| chance.flip().then(|| chance.some());
        let map = |chance: &mut Chance| -> Vec<u64> { (0..6).map(|_| chance.below(6)).collect() };
        Gates {
            outer: maybe(chance),
            permitted: maybe(chance),
            approved: maybe(chance),
            constrained: maybe(chance),
            asked: maybe(chance),
            host: chance.flip().then(|| chance.below(6)),
            hook: (chance.below(3) == 0).then(|| map(chance)),
            pre: chance.flip().then(|| (map(chance), chance.some())),
            default: chance.below(6),
            call: ["{}", "{n: nil}", "{n: 1}", "{n: 3}", "{n: 4, tag: nil}", "{n: \"2\"}"]
                [chance.below(6) as usize],
        }
    }

    /// Returns the program: it prints what each gate has received, the host's questions, and the executed calls.
    fn program(&self) -> String {
        let mut options = vec!["provider: \"mock\"".to_owned(), "tools: tools".to_owned()];
        options.extend(["tool_format: \"native\"", "max_iterations: 2"].map(str::to_owned));
        if let Some(pass) = &self.permitted {
            options.push(format!(
                "permissions: {{deny: {{act: {{ a -> see(\"permitted\", a); !({pass:?}.contains(a.n)) }}}}}}"
            ));
        }
        let mut approval = Vec::new();
        if let Some(pass) = &self.approved {
            approval.push(format!(
                "auto_deny: {{act: {{ a -> see(\"approved\", a); !({pass:?}.contains(a.n)) }}}}"
            ));
        }
        if let Some(asked) = &self.asked {
            approval.push(format!("require_approval: {{act: {{ a -> {asked:?}.contains(a.n) }}}}"));
        }
        if !approval.is_empty() {
            options.push(format!("approval_policy: {{{}}}", approval.join(", ")));
        }
        if let Some(pass) = &self.constrained {
            let patterns: Vec<String> = pass.iter().map(|n| format!("{:?}", n.to_string())).collect();
            let patterns = patterns.join(", ");
            options.push(format!(
                "policy: {{tool_arg_constraints: [{{tool: \"act\", arg_key: \"n\", arg_patterns: [{patterns}]}}]}}"
            ));
        }
        if let Some((map, pass)) = &self.pre {
            options.push(format!(
                "command_policy: {{tools: [\"act\"], pre: {{ c -> see(\"pre\", c.request); \
                 if {pass:?}.contains(c.request.n) {{ {{rewrite: {{n: {map:?}[c.request.n]}}}} }} else {{ {{deny: \"no\"}} }} }}}}"
            ));
        }
        let host = match self.host {
            Some(n) => format!("{{granted: true, args: {{n: {n}, tag: \"t\"}}}}"),
            None => "{granted: true}".to_owned(),
        };
        let outer = self.outer.as_ref().map(|pass| {
            format!(
                ", permissions: {{deny: {{act: {{ a -> see(\"outer\", a); !({pass:?}.contains(a.n)) }}}}}}"
            )
        });
        format!(
            r#"
fn see(gate, a) {{ println("${{gate}} ${{type_of(a.n)}} ${{a.n}} ${{a.tag}}") }}
host_mock("session", "request_permission", {{result: {host}}})
let tools = tool_define(tool_registry(), "act", "d", {{
  parameters: {{n: {{type: "int", default: {default}}}, tag: {{type: "string", default: "t"}}}},
  handler: {{ a -> see("ran", a); "ran" }},
}})
llm_mock({{tool_calls: [{{name: "go", arguments: {{}}}}]}})
llm_mock({{tool_calls: [{{name: "act", arguments: {call}}}]}})
llm_mock({{text: "ok"}})
llm_mock({{text: "ok"}})
let around = tool_define(tool_registry(), "go", "d", {{parameters: {{}}, handler: {{ _a ->
  agent_loop("inner", nil, {{{options}}})
  "done"
}}}})
agent_loop("outer", nil, {{provider: "mock", tools: around, tool_format: "native", max_iterations: 2{outer}}})
for call in host_mock_calls() {{
  see("host", call.params.toolCall.rawInput)
}}
"#,
            default = self.default,
            call = self.call,
            options = options.join(", "),
            outer = outer.unwrap_or_default(),
        )
    }
}

#[test]
fn nothing_runs_that_the_gates_did_not_see_in_that_form() {
    let (mut ran, mut held_back, mut changed) = (0, 0, 0);
    for seed in 1..=250_u64 {
        let gates = Gates::roll(&mut Chance(seed * 0x9E37_79B9_7F4A));
        let mut memory = Memory::new().with_cwd("/project");
        if let Some(map) = &gates.hook {
            memory = memory
                .with_file(
                    "/project/harn.toml",
                    "[package]\nname = \"p\"\nversion = \"0.1.0\"\n\n[[hooks]]\nevent = \"PreToolUse\"\npattern = \"act\"\nhandler = \"./hook::change\"\n",
                )
                .with_file(
                    "/project/hook.harn",
                    format!("pub fn change(event) {{\n  return {{args: {{...event.tool.args, n: {map:?}[event.tool.args.n]}}}}\n}}\n"),
                );
        }
        let code = gates.program();
        let printed = run(&Rc::new(memory), &code);
        let told = format!("seed {seed}: {gates:?}\n{printed}{code}");
        let seen = |gate: &str, form: &str| printed.lines().any(|line| line == format!("{gate} {form}"));
        let mut forms = printed.lines().filter_map(|line| line.strip_prefix("ran "));
        let Some(form) = forms.next() else {
            held_back += 1;
            continue;
        };
        assert_eq!(forms.next(), None, "{told}");
        ran += 1;
        let n: u64 =
            form.strip_prefix("int ").and_then(|rest| rest.strip_suffix(" t")).expect(&told).parse().unwrap();
        changed += u64::from(!gates.call.contains(&n.to_string()));
        let passes = |gate: &str, pass: &Option<Vec<u64>>| {
            pass.as_ref().is_none_or(|pass| pass.contains(&n) && seen(gate, form))
        };
        assert!(passes("outer", &gates.outer), "{told}");
        assert!(passes("permitted", &gates.permitted) && passes("approved", &gates.approved), "{told}");
        assert!(gates.constrained.as_ref().is_none_or(|pass| pass.contains(&n)), "{told}");
        let needs = gates.asked.as_ref().is_some_and(|asked| asked.contains(&n));
        assert!(!needs || seen("host", form) || gates.host == Some(n), "{told}");
        let made = |(map, pass): &(Vec<u64>, Vec<u64>)| {
            (0..6).any(|m| pass.contains(&m) && map[m as usize] == n && seen("pre", &format!("int {m} t")))
        };
        assert!(gates.pre.as_ref().is_none_or(made), "{told}");
    }
    assert!(
        ran >= 60 && held_back >= 60 && changed >= 30,
        "{ran} ran, {held_back} held back, {changed} changed"
    );
}

/// Creates files with links inside of `/project/safe`, and from other places into it.
fn linked() -> Memory {
    Memory::new()
        .with_cwd("/project")
        .with_file("/project/harn.toml", "")
        .with_file("/project/safe/deep/a", "a")
        .with_file("/project/other/a", "a")
        .with_file("/out/a", "a")
        .with_link("/out", "/project/safe/door")
        .with_link("/out/a", "/project/safe/key")
        .with_link("/out/new", "/project/safe/hole")
        .with_link("..", "/project/safe/up")
        .with_link("deep", "/project/safe/in")
        .with_link("/project/safe", "/project/alias")
        .with_link("safe/door", "/project/far")
}

/// Returns every file and link outside of `/project/safe`, with its content.
fn elsewhere(memory: &Memory) -> String {
    let mut text = String::new();
    let mut places = vec!["/".to_owned()];
    while let Some(place) = places.pop() {
        for path in memory.names(Path::new(&place)).unwrap_or_default() {
            let path = Path::new(&place).join(path);
            let facts = memory.link_facts(&path).unwrap();
            if path == Path::new("/project/safe") || path.starts_with("/project/.harn") {
                continue;
            }
            if facts.is_dir() {
                places.push(path.display().to_string());
            } else {
                let bytes = if facts.is_file() { memory.read(&path, u64::MAX).unwrap() } else { Vec::new() };
                let _ = writeln!(text, "{} {}", path.display(), String::from_utf8_lossy(&bytes));
            }
        }
    }
    text
}

/// Lets a loop write `paths` under a limit; returns for each path whether the handler ran, and whether it could write.
fn write(memory: &Rc<Memory>, limit: &str, paths: &[String]) -> String {
    let code = format!(
        r#"
let tools = tool_define(tool_registry(), "save", "d", {{
  parameters: {{path: "string"}},
  annotations: {{kind: "edit", arg_schema: {{path_params: ["path"]}}}},
  handler: {{ a ->
    let wrote = try {{ write_file(a.path, "x") }}
    println("${{a.path}}: ${{is_ok(wrote) ? "wrote" : unwrap_err(wrote)}}")
    ""
  }},
}})
for path in {paths:?} {{
  llm_mock({{tool_calls: [{{name: "save", arguments: {{path: path}}}}]}})
  llm_mock({{text: "ok"}})
  agent_loop("go", nil, {{provider: "mock", tools: tools, tool_format: "native", max_iterations: 2, {limit}}})
}}
"#
    );
    run(memory, &code)
}

const LISTS: [&str; 4] = [
    r#"approval_policy: {write_path_allowlist: ["safe/*"]}"#,
    r#"policy: {tool_arg_constraints: [{tool: "save", arg_patterns: ["safe/*"]}]}"#,
    r#"permissions: {allow: {save: {arg_key: "path", patterns: ["safe/*"]}}}"#,
    r#"permissions: {allow: {save: "safe/*"}}"#,
];

#[test]
fn lists_of_paths_follow_links() {
    let out = [
        "safe/door/a",
        "safe/key",
        "safe/hole",
        "safe/up/other/a",
        "safe/in/../../other/a",
        "far/a",
        "safe/up/../out/a",
    ];
    let within = [
        "safe/b",
        "safe/in/b",
        "alias/b",
        "/project/safe/b",
        "/project/alias/in/c",
        "safe/new/../d",
        "safe/up/safe/e",
    ];
    let all: Vec<String> = out.iter().chain(&within).map(|path| (*path).to_owned()).collect();
    for limit in LISTS {
        let expected: String = within.iter().map(|path| format!("{path}: wrote\n")).collect();
        let memory = Rc::new(linked());
        let before = elsewhere(&memory);
        assert_eq!(write(&memory, limit, &all), expected, "{limit}");
        assert_eq!(elsewhere(&memory), before, "{limit}");
    }
    let denied = r#"permissions: {deny: {save: {arg_key: "path", patterns: ["/out/*", "other/*"]}}}"#;
    let memory = Rc::new(linked());
    let before = elsewhere(&memory);
    write(&memory, denied, &all);
    assert_eq!(elsewhere(&memory), before);
}

#[test]
fn lists_of_paths_permit_no_more_than_roots() {
    let mut chance = Chance(0x9E37_79B9_7F4A);
    let steps = [
        "safe", "safe", "door", "key", "hole", "up", "in", "alias", "far", "deep", "other", "a", "b", "..",
        "..", ".", "",
    ];
    let paths: Vec<String> = (0..400)
        .map(|_| {
            let start = ["", "", "safe/", "/project/", "/"][chance.below(5) as usize];
            let count = 1 + chance.below(5);
            let rest: Vec<&str> =
                (0..count).map(|_| steps[chance.below(steps.len() as u64) as usize]).collect();
            format!("{start}{}", rest.join("/"))
        })
        .collect();
    let roots = Rc::new(linked());
    let rooted = write(&roots, r#"policy: {workspace_roots: ["safe"]}"#, &paths);
    let is_outside = |line: &&str| line.contains("outside workspace_roots");
    let refused: Vec<&str> =
        rooted.lines().filter(is_outside).filter_map(|line| line.split(": ").next()).collect();
    assert!(refused.len() >= 100 && rooted.matches(": wrote").count() >= 25, "{rooted}");
    for limit in LISTS {
        let memory = Rc::new(linked());
        let before = elsewhere(&memory);
        let printed = write(&memory, limit, &paths);
        assert_eq!(elsewhere(&memory), before, "{limit}: {printed}");
        let ran: Vec<&str> = printed.lines().filter_map(|line| line.split(": ").next()).collect();
        let more: Vec<&&str> = ran.iter().filter(|path| refused.contains(path)).collect();
        assert!(more.is_empty() && ran.len() >= 25, "{limit}: {more:?}");
    }
}
