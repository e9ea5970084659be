//! Assigns a project's tools to profiles: a directory may contain several ecosystems, and each profile names only its
//! own package manager, test runner and frameworks.

use harn_value::{Data as Value, data::Map};

use super::signals::Signals;

/// The tools of an ecosystem.
struct Ecosystem {
    /// The id of its profile; empty for those without one.
    profile: &'static str,
    managers: &'static [&'static str],
    runners: &'static [&'static str],
    frameworks: &'static [&'static str],
}

const ECOSYSTEMS: [Ecosystem; 5] = [
    Ecosystem {
        profile: "rust",
        managers: &["cargo"],
        runners: &["nextest", "cargo-test"],
        frameworks: &["axum"],
    },
    Ecosystem {
        profile: "node",
        managers: &["pnpm", "npm", "yarn"],
        runners: &["vitest", "jest", "mocha"],
        frameworks: &["next", "react"],
    },
    Ecosystem {
        profile: "python",
        managers: &["uv", "poetry", "pip"],
        runners: &["pytest", "unittest"],
        frameworks: &["django", "fastapi"],
    },
    Ecosystem { profile: "swift", managers: &["spm"], runners: &["xctest"], frameworks: &[] },
    Ecosystem {
        profile: "",
        managers: &["go-mod", "bundler"],
        runners: &["go-test", "rspec", "minitest"],
        frameworks: &["rails"],
    },
];

/// Returns the bindings for the body of a profile: those of the signals, restricted to the profile. A tool of no known
/// ecosystem is assigned to the language of a project that has one.
pub(super) fn bindings(profile: &str, signals: &Signals) -> Map<String, Value> {
    let mut bindings = signals.bindings();
    if !ECOSYSTEMS.iter().any(|ecosystem| ecosystem.profile == profile) {
        return bindings;
    }
    let alone = signals.list("languages").len() <= 1 && signals.text("primary_language") != Some("mixed");
    let own = |names: Vec<&str>, tools: fn(&Ecosystem) -> &'static [&'static str]| -> Vec<String> {
        let owner = |name: &str| ECOSYSTEMS.iter().find(|ecosystem| tools(ecosystem).contains(&name));
        let is_own = |name: &&str| owner(name).map_or(alone, |ecosystem| ecosystem.profile == profile);
        names.into_iter().filter(is_own).map(str::to_owned).collect()
    };
    let with_first = |first: &str, mut rest: Vec<&'_ str>| -> Vec<String> {
        let first = signals.text(first);
        rest.retain(|name| Some(*name) != first);
        first.into_iter().chain(rest).map(str::to_owned).collect()
    };
    let managers = with_first("package_manager", signals.list("package_managers"));
    let managers = own(managers.iter().map(String::as_str).collect(), |e| e.managers);
    let runners = with_first("test_runner", signals.test_runners.iter().map(String::as_str).collect());
    let runners = own(runners.iter().map(String::as_str).collect(), |e| e.runners);
    bindings.insert("package_manager".to_owned(), managers.first().cloned().into());
    bindings.insert("package_managers".to_owned(), managers.into());
    bindings.insert("test_runner".to_owned(), runners.first().cloned().into());
    bindings.insert("frameworks".to_owned(), own(signals.list("frameworks"), |e| e.frameworks).into());
    bindings
}
