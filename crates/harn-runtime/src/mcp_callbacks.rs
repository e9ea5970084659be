//! Answers to requests of Model Context Protocol servers, by callbacks of the program. A request without a callback is
//! rejected.

use std::cell::Cell;
use std::path::Path;

use harn_agent::mcp::Answers;
use harn_system::SystemExt;
use harn_value::{Data as Json, Value, json};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Result};

use crate::convert::{entry, from_json, thrown, to_json};

/// The JSON-RPC error code for a request that the program does not answer.
const INTERNAL: i64 = -32603;

/// The JSON-RPC error code for parameters that the client does not support.
const INVALID_PARAMS: i64 = -32602;

/// The error code of the protocol for a request that the user rejects.
const REJECTED: i64 = -1;

/// The callbacks of a connection, and the announcements of its server.
#[derive(Default)]
pub(crate) struct Callbacks {
    sampling: Value,
    elicitation: Value,
    log: Value,
    roots: Value,
    /// Whether the server has announced that its tools changed.
    pub(crate) tools_changed: Cell<bool>,
}

impl Callbacks {
    /// Reads the callbacks of a server's entry.
    ///
    /// # Errors
    /// An option that must be a function has another type.
    pub(crate) fn of(place: &str, options: &Value) -> Result<Callbacks> {
        let function = |key: &str| -> Result<Value> {
            let value = entry(options, key);
            if value.is_nil() || is_callable(&value) {
                return Ok(value);
            }
            Err(thrown(format!("{place}: `{key}` must be a function, got {}", value.type_name())))
        };
        Ok(Callbacks {
            sampling: function("on_sampling")?,
            elicitation: function("on_elicitation")?,
            log: function("on_log")?,
            roots: entry(options, "roots"),
            tools_changed: Cell::default(),
        })
    }

    /// Creates callbacks that only define which directories the server may use.
    pub(crate) fn with_roots(roots: Option<&Json>) -> Callbacks {
        Callbacks { roots: roots.map(from_json).unwrap_or_default(), ..Callbacks::default() }
    }

    /// Returns which requests the program answers.
    pub(crate) fn answers(&self) -> Answers {
        Answers {
            sampling: !self.sampling.is_nil(),
            elicitation: !self.elicitation.is_nil(),
            roots: !self.roots.is_nil(),
            log: !self.log.is_nil(),
        }
    }

    /// Processes a message of the server. Returns the reply to a request.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn hear(&self, cx: &Cx, server: &str, message: &Json) -> Result<Option<Json>> {
        let Some(method) = message["method"].as_str() else { return Ok(None) };
        let (id, params) = (&message["id"], &message["params"]);
        if id.is_null() {
            match method {
                "notifications/tools/list_changed" => self.tools_changed.set(true),
                "notifications/message" if !self.log.is_nil() => {
                    let told = json!({"server": server, "level": params["level"], "logger": params["logger"],
                                      "data": params["data"]});
                    // The server does not receive its result or error.
                    drop(self.call(cx, server, "on_log", &self.log, &told).await?);
                }
                _ => {}
            }
            return Ok(None);
        }
        let answer = match method {
            "ping" => Ok(json!({})),
            "roots/list" if !self.roots.is_nil() => self.list_roots(cx, server).await?,
            "sampling/createMessage" if !self.sampling.is_nil() => {
                let reply = self
                    .call(cx, server, "on_sampling", &self.sampling, &with_server(server, params))
                    .await?;
                reply.and_then(|reply| sampled(&reply))
            }
            "elicitation/create" if !self.elicitation.is_nil() => self.elicit(cx, server, params).await?,
            _ => Err((-32601, "Method not found".to_owned())),
        };
        Ok(Some(match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        }))
    }

    /// Calls a callback. Its error is reported on standard error; the server only receives a generic error.
    async fn call(&self, cx: &Cx, server: &str, name: &str, f: &Value, argument: &Json) -> Result<Answer> {
        let deadlines = cx.task().deadline_count();
        match cx.call(f, [from_json(argument)]).await {
            Ok(value) => Ok(Ok(to_json(&value))),
            // The deadline of the caller expired, not the deadline of the callback.
            Err(error) if !error.is_catchable() || cx.task().interrupted_since(deadlines) => Err(error),
            Err(error) => {
                let text = format!("warning: {name} of MCP server '{server}': {}", error.uncaught_text());
                cx.system().write_err(&harn_syntax::notice(&text));
                Ok(Err((INTERNAL, "the client did not answer".to_owned())))
            }
        }
    }

    async fn list_roots(&self, cx: &Cx, server: &str) -> Result<Answer> {
        let given = if is_callable(&self.roots) {
            match self.call(cx, server, "roots", &self.roots, &json!({"server": server})).await? {
                Ok(given) => given,
                refused => return Ok(refused),
            }
        } else {
            to_json(&self.roots)
        };
        let work = cx.system().work_dir();
        let one = |root: &Json| match root {
            Json::String(place) => Some(json!({"uri": uri(&work, place)})),
            Json::Object(dict) => {
                let mut root = json!({"uri": uri(&work, dict.get("uri")?.as_str()?)});
                if let Some(name) = dict.get("name").filter(|name| name.is_string()) {
                    root["name"] = name.clone();
                }
                Some(root)
            }
            _ => None,
        };
        let roots = given.as_array().and_then(|list| list.iter().map(one).collect::<Option<Vec<_>>>());
        Ok(match roots {
            Some(roots) => Ok(json!({"roots": roots})),
            None => Err(wrong(cx, server, "roots", "a list of paths or of dicts with `uri`")),
        })
    }

    async fn elicit(&self, cx: &Cx, server: &str, params: &Json) -> Result<Answer> {
        if params["mode"].as_str().is_some_and(|mode| mode != "form") {
            return Ok(Err((INVALID_PARAMS, "only the mode `form` is supported".to_owned())));
        }
        let asked = with_server(server, params);
        let reply = match self.call(cx, server, "on_elicitation", &self.elicitation, &asked).await? {
            Ok(reply) => reply,
            refused => return Ok(refused),
        };
        let shape = "nil, or a dict with `action` (\"accept\", \"decline\" or \"cancel\") and `content`";
        Ok(match reply["action"].as_str() {
            None if reply.is_null() => Ok(json!({"action": "decline"})),
            Some(action @ ("decline" | "cancel")) => Ok(json!({"action": action})),
            Some("accept") => {
                let content = if reply["content"].is_null() { json!({}) } else { reply["content"].clone() };
                let problems = harn_schema::errors(&params["requestedSchema"], &content);
                if content.is_object() && problems.is_empty() {
                    Ok(json!({"action": "accept", "content": content}))
                } else {
                    let why = format!("`content` that fits the requested schema: {}", problems.join("; "));
                    Err(wrong(cx, server, "on_elicitation", &why))
                }
            }
            _ => Err(wrong(cx, server, "on_elicitation", shape)),
        })
    }
}

/// The result of a request, or the code and message of its error.
type Answer = std::result::Result<Json, (i64, String)>;

fn wrong(cx: &Cx, server: &str, name: &str, expected: &str) -> (i64, String) {
    let text = format!("warning: {name} of MCP server '{server}' must return {expected}");
    cx.system().write_err(&harn_syntax::notice(&text));
    (INTERNAL, "the client did not answer".to_owned())
}

fn with_server(server: &str, params: &Json) -> Json {
    let mut params = params.as_object().cloned().unwrap_or_default();
    params.insert("server".to_owned(), server.into());
    Json::Object(params)
}

/// Converts the program's return value to the result of a sampling request: a string, the result of `llm_call`, or a
/// dict of the protocol. nil rejects the request.
fn sampled(reply: &Json) -> Answer {
    let message = |text: &str, model: Option<&str>| {
        json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": model.unwrap_or("unknown"),
               "stopReason": "endTurn"})
    };
    match reply {
        Json::Null | Json::Bool(false) => {
            Err((REJECTED, "the user rejected the sampling request".to_owned()))
        }
        Json::String(text) => Ok(message(text, None)),
        Json::Object(dict) if dict.contains_key("content") => {
            let content = match &dict["content"] {
                Json::String(text) => json!({"type": "text", "text": text}),
                content => content.clone(),
            };
            let mut out = message("", reply["model"].as_str());
            out["content"] = content;
            for key in ["role", "stopReason"] {
                if let Some(value) = dict.get(key).filter(|value| value.is_string()) {
                    out[key] = value.clone();
                }
            }
            Ok(out)
        }
        Json::Object(dict) if dict.get("text").is_some_and(Json::is_string) => {
            Ok(message(reply["text"].as_str().unwrap_or_default(), reply["model"].as_str()))
        }
        _ => Err((INTERNAL, "the client did not answer".to_owned())),
    }
}

/// Returns the URI of a root: a URI is unchanged, a path becomes a `file://` URI.
fn uri(work: &Path, place: &str) -> String {
    if place.contains("://") {
        return place.to_owned();
    }
    let mut out = "file://".to_owned();
    for byte in work.join(place).to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into())
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_addresses() {
        assert_eq!(uri(Path::new("/a b"), "c/ü"), "file:///a%20b/c/%C3%BC");
        assert_eq!(uri(Path::new("/a"), "https://x/y"), "https://x/y");
    }

    #[test]
    fn sampling_results() {
        let said = sampled(&json!("hi")).expect("a message");
        assert_eq!((&said["content"]["text"], &said["role"]), (&json!("hi"), &json!("assistant")));
        let said = sampled(&json!({"text": "hi", "model": "m", "usage": {}})).expect("a message");
        assert_eq!((&said["content"]["text"], &said["model"]), (&json!("hi"), &json!("m")));
        let said = sampled(&json!({"content": "x", "stopReason": "maxTokens"})).expect("a message");
        assert_eq!((&said["content"]["text"], &said["stopReason"]), (&json!("x"), &json!("maxTokens")));
        assert_eq!(sampled(&Json::Null).expect_err("rejected").0, REJECTED);
        assert_eq!(sampled(&json!(3)).expect_err("no message").0, INTERNAL);
    }
}
