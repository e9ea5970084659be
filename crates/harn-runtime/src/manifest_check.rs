//! What keeps the programs of a project from beginning: the tables of its manifest, read as programs read them.

use std::path::Path;

use harn_system::System;

use crate::hooks::check_manifest_hooks;
use crate::session_store::persists;
use crate::skill_files::read_settings;
use crate::store_place::named;

/// For tables of the manifest in `root` that no program begins with: the name of the table, and why.
pub fn manifest_problems(system: &dyn System, root: &Path) -> Vec<(&'static str, String)> {
    let read = [
        ("hooks", check_manifest_hooks(system, root)),
        ("sessions", persists(system, root).map(drop)),
        ("skills", read_settings(system, root).map(drop)),
        ("store", named(system, root).map(drop)),
    ];
    read.into_iter().filter_map(|(table, read)| Some((table, read.err()?))).collect()
}
