//! Builtins for tasks: spawn, await, parallel, channels, select, deadlines, mutex blocks, atomics.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use harn_syntax::Severity;
use harn_system::SystemExt;
use harn_value::{Dict, EnumValue, Foreign, List, Ref, Str, Value, View};
use rustc_hash::FxHashMap;

use crate::builtin::{Builtin, Callable, Maybe, OptionDict};
use crate::builtins;
use crate::channel::{Channel, Received, Sender, StreamValue};
use crate::cx::Cx;
use crate::error::{Error, ErrorKind, Result};
use crate::fiber::Fiber;
use crate::identity::{Form, Origin, Supervised};
use crate::isolate::Isolation;
use crate::scheduler::among_tasks;
use crate::signature::{self, WrongTime};
use crate::spans::{OpenSpan, SpanKind};
use crate::sync::TimeLimit;
use crate::task::{CANCELLED, Ends, GRACE, Handle, Task};

/// The handle that `spawn` returns.
pub struct TaskHandle {
    task: Rc<Task>,
    /// Sequence number among the tasks that its owner has spawned.
    number: u64,
    consumed: Cell<bool>,
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        self.task.set_handle(Handle::Gone);
    }
}

impl Foreign for TaskHandle {
    fn type_name(&self) -> &'static str {
        "task_handle"
    }

    fn print(&self, out: &mut String) {
        out.push_str(&format!("<task:vm_task_{}>", self.number));
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<TaskHandle>().is_some_and(|other| Rc::ptr_eq(&self.task, &other.task))
    }

    fn identity(&self) -> usize {
        Rc::as_ptr(&self.task).addr()
    }
}

/// A shared 64-bit integer.
pub struct Atomic(Cell<i64>);

impl Foreign for Atomic {
    fn type_name(&self) -> &'static str {
        "atomic"
    }

    fn print(&self, out: &mut String) {
        out.push_str(&format!("<atomic:{}>", self.0.get()));
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        std::ptr::addr_eq(&raw const *self, &raw const *other)
    }
}

impl Cx {
    /// Starts a child task that calls `f`; it first runs when this task waits.
    pub fn spawn(&self, f: &Value, args: Vec<Value>) -> Rc<Task> {
        self.begin(self.task(), Origin::Runtime, f, args)
    }

    /// Like [`Cx::spawn`], but the task belongs to `owner` and ends with it. It has the permissions of this task and
    /// copies of this task's variables.
    pub fn spawn_for(&self, owner: &Rc<Task>, f: &Value, args: Vec<Value>) -> Rc<Task> {
        self.begin(owner, Origin::Runtime, f, args)
    }

    /// Starts the task that manages the tasks of a supervisor, by calling `f`.
    pub fn spawn_supervisor(&self, id: Str, f: &Value, args: Vec<Value>) -> Rc<Task> {
        self.begin(self.task(), Origin::Supervisor(id), f, args)
    }

    /// Starts a task that belongs to a supervisor. The program sees it as a child of the task that started the
    /// supervisor. Its end is reported to `ends` under `number`; [`Cx::end_of`] returns the result.
    pub fn spawn_supervised(
        &self,
        supervisor: &Rc<Task>,
        who: Supervised,
        f: &Value,
        args: Vec<Value>,
        (ends, number): (&Rc<Ends>, usize),
    ) -> Rc<Task> {
        let task = self.begin(supervisor, Origin::Supervised(Box::new(who)), f, args);
        task.report_to(ends, number);
        task
    }

    /// Takes the output and the result from a task that has ended. The result is `None` if the task was aborted or has
    /// ended the program.
    pub fn end_of(&self, task: &Task) -> (String, Option<Result<Value>>) {
        task.forget();
        let ended = |error: &Error| matches!(error.kind(), ErrorKind::Abort | ErrorKind::Exit(_));
        let result = task.take_result().filter(|result| !result.as_ref().is_err_and(ended));
        (task.take_output(), result)
    }

    fn begin(&self, owner: &Rc<Task>, origin: Origin, f: &Value, args: Vec<Value>) -> Rc<Task> {
        let mut isolation = Isolation::default();
        let globals = isolation.globals(&self.task().globals);
        let callee = isolation.value(f);
        let args = args.iter().map(|v| isolation.value(v)).collect();
        let task = owner.child(origin, globals);
        let values = self.task().values();
        if !values.is_nil() {
            task.set_values(isolation.value(&values));
        }
        if !Rc::ptr_eq(owner, self.task()) {
            task.take_limits_of(self.task());
        }
        let vm = self.vm().clone();
        vm.live_tasks.set(vm.live_tasks.get() + 1);
        self.goes_on_in(&task);
        if task.is_named() {
            self.span_of_task(&task, SpanKind::Spawn, || task.task_name());
        }
        let fiber = Fiber::new(&vm, &task, callee, args);
        // A task that begins in a builtin resolves relative paths as the code does that started it.
        fiber.cx.0.caller.set(self.0.caller.get());
        fiber.cx.0.call.set(self.0.call.get());
        let running = task.clone();
        let limits = task.deadline_count();
        crate::scheduler::spawn(async move {
            // A task that was aborted before its first poll never runs.
            let result = if running.is_aborted() { Err(Error::new(ErrorKind::Abort)) } else { fiber.await };
            if let Err(error) = &result
                && let ErrorKind::Exit(code) = error.kind()
            {
                running.end_program(*code);
            }
            let cx = Cx::new(vm.clone(), running.clone());
            cx.end_children().await;
            vm.live_tasks.set(vm.live_tasks.get() - 1);
            running.note_failure(&result, limits);
            running.finish(result);
            if let Some(error) = running.unheard_failure(false) {
                cx.tell_failure_of_task(error);
            }
        });
        task
    }

    /// At the end of a task: stops the children that still run, and prints the output of finished ones.
    pub(crate) async fn end_children(&self) {
        let children = std::mem::take(&mut *self.task().children.borrow_mut());
        for child in children.values() {
            if child.is_finished() {
                let _ = self.print(&child.take_output());
                if let Some(error) = child.unheard_failure(true) {
                    self.tell_failure_of_task(error);
                }
            } else {
                child.abort();
            }
        }
        for child in children.into_values() {
            if self.vm().system().within(GRACE, child.ended()).await.is_none() {
                self.task().outlived_by(&child);
            }
        }
    }

    /// Warns the user about the failure of a task that the program never awaited.
    #[cold]
    fn tell_failure_of_task(&self, error: Error) {
        let help = "`await` its handle, or catch the error in the task";
        self.tell_failure("an unawaited task failed", help, &error);
        self.vm().state::<crate::failures::TaskFaults>().note(|| error);
    }

    /// Warns the user about an error that the program may never see. `help` is shown if the error has no help text.
    #[cold]
    pub fn tell_failure(&self, what: &str, help: &str, error: &Error) {
        let (mut diagnostic, file) = crate::uncaught::uncaught(self.vm(), error);
        diagnostic.severity = Severity::Warning;
        diagnostic.message = format!("{what}: {}", diagnostic.message);
        diagnostic.help.get_or_insert_with(|| help.to_owned());
        let drawn = crate::uncaught::drawn(&diagnostic, file.as_ref());
        self.vm().system().write_err(&format!("{}\n", drawn.trim_end()));
    }

    /// Passes the output of this task so far to its parent.
    ///
    /// # Errors
    /// Ends the program if the output is closed.
    pub fn hand_over_output(&self) -> Result<()> {
        let Some(owner) = self.task().parent() else { return Ok(()) };
        let text = self.task().take_output();
        if text.is_empty() { Ok(()) } else { owner.print(self.vm(), &text) }
    }

    /// Prints the output of a task so far.
    ///
    /// # Errors
    /// Ends the program if the output is closed.
    pub fn show_output_of(&self, task: &Task) -> Result<()> {
        let text = task.take_output();
        if task.is_finished() {
            task.forget();
        }
        if text.is_empty() { Ok(()) } else { self.print(&text) }
    }

    /// Returns the result of a task that has ended. An aborted task has no result: the waiting task gets the error of
    /// its own interruption, or the cancellation error.
    fn result_of(&self, task: &Rc<Task>) -> Result<Value> {
        self.check_interrupted()?;
        match task.take_result() {
            Some(Err(error)) if matches!(error.kind(), ErrorKind::Abort) => Err(Error::thrown(CANCELLED)),
            Some(result) => result,
            None => Ok(Value::NIL),
        }
    }

    /// Checks whether the program or this task is to stop.
    ///
    /// # Errors
    /// The abort error if so.
    fn check_interrupted(&self) -> Result<()> {
        // Cleanup continues after an interruption.
        if (self.vm().is_interrupted() || self.task().is_aborted()) && !self.task().cleans_up() {
            return Err(Error::new(ErrorKind::Abort));
        }
        Ok(())
    }

    /// Waits for a task, takes over its output and returns its result.
    ///
    /// # Errors
    /// The error that the task threw.
    pub async fn join(&self, task: &Rc<Task>) -> Result<Value> {
        let guard = AbortOnDrop(vec![task.clone()]);
        among_tasks(task.ended()).await;
        drop(guard);
        task.forget();
        self.print(&task.take_output())?;
        self.result_of(task)
    }

    fn line_of(&self, error: &Error) -> Option<usize> {
        let entry = error.places().1?;
        let (_, source) = self.vm().source(entry.module)?;
        Some(source.get(..entry.span.start as usize)?.matches('\n').count() + 1)
    }

    /// Returns an error in the form of `parallel settle`: the thrown value itself, unless it is a string.
    pub(crate) fn settled_value(&self, error: &Error) -> Value {
        match error.kind() {
            ErrorKind::Thrown(value) if value.as_str().is_none() => value.clone(),
            _ => Value::from(self.settled_text(error)),
        }
    }

    /// Returns the message of an error in the form of `parallel settle`.
    pub fn settled_text(&self, error: &Error) -> String {
        error.settled_text(self.line_of(error))
    }
}

/// Aborts tasks that are still running when the wait for them is dropped.
struct AbortOnDrop(Vec<Rc<Task>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|task| task.abort());
    }
}

/// Converts a duration or an int in milliseconds; returns `None` for other types. Negative numbers become 0.
pub fn millis(value: &Value) -> Option<Duration> {
    let ms = value.as_duration().or_else(|| value.as_int())?;
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// Checks the limit of a statement: type and sign.
fn check_limit(statement: &str, limit: &str, value: &Value) -> Result<()> {
    match value.as_duration().or_else(|| value.as_int()) {
        Some(ms) if ms < 0 => Err(Error::runtime(WrongTime::Negative.text(statement, limit))),
        Some(_) => Ok(()),
        None => {
            let text = signature::wrong_type(statement, limit, "duration | int", value.type_name());
            Err(Error::type_error(text))
        }
    }
}

fn channel_arg(value: &Maybe, builtin: &str) -> Result<Channel> {
    let Some(value) = &value.0 else {
        let what = if builtin == "send" { "channel and value" } else { "a channel" };
        return Err(Error::thrown(format!("{builtin}: requires {what}")));
    };
    value
        .downcast::<Channel>()
        .cloned()
        .ok_or_else(|| Error::thrown(format!("{builtin}: first argument must be a channel")))
}

fn atomic_arg<'a>(value: &'a Value, builtin: &str) -> Result<&'a Atomic> {
    value.downcast::<Atomic>().ok_or_else(|| {
        Error::type_error(format!("{builtin}: first argument must be an atomic, got {}", value.type_name()))
    })
}

fn int_arg(value: &Value, builtin: &str, place: &str) -> Result<i64> {
    value.as_int().ok_or_else(|| {
        Error::type_error(format!("{builtin}: {place} argument must be an int, got {}", value.type_name()))
    })
}

/// Returns how many children may run at once.
fn cap_of(value: &Value, len: usize, error: impl Fn(&Value) -> Error) -> Result<usize> {
    match value.view() {
        View::Nil => Ok(len.max(1)),
        View::Int(n) => Ok(usize::try_from(n).ok().filter(|n| *n > 0).unwrap_or(len.max(1))),
        _ => Err(error(value)),
    }
}

/// Minimum size of a task in bytes.
const LEAST_TASK: usize = 512;

/// The inputs of the tasks of a group.
enum Work {
    Count(std::ops::Range<i64>),
    Items(std::vec::IntoIter<Value>),
}

impl Work {
    fn len(&self) -> usize {
        match self {
            Work::Count(range) => usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0),
            Work::Items(items) => items.len(),
        }
    }

    fn next(&mut self) -> Option<Value> {
        match self {
            Work::Count(range) => range.next().map(Value::int),
            Work::Items(items) => items.next(),
        }
    }
}

/// Starts tasks over items in order, at most `cap` at a time.
struct Group {
    form: Form,
    /// Sequence number among the parallel operations of the task that started it.
    id: u64,
    work: Work,
    body: Value,
    cap: usize,
    /// Running tasks by item number.
    running: FxHashMap<usize, Rc<Task>>,
    started: usize,
    ends: Rc<Ends>,
    /// Tracing span that contains the work of its tasks.
    span: Option<OpenSpan>,
}

impl Group {
    fn new(cx: &Cx, form: Form, work: Work, body: &Value, cap: usize) -> Group {
        let (running, ends) = Default::default();
        let span = cx.span_beside(SpanKind::Parallel, || Str::new(form.name()));
        let id = cx.task().next_group();
        Group { form, id, work, body: body.clone(), cap, running, started: 0, ends, span }
    }

    /// Starts one more task if the limit allows it; returns false if not.
    fn start_one(&mut self, cx: &Cx) -> Result<bool> {
        if self.running.len() >= self.cap {
            return Ok(false);
        }
        let Some(item) = self.work.next() else { return Ok(false) };
        harn_value::memory::check(0)?;
        let origin = Origin::Parallel { form: self.form, group: self.id, number: self.started };
        let task = cx.begin(cx.task(), origin, &self.body, vec![item]);
        if let Some(span) = &self.span {
            span.note("tasks", Value::int(1));
            task.spans.enter(span.id());
        }
        task.report_to(&self.ends, self.started);
        self.running.insert(self.started, task);
        self.started += 1;
        Ok(true)
    }

    /// Starts as many tasks as may run at once. Only for the native function of the task that `cx` belongs to.
    async fn start(&mut self, cx: &Cx) -> Result<()> {
        const AT_ONCE: usize = 1024;
        while self.start_one(cx)? {
            if self.started.is_multiple_of(AT_ONCE) {
                cx.give_way().await?;
            }
        }
        Ok(())
    }

    /// Waits for the next child to end.
    async fn next(&mut self) -> Option<(usize, Rc<Task>)> {
        if self.running.is_empty() {
            return None;
        }
        let number = among_tasks(self.ends.next()).await;
        self.running.remove(&number).map(|task| (number, task))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.running.values().for_each(|task| task.abandon());
    }
}

async fn run_all(cx: &Cx, group: Group) -> Result<Vec<Result<Value>>> {
    let mut ended = Vec::new();
    let all = wait_for_all(cx, group, &mut ended).await;
    let mut results = Vec::with_capacity(ended.len());
    for task in ended.into_iter().flatten() {
        task.forget();
        cx.print(&task.take_output())?;
        results.push(cx.result_of(&task));
    }
    all?;
    cx.check_interrupted()?;
    Ok(results)
}

/// Starts all tasks of a group and stores them, as they end, at the positions of their items.
async fn wait_for_all(cx: &Cx, mut group: Group, ended: &mut Vec<Option<Rc<Task>>>) -> Result<()> {
    group.start(cx).await?;
    while let Some((number, task)) = group.next().await {
        if ended.len() <= number {
            ended.resize(number + 1, None);
        }
        ended[number] = Some(task);
        group.start_one(cx)?;
    }
    Ok(())
}

async fn stream_results(cx: &Cx, mut group: Group) -> Result<Value> {
    let channel = Channel::new("parallel", 1);
    let sender = channel.sender();
    let owner = cx.clone();
    group.start(cx).await?;
    crate::scheduler::spawn(async move {
        // When the receivers are dropped, the remaining children are cancelled with the group.
        while let Some((_, task)) = unless_closed(&sender, group.next()).await.flatten() {
            task.forget();
            let output = task.take_output();
            let result = owner.result_of(&task);
            let failed = result.is_err();
            let item = Value::foreign(Finished(RefCell::new(Some((output, result)))));
            if !among_tasks(sender.send(item)).await || failed {
                break;
            }
            if let Err(error) = group.start_one(&owner) {
                sender.fail(error);
                return;
            }
        }
        sender.close();
    });
    Ok(StreamValue::value(TaskResults { channel, left: false }))
}

/// Waits for a future, but only while the sender's channel has receivers.
async fn unless_closed<T>(sender: &Sender, waited: impl Future<Output = T>) -> Option<T> {
    let (mut closed, mut waited) = (pin!(sender.closed()), pin!(waited));
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => waited.as_mut().poll(context).map(Some),
    })
    .await
}

/// A finished child, sent to the consumer of a stream.
struct Finished(RefCell<Option<(String, Result<Value>)>>);

impl Foreign for Finished {
    fn type_name(&self) -> &'static str {
        "result"
    }

    fn print(&self, _out: &mut String) {}

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}

/// Iterator source of the results of children as they end.
struct TaskResults {
    channel: Channel,
    left: bool,
}

impl crate::iter::Source for TaskResults {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> crate::iter::NextFuture<'a> {
        Box::pin(async move {
            if self.left {
                return Ok(None);
            }
            let Some(item) = among_tasks(self.channel.receive_or_fail()).await? else { return Ok(None) };
            let finished = item.downcast::<Finished>().and_then(|f| f.0.borrow_mut().take());
            let Some((output, result)) = finished else { return Ok(None) };
            cx.print(&output)?;
            result.map(Some)
        })
    }

    fn left(&mut self) {
        self.left = true;
        self.channel.close();
    }
}

builtins! {
    /// Tasks, channels and locks.
    pub(crate) static CONCURRENCY: "concurrency";

    /// Starts a task; implements `spawn { }`.
    State fn spawn_task = "__spawn"(cx, body: Callable) -> "task_handle" {
        let (number, origin) = cx.task().next_spawn();
        let task = cx.begin(cx.task(), origin, &body.0, Vec::new());
        task.set_handle(Handle::Held);
        task.set_spawned_at(cx.call_spot());
        Value::foreign(TaskHandle { task, number, consumed: Cell::new(false) })
    }

    /// Runs bodies concurrently; implements the forms of `parallel`.
    State async fn parallel = "__parallel"(cx, kind: harn_value::Str, source: Value as "any?", max: Value as "any?", body: Value as "any?") -> "any" {
        let form = Form::of(&kind);
        let work = match form {
            Form::Count => {
                let Some(n) = source.as_int() else {
                    return Err(Error::type_error(format!("parallel count must be an int, got {}", source.type_name())));
                };
                Work::Count(0..n.max(0))
            }
            _ => {
                let word = if form == Form::Settle { "settle" } else { "each" };
                if cx.iter(&source).is_err() {
                    return Err(Error::type_error(format!("parallel {word} requires a list, got {}", source.type_name())));
                }
                Work::Items(cx.collect(&source).await?.into_iter())
            }
        };
        let cap = cap_of(&max, work.len(), |v| {
            Error::type_error(format!("parallel max_concurrent must be an int; got {}", v.type_name()))
        })?;
        // Reject at once if memory cannot suffice for the concurrent tasks and one result each.
        let tasks = cap.min(work.len()).saturating_mul(LEAST_TASK);
        harn_value::memory::check(tasks.saturating_add(work.len().saturating_mul(size_of::<Value>())))?;
        let group = Group::new(&cx, form, work, &body, cap);
        if form == Form::Stream {
            return stream_results(&cx, group).await;
        }
        let results = run_all(&cx, group).await?;
        if form == Form::Settle {
            let succeeded = results.iter().filter(|r| r.is_ok()).count();
            let failed = results.len() - succeeded;
            let results = results
                .into_iter()
                .map(|r| match r {
                    Ok(v) => Value::ok(v),
                    Err(e) => Value::err(cx.settled_value(&e)),
                })
                .collect();
            let dict: Dict = [
                ("results", Value::list(results)),
                ("succeeded", Value::from(succeeded)),
                ("failed", Value::from(failed)),
            ]
            .into_iter()
            .collect();
            return Ok(dict.into());
        }
        Value::list(results.into_iter().collect::<Result<Vec<Value>>>()?)
    }

    /// Calls `f` for every item concurrently and returns the first success; the other tasks are
    /// aborted.
    ///
    /// A result `Ok(v)` is a success with the value `v`; `Err(e)` and errors are failures. If all
    /// fail, the error lists their messages. The third argument limits the number of concurrent tasks.
    ///
    /// ```harn
    /// println(parallel_race([1, 2, 3], { x -> x * 10 }, 1)) // -> 10
    /// ```
    State async fn parallel_race(cx, items: Value as "!list", f: Value as "!function(1)", options: Value as "!int | {max_concurrent?: any}?") -> "any" {
        let Some(list) = items.as_list() else {
            return Err(Error::type_error(format!("parallel_race: first argument must be a list, got {}", items.type_name())));
        };
        if !crate::closure::acts_as_function(&f) {
            return Err(Error::type_error(format!("parallel_race: argument 2 must be callable, got {}", f.type_name())));
        }
        if list.is_empty() {
            return Err(Error::thrown("parallel_race: expected at least one item"));
        }
        let max = match options.view() {
            View::Nil | View::Int(_) => options.clone(),
            View::Dict(d) => d.get_str("max_concurrent").cloned().unwrap_or_default(),
            _ => {
                return Err(Error::type_error(format!(
                    "parallel_race: third argument must be max_concurrent int or options dict, got {}",
                    options.type_name()
                )));
            }
        };
        let cap = cap_of(&max, list.len(), |v| {
            Error::type_error(format!("parallel_race: max_concurrent must be an int, got {}", v.type_name()))
        })?;
        let items: Vec<Value> = list.to_vec();
        let mut group = Group::new(&cx, Form::Race, Work::Items(items.into_iter()), &f, cap);
        group.start(&cx).await?;
        let mut failures = Vec::new();
        while let Some((_, task)) = group.next().await {
            task.forget();
            cx.print(&task.take_output())?;
            cx.check_interrupted()?;
            match cx.result_of(&task) {
                Ok(v) => match v.as_enum().and_then(|e| e.as_result()) {
                    Some(Ok(payload)) => return Ok(payload),
                    Some(Err(payload)) => failures.push(payload.to_string()),
                    None => return Ok(v),
                },
                // As in `parallel settle`: the thrown value itself, unless it is a string.
                Err(e) => failures.push(cx.settled_value(&e).to_string()),
            }
            group.start_one(&cx)?;
        }
        Result::<Value>::Err(Error::thrown(format!(
            "parallel_race: all {} task(s) failed: {}",
            failures.len(),
            failures.join("; ")
        )))
    }

    /// Waits for a task and returns its value; throws the task's error.
    ///
    /// The handle is consumed: a second `await` returns nil. A value that is not a task handle is
    /// returned unchanged.
    ///
    /// ```harn
    /// println(await(spawn { 1 + 1 })) // -> 2
    /// ```
    State async fn await_task = "await"(cx, h: Value) -> "any" {
        let Some(handle) = h.downcast::<TaskHandle>() else { return Ok(h) };
        if handle.consumed.replace(true) {
            return Ok(Value::NIL);
        }
        cx.join(&handle.task).await?
    }

    /// Returns whether a task has ended, with a result or an error; it does not wait.
    ///
    /// ```harn
    /// let h = spawn { 7 }
    /// sleep(1ms)
    /// println(is_done(h)) // -> true
    /// println(await(h)) // -> 7
    /// ```
    State fn is_done(cx, h: Value as "task_handle") -> "bool" {
        match h.downcast::<TaskHandle>() {
            Some(handle) => handle.task.is_finished(),
            None => return Err(Error::type_error(format!("is_done: expected a task_handle, got {}", h.type_name()))),
        }
    }

    /// Aborts a task at its current or next suspension point and drops its result.
    ///
    /// ```harn
    /// let h = spawn { println("never") }
    /// cancel(h)
    /// println(await(h)) // -> nil
    /// ```
    State async fn cancel(cx, h: Value) -> "nil" {
        let Some(handle) = h.downcast::<TaskHandle>() else { return Ok(Value::NIL) };
        if handle.consumed.replace(true) {
            return Ok(Value::NIL);
        }
        handle.task.abort();
        handle.task.forget();
        let _ = cx.vm().system().within(GRACE, handle.task.ended()).await;
        Value::NIL
    }

    /// Requests cancellation and waits up to `timeout` (default 5 s) for the task to end.
    ///
    /// Returns `Result.Ok(value)`, or `Result.Err(text)` if the task threw an error or was aborted.
    ///
    /// ```harn
    /// let h = spawn { 7 }
    /// sleep(1ms)
    /// println(cancel_graceful(h)) // -> Result.Ok(7)
    /// ```
    State async fn cancel_graceful(cx, h: Value, timeout: Value as "duration | int?") -> "Result" {
        let Some(handle) = h.downcast::<TaskHandle>() else { return Ok(Value::NIL) };
        if handle.consumed.replace(true) {
            return Ok(Value::ok(Value::NIL));
        }
        let limit = millis(&timeout).unwrap_or(Duration::from_millis(5000));
        if !handle.task.is_finished() {
            handle.task.cancel();
        }
        handle.task.forget();
        if cx.vm().system().within(limit, handle.task.ended()).await.is_none() {
            handle.task.abort();
            let _ = cx.vm().system().within(GRACE, handle.task.ended()).await;
            return Ok(Value::err(Value::str("cancel_graceful: timeout, task forcefully aborted")));
        }
        cx.print(&handle.task.take_output())?;
        cx.check_interrupted()?;
        match cx.result_of(&handle.task) {
            Ok(v) => Value::ok(v),
            Err(e) => Value::err(cx.settled_value(&e)),
        }
    }

    /// Returns whether cancellation of the running task or the program (Ctrl-C, SIGTERM) was requested.
    ///
    /// ```harn
    /// println(is_cancelled()) // -> false
    /// ```
    State fn is_cancelled(cx) -> "bool" {
        cx.task().is_cancelled() || cx.vm().is_interrupted()
    }

    /// Creates a channel: a bounded first-in-first-out queue that tasks share.
    ///
    /// The name is only a label. The capacity is at least 1.
    ///
    /// ```harn
    /// let ch = channel("work", 2)
    /// send(ch, 5)
    /// println("${ch} ${receive(ch)}") // -> <channel:work> 5
    /// ```
    State fn channel(cx, name: Value as "text?", capacity: Value as "int?") -> "channel" {
        let name = if name.is_nil() { "default".to_owned() } else { name.to_string() };
        let capacity = capacity.as_int().map_or(256, |n| usize::try_from(n).unwrap_or(1));
        Channel::new(&name, capacity).into_value()
    }

    /// Sends a value to a channel, waiting while it is full; false if the channel is closed.
    ///
    /// ```harn
    /// println(send(channel(), 1)) // -> true
    /// ```
    State async fn send(cx, ch: Maybe as "channel", value: Maybe) -> "bool" {
        let Maybe(Some(value)) = value else {
            return Err(Error::thrown("send: requires channel and value"));
        };
        let channel = channel_arg(&ch, "send")?;
        among_tasks(channel.send(value)).await
    }

    /// Returns the next value of a channel, waiting for one; nil if the channel is closed and
    /// empty.
    ///
    /// ```harn
    /// let ch = channel()
    /// close_channel(ch)
    /// println(receive(ch)) // -> nil
    /// ```
    State async fn receive(cx, ch: Maybe as "channel") -> "any" {
        let channel = channel_arg(&ch, "receive")?;
        among_tasks(channel.receive_or_fail()).await?
    }

    /// Returns the next value of a channel without waiting, or nil.
    ///
    /// ```harn
    /// println(try_receive(channel())) // -> nil
    /// ```
    State fn try_receive(cx, ch: Maybe as "channel") -> "any" {
        let channel = channel_arg(&ch, "try_receive")?;
        match channel.try_receive() {
            Received::Item(value) => value,
            Received::Closed => {
                channel.failed()?;
                Value::NIL
            }
            Received::Empty => Value::NIL,
        }
    }

    /// Closes a channel: no further sends, but buffered values can still be received.
    ///
    /// ```harn
    /// let ch = channel()
    /// send(ch, 1)
    /// close_channel(ch)
    /// for v in ch { println(v) } // -> 1
    /// ```
    State fn close_channel(cx, ch: Maybe as "channel") -> "nil" {
        channel_arg(&ch, "close_channel")?.close();
        Value::NIL
    }

    /// Waits for the first channel of a list that has a value: `{index, value, channel}`.
    ///
    /// Returns nil on timeout, and when all channels are closed and empty.
    ///
    /// ```harn
    /// let c = channel("c")
    /// send(c, 10)
    /// println(channel_select([channel("a"), c])) // -> {channel: c, index: 1, value: 10}
    /// ```
    State async fn channel_select(cx, channels: Value as "!list", timeout: OptionDict<TimeLimit>) -> "dict" {
        let Some(list) = channels.as_list() else {
            return Err(Error::thrown("channel_select: first argument must be a list of channels"));
        };
        let channels: Option<Vec<Channel>> = list.iter().map(|c| c.downcast::<Channel>().cloned()).collect();
        let Some(channels) = channels else {
            return Err(Error::thrown("channel_select: channel list must contain only channels"));
        };
        let found = match timeout.read()?.limit() {
            Some(limit) => {
                cx.vm().system().within(limit, Channel::receive_any(&channels)).await.unwrap_or(None)
            }
            None => among_tasks(Channel::receive_any(&channels)).await,
        };
        if found.is_none() {
            channels.iter().try_for_each(Channel::failed)?;
        }
        found.map(|(index, value)| {
            let dict: Dict = [
                ("index", Value::from(index)),
                ("value", value),
                ("channel", channels[index].name().clone().into()),
            ]
            .into_iter()
            .collect();
            Value::from(dict)
        })
    }

    /// Chooses a case of a `select` block: `[index, value]`.
    State async fn select = "__select"(cx, sources: Ref<List>, timeout: Value as "any?", has_default: bool) -> "list" {
        let channels: Option<Vec<Channel>> = sources.iter().map(|c| c.downcast::<Channel>().cloned()).collect();
        let Some(channels) = channels else {
            return Err(Error::thrown("select: case source must be a channel"));
        };
        let answer = |index: i64, value: Value| Value::list(vec![Value::int(index), value]);
        let no_timeout = timeout.is_absent();
        if !no_timeout {
            check_limit("select", "timeout", &timeout)?;
        }
        match Channel::try_any(&channels) {
            Some(Some((index, value))) => return Ok(answer(index as i64, value)),
            Some(None) => {
                channels.iter().try_for_each(Channel::failed)?;
                return Ok(answer(if has_default || !no_timeout { -1 } else { -2 }, Value::NIL));
            }
            None if has_default => return Ok(answer(-1, Value::NIL)),
            None => {}
        }
        cx.task().check_wait()?;
        let found = if no_timeout {
            among_tasks(Channel::receive_any(&channels)).await
        } else {
            let limit = millis(&timeout).unwrap_or_default();
            if limit.is_zero() {
                // Yield to other tasks, then check the channels again: a timer would take a millisecond.
                crate::scheduler::take_turns().await;
                return Ok(match Channel::try_any(&channels) {
                    Some(Some((index, value))) => answer(index as i64, value),
                    found => {
                        if found.is_some() {
                            channels.iter().try_for_each(Channel::failed)?;
                        }
                        answer(-1, Value::NIL)
                    }
                });
            }
            match cx.vm().system().within(limit, Channel::receive_any(&channels)).await {
                Some(found) => found,
                None => return Ok(answer(-1, Value::NIL)),
            }
        };
        match found {
            Some((index, value)) => answer(index as i64, value),
            None => {
                channels.iter().try_for_each(Channel::failed)?;
                answer(if no_timeout { -2 } else { -1 }, Value::NIL)
            }
        }
    }

    /// Starts a deadline and returns the token that removes it.
    Clock fn deadline_push = "__deadline_push"(cx, limit: Value as "!duration | int") -> "int" {
        check_limit("deadline", "limit", &limit)?;
        let limit = millis(&limit).unwrap_or_default();
        if limit.is_zero() {
            return Err(Error::thrown("Deadline exceeded"));
        }
        cx.task().push_deadline(limit) as i64
    }

    /// Removes a deadline.
    Clock fn deadline_pop = "__deadline_pop"(cx, token: i64) -> "nil" {
        cx.task().pop_deadline(token as u64);
        Value::NIL
    }

    /// Acquires the lock of `mutex` blocks.
    State async fn mutex_enter = "__mutex_enter"(cx) -> "sync_permit" {
        crate::sync::enter_block(&cx).await
    }

    /// Releases the lock of `mutex` blocks.
    State fn mutex_leave = "__mutex_leave"(cx, permit: Value) -> "nil" {
        crate::sync::leave_block(&permit);
    }

    /// Returns the number of attempts of a `retry`: at least 1.
    Pure fn retry_count = "__retry_count"(cx, n: Value) -> "int" {
        match n.view() {
            View::Int(n) => n.max(1),
            View::Float(f) if f.is_finite() => (f as i64).max(1),
            _ => {
                let text = crate::signature::wrong_type("retry", "count", "int", n.type_name());
                return Err(Error::type_error(text));
            }
        }
    }

    /// Returns the number of active deadlines, for `__retry_goes_on`.
    State fn deadline_count = "__deadline_count"(cx) -> "int" {
        cx.task().deadline_count() as i64
    }

    /// Returns whether another attempt follows a failed attempt of a `retry`.
    ///
    /// No attempt follows if none are left, or if a deadline around the block or cancellation ended the attempt.
    State fn retry_goes_on = "__retry_goes_on"(cx, left: i64, deadlines: i64) -> "bool" {
        left > 0 && !cx.task().interrupted_since(deadlines as usize)
    }

    /// Creates a shared integer with an initial value (default 0).
    ///
    /// Floats are truncated, bools become 0 or 1.
    ///
    /// ```harn
    /// println(atomic(5)) // -> <atomic:5>
    /// ```
    State fn atomic(cx, initial: Value as "int | float | bool?") -> "atomic" {
        let start = match initial.view() {
            View::Int(i) => i,
            View::Float(f) => f as i64,
            View::Bool(b) => i64::from(b),
            _ => 0,
        };
        Value::foreign(Atomic(Cell::new(start)))
    }

    /// Returns the current value of an atomic.
    ///
    /// ```harn
    /// println(atomic_get(atomic(3))) // -> 3
    /// ```
    State fn atomic_get(cx, a: Value as "!atomic") -> "int" {
        atomic_arg(&a, "atomic_get")?.0.get()
    }

    /// Sets an atomic and returns its previous value.
    ///
    /// ```harn
    /// println(atomic_set(atomic(3), 9)) // -> 3
    /// ```
    State fn atomic_set(cx, a: Value as "!atomic", n: Value as "!int") -> "int" {
        let atomic = atomic_arg(&a, "atomic_set")?;
        atomic.0.replace(int_arg(&n, "atomic_set", "second")?)
    }

    /// Adds to an atomic (wrapping) and returns its previous value.
    ///
    /// ```harn
    /// let a = atomic(1)
    /// println("${atomic_add(a, 2)} ${atomic_get(a)}") // -> 1 3
    /// ```
    State fn atomic_add(cx, a: Value as "!atomic", delta: Value as "!int") -> "int" {
        let atomic = atomic_arg(&a, "atomic_add")?;
        let delta = int_arg(&delta, "atomic_add", "second")?;
        let old = atomic.0.get();
        atomic.0.set(old.wrapping_add(delta));
        old
    }

    /// Sets an atomic to `new` if it equals `expected`; returns whether it did.
    ///
    /// ```harn
    /// println(atomic_cas(atomic(1), 1, 5)) // -> true
    /// ```
    State fn atomic_cas(cx, a: Value as "!atomic", expected: Value as "!int", new: Value as "!int") -> "bool" {
        let atomic = atomic_arg(&a, "atomic_cas")?;
        let expected = int_arg(&expected, "atomic_cas", "second")?;
        let new = int_arg(&new, "atomic_cas", "third")?;
        let hit = atomic.0.get() == expected;
        if hit {
            atomic.0.set(new);
        }
        hit
    }
}

/// Returns the builtin tables of this crate.
pub(crate) fn tables() -> Vec<&'static [Builtin]> {
    let own = [
        CONCURRENCY,
        crate::runtime_context::RUNTIME_CONTEXT,
        crate::tracing::SPANS,
        crate::patterns::PATTERNS,
    ];
    own.into_iter().chain(crate::sync::tables()).collect()
}

/// Unwraps `Ok`/`Err` of the built-in result type.
pub fn as_result(value: &Value) -> Option<std::result::Result<Value, Value>> {
    value.as_enum().and_then(|e: &Ref<EnumValue>| e.as_result())
}
