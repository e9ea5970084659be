//! Git remotes: reads `.git/config` and removes secrets from URLs.

use std::path::{Path, PathBuf};

use harn_value::Data as Value;

use super::folder::FolderReader;
use harn_prompt::value::{object, text};

/// A Git remote, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Name in the Git configuration.
    pub name: Option<String>,
    /// Lowercase host; `None` for a path.
    pub host: Option<String>,
    /// `owner/repo`, on GitHub only.
    pub slug: Option<String>,
    /// The URL without query, fragment and user info.
    pub url: Option<String>,
}

impl Remote {
    /// Parses a URL: `scheme://[user@]host[:port]/path`, `[user@]host:path`, or a path.
    #[must_use]
    pub fn from_url(name: Option<&str>, url: &str) -> Self {
        let parts = UrlParts::of(url.trim());
        let host = parts.host.map(|host| match host.to_lowercase().as_str() {
            // A common alias in SSH configurations.
            "github" => "github.com".to_owned(),
            other => other.to_owned(),
        });
        let slug = host.as_deref().filter(|host| *host == "github.com").and_then(|_| slug(parts.path));
        Self { name: name.map(str::to_owned), slug, url: Some(parts.redacted()), host }
    }

    /// Reads a URL, or a dict `{name?, host?, slug?, url?}` whose missing fields are derived from its URL. `None` if
    /// all fields are missing.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        if let Some(url) = value.as_str() {
            return (!url.trim().is_empty()).then(|| Self::from_url(Some("origin"), url));
        }
        let dict = value.as_object()?;
        let field = |key| text(dict, key).map(str::to_owned);
        let from_url = text(dict, "url").map(|url| Self::from_url(None, url)).unwrap_or_default();
        let remote = Self {
            name: field("name").or(from_url.name),
            host: field("host").map(|host| host.to_lowercase()).or(from_url.host),
            slug: field("slug").or(from_url.slug),
            url: from_url.url,
        };
        (remote != Self::default()).then_some(remote)
    }

    /// Returns `{name, host, slug, url}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("name", self.name.clone().into()),
            ("host", self.host.clone().into()),
            ("slug", self.slug.clone().into()),
            ("url", self.url.clone().into()),
        ])
    }
}

/// The parts of a remote URL.
struct UrlParts<'a> {
    /// `https://`, `ssh://`, ...; empty for the short SSH form and for paths.
    scheme: &'a str,
    user: Option<&'a str>,
    host: Option<&'a str>,
    /// Host with port, as written.
    authority: &'a str,
    /// The separator between authority and path: `/` or `:`.
    separator: &'a str,
    path: &'a str,
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Self {
        let url = url.split(['?', '#']).next().unwrap_or(url);
        if let Some(at) = url.find("://") {
            let (scheme, rest) = url.split_at(at + 3);
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let separator = if rest.contains('/') { "/" } else { "" };
            return Self::with_user(scheme, authority, separator, path);
        }
        // `host:path`; a one-letter host is a drive letter, and a slash before the colon makes it a path.
        match url.split_once(':') {
            Some((authority, path)) if authority.len() > 1 && !authority.contains(['/', '\\']) => {
                Self::with_user("", authority, ":", path)
            }
            _ => Self { scheme: "", user: None, host: None, authority: "", separator: "", path: url },
        }
    }

    fn with_user(scheme: &'a str, authority: &'a str, separator: &'a str, path: &'a str) -> Self {
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => authority.split(':').next().unwrap_or(authority),
        };
        Self { scheme, user, host: (!host.is_empty()).then_some(host), authority, separator, path }
    }

    /// Returns the URL without parts that may be secret. The user `git` of an SSH address is not secret.
    fn redacted(&self) -> String {
        let user = match self.user {
            None => "",
            Some("git") if self.scheme.is_empty() => "git@",
            Some(_) => "<redacted>@",
        };
        format!("{}{user}{}{}{}", self.scheme, self.authority, self.separator, self.path)
    }
}

fn slug(path: &str) -> Option<String> {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [owner, repo] if !owner.is_empty() && !repo.is_empty() => Some(format!("{owner}/{repo}")),
        _ => None,
    }
}

/// Finds the remote of the repository that contains `directory`: `origin`, else the first one.
#[must_use]
pub(crate) fn find_remote(directory: &Path, reader: &dyn FolderReader) -> Option<Remote> {
    let config = git_config(directory, reader)?;
    let remotes = parse_remotes(&config);
    let chosen = remotes.iter().find(|(name, _)| name == "origin").or(remotes.first())?;
    Some(Remote::from_url(Some(&chosen.0), &chosen.1))
}

/// Reads the configuration of the nearest repository, following worktree and `commondir` links.
fn git_config(directory: &Path, reader: &dyn FolderReader) -> Option<String> {
    for ancestor in directory.ancestors() {
        let dot_git = ancestor.join(".git");
        let git_dir = match reader.read(&dot_git) {
            Some(link) => join(ancestor, link.trim().strip_prefix("gitdir:")?.trim()),
            None if reader.list(&dot_git).is_empty() => continue,
            None => dot_git,
        };
        let common = match reader.read(&git_dir.join("commondir")) {
            Some(link) => join(&git_dir, link.trim()),
            None => git_dir,
        };
        return reader.read(&common.join("config"));
    }
    None
}

/// Joins a link to its base and resolves `..` by name.
fn join(base: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in base.join(link).components() {
        match part {
            std::path::Component::ParentDir => {
                path.pop();
            }
            std::path::Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Reads name and URL of all remotes, in order, from a Git configuration.
fn parse_remotes(config: &str) -> Vec<(String, String)> {
    let mut remotes: Vec<(String, String)> = Vec::new();
    let mut section: Option<String> = None;
    for line in config.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let name = head.strip_prefix("remote ").map(|name| name.trim().trim_matches('"').to_owned());
            section = name.filter(|name| !name.is_empty());
            continue;
        }
        let Some(name) = &section else { continue };
        let Some((key, value)) = line.split_once('=') else { continue };
        let url = value.trim().trim_matches('"');
        if key.trim().eq_ignore_ascii_case("url") && !url.is_empty() && remotes.iter().all(|(n, _)| n != name)
        {
            remotes.push((name.clone(), url.to_owned()));
        }
    }
    remotes
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;
    use crate::profile::folder::testing::MemoryFolder;

    fn remote(url: &str) -> (Option<String>, Option<String>, String) {
        let remote = Remote::from_url(Some("origin"), url);
        (remote.host, remote.slug, remote.url.unwrap())
    }

    fn github(url: &str, shown: &str) {
        assert_eq!(remote(url), (Some("github.com".into()), Some("o/r".into()), shown.into()), "{url}");
    }

    #[test]
    fn github_addresses_give_host_and_slug() {
        github("https://github.com/o/r.git", "https://github.com/o/r.git");
        github("git@github.com:o/r.git", "git@github.com:o/r.git");
        github("git@github:o/r", "git@github:o/r");
        github("ssh://git@GitHub.com:22/o/r.git/", "ssh://<redacted>@GitHub.com:22/o/r.git/");
        github("https://me:ghp_secret@github.com/o/r?token=x#y", "https://<redacted>@github.com/o/r");
        github("token@github.com:o/r", "<redacted>@github.com:o/r");
    }

    #[test]
    fn other_hosts_and_paths_have_no_slug() {
        assert_eq!(remote("https://GitLab.example/o/r.git").0.as_deref(), Some("gitlab.example"));
        assert_eq!(remote("https://gitlab.example/o/r.git").1, None);
        assert_eq!(remote("https://github.com/o/r/tree").1, None);
        assert_eq!(remote("/srv/repo.git"), (None, None, "/srv/repo.git".into()));
        assert_eq!(remote("../a:b").0, None);
        assert_eq!(remote("C:\\repo").0, None);
        assert_eq!(remote("ssh://[::1]:22/x").0.as_deref(), Some("::1"));
        assert_eq!(remote("https://host").2, "https://host");
    }

    #[test]
    fn dicts_and_urls_are_accepted() {
        let dict = Remote::from_json(&json!({"url": "https://x:y@github.com/o/r"})).unwrap();
        assert_eq!((dict.host.as_deref(), dict.slug.as_deref()), (Some("github.com"), Some("o/r")));
        assert_eq!(dict.url.as_deref(), Some("https://<redacted>@github.com/o/r"));
        assert_eq!(Remote::from_json(&json!({"slug": "o/r"})).unwrap().host, None);
        assert_eq!(Remote::from_json(&json!("")), None);
        assert_eq!(Remote::from_json(&json!({})), None);
        assert_eq!(Remote::from_json(&json!(5)), None);
    }

    #[test]
    fn origin_wins_over_the_first_remote() {
        let config = "[core]\n\turl = no\n[remote \"up\"]\n\turl = https://a/x\n\turl = https://second\n[remote \"origin\"]\n\tfetch = +x\n\tURL = \"https://b/y\"\n[branch \"main\"]\n\turl = z\n";
        let folder = MemoryFolder::of(&[("/p/.git/config", config), ("/p/src/a.rs", "")]);
        let found = find_remote(Path::new("/p/src"), &folder).unwrap();
        assert_eq!((found.name.as_deref(), found.host.as_deref()), (Some("origin"), Some("b")));
        let first = MemoryFolder::of(&[("/p/.git/config", "[remote \"up\"]\nurl = https://a/x")]);
        assert_eq!(find_remote(Path::new("/p"), &first).unwrap().name.as_deref(), Some("up"));
        assert_eq!(find_remote(Path::new("/p"), &MemoryFolder::of(&[])), None);
    }

    #[test]
    fn worktrees_lead_to_the_common_configuration() {
        let folder = MemoryFolder::of(&[
            ("/w/tree/.git", "gitdir: ../../repo/.git/worktrees/tree\n"),
            ("/repo/.git/worktrees/tree/commondir", "../..\n"),
            ("/repo/.git/config", "[remote \"origin\"]\nurl = git@github.com:o/r.git"),
        ]);
        assert_eq!(find_remote(Path::new("/w/tree/deep"), &folder).unwrap().slug.as_deref(), Some("o/r"));
    }
}
