//! The files of a program, each read and parsed once.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use harn_syntax::ast::Program;
use harn_syntax::{SourceFile, SyntaxError};
use rustc_hash::FxHashMap;

use crate::error::ImportError;
use crate::files::Files;
use crate::imports::{StdModules, Target, resolve};

/// An imported file.
#[derive(Debug)]
pub struct Unit {
    /// Its import target.
    pub target: Target,
    /// Its source, with the name shown in messages.
    pub file: Arc<SourceFile>,
    /// Its tree; a partial tree if there are syntax errors.
    pub tree: Rc<Program>,
    /// Its syntax errors.
    pub errors: Vec<SyntaxError>,
    /// The directory that its imports and templates are relative to.
    pub dir: PathBuf,
}

/// A cache of loaded files; failures are cached too.
pub struct Sources<'a> {
    files: &'a dyn Files,
    std: StdModules,
    read: RefCell<FxHashMap<PathBuf, Result<Rc<Unit>, String>>>,
}

impl<'a> Sources<'a> {
    /// Creates an empty cache.
    pub fn new(files: &'a dyn Files, std: StdModules) -> Sources<'a> {
        Sources { files, std, read: RefCell::default() }
    }

    /// Returns the file system that sources are read from.
    #[must_use]
    pub fn files(&self) -> &'a dyn Files {
        self.files
    }

    /// Resolves `import "path"` in a file of the directory `dir`.
    ///
    /// # Errors
    /// Returns an error if the import cannot be resolved; see [`ImportError`].
    pub fn resolve(&self, path: &str, dir: &Path) -> Result<Target, ImportError> {
        resolve(path, dir, self.files, self.std)
    }

    /// Loads the file of an import.
    ///
    /// # Errors
    /// Returns the message reported at run time if the file cannot be read. Syntax errors are part of the unit.
    pub fn load(&self, target: &Target) -> Result<Rc<Unit>, String> {
        let key = target.key(self.files);
        if let Some(known) = self.read.borrow().get(&key) {
            return known.clone();
        }
        let unit = self.text(target).map(|text| {
            let parsed = harn_syntax::parse(&text);
            Rc::new(Unit {
                file: Arc::new(SourceFile::new(target.name(), text)),
                tree: Rc::new(parsed.program),
                errors: parsed.errors,
                dir: target.dir(),
                target: target.clone(),
            })
        });
        self.read.borrow_mut().insert(key, unit.clone());
        unit
    }

    fn text(&self, target: &Target) -> Result<String, String> {
        match target {
            Target::Std(name) => {
                let unknown = || ImportError::UnknownStd { path: format!("std/{name}") }.to_string();
                (self.std)(name).map(str::to_owned).ok_or_else(unknown)
            }
            Target::File(path) => {
                let shown = path.display();
                let bytes = self
                    .files
                    .read(path)
                    .map_err(|error| format!("Import error: cannot read '{shown}': {error}"))?;
                String::from_utf8(bytes)
                    .map_err(|_| format!("Import error: '{shown}' is not valid UTF-8 text"))
            }
        }
    }
}
