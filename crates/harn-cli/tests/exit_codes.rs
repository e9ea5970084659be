//! How programs end, and their exit codes.

use crate::common::{harn, harn_with, run_text};

#[test]
fn a_script_ends_with_zero_whatever_its_last_value() {
    let ran = run_text("println(\"a\")\n4\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "a\n", ""));
}

#[test]
fn the_pipelines_value_is_the_exit_code() {
    let code = |value: &str| run_text(&format!("pipeline default() {{\n  return {value}\n}}\n")).code;
    assert_eq!(code("3"), 3);
    assert_eq!(code("300"), 255);
    assert_eq!(code("-1"), 0);
    assert_eq!(code("nil"), 0);
    assert_eq!(code("true"), 0);
    assert_eq!(code("\"7\""), 0);
    assert_eq!(code("Ok(5)"), 0);
}

#[test]
fn an_err_result_is_printed_and_gives_one() {
    let ran = run_text("pipeline default() {\n  return Err({code: 7})\n}\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", "{code: 7}\n"));
    let ran = run_text("fn f() { Err(\"bad\") }\nprintln(\"before\")\nf()?\nprintln(\"after\")\n");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "before\n", "bad\n"));
    let ran = run_text("pipeline default() {\n  return Err(\"\")\n}\n");
    assert_eq!((ran.code, ran.err.as_str()), (1, "error\n"));
}

#[test]
fn a_top_level_return_of_a_script_counts() {
    let ran = run_text("println(\"a\")\nreturn 9\nprintln(\"b\")\n");
    assert_eq!((ran.code, ran.out.as_str()), (9, "a\n"));
}

#[test]
fn exit_flushes_and_runs_what_is_pending() {
    let text = "fn f() {\n  defer { println(\"deferred\") }\n  print(\"half a line \")\n  exit(5)\n}\nf()\n";
    let ran = run_text(text);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (5, "half a line deferred\n", ""));
}

#[test]
fn exit_in_a_task_ends_the_program() {
    for (text, code, out) in [
        ("parallel settle [1] { x ->\n  println(\"in\")\n  exit(5)\n}\nprintln(\"after\")\n", 5, "in\n"),
        ("spawn { exit(4) }\nsleep(5s)\nprintln(\"after\")\n", 4, ""),
        ("spawn { parallel [1] { x -> exit(6) } }\nsleep(5s)\n", 6, ""),
        ("let t = spawn { exit(0) }\ntry { await(t) } catch (e) { println(e) }\nprintln(\"after\")\n", 0, ""),
        ("try {\n  parallel [1, 2] { x -> exit(x) }\n} finally { println(\"finally\") }\n", 1, "finally\n"),
    ] {
        let text = text.replace("parallel [", "parallel each [");
        let ran = run_text(&text);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, out, ""), "{text}");
    }
}

#[test]
fn output_before_an_uncaught_error_is_not_lost() {
    let ran = run_text("print(\"no line end\")\nthrow \"boom\"\n");
    assert_eq!((ran.code, ran.out.as_str()), (1, "no line end"));
    assert!(ran.err.starts_with("error: Thrown: boom\n"), "{}", ran.err);
}

#[test]
fn inline_code_and_standard_input() {
    let ran = harn(&["run", "-e", "println(argv)", "--", "a", "--b"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[a, --b]\n"));
    let ran = harn(&["run", "-e", "return 4"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    for (code, out) in [
        ("6 * 7", "42\n"),
        ("let f = fn() { return 3 }\nf()", "3\n"),
        ("[1, nil]", "[1, nil]\n"),
        ("let x = 5", ""),
        ("println(1)", "1\n"),
    ] {
        let ran = harn(&["run", "-e", code]);
        assert_eq!((ran.code, ran.out.as_str()), (0, out), "{code}");
    }
    let ran = harn_with(&["run", "-"], "println(\"from stdin\")\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "from stdin\n"));
}

#[test]
fn the_task_reaches_the_pipeline() {
    let folder = crate::common::folder(&[("t.harn", "pipeline default(task) {\n  println(task)\n}\n")]);
    let ran = crate::common::harn_in(folder.path(), &["run", "t.harn", "--task", "tidy up"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "tidy up\n"));
    let ran = crate::common::harn_in(folder.path(), &["t.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "nil\n"));
    // The first parameter receives the task, whatever its name.
    let text = "pipeline main(text, more) {\n  println([text, more])\n}\n";
    let folder = crate::common::folder(&[("t.harn", text)]);
    let ran = crate::common::harn_in(folder.path(), &["run", "t.harn", "--task", "tidy up"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[tidy up, nil]\n"));
}

#[test]
fn the_program_reads_standard_input() {
    let text = "let first = read_line()\nprintln(\"<${first}>\")\nprintln(read_line())\n";
    let folder = crate::common::folder(&[("in.harn", text)]);
    let mut command = crate::common::command(&["run", "in.harn"]);
    command.current_dir(folder.path());
    let ran = crate::common::finish(command, b"one\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "<one>\nnil\n"));
}
