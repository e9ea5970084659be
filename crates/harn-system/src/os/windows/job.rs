//! The processes of a command as a job object, which also contains all descendants.

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

/// The exit code of terminated processes.
const ENDED: u32 = 1;

/// The job object of a command, terminated on drop.
pub(crate) struct Group(Option<OwnedHandle>);

impl Group {
    /// Starts a program in its own job object, and in a new process group so that Ctrl-C reaches only the parent.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Group)> {
        let job = job()?;
        // Suspended until it is in the job: children that it starts earlier would not belong to the job.
        let mut child = command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED).spawn()?;
        let begun = put_into(&job, &child).and_then(|()| resume(child.id().unwrap_or_default()));
        if let Err(error) = begun {
            let _ = child.start_kill();
            return Err(error);
        }
        Ok((child, Group(Some(job))))
    }

    /// Forgets the job after its program has ended: background processes continue to run.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Does nothing: a program without a window cannot be asked to terminate. It runs until [`Group::end`].
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

/// Takes ownership of a returned handle, or returns the error of the call.
fn owned(handle: *mut std::ffi::c_void) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller has just received the handle and is its only owner.
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

/// Resumes the main thread of a process. Its handle is not exposed, so it is found by process id.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: a plain call; its handle is checked.
    let threads = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    // SAFETY: the handle is open, and the struct contains its own size, as these calls require.
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
