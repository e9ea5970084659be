//! Resource limits of the operating system.

/// Raises the limit of open files to the maximum that the system allows. A thousand agents that wait for a model have a
/// thousand open connections, and the usual limit is 1,024.
#[cfg(target_os = "linux")]
pub(crate) fn raise_open_files() {
    // SAFETY: both calls receive a pointer to a struct of integers on this stack frame, for which zeros are valid.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            // If the call fails, the limit stays unchanged.
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error instead of a signal that ends the process.
/// Child processes have the default signal handling.
#[cfg(unix)]
pub(crate) fn report_file_size_limit() {
    let seen = std::sync::Arc::default();
    // Without the handler, such a write ends the process.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, seen);
}

/// Only Unix has this limit.
#[cfg(not(unix))]
pub(crate) fn report_file_size_limit() {}

/// Records whether standard output is closed, before Rust's startup code replaces it by the null device.
#[cfg(target_os = "linux")]
pub(crate) fn look_at_output() {
    // SAFETY: reads the flags of a descriptor and changes nothing.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        harn_system::real::output::set_closed();
    }
}

/// Sets this thread's memory limit for data to the default.
pub(crate) fn limit_memory() {
    if let Some(bytes) = default_memory() {
        harn_value::memory::set_limit(bytes);
    }
}

/// Returns the default memory limit for data if the system's limit (`ulimit -v`) requires a lower one than usual. A
/// growing list temporarily exists twice, and the allocator needs memory, too.
#[cfg(target_os = "linux")]
pub(crate) fn default_memory() -> Option<usize> {
    // SAFETY: receives a pointer to a struct of integers on this stack frame, for which zeros are valid.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0).then_some(limit.rlim_cur)?
    };
    let third = usize::try_from(limit).ok()? / 3;
    (limit != libc::RLIM_INFINITY && third < harn_value::memory::DEFAULT_LIMIT).then_some(third)
}

/// On other systems the usual default applies.
#[cfg(not(target_os = "linux"))]
pub(crate) fn default_memory() -> Option<usize> {
    None
}

/// Other systems are not supported; the limit stays unchanged.
#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_open_files() {}
