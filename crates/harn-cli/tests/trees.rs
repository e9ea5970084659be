//! Random trees of loops, sub-agents and workers with random policies: nothing happens that a policy on the way forbids.
//!
//! What happened is read from the file system, which knows nothing of policies.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use crate::common::{command, finish};

/// A small generator of numbers; the same seed gives the same tree.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

const LEVELS: [&str; 4] = ["read_only", "workspace_write", "process_exec", "network"];

/// What a node of the tree is limited to; absent: not at all.
#[derive(Default)]
struct Ceiling {
    level: Option<usize>,
    tools: Option<Vec<String>>,
    root: Option<&'static str>,
}

struct Node {
    kind: &'static str,
    ceiling: Ceiling,
    children: Vec<usize>,
    parent: Option<usize>,
}

/// The tools of a node: three that do something, and one for each child.
fn names(node: &Node) -> Vec<String> {
    let own = ["write_a", "write_b", "start"].map(str::to_owned);
    own.into_iter().chain(node.children.iter().map(|child| format!("child_{child}"))).collect()
}

fn grow(dice: &mut Dice) -> Vec<Node> {
    let mut tree = Vec::new();
    let mut waiting = vec![(None, 0)];
    while let Some((parent, depth)) = waiting.pop() {
        let id = tree.len();
        let kind = ["loop", "sub_agent", "worker"][dice.roll(3) as usize];
        tree.push(Node { kind, ceiling: Ceiling::default(), children: Vec::new(), parent });
        if let Some(parent) = parent {
            let parent: &mut Node = &mut tree[parent];
            parent.children.push(id);
        }
        if depth < 3 {
            (0..1 + dice.roll(2)).for_each(|_| waiting.push((Some(id), depth + 1)));
        }
    }
    let all: BTreeSet<String> = tree.iter().flat_map(names).collect();
    for node in &mut tree {
        node.ceiling.level = (dice.roll(3) == 0).then(|| dice.roll(4) as usize);
        node.ceiling.root = [None, None, None, Some("a"), Some("b")][dice.roll(5) as usize];
        if dice.roll(3) == 0 {
            let some: Vec<String> = all.iter().filter(|_| dice.roll(5) > 0).cloned().collect();
            node.ceiling.tools = Some(some).filter(|tools| !tools.is_empty());
        }
    }
    tree
}

/// Whether a node may use a tool of its own, which needs a level and, for files, a folder.
fn may(tree: &[Node], id: usize, tool: &str, level: usize, folder: Option<&str>) -> bool {
    let mut at = Some(id);
    while let Some(here) = at {
        let Node { ceiling, parent, .. } = &tree[here];
        let level_is_kept = ceiling.level.is_none_or(|limit| limit >= level);
        let tool_is_kept = ceiling.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool));
        let folder_is_kept = folder.is_none_or(|folder| ceiling.root.is_none_or(|root| root == folder));
        if !level_is_kept || !tool_is_kept || !folder_is_kept {
            return false;
        }
        at = *parent;
    }
    true
}

fn policy(ceiling: &Ceiling, place: &Path) -> String {
    let mut fields = Vec::new();
    if let Some(level) = ceiling.level {
        fields.push(format!("side_effect_level: \"{}\"", LEVELS[level]));
    }
    if let Some(tools) = &ceiling.tools {
        fields.push(format!("tools: {tools:?}"));
    }
    if let Some(root) = ceiling.root {
        fields.push(format!("workspace_roots: [{:?}]", place.join(root).display().to_string()));
    }
    format!("{{{}}}", fields.join(", "))
}

/// The program of a tree: each node tries everything that it has a tool for.
fn program(tree: &[Node], place: &Path) -> String {
    let at = |folder: &str, id: usize| {
        format!("{:?}", place.join(folder).join(id.to_string()).display().to_string())
    };
    let mut text = String::new();
    // Children stand before their parents.
    for (id, node) in tree.iter().enumerate().rev() {
        let _ = writeln!(text, "var tools_{id} = tool_registry()");
        let mut add = |name: &str, body: &str| {
            let _ = writeln!(
                text,
                "tools_{id} = tool_define(tools_{id}, \"{name}\", \"d\", {{handler: {{ a -> {body} }}}})"
            );
        };
        add("write_a", &format!("write_file({}, \"x\")", at("a", id)));
        add("write_b", &format!("write_file({}, \"x\")", at("b", id)));
        add("start", &format!("exec(\"touch\", {})", at("c", id)));
        for child in &node.children {
            add(&format!("child_{child}"), &format!("node_{child}()"));
        }
        let calls: Vec<String> =
            names(node).iter().map(|name| format!("{{name: \"{name}\", arguments: {{}}}}")).collect();
        let _ = writeln!(
            text,
            "llm_mock({{match: \"*node {id};*\", consume_match: true, tool_calls: [{}]}})",
            calls.join(", ")
        );
        let policy = policy(&node.ceiling, place);
        let run = match node.kind {
            "loop" => format!(
                "agent_loop(\"node {id};\", nil, {{provider: \"mock\", tools: tools_{id}, policy: {policy}}})"
            ),
            "sub_agent" => format!(
                "sub_agent_run(\"node {id};\", {{provider: \"mock\", tools: tools_{id}, policy: {policy}}})"
            ),
            _ => format!(
                "wait_agent(spawn_agent({{task: \"node {id};\", policy: {policy}, node: {{kind: \"subagent\", mode: \"llm\", tools: tools_{id}, model_policy: {{provider: \"mock\"}}}}}}))"
            ),
        };
        let _ =
            writeln!(text, "fn node_{id}() {{\n  try {{ {run} }} catch (e) {{ }}\n  return \"tried\"\n}}");
    }
    text + "node_0()\n"
}

#[test]
fn no_effect_that_a_policy_on_its_path_forbids() {
    let (mut done, mut held_back) = (0, 0);
    for seed in 1..=24 {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for folder in ["a", "b", "c"] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let tree = grow(&mut Dice(seed * 0x9E37_79B9_7F4A));
        let program = program(&tree, &place);
        let file = place.join("tree.harn");
        std::fs::write(&file, &program).unwrap();
        let mut command = command(&["run", &file.display().to_string()]);
        command.current_dir(&place).env("HARN_LLM_CALLS_DISABLED", "1");
        let ran = finish(command, b"");
        assert_eq!(ran.code, 0, "{program}\n{}", ran.err);
        for id in 0..tree.len() {
            let tries =
                [("a", "write_a", 1, Some("a")), ("b", "write_b", 1, Some("b")), ("c", "start", 2, None)];
            for (folder, tool, level, root) in tries {
                let happened = place.join(folder).join(id.to_string()).exists();
                let allowed = may(&tree, id, tool, level, root);
                assert!(allowed || !happened, "seed {seed}: node {id} did `{tool}`\n{program}");
                done += usize::from(happened);
                held_back += usize::from(!allowed);
            }
        }
    }
    // A tree in which nothing runs would show nothing.
    assert!(done >= 40 && held_back >= 100, "{done} effects, {held_back} forbidden ones");
}
