//! What a policy denies, and how malformed policies are rejected.

use super::path::Tree;
use super::*;
use harn_value::json;

/// A call in the working directory of [`Tree`].
fn decide(policy: &Policy, tool: &LoopTool, arguments: &Json, answers: &[Reply]) -> Decision {
    policy.decide(&Case { tool, arguments, answers, confirmed: None, paths: &Tree(Vec::new()) })
}

fn reason(options: Json, tool: Json, arguments: Json) -> Option<String> {
    let options = options.as_object().cloned().unwrap();
    let policy = Policy::from_options(&options).unwrap();
    let tool = LoopTool::from_entry(&tool, true, &policy.annotations).unwrap();
    denial(&policy, &tool, &arguments)
}

fn denial(policy: &Policy, tool: &LoopTool, arguments: &Json) -> Option<String> {
    match decide(policy, tool, arguments, &[Reply::NoHost]).verdict {
        Verdict::Granted { .. } => None,
        Verdict::Denied(denial) => Some(denial.reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_ceiling_names_what_it_forbids() {
    let tool = json!({"name": "w", "handler": null, "annotations": {"side_effect_level": "network", "capabilities": {"net": ["get"]}}});
    let deny = |policy: Json| {
        reason(json!({"policy": policy}), tool.clone(), json!({"path": "z"})).unwrap_or_default()
    };
    assert!(deny(json!({"tools": ["r"]})).starts_with("tool 'w' exceeds tool ceiling"));
    assert!(
        deny(json!({"side_effect_level": "read_only"}))
            .starts_with("tool 'w' exceeds side-effect ceiling: read_only")
    );
    assert!(
        deny(json!({"capabilities": {"net": ["post"]}}))
            .starts_with("tool 'w' exceeds capability ceiling: net.get")
    );
    let constrained =
        deny(json!({"tool_arg_constraints": [{"tool": "w", "arg_key": "path", "arg_patterns": ["a*"]}]}));
    assert!(
        constrained.starts_with(
            "tool 'w' path 'z' does not match allowed patterns: [\"a*\"]. Only the path argument"
        )
    );
    assert_eq!(deny(json!({"tools": ["w"], "side_effect_level": "network"})), "");
}

#[test]
fn what_is_malformed_is_an_error() {
    for (options, names) in [
        (json!({"policy": "x"}), "policy must be a dict"),
        (
            json!({"policy": {"side_effect_level": "moon"}}),
            "side_effect_level 'moon' is none of none, read_only",
        ),
        (json!({"policy": {"side_effect_level": 3}}), "side_effect_level '3'"),
        (json!({"policy": {"toolz": []}}), "policy has no key 'toolz'; there are tools"),
        (json!({"policy": {"tools": "x"}}), "policy.tools must be a list of strings"),
        (json!({"policy": {"tools": [1]}}), "policy.tools must be a list of strings"),
        (json!({"policy": {"capabilities": []}}), "policy.capabilities must be a dict"),
        (json!({"policy": {"capabilities": {"a": "b"}}}), "policy.capabilities.a must be a list"),
        (json!({"policy": {"workspace_roots": "src"}}), "policy.workspace_roots must be a list"),
        (json!({"policy": {"workspace_roots": [""]}}), "holds an empty path"),
        (json!({"policy": {"recursion_limit": -1}}), "policy.recursion_limit must be an int"),
        (json!({"policy": {"tool_annotations": {"t": 1}}}), "policy.tool_annotations.t must be a dict"),
        (json!({"policy": {"tool_arg_constraints": {}}}), "tool_arg_constraints must be a list"),
        (json!({"policy": {"tool_arg_constraints": [{"arg_patterns": []}]}}), "tool_arg_constraints must be"),
        (json!({"approval_policy": []}), "approval_policy must be a dict"),
        (json!({"approval_policy": {"auto_allow": []}}), "approval_policy has no key 'auto_allow'"),
        (json!({"approval_policy": {"auto_deny": "x"}}), "approval_policy.auto_deny must be a list"),
        (json!({"permissions": "x"}), "permissions must be a dict"),
        (json!({"permissions": {"denny": []}}), "permissions has no key 'denny'"),
        (json!({"permissions": {"deny": 3}}), "permissions must be"),
    ] {
        let error = Policy::from_options(options.as_object().unwrap()).expect_err(names);
        assert!(error.contains(names), "{error}");
    }
    let nothing = json!({"policy": null, "approval_policy": {}, "permissions": null});
    assert_eq!(Policy::from_options(nothing.as_object().unwrap()).unwrap(), Policy::default());
}

#[test]
fn an_inner_policy_never_widens_an_outer_one() {
    let read = |policy: Json| Policy::from_options(json!({"policy": policy}).as_object().unwrap()).unwrap();
    let tool = LoopTool::from_entry(&json!({"name": "w", "handler": null}), true, &Map::new()).unwrap();
    let mut inner = read(json!({"tools": ["w"]}));
    assert_eq!(denial(&inner, &tool, &json!({})), None);
    inner.put_under(read(json!({"tools": ["r"]})));
    assert!(denial(&inner, &tool, &json!({})).unwrap().starts_with("tool 'w' exceeds tool ceiling"));
}

#[test]
fn approval_lists_are_asked_in_order() {
    let tool = json!({"name": "edit", "handler": null, "annotations": {"kind": "edit", "arg_schema": {"path_params": ["p"]}}});
    let deny = |approval: Json| {
        reason(json!({"approval_policy": approval}), tool.clone(), json!({"p": "src/a"})).unwrap_or_default()
    };
    assert_eq!(deny(json!({"auto_deny": ["ed*"]})), "tool 'edit' matches deny pattern 'ed*'");
    assert_eq!(
        deny(json!({"write_path_allowlist": ["docs/*"]})),
        "tool 'edit' targets 'src/a' which is not in the write-path allowlist"
    );
    assert_eq!(deny(json!({"require_approval": ["*"]})), "approval required but no host bridge is available");
    assert_eq!(deny(json!({"require_approval": ["*"], "auto_approve": ["edit"]})), "");
}

#[test]
fn rules_deny_before_they_allow() {
    let tool = json!({"name": "run", "handler": null});
    let deny =
        |p: Json| reason(json!({"permissions": p}), tool.clone(), json!({"cmd": "rm x"})).unwrap_or_default();
    assert_eq!(deny(json!({"deny": ["r*"], "allow": ["*"]})), "permission denied by deny rule: r*");
    assert_eq!(deny(json!({"deny": {"run": "rm *"}})), "permission denied by deny rule: run");
    assert_eq!(
        deny(json!({"allow": {"run": {"arg_key": "cmd", "patterns": ["ls*"]}}})),
        "permission denied: tool 'run' is not allowed by this agent's permissions"
    );
    assert_eq!(deny(json!({"allow": ["run"]})), "");
    let bad = json!({"permissions": {"allow": [1]}});
    assert!(
        Policy::from_options(bad.as_object().unwrap()).unwrap_err().contains("list entries must be strings")
    );
}

/// A tool whose argument `path` is a path; its other arguments are not.
fn writer() -> Json {
    json!({"name": "write", "handler": null, "parameters": {"path": "string", "note": "string"},
           "annotations": {"kind": "edit", "arg_schema": {"path_params": ["path"]}}})
}

#[test]
fn every_list_of_paths_reads_them_alike() {
    let lists = [
        json!({"approval_policy": {"write_path_allowlist": ["safe/*"]}}),
        json!({"policy": {"tool_arg_constraints": [{"tool": "write", "arg_patterns": ["safe/*"]}]}}),
        json!({"permissions": {"allow": {"write": {"arg_key": "path", "patterns": ["safe/*"]}}}}),
        json!({"permissions": {"allow": {"write": "safe/*"}}}),
    ];
    let (out, within) = (
        json!(["safe//../../pwn", "safe/../../etc", "/etc/passwd", ["safe/a", "/etc/b"], {"a": "safe/b"}, [["safe/a"]]]),
        json!(["safe/a", "./safe//a", ["safe/a", "safe/b"]]),
    );
    for options in lists {
        let deny = |path: &Json| reason(options.clone(), writer(), json!({"note": "safe/x", "path": path}));
        for path in out.as_array().unwrap() {
            assert!(deny(path).is_some(), "{options} lets {path} through");
        }
        for path in within.as_array().unwrap() {
            assert_eq!(deny(path), None, "{options} {path}");
        }
    }
    for deny in [json!({"write": {"arg_key": "path", "patterns": ["etc/*"]}}), json!({"write": "etc/*"})] {
        let options = json!({"permissions": {"deny": deny}});
        for path in [json!("x/../etc/a"), json!("./etc//a"), json!(["a", "etc/b"])] {
            assert!(reason(options.clone(), writer(), json!({"path": path})).is_some(), "{options} {path}");
        }
        assert_eq!(reason(options, writer(), json!({"path": "src/etc/a"})), None);
    }
}

#[test]
fn a_constraint_binds_whatever_the_model_gives() {
    let plain = json!({"name": "read", "handler": null, "parameters": {"path": "string", "note": "string"}});
    let bound = json!({"policy": {"tool_arg_constraints": [{"tool": "read", "arg_patterns": ["safe*"]}]}});
    let deny = |arguments: Json| reason(bound.clone(), plain.clone(), arguments).is_some();
    assert!(deny(json!({"path": ["/etc/passwd"]})) && deny(json!({"path": {"a": "safe"}})));
    // The order of the model's arguments has no effect.
    assert!(deny(json!({"note": "safe", "path": "/etc"})) && !deny(json!({"path": "safe/a"})));
    assert!(!deny(json!({"n": 1})) && !deny(json!({})));
    let keyed = |arguments: Json| {
        let one = json!([{"tool": "read", "arg_key": "n", "arg_patterns": ["80"]}]);
        reason(json!({"policy": {"tool_arg_constraints": one}}), plain.clone(), arguments).is_some()
    };
    assert!(
        !keyed(json!({"n": 80})) && keyed(json!({"n": null})) && keyed(json!({})) && keyed(json!({"n": []}))
    );
}

#[test]
fn a_rule_about_an_argument_that_is_not_there_is_an_error() {
    let check = |permissions: Json| {
        let options = json!({"permissions": permissions});
        let policy = Policy::from_options(options.as_object().unwrap())?;
        policy.check_arguments(&[LoopTool::from_entry(&writer(), true, &Map::new()).unwrap()])
    };
    let on = |key: &str| json!({"write": {"arg_key": key, "patterns": ["*"]}});
    assert_eq!(
        check(json!({"deny": on("pth")})).unwrap_err(),
        "agent_loop: permissions.deny: 'write' has no argument 'pth', did you mean 'path'?"
    );
    assert_eq!(
        check(json!({"allow": on("colour")})).unwrap_err(),
        "agent_loop: permissions.allow: 'write' has no argument 'colour'"
    );
    assert!(check(json!({"deny": on("path")})).is_ok());
    assert!(check(json!({"deny": {"other": {"arg_key": "pth", "patterns": ["*"]}}})).is_ok());
    assert_eq!(
        check(json!({"deny": {"write": {"arg_key": "path", "patterns": ["*"], "pattern": "x"}}}))
            .unwrap_err(),
        "agent_loop: a condition has no key 'pattern'; there are arg_key, patterns"
    );
}

#[test]
fn questions_are_asked_one_after_another_and_layer_by_layer() {
    let closure = harn_value::Data::opaque("closure", "fn");
    let read = |permissions: Json, approval: Json| {
        let options = json!({"permissions": permissions, "approval_policy": approval});
        Policy::from_options(options.as_object().unwrap()).unwrap()
    };
    let tool = LoopTool::from_entry(&json!({"name": "w", "handler": null}), true, &Map::new()).unwrap();
    let mut inner = read(json!({"deny": {"w": closure}}), json!({"require_approval": ["w"]}));
    inner.put_under(read(json!({"allow": ["other"], "on_escalation": closure}), Json::Null));
    let arguments = json!({"a": 1});
    let ask = |answers: &[Reply]| decide(&inner, &tool, &arguments, answers);
    let Verdict::Ask(Question::Escalate { layer: 1, request }) = ask(&[]).verdict else { panic!() };
    assert_eq!(request["reason"], "permission denied: tool 'w' is not allowed by this agent's permissions");
    let yes = Reply::Escalated(Escalated::read(&json!("once")).unwrap());
    let Verdict::Ask(Question::Matches { layer: 0, list: RuleList::Deny, rule, .. }) =
        ask(std::slice::from_ref(&yes)).verdict
    else {
        panic!()
    };
    assert_eq!(rule, "w");
    let kinds =
        |decision: &Decision| decision.events.iter().map(|e| (e.kind, e.escalated)).collect::<Vec<_>>();
    let denied = ask(&[yes.clone(), Reply::Matches(true)]);
    assert!(matches!(&denied.verdict, Verdict::Denied(d) if d.reason == "permission denied by deny rule: w"));
    assert_eq!(
        kinds(&denied),
        [("PermissionEscalation", true), ("PermissionGrant", true), ("PermissionDeny", true)]
    );
    let pass = [yes.clone(), Reply::Matches(false)];
    assert!(matches!(ask(&pass).verdict, Verdict::Ask(Question::Approve { .. })));
    let host = Reply::Host(json!({"granted": true, "args": {"a": 2}}));
    let replaced = ask(&[yes.clone(), Reply::Matches(false), host.clone()]);
    let changed = json!({"a": 2});
    assert_eq!(replaced.verdict, Verdict::Replaced { layer: 0, arguments: changed.clone() });
    // With the new arguments, every layer is asked again, except for the approval that returned them.
    let again = |answers: &[Reply]| {
        inner.decide(&Case {
            tool: &tool,
            arguments: &changed,
            answers,
            confirmed: Some(0),
            paths: &Tree(Vec::new()),
        })
    };
    assert!(
        matches!(again(&[]).verdict, Verdict::Ask(Question::Escalate { layer: 1, request }) if request["args"] == changed)
    );
    assert!(matches!(
        again(std::slice::from_ref(&yes)).verdict,
        Verdict::Ask(Question::Matches { layer: 0, arguments, .. }) if arguments == changed
    ));
    let granted = again(&[yes, Reply::Matches(false)]);
    assert_eq!(granted.verdict, Verdict::Granted { approval: Some("host_granted") });
    assert!(matches!(ask(&[Reply::NoHost]).verdict, Verdict::Unexpected));
}

#[test]
fn verdicts_of_the_program() {
    let read = |value: Json| Escalated::read(&value);
    assert!(read(json!(true)).unwrap().granted && !read(json!(false)).unwrap().granted);
    assert!(!read(Json::Null).unwrap().granted && read(json!("session")).unwrap().for_session);
    let full = read(json!({"grant": "session", "reason": "ok", "approver": "Ada"})).unwrap();
    assert_eq!((full.for_session, full.reason.as_deref()), (true, Some("ok")));
    assert!(!read(json!({"granted": false})).unwrap().granted);
    for (value, text) in [
        (json!("forever"), "permissions on_escalation returned unsupported grant scope 'forever'"),
        (
            json!(1),
            "permissions on_escalation must return false, true, 'once', 'session', or {grant}, got int",
        ),
        (
            json!({"yes": 1}),
            "permissions on_escalation must return false, true, 'once', 'session', or {grant}, got dict",
        ),
    ] {
        assert_eq!(read(value).unwrap_err(), text);
    }
}

#[test]
fn a_snapshot_holds_the_rules_of_an_approval_policy() {
    let closure = Json::opaque("closure", "fn");
    let options = json!({"approval_policy": {
        "auto_approve": ["r*"], "require_approval": {"w": closure, "x": {"arg_key": "p", "patterns": ["a*"]}},
    }});
    let approval = Approval::read(options.as_object().unwrap()).unwrap();
    let saved = serde_json::to_string(&approval).unwrap();
    assert_eq!(serde_json::from_str::<Approval>(&saved).unwrap(), approval);
    // Old snapshots contain only names.
    let older = r#"{"auto_approve": ["r*"], "auto_deny": [], "require": ["w"], "write_paths": null}"#;
    let names = json!({"approval_policy": {"auto_approve": ["r*"], "require_approval": ["w"]}});
    let expected = Approval::read(names.as_object().unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Approval>(older).unwrap(), expected);
}
