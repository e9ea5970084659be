//! Signing keys, and signatures of skills that [`crate::skill_file::verify`] accepts.

use harn_value::{Data as Json, json};
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha2::{Digest, Sha256};

use crate::skill_file::{PUBLIC_KEY, SCHEMA, hex, public_key};

/// Prefix of the seed in the PKCS#8 form of an Ed25519 key (RFC 8410, section 7).
const PRIVATE: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A signing key.
pub struct SigningKey {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Creates a key from 32 unpredictable bytes.
    ///
    /// # Errors
    /// The key cannot be created.
    pub fn from_seed(seed: [u8; 32]) -> Result<SigningKey, String> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        Ok(SigningKey { seed, pair: pair.map_err(|_| "no key can be made".to_owned())? })
    }

    /// Reads a PEM file created by [`SigningKey::private_pem`] or `openssl genpkey -algorithm ed25519`.
    ///
    /// # Errors
    /// The file does not contain a private Ed25519 key.
    pub fn from_pem(pem: &str) -> Result<SigningKey, String> {
        let wrong = || "it holds no private Ed25519 key in PEM form (PKCS#8)".to_owned();
        let body = between(pem, "PRIVATE KEY").ok_or_else(wrong)?;
        let der = crate::skill_file::base64(&body).ok_or_else(wrong)?;
        let seed = der.strip_prefix(&PRIVATE).and_then(|seed| seed.try_into().ok());
        SigningKey::from_seed(seed.ok_or_else(wrong)?)
    }

    /// Returns the private key as a PEM file.
    pub fn private_pem(&self) -> String {
        pem("PRIVATE KEY", &[&PRIVATE[..], &self.seed].concat())
    }

    /// Returns the public key as a PEM file.
    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &[&PUBLIC_KEY[..], self.pair.public_key().as_ref()].concat())
    }

    /// Returns the fingerprint of the public key.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(self.pair.public_key().as_ref()))
    }

    /// Returns the content of `SKILL.md.sig` for the bytes of a `SKILL.md`; `now` is the time of signing.
    pub fn sign(&self, file: &[u8], now: &str) -> String {
        let signature: Json = json!({
            "schema": SCHEMA, "signed_at": now, "signer_fingerprint": self.fingerprint(),
            "ed25519_sig_base64": encode(self.pair.sign(file).as_ref()), "skill_sha256": hex(&Sha256::digest(file)),
        });
        format!("{signature:#}\n")
    }
}

/// Returns the fingerprint of a public key in a PEM file.
///
/// # Errors
/// The file does not contain a public key.
pub fn fingerprint_of(pem: &str) -> Result<String, String> {
    if between(pem, "PRIVATE KEY").is_some() {
        let text = "it holds a private key, and whoever has it signs in its name; the public one is meant"; // prose-ok: error
        return Err(text.to_owned());
    }
    let key = between(pem, "PUBLIC KEY").and_then(|_| public_key(pem));
    let key = key.ok_or("it holds no public Ed25519 key in PEM form")?;
    Ok(hex(&Sha256::digest(key)))
}

/// Returns the content between the markers of a PEM file.
fn between(pem: &str, what: &str) -> Option<String> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {what}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {what}-----"))?;
    Some(body.split_whitespace().collect())
}

fn pem(what: &str, der: &[u8]) -> String {
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", encode(der))
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill_file::{Signature, verify};

    #[test]
    fn what_a_key_signs_is_verified_with_its_public_half() {
        let key = SigningKey::from_seed([9; 32]).unwrap();
        let again = SigningKey::from_pem(&key.private_pem()).unwrap();
        assert_eq!(again.fingerprint(), key.fingerprint());
        assert_eq!(fingerprint_of(&key.public_pem()).unwrap(), key.fingerprint());
        let sig = again.sign(b"text", "2026-01-01T00:00:00Z");
        let found = verify(b"text", &sig, Some(&key.public_pem()), &[]);
        assert_eq!(found, Signature { signed: true, trusted: true, fingerprint: Some(key.fingerprint()) });
        assert_eq!(verify(b"texts", &sig, Some(&key.public_pem()), &[]), Signature::default());
        let other = SigningKey::from_seed([8; 32]).unwrap();
        assert!(!verify(b"text", &sig, Some(&other.public_pem()), &[]).trusted);
    }

    #[test]
    fn files_that_hold_no_key_are_told() {
        let key = SigningKey::from_seed([9; 32]).unwrap();
        assert!(SigningKey::from_pem(&key.public_pem()).is_err());
        assert!(SigningKey::from_pem("").is_err());
        assert!(fingerprint_of(&key.private_pem()).unwrap_err().contains("private key"));
        assert!(fingerprint_of("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").is_err());
        // A key created by another program.
        let theirs = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\n-----END PRIVATE KEY-----\n";
        let own = SigningKey::from_seed([7; 32]).unwrap();
        assert_eq!(SigningKey::from_pem(theirs).unwrap().fingerprint(), own.fingerprint());
    }
}
