//! MCP servers that the manifest of a project configures with `[[mcp]]`. A server runs while it is in use, and is
//! shared by all its users.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::mcp::{self, OfProject, Reach, Server, SignIn};
use harn_front::Through;
use harn_system::SystemExt;
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Cx, Result, Vm};
use tokio::sync::Notify;

use crate::convert::{from_json, thrown, to_json, told};
use crate::mcp::Client;
use crate::mcp_callbacks::Callbacks;

/// Set for servers that were started by a program: a program of the same project would otherwise start the project's
/// servers again, including itself.
const OF_SERVER: &str = "HARN_MCP_SERVER";

/// Maximum size of a server card: 1 MiB.
const MAX_CARD: u64 = 1 << 20;

/// The project's servers of a program.
#[derive(Default)]
pub(crate) struct ProjectServers {
    /// The directory of the project.
    root: RefCell<Option<PathBuf>>,
    /// Servers that the client of a session configures. Their tools are offered to every loop of the program.
    of_client: RefCell<Vec<Server>>,
    running: RefCell<BTreeMap<String, Running>>,
    cards: RefCell<BTreeMap<String, Json>>,
}

struct Running {
    client: Value,
    /// The number of users.
    users: usize,
    /// Whether it runs as long as the program.
    stays: bool,
    /// How long it continues to run without users.
    keep_alive: Duration,
    /// How often the number of users has dropped to zero.
    rests: u64,
    /// Notifies when it has no more users, or has ended.
    bell: Rc<Notify>,
}

/// The hidden builtin that ends a server some time after its last use.
const KEEPER: &str = "__mcp_keeper";

/// Sets the project of a program before it runs: `folder` is the program's directory.
pub fn install_servers(vm: &Rc<Vm>, folder: &Path) {
    let system = vm.system().clone();
    let place = harn_template::absolute_folder(folder, &*system);
    let root = place.and_then(|place| harn_front::project_root(&place, &Through(&*system)));
    *vm.extension::<ProjectServers>().root.borrow_mut() = root;
}

/// Returns the names of the servers in the manifest of a project.
///
/// # Errors
/// Describes an error in the manifest.
pub fn project_servers(vm: &Rc<Vm>, folder: &Path) -> std::result::Result<Vec<String>, String> {
    install_servers(vm, folder);
    let named = vm.extension::<ProjectServers>().named(vm)?;
    Ok(named.into_iter().map(|known| known.server.name).collect())
}

/// Returns an HTTP server in the manifest of a project: its URL, and the data for a sign-in.
///
/// # Errors
/// The manifest is invalid; the server does not exist, or is a program.
pub fn project_http_server(
    vm: &Rc<Vm>,
    folder: &Path,
    name: &str,
) -> std::result::Result<(String, SignIn), String> {
    install_servers(vm, folder);
    let named = vm.extension::<ProjectServers>().named(vm)?;
    match named.into_iter().find(|known| known.server.name == name).map(|known| known.server.reach) {
        Some(Reach::Http { url, sign_in, .. }) => Ok((url, sign_in)),
        Some(Reach::Program(_)) => {
            Err(format!("MCP server '{name}' is a program: it has no sign-in over HTTP"))
        }
        None => Err(unknown(name)),
    }
}

/// Checks the MCP servers that the client of a session configures: a JSON list of entries of `mcp_servers`.
///
/// # Errors
/// Describes an invalid entry.
pub fn check_client_servers(list: &str) -> std::result::Result<(), String> {
    client_servers(list).map(|_| ())
}

/// Adds the servers that the client of a session configures. Each starts with the first loop.
///
/// # Errors
/// Describes an invalid entry.
pub fn add_client_servers(vm: &Rc<Vm>, list: &str) -> std::result::Result<(), String> {
    *vm.extension::<ProjectServers>().of_client.borrow_mut() = client_servers(list)?;
    Ok(())
}

fn client_servers(list: &str) -> std::result::Result<Vec<Server>, String> {
    let list: Json =
        serde_json::from_str(if list.is_empty() { "[]" } else { list }).map_err(|why| why.to_string())?;
    mcp::servers(Some(&list)).map_err(|error| error.0.trim_start_matches("agent_loop: ").to_owned())
}

/// Starts the servers of the project that are not `lazy`, which run as long as the program. Errors are printed on
/// standard error: each use of a server tries again, and receives the error.
pub async fn start_servers(vm: &Rc<Vm>) {
    let servers = vm.extension::<ProjectServers>();
    if vm.system().env(OF_SERVER).is_some() {
        return;
    }
    let warn = |text: String| vm.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
    let all = match servers.named(vm) {
        Ok(all) => all,
        Err(why) => return warn(why),
    };
    for known in all.into_iter().filter(|known| !known.lazy) {
        let name = known.server.name;
        // Escaped, because `${` would start an interpolation.
        let named = Json::from(name.as_str()).to_string().replace('$', "\\$");
        let text = format!("mcp_ensure_active({named})\n");
        let source = harn_vm::Source { name: "harn.toml".to_owned(), text, dir: PathBuf::new() };
        let started = match harn_vm::load(vm, &source) {
            Ok(program) => program.run(vm, None, &[]).await.result.map_err(|error| error.uncaught_text()),
            Err(error) => Err(error.canonical(&source.text)),
        };
        match started {
            Ok(_) => servers.let_stay(&name),
            Err(why) => warn(format!("MCP server '{name}' does not start: {why}")),
        }
    }
}

impl ProjectServers {
    pub(crate) fn of(cx: &Cx) -> Rc<ProjectServers> {
        cx.vm().extension::<ProjectServers>()
    }

    /// Returns the servers in the manifest.
    fn named(&self, vm: &Vm) -> std::result::Result<Vec<OfProject>, String> {
        let Some(root) = self.root.borrow().clone() else { return Ok(Vec::new()) };
        let path = root.join("harn.toml");
        let Ok(text) = vm.system().read_text(&path, harn_front::MAX_BYTES) else { return Ok(Vec::new()) };
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let manifest: toml::Table = text.parse().map_err(|_| wrong(&"it cannot be parsed"))?;
        let list = match manifest.get("mcp") {
            None => return Ok(Vec::new()),
            Some(toml::Value::Array(list)) => list,
            Some(_) => return Err(wrong(&"mcp must be an array of tables: [[mcp]]")),
        };
        let mut out: Vec<OfProject> = Vec::new();
        for table in list {
            let table: Map<String, Json> = serde_json::to_value(table)
                .ok()
                .and_then(|value| Json::from(value).as_object().cloned())
                .unwrap_or_default();
            let mut named = mcp::manifest_server(&table).map_err(|why| wrong(&why))?;
            let name = &named.server.name;
            if out.iter().any(|known| known.server.name == *name) {
                return Err(wrong(&format!("two [[mcp]] tables are named `{name}`")));
            }
            // Paths are relative to the project, wherever its programs run.
            if let Reach::Program(program) = &mut named.server.reach {
                let folder = program.cwd.take().map_or_else(|| root.clone(), |folder| root.join(folder));
                program.cwd = Some(folder.display().to_string());
                if !named.lazy {
                    program.env.push((OF_SERVER.to_owned(), "1".to_owned()));
                }
            }
            out.push(named);
        }
        Ok(out)
    }

    fn known(&self, cx: &Cx, name: &str) -> Result<Option<OfProject>> {
        let of_client = self.of_client.borrow().iter().find(|known| known.name == name).cloned();
        if let Some(server) = of_client {
            return Ok(Some(OfProject { server, card: None, lazy: true, keep_alive_ms: 0 }));
        }
        let named = self.named(cx.vm()).map_err(thrown)?;
        Ok(named.into_iter().find(|known| known.server.name == name))
    }

    fn running(&self, name: &str) -> Option<Value> {
        let mut running = self.running.borrow_mut();
        let found = running.get_mut(name)?;
        if found.client.downcast::<Client>().is_none_or(Client::is_left) {
            // The connection was closed elsewhere.
            found.bell.notify_one();
            running.remove(name);
            return None;
        }
        found.users += 1;
        Some(found.client.clone())
    }

    /// Returns the client of a server, and starts the server if it does not run. The caller must call
    /// [`ProjectServers::release`] after use. `None` if the manifest does not configure the server.
    ///
    /// # Errors
    /// The manifest is invalid, or the server cannot be started.
    pub(crate) async fn hold(&self, cx: &Cx, function: &str, name: &str) -> Result<Option<Value>> {
        if let Some(client) = self.running(name) {
            return Ok(Some(client));
        }
        let Some(named) = self.known(cx, name)? else { return Ok(None) };
        let callbacks = Rc::new(Callbacks::with_roots(named.server.roots.as_ref()));
        let client = Value::foreign(Client::connect(cx, function, &named.server, &callbacks).await?);
        // Another task may have started the server first, in which case its server is used.
        if let Some(client) = self.running(name) {
            return Ok(Some(client));
        }
        let running = Running {
            client: client.clone(),
            users: 1,
            stays: false,
            keep_alive: Duration::from_millis(named.keep_alive_ms),
            rests: 0,
            bell: Rc::default(),
        };
        let rests = !running.keep_alive.is_zero();
        self.running.borrow_mut().insert(name.to_owned(), running);
        if rests && let Some(keeper) = cx.vm().builtin(KEEPER) {
            // The task belongs to the program, because the first user may end long before.
            cx.spawn_for(&cx.task().root_of(), &keeper.value(), vec![Value::str(name)]).detach();
        }
        Ok(Some(client))
    }

    /// Returns the tools of the servers that the client of a session configures, as entries of a registry. A server
    /// that does not start is reported once.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn client_tools(&self, cx: &Cx, taken: &[String]) -> Result<Vec<Json>> {
        let names: Vec<String> = self.of_client.borrow().iter().map(|server| server.name.clone()).collect();
        let mut all = Vec::new();
        for name in names.iter().filter(|name| !taken.contains(name)) {
            let listed = match self.hold(cx, "agent_loop", name).await {
                Ok(held) => {
                    self.let_stay(name);
                    let client = held.as_ref().and_then(|held| held.downcast::<Client>());
                    match client {
                        Some(client) => client.tools(cx).await,
                        None => continue,
                    }
                }
                Err(error) => Err(error),
            };
            let entries = match listed {
                Ok(tools) => mcp::entries(name, &tools),
                Err(error) if !error.is_catchable() => return Err(error),
                Err(error) => Err(told(&error)),
            };
            match entries {
                Ok(entries) => all.extend(entries),
                Err(why) => {
                    let text = format!("warning: MCP server '{name}' of the client is not available: {why}");
                    cx.system().write_err(&harn_syntax::notice(&text));
                    self.of_client.borrow_mut().retain(|server| server.name != *name);
                }
            }
        }
        Ok(all)
    }

    /// Lets the server run as long as the program, independently of its users.
    fn let_stay(&self, name: &str) {
        if let Some(found) = self.running.borrow_mut().get_mut(name) {
            (found.stays, found.users) = (true, 0);
        }
    }

    /// Ends a server once it has had no users for its keep-alive time. Returns early if the server ends before.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn keep(&self, cx: &Cx, name: &str) -> Result<()> {
        let now = || {
            let running = self.running.borrow();
            let found = running.get(name).filter(|found| !found.stays)?;
            Some((found.bell.clone(), found.users, found.rests, found.keep_alive))
        };
        let Some((own, ..)) = now() else { return Ok(()) };
        while let Some((bell, users, rests, keep_alive)) = now().filter(|(bell, ..)| Rc::ptr_eq(bell, &own)) {
            if users > 0 {
                bell.notified().await;
                continue;
            }
            cx.sleep(keep_alive).await?;
            let same = |(bell, users, after, _): (Rc<Notify>, usize, u64, _)| {
                users == 0 && after == rests && Rc::ptr_eq(&bell, &own)
            };
            if now().is_some_and(same) {
                self.end(cx, name);
            }
        }
        Ok(())
    }

    fn end(&self, cx: &Cx, name: &str) {
        let gone = self.running.borrow_mut().remove(name);
        if let Some(client) = gone.as_ref().and_then(|gone| gone.client.downcast::<Client>()) {
            client.close_aside(cx);
        }
    }

    /// Releases a server; without users, it ends.
    pub(crate) fn release(&self, cx: &Cx, name: &str) {
        let ends = {
            let mut running = self.running.borrow_mut();
            let Some(found) = running.get_mut(name).filter(|found| found.users > 0) else { return };
            found.users -= 1;
            if found.users == 0 {
                found.rests += 1;
                found.bell.notify_one();
            }
            found.users == 0 && !found.stays && found.keep_alive.is_zero()
        };
        if ends {
            self.end(cx, name);
        }
    }

    /// Returns the names of all configured servers.
    pub(crate) fn names(&self, cx: &Cx) -> Result<Vec<String>> {
        let named = self.named(cx.vm()).map_err(thrown)?;
        let of_client = self.of_client.borrow();
        let all = named.iter().map(|known| &known.server).chain(of_client.iter());
        Ok(all.map(|server| server.name.clone()).collect())
    }

    /// Returns the servers in the manifest: `{name, active, references}`.
    pub(crate) fn status(&self, cx: &Cx) -> Result<Value> {
        let named = self.named(cx.vm()).map_err(thrown)?;
        let running = self.running.borrow();
        let of = |known: &OfProject| {
            let found = running.get(&known.server.name);
            let users = found.map_or(0, |found| found.users);
            json!({"name": known.server.name, "active": found.is_some(), "references": users})
        };
        Ok(from_json(&named.iter().map(of).collect()))
    }

    /// Returns the card of a server, a JSON description, from a URL or a file. Each is read once.
    ///
    /// # Errors
    /// The card cannot be read, or is not valid JSON.
    pub(crate) async fn card(&self, cx: &Cx, wanted: &str) -> Result<Value> {
        let wrong = |why: String| thrown(format!("mcp_server_card: {why}"));
        let is_place = |text: &str| text.contains(['/', '\\']) || text.ends_with(".json");
        let place = if is_place(wanted) {
            wanted.to_owned()
        } else {
            let Some(named) = self.known(cx, wanted)? else {
                return Err(wrong(format!(
                    "no MCP server '{wanted}' registered (check harn.toml) — pass a URL or path directly instead"
                )));
            };
            named.card.ok_or_else(|| wrong(format!("server '{wanted}' has no 'card' field in harn.toml")))?
        };
        if let Some(card) = self.cards.borrow().get(&place) {
            return Ok(from_json(card));
        }
        let text = if place.starts_with("http://") || place.starts_with("https://") {
            let get = cx.vm().builtin("http_get").ok_or_else(|| wrong("no builtin http_get".to_owned()))?;
            let answer = to_json(&cx.call(&get.value(), [Value::str(&place)]).await?);
            if answer["ok"] != true {
                return Err(wrong(format!("{place} answered with status {}", answer["status"].printed())));
            }
            answer["body"].as_str().unwrap_or_default().to_owned()
        } else {
            let root = self.root.borrow().clone().filter(|_| !is_place(wanted));
            let path = root.unwrap_or_else(|| cx.system().work_dir()).join(&place);
            let read = cx.system().read_text(&path, MAX_CARD);
            read.map_err(|error| {
                cx.refusal(&error).unwrap_or_else(|| wrong(format!("cannot read {place}: {error}")))
            })?
        };
        let card: Json =
            serde_json::from_str(&text).map_err(|why| wrong(format!("{place} is not valid JSON: {why}")))?;
        self.cards.borrow_mut().insert(place, card.clone());
        Ok(from_json(&card))
    }
}

/// The project's servers that a loop uses: for its skills, and for tools that name one. They are released with it.
pub(crate) struct Held {
    cx: Cx,
    servers: Rc<ProjectServers>,
    names: RefCell<Vec<String>>,
}

impl Held {
    pub(crate) fn new(cx: &Cx) -> Held {
        Held { cx: cx.clone(), servers: ProjectServers::of(cx), names: RefCell::default() }
    }

    /// Acquires a server for a skill; returns the error of the server.
    ///
    /// # Errors
    /// Errors that are unrelated to the server: a limit of the loop, or its end.
    pub(crate) async fn bind(&self, cx: &Cx, name: &str) -> Result<Option<String>> {
        match self.servers.hold(cx, "agent_loop", name).await {
            Ok(Some(_)) => {
                self.names.borrow_mut().push(name.to_owned());
                Ok(None)
            }
            Ok(None) => Ok(Some(unknown(name))),
            Err(error) if error.is_catchable() => Ok(Some(told(&error))),
            Err(error) => Err(error),
        }
    }

    /// Releases a server that a skill used.
    pub(crate) fn unbind(&self, name: &str) {
        let mut names = self.names.borrow_mut();
        if let Some(at) = names.iter().position(|held| held == name) {
            names.remove(at);
            self.servers.release(&self.cx, name);
        }
    }

    /// Returns the client of a server that a tool names, starting with its first call; `None` if the manifest does not
    /// configure it.
    ///
    /// # Errors
    /// The server cannot be started.
    pub(crate) async fn client(&self, cx: &Cx, name: &str) -> Result<Option<Value>> {
        let client = self.servers.hold(cx, "agent_loop", name).await?;
        if client.is_some() {
            if self.names.borrow().iter().any(|held| held == name) {
                self.servers.release(cx, name);
            } else {
                self.names.borrow_mut().push(name.to_owned());
            }
        }
        Ok(client)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.names.take().iter().for_each(|name| self.servers.release(&self.cx, name));
    }
}

/// Returns the error message for a server that the manifest does not configure.
pub(crate) fn unknown(name: &str) -> String {
    format!("mcp: no server named '{name}' is registered (check harn.toml)")
}
