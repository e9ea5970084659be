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

/// A file that was imported.
#[derive(Debug)]
pub struct Unit {
    /// Where it lies.
    pub target: Target,
    /// Its name as messages show it, and its text.
    pub file: Arc<SourceFile>,
    /// Its tree; with syntax errors, what could be made of it.
    pub tree: Rc<Program>,
    /// Its syntax errors.
    pub errors: Vec<SyntaxError>,
    /// The folder that its imports and templates start from.
    pub dir: PathBuf,
}

/// What was read so far; a file that cannot be read is tried once.
pub struct Sources<'a> {
    files: &'a dyn Files,
    std: StdModules,
    read: RefCell<FxHashMap<PathBuf, Result<Rc<Unit>, String>>>,
}

impl<'a> Sources<'a> {
    /// Nothing is read yet.
    pub fn new(files: &'a dyn Files, std: StdModules) -> Sources<'a> {
        Sources { files, std, read: RefCell::default() }
    }

    /// The files that are looked at.
    #[must_use]
    pub fn files(&self) -> &'a dyn Files {
        self.files
    }

    /// Finds what `import "path"` means in a file of the folder `dir`.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn resolve(&self, path: &str, dir: &Path) -> Result<Target, ImportError> {
        resolve(path, dir, self.files, self.std)
    }

    /// The file behind an import.
    ///
    /// # Errors
    /// That it cannot be read, as the run reports it. Syntax errors are a part of the unit.
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
