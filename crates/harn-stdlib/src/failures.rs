//! Failures of files, processes and the network: the message that a program catches, and the properties that
//! `error_info` returns.

use std::io;
use std::path::Path;

use harn_system::{HttpErrorKind, InDoubt};
use harn_value::Dict;
use harn_vm::{Cx, Error};

/// Returns the error of a system operation: the rejection of a policy, or `text` with its properties.
pub(crate) fn of_io(cx: &Cx, error: &io::Error, path: Option<&Path>, text: impl FnOnce() -> String) -> Error {
    if error.get_ref().is_some_and(|inner| inner.is::<InDoubt>()) {
        return Error::structured("in_doubt", &error.to_string());
    }
    cx.refusal(error).unwrap_or_else(|| {
        let mut facts = facts(io_category(error.kind()), io_kind(error.kind()));
        if let Some(path) = path {
            facts.insert("path", path.to_string_lossy().into_owned());
        }
        if let Some(code) = error.raw_os_error() {
            facts.insert("code", i64::from(code));
        }
        Error::thrown(text()).with_facts(facts)
    })
}

/// Adds properties to an error about a file whose reason is only known as the system's message.
#[must_use]
pub fn with_file_facts(error: Error, path: &str, reason: &str) -> Error {
    let code = reason.strip_suffix(')').and_then(|text| text.rsplit_once("(os error "));
    let code = code.and_then(|(_, code)| code.parse::<i32>().ok());
    let kind = code.map_or(io::ErrorKind::Other, |code| io::Error::from_raw_os_error(code).kind());
    let mut facts = facts(io_category(kind), io_kind(kind));
    facts.insert("path", path);
    if let Some(code) = code {
        facts.insert("code", i64::from(code));
    }
    error.with_facts(facts)
}

/// Returns the properties of a failed exchange. `url` must not contain parts that may hold a key.
pub(crate) fn of_http(kind: HttpErrorKind, url: String) -> Dict {
    let (category, kind) = match kind {
        HttpErrorKind::Invalid => ("generic", "invalid_input"),
        HttpErrorKind::Timeout => ("timeout", "timeout"),
        HttpErrorKind::Connect => ("transient_network", "connect"),
        HttpErrorKind::Broken | HttpErrorKind::Restarted => ("transient_network", "broken"),
        HttpErrorKind::Redirect => ("generic", "redirect"),
        HttpErrorKind::TooLarge => ("generic", "too_large"),
        HttpErrorKind::Refused => ("egress_blocked", "refused"),
        HttpErrorKind::InDoubt => ("in_doubt", "in_doubt"),
        HttpErrorKind::Egress => ("egress_blocked", "refused"),
    };
    let mut facts = facts(category, kind);
    facts.insert("url", url);
    facts
}

/// Returns the error of a builtin that rejects a path of this kind.
pub(crate) fn refused(text: String, path: String) -> Error {
    let mut facts = facts("generic", "refused");
    facts.insert("path", path);
    Error::thrown(text).with_facts(facts)
}

fn facts(category: &str, kind: &str) -> Dict {
    [("category", category), ("kind", kind)].into_iter().collect()
}

fn io_category(kind: io::ErrorKind) -> &'static str {
    use io::ErrorKind as K;
    match kind {
        K::NotFound => "not_found",
        K::TimedOut => "timeout",
        K::ConnectionRefused | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe => {
            "transient_network"
        }
        _ => "generic",
    }
}

fn io_kind(kind: io::ErrorKind) -> &'static str {
    use io::ErrorKind as K;
    match kind {
        K::NotFound => "not_found",
        K::PermissionDenied => "permission_denied",
        K::AlreadyExists => "already_exists",
        K::NotADirectory => "not_a_directory",
        K::IsADirectory => "is_a_directory",
        K::DirectoryNotEmpty => "directory_not_empty",
        K::ReadOnlyFilesystem => "read_only",
        K::StorageFull | K::WriteZero | K::QuotaExceeded => "storage_full",
        K::FileTooLarge => "too_large",
        K::InvalidData => "invalid_data",
        K::InvalidInput | K::InvalidFilename => "invalid_input",
        K::TimedOut => "timeout",
        K::WouldBlock | K::ResourceBusy => "busy",
        K::BrokenPipe => "closed",
        _ => "other",
    }
}
