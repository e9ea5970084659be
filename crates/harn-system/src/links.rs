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
        // A link to nothing, or a file that another process has created meanwhile.
        return canonical(path).ok();
    }
    let name = path.file_name()?;
    let parent = path.parent()?;
    let parent = match canonical(parent) {
        Ok(parent) => parent,
        Err(_) => without_links(parent, true, canonical, is_there)?,
    };
    Some(parent.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appears_while_it_is_looked_up_is_no_link_to_nothing() {
        let looks = std::cell::Cell::new(0);
        let appears = |path: &Path| {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { Err(io::ErrorKind::NotFound.into()) } else { Ok(path.to_owned()) }
        };
        let path = Path::new("/project/file.lock");
        assert_eq!(without_links(path, true, &appears, &|_| true).as_deref(), Some(path));
        let nothing = |_: &Path| Err(io::ErrorKind::NotFound.into());
        assert_eq!(without_links(path, true, &nothing, &|_| true), None);
    }
}
