//! Where templates come from. The engine reads nothing by itself: a [`Loader`] does, so that the same
//! engine serves a program on disk, the embedded prompts of the standard library and tests.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::error::{ErrorKind, TemplateError};

/// The identity of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A file, as its path was given to the file system.
    File(PathBuf),
    /// An embedded template, by its path after `std/`.
    Asset(String),
    /// Text that is in no file.
    Inline,
}

impl Origin {
    /// The path, the `std://` URI, or the empty string: as errors, traces and spans show it.
    pub fn uri(&self) -> String {
        match self {
            Origin::File(path) => path.display().to_string(),
            Origin::Asset(path) => format!("std://{path}"),
            Origin::Inline => String::new(),
        }
    }
}

/// Who asks for a template.
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

/// A template that was found and read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its identity as people see it.
    pub origin: Origin,
    /// What tells two templates apart: the path after resolving links, or the URI.
    pub identity: String,
    /// Its text.
    pub text: Cow<'static, str>,
}

/// Resolves the path forms of `render` and `include`, enforces what may be read, and reads.
pub trait Loader {
    /// Finds and reads the template that `path` names.
    ///
    /// # Errors
    /// The error of the table in [`crate::ERRORS`] that fits, without a place.
    fn load(&self, path: &str, caller: Caller<'_>) -> Result<Loaded, ErrorKind>;

    /// What tells the template apart from others, as [`Loaded::identity`] does; `None` for inline text.
    fn identity(&self, origin: &Origin) -> Option<String> {
        (*origin != Origin::Inline).then(|| origin.uri())
    }
}

/// Embedded templates, by their path after `std/`.
pub trait Assets {
    /// The text of an embedded template.
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

/// A loader that knows the embedded templates only; everything else is missing.
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

/// The part of `path` after `std/`, when it names an embedded template.
pub(crate) fn asset_path(path: &str) -> Option<&str> {
    path.strip_prefix("std/").filter(|rest| rest.ends_with(".prompt"))
}

/// The embedded template that `path` names for `caller`; `None` when it names something on disk.
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

/// `path` without empty and `.` segments.
fn drop_dots(path: &str) -> String {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect::<Vec<_>>().join("/")
}

impl crate::Template {
    /// Finds, reads and parses the template that a module names with `path`.
    ///
    /// # Errors
    /// What the loader reports, bare; or a parse error with its place.
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
