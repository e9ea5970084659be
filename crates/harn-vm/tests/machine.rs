//! The VM from outside: programs that use only the language itself.

use harn_vm::{ErrorKind, Source, Value, VmBuilder, block_on, builtins, load};

builtins! {
    static HELPERS: "test";
    /// Waits.
    Clock async fn sleep(cx, time: Value) -> "nil" {
        cx.sleep(harn_vm::concurrency::millis(&time).unwrap_or_default()).await?;
        Value::NIL
    }
    /// Calls `f` for every item.
    Pure async fn each(cx, items: Value, f: Value) -> "list" {
        let mut out = Vec::new();
        for item in cx.collect(&items).await? {
            out.push(cx.call(&f, [item]).await?);
        }
        out
    }
}

/// Returns the printed result of a program, or the message of its uncaught error.
fn run(text: &str) -> Result<String, String> {
    let vm = VmBuilder::new(std::rc::Rc::new(harn_system::Memory::new())).builtins([HELPERS]).build();
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).map_err(|e| e.canonical(text))?;
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    outcome.result.map(|v| v.to_string()).map_err(|e| e.uncaught_text())
}

#[test]
fn deep_recursion_is_an_error_and_not_a_crash() {
    let text = "fn f(n) { 1 + f(n + 1) }\nreturn try { f(0) }";
    assert_eq!(run(text).unwrap(), "Result.Err(Stack overflow: too many nested calls)");
}

#[test]
fn recursion_through_native_functions_is_bounded_too() {
    let text = "fn f(n) { each([n], { x -> f(x + 1) }) }\nreturn try { f(0) }";
    assert_eq!(run(text).unwrap(), "Result.Err(Stack overflow: too many nested calls)");
}

#[test]
fn tail_calls_use_no_depth() {
    let text = "fn even(n) { if n == 0 { return true }\nreturn odd(n - 1) }\n\
                fn odd(n) { if n == 0 { return false }\nreturn even(n - 1) }\nreturn even(1000000)";
    assert_eq!(run(text).unwrap(), "true");
}

#[test]
fn native_functions_call_closures_that_wait() {
    let text = "return each([3, 1, 2], { x -> sleep(x)\n x * 10 })";
    assert_eq!(run(text).unwrap(), "[30, 10, 20]");
}

#[test]
fn generators_wait_and_are_pulled_by_native_functions() {
    let text = "fn g() { for i in 1 to 3 { sleep(1); yield i } }\nreturn each(g(), { x -> x + 1 })";
    assert_eq!(run(text).unwrap(), "[2, 3, 4]");
}

#[test]
fn a_failed_update_leaves_the_place_as_it_was() {
    let text = "var total = [1]\nvar d = {xs: [1, [2]]}\n\
                fn fail() { throw \"no\" }\n\
                fn f() { try { total = total + fail() }\ntry { d.xs = d.xs + nil }\ntry { d.xs[1] += 5 } }\n\
                f()\nreturn [total, d]";
    assert_eq!(run(text).unwrap(), "[[1], {xs: [1, [2]]}]");
}

#[test]
fn moved_arguments_come_back_as_results_only() {
    let text = "fn add(xs, x) { xs + [x] }\nfn f() { var xs = []\nfor i in 1 to 4 { xs = add(xs, i) }\n\
                let keep = xs\nxs = add(xs, 9)\n[keep, xs] }\nreturn f()";
    assert_eq!(run(text).unwrap(), "[[1, 2, 3, 4], [1, 2, 3, 4, 9]]");
}

#[test]
fn callee_that_changes_the_variable_being_added_to() {
    let text = "var s = \"a\"\nfn f() { s = \"z\"\n\"b\" }\nfn g() { s = s + f()\ns }\nreturn g()";
    assert_eq!(run(text).unwrap(), "ab");
}

#[test]
fn sleeping_fibers_wake_in_order() {
    let text = "var tasks = []\nvar seen = channel(\"order\", 3000)\n\
                for i in 1 to 2000 { tasks = tasks + [spawn { sleep(5)\n send(seen, i) }] }\n\
                for t in tasks { await(t) }\nclose_channel(seen)\nvar last = 0\nvar ok = true\n\
                for i in seen { ok = ok && i == last + 1\n last = i }\nreturn [ok, last]";
    assert_eq!(run(text).unwrap(), "[true, 2000]");
}

#[test]
fn interrupting_stops_a_busy_loop_and_runs_cleanup() {
    let vm = VmBuilder::new(std::rc::Rc::new(harn_system::Memory::new())).builtins([HELPERS]).build();
    let text = "try { while true { } } finally { sleep(0) }";
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    let interrupt = vm.interrupt().clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        interrupt.interrupt();
    });
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    stopper.join().unwrap();
    assert!(matches!(outcome.result.unwrap_err().kind(), ErrorKind::Abort));
}

#[test]
fn cleanup_that_calls_itself_is_interrupted_too() {
    let vm = VmBuilder::new(std::rc::Rc::new(harn_system::Memory::new())).build();
    let text = "fn f() { try { f() } finally { f() } }\nf()";
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let program = load(&vm, &source).ok().unwrap();
    vm.interrupt().interrupt();
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    assert!(matches!(outcome.result.unwrap_err().kind(), ErrorKind::Abort));
}

#[test]
fn deep_data_is_built_compared_and_dropped() {
    let text =
        "fn nest(n) { var v = []\nfor i in 1 to n { v = [v] }\nv }\nreturn nest(200000) == nest(200000)";
    assert_eq!(run(text).unwrap(), "true");
}

#[test]
fn the_memory_limit_is_an_error() {
    let text = "fn f() { var s = \"ab\"\nwhile true { s = s + s } }\nreturn try { f() }";
    harn_value::memory::set_limit(1 << 20);
    let result = run(text).unwrap();
    harn_value::memory::set_limit(4 << 30);
    assert!(result.contains("memory limit exceeded"), "{result}");
}

#[test]
fn sizes_of_what_is_copied_most() {
    assert_eq!(size_of::<Value>(), 16);
    assert_eq!(size_of::<harn_vm::bytecode::Ins>(), 8);
    assert_eq!(size_of::<harn_vm::Error>(), 8);
    assert_eq!(size_of::<Result<Value, harn_vm::Error>>(), 16);
}
