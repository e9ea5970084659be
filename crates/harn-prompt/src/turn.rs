//! The primary block of an agent's turn as separate fragments: `agent_build_turn_system_fragments` and its joined form.
//!
//! The iteration number is not an input, because it would change the prompt's leading bytes in every turn.

use harn_value::{Data as Value, data::Map};

use crate::fragment::{Bucket, Fragment};
use crate::options::primary::{ProfileIds, decomposed, profile_fragments, system_text};
use crate::options::{host, tools};
use crate::prose::{Prose, ProseError, agent_asset};
use crate::reduce::SEPARATOR;
use crate::untrusted::{quote, quote_frames, quote_name, without_controls};
use crate::value::{flag, names, object, present, text};

/// The default sentinel of a loop.
pub const DEFAULT_SENTINEL: &str = "##DONE##";

/// An error while building the block of a turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The options are not a dict.
    #[error("{function}: options must be a dict, got {got}")]
    NotADict {
        /// The function that was called.
        function: &'static str,
        /// The type found.
        got: String,
    },
    /// A fragment of the caller has a wrong shape.
    #[error(transparent)]
    Option(#[from] crate::options::OptionError),
    /// A template asset could not be rendered.
    #[error(transparent)]
    Prose(#[from] ProseError),
}

/// The tools of a turn as text, for the contract of text-format loops. Created by the crate that knows tool schemas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolListing {
    /// `type Name = ...;` lines of shared types.
    pub shared_types: String,
    /// `declare function ...` blocks.
    pub expanded: String,
    /// One-line bullets of compact tools.
    pub compact: String,
    /// Deferred tools to be listed with name and first sentence (`tool_search.include_stub_listing`).
    pub deferred: Vec<(String, String)>,
}

/// The inputs of a turn's primary block.
#[derive(Clone, Copy, Debug)]
pub struct TurnInput<'a> {
    /// The loop's options. `active_skills` contains the entries of the active skills, `recitation` is already
    /// evaluated, `tool_format` is resolved, and `done_sentinel` is only present if the caller of the loop set it.
    pub options: &'a Value,
    /// The system prompt stored with the session; see [`session_system`].
    pub session_system: Option<&'a str>,
    /// The loop's active tools as text; only used by text-format loops.
    pub listing: &'a ToolListing,
}

/// Returns the system prompt stored with a session, given as a transcript dict: `system`, else `metadata.system`.
#[must_use]
pub fn session_system(session: &Value) -> Option<&str> {
    let dict = session.as_object()?;
    text(dict, "system").or_else(|| text(dict.get("metadata")?.as_object()?, "system"))
}

/// Builds the fragments of a turn's primary block, in order. Skips fragments without content.
///
/// A list in `_system_fragments` replaces the system prompt and the context profile, as in a single call. The fragments
/// of the turn itself follow, except those whose id is already in the list.
///
/// # Errors
/// The options are not a dict, a fragment has a wrong shape, or an asset cannot be rendered.
pub fn turn_fragments(input: &TurnInput<'_>, prose: &dyn Prose) -> Result<Vec<Fragment>, TurnError> {
    let Some(options) = input.options.as_object() else {
        return Err(TurnError::NotADict {
            function: "agent_build_turn_system_fragments",
            got: input.options.type_name().to_owned(),
        });
    };
    let turn = Turn::of(options);
    let mut given = Vec::new();
    let owned = decomposed(options, &mut given)?;
    let mut list = Vec::new();
    if !owned {
        list.extend(base_system(options, input.session_system).map(|body| primary("system", body)));
    }
    list.push(primary("mcp_advisory", mcp_advisory(options, prose)?));
    if !owned {
        list.extend(profile_fragments(options, ProfileIds::Plain)?);
    }
    let active = skills(options.get("active_skills"));
    list.push(primary("active_skills", active_skills(&active)));
    list.push(primary("skill_catalog", skill_catalog(options, &active, prose)?));
    if let Some(tool) = text(options, "progress_tool") {
        let body =
            prose.render(&agent_asset("progress_nudge"), &map(object([("progress_tool", tool.into())])))?;
        list.push(primary("progress_nudge", body).requiring_tool(tool));
    }
    if turn.loop_until_done || turn.has_sentinel {
        let body = prose.render(&agent_asset("loop_until_done_system"), &turn.loop_bindings(options))?;
        list.push(primary("loop_contract", body));
    }
    if turn.has_tools {
        list.push(if turn.native {
            primary("native_tool_contract", turn.native_contract(options, input.listing, prose)?)
        } else {
            primary("text_tool_contract", turn.text_contract(options, input.listing, prose)?)
        });
    }
    if let Some(recitation) = present(options, "recitation").and_then(Value::as_str) {
        list.push(primary("recitation", recitation.to_owned()).in_bucket(Bucket::After));
    }
    list.retain(|fragment| given.iter().all(|own| own.id != fragment.id));
    given.extend(list);
    given.retain(|fragment| !fragment.body.trim().is_empty());
    Ok(given)
}

/// Joins the bodies of [`turn_fragments`] with blank lines. The result is the assembled prompt without host parts,
/// provided that all conditions are met and no fragment is in the bucket `after`.
///
/// # Errors
/// Those of [`turn_fragments`].
pub fn turn_system(input: &TurnInput<'_>, prose: &dyn Prose) -> Result<String, TurnError> {
    let fragments = turn_fragments(input, prose)?;
    Ok(fragments.iter().map(|fragment| fragment.body.trim()).collect::<Vec<_>>().join(SEPARATOR))
}

/// The settings of the loop, from its options.
struct Turn {
    has_tools: bool,
    native: bool,
    loop_until_done: bool,
    has_sentinel: bool,
    sentinel: String,
    sentinel_active: bool,
    require_action: bool,
}

impl Turn {
    fn of(options: &Map<String, Value>) -> Self {
        let policy = options.get("turn_policy").and_then(Value::as_object);
        let loop_until_done = flag(options, "persistent") || flag(options, "loop_until_done");
        let sentinel = text(options, "done_sentinel");
        let allowed = policy.and_then(|p| p.get("allow_done_sentinel")) != Some(&Value::Bool(false));
        Self {
            has_tools: options
                .get("tools")
                .is_some_and(|t| tools::entries(t).iter().any(|e| tools::entry_name(e).is_some())),
            native: options.get("tool_format").and_then(Value::as_str) == Some("native"),
            loop_until_done,
            has_sentinel: sentinel.is_some(),
            sentinel: sentinel.unwrap_or(DEFAULT_SENTINEL).to_owned(),
            sentinel_active: allowed && (loop_until_done || sentinel.is_some()),
            require_action: policy.is_some_and(|p| flag(p, "require_action_or_yield")),
        }
    }

    fn sentinel_bindings(&self) -> Map<String, Value> {
        map(object([("done_sentinel", self.sentinel.clone().into())]))
    }

    fn loop_bindings(&self, options: &Map<String, Value>) -> Map<String, Value> {
        map(object([
            ("loop_until_done", self.loop_until_done.into()),
            ("exit_when_verified", flag(options, "exit_when_verified").into()),
            ("has_tools", self.has_tools.into()),
            ("native_mode", self.native.into()),
            ("native_done", (self.native && self.sentinel_active).into()),
            ("sentinel_active", self.sentinel_active.into()),
            ("done_sentinel", self.sentinel.clone().into()),
        ]))
    }

    fn native_contract(
        &self,
        options: &Map<String, Value>,
        listing: &ToolListing,
        prose: &dyn Prose,
    ) -> Result<String, ProseError> {
        let bindings = self.sentinel_bindings();
        let mut body = prose.render(&agent_asset("tool_contract_native"), &bindings)?;
        let parts = [
            ("tool_contract_action_native", self.require_action),
            ("tool_contract_task_ledger", has_ledger(options)),
        ];
        for (stem, _) in parts.into_iter().filter(|(_, wanted)| *wanted) {
            body = join(&body, &prose.render(&agent_asset(stem), &bindings)?);
        }
        with_stubs(body, options, listing, prose)
    }

    fn text_contract(
        &self,
        options: &Map<String, Value>,
        listing: &ToolListing,
        prose: &dyn Prose,
    ) -> Result<String, ProseError> {
        let bindings = self.sentinel_bindings();
        let part = |stem: &str, wanted: bool| match wanted {
            true => prose.render(&agent_asset(stem), &bindings).map(|body| body.trim().to_owned()),
            false => Ok(String::new()),
        };
        let ledger = has_ledger(options);
        let mut protocol = bindings.clone();
        protocol.insert("body_hint".into(), Value::Null);
        let protocol = prose.render(&agent_asset("tool_contract_text_response_protocol"), &protocol)?;
        let contract = object([
            ("mode", "text".into()),
            ("native_mode", false.into()),
            ("require_action", self.require_action.into()),
            ("done_sentinel", self.sentinel.clone().into()),
            ("include_task_ledger_help", ledger.into()),
            ("tool_examples", present(options, "tool_examples").map(Value::printed).into()),
            ("shared_types", listing.shared_types.clone().into()),
            ("expanded_schemas", listing.expanded.clone().into()),
            ("compact_schemas", listing.compact.clone().into()),
            ("native_contract", "".into()),
            ("action_native_contract", "".into()),
            ("action_text_contract", part("tool_contract_action_text", self.require_action)?.into()),
            ("task_ledger_contract", part("tool_contract_task_ledger", ledger)?.into()),
            ("text_response_protocol", protocol.trim().into()),
        ]);
        let body = prose.render(&agent_asset("tool_contract_text"), &map(contract))?;
        with_stubs(body, options, listing, prose)
    }
}

fn has_ledger(options: &Map<String, Value>) -> bool {
    present(options, "task_ledger").is_some() || present(options, "deliverables").is_some()
}

/// Adds the list of tools that a search can find.
fn with_stubs(
    body: String,
    options: &Map<String, Value>,
    listing: &ToolListing,
    prose: &dyn Prose,
) -> Result<String, ProseError> {
    if listing.deferred.is_empty() {
        return Ok(body);
    }
    let stub = |(name, description): &(String, String)| {
        object([("name", quote_name(name).into()), ("description", quote_name(description).into())])
    };
    let search = options.get("tool_search").and_then(Value::as_object).and_then(|dict| text(dict, "name"));
    let stubs = object([
        ("search_tool", search.unwrap_or("__harn_tool_search").into()),
        ("tools", listing.deferred.iter().map(stub).collect::<Vec<_>>().into()),
    ]);
    Ok(join(&body, &prose.render(&agent_asset("tool_contract_deferred_tools"), &map(stubs))?))
}

fn primary(name: &str, body: String) -> Fragment {
    Fragment::new(format!("primary:{name}"), "primary", body)
}

fn join(first: &str, second: &str) -> String {
    [first.trim(), second.trim()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(SEPARATOR)
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn base_system(options: &Map<String, Value>, stored: Option<&str>) -> Option<String> {
    let given = options.get("system").and_then(system_text);
    given.or_else(|| stored.filter(|_| !host::any(options)).map(str::to_owned))
}

/// Renders the instructions that MCP servers sent when they were initialized, marked as advisory.
fn mcp_advisory(options: &Map<String, Value>, prose: &dyn Prose) -> Result<String, ProseError> {
    if !flag(options, "mcp_initialize_advisory") {
        return Ok(String::new());
    }
    let context = options.get("mcp_context").and_then(Value::as_object);
    let advisory = context.and_then(|context| context.get("initialize_advisory"));
    let servers = match advisory {
        Some(Value::Array(list)) => list.as_slice(),
        Some(other) => {
            other.as_object().and_then(|d| d.get("servers")?.as_array()).map_or(&[][..], Vec::as_slice)
        }
        None => &[],
    };
    let mut body = String::new();
    for server in servers.iter().filter_map(Value::as_object) {
        let Some(instructions) = text(server, "instructions") else { continue };
        if body.is_empty() {
            body.push_str("## MCP Server Advisory Context");
        }
        let name = quote_name(text(server, "name").unwrap_or("mcp-server").trim());
        let bindings = map(object([("name", name.as_str().into())]));
        let note = prose.render(&agent_asset("mcp_advisory_note"), &bindings)?;
        let instructions = without_controls(instructions.trim());
        body.push_str(&format!("\n\n### {name}\n{}\n{}", note.trim(), quote(&instructions)));
    }
    Ok(body)
}

/// A skill entry with a name.
struct Skill<'a> {
    id: String,
    entry: &'a Map<String, Value>,
}

/// Parses skill entries from a list or a registry `{skills: [...]}`; skips entries without a name.
fn skills(value: Option<&Value>) -> Vec<Skill<'_>> {
    let list = match value {
        Some(Value::Array(list)) => list.as_slice(),
        Some(other) => {
            other.as_object().and_then(|r| r.get("skills")?.as_array()).map_or(&[][..], Vec::as_slice)
        }
        None => &[],
    };
    list.iter()
        .filter_map(Value::as_object)
        .filter_map(|entry| {
            let name = text(entry, "name")?;
            let id = match (text(entry, "id"), text(entry, "namespace")) {
                (Some(id), _) => id.to_owned(),
                (None, Some(namespace)) => format!("{namespace}/{name}"),
                (None, None) => name.to_owned(),
            };
            Some(Skill { id, entry })
        })
        .collect()
}

fn active_skills(active: &[Skill<'_>]) -> String {
    let mut body = String::new();
    for Skill { id, entry } in active {
        if body.is_empty() {
            body.push_str("## Active skills");
        }
        let title = text(entry, "id").or_else(|| text(entry, "name")).unwrap_or(id);
        body.push_str(&format!("\n\n### {}", quote_name(title.trim())));
        let mut line =
            |label: &str, value: &str| body.push_str(&format!("\n{label}{}", quote_name(value.trim())));
        if let Some(description) = text(entry, "description").or_else(|| text(entry, "short")) {
            line("", description);
        }
        if let Some(when) = text(entry, "when_to_use") {
            line("When to use: ", when);
        }
        if let Some(scoped) = present(entry, "allowed_tools").map(names) {
            let scoped = if scoped.is_empty() { "none".to_owned() } else { scoped.join(", ") };
            line("Scoped tools: ", &scoped);
        }
        if let Some(prompt) = text(entry, "prompt") {
            body.push_str(&format!("\n\n{}", quote_frames(prompt.trim())));
        }
    }
    body
}

fn skill_catalog(
    options: &Map<String, Value>,
    active: &[Skill<'_>],
    prose: &dyn Prose,
) -> Result<String, ProseError> {
    if options.get("skill_catalog") == Some(&Value::Bool(false)) {
        return Ok(String::new());
    }
    if let Some(given) = text(options, "skill_catalog_prompt") {
        return Ok(given.to_owned());
    }
    let entries: Vec<CatalogEntry> = skills(options.get("skills"))
        .iter()
        .filter(|skill| !active.iter().any(|a| a.id == skill.id))
        .filter(|skill| !flag(skill.entry, "disable-model-invocation"))
        .filter(|skill| !flag(skill.entry, "disable_model_invocation"))
        .map(CatalogEntry::of)
        .collect();
    if entries.is_empty() {
        return Ok(String::new());
    }
    skill_catalog_text(&entries, CATALOG_BUDGET, prose)
}

/// The default size of a skill catalog, in characters.
pub(crate) const CATALOG_BUDGET: usize = 2000;

/// One line of the catalog of loadable skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogEntry {
    /// `namespace/name` or `name`.
    pub id: String,
    /// The short description.
    pub description: String,
    /// When to load the skill; may be empty.
    pub when_to_use: String,
}

impl CatalogEntry {
    fn of(skill: &Skill<'_>) -> Self {
        let field = |key| text(skill.entry, key).unwrap_or_default().trim().to_owned();
        let short = field("short");
        Self {
            id: skill.id.clone(),
            description: if short.is_empty() { field("description") } else { short },
            when_to_use: field("when_to_use"),
        }
    }
}

/// Renders the catalog of loadable skills (`render_always_on_catalog`): sorted by id, limited to `budget` characters,
/// with the number of omitted skills; `(none)` without entries.
///
/// # Errors
/// The asset `skill_catalog_intro` cannot be rendered.
pub fn skill_catalog_text(
    entries: &[CatalogEntry],
    budget: usize,
    prose: &dyn Prose,
) -> Result<String, ProseError> {
    if entries.is_empty() {
        return Ok("(none)".to_owned());
    }
    let mut sorted: Vec<&CatalogEntry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let intro = prose.render(&agent_asset("skill_catalog_intro"), &Map::new())?;
    let head = format!("## Available skills\n\n{}\n\n", intro.trim());
    let lines: Vec<String> = sorted
        .iter()
        .map(|entry| {
            let mut line = format!("- `{}`: {}", quote_name(&entry.id), quote_name(&entry.description));
            if !entry.when_to_use.is_empty() {
                line.push_str(&format!("\n  when: {}", quote_name(&entry.when_to_use)));
            }
            line
        })
        .collect();
    let omitted = |count: usize| format!("\n\n... {count} more skill(s) omitted to stay within budget."); // prose-ok: count
    let chars = |s: &str| s.chars().count();
    let mut size = chars(&head);
    let mut kept = 0;
    for (i, line) in lines.iter().enumerate() {
        let next = size + chars(line) + usize::from(i > 0);
        let rest = lines.len() - i - 1;
        let reserve = if rest == 0 { 0 } else { chars(&omitted(rest)) };
        if next + reserve > budget {
            break;
        }
        size = next;
        kept = i + 1;
    }
    let mut body = head + &lines[..kept].join("\n");
    if kept < lines.len() {
        body = body.trim_end().to_owned() + &omitted(lines.len() - kept);
    }
    Ok(body)
}

#[cfg(test)]
mod tests;
