//! Capabilities of a route (provider and model), looked up in an ordered table of rules.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use harn_value::{Data as Value, json};
use serde::Deserialize;

/// The capabilities of a route. `Default` describes a route that no rule matches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Whether the route supports native tool calls.
    pub native_tools: bool,
    /// Whether the server honours `defer_loading` on tools.
    pub defer_loading: bool,
    /// Native search variants, preferred first.
    pub tool_search: Vec<String>,
    /// Maximum number of tools.
    pub max_tools: Option<i64>,
    /// Whether the route supports prompt caching controls.
    pub prompt_caching: bool,
    /// Supported thinking modes: a subset of `enabled`, `adaptive`, `effort`.
    pub thinking_modes: Vec<String>,
    /// Minimum and maximum thinking budget in tokens; empty when unknown.
    pub thinking_budget: Vec<i64>,
    /// Reasoning efforts that the model accepts; empty when unknown. With `none`, thinking can be switched off.
    pub reasoning_efforts: Vec<String>,
    /// Whether interleaved thinking can be switched on.
    pub interleaved_thinking_supported: bool,
    /// Beta features that are always sent on this route.
    pub anthropic_beta_features: Vec<String>,
    /// Whether the model accepts images.
    pub vision_supported: bool,
    /// Whether the model accepts audio.
    pub audio: bool,
    /// Whether the model accepts documents.
    pub pdf: bool,
    /// How structured output is requested: `native`, `json_object` (JSON mode, with the schema in the prompt),
    /// `tool_use`, `format_kw`.
    pub structured_output: Option<String>,
    /// Whether reasoning is retained in the history.
    pub preserve_thinking: bool,
    /// Name of the server's response parser.
    pub server_parser: String,
    /// Whether `chat_template_kwargs` is sent.
    pub honors_chat_template_kwargs: bool,
    /// Whether `max_completion_tokens` is sent instead of `max_tokens`.
    pub requires_completion_tokens: bool,
    /// Whether `reasoning_effort` is sent.
    pub reasoning_effort_supported: bool,
    /// Recommended endpoint.
    pub recommended_endpoint: Option<String>,
    /// Whether replies to requests with tools can be streamed.
    pub streams_tools: bool,
    /// Whether replies to requests with a schema can be streamed.
    pub streams_schema: bool,
    /// Whether tagged text tool calls are delivered unchanged.
    pub text_tool_wire_format_supported: bool,
    /// Preferred tool format: `native` or `text`.
    pub preferred_tool_format: Option<String>,
    /// Whether templates should mark sections with XML tags.
    pub prefers_xml_scaffolding: bool,
    /// Whether templates should mark sections with Markdown headings.
    pub prefers_markdown_scaffolding: bool,
    /// Mode of structured output: `native_json`, `delimited`, `xml_tagged` or `none`.
    pub structured_output_mode: String,
    /// Whether the model continues a trailing assistant message.
    pub supports_assistant_prefill: bool,
    /// Whether durable instructions use the role `developer`.
    pub prefers_role_developer: bool,
    /// Whether tools in text are rendered as `<tools>`.
    pub prefers_xml_tools: bool,
    /// Form of reasoning in replies: `none`, `thinking_blocks`, `reasoning_summary` or `inline`.
    pub thinking_block_style: String,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            native_tools: true,
            defer_loading: false,
            tool_search: Vec::new(),
            max_tools: None,
            prompt_caching: false,
            thinking_modes: Vec::new(),
            thinking_budget: Vec::new(),
            reasoning_efforts: Vec::new(),
            interleaved_thinking_supported: false,
            anthropic_beta_features: Vec::new(),
            vision_supported: false,
            audio: false,
            pdf: false,
            structured_output: None,
            preserve_thinking: false,
            server_parser: "none".into(),
            honors_chat_template_kwargs: false,
            requires_completion_tokens: false,
            reasoning_effort_supported: false,
            recommended_endpoint: None,
            streams_tools: true,
            streams_schema: true,
            text_tool_wire_format_supported: true,
            preferred_tool_format: None,
            prefers_xml_scaffolding: false,
            prefers_markdown_scaffolding: false,
            structured_output_mode: "none".into(),
            supports_assistant_prefill: false,
            prefers_role_developer: false,
            prefers_xml_tools: false,
            thinking_block_style: "none".into(),
        }
    }
}

impl Capabilities {
    /// Returns the dict of `provider_capabilities`.
    pub fn to_json(&self, provider: &str, model: &str) -> Value {
        json!({
            "provider": provider, "model": model,
            "native_tools": self.native_tools, "defer_loading": self.defer_loading, "tool_search": self.tool_search,
            "max_tools": self.max_tools, "prompt_caching": self.prompt_caching,
            "thinking_modes": self.thinking_modes, "thinking": !self.thinking_modes.is_empty(),
            "thinking_budget": self.thinking_budget, "reasoning_efforts": self.reasoning_efforts,
            "interleaved_thinking_supported": self.interleaved_thinking_supported,
            "anthropic_beta_features": self.anthropic_beta_features, "vision_supported": self.vision_supported,
            "audio": self.audio, "pdf": self.pdf, "structured_output": self.structured_output,
            "preserve_thinking": self.preserve_thinking, "server_parser": self.server_parser,
            "honors_chat_template_kwargs": self.honors_chat_template_kwargs,
            "requires_completion_tokens": self.requires_completion_tokens,
            "reasoning_effort_supported": self.reasoning_effort_supported,
            "recommended_endpoint": self.recommended_endpoint,
            "streams_tools": self.streams_tools, "streams_schema": self.streams_schema,
            "text_tool_wire_format_supported": self.text_tool_wire_format_supported,
            "preferred_tool_format": self.preferred_tool_format,
            "prefers_xml_scaffolding": self.prefers_xml_scaffolding,
            "prefers_markdown_scaffolding": self.prefers_markdown_scaffolding,
            "structured_output_mode": self.structured_output_mode,
            "supports_assistant_prefill": self.supports_assistant_prefill,
            "prefers_role_developer": self.prefers_role_developer, "prefers_xml_tools": self.prefers_xml_tools,
            "thinking_block_style": self.thinking_block_style,
            "tools": self.native_tools || self.text_tool_wire_format_supported,
        })
    }

    /// Returns whether the route supports a thinking mode.
    pub fn thinks(&self, mode: &str) -> bool {
        self.thinking_modes.iter().any(|m| m == mode)
    }
}

/// The keys of a rule. `version_min` and the deprecated keys are read separately.
const KEYS: &[&str] = &[
    "model_match",
    "native_tools",
    "defer_loading",
    "tool_search",
    "max_tools",
    "prompt_caching",
    "thinking_modes",
    "thinking_budget",
    "reasoning_efforts",
    "interleaved_thinking_supported",
    "anthropic_beta_features",
    "vision_supported",
    "audio",
    "pdf",
    "structured_output",
    "preserve_thinking",
    "server_parser",
    "honors_chat_template_kwargs",
    "requires_completion_tokens",
    "reasoning_effort_supported",
    "recommended_endpoint",
    "streams_tools",
    "streams_schema",
    "text_tool_wire_format_supported",
    "preferred_tool_format",
    "prefers_xml_scaffolding",
    "prefers_markdown_scaffolding",
    "structured_output_mode",
    "supports_assistant_prefill",
    "prefers_role_developer",
    "prefers_xml_tools",
    "thinking_block_style",
];

/// The keys with enumerated values, and the allowed values. The code would ignore any other value.
const WORDS: &[(&str, &[&str])] = &[
    ("tool_search", &["bm25", "regex", "hosted", "client"]),
    ("thinking_modes", &["enabled", "adaptive", "effort"]),
    ("reasoning_efforts", &["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
    ("structured_output", &["native", "json_object", "tool_use", "format_kw", "none", "json_schema"]),
    ("preferred_tool_format", &["native", "text"]),
    ("structured_output_mode", &["native_json", "delimited", "xml_tagged", "none"]),
    ("thinking_block_style", &["none", "thinking_blocks", "reasoning_summary", "inline"]),
];

/// Rejects unknown values of enumerated keys, a negative `max_tools` and an invalid `thinking_budget`.
fn check_words(table: &toml::Table) -> Result<(), String> {
    if let Some(most) = table.get("max_tools").and_then(toml::Value::as_integer).filter(|most| *most < 0) {
        return Err(format!("`max_tools` must be at least 0, got `{most}`"));
    }
    if let Some(limits) = table.get("thinking_budget") {
        let numbers = || limits.as_array()?.iter().map(toml::Value::as_integer).collect::<Option<Vec<_>>>();
        let fits = numbers().is_some_and(|n| matches!(n[..], [least, most] if 0 <= least && least <= most));
        if !fits {
            let wanted = "the least and the most tokens, as in `[128, 32768]`";
            return Err(format!("`thinking_budget` must be {wanted}, got `{limits}`"));
        }
    }
    for (key, words) in WORDS {
        let given = match table.get(*key) {
            Some(toml::Value::Array(list)) => list.iter().collect(),
            one => Vec::from_iter(one),
        };
        let wrong = given.into_iter().filter_map(toml::Value::as_str).find(|word| !words.contains(word));
        if let Some(word) = wrong {
            let near = crate::options::nearest(word, words.iter().copied());
            let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            return Err(format!("`{key}` must be one of {}, got `{word}`{hint}", words.join(", ")));
        }
    }
    Ok(())
}

/// A rule: the model ids that it matches and their capabilities.
#[derive(Debug, Clone)]
struct Rule {
    model_match: String,
    version: VersionMin,
    caps: Capabilities,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum VersionMin {
    Any,
    AtLeast(u32, u32),
    /// A list of the wrong length: the rule never matches.
    Never,
}

impl VersionMin {
    fn of(value: &toml::Value) -> Result<VersionMin, String> {
        let whole = |value: &toml::Value| value.as_integer().and_then(|n| u32::try_from(n).ok());
        let numbers = value.as_array().and_then(|list| list.iter().map(whole).collect::<Option<Vec<u32>>>());
        match numbers.as_deref() {
            Some([major, minor]) => Ok(VersionMin::AtLeast(*major, *minor)),
            Some(_) => Ok(VersionMin::Never),
            None => Err(format!("`version_min` must be two whole numbers, as in `[4, 7]`, got `{value}`")),
        }
    }
}

impl Rule {
    fn from_table(mut table: toml::Table) -> Result<Rule, String> {
        // Keys that are not capabilities, and deprecated names of capabilities.
        let known = || KEYS.iter().copied().chain(["version_min", "vision", "thinking"]);
        for key in table.keys().filter(|key| known().all(|known| known != key.as_str())) {
            // Other unknown keys may belong to a later version.
            if let Some(name) = crate::options::nearest(key, known()) {
                return Err(format!("unknown key `{key}` (did you mean `{name}`?)"));
            }
        }
        let model_match = match table.get("model_match").and_then(|v| v.as_str()) {
            Some(text) => text.to_lowercase(),
            None => return Err("rule without `model_match`".to_string()),
        };
        let version = match table.remove("version_min") {
            None => VersionMin::Any,
            Some(value) => VersionMin::of(&value)?,
        };
        if let Some(vision) = table.remove("vision") {
            table.entry("vision_supported".to_string()).or_insert(vision);
        }
        match table.remove("thinking") {
            Some(toml::Value::Boolean(true)) if !table.contains_key("thinking_modes") => {
                table.insert("thinking_modes".into(), toml::Value::Array(vec!["enabled".into()]));
            }
            None | Some(toml::Value::Boolean(_)) => {}
            Some(other) => return Err(format!("`thinking` must be a bool, got `{other}`")),
        }
        check_words(&table)?;
        match table.get("structured_output").and_then(|v| v.as_str()) {
            Some("none") => drop(table.remove("structured_output")),
            Some("json_schema") => drop(table.insert("structured_output".into(), "native".into())),
            _ => {}
        }
        let caps = Capabilities::deserialize(table).map_err(|e| e.to_string())?;
        Ok(Rule { model_match, version, caps })
    }

    fn matches(&self, id: &str) -> bool {
        harn_value::glob(&self.model_match, id)
            && match self.version {
                VersionMin::Any => true,
                VersionMin::Never => false,
                VersionMin::AtLeast(major, minor) => model_version(id).is_some_and(|v| v >= (major, minor)),
            }
    }
}

/// Returns the line, counted from 1, that contains a byte offset.
fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count() + 1
}

/// Parses the version in a model id, following the naming schemes of Anthropic, OpenAI and Google.
pub(crate) fn model_version(id: &str) -> Option<(u32, u32)> {
    let id = id.to_lowercase();
    if id.starts_with("claude-") || id.contains("/claude-") || id.contains(".claude-") {
        let after = ["opus-", "sonnet-", "haiku-", "fable-", "mythos-"]
            .iter()
            .filter_map(|family| id.find(family).map(|at| (at, &id[at + family.len()..])))
            .min_by_key(|(at, _)| *at)
            .map(|(_, rest)| rest);
        if let Some(version) = after.and_then(leading_version) {
            return Some(version);
        }
    }
    let tail = id.rsplit('/').next().unwrap_or(&id);
    ["gpt-", "gemini-"].iter().find_map(|name| {
        let at = tail.find(name)?;
        leading_version(&tail[at + name.len()..])
    })
}

/// Parses `M.m`, `M-m` or `M`. A second number of 1000 or more is a date and is ignored.
fn leading_version(text: &str) -> Option<(u32, u32)> {
    let digits = |s: &str| -> Option<(u32, usize)> {
        let end = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        s[..end].parse().ok().map(|n| (n, end))
    };
    let (major, end) = digits(text)?;
    let rest = &text[end..];
    // `4o` is a name, not version 4, and `20241022` is a date.
    if major >= 1000 || rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let minor = match rest.strip_prefix(['.', '-']).and_then(digits) {
        Some((n, _)) if n < 1000 => n,
        _ => 0,
    };
    Some((major, minor))
}

static SHIPPED: LazyLock<Shipped> = LazyLock::new(|| Shipped::split(include_str!("data/capabilities.toml")));

/// The shipped table. The rules of a provider are parsed on first use, because a program uses few providers.
struct Shipped {
    /// Everything except rules.
    head: Rules,
    by_provider: BTreeMap<&'static str, Section>,
}

/// The rules of a provider: their TOML source, and the parsed rules.
#[derive(Default)]
struct Section {
    text: String,
    rules: OnceLock<Rules>,
}

impl Shipped {
    /// Splits the TOML source of a table in which all `[[provider.NAME]]` rules come last.
    fn split(text: &'static str) -> Shipped {
        let (mut head, mut by_provider) = (String::new(), BTreeMap::<_, Section>::new());
        let mut provider = None;
        for line in text.split_inclusive('\n') {
            let begins = line.trim_end().strip_prefix("[[provider.").and_then(|line| line.strip_suffix("]]"));
            provider = begins.or(provider);
            match provider {
                Some(name) => by_provider.entry(name).or_default().text.push_str(line),
                None => head.push_str(line),
            }
        }
        Shipped { head: Rules::parse(&head).expect(VALID), by_provider }
    }

    fn rules(&self, provider: &str) -> Option<&Rules> {
        let section = self.by_provider.get(provider)?;
        Some(section.rules.get_or_init(|| Rules::parse(&section.text).expect(VALID)))
    }
}

const VALID: &str = "the shipped table is valid";

#[derive(Debug, Clone, Default)]
struct Rules {
    by_provider: BTreeMap<String, Vec<Rule>>,
    /// The families of a provider, first choice first.
    families: BTreeMap<String, Vec<String>>,
    /// Providers that enforce a schema when no rule sets `structured_output`.
    enforces_schema: Vec<String>,
}

/// Parses the families of one provider: a name or a list of names.
fn families(value: &toml::Value) -> Result<Vec<String>, String> {
    let names = match value {
        toml::Value::String(name) => Some(vec![name.clone()]),
        toml::Value::Array(list) => list.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    names.ok_or_else(|| "expected a provider or a list of providers".to_string())
}

/// Returns the table under `name`, if present.
///
/// # Errors
/// The value under `name` is not a table.
fn inner_table<'t>(table: &'t toml::Table, name: &str) -> Result<Option<&'t toml::Table>, String> {
    let found = |value: &'t toml::Value| {
        value.as_table().ok_or_else(|| format!("{name}: expected a table, got {}", value.type_str()))
    };
    table.get(name).map(found).transpose()
}

/// Rejects TOML that has top-level tables other than rules, because they would have no effect.
fn only_tables_of_rules(source: &str) -> Result<(), String> {
    let table: toml::Table = source.parse().map_err(|e: toml::de::Error| e.to_string())?;
    match table.keys().find(|key| !matches!(key.as_str(), "provider" | "provider_family")) {
        None => Ok(()),
        Some(key) => Err(format!(
            "unknown table `{key}`; rules are `[[provider.NAME]]` and `[provider_family]`, without `capabilities.` in front" // prose-ok: diagnostic
        )),
    }
}

impl Rules {
    fn parse(source: &str) -> Result<Rules, String> {
        let table: toml::Table = source.parse().map_err(|e: toml::de::Error| e.to_string())?;
        Rules::from_table(&table)
    }

    fn from_table(table: &toml::Table) -> Result<Rules, String> {
        let mut rules = Rules::default();
        if let Some(names) = table.get("enforces_schema") {
            rules.enforces_schema = families(names)?;
        }
        for (name, list) in inner_table(table, "provider")?.into_iter().flatten() {
            let list = list.as_array().ok_or_else(|| format!("provider.{name}: expected a list of rules"))?;
            let parsed = list.iter().map(|rule| match rule.as_table() {
                Some(table) => Rule::from_table(table.clone()).map_err(|e| format!("provider.{name}: {e}")),
                None => Err(format!("provider.{name}: expected a table")),
            });
            rules.by_provider.insert(name.clone(), parsed.collect::<Result<_, _>>()?);
        }
        for (name, family) in inner_table(table, "provider_family")?.into_iter().flatten() {
            let list = families(family).map_err(|e| format!("provider_family.{name}: {e}"))?;
            rules.families.insert(name.clone(), list);
        }
        Ok(rules)
    }

    fn find(&self, provider: &str, id: &str) -> Option<&Capabilities> {
        self.by_provider.get(provider)?.iter().find(|r| r.matches(id)).map(|r| &r.caps)
    }
}

/// The capability matrix: shipped rules, with the user's rules in front of them.
#[derive(Debug, Clone)]
pub struct CapabilityMatrix {
    /// Rules installed by the program.
    installed: Rules,
    /// Rules of `harn.toml`: the project's, then packages'.
    manifest: Rules,
    /// Cached lookups under these rules: every call of an agent loop repeats the same lookup.
    asked: RefCell<BTreeMap<String, Capabilities>>,
}

/// The maximum number of cached lookups. A program uses few models.
const REMEMBERED: usize = 256;

impl CapabilityMatrix {
    /// Creates a matrix with only the shipped rules.
    pub fn shipped() -> CapabilityMatrix {
        CapabilityMatrix {
            installed: Rules::default(),
            manifest: Rules::default(),
            asked: RefCell::default(),
        }
    }

    /// Adds rules from manifests: the project's first, then those of packages, each with its file name. Each manifest
    /// may contain the tables `capabilities.provider.<name>`, `capabilities.provider_family` and `provider_family`.
    /// Returns the problems, with file and line; valid rules are still added.
    pub(crate) fn add_manifests(&mut self, manifests: &[(&str, &str)]) -> Vec<String> {
        self.asked.get_mut().clear();
        let mut problems = Vec::new();
        for (file, text) in manifests {
            let table = match text.parse::<toml::Table>() {
                Ok(table) => table,
                Err(error) => {
                    let start = error.span().map_or(0, |span| span.start);
                    problems.push(format!("{file}:{}: {}", line_of(text, start), error.message()));
                    continue;
                }
            };
            // A value that is not a table is reported, and the other tables are still read.
            let mut table_of = |table: Option<&'_ toml::Table>, name, within: &str| {
                let found = table.and_then(|table| inner_table(table, name).transpose());
                found.and_then(|found| {
                    found.map_err(|problem| problems.push(format!("{file}: {within}{problem}"))).ok().cloned()
                })
            };
            let inner = table_of(Some(&table), "capabilities", "");
            let rules = table_of(inner.as_ref(), "provider", "capabilities.");
            let tables = [
                table_of(inner.as_ref(), "provider_family", "capabilities."),
                table_of(Some(&table), "provider_family", ""),
            ];
            for (name, list) in rules.iter().flatten() {
                let header = format!("[[capabilities.provider.{name}]]");
                let starts: Vec<usize> = text.match_indices(&header).map(|(at, _)| at).collect();
                let place = |index: usize| line_of(text, starts.get(index).copied().unwrap_or(0));
                let Some(list) = list.as_array() else {
                    problems.push(format!("{file}: capabilities.provider.{name}: expected a list of rules"));
                    continue;
                };
                for (index, rule) in list.iter().enumerate() {
                    let table = rule.as_table().ok_or_else(|| "expected a table".to_string());
                    match table.and_then(|table| Rule::from_table(table.clone())) {
                        Ok(rule) if rule.version == VersionMin::Never => problems.push(format!(
                            "{file}:{}: capabilities.provider.{name}: `version_min` must be two whole numbers, as in `[4, 7]`; \
                             this rule never applies",
                            place(index)
                        )),
                        Ok(rule) => self.manifest.by_provider.entry(name.clone()).or_default().push(rule),
                        Err(problem) => problems.push(format!(
                            "{file}:{}: capabilities.provider.{name}: {}",
                            place(index),
                            problem.trim_end().replace('\n', " ")
                        )),
                    }
                }
            }
            for (name, family) in tables.iter().flatten().flatten() {
                match families(family) {
                    Ok(list) => drop(self.manifest.families.entry(name.clone()).or_insert(list)),
                    Err(problem) => problems.push(format!("{file}: provider_family.{name}: {problem}")),
                }
            }
        }
        problems
    }

    /// Replaces the rules installed by the program.
    ///
    /// # Errors
    /// `provider_capabilities_install: …` when the source is empty or does not parse.
    pub fn install(&mut self, source: &str) -> Result<(), String> {
        if source.trim().is_empty() {
            return Err("provider_capabilities_install: TOML source string required".into());
        }
        let rules = only_tables_of_rules(source).and_then(|()| Rules::parse(source));
        self.installed = rules.map_err(|e| format!("provider_capabilities_install: parse error: {e}"))?;
        self.asked.get_mut().clear();
        Ok(())
    }

    /// Removes all rules except the shipped ones.
    pub fn clear(&mut self) {
        self.installed = Rules::default();
        self.manifest = Rules::default();
        self.asked.get_mut().clear();
    }

    /// Returns the capabilities of a route.
    pub fn lookup(&self, provider: &str, model: &str) -> Capabilities {
        let key = format!("{provider}/{model}");
        if let Some(caps) = self.asked.borrow().get(&key) {
            return caps.clone();
        }
        let caps = self.search(provider, model);
        let mut asked = self.asked.borrow_mut();
        if asked.len() >= REMEMBERED {
            asked.clear();
        }
        asked.insert(key, caps.clone());
        caps
    }

    fn search(&self, provider: &str, model: &str) -> Capabilities {
        let id = model.to_lowercase();
        let own = [&self.installed, &self.manifest];
        let enforces = SHIPPED.head.enforces_schema.iter().any(|name| name == provider);
        let native = || enforces.then(|| "native".to_owned());
        let find = |name: &str| {
            let of_user = own.iter().find_map(|rules| rules.find(name, &id)).cloned();
            of_user.or_else(|| {
                let mut caps = SHIPPED.rules(name)?.find(name, &id)?.clone();
                caps.structured_output = caps.structured_output.or_else(native);
                Some(caps)
            })
        };
        let mut waiting = vec![provider];
        let mut seen = Vec::new();
        while let Some(name) = waiting.pop() {
            if seen.contains(&name) {
                continue;
            }
            if let Some(caps) = find(name) {
                return caps;
            }
            seen.push(name);
            let families = own.into_iter().chain([&SHIPPED.head]).find_map(|rules| rules.families.get(name));
            waiting.extend(families.into_iter().flatten().rev().map(String::as_str));
        }
        // The mock has native tools only for models that it imitates by name.
        let native_tools = provider != crate::mock::PROVIDER;
        Capabilities { native_tools, structured_output: native(), ..Capabilities::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(provider: &str, model: &str) -> Capabilities {
        CapabilityMatrix::shipped().lookup(provider, model)
    }

    #[test]
    fn the_sections_are_the_whole_table() {
        let whole = Rules::parse(include_str!("data/capabilities.toml")).unwrap();
        let names: Vec<&str> = whole.by_provider.keys().map(String::as_str).collect();
        assert_eq!(names, SHIPPED.by_provider.keys().copied().collect::<Vec<_>>());
        for (name, rules) in &whole.by_provider {
            let section = &SHIPPED.rules(name).unwrap().by_provider[name];
            assert_eq!(format!("{rules:?}"), format!("{section:?}"), "{name}");
        }
        assert_eq!(whole.families, SHIPPED.head.families);
        assert_eq!(whole.enforces_schema, SHIPPED.head.enforces_schema);
    }

    #[test]
    fn what_is_remembered_follows_the_rules() {
        let mut matrix = CapabilityMatrix::shipped();
        assert!(!matrix.lookup("openai", "gpt-4o").pdf);
        matrix.install("[[provider.openai]]\nmodel_match = \"*\"\npdf = true").unwrap();
        assert!(matrix.lookup("openai", "gpt-4o").pdf);
        matrix.clear();
        assert!(!matrix.lookup("openai", "gpt-4o").pdf);
        let manifest = "[[capabilities.provider.openai]]\nmodel_match = \"*\"\npdf = true";
        assert!(matrix.add_manifests(&[("harn.toml", manifest)]).is_empty());
        assert!(matrix.lookup("openai", "gpt-4o").pdf);
    }

    #[test]
    fn versions_are_read_from_ids() {
        for (id, version) in [
            ("claude-opus-4-7", Some((4, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-haiku-4-5-20251001", Some((4, 5))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("claude-3-5-sonnet-20241022", None),
            ("gpt-5.4-preview", Some((5, 4))),
            ("gpt-5-4", Some((5, 4))),
            ("gpt-5-20260115", Some((5, 0))),
            ("gpt-5", Some((5, 0))),
            ("gpt-4o", None),
            ("us.anthropic.claude-opus-4-6-v1", Some((4, 6))),
            ("anthropic.claude-sonnet-4-20250514-v1:0", Some((4, 0))),
            ("gemini-2.5-pro", Some((2, 5))),
            ("models/gemini-3-pro-preview", Some((3, 0))),
            ("gemini-flash-latest", None),
        ] {
            assert_eq!(model_version(id), version, "{id}");
        }
    }

    #[test]
    fn facts_that_must_hold() {
        let opus = lookup("anthropic", "claude-opus-4-7");
        assert!(opus.native_tools && opus.defer_loading && opus.prompt_caching && opus.vision_supported);
        assert_eq!((opus.tool_search.join(","), opus.max_tools), ("bm25,regex".into(), Some(10000)));
        assert_eq!(opus.thinking_modes, ["adaptive"]);
        let old = lookup("anthropic", "claude-opus-3-5");
        assert!(old.native_tools && old.prompt_caching && !old.defer_loading);
        assert_eq!(old.thinking_modes, ["enabled"]);
        assert!(!lookup("anthropic", "claude-haiku-4-4").defer_loading);
        assert!(lookup("anthropic", "claude-haiku-4-5").defer_loading);
        for heir in ["openrouter", "together", "groq", "deepseek", "fireworks", "huggingface", "local"] {
            assert!(lookup(heir, "gpt-5.4").defer_loading, "{heir}");
        }
        for (p, m) in [
            ("azure_openai", "gpt-4o-prod"),
            ("bedrock", "meta.llama3-70b-instruct-v1:0"),
            ("vertex", "gemini-1.5-pro-002"),
        ] {
            let caps = lookup(p, m);
            assert!(caps.native_tools && !caps.defer_loading, "{p}");
        }
        let qwen = lookup("ollama", "qwen3.5:9b");
        assert!(qwen.native_tools && !qwen.vision_supported);
        assert_eq!(lookup("nobody", "x"), Capabilities::default());
        for (provider, model, how) in [
            ("vllm", "my-own-model", Some("native")),
            ("vllm", "Qwen/Qwen2.5-VL-7B-Instruct", Some("native")),
            ("local", "my-own-model", None),
            ("groq", "llama-3.3-70b-versatile", Some("json_object")),
            ("groq", "openai/gpt-oss-safeguard-20b", Some("json_object")),
            ("groq", "openai/gpt-oss-120b", Some("native")),
            ("deepseek", "deepseek-v4-pro", Some("json_object")),
            ("fireworks", "accounts/fireworks/models/kimi-k2", Some("native")),
        ] {
            assert_eq!(lookup(provider, model).structured_output.as_deref(), how, "{provider}:{model}");
        }
        assert!(!lookup("groq", "openai/gpt-oss-120b").streams_schema);
        let mut own = CapabilityMatrix::shipped();
        own.install("[[provider.vllm]]\nmodel_match = \"old*\"\nstructured_output = \"none\"").unwrap();
        assert_eq!(own.lookup("vllm", "old-server").structured_output, None);
        assert!(lookup("mock", "claude-opus-4-7").prefers_xml_tools);
        assert_eq!(lookup("mock", "gpt-5.4").tool_search, ["hosted", "client"]);
    }

    #[test]
    fn what_reasons_at_openai_takes_other_keys() {
        for (provider, id, reasons) in [
            ("openai", "gpt-4o", false),
            ("openai", "gpt-5", true),
            ("openai", "gpt-5.4-mini", true),
            ("openai", "openai/gpt-5-mini", true),
            ("azure_openai", "gpt-5", true),
            ("azure_openai", "o3-prod", true),
            ("azure_openai", "gpt-4o-prod", false),
        ] {
            let caps = lookup(provider, id);
            assert_eq!(caps.requires_completion_tokens, reasons, "{provider} {id}");
            assert_eq!(caps.reasoning_effort_supported && caps.thinks("effort"), reasons, "{provider} {id}");
        }
    }

    #[test]
    fn prefill_ends_with_version_4_6() {
        for (id, prefill) in [
            ("claude-sonnet-4-5", true),
            ("claude-sonnet-4-6", false),
            ("claude-haiku-4-6", false),
            ("anthropic/claude-opus-4.7", false),
            ("claude-3-5-haiku-20241022", true),
        ] {
            assert_eq!(lookup("anthropic", id).supports_assistant_prefill, prefill, "{id}");
        }
    }

    #[test]
    fn installed_rules_come_first_and_can_be_dropped() {
        let mut matrix = CapabilityMatrix::shipped();
        matrix
            .install("[[provider.anthropic]]\nmodel_match = \"Claude-Opus-*\"\nnative_tools = true\nthinking = true\nunknown = 1")
            .unwrap();
        let caps = matrix.lookup("anthropic", "claude-opus-4-7");
        assert!(!caps.defer_loading);
        assert_eq!(caps.thinking_modes, ["enabled"]);
        assert!(matrix.lookup("anthropic", "claude-sonnet-4-7").defer_loading);
        matrix.clear();
        assert!(matrix.lookup("anthropic", "claude-opus-4-7").defer_loading);
        assert_eq!(
            matrix.install(" ").unwrap_err(),
            "provider_capabilities_install: TOML source string required"
        );
        assert!(matrix.install("=").unwrap_err().starts_with("provider_capabilities_install: parse error: "));
        matrix.install("[[provider.x]]\nmodel_match = \"*\"\naudio = true").unwrap();
        for (text, table) in [
            ("[[capabilities.provider.x]]\nmodel_match = \"*\"", "capabilities"),
            ("[[providers.x]]\nmodel_match = \"*\"", "providers"),
        ] {
            let error = matrix.install(text).unwrap_err();
            assert!(error.contains(&format!("parse error: unknown table `{table}`; rules are ")), "{error}");
            assert!(matrix.lookup("x", "m").audio, "earlier rules stay");
        }
    }

    #[test]
    fn wrong_rules_are_named() {
        for (rule, told) in [
            ("version_min = 5", "`version_min` must be two whole numbers, as in `[4, 7]`, got `5`"),
            (
                "version_min = \"4.7\"",
                "`version_min` must be two whole numbers, as in `[4, 7]`, got `\"4.7\"`",
            ),
            ("version_min = [4, \"7\"]", "`version_min` must be two whole numbers"),
            ("version_min = [4, -7]", "`version_min` must be two whole numbers"),
            (
                "version_min = [4]",
                "`version_min` must be two whole numbers, as in `[4, 7]`; this rule never applies",
            ),
            ("native_tool = true", "unknown key `native_tool` (did you mean `native_tools`?)"),
            ("native_tools = 1", "native_tools"),
            ("thinking = \"on\"", "`thinking` must be a bool, got `\"on\"`"),
            (
                "tool_search = [\"bm24\"]",
                "`tool_search` must be one of bm25, regex, hosted, client, got `bm24` (did you mean `bm25`?)",
            ),
            ("thinking_modes = [\"enabled\", \"enabld\"]", "got `enabld` (did you mean `enabled`?)"),
            (
                "thinking_block_style = \"foo\"",
                "`thinking_block_style` must be one of none, thinking_blocks, ",
            ),
            (
                "structured_output = \"zz\"",
                "`structured_output` must be one of native, json_object, tool_use, format_kw, ",
            ),
            ("preferred_tool_format = \"txt\"", "(did you mean `text`?)"),
            (
                "thinking_budget = [9, 3]",
                "`thinking_budget` must be the least and the most tokens, as in `[128, 32768]`, got `[9, 3]`",
            ),
            ("reasoning_efforts = [\"hi\"]", "`reasoning_efforts` must be one of none, minimal, low, "),
            ("max_tools = -1", "`max_tools` must be at least 0, got `-1`"),
        ] {
            let rule = format!("model_match = \"*\"\naudio = true\n{rule}");
            let mut matrix = CapabilityMatrix::shipped();
            let problems =
                matrix.add_manifests(&[("harn.toml", &format!("\n[[capabilities.provider.p]]\n{rule}"))]);
            let start = "harn.toml:2: capabilities.provider.p: ";
            assert!(problems.len() == 1 && problems[0].starts_with(start), "{rule}: {problems:?}");
            assert!(problems[0].contains(told), "{rule}: {problems:?}");
            let installed = matrix.install(&format!("[[provider.p]]\n{rule}"));
            if !told.contains("never applies") {
                let error = installed.unwrap_err();
                assert!(
                    error.contains("parse error: provider.p: ") && error.contains(told),
                    "{rule}: {error}"
                );
            }
            assert_eq!(matrix.lookup("p", "x-7"), Capabilities::default(), "{rule}");
        }
        let mut matrix = CapabilityMatrix::shipped();
        for (text, told) in [
            ("capabilities = 5", "harn.toml: capabilities: expected a table, got integer"),
            (
                "[capabilities]\nprovider = []",
                "harn.toml: capabilities.provider: expected a table, got array",
            ),
            ("provider_family = \"x\"", "harn.toml: provider_family: expected a table, got string"),
            (
                "[capabilities.provider]\np = 1",
                "harn.toml: capabilities.provider.p: expected a list of rules",
            ),
        ] {
            assert_eq!(matrix.add_manifests(&[("harn.toml", text)]), [told]);
        }
        assert_eq!(
            matrix.install("provider = 1").unwrap_err(),
            "provider_capabilities_install: parse error: provider: expected a table, got integer"
        );
    }

    /// `KEYS` must match the fields of the struct.
    #[test]
    fn every_key_is_known() {
        let dict = Capabilities::default().to_json("p", "m");
        for key in KEYS.iter().filter(|key| **key != "model_match") {
            assert!(dict.get(*key).is_some(), "{key}");
        }
        let not_keys = ["provider", "model", "thinking", "tools"];
        let keys = dict.as_object().unwrap().keys().filter(|key| !not_keys.contains(&key.as_str()));
        for key in keys {
            assert!(KEYS.contains(&key.as_str()), "{key}");
        }
    }

    #[test]
    fn manifests_add_rules_and_families() {
        let mut matrix = CapabilityMatrix::shipped();
        let problems = matrix.add_manifests(&[
            (
                "harn.toml",
                "[[capabilities.provider.my-proxy]]\nmodel_match = \"*\"\ntool_search = [\"hosted\"]\ndefer_loading = true\n\n[[capabilities.provider.my-proxy]]\nnative_tools = true",
            ),
            ("p/harn.toml", "[provider_family]\nother = \"my-proxy\"\nloop = \"loop\"\nseveral = [\"loop\", \"other\"]\nodd = 1"),
            ("q/harn.toml", "\n[capabilities"),
        ]);
        assert_eq!(problems[0], "harn.toml:6: capabilities.provider.my-proxy: rule without `model_match`");
        assert_eq!(
            problems[1],
            "p/harn.toml: provider_family.odd: expected a provider or a list of providers"
        );
        assert!(problems[2].starts_with("q/harn.toml:2: "), "{problems:?}");
        assert!(matrix.lookup("other", "x").defer_loading);
        assert!(
            matrix.lookup("several", "x").defer_loading,
            "the first family without a rule is passed over"
        );
        assert_eq!(
            matrix.install("[provider_family]\nodd = [1]").unwrap_err(),
            "provider_capabilities_install: parse error: provider_family.odd: expected a provider or a list of providers"
        );
        assert_eq!(matrix.lookup("loop", "x"), Capabilities::default());
    }
}
