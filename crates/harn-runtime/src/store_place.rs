//! Selects the store of a project: the database in `HARN_STORE_URL` or `[store] url` of the manifest, or a file.

use std::path::{Path, PathBuf};

use harn_front::Through;
use harn_store::Place;
use harn_system::{System, SystemExt};

/// Returns the project's store, which is in `file` if no database is configured.
///
/// # Errors
/// The manifest is invalid. This is an error because otherwise a different store would be used.
pub fn store_place(system: &dyn System, file: impl FnOnce() -> PathBuf) -> Result<Place, String> {
    let set = |name: &str| system.env(name).filter(|value| !value.is_empty());
    let url = match (set("HARN_STORE_URL"), set("HARN_STATE_FILE")) {
        (Some(url), _) => Some(url),
        (None, Some(_)) => None,
        (None, None) => named(system, &system.work_dir())?,
    };
    match url {
        Some(url) => Ok(Place::Url(url).or_password(set("PGPASSWORD").as_deref())),
        None => Ok(Place::File(file())),
    }
}

/// Returns the database in the manifest of the project that contains a directory.
pub(crate) fn named(system: &dyn System, folder: &Path) -> Result<Option<String>, String> {
    let Some(root) = harn_front::project_root(folder, &Through(system)) else { return Ok(None) };
    let path = root.join("harn.toml");
    let Ok(text) = system.read_text(&path, harn_front::MAX_BYTES) else { return Ok(None) };
    if !text.contains("store") {
        return Ok(None);
    }
    let wrong = |why: &str| format!("{}: {why}", path.display());
    let Ok(manifest) = text.parse::<toml::Table>() else {
        return Err(wrong("it cannot be parsed, so which store is meant is not known"));
    };
    let Some(table) = manifest.get("store") else { return Ok(None) };
    let table = table.as_table().ok_or_else(|| wrong("[store] must be a table"))?;
    if let Some(key) = table.keys().find(|key| *key != "url") {
        return Err(wrong(&format!("[store] has no key '{key}'; there is url")));
    }
    match table.get("url") {
        None => Ok(None),
        Some(url) => match url.as_str().filter(|url| !url.is_empty()) {
            Some(url) => Ok(Some(url.to_owned())),
            None => Err(wrong("[store] url must be an address such as \"postgres://user@host/database\"")),
        },
    }
}
