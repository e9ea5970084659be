//! Vendors of models, and LiteLLM's names of providers: `data/vendors.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Vendor {
    begins: Vec<String>,
    provider: String,
}

#[derive(Debug, Deserialize)]
struct File {
    vendors: Vec<Vendor>,
    litellm: BTreeMap<String, String>,
    regional: Vec<String>,
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/vendors.toml")).expect("the shipped table is valid TOML")
});

/// Returns the vendor of a model as a provider name, determined by the model's name.
pub(super) fn vendor_of(model: &str) -> Option<&'static str> {
    let begins = |vendor: &&Vendor| vendor.begins.iter().any(|prefix| model.starts_with(prefix.as_str()));
    FILE.vendors.iter().find(begins).map(|vendor| vendor.provider.as_str())
}

/// Returns LiteLLM's name of a provider without variant suffixes, and the provider's name in Harn.
pub(super) fn listed(name: &str) -> Option<(&'static str, &'static str)> {
    let exact = FILE.litellm.get_key_value(name);
    let found =
        exact.or_else(|| FILE.litellm.iter().find(|(listed, _)| name.starts_with(&format!("{listed}-"))));
    found.map(|(listed, provider)| (listed.as_str(), provider.as_str()))
}

/// Returns whether LiteLLM lists regional models below a name.
pub(super) fn is_regional(name: &str) -> bool {
    FILE.regional.iter().any(|regional| regional == name)
}
