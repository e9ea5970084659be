//! Key pairs on Curve25519: signatures (RFC 8032) and shared secrets (RFC 7748).

use harn_value::{Dict, Str, Value};
use harn_vm::{Error, Result, builtins};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::bytes::{from_hex, to_hex};
use super::digests::octets;
use super::random::random_bytes;
use crate::args::Needed;

builtins! {
    /// Signatures and shared secrets.
    pub(crate) static KEY_PAIRS: "signatures";

    /// Creates a key pair for Ed25519 signatures: `{private, public}`, each 32 bytes in hexadecimal
    /// digits.
    ///
    /// ```harn
    /// let keys = ed25519_keypair()
    /// println([len(keys.private), len(keys.public)]) // -> [64, 64]
    /// ```
    Random fn ed25519_keypair(cx) -> "dict" {
        let private = random_bytes(cx);
        pair(&private, ed25519_pair(&private)?.public_key().as_ref())
    }

    /// Signs a message, a string or bytes, with a private Ed25519 key.
    ///
    /// The signature is 64 bytes in hexadecimal digits.
    ///
    /// ```harn
    /// let keys = ed25519_keypair()
    /// println(len(ed25519_sign(keys.private, "hello"))) // -> 128
    /// ```
    Pure fn ed25519_sign(cx, private: Needed as "string", message: Needed as "text | bytes") -> "string" {
        let (Some(private), Some(message)) = (private.text(), message.0) else {
            return Err(Error::thrown("ed25519_sign: expected (private_hex, message)"));
        };
        let private = key("ed25519_sign", "hex private key", "private key", &private)?;
        let pair = ed25519_pair(&private)?;
        octets(&message, |message| to_hex(pair.sign(message).as_ref()))
    }

    /// Verifies the Ed25519 signature of a message with a public key.
    ///
    /// Returns false for malformed keys and signatures.
    ///
    /// ```harn
    /// let keys = ed25519_keypair()
    /// let signature = ed25519_sign(keys.private, "hello")
    /// println(ed25519_verify(keys.public, "hello", signature)) // -> true
    /// println(ed25519_verify(keys.public, "hallo", signature)) // -> false
    /// ```
    Pure fn ed25519_verify(cx, public: Needed as "string", message: Needed as "text | bytes", signature: Needed as "string") -> "bool" {
        let (Some(public), Some(message), Some(signature)) = (public.text(), message.0, signature.text()) else {
            return Err(Error::thrown("ed25519_verify: expected (public_hex, message, signature_hex)"));
        };
        octets(&message, |message| is_signed(&public, message, &signature))
    }

    /// Creates a key pair for X25519 key agreement: `{private, public}`, each 32 bytes in hexadecimal
    /// digits.
    ///
    /// ```harn
    /// let keys = x25519_keypair()
    /// println([len(keys.private), len(keys.public)]) // -> [64, 64]
    /// ```
    Random fn x25519_keypair(cx) -> "dict" {
        let private = random_bytes(cx);
        pair(&private, &x25519(private, X25519_BASEPOINT_BYTES))
    }

    /// Returns the shared secret of an X25519 private key and the public key of the other side.
    ///
    /// The secret is 32 bytes in hexadecimal digits. Derive keys from it with a digest, and do not use it as a key
    /// directly. A public key that leads to the same secret for every private key is an error.
    ///
    /// ```harn
    /// let ada = x25519_keypair()
    /// let bob = x25519_keypair()
    /// println(x25519_agree(ada.private, bob.public) == x25519_agree(bob.private, ada.public)) // -> true
    /// ```
    Pure fn x25519_agree(cx, private: Needed as "string", peer_public: Needed as "string") -> "string" {
        let (Some(private), Some(public)) = (private.text(), peer_public.text()) else {
            return Err(Error::thrown("x25519_agree: expected (private_hex, peer_public_hex)"));
        };
        let private = key("x25519_agree", "private hex", "private", &private)?;
        let shared = x25519(private, key("x25519_agree", "public hex", "public", &public)?);
        // RFC 7748, 6.1: a point of small order yields only zeros, which are not secret.
        if shared.iter().fold(0, |seen, byte| seen | byte) == 0 {
            return Err(Error::thrown("x25519_agree: public is a point of small order; ask the other side for its key"));
        }
        to_hex(&shared)
    }
}

fn pair(private: &[u8], public: &[u8]) -> Value {
    let mut dict = Dict::new();
    dict.insert("private", to_hex(private));
    dict.insert("public", to_hex(public));
    Value::dict(dict)
}

fn ed25519_pair(private: &[u8; 32]) -> Result<Ed25519KeyPair> {
    // Any 32 bytes are a valid key; the library checks only the length.
    Ed25519KeyPair::from_seed_unchecked(private).map_err(|reason| Error::thrown(format!("ed25519: {reason}")))
}

fn is_signed(public: &str, message: &[u8], signature: &str) -> bool {
    match (from_hex(public), from_hex(signature)) {
        (Ok(public), Ok(signature)) => {
            UnparsedPublicKey::new(&ED25519, public).verify(message, &signature).is_ok()
        }
        _ => false,
    }
}

/// Parses a key of 32 bytes. `what` and `called` are its names in errors.
fn key(function: &str, what: &str, called: &str, hex: &Str) -> Result<[u8; 32]> {
    let bytes =
        from_hex(hex).map_err(|reason| Error::thrown(format!("{function}: invalid {what}: {reason}")))?;
    bytes.try_into().map_err(|_| Error::thrown(format!("{function}: {called} must be 32 bytes")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_signed_is_good_and_a_flipped_bit_is_seen(
            private in any::<[u8; 32]>(), mut message in prop::collection::vec(any::<u8>(), 1..64), at in any::<usize>(), bit in 0u8..8,
        ) {
            let pair = ed25519_pair(&private).unwrap();
            let public = to_hex(pair.public_key().as_ref());
            let mut signature = pair.sign(&message).as_ref().to_vec();
            prop_assert!(is_signed(&public, &message, &to_hex(&signature)));
            let place = at % signature.len();
            signature[place] ^= 1 << bit;
            prop_assert!(!is_signed(&public, &message, &to_hex(&signature)));
            signature[place] ^= 1 << bit;
            let place = at % message.len();
            message[place] ^= 1 << bit;
            prop_assert!(!is_signed(&public, &message, &to_hex(&signature)));
        }

        #[test]
        fn both_sides_come_to_one_secret(ada in any::<[u8; 32]>(), bob in any::<[u8; 32]>()) {
            let public = |private| x25519(private, X25519_BASEPOINT_BYTES);
            prop_assert_eq!(x25519(ada, public(bob)), x25519(bob, public(ada)));
        }

        #[test]
        fn any_text_is_no_signature(public in any::<String>(), signature in any::<String>()) {
            prop_assert!(!is_signed(&public, b"", &signature));
        }
    }
}
