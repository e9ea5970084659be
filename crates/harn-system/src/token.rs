//! Tokens of MCP servers that the user has signed in to.
//!
//! Programs access a token as an environment variable with a secret name, so that it is treated like other keys: a
//! journal stores only its name, and output shows `***`.

use std::path::{Path, PathBuf};

use crate::system::{System, SystemExt};

/// The prefix of these variables.
pub(crate) const VARIABLE: &str = "HARN_MCP_TOKEN_";

/// Maximum size of a token file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Returns the directory with the tokens of the user: `mcp-tokens` in the state directory of the user
/// (`XDG_STATE_HOME`, else `~/.local/state`).
pub fn token_directory(system: &dyn System) -> Option<PathBuf> {
    let set = |name: &str| system.env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("harn/mcp-tokens"))
}

/// Returns the access token of a file. Files that other users own or can change are ignored. The key may be followed by
/// the number of renewals, because each token is a separate secret in a journal.
pub(crate) fn stored(system: &dyn System, key: &str) -> Option<String> {
    let (key, count) = key.split_once('_').unwrap_or((key, "0"));
    count.parse::<u64>().ok()?;
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let file = token_directory(system)?.join(Path::new(key).with_extension("json"));
    if !system.is_file(&file) || system.is_foreign(&file) {
        return None;
    }
    let tokens: serde_json::Value = serde_json::from_str(&system.read_text(&file, MAX_FILE).ok()?).ok()?;
    tokens["access_token"].as_str().map(str::to_owned)
}
