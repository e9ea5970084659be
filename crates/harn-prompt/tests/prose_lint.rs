//! `.ci/lint-prompt-prose` fails on prose in the crates that call models, and on nothing else.

#![cfg(unix)]
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES: [&str; 4] = ["harn-agent", "harn-llm", "harn-prompt", "harn-runtime"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the lint; returns its exit code and output.
fn lint(root: &Path) -> (i32, String) {
    let output = Command::new(repository().join(".ci/lint-prompt-prose")).arg(root).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}

/// Lints a checkout with one additional file in one of its crates.
fn planted(path: &str, text: &str) -> (i32, String) {
    let root = tempfile::tempdir().unwrap();
    for name in CRATES {
        let folder = root.path().join("crates").join(name).join("src");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("lib.rs"), "//! Nothing.\n").unwrap();
    }
    let file = root.path().join("crates").join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    lint(root.path())
}

#[test]
fn this_checkout_is_clean() {
    assert_eq!(lint(&repository()), (0, String::new()));
}

#[test]
fn prose_is_found_where_it_stands() {
    let offenders = [
        // Two sentences.
        "fn f() -> &'static str {\n    \"Look at the plan. Then go on.\"\n}\n",
        // More than a dozen words.
        "fn f() -> &'static str {\n    \"one two three four five six seven eight nine ten eleven twelve thirteen\"\n}\n",
        // Instructions.
        "fn f() -> &'static str {\n    \"You must call it\"\n}\n",
        "fn f(x: u8) -> String {\n    format!(\"Respond with only {x}\")\n}\n",
        // Raw strings, joined lines, escapes, and text after a character literal or a lifetime.
        "fn f() -> &'static str {\n    r#\"Say \"hello\". Then stop talking.\"#\n}\n",
        "fn f() -> &'static str {\n    \"Look at \\\n     the plan.\\n\\\n     Then go on.\"\n}\n",
        "fn f<'a>(c: char) -> &'a str {\n    if c == '\"' { \"\" } else { \"Look at the plan. Then go on.\" }\n}\n",
        // Short sentences, and concatenated strings.
        "fn f() -> &'static str {\n    \"Be brief.\"\n}\n",
        "fn f() -> &'static str {\n    \"Anything else?\"\n}\n",
        "fn f() -> &'static str {\n    \"Use your tools now.\"\n}\n",
        "fn f() -> &'static str {\n    concat!(\"Look at the \", \"plan. Then \", (\"go on\"))\n}\n",
        // A marker without a reason.
        "fn f() -> &'static str {\n    \"Look at the plan. Then go on.\" // prose-ok:\n}\n",
    ];
    for text in offenders {
        for name in CRATES {
            let (code, printed) = planted(&format!("{name}/src/deep/planted.rs"), text);
            assert_eq!(code, 1, "{text}{printed}");
            let place = format!("crates/{name}/src/deep/planted.rs:2: ");
            assert!(printed.starts_with(&place), "{printed}");
            assert!(printed.contains("move it into a template under stdlib/"), "{printed}");
        }
    }
}

#[test]
fn what_is_no_prose_passes() {
    let innocents = [
        "fn f() -> &'static str {\n    \"missing path\"\n}\n",
        "// Look at the plan. Then go on.\n/* Look at the plan. Then go on. */\n/// Look at the plan. Then go on.\nfn f() {}\n",
        "#[error(\"Look at the plan. Then go on.\")]\nstruct E;\n",
        "#[expect(\n    unused,\n    reason = \"Look at the plan. Then go on.\"\n)]\nfn f() {}\n",
        "fn f() -> &'static str {\n    \"Look at the plan. Then go on.\" // prose-ok: a diagnostic\n}\n",
        "fn f() -> &'static str {\n    // prose-ok: a diagnostic\n    \"Look at the plan. Then go on.\"\n}\n",
        "fn f() {}\n#[cfg(test)]\nmod tests {\n    const X: &str = \"Look at the plan. Then go on.\";\n}\n",
        "const KEYS: &str = \"a/b, c/d, e_f, {g}, {h}, <i>, <j>, k=l, m=n, o:p/q, r:s/t, u_v_w, x-y\";\n",
    ];
    for text in innocents {
        assert_eq!(planted("harn-llm/src/planted.rs", text), (0, String::new()), "{text}");
    }
    let prose = "pub const X: &str = \"Look at the plan. Then go on.\";\n";
    for elsewhere in [
        "harn-llm/tests/planted.rs",
        "harn-llm/src/tests.rs",
        "harn-llm/src/tests/deep.rs",
        "harn-cli/src/x.rs",
    ] {
        assert_eq!(planted(elsewhere, prose), (0, String::new()), "{elsewhere}");
    }
}

#[test]
fn a_checkout_without_the_crates_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let (code, printed) = lint(empty.path());
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("there is no crates/harn-agent/src"), "{printed}");
}
