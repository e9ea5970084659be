//! `install.sh` with a release built from the binary under test.

use std::path::Path;
use std::process::Command;

use crate::common::{folder, repository};

/// Runs a command. Returns whether it succeeded, and its output.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Packages the binary as for a release. Returns `None` if the tools are missing or there are no releases for this
/// platform.
fn release(into: &Path) -> Option<String> {
    let target = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", arch @ ("x86_64" | "aarch64")) => format!("{arch}-unknown-linux-musl"),
        ("macos", arch @ ("x86_64" | "aarch64")) => format!("{arch}-apple-darwin"),
        _ => return None,
    };
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !["curl", "tar", "sha256sum"].into_iter().all(has) {
        return None;
    }
    let name = format!("harn-{target}");
    std::fs::create_dir_all(into.join(&name)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_harn"), into.join(&name).join("harn")).unwrap();
    let pack = format!("tar -cf - {name} | gzip -1 > {name}.tar.gz && sha256sum {name}.tar.gz > SHA256SUMS");
    assert!(run(Command::new("sh").args(["-c", &pack]).current_dir(into)).0);
    Some(name)
}

#[test]
fn the_installer_compares_the_checksum() {
    let downloads = folder(&[]);
    let Some(name) = release(downloads.path()) else { return };
    let target = folder(&[]);
    let install = || {
        let mut command = Command::new("sh");
        command
            .arg(repository().join("install.sh"))
            .env("HARN_VERSION", "v0.1.0")
            .env("HARN_DOWNLOADS", format!("file://{}", downloads.path().display()))
            .env("HARN_INSTALL_DIR", target.path().join("bin"));
        run(&mut command)
    };
    let (ok, text) = install();
    assert!(ok && text.contains("installed harn 0.1.0 as "), "{text}");
    let installed = target.path().join("bin/harn");
    assert_eq!(
        run(Command::new(&installed).args(["run", "-e", "println(6 * 7)"])),
        (true, "42\n".to_owned())
    );

    std::fs::write(downloads.path().join("SHA256SUMS"), format!("{}  {name}.tar.gz\n", "0".repeat(64)))
        .unwrap();
    std::fs::remove_file(&installed).unwrap();
    let (ok, text) = install();
    assert!(!ok && text.contains("the checksum of"), "{text}");
    assert!(!installed.exists(), "something was installed all the same");

    // A truncated archive, then no archive, then no checksums.
    let archive = downloads.path().join(format!("{name}.tar.gz"));
    let whole = std::fs::read(&archive).unwrap();
    std::fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
    let (ok, text) = install();
    assert!(!ok && text.contains("the checksum of"), "{text}");
    std::fs::remove_file(&archive).unwrap();
    let (ok, text) = install();
    assert!(!ok && text.contains(&format!("cannot fetch file://{}", archive.display())), "{text}");
    std::fs::write(&archive, whole).unwrap();
    std::fs::remove_file(downloads.path().join("SHA256SUMS")).unwrap();
    let (ok, text) = install();
    assert!(!ok && text.contains("cannot fetch") && text.contains("SHA256SUMS"), "{text}");
    assert!(!installed.exists(), "something was installed all the same");
}

#[test]
fn the_installer_says_where_there_is_no_binary() {
    for (answers, says) in [
        ("FreeBSD x86_64", "there is no binary for FreeBSD"),
        ("MINGW64_NT-10.0 x86_64", "on Windows, take harn-x86_64-pc-windows-gnu.zip"),
        ("Linux riscv64", "there is no binary for riscv64; build it: cargo install"),
    ] {
        let (system, machine) = answers.split_once(' ').unwrap();
        let script = format!("case $1 in -s) echo {system} ;; *) echo {machine} ;; esac");
        let tools = folder(&[("uname", &format!("#!/bin/sh\n{script}\n"))]);
        assert!(run(Command::new("chmod").arg("755").arg(tools.path().join("uname"))).0);
        let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg(repository().join("install.sh")).env("PATH", path).env("HARN_INSTALL_DIR", tools.path());
        let (ok, text) = run(&mut command);
        assert!(!ok && text.contains(says), "{text}");
        assert!(!tools.path().join("harn").exists());
    }
}
