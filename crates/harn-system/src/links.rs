//! Where paths lead.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the path without links, whether or not there is something at its end; `None` when that is not known, as for a link
/// to nothing. `canonical` and `is_link` ask the system.
pub(crate) fn without_links(
    path: &Path,
    follow: bool,
    canonical: &dyn Fn(&Path) -> io::Result<PathBuf>,
    is_there: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if follow && let Ok(real) = canonical(path) {
        return Some(real);
    }
    if follow && is_there(path) {
        return None;
    }
    let name = path.file_name()?;
    let parent = path.parent()?;
    let parent = match canonical(parent) {
        Ok(parent) => parent,
        Err(_) => without_links(parent, true, canonical, is_there)?,
    };
    Some(parent.join(name))
}
