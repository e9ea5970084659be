//! Embedded files: the source of `std/` modules, and prompt assets.

use std::borrow::Cow;

use harn_prompt::{Prose, ProseError};
use harn_template::{AssetLoader, Caller, Loader, RenderContext, Rendered, Template, TemplateCache};
use harn_value::{Data as Json, data::Map};
use harn_value::{Value, json};

include!(concat!(env!("OUT_DIR"), "/stdlib.rs"));

fn find(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    table.binary_search_by(|(known, _)| known.cmp(&name)).ok().map(|at| table[at].1)
}

/// Returns the source of the module `std/<name>`.
pub fn std_module(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("std/").unwrap_or(name);
    // The list is sorted by file name, in which `a-b.harn` and directories are ordered differently than by module name.
    MODULES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the names of all `std/` modules, sorted.
pub fn std_module_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}

/// Returns the source of a prompt asset by its path relative to `std/`.
pub fn prompt_asset(path: &str) -> Option<&'static str> {
    find(ASSETS, path)
}

/// Receives each rendered template.
pub(crate) type Listener<'a> = &'a dyn Fn(&Template, &Rendered);

/// Renders embedded prompts.
#[derive(Default)]
pub struct EmbeddedPrompts {
    cache: TemplateCache,
}

impl EmbeddedPrompts {
    /// Renders a prompt for the model that `llm` describes (nil without a model). `heard` receives the result with the
    /// branches that were taken.
    pub(crate) fn render_for(
        &self,
        name: &str,
        bindings: &Map<String, Json>,
        llm: &Value,
        heard: Option<Listener<'_>>,
    ) -> Result<String, ProseError> {
        let bindings = json::from_data(&Json::Object(bindings.clone()));
        self.text(name, &bindings, llm, heard).map_err(|cause| ProseError { asset: name.to_owned(), cause })
    }

    fn text(
        &self,
        path: &str,
        bindings: &Value,
        llm: &Value,
        heard: Option<Listener<'_>>,
    ) -> Result<String, String> {
        let loader = AssetLoader(&prompt_asset);
        let loaded = loader.load(path, Caller::Module).map_err(|e| e.to_string())?;
        let text: Cow<'static, str> = loaded.text;
        let template = self.cache.get_or_parse(loaded.origin, text).map_err(|e| e.to_string())?;
        let context =
            RenderContext { loader: &loader, llm, cache: Some(&self.cache), ..RenderContext::default() };
        let Some(heard) = heard else {
            return template.render(bindings, &context).map_err(|e| e.to_string());
        };
        let rendered = template.render_with_trace(bindings, &context).map_err(|e| e.to_string())?;
        heard(&template, &rendered);
        Ok(rendered.text)
    }
}

impl Prose for EmbeddedPrompts {
    fn render(&self, name: &str, bindings: &Map<String, Json>) -> Result<String, ProseError> {
        self.render_for(name, bindings, &Value::NIL, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_found_and_renders_without_bindings() {
        let prompts = EmbeddedPrompts::default();
        assert!(ASSETS.len() > 20);
        for (path, text) in ASSETS {
            assert_eq!(prompt_asset(path), Some(*text), "{path}");
            prompts.render(&format!("std/{path}"), &Map::new()).unwrap();
        }
    }

    #[test]
    fn unknown_assets_are_named() {
        let error = EmbeddedPrompts::default().render("std/agent/no.harn.prompt", &Map::new()).unwrap_err();
        assert!(error.to_string().contains("std/agent/no.harn.prompt"), "{error}");
    }
}
