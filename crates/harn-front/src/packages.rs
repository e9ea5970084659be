//! Resolves imports of installed packages: from the nearest `.harn/packages/` that contains the package, in the
//! directory of the importer or above.

use std::path::{Component, Path, PathBuf};

use crate::error::ImportError;
use crate::files::Files;

/// Returns the file of package import `path`, resolved from `dir`. Returns `Ok(None)` if no package matches.
pub(crate) fn find(path: &str, dir: &Path, files: &dyn Files) -> Result<Option<PathBuf>, ImportError> {
    if path.is_empty() || path.starts_with('.') || path.starts_with('/') {
        return Ok(None);
    }
    let start = files.canonical(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let Ok(start) = start else { return Ok(None) };
    for folder in start.ancestors() {
        let packages = folder.join(".harn/packages");
        if files.is_folder(&packages) {
            if !is_tidy(path) {
                let what = "must stay inside the package";
                return Err(ImportError::Escape { path: path.to_owned(), what });
            }
            if let Some(found) = installed(&packages, path, files)? {
                return Ok(Some(found));
            }
        }
        if files.kind(&folder.join(".git")).is_ok() {
            break;
        }
    }
    Ok(None)
}

/// Returns whether a path has only normal components, so that it cannot leave its base directory.
fn is_tidy(path: &str) -> bool {
    !path.contains('\\') && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the file in one packages directory: by its path, or by the exports of the package's manifest.
fn installed(packages: &Path, path: &str, files: &dyn Files) -> Result<Option<PathBuf>, ImportError> {
    let root = packages.join(path.split('/').next().unwrap_or(path));
    let direct = packages.join(path);
    let extended = PathBuf::from(format!("{}.harn", direct.display()));
    let by_place = [direct.join("lib.harn"), direct, extended].into_iter().find(|file| files.is_file(file));
    let Some(file) = by_place.map_or_else(|| exported(&root, path, files), |file| Ok(Some(file)))? else {
        return Ok(None);
    };
    // A link may point outside the package.
    let inside = match (files.canonical(&file), files.canonical(&root)) {
        (Ok(file), Ok(root)) => file.starts_with(&root),
        // A package that is a single file has no directory.
        (Ok(_), Err(_)) => true,
        _ => false,
    };
    if inside {
        return Ok(Some(file));
    }
    Err(ImportError::Escape { path: path.to_owned(), what: "leaves the package" })
}

/// Looks up the remaining path in `[exports]` of a package's manifest.
fn exported(root: &Path, path: &str, files: &dyn Files) -> Result<Option<PathBuf>, ImportError> {
    let Some((_, key)) = path.split_once('/') else { return Ok(None) };
    let manifest = root.join("harn.toml");
    if !files.is_file(&manifest) {
        return Ok(None);
    }
    let wrong = |why: String| ImportError::Manifest { manifest: manifest.clone(), why };
    let bytes = files.read(&manifest).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("not valid UTF-8 text".to_owned()))?;
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
    let Some(value) = table.get("exports").and_then(|exports| exports.get(key)) else { return Ok(None) };
    let Some(file) = value.as_str() else {
        return Err(wrong(format!("exports.{key}: expected the path of a file, got {}", value.type_str())));
    };
    if file.is_empty() || !is_tidy(file) {
        return Err(wrong(format!("exports.{key}: '{file}' must be a path inside the package")));
    }
    let file = root.join(file);
    if !files.is_file(&file) {
        return Err(wrong(format!("exports.{key}: file not found: {}", file.display())));
    }
    Ok(Some(file))
}
