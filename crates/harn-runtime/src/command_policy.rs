//! Active command policies, which decide about a command before it runs and process its result.
//!
//! Policies stack: a command runs only when all active policies permit it; the outermost decides first. Their closures
//! belong to the program; a command that such a closure runs is rejected, unless the policy allows recursion.

use std::path::PathBuf;
use std::rc::Rc;

use harn_agent::command::{Bounds, CommandLine, RISK_LABELS};
use harn_stdlib::{CommandGuard, Later, Runner, attach_command_guard};
use harn_system::SystemExt;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Ref, Value};
use harn_vm::closure::is_callable;
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Result};

use crate::convert::{entry, from_json, thrown, to_json};
use crate::session::Sessions;

/// Maximum number of times that each policy decides about the forms of one command.
const MOST_ROUNDS: usize = 8;

/// The keys of a policy.
const KEYS: [&str; 9] = [
    "_type",
    "tools",
    "workspace_roots",
    "default_shell_mode",
    "deny_patterns",
    "require_approval",
    "pre",
    "post",
    "allow_recursive",
];

/// A command policy.
pub(crate) struct CommandPolicy {
    /// Globs of the loop's tools whose arguments are commands.
    tools: Vec<String>,
    roots: Vec<String>,
    /// Whether a request with `argv` and without `mode` runs without a shell.
    argv_first: bool,
    deny: Vec<String>,
    require_approval: Vec<String>,
    pre: Value,
    post: Value,
    allow_recursive: bool,
}

impl CommandPolicy {
    /// Reads a policy. `function` is the name of the caller in errors.
    ///
    /// # Errors
    /// Describes an invalid entry.
    pub(crate) fn read(function: &str, config: &Value) -> Result<CommandPolicy> {
        let Some(dict) = config.to_dict() else {
            return Err(thrown(format!("{function}: config must be a dict")));
        };
        if let Some(key) = dict.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known = KEYS[1..].join(", ");
            return Err(thrown(format!("{function}: unknown key '{key}'; there are {known}")));
        }
        let list = |key: &str| -> Result<Vec<String>> {
            let wrong = || thrown(format!("{function}: {key} must be a list of strings"));
            match to_json(&entry(config, key)) {
                Json::Null => Ok(Vec::new()),
                Json::Array(items) => {
                    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
                }
                _ => Err(wrong()),
            }
        };
        let closure = |key: &str| -> Result<Value> {
            let value = entry(config, key);
            if value.is_nil() || is_callable(&value) {
                return Ok(value);
            }
            Err(thrown(format!("{function}: {key} must be a closure")))
        };
        let require_approval = list("require_approval")?;
        if let Some(label) = require_approval.iter().find(|label| !RISK_LABELS.contains(&label.as_str())) {
            let known = RISK_LABELS.join(", ");
            return Err(thrown(format!(
                "{function}: require_approval: unknown risk label '{label}'; there are {known}"
            )));
        }
        let mode = entry(config, "default_shell_mode");
        let argv_first = match mode.as_str().as_ref().map(|mode| mode.as_str()) {
            None if mode.is_nil() => true,
            Some("argv_only") => true,
            Some("shell") => false,
            _ => return Err(thrown(format!("{function}: default_shell_mode must be argv_only or shell"))),
        };
        let allow_recursive = match entry(config, "allow_recursive") {
            nil if nil.is_nil() => false,
            word => {
                word.as_bool().ok_or_else(|| thrown(format!("{function}: allow_recursive must be a bool")))?
            }
        };
        let roots = list("workspace_roots")?;
        if roots.iter().any(String::is_empty) {
            return Err(thrown(format!("{function}: workspace_roots holds an empty path")));
        }
        Ok(CommandPolicy {
            tools: list("tools")?,
            roots,
            argv_first,
            deny: list("deny_patterns")?,
            require_approval,
            pre: closure("pre")?,
            post: closure("post")?,
            allow_recursive,
        })
    }

    /// Returns the policy with all defaults filled in.
    pub(crate) fn to_dict(&self) -> Dict {
        let list = |items: &[String]| items.iter().map(|item| Value::str(item)).collect::<Vec<Value>>();
        let mut dict = Dict::new();
        dict.insert("_type", "command_policy");
        dict.insert("tools", list(&self.tools));
        dict.insert("workspace_roots", list(&self.roots));
        dict.insert("default_shell_mode", if self.argv_first { "argv_only" } else { "shell" });
        dict.insert("deny_patterns", list(&self.deny));
        dict.insert("require_approval", list(&self.require_approval));
        dict.insert("pre", self.pre.clone());
        dict.insert("post", self.post.clone());
        dict.insert("allow_recursive", self.allow_recursive);
        dict
    }

    fn bounds(&self, cx: &Cx) -> Bounds {
        let here = cx.system().work_dir();
        Bounds { roots: self.roots.iter().map(|root| here.join(root)).collect(), deny: self.deny.clone() }
    }

    /// Returns whether calls of a tool of the loop are commands.
    fn covers(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| harn_value::glob(pattern, tool))
    }
}

/// An active policy, and the policies around it.
#[derive(Clone)]
struct Frame {
    policy: Rc<CommandPolicy>,
    outer: Option<Rc<Frame>>,
    /// Whether `command_policy_pop` ends it; the policy of a loop ends with the loop.
    pushed: bool,
}

/// The command policies of a program.
#[derive(Default)]
pub(crate) struct CommandPolicies {
    frames: TaskScope<Rc<Frame>, true>,
    /// Marks tasks in which a closure of a policy runs.
    in_closure: TaskScope<(), true>,
}

/// Applies a policy to a loop until it is dropped.
pub(crate) struct InForce {
    policies: Rc<CommandPolicies>,
    token: u64,
}

impl Drop for InForce {
    fn drop(&mut self) {
        self.policies.frames.close(self.token);
    }
}

/// Marks that a closure of a policy runs.
struct InClosure(Rc<CommandPolicies>, u64);

impl Drop for InClosure {
    fn drop(&mut self) {
        self.0.in_closure.close(self.1);
    }
}

impl CommandPolicies {
    /// Returns the policies of the program, and registers them as the guard of all commands.
    pub(crate) fn of(cx: &Cx) -> Rc<CommandPolicies> {
        let policies = cx.state::<CommandPolicies>();
        attach_command_guard(cx, Rc::new(Guard(policies.clone())));
        policies
    }

    /// Applies a policy to a loop.
    pub(crate) fn enter(self: &Rc<Self>, cx: &Cx, policy: CommandPolicy) -> InForce {
        let frame = Frame { policy: Rc::new(policy), outer: self.frames.current(cx), pushed: false };
        InForce { policies: self.clone(), token: self.frames.open(cx, Rc::new(frame)) }
    }

    /// Applies policies to work in a separate task, where they replace the policies around that task.
    pub(crate) fn carry(self: &Rc<Self>, cx: &Cx, policies: &[Rc<CommandPolicy>]) -> Option<InForce> {
        let mut outer = None;
        for policy in policies {
            outer = Some(Rc::new(Frame { policy: policy.clone(), outer, pushed: false }));
        }
        outer.map(|frame| InForce { policies: self.clone(), token: self.frames.open(cx, frame) })
    }

    /// Applies a policy until it is popped.
    pub(crate) fn push(&self, cx: &Cx, policy: CommandPolicy) {
        let frame = Frame { policy: Rc::new(policy), outer: self.frames.current(cx), pushed: true };
        self.frames.open(cx, Rc::new(frame));
    }

    /// Ends the policy that the running task pushed last; returns whether there was one.
    pub(crate) fn pop(&self, cx: &Cx) -> bool {
        let own = self.frames.own(cx).filter(|(_, frame)| frame.pushed);
        own.map(|(token, _)| self.frames.close(token)).is_some()
    }

    /// Returns whether a call of a loop's tool is a command.
    pub(crate) fn covers(&self, cx: &Cx, tool: &str) -> bool {
        self.chain(cx).iter().any(|policy| policy.covers(tool))
    }

    /// Returns the active policies, outermost first.
    pub(crate) fn chain(&self, cx: &Cx) -> Vec<Rc<CommandPolicy>> {
        let mut chain = Vec::new();
        let mut frame = self.frames.current(cx);
        while let Some(current) = frame {
            chain.push(current.policy.clone());
            frame = current.outer.clone();
        }
        chain.reverse();
        chain
    }

    async fn ask(self: &Rc<Self>, cx: &Cx, closure: &Value, context: &Json) -> Result<Json> {
        let _inside = InClosure(self.clone(), self.in_closure.open(cx, ()));
        Ok(to_json(&cx.call(closure, [from_json(context)]).await?))
    }

    /// Runs a command if the active policies permit it.
    pub(crate) async fn run(self: &Rc<Self>, cx: &Cx, request: Ref<Dict>, run: Runner<'_>) -> Result<Value> {
        let chain = self.chain(cx);
        let mut given = (*request).clone();
        let before = match to_json(&request.into()) {
            Json::Object(map) => map,
            _ => Map::new(),
        };
        let mut request = before.clone();
        let mut decisions = Vec::new();
        let mut verdict = Verdict::Run;
        // All policies must accept the final form of the command: when one rewrites it, the others decide again.
        let mut passed: Vec<Option<Map<String, Json>>> = vec![None; chain.len()];
        let mut rounds = 0;
        while let Some(at) = passed.iter().position(|form| form.as_ref() != Some(&request)) {
            if rounds == MOST_ROUNDS * chain.len() {
                let reason = "the command policies do not agree on one form of the command"; // prose-ok: diagnostic
                verdict = Verdict::blocked(reason);
                break;
            }
            rounds += 1;
            verdict = self.decide(cx, &chain[at], &mut request, &mut decisions).await?;
            if !matches!(verdict, Verdict::Run) {
                break;
            }
            passed[at] = Some(request.clone());
        }
        let context = json!({"request": request});
        let mut record = json!({"context": context, "decisions": decisions});
        let mut result = match verdict {
            Verdict::Run => {
                // Entries that the policies did not change retain their original values, because JSON has no durations.
                before
                    .keys()
                    .filter(|key| !request.contains_key(*key))
                    .for_each(|key| drop(given.remove(key)));
                for (key, value) in request.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
                    given.insert(key.as_str(), from_json(value));
                }
                to_json(&run(Ref::new(given)).await?)
            }
            Verdict::Not { status, reason } => return Ok(from_json(&not_run(status, &reason, record))),
        };
        for policy in chain.iter().rev().filter(|policy| !policy.post.is_nil()) {
            let mut told = context.clone();
            told["result"] = result.clone();
            let said = self.ask(cx, &policy.post, &told).await?;
            self.after(cx, &said, &mut result, &mut record)?;
        }
        if let Json::Object(result) = &mut result {
            result.insert("command_policy".to_owned(), record);
        }
        Ok(from_json(&result))
    }

    /// Applies the result of `post`.
    fn after(&self, cx: &Cx, said: &Json, result: &mut Json, record: &mut Json) -> Result<()> {
        let wrong = |what: &str| {
            thrown(format!(
                "command policy post-hook must return nil or a dict of annotations, result, feedback; got {what}" // prose-ok: diagnostic
            ))
        };
        let map = match said {
            Json::Null => return Ok(()),
            Json::Object(map) if said.as_object().is_some() => map,
            other => return Err(wrong(other.type_name())),
        };
        for (key, value) in map {
            match key.as_str() {
                "annotations" => record["annotation"] = value.clone(),
                "result" if value.is_object() => *result = value.clone(),
                "feedback" => {
                    let text = value.printed();
                    if let Some(running) = cx.state::<Sessions>().running(cx) {
                        running.session.queue("command_policy", &text);
                    }
                    record["feedback"] = text.into();
                }
                "result" => return Err(wrong(&format!("a result of type {}", value.type_name()))),
                other => return Err(wrong(&format!("a key '{other}'"))),
            }
        }
        Ok(())
    }

    /// Returns the verdict of one policy about a command; the policy may change the request.
    async fn decide(
        self: &Rc<Self>,
        cx: &Cx,
        policy: &Rc<CommandPolicy>,
        request: &mut Map<String, Json>,
        decisions: &mut Vec<Json>,
    ) -> Result<Verdict> {
        if policy.argv_first && !request.contains_key("mode") && request.contains_key("argv") {
            request.insert("mode".to_owned(), "argv".into());
        }
        let mut note = |step: &str, action: &str, reason: &str| {
            decisions.push(json!({"step": step, "action": action, "reason": reason}));
        };
        if self.in_closure.current(cx).is_some() {
            if policy.allow_recursive {
                return Ok(Verdict::Run);
            }
            let reason = "command policy closures cannot run commands (allow_recursive is false)"; // prose-ok: diagnostic
            note("recursion", "deny", reason);
            return Ok(Verdict::blocked(reason));
        }
        let mut asked = policy.pre.is_nil();
        // The forms that a human approved, for their risk and for `pre`.
        let (mut approved_risk, mut approved_pre) = (None, None);
        loop {
            let line = command_line(cx, request);
            let risk = line.scan(&policy.bounds(cx));
            if let Some(pattern) = &risk.denied_by {
                let reason = format!("command denied by policy pattern \"{pattern}\"");
                note("deny_patterns", "deny", &reason);
                return Ok(Verdict::Not { status: "blocked", reason });
            }
            if let Some(label) =
                risk.labels.iter().find(|label| policy.require_approval.iter().any(|l| l == *label))
            {
                let reason = format!("command requires approval for risk class {label}");
                if approved_risk.as_ref() != Some(&*request) {
                    let Some(form) = self.approved(cx, request, &reason).await? else {
                        note("risk", "require_approval", &reason);
                        return Ok(Verdict::Not { status: "blocked", reason });
                    };
                    note("risk", "approved", &reason);
                    let is_changed = form != *request;
                    approved_risk = Some(form.clone());
                    if is_changed {
                        *request = form;
                        continue;
                    }
                }
            }
            if asked {
                note("policy", "allow", "");
                return Ok(Verdict::Run);
            }
            asked = true;
            let context = json!({
                "request": request, "risk": {"risk_labels": risk.labels}, "policy": to_json(&policy.to_dict().into()),
            });
            let said = self.ask(cx, &policy.pre, &context).await?;
            match read_pre(&said)? {
                Pre::Allow => {}
                Pre::Stop(status, reason) => {
                    note("pre", status, &reason);
                    return Ok(Verdict::Not {
                        status: if status == "deny" { "blocked" } else { status },
                        reason,
                    });
                }
                Pre::Approve(_) if approved_pre.as_ref() == Some(&*request) => {}
                Pre::Approve(reason) => {
                    let Some(form) = self.approved(cx, request, &reason).await? else {
                        note("pre", "require_approval", &reason);
                        return Ok(Verdict::Not { status: "blocked", reason });
                    };
                    note("pre", "approved", &reason);
                    if form != *request {
                        // `pre` also decides about the form that the human edited.
                        asked = false;
                        *request = form.clone();
                    }
                    approved_pre = Some(form);
                }
                Pre::Rewrite(fields) => {
                    // A command line replaces arguments, and arguments replace a command line.
                    match (fields.contains_key("command"), fields.contains_key("argv")) {
                        (true, false) => {
                            request.shift_remove("argv");
                            request.insert("mode".to_owned(), "shell".into());
                        }
                        (false, true) => {
                            request.shift_remove("command");
                            request.insert("mode".to_owned(), "argv".into());
                        }
                        _ => {}
                    }
                    request.extend(fields);
                    note("pre", "rewrite", "");
                }
            }
        }
    }

    /// Asks the host whether a command may run. Returns the form that a human approved.
    async fn approved(
        &self,
        cx: &Cx,
        request: &Map<String, Json>,
        reason: &str,
    ) -> Result<Option<Map<String, Json>>> {
        let session = cx.state::<Sessions>().running(cx).map(|running| running.session.id.clone());
        let mut mutation = json!({"mutation_class": "ambient_side_effect", "mutation_scope": "process_exec"});
        crate::audit::complete(cx, &mut mutation, session.as_deref());
        let asked = from_json(&json!({
            "sessionId": session, "approvalRequest": {"reason": reason, "request": request},
            "toolCall": {"toolName": "process.exec", "rawInput": request},
            "mutation": mutation, "declaredPaths": [], "declaredPathEntries": [],
        }));
        let answer = match harn_stdlib::ask_host(cx, "session", "request_permission", &asked).await {
            None => {
                crate::hitl::permission(cx, reason.to_owned(), to_json(&asked)).await?.unwrap_or_default()
            }
            Some(Ok(answer)) => to_json(&answer),
            Some(Err(error)) if error.is_catchable() => Json::Null,
            Some(Err(error)) => return Err(error),
        };
        if !harn_agent::policy::is_granted(&answer) {
            return Ok(None);
        }
        Ok(Some(answer.get("args").and_then(Json::as_object).unwrap_or(request).clone()))
    }
}

/// The decision about a command.
enum Verdict {
    Run,
    Not { status: &'static str, reason: String },
}

impl Verdict {
    fn blocked(reason: &str) -> Verdict {
        Verdict::Not { status: "blocked", reason: reason.to_owned() }
    }
}

/// The result of `pre`.
enum Pre {
    Allow,
    Stop(&'static str, String),
    Approve(String),
    Rewrite(Map<String, Json>),
}

fn read_pre(said: &Json) -> Result<Pre> {
    let wrong = |what: &str| {
        thrown(format!("command policy pre-hook must return nil, 'allow', or a decision dict, got {what}"))
    };
    let map = match said {
        Json::Null => return Ok(Pre::Allow),
        Json::String(word) if word == "allow" => return Ok(Pre::Allow),
        Json::Object(map) if said.as_object().is_some() => map,
        other => return Err(wrong(other.type_name())),
    };
    let text = |value: &Json, default: &str| match value {
        Json::String(text) => text.clone(),
        _ => default.to_owned(),
    };
    let mut decision = Pre::Allow;
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null() && **value != Json::Bool(false)) {
        decision = match (key.as_str(), value) {
            ("deny", _) => return Ok(Pre::Stop("deny", text(value, "command denied by policy"))),
            ("require_approval", _) => Pre::Approve(text(value, "command requires approval")),
            ("rewrite", Json::Object(fields)) => Pre::Rewrite(fields.clone()),
            ("dry_run", _) => Pre::Stop("dry_run", "dry run: the command was not started".to_owned()), // prose-ok: diagnostic
            ("explain_only", _) => {
                Pre::Stop("explain_only", "explained only: the command was not started".to_owned()) // prose-ok: diagnostic
            }
            (key, _) => return Err(wrong(&format!("a dict with '{key}'"))),
        };
    }
    Ok(decision)
}

/// Returns the command in the form that scans use.
fn command_line(cx: &Cx, request: &Map<String, Json>) -> CommandLine {
    let here = cx.system().work_dir();
    let cwd = request.get("cwd").and_then(Json::as_str).map_or_else(|| here.clone(), |cwd| here.join(cwd));
    CommandLine { line: line_of(request), cwd }
}

/// Returns the command line of a request, or its arguments joined with spaces.
pub(crate) fn line_of(request: &Map<String, Json>) -> String {
    let shown = |value: &Json| value.printed();
    let line =
        ["command", "cmd", "script"].iter().find_map(|key| request.get(*key).filter(|v| v.is_string()));
    match (line, request.get("argv").or_else(|| request.get("args"))) {
        (Some(line), None) => shown(line),
        (None, Some(Json::Array(argv))) => argv.iter().map(shown).collect::<Vec<_>>().join(" "),
        (Some(line), Some(Json::Array(argv))) if request.get("mode").is_some_and(|mode| mode == "argv") => {
            let _ = line;
            argv.iter().map(shown).collect::<Vec<_>>().join(" ")
        }
        (Some(line), Some(Json::Array(argv))) => {
            std::iter::once(shown(line)).chain(argv.iter().map(shown)).collect::<Vec<_>>().join(" ")
        }
        (Some(line), Some(_)) => shown(line),
        (None, _) => String::new(),
    }
}

/// Returns the directories and patterns for a scan by a builtin: those in its context, or else the working directory.
pub(crate) fn bounds_of(cx: &Cx, context: &Json) -> Bounds {
    let here = cx.system().work_dir();
    let list = |key: &str| -> Vec<String> {
        let given = context.get(key).or_else(|| context.get("policy").and_then(|policy| policy.get(key)));
        let items = given.and_then(Json::as_array).into_iter().flatten();
        items.filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let mut roots: Vec<PathBuf> = list("workspace_roots").iter().map(|root| here.join(root)).collect();
    if roots.is_empty() {
        roots.push(here);
    }
    Bounds { roots, deny: list("deny_patterns") }
}

/// Scans the command of a context: `{request: {…}}`, or a request itself.
pub(crate) fn scan(cx: &Cx, context: &Json) -> Json {
    let none = Map::new();
    let request = context.get("request").unwrap_or(context).as_object().unwrap_or(&none);
    let line = command_line(cx, request);
    let risk = line.scan(&bounds_of(cx, context));
    let rationale = match risk.labels.is_empty() {
        true => "nothing risky was found".to_owned(), // prose-ok: diagnostic
        false => format!("found: {}", risk.labels.join(", ")),
    };
    json!({"risk_labels": risk.labels, "command": line.line, "denied_by": risk.denied_by, "rationale": rationale})
}

/// Returns the result of a command that is not run.
fn not_run(status: &str, reason: &str, record: Json) -> Json {
    json!({
        "status": status, "exit_code": -1, "exit_status": -1, "stdout": "", "stderr": reason, "combined": reason,
        "success": false, "timed_out": false, "error": "permission_denied", "reason": reason, "command_policy": record,
    })
}

/// The guard that is called by builtins which run programs.
struct Guard(Rc<CommandPolicies>);

impl CommandGuard for Guard {
    fn is_on(&self, cx: &Cx) -> bool {
        self.0.frames.current(cx).is_some()
    }

    fn run<'a>(&'a self, cx: &'a Cx, request: Ref<Dict>, run: Runner<'a>) -> Later<'a> {
        Box::pin(async move { self.0.run(cx, request, run).await })
    }
}
