//! The dependencies of a manifest.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::{Result, Trouble, address, trouble};

/// One entry of `[dependencies]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The name that imports use.
    pub alias: String,
    /// The source.
    pub origin: Origin,
    /// The required name of the package, if the entry sets one.
    pub package: Option<String>,
}

/// The source of a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A directory or a `.harn` file, as in the manifest: relative to its directory, or absolute.
    Path(PathBuf),
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// Which commit.
        want: Want,
    },
}

/// Which commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// A tag or commit.
    Rev(String),
    /// The newest commit of a branch.
    Branch(String),
}

impl Want {
    /// The name of the tag, commit or branch.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Want::Rev(name) | Want::Branch(name) => name,
        }
    }
}

/// Parses `[dependencies]` of a manifest, sorted by alias. `manifest` is its path for messages.
///
/// # Errors
/// Invalid TOML, or an invalid entry, by its name.
pub fn dependencies(text: &str, manifest: &Path) -> Result<Vec<Dependency>> {
    let shown = manifest.display();
    let table: Table =
        text.parse().map_err(|e: toml::de::Error| Trouble(format!("{shown}: {}", e.message())))?;
    let entries = match table.get("dependencies") {
        None => return Ok(Vec::new()),
        Some(Value::Table(entries)) => entries,
        Some(other) => {
            return trouble(format!("{shown}: [dependencies] must be a table, got {}", other.type_str()));
        }
    };
    let mut found = Vec::with_capacity(entries.len());
    for (alias, entry) in entries {
        let dependency =
            dependency(alias, entry).map_err(|Trouble(why)| Trouble(format!("{shown}: {why}")))?;
        found.push(dependency);
    }
    found.sort_by(|a, b| a.alias.cmp(&b.alias));
    Ok(found)
}

/// Returns the names of the MCP servers that start with each program: `[[mcp]]` with `lazy = false`.
#[must_use]
pub fn eager_servers(text: &str) -> Vec<String> {
    let table: Table = text.parse().unwrap_or_default();
    let servers = table.get("mcp").and_then(Value::as_array).into_iter().flatten();
    let eager = servers.filter(|server| server.get("lazy").and_then(Value::as_bool) == Some(false));
    eager.filter_map(|server| server.get("name")?.as_str().map(str::to_owned)).collect()
}

/// Checks that a name is valid in an import and as a directory.
///
/// # Errors
/// The message for an invalid alias.
pub(crate) fn check_alias(alias: &str) -> Result<()> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if alias.is_empty() || !alias.chars().all(known) || alias.chars().all(|c| c == '.') {
        return trouble(format!(
            "invalid dependency alias \"{}\"; use ASCII letters, numbers, '.', '_' or '-'",
            alias.escape_debug()
        ));
    }
    if alias == "std" {
        return trouble("invalid dependency alias \"std\"; modules that come with Harn have this name");
    }
    Ok(())
}

fn dependency(alias: &str, entry: &Value) -> Result<Dependency> {
    check_alias(alias)?;
    let table = match entry {
        Value::String(path) => return Ok(by_path(alias, path)),
        Value::Table(table) => table,
        other => {
            return trouble(format!(
                "dependency {alias}: expected a path or a table such as {{ path = \"../{alias}\" }}, got {}",
                other.type_str()
            ));
        }
    };
    for key in table.keys() {
        if !["git", "path", "rev", "tag", "branch", "package"].contains(&key.as_str()) {
            return trouble(format!(
                "dependency {alias}: unknown key '{key}'; there are git, path, rev, tag, branch and package"
            ));
        }
    }
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => trouble(format!("dependency {alias}: {key} must be text that is not empty")),
    };
    let package = text("package")?;
    let wants = [text("rev")?.map(Want::Rev), text("tag")?.map(Want::Rev), text("branch")?.map(Want::Branch)];
    let mut wants = wants.into_iter().flatten();
    let (want, second) = (wants.next(), wants.next());
    if second.is_some() {
        return trouble(format!("dependency {alias}: only one of rev, tag and branch can be given"));
    }
    match (text("git")?, text("path")?) {
        (Some(_), Some(_)) => {
            trouble(format!("dependency {alias} has both git and path; it can have one source"))
        }
        (None, None) => trouble(format!("dependency {alias} is missing a git or path source")),
        (None, Some(_)) if want.is_some() => {
            trouble(format!("dependency {alias}: rev, tag and branch belong to a git source"))
        }
        (None, Some(path)) => Ok(Dependency { package, ..by_path(alias, &path) }),
        (Some(url), None) => {
            address::check(alias, &url)?;
            let Some(want) = want else {
                return trouble(format!("dependency {alias}: a git source needs a rev, tag or branch"));
            };
            let what = if matches!(want, Want::Branch(_)) { "a branch" } else { "a tag or commit" };
            address::check_name(alias, want.name(), what)?;
            Ok(Dependency { alias: alias.to_owned(), origin: Origin::Git { url, want }, package })
        }
    }
}

fn by_path(alias: &str, path: &str) -> Dependency {
    Dependency { alias: alias.to_owned(), origin: Origin::Path(PathBuf::from(path)), package: None }
}

/// Returns the default alias of a source: the last part of its path, without `.git` and `.harn`.
///
/// # Errors
/// That part is not a valid alias.
pub fn alias_for(source: &str) -> Result<String> {
    let last = source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let last = last.strip_suffix(".git").or_else(|| last.strip_suffix(".harn")).unwrap_or(last);
    check_alias(last).map_err(|Trouble(why)| Trouble(format!("{why}; choose one with --alias NAME")))?;
    Ok(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Dependency>> {
        dependencies(text, Path::new("harn.toml"))
    }

    fn wrong(line: &str) -> String {
        read(&format!("[dependencies]\n{line}\n")).expect_err(line).0
    }

    #[test]
    fn entries_of_all_forms() {
        let found = read(
            "[dependencies]\nb = { git = \"https://x.test/b\", rev = \"v1\" }\na = \"../a\"\nc = { path = \"c.harn\", package = \"cc\" }\n\
             d = { git = \"https://x.test/d\", branch = \"main\" }\n",
        )
        .expect("right entries");
        let aliases: Vec<&str> = found.iter().map(|d| d.alias.as_str()).collect();
        assert_eq!(aliases, ["a", "b", "c", "d"]);
        assert_eq!(found[0].origin, Origin::Path("../a".into()));
        let git = |url: &str, want| Origin::Git { url: url.to_owned(), want };
        assert_eq!(found[1].origin, git("https://x.test/b", Want::Rev("v1".to_owned())));
        assert_eq!(found[2].package.as_deref(), Some("cc"));
        assert_eq!(found[3].origin, git("https://x.test/d", Want::Branch("main".to_owned())));
        assert_eq!(read("[package]\nname = \"x\"\n").expect("no dependencies"), []);
    }

    #[test]
    fn wrong_entries_are_named() {
        let cases = [
            ("\"a b\" = \"../a\"", "invalid dependency alias \"a b\""),
            ("\"..\" = \"../a\"", "invalid dependency alias \"..\""),
            ("std = \"../a\"", "modules that come with Harn"),
            ("a = 5", "dependency a: expected a path or a table such as"),
            ("a = {}", "dependency a is missing a git or path source"),
            ("a = { git = \"https://x.test/a\" }", "dependency a: a git source needs a rev, tag or branch"),
            (
                "a = { git = \"https://x.test/a\", rev = \"1\", branch = \"m\" }",
                "only one of rev, tag and branch",
            ),
            ("a = { git = \"https://x.test/a\", path = \"..\", rev = \"1\" }", "both git and path"),
            ("a = { path = \"..\", branch = \"m\" }", "belong to a git source"),
            ("a = { path = 5 }", "dependency a: path must be text"),
            ("a = { path = \" \" }", "dependency a: path must be text"),
            ("a = { pth = \"..\" }", "unknown key 'pth'"),
            ("a = { git = \"ext::sh -c x\", rev = \"1\" }", "dependency a: the address"),
            ("a = { git = \"--upload-pack=x\", rev = \"1\" }", "dependency a: the address"),
            ("a = { git = \"https://x.test/a\", rev = \"-x\" }", "dependency a: '-x' cannot be the name"),
        ];
        for (line, part) in cases {
            let said = wrong(line);
            assert!(said.starts_with("harn.toml: ") && said.contains(part), "{line}: {said}");
        }
        assert!(read("dependencies = 5").expect_err("no table").0.contains("must be a table"));
        assert!(read("a = [").is_err());
    }

    #[test]
    fn aliases_of_sources() {
        for (source, alias) in [
            ("../helper", "helper"),
            ("../one/two.harn", "two"),
            ("https://x.test/acme/tools.git", "tools"),
            ("git@x.test:tools.git", "tools"),
            ("/a/b/", "b"),
        ] {
            assert_eq!(alias_for(source).expect(source), alias);
        }
        assert!(alias_for("..").expect_err("no name").0.contains("--alias"));
    }
}
