//! Access to stored sessions from outside of programs, for `harn sessions`.

use std::io;
use std::sync::Arc;

use harn_store::{Store, Write};
use harn_system::System;
use harn_value::Data as Json;

use crate::stored::{Content, EVENTS_STATUS, Keeper, events_key};

/// Number of sessions that are read at once.
const PAGE: usize = 1_000;

/// The head of a stored session.
#[derive(Debug, Clone)]
pub struct SessionHead {
    /// Its id.
    pub id: String,
    /// The number of its messages.
    pub messages: u64,
    /// Its creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// Its last change, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// A stored session with its content, as JSON.
#[derive(Debug, Clone)]
pub struct SessionContent {
    /// The messages, oldest first.
    pub messages: Vec<Json>,
    /// Transcript events other than those of messages.
    pub events: Vec<Json>,
    /// `{summary, parent, children, branched_at, skills}`.
    pub info: Json,
}

/// The sessions of a store. Changes of a session wait up to 15 seconds for the process that uses it.
pub struct StoredSessions {
    store: Arc<dyn Store>,
}

impl StoredSessions {
    /// Opens the sessions of a store.
    pub fn new(store: Arc<dyn Store>) -> StoredSessions {
        StoredSessions { store }
    }

    /// Returns all sessions, the most recently changed first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self) -> io::Result<Vec<SessionHead>> {
        let mut heads = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.store.sessions(None, after.as_deref(), PAGE).await.map_err(io::Error::other)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            let sessions = page.into_iter().filter(|session| session.status != EVENTS_STATUS);
            heads.extend(sessions.map(|session| SessionHead {
                id: session.id,
                messages: session.length,
                created_ms: session.created_ms,
                updated_ms: session.updated_ms,
            }));
        }
        heads.sort_by(|a, b| b.updated_ms.cmp(&a.updated_ms).then_with(|| a.id.cmp(&b.id)));
        Ok(heads)
    }

    /// Returns the content of a session; `None` if the store has no session with this id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read(&self, id: &str) -> io::Result<Option<SessionContent>> {
        let Some((content, _)) = self.keeper(id).read().await? else { return Ok(None) };
        let messages = content.messages.iter().map(|message| message.to_json()).collect();
        let events = content.events.iter().map(|event| Json::clone(event)).collect();
        Ok(Some(SessionContent { messages, events, info: content.info }))
    }

    /// Removes all but the newest `keep` messages, and returns the number of remaining ones; `None` if the store has no
    /// session with this id. Also removes tool results whose call is removed.
    ///
    /// # Errors
    /// The store cannot be read or written, or another process uses the session.
    pub async fn trim(&self, system: &dyn System, id: &str, keep: usize) -> io::Result<Option<usize>> {
        let keeper = self.keeper(id);
        if keeper.read().await?.is_none() {
            return Ok(None);
        }
        let bytes = keeper.open(system).await?;
        let broken = || io::Error::other(format!("session '{id}': its stored content cannot be read"));
        let before = Content::from_bytes(&bytes).ok_or_else(broken)?;
        let messages = before.messages.newest(keep);
        let left = messages.len();
        let now = Content { messages, ..before.clone() };
        keeper.keep(system, &before, now).await?;
        Ok(Some(left))
    }

    /// Deletes a session; `false` when the store has no session with this id.
    ///
    /// # Errors
    /// The store cannot be read or written, or another process uses the session.
    pub async fn delete(&self, system: &dyn System, id: &str) -> io::Result<bool> {
        let keeper = self.keeper(id);
        let Some((_, events)) = keeper.read().await? else { return Ok(false) };
        let fence = keeper.acquire(system).await?;
        let mut writes = vec![Write::SessionDelete { id: id.to_owned() }];
        if events.is_some() {
            writes.push(Write::SessionDelete { id: events_key(id) });
        }
        writes.push(Write::Release);
        self.store.write(&fence, writes).await.map_err(io::Error::other)?;
        Ok(true)
    }

    /// Reclaims the space of deleted data.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn compact(&self) -> io::Result<()> {
        self.store.compact().await.map(drop).map_err(io::Error::other)
    }

    fn keeper(&self, id: &str) -> Keeper {
        Keeper::new(self.store.clone(), id, id.to_owned())
    }
}
