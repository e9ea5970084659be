//! `llm_stream`: the visible text of a reply, piece by piece.

use std::time::Duration;

use super::{Call, LlmRuntime};
use crate::error::CallError;
use crate::event::StreamEvent;
use crate::wire::think::{Piece, ThinkSplitter};

/// Seconds that a stream may take in all unless the call says otherwise.
const DEFAULT_TIMEOUT: u64 = 1800;

/// What a stream delivers.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A non-empty piece of visible text.
    Chunk(String),
    /// The stream failed; nothing follows.
    Failed(CallError),
}

impl LlmRuntime {
    /// Runs a streaming call to its end. `deliver` gets each chunk; it returns false when nobody listens
    /// any more, after which the future should be dropped. Option errors are returned before any
    /// request; later failures are delivered as the last item.
    ///
    /// Run it beside a channel: the caller forwards items and drops the future when the channel closes,
    /// which closes the connection.
    ///
    /// # Errors
    /// Wrong options.
    pub async fn llm_stream(&self, call: &Call, deliver: &mut dyn FnMut(StreamItem)) -> Result<(), CallError> {
        let mut prepared = self.prepare(call)?;
        if prepared.options.timeout.is_none() {
            prepared.request.timeout = Duration::from_secs(DEFAULT_TIMEOUT);
        }
        prepared.request.idle_timeout = Some(prepared.idle_timeout);
        let unscripted = prepared.request.route.provider == "mock" && !self.mock_is_active();
        let words = unscripted.then(|| crate::mock::default_stream_words(&prepared.request.messages));
        let mut splitter = ThinkSplitter::default();
        let mut show = |event: &StreamEvent, deliver: &mut dyn FnMut(StreamItem)| {
            if let StreamEvent::Text(text) = event {
                for piece in splitter.feed(text) {
                    if let Piece::Text(text) = piece {
                        deliver(StreamItem::Chunk(text));
                    }
                }
            }
        };
        let result = self
            .with_retries(call, &prepared, &mut |event| {
                if words.is_none() {
                    show(event, deliver);
                }
            })
            .await;
        match result {
            Err(error) => deliver(StreamItem::Failed(error.into())),
            Ok(_) => {
                for word in words.into_iter().flatten() {
                    deliver(StreamItem::Chunk(word));
                }
                for piece in splitter.finish() {
                    if let Piece::Text(text) = piece {
                        deliver(StreamItem::Chunk(text));
                    }
                }
            }
        }
        Ok(())
    }
}
