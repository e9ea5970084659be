//! What a program sees of its project.

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
    // A repository is a border, and without a manifest there is no project.
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
