//! Careless paths are harmless. Every case runs in a scratch directory next to a canary; paths that lead further up are
//! tested where they cannot do harm, in harn-system's guard.

use std::path::Path;

use crate::common::{Ran, command, finish, folder};

/// Creates a project with its working directory below the root, a home directory and a canary, with links between them.
fn scratch() -> tempfile::TempDir {
    let scratch = folder(&[
        ("canary/keep.txt", "canary"),
        ("home/mine.txt", "mine"),
        ("project/harn.toml", ""),
        ("project/work/d.txt", "precious"),
        ("project/work/sub/e.txt", "inner"),
    ]);
    let at = |path: &str| scratch.path().join(path);
    for (target, link) in [("..", "up"), (".", "self"), ("../../home", "home"), ("d.txt", "l.txt")] {
        std::os::unix::fs::symlink(target, at("project/work").join(link)).unwrap();
    }
    std::fs::hard_link(at("project/work/d.txt"), at("project/work/h.txt")).unwrap();
    scratch
}

fn attempt(scratch: &Path, call: &str) -> Ran {
    let mut harn = command(&["run", "-e", &format!("println(try {{ {call} }})")]);
    harn.current_dir(scratch.join("project/work")).env("HOME", scratch.join("home"));
    finish(harn, b"")
}

/// Returns everything below a directory as a string.
fn content(folder: &Path) -> String {
    let mut lines = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let facts = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        if facts.is_symlink() {
            lines.push(format!("{name} -> {}", std::fs::read_link(&path).unwrap().display()));
        } else if facts.is_dir() {
            lines.push(format!("{name}/"));
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            lines.push(format!("{name}: {}", std::fs::read_to_string(&path).unwrap()));
        }
    }
    lines.sort();
    lines.join("\n")
}

#[test]
fn what_holds_the_run_is_neither_removed_nor_moved_nor_replaced() {
    let scratch = scratch();
    let before = content(scratch.path());
    for (call, expected) in [
        ("delete_file(\"\")", "delete_file: path is empty"),
        ("delete_file()", "delete_file"),
        ("delete_file(nil)", "delete_file"),
        ("delete_file(\".\")", "it holds the working directory"),
        ("delete_file(\"./\")", "it holds the working directory"),
        ("delete_file(\"sub/..\")", "it holds the working directory"),
        ("delete_file(cwd())", "it holds the working directory"),
        ("delete_file(\"..\")", "it holds the working directory"),
        ("delete_file(\"../../project\")", "it holds the working directory"),
        ("delete_file(\"up/work\")", "it holds the working directory"),
        ("delete_file(\"self\")", "it holds the working directory"),
        ("delete_file(\"up\")", "it holds the working directory"),
        ("delete_file(\"../../home\")", "it holds the home folder"),
        ("delete_file(\"home/\")", "it holds the home folder"),
        ("move_file(\"\", \"../moved\")", "move_file: path is empty"),
        ("move_file(\".\", \"../moved\")", "move_file: refuses"),
        ("move_file(\"../../home\", \"moved\")", "it holds the home folder"),
        ("move_file(\"sub\", \"..\")", "move_file: refuses"),
        ("move_file(\"d.txt\", \"nodir/\")", "not a directory"),
        ("move_file(\"d.txt\", nil)", "move_file"),
        ("copy_file(\"d.txt\", \"\")", "copy_file: path is empty"),
        ("copy_file(\"d.txt\", \".\")", "copy_file: refuses"),
        ("write_file(\".\", \"x\")", "write_file: refuses"),
        ("write_file(\"\", \"x\")", "write_file: path is empty"),
        ("write_file(nil, \"x\")", "write_file"),
        ("write_file(\"new/\", \"x\")", "not a directory"),
        ("append_file(\"\", \"x\")", "append_file: path is empty"),
        ("mkdir(\"\")", "mkdir: path is empty"),
    ] {
        let ran = attempt(scratch.path(), call);
        assert!(ran.out.starts_with("Result.Err(") && ran.out.contains(expected), "{call}: {}", ran.shown());
        assert_eq!(content(scratch.path()), before, "{call}");
    }
}

/// The home directory is protected even if HOME is not UTF-8, and so is the working directory of a run after its
/// deletion.
#[cfg(target_os = "linux")]
#[test]
fn places_that_have_no_name_are_spared_too() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = scratch();
    let home = scratch.path().join("holder").join(std::ffi::OsStr::from_bytes(b"h\xff"));
    std::fs::create_dir_all(&home).unwrap();
    let gone = "let place = cwd()\nexec(\"rmdir\", place)\ndelete_file(place + \"/..\")";
    for (call, place) in [
        ("delete_file(\"../../../holder\")", "it holds the home folder"),
        ("move_file(\"../../../holder\", \"moved\")", "it holds the home folder"),
        (gone, "it holds the working directory"),
    ] {
        let work = scratch.path().join("project/other/work");
        std::fs::create_dir_all(&work).unwrap();
        let mut harn = command(&["run", "-e", &format!("println(try {{ {call} }})")]);
        harn.current_dir(&work).env("HOME", &home);
        let ran = finish(harn, b"");
        assert!(ran.out.contains(place), "{call}: {}", ran.shown());
        assert!(home.is_dir() && scratch.path().join("project/other").is_dir(), "{call}");
    }
}

#[test]
fn one_file_is_never_source_and_target() {
    let scratch = scratch();
    let before = content(scratch.path());
    for builtin in ["copy_file", "move_file"] {
        for (from, to) in [
            ("d.txt", "d.txt"),
            ("d.txt", "./d.txt"),
            ("d.txt", "l.txt"),
            ("l.txt", "d.txt"),
            ("d.txt", "h.txt"),
        ] {
            let ran = attempt(scratch.path(), &format!("{builtin}(\"{from}\", \"{to}\")"));
            assert!(ran.out.contains("source and target are the same file"), "{from} {to}: {}", ran.shown());
            assert_eq!(content(scratch.path()), before, "{builtin} {from} {to}");
        }
    }
}

#[test]
fn everything_below_the_working_directory_can_be_changed() {
    let scratch = scratch();
    let canary = content(&scratch.path().join("canary"));
    let calls = "write_file(\"d.txt\", \"new\")\nmove_file(\"sub\", \"moved/\")\ncopy_file(\"d.txt\", \"moved/c.txt\")\n\
        append_file(\"moved/c.txt\", \"er\")\nmove_file(\"moved/e.txt\", \"e.txt\")\nread_file(\"moved/c.txt\")";
    let ran = attempt(scratch.path(), calls);
    assert_eq!(ran.out, "Result.Ok(newer)\n", "{}", ran.err);
    let ran = attempt(scratch.path(), "delete_file(\"moved\")\ndelete_file(\"l.txt\")\nlist_dir()");
    assert_eq!(ran.out, "Result.Ok([d.txt, e.txt, h.txt, home, self, up])\n", "{}", ran.err);
    assert_eq!(content(&scratch.path().join("canary")), canary);
}

#[test]
fn walks_through_links_end() {
    let scratch = scratch();
    std::os::unix::fs::symlink(".", scratch.path().join("project/work/again")).unwrap();
    let ran = attempt(scratch.path(), "walk_dir(\"sub/..\", {follow_symlinks: true}).len() < 40");
    assert_eq!(ran.out, "Result.Ok(true)\n", "{}", ran.err);
}

/// Items on another file system are moved unchanged: directories with their contents, and links as links.
#[cfg(target_os = "linux")]
#[test]
fn what_lies_on_another_file_system_is_moved() {
    use std::os::unix::fs::MetadataExt;
    let here = scratch();
    let Ok(there) = tempfile::tempdir_in("/dev/shm") else { return };
    if there.path().metadata().unwrap().dev() == here.path().metadata().unwrap().dev() {
        return;
    }
    let to = there.path().display();
    let work = here.path().join("project/work");
    std::os::unix::fs::symlink("e.txt", work.join("sub/link")).unwrap();
    for name in ["sub", "d.txt", "l.txt"] {
        let ran = attempt(here.path(), &format!("move_file(\"{name}\", \"{to}/{name}\")"));
        assert_eq!(ran.out, "Result.Ok(nil)\n", "{name}: {}", ran.shown());
        assert!(!work.join(name).exists(), "{name}");
    }
    assert_eq!(
        content(there.path()),
        "/\nd.txt: precious\nl.txt -> d.txt\nsub/\nsub/e.txt: inner\nsub/link -> e.txt"
    );
    let ran = attempt(here.path(), &format!("move_file(\"{to}/sub\", \"nodir/\")"));
    assert_eq!(ran.out, "Result.Ok(nil)\n", "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(work.join("nodir/e.txt")).unwrap(), "inner");
}

/// Loops that compact their conversation with a template of the program's directory, started from another directory.
const SUMMARIES: &str = r#"
let options = {
  provider: "mock", tool_format: "native", max_iterations: 6, auto_compact: true, compact_strategy: "llm",
  compact_threshold: 60, compact_keep_last: 1, summarize_prompt: "sum.harn.prompt",
  tools: [{name: "t", parameters: {n: "int"}, handler: { _a -> "x".repeat(400) }}],
}
let place = {execution: {cwd: "other"}}
let node = {
  mode: "agent", tools: options.tools, model_policy: {provider: "mock", tool_format: "native", max_iterations: 6},
  auto_compact: {enabled: true, compact_strategy: "llm", token_threshold: 60, keep_last: 1, summarize_prompt: "sum.harn.prompt"},
}
let ways = {
  loop: { -> agent_loop("go", nil, options) },
  task: { -> await(spawn { agent_loop("go", nil, options) }) },
  sub_agent: { -> sub_agent_run("go", {...options, ...place}) },
  background: { -> wait_agent(sub_agent_run("go", {...options, ...place, background: true})) },
  worker: { -> wait_agent(spawn_agent({task: "go", node: node, ...place})) },
  workflow: { -> workflow_execute("go", workflow_graph({nodes: {a: node}})) },
}
for (name, way) in ways {
  llm_mock_clear()
  for n in 1 to 3 { llm_mock({tool_calls: [{name: "t", arguments: {n: n}}]}) }
  llm_mock({match: "*", text: "a summary, or the end"})
  way()
  println("${name} ${llm_mock_calls().any({ c -> to_string(c.messages.last().content).contains("SUM UP") })}")
}
"#;

#[test]
fn templates_in_options_are_relative_to_the_program_wherever_a_loop_runs() {
    let dir = folder(&[
        ("prog/main.harn", SUMMARIES),
        ("prog/sum.harn.prompt", "SUM UP {{ archived_count }}"),
        ("other/x", ""),
    ]);
    let ran = crate::common::harn_in(dir.path(), &["run", "prog/main.harn"]);
    let expected = "background true\nloop true\nsub_agent true\ntask true\nworker true\nworkflow true\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.shown());
    assert!(!ran.err.contains("Failed to read"), "{}", ran.shown());
}
