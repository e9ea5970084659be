//! The graph of a run with an index. The graph is constant, so the lookups of every step avoid a full scan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::graph::{Edge, Graph, Node};

/// A graph with an index of its nodes and edges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Routes {
    pub(super) graph: Graph,
    /// Node indexes by id.
    places: BTreeMap<String, usize>,
    /// The outgoing and incoming edges of each node.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    /// Whether any node verifies.
    verifies: bool,
}

impl Routes {
    /// Indexes a valid graph, whose edges connect existing nodes.
    pub(super) fn new(graph: Graph) -> Routes {
        let places: BTreeMap<String, usize> =
            graph.nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
        let (mut out, mut into) = (vec![Vec::new(); graph.nodes.len()], vec![Vec::new(); graph.nodes.len()]);
        for (at, edge) in graph.edges.iter().enumerate() {
            if let (Some(from), Some(to)) = (places.get(&edge.from), places.get(&edge.to)) {
                out[*from].push(at);
                into[*to].push(at);
            }
        }
        let verifies = graph.nodes.iter().any(|node| node.kind() == "verify");
        Routes { graph, places, out, into, verifies }
    }

    /// Returns the node with an id.
    pub(super) fn node(&self, id: &str) -> Option<&Node> {
        self.places.get(id).map(|at| &self.graph.nodes[*at])
    }

    fn edges<'a>(&'a self, lists: &'a [Vec<usize>], id: &str) -> impl Iterator<Item = &'a Edge> {
        let list = self.places.get(id).map(|at| lists[*at].as_slice()).unwrap_or_default();
        list.iter().map(|edge| &self.graph.edges[*edge])
    }

    /// Returns the edges that an outcome takes: those of its branch, or else those without a branch.
    pub(super) fn next(&self, id: &str, branch: &str) -> Vec<&Edge> {
        let of = |wanted: Option<&str>| -> Vec<&Edge> {
            self.edges(&self.out, id).filter(|edge| edge.branch.as_deref() == wanted).collect()
        };
        let taken = of(Some(branch));
        if taken.is_empty() { of(None) } else { taken }
    }

    /// Returns the distinct nodes with an edge to this one.
    pub(super) fn incoming(&self, id: &str) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for edge in self.edges(&self.into, id) {
            if !out.contains(&edge.from.as_str()) {
                out.push(&edge.from);
            }
        }
        out
    }

    /// Returns the verification nodes reachable from a node, including itself, sorted by id.
    pub(super) fn verifications_behind(&self, id: &str) -> Vec<&Node> {
        let Some(start) = self.places.get(id).filter(|_| self.verifies) else { return Vec::new() };
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut open = vec![*start];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                let behind =
                    self.out[at].iter().filter_map(|edge| self.places.get(&self.graph.edges[*edge].to));
                open.extend(behind);
            }
        }
        let of_seen = self.places.values().filter(|at| seen[**at]).map(|at| &self.graph.nodes[*at]);
        of_seen.filter(|node| node.kind() == "verify").collect()
    }
}
