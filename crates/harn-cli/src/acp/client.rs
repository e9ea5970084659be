//! The ACP client as the host of a program.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    ErrorCode, PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use harn_runtime::{Answer, HostBridge};
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::{Error, Result};
use tokio::sync::oneshot;

use super::log::Log;
use super::{protocol, updates};
use crate::json_rpc::{Problem, Wire};

/// Host requests beyond the protocol that are sent to clients with the Harn extensions.
pub(super) const REQUESTS: [&str; 7] = [
    "skill/match",
    "skills/list",
    "skills/fetch",
    "tool_search/query",
    "builtin_call",
    "host/tools/list",
    "host/call",
];

/// Id of the permission option that allows a call.
const ALLOW: &str = "allow";

/// Pending requests to the client, by id.
type Asked = RefCell<BTreeMap<String, oneshot::Sender<std::result::Result<Json, Problem>>>>;

/// The client of one session.
pub(super) struct Client {
    pub(super) wire: Arc<Wire>,
    pub(super) session: String,
    pub(super) cwd: PathBuf,
    /// Whether the client supports the requests and updates that Harn adds to the protocol.
    pub(super) extended: bool,
    /// The prompt that is being answered.
    pub(super) task: RefCell<String>,
    /// Program output that is buffered until its line is complete.
    pub(super) printed: RefCell<String>,
    /// Number of uses of each call id. Clients expect call ids that are unique within the session.
    pub(super) calls: RefCell<BTreeMap<String, u64>>,
    /// The tools that the client provides.
    pub(super) tools: RefCell<Vec<Value>>,
    pub(super) asked: Asked,
    /// The log of updates that were sent to the client.
    pub(super) log: Option<Log>,
    pub(super) count: Cell<u64>,
}

impl Client {
    /// Sends a request to the client and waits for its answer.
    async fn ask(&self, method: &str, params: &Json) -> std::result::Result<Json, Problem> {
        self.count.set(self.count.get() + 1);
        let id = format!("{}:{}", self.session, self.count.get());
        let (give, take) = oneshot::channel();
        self.asked.borrow_mut().insert(id.clone(), give);
        let _forget = Forget { asked: &self.asked, id: &id };
        self.wire.ask(&id, method, params);
        take.await
            .unwrap_or_else(|_| Err(protocol::problem(ErrorCode::MethodNotFound, "the client has gone")))
    }

    /// Sends a host request. Returns `None` if the client does not support the method.
    async fn request(&self, method: &str, params: &Json) -> Option<Result<Value>> {
        match self.ask(method, params).await {
            Ok(answer) => Some(Ok(harn_value::json::from_data(&answer))),
            Err(problem) if problem.code == i64::from(i32::from(ErrorCode::MethodNotFound)) => None,
            Err(problem) => Some(Err(Error::thrown(problem.message))),
        }
    }

    /// Resolves a pending request.
    pub(super) fn answered(&self, id: &str, answer: std::result::Result<Json, Problem>) {
        // The requester may be gone because its deadline expired.
        if let Some(waiting) = self.asked.borrow_mut().remove(id) {
            let _ = waiting.send(answer);
        }
    }

    /// Sends program output to the client, line by line.
    pub(super) fn print(&self, text: &str) {
        self.printed.borrow_mut().push_str(text);
        if text.ends_with('\n') {
            self.flush();
        }
    }

    /// Sends the buffered output, even if its last line is incomplete.
    pub(super) fn flush(&self) {
        let text = self.printed.take();
        if !text.is_empty() {
            self.send_update(&updates::said(&text));
        }
    }

    /// Sends a session update after the output that was printed before it.
    fn update(&self, update: &Json) {
        self.flush();
        self.send_update(update);
    }

    /// Returns the id under which the client knows a call. A repeated id gets a numeric suffix.
    fn call_id(&self, id: &str, begins: bool) -> String {
        let mut calls = self.calls.borrow_mut();
        let count = calls.entry(id.to_owned()).or_default();
        *count += u64::from(begins);
        if *count > 1 { format!("{id}.{count}") } else { id.to_owned() }
    }

    /// Logs a prompt of the client.
    pub(super) fn heard(&self, task: &str) {
        if let Some(log) = &self.log {
            log.add(&updates::heard(task));
        }
    }

    fn send_update(&self, update: &Json) {
        if let Some(log) = &self.log {
            log.add(update);
        }
        self.wire.tell("session/update", &json!({"sessionId": self.session, "update": update}));
    }

    /// Asks the client for its tools.
    pub(super) async fn look_for_tools(&self) {
        if !self.extended {
            return;
        }
        let params = json!({"sessionId": self.session});
        let answer = self.ask("host/tools/list", &params).await.unwrap_or_default();
        let list = answer.get("tools").unwrap_or(&answer).as_array();
        *self.tools.borrow_mut() = list.into_iter().flatten().map(harn_value::json::from_data).collect();
    }

    /// Asks the user for permission to run a call.
    async fn permission(&self, asked: &Json) -> Option<Result<Value>> {
        let call = &asked["toolCall"];
        let id = match call["toolCallId"].as_str() {
            Some(id) => self.call_id(id, false),
            // A command that the program runs directly belongs to no tool call.
            None => format!("command_{}", self.count.get() + 1),
        };
        let fields = ToolCallUpdateFields::new()
            .title(call["toolName"].as_str().unwrap_or_default())
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .raw_input(updates::given(&call["rawInput"]));
        let options = vec![
            PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
        ];
        let question =
            RequestPermissionRequest::new(self.session.clone(), ToolCallUpdate::new(id, fields), options);
        let answer = match self.ask("session/request_permission", &Json::lossy(&question)).await {
            Ok(answer) => answer,
            Err(problem) => return Some(Err(Error::thrown(problem.message))),
        };
        // Only the allow option permits the call.
        let reason = match protocol::read::<RequestPermissionResponse>(&answer).map(|answer| answer.outcome) {
            Ok(RequestPermissionOutcome::Selected(chosen)) if *chosen.option_id.0 == *ALLOW => None,
            Ok(RequestPermissionOutcome::Cancelled) => Some("the prompt was cancelled".to_owned()),
            Ok(_) => Some("the user rejected the call".to_owned()),
            Err(why) => Some(format!("the client's answer to session/request_permission is none: {why}")), // prose-ok: diagnostic
        };
        let reply = match reason {
            None => json!({"granted": true}),
            Some(reason) => json!({"granted": false, "reason": reason}),
        };
        Some(Ok(harn_value::json::from_data(&reply)))
    }
}

/// Removes a pending request when its requester is dropped.
struct Forget<'a> {
    asked: &'a Asked,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.asked.borrow_mut().remove(self.id);
    }
}

/// Converts a script value to JSON. Values without a JSON form become strings.
fn plain(value: &Value) -> Json {
    harn_value::json::to_data(value).unwrap_or_else(|_| value.to_string().into())
}

impl HostBridge for Client {
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a> {
        Box::pin(async move {
            let mut params = plain(&params);
            match (capability, operation) {
                ("runtime", "task") => Some(Ok(Value::str(&self.task.borrow()))),
                ("session", "info") => {
                    let info = json!({"id": self.session, "cwd": self.cwd.to_string_lossy()});
                    Some(Ok(harn_value::json::from_data(&info)))
                }
                ("session", "request_permission") => self.permission(&params).await,
                _ if !self.extended => None,
                ("skill", "match") | ("skills", "list" | "fetch") | ("tool_search", "query") => {
                    params["sessionId"] = self.session.as_str().into();
                    self.request(&format!("{capability}/{operation}"), &params).await
                }
                _ => {
                    let name = format!("{capability}.{operation}");
                    let call = json!({"sessionId": self.session, "name": name, "params": params});
                    self.request("host/call", &call).await
                }
            }
        })
    }

    fn notify(&self, method: &str, params: Value) {
        let mut params = plain(&params);
        if method == "session/update" {
            let known_as = |id: &str, begins: bool| self.call_id(id, begins);
            if let Some(update) = updates::update(&params, self.extended, known_as) {
                self.update(&update);
            }
        } else if self.extended {
            if let Some(map) = params.as_object_mut() {
                map.insert("sessionId".to_owned(), self.session.as_str().into());
            }
            self.wire.tell(method, &params);
        }
    }

    fn tools(&self) -> Vec<Value> {
        self.tools.borrow().clone()
    }

    fn call_tool<'a>(&'a self, name: &'a str, arguments: Value) -> Answer<'a> {
        Box::pin(async move {
            if !self.extended {
                return None;
            }
            let call = json!({"sessionId": self.session, "name": name, "args": [plain(&arguments)]});
            self.request("builtin_call", &call).await
        })
    }
}
