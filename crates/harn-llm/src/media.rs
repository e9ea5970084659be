//! Images and documents in results of tools, and documents in messages.

use std::borrow::Cow;

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{display, str_at};
use crate::message::{ContentBlock, Image, ImageSource, read_blocks};

/// A document by address or by content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where it is.
    pub source: ImageSource,
    /// MIME type.
    pub media_type: String,
    /// Its title or file name.
    pub title: Option<String>,
}

impl Document {
    /// Whether a block is a document in Harn's own shape; other shapes belong to a provider.
    pub(crate) fn is_neutral(block: &Value) -> bool {
        str_at(block, "media_type").is_some() && block.get("source").is_none()
    }

    /// Reads a block `{type: "document", media_type, base64 | url, title?}`.
    ///
    /// # Errors
    /// The block has no content or two of them.
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

    /// Returns the usual extension of its type, without a dot.
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

    /// Returns its name as a file.
    pub(crate) fn file_name(&self) -> String {
        self.title.clone().unwrap_or_else(|| format!("document.{}", self.extension()))
    }

    /// Returns its name as Bedrock accepts it: letters, digits, single spaces, hyphens, parentheses and brackets.
    pub(crate) fn plain_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
        let name: String = self.title.as_deref().unwrap_or("document").chars().map(plain).collect();
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let name: String = name.chars().take(200).collect();
        if name.is_empty() { "document".to_owned() } else { name }
    }

    /// Returns what a model reads where the document cannot be sent.
    pub(crate) fn notice(&self) -> String {
        notice("document", &self.media_type, &self.source)
    }
}

/// Returns what a model reads where an image cannot be sent.
pub(crate) fn image_notice(image: &Image) -> String {
    notice("image", &image.media_type, &image.source)
}

fn notice(kind: &str, media_type: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Url(url) => format!("[{kind} {media_type} at {url}]"),
        ImageSource::Base64(_) => format!("[{kind} {media_type} that this model does not accept]"),
    }
}

/// A result of a tool: its text, and its images and documents.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultParts {
    /// All text, joined by line feeds.
    pub text: String,
    /// Images and documents, in order.
    pub media: Vec<ContentBlock>,
}

impl ResultParts {
    /// Reads the content of a result. Blocks that are no valid image or document become text.
    pub fn of(content: &Value) -> ResultParts {
        let Some(blocks) = content.as_array().filter(|blocks| blocks.iter().any(is_media)) else {
            return ResultParts { text: crate::message::result_text(content), media: Vec::new() };
        };
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for block in blocks {
            match is_media(block).then(|| read_blocks(block)) {
                Some(Ok(read)) => media.extend(read),
                _ => texts.push(block_text(block).unwrap_or_else(|| block.to_string().into())),
            }
        }
        ResultParts { text: texts.join("\n"), media }
    }

    /// Returns the text with a marker per image or document, for formats that carry them in the message that follows.
    pub fn marked(&self) -> String {
        let marks = self.media.iter().map(|block| match block {
            ContentBlock::Image(_) => "[image in the next message]",
            _ => "[document in the next message]",
        });
        let text = Some(self.text.as_str()).filter(|text| !text.is_empty());
        text.into_iter().chain(marks).collect::<Vec<_>>().join("\n")
    }

    /// Returns the text and the media as blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Cow<'_, ContentBlock>> {
        let text = Some(&self.text).filter(|text| !text.is_empty());
        let text = text.map(|text| Cow::Owned(ContentBlock::Text(text.clone())));
        text.into_iter().chain(self.media.iter().map(Cow::Borrowed))
    }
}

/// Whether a block of a result is an image or a document in Harn's own shape.
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

/// Whether the content of a result holds an image.
pub(crate) fn holds_image(content: &Value) -> bool {
    content
        .as_array()
        .into_iter()
        .flatten()
        .any(|block| str_at(block, "type") == Some("image") && is_media(block))
}

/// The text of a block of a result; a marker for an image or document.
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

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    /// The messages of a request with a result that holds an image and a document, after an assistant's call.
    fn messages(provider: &str, model: &str, key: &str) -> Value {
        let history = json!({"messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "shot", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": true, "content": [
                {"type": "text", "text": "seen"},
                {"type": "image", "base64": "AA==", "media_type": "image/png"},
                {"type": "document", "base64": "BB==", "media_type": "application/pdf", "title": "a.pdf"},
            ]}]},
        ]});
        let mut request = crate::sample::request(provider, model, history);
        if provider == "ollama" {
            request.route.style = crate::wire::WireStyle::OllamaChat;
        }
        let body = crate::wire::encode(&request).expect("a request").body.to_json();
        body[key].as_array().expect("messages")[2..].into()
    }

    #[test]
    fn each_format_carries_images_and_documents_where_it_can() {
        let anthropic = messages("anthropic", "claude-sonnet-4-20250514", "messages");
        assert_eq!(
            anthropic[0]["content"][0],
            json!({"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "text", "text": "seen"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "BB=="}, "title": "a.pdf"},
        ], "is_error": true})
        );
        let chat = messages("openai", "gpt-4o", "messages");
        assert_eq!(
            chat,
            json!([
                {"role": "tool", "tool_call_id": "c",
                 "content": "seen\n[image in the next message]\n[document in the next message]"},
                {"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BB=="}},
                ]},
            ])
        );
        let gemini = messages("gemini", "gemini-2.5-pro", "contents");
        let marked = "seen\n[image in the next message]\n[document in the next message]";
        assert_eq!(
            gemini[0]["parts"],
            json!([
                {"functionResponse": {"name": "shot", "response": {"error": marked}}},
                {"inline_data": {"mime_type": "image/png", "data": "AA=="}},
                {"inline_data": {"mime_type": "application/pdf", "data": "BB=="}},
            ])
        );
        let ollama = messages("ollama", "llama3.2", "messages");
        assert_eq!(
            (&ollama[0]["role"], &ollama[1]["images"]),
            (&json!("tool"), &json!(["AA=="])),
            "{ollama}"
        );
        assert_eq!(ollama[1]["content"], "[document application/pdf that this model does not accept]");
        let bedrock = messages("bedrock", "anthropic.claude-3-5-sonnet-20240620-v1:0", "messages");
        let result = &bedrock[0]["content"][0]["toolResult"];
        assert_eq!(
            result,
            &json!({"toolUseId": "c", "status": "error", "content": [
                {"text": "seen"}, {"image": {"format": "png", "source": {"bytes": "AA=="}}},
                {"document": {"format": "pdf", "name": "a pdf", "source": {"bytes": "BB=="}}},
            ]})
        );
    }

    #[test]
    fn results_are_split_into_text_and_media() {
        let image = json!({"type": "image", "base64": "AA==", "media_type": "image/png"});
        let pdf = json!({"type": "document", "base64": "BB==", "media_type": "application/pdf", "title": "a/b.pdf"});
        let parts = ResultParts::of(&json!([{"type": "text", "text": "shot"}, image, "more", pdf]));
        assert_eq!(parts.text, "shot\nmore");
        assert_eq!(parts.marked(), "shot\nmore\n[image in the next message]\n[document in the next message]");
        let ContentBlock::Document(document) = &parts.media[1] else { panic!("{:?}", parts.media) };
        assert_eq!((document.plain_name().as_str(), document.extension()), ("a b pdf", "pdf"));
        let plain = ResultParts::of(&json!({"a": 1}));
        assert_eq!((plain.text.as_str(), plain.media.len()), ("{\"a\":1}", 0));
        let broken = ResultParts::of(&json!([{"type": "image", "base64": "AA=="}]));
        assert!(broken.media.is_empty() && broken.text.contains("base64"), "{}", broken.text);
    }
}
