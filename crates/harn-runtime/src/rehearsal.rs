//! Runs without models: mocks answer every call, and the caller receives the prompts.

use std::path::Path;
use std::rc::Rc;

use harn_llm::Prepared;
use harn_prompt::{Assembly, Bucket, Provenance, Reason};
use harn_value::Data as Json;
use harn_vm::Vm;

use crate::llm_embedder::llm_runtime_at;

/// A model call as it would be sent.
#[derive(Clone, Debug)]
pub struct SentCall {
    /// The provider that the call is meant for.
    pub provider: String,
    /// The model that the call is meant for.
    pub model: String,
    /// The turn of the agent loop that makes the call, from 0; `None` outside of loops.
    pub iteration: Option<u64>,
    /// The system prompt and its fragments. The assembled prompt is exactly the one that would be sent.
    pub assembly: Assembly,
    /// The messages after the system prompt.
    pub messages: Vec<Json>,
    /// Names of the tools whose schemas are sent with the call; tools in text format are part of the prompt.
    pub tools: Vec<String>,
    /// How the schema of the answer is sent to the model: `format`, `tool` or `prompt`; `None` without a schema.
    pub answer: Option<&'static str>,
}

/// Turns the next run of a program into a rehearsal: model calls need no key and no network, and receive scripted
/// replies or the mock's default reply. `watcher` receives every call. `dir` is the program's directory, from which its
/// project is located.
pub fn rehearse_calls(vm: &Rc<Vm>, dir: &Path, mut watcher: impl FnMut(SentCall) + 'static) {
    let runtime = llm_runtime_at(vm, dir);
    runtime.rehearse();
    runtime.watch_calls(move |prepared| watcher(sent(prepared)));
}

fn sent(prepared: &Prepared) -> SentCall {
    let request = &prepared.request;
    let tool_name = |tool: &Json| {
        let name = tool.get("name").or_else(|| tool.get("function")?.get("name"));
        name.and_then(Json::as_str).map(str::to_owned)
    };
    SentCall {
        provider: request.route.provider.clone(),
        model: request.route.model.clone(),
        iteration: prepared.options.raw.get("_iteration").and_then(Json::as_u64),
        assembly: assembly(prepared),
        messages: request.messages.to_json(),
        tools: request.tools.iter().filter_map(tool_name).collect(),
        answer: prepared.answer,
    }
}

/// Returns the fragments of the system prompt if it was not changed after assembly: an experiment may have replaced it.
fn assembly(prepared: &Prepared) -> Assembly {
    let sent = &prepared.request.system;
    let known = prepared.provenance.as_ref().and_then(|p| p.downcast_ref::<Assembly>());
    match known {
        Some(assembly) if assembly.text == *sent => assembly.clone(),
        _ => sent.as_deref().map(replaced).unwrap_or_default(),
    }
}

/// Returns an assembly for a prompt of which only the last author is known.
fn replaced(text: &str) -> Assembly {
    let whole = Provenance {
        id: "call:structural_experiment".to_owned(),
        source: "call".to_owned(),
        bucket: Bucket::Before,
        reason: Reason::Present { tools: Vec::new(), caps: Vec::new() },
        range: Some(0..text.len()),
    };
    Assembly { text: Some(text.to_owned()), provenance: vec![whole] }
}
