//! A program's view of its project.

use crate::common::{folder, harn, harn_in};

#[test]
fn pipelines_and_the_context_know_the_project_root() {
    let program = "pipeline default(task, project, other) {\n  println(project)\n  println(context.project_root == project)\n  println(context.task_type)\n  println(other)\n}\n";
    let folder = folder(&[
        ("harn.toml", ""),
        ("deep/down/main.harn", program),
        ("apart/.git/HEAD", ""),
        ("apart/main.harn", program),
    ]);
    let root = folder.path().canonicalize().unwrap();
    let ran = harn_in(&root, &["run", "deep/down/main.harn"]);
    assert_eq!(ran.out, format!("{}\ntrue\nnil\nnil\n", root.display()), "{}", ran.shown());
    // A repository is a boundary, and without a manifest there is no project.
    assert_eq!(harn_in(&root, &["run", "apart/main.harn"]).out, "nil\ntrue\nnil\nnil\n");
    assert_eq!(
        harn_in(&root, &["run", "-e", "println(context.project_root)"]).out,
        format!("{}\n", root.display())
    );
}

#[test]
fn the_task_is_that_of_the_command_line() {
    let program = "pipeline default(task) { println(\"${task} ${context.task}\") }";
    let folder = folder(&[("main.harn", program)]);
    let path = folder.path().join("main.harn");
    assert_eq!(harn(&["run", "--task", "tidy up", path.to_str().unwrap()]).out, "tidy up tidy up\n");
}

#[test]
fn what_a_run_would_leave_out_of_the_manifest_stops_it() {
    for (manifest, told) in [
        ("[run]\ndurable = \"yes\"\n", "[run] durable must be true or false, got a string"),
        ("run = true\n", "`run` must be a table, got a boolean"),
    ] {
        let folder = folder(&[("harn.toml", manifest), ("main.harn", "println(1)\n")]);
        for args in [
            &["run", "main.harn"][..],
            &["main.harn"],
            &["run", "-e", "println(1)"],
            &["run", "--durable", "main.harn"],
        ] {
            let ran = harn_in(folder.path(), args);
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{args:?}: {}", ran.shown());
            assert!(ran.err.contains(told) && ran.err.contains("harn.toml"), "{}", ran.shown());
        }
        let ran = harn_in(folder.path(), &["run", "--json", "main.harn"]);
        assert!(ran.code == 1 && ran.out.contains("must be"), "{}", ran.shown());
    }
    // Misspelt settings of `run` are reported; problems of other tables are not.
    let manifest = "[run]\ndurabl = true\n[fmt]\nline_width = 5\n";
    let folder = folder(&[("harn.toml", manifest), ("main.harn", "println(1)\n")]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1\n"), "{}", ran.shown());
    assert!(ran.err.contains("unknown key `durabl` in [run]: it has no effect"), "{}", ran.shown());
    assert!(ran.err.contains("did you mean `durable`?") && !ran.err.contains("[fmt]"), "{}", ran.shown());
}

#[test]
fn the_doctor_says_when_servers_start() {
    let server = |name: &str, more: &str| format!("[[mcp]]\nname = \"{name}\"\ncommand = \"true\"\n{more}");
    let of = |manifest: &str| {
        let folder = folder(&[("harn.toml", manifest)]);
        let ran = harn_in(folder.path(), &["doctor", "--no-network"]);
        let line = ran.out.lines().find(|line| line.contains(" mcp ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{}", ran.shown()))
    };
    let eager = server("a", "lazy = false\n");
    assert_eq!(of(&eager), "  OK    mcp           a: started with each program");
    let all = eager + &server("b", "lazy = true\n") + &server("c", "");
    assert_eq!(
        of(&all),
        "  OK    mcp           a: started with each program; b, c: each is started when it is needed"
    );
}
