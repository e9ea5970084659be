//! What the layout looks like.

use harn_fmt::{Options, Refusal, format};

#[track_caller]
fn check(before: &str, after: &str) {
    let text = format(before, &Options::default()).unwrap();
    assert_eq!(text, after);
    assert_eq!(format(&text, &Options::default()).unwrap(), text, "a second pass changes it");
}

/// A text that is as it should be.
#[track_caller]
fn stays(text: &str) {
    check(text, text);
}

#[test]
fn statements_stand_alone() {
    check("let a=1;let b  =  2\n\n\n\nprintln( a+b )", "let a = 1\nlet b = 2\n\nprintln(a + b)\n");
    check("", "");
    check("// only\n\n\n", "// only\n");
    check("#!/usr/bin/env harn\nprintln( 1 )", "#!/usr/bin/env harn\nprintln(1)\n");
}

#[test]
fn a_file_has_line_ends_of_one_kind() {
    check("let a=1\r\nlet b = 2\r\n", "let a = 1\r\nlet b = 2\r\n");
    check("let a = 1\r\nlet b = 2\n", "let a = 1\r\nlet b = 2\r\n");
    check("let a = 1\nlet b = 2\r\n", "let a = 1\nlet b = 2\n");
    let text = "fn a() {\n  1\n}\n\n/* one\n   two */\n// three\nlet s = \"\"\"\n  x\n    y\n\"\"\"\nprintln(a(), s)\n";
    check(text, text);
    let crlf = text.replace('\n', "\r\n");
    check(&crlf, &crlf);
    // The values of strings do not depend on it.
    let value =
        |text: &str| format!("{:?}", harn_syntax::parse(text).program.items[1].kind).contains(r"x\n  y");
    assert!(value(text) && value(&crlf));
}

#[test]
fn comments_stay_in_patterns() {
    let arm = |pattern: &str| format!("match s {{\n  {pattern} -> {{ 0 }}\n  _ -> {{ 1 }}\n}}\n");
    for pattern in [
        "Shape /* c */.Dot",
        "Shape. /* c */ Dot",
        "Shape./* c */ Dot",
        "Shape /* a */./* b */ Dot /* d */",
        "/* c */ Shape.Dot",
        "Shape.Dot /* c */",
        "Shape.Ring(/* a */ x /* b */, y)",
        "Shape.Ring /* a */(x)",
        "{kind: /* a */ \"x\" /* b */}",
        "{/* a */ kind /* b */: k}",
        "[/* a */ 1, ... /* b */ rest /* c */]",
        "/* a */ 1 /* b */ | /* c */ 2 /* d */",
        "n /* a */ if /* b */ n > 1 /* c */",
        "- /* a */ 1",
    ] {
        let text = arm(pattern);
        let first = harn_fmt::format(&text, &Options::default()).unwrap();
        let before = first.split_once("->").unwrap().0;
        assert_eq!(text.matches("/*").count(), before.matches("/*").count(), "{text}\n{first}");
        assert_eq!(harn_fmt::format(&first, &Options::default()).unwrap(), first);
    }
}

#[test]
fn a_comment_after_limits_stays_there() {
    check(
        "struct P {\n  @range(0..=9) // small\n  x: int\n  @range(1..=2) /* c */ z: int\n  @range(0..=9) y: int // end\n}",
        "struct P {\n  @range(0..=9) // small\n  x: int\n  @range(1..=2) /* c */ z: int\n  @range(0..=9) y: int // end\n}\n",
    );
}

#[test]
fn declarations_stand_apart() {
    check(
        "fn a() { 1 }\nfn b(x:int,y=2,...r)->int where T:I { return x }\nlet c = 1",
        "fn a() {\n  1\n}\n\nfn b(x: int, y = 2, ...r) -> int where T: I {\n  return x\n}\n\nlet c = 1\n",
    );
    check(
        "struct P<T> { a: int, b?: [string]\n c }\nenum E { A, B(n: int, string) }",
        "struct P<T> {\n  a: int\n  b?: list<string>\n  c\n}\n\nenum E {\n  A\n  B(n: int, string)\n}\n",
    );
    check("fn f() {}", "fn f() {\n}\n");
    check("@test pub pipeline p(t) { 1 }", "@test\npub pipeline p(t) {\n  1\n}\n");
    check(
        "@deprecated(since:\"1:2,3\",use :\"g\") @tags( [\"a\",\"b\\\",\" , ],n:-1)\nfn f() { 1 }",
        "@deprecated(since: \"1:2,3\", use: \"g\")\n@tags([\"a\", \"b\\\",\"], n: -1)\nfn f() {\n  1\n}\n",
    );
}

#[test]
fn imports_are_sorted() {
    check(
        "import \"b\"\nimport { z, a } from \"a\"\n\nimport \"std/text\"\nlet x = 1",
        "import \"std/text\"\nimport { a, z } from \"a\"\nimport \"b\"\n\nlet x = 1\n",
    );
    // Comments between them give the order a meaning.
    stays("import \"b\"\n// first b, then a\nimport \"a\"\n");
}

#[test]
fn closures_and_arms_stay_short() {
    check("xs.map({x->x+1})", "xs.map({ x -> x + 1 })\n");
    check("xs.map({ x ->\n  x + 1\n})", "xs.map({ x -> x + 1 })\n");
    check("xs.each({ x -> let y = x; y })", "xs.each({ x ->\n  let y = x\n  y\n})\n");
    check(
        "match x { 1|2 -> {a} [h,...t] if h>1 -> { let b = h; b } _ -> {} }",
        "match x {\n  1 | 2 -> { a }\n  [h, ...t] if h > 1 -> {\n    let b = h\n    b\n  }\n  _ -> {\n  }\n}\n",
    );
    check("if a { b } else if c { d } else { e }", "if a {\n  b\n} else if c {\n  d\n} else {\n  e\n}\n");
}

#[test]
fn what_does_not_fit_breaks() {
    let long = "a".repeat(60);
    check(&format!("call({long}, {long}, 3)"), &format!("call(\n  {long},\n  {long},\n  3,\n)\n"));
    check(
        &format!("call(1, {{name: {long}, other: {long}}})"),
        &format!("call(1, {{\n  name: {long},\n  other: {long},\n}})\n"),
    );
    check(&format!("let x = {long} + {long} - 1"), &format!("let x = {long}\n  + {long} \\\n  - 1\n"));
    check(&format!("let x = {long} ? {long} : 1"), &format!("let x = {long}\n  ? {long}\n  : 1\n"));
    check("let d = {\n  a: 1,\n  b: 2,\n}", "let d = {a: 1, b: 2}\n");
    check("call({\n  a: 1\n})", "call({a: 1})\n");
}

#[test]
fn chains_keep_the_breaks_of_their_author() {
    stays("let r = xs\n  .filter({ x -> x > 1 })\n  .map({ x -> x * 2 })\n");
    stays("let r = a\n  && b\n  && c\n");
    check("let r = a &&\n  b", "let r = a\n  && b\n");
    check("let r = a -\n b", "let r = a \\\n  - b\n");
}

#[test]
fn parentheses_help_readers() {
    check("a || b && c", "a || (b && c)\n");
    check("x ?? 0 > 5", "(x ?? 0) > 5\n");
    check(
        "let a = r? ?\nlet b = r?  ?.c\nlet d = r? ?[0]\nlet e = r?  .x\nlet f = r?  .x()",
        "let a = r? ?\nlet b = r? ?.c\nlet d = r? ?[0]\nlet e = r? .x\nlet f = r? .x()\n",
    );
    stays("(a + b) * c\n");
}

#[test]
fn comments_stay() {
    stays("// above\nlet a = 1 // behind\n\n// alone\n\nlet b = 2\n// below\n");
    stays("let x = 1 /* one */ + 2 /* two */ - 3\n");
    stays("fn f() { // at the brace\n  // inside\n  1 // one\n  // at the end\n}\n");
    stays("let d = {\n  a: 1, // one\n  // two\n  b: 2,\n}\n");
    stays("let r = xs\n  // keep the large ones\n  .filter({ x -> x > 1 })\n");
    check("// ------\nlet a = 1", &format!("// {}\nlet a = 1\n", "-".repeat(77)));
}

#[test]
fn comments_stay_behind_what_they_speak_of() {
    stays("f(a /* first */, b /* second */)\n");
    stays("f(\n  a,\n  /* first */ b,\n)\n");
    stays("let d = {a: 1 /* one */, b /* key */: 2 /* two */}\nlet l = [1 /* one */, 2 /* two */]\n");
    stays("fn f(w /* metres */, h: int /* feet */ = 1 /* one */) -> int /* area */ {\n  w * h\n}\n");
    check("fn f(/* none */) { g(/* none */) }", "fn f(/* none */) {\n  g(/* none */)\n}\n");
    check("struct P { x: int /* px */, y /* pt */ }", "struct P {\n  x: int /* px */\n  y /* pt */\n}\n");
    check(
        "enum E { A /* one */, B(x: int /* n */) /* two */ }",
        "enum E {\n  A /* one */\n  B(x: int /* n */) /* two */\n}\n",
    );
    stays("type T = {n: int /* count */, s: list<string /* name */> /* names */}\n\nfn f() {\n  1\n}\n");
    stays("fn f(a) /* one */ -> int {\n  a\n}\n\nlet [x] /* first */ = l\n");
    stays("let {a /* the a */, b: c /* the b */, ...r /* others */} = d\nlet [x /* one */] = l\n");
    stays(
        "match a {\n  1 /* one */ -> { 1 }\n  2 /* two */ | 3 /* three */ -> { 2 }\n  {k: v /* it */} -> { v }\n}\n",
    );
    stays("import { a /* one */, b } from \"x\"\n");
    stays("for (k /* key */, v /* value */) in d /* all */ {\n  1\n} /* end */\n");
    stays("let x = xs /* all */.filter({ x -> x }) /* some */.map(f) /* others */[0]\n");
    check("g() /* one */; h() /* two */", "g() /* one */\nh() /* two */\n");
    stays("f(a /* one */, b) // both\n");
    let long = "a".repeat(50);
    stays(&format!("f(\n  {long} /* first */, // and\n  {long} /* second */,\n)\n"));
}

#[test]
fn comments_at_operators_stay_with_their_operands() {
    check("let x = 1 + // why\n  2", "let x = 1 // why\n  + 2\n");
    check(
        "let x = a + // first\n  b + // second\n  c // third",
        "let x = a // first\n  + b // second\n  + c // third\n",
    );
    check("let x = a && // first\n  b // second", "let x = a // first\n  && b // second\n");
    stays("let x = a // first\n  + b // second\n  + c // third\n");
    stays("let x = a\n  // why b\n  && b\n  // why\n  // c\n  && c\n");
    // Behind a backslash no comment may stand.
    check("let x = a - // first\n  b", "let x = a \\\n  - b // first\n");
}

#[test]
fn comments_at_brackets_stay_inside() {
    stays("let d = {\n  a: 1, // one\n  // b: 2,\n  // c: 3,\n}\n");
    stays("f(\n  1,\n  /* 2 */\n)\n");
    stays("fn f(\n  a, // one\n  // b,\n) {\n  a\n}\n");
    stays("type T = { // all\n  a: int, // one\n  // b: int,\n}\n\nlet x = 1\n");
    stays("let {\n  a, // one\n  // two\n  b,\n} = d\n");
    stays("match x {\n  [\n    a, // one\n    ...b, // others\n  ] -> { a }\n}\n");
    stays("import {\n  a, // one\n  // b,\n} from \"x\"\n");
    stays("let x = [\n  // nothing\n]\n");
    stays("if a {\n  1\n} /* other */ else {\n  2\n}\n");
    check("try {\n  1\n} /* all */\ncatch (e) {\n  2\n}", "try {\n  1\n} /* all */ catch (e) {\n  2\n}\n");
    check("f(x. /* one */ y. /* two */ z())", "f(x /* one */.y /* two */.z())\n");
    stays("match x /* { */ {\n  1 -> { a }\n}\n");
    stays("@test\n// why\nfn f() {\n  1\n}\n");
}

#[test]
fn comments_that_document_have_one_form() {
    check("/**\n * Doc.\n */\nfn f() {\n  1\n}\n", "/** Doc. */\nfn f() {\n  1\n}\n");
    check("///Doc.\nlet x = 1", "/** Doc. */\nlet x = 1\n");
    check("/// One.\n///\n///   two\nlet x = 1", "/**\n * One.\n *\n *   two\n */\nlet x = 1\n");
    // A gap separates two comments.
    check("/// One.\n\n/// Two.\nlet x = 1", "/** One. */\n\n/** Two. */\nlet x = 1\n");
    check("/** One.\n    Two. */\nlet x = 1", "/**\n * One.\n * Two.\n */\nlet x = 1\n");
    let long = "word ".repeat(18);
    check(
        &format!("fn f() {{\n  /** {long}end of it */\n  1\n}}"),
        &format!("fn f() {{\n  /**\n   * {long}end of it\n   */\n  1\n}}\n"),
    );
    check("f([\n  /// one\n  /// two\n  1,\n])", "f([\n  /**\n   * one\n   * two\n   */\n  1,\n])\n");
    check("let x = [\n  /// only\n]", "let x = [\n  /** only */\n]\n");
    // At the end of a line it documents nothing; and signs of comments in it would end it.
    stays("let x = 1 /// one\n");
    stays("/// a */ b\nlet x = 1\n");
    stays("/** a /* b */ c */\nlet x = 1\n");
    stays("// plain\n// lines\nlet x = 1\n");
}

#[test]
fn lines_of_dashes_head_sections() {
    let bar = format!("// {}", "-".repeat(77));
    check(
        "let a = 1\n// ----\n// Title\n// ------\nlet b = 2",
        &format!("let a = 1\n\n{bar}\n// Title\n{bar}\n\nlet b = 2\n"),
    );
    check(
        "// ----\n// Title\n// ------\n// ----\n// End\n// ----",
        &format!("{bar}\n// Title\n{bar}\n\n{bar}\n// End\n{bar}\n"),
    );
    check("// ----- Title --\nlet a = 1", &format!("// ---- Title {}\nlet a = 1\n", "-".repeat(66)));
    stays("// ----x\nlet a = 1\n");
}

#[test]
fn numbers_have_one_form() {
    check("f(1.50, 1e5, 2.0, -0.250)", "f(1.5, 100000.0, 2.0, -0.25)\n");
    check("sleep(1000ms)\nwait(90s, 120m, 24h, 1500ms, 0s)", "sleep(1s)\nwait(90s, 2h, 1d, 1500ms, 0ms)\n");
    check("match x { 1.50 -> { 1 } 60s -> { 2 } }", "match x {\n  1.5 -> { 1 }\n  1m -> { 2 }\n}\n");
    stays("f(0xFF, 1_000_000, 1_000.5, 1e300)\n");
}

#[test]
fn text_is_left_alone() {
    stays("let t = \"\"\"\n  a   b  \n    ${ x  +  1 }\n\"\"\"\n");
    stays("let t = \"a ${ x+1 } b\"\n");
    check("let d = {\"a\": 1, \"b c\": 2, \"if\": 3, [k]: 4}", "let d = {a: 1, \"b c\": 2, if: 3, [k]: 4}\n");
}

#[test]
fn what_does_not_parse_is_refused() {
    match format("let x = \n)", &Options::default()) {
        Err(Refusal::Syntax(errors)) => assert!(!errors.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_megabyte_is_quick_to_lay_out() {
    // No times here: deep and long texts must end, and keep their tokens.
    let deep = format!("let x = {}1{}", "[".repeat(200), "]".repeat(200));
    let wide = format!("let x = [{}]", "1, ".repeat(20_000));
    let chain = format!("let x = 1{}", " + 1".repeat(900));
    for text in [deep, wide, chain] {
        let once = format(&text, &Options::default()).unwrap();
        assert_eq!(format(&once, &Options::default()).unwrap(), once);
    }
}
