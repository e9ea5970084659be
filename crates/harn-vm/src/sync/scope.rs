//! Names of cells, maps and mailboxes: a key in a scope. A handle is a dict with both and refers to the same object in
//! every task. A plain string is a key in the default scope of the calling task.

use harn_value::{Dict, Ref, Str, Value};

use crate::builtin::{Maybe, Text, kind};
use crate::builtins;
use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::signature::{Kinds, wrong_type};

/// The default scope.
const DEFAULT: &str = "task_group";

/// The kind of object that a handle refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Cell,
    Map,
    Mailbox,
}

impl Kind {
    /// Returns the `_type` of its handles.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Cell => "shared_cell",
            Kind::Map => "shared_map",
            Kind::Mailbox => "mailbox",
        }
    }
}

/// A key in a scope.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    scope: Box<str>,
    key: Box<str>,
}

impl Name {
    fn new(builtin: &str, scope: &str, key: &str) -> Result<Name> {
        if key.is_empty() {
            return Err(Error::runtime(format!("{builtin}: name must not be empty")));
        }
        Ok(Name { scope: scope.into(), key: key.into() })
    }

    /// Resolves a handle, or a key in the default scope.
    ///
    /// # Errors
    /// Another type, or a handle of another kind.
    pub(super) fn of(cx: &Cx, builtin: &str, wanted: Kind, given: &Value) -> Result<Name> {
        let Some(handle) = given.as_dict() else {
            let key = text(builtin, "handle", "text | dict", given)?;
            return Name::new(builtin, &scope_id(cx, builtin, DEFAULT, None)?, &key);
        };
        let word = wanted.word();
        let part = |name: &str| {
            let text = handle.get_str(name).and_then(Value::as_str);
            text.ok_or_else(|| Error::runtime(format!("{builtin}: {word} handle missing {name}")))
        };
        if type_of_handle(given) != Some(word) {
            return Err(Error::runtime(format!("{builtin}: expected {word} handle")));
        }
        Name::new(builtin, part("scope")?, part("key")?)
    }

    /// Like [`Name::of`], for a required argument.
    ///
    /// # Errors
    /// `NAME: NEEDS`, and those of [`Name::of`].
    pub(super) fn required(cx: &Cx, builtin: &str, wanted: Kind, needs: &str, given: Maybe) -> Result<Name> {
        let given = Maybe(given.0.filter(|given| !given.is_nil()));
        Name::of(cx, builtin, wanted, &required(builtin, needs, given)?)
    }

    /// Resolves the argument of an open function: a key, or options with a key. Returns the options as well.
    ///
    /// # Errors
    /// `NAME: REQUIRED`, with the message in `required`.
    pub(super) fn opened(
        cx: &Cx,
        builtin: &str,
        required: &str,
        given: &Maybe,
    ) -> Result<(Name, Option<Ref<Dict>>)> {
        let missing = || Error::runtime(format!("{builtin}: {required}"));
        let given = given.0.as_ref().filter(|given| !given.is_nil()).ok_or_else(missing)?;
        let options = given.as_dict();
        let option = |name: &str| options.and_then(|options| options.get_str(name)).filter(|v| !v.is_nil());
        let key = if options.is_some() { option("key").or_else(|| option("name")) } else { Some(given) };
        let key = text(builtin, "key", "text | dict", key.ok_or_else(missing)?)?;
        let scope = option("scope").map(printed);
        let tenant = option("tenant_id").map(printed);
        let scope = scope_id(cx, builtin, scope.as_deref().unwrap_or(DEFAULT), tenant.as_deref())?;
        Ok((Name::new(builtin, &scope, &key)?, options.cloned()))
    }

    /// Returns a handle of the object with this name.
    pub(super) fn handle(&self, kind: Kind) -> Dict {
        [("_type", kind.word()), ("key", &*self.key), ("scope", &*self.scope)].into_iter().collect()
    }
}

/// Returns the `_type` of a dict.
pub(super) fn type_of_handle(value: &Value) -> Option<&str> {
    value.as_dict()?.get_str("_type")?.as_str().map(Str::as_str)
}

/// Returns a required argument.
///
/// # Errors
/// `NAME: NEEDS`
pub(super) fn required(builtin: &str, needs: &str, given: Maybe) -> Result<Value> {
    given.0.ok_or_else(|| Error::runtime(format!("{builtin}: {needs}")))
}

/// Returns the text of an argument.
///
/// # Errors
/// `NAME: PARAM must be TYPE, got TYPE`
pub(super) fn text(builtin: &str, param: &str, ty: &str, value: &Value) -> Result<Str> {
    if Kinds::TEXT.meets(kind(value)) {
        Ok(printed(value))
    } else {
        Err(Error::type_error(wrong_type(builtin, param, ty, value.type_name())))
    }
}

fn printed(value: &Value) -> Str {
    value.as_str().cloned().unwrap_or_else(|| Str::new(&value.to_string()))
}

/// Returns the ID of a scope for the running task. If the task is not in such a scope, the enclosing one is used.
///
/// # Errors
/// A tenant scope without a tenant, and scopes that are stored elsewhere.
fn scope_id(cx: &Cx, builtin: &str, word: &str, tenant: Option<&str>) -> Result<String> {
    let refuse = |text: &str| Error::runtime(format!("{builtin}: {text}"));
    let own = cx.task_identity();
    let root = || own.root_task_id.clone();
    let id = match word {
        "task" | "task_local" | "task-local" => own.task_id.clone(),
        "root_task" | "root-task" => root(),
        "task_group" | "task-group" | "workflow" | "workflow_local" | "workflow-local" => {
            own.task_group_id.clone().or_else(|| own.run_id.clone()).unwrap_or_else(root)
        }
        "workflow_run" | "workflow-run" | "run" => {
            own.run_id.clone().or_else(|| own.task_group_id.clone()).unwrap_or_else(root)
        }
        "agent_session" | "agent-session" | "session" => {
            let session = own.agent_session_id.clone().or_else(|| own.root_agent_session_id.clone());
            session.unwrap_or_else(root)
        }
        "tenant" | "tenant_scoped" | "tenant-scoped" => {
            let tenant = tenant.map(str::to_owned).or_else(|| own.tenant_id.clone());
            tenant.ok_or_else(|| refuse("tenant scope requires tenant_id in options or runtime context"))?
        }
        "process" | "global" => "process".to_owned(),
        "durable" | "event_log" | "event-log" => {
            return Err(refuse("durable shared state is explicit; use store_* or agent_state_* APIs"));
        }
        "external" | "host" => {
            return Err(refuse("external shared state must be provided by a host/connector builtin"));
        }
        other => other.to_owned(),
    };
    Ok(format!("{word}:{id}"))
}

builtins! {
    /// Scopes of shared state.
    pub(crate) static SCOPES: "shared_state";

    /// Returns the name of a scope of cells, maps and mailboxes, for the running task.
    ///
    /// Scopes are `task`, `root_task`, `task_group` (a `parallel`, else the run, else the program), `workflow_run`,
    /// `agent_session`, `tenant` (option `tenant_id`), `process`, and any custom name.
    ///
    /// ```harn
    /// println([shared_scope_id("task"), shared_scope_id("mine")]) // -> [task:task_root, mine:mine]
    /// ```
    State fn shared_scope_id(cx, scope: Text = "task_group", options: Value as "{tenant_id?: text}?") -> "string" {
        let tenant = options.as_dict().and_then(|options| options.get_str("tenant_id")).filter(|v| !v.is_nil());
        scope_id(cx, "shared_scope_id", &scope, tenant.map(printed).as_deref())
    }
}
