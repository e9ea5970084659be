//! The measured programs. Each runs in its own process.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Answers;
use super::server::{Server, post};

/// The resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// User and system CPU time in seconds.
    pub(crate) cpu: f64,
    /// Elapsed time in seconds.
    pub(crate) wall: f64,
    /// Peak resident memory in bytes.
    pub(crate) peak: u64,
}

/// A measured program.
pub(crate) enum Program {
    /// A script for `harn run`.
    Harn(String),
    /// This executable, which posts a number of requests with a total number of bytes.
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

/// Returns the peak resident memory of a running process in bytes. (The value that the kernel reports at its end
/// includes the memory of the parent process.)
fn peak_of(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Returns the CPU seconds of all ended child processes.
fn cpu_of_children() -> f64 {
    // SAFETY: the kernel fills the struct of integers, for which all zeros are a valid value.
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

/// The options of a loop that calls the server.
const ASKING: &str =
    r#"provider: "local", model: "gpt-4o", tool_format: "native", llm_retries: 0, timeout: 600"#;

/// The result of the tool of a long loop: about 700 bytes.
const LOOK: &str = r#"
let line = "What is seen there, as one line of some length that a tool might well give. "
let sight = line.repeat(8)
fn look(tools) {
  return tool_define(tools, "look", "Looks at a place.", {
    parameters: {at: "int"}, handler: { args -> "${args.at}: ${sight}" },
  })
}
"#;

/// Returns a program with a loop of `turns` turns, each with one tool call.
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

/// Returns a program with a streamed reply of `count` words; with 0, a program that only prints.
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

/// Returns a program that posts the bytes of a loop with `count` turns and does nothing else.
pub(crate) fn posts(count: u32, bytes: u64) -> Program {
    Program::Posts(count.into(), bytes)
}

/// Returns a program with concurrent loops of `turns` turns each. `options` follows the usual ones and may begin with
/// statements and `---`.
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

/// Returns the code of tools with descriptions and parameters, about 600 bytes each in a request.
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

/// Returns the code of a loop's initial history: `turns` turns of about 4 KB each.
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

/// Returns a program with consecutive calls.
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

/// Returns a program with consecutive loops of `turns` turns each.
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

/// Runs code with its own directory, which is removed at the end.
fn in_a_folder(body: &str) -> Program {
    Program::Harn(format!(
        "let folder = \"${{temp_dir()}}/harn-bench-${{uuid()}}\"\nmkdir(folder)\ntry {{\n{body}\n}} finally {{ delete_file(folder) }}\nprintln(\"ok\")\n"
    ))
}

/// Returns a program with idle daemons.
pub(crate) fn daemons(count: u32, rest_ms: u32) -> Program {
    in_a_folder(&format!(
        r#"let all = (1 to {count}).map({{ i ->
  daemon_spawn({{task: "Watch.", provider: "mock", persist_path: "${{folder}}/${{i}}"}})
}}).to_list()
sleep({rest_ms})
for d in all {{ daemon_stop(d) }}"#
    ))
}

/// Returns a program that sends events to one daemon, each one after the turn of the previous one is stored.
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

/// Returns a program with a loop whose tool starts sub-agents.
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

/// Returns a program with a chain of stages.
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
