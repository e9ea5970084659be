//! The REPL on standard input that is not a terminal.

use crate::common::harn_with;

#[test]
fn values_are_printed_and_numbered() {
    let ran = harn_with(&["repl"], "1 + 2\n\"text\"\nnil\n_1 * 10\n[_2]\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "3\ntext\n30\n[text]\n", ""));
}

#[test]
fn bindings_and_declarations_stay() {
    let input = "var n = 1\nfn double(x) {\n  x * 2\n}\nn = n + 4\ndouble(n)\nlet n = \"again\"\nn\n\
                 struct P { x }\nimpl P { fn twice(self) { self.x * 2 } }\nP {x: 4}.twice()\n\
                 enum E { A, B(v) }\nE.B(1)\nlet bump = { ->\n  n\n}\nbump()\n";
    let ran = harn_with(&["repl"], input);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "10\nagain\n8\nE.B(1)\nagain\n", ""));
}

#[test]
fn an_error_keeps_the_session_and_every_input_runs_once() {
    let input = "var n = 0\nfn f() { n = n + 1 }\nf()\n1 / 0\nlet = 3\nf()\nn\n";
    let ran = harn_with(&["repl"], input);
    assert_eq!((ran.code, ran.out.as_str()), (1, "2\n"));
    assert!(ran.err.starts_with("Error: Division by zero\n"), "{}", ran.err);
    assert_eq!(ran.err.matches("Error: ").count(), 2, "{}", ran.err);
}

#[test]
fn a_division_that_is_a_comment_is_told() {
    let ran = harn_with(&["repl"], "let n = 7\nn // 2\nlet half = n // 2\nn // the number\n");
    let said = "warning: `// 2` is a comment: what stands here is `n` alone\n  help: ints divide without rest by `/`: ";
    let expected = format!("{said}`n / 2`\n{said}`let half = n / 2`\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err), (0, "7\n7\n", expected));
}

#[test]
fn wrong_types_are_told_before_an_input_runs() {
    let input = "struct P { x: int }\nlet y: int = \"a\"\nP { x: \"s\" }\nP { y: 1 }\nfn f(n: int) -> int { n }\nf(\"x\")\n\
                 var v = nil\nv = 5\nlet z: int = v\nlet f = 3\nf + z\n";
    let ran = harn_with(&["repl"], input);
    assert_eq!((ran.code, ran.out.as_str()), (1, "8\n"), "{}", ran.err);
    let told = [
        "Error: 'y' declared as int, but assigned string\n",
        "Error: Field 'x' in struct 'P' expects int, got string\n",
        "warning: Missing field 'x' in struct 'P' construction\nError: Unknown field 'y' in struct 'P'\n",
        "Error: Argument 1 ('n'): expected int, got string\n",
    ];
    assert_eq!(ran.err, told.concat());
}

#[test]
fn habits_of_other_languages_are_answered() {
    let ran = harn_with(&["repl"], "print \"x\"\n");
    let expected = "Error: expected `;` or a new line, found `\"x\"` at 1:7\n  help: a call needs parentheses: `println(\"x\")`\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, expected));
}

#[test]
fn tasks_and_await() {
    let ran = harn_with(&["repl"], "let t = spawn {\n  sleep(1ms)\n  42\n}\nawait(t)\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "42\n", ""));
}

#[test]
fn commands() {
    let ran =
        harn_with(&["repl"], ":help\n:type [1]\nlet x = 1\n:reset\nx\n:doc split\n:nonsense\n:quit\n99\n");
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains(":doc NAME"), "{}", ran.out);
    assert!(ran.out.contains("\nlist\n"), "{}", ran.out);
    assert!(ran.out.contains("split("), "{}", ran.out);
    assert!(!ran.out.contains("99"), "{}", ran.out);
    assert!(ran.err.contains("Undefined variable: x"), "{}", ran.err);
    assert!(ran.err.contains("unknown command `:nonsense`"), "{}", ran.err);
}

#[test]
fn output_and_values_come_in_order() {
    let ran = harn_with(&["repl"], "println(\"a\")\nfor i in 1 to 2 {\n  println(i)\n}\n\"b\"\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\n1\n2\nb\n"), "{}", ran.err);
}
