//! Checks of a project's manifest for errors that prevent its programs from starting.

use std::path::Path;

use harn_system::System;

use crate::hooks::check_manifest_hooks;
use crate::session_store::persists;
use crate::skill_files::read_settings;
use crate::store_place::named;

/// Returns the problems in the manifest in `root` that prevent programs from starting: the name of the table, and the
/// reason.
pub fn manifest_problems(system: &dyn System, root: &Path) -> Vec<(&'static str, String)> {
    let read = [
        ("hooks", check_manifest_hooks(system, root)),
        ("sessions", persists(system, root).map(drop)),
        ("skills", read_settings(system, root).map(drop)),
        ("store", named(system, root).map(drop)),
    ];
    read.into_iter().filter_map(|(table, read)| Some((table, read.err()?))).collect()
}
