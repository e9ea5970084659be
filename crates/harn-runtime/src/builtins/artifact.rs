//! Artifacts, handoffs and plans that agents pass to each other.

use harn_agent::assemble::Assembly;
use harn_agent::{artifact as pure, handoff as handoffs, plan_artifact as plans};
use harn_stdlib::timestamp_now;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value, steps};
use harn_vm::{Cx, Result, builtins};

use crate::convert::{data, entry, from_json, text, thrown, to_json};
use crate::llm_embedder::new_id;

builtins! {
    /// Artifacts, handoffs and plans.
    pub(crate) static ARTIFACTS: "artifacts";

    /// Creates an artifact: a piece of work with a kind, text content and provenance.
    ///
    /// ```harn
    /// let a = artifact({kind: "file", title: "main.rs", text: "fn main() {}"})
    /// println([a.kind, a.priority, a.estimated_tokens]) // -> [workspace_file, 70, 3]
    /// ```
    Random fn artifact(cx, fields: Value as "artifact_fields?") -> "dict" {
        make(cx, "artifact", &data("artifact: fields", &fields)?)?
    }

    /// Creates an artifact from another artifact; its `lineage` refers to the parent.
    ///
    /// ```harn
    /// let a = artifact({id: "a"})
    /// println(artifact_derive(a, "summary", {text: "Short."}).lineage) // -> [a]
    /// ```
    Random fn artifact_derive(cx, parent: Value as "dict?", kind: Value as "string?", extra: Value as "artifact_fields?") -> "dict" {
        let kind = text(&kind).ok_or_else(|| thrown("artifact_derive: kind is required"))?;
        let parent = data("artifact_derive: parent", &parent)?;
        let extra = data("artifact_derive: extra", &extra)?;
        let made = pure::derive(&parent, &kind, &extra, &timestamp_now(cx), &|| new_id(cx.vm()));
        from_json(&named("artifact_derive", made)?)
    }

    /// Selects the artifacts that a policy allows, most important first.
    ///
    /// ```harn
    /// let list = [artifact({id: "a", kind: "note"}), artifact({id: "b", kind: "plan"})]
    /// println(artifact_select(list, {max_artifacts: 1}).map({ a -> a.id })) // -> [b]
    /// ```
    Pure fn artifact_select(cx, artifacts: Value as "!list?", policy: Value as "!context_policy?") -> "list<dict>" {
        let (list, policy) = selection("artifact_select", &artifacts, &policy)?;
        from_json(&pure::select(&list, &policy).into())
    }

    /// Selects artifacts like `artifact_select`, without stale evidence and duplicates.
    ///
    /// Evidence that a newer change has made obsolete is dropped, and long content is shortened.
    ///
    /// ```harn
    /// let list = [artifact({id: "a", text: "same"}), artifact({id: "b", text: "same"})]
    /// println(select_artifacts_adaptive(list).count()) // -> 1
    /// ```
    Pure fn select_artifacts_adaptive(cx, artifacts: Value as "!list?", policy: Value as "!context_policy?") -> "list<dict>" {
        let (list, policy) = selection("select_artifacts_adaptive", &artifacts, &policy)?;
        from_json(&pure::select_adaptive(&list, &policy).into())
    }

    /// Renders artifacts for a prompt.
    ///
    /// ```harn
    /// println(artifact_context([artifact({title: "Note", text: "Hi", priority: 1})]).split("\n")[1]) // -> <title>Note</title>
    /// ```
    Pure fn artifact_context(cx, artifacts: Value as "!list?", policy: Value as "!context_policy?") -> "string" {
        let (list, policy) = selection("artifact_context", &artifacts, &policy)?;
        pure::context(&list, &policy)
    }

    /// Selects the chunks of artifacts that fit a token budget, for a prompt.
    ///
    /// `options` has `artifacts`, `budget_tokens` (8000), `dedup` (`none`, `chunked`, or `semantic`, which treats
    /// chunks as duplicates if they share four fifths of their words), `strategy` (`recency`, `relevance` to `query`,
    /// `round_robin`), `microcompact_threshold` (2000 tokens; larger artifacts are shortened) and
    /// `ranker_callback(query, chunks)`, which returns a score for each chunk. The result reports for each chunk
    /// whether it is included, and why.
    ///
    /// ```harn
    /// let list = [artifact({id: "a", text: "Rust and C"}), artifact({id: "b", text: "Tea"})]
    /// let context = assemble_context({artifacts: list, query: "tea", budget_tokens: 2})
    /// println(context.chunks.map({ c -> c.text })) // -> [Tea]
    /// println(context.dropped.map({ d -> "${d.artifact_id} ${d.reason}" })) // -> [a budget_exceeded]
    /// ```
    Pure async fn assemble_context(cx, options: Value as "!{artifacts?: list, budget_tokens?: int, dedup?: string, strategy?: string, query?: string, microcompact_threshold?: int, ranker_callback?: function}") -> "dict" { // prose-ok: a type
        let named = |problem: String| thrown(format!("assemble_context: {problem}"));
        let mut assembly = Assembly::new(&to_json(&options)).map_err(named)?;
        if assembly.ranked_outside {
            let (query, chunks) = assembly.to_rank();
            let arguments = [Value::str(&query), from_json(&chunks.into())];
            let scores = cx.call(&entry(&options, "ranker_callback"), arguments).await?;
            assembly.rank(&to_json(&scores)).map_err(named)?;
        }
        from_json(&assembly.pack())
    }

    /// Creates an artifact from a file.
    ///
    /// ```harn
    /// println(artifact_workspace_file("a.txt", "Hi").title) // -> a.txt
    /// ```
    Random fn artifact_workspace_file(cx, path: Value as "text?", text: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let path = required("artifact_workspace_file", "path", &path)?;
        let fields = json!({"title": path, "text": shown(&text), "source": path, "metadata": {"path": path}});
        build(cx, "artifact_workspace_file", "workspace_file", fields, &extra)?
    }

    /// Creates an artifact from several files.
    ///
    /// ```harn
    /// println(artifact_workspace_snapshot(["a", "b"], "two files").data.paths) // -> [a, b]
    /// ```
    Random fn artifact_workspace_snapshot(cx, paths: Value as "!list", summary: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let Json::Array(paths) = data("artifact_workspace_snapshot: paths", &paths)? else {
            return Err(thrown("artifact_workspace_snapshot: paths must be a list"));
        };
        let fields = json!({"title": "workspace snapshot", "text": shown(&summary), "data": {"paths": paths}, "metadata": {"paths": paths}});
        build(cx, "artifact_workspace_snapshot", "workspace_snapshot", fields, &extra)?
    }

    /// Creates an artifact from an editor selection.
    ///
    /// ```harn
    /// println(artifact_editor_selection("a.txt", "Hi").kind) // -> editor_selection
    /// ```
    Random fn artifact_editor_selection(cx, path: Value as "text?", text: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let path = required("artifact_editor_selection", "path", &path)?;
        let fields = json!({"title": path, "text": shown(&text), "source": path, "metadata": {"path": path}});
        build(cx, "artifact_editor_selection", "editor_selection", fields, &extra)?
    }

    /// Creates an artifact from a verification result.
    ///
    /// ```harn
    /// println(artifact_verification_result("unit tests", "12 passed").priority) // -> 100
    /// ```
    Random fn artifact_verification_result(cx, title: Value as "text?", text: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let title = required("artifact_verification_result", "title", &title)?;
        build(cx, "artifact_verification_result", "verification_result", json!({"title": title, "text": shown(&text)}), &extra)?
    }

    /// Creates an artifact from a test run.
    ///
    /// ```harn
    /// println(artifact_test_result("unit", "12 passed").kind) // -> test_result
    /// ```
    Random fn artifact_test_result(cx, title: Value as "text?", text: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let title = required("artifact_test_result", "title", &title)?;
        build(cx, "artifact_test_result", "test_result", json!({"title": title, "text": shown(&text)}), &extra)?
    }

    /// Creates an artifact from a command's output: a string, or the dict that `shell` returns.
    ///
    /// ```harn
    /// println(artifact_command_result("ls", {stdout: "a", stderr: "", status: 0}).text) // -> a
    /// ```
    Random fn artifact_command_result(cx, command: Value as "text?", output: Value as "any?", extra: Value as "artifact_fields?") -> "dict" {
        let command = required("artifact_command_result", "command", &command)?;
        let given = data("artifact_command_result: output", &output)?;
        let text = match &given {
            Json::Object(map) => {
                let part = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default();
                let parts: Vec<&str> = [part("stdout"), part("stderr")].into_iter().filter(|t| !t.is_empty()).collect();
                Json::from(parts.join("\n"))
            }
            _ => shown(&output),
        };
        let data = if given.is_object() { given } else { Json::Null };
        let fields = json!({"title": command, "text": text, "data": data, "source": "command", "metadata": {"command": command}});
        build(cx, "artifact_command_result", "command_result", fields, &extra)?
    }

    /// Creates an artifact from a change to a file.
    ///
    /// ```harn
    /// println(artifact_diff("a.txt", "one\ntwo", "one\n2").text.split("\n").last()) // -> +2
    /// ```
    Random fn artifact_diff(cx, path: Value as "text?", before: Value as "text?", after: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let path = required("artifact_diff", "path", &path)?;
        let (before, after) = (text(&before).unwrap_or_default(), text(&after).unwrap_or_default());
        let diff = line_diff(&path, &before, &after);
        // The path is repeated in several fields.
        steps::bytes(path.len());
        let fields = json!({
            "title": path, "text": diff, "source": path,
            "data": {"path": path, "before": before, "after": after},
            "metadata": {"path": path, "changed_paths": [path]},
        });
        build(cx, "artifact_diff", "diff", fields, &extra)?
    }

    /// Creates an artifact from the output of `git diff`.
    ///
    /// ```harn
    /// println(artifact_git_diff("diff --git a/x b/x\n+++ b/x").metadata.changed_paths) // -> [x]
    /// ```
    Random fn artifact_git_diff(cx, text: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let shown = required("artifact_git_diff", "text", &text)?;
        let paths: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("+++ b/")).collect();
        let fields = json!({"title": "git diff", "text": shown, "source": "git", "metadata": {"changed_paths": paths}});
        build(cx, "artifact_git_diff", "git_diff", fields, &extra)?
    }

    /// Creates an artifact from a review of a change.
    ///
    /// ```harn
    /// let d = artifact_diff("a.txt", "1", "2")
    /// println(artifact_diff_review(d, "Looks good.").lineage == [d.id]) // -> true
    /// ```
    Random fn artifact_diff_review(cx, diff: Value as "!dict", summary: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        derived(cx, "artifact_diff_review", "diff_review", "diff review", &diff, &summary, &extra)?
    }

    /// Creates an artifact from a review decision; its `lineage` refers to the change and the review.
    ///
    /// ```harn
    /// let d = artifact_diff("a.txt", "1", "2")
    /// let r = artifact_diff_review(d, "Looks good.")
    /// println(artifact_review_decision(r, "accept").lineage == [d.id, r.id]) // -> true
    /// ```
    Random fn artifact_review_decision(cx, review: Value as "!dict", decision: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        derived(cx, "artifact_review_decision", "review_decision", "review decision", &review, &decision, &extra)?
    }

    /// Creates an artifact from a proposed change.
    ///
    /// ```harn
    /// println(artifact_patch_proposal("a.txt", "+x").kind) // -> patch_proposal
    /// ```
    Random fn artifact_patch_proposal(cx, path: Value as "text?", patch: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        let path = required("artifact_patch_proposal", "path", &path)?;
        let fields = json!({"title": path, "text": shown(&patch), "source": path, "metadata": {"path": path}});
        build(cx, "artifact_patch_proposal", "patch_proposal", fields, &extra)?
    }

    /// Creates an artifact from several checks.
    ///
    /// ```harn
    /// println(artifact_verification_bundle("release", [{ok: true}]).data.checks) // -> [{ok: true}]
    /// ```
    Random fn artifact_verification_bundle(cx, title: Value as "text?", checks: Value as "any?", extra: Value as "artifact_fields?") -> "dict" {
        let title = required("artifact_verification_bundle", "title", &title)?;
        let checks = to_json(&checks);
        let fields = json!({"title": title, "text": checks.to_string(), "data": {"checks": checks}});
        build(cx, "artifact_verification_bundle", "verification_bundle", fields, &extra)?
    }

    /// Creates an artifact that records the intent to apply another artifact.
    ///
    /// ```harn
    /// let p = artifact_patch_proposal("a.txt", "+x")
    /// println(artifact_apply_intent(p, "apply").lineage == [p.id]) // -> true
    /// ```
    Random fn artifact_apply_intent(cx, target: Value as "!dict", intent: Value as "text?", extra: Value as "artifact_fields?") -> "dict" {
        derived(cx, "artifact_apply_intent", "apply_intent", "apply intent", &target, &intent, &extra)?
    }

    /// Creates a handoff: work that another agent or a human continues.
    ///
    /// ```harn
    /// let h = handoff({source_persona: "scout", target_persona_or_human: "Ada", task: "Decide", reason: "Two ways"})
    /// println(h.target_persona_or_human.label) // -> Ada
    /// ```
    Random fn handoff(cx, fields: Value as "!dict") -> "dict" {
        if entry(&fields, "_type").as_str().is_none_or(|kind| kind.as_str() != "artifact") {
            let problem = handoffs::unknown(&to_json(&fields));
            problem.map_or(Ok(()), |text| Err(harn_vm::Error::runtime(text)))?;
        }
        let fields = data("handoff: fields", &fields)?;
        from_json(&named("handoff", handoff_of(cx, &fields)).map_err(|error| trim(error, "handoff: "))?)
    }

    /// Renders a handoff, or a handoff artifact, for a prompt.
    ///
    /// ```harn
    /// let h = handoff({source_persona: "scout", target_persona_or_human: "Ada", task: "Decide", reason: "Two ways"})
    /// println(handoff_context(h).split("\n")[2]) // -> <target>Ada</target>
    /// ```
    Random fn handoff_context(cx, handoff: Value as "!dict") -> "string" {
        let handoff = data("handoff_context: handoff", &handoff)?;
        handoffs::context(&named("handoff", handoff_of(cx, &handoff)).map_err(|error| trim(error, "handoff: "))?)
    }

    /// Converts the output of a model or a program to a plan: steps with a state, and an approval state.
    ///
    /// ```harn
    /// let p = plan_artifact({tasks: ["look", {task: "mend", status: "active"}]})
    /// println(p.steps.map({ s -> s.status })) // -> [pending, in_progress]
    /// ```
    Pure fn plan_artifact(cx, input: Value as "plan_fields?") -> "dict" {
        from_json(&named("plan_artifact", plans::plan(&data("plan_artifact: input", &input)?))?)
    }

    /// Returns the steps of a plan in the form that hosts display.
    ///
    /// ```harn
    /// println(plan_entries(plan_artifact({steps: ["look"]}))) // -> [{content: look, status: pending}]
    /// ```
    Pure fn plan_entries(cx, plan: Value as "dict?") -> "list<dict>" {
        let plan = named("plan_entries", plans::plan(&to_json(&plan)))?;
        from_json(&plans::entries(&plan).into())
    }

    /// Renders a plan as Markdown.
    ///
    /// ```harn
    /// println(plan_markdown(plan_artifact({steps: [{step: "look", status: "done"}]})).split("\n").last()) // -> - [x] look
    /// ```
    Pure fn plan_markdown(cx, plan: Value as "dict?") -> "string" {
        plans::markdown(&named("plan_markdown", plans::plan(&to_json(&plan)))?)
    }

    /// Returns a plan with the decision of its reviewers.
    ///
    /// ```harn
    /// println(plan_approved(plan_artifact({}), {approved: true, reviewers: ["Ada"]}).approval.state) // -> approved
    /// ```
    Pure fn plan_approved(cx, plan: Value as "dict?", record: Value as "!dict") -> "dict" {
        let plan = named("plan_approved", plans::plan(&data("plan_approved: plan", &plan)?))?;
        if record.to_dict().is_none() {
            return Err(thrown("plan_approved: record must be a dict"));
        }
        from_json(&plans::approved(&plan, &data("plan_approved: record", &record)?))
    }
}

fn handoff_of(cx: &Cx, fields: &Json) -> std::result::Result<Json, String> {
    handoffs::handoff(fields, &timestamp_now(cx), &|| new_id(cx.vm()))
}

/// Removes a prefix of the message, because errors of handoffs contain the name of the function already.
fn trim(error: harn_vm::Error, prefix: &str) -> harn_vm::Error {
    let text = error.caught().to_string();
    thrown(text.strip_prefix(prefix).unwrap_or(&text))
}

fn named<T>(function: &str, result: std::result::Result<T, String>) -> Result<T> {
    result.map_err(|error| thrown(format!("{function}: {error}")))
}

fn required(function: &str, what: &str, value: &Value) -> Result<String> {
    text(value).ok_or_else(|| thrown(format!("{function}: {what} is required")))
}

fn shown(value: &Value) -> Json {
    text(value).into()
}

fn make(cx: &Cx, function: &str, fields: &Json) -> Result<Value> {
    let made = named(function, pure::artifact(fields, &timestamp_now(cx), &|| new_id(cx.vm())))?;
    Ok(from_json(&made))
}

/// Creates an artifact of a kind. Entries of `extra` take precedence over `fields`; metadata of both are merged.
fn build(cx: &Cx, function: &str, kind: &str, fields: Json, extra: &Value) -> Result<Value> {
    make(cx, function, &merged(function, kind, fields, extra)?)
}

/// Returns the entries of a dict; empty for any other value.
fn object(data: Json) -> Map<String, Json> {
    match data {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

fn merged(function: &str, kind: &str, fields: Json, extra: &Value) -> Result<Json> {
    let mut out = object(fields);
    let extra = match data(&format!("{function}: extra"), extra)? {
        Json::Null => Map::new(),
        Json::Object(map) => map,
        other => {
            let word = other.type_name().to_owned();
            return Err(thrown(format!("{function}: extra must be a dict, got {word}")));
        }
    };
    let mut metadata = object(out.get_mut("metadata").map(Json::take).unwrap_or_default());
    for (key, value) in extra {
        match (key.as_str(), value) {
            ("metadata", Json::Object(more)) => metadata.extend(more),
            (_, value) => drop(out.insert(key, value)),
        }
    }
    out.insert("metadata".to_owned(), Json::Object(metadata));
    out.insert("kind".to_owned(), kind.into());
    Ok(Json::Object(out))
}

fn derived(
    cx: &Cx,
    function: &str,
    kind: &str,
    title: &str,
    parent: &Value,
    words: &Value,
    extra: &Value,
) -> Result<Value> {
    if parent.to_dict().is_none_or(|dict: harn_value::Ref<Dict>| dict.get_str("id").is_none()) {
        return Err(thrown(format!("{function}: first argument must be an artifact")));
    }
    let parent = data(&format!("{function}: artifact"), parent)?;
    let title = match parent["title"].as_str() {
        Some(of) => format!("{title}: {of}"),
        None => title.to_owned(),
    };
    let fields = merged(function, kind, json!({"title": title, "text": shown(words)}), extra)?;
    let made = pure::derive(&parent, kind, &fields, &timestamp_now(cx), &|| new_id(cx.vm()));
    Ok(from_json(&named(function, made)?))
}

/// Returns a diff of removed and added lines, without the common lines at both ends.
fn line_diff(path: &str, before: &str, after: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (steps::gather(before.lines()), steps::gather(after.lines()));
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (gone, come) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut out = vec![
        format!("--- a/{path}"),
        format!("+++ b/{path}"),
        format!("@@ -{},{} +{},{} @@", head + 1, gone.len(), head + 1, come.len()),
    ];
    out.extend(steps::each(gone).map(|line| format!("-{line}")));
    out.extend(steps::each(come).map(|line| format!("+{line}")));
    out.join("\n")
}

fn selection(function: &str, list: &Value, policy: &Value) -> Result<(Vec<Json>, Json)> {
    let list = match to_json(list) {
        Json::Array(items) if items.iter().all(Json::is_object) => items,
        Json::Null => Vec::new(),
        _ => return Err(thrown(format!("{function}: artifacts must be a list of artifacts"))),
    };
    let policy = to_json(policy);
    named(function, pure::check_policy(&policy))?;
    Ok((list, policy))
}
