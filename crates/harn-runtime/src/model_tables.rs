//! Tables of models: the one that the user has installed, the installation, and the facts about a model with their
//! sources.

use std::path::{Path, PathBuf};

use harn_llm::LlmRuntime;
use harn_llm::models::{Days, Match, Table, table_of_litellm};
use harn_system::{HttpRequest, System, SystemExt};
use harn_value::{Data as Json, json};

/// Maximum size of a table, in bytes.
const MAX_TABLE: u64 = 64 << 20;

/// The age in days after which a table may lack prices and retirements.
const MAX_AGE: i64 = 90;

/// Returns the path of the user's table: `harn/models.tsv` in the state directory.
///
/// # Errors
/// The state directory is unknown.
pub(crate) fn model_table_file(system: &dyn System) -> Result<PathBuf, String> {
    let set = |name: &str| system.env(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or("no state directory: set HOME or XDG_STATE_HOME")?;
    Ok(state.join("harn/models.tsv"))
}

/// Reads the table that the user has installed, if it exists.
///
/// # Errors
/// The table is damaged.
pub(crate) fn installed_table(system: &dyn System) -> Result<Option<Table>, String> {
    let Ok(file) = model_table_file(system) else { return Ok(None) };
    let Ok(text) = system.read_text(&file, MAX_TABLE) else { return Ok(None) };
    let read = Table::parse(text);
    read.map(Some).map_err(|why| format!("ignoring {}: {why}; run `harn models update`", file.display()))
}

/// Installs a table of models from a file or a URL: a table of Harn, or the model list of LiteLLM. Returns a message
/// with the result.
///
/// # Errors
/// The source cannot be read or has another format, or the table cannot be written.
pub async fn update_model_table(
    system: &dyn System,
    source: &str,
    origin: Option<&str>,
    output: Option<&Path>,
) -> Result<String, String> {
    let text = read_source(system, source).await?;
    let text = match text.starts_with('{') {
        true => {
            let today = Days::of_ms(system.now_ms()).to_string();
            table_of_litellm(&text, &today, origin.unwrap_or(source))
                .map_err(|why| format!("{source}: {why}"))?
        }
        false => text,
    };
    let table = Table::parse(text.clone()).map_err(|why| format!("{source}: {why}"))?;
    let file = output.map_or_else(|| model_table_file(system), |path| Ok(system.work_dir().join(path)))?;
    let written = system.write_with_folder(&file, |system| system.replace(&file, text.as_bytes()));
    written.map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    let count = table.rows().count();
    Ok(format!("{count} models of {} ({}) are in {}", table.origin(), table.date(), file.display()))
}

async fn read_source(system: &dyn System, source: &str) -> Result<String, String> {
    if !source.starts_with("https://") && !source.starts_with("http://") {
        let path = system.work_dir().join(source);
        return system
            .read_text(&path, MAX_TABLE)
            .map_err(|e| format!("cannot read {}: {e}", path.display()));
    }
    let failed = |why: &str| format!("cannot read {source}: {why}");
    let request = HttpRequest {
        timeout: Some(std::time::Duration::from_secs(60)),
        redirects: 5,
        max_response: MAX_TABLE,
        ..HttpRequest::new("GET", source)
    };
    let reply = system.http(request).await.map_err(|error| failed(&error.text))?;
    if reply.status != 200 {
        return Err(failed(&format!("HTTP {}", reply.status)));
    }
    let bytes = reply.read().await.map_err(|error| failed(&error.text))?;
    String::from_utf8(bytes).map_err(|_| failed("not UTF-8 text"))
}

/// Returns every fact about a model as `{fact, value, source}`; unknown facts are left out.
pub fn model_facts(runtime: &LlmRuntime, selector: &str) -> Vec<Json> {
    let (config, embedder) = (runtime.config(), runtime.embedder());
    let (id, provider, alias) = config.resolve(selector, embedder);
    let mut facts = Vec::new();
    let mut add = |fact: &str, value: Json, source: &str| {
        if !value.is_null() {
            facts.push(json!({"fact": fact, "value": value, "source": source}));
        }
    };
    let configured = config.origin().to_owned();
    add("model", id.as_str().into(), "the argument");
    add("provider", provider.as_str().into(), if alias.is_some() { &configured } else { "the argument" });
    let entry = config.catalog().find(&provider, &id);
    let of_row = entry.as_ref().map(|entry| {
        let list = format!("{}, {}", entry.origin, entry.checked);
        entry.source.as_ref().map_or(list.clone(), |url| format!("{url} ({list})"))
    });
    let row_source = of_row.as_deref().unwrap_or("-");
    let own = config.model(&id);
    let is_own_price = own.is_some_and(|model| model.pricing.is_some());
    let is_free = config.provider(&provider).is_some_and(|table| table.free == Some(true));
    let price_source = match (is_own_price, is_free) {
        (true, _) => configured.as_str(),
        (_, true) => "the provider is free",
        _ => row_source,
    };
    let usd =
        |price: Option<f64>| price.map_or(Json::Null, |usd| format!("{usd} USD per million tokens").into());
    if let Some(p) = harn_llm::cost::call_pricing(&config, &provider, &id) {
        add("input", usd(Some(p.input_per_mtok)), price_source);
        add("output", usd(Some(p.output_per_mtok)), price_source);
        add("cache read", usd(p.cache_read_per_mtok), price_source);
        add("cache write", usd(p.cache_write_per_mtok), price_source);
        add("cache write, 1 hour", usd(p.cache_write_hour_per_mtok), price_source);
        if let Some(above) = p.above {
            let part =
                |name: &str, price: Option<f64>| price.map(|usd| format!("{name} {usd}")).unwrap_or_default();
            let text = format!("{} {}", part("input", above.input), part("output", above.output));
            add(&format!("above {} tokens", above.tokens), text.trim().into(), price_source);
        }
    }
    let window = own.map(|model| model.context_window).filter(|n| *n > 0);
    match (window, entry.as_ref().and_then(|entry| entry.context)) {
        (Some(own), _) => add("context window", own.into(), &configured),
        (None, known) => add("context window", known.map_or(Json::Null, Json::from), row_source),
    }
    if let Some(entry) = &entry {
        add("row", format!("{} ({})", entry.name, entry.found.as_str()).into(), row_source);
        add("max output tokens", entry.output.map_or(Json::Null, Json::from), row_source);
        let words = |list: &[String]| if list.is_empty() { Json::Null } else { list.join(", ").into() };
        add("features", words(&entry.features), row_source);
        add("efforts", words(&entry.efforts), row_source);
        add("retires", entry.retires.clone().map_or(Json::Null, Json::from), row_source);
        add("successor", entry.successor.clone().map_or(Json::Null, Json::from), row_source);
    }
    let rule = "built-in capability rules";
    let caps = runtime.capabilities_json(&provider, &id);
    add("tool format", config.tool_format(selector, &id, &provider, &runtime.capabilities()).into(), rule);
    for (fact, key) in [
        ("thinking", "thinking_modes"),
        ("structured output", "structured_output"),
        ("tool search", "tool_search"),
    ] {
        let value = match &caps[key] {
            Json::Array(list) if list.is_empty() => Json::Null,
            Json::Array(list) => list.iter().map(Json::printed).collect::<Vec<_>>().join(", ").into(),
            other => other.clone(),
        };
        add(fact, value, rule);
    }
    facts
}

/// Returns messages about outdated data: the table, and configured models that are retired.
pub fn stale_models(runtime: &LlmRuntime) -> Vec<String> {
    let (config, embedder) = (runtime.config(), runtime.embedder());
    let today = Days::of_ms(embedder.now_ms());
    let mut out = Vec::new();
    let table = config.catalog().generated();
    if let Some(made) = Days::parse(table.date()).filter(|made| today.0 - made.0 > MAX_AGE) {
        let age = today.0 - made.0;
        out.push(format!(
            "the model table of {} is {age} days old; update Harn or run `harn models update FILE|URL`", // prose-ok: diagnostic
            table.date()
        ));
    }
    let mut named: Vec<(String, String)> =
        config.aliases().map(|(_, alias)| (alias.provider.clone(), alias.id.clone())).collect();
    named.extend(config.model_ids().map(|(provider, id)| (provider.to_owned(), id.to_owned())));
    let providers = config.provider_names();
    named.extend(
        providers
            .iter()
            .filter_map(|name| Some((name.clone(), config.provider(name)?.default_model.clone()?))),
    );
    if let Some(model) = harn_llm::config::env(embedder, "HARN_LLM_MODEL") {
        let (id, provider, _) = config.resolve(&model, embedder);
        named.push((provider, id));
    }
    named.sort();
    named.dedup();
    let day = today.to_string();
    for (provider, id) in named {
        // A shipped default is automatically replaced by its successor.
        let Some(entry) = config.catalog().find(&provider, &id).filter(|e| e.found == Match::Exact) else {
            continue;
        };
        if entry.is_retired_on(&day) && !config.is_shipped_default(&id) {
            let retired = entry.retires.as_deref().unwrap_or_default();
            let successor = entry.successor.as_ref().map(|name| format!("; its successor is `{name}`"));
            out.push(format!(
                "model `{id}` of {provider} is retired since {retired}{}",
                successor.unwrap_or_default()
            ));
        }
    }
    out
}
