//! `llm_stream`: streams the visible text of a reply.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::delivered::Delivered;
use super::live::AnswerTool;
use super::{Call, Finished, LlmRuntime, Prepared};
use crate::error::CallError;
use crate::event::StreamEvent;
use crate::structured::judge::validator_error;
use crate::structured::rounds::{Rounds, Verdict};
use crate::wire::think::{Piece, ThinkSplitter};

/// The default timeout of a whole stream, in seconds.
const DEFAULT_TIMEOUT: u64 = 1800;

/// An item of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A non-empty chunk of visible text.
    Chunk(String),
    /// The stream is complete: the dict that `llm_call` would have returned.
    Result(Box<harn_value::Data>),
    /// The stream failed; no items follow.
    Failed(CallError),
}

impl LlmRuntime {
    /// Runs a streaming call to its end. `deliver` receives each chunk; a later failure is the last item.
    ///
    /// # Errors
    /// The options are invalid. Then nothing was sent.
    pub async fn llm_stream(
        &self,
        call: &Call,
        deliver: &mut dyn FnMut(StreamItem),
    ) -> Result<(), CallError> {
        let prepared = self.prepare(call)?;
        self.stream_prepared(call, prepared, deliver).await;
        Ok(())
    }

    /// The part of [`LlmRuntime::llm_stream`] after [`LlmRuntime::prepare`], for callers that return a channel once the
    /// options are validated.
    ///
    /// Run it concurrently with that channel: the caller forwards items and drops the future when the channel closes,
    /// which closes the connection.
    pub async fn stream_prepared(
        &self,
        call: &Call,
        mut prepared: Prepared,
        deliver: &mut dyn FnMut(StreamItem),
    ) {
        if let Err(error) = self.apply_experiment(&mut prepared).await {
            return deliver(StreamItem::Failed(error));
        }
        if prepared.options.timeout.is_none() {
            prepared.request.timeout = Duration::from_secs(DEFAULT_TIMEOUT);
        }
        // A limit set by the caller also applies before the first chunk. The default does not, because models may think
        // for longer.
        if let Some(idle) = prepared.options.idle_timeout {
            prepared.request.timeout = prepared.request.timeout.min(idle);
        }
        prepared.request.idle_timeout = Some(prepared.idle_timeout);
        let shown = Rc::new(Cell::new(false));
        prepared.shown = Some(shown.clone());
        let mut splitter = ThinkSplitter::default();
        let mut delivered = Delivered::default();
        let is_structured = prepared.options.output.is_structured();
        let mut answer = AnswerTool::default();
        let result = self
            .ask(call, &prepared, &mut |event| {
                if *event == StreamEvent::Restart {
                    splitter = ThinkSplitter::default();
                    delivered.restart();
                    answer = AnswerTool::default();
                }
                let text = match event {
                    StreamEvent::Text(text) => Some(text.as_str()),
                    event if is_structured => answer.arguments(event),
                    _ => None,
                };
                if let Some(text) = text {
                    shown.set(true);
                    splitter.feed(text, &mut |piece| deliver_visible(piece, &mut delivered, deliver));
                }
            })
            .await;
        match result {
            Err(error) => deliver(StreamItem::Failed(error.into())),
            Ok(mut response) => {
                splitter.finish(&mut |piece| deliver_visible(piece, &mut delivered, deliver));
                // A fallback route is not streamed: its reply arrives in one piece.
                if !shown.get() {
                    let mut whole = ThinkSplitter::default();
                    whole.feed(&response.text, &mut |piece| deliver_visible(piece, &mut delivered, deliver));
                    whole.finish(&mut |piece| deliver_visible(piece, &mut delivered, deliver));
                }
                if let Some(error) = delivered.failure() {
                    return deliver(StreamItem::Failed(error.into()));
                }
                response.read_tags(&prepared.offered);
                let mut rounds = Rounds::new(&prepared.options.output);
                // A stream has only one round, because the reply is already delivered.
                let errors = match rounds.judge(&mut response, self.embedder()) {
                    Verdict::Done => Vec::new(),
                    Verdict::Again { errors, .. } | Verdict::Failed { errors } => errors,
                };
                let errors = match self.rejection(&prepared, &response).await {
                    Ok(Some(wrong)) if errors.is_empty() => vec![validator_error(&wrong)],
                    Ok(_) => errors,
                    Err(error) => return deliver(StreamItem::Failed(error)),
                };
                let finished = Finished { response, prepared: Box::new(prepared), rounds, errors };
                let finished = match self.validated(finished) {
                    Ok(finished) => finished,
                    Err(error) => return deliver(StreamItem::Failed(error)),
                };
                deliver(StreamItem::Result(Box::new(self.result_json(&finished))));
            }
        }
    }
}

fn deliver_visible(piece: Piece, delivered: &mut Delivered, deliver: &mut dyn FnMut(StreamItem)) {
    if let Piece::Text(text) = piece
        && let Some(fresh) = delivered.fresh(text)
    {
        deliver(StreamItem::Chunk(fresh));
    }
}
