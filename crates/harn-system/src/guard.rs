//! Paths that must not be removed, moved or replaced: the working directory, the project, the home directory, the root
//! of the file system, and every directory that contains one of them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::system::{System, SystemExt};

/// The protected paths of a run, each with its name in messages.
pub struct Protected(Vec<(&'static str, PathBuf)>);

impl Default for Protected {
    fn default() -> Protected {
        Protected(vec![("the root of the file system", PathBuf::from("/"))])
    }
}

impl Protected {
    /// Adds an absolute path; `name` completes "it holds …".
    #[must_use]
    pub fn and(mut self, name: &'static str, path: impl Into<PathBuf>) -> Protected {
        // The root stays last, so that a more specific name is reported.
        self.0.insert(self.0.len() - 1, (name, path.into()));
        self
    }

    /// Adds a path that is reported before all others.
    #[must_use]
    pub fn first(mut self, name: &'static str, path: impl Into<PathBuf>) -> Protected {
        self.0.insert(0, (name, path.into()));
        self
    }

    /// Returns the name of a protected path that is equal to `path` or below it, also through links, `..` and mounts.
    ///
    /// `path` must be absolute; it need not exist. Directories are compared by device and inode, so that another
    /// spelling of a path does not bypass the check.
    pub fn held_by(&self, system: &dyn System, path: &Path) -> Option<&'static str> {
        let resolved = resolved(system, path);
        let directory = system.facts(path).ok().filter(|facts| facts.is_dir()).map(|facts| facts.identity);
        let holds = |place: &Path| {
            place.starts_with(path)
                || place.starts_with(&resolved)
                || directory.is_some_and(|directory| {
                    let place = system.canonical(place).unwrap_or_else(|_| place.to_owned());
                    let same =
                        |above: &Path| system.facts(above).is_ok_and(|facts| facts.identity == directory);
                    place.ancestors().any(same)
                })
        };
        let named = self.0.iter().find(|(_, place)| holds(place)).map(|(name, _)| *name);
        // On systems where each drive has its own root, the list contains none of them.
        let is_root = || resolved.parent().is_none() && resolved.has_root();
        named.or_else(|| is_root().then_some("the root of the file system"))
    }

    /// Returns the protected paths of a run: its working directory, the projects that contain it and the code in
    /// `source`, and the home directory.
    pub fn of(system: &dyn System, source: Option<&Path>) -> Protected {
        let mut places = Protected::default();
        let cwd = system.cwd().ok();
        for start in [cwd.as_deref(), source].into_iter().flatten() {
            if let Some(project) = start.ancestors().find(|dir| system.is_file(&dir.join("harn.toml"))) {
                places = places.and("the project's root", project);
            }
        }
        if let Some(home) = system.env("HOME").filter(|home| Path::new(home).is_absolute()) {
            places = places.and("the home folder", home);
        }
        match cwd {
            Some(cwd) => places.first("the working directory", cwd),
            None => places,
        }
    }
}

/// Resolves all links of a path except in its last component, which may not exist.
fn resolved(system: &dyn System, path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or(OsStr::new(""));
    match path.parent().map(|parent| system.canonical(parent)) {
        Some(Ok(parent)) => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::Real;

    #[test]
    fn a_place_and_what_holds_it_are_protected_and_nothing_else() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let root = scratch.path().canonicalize().expect("a path");
        let work = root.join("a/work");
        std::fs::create_dir_all(work.join("inner")).expect("folders");
        std::fs::write(work.join("file"), "").expect("a file");
        for (target, link) in [("a", "to-a"), ("a/work", "to-work"), ("a/work/inner", "to-inner")] {
            std::os::unix::fs::symlink(root.join(target), root.join(link)).expect("a link");
        }
        let protected = Protected::default().and("the working directory", &work);
        let held = |path: &str| protected.held_by(&Real::new(), &root.join(path));
        for path in ["a/work", "a", "", "a/../a/work", "to-a", "to-a/work", "to-work", "a/work/inner/.."] {
            assert_eq!(held(path), Some("the working directory"), "{path}");
        }
        for path in ["a/work/inner", "a/work/file", "a/work/new", "a/other", "to-inner", "a/wor", "no/such"] {
            assert_eq!(held(path), None, "{path}");
        }
        assert_eq!(
            Protected::default().held_by(&Real::new(), Path::new("/")),
            Some("the root of the file system")
        );
        assert_eq!(
            Protected::default().held_by(&Real::new(), Path::new("/..")),
            Some("the root of the file system")
        );
        assert_eq!(protected.held_by(&Real::new(), Path::new("/")), Some("the working directory"));
    }

    #[test]
    fn a_place_that_is_gone_is_protected_by_its_name() {
        let gone = Protected::default().and("the project's root", "/no/such/place");
        assert_eq!(gone.held_by(&Real::new(), Path::new("/no/such")), Some("the project's root"));
        assert_eq!(gone.held_by(&Real::new(), Path::new("/no/such/place/below")), None);
    }
}
