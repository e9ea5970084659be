//! `harn fmt`: its output, the files it does not change, and its exit codes.

use crate::common::{harn_in, harn_with};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn files_and_folders_are_written_anew() {
    let folder = folder(&[
        ("a.harn", "let a=1"),
        ("b/c.harn", "let c = 1\n"),
        ("b/d.harn", "f( )"),
        ("b/e.txt", "x=1"),
    ]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let ran = harn_in(folder.path(), &["fmt", "--check", "."]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "./a.harn: would be reformatted\n./b/d.harn: would be reformatted\n");
    assert_eq!(read("a.harn"), "let a=1");
    let ran = harn_in(folder.path(), &["fmt", "."]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "formatted ./a.harn\nformatted ./b/d.harn\n"));
    assert_eq!([read("a.harn"), read("b/d.harn"), read("b/e.txt")], ["let a = 1\n", "f()\n", "x=1"]);
    let ran = harn_in(folder.path(), &["fmt", "--check", "."]);
    assert_eq!((ran.code, ran.out, ran.err), (0, String::new(), String::new()));
}

#[test]
fn what_does_not_parse_stays_and_the_others_are_formatted() {
    let folder = folder(&[("a.harn", "let a = )"), ("b.harn", "let b=1")]);
    let ran = harn_in(folder.path(), &["fmt", "a.harn", "b.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "formatted b.harn\n"));
    assert!(ran.err.starts_with("a.harn: Expected expression, got )"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.harn")).unwrap(), "let a = )");
}

#[test]
fn standard_input_goes_to_standard_output() {
    let ran = harn_with(&["fmt", "-"], "let a=[1,2]");
    assert_eq!((ran.code, ran.out.as_str()), (0, "let a = [1, 2]\n"));
    let ran = harn_with(&["fmt", "--check", "-"], "let a=[1,2]");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", "-: would be reformatted\n"));
    assert_eq!(harn_with(&["fmt", "-"], "let a = (").code, 1);
}

#[test]
fn the_width_comes_from_the_command_line_or_the_manifest() {
    let text = "let names = [\"aaaaaaaaaa\", \"bbbbbbbbbb\", \"cccccccccc\"]\n// ----\n";
    let folder = folder(&[("harn.toml", "[fmt]\nline_width = 40\nseparator-width = 20\n"), ("a.harn", text)]);
    let ran = harn_in(folder.path(), &["fmt", "a.harn", "--line-width", "100"]);
    assert_eq!(ran.code, 0);
    let read = || std::fs::read_to_string(folder.path().join("a.harn")).unwrap();
    assert_eq!(read(), text.replace("// ----", "// -----------------"));
    harn_in(folder.path(), &["fmt", "a.harn"]);
    assert!(read().starts_with("let names = [\n  \"aaaaaaaaaa\",\n"), "{}", read());
    assert_eq!(harn_in(folder.path(), &["fmt", "a.harn", "--line-width", "5"]).code, 2);
}

#[test]
fn a_wrong_manifest_stops_it() {
    let text = "let a=1\n";
    for (manifest, told) in [
        ("[fmt]\nline_width = \"40\"\n", "[fmt] line_width must be a number of columns from 20 to 1000"),
        ("[fmt]\nline_width = 5\n", "[fmt] line_width must be a number of columns from 20 to 1000"),
        ("fmt = 1\n", "`fmt` must be a table"),
        ("[fmt\n", "failed to parse"),
    ] {
        let folder = folder(&[("harn.toml", manifest), ("a.harn", text), ("sub/b.harn", text)]);
        let ran = harn_in(folder.path(), &["fmt", "."]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.shown());
        assert_eq!(ran.err.matches(told).count(), 1, "{}", ran.shown());
        assert!(ran.err.contains("harn.toml"), "{}", ran.shown());
        assert_eq!(std::fs::read_to_string(folder.path().join("a.harn")).unwrap(), text);
        let ran = harn_in(folder.path(), &["fmt", "--json", "."]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(report["error"]["code"], "manifest", "{}", ran.shown());
        assert!(report["error"]["message"].as_str().unwrap().contains(told), "{}", ran.shown());
    }
    // Misspelt settings of `fmt` are reported; problems of other tables are not.
    let folder = folder(&[("harn.toml", "[fmt]\nline_widht = 40\n[run]\ndurable = 1\n"), ("a.harn", text)]);
    let ran = harn_in(folder.path(), &["fmt", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "formatted a.harn\n"), "{}", ran.shown());
    assert!(ran.err.contains("unknown key `line_widht` in [fmt]: it has no effect"), "{}", ran.shown());
    assert!(ran.err.contains("did you mean `line_width`?") && !ran.err.contains("[run]"), "{}", ran.shown());
}

#[test]
fn the_report_for_tools() {
    let folder = folder(&[("a.harn", "let a=1"), ("b.harn", "let b = 1\n"), ("c.harn", ")")]);
    let ran = harn_in(folder.path(), &["fmt", "--json", "--check", "."]);
    assert_eq!(ran.code, 1);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let words: Vec<_> = report["data"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["status"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["would_format", "unchanged", "error"]);
    assert_eq!(report["ok"], false);
    assert_eq!(report["data"]["summary"]["files"], 3);
}

#[test]
fn nothing_to_format_is_an_error() {
    let folder = folder(&[("a.txt", "")]);
    let ran = harn_in(folder.path(), &["fmt", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "No .harn files found\n"));
    assert_eq!(harn_in(folder.path(), &["fmt", "gone.harn"]).code, 1);
}
