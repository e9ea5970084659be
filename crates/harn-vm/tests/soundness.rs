//! Regression tests for soundness: programs that once accessed freed memory, another program's functions, or
//! wrong constants.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

use harn_system::Memory;
use harn_vm::{Session, Source, Value, VmBuilder, block_on, builtins, load};

builtins! {
    static HELPERS: "test";
    /// Prints.
    Output fn println(cx, value: Value) -> "nil" {
        cx.print(&format!("{value}\n"))?;
        Value::NIL
    }
    /// A value whose drop is noticed.
    Pure fn tracked(cx) -> "any" {
        LIVE.set(LIVE.get() + 1);
        Value::foreign(Tracked)
    }
    /// Where a container is: a copy is somewhere else.
    Pure fn address(cx, value: Value) -> "int" { value.as_list().map_or(0, |l| l.address() as i64) }
    /// How many of them are alive.
    Pure fn live(cx) -> "int" { LIVE.get() }
}

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

struct Tracked;

impl Drop for Tracked {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
    }
}

impl harn_value::Foreign for Tracked {
    fn type_name(&self) -> &'static str {
        "tracked"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<tracked>");
    }

    fn equals(&self, _other: &dyn harn_value::Foreign) -> bool {
        false
    }
}

/// Returns the output of a program, followed by its result or error.
fn run(text: &str) -> String {
    let system = Rc::new(Memory::new());
    let vm = VmBuilder::new(system.clone()).builtins([HELPERS]).build();
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = match load(&vm, &source) {
        Ok(program) => program,
        Err(error) => return error.canonical(text),
    };
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    let end = outcome.result.map_or_else(|e| e.uncaught_text(), |v| v.to_string());
    drop((program, vm));
    format!("{}{end}", system.output())
}

/// 70,000 constants: more than a 16-bit operand can address.
fn many_constants() -> String {
    let mut text = String::from("let t = [");
    for i in 0..70_000 {
        write!(text, "\"c{i}\", ").unwrap();
    }
    text + "]\n"
}

/// Runs a function with very many constants; returns its result.
fn with_many_constants(body: &str) -> String {
    run(&format!("fn f(x) {{\n{}{body}\n}}\nreturn try {{ f(1) }}", many_constants()))
}

#[test]
fn finally_after_many_constants() {
    assert_eq!(with_many_constants("try { throw \"boom\" } finally { 1 }"), "Result.Err(boom)");
    assert_eq!(with_many_constants("try { return \"early\" } finally { 1 }\n\"late\""), "Result.Ok(early)");
    let text = "for i in 1 to 3 { try { if i == 2 { break } } finally { println(i) } }\n\"end\"";
    assert_eq!(with_many_constants(text), "1\n2\nResult.Ok(end)");
    let text = "for i in 1 to 3 { try { if i == 2 { continue } } finally { println(i) } }\n\"end\"";
    assert_eq!(with_many_constants(text), "1\n2\n3\nResult.Ok(end)");
    assert_eq!(with_many_constants("defer { println(\"d\") }\nthrow \"kept\""), "d\nResult.Err(kept)");
    assert_eq!(with_many_constants("retry 2 { println(\"r\")\nthrow \"last\" }"), "r\nr\nResult.Err(last)");
}

#[test]
fn match_after_many_constants() {
    let arms = "match x { 1 -> { \"one\" } 2.5 -> { \"half\" } \"s\" -> { \"text\" } _ -> { \"other\" } }";
    assert_eq!(with_many_constants(arms), "Result.Ok(one)");
    let text = format!(
        "enum E {{ A, B(int) }}\nfn f(e) {{\n{}match e {{ E.A -> {{ \"A\" }} E.B(x) -> {{ \"B${{x}}\" }} }}\n}}\n\
         return [f(E.A), f(E.B(2))]",
        many_constants()
    );
    assert_eq!(run(&text), "[A, B2]");
}

#[test]
fn select_after_many_constants() {
    let text =
        "let c = channel(\"c\")\nsend(c, 7)\nselect {\n  v from c { v + x }\n  default { \"lost\" }\n}";
    assert_eq!(with_many_constants(text), "Result.Ok(8)");
}

#[test]
fn catch_of_a_type_after_many_constants() {
    let text = format!(
        "enum E {{ A }}\nenum F {{ A }}\nfn f() {{\n{}try {{ throw E.A }} catch (e: F) {{ \"wrong\" }}\n}}\n\
         fn g() {{\n{}try {{ throw E.A }} catch (e: E) {{ \"caught\" }}\n}}\nreturn [try {{ f() }}, g()]",
        many_constants(),
        many_constants()
    );
    assert_eq!(run(&text), "[Result.Err(E.A), caught]");
}

#[test]
fn methods_after_many_constants() {
    let text = "struct P { x: int }\nimpl P { fn brand_new(self) { self.x } fn c1(self) { 0 } }\nP {x: 5}.brand_new()";
    assert_eq!(with_many_constants(text), "Result.Ok(5)");
}

#[test]
fn more_methods_than_16_bits_can_number() {
    let mut text = String::from("struct P { x: int }\nimpl P {\n");
    for i in 0..65_540 {
        writeln!(text, "fn m{i}(self) {{ {i} }}").unwrap();
    }
    text.push_str("}\nlet p = P {x: 1}\nreturn [p.m3(), p.m65539()]");
    assert_eq!(run(&text), "[3, 65539]");
}

#[test]
fn too_many_registers_are_a_compile_error() {
    let text = format!("fn f() {{ 1 }}\nf({}1)", "1, ".repeat(70_000));
    assert!(run(&text).contains("function is too large"), "{}", run(&text));
}

#[test]
fn spread_arguments_move_the_stack() {
    let text = "fn items(...xs) { for x in xs { yield x } }\n\
                fn list(n) { var xs = []\nfor i in 1 to n { xs = xs + [\"v${i}\"] }\nxs }\n\
                fn f(n) { let xs = list(n)\nlet kept = [\"kept\", xs]\nlet g = items(...xs)\n\
                for x in g { return [kept[0], kept[1] == xs, x] } }\n\
                return [f(1), f(20), f(200), f(20000)]";
    let one = "[kept, true, v1]";
    assert_eq!(run(text), format!("[{one}, {one}, {one}, {one}]"));
}

/// A generator that is dropped while its program ends belongs to that program, not to the next one on the thread.
#[test]
fn cleanup_runs_in_its_own_program() {
    let first = "fn f1() { 1 }\nfn f2() { 2 }\nvar text = \"of the first program\"\n\
                 fn secret(x) { \"cleanup ${x}\" }\n\
                 fn g() { try { yield 1 } finally { println(secret(text)) } }\n\
                 fn h(src) { try { for x in src { yield x } } finally { println(\"h cleanup\") } }\n\
                 for x in h(h(g())) { break }\n\"end\"";
    assert_eq!(run(first), "h cleanup\nh cleanup\ncleanup of the first program\nnil");
    let second = "fn only() { \"only\" }\nfor i in [1, 2] { println(i) }\nreturn only()";
    assert_eq!(run(second), "1\n2\nonly");
}

/// Values may outlive the VM, but the functions of a suspended generator do not.
#[test]
fn a_generator_outlives_its_machine() {
    let vm = VmBuilder::new(Rc::new(Memory::new())).build();
    let text = "fn g() { try { yield 1 } finally { 2 } }\nlet s = g()\nfor x in s { break }\nreturn [s, g()]";
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    drop(program);
    drop(vm);
    drop(outcome);
}

/// A cycle with a suspended generator whose VM was dropped before the cycle is found: its stack is not read.
#[test]
fn a_generator_in_a_cycle_outlives_its_machine() {
    let text = "fn g(box) { try { yield box } finally { box() } }\n\
                fn make() { var own = nil\nlet f = { -> own }\nlet s = g(f)\nfor x in s { own = s\nbreak }\n\
                let t = g(f)\nown = t\nreturn f }\nreturn make()";
    let vm = VmBuilder::new(Rc::new(Memory::new())).build();
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    let function = outcome.result.unwrap();
    drop(program);
    drop(vm);
    drop(function);
    harn_vm::cycles::collect(true);
    assert_eq!(run("return 1"), "1");
}

/// Holds values, and drops them while it is traced.
struct Forgetful(std::cell::RefCell<Vec<Value>>);

impl harn_value::Foreign for Forgetful {
    fn type_name(&self) -> &'static str {
        "forgetful"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<forgetful>");
    }

    fn equals(&self, _other: &dyn harn_value::Foreign) -> bool {
        false
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        for value in self.0.take() {
            visit(&value);
        }
    }
}

builtins! {
    static FORGETFUL: "test";
    /// Such a thing.
    Pure fn forgetful(cx, value: Value) -> "any" {
        Value::foreign(Forgetful(std::cell::RefCell::new(vec![value])))
    }
}

/// `trace` is safe code of a host: it must not be able to free an object of the graph during a collection.
#[test]
fn objects_may_change_while_they_are_traced() {
    let vm = VmBuilder::new(Rc::new(Memory::new())).builtins([FORGETFUL]).build();
    let text = "fn make(n) { var own = nil\nlet deep = [[\"text ${n}\"], [n, [n]]]\nlet f = { -> own }\n\
                own = [forgetful(deep), forgetful([f, deep]), f]\n0 }\n\
                for i in 1 to 100 { make(i) }\nreturn 1";
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    assert_eq!(block_on(program.run(&vm, None, &[])).unwrap().result.unwrap().as_int(), Some(1));
    harn_vm::cycles::collect(true);
    drop((program, vm));
    harn_vm::cycles::collect(true);
}

/// A call that is still suspended when the host drops everything: its stack is dropped before the functions.
#[test]
fn a_suspended_call_is_dropped_with_its_machine() {
    let pause = harn_vm::NativeFunction::value("pause", |cx, _| async move {
        cx.sleep(std::time::Duration::from_secs(3600)).await?;
        Ok(Value::NIL)
    });
    let vm = VmBuilder::new(Rc::new(harn_system::Real::new())).global("pause", pause).build();
    let text = "fn g() { try { yield 1 } finally { 2 } }\n\
                pub fn waits() { let s = g()\nfor x in s { let t = g()\nfor y in t { pause() } } }";
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    block_on(async move {
        let instance = harn_vm::Instance::new(&vm, program);
        instance.begin().await.unwrap();
        let call = instance.call(&instance.export("waits").unwrap(), vec![]);
        tokio::task::yield_now().await;
        drop((call, instance, vm));
    })
    .unwrap();
    assert_eq!(run("return 1"), "1");
}

/// Evaluates the inputs of one session; returns all their values.
fn session(inputs: &[&str]) -> Vec<String> {
    let vm = VmBuilder::new(Rc::new(Memory::new())).builtins([HELPERS]).build();
    let mut session = Session::new(&vm);
    block_on(async {
        let mut values = Vec::new();
        for input in inputs {
            values.push(session.eval(input).await.map_or_else(|_| "error".to_owned(), |v| v.to_string()));
        }
        values
    })
    .unwrap()
}

#[test]
fn tasks_call_functions_after_the_table_grew() {
    let many: Vec<String> = (0..300).map(|i| format!("fn f{i}() {{ \"f{i}\" }}")).collect();
    let mut inputs = vec![
        "let ch = channel(\"a\", 4)\nlet out = channel(\"b\", 4)\nfn first() { \"first\" }",
        "let h = spawn { for v in ch { send(out, \"${v} ${first()}\") } }",
        "send(ch, 0)\nreceive(out)",
    ];
    inputs.extend(many.iter().map(String::as_str));
    inputs.extend(["send(ch, 1)\nreceive(out)", "send(ch, 2)\nreceive(out)"]);
    let values = session(&inputs);
    assert_eq!(values[2], "0 first");
    assert_eq!(values[values.len() - 2..], ["1 first", "2 first"]);
}

#[test]
fn tasks_see_variables_declared_after_they_started() {
    let many: Vec<String> = (0..100).map(|i| format!("let v{i} = {i}")).collect();
    let mut inputs = vec![
        "let ch = channel(\"a\", 4)\nlet out = channel(\"b\", 4)",
        "let h = spawn { for f in ch { send(out, try { f() }) } }",
        "send(ch, { -> 5 })\nreceive(out)",
    ];
    inputs.extend(many.iter().map(String::as_str));
    inputs.extend([
        "let g = { -> v50 + v99 }\nsend(ch, g)\nreceive(out)",
        "var w1 = 5\nsend(ch, { -> w1 = 77\nw1 })\nreceive(out)",
        "w1",
    ]);
    let values = session(&inputs);
    assert_eq!(values[2], "Result.Ok(5)");
    // The task has copies of the variables, so its assignments are not visible here.
    assert_eq!(values[values.len() - 3..], ["Result.Ok(149)", "Result.Ok(77)", "5"]);
}

#[test]
fn methods_that_are_replaced_while_they_run_keep_their_variables() {
    let text = "struct A { n: int }\n\
                fn make(k) {\nimpl A { fn m(self, d) { if d > 0 { make(k + d)\nself.m(d - 1) + k } else { k } } }\n0\n}\n\
                make(1)\nlet a = A {n: 1}\nreturn [a.m(3), a.m(5)]";
    assert_eq!(run(text), "[18, 97]");
}

#[test]
fn methods_that_are_replaced_again_and_again_are_freed() {
    let text = "struct A { n: int }\n\
                fn make(k) {\nlet held = k\nimpl A { fn m(self) { held } }\nA {n: 1}.m()\n}\n\
                for i in 1 to 1000 { make(tracked()) }\nreturn live()";
    assert_eq!(run(text), "1");
}

/// Checks `xs = xs.push(x)` and similar forms in `body`, where errors are caught or inspected: the list is not
/// copied.
fn stays(around: &str) {
    let forms = ["xs = xs.push(i)", "xs = xs + [i]", "xs = add(xs, i)", "xs = xs + [i] + [i]", "xs += [i]"];
    for form in forms {
        // If a handler may still read the variable, a function gets a copy, and so does a sum of several
        // operands; otherwise the method would be called, which the language itself lacks.
        let observed = around.contains("outside");
        if if observed { form.contains("add") || form.contains("] + [") } else { form.contains("push") } {
            continue;
        }
        let body = around.replace(
            "FORM",
            &format!("let before = address(xs)\n{form}\nif address(xs) != before {{ copies += 1 }}"),
        );
        let text = format!(
            "fn add(xs, x) {{ xs + [x] }}\nfn f(outside) {{\nvar copies = 0\n{body}\ncopies\n}}\nreturn f(1)"
        );
        assert_eq!(run(&text), "0", "{text}");
    }
}

#[test]
fn lists_are_not_copied_where_errors_are_handled() {
    let round = "for i in 1 to 20 { FORM }";
    stays(&format!("var xs = []\n{round}"));
    stays(&format!("var xs = []\ntry {{ {round} }} catch (e) {{ outside }}"));
    stays(&format!("var xs = []\nretry 3 {{ {round} }}\noutside"));
    stays(&format!("try {{ var xs = []\n{round} }} catch (e) {{ e }}"));
    stays(&format!("var xs = []\ndeadline 10m {{ {round} }}"));
    stays(&format!("var xs = []\ndefer {{ println(copies) }}\n{round}").replace("println(copies)", "copies"));
    stays(&format!("defer {{ copies }}\nvar xs = []\n{round}"));
    stays(&format!("var xs = []\ntry {{ {round} }} finally {{ copies }}"));
    stays(&format!("var xs = []\nmutex {{ {round} }}"));
}

#[test]
fn errors_leave_variables_as_they_were() {
    let text = "fn fail(xs, x) { throw \"no\" }\n\
                fn caught() { var xs = [1]\ntry { xs = xs.push(fail(xs, 1)) } catch (e) { xs = xs + [e] }\nxs }\n\
                fn handed() { var xs = [1]\ntry { xs = fail(xs, 1) } catch (e) { xs = xs + [e] }\nxs }\n\
                fn tried() { var xs = [1]\nlet r = try { xs = fail(xs, 1) }\n[xs, r] }\n\
                fn again() { var xs = [1]\nvar n = 0\nretry 3 { n += 1\nxs = xs + [n] + fail_twice(n) }\nxs }\n\
                fn fail_twice(n) { if n < 3 { throw n }\n[\"end\"] }\n\
                fn deferred() { var xs = [1]\ndefer { println(xs) }\nxs = fail(xs, 1) }\n\
                return [caught(), handed(), tried(), again(), try { deferred() }]";
    let expected = "[1]\n[[1, no], [1, no], [[1], Result.Err(no)], [1, 3, end], Result.Err(no)]";
    assert_eq!(run(text), expected);
}
