//! Serialization of answers.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harn_system::{Asked, Facts, Finished, HttpError, HttpErrorKind, InDoubt, Kind, MoveError, Reply};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// An answer in a journal.
pub(crate) trait Answer: Sized {
    /// Serializes the answer.
    fn encode(&self) -> Vec<u8>;
    /// Deserializes an answer.
    fn decode(bytes: &[u8]) -> Option<Self>;
    /// Returns the answer after the run was stopped.
    fn stopped() -> Self;
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

fn read<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// The error message of a system that has stopped.
pub(crate) const STOPPED: &str = "the run was stopped";

macro_rules! plain {
    ($($ty:ty = $stopped:expr;)*) => {$(
        impl Answer for $ty {
            fn encode(&self) -> Vec<u8> {
                written(self)
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                read(bytes)
            }
            fn stopped() -> Self {
                $stopped
            }
        }
    )*};
}

plain! {
    bool = false;
    Option<String> = None;
    Vec<u8> = Vec::new();
    u32 = 0;
    (String, String) = <(String, String)>::default();
    () = ();
}

/// An error of the system.
#[derive(Serialize, Deserialize)]
struct Failure {
    code: Option<i32>,
    kind: u8,
    text: String,
    in_doubt: bool,
}

/// Error kinds that callers distinguish. Append new ones at the end: the numbers are persisted.
const KINDS: &[io::ErrorKind] = &[
    io::ErrorKind::Other,
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidData,
    io::ErrorKind::TimedOut,
    io::ErrorKind::FileTooLarge,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::Interrupted,
    io::ErrorKind::Unsupported,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::OutOfMemory,
    io::ErrorKind::WouldBlock,
    io::ErrorKind::NotADirectory,
    io::ErrorKind::IsADirectory,
    io::ErrorKind::DirectoryNotEmpty,
    io::ErrorKind::StorageFull,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::CrossesDevices,
    io::ErrorKind::WriteZero,
];

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Failure {
        let kind = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0);
        let in_doubt = error.get_ref().is_some_and(|inner| inner.is::<InDoubt>());
        Failure { code: error.raw_os_error(), kind: kind as u8, text: error.to_string(), in_doubt }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        if failure.in_doubt {
            return io::Error::other(InDoubt(failure.text));
        }
        match failure.code.map(io::Error::from_raw_os_error) {
            Some(error) if error.to_string() == failure.text => error,
            _ => {
                let kind = KINDS.get(usize::from(failure.kind)).copied();
                io::Error::new(kind.unwrap_or(io::ErrorKind::Other), failure.text)
            }
        }
    }
}

/// Results of successful calls of the system.
pub(crate) trait Part: Sized {
    type Form: Serialize + for<'a> Deserialize<'a>;
    fn form(&self) -> Self::Form;
    fn of(form: Self::Form) -> Option<Self>;
}

macro_rules! own_form {
    ($($ty:ty),*) => {$(
        impl Part for $ty {
            type Form = $ty;
            fn form(&self) -> $ty {
                self.clone()
            }
            fn of(form: $ty) -> Option<$ty> {
                Some(form)
            }
        }
    )*};
}

own_form!((), String, Option<String>, bool);

impl Part for Vec<u8> {
    type Form = ByteBuf;
    fn form(&self) -> ByteBuf {
        ByteBuf::from(self.clone())
    }
    fn of(form: ByteBuf) -> Option<Vec<u8>> {
        Some(form.into_vec())
    }
}

impl Part for Facts {
    type Form = (u8, u64, bool, f64, (u64, u64));

    fn form(&self) -> Self::Form {
        let kind = match self.kind {
            Kind::File => 0,
            Kind::Dir => 1,
            Kind::Link => 2,
            Kind::Other => 3,
        };
        (kind, self.size, self.readonly, self.modified, self.identity)
    }

    fn of((kind, size, readonly, modified, identity): Self::Form) -> Option<Facts> {
        let kind = match kind {
            0 => Kind::File,
            1 => Kind::Dir,
            2 => Kind::Link,
            _ => Kind::Other,
        };
        Some(Facts { kind, size, readonly, modified, identity })
    }
}

/// Serializes a path.
#[cfg(unix)]
pub(crate) fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(bytes).into()
}

/// Marks a path that is not UTF-8, followed by pairs of bytes: no UTF-8 string begins with this byte.
#[cfg(windows)]
const NO_TEXT: u8 = 0xff;

/// Serializes a path.
#[cfg(windows)]
pub(crate) fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::windows::ffi::OsStrExt;
    match path.to_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => std::iter::once(NO_TEXT)
            .chain(path.as_os_str().encode_wide().flat_map(u16::to_le_bytes))
            .collect(),
    }
}

#[cfg(windows)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::windows::ffi::OsStringExt;
    match bytes.split_first() {
        Some((&NO_TEXT, pairs)) => {
            let units: Vec<u16> =
                pairs.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            OsString::from_wide(&units).into()
        }
        _ => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

impl Part for PathBuf {
    type Form = Vec<u8>;
    fn form(&self) -> Vec<u8> {
        path_bytes(self)
    }
    fn of(form: Vec<u8>) -> Option<PathBuf> {
        Some(path_of(form))
    }
}

impl Part for Vec<PathBuf> {
    type Form = Vec<Vec<u8>>;
    fn form(&self) -> Vec<Vec<u8>> {
        self.iter().map(|path| path_bytes(path)).collect()
    }
    fn of(form: Vec<Vec<u8>>) -> Option<Vec<PathBuf>> {
        Some(form.into_iter().map(path_of).collect())
    }
}

impl Part for Finished {
    type Form = (u32, Option<i32>, Option<i32>, ByteBuf, ByteBuf, bool);
    fn form(&self) -> Self::Form {
        (self.pid, self.code, self.signal, self.stdout.form(), self.stderr.form(), self.timed_out)
    }
    fn of((pid, code, signal, stdout, stderr, timed_out): Self::Form) -> Option<Finished> {
        let (stdout, stderr) = (stdout.into_vec(), stderr.into_vec());
        Some(Finished { pid, code, signal, stdout, stderr, timed_out })
    }
}

impl<T: Part> Answer for io::Result<T> {
    fn encode(&self) -> Vec<u8> {
        written(&self.as_ref().map(Part::form).map_err(Failure::from))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match read::<Result<T::Form, Failure>>(bytes)? {
            Ok(form) => T::of(form).map(Ok),
            Err(failure) => Some(Err(failure.into())),
        }
    }

    fn stopped() -> Self {
        Err(io::Error::other(STOPPED))
    }
}

impl Answer for Result<(), MoveError> {
    fn encode(&self) -> Vec<u8> {
        written(&match self {
            Ok(()) => Ok(()),
            Err(MoveError::NotMoved(error)) => Err((false, Failure::from(error))),
            Err(MoveError::NotRemoved(error)) => Err((true, Failure::from(error))),
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(read::<Result<(), (bool, Failure)>>(bytes)?.map_err(|(moved, failure)| match moved {
            true => MoveError::NotRemoved(failure.into()),
            false => MoveError::NotMoved(failure.into()),
        }))
    }

    fn stopped() -> Self {
        Err(MoveError::NotMoved(io::Error::other(STOPPED)))
    }
}

impl Answer for Asked {
    fn encode(&self) -> Vec<u8> {
        let parts =
            |reply: &Reply| (reply.value.clone(), reply.by.clone(), reply.at_ms, reply.signature.clone());
        written(&self.as_ref().map(|reply| reply.as_ref().map(parts)))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        type Parts = (String, String, i64, String);
        let asked: Result<Option<Parts>, String> = read(bytes)?;
        let reply = |(value, by, at_ms, signature)| Reply { value, by, at_ms, signature };
        Some(asked.map(|parts| parts.map(reply)))
    }

    fn stopped() -> Self {
        Ok(None)
    }
}

/// Kinds of HTTP errors. Append new ones at the end: the numbers are persisted.
const HTTP_KINDS: &[HttpErrorKind] = &[
    HttpErrorKind::Invalid,
    HttpErrorKind::Timeout,
    HttpErrorKind::Connect,
    HttpErrorKind::Broken,
    HttpErrorKind::Redirect,
    HttpErrorKind::TooLarge,
    HttpErrorKind::Refused,
    HttpErrorKind::InDoubt,
    HttpErrorKind::Egress,
    HttpErrorKind::Restarted,
];

/// Status and headers of a reply.
pub(crate) type Head = (u16, Vec<(String, String)>);

impl Part for Option<Vec<u8>> {
    type Form = Option<ByteBuf>;
    fn form(&self) -> Self::Form {
        self.clone().map(ByteBuf::from)
    }
    fn of(form: Self::Form) -> Option<Self> {
        Some(form.map(ByteBuf::into_vec))
    }
}

/// The head of a reply, and its body if it arrived completely with the head.
pub(crate) struct Came {
    pub(crate) head: Head,
    pub(crate) body: Option<Result<Vec<u8>, HttpError>>,
}

/// Separates a head from the body that arrived with it. Older journals have nothing after the head.
const WITH_BODY: u8 = 1;

/// Separates a head from the error that ended the body.
const WITH_ERROR: u8 = 2;

impl Answer for Result<Came, HttpError> {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = written(&self.as_ref().map(|came| &came.head).map_err(failed));
        match self {
            Ok(Came { body: Some(Ok(body)), .. }) => {
                bytes.reserve_exact(body.len() + 1);
                bytes.push(WITH_BODY);
                bytes.extend_from_slice(body);
            }
            Ok(Came { body: Some(Err(error)), .. }) => {
                bytes.push(WITH_ERROR);
                bytes.extend(written(&failed(error)));
            }
            _ => {}
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = postcard::take_from_bytes::<Result<Head, (u8, String)>>(bytes).ok()?;
        let body = match rest.split_first() {
            None => None,
            Some((&WITH_BODY, body)) => Some(Ok(body.to_vec())),
            Some((&WITH_ERROR, error)) => Some(Err(failure(read(error)?))),
            Some(_) => return None,
        };
        Some(head.map(|head| Came { head, body }).map_err(failure))
    }

    fn stopped() -> Self {
        Err(HttpError::new(HttpErrorKind::Broken, STOPPED))
    }
}

fn failed(error: &HttpError) -> (u8, String) {
    let kind = HTTP_KINDS.iter().position(|kind| *kind == error.kind).unwrap_or(3);
    (kind as u8, error.text.clone())
}

fn failure((kind, text): (u8, String)) -> HttpError {
    let kind = HTTP_KINDS.get(usize::from(kind)).copied();
    HttpError::new(kind.unwrap_or(HttpErrorKind::Broken), text)
}

impl Answer for Result<Option<Vec<u8>>, HttpError> {
    fn encode(&self) -> Vec<u8> {
        written(&self.as_ref().map(Part::form).map_err(failed))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let read: Result<Option<ByteBuf>, (u8, String)> = read(bytes)?;
        Some(read.map(|piece| piece.map(ByteBuf::into_vec)).map_err(failure))
    }

    fn stopped() -> Self {
        Err(HttpError::new(HttpErrorKind::Broken, STOPPED))
    }
}

/// Converts to nanoseconds, capped.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
