//! A loop in a separate session, whose result is returned in an envelope.

use std::rc::Rc;

use harn_agent::lifecycle::{Envelope, Execution, Failure};
use harn_agent::policy::Policy;
use harn_agent::registry::is_registry;
use harn_llm::Conversation;
use harn_syntax::signature::LOOP_OPTIONS;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Result};

use crate::agents::only;
use crate::audit;
use crate::builtins::check_system;
use crate::convert::{OrThrow, entry, from_json, text, thrown, to_json, told, with_functions};
use crate::driver::run_loop;
use crate::llm_embedder::{new_id, notice_keys, runtime};
use crate::option_check::{own, refuse_unknown, refuse_wrong};
use crate::policy::over;
use crate::reminders::Reminders;
use crate::session::{Session, Sessions};
use crate::task_facts;
use crate::worker::terms::{Limits, Terms};

/// A sub-agent that is ready to start.
pub(crate) struct SubAgent {
    /// Its name.
    pub(crate) name: String,
    /// Its session.
    pub(crate) session: Rc<Session>,
    /// The session of the loop that starts it.
    parent: Option<Rc<Session>>,
    system: Value,
    options: Dict,
    /// Whether the loop must return data.
    wants_data: bool,
    /// The policy from `allowed_tools`.
    allowed: Option<Policy>,
    /// Audit data for approvals of its changes.
    audit: Json,
}

impl SubAgent {
    /// Reads the options of `sub_agent_run`; `parent` is the session of the loop that starts it.
    ///
    /// # Errors
    /// Describes an invalid option.
    pub(crate) fn new(cx: &Cx, given: &Value, parent: Option<Rc<Session>>) -> Result<SubAgent> {
        refuse_unknown(cx, "sub_agent_run", given)?;
        let sessions = cx.state::<Sessions>();
        let mut options = match given.to_dict() {
            Some(dict) => (*dict).clone(),
            None if given.is_nil() => Dict::new(),
            None => return Err(thrown("sub_agent_run: options must be a dict")),
        };
        let own = own("sub_agent_run");
        notice_keys(cx, given, &own);
        let tools = match options.remove("tools").filter(|tools| !tools.is_nil()) {
            Some(tools) if is_registry(&tools) || tools.as_list().is_some() => with_functions(&tools),
            Some(_) => return Err(thrown("sub_agent_run: tools must be a tool registry")),
            None => sessions.tools(cx).unwrap_or_default(),
        };
        let (tools, allowed) = match entry(given, "allowed_tools") {
            nil if nil.is_nil() => (tools, None),
            list => {
                let wrong = || thrown("sub_agent_run.allowed_tools: expected a list of strings");
                let list = list.as_list().ok_or_else(wrong)?;
                let names = list.iter().map(|name| name.as_str().map(|name| name.to_string()));
                let names: Vec<String> = names.collect::<Option<_>>().ok_or_else(wrong)?;
                if names.iter().any(|name| name.trim().is_empty()) {
                    return Err(wrong());
                }
                for text in
                    harn_agent::surface::misses("sub_agent_run: allowed_tools", &names, &to_json(&tools))
                {
                    cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
                }
                let policy = json!({"policy": {"tools": names}});
                let policy = Policy::from_options(policy.as_object().unwrap_or(&Map::new())).or_throw()?;
                if let Some(ceiling) = over(cx) {
                    policy.fits_under(&ceiling).map_err(|why| thrown(format!("sub_agent_run: {why}")))?;
                }
                (only(&tools, &names), Some(policy))
            }
        };
        if !tools.is_nil() {
            options.insert("tools", tools);
        }
        let audit = audit::read("sub_agent_run", given)?;
        match entry(given, "returns") {
            nil if nil.is_nil() => {}
            returns => match (returns.to_dict(), entry(&returns, "schema")) {
                (Some(dict), given) if dict.len() == 1 && !given.is_nil() => {
                    let schema = harn_schema::as_json_schema(&to_json(&given));
                    let wrong = match schema.is_object() {
                        true => harn_schema::compile_error(&schema),
                        false => Some(format!("expected a JSON Schema object, got {}", schema.type_name())),
                    };
                    if let Some(wrong) = wrong {
                        return Err(thrown(format!("sub_agent_run.returns.schema: {wrong}")));
                    }
                    for key in ["json_schema", "output_format", "response_format", "schema"] {
                        options.remove(key);
                    }
                    options.insert("output_schema", given);
                }
                _ => return Err(thrown("sub_agent_run.returns: expected {schema}")),
            },
        }
        let json_format =
            entry(given, "response_format").as_str().is_some_and(|word| word.as_str() == "json");
        let wants_schema = ["output_schema", "returns", "schema", "json_schema"]
            .iter()
            .any(|key| !entry(given, key).is_nil());
        let id = match entry(given, "session_id") {
            nil if nil.is_nil() => format!("agent_session_{}", new_id(cx.vm())),
            id => match id.as_str().map(|id| id.to_string()).filter(|id| !id.is_empty()) {
                Some(id) => id,
                None => return Err(thrown("sub_agent_run: session_id must be a string that is not empty")),
            },
        };
        let mut of_loop = options.clone();
        // Already converted to `allowed`; a loop has no such option.
        of_loop.remove("allowed_tools");
        refuse_wrong(cx, "sub_agent_run", LOOP_OPTIONS, &of_loop.into())?;
        if parent.as_ref().is_some_and(|parent| parent.id == id) {
            return Err(thrown(format!("sub_agent_run: '{id}' is the session of the loop that starts it")));
        }
        if sessions.runs_around(cx, &id) {
            return Err(thrown(format!("sub_agent_run: '{id}' is the session of a loop around it")));
        }
        let session = sessions.named(&id);
        if let Some(parent) = &parent {
            parent.adopt(&session);
            cx.state::<Reminders>().hand_down(cx.vm(), &parent.id, &id);
        }
        let system = entry(given, "system");
        check_system("sub_agent_run", &system)?;
        // The options of the loop, including the name, were checked above.
        let given_name = text(&entry(given, "name"));
        for key in own {
            options.remove(key);
        }
        let given = to_json(&options.clone().into());
        runtime(cx).notice_slips(&given, crate::option_sets::loop_options(), true);
        options.insert("session_id", id.as_str());
        if let Some(name) = &given_name {
            options.insert("name", name.as_str());
        }
        Ok(SubAgent {
            name: given_name.unwrap_or_else(|| "sub-agent".to_owned()),
            session,
            parent,
            system,
            options,
            wants_data: json_format || wants_schema,
            allowed,
            audit,
        })
    }

    /// Sets the initial conversation of the session.
    pub(crate) fn begin_with(&self, transcript: &Json) -> Result<()> {
        let mut history = self.session.history.borrow_mut();
        let messages = transcript["messages"].as_array();
        history.messages =
            Conversation::from_json(messages.into_iter().flatten()).map_err(|e| thrown(e.0))?;
        history.summary = transcript["summary"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Runs the loop. Its failures are reported in the envelope.
    ///
    /// # Errors
    /// Only errors that end the program or the running task.
    pub(crate) async fn run(&self, cx: &Cx, task: &str, execution: &Execution) -> Result<Envelope> {
        if let Some(parent) = &self.parent {
            let metadata = json!({"name": self.name, "child_session_id": self.session.id, "task": task});
            parent.note("sub_agent_start", &self.name, metadata);
        }
        let mut limits = Limits::inherited(cx);
        limits.own = self.allowed.clone().into_iter().map(|policy| (policy, Value::NIL)).collect();
        let terms = Terms::open(cx, &limits, execution, None, &[]);
        let audited = audit::audited(cx, &self.audit, None);
        let options = Value::from(self.options.clone());
        let reporting = self.parent.as_ref().map(|parent| self.session.report_to(parent));
        let deadlines = cx.task().deadline_count();
        let said = task_facts::say(cx, [("agent_name", &*self.name)]);
        let ended = run_loop(cx, &task.into(), &self.system, &options).await;
        drop((said, reporting, audited, terms));
        if ended.is_err() && cx.task().interrupted_since(deadlines) {
            // The caller was interrupted.
            ended?;
            return Err(thrown("sub_agent_run: interrupted"));
        }
        let envelope = match ended {
            Ok(ended) => {
                let id = &self.session.id;
                Envelope::of(&ended.result, &ended.last_visible, ended.out_of_turns, id, self.wants_data)
            }
            Err(error) if error.is_catchable() => {
                let caught = to_json(&error.caught());
                let failure = match caught["category"].as_str() {
                    Some(category) => Failure::new(category, caught["message"].as_str().unwrap_or_default()),
                    None => {
                        // Also print a warning, in case the program ignores the envelope.
                        let text = format!("warning: sub-agent {}: {}", self.name, error.uncaught_text());
                        cx.system().write_err(&harn_syntax::notice(&text));
                        Failure::new("runtime", told(&error))
                    }
                };
                let transcript = self.session.snapshot(&|| new_id(cx.vm()));
                Envelope::failed(failure, &self.session.id, transcript)
            }
            Err(error) => return Err(error),
        };
        if let Some(parent) = &self.parent {
            parent.note("sub_agent_result", &self.name, envelope.event(&self.name));
        }
        Ok(envelope)
    }
}

/// Converts the envelope to a script value.
pub(crate) fn value(envelope: &Envelope) -> Value {
    from_json(&envelope.to_json())
}
