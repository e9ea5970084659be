//! The processes of a command as a job: the system counts whatever they start to it.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;

use tokio::process::{Child, Command};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

/// The exit code of what is ended.
const ENDED: u32 = 1;

/// The processes of a command, ended when this is dropped.
pub(crate) struct Group(Option<OwnedHandle>);

impl Group {
    /// Starts a program in a job of its own, and out of reach of Ctrl-C, which is for the program that starts it.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Group)> {
        let job = job()?;
        // It runs once it is in the job: what it starts before would not be.
        let mut child = command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED).spawn()?;
        let begun = put_into(&job, &child).and_then(|()| resume(child.id().unwrap_or_default()));
        if let Err(error) = begun {
            let _ = child.start_kill();
            return Err(error);
        }
        Ok((child, Group(Some(job))))
    }

    /// It has ended: what it left in the background goes on.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// No signal asks a program without a window to end: it has until [`Group::end`].
    pub(crate) fn ask(&self) {}

    pub(crate) fn end(&self) {
        if let Some(job) = &self.0 {
            // SAFETY: the handle is open; an error means that no process is left.
            unsafe { TerminateJobObject(job.as_raw_handle(), ENDED) };
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// A handle that a call has given, or the call's error.
fn owned(handle: *mut std::ffi::c_void) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller has just got it, and nobody else knows it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn job() -> io::Result<OwnedHandle> {
    // SAFETY: both pointers may be null: no attributes, no name.
    owned(unsafe { CreateJobObjectW(null(), null()) })
}

fn put_into(job: &OwnedHandle, child: &Child) -> io::Result<()> {
    let process = child.raw_handle().ok_or_else(|| io::Error::other("it has ended before it began"))?;
    // SAFETY: both handles are open.
    let done = unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the first thread of a process run. Its handle is not told, so the thread is found by the number of its process.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: a plain call; its handle is checked.
    let threads = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    // SAFETY: the handle is open, and the struct says its own size, as these calls want it.
    let mut there = unsafe { Thread32First(threads.as_raw_handle(), &raw mut thread) };
    while there != 0 {
        if thread.th32OwnerProcessID == process {
            // SAFETY: a plain call; its handle is checked.
            let found = owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread.th32ThreadID) })?;
            // SAFETY: the handle is open and has the right that this call needs.
            let before = unsafe { ResumeThread(found.as_raw_handle()) };
            return if before == u32::MAX { Err(io::Error::last_os_error()) } else { Ok(()) };
        }
        // SAFETY: as above.
        there = unsafe { Thread32Next(threads.as_raw_handle(), &raw mut thread) };
    }
    Err(io::Error::other("the process has no thread"))
}
