//! What the linker is asked for. The short form of the addresses that the loader sets when the program starts: they are a
//! megabyte otherwise, which is read at every start. And in what is built for use, the functions of start-up side by side
//! (`start.ld`, which `.ci/start-order` writes): they are spread over seven megabytes of memory otherwise.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let is_gnu = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_gnu && var("HOST") == var("TARGET") && loader_knows_it() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=start.ld");
    // There the compiler brings a linker that knows such scripts. One that somebody chose may not.
    let is_known = is_gnu && var("CARGO_CFG_TARGET_ARCH") == "x86_64";
    let flags = var("CARGO_ENCODED_RUSTFLAGS");
    let is_chosen = !var("RUSTC_LINKER").is_empty() || flags.contains("link-arg") || flags.contains("linker");
    if is_known && !is_chosen && var("PROFILE") == "release" {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/start.ld", var("CARGO_MANIFEST_DIR"));
    }
}

/// Whether the loader of this machine is one of glibc 2.36 or later.
fn loader_knows_it() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let Some((Ok(major), Ok(minor))) = version.map(|(a, b)| (a.parse::<u32>(), b.parse::<u32>())) else {
        return false;
    };
    (major, minor) >= (2, 36)
}
