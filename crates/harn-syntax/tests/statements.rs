//! Statements, declarations, patterns and types.

use crate::common::{program, sexpr};

macro_rules! statements {
    ($($name:ident: { $($source:expr => $tree:expr;)* })*) => {
        $(#[test]
        fn $name() {
            $(
                let items: Vec<_> = program($source).items.iter().map(sexpr::stmt).collect();
                assert_eq!(items.join("; "), $tree, "{}", $source);
            )*
        })*
    };
}

statements! {
    bindings: {
        "let a = 1" => "let a = 1";
        "var a: list<int> = []" => "var a: list<int> = (list)";
        "let {a, b = 5, type: t = 7, c: _, ...rest} = v"
            => "let {a: a, b: b = 5, type: t = 7, c: _, ...rest} = v";
        "let {...rest} = v" => "let {...rest} = v";
        "let {a ...rest} = v" => "let {a: a, ...rest} = v";
        "let [x, _, y = 9, ...more,] = v" => "let [x, _, y = 9, ...more] = v";
        "let {} = v\nlet [] = v" => "let {} = v; let [] = v";
        "let {\n a\n b,\n} = v" => "let {a: a, b: b} = v";
    }
    assignments: {
        "a = 1" => "a = 1";
        "a.b[i].type += f(x)" => "a.b[i].type += (call f x)";
        "a -= 1; a *= 2; a /= 3; a %= 4" => "a -= 1; a *= 2; a /= 3; a %= 4";
    }
    loops: {
        "for x in xs { }" => "for x in xs {}";
        "for (k, v) in d { break }" => "for (k, v) in d {break}";
        "for {a, ...r} in xs { continue }" => "for {a: a, ...r} in xs {continue}";
        "for [a] in xs { }" => "for [a] in xs {}";
        "for _ in CHANNEL {}\nwhile Ready {}" => "for _ in CHANNEL {}; while Ready {}";
        "for not in xs { }" => "for not in xs {}";
        "while (a) { }" => "while (paren a) {}";
        "for i in 1 to 3 { if i == 2 { continue }; print(i) }"
            => "for i in (to 1 3) {(if (== i 2) {continue}); (call print i)}";
    }
    leaving: {
        "return\nreturn 1; throw e" => "return; return 1; throw e";
        "fn f() { return }" => "fn f () {return}";
        "guard a else { return }" => "guard a {return}";
        "require a, \"m\"\nrequire b" => "require a \"m\"; require b";
        "yield\nyield 1" => "yield; yield 1";
        "defer { a }; mutex { b }" => "defer {a}; mutex {b}";
    }
    newlines: {
        "let a = 1\n  |> f\n  .b\n\n  // note\n  ?? c" => "let a = (|> 1 (?? (.b f) c))";
        "let a = b ?\n 1 :\n 2" => "let a = (? b 1 2)";
        "let a = b\n  ? 1\n  : 2" => "let a = (? b 1 2)";
        "let a = r?\nlet b = 2" => "let a = (propagate r); let b = 2";
        "let a = r?\nb ? 1 : 2" => "let a = (propagate r); (? b 1 2)";
        "let a = b >\n c" => "let a = (> b c)";
        "type A = list<int>\nlet b = 1" => "type A = list<int>; let b = 1";
        "let a = 5\n- 3" => "let a = 5; (- 3)";
        "let g = f\n(3)" => "let g = f; (paren 3)";
        "let g = f \\\n(3)" => "let g = (call f 3)";
        "let a = Name\n{x: 1}" => "let a = Name; (dict x: 1)";
        "let a =\n 7" => "let a = 7";
        "let a = b in\n c\nlet d = a.in\ne" => "let a = (in b c); let d = (.in a); e";
        "if a\n{\n 1\n}\nelse\n{ 2 }" => "(if a {1} else {2})";
        "try { a }\n\n// c\ncatch (e) { b }\nfinally\n{ c }" => "(try {a} catch e {b} finally {c})";
        "let d = {\n if: 1\n else: 2\n catch: 3\n}" => "let d = (dict if: 1 else: 2 catch: 3)";
        "1; 2;\n3;" => "1; 2; 3";
        "match x {\n  1 -> { a }\n\n  2 -> { b }\n}" => "(match x 1 -> {a} 2 -> {b})";
        "\n\n1\n\n\n" => "1";
    }
    functions: {
        "fn f() { }" => "fn f () {}";
        "pub fn f<T, in U, out V>(a: T, b = 1, ...c: list<U>) -> V | nil where T: I, U: J { a }"
            => "pub fn f<T, in U, out V> (a: T, b = 1, ...c: list<U>) -> V | nil {a} where T: I, U: J";
        "gen fn s() -> Stream<int> { emit 1 }" => "fn s () -> Stream<int> gen {emit 1}";
        "fn f(\n a,\n b,\n) {\n a\n}" => "fn f (a, b) {a}";
        "let gen = 1" => "let gen = 1";
        "fn f<out>(a: out) { }" => "fn f<out> (a: out) {}";
    }
    pipelines: {
        "pipeline default(task, project) -> string extends base { 1 }"
            => "pipeline default extends base (task, project) -> string {1}";
        "override f(a) { a }" => "override f (a) {a}";
    }
    tools: {
        "tool t(q: string, n: int = 5) -> string {\n  description \"d\"\n  guidance \"g\"\n  compact true\n  \
         annotations {a: 1}\n  \"${q}\"\n}"
            => "tool t Some(\"d\") guidance=\"g\" compact=true annotations=(dict a: 1) \
                (q: string, n: int = 5) -> string {(str q)}";
        "tool t() { guidance = 1; compact }" => "tool t None () {guidance = 1; compact}";
        "tool t() { description \"d\" }" => "tool t Some(\"d\") () {}";
    }
    skills: {
        "skill s {\n  description \"d\"\n  on_activate fn() { 1 }; tools [a]\n}"
            => "skill s {description: \"d\", on_activate: (fn () {1}), tools: (list a)}";
        "skill s { }" => "skill s {}";
    }
    eval_packs: {
        "eval_pack p \"my id\" {\n  cases: [1]\n  let x = 1\n  summarize { x }\n}"
            => "eval_pack p \"my id\" {cases: (list 1)} [let x = 1] summarize {x}";
        "eval_pack \"My Pack--2\" { a: r?\n b: 2 }"
            => "eval_pack my_pack_2 \"My Pack--2\" {a: (propagate r), b: 2} []";
        "eval_pack \"2x\" { }" => "eval_pack eval_pack_2x \"2x\" {} []";
        "eval_pack \"match\" { }" => "eval_pack eval_pack_match \"match\" {} []";
    }
    type_declarations: {
        "enum E<T> { A, B(x: int) C(float, y, list<int>)\n D }"
            => "enum E<T> {A, B(x: int), C(float, y, type list<int>), D}";
        "struct P<T> { x: int y?: T, z\n type: string }"
            => "struct P<T> {x: int, y?: T, z, type: string}";
        "struct P { x?: int\n y?\n z: int }" => "struct P {x?: int, y?, z: int}";
        "type T = {a: int, b?: string\n type: nil} | [int] | \"x\" | -1 | true"
            => "type T = {a: int, b?: string, type: nil} | list<int> | \"x\" | -1 | bool";
        "type F = fn(int, T) -> int | nil" => "type F = fn(int, T) -> int | nil";
        "type U = int\n  | nil" => "type U = int | nil";
        "type D = dict<\n  string,\n  list<list<int>>\n>" => "type D = dict<string, list<list<int>>>";
        "interface I<T> { type Item = int\n type X fn m(self, x: int) -> Item\n fn n<U>() }"
            => "interface I<T> {type Item = int; type X; fn m(self, x: int) -> Item; fn n<U>()}";
        "impl P { fn m(self) { 1 }\n pub fn n(self, ...r) { 2 } gen fn g(self) { emit 1 } }"
            => "impl P {fn m (self) {1}; pub fn n (self, ...r) {2}; fn g (self) gen {emit 1}}";
    }
    attributes: {
        "@a\n@b(1, -2, x: \"s\", k: edit, l: [nil, true, -1.5])\npub fn f() { }"
            => "@a() @b(Int(1), Int(-2), x: Str(\"s\"), k: Name(\"edit\"), l: List([Nil, Bool(true), Float(-1.5)])) \
                pub fn f () {}";
        "fn f() { @a fn g() { } }" => "fn f () {@a() fn g () {}}";
    }
    imports: {
        "import \"std/x\"\npub import { a, b, } from \"./m\"" => "import \"std/x\"; pub import {a, b} \"./m\"";
        "import {\n a\n b\n} from \"m\"" => "import {a, b} \"m\"";
    }
}

#[test]
fn comments_are_kept_in_order() {
    let source = "#!harn\n/// doc\nfn f() { // x\n}\n/* y */";
    let program = program(source);
    let comments: Vec<_> = program.comments.iter().map(|comment| comment.span.slice(source)).collect();
    assert_eq!(comments, ["/// doc", "// x", "/* y */"]);
    assert_eq!(program.shebang.map(|span| span.slice(source)), Some("#!harn"));
}

#[test]
fn a_leading_bar_in_a_union_and_late_fields_are_errors() {
    assert_eq!(crate::common::canonical("type U =\n  | int\n"), ["Expected type, got | at 2:3"]);
    assert_eq!(
        crate::common::canonical("tool t() { namespace(1)\n guidance \"g\" }"),
        ["Expected tool body item separator (`;` or newline), got str(g) at 2:11"]
    );
}

#[test]
fn pipelines_and_imports_are_found() {
    let program = program("import \"a\"\npipeline x() { }\nfn f() { }\npub pipeline y() { }");
    let names: Vec<_> = program.pipelines().map(|(_, pipeline)| pipeline.name.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(program.imports().map(|import| import.path.as_str()).collect::<Vec<_>>(), ["a"]);
}
