//! A turn with memory: reads the agent's history before the turn and stores the new messages after it.

use std::rc::Rc;

use harn_agent::harness::{ChatProgram, chat_program, parse_conversation};
use harn_agent::roles::event::Usage;
use harn_value::{Data as Json, json};
use harn_vm::Result;

use crate::convert::{OrThrow, thrown};
use crate::roles::closures::At;
use crate::roles::interpret::interpret;
use crate::roles::run::Turn;
use crate::roles::runtime::RoleRuntime;
use crate::roles::shelf::key;
use crate::task_facts;

/// Returns the key of an agent's history in a thread.
fn memory_key(runtime: &RoleRuntime, thread: &str, agent: &str) -> String {
    key(&["memory", runtime.tenant(), thread, agent])
}

/// Returns the program of an agent for a prompt.
///
/// # Errors
/// The agent is stateful but has no thread; the store fails.
pub(crate) async fn program(
    at: &At,
    runtime: &RoleRuntime,
    agent: usize,
    prompt: &str,
    thread: Option<&str>,
) -> Result<ChatProgram> {
    let spec = &runtime.agents[agent].spec;
    let mut messages = vec![json!({"role": "system", "content": spec.system_prompt})];
    if spec.stateful {
        let Some(thread) = thread else {
            let name = &spec.name;
            return Err(thrown(format!("agent '{name}' is stateful but the request has no thread id"))); // prose-ok: contract text
        };
        let turns = runtime.memory.list(at, &memory_key(runtime, thread, &spec.name)).await?;
        let kept = turns.into_iter().flat_map(|turn| match turn {
            Json::Array(messages) => messages,
            other => vec![other],
        });
        // A changed prompt takes effect immediately, because the prompt in the spec is the only system message.
        messages.extend(kept.filter(|message| message["role"] != "system"));
    }
    messages.push(json!({"role": "user", "content": prompt}));
    let conversation = parse_conversation(&messages).or_throw()?;
    Ok(chat_program(conversation, spec.model.id.clone(), runtime.spec.tenant.clone()))
}

/// Lets the agent of a turn answer a prompt.
///
/// # Errors
/// The error of the turn, in which case nothing is stored.
pub(crate) async fn invoke(at: &At, turn: &Rc<Turn>, prompt: &str) -> Result<()> {
    let runtime = &turn.run.runtime;
    let began = at.cx.vm().system().monotonic();
    let program = program(at, runtime, turn.agent, prompt, Some(&turn.thread)).await?;
    let spec = &turn.bound().spec;
    turn.run.trace.add_program(json!({
        "stage": "program", "agent": spec.name, "thread_id": turn.thread, "model": program.model,
        "system_prompt": program.system_prompt, "prompt": program.conversation.prompt,
        "history": program.conversation.history.len(),
    }));
    let facts =
        [("agent_name", &*spec.name), ("tenant_id", runtime.tenant()), ("run_id", &*turn.run.trace.id)];
    let said = task_facts::say(&at.cx, facts);
    let answered = interpret(at, turn, program).await;
    drop(said);
    answered?;
    at.cx.check()?;
    if at.cx.task().is_cancelled() {
        return Err(thrown("cancelled"));
    }
    if spec.stateful {
        let mut answer = json!({"role": "assistant", "content": turn.response()});
        if !turn.interactions.borrow().is_empty() {
            answer["tool_interactions"] = turn.interactions.borrow().clone().into();
        }
        let messages = json!([{"role": "user", "content": prompt}, answer]);
        runtime.memory.append(at, &memory_key(runtime, &turn.thread, &spec.name), messages).await?;
    }
    let took = at.cx.vm().system().monotonic().saturating_sub(began);
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    turn.run.took.borrow_mut().push((spec.name.clone(), took));
    turn.run.used.borrow_mut().push((spec.name.clone(), spec.model.id.clone(), turn.usage.get()));
    Ok(())
}

/// Returns the usage of all agents of a run.
pub(crate) fn total(turn: &Turn) -> Usage {
    let mut total = Usage::default();
    turn.run.used.borrow().iter().for_each(|(_, _, usage)| total.add(*usage));
    total
}
