//! What a session has in the store, and the right to write it.

use std::sync::Arc;

use harn_llm::Conversation;
use harn_store::{Fence, Store, Write};
use harn_value::Data as Json;

/// The stored part of a session. Dropping it lets other processes write.
pub(crate) struct Stored {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fence: Fence,
    /// Its name there.
    pub(crate) key: String,
    /// What the store has.
    pub(crate) messages: Conversation,
    pub(crate) info: Json,
    /// A write failed: what the store has must be read again.
    pub(crate) in_doubt: bool,
}

impl Drop for Stored {
    fn drop(&mut self) {
        // The write is begun by asking for it; nobody waits for the answer.
        drop(self.store.write(&self.fence, vec![Write::Release]));
    }
}
