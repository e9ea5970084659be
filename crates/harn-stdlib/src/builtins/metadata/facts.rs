//! The facts of directories: the files of the state directory, overlaid with unsaved changes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;

use harn_value::{Dict, Str, Value};
use harn_vm::builtin::{ArgName, FromArg};
use harn_vm::{Cx, Error, Result};
use rustc_hash::FxHashMap;

use super::super::env::state_file;
use super::super::json_file::JsonFile;
use crate::places::{resolve, show};

/// Maximum length of a namespace in bytes, as for directory names.
const MAX_NAME: usize = 255;

/// A namespace: a valid directory name.
pub(super) struct Namespace(Str);

impl FromArg for Namespace {
    const TYPE: &'static str = "string";
    fn from_arg(value: Value, what: &ArgName) -> Result<Namespace> {
        let name = Str::from_arg(value, what)?;
        let strange = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
        if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') || name.contains(strange) {
            let start: String = name.chars().take(40).collect();
            return Err(Error::runtime(format!(
                "{}: namespace names a folder, and {start:?} is no plain name: use letters, digits, `-` and `_`",
                what.builtin
            )));
        }
        Ok(Namespace(name))
    }
}

impl Deref for Namespace {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// Returns the key of a directory: its path relative to the working directory, `""` for the working directory, an
/// absolute path outside of it.
pub(super) fn directory(cx: &Cx, dir: &str) -> String {
    let path = resolve(cx, dir);
    show(path.strip_prefix(resolve(cx, ".")).unwrap_or(&path))
}

/// Returns the key of a directory in the form for programs.
pub(super) fn shown(dir: &str) -> &str {
    if dir.is_empty() { "." } else { dir }
}

/// Returns the directories from which a directory inherits, from the outermost to itself.
fn upwards(dir: &str) -> impl Iterator<Item = &str> {
    let above = dir.match_indices('/').map(|(at, _)| &dir[..at.max(1)]);
    std::iter::once("").chain(above).chain(Some(dir).filter(|dir| !dir.is_empty()))
}

/// Unsaved facts, by namespace and directory. Every known namespace has an entry, which may be empty.
type Unsaved = BTreeMap<String, BTreeMap<String, Dict>>;

/// Unsaved facts of a program, by the directory in which they will be saved.
#[derive(Default)]
struct Places(RefCell<FxHashMap<PathBuf, Unsaved>>);

/// See the module documentation.
pub(super) struct Facts<'a> {
    cx: &'a Cx,
    folder: PathBuf,
    places: Rc<Places>,
}

impl Facts<'_> {
    pub(super) fn of(cx: &Cx) -> Result<Facts<'_>> {
        let facts = Facts { cx, folder: state_file(cx, "metadata"), places: cx.state() };
        // The cached facts may have been read by a task with more permissions.
        cx.system().check_read(&facts.folder).map_err(|error| facts.failed(&error))?;
        let known = facts.places.0.borrow().contains_key(&facts.folder);
        if !known {
            let found = facts.on_disk()?;
            facts.places.0.borrow_mut().insert(facts.folder.clone(), found);
        }
        Ok(facts)
    }

    fn failed(&self, error: &io::Error) -> Error {
        let text = || Error::runtime(format!("metadata read error: {error}"));
        self.cx.refusal(error).unwrap_or_else(text)
    }

    /// Returns the saved namespaces. An unreadable directory is treated as empty, with a warning.
    fn on_disk(&self) -> Result<Unsaved> {
        let system = self.cx.system();
        let names = match system.names(&self.folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(self.failed(&error)),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let folder = self.folder.display();
                    system.write_err(&harn_vm::notice(&format!(
                        "warning: {folder} cannot be read ({error}) and counts as empty"
                    )));
                }
                Vec::new()
            }
        };
        let mut found = Unsaved::new();
        for name in names.iter().map(|name| show(name)) {
            match system.facts(&self.path(&name)) {
                Ok(facts) if facts.is_file() => drop(found.insert(name, BTreeMap::new())),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(self.failed(&error));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn path(&self, namespace: &str) -> PathBuf {
        self.folder.join(namespace).join("entries.json")
    }

    fn file(&self, namespace: &str) -> JsonFile {
        JsonFile::new(self.cx, self.path(namespace), "metadata")
    }

    /// Passes the unsaved facts of a namespace to `look`; returns `None` if the namespace is unknown.
    fn unsaved<R>(&self, namespace: &str, look: impl FnOnce(&BTreeMap<String, Dict>) -> R) -> Option<R> {
        self.places.0.borrow().get(&self.folder)?.get(namespace).map(look)
    }

    pub(super) fn namespaces(&self) -> Vec<String> {
        self.places
            .0
            .borrow()
            .get(&self.folder)
            .map_or_else(Vec::new, |place| place.keys().cloned().collect())
    }

    /// Returns the directories with their own facts, in one or in all namespaces.
    pub(super) fn stored(&self, namespace: Option<&str>) -> Result<BTreeSet<String>> {
        let all = namespace.map_or_else(|| self.namespaces(), |namespace| vec![namespace.to_owned()]);
        let mut found = BTreeSet::new();
        for namespace in all {
            let Some(unsaved) = self.unsaved(&namespace, |set| set.keys().cloned().collect::<Vec<_>>())
            else {
                continue;
            };
            let saved = self.file(&namespace).keys()?;
            let saved = saved.iter().filter_map(|key| key.as_str().map(|key| key.to_string()));
            for dir in saved.chain(unsaved) {
                if self.local(&namespace, &dir)?.is_some() {
                    found.insert(dir);
                }
            }
        }
        Ok(found)
    }

    /// Returns the facts of a directory without inherited ones.
    pub(super) fn local(&self, namespace: &str, dir: &str) -> Result<Option<Dict>> {
        let Some(set) = self.unsaved(namespace, |set| set.get(dir).cloned()) else { return Ok(None) };
        let mut facts = as_facts(self.file(namespace).read(dir)?.as_ref());
        facts.spread(&set.unwrap_or_default());
        Ok((!facts.is_empty()).then_some(facts))
    }

    /// Returns the facts of a directory with inherited ones.
    pub(super) fn resolved(&self, namespace: &str, dir: &str) -> Result<Option<Dict>> {
        merged(upwards(dir).map(|dir| self.local(namespace, dir)))
    }

    /// Returns the merged facts of a directory in all namespaces, with inherited ones.
    pub(super) fn mixed(&self, dir: &str) -> Result<Option<Dict>> {
        merged(self.namespaces().iter().map(|namespace| self.resolved(namespace, dir)))
    }

    /// Returns `{namespace: facts}` for the namespaces with facts.
    pub(super) fn by_namespace(&self, facts: impl Fn(&str) -> Result<Option<Dict>>) -> Result<Option<Dict>> {
        let mut all = Dict::new();
        for namespace in self.namespaces() {
            if let Some(facts) = facts(&namespace)? {
                all.insert(namespace, facts);
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// Adds facts in memory.
    pub(super) fn set(&self, namespace: &str, dir: &str, data: &Dict) {
        let mut places = self.places.0.borrow_mut();
        let place = places.entry(self.folder.clone()).or_default();
        let directories = place.entry(namespace.to_owned()).or_default();
        directories.entry(dir.to_owned()).or_default().spread(data);
    }

    /// Writes the unsaved facts.
    pub(super) async fn save(&self) -> Result<()> {
        for namespace in self.namespaces() {
            if self.unsaved(&namespace, BTreeMap::is_empty) != Some(false) {
                continue;
            }
            let file = self.file(&namespace);
            file.change(self.cx, |saved| self.add_to(saved, &namespace)).await?;
            // There is no await between adding the facts and writing the file, so no fact has been set in the meantime.
            if let Some(place) = self.places.0.borrow_mut().get_mut(&self.folder) {
                place.insert(namespace, BTreeMap::new());
            }
        }
        Ok(())
    }

    fn add_to(&self, saved: &mut Dict, namespace: &str) {
        self.unsaved(namespace, |set| {
            for (dir, data) in set {
                let mut facts = as_facts(saved.get_str(dir));
                facts.spread(data);
                saved.insert(dir.as_str(), facts);
            }
        });
    }
}

/// Returns the facts in a saved value; anything but an object has none.
fn as_facts(saved: Option<&Value>) -> Dict {
    saved.and_then(Value::as_dict).map(|facts| (**facts).clone()).unwrap_or_default()
}

/// Merges facts; later ones take precedence. Returns `None` without facts.
fn merged(facts: impl Iterator<Item = Result<Option<Dict>>>) -> Result<Option<Dict>> {
    let mut all: Option<Dict> = None;
    for facts in facts {
        match (&mut all, facts?) {
            (Some(all), Some(facts)) => all.spread(&facts),
            (None, facts) => all = facts,
            (Some(_), None) => {}
        }
    }
    Ok(all)
}
