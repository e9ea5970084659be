//! The hooks of a program: rules for tools that scripts register, and closures that the manifest of the project attaches
//! to events.

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

/// The hooks in force, in the order in which they came.
#[derive(Default)]
pub(crate) struct Hooks(RefCell<Vec<Rc<Hook>>>);

/// What a hook does with an event.
enum Action {
    /// Refuses the call.
    Deny(String),
    /// Shortens a longer result.
    Limit(usize),
    /// Asks a closure.
    Ask(Value),
}

struct Hook {
    event: String,
    pattern: Pattern,
    action: Action,
    /// The manifest of the project wants it: programs cannot take it away.
    of_project: bool,
}

impl Hooks {
    /// Adds what `register_tool_hook` describes.
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

    /// Removes what scripts registered.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().retain(|hook| hook.of_project);
    }

    /// Whether calls of tools are to be shown before they run.
    pub(crate) fn watch_calls(&self) -> bool {
        self.watches("PreToolUse")
    }

    /// Whether anything is attached to an event.
    pub(crate) fn watches(&self, event: &str) -> bool {
        self.0.borrow().iter().any(|hook| hook.event == event)
    }

    fn of(&self, event: &str, payload: &Json) -> Vec<Rc<Hook>> {
        let list = self.0.borrow();
        list.iter().filter(|hook| hook.event == event && hook.pattern.matches(payload)).cloned().collect()
    }

    /// Shows a call to the hooks in front of it: each sees what the one before left, the first refusal counts.
    ///
    /// # Errors
    /// What a closure throws, or a value of it without meaning.
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

    /// Shows a result to the hooks behind a call, and returns what they leave of it.
    ///
    /// # Errors
    /// What a closure throws, or a value of it without meaning.
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

    /// Tells the hooks of an event to which there is no other answer than reminders for `session`: a turn, or what becomes of a
    /// worker. `payload` gets the event's name.
    ///
    /// # Errors
    /// What a closure throws.
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
                // Such a hook may end with anything: what only looks like a reminder is no reason to stop.
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

/// Adds the reminders in what a hook said to a session, and gives the rest; without a session there may be none.
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

/// How the program that imports handlers is named in messages.
const MANIFEST: &str = "harn.toml";

/// A hook as the manifest describes it.
struct Wanted {
    event: String,
    pattern: Pattern,
    /// The import path of the handler's module.
    import: String,
    /// How the manifest names that module.
    module: String,
    function: String,
}

/// Installs the hooks of the project that `folder` belongs to.
///
/// # Errors
/// `failed to install manifest hooks: …`: the manifest, a handler or its module is wrong.
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

/// Reads the hooks of a manifest as a program that begins does, but for what loading their modules tells.
pub(crate) fn check_manifest_hooks(system: &dyn System, folder: &Path) -> std::result::Result<(), String> {
    let Some((root, wanted)) = read_manifest(system, folder)? else { return Ok(()) };
    wanted.iter().try_for_each(|hook| check_export(hook, &root, &Through(system)))
}

/// The project's folder and its hooks; nothing when there are none.
fn read_manifest(
    system: &dyn System,
    folder: &Path,
) -> std::result::Result<Option<(std::path::PathBuf, Vec<Wanted>)>, String> {
    let Some(folder) = harn_template::absolute_folder(folder, system) else { return Ok(None) };
    let Some(root) = harn_front::project_root(&folder, &Through(system)) else { return Ok(None) };
    let Ok(text) = system.read_text(&root.join("harn.toml"), harn_front::MAX_BYTES) else { return Ok(None) };
    // A manifest that does not parse is reported by whoever runs the program.
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

/// What the module of a handler is imported by: the package itself, one of its exports, or a path.
fn import_path(module: &str, manifest: &toml::Table, root: &Path) -> String {
    let text = |table: &str, key: &str| manifest.get(table)?.as_table()?.get(key)?.as_str();
    let file =
        if text("package", "name") == Some(module) { Some("lib.harn") } else { text("exports", module) };
    file.map_or_else(|| module.to_owned(), |file| root.join(file).display().to_string())
}

/// Says so when the module does not give the function to others.
fn check_export(hook: &Wanted, root: &Path, files: &dyn Files) -> std::result::Result<(), String> {
    let sources = Sources::new(files, crate::std_module);
    let target: Target = sources.resolve(&hook.import, root).map_err(|error| error.to_string())?;
    let unit = sources.load(&target)?;
    let exported = harn_front::exports(&unit.tree).any(|decl| decl.kind.name().name == *hook.function);
    // What a module hands on from others, and what is wrong in it, its loading tells.
    let hands_on = unit.tree.imports().any(|import| import.is_pub);
    if exported || hands_on || !unit.errors.is_empty() {
        return Ok(());
    }
    Err(format!("hook handler '{}' is not exported by module '{}'", hook.function, hook.module))
}
