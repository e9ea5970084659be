//! Attempts to bypass a policy, for each form of policy: the same attempts for all of them. `escapes/expected.txt`
//! contains the result of each attempt, including those that are allowed. In addition, no attempt may read, change, run
//! or contact anything outside.
//!
//! `HARN_UPDATE_SNAPSHOTS=1` rewrites the file; review the differences.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{Ceiling, Finished, HttpError, HttpRequest, Layer, Level, Memory, Socket, System, Waiting};
use harn_value::Value;
use harn_vm::{Effect, Names, Source, VmBuilder, block_on, load};

/// The attempts: one per line, except for comments and empty lines.
const ATTEMPTS: &str = include_str!("escapes/attempts.txt");
const EXPECTED: &str = include_str!("escapes/expected.txt");

/// A string that must not occur in results, except where a form permits it.
const SECRET: &str = "TREASURE";

/// A form of a policy.
struct Form {
    name: &'static str,
    /// The policy of a loop; `None` for a limit of the whole program.
    policy: Option<&'static str>,
    limit: fn(VmBuilder) -> VmBuilder,
    /// Whether programs may run and servers may be contacted, so that their output is not secret.
    runs: bool,
    asks: bool,
    /// Whether files outside of `/project/in` may be read and changed.
    outside: bool,
}

fn free(builder: VmBuilder) -> VmBuilder {
    builder
}

fn sandbox(builder: VmBuilder) -> VmBuilder {
    let roots = Some(vec![PathBuf::from("/project")]);
    builder.limit(Ceiling { level: Level::WorkspaceWrite, roots, ..Ceiling::default() })
}

/// Denies all builtins with external effects.
fn denied(builder: VmBuilder) -> VmBuilder {
    use Effect::{Env, Fs, Keep, Llm, Loop, Net, Process};
    let all = harn_runtime::tables().into_iter().flatten();
    let reach = all.filter(|builtin| matches!(builtin.effect, Env | Fs | Keep | Llm | Loop | Net | Process));
    builder.limit_names(Names::AllBut(reach.map(|builtin| builtin.name().to_owned()).collect()))
}

const FORMS: [Form; 7] = [
    Form {
        name: "roots",
        policy: Some("{workspace_roots: [\"in\"]}"),
        limit: free,
        runs: true,
        asks: true,
        outside: false,
    },
    Form {
        name: "level none",
        policy: Some("{side_effect_level: \"none\"}"),
        limit: free,
        runs: false,
        asks: false,
        outside: false,
    },
    Form {
        name: "level read_only",
        policy: Some("{side_effect_level: \"read_only\"}"),
        limit: free,
        runs: false,
        asks: false,
        outside: true,
    },
    Form {
        name: "capabilities",
        policy: Some("{capabilities: {workspace: [\"list\", \"exists\"]}}"),
        limit: free,
        runs: false,
        asks: false,
        outside: false,
    },
    Form {
        name: "no capabilities",
        policy: Some("{capabilities: {}}"),
        limit: free,
        runs: false,
        asks: false,
        outside: false,
    },
    Form { name: "sandbox", policy: None, limit: sandbox, runs: false, asks: false, outside: false },
    Form { name: "deny", policy: None, limit: denied, runs: false, asks: false, outside: false },
];

/// The programs and servers that were requested.
#[derive(Default)]
struct Asked {
    programs: RefCell<Vec<String>>,
    servers: RefCell<Vec<String>>,
}

/// A system layer that records WebSocket connections.
struct Machine {
    memory: Rc<Memory>,
    asked: Rc<Asked>,
}

impl Layer for Machine {
    fn inner(&self) -> &dyn System {
        &*self.memory
    }

    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.asked.servers.borrow_mut().push(request.url.clone());
        self.memory.websocket(request)
    }
}

fn world(asked: &Rc<Asked>) -> Memory {
    let (programs, servers) = (asked.clone(), asked.clone());
    Memory::new()
        .with_file("/project/harn.toml", "")
        .with_file("/project/in/a", "inside")
        .with_file("/project/in/skill/SKILL.md", "---\nname: s\ndescription: d\n---\nOWN")
        .with_file("/project/in/b", "inside, too")
        .with_file("/out/secret", SECRET)
        .with_file("/out/store.json", "{\"k\": \"TREASURE\"}")
        .with_file("/out/SKILL.md", "---\nname: s\ndescription: d\n---\nTREASURE")
        .with_file("/out/run.json", "{\"_type\": \"run_record\", \"id\": \"TREASURE\"}")
        .with_link("/out", "/project/in/link")
        .with_link("/out/secret", "/project/in/key")
        .with_link("/out/new", "/project/in/hole")
        .with_link("..", "/project/in/up")
        .with_file("/bin/sh", "")
        .with_env("SHELL", "/bin/sh")
        .with_env("SECRET_KEY", SECRET)
        .with_env("OPENAI_API_KEY", "sk-0123456789")
        .with_programs(move |command| {
            programs.programs.borrow_mut().push(command.program.clone());
            Ok(Finished { code: Some(0), stdout: SECRET.into(), ..Finished::default() })
        })
        .with_servers(move |request| {
            servers.servers.borrow_mut().push(request.url.clone());
            if request.url.starts_with("http://r.test/") {
                return Ok((302, vec![("location".into(), "http://0:8080/".into())], Vec::new()));
            }
            Ok((200, Vec::new(), SECRET.into()))
        })
}

/// Returns the content of all files outside of `/project`.
fn outside(memory: &Memory) -> String {
    let mut text = String::new();
    let mut folders = vec![PathBuf::from("/")];
    while let Some(folder) = folders.pop() {
        for path in memory.names(&folder).unwrap_or_default().iter().map(|name| folder.join(name)) {
            let facts = memory.link_facts(&path).unwrap();
            if facts.is_dir() && path != Path::new("/project") {
                folders.push(path.clone());
            }
            if path != Path::new("/project") {
                let bytes = if facts.is_file() { memory.read(&path, u64::MAX).unwrap() } else { Vec::new() };
                let _ =
                    writeln!(text, "{} {:?} {}", path.display(), facts.kind, String::from_utf8_lossy(&bytes));
            }
        }
    }
    text
}

/// Returns the result of an attempt in one line, without data that differs between runs.
fn answer(form: &Form, attempt: &str) -> String {
    let asked = Rc::new(Asked::default());
    let memory = Rc::new(world(&asked));
    let before = outside(&memory);
    let code = match form.policy {
        None => format!("let r = try {{ {attempt} }}\nreturn \"${{r}}\"\n"),
        Some(policy) => format!(
            "var seen = nil\n\
            let tools = tool_define(tool_registry(), \"act\", \"d\", {{parameters: {{}}, handler: {{ _a ->\n\
              seen = try {{ {attempt} }}\n\"ok\"\n}}}})\n\
            llm_mock({{tool_calls: [{{name: \"act\", arguments: {{}}}}]}})\n\
            agent_loop(\"go\", nil, {{provider: \"mock\", tools: tools, tool_format: \"native\", policy: {policy}, max_iterations: 1}})\n\
            return \"${{seen}}\"\n"
        ),
    };
    let machine = Rc::new(Machine { memory: memory.clone(), asked: asked.clone() });
    let builder = harn_runtime::vm_builder(machine).global("argv", Value::list(Vec::new()));
    let vm = (form.limit)(builder).build();
    let source = Source { name: "main.harn".into(), text: code.clone(), dir: "/project".into() };
    let got = match load(&vm, &source) {
        Err(error) => panic!("{attempt}: {}", error.canonical(&code)),
        Ok(program) => match block_on(program.run(&vm, None, &[])).unwrap().result {
            Ok(value) => value.to_string(),
            Err(error) => format!("ended: {}", error.uncaught_text()),
        },
    };
    let told = format!("{}: {attempt}: {got}", form.name);
    assert_eq!(outside(&memory), before, "{told}: changed something outside");
    let (programs, servers) = (asked.programs.borrow(), asked.servers.borrow());
    assert!(form.runs || programs.is_empty(), "{told}: ran {programs:?}");
    assert!(form.asks || servers.is_empty(), "{told}: asked {servers:?}");
    let heard = !programs.is_empty() || !servers.is_empty() || attempt.contains("env(");
    let errors = memory.errors();
    for text in [&got, &errors] {
        assert!(form.outside || heard || !text.contains(SECRET), "{told}: read what is outside: {text}");
    }
    let line = got.replace('\n', "\\n");
    let cut = line.char_indices().nth(150).map_or(line.as_str(), |(at, _)| &line[..at]);
    without_ids(cut)
}

/// Removes ids and times, which differ between runs.
fn without_ids(text: &str) -> String {
    let id = |word: &str| {
        word.len() > 20 && word.bytes().filter(u8::is_ascii_hexdigit).count() * 4 > word.len() * 3
    };
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() || c == '-' {
            word.push(c);
            continue;
        }
        out.push_str(if id(&word) { "ID" } else { &word });
        word.clear();
        out.push(c);
    }
    out.trim_end().to_owned()
}

#[test]
fn every_attempt_has_its_expected_answer_in_every_form() {
    let attempts: Vec<&str> =
        ATTEMPTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(attempts.len() >= 60, "{} attempts", attempts.len());
    let network = attempts.iter().filter(|attempt| {
        ["://", "//a.test"].iter().any(|address| attempt.contains(address)) && !attempt.contains("file:")
    });
    assert!(network.count() >= 60, "attempts to reach the network");
    let mut found = String::new();
    for attempt in attempts {
        let _ = writeln!(found, "{attempt}");
        for form in &FORMS {
            let _ = writeln!(found, "    {}: {}", form.name, answer(form, attempt));
        }
    }
    if std::env::var_os("HARN_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escapes/expected.txt"), &found)
            .unwrap();
        return;
    }
    for (found, expected) in found.lines().zip(EXPECTED.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), EXPECTED.lines().count());
}
