//! JSON Web Tokens (RFC 7519), in the compact form of RFC 7515.

use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harn_value::{Dict, Value, json};
use harn_vm::{Error, Result, builtins};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, ObjectIdentifier, SubjectPublicKeyInfoRef};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};

use super::bytes::constant_time_equal;
use super::digests::hmac_sha256;
use crate::args::Needed;
use crate::plain::check_data;

builtins! {
    /// JSON Web Tokens.
    pub(crate) static TOKENS: "signatures";

    /// Signs a dict of claims as a JSON Web Token.
    ///
    /// `alg` is `ES256` with a P-256 key as PKCS#8 PEM, or `RS256` with an RSA key of at least 2048 bits as PKCS#1 or
    /// PKCS#8 PEM. Claims must be JSON data.
    ///
    /// ```harn
    /// println(try { jwt_sign("none", {sub: "ada"}, "") }) // -> Result.Err(Runtime error: jwt_sign: unsupported algorithm `none`; expected ES256 or RS256)
    /// ```
    Pure fn jwt_sign(cx, alg: Needed as "string", claims: Needed as "dict", private_key: Needed as "string") -> "string" {
        let (Some(alg), Some(claims), Some(pem)) = (alg.text(), claims.0, private_key.text()) else {
            return Err(Error::runtime("jwt_sign: requires 3 arguments: alg, claims, private_key"));
        };
        sign(&alg, &claims, &pem)?
    }

    /// Verifies the signature of a JSON Web Token and returns `{valid: true, claims}`, or throws.
    ///
    /// `alg` is `HS256` with the shared secret as key, or `ES256` or `RS256` with a public key as PEM. A token with
    /// another algorithm, an empty secret and a PEM key as secret are rejected. The times `exp` and `nbf` are not
    /// checked: compare them with `timestamp()`.
    ///
    /// ```harn
    /// let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.Sl2SLd0LojSQ-rhW2V5n4GC4rb0qp17dPUjkNSSZpKc"
    /// println(jwt_verify("HS256", token, "secret").claims.sub) // -> ada
    /// println(is_err(try { jwt_verify("HS256", token, "another") })) // -> true
    /// ```
    Pure fn jwt_verify(cx, alg: Needed as "string", token: Needed as "string", key: Needed as "string") -> "dict" {
        let (Some(alg), Some(token), Some(key)) = (alg.text(), token.text(), key.text()) else {
            return Err(Error::thrown("jwt_verify: expected (alg, token, key)"));
        };
        let claims = verify(&alg, &token, &key).map_err(|reason| Error::thrown(format!("jwt_verify: {reason}")))?;
        let mut dict = Dict::new();
        dict.insert("valid", true);
        dict.insert("claims", claims);
        dict
    }
}

/// The result of a check; the error is the reason why a token or a key is invalid.
type Checked<T> = std::result::Result<T, String>;

/// Signs a message with a key.
type Sign = Box<dyn Fn(&[u8]) -> Checked<Vec<u8>>>;

/// Verifies the signature of a message.
type Check = Box<dyn Fn(&[u8], &[u8]) -> bool>;

fn sign(alg: &str, claims: &Value, pem: &str) -> Result<String> {
    let wrong_key =
        |reason: String| Error::runtime(format!("jwt_sign: invalid {alg} PEM private key: {reason}"));
    let signer: Sign = match alg {
        "ES256" => Box::new(es256_signer(pem).map_err(wrong_key)?),
        "RS256" => Box::new(rs256_signer(pem).map_err(wrong_key)?),
        _ => {
            let text = format!("jwt_sign: unsupported algorithm `{alg}`; expected ES256 or RS256");
            return Err(Error::runtime(text));
        }
    };
    check_data("jwt_sign: claims", claims)?;
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"typ":"JWT","alg":"{alg}"}}"#));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(json::stringify(claims)));
    let signature =
        signer(signed.as_bytes()).map_err(|reason| Error::runtime(format!("jwt_sign: {reason}")))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn es256_signer(pem: &str) -> Checked<impl Fn(&[u8]) -> Checked<Vec<u8>> + 'static> {
    let PrivateKeyDer::Pkcs8(der) = private_key(pem)? else {
        return Err("it is no PKCS#8 key".to_owned());
    };
    let key = SigningKey::from_pkcs8_der(der.secret_pkcs8_der()).map_err(words)?;
    // The nonce is derived from the key and the message (RFC 6979): the same call returns the same token.
    Ok(move |message: &[u8]| {
        let signature: Signature = key.try_sign(message).map_err(words)?;
        Ok(signature.to_bytes().to_vec())
    })
}

fn rs256_signer(pem: &str) -> Checked<impl Fn(&[u8]) -> Checked<Vec<u8>> + 'static> {
    let key = match private_key(pem)? {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err("it is no RSA key".to_owned()),
    };
    let key = key.map_err(words)?;
    Ok(move |message: &[u8]| {
        let mut signature = vec![0; key.public().modulus_len()];
        // This padding is deterministic; the generator is not used.
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).map_err(words)?;
        Ok(signature)
    })
}

fn private_key(pem: &str) -> Checked<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|reason| pem_words(&reason, "PRIVATE KEY"))
}

fn words(reason: impl Display) -> String {
    reason.to_string()
}

/// Describes a PEM error without the lines of the key, which the library's message may contain.
fn pem_words(reason: &pem::Error, section: &str) -> String {
    match reason {
        pem::Error::NoItemsFound => format!("there is no section {section} in it"),
        pem::Error::Base64Decode(_) => "a section is no base64".to_owned(),
        _ => "a section is not closed or its lines are malformed".to_owned(),
    }
}

/// Returns the claims of a token with a valid signature.
fn verify(alg: &str, token: &str, key: &str) -> Checked<Value> {
    let check: Check = match alg {
        // With an empty secret, any client could sign.
        "HS256" if key.is_empty() => return Err("the key is empty".to_owned()),
        // Anyone who knows the public key of a service could sign tokens with it (RFC 8725, section 2.1).
        "HS256" if key.contains("-----BEGIN ") => {
            return Err("the key is a PEM document, not a shared secret: use RS256 or ES256".to_owned());
        }
        "HS256" => {
            let key = key.as_bytes().to_vec();
            Box::new(move |message, signature| constant_time_equal(&hmac_sha256(&key, message), signature))
        }
        "ES256" => {
            Box::new(es256_check(key).map_err(|reason| format!("invalid ES256 public key: {reason}"))?)
        }
        "RS256" => {
            Box::new(rs256_check(key).map_err(|reason| format!("invalid RS256 public key: {reason}"))?)
        }
        _ => return Err(format!("unsupported algorithm '{alg}'")),
    };
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("a token has three parts with `.` between them".to_owned());
    };
    let (header, signature) = (object("header", header)?, decoded("signature", signature)?);
    // The algorithm of the token must not determine how it is verified.
    match header.get_str("alg").and_then(Value::as_str) {
        Some(named) if **named == *alg => {}
        Some(named) => return Err(format!("the token names the algorithm {named:?} and not {alg}")),
        None => return Err("the token names no algorithm".to_owned()),
    }
    if header.contains("crit") {
        return Err("the token asks for extensions (`crit`), and none is known".to_owned());
    }
    if !check(&token.as_bytes()[..token.len() - token.rsplit('.').next().map_or(0, str::len) - 1], &signature)
    {
        return Err("the signature does not fit".to_owned());
    }
    object("claims", claims).map(Value::dict)
}

fn decoded(what: &str, part: &str) -> Checked<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).map_err(|reason| format!("the {what} of the token: {reason}"))
}

fn object(what: &str, part: &str) -> Checked<Dict> {
    let bytes = decoded(what, part)?;
    let text = std::str::from_utf8(&bytes).map_err(|reason| format!("the {what} of the token: {reason}"))?;
    let value = json::parse(text).map_err(|reason| format!("the {what} of the token: {reason}"))?;
    let dict = value.as_dict().map(|dict| (**dict).clone());
    dict.ok_or_else(|| format!("the {what} of the token: expected a JSON object"))
}

fn es256_check(pem: &str) -> Checked<impl Fn(&[u8], &[u8]) -> bool + 'static> {
    let key = VerifyingKey::from_public_key_der(&public_key(pem)?).map_err(words)?;
    Ok(move |message: &[u8], signature: &[u8]| {
        Signature::from_slice(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
    })
}

fn rs256_check(pem: &str) -> Checked<impl Fn(&[u8], &[u8]) -> bool + 'static> {
    const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
    // A PKCS#1 public key is the inner part of a SubjectPublicKeyInfo.
    let inner = pem.contains("BEGIN RSA PUBLIC KEY");
    let mut der = public_key(&pem.replace("RSA PUBLIC KEY", "PUBLIC KEY"))?;
    if !inner {
        let info = SubjectPublicKeyInfoRef::try_from(&*der).map_err(words)?;
        if info.algorithm.oid != RSA {
            return Err("it is no RSA key".to_owned());
        }
        der = info.subject_public_key.raw_bytes().to_vec();
    }
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der);
    Ok(move |message: &[u8], signature: &[u8]| key.verify(message, signature).is_ok())
}

fn public_key(pem: &str) -> Checked<Vec<u8>> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes());
    der.map(|der| der.to_vec()).map_err(|reason| pem_words(&reason, "PUBLIC KEY"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The keys of RFC 7515, A.3.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff\n\
        H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp\n\
        7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt\n\
        -----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n\
        6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n\
        -----END PUBLIC KEY-----\n";

    #[test]
    fn the_secret_of_rfc_7515_is_bytes_of_any_kind() {
        // A.1: the key is not text, so programs cannot use it.
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let signed = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let mac = hmac_sha256(&URL_SAFE_NO_PAD.decode(key).unwrap(), signed.as_bytes());
        assert_eq!(URL_SAFE_NO_PAD.encode(mac), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_signed_is_good_and_a_flipped_bit_is_seen(claim in any::<String>(), at in any::<usize>(), bit in 0u8..7) {
            let claims = Value::dict([("claim", claim.as_str())].into_iter().collect());
            let token = sign("ES256", &claims, PRIVATE).unwrap();
            prop_assert_eq!(verify("ES256", &token, PUBLIC).unwrap().to_string(), claims.to_string());
            let mut bytes = token.into_bytes();
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            prop_assert!(verify("ES256", &String::from_utf8(bytes).unwrap(), PUBLIC).is_err());
        }

        #[test]
        fn any_text_is_no_token(token in any::<String>(), key in any::<String>()) {
            prop_assert!(verify("ES256", &token, PUBLIC).is_err());
            prop_assert!(verify("RS256", &token, &key).is_err());
            prop_assert!(verify("HS256", &token, &key).is_err());
        }
    }
}
