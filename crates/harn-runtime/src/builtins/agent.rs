//! Agent loops.

use harn_agent::lifecycle::{Envelope, Execution};
use harn_syntax::signature::LOOP_OPTIONS;
use harn_value::{Data as Json, Dict, Value, json};
use harn_vm::builtin::Text;
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, builtins};

use crate::agents::{is_agent, name_of, options_of};
use crate::convert::{entry, from_json, thrown, to_json};
use crate::driver;
use crate::session::Sessions;
use crate::worker::sub_agent::SubAgent;

builtins! {
    /// Agents.
    pub(crate) static AGENTS: "agents";

    /// Sends a task to a model, runs the tools that the model calls, and repeats until the task is
    /// finished.
    ///
    /// Returns `{status, data, final_text, visible_text, iterations, tools, llm, transcript, ...}`. Without
    /// `persistent: true` the first reply without tool calls ends the loop; with it, the loop ends when the
    /// model writes `##DONE##`. With `schema`, the last reply must match the schema, and `data` is the
    /// parsed value.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "add", "Add", {
    ///   parameters: {a: "int", b: "int"}, handler: { args -> args.a + args.b },
    /// })
    /// llm_mock({tool_calls: [{name: "add", arguments: {a: 2, b: 3}}]})
    /// llm_mock({text: "It is 5."})
    /// let r = agent_loop("2 + 3?", nil, {provider: "mock", tools: tools})
    /// println("${r.status}: ${r.visible_text} ${r.tools_used}") // -> done: It is 5. [add]
    /// ```
    Loop async fn agent_loop(cx, prompt: Value as "any", system: Value as "!text?", options: Value as "loop_options?") -> "dict" {
        if !super::llm::is_text(&prompt) {
            return Err(thrown(format!("agent_loop: prompt must be a string, got {}", prompt.type_name())));
        }
        super::llm::check_system("agent_loop", &system)?;
        super::llm::check_system("agent_loop", &entry(&options, "system"))?;
        driver::run(&cx, &prompt, &system, &options).await?
    }

    /// Calls a closure with every live event of a session's loops.
    ///
    /// ```harn
    /// var seen = []
    /// agent_subscribe("s", { e -> seen = seen + [e.type] })
    /// agent_loop("Hi", nil, {provider: "mock", session_id: "s"})
    /// println(seen) // -> [turn_start, agent_message_chunk]
    /// ```
    State fn agent_subscribe(cx, session_id: Value as "!string", callback: Value as "!closure") -> "nil" {
        let Some(session) = session_id.as_str() else {
            return Err(thrown("agent_subscribe(session_id, callback): session_id must be a string"));
        };
        if !is_callable(&callback) {
            return Err(thrown("agent_subscribe(session_id, callback): callback must be a closure"));
        }
        cx.state::<Sessions>().named(session).subscribe(callback);
    }

    /// Queues a runtime message for the next turn of a session's loop.
    ///
    /// The kind `prefill_assistant` is not a message: the reply of the next turn must continue from its content. Only
    /// some models support this.
    ///
    /// ```harn
    /// agent_inject_feedback("s", "note", "Be quick.")
    /// agent_loop("Hi", nil, {provider: "mock", session_id: "s"})
    /// println(llm_mock_calls()[0].messages[1].content.contains("Be quick.")) // -> true
    /// ```
    State fn agent_inject_feedback(cx, session_id: Value as "!string", kind: Value as "!string", content: Value as "!string") -> "nil" {
        let (Some(session), Some(kind)) = (session_id.as_str(), kind.as_str()) else {
            return Err(thrown("agent_inject_feedback(session_id, kind, content): session_id and kind must be strings"));
        };
        let is_blank = |text: &str| text.trim().is_empty();
        if is_blank(session.as_str()) || is_blank(kind.as_str()) {
            return Err(thrown("agent_inject_feedback(session_id, kind, content): session_id and kind must not be empty"));
        }
        let Some(content) = content.as_str() else {
            return Err(thrown("agent_inject_feedback(session_id, kind, content): content must be a string"));
        };
        cx.state::<Sessions>().named(session).queue(kind, content);
    }

    /// Returns the id of the running loop's session, or nil outside of a loop.
    ///
    /// ```harn
    /// println(agent_session_current_id()) // -> nil
    /// ```
    State fn agent_session_current_id(cx) -> "string | nil" {
        cx.state::<Sessions>().running(cx).map(|running| running.session.id.clone())
    }

    /// Creates an agent: a name and the configuration of its loops.
    ///
    /// ```harn
    /// println(agent("scout", {provider: "mock"})) // -> {_type: agent, name: scout, provider: mock}
    /// ```
    Pure fn agent(cx, name: Text, config: Value as "loop_options?") -> "dict" {
        crate::option_check::refuse_unknown(cx, "agent", &config)?;
        crate::option_check::refuse_wrong(cx, "agent", LOOP_OPTIONS, &config)?;
        let mut dict = config.to_dict().map(|d| (*d).clone()).unwrap_or_default();
        dict.insert("_type", "agent");
        dict.insert("name", &*name);
        dict
    }

    /// Returns the name of an agent.
    ///
    /// ```harn
    /// println(agent_name(agent("scout", {}))) // -> scout
    /// ```
    Pure fn agent_name(cx, agent: Value as "!dict") -> "string" {
        checked("agent_name", &agent)?;
        entry(&agent, "name")
    }

    /// Returns `{prompt, system, options}` for a task of an agent, ready for `agent_loop`.
    ///
    /// ```harn
    /// let c = agent_config(agent("scout", {system: "Look.", provider: "mock"}), "Find it.")
    /// println(agent_loop(c.prompt, c.system, c.options).status) // -> done
    /// ```
    Pure fn agent_config(cx, agent: Value as "!dict", prompt: Value as "any?") -> "dict" {
        checked("agent_config", &agent)?;
        let mut out = Dict::new();
        out.insert("prompt", prompt);
        out.insert("system", entry(&agent, "system"));
        out.insert("options", options_of(&agent));
        out
    }

    /// Runs an agent that is used as a tool.
    Loop async fn agent_tool = "__agent_tool"(cx, agent: Value, arguments: Value) -> "any" {
        let task = entry(&arguments, "task");
        let Some(task) = task.as_str().filter(|task| !task.trim().is_empty()) else {
            return Err(thrown("task is required"));
        };
        let ended = run(&cx, &agent, &task.to_string(), options_of(&agent)).await?;
        match ended.failure() {
            Some(message) => return Err(thrown(message)),
            None => from_json(&ended.answer()),
        }
    }

    /// Runs an agent that is used as a guardrail; returns nil, or the reason why it stops the loop.
    Loop async fn agent_guard = "__agent_guard"(cx, agent: Value, value: Value) -> "any" {
        let mut options = options_of(&agent);
        let forms = ["schema", "output_schema", "json_schema", "output_format", "response_format"];
        if forms.iter().all(|key| options.get_str(key).is_none()) {
            options.insert("schema", from_json(&verdict()));
        }
        let input = value.as_str().map_or_else(|| to_json(&value).to_string(), |text| text.to_string());
        let name = name_of(&agent);
        let ended = run(&cx, &agent, &input, options).await?;
        if let Some(message) = ended.failure() {
            return Err(thrown(format!("agent_loop: the guardrail '{name}' failed: {message}")));
        }
        let said = ended.answer();
        let Some(blocked) = said["blocked"].as_bool() else {
            return Err(thrown(format!("agent_loop: the guardrail '{name}' must answer with {{blocked, reason}}"))); // prose-ok: diagnostic
        };
        let reason = said["reason"].as_str().filter(|reason| !reason.trim().is_empty());
        if blocked { Value::from(reason.unwrap_or("blocked")) } else { Value::NIL }
    }
}

/// Returns the output schema of an agent that is used as a guardrail.
fn verdict() -> Json {
    json!({
        "type": "object", "additionalProperties": false, "required": ["blocked", "reason"],
        "properties": {"blocked": {"type": "boolean"}, "reason": {"type": "string"}},
    })
}

/// Runs an agent as a sub-agent of the running loop. An agent without its own tools runs without tools.
async fn run(cx: &Cx, agent: &Value, task: &str, mut options: Dict) -> Result<Envelope, Error> {
    options.insert("name", name_of(agent));
    options.insert("system", entry(agent, "system"));
    if options.get_str("tools").is_none() {
        options.insert("tools", Value::list(Vec::new()));
    }
    let parent = cx.state::<Sessions>().running(cx).map(|running| running.session.clone());
    let sub = SubAgent::new(cx, &options.into(), parent)?;
    sub.run(cx, task, &Execution::default()).await
}

fn checked(function: &str, agent: &Value) -> Result<(), Error> {
    if is_agent(agent) {
        return Ok(());
    }
    Err(thrown(format!("{function}: first argument must be an agent (created with agent())")))
}
