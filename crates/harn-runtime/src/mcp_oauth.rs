//! Sign-in to Model Context Protocol servers over HTTP: OAuth 2.1 as described in the section "Authorization" of the
//! protocol, with PKCE (RFC 7636), discovery (RFC 9728, RFC 8414), dynamic registration (RFC 7591), resource indicators
//! (RFC 8707) and the device flow (RFC 8628).
//!
//! The tokens of a server are stored in a file that only the user can read. Programs receive the access token as a
//! secret environment variable, so that it is not recorded in journals.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harn_system::{HttpRequest, System, SystemExt, Uncertain, token_directory};
use harn_value::{Data as Json, json};
use sha2::{Digest, Sha256};

pub use harn_agent::mcp::SignIn;

/// Maximum size of a reply from an authorization server: 1 MiB.
const MAX_REPLY: u64 = 1 << 20;

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a file of tokens.
const MAX_FILE: u64 = 1 << 20;

/// The requirements of a server for clients.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// The resource that tokens are issued for.
    pub resource: String,
    /// Scopes that the server requests.
    pub scopes: Vec<String>,
    /// The metadata of the authorization server.
    server: Json,
}

/// A client that is registered at an authorization server.
#[derive(Debug, Clone)]
pub struct OauthClient {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

/// A pending sign-in in the user's browser.
#[derive(Debug)]
pub struct Authorization {
    /// The URL to open.
    pub url: String,
    /// The value that the answer must repeat.
    pub state: String,
    verifier: String,
    redirect: String,
}

/// Returns the environment variable with the access token of a server.
pub(crate) fn token_variable(url: &str) -> String {
    format!("HARN_MCP_TOKEN_{}", key(url))
}

/// Returns the file with the tokens of a server.
pub fn token_file(system: &dyn System, url: &str) -> Option<PathBuf> {
    Some(token_directory(system)?.join(format!("{}.json", key(url))))
}

fn key(url: &str) -> String {
    let digest = Sha256::digest(url.split('#').next().unwrap_or(url).as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02X}")).collect()
}

/// Discovers where and how to sign in for a server.
///
/// # Errors
/// The server does not require a sign-in, or its metadata is invalid.
pub async fn discover(system: &dyn System, url: &str) -> Result<Discovery, String> {
    let (origin, path) = parts(url)?;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": harn_agent::mcp::VERSION, "capabilities": {},
        "clientInfo": {"name": "harn", "version": env!("CARGO_PKG_VERSION")}}});
    let accept = "application/json, text/event-stream";
    let headers = [("content-type", "application/json"), ("accept", accept)];
    let asked = send(system, "POST", url, &headers, Some(hello.to_string())).await?;
    let challenge = asked.challenge.unwrap_or_default();
    let named = attribute(&challenge, "resource_metadata");
    let guesses = [
        format!("{origin}/.well-known/oauth-protected-resource{path}"),
        format!("{origin}/.well-known/oauth-protected-resource"),
    ];
    let mut resource = Json::Null;
    for place in named.clone().into_iter().chain(guesses) {
        if let Some(found) = metadata(system, &place).await? {
            resource = found;
            break;
        }
    }
    if resource.is_null() && asked.status != 401 {
        return Err(format!("the server demands no sign-in: it answered with status {}", asked.status));
    }
    let texts = |value: &Json| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    // If the resource is not a prefix of the URL, the token would be for a different server.
    let named = resource["resource"].as_str().unwrap_or(url);
    if !url.starts_with(named.trim_end_matches('/')) {
        return Err(format!("the metadata of the server are for another resource: {named}"));
    }
    let issuer =
        texts(&resource["authorization_servers"]).into_iter().next().unwrap_or_else(|| origin.clone());
    let (issuer_origin, issuer_path) = parts(&issuer)?;
    let issuer_path = issuer_path.trim_end_matches('/');
    let places = [
        format!("{issuer_origin}/.well-known/oauth-authorization-server{issuer_path}"),
        format!("{issuer_origin}/.well-known/openid-configuration{issuer_path}"),
        format!("{issuer_origin}{issuer_path}/.well-known/openid-configuration"),
    ];
    let mut server = Json::Null;
    for place in places {
        if let Some(found) = metadata(system, &place).await? {
            server = found;
            break;
        }
    }
    if server.is_null() {
        return Err(format!("there is no metadata of the authorization server {issuer}"));
    }
    if server["issuer"].as_str().map(|own| own.trim_end_matches('/')) != Some(issuer.trim_end_matches('/')) {
        return Err(format!("the metadata of the authorization server {issuer} name another issuer"));
    }
    if !texts(&server["code_challenge_methods_supported"]).iter().any(|method| method == "S256") {
        return Err(format!("the authorization server {issuer} does not support PKCE with S256"));
    }
    for key in
        ["authorization_endpoint", "token_endpoint", "registration_endpoint", "device_authorization_endpoint"]
    {
        if let Some(place) = server[key].as_str() {
            check_place(place)?;
        }
    }
    let asked_scopes = attribute(&challenge, "scope");
    let scopes = match asked_scopes {
        Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
        None => texts(&resource["scopes_supported"]),
    };
    Ok(Discovery { resource: named.to_owned(), scopes, server })
}

impl Discovery {
    fn endpoint(&self, key: &str) -> Result<&str, String> {
        self.server[key].as_str().ok_or_else(|| format!("the authorization server has no `{key}`"))
    }

    /// Returns whether a sign-in on another device is possible.
    pub fn has_device_flow(&self) -> bool {
        self.server["device_authorization_endpoint"].is_string()
    }

    /// Registers this program as a client.
    ///
    /// # Errors
    /// The authorization server does not register clients, or rejects this one.
    pub async fn register(&self, system: &dyn System, redirect: &str) -> Result<OauthClient, String> {
        let place = self.endpoint("registration_endpoint").map_err(|_| {
            "the authorization server does not register clients: give `client_id` in harn.toml, or --client-id" // prose-ok: diagnostic
                .to_owned()
        })?;
        let asked = json!({
            "client_name": "Harn", "redirect_uris": [redirect], "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
            "scope": self.scopes.join(" "),
        });
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let reply = send(system, "POST", place, &headers, Some(asked.to_string())).await?;
        let body = reply.json();
        match body["client_id"].as_str().filter(|_| (200..300).contains(&reply.status)) {
            Some(id) => {
                let secret = body["client_secret"].as_str().map(str::to_owned);
                Ok(OauthClient { id: id.to_owned(), secret })
            }
            None => Err(reply.problem("the registration")),
        }
    }

    /// Begins a sign-in in the user's browser.
    ///
    /// # Errors
    /// The authorization server does not support it.
    pub fn authorize(
        &self,
        system: &dyn System,
        client: &OauthClient,
        redirect: &str,
    ) -> Result<Authorization, String> {
        let random = || {
            let mut bytes = [0; 32];
            system.random(&mut bytes);
            URL_SAFE_NO_PAD.encode(bytes)
        };
        let (state, verifier) = (random(), random());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &*client.id),
            ("redirect_uri", redirect),
            ("state", &*state),
            ("code_challenge", &*challenge),
            ("code_challenge_method", "S256"),
            ("resource", &*self.resource),
        ];
        let scopes = self.scopes.join(" ");
        if !scopes.is_empty() {
            fields.push(("scope", &scopes));
        }
        let place = self.endpoint("authorization_endpoint")?;
        let sign = if place.contains('?') { '&' } else { '?' };
        let url = format!("{place}{sign}{}", form(&fields));
        Ok(Authorization { url, state, verifier, redirect: redirect.to_owned() })
    }

    /// Exchanges the code of a sign-in for tokens. Returns the content of the file that stores them.
    ///
    /// # Errors
    /// The authorization server rejects the code.
    pub async fn redeem(
        &self,
        system: &dyn System,
        client: &OauthClient,
        authorization: &Authorization,
        code: &str,
    ) -> Result<String, String> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*authorization.redirect),
            ("code_verifier", &*authorization.verifier),
        ];
        let reply = self.token(system, client, &fields).await?;
        self.tokens(system, client, &reply)
    }

    /// Signs in on another device: `show` receives the URL and the code for the user.
    ///
    /// # Errors
    /// The authorization server or the user rejects the sign-in.
    pub async fn device(
        &self,
        system: &dyn System,
        client: &OauthClient,
        show: impl FnOnce(&str, &str),
    ) -> Result<String, String> {
        let place = self.endpoint("device_authorization_endpoint")?;
        let scopes = self.scopes.join(" ");
        let fields = [("client_id", &*client.id), ("scope", &scopes), ("resource", &self.resource)];
        let reply = post_form(system, place, &fields).await?;
        let asked = reply.json();
        let (Some(device), Some(user)) = (asked["device_code"].as_str(), asked["user_code"].as_str()) else {
            return Err(reply.problem("the sign-in on a device"));
        };
        let place =
            asked["verification_uri_complete"].as_str().or_else(|| asked["verification_uri"].as_str());
        show(place.unwrap_or_default(), user);
        let mut pause = asked["interval"].as_u64().unwrap_or(5).clamp(1, 60);
        let mut left = asked["expires_in"].as_u64().unwrap_or(600).min(3600);
        let kind = "urn:ietf:params:oauth:grant-type:device_code";
        while left > 0 {
            system.sleep(Duration::from_secs(pause)).await;
            left = left.saturating_sub(pause);
            let reply = self.token(system, client, &[("grant_type", kind), ("device_code", device)]).await?;
            match reply.json()["error"].as_str() {
                Some("authorization_pending") => {}
                Some("slow_down") => pause += 5,
                _ => return self.tokens(system, client, &reply),
            }
        }
        Err("the sign-in took too long".to_owned())
    }

    async fn token(
        &self,
        system: &dyn System,
        client: &OauthClient,
        fields: &[(&str, &str)],
    ) -> Result<Reply, String> {
        let mut fields = fields.to_vec();
        fields.push(("client_id", &client.id));
        fields.push(("resource", &self.resource));
        fields.extend(client.secret.as_deref().map(|secret| ("client_secret", secret)));
        post_form(system, self.endpoint("token_endpoint")?, &fields).await
    }

    fn tokens(&self, system: &dyn System, client: &OauthClient, reply: &Reply) -> Result<String, String> {
        let mut tokens = tokens(system, reply)?;
        tokens["resource"] = self.resource.as_str().into();
        tokens["token_endpoint"] = self.endpoint("token_endpoint")?.into();
        tokens["client_id"] = client.id.as_str().into();
        if let Some(secret) = &client.secret {
            tokens["client_secret"] = secret.as_str().into();
        }
        Ok(tokens.to_string())
    }
}

/// Exchanges the refresh token of a server for new tokens, and stores them.
///
/// # Errors
/// The refresh token is missing, or the authorization server rejects it.
pub async fn refresh(system: &dyn System, url: &str) -> Result<(), String> {
    let file = token_file(system, url).ok_or("there is no directory for tokens")?;
    let text = system.read_text(&file, MAX_FILE).map_err(|_| "the user is not signed in".to_owned())?;
    let stored: Json = serde_json::from_str(&text).map_err(|_| "the stored tokens are damaged".to_owned())?;
    let field = |key: &str| stored[key].as_str();
    let (Some(token), Some(place), Some(client)) =
        (field("refresh_token"), field("token_endpoint"), field("client_id"))
    else {
        return Err("there is no refresh token".to_owned());
    };
    check_place(place)?;
    let mut fields = vec![("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", client)];
    fields.extend(field("resource").map(|resource| ("resource", resource)));
    fields.extend(field("client_secret").map(|secret| ("client_secret", secret)));
    let fresh = tokens(system, &post_form(system, place, &fields).await?)?;
    let mut stored = stored.as_object().cloned().unwrap_or_default();
    // A server may reuse the refresh token.
    stored.extend(fresh.as_object().cloned().unwrap_or_default());
    // This does not change the permissions of the file.
    system.replace(&file, Json::Object(stored).to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Returns the tokens in a reply.
fn tokens(system: &dyn System, reply: &Reply) -> Result<Json, String> {
    let body = reply.json();
    let is_token = |token: &&str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let token = body["access_token"].as_str().filter(is_token).filter(|_| reply.status == 200);
    let Some(token) = token else { return Err(reply.problem("the sign-in")) };
    if !body["token_type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err("the authorization server issued a token that is no bearer token".to_owned());
    }
    let mut out = json!({"access_token": token});
    if let Some(refresh) = body["refresh_token"].as_str() {
        out["refresh_token"] = refresh.into();
    }
    if let Some(seconds) = body["expires_in"].as_i64() {
        out["expires_at_ms"] = system.now_ms().saturating_add(seconds.saturating_mul(1000)).into();
    }
    Ok(out)
}

struct Reply {
    status: u16,
    challenge: Option<String>,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the error message of a reply. Servers may repeat secrets, so only the error fields of the protocol are
    /// included.
    fn problem(&self, what: &str) -> String {
        let body = self.json();
        let plain = |key: &str| {
            let text: String = body[key].as_str()?.chars().filter(|c| !c.is_control()).take(200).collect();
            Some(text)
        };
        let told: Vec<String> = ["error", "error_description"].into_iter().filter_map(plain).collect();
        let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(": ")) };
        format!("the authorization server rejected {what} with status {}{told}", self.status)
    }
}

async fn send(
    system: &dyn System,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<String>,
) -> Result<Reply, String> {
    let request = HttpRequest {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.map(|body| body.into_bytes().into()),
        timeout: Some(TIMEOUT),
        max_response: MAX_REPLY,
        uncertain: Uncertain::Retry,
        ..HttpRequest::new(method, url)
    };
    let reply = system.http(request).await.map_err(|error| format!("{}: {}", shown(url), error.text))?;
    let (status, challenge) = (reply.status, reply.header("www-authenticate").map(str::to_owned));
    let kind = reply.header("content-type").unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        // Only the status matters.
        reply.body.release().await;
        return Ok(Reply { status, challenge, body: Vec::new() });
    }
    let body = reply.read().await.map_err(|error| format!("{}: {}", shown(url), error.text))?;
    Ok(Reply { status, challenge, body })
}

async fn post_form(system: &dyn System, url: &str, fields: &[(&str, &str)]) -> Result<Reply, String> {
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")];
    send(system, "POST", url, &headers, Some(form(fields))).await
}

/// Returns a metadata document; `None` if the server does not provide it.
async fn metadata(system: &dyn System, url: &str) -> Result<Option<Json>, String> {
    check_place(url)?;
    let reply = send(system, "GET", url, &[("accept", "application/json")], None).await?;
    Ok(Some(reply).filter(|reply| reply.status == 200).map(|reply| reply.json()).filter(Json::is_object))
}

/// Checks that a URL to which secrets are sent uses encryption, or refers to this machine.
fn check_place(url: &str) -> Result<(), String> {
    let (origin, _) = parts(url)?;
    let host = origin.split("://").nth(1).unwrap_or_default();
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(host, _)| host);
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if origin.starts_with("https://") || is_local {
        return Ok(());
    }
    Err(format!("{} is not encrypted: sign-in needs https://", shown(url)))
}

/// Splits a URL into origin and path.
fn parts(url: &str) -> Result<(String, String), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest =
        rest.filter(|rest| !rest.is_empty()).ok_or_else(|| format!("{} is no http address", shown(url)))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.contains('@') {
        return Err("an address with a password is not supported".to_owned());
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let scheme = if url.starts_with("https://") { "https" } else { "http" };
    Ok((format!("{scheme}://{host}"), path.trim_end_matches('/').to_owned()))
}

fn shown(url: &str) -> String {
    harn_llm::secret::redact_url(url.split(['?', '#']).next().unwrap_or(url))
}

/// Returns the value of an attribute of `WWW-Authenticate`.
fn attribute(challenge: &str, name: &str) -> Option<String> {
    let at = challenge.find(&format!("{name}=\""))?;
    let rest = &challenge[at + name.len() + 2..];
    Some(rest[..rest.find('"')?].to_owned())
}

fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    };
    fields.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

/// Returns the fields of a query string.
pub fn query_fields(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let parts = query.split('&').filter_map(|part| part.split_once('='));
    parts.map(|(key, value)| (decoded(key), decoded(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_challenges() {
        let both = |origin: &str, path: &str| Ok((origin.to_owned(), path.to_owned()));
        assert_eq!(parts("https://a.b:1/x/y/?q=1"), both("https://a.b:1", "/x/y"));
        assert!(parts("ftp://a").is_err() && parts("https://u:p@a/").is_err());
        assert!(check_place("https://a/").is_ok() && check_place("http://127.0.0.1:80/x").is_ok());
        assert!(check_place("http://localhost.evil.example/").is_err() && check_place("http://a/").is_err());
        let challenge = "Bearer error=\"x\", resource_metadata=\"https://a/m\", scope=\"r w\"";
        assert_eq!(attribute(challenge, "resource_metadata").as_deref(), Some("https://a/m"));
        assert_eq!(attribute(challenge, "scope").as_deref(), Some("r w"));
        assert_eq!(form(&[("a", "b c"), ("d", "é&")]), "a=b%20c&d=%C3%A9%26");
        assert_eq!(token_variable("https://a/x#y"), token_variable("https://a/x"));
    }
}
