//! Compares one template across several models: the rendered prompts, the answers, and the verdicts of a judge.

use std::path::Path;
use std::rc::Rc;

use harn_llm::{Call, LlmRuntime};
use harn_prompt::Prose;
use harn_prompt::untrusted::quote_element;
use harn_system::{System, SystemExt};
use harn_template::{Caller, FsLoader, Loader, RenderContext, Template};
use harn_value::{Data as Json, json, json::from_data};
use harn_vm::Vm;

use crate::assets::{EmbeddedPrompts, prompt_asset};
use crate::evals::toml_data;
use crate::listing::{describe_model, tells_provider};
use crate::llm_embedder::llm_runtime_at;

/// What to do with the rendered prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptMode {
    /// Show them without calling a model.
    Render,
    /// Each model answers its prompt.
    Run,
    /// A model also judges the answers.
    Judge,
}

/// The inputs of a comparison.
pub struct PromptJob<'a> {
    /// The template: a path, or `std/…`.
    pub template: &'a str,
    /// Its bindings, a dict.
    pub bindings: &'a Json,
    /// Models and fleets.
    pub fleet: &'a [String],
    /// What to do with the prompts.
    pub mode: PromptMode,
    /// The model that judges; `None` for the default model.
    pub judge: Option<&'a str>,
}

/// Compares models and returns `{template, revision_hash, mode, variants: [{variant, text, models}], models: [{model,
/// provider, family, variant, bytes, branches, answer, error, usage, verdict}]}`. Models with the same prompt have the
/// same variant, a letter.
///
/// # Errors
/// A message: the template cannot be rendered, or a model is unknown.
pub fn compare_prompts(vm: &Rc<Vm>, job: &PromptJob<'_>) -> Result<Json, String> {
    let system = vm.system().clone();
    let dir = system.work_dir();
    let runtime = llm_runtime_at(vm, &dir);
    let fleets = fleets(&*system, &dir)?;
    let selectors = selectors(&runtime, job.fleet, &fleets)?;
    let loader = FsLoader::new(&*system, &prompt_asset, dir);
    let loaded = loader.load(job.template, Caller::Module).map_err(|error| error.to_string())?;
    let template = Template::parse(loaded.origin, loaded.text).map_err(|error| error.to_string())?;
    let mut variants: Vec<Json> = Vec::new();
    let mut models = Vec::new();
    for selector in &selectors {
        let route = json!({"model": selector});
        let llm = runtime.render_context(&route).map_err(|error| format!("{selector}: {error}"))?;
        let context = RenderContext {
            loader: &loader,
            llm: &from_data(&llm),
            json_schema: Some(&crate::builtins::template_schema),
            ..RenderContext::default()
        };
        let rendered = template.render_with_trace(&from_data(job.bindings), &context);
        let rendered = rendered.map_err(|error| format!("{selector}: {error}"))?;
        let same = variants.iter().position(|variant| variant["text"] == rendered.text.as_str());
        let at = same.unwrap_or_else(|| {
            variants.push(json!({"variant": letters(variants.len()), "text": rendered.text, "models": []}));
            variants.len() - 1
        });
        if let Some(list) = variants[at]["models"].as_array_mut() {
            list.push(selector.as_str().into());
        }
        let branches: Vec<Json> = rendered
            .branches
            .iter()
            .map(|branch| {
                json!({
                    "kind": branch.kind, "template_uri": &*branch.template_uri, "line": branch.line, "col": branch.col,
                    "branch_id": branch.branch_id, "branch_label": branch.branch_label,
                    "opened": {"line": branch.opened.0, "col": branch.opened.1},
                })
            })
            .collect();
        let mut model = json!({
            "model": selector, "id": llm["model"], "provider": llm["provider"], "family": llm["family"],
            "variant": variants[at]["variant"], "bytes": rendered.text.len(), "branches": branches,
        });
        if job.mode != PromptMode::Render {
            answer(&runtime, job, &rendered.text, &mut model)?;
        }
        models.push(model);
    }
    let mode = match job.mode {
        PromptMode::Render => "render",
        PromptMode::Run => "run",
        PromptMode::Judge => "judge",
    };
    Ok(json!({
        "template": template.uri(), "revision_hash": template.revision_hash(), "mode": mode, "variants": variants,
        "models": models,
    }))
}

/// Returns `A` to `Z`, then `A1` and so on.
fn letters(n: usize) -> String {
    let letter = char::from(b'A' + (n % 26) as u8);
    if n < 26 { letter.to_string() } else { format!("{letter}{}", n / 26) }
}

/// Calls a model, and the judge if requested. The error of a failed call is stored with its model; the other calls are
/// not affected.
fn answer(runtime: &LlmRuntime, job: &PromptJob<'_>, text: &str, model: &mut Json) -> Result<(), String> {
    let call = Call::new(text, None, json!({"model": model["model"], "provider": model["provider"]}));
    let cannot = |error: std::io::Error| format!("cannot start the event loop: {error}");
    let reply = match harn_vm::block_on(runtime.llm_call(&call)).map_err(cannot)? {
        Ok(reply) => reply,
        Err(error) => {
            model["error"] = error.to_safe_json();
            return Ok(());
        }
    };
    model["answer"] = reply["text"].clone();
    model["usage"] = json!({"input_tokens": reply["input_tokens"], "output_tokens": reply["output_tokens"]});
    if job.mode != PromptMode::Judge {
        return Ok(());
    }
    let bindings = [("prompt", text), ("answer", reply["text"].as_str().unwrap_or_default())];
    let quoted = |text| Json::from(quote_element(text, &["prompt", "answer"]).into_owned());
    let bindings = bindings.into_iter().map(|(key, text)| (key.to_owned(), quoted(text))).collect();
    let prompt = EmbeddedPrompts::default().render("std/llm/eval_judge.harn.prompt", &bindings);
    let prompt = prompt.map_err(|error| error.to_string())?;
    let schema = json!({
        "type": "object", "required": ["score", "reason"],
        "properties": {"score": {"type": "number", "minimum": 0, "maximum": 10}, "reason": {"type": "string"}},
    });
    let options = job.judge.map_or(json!({}), |judge| json!({"model": judge}));
    let prompt = Json::from(prompt);
    let verdict =
        harn_vm::block_on(runtime.llm_call_structured(&prompt, Some(&schema), &options)).map_err(cannot)?;
    match verdict {
        Ok(verdict) => model["verdict"] = verdict,
        Err(error) => {
            model["error"] = error.to_safe_json();
            model["error"]["by_judge"] = true.into();
        }
    }
    Ok(())
}

/// Expands a list of models and fleets to models, without duplicates.
fn selectors(
    runtime: &LlmRuntime,
    given: &[String],
    fleets: &[(String, Vec<String>)],
) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::new();
    for name in given.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let fleet = fleets.iter().find(|(known, _)| known == name).map(|(_, models)| models.clone());
        for model in fleet.unwrap_or_else(|| vec![name.to_owned()]) {
            let described = describe_model(runtime, &model);
            let named = model
                .split_once(':')
                .is_some_and(|(provider, _)| runtime.config().provider(provider).is_some());
            if !named && !tells_provider(runtime, &described) {
                let names: Vec<&str> = fleets.iter().map(|(name, _)| name.as_str()).collect();
                let fleets = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(format!(
                    "unknown model or fleet '{model}': `harn models` lists the models, PROVIDER:MODEL names any other; fleets of harn.toml: {fleets}" // prose-ok: error
                ));
            }
            if !out.contains(&model) {
                out.push(model);
            }
        }
    }
    if out.is_empty() { Err("--fleet names no model".to_owned()) } else { Ok(out) }
}

/// Returns the fleets of the project that contains a directory: `[eval.fleets.NAME] models = […]`.
fn fleets(system: &dyn System, dir: &Path) -> Result<Vec<(String, Vec<String>)>, String> {
    let Some(path) = harn_front::manifest_near(dir, &harn_front::Through(system)) else {
        return Ok(Vec::new());
    };
    let inside = |error: String| format!("{}: {error}", path.display());
    let bytes = system.read(&path, 1 << 24).map_err(|error| inside(error.to_string()))?;
    let manifest = toml_data(&String::from_utf8_lossy(&bytes)).map_err(inside)?;
    let fleets = &manifest["eval"]["fleets"];
    if !fleets.is_null() && !fleets.is_object() {
        return Err(inside("[eval.fleets] must be a table of fleets".to_owned()));
    }
    let mut out = Vec::new();
    for (name, fleet) in fleets.as_object().into_iter().flatten() {
        let models = fleet["models"].as_array().filter(|models| !models.is_empty());
        let models =
            models.and_then(|models| models.iter().map(|model| model.as_str().map(str::to_owned)).collect());
        let wrong = || inside(format!("[eval.fleets.{name}] models must be a list of names of models"));
        out.push((name.clone(), models.ok_or_else(wrong)?));
    }
    Ok(out)
}

/// Returns the packs of the package that contains a directory: `[package] evals`, else `harn.eval.toml`.
///
/// # Errors
/// A message: the package has no packs, or the manifest is invalid.
pub fn package_packs(system: &dyn System, dir: &Path) -> Result<Vec<String>, String> {
    let path = harn_front::manifest_near(dir, &harn_front::Through(system))
        .ok_or("no harn.toml in this directory or its parents; create one with `harn init`")?; // prose-ok: diagnostic
    let inside = |error: String| format!("{}: {error}", path.display());
    let bytes = system.read(&path, 1 << 24).map_err(|error| inside(error.to_string()))?;
    let manifest = toml_data(&String::from_utf8_lossy(&bytes)).map_err(inside)?;
    let root = path.parent().unwrap_or(dir);
    // Paths are relative to the current directory.
    let shown = |file: &str| {
        let file = root.join(file);
        file.strip_prefix(dir).unwrap_or(&file).display().to_string()
    };
    match &manifest["package"]["evals"] {
        Json::Null if system.is_file(&root.join(crate::evals::PACK_FILE)) => {
            Ok(vec![shown(crate::evals::PACK_FILE)])
        }
        Json::Null => Err(inside(format!(
            "no eval packs: there is neither `evals` in [package] nor {}",
            crate::evals::PACK_FILE
        ))),
        Json::Array(list) if !list.is_empty() && list.iter().all(Json::is_string) => {
            Ok(list.iter().filter_map(Json::as_str).map(shown).collect())
        }
        _ => Err(inside("[package] evals must be a list of paths of packs".to_owned())),
    }
}
