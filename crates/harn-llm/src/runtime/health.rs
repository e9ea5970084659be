//! `llm_healthcheck`: checks that a provider responds and that it serves a model.

use std::time::Duration;

use harn_value::{Data as Value, json};

use super::LlmRuntime;
use crate::config::{Dialect, Healthcheck, Provider, env};
use crate::json::{Object, clip, list_at, str_at, truthy};
use crate::secret::{Secret, is_secret_header, redact_url};
use crate::transport::{HttpRequest, WholeReply, fetch};

const TIMEOUT: Duration = Duration::from_secs(15);
const BODY_LIMIT: usize = 4 << 20;

impl LlmRuntime {
    /// Checks a provider; never fails. `options` may contain `api_key`, `model`, `base_url` (or `url`), and for Ollama
    /// `warm`, `preload`, `keep_alive`.
    pub async fn healthcheck(&self, provider: &str, options: &Value) -> Value {
        let Some(table) = self.config().provider(provider).cloned() else {
            return verdict(
                provider,
                false,
                format!("Unknown provider: {provider}"),
                json!({"reason": "unknown_provider"}),
            );
        };
        let model = str_at(options, "model").filter(|m| !m.is_empty()).map(str::to_string);
        let warm = options.get("warm").or_else(|| options.get("preload")).is_some_and(truthy);
        if table.dialect() == Dialect::Ollama && (model.is_some() || warm) {
            return self.ollama_health(&table, model, warm, options).await;
        }
        let auth = match self.health_auth(&table, options) {
            Ok(auth) => auth,
            Err(envs) => {
                let message = format!("Missing API key for {provider}: set {}", envs.join(" or "));
                return verdict(
                    provider,
                    false,
                    message,
                    json!({"reason": "missing_credentials", "auth_env": envs}),
                );
            }
        };
        let base = self.health_base(&table, options);
        if let Some(model) = model.filter(|_| speaks_openai(&table)) {
            return self.model_health(provider, &table, &base, &model, auth).await;
        }
        let Some(check) = &table.healthcheck else {
            return verdict(
                provider,
                true,
                format!("not checked: {provider} has no health check"),
                json!({"reason": "no_healthcheck"}),
            );
        };
        // A check with a fixed URL does not test a server at another base URL.
        let elsewhere = base != table.base_url(self.embedder());
        let url = match &check.url {
            Some(_) if elsewhere => join(&base, models_path(&table, &base)),
            Some(url) => url.clone(),
            None => join(&base, check.path.as_deref().unwrap_or("")),
        };
        self.run_check(provider, &table, check, url, auth).await
    }

    /// Returns the base URL for a check: the given one, else the provider's.
    fn health_base(&self, table: &Provider, options: &Value) -> String {
        let given = str_at(options, "base_url").or_else(|| str_at(options, "url"));
        given.map_or_else(|| table.base_url(self.embedder()), crate::config::clean_url)
    }

    async fn run_check(
        &self,
        provider: &str,
        table: &Provider,
        check: &Healthcheck,
        url: String,
        auth: Auth,
    ) -> Value {
        // The body may name the default model, which may be retired.
        let body = check.body.as_deref().map(|body| match &table.default_model {
            Some(model) => {
                body.replace(model.as_str(), &self.config().served(provider, model, self.embedder()))
            }
            None => body.to_owned(),
        });
        let body = body.and_then(|body| serde_json::from_str(&body).ok());
        let reply = self.health_request(provider, table, &check.method, &url, body, auth).await;
        match reply {
            Err(message) => verdict(
                provider,
                false,
                message,
                json!({"reason": "request_failed", "url": redact_url(&url)}),
            ),
            Ok(reply) if reply.head.is_success() => verdict(
                provider,
                true,
                format!("the {provider} server is reachable"),
                json!({"reason": "ok", "url": redact_url(&url)}),
            ),
            Ok(reply) => {
                let message = format!("{provider} answered HTTP {} {}", reply.head.status, reply.head.phrase);
                verdict(
                    provider,
                    false,
                    message,
                    json!({"reason": "http_status", "status": reply.head.status, "url": redact_url(&url), "method": check.method,
                           "body": clip(&reply.text, 1000)}),
                )
            }
        }
    }

    /// Requests the model list of an OpenAI-compatible server and searches it for a model.
    async fn model_health(
        &self,
        provider: &str,
        table: &Provider,
        base: &str,
        model: &str,
        auth: Auth,
    ) -> Value {
        let url = join(base, models_path(table, base));
        let report = |category: &str, status: Option<u16>, message: String, served: &[String]| {
            let metadata = json!({"category": category, "provider": provider, "model": model, "url": redact_url(&url),
                                  "status": status, "available_models": served});
            verdict(provider, category == "ok", message, metadata)
        };
        if !is_address(&url) {
            return report("invalid_url", None, format!("`{url}` is not an address"), &[]);
        }
        let reply = match self.health_request(provider, table, "GET", &url, None, auth).await {
            Ok(reply) => reply,
            Err(message) => return report("unreachable", None, message, &[]),
        };
        if !reply.head.is_success() {
            let message = format!("{provider} answered HTTP {} {}", reply.head.status, reply.head.phrase);
            return report("bad_status", Some(reply.head.status), message, &[]);
        }
        let Some(served) =
            serde_json::from_str::<Value>(&reply.text).ok().and_then(|v| ids(&v, "data", "id"))
        else {
            return report(
                "invalid_response",
                Some(reply.head.status),
                format!("{provider} did not list its models"),
                &[],
            );
        };
        if served.iter().any(|id| id.starts_with(model)) {
            return report("ok", Some(reply.head.status), format!("{provider} serves {model}"), &served);
        }
        report(
            "model_missing",
            Some(reply.head.status),
            format!("{provider} does not serve {model}"),
            &served,
        )
    }

    async fn ollama_health(
        &self,
        table: &Provider,
        model: Option<String>,
        warm: bool,
        options: &Value,
    ) -> Value {
        let model = model
            .or_else(|| env(self.embedder(), "HARN_LLM_MODEL"))
            .or_else(|| env(self.embedder(), "LOCAL_LLM_MODEL"));
        let Some(model) = model else {
            return json!({"valid": false, "status": "invalid_request",
                          "message": "no model to warm up: give option `model` or set HARN_LLM_MODEL"});
        };
        let base = self.health_base(table, options);
        let url = join(&base, "/api/tags");
        let report = |status: &str, message: String, more: Value| {
            let mut out = json!({"valid": status == "ok", "status": status, "message": message, "base_url": redact_url(&base),
                                 "tags_url": redact_url(&url), "model": model, "available_models": []});
            if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
                out.extend(more);
            }
            out
        };
        if !is_address(&url) {
            return report("invalid_url", format!("`{}` is not an address", redact_url(&base)), Value::Null);
        }
        let reply = match self.health_request("ollama", table, "GET", &url, None, None).await {
            Ok(reply) => reply,
            Err(message) => return report("daemon_down", message, Value::Null),
        };
        let http = json!({"http_status": reply.head.status});
        if !reply.head.is_success() {
            return report("bad_status", format!("ollama answered HTTP {}", reply.head.status), http);
        }
        let Some(served) =
            serde_json::from_str::<Value>(&reply.text).ok().and_then(|v| ids(&v, "models", "name"))
        else {
            return report("invalid_response", "ollama did not list its models".into(), http);
        };
        let tagged = format!("{model}:latest");
        let matched = served
            .iter()
            .find(|n| **n == model || **n == tagged)
            .or_else(|| served.iter().find(|n| n.split(':').next() == Some(model.as_str())));
        let mut more = json!({"http_status": reply.head.status, "available_models": served});
        let Some(matched) = matched else {
            return report(
                "model_missing",
                format!("ollama does not have {model}; run `ollama pull {model}`"),
                more,
            );
        };
        more["matched_model"] = matched.as_str().into();
        if !warm {
            return report("ok", format!("ollama has {matched}"), more);
        }
        let keep = crate::wire::ollama::keep_alive(options.get("keep_alive").cloned());
        more["keep_alive"] = keep.clone();
        let body = json!({"model": matched, "prompt": "", "stream": false, "keep_alive": keep});
        let loaded = self
            .health_request("ollama", table, "POST", &join(&base, "/api/generate"), Some(body), None)
            .await;
        match loaded {
            Ok(reply) if reply.head.is_success() => {
                more["warmup"] = json!({"ok": true, "http_status": reply.head.status});
                report("ok", format!("ollama has loaded {matched}"), more)
            }
            Ok(reply) => {
                more["warmup"] = json!({"ok": false, "http_status": reply.head.status});
                report(
                    "warmup_failed",
                    format!("ollama answered HTTP {} to loading {matched}", reply.head.status),
                    more,
                )
            }
            Err(message) => {
                more["warmup"] = json!({"ok": false});
                report("warmup_failed", message, more)
            }
        }
    }

    /// Returns the authorisation of a check. `Err` lists the variables that may contain a key.
    fn health_auth(&self, table: &Provider, options: &Value) -> Result<Auth, Vec<String>> {
        let envs = table.auth_envs();
        let given = str_at(options, "api_key").filter(|k| !k.is_empty()).map(str::to_string);
        let key = given.or_else(|| envs.iter().find_map(|name| env(self.embedder(), name)));
        if table.auth_style() == "none" || (key.is_none() && envs.is_empty()) {
            return Ok(None);
        }
        let Some(key) = key else { return Err(envs.into_iter().map(str::to_string).collect()) };
        Ok(Some(match table.auth_style() {
            "header" => (
                table.auth_header.clone().unwrap_or_else(|| "x-api-key".into()).to_lowercase(),
                Secret::new(key),
            ),
            _ => ("authorization".into(), Secret::new(format!("Bearer {key}"))),
        }))
    }

    async fn health_request(
        &self,
        provider: &str,
        table: &Provider,
        method: &str,
        url: &str,
        body: Option<Value>,
        auth: Auth,
    ) -> Result<WholeReply, String> {
        // A health check is subject to the same restrictions as other requests: it sends the key, and warming up loads
        // a model.
        if let Some(refusal) = self.refused_network(provider) {
            return Err(refusal);
        }
        let known = table.healthcheck.as_ref().and_then(|check| check.url.as_deref()) == Some(url);
        let given = !known && !url.starts_with(&table.base_url(self.embedder()));
        let egress = self.egress(provider, given)?;
        let more = table.extra_headers.clone().into_iter().flatten();
        let (secret, headers): (Vec<_>, Vec<_>) = more.partition(|(name, _)| is_secret_header(name));
        let secret = secret.into_iter().map(|(name, value)| (name, Secret::new(value)));
        let carrier = self.carrier();
        let request = HttpRequest {
            provider,
            method,
            url: url.to_string(),
            headers,
            auth: auth.into_iter().chain(secret).collect(),
            body: body
                .and_then(|body| Some(crate::wire::Body::new(body.as_object()?.clone()).into_payload())),
            egress,
            deadline: carrier.now() + TIMEOUT,
            timeout: TIMEOUT,
            whole: true,
        };
        let hide = |text: String| request.auth.iter().fold(text, |text, (_, secret)| secret.redact(&text));
        let mut reply = fetch(&*carrier, &request, BODY_LIMIT).await.map_err(|e| hide(e.message.clone()))?;
        reply.text = hide(reply.text);
        Ok(reply)
    }
}

type Auth = Option<(String, Secret)>;

fn verdict(provider: &str, valid: bool, message: String, metadata: Value) -> Value {
    let mut out = Object::new();
    out.insert("provider".into(), provider.into());
    out.insert("valid".into(), valid.into());
    out.insert("message".into(), message.into());
    out.insert("metadata".into(), metadata);
    Value::Object(out)
}

fn join(base: &str, path: &str) -> String {
    format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/'))
}

/// Returns the path under which an OpenAI-compatible server lists its models.
fn models_path(table: &Provider, base: &str) -> &'static str {
    if table.chat_endpoint().starts_with("/v1/") && !base.ends_with("/v1") { "/v1/models" } else { "/models" }
}

fn speaks_openai(table: &Provider) -> bool {
    table.chat_endpoint().contains("/chat/completions") || table.chat_endpoint().contains("/responses")
}

/// Returns the sorted values of `key` in the list at `list`.
fn ids(value: &Value, list: &str, key: &str) -> Option<Vec<String>> {
    value.get(list).filter(|l| l.is_array())?;
    let mut out: Vec<String> =
        list_at(value, list).iter().filter_map(|m| str_at(m, key)).map(str::to_string).collect();
    out.sort();
    Some(out)
}

/// Returns whether a string is an HTTP URL to which a request can be sent.
fn is_address(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
