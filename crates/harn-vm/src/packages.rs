//! Imports of installed packages: `.harn/packages/` of the nearest ancestor folder that has the package.

use std::path::{Component, Path, PathBuf};

use harn_system::{System, SystemExt};

/// The file of package import `path`, looked up from `dir`. `Ok(None)` when no package matches.
///
/// # Errors
/// A path that tries to leave the package.
pub(crate) fn find(system: &dyn System, path: &str, dir: &Path) -> Result<Option<PathBuf>, String> {
    if path.starts_with('.') || path.starts_with('/') {
        return Ok(None);
    }
    let start = system.canonical(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let Ok(start) = start else { return Ok(None) };
    for folder in start.ancestors() {
        let packages = folder.join(".harn/packages");
        if system.is_dir(&packages) {
            let escapes = path.contains('\\')
                || Path::new(path).components().any(|c| !matches!(c, Component::Normal(_)));
            if escapes {
                return Err(format!("Import error: package path '{path}' must stay inside the package"));
            }
            let direct = packages.join(path);
            let candidates = [
                direct.join("lib.harn"),
                direct.clone(),
                PathBuf::from(format!("{}.harn", direct.display())),
            ];
            let root = packages.join(path.split('/').next().unwrap_or(path));
            for candidate in candidates {
                if system.is_file(&candidate) {
                    let inside = match (system.canonical(&candidate), system.canonical(&root)) {
                        (Ok(file), Ok(root)) => file.starts_with(&root),
                        (Ok(_), Err(_)) => true,
                        _ => false,
                    };
                    if inside {
                        return Ok(Some(candidate));
                    }
                    return Err(format!("Import error: package path '{path}' leaves the package"));
                }
            }
        }
        if system.exists(&folder.join(".git")) {
            break;
        }
    }
    Ok(None)
}
