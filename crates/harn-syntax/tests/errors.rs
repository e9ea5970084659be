//! Syntax errors: their canonical messages, recovery, and rendering.

use crate::common::{canonical, rendered};
use harn_syntax::Stage;

macro_rules! canonical_is {
    ($($name:ident: $source:expr => [$($text:expr),* $(,)?];)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(canonical($source), [$($text),*] as [&str; canonical_is!(@count $($text)*)]);
        })*
    };
    (@count) => { 0 };
    (@count $head:tt $($tail:tt)*) => { 1 + canonical_is!(@count $($tail)*) };
}

canonical_is! {
    missing_expression: "let a = )" => ["Expected expression, got ) at 1:9"];
    statement_word_as_expression: "let a = defer { }" => ["Expected expression, got defer at 1:9"];
    end_of_file: "let a =" => ["Unexpected end of file, expected expression"];
    unclosed_call: "f(1" => ["Unexpected end of file, expected )"];
    unclosed_list: "[1," => ["Unexpected end of file, expected ]"];
    unclosed_block: "fn f() {\n  1" => ["Unexpected end of file, expected }"];
    separator_in_file: "let a = 1 let b = 2"
        => ["Expected top-level item separator (`;` or newline), got let at 1:11"];
    separator_in_block: "fn f() { 1 2 }" => ["Expected statement separator (`;` or newline), got int(2) at 1:12"];
    separator_in_tool: "tool t() { description \"d\" 5 }"
        => ["Expected tool body item separator (`;` or newline), got int(5) at 1:28"];
    separator_in_skill: "skill s { description \"d\" prompt \"p\" }"
        => ["Expected skill field separator (`;` or newline), got id(prompt) at 1:27"];
    double_semicolon: "1;; 2" => ["Expected expression, got ; at 1:3"];
    leading_semicolon: "; 1" => ["Expected expression, got ; at 1:1"];
    semicolon_before_else: "if a { }; else { }" => ["Expected expression, got else at 1:11"];
    elements_need_a_comma: "f(a b)" => ["Expected ), got id(b) at 1:5"];
    entries_need_a_comma: "let d = {a: 1 b: 2}" => ["Expected }, got id(b) at 1:15"];
    reserved_word_as_variable: "let tool = 1"
        => ["Expected variable name or destructuring pattern, got 'tool' (reserved keyword) at 1:5"];
    no_name: "let = 1" => ["Expected variable name or destructuring pattern, got = at 1:5"];
    no_value: "let x\nlet y = 1" => ["Expected =, got \\n at 1:6"];
    annotation_on_pattern: "let [a]: int = 1" => ["Expected =, got : at 1:8"];
    number_as_key: "let d = {1: 2}" => ["Expected dict key, got int(1) at 1:10"];
    member_name: "a.(1)" => ["Expected member name, got ( at 1:3"];
    parameter_name: "fn f(1) { }" => ["Expected parameter name, got int(1) at 1:6"];
    required_after_default: "fn f(a = 1, b) { }"
        => ["Required parameter cannot follow a parameter with a default value at 1:13"];
    rest_not_last: "fn f(...a, b) { }" => ["Rest parameter must be the last parameter at 1:6"];
    rest_with_default: "fn f(...a = 1) { }" => ["Rest parameter cannot have a default value at 1:6"];
    duplicate_parameter: "fn f(a, _, _, a) { }" => ["duplicate parameter name 'a' at 1:15"];
    duplicate_field: "struct S { x: int, x: string }" => ["duplicate field name 'x' at 1:20"];
    duplicate_variant: "enum E { A, A(x) }" => ["duplicate variant name 'A' at 1:13"];
    duplicate_member: "interface I {\n  fn m()\n  fn m()\n}" => ["duplicate member name 'm' at 3:6"];
    attribute_on_statement: "@test let a = 1"
        => ["Expected fn/tool/skill/eval_pack/pipeline/struct/enum/type/interface/impl declaration after `@attr`, \
             got non-declaration statement at 1:7"];
    pub_before_statement: "pub let a = 1"
        => ["Expected fn, tool, skill, eval_pack, struct, enum, pipeline, or import after pub, got let at 1:5"];
    empty_select: "select { }" => ["Expected at least one select case, got } at 1:10"];
    timeout_and_default: "select { timeout 1s { }\n default { } }"
        => ["select cannot have both timeout and default at 2:2"];
    repeated_timeout: "select { timeout 1s { }\n timeout 2s { } }"
        => ["select can have only one timeout or default at 2:2"];
    unknown_parallel_option: "parallel 3 with { limit: 2 } { }"
        => ["Expected known option (only `max_concurrent` is supported in `parallel ... with { ... }`; got `limit`) \
             at 1:19"];
    as_needs_stream: "parallel each xs { } as list"
        => ["Expected `stream` after `parallel each ... as`, got id(list) at 1:25"];
    as_stream_only_after_each: "parallel settle xs { } as stream"
        => ["Expected `as stream` is only valid after `parallel each ... { ... }`, got id(as) at 1:24"];
    arm_needs_block: "match x { 1 -> 2 }" => ["Expected {, got int(2) at 1:16"];
    arms_without_commas: "match x { 1 -> { }, 2 -> { } }" => ["Expected expression, got , at 1:19"];
    ranges_do_not_chain: "let r = 1 to 2 to 3"
        => ["Expected top-level item separator (`;` or newline), got to at 1:16"];
    slice_is_no_target: "x[1:2] = 3" => ["Expected top-level item separator (`;` or newline), got = at 1:8"];
    optional_member_is_no_target: "x?.a = 3"
        => ["Expected top-level item separator (`;` or newline), got = at 1:6"];
    spread_outside: "let x = ...y"
        => ["Compile error at line 1: spread (...) can only be used inside list literals, dict literals, or function \
             call arguments"];
    or_pattern_outside: "let x = 1 | 2"
        => ["Compile error at line 1: or-pattern (|) can only appear as a match arm pattern"];
    or_pattern_in_a_dict: "match d {\n  {x: 1 | 2} -> { }\n}"
        => ["Compile error at line 2: or-pattern (|) can only appear as a match arm pattern"];
    or_pattern_in_a_list: "match d {\n  [1 | 2] -> { }\n}"
        => ["Compile error at line 2: or-pattern (|) can only appear as a match arm pattern"];
    or_pattern_in_a_variant: "match d {\n  E.V(1 | 2) -> { }\n}"
        => ["Compile error at line 2: or-pattern (|) can only appear as a match arm pattern"];
    duration_too_large: "\nlet x = 99999999999999999w" => ["Compile error at line 2: duration literal is too large"];
    hex_too_large: "let x = 0x10000000000000000" => ["integer literal is too large at 1:9"];
    int_type_too_large: "type A = 9223372036854775808" => ["integer literal is too large at 1:10"];
    import_path: "import { a } from b" => ["Expected import path, got id(b) at 1:19"];
    import_in_block: "fn f() { import \"x\" }" => ["Expected expression, got import at 1:10"];
    error_in_interpolation: "println(\"fine\")\nprintln(\"a${1 +}\")" => ["Expected expression, got } at 2:16"];
    tokens_are_shown: "f(a \"s\")\nf(a r\"x\")\nf(a \"${b}\")\nf(a 1.5)\nf(a 5ms)\nf(a fn)"
        => [
            "Expected ), got str(s) at 1:5",
            "Expected ), got rstr(x) at 2:5",
            "Expected ), got istr(...) at 3:5",
            "Expected ), got float(1.5) at 4:5",
            "Expected ), got duration(5ms) at 5:5",
            "Expected ), got fn at 6:5",
        ];
    postfix_increment: "x++" => ["Expected expression, got + at 1:3"];
    power_assignment: "x **= 2" => ["Expected expression, got = at 1:5"];
    closing_bracket_alone: "let a = 1\n)\nlet b = ]"
        => ["Expected expression, got ) at 2:1", "Expected expression, got ] at 3:9"];
    a_repeated_tool_field: "tool t() {\n  guidance \"a\"\n  guidance \"b\"\n}"
        => ["a tool field can be given only once at 3:3"];
    interface_member: "interface I { let x }" => ["Expected `fn` or `type` in interface, got let at 1:15"];
    impl_member: "impl P { let x }" => ["Expected `fn` in impl, got let at 1:10"];
    lexical_error_hides_what_follows_from_it: "let a = b ^ c\nlet = 2"
        => [
            "Unexpected character '^' at 1:11",
            "Expected variable name or destructuring pattern, got = at 2:5",
        ];
    errors_come_in_source_order: "let = 1\nlet a = ~\nlet = 2"
        => [
            "Expected variable name or destructuring pattern, got = at 1:5",
            "Unexpected character '~' at 2:9",
            "Expected variable name or destructuring pattern, got = at 3:5",
        ];
}

#[test]
fn heredocs_are_explained() {
    let errors = canonical("let x = <<EOT\ntext\nEOT");
    assert!(
        errors[0].starts_with("Expected an expression — heredocs are only valid inside LLM tool-call"),
        "{errors:?}"
    );
}

#[test]
fn every_statement_recovers_on_its_own() {
    let source = "fn a() {\n  let = 1\n  let b = 2\n  f(1 2)\n  let c = 3\n}\nlet = 4\nlet d = 5\n";
    let parsed = harn_syntax::parse(source);
    let positions: Vec<_> = parsed.errors.iter().map(|error| error.canonical(source)).collect();
    assert_eq!(positions.len(), 3, "{positions:?}");
    assert_eq!(parsed.program.items.len(), 2, "the function and the last `let` are there");
}

#[test]
fn nothing_is_reported_twice() {
    let source = "fn a() {\n fn b() {\n fn c() {\n x = [1\n";
    assert_eq!(
        canonical(source),
        ["Unexpected end of file, expected ]", "Unexpected end of file, expected }"]
    );
}

#[test]
fn a_declaration_behind_an_open_bracket_is_still_read() {
    let source = "fn broken(\nfn c() { let }\n";
    let errors = canonical(source);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[1].ends_with("got } at 2:14"), "{errors:?}");
}

#[test]
fn errors_know_their_stage() {
    let stage = |source: &str| harn_syntax::parse(source).errors[0].stage();
    assert_eq!(stage("let x = ~"), Stage::Lex);
    assert_eq!(stage("let x = \"a"), Stage::Lex);
    assert_eq!(stage("let x = )"), Stage::Parse);
    assert_eq!(stage("let x = ...y"), Stage::Compile);
}

#[test]
fn unfinished_texts_are_told_from_wrong_ones() {
    for source in ["fn f() {", "f(1,", "let x =", "[1", "\"\"\"\na", "/* c", "a +", "if x", "{ x ->\n  f(x)"]
    {
        assert!(harn_syntax::parse(source).is_incomplete(source), "{source}");
    }
    for source in ["let x = )", "\"abc", "f(1 2", "1", ""] {
        assert!(!harn_syntax::parse(source).is_incomplete(source), "{source}");
    }
}

#[test]
fn long_tokens_are_shortened() {
    let source = format!("f(a \"\"\"{}\"\"\")", "line\n".repeat(100));
    let text = &canonical(&source)[0];
    assert!(
        text.starts_with("Expected ), got str(line\\nline\\n") && text.ends_with("...) at 1:5"),
        "{text}"
    );
}

/// One snapshot per program: the source and the rendered errors.
macro_rules! drawn {
    ($($name:ident: $source:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(rendered($source));
        })*
    };
}

drawn! {
    drawn_missing_expression: "let a = )";
    drawn_missing_operand: "let a = 1 +\n";
    drawn_unclosed_block: "fn f() {\n  let x = 1\n";
    drawn_unclosed_call: "println(max(1, 2)";
    drawn_unclosed_list: "let xs = [1,\n  2\n";
    drawn_unclosed_dict: "let d = {a: 1,\n  b: 2\n";
    drawn_missing_comma: "println(f(x x))";
    drawn_missing_separator: "let a = 1 let b = 2";
    drawn_reserved_word: "var match = 1";
    drawn_no_value: "let x\nprintln(x)";
    drawn_unterminated_string: "let a = 1\nlet s = \"abc\nlet b = 2";
    drawn_unterminated_comment: "let a = 1\n/* never closed\nlet b = 2";
    drawn_unexpected_character: "let price = 5€";
    drawn_backquote: "let s = `text`";
    drawn_number_suffix: "sleep(5sec)";
    drawn_bad_escape: "println(\"\\u{110000}\")";
    drawn_empty_interpolation: "println(\"a${}b\")";
    drawn_interpolation: "println(\"total: ${a +}\")";
    drawn_tab_and_wide_text: "if true {\n\tlet 日本 = \"語\" ~ 1\n}";
    drawn_two_digit_line: "\n\n\n\n\n\n\n\n\nlet x = *";
    drawn_required_after_default: "fn f(a = 1, b) { a }";
    drawn_rest_not_last: "fn f(...rest, b) { b }";
    drawn_duplicate_parameter: "fn f(a, b, a) { a }";
    drawn_attribute: "@deprecated\nlet x = 1";
    drawn_pub: "pub println(1)";
    drawn_empty_select: "select { }";
    drawn_timeout_and_default: "select {\n  timeout 1s { }\n  default { }\n}";
    drawn_parallel_option: "parallel each xs with { limit: 2 } { x -> x }";
    drawn_as_stream: "parallel 3 { i -> i } as stream";
    drawn_match_arm: "match x {\n  1 -> 2\n}";
    drawn_match_comma: "match x { 1 -> { 2 }, _ -> { 3 } }";
    drawn_spread: "let x = ...xs";
    drawn_or_pattern: "let x = 1 | 2";
    drawn_duration: "let d = 99999999999999999w";
    drawn_heredoc: "let x = <<EOT\ntext\nEOT";
    drawn_dict_key: "let d = {1: \"x\"}";
    drawn_member: "user.\nprintln(1)";
    drawn_many_errors: "let = 1\nfn f() {\n  g(1 2)\n  let ok = 1\n  let = 3\n}\nlet a = ]";
    drawn_crlf: "let a = 1\r\nlet b = *\r\n";
    drawn_type: "fn f(a: 5.5) { }";
    drawn_import: "import { a, b }\nprintln(a)";
    drawn_semicolons: "let a = 1;;";
}

#[test]
fn drawn_nesting_limit() {
    insta::assert_snapshot!(rendered(&format!("let x = {}1", "[".repeat(300))));
}

#[test]
fn drawn_chain_limit() {
    let source = format!("let x =\n  1{}", "\n  + 1".repeat(2000));
    insta::assert_snapshot!(rendered(&source).lines().skip(2002).collect::<Vec<_>>().join("\n"));
}
