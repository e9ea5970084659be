//! An in-memory file system: files, directories and symbolic links.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::file::{Facts, Kind};
use crate::os::{codes, error};

/// Maximum number of links in a chain, as on Linux.
const MOST_LINKS: usize = 40;

#[derive(Debug, Clone)]
enum Node {
    File { bytes: Vec<u8>, readonly: bool },
    Dir(BTreeMap<OsString, u64>),
    Link(PathBuf),
}

#[derive(Debug, Clone)]
struct Entry {
    node: Node,
    modified: f64,
}

/// The tree. Entries are addressed by number, like inodes.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Free space in bytes; larger writes fail as on a full disk.
    pub(super) room: u64,
    /// The modification time of further changes, in seconds since 1970.
    pub(super) now: f64,
}

const ROOT: u64 = 1;

impl Default for Tree {
    fn default() -> Tree {
        let root = Entry { node: Node::Dir(BTreeMap::new()), modified: 0.0 };
        Tree { entries: BTreeMap::from([(ROOT, root)]), next: ROOT + 1, room: u64::MAX, now: 0.0 }
    }
}

/// A resolved path: the parent directory, the name in it, and the entry if it exists.
struct Place {
    parent: u64,
    name: OsString,
    found: Option<u64>,
    /// The path without links, `.` and `..`.
    path: PathBuf,
}

impl Tree {
    fn dir(&self, number: u64) -> io::Result<&BTreeMap<OsString, u64>> {
        match &self.entries[&number].node {
            Node::Dir(names) => Ok(names),
            _ => Err(error(codes::NOTDIR)),
        }
    }

    /// Resolves an absolute path; `last` says whether a link in its last component is followed.
    fn place(&self, path: &Path, last: bool) -> io::Result<Place> {
        self.walk(path, last, MOST_LINKS)
    }

    fn walk(&self, path: &Path, last: bool, links: usize) -> io::Result<Place> {
        let root =
            || Place { parent: ROOT, name: OsString::new(), found: Some(ROOT), path: PathBuf::from("/") };
        let mut at = root();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let name = match part {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
                Component::ParentDir => {
                    // As on a real system, `..` after a missing directory is an error.
                    self.dir(at.found.ok_or_else(|| error(codes::NOENT))?)?;
                    let above = at.path.parent().map(Path::to_owned).unwrap_or_default();
                    at = if above.as_os_str().is_empty() { root() } else { self.walk(&above, true, links)? };
                    continue;
                }
                Component::Normal(name) => name,
            };
            let here = at.found.ok_or_else(|| error(codes::NOENT))?;
            let found = self.dir(here)?.get(name).copied();
            let target = found.and_then(|number| match &self.entries[&number].node {
                Node::Link(target) if last || parts.peek().is_some() => Some(at.path.join(target)),
                _ => None,
            });
            at = match target {
                Some(target) => {
                    let links = links.checked_sub(1).ok_or_else(|| error(codes::LOOP))?;
                    self.walk(&target, true, links)?
                }
                None => Place { parent: here, name: name.to_owned(), found, path: at.path.join(name) },
            };
        }
        Ok(at)
    }

    fn existing(&self, path: &Path, follow: bool) -> io::Result<u64> {
        self.place(path, follow)?.found.ok_or_else(|| error(codes::NOENT))
    }

    pub(super) fn facts(&self, path: &Path, follow: bool) -> io::Result<Facts> {
        let number = self.existing(path, follow)?;
        let entry = &self.entries[&number];
        let (kind, size, readonly) = match &entry.node {
            Node::File { bytes, readonly } => (Kind::File, bytes.len() as u64, *readonly),
            Node::Dir(_) => (Kind::Dir, 4096, false),
            Node::Link(target) => (Kind::Link, target.as_os_str().len() as u64, false),
        };
        Ok(Facts { kind, size, readonly, modified: entry.modified, identity: (0, number) })
    }

    pub(super) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.place(path, true)?;
        if place.found.is_some() { Ok(place.path) } else { Err(error(codes::NOENT)) }
    }

    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.dir(self.existing(path, true)?)?.keys().map(PathBuf::from).collect())
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<&[u8]> {
        match &self.entries[&self.existing(path, true)?].node {
            Node::File { bytes, .. } => Ok(bytes),
            _ => Err(error(codes::ISDIR)),
        }
    }

    fn add(&mut self, parent: u64, name: OsString, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, Entry { node, modified: self.now });
        self.link(parent, name, number);
        number
    }

    fn link(&mut self, parent: u64, name: OsString, number: u64) {
        let now = self.now;
        if let Some(Entry { node: Node::Dir(names), modified }) = self.entries.get_mut(&parent) {
            names.insert(name, number);
            *modified = now;
        }
    }

    fn unlink(&mut self, place: &Place) {
        if let Some(Entry { node: Node::Dir(names), .. }) = self.entries.get_mut(&place.parent) {
            names.remove(&place.name);
        }
    }

    /// Checks that a path can be written; writes nothing.
    pub(super) fn writable(&self, path: &Path) -> io::Result<()> {
        let place = self.place(path, true)?;
        match place.found.map(|number| &self.entries[&number].node) {
            Some(Node::File { readonly: true, .. }) => Err(error(codes::ACCESS)),
            Some(Node::File { .. }) => Ok(()),
            Some(_) => Err(error(codes::ISDIR)),
            None => Ok(()),
        }
    }

    /// Replaces the content of a file, or appends to it.
    pub(super) fn write(&mut self, path: &Path, bytes: &[u8], append: bool) -> io::Result<()> {
        self.writable(path)?;
        let place = self.place(path, true)?;
        let (old, readonly) = match place.found.map(|number| &self.entries[&number].node) {
            Some(Node::File { bytes, readonly }) => (bytes.len() as u64, *readonly),
            _ => (0, false),
        };
        let freed = if append { 0 } else { old };
        self.room = (self.room.saturating_add(freed))
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| error(codes::NOSPC))?;
        let now = self.now;
        match place.found.and_then(|number| self.entries.get_mut(&number)) {
            Some(Entry { node: Node::File { bytes: content, .. }, modified }) => {
                if !append {
                    content.clear();
                }
                content.extend_from_slice(bytes);
                *modified = now;
            }
            _ => drop(self.add(place.parent, place.name, Node::File { bytes: bytes.to_vec(), readonly })),
        }
        Ok(())
    }

    pub(super) fn make_dirs(&mut self, path: &Path) -> io::Result<()> {
        let mut made = Vec::new();
        let result = self.make_missing(path, &mut made);
        if result.is_err() {
            // A failed operation leaves no directories.
            made.iter().rev().for_each(|place| self.unlink(place));
            self.collect();
        }
        result
    }

    fn make_missing(&mut self, path: &Path, made: &mut Vec<Place>) -> io::Result<()> {
        let mut at = PathBuf::new();
        for part in path.components() {
            at.push(part);
            let place = self.place(&at, true)?;
            match place.found {
                Some(number) => drop(self.dir(number).map_err(|_| error(codes::EXIST))?),
                None => {
                    self.add(place.parent, place.name.clone(), Node::Dir(BTreeMap::new()));
                    made.push(place);
                }
            }
        }
        Ok(())
    }

    pub(super) fn symlink(&mut self, target: &Path, path: &Path) -> io::Result<()> {
        let place = self.place(path, false)?;
        if place.found.is_some() {
            return Err(error(codes::EXIST));
        }
        self.add(place.parent, place.name, Node::Link(target.to_owned()));
        Ok(())
    }

    pub(super) fn set_readonly(&mut self, path: &Path) -> io::Result<()> {
        let number = self.existing(path, true)?;
        if let Some(Entry { node: Node::File { readonly, .. }, .. }) = self.entries.get_mut(&number) {
            *readonly = true;
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.place(from, false)?;
        let number = source.found.ok_or_else(|| error(codes::NOENT))?;
        let target = self.place(to, false)?;
        let is_dir = matches!(self.entries[&number].node, Node::Dir(_));
        if is_dir && target.path.starts_with(&source.path) {
            return Err(error(codes::INVAL));
        }
        match target.found.map(|number| &self.entries[&number].node) {
            Some(Node::Dir(names)) if is_dir && !names.is_empty() => {
                return Err(error(codes::NOTEMPTY));
            }
            Some(Node::Dir(_)) if !is_dir => return Err(error(codes::ISDIR)),
            Some(Node::File { .. } | Node::Link(_)) if is_dir => return Err(error(codes::NOTDIR)),
            _ => {}
        }
        self.unlink(&source);
        self.link(target.parent, target.name, number);
        self.collect();
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path, false)?;
        if place.found.ok_or_else(|| error(codes::NOENT))? == ROOT {
            return Err(error(codes::BUSY));
        }
        self.unlink(&place);
        self.collect();
        Ok(())
    }

    /// Removes the entries that are no longer reachable.
    fn collect(&mut self) {
        let mut open = vec![ROOT];
        let mut kept = std::collections::BTreeSet::new();
        while let Some(number) = open.pop() {
            if kept.insert(number)
                && let Node::Dir(names) = &self.entries[&number].node
            {
                open.extend(names.values());
            }
        }
        let mut freed = 0u64;
        self.entries.retain(|number, entry| {
            let keep = kept.contains(number);
            if let (false, Node::File { bytes, .. }) = (keep, &entry.node) {
                freed += bytes.len() as u64;
            }
            keep
        });
        self.room = self.room.saturating_add(freed);
    }
}
