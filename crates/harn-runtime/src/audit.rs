//! Origin of a change: the `audit` option of a worker, sub-agent or run, combined with the runtime's data about it.
//! Approval requests include it.

use std::rc::Rc;

use harn_llm::options::shape::Shape;
use harn_syntax::suggest::{distance, nearest};
use harn_value::Value;
use harn_value::{Data as Json, data::Map};
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Result};

use crate::convert::{data_option, thrown};

#[derive(Default)]
struct Audits(TaskScope<Known, true>);

#[derive(Clone, Default)]
struct Known {
    /// The fields from options.
    given: Map<String, Json>,
    /// The runtime's data about the worker.
    worker: Map<String, Json>,
}

/// Applies an `audit` option to the running task until it is dropped.
pub(crate) struct Audited {
    audits: Rc<Audits>,
    token: u64,
}

impl Drop for Audited {
    fn drop(&mut self) {
        self.audits.0.close(self.token);
    }
}

/// Applies an option `audit` on top of the outer one; `worker` is the runtime's data about the current worker.
pub(crate) fn audited(cx: &Cx, audit: &Json, worker: Option<Map<String, Json>>) -> Option<Audited> {
    if worker.is_none() && audit.as_object().is_none() {
        return None;
    }
    let audits = cx.state::<Audits>();
    let mut known = audits.0.current(cx).unwrap_or_default();
    let given = audit.as_object().into_iter().flat_map(|given| given.iter());
    known.given.extend(given.map(|(key, value)| (key.clone(), value.clone())));
    if let Some(worker) = worker {
        known.worker = worker;
    }
    let token = audits.0.open(cx, known);
    Some(Audited { audits, token })
}

/// The reserved keys of `audit`. The program may add other keys.
const KEYS: [(&str, Shape); 7] = [
    ("session_id", Shape::Text),
    ("parent_session_id", Shape::Text),
    ("run_id", Shape::Text),
    ("worker_id", Shape::Text),
    ("execution_kind", Shape::Text),
    ("mutation_scope", Shape::Text),
    ("approval_policy", Shape::Map(&Shape::Any)),
];

/// Reads the option `audit` of a function.
///
/// # Errors
/// The option is not a dict, contains an invalid value or one that is not data, or has a key that is probably a typo of
/// a reserved one.
pub(crate) fn read(function: &str, options: &Value) -> Result<Json> {
    let audit = data_option(function, options, "audit")?;
    check(&audit).map_err(|text| thrown(format!("{function}: {text}")))?;
    Ok(audit)
}

fn check(audit: &Json) -> std::result::Result<(), String> {
    let given = match audit {
        Json::Null => return Ok(()),
        Json::Object(given) => given,
        other => return Err(format!("audit must be a dict, got {}", other.type_name())),
    };
    for (key, value) in given {
        match KEYS.iter().find(|(name, _)| name == key) {
            Some((name, shape)) => shape.check(&format!("audit.{name}"), value).map_err(|e| e.to_string())?,
            None => {
                let near = nearest(key, KEYS.iter().map(|(name, _)| *name));
                if let Some(near) = near.filter(|near| distance(key, near) <= 2) {
                    return Err(format!("audit has no key '{key}'; did you mean '{near}'?"));
                }
            }
        }
    }
    Ok(())
}

/// Adds the origin of a change to its description.
pub(crate) fn complete(cx: &Cx, mutation: &mut Json, session: Option<&str>) {
    let Some(known) = mutation.as_object_mut() else { return };
    let Known { given: mut whole, worker } = cx.state::<Audits>().0.current(cx).unwrap_or_default();
    for (key, value) in worker {
        whole.entry(key).or_insert(value);
    }
    whole.extend(session.map(|session| ("session_id".to_owned(), session.into())));
    whole.extend(std::mem::take(known));
    *known = whole;
}
