//! The option `tls`: files with certificates and keys, and pins of public keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harn_system::Tls;
use harn_value::{Dict, Value};
use harn_vm::{Cx, Result};

use super::wrong::wrong;
use crate::args::printed;
use crate::builtins::from_hex;
use crate::places::resolve;

/// Maximum size of a certificate file in bytes; a bundle of all public CAs has about 200 KiB.
const MAX_FILE: u64 = 8 << 20;

/// Parses the option. An unreadable file is an error, because the request would be less protected than requested.
pub(super) fn read(cx: &Cx, options: &Dict) -> Result<Tls> {
    let file = |name: &str| {
        let path = options.get_str(name).filter(|path| !path.is_nil());
        path.map(|path| pem(cx, name, path)).transpose()
    };
    let certificate = file("client_cert_path")?;
    let key = file("client_key_path")?;
    let whole = file("client_identity_path")?;
    let identity = match (certificate, key, whole) {
        (None, None, None) => None,
        (Some(certificate), Some(key), None) => Some((certificate, key)),
        (None, None, Some(both)) => Some((both.clone(), both)),
        (_, _, Some(_)) => {
            return Err(wrong("tls: client_identity_path holds certificate and key, and stands alone"));
        }
        _ => return Err(wrong("tls: client_cert_path and client_key_path go together")),
    };
    let pins = match options.get_str("pinned_sha256").filter(|pins| !pins.is_nil()) {
        None => Vec::new(),
        Some(pins) => match pins.as_list() {
            Some(list) if list.is_empty() => return Err(wrong("tls: pinned_sha256 is empty")),
            Some(list) => list.iter().map(pin).collect::<Result<_>>()?,
            None => vec![pin(pins)?],
        },
    };
    Ok(Tls { roots: file("ca_bundle_path")?, identity, pins })
}

fn pem(cx: &Cx, name: &str, path: &Value) -> Result<Vec<u8>> {
    let path = path.as_str().filter(|path| !path.is_empty());
    let Some(path) = path else { return Err(wrong(&format!("tls: {name} must be a path"))) };
    let path = resolve(cx, path);
    cx.system().read(&path, MAX_FILE).map_err(|reason| {
        let text = format!("tls: {name}: cannot read {}: {reason}", path.display());
        cx.refusal(&reason).unwrap_or_else(|| wrong(&text))
    })
}

/// Parses a pin: SHA-256 in hex or base64, with or without the prefix `sha256/`.
fn pin(value: &Value) -> Result<[u8; 32]> {
    let text = printed(value);
    let text = text.trim();
    let plain = text.strip_prefix("sha256/").unwrap_or(text);
    let bytes = match plain.len() {
        64 => from_hex(plain).ok(),
        _ => STANDARD.decode(plain).ok(),
    };
    let pin = bytes.and_then(|bytes| bytes.try_into().ok());
    pin.ok_or_else(|| wrong(&format!("tls: pinned_sha256: `{text}` is no SHA-256 in hex or base64")))
}
