//! `harn run --json`: one envelope per line on standard output, numbered without gaps.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use harn_vm::host::Host;
use serde_json::{Map, Value, json};

/// Writes events. Clones count on together.
#[derive(Clone, Default)]
pub(crate) struct Events {
    count: Rc<Cell<u64>>,
    /// Leave out what the program prints.
    quiet: bool,
}

impl Events {
    /// Starts counting at 1.
    pub(crate) fn new(quiet: bool) -> Events {
        Events { count: Rc::default(), quiet }
    }

    /// Writes an event that is no failure.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn send(&self, event_type: &str, fields: Value) -> io::Result<()> {
        self.write(event_type, fields, &Value::Null)
    }

    /// Writes the last event of a run that failed.
    ///
    /// # Errors
    /// The system's error.
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
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }
}

/// The real system, except that output becomes events.
pub(crate) struct EventHost(pub(crate) Events);

impl Host for EventHost {
    fn write_out(&self, text: &str) -> io::Result<()> {
        if self.0.quiet { Ok(()) } else { self.0.send("stdout", json!({"payload": text})) }
    }

    fn write_err(&self, text: &str) {
        if !self.0.quiet {
            // When standard output is closed the next `write_out` ends the program.
            let _ = self.0.send("stderr", json!({"payload": text}));
        }
    }
}
