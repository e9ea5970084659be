//! `project_fingerprint`: languages, tools and layout of a project, from its manifests.

use std::collections::BTreeSet;
use std::path::Path;

use harn_value::{Data as Value, data::Map};

use super::folder::FolderReader;

/// Maximum depth of directories below the project that are scanned.
const DEPTH: usize = 4;

/// Directories that do not contain the project's own manifests.
const SKIPPED: [&str; 15] = [
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    ".build",
    ".venv",
    "venv",
    "__pycache__",
    ".next",
    ".harn",
    ".harn-runs",
];

const LANGUAGES: [&str; 6] = ["rust", "typescript", "python", "go", "swift", "ruby"];
const FRAMEWORKS: [&str; 6] = ["axum", "next", "react", "django", "fastapi", "rails"];
const MANAGERS: [&str; 10] =
    ["cargo", "spm", "pnpm", "npm", "yarn", "uv", "poetry", "pip", "go-mod", "bundler"];
const RUNNERS: [&str; 11] = [
    "nextest",
    "cargo-test",
    "vitest",
    "jest",
    "mocha",
    "pytest",
    "unittest",
    "go-test",
    "xctest",
    "rspec",
    "minitest",
];
const BUILD_TOOLS: [&str; 11] =
    ["cargo", "spm", "next", "vite", "uv", "poetry", "pnpm", "npm", "yarn", "go", "bundler"];
/// Runners that are implied by the language and so do not prove that there are tests.
const IMPLIED_RUNNERS: [&str; 4] = ["cargo-test", "nextest", "go-test", "xctest"];
const LOCK_FILES: [&str; 12] = [
    "Cargo.lock",
    "Package.resolved",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "go.sum",
    "Gemfile.lock",
    "bun.lock",
];
const TEST_FOLDERS: [&str; 4] = ["test", "tests", "__tests__", "spec"];
const CI_FILES: [(&str, &str); 4] = [
    (".gitlab-ci.yml", "gitlab-ci"),
    (".circleci/config.yml", "circleci"),
    ("azure-pipelines.yml", "azure-pipelines"),
    ("Jenkinsfile", "jenkins"),
];

/// The facts found in the manifests of a tree.
#[derive(Default)]
struct Found {
    languages: BTreeSet<&'static str>,
    frameworks: BTreeSet<&'static str>,
    managers: BTreeSet<&'static str>,
    runners: BTreeSet<&'static str>,
    build_tools: BTreeSet<&'static str>,
    lock_files: BTreeSet<String>,
    test_folder: bool,
}

/// The result of scanning a project directory.
pub struct Scan {
    found: Found,
    vcs: Option<&'static str>,
    ci: Option<&'static str>,
}

/// Reads the fingerprint of the project in `directory` from its manifests, up to four levels deep.
#[must_use]
pub fn project_fingerprint(directory: &Path, reader: &dyn FolderReader) -> Map<String, Value> {
    Scan::of(directory, reader).fingerprint()
}

impl Scan {
    /// Scans the manifests in `directory`, up to four levels deep.
    #[must_use]
    pub fn of(directory: &Path, reader: &dyn FolderReader) -> Self {
        let mut found = Found::default();
        walk(directory, "", 0, reader, &mut found);
        Self { found, vcs: vcs(directory, reader), ci: ci(directory, reader) }
    }

    /// Returns the test runners of all languages, in fixed order.
    #[must_use]
    pub(crate) fn test_runners(&self) -> Vec<String> {
        in_order(&RUNNERS, &self.found.runners).into_iter().map(str::to_owned).collect()
    }

    /// Returns the dict of `project_fingerprint`.
    #[must_use]
    pub fn fingerprint(&self) -> Map<String, Value> {
        let found = &self.found;
        let languages = in_order(&LANGUAGES, &found.languages);
        let managers = in_order(&MANAGERS, &found.managers);
        let runners = in_order(&RUNNERS, &found.runners);
        let build_tools = in_order(&BUILD_TOOLS, &found.build_tools);
        let first = |list: &[&'static str]| list.first().copied();
        let primary = match languages.as_slice() {
            [] => "unknown",
            [one] => one,
            _ => "mixed",
        };
        let has_tests = found.test_folder || runners.iter().any(|runner| !IMPLIED_RUNNERS.contains(runner));
        let fields: [(&str, Value); 12] = [
            ("primary_language", primary.into()),
            ("languages", languages.into()),
            ("frameworks", in_order(&FRAMEWORKS, &found.frameworks).into()),
            ("package_manager", first(&managers).into()),
            ("package_managers", managers.into()),
            ("test_runner", first(&runners).into()),
            ("build_tool", first(&build_tools).into()),
            ("vcs", self.vcs.into()),
            ("ci", self.ci.into()),
            ("has_tests", has_tests.into()),
            ("has_ci", self.ci.is_some().into()),
            ("lockfile_paths", found.lock_files.iter().cloned().collect::<Vec<_>>().into()),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn in_order(order: &[&'static str], found: &BTreeSet<&'static str>) -> Vec<&'static str> {
    order.iter().filter(|name| found.contains(*name)).copied().collect()
}

fn walk(folder: &Path, relative: &str, depth: usize, reader: &dyn FolderReader, found: &mut Found) {
    let mut entries = reader.list(folder);
    entries.sort();
    let names: BTreeSet<&str> = entries.iter().filter(|e| !e.is_dir).map(|e| e.name.as_str()).collect();
    read_manifests(folder, &names, reader, found);
    for name in names.iter().filter(|name| LOCK_FILES.contains(*name)) {
        found.lock_files.insert(format!("{relative}{name}"));
    }
    for entry in entries.iter().filter(|e| e.is_dir && !SKIPPED.contains(&e.name.as_str())) {
        found.test_folder |= TEST_FOLDERS.contains(&entry.name.to_lowercase().as_str());
        if depth < DEPTH {
            let below = format!("{relative}{}/", entry.name);
            walk(&folder.join(&entry.name), &below, depth + 1, reader, found);
        }
    }
}

fn read_manifests(folder: &Path, names: &BTreeSet<&str>, reader: &dyn FolderReader, found: &mut Found) {
    let text = |name: &str| names.contains(name).then(|| reader.read(&folder.join(name)).unwrap_or_default());
    if let Some(manifest) = text("Cargo.toml") {
        let nextest = reader.read(&folder.join(".config/nextest.toml")).is_some();
        found.languages.insert("rust");
        found.managers.insert("cargo");
        found.build_tools.insert("cargo");
        found.runners.insert(if nextest { "nextest" } else { "cargo-test" });
        mark(&manifest, &["axum"], &mut found.frameworks);
    }
    if names.contains("Package.swift") {
        found.languages.insert("swift");
        found.managers.insert("spm");
        found.build_tools.insert("spm");
        found.runners.insert("xctest");
    }
    if let Some(manifest) = text("package.json") {
        node(&manifest, names, found);
    }
    let python = ["pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile"];
    if python.iter().any(|name| names.contains(name)) {
        let manifest = python.iter().filter_map(|name| text(name)).collect::<Vec<_>>().join("\n");
        python_stack(&manifest, names, found);
    }
    if names.contains("go.mod") {
        found.languages.insert("go");
        found.managers.insert("go-mod");
        found.runners.insert("go-test");
        found.build_tools.insert("go");
    }
    if let Some(manifest) = text("Gemfile") {
        found.languages.insert("ruby");
        found.managers.insert("bundler");
        found.build_tools.insert("bundler");
        mark(&manifest, &["rspec", "minitest"], &mut found.runners);
        mark(&manifest, &["rails"], &mut found.frameworks);
    }
}

/// Adds the names that occur in a manifest as whole words.
fn mark(manifest: &str, names: &[&'static str], set: &mut BTreeSet<&'static str>) {
    let words: BTreeSet<&str> = manifest.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    set.extend(names.iter().filter(|name| words.contains(*name)));
}

fn node(manifest: &str, names: &BTreeSet<&str>, found: &mut Found) {
    found.languages.insert("typescript");
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    let declared = manifest["packageManager"].as_str().and_then(|m| m.split('@').next()).unwrap_or_default();
    let by_lock = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("package-lock.json", "npm")];
    let manager = ["pnpm", "yarn", "npm"]
        .into_iter()
        .find(|name| *name == declared)
        .or_else(|| by_lock.iter().find(|(lock, _)| names.contains(lock)).map(|(_, manager)| *manager))
        .unwrap_or("npm");
    found.managers.insert(manager);
    let groups = ["dependencies", "devDependencies", "peerDependencies"];
    let depends = |name: &str| {
        groups.iter().any(|group| manifest[*group].as_object().is_some_and(|d| d.contains_key(name)))
    };
    found.runners.extend(["vitest", "jest", "mocha"].into_iter().filter(|name| depends(name)));
    found.frameworks.extend(["next", "react"].into_iter().filter(|name| depends(name)));
    let bundlers: Vec<_> = ["next", "vite"].into_iter().filter(|name| depends(name)).collect();
    found.build_tools.extend(if bundlers.is_empty() { vec![manager] } else { bundlers });
}

fn python_stack(manifest: &str, names: &BTreeSet<&str>, found: &mut Found) {
    found.languages.insert("python");
    let uses = |lock: &str, table: &str| names.contains(lock) || manifest.contains(table);
    let manager = if uses("poetry.lock", "[tool.poetry") {
        "poetry"
    } else if uses("uv.lock", "[tool.uv") {
        "uv"
    } else {
        "pip"
    };
    found.managers.insert(manager);
    if manager != "pip" {
        found.build_tools.insert(manager);
    }
    mark(manifest, &["pytest"], &mut found.runners);
    mark(manifest, &["django", "fastapi"], &mut found.frameworks);
    // Distribution names are often capitalized.
    mark(&manifest.to_lowercase(), &["django", "fastapi"], &mut found.frameworks);
}

fn vcs(directory: &Path, reader: &dyn FolderReader) -> Option<&'static str> {
    let has = |folder: &Path, name: &str| {
        let path = folder.join(name);
        !reader.list(&path).is_empty() || reader.read(&path).is_some()
    };
    directory.ancestors().find_map(|folder| {
        [(".git", "git"), (".hg", "hg")].into_iter().find(|(name, _)| has(folder, name)).map(|(_, vcs)| vcs)
    })
}

fn ci(directory: &Path, reader: &dyn FolderReader) -> Option<&'static str> {
    let workflows = reader.list(&directory.join(".github/workflows"));
    let is_workflow = |name: &str| name.ends_with(".yml") || name.ends_with(".yaml");
    if workflows.iter().any(|entry| !entry.is_dir && is_workflow(&entry.name)) {
        return Some("github-actions");
    }
    CI_FILES.iter().find(|(file, _)| reader.read(&directory.join(file)).is_some()).map(|(_, ci)| *ci)
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::profile::folder::testing::MemoryFolder;

    fn fingerprint(files: &[(&str, &str)]) -> Value {
        let files: Vec<_> = files.iter().map(|(path, text)| (format!("/p/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        project_fingerprint(Path::new("/p"), &MemoryFolder::of(&files)).into()
    }

    #[test]
    fn an_empty_folder_is_unknown() {
        assert_eq!(
            fingerprint(&[]),
            json!({"primary_language": "unknown", "languages": [], "frameworks": [], "package_manager": null,
                "package_managers": [], "test_runner": null, "build_tool": null, "vcs": null, "ci": null,
                "has_tests": false, "has_ci": false, "lockfile_paths": []})
        );
    }

    #[test]
    fn a_rust_workspace() {
        let found = fingerprint(&[
            ("Cargo.toml", "[dependencies]\naxum = \"0.8\""),
            ("Cargo.lock", ""),
            ("crates/a/Cargo.toml", ""),
            (".config/nextest.toml", ""),
            (".github/workflows/ci.yml", ""),
            (".git/HEAD", "ref"),
            ("target/x/package.json", "{}"),
        ]);
        assert_eq!(
            found,
            json!({"primary_language": "rust", "languages": ["rust"], "frameworks": ["axum"], "package_manager": "cargo",
                "package_managers": ["cargo"], "test_runner": "nextest", "build_tool": "cargo", "vcs": "git",
                "ci": "github-actions", "has_tests": false, "has_ci": true, "lockfile_paths": ["Cargo.lock"]})
        );
    }

    #[test]
    fn a_mixed_project_lists_in_fixed_order() {
        let found = fingerprint(&[
            (
                "ui/package.json",
                "{\"packageManager\": \"pnpm@9\", \"dependencies\": {\"react\": \"1\", \"next\": \"1\"}, \"devDependencies\": {\"jest\": \"1\"}}",
            ),
            ("api/pyproject.toml", "[tool.poetry]\n[dependencies]\nDjango = \"5\"\npytest = \"8\""),
            ("api/poetry.lock", ""),
            ("go.mod", ""),
            ("go.sum", ""),
            ("lib/Gemfile", "gem 'rails'\ngem 'rspec'"),
            ("Package.swift", ""),
        ]);
        assert_eq!(found["languages"], json!(["typescript", "python", "go", "swift", "ruby"]));
        assert_eq!(found["primary_language"], "mixed");
        assert_eq!(found["frameworks"], json!(["next", "react", "django", "rails"]));
        assert_eq!(found["package_managers"], json!(["spm", "pnpm", "poetry", "go-mod", "bundler"]));
        assert_eq!(found["test_runner"], "jest");
        assert_eq!(found["build_tool"], "spm");
        assert_eq!(found["lockfile_paths"], json!(["api/poetry.lock", "go.sum"]));
        assert_eq!(found["has_tests"], true, "a runner named in a manifest");
    }

    #[test]
    fn node_managers_come_from_the_manifest_then_the_lock_file() {
        let manager = |files: &[(&str, &str)]| fingerprint(files)["package_manager"].clone();
        assert_eq!(manager(&[("package.json", "{}")]), "npm");
        assert_eq!(manager(&[("package.json", "{}"), ("yarn.lock", "")]), "yarn");
        assert_eq!(
            manager(&[("package.json", "{\"packageManager\": \"npm@10\"}"), ("yarn.lock", "")]),
            "npm"
        );
        assert_eq!(manager(&[("package.json", "not json")]), "npm");
        assert_eq!(
            fingerprint(&[("package.json", "{\"devDependencies\": {\"vite\": \"5\"}}")])["build_tool"],
            "vite"
        );
    }

    #[test]
    fn tests_are_folders_or_named_runners_and_depth_is_limited() {
        assert_eq!(fingerprint(&[("a/Tests/x.rs", "")])["has_tests"], true);
        assert_eq!(fingerprint(&[("Cargo.toml", "")])["has_tests"], false);
        assert_eq!(fingerprint(&[("1/2/3/4/go.mod", "")])["languages"], json!(["go"]));
        assert_eq!(fingerprint(&[("1/2/3/4/5/go.mod", "")])["languages"], json!([]));
        assert_eq!(fingerprint(&[("requirements.txt", "FastAPI==1\nuv")])["package_manager"], "pip");
        assert_eq!(fingerprint(&[("pyproject.toml", "[tool.uv]")])["build_tool"], "uv");
    }
}
