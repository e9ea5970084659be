//! HTTP over the network. Redirects are followed here, because what belongs to one origin must not be told
//! to another: the client below knows only some of the headers that do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};

use crate::net::{
    Body, HttpError, HttpErrorKind, HttpReply, HttpRequest, Payload, Resolver, is_secret_header, too_large,
};
use crate::wait::Waiting;

/// Clients by what belongs to a client rather than to a request; each keeps its connections.
#[derive(Default)]
pub(super) struct Clients(RefCell<HashMap<Settings, reqwest::Client>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Settings {
    connect_timeout: Option<Duration>,
    read_timeout: Option<Duration>,
    proxy: Option<String>,
    direct: bool,
    resolver: Option<Resolver>,
}

/// How long a reply that is complete waits for the end of its body. Servers send it right behind.
const LINGER: Duration = Duration::from_millis(20);
/// How long and how much is read beside the program when it did not come by then.
const DRAIN: (Duration, usize) = (Duration::from_secs(5), 64 << 10);

fn invalid(text: String) -> HttpError {
    HttpError::new(HttpErrorKind::Invalid, text)
}

impl Clients {
    fn get(&self, request: &HttpRequest) -> Result<reqwest::Client, HttpError> {
        let settings = Settings {
            connect_timeout: request.connect_timeout,
            read_timeout: request.read_timeout,
            proxy: request.proxy.clone(),
            direct: request.direct,
            resolver: request.resolver.clone(),
        };
        if let Some(client) = self.0.borrow().get(&settings) {
            return Ok(client.clone());
        }
        // An error means that another crate has chosen a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
            if let Some(time) = request.connect_timeout {
                builder = builder.connect_timeout(time);
            }
            if let Some(time) = request.read_timeout {
                builder = builder.read_timeout(time);
            }
            if request.direct {
                builder = builder.no_proxy();
            }
            if let Some(resolver) = &request.resolver {
                builder = builder.dns_resolver(Arc::new(Resolve(resolver.clone())));
            }
            match &request.proxy {
                Some(proxy) => reqwest::Proxy::all(proxy)
                    .map(|set| builder.proxy(set))
                    .map_err(|reason| invalid(format!("invalid proxy '{proxy}': {reason}"))),
                None => Ok(builder),
            }
        };
        // A machine without root certificates can still talk plain HTTP.
        let client = match builder()?.build() {
            Ok(client) => client,
            Err(_) => builder()?
                .tls_certs_only([])
                .build()
                .map_err(|error| invalid(format!("request failed: {error}")))?,
        };
        self.0.borrow_mut().insert(settings, client.clone());
        Ok(client)
    }

    /// Sends a request, follows redirects, and gives the head of the reply.
    pub(super) async fn exchange(&self, request: HttpRequest) -> Result<HttpReply, HttpError> {
        let client = self.get(&request)?;
        // The time is that of the whole exchange, whatever it leads through.
        let until = request.timeout.map(|time| tokio::time::Instant::now() + time);
        let mut method = Method::from_bytes(request.method.as_bytes())
            .map_err(|reason| invalid(format!("invalid method '{}': {reason}", request.method)))?;
        let mut headers = header_map(&request.headers)?;
        let mut body = request.body;
        let mut url = Url::parse(&request.url).map_err(|reason| invalid(format!("invalid URL: {reason}")))?;
        let mut followed = 0;
        loop {
            let mut prepared = client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(until) = until {
                prepared = prepared.timeout(until.saturating_duration_since(tokio::time::Instant::now()));
            }
            if let Some(body) = &body {
                prepared = prepared.body(outgoing(body));
            }
            let response = prepared.send().await.map_err(|error| failed(&error))?;
            let Some(next) = redirect(&response).filter(|_| request.redirects > 0) else {
                return reply(response, request.max_response);
            };
            if followed == request.redirects {
                return Err(HttpError::new(HttpErrorKind::Redirect, "too many redirects"));
            }
            followed += 1;
            let next = url.join(&next).ok().filter(|next| matches!(next.scheme(), "http" | "https"));
            let Some(next) = next else {
                return Err(HttpError::new(HttpErrorKind::Redirect, "a redirect leads to no HTTP address"));
            };
            // As browsers do it, and RFC 9110 section 15.4 allows: only 307 and 308 send the body again.
            let changes = match response.status() {
                StatusCode::SEE_OTHER => method != Method::HEAD,
                StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
                _ => false,
            };
            if changes {
                method = Method::GET;
                body = None;
                for name in ["content-type", "content-length", "content-encoding", "transfer-encoding"] {
                    headers.remove(name);
                }
            }
            if next.origin() != url.origin() {
                let secret: Vec<HeaderName> =
                    headers.keys().filter(|name| is_secret_header(name.as_str())).cloned().collect();
                for name in secret {
                    headers.remove(name);
                }
                headers.remove("host");
            }
            url = next;
        }
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|reason| invalid(format!("invalid header name '{name}': {reason}")))?;
        // The value may be a key: it is not shown.
        let mut value =
            HeaderValue::from_str(value)
                .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
                .map_err(|reason| invalid(format!("invalid value of the header '{name}': {reason}")))?;
        value.set_sensitive(is_secret_header(name));
        map.append(key, value);
    }
    Ok(map)
}

/// Where a reply sends one to.
fn redirect(response: &reqwest::Response) -> Option<String> {
    let status = response.status().as_u16();
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let place = response.headers().get("location")?;
    Some(String::from_utf8_lossy(place.as_bytes()).into_owned())
}

fn reply(response: reqwest::Response, limit: u64) -> Result<HttpReply, HttpError> {
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Ok(HttpReply {
        status: response.status().as_u16(),
        headers: response.headers().iter().map(header).collect(),
        body: Box::new(Pieces { response, left: limit, limit }),
    })
}

struct Pieces {
    response: reqwest::Response,
    left: u64,
    limit: u64,
}

impl Body for Pieces {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        Box::pin(async {
            let Some(piece) = self.response.chunk().await.map_err(|error| failed(&error))? else {
                return Ok(None);
            };
            self.left = self.left.checked_sub(piece.len() as u64).ok_or_else(|| too_large(self.limit))?;
            Ok(Some(piece))
        })
    }

    fn release(mut self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(async move {
            if tokio::time::timeout(LINGER, drain(&mut self.response)).await.is_err() {
                let mut response = self.response;
                tokio::spawn(async move { tokio::time::timeout(DRAIN.0, drain(&mut response)).await });
            }
        })
    }
}

/// Reads a body to its end, or until it is too long to be worth the connection.
async fn drain(response: &mut reqwest::Response) {
    let mut room = DRAIN.1;
    while let Ok(Some(chunk)) = response.chunk().await {
        match room.checked_sub(chunk.len()) {
            Some(rest) => room = rest,
            None => return,
        }
    }
}

/// The pieces of a body on their way out; how long they are is known from the start.
struct Outgoing {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

fn outgoing(body: &Payload) -> reqwest::Body {
    match &body.0[..] {
        [one] => one.clone().into(),
        _ => {
            let left = body.size() as u64;
            reqwest::Body::wrap(Outgoing { pieces: body.0.clone().into_iter(), left })
        }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.pieces.next().map(|piece| {
            self.left -= piece.len() as u64;
            Ok(http_body::Frame::data(piece))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}

/// A [`Resolver`] as the client wants it.
struct Resolve(Resolver);

impl reqwest::dns::Resolve for Resolve {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = self.0.find(name.as_str());
        Box::pin(async {
            // The port comes from the address of the request.
            let addresses = found?.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}

/// The causes of an error without the address, which may hold a key.
fn failed(error: &reqwest::Error) -> HttpError {
    if error.is_timeout() {
        return HttpError::new(HttpErrorKind::Timeout, "operation timed out");
    }
    let mut parts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        source = inner.source();
    }
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() {
        HttpErrorKind::Invalid
    } else {
        HttpErrorKind::Broken
    };
    let text = if parts.is_empty() { "the request could not be sent".to_owned() } else { parts.join(": ") };
    HttpError::new(kind, text)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A server that answers each request, in order, with what `answer` makes of its path; gives its address and
    /// what it was told.
    fn server(answer: impl Fn(&str) -> String + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|n| n > 2) {}
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                let _ = reader.read_exact(&mut body);
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                told.lock().expect("a lock").push(head + &String::from_utf8_lossy(&body));
                let _ = stream.write_all(answer(&path).as_bytes());
            }
        });
        (address, heard)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(future)
    }

    async fn text(request: HttpRequest) -> Result<(u16, String), HttpError> {
        let reply = Clients::default().exchange(request).await?;
        let status = reply.status;
        Ok((status, String::from_utf8_lossy(&reply.read().await?).into_owned()))
    }

    fn page(status: &str, more: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{more}\r\n{body}",
            body.len()
        )
    }

    #[test]
    fn keys_do_not_follow_redirects_to_another_origin() {
        let (other, heard) = server(|_| page("200 OK", "", "there"));
        let target = other.clone();
        let (first, _) = server(move |_| page("302 Found", &format!("location: {target}/x\r\n"), ""));
        let names = ["authorization", "x-api-key", "api-key", "x-auth-token", "cookie"];
        let mut request = HttpRequest { redirects: 5, ..HttpRequest::new("GET", first) };
        request.headers = names.iter().map(|name| ((*name).to_owned(), "hidden".to_owned())).collect();
        request.headers.push(("x-plain".to_owned(), "shown".to_owned()));
        assert_eq!(block_on(text(request)).expect("a reply"), (200, "there".to_owned()));
        let heard = heard.lock().expect("a lock").concat();
        assert!(heard.contains("x-plain: shown") && !heard.contains("hidden"), "{heard}");
    }

    #[test]
    fn redirects_keep_keys_and_bodies_where_they_may() {
        let (address, heard) = server(|path| match path {
            "/307" => page("307 Temporary Redirect", "location: /end\r\n", ""),
            "/303" => page("303 See Other", "location: /end\r\n", ""),
            "/loop" => page("302 Found", "location: /loop\r\n", ""),
            "/file" => page("302 Found", "location: file:///etc/passwd\r\n", ""),
            _ => page("200 OK", "", "end"),
        });
        let send = |path: &str, redirects| {
            let mut request =
                HttpRequest { redirects, ..HttpRequest::new("POST", format!("{address}{path}")) };
            request.headers = vec![("x-api-key".to_owned(), "k".to_owned())];
            request.body = Some(b"body".to_vec().into());
            block_on(text(request))
        };
        assert_eq!(send("/307", 1).expect("a reply").1, "end");
        assert_eq!(send("/303", 1).expect("a reply").1, "end");
        assert_eq!(send("/303", 0).expect("a reply").0, 303);
        assert_eq!(send("/loop", 3).expect_err("a loop").text, "too many redirects");
        assert_eq!(send("/file", 3).expect_err("no address").kind, HttpErrorKind::Redirect);
        let heard = heard.lock().expect("a lock");
        assert!(
            heard[1].starts_with("POST /end")
                && heard[1].ends_with("body")
                && heard[1].contains("x-api-key: k")
        );
        assert!(heard[3].starts_with("GET /end") && !heard[3].ends_with("body"));
    }

    #[test]
    fn bodies_have_a_limit_whether_or_not_they_say_how_long_they_are() {
        let (address, _) = server(|path| match path {
            "/said" => page("200 OK", "", &"x".repeat(1001)),
            _ => format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(1001)),
        });
        for path in ["/said", "/unsaid"] {
            let mut request = HttpRequest::new("GET", format!("{address}{path}"));
            request.max_response = 1000;
            let error = block_on(text(request.clone())).expect_err("too large");
            assert_eq!(error.text, "the response is larger than 1000 bytes (option max_response_bytes)");
            request.max_response = 1001;
            assert_eq!(block_on(text(request)).expect("a reply").1.len(), 1001);
        }
    }
}
