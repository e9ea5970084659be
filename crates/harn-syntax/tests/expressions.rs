//! Expressions: precedence, postfix forms, and the disambiguation rules.

use crate::common::{canonical, expr, program, sexpr};
use harn_syntax::ast::{ExprKind, StmtKind};

macro_rules! trees {
    ($($name:ident: { $($source:expr => $tree:expr;)* })*) => {
        $(#[test]
        fn $name() {
            $(assert_eq!(sexpr::expr(&expr($source)), $tree, "{}", $source);)*
        })*
    };
}

trees! {
    literals: {
        "9223372036854775807" => "9223372036854775807";
        "9223372036854775808" => "9.223372036854776e18";
        "0x1F + 0o17 + 0b101" => "(+ (+ 31 15) 5)";
        "1_000" => "1000";
        "2.5e-3" => "0.0025";
        "[5ms, 2s, 3m, 1h, 1d, 1w]" => "(list 5ms 2000ms 180000ms 3600000ms 86400000ms 604800000ms)";
        "r\"a\\n\"" => "\"a\\\\n\"";
        "\"a${x + 1}b\"" => "(str \"a\" (+ x 1) \"b\")";
        "\"${user[\"name\"]} ${[1].map({ t -> \"<${t}>\" })}\""
            => "(str ([] user \"name\") \" \" (.map() (list 1) (closure (t) {(str \"<\" t \">\")})))";
    }
    precedence: {
        "1 + 2 * 3 ** 4" => "(+ 1 (* 2 (** 3 4)))";
        "2 ** 3 ** 2" => "(** 2 (** 3 2))";
        "2 ** -1" => "(** 2 (- 1))";
        "-2 ** 2" => "(** (- 2) 2)";
        "-3.foo()" => "(- (.foo() 3))";
        "!a.b" => "(! (.b a))";
        "a - b - c" => "(- (- a b) c)";
        "a / b * c % d" => "(% (* (/ a b) c) d)";
        "a + n ?? 2" => "(+ a (?? n 2))";
        "n?.count ?? 0 > 0" => "(> (?? (?.count n) 0) 0)";
        "2 * n ?? 3" => "(?? (* 2 n) 3)";
        "1 < 2 < 3" => "(< (< 1 2) 3)";
        "a == b != c" => "(!= (== a b) c)";
        "a || b && c == d" => "(|| a (&& b (== c d)))";
        "a in b && c not in d" => "(&& (in a b) (not in c d))";
        "r == 1 to 5" => "(to (== r 1) 5)";
        "1 to n - 1 exclusive" => "(to< 1 (- n 1))";
        "n - 1 |> f |> g" => "(|> (|> (- n 1) f) g)";
        "a ? b : c ? d : e" => "(? a b (? c d e))";
        "a ? b ? 1 : 2 : 3" => "(? a (? b 1 2) 3)";
        "a || b ? c : d to e" => "(to (? (|| a b) c d) e)";
        "try* f() + 1" => "(+ (try* (call f)) 1)";
        "!!a" => "(! (! a))";
    }
    postfix_forms: {
        "a.b?.c[0]?[1][1:2][:][:3][4:]"
            => "([:] ([:] ([:] ([:] (?[] ([] (?.c (.b a)) 0) 1) 1 2) _ _) _ 3) 4 _)";
        "f(x)(y)" => "(call (call f x) y)";
        "list[0](y)" => "(call ([] list 0) y)";
        "(x.f)(5)" => "(call (paren (.f x)) 5)";
        "x.f(5)" => "(.f() x 5)";
        "x?.f(...a, 1, ...b)" => "(?.f() x ...a 1 ...b)";
        "a.type.match.in" => "(.in (.match (.type a)))";
        "d[\"k\"](y)" => "(call ([] d \"k\") y)";
        "make()?.b?" => "(propagate (?.b (call make)))";
        "5.name" => "(.name 5)";
    }
    question_marks: {
        "r?" => "(propagate r)";
        "r? + 1" => "(+ (propagate r) 1)";
        "flag ? 1 : 2" => "(? flag 1 2)";
        "flag ?[1] : [2]" => "(? flag (list 1) (list 2))";
        "flag ?-1 : 1" => "(? flag (- 1) 1)";
        "list?[0]" => "(?[] list 0)";
        "list ?[0]" => "(?[] list 0)";
        "a ? b? : c" => "(? a (propagate b) c)";
        "a ? b? - 1 : c" => "(? a (- (propagate b) 1) c)";
        "f(r?, a ? b : c)" => "(call f (propagate r) (? a b c))";
        "{a: r?, b: 2}" => "(dict a: (propagate r) b: 2)";
        "{a: c ?\n x : y}" => "(dict a: (propagate c) x: y)";
        "[c ?\n x : y]" => "(list (? c x y))";
        "{a: r?\n b: 2}" => "(dict a: (propagate r) b: 2)";
        "x[a ? b : c]" => "([] x (? a b c))";
        "x[r?:2]" => "([:] x (propagate r) 2)";
        "n > 2 ? {a: 1} : { x -> x }" => "(? (> n 2) (dict a: 1) (closure (x) {x}))";
    }
    braces: {
        "{}" => "(dict)";
        "{a: 1, \"b c\": 2, type: 3, [k]: 4, ...d}" => "(dict a: 1 b c: 2 type: 3 [k]: 4 ...d)";
        "{\"${k}\": 1}" => "(dict [(str k)]: 1)";
        "{ x -> x }" => "(closure (x) {x})";
        "{ -> 1; 2 }" => "(closure () {1; 2})";
        "{ a: int, b = 2, ...r -> a }" => "(closure (a: int, b = 2, ...r) {a})";
        "{ x ->\n let y = x\n y\n}" => "(closure (x) {let y = x; y})";
        "{f: { x -> x }}" => "(dict f: (closure (x) {x}))";
        "Point {x: 1, ...p}" => "(struct Point x: 1 ...p)";
        "Point {}" => "(struct Point)";
        "Point {\n  x: 1\n  y: 2\n}" => "(struct Point x: 1 y: 2)";
        "a.Point" => "(.Point a)";
        "fn(a, b = 1) { a }" => "(fn (a, b = 1) {a})";
        "if Ready { 1 }" => "(if Ready {1})";
        "if Ready {}" => "(if Ready {})";
        "if Ready {} else {}" => "(if Ready {} else {})";
        "if P {} == p { 1 }" => "(if (== (struct P) p) {1})";
        "if Ready { go(1) } else { 2 }" => "(if Ready {(call go 1)} else {2})";
    }
    type_arguments: {
        "f<T>(x)" => "(call f <T> x)";
        "f<list<int>, {a: int | nil}>(x)" => "(call f <list<int>> <{a: int | nil}> x)";
        "f<fn(int) -> string>(x)" => "(call f <fn(int) -> string> x)";
        "f<\"a\" | -1>(x)" => "(call f <\"a\" | -1> x)";
        "a < b" => "(< a b)";
        "a < b > c" => "(> (< a b) c)";
        "a < b + 1 > (c)" => "(> (< a (+ b 1)) (paren c))";
        "a.b<c>(d)" => "(> (< (.b a) c) (paren d))";
        "[a < b, (a < b) == (c > b)]" => "(list (< a b) (== (paren (< a b)) (paren (> c b))))";
    }
    keyword_expressions: {
        "if a { 1 } else if b { 2 } else { 3 }" => "(if a {1} b {2} else {3})";
        "if true { 1 } else { 2 } + 5" => "(+ (if true {1} else {2}) 5)";
        "try { a } catch (e: E) { b } finally { c }" => "(try {a} catch e: E {b} finally {c})";
        "try { a } catch e { b }" => "(try {a} catch e {b})";
        "try { a } catch { b }" => "(try {a} catch {b})";
        "try { a }" => "(try {a})";
        "retry 3 { a }" => "(retry 3 {a})";
        "retry (n + 1) { a }" => "(retry (paren (+ n 1)) {a})";
        "deadline 5s { a }" => "(deadline 5000ms {a})";
        "spawn { a }" => "(spawn {a})";
        "parallel 3 { i -> i }" => "(parallel Count 3 (i) {i})";
        "parallel(5) { 1 }" => "(parallel Count (paren 5) () {1})";
        "parallel each xs with { max_concurrent: 2 } { x -> x } as stream"
            => "(parallel Each xs max 2 (x) {x} stream)";
        "parallel settle f(xs) { _ -> 1 }" => "(parallel Settle (call f xs) (_) {1})";
        "parallel each { i -> i }" => "(parallel Count each (i) {i})";
        "select { m from ch { m } timeout 5s { 1 } }" => "(select m from ch {m} timeout 5000ms {1})";
        "select {\n timeout from ch { 1 }\n default { 2 }\n}" => "(select timeout from ch {1} default {2})";
    }
    match_arms: {
        "match v { 1 -> { 1 } _ -> { 0 } }" => "(match v 1 -> {1} _ -> {0})";
        "match v { {k: 1, n: x, ...r} if x > 1 -> { } }" => "(match v {k: 1, n: bind x, ...r} if (> x 1) -> {})";
        "match v { [1, x, ...r] -> { }\n [] -> { } }" => "(match v [1, bind x, ...r] -> {} [] -> {})";
        "match v { E.V -> { } E.V(2, h) -> { } Ok(x) -> { } Err(_) -> { } }"
            => "(match v E::V -> {} E::V(2, bind h) -> {} Result::Ok(bind x) -> {} Result::Err(_) -> {})";
        "match v { 1 | 2\n | n -> { } }" => "(match v 1 | 2 | n -> {})";
        "match v { -3 -> { } 1 + 2 -> { } a.b -> { } (x) -> { } nil -> { } }"
            => "(match v (- 3) -> {} (+ 1 2) -> {} (.b a) -> {} (paren x) -> {} nil -> {})";
        "match v { {} -> { } \"a\" -> { } }" => "(match v {} -> {} \"a\" -> {})";
        "match v { [...a, b] -> { } }" => "(match v (list ...a b) -> {})";
    }
    lists_take_newlines_for_commas: {
        "[\n 1\n 2,\n 3\n]" => "(list 1 2 3)";
        "[\n 1\n -5\n]" => "(list 1 (- 5))";
        "f(\n a\n ,\n b,\n)" => "(call f a b)";
        "(\n 1\n + 5\n)" => "(paren (+ 1 5))";
        "x[\n 1\n]" => "([] x 1)";
    }
}

#[test]
fn a_colon_without_question_is_an_error() {
    assert_eq!(canonical("list?[0] : 1").len(), 1);
}

#[test]
fn operators_keep_their_own_span() {
    let source = "aa + bb";
    let ExprKind::Binary { op_span, .. } = expr(source).kind else { panic!("no operator") };
    assert_eq!(op_span.slice(source), "+");
    let source = "x not  in y";
    assert_eq!(expr(source).blame().slice(source), "not  in");
    let source = "a.b.c(1)";
    assert_eq!(expr(source).blame().slice(source), "c");
    let source = "a\n  [0]";
    assert_eq!(program(source).items.len(), 2, "a subscript must stand on the same line");
}

#[test]
fn spans_cover_the_text() {
    let source = "let v = f(a)[1:2].b ?? (c ? d : e)";
    let items = program(source).items;
    let StmtKind::Let { value, .. } = &items[0].kind else { panic!("no let") };
    assert_eq!(value.span.slice(source), "f(a)[1:2].b ?? (c ? d : e)");
    assert_eq!(items[0].span.slice(source), source);
}

#[test]
fn yields_belong_to_the_innermost_function() {
    let source = "fn f() { let g = { -> yield 1 }\n if a { emit 2 } }\nfn h() { if a { yield } }";
    let all: Vec<_> = program(source).items.iter().map(sexpr::stmt).collect();
    assert_eq!(
        all,
        [
            "fn f () {let g = (closure () yields {yield 1}); (if a {emit 2})}",
            "fn h () yields {(if a {yield})}"
        ]
    );
}

#[test]
fn long_and_deep_expressions_parse_on_a_small_stack() {
    let deep = |open: &str, core: &str, close: &str, count: usize| {
        format!("let x = {}{core}{}", open.repeat(count), close.repeat(count))
    };
    let sources = [
        deep("(", "1", ")", 250),
        deep("[", "1", "]", 250),
        deep("{ a -> ", "1", " }", 250),
        deep("{a: ", "1", "}", 250),
        deep("f(", "1", ")", 250),
        deep("if a { ", "1", " }", 240),
        deep("\"${", "1", "}\"", 250),
        deep("-", "1", "", 990),
        deep("a ** ", "1", "", 990),
        deep("a ? b : ", "1", "", 900),
        deep("a + ", "1", "", 990),
        deep("", "a", ".b", 990),
        deep("", "a", "()", 900),
        format!("if a {{ }}{}", " else if a { }".repeat(5000)),
        deep("if ", "a", " { }", 450),
    ];
    let parse_all = move || {
        for source in &sources {
            let parsed = harn_syntax::parse(source);
            assert_eq!(parsed.errors, [], "{}", &source[..40]);
        }
    };
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(parse_all);
    thread.expect("a thread").join().expect("no overflow");
}

#[test]
fn chains_without_end_are_refused() {
    for (open, close) in [("a + ", ""), ("", ".a"), ("!", ""), ("a ? b : ", ""), ("a ** ", ""), ("a >\n", "")]
    {
        let source = format!("let x = {}a{}", open.repeat(100_000), close.repeat(100_000));
        let errors = harn_syntax::parse(&source).errors;
        assert_eq!(errors.len(), 1, "{open}{close}");
        assert_eq!(errors[0].kind, harn_syntax::SyntaxErrorKind::ChainTooLong);
    }
}

#[test]
fn long_files_are_no_long_chains() {
    let source = "type A = list<int>\nlet a = b > c\nlet d = r?\nlet e = a\n".repeat(2000);
    assert_eq!(harn_syntax::parse(&source).errors, []);
    let dict = format!("let d = {{\n{}}}", "k: list<int>(1) > 2\n".repeat(3000));
    assert_eq!(harn_syntax::parse(&dict).errors, []);
}
