//! Changes to a graph. Each one returns a new graph and adds an entry to its audit log.

use harn_value::{Data as Json, data::Map, json};

use super::graph::{Edge, Graph, Node};
use super::validate::{request, validate};
use crate::ceiling::default_ceiling;

/// The time of a change, and an id generator.
pub struct Moment<'a> {
    /// RFC 3339.
    pub now: String,
    /// Generates identifiers.
    pub ids: &'a dyn Fn() -> String,
}

impl Graph {
    fn audit(
        &mut self,
        moment: &Moment<'_>,
        op: &str,
        node: Option<&str>,
        reason: Option<&str>,
        metadata: Json,
    ) {
        self.audit_log.push(json!({
            "id": format!("audit_{}", (moment.ids)()), "op": op, "node_id": node, "timestamp": moment.now,
            "reason": reason, "metadata": metadata,
        }));
    }

    /// Returns a copy with a new id.
    #[must_use]
    pub fn clone_as_new(mut self, moment: &Moment<'_>) -> Graph {
        let metadata = json!({"source_id": self.id, "source_version": self.version});
        self.id.push_str("_clone");
        self.version += 1;
        self.audit(moment, "clone", None, None, metadata);
        self
    }

    /// Adds a node and an edge.
    ///
    /// # Errors
    /// The node has no id, the id already exists, or the edge has no ends.
    pub fn insert(mut self, node: &Json, edge: &Json, moment: &Moment<'_>) -> Result<Graph, String> {
        let id = node["id"].as_str().filter(|id| !id.is_empty()).ok_or("node needs an `id`")?;
        if self.node(id).is_some() {
            return Err(format!("node already exists: {id}"));
        }
        self.nodes.push(Node::normalise(id, node)?);
        if self.nodes.len() == 1 && self.entry.is_empty() {
            id.clone_into(&mut self.entry);
        }
        if !edge.is_null() {
            self.edges.push(Edge::from_json(edge)?);
        }
        self.audit(moment, "insert_node", Some(id), None, json!({"edge": edge}));
        Ok(self)
    }

    /// Replaces a node.
    ///
    /// # Errors
    /// The node does not exist.
    pub fn replace(mut self, id: &str, node: &Json, moment: &Moment<'_>) -> Result<Graph, String> {
        let new = Node::normalise(id, node)?;
        *self.existing(id)? = new;
        self.audit(moment, "replace_node", Some(id), None, json!({}));
        Ok(self)
    }

    /// Redirects the edges of a branch of a node to another node. Without a branch, redirects the edges without one.
    ///
    /// # Errors
    /// One of the nodes does not exist.
    pub fn rewire(
        mut self,
        from: &str,
        to: &str,
        branch: Option<&str>,
        moment: &Moment<'_>,
    ) -> Result<Graph, String> {
        self.existing(from)?;
        self.existing(to)?;
        let replaced: Vec<Json> = self
            .edges
            .iter()
            .filter(|edge| edge.from == from && edge.branch.as_deref() == branch)
            .map(|edge| edge.to.as_str().into())
            .collect();
        self.edges.retain(|edge| edge.from != from || edge.branch.as_deref() != branch);
        let branch = branch.map(str::to_owned);
        let metadata = json!({"to": to, "branch": branch, "replaced": replaced});
        self.edges.push(Edge { from: from.to_owned(), to: to.to_owned(), branch, label: None });
        self.audit(moment, "rewire", Some(from), None, metadata);
        Ok(self)
    }

    /// Sets a field of a node.
    ///
    /// # Errors
    /// The node does not exist, or the value is invalid.
    pub fn set(mut self, id: &str, field: &str, value: &Json, moment: &Moment<'_>) -> Result<Graph, String> {
        let node = self.existing(id)?;
        let mut fields = node.fields.clone();
        fields.insert(field.to_owned(), value.clone());
        *node = Node::normalise(id, &Json::Object(fields))?;
        self.audit(moment, &format!("set_{field}"), Some(id), None, json!({}));
        Ok(self)
    }

    /// Commits the graph in its current form.
    ///
    /// # Errors
    /// The validation errors.
    pub fn commit(mut self, reason: Option<&str>, moment: &Moment<'_>) -> Result<Graph, String> {
        let found = validate(&self, &Json::Null);
        if !found.errors.is_empty() {
            return Err(format!("invalid workflow: {}", found.errors.join("; ")));
        }
        self.audit(moment, "commit", None, reason, json!({"warnings": found.warnings}));
        Ok(self)
    }

    fn existing(&mut self, id: &str) -> Result<&mut Node, String> {
        self.nodes.iter_mut().find(|node| node.id == id).ok_or_else(|| format!("unknown node: {id}"))
    }

    /// Returns the policy of each node, and the result of the validation.
    pub fn policy_report(&self, ceiling: &Json) -> Json {
        let nodes: Vec<Json> = self
            .nodes
            .iter()
            .map(|node| json!({"node_id": node.id, "policy": request(node), "tools": node.tool_names()}))
            .collect();
        let found = validate(self, ceiling).to_json();
        let ceiling = if ceiling.is_null() { default_ceiling() } else { ceiling.clone() };
        json!({
            "workflow_policy": self.capability_policy, "ceiling": ceiling, "validation": found, "nodes": nodes,
        })
    }

    /// Returns the graph with its validation and size.
    pub fn inspect(&self, ceiling: &Json) -> Json {
        json!({
            "graph": self.to_json(), "validation": validate(self, ceiling).to_json(),
            "node_count": self.nodes.len(), "edge_count": self.edges.len(),
        })
    }

    /// Returns the differences from another graph, except ids, versions and audit logs.
    pub fn diff(&self, other: &Graph) -> Json {
        let missing = |a: &Graph, b: &Graph| -> Vec<String> {
            a.nodes.iter().filter(|node| b.node(&node.id).is_none()).map(|node| node.id.clone()).collect()
        };
        let changed: Vec<Json> = self
            .nodes
            .iter()
            .filter_map(|node| {
                let fields = changed_fields(&node.fields, &other.node(&node.id)?.fields);
                (!fields.is_empty()).then(|| json!({"node_id": node.id, "fields": fields}))
            })
            .collect();
        let without = |a: &Graph, b: &Graph| -> Vec<Json> {
            a.edges.iter().filter(|edge| !b.edges.contains(edge)).map(Edge::to_json).collect()
        };
        let mut out = json!({
            "left_id": self.id, "right_id": other.id, "identical": false,
            "entry_changed": self.entry != other.entry, "name_changed": self.name != other.name,
            "policy_changed": self.capability_policy != other.capability_policy
                || self.approval_policy != other.approval_policy,
            "metadata_changed": self.metadata != other.metadata,
            "added_nodes": missing(other, self), "removed_nodes": missing(self, other), "changed_nodes": changed,
            "added_edges": without(other, self), "removed_edges": without(self, other),
        });
        let same = out.as_object().is_some_and(|parts| {
            let nothing = |value: &Json| *value == Json::Bool(false) || *value == json!([]);
            parts.iter().filter(|(key, _)| !key.ends_with("_id")).all(|(_, value)| nothing(value))
        });
        out["identical"] = same.into();
        out
    }
}

fn changed_fields(a: &Map<String, Json>, b: &Map<String, Json>) -> Vec<String> {
    let mut out: Vec<String> =
        a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).cloned().collect();
    out.retain(|key| a.get(key) != b.get(key));
    out.sort_unstable();
    out
}
