//! `harn run --json`: one JSON envelope per line on standard output, with consecutive numbers.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;

use harn_system::{Layer, Real, System};
use harn_value::{Data as Value, data::Map, json};

use crate::out::Out;

/// Writes events. Clones share the counter.
#[derive(Clone, Default)]
pub(crate) struct Events {
    count: Rc<Cell<u64>>,
    /// The output of an incomplete line.
    line: Rc<RefCell<String>>,
    /// Whether program output is omitted.
    quiet: bool,
}

impl Events {
    /// Creates a writer that counts from 1.
    pub(crate) fn new(quiet: bool) -> Events {
        Events { quiet, ..Events::default() }
    }

    /// Writes an event of the run: a model or tool call, or a hook.
    pub(crate) fn happened(&self, event_type: &str, mut fields: Value) {
        let now_ms = || Real::new().now_ms();
        match event_type {
            "tool_call" => {
                let at = jiff::Timestamp::from_millisecond(now_ms()).map(|at| at.to_string());
                fields["started_at"] = at.ok().into();
            }
            "transcript" if fields["payload"]["timestamp"].is_null() => {
                let ms = now_ms();
                fields["payload"]["timestamp"] = format!("{}.{:03}", ms / 1000, ms % 1000).into();
            }
            _ => {}
        }
        // If standard output is closed, the next `write_out` ends the program.
        let _ = self.flush().and_then(|()| self.send(event_type, fields));
    }

    /// Writes the output of an incomplete line.
    fn flush(&self) -> io::Result<()> {
        let text = std::mem::take(&mut *self.line.borrow_mut());
        if text.is_empty() { Ok(()) } else { self.send("stdout", json!({"payload": text})) }
    }

    /// Writes an event that is not a failure.
    ///
    /// # Errors
    /// The I/O error.
    pub(crate) fn send(&self, event_type: &str, fields: Value) -> io::Result<()> {
        self.write(event_type, fields, &Value::Null)
    }

    /// Writes the last event of a failed run.
    ///
    /// # Errors
    /// The I/O error.
    pub(crate) fn fail(&self, code: &str, message: &str, details: Value) -> io::Result<()> {
        let error = json!({"code": code, "message": message, "details": details});
        self.write("error", json!({"error": error}), &error)
    }

    fn write(&self, event_type: &str, fields: Value, error: &Value) -> io::Result<()> {
        self.count.set(self.count.get() + 1);
        let mut data = Map::new();
        data.insert("seq".to_owned(), self.count.get().into());
        data.insert("event_type".to_owned(), event_type.into());
        if let Value::Object(fields) = fields {
            data.extend(fields);
        }
        let line =
            json!({"schemaVersion": 1, "ok": error.is_null(), "data": data, "error": error, "warnings": []});
        Out.write_all(format!("{line}\n").as_bytes())?;
        Out.flush()
    }
}

/// Maximum number of buffered bytes of an incomplete line.
const LONGEST: usize = 8192;

/// The real system, except that output becomes events: one per line, or for the partial line when the program waits.
pub(crate) struct EventSystem {
    inner: Real,
    events: Events,
}

impl EventSystem {
    /// Creates a system that writes its output as events.
    pub(crate) fn new(events: Events) -> EventSystem {
        EventSystem { inner: Real::new(), events }
    }
}

impl Layer for EventSystem {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        if self.events.quiet {
            return Ok(());
        }
        let mut line = self.events.line.borrow_mut();
        line.push_str(text);
        let whole = text.ends_with('\n') || line.len() > LONGEST;
        drop(line);
        if whole { Layer::flush(self) } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        self.events.flush()
    }

    fn write_err(&self, text: &str) {
        if !self.events.quiet {
            // If standard output is closed, the next `write_out` ends the program.
            let _ = Layer::flush(self);
            let _ = self.events.send("stderr", json!({"payload": text}));
        }
    }
}
