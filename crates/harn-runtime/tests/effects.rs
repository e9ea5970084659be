//! Effects are true: an example touches nothing outside that the builtins in it are not labelled with, and what a builtin is labelled
//! with is touched by its example, unless there is a reason.

use std::collections::BTreeSet;
use std::rc::Rc;

use harn_system::{Memory, Recorder, Touched};
use harn_value::Value;
use harn_vm::{Builtin, Effect, Source, block_on, load};

/// Runs code in a system that records.
fn touched(code: &str) -> Touched {
    let memory = Memory::new().with_env("HARN_LLM_CALLS_DISABLED", "1");
    let recorder = Rc::new(Recorder::over(Rc::new(memory)));
    let vm = harn_runtime::vm_builder(recorder.clone()).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "example.harn".into(), text: code.into(), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{code}") };
    // What loading touched, the program and the configuration of models, is the runtime's own.
    let _ = harn_runtime::llm_runtime(&vm);
    recorder.take();
    let _ = block_on(program.run(&vm, None, &[]));
    recorder.take()
}

/// What a label stands for.
fn allowed(effect: Effect) -> Touched {
    let nothing = Touched::default();
    match effect {
        Effect::Pure | Effect::State => nothing,
        // Lines of logs tell the time; colour asks for the terminal.
        Effect::Output => Touched { output: true, time: true, env: true, ..nothing },
        Effect::Clock => Touched { time: true, ..nothing },
        Effect::Random => Touched { chance: true, time: true, ..nothing },
        // Facts of the process come from the environment and from files of the system.
        Effect::Env => Touched { env: true, files: true, ..nothing },
        Effect::Fs | Effect::Keep => Touched { files: true, env: true, ..nothing },
        Effect::Human => Touched { input: true, output: true, ..nothing },
        // A connection to a process has an identity.
        Effect::Process => {
            Touched { processes: true, env: true, files: true, time: true, chance: true, ..nothing }
        }
        Effect::Net => Touched { network: true, time: true, chance: true, env: true, files: true, ..nothing },
        // A model call reads configuration, waits, has an identity, and tells warnings.
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

/// The example of a builtin.
fn example(builtin: &Builtin) -> Option<String> {
    let text = builtin.doc_text();
    let (_, after) = text.split_once("```harn\n")?;
    Some(after.split_once("```")?.0.to_owned())
}

/// The class that a label is about, without what comes with it.
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

/// Builtins whose example does not touch what they are labelled with, and why.
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
        // A mock answers in place of servers and models, and of nothing else.
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
