//! [`FsLoader`]: templates of a program on disk. Resolves the path forms, keeps includes inside the
//! template root and every file inside the workspace roots, and reads with care.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::ErrorKind;
use crate::loader::{Assets, Caller, Loaded, Loader, Origin, load_asset};
use crate::paths::{folder_of, is_project_path, join, project_root, real_path, shortest};
use crate::template::MAX_TEMPLATE_BYTES;

/// Reads templates for one module of a program.
pub struct FsLoader<'a> {
    /// The embedded templates.
    pub assets: &'a dyn Assets,
    /// The folder of the module that calls `render`.
    pub module_dir: PathBuf,
    /// The folders that the active execution policy allows to read; `None` for everything.
    pub workspace_roots: Option<Vec<PathBuf>>,
}

impl<'a> FsLoader<'a> {
    /// A loader without a policy.
    pub fn new(assets: &'a dyn Assets, module_dir: impl Into<PathBuf>) -> FsLoader<'a> {
        FsLoader { assets, module_dir: module_dir.into(), workspace_roots: None }
    }

    /// The file that `path` names, unread; `None` for an embedded template.
    ///
    /// # Errors
    /// The errors of `@` paths.
    pub fn resolve(&self, path: &str, caller: Caller<'_>) -> Result<Option<PathBuf>, ErrorKind> {
        let from_asset = matches!(caller, Caller::Include { parent: Origin::Asset(_), .. });
        if from_asset || crate::loader::asset_path(path).is_some() {
            return Ok(None);
        }
        self.place(path, caller).map(|(file, _)| Some(shortest(file)))
    }

    /// The folder that relative paths of `caller` start from.
    fn folder(&self, caller: Caller<'_>) -> PathBuf {
        match caller {
            Caller::Include { parent: Origin::File(path), .. } => folder_of(path),
            _ => self.module_folder(),
        }
    }

    /// The module's folder, without `.` segments and a slash at the end.
    fn module_folder(&self) -> PathBuf {
        self.module_dir.components().collect()
    }

    /// The file that `path` names, and the folder it must stay in if any.
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
        let root = project_root(folder).ok_or_else(|| ErrorKind::NoProjectRoot {
            path: path.to_owned(),
            dir: folder.display().to_string(),
        })?;
        if !is_project_path(rel) {
            return Err(invalid());
        }
        let base = if alias.is_empty() { root.clone() } else { join(&root, &asset_root(&root, alias)?) };
        Ok((join(&base, rel), Some(Fence::Project { root, error: invalid() })))
    }

    /// Where the includes of a render may read: the project of its entry template, or that template's folder.
    fn template_root(&self, entry: &Origin) -> PathBuf {
        let folder = match entry {
            Origin::File(path) => folder_of(path),
            _ => self.module_folder(),
        };
        project_root(&folder).unwrap_or(folder)
    }

    fn check_policy(&self, file: &Path, real: &Path) -> Result<(), ErrorKind> {
        let Some(roots) = &self.workspace_roots else { return Ok(()) };
        if roots.iter().any(|root| real.starts_with(real_path(root))) {
            return Ok(());
        }
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Err(ErrorKind::Sandbox { path: file.display().to_string(), roots: roots.join(", ") })
    }
}

/// What a file must stay inside of, after resolving links.
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
        let real = real_path(&file);
        self.check_policy(&file, &real)?;
        match fence {
            Some(Fence::Template(root)) if !real.starts_with(real_path(&root)) => {
                return Err(ErrorKind::IncludeEscapes {
                    path: real.display().to_string(),
                    root: real_path(&root).display().to_string(),
                });
            }
            Some(Fence::Project { root, error }) if !real.starts_with(real_path(&root)) => return Err(error),
            _ => {}
        }
        let file = shortest(file);
        let text = read(&file).map_err(|error| {
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
            Origin::File(path) => Some(real_path(path).display().to_string()),
            Origin::Asset(_) => Some(origin.uri()),
            Origin::Inline => None,
        }
    }
}

/// The folder of an alias in the manifest of `root`.
fn asset_root(root: &Path, alias: &str) -> Result<String, ErrorKind> {
    let manifest = read(&root.join("harn.toml")).ok().and_then(|text| text.parse::<toml::Table>().ok());
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

/// Reads a template. Only regular files of a bounded size are opened: a pipe or a device could block or
/// never end.
fn read(path: &Path) -> io::Result<String> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
    let metadata = fs::metadata(path)?;
    // A folder is left to the system, which has its own words for it.
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let mut text = String::new();
    let limit = MAX_TEMPLATE_BYTES as u64;
    if metadata.len() <= limit {
        fs::File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    }
    let bytes = metadata.len().max(text.len() as u64);
    if bytes > limit {
        let problem = ErrorKind::TooLarge { bytes: bytes.to_string(), limit: limit.to_string() };
        return Err(invalid(problem.to_string()));
    }
    Ok(text)
}
