//! Adds and removes entries of a manifest. Comments, order and all other content are preserved.

use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use crate::manifest::{Dependency, Origin, Want, check_alias};
use crate::{Result, Trouble, trouble};

/// Returns the manifest with a dependency; replaces one of the same name.
///
/// # Errors
/// An invalid manifest, or an invalid name.
pub fn add(text: &str, manifest: &Path, dependency: &Dependency) -> Result<String> {
    check_alias(&dependency.alias)?;
    let mut document = parse(text, manifest)?;
    let section = document.entry("dependencies").or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = section.as_table_like_mut() else {
        return trouble(format!("{}: [dependencies] must be a table", manifest.display()));
    };
    let mut entry = InlineTable::new();
    match &dependency.origin {
        Origin::Path(path) => drop(entry.insert("path", path.display().to_string().into())),
        Origin::Git { url, want } => {
            entry.insert("git", url.as_str().into());
            let key = if matches!(want, Want::Rev(_)) { "rev" } else { "branch" };
            entry.insert(key, want.name().into());
        }
    }
    if let Some(package) = &dependency.package {
        entry.insert("package", package.as_str().into());
    }
    table.insert(&dependency.alias, Item::Value(Value::InlineTable(entry)));
    Ok(document.to_string())
}

/// Returns the manifest without a dependency.
///
/// # Errors
/// An invalid manifest, or an unknown name.
pub fn remove(text: &str, manifest: &Path, alias: &str) -> Result<String> {
    let mut document = parse(text, manifest)?;
    let gone = document
        .get_mut("dependencies")
        .and_then(Item::as_table_like_mut)
        .and_then(|table| table.remove(alias));
    match gone {
        Some(_) => Ok(document.to_string()),
        None => trouble(format!("{} has no dependency {alias}", manifest.display())),
    }
}

fn parse(text: &str, manifest: &Path) -> Result<DocumentMut> {
    text.parse()
        .map_err(|e: toml_edit::TomlError| Trouble(format!("{}: {}", manifest.display(), e.message())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[package]\nname = \"a\" # here\n\n[dependencies]\n# why\nb = \"../b\"\n";

    fn path(alias: &str) -> Dependency {
        Dependency { alias: alias.to_owned(), origin: Origin::Path("../c".into()), package: None }
    }

    #[test]
    fn comments_stay() {
        let file = Path::new("harn.toml");
        let with = add(TEXT, file, &path("c")).expect("added");
        assert_eq!(with, format!("{TEXT}c = {{ path = \"../c\" }}\n"));
        assert_eq!(remove(&with, file, "c").expect("removed"), TEXT);
        assert_eq!(remove(TEXT, file, "x").expect_err("unknown").0, "harn.toml has no dependency x");
        let git = Origin::Git { url: "https://x.test/d".to_owned(), want: Want::Branch("main".to_owned()) };
        let git = Dependency { alias: "d".to_owned(), origin: git, package: None };
        let fresh = add("[package]\nname = \"a\"\n", file, &git).expect("added");
        assert!(
            fresh.ends_with("[dependencies]\nd = { git = \"https://x.test/d\", branch = \"main\" }\n"),
            "{fresh}"
        );
    }
}
