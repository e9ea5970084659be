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

/// Numbers of errors.
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

/// The home folder of the user, if there is one.
pub(crate) fn homes() -> Vec<PathBuf> {
    std::env::home_dir().into_iter().collect()
}

/// What is at a path, and its volume and number there: what makes a file one file.
pub(crate) fn look(path: &Path, through_links: bool) -> io::Result<(Metadata, (u64, u64))> {
    let link = if through_links { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
    let mut options = OpenOptions::new();
    // No right is asked for: facts are told to whoever sees the file.
    let found = options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | link).open(path)?;
    let of_handle = file::information(HandleRef::from_file(&found))?;
    Ok((found.metadata()?, (of_handle.volume_serial_number(), of_handle.file_index())))
}

/// Owners are not compared here.
pub(crate) fn is_foreign(_path: &Path) -> bool {
    false
}

/// Opening never waits here.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Whether what was opened lies on a disk: names like `NUL` and `CON` lead to devices from every folder.
pub(crate) fn is_on_disk(found: &File) -> bool {
    file::typ(HandleRef::from_file(found)).is_ok_and(|kind| kind.is_disk())
}

/// Whether a path is the null device, which has no place in the file system here.
pub(crate) fn is_null_device(_path: &Path) -> bool {
    false
}

/// The bytes of an inherited pipe: none of them has a path here.
pub(crate) fn read_inherited(_path: &Path, _limit: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Who may read a new file is said by its folder.
pub(crate) fn for_owner_only(options: &mut OpenOptions, _private: bool) -> &mut OpenOptions {
    options
}

/// What a new file takes over from another one: whether it may be written. Who may do so is said by its folder.
pub(crate) struct Kept {
    readonly: bool,
}

impl Kept {
    /// What a file that takes the place of another one keeps of it.
    pub(crate) fn of(facts: &Metadata) -> Kept {
        Kept { readonly: facts.permissions().readonly() }
    }

    /// As before, with the permissions of another file.
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

/// The true path of what is there, in the form that people write: `C:\a`, not `\\?\C:\a`, in which `/` would be a part of a name.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    dunce::canonicalize(path)
}

/// Puts what is at one path to another. A file takes the place of a file in one step, a folder that of an empty one in two.
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

/// Makes a link as the one that `facts` are of.
pub(crate) fn link(target: &Path, path: &Path, facts: &Metadata) -> io::Result<()> {
    if facts.file_type().is_symlink_dir() { symlink_dir(target, path) } else { symlink_file(target, path) }
}

/// Removes a file or a link.
pub(crate) fn remove(path: &Path, facts: &Metadata) -> io::Result<()> {
    if facts.file_type().is_symlink_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
}

/// A variable of the environment that stands for another one here.
pub(crate) fn other_name(name: &str) -> Option<&'static str> {
    (name == "HOME").then_some("USERPROFILE")
}

/// No signals end programs here.
pub(crate) fn signal(_status: ExitStatus) -> Option<i32> {
    None
}

/// Gives a program its arguments. The line for `cmd /C` is passed as it is: that shell knows no quotes within quotes.
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
