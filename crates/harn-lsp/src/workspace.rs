//! Open documents of the editor, and files on disk. Open documents take precedence, also for imports.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_check::World;
use harn_front::{Target, Through};
use harn_system::{Facts, Kind, Layer, System, SystemExt};
use rustc_hash::FxHashMap;

use crate::document::{Document, uri_of};
use crate::host::Host;

/// Maximum size of a file.
const MAX_BYTES: u64 = 8 << 20;

/// Maximum number of files of a workspace.
const MAX_FILES: usize = 10_000;

/// Directories that are not searched.
const SKIPPED: [&str; 3] = ["node_modules", "target", "build"];

/// The files of the system, with the open documents in place of the saved files.
pub(crate) struct Overlay<'h> {
    inner: &'h dyn System,
    texts: RefCell<FxHashMap<PathBuf, Rc<Document>>>,
}

impl<'h> Overlay<'h> {
    /// Returns the same files, with changed content for some of them.
    pub(crate) fn with(&self, changed: &BTreeMap<PathBuf, String>) -> Overlay<'h> {
        let mut texts = self.texts.borrow().clone();
        for (path, text) in changed {
            if let Some(uri) = uri_of(path) {
                texts.insert(path.clone(), Rc::new(Document::new(path.clone(), uri, text.clone())));
            }
        }
        Overlay { inner: self.inner, texts: RefCell::new(texts) }
    }
}

impl Layer for Overlay<'_> {
    fn inner(&self) -> &dyn System {
        self.inner
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        match self.texts.borrow().get(path) {
            Some(document) => Ok(document.text.clone().into_bytes()),
            None => self.inner.read(path, limit),
        }
    }

    fn facts(&self, path: &Path) -> io::Result<Facts> {
        match self.texts.borrow().get(path) {
            Some(document) if self.inner.facts(path).is_err() => Ok(Facts {
                kind: Kind::File,
                size: document.text.len() as u64,
                readonly: false,
                modified: 0.0,
                identity: (0, 0),
            }),
            _ => self.inner.facts(path),
        }
    }
}

/// A file on disk, with its size and modification time.
type OnDisk = (u64, f64, Rc<Document>);

/// All documents.
pub(crate) struct Workspace<'h> {
    pub(crate) host: &'h dyn Host,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) overlay: Overlay<'h>,
    disk: RefCell<FxHashMap<PathBuf, OnDisk>>,
    builtins: OnceCell<Vec<String>>,
}

impl<'h> Workspace<'h> {
    pub(crate) fn new(host: &'h dyn Host, roots: Vec<PathBuf>) -> Workspace<'h> {
        let overlay = Overlay { inner: host.system(), texts: RefCell::default() };
        Workspace { host, roots, overlay, disk: RefCell::default(), builtins: OnceCell::new() }
    }

    pub(crate) fn world(&self) -> World<'_> {
        self.host.world(&self.overlay)
    }

    /// Returns the names of all builtins and globals.
    pub(crate) fn builtin_names(&self) -> &[String] {
        self.builtins.get_or_init(|| self.host.builtin_names())
    }

    pub(crate) fn open(&self, document: Document) {
        self.overlay.texts.borrow_mut().insert(document.path.clone(), Rc::new(document));
    }

    pub(crate) fn close(&self, path: &Path) {
        self.overlay.texts.borrow_mut().remove(path);
    }

    pub(crate) fn opened(&self, path: &Path) -> Option<Rc<Document>> {
        self.overlay.texts.borrow().get(path).cloned()
    }

    pub(crate) fn all_opened(&self) -> Vec<Rc<Document>> {
        let mut all: Vec<_> = self.overlay.texts.borrow().values().cloned().collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }

    /// Returns a document, from the editor or from disk.
    pub(crate) fn document(&self, path: &Path) -> Option<Rc<Document>> {
        if let Some(document) = self.opened(path) {
            return Some(document);
        }
        let facts = self.host.system().facts(path).ok().filter(|facts| facts.is_file())?;
        if let Some((size, modified, document)) = self.disk.borrow().get(path)
            && (*size, *modified) == (facts.size, facts.modified)
        {
            return Some(document.clone());
        }
        let text = self.host.system().read_text(path, MAX_BYTES).ok()?;
        let document = Rc::new(Document::new(path.to_owned(), uri_of(path)?, text));
        self.disk.borrow_mut().insert(path.to_owned(), (facts.size, facts.modified, document.clone()));
        Some(document)
    }

    /// Resolves an import of a document.
    pub(crate) fn target(&self, import: &str, dir: &Path) -> Option<Target> {
        harn_front::resolve(import, dir, &Through(&self.overlay), self.world().std_module).ok()
    }

    /// Returns the document of an import target. Embedded modules have no path that an editor could open.
    pub(crate) fn of_target(&self, target: &Target) -> Option<Rc<Document>> {
        match target {
            Target::File(path) => self.document(&self.tidy(path)),
            Target::Std(name) => {
                let key = PathBuf::from(format!("std:{name}.harn"));
                if let Some((_, _, document)) = self.disk.borrow().get(&key) {
                    return Some(document.clone());
                }
                let text = (self.world().std_module)(name)?;
                let uri = format!("harn-std:/{name}.harn").parse().ok()?;
                let document = Rc::new(Document::new(key.clone(), uri, text.to_owned()));
                self.disk.borrow_mut().insert(key, (0, 0.0, document.clone()));
                Some(document)
            }
        }
    }

    /// Returns a path without `..` and symbolic links, so that it is unique.
    fn tidy(&self, path: &Path) -> PathBuf {
        if self.opened(path).is_some() {
            return path.to_owned();
        }
        self.host.system().canonical(path).unwrap_or_else(|_| path.to_owned())
    }

    /// Returns the files in the roots that `wanted` accepts, and the open ones.
    pub(crate) fn files(&self, wanted: fn(&Path) -> bool) -> Vec<PathBuf> {
        let mut found: BTreeMap<PathBuf, ()> = BTreeMap::new();
        let mut waiting = self.roots.clone();
        let system = self.host.system();
        while let Some(folder) = waiting.pop() {
            for name in system.names(&folder).unwrap_or_default() {
                let shown = name.to_string_lossy();
                if shown.starts_with('.') || SKIPPED.contains(&&*shown) {
                    continue;
                }
                let path = folder.join(&name);
                // Symbolic links are skipped: their targets have their own paths.
                let Ok(facts) = system.link_facts(&path) else { continue };
                if facts.is_dir() {
                    waiting.push(path);
                } else if facts.is_file() && wanted(&path) && found.len() < MAX_FILES {
                    found.insert(path, ());
                }
            }
        }
        for document in self.all_opened().into_iter().filter(|document| wanted(&document.path)) {
            found.insert(document.path.clone(), ());
        }
        found.into_keys().collect()
    }

    /// Returns all programs of the workspace.
    pub(crate) fn programs(&self) -> impl Iterator<Item = Rc<Document>> {
        let is_program = |path: &Path| path.extension().is_some_and(|extension| extension == "harn");
        self.files(is_program).into_iter().filter_map(|path| self.document(&path))
    }
}
