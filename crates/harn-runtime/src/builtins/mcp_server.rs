//! Tools, resources and prompts that a program offers as a Model Context Protocol server.

use harn_value::Value;
use harn_vm::builtin::Maybe;
use harn_vm::builtins;

use crate::mcp_server::Offers;

builtins! {
    /// Tools, resources and prompts that `harn serve mcp` offers to clients.
    pub(crate) static MCP_SERVER: "mcp server";

    /// Offers the tools of a registry to the clients of `harn serve mcp`.
    ///
    /// A tool replaces an offered tool of the same name.
    ///
    /// Of `annotations`, clients see `title`, `readOnlyHint`, `destructiveHint`, `idempotentHint` and `openWorldHint`.
    ///
    /// ```harn
    /// let tools = tool_define(tool_registry(), "double", "Double a number", {
    ///   parameters: {n: "int"}, handler: { args -> args.n * 2 },
    /// })
    /// println(mcp_tools(tools)) // -> nil
    /// ```
    State fn mcp_tools(cx, registry: Maybe as "dict?") -> "nil" {
        cx.state::<Offers>().add_tools("mcp_tools", &registry.0.unwrap_or_default())?;
    }

    /// The old name of `mcp_tools`.
    ///
    /// ```harn
    /// println(mcp_serve(tool_registry())) // -> nil
    /// ```
    State fn mcp_serve(cx, registry: Maybe as "dict?") -> "nil" {
        cx.state::<Offers>().add_tools("mcp_serve", &registry.0.unwrap_or_default())?;
    }

    /// Offers a text resource to clients of `harn serve mcp`: `{uri, name, text, title?, description?, mime_type?}`.
    ///
    /// Instead of `text`, `handler` is a function that returns the content, called with `{uri}` for each read; nil
    /// means that the resource does not exist.
    ///
    /// ```harn
    /// println(mcp_resource({uri: "note://hello", name: "hello", text: "Hello"})) // -> nil
    /// ```
    State fn mcp_resource(cx, config: Value as "!{uri?: string, name?: string, text?: string, handler?: function, title?: string, description?: string, mime_type?: string}") -> "nil" { // prose-ok: a type
        cx.state::<Offers>().add_resource(&config)?;
    }

    /// Offers resources whose URIs match a template such as `note://{id}` to the clients of `harn serve mcp`.
    ///
    /// The config is `{uri_template, name, handler, title?, description?, mime_type?}`. The handler receives the
    /// variables of the URI as a dict and returns the content, or nil if the resource does not exist. `{name}` matches
    /// up to the next `/`; `{+name}` may contain `/`.
    ///
    /// ```harn
    /// mcp_resource_template({uri_template: "note://{id}", name: "note", handler: { at -> "Note ${at.id}" }})
    /// println("offered") // -> offered
    /// ```
    State fn mcp_resource_template(cx, config: Value as "!{uri_template?: string, name?: string, handler?: function, title?: string, description?: string, mime_type?: string}") -> "nil" {
        cx.state::<Offers>().add_template(&config)?;
    }

    /// Offers a prompt to clients of `harn serve mcp`: `{name, handler, title?, description?, arguments?}`.
    ///
    /// The handler receives the arguments as a dict and returns a string, which becomes one user message, or a list of
    /// `{role, content}`.
    ///
    /// ```harn
    /// mcp_prompt({name: "greet", arguments: [{name: "who", required: true}], handler: { args -> "Greet ${args.who}." }})
    /// println("offered") // -> offered
    /// ```
    State fn mcp_prompt(cx, config: Value as "!{name?: string, handler?: function, title?: string, description?: string, arguments?: list<{name?: string, description?: string, required?: bool}>}") -> "nil" { // prose-ok: a type
        cx.state::<Offers>().add_prompt(&config)?;
    }
}
