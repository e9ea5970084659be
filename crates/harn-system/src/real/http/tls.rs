//! TLS configuration: trust roots, client certificates and pins.

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection};
use rustls_platform_verifier::Verifier;

use crate::net::{HttpError, HttpErrorKind, Tls};

use super::invalid;

/// Returns the default configuration, which trusts the roots of the system.
pub(super) fn trust() -> Result<Arc<ClientConfig>, HttpError> {
    config(&Tls::default())
}

/// Returns the configuration with additional roots and the client certificate of a request.
pub(super) fn config(own: &Tls) -> Result<Arc<ClientConfig>, HttpError> {
    let failed = |reason: rustls::Error| {
        HttpError::new(HttpErrorKind::Connect, format!("TLS cannot be used here: {reason}"))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = own.roots.as_ref().map_or(Ok(Vec::new()), |pem| certificates(pem, "the CA bundle"))?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(match roots.is_empty() {
        true => Verifier::new(provider.clone()).map_err(failed)?,
        false => Verifier::new_with_extra_roots(roots, provider.clone())
            .map_err(|reason| invalid(format!("tls: the CA bundle cannot be used: {reason}")))?,
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &own.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, "the client certificate")?;
            // The reason may quote the file, so it is not printed.
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| invalid("tls: there is no PEM key for the client certificate".to_owned()))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|reason| invalid(format!("tls: the client certificate cannot be used: {reason}")))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(invalid(format!("tls: {what} holds no PEM certificate"))),
        Err(reason) => Err(invalid(format!("tls: {what} is no valid PEM: {reason}"))),
    }
}

/// Checks that the public key of the server is pinned; an empty list permits any key.
pub(super) fn check_pins(pins: &[[u8; 32]], connection: &ClientConnection) -> Result<(), HttpError> {
    if pins.is_empty() {
        return Ok(());
    }
    let leaf = connection.peer_certificates().and_then(|chain| chain.first());
    let key = leaf.and_then(|leaf| Some(ParsedCertificate::try_from(leaf).ok()?.subject_public_key_info()));
    let hash = key.map(|key| ring::digest::digest(&ring::digest::SHA256, &key));
    match hash {
        Some(hash) if pins.iter().any(|pin| pin == hash.as_ref()) => Ok(()),
        _ => Err(invalid("TLS SPKI pin mismatch".to_owned())),
    }
}
