//! `harn providers` and `harn provider-catalog`: the model providers, and whether their keys are set. Keys are never
//! printed.

use harn_system::Real;
use harn_value::{Data as Value, json};

use crate::args::ListArgs;
use crate::{program, table};

/// Lists the providers, or shows one.
pub(crate) fn providers(args: &ListArgs) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let all = harn_runtime::list_providers(&harn_runtime::llm_runtime(&vm));
    let Some(name) = &args.name else {
        let text = if args.json { envelope(&json!({"providers": all})) } else { listing(&all) };
        return print(&text);
    };
    match all.iter().find(|provider| provider["name"] == name.as_str()) {
        Some(provider) if args.json => print(&envelope(provider)),
        Some(provider) => print(&details(provider)),
        None => fail("unknown_provider", &unknown(name, &all), &Value::Null, args.json),
    }
}

/// Reports an unknown provider.
pub(super) fn unknown(name: &str, all: &[Value]) -> String {
    let known: Vec<&str> = all.iter().filter_map(|provider| provider["name"].as_str()).collect();
    let hint = harn_vm::suggest::hint(name, known.iter().copied());
    format!("unknown provider `{name}`{hint}; known providers: {}", known.join(", "))
}

/// Prints providers, models and aliases as one JSON object.
pub(crate) fn provider_catalog(available_only: bool) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let catalog = harn_runtime::provider_catalog(&harn_runtime::llm_runtime(&vm), available_only);
    print(&format!("{catalog:#}\n"))
}

fn listing(all: &[Value]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|provider| {
            let mark = if provider["is_default"] == true { " *" } else { "" };
            let variable = texts(&provider["key_envs"]).into_iter().next().unwrap_or_else(|| "-".to_owned());
            let model = provider["served_model"].as_str().unwrap_or("-").to_owned();
            vec![format!("{}{mark}", text(&provider["name"])), key(provider), variable, model]
        })
        .collect();
    let table = table::draw(&["PROVIDER", "KEY", "VARIABLE", "DEFAULT MODEL"], &rows);
    let retired = |provider: &Value| {
        let (model, served) = (provider["default_model"].as_str()?, provider["served_model"].as_str()?);
        let name = text(&provider["name"]);
        (model != served).then(|| format!("  {name}: {model} -> {served}\n"))
    };
    let retired: String = all.iter().filter_map(retired).collect();
    let title =
        if retired.is_empty() { "" } else { "Retired default models, and the models that replace them:\n" };
    format!(
        "{table}\n{title}{retired}*: the default provider, used when a call names neither provider nor model.\n\
         KEY none: the provider needs no key.\n\
         `harn providers NAME` shows more.\n"
    )
}

fn details(provider: &Value) -> String {
    let or_none = |value: &Value| if value.is_null() { "-".to_owned() } else { text(value) };
    let list = |value: &Value| {
        let items = texts(value);
        if items.is_empty() { "-".to_owned() } else { items.join(", ") }
    };
    let price = match (provider["cost_per_1k_in"].as_f64(), provider["cost_per_1k_out"].as_f64()) {
        (Some(input), Some(output)) => format!("{input} in, {output} out (USD per 1000 tokens)"),
        _ => "-".to_owned(),
    };
    let rows = [
        ("provider", text(&provider["name"])),
        ("key", text(&provider["key"])),
        ("key variables", list(&provider["key_envs"])),
        ("address", or_none(&provider["base_url"])),
        ("address variable", or_none(&provider["base_url_env"])),
        ("endpoint", text(&provider["api"])),
        ("default model", default_model(provider)),
        ("features", list(&provider["features"])),
        ("price", price),
        ("requests per minute", or_none(&provider["rpm"])),
    ];
    fields(&rows)
}

/// Returns the default model, and the successor of a retired one.
fn default_model(provider: &Value) -> String {
    match (provider["default_model"].as_str(), provider["served_model"].as_str()) {
        (Some(model), Some(served)) if model != served => format!("{served} (for {model})"),
        (model, _) => model.unwrap_or("-").to_owned(),
    }
}

/// Formats names and values, one pair per line. Long values continue on the next lines.
pub(super) fn fields(rows: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in rows {
        let mut line = format!("{name:<20}");
        for word in value.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > 80 && line.len() > 20 {
                out.push_str(&line);
                out.push('\n');
                line = " ".repeat(20);
            }
            line.push(' ');
            line.push_str(word);
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Returns the status of a row's key as one word.
pub(super) fn key(row: &Value) -> String {
    let word = text(&row["key"]);
    if word == "not needed" { "none".to_owned() } else { word }
}

/// Returns the display form of a JSON value.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the items of a JSON array as strings.
pub(super) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// Returns the JSON document of a successful command.
pub(super) fn envelope(data: &Value) -> String {
    let whole = json!({"schemaVersion": 1, "ok": true, "data": data, "error": null, "warnings": []});
    format!("{whole:#}\n")
}

/// Prints a result. Returns the exit code.
pub(super) fn print(text: &str) -> u8 {
    // The reader may close the pipe; that is not an error.
    crate::out::write(text);
    0
}

/// Reports the failure of a command. Returns the exit code.
pub(super) fn fail(code: &str, message: &str, details: &Value, as_json: bool) -> u8 {
    if as_json {
        let error = json!({"code": code, "message": message, "details": details});
        let whole = json!({"schemaVersion": 1, "ok": false, "data": null, "error": error, "warnings": []});
        print(&format!("{whole:#}\n"));
    } else {
        eprintln!("{}", harn_syntax::error_line(message));
    }
    1
}
