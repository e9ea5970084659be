//! Effects are true: an example touches nothing outside that the builtins in it are not labelled with.

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
        Effect::Fs => Touched { files: true, env: true, ..nothing },
        Effect::Human => Touched { input: true, output: true, ..nothing },
        // A connection to a process has an identity.
        Effect::Process => {
            Touched { processes: true, env: true, files: true, time: true, chance: true, ..nothing }
        }
        Effect::Net => Touched { network: true, time: true, chance: true, env: true, files: true, ..nothing },
        // A model call reads configuration, waits, has an identity, and tells warnings.
        Effect::Llm => Touched {
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

#[test]
fn examples_touch_what_their_builtins_are_labelled_with() {
    let builtins: Vec<&Builtin> = harn_runtime::tables().into_iter().flatten().collect();
    let mut wrong = Vec::new();
    for builtin in &builtins {
        let text = builtin.doc_text();
        let Some((_, after)) = text.split_once("```harn\n") else { continue };
        let Some((code, _)) = after.split_once("```") else { continue };
        let words: BTreeSet<&str> =
            code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').collect();
        let mentioned =
            |name: &str| words.iter().any(|word| *word == name || word.starts_with(&format!("{name}.")));
        let known = builtins.iter().filter(|b| b.name() == builtin.name() || mentioned(b.name()));
        let known: BTreeSet<&str> = known.flat_map(|b| parts(allowed(b.effect))).collect();
        let extra: Vec<&str> =
            parts(touched(code)).into_iter().filter(|part| !known.contains(part)).collect();
        if !extra.is_empty() {
            wrong.push(format!("{} ({}) touches {extra:?}", builtin.name(), builtin.effect.word()));
        }
    }
    assert!(wrong.is_empty(), "{} labels are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
