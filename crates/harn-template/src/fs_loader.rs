//! [`FsLoader`]: loads the templates of a program from disk. It resolves the path forms, restricts includes to the
//! template root and all files to the workspace roots, and limits the size of files.

use std::io;
use std::path::{Path, PathBuf};

use harn_system::{System, SystemExt};

use crate::error::ErrorKind;
use crate::loader::{Assets, Caller, Loaded, Loader, Origin, load_asset};
use crate::paths::{folder_of, is_project_path, join, project_root, real_path, shortest};
use crate::program::MAX_TEMPLATE_BYTES;

/// Loads templates for one module of a program.
pub struct FsLoader<'a> {
    /// The system used to resolve paths and projects.
    pub system: &'a dyn System,
    /// The system used to read template contents: the same, or one with fewer permissions.
    pub reader: &'a dyn System,
    /// The embedded templates.
    pub assets: &'a dyn Assets,
    /// The directory of the module that calls `render`.
    pub module_dir: PathBuf,
    /// The directories that the active execution policy allows to read; `None` for no restriction.
    pub workspace_roots: Option<Vec<PathBuf>>,
}

impl<'a> FsLoader<'a> {
    /// Creates a loader without a policy.
    pub fn new(
        system: &'a dyn System,
        assets: &'a dyn Assets,
        module_dir: impl Into<PathBuf>,
    ) -> FsLoader<'a> {
        FsLoader { system, reader: system, assets, module_dir: module_dir.into(), workspace_roots: None }
    }

    /// Returns the file that `path` refers to, without reading it; `None` for an embedded template.
    ///
    /// # Errors
    /// Returns the errors of `@` paths.
    pub fn resolve(&self, path: &str, caller: Caller<'_>) -> Result<Option<PathBuf>, ErrorKind> {
        let from_asset = matches!(caller, Caller::Include { parent: Origin::Asset(_), .. });
        if from_asset || crate::loader::asset_path(path).is_some() {
            return Ok(None);
        }
        self.place(path, caller).map(|(file, _)| Some(shortest(file, self.system)))
    }

    /// Returns the base directory of relative paths of `caller`.
    fn folder(&self, caller: Caller<'_>) -> PathBuf {
        match caller {
            Caller::Include { parent: Origin::File(path), .. } => folder_of(path),
            _ => self.module_folder(),
        }
    }

    /// Returns the module's directory, without `.` segments and trailing slash.
    fn module_folder(&self) -> PathBuf {
        self.module_dir.components().collect()
    }

    /// Returns the file that `path` refers to, and the directory that must contain it, if any.
    fn place(&self, path: &str, caller: Caller<'_>) -> Result<(PathBuf, Option<Fence>), ErrorKind> {
        let folder = self.folder(caller);
        if let Some((alias, rel)) = path.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
            return self.project_place(path, alias, rel, &folder);
        }
        let fence = match caller {
            Caller::Module => None,
            Caller::Include { entry, .. } => Some(Fence::Template(self.template_root(entry))),
        };
        Ok((join(&folder, path), fence))
    }

    fn project_place(
        &self,
        path: &str,
        alias: &str,
        rel: &str,
        folder: &Path,
    ) -> Result<(PathBuf, Option<Fence>), ErrorKind> {
        let invalid = || match alias {
            "" => ErrorKind::InvalidRootPath { rel: rel.to_owned() },
            _ => ErrorKind::InvalidAliasPath { alias: alias.to_owned(), rel: rel.to_owned() },
        };
        let root = project_root(folder, self.system).ok_or_else(|| ErrorKind::NoProjectRoot {
            path: path.to_owned(),
            dir: folder.display().to_string(),
        })?;
        if !is_project_path(rel) {
            return Err(invalid());
        }
        let base = if alias.is_empty() { root.clone() } else { join(&root, &self.asset_root(&root, alias)?) };
        Ok((join(&base, rel), Some(Fence::Project { root, error: invalid() })))
    }

    /// Returns the directory that includes of a render may read: the project of the entry template, or that
    /// template's directory.
    fn template_root(&self, entry: &Origin) -> PathBuf {
        let folder = match entry {
            Origin::File(path) => folder_of(path),
            _ => self.module_folder(),
        };
        project_root(&folder, self.system).unwrap_or(folder)
    }

    /// Returns the directory of an alias from the manifest of `root`.
    fn asset_root(&self, root: &Path, alias: &str) -> Result<String, ErrorKind> {
        let manifest =
            read(self.system, &root.join("harn.toml")).ok().and_then(|text| text.parse::<toml::Table>().ok());
        let value = manifest
            .as_ref()
            .and_then(|table| table.get("asset_roots"))
            .and_then(|roots| roots.get(alias))
            .and_then(toml::Value::as_str)
            .ok_or_else(|| ErrorKind::UnknownAlias {
                alias: alias.to_owned(),
                root: root.display().to_string(),
            })?;
        if is_project_path(value) {
            return Ok(value.to_owned());
        }
        Err(ErrorKind::UnsafeAlias { alias: alias.to_owned(), value: value.to_owned() })
    }

    fn check_policy(&self, file: &Path, real: &Path) -> Result<(), ErrorKind> {
        let Some(roots) = &self.workspace_roots else { return Ok(()) };
        if roots.iter().any(|root| real.starts_with(real_path(root, self.system))) {
            return Ok(());
        }
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Err(ErrorKind::Sandbox { path: file.display().to_string(), roots: roots.join(", ") })
    }
}

/// The directory that must contain a file after links are resolved.
enum Fence {
    /// The template root: plain includes.
    Template(PathBuf),
    /// The project: `@` paths.
    Project { root: PathBuf, error: ErrorKind },
}

impl Loader for FsLoader<'_> {
    fn load(&self, path: &str, caller: Caller<'_>) -> Result<Loaded, ErrorKind> {
        if let Some(loaded) = load_asset(self.assets, path, caller) {
            return loaded;
        }
        let (file, fence) = self.place(path, caller)?;
        let real = real_path(&file, self.system);
        self.check_policy(&file, &real)?;
        match fence {
            Some(Fence::Template(root)) if !real.starts_with(real_path(&root, self.system)) => {
                return Err(ErrorKind::IncludeEscapes {
                    path: real.display().to_string(),
                    root: real_path(&root, self.system).display().to_string(),
                });
            }
            Some(Fence::Project { root, error }) if !real.starts_with(real_path(&root, self.system)) => {
                return Err(error);
            }
            _ => {}
        }
        let file = shortest(file, self.system);
        let text = read(self.reader, &file).map_err(|error| {
            let (path, message) = (file.display().to_string(), error.to_string());
            match caller {
                Caller::Module => ErrorKind::ReadTemplate { path, message },
                Caller::Include { .. } => ErrorKind::ReadInclude { path, message },
            }
        })?;
        Ok(Loaded { origin: Origin::File(file), identity: real.display().to_string(), text: text.into() })
    }

    fn identity(&self, origin: &Origin) -> Option<String> {
        match origin {
            Origin::File(path) => Some(real_path(path, self.system).display().to_string()),
            Origin::Asset(_) => Some(origin.uri()),
            Origin::Inline => None,
        }
    }
}

/// Reads a template with a size limit.
fn read(system: &dyn System, path: &Path) -> io::Result<String> {
    let limit = MAX_TEMPLATE_BYTES as u64;
    let size = system.facts(path).map(|facts| if facts.is_file() { facts.size } else { 0 })?;
    if size > limit {
        let problem = ErrorKind::TooLarge { bytes: size.to_string(), limit: limit.to_string() };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem.to_string()));
    }
    // A byte order mark is not part of the prompt.
    let text = system.read_text(path, limit)?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}
