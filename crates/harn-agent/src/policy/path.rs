//! Patterns over paths. What a path comes to is worked out from its text alone, without a look at the file system.

use harn_value::glob;

/// The ways in which a path can be read: which characters part its steps. Where `\` may stand in a name it may also have
/// been meant to part steps, by a handler that was written elsewhere; what is allowed must be allowed either way.
const READINGS: &[&[char]] = if cfg!(windows) { &[&['/', '\\']] } else { &[&['/'], &['/', '\\']] };

/// Whether a path lies within a pattern, however it is written: `.`, doubled slashes and steps upwards count as what they
/// come to, so that `src//../../etc` is not below `src/*`. This is what lists of allowed paths ask.
pub(super) fn within(pattern: &str, path: &str) -> bool {
    READINGS.iter().all(|parted| glob(&normal(pattern, parted), &normal(path, parted)))
}

/// Whether a path may lie within a pattern. This is what lists of forbidden paths ask: one reading is enough.
pub(super) fn touches(pattern: &str, path: &str) -> bool {
    let reads = |parted: &&[char]| {
        let (pattern, path) = (normal(pattern, parted), normal(path, parted));
        let (bare, open) = (path.trim_end_matches('/'), format!("{path}/"));
        [&path, bare, &open].into_iter().any(|path| glob(&pattern, path))
    };
    glob(pattern, path) || READINGS.iter().any(reads)
}

/// A path without steps that go nowhere. Steps that lead out of where it begins stay, and so does a slash at its end.
fn normal(path: &str, parted: &[char]) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with(parted);
    for step in path.split(parted) {
        match (step, steps.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(steps.pop()),
            // There is nothing above the root.
            ("..", None) if is_absolute => {}
            _ => steps.push(step),
        }
    }
    let end = if steps.is_empty() || !path.ends_with(parted) { "" } else { "/" };
    format!("{}{}{end}", if is_absolute { "/" } else { "" }, steps.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            // A name with `\` in it is one step for the system.
            "a\\b/../../src/x",
        ];
        for path in climbs {
            assert!(!within("src/*", path), "{path}");
        }
        for path in ["src/a", "src/a/../b", "src/..a", "./src/a", "src//a", "src/./a", "lib/../src/a", "src/"]
        {
            assert!(within("src/*", path) && touches("src/*", path), "{path}");
        }
        assert!(within("../*", "../a") && within("/etc/*", "/src/../etc/a") && within("/etc/*", "/../etc/a"));
        assert!(within("./src/*", "src/a") && within("src//*", "src/a") && within("*", "../../x"));
    }

    #[test]
    fn what_is_forbidden_is_so_however_it_is_written() {
        for path in ["etc/a", "./etc/a", "etc//a", "x/../etc/a", "etc\\a", "etc/", "etc/.", "x/../etc"] {
            assert!(touches("etc/*", path), "{path}");
        }
        assert!(touches("etc", "etc/") && !touches("etc/*", "etcetera/a") && !touches("etc", "etc/a"));
    }

    /// Walks a path as a system does: through a list of folders that all exist, told by where they are from the start.
    fn walk(path: &str) -> (bool, i32, Vec<String>) {
        let (absolute, mut above, mut at) = (path.starts_with('/'), 0, Vec::new());
        for step in path.split('/') {
            if step == ".." && at.pop().is_none() && !absolute {
                above += 1;
            }
            if !["", ".", ".."].contains(&step) {
                at.push(step.to_owned());
            }
        }
        (absolute, above, at)
    }

    proptest! {
        #[test]
        fn a_pattern_holds_what_a_walk_leads_to(steps in prop::collection::vec("|\\.|\\.\\.|safe|a|b", 0..9)) {
            let path = steps.join("/");
            let (absolute, above, at) = walk(&path);
            let below = !absolute && above == 0 && at.first().is_some_and(|first| first == "safe");
            let inside = below && (at.len() > 1 || path.ends_with('/'));
            prop_assert_eq!(within("safe/*", &path), inside, "{}", path);
            prop_assert!(!below || touches("safe/*", &path), "{}", path);
        }
    }
}
