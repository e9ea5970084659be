//! What `@invariant("NAME", ...)` promises, and where it is broken.

use harn_check::{Source, World, check_invariants, is_act, written_paths};
use harn_vm::Effect;

use crate::common::{Project, parse};
use crate::corpus::machine;

/// What is wrong with a program: `MESSAGE @ LINE`.
fn broken_in(project: &Project, text: &str) -> Vec<String> {
    let (names, system, tree) = (machine(), harn_system::Real::new(), parse(text));
    let world = World {
        signatures: &names,
        files: harn_front::Through(&system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    };
    let source = Source { name: "main.harn", dir: &project.dir, text, tree: &tree };
    let line = |text: &str, at: u32| text[..at as usize].matches('\n').count() + 1;
    let shown = |violation: harn_check::Violation| {
        let last = violation.steps.last().expect("the place");
        let place = match &last.file {
            Some(file) => format!("{}:{}", file.name(), line(file.text(), last.span.start)),
            None => line(text, last.span.start).to_string(),
        };
        project.relative(&format!("{} @ {place}", violation.message))
    };
    check_invariants(&source, &world).into_iter().map(shown).collect()
}

fn broken(text: &str) -> Vec<String> {
    broken_in(&Project::new(&[]), text)
}

/// A handler with an attribute and this body.
fn handler(invariant: &str, body: &str) -> String {
    format!("@invariant({invariant})\nfn work(path, xs, left) {{\n{body}\n}}\n")
}

#[track_caller]
fn fine(invariant: &str, body: &str) {
    assert_eq!(broken(&handler(invariant, body)), Vec::<String>::new(), "{body}");
}

#[track_caller]
fn wrong(invariant: &str, body: &str, expected: &str) {
    let found = broken(&handler(invariant, body));
    assert!(found.len() == 1 && found[0].starts_with(expected), "{body}: {found:?}");
}

const WRITES: &str = "\"fs.writes\", \"out/**\", allow: [\"log.txt\"]";

#[test]
fn files_are_written_where_the_globs_allow() {
    for body in [
        "write_file(\"out/a/b.txt\", \"x\")",
        "write_file(\"./out/a.txt\", \"x\")",
        "append_file(\"log.txt\", \"x\")",
        "let name = \"out/\" + \"a\"\nwrite_file(\"${name}.txt\", \"x\")",
        "move_file(\"out/a\", \"out/b\")",
        "copy_file(\"anywhere\", \"out/b\")",
        "read_file(path)",
        "fn save(dest) { write_file(dest, \"x\") }\nsave(\"out/a\")",
        "let save = { dest -> write_file(dest, \"x\") }\nsave(\"out/a\")",
        // Nobody calls it.
        "fn other() { write_file(path, \"x\") }",
        "let other = { -> write_file(path, \"x\") }",
    ] {
        fine(WRITES, body);
    }
    for (body, message) in [
        (
            "write_file(\"a.txt\", \"x\")",
            "`write_file` writes `a.txt`, but files may be written in out/**, log.txt @ 3",
        ),
        ("write_file(\"out/../a.txt\", \"x\")", "`write_file` writes `out/../a.txt`"),
        ("write_file(\"/out/a.txt\", \"x\")", "`write_file` writes `/out/a.txt`"),
        ("append_file(\"logs/log.txt\", \"x\")", "`append_file` writes `logs/log.txt`"),
        ("move_file(\"a\", \"out/b\")", "`move_file` writes `a`"),
        ("copy_file(\"out/a\", \"b\")", "`copy_file` writes `b`"),
        ("delete_file(path)", "the path that `delete_file` writes is not known here"),
        ("var name = \"out/a\"\nmkdir(name)", "the path that `mkdir` writes is not known here"),
        ("write_file(...xs)", "the path that `write_file` writes is not known here"),
        ("xs.map(delete_file)", "the path that `delete_file` writes is not known here"),
        ("xs.each({ x -> write_file(x, \"\") })", "the path that `write_file` writes is not known here"),
        ("if xs { try { write_file(\"a\", \"\") } catch (e) { } }", "`write_file` writes `a`"),
        ("fn save(dest) { write_file(dest, \"x\") }\nsave(\"a\")", "`write_file` writes `a`"),
        (
            "let save = { dest -> write_file(dest, \"x\") }\nxs.each(save)",
            "the path that `write_file` writes",
        ),
        (
            "fn again(n) { if n > 0 { again(n - 1) }\ndelete_file(\"a\") }\nagain(3)",
            "`delete_file` writes `a`",
        ),
    ] {
        wrong(WRITES, body, message);
    }
    wrong("\"fs.writes\"", "write_file(\"a\", \"\")", "`write_file` writes `a`, but no file may be written");
    // One star stays in its folder.
    wrong("\"fs.writes\", \"out/*\"", "write_file(\"out/a/b\", \"\")", "`write_file` writes `out/a/b`");
}

#[test]
fn functions_of_other_files_methods_tools_and_base_pipelines_are_followed() {
    let lib = "import \"std/path\"\npub fn save(dest) { write_file(dest, ext(dest)) }\npub fn log() { append_file(\"log\", \"\") }\n";
    let project = Project::new(&[("lib.harn", lib)]);
    let in_lib = "`write_file` writes `b`, but files may be written in out/** @ lib.harn:2";
    for (text, expected) in [
        (
            "import { save } from \"lib\"\n@invariant(\"fs.writes\", \"out/**\")\nfn f() { save(\"out/a\"); save(\"b\") }",
            in_lib,
        ),
        ("import \"lib\"\n@invariant(\"fs.writes\", \"out/**\")\npipeline f(t) { save(\"b\") }", in_lib),
        (
            "struct S { x }\nimpl S {\n  fn keep(self, dest) { write_file(dest, \"\") }\n}\n\
             @invariant(\"fs.writes\", \"out/**\")\nfn f(s) { s.keep(\"out/a\"); s.keep(\"c\") }",
            "`write_file` writes `c`, but files may be written in out/** @ 3",
        ),
        (
            "tool note(text) { write_file(\"note\", text) }\n@invariant(\"fs.writes\", \"out/**\")\n\
             fn f(s) { agent_loop(s, nil, {tools: [note]}) }",
            "`write_file` writes `note`, but files may be written in out/** @ 1",
        ),
        (
            "@invariant(\"fs.writes\", \"out/**\")\ntool note(text) { write_file(\"note\", text) }",
            "`write_file` writes `note`, but files may be written in out/** @ 2",
        ),
        (
            "pipeline base(t) { delete_file(\"a\") }\n@invariant(\"fs.writes\")\npipeline f(t) extends base { }",
            "`delete_file` writes `a`, but no file may be written @ 1",
        ),
    ] {
        assert_eq!(broken_in(&project, text), [expected], "{text}");
    }
}

const APPROVAL: &str = "\"approval.reachability\"";

#[test]
fn somebody_approves_on_every_way_to_an_act() {
    for body in [
        "let a = request_approval(\"go\")\nshell(\"make\")\nreturn a",
        "dual_control(1, 2, { -> exec(\"make\") })",
        "fn go() { exec(\"make\") }\ndual_control(1, 2, go)",
        "fn ask() { return request_approval(\"go\") }\nask()\nexec(\"make\")",
        "let go = { -> exec(\"make\") }\nlet a = request_approval(\"go\")\ngo()",
        "if xs { request_approval(\"a\") } else { return nil }\nexec(\"make\")",
        "match xs { 1 -> { request_approval(\"a\") } _ -> { throw 2 } }\nexec(\"make\")",
        "guard xs else { return 1 }\nrequest_approval(\"a\")\nfor x in xs { http_post(x, {}) }",
        "read_file(path)\nhttp_get(path)\nhttp_request(\"GET\", path)\nllm_call(\"x\")\nhost_call(\"workspace.read_text\", {path: path})",
    ] {
        fine(APPROVAL, body);
    }
    for (body, builtin) in [
        ("exec(\"make\")", "exec"),
        ("shell(\"make\")\nrequest_approval(\"late\")", "shell"),
        ("if xs { request_approval(\"a\") }\nexec(\"make\")", "exec"),
        ("xs && request_approval(\"a\")\nexec(\"make\")", "exec"),
        ("for x in xs { request_approval(x) }\nexec(\"make\")", "exec"),
        ("try { request_approval(\"a\") } catch (e) { log(e) }\nexec(\"make\")", "exec"),
        ("fn ask() { if xs { return 1 }\nrequest_approval(\"a\") }\nask()\nexec(\"make\")", "exec"),
        ("let ask = { -> request_approval(\"a\") }\nexec(\"make\")", "exec"),
        ("dual_control(1, 2, { -> 1 })\nexec(\"make\")", "exec"),
        ("write_file(path, \"\")", "write_file"),
        ("http_request(\"POST\", path)", "http_request"),
        ("host_call(\"workspace.write_text\", {path: path})", "host_call"),
        ("xs.map(exec)", "exec"),
    ] {
        wrong(APPROVAL, body, &format!("`{builtin}` is reached without an approval"));
    }
}

const BUDGET: &str = "\"budget.remaining\", target: left";

#[test]
fn a_budget_never_grows_by_itself() {
    for body in [
        "var left = 5\nleft -= 1",
        "var left = llm_budget_remaining()\nfor x in xs { left = left - x }",
        "var left = 5\nleft = llm_budget_remaining() ?? 0",
        "var left = 5\nleft = min(left, 3)\nleft = xs ? left : left * 0.5\nleft /= 2",
        "let other = 100\nprintln(left + other)",
    ] {
        fine(BUDGET, body);
    }
    for body in [
        "var left = 5\nleft = 10",
        "var left = 5\nleft += 1",
        "var left = 5\nleft -= -1",
        "var left = 5\nleft = left + 1",
        "var left = 5\nleft = max(left, 3)",
        "var left = 5\nleft = llm_budget_remaining() ?? 10",
        "var left = 5\nfn more() { left = 9 }\nmore()",
        "var left = 5\nxs.each({ x -> left = x })",
        "fn llm_budget_remaining() { 99 }\nvar left = 5\nleft = llm_budget_remaining()",
    ] {
        wrong(BUDGET, body, "`left` may grow here");
    }
    let top = "var left = 5\nfn refill() { left = 9 }\n@invariant(\"budget.remaining\", target: \"left\")\nfn work() { refill() }\n";
    assert_eq!(broken(top), ["`left` may grow here @ 2"]);
    let none = "@invariant(\"budget.remaining\", target: rest)\nfn work() { 1 }\n";
    assert_eq!(broken(none), ["`work` has no variable `rest` @ 2"]);
}

#[test]
fn an_attribute_that_says_nothing_is_told() {
    for (attribute, message) in [
        ("\"fs.write\", \"out\"", "there is no invariant `fs.write`"),
        ("fs", "the first argument of `@invariant` is the name of an invariant, a text"),
        ("\"fs.writes\", path: \"a\"", "`fs.writes` takes no argument `path`"),
        ("\"fs.writes\", 3", "a glob of `fs.writes` must be a text"),
        ("\"fs.writes\", \"a[\"", "`a[` is no glob"),
        ("\"budget.remaining\"", "`budget.remaining` needs a `target`"),
        (
            "\"budget.remaining\", target: 3",
            "`target` of `budget.remaining` must be the name of one variable",
        ),
        ("\"budget.remaining\", left", "`budget.remaining` takes no argument without a name"),
        ("\"approval.reachability\", \"a\"", "`approval.reachability` takes no argument without a name"),
    ] {
        wrong(attribute, "1", message);
    }
}

/// Texts and calls that double at each step would take for ever.
#[test]
fn what_doubles_at_each_step_ends() {
    let mut texts = "let a0 = \"out/\"\n".to_owned();
    let mut calls = "fn f40(p) { write_file(p, \"x\") }\n".to_owned();
    for n in 0..40 {
        let next = n + 1;
        texts += &format!("let a{next} = a{n} + a{n}\n");
        calls += &format!("fn f{n}(p) {{\n  f{next}(p + \"a\")\n  f{next}(p + \"b\")\n}}\n");
    }
    let unknown = "the path that `write_file` writes is not known here, but files may be written in out/**";
    for (text, body) in [(texts, "write_file(a40, \"x\")"), (calls, "f0(\"out/\")")] {
        let found = broken(&format!("{text}@invariant(\"fs.writes\", \"out/**\")\nfn work() {{ {body} }}\n"));
        assert!(found.iter().any(|one| one.starts_with(unknown)), "{found:?}");
    }
}

/// What is new among the builtins must be looked at.
#[test]
fn calls_that_are_too_deep_to_follow_are_told() {
    /// A chain of so many functions, of which the last one writes a file that is allowed.
    fn chain(length: usize) -> String {
        let mut text = "@invariant(\"fs.writes\", \"out/**\")\nfn work() { f1() }\n".to_owned();
        for n in 1..length {
            text += &format!("fn f{n}() {{ f{}() }}\n", n + 1);
        }
        text + &format!("fn f{length}() {{ write_file(\"out/a\", \"x\") }}\n")
    }
    assert_eq!(broken(&chain(120)), [""; 0]);
    assert_eq!(
        broken(&chain(140)),
        ["calls inside of each other are followed 128 deep, and there are more here @ 130"]
    );
    // Texts that grow with each call are followed for a while, then they are unknown.
    let grows = "fn note(p) {\n  write_file(p, \"x\")\n  note(p + \"a\")\n}\n@invariant(\"fs.writes\", \"out/**\")\nfn work() { note(\"out/a\") }\n";
    assert_eq!(broken(grows).len(), 1, "{:?}", broken(grows));
}

#[test]
fn every_builtin_that_reaches_outside_is_known() {
    let mut unknown = Vec::new();
    for builtin in harn_runtime::tables().into_iter().flatten() {
        let name = builtin.name();
        let outside = matches!(builtin.effect, Effect::Fs | Effect::Net | Effect::Process);
        if outside && !is_act(name) && written_paths(name).is_none() && !ONLY_LOOKS.contains(&name) {
            unknown.push(format!("{name} ({:?})", builtin.effect));
        }
    }
    unknown.sort();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    let known: Vec<&str> =
        harn_runtime::tables().into_iter().flatten().map(|builtin| builtin.name()).collect();
    let named =
        [ONLY_LOOKS, &["request_approval", "dual_control", "llm_budget_remaining", "host_call"]].concat();
    let gone: Vec<&&str> = named.iter().filter(|name| !known.contains(*name)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// Builtins that change nothing outside of the program and the files of the runtime.
const ONLY_LOOKS: &[&str] = &[
    "assert_snapshot",
    "checkpoint",
    "checkpoint_clear",
    "checkpoint_delete",
    "checkpoint_exists",
    "checkpoint_get",
    "checkpoint_list",
    "close_agent",
    "compute_content_hash",
    "continue_as_new",
    "daemon_stop",
    "daemon_trigger",
    "eval_pack_run",
    "eval_suite_run",
    "exit",
    "file_exists",
    "file_lines",
    "glob",
    "http_get",
    "http_stream_open",
    "http_stream_read",
    "list_dir",
    "llm_healthcheck",
    "load_run_tree",
    "mcp_disconnect",
    "mcp_ensure_active",
    "mcp_get_prompt",
    "mcp_list_prompts",
    "mcp_list_resource_templates",
    "mcp_list_resources",
    "mcp_list_tools",
    "mcp_read_resource",
    "mcp_registry_status",
    "mcp_release",
    "mcp_server_card",
    "metadata_entries",
    "metadata_get",
    "metadata_resolve",
    "metadata_stale",
    "metadata_status",
    "path_workspace_info",
    "path_workspace_normalize",
    "project_context_profile",
    "project_fingerprint",
    "project_root",
    "read_file",
    "read_file_bytes",
    "read_file_result",
    "read_lines",
    "render",
    "render_prompt",
    "render_string",
    "render_with_provenance",
    "run_record_eval_suite",
    "run_record_load",
    "scan_directory",
    "sse_receive",
    "stat",
    "store_clear",
    "store_delete",
    "store_get",
    "store_list",
    "store_save",
    "store_set",
    "walk_dir",
    "websocket_close",
    "websocket_receive",
];
