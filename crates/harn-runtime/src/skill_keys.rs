//! Public keys of the signers of skills: in the user's home directory, and in a registry of the project.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_system::{HttpRequest, System, SystemExt};

/// Maximum size of a public key file, and the time limit for a registry.
const MAX_KEY: u64 = 64 << 10;
const KEY_TIME: Duration = Duration::from_secs(10);

/// The registry of public keys: a directory, or a base URL.
#[derive(Debug, Clone, Default)]
pub struct Signers(Option<Registry>);

#[derive(Debug, Clone)]
enum Registry {
    Folder(PathBuf),
    Url(String),
}

impl Signers {
    /// Reads a setting; a directory is relative to `base`.
    pub(crate) fn of(place: &str, base: &Path) -> std::result::Result<Signers, String> {
        Ok(Signers(Some(match place.split_once("://") {
            None => Registry::Folder(base.join(place)),
            Some(("http" | "https", _)) => Registry::Url(place.trim_end_matches('/').to_owned()),
            Some((scheme, _)) => {
                return Err(format!("'{scheme}' is no way to keys: there are http, https and folders"));
            }
        })))
    }
}

/// Returns the directory of the user's trusted public keys.
pub fn trusted_keys(system: &dyn System) -> Option<PathBuf> {
    let home = system.env("HOME").filter(|home| !home.is_empty());
    home.map(|home| Path::new(&home).join(".harn/trusted-signers"))
}

/// Returns the public key of a signer on this machine: from the home directory, or else from a registry that is a
/// directory.
pub(crate) fn own_key(system: &dyn System, fingerprint: &str, signers: &Signers) -> Option<String> {
    let registry = match &signers.0 {
        Some(Registry::Folder(folder)) => Some(folder.clone()),
        _ => None,
    };
    let file = format!("{fingerprint}.pub");
    let folders = trusted_keys(system).into_iter().chain(registry);
    folders.into_iter().find_map(|folder| system.read_text(&folder.join(&file), MAX_KEY).ok())
}

/// Returns the public key of a signer from a registry that is a URL; `None` if no such registry is configured, or it
/// does not have the key.
///
/// # Errors
/// The request to the registry fails.
pub(crate) async fn asked_key(
    system: &dyn System,
    fingerprint: &str,
    signers: &Signers,
) -> std::result::Result<Option<String>, String> {
    let Some(Registry::Url(url)) = &signers.0 else { return Ok(None) };
    let request = HttpRequest {
        timeout: Some(KEY_TIME),
        redirects: 5,
        max_response: MAX_KEY,
        ..HttpRequest::new("GET", format!("{url}/{fingerprint}.pub"))
    };
    let failed = |why: &str| format!("the registry of signers at {url} cannot be asked: {why}");
    let reply = system.http(request).await.map_err(|error| failed(&error.text))?;
    match reply.status {
        200 => {}
        404 | 410 => return Ok(None),
        status => return Err(failed(&format!("it answers with status {status}"))),
    }
    let bytes = reply.read().await.map_err(|error| failed(&error.text))?;
    Ok(Some(String::from_utf8(bytes).map_err(|_| failed("it answers with no text"))?))
}
