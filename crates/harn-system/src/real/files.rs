//! Files on disk. Only regular files are opened, and the file type is checked before opening: opening a FIFO could
//! block forever, and a device may never end. Replacing is atomic, see [`Replacement`].

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::regular::{open_regular, regular};
use super::replace::{Replacement, unused_name_beside};
use crate::file::{Facts, Kind, MoveError};
use crate::os;

/// Returns the metadata that all systems provide.
pub(super) fn facts(path: &Path, through_links: bool) -> io::Result<Facts> {
    let (facts, identity) = os::look(path, through_links)?;
    let kind = match facts.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Dir,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    let modified = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Facts {
        kind,
        size: facts.len(),
        readonly: facts.permissions().readonly(),
        modified: modified.map_or(0.0, |time| time.as_secs_f64()),
        identity,
    })
}

/// Returns the metadata of a path, following links, for callers without a [`System`](crate::System).
///
/// # Errors
/// The error of the system.
pub fn look(path: &Path) -> io::Result<Facts> {
    facts(path, true)
}

/// Creates a directory and its missing parents. On failure it removes the directories that it has created: a name that
/// is too long is reported only after its parents exist.
///
/// # Errors
/// The error of the system.
pub(super) fn make_dirs(path: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    let mut made = Vec::new();
    while let Some(folder) = missing.pop().filter(|folder| !folder.as_os_str().is_empty()) {
        match std::fs::create_dir(folder) {
            Ok(()) => made.push(folder),
            Err(_) if folder.is_dir() => {}
            Err(error) => {
                for folder in made.into_iter().rev() {
                    let _ = std::fs::remove_dir(folder);
                }
                return Err(error);
            }
        }
    }
    // The path may exist as something other than a directory.
    std::fs::create_dir_all(path)
}

/// Opens a regular file for reading.
///
/// # Errors
/// The error of the system; `not a regular file` for FIFOs, sockets and devices.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&path.metadata()?)?;
    open_regular(OpenOptions::new().read(true), path)
}

/// Reads a regular file of at most `limit` bytes, or a pipe that this process has inherited (`/dev/stdin`,
/// `/dev/fd/N`).
///
/// # Errors
/// As [`open`]; `larger than N bytes`.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"));
    if let Some(bytes) = os::read_inherited(path, limit)? {
        return if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) };
    }
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Replaces the content of a file, or creates it. Its permissions are preserved.
///
/// # Errors
/// As [`Replacement::new`], and those of writing; the old content is unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if os::is_null_device(path) {
        return Ok(());
    }
    let mut new = Replacement::new(path)?;
    new.write_all(bytes)?;
    new.commit()
}

/// Appends bytes to a file with one write, or creates it.
///
/// # Errors
/// The error of the system; a partial write is undone, and a file that was created is removed.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if os::is_null_device(path) {
        return Ok(());
    }
    let is_new = matches!(path.metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let mut file = open_to_append(path)?;
    append_to(&mut file, bytes).inspect_err(|_| {
        // Unless another process has written to it since.
        if is_new
            && file.metadata().is_ok_and(|facts| facts.len() == 0)
            && let Ok(made) = path.canonicalize()
        {
            let _ = std::fs::remove_file(made);
        }
    })
}

/// Opens a regular file for appending, or creates it.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        facts => regular(&facts?)?,
    }
    open_regular(OpenOptions::new().append(true).create(true), path)
}

/// Appends bytes to a file that is open for appending. See [`append`].
///
/// # Errors
/// The error of the system.
pub(crate) fn append_to(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(n) => written += n,
            Err(error) => {
                // Only if no other process has appended since, because its bytes would be truncated.
                if file.metadata()?.len() == before + written as u64 {
                    let _ = file.set_len(before);
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Returns whether two paths refer to the same file, through symbolic or hard links.
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (os::look(a, true), os::look(b, true)) {
        (Ok((_, a)), Ok((_, b))) => a == b,
        _ => false,
    }
}

fn different(from: &Path, to: &Path) -> io::Result<()> {
    if same_file(from, to) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "source and target are the same file"));
    }
    Ok(())
}

/// Copies a regular file with its permissions, replacing the target.
///
/// # Errors
/// As [`open`] and [`replace`]; an error if both are the same file.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open(from)?;
    different(from, to)?;
    let mut new = Replacement::new(to)?;
    new.with_permissions(&source.metadata()?);
    io::copy(&mut source, new.file())?;
    new.commit()
}

/// Moves a file, directory or link, also to another file system. A file or an empty directory at the target is replaced
/// by one of the same type.
///
/// # Errors
/// See [`MoveError`].
pub fn rename(from: &Path, to: &Path) -> Result<(), MoveError> {
    let facts = from.symlink_metadata().map_err(MoveError::NotMoved)?;
    different(from, to).map_err(MoveError::NotMoved)?;
    match os::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done.map_err(MoveError::NotMoved),
    }
    move_across(from, &facts, to)
}

/// Moves by copying to a temporary name next to the target, so that the target is either complete or missing.
fn move_across(from: &Path, facts: &Metadata, to: &Path) -> Result<(), MoveError> {
    let new = unused_name_beside(to);
    let copied = copy_tree(from, facts, &new).and_then(|()| os::rename(&new, to));
    if let Err(error) = copied {
        let _ = remove(&new);
        return Err(MoveError::NotMoved(error));
    }
    remove(from).map_err(|error| {
        // The original is still complete, for example in a directory whose entries cannot be removed: undoes the move.
        if holds(from, to) && remove(to).is_ok() {
            return MoveError::NotMoved(error);
        }
        MoveError::NotRemoved(error)
    })
}

/// Returns whether one tree contains all entries of the other.
fn holds(tree: &Path, part: &Path) -> bool {
    let (Ok(facts), Ok(wanted)) = (tree.symlink_metadata(), part.symlink_metadata()) else { return false };
    if !wanted.is_dir() || !facts.is_dir() {
        return wanted.file_type() == facts.file_type();
    }
    let Ok(entries) = std::fs::read_dir(part) else { return false };
    entries
        .into_iter()
        .all(|entry| entry.is_ok_and(|entry| holds(&tree.join(entry.file_name()), &entry.path())))
}

/// Copies files, directories and links; other file types are an error.
fn copy_tree(from: &Path, facts: &Metadata, to: &Path) -> io::Result<()> {
    if facts.is_symlink() {
        return os::link(&std::fs::read_link(from)?, to, facts);
    }
    if !facts.is_dir() {
        return copy(from, to);
    }
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &entry.path().symlink_metadata()?, &to.join(entry.file_name()))?;
    }
    std::fs::set_permissions(to, facts.permissions())
}

/// Removes a file, a link (not its target), or a directory with its content.
///
/// # Errors
/// The error of the system.
pub fn remove(path: &Path) -> io::Result<()> {
    let facts = path.symlink_metadata()?;
    if facts.is_dir() { std::fs::remove_dir_all(path) } else { os::remove(path, &facts) }
}

/// Returns the names in a directory, sorted.
///
/// # Errors
/// The error of the system.
pub fn names(path: &Path) -> io::Result<Vec<PathBuf>> {
    let names = std::fs::read_dir(path)?.map(|entry| Ok(PathBuf::from(entry?.file_name())));
    let mut names: Vec<PathBuf> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// Creates a directory with the file `a` ("old"), links to it, a directory and a FIFO.
    fn tree() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("a"), "old").expect("a file");
        symlink("a", at("link")).expect("a link");
        symlink("nothing", at("dangling")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        std::fs::hard_link(at("a"), at("hard")).expect("a link");
        std::fs::create_dir(at("folder")).expect("a folder");
        std::fs::write(at("folder/inner"), "inner").expect("a file");
        let fifo = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, fifo, 0)
            .expect("a FIFO");
        scratch
    }

    fn content(path: &Path) -> String {
        String::from_utf8(read(path, 1000).expect("readable")).expect("text")
    }

    fn leftovers(folder: &Path) -> Vec<PathBuf> {
        let names = names(folder).expect("a folder");
        names.into_iter().filter(|name| name.to_string_lossy().starts_with(".harn-")).collect()
    }

    #[test]
    fn only_regular_files_are_opened() {
        let tree = tree();
        for (name, reason) in [
            ("fifo", "not a regular file"),
            ("folder", "Is a directory (os error 21)"),
            ("no", "No such file"),
        ] {
            let path = tree.path().join(name);
            assert!(read(&path, 10).expect_err(name).to_string().starts_with(reason), "{name}");
        }
        for name in ["fifo", "folder"] {
            let path = tree.path().join(name);
            assert!(replace(&path, b"x").is_err() && append(&path, b"x").is_err(), "{name}");
            assert!(copy(&path, &tree.path().join("new")).is_err(), "{name}");
            assert!(copy(&tree.path().join("a"), &path).is_err(), "{name}");
        }
        assert!(read(Path::new("/dev/zero"), 10).is_err());
        assert_eq!(leftovers(tree.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn folders_are_made_all_or_none() {
        let tree = tree();
        let at = |name: &str| tree.path().join(name);
        for path in [at("new/other").join("x".repeat(300)), at("a/inner"), at("link"), at("new/../a/inner")] {
            make_dirs(&path).expect_err("no folder");
            assert!(!at("new").exists() && at("a").is_file(), "{}", path.display());
        }
        make_dirs(&at("folder").join("x".repeat(300))).expect_err("too long");
        for path in ["folder", "folder/one/two", "folder/one/../three/"] {
            make_dirs(&at(path)).expect(path);
            assert!(at(path).is_dir(), "{path}");
        }
    }

    #[test]
    fn reading_has_a_limit() {
        let tree = tree();
        assert_eq!(read(&tree.path().join("a"), 3).expect("three bytes"), b"old");
        assert_eq!(
            read(&tree.path().join("a"), 2).expect_err("too large").to_string(),
            "larger than 2 bytes"
        );
    }

    #[test]
    fn replacing_keeps_permissions_and_goes_through_links() {
        let tree = tree();
        let at = |name: &str| tree.path().join(name);
        std::fs::set_permissions(at("a"), std::fs::Permissions::from_mode(0o640)).expect("a mode");
        replace(&at("link"), b"new").expect("written");
        assert_eq!(content(&at("a")), "new");
        assert!(at("link").symlink_metadata().expect("a link").is_symlink());
        assert_eq!(at("a").metadata().expect("facts").mode() & 0o7777, 0o640);
        assert_eq!(content(&at("hard")), "old", "the other name keeps the old file");
        replace(&at("dangling"), b"made").expect("written");
        assert_eq!(content(&at("nothing")), "made");
        assert!(replace(&at("loop"), b"x").is_err());
        assert!(replace(&at("no/such"), b"x").is_err());
        assert_eq!(leftovers(tree.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_not_committed_changes_nothing() {
        let tree = tree();
        let a = tree.path().join("a");
        let mut new = Replacement::new(&a).expect("begun");
        new.write_all(b"half").expect("written");
        drop(new);
        assert_eq!(content(&a), "old");
        assert_eq!(leftovers(tree.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn one_file_is_never_source_and_target() {
        let tree = tree();
        let at = |name: &str| tree.path().join(name);
        for (from, to) in
            [("a", "a"), ("a", "link"), ("link", "a"), ("a", "hard"), ("hard", "a"), ("a", "folder/../a")]
        {
            assert_eq!(
                copy(&at(from), &at(to)).expect_err("one file").to_string(),
                "source and target are the same file"
            );
            assert!(matches!(rename(&at(from), &at(to)), Err(MoveError::NotMoved(_))), "{from} {to}");
            assert_eq!(content(&at("a")), "old");
        }
        copy(&at("link"), &at("b")).expect("copied");
        assert_eq!(content(&at("b")), "old");
    }

    #[test]
    fn moves_across_file_systems_are_whole() {
        let tree = tree();
        let at = |name: &str| tree.path().join(name);
        symlink("inner", at("folder/sub")).expect("a link");
        let facts = at("folder").symlink_metadata().expect("facts");
        move_across(&at("folder"), &facts, &at("moved")).expect("moved");
        assert!(!at("folder").exists());
        assert_eq!(content(&at("moved/inner")), "inner");
        assert!(at("moved/sub").symlink_metadata().expect("a link").is_symlink());
        let facts = at("link").symlink_metadata().expect("facts");
        move_across(&at("link"), &facts, &at("link2")).expect("moved");
        assert!(at("link2").symlink_metadata().expect("a link").is_symlink());
        assert_eq!(content(&at("a")), "old");
        // A FIFO cannot be copied: nothing changes.
        std::fs::rename(at("fifo"), at("moved/fifo")).expect("moved");
        let facts = at("moved").symlink_metadata().expect("facts");
        assert!(matches!(move_across(&at("moved"), &facts, &at("again")), Err(MoveError::NotMoved(_))));
        assert!(at("moved/inner").exists() && !at("again").exists());
        assert_eq!(leftovers(tree.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn removing_a_link_leaves_what_it_leads_to() {
        let tree = tree();
        let at = |name: &str| tree.path().join(name);
        symlink("folder", at("to-folder")).expect("a link");
        remove(&at("to-folder")).expect("removed");
        assert_eq!(content(&at("folder/inner")), "inner");
        remove(&at("folder")).expect("removed");
        assert!(!at("folder").exists());
        assert!(remove(&at("folder")).is_err());
    }
}
