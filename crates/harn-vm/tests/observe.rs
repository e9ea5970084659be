//! Observers: which events they receive, and that they do not change the program's behaviour.

use std::cell::RefCell;
use std::rc::Rc;

use harn_system::Memory;
use harn_vm::{Error, Observer, Scene, Source, VmBuilder, block_on, load};

/// Returns the note of an observer for a statement.
type Look = fn(&Scene<'_>) -> String;

struct Notes {
    look: Look,
    seen: RefCell<Vec<String>>,
    errors: RefCell<Vec<String>>,
}

impl Observer for Notes {
    fn statement(&self, scene: &Scene<'_>) {
        let note = (self.look)(scene);
        self.seen.borrow_mut().push(note);
    }

    fn thrown(&self, scene: &Scene<'_>, error: &Error) {
        let caught = if scene.is_caught(error) { "caught" } else { "uncaught" };
        self.errors.borrow_mut().push(format!("{caught} {error} at depth {}", scene.depth()));
    }
}

/// Returns the notes of a run, its errors, and its result.
fn observed(text: &str, look: Look) -> (Vec<String>, Vec<String>, String) {
    let notes = Rc::new(Notes { look, seen: RefCell::default(), errors: RefCell::default() });
    let vm = VmBuilder::new(Rc::new(Memory::new())).observe(notes.clone()).build();
    let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
    let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(text)));
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    let result = outcome.result.map_or_else(|e| e.to_string(), |value| value.to_string());
    let (seen, errors) = (notes.seen.take(), notes.errors.take());
    (seen, errors, result)
}

fn line(scene: &Scene<'_>) -> usize {
    let (module, span) = scene.place().unwrap();
    let (_, text) = scene.vm().source(module).unwrap();
    text[..span.start as usize].matches('\n').count() + 1
}

fn names(variables: Vec<(String, harn_vm::Value)>) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

const TEXT: &str = "var total = 0\nfn add(n) {\n  let twice = n * 2\n  total = total + twice\n  twice\n}\n\
    for i in [1, 2] {\n  add(i)\n}\nlet f = { x ->\n  x + total\n}\nreturn f(1)\n";

#[test]
fn every_statement_is_seen_in_order() {
    let (seen, errors, result) = observed(TEXT, |scene| format!("{}@{}", line(scene), scene.depth()));
    let add = ["3@2", "4@2", "5@2"];
    let expected: Vec<&str> =
        [&["1@1", "7@1", "8@1"][..], &add, &["8@1"], &add, &["10@1", "13@1", "11@1"]].concat();
    assert_eq!(seen, expected);
    assert_eq!((errors.len(), result.as_str()), (0, "7"));
}

#[test]
fn variables_are_those_of_the_place() {
    let (seen, _, _) = observed(TEXT, |scene| {
        format!(
            "{} {}|{}|{}",
            line(scene),
            names(scene.locals(0)),
            names(scene.captured(0)),
            names(scene.globals(0))
        )
    });
    assert_eq!(seen[0], "1 ||");
    assert_eq!(seen[3], "3 n=1||total=0");
    assert_eq!(seen[4], "4 n=1 twice=2||total=0");
    assert_eq!(seen[5], "5 n=1 twice=2||total=2");
    assert_eq!(seen.last().unwrap(), "11 x=1||total=6");
    let text = "fn outer() {\n  var n = 1\n  let n2 = n\n  let bump = { ->\n    n = n + 1\n    n\n  }\n  if true {\n    let n2 = 9\n    bump()\n  }\n  n2\n}\nouter()\n";
    let (seen, _, _) = observed(text, |scene| {
        let caller = if scene.depth() > 2 { names(scene.locals(1)) } else { String::new() };
        format!("{} {}|{}|{caller}", line(scene), names(scene.locals(0)), names(scene.captured(0)))
    });
    let inside = seen.iter().find(|note| note.starts_with("6 ")).unwrap();
    assert!(inside.starts_with("6 |n=2|") && inside.contains("n2=9") && !inside.contains("n2=1"), "{seen:?}");
    assert!(seen.last().unwrap().contains("n2=1"), "{seen:?}");
}

#[test]
fn levels_are_the_calls_in_progress() {
    let text = "fn inner() {\n  return 1\n}\nfn outer() {\n  let g = { x ->\n    inner()\n  }\n  let r = g(1)\n  r\n}\nouter()\n";
    let (seen, _, _) = observed(text, |scene| {
        let levels = scene.levels();
        let names: Vec<&str> = levels.iter().map(|level| level.function.as_str()).collect();
        format!("{} {}", names.join(" in "), scene.begins())
    });
    let expected = [
        "pipeline true",
        "outer in pipeline true",
        "outer in pipeline false",
        "<closure> in outer in pipeline true",
        "inner in <closure> in outer in pipeline true",
        "outer in pipeline false",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn expressions_are_evaluated_where_the_program_stands() {
    let text = "let d = {a: [1, 2], b: nil}\nlet n = 3\nfn f() { n }\nlet end = 0\nreturn f() + end\n";
    fn look(scene: &Scene<'_>) -> String {
        let wanted = [
            "n + 1",
            "d.a[1] * 2",
            "d.b?.c",
            "d.b ?? \"none\"",
            "\"n is ${n}\"",
            "n > 2 && d.a[0] == 1",
            "[n, ...d.a]",
            "{...d, c: n}",
            "3 in d.a",
            "d.a[1:]",
            "n > 2 ? \"big\" : \"small\"",
            "-n",
            "!n",
            "1 to 3",
            "m",
            "d.a[9].x",
            "f()",
            "n = 4",
            "1; 2",
            "",
            "n +",
            "\"a\" - 1",
            "n / 0",
            "sleep(1)",
        ];
        let shown = |text: &&str| match scene.evaluate(text, 0) {
            Ok(value) => format!("{text} => {value}"),
            Err(why) => format!("{text} => error: {why}"),
        };
        wanted.iter().map(shown).collect::<Vec<_>>().join("\n")
    }
    let (seen, _, result) = observed(text, look);
    assert_eq!(result, "3");
    let last = &seen[3];
    for line in [
        "n + 1 => 4",
        "d.a[1] * 2 => 4",
        "d.b?.c => nil",
        "d.b ?? \"none\" => none",
        "\"n is ${n}\" => n is 3",
        "n > 2 && d.a[0] == 1 => true",
        "[n, ...d.a] => [3, 1, 2]",
        "{...d, c: n} => {a: [1, 2], b: nil, c: 3}",
        "3 in d.a => false",
        "d.a[1:] => [2]",
        "n > 2 ? \"big\" : \"small\" => big",
        "-n => -3",
        "!n => false",
        "m => error: Undefined variable: m",
        "f() => error: functions of the program are not called while it stands still",
        "n = 4 => error: only expressions can be evaluated here",
        "1; 2 => error: only one expression",
        " => error: there is no expression",
        "\"a\" - 1 => error: Type error: ",
    ] {
        assert!(last.contains(line), "{line}\n---\n{last}");
    }
}

#[test]
fn errors_are_seen_where_they_are_thrown() {
    let text = "fn f() {\n  throw \"a\"\n}\ntry { f() } catch (e) { nil }\nf()\n";
    let (_, errors, result) = observed(text, |_| String::new());
    assert_eq!(result, "Thrown: a");
    assert_eq!(errors.first().unwrap(), "caught Thrown: a at depth 2");
    assert!(errors.contains(&"uncaught Thrown: a at depth 2".to_owned()), "{errors:?}");
}

#[test]
fn all_statements_are_known() {
    let text = "fn never() {\n  1\n  2\n}\nlet x = if true { 1 } else { 2 }\nstruct P { a: int }\n";
    let vm = VmBuilder::new(Rc::new(Memory::new())).observe(Rc::new(Notes {
        look: |_| String::new(),
        seen: RefCell::default(),
        errors: RefCell::default(),
    }));
    let vm = vm.build();
    let source = Source { name: "/main.harn".into(), text: text.into(), dir: "/".into() };
    assert!(load(&vm, &source).is_ok());
    let found: Vec<&str> =
        vm.statements().iter().map(|(_, span)| &text[span.start as usize..span.end as usize]).collect();
    assert_eq!(found, ["1", "2", "let x = if true { 1 } else { 2 }", "1", "2"]);
}
