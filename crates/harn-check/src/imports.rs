//! The names that the imports of a program give it.

use std::path::{Path, PathBuf};

use harn_front::Sources;
use harn_syntax::ast::Import;
use rustc_hash::FxHashSet;

use crate::world::{Source, World};

/// The files that a program imports, each read once.
pub(crate) fn sources<'a>(world: &'a World<'_>) -> Sources<'a> {
    Sources::new(&world.files, world.std_module)
}

/// The names that a file exports, those it re-exports included; `None` when they cannot be told.
fn exports(
    sources: &Sources<'_>,
    target: &harn_front::Target,
    visiting: &mut Vec<PathBuf>,
) -> Option<Vec<String>> {
    let key = target.key(sources.files());
    if visiting.contains(&key) {
        return Some(Vec::new());
    }
    let unit = sources.load(target).ok().filter(|unit| unit.errors.is_empty())?;
    visiting.push(key);
    let mut names = Vec::new();
    for import in unit.tree.imports().filter(|import| import.is_pub) {
        brought(sources, import, &unit.dir, visiting, &mut names)?;
    }
    visiting.pop();
    names.extend(harn_front::exports(&unit.tree).map(|decl| decl.kind.name().name.to_string()));
    Some(names)
}

/// Appends the names that an import brings.
fn brought(
    sources: &Sources<'_>,
    import: &Import,
    dir: &Path,
    visiting: &mut Vec<PathBuf>,
    names: &mut Vec<String>,
) -> Option<()> {
    let target = sources.resolve(&import.path, dir).ok()?;
    match &import.names {
        Some(listed) => names.extend(listed.iter().map(|name| name.name.to_string())),
        None => names.extend(exports(sources, &target, visiting)?),
    }
    Some(())
}

/// All names that the imports of a file bring; `None` when one of them cannot be followed to its end.
pub(crate) fn names(source: &Source<'_>, world: &World<'_>) -> Option<FxHashSet<String>> {
    let sources = sources(world);
    let mut names = Vec::new();
    for import in source.tree.imports() {
        brought(&sources, import, source.dir, &mut Vec::new(), &mut names)?;
    }
    Some(names.into_iter().collect())
}

/// The names that an import of a file may list: all of its declarations and what it re-exports. `None` when they cannot be told.
pub(crate) fn listable(sources: &Sources<'_>, target: &harn_front::Target) -> Option<FxHashSet<String>> {
    let unit = sources.load(target).ok().filter(|unit| unit.errors.is_empty())?;
    let own = harn_front::selectable(&unit.tree).map(|decl| decl.kind.name().name.to_string());
    Some(own.chain(exports(sources, target, &mut Vec::new())?).collect())
}
