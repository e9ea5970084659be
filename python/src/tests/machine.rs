use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{
    LIMIT, call, failure, host_function, loaded, loaded_with, options, result, returning, show, value,
};
use crate::data::Data;
use crate::host::{HostException, Reply};
use crate::machine::Machine;
use crate::pending::{Completion, Failure};

fn start(code: &str) -> Machine {
    Machine::start(options(code)).unwrap()
}

fn text(text: &str) -> Data {
    Data::Str(text.to_owned())
}

#[test]
fn a_program_runs_and_its_output_is_captured() {
    let machine = start("println(\"out\")\neprintln(\"err\")\nreturn 6 * 7");
    assert_eq!(show(&value(&machine.ready())), "nil");
    assert_eq!(show(&value(&machine.begin())), "42");
    assert_eq!(machine.output(), ("out\n".to_owned(), "err\n".to_owned()));
}

#[test]
fn a_source_that_does_not_compile_fails_with_its_location() {
    let failure = failure(&start("let a = 1\nlet = 2\n").ready());
    assert_eq!(failure.kind, "syntax");
    assert_eq!((&*failure.trace[0].file, failure.trace[0].line), ("test.harn", 2));
}

#[test]
fn a_thrown_dict_keeps_its_parts() {
    let program = loaded("fn f() {\n  throw {message: \"busy\", category: \"rate_limit\", after: 5}\n}");
    let failure = failure(&program.call("f".into(), Vec::new()));
    assert_eq!((failure.kind, &*failure.message), ("thrown", "busy"));
    assert_eq!(failure.category.as_deref(), Some("rate_limit"));
    assert_eq!(show(&failure.value), r#"{message: "busy", category: "rate_limit", after: 5}"#);
    assert_eq!((&*failure.trace[0].function, failure.trace[0].line), ("f", 2));
}

#[test]
fn kinds_of_failures() {
    for (code, kind, exit_code) in [
        ("fn f() { throw \"no\" }", "thrown", None),
        ("fn f() { return 1 / 0 }", "runtime", None),
        ("fn f() { return \"a\" - 1 }", "type", None),
        ("fn f() { throw_error(\"late\", \"timeout\") }", "thrown", None),
        ("fn f() { exit(3) }", "exit", Some(3)),
    ] {
        let failure = failure(&loaded(code).call("f".into(), Vec::new()));
        assert_eq!((failure.kind, failure.code), (kind, exit_code), "{code}");
    }
}

#[test]
fn unknown_names_list_the_known_ones() {
    let program = loaded("fn one() { }\nfn two() { }");
    let unknown = failure(&program.call("three".into(), Vec::new()));
    assert_eq!(
        (unknown.kind, &*unknown.message),
        ("name", "the program exports no 'three'; it exports one, two")
    );
    let unknown = failure(&program.builtin("three".into(), Vec::new()));
    assert_eq!((unknown.kind, &*unknown.message), ("name", "unknown builtin 'three'"));
    assert_eq!(show(&value(&program.exports())), r#"["one", "two"]"#);
}

#[test]
fn builtins_are_called_without_a_program() {
    let machine = loaded("");
    let upper = machine.builtin("abs".into(), vec![Data::Int(-2)]);
    assert_eq!(show(&value(&upper)), "2");
}

#[test]
fn pipelines_take_parameters_by_name() {
    let program = loaded("pipeline main(who, times) { return \"${who} ${times}\" }");
    let parameters = vec![("who".to_owned(), text("Ada"))];
    assert_eq!(show(&value(&program.pipeline(None, parameters))), r#"["Ada nil"]"#);
    let unknown = program.pipeline(None, vec![("whom".to_owned(), Data::Nil)]);
    assert_eq!(
        failure(&unknown).message,
        "Runtime error: pipeline 'main' has no parameter 'whom'; its parameters: who, times"
    );
    assert_eq!(show(&value(&loaded("return 1").pipeline(None, Vec::new()))), "nil");
}

#[test]
fn a_cancelled_call_runs_its_cleanup_and_the_program_lives_on() {
    let program = loaded("fn f() { defer { println(\"cleaned up\") }\nsleep(1h) }\nfn g() { return 1 }");
    let running = program.call("f".into(), Vec::new());
    assert!(!running.slot.wait(Duration::from_millis(20)));
    running.cancel();
    assert_eq!(failure(&running).kind, "cancelled");
    assert_eq!(program.output().0, "cleaned up\n");
    assert_eq!(show(&call(&program, "g", Vec::new())), "1");
}

#[test]
fn a_cancelled_program_runs_its_cleanup() {
    let machine = start("defer { println(\"cleaned up\") }\nwhile true { }");
    value(&machine.ready());
    let running = machine.begin();
    assert!(!running.slot.wait(Duration::from_millis(20)));
    running.cancel();
    result(&running).err().expect("a failure");
    assert_eq!(machine.output().0, "cleaned up\n");
}

#[test]
fn a_program_that_is_cancelled_before_it_is_built_stops() {
    let machine = start("while true { }");
    let running = machine.begin();
    running.cancel();
    result(&running).err().expect("a failure");
}

#[test]
fn closing_ends_the_thread_and_a_busy_program() {
    let machine = start("defer { println(\"cleaned up\") }\nwhile true { }");
    let running = machine.begin();
    value(&machine.ready());
    assert!(!running.slot.wait(Duration::from_millis(20)) && machine.is_running());
    result(&machine.close()).ok().expect("closed");
    assert!(!machine.is_running());
    result(&running).err().expect("a failure");
    assert_eq!(machine.output().0, "cleaned up\n");
}

#[test]
fn calls_fail_after_the_end() {
    let program = loaded("fn f() { return { x -> x } }");
    let Data::Function(function) = call(&program, "f", Vec::new()) else { panic!("expected a function") };
    value(&program.close());
    for late in [
        program.call("f".into(), Vec::new()),
        program.builtin("abs".into(), Vec::new()),
        program.exports(),
        program.begin(),
        program.close(),
        function.call(Vec::new()),
        function.next_item(),
    ] {
        let failure = failure(&late);
        assert_eq!((failure.kind, &*failure.message), ("closed", &*Failure::closed().message));
    }
}

#[test]
fn a_call_ends_when_its_machine_is_dropped() {
    let program = loaded("fn f() { sleep(1h) }");
    let running = program.call("f".into(), Vec::new());
    drop(program);
    let kind = failure(&running).kind;
    assert!(["cancelled", "closed"].contains(&kind), "{kind}");
}

#[test]
fn a_completion_that_is_dropped_settles_its_slot() {
    let (done, slot) = Completion::with_slot();
    let called = Arc::new(AtomicUsize::new(0));
    let count = || {
        let called = called.clone();
        Box::new(move || {
            called.fetch_add(1, Ordering::SeqCst);
        })
    };
    slot.on_settled(count());
    assert!(!slot.wait(Duration::ZERO));
    drop(done);
    assert!(slot.wait(Duration::ZERO));
    slot.on_settled(count());
    assert_eq!(called.load(Ordering::SeqCst), 2, "listeners run once each, also late ones");
    assert_eq!(slot.take().unwrap().err().unwrap().kind, "closed");
    assert!(slot.take().is_none(), "a result is taken once");
}

#[test]
fn a_host_that_panics_fails_its_own_call_only() {
    let broken = host_function(|_, _| panic!("expected by the test"));
    let code = "fn f() { broken() }\nfn g() { sleep(1h) }\nfn h() { return 1 }";
    let program = loaded_with(code, vec![("broken", Data::Callable(broken))]);
    let waiting = program.call("g".into(), Vec::new());
    let failed = failure(&program.call("f".into(), Vec::new()));
    assert_eq!(failed.kind, "runtime");
    assert!(failed.message.contains("expected by the test"), "{}", failed.message);
    assert!(!waiting.slot.wait(Duration::ZERO));
    assert_eq!(show(&call(&program, "h", Vec::new())), "1");
}

#[test]
fn a_thread_that_panics_ends_all_waits() {
    let program = loaded("fn g() { sleep(1h) }");
    let waiting = program.call("g".into(), Vec::new());
    let panicking = program.call("g".into(), Vec::new());
    // Listeners run on the machine's thread, outside of the VM.
    panicking.slot.on_settled(Box::new(|| panic!("expected by the test")));
    panicking.cancel();
    assert_eq!(failure(&waiting).kind, "closed");
    assert_eq!(failure(&program.call("g".into(), Vec::new())).kind, "closed");
    result(&program.close()).err().expect("a failure");
    assert!(program.wait_ended(LIMIT));
}

#[test]
fn exceptions_of_the_host_are_caught() {
    let fail = host_function(|_, reply| {
        reply.send(Err(HostException {
            type_name: "KeyError".to_owned(),
            message: "lost".to_owned(),
            exception: returning(|_| Data::Nil),
            value: None,
        }));
        Ok(())
    });
    let program = loaded_with(
        "fn f() { try { fail() } catch (e) { return [e.category, e.type, e.message, type_of(e.exception)] } }",
        vec![("fail", Data::Callable(fail))],
    );
    let caught = r#"["python", "KeyError", "KeyError: lost", "python_object"]"#;
    assert_eq!(show(&call(&program, "f", Vec::new())), caught);
}

#[test]
fn an_error_of_a_program_passes_through_the_host() {
    let fail = host_function(|_, reply| {
        reply.send(Err(HostException {
            type_name: "HarnThrown".to_owned(),
            message: "text".to_owned(),
            exception: returning(|_| Data::Nil),
            value: Some(Data::Dict(vec![("code".to_owned(), Data::Int(7))])),
        }));
        Ok(())
    });
    let program =
        loaded_with("fn f() { try { fail() } catch (e) { return e } }", vec![("fail", Data::Callable(fail))]);
    assert_eq!(show(&call(&program, "f", Vec::new())), "{code: 7}");
}

#[test]
fn a_host_that_cannot_call_or_does_not_answer_is_an_error() {
    let unable = host_function(|_, _| Err("no interpreter".to_owned()));
    let silent = host_function(|_, reply| {
        drop(reply);
        Ok(())
    });
    let program = loaded_with(
        "fn f() { unable() }\nfn g() { silent() }",
        vec![("unable", Data::Callable(unable)), ("silent", Data::Callable(silent))],
    );
    let message = |name: &str| failure(&program.call(name.into(), Vec::new())).message;
    assert_eq!(message("f"), "Runtime error: no interpreter");
    assert_eq!(message("g"), "Runtime error: the Python function returned no result");
}

#[test]
fn the_host_may_answer_from_another_thread() {
    let later = host_function(|args, reply| {
        std::thread::spawn(move || reply.send(Ok(Data::List(args))));
        Ok(())
    });
    let program = loaded_with("fn f() { return later(1, \"x\") }", vec![("later", Data::Callable(later))]);
    assert_eq!(show(&call(&program, "f", Vec::new())), r#"[1, "x"]"#);
}

#[test]
fn a_cancelled_call_is_reported_to_the_host() {
    let (sender, replies) = channel::<Reply>();
    let sender = Mutex::new(sender);
    let wait = host_function(move |_, reply| {
        sender.lock().unwrap().send(reply).unwrap();
        Ok(())
    });
    let program = loaded_with("fn f() { wait() }", vec![("wait", Data::Callable(wait))]);
    let running = program.call("f".into(), Vec::new());
    let reply = replies.recv_timeout(LIMIT).unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let (early, late) = (cancelled.clone(), Arc::new(AtomicBool::new(false)));
    reply.on_cancel(Box::new(move || early.store(true, Ordering::SeqCst)));
    running.cancel();
    assert_eq!(failure(&running).kind, "cancelled");
    assert!(cancelled.load(Ordering::SeqCst));
    let flag = late.clone();
    reply.on_cancel(Box::new(move || flag.store(true, Ordering::SeqCst)));
    assert!(late.load(Ordering::SeqCst), "a listener that comes late runs at once");
    reply.send(Ok(Data::Nil));
}

#[test]
fn an_answered_call_is_not_reported_as_cancelled() {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    let answer = host_function(move |_, reply| {
        let flag = flag.clone();
        reply.on_cancel(Box::new(move || flag.store(true, Ordering::SeqCst)));
        reply.send(Ok(Data::Int(1)));
        reply.send(Ok(Data::Int(2)));
        Ok(())
    });
    let program = loaded_with("fn f() { return answer() }", vec![("answer", Data::Callable(answer))]);
    assert_eq!(show(&call(&program, "f", Vec::new())), "1", "the first answer is the result");
    value(&program.close());
    assert!(!cancelled.load(Ordering::SeqCst));
}

#[test]
fn streams_of_the_host_are_read_lazily() {
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = pulled.clone();
    let next = returning(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        n @ 0..3 => Data::List(vec![Data::Int(i64::try_from(n).unwrap())]),
        _ => Data::Nil,
    });
    let program = loaded(
        "fn first(s) { for x in s { return x } }\nfn all(s) { var items = []\nfor x in s { items = items + [x] }\nreturn items }",
    );
    assert_eq!(show(&call(&program, "first", vec![Data::Pull(next.clone())])), "0");
    assert_eq!(pulled.load(Ordering::SeqCst), 1);
    assert_eq!(show(&call(&program, "all", vec![Data::Pull(next)])), "[1, 2]");
}

#[test]
fn generators_are_read_item_by_item_and_released() {
    let code =
        "gen fn numbers() { defer { println(\"ended\") }\nfor i in 1 to 3 { emit i } }\nfn g() { return 1 }";
    let program = loaded(code);
    let Data::Stream(numbers) = call(&program, "numbers", Vec::new()) else { panic!("expected a stream") };
    assert_eq!(show(&value(&numbers.next_item())), "[1]");
    assert_eq!(program.output().0, "");
    drop(numbers);
    call(&program, "g", Vec::new());
    assert_eq!(program.output().0, "ended\n", "releasing the generator runs its cleanup");
    let Data::Stream(numbers) = call(&program, "numbers", Vec::new()) else { panic!("expected a stream") };
    let items: Vec<String> = (0..5).map(|_| show(&value(&numbers.next_item()))).collect();
    assert_eq!(items, ["[1]", "[2]", "[3]", "nil", "nil"]);
}

#[test]
fn functions_of_a_program_are_called() {
    let program = loaded("fn adder(n) { return { x -> x + n } }");
    let Data::Function(add) = call(&program, "adder", vec![Data::Int(10)]) else {
        panic!("expected a function")
    };
    assert_eq!((&*add.type_name, show(&value(&add.call(vec![Data::Int(1)])))), ("closure", "11".to_owned()));
}

#[test]
fn the_inputs_of_a_program() {
    let mut with = options("return [argv, context.task, env(\"HARN_TEST_OVERLAY\"), limit]");
    with.argv = vec!["a".to_owned()];
    with.task = Some("tidy".to_owned());
    with.env.insert("HARN_TEST_OVERLAY".to_owned(), "x".to_owned());
    with.globals = vec![("limit".to_owned(), Data::Int(3))];
    let machine = Machine::start(with).unwrap();
    assert_eq!(show(&value(&machine.begin())), r#"[["a"], "tidy", "x", 3]"#);
}

#[test]
fn a_global_must_not_shadow_a_builtin() {
    let mut with = options("return 1");
    with.globals = vec![("println".to_owned(), Data::Nil)];
    let failure = failure(&Machine::start(with).unwrap().ready());
    let message = "globals: `println` is a builtin; choose another name";
    assert_eq!((failure.kind, &*failure.message), ("value", message));
}

#[test]
fn mocks_answer_model_calls() {
    let mut with = options("return llm_call(\"hi\", nil, {provider: \"mock\"}).text");
    with.mocks = vec![Data::Dict(vec![("text".to_owned(), text("hello"))])];
    assert_eq!(show(&value(&Machine::start(with).unwrap().begin())), r#""hello""#);
    let mut with = options("return 1");
    with.mocks = vec![Data::Callable(returning(|_| Data::Nil))];
    let failure = failure(&Machine::start(with).unwrap().ready());
    assert_eq!((failure.kind, &*failure.message), ("value", "llm_mock: expected a dict argument"));
}

#[test]
fn the_sandbox_of_the_environment_fails_closed() {
    let roots = || vec![std::path::PathBuf::from("/project")];
    for off in [None, Some(""), Some("off")] {
        assert!(crate::machine::sandbox(off, roots()).unwrap().is_none());
    }
    let ceiling = crate::machine::sandbox(Some("enforce"), roots()).unwrap().unwrap();
    assert_eq!((ceiling.level, ceiling.roots), (harn_system::Level::ProcessExec, Some(roots())));
    assert_eq!(
        crate::machine::sandbox(Some("yes"), roots()).unwrap_err(),
        "HARN_HANDLER_SANDBOX must be `enforce` or `off`, got `yes`"
    );
}

#[test]
fn the_manifest_applies_to_programs_of_a_project_only() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("harn.toml"), "[broken").unwrap();
    let machine = |project| {
        let mut with = options("return context.project_root");
        with.source.dir = dir.path().to_owned();
        with.project = project;
        Machine::start(with).unwrap()
    };
    let broken = failure(&machine(true).ready());
    assert!(broken.message.starts_with("failed to parse"), "{}", broken.message);
    assert_eq!(show(&value(&machine(false).begin())), "nil");
    std::fs::write(dir.path().join("harn.toml"), "[package]\nname = \"demo\"\n").unwrap();
    let root = show(&value(&machine(true).begin()));
    assert_eq!(root, format!("{:?}", dir.path().canonicalize().unwrap().display().to_string()));
}
