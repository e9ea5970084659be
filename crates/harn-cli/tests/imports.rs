//! Imports have the same meaning for running, checking and linting.

use crate::common::{folder, harn_in};

/// Runs and checks `main.harn` of these files. Returns for both whether it succeeded, and its output.
fn both(files: &[(&str, &str)]) -> ((bool, String), (bool, String)) {
    let project = folder(files);
    let run = harn_in(project.path(), &["run", "main.harn"]);
    let check = harn_in(project.path(), &["check", "main.harn"]);
    ((run.code == 0, run.out + &run.err), (check.code == 0, check.out + &check.err))
}

#[test]
fn exports_of_a_package_are_found_by_both() {
    let package = [
        (".harn/packages/p/harn.toml", "[exports]\napi = \"src/one.harn\"\nbad = \"../x.harn\""),
        (".harn/packages/p/src/one.harn", "pub fn hello() { \"hello\" }"),
    ];
    let with = |main: &'static str| [&package[..], &[("main.harn", main)]].concat();
    let ((runs, said), (checks, _)) = both(&with("import \"p/api\"\nprintln(hello())"));
    assert!(runs && checks, "{said}");
    assert_eq!(said, "hello\n");
    let ((runs, said), (checks, found)) = both(&with("import \"p/bad\""));
    assert!(!runs && !checks);
    let why = "exports.bad: '../x.harn' must be a path inside the package";
    assert!(said.contains(why) && found.contains(why), "{said}\n{found}");
}

#[test]
fn a_name_that_a_file_lacks_is_found_by_both() {
    let files = [
        ("lib.harn", "fn helper() { 1 }\n\nfn other() { 2 }\n"),
        ("main.harn", "import { helpr, other } from \"lib\"\nprintln(other())"),
    ];
    let ((runs, said), (checks, found)) = both(&files);
    assert!(!runs && !checks);
    assert!(said.contains("'helpr' is not defined in lib"), "{said}");
    let expected = "\
error[P0109]: preflight: 'helpr' is not defined in lib
  --> main.harn:1:10
   |
 1 | import { helpr, other } from \"lib\"
   |          ^^^^^ not found
  ::: lib.harn:1:4
   |
 1 | fn helper() { 1 }
   |    ^^^^^^ `helper` is declared here
   = help: did you mean `helper`?
";
    assert!(found.replace("[P0109]", "").contains(&expected.replace("[P0109]", "")), "{found}");
}

#[test]
fn a_file_that_is_no_text_is_found_by_both() {
    let project = folder(&[("main.harn", "import \"lib\"")]);
    std::fs::write(project.path().join("lib.harn"), [0xE9, b'\n']).unwrap();
    for command in ["run", "check"] {
        let ran = harn_in(project.path(), &[command, "main.harn"]);
        assert_ne!(ran.code, 0);
        assert!((ran.out + &ran.err).contains("'lib.harn' is not valid UTF-8 text"), "{command}");
    }
}

#[test]
fn what_a_module_keeps_to_itself_is_refused_by_both() {
    let files = [
        (
            "lib.harn",
            "pub fn shown() { 1 }\nfn hidden() { 2 }\npub enum E { A, B }\nstruct Own { x: int }\ntype T = int\ninterface I { fn m(self) -> int }",
        ),
        ("again.harn", "pub import { shown } from \"lib\""),
        ("main.harn", ""),
    ];
    for (name, use_of) in [("hidden", "println(hidden())"), ("Own", "println(Own {x: 1})")] {
        let main = format!("import {{ {name} }} from \"lib\"\n{use_of}");
        let ((runs, said), (checks, found)) = both(&[files[0], files[1], ("main.harn", &main)]);
        assert!(!runs && !checks, "{said}\n{found}");
        let refusal = format!("'{name}' is not public in lib");
        assert!(said.contains(&refusal) && found.contains(&refusal), "{said}\n{found}");
    }
    let files = [
        files[0],
        files[1],
        ("main.harn", "import { E, T, I } from \"lib\"\nimport { shown } from \"again\"\nprintln(shown())"),
    ];
    let ((runs, said), (checks, found)) = both(&files);
    assert!(runs && checks, "{said}\n{found}");
    assert_eq!(said, "1\n");
}
