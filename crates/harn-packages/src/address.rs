//! Validates addresses of repositories and names in them before git uses them.

use std::path::Path;

use crate::{Result, trouble};

/// Allowed protocols of git.
pub(crate) const PROTOCOLS: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// Returns whether a source that a user typed is a repository rather than a path.
#[must_use]
pub fn looks_like_a_repository(source: &str) -> bool {
    let scp = source.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
    source.contains("://") || scp || source.ends_with(".git")
}

/// Parses `HOST/OWNER/REPOSITORY@TAG`, as in `github.com/acme/tools@v1`, into address and tag; the tag is optional.
#[must_use]
pub fn short_form(source: &str) -> Option<(String, Option<String>)> {
    let (place, tag) = match source.rsplit_once('@') {
        Some((place, tag)) => (place, Some(tag.to_owned()).filter(|tag| !tag.is_empty())),
        None => (source, None),
    };
    let parts: Vec<&str> = place.split('/').collect();
    let is_host =
        |host: &str| host.contains('.') && !host.starts_with('.') && !host.contains([':', '@', '\\']);
    let fits = parts.len() >= 3
        && is_host(parts[0])
        && parts[1..].iter().all(|part| !part.trim_matches('.').is_empty());
    fits.then(|| (format!("https://{place}"), tag))
}

/// Rejects addresses that git would interpret as an option or a helper, and passwords, which would be written to the
/// lock file.
pub(crate) fn check(alias: &str, url: &str) -> Result<()> {
    let wrong = |why: &str| trouble(format!("dependency {alias}: the address {why}"));
    if url.chars().any(char::is_control) {
        return wrong("of its repository has control characters");
    }
    let scp = url.split_once(':').is_some_and(|(host, path)| {
        host.contains('@') && !host.contains('/') && !host.starts_with('-') && !path.starts_with(':')
    });
    let known = match url.split_once("://") {
        Some((scheme, _)) => PROTOCOLS.contains(&scheme),
        None => scp || Path::new(url).is_absolute(),
    };
    if !known {
        return wrong(&format!(
            "'{url}' is none that git is asked here; there are https://..., ssh://..., git@HOST:PATH, file:///... and \
             absolute paths"
        ));
    }
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        return wrong(
            "of its repository holds a password, which would be written to harn.lock; git has credential helpers",
        );
    }
    Ok(())
}

/// Rejects names of tags, commits and branches that git would interpret differently. `what` is the kind of name, for
/// messages.
pub(crate) fn check_name(alias: &str, name: &str, what: &str) -> Result<()> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    if name.starts_with('-') || name.contains(odd) || name.contains("..") || name.contains("@{") {
        return trouble(format!("dependency {alias}: '{name}' cannot be the name of {what}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_of_repositories() {
        let of = |source: &str| short_form(source).map(|(url, tag)| (url, tag.unwrap_or_default()));
        let found = |url: &str, tag: &str| Some((url.to_owned(), tag.to_owned()));
        assert_eq!(of("github.com/acme/tools@v1"), found("https://github.com/acme/tools", "v1"));
        assert_eq!(of("git.x.test/a/b/c"), found("https://git.x.test/a/b/c", ""));
        for other in [
            "../a/b/c",
            "./a/b",
            "a/b/c",
            "x.test/a",
            "https://x.test/a/b",
            "git@x.test:a/b/c",
            "x.test/../b",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
