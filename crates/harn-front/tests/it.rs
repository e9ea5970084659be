//! Resolution of imports to files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use harn_front::{Sources, Target, Through, exports, manifest_near, project_root, selectable};
use harn_system::Real;

/// Creates a directory with these files; a name that ends in `/` is a directory.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match name.strip_suffix('/') {
            Some(_) => std::fs::create_dir_all(&path).unwrap(),
            None => std::fs::write(&path, text).unwrap(),
        }
    }
    folder
}

fn std_module(name: &str) -> Option<&'static str> {
    (name == "known").then_some("pub fn f() { 1 }")
}

/// Returns the target of an import in the directory `from`, relative to the root, or the error message.
fn found(root: &Path, from: &str, import: &str) -> String {
    let root = root.canonicalize().unwrap();
    let said = match harn_front::resolve(import, &root.join(from), &Through(&Real::new()), std_module) {
        Ok(Target::File(path)) => path.strip_prefix(&root).unwrap().display().to_string(),
        Ok(Target::Std(name)) => format!("std:{name}"),
        Err(error) => error.to_string(),
    };
    said.replace(&root.display().to_string(), "ROOT")
}

const NOT_FOUND: &str = "No such file or directory (os error 2)";

#[test]
fn files_beside_the_importer_come_first() {
    let root = folder(&[
        ("a.harn", ""),
        ("plain", ""),
        ("sub/b.harn", ""),
        ("dir.harn/", ""),
        (".harn/packages/a/lib.harn", ""),
    ]);
    let at = |import| found(root.path(), "sub", import);
    assert_eq!(at("b"), "sub/b.harn");
    assert_eq!(at("./b.harn"), "sub/b.harn");
    assert_eq!(at("././b"), "sub/b.harn", "a file has one name");
    assert_eq!(found(root.path(), "", "plain"), "plain");
    assert_eq!(found(root.path(), "", "a"), "a.harn");
    assert_eq!(at("a"), ".harn/packages/a/lib.harn");
    assert_eq!(at("c"), format!("Import error: cannot read './c.harn': {NOT_FOUND}"));
    assert_eq!(at("../c.txt"), format!("Import error: cannot read '../c.txt': {NOT_FOUND}"));
    assert_eq!(found(root.path(), "", "dir"), "Import error: cannot read './dir.harn': not a regular file");
    assert_eq!(at("std/known"), "std:known");
    assert_eq!(at("std/none"), "Unknown stdlib module: std/none");
}

#[test]
fn packages_are_found_by_place_and_by_export() {
    let manifest = "[exports]\n\"api/v1\" = \"src/one.harn\"\nbare = \"lib\"\nnumber = 1\nout = \"../x.harn\"\ngone = \"gone.harn\"";
    let root = folder(&[
        (".harn/packages/p/harn.toml", manifest),
        (".harn/packages/p/lib.harn", ""),
        (".harn/packages/p/lib", ""),
        (".harn/packages/p/src/one.harn", ""),
        (".harn/packages/p/nested/lib.harn", ""),
        (".harn/packages/single.harn", ""),
        (".harn/packages/broken/harn.toml", "[exports"),
        (".harn/packages/broken/lib.harn", ""),
        ("work/deep/", ""),
    ]);
    let at = |import| found(root.path(), "work/deep", import);
    assert_eq!(at("p"), ".harn/packages/p/lib.harn");
    assert_eq!(at("p/src/one"), ".harn/packages/p/src/one.harn");
    assert_eq!(at("p/nested"), ".harn/packages/p/nested/lib.harn");
    assert_eq!(at("single"), ".harn/packages/single.harn");
    assert_eq!(at("p/api/v1"), ".harn/packages/p/src/one.harn");
    assert_eq!(at("p/bare"), ".harn/packages/p/lib");
    assert_eq!(at("p/none"), format!("Import error: cannot read './p/none.harn': {NOT_FOUND}"));
    let manifest = "Import error: ROOT/.harn/packages/p/harn.toml: exports.";
    assert_eq!(at("p/number"), format!("{manifest}number: expected the path of a file, got integer"));
    assert_eq!(at("p/out"), format!("{manifest}out: '../x.harn' must be a path inside the package"));
    assert_eq!(at("p/gone"), format!("{manifest}gone: file not found: ROOT/.harn/packages/p/gone.harn"));
    assert_eq!(at("broken"), ".harn/packages/broken/lib.harn", "the manifest is read only for exports");
    assert!(at("broken/x").starts_with("Import error: ROOT/.harn/packages/broken/harn.toml: "));
}

#[test]
fn nothing_leads_out_of_a_package() {
    let root = folder(&[
        ("secret.harn", ""),
        (".harn/packages/p/harn.toml", "[exports]\nlinked = \"link.harn\""),
        (".harn/packages/p/lib.harn", ""),
    ]);
    let link = root.path().join(".harn/packages/p/link.harn");
    std::os::unix::fs::symlink(root.path().join("secret.harn"), link).unwrap();
    let at = |import| found(root.path(), "", import);
    let inside = |path: &str| format!("Import error: package path '{path}' must stay inside the package");
    assert_eq!(at("p/../../../secret2"), inside("p/../../../secret2"));
    assert_eq!(at("p\\lib"), inside("p\\lib"));
    for path in ["p/link", "p/linked"] {
        assert_eq!(at(path), format!("Import error: package path '{path}' leaves the package"));
    }
}

#[test]
fn the_nearest_packages_win_and_a_repository_ends_the_search() {
    let root = folder(&[
        (".harn/packages/p.harn", ""),
        (".harn/packages/q.harn", ""),
        ("repo/.git/", ""),
        ("repo/.harn/packages/p.harn", ""),
        ("repo/src/", ""),
    ]);
    assert_eq!(found(root.path(), "repo/src", "p"), "repo/.harn/packages/p.harn");
    let missing = format!("Import error: cannot read './q.harn': {NOT_FOUND}");
    assert_eq!(found(root.path(), "repo/src", "q"), missing);
}

#[test]
fn a_file_is_read_once() {
    let root =
        folder(&[("a.harn", "pub fn f() { 1 }"), ("sub/x", ""), ("bad.harn", "fn ("), ("latin.harn", "")]);
    std::fs::write(root.path().join("latin.harn"), [0xE9]).unwrap();
    let real = Real::new();
    let files = Through(&real);
    let sources = Sources::new(&files, std_module);
    let load = |import: &str, from: &str| {
        let target = sources.resolve(import, &root.path().join(from)).unwrap();
        sources.load(&target)
    };
    let first = load("a", "").unwrap();
    assert!(std::rc::Rc::ptr_eq(&first, &load("../a.harn", "sub").unwrap()));
    assert_eq!(first.dir, root.path());
    assert_eq!(load("std/known", "").unwrap().file.name(), "std/known.harn");
    assert!(!load("bad", "").unwrap().errors.is_empty());
    assert!(load("latin", "").unwrap_err().ends_with("latin.harn' is not valid UTF-8 text"));
}

#[test]
fn what_a_file_exports() {
    let names = |source: &str| -> (String, String) {
        let tree = harn_syntax::parse(source).program;
        let join = |names: Vec<String>| names.join(" ");
        (
            join(exports(&tree).map(|decl| decl.kind.name().name.to_string()).collect()),
            join(selectable(&tree).map(|decl| decl.kind.name().name.to_string()).collect()),
        )
    };
    let all = names("fn a() { 1 }\nfn b() { 2 }\nstruct S { x: int }\nlet v = 1");
    assert_eq!(all, ("a b S".to_owned(), "a b S".to_owned()));
    let marked = names("pub fn a() { 1 }\nfn b() { 2 }\nstruct S { x: int }");
    assert_eq!(marked, ("a".to_owned(), "a".to_owned()));
    let of_types =
        names("pub fn a() { 1 }\nenum E { V }\ntype T = int\ninterface I { fn m() }\npipeline p() { 1 }");
    assert_eq!(of_types, ("a T I".to_owned(), "a T I".to_owned()));
    // Any `pub` hides all declarations without it.
    let by_struct = names("fn a() { 1 }\npub struct S { x: int }");
    assert_eq!(by_struct, ("S".to_owned(), "S".to_owned()));
    let passed_on = names("pub import \"x\"\nfn b() { 2 }");
    assert_eq!(passed_on, (String::new(), String::new()));
}

#[test]
fn the_project_of_a_folder() {
    let root = folder(&[("harn.toml", ""), ("repo/.git/", ""), ("repo/src/", ""), ("plain/src/", "")]);
    let at = root.path();
    assert_eq!(project_root(&at.join("plain/src"), &Through(&Real::new())).as_deref(), Some(at));
    assert_eq!(
        project_root(&at.join("repo/src"), &Through(&Real::new())),
        None,
        "a repository ends the search"
    );
    let deep = at.join("x/".repeat(16));
    assert_eq!(project_root(&deep, &Through(&Real::new())), None, "sixteen folders are looked at");
    assert_eq!(project_root(deep.parent().unwrap(), &Through(&Real::new())).as_deref(), Some(at));
    assert_eq!(manifest_near(&at.join("plain/src"), &Through(&Real::new())), Some(at.join("harn.toml")));
    assert_eq!(
        manifest_near(&at.join("repo/src"), &Through(&Real::new())),
        None,
        "a repository ends the search"
    );
}
