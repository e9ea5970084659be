//! The pool of idle connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::route::Route;
use super::wire::Connection;

/// How long an idle connection stays in the pool.
const IDLE: Duration = Duration::from_secs(90);

/// The idle connections of a process by route. Clones share the pool.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Idle>>);

#[derive(Default)]
struct Idle {
    /// In the order of their last use.
    routes: HashMap<Arc<Route>, Vec<(Instant, Connection)>>,
    /// Whether a task removes expired connections.
    watched: bool,
}

impl Idle {
    fn forget_old(&mut self) {
        self.routes.retain(|_, connections| {
            connections.retain(|(since, connection)| since.elapsed() < IDLE && connection.is_silent());
            !connections.is_empty()
        });
    }
}

impl Pool {
    fn with<T>(&self, f: impl FnOnce(&mut Idle) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes an open connection for a route.
    pub(super) fn take(&self, route: &Route) -> Option<Connection> {
        self.with(|idle| {
            let connections = idle.routes.get_mut(route)?;
            while let Some((since, connection)) = connections.pop() {
                if since.elapsed() < IDLE && connection.is_silent() {
                    return Some(connection);
                }
            }
            None
        })
    }

    /// Returns a connection to the pool after its exchange.
    pub(super) fn put(&self, route: &Arc<Route>, connection: Connection) {
        let watch = self.with(|idle| {
            idle.routes.entry(route.clone()).or_default().push((Instant::now(), connection));
            !std::mem::replace(&mut idle.watched, true)
        });
        if watch {
            let pool = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(IDLE).await;
                    let Some(pool) = pool.upgrade().map(Pool) else { return };
                    let over = pool.with(|idle| {
                        idle.forget_old();
                        idle.watched = !idle.routes.is_empty();
                        !idle.watched
                    });
                    if over {
                        return;
                    }
                }
            });
        }
    }
}
