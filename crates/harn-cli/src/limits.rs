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

/// Other systems have their own ways; there the limit stays.
#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_open_files() {}
