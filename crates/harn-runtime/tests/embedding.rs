//! Programs embedded in a host: limits that the host sets, and threads of the host's async runtime.

use std::path::PathBuf;
use std::rc::Rc;

use harn_system::{Ceiling, Level, Memory, Real, System};
use harn_vm::{Source, Vm, VmBuilder, block_on, load};

fn source(text: &str) -> Source {
    Source { name: "main.harn".into(), text: text.into(), dir: "/project".into() }
}

/// Returns the result of a program, or its error, in one line.
fn answer(vm: &Rc<Vm>, text: &str) -> String {
    let line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    match load(vm, &source(text)) {
        Err(error) => line(format!("not loaded: {error}")),
        Ok(program) => match block_on(program.run(vm, None, &[])).unwrap().result {
            Ok(value) => value.to_string(),
            Err(error) => line(error.to_string()),
        },
    }
}

fn machine() -> Rc<dyn System> {
    let memory = Memory::new()
        .with_file("/project/own.harn", "pub fn x() { return \"own\" }")
        .with_file("/project/own.prompt", "own {{ x }}")
        .with_file("/outside.harn", "pub fn x() { return try { read_file(\"/out/secret\") } }")
        .with_file("/evil.prompt", "TREASURE {{ x }}")
        .with_file("/out/secret", "TREASURE")
        .with_link("/outside.harn", "/project/link.harn")
        .with_env("SECRET_KEY", "TREASURE");
    Rc::new(memory)
}

/// Imports are allowed independently of their location, because they are part of the program; their effects are limited
/// like the program's.
#[test]
fn what_a_program_reads_while_it_runs_has_the_limits_of_the_host() {
    let limited = |level| {
        let roots = Some(vec![PathBuf::from("/project")]);
        let ceiling = Ceiling { level, roots, ..Ceiling::default() };
        harn_runtime::vm_builder(machine()).limit(ceiling).build()
    };
    let mut seen = String::new();
    for level in [Level::None, Level::ReadOnly] {
        for text in [
            "import \"own\"\nreturn x()",
            "import { x } from \"../outside\"\nreturn x()",
            "import \"link\"\nreturn x()",
            "return render(\"own.prompt\", {x: 1})",
            "return render(\"../evil.prompt\", {x: 1})",
            "return render_prompt(\"../evil.prompt\", {x: 1})",
            "return list_dir(\"/out\")",
            "return file_exists(\"/out/secret\")",
            "return llm_call(\"x\", nil, {provider: \"openai\", model: \"m\", api_key: \"k\", base_url: \"http://a.test\"}).text",
        ] {
            let answer = answer(&limited(level), text);
            assert!(!answer.contains("TREASURE"), "{level:?} {text}: {answer}");
            seen.push_str(&format!("{level:?} {}: {answer}\n", text.replace('\n', "; ")));
        }
    }
    assert_eq!(seen, include_str!("embedding/limits.txt"));
}

/// Returns twice `i` after a delay.
fn twice(i: i64) -> String {
    let builder: VmBuilder = harn_runtime::vm_builder(Rc::new(Real::new()));
    answer(&builder.global("i", harn_value::Value::int(i)).build(), "sleep(20)\nreturn i * 2")
}

#[test]
fn threads_for_blocking_work_run_programs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(async {
        let started: Vec<_> = (0..20).map(|i| tokio::task::spawn_blocking(move || twice(i))).collect();
        let mut answers = Vec::new();
        for task in started {
            answers.push(task.await.unwrap());
        }
        answers
    });
    let expected: Vec<String> = (0..20).map(|i| (i * 2).to_string()).collect();
    assert_eq!(answers, expected);
}
