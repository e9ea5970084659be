//! The files of a program: its imports, and the templates of its literal calls with their includes.

use std::collections::BTreeMap;

/// A template that a program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledAsset {
    /// Whether it is a prompt: `render_prompt` renders it, its name shows it, or it is an `@` path. Others are
    /// arbitrary templates.
    pub is_prompt: bool,
    /// The path as it is written.
    pub target: String,
    /// The places that name it, as `file:line:column`.
    pub used_by: Vec<String>,
}

/// The files of a program, except its main file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Direct and transitive imports, in the order of discovery.
    pub modules: Vec<String>,
    /// The templates by their path; `std://...` for embedded ones.
    pub assets: BTreeMap<String, BundledAsset>,
}

impl Bundle {
    /// Adds a template.
    pub(crate) fn add(&mut self, place: String, target: &str, rendered_as_prompt: bool, used_by: String) {
        let is_prompt = rendered_as_prompt || target.ends_with(".prompt") || target.starts_with('@');
        let new = BundledAsset { is_prompt, target: target.to_owned(), used_by: Vec::new() };
        let asset = self.assets.entry(place).or_insert(new);
        asset.is_prompt |= is_prompt;
        if !asset.used_by.contains(&used_by) {
            asset.used_by.push(used_by);
        }
    }
}
