//! Tasks: a failure is reported to the user, even if the program does not await the task.

use crate::common::{durable, folder, harn_in, run_text};

/// Runs a program. Returns its exit code, output and errors.
fn run(program: &str) -> (i32, String, String) {
    let ran = run_text(program);
    (ran.code, ran.out, ran.err)
}

#[test]
fn the_failure_of_a_task_that_nothing_awaits_is_told() {
    let (code, out, err) = run("let h = spawn { throw \"boom\" }\nsleep(5ms)\nprintln(\"end\")\n");
    assert_eq!((code, out.as_str()), (0, "end\n"), "{err}");
    assert!(
        err.starts_with("warning: an unawaited task failed: Thrown: boom\n  --> main.harn:1:23"),
        "{err}"
    );
    assert!(err.contains("help: `await` its handle"), "{err}");

    let (code, _, err) = run("spawn { 1 / (len(\"\")) }\nsleep(5ms)\n");
    assert_eq!((code, err.matches("warning").count()), (0, 1), "{err}");
    assert!(err.contains("Division by zero"), "{err}");
}

#[test]
fn it_is_told_at_once_when_nothing_can_await_it() {
    let (code, _, err) = run("spawn { throw \"early\" }\nsleep(5ms)\neprintln(\"later\")\n");
    assert_eq!(code, 0, "{err}");
    let place = |text| err.find(text).unwrap_or_else(|| panic!("{text}: {err}"));
    assert!(place("early") < place("later"), "{err}");
}

#[test]
fn what_is_awaited_cancelled_or_ended_by_a_limit_is_not_told_again() {
    for program in [
        "let h = spawn { throw \"boom\" }\nprintln(try { await(h) } catch (e) { e })\n",
        "let h = spawn { throw \"boom\" }\nsleep(5ms)\ncancel(h)\n",
        "let h = spawn { throw \"boom\" }\nsleep(5ms)\nprintln(cancel_graceful(h))\n",
        "let h = spawn { sleep(60s) }\nsleep(5ms)\nprintln(cancel_graceful(h))\n",
        "try { deadline 5ms { spawn { sleep(60s) }\n sleep(60s) } } catch (e) { println(e) }\n",
        "println(parallel settle [1] { x -> throw \"boom\" })\n",
        "println(parallel_race([1, 2], { x -> if x == 1 { throw \"boom\" } else { x } }))\n",
    ] {
        let (code, _, err) = run(program);
        assert_eq!((code, err.as_str()), (0, ""), "{program}");
    }
}

#[test]
fn a_task_that_the_end_of_the_program_cancels_is_told() {
    let program =
        "let h = spawn { sleep(60s) }\nfor i in 1 to 3 {\n  spawn { sleep(60s) }\n}\nprintln(\"ends\")\n";
    let (code, out, err) = run(program);
    assert_eq!((code, out.as_str()), (0, "ends\n"), "{err}");
    assert_eq!(
        err,
        "[harn] warning: task spawned at main.harn:1 was cancelled because the program ended; await it or use a supervisor\n\
         [harn] warning: 3 tasks spawned at main.harn:3 were cancelled because the program ended; await it or use a supervisor\n"
    );
    let (_, _, err) = run("let h = spawn { 1 }\nsleep(5ms)\nlet g = spawn { 2 }\nprintln(await(g))\n");
    assert_eq!(err, "");
}

#[test]
fn a_task_of_a_task_is_told_by_its_owner() {
    let (code, _, err) = run("await(spawn { let h = spawn { throw \"inner\" }\n sleep(5ms)\n nil })\n");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("an unawaited task failed: Thrown: inner"), "{err}");
}

#[test]
fn a_deadlock_says_which_task_failed_before() {
    let program = "let jobs = channel(\"jobs\")\nlet producer = spawn { throw \"no jobs\" }\nfor job in jobs { println(job) }\n";
    let (code, _, err) = run(program);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("warning: an unawaited task failed: Thrown: no jobs"), "{err}");
    assert!(
        err.contains("error: Runtime error: deadlock: no task is left that could end this wait"),
        "{err}"
    );
}

#[test]
fn a_deadlock_is_replayed() {
    let program =
        "let c = channel(\"c\")\nprintln(try { receive(c) } catch (e) { e })\nwrite_file(\"x\", \"1\")\n";
    let scratch = folder(&[("main.harn", program)]);
    let ran = durable(scratch.path(), &["main.harn"]);
    assert!(ran.out.contains("deadlock: no task is left"), "{}", ran.shown());
    let again = harn_in(scratch.path(), &["replay", "r", "--check"]);
    assert_eq!(again.code, 0, "{}", again.shown());
}

#[test]
fn a_worker_that_fails_while_nothing_asks_for_it_is_told() {
    let start = "let w = spawn_agent({task: \"x\", name: \"away\", node: {mode: \"llm\", model_policy: {provider: \"openai\", model: \"gpt-4o\"}}})\n";
    let (code, out, err) = run(&format!("{start}sleep(100ms)\nprintln(\"end\")\n"));
    assert_eq!((code, out.as_str()), (0, "end\n"), "{err}");
    assert!(err.contains("[harn] warning: the worker away failed, and nothing asked for it: "), "{err}");
    assert!(err.contains("OPENAI_API_KEY"), "{err}");

    let (code, out, err) = run(&format!("{start}println(wait_agent(w).status)\n"));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "failed\n", ""));
}
