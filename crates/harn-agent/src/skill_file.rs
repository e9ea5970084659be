//! Skills in files: a directory with `SKILL.md`, and optionally a detached signature `SKILL.md.sig`.

use harn_value::{Data as Json, data::Map};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the file that defines a skill.
pub const FILE: &str = "SKILL.md";

/// The keys of front matter; hyphens and underscores are equivalent.
const KEYS: [&str; 17] = [
    "name",
    "short",
    "description",
    "when_to_use",
    "disable_model_invocation",
    "allowed_tools",
    "user_invocable",
    "paths",
    "context",
    "agent",
    "hooks",
    "model",
    "effort",
    "require_signature",
    "trusted_signers",
    "shell",
    "argument_hint",
];

/// Keys whose values are lists; a single string is treated as a list.
const LISTS: [&str; 3] = ["allowed_tools", "paths", "trusted_signers"];

/// The layers of skills, in order of precedence.
pub const LAYERS: [&str; 8] = ["cli", "env", "project", "manifest", "user", "package", "system", "host"];

/// The layer of the host's skills.
pub const HOST: &str = "host";

/// The key of an entry that contains the host's id of the skill.
pub(crate) const HOST_ID: &str = "host_id";

/// Splits a `SKILL.md` into its front matter and its body. Without front matter, everything is body.
pub fn split(text: &str) -> (Option<&str>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text
        .strip_prefix("---")
        .and_then(|rest| rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n'))
    else {
        return (None, text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (Some(&rest[..at]), rest[at + line.len()..].trim_start_matches(['\r', '\n']));
        }
        at += line.len();
    }
    (None, text)
}

/// Converts front matter to an entry; also returns the unknown keys. `folder` is the name of the skill's directory.
///
/// # Errors
/// A message that describes the problem.
pub fn entry(front: &Json, folder: &str) -> Result<(Map<String, Json>, Vec<String>), String> {
    let map = match front {
        Json::Object(map) => map,
        Json::Null => &Map::new(),
        other => {
            let kind = other.type_name();
            return Err(format!("SKILL.md frontmatter must be a YAML mapping, got {kind}"));
        }
    };
    let (mut entry, mut unknown) = (Map::new(), Vec::new());
    for (key, value) in map {
        let plain = key.replace('-', "_");
        if !KEYS.contains(&plain.as_str()) {
            unknown.push(key.clone());
            continue;
        }
        let value = match value {
            Json::Null => continue,
            one @ Json::String(text) if LISTS.contains(&plain.as_str()) => {
                // `allowed_tools: a, b` is equivalent to a list.
                let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
                let parts: Vec<Json> = parts.map(Json::from).collect();
                if parts.is_empty() { Json::Array(vec![one.clone()]) } else { Json::Array(parts) }
            }
            Json::Array(items) if LISTS.contains(&plain.as_str()) && !items.iter().all(Json::is_string) => {
                return Err(format!("'{key}' must be a list of strings"));
            }
            value if LISTS.contains(&plain.as_str()) && !value.is_array() => {
                return Err(format!("'{key}' must be a list of strings"));
            }
            value => value.clone(),
        };
        let text =
            ["name", "short", "description", "when_to_use", "model", "effort"].contains(&plain.as_str());
        if text && !value.is_string() {
            return Err(format!("'{key}' must be a string"));
        }
        let switch =
            ["disable_model_invocation", "user_invocable", "require_signature"].contains(&plain.as_str());
        if switch && !value.is_boolean() {
            return Err(format!("'{key}' must be true or false"));
        }
        entry.insert(plain, value);
    }
    let given = |key: &str| entry.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let short = given("short").ok_or("SKILL.md frontmatter requires a non-empty `short` field")?.to_owned();
    let name = given("name").unwrap_or(folder).to_owned();
    if name.chars().any(char::is_control) {
        return Err("'name' must be one line".to_owned());
    }
    let described = given("description").is_some();
    entry.insert("name".to_owned(), name.into());
    if !described {
        entry.insert("description".to_owned(), short.into());
    }
    Ok((entry, unknown))
}

/// The result of checking a skill's signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Whether there is a signature with the file's digest.
    pub signed: bool,
    /// Whether it was created with a known key, which must be in the skill's list of trusted signers if there is one.
    pub trusted: bool,
    /// Hex SHA-256 of the signer's public key.
    pub fingerprint: Option<String>,
}

/// The body of a skill in a file, and its signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFile {
    /// The content after the front matter.
    pub body: String,
    /// Its signature.
    pub signature: Signature,
    /// Its directory, for `${HARN_SKILL_DIR}`.
    pub folder: String,
}

/// The format of `SKILL.md.sig`.
#[derive(Debug, Deserialize)]
struct Sig {
    schema: String,
    signer_fingerprint: String,
    ed25519_sig_base64: String,
    skill_sha256: String,
}

/// Returns the fingerprint in a signature, to find its key.
pub fn signer_of(signature: &str) -> Option<String> {
    let sig: Sig = serde_json::from_str(signature).ok()?;
    let hex = sig.signer_fingerprint.chars().all(|c| c.is_ascii_hexdigit());
    (sig.schema == SCHEMA && hex && !sig.signer_fingerprint.is_empty()).then_some(sig.signer_fingerprint)
}

/// The supported schema of signatures.
pub(crate) const SCHEMA: &str = "harn-skill-sig/v1";

/// Verifies the signature of a file. `key` is the signer's public key in PEM form; `trusted` is the skill's list of
/// trusted signers.
pub fn verify(file: &[u8], signature: &str, key: Option<&str>, trusted: &[String]) -> Signature {
    let Ok(sig) = serde_json::from_str::<Sig>(signature) else { return Signature::default() };
    if sig.schema != SCHEMA || !sig.skill_sha256.eq_ignore_ascii_case(&hex(&Sha256::digest(file))) {
        return Signature::default();
    }
    let valid = || {
        let key = public_key(key?)?;
        // The key must match the fingerprint under which it was found.
        if !hex(&Sha256::digest(key)).eq_ignore_ascii_case(&sig.signer_fingerprint) {
            return None;
        }
        let bytes = base64(&sig.ed25519_sig_base64)?;
        UnparsedPublicKey::new(&ED25519, key).verify(file, &bytes).ok()
    };
    let listed =
        trusted.is_empty() || trusted.iter().any(|one| one.eq_ignore_ascii_case(&sig.signer_fingerprint));
    Signature {
        signed: true,
        trusted: listed && valid().is_some(),
        fingerprint: Some(sig.signer_fingerprint),
    }
}

/// Prefix of a public Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410, section 4).
pub(crate) const PUBLIC_KEY: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Returns the 32 bytes of an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410, section 4).
pub(crate) fn public_key(pem: &str) -> Option<[u8; 32]> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = base64(&body)?;
    let key = der.strip_prefix(&PUBLIC_KEY)?;
    key.try_into().ok()
}

pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text.trim()).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;
    use ring::signature::{Ed25519KeyPair, KeyPair};

    #[test]
    fn front_matter_and_body() {
        assert_eq!(split("---\nshort: x\n---\n\nBody\n"), (Some("short: x\n"), "Body\n"));
        assert_eq!(split("---\r\nshort: x\r\n---\r\nBody"), (Some("short: x\r\n"), "Body"));
        assert_eq!(split("Body only"), (None, "Body only"));
        assert_eq!(split("---\nnever closed"), (None, "---\nnever closed"));
    }

    #[test]
    fn entries_are_checked() {
        let (made, unknown) = entry(
            &json!({"short": "Ship", "allowed-tools": "read, run", "when-to-use": "ships", "colour": "red"}),
            "deploy",
        )
        .unwrap();
        assert_eq!(
            Json::Object(made),
            json!({"short": "Ship", "allowed_tools": ["read", "run"], "when_to_use": "ships", "name": "deploy", "description": "Ship"})
        );
        assert_eq!(unknown, ["colour"]);
        for (front, error) in [
            (json!({}), "SKILL.md frontmatter requires a non-empty `short` field"),
            (json!({"short": " "}), "SKILL.md frontmatter requires a non-empty `short` field"),
            (json!(["x"]), "SKILL.md frontmatter must be a YAML mapping, got list"),
            (json!({"short": "x", "paths": [1]}), "'paths' must be a list of strings"),
            (json!({"short": 5}), "'short' must be a string"),
            (json!({"short": "x", "require-signature": "no"}), "'require-signature' must be true or false"),
            (json!({"short": "x", "name": "a\nb"}), "'name' must be one line"),
        ] {
            assert_eq!(entry(&front, "x").unwrap_err(), error);
        }
    }

    #[test]
    fn signatures_hold_for_the_bytes_and_the_key() {
        use base64::Engine;
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let key = pair.public_key().as_ref();
        let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        der.extend(key);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", encode(&der));
        let fingerprint = hex(&Sha256::digest(key));
        let file = b"---\nshort: x\n---\nBody";
        let sig = |file: &[u8], signed: &[u8]| {
            json!({"schema": SCHEMA, "signed_at": "2026-01-01T00:00:00Z", "signer_fingerprint": fingerprint,
                   "ed25519_sig_base64": encode(pair.sign(signed).as_ref()), "skill_sha256": hex(&Sha256::digest(file))})
            .to_string()
        };
        let good = sig(file, file);
        let yes = verify(file, &good, Some(&pem), &[]);
        assert!(yes.signed && yes.trusted && yes.fingerprint.as_deref() == Some(&*fingerprint));
        assert!(verify(file, &good, Some(&pem), std::slice::from_ref(&fingerprint)).trusted);
        assert!(!verify(file, &good, Some(&pem), &["ab".to_owned()]).trusted);
        assert!(!verify(file, &good, None, &[]).trusted);
        assert!(!verify(file, &sig(file, b"other"), Some(&pem), &[]).trusted);
        assert_eq!(verify(b"changed", &good, Some(&pem), &[]), Signature::default());
        assert_eq!(verify(file, "no json", Some(&pem), &[]), Signature::default());
        assert_eq!(signer_of(&good).as_deref(), Some(&*fingerprint));
    }
}
