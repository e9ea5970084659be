//! Limits of the system that a program meets before those of the machine.

/// Raises the number of files that may be open to what the system allows at most: a thousand agents that wait for a
/// model have a thousand connections open, and the usual limit is 1,024.
#[cfg(target_os = "linux")]
pub(crate) fn raise_open_files() {
    // SAFETY: both calls get a pointer to a struct of plain numbers on this stack frame; zeros are a valid value of it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            // When it is refused, the limit stays what it was.
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error. Its signal would end the process; programs that
/// this process starts have the signal as it was.
#[cfg(unix)]
pub(crate) fn report_file_size_limit() {
    let seen = std::sync::Arc::default();
    // Without the handler, the process ends at such a write as before.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, seen);
}

/// Only Unix has such a limit.
#[cfg(not(unix))]
pub(crate) fn report_file_size_limit() {}

/// Notes whether standard output is closed, before Rust's start-up puts the null device in its place.
#[cfg(target_os = "linux")]
pub(crate) fn look_at_output() {
    // SAFETY: asks for the flags of a descriptor by number and changes nothing.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        harn_system::real::output::set_closed();
    }
}

/// Sets the limit of the memory of data in this thread when nothing is said.
pub(crate) fn limit_memory() {
    if let Some(bytes) = default_memory() {
        harn_value::memory::set_limit(bytes);
    }
}

/// The most memory that data may take when nothing is said: less than the default where the system gives the process less
/// (`ulimit -v`). A list that grows is there twice for a moment, and the allocator takes some for itself.
#[cfg(target_os = "linux")]
pub(crate) fn default_memory() -> Option<usize> {
    // SAFETY: gets a pointer to a struct of plain numbers on this stack frame; zeros are a valid value of it.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0).then_some(limit.rlim_cur)?
    };
    let third = usize::try_from(limit).ok()? / 3;
    (limit != libc::RLIM_INFINITY && third < harn_value::memory::DEFAULT_LIMIT).then_some(third)
}

/// Elsewhere the default stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn default_memory() -> Option<usize> {
    None
}

/// Other systems have their own ways; there the limit stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_open_files() {}
