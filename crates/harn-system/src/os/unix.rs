//! Unix: Linux, macOS and the BSDs.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};

/// Error codes.
pub(crate) mod codes {
    use rustix::io::Errno;

    pub(crate) const ACCESS: i32 = Errno::ACCESS.raw_os_error();
    pub(crate) const BADF: i32 = Errno::BADF.raw_os_error();
    pub(crate) const BUSY: i32 = Errno::BUSY.raw_os_error();
    pub(crate) const EXIST: i32 = Errno::EXIST.raw_os_error();
    pub(crate) const INVAL: i32 = Errno::INVAL.raw_os_error();
    pub(crate) const ISDIR: i32 = Errno::ISDIR.raw_os_error();
    pub(crate) const LOOP: i32 = Errno::LOOP.raw_os_error();
    pub(crate) const NOENT: i32 = Errno::NOENT.raw_os_error();
    pub(crate) const NOSPC: i32 = Errno::NOSPC.raw_os_error();
    pub(crate) const NOTDIR: i32 = Errno::NOTDIR.raw_os_error();
    pub(crate) const NOTEMPTY: i32 = Errno::NOTEMPTY.raw_os_error();
}

/// Returns the home directories of the user, from `/etc/passwd` and from `HOME`, even if it is not UTF-8.
pub(crate) fn homes() -> Vec<PathBuf> {
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let mut homes = homes_in(&String::from_utf8_lossy(&users), rustix::process::getuid().as_raw());
    homes.extend(std::env::home_dir());
    homes
}

fn homes_in(users: &str, user: u32) -> Vec<PathBuf> {
    let user = user.to_string();
    let of_user = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        fields.get(5).filter(|_| fields[2] == user).map(PathBuf::from)
    };
    users.lines().filter_map(of_user).collect()
}

/// Returns the metadata of a path, and its device and inode as identity.
pub(crate) fn look(path: &Path, through_links: bool) -> io::Result<(Metadata, (u64, u64))> {
    let facts = if through_links { path.metadata() } else { path.symlink_metadata() }?;
    let identity = (facts.dev(), facts.ino());
    Ok((facts, identity))
}

/// Returns whether another user owns a file or its directory, or can change one of them. The superuser is not
/// considered.
pub(crate) fn is_foreign(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let of_others = |facts: io::Result<Metadata>| {
        let Ok(facts) = facts else { return true };
        // On most systems, the group with the user's number contains only that user. In a sticky directory other users
        // can change only their own files.
        let is_sticky = facts.is_dir() && facts.mode() & 0o1000 != 0;
        let by_group = facts.mode() & 0o020 != 0 && facts.gid() != facts.uid();
        let writable = by_group || facts.mode() & 0o002 != 0;
        ![0, user].contains(&facts.uid()) || (writable && !facts.is_symlink() && !is_sticky)
    };
    of_others(path.metadata())
        || of_others(path.symlink_metadata())
        || path.parent().is_none_or(|folder| of_others(folder.metadata()))
}

/// Makes opening non-blocking, in case the path has become a FIFO since it was checked.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
}

/// Returns whether a path is `/dev/null` itself.
pub(crate) fn is_null_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;

    let null = rustix::fs::makedev(1, 3);
    let is_null = |facts: Metadata| {
        facts.file_type().is_char_device() && (facts.rdev() == null || !cfg!(target_os = "linux"))
    };
    path == Path::new("/dev/null") && path.metadata().is_ok_and(is_null)
}

/// Maximum time that a pipe may be silent.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Reads an inherited pipe, at most `limit` bytes and one more; returns `None` for every other path. Named pipes are
/// not read, because reading blocks until a writer opens them.
///
/// # Errors
/// The error of the system; `TimedOut` if nothing arrives for a minute, `Interrupted` after a signal.
pub(crate) fn read_inherited(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    use std::os::unix::fs::FileTypeExt;

    if is_null_device(path) {
        return Ok(Some(Vec::new()));
    }
    let number = ["/dev/fd", "/proc/self/fd"].iter().find_map(|folder| path.strip_prefix(folder).ok());
    let is_number = number.and_then(Path::to_str).is_some_and(|text| text.parse::<u32>().is_ok());
    if !is_number && path != Path::new("/dev/stdin") || !path.metadata()?.file_type().is_fifo() {
        return Ok(None);
    }
    let mut file = without_waiting(OpenOptions::new().read(true)).open(path)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while bytes.len() as u64 <= limit {
        let mut ready = [rustix::event::PollFd::new(&file, rustix::event::PollFlags::IN)];
        let silence = rustix::event::Timespec { tv_sec: SILENCE.as_secs() as i64, tv_nsec: 0 };
        if rustix::event::poll(&mut ready, Some(&silence))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing arrived for a minute"));
        }
        match io::Read::read(&mut file, &mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// Returns whether an open file is on a disk. On Unix, the metadata already answers this.
pub(crate) fn is_on_disk(_file: &File) -> bool {
    true
}

/// Sets the permissions of a new file: accessible only to the owner, or as the umask allows.
pub(crate) fn for_owner_only(options: &mut OpenOptions, private: bool) -> &mut OpenOptions {
    options.mode(if private { 0o600 } else { 0o666 })
}

/// Attributes that a new file inherits from another file.
pub(crate) struct Kept {
    mode: u32,
    /// `None`: the owner is the current user.
    owner: Option<(u32, u32)>,
}

impl Kept {
    /// Returns the attributes that a replacement of a file inherits.
    pub(crate) fn of(facts: &Metadata) -> Kept {
        Kept { mode: facts.mode() & 0o7777, owner: Some((facts.uid(), facts.gid())) }
    }

    /// Returns the attributes with the permissions of another file.
    pub(crate) fn with_permissions(kept: Option<Kept>, facts: &Metadata) -> Kept {
        Kept { mode: facts.mode() & 0o7777, owner: kept.and_then(|kept| kept.owner) }
    }

    pub(crate) fn give_to(&self, file: &File) -> io::Result<()> {
        let facts = file.metadata()?;
        if let Some((user, group)) = self.owner
            && (facts.uid(), facts.gid()) != (user, group)
        {
            // Only a privileged process can do this; otherwise the file belongs to the current user.
            let _ = std::os::unix::fs::fchown(file, Some(user), Some(group));
        }
        file.set_permissions(Permissions::from_mode(self.mode))
    }
}

/// Returns the canonical path of an existing file.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Renames a file or directory atomically.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Creates a symbolic link.
pub(crate) fn link(target: &Path, path: &Path, _facts: &Metadata) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Removes a file or a link.
pub(crate) fn remove(path: &Path, _facts: &Metadata) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Returns the name of the environment variable that replaces `name` on this system.
pub(crate) fn other_name(_name: &str) -> Option<&'static str> {
    None
}

/// Returns the signal that terminated a program.
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Sets the arguments of a program.
pub(crate) fn arguments(command: &mut Command, _program: &str, arguments: &[String]) {
    command.args(arguments);
}

/// The process group of a command, killed on drop.
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// Starts a program in its own process group.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Group)> {
        let child = command.process_group(0).spawn()?;
        let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok((child, Group(group)))
    }

    /// Forgets the group after its program has ended: its id may be reused.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Sends SIGTERM to the program itself; terminating its children is left to it.
    pub(crate) fn ask(&self) {
        if let Some(leader) = self.0 {
            let _ = kill_process(leader, Signal::TERM);
        }
    }

    pub(crate) fn end(&self) {
        let Some(leader) = self.0 else { return };
        let mut groups = vec![leader];
        // An error means that no process is left.
        let _ = kill_process_group(leader, Signal::STOP);
        // A killed program cannot terminate children in other process groups, which Harn itself creates. Each group
        // that is found is stopped first, so that it cannot create more and the search terminates.
        while let Some(group) = another_group(leader, &groups) {
            let _ = kill_process_group(group, Signal::STOP);
            groups.push(group);
        }
        for group in groups {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns a process group, other than the known ones, of a descendant process. Works only on Linux.
fn another_group(leader: Pid, known: &[Pid]) -> Option<Pid> {
    let own = rustix::process::getpgrp();
    let mut todo = vec![leader];
    while let Some(process) = todo.pop() {
        let group = rustix::process::getpgid(Some(process)).ok();
        if let Some(group) = group.filter(|group| *group != own && !known.contains(group)) {
            return Some(group);
        }
        todo.extend(children(process));
    }
    None
}

/// Returns the child processes that have not been waited for.
fn children(process: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).into_iter().flatten();
    for thread in threads.flatten() {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    found
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_a_user_stands_in_the_list_of_users() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken:x:7\n\nme:x:1000:1000::/home/me:/bin/sh\n";
        assert_eq!(homes_in(users, 1000), [PathBuf::from("/home/me")]);
        assert_eq!(homes_in(users, 7), Vec::<PathBuf>::new());
        assert_eq!(homes_in(users, 100), Vec::<PathBuf>::new());
    }
}
