//! Promotion of found tools within a budget, for loops.

use harn_value::{Data as Value, json};

use super::index::{Hits, ToolIndex};
use crate::estimate::estimate_tokens;
use crate::options::ToolSearch;
use crate::tools::{ToolDef, ToolShape};

/// The client side of tool search; its state persists between turns.
#[derive(Debug, Clone)]
pub struct Vault {
    deferred: Vec<ToolDef>,
    /// Promoted names, oldest first.
    promoted: Vec<String>,
    search: ToolSearch,
    index: ToolIndex,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Promotion {
    /// Names promoted by this search.
    pub promoted: Vec<String>,
    /// Metadata of the `tool_search_query` event.
    pub query_event: Value,
    /// Metadata of the `tool_search_result` event.
    pub result_event: Value,
    /// The tool result for the model.
    pub result_text: String,
}

impl Vault {
    /// Creates a vault with the deferred tools of a plan.
    pub fn new(deferred: Vec<ToolDef>, search: ToolSearch) -> Vault {
        let index = ToolIndex::new(&deferred);
        Vault { deferred, promoted: Vec::new(), search, index }
    }

    /// Returns the index, for search strategies of the host.
    pub fn index(&self) -> &ToolIndex {
        &self.index
    }

    /// Returns the option with which the vault was created.
    pub fn search(&self) -> &ToolSearch {
        &self.search
    }

    /// Returns the promoted tools, oldest first.
    pub fn promoted(&self) -> impl Iterator<Item = &ToolDef> {
        self.promoted.iter().filter_map(|name| self.tool(name))
    }

    /// Returns the tools that are not promoted yet, in the order of their definition.
    pub fn waiting(&self) -> impl Iterator<Item = &ToolDef> {
        self.deferred.iter().filter(|t| !self.promoted.contains(&t.name))
    }

    fn tool(&self, name: &str) -> Option<&ToolDef> {
        self.deferred.iter().find(|t| t.name == name)
    }

    fn cost(&self, name: &str) -> i64 {
        self.tool(name).map_or(0, |t| estimate_tokens(&t.to_native(ToolShape::OpenAi).to_string()))
    }

    /// Answers a search call: promotes the hits and creates the events.
    pub fn answer(&mut self, call_id: &str, arguments: &Value, hits: &Hits) -> Promotion {
        let promoted = self.promote(&hits.tool_names);
        let (strategy, mode) = (self.search.strategy.as_str(), "client");
        let references: Vec<Value> = hits.tool_names.iter().map(|n| json!({"tool_name": n})).collect();
        Promotion {
            query_event: json!({
                "id": call_id, "name": format!("tool_search_tool_{}", self.search.variant.as_str()),
                "query": arguments, "strategy": strategy, "mode": mode,
            }),
            result_event: json!({
                "tool_use_id": call_id, "tool_references": references, "promoted": promoted, "strategy": strategy,
                "mode": mode,
            }),
            result_text: self.offered(hits).to_text(),
            promoted,
        }
    }

    /// Returns the hits that the next request offers, with a diagnostic that names those excluded by the budget.
    fn offered(&self, hits: &Hits) -> Hits {
        let (tool_names, left_out): (Vec<String>, Vec<String>) =
            hits.tool_names.iter().cloned().partition(|name| self.promoted.contains(name));
        let left_out: Vec<String> = left_out.into_iter().filter(|name| self.tool(name).is_some()).collect();
        let over = self.search.budget_tokens.filter(|_| !left_out.is_empty()).map(|budget| {
            format!("not callable, their schemas exceed budget_tokens ({budget}): {}", left_out.join(", ")) // prose-ok: diagnostic
        });
        let diagnostics: Vec<String> = hits.diagnostic.iter().cloned().chain(over).collect();
        Hits { tool_names, diagnostic: (!diagnostics.is_empty()).then(|| diagnostics.join("; ")) }
    }

    /// Promotes names in order. With a budget, the oldest promotions are removed to make space. Returns the newly
    /// promoted names.
    fn promote(&mut self, names: &[String]) -> Vec<String> {
        let mut added = Vec::new();
        for name in names {
            if self.promoted.contains(name) || self.tool(name).is_none() {
                continue;
            }
            let own = self.cost(name);
            if let Some(budget) = self.search.budget_tokens {
                if own > budget {
                    continue;
                }
                let mut used: i64 = self.promoted.iter().map(|n| self.cost(n)).sum();
                while used + own > budget && !self.promoted.is_empty() {
                    let oldest = self.promoted.remove(0);
                    used -= self.cost(&oldest);
                    added.retain(|n| n != &oldest);
                }
            }
            self.promoted.push(name.clone());
            added.push(name.clone());
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{CallOptions, SearchStrategy};
    use crate::tools::parse_tools;

    fn vault(option: Value) -> Vault {
        let tools = parse_tools(&json!([
            {"name": "alpha_a", "description": "first"}, {"name": "alpha_b", "description": "first"},
            {"name": "alpha_c", "description": "first"}]));
        let search = CallOptions::from_json(&json!({"tool_search": option})).unwrap().tool_search.unwrap();
        Vault::new(tools.unwrap(), search)
    }

    fn ask(vault: &mut Vault, query: &str) -> Vec<String> {
        let hits = vault.index().search(SearchStrategy::Bm25, query);
        vault.answer("c1", &json!({"query": query}), &hits).promoted
    }

    #[test]
    fn promotions_last_without_a_budget() {
        let mut v = vault(json!(true));
        assert_eq!(ask(&mut v, "a"), ["alpha_a"]);
        assert_eq!(ask(&mut v, "a b"), ["alpha_b"]);
        assert_eq!((v.promoted().count(), v.waiting().count()), (2, 1));
    }

    #[test]
    fn with_room_for_one_the_last_stays() {
        let mut v = vault(json!({"budget_tokens": 45}));
        for query in ["a", "b", "c"] {
            ask(&mut v, query);
        }
        assert_eq!(v.promoted().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["alpha_c"]);
        let mut tiny = vault(json!({"budget_tokens": 1}));
        assert!(ask(&mut tiny, "a").is_empty());
    }

    #[test]
    fn the_model_is_offered_what_fits_and_told_what_does_not() {
        let text = |option: Value| {
            let mut vault = vault(json!({"budget_tokens": option}));
            let hits = vault.index().search(SearchStrategy::Bm25, "first");
            vault.answer("c1", &json!({"query": "first"}), &hits).result_text
        };
        let none = "{\"diagnostic\":\"not callable, their schemas exceed budget_tokens (1): alpha_a, alpha_b, alpha_c\",\"tool_names\":[]}";
        assert_eq!(text(json!(1)), none);
        let one = "{\"diagnostic\":\"not callable, their schemas exceed budget_tokens (45): alpha_a, alpha_b\",\"tool_names\":[\"alpha_c\"]}";
        assert_eq!(text(json!(45)), one);
        assert_eq!(text(Value::Null), "{\"tool_names\":[\"alpha_a\",\"alpha_b\",\"alpha_c\"]}");
    }

    #[test]
    fn events_tell_what_happened() {
        let mut v = vault(json!("regex"));
        let hits = v.index().search(SearchStrategy::Regex, "_b");
        let p = v.answer("c7", &json!({"query": "_b"}), &hits);
        assert_eq!(
            p.query_event,
            json!({"id": "c7", "name": "tool_search_tool_regex", "query": {"query": "_b"}, "strategy": "regex", "mode": "client"})
        );
        assert_eq!(
            p.result_event,
            json!({"tool_use_id": "c7", "tool_references": [{"tool_name": "alpha_b"}], "promoted": ["alpha_b"],
                   "strategy": "regex", "mode": "client"})
        );
        assert_eq!(p.result_text, "{\"tool_names\":[\"alpha_b\"]}");
    }
}
