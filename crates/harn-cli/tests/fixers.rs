//! `harn lint --fix` preserves the meaning of programs, tested by one program per class of fixes and by the conformance
//! suite.

use std::path::Path;

use crate::common::{every_case, folder, harn_in, repository};

/// Runs `lint --fix` on a program with its helpers. Checks that its output is unchanged and that it still lints.
/// Returns the fixed source and the remaining findings.
#[track_caller]
fn fixed_with(files: &[(&str, &str)]) -> (String, String) {
    let folder = folder(files);
    let before = harn_in(folder.path(), &["run", "a.harn"]);
    let linted = harn_in(folder.path(), &["lint", "--fix", "a.harn"]);
    let text = std::fs::read_to_string(folder.path().join("a.harn")).unwrap();
    let after = harn_in(folder.path(), &["run", "a.harn"]);
    assert_eq!((before.code, &before.out), (after.code, &after.out), "{text}\n{}", after.err);
    (text, linted.err)
}

/// Checks that a finding whose fix would change the meaning is not fixed, and that the reason is reported.
#[track_caller]
fn kept(files: &[(&str, &str)], reason: &str) {
    let (text, found) = fixed_with(files);
    let own = files.iter().find(|(name, _)| *name == "a.harn").map(|(_, text)| *text);
    assert_eq!(Some(text.as_str()), own, "{found}");
    assert!(found.contains(reason), "{found}");
}

#[test]
fn a_name_that_is_redeclared_stays_variable() {
    let again = "no automatic fix: the fixed program has another mistake: Cannot redeclare";
    kept(&[("a.harn", "fn port(p = 80) {\n  var p = p ?? 80\n  p\n}\n\nprintln(port(nil))\n")], again);
    kept(&[("a.harn", "let n = 1\nprintln(n)\nvar n = n + 1\nprintln(n)\n")], again);
    // Of two declarations, the first may become a constant.
    let (text, _) = fixed_with(&[("a.harn", "var n = 1\nprintln(n)\nvar n = n + 1\nprintln(n)\n")]);
    assert_eq!(text.matches("var n").count(), 1, "{text}");
    kept(
        &[(
            "a.harn",
            "fn f(xs) {\n  for x in xs {\n    let y = x\n    var y = y + 1\n    println(y)\n  }\n}\n\nf([1])\n",
        )],
        again,
    );
}

#[test]
fn a_new_name_captures_nothing() {
    let bound = "would mean another declaration";
    kept(
        &[(
            "a.harn",
            "let _rate = 10\n\nfn price(n) {\n  let rate = 3\n  n * _rate\n}\n\nprintln(price(2))\n",
        )],
        bound,
    );
    kept(
        &[("a.harn", "let _s = 1\n\nfn f() {\n  let s = 3\n  return \"v${_s}\"\n}\n\nprintln(f())\n")],
        bound,
    );
    kept(
        &[("a.harn", "fn f(_n) {\n  if _n > 1 {\n    let n = 2\n    println({ -> _n }())\n  }\n}\n\nf(3)\n")],
        bound,
    );
    // A parameter or variable in the same scope.
    let (text, _) = fixed_with(&[("a.harn", "fn f(_n) {\n  let n = 2\n  return _n\n}\n\nprintln(f(3))\n")]);
    assert!(text.contains("let n = 2"), "{text}");
    kept(
        &[
            ("a.harn", "import \"m\"\n\nlet x = 3\nprintln(_x())\n"),
            ("m.harn", "pub fn _x() {\n  return 5\n}\n"),
        ],
        "no automatic fix",
    );
}

#[test]
fn conversions_of_the_program_are_called() {
    let own = "fn to_string(x) {\n  return \"<\" + x + \">\"\n}\n\nprintln(to_string(\"a\"))\n";
    assert_eq!(fixed_with(&[("a.harn", own)]), (own.to_owned(), String::new()));
    for import in ["import \"m\"", "import { to_int } from \"m\""] {
        let text = format!("{import}\n\nprintln(to_int(1))\n");
        let module = "pub fn to_int(x) {\n  return x + 41\n}\n";
        assert_eq!(fixed_with(&[("a.harn", &text), ("m.harn", module)]).0, text);
    }
    let inner = "fn f(to_int) {\n  return to_int(to_int(2))\n}\n\nprintln(f({ x -> x + 1 }))\n";
    assert_eq!(fixed_with(&[("a.harn", inner)]).0, inner);
    let iter = "fn iter(_xs) {\n  return {map: { _f -> [7] }}\n}\n\nfn g() -> list {\n  return iter([1]).map({ x -> x })\n}\n\nprintln(g())\n";
    assert_eq!(fixed_with(&[("a.harn", iter)]).0, iter);
    // A dict may have a function under this key.
    let clone = "fn show(x) {\n  println(x)\n}\n\nlet d = {clone: { -> 42 }}\nshow(d.clone())\n";
    assert_eq!(fixed_with(&[("a.harn", clone)]).0, clone);
}

#[test]
fn imports_that_run_code_stay() {
    let module =
        "let seen = println(\"loaded\")\n\npub fn f() {\n  return seen\n}\n\npub fn g() {\n  return 1\n}\n";
    kept(
        &[("a.harn", "import { f } from \"m\"\n\nprintln(1)\n"), ("m.harn", module)],
        "no automatic fix: importing \"m\" runs code",
    );
    let (text, _) =
        fixed_with(&[("a.harn", "import { f, g } from \"m\"\n\nprintln(g())\n"), ("m.harn", module)]);
    assert!(text.starts_with("import { g }"), "{text}");
    let other = "let seen = println(\"other\")\n\npub fn h() {\n  return seen\n}\n";
    kept(
        &[
            ("a.harn", "import { h } from \"n\"\nimport { g } from \"m\"\n\nprintln(g(), h())\n"),
            ("m.harn", module),
            ("n.harn", other),
        ],
        "no automatic fix: the imported files run code in the order of the imports",
    );
}

#[test]
fn comments_and_line_ends_stay() {
    let text = "fn f(n) {\n  let m /* doubled */ = n * 2\n  return m\n}\n\nprintln(f(2))\n";
    kept(&[("a.harn", text)], "no automatic fix: a comment would be lost");
    let text = "import { parse_float_or, parse_int_or } from \"std/text\"\nimport { ext } from \"std/path\"\nfn f(n) {\n  if n > 1 {\n    return 1\n  } else {\n    let m = n + 1\n    println(m)\n    return m * m\n  }\n}\nlet unused = [\n  1,\n  2\n]\n/// Says.\npub fn g(x) {\n  if x == 1 {\n  }\n  let y = \"\"\"\n  a\n  b\n\"\"\"\n  return y\n}\nprintln(f(1), g(1), parse_int_or(\"1\", 2))\n";
    let lf = fixed_with(&[("a.harn", text)]).0;
    let crlf = fixed_with(&[("a.harn", &text.replace('\n', "\r\n"))]).0;
    assert_ne!(lf, text);
    assert_eq!(crlf, lf.replace('\n', "\r\n"));
}

#[test]
fn remarks_do_not_become_descriptions() {
    let reason = "no automatic fix: a comment would become a description in schemas";
    kept(&[("a.harn", "// A point.\npub struct P {\n  x: int\n}\n\nprintln(schema_of(P))\n")], reason);
    kept(&[("a.harn", "// A tool.\npub tool t(x: int) {\n  x\n}\n\nprintln(t)\n")], reason);
    let (text, _) =
        fixed_with(&[("a.harn", "// Doubles.\npub fn f(x) {\n  return x * 2\n}\n\nprintln(f(1))\n")]);
    assert!(text.starts_with("/** Doubles. */\n"), "{text}");
}

#[test]
fn an_error_that_is_caught_stays() {
    let caught = "no automatic fix: the error is caught";
    kept(
        &[("a.harn", "let n = 3\n\ntry {\n  println(\"a\" + n)\n} catch (e) {\n  println(\"caught\")\n}\n")],
        caught,
    );
}

#[test]
fn received_values_are_in_the_scope_of_their_case() {
    kept(
        &[(
            "a.harn",
            "let c = channel(\"x\")\nsend(c, 1)\nselect {\n  m from c {\n    var m = m + 1\n    println(m)\n  }\n}\n",
        )],
        "no automatic fix: the fixed program has another mistake: Cannot redeclare",
    );
}

/// Copies the cases with output, and their helpers.
fn copy_cases(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> usize {
    std::fs::create_dir_all(to).unwrap();
    let mut count = 0;
    let mut paths: Vec<_> = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() && !path.is_symlink() {
            count += copy_cases(&path, &target, wanted);
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let other = ["error", "lint"].iter().any(|kind| path.with_extension(kind).exists());
        let has_output = path.with_extension("expected").exists();
        if other
            || (matches!(extension, "harn" | "expected")
                && has_output
                && !wanted(&path.with_extension("harn")))
        {
            continue;
        }
        count += usize::from(extension == "expected" && path.with_extension("harn").exists());
        std::fs::copy(&path, &target).unwrap();
    }
    count
}

/// One of this many cases with expected output is tested, unless `HARN_EVERY_CASE` is set.
const SAMPLE: usize = 20;

#[test]
fn fixed_conformance_programs_print_the_same() {
    let root = repository().join("conformance");
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("conformance");
    let sampled = |path: &Path| {
        let name = path.as_os_str().as_encoded_bytes();
        every_case() || name.iter().map(|&byte| usize::from(byte)).sum::<usize>() % SAMPLE == 0
    };
    let cases = copy_cases(&root, &target, &sampled);
    let linted = harn_in(scratch.path(), &["lint", "--fix", "conformance"]);
    let applied: Vec<usize> = linted
        .out
        .lines()
        .filter_map(|line| line.split_once(": applied ")?.1.split(' ').next()?.parse().ok())
        .collect();
    let ran = harn_in(scratch.path(), &["test", "conformance", "--timeout", "300000"]);
    let failures = ran.out.split_once("Failures:").map_or("", |(_, text)| text);
    println!("{cases} cases, {} fixes in {} files", applied.iter().sum::<usize>(), applied.len());
    assert!(cases >= 100 && applied.len() >= 20, "{cases} cases: {}", linted.err);
    assert_eq!(ran.code, 0, "{failures}\n{}", ran.err);
}
