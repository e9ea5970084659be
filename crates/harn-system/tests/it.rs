//! Other crates access the operating system only through the system layer: clippy.toml lists the direct calls, each
//! crate denies them, and the exceptions are listed here.

use std::path::{Path, PathBuf};

/// The attribute by which a crate denies the calls listed in clippy.toml.
const DENIES: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]";

/// The system layer itself, and crates that are not part of a running program.
const FREE: [&str; 3] = ["harn-system", "harn-fuzz", "harn-derive"];

/// The files with an exception; each states its reason next to it.
const EXCEPTIONS: [&str; 27] = [
    "crates/harn-cli/src/cmd/demo/stage.rs",
    "crates/harn-cli/src/cmd/eval/experiment.rs",
    "crates/harn-cli/src/cmd/lsp.rs",
    "crates/harn-cli/src/cmd/mcp_login.rs",
    "crates/harn-cli/src/cmd/portal.rs",
    "crates/harn-cli/src/cmd/repl.rs",
    "crates/harn-cli/src/cmd/test/one.rs",
    "crates/harn-cli/src/cmd/test/twice.rs",
    "crates/harn-cli/src/cmd/worker.rs",
    "crates/harn-cli/src/conformance/run.rs",
    "crates/harn-cli/src/dap/mod.rs",
    "crates/harn-cli/src/dap/wire.rs",
    "crates/harn-cli/src/findings.rs",
    "crates/harn-cli/src/health/mod.rs",
    "crates/harn-cli/src/json_rpc.rs",
    "crates/harn-cli/src/mcp/http.rs",
    "crates/harn-cli/src/out.rs",
    "crates/harn-cli/src/program.rs",
    "crates/harn-cli/src/repl/editor.rs",
    "crates/harn-cli/src/signal.rs",
    "crates/harn-portal/src/launch.rs",
    "crates/harn-portal/src/server.rs",
    "crates/harn-store/src/postgres/connect.rs",
    "crates/harn-store/src/postgres/tls.rs",
    "crates/harn-store/src/postgres/worker.rs",
    "crates/harn-store/src/sqlite/schema.rs",
    "crates/harn-store/src/sqlite/wal.rs",
];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// Returns the crates that must use the system layer.
fn crates(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("crates")).expect("the crates");
    let mut found: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| !FREE.iter().any(|free| path.ends_with(free)));
    found.sort();
    assert!(found.len() > 10, "the crates are there");
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn every_crate_denies_what_goes_around_the_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in crates(&root) {
        let whole = [folder.join("src/lib.rs"), folder.join("src/main.rs")].map(|path| text(&path)).concat();
        assert!(whole.contains(DENIES), "{}: the line `{DENIES}` is missing", folder.display());
        let dependencies = text(&folder.join("Cargo.toml"));
        let own = dependencies.split("[dev-dependencies]").next().unwrap_or_default();
        assert!(!own.contains("reqwest"), "{}: requests go through harn-system", folder.display());
    }
    let list = text(&root.join("clippy.toml"));
    for word in [
        "std::fs::read",
        "std::fs::File",
        "std::process::Command",
        "reqwest::Client",
        "SystemTime::now",
        "Instant::now",
        "tokio::time::sleep",
        "UnixStream",
        "soft_link",
        "std::env::current_exe",
        "ignore::WalkBuilder::new",
        "tempfile::tempdir",
        "dirs::home_dir",
        "tokio::fs::read",
        "tokio::io::stdin",
        "tokio::net::lookup_host",
    ] {
        assert!(list.contains(word), "clippy.toml does not name {word}");
    }
}

#[test]
fn exceptions_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    crates(&root).iter().for_each(|folder| sources(&folder.join("src"), &mut files));
    assert!(files.len() > 200, "the sources are there");
    let mut found: Vec<String> = files
        .iter()
        .filter(|file| {
            text(file).lines().any(|line| line.contains("clippy::disallowed") && !line.contains(DENIES))
        })
        .map(|file| file.strip_prefix(&root).expect("a path in the tree").display().to_string())
        .collect();
    found.sort();
    assert_eq!(found, EXCEPTIONS);
}

/// `tokio::select!` starts with a random branch unless it is `biased`, and `tokio::join!` with another one at each
/// poll. Replay of a journal requires that a task polls its futures in the same order in each run.
#[test]
fn every_select_polls_its_branches_in_a_fixed_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(root.join("crates")).expect("the crates") {
        sources(&folder.expect("an entry").path().join("src"), &mut files);
    }
    let mut count = 0;
    for file in files {
        let text = text(&file);
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let place = || format!("{}:{}", file.display(), at + 1);
            // The store queries its server outside of programs.
            if line.contains("tokio::join!(") && !file.ends_with("postgres/connect.rs") {
                assert!(line.contains("join!(biased;"), "{}", place());
            }
            if !line.contains("select! {") {
                continue;
            }
            count += 1;
            let next = lines.next().map(|(_, line)| line.trim());
            assert_eq!(next, Some("biased;"), "{}", place());
        }
    }
    assert!(count > 5, "the sources are there");
}
