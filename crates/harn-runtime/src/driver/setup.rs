//! Reads the options of a loop before it runs.

use harn_agent::LoopConfig;
use harn_agent::config::{Format, Media, Search};
use harn_agent::surface::{Finding, Severity};
use harn_agent::tool::{Backend, LoopTool};
use harn_llm::config::Dialect;
use harn_llm::options::{TOOL_FORMAT, ToolFormat};
use harn_llm::tools::ToolShape;
use harn_llm::{Call, LlmRuntime};
use harn_prompt::reminder::providers::Selection;
use harn_value::Value;
use harn_value::{Data as Json, data::Map};
use harn_vm::{Cx, Result};

use crate::builtins::failed;
use crate::command_policy::{CommandPolicies, CommandPolicy, InForce};
use crate::convert::{entry, thrown};
use crate::llm_embedder::prompts_of;
use crate::mcp_loop::LoopServers;
use crate::mcp_project::ProjectServers;
use crate::session::Sessions;

/// Warns of problems in a loop's tools, once per problem.
///
/// # Errors
/// Calls of the tools cannot work.
pub(super) fn check_surface(cx: &Cx, sessions: &Sessions, surface: &Map<String, Json>) -> Result<()> {
    let policy = surface.get("policy").unwrap_or(&Json::Null);
    let limited = ["side_effect_level", "capabilities"]
        .iter()
        .any(|key| policy.get(*key).is_some_and(|p| !p.is_null()));
    let slips = harn_agent::surface::slips(surface).into_iter();
    for finding in slips.chain(harn_agent::surface::validate(surface)) {
        let Finding { code, severity, message, .. } = finding;
        if severity == Severity::Error {
            return Err(thrown(format!("agent_loop tool surface validation failed: {code}: {message}")));
        }
        // Such a policy depends on annotations; without one, missing annotations are not reported.
        let about_policy = ["MISSING_SCHEMA", "MISSING_ANNOTATIONS", "MISSING_SIDE_EFFECT_LEVEL"]
            .iter()
            .any(|suffix| code.ends_with(suffix));
        if about_policy && !limited {
            continue;
        }
        if sessions.odd_tools.borrow_mut().insert((code.clone(), message.clone())) {
            cx.system().write_err(&harn_syntax::notice(&format!("warning: {code}: {message}")));
        }
    }
    Ok(())
}

/// Checks the servers that tools name. If servers are configured, an unknown name is an error; otherwise a host with
/// that server may still connect, so it is only a warning.
///
/// # Errors
/// A tool names a server that is not configured.
pub(super) fn check_servers(
    cx: &Cx,
    sessions: &Sessions,
    tools: &[LoopTool],
    own: &LoopServers,
) -> Result<()> {
    let named = |tool: &LoopTool| (tool.backend == Backend::Mcp).then(|| tool.entry["mcp_server"].printed());
    let wanted: Vec<(&LoopTool, String)> = tools.iter().filter_map(|t| Some((t, named(t)?))).collect();
    if wanted.is_empty() || harn_stdlib::has_host(cx) {
        return Ok(());
    }
    let mut known = own.names();
    known.extend(ProjectServers::of(cx).names(cx)?);
    for (tool, server) in wanted.iter().filter(|(_, server)| !known.contains(server)) {
        let text = format!("tool '{}' names MCP server '{server}', which there is not", tool.name);
        if !known.is_empty() {
            let near = harn_vm::suggest::nearest(server, known.iter().map(String::as_str));
            let hint = near.map_or_else(
                || format!("; there are {}", known.join(", ")),
                |near| format!("; did you mean '{near}'?"),
            );
            return Err(thrown(format!("agent_loop: {text}{hint}")));
        }
        if sessions.odd_tools.borrow_mut().insert(("mcp_server".to_owned(), text.clone())) {
            cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
        }
    }
    Ok(())
}

/// Checks the paths that a daemon watches. A pattern does not name a file and would never wake the daemon. A missing
/// file only wakes the daemon by changes after its creation, which is reported as a warning.
///
/// # Errors
/// A path is a pattern.
pub(super) fn check_watched(cx: &Cx, paths: &[String], is_there: impl Fn(&str) -> bool) -> Result<()> {
    for path in paths.iter().filter(|path| !is_there(path)) {
        if path.contains(['*', '?']) {
            return Err(thrown(format!(
                "agent_loop: watch_paths takes files and folders, not patterns, and '{path}' is neither" // prose-ok: diagnostic
            )));
        }
        let text = format!("watch_paths: '{path}' is not there; that it comes does not wake the daemon"); // prose-ok: diagnostic
        cx.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
    }
    Ok(())
}

/// Applies the command policies of the options: the one inside `policy` is the outer one.
pub(super) fn command_policies(cx: &Cx, options: &Value) -> Result<Vec<InForce>> {
    let given = [entry(&entry(options, "policy"), "command_policy"), entry(options, "command_policy")];
    let mut in_force = Vec::new();
    for policy in given.iter().filter(|policy| !policy.is_nil()) {
        let policy = CommandPolicy::read("agent_loop: command_policy", policy)?;
        in_force.push(CommandPolicies::of(cx).enter(cx, policy));
    }
    Ok(in_force)
}

/// Returns the kinds of media that the loop's model accepts. A custom caller decides for itself.
pub(super) fn accepted_media(llm: &LlmRuntime, options: &Map<String, Json>, route: Option<&Json>) -> Media {
    let own = options.get("llm_caller").is_some_and(|caller| !caller.is_null());
    let named = route.and_then(|route| Some((route["provider"].as_str()?, route["model"].as_str()?)));
    let Some((provider, model)) = named.filter(|_| !own) else { return Media::default() };
    if llm.config().dialect(provider) == Dialect::Mock {
        return Media::default();
    }
    let caps = llm.media_capabilities(provider, model);
    Media { images: caps.vision_supported, documents: caps.pdf }
}

/// Returns the size of the model's context window in tokens: the configuration of `token_pressure`, or else the
/// catalogue.
pub(super) fn context_window(llm: &LlmRuntime, providers: &Selection, route: Option<&Json>) -> Option<u64> {
    let told = providers.config.get("token_pressure").and_then(|config| config.get("context_window"));
    told.and_then(Json::as_u64).or_else(|| {
        let config = llm.config();
        let model = config.model(route?["model"].as_str()?)?;
        u64::try_from(model.context_window).ok().filter(|window| *window > 0)
    })
}

/// Reads the settings of a loop for the model that its options select, which `route` describes.
///
/// # Errors
/// Invalid options.
pub(crate) async fn loop_config(
    cx: &Cx,
    llm: &LlmRuntime,
    prompt: &str,
    system: Option<&str>,
    mut options: Map<String, Json>,
    route: Option<&Json>,
) -> Result<LoopConfig> {
    let format = default_format(cx, llm, &options, route)?;
    crate::skill_host::join(cx, &mut options).await?;
    let mut config = LoopConfig::new(prompt, system, options, format).map_err(thrown)?;
    crate::skill_files::fill(cx, &mut config.skills).await?;
    for name in config.skills.wanted_variables() {
        config.skills.variables.extend(cx.system().env(&name).map(|value| (name, value)));
    }
    config.offer_handoffs(&prompts_of(cx)).map_err(thrown)?;
    config.offer_skills(&prompts_of(cx)).map_err(thrown)?;
    config.offer_ledger(&prompts_of(cx)).map_err(thrown)?;
    let sessions = cx.state::<Sessions>();
    config.tools.share(&mut sessions.tools.borrow_mut());
    config.history.share(&mut sessions.histories.borrow_mut());
    config.search = search(llm, &config)?;
    Ok(config)
}

/// Returns the format of tool calls if the options do not set one.
///
/// # Errors
/// The environment names an unknown format.
fn default_format(
    cx: &Cx,
    llm: &LlmRuntime,
    options: &Map<String, Json>,
    route: Option<&Json>,
) -> Result<Format> {
    let decided = options.get("tool_format").and_then(Json::as_str).is_some_and(|word| word != "auto");
    let asked = cx.system().env(TOOL_FORMAT).filter(|_| !decided);
    match ToolFormat::of_environment(&asked.unwrap_or_default()).map_err(thrown)? {
        ToolFormat::Native => return Ok(Format::Native),
        ToolFormat::Text => return Ok(Format::Text),
        ToolFormat::Auto => {}
    }
    let of_model = || {
        let (provider, model) = (route?["provider"].as_str()?, route?["model"].as_str()?);
        let (config, caps) = (llm.config(), llm.capabilities());
        if config.dialect(provider) == Dialect::Mock {
            // The mock imitates providers, so its format is determined only by a rule that names one.
            return caps.lookup(provider, model).preferred_tool_format;
        }
        let selector = options.get("model").and_then(Json::as_str).unwrap_or(model);
        Some(config.tool_format(selector, model, provider, &caps))
    };
    Ok(if of_model().as_deref() == Some("native") { Format::Native } else { Format::Text })
}

/// Returns the client side of `tool_search`, unless the provider searches deferred tools.
fn search(llm: &LlmRuntime, config: &LoopConfig) -> Result<Option<Search>> {
    let wanted = config.options.get("tool_search").is_some_and(|o| !o.is_null() && *o != Json::Bool(false));
    if !wanted || config.tools.is_empty() {
        return Ok(None);
    }
    // The options that determine the route and its validity; the settings of a provider may state that it searches
    // itself.
    let route = [
        "provider",
        "model",
        "model_tier",
        "route_policy",
        "fallback_chain",
        "base_url",
        "api_key",
        "api_mode",
    ];
    let (known, options) = (llm.config(), &config.options);
    let counts = |key: &str| key == "tool_search" || route.contains(&key) || known.provider(key).is_some();
    let mut options: Map<String, Json> = options
        .iter()
        .filter(|(key, _)| counts(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    drop(known);
    options.insert("tool_format".to_owned(), config.format.as_str().into());
    let mut call = Call::new("", None, Json::Object(options));
    call.tools = Some(config.tools.offered().set.clone());
    let prepared = llm.prepare(&call).map_err(|e| failed(&e))?;
    let tool = prepared.search.search_tool;
    Ok(tool.map(|tool| Search { tool: tool.to_native(ToolShape::OpenAi), name: tool.name }))
}
