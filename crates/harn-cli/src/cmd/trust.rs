//! `harn trust`: directories whose manifests are trusted although other users own or can change them.

use std::io::Write;
use std::path::PathBuf;

use harn_front::trust;
use harn_system::{Real, System, SystemExt};

use crate::args::TrustArgs;
use crate::out::Out;

/// Adds a directory to the list, removes one, or prints the list.
pub(crate) fn trust(args: &TrustArgs) -> u8 {
    match changed(args) {
        Ok(()) => 0,
        Err(text) => {
            eprintln!("{}", harn_syntax::error_line(&text));
            1
        }
    }
}

fn changed(args: &TrustArgs) -> Result<(), String> {
    let real = Real::new();
    let mut known = trust::listed(&real);
    let Some(path) = &args.path else {
        for path in known {
            let _ = writeln!(Out, "{}", harn_syntax::printable(&path.display().to_string()));
        }
        return Ok(());
    };
    let folder = if args.remove && !real.exists(path) { path.clone() } else { directory(&real, path)? };
    let file = trust::list_file(&real)
        .ok_or("there is no home directory for the list of trusted directories: set HOME")?;
    if real.is_file(&file) && real.is_foreign(&file) {
        return Err(format!(
            "{} belongs to another user or can be changed by one: make it your own first",
            file.display()
        ));
    }
    known.retain(|known| *known != folder);
    if !args.remove {
        known.push(folder);
    }
    let text: String = known.iter().map(|path| format!("{}\n", path.display())).collect();
    let written = real.write_with_folder(&file, |real| real.replace(&file, text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Returns the directory of the manifest that a path names.
fn directory(real: &Real, path: &std::path::Path) -> Result<PathBuf, String> {
    let path = if path.ends_with("harn.toml") && !real.is_dir(path) {
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."))
    } else {
        path
    };
    let folder = real.canonical(path).map_err(|error| {
        format!("cannot open {}: {error}; pass a directory that contains a harn.toml", path.display())
    })?;
    match folder.to_str() {
        Some(text) if real.is_file(&folder.join("harn.toml")) && !text.contains(['\n', ',']) => Ok(folder),
        Some(text) if text.contains(['\n', ',']) => {
            Err(format!("{text}: the name of a trusted directory has no comma"))
        }
        _ => Err(format!("there is no harn.toml in {}", folder.display())),
    }
}
