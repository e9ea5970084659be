//! Programs that a host keeps: calls of what they export, functions of the host as values.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use harn_system::{Layer, Memory, System};
use harn_vm::{ErrorKind, Instance, NativeFunction, Source, Value, Vm, VmBuilder, block_on, load};

/// Waits until others had their turns.
fn pause() -> Value {
    NativeFunction::value("pause", |cx, _| async move {
        cx.sleep(std::time::Duration::from_millis(1)).await?;
        Ok(Value::NIL)
    })
}

fn instance(system: &Rc<Memory>, text: &str, globals: &[(&str, Value)]) -> (Rc<Vm>, Rc<Instance>) {
    let builder = VmBuilder::new(system.clone()).global("pause", pause());
    let vm = globals.iter().fold(builder, |b, (name, value)| b.global(name, value.clone())).build();
    let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
    let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(text)));
    let instance = Rc::new(Instance::new(&vm, program));
    (vm, instance)
}

fn call(instance: &Instance, name: &str, args: Vec<Value>) -> harn_vm::Call {
    instance.call(&instance.export(name).unwrap_or_else(|| panic!("no {name}")), args)
}

#[test]
fn exports_are_named_in_order_and_come_from_others_too() {
    let system =
        Rc::new(Memory::new().with_file("/lib.harn", "pub fn other() { return 1 }\nfn own() { return 2 }"));
    let text = "pub import \"lib\"\npub struct P { x: int }\npub fn b() { return 3 }\npub fn a() { return 4 }\nfn hidden() { return 5 }";
    let (_vm, instance) = instance(&system, text, &[]);
    let names: Vec<&str> = instance.exports().collect();
    assert_eq!(names, ["other", "P", "b", "a"]);
    assert!(instance.export("hidden").is_none());
    block_on(async {
        instance.begin().await.unwrap();
        assert_eq!(call(&instance, "other", vec![]).result().await.unwrap().as_int(), Some(1));
        instance.end().await.unwrap();
    })
    .unwrap();
}

#[test]
fn machines_have_locks_and_cells_of_their_own() {
    let system = Rc::new(Memory::new());
    let (_one, first) = instance(&system, "let held = sync_mutex_acquire(\"m\")\nshared_set(\"n\", 1)", &[]);
    let text = "fn look() { return [sync_mutex_acquire(\"m\", 0) != nil, shared_get(\"n\")] }";
    let (_other, second) = instance(&system, text, &[]);
    block_on(async {
        first.begin().await.unwrap();
        second.begin().await.unwrap();
        assert_eq!(call(&second, "look", vec![]).result().await.unwrap().to_string(), "[true, nil]");
        first.end().await.unwrap();
        second.end().await.unwrap();
    })
    .unwrap();
}

/// Counts looks at the clock.
struct Looks(Memory, Cell<u32>);

impl Layer for Looks {
    fn inner(&self) -> &dyn System {
        &self.0
    }

    fn monotonic(&self) -> Duration {
        self.1.set(self.1.get() + 1);
        self.0.monotonic()
    }
}

#[test]
fn locks_look_at_the_clock_where_a_program_asks_for_times() {
    let looks = |text: &str| {
        let system = Rc::new(Looks(Memory::new(), Cell::new(0)));
        let vm = VmBuilder::new(system.clone()).build();
        let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
        let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(text)));
        block_on(program.run(&vm, None, &[])).unwrap().result.unwrap();
        system.1.get()
    };
    let none = looks("let n = 1");
    assert_eq!(looks("mutex { let n = 1 }\nlet m = sync_mutex_acquire(\"m\")"), none);
    assert!(looks("mutex { let n = 1 }\nlet all = sync_metrics()") > none);
    assert!(looks("mutex { let n = 1 }\nlet all = sync_metrics\nall()") > none);
}

#[test]
fn functions_open_spans_where_a_program_asks_for_them() {
    let system = Rc::new(Looks(Memory::new(), Cell::new(0)));
    let enable = NativeFunction::value("enable_tracing", |cx, _| async move {
        cx.record_spans(true);
        Ok(Value::NIL)
    });
    let seen = NativeFunction::value("seen", |cx, _| async move {
        let (spans, left_out) = cx.finished_spans();
        // A caller has the lower number and finishes after what it called.
        assert_eq!(left_out, spans.iter().map(|span| span.id - 1).min().unwrap_or(0));
        Ok(Value::int(spans.len() as i64))
    });
    let run = |text: &str| {
        let vm = VmBuilder::new(system.clone())
            .global("enable_tracing", enable.clone())
            .global("seen", seen.clone())
            .build();
        let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
        let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(text)));
        block_on(program.run(&vm, None, &[])).unwrap().result.unwrap().to_string()
    };
    assert_eq!(run("fn f(n) { return n }\nf(1)\nreturn seen()"), "0");
    assert_eq!(system.1.get(), 0);
    assert_eq!(run("fn f(n) { return n }\nenable_tracing()\nf(1)\nf(2)\nreturn seen()"), "2");
    // However a call ends.
    let ways = "fn f(n) { if n == 0 { throw \"no\" }\n return n }\nfn g(n) { return f(n) }\nenable_tracing()\n\
                try { g(0) } catch (e) { }\ng(1)\nreturn seen()";
    assert_eq!(run(ways), "4");
    // The last ones are kept.
    let many = "fn f(n) { return n }\nenable_tracing()\nfor i in 0 to 20000 { f(i) }\nreturn seen()";
    assert_eq!(run(many), "16384");
}

#[test]
fn calls_at_the_same_time_share_the_variables() {
    let system = Rc::new(Memory::new());
    let text =
        "var n = 0\nfn add(k) { let before = n\npause()\nn = n + k\nreturn [before, n] }\nprint(\"top;\")";
    let print = NativeFunction::value("print", |cx, args| async move {
        cx.print(&args[0].to_string())?;
        Ok(Value::NIL)
    });
    let (_vm, instance) = instance(&system, text, &[("print", print)]);
    block_on(async {
        instance.begin().await.unwrap();
        let (one, two) =
            (call(&instance, "add", vec![Value::int(1)]), call(&instance, "add", vec![Value::int(10)]));
        assert_eq!(one.result().await.unwrap().to_string(), "[0, 1]");
        assert_eq!(two.result().await.unwrap().to_string(), "[0, 11]");
        instance.end().await.unwrap();
    })
    .unwrap();
    assert_eq!(system.output(), "top;");
}

#[test]
fn a_call_is_stopped_and_the_others_go_on() {
    let system = Rc::new(Memory::new());
    let cleaned = Rc::new(Cell::new(0));
    let own = cleaned.clone();
    let clean = NativeFunction::value("clean", move |_, _| {
        own.set(own.get() + 1);
        async { Ok(Value::NIL) }
    });
    let text = "fn busy() { defer { clean() }\nwhile true { } }\nfn waits() { defer { clean() }\nwhile true { pause() } }\nfn one() { pause()\nreturn 1 }";
    let (_vm, instance) = instance(&system, text, &[("clean", clean)]);
    block_on(async {
        instance.begin().await.unwrap();
        let calls = [call(&instance, "busy", vec![]), call(&instance, "waits", vec![])];
        assert_eq!(call(&instance, "one", vec![]).result().await.unwrap().as_int(), Some(1));
        for stopped in &calls {
            stopped.abort();
            assert!(matches!(stopped.result().await.unwrap_err().kind(), ErrorKind::Abort));
        }
        assert_eq!(call(&instance, "one", vec![]).result().await.unwrap().as_int(), Some(1));
        instance.end().await.unwrap();
    })
    .unwrap();
    assert_eq!(cleaned.get(), 2);
}

#[test]
fn what_a_call_has_started_ends_with_it() {
    let system = Rc::new(Memory::new());
    let text = "var n = 0\nfn start() { spawn { while true { pause() } }\nreturn 1 }\nfn one() { return 2 }";
    let (vm, instance) = instance(&system, text, &[]);
    block_on(async {
        instance.begin().await.unwrap();
        assert_eq!(call(&instance, "start", vec![]).result().await.unwrap().as_int(), Some(1));
        assert_eq!(call(&instance, "one", vec![]).result().await.unwrap().as_int(), Some(2));
        instance.end().await.unwrap();
    })
    .unwrap();
    drop(vm);
}

#[test]
fn pipelines_get_their_parameters_by_name() {
    let system = Rc::new(Memory::new());
    let (_vm, instance) =
        instance(&system, "pipeline first(a, b) { return [a, b] }\npipeline second() { return 2 }", &[]);
    let given = |name: &str| vec![(name.to_owned(), Value::int(1))];
    block_on(async {
        instance.begin().await.unwrap();
        let first = instance.pipeline(None, &given("b")).unwrap().unwrap();
        assert_eq!(first.result().await.unwrap().to_string(), "[nil, 1]");
        let second = instance.pipeline(Some("second"), &[]).unwrap().unwrap();
        assert_eq!(second.result().await.unwrap().as_int(), Some(2));
        let error = |found: harn_vm::Result<Option<harn_vm::Call>>| found.err().unwrap().uncaught_text();
        assert_eq!(
            error(instance.pipeline(None, &given("c"))),
            "Runtime error: pipeline 'first' has no parameter 'c'; its parameters: a, b"
        );
        assert_eq!(error(instance.pipeline(Some("third"), &[])), "Runtime error: no pipeline named 'third'");
        instance.end().await.unwrap();
    })
    .unwrap();
}

#[test]
fn iterators_are_taken_item_by_item() {
    let system = Rc::new(Memory::new());
    let text = "fn numbers() { for i in 1 to 2 { pause()\nyield i } }";
    let (_vm, instance) = instance(&system, text, &[]);
    block_on(async {
        instance.begin().await.unwrap();
        let numbers = call(&instance, "numbers", vec![]).result().await.unwrap();
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(instance.next(&numbers).result().await.unwrap().to_string());
        }
        assert_eq!(taken, ["[1]", "[2]", "nil"]);
        instance.end().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_top_level_that_fails_says_where() {
    let system = Rc::new(Memory::new());
    let (_vm, instance) = instance(&system, "let a = 1\nthrow \"no\"", &[]);
    block_on(async {
        let error = instance.begin().await.unwrap_err();
        assert_eq!(error.uncaught_text(), "Thrown: no");
        assert_eq!(error.trace()[0].span.start, 16, "the place of what is thrown");
        instance.end().await.unwrap();
    })
    .unwrap();
}

#[test]
fn functions_of_the_host_call_back_and_are_found_again() {
    let system = Rc::new(Memory::new());
    let twice = NativeFunction::of_host(
        "twice",
        |cx, args| async move {
            let once = cx.call(&args[0], [args[1].clone()]).await?;
            cx.call(&args[0], [once]).await
        },
        Rc::new("mine"),
    );
    let (_vm, instance) =
        instance(&system, "fn f(g) { return [g({ x -> x * 3 }, 2), g] }\nfn id(g) { return \"${g}\" }", &[]);
    block_on(async {
        instance.begin().await.unwrap();
        let result = call(&instance, "f", vec![twice.clone()]).result().await.unwrap();
        let list = result.as_list().unwrap();
        assert_eq!(list[0].as_int(), Some(18));
        let host = NativeFunction::host(&list[1]).unwrap();
        assert_eq!(host.downcast_ref::<&str>(), Some(&"mine"));
        assert!(NativeFunction::host(&Value::int(1)).is_none());
        assert!(NativeFunction::host(&instance.export("f").unwrap()).is_none());
        assert_eq!(call(&instance, "id", vec![twice]).result().await.unwrap().to_string(), "<fn(args)>");
        instance.end().await.unwrap();
    })
    .unwrap();
}
