//! Runs the tools that a loop calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use harn_agent::config::ToolErrors;
use harn_agent::mcp::ServerResult;
use harn_agent::tool::Backend;
use harn_agent::{AgentLoop, Review, Reviewed, ToolReply, ToolRun, ToolStatus};
use harn_prompt::{Prose, prose::agent_asset};
use harn_stdlib::{Doubts, Later};
use harn_system::Uncertain;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Ref, Str, Value};
use harn_vm::closure::Closure;
use harn_vm::task_scope::TaskScope;
use harn_vm::{Error, ErrorKind, Result, SpanKind, Vm};

use super::{Driver, millis};
use crate::builtins::model_result;
use crate::command_policy::CommandPolicies;
use crate::convert::{OrThrow, from_json, to_json, told};
use crate::mcp::Client;
use crate::own_tools::{self, Problem};
use crate::session::Sessions;

/// While this guard exists, effects in doubt are handled as a tool specifies.
struct InDoubt {
    doubts: Rc<Doubts>,
    token: u64,
}

impl InDoubt {
    fn of(doubts: Rc<Doubts>, open: impl FnOnce(&TaskScope<Uncertain>) -> u64) -> InDoubt {
        let token = open(&doubts.0);
        InDoubt { doubts, token }
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        self.doubts.0.close(self.token);
    }
}

impl Driver {
    pub(super) async fn run_tools(&self, agent: &AgentLoop, runs: &[ToolRun]) -> Result<Vec<ToolReply>> {
        let policies = CommandPolicies::of(&self.cx);
        // In a separate task, a handler would assign to a copy of a program variable.
        let assigns = |r: &ToolRun| self.handlers.get(&r.name).is_some_and(|h| self.cx.assigns_outside(h));
        let at_once = runs.len() > 1
            && runs.iter().all(|r| {
                r.backend == Backend::Handler
                    && r.retries == 0
                    && !policies.covers(&self.cx, &r.name)
                    && !assigns(r)
            });
        let mut replies = Vec::with_capacity(runs.len());
        if at_once {
            let started = self.cx.system().monotonic();
            let mut tasks = Vec::with_capacity(runs.len());
            for run in runs {
                let handler = self.handlers.get(&run.name).cloned().unwrap_or_default();
                let task = self.cx.spawn(&handler, self.arguments(agent, run, &handler));
                self.cx.span_of_task(&task, SpanKind::ToolCall, || Str::new(&run.name));
                let doubt = self.doubts.get(&run.name);
                let doubt =
                    doubt.map(|said| InDoubt::of(self.cx.state(), |scope| scope.open_in(&task, *said)));
                tasks.push((task, doubt));
            }
            for (task, _doubt) in tasks {
                let result = self.cx.join(&task).await;
                let duration = self.cx.system().monotonic().saturating_sub(started);
                replies.push(reply(self.handler_errors(agent, result)?, duration)?);
            }
        } else {
            for run in runs {
                let _span = self.cx.span(SpanKind::ToolCall, || Str::new(&run.name));
                replies.push(self.run_tool(agent, run).await?);
            }
        }
        Ok(replies)
    }

    /// Runs one call; a call whose arguments are a command also needs permission by the command policies.
    async fn run_tool(&self, agent: &AgentLoop, run: &ToolRun) -> Result<ToolReply> {
        let policies = CommandPolicies::of(&self.cx);
        if !policies.covers(&self.cx, &run.name) {
            return self.run_past_policies(agent, run).await;
        }
        let ran = RefCell::new(None);
        let (given, ran_to) = (run, &ran);
        let start = Box::new(move |request: Ref<Dict>| -> Later<'_> {
            Box::pin(async move {
                let run = ToolRun { arguments: to_json(&request.into()), ..given.clone() };
                let reply = match self.review(agent, given, run).await? {
                    Ok(run) => self.run_past_policies(agent, &run).await?,
                    Err(reason) => ToolReply::new(reason, ToolStatus::Rejected, 0),
                };
                let result =
                    json!({"stdout": reply.text, "stderr": "", "success": reply.status == ToolStatus::Ok});
                *ran_to.borrow_mut() = Some(reply);
                Ok(from_json(&result))
            })
        });
        let request = from_json(&run.arguments).to_dict().unwrap_or_else(|| Ref::new(Dict::new()));
        let result = to_json(&policies.run(&self.cx, request, start).await?);
        Ok(match ran.into_inner() {
            Some(reply) => {
                let text = result["stdout"].as_str().map_or(reply.text, str::to_owned);
                ToolReply { text, ..reply }
            }
            None => {
                let text = result["reason"].as_str().unwrap_or_default().to_owned();
                ToolReply::new(text, ToolStatus::Rejected, 0)
            }
        })
    }

    /// Applies the policies of the loop again to a call that a command policy changed; returns the reason if it is
    /// rejected.
    async fn review(
        &self,
        agent: &AgentLoop,
        given: &ToolRun,
        run: ToolRun,
    ) -> Result<std::result::Result<ToolRun, String>> {
        if run.arguments == given.arguments {
            return Ok(Ok(run));
        }
        let mut review = Review::new(run);
        loop {
            match agent.review(&mut review, &self.state.prompts).or_throw()? {
                Reviewed::Run(run) => return Ok(Ok(run)),
                Reviewed::Ask(questions) => review.answer(self.permit_all(&questions).await?),
                Reviewed::Refused(reason) => return Ok(Err(reason)),
            }
        }
    }

    /// Runs one call, and retries it when it fails while retries are left.
    async fn run_past_policies(&self, agent: &AgentLoop, run: &ToolRun) -> Result<ToolReply> {
        let mut attempt = 0;
        loop {
            let started = self.cx.system().monotonic();
            let reply = match run.backend {
                Backend::Handler => {
                    let handler = self.handlers.get(&run.name).cloned().unwrap_or_default();
                    let arguments = self.arguments(agent, run, &handler);
                    let deadlines = self.cx.task().deadline_count();
                    let doubt = self.doubts.get(&run.name);
                    let doubt =
                        doubt.map(|said| InDoubt::of(self.cx.state(), |scope| scope.open(&self.cx, *said)));
                    let result = self.cx.call(&handler, arguments).await;
                    drop(doubt);
                    if result.is_err() && self.cx.task().interrupted_since(deadlines) {
                        // The deadline of the loop's caller expired, not the deadline of the tool.
                        return result.and_then(|_| self.unavailable(agent, run));
                    }
                    let result = self.handler_errors(agent, result)?;
                    reply(result, self.cx.system().monotonic().saturating_sub(started))?
                }
                Backend::Runtime => {
                    let (text, status) = match own_tools::answer(&self.cx, run, &self.state.prompts) {
                        Ok(text) => (text, ToolStatus::Ok),
                        Err(Problem::Failed(problem)) => (format!("Error: {problem}"), ToolStatus::Ok),
                        Err(Problem::Refused(reason)) => (reason, ToolStatus::Rejected),
                    };
                    ToolReply::new(text, status, 0)
                }
                Backend::Host => match crate::host::call_tool(&self.cx, &run.name, &run.arguments).await {
                    None => return self.unavailable(agent, run),
                    Some(answer) => from_host(answer, self.cx.system().monotonic().saturating_sub(started))?,
                },
                Backend::Mcp => match self.call_server(agent, run).await {
                    Some(answer) => {
                        from_server(answer, self.cx.system().monotonic().saturating_sub(started))?
                    }
                    // A tool without a server is run by the host.
                    None => match crate::host::call_tool(&self.cx, &run.name, &run.arguments).await {
                        None => return self.unavailable(agent, run),
                        Some(answer) => {
                            from_host(answer, self.cx.system().monotonic().saturating_sub(started))?
                        }
                    },
                },
                // The loop itself transfers conversations.
                Backend::Provider | Backend::Handoff => return self.unavailable(agent, run),
            };
            let failed = reply.status == ToolStatus::Error || reply.text.starts_with("Error:");
            // A rejection is not retried.
            if !failed || reply.status == ToolStatus::Rejected || attempt >= run.retries {
                return Ok(reply);
            }
            let pause = run.backoff_ms.saturating_mul(1 << attempt.min(5));
            self.cx.sleep(Duration::from_millis(pause)).await?;
            attempt += 1;
        }
    }

    /// Calls a tool of a server, either of the loop or of the project. Returns `None` if the server does not exist.
    async fn call_server(&self, agent: &AgentLoop, run: &ToolRun) -> Option<Result<ServerResult>> {
        let entry = agent.config().tool(&run.name).map_or(&Json::Null, |tool| &tool.entry);
        if let Some(answer) = self.servers.call(&self.cx, entry, &run.arguments).await {
            return Some(answer);
        }
        let client = match self.project_servers.client(&self.cx, entry["mcp_server"].as_str()?).await {
            Ok(client) => client?,
            Err(error) => return Some(Err(error)),
        };
        let client = client.downcast::<Client>()?;
        Some(client.call_entry(&self.cx, entry, &run.arguments).await)
    }

    /// Returns the rejection of a tool without an executor.
    fn unavailable(&self, agent: &AgentLoop, run: &ToolRun) -> Result<ToolReply> {
        let entry = agent.config().tool(&run.name).map_or(&Json::Null, |tool| &tool.entry);
        let bindings = json!({"tool": run.name, "executor": entry["executor"]});
        let bindings = bindings.as_object().cloned().unwrap_or_default();
        let text = self.state.prompts.render(&agent_asset("tool_unavailable"), &bindings).or_throw()?;
        Ok(ToolReply::new(text.trim().to_owned(), ToolStatus::Rejected, 0))
    }

    /// Reports an error of a handler that the program did not throw itself, because it is a bug; once per location.
    ///
    /// # Errors
    /// Returns the error if such errors are configured to end the loop.
    fn handler_errors(&self, agent: &AgentLoop, result: Result<Value>) -> Result<Result<Value>> {
        let Err(error) = &result else { return Ok(result) };
        if !is_bug(error) {
            return Ok(result);
        }
        match agent.config().tool_errors {
            ToolErrors::Silent => {}
            ToolErrors::Raise => return result.map(Ok),
            ToolErrors::Report => report_bug(self.cx.vm(), error),
        }
        Ok(result)
    }

    /// Returns the arguments of a handler: one dict, or the parameters by name for a `tool` declaration.
    fn arguments(&self, agent: &AgentLoop, run: &ToolRun, handler: &Value) -> Vec<Value> {
        let tool = agent.config().tool(&run.name);
        if tool.is_some_and(|tool| tool.is_of_runtime) {
            return vec![from_json(&run.arguments), Value::str(&run.id)];
        }
        let declared = tool.and_then(|t| t.entry.get("parameters"));
        let declared = declared.and_then(Json::as_object);
        let Some(names) = declared_parameters(handler, &run.name, declared) else {
            return vec![from_json(&run.arguments)];
        };
        let mut values: Vec<Option<Json>> =
            names.iter().map(|name| run.arguments.get(name).cloned()).collect();
        while values.last().is_some_and(Option::is_none) {
            values.pop();
        }
        values.iter().map(|value| value.as_ref().map_or(Value::NIL, from_json)).collect()
    }
}

/// Returns whether an error is raised by the runtime instead of thrown by the program: an unknown variable or method, a
/// wrong type or number of arguments. Limits and cancellation are excluded.
fn is_bug(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Runtime(_) | ErrorKind::Type(_) => true,
        ErrorKind::Plain(text) => text.starts_with("Undefined ") || text == "Division by zero",
        _ => false,
    }
}

/// Warns of a handler error that the program did not throw itself; once per location.
pub(crate) fn report_bug(vm: &Vm, error: &Error) {
    if !is_bug(error) {
        return;
    }
    let (diagnostic, file) = harn_vm::uncaught(vm, error);
    let place = error.trace().first().map(|e| (e.file.to_string(), e.span.start));
    if vm.extension::<Sessions>().reported.borrow_mut().insert(place) {
        let drawn = harn_vm::drawn(&diagnostic, file.as_ref());
        vm.system().write_err(&format!("{}\n", drawn.trim_end()));
    }
}

/// Returns the parameters of a handler that a `tool` declaration created: the closure has the tool's name and exactly
/// the declared parameters. Any other handler takes one dict (`None`), or no arguments.
pub(crate) fn declared_parameters(
    handler: &Value,
    tool: &str,
    declared: Option<&Map<String, Json>>,
) -> Option<Vec<String>> {
    let closure = Closure::of(handler)?;
    let names = &closure.proto.param_names;
    if names.is_empty() {
        return Some(Vec::new());
    }
    // Arguments of a rest parameter cannot be passed by name.
    let named = &names[..names.len() - usize::from(closure.proto.rest)];
    let declared = declared?;
    let same = closure.proto.name == tool
        && named.len() == declared.len()
        && named.iter().all(|n| declared.contains_key(n));
    same.then(|| named.to_vec())
}

/// Returns the policy violation of a builtin that the effective policy forbids.
fn violation(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::Category { category, message } if category == "tool_rejected" => {
            Some(format!("{message}."))
        }
        _ => None,
    }
}

fn reply(result: Result<Value>, duration: Duration) -> Result<ToolReply> {
    let duration_ms = millis(duration);
    match result {
        Ok(value) => {
            let (text, media) = model_result(&value);
            Ok(ToolReply { text, media, status: ToolStatus::Ok, duration_ms })
        }
        Err(error) if !error.is_catchable() => Err(error),
        // A policy forbids the action of the handler.
        Err(error) if violation(&error).is_some() => {
            let text = violation(&error).unwrap_or_default();
            Ok(ToolReply::new(text, ToolStatus::Rejected, duration_ms))
        }
        Err(error) => {
            let text = format!("Error: {}", error.uncaught_text());
            Ok(ToolReply::new(text, ToolStatus::Error, duration_ms))
        }
    }
}

/// Converts the result of a host's tool: a string is unchanged, any other value becomes JSON. Answers marked as
/// rejected and failed calls become rejections.
fn from_host(answer: Result<Value>, duration: Duration) -> Result<ToolReply> {
    let duration_ms = millis(duration);
    let (text, status) = match answer {
        Ok(value) => {
            let value = to_json(&value);
            let value = harn_agent::unwrapped(&value);
            if value["error"] == "permission_denied" {
                let reason = value["reason"].as_str().unwrap_or("the host denied it");
                (reason.to_owned(), ToolStatus::Rejected)
            } else {
                let text = match value {
                    Json::Null => "(no output)".to_owned(),
                    Json::String(text) => text.clone(),
                    other => serde_json::to_string_pretty(other).unwrap_or_default(),
                };
                (text, ToolStatus::Ok)
            }
        }
        Err(error) if !error.is_catchable() => return Err(error),
        Err(error) => (format!("the host failed: {}.", error.uncaught_text()), ToolStatus::Rejected),
    };
    Ok(ToolReply::new(text, status, duration_ms))
}

/// Reads the result of a server's tool: text, structured content as JSON, images and documents.
fn from_server(answer: Result<ServerResult>, duration: Duration) -> Result<ToolReply> {
    let duration_ms = millis(duration);
    match answer {
        Ok(ServerResult { mut text, media, is_error }) => {
            if text.is_empty() && media.is_empty() {
                "(no output)".clone_into(&mut text);
            }
            let status = if is_error { ToolStatus::Error } else { ToolStatus::Ok };
            let text = if is_error { format!("Error: {text}") } else { text };
            Ok(ToolReply { text, media, status, duration_ms })
        }
        Err(error) if !error.is_catchable() => Err(error),
        Err(error) => Ok(ToolReply::new(format!("Error: {}", told(&error)), ToolStatus::Error, duration_ms)),
    }
}
