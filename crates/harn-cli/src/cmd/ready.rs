//! `harn provider-ready`: runs one health check of a provider, like `llm_healthcheck`.

use harn_system::Real;
use harn_value::{Data as Value, data::Map};

use super::providers::{envelope, fail, fields, print, text, texts, unknown};
use crate::args::ReadyArgs;
use crate::program;

/// Checks whether a provider responds.
pub(crate) fn provider_ready(args: ReadyArgs) -> u8 {
    let vm = program::session_vm(std::rc::Rc::new(Real::new()));
    let runtime = harn_runtime::llm_runtime(&vm);
    let all = harn_runtime::list_providers(&runtime);
    let Some(row) = all.iter().find(|provider| provider["name"] == args.provider.as_str()) else {
        return fail("unknown_provider", &unknown(&args.provider, &all), &Value::Null, args.json);
    };
    // A local server is ready if it serves the default model.
    let of_calls = || row["default_model"].as_str().filter(|_| row["key"] == "not needed");
    let mut settings = Map::new();
    if let Some(model) = args.model.as_deref().or_else(of_calls) {
        let model = harn_runtime::describe_model(&runtime, model);
        settings.insert("model".into(), model["id"].clone());
    }
    settings.extend(args.base_url.map(|url| ("base_url".to_owned(), Value::from(url))));
    let mut report = harn_runtime::check_provider(&runtime, &args.provider, &Value::Object(settings));
    // The check of an Ollama model returns its results without an envelope.
    report["provider"] = args.provider.as_str().into();
    let message = text(&report["message"]);
    if report["valid"] == true {
        let other =
            all.iter().find(|other| other["is_default"] == true).filter(|_| row["is_default"] != true);
        let hint =
            other.map(|other| format!("no: calls that name no provider use `{}`", text(&other["name"])));
        let is_checked = report["metadata"]["reason"] != "no_healthcheck";
        let ready = if is_checked { "yes" } else { "not checked" };
        return print(&if args.json { envelope(&report) } else { details(&report, ready, hint) });
    }
    if !args.json {
        // The message is printed as the error below.
        report["message"] = Value::Null;
        print(&details(&report, "no", None));
    }
    let reasons = [&report["metadata"]["category"], &report["metadata"]["reason"], &report["status"]];
    let reason = reasons.into_iter().find_map(Value::as_str).unwrap_or("not_ready");
    fail(reason, &message, &report, args.json)
}

/// Formats a report. `selected` is set if calls use another provider.
fn details(report: &Value, ready: &str, selected: Option<String>) -> String {
    // The results of a check are in `metadata` or at the top level.
    let found = |key: &str| [&report["metadata"][key], &report[key]].into_iter().find(|v| !v.is_null());
    let shown = |key: &str| found(key).map(text);
    let models = found("available_models").map(texts).filter(|models| !models.is_empty());
    let rows = [
        ("provider", shown("provider")),
        ("ready", Some(ready.to_owned())),
        ("message", shown("message")),
        ("address", shown("url").or_else(|| shown("tags_url"))),
        ("selected", selected),
        ("models", models.map(|models| models.join(", "))),
    ];
    let rows: Vec<(&str, String)> =
        rows.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
    fields(&rows)
}
