//! The files that a program imports, and the names that they give it.

use std::path::PathBuf;
use std::rc::Rc;

use harn_syntax::ast::{DeclKind, Import, Program, StmtKind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::resolve::{self, Target};
use crate::world::{Source, World};

/// An imported file.
pub(crate) struct Module {
    /// Its name as shown in diagnostics.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// Its tree.
    pub(crate) tree: Program,
    /// The folder that its imports and templates start from.
    pub(crate) dir: PathBuf,
    /// Whether it has syntax errors.
    pub(crate) broken: bool,
}

/// Imported files, each read once.
pub(crate) struct Modules<'a> {
    world: &'a World<'a>,
    read: FxHashMap<PathBuf, Option<Rc<Module>>>,
}

impl<'a> Modules<'a> {
    pub(crate) fn new(world: &'a World<'a>) -> Self {
        Self { world, read: FxHashMap::default() }
    }

    /// The file behind an import; `None` when it cannot be read.
    pub(crate) fn load(&mut self, target: &Target) -> Option<Rc<Module>> {
        let key = identity(target);
        if let Some(known) = self.read.get(&key) {
            return known.clone();
        }
        let module = target.read(self.world).map(|text| {
            let parsed = harn_syntax::parse(&text);
            Rc::new(Module {
                name: target.name(),
                tree: parsed.program,
                dir: target.dir(),
                broken: !parsed.errors.is_empty(),
                text: text.into_owned(),
            })
        });
        self.read.insert(key, module.clone());
        module
    }

    /// The names that a file exports, those it re-exports included; `None` when they cannot be told.
    fn exports(&mut self, target: &Target, visiting: &mut Vec<PathBuf>) -> Option<Vec<String>> {
        let key = identity(target);
        if visiting.contains(&key) {
            return Some(Vec::new());
        }
        let module = self.load(target).filter(|module| !module.broken)?;
        visiting.push(key);
        let mut names = Vec::new();
        let mut explicit = false;
        for import in module.tree.imports().filter(|import| import.is_pub) {
            explicit = true;
            self.brought(import, &module.dir, visiting, &mut names)?;
        }
        visiting.pop();
        let decls = || {
            module.tree.items.iter().filter_map(|item| match &item.kind {
                StmtKind::Decl(decl) => Some(&**decl),
                _ => None,
            })
        };
        explicit |= decls().any(|decl| decl.is_pub && matches!(decl.kind, DeclKind::Fn(_)));
        let exported = decls().filter(|decl| match &decl.kind {
            DeclKind::Fn(_) => decl.is_pub || !explicit,
            DeclKind::Tool(_) | DeclKind::Skill(_) | DeclKind::EvalPack(_) => decl.is_pub,
            DeclKind::Impl(_) => false,
            _ => true,
        });
        names.extend(exported.map(|decl| decl.kind.name().name.to_string()));
        Some(names)
    }

    /// Appends the names that an import brings.
    fn brought(
        &mut self,
        import: &Import,
        dir: &std::path::Path,
        visiting: &mut Vec<PathBuf>,
        names: &mut Vec<String>,
    ) -> Option<()> {
        let target = resolve::find(&import.path, dir, self.world)?;
        match &import.names {
            Some(listed) => names.extend(listed.iter().map(|name| name.name.to_string())),
            None => names.extend(self.exports(&target, visiting)?),
        }
        Some(())
    }
}

/// What tells two files apart.
pub(crate) fn identity(target: &Target) -> PathBuf {
    match target {
        Target::Std(name) => PathBuf::from(format!("std:{name}")),
        Target::File(path) => std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
    }
}

/// All names that the imports of a file bring; `None` when one of them cannot be followed to its end.
pub(crate) fn names(source: &Source<'_>, world: &World<'_>) -> Option<FxHashSet<String>> {
    let mut modules = Modules::new(world);
    let mut names = Vec::new();
    for import in source.tree.imports() {
        modules.brought(import, source.dir, &mut Vec::new(), &mut names)?;
    }
    Some(names.into_iter().collect())
}
