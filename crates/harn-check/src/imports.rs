//! The names that a program imports, and their meaning.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_front::{Names, Sources, Target, Unit};
use harn_syntax::ast::{Decl, DeclKind, Import, Name, Program, StmtKind};
use harn_syntax::visit::{self, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::world::{Source, World};

/// The files that a program imports, each read once.
pub(crate) fn sources<'a>(world: &'a World<'_>) -> Sources<'a> {
    Sources::new(&world.files, world.std_module)
}

/// The meaning of an imported name.
#[derive(Clone)]
pub(crate) struct Imported {
    /// The file that declares it, and the index of the declaration; `None` if that file does not.
    declared: Option<(Rc<Unit>, usize)>,
    /// A different declaration with the same name.
    rival: Option<(Rc<Unit>, usize)>,
}

impl Imported {
    /// Returns the file that declares it, and the index of the declaration.
    pub(crate) fn place(&self) -> Option<(&Rc<Unit>, usize)> {
        self.declared.as_ref().map(|(unit, item)| (unit, *item))
    }

    fn new(declared: Option<(Rc<Unit>, usize)>) -> Imported {
        Imported { declared, rival: None }
    }

    /// The declaration.
    pub(crate) fn decl(&self) -> Option<&Decl> {
        self.place().and_then(|(unit, item)| decl_at(unit, item))
    }
}

fn decl_at(unit: &Unit, item: usize) -> Option<&Decl> {
    match &unit.tree.items.get(item)?.kind {
        StmtKind::Decl(decl) => Some(decl),
        _ => None,
    }
}

/// Adds an imported name. The first meaning wins; the first different one is recorded.
fn add(found: &mut FxHashMap<Name, Imported>, name: &Name, new: Imported) {
    let Some(known) = found.get_mut(name) else {
        found.insert(name.clone(), new);
        return;
    };
    let same = |a: &(Rc<Unit>, usize), b: &(Rc<Unit>, usize)| Rc::ptr_eq(&a.0, &b.0) && a.1 == b.1;
    if let (Some(own), None) = (&known.declared, &known.rival) {
        known.rival = [new.declared, new.rival].into_iter().flatten().find(|other| !same(own, other));
    }
}

/// The imports of one file, read on demand.
#[derive(Default)]
pub(crate) struct Imports {
    names: OnceCell<Option<FxHashMap<Name, Imported>>>,
    /// The imports of other files, by file name.
    of_others: RefCell<FxHashMap<String, Rc<FxHashMap<Name, Imported>>>>,
}

impl Imports {
    /// Returns all imported names of the file; `None` if one import cannot be resolved.
    pub(crate) fn get(&self, source: &Source<'_>, world: &World<'_>) -> Option<&FxHashMap<Name, Imported>> {
        self.names.get_or_init(|| names(source, world)).as_ref()
    }

    /// Returns the file that declares a type that another file mentions, and the index of the declaration.
    pub(crate) fn type_in(
        &self,
        world: &World<'_>,
        unit: &Rc<Unit>,
        name: &str,
    ) -> Option<(Rc<Unit>, usize)> {
        let is_it = |kind: &StmtKind| {
            use DeclKind::{Enum, Interface, Struct, Type};
            matches!(kind, StmtKind::Decl(decl) if decl.kind.name().name == name
                && matches!(decl.kind, Struct(_) | Enum(_) | Type(_) | Interface(_)))
        };
        if let Some(at) = unit.tree.items.iter().position(|item| is_it(&item.kind)) {
            return Some((unit.clone(), at));
        }
        let known = self.of_others.borrow().get(unit.file.name()).cloned();
        let imported = known.unwrap_or_else(|| {
            let found = Rc::new(names_of(&sources(world), &unit.tree, &unit.dir));
            self.of_others.borrow_mut().insert(unit.file.name().to_owned(), found.clone());
            found
        });
        imported.get(name)?.declared.clone()
    }
}

fn names(source: &Source<'_>, world: &World<'_>) -> Option<FxHashMap<Name, Imported>> {
    let sources = sources(world);
    let mut found = FxHashMap::default();
    for import in source.tree.imports() {
        brought(&sources, import, source.dir, &mut Vec::new(), &mut found)?;
    }
    Some(found)
}

/// Returns whether the file or one of its imports defines a method of a type; also true if one of them cannot be
/// read.
pub(crate) fn gives_method(source: &Source<'_>, world: &World<'_>, owner: &str, method: &str) -> bool {
    struct Gives<'n>(&'n str, &'n str, bool);
    impl<'a> Visitor<'a> for Gives<'_> {
        fn decl(&mut self, decl: &'a Decl) {
            if let DeclKind::Impl(found) = &decl.kind
                && found.name.name == self.0
            {
                self.2 |= found.methods.iter().any(|known| known.decl.name.name == self.1);
            }
            visit::walk_decl(self, decl);
        }
    }
    let gives = |tree: &Program| {
        let mut gives = Gives(owner, method, false);
        gives.stmts(&tree.items);
        gives.2
    };
    let sources = sources(world);
    let targets = |tree: &Program, dir: &Path| -> Option<Vec<Target>> {
        tree.imports().map(|import| sources.resolve(&import.path, dir).ok()).collect()
    };
    let Some(mut waiting) = targets(source.tree, source.dir) else { return true };
    let mut seen = FxHashSet::default();
    let mut found = gives(source.tree);
    while let Some(target) = waiting.pop().filter(|_| !found) {
        if !seen.insert(target.key(sources.files())) {
            continue;
        }
        let Some(unit) = sources.load(&target).ok().filter(|unit| unit.errors.is_empty()) else {
            return true;
        };
        let Some(more) = targets(&unit.tree, &unit.dir) else { return true };
        waiting.extend(more);
        found = gives(&unit.tree);
    }
    found
}

/// Returns the names of the imports of a file that can be resolved.
pub(crate) fn names_of(sources: &Sources<'_>, tree: &Program, dir: &Path) -> FxHashMap<Name, Imported> {
    let mut found = FxHashMap::default();
    for import in tree.imports() {
        // An unresolved import is a separate finding.
        let _ = brought(sources, import, dir, &mut Vec::new(), &mut found);
    }
    found
}

/// Returns the names that a file exports, including re-exports; `None` if they are unknown.
fn exports(
    sources: &Sources<'_>,
    target: &Target,
    visiting: &mut Vec<PathBuf>,
    found: &mut FxHashMap<Name, Imported>,
) -> Option<()> {
    let key = target.key(sources.files());
    if visiting.contains(&key) {
        return Some(());
    }
    let unit = sources.load(target).ok().filter(|unit| unit.errors.is_empty())?;
    visiting.push(key);
    for import in unit.tree.imports().filter(|import| import.is_pub) {
        brought(sources, import, &unit.dir, visiting, found)?;
    }
    visiting.pop();
    for decl in harn_front::exports(&unit.tree) {
        add(found, &decl.kind.name().name, Imported::new(place(&unit, decl)));
    }
    Some(())
}

/// Returns the position of a declaration in its file.
fn place(unit: &Rc<Unit>, wanted: &Decl) -> Option<(Rc<Unit>, usize)> {
    let is_it = |kind: &StmtKind| matches!(kind, StmtKind::Decl(decl) if std::ptr::eq(&**decl, wanted));
    let item = unit.tree.items.iter().position(|item| is_it(&item.kind))?;
    Some((unit.clone(), item))
}

/// Adds the names of an import.
fn brought(
    sources: &Sources<'_>,
    import: &Import,
    dir: &Path,
    visiting: &mut Vec<PathBuf>,
    found: &mut FxHashMap<Name, Imported>,
) -> Option<()> {
    let target = sources.resolve(&import.path, dir).ok()?;
    let Some(listed) = &import.names else { return exports(sources, &target, visiting, found) };
    // A selective import lists its names even if the file cannot be read.
    let unit = sources.load(&target).ok().filter(|unit| unit.errors.is_empty());
    let mut passed_on = FxHashMap::default();
    for name in listed {
        let own = unit.as_ref().and_then(|unit| {
            let decl = harn_front::selectable(&unit.tree).find(|decl| decl.kind.name().name == name.name)?;
            place(unit, decl)
        });
        if own.is_none() && passed_on.is_empty() {
            // An unresolved import is a separate error.
            let _ = exports(sources, &target, visiting, &mut passed_on);
        }
        let imported = match own {
            Some(own) => Imported::new(Some(own)),
            None => passed_on.get(&name.name).cloned().unwrap_or(Imported::new(None)),
        };
        add(found, &name.name, imported);
    }
    Some(())
}

/// Returns the names that an import of a file may list: all its declarations and re-exports. `None` if they are
/// unknown.
pub(crate) fn listable(sources: &Sources<'_>, target: &Target) -> Option<FxHashSet<String>> {
    let unit = sources.load(target).ok().filter(|unit| unit.errors.is_empty())?;
    let own = harn_front::selectable(&unit.tree).map(|decl| decl.kind.name().name.to_string());
    let mut passed_on = FxHashMap::default();
    exports(sources, target, &mut Vec::new(), &mut passed_on)?;
    Some(own.chain(passed_on.into_keys().map(String::from)).collect())
}

/// An imported name that collides with another one: the run fails there.
pub(crate) struct Collision<'a> {
    pub(crate) import: &'a Import,
    pub(crate) name: Name,
    /// The file, and which of its items declares it; `None` for the importing file.
    pub(crate) first: Option<(Rc<Unit>, usize)>,
    /// The declaration that the import provides.
    pub(crate) second: (Rc<Unit>, usize),
    /// One of them is re-exported.
    pub(crate) passed_on: bool,
}

/// Returns the names that a file gets from several files, each once. All types of a file are exported, listed or not,
/// so a collision of types counts only if the name is mentioned or re-exported. The names of pipelines are not
/// visible to other files.
pub(crate) fn collisions<'a>(sources: &Sources<'_>, tree: &'a Program, dir: &Path) -> Vec<Collision<'a>> {
    use DeclKind::{Interface, Pipeline, Type};
    let names = OnceCell::new();
    let mentions = |name: &str| names.get_or_init(|| Names::of(tree, u32::MAX)).mentions_imported(name);
    let own = own_names(tree);
    let mut found = FxHashMap::default();
    let mut seen = FxHashSet::default();
    let mut collisions = Vec::new();
    let mut passed_on = false;
    for import in tree.imports() {
        passed_on |= import.is_pub;
        let mut brings = FxHashMap::default();
        // An unresolved import is a separate finding.
        let _ = brought(sources, import, dir, &mut Vec::new(), &mut brings);
        let mut brings: Vec<(Name, Imported)> = brings.into_iter().collect();
        brings.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, new) in brings {
            let Some(second) = new.declared.clone() else { continue };
            let Some(decl) = decl_at(&second.0, second.1) else { continue };
            let is_type = matches!(decl.kind, Type(_) | Interface(_));
            if own.contains(&*name) {
                if (import.is_pub || !is_type && !matches!(decl.kind, Pipeline(_)))
                    && seen.insert(name.clone())
                {
                    collisions.push(Collision {
                        import,
                        name,
                        first: None,
                        second,
                        passed_on: import.is_pub,
                    });
                }
                continue;
            }
            let inside = new.rival.is_some();
            add(&mut found, &name, new);
            let Some(Imported { declared: Some(first), rival: Some(second) }) = found.get(&name) else {
                continue;
            };
            let (Some(a), Some(b)) = (decl_at(&first.0, first.1), decl_at(&second.0, second.1)) else {
                continue;
            };
            let borne = match (&a.kind, &b.kind) {
                (Pipeline(_), Pipeline(_)) => true,
                (Type(_) | Interface(_), Type(_) | Interface(_)) => {
                    !(mentions(&name) || import.is_pub && import.names.is_some())
                }
                // That is an error of the file that imports both.
                _ => inside,
            };
            if !borne && seen.insert(name.clone()) {
                let (first, second) = (Some(first.clone()), second.clone());
                collisions.push(Collision { import, name, first, second, passed_on });
            }
        }
    }
    collisions
}

/// The names of the declarations of a file.
fn own_names(tree: &Program) -> FxHashSet<&str> {
    let declared = tree.items.iter().filter_map(|item| match &item.kind {
        StmtKind::Decl(decl) if !matches!(decl.kind, DeclKind::Impl(_)) => {
            Some(decl.kind.name().name.as_str())
        }
        _ => None,
    });
    declared.collect()
}
