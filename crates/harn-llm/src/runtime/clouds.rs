//! Routes of the large clouds: URLs and credentials that a configuration table cannot express.

use harn_system::SystemExt;

use super::LlmRuntime;
use crate::config::{Dialect, env};
use crate::error::{Category, LlmError, OptionError};
use crate::request::Route;
use crate::secret::Secret;
use crate::sigv4::{Credentials, profile, sign};

impl LlmRuntime {
    /// Fills in the cloud-specific parts of a route: deployment, project, region.
    pub(super) fn adapt_cloud_route(&self, route: &mut Route, key_of_call: bool) {
        let var = |name: &str| env(self.embedder(), name);
        match route.dialect {
            Dialect::Azure => {
                let deployment = var("AZURE_OPENAI_DEPLOYMENT").unwrap_or_else(|| route.model.clone());
                let version = var("AZURE_OPENAI_API_VERSION").unwrap_or_else(|| "2024-10-21".into());
                route.endpoint =
                    format!("/openai/deployments/{deployment}/chat/completions?api-version={version}");
                // A Microsoft Entra ID token is sent as a bearer token; only the key of the resource has its own
                // header.
                if !key_of_call
                    && var("AZURE_OPENAI_API_KEY").is_none()
                    && let Some(key) = &route.key
                {
                    route.auth =
                        Some(("authorization".into(), Secret::new(format!("Bearer {}", key.reveal()))));
                }
            }
            Dialect::Vertex => {
                let named = route.region.clone().or_else(|| var("VERTEX_AI_LOCATION"));
                let location = named.unwrap_or_else(|| "us-central1".into());
                if route.base_url.is_empty() {
                    route.base_url = format!("https://{location}-aiplatform.googleapis.com/v1");
                }
                route.endpoint = route.endpoint.replace("{location}", &location);
                if let Some(project) = self.vertex_project() {
                    route.endpoint = route.endpoint.replace("{project}", &project);
                }
            }
            Dialect::Bedrock if route.base_url.is_empty() => {
                route.base_url = format!("https://bedrock-runtime.{}.amazonaws.com", self.aws_region(route));
            }
            _ => {}
        }
    }

    fn vertex_project(&self) -> Option<String> {
        ["VERTEX_AI_PROJECT", "GOOGLE_CLOUD_PROJECT"].iter().find_map(|name| env(self.embedder(), name))
    }

    /// Checks that the URL of a cloud can be completed, before anything is sent.
    ///
    /// # Errors
    /// No project is configured.
    pub(super) fn check_cloud_route(&self, route: &Route) -> Result<(), OptionError> {
        let lacks_project = route.dialect == Dialect::Vertex && route.endpoint.contains("{project}");
        if lacks_project && self.vertex_project().is_none() {
            let missing = "no project: set VERTEX_AI_PROJECT or GOOGLE_CLOUD_PROJECT environment variable";
            return Err(OptionError::new(format!("{}: {missing}", route.provider)));
        }
        Ok(())
    }

    fn aws_region(&self, route: &Route) -> String {
        let of_env = || {
            let names = ["AWS_REGION", "AWS_DEFAULT_REGION", "BEDROCK_REGION"];
            names.iter().find_map(|name| env(self.embedder(), name))
        };
        route.region.clone().or_else(of_env).unwrap_or_else(|| "us-east-1".into())
    }

    fn aws_credentials(&self) -> Option<Credentials> {
        let var = |name: &str| env(self.embedder(), name);
        if let (Some(access_key), Some(secret)) = (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY")) {
            let session_token = var("AWS_SESSION_TOKEN").map(Secret::new);
            return Some(Credentials { access_key, secret_key: Secret::new(secret), session_token });
        }
        let path = format!("{}/.aws/credentials", var("HOME")?);
        let text = self.embedder.system().read_text(path.as_ref(), 1 << 20).ok()?;
        profile(&text, &var("AWS_PROFILE").unwrap_or_else(|| "default".into()))
    }

    /// Signs a request of a route with signature authorisation. The returned headers are secret: they are added to the
    /// request but never recorded.
    pub(super) fn sign_request(
        &self,
        route: &Route,
        url: &str,
        body: &crate::wire::Body,
    ) -> Result<Vec<(String, Secret)>, LlmError> {
        if route.dialect != Dialect::Bedrock || self.transport_is_replaying() {
            return Ok(Vec::new());
        }
        let credentials = self.aws_credentials().ok_or_else(|| {
            LlmError::new(
                Category::Auth,
                "bedrock: no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials",
            )
        })?;
        let parsed = url::Url::parse(url).map_err(|e| {
            LlmError::new(Category::Generic, format!("bedrock API error: invalid address `{url}`: {e}"))
        })?;
        Ok(sign(
            &parsed,
            &body.to_bytes(),
            &self.aws_region(route),
            "bedrock",
            &credentials,
            self.embedder.now_ms(),
        ))
    }
}
