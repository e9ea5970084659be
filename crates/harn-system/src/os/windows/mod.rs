//! Windows.

mod job;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileTypeExt, OpenOptionsExt, symlink_dir, symlink_file};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::process::Command;
use winapi_util::{HandleRef, file};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT};

pub(crate) use job::Group;

/// Error codes.
pub(crate) mod codes {
    use windows_sys::Win32::Foundation as os;

    pub(crate) const ACCESS: i32 = os::ERROR_ACCESS_DENIED as i32;
    pub(crate) const BADF: i32 = os::ERROR_INVALID_HANDLE as i32;
    pub(crate) const BUSY: i32 = os::ERROR_BUSY as i32;
    pub(crate) const EXIST: i32 = os::ERROR_ALREADY_EXISTS as i32;
    pub(crate) const INVAL: i32 = os::ERROR_INVALID_PARAMETER as i32;
    pub(crate) const ISDIR: i32 = os::ERROR_DIRECTORY_NOT_SUPPORTED as i32;
    pub(crate) const LOOP: i32 = os::ERROR_CANT_RESOLVE_FILENAME as i32;
    pub(crate) const NOENT: i32 = os::ERROR_FILE_NOT_FOUND as i32;
    pub(crate) const NOSPC: i32 = os::ERROR_DISK_FULL as i32;
    pub(crate) const NOTDIR: i32 = os::ERROR_DIRECTORY as i32;
    pub(crate) const NOTEMPTY: i32 = os::ERROR_DIR_NOT_EMPTY as i32;
}

/// Returns the home directory of the user, if any.
pub(crate) fn homes() -> Vec<PathBuf> {
    std::env::home_dir().into_iter().collect()
}

/// Returns the metadata of a path, and its volume and file index as identity.
pub(crate) fn look(path: &Path, through_links: bool) -> io::Result<(Metadata, (u64, u64))> {
    let link = if through_links { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
    let mut options = OpenOptions::new();
    // Metadata requires no access right.
    let found = options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | link).open(path)?;
    let of_handle = file::information(HandleRef::from_file(&found))?;
    Ok((found.metadata()?, (of_handle.volume_serial_number(), of_handle.file_index())))
}

/// Owners are not compared on Windows.
pub(crate) fn is_foreign(_path: &Path) -> bool {
    false
}

/// Opening never blocks on Windows.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns whether an open file is on a disk: names like `NUL` and `CON` are devices in every directory.
pub(crate) fn is_on_disk(found: &File) -> bool {
    file::typ(HandleRef::from_file(found)).is_ok_and(|kind| kind.is_disk())
}

/// Returns whether a path is the null device, which has no path on Windows.
pub(crate) fn is_null_device(_path: &Path) -> bool {
    false
}

/// Inherited pipes have no path on Windows.
pub(crate) fn read_inherited(_path: &Path, _limit: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Permissions of a new file are inherited from its directory.
pub(crate) fn for_owner_only(options: &mut OpenOptions, _private: bool) -> &mut OpenOptions {
    options
}

/// Attributes that a new file inherits from another file: whether it is read-only. Access rights come from its
/// directory.
pub(crate) struct Kept {
    readonly: bool,
}

impl Kept {
    /// Returns the attributes that a replacement of a file inherits.
    pub(crate) fn of(facts: &Metadata) -> Kept {
        Kept { readonly: facts.permissions().readonly() }
    }

    /// Returns the attributes with the permissions of another file.
    pub(crate) fn with_permissions(_kept: Option<Kept>, facts: &Metadata) -> Kept {
        Kept::of(facts)
    }

    pub(crate) fn give_to(&self, file: &File) -> io::Result<()> {
        let mut permissions = file.metadata()?.permissions();
        if permissions.readonly() == self.readonly {
            return Ok(());
        }
        permissions.set_readonly(self.readonly);
        file.set_permissions(permissions)
    }
}

/// Returns the canonical path of an existing file in the usual form: `C:\a`, not `\\?\C:\a`, in which `/` would be part
/// of a name.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    dunce::canonicalize(path)
}

/// Renames a file or directory. A file replaces a file atomically; a directory replaces an empty directory in two
/// steps.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let is_dir = |path: &Path| path.symlink_metadata().map(|facts| facts.is_dir());
    match (is_dir(from)?, is_dir(to)) {
        (true, Ok(true)) => std::fs::remove_dir(to)?,
        (true, Ok(false)) => return Err(super::error(codes::NOTDIR)),
        (false, Ok(true)) => return Err(super::error(codes::ISDIR)),
        _ => {}
    }
    std::fs::rename(from, to)
}

/// Creates a link of the same kind as the one described by `facts`.
pub(crate) fn link(target: &Path, path: &Path, facts: &Metadata) -> io::Result<()> {
    if facts.file_type().is_symlink_dir() { symlink_dir(target, path) } else { symlink_file(target, path) }
}

/// Removes a file or a link.
pub(crate) fn remove(path: &Path, facts: &Metadata) -> io::Result<()> {
    if facts.file_type().is_symlink_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
}

/// Returns the name of the environment variable that replaces `name` on this system.
pub(crate) fn other_name(name: &str) -> Option<&'static str> {
    (name == "HOME").then_some("USERPROFILE")
}

/// Programs are not terminated by signals on Windows.
pub(crate) fn signal(_status: ExitStatus) -> Option<i32> {
    None
}

/// Sets the arguments of a program. The command line of `cmd /C` is passed verbatim, because that shell does not
/// support nested quotes.
pub(crate) fn arguments(command: &mut Command, program: &str, arguments: &[String]) {
    let name = Path::new(program).file_stem().map(|name| name.to_string_lossy().to_lowercase());
    match arguments {
        [switches @ .., line]
            if name.as_deref() == Some("cmd")
                && switches.last().is_some_and(|switch| switch.eq_ignore_ascii_case("/c")) =>
        {
            command.args(switches).raw_arg(format!("\"{line}\""));
        }
        _ => {
            command.args(arguments);
        }
    }
}
