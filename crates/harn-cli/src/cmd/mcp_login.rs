//! `harn mcp`: signs in to MCP servers over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use harn_runtime::mcp_oauth::{
    Authorization, Discovery, OauthClient, SignIn, discover, query_fields, token_file,
};
use harn_system::{Real, System, SystemExt};
use harn_vm::{VmBuilder, block_on};

use crate::args::{McpCommand, McpLoginArgs};
use crate::out::Out;

#[expect(clippy::disallowed_types, reason = "the browser brings the code of a sign-in to this machine")]
type Listener = std::net::TcpListener;

#[expect(clippy::disallowed_types, reason = "as above")]
type Socket = std::net::TcpStream;

/// How long the user may take in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a subcommand. Returns the exit code.
pub(crate) fn mcp(command: &McpCommand) -> u8 {
    let done = match command {
        McpCommand::Login(args) => login(args),
        McpCommand::Logout { server } => logout(server),
    };
    match done {
        Ok(text) => {
            let _ = writeln!(Out, "{}", harn_syntax::printable(&text));
            0
        }
        Err(why) => {
            eprintln!("{}", harn_syntax::error_line(&why));
            1
        }
    }
}

/// Returns the address of a server, given as an address or as a name in the project's manifest.
fn address(server: &str) -> Result<(String, SignIn), String> {
    if ["http://", "https://"].iter().any(|scheme| server.starts_with(scheme)) {
        return Ok((server.to_owned(), SignIn::default()));
    }
    let vm = VmBuilder::new(Rc::new(Real::new())).build();
    harn_runtime::project_http_server(&vm, Path::new("."), server)
}

fn logout(server: &str) -> Result<String, String> {
    let real = Real::new();
    let (url, _) = address(server)?;
    let file = token_file(&real, &url).ok_or("there is no home directory for tokens: set HOME")?;
    if !real.is_file(&file) {
        return Err(format!("not signed in to {server}"));
    }
    real.remove(&file).map_err(|error| format!("cannot remove {}: {error}", file.display()))?;
    Ok(format!("signed out of {server}"))
}

fn login(args: &McpLoginArgs) -> Result<String, String> {
    let (url, own) = address(&args.server)?;
    let real = Real::new();
    let file = token_file(&real, &url).ok_or("there is no home directory for tokens: set HOME")?;
    let tokens =
        block_on(sign_in(&real, &url, own, args)).map_err(|error| format!("cannot wait: {error}"))??;
    let stored = real.write_with_folder(&file, |real| {
        if real.is_file(&file) {
            real.remove(&file)?;
        }
        harn_system::real::create_private(&file, tokens.as_bytes())
    });
    stored.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(format!("signed in to {}", args.server))
}

async fn sign_in(real: &Real, url: &str, own: SignIn, args: &McpLoginArgs) -> Result<String, String> {
    let mut found = discover(real, url).await?;
    let scopes: Vec<String> = if args.scope.is_empty() { own.scopes } else { args.scope.clone() };
    if !scopes.is_empty() {
        found.scopes = scopes;
    }
    let known =
        args.client_id.clone().or(own.client_id).map(|id| OauthClient { id, secret: own.client_secret });
    if args.device {
        if !found.has_device_flow() {
            return Err(
                "the authorization server has no sign-in on another device; leave out --device".to_owned()
            );
        }
        let client = client(real, &found, known, "http://127.0.0.1/callback").await?;
        return found
            .device(real, &client, |place, code| {
                eprintln!(
                    "open {} and enter {}",
                    harn_syntax::printable(place),
                    harn_syntax::printable(code)
                );
            })
            .await;
    }
    let listener = Listener::bind(("127.0.0.1", args.port.unwrap_or(0)))
        .map_err(|error| format!("cannot listen on this machine: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}/callback");
    let client = client(real, &found, known, &redirect).await?;
    let authorization = found.authorize(real, &client, &redirect)?;
    eprintln!("open this address to sign in:\n{}", harn_syntax::printable(&authorization.url));
    let code = callback(real, &listener, &authorization)?;
    found.redeem(real, &client, &authorization, &code).await
}

async fn client(
    real: &Real,
    found: &Discovery,
    known: Option<OauthClient>,
    redirect: &str,
) -> Result<OauthClient, String> {
    match known {
        Some(client) => Ok(client),
        None => found.register(real, redirect).await,
    }
}

/// Waits until the browser delivers the code. Requests without the state of this sign-in are rejected.
fn callback(real: &Real, listener: &Listener, authorization: &Authorization) -> Result<String, String> {
    let end = real.monotonic().saturating_add(PATIENCE);
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    while real.monotonic() < end {
        let Ok((socket, _)) = listener.accept() else {
            crate::json_rpc::pause();
            continue;
        };
        let Some(query) = request(&socket) else { continue };
        let field = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if field("state") != Some(&authorization.state) {
            answer(&socket, "400 Bad Request", "This is not the sign-in that harn waits for.");
            continue;
        }
        return match (field("code"), field("error")) {
            (Some(code), None) => {
                answer(&socket, "200 OK", "You are signed in. You can close this window.");
                Ok(code.to_owned())
            }
            (_, error) => {
                answer(&socket, "200 OK", "The sign-in failed. You can close this window.");
                Err(format!("the authorization server rejected the sign-in: {}", error.unwrap_or("no code")))
            }
        };
    }
    Err("the sign-in took too long".to_owned())
}

/// Returns the query fields of a request for `/callback`.
fn request(socket: &Socket) -> Option<Vec<(String, String)>> {
    socket.set_nonblocking(false).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut line = String::new();
    let mut input = BufReader::new(std::io::Read::take(socket, 16 << 10));
    input.read_line(&mut line).ok()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    // Read the rest of the head, so that the response is delivered.
    while input.read_line(&mut line).ok()? > 0 && !line.ends_with("\r\n\r\n") {}
    Some(query_fields(target.strip_prefix("/callback?").unwrap_or_default()))
}

fn answer(mut socket: &Socket, status: &str, text: &str) {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // The browser may be gone; the sign-in does not depend on it.
    let _ = socket.write_all(format!("{head}{text}").as_bytes());
}
