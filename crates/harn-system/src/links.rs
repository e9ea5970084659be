//! Resolution of symbolic links in paths.

use std::io;
use std::path::{Path, PathBuf};

use crate::system::System;

/// Returns the absolute path with all links resolved; the path need not exist. A relative path is resolved against the
/// working directory. Returns `None` if the target is unknown, as for a dangling link.
pub fn real_path(system: &dyn System, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return real_path_of(system, path, true);
    }
    real_path_of(system, &system.cwd().ok()?.join(path), true)
}

/// Resolves the links of a path, including one in its last component if `follow` is set.
pub(crate) fn real_path_of(system: &dyn System, path: &Path, follow: bool) -> Option<PathBuf> {
    without_links(path, follow, &|path| system.canonical(path), &|path| system.link_facts(path).is_ok())
}

/// Resolves the links of a path, which need not exist; returns `None` if the target is unknown, as for a dangling link.
/// `canonical` and `is_there` query the system.
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
        // A dangling link, or a file that another process has just created.
        return canonical(path).ok();
    }
    let parent = path.parent()?;
    let Some(name) = path.file_name() else {
        // `..` after a missing directory: programs that create missing directories can follow it.
        let below = without_links(parent, true, canonical, is_there)?;
        return Some(below.parent().unwrap_or(&below).to_owned());
    };
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

    #[test]
    fn steps_upwards_from_what_is_not_there_are_taken() {
        let system =
            crate::Memory::new().with_file("/project/src/b", "").with_link("/elsewhere", "/project/out");
        let real = |path: &str| real_path(&system, Path::new(path));
        assert_eq!(real("/project/no/../src/a").as_deref(), Some(Path::new("/project/src/a")));
        assert_eq!(real("/project/no/../../../x").as_deref(), Some(Path::new("/x")));
        assert_eq!(real("/project/out/../x"), None);
    }
}
