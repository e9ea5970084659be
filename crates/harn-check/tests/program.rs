//! The checks of a program: what they say, and what they leave alone.

use crate::common::{Project, diagnostics, drawn, messages};
use insta::assert_snapshot;

const NONE: [&str; 0] = [];

/// Asserts that nothing is said about a program.
fn fine(text: &str) {
    assert_eq!(messages(text), [] as [&str; 0], "in {text}");
}

#[test]
fn an_unknown_call_target_with_a_suggestion() {
    assert_snapshot!(drawn("pipeline default() {\n  printl(\"x\")\n}\n"));
}

#[test]
fn an_unknown_call_target_without_suggestion() {
    assert_snapshot!(drawn("fn f() {\n  let inner = { x -> x }\n  zzzzzz(inner(1))\n}\nf()\n"));
}

#[test]
fn suggestions_come_from_every_scope() {
    let near = |text: &str| messages(text).concat();
    assert!(near("fn greet(n) { n }\ngret(1)").ends_with("did you mean `greet`?"));
    assert!(near("fn f() {\n  let twice = { x -> x }\n  twise(1)\n}").ends_with("did you mean `twice`?"));
    assert!(near("import \"std/text\"\nshoot(1)").ends_with("did you mean `shout`?"));
    assert!(near("import { shout } from \"std/text\"\nshoutt(1)").ends_with("did you mean `shout`?"));
    // A variable that holds no function is no help.
    assert_eq!(near("let total = 1\ntotall(1)"), "call target `totall` is not defined or imported");
}

#[test]
fn a_text_with_places_for_values_is_answered() {
    let shown = drawn("println(\"%s of %s\" % 1)");
    assert!(shown.contains("help: interpolate the value: \"... ${value}\""), "{shown}");
}

#[test]
fn names_are_visible_where_the_language_says() {
    fine("fn a() { b() }\nfn b() { 1 }\na()");
    fine("fn outer() {\n  helper()\n  fn helper() { 1 }\n}\nouter()");
    fine("fn apply(f, g = f(1)) { f(g) }\napply({ x -> x })");
    fine("fn f(...fs) { for g in fs { g() } }");
    fine("let {a, b: c, ...d} = {a: 1}\na()\nc()\nd()");
    fine("for (k, v) in {} { k(v) }");
    fine(
        "fn f(x) { match x { [g, ...h] -> { g(h) } {k: i} -> { i() } E.V(j) if j() -> { j() } l -> { l() } } }",
    );
    fine("try { 1 } catch (e) { e() }");
    fine("fn f(ch) { select { m from ch { m() } } }");
    fine("struct P { x: int }\nenum E { A, B(n) }\nprintln(P({x: 1}))\nprintln(E.B(1))");
    fine("Ok(1)\nErr(2)\n__internal()\nhostlib_x()\n5 |> split(_, \" \")");
    fine("fn f<T>(x: T) { T(x) }");
    fine(
        "fn g() { 1 }\npipeline base() { let h = { -> 1 } }\npipeline child() extends base {\n  h()\n  override g() { 2 }\n  g()\n}",
    );
    fine("import \"std/text\"\npipeline child() extends imported { h() }");
    fine("tool t(q: string) { description \"d\"\n len(q) }\nskill s { on_activate fn() { t(\"x\") } }\ns()");
    fine("eval_pack p { model: 1\n model()\n summarize { model() } }");
    fine("let g = { -> later() }\nlet later = { -> 1 }\ng()");
    fine("parallel each [1] { x -> x() }\nspawn { len([]) }");
}

#[test]
fn what_neither_a_loop_nor_a_struct_takes() {
    assert_eq!(messages("for i in 10 { println(i) }"), ["cannot iterate over int"]);
    assert_eq!(messages("let n = true\nfor i in n { println(i) }"), ["cannot iterate over bool"]);
    let shown = drawn("for i in 10 { println(i) }");
    assert!(shown.starts_with("for i") && shown.contains("E0106"), "{shown}");
    assert!(shown.contains("help: iterate over a range: `for i in 1 to 10`"), "{shown}");
    fine("for c in \"abc\" { println(c) }\nfor x in nil { println(x) }\nfor i in 1 to 10 { println(i) }");
    let point = "struct P { x: int, y: int }\n";
    assert_eq!(messages(&format!("{point}P(1, 2)")), ["P: expected a dict of fields, got int"]);
    fine(&format!("{point}let d = {{x: 1, y: 2}}\nP(d)\nP({{x: 1, y: 2}})"));
}

#[test]
fn variables_of_the_machine_are_not_guessed() {
    assert_eq!(messages("println(__file__)"), ["Undefined variable: __file__"]);
}

#[test]
fn names_of_other_functions_are_not_visible() {
    let expected = ["call target `helper` is not defined or imported"];
    assert_eq!(messages("fn a() { let helper = { -> 1 }\n helper() }\nfn b() { helper() }"), expected);
    assert_eq!(messages("for x in [1] { let helper = { -> 1 } }\nhelper()"), expected);
    // A function is known in the whole file, wherever it is declared.
    fine("fn a() { fn helper() { 1 } }\nhelper()");
}

#[test]
fn imports_are_followed() {
    let project = Project::new(&[
        (
            "lib.harn",
            "fn helper() { 1 }\npub fn greet() { helper() }\npub struct Pair { a, b }\npub import \"deep/more\"\n",
        ),
        ("deep/more.harn", "import \"../lib\"\nfn far() { 1 }\n"),
        ("open.harn", "fn one() { 1 }\nlet hidden = { -> 1 }\n"),
        ("broken.harn", "fn one( {\n"),
    ]);
    let found = |text: &str| {
        let found = diagnostics(text, &project.dir);
        found.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>()
    };
    assert_eq!(found("import \"lib\"\ngreet()\nfar()\nprintln(Pair {a: 1, b: 2})"), [] as [&str; 0]);
    assert_eq!(found("import \"lib\"\nhelper()"), ["call target `helper` is not defined or imported"]);
    assert_eq!(found("import { helper } from \"lib.harn\"\nhelper()"), [] as [&str; 0]);
    assert_eq!(
        found("import \"open\"\none()\nhidden()"),
        ["call target `hidden` is not defined or imported"]
    );
    assert_eq!(found("import \"std/text\"\nhidden()"), ["call target `hidden` is not defined or imported"]);
}

#[test]
fn an_import_that_cannot_be_followed_silences_the_check_of_names() {
    let project = Project::new(&[("broken.harn", "fn one( {\n"), ("facade.harn", "pub import \"gone\"\n")]);
    for import in [
        "import \"gone\"",
        "import \"broken\"",
        "import \"facade\"",
        "import \"std/gone\"",
        "import { a } from \"gone\"",
    ] {
        assert_eq!(diagnostics(&format!("{import}\nmissing(1)"), &project.dir), [], "{import}");
    }
}

#[test]
fn a_generator_returns_no_value() {
    let lost = ["a generator returns no value: what `return` gives is dropped"];
    assert_eq!(messages("fn g() {\n  yield 1\n  return 5\n}\ng()"), lost);
    assert_eq!(messages("gen fn g() {\n  emit 1\n  return 5\n}\ng()"), lost);
    fine("fn g() {\n  yield 1\n  return\n}\ng()");
    fine("fn g() {\n  let f = { x -> return x }\n  yield f(1)\n}\ng()");
    fine("pipeline p() {\n  yield 1\n  return 5\n}");
}

#[test]
fn declarations_of_one_name() {
    let twice = |name: &str| {
        [format!(
            "Cannot redeclare immutable variable '{name}' in the same scope (use 'var' for mutable bindings)"
        )]
    };
    assert_eq!(messages("struct P { x: int }\nstruct P { y: int }\nprintln(1)"), twice("P"));
    assert_eq!(messages("struct P { x: int }\nenum P { A }\nprintln(1)"), twice("P"));
    assert_eq!(messages("fn f() {\n  fn h() { 1 }\n  fn h() { 2 }\n  h()\n}\nf()"), twice("h"));
    assert_eq!(messages("tool t() { 1 }\ntool t() { 2 }\nprintln(1)"), twice("t"));
    fine("fn f() { struct P { x: int } }\nfn g() { struct P { y: int } }\nf()\ng()");
}

#[test]
fn operators_on_durations_and_containers() {
    assert_eq!(messages("println(1s + 1)"), ["can't add duration and int"]);
    assert_eq!(messages("println(1s ** 2)"), ["can't use '**' on duration and int (needs numeric operands)"]);
    assert!(messages("println([1] - [2])").concat().starts_with("can't use '-' on list<int> and list<int>"));
    assert!(messages("println({x: 1} * 2)").concat().starts_with("can't multiply {x: "));
    fine("println(1s + 2s, 1s - 2s, 2 * 1s, 1s * 2, 1s / 2s, [1] + [\"a\"])");
}

#[test]
fn emit_and_yield_in_the_wrong_place() {
    assert_snapshot!(drawn(
        "fn numbers() {\n  emit 1\n}\ngen fn doubled(xs) {\n  for x in xs {\n    yield x * 2\n    xs.each({ y -> emit y })\n  }\n}\nemit 3\n"
    ));
    fine(
        "gen fn s() { retry 2 { emit 1 }\n let g = { -> yield 1 } }\nfn g() { yield 1 }\npipeline p() { yield 2 }",
    );
}

#[test]
fn a_stream_function_returns_a_stream() {
    let message = |ret: &str| messages(&format!("gen fn s() -> {ret} {{ emit 1 }}"));
    for (ret, shown) in [
        ("int", "int"),
        ("[int]", "list<int>"),
        ("generator<int>", "Generator<int>"),
        ("{a: int, b?: \"x\" | nil}", "{a: int, b?: \"x\" | nil}"),
        ("fn(int) -> nil", "fn(int) -> nil"),
    ] {
        assert_eq!(message(ret), [format!("`gen fn` must return Stream<T>, got {shown}")]);
    }
    for fine in ["Stream<int>", "stream", "any", "Numbers", "Stream<int> | nil"] {
        assert_eq!(message(fine), [] as [&str; 0], "{fine}");
    }
    fine("fn f() -> int { 1 }");
}

#[test]
fn arguments_are_counted() {
    assert_snapshot!(drawn(
        "fn add(a, b) { a + b }\nfn greet(name, greeting = \"hi\") { name }\nadd(1, 2, 3)\nadd(1)\ngreet()\n"
    ));
    fine("fn f(a, b = 1, ...r) { a }\nf(1)\nf(1, 2, 3, 4)\nf()");
    fine("fn f(a, b) { a }\nlet xs = [1, 2]\nf(...xs)");
    // Another meaning of the name may hold at the call.
    fine("fn f(a) { a }\nfn g(f) { f(1, 2) }\nfor f in [1] { f() }");
    fine("fn f(a) { a }\npipeline base() { f(1, 2) }\npipeline p() extends base { override f(a, b) { b } }");
    fine("fn g() {\n  let f = { a, b -> a }\n  f(1)\n}");
}

#[test]
fn dead_code_is_reported_once_per_block_and_not_checked() {
    assert_snapshot!(drawn(
        "fn f(x) {\n  if x {\n    return 1\n  } else {\n    throw \"no\"\n  }\n  unknown(1)\n  unknown(2)\n}\nfn g() {\n  for x in [1] {\n    continue\n    f(x)\n  }\n  return h()\n  fn h() { unknown(3) }\n}\n"
    ));
    fine(
        "fn f(x) { if x { return 1 }\n 2 }\nfn g(x) { while true { return 1 }\n 2 }\nfn h(x) { match x { _ -> { return 1 } }\n 2 }",
    );
}

#[test]
fn statements_beside_pipelines_are_not_executed() {
    assert_snapshot!(drawn(
        "import \"std/text\"\nlet a = 1\nprintln(a)\na |> println\nfn f() { 1 }\npipeline default() {\n  println(f())\n}\nprintln(2)\n"
    ));
    fine("let a = 1\nprintln(a)\nfn f() { 1 }");
}

#[test]
fn assignments_to_let() {
    assert_snapshot!(drawn(
        "let x = 1\nvar y = {a: 1}\nx = 2\ny.a = 3\nfn f(p) {\n  let d = {}\n  d.k += p\n}\n"
    ));
    fine("let x = 1\nvar x = 2\nx = 3");
    fine("let x = 1\nfn f() {\n  var x = 2\n  x = 3\n  for x in [1] { x = 2 }\n}");
}

#[test]
fn struct_literals() {
    assert_snapshot!(drawn(
        "struct Point { x: int, y: int, label?: string }\nlet p = Point {x: 1, lable: \"a\"}\nlet q = Pint {x: 1}\nlet r = Zebra {a: 1}\nlet s = Point {x: 1, ...p}\n"
    ));
    fine("fn f() {\n  struct Inner { a }\n  Inner {a: 1}\n}\nlet o = Inner {a: 1}");
}

#[test]
fn attributes_and_deprecated_functions() {
    assert_snapshot!(drawn(
        "@deprecated(since: \"0.2\", use: \"fresh\")\nfn old() { 1 }\n@deprecated\nfn older() { 1 }\n@tset\nfn fresh() { old() + older() }\n@test\nfn t() { 1 }\n@complexity(allow)\nstruct S { a }\n@invariant(\"fs.writes\")\nenum E { A }\n"
    ));
    fine("@test\npipeline checks() { 1 }\n@acp_tool(name: \"t\", kind: edit)\nfn tool_fn() { 1 }");
}

#[test]
fn a_fix_replaces_the_name() {
    let text = "printl(1)";
    let fix = diagnostics(text, std::path::Path::new("")).remove(0).fix.unwrap();
    let (span, new) = &fix.edits[0];
    assert_eq!((span.slice(text), new.as_str()), ("printl", "print"));
}

#[test]
fn very_many_unknown_names_take_no_time() {
    let text: String = (0..5000).map(|i| format!("fn known_{i}() {{ unknown_{i}() }}\n")).collect();
    let found = messages(&text);
    assert_eq!(found.len(), 5000);
    assert_eq!(found[4999], "call target `unknown_4999` is not defined or imported");
}

#[test]
fn imported_types_are_checked_like_those_of_the_file() {
    let project = Project::new(&[
        (
            "a.harn",
            "import { Part } from \"parts\"\npub struct S { a: int, part?: Part }\nimpl S { fn size(self) -> int { self.a } }\npub struct Box<T> { of: T }\npub interface Sized { fn size(self) -> int }\npub type Row = {n: int}\n@deprecated(since: \"2\", use: \"new\")\npub fn old() { 1 }\n",
        ),
        ("parts.harn", "pub struct Part { n: int }\n"),
    ]);
    let head = "import { S, Box, Sized, Row, old } from \"a\"\nimport { Part } from \"parts\"\nstruct Own { a: int }\nstruct Big { a: int }\nimpl Big { fn size(self) -> int { self.a } }\ninterface Priced { fn price(self) -> int }\nfn takes(i: Sized) { i }\nfn pays(i: Priced) { i }\nfn asks<T>(x: T) where T: Sized { x.size() }\nfn read<T>(v: any, s: Schema<T>) -> T { return v }\n";
    let found = |text: &str| -> Vec<String> {
        let found = diagnostics(&format!("{head}{text}"), &project.dir);
        found.into_iter().map(|diagnostic| diagnostic.message).collect()
    };
    let fine = "let s = S {a: 1, part: Part {n: 2}}\nprintln(s.size(), s.a)\ntakes(s)\ntakes(Big {a: 1})\nasks(s)\nasks(Big {a: 1})\nlet n: int = Box {of: 1}.of\nlet m: int = read({n: n}, Row).n\n";
    assert_eq!(found(fine), NONE);
    assert_eq!(found("S {a: \"x\"}"), ["Field 'a' in struct 'S' expects int, got string"]);
    assert_eq!(found("S {a: 1, part: 5}"), ["Field 'part' in struct 'S' expects Part, got int"]);
    assert_eq!(
        found("S {zz: 3}"),
        ["Missing field 'a' in struct 'S' construction", "Unknown field 'zz' in struct 'S'"]
    );
    assert_eq!(found("S {a: 1}.nope()"), ["unknown method `nope` on S"]);
    assert_eq!(found("let n: int = Box {of: \"x\"}.of"), ["'n' declared as int, but assigned string"]);
    assert_eq!(found("let n: nil = read({n: 1}, Row).n"), ["'n' declared as nil, but assigned int"]);
    assert_eq!(found("old()"), ["`old` is deprecated (since 2)"]);
    assert_eq!(found("takes(Own {a: 1})"), ["Argument 1 ('i'): expected Sized, got Own"]);
    assert_eq!(found("takes({a: 1})"), ["Argument 1 ('i'): expected Sized, got {a: int}"]);
    assert_eq!(found("pays(S {a: 1})"), ["Argument 1 ('i'): expected Priced, got S"]);
    assert_eq!(
        found("asks(Own {a: 1})"),
        [
            "Type 'Own' does not satisfy interface 'Sized': missing method(s): size (required by constraint `where T: Sized`)"
        ]
    );
    assert_eq!(
        found("fn w<T>(x: T) where T: Sized { x.zork() }"),
        ["Method 'zork' not found in interface 'Sized' (constraint on 'T')"]
    );
}

#[test]
fn imported_functions_have_parameters_of_their_own_types() {
    let project = Project::new(&[
        (
            "kinds.harn",
            "pub struct Line { n: int }\npub enum Size { Small, Sized(n: int) }\npub interface Priced { fn price(self) -> int }\nimpl Line { fn count(self) { 1 } }\npub type Order = {id: int, lines: list<Line>}\n",
        ),
        (
            "shop.harn",
            "import { Line, Size, Priced, Order } from \"kinds\"\npub fn one(l: Line) { l.n }\npub fn all(ls: list<Line>) { len(ls) }\npub fn size(s: Size | nil) { s }\npub fn order(o: Order) { o.id }\npub fn total<T>(x: T) -> int where T: Priced { return x.price() }\npub fn show(p: Priced) { p.price() }\npub fn other(u: Unknown) { u }\npub tool send(l: Line) { l.n }\n",
        ),
    ]);
    let head = "import { Line, Size } from \"kinds\"\nimport { one, all, size, order, total, show, other, send } from \"shop\"\n";
    let found = |text: &str| -> Vec<String> {
        let found = diagnostics(&format!("{head}{text}"), &project.dir);
        assert!(found.iter().all(|d| d.severity == harn_syntax::Severity::Warning), "a run goes on");
        found.into_iter().map(|diagnostic| diagnostic.message).collect()
    };
    let fine = "let l = Line {n: 1}\none(l)\nall([l])\nall([])\nsize(Size.Small)\nsize(nil)\norder({id: 1, lines: [l]})\nshow(l)\nother(5)\nsend(l)\nsend({l: l})\n";
    assert_eq!(found(fine), NONE);
    assert_eq!(found("one(5)"), ["Argument 1 ('l'): expected Line, got int"]);
    assert_eq!(found("all([1, 2])"), ["Argument 1 ('ls'): expected list<Line>, got list<int>"]);
    assert_eq!(found("size(\"10%\")"), ["Argument 1 ('s'): expected Size | nil, got string"]);
    assert_eq!(
        found("order({id: \"a\", lines: []})"),
        ["Argument 1 ('o'): expected Order, got {id: string, lines: list}"]
    );
    assert_eq!(found("show(5)"), ["Argument 1 ('p'): expected Priced, got int"]);
    assert_eq!(
        found("total(Line {n: 1})"),
        [
            "Type 'Line' does not satisfy interface 'Priced': missing method 'price' (required by constraint `where T: Priced`)"
        ]
    );
    // Each file may give a struct methods.
    assert_eq!(found("impl Line { fn price(self) -> int { return self.n } }\ntotal(Line {n: 1})"), NONE);
    project.write(
        "more.harn",
        "import { Line } from \"kinds\"\nimpl Line { fn price(self) -> int { return 1 } }\n",
    );
    assert_eq!(found("import \"more\"\ntotal(Line {n: 1})"), NONE);
}

#[test]
fn a_type_of_the_same_name_is_another_one() {
    let project = Project::new(&[("shop.harn", "struct Line { n: int }\npub fn one(l: Line) { l.n }\n")]);
    let text = "import { one } from \"shop\"\ntype Line = {n: int}\nlet l: Line = {n: 1}\none(l)\n";
    assert_eq!(diagnostics(text, &project.dir).len(), 0);
}
