//! Matching, presets, fragments and sizes of the profile.

use harn_value::{data::Map, json};

use super::*;
use harn_prompt::explain::prompt_explain;

fn bodies(name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
    let id = name.strip_prefix("std/project/prompts/profile_").unwrap();
    let id = id.strip_suffix(".harn.prompt").unwrap();
    let languages = bindings["languages"].printed();
    Ok(format!("Project profile: {id} {languages}.\n"))
}

fn profile(options: Value) -> Value {
    let folder = folder::testing::MemoryFolder::of(&[]);
    let signals = collect(std::path::Path::new("/p"), options.as_object().unwrap(), &folder, &|_| None);
    project_context_profile("/p", &signals, &bodies).unwrap()
}

#[test]
fn a_rust_project_on_github() {
    let result = profile(
        json!({"fingerprint": {"languages": ["rust"], "vcs": "git"}, "remote": "git@github.com:o/r.git"}),
    );
    assert_eq!(result["profile_ids"], json!(["git", "github", "rust"]));
    assert_eq!(result["caps"], json!(["vcs.git", "remote.github", "language.rust"]));
    assert_eq!(result["skills"], json!(["git", "github", "rust"]));
    assert_eq!(result["tool_groups"], json!(["git", "github", "cargo"]));
    let reasons: Vec<_> = result["profiles"].as_array().unwrap().iter().map(|p| &p["reason"]).collect();
    assert_eq!(reasons, ["vcs=git", "github remote `o/r`", "language=rust"]);
    assert_eq!(result["path"], "/p");
    assert_eq!(result["schema_version"], 1);
    assert_eq!(
        result["prompt_fragments"][2],
        json!({"id": "profile:rust", "source": "profile:rust", "body": "Project profile: rust [rust].", "requires_caps": ["language.rust"]})
    );
    let keys: Vec<_> = result.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        keys,
        [
            "schema_version",
            "path",
            "signals",
            "profile_ids",
            "profiles",
            "caps",
            "skills",
            "tool_groups",
            "mcp_presets",
            "mcp_preset_candidates",
            "prompt_fragments",
            "token_delta"
        ]
    );
}

#[test]
fn presets_need_their_credentials() {
    let remote = json!("https://github.com/o/r");
    let without = profile(json!({"remote": remote}));
    assert_eq!(without["mcp_presets"], json!([]));
    assert_eq!(
        without["mcp_preset_candidates"],
        json!([{"id": "github", "status": "needs_credentials", "missing_credentials": ["GITHUB_PERSONAL_ACCESS_TOKEN"]}])
    );
    let with = profile(json!({"remote": remote, "credentials": ["GH_TOKEN"]}));
    assert_eq!(with["mcp_presets"], json!(["github"]));
    assert_eq!(
        with["mcp_preset_candidates"],
        json!([{"id": "github", "status": "ready", "missing_credentials": []}])
    );
    assert_eq!(with["profiles"][1]["mcp_presets"], json!(["github"]));
    assert_eq!(with["profiles"][0]["mcp_preset_candidates"], json!([]));
}

#[test]
fn every_row_of_the_table_matches() {
    let ids = |options: Value| profile(options)["profile_ids"].clone();
    let language = |name: &str| ids(json!({"signals": {"languages": [name]}}));
    assert_eq!(language("rust"), json!(["rust"]));
    assert_eq!(language("typescript"), json!(["node"]));
    assert_eq!(language("javascript"), json!(["node"]));
    assert_eq!(language("python"), json!(["python"]));
    assert_eq!(language("swift"), json!(["swift"]));
    assert_eq!(language("go"), json!([]));
    for manager in ["npm", "pnpm", "yarn"] {
        assert_eq!(ids(json!({"signals": {"package_manager": manager}})), json!(["node"]));
    }
    assert_eq!(ids(json!({"signals": {"vcs": "git"}})), json!(["git"]));
    assert_eq!(ids(json!({"signals": {"vcs": "hg"}})), json!([]));
    assert_eq!(ids(json!({"signals": {"remote": {"slug": "o/r"}}})), json!(["git", "github"]));
    assert_eq!(ids(json!({"signals": {"remote": "https://gitlab.com/o/r"}})), json!(["git"]));
    let bare = profile(json!({"signals": {"remote": "https://github.com"}}));
    assert_eq!(bare["profiles"][1]["reason"], "github remote");
    assert_eq!(
        profile(json!({"signals": {"languages": ["typescript"]}}))["profiles"][0]["reason"],
        "ecosystem=node"
    );
}

#[test]
fn the_saving_is_counted() {
    let delta = profile(json!({"signals": {"languages": ["rust"]}}))["token_delta"].clone();
    let n = |key: &str| delta[key].as_u64().unwrap();
    assert_eq!(n("activated_bytes"), "Project profile: rust [rust].".len() as u64);
    assert_eq!(n("activated_tokens"), 8);
    assert_eq!(n("saved_bytes"), n("always_on_bytes") - n("activated_bytes"));
    assert_eq!(n("saved_tokens"), n("always_on_tokens") - n("activated_tokens"));
    assert_eq!(profile(json!({"signals": {}}))["token_delta"]["activated_tokens"], 0);
}

#[test]
fn fragments_pass_the_gate_by_the_profiles_own_caps() {
    let mut result = profile(json!({"signals": {"languages": ["rust"]}}));
    let explained = prompt_explain(&json!({"context_profile": result})).unwrap();
    assert_eq!(explained["fragments"][0]["id"], "profile:rust");
    assert_eq!(explained["fragments"][0]["reason"], "capabilit(ies) present: language.rust");
    result["caps"] = json!([]);
    let gated = prompt_explain(&json!({"project_context_profile": result})).unwrap();
    assert_eq!(gated["fragments"][0]["reason"], "requires capability `language.rust` (not set)");
}

#[test]
fn secrets_of_urls_never_appear() {
    let result = profile(json!({"remote": "https://me:ghp_secret@github.com/o/r?access_token=s3"}));
    let text = result.to_string();
    assert!(!text.contains("ghp_secret") && !text.contains("s3"), "{text}");
    assert_eq!(result["signals"]["remote"]["url"], "https://<redacted>@github.com/o/r");
}

/// Renders the tool names in the bindings of a body.
fn tools(name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
    let id = profile_asset("").replace(".harn.prompt", "");
    let id = name.strip_prefix(&id).unwrap().replace(".harn.prompt", "");
    let shown = |key: &str| bindings[key].printed();
    Ok(format!("{id}: {} {} {}", shown("package_manager"), shown("test_runner"), shown("frameworks")))
}

fn tools_of(files: &[(&str, &str)], options: Value) -> Vec<String> {
    let files: Vec<_> = files.iter().map(|(path, text)| (format!("/p/{path}"), *text)).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let folder = folder::testing::MemoryFolder::of(&files);
    let signals = collect(std::path::Path::new("/p"), options.as_object().unwrap(), &folder, &|_| None);
    let result = project_context_profile("/p", &signals, &tools).unwrap();
    let fragments = result["prompt_fragments"].as_array().unwrap();
    fragments.iter().map(|f| f["body"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_language_of_a_mixed_project_has_its_own_tools() {
    let files = [
        ("Cargo.toml", "axum"),
        ("package.json", "{\"devDependencies\": {\"jest\": \"1\", \"react\": \"1\"}}"),
        ("requirements.txt", "fastapi\npytest"),
        ("Package.swift", ""),
    ];
    assert_eq!(
        tools_of(&files, json!({})),
        [
            "rust: cargo cargo-test [axum]",
            "node: npm jest [react]",
            "python: pip pytest [fastapi]",
            "swift: spm xctest []"
        ]
    );
    assert_eq!(tools_of(&files[..1], json!({})), ["rust: cargo cargo-test [axum]"]);
    let without_runner = [("Cargo.toml", ""), ("package.json", "{}")];
    assert_eq!(tools_of(&without_runner, json!({})), ["rust: cargo cargo-test []", "node: npm nil []"]);
}

#[test]
fn a_tool_of_no_known_ecosystem_belongs_to_the_only_language() {
    let one = json!({"signals": {"languages": ["typescript"], "package_manager": "bun", "frameworks": ["svelte"], "test_runner": "ava"}});
    assert_eq!(tools_of(&[], one), ["node: bun ava [svelte]"]);
    let two = json!({"signals": {"languages": ["typescript", "python"], "package_manager": "bun", "package_managers": ["uv"], "test_runner": "pytest"}});
    assert_eq!(tools_of(&[], two), ["node: nil nil []", "python: uv pytest []"]);
}
