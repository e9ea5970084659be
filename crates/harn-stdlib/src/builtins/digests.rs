//! Digests and message authentication.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harn_value::{Value, steps};
use harn_vm::builtin::Text;
use harn_vm::builtins;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_256};

use super::bytes::{constant_time_equal, to_hex};
use crate::args::printed;

builtins! {
    /// Digests and signatures.
    pub(crate) static DIGESTS: "digests";

    /// Returns the SHA-224 digest of a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha224("abc")[:8]) // -> 23097d22
    /// ```
    Pure fn sha224(cx, value: Text) -> "string" {
        to_hex(&digest::<Sha224>(value.as_bytes()))
    }

    /// Returns the SHA-256 digest of a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha256("abc")[:8]) // -> ba7816bf
    /// ```
    Pure fn sha256(cx, value: Text) -> "string" {
        to_hex(&digest::<Sha256>(value.as_bytes()))
    }

    /// Returns the SHA-384 digest of a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha384("abc")[:8]) // -> cb00753f
    /// ```
    Pure fn sha384(cx, value: Text) -> "string" {
        to_hex(&digest::<Sha384>(value.as_bytes()))
    }

    /// Returns the SHA-512 digest of a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha512("abc")[:8]) // -> ddaf35a1
    /// ```
    Pure fn sha512(cx, value: Text) -> "string" {
        to_hex(&digest::<Sha512>(value.as_bytes()))
    }

    /// Returns the SHA-512/256 digest of a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha512_256("abc")[:8]) // -> 53048e26
    /// ```
    Pure fn sha512_256(cx, value: Text) -> "string" {
        to_hex(&digest::<Sha512_256>(value.as_bytes()))
    }

    /// Returns the MD5 digest of a string in hexadecimal digits; not for security.
    ///
    /// ```harn
    /// println(md5("abc")) // -> 900150983cd24fb0d6963f7d28e17f72
    /// ```
    Pure fn md5(cx, value: Text) -> "string" {
        to_hex(&digest::<md5::Md5>(value.as_bytes()))
    }

    /// Returns the SHA3-256 digest of bytes or a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha3_256("abc")[:8]) // -> 3a985da7
    /// ```
    Pure fn sha3_256(cx, value: Value as "text | bytes") -> "string" {
        octets(&value, |bytes| to_hex(&digest::<sha3::Sha3_256>(bytes)))
    }

    /// Returns the SHA3-512 digest of bytes or a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(sha3_512("abc")[:8]) // -> b751850b
    /// ```
    Pure fn sha3_512(cx, value: Value as "text | bytes") -> "string" {
        octets(&value, |bytes| to_hex(&digest::<sha3::Sha3_512>(bytes)))
    }

    /// Returns the BLAKE3 digest of bytes or a string in hexadecimal digits.
    ///
    /// ```harn
    /// println(blake3("abc")[:8]) // -> 6437b3ac
    /// ```
    Pure fn blake3(cx, value: Value as "text | bytes") -> "string" {
        let mut state = blake3::Hasher::new();
        octets(&value, |bytes| in_pieces(bytes, |piece| _ = state.update(piece)));
        to_hex(state.finalize().as_bytes())
    }

    /// Returns the HMAC-SHA256 of a message in hexadecimal digits.
    ///
    /// ```harn
    /// println(hmac_sha256("key", "The quick brown fox jumps over the lazy dog")[:8]) // -> f7bc83f4
    /// ```
    Pure fn hmac_sha256_ = "hmac_sha256"(cx, key: Text, message: Text) -> "string" {
        to_hex(&hmac_sha256(key.as_bytes(), message.as_bytes()))
    }

    /// Returns the HMAC-SHA256 of a message in base64.
    ///
    /// ```harn
    /// println(hmac_sha256_base64("key", "message").len()) // -> 44
    /// ```
    Pure fn hmac_sha256_base64(cx, key: Text, message: Text) -> "string" {
        STANDARD.encode(hmac_sha256(key.as_bytes(), message.as_bytes()))
    }

    /// Compares two strings in constant time.
    ///
    /// ```harn
    /// println([constant_time_eq("a", "a"), constant_time_eq("a", "ab")]) // -> [true, false]
    /// ```
    Pure fn constant_time_eq(cx, a: Text, b: Text) -> "bool" {
        constant_time_equal(a.as_bytes(), b.as_bytes())
    }
}

/// Bytes digested between two checks of deadlines and signals.
const PIECE: usize = 64 << 10;

/// Computes a digest in chunks, so that it can be interrupted.
fn digest<D: Digest>(bytes: &[u8]) -> Vec<u8> {
    let mut state = D::new();
    in_pieces(bytes, |piece| state.update(piece));
    state.finalize().to_vec()
}

fn in_pieces(bytes: &[u8], mut update: impl FnMut(&[u8])) {
    for piece in bytes.chunks(PIECE) {
        steps::bytes(piece.len());
        update(piece);
    }
}

/// Passes the bytes of a value to `read`: bytes as they are, other values in printed form.
pub(crate) fn octets<T>(value: &Value, read: impl FnOnce(&[u8]) -> T) -> T {
    match value.as_bytes() {
        Some(bytes) => read(bytes),
        None => read(printed(value).as_bytes()),
    }
}

/// Returns the HMAC with SHA-256 (RFC 2104).
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new_with_prefix(block.map(|b| b ^ 0x36));
    in_pieces(message, |piece| inner.update(piece));
    Sha256::new_with_prefix(block.map(|b| b ^ 0x5c)).chain_update(inner.finalize()).finalize().into()
}
