//! Helpers of the integration tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses some of them, and a failed test may panic"
)]

use harn_template::{AssetLoader, RenderContext, Template};
use harn_value::{Dict, Value, json};

/// Returns bindings from JSON.
pub(crate) fn bindings(text: &str) -> Value {
    json::parse(text).unwrap()
}

/// Renders an inline template with JSON bindings; errors are converted to their messages.
pub(crate) fn render(template: &str, json: &str) -> String {
    render_values(template, bindings(json))
}

/// Renders an inline template with one binding `v`.
pub(crate) fn with(template: &str, v: Value) -> String {
    render_values(template, Value::dict([("v", v)].into_iter().collect::<Dict>()))
}

fn render_values(template: &str, bindings: Value) -> String {
    let context = RenderContext { loader: &AssetLoader(asset), ..RenderContext::default() };
    match Template::inline(template).and_then(|t| t.render(&bindings, &context)) {
        Ok(text) => text,
        Err(error) => error.to_string(),
    }
}

/// Embedded templates for tests.
pub(crate) fn asset(path: &str) -> Option<&'static str> {
    Some(match path {
        "row.prompt" => "{{ x }}={{ y }};",
        "line.prompt" => "line\n",
        "loop.prompt" => "{{ loop.index }}/{{ loop.length }}:{{ item }} ",
        "bad.prompt" => "ok\n  {{ if }}",
        "fails.prompt" => "ok\n  {{ x | nope }}",
        "cycle/a.prompt" => "{{ include \"b.prompt\" }}",
        "cycle/b.prompt" => "{{ include \"std/cycle/a.prompt\" }}",
        "deep.prompt" => {
            "{{ n | length }}{{ if n }}{{ include \"std/deep2.prompt\" with { n: n } }}{{ end }}"
        }
        _ => return None,
    })
}
