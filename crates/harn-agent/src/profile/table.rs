//! The six profiles: their conditions and contents.

use super::signals::Signals;

/// A profile of the table.
pub(super) struct Profile {
    pub(super) id: &'static str,
    /// Returns why the signals match the profile; `None` if they do not.
    pub(super) reason: fn(&Signals) -> Option<String>,
    pub(super) cap: &'static str,
    pub(super) skills: &'static [&'static str],
    pub(super) tool_groups: &'static [&'static str],
    pub(super) mcp_presets: &'static [&'static str],
}

/// MCP presets, with the required credential alias and the variable to name if it is missing.
pub(super) const PRESET_CREDENTIALS: [(&str, &str, &str); 1] =
    [("github", "github", "GITHUB_PERSONAL_ACCESS_TOKEN")];

pub(super) const PROFILES: [Profile; 6] = [
    Profile {
        id: "git",
        reason: |s| (s.text("vcs") == Some("git") || s.remote.is_some()).then(|| "vcs=git".to_owned()),
        cap: "vcs.git",
        skills: &["git"],
        tool_groups: &["git"],
        mcp_presets: &[],
    },
    Profile {
        id: "github",
        reason: github,
        cap: "remote.github",
        skills: &["github"],
        tool_groups: &["github"],
        mcp_presets: &["github"],
    },
    Profile {
        id: "rust",
        reason: |s| language(s, "rust"),
        cap: "language.rust",
        skills: &["rust"],
        tool_groups: &["cargo"],
        mcp_presets: &[],
    },
    Profile {
        id: "node",
        reason: node,
        cap: "ecosystem.node",
        skills: &["node", "typescript"],
        tool_groups: &["node"],
        mcp_presets: &[],
    },
    Profile {
        id: "python",
        reason: |s| language(s, "python"),
        cap: "language.python",
        skills: &["python"],
        tool_groups: &["python"],
        mcp_presets: &[],
    },
    Profile {
        id: "swift",
        reason: |s| language(s, "swift"),
        cap: "language.swift",
        skills: &["swift"],
        tool_groups: &["swift"],
        mcp_presets: &[],
    },
];

fn language(signals: &Signals, name: &str) -> Option<String> {
    signals.has_language(name).then(|| format!("language={name}"))
}

fn node(signals: &Signals) -> Option<String> {
    let language = ["typescript", "javascript"].iter().any(|name| signals.has_language(name));
    let manager = ["npm", "pnpm", "yarn"].iter().any(|name| signals.has_package_manager(name));
    (language || manager).then(|| "ecosystem=node".to_owned())
}

fn github(signals: &Signals) -> Option<String> {
    let remote = signals.remote.as_ref()?;
    let matches = match remote.host.as_deref() {
        Some(host) => host == "github.com",
        None => remote.slug.is_some(),
    };
    let named = || match &remote.slug {
        Some(slug) => format!("github remote `{slug}`"),
        None => "github remote".to_owned(),
    };
    matches.then(named)
}
