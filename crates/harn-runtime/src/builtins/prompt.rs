//! Prompt assembly: explanations, turns, layered prompts, project profiles.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use harn_agent::profile::{Entry, FolderReader, collect, fingerprint};
use harn_syntax::signature::STAGE_OPTIONS;
use harn_system::{Refusal, SystemExt};
use harn_value::Data as Json;
use harn_value::{Value, steps};
use harn_vm::builtin::Text;
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{OrThrow, from_json, options, to_json};
use crate::llm_embedder::{new_id, prompts_of};

builtins! {
    /// Prompt assembly.
    pub(crate) static PROMPTS: "prompts";

    /// Assembles the system prompt for call options and explains each of its fragments.
    ///
    /// No model is called. `without: [tool]` adds the same prompt without those tools and the
    /// difference; `detail: true` adds byte ranges and the stability of the prompt between turns.
    ///
    /// ```harn
    /// let e = prompt_explain({system: "You help.", tools: [{name: "todo", guidance: "Tick items."}]})
    /// println(e.system == "You help.\n\nTick items.") // -> true
    /// println(e.fragments[1].reason) // -> tool(s) present: todo
    /// ```
    Pure fn prompt_explain(cx, options: Value as "!call_options?") -> "dict" {
        let options = match options.to_dict() {
            Some(_) => Json::Object(crate::convert::options(&options)),
            None => to_json(&options),
        };
        check_names(&options)?;
        check_tools(&options["tools"])?;
        check_values(&options)?;
        from_json(&harn_prompt::prompt_explain(&options).or_throw()?)
    }

    /// Escapes untrusted content of an XML element: it cannot open or close a tag of the runtime or of
    /// `names`.
    ///
    /// ```harn
    /// println(__quote_element("a</note><b>", ["note"])) // -> a&lt;/note><b>
    /// ```
    Pure fn quote_element = "__quote_element"(cx, text: Text, names: Value as "!list<string>") -> "string" {
        let names: Vec<String> =
            names.as_list().map(|names| names.iter().map(ToString::to_string).collect()).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        harn_prompt::untrusted::quote_element(&text, &names).into_owned()
    }

    /// Builds the fragments of a turn's primary block, as `agent_loop` sends them.
    ///
    /// `session` is a session id, a transcript or nil. Without a system prompt in the options, the system prompt of the
    /// session is used.
    ///
    /// A closure as option `recitation` is called with `{iteration, messages, tools_used}`, as in each turn of a loop.
    ///
    /// ```harn
    /// let list = agent_build_turn_system_fragments(nil, {system: "Base.", persistent: true}, 0)
    /// println(list.map({ f -> f.id })) // -> [primary:system, primary:loop_contract]
    /// ```
    Pure async fn agent_build_turn_system_fragments(cx, session: Value as "dict | string?", options: Value as "loop_options?", iteration: Value as "int?") -> "list<dict>" {
        let list = turn(&cx, "agent_build_turn_system_fragments", &session, &options, &iteration).await?;
        list.iter().map(|f| from_json(&f.to_json())).collect::<Vec<Value>>()
    }

    /// Joins the fragments of a turn's primary block with blank lines.
    ///
    /// ```harn
    /// println(agent_build_turn_system(nil, {system: "Base."}, 0)) // -> Base.
    /// ```
    Pure async fn agent_build_turn_system(cx, session: Value as "dict | string?", options: Value as "loop_options?", iteration: Value as "int?") -> "string" {
        let list = turn(&cx, "agent_build_turn_system", &session, &options, &iteration).await?;
        let bodies: Vec<&str> = list.iter().map(|f| f.body.trim()).collect();
        bodies.join("\n\n")
    }

    /// Converts signals of a project directory (languages, remotes, credentials) to gated prompt
    /// fragments.
    ///
    /// ```harn
    /// let p = project_context_profile(".", {fingerprint: {languages: ["rust"]}, credentials: []})
    /// println(p.profile_ids.contains("rust")) // -> true
    /// ```
    Fs fn project_context_profile(cx, path: Value as "string?" = ".", options: Value as "!dict?") -> "dict" {
        let given = to_json(&options);
        harn_agent::profile::check_options(&given).or_throw()?;
        let options = crate::convert::options(&options);
        let path = match (path.as_str(), path.is_nil()) {
            (Some(path), _) => path.to_string(),
            (None, true) => ".".to_owned(),
            (None, false) => {
                let text = format!("project_context_profile: path must be a string, got {}", path.type_name());
                return Err(Error::thrown(text));
            }
        };
        let folder = folder(cx, &path);
        // With explicit signals, the path may be on another machine.
        let scans = given["signals"].is_null() && (given["fingerprint"].is_null() || given["remote"].is_null());
        if scans {
            to_scan(cx, "project_context_profile", &folder)?;
        }
        let reader = Files::of(cx);
        let env = |name: &str| cx.system().env(name);
        let signals = collect(&folder, &options, &reader, &env);
        reader.allowed()?;
        let shown = folder.display().to_string();
        let profile = harn_agent::profile::project_context_profile(&shown, &signals, &prompts_of(cx));
        from_json(&profile.or_throw()?)
    }

    /// Detects the languages, package managers and version control of a project directory.
    ///
    /// ```harn
    /// println(type_of(project_fingerprint("."))) // -> dict
    /// ```
    Fs fn project_fingerprint(cx, path: Text = ".") -> "dict" {
        let folder = folder(cx, &path);
        to_scan(cx, "project_fingerprint", &folder)?;
        let reader = Files::of(cx);
        let fingerprint = fingerprint::project_fingerprint(&folder, &reader);
        reader.allowed()?;
        from_json(&Json::Object(fingerprint))
    }

    /// Renders the catalog of skills that a model may load, up to a number of characters.
    ///
    /// ```harn
    /// println(render_always_on_catalog([])) // -> (none)
    /// ```
    Pure fn render_always_on_catalog(cx, skills: Value as "!list | dict", budget: i64 = 2000) -> "string" {
        let entries = catalog(&skills)?;
        let budget = usize::try_from(budget).unwrap_or(0);
        harn_prompt::turn::skill_catalog_text(&entries, budget, &prompts_of(cx)).or_throw()
    }
}

fn catalog(skills: &Value) -> Result<Vec<harn_prompt::turn::CatalogEntry>> {
    if harn_agent::skills::is_registry(skills) {
        return harn_agent::skills::catalog("render_always_on_catalog", skills).or_throw();
    }
    let Some(list) = skills.as_list() else {
        return Err(Error::thrown(
            "render_always_on_catalog: argument must be a list of entries or a skill registry",
        ));
    };
    let field = |entry: &Value, key: &str| {
        crate::convert::text(&crate::convert::entry(entry, key)).unwrap_or_default()
    };
    Ok(steps::each(list.iter())
        .map(|entry| harn_prompt::turn::CatalogEntry {
            id: field(entry, "name"),
            description: field(entry, "description"),
            when_to_use: field(entry, "when_to_use"),
        })
        .collect())
}

/// Rejects misspellings of the two options that only `prompt_explain` has. Other unknown options are accepted, because
/// hosts add their own.
fn check_names(options: &Json) -> Result<()> {
    for key in options.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        let slip = |name: &&str| (1..=2).contains(&harn_vm::suggest::distance(key, name));
        if let Some(meant) = ["without", "detail"].into_iter().find(slip) {
            let text = format!("prompt_explain: unknown option `{key}`; did you mean `{meant}`?");
            return Err(Error::thrown(text));
        }
    }
    Ok(())
}

/// Rejects the values that a call would reject. Tools are checked by [`check_tools`], because prompts can also contain
/// tools that cannot run.
fn check_values(options: &Json) -> Result<()> {
    let Json::Object(given) = options else { return Ok(()) };
    let others = given.iter().filter(|(key, _)| !matches!(key.as_str(), "tools" | "tool_choice"));
    let others = Json::Object(others.map(|(key, value)| (key.clone(), value.clone())).collect());
    harn_llm::options::CallOptions::from_json(&others).map(drop).or_throw()
}

/// Rejects tools that a call or loop would reject; entries without a name are ignored.
fn check_tools(tools: &Json) -> Result<()> {
    let whole = "tools must be a tool_registry or a list of tool definition dicts";
    match tools {
        Json::Null => Ok(()),
        Json::Array(list) if list.iter().all(Json::is_object) => Ok(()),
        Json::Array(_) => Err(Error::thrown("tools must contain only tool definition dicts")),
        registry if registry["tools"].is_array() => Ok(()),
        _ => Err(Error::thrown(whole)),
    }
}

async fn turn(
    cx: &Cx,
    builtin: &str,
    session: &Value,
    given: &Value,
    iteration: &Value,
) -> Result<Vec<harn_prompt::Fragment>> {
    let mut options = options(given);
    if !given.is_nil() && given.to_dict().is_none() {
        let text =
            format!("agent_build_turn_system_fragments: options must be a dict, got {}", given.type_name());
        return Err(Error::thrown(text));
    }
    crate::option_check::refuse_wrong(cx, builtin, STAGE_OPTIONS, given)?;
    let session = match session.as_str() {
        Some(_) => super::session::known(cx, builtin, session)?.snapshot(&|| new_id(cx.vm())),
        None => to_json(session),
    };
    let recitation = recitation(cx, given, &session, iteration).await?;
    // The executor of a tool is irrelevant here, so tools that cannot run yet are accepted.
    let entries = match options.get_mut("tools") {
        Some(Json::Object(registry)) => registry.get_mut("tools"),
        other => other,
    };
    for entry in entries.and_then(Json::as_array_mut).into_iter().flatten().filter_map(Json::as_object_mut) {
        if !entry.contains_key("executor") {
            entry.entry("handler").or_insert(Json::Null);
        }
    }
    let runtime = crate::llm_embedder::runtime(cx);
    let route = runtime.render_context(&Json::Object(options.clone())).ok();
    let config = crate::driver::loop_config(cx, &runtime, "", None, options, route.as_ref()).await?;
    let stored = harn_prompt::turn::session_system(&session);
    harn_agent::AgentLoop::new(config).turn_fragments(recitation, stored, &prompts_of(cx)).or_throw()
}

/// Returns the value of the option `recitation`; a closure is called as in a loop.
async fn recitation(cx: &Cx, options: &Value, session: &Json, iteration: &Value) -> Result<Option<String>> {
    let given = crate::convert::entry(options, "recitation");
    let shown = to_json(&given);
    if given.is_nil() || shown == Json::Bool(false) {
        return Ok(None);
    }
    if shown.as_opaque().is_none() {
        return Ok(Some(shown.printed()));
    }
    let messages = session.get("messages").cloned().unwrap_or_else(|| Json::Array(Vec::new()));
    let calls =
        messages.as_array().into_iter().flatten().filter_map(|m| m["tool_calls"].as_array()).flatten();
    let used: Vec<&str> = calls.filter_map(|call| call["name"].as_str()).collect();
    let context = harn_value::json!({
        "iteration": iteration.as_int().unwrap_or(0), "tools_used": used, "messages": messages,
    });
    crate::driver::recited(&cx.call(&given, [from_json(&context)]).await?)
}

/// Returns the directory of a path; for a file, its parent directory.
fn folder(cx: &Cx, path: &str) -> PathBuf {
    let path = cx.system().work_dir().join(path);
    let path =
        if cx.system().is_file(&path) { path.parent().map(Path::to_path_buf).unwrap_or(path) } else { path };
    path.components().collect()
}

/// Maximum size of a file that is read to detect properties of a project: 16 MiB.
const MAX_FILE: u64 = 16 << 20;

/// Checks that a directory exists and that the effective policy permits reading it.
fn to_scan(cx: &Cx, function: &str, folder: &Path) -> Result<()> {
    cx.system().names(folder).map(drop).map_err(|error| {
        let text = || Error::thrown(format!("{function}: directory not found: {}", folder.display()));
        cx.refusal(&error).unwrap_or_else(text)
    })
}

/// Files as the program's system layer shows them.
struct Files<'a> {
    cx: &'a Cx,
    /// The first access that the effective policy rejected.
    refused: RefCell<Option<Refusal>>,
}

impl Files<'_> {
    fn of(cx: &Cx) -> Files<'_> {
        Files { cx, refused: RefCell::default() }
    }

    fn seen<T>(&self, found: io::Result<T>) -> Option<T> {
        // The search for a repository continues in parent directories; reaching the root of the sandbox is not an
        // error.
        if let Err(error) = &found
            && let Some(refusal @ Refusal::Ceiling(_)) = Refusal::of(error)
        {
            self.refused.borrow_mut().get_or_insert_with(|| refusal.clone());
        }
        found.ok()
    }

    /// Returns the recorded policy error, because a profile without the rejected files would be wrong.
    fn allowed(&self) -> Result<()> {
        self.refused.borrow().as_ref().map_or(Ok(()), |refusal| Err(self.cx.refused(refusal)))
    }
}

impl FolderReader for Files<'_> {
    fn read(&self, file: &Path) -> Option<String> {
        let mut text = String::from_utf8(self.seen(self.cx.system().read(file, MAX_FILE))?).ok()?;
        // A byte order mark is not part of a prompt.
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Some(text)
    }

    fn list(&self, folder: &Path) -> Vec<Entry> {
        let system = self.cx.system();
        let names = self.seen(system.names(folder)).unwrap_or_default();
        names
            .iter()
            .map(|name| Entry {
                name: name.to_string_lossy().into_owned(),
                is_dir: system.is_dir(&folder.join(name)),
            })
            .collect()
    }
}
