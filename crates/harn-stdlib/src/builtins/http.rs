//! HTTP requests, and mocks that answer them in tests.

use harn_schema::options as described;
use harn_value::{Dict, Ref, Value};
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::{Given, Int, MaybePath, MaybeText, printed};
use crate::http::session::{self, Handles, in_session};
use crate::http::{
    HttpOptions, MethodOptions, Mocks, Options, SessionRequestOptions, download, egress, send,
};
use crate::places::target;

/// Options of `http_mock_calls`.
#[derive(described::Options)]
struct MockCallsOptions {
    /// Whether secrets are included; otherwise they are `[redacted]`.
    include_sensitive: bool,
    /// The opposite of `include_sensitive`.
    #[option(default = true)]
    redact_sensitive: bool,
}

builtins! {
    /// HTTP.
    pub(crate) static HTTP: "http";

    /// Sends a GET request: `{status, headers, body, ok}`.
    ///
    /// An error status is a result, not an error.
    ///
    /// ```harn
    /// http_mock("GET", "https://api.test/*", {body: "hi", headers: {"X-A": "1"}})
    /// println(http_get("https://api.test/x")) // -> {body: hi, headers: {x-a: 1}, ok: true, status: 200}
    /// ```
    Net async fn http_get(cx, url: MaybeText as "string", options: OptionDict<SessionRequestOptions>) -> "dict" {
        request(&cx, "http_get", "GET", url, None, options.given()).await?
    }

    /// Sends a DELETE request: `{status, headers, body, ok}`.
    ///
    /// ```harn
    /// http_mock("DELETE", "https://api.test/1", {status: 404})
    /// println(http_delete("https://api.test/1").ok) // -> false
    /// ```
    Net async fn http_delete(cx, url: MaybeText as "string", options: OptionDict<SessionRequestOptions>) -> "dict" {
        request(&cx, "http_delete", "DELETE", url, None, options.given()).await?
    }

    /// Sends a POST request with a body: `http_post(url, body?, options?)`.
    ///
    /// A dict or list as body is sent as JSON. If there are two arguments and the second is a dict,
    /// it is the options.
    ///
    /// ```harn
    /// http_mock("POST", "*", {status: 201})
    /// println(http_post("https://api.test/x", "data").status) // -> 201
    /// println(http_mock_calls()[0].body) // -> data
    /// ```
    Net async fn http_post(cx, url: MaybeText as "string", body: Given as "any?", options: OptionDict<SessionRequestOptions>) -> "dict" {
        with_body(&cx, "http_post", "POST", url, body, options.given()).await?
    }

    /// Sends a PUT request with a body: `http_put(url, body?, options?)`.
    ///
    /// ```harn
    /// http_mock("PUT", "*", {})
    /// println(http_put("https://api.test/x", [1], {headers: {a: "b"}}).status) // -> 200
    /// println(http_mock_calls()[0].body) // -> [1]
    /// ```
    Net async fn http_put(cx, url: MaybeText as "string", body: Given as "any?", options: OptionDict<SessionRequestOptions>) -> "dict" {
        with_body(&cx, "http_put", "PUT", url, body, options.given()).await?
    }

    /// Sends a PATCH request with a body: `http_patch(url, body?, options?)`.
    ///
    /// ```harn
    /// http_mock("PATCH", "*", {})
    /// println(http_patch("https://api.test/x", {body: {a: 1}}).ok) // -> true
    /// println(http_mock_calls()[0].body) // -> {"a":1}
    /// ```
    Net async fn http_patch(cx, url: MaybeText as "string", body: Given as "any?", options: OptionDict<SessionRequestOptions>) -> "dict" {
        with_body(&cx, "http_patch", "PATCH", url, body, options.given()).await?
    }

    /// Sends a request of any method.
    ///
    /// ```harn
    /// http_mock("*", "*", {status: 204})
    /// println(http_request("options", "https://api.test/x").status) // -> 204
    /// println(http_mock_calls()[0].method) // -> OPTIONS
    /// ```
    Net async fn http_request(cx, method: MaybeText as "string", url: MaybeText as "string", options: OptionDict<SessionRequestOptions>) -> "dict" {
        let Some(method) = method.0 else {
            return Err(Error::thrown("http_request: method is required"));
        };
        request(&cx, "http_request", &method, url, None, options.given()).await?
    }

    /// Downloads a body to a file as a stream: `{status, headers, bytes_written, ok}`.
    ///
    /// The file is replaced when the body is complete and the status is 2xx; otherwise it stays
    /// unchanged.
    ///
    /// ```harn
    /// http_mock("GET", "*", {body: "abc"})
    /// let p = path_join(temp_dir(), "harn_doc_http_download")
    /// println(http_download("https://api.test/x", p).bytes_written) // -> 3
    /// delete_file(p)
    /// ```
    Net async fn http_download(cx, url: MaybeText as "string", path: MaybePath, options: OptionDict<MethodOptions>) -> "dict" {
        let Some(url) = url.0 else { return Err(Error::thrown("http_download: URL is required")) };
        let Some(path) = path.0 else {
            return Err(Error::thrown("http_download: destination path is required"));
        };
        let given = in_session(&cx, "http_download", dict_of(options.given()))?;
        let method = given.get_str("method").map_or_else(|| "GET".into(), printed);
        let options = Options::of(&cx, &given, None)?;
        download(&cx, &method, &url, &target(&cx, "http_download", &path)?, &options).await?
    }

    /// Stores options for several requests and returns a session handle; at most 64 can be open.
    ///
    /// `http_session_request` and the option `session` of the other functions use the handle.
    ///
    /// ```harn
    /// http_mock("*", "*", {})
    /// let s = http_session({headers: {"X-Team": "blue"}})
    /// http_get("https://a.test/", {session: s, headers: {"X-User": "ann"}})
    /// println(http_mock_calls()[0].headers) // -> {x-team: blue, x-user: ann}
    /// ```
    State fn http_session(cx, options: OptionDict<HttpOptions>) -> "string" {
        session::begin_session(cx, dict_of(options.given()))?
    }

    /// Sends a request with the options of a session; request options take precedence, and headers are merged.
    ///
    /// ```harn
    /// http_mock("*", "*", {body: "hi"})
    /// println(http_session_request(http_session(), "get", "https://a.test/").body) // -> hi
    /// ```
    Net async fn http_session_request(cx, session: Text as "string", method: MaybeText as "string", url: MaybeText as "string", options: OptionDict<HttpOptions>) -> "dict" {
        let Some(method) = method.0 else {
            return Err(Error::thrown("http_session_request: method is required"));
        };
        let given = session::over_session(&cx, "http_session_request", &session, &dict_of(options.given()))?;
        request(&cx, "http_session_request", &method, url, None, &Value::from(given)).await?
    }

    /// Closes a session; false if it does not exist.
    ///
    /// ```harn
    /// let s = http_session()
    /// println([http_session_close(s), http_session_close(s)]) // -> [true, false]
    /// ```
    State fn http_session_close(cx, session: Text as "string") -> "bool" {
        session::end_session(cx, &session)
    }

    /// Sends a request and returns a handle whose body is read as a stream; at most 64 can be open.
    ///
    /// ```harn
    /// http_mock("GET", "*", {body: "abcdef"})
    /// let s = http_stream_open("https://a.test/")
    /// println(bytes_to_string(http_stream_read(s, 4))) // -> abcd
    /// println(bytes_to_string(http_stream_read(s))) // -> ef
    /// println([http_stream_read(s), http_stream_close(s)]) // -> [nil, true]
    /// ```
    Net async fn http_stream_open(cx, url: MaybeText as "string", options: OptionDict<MethodOptions>) -> "string" {
        let Some(url) = url.0 else { return Err(Error::thrown("http_stream_open: URL is required")) };
        let given = in_session(&cx, "http_stream_open", dict_of(options.given()))?;
        let method = given.get_str("method").map_or_else(|| "GET".into(), printed);
        let options = Options::of(&cx, &given, None)?;
        session::open_stream(&cx, &method, &url, &options).await?
    }

    /// Returns the status and headers of a stream's reply: `{status, headers, ok}`.
    ///
    /// ```harn
    /// http_mock("GET", "*", {status: 404})
    /// println(http_stream_info(http_stream_open("https://a.test/"))) // -> {headers: {}, ok: false, status: 404}
    /// ```
    State fn http_stream_info(cx, stream: Text as "string") -> "dict" {
        session::stream_info(cx, &stream)?
    }

    /// Returns the next bytes of a stream's body, at most `max_bytes`; nil at its end.
    ///
    /// ```harn
    /// http_mock("GET", "*", {body: "hi"})
    /// println(bytes_to_string(http_stream_read(http_stream_open("https://a.test/")))) // -> hi
    /// ```
    Net async fn http_stream_read(cx, stream: Text as "string", max_bytes: Int) -> "bytes | nil" {
        session::read_stream(&cx, &stream, max_bytes.positive_or(1 << 20)).await?.map(Value::bytes)
    }

    /// Closes a stream; false if it does not exist.
    ///
    /// ```harn
    /// println(http_stream_close("no-such-stream")) // -> false
    /// ```
    State fn http_stream_close(cx, stream: Text as "string") -> "bool" {
        session::close_stream(cx, &stream)
    }

    /// Sets the egress policy, once: `{configured, source, default, allow, deny}`.
    ///
    /// A rule is a host, `*.suffix` (subdomains only), an IP address, a CIDR block (each with or without `:port`), or a
    /// URL, of which only host and port apply. A destination that matches a `deny` rule is blocked; otherwise, one that
    /// matches an `allow` rule is allowed; otherwise, `default` applies (`"allow"` or `"deny"`; `"allow"` if missing).
    ///
    /// The policy covers every connection of the program: redirects, proxies, mocked requests, and model calls whose
    /// address is not from the user's configuration. A blocked connection throws `{type: "EgressBlocked", category,
    /// message, surface, url, host, port, reason}`. A rule for an address matches every spelling of it; a `deny` rule
    /// also matches names that resolve to it. If `HARN_EGRESS_ALLOW`, `HARN_EGRESS_DENY` or `HARN_EGRESS_DEFAULT` is
    /// set, these variables define the rules, and the program cannot replace them.
    ///
    /// ```harn
    /// egress_policy({allow: ["*.example.com"], default: "deny"})
    /// println(unwrap_err(try { http_get("https://other.test/") }).reason) // -> no allow rule matched
    /// ```
    State fn egress_policy(cx, config: Value as "{allow?: list, deny?: list, default?: string}?") -> "dict" {
        egress::install(cx, &config)?
    }

    /// Mocks requests whose method and URL match, instead of using the network.
    ///
    /// `*` as method matches any method; in the pattern, it matches any string. The response is
    /// `{status, body, headers}`, or `{responses}`: one per request, and the last one repeats.
    ///
    /// ```harn
    /// http_mock("get", "https://a.test/*", {responses: [{status: 503}, {body: "ok"}]})
    /// println(http_get("https://a.test/x", {retry: {max: 1, backoff_ms: 1}}).body) // -> ok
    /// ```
    State fn http_mock(cx, method: Text as "string", pattern: Text as "string", response: Value as "http_reply?") -> "nil" {
        cx.state::<Mocks>().add(&method, &pattern, &response);
    }

    /// Lists the requests that mocks answered: `{method, url, headers, body}`.
    ///
    /// ```harn
    /// http_mock("*", "*", {})
    /// http_get("https://a.test/?token=x", {auth: {bearer: "y"}})
    /// println(http_mock_calls()[0].headers) // -> {authorization: [redacted]}
    /// println(http_mock_calls({include_sensitive: true})[0].url) // -> https://a.test/?token=x
    /// ```
    State fn http_mock_calls(cx, options: OptionDict<MockCallsOptions>) -> "list" {
        let MockCallsOptions { include_sensitive, redact_sensitive } = options.read()?;
        cx.state::<Mocks>().calls(include_sensitive || !redact_sensitive)
    }

    /// Removes all HTTP mocks and recorded calls, and closes open streams.
    ///
    /// ```harn
    /// http_mock("*", "*", {})
    /// http_mock_clear()
    /// println(http_mock_calls()) // -> []
    /// ```
    State fn http_mock_clear(cx) -> "nil" {
        cx.state::<Mocks>().clear();
        cx.state::<Handles>().clear_streams();
    }
}

fn dict_of(options: &Value) -> Ref<Dict> {
    options.to_dict().unwrap_or_else(|| Ref::new(Dict::new()))
}

async fn request(
    cx: &Cx,
    name: &str,
    method: &str,
    url: MaybeText,
    body: Option<&Value>,
    options: &Value,
) -> Result<Dict> {
    let Some(url) = url.0 else { return Err(Error::thrown(format!("{name}: URL is required"))) };
    let options = in_session(cx, name, dict_of(options))?;
    let options = Options::of(cx, &options, body)?;
    send(cx, method, &url, &options).await
}

/// Returns whether an option with this name exists.
fn is_option(name: &str) -> bool {
    <SessionRequestOptions as described::Options>::FIELDS.iter().any(|option| option.name == name)
}

async fn with_body(
    cx: &Cx,
    name: &str,
    method: &str,
    url: MaybeText,
    body: Given,
    options: &Value,
) -> Result<Dict> {
    match body.0 {
        None => request(cx, name, method, url, None, options).await,
        Some(only) if options.is_nil() && only.to_dict().is_some() => {
            // Without this check, a dict meant as the body would be dropped.
            let given = dict_of(&only);
            if let Some(key) = given.keys().find(|key| !is_option(key.as_str())) {
                let text = format!(
                    "{name}: unknown option `{key}`; to send a dict as the body, pass three arguments: {name}(url, {{{key}: ...}}, {{}})"
                );
                return Err(Error::thrown(text));
            }
            request(cx, name, method, url, None, &only).await
        }
        Some(body) => request(cx, name, method, url, Some(&body), options).await,
    }
}
