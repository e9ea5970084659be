//! Message streams: server-sent events and WebSockets.

use std::time::Duration;

use harn_value::{Dict, Value};
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::{Error, builtins};

use crate::args::{MaybeText, Millis};
use crate::http::{SseOptions, WebsocketOptions};
use crate::transport::{Mocks, Open, connect_socket, connect_stream, frame_of};

/// Default timeout of a wait for a message, in milliseconds.
const PATIENCE: i64 = 30_000;

builtins! {
    /// Server-sent events and WebSockets.
    pub(crate) static TRANSPORT: "transport";

    /// Opens a stream of server-sent events and returns its handle.
    ///
    /// `timeout_ms` is the time limit for the reply of the server. An interrupted run does not reopen the stream if the
    /// program has already received an event.
    ///
    /// ```harn
    /// sse_mock("https://a.test/*", ["one", {event: "end", data: "two"}])
    /// let h = sse_connect("GET", "https://a.test/events")
    /// println(sse_receive(h)) // -> {type: open}
    /// println(sse_receive(h).data) // -> one
    /// ```
    Net async fn sse_connect(cx, method: MaybeText as "string", url: MaybeText as "string", options: OptionDict<SseOptions>) -> "string" {
        let Some(method) = method.0 else { return Err(Error::thrown("sse_connect: method is required")) };
        let Some(url) = url.0 else { return Err(Error::thrown("sse_connect: URL is required")) };
        connect_stream(&cx, &method, &url, &dict_of(options.given())).await?
    }

    /// Waits for the next event of a stream.
    ///
    /// The first event is `{type: "open"}`, later ones are `{type: "event", event, data, id, retry_ms}`; `{type:
    /// "timeout"}` if no event arrives in time, nil at the end.
    ///
    /// ```harn
    /// sse_mock("*", ["hi"])
    /// let h = sse_connect("GET", "https://a.test/events")
    /// sse_receive(h)
    /// println(sse_receive(h)) // -> {data: hi, event: message, id: nil, retry_ms: nil, type: event}
    /// println(sse_receive(h)) // -> nil
    /// ```
    Net async fn sse_receive(cx, handle: Text as "string", timeout_ms: Millis) -> "dict | nil" {
        let stream = cx.state::<Open>().stream(NAME, &handle)?;
        stream.receive(&cx, &handle, patience(timeout_ms)).await?
    }

    /// Closes a stream; false if it does not exist.
    ///
    /// ```harn
    /// println(sse_close("sse-9")) // -> false
    /// ```
    State fn sse_close(cx, handle: Text as "string") -> "bool" {
        cx.state::<Open>().end_stream(&handle)
    }

    /// Opens a WebSocket and returns its handle.
    ///
    /// The connection ends with the process: a resumed run must open another one.
    ///
    /// ```harn
    /// websocket_mock("wss://a.test/*", {messages: ["hi"]})
    /// let h = websocket_connect("wss://a.test/chat", {auth: {bearer: "t"}})
    /// println(websocket_receive(h).data) // -> hi
    /// ```
    Net async fn websocket_connect(cx, url: MaybeText as "string", options: OptionDict<WebsocketOptions>) -> "string" {
        let Some(url) = url.0 else { return Err(Error::thrown("websocket_connect: URL is required")) };
        connect_socket(&cx, &url, &dict_of(options.given())).await?
    }

    /// Sends a message: a string as a text message, bytes as a binary message.
    ///
    /// The option `type` is `text`, `binary`, `ping`, `pong` or `close` (with `code` and `reason`). With `base64:
    /// true`, the message is base64-encoded bytes.
    ///
    /// ```harn
    /// websocket_mock("*", {echo: true})
    /// let h = websocket_connect("ws://a.test/")
    /// println(websocket_send(h, "aGk=", {base64: true})) // -> true
    /// println(websocket_receive(h)) // -> {data_base64: aGk=, type: binary}
    /// ```
    Net async fn websocket_send(cx, handle: Text as "string", msg: Value as "bytes | string?", options: Value as "{type?: string, base64?: bool, code?: int, reason?: string}?") -> "bool" {
        let socket = cx.state::<Open>().socket(NAME, &handle)?;
        let frame = frame_of(NAME, &msg, &dict_of(&options))?;
        socket.send(&cx, &handle, frame).await?;
        true
    }

    /// Waits for the next message of a WebSocket.
    ///
    /// The message is `{type: "text", data}`, `{type: "binary", data_base64}`, `ping` or `pong` with `data_base64`
    /// (pings are answered automatically), `{type: "close", code, reason}`, or `{type: "timeout"}`; nil after the peer
    /// has disconnected.
    ///
    /// ```harn
    /// websocket_mock("*", ["a", {type: "close", code: 1001, reason: "bye"}])
    /// let h = websocket_connect("ws://a.test/")
    /// println(websocket_receive(h)) // -> {data: a, type: text}
    /// println(websocket_receive(h)) // -> {code: 1001, reason: bye, type: close}
    /// println(websocket_receive(h)) // -> {type: timeout}
    /// ```
    Net async fn websocket_receive(cx, handle: Text as "string", timeout_ms: Millis) -> "dict | nil" {
        let socket = cx.state::<Open>().socket(NAME, &handle)?;
        socket.receive(&cx, &handle, patience(timeout_ms)).await?
    }

    /// Closes a WebSocket; false if it does not exist.
    ///
    /// ```harn
    /// websocket_mock("*", [])
    /// let h = websocket_connect("ws://a.test/")
    /// println([websocket_close(h), websocket_close(h)]) // -> [true, false]
    /// ```
    Net async fn websocket_close(cx, handle: Text as "string") -> "bool" {
        let socket = cx.state::<Open>().end_socket(&handle);
        match socket {
            None => false,
            Some(socket) => {
                socket.close(&cx, &handle).await?;
                true
            }
        }
    }

    /// Mocks the event streams of matching URLs.
    ///
    /// `*` in the pattern matches any string. An event is its data, or `{event, data, id, retry_ms}`.
    ///
    /// ```harn
    /// sse_mock("*", [{data: "a", id: 1}])
    /// let h = sse_connect("GET", "https://a.test/")
    /// sse_receive(h)
    /// println(sse_receive(h).id) // -> 1
    /// ```
    State fn sse_mock(cx, pattern: Text as "string", events: Value as "list") -> "nil" {
        cx.state::<Mocks>().add_stream(&pattern, &events)?;
    }

    /// Mocks the WebSockets of matching URLs.
    ///
    /// `*` in the pattern matches any string. A message is a string, bytes, or `{type, data | data_base64, code,
    /// reason}`; with `echo`, sent messages are returned.
    ///
    /// ```harn
    /// websocket_mock("*", {messages: ["first"], echo: true})
    /// let h = websocket_connect("ws://a.test/")
    /// websocket_send(h, "second")
    /// println([websocket_receive(h).data, websocket_receive(h).data]) // -> [first, second]
    /// ```
    State fn websocket_mock(cx, pattern: Text as "string", script: Value as "list | {messages?: list, echo?: bool}") -> "nil" {
        cx.state::<Mocks>().add_socket(&pattern, &script)?;
    }

    /// Lists the calls that these mocks answered: `{kind, url, handle, type, data}`.
    ///
    /// `kind` is the name of the builtin. A sent message has a `type`, and its text or base64 as `data`. Secrets in
    /// URLs are redacted.
    ///
    /// ```harn
    /// websocket_mock("*", [])
    /// websocket_send(websocket_connect("ws://a.test/"), "hi")
    /// println(transport_mock_calls().map({ c -> c.kind })) // -> [websocket_connect, websocket_send]
    /// println(transport_mock_calls()[1].data) // -> hi
    /// ```
    State fn transport_mock_calls(cx) -> "list" {
        cx.state::<Mocks>().calls()
    }

    /// Removes the mocks of streams and WebSockets and their recorded calls.
    ///
    /// ```harn
    /// sse_mock("*", [])
    /// sse_connect("GET", "https://a.test/")
    /// transport_mock_clear()
    /// println(transport_mock_calls()) // -> []
    /// ```
    State fn transport_mock_clear(cx) -> "nil" {
        cx.state::<Mocks>().clear();
    }
}

fn dict_of(options: &Value) -> Dict {
    options.to_dict().map(|options| Dict::clone(&options)).unwrap_or_default()
}

fn patience(timeout_ms: Millis) -> Duration {
    Duration::from_millis(u64::try_from(timeout_ms.0.unwrap_or(PATIENCE)).unwrap_or(0))
}
