//! [`Cx`]: services for native functions: print, call closures, pull iterators, wait, start tasks, access the host and
//! the state of other crates.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use harn_system::Waiting;
use harn_value::Value;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bytecode::{Ins, Proto};
use crate::error::{Error, Result, TraceEntry};
use crate::iter::Iter;
use crate::task::Task;
use crate::vm::Vm;

/// Arguments of a call; one to three need no allocation.
pub type CallArgs = SmallVec<[Value; 3]>;

/// A request of a native function to the interpreter.
pub(crate) enum Request {
    /// Call a function.
    Call(Value, CallArgs),
    /// Run a generator to its next `yield`.
    Resume(Value),
    /// Let the fiber check deadlines, interruption and other tasks.
    GiveWay,
}

/// The mailbox between a native function's future and the interpreter that polls it.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) request: Cell<Option<Request>>,
    pub(crate) reply: Cell<Option<Result<Value>>>,
}

pub(crate) struct Inner {
    pub(crate) vm: Rc<Vm>,
    pub(crate) task: Rc<Task>,
    pub(crate) link: Link,
    /// The function that made the last call of a native function; owned by the VM.
    pub(crate) caller: Cell<*const Proto>,
    /// The instruction after that call.
    pub(crate) call: Cell<*const Ins>,
}

/// The context of a native function. Cloning is cheap.
#[derive(Clone)]
pub struct Cx(pub(crate) Rc<Inner>);

impl Cx {
    pub(crate) fn new(vm: Rc<Vm>, task: Rc<Task>) -> Cx {
        Cx(Rc::new(Inner {
            vm,
            task,
            link: Link::default(),
            caller: Cell::new(std::ptr::null()),
            call: Cell::new(std::ptr::null()),
        }))
    }

    /// Returns the virtual machine.
    pub fn vm(&self) -> &Rc<Vm> {
        &self.0.vm
    }

    /// Returns the running task.
    pub fn task(&self) -> &Rc<Task> {
        &self.0.task
    }

    /// Writes program output to the host, or to the buffer of a child task.
    ///
    /// # Errors
    /// Ends the program if the output is closed.
    pub fn print(&self, text: &str) -> Result<()> {
        self.0.task.print(&self.0.vm, text)
    }

    /// Returns the directory of the source file that contains the call being executed.
    pub fn caller_dir(&self) -> PathBuf {
        let file = self.caller_file();
        let dir = std::path::Path::new(&*file).parent().unwrap_or(std::path::Path::new(""));
        match &self.vm().source_base {
            Some(base) if !file.is_empty() && !file.starts_with("std/") => base.join(dir),
            _ => dir.to_path_buf(),
        }
    }

    /// Returns the source file that contains the call being executed.
    pub fn caller_file(&self) -> Rc<str> {
        // SAFETY: compiled functions live as long as the VM, and this context holds the VM.
        unsafe { self.0.caller.get().as_ref() }.map_or_else(|| Rc::from(""), |proto| proto.file.clone())
    }

    /// Returns file and line of the call being executed; `None` before the first one.
    pub(crate) fn call_place(&self) -> Option<(Rc<str>, usize)> {
        let (module, offset) = self.call_spot()?;
        self.0.vm.line_of(module, offset)
    }

    /// Returns the module and the byte offset of the builtin call in progress.
    pub(crate) fn call_spot(&self) -> Option<(u32, u32)> {
        // SAFETY: as in `caller_file`; the call is in the code of its function.
        let (proto, at) = unsafe {
            let proto = self.0.caller.get().as_ref()?;
            (proto, self.0.call.get().offset_from(proto.code.as_ptr()))
        };
        let span = proto.span_at(usize::try_from(at).ok()?.saturating_sub(1));
        Some((proto.module, span.start))
    }

    /// Calls a function value and waits for its result. The callee may await.
    ///
    /// Only one call can be in progress; for concurrent calls, a native function starts tasks with [`Cx::spawn`].
    ///
    /// # Errors
    /// The error that the callee throws; a type error if `f` cannot be called.
    pub async fn call(&self, f: &Value, args: impl IntoIterator<Item = Value>) -> Result<Value> {
        self.request(Request::Call(f.clone(), args.into_iter().collect())).await
    }

    /// Runs a generator to its next `yield`; returns [`Value::ABSENT`] when it has ended.
    pub(crate) async fn resume(&self, generator: &Value) -> Result<Value> {
        self.request(Request::Resume(generator.clone())).await
    }

    /// For native code that runs for a long time without waiting: checks deadlines, interruption and the memory limit,
    /// and lets other tasks run.
    ///
    /// # Errors
    /// The error to stop with, unless it ends the native function immediately.
    pub async fn give_way(&self) -> Result<()> {
        self.request(Request::GiveWay).await.map(drop)
    }

    async fn request(&self, request: Request) -> Result<Value> {
        self.reply_to(request).await.map_err(|mut error| {
            // The caller may report the location of the error, and may hold the error longer than the VM lives. SAFETY:
            // the trace holds only addresses of functions, which live as long as the VM; the request holds the VM.
            error.resolve_trace(|function, pc| unsafe { passed(function, pc) });
            error
        })
    }

    async fn reply_to(&self, request: Request) -> Result<Value> {
        let link = &self.0.link;
        // The callee may call builtins as well. Afterwards, restore the location of this call.
        let (caller, call) = (self.0.caller.get(), self.0.call.get());
        link.request.set(Some(request));
        let mut asked = false;
        let reply = poll_fn(|_| {
            if !asked {
                asked = true;
                return Poll::Pending;
            }
            match link.reply.take() {
                Some(reply) => Poll::Ready(reply),
                None => Poll::Pending,
            }
        })
        .await;
        self.0.caller.set(caller);
        self.0.call.set(call);
        reply
    }

    /// Returns an iterator over `value`.
    ///
    /// # Errors
    /// `Type error: iter: value of type T is not iterable`
    pub fn iter(&self, value: &Value) -> Result<Iter> {
        Iter::over(value)
    }

    /// Collects all items of an iterable value.
    ///
    /// # Errors
    /// As for [`Cx::iter`], and errors of the source.
    pub async fn collect(&self, value: &Value) -> Result<Vec<Value>> {
        if let Some(list) = value.as_list() {
            return Ok(list.to_vec());
        }
        let iter = self.iter(value)?;
        let mut items = Vec::new();
        while let Some(item) = iter.next(self).await? {
            crate::iter::drain::room_for_one(items.len(), items.capacity())?;
            items.push(item);
            if items.len() % 4096 == 0 {
                self.give_way().await?;
            }
        }
        Ok(items)
    }

    /// Sleeps. Cancellation and deadlines interrupt it like every wait of a native function: the interpreter drops the
    /// native function's future.
    ///
    /// # Errors
    /// The cancellation error if cancellation was requested before.
    pub async fn sleep(&self, time: Duration) -> Result<()> {
        self.wait(self.0.vm.system().sleep(time)).await
    }

    /// Waits for an operation of the system, with the same interruptions as [`Cx::sleep`].
    ///
    /// # Errors
    /// As for [`Cx::sleep`].
    pub async fn wait<T>(&self, mut waiting: Waiting<'static, T>) -> Result<T> {
        // Cancellation wakes the task and with it this future.
        poll_fn(|context| match self.0.task.check_wait() {
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) => waiting.as_mut().poll(context).map(Ok),
        })
        .await
    }

    /// Checks cancellation, deadlines and the memory limit, for native code that runs for a long time without waiting.
    ///
    /// # Errors
    /// The error to stop with.
    pub fn check(&self) -> Result<()> {
        harn_value::memory::look()?;
        self.0.task.check(&self.0.vm)
    }

    /// Returns the state of another crate for this program, created on first use.
    pub fn state<T: Any + Default>(&self) -> Rc<T> {
        self.0.vm.state::<T>()
    }
}

/// State of other crates, by type.
#[derive(Default)]
pub(crate) struct States(RefCell<FxHashMap<TypeId, Rc<dyn Any>>>);

impl States {
    pub(crate) fn get<T: Any + Default>(&self) -> Rc<T> {
        let known = self.0.borrow().get(&TypeId::of::<T>()).cloned();
        let state = known.unwrap_or_else(|| {
            let new: Rc<dyn Any> = Rc::<T>::default();
            self.0.borrow_mut().insert(TypeId::of::<T>(), new.clone());
            new
        });
        state.downcast::<T>().unwrap_or_else(|_| Rc::default())
    }
}

impl Error {
    /// Converts an error of writing output. If the reader has closed the pipe, the program ends silently.
    pub(crate) fn output(error: &std::io::Error) -> Error {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Error::exit(0)
        } else {
            Error::runtime(format!("cannot write to standard output: {error}"))
        }
    }
}

/// Returns the source location of an instruction that an error passed through.
///
/// # Safety
/// The address is that of a live function.
pub(crate) unsafe fn passed(function: *const (), pc: usize) -> TraceEntry {
    // SAFETY: by contract.
    let proto = unsafe { &*function.cast::<Proto>() };
    TraceEntry {
        function: proto.name.clone(),
        file: proto.file.clone(),
        module: proto.module,
        span: proto.span_at(pc),
    }
}
