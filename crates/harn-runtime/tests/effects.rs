//! The effects of builtins are correct: an example only has external effects that its builtins are labelled with, and
//! the example of a builtin has the labelled effect, unless there is a reason.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{
    Ceiling, Command, Draft, Finished, HttpError, HttpReply, HttpRequest, Layer, Level, Memory, MoveError,
    PeerRequest, Recorder, Socket, System, Touched, Waiting,
};
use harn_value::Value;
use harn_vm::{Builtin, Effect, Names, Source, block_on, load};

/// Runs code with a system layer that records effects.
fn touched(code: &str) -> Touched {
    let memory = Memory::new().with_env("HARN_LLM_CALLS_DISABLED", "1");
    let recorder = Rc::new(Recorder::over(Rc::new(memory)));
    let vm = harn_runtime::vm_builder(recorder.clone()).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "example.harn".into(), text: code.into(), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{code}") };
    // Effects of loading the program and the configuration of models belong to the runtime.
    let _ = harn_runtime::llm_runtime(&vm);
    recorder.take();
    let _ = block_on(program.run(&vm, None, &[]));
    recorder.take()
}

/// Returns the effects that a label permits.
fn allowed(effect: Effect) -> Touched {
    let nothing = Touched::default();
    match effect {
        Effect::Pure | Effect::State => nothing,
        // Log lines contain the time; coloured output checks for a terminal.
        Effect::Output => Touched { output: true, time: true, env: true, ..nothing },
        Effect::Clock => Touched { time: true, ..nothing },
        Effect::Random => Touched { chance: true, time: true, ..nothing },
        // Information about the process comes from the environment and from files of the system.
        Effect::Env => Touched { env: true, files: true, ..nothing },
        Effect::Fs | Effect::Keep => Touched { files: true, env: true, ..nothing },
        Effect::Human => Touched { input: true, output: true, ..nothing },
        // A connection to a process has a random id.
        Effect::Process => {
            Touched { processes: true, env: true, files: true, time: true, chance: true, ..nothing }
        }
        Effect::Net => Touched { network: true, time: true, chance: true, env: true, files: true, ..nothing },
        // A model call reads configuration, waits, has a random id, and prints warnings.
        Effect::Llm | Effect::Loop => Touched {
            network: true,
            time: true,
            chance: true,
            env: true,
            files: true,
            output: true,
            ..nothing
        },
    }
}

fn parts(t: Touched) -> Vec<&'static str> {
    let named = [
        (t.files, "files"),
        (t.processes, "processes"),
        (t.network, "network"),
        (t.time, "time"),
        (t.chance, "chance"),
        (t.env, "env"),
        (t.output, "output"),
        (t.input, "input"),
    ];
    named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
}

/// Returns the example of a builtin.
fn example(builtin: &Builtin) -> Option<String> {
    let text = builtin.doc_text();
    let (_, after) = text.split_once("```harn\n")?;
    Some(after.split_once("```")?.0.to_owned())
}

/// Returns the main class of a label, without its secondary effects.
fn claimed(effect: Effect) -> Option<&'static str> {
    Some(match effect {
        Effect::Pure | Effect::State => return None,
        Effect::Output => "output",
        Effect::Clock => "time",
        Effect::Random => "chance",
        Effect::Env => "env",
        Effect::Fs | Effect::Keep => "files",
        Effect::Human => "input",
        Effect::Process => "processes",
        Effect::Net | Effect::Llm | Effect::Loop => "network",
    })
}

/// Builtins whose example does not have the labelled effect, and the reason.
const UNTOUCHED: &[(&str, &[&str])] = &[
    (
        "the example sets the clock, to show the same time each time",
        &["date_iso", "date_now", "date_now_iso", "now_ms", "timestamp"],
    ),
    ("the example says itself what is a terminal", &["is_stderr_tty", "is_stdin_tty", "is_stdout_tty"]),
    (
        "the example brings its own answers in place of the outside",
        &["prompt_user", "read_line", "read_stdin", "sleep_ms"],
    ),
    (
        "the example chooses the colour, so that nobody asks what the terminal can do",
        &["color", "bold", "dim"],
    ),
    (
        "the example draws from numbers of its own, to be the same each time",
        &["random_int", "random_shuffle"],
    ),
    (
        "ids are drawn for what the example does not make: tools, reminders, forks without a name",
        &[
            "waitpoint_create",
            "agent_session_fork",
            "add_message",
            "add_user",
            "add_assistant",
            "add_system",
            "add_tool_result",
            "run_record_fixture",
        ],
    ),
    ("the example shows the error of a wrong call", &["timer_end", "llm_qc_default_model"]),
    ("paths are looked up on the disk when they are absolute", &["path_workspace_info"]),
    ("it ends the process, which the machine around the program does", &["exit"]),
    ("there is no shell in memory: it looks for one and finds none", &["shell", "shell_at"]),
    (
        "templates of the binary and texts lie in no file; those of a project do",
        &["render", "render_prompt", "render_string", "render_with_provenance", "run_record_eval_suite"],
    ),
    (
        "what a program says of models belongs to their calls, and is refused where those are",
        &[
            "provider_capabilities",
            "provider_capabilities_install",
            "provider_capabilities_clear",
            "provider_register",
            "llm_providers",
            "llm_known_models",
            "llm_model_tier",
            "llm_cost",
            "llm_usage",
            "llm_budget",
            "llm_budget_remaining",
        ],
    ),
    (
        "the configuration of models was read before",
        &["llm_resolve_model", "llm_pick_model", "llm_infer_provider"],
    ),
    ("it asks a provider that does not exist", &["llm_healthcheck"]),
    (
        "models are asked where a text does not suffice",
        &["create_runtime", "agent_session_compact", "transcript_compact", "transcript_auto_compact"],
    ),
    ("the body of the example has no variable", &["skill_render"]),
    ("no server is registered in the example", &["mcp_ensure_active", "mcp_release", "mcp_registry_status"]),
    ("the example reads the card from a file", &["mcp_server_card"]),
];

#[test]
fn labels_claim_no_more_than_examples_touch() {
    let mut untouched = BTreeSet::new();
    for builtin in harn_runtime::tables().into_iter().flatten() {
        let (Some(class), Some(code)) = (claimed(builtin.effect), example(builtin)) else { continue };
        // A mock only replaces servers and models.
        let mocked = class == "network" && code.contains("mock");
        if !mocked && !parts(touched(&code)).contains(&class) {
            untouched.insert(builtin.name());
        }
    }
    let excepted: Vec<&str> = UNTOUCHED.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let known: BTreeSet<&str> = excepted.iter().copied().collect();
    assert_eq!(known.len(), excepted.len(), "a name stands twice");
    assert_eq!(untouched, known);
}

#[test]
fn examples_touch_what_their_builtins_are_labelled_with() {
    let builtins: Vec<&Builtin> = harn_runtime::tables().into_iter().flatten().collect();
    let mut wrong = Vec::new();
    for builtin in &builtins {
        let Some(code) = example(builtin) else { continue };
        let words: BTreeSet<&str> =
            code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').collect();
        let mentioned =
            |name: &str| words.iter().any(|word| *word == name || word.starts_with(&format!("{name}.")));
        let known = builtins.iter().filter(|b| b.name() == builtin.name() || mentioned(b.name()));
        let known: BTreeSet<&str> = known.flat_map(|b| parts(allowed(b.effect))).collect();
        let extra: Vec<&str> =
            parts(touched(&code)).into_iter().filter(|part| !known.contains(part)).collect();
        if !extra.is_empty() {
            wrong.push(format!("{} ({}) touches {extra:?}", builtin.name(), builtin.effect.word()));
        }
    }
    assert!(wrong.is_empty(), "{} labels are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns whether a builtin has effects outside of the program and its output.
fn reaches_outside(effect: Effect) -> bool {
    use Effect::{Clock, Env, Fs, Human, Keep, Llm, Loop, Net, Output, Process, Pure, Random, State};
    match effect {
        Env | Fs | Keep | Net | Process | Llm | Loop | Human => true,
        Pure | State | Output | Clock | Random => false,
    }
}

/// A system layer that records access to the contents of files, processes and servers. Metadata of files is not
/// recorded, because the permission layer itself resolves links.
#[derive(Default)]
struct Contents {
    memory: Memory,
    asked: RefCell<Vec<String>>,
}

impl Contents {
    fn note(&self, what: &str, of: impl std::fmt::Display) -> &dyn System {
        self.asked.borrow_mut().push(format!("{what} {of}"));
        &self.memory
    }
}

impl Layer for Contents {
    fn inner(&self) -> &dyn System {
        &self.memory
    }
    fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.note("names", path.display()).names(path)
    }
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.note("read", path.display()).read(path, limit)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.note("replace", path.display()).replace(path, bytes)
    }
    fn draft(&self, path: &Path) -> io::Result<Box<dyn Draft>> {
        self.note("draft", path.display()).draft(path)
    }
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.note("append", path.display()).append(path, bytes)
    }
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.note("make_dirs", path.display()).make_dirs(path)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.note("make_dir", path.display()).make_dir(path)
    }
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("copy", from.display()).copy(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MoveError> {
        self.note("rename", from.display()).rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note("remove", path.display()).remove(path)
    }
    fn run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        self.note("run", &command.program).run(command)
    }
    fn ask_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        self.note("ask", "a peer").ask_peer(request)
    }
    fn http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        self.note("http", &request.url).http(request)
    }
    fn websocket(&self, request: HttpRequest) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        self.note("websocket", &request.url).websocket(request)
    }
}

/// System files that the runtime reads for `username`, `hostname` and `shell`.
const FACTS: [&str; 4] = ["/proc/self/status", "/proc/sys/kernel/hostname", "/etc/hostname", "/etc/shells"];

/// Returns an example whose single-line statements continue after a permission error, so that all of them are executed.
fn persistent(code: &str) -> String {
    let mut text = String::new();
    for line in code.lines() {
        let count = |c: char| line.matches(c).count();
        let is_whole = count('{') == count('}') && count('(') == count(')') && count('[') == count(']');
        let word = line.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let line = match (word, line.split_once(" = ")) {
            _ if !is_whole || line.starts_with([' ', '}', ')', ']']) => line.to_owned(),
            ("let" | "var", Some((name, value))) => format!("{name} = unwrap_or(try {{ {value} }}, nil)"),
            ("let" | "var" | "fn" | "import" | "return" | "tool" | "type" | "pub" | "", _) => line.to_owned(),
            _ => format!("try {{ {line} }}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns what the code accesses.
fn asked(code: &str, ceiling: Ceiling) -> Vec<String> {
    let contents = Rc::new(Contents::default());
    let builder = harn_runtime::vm_builder(contents.clone()).global("argv", Value::list(Vec::new()));
    let vm = builder.limit(ceiling).build();
    let mut source = Source { name: "example.harn".into(), text: persistent(code), dir: "/project".into() };
    let program = load(&vm, &source).or_else(|_| {
        source.text = code.into();
        load(&vm, &source)
    });
    let Ok(program) = program else { panic!("{code}") };
    // Access during loading belongs to the runtime.
    let _ = harn_runtime::llm_runtime(&vm);
    contents.asked.take();
    let _ = block_on(program.run(&vm, None, &[]));
    let mut asked = contents.asked.take();
    asked.retain(|asked| !FACTS.iter().any(|path| *asked == format!("read {path}")));
    asked
}

/// At the lowest level, no example accesses files, processes or servers, and a builtin with a denied name is not
/// called.
#[test]
fn every_builtin_with_an_effect_asks_for_permission() {
    let (mut wrong, mut permitted) = (Vec::new(), 0);
    for builtin in harn_runtime::tables().into_iter().flatten().filter(|b| reaches_outside(b.effect)) {
        let name = builtin.name();
        let code = example(builtin).unwrap_or_default();
        permitted += usize::from(!asked(&code, Ceiling::default()).is_empty());
        let nothing = Ceiling { level: Level::None, roots: Some(Vec::new()), ..Ceiling::default() };
        let asked = asked(&code, nothing);
        if !asked.is_empty() {
            wrong.push(format!("{name} asks without permission: {asked:?}"));
        }
        let arguments = vec!["nil"; usize::from(builtin.least)].join(", ");
        let denied = Names::AllBut([name.to_owned()].into_iter().collect());
        let vm = harn_runtime::vm_builder(Rc::new(Memory::new())).limit_names(denied).build();
        let text = format!("return {name}({arguments})");
        let source = Source { name: "denied.harn".into(), text: text.clone(), dir: "/project".into() };
        let Ok(program) = load(&vm, &source) else { panic!("{text}") };
        let answer = block_on(program.run(&vm, None, &[])).unwrap().result;
        let expected = format!("Tool '{name}' is not permitted.");
        if !answer.is_err_and(|error| error.to_string().contains(&expected)) && !name.starts_with("__") {
            wrong.push(format!("{name} is called although it is denied"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(permitted > 60, "with permission only {permitted} examples ask for anything");
}

/// Builtins that ask a human or the host. Their labels only describe the effects on the machine.
const ASKS: [&str; 7] = [
    "ask_user",
    "dual_control",
    "escalate_to",
    "host_call",
    "host_tool_call",
    "host_tool_list",
    "request_approval",
];

/// The section of the threat model about builtins lists each one with external effects, in the row of its effect.
#[test]
fn every_builtin_with_an_effect_is_in_the_threat_model() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/threat-model.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Builtins\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut listed = BTreeSet::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (effect, row) = row.split_once('`').unwrap();
        let promise = row.split(" | ").next().unwrap();
        listed.extend(promise.split('`').skip(1).step_by(2).map(|name| (effect, name)));
    }
    let builtins = harn_runtime::tables().into_iter().flatten();
    let known: BTreeSet<(&str, &str)> = builtins
        .filter(|b| reaches_outside(b.effect) || ASKS.contains(&b.name()))
        .map(|b| (b.effect.word(), b.name()))
        .collect();
    let missing: Vec<_> = known.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&known).collect();
    assert!(missing.is_empty() && gone.is_empty(), "missing: {missing:?}, no such builtin: {gone:?}");
}
