//! Mailboxes: named channels.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use harn_value::{Dict, Value};

use super::scope::{Kind, Name, required};
use super::wait;
use crate::builtin::Maybe;
use crate::builtins;
use crate::channel::{Channel, Received};
use crate::cx::Cx;
use crate::error::Result;
use crate::scheduler::among_tasks;

struct Mailbox {
    channel: Channel,
    sent: Cell<i64>,
    failed: Cell<i64>,
    received: Cell<i64>,
}

impl Mailbox {
    fn new(name: &str, capacity: i64) -> Mailbox {
        let channel = Channel::new(name, usize::try_from(capacity).unwrap_or(1));
        Mailbox { channel, sent: Cell::default(), failed: Cell::default(), received: Cell::default() }
    }

    fn metrics(&self) -> Dict {
        let numbers = [
            ("capacity", self.channel.capacity() as i64),
            ("depth", self.channel.depth() as i64),
            ("failed_send_count", self.failed.get()),
            ("received_count", self.received.get()),
            ("sent_count", self.sent.get()),
        ];
        let mut metrics: Dict = numbers.into_iter().collect();
        metrics.insert("closed", self.channel.is_closed());
        metrics
    }

    /// Receives the next value without waiting.
    fn try_receive(&self) -> Received {
        let received = self.channel.try_receive();
        if matches!(received, Received::Item(_)) {
            self.received.set(self.received.get() + 1);
        }
        received
    }
}

/// The mailboxes of a program.
#[derive(Default)]
struct Mailboxes(RefCell<BTreeMap<Name, Rc<Mailbox>>>);

fn find(cx: &Cx, name: &Name) -> Option<Rc<Mailbox>> {
    cx.state::<Mailboxes>().0.borrow().get(name).cloned()
}

/// Returns the mailbox that an argument names, if it was opened.
fn target(cx: &Cx, builtin: &str, needs: &str, given: Maybe) -> Result<Option<Rc<Mailbox>>> {
    Ok(find(cx, &name_of(cx, builtin, needs, given)?))
}

fn name_of(cx: &Cx, builtin: &str, needs: &str, given: Maybe) -> Result<Name> {
    Name::required(cx, builtin, Kind::Mailbox, needs, given)
}

/// Returns the metrics of a mailbox for `shared_metrics`.
pub(super) fn metrics_of(cx: &Cx, name: &Name) -> Option<Dict> {
    find(cx, name).map(|mailbox| mailbox.metrics())
}

/// Returns the metrics of a mailbox that was never opened.
pub(super) fn absent() -> Dict {
    let mut metrics: Dict = Mailbox::new("", 1).metrics();
    metrics.insert("capacity", 0_i64);
    metrics
}

/// Returns all mailboxes with their metrics.
pub(super) fn all(cx: &Cx) -> Vec<(Name, Dict)> {
    let mailboxes = cx.state::<Mailboxes>();
    let all = mailboxes.0.borrow();
    all.iter().map(|(name, mailbox)| (name.clone(), mailbox.metrics())).collect()
}

builtins! {
    /// Mailboxes: named channels.
    pub(crate) static MAILBOXES: "mailboxes";

    /// Opens a mailbox, a channel with a name, and returns its handle.
    ///
    /// An existing mailbox stays unchanged, even if it is closed. Options name a scope (`shared_scope_id`). Where a
    /// handle is expected, a name refers to the mailbox in the default scope of the running task.
    ///
    /// ```harn
    /// let inbox = mailbox_open("inbox")
    /// spawn { mailbox_send("inbox", "hello") }
    /// println(mailbox_receive(inbox)) // -> hello
    /// ```
    State fn mailbox_open(cx, name: Maybe as "text | {name?: text, scope?: text, capacity?: int, tenant_id?: text}", capacity: i64 = 256) -> "dict" {
        let (name, options) = Name::opened(cx, "mailbox_open", "name is required", &name)?;
        let own = options.and_then(|options| options.get_str("capacity").and_then(Value::as_int));
        let mailboxes = cx.state::<Mailboxes>();
        let made = || Rc::new(Mailbox::new("mailbox", own.unwrap_or(capacity)));
        mailboxes.0.borrow_mut().entry(name.clone()).or_insert_with(made);
        name.handle(Kind::Mailbox)
    }

    /// Returns the handle of a mailbox, or nil if it was not opened.
    ///
    /// ```harn
    /// println(mailbox_lookup("inbox")) // -> nil
    /// ```
    State fn mailbox_lookup(cx, target: Maybe as "text | dict") -> "dict | nil" {
        let name = name_of(cx, "mailbox_lookup", "handle is required", target)?;
        find(cx, &name).map(|_| name.handle(Kind::Mailbox))
    }

    /// Sends a value to a mailbox, waiting while it is full; false if it is closed or was not opened.
    ///
    /// ```harn
    /// mailbox_open("inbox")
    /// println([mailbox_send("inbox", 1), mailbox_send("outbox", 1)]) // -> [true, false]
    /// ```
    State async fn mailbox_send(cx, target: Maybe as "text | dict", value: Maybe) -> "bool" {
        const NEEDS: &str = "requires handle and value";
        let value = required("mailbox_send", NEEDS, value)?;
        let Some(mailbox) = self::target(&cx, "mailbox_send", NEEDS, target)? else { return Ok(false.into()) };
        let sent = among_tasks(mailbox.channel.send(value)).await;
        let count = if sent { &mailbox.sent } else { &mailbox.failed };
        count.set(count.get() + 1);
        sent
    }

    /// Removes and returns the next value of a mailbox, waiting for one; nil if closed and empty, or not opened.
    ///
    /// ```harn
    /// mailbox_open("inbox")
    /// mailbox_send("inbox", 1)
    /// println(mailbox_receive("inbox")) // -> 1
    /// ```
    State async fn mailbox_receive(cx, target: Maybe as "text | dict") -> "any" {
        let Some(mailbox) = self::target(&cx, "mailbox_receive", "handle is required", target)? else {
            return Ok(Value::NIL);
        };
        match mailbox.try_receive() {
            Received::Item(value) => return Ok(value),
            Received::Closed => return Ok(Value::NIL),
            Received::Empty => {}
        }
        let value = wait::for_tasks(&cx, None, mailbox.channel.receive()).await?.flatten();
        mailbox.received.set(mailbox.received.get() + i64::from(value.is_some()));
        value
    }

    /// Removes and returns the next value of a mailbox without waiting; nil if the mailbox is
    /// empty.
    ///
    /// ```harn
    /// mailbox_open("inbox")
    /// println(mailbox_try_receive("inbox")) // -> nil
    /// ```
    State fn mailbox_try_receive(cx, target: Maybe as "text | dict") -> "any" {
        let mailbox = self::target(cx, "mailbox_try_receive", "handle is required", target)?;
        match mailbox.map(|mailbox| mailbox.try_receive()) {
            Some(Received::Item(value)) => value,
            _ => Value::NIL,
        }
    }

    /// Closes a mailbox; returns whether it was open.
    ///
    /// Queued values can still be received.
    ///
    /// ```harn
    /// mailbox_open("inbox")
    /// println([mailbox_close("inbox"), mailbox_close("inbox")]) // -> [true, false]
    /// ```
    State fn mailbox_close(cx, target: Maybe as "text | dict") -> "bool" {
        let mailbox = self::target(cx, "mailbox_close", "handle is required", target)?;
        let open = mailbox.filter(|mailbox| !mailbox.channel.is_closed());
        if let Some(mailbox) = &open {
            mailbox.channel.close();
        }
        open.is_some()
    }

    /// Returns the metrics of a mailbox.
    ///
    /// The result is `{capacity, closed, depth, failed_send_count, received_count, sent_count}`.
    ///
    /// ```harn
    /// mailbox_open("inbox", 8)
    /// println(mailbox_metrics("inbox").capacity) // -> 8
    /// ```
    State fn mailbox_metrics(cx, target: Maybe as "text | dict") -> "dict" {
        let mailbox = self::target(cx, "mailbox_metrics", "handle is required", target)?;
        mailbox.map_or_else(absent, |mailbox| mailbox.metrics())
    }
}
