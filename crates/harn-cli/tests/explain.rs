//! `harn explain`.

use crate::common::harn;

#[test]
fn dicts_with_a_name_are_written_out() {
    let ran = harn(&["explain", "shell"]);
    assert!(
        ran.out.contains("\nprocess_limits: {timeout?: duration | int, max_output_bytes?: int,"),
        "{}",
        ran.out
    );
    let ran = harn(&["explain", "workflow_graph"]);
    for name in ["workflow_input", "workflow_node", "workflow_edge", "approval_policy"] {
        assert!(ran.out.contains(&format!("\n{name}: {{")), "{name}: {}", ran.out);
    }
}

#[test]
fn a_builtin_a_method_and_a_keyword() {
    let ran = harn(&["explain", "json_parse"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("json_parse("), "{}", ran.out);
    assert!(ran.out.contains("println("), "no example: {}", ran.out);
    assert!(!ran.out.contains("```"), "{}", ran.out);
    let ran = harn(&["explain", "list.map"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("list.map("), "{}", ran.out);
    let ran = harn(&["explain", "match"]);
    assert!(ran.code == 0 && ran.out.contains("keyword"), "{}", ran.out);
}

#[test]
fn a_name_that_is_several_things_shows_them_all() {
    let ran = harn(&["explain", "split"]);
    assert!(ran.out.contains("split(") && ran.out.contains("string.split("), "{}", ran.out);
}

#[test]
fn an_unknown_name_gets_a_suggestion() {
    let ran = harn(&["explain", "jsn_parse"]);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "error: unknown name `jsn_parse` (did you mean `json_parse`?); `harn explain` lists all names\n"
    );
}

#[test]
fn tools_get_the_parts_of_what_is_told() {
    let data = |args: &[&str]| {
        let ran = harn(&[&["explain"], args].concat());
        (ran.code, serde_json::from_str::<serde_json::Value>(&ran.out).unwrap())
    };
    let (code, told) = data(&["e0201", "--json"]);
    assert_eq!((code, told["ok"].as_bool(), told["data"]["code"].as_str()), (0, Some(true), Some("E0201")));
    for part in ["cause", "fix", "text"] {
        assert!(!told["data"][part].as_str().unwrap().is_empty(), "{part}");
    }
    assert_eq!(told["data"]["example"]["file"], "main.harn");
    assert_ne!(told["data"]["example"]["found_in"], told["data"]["example"]["fixed"]);
    let (code, told) = data(&["split", "--json"]);
    assert!(code == 0 && told["data"]["text"].as_str().unwrap().contains("split("), "{told}");
    let (code, told) = data(&["jsn_parse", "--json"]);
    assert_eq!((code, told["error"]["code"].as_str()), (2, Some("unknown_name")));
}

#[test]
fn the_overview_lists_every_topic() {
    let ran = harn(&["explain"]);
    assert_eq!(ran.code, 0);
    for word in ["output", "methods of list", "keywords", "println", "agent_loop"] {
        assert!(ran.out.contains(word), "{word}");
    }
}

#[test]
fn a_misspelt_subcommand_is_suggested() {
    let ran = harn(&["explain", "promt", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("did you mean `harn explain prompt a.harn`?"), "{}", ran.err);
    let ran = harn(&["explain", "split", "join"]);
    assert!(ran.code == 2 && ran.err.contains("takes one name, got `split` and `join`\n"), "{}", ran.err);
    assert!(!harn(&["explain", "--help"]).out.contains("SURPLUS"));
}

#[test]
fn modules() {
    let ran = harn(&["explain", "std/path"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.starts_with("std/path    module\n\n"), "{}", ran.out);
    assert!(
        ran.out.contains("\nfn list_files(dir)\n    Names of the files in a directory.\n"),
        "{}",
        ran.out
    );
    let ran = harn(&["explain", "std/pth"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: unknown module `std/pth` (did you mean `std/path`?)\n")
    );
}
