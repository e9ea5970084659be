//! Confines the files that the runtime derives for a program (`.harn`, the directories of `HARN_*` variables): no link
//! may lead out of their root directory.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use crate::links::without_links;
use crate::permit::Refusal;

/// The confined paths of a system, each with the root that links must not leave.
#[derive(Default)]
pub(crate) struct Confined(RefCell<Vec<(PathBuf, PathBuf)>>);

impl Confined {
    /// Confines a path to a root: a directory and its content, or a file and the files whose names begin with its name
    /// (such as its lock).
    pub(crate) fn add(&self, place: &Path, root: &Path) {
        let entry = (place.to_owned(), root.to_owned());
        let mut places = self.0.borrow_mut();
        if !places.contains(&entry) {
            places.push(entry);
        }
    }

    /// Checks a path before it is used.
    ///
    /// # Errors
    /// The path is confined, and a link leads out of its root.
    pub(crate) fn check(
        &self,
        path: &Path,
        canonical: &dyn Fn(&Path) -> io::Result<PathBuf>,
        is_there: &dyn Fn(&Path) -> bool,
    ) -> io::Result<()> {
        for (place, root) in &*self.0.borrow() {
            let bytes = path.as_os_str().as_encoded_bytes();
            let within = bytes.starts_with(place.as_os_str().as_encoded_bytes());
            // Missing parent directories of the path are created, so they are checked too.
            let above = place.starts_with(path) && path.starts_with(root) && path != root;
            if !within && !above {
                continue;
            }
            // The root may not exist yet.
            let real_root = without_links(root, true, canonical, is_there).unwrap_or_else(|| root.clone());
            let real = without_links(path, true, canonical, is_there);
            if !real.is_some_and(|real| real.starts_with(&real_root)) {
                let (path, root) = (path.to_owned(), root.clone());
                return Err(Refusal::Link { path, root }.error());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Memory, System};
    use std::path::Path;

    /// Links at every component of a derived path, to existing and to missing targets.
    #[test]
    fn links_lead_out_of_no_derived_place() {
        let file = Path::new("/project/.harn/sub/store.json");
        for (target, link) in [
            ("/home/user", "/project/.harn"),
            ("/nowhere", "/project/.harn"),
            ("../home/user", "/project/.harn"),
            ("/home/user", "/project/.harn/sub"),
            ("/nowhere", "/project/.harn/sub"),
            ("/home/user/mine", "/project/.harn/sub/store.json"),
            ("/home/user/new", "/project/.harn/sub/store.json"),
            ("/home/user/mine", "/project/.harn/sub/store.json.lock"),
        ] {
            let mut memory = Memory::new().with_file("/home/user/mine", "mine");
            for folder in [".harn", ".harn/sub"] {
                let folder = format!("/project/{folder}");
                if link.starts_with(&format!("{folder}/")) {
                    memory.make_dirs(Path::new(&folder)).expect("a directory");
                }
            }
            memory = memory.with_link(target, link);
            memory.confine(file, Path::new("/project"));
            let text = |error: std::io::Error| error.to_string();
            let lock = Path::new("/project/.harn/sub/store.json.lock");
            let used = if link.ends_with("lock") { lock } else { file };
            let told = format!("{target} at {link}");
            assert!(
                memory.read(used, 9).map_err(text).is_err_and(|e| e.contains("through a link")),
                "{told}"
            );
            assert!(memory.replace(used, b"x").map_err(text).is_err_and(|e| e.contains("link")), "{told}");
            assert!(memory.append(used, b"x").is_err() && memory.remove(used).is_err(), "{told}");
            assert!(memory.try_lock(used).is_err() && memory.draft(used).is_err(), "{told}");
            assert!(memory.copy(used, Path::new("/project/c")).is_err(), "{told}");
            if !link.contains("store.json") {
                assert!(memory.make_dirs(Path::new("/project/.harn/sub")).is_err(), "{told}");
            }
            assert_eq!(memory.read(Path::new("/home/user/mine"), 9).expect("as it was"), b"mine", "{told}");
            assert!(memory.facts(Path::new("/nowhere")).is_err(), "{told}");
            assert_eq!(memory.names(Path::new("/home/user")).expect("names").len(), 1, "{told}");
        }
    }

    #[test]
    fn links_within_the_root_and_other_files_are_as_they_were() {
        let memory = Memory::new()
            .with_file("/project/data/store.json", "{}")
            .with_file("/home/user/mine", "mine")
            .with_link("data", "/project/.harn")
            .with_link("/home/user/mine", "/project/mine");
        memory.confine(Path::new("/project/.harn/store.json"), Path::new("/project"));
        assert_eq!(memory.read(Path::new("/project/.harn/store.json"), 9).expect("inside"), b"{}");
        memory.replace(Path::new("/project/.harn/store.json"), b"[]").expect("inside");
        assert_eq!(memory.read(Path::new("/project/mine"), 9).expect("not the runtime's"), b"mine");
    }
}
