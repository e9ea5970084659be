//! Routes and responses.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use harn_runtime::diff_run_records;
use harn_value::{Data, json};

use crate::access::{Verdict, judge};
use crate::launch::{self, Jobs};
use crate::list::Wanted;
use crate::records::{Records, Refused};
use crate::{Settings, costs, detail, list};

/// Maximum size of a request body: 8 MiB.
const MAX_BODY: usize = 8 << 20;

/// The page can load its own files and call its own server, and nothing else; other pages cannot embed it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A script of the page: route and content.
macro_rules! script {
    ($name:literal) => {
        (concat!("/assets/", $name), SCRIPT, include_str!(concat!("../assets/", $name)))
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page: route, type and content.
const ASSETS: &[(&str, &str, &str)] = &[
    ("/assets/portal.css", "text/css; charset=utf-8", include_str!("../assets/portal.css")),
    script!("portal.js"),
    script!("portal/dom.js"),
    script!("portal/format.js"),
    script!("portal/api.js"),
    script!("portal/routes.js"),
    script!("portal/parts.js"),
    script!("portal/runs.js"),
    script!("portal/run.js"),
    script!("portal/timeline.js"),
    script!("portal/stages.js"),
    script!("portal/turns.js"),
    script!("portal/variants.js"),
    script!("portal/extras.js"),
    script!("portal/compare.js"),
    script!("portal/costs.js"),
    script!("portal/launch.js"),
];

const PAGE: &str = include_str!("../assets/index.html");

/// A listening portal.
pub struct Portal {
    #[expect(clippy::disallowed_types, reason = "the portal is a server: it listens")]
    listener: tokio::net::TcpListener,
    app: Arc<App>,
}

/// Shared state of the requests.
struct App {
    settings: Settings,
    records: Records,
    jobs: Jobs,
    /// The listening address, and the requested host name.
    address: SocketAddr,
    host: String,
}

/// Listens on a host and port; port 0 selects a free one.
///
/// # Errors
/// `failed to bind portal listener on HOST:PORT: TEXT`.
#[expect(clippy::disallowed_types, reason = "the portal is a server: it listens")]
pub async fn bind(settings: Settings, host: &str, port: u16) -> Result<Portal, String> {
    let failed = |error: std::io::Error| {
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "; choose another port with --port (0: any free port)",
            _ => "",
        };
        format!("failed to bind portal listener on {shown}:{port}: {error}{hint}")
    };
    let listener = tokio::net::TcpListener::bind((host, port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let records = Records::of(settings.dir.clone());
    let app = App { settings, records, jobs: Jobs::default(), address, host: host.to_lowercase() };
    Ok(Portal { listener, app: Arc::new(app) })
}

impl Portal {
    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.app.address
    }

    /// Serves requests until the future is dropped, which also ends launched programs.
    ///
    /// # Errors
    /// A message.
    pub async fn serve(self) -> Result<(), String> {
        let app = self.app;
        let router = Router::new()
            .route("/api/meta", get(meta))
            .route("/api/runs", get(runs))
            .route("/api/run", get(run))
            .route("/api/run/raw", get(raw))
            .route("/api/compare", get(compare))
            .route("/api/costs", get(spent))
            .route("/api/llm/options", get(models))
            .route("/api/highlight/keywords", get(words))
            .route("/api/launch/targets", get(targets))
            .route("/api/launch/jobs", get(jobs))
            .route("/api/launch", post(start))
            .route("/api/launch/stop", post(stop))
            .fallback(page)
            .method_not_allowed_fallback(not_allowed)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .layer(middleware::from_fn_with_state(app.clone(), guard))
            .with_state(app);
        axum::serve(self.listener, router).await.map_err(|e| format!("the portal has stopped: {e}"))
    }
}

/// A JSON response, or an HTTP status and an error message.
type Answer = Result<Data, (StatusCode, String)>;

fn answered(answer: Answer) -> Response {
    let (status, body) = match answer {
        Ok(data) => (StatusCode::OK, data),
        Err((status, error)) => (status, json!({"error": error})),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn refused(error: Refused) -> (StatusCode, String) {
    match error {
        Refused::BadPath(text) => (StatusCode::BAD_REQUEST, text.to_owned()),
        Refused::Missing(path) => (StatusCode::NOT_FOUND, format!("run record not found: {path}")),
        Refused::Broken(text) => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// Runs blocking work outside of the request threads.
async fn beside<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, (StatusCode, String)> + Send + 'static,
) -> Result<T, (StatusCode, String)> {
    let app = app.clone();
    let done = tokio::task::spawn_blocking(move || work(&app)).await;
    done.unwrap_or_else(|e| Err((StatusCode::INTERNAL_SERVER_ERROR, format!("the portal has failed: {e}"))))
}

/// Rejects unauthorized requests, and adds security headers to responses.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (token, headers) = (app.settings.token.as_ref(), request.headers());
    let mut response = match judge(token, app.address, &app.host, request.method(), request.uri(), headers) {
        Verdict::Pass => next.run(request).await,
        Verdict::Welcome { to, cookie } => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, to), (header::SET_COOKIE, cookie)]).into_response()
        }
        Verdict::NoToken => answered(Err((
            StatusCode::UNAUTHORIZED,
            "the portal needs its token: open the address that it printed when it started".to_owned(),
        ))),
        Verdict::Refuse(why) => answered(Err((StatusCode::FORBIDDEN, why.to_owned()))),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn page(request: Request) -> Response {
    let path = request.uri().path();
    if path == "/api" || path.starts_with("/api/") {
        return answered(Err((StatusCode::NOT_FOUND, format!("there is no {path}"))));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return not_allowed().await;
    }
    if path.starts_with("/assets/") {
        return match ASSETS.iter().find(|(name, _, _)| *name == path) {
            Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
            None => answered(Err((StatusCode::NOT_FOUND, format!("there is no {path}")))),
        };
    }
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}

async fn not_allowed() -> Response {
    answered(Err((StatusCode::METHOD_NOT_ALLOWED, "this address takes another method".to_owned())))
}

async fn meta(State(app): State<Arc<App>>) -> Response {
    let reason = launching(&app).err();
    answered(Ok(json!({
        "version": app.settings.version, "workspace_root": app.settings.workspace.display().to_string(),
        "run_dir": app.settings.dir.display().to_string(),
        "launch": {"allowed": reason.is_none(), "reason": reason.map(|(_, text)| text)},
    })))
}

async fn runs(State(app): State<Arc<App>>, Query(wanted): Query<Wanted>) -> Response {
    let bad = |error| (StatusCode::BAD_REQUEST, error);
    answered(beside(&app, move |app| list::answer(&app.records.rows(), &wanted).map_err(bad)).await)
}

/// Returns a parameter of a request, empty if it is missing.
fn parameter(query: &HashMap<String, String>, name: &str) -> String {
    query.get(name).cloned().unwrap_or_default()
}

async fn run(State(app): State<Arc<App>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let path = parameter(&query, "path");
    let work = move |app: &App| {
        let opened = app.records.open(&path).map_err(refused)?;
        Ok(detail::answer(&app.records, &opened))
    };
    answered(beside(&app, work).await)
}

async fn raw(State(app): State<Arc<App>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let path = parameter(&query, "path");
    match beside(&app, move |app| app.records.raw(&path).map_err(refused)).await {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(error) => answered(Err(error)),
    }
}

async fn compare(State(app): State<Arc<App>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let (left, right) = (parameter(&query, "left"), parameter(&query, "right"));
    let work = move |app: &App| {
        let left = app.records.open(&left).map_err(refused)?;
        let right = app.records.open(&right).map_err(refused)?;
        let diff = diff_run_records(&left.run, &right.run);
        Ok(json!({
            "left": left.row.to_json(), "right": right.row.to_json(), "identical": diff["identical"], "diff": diff,
        }))
    };
    answered(beside(&app, work).await)
}

async fn spent(State(app): State<Arc<App>>) -> Response {
    answered(beside(&app, |app| Ok(costs::answer(&app.records.rows()))).await)
}

async fn models(State(app): State<Arc<App>>) -> Response {
    answered(Ok(app.settings.models.clone()))
}

async fn words(State(app): State<Arc<App>>) -> Response {
    answered(Ok(app.settings.words.clone()))
}

/// Checks that launches are allowed.
fn launching(app: &App) -> Result<(), (StatusCode, String)> {
    if app.address.ip().is_loopback() || app.settings.remote_launch {
        return Ok(());
    }
    let text = "the portal listens to other machines: launching needs --allow-remote-launch";
    Err((StatusCode::FORBIDDEN, text.to_owned()))
}

async fn targets(State(app): State<Arc<App>>) -> Response {
    let work = |app: &App| launching(app).map(|()| launch::targets(&app.settings.workspace));
    answered(beside(&app, work).await)
}

async fn jobs(State(app): State<Arc<App>>) -> Response {
    answered(launching(&app).map(|()| app.jobs.to_json()))
}

async fn start(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    let job = launching(&app)
        .and_then(|()| document(&headers, &body))
        .and_then(|wanted| app.jobs.start(&app.settings, &wanted));
    match job {
        Ok(job) => (StatusCode::ACCEPTED, answered(Ok(job))).into_response(),
        Err(error) => answered(Err(error)),
    }
}

async fn stop(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    let stopped = launching(&app).and_then(|()| document(&headers, &body)).and_then(|wanted| {
        let id = wanted["id"].as_str().unwrap_or_default();
        app.jobs.stop(id).ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no job '{id}'")))
    });
    answered(stopped)
}

/// Parses the JSON body of a request. Rejects content types of forms, because any page can send a form here.
fn document(headers: &HeaderMap, body: &[u8]) -> Result<Data, (StatusCode, String)> {
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
        return Err(bad("the body must be application/json".to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|_| bad("the body is not UTF-8 text".to_owned()))?;
    let data: Data = text.parse().map_err(|e| bad(format!("the body is not valid JSON: {e}")))?;
    if data.is_object() { Ok(data) } else { Err(bad("the body must be a JSON object".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_page_are_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let names = |folder: &std::path::Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let mut files = names(&folder);
        files.retain(|name| name != "index.html" && name != "portal");
        files.extend(names(&folder.join("portal")).into_iter().map(|name| format!("portal/{name}")));
        assert_eq!(files.len(), ASSETS.len());
        for file in files {
            assert!(ASSETS.iter().any(|(path, _, _)| *path == format!("/assets/{file}")), "{file}");
        }
    }
}
