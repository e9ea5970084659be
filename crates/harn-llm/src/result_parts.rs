//! Tool results, split into text and media.

use harn_value::Data as Value;

use crate::media::{block_text, image_notice, is_media};
use crate::message::{ContentBlock, read_blocks};

/// A tool result, split into text, images and documents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultParts {
    /// All text, joined by line feeds.
    pub(crate) text: String,
    /// Images and documents, in order.
    pub(crate) media: Vec<ContentBlock>,
}

impl ResultParts {
    /// Parses the content of a tool result. Blocks that are not a valid image or document become text.
    pub(crate) fn of(content: &Value) -> ResultParts {
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

    /// Replaces each image with a notice, for models that do not accept images.
    pub(crate) fn without_images(&mut self) {
        let (media, text) = (&mut self.media, &mut self.text);
        media.retain(|block| {
            let ContentBlock::Image(image) = block else { return true };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&image_notice(image));
            false
        });
    }

    /// Returns the joined text with a marker per image or document, for formats that send media in the next message.
    pub(crate) fn marked(&self) -> String {
        let marks = self.media.iter().map(|block| match block {
            ContentBlock::Image(_) => "[image in the next message]",
            _ => "[document in the next message]",
        });
        let text = Some(self.text.as_str()).filter(|text| !text.is_empty());
        text.into_iter().chain(marks).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    /// Returns the messages of a request that ends with an assistant's call and its result, which contains an image and
    /// a document.
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
        let ollama = messages("ollama", "llama3.2-vision", "messages");
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

    /// A conversation continues on a model without vision.
    #[test]
    fn images_are_named_to_models_that_do_not_accept_them() {
        for (provider, model, key) in [
            ("ollama", "qwen3:8b", "messages"),
            ("openai", "gpt-3.5-turbo", "messages"),
            ("bedrock", "deepseek.r1-v1:0", "messages"),
        ] {
            let mut sent = messages(provider, model, key).to_string();
            assert!(sent.contains("[image image/png that this model does not accept]"), "{model}: {sent}");
            sent.retain(|c| c != '\\');
            assert!(!sent.contains("AA=="), "{model}: {sent}");
        }
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
