//! Stores of plans, references and histories: in memory, in a file, or provided by the host.
//!
//! Each kind of data has a separate store (`Shelf`). A change reads, decides and writes exclusively: tasks of the
//! program take turns, and processes hold the lease of the file during the change.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_store::{Error as StoreError, Expect, Fence, SqliteStore, Store, Write};
use harn_system::SystemExt;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Cx, Error, Result};
use tokio::sync::Mutex;

use crate::convert::{entry, from_json, text, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::roles::closures::At;

/// How long a process that died during a change blocks others, in milliseconds.
const LEASE_MS: i64 = 5_000;

/// Interval at which others retry.
const POLL: Duration = Duration::from_millis(20);

/// Number of entries that are read at once.
const PAGE: usize = 1_000;

enum Place {
    Memory(RefCell<BTreeMap<String, Json>>),
    Sqlite(Rc<SqliteStore>),
    /// The name of its closures.
    Host(String),
}

/// The store of one kind of data.
pub(crate) struct Shelf {
    /// The kind of data: `kv`, `plans` or `memory`.
    name: &'static str,
    place: Place,
    turn: Mutex<()>,
}

/// The open files of a program.
#[derive(Default)]
struct Files(RefCell<BTreeMap<PathBuf, Rc<SqliteStore>>>);

impl Shelf {
    /// Opens the store for a descriptor `{kind, …}`; in memory without one.
    ///
    /// # Errors
    /// The kind is unknown, or a part of the descriptor is invalid.
    pub(crate) fn open(
        cx: &Cx,
        name: &'static str,
        descriptor: Option<&Map<String, Json>>,
        hosts: &[String],
    ) -> Result<Shelf> {
        let wrong = |why: String| thrown(format!("create_runtime: storage_factories.{name}: {why}"));
        let kind = match descriptor.map(|d| d.get("kind").unwrap_or(&Json::Null)) {
            None => "memory",
            Some(Json::String(kind)) => kind,
            Some(_) => return Err(wrong("`kind` must be a string".to_owned())),
        };
        let only = |keys: &[&str]| {
            let strange =
                descriptor.into_iter().flat_map(|d| d.keys()).find(|key| !keys.contains(&key.as_str()));
            strange.map_or(Ok(()), |key| Err(wrong(format!("unknown key '{key}' for kind '{kind}'"))))
        };
        let place = match kind {
            "memory" => {
                only(&["kind"])?;
                Place::Memory(RefCell::default())
            }
            "sqlite" => {
                only(&["kind", "path"])?;
                let path = descriptor.and_then(|d| d.get("path")?.as_str()).filter(|p| !p.trim().is_empty());
                let path = path.ok_or_else(|| wrong("`path` must be a non-empty string".to_owned()))?;
                Place::Sqlite(file(cx, path)?)
            }
            other if hosts.iter().any(|host| host == other) => Place::Host(other.to_owned()),
            other => {
                return Err(wrong(format!(
                    "unknown store kind '{other}'; there are memory, sqlite and those in deps.stores" // prose-ok: diagnostic
                )));
            }
        };
        Ok(Shelf { name, place, turn: Mutex::new(()) })
    }

    /// Returns whether the data outlives the process.
    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self.place, Place::Memory(_))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn get(&self, at: &At, key: &str) -> Result<Option<Json>> {
        match &self.place {
            Place::Memory(map) => Ok(map.borrow().get(key).cloned()),
            Place::Sqlite(store) => self.read(store, key).await,
            Place::Host(kind) => self.host_get(at, kind, key).await,
        }
    }

    /// Changes the value of a key: `change` receives the current value and returns the new one.
    ///
    /// # Errors
    /// `change` returns an error; the store fails.
    pub(crate) async fn change<T>(
        &self,
        at: &At,
        key: &str,
        change: impl FnOnce(Option<Json>) -> Result<(Json, T)>,
    ) -> Result<T> {
        let _turn = self.turn.lock().await;
        match &self.place {
            Place::Memory(map) => {
                let (value, out) = change(map.borrow().get(key).cloned())?;
                map.borrow_mut().insert(key.to_owned(), value);
                Ok(out)
            }
            Place::Sqlite(store) => {
                let fence = self.acquire(at, store).await?;
                let changed = match self.read(store, key).await {
                    Ok(found) => change(found),
                    Err(error) => Err(error),
                };
                let (writes, out) = match changed {
                    Ok((value, out)) => (vec![self.put(key, &value), Write::Release], Ok(out)),
                    Err(error) => (vec![Write::Release], Err(error)),
                };
                store.write(&fence, writes).await.map_err(|e| self.failed(&e))?;
                out
            }
            Place::Host(kind) => {
                let (value, out) = change(self.host_get(at, kind, key).await?)?;
                let put = entry(&at.closure("stores", kind), "put");
                at.call(&put, vec![key.into(), from_json(&value)]).await?;
                Ok(out)
            }
        }
    }

    /// Returns the list at a key, oldest first.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn list(&self, at: &At, key: &str) -> Result<Vec<Json>> {
        let Place::Sqlite(store) = &self.place else {
            let found = self.get(at, key).await?;
            return Ok(found.and_then(|list| list.as_array().cloned()).unwrap_or_default());
        };
        let prefix = format!("{key}#");
        let (mut items, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = store.kv_list(&self.space(), &prefix, after.as_deref(), PAGE).await;
            let page = page.map_err(|e| self.failed(&e))?;
            for (_, entry) in &page {
                items.push(serde_json::from_slice(&entry.value).map_err(|_| self.unreadable(key))?);
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => after = Some(last.clone()),
                _ => return Ok(items),
            }
        }
    }

    /// Appends an item to the list at a key.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn append(&self, at: &At, key: &str, item: Json) -> Result<()> {
        if let Place::Memory(map) = &self.place {
            let mut map = map.borrow_mut();
            if let Json::Array(list) = map.entry(key.to_owned()).or_insert_with(|| json!([])) {
                list.push(item);
            }
            return Ok(());
        }
        let Place::Sqlite(store) = &self.place else {
            return self
                .change(at, key, |found| {
                    let mut list = found.and_then(|list| list.as_array().cloned()).unwrap_or_default();
                    list.push(item);
                    Ok((list.into(), ()))
                })
                .await;
        };
        let _turn = self.turn.lock().await;
        let fence = self.acquire(at, store).await?;
        // The key itself contains the length of the list.
        let writes = self.read(store, key).await.map(|count| {
            let count = count.and_then(|n| n.as_u64()).unwrap_or(0);
            let place = format!("{key}#{count:012}");
            vec![self.put(&place, &item), self.put(key, &(count + 1).into()), Write::Release]
        });
        let (writes, out) = match writes {
            Ok(writes) => (writes, Ok(())),
            Err(error) => (vec![Write::Release], Err(error)),
        };
        store.write(&fence, writes).await.map_err(|e| self.failed(&e))?;
        out
    }

    fn space(&self) -> String {
        format!("roles.{}", self.name)
    }

    fn put(&self, key: &str, value: &Json) -> Write {
        let value = value.to_string().into_bytes();
        Write::KvPut { space: self.space(), key: key.to_owned(), value, expect: Expect::Anything }
    }

    async fn read(&self, store: &SqliteStore, key: &str) -> Result<Option<Json>> {
        let found = store.kv_get(&self.space(), key).await.map_err(|e| self.failed(&e))?;
        let read =
            |entry: harn_store::Entry| serde_json::from_slice(&entry.value).map_err(|_| self.unreadable(key));
        found.map(read).transpose()
    }

    /// Acquires the right to change the store.
    async fn acquire(&self, at: &At, store: &SqliteStore) -> Result<Fence> {
        let (scope, owner) = (self.space(), new_id(at.cx.vm()));
        let mut left = 10 * LEASE_MS / i64::try_from(POLL.as_millis()).unwrap_or(1);
        loop {
            let now = at.cx.vm().system().now_ms();
            match store.acquire(&scope, &owner, now, now + LEASE_MS).await {
                Ok(lease) => return Ok(lease.fence()),
                Err(StoreError::Held { .. }) if left > 0 => {
                    left -= 1;
                    at.cx.sleep(POLL).await?;
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    async fn host_get(&self, at: &At, kind: &str, key: &str) -> Result<Option<Json>> {
        let get = entry(&at.closure("stores", kind), "get");
        let value = at.call(&get, vec![key.into()]).await?;
        Ok(text(&value).map(|_| to_json(&value)))
    }

    fn failed(&self, error: &StoreError) -> Error {
        thrown(format!("the store of {}: {error}", self.name))
    }

    fn unreadable(&self, key: &str) -> Error {
        thrown(format!("the store of {}: what is kept under {key} cannot be read", self.name))
    }
}

/// Combines several names to one key. Short keys are readable in the store.
pub(crate) fn key(parts: &[&str]) -> String {
    const LONGEST: usize = 400;
    let key = json!(parts).to_string();
    if key.len() <= LONGEST { key } else { harn_prompt::layered::cache_key(&key) }
}

/// Returns the store in a file, which a program opens only once.
fn file(cx: &Cx, path: &str) -> Result<Rc<SqliteStore>> {
    let path = cx.system().work_dir().join(path);
    let files = cx.state::<Files>();
    let known = files.0.borrow().get(&path).cloned();
    if let Some(folder) = path.parent() {
        // The store opens the file itself, so permissions are checked here.
        let system = cx.system();
        let make = || if known.is_some() { Ok(()) } else { system.make_dirs(folder) };
        system.check_write(&path).and_then(|()| make()).map_err(|error| {
            let text = format!("create_runtime: cannot store in {}: {error}", folder.display());
            cx.refusal(&error).unwrap_or_else(|| thrown(text))
        })?;
    }
    if let Some(store) = known {
        return Ok(store);
    }
    let store = Rc::new(SqliteStore::new(path.clone()));
    files.0.borrow_mut().insert(path, store.clone());
    Ok(store)
}
