//! Calls of the tool search tool.

use harn_llm::tool_vault::{Hits, ToolIndex, Vault};
use harn_value::{Data as Json, json};

use super::state::{Answered, Call, Note, PastSearch, Phase};
use super::{AgentLoop, Step, ToolStatus};
use crate::event::AgentEvent;

impl AgentLoop {
    /// Returns the host's question for a search, if the strategy is the host's.
    pub(super) fn search_question(&self, call: &Call) -> Option<Step> {
        let option = self.config.options.get("tool_search")?;
        let strategy = option.get("strategy").and_then(Json::as_str)?;
        let query = call.arguments.get("query").and_then(Json::as_str).unwrap_or_default().trim();
        if !matches!(strategy, "semantic" | "host") || query.is_empty() {
            return None;
        }
        let deferred = self.config.tools.iter().filter(|tool| tool.deferred);
        let candidates: Vec<&str> = deferred.map(|tool| tool.name.as_str()).collect();
        Some(Step::SearchTools(json!({"strategy": strategy, "query": query, "candidates": candidates})))
    }

    /// Handles the host's answer about deferred tools. Without an answer, the index reports what to do instead.
    pub(super) fn host_searched(&mut self, answer: Option<&Json>) {
        self.state.phase = Phase::Dispatch;
        let Some(admitting) = self.state.turn.admitting.take() else { return };
        let hits = answer.map(|answer| {
            let answer = super::unwrapped(answer);
            let names = answer.get("tool_names").unwrap_or(answer).as_array();
            let known =
                |name: &&str| self.config.tools.iter().any(|tool| tool.deferred && tool.name == **name);
            let names = names.into_iter().flatten().filter_map(Json::as_str).filter(known);
            let tool_names: Vec<String> = names.map(str::to_owned).collect();
            let diagnostic = answer.get("diagnostic").and_then(Json::as_str).map(str::to_owned);
            Hits { tool_names, diagnostic }
        });
        self.search(&admitting.call, hits);
        self.state.turn.leading = false;
    }

    /// Answers a call of the search tool and loads the tools that it found.
    pub(super) fn search(&mut self, call: &Call, by_host: Option<Hits>) {
        let option = json!({"tool_search": self.config.options.get("tool_search")});
        let parsed = harn_llm::CallOptions::from_json(&option).ok().and_then(|o| o.tool_search);
        let Some(settings) = parsed else { return };
        let deferred: Vec<Json> =
            self.config.tools.iter().filter(|t| t.deferred).map(|t| t.entry.clone()).collect();
        let defs = harn_llm::tools::parse_tools(&Json::Array(deferred)).unwrap_or_default();
        let query = call.arguments.get("query").and_then(Json::as_str).unwrap_or_default();
        let hits = by_host.unwrap_or_else(|| ToolIndex::new(&defs).search(settings.strategy, query));
        let mut vault = Vault::new(defs, settings);
        for past in &self.state.searches {
            let hits = Hits { tool_names: past.found.clone(), diagnostic: None };
            vault.answer(&past.id, &past.arguments, &hits);
        }
        let found = vault.answer(&call.id, &call.arguments, &hits);
        self.state.promoted = vault.promoted().map(|t| t.name.clone()).collect();
        self.state.searches.push(PastSearch {
            id: call.id.clone(),
            arguments: call.arguments.clone(),
            found: hits.tool_names,
        });
        let query_fields = json!({
            "tool_use_id": call.id, "name": found.query_event["name"], "query": call.arguments,
            "strategy": found.query_event["strategy"], "mode": "client",
        });
        self.events.push(AgentEvent::ToolSearchQuery(query_fields));
        self.events.push(AgentEvent::ToolSearchResult(json!({
            "tool_use_id": call.id, "promoted": found.promoted, "strategy": found.query_event["strategy"],
            "mode": "client",
        })));
        self.state.notes.push(Note::internal("tool_search_query", "assistant", "", found.query_event));
        self.state.notes.push(Note::internal("tool_search_result", "tool", "", found.result_event));
        let (id, name) = (call.id.clone(), call.name.clone());
        let answered = Answered {
            id,
            name,
            text: found.result_text,
            status: ToolStatus::Ok,
            executed: false,
            quoted: false,
            media: Vec::new(),
        };
        self.state.turn.answered.push(answered);
    }
}
