//! `harn models` and `harn model-info`: the models with an alias or a catalogue entry, their capabilities and
//! availability.

use harn_system::Real;
use harn_value::{Data as Value, json};

use super::providers::{envelope, fields, key, print, text, texts};
use crate::args::{ListArgs, ModelInfoArgs, ModelsArgs, ModelsCommand, ShowModelArgs, UpdateModelsArgs};
use crate::{program, table};

/// Lists the models, shows one, or installs a table.
pub(crate) fn models(args: &ModelsArgs) -> u8 {
    match &args.command {
        None => list(&args.list),
        Some(ModelsCommand::Show(args)) => show(args),
        Some(ModelsCommand::Update(args)) => update(args),
    }
}

/// Prints all data of a model with its source.
fn show(args: &ShowModelArgs) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let runtime = harn_runtime::llm_runtime(&vm);
    let model = harn_runtime::describe_model(&runtime, &args.name);
    if !harn_runtime::tells_provider(&runtime, &model) {
        eprintln!(
            "{}",
            unlisted(
                &args.name,
                &harn_runtime::provider_of_model(&runtime, &args.name),
                &harn_runtime::list_models(&runtime)
            )
        );
    }
    let facts = harn_runtime::model_facts(&runtime, &args.name);
    if args.json {
        return print(&envelope(&json!({"facts": facts})));
    }
    let line = |fact: &Value| {
        let (name, value) = (text(&fact["fact"]), text(&fact["value"]));
        format!("{name:<20}{value}\n{:<20}  {}\n", "", text(&fact["source"]))
    };
    print(&facts.iter().map(line).collect::<String>())
}

/// Installs a newer table of models.
fn update(args: &UpdateModelsArgs) -> u8 {
    let system = Real::new();
    let work = harn_runtime::update_model_table(
        &system,
        &args.source,
        args.origin.as_deref(),
        args.output.as_deref(),
    );
    let done = harn_vm::block_on(work).unwrap_or_else(|error| Err(format!("cannot start: {error}")));
    match done {
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => {
            eprintln!("{}", harn_syntax::error_line(&error));
            1
        }
    }
}

fn list(args: &ListArgs) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let runtime = harn_runtime::llm_runtime(&vm);
    let all = harn_runtime::list_models(&runtime);
    if let Some(name) = &args.name {
        let of_provider: Vec<Value> =
            all.iter().filter(|model| model["provider"] == *name).cloned().collect();
        if !of_provider.is_empty() {
            return print(&if args.json {
                envelope(&json!({"models": of_provider}))
            } else {
                listing(&of_provider)
            });
        }
        let model = harn_runtime::describe_model(&runtime, name);
        if !harn_runtime::tells_provider(&runtime, &model) {
            eprintln!("{}", unlisted(name, &harn_runtime::provider_of_model(&runtime, name), &all));
        }
        return print(&if args.json { envelope(&model) } else { details(&model) });
    }
    print(&if args.json { envelope(&json!({"models": all})) } else { listing(&all) })
}

/// Returns a note about a model name that is in no table and does not name a provider.
fn unlisted(name: &str, provider: &str, listed: &[Value]) -> String {
    let aliases = listed.iter().flat_map(|model| texts(&model["aliases"]));
    let names: Vec<String> = listed.iter().map(|model| text(&model["id"])).chain(aliases).collect();
    let hint = harn_vm::suggest::hint(name, names.iter().map(String::as_str));
    format!("note: unknown model `{name}`{hint}: calls with this name go to the provider `{provider}`")
}

/// Prints a model as a JSON object. `readiness` is the result of a health check, or null if none was requested.
pub(crate) fn model_info(args: ModelInfoArgs) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let runtime = harn_runtime::llm_runtime(&vm);
    let mut model = harn_runtime::describe_model(&runtime, &args.model);
    let asked = args.verify || args.warm;
    let mut settings = json!({"model": model["id"], "warm": args.warm});
    if let Some(keep) = args.keep_alive {
        settings["keep_alive"] = keep.into();
    }
    let check = || harn_runtime::check_provider(&runtime, &text(&model["provider"]), &settings);
    let readiness = if asked { check() } else { Value::Null };
    let failure = (asked && readiness["valid"] != true).then(|| text(&readiness["message"]));
    model["readiness"] = readiness;
    print(&format!("{model:#}\n"));
    match failure {
        None => 0,
        Some(message) => {
            eprintln!("{}", harn_syntax::error_line(&message));
            1
        }
    }
}

/// Prints the capabilities of all models, or of those with a feature. A feature is a key of `provider_capabilities`.
pub(super) fn matrix(feature: Option<&str>, as_json: bool) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let mut rows = harn_runtime::provider_matrix(&harn_runtime::llm_runtime(&vm));
    if let Some(feature) = feature {
        let features: Vec<&str> = rows.first().and_then(Value::as_object).map_or(Vec::new(), |row| {
            row.iter()
                .map(|(name, _)| name.as_str())
                .filter(|name| !["provider", "model"].contains(name))
                .collect()
        });
        if !features.contains(&feature) {
            let hint = harn_vm::suggest::hint(feature, features.iter().copied());
            let text =
                format!("--filter: unknown feature '{feature}'{hint}; there are {}", features.join(", "));
            crate::args::usage_error("check", &text);
        }
        rows.retain(|row| is_there(&row[feature]));
    }
    if as_json {
        return print(&envelope(&json!({"models": rows})));
    }
    let cells = |row: &Value| {
        let tools = match (row["native_tools"] == true, row["tools"] == true) {
            (true, _) => "native",
            (false, true) => "text",
            _ => "-",
        };
        let words = [
            ("thinking", "think"),
            ("tool_search", "find"),
            ("prompt_caching", "cache"),
            ("structured_output", "json"),
            ("vision_supported", "see"),
            ("audio", "hear"),
            ("pdf", "pdf"),
        ];
        let can: Vec<&str> =
            words.iter().filter(|(key, _)| is_there(&row[key])).map(|(_, word)| *word).collect();
        let name = format!("{}:{}", text(&row["provider"]), text(&row["model"]));
        vec![name, tools.to_owned(), if can.is_empty() { "-".to_owned() } else { can.join(" ") }]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    print(&format!(
        "{}\nfind: searches its tools. json: keeps to a schema. `--filter FEATURE` shows\n\
         those with a feature, `--format json` all that is known of them.\n",
        table::draw(&["MODEL", "TOOLS", "CAN"], &rows)
    ))
}

/// Whether a capability is available.
fn is_there(value: &Value) -> bool {
    let nothing = value.is_null() || *value == false || *value == "none";
    !nothing && value.as_array().is_none_or(|list| !list.is_empty())
}

fn listing(all: &[Value]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|model| {
            let window = model["context_window"].as_i64().map_or("-".to_owned(), |n| n.to_string());
            let price = |key: &str| model[key].as_f64();
            let price = match (price("input_per_mtok"), price("output_per_mtok")) {
                (Some(input), Some(output)) => format!("{input}/{output}"),
                _ => "-".to_owned(),
            };
            vec![
                text(&model["id"]),
                text(&model["provider"]),
                text(&model["tier"]),
                window,
                price,
                key(model),
            ]
        })
        .collect();
    let table = table::draw(&["MODEL", "PROVIDER", "TIER", "CONTEXT", "USD/M", "KEY"], &rows);
    let aliases: Vec<Vec<String>> = all
        .iter()
        .flat_map(|model| {
            let target = format!("{} at {}", text(&model["id"]), text(&model["provider"]));
            texts(&model["aliases"]).into_iter().map(move |alias| vec![alias, target.clone()])
        })
        .collect();
    let aliases = table::draw(&["ALIAS", "MODEL"], &aliases);
    format!(
        "{table}\n{aliases}\nUSD/M: price of a million tokens in and out. `harn models NAME` shows more.\n"
    )
}

fn details(model: &Value) -> String {
    let or_none = |value: &Value| if value.is_null() { "-".to_owned() } else { text(value) };
    let caps = &model["capabilities"];
    let yes = caps.as_object().into_iter().flatten().filter(|(_, value)| **value == true);
    let can: Vec<&str> = yes.map(|(name, _)| name.as_str()).collect();
    let list = |key: &str| {
        let items = texts(&caps[key]);
        if items.is_empty() { "-".to_owned() } else { items.join(", ") }
    };
    let rows = [
        ("model", text(&model["id"])),
        ("provider", text(&model["provider"])),
        ("alias", or_none(&model["resolved_alias"])),
        ("tier", text(&model["tier"])),
        ("key", text(&model["key"])),
        ("context window", or_none(&model["context_window"])),
        ("tool format", text(&model["tool_format"])),
        ("thinking", list("thinking_modes")),
        ("tool search", list("tool_search")),
        ("structured output", or_none(&caps["structured_output"])),
        ("can", if can.is_empty() { "-".to_owned() } else { can.join(", ") }),
    ];
    fields(&rows)
}
