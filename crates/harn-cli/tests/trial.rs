//! Typical first programs of a Python developer: each has a helpful result.

use crate::common::{folder, harn_in};

/// A row of the table: a program, and its output or error.
struct Row {
    program: String,
    printed: Option<String>,
    told: Option<String>,
}

fn rows() -> Vec<Row> {
    let text = include_str!("trial.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    let rows = text.split("\n\n").map(str::trim).filter(|row| !row.is_empty());
    rows.map(|row| {
        let answer = |mark| row.lines().find_map(|line| line.strip_prefix(mark)).map(str::to_owned);
        let program = row.lines().filter(|line| !line.starts_with("=> ") && !line.starts_with("!! "));
        Row { program: program.collect::<Vec<_>>().join("\n"), printed: answer("=> "), told: answer("!! ") }
    })
    .collect()
}

#[test]
fn each_line_of_the_first_day_has_its_answer() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for Row { program, printed, told } in rows() {
        let folder =
            folder(&[("row.harn", &program), ("sub/one.md", ""), ("sub/two.md", ""), ("lib/m.harn", "")]);
        let ran = harn_in(folder.path(), &["run", "row.harn"]);
        let is_right = match (&printed, &told) {
            (Some(printed), None) => ran.code == 0 && ran.out.trim_end() == printed,
            (None, Some(told)) => ran.err.contains(told.as_str()),
            _ => false,
        };
        // A message is short, however long the arguments of the call are.
        let is_short = ran.err.lines().all(|line| line.len() < 600);
        seen += 1;
        if !is_right || !is_short {
            wrong.push(format!("{program}\n{}", ran.shown()));
        }
    }
    assert!(seen >= 42, "{seen} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_file_and_its_arguments_need_no_command() {
    let folder = folder(&[("hello.harn", "println(argv)")]);
    let ran = harn_in(folder.path(), &["hello.harn", "a", "b"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[a, b]\n"), "{}", ran.err);
}

#[test]
fn check_finds_them_before_the_program_runs() {
    for (program, told) in [
        ("import { nosuch } from \"lib/m\"\nprintln(nosuch)", "nosuch"),
        ("enum Kind { A, B }\nprintln(Kind.C)", "Kind"),
        ("println(\"a\".nope())", "nope"),
        ("println(json_parse(\"12345678901234567890\"))", "big_numbers"),
    ] {
        let folder = folder(&[("row.harn", program), ("lib/m.harn", "")]);
        let ran = harn_in(folder.path(), &["check", "row.harn"]);
        assert!(ran.err.contains(told), "{program}\n{}", ran.shown());
    }
}
