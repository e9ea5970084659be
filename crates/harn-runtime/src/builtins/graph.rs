//! Workflow graphs: reading, validating and changing them.

use harn_agent::workflow::{Graph, Moment, validate};
use harn_stdlib::timestamp_now;
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{OrThrow, entry, from_json, text, thrown, to_json};
use crate::kept::Kept;
use crate::llm_embedder::new_id;
use crate::option_check::refuse_inside;
use crate::worker::stage;

builtins! {
    /// Workflows as data.
    pub(crate) static GRAPHS: "workflows";

    /// Parses a workflow graph and fills in defaults.
    ///
    /// Without `nodes`, the keys `act`, `verify` and `repair` become nodes: the work, a check, and the repair after a
    /// failed check.
    ///
    /// ```harn
    /// let g = workflow_graph({name: "demo", act: {mode: "llm"}, verify: {command: "true"}})
    /// println([g.entry, g.nodes.verify.kind, g.edges.count()]) // -> [act, verify, 1]
    /// ```
    Random fn workflow_graph(cx, input: Value as "workflow_input") -> "dict" {
        edited(cx, "workflow_graph", &input, |graph, _, _| Ok(graph))?
    }

    /// The same as `workflow_graph`; `workflow.signal(…)` and similar operations are functions with this name.
    ///
    /// ```harn
    /// println(workflow({act: {mode: "llm"}}).entry) // -> act
    /// ```
    Random fn workflow(cx, config: Value as "workflow_input") -> "dict" {
        edited(cx, "workflow", &config, |graph, _, _| Ok(graph))?
    }

    /// Validates a graph against an upper bound of its policy: `{valid, errors, warnings, reachable_nodes}`.
    ///
    /// ```harn
    /// println(workflow_validate(workflow_graph({entry: "a", nodes: {}})).errors) // -> [entry node does not exist: a]
    /// ```
    Pure fn workflow_validate(cx, graph: Value as "workflow_input?", ceiling: Value as "!capability_policy?") -> "dict" {
        let graph = read(cx, "workflow_validate", &graph)?;
        from_json(&validate(&graph, &limits("workflow_validate", &ceiling)?).to_json())
    }

    /// Returns `{graph, validation, node_count, edge_count}`.
    ///
    /// ```harn
    /// println(workflow_inspect(workflow_graph({act: {}})).node_count) // -> 1
    /// ```
    Random fn workflow_inspect(cx, graph: Value as "workflow_input?", ceiling: Value as "!capability_policy?") -> "dict" {
        let (ceiling, mut kept) = (limits("workflow_inspect", &ceiling)?, Kept::default());
        let graph = read_keeping(cx, "workflow_inspect", &graph, &mut kept, &|| new_id(cx.vm()))?;
        kept.give(&graph.inspect(&ceiling))
    }

    /// Reports the permissions of each node under an upper bound.
    ///
    /// ```harn
    /// let g = workflow_graph({act: {capability_policy: {tools: ["run"]}}})
    /// println(workflow_policy_report(g, {tools: ["read"]}).validation.errors) // -> [node act: requested tools exceed host ceiling: run]
    /// ```
    Pure fn workflow_policy_report(cx, graph: Value as "workflow_input?", ceiling: Value as "!capability_policy?") -> "dict" {
        let graph = read(cx, "workflow_policy_report", &graph)?;
        from_json(&graph.policy_report(&limits("workflow_policy_report", &ceiling)?))
    }

    /// Copies a graph: appends `_clone` to its id and increments its version.
    ///
    /// ```harn
    /// println(workflow_clone(workflow_graph({id: "w", act: {}})).id) // -> w_clone
    /// ```
    Random fn workflow_clone(cx, graph: Value as "workflow_input?") -> "dict" {
        edited(cx, "workflow_clone", &graph, |graph, _, moment| Ok(graph.clone_as_new(moment)))?
    }

    /// Adds a node and an edge to it.
    ///
    /// ```harn
    /// let g = workflow_insert_node(workflow_graph({act: {}}), {id: "check", kind: "verify"}, {from: "act", to: "check"})
    /// println([g.nodes.keys().count(), g.edges.count(), g.audit_log[0].op]) // -> [2, 1, insert_node]
    /// ```
    Random fn workflow_insert_node(cx, graph: Value as "!workflow_input", node: Value as "!workflow_node", edge: Value as "!workflow_edge?") -> "dict" {
        given("workflow_insert_node", "workflow", &graph)?;
        given("workflow_insert_node", "node", &node)?;
        refuse_inside(cx, "workflow_insert_node", "workflow_node", &node)?;
        edited(cx, "workflow_insert_node", &graph, |graph, kept, moment| {
            graph.insert(&kept.take(&node), &to_json(&edge), moment)
        })?
    }

    /// Replaces a node.
    ///
    /// ```harn
    /// println(workflow_replace_node(workflow_graph({act: {}}), "act", {kind: "verify"}).nodes.act.kind) // -> verify
    /// ```
    Random fn workflow_replace_node(cx, graph: Value as "!workflow_input", id: Value as "!string", node: Value as "!workflow_node") -> "dict" {
        let id = node_id("workflow_replace_node", &graph, &id)?;
        given("workflow_replace_node", "node", &node)?;
        refuse_inside(cx, "workflow_replace_node", "workflow_node", &node)?;
        edited(cx, "workflow_replace_node", &graph, |graph, kept, moment| {
            graph.replace(&id, &kept.take(&node), moment)
        })?
    }

    /// Redirects the outgoing edges of a node to another node; `branch` restricts it to the edges
    /// of one branch.
    ///
    /// ```harn
    /// let g = workflow_graph({nodes: {a: {}, b: {}, c: {}}, edges: [{from: "a", to: "b"}]})
    /// println(workflow_rewire(g, "a", "c").edges) // -> [{from: a, to: c}]
    /// ```
    Random fn workflow_rewire(cx, graph: Value as "!workflow_input", from: Value as "!string", to: Value as "!string", branch: Value as "!string?") -> "dict" {
        given("workflow_rewire", "workflow", &graph)?;
        given("workflow_rewire", "from node", &from)?;
        given("workflow_rewire", "to node", &to)?;
        let branch = text(&branch);
        edited(cx, "workflow_rewire", &graph, |graph, _, moment| {
            graph.rewire(&from.to_string(), &to.to_string(), branch.as_deref(), moment)
        })?
    }

    /// Sets the `model_policy` of a node.
    ///
    /// ```harn
    /// println(workflow_set_model_policy(workflow_graph({act: {}}), "act", {provider: "mock"}).nodes.act.model_policy) // -> {provider: mock}
    /// ```
    Random fn workflow_set_model_policy(cx, graph: Value as "!workflow_input", id: Value as "!string", value: Value as "!stage_options?") -> "dict" {
        refuse_inside(cx, "workflow_set_model_policy", "stage_options", &value)?;
        set(cx, "workflow_set_model_policy", "model_policy", &graph, &id, &value)?
    }

    /// Sets the `context_policy` of a node.
    ///
    /// ```harn
    /// println(workflow_set_context_policy(workflow_graph({act: {}}), "act", {max_tokens: 9}).nodes.act.context_policy) // -> {max_tokens: 9}
    /// ```
    Random fn workflow_set_context_policy(cx, graph: Value as "!workflow_input", id: Value as "!string", value: Value as "any?") -> "dict" {
        set(cx, "workflow_set_context_policy", "context_policy", &graph, &id, &value)?
    }

    /// Sets `auto_compact` of a node.
    ///
    /// ```harn
    /// println(workflow_set_auto_compact(workflow_graph({act: {}}), "act", {enabled: false}).nodes.act.auto_compact) // -> {enabled: false}
    /// ```
    Random fn workflow_set_auto_compact(cx, graph: Value as "!workflow_input", id: Value as "!string", value: Value as "any?") -> "dict" {
        set(cx, "workflow_set_auto_compact", "auto_compact", &graph, &id, &value)?
    }

    /// Sets `output_visibility` of a node: `"public"` hides tool results and everything that is not for users.
    ///
    /// ```harn
    /// println(workflow_set_output_visibility(workflow_graph({act: {}}), "act", "public").nodes.act.output_visibility) // -> public
    /// ```
    Random fn workflow_set_output_visibility(cx, graph: Value as "!workflow_input", id: Value as "!string", value: Value as "any?") -> "dict" {
        set(cx, "workflow_set_output_visibility", "output_visibility", &graph, &id, &value)?
    }

    /// Compares two graphs.
    ///
    /// ```harn
    /// let d = workflow_diff(workflow_graph({act: {}}), workflow_graph({act: {}, verify: {command: "true"}}))
    /// println([d.identical, d.added_nodes]) // -> [false, [verify]]
    /// ```
    Pure fn workflow_diff(cx, left: Value as "workflow_input?", right: Value as "workflow_input?") -> "dict" {
        let (left, right) = (read(cx, "workflow_diff", &left)?, read(cx, "workflow_diff", &right)?);
        from_json(&left.diff(&right))
    }

    /// Commits a graph: records the reason in its audit log, and throws when the graph cannot run.
    ///
    /// ```harn
    /// println(workflow_commit(workflow_graph({act: {}}), "first").audit_log[0].reason) // -> first
    /// println(try { workflow_commit({entry: "x", nodes: {}}) }) // -> Result.Err(workflow_commit: invalid workflow: entry node does not exist: x)
    /// ```
    Random fn workflow_commit(cx, graph: Value as "!workflow_input", reason: Value as "string?") -> "dict" {
        let reason = text(&reason);
        edited(cx, "workflow_commit", &graph, |graph, _, moment| graph.commit(reason.as_deref(), moment))?
    }
}

fn given(function: &str, what: &str, value: &Value) -> Result<()> {
    if value.is_nil() { Err(thrown(format!("{function}: missing {what}"))) } else { Ok(()) }
}

fn node_id(function: &str, graph: &Value, id: &Value) -> Result<String> {
    given(function, "workflow", graph)?;
    given(function, "node id", id)?;
    let id = id.as_str().map(ToString::to_string);
    id.ok_or_else(|| thrown(format!("{function}: node id must be a string")))
}

/// Reads the policy that a graph is checked against; null for the default.
fn limits(function: &str, ceiling: &Value) -> Result<Json> {
    let ceiling = to_json(ceiling);
    harn_agent::ceiling::check_policy("ceiling", &ceiling).map_err(|e| thrown(format!("{function}: {e}")))?;
    Ok(ceiling)
}

/// Reads a graph and drops its closures.
fn read(cx: &Cx, function: &str, graph: &Value) -> Result<Graph> {
    read_keeping(cx, function, graph, &mut Kept::default(), &String::new)
}

/// Reads a graph and stores values that JSON cannot represent in `kept`.
pub(crate) fn read_keeping(
    cx: &Cx,
    function: &str,
    graph: &Value,
    kept: &mut Kept,
    ids: &dyn Fn() -> String,
) -> Result<Graph> {
    given(function, "workflow", graph)?;
    let told = |error: String| thrown(format!("{function}: {error}"));
    stage::check_data("metadata", graph).map_err(told)?;
    if let Some(nodes) = entry(graph, "nodes").to_dict() {
        for (id, node) in nodes.iter() {
            stage::check_data(&format!("nodes.{id}.metadata"), node).map_err(told)?;
        }
    }
    let read =
        Graph::normalise(&kept.take(graph), ids).map_err(|error| thrown(format!("{function}: {error}")))?;
    refuse_inside(cx, function, "workflow_input", graph)?;
    Ok(read)
}

fn edited(
    cx: &Cx,
    function: &str,
    graph: &Value,
    edit: impl FnOnce(Graph, &mut Kept, &Moment<'_>) -> std::result::Result<Graph, String>,
) -> Result<Value> {
    let ids = || new_id(cx.vm());
    let mut kept = Kept::default();
    let graph = read_keeping(cx, function, graph, &mut kept, &ids)?;
    let moment = Moment { now: timestamp_now(cx), ids: &ids };
    let graph = edit(graph, &mut kept, &moment).map_err(|error| format!("{function}: {error}")).or_throw()?;
    Ok(kept.give(&graph.to_json()))
}

fn set(cx: &Cx, function: &str, field: &str, graph: &Value, id: &Value, value: &Value) -> Result<Value> {
    let id = node_id(function, graph, id)?;
    if value.is_nil() {
        return Err(Error::thrown(format!("{function}: missing value")));
    }
    edited(cx, function, graph, |graph, kept, moment| graph.set(&id, field, &kept.take(value), moment))
}
