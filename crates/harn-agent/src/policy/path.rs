//! Patterns over paths. Both are resolved before they are compared: symbolic links are followed.

use harn_value::glob;

/// Resolves paths.
pub trait Paths {
    /// Returns the absolute path with all links resolved; the target need not exist. `None` if it is unknown, for
    /// example for a dangling link: such a path matches no pattern that permits and every pattern that forbids.
    fn real(&self, path: &str) -> Option<String>;
}

/// Resolves no path: all are unknown.
#[derive(Debug, Clone, Copy)]
pub struct NoPaths;

impl Paths for NoPaths {
    fn real(&self, _: &str) -> Option<String> {
        None
    }
}

/// Returns whether a path matches a pattern in all of its interpretations. Relative patterns start at the working
/// directory, unless they start with `*`. Used for lists of allowed paths.
pub(super) fn within(paths: &dyn Paths, pattern: &str, path: &str) -> bool {
    readings(pattern, path).all(|(pattern, path)| {
        let Some(Place { absolute: pattern, .. }) = Place::of_pattern(paths, &pattern) else { return false };
        ways(&path).all(|path| Place::of(paths, &path).is_some_and(|path| glob(&pattern, &path.absolute)))
    })
}

/// Returns whether a path matches a pattern in any of its interpretations. A pattern above the working directory, such
/// as `/*`, does not forbid paths below it. Used for lists of forbidden paths.
pub(super) fn touches(paths: &dyn Paths, pattern: &str, path: &str) -> bool {
    let fits = |pattern: &str, path: &str| {
        let (bare, open) = (path.trim_end_matches('/'), format!("{path}/"));
        [path, bare, &open].into_iter().any(|path| glob(pattern, path))
    };
    glob(pattern, path)
        || readings(pattern, path).any(|(pattern, path)| {
            let place = Place::of_pattern(paths, &pattern);
            fits(&normal(&pattern), &normal(&path))
                || ways(&path).any(|path| match (&place, Place::of(paths, &path)) {
                    (Some(pattern), Some(path)) => fits(&pattern.local, &path.local),
                    (None, Some(_)) => false,
                    (_, None) => true,
                })
        })
}

/// A path, or a pattern over paths, with links resolved.
struct Place {
    absolute: String,
    /// Relative to the working directory if below it, else absolute.
    local: String,
}

impl Place {
    fn of(paths: &dyn Paths, path: &str) -> Option<Place> {
        let mut real = paths.real(path)?;
        if path.ends_with('/') && !real.ends_with('/') {
            real.push('/');
        }
        Place::new(paths, real)
    }

    /// Resolves the directory before the first `*`.
    fn of_pattern(paths: &dyn Paths, pattern: &str) -> Option<Place> {
        if pattern.starts_with('*') {
            return Some(Place { absolute: pattern.to_owned(), local: pattern.to_owned() });
        }
        let pattern = normal(pattern);
        let fixed = pattern.find('*').unwrap_or(pattern.len());
        let (dir, rest) = match pattern[..fixed].rfind('/') {
            Some(0) => ("/", &pattern[1..]),
            Some(at) => (&pattern[..at], &pattern[at + 1..]),
            None => (".", &*pattern),
        };
        let dir = paths.real(dir)?;
        Place::new(paths, format!("{}/{rest}", dir.trim_end_matches('/')))
    }

    fn new(paths: &dyn Paths, absolute: String) -> Option<Place> {
        let here = paths.real(".")?;
        let below = absolute.strip_prefix(here.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        let local = below.filter(|_| here != "/").unwrap_or(&absolute).to_owned();
        Some(Place { absolute, local })
    }
}

/// Returns the interpretations of a pattern and a path. Where `\` is legal in a file name, a handler from another
/// platform may still use it as a separator.
fn readings(pattern: &str, path: &str) -> impl Iterator<Item = (String, String)> {
    let slashes = |text: &str| text.replace('\\', "/");
    let parted = path.contains('\\').then(|| (slashes(pattern), slashes(path)));
    let plain = (!cfg!(windows) || parted.is_none()).then(|| (pattern.to_owned(), path.to_owned()));
    plain.into_iter().chain(parted)
}

/// Returns the interpretations of `..`: relative to the target of a link, as programs resolve it, or lexically, as Harn
/// does.
fn ways(path: &str) -> impl Iterator<Item = String> {
    let text = normal(path);
    let is_other = text != path;
    std::iter::once(path.to_owned()).chain(is_other.then_some(text))
}

/// Normalizes a path lexically. Leading `..` of a relative path remain, and so does a trailing slash.
fn normal(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    for step in path.split('/') {
        match (step, steps.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(steps.pop()),
            // The root has no parent.
            ("..", None) if is_absolute => {}
            _ => steps.push(step),
        }
    }
    let end = if steps.is_empty() || !path.ends_with('/') { "" } else { "/" };
    format!("{}{}{end}", if is_absolute { "/" } else { "" }, steps.join("/"))
}

/// A file system of directories and links in `/home/me/work`, for tests.
#[cfg(test)]
pub(super) struct Tree(pub(super) Vec<(&'static str, &'static str)>);

#[cfg(test)]
impl Paths for Tree {
    fn real(&self, path: &str) -> Option<String> {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/home/me/work/{path}") };
        let mut at = String::new();
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        for _ in 0..99 {
            let Some(step) = rest.pop() else { return Some(if at.is_empty() { "/".to_owned() } else { at }) };
            match step.as_str() {
                "" | "." => {}
                ".." => at.truncate(at.rfind('/').unwrap_or(0)),
                step => {
                    let place = format!("{at}/{step}");
                    match self.0.iter().find(|(link, _)| *link == place) {
                        Some((_, target)) => {
                            if target.starts_with('/') {
                                at.clear();
                            }
                            rest.extend(target.split('/').rev().map(str::to_owned));
                        }
                        None => at = place,
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Tree = Tree(Vec::new());

    fn within(pattern: &str, path: &str) -> bool {
        super::within(&PLAIN, pattern, path)
    }

    fn touches(pattern: &str, path: &str) -> bool {
        super::touches(&PLAIN, pattern, path)
    }

    #[test]
    fn a_path_counts_as_what_it_comes_to() {
        let climbs = [
            "src/../etc/a",
            "src/a/../../etc",
            "../src/a",
            "src/./../etc",
            "src\\..\\etc",
            "src//../../pwn.txt",
            "src//..//..//x",
            "src/.//../../x",
            "src/a//../../x",
            "/src/a",
            // For the operating system, a name with `\` in it is one path component.
            "a\\b/../../src/x",
        ];
        for path in climbs {
            assert!(!within("src/*", path), "{path}");
        }
        for path in [
            "src/a",
            "src/a/../b",
            "src/..a",
            "./src/a",
            "src//a",
            "src/./a",
            "lib/../src/a",
            "src/",
            "/home/me/work/src/a",
            "../work/src/a",
        ] {
            assert!(within("src/*", path) && touches("src/*", path), "{path}");
        }
        assert!(within("../*", "../a") && within("/etc/*", "/src/../etc/a") && within("/etc/*", "/../etc/a"));
        assert!(within("./src/*", "src/a") && within("src//*", "src/a") && within("*", "../../x"));
        assert!(within("/home/me/work/s*", "src/a") && within("s*", "src/a") && !within("s*", "../src/a"));
        assert!(within("*.md", "docs/a.md") && !within("*.md", "a.txt") && !within("src/*", ""));
    }

    #[test]
    fn what_is_forbidden_is_so_however_it_is_written() {
        for path in [
            "etc/a",
            "./etc/a",
            "etc//a",
            "x/../etc/a",
            "etc\\a",
            "etc/",
            "etc/.",
            "x/../etc",
            "/home/me/work/etc/a",
            "../work/etc/a",
        ] {
            assert!(touches("etc/*", path), "{path}");
        }
        assert!(touches("etc", "etc/") && !touches("etc/*", "etcetera/a") && !touches("etc", "etc/a"));
        assert!(touches("/*", "../x") && touches("../*", "/home/me/x") && touches("*", "x"));
        assert!(!touches("/*", "src/a") && !touches("../*", "src/a") && !touches("*.md", "a.txt"));
    }

    #[test]
    fn links_are_followed_in_paths_and_patterns() {
        let tree = Tree(vec![
            ("/home/me/work/safe/out", "/etc"),
            ("/home/me/work/safe/up", "../.."),
            ("/home/me/work/safe/note.md", "/etc/passwd"),
            ("/home/me/work/safe/in", "deep/er"),
            ("/home/me/work/safe/loop", "loop"),
            ("/home/me/work/alias", "safe"),
            ("/home/me/work/data", "/srv/data"),
            ("/home/me/work/x", "/home/me/work/secret"),
        ]);
        for path in [
            "safe/out/passwd",
            "safe/out",
            "safe/up/.ssh/id",
            "safe/note.md",
            "safe/loop",
            "safe/loop/a",
            "safe/in/../../../b",
            // Lexically this path is inside `safe`, but a program resolves it to another place.
            "safe/up/../a",
            "alias/out/passwd",
            "data/a",
        ] {
            assert!(!super::within(&tree, "safe/*", path), "{path}");
        }
        for path in ["safe/a", "safe/in/a", "safe/in/../a", "alias/a", "/home/me/work/alias/a"] {
            assert!(super::within(&tree, "safe/*", path) && super::within(&tree, "alias/*", path), "{path}");
        }
        assert!(super::within(&tree, "data/*", "/srv/data/a") && super::within(&tree, "/srv/*", "data/a"));
        assert!(
            !super::within(&tree, "*.md", "safe/note.md") && super::within(&tree, "*.md", "safe/in/a.md")
        );
        for path in ["x/key", "secret/key", "safe/loop", "alias/../x/key", "/home/me/work/x"] {
            assert!(super::touches(&tree, "secret/*", path), "{path}");
        }
        assert!(
            super::touches(&tree, "/etc/*", "safe/out/passwd") && super::touches(&tree, "x/*", "secret/a")
        );
        assert!(!super::touches(&tree, "secret/*", "safe/a") && !super::touches(&tree, "/srv/*", "safe/a"));
        assert!(!super::within(&NoPaths, "*", "a") && super::touches(&NoPaths, "x", "a"));
    }

    /// Resolves a path as an operating system does, through directories that all exist.
    fn walk(path: &str) -> Vec<String> {
        let here = if path.starts_with('/') { "" } else { "home/me/work" };
        let mut at: Vec<String> =
            here.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        for step in path.split('/').filter(|step| !["", "."].contains(step)) {
            if step == ".." {
                at.pop();
            } else {
                at.push(step.to_owned());
            }
        }
        at
    }

    proptest! {
        #[test]
        fn a_pattern_holds_what_a_walk_leads_to(steps in prop::collection::vec("|\\.|\\.\\.|safe|work|a|b", 0..9)) {
            let path = steps.join("/");
            let at = walk(&path);
            let below = at.starts_with(&["home", "me", "work", "safe"].map(str::to_owned));
            let inside = below && (at.len() > 4 || path.ends_with('/'));
            prop_assert_eq!(within("safe/*", &path), inside, "{}", path);
            prop_assert!(!below || touches("safe/*", &path), "{}", path);
        }

        #[test]
        fn nothing_is_permitted_that_leads_elsewhere(
            steps in prop::collection::vec("|\\.|\\.\\.|safe|out|up|in|alias|a", 0..9),
        ) {
            let tree = Tree(vec![
                ("/home/me/work/safe/out", "/etc"),
                ("/home/me/work/safe/up", "../.."),
                ("/home/me/work/safe/in", "a/safe"),
                ("/home/me/work/alias", "safe/in"),
            ]);
            let path = steps.join("/");
            let leads = |path: &str| format!("{}/", tree.real(path).unwrap_or_default()).starts_with("/home/me/work/safe/");
            let (as_program, as_text) = (leads(&path), leads(&normal(&path)));
            prop_assert!(!super::within(&tree, "safe/*", &path) || (as_program && as_text), "{}", path);
            prop_assert!(super::touches(&tree, "safe/*", &path) || !(as_program || as_text), "{}", path);
        }
    }
}
