//! The client as the host of a program.

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

/// What clients that know Harn are asked besides the requests of the protocol.
pub(super) const REQUESTS: [&str; 7] = [
    "skill/match",
    "skills/list",
    "skills/fetch",
    "tool_search/query",
    "builtin_call",
    "host/tools/list",
    "host/call",
];

/// The option that lets a call run.
const ALLOW: &str = "allow";

/// Questions that have no answer yet.
type Asked = RefCell<BTreeMap<String, oneshot::Sender<std::result::Result<Json, Problem>>>>;

/// The client of one session.
pub(super) struct Client {
    pub(super) wire: Arc<Wire>,
    pub(super) session: String,
    pub(super) cwd: PathBuf,
    /// Whether the client knows the requests and updates of Harn.
    pub(super) extended: bool,
    /// The prompt that is being answered.
    pub(super) task: RefCell<String>,
    /// What the program has printed and the client has not got: a line is told as a whole.
    pub(super) printed: RefCell<String>,
    /// How often the id of a call came up: clients tell calls apart by it for the whole session.
    pub(super) calls: RefCell<BTreeMap<String, u64>>,
    /// The tools that the client has.
    pub(super) tools: RefCell<Vec<Value>>,
    pub(super) asked: Asked,
    /// Where it is kept what the client was told.
    pub(super) log: Option<Log>,
    pub(super) count: Cell<u64>,
}

impl Client {
    /// Asks the client something.
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

    /// As a host answers: nothing when the client does not know the method.
    async fn request(&self, method: &str, params: &Json) -> Option<Result<Value>> {
        match self.ask(method, params).await {
            Ok(answer) => Some(Ok(harn_value::json::from_data(&answer))),
            Err(problem) if problem.code == i64::from(i32::from(ErrorCode::MethodNotFound)) => None,
            Err(problem) => Some(Err(Error::thrown(problem.message))),
        }
    }

    /// Takes an answer.
    pub(super) fn answered(&self, id: &str, answer: std::result::Result<Json, Problem>) {
        // Who asked may have gone, when a deadline was over.
        if let Some(waiting) = self.asked.borrow_mut().remove(id) {
            let _ = waiting.send(answer);
        }
    }

    /// Tells the client what the program prints.
    pub(super) fn print(&self, text: &str) {
        self.printed.borrow_mut().push_str(text);
        if text.ends_with('\n') {
            self.flush();
        }
    }

    /// Tells the client what was printed and is no whole line.
    pub(super) fn flush(&self) {
        let text = self.printed.take();
        if !text.is_empty() {
            self.send_update(&updates::said(&text));
        }
    }

    /// Tells the client of something in the session, behind what was printed before it.
    fn update(&self, update: &Json) {
        self.flush();
        self.send_update(update);
    }

    /// The id that the client knows a call by. One that came up before gets a number.
    fn call_id(&self, id: &str, begins: bool) -> String {
        let mut calls = self.calls.borrow_mut();
        let count = calls.entry(id.to_owned()).or_default();
        *count += u64::from(begins);
        if *count > 1 { format!("{id}.{count}") } else { id.to_owned() }
    }

    /// Keeps what the client has said.
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

    /// Asks which tools the client has.
    pub(super) async fn look_for_tools(&self) {
        if !self.extended {
            return;
        }
        let params = json!({"sessionId": self.session});
        let answer = self.ask("host/tools/list", &params).await.unwrap_or_default();
        let list = answer.get("tools").unwrap_or(&answer).as_array();
        *self.tools.borrow_mut() = list.into_iter().flatten().map(harn_value::json::from_data).collect();
    }

    /// Asks a person whether a call may run.
    async fn permission(&self, asked: &Json) -> Option<Result<Value>> {
        let call = &asked["toolCall"];
        let id = match call["toolCallId"].as_str() {
            Some(id) => self.call_id(id, false),
            // A command that a program starts by itself belongs to no call of a model.
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
        // Only the one option that says so allows the call.
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

/// Forgets a question when nobody waits for its answer any longer.
struct Forget<'a> {
    asked: &'a Asked,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.asked.borrow_mut().remove(self.id);
    }
}

/// A script value as the client gets it. What has no form in JSON stands as text.
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
