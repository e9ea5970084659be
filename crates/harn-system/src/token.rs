//! Tokens of MCP servers that the user has signed in to.
//!
//! Programs see an access token as a variable of the environment with a secret's name, so that everything that holds for keys
//! holds for it: a journal stores its name only, and output shows `***`.

use std::path::{Path, PathBuf};

use crate::system::{System, SystemExt};

/// What the names of these variables begin with.
pub(crate) const VARIABLE: &str = "HARN_MCP_TOKEN_";

/// The largest file of tokens.
const MAX_FILE: u64 = 1 << 20;

/// The directory with the tokens of the user: `mcp-tokens` in the user's state directory (`XDG_STATE_HOME`, else
/// `~/.local/state`).
pub fn token_directory(system: &dyn System) -> Option<PathBuf> {
    let set = |name: &str| system.env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("harn/mcp-tokens"))
}

/// The access token of a file. A file that other users own or can change holds none. Behind the key may stand how often the
/// caller has renewed the token: for a journal each token is a secret of its own name.
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
