//! Native code that panics, never ends, or cannot return an error: each becomes an error of the program, thrown at the
//! call.

use harn_value::steps;
use harn_vm::call_loop::{CallLoop, MAX_ARGS, Steps, Turn};
use harn_vm::{Error, Result, Source, Value, VmBuilder, block_on, builtins, load, stop};

builtins! {
    static BROKEN: "test";
    /// Fails.
    Pure fn breaks(cx, x: Value) -> "nil" {
        assert!(x.is_nil(), "broken by {x}");
        Value::NIL
    }
    /// Fails after a wait.
    Pure async fn breaks_later(cx) -> "nil" {
        cx.give_way().await?;
        assert!(cx.task().is_finished(), "broken later");
        Value::NIL
    }
    /// Never ends.
    Pure fn endless(cx) -> "nil" {
        while !cx.task().is_finished() {
            steps::step();
        }
        Value::NIL
    }
    /// Reads a string without a step.
    Pure fn scan(cx, text: Value) -> "int" {
        text.as_str().map_or(0, |text| text.bytes().filter(|byte| *byte == b'b').count() as i64)
    }
    /// Interrupts the program, as a signal does.
    Pure fn interrupts(cx) -> "nil" {
        cx.vm().interrupt().interrupt();
        Value::NIL
    }
    /// Waits for a timer of the event loop, which has passed when the loop looks.
    Pure async fn wait_for_timer(cx) -> "nil" {
        tokio::task::yield_now().await;
        Value::NIL
    }
    /// Counts the calls of the test.
    Pure fn tick(cx) -> "int" {
        TICKS.set(TICKS.get() + 1);
        TICKS.get()
    }
    /// Gives up where no error can be returned.
    Pure fn gives_up(cx) -> "int" {
        [3, 1, 2].iter().map(|n| if *n == 1 { stop(Error::runtime("one is too many")) } else { *n }).sum::<i64>()
    }
    /// Calls `f` and returns the line of the call in progress after it.
    Pure async fn line_after(cx, f: Value) -> "int" {
        cx.call(&f, []).await?;
        harn_vm::running_place().and_then(|(_, place)| place).map_or(0, |(_, line)| line as i64)
    }
    /// Fails between two calls of `f`.
    Pure loop fn breaks_between(cx, f: Value) -> "nil" {
        CallLoop::new(f, Between(0))
    }
}

thread_local! {
    static TICKS: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

struct Between(u32);

impl Steps for Between {
    fn next(&mut self, _: Option<Value>, slots: &mut [Value; MAX_ARGS]) -> Result<Turn> {
        self.0 += 1;
        assert!(self.0 < 3, "broken between calls");
        slots[0].put(Value::int(i64::from(self.0)));
        Ok(Turn::Call(1))
    }
}

fn run(text: &str) -> String {
    harn_vm::quiet_panics();
    let vm = VmBuilder::new(std::rc::Rc::new(harn_system::Memory::new())).builtins([BROKEN]).build();
    let source = Source { name: "test.harn".into(), text: text.into(), dir: ".".into() };
    let Ok(program) = load(&vm, &source) else { panic!("it does not load") };
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    // The location in this file is irrelevant.
    let shown = outcome.result.map_or_else(|e| e.uncaught_text(), |v| v.to_string());
    shown.split(" (crates").next().unwrap_or_default().to_owned()
}

#[test]
fn a_panic_is_an_error_at_the_call() {
    let failed = "Result.Err(Runtime error: internal error: broken";
    assert_eq!(run("return try { breaks(1) }"), format!("{failed} by 1"));
    assert_eq!(run("let f = breaks\nreturn try { f(1) }"), format!("{failed} by 1"));
    assert_eq!(run("return try { breaks_later() }"), format!("{failed} later"));
    assert_eq!(run("return try { breaks_between({ x -> x }) }"), format!("{failed} between calls"));
    assert_eq!(run("return await(spawn { try { breaks(2) } })"), format!("{failed} by 2"));
    assert_eq!(run("breaks(3)"), "Runtime error: internal error: broken by 3");
}

#[test]
fn the_place_of_a_call_survives_calls_of_its_closures() {
    assert_eq!(
        run("let line = line_after({ ->\n  tick()\n  line_after({ -> tick() })\n})\nreturn line"),
        "1"
    );
}

#[test]
fn it_is_thrown_where_it_happened() {
    let text = "fn f(x) {
  var log = []
  try {
    log = log + [1]
    breaks(x)
    log = log + [2]
  } catch (e) {
    log = log + [3]
  } finally {
    log = log + [4]
  }
  return log
}
return [f(1), f(2)]";
    assert_eq!(run(text), "[[1, 3, 4], [1, 3, 4]]");
}

#[test]
fn what_never_ends_ends_at_a_deadline() {
    assert_eq!(run("return try { deadline 20ms { endless() } }"), "Result.Err(Deadline exceeded)");
    let cancelled = "Result.Err(Thrown: kind:cancelled:VM cancelled by host)";
    assert_eq!(run("let h = spawn { endless() }\nreturn cancel_graceful(h, 5000)"), cancelled);
}

#[test]
fn an_error_comes_out_of_code_that_returns_none() {
    assert_eq!(run("return try { gives_up() }"), "Result.Err(Runtime error: one is too many)");
}

/// Instructions with much work each: after a few of them a deadline or an interruption ends the loop, and other tasks
/// can run. Each read advances the clock by a tenth of a millisecond, so the number of instructions is the same on
/// every machine.
#[test]
fn bulk_work_is_stopped_and_gives_way_after_few_instructions() {
    // 16 MiB and 262,144 items, the work of one turn.
    let begin = "var t = \"abcdefgh\"\nfor i in 1 to 21 { t = t + t }\n\
                 var l = [1, 2, 3, 4]\nfor i in 1 to 16 { l = l + l }\n";
    let work = [
        "let u = t + t",
        "let u = l + l",
        "let u = t[1:]",
        "let u = l[1:]",
        "let u = scan(t)",
        "let u = \"${t}!\"",
        "let u = t * 2",
        "var u = l\nu[0] = 5",
        "let u = [...l]",
        "var u = t\nu += t",
        "t += \"a\"\nscan(t)",
    ];
    let endless = |work: &str| format!("while tick() < 1000 {{ {work} }}");
    for work in work {
        TICKS.set(0);
        let text = format!("{begin}return try {{ deadline 1ms {{ {} }} }}", endless(work));
        assert_eq!(run(&text), "Result.Err(Deadline exceeded)", "{work}");
        assert!(TICKS.get() <= 30, "{work}: {} rounds before the deadline", TICKS.get());
        TICKS.set(0);
        let ended = run(&format!("{begin}interrupts()\n{}", endless(work)));
        assert!(TICKS.get() <= 3, "{work}: {} rounds after the interruption, {ended}", TICKS.get());
        TICKS.set(0);
        let text = format!(
            "{begin}let c = channel(\"c\", 9)\nlet h = spawn {{ send(c, \"turn\") }}\n\
             while tick() < 1000 {{ {work}\nselect {{ v from c {{ return v }} default {{ 0 }} }} }}"
        );
        assert_eq!(run(&text), "turn", "{work}");
        assert!(TICKS.get() <= 10, "{work}: {} rounds before the other task", TICKS.get());
        // Timers also run after one slice, not after 61 of them.
        TICKS.set(0);
        let text = format!(
            "{begin}let c = channel(\"c\", 9)\nlet h = spawn {{ wait_for_timer()\nsend(c, \"turn\") }}\n\
             while tick() < 1000 {{ {work}\nselect {{ v from c {{ return v }} default {{ 0 }} }} }}"
        );
        assert_eq!(run(&text), "turn", "{work}");
        assert!(TICKS.get() <= 20, "{work}: {} rounds before the timer", TICKS.get());
    }
}
