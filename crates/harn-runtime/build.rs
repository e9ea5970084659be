//! Embeds the directory `stdlib/`: the modules of `stdlib/std/` by their name, prompt assets by their path.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../../stdlib");
    println!("cargo:rerun-if-changed={}", root.display());
    // Two clones may share a target directory.
    println!("cargo:rerun-if-env-changed=CARGO_MANIFEST_DIR");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let (mut modules, mut assets) = (String::new(), String::new());
    for file in files {
        let Ok(relative) = file.strip_prefix(&root) else { continue };
        let name = relative.to_string_lossy().replace('\\', "/");
        let path = fs::canonicalize(&file)?;
        let (table, name) = match name.strip_suffix(".harn").and_then(|n| n.strip_prefix("std/")) {
            Some(module) => (&mut modules, module.to_owned()),
            None if name.ends_with(".prompt") => (&mut assets, name),
            None => continue,
        };
        writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string())
            .map_err(io::Error::other)?;
    }
    let text = format!(
        "pub(crate) static MODULES: &[(&str, &str)] = &[\n{modules}];\n\
         pub(crate) static ASSETS: &[(&str, &str)] = &[\n{assets}];\n"
    );
    let out = Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("stdlib.rs");
    fs::write(out, text)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
