//! The search index of deferred tools, and the searches that the runtime itself executes.

use harn_value::{Data as Value, json};
use regex::RegexBuilder;

use super::bm25::{Corpus, tokens};
use crate::json::str_at;
use crate::options::SearchStrategy;
use crate::tools::ToolDef;

/// The maximum number of names in a search result.
const MAX_RESULTS: usize = 20;
/// The maximum memory of a compiled query, in bytes.
const REGEX_LIMIT: usize = 1 << 20;

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    /// Names, best first.
    pub tool_names: Vec<String>,
    /// The reason for an empty result, or an error.
    pub diagnostic: Option<String>,
}

impl Hits {
    /// Creates an empty result with its reason.
    pub fn nothing(diagnostic: impl Into<String>) -> Hits {
        Hits { tool_names: Vec::new(), diagnostic: Some(diagnostic.into()) }
    }

    /// Returns the tool result for the model.
    pub(crate) fn to_text(&self) -> String {
        let mut out = crate::json::Object::new();
        if let Some(diagnostic) = &self.diagnostic {
            out.insert("diagnostic".into(), diagnostic.as_str().into());
        }
        out.insert("tool_names".into(), json!(self.tool_names));
        Value::Object(out).to_string()
    }
}

/// Deferred tools and their indexed descriptions.
#[derive(Debug, Clone, Default)]
pub struct ToolIndex {
    entries: Vec<(String, String)>,
}

impl ToolIndex {
    /// Indexes tools.
    pub fn new(tools: &[ToolDef]) -> ToolIndex {
        ToolIndex { entries: tools.iter().map(|t| (t.name.clone(), index_text(t))).collect() }
    }

    /// Returns the names in the index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Searches the index. Strategies of the host are not executed here: [`ToolIndex::accept`] takes their result.
    pub fn search(&self, strategy: SearchStrategy, query: &str) -> Hits {
        let query = query.trim();
        if query.is_empty() {
            return Hits::nothing("empty query; specify search terms or a regex pattern");
        }
        if self.entries.is_empty() {
            return Hits::nothing("no deferred tools to search");
        }
        match strategy {
            SearchStrategy::Bm25 => self.bm25(query),
            SearchStrategy::Regex => self.regex(query),
            SearchStrategy::Semantic | SearchStrategy::Host => Hits::nothing(format!(
                "strategy `{}` needs a host; use `bm25` or `regex` instead",
                strategy.as_str()
            )),
        }
    }

    fn bm25(&self, query: &str) -> Hits {
        let words = tokens(query);
        if words.is_empty() {
            return Hits::nothing("the query holds no words to search for");
        }
        let corpus = Corpus::new(self.entries.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        self.hits(corpus.rank(&words), query)
    }

    fn regex(&self, query: &str) -> Hits {
        let pattern = match RegexBuilder::new(query).case_insensitive(true).size_limit(REGEX_LIMIT).build() {
            Ok(pattern) => pattern,
            Err(e) => return Hits::nothing(format!("regex compile error: {e}")),
        };
        let mut counted: Vec<(usize, &str)> = self
            .entries
            .iter()
            .map(|(name, text)| (pattern.find_iter(text).count(), name.as_str()))
            .filter(|(count, _)| *count > 0)
            .collect();
        counted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        self.hits(counted.into_iter().map(|(_, name)| name.to_string()).collect(), query)
    }

    fn hits(&self, mut names: Vec<String>, query: &str) -> Hits {
        names.truncate(MAX_RESULTS);
        if names.is_empty() {
            return Hits::nothing(format!("no tools match `{query}`; try other words"));
        }
        Hits { tool_names: names, diagnostic: None }
    }

    /// Converts the result of a host's search, `{tool_names, diagnostic?}`, which may be nested in `result`. Drops
    /// names that are not in the index.
    pub fn accept(&self, answer: &Value) -> Hits {
        let answer = answer.get("result").filter(|r| r.is_object()).unwrap_or(answer);
        let mut names: Vec<String> = crate::json::list_at(answer, "tool_names")
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| self.names().any(|known| known == *name))
            .map(str::to_string)
            .collect();
        names.truncate(MAX_RESULTS);
        Hits { tool_names: names, diagnostic: str_at(answer, "diagnostic").map(str::to_string) }
    }
}

fn index_text(tool: &ToolDef) -> String {
    let mut parts = vec![tool.name.clone(), tool.description.clone()];
    for (name, schema) in tool.parameters.get("properties").and_then(Value::as_object).into_iter().flatten() {
        match str_at(schema, "description") {
            Some(description) => parts.push(format!("{name}: {description}")),
            None => parts.push(name.clone()),
        }
    }
    if let Some(server) = &tool.mcp_server {
        parts.push(format!("mcp:{server}"));
        parts.push(server.clone());
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::parse_tools;

    fn index() -> ToolIndex {
        ToolIndex::new(
            &parse_tools(&json!([
                {"name": "open_file", "description": "Opens a file", "parameters": {"path": {"type": "string", "description": "where"}}},
                {"name": "deploy_service", "description": "Ships a service"},
                {"name": "query_metrics", "description": "Reads numbers", "mcp_server": "grafana"}]))
            .unwrap(),
        )
    }

    #[test]
    fn words_find_tools() {
        let names = |q: &str| index().search(SearchStrategy::Bm25, q).tool_names;
        assert_eq!(names("open file"), ["open_file"]);
        assert_eq!(names("deploy"), ["deploy_service"]);
        assert_eq!(names("grafana"), ["query_metrics"]);
        assert_eq!(
            index().search(SearchStrategy::Bm25, " ").diagnostic.unwrap(),
            "empty query; specify search terms or a regex pattern"
        );
    }

    #[test]
    fn patterns_find_tools_by_number_of_matches() {
        let search = |q: &str| index().search(SearchStrategy::Regex, q);
        assert_eq!(search("SERVICE|file").tool_names, ["deploy_service", "open_file"]);
        assert!(search("(").diagnostic.unwrap().starts_with("regex compile error:"));
        assert!(search("zzz").diagnostic.is_some());
    }

    #[test]
    fn host_answers_are_filtered() {
        let hits =
            index().accept(&json!({"result": {"tool_names": ["nope", "open_file"], "diagnostic": "d"}}));
        assert_eq!(hits.to_text(), "{\"diagnostic\":\"d\",\"tool_names\":[\"open_file\"]}");
        assert!(index().search(SearchStrategy::Host, "x").diagnostic.unwrap().contains("bm25"));
    }
}
