//! Restrictions of a policy cannot be bypassed by files that the program names itself, by loops, or by the names of
//! inner builtins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use harn_system::{Ceiling, Level, Memory, System, SystemExt};
use harn_value::Value;
use harn_vm::{Effect, Names, Source, VmBuilder, block_on, load};

/// Runs a program in a limited VM and returns its result as a string.
fn result(limit: impl FnOnce(VmBuilder) -> VmBuilder, code: &str) -> String {
    let memory = Memory::new()
        .with_file("/elsewhere/SKILL.md", "---\nname: s\ndescription: d\n---\nSECRET")
        .with_file("/project/own/SKILL.md", "---\nname: s\ndescription: d\n---\nOWN");
    let vm = limit(harn_runtime::vm_builder(Rc::new(memory)).global("argv", Value::list(Vec::new()))).build();
    let source = Source { name: "main.harn".into(), text: code.into(), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{code}") };
    match block_on(program.run(&vm, None, &[])).unwrap().result {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

fn at(level: Level) -> impl FnOnce(VmBuilder) -> VmBuilder {
    move |builder| builder.limit(Ceiling { level, ..Ceiling::default() })
}

/// Returns a program whose handler runs code under a policy; the program returns the result of the code.
fn below(policy: &str, code: &str) -> String {
    format!(
        "var seen = nil\n\
        let tools = tool_define(tool_registry(), \"act\", \"d\", {{parameters: {{}}, handler: {{ args -> seen = try {{ {code} }}\n\"ok\" }}}})\n\
        llm_mock({{tool_calls: [{{name: \"act\", arguments: {{}}}}]}})\n\
        agent_loop(\"go\", nil, {{provider: \"mock\", tools: tools, tool_format: \"native\", policy: {policy}, max_iterations: 1}})\n\
        return \"${{seen}}\"\n"
    )
}

#[test]
fn skills_that_a_program_names_are_read_with_what_it_may_read() {
    for read in [
        "skill_render({name: \"s\", description: \"d\", skill_dir: \"/elsewhere\"})",
        "agent_loop(\"x\", nil, {provider: \"mock\", skills: [{name: \"s\", description: \"d\", skill_dir: \"/elsewhere\"}]})",
    ] {
        let got = result(|free| free, &below("{workspace_roots: [\"/project\"]}", read));
        assert!(
            got.contains("cannot read /elsewhere/SKILL.md") && got.contains("outside workspace_roots"),
            "{got}"
        );
    }
    let render = "skill_render({name: \"s\", description: \"d\", skill_dir: \"FOLDER\"})";
    let got =
        result(|free| free, &below("{side_effect_level: \"none\"}", &render.replace("FOLDER", "/elsewhere")));
    assert!(got.contains("exceeds workspace.read_text ceiling"), "{got}");
    let got = result(at(Level::None), &format!("return {}", render.replace("FOLDER", "/elsewhere")));
    assert!(got.contains("exceeds workspace.read_text ceiling"), "{got}");
    let got =
        result(|free| free, &below("{workspace_roots: [\"/project\"]}", &render.replace("FOLDER", "own")));
    assert_eq!(got, "Result.Ok(OWN)");
}

#[test]
fn a_sandbox_without_network_asks_no_models_by_loops_either() {
    for call in [
        "llm_call(\"x\", nil, {provider: \"mock\"})",
        "agent_loop(\"x\", nil, {provider: \"mock\"})",
        "sub_agent_run(\"x\", {provider: \"mock\"})",
        "spawn_agent({task: \"x\", node: {model_policy: {provider: \"mock\"}}})",
    ] {
        let got = result(at(Level::ProcessExec), &format!("return {call}"));
        assert!(got.contains("exceeds LLM/network ceiling"), "{call}: {got}");
        let got = result(at(Level::Network), &format!("{call}\nreturn \"asked\""));
        assert_eq!(got, "asked", "{call}");
    }
}

#[test]
fn a_loop_below_a_policy_without_network_asks_where_the_program_asks() {
    let policy = "{side_effect_level: \"process_exec\"}";
    for call in [
        "agent_loop(\"x\", nil, {provider: \"mock\", base_url: \"http://a.test\"})",
        "sub_agent_run(\"x\", {provider: \"mock\", base_url: \"http://a.test\"})",
        "spawn_agent({task: \"x\", node: {model_policy: {provider: \"mock\", base_url: \"http://a.test\"}}})",
    ] {
        let got = result(|free| free, &below(policy, call));
        assert!(got.contains("exceeds LLM/network ceiling"), "{call}: {got}");
        let got = result(|free| free, &below("{side_effect_level: \"network\"}", call));
        assert!(got.starts_with("Result.Ok("), "{call}: {got}");
        let plain = call.replace(", base_url: \"http://a.test\"", "");
        let got = result(|free| free, &below(policy, &plain));
        assert!(got.starts_with("Result.Ok("), "{plain}: {got}");
    }
    let tool = "agent_loop(\"x\", nil, {provider: \"mock\", tools: [{name: \"t\", description: \"d\", parameters: {base_url: {type: \"string\"}}, handler: { a -> 1 }}]})";
    let got = result(|free| free, &below(policy, tool));
    assert!(got.starts_with("Result.Ok("), "the parameter of a tool is no address: {got}");
}

#[test]
fn inner_builtins_are_allowed_as_what_they_are_a_part_of() {
    let inner = [
        ("__agent_guard", 2),
        ("__agent_tool", 2),
        ("__llm_caller", 3),
        ("__llm_caller_step", 4),
        ("__role_model", 3),
        ("__workflow_work", 2),
    ];
    for (name, count) in inner {
        let only = Names::Only(["env".to_owned()].into_iter().collect());
        let got = result(
            |builder| builder.limit_names(only),
            &format!("return {name}({})", vec!["1"; count].join(", ")),
        );
        assert!(got.contains(&format!("Tool '{name}' is not permitted.")), "{got}");
    }
    // A new inner builtin with external effects must be listed with the builtin that it belongs to.
    for builtin in harn_runtime::tables().into_iter().flatten().filter(|b| b.name().starts_with("__")) {
        let inside = ["pure", "state", "clock"].contains(&builtin.effect.word());
        assert!(
            inside || inner.iter().any(|(name, _)| *name == builtin.name()),
            "{} reaches outside",
            builtin.name()
        );
    }
}

#[test]
fn the_tools_of_the_runtime_are_held_to_names_of_builtins() {
    let names = |name: &str| Names::AllBut([name.to_owned()].into_iter().collect());
    let call = |tool: &str, path: &str| {
        format!(
            "llm_mock({{tool_calls: [{{name: \"{tool}\", arguments: {{path: \"{path}\"}}}}]}})\n\
            return agent_loop(\"x\", nil, {{provider: \"mock\", tool_format: \"native\", max_iterations: 1, \
            tools: [{{name: \"{tool}\", description: \"d\", parameters: {{path: {{type: \"string\"}}}}}}]}}).tools.successful"
        )
    };
    for (tool, builtin, path) in [
        ("read_file", "read_file", "own/SKILL.md"),
        ("list_directory", "list_dir", "own"),
        ("read_file", "list_dir", "own"),
    ] {
        let code = call(tool, path);
        assert_eq!(
            result(|builder| builder.limit_names(names(builtin)), &code),
            "[]",
            "{tool} without {builtin}"
        );
        assert_eq!(result(|builder| builder.limit_names(names("env")), &code), format!("[{tool}]"));
    }
}

#[test]
fn a_handler_below_a_policy_takes_no_hooks_away() {
    let got = result(|free| free, &below("{side_effect_level: \"none\"}", "clear_tool_hooks()"));
    assert!(got.contains("no hooks are removed below a policy"), "{got}");
    assert_eq!(result(|free| free, "clear_tool_hooks()\nreturn 1"), "1");
}

/// Returns whether the cleanup of a dropped generator could write a file, given the policies of the loops that create
/// and drop it.
fn cleanup(maker: &str, dropper: &str, items: &str) -> String {
    let code = format!(
        "var seen = []\n\
        var kept = nil\n\
        fn items() {{\n  try {{\n    yield 1\n    yield 2\n  }} finally {{\n    let r = try {{ write_file(\"left.txt\", \"x\") }}\n    seen = seen + [is_ok(r)]\n  }}\n}}\n\
        fn make() {{\n  kept = {items}\n  return kept.next()\n}}\n\
        fn act(policy, handler) {{\n\
          let tools = tool_define(tool_registry(), \"act\", \"d\", {{parameters: {{}}, handler: handler}})\n\
          llm_mock({{tool_calls: [{{name: \"act\", arguments: {{}}}}]}})\n\
          agent_loop(\"go\", nil, {{provider: \"mock\", tools: tools, tool_format: \"native\", policy: policy, max_iterations: 1}})\n\
        }}\n\
        act({maker}, {{ args -> make() }})\n\
        act({dropper}, {{ args -> kept = nil }})\n\
        return \"${{seen}}\"\n"
    );
    result(|free| free, &code)
}

#[test]
fn cleanup_of_a_generator_may_do_what_both_its_maker_and_its_dropper_may() {
    let (all, none) = ("nil", "{side_effect_level: \"none\"}");
    for items in ["items().iter()", "items().iter().map({ x -> x })"] {
        assert_eq!(cleanup(all, all, items), "[true]", "{items}");
        assert_eq!(cleanup(none, all, items), "[false]", "{items}");
        assert_eq!(cleanup(all, none, items), "[false]", "{items}");
    }
}

/// Returns the files in memory with their content.
fn files(memory: &Memory) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::from("/")];
    while let Some(folder) = folders.pop() {
        for path in memory.names(&folder).unwrap().iter().map(|name| folder.join(name)) {
            if memory.is_dir(&path) {
                found.insert(path.clone(), Vec::new());
                folders.push(path);
            } else {
                found.insert(path.clone(), memory.read(&path, u64::MAX).unwrap_or_default());
            }
        }
    }
    found
}

/// Returns the files that a program changes.
fn changed(limit: impl FnOnce(VmBuilder) -> VmBuilder, code: &str) -> Vec<PathBuf> {
    let memory = Rc::new(Memory::new().with_file("/project/kept.txt", "kept"));
    let before = files(&memory);
    let vm = limit(harn_runtime::vm_builder(memory.clone()).global("argv", Value::list(Vec::new()))).build();
    let source = Source { name: "main.harn".into(), text: code.into(), dir: "/project".into() };
    if let Ok(program) = load(&vm, &source) {
        let _ = block_on(program.run(&vm, None, &[]));
    }
    let after = files(&memory);
    after
        .iter()
        .filter(|(path, bytes)| before.get(*path) != Some(*bytes))
        .map(|(path, _)| path.clone())
        .collect()
}

/// The effects of builtins determine which of them change files: under `read_only`, no example changes any file,
/// neither the program's nor the runtime's.
#[test]
fn below_read_only_nothing_is_left_on_disk() {
    let (mut tried, mut kept) = (0, BTreeSet::new());
    for builtin in harn_runtime::tables().into_iter().flatten() {
        let text = builtin.doc_text();
        let Some((_, code)) = text.split_once("```harn\n") else { continue };
        let code = code.split("```").next().unwrap_or_default();
        let left = changed(at(Level::ReadOnly), code);
        assert!(left.is_empty(), "{}: {left:?}", builtin.name());
        // As a limit of the whole program, the policy rejects loops; in a handler they run.
        let lines: Vec<&str> = code.trim_end().lines().collect();
        if !lines.iter().any(|line| line.starts_with("import ") || line.starts_with("pipeline ")) {
            tried += 1;
            let left = changed(|free| free, &below("{side_effect_level: \"read_only\"}", &lines.join("\n")));
            assert!(left.is_empty(), "{} in a handler: {left:?}", builtin.name());
        }
        if builtin.effect == Effect::Keep && !changed(|free| free, code).is_empty() {
            kept.insert(builtin.name());
        }
    }
    assert!(tried > 500, "{tried} examples");
    for name in ["store_set", "checkpoint"] {
        assert!(kept.contains(name), "{name} keeps nothing: {kept:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_seen_has_no_fingerprint() {
    for call in ["project_fingerprint(\".\")", "project_context_profile(\".\")"] {
        let got = result(at(Level::None), &format!("return {call}"));
        assert!(got.contains("exceeds workspace.list ceiling"), "{call}: {got}");
        let policy = "{capabilities: {workspace: [\"list\"]}}";
        let got = result(|free| free, &below(policy, &format!("type_of({call})")));
        assert!(got.contains("exceeds workspace.read_text ceiling"), "{call}: {got}");
        let got =
            result(|free| free, &below("{workspace_roots: [\"/project\"]}", &format!("type_of({call})")));
        assert_eq!(got, "Result.Ok(dict)", "{call}");
    }
    let got = result(
        |free| free,
        &below("{workspace_roots: [\"/project\"]}", "project_fingerprint(\"/elsewhere\")"),
    );
    assert!(got.contains("outside workspace_roots"), "{got}");
    let got = result(|free| free, "return project_fingerprint(\"nowhere\")");
    assert!(got.contains("project_fingerprint: directory not found:"), "{got}");
}

#[test]
fn a_workflow_below_a_ceiling_keeps_no_record() {
    let run = "workflow_execute(\"x\", {entry: \"a\", nodes: {a: {mode: \"llm\", model_policy: {provider: \"mock\"}}}, edges: []})";
    let free = format!("let r = {run}\nreturn \"${{r.status}} ${{r.path == r.run.persisted_path}}\"");
    assert_eq!(result(|free| free, &free), "completed true");
    assert!(!changed(|free| free, &free).is_empty());
    for policy in [
        "{side_effect_level: \"none\"}",
        "{side_effect_level: \"read_only\"}",
        "{capabilities: {workspace: [\"read_text\", \"exists\", \"list\"]}}",
    ] {
        let shown = format!("let r = {run}\n\"${{r.status}} ${{r.path}} ${{r.run.persisted_path}}\"");
        assert_eq!(result(|free| free, &below(policy, &shown)), "Result.Ok(completed nil nil)");
        assert_eq!(changed(|free| free, &below(policy, &shown)), [] as [PathBuf; 0]);
    }
    let chosen = run.replace("edges: []})", "edges: []}, [], {persist_path: \"run.json\"})");
    let got = result(|free| free, &below("{side_effect_level: \"read_only\"}", &chosen));
    assert!(got.contains("ceiling"), "{got}");
}

#[test]
fn a_worker_below_a_ceiling_keeps_no_snapshot() {
    let spawn = |carry: &str| {
        format!(
            "spawn_agent({{task: \"x\", wait: true, {carry}node: {{mode: \"llm\", model_policy: {{provider: \"mock\"}}}}}})"
        )
    };
    let policy = "{side_effect_level: \"none\"}";
    let got = result(|free| free, &below(policy, &format!("{}.snapshot_path", spawn(""))));
    assert_eq!(got, "Result.Ok(nil)");
    let got = result(|free| free, &below(policy, &spawn("carry: {persist_state: true}, ")));
    assert!(got.contains("exceeds workspace write ceiling"), "{got}");
    let left = changed(|free| free, &below(policy, &spawn("")));
    assert_eq!(left, [] as [PathBuf; 0]);
    // A snapshot that the program names is treated like any other file.
    let got = result(
        |free| free,
        &below("{workspace_roots: [\"/project\"]}", "resume_agent(\"/elsewhere/SKILL.md\")"),
    );
    assert!(got.contains("outside workspace_roots"), "{got}");
}
