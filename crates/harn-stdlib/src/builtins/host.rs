//! Calls of the program's host, and mocks of them.

use std::cell::RefCell;

use harn_system::SystemExt;
use harn_value::{Dict, Ref, Set, Value};
use harn_vm::builtin::{Text, check_options};
use harn_vm::{Cx, Error, Result, builtins};

use super::host_process::{self, required};
use crate::args::{MaybeText, printed};
use crate::bridge::attached;
use crate::command_guard::{Later, guard};

builtins! {
    /// The host.
    pub(crate) static HOST: "host";

    /// Calls an operation of the host: `host_call("capability.operation", params)`.
    ///
    /// The first of these answers: a matching mock, the attached host, a built-in operation
    /// (`process.*`, `template.render`, `interaction.ask`, `runtime.task`, `workspace.cwd` and others).
    ///
    /// ```harn
    /// host_mock("editor", "open", {result: "opened"})
    /// println(host_call("editor.open", {path: "a.txt"})) // -> opened
    /// println(try { host_call("no.such") }) // -> Result.Err(host_call: unsupported operation no.such)
    /// ```
    State async fn host_call(cx, name: Text as "string", params: Value as "dict?") -> "any" {
        call(&cx, &name, &params).await?
    }

    /// Lists the capabilities of the host and their operations.
    ///
    /// ```harn
    /// println(host_capabilities().template.ops) // -> [render]
    /// ```
    State fn host_capabilities(cx) -> "dict" {
        capabilities(cx)
    }

    /// Returns whether the host has a capability, or an operation of it.
    ///
    /// ```harn
    /// println([host_has("process"), host_has("process", "exec"), host_has("teleport")]) // -> [true, true, false]
    /// ```
    State fn host_has(cx, capability: Text as "string", operation: MaybeText as "string?") -> "bool" {
        let known = capabilities(cx);
        let ops = known.get_str(&capability).and_then(Value::as_dict).and_then(|c| c.get_str("ops")?.as_list());
        match (ops, operation.0.filter(|op| op.as_str() != "nil")) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(ops), Some(op)) => ops.iter().any(|known| known.as_str() == Some(&op)),
        }
    }

    /// Lists the tools of the attached host.
    ///
    /// ```harn
    /// println(host_tool_list()) // -> []
    /// ```
    State fn host_tool_list(cx) -> "list" {
        attached(cx).map_or_else(Vec::new, |host| host.tools())
    }

    /// Calls a tool of the attached host.
    ///
    /// A mock of `builtin_call` with the tool's name as operation takes precedence.
    ///
    /// ```harn
    /// println(try { host_tool_call("search", {}) }) // -> Result.Err(host_tool_call: no host bridge is attached)
    /// ```
    State async fn host_tool_call(cx, name: MaybeText as "string", arguments: Value as "any?") -> "any" {
        let Some(name) = name.0 else {
            return Err(Error::thrown("host_tool_call: tool name is required"));
        };
        match call_host_tool(&cx, &name, &arguments).await {
            Some(answer) => answer?,
            None if attached(&cx).is_none() => {
                return Err(Error::thrown("host_tool_call: no host bridge is attached"));
            }
            None => return Err(Error::thrown(format!("host_tool_call: unknown tool '{name}'"))),
        }
    }

    /// Mocks an operation of the host with a value, or with `{result, params, error}`.
    ///
    /// `error` makes the call fail, and `params` restricts the mock to calls whose parameters
    /// contain those values. The latest matching mock takes precedence.
    ///
    /// ```harn
    /// host_mock("db", "read", 1)
    /// host_mock("db", "read", {result: 2, params: {key: "b"}})
    /// println([host_call("db.read", {key: "a"}), host_call("db.read", {key: "b"})]) // -> [1, 2]
    /// ```
    State fn host_mock(cx, capability: MaybeText as "string", operation: MaybeText as "string", result: Value as "any?", params: Value as "any?") -> "nil" {
        let (Some(capability), Some(operation)) = (capability.0, operation.0) else {
            return Err(Error::thrown("host_mock: capability and operation are required"));
        };
        if capability.trim().is_empty() || operation.trim().is_empty() {
            return Err(Error::thrown("host_mock: capability and operation must not be blank"));
        }
        let config = result.as_dict().filter(|d| ["result", "params", "error"].iter().any(|key| d.contains(key)));
        if config.is_some() {
            check_options("host_mock", "{result?: any, params?: dict, error?: any}", &result)?;
        }
        let entry = |name: &str| config.and_then(|d| d.get_str(name)).cloned();
        let error = entry("error").map(|error| printed(&error).to_string()).filter(|error| !error.is_empty());
        let mock = Mock {
            capability: capability.to_string(),
            operation: operation.to_string(),
            params: entry("params").unwrap_or(params).to_dict(),
            answer: match (error, config.is_some()) {
                (Some(error), _) => Err(error),
                (None, true) => Ok(entry("result").unwrap_or_default()),
                (None, false) => Ok(result.clone()),
            },
        };
        cx.state::<Mocks>().scopes.borrow_mut().current().mocks.push(mock);
    }

    /// Lists the calls that mocks answered: `{capability, operation, params}`.
    ///
    /// ```harn
    /// host_mock("db", "read", 1)
    /// host_call("db.read", {key: "a"})
    /// println(host_mock_calls()) // -> [{capability: db, operation: read, params: {key: a}}]
    /// ```
    State fn host_mock_calls(cx) -> "list" {
        cx.state::<Mocks>().scopes.borrow_mut().current().calls.clone()
    }

    /// Removes the mocks and recorded calls of this scope.
    ///
    /// ```harn
    /// host_mock("db", "read", 1)
    /// host_mock_clear()
    /// println(host_mock_calls()) // -> []
    /// ```
    State fn host_mock_clear(cx) -> "nil" {
        *cx.state::<Mocks>().scopes.borrow_mut().current() = Scope::default();
    }

    /// Saves the mocks and calls, and starts with none until `host_mock_pop_scope`.
    ///
    /// ```harn
    /// host_mock("db", "read", 1)
    /// host_mock_push_scope()
    /// println(is_err(try { host_call("db.read") })) // -> true
    /// host_mock_pop_scope()
    /// println(host_call("db.read")) // -> 1
    /// ```
    State fn host_mock_push_scope(cx) -> "nil" {
        cx.state::<Mocks>().scopes.borrow_mut().outer.push(Scope::default());
    }

    /// Restores the mocks and calls that `host_mock_push_scope` saved.
    ///
    /// ```harn
    /// println(try { host_mock_pop_scope() }) // -> Result.Err(host_mock_pop_scope: no scope to pop)
    /// ```
    State fn host_mock_pop_scope(cx) -> "nil" {
        if cx.state::<Mocks>().scopes.borrow_mut().outer.pop().is_none() {
            return Err(Error::thrown("host_mock_pop_scope: no scope to pop"));
        }
    }
}

/// Mocks of the program's host.
#[derive(Default)]
struct Mocks {
    scopes: RefCell<Scopes>,
}

/// The base scope, and the scopes pushed on top of it.
#[derive(Default)]
struct Scopes {
    base: Scope,
    outer: Vec<Scope>,
}

impl Scopes {
    fn current(&mut self) -> &mut Scope {
        self.outer.last_mut().unwrap_or(&mut self.base)
    }
}

#[derive(Default)]
struct Scope {
    mocks: Vec<Mock>,
    calls: Vec<Value>,
}

struct Mock {
    capability: String,
    operation: String,
    params: Option<Ref<Dict>>,
    answer: std::result::Result<Value, String>,
}

impl Mock {
    fn fits(&self, capability: &str, operation: &str, given: &Dict) -> bool {
        let contains = |wanted: &Ref<Dict>| wanted.iter().all(|(key, value)| given.get(key) == Some(value));
        self.capability == capability
            && self.operation == operation
            && self.params.as_ref().is_none_or(contains)
    }
}

/// Returns the result of the latest matching mock, and records the call.
fn mocked(cx: &Cx, capability: &str, operation: &str, params: &Ref<Dict>) -> Option<Result<Value>> {
    let mocks = cx.state::<Mocks>();
    let mut scopes = mocks.scopes.borrow_mut();
    let scope = scopes.current();
    let mock = scope.mocks.iter().rev().find(|mock| mock.fits(capability, operation, params))?;
    let answer = mock.answer.clone().map_err(Error::thrown);
    let mut call = Dict::new();
    call.insert("capability", capability);
    call.insert("operation", operation);
    call.insert("params", params.clone());
    scope.calls.push(call.into());
    Some(answer)
}

/// Calls a mock or the attached host; returns `None` if neither supports the operation.
pub async fn ask_host(cx: &Cx, capability: &str, operation: &str, params: &Value) -> Option<Result<Value>> {
    let params = params.to_dict().unwrap_or_else(|| Ref::new(Dict::new()));
    if let Some(answer) = mocked(cx, capability, operation, &params) {
        return Some(answer);
    }
    attached(cx)?.call(capability, operation, params.into()).await
}

/// Calls a tool of the host: first a mock of `builtin_call` and the tool's name, then the attached host. Returns `None`
/// if neither has the tool.
pub async fn call_host_tool(cx: &Cx, name: &str, arguments: &Value) -> Option<Result<Value>> {
    let params = arguments.to_dict().unwrap_or_else(|| Ref::new(Dict::new()));
    if let Some(answer) = mocked(cx, "builtin_call", name, &params) {
        return Some(answer);
    }
    attached(cx)?.call_tool(name, arguments.clone()).await
}

/// Returns whether a host is attached.
pub fn has_host(cx: &Cx) -> bool {
    attached(cx).is_some()
}

/// Sends a notification to the attached host, if there is one.
pub fn notify_host(cx: &Cx, method: &str, params: &Value) {
    if let Some(host) = attached(cx) {
        host.notify(method, params.clone());
    }
}

/// As [`notify_host`]; the parameters are created only if a host is attached.
pub fn notify_host_with(cx: &Cx, method: &str, params: impl FnOnce() -> Value) {
    if let Some(host) = attached(cx) {
        host.notify(method, params());
    }
}

/// Performs an operation of the host: by a mock, the attached host, or a built-in operation.
pub(crate) async fn call(cx: &Cx, name: &str, params: &Value) -> Result<Value> {
    let Some((capability, operation)) = name.split_once('.') else {
        return Err(Error::thrown(format!("host_call: unsupported operation name '{name}'")));
    };
    let params = params.to_dict().unwrap_or_else(|| Ref::new(Dict::new()));
    if name == "process.exec"
        && let Some(guard) = guard(cx)
    {
        // Execution by a mock or a host is guarded, too.
        let run = Box::new(move |params: Ref<Dict>| -> Later<'_> {
            Box::pin(async move { perform(cx, name, capability, operation, params).await })
        });
        return guard.run(cx, params, run).await;
    }
    perform(cx, name, capability, operation, params).await
}

async fn perform(cx: &Cx, name: &str, capability: &str, operation: &str, params: Ref<Dict>) -> Result<Value> {
    if let Some(answer) = mocked(cx, capability, operation, &params) {
        return answer;
    }
    if let Some(host) = attached(cx)
        && let Some(answer) = host.call(capability, operation, params.clone().into()).await
    {
        return answer;
    }
    if let Some((name, takes)) = harn_vm::shapes::host_operation(name) {
        check_options(&format!("host_call {name}"), takes, &params.clone().into())?;
    }
    let env = |name: &str| cx.system().env(name);
    Ok(match name {
        "process.exec" => host_process::exec(cx, &params).await?.into(),
        "process.list_shells" => host_process::list_shells(cx).into(),
        "process.get_default_shell" => host_process::get_default_shell(cx)?.into(),
        "process.set_default_shell" => host_process::set_default_shell(cx, &params)?.into(),
        "process.shell_invocation" => host_process::shell_invocation(cx, &params)?.into(),
        "template.render" => {
            let path = required(&params, "path")?.clone();
            let bindings = params.get_str("bindings").cloned().unwrap_or_default();
            match cx.vm().builtin("render") {
                Some(render) => cx.call(&render.value(), [path, bindings]).await?,
                None => return Err(unsupported(name)),
            }
        }
        "interaction.ask" => {
            cx.print(&format!("{}\n", printed(required(&params, "question")?)))?;
            let _ = cx.system().flush();
            super::terminal::next_line(cx, "host_call").await?.into()
        }
        "runtime.task" => env("HARN_TASK").unwrap_or_default().into(),
        "runtime.set_result" => Value::NIL,
        "workspace.project_root" => {
            env("HARN_PROJECT_ROOT").unwrap_or_else(|| crate::places::show(&cx.system().work_dir())).into()
        }
        "workspace.cwd" => crate::places::show(&cx.system().work_dir()).into(),
        _ => return Err(unsupported(name)),
    })
}

fn unsupported(name: &str) -> Error {
    Error::thrown(format!("host_call: unsupported operation {name}"))
}

const BUILT_IN: [(&str, &str, &[&str]); 3] = [
    ("interaction", "Questions to the person who runs the program.", &["ask"]),
    (
        "process",
        "Running other programs.",
        &["exec", "get_default_shell", "list_shells", "set_default_shell", "shell_invocation"],
    ),
    ("template", "Rendering of templates.", &["render"]),
];

fn capabilities(cx: &Cx) -> Dict {
    let mut out = Dict::new();
    for (name, description, operations) in BUILT_IN {
        out.insert(name, capability(description, operations.iter().map(|op| Value::str(op)).collect()));
    }
    let mocks = cx.state::<Mocks>();
    let mut scopes = mocks.scopes.borrow_mut();
    for mock in &scopes.current().mocks {
        let known = out.get_str(&mock.capability).and_then(Value::as_dict).cloned();
        let description =
            known.as_ref().and_then(|c| c.get_str("description")).map(|d| printed(d).to_string());
        let ops = known.as_ref().and_then(|c| c.get_str("ops")?.as_list());
        let mut ops: Set = ops.into_iter().flat_map(|ops| ops.iter().cloned()).collect();
        ops.insert(Value::str(&mock.operation));
        out.insert(mock.capability.as_str(), capability(description.as_deref().unwrap_or("Mocked."), ops));
    }
    out
}

fn capability(description: &str, operations: Set) -> Dict {
    let mut dict = Dict::new();
    dict.insert("description", description);
    let about = |op: &Value| {
        let about: Dict = [("description", format!("Operation {op}."))].into_iter().collect();
        (printed(op), about)
    };
    dict.insert("operations", Value::dict(operations.iter().map(about).collect()));
    let mut ops: Vec<Value> = operations.iter().cloned().collect();
    ops.sort_by_cached_key(Value::to_string);
    dict.insert("ops", ops);
    dict
}
