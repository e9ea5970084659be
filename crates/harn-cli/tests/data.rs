//! Unusual data: byte order marks, names that are not UTF-8, inherited pipes, child processes ended by a signal.

use crate::common::{finish, folder, harn_in, run_text};

#[test]
fn a_byte_order_mark_is_not_part_of_a_program_or_prompt() {
    let files = folder(&[
        ("a.harn", "\u{feff}#!/usr/bin/env harn\nprintln(1)\n"),
        ("t.harn.prompt", "\u{feff}Hi {{ include \"i.harn.prompt\" }}"),
        ("i.harn.prompt", "\u{feff}there"),
        ("b.harn", "println(render(\"t.harn.prompt\", {}))\n"),
        ("d.json", "\u{feff}{\"a\": 1}"),
        ("d.toml", "\u{feff}a = 1\n"),
        ("d.yaml", "\u{feff}a: 1\n"),
        ("d.csv", "\u{feff}a\n1\n"),
        (
            "c.harn",
            "println(json_parse(read_file(\"d.json\")), toml_parse(read_file(\"d.toml\")), yaml_parse(read_file(\"d.yaml\")), \
             csv_parse(read_file(\"d.csv\"), {headers: true}))\n",
        ),
    ]);
    for (name, expected) in [("a", "1\n"), ("b", "Hi there\n"), ("c", "{a: 1} {a: 1} {a: 1} [{a: 1}]\n")] {
        let ran = harn_in(files.path(), &["run", &format!("{name}.harn")]);
        assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{name}: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_come_back_as_they_are() {
    use std::os::unix::ffi::OsStrExt;

    let files = folder(&[(
        "main.harn",
        "let names = list_dir(\"d\")\n\
         println(names.count(), walk_dir(\"d\").filter({ e -> e.is_file }).count(), glob(\"*\", \"d\").count())\n\
         println(names.map({ n -> read_file(path_join(\"d\", n)) }), glob(\"d/*.txt\").map(read_file))\n\
         println(walk_dir(\"d\").filter({ e -> e.is_file }).map({ e -> basename(e.path) }) == names)\n\
         for n in names { copy_file(path_join(\"d\", n), path_join(\"e\", n))\n delete_file(path_join(\"d\", n)) }\n\
         println(list_dir(\"d\"), list_dir(\"e\") == names, names.unique().len())\n",
    )]);
    let names: [&[u8]; 4] = [b"\xff.txt", b"ok.txt", b"a\xc3.txt", "\u{f7ff}.txt".as_bytes()];
    for dir in ["d", "e"] {
        std::fs::create_dir(files.path().join(dir)).expect("a directory");
    }
    for name in names {
        let path = files.path().join("d").join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, "x").expect("a file");
    }
    let ran = harn_in(files.path(), &["run", "main.harn"]);
    assert_eq!(ran.out, "4 4 4\n[x, x, x, x] [x, x, x, x]\ntrue\n[] true 4\n", "{}", ran.err);
    for name in names {
        assert!(files.path().join("e").join(std::ffi::OsStr::from_bytes(name)).exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn inherited_pipes_are_read_and_others_are_not() {
    use std::process::Command;

    let files = folder(&[
        ("read.harn", "println(try { read_file(argv[0]) })\n"),
        (
            "null.harn",
            "println(write_file(\"/dev/null\", \"x\"), append_file(\"/dev/null\", \"x\"), read_file(\"/dev/null\") == \"\")\n",
        ),
    ]);
    let run = |line: &str, input: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(files.path()).env("H", env!("CARGO_BIN_EXE_harn"));
        let ran = finish(shell, input.as_bytes());
        (ran.out, ran.err)
    };
    for (line, expected) in [
        ("\"$H\" run read.harn -- <(sleep 0.1; echo hi)", "Result.Ok(hi\n)\n"),
        ("echo hi | \"$H\" run read.harn -- /dev/stdin", "Result.Ok(hi\n)\n"),
        ("echo hi | \"$H\" run read.harn -- /proc/self/fd/0", "Result.Ok(hi\n)\n"),
        ("head -c 300000 /dev/zero | tr '\\0' x | \"$H\" run read.harn -- /dev/stdin | wc -c", "300012\n"),
        ("\"$H\" run null.harn", "nil nil true\n"),
    ] {
        let (out, err) = run(line, "");
        assert_eq!(out, expected, "{line}: {err}");
    }
    // Neither named pipes nor devices are read.
    for line in [
        "mkfifo f; \"$H\" run read.harn -- f",
        "\"$H\" run read.harn -- /dev/zero",
        "\"$H\" run --sandbox read_only read.harn -- <(echo hi)",
        "\"$H\" run read.harn -- /dev/fd/../../f",
    ] {
        let (out, err) = run(line, "");
        assert!(!out.contains("Result.Ok"), "{line}: {out}{err}");
    }
}

#[cfg(unix)]
#[test]
fn the_signal_that_ended_a_program_is_in_its_result() {
    let ran = run_text(
        "for line in [\"kill -9 $$\", \"kill -11 $$\", \"exit 3\"] {\n\
         let ran = [exec(\"sh\", \"-c\", line), shell(\"sh -c '${line}'; exit $?\")]\n\
         println(ran[0].status, ran[0].signal, ran[0].success, ran[1].status)\n\
         }\n\
         let stopped = exec(\"sleep\", \"60\", {timeout: 50ms})\n\
         println(stopped.timed_out, stopped.success, stopped.status, stopped.signal != nil)\n",
    );
    assert_eq!(
        ran.out, "-1 9 false 137\n-1 11 false 139\n3 nil false 3\ntrue false -1 true\n",
        "{}",
        ran.err
    );
}

#[test]
fn a_task_that_fails_or_still_runs_fails_its_test() {
    let files = folder(&[(
        "t.harn",
        "pipeline test_failed() {\n  let h = spawn { assert_eq(1, 2, \"must be equal\") }\n  sleep(30ms)\n}\n\
         pipeline test_running() {\n  let h = spawn { sleep(60s) }\n}\n\
         pipeline test_caught() {\n  let h = spawn { throw \"boom\" }\n  assert(is_err(try { await(h) }))\n}\n\
         pipeline test_cancelled() {\n  let h = spawn { sleep(60s) }\n  cancel(h)\n}\n\
         pipeline test_awaited() {\n  assert_eq(await(spawn { 1 }), 1)\n}\n",
    )]);
    let ran = harn_in(files.path(), &["test", "t.harn"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(shown.contains("must be equal"), "{shown}");
    assert!(shown.contains("task spawned at t.harn:6 still ran at the end"), "{shown}");
    assert!(shown.contains("3 passed, 2 failed"), "{shown}");
}
