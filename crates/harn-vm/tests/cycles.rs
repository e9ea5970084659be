//! Cycles through captured variables are freed, and no other values are. Tests count live variables, so that
//! none depends on memory or time.

use std::rc::Rc;

use harn_system::Memory;
use harn_value::Str;
use harn_vm::channel::Channel;
use harn_vm::cycles::{collect, live_variables};
use harn_vm::iter::Stage;
use harn_vm::{Source, Value, Vm, VmBuilder, block_on, builtins, load};

builtins! {
    static HELPERS: "test";
    /// Collects all cycles, and gives the number of captured variables alive.
    Pure fn alive(cx) -> "int" {
        collect(true);
        live_variables()
    }
    /// Captured variables alive, without a collection.
    Pure fn alive_now(cx) -> "int" { live_variables() }
    /// An iterator over `source`, and with a function one with a stage of that kind.
    Pure fn pipe(cx, source: Value, kind: Value as "any?", f: Value as "any?") -> "iter" {
        let iter = cx.iter(&source)?;
        let staged = match kind.as_str().map(Str::as_str) {
            Some("map") => iter.then(Stage::Map(f)),
            Some("filter") => iter.then(Stage::Filter(f)),
            Some("zip") => iter.then(Stage::Zip { other: cx.iter(&f)?, first: None }),
            Some("chain") => iter.chain(cx.iter(&f)?),
            Some("flat_map") => iter.then(Stage::FlatMap { f, inner: None }),
            Some("scan") => iter.then(Stage::Scan { accumulator: f.clone(), f }),
            _ => iter,
        };
        staged.into_value()
    }
    /// The next item of an iterator over what is at hand.
    Pure fn next(cx, iter: Value) -> "any" { cx.iter(&iter)?.try_next()?.flatten() }
    /// A channel with a value in it.
    State async fn full_channel(cx, value: Value) -> "any" {
        let channel = Channel::new("c", 1);
        channel.send(value).await;
        channel.into_value()
    }
    /// Prints.
    Output fn println(cx, x: Value) -> "nil" {
        cx.print(&format!("{x}\n"))?;
        Value::NIL
    }
}

fn machine(system: &Rc<Memory>) -> Rc<Vm> {
    VmBuilder::new(system.clone()).builtins([HELPERS]).build()
}

/// Returns the printed result of a program, and its output.
fn outcome(text: &str) -> (String, String) {
    let system = Rc::new(Memory::new());
    let vm = machine(&system);
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).map_err(|e| e.canonical(text)).unwrap();
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    let result = outcome.result.map_or_else(|e| e.uncaught_text(), |v| v.to_string());
    (result, system.output())
}

fn run(text: &str) -> String {
    outcome(text).0
}

#[test]
fn a_local_recursive_function_is_freed() {
    let text = "fn t() { var f = nil\nf = { n -> if n == 0 { 1 } else { f(n - 1) } }\nreturn f(3) }\n\
                for i in 1 to 100 { t() }\nreturn [alive_now() >= 100, alive()]";
    assert_eq!(run(text), "[true, 0]");
}

#[test]
fn functions_that_call_each_other_are_freed() {
    let text = "fn t() { let big = [1, 2]\n\
                fn a(n) { if n == 0 { big[0] } else { b(n - 1) } }\n\
                fn b(n) { if n == 0 { big[1] } else { a(n - 1) } }\nreturn a(5) }\n\
                for i in 1 to 100 { t() }\nreturn alive()";
    assert_eq!(run(text), "0");
}

#[test]
fn cycles_through_every_kind_of_container_are_freed() {
    let text = "struct S { f, g }\nenum E { A(x), B }\n\
        fn list() { var v = nil\nv = [1, [{ -> v }]] }\n\
        fn dict() { var v = nil\nv = {a: {b: { -> v }}} }\n\
        fn instance() { var v = nil\nv = S {f: 1, g: { -> v }}\nv.extra = v.g }\n\
        fn variant() { var v = nil\nv = E.A({ -> v }) }\n\
        fn long(n) { var v = nil\nvar w = { -> v }\nfor i in 1 to n { let u = w\nw = { -> u } }\nv = w }\n\
        for i in 1 to 10 { list()\ndict()\ninstance()\nvariant()\nlong(1000) }\nreturn alive()";
    assert_eq!(run(text), "0");
}

#[test]
fn cycles_through_iterators_are_freed() {
    for kind in ["map", "filter", "zip", "chain", "flat_map", "scan"] {
        let f = if matches!(kind, "zip" | "chain") { "[{ -> v }]" } else { "{ x -> v }" };
        let text = format!(
            "fn t() {{ var v = nil\nv = pipe([1, 2], \"{kind}\", {f}) }}\n\
             for i in 1 to 10 {{ t() }}\nreturn alive()"
        );
        assert_eq!(run(&text), "0", "{kind}");
    }
    let text = "fn t() { var v = nil\nv = [pipe([{ -> v }, 1]), pipe({a: { -> v }}), pipe(pipe([1], \"map\", { x -> v }))] }\n\
                fn u() { var v = nil\nv = full_channel({ -> v }) }\n\
                for i in 1 to 10 { t()\nu() }\nreturn alive()";
    assert_eq!(run(text), "0");
    let text = "fn t() { var v = nil\nv = pipe([{ -> v }, 2])\nv }\n\
                let kept = t()\nlet before = alive()\nlet f = next(kept)\nreturn [before, alive(), f() == kept, next(kept)]";
    assert_eq!(run(text), "[1, 1, true, 2]");
}

#[test]
fn what_is_in_use_stays() {
    let text = "fn counter() { var n = 0\nvar this = nil\nthis = { -> n = n + 1\nif n > 100 { this } else { n } }\nthis }\n\
        fn held() { var f = nil\nf = { n -> if n == 0 { 7 } else { f(n - 1) } }\nreturn [f, {f: f}] }\n\
        let a = counter()\nlet b = held()\nlet before = alive()\n\
        for i in 1 to 5 { a() }\nreturn [before, a(), b[0](4), b[1].f(9), alive()]";
    assert_eq!(run(text), "[3, 6, 7, 7, 3]");
}

#[test]
fn cycles_of_a_running_function_stay() {
    let text = "fn t(n) { var f = nil\nlet big = [n]\n\
        f = { k -> if k == 0 { alive() + big[0] } else { f(k - 1) + 0 } }\nreturn f(20) }\n\
        return [t(100), t(200), alive()]";
    assert_eq!(run(text), "[101, 201, 0]");
}

#[test]
fn cycles_that_a_suspended_generator_holds_stay() {
    let text = "fn numbers() { var f = nil\nf = { n -> if n == 0 { 1 } else { f(n - 1) + 1 } }\n\
        for i in 1 to 3 { yield f(i) } }\n\
        fn first_of(g) { for x in g { return x } }\n\
        fn t() { let g = numbers()\nlet first = first_of(g)\nlet alive = alive()\n\
        var rest = []\nfor x in g { rest = rest + [x] }\nreturn [first, alive, rest] }\nreturn [t(), alive()]";
    assert_eq!(run(text), "[[2, 1, [3, 4]], 0]");
}

#[test]
fn a_generator_that_holds_itself_is_freed() {
    let text = "fn t() { var g = nil\nfn numbers() { yield 1\nyield g }\ng = numbers()\nfor x in g { return x } }\n\
        for i in 1 to 10 { t() }\nreturn alive()";
    assert_eq!(run(text), "0");
}

#[test]
fn cleanup_of_a_generator_in_a_cycle_sees_its_variables() {
    let text = "fn t(i) { var g = nil\nvar name = \"g\"\n\
        fn numbers() { try { yield 1\nyield g } finally { println(\"cleanup \" + name + \" ${i} ${g != nil}\") } }\n\
        g = numbers()\nname = name + \"!\"\nfor x in g { return x } }\n\
        t(1)\nt(2)\nlet first = alive()\nfn pause() { for x in [1] { } }\npause()\nprintln(\"end\")\nreturn 0";
    let (result, printed) = outcome(text);
    assert_eq!(result, "0");
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["cleanup g! 1 true", "cleanup g! 2 true", "end"]);
}

#[test]
fn tasks_keep_their_cycles() {
    let text = "fn t() { var f = nil\nf = { n -> if n == 0 { 5 } else { f(n - 1) } }\n\
        let task = spawn { var g = nil\ng = { n -> if n == 0 { f(2) + alive() * 0 } else { g(n - 1) } }\ng(3) }\n\
        alive()\nreturn await(task) }\nlet got = t()\nreturn [got, alive()]";
    assert_eq!(run(text), "[5, 0]");
}

#[test]
fn the_machine_collects_by_itself() {
    // Each call creates a cycle of one variable, far more than are alive at any time.
    let text = "fn t(n) { var f = nil\nf = { k -> if k == 0 { n } else { f(k - 1) } }\nreturn f(1) }\n\
        var most = 0\nfor i in 1 to 100000 { t(i)\nlet now = alive_now()\nif now > most { most = now } }\n\
        return [most > 1000, most < 30000]";
    assert_eq!(run(text), "[true, true]");
}

#[test]
fn long_lived_variables_are_not_looked_at_each_time() {
    // Two collections in a row: at the second one, all variables are old.
    let text = "let keep = 0\nvar held = []\nfor i in 1 to 1000 { var n = i\nheld = held + [{ -> n = n + 1 }] }\n\
                return held";
    let system = Rc::new(Memory::new());
    let vm = machine(&system);
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).map_err(|e| e.canonical(text)).unwrap();
    let held = block_on(program.run(&vm, None, &[])).unwrap().result.map_err(|e| e.uncaught_text()).unwrap();
    assert_eq!(live_variables(), 1000);
    assert!(collect(false).visited >= 1000);
    assert_eq!(collect(false).visited, 0);
    assert!(collect(true).visited >= 1000);
    drop(held);
    assert_eq!(live_variables(), 0);
}

#[test]
fn what_a_program_leaves_goes_with_it() {
    let text =
        "fn t() { var f = nil\nf = { n -> f }\nreturn f }\nlet kept = t()\nfn use() { kept }\nreturn 1";
    assert_eq!(run(text), "1");
    assert_eq!(live_variables(), 0);
}

#[test]
fn large_data_is_freed_with_its_cycle() {
    let text = "fn t() { var f = nil\nvar data = []\nfor i in 1 to 20 { data = data + [{i: [i]}] }\n\
        f = { n -> if n == 0 { data } else { f(n - 1) } }\nreturn f(1) }\nlet x = t()\nt()\nreturn [alive(), x[19].i]";
    assert_eq!(run(text), "[0, [20]]");
}
