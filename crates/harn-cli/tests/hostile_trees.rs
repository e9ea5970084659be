//! Pipes, devices and link cycles in searched directories are reported or skipped, and never block.

use std::path::Path;
use std::process::Command;

use crate::common::{Ran, command, finish, folder};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn run(folder: &Path, args: &[&str], env: &[(&str, &Path)]) -> Ran {
    let mut harn = command(args);
    harn.current_dir(folder).env("HOME", folder);
    for (name, value) in env {
        harn.env(name, value);
    }
    finish(harn, b"")
}

#[test]
fn what_says_which_files_are_ignored_is_a_regular_file() {
    let tree = folder(&[("a.harn", "println(1)\n"), ("sub/b.harn", "println(1)\n")]);
    for place in ["", "sub"] {
        let path = tree.path().join(place).join(".gitignore");
        fifo(&path);
        let ran = run(tree.path(), &["lint", "."], &[]);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.err.contains(".gitignore: not a regular file"), "{}", ran.shown());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(run(tree.path(), &["lint", "."], &[]).err.contains("not a regular file"));
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(run(tree.path(), &["lint", "."], &[]).code, 0);
}

#[test]
fn configuration_and_programs_are_regular_files() {
    let tree = folder(&[("main.harn", "println(1)\n")]);
    let pipe = tree.path().join("pipe");
    fifo(&pipe);
    let ran = run(tree.path(), &["run", "main.harn"], &[]);
    assert_eq!(ran.out, "1\n", "{}", ran.shown());
    let call = "println(llm_call(\"x\", nil, {provider: \"mock\"}) != nil)";
    let ran = run(tree.path(), &["run", "-e", call], &[("HARN_PROVIDERS_CONFIG", &pipe)]);
    assert_eq!(ran.out, "true\n", "{}", ran.shown());
    assert!(ran.err.contains("not a regular file"), "{}", ran.shown());
    for args in [&["run", "--llm-mock", "pipe", "main.harn"][..], &["run", "pipe"], &["run", "/dev/zero"]] {
        let ran = run(tree.path(), args, &[]);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.shown());
        assert!(ran.err.contains("not a regular file"), "{args:?}: {}", ran.shown());
    }
    std::fs::rename(&pipe, tree.path().join("harn.toml")).unwrap();
    let ran = run(tree.path(), &["check", "main.harn"], &[]);
    assert_eq!(ran.code, 0, "a pipe is no manifest: {}", ran.shown());
}

#[test]
fn a_profile_of_a_project_passes_by_what_is_no_file() {
    let program = "println(project_context_profile(\".\") != nil)\n";
    for (make, name) in [(0, "a pipe"), (1, "a device")] {
        let tree = folder(&[("main.harn", program)]);
        for file in [
            ".gitignore",
            ".gitlab-ci.yml",
            "Cargo.toml",
            "go.mod",
            "package.json",
            "package-lock.json",
            "pyproject.toml",
            "requirements.txt",
            "setup.cfg",
            "poetry.lock",
            "README.md",
            ".git",
            "Makefile",
        ] {
            let path = tree.path().join(file);
            match make {
                0 => fifo(&path),
                _ => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
            }
        }
        let ran = run(tree.path(), &["run", "--max-memory", "100M", "main.harn"], &[]);
        assert_eq!(ran.out, "true\n", "{name}: {}", ran.shown());
    }
}

#[test]
fn cases_are_found_once_however_many_links_lead_to_them() {
    let tree = folder(&[("conformance/one.harn", "println(1)\n"), ("conformance/one.expected", "1\n")]);
    for name in ["again", "loop"] {
        std::os::unix::fs::symlink(".", tree.path().join("conformance").join(name)).unwrap();
    }
    let ran = run(tree.path(), &["test", "conformance"], &[]);
    assert!(ran.out.contains("1 passed, 0 failed, 1 total"), "{}", ran.shown());
}
