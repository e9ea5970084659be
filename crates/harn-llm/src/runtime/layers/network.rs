//! The network layers.

use harn_system::SystemExt;

use super::{Provider, Watch};
use crate::config::Dialect;
use crate::error::{Category, LlmError};
use crate::request::{Request, Route};
use crate::response::{Response, ResponseBuilder};
use crate::runtime::{LlmRuntime, Prepared};
use crate::transport;
use crate::wire::{WireStyle, encode};

/// Rejects every call while calls are disabled.
pub(super) struct Disabled<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Disabled<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        match self.runtime.refused_network(&prepared.request.route.provider) {
            Some(refusal) => Err(LlmError::new(Category::Generic, refusal)),
            None => self.inner.answer(prepared, watch).await,
        }
    }
}

/// Adds the key to a request that was prepared for a mock, which needs no key, after the mock's queue ran empty.
pub(super) struct Authorised<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Authorised<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        match self.authorised(prepared)? {
            Some(authorised) => self.inner.answer(&authorised, watch).await,
            None => self.inner.answer(prepared, watch).await,
        }
    }
}

impl<P> Authorised<'_, P> {
    /// Returns the request with its missing key, if there is one.
    fn authorised(&self, prepared: &Prepared) -> Result<Option<Box<Prepared>>, LlmError> {
        let route = &prepared.request.route;
        if route.key.is_some() || self.runtime.transport_is_replaying() {
            return Ok(None);
        }
        let mut own = route.clone();
        let given = prepared.options.api_key.as_ref();
        self.runtime.authorise(&mut own, given).map_err(|e| LlmError::new(Category::Auth, e.0))?;
        if own.key.is_none() {
            return Ok(None);
        }
        self.runtime.adapt_cloud_route(&mut own, given.is_some());
        let mut authorised = Box::new(prepared.clone());
        authorised.request.route = own;
        Ok(Some(authorised))
    }
}

/// Retries at the other endpoint of a server that may lack one of the two.
pub(super) struct OtherEndpoint<P> {
    pub(super) inner: P,
}

impl<P: Provider> Provider for OtherEndpoint<P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let request = &prepared.request;
        let error = match self.inner.answer(prepared, watch).await {
            Err(error) if request.route.dialect == Dialect::Ollama => error,
            other => return other,
        };
        let other = crate::wire::ollama::other_endpoint(request).filter(|_| error.status == Some(404));
        let Some(request) = other else { return Err(error) };
        let other = Box::new(Prepared { request, ..prepared.clone() });
        self.inner.answer(&other, watch).await.map_err(|_| error)
    }
}

/// One exchange with the provider's server.
pub(super) struct Exchange<'r> {
    pub(super) runtime: &'r LlmRuntime,
}

impl Provider for Exchange<'_> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        self.runtime.exchange(&prepared.request, watch).await
    }
}

/// Corrects the wire format in the error of an empty reply, which names the most common one.
fn named_by_wire(mut error: LlmError, route: &Route) -> LlmError {
    let is_openai = matches!(route.style, WireStyle::OpenAiChat | WireStyle::OpenAiResponses)
        || route.style.is_completion();
    if let Some(rest) = error.message.strip_prefix("openai-compatible model ").filter(|_| !is_openai) {
        error.message = format!("{} model {rest}", route.provider);
    }
    error
}

impl LlmRuntime {
    async fn exchange(&self, request: &Request, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let route = &request.route;
        let wire = encode(request).map_err(|e| match e {
            crate::error::CallError::Llm(error) => error,
            crate::error::CallError::Option(message) => {
                let mut error = LlmError::new(Category::Generic, message);
                (error.kind, error.reason) = (crate::error::Kind::Terminal, "invalid_request");
                error
            }
        })?;
        for warning in &wire.warnings {
            if warning.once { self.warn_once(&warning.text) } else { self.embedder.warn(&warning.text) }
        }
        self.log_shapes(request);
        let mut auth = route.secret_headers();
        auth.extend(self.sign_request(route, &wire.url, &wire.body)?);
        let secrets: Vec<_> = auth.iter().map(|(_, secret)| secret.clone()).collect();
        // Boxed because the future is passed by value.
        let carrier = self.carrier();
        let exchange =
            Box::pin(transport::exchange(&*carrier, request, wire, auth, self.embedder.now_ms(), watch));
        let read: Result<ResponseBuilder, LlmError> =
            match request.ollama.unload_grace.filter(|_| route.dialect == Dialect::Ollama) {
                Some(grace) => self.announcing_warm_up(grace, &route.model, exchange).await,
                None => exchange.await,
            };
        let read = read.map_err(|mut error| {
            error.message = secrets.iter().fold(error.message.clone(), |text, secret| secret.redact(&text));
            error
        });
        let finished = read?.finish(&route.provider, &route.model, route.dialect);
        let mut response = finished.map_err(|error| named_by_wire(error, route))?;
        response.redact(&secrets);
        Ok(response)
    }

    /// With `HARN_DEBUG_MESSAGE_SHAPES`: reports the shapes of the messages, never their content.
    fn log_shapes(&self, request: &Request) {
        let wanted = crate::config::env(self.embedder(), "HARN_DEBUG_MESSAGE_SHAPES");
        if wanted.is_none_or(|v| v == "0" || v == "false") {
            return;
        }
        let shape = |message: &harn_value::Data| {
            let role = crate::json::str_at(message, "role").unwrap_or("user");
            let content = match message.get("content") {
                Some(harn_value::Data::Array(blocks)) => {
                    let kinds: Vec<&str> =
                        blocks.iter().map(|b| crate::json::str_at(b, "type").unwrap_or("text")).collect();
                    kinds.join("+")
                }
                Some(other) => other.type_name().to_string(),
                None => "none".to_string(),
            };
            format!("{role}({content})")
        };
        let shapes: Vec<String> = request.messages.to_json().iter().map(shape).collect();
        self.embedder.warn(&format!("message shapes to {}: {}", request.route.provider, shapes.join(" ")));
    }

    /// Reports once that a local model is being loaded when its reply takes long.
    async fn announcing_warm_up<T>(
        &self,
        grace: std::time::Duration,
        model: &str,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        match self.embedder.system().within(grace, &mut work).await {
            Some(done) => done,
            None => {
                self.embedder.progress(&format!("warming up Ollama model {model}"));
                work.await
            }
        }
    }
}
