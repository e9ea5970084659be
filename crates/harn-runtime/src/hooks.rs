//! The hooks of a program: rules for tools that scripts register, and closures that the manifest of the project
//! attaches to events.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use harn_agent::hook::{self, EVENTS, Pattern};
use harn_agent::microcompact::microcompact;
use harn_agent::{HookVerdict, ToolIntent, ToolRun};
use harn_front::{Files, Sources, Target, Through};
use harn_prompt::reminder::{ReminderError, hook_effects};
use harn_system::{System, SystemExt};
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Result, Source, Vm};

use crate::convert::{OrThrow, entry, from_json, to_json};
use crate::llm_embedder::new_id;
use crate::reminders::Reminders;
use crate::witness::Witness;

/// The active hooks, in registration order.
#[derive(Default)]
pub(crate) struct Hooks(RefCell<Vec<Rc<Hook>>>);

/// The action of a hook.
enum Action {
    /// Rejects the call.
    Deny(String),
    /// Shortens a longer result.
    Limit(usize),
    /// Calls a closure.
    Ask(Value),
}

struct Hook {
    event: String,
    pattern: Pattern,
    action: Action,
    /// Whether the manifest of the project defines it; programs cannot remove such hooks.
    of_project: bool,
}

impl Hooks {
    /// Adds the hooks of a `register_tool_hook` call.
    pub(crate) fn register(&self, pattern: &str, deny: Option<String>, max_output: Option<usize>) {
        let add = |event: &str, action| {
            let pattern = Pattern::Tool(pattern.to_owned());
            let hook = Hook { event: event.to_owned(), pattern, action, of_project: false };
            self.0.borrow_mut().push(Rc::new(hook));
        };
        if let Some(reason) = deny {
            add("PreToolUse", Action::Deny(reason));
        }
        if let Some(most) = max_output {
            add("PostToolUse", Action::Limit(most));
        }
    }

    /// Removes the hooks that scripts registered.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().retain(|hook| hook.of_project);
    }

    /// Returns whether any hook runs before tool calls.
    pub(crate) fn watch_calls(&self) -> bool {
        self.watches("PreToolUse")
    }

    /// Returns whether any hook is attached to an event.
    pub(crate) fn watches(&self, event: &str) -> bool {
        self.0.borrow().iter().any(|hook| hook.event == event)
    }

    fn of(&self, event: &str, payload: &Json) -> Vec<Rc<Hook>> {
        let list = self.0.borrow();
        list.iter().filter(|hook| hook.event == event && hook.pattern.matches(payload)).cloned().collect()
    }

    /// Runs the hooks before a tool call: each receives the arguments as changed by the previous ones, and the first
    /// rejection ends the chain.
    ///
    /// # Errors
    /// A closure throws, or returns an invalid value.
    pub(crate) async fn before_tool(
        &self,
        cx: &Cx,
        session: &str,
        intent: &ToolIntent,
    ) -> Result<HookVerdict> {
        let mut verdict = HookVerdict::default();
        let mut payload =
            json!({"event": "PreToolUse", "tool": {"name": intent.name, "args": intent.arguments}});
        let hooks: Vec<Rc<Hook>> = self.0.borrow().clone();
        for hook in hooks.iter().filter(|hook| hook.event == "PreToolUse") {
            if !hook.pattern.matches(&payload) {
                continue;
            }
            cx.state::<Witness>().hooked("PreToolUse", &payload);
            match &hook.action {
                Action::Deny(reason) => verdict.deny = Some(reason.clone()),
                Action::Limit(_) => {}
                Action::Ask(closure) => {
                    let said = to_json(&cx.call(closure, [from_json(&payload)]).await?);
                    let said = without_reminders(cx, Some(session), "PreToolUse", &said).or_throw()?;
                    let said = hook::before(&said).or_throw()?;
                    verdict.deny = said.deny;
                    if let Some(arguments) = said.arguments {
                        payload["tool"]["args"] = arguments.clone();
                        verdict.arguments = Some(arguments);
                    }
                }
            }
            if verdict.deny.is_some() {
                break;
            }
        }
        Ok(verdict)
    }

    /// Runs the hooks after a tool call, and returns the result that they leave.
    ///
    /// # Errors
    /// A closure throws, or returns an invalid value.
    pub(crate) async fn after_tool(
        &self,
        cx: &Cx,
        session: &str,
        ToolRun { name, arguments, .. }: &ToolRun,
        mut text: String,
    ) -> Result<String> {
        let hooks: Vec<Rc<Hook>> = self.0.borrow().clone();
        for hook in hooks.iter().filter(|hook| hook.event == "PostToolUse") {
            let payload = json!({
                "event": "PostToolUse", "tool": {"name": name.as_str(), "args": arguments}, "result": {"text": text},
            });
            if !hook.pattern.matches(&payload) {
                continue;
            }
            cx.state::<Witness>().hooked("PostToolUse", &payload);
            match &hook.action {
                Action::Deny(_) => {}
                Action::Limit(most) => text = microcompact(&text, *most),
                Action::Ask(closure) => {
                    let said = to_json(&cx.call(closure, [from_json(&payload)]).await?);
                    let said = without_reminders(cx, Some(session), "PostToolUse", &said).or_throw()?;
                    if let Some(changed) = hook::after(&said).or_throw()? {
                        text = changed;
                    }
                }
            }
        }
        Ok(text)
    }

    /// Notifies hooks of an event for which they can only return reminders for `session`: a turn, or a state change of
    /// a worker. The name of the event is added to `payload`.
    ///
    /// # Errors
    /// A closure throws.
    pub(crate) async fn tell(
        &self,
        cx: &Cx,
        session: Option<&str>,
        event: &str,
        mut payload: Json,
    ) -> Result<()> {
        payload["event"] = event.into();
        for hook in self.of(event, &payload) {
            if let Action::Ask(closure) = &hook.action {
                cx.state::<Witness>().hooked(event, &payload);
                let said = to_json(&cx.call(closure, [from_json(&payload)]).await?);
                // Such a hook may return any value, so an invalid reminder is not an error.
                if let Err(error) = without_reminders(cx, session, event, &said) {
                    let text = format!(
                        "warning: {event} hook: {error}; a hook that does not mean a reminder ends with nil" // prose-ok: diagnostic
                    );
                    cx.system().write_err(&harn_syntax::notice(&text));
                }
            }
        }
        Ok(())
    }
}

/// Adds the reminders in a hook's result to a session, and returns the remaining result. Without a session, reminders
/// are an error.
fn without_reminders(
    cx: &Cx,
    session: Option<&str>,
    event: &str,
    said: &Json,
) -> std::result::Result<Json, ReminderError> {
    let (made, rest) = hook_effects(event, session.is_some(), said, &|_| new_id(cx.vm()))?;
    let reminders = cx.state::<Reminders>();
    let session = session.unwrap_or_default();
    made.iter().for_each(|reminder| reminders.add(cx.vm(), session, reminder));
    Ok(rest)
}

/// The name in messages of the module that imports handlers.
const MANIFEST: &str = "harn.toml";

/// A hook as described by the manifest.
struct Wanted {
    event: String,
    pattern: Pattern,
    /// The import path of the handler's module.
    import: String,
    /// The name of that module in the manifest.
    module: String,
    function: String,
}

/// Installs the hooks of the project that contains `folder`.
///
/// # Errors
/// `failed to install manifest hooks: …`: the manifest, a handler or its module is invalid.
pub async fn install_manifest_hooks(vm: &Rc<Vm>, folder: &Path) -> std::result::Result<(), String> {
    let failed = |text: String| format!("failed to install manifest hooks: {text}");
    let Some((root, wanted)) = read_manifest(&**vm.system(), folder).map_err(failed)? else { return Ok(()) };
    let system = vm.system().clone();
    let files = Through(&*system);
    for hook in &wanted {
        check_export(hook, &root, &files).map_err(failed)?;
    }
    let mut handlers: Vec<Option<Value>> = vec![None; wanted.len()];
    for first in 0..wanted.len() {
        if handlers[first].is_some() {
            continue;
        }
        // A module is loaded once for all its handlers.
        let import = &wanted[first].import;
        let same: Vec<usize> = (first..wanted.len()).filter(|n| wanted[*n].import == *import).collect();
        let mut names: Vec<&str> = same.iter().map(|n| wanted[*n].function.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let fields: Vec<String> = names.iter().map(|name| format!("{name}: {name}")).collect();
        let (names, fields) = (names.join(", "), fields.join(", "));
        let text =
            format!("import {{ {names} }} from {}\nreturn {{ {fields} }}\n", Json::from(import.as_str()));
        let source = Source { name: MANIFEST.to_owned(), text, dir: root.clone() };
        let program = harn_vm::load(vm, &source).map_err(|error| failed(error.canonical(&source.text)))?;
        let value = program.run(vm, None, &[]).await.result.map_err(|error| failed(error.uncaught_text()))?;
        for n in same {
            handlers[n] = Some(entry(&value, &wanted[n].function));
        }
    }
    let hooks = vm.extension::<Hooks>();
    for (hook, handler) in wanted.into_iter().zip(handlers) {
        let Wanted { event, pattern, .. } = hook;
        let action = Action::Ask(handler.unwrap_or_default());
        hooks.0.borrow_mut().push(Rc::new(Hook { event, pattern, action, of_project: true }));
    }
    Ok(())
}

/// Checks the hooks of a manifest like a starting program, but without loading their modules.
pub(crate) fn check_manifest_hooks(system: &dyn System, folder: &Path) -> std::result::Result<(), String> {
    let Some((root, wanted)) = read_manifest(system, folder)? else { return Ok(()) };
    wanted.iter().try_for_each(|hook| check_export(hook, &root, &Through(system)))
}

/// Returns the directory of the project and its hooks; `None` without hooks.
fn read_manifest(
    system: &dyn System,
    folder: &Path,
) -> std::result::Result<Option<(std::path::PathBuf, Vec<Wanted>)>, String> {
    let Some(folder) = harn_template::absolute_folder(folder, system) else { return Ok(None) };
    let Some(root) = harn_front::project_root(&folder, &Through(system)) else { return Ok(None) };
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else { return Ok(None) };
    // A syntax error in the manifest is reported when the program runs.
    let Ok(manifest) = text.parse::<toml::Table>() else { return Ok(None) };
    let list = match manifest.get("hooks") {
        None => return Ok(None),
        Some(toml::Value::Array(list)) => list,
        Some(_) => return Err("hooks must be an array of tables: [[hooks]]".to_owned()),
    };
    let text_at = |table: &toml::Table, key: &str| match table.get(key) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("'{key}' of a hook must be a string")),
    };
    let mut wanted = Vec::new();
    for entry in list {
        let table = entry.as_table().ok_or("a hook must be a table with event and handler")?;
        if let Some(key) = table.keys().find(|key| !["event", "pattern", "handler"].contains(&key.as_str())) {
            return Err(format!("a hook has no key '{key}'; there are event, pattern, handler"));
        }
        let event = text_at(table, "event")?.ok_or("a hook needs an event")?;
        if !EVENTS.contains(&event.as_str()) {
            return Err(format!("unknown event '{event}'; there are {}", EVENTS.join(", ")));
        }
        let handler = text_at(table, "handler")?.ok_or("a hook needs a handler")?;
        let invalid = || format!("invalid hook handler '{handler}': expected <module>::<function>");
        let (module, function) = handler.rsplit_once("::").ok_or_else(invalid)?;
        let is_name = |text: &str| {
            !text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        if module.is_empty() || function.is_empty() || !is_name(function) {
            return Err(invalid());
        }
        let pattern = Pattern::parse(&event, text_at(table, "pattern")?.as_deref().unwrap_or("*"))?;
        wanted.push(Wanted {
            event,
            pattern,
            import: import_path(module, &manifest, &root),
            module: module.to_owned(),
            function: function.to_owned(),
        });
    }
    Ok((!wanted.is_empty()).then_some((root, wanted)))
}

/// Returns the import path of a handler's module: the package itself, one of its exports, or a path.
fn import_path(module: &str, manifest: &toml::Table, root: &Path) -> String {
    let text = |table: &str, key: &str| manifest.get(table)?.as_table()?.get(key)?.as_str();
    let file =
        if text("package", "name") == Some(module) { Some("lib.harn") } else { text("exports", module) };
    file.map_or_else(|| module.to_owned(), |file| root.join(file).display().to_string())
}

/// Returns an error if the module does not export the function.
fn check_export(hook: &Wanted, root: &Path, files: &dyn Files) -> std::result::Result<(), String> {
    let sources = Sources::new(files, crate::std_module);
    let target: Target = sources.resolve(&hook.import, root).map_err(|error| error.to_string())?;
    let unit = sources.load(&target)?;
    let exported = harn_front::exports(&unit.tree).any(|decl| decl.kind.name().name == *hook.function);
    // Re-exports, and errors in the module, are checked when it is loaded.
    let hands_on = unit.tree.imports().any(|import| import.is_pub);
    if exported || hands_on || !unit.errors.is_empty() {
        return Ok(());
    }
    Err(format!("hook handler '{}' is not exported by module '{}'", hook.function, hook.module))
}
