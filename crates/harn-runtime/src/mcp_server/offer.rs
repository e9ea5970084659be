//! What a program offers to clients: tools, resources, resource templates, prompts.

use std::cell::RefCell;

use harn_agent::registry;
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::Result;
use harn_vm::closure::is_callable;

use super::template::UriTemplate;
use crate::convert::{entry, text, thrown};
use crate::exported::Tool;

/// All registrations, each kind by name or URI.
#[derive(Default)]
pub(crate) struct Offers {
    pub(super) tools: RefCell<Vec<Tool>>,
    pub(super) resources: RefCell<Vec<Resource>>,
    pub(super) templates: RefCell<Vec<Template>>,
    pub(super) prompts: RefCell<Vec<Prompt>>,
}

/// A document with a URI.
#[derive(Clone)]
pub(super) struct Resource {
    pub(super) uri: String,
    pub(super) content: Content,
    pub(super) mime_type: Option<String>,
    pub(super) shown: Json,
}

/// The source of a resource's content.
#[derive(Clone)]
pub(super) enum Content {
    Text(String),
    /// A function that is called for each read.
    Handler(Value),
}

/// Resources whose URIs match a template, created when they are read.
#[derive(Clone)]
pub(super) struct Template {
    pub(super) pattern: UriTemplate,
    pub(super) handler: Value,
    pub(super) mime_type: Option<String>,
    pub(super) shown: Json,
}

/// Messages for a conversation.
#[derive(Clone)]
pub(super) struct Prompt {
    pub(super) name: String,
    pub(super) handler: Value,
    /// Required arguments.
    pub(super) required: Vec<String>,
    /// All arguments.
    pub(super) arguments: Vec<String>,
    pub(super) shown: Json,
}

/// Replaces the item with the same key by `new`, or appends it.
fn put<T>(list: &RefCell<Vec<T>>, new: T, same: impl Fn(&T, &T) -> bool) {
    let mut list = list.borrow_mut();
    match list.iter_mut().find(|known| same(known, &new)) {
        Some(known) => *known = new,
        None => list.push(new),
    }
}

impl Offers {
    /// Offers the tools of a registry; `function` is the function that the program called.
    ///
    /// # Errors
    /// The value is not a registry, or a tool has no handler.
    pub(crate) fn add_tools(&self, function: &str, given: &Value) -> Result<()> {
        let is_registry = text(&entry(given, "_type")).as_deref() == Some("tool_registry");
        if !is_registry {
            let wrong = match given.is_nil() {
                true => "requires a tool_registry argument",
                false => "argument must be a tool registry",
            };
            return Err(thrown(format!("{function}: {wrong}")));
        }
        let entries = registry::entries(function, given).map_err(|error| thrown(error.to_string()))?;
        let mut tools = Vec::with_capacity(entries.len());
        for tool in entries.iter() {
            if !is_callable(&entry(tool, "handler")) {
                let name = text(&entry(tool, "name")).unwrap_or_default();
                return Err(thrown(format!("{function}: tool '{name}' has no handler closure")));
            }
            tools.push(Tool::read(tool)?);
        }
        for tool in tools {
            put(&self.tools, tool, |a, b| a.name == b.name);
        }
        Ok(())
    }

    /// Offers a resource.
    ///
    /// # Errors
    /// A key is missing or invalid.
    pub(crate) fn add_resource(&self, given: &Value) -> Result<()> {
        let config = Config::read(
            "mcp_resource",
            "{uri, name, text}", // prose-ok: a type
            given,
            &["uri", "name", "text", "handler", "title", "description", "mime_type"],
        )?;
        let uri = config.required("uri")?;
        let shown =
            config.shown(&[("uri", uri.clone().into()), ("name", config.required("name")?.into())])?;
        let mime_type = config.optional("mime_type")?;
        let content = match (config.has("handler"), config.has("text")) {
            (true, true) => return Err(thrown("mcp_resource: pass either `text` or `handler`")),
            (true, false) => Content::Handler(config.handler()?),
            (false, _) => Content::Text(config.required_text("text")?),
        };
        let resource = Resource { uri, content, mime_type, shown };
        put(&self.resources, resource, |a, b| a.uri == b.uri);
        Ok(())
    }

    /// Offers resources whose URIs match a template.
    ///
    /// # Errors
    /// A key is missing or invalid.
    pub(crate) fn add_template(&self, given: &Value) -> Result<()> {
        let config = Config::read(
            "mcp_resource_template",
            "{uri_template, name, handler}",
            given,
            &["uri_template", "name", "handler", "title", "description", "mime_type"],
        )?;
        let uri = config.required("uri_template")?;
        let pattern = UriTemplate::parse(&uri)
            .map_err(|why| thrown(format!("mcp_resource_template: uri_template '{uri}': {why}")))?;
        let handler = config.handler()?;
        let shown = config
            .shown(&[("uriTemplate", uri.clone().into()), ("name", config.required("name")?.into())])?;
        let template = Template { pattern, handler, mime_type: config.optional("mime_type")?, shown };
        put(&self.templates, template, |a, b| a.shown["uriTemplate"] == b.shown["uriTemplate"]);
        Ok(())
    }

    /// Offers messages for a conversation.
    ///
    /// # Errors
    /// A key is missing or invalid.
    pub(crate) fn add_prompt(&self, given: &Value) -> Result<()> {
        let config = Config::read(
            "mcp_prompt",
            "{name, handler}",
            given,
            &["name", "handler", "title", "description", "arguments"],
        )?;
        let name = config.required("name")?;
        let handler = config.handler()?;
        let (mut arguments, mut required, mut declared) = (Vec::new(), Vec::new(), Vec::new());
        let list = entry(given, "arguments");
        let items = list.as_list();
        if items.is_none() && !list.is_nil() {
            return Err(thrown("mcp_prompt: 'arguments' must be a list of {name, description, required}"));
        }
        for item in items.iter().flat_map(|items| items.iter()) {
            let own = Config::read(
                "mcp_prompt",
                "'arguments' of {name, description, required}",
                item,
                &["name", "description", "required"],
            )?;
            let argument = own.required("name")?;
            let must = entry(item, "required");
            let must = match must.as_bool() {
                Some(must) => must,
                None if must.is_nil() => false,
                None => return Err(thrown(format!("mcp_prompt: 'required' of '{argument}' must be a bool"))),
            };
            let mut shown = json!({"name": argument, "required": must});
            if let Some(description) = own.optional("description")? {
                shown["description"] = description.into();
            }
            if must {
                required.push(argument.clone());
            }
            arguments.push(argument);
            declared.push(shown);
        }
        let mut shown = config.shown(&[("name", name.clone().into())])?;
        if !declared.is_empty() {
            shown["arguments"] = declared.into();
        }
        let prompt = Prompt { name, handler, required, arguments, shown };
        put(&self.prompts, prompt, |a, b| a.name == b.name);
        Ok(())
    }
}

/// A dict that is read key by key.
struct Config<'a> {
    function: &'static str,
    given: &'a Value,
}

impl<'a> Config<'a> {
    fn read(function: &'static str, shape: &str, given: &'a Value, keys: &[&str]) -> Result<Config<'a>> {
        let Some(dict) = given.to_dict() else {
            return Err(thrown(format!("{function}: argument must be a dict with {shape}")));
        };
        if let Some(key) = dict.keys().find(|key| !keys.contains(&key.as_str())) {
            let near = harn_vm::suggest::nearest(key.as_str(), keys.iter().copied());
            let meant = near.map_or_else(
                || format!("; it takes {}", keys.join(", ")),
                |near| format!("; did you mean '{near}'?"),
            );
            return Err(thrown(format!("{function}: unknown key '{key}'{meant}")));
        }
        Ok(Config { function, given })
    }

    fn optional(&self, key: &str) -> Result<Option<String>> {
        let value = entry(self.given, key);
        if value.is_nil() {
            return Ok(None);
        }
        let read = value.as_str().map(|text| text.to_string());
        let wrong =
            || thrown(format!("{}: '{key}' must be a string, got {}", self.function, value.type_name()));
        read.map(Some).ok_or_else(wrong)
    }

    /// Reads a required string, which may be empty.
    fn required_text(&self, key: &str) -> Result<String> {
        let missing = || thrown(format!("{}: '{key}' is required", self.function));
        self.optional(key)?.ok_or_else(missing)
    }

    fn required(&self, key: &str) -> Result<String> {
        let missing = || thrown(format!("{}: '{key}' is required", self.function));
        self.optional(key)?.filter(|text| !text.trim().is_empty()).ok_or_else(missing)
    }

    fn has(&self, key: &str) -> bool {
        !entry(self.given, key).is_nil()
    }

    fn handler(&self) -> Result<Value> {
        let handler = entry(self.given, "handler");
        if is_callable(&handler) {
            return Ok(handler);
        }
        Err(thrown(format!("{}: 'handler' closure is required", self.function)))
    }

    /// Returns the entry in lists: `first`, and `title`, `description` and `mime_type` if they are set.
    fn shown(&self, first: &[(&str, Json)]) -> Result<Json> {
        let mut shown: Map<String, Json> =
            first.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        for (key, name) in [("title", "title"), ("description", "description"), ("mime_type", "mimeType")] {
            if let Some(value) = self.optional(key)? {
                shown.insert(name.to_owned(), value.into());
            }
        }
        Ok(shown.into())
    }
}
