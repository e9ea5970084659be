//! Random trees of loops, sub-agents, workers, workflow stages and daemons with random policies: nothing happens that a
//! policy of an ancestor forbids.
//!
//! The effects are observed in the file system and by a server, which are independent of policies.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{command, finish};

/// A random number generator; the same seed produces the same tree.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Starts a server that records the nodes that sent requests.
fn recorder() -> (u16, Arc<Mutex<BTreeSet<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let noted = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            noted
                .lock()
                .unwrap()
                .extend(line.split(['/', ' ']).filter_map(|word| word.parse::<usize>().ok()));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, asked)
}

const KINDS: [&str; 7] = ["loop", "sub_agent", "background", "worker", "stage", "delegated", "daemon"];

const LEVELS: [&str; 4] = ["read_only", "workspace_write", "process_exec", "network"];

/// The restrictions of a node; an absent one does not restrict.
#[derive(Default)]
struct Ceiling {
    level: Option<usize>,
    tools: Option<Vec<String>>,
    root: Option<&'static str>,
    /// The denied tools, and the option that denies them.
    denied: Option<(&'static str, Vec<String>)>,
}

struct Node {
    kind: &'static str,
    ceiling: Ceiling,
    children: Vec<usize>,
    parent: Option<usize>,
}

/// Returns the tools of a node: four with effects, and one per child.
fn names(node: &Node) -> Vec<String> {
    let own = ["write_a", "write_b", "start", "fetch"].map(str::to_owned);
    own.into_iter().chain(node.children.iter().map(|child| format!("child_{child}"))).collect()
}

fn grow(dice: &mut Dice) -> Vec<Node> {
    let mut tree = Vec::new();
    let mut waiting = vec![(None, 0)];
    while let Some((parent, depth)) = waiting.pop() {
        let id = tree.len();
        let kind = KINDS[dice.roll(KINDS.len() as u64) as usize];
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
        if dice.roll(4) == 0 {
            let some: Vec<String> = all.iter().filter(|_| dice.roll(4) == 0).cloned().collect();
            let option = ["permissions", "approval_policy"][dice.roll(2) as usize];
            node.ceiling.denied = Some((option, some)).filter(|(_, tools)| !tools.is_empty());
        }
    }
    tree
}

/// Whether a node may use one of its tools, which needs a level and, for files, a directory.
fn may(tree: &[Node], id: usize, tool: &str, level: usize, folder: Option<&str>) -> bool {
    let mut at = Some(id);
    while let Some(here) = at {
        let Node { ceiling, parent, .. } = &tree[here];
        let level_is_kept = ceiling.level.is_none_or(|limit| limit >= level);
        let tool_is_kept = ceiling.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool));
        let folder_is_kept = folder.is_none_or(|folder| ceiling.root.is_none_or(|root| root == folder));
        let denied = ceiling.denied.as_ref().is_some_and(|(_, tools)| tools.iter().any(|name| name == tool));
        if !level_is_kept || !tool_is_kept || !folder_is_kept || denied {
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

/// Returns the option with the denied tools, if any, under its name in its context.
fn denials(ceiling: &Ceiling) -> String {
    match &ceiling.denied {
        Some(("permissions", tools)) => format!("permissions: {{deny: {tools:?}}}"),
        Some((option, tools)) => format!("{option}: {{auto_deny: {tools:?}}}"),
        None => String::new(),
    }
}

/// Returns the program of a tree, in which each node uses all its tools.
fn program(tree: &[Node], place: &Path, port: u16) -> String {
    let at = |folder: &str, id: usize| {
        format!("{:?}", place.join(folder).join(id.to_string()).display().to_string())
    };
    let mut text = String::new();
    // Children are declared before their parents.
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
        add("fetch", &format!("http_get(\"http://127.0.0.1:{port}/{id}\").status"));
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
        let (policy, denied) = (policy(&node.ceiling, place), denials(&node.ceiling));
        let fields =
            |all: &[&str]| all.iter().filter(|f| !f.is_empty()).copied().collect::<Vec<_>>().join(", ");
        let limits = fields(&[&format!("policy: {policy}"), &denied]);
        let options = format!("provider: \"mock\", tools: tools_{id}");
        // Permissions of a stage are an option of its model; approvals are an option of the node.
        let (of_model, of_node) =
            if denied.starts_with("permissions") { (denied.as_str(), "") } else { ("", denied.as_str()) };
        let model = fields(&["provider: \"mock\"", "max_iterations: 2", of_model]);
        let own = fields(&[&format!("capability_policy: {policy}"), of_node]);
        let stage = format!("mode: \"agent\", tools: tools_{id}, model_policy: {{{model}}}, {own}");
        let state = place.join("state").join(id.to_string()).display().to_string();
        let run = match node.kind {
            "loop" => format!("agent_loop(\"node {id};\", nil, {{{options}, {limits}}})"),
            "sub_agent" => format!("sub_agent_run(\"node {id};\", {{{options}, {limits}}})"),
            "background" => {
                format!(
                    "wait_agent(sub_agent_run(\"node {id};\", {{background: true, {options}, {limits}}}))"
                )
            }
            "worker" => format!(
                "wait_agent(spawn_agent({{task: \"node {id};\", {limits}, node: {{mode: \"agent\", tools: tools_{id}, model_policy: {{provider: \"mock\", max_iterations: 2}}}}}}))"
            ),
            "daemon" => format!(
                "daemon_stop(daemon_spawn({{task: \"node {id};\", persist_path: {state:?}, {options}, {limits}}}))"
            ),
            kind => {
                let kind = if kind == "delegated" { "subagent" } else { "stage" };
                format!(
                    "workflow_execute(\"node {id};\", workflow_graph({{nodes: {{a: {{kind: \"{kind}\", {stage}}}}}}}), [], {{persist_path: {:?}}})",
                    format!("{state}.json")
                )
            }
        };
        let _ =
            writeln!(text, "fn node_{id}() {{\n  try {{ {run} }} catch (e) {{ }}\n  return \"tried\"\n}}");
    }
    text + "node_0()\n"
}

#[test]
fn no_effect_that_a_policy_on_its_path_forbids() {
    let (mut held_back, mut done) = (0, std::collections::BTreeMap::<&str, usize>::new());
    let mut did = std::collections::BTreeMap::<&str, usize>::new();
    let (port, asked) = recorder();
    for seed in 1..=40 {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for folder in ["a", "b", "c", "state"] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let tree = grow(&mut Dice(seed * 0x9E37_79B9_7F4A));
        let program = program(&tree, &place, port);
        let file = place.join("tree.harn");
        std::fs::write(&file, &program).unwrap();
        let mut command = command(&["run", &file.display().to_string()]);
        command.current_dir(&place).env("HARN_LLM_CALLS_DISABLED", "1");
        let ran = finish(command, b"");
        assert_eq!(ran.code, 0, "{program}\n{}", ran.err);
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        for (id, node) in tree.iter().enumerate() {
            let there = |folder: &str| place.join(folder).join(id.to_string()).exists();
            let tries = [
                (there("a"), "write_a", 1, Some("a")),
                (there("b"), "write_b", 1, Some("b")),
                (there("c"), "start", 2, None),
                (asked.contains(&id), "fetch", 3, None),
            ];
            for (happened, tool, level, root) in tries {
                let allowed = may(&tree, id, tool, level, root);
                assert!(allowed || !happened, "seed {seed}: node {id} did `{tool}`\n{program}");
                *done.entry(node.kind).or_default() += usize::from(happened);
                *did.entry(tool).or_default() += usize::from(happened);
                held_back += usize::from(!allowed);
            }
        }
    }
    // A tree without effects would prove nothing: every kind of node and every tool must have had effects.
    let enough = |of: &std::collections::BTreeMap<&str, usize>| of.values().all(|count| *count >= 4);
    assert!(done.len() == KINDS.len() && enough(&done), "{done:?}");
    assert!(did.len() == 4 && enough(&did) && held_back >= 300, "{did:?}, {held_back} forbidden ones");
}
