//! Loading of templates. The engine performs no I/O: it reads through a [`Loader`], so that the same engine works
//! for programs on disk, the embedded prompts of the standard library and tests.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::error::{ErrorKind, TemplateError};

/// The identity of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A file, with its path as passed to the file system.
    File(PathBuf),
    /// An embedded template, by its path after `std/`.
    Asset(String),
    /// A string that is not stored in a file.
    Inline,
}

impl Origin {
    /// Returns the path, the `std://` URI, or an empty string, as shown in errors, traces and spans.
    pub fn uri(&self) -> String {
        match self {
            Origin::File(path) => path.display().to_string(),
            Origin::Asset(path) => format!("std://{path}"),
            Origin::Inline => String::new(),
        }
    }
}

/// The requester of a template.
#[derive(Clone, Copy, Debug)]
pub enum Caller<'a> {
    /// The module that calls `render`.
    Module,
    /// An `include`.
    Include {
        /// The template that contains the directive.
        parent: &'a Origin,
        /// The template that the render started with.
        entry: &'a Origin,
    },
}

/// A template that has been resolved and read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its identity for messages.
    pub origin: Origin,
    /// Its unique identity: the path after resolving links, or the URI.
    pub identity: String,
    /// Its source.
    pub text: Cow<'static, str>,
}

/// Resolves the path forms of `render` and `include`, enforces read permissions, and reads templates.
pub trait Loader {
    /// Resolves and reads the template at `path`.
    ///
    /// # Errors
    /// Returns the matching error from [`crate::ERRORS`], without a location.
    fn load(&self, path: &str, caller: Caller<'_>) -> Result<Loaded, ErrorKind>;

    /// Returns the unique identity of a template, like [`Loaded::identity`]; `None` for inline templates.
    fn identity(&self, origin: &Origin) -> Option<String> {
        (*origin != Origin::Inline).then(|| origin.uri())
    }
}

/// Embedded templates, by their path after `std/`.
pub trait Assets {
    /// Returns the source of an embedded template.
    fn get(&self, path: &str) -> Option<Cow<'static, str>>;
}

impl Assets for () {
    fn get(&self, _path: &str) -> Option<Cow<'static, str>> {
        None
    }
}

impl<F: Fn(&str) -> Option<&'static str>> Assets for F {
    fn get(&self, path: &str) -> Option<Cow<'static, str>> {
        self(path).map(Cow::Borrowed)
    }
}

/// A loader that provides only the embedded templates.
pub struct AssetLoader<A>(pub A);

impl<A: Assets> Loader for AssetLoader<A> {
    fn load(&self, path: &str, caller: Caller<'_>) -> Result<Loaded, ErrorKind> {
        if let Some(loaded) = load_asset(&self.0, path, caller) {
            return loaded;
        }
        let (path, message) = (path.to_owned(), "only embedded templates are available here".to_owned());
        Err(match caller {
            Caller::Module => ErrorKind::ReadTemplate { path, message },
            Caller::Include { .. } => ErrorKind::ReadInclude { path, message },
        })
    }
}

/// Returns the part of `path` after `std/` if it refers to an embedded template.
pub(crate) fn asset_path(path: &str) -> Option<&str> {
    path.strip_prefix("std/").filter(|rest| rest.ends_with(".prompt"))
}

/// Loads the embedded template that `path` refers to for `caller`; `None` if it refers to a file.
pub(crate) fn load_asset(
    assets: &dyn Assets,
    path: &str,
    caller: Caller<'_>,
) -> Option<Result<Loaded, ErrorKind>> {
    let found = |key: &str| {
        assets.get(key).map(|text| {
            let origin = Origin::Asset(key.to_owned());
            Loaded { identity: origin.uri(), origin, text }
        })
    };
    if let Caller::Include { parent: Origin::Asset(parent), .. } = caller {
        if path.is_empty()
            || path.starts_with(['/', '@'])
            || path.contains('\\')
            || path.split('/').any(|s| s == "..")
        {
            return Some(Err(ErrorKind::IncludeNotAsset { path: path.to_owned() }));
        }
        let joined = match (asset_path(path), parent.rsplit_once('/')) {
            (Some(full), _) => full.to_owned(),
            (None, Some((folder, _))) => drop_dots(&format!("{folder}/{path}")),
            (None, None) => drop_dots(path),
        };
        return Some(
            found(&joined)
                .ok_or_else(|| ErrorKind::IncludeMissingAsset { parent: parent.clone(), asset: joined }),
        );
    }
    let key = asset_path(path)?;
    Some(found(key).ok_or_else(|| ErrorKind::UnknownAsset { path: path.to_owned() }))
}

/// Returns `path` without empty and `.` segments.
fn drop_dots(path: &str) -> String {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect::<Vec<_>>().join("/")
}

impl crate::Template {
    /// Loads and parses the template at `path` for a module.
    ///
    /// # Errors
    /// Returns the error of the loader without a location, or a parse error with its location.
    pub fn load(path: &str, loader: &dyn Loader) -> Result<crate::Template, TemplateError> {
        let loaded = loader.load(path, Caller::Module).map_err(TemplateError::bare)?;
        crate::Template::parse(loaded.origin, loaded.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(path: &str, caller: Caller<'_>) -> Result<String, String> {
        let assets = |path: &str| match path {
            "agent/a.harn.prompt" => Some("A"),
            "agent/parts/b.prompt" => Some("B"),
            _ => None,
        };
        AssetLoader(assets).load(path, caller).map(|loaded| loaded.origin.uri()).map_err(|e| e.to_string())
    }

    #[test]
    fn modules_name_assets_by_their_std_path() {
        assert_eq!(load("std/agent/a.harn.prompt", Caller::Module).unwrap(), "std://agent/a.harn.prompt");
        assert_eq!(
            load("std/x.prompt", Caller::Module).unwrap_err(),
            "unknown stdlib prompt asset 'std/x.prompt'"
        );
        let missing = load("agent/a.harn.prompt", Caller::Module).unwrap_err();
        assert!(missing.starts_with("Failed to read template agent/a.harn.prompt: "), "{missing}");
    }

    #[test]
    fn assets_include_assets_and_nothing_else() {
        let parent = Origin::Asset("agent/a.harn.prompt".into());
        let include = |path| load(path, Caller::Include { parent: &parent, entry: &parent });
        assert_eq!(include("parts/b.prompt").unwrap(), "std://agent/parts/b.prompt");
        assert_eq!(include("./parts/b.prompt").unwrap(), "std://agent/parts/b.prompt");
        assert_eq!(include("std/agent/parts/b.prompt").unwrap(), "std://agent/parts/b.prompt");
        for bad in ["../b.prompt", "/etc/passwd", "parts\\b.prompt", "@/b.prompt"] {
            assert_eq!(include(bad).unwrap_err(), format!("include path {bad} is not a stdlib prompt asset"));
        }
        assert_eq!(
            include("c.prompt").unwrap_err(),
            "stdlib prompt asset std://agent/a.harn.prompt includes missing std://agent/c.prompt"
        );
    }
}
