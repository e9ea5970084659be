//! The graph of a workflow: nodes, edges and limits, as plain data.

use std::collections::{HashMap, HashSet};

use harn_llm::options::shape::Shape;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::ceiling::{check_approval, check_policy};
use crate::compaction::WRITERS;

/// The kinds of nodes.
pub const KINDS: [&str; 9] =
    ["stage", "verify", "condition", "fork", "join", "map", "reduce", "subagent", "escalation"];

/// Keys of a node whose values are dicts.
const DICTS: [&str; 13] = [
    "model_policy",
    "auto_compact",
    "context_policy",
    "retry_policy",
    "capability_policy",
    "approval_policy",
    "input_contract",
    "output_contract",
    "map_policy",
    "join_policy",
    "reduce_policy",
    "escalation_policy",
    "metadata",
];

/// Keys of a node whose values are strings.
const TEXTS: [&str; 5] = ["mode", "prompt", "system", "task_label", "done_sentinel"];

/// Settings of a graph that are defaults for the `model_policy` of its nodes.
const MODEL_DEFAULTS: [&str; 5] = ["provider", "model", "model_tier", "temperature", "max_tokens"];

/// The nodes of the shorthand.
const SHORT: [&str; 3] = ["act", "verify", "repair"];

/// The checks of the shorthand `verify` that may be written without a separate dict.
const CHECKS: [&str; 5] = ["assert_text", "command", "expect_status", "expect_text", "timeout"];

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the graph.
    pub id: String,
    /// Its normalized fields.
    pub fields: Map<String, Json>,
}

/// An edge from one node to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The node that ends.
    pub from: String,
    /// The node that follows.
    pub to: String,
    /// The outcome that takes this edge; `None` if it is taken when no other edge matches.
    pub branch: Option<String>,
    /// A label for display.
    pub label: Option<String>,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Its identity.
    pub id: String,
    /// The version, which each copy increments.
    pub version: i64,
    /// Its display name.
    pub name: String,
    /// The node that runs first.
    pub entry: String,
    /// The nodes, in declaration order.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The upper bound of the nodes' policies.
    pub capability_policy: Json,
    /// Which calls need human approval.
    pub approval_policy: Json,
    /// Metadata of the program.
    pub metadata: Json,
    /// The changes.
    pub audit_log: Vec<Json>,
}

static NULL: Json = Json::Null;

/// Fields of a node, with their types.
const SHAPES: &[(&str, Shape)] = &[
    ("retry_policy.verify", Shape::Bool),
    ("retry_policy.repair", Shape::Bool),
    ("input_contract.input_kinds", Shape::List(&Shape::Text)),
    ("output_contract.output_kinds", Shape::List(&Shape::Text)),
    ("auto_compact.compact_strategy", WRITERS),
    ("auto_compact.hard_limit_strategy", WRITERS),
    ("metadata.contains_text", Shape::Str),
    ("metadata.artifact_kind", Shape::Text),
];

impl Node {
    /// Reads a node and fills in defaults.
    ///
    /// # Errors
    /// A message that describes the problem.
    pub fn normalise(id: &str, input: &Json) -> Result<Node, String> {
        let wrong = |text: String| format!("node {id}: {text}");
        let Some(given) = input.as_object() else {
            return Err(wrong(format!("must be a dict, got {}", input.type_name())));
        };
        let mut fields: Map<String, Json> =
            given.iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect();
        for key in DICTS {
            if fields.get(key).is_some_and(|value| !value.is_object()) {
                return Err(wrong(format!("{key} must be a dict")));
            }
        }
        for key in TEXTS {
            if fields.get(key).is_some_and(|value| !value.is_string()) {
                return Err(wrong(format!("{key} must be a string")));
            }
        }
        fields.insert("id".to_owned(), id.into());
        let kind = match fields.get("kind") {
            None => "stage".to_owned(),
            Some(kind) => kind.as_str().unwrap_or_default().to_owned(),
        };
        if !KINDS.contains(&kind.as_str()) {
            let word = fields.get("kind").map(Json::printed).unwrap_or_default();
            return Err(wrong(format!("unknown kind '{word}'; there are {}", KINDS.join(", "))));
        }
        if let Some(mode) = fields.get("mode").and_then(Json::as_str)
            && !["llm", "agent"].contains(&mode)
        {
            return Err(wrong(format!("mode must be \"llm\" or \"agent\", got \"{mode}\"")));
        }
        check_policy(
            &wrong("capability_policy".to_owned()),
            fields.get("capability_policy").unwrap_or(&NULL),
        )?;
        check_approval(&wrong("approval_policy".to_owned()), fields.get("approval_policy").unwrap_or(&NULL))?;
        default(&mut fields, "join_policy", "strategy", "all".into());
        default(&mut fields, "reduce_policy", "strategy", "concat".into());
        default(&mut fields, "retry_policy", "max_attempts", 1.into());
        let wished = fields.get("map_policy").and_then(|policy| policy["output_kind"].as_str());
        let output = match kind.as_str() {
            "verify" => "verification_result",
            "reduce" => {
                fields.get("reduce_policy").and_then(|p| p["output_kind"].as_str()).unwrap_or("summary")
            }
            "map" => wished.unwrap_or("artifact"),
            "escalation" => "plan",
            _ => "artifact",
        };
        let kinds = json!([output]);
        default(&mut fields, "output_contract", "output_kinds", kinds);
        fields.insert("kind".to_owned(), kind.into());
        let node = Node { id: id.to_owned(), fields };
        node.check_numbers().map_err(wrong)?;
        node.check_parts().map_err(wrong)?;
        Ok(node)
    }

    /// Rejects invalid fields, and fields that nodes of this kind do not use.
    fn check_parts(&self) -> Result<(), String> {
        for (key, shape) in SHAPES {
            let value = key.split('.').fold(&Json::Object(self.fields.clone()), |at, key| &at[key]).clone();
            shape.check(key, &value).map_err(|error| error.to_string())?;
        }
        let is_tool = |tool: &Json| tool["name"].is_string() || tool["_type"] == "tool_registry";
        let fits = match self.get("tools") {
            Json::Null => true,
            Json::Array(list) => list.iter().all(is_tool),
            registry => registry["tools"].is_array(),
        };
        if !fits {
            return Err("tools must be a tool_registry or a list of tool definition dicts".to_owned());
        }
        if self.part("output_contract")["output_kinds"] == json!([]) {
            return Err("output_contract.output_kinds must not be empty".to_owned());
        }
        let context = self.get("context");
        if !context.is_null() && !context.is_string() && !context["sections"].is_array() {
            return Err("context must be text, or a context of std/context".to_owned());
        }
        let kind = self.kind();
        for (key, of) in [("map_policy", "map"), ("escalation_policy", "escalation")] {
            if kind != of && self.part(key).as_object().is_some_and(|map| !map.is_empty()) {
                return Err(format!("{key} is for nodes of kind {of}, and this is a {kind}"));
            }
        }
        let checks = !self.get("verify").is_null();
        if checks && kind != "verify" && self.part("retry_policy")["verify"] != true {
            return Err(format!(
                "verify is for nodes of kind verify; a {kind} is checked with retry_policy: {{verify: true}} besides" // prose-ok: diagnostic
            ));
        }
        let join = self.part("join_policy");
        if join["strategy"] == "quorum" && join["min_completed"].is_null() {
            return Err("join_policy.strategy quorum needs min_completed".to_owned());
        }
        let timeout = &self.get("verify")["timeout"];
        if !timeout.is_null() && timeout.as_u64().is_none() {
            return Err("verify.timeout must be a duration or milliseconds of at least 0".to_owned());
        }
        Ok(())
    }

    /// Rejects limits that are not numbers, because they would be ignored.
    fn check_numbers(&self) -> Result<(), String> {
        let counts = [
            ("retry_policy", "max_attempts"),
            ("retry_policy", "backoff_ms"),
            ("input_contract", "min_inputs"),
            ("input_contract", "max_inputs"),
            ("map_policy", "max_items"),
            ("map_policy", "max_concurrent"),
            ("join_policy", "min_completed"),
            ("context_policy", "max_artifacts"),
            ("context_policy", "max_tokens"),
            ("context_policy", "reserve_tokens"),
        ];
        for (part, key) in counts {
            let value = &self.part(part)[key];
            if !value.is_null() && value.as_u64().is_none() {
                return Err(format!("{part}.{key} must be an int of at least 0"));
            }
        }
        let least = [("retry_policy", "max_attempts"), ("map_policy", "max_concurrent")];
        if let Some((part, key)) = least.into_iter().find(|(part, key)| self.part(part)[key] == 0) {
            return Err(format!("{part}.{key} must be at least 1"));
        }
        let factor = &self.part("retry_policy")["backoff_multiplier"];
        if !factor.is_null() && !factor.as_f64().is_some_and(|n| n >= 1.0 && n.is_finite()) {
            return Err("retry_policy.backoff_multiplier must be a number of at least 1".to_owned());
        }
        let strategies = [
            ("join_policy", &["all", "require_all_inputs", "any", "first", "quorum"][..]),
            ("reduce_policy", &["concat"][..]),
        ];
        for (part, known) in strategies {
            let word = self.part(part)["strategy"].as_str().unwrap_or_default();
            if !known.contains(&word) {
                return Err(format!("{part}.strategy '{word}' is none of {}", known.join(", ")));
            }
        }
        let visibility = self.get("output_visibility");
        if !visibility.is_null() && !["public", "all"].iter().any(|word| visibility == word) {
            return Err("output_visibility must be \"public\" or \"all\"".to_owned());
        }
        Ok(())
    }

    /// Returns a field; null if missing.
    pub fn get(&self, key: &str) -> &Json {
        self.fields.get(key).unwrap_or(&NULL)
    }

    /// Returns a field whose value is a dict.
    pub fn part(&self, key: &str) -> &Json {
        self.get(key)
    }

    /// Returns the string value of a field.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).as_str()
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        self.text("kind").unwrap_or("stage")
    }

    /// Returns the names of its tools.
    pub fn tool_names(&self) -> Vec<String> {
        tool_names(self.get("tools"))
    }

    /// Returns whether a model must work on it.
    pub(crate) fn has_work(&self) -> bool {
        self.fields.contains_key("mode")
            || self.fields.contains_key("prompt")
            || !self.tool_names().is_empty()
    }

    /// Returns the kind of its output artifacts.
    pub fn output_kind(&self) -> &str {
        self.part("output_contract")["output_kinds"][0].as_str().unwrap_or("artifact")
    }

    /// Returns the kinds of artifacts that it accepts; empty for all.
    pub fn input_kinds(&self) -> Vec<&str> {
        list_of(&self.part("input_contract")["input_kinds"])
    }
}

/// Returns the names of the tools of a registry, or of a list of tools and registries.
pub fn tool_names(tools: &Json) -> Vec<String> {
    let list = if tools.is_array() { tools } else { &tools["tools"] };
    let mut out = Vec::new();
    for tool in list.as_array().into_iter().flatten() {
        if tool["_type"] == "tool_registry" {
            out.extend(tool_names(tool));
        } else if let Some(name) = tool["name"].as_str() {
            out.push(name.to_owned());
        }
    }
    out
}

/// Returns the strings of a list.
pub(crate) fn list_of(value: &Json) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

fn default(fields: &mut Map<String, Json>, part: &str, key: &str, value: Json) {
    let part = fields.entry(part).or_insert_with(|| json!({}));
    if part[key].is_null() {
        part[key] = value;
    }
}

impl Edge {
    fn read(at: usize, input: &Json) -> Result<Edge, String> {
        let text = |key: &str| input[key].as_str().map(str::to_owned);
        match (text("from"), text("to")) {
            (Some(from), Some(to)) => Ok(Edge { from, to, branch: text("branch"), label: text("label") }),
            _ => Err(format!("edges[{at}] must be a dict with `from` and `to`")),
        }
    }

    /// Reads a single edge.
    ///
    /// # Errors
    /// An end is missing.
    pub fn from_json(input: &Json) -> Result<Edge, String> {
        Edge::read(0, input).map_err(|_| "edge must be a dict with `from` and `to`".to_owned())
    }

    /// Returns the edge as a dict.
    pub fn to_json(&self) -> Json {
        let mut out = json!({"from": self.from, "to": self.to});
        for (key, value) in [("branch", &self.branch), ("label", &self.label)] {
            if let Some(value) = value {
                out[key] = value.as_str().into();
            }
        }
        out
    }
}

impl Graph {
    /// Creates a graph of one node, without limits.
    pub(super) fn of_node(node: Node) -> Graph {
        Graph {
            id: String::new(),
            version: 1,
            name: String::new(),
            entry: node.id.clone(),
            nodes: vec![node],
            edges: Vec::new(),
            capability_policy: Json::Null,
            approval_policy: Json::Null,
            metadata: Json::Null,
            audit_log: Vec::new(),
        }
    }

    /// Reads a graph, or the shorthand of `act`, `verify` and `repair`. `ids` generates an id if it is missing.
    ///
    /// # Errors
    /// The structure is invalid. Consistency is checked by [`validate`](super::validate()).
    pub fn normalise(input: &Json, ids: &dyn Fn() -> String) -> Result<Graph, String> {
        let Some(given) = input.as_object() else {
            return Err(format!("graph must be a dict, got {}", input.type_name()));
        };
        for key in ["capability_policy", "approval_policy", "metadata"] {
            if given.get(key).is_some_and(|value| !value.is_null() && !value.is_object()) {
                return Err(format!("{key} must be a dict"));
            }
        }
        check_policy("capability_policy", &input["capability_policy"])?;
        check_approval("approval_policy", &input["approval_policy"])?;
        let (raw, short) = match given.get("nodes") {
            Some(Json::Object(nodes)) => {
                let both = SHORT.into_iter().find(|key| given.get(*key).is_some_and(|node| !node.is_null()));
                if let Some(key) = both {
                    return Err(format!(
                        "`{key}` is a node of the short form; with `nodes` it belongs among them"
                    ));
                }
                (nodes.clone(), false)
            }
            None | Some(Json::Null) => (shorthand(given), true),
            Some(_) => return Err("nodes must be a dict".to_owned()),
        };
        let mut nodes = Vec::with_capacity(raw.len());
        for (id, node) in &raw {
            if id.trim().is_empty() {
                return Err("nodes: a node needs a name that is not empty".to_owned());
            }
            if let Some(own) = node["id"].as_str().filter(|own| own != id) {
                return Err(format!("node {id} has the id '{own}', not its name in `nodes`"));
            }
            let node = with_defaults(given, node);
            nodes.push(Node::normalise(id, &node)?);
        }
        let edges = match given.get("edges") {
            None | Some(Json::Null) if short => shorthand_edges(&raw),
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(edges)) => {
                edges.iter().enumerate().map(|(at, edge)| Edge::read(at, edge)).collect::<Result<_, _>>()?
            }
            Some(_) => return Err("edges must be a list".to_owned()),
        };
        let text = |key: &str| given.get(key).and_then(Json::as_str).map(str::to_owned);
        let id = text("id").unwrap_or_else(|| format!("workflow_{}", ids()));
        let first = if short && raw.contains_key("act") {
            Some("act")
        } else {
            raw.keys().next().map(String::as_str)
        };
        Ok(Graph {
            version: given.get("version").and_then(Json::as_i64).unwrap_or(1),
            name: text("name").unwrap_or_else(|| text("id").unwrap_or_else(|| "workflow".to_owned())),
            entry: text("entry").or_else(|| first.map(str::to_owned)).unwrap_or_default(),
            id,
            nodes,
            edges,
            capability_policy: input["capability_policy"].clone(),
            approval_policy: input["approval_policy"].clone(),
            metadata: given.get("metadata").filter(|m| m.is_object()).cloned().unwrap_or_else(|| json!({})),
            audit_log: given.get("audit_log").and_then(Json::as_array).cloned().unwrap_or_default(),
        })
    }

    /// Returns the graph as a dict.
    pub fn to_json(&self) -> Json {
        let nodes: Map<String, Json> =
            self.nodes.iter().map(|node| (node.id.clone(), Json::Object(node.fields.clone()))).collect();
        let edges: Vec<Json> = self.edges.iter().map(Edge::to_json).collect();
        json!({
            "_type": "workflow_graph", "id": self.id, "version": self.version, "name": self.name,
            "entry": self.entry, "nodes": nodes, "edges": edges, "capability_policy": self.capability_policy,
            "approval_policy": self.approval_policy, "metadata": self.metadata, "audit_log": self.audit_log,
        })
    }

    /// Returns the node with an id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the outgoing edges of a node.
    pub(crate) fn edges_from<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.from == id)
    }

    /// Returns the sorted ids of the nodes that are reachable from a node, including itself.
    pub fn reachable(&self, from: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut open = vec![from];
        // Each node is visited once; the edges are indexed in one pass.
        let mut left: HashSet<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let mut ways: HashMap<&str, Vec<&str>> = HashMap::new();
        for edge in &self.edges {
            ways.entry(&edge.from).or_default().push(&edge.to);
        }
        while let Some(id) = open.pop() {
            if left.remove(id) {
                found.push(id.to_owned());
                open.extend(ways.get(id).into_iter().flatten());
            }
        }
        found.sort_unstable();
        found
    }
}

/// Expands the shorthand `act`, `verify` and `repair` of a graph without `nodes`.
fn shorthand(given: &Map<String, Json>) -> Map<String, Json> {
    let mut out = Map::new();
    for id in SHORT {
        let Some(node) = given.get(id).filter(|node| !node.is_null()) else { continue };
        let mut node = node.clone();
        if id == "verify"
            && let Some(fields) = node.as_object_mut()
        {
            fields.entry("kind").or_insert_with(|| "verify".into());
            let mut checks = fields.get("verify").and_then(Json::as_object).cloned().unwrap_or_default();
            for key in CHECKS {
                if let Some(value) = fields.remove(key) {
                    checks.entry(key).or_insert(value);
                }
            }
            if !checks.is_empty() {
                fields.insert("verify".to_owned(), Json::Object(checks));
            }
        }
        out.insert(id.to_owned(), node);
    }
    out
}

/// Connects the nodes of the shorthand; a repair is followed by another verification.
fn shorthand_edges(nodes: &Map<String, Json>) -> Vec<Edge> {
    let edge = |from: &str, to: &str, branch: Option<&str>| Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        branch: branch.map(str::to_owned),
        label: None,
    };
    let ways = [
        edge("act", "verify", None),
        edge("verify", "repair", Some("failed")),
        edge("repair", "verify", Some("success")),
    ];
    ways.into_iter().filter(|way| nodes.contains_key(&way.from) && nodes.contains_key(&way.to)).collect()
}

/// Applies the default settings of the graph to a node.
fn with_defaults(graph: &Map<String, Json>, node: &Json) -> Json {
    let mut node = node.clone();
    let Some(fields) = node.as_object_mut() else { return node };
    let set = |value: Option<&Json>| value.filter(|value| !value.is_null()).cloned();
    for key in MODEL_DEFAULTS {
        let value =
            set(graph.get(key)).or_else(|| if key == "model_tier" { set(graph.get("tier")) } else { None });
        let Some(value) = value else { continue };
        let policy = fields.entry("model_policy").or_insert_with(|| json!({}));
        // Values that are not dicts are reported when the node is read.
        if policy.is_null() {
            *policy = json!({});
        }
        if policy.is_object() && policy[key].is_null() {
            policy[key] = value;
        }
    }
    let works = matches!(fields.get("kind").and_then(Json::as_str), None | Some("stage" | "subagent"));
    for key in ["mode", "done_sentinel"] {
        if let Some(value) = set(graph.get(key))
            && fields.get(key).is_none_or(Json::is_null)
            && (works || key != "mode")
        {
            fields.insert(key.to_owned(), value);
        }
    }
    node
}
