//! Images and documents, in messages and in tool results.

use std::borrow::Cow;

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{display, present, str_at};

/// An image, by URL or by content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The URL or content.
    pub source: ImageSource,
    /// MIME type.
    pub media_type: String,
    /// `low`, `high` or `auto`.
    pub detail: Option<String>,
}

/// The URL or content of an image or document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// A URL that the provider fetches.
    Url(String),
    /// The content in base64.
    Base64(String),
}

impl ImageSource {
    /// Returns the URL, or the content as a `data:` URL.
    pub(crate) fn to_url(&self, media_type: &str) -> String {
        match self {
            ImageSource::Url(url) => url.clone(),
            ImageSource::Base64(data) => format!("data:{media_type};base64,{data}"),
        }
    }
}

impl Image {
    pub(crate) fn from_json(block: &Value) -> Result<Image, OptionError> {
        let text = |keys: &[&str]| keys.iter().find_map(|k| str_at(block, k)).filter(|s| !s.is_empty());
        let source = match (text(&["url", "file_uri"]), text(&["base64", "data"])) {
            (Some(url), None) => ImageSource::Url(url.to_string()),
            (None, Some(data)) => ImageSource::Base64(data.to_string()),
            _ => {
                return Err(OptionError::new("llm_call image content requires exactly one of url or base64"));
            }
        };
        let media_type = text(&["media_type", "mime_type"])
            .ok_or_else(|| OptionError::new("llm_call image content requires media_type"))?
            .to_string();
        let detail = match present(block, "detail") {
            None => None,
            Some(Value::String(d)) if matches!(d.as_str(), "low" | "high" | "auto") => Some(d.clone()),
            Some(_) => {
                return Err(OptionError::new("llm_call image detail must be \"low\", \"high\", or \"auto\""));
            }
        };
        Ok(Image { source, media_type, detail })
    }

    /// Returns the URL, or the content as a `data:` URL.
    pub(crate) fn to_url(&self) -> String {
        self.source.to_url(&self.media_type)
    }
}

/// A document, by URL or by content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The URL or content.
    pub source: ImageSource,
    /// MIME type.
    pub media_type: String,
    /// Its title or file name.
    pub title: Option<String>,
}

impl Document {
    /// Returns whether a document block has Harn's own shape; other shapes are specific to a provider.
    pub(crate) fn is_neutral(block: &Value) -> bool {
        str_at(block, "media_type").is_some() && block.get("source").is_none()
    }

    /// Parses a block `{type: "document", media_type, base64 | url, title?}`.
    ///
    /// # Errors
    /// The block has no content, or both a URL and base64 content.
    pub(crate) fn from_json(block: &Value) -> Result<Document, OptionError> {
        let text = |key: &str| str_at(block, key).filter(|s| !s.is_empty()).map(str::to_owned);
        let source = match (text("url"), text("base64").or_else(|| text("data"))) {
            (Some(url), None) => ImageSource::Url(url),
            (None, Some(data)) => ImageSource::Base64(data),
            _ => {
                return Err(OptionError::new(
                    "llm_call document content requires exactly one of url or base64",
                ));
            }
        };
        let media_type = text("media_type").unwrap_or_else(|| "application/pdf".to_owned());
        Ok(Document { source, media_type, title: text("title").or_else(|| text("name")) })
    }

    /// Returns the usual file extension of its type, without a dot.
    pub(crate) fn extension(&self) -> &str {
        match self.media_type.as_str() {
            "text/plain" => "txt",
            "text/markdown" => "md",
            "application/msword" => "doc",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
            "application/vnd.ms-excel" => "xls",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
            other => other.rsplit('/').next().unwrap_or("pdf"),
        }
    }

    /// Returns its file name.
    pub(crate) fn file_name(&self) -> String {
        self.title.clone().unwrap_or_else(|| format!("document.{}", self.extension()))
    }

    /// Returns its name in the form that Bedrock accepts: letters, digits, single spaces, hyphens, parentheses and
    /// brackets.
    pub(crate) fn plain_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
        let name: String = self.title.as_deref().unwrap_or("document").chars().map(plain).collect();
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let name: String = name.chars().take(200).collect();
        if name.is_empty() { "document".to_owned() } else { name }
    }

    /// Returns the notice that replaces the document when it cannot be sent.
    pub(crate) fn notice(&self) -> String {
        notice("document", &self.media_type, &self.source)
    }
}

/// Returns the notice that replaces an image that cannot be sent.
pub(crate) fn image_notice(image: &Image) -> String {
    notice("image", &image.media_type, &image.source)
}

fn notice(kind: &str, media_type: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Url(url) => format!("[{kind} {media_type} at {url}]"),
        ImageSource::Base64(_) => format!("[{kind} {media_type} that this model does not accept]"),
    }
}

/// Returns whether a block of a tool result is an image or a document in Harn's own shape.
pub fn is_media(block: &Value) -> bool {
    match str_at(block, "type") {
        Some("image") => {
            let has = |key: &str| str_at(block, key).is_some();
            (has("base64") || has("data") || has("url")) && (has("media_type") || has("mime_type"))
        }
        Some("document") => Document::is_neutral(block) && Document::from_json(block).is_ok(),
        _ => false,
    }
}

/// Returns whether the content of a tool result contains an image.
pub(crate) fn holds_image(content: &Value) -> bool {
    content
        .as_array()
        .into_iter()
        .flatten()
        .any(|block| str_at(block, "type") == Some("image") && is_media(block))
}

/// Converts a block of a tool result to a string; an image or document becomes a short marker.
pub(crate) fn block_text(block: &Value) -> Option<Cow<'_, str>> {
    match block {
        Value::String(text) => Some(text.as_str().into()),
        _ if is_media(block) => {
            let kind = str_at(block, "type").unwrap_or_default();
            let media_type = block.get("media_type").or_else(|| block.get("mime_type")).map(display);
            Some(format!("[{kind} {}]", media_type.unwrap_or_default()).into())
        }
        _ => str_at(block, "text").map(Into::into),
    }
}
