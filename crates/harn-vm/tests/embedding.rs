//! The library as a host uses it: calls of exported functions, host functions as values, several VMs on one thread.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use harn_system::{Layer, Memory, System};
use harn_vm::{
    BuildError, ErrorKind, EvalError, Instance, LoadError, NativeFunction, Program, Source, Value, Vm,
    VmBuilder, block_on, builtins, load,
};

/// Waits until other tasks have run.
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

/// Counts reads of the clock.
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
        // A caller has the lower number and finishes after its callee.
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
    // Independent of how a call ends.
    let ways = "fn f(n) { if n == 0 { throw \"no\" }\n return n }\nfn g(n) { return f(n) }\nenable_tracing()\n\
                try { g(0) } catch (e) { }\ng(1)\nreturn seen()";
    assert_eq!(run(ways), "4");
    // The last ones are stored.
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

/// A busy run is one future of several: those of the host are polled, and timers fire.
#[test]
fn futures_of_the_host_run_beside_a_busy_program() {
    let seen = Rc::new(Cell::new(false));
    let flag = seen.clone();
    let is_seen = NativeFunction::value("is_seen", move |_, _| {
        let seen = flag.get();
        async move { Ok(seen.into()) }
    });
    let vm = vm_with(&[("is_seen", is_seen)]);
    let busy = program(&vm, "var n = 0\nwhile n < 1000000 && !is_seen() { n += 1 }\nreturn n");
    let steps = block_on(async {
        harn_vm::spawn(async move { seen.set(true) });
        busy.run(&vm, None, &[]).await.result.unwrap().as_int()
    });
    assert!(steps.unwrap().is_some_and(|steps| steps < 100_000));
    let busy = program(&vm, "var n = 0\nwhile n < 300000000 { n += 1 }\nreturn n");
    let limited =
        block_on(async { tokio::time::timeout(Duration::from_millis(20), busy.run(&vm, None, &[])).await });
    assert!(limited.unwrap().is_err());
}

const OTHER_VM: &str = "belongs to another VM: run it in the VM that loaded it";

/// Builds a VM with these globals.
fn vm_with(globals: &[(&str, Value)]) -> Rc<Vm> {
    let call =
        NativeFunction::value("call", |cx, args| async move { cx.call(&args[0], [Value::int(1)]).await });
    let builder = VmBuilder::new(Rc::new(Memory::new())).global("call", call);
    globals.iter().fold(builder, |b, (name, value)| b.global(name, value.clone())).build()
}

fn program(vm: &Vm, text: &str) -> Program {
    let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
    load(vm, &source).unwrap_or_else(|error| panic!("{}", error.canonical(text)))
}

/// Returns the result of a program.
fn value(vm: &Rc<Vm>, text: &str) -> Value {
    block_on(program(vm, text).run(vm, None, &[])).unwrap().result.unwrap()
}

/// Returns the result or the error of a program, as a string.
fn end(vm: &Rc<Vm>, program: &Program) -> String {
    let result = block_on(program.run(vm, None, &[])).unwrap().result;
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

const PROGRAM: &str = "let base = 40\nlet more = {n: 2}\nfn add(x) { return base + x }\npub fn f() { return add(1) }\nreturn add(more.n)";

#[test]
fn programs_run_in_the_vm_that_loaded_them_only() {
    let error = format!("Type error: this program {OTHER_VM}");
    let own = vm_with(&[]);
    let loaded = program(&own, PROGRAM);
    assert_eq!(end(&own, &loaded), "42");
    assert_eq!(end(&vm_with(&[]), &loaded), error);
    let used = vm_with(&[]);
    let theirs = program(&used, "let pin = \"secret\"\nlet x = \"two\"\nfn f() { return pin }\nreturn f()");
    assert_eq!(end(&used, &theirs), "secret");
    assert_eq!(end(&used, &loaded), error);
    assert_eq!(end(&used, &theirs), "secret");
    // The number of a VM is not reused while one of its programs exists.
    drop(own);
    for _ in 0..100 {
        assert_eq!(end(&vm_with(&[]), &loaded), error);
    }
    let instance = Instance::new(&used, loaded);
    block_on(async {
        assert_eq!(instance.begin().await.unwrap_err().to_string(), error);
        assert_eq!(instance.pipeline(None, &[]).err().unwrap().to_string(), error);
        assert!(instance.export("f").is_none() && instance.exports().next().is_none());
        instance.end().await.unwrap();
    })
    .unwrap();
}

/// Covers every way to call a function, read a method or pull a generator of another VM.
#[test]
fn functions_and_generators_run_in_their_own_vm_only() {
    let calls = [
        "return f(1)",
        "let r = f(1)\nreturn r",
        "fn through(g) { let r = g(1)\nreturn r }\nreturn through(f)",
        "fn through(g) { return g(1) }\nreturn through(f)",
        "let d = {f: f}\nreturn d.f(1)",
        "let d = {f: f}\nreturn d.f(...[1])",
        "return f(...[1])",
        "return 1 |> f",
        "return call(f)",
        "return call({ x -> f(x) })",
        "let h = spawn { f(1) }\nreturn await(h)",
        "return parallel each [1, 2] { x -> f(x) }",
    ];
    let sources = [
        ("let mine = 1\nlet k = \"own\"\nreturn { x -> k }", "function"),
        ("return { x -> x + 1 }", "function"),
        ("var n = 0\nreturn { x -> n = n + x\nn }", "function"),
        ("fn f(x, ...rest) { return x }\nreturn f", "function"),
        ("fn f(x) { yield x }\nreturn f", "function"),
    ];
    for (source, what) in sources {
        for keep in [true, false] {
            let own = vm_with(&[]);
            let f = value(&own, source);
            let own = keep.then_some(own);
            for call in calls {
                let vm = vm_with(&[("f", f.clone())]);
                let text = end(&vm, &program(&vm, call));
                assert!(text.contains(&format!("this {what} {OTHER_VM}")), "{source:?} {call:?}: {text}");
                // The program can catch it.
                let caught = end(&vm, &program(&vm, "try { f(1) } catch (e) { return \"caught\" }"));
                assert_eq!(caught, "caught");
            }
            drop(own);
        }
    }
    let own = vm_with(&[]);
    let f = value(&own, "return { x -> x }");
    let other = vm_with(&[]);
    let instance = Instance::new(&other, program(&other, "let n = 1"));
    block_on(async {
        instance.begin().await.unwrap();
        let error = instance.call(&f, vec![Value::int(1)]).result().await.unwrap_err();
        assert!(error.to_string().contains(OTHER_VM), "{error}");
        instance.end().await.unwrap();
    })
    .unwrap();
}

#[test]
fn generators_and_methods_stay_in_their_vm() {
    let pulls = [
        "for x in g { return x }",
        "let items = [...g]\nreturn items",
        "fn f(xs) { for x in xs { yield x } }\nfor x in f(g) { return x }",
    ];
    for keep in [true, false] {
        for source in ["fn f() { yield 1\nyield 2 }", "fn f() { try { yield 1\nyield 2 } finally { 3 } }"] {
            for pull in pulls {
                let own = vm_with(&[]);
                let g = value(&own, &format!("{source}\nreturn f()"));
                let own = keep.then_some(own);
                let vm = vm_with(&[("g", g)]);
                let text = end(&vm, &program(&vm, pull));
                assert!(text.contains(&format!("this generator {OTHER_VM}")), "{pull:?}: {text}");
                drop(own);
            }
        }
        let own = vm_with(&[]);
        let s = value(
            &own,
            "let k = 5\nstruct S { n: int }\nimpl S { fn m(self) { self.n + k } }\nreturn S {n: 1}",
        );
        let own = keep.then_some(own);
        let vm = vm_with(&[("s", s)]);
        // Data can be used in another VM; code cannot. When its VM is dropped, its methods are, too.
        assert_eq!(end(&vm, &program(&vm, "return s.n")), "1");
        let text = end(&vm, &program(&vm, "return s.m()"));
        assert!(text.contains(if keep { OTHER_VM } else { "unknown method `m`" }), "{text}");
        assert!(end(&vm, &program(&vm, "return s.m(...[1])")).contains(if keep {
            OTHER_VM
        } else {
            "unknown method"
        }));
        drop(own);
    }
}

builtins! {
    /// A table that collides with a builtin.
    static COLLIDING: "host";

    /// As one of the language.
    Pure fn channel(cx, name: Value) -> "any" { name }
}

builtins! {
    /// A table that does not collide.
    static OWN: "host";

    /// As no other.
    Pure fn own_name(cx, name: Value) -> "any" { name }
}

#[test]
fn names_of_the_host_that_collide_with_builtins_are_errors() {
    let builder = || VmBuilder::new(Rc::new(Memory::new())).builtins([OWN]);
    let error = builder().builtins([COLLIDING]).try_build().err();
    assert_eq!(error, Some(BuildError::Builtin("channel")));
    assert_eq!(error.unwrap().to_string(), "builtin `channel` already exists: choose another name");
    let function = || NativeFunction::value("f", |_, _| async { Ok(Value::NIL) });
    let error = builder().global("own_name", function()).try_build().err().unwrap();
    assert_eq!(
        error.to_string(),
        "global function `own_name` has the name of a builtin: choose another name"
    );
    let table = harn_vm::MethodTable { type_name: "list", methods: OWN };
    let error = builder().methods([table]).methods([table]).try_build().err().unwrap();
    assert_eq!(error.to_string(), "method `list.own_name` already exists: choose another name");
    // Within one call the earlier table is used: a type may take most of its methods from a more general one.
    assert!(builder().methods([table, table]).try_build().is_ok());
    // A global that cannot be called does not shadow the builtin.
    let vm = builder().global("own_name", 1i64).global("other", function()).build();
    assert_eq!(value(&vm, "return own_name(2)").as_int(), Some(2));
}

#[test]
fn errors_are_errors_of_rust() {
    fn shown(error: impl std::error::Error + 'static) -> String {
        let error: Box<dyn std::error::Error> = error.into();
        error.to_string()
    }
    let vm = vm_with(&[]);
    let load_error = |text: &str| {
        let source = Source { name: "m".into(), text: text.into(), dir: "/".into() };
        load(&vm, &source).err().unwrap()
    };
    assert_eq!(
        shown(load_error("let = 1")),
        "Expected variable name or destructuring pattern, got = at byte 4"
    );
    let compile: LoadError = load_error("break\nreturn nope");
    let text = compile.to_string();
    assert!(text.starts_with("Compile error at byte "), "{text}");
    if let LoadError::Compile(errors) = compile {
        assert!(shown(errors[0].clone()).starts_with("Compile error at byte "));
    }
    assert_eq!(shown(EvalError::Load(load_error("("))), load_error("(").to_string());
    assert_eq!(
        shown(BuildError::Global("f".into())),
        "global function `f` has the name of a builtin: choose another name"
    );
}
