//! Parses the address of a database: connection and TLS settings.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::options::PostgresOptions;
use crate::error::{Error, Result};

/// A parsed address.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    /// Without the password.
    pub(super) shown: PathBuf,
    /// File of trusted certificates; `None`: those of the system.
    pub(super) authority: Option<PathBuf>,
}

fn invalid(why: impl Into<String>) -> Error {
    Error::invalid("the address of the store", why)
}

impl Address {
    /// Parses an address, with its TLS settings: either the certificate is checked, or TLS is not used.
    pub(super) fn read(url: &str, options: &PostgresOptions) -> Result<Address> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut authority, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                // Lost connections are found by this name.
                Some(("application_name", _)) => {
                    return Err(invalid("application_name is set by Harn itself"));
                }
                Some(("sslrootcert", value)) => authority = Some(PathBuf::from(decoded(value)?)),
                _ => rest.push(pair),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        // The error of the parser names an unknown option, but no value.
        let mut config: Config = plain.parse().map_err(|error| {
            invalid(format!("{}; expected postgres://USER@HOST/DATABASE", super::fault::told(&error)))
        })?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host: expected postgres://USER@HOST/DATABASE"));
        }
        if config.get_user().is_none() {
            return Err(invalid("it names no user: expected postgres://USER@HOST/DATABASE"));
        }
        if config.get_dbname().is_none() {
            return Err(invalid("it names no database: expected postgres://USER@HOST/DATABASE"));
        }
        let is_near = |host: &Host| match host {
            Host::Tcp(name) => matches!(&**name, "localhost" | "127.0.0.1" | "::1"),
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        let is_secure = match mode {
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            None => authority.is_some() || !config.get_hosts().iter().all(is_near),
            Some(other) => {
                return Err(invalid(format!(
                    "sslmode={other} may send everything without encryption: choose `verify-full` or `disable`"
                )));
            }
        };
        if !is_secure && authority.is_some() {
            return Err(invalid("sslrootcert has no effect with sslmode=disable"));
        }
        config.ssl_mode(if is_secure { SslMode::Require } else { SslMode::Disable });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        // Detects within this time that a server is gone.
        if !rest.iter().any(|pair| pair.starts_with("keepalives")) {
            config.keepalives_idle(Duration::from_secs(15));
            config.keepalives_interval(Duration::from_secs(5));
            config.keepalives_retries(3);
        }
        Ok(Address { config, shown: crate::shown::shown(url).into(), authority })
    }

    /// The hosts and ports, for messages.
    pub(super) fn hosts(&self) -> String {
        let ports = self.config.get_ports();
        let all = self.config.get_hosts().iter().enumerate().map(|(n, host)| {
            let port = ports.get(n).or_else(|| ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
            }
        });
        all.collect::<Vec<_>>().join(", ")
    }
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Result<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next().unwrap_or(b'!'), bytes.next().unwrap_or(b'!')];
        let code = std::str::from_utf8(&digits).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
        out.push(code.ok_or_else(|| invalid("a `%` stands before two hexadecimal digits"))?);
    }
    String::from_utf8(out).map_err(|_| invalid("sslrootcert is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address> {
        Address::read(url, &PostgresOptions::default())
    }

    #[test]
    fn a_connection_is_encrypted_or_does_not_leave_the_machine() {
        for (url, is_secure) in [
            ("postgres://ann@db.example/runs", true),
            ("postgres://ann@localhost/runs", false),
            ("postgres://ann@127.0.0.1:5433/runs", false),
            ("postgres://ann@%2Fvar%2Frun/runs", false),
            ("postgres://ann@localhost,db.example/runs", true),
            ("postgres://ann@localhost/runs?sslmode=verify-full", true),
            ("postgres://ann@localhost/runs?sslrootcert=%2Fca.pem", true),
            ("postgres://ann@db.example/runs?sslmode=disable", false),
            ("postgres://ann@db.example/runs?sslmode=require&connect_timeout=3", true),
        ] {
            let found = read(url).unwrap();
            assert_eq!(found.config.get_ssl_mode() == SslMode::Require, is_secure, "{url}");
        }
        let found = read("postgres://ann@db/runs?sslrootcert=%2Fetc%2Fca.pem&connect_timeout=3").unwrap();
        assert_eq!(found.authority, Some("/etc/ca.pem".into()));
        assert_eq!(found.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(found.hosts(), "db:5432");
        assert_eq!(found.config.get_keepalives_idle(), Duration::from_secs(15));
        let found = read("postgres://ann@db/runs?keepalives_idle=99").unwrap();
        assert_eq!(found.config.get_keepalives_idle(), Duration::from_secs(99));
    }

    #[test]
    fn what_cannot_be_understood_is_refused_without_its_password() {
        for (url, why) in [
            ("postgres://ann:secret@db/runs?sslmode=prefer", "choose `verify-full` or `disable`"),
            ("postgres://ann:secret@db/runs?sslmod=require", "sslmod"),
            ("postgres://ann:secret@db/runs?sslmode=disable&sslrootcert=x", "no effect"),
            ("postgres://ann:secret@db/runs?application_name=x", "set by Harn"),
            ("postgres://ann:secret@db/runs?sslrootcert=%2", "two hexadecimal digits"),
            ("postgres://ann:secret@db", "names no database"),
            ("postgres://db/runs?password=secret", "names no user"),
            ("postgres:///runs?user=ann&password=secret", "names no host"),
            ("postgres://ann:secret@db:port/runs", "port"),
        ] {
            let error = read(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
