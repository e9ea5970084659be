//! Rendering templates.

use harn_schema::as_json_schema;
use harn_system::{System, SystemExt};
use harn_template::{
    Caller, ErrorKind, FsLoader, Loader, Origin, RenderContext, Rendered, Span, Template, TemplateError,
    Unbound,
};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result, builtins};

use crate::assets::prompt_asset;
use crate::convert::{from_json, to_json};
use crate::template_state::{LlmBinding, TemplateState, log_render};

builtins! {
    /// Templates.
    pub(crate) static TEMPLATES: "templates";

    /// Renders a template file or an embedded prompt (`std/…`).
    ///
    /// Relative paths start at the directory of the calling file, `@/` at the project's root.
    ///
    /// ```harn
    /// let text = render("std/agent/prompts/default_nudge.harn.prompt", {done_sentinel: "##DONE##"})
    /// println(text.contains("You have not output ##DONE## yet")) // -> true
    /// ```
    Fs fn render(cx, path: Value as "!string", bindings: Value as "!dict?") -> "string" {
        file(cx, "render", &path, &bindings)
    }

    /// Renders a prompt template like `render`, and marks the file as a prompt for bundles and checks.
    ///
    /// ```harn
    /// let text = render_prompt("std/agent/prompts/progress_nudge.harn.prompt", {progress_tool: "report"})
    /// println(text.contains("`report`")) // -> true
    /// ```
    Fs fn render_prompt(cx, path: Value as "!string", bindings: Value as "!dict?") -> "string" {
        file(cx, "render_prompt", &path, &bindings)
    }

    /// Renders a template from a string.
    ///
    /// ```harn
    /// println(render_string("Hello {{ name | upper }}!", {name: "Ada"})) // -> Hello ADA!
    /// println(render_string("{{ for x in xs }}[{{ x }}]{{ end }}", {xs: [1, 2]})) // -> [1][2]
    /// ```
    Fs fn render_string(cx, template: Value as "text", bindings: Value as "!dict?") -> "string" {
        let text = template.to_string();
        let bindings = checked("render_string", &bindings)?;
        let reader = cx.system();
        let loader = loader(cx, &*reader);
        let template = Template::inline(&text).map_err(|e| failed(&e))?;
        rendered(cx, &template, &bindings, &loader, false)?.text
    }

    /// Renders a template and reports the source of each part of the output.
    ///
    /// ```harn
    /// let r = render_with_provenance("std/agent/prompts/progress_nudge.harn.prompt", {progress_tool: "report"})
    /// println("${r.prompt_id} ${r.template_uri}") // -> prompt-1 std://agent/prompts/progress_nudge.harn.prompt
    /// println(r.spans.any({ s -> s.kind == "expr" && s.bound_value == "report" })) // -> true
    /// ```
    Fs fn render_with_provenance(cx, path: Value as "!string", bindings: Value as "!dict?") -> "dict" {
        let bindings = checked("render_with_provenance", &bindings)?;
        let reader = cx.system();
        let loader = loader(cx, &*reader);
        let template = load(cx, "render_with_provenance", &path, &loader)?;
        let rendered = rendered(cx, &template, &bindings, &loader, true)?;
        let mut out = Dict::new();
        out.insert("text", rendered.text.as_str());
        out.insert("template_uri", template.uri());
        out.insert("prompt_id", cx.state::<TemplateState>().prompt_id());
        out.insert("spans", spans(&rendered));
        out
    }

    /// Records that a rendered prompt was sent to a model, and returns how often it was sent.
    ///
    /// ```harn
    /// println(prompt_mark_rendered("prompt-1")) // -> 1
    /// println(prompt_mark_rendered("prompt-1")) // -> 2
    /// ```
    State fn prompt_mark_rendered(cx, prompt_id: Value as "!string") -> "int" {
        let Some(id) = prompt_id.as_str() else {
            return Err(Error::type_error("prompt_mark_rendered: prompt_id must be a string"));
        };
        cx.state::<TemplateState>().mark(id)
    }

    /// Opens the context in which templates see `llm`.
    State fn push_context = "__push_llm_render_context"(cx, provider: Value as "any?", model: Value as "any?") -> "nil" {
        let mut options = harn_value::data::Map::new();
        options.insert("provider".into(), provider.to_string().into());
        options.insert("model".into(), model.to_string().into());
        let context = crate::llm_embedder::runtime(cx).render_context(&options.into());
        let context = context.map_err(|e| Error::thrown(from_json(&e.to_thrown())))?;
        let llm = from_json(&context);
        cx.state::<TemplateState>().push(cx, LlmBinding::new(move || llm.clone()));
    }

    /// Closes the innermost context of the task.
    State fn pop_context = "__pop_llm_render_context"(cx) -> "nil" {
        cx.state::<TemplateState>().pop(cx);
    }
}

/// Renders a file or an embedded template.
pub(crate) fn file(cx: &Cx, function: &str, path: &Value, bindings: &Value) -> Result<String> {
    let bindings = checked(function, bindings)?;
    let reader = cx.system();
    let loader = loader(cx, &*reader);
    let template = load(cx, function, path, &loader)?;
    Ok(rendered(cx, &template, &bindings, &loader, false)?.text)
}

/// Returns the loader for the calling module. Paths are resolved with the rights of the runtime, but files are read
/// with the rights of the task.
fn loader<'a>(cx: &'a Cx, reader: &'a dyn System) -> FsLoader<'a> {
    let dir = cx.caller_dir();
    let system = &**cx.vm().system();
    let dir = if dir.is_absolute() { dir } else { system.work_dir().join(dir) };
    let workspace_roots = cx.roots();
    FsLoader { workspace_roots, reader, ..FsLoader::new(system, &prompt_asset, dir) }
}

fn load(cx: &Cx, function: &str, path: &Value, loader: &FsLoader<'_>) -> Result<std::rc::Rc<Template>> {
    let path = match path.as_str() {
        Some(path) if !path.is_empty() => path.as_str(),
        _ => return Err(Error::thrown(format!("{function}: path must be a non-empty string"))),
    };
    let loaded = loader.load(path, Caller::Module).map_err(|kind| unreadable(&kind))?;
    cx.state::<TemplateState>().cache.get_or_parse(loaded.origin, loaded.text).map_err(|e| failed(&e))
}

/// Checks that bindings are a dict, a struct or nil.
fn checked(function: &str, bindings: &Value) -> Result<Value> {
    if bindings.is_nil() {
        return Ok(Value::NIL);
    }
    match bindings.to_dict() {
        Some(dict) => Ok(dict.into()),
        None => {
            Err(Error::thrown(format!("{function}: bindings must be a dict, got {}", bindings.type_name())))
        }
    }
}

/// Renders in the innermost LLM render context of the task. Inside such a context, the result is written to the call
/// log.
fn rendered(
    cx: &Cx,
    template: &Template,
    bindings: &Value,
    loader: &FsLoader<'_>,
    with_spans: bool,
) -> Result<Rendered> {
    let state = cx.state::<TemplateState>();
    let llm = state.llm(cx);
    let uri = template.uri();
    let shadowed = !llm.is_nil() && bindings.as_dict().is_some_and(|d| d.contains("llm"));
    if shadowed && state.warns(uri) {
        cx.system().write_err(&harn_syntax::notice(&format!(
            "warning: template.llm_scope: a binding named `llm` hides the injected one; rename it (template_uri={uri}, reason=user_binding_shadowed)"
        )));
    }
    let unbound = |template: &Template, unbound: &Unbound<'_>| warn_unbound(cx, template, unbound, bindings);
    let context = RenderContext {
        unbound: bindings.as_dict().is_some().then_some(&unbound),
        loader,
        llm: &llm,
        cache: Some(&state.cache),
        json_schema: Some(&json_schema),
        ..RenderContext::default()
    };
    let log =
        (!llm.is_nil()).then(|| crate::llm_embedder::runtime(cx)).filter(|runtime| runtime.is_logging());
    let rendered = if with_spans {
        template.render_with_provenance(bindings, &context)
    } else if log.is_some() {
        template.render_with_trace(bindings, &context)
    } else {
        let text = template.render(bindings, &context);
        text.map(|text| Rendered { text, branches: Vec::new(), spans: Vec::new() })
    };
    let rendered = rendered.map_err(|e| failed(&e))?;
    if let Some(runtime) = log {
        log_render(&runtime, template, &rendered, &llm);
    }
    Ok(rendered)
}

/// Warns once per name that a template of the program uses and the call does not bind.
fn warn_unbound(cx: &Cx, template: &Template, unbound: &Unbound<'_>, bindings: &Value) {
    if matches!(template.origin(), Origin::Asset(_)) {
        return;
    }
    let place = match template.origin() {
        Origin::Inline => "the template".to_owned(),
        _ => template.uri().to_owned(),
    };
    let (line, column) = template.position(unbound.offset);
    let name = unbound.name;
    if !cx.state::<TemplateState>().warns(&format!("{place}:{line}:{column}:{name}")) {
        return;
    }
    let result = if unbound.stays { "it stays as written" } else { "nothing is written for it" };
    let names: Vec<String> =
        bindings.as_dict().map_or_else(Vec::new, |dict| dict.keys().map(|key| key.to_string()).collect());
    let near = harn_syntax::suggest::close(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    cx.system().write_err(&harn_syntax::notice(&format!(
        "warning: template: `{name}` is not bound in {place} at {line}:{column}, so {result}{near}"
    )));
}

/// Converts a schema to JSON Schema, as in the request of a call.
pub(crate) fn json_schema(schema: &Value) -> Value {
    match schema.to_dict() {
        Some(dict) => from_json(&as_json_schema(&to_json(&dict.into()))),
        None => schema.clone(),
    }
}

fn failed(error: &TemplateError) -> Error {
    thrown(error.kind(), error.to_string())
}

/// Returns the error for a template that cannot be loaded.
fn unreadable(kind: &ErrorKind) -> Error {
    thrown(kind, kind.to_string())
}

fn thrown(kind: &ErrorKind, text: String) -> Error {
    match kind {
        ErrorKind::Sandbox { .. } => Error::category("tool_rejected", text),
        ErrorKind::ReadTemplate { path, message } | ErrorKind::ReadInclude { path, message } => {
            harn_stdlib::with_file_facts(Error::thrown(text), path, message)
        }
        _ => Error::thrown(text),
    }
}

fn spans(rendered: &Rendered) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(rendered.spans.len());
    for span in &rendered.spans {
        let parent =
            span.parent.and_then(|at| rendered.spans.get(at)).map(|parent| chained(parent, rendered));
        let mut dict = span_dict(span);
        if let Some(parent) = parent {
            dict.insert("parent", parent);
        }
        out.push(dict.into());
    }
    out
}

/// Returns a span with the includes around it.
fn chained(span: &Span, rendered: &Rendered) -> Value {
    let mut dict = span_dict(span);
    if let Some(parent) = span.parent.and_then(|at| rendered.spans.get(at)) {
        dict.insert("parent", chained(parent, rendered));
    }
    dict.into()
}

fn span_dict(span: &Span) -> Dict {
    let mut dict = Dict::new();
    dict.insert("kind", span.kind.as_str());
    dict.insert("output_start", span.output_start);
    dict.insert("output_end", span.output_end);
    dict.insert("template_line", i64::from(span.template_line));
    dict.insert("template_col", i64::from(span.template_col));
    dict.insert("template_uri", &*span.template_uri);
    if let Some(bound) = &span.bound_value {
        dict.insert("bound_value", bound.as_str());
    }
    dict
}
