//! Data that programs store in the state directory, including concurrent programs.

use std::path::Path;
use std::process::Stdio;

use crate::common::{command, finish, folder, harn_in};

const PROCESSES: usize = 4;
const KEYS: usize = 200;

/// Runs a program in several processes at once. Each receives its number as argument.
fn together(project: &Path, program: &str) {
    std::fs::write(project.join("main.harn"), program).unwrap();
    let all: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let mut harn = command(&["run", "main.harn", "--", &number.to_string()]);
            harn.current_dir(project).stdout(Stdio::piped()).stderr(Stdio::piped());
            harn.spawn().unwrap()
        })
        .collect();
    for harn in all {
        let output = harn.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn number_of_keys(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let values: serde_json::Value = serde_json::from_str(&text).unwrap();
    values.as_object().unwrap().len()
}

#[test]
fn programs_at_the_same_time_keep_each_others_values() {
    let project = folder(&[("harn.toml", "")]);
    together(
        project.path(),
        &format!("for i in 0 to {KEYS} exclusive {{ store_set(\"${{argv[0]}}/${{i}}\", i) }}"),
    );
    assert_eq!(number_of_keys(&project.path().join(".harn/store.json")), PROCESSES * KEYS);
}

#[test]
fn programs_at_the_same_time_keep_each_others_checkpoints() {
    let project = folder(&[("harn.toml", "")]);
    together(
        project.path(),
        "for i in 0 to 50 exclusive {\n  checkpoint(\"${argv[0]}/${i}\", i)\n  checkpoint(\"gone\", 1)\n  checkpoint_delete(\"gone\")\n}",
    );
    assert_eq!(number_of_keys(&project.path().join(".harn/checkpoints/main.json")), PROCESSES * 50);
}

#[test]
fn checkpoints_of_a_module_belong_to_the_program() {
    let project = folder(&[
        ("harn.toml", ""),
        ("lib.harn", "pub fn keep() { checkpoint(\"lib\", 1) }"),
        (
            "main.harn",
            "import \"std/checkpoint\"\nimport \"lib\"\nkeep()\nprintln(checkpoint_stage(\"stage\", { -> 2 }))",
        ),
        ("other.harn", "import \"lib\"\nkeep()"),
    ]);
    assert_eq!(harn_in(project.path(), &["run", "main.harn"]).out, "2\n");
    harn_in(project.path(), &["run", "other.harn"]);
    let kept = |name: &str| {
        std::fs::read_to_string(project.path().join(".harn/checkpoints").join(name)).unwrap_or_default()
    };
    assert_eq!(kept("main.json"), "{\n  \"lib\": 1,\n  \"stage\": 2\n}");
    assert_eq!(kept("other.json"), "{\n  \"lib\": 1\n}");
    assert_eq!(kept("lib.json") + &kept("checkpoint.json"), "");
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let project = folder(&[("harn.toml", ""), (".harn/store.json/in_the_way", "")]);
    let program = "let r = try { store_set(\"a\", 1) }\nprintln(unwrap_err(r))\nprintln(store_list())";
    let mut harn = command(&["run", "-e", program]);
    harn.current_dir(project.path());
    let ran = finish(harn, b"");
    assert!(ran.out.contains("store write error: "), "{ran:?}");
    assert!(ran.out.ends_with("[]\n"), "{ran:?}");
    assert!(ran.err.contains("store.json cannot be read") && ran.err.contains("counts as empty"), "{ran:?}");
    let mut names: Vec<_> = std::fs::read_dir(project.path().join(".harn"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["store.json", "store.json.lock"]);
}

/// A damaged file is reported and preserved, whatever is written afterwards. An empty file is not damaged.
#[test]
fn a_broken_store_is_told_and_set_aside() {
    for (file, read, write) in [
        ("store.json", "store_list()", "store_set(\"a\", 1)"),
        ("checkpoints/main.json", "checkpoint_list()", "checkpoint(\"a\", 1)"),
    ] {
        let program = format!("println({read})\nprintln({read})\n{write}\n{write}\nprintln({read})");
        let path = format!(".harn/{file}");
        for (content, why) in [
            (&b"{\"kept\": tru"[..], "is not valid JSON: "),
            (b"[1]", "holds JSON that is no object"),
            (b"{\"kept\": \"\xff\"}", "is no text: "),
        ] {
            let project = folder(&[("harn.toml", ""), ("main.harn", &program), (&path, "")]);
            let broken = project.path().join(&path);
            let aside = |n: u32| project.path().join(format!("{path}.broken-{n}"));
            for n in 1..3 {
                std::fs::write(&broken, content).unwrap();
                let ran = harn_in(project.path(), &["run", "main.harn"]);
                assert_eq!((ran.code, ran.out.as_str()), (0, "[]\n[]\n[a]\n"), "{}", ran.shown());
                assert_eq!(ran.err.matches("[harn] warning: ").count(), 2, "{}", ran.shown());
                let name = aside(n).file_name().unwrap().to_string_lossy().into_owned();
                assert!(ran.err.contains(why) && ran.err.contains(&name), "{}", ran.shown());
                assert_eq!(std::fs::read(aside(n)).unwrap(), content);
                assert_eq!(std::fs::read_to_string(&broken).unwrap(), "{\n  \"a\": 1\n}");
            }
            assert!(!aside(3).exists());
            std::fs::write(&broken, " \n").unwrap();
            let ran = harn_in(project.path(), &["run", "main.harn"]);
            assert_eq!((ran.out.as_str(), ran.err.as_str()), ("[]\n[]\n[a]\n", ""), "{}", ran.shown());
        }
    }
}
