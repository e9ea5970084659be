//! Shapes of option dicts that several builtins take or that are too long for a signature, by the name that
//! signatures use.

/// The fields of a workflow node; the options of model calls and loops have separate tables.
macro_rules! node_fields {
    () => {
        "id?: string, kind?: string, name?: string, mode?: string, prompt?: string, system?: string, \
         task_label?: string, done_sentinel?: string, tools?: any, model_policy?: stage_options, \
         auto_compact?: {enabled?: bool, token_threshold?: int, tool_output_max_chars?: int, compact_strategy?: string, \
         hard_limit_tokens?: int, hard_limit_strategy?: string, keep_last?: int, summarize_prompt?: string, \
         compact_callback?: function, mask_callback?: function, compress_callback?: function}, \
         output_visibility?: string, context_policy?: context_policy, \
         retry_policy?: {max_attempts?: int, verify?: bool, repair?: bool, backoff_ms?: int | duration, \
         backoff_multiplier?: int | float}, \
         capability_policy?: capability_policy, approval_policy?: approval_policy, \
         input_contract?: {input_kinds?: list, min_inputs?: int, max_inputs?: int, require_transcript?: bool}, \
         output_contract?: {output_kinds?: list, schema?: any}, \
         map_policy?: {items?: list, item_artifact_kind?: string, output_kind?: string, max_items?: int, max_concurrent?: int}, \
         join_policy?: {strategy?: string, min_completed?: int}, \
         reduce_policy?: {strategy?: string, separator?: string, output_kind?: string}, \
         escalation_policy?: {level?: string, queue?: string, reason?: string}, \
         verify?: {command?: string, assert_text?: string, expect_text?: string, expect_status?: int, timeout?: int | duration}, \
         exit_when_verified?: bool, context?: any, metadata?: dict"
    };
}

/// The shapes by name.
pub const SHAPES: &[(&str, &str)] = &[
    (
        "artifact_fields",
        "{_type?: string, id?: string, kind?: string, title?: string, text?: any, data?: any, source?: string, \
         created_at?: string, freshness?: string, priority?: int | float, lineage?: list, relevance?: int | float, \
         estimated_tokens?: int | float, stage?: string, metadata?: dict}",
    ),
    (
        "plan_fields",
        "{_type?: string, schema_version?: string, id?: string, tool?: string, title?: string, summary?: string, \
         direction?: string, explanation?: string, steps?: list | string, tasks?: list | string, plan?: any, \
         assumptions?: list | string, open_questions?: list | string, verification_commands?: list | string, \
         verification?: list | string, approval?: any}",
    ),
    (
        "context_policy",
        "{max_artifacts?: int, max_tokens?: int, reserve_tokens?: int, include_kinds?: list, exclude_kinds?: list, \
         prioritize_kinds?: list, pinned_ids?: list, include_stages?: list, prefer_recent?: bool, prefer_fresh?: bool, \
         render?: string}",
    ),
    (
        "capability_policy",
        "{tools?: list, capabilities?: dict, side_effect_level?: string, workspace_roots?: list, recursion_limit?: int, \
         tool_arg_constraints?: list, tool_annotations?: dict, command_policy?: command_policy}",
    ),
    (
        "approval_policy",
        "{auto_approve?: list | dict, auto_deny?: list | dict, require_approval?: list | dict, write_path_allowlist?: list}",
    ),
    (
        "command_policy",
        "{_type?: string, tools?: list, workspace_roots?: list, default_shell_mode?: string, deny_patterns?: list, \
         require_approval?: list, pre?: function, post?: function, allow_recursive?: bool}",
    ),
    (
        "cookie_options",
        "{path?: string, domain?: string, max_age?: duration | int, expires?: string | int | float, http_only?: bool, \
         secure?: bool, same_site?: string}",
    ),
    ("workflow_node", concat!("{", node_fields!(), "}")),
    // In the short form, the fields of the check are allowed at the top level.
    (
        "workflow_check",
        concat!(
            "{",
            node_fields!(),
            ", command?: string, assert_text?: string, expect_text?: string, expect_status?: int, timeout?: int | duration}"
        ),
    ),
    ("workflow_edge", "{from?: string, to?: string, branch?: string, label?: string}"),
    (
        "workflow_input",
        "{_type?: string, id?: string, version?: int, name?: string, entry?: string, nodes?: dict<workflow_node>, \
         edges?: list<workflow_edge>, act?: workflow_node, verify?: workflow_check, repair?: workflow_node, \
         provider?: string, model?: string, model_tier?: string, tier?: string, temperature?: int | float, \
         max_tokens?: int, mode?: string, done_sentinel?: string, capability_policy?: capability_policy, \
         approval_policy?: approval_policy, metadata?: dict, audit_log?: list}",
    ),
    (
        "suite_manifest",
        "{_type?: string, id?: string, name?: string, base_dir?: string, \
         cases?: list<{label?: string, run_path?: string, fixture_path?: string, compare_to?: string}>}",
    ),
    (
        "eval_pack",
        "{version?: int, id?: string, name?: string, description?: string, base_dir?: string, baseline?: string | dict, \
         package?: any, \
         defaults?: {rubrics?: list<string>, severity?: string, thresholds?: dict, fixture?: string, fixture_path?: string, \
         compare_to?: string | dict}, \
         fixtures?: list<{id?: string, kind?: string, path?: string, inline?: dict | list}>, \
         rubrics?: list<{id?: string, kind?: string, \
         assertions?: list<{kind?: string, expected?: string, stage?: string, contains?: string}>}>, judge?: any, \
         cases?: list<{id?: string, name?: string, run?: string, run_path?: string, fixture?: string, fixture_path?: string, \
         compare_to?: string | dict, rubrics?: list<string>, severity?: string, thresholds?: dict, \
         friction_events?: string | list}>, metadata?: dict}",
    ),
    (
        "friction_event",
        "{kind?: string, source?: string, actor?: string, tool?: string, provider?: string, redacted_summary?: string, \
         estimated_time_ms?: int | float, estimated_cost_usd?: int | float, recurrence_hints?: list<string>, metadata?: dict}",
    ),
    (
        "friction_fixture",
        "{_type?: string, events?: list<friction_event>, options?: {min_occurrences?: int, owner?: string}, \
         expected_suggestions?: list<{min_suggestions?: int, recommended_artifact?: string, title_contains?: string, \
         required_capability?: string, required_output_slot?: string}>}",
    ),
    (
        "context_pack",
        "{version?: int, id?: string, name?: string, description?: string, owner?: string, capabilities?: list, \
         output_slots?: list, inputs?: list, secrets?: list, refresh_policy?: dict, metadata?: dict}",
    ),
    (
        "http_reply",
        "{status?: int, body?: any, headers?: dict, responses?: list<{status?: int, body?: any, headers?: dict}>}",
    ),
    (
        "mock_answer",
        "{text?: any, tool_calls?: list<{id?: any, name?: any, arguments?: any, args?: any}>, match?: any, \
         consume_match?: any, input_tokens?: any, output_tokens?: any, cache_read_tokens?: any, \
         cache_write_tokens?: any, cache_creation_input_tokens?: any, reasoning_tokens?: any, thinking?: any, thinking_summary?: any, \
         stop_reason?: any, model?: any, provider?: any, blocks?: any, chunks?: any, \
         error?: any | {category?: any, message?: any, retry_after_ms?: any}}",
    ),
    (
        "worker_config",
        "{task?: any, name?: string, graph?: workflow_input, node?: workflow_node, artifacts?: list, \
         options?: any | workflow_options, transcript?: any, \
         wait?: bool, policy?: any, tools?: any, permissions?: any, approval_policy?: any, command_policy?: any, \
         carry?: any, execution?: any, audit?: any, parent_stage_id?: any}",
    ),
    (
        "form_part",
        "{name?: text, value?: any, value_base64?: string, path?: string, filename?: text, content_type?: text}",
    ),
    (
        "supervisor_restart",
        "{mode?: string, policy?: string, max_restarts?: int, max?: int, window_ms?: duration | int | string, \
         window?: duration | int | string, backoff_ms?: duration | int | string, backoff?: duration | int | string, \
         initial_backoff_ms?: duration | int | string, max_backoff_ms?: duration | int | string, \
         max_backoff?: duration | int | string, factor?: int | float, backoff_factor?: int | float, \
         jitter_ms?: duration | int | string, jitter?: duration | int | string, \
         circuit_open_ms?: duration | int | string, circuit_open?: duration | int | string}",
    ),
    (
        "supervisor_child",
        "{name?: string, kind?: string, task?: any, handler?: any, restart?: any | supervisor_restart, \
         active_lease?: string, lease?: string}",
    ),
    // The builtin itself reports values that are not a dict or list.
    (
        "supervisor_spec",
        "{id?: string, name?: string, strategy?: string, shutdown_ms?: duration | int | string, \
         drain_ms?: duration | int | string, restart?: any | supervisor_restart, children?: any | list<supervisor_child>}",
    ),
    (
        "process_limits",
        "{timeout?: duration | int, max_output_bytes?: int, idempotent?: bool, on_uncertain?: string}",
    ),
    (
        "health_options",
        "{provider?: string, api_key?: string, model?: string, base_url?: string, url?: string, warm?: bool, \
         preload?: bool, keep_alive?: any}",
    ),
    (
        "reminder_record",
        "{id?: string, body?: any, tags?: any, dedupe_key?: any, ttl_turns?: any, preserve_on_compact?: any, \
         propagate?: any, authority?: any, role_hint?: any, source?: any, fired_at_turn?: any, \
         originating_agent_id?: any}",
    ),
];

/// The parameters of the built-in operations of `host_call`.
pub(crate) const HOST_OPERATIONS: &[(&str, &str)] = &[
    (
        "process.exec",
        "{mode?: any, argv?: any, command?: any, shell_id?: any, shell?: any, cwd?: string, timeout?: int | duration, \
         timeout_ms?: int | duration, env?: any, env_mode?: string, login?: bool, interactive?: bool}",
    ),
    ("process.list_shells", "{}"),
    ("process.get_default_shell", "{}"),
    ("process.set_default_shell", "{shell_id?: any}"),
    (
        "process.shell_invocation",
        "{shell_id?: any, shell?: any, command?: any, login?: bool, interactive?: bool}",
    ),
    ("template.render", "{path?: any, bindings?: any}"),
    ("interaction.ask", "{question?: any, kind?: any}"),
    ("runtime.task", "{}"),
    ("workspace.project_root", "{}"),
    ("workspace.cwd", "{}"),
];

/// Returns the name and the parameters of a host operation if it is built in.
pub fn host_operation(name: &str) -> Option<(&'static str, &'static str)> {
    HOST_OPERATIONS.iter().find(|(operation, _)| *operation == name).copied()
}
