//! Decides who searches, and which tools are sent with the request.

use harn_value::{Data as Value, json};

use crate::capabilities::{Capabilities, model_version};
use crate::config::Dialect;
use crate::error::OptionError;
use crate::options::{SearchMode, ToolSearch};
use crate::tools::{NativeTools, ToolDef, ToolSet, ToolShape};

/// How a call handles deferred tools.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// Tools in the request, the meta-tool first.
    pub tools: NativeTools,
    /// Definitions of the user's visible tools, for the tool contract in text.
    pub visible: ToolSet,
    /// Tools that are sent only once a search finds them (client search).
    pub deferred: Vec<ToolDef>,
    /// The synthetic search tool (client search).
    pub search_tool: Option<ToolDef>,
    /// Whether the provider searches.
    pub native: bool,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// The inputs of the plan other than the tools.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The dialect of its server.
    pub dialect: Dialect,
    /// The model.
    pub model: &'a str,
    /// Whether the model is the provider's default.
    pub model_is_default: bool,
    /// The capabilities of the route.
    pub caps: &'a Capabilities,
    /// The shape of native tools.
    pub shape: ToolShape,
    /// `options.<provider>.force_native_tool_search`.
    pub forced: bool,
    /// Whether tools are called in visible text. Then the provider receives no tools and cannot search them.
    pub text_calls: bool,
    /// Description of the synthetic search tool.
    pub description: &'a str,
}

/// Plans the tools of a call. Without `tool_search`, deferred tools could never be found, so they are offered like the
/// others.
///
/// # Errors
/// Native search is required but not supported, or every tool is deferred.
pub fn plan(
    tools: &ToolSet,
    search: Option<&ToolSearch>,
    at: Situation<'_>,
) -> Result<SearchPlan, OptionError> {
    let Some(search) = search else {
        let visible = if tools.iter().any(|t| t.defer_loading) {
            ToolSet::new(tools.iter().map(|tool| ToolDef { defer_loading: false, ..tool.clone() }).collect())
        } else {
            tools.clone()
        };
        return Ok(SearchPlan {
            tools: visible.native(at.shape),
            visible,
            deferred: Vec::new(),
            search_tool: None,
            native: false,
            warning: None,
        });
    };
    let mut tools = tools.to_vec();
    for tool in &mut tools {
        if search.always_loaded.contains(&tool.name) {
            tool.defer_loading = false;
        }
    }
    // The default model of the mock imitates no specific model.
    let unspecific = at.dialect == Dialect::Mock && at.model_is_default;
    if at.text_calls && search.mode == SearchMode::Native {
        return Err(OptionError::new(
            // prose-ok: diagnostic
            "tool_search: mode \"native\" needs native tool calls, and tool_format is \"text\". Set `tool_search: \
             { mode: \"client\" }`, or `tool_format: \"native\"`.",
        ));
    }
    let offered = at.caps.defer_loading && !at.caps.tool_search.is_empty() && !unspecific && !at.text_calls;
    let native = match search.mode {
        SearchMode::Client => false,
        SearchMode::Auto => (offered || at.forced) && !at.text_calls,
        SearchMode::Native if offered || at.forced => true,
        SearchMode::Native => {
            return Err(OptionError::new(format!(
                // prose-ok: diagnostic
                "tool_search: provider \"{}\" does not expose native tool-search for model \"{}\". Set `tool_search: \
                 {{ mode: \"client\" }}` to use the client-executed fallback, or omit tool_search to ship tools eagerly.",
                at.provider, at.model
            )));
        }
    };
    if !tools.is_empty() && tools.iter().all(|t| t.defer_loading) {
        return Err(OptionError::new(
            // prose-ok: diagnostic
            "tool_search: all tools have defer_loading set. At least one tool must be non-deferred so the model has \
             somewhere to start. (Matches Anthropic's 400 on the same condition.)",
        ));
    }
    if native { Ok(native_plan(tools, search, at)) } else { Ok(client_plan(tools, search, at)) }
}

fn native_plan(tools: Vec<ToolDef>, search: &ToolSearch, at: Situation<'_>) -> SearchPlan {
    let claude = at.dialect == Dialect::Anthropic
        || (at.dialect == Dialect::Mock
            && at.caps.tool_search.iter().any(|v| v == "bm25")
            && is_claude(at.model));
    let mut warning = None;
    let is_hosted = !claude || at.forced_shape();
    let meta = if !is_hosted {
        let wanted = search.variant.as_str();
        let has = |v: &str| at.caps.tool_search.iter().any(|x| x == v);
        let variant = match at.caps.tool_search.first() {
            Some(first) if !has(wanted) => {
                warning = Some(format!(
                    "tool_search: model \"{}\" has no variant \"{wanted}\", using \"{first}\"",
                    at.model
                ));
                first.as_str()
            }
            _ => wanted,
        };
        json!({"type": format!("tool_search_tool_{variant}_20251119"), "name": format!("tool_search_tool_{variant}")})
    } else {
        json!({"type": "tool_search", "execution": "server"})
    };
    let shape = if at.shape == ToolShape::Anthropic { ToolShape::Anthropic } else { ToolShape::OpenAi };
    let mut list = vec![meta];
    let mut spaces: std::collections::BTreeMap<&str, Vec<Value>> = std::collections::BTreeMap::new();
    for tool in &tools {
        // OpenAI groups the tools of a namespace.
        match tool.namespace.as_deref().filter(|_| is_hosted) {
            Some(name) => {
                let ungrouped = ToolDef { namespace: None, ..tool.clone() };
                spaces.entry(name).or_default().push(ungrouped.to_native(shape));
            }
            None => list.push(tool.to_native(shape)),
        }
    }
    list.extend(spaces.into_iter().map(
        |(name, tools)| json!({"type": "namespace", "name": name, "description": name, "tools": tools}),
    ));
    SearchPlan {
        tools: NativeTools::new(list),
        visible: ToolSet::new(tools),
        deferred: Vec::new(),
        search_tool: None,
        native: true,
        warning,
    }
}

impl Situation<'_> {
    /// Returns whether native search is forced on an OpenAI-compatible server.
    fn forced_shape(&self) -> bool {
        self.forced && self.dialect != Dialect::Anthropic
    }
}

fn is_claude(model: &str) -> bool {
    let id = model.to_lowercase();
    let least = if id.contains("haiku") { (4, 5) } else { (4, 0) };
    id.contains("claude") && model_version(model).is_some_and(|v| v >= least)
}

fn client_plan(tools: Vec<ToolDef>, search: &ToolSearch, at: Situation<'_>) -> SearchPlan {
    let (deferred, visible): (Vec<ToolDef>, Vec<ToolDef>) = tools.into_iter().partition(|t| t.defer_loading);
    let deferred: Vec<ToolDef> =
        deferred.into_iter().map(|t| ToolDef { defer_loading: false, ..t }).collect();
    if visible.is_empty() && deferred.is_empty() {
        return SearchPlan {
            tools: NativeTools::default(),
            visible: ToolSet::default(),
            deferred,
            search_tool: None,
            native: false,
            warning: None,
        };
    }
    let search_tool = ToolDef {
        name: search.name.clone(),
        description: at.description.to_string(),
        parameters: json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"],
                           "additionalProperties": false}),
        output_schema: None,
        defer_loading: false,
        namespace: None,
        compact: false,
        mcp_server: None,
    };
    let native = std::iter::once(&search_tool).chain(&visible).map(|t| t.to_native(at.shape)).collect();
    SearchPlan {
        tools: NativeTools::new(native),
        visible: ToolSet::new(visible),
        deferred,
        search_tool: Some(search_tool),
        native: false,
        warning: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::CapabilityMatrix;
    use crate::options::CallOptions;

    fn run(provider: &str, model: &str, search: Value, tools: Value) -> Result<SearchPlan, String> {
        let caps = CapabilityMatrix::shipped().lookup(provider, model);
        let search = CallOptions::from_json(&json!({"tool_search": search})).unwrap().tool_search;
        let shape = if provider == "anthropic" { ToolShape::Anthropic } else { ToolShape::OpenAi };
        let at = Situation {
            provider,
            dialect: match provider {
                "anthropic" => Dialect::Anthropic,
                "mock" => Dialect::Mock,
                _ => Dialect::Plain,
            },
            model,
            model_is_default: false,
            caps: &caps,
            shape,
            forced: false,
            text_calls: false,
            description: "find",
        };
        plan(&ToolSet::from_json(&tools).unwrap(), search.as_ref(), at).map_err(|e| e.0)
    }

    fn tools() -> Value {
        json!([{"name": "look"}, {"name": "deploy", "defer_loading": true, "namespace": "ops"}])
    }

    #[test]
    fn providers_that_search_get_a_meta_tool() {
        let p = run("anthropic", "claude-opus-4-7", json!("regex"), tools()).unwrap();
        assert_eq!(
            p.tools[0],
            json!({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"})
        );
        assert_eq!((p.tools.len(), &p.tools[2]["defer_loading"]), (3, &json!(true)));
        let p = run("openai", "gpt-5.4", json!(true), tools()).unwrap();
        assert_eq!(p.tools[0], json!({"type": "tool_search", "execution": "server"}));
        assert_eq!((&p.tools[2]["type"], &p.tools[2]["name"]), (&json!("namespace"), &json!("ops")));
        assert_eq!(p.tools[2]["tools"][0]["function"]["name"], "deploy");
    }

    #[test]
    fn others_get_a_search_tool() {
        let p = run("openai", "gpt-4o", json!({"name": "find_tool"}), tools()).unwrap();
        assert_eq!(p.tools[0]["function"]["name"], "find_tool");
        assert_eq!((p.tools.len(), p.deferred[0].name.as_str()), (2, "deploy"));
        let error = run("openai", "gpt-4o", json!({"mode": "native"}), tools()).unwrap_err();
        assert_eq!(
            error,
            "tool_search: provider \"openai\" does not expose native tool-search for model \"gpt-4o\". Set `tool_search: { mode: \"client\" }` to use the client-executed fallback, or omit tool_search to ship tools eagerly."
        );
    }

    #[test]
    fn something_must_be_visible() {
        let all = json!([{"name": "a", "defer_loading": true}]);
        assert!(
            run("openai", "gpt-4o", json!(true), all.clone())
                .unwrap_err()
                .contains("all tools have defer_loading")
        );
        let p = run("openai", "gpt-4o", json!({"always_loaded": ["a"]}), all).unwrap();
        assert_eq!((p.deferred.len(), p.tools.len()), (0, 2));
    }

    #[test]
    fn without_search_deferred_tools_are_offered() {
        let plan = run("openai", "gpt-5.4", json!(false), tools()).unwrap();
        assert_eq!(plan.tools.len(), 2);
        assert!(plan.tools.iter().all(|tool| tool.get("defer_loading").is_none()));
    }

    #[test]
    fn text_calls_are_searched_by_the_client() {
        let caps = CapabilityMatrix::shipped().lookup("anthropic", "claude-opus-4-7");
        let tools = ToolSet::from_json(&tools()).unwrap();
        let run = |search: Value| {
            let search = CallOptions::from_json(&json!({"tool_search": search})).unwrap().tool_search;
            let at = Situation {
                provider: "anthropic",
                dialect: Dialect::Anthropic,
                model: "claude-opus-4-7",
                model_is_default: false,
                caps: &caps,
                shape: ToolShape::Anthropic,
                forced: false,
                text_calls: true,
                description: "find",
            };
            plan(&tools, search.as_ref(), at).map_err(|e| e.0)
        };
        let found = run(json!(true)).unwrap();
        assert!(!found.native && found.search_tool.is_some());
        assert!(run(json!({"mode": "native"})).unwrap_err().contains("tool_format is \"text\""));
    }
}
