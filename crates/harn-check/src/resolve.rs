//! Finding imported files (modules guide, "Paths"): `std/` modules, files beside the importer, installed packages.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use crate::world::World;

/// The largest imported file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Where an import leads.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// An embedded module, by its name behind `std/`.
    Std(String),
    /// A file.
    File(PathBuf),
}

impl Target {
    /// The name shown in diagnostics.
    pub(crate) fn name(&self) -> String {
        match self {
            Target::Std(name) => format!("std/{name}.harn"),
            Target::File(path) => path.display().to_string(),
        }
    }

    /// The folder that its own imports start from.
    pub(crate) fn dir(&self) -> PathBuf {
        match self {
            Target::Std(_) => PathBuf::new(),
            Target::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
        }
    }

    /// Its text; `None` when it cannot be read.
    pub(crate) fn read(&self, world: &World<'_>) -> Option<Cow<'static, str>> {
        match self {
            Target::Std(name) => (world.std_module)(name).map(Cow::Borrowed),
            Target::File(path) => {
                let bytes = harn_system::real::files::read(path, MAX_BYTES).ok()?;
                Some(Cow::Owned(String::from_utf8(bytes).ok()?))
            }
        }
    }
}

/// Finds what `import "path"` means in a file of the folder `dir`.
pub(crate) fn find(path: &str, dir: &Path, world: &World<'_>) -> Option<Target> {
    if let Some(name) = path.strip_prefix("std/") {
        return (world.std_module)(name).map(|_| Target::Std(name.to_owned()));
    }
    // Without `.` segments: a file has one name, however it is imported.
    let direct: PathBuf = dir.join(path).components().collect();
    if direct.is_file() {
        return Some(Target::File(direct));
    }
    if direct.extension().is_none() {
        let with_extension = direct.with_extension("harn");
        if with_extension.is_file() {
            return Some(Target::File(with_extension));
        }
    }
    in_packages(path, dir).map(Target::File)
}

/// The file of an installed package: `.harn/packages/` of the nearest folder above `dir` that has it.
fn in_packages(path: &str, dir: &Path) -> Option<PathBuf> {
    let inside = |path: &str| {
        !path.contains('\\') && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
    };
    if path.is_empty() || !inside(path) {
        return None;
    }
    let start = std::fs::canonicalize(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }).ok()?;
    for folder in start.ancestors() {
        let packages = folder.join(".harn/packages");
        if packages.is_dir() {
            let direct = packages.join(path);
            let file = PathBuf::from(format!("{}.harn", direct.display()));
            let found =
                [direct.join("lib.harn"), direct, file].into_iter().find(|candidate| candidate.is_file());
            if let Some(found) = found.or_else(|| exported(&packages, path).filter(|file| file.is_file())) {
                return Some(found);
            }
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// What `[exports]` of a package's manifest says.
fn exported(packages: &Path, path: &str) -> Option<PathBuf> {
    let (package, key) = path.split_once('/')?;
    let root = packages.join(package);
    let manifest: toml::Table = crate::settings::manifest_text(&root.join("harn.toml")).ok()?.parse().ok()?;
    let file = manifest.get("exports")?.get(key)?.as_str()?;
    let safe =
        !file.contains('\\') && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    safe.then(|| root.join(file))
}
