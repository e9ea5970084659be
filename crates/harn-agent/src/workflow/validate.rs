//! Validates the consistency of a graph, and its policies against an effective policy.

use std::collections::HashSet;

use harn_value::{Data as Json, json};

use super::graph::{Graph, Node};
use crate::ceiling::{default_ceiling, intersect};
use crate::surface::{self, Finding, Severity};

/// The result of validating a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// Problems that prevent it from running.
    pub errors: Vec<String>,
    /// Probable mistakes.
    pub warnings: Vec<String>,
    /// The nodes that are reachable from the entry, sorted.
    pub reachable: Vec<String>,
}

impl Validation {
    /// Returns the dict for results.
    pub fn to_json(&self) -> Json {
        json!({
            "valid": self.errors.is_empty(), "errors": self.errors, "warnings": self.warnings,
            "reachable_nodes": self.reachable,
        })
    }
}

/// Validates a graph against an effective policy; null means the default one.
pub fn validate(graph: &Graph, ceiling: &Json) -> Validation {
    let mut out = Validation { reachable: graph.reachable(&graph.entry), ..Validation::default() };
    let known: HashSet<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    if !known.contains(graph.entry.as_str()) {
        out.errors.push(format!("entry node does not exist: {}", graph.entry));
    }
    for edge in &graph.edges {
        for (end, id) in [("from", &edge.from), ("to", &edge.to)] {
            if !known.contains(id.as_str()) {
                out.errors.push(format!("edge.{end} references unknown node: {id}"));
            }
        }
    }
    for node in &graph.nodes {
        shape(graph, node, &mut out);
    }
    let default = default_ceiling();
    let ceiling = if ceiling.is_null() { &default } else { ceiling };
    if let Err(problems) = intersect(&graph.capability_policy, ceiling) {
        out.errors.extend(problems);
    }
    for node in &graph.nodes {
        if let Err(problems) = intersect(&request(node), ceiling) {
            out.errors.extend(problems.into_iter().map(|text| format!("node {}: {text}", node.id)));
        }
    }
    for node in &graph.nodes {
        surface(graph, node, &mut out);
    }
    for edge in &graph.edges {
        let Some(branch) = &edge.branch else { continue };
        let Some(node) = graph.node(&edge.from) else { continue };
        if !branches(node.kind()).contains(&branch.as_str()) {
            out.warnings.push(format!(
                "edge {} -> {}: a {} takes no branch '{branch}'; there are {}",
                edge.from,
                edge.to,
                node.kind(),
                branches(node.kind()).join(", ")
            ));
        }
    }
    for node in &graph.nodes {
        if out.reachable.binary_search(&node.id).is_err() {
            out.warnings.push(format!("node is unreachable: {}", node.id));
        }
    }
    out
}

/// Checks the tools of a node in the same way as the loop of its stage before its first call.
fn surface(graph: &Graph, node: &Node, out: &mut Validation) {
    if node.tool_names().is_empty() {
        return;
    }
    let request = request(node);
    // Contradictions between the two are already reported.
    let policy = intersect(&request, &graph.capability_policy).unwrap_or(request);
    let approval = node.part("approval_policy");
    let approval = if approval.is_null() { &graph.approval_policy } else { approval };
    let parts = [
        ("tools", node.part("tools")),
        ("policy", &policy),
        ("approval_policy", approval),
        ("prompt", node.part("prompt")),
        ("system", node.part("system")),
    ];
    let parts = parts.into_iter().map(|(key, part)| (key.to_owned(), part.clone())).collect();
    for Finding { code, severity, message, .. } in surface::validate(&parts) {
        let list = match severity {
            Severity::Error => &mut out.errors,
            Severity::Warning => &mut out.warnings,
        };
        let text = format!("{code}: {message}");
        // Several nodes may share their tools.
        if !list.contains(&text) {
            list.push(text);
        }
    }
}

/// Returns the requested policy of a node; its tools default to those that the node defines.
pub fn request(node: &Node) -> Json {
    let mut request = node.part("capability_policy").clone();
    let names = node.tool_names();
    if !names.is_empty() && request["tools"].is_null() {
        if request.is_null() {
            request = json!({});
        }
        request["tools"] = json!(names);
    }
    request
}

/// Returns the branches of nodes of a kind.
fn branches(kind: &str) -> &'static [&'static str] {
    match kind {
        "verify" => &["passed", "failed"],
        "condition" => &["true", "false"],
        "fork" => &["fork"],
        "join" => &["join"],
        "map" => &["mapped", "failed"],
        "reduce" => &["reduced"],
        "escalation" => &["escalated"],
        _ => &["success", "failed"],
    }
}

fn shape(graph: &Graph, node: &Node, out: &mut Validation) {
    let id = &node.id;
    let contract = node.part("input_contract");
    if let (Some(least), Some(most)) = (contract["min_inputs"].as_u64(), contract["max_inputs"].as_u64())
        && least > most
    {
        out.errors.push(format!("node {id}: input contract min_inputs exceeds max_inputs"));
    }
    match node.kind() {
        "condition" => {
            let has = |branch: &str| graph.edges_from(id).any(|edge| edge.branch.as_deref() == Some(branch));
            if !has("true") || !has("false") {
                out.errors
                    .push(format!("node {id}: condition nodes require both 'true' and 'false' branch edges"));
            }
        }
        "fork" if graph.edges_from(id).count() < 2 => {
            out.errors.push(format!("node {id}: fork nodes require at least two outgoing edges"));
        }
        "join" if graph.edges.iter().filter(|edge| edge.to == *id).count() < 2 => {
            out.warnings.push(format!("node {id}: join node has fewer than two incoming edges"));
        }
        "map" => {
            let policy = node.part("map_policy");
            let items = policy["items"].as_array().is_some_and(|items| !items.is_empty());
            if !items && policy["item_artifact_kind"].is_null() && node.input_kinds().is_empty() {
                out.errors.push(format!(
                    "node {id}: map nodes require items, item_artifact_kind, or input_contract.input_kinds"
                ));
            }
        }
        "reduce" if node.input_kinds().is_empty() => out.warnings.push(format!(
            "node {id}: reduce node has no input_contract.input_kinds; it will consume all available artifacts"
        )),
        _ => {}
    }
}
