//! Who is behind a change: what `audit` says of a worker, sub-agent or run, and what the runtime knows of it. Whoever approves of a
//! call is told.

use std::rc::Rc;

use harn_value::{Data as Json, data::Map};
use harn_vm::Cx;
use harn_vm::task_scope::TaskScope;

use crate::worker::registry::Workers;

#[derive(Default)]
struct Audits(TaskScope<Map<String, Json>>);

/// Holds what `audit` says for the running task; dropping it ends that.
pub(crate) struct Audited {
    audits: Rc<Audits>,
    token: u64,
}

impl Drop for Audited {
    fn drop(&mut self) {
        self.audits.0.close(self.token);
    }
}

/// What an option `audit` says holds from now on, over what held before.
pub(crate) fn audited(cx: &Cx, audit: &Json) -> Option<Audited> {
    let given = audit.as_object()?;
    let audits = cx.state::<Audits>();
    let mut whole = audits.0.current(cx).unwrap_or_default();
    whole.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    let token = audits.0.open(cx, whole);
    Some(Audited { audits, token })
}

/// An option `audit` that is no dict is an error.
///
/// # Errors
/// The text that says so.
pub(crate) fn check(audit: &Json) -> Result<(), String> {
    match audit {
        Json::Null | Json::Object(_) => Ok(()),
        other => Err(format!("audit must be a dict, got {}", other.type_name())),
    }
}

/// Adds to what is known of a change who makes it.
pub(crate) fn complete(cx: &Cx, mutation: &mut Json, session: Option<&str>) {
    let Some(known) = mutation.as_object_mut() else { return };
    let mut whole = cx.state::<Audits>().0.current(cx).unwrap_or_default();
    if let Some(worker) = cx.state::<Workers>().running.current(cx) {
        let record = worker.record.borrow();
        let of_worker = [
            ("worker_id", Some(record.id.clone())),
            ("run_id", record.lineage.parent_run_id.clone()),
            ("parent_session_id", record.lineage.parent_session_id.clone()),
            ("execution_kind", Some(record.mode.as_str().to_owned())),
        ];
        for (key, value) in of_worker {
            if let Some(value) = value {
                whole.entry(key).or_insert_with(|| value.into());
            }
        }
    }
    whole.extend(session.map(|session| ("session_id".to_owned(), session.into())));
    whole.extend(std::mem::take(known));
    *known = whole;
}
