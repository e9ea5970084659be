//! Clients of Model Context Protocol servers.

use std::rc::Rc;

use harn_agent::mcp;
use harn_system::Uncertain;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::builtin::Maybe;
use harn_vm::{Error, Result, builtins};

use crate::convert::{from_json, text, thrown, to_json};
use crate::mcp::{Client, timeout_in_seconds};
use crate::mcp_callbacks::Callbacks;
use crate::mcp_http::run_aside;
use crate::mcp_project::{ProjectServers, unknown};

builtins! {
    /// Clients of the Model Context Protocol: servers that offer tools, resources and prompts.
    pub(crate) static MCP: "mcp";

    /// Connects to a server: starts the command, or opens the address if it begins with `http://` or `https://`.
    ///
    /// `options` are the fields of an entry of `mcp_servers`, such as `env`, `headers`, `timeout` and `on_sampling`.
    /// The connection ends with `mcp_disconnect`, or when the last reference to the client is dropped.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println("${type_of(client)} ${client}") // -> mcp_client <mcp_client demo>
    /// ```
    Process async fn mcp_connect(cx, command: Maybe as "string?", args: Value as "!list<string>?", options: Value as "!{name?: string, transport?: string, timeout?: any, protocol_version?: string, instructions?: bool, roots?: any, log_level?: string, on_sampling?: closure, on_elicitation?: closure, on_log?: closure, env?: dict, cwd?: string, headers?: dict, auth_token?: string, client_id?: string, client_secret?: string, scopes?: list<string>}?") -> "mcp_client" { // prose-ok: diagnostic
        let command = command.0.as_ref().and_then(text).filter(|command| !command.trim().is_empty());
        let Some(command) = command else { return Err(thrown("mcp_connect: command is required")) };
        let wrong = || Error::type_error(format!("mcp_connect: args must be list<string>, got {}", args.type_name()));
        let given = match args.as_list() {
            None if !args.is_nil() => return Err(wrong()),
            list => list,
        };
        let given = given.iter().flat_map(|list| list.iter());
        let given = given.map(|part| part.as_str().map(|part| part.to_string()));
        let args = given.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let mut entry = match to_json(&options) {
            Json::Object(map) => map,
            Json::Null => Map::new(),
            _ => return Err(Error::type_error(format!("mcp_connect: options must be dict, got {}", options.type_name()))),
        };
        timeout_in_seconds(&options, &mut entry);
        let server = mcp::connection(&command, args, entry).map_err(thrown)?;
        let callbacks = Rc::new(Callbacks::of("mcp_connect", &options)?);
        Value::foreign(Client::connect(&cx, "mcp_connect", &server, &callbacks).await?)
    }

    /// Returns the tools of a server with the server's descriptions, each with `_mcp_server`.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"tools\":[{\"name\":\"add\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_list_tools(client)) // -> [{_mcp_server: demo, name: add}]
    /// ```
    Process async fn mcp_list_tools(cx, client: Maybe as "mcp_client?") -> "list<dict>" {
        let client = known("mcp_list_tools", "argument", &client)?;
        from_json(&client.get()?.tools(&cx).await?.into())
    }

    /// Calls a tool of a server and returns its content.
    ///
    /// Structured content is returned as data. Without it, a single text is returned as a string, other content as the
    /// list of its blocks, and no content as nil. Structured content next to images or other media is the last block of
    /// the list, `{type: "structured", data}`. A result that is an error is thrown as its message.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"5\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_call(client, "add", {a: 2, b: 3})) // -> 5
    /// ```
    Process async fn mcp_call(cx, client: Maybe as "mcp_client?", name: Value as "string?", args: Value as "!dict?") -> "any" {
        let client = known("mcp_call", "first argument", &client)?;
        let name = named("mcp_call: tool name is required", &name)?;
        let args = arguments("mcp_call", &args)?;
        let result = client.get()?.call(&cx, &name, args, Uncertain::Fail).await?;
        from_json(&mcp::content(&result).map_err(thrown)?)
    }

    /// Returns the resources of a server.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"resources\":[{\"uri\":\"note:a\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_list_resources(client)) // -> [{uri: note:a}]
    /// ```
    Process async fn mcp_list_resources(cx, client: Maybe as "mcp_client?") -> "list<dict>" {
        let client = known("mcp_list_resources", "argument", &client)?;
        from_json(&client.get()?.list(&cx, "resources/list", "resources").await?.into())
    }

    /// Returns the URI templates of a server's resources.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"resourceTemplates\":[{\"uriTemplate\":\"note:{id}\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_list_resource_templates(client)) // -> [{uriTemplate: note:{id}}]
    /// ```
    Process async fn mcp_list_resource_templates(cx, client: Maybe as "mcp_client?") -> "list<dict>" {
        let client = known("mcp_list_resource_templates", "argument", &client)?;
        let list = client.get()?.list(&cx, "resources/templates/list", "resourceTemplates");
        from_json(&list.await?.into())
    }

    /// Returns the prompts of a server.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"prompts\":[{\"name\":\"review\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_list_prompts(client)) // -> [{name: review}]
    /// ```
    Process async fn mcp_list_prompts(cx, client: Maybe as "mcp_client?") -> "list<dict>" {
        let client = known("mcp_list_prompts", "argument", &client)?;
        from_json(&client.get()?.list(&cx, "prompts/list", "prompts").await?.into())
    }

    /// Reads a resource: a single text as a string, no content as nil, other content as a list.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"contents\":[{\"uri\":\"note:a\",\"text\":\"Hi\"}]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_read_resource(client, "note:a")) // -> Hi
    /// ```
    Process async fn mcp_read_resource(cx, client: Maybe as "mcp_client?", uri: Value as "string?") -> "any" {
        let client = known("mcp_read_resource", "first argument", &client)?;
        let uri = named("mcp_read_resource: URI is required", &uri)?;
        let read = client.get()?.ask(&cx, "resources/read", json!({"uri": uri})).await?;
        let contents = read["contents"].as_array().cloned().unwrap_or_default();
        match contents.as_slice() {
            [] => Value::NIL,
            [one] if one["text"].is_string() => from_json(&one["text"]),
            _ => from_json(&Json::Array(contents)),
        }
    }

    /// Returns a prompt of a server with its arguments filled in.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l; echo '{\"id\":2,\"result\":{\"messages\":[]}}'"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_get_prompt(client, "review", {file: "a.rs"})) // -> {messages: []}
    /// ```
    Process async fn mcp_get_prompt(cx, client: Maybe as "mcp_client?", name: Value as "string?", args: Value as "!dict?") -> "dict" {
        let client = known("mcp_get_prompt", "first argument", &client)?;
        let name = named("mcp_get_prompt: prompt name is required", &name)?;
        let args = arguments("mcp_get_prompt", &args)?;
        let params = json!({"name": name, "arguments": args});
        from_json(&client.get()?.ask(&cx, "prompts/get", params).await?)
    }

    /// Returns `{name, connected: true}` for a server, with its `instructions` if it has any.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_server_info(client)) // -> {connected: true, name: demo}
    /// ```
    State fn mcp_server_info(cx, client: Maybe as "mcp_client?") -> "dict" {
        let client = known("mcp_server_info", "argument", &client)?;
        let client = client.get()?;
        if client.is_left() {
            return Err(thrown("MCP client is disconnected"));
        }
        let mut info = Dict::new();
        info.insert("name", client.name());
        info.insert("connected", true);
        if let Some(instructions) = client.instructions() {
            info.insert("instructions", instructions);
        }
        info
    }

    /// Returns the client of a server from `[[mcp]]` in the project's manifest, and starts the server if needed.
    ///
    /// The server runs until every request is released, and then for `keep_alive_ms`.
    ///
    /// ```harn
    /// println(try { mcp_ensure_active("tracker") } catch (e) { e }) // -> mcp: no server named 'tracker' is registered (check harn.toml)
    /// ```
    Process async fn mcp_ensure_active(cx, name: Value as "string?") -> "mcp_client" {
        let name = named("mcp_ensure_active: server name is required", &name)?;
        let client = ProjectServers::of(&cx).hold(&cx, "mcp_ensure_active", &name).await?;
        client.ok_or_else(|| thrown(unknown(&name)))?
    }

    /// Releases a server of `mcp_ensure_active`; does nothing if no server of that name runs.
    ///
    /// ```harn
    /// println(mcp_release("tracker")) // -> nil
    /// ```
    Process fn mcp_release(cx, name: Value as "string?") -> "nil" {
        ProjectServers::of(cx).release(cx, &named("mcp_release: server name is required", &name)?);
        Value::NIL
    }

    /// Lists the servers of the project's manifest: `{name, active, references}`.
    ///
    /// A running server is active, even without references.
    ///
    /// ```harn
    /// println(mcp_registry_status()) // -> []
    /// ```
    Fs fn mcp_registry_status(cx) -> "list<dict>" {
        ProjectServers::of(cx).status(cx)?
    }

    /// Returns the server card of a server with `card` in the manifest, or from a URL or a file.
    ///
    /// Each card is read once.
    ///
    /// ```harn
    /// write_file("card.json", "{\"name\": \"tracker\"}")
    /// println(mcp_server_card("./card.json").name) // -> tracker
    /// delete_file("card.json")
    /// ```
    Net async fn mcp_server_card(cx, name_url_or_path: Value as "string?") -> "any" {
        let wanted = named("mcp_server_card: server name, URL or path is required", &name_url_or_path)?;
        ProjectServers::of(&cx).card(&cx, &wanted).await?
    }

    /// Disconnects from a server; later uses of the client throw an error.
    ///
    /// ```harn
    /// let server = "read l; echo '{\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"demo\"}}}'; read l; read l"
    /// let client = mcp_connect("sh", ["-c", server])
    /// println(mcp_disconnect(client)) // -> nil
    /// ```
    Process async fn mcp_disconnect(cx, client: Maybe as "mcp_client?") -> "nil" {
        let client = known("mcp_disconnect", "argument", &client)?;
        client.get()?.close(&cx).await?;
        Value::NIL
    }

    /// Runs background work of an HTTP connection.
    State async fn mcp_aside = "__mcp_aside"(cx, errand: Value) -> "nil" {
        run_aside(&cx, &errand).await?;
        Value::NIL
    }

    /// Waits until a server of the project is no longer needed.
    State async fn mcp_keeper = "__mcp_keeper"(cx, name: Value) -> "nil" {
        ProjectServers::of(&cx).keep(&cx, &name.to_string()).await?;
        Value::NIL
    }
}

/// A value that is known to be a client. It owns a reference to the client.
struct Known(Value);

impl Known {
    fn get(&self) -> Result<&Client> {
        self.0.downcast::<Client>().ok_or_else(|| thrown("MCP client is disconnected"))
    }
}

fn known(builtin: &str, argument: &str, given: &Maybe) -> Result<Known> {
    let value = given.0.clone().unwrap_or_default();
    if value.downcast::<Client>().is_none() {
        return Err(thrown(format!("{builtin}: {argument} must be an MCP client")));
    }
    Ok(Known(value))
}

/// Reads the arguments of a tool or prompt.
fn arguments(builtin: &str, given: &Value) -> Result<Json> {
    match given.to_dict() {
        Some(_) => Ok(to_json(given)),
        None if given.is_nil() => Ok(json!({})),
        None => Err(Error::type_error(format!("{builtin}: args must be dict, got {}", given.type_name()))),
    }
}

fn named(missing: &str, given: &Value) -> Result<String> {
    given
        .as_str()
        .map(|name| name.to_string())
        .filter(|name| !name.trim().is_empty())
        .ok_or_else(|| thrown(missing))
}
