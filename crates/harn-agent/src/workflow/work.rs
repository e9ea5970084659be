//! The request of a stage to a model: its prompt, and the options of the loop or call.

use harn_prompt::Prose;
use harn_prompt::untrusted::quote_element;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::graph::{Graph, Node, list_of};
use super::options::{LIMIT_KEYS, RunOptions};
use super::routes::Routes;
use crate::artifact;
use crate::ceiling::intersect;

/// The elements of the prompt of a stage. The last two are parts of the task.
const ELEMENTS: [&str; 7] = [
    "workflow_task",
    "workflow_verification",
    "workflow_repair",
    "workflow_context",
    "workflow_response_contract",
    "label",
    "instructions",
];

/// A piece of work for the driver of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The node.
    pub node_id: String,
    /// The stage of the record.
    pub stage_id: String,
    /// The run.
    pub run_id: String,
    /// Whether it is a loop; otherwise it is a single call.
    pub is_loop: bool,
    /// The prompt.
    pub prompt: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The options of the loop or call.
    pub options: Json,
    /// The policy of the work; null means no additional limit.
    pub policy: Json,
    /// A session that must already exist.
    pub needs_session: Option<String>,
    /// The request to a separate worker, if one executes the work.
    pub delegate: Option<Json>,
}

/// A command that verifies a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The node.
    pub node_id: String,
    /// A shell command line.
    pub line: String,
    /// The timeout in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The policy of the command; null means no additional limit.
    pub policy: Json,
}

/// The inputs of a node.
pub(super) struct Inputs<'a> {
    pub(super) routes: &'a Routes,
    pub(super) node: &'a Node,
    pub(super) options: &'a RunOptions,
    pub(super) task: &'a str,
    pub(super) stage_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) selected: &'a [Json],
    /// Why the last attempt was not accepted.
    pub(super) repair: Option<&'a str>,
}

impl Inputs<'_> {
    /// Builds the work of a node that a model executes.
    ///
    /// # Errors
    /// The prompt does not render, or the node requests more than the graph permits.
    pub(super) fn work(&self, prose: &dyn Prose) -> Result<Work, String> {
        let node = self.node;
        let is_loop = runs_loop(node);
        let policy = self.policy()?;
        let mut options = Map::new();
        if is_loop {
            options.insert("persistent".to_owned(), true.into());
            options.insert("max_iterations".to_owned(), 16.into());
            options.insert("max_nudges".to_owned(), 3.into());
        }
        let given = node.part("model_policy").as_object().cloned().unwrap_or_default();
        let over = self.options.model.iter().filter(|(key, _)| !LIMIT_KEYS.contains(&key.as_str()));
        for (key, value) in given.into_iter().chain(over.map(|(key, value)| (key.clone(), value.clone()))) {
            let of_loop = super::options::LOOP_KEYS.contains(&key.as_str());
            if !value.is_null() && (is_loop || !of_loop) {
                options.insert(key, value);
            }
        }
        if is_loop {
            self.loop_options(&mut options, &policy);
        }
        let schema = &node.part("output_contract")["schema"];
        if !schema.is_null() {
            options.insert("output_schema".to_owned(), schema.clone());
            options.insert("output_validation".to_owned(), "error".into());
        }
        if !options.contains_key("session_id") && !self.options.transcript.is_null() {
            options.insert("transcript".to_owned(), self.options.transcript.clone());
        }
        let session = options.get("session_id").and_then(Json::as_str).map(str::to_owned);
        Ok(Work {
            needs_session: session.filter(|_| node.part("input_contract")["require_transcript"] == true),
            node_id: node.id.clone(),
            stage_id: self.stage_id.to_owned(),
            run_id: self.run_id.to_owned(),
            is_loop,
            prompt: self.prompt(prose)?,
            system: node.text("system").map(str::to_owned),
            options: Json::Object(options),
            policy,
            delegate: (node.kind() == "subagent").then(|| self.request()),
        })
    }

    fn loop_options(&self, options: &mut Map<String, Json>, policy: &Json) {
        let node = self.node;
        for key in ["tools", "done_sentinel", "exit_when_verified"] {
            let value = node.get(key);
            if !value.is_null() {
                options.insert(key.to_owned(), value.clone());
            }
        }
        if !policy.is_null() {
            options.insert("policy".to_owned(), policy.clone());
        }
        // The driver applies the approval policies of run and graph to all work.
        let approvals = node.part("approval_policy");
        if !approvals.is_null() {
            options.insert("approval_policy".to_owned(), approvals.clone());
        }
        let compact = node.part("auto_compact");
        let names = [
            ("enabled", "auto_compact"),
            ("token_threshold", "compact_threshold"),
            ("tool_output_max_chars", "tool_output_max_chars"),
            ("compact_strategy", "compact_strategy"),
            ("hard_limit_tokens", "hard_limit_tokens"),
            ("hard_limit_strategy", "hard_limit_strategy"),
            ("keep_last", "compact_keep_last"),
            ("summarize_prompt", "summarize_prompt"),
            ("compact_callback", "compact_callback"),
            ("mask_callback", "mask_callback"),
            ("compress_callback", "compress_callback"),
        ];
        for (key, option) in names {
            if !compact[key].is_null() {
                options.insert(option.to_owned(), compact[key].clone());
            }
        }
    }

    /// Returns the policy of the stage: the node's request, restricted by the graph's policy. The limits of the caller
    /// that runs the workflow apply in addition, wherever it runs.
    ///
    /// # Errors
    /// The node requests more than the graph permits.
    pub(super) fn policy(&self) -> Result<Json, String> {
        let (mut own, graph) =
            (self.node.part("capability_policy").clone(), &self.routes.graph.capability_policy);
        if own.is_null() && graph.is_null() {
            return Ok(Json::Null);
        }
        if own.is_null() {
            own = json!({});
        }
        intersect(&own, graph).map_err(|problems| format!("node {}: {}", self.node.id, problems.join("; ")))
    }

    fn prompt(&self, prose: &dyn Prose) -> Result<String, String> {
        let node = self.node;
        let instructions = match node.text("prompt") {
            Some(prompt) if self.task.is_empty() => prompt.to_owned(),
            Some(prompt) => format!("{prompt}\n\n{}", self.task),
            None => self.task.to_owned(),
        };
        let mut context = vec![section_texts(node.get("context"))];
        context.push(artifact::context(self.selected, &render_only(node.part("context_policy"))));
        context.retain(|part| !part.is_empty());
        let quoted_in = |text: &str, names: &[&str]| Json::from(quote_element(text, names).into_owned());
        let quoted = |text: &str| quoted_in(text, &ELEMENTS[..5]);
        let checks = self.checks();
        let mut bindings = Map::new();
        bindings.insert("label".to_owned(), quoted_in(node.text("task_label").unwrap_or("Task"), &ELEMENTS));
        bindings.insert("instructions".to_owned(), quoted_in(&instructions, &ELEMENTS));
        bindings.insert("verification".to_owned(), checks.iter().map(|check| quoted(check)).collect());
        bindings.insert("repair".to_owned(), self.repair.map(quoted).unwrap_or_default());
        bindings.insert("context".to_owned(), quoted(&context.join("\n\n")));
        let text = prose.render("std/workflow/stage_prompt.harn.prompt", &bindings);
        Ok(text.map_err(|error| error.to_string())?.trim_end().to_owned())
    }

    /// Describes the checks of later verifications that this stage must pass.
    fn checks(&self) -> Vec<String> {
        if self.node.kind() == "verify" {
            return Vec::new();
        }
        let mut out = Vec::new();
        let own = (self.node.part("retry_policy")["verify"] == true).then_some(self.node);
        let later = self.routes.verifications_behind(&self.node.id);
        for node in own.into_iter().chain(later) {
            let checks = node.get("verify");
            if let Some(command) = checks["command"].as_str() {
                out.push(format!("command: {command}"));
            }
            if let Some(status) = checks["expect_status"].as_i64() {
                out.push(format!("exit status: {status}"));
            }
            for text in ["assert_text", "expect_text"].iter().filter_map(|key| checks[*key].as_str()) {
                out.push(format!("text: {text}"));
            }
        }
        out
    }

    /// Returns the request to a worker: its name and task, and the metadata of the node.
    fn request(&self) -> Json {
        let metadata = self.node.part("metadata");
        json!({
            "name": metadata["worker_name"].as_str().unwrap_or(&self.node.id), "task": self.task,
            "metadata": metadata,
        })
    }
}

/// Returns the work of a stage that runs outside of a workflow, and its input artifacts.
///
/// # Errors
/// The contract rejects the artifacts, or a prompt does not render.
pub fn of_single_stage(
    node: Node,
    task: &str,
    artifacts: &[Json],
    prose: &dyn Prose,
) -> Result<(Work, Vec<Json>), String> {
    let selected = inputs_of(&node, artifacts)?;
    let routes = Routes::new(Graph::of_node(node));
    let inputs = Inputs {
        node: &routes.graph.nodes[0],
        routes: &routes,
        options: &RunOptions::default(),
        task,
        stage_id: "",
        run_id: "",
        selected: &selected,
        repair: None,
    };
    let work = inputs.work(prose)?;
    Ok((work, selected))
}

/// Returns whether a node's work is a loop.
pub(super) fn runs_loop(node: &Node) -> bool {
    node.text("mode") == Some("agent") || !node.tool_names().is_empty()
}

/// Returns the input artifacts of a node: those of the kinds in its contract, selected by its policy.
///
/// # Errors
/// There are fewer or more than the contract allows, or the policy is malformed.
pub(super) fn inputs_of(node: &Node, artifacts: &[Json]) -> Result<Vec<Json>, String> {
    let kinds: Vec<&str> = node.input_kinds().into_iter().map(artifact::kind_named).collect();
    let fits =
        |one: &&Json| kinds.is_empty() || one["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
    let allowed: Vec<&Json> = artifacts.iter().filter(fits).collect();
    let policy = node.part("context_policy");
    artifact::check_policy(policy).map_err(|error| format!("node {}: context_{error}", node.id))?;
    let selected = artifact::select_of(allowed, policy);
    let contract = node.part("input_contract");
    let (id, count) = (&node.id, selected.len() as u64);
    if let Some(least) = contract["min_inputs"].as_u64().filter(|least| count < *least) {
        return Err(format!("workflow stage {id} requires at least {least} input artifacts"));
    }
    if let Some(most) = contract["max_inputs"].as_u64().filter(|most| count > *most) {
        return Err(format!("workflow stage {id} accepts at most {most} input artifacts"));
    }
    Ok(selected)
}

/// The artifacts are already selected; returns a policy that only renders them.
fn render_only(policy: &Json) -> Json {
    json!({
        "render": policy["render"], "prioritize_kinds": policy["prioritize_kinds"],
        "pinned_ids": policy["pinned_ids"], "prefer_recent": policy["prefer_recent"],
        "prefer_fresh": policy["prefer_fresh"],
    })
}

/// Returns the text of the sections of a `std/context` value, or of a plain string.
fn section_texts(context: &Json) -> String {
    if let Some(text) = context.as_str() {
        return text.to_owned();
    }
    let headers = context["include_headers"] != false;
    let clip = |text: &str, most: Option<u64>| match most.and_then(|n| usize::try_from(n).ok()) {
        Some(most) if most > 0 && text.chars().count() > most => {
            let kept = if most <= 16 { most } else { most - 15 };
            let mark = if most <= 16 { "" } else { "\n...[truncated]" };
            format!("{}{mark}", text.chars().take(kept).collect::<String>())
        }
        _ => text.to_owned(),
    };
    let sections = context["sections"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = sections
        .iter()
        .filter(|section| section["enabled"] != false)
        .filter_map(|section| {
            let content = match &section["content"] {
                Json::Null => return None,
                content => content.printed(),
            };
            if content.trim().is_empty() {
                return None;
            }
            let most = section["max_chars"].as_u64().or_else(|| context["section_max_chars"].as_u64());
            let content = clip(&content, most);
            let name = section["name"].printed();
            Some(if headers { format!("[{name}]\n{content}") } else { content })
        })
        .collect();
    let separator = context["separator"].as_str().unwrap_or("\n\n");
    clip(&texts.join(separator), context["max_chars"].as_u64())
}

/// Returns the items that a map processes.
pub(super) fn map_items(node: &Node, selected: &[Json]) -> Vec<Json> {
    let policy = node.part("map_policy");
    let most = policy["max_items"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let items = policy["items"].as_array().cloned().filter(|items| !items.is_empty());
    let items = items.unwrap_or_else(|| {
        let wanted = policy["item_artifact_kind"].as_str().map(artifact::kind_named);
        let kinds: Vec<&str> =
            wanted.map_or_else(|| list_of(&node.part("input_contract")["input_kinds"]), |kind| vec![kind]);
        let fits = |one: &&Json| {
            one["kind"].as_str().is_some_and(|kind| kinds.iter().any(|k| artifact::kind_named(k) == kind))
        };
        selected.iter().filter(fits).cloned().collect()
    });
    items.into_iter().take(most).collect()
}
