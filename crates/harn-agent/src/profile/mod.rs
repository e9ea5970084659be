//! The project context profile: signals of a project directory as capability-gated fragments.
//!
//! [`project_context_profile`] is pure: it takes collected [`Signals`]. [`collect()`] gathers them through a
//! [`FolderReader`], which the host implements with the file access that it allows.

mod check;
pub mod collect;
mod ecosystem;
pub mod fingerprint;
pub mod folder;
pub mod remote;
pub mod signals;
mod table;

use harn_value::Data as Value;

pub use check::{ProfileOptionError, check_options};
pub use collect::collect;
pub use folder::{Entry, FolderReader};
pub use remote::Remote;
pub use signals::Signals;

use harn_prompt::prose::{Prose, ProseError};
use harn_prompt::reduce::SEPARATOR;
use harn_prompt::value::object;
use table::{PRESET_CREDENTIALS, PROFILES, Profile};

/// Returns the asset name of a profile's body.
#[must_use]
pub(crate) fn profile_asset(id: &str) -> String {
    format!("std/project/prompts/profile_{id}.harn.prompt")
}

/// Builds the profile of a project: the workflows that its signals indicate, their capabilities, skills, tool groups
/// and presets, and one gated prompt fragment each.
///
/// # Errors
/// A body does not render.
pub fn project_context_profile(
    path: &str,
    signals: &Signals,
    prose: &dyn Prose,
) -> Result<Value, ProseError> {
    let mut matched = Vec::new();
    let mut all_bodies = Vec::new();
    let mut matched_bodies = Vec::new();
    for profile in &PROFILES {
        let body = prose
            .render(&profile_asset(profile.id), &ecosystem::bindings(profile.id, signals))?
            .trim()
            .to_owned();
        if let Some(reason) = (profile.reason)(signals) {
            matched_bodies.push(body.clone());
            matched.push(Matched { profile, reason, body: body.clone() });
        }
        all_bodies.push(body);
    }
    let union = |field: fn(&Matched<'_>) -> Vec<String>| {
        let mut list: Vec<String> = Vec::new();
        for name in matched.iter().flat_map(field) {
            if !list.contains(&name) {
                list.push(name);
            }
        }
        list
    };
    let candidates: Vec<Candidate> = candidates(matched.iter().map(|m| m.profile), signals);
    let ready: Vec<String> = candidates.iter().filter(|c| c.is_ready()).map(|c| c.id.to_owned()).collect();
    Ok(object([
        ("schema_version", 1.into()),
        ("path", path.into()),
        ("signals", signals.to_json()),
        ("profile_ids", union(|m| vec![m.profile.id.to_owned()]).into()),
        ("profiles", matched.iter().map(|m| m.to_json(signals)).collect::<Vec<_>>().into()),
        ("caps", union(|m| vec![m.profile.cap.to_owned()]).into()),
        ("skills", union(|m| owned(m.profile.skills)).into()),
        ("tool_groups", union(|m| owned(m.profile.tool_groups)).into()),
        ("mcp_presets", ready.into()),
        ("mcp_preset_candidates", candidates.iter().map(Candidate::to_json).collect::<Vec<_>>().into()),
        ("prompt_fragments", matched.iter().map(Matched::fragment).collect::<Vec<_>>().into()),
        ("token_delta", token_delta(&matched_bodies, &all_bodies)),
    ]))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A profile that the signals match.
struct Matched<'a> {
    profile: &'a Profile,
    reason: String,
    body: String,
}

impl Matched<'_> {
    fn fragment(&self) -> Value {
        let id = format!("profile:{}", self.profile.id);
        object([
            ("id", id.clone().into()),
            ("source", id.into()),
            ("body", self.body.clone().into()),
            ("requires_caps", vec![self.profile.cap].into()),
        ])
    }

    fn to_json(&self, signals: &Signals) -> Value {
        let candidates = candidates(std::iter::once(self.profile), signals);
        let ready: Vec<&str> = candidates.iter().filter(|c| c.is_ready()).map(|c| c.id).collect();
        object([
            ("id", self.profile.id.into()),
            ("reason", self.reason.clone().into()),
            ("caps", vec![self.profile.cap].into()),
            ("skills", self.profile.skills.to_vec().into()),
            ("tool_groups", self.profile.tool_groups.to_vec().into()),
            ("mcp_presets", ready.into()),
            ("mcp_preset_candidates", candidates.iter().map(Candidate::to_json).collect::<Vec<_>>().into()),
            ("prompt_fragment", self.fragment()),
        ])
    }
}

/// An MCP preset of a profile, and the credentials that are missing for it.
struct Candidate {
    id: &'static str,
    missing: Vec<&'static str>,
}

impl Candidate {
    fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    fn to_json(&self) -> Value {
        object([
            ("id", self.id.into()),
            ("status", if self.is_ready() { "ready" } else { "needs_credentials" }.into()),
            ("missing_credentials", self.missing.clone().into()),
        ])
    }
}

fn candidates<'a>(profiles: impl Iterator<Item = &'a Profile>, signals: &Signals) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for id in profiles.flat_map(|profile| profile.mcp_presets.iter().copied()) {
        let needed = PRESET_CREDENTIALS.iter().filter(|(preset, ..)| *preset == id);
        let lacking = needed.filter(|(_, alias, _)| !signals.credentials.contains(*alias));
        if list.iter().all(|candidate| candidate.id != id) {
            list.push(Candidate { id, missing: lacking.map(|(.., variable)| *variable).collect() });
        }
    }
    list
}

/// Compares the cost of the matched bodies with that of all bodies; a token is estimated as four characters.
fn token_delta(matched: &[String], all: &[String]) -> Value {
    let size = |bodies: &[String]| {
        let text = bodies.join(SEPARATOR);
        (text.len(), text.chars().count().div_ceil(4))
    };
    let ((activated_bytes, activated), (always_bytes, always)) = (size(matched), size(all));
    object([
        ("activated_tokens", activated.into()),
        ("always_on_tokens", always.into()),
        ("saved_tokens", (always - activated).into()),
        ("activated_bytes", activated_bytes.into()),
        ("always_on_bytes", always_bytes.into()),
        ("saved_bytes", (always_bytes - activated_bytes).into()),
    ])
}

#[cfg(test)]
mod tests;
