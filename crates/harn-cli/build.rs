//! What the linker is asked for in what is built for use. Code and tables at a fixed address: the loader otherwise writes the
//! addresses into a megabyte of tables at every start. Libraries, heap and stack stay where chance puts them. And the functions of
//! start-up side by side (`start.ld`, which `.ci/start-order` writes): they are spread over seven megabytes of memory otherwise.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=start.ld");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let is_gnu = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu";
    // There the compiler brings a linker that knows such scripts. One that somebody chose may not.
    let is_known = is_gnu && var("CARGO_CFG_TARGET_ARCH") == "x86_64";
    let flags = var("CARGO_ENCODED_RUSTFLAGS");
    let is_chosen = !var("RUSTC_LINKER").is_empty() || flags.contains("link-arg") || flags.contains("linker");
    if is_known && !is_chosen && var("PROFILE") == "release" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/start.ld", var("CARGO_MANIFEST_DIR"));
    }
}
