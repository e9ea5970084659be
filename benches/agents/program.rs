//! The programs that are measured, and how: each runs in a process of its own.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Answers;
use super::server::{Server, post};

/// What a process took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Seconds of CPU, in the program and in the kernel for it.
    pub(crate) cpu: f64,
    /// Seconds from start to end.
    pub(crate) wall: f64,
    /// Most bytes that were resident.
    pub(crate) peak: u64,
}

/// What is run.
pub(crate) enum Program {
    /// A script for `harn run`.
    Harn(String),
    /// This program, posting so many requests of so many bytes in all.
    Posts(u64, u64),
}

/// Runs a program against the server.
pub(crate) fn run(server: &Server, program: &Program) -> Cost {
    let started = Instant::now();
    let text = match program {
        Program::Harn(text) => text,
        Program::Posts(count, bytes) => {
            let before = cpu_of_this_thread();
            post(server.address, *count, *bytes);
            return Cost {
                cpu: cpu_of_this_thread() - before,
                wall: started.elapsed().as_secs_f64(),
                peak: 0,
            };
        }
    };
    let mut script = tempfile::Builder::new().suffix(".harn").tempfile().unwrap();
    script.write_all(text.as_bytes()).unwrap();
    let before = cpu_of_children();
    let child = Command::new(env!("CARGO_BIN_EXE_harn"))
        .arg("run")
        .arg(script.path())
        .env("LOCAL_LLM_BASE_URL", format!("http://{}", server.address))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let wait = std::thread::spawn(move || child.wait_with_output().unwrap());
    let mut peak = 0;
    while !wait.is_finished() {
        peak = peak.max(peak_of(id).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(3));
    }
    let output = wait.join().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim() == "ok", "{said}\n{text}");
    Cost { cpu: cpu_of_children() - before, wall: started.elapsed().as_secs_f64(), peak }
}

/// Most bytes of a running process that were resident so far. (What the kernel reports at its end counts the memory of
/// the process that started it, too.)
fn peak_of(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Seconds of CPU of all processes that were started and are over.
fn cpu_of_children() -> f64 {
    // SAFETY: the kernel fills the struct, which is plain numbers; all zeros are a valid value of it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|t| t.tv_sec as f64 + t.tv_usec as f64 / 1e6).sum()
}

fn cpu_of_this_thread() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The options of a loop that asks the server.
const ASKING: &str =
    r#"provider: "local", model: "gpt-4o", tool_format: "native", llm_retries: 0, timeout: 600"#;

/// What the tool of a long loop gives: about 700 bytes.
const LOOK: &str = r#"
let line = "What is seen there, as one line of some length that a tool might well give. "
let sight = line.repeat(8)
fn look(tools) {
  return tool_define(tools, "look", "Looks at a place.", {
    parameters: {at: "int"}, handler: { args -> "${args.at}: ${sight}" },
  })
}
"#;

/// A loop of so many turns, each with a call of a tool.
pub(crate) fn long_loop(answers: Answers, turns: u32) -> Program {
    let (script, options) = match answers {
        Answers::Http => (String::new(), ASKING),
        Answers::Mock => (
            format!(
                r#"
for n in 0 to {turns} exclusive {{
  llm_mock({{text: "I look further.", tool_calls: [{{id: "call_${{n}}", name: "look", arguments: {{at: n}}}}]}})
}}
"#
            ),
            r#"provider: "mock", tool_format: "native""#,
        ),
    };
    Program::Harn(format!(
        r#"{LOOK}{script}
let r = agent_loop("Look around.", nil, {{{options}, tools: look(tool_registry()), max_iterations: {turns}}})
println(r.iterations == {turns} ? "ok" : "${{r.iterations}}")
"#
    ))
}

/// A streamed reply of so many words; without any, a program that only prints.
pub(crate) fn pieces(count: u32) -> Program {
    let stream = format!(
        r#"
llm_mock({{text: "word ".repeat({count})}})
for piece in llm_stream("Tell a story.", nil, {{provider: "mock"}}) {{
}}
"#
    );
    Program::Harn(format!("{}println(\"ok\")\n", if count > 0 { &stream } else { "" }))
}

/// The bytes of a loop of so many turns, posted by a client that does nothing else.
pub(crate) fn posts(count: u32, bytes: u64) -> Program {
    Program::Posts(count.into(), bytes)
}

/// Loops at once, of so many turns each. `options` follows the usual ones and may begin with statements and `---`.
pub(crate) fn crowd(loops: u32, turns: u32, options: &str) -> Program {
    let (statements, options) = options.split_once("---").unwrap_or(("", options));
    let tools = if turns > 1 { ", tools: look(tool_registry())" } else { "" };
    Program::Harn(format!(
        r#"{LOOK}{statements}
let done = parallel {loops} {{ n ->
  agent_loop("Look around.", nil, {{{ASKING}{tools}, max_iterations: {turns}{options}}}).iterations
}}
println(done.all({{ n -> n == {turns} }}) ? "ok" : "${{done}}")
"#
    ))
}

/// Tools with descriptions and parameters, about 600 bytes each on the wire.
pub(crate) fn tools(count: u32) -> String {
    format!(
        r#"
var many = tool_registry()
for n in 0 to {count} exclusive {{
  many = tool_define(many, "tool_${{n}}", "Finds what the project holds about a subject and gives the places, the best ones first.", {{
    parameters: {{
      query: {{type: "string", description: "What is looked for: a word, a name or a whole question."}},
      folder: {{type: "string", description: "The folder below which is looked; the whole project by default."}},
      limit: {{type: "integer", description: "How many places are given at most, 20 by default."}},
      kind: {{type: "string", enum: ["code", "text", "any"], description: "The kind of file that is looked at."}},
    }},
    handler: {{ args -> "nothing" }},
  }})
}}
let shared = many
---, tools: shared"#
    )
}

/// So many turns that a loop begins with, of about 4 KB each.
pub(crate) fn history(turns: u32) -> String {
    format!(
        r#"
let words = line.repeat(25)
var told = []
for n in 0 to {turns} exclusive {{
  told = told + [{{role: "user", content: "Question ${{n}}: ${{words}}"}}, {{role: "assistant", content: "Answer ${{n}}: ${{words}}"}}]
}}
let before = told
---, messages: before"#
    )
}

/// Calls in a row.
pub(crate) fn row(calls: u32, options: &str) -> Program {
    Program::Harn(format!(
        r#"
for n in 0 to {calls} exclusive {{
  llm_call("Say something. ${{n}}", nil, {{{ASKING}{options}}})
}}
println("ok")
"#
    ))
}

/// Loops of so many turns one after another in one process.
pub(crate) fn one_after_another(loops: u32, turns: u32) -> Program {
    Program::Harn(format!(
        r#"{LOOK}
let tools = look(tool_registry())
for _ in 0 to {loops} exclusive {{
  let r = agent_loop("Look around.", nil, {{{ASKING}, tools: tools, max_iterations: {turns}}})
  if r.iterations != {turns} {{ println("${{r.iterations}}") }}
}}
println("ok")
"#
    ))
}

/// A folder of its own for what a program keeps, removed at its end.
fn in_a_folder(body: &str) -> Program {
    Program::Harn(format!(
        "let folder = \"${{temp_dir()}}/harn-bench-${{uuid()}}\"\nmkdir(folder)\ntry {{\n{body}\n}} finally {{ delete_file(folder) }}\nprintln(\"ok\")\n"
    ))
}

/// Daemons that rest.
pub(crate) fn daemons(count: u32, rest_ms: u32) -> Program {
    in_a_folder(&format!(
        r#"let all = (1 to {count}).map({{ i ->
  daemon_spawn({{task: "Watch.", provider: "mock", persist_path: "${{folder}}/${{i}}"}})
}}).to_list()
sleep({rest_ms})
for d in all {{ daemon_stop(d) }}"#
    ))
}

/// Events to one daemon, each as soon as the turn of the last one is kept.
pub(crate) fn events(count: u32) -> Program {
    in_a_folder(&format!(
        r#"let d = daemon_spawn({{task: "Watch.", provider: "mock", persist_path: "${{folder}}/d", max_iterations: 100000}})
for i in 1 to {count} {{
  daemon_trigger(d, "event ${{i}}")
  while daemon_snapshot(d).queued_event_count > 0 {{ sleep(1ms) }}
}}
daemon_stop(d)"#
    ))
}

/// A loop whose tool starts sub-agents.
pub(crate) fn children(count: u32) -> Program {
    Program::Harn(format!(
        r#"tool many() -> string {{
  description "Many"
  let all = parallel each (1 to {count}).to_list() with {{max_concurrent: 50}} {{ i -> sub_agent_run("Task ${{i}}", {{provider: "mock"}}).ok }}
  "${{all.filter({{ ok -> ok }}).count()}}"
}}
llm_mock({{match: "go", consume_match: true, tool_calls: [{{name: "many", arguments: {{}}}}]}})
let r = agent_loop("go", nil, {{provider: "mock", tools: many}})
println(transcript_events_by_kind(r.transcript, "tool_execution")[0].text == "{count}" ? "ok" : r)
"#
    ))
}

/// A chain of stages.
pub(crate) fn stages(count: u32) -> Program {
    in_a_folder(&format!(
        r#"var nodes = {{}}
var edges = []
for i in 1 to {count} {{
  nodes["s${{i}}"] = {{
    mode: "llm", model_policy: {{provider: "mock"}}, context_policy: {{max_artifacts: 1, prefer_recent: true}},
  }}
  if i > 1 {{ edges = edges.push({{from: "s${{i - 1}}", to: "s${{i}}"}}) }}
}}
let graph = workflow_graph({{nodes: nodes, edges: edges, entry: "s1"}})
let r = workflow_execute("Go", graph, [], {{persist_path: "${{folder}}/run.json"}})
if r.run.stages.count() != {count} {{ throw r.status }}"#
    ))
}
