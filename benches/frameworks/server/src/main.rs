//! The model server of `make bench-frameworks`: one loopback server that serves Chat Completions to every contender.
//!
//! The runner announces each measurement with `POST /NAME/plan`, starts a contender with the base URL `/NAME/v1`, and
//! reads `GET /NAME/result`. The server answers each agent with a call of the tool `look` for the planned number of
//! turns, then with a final answer. It checks that every request repeats the complete history of its agent, and that no
//! turn is missing or repeated. A request that fails the check is answered with status 400 and listed in the result.
//!
//! Each connection has its own thread. The server ends when its standard input does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

const SYSTEM: &str = "You look at places.";

/// One measurement of one contender.
#[derive(Default)]
struct Run {
    turns: usize,
    delay: Duration,
    /// Number of answered requests of each agent.
    answered: Vec<usize>,
    requests: usize,
    bytes: usize,
    connections: usize,
    open: usize,
    most_open: usize,
    errors: Vec<String>,
}

type Runs = Arc<Mutex<HashMap<String, Run>>>;

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let runs = Runs::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let runs = runs.clone();
            std::thread::spawn(move || serve(stream, &runs));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// Answers the requests of one connection until the client closes it.
fn serve(stream: TcpStream, runs: &Runs) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let mut first = true;
    loop {
        let (target, body) = read_request(&mut reader)?;
        let (name, path) = target.trim_start_matches('/').split_once('/')?;
        let (status, answer) = match path {
            "plan" => plan(runs, name, &body),
            "result" => result(runs, name),
            "v1/chat/completions" => complete(runs, name, &body, first),
            _ => (404, json!({"error": {"message": format!("no such path: /{path}")}})),
        };
        first = false;
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        reader.get_mut().write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// Reads the target and the body of a request. `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((target, body))
}

fn plan(runs: &Runs, name: &str, body: &[u8]) -> (u16, Value) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let number = |key: &str| body[key].as_u64().unwrap_or(0);
    let run = Run {
        turns: number("turns") as usize,
        delay: Duration::from_millis(number("delay_ms")),
        answered: vec![0; number("agents") as usize],
        ..Run::default()
    };
    runs.lock().unwrap().insert(name.to_owned(), run);
    (200, json!({}))
}

fn result(runs: &Runs, name: &str) -> (u16, Value) {
    let runs = runs.lock().unwrap();
    let Some(run) = runs.get(name) else { return (404, json!({})) };
    let finished = run.answered.iter().filter(|answered| **answered == run.turns + 1).count();
    let result = json!({
        "requests": run.requests, "bytes": run.bytes, "connections": run.connections,
        "most_open": run.most_open, "finished": finished, "errors": run.errors,
    });
    (200, result)
}

/// Answers a completion request: a tool call, the final answer, or an error if the history is incomplete.
fn complete(runs: &Runs, name: &str, body: &[u8], first: bool) -> (u16, Value) {
    let delay = {
        let mut runs = runs.lock().unwrap();
        let Some(run) = runs.get_mut(name) else { return (404, json!({"error": {"message": "no plan"}})) };
        run.requests += 1;
        run.bytes += body.len();
        run.connections += usize::from(first);
        run.open += 1;
        run.most_open = run.most_open.max(run.open);
        run.delay
    };
    // Histories are parsed without holding the lock.
    let checked =
        serde_json::from_slice(body).map_err(|error| error.to_string()).and_then(|body| history(&body));
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
    let mut runs = runs.lock().unwrap();
    let run = runs.get_mut(name).expect("runs are never removed");
    run.open -= 1;
    let answer = checked.and_then(|(agent, done)| {
        let answered = run.answered.get_mut(agent).ok_or_else(|| format!("agent {agent} is not planned"))?;
        if *answered != done || done > run.turns {
            return Err(format!("agent {agent}: {done} turns in the history, expected {answered}"));
        }
        *answered += 1;
        Ok(completion(agent, done, run.turns))
    });
    match answer {
        Ok(answer) => (200, answer),
        Err(error) => {
            run.errors.push(error.clone());
            (400, json!({"error": {"message": error, "type": "invalid_request_error"}}))
        }
    }
}

/// Checks a request and returns its agent and the number of turns in its history.
fn history(body: &Value) -> Result<(usize, usize), String> {
    if body["stream"].as_bool() == Some(true) {
        return Err("the request asks for a stream".into());
    }
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<_> = tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap_or("?")).collect();
    if names != ["look"] || !tools[0]["function"]["parameters"]["properties"]["at"].is_object() {
        return Err(format!("expected the tool look(at), got {names:?}"));
    }
    let messages = body["messages"].as_array().ok_or("the request has no messages")?;
    let [system, user, turns @ ..] = messages.as_slice() else {
        return Err("the history has no prompt".into());
    };
    if !matches!(system["role"].as_str(), Some("system" | "developer")) || !text(system).contains(SYSTEM) {
        return Err(format!("the first message is not the system prompt: {system}"));
    }
    let prompt = text(user);
    let agent = prompt.strip_prefix("Agent ").and_then(|rest| rest.strip_suffix(": look at every place."));
    let agent = agent.filter(|_| user["role"] == "user").and_then(|number| number.parse().ok());
    let agent = agent.ok_or_else(|| format!("the second message is not the prompt: {user}"))?;
    if turns.len() % 2 != 0 {
        return Err(format!("agent {agent}: {} messages after the prompt", turns.len()));
    }
    for (index, turn) in turns.chunks(2).enumerate() {
        let (assistant, tool) = (&turn[0], &turn[1]);
        let calls = assistant["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let [call] = calls else {
            return Err(format!("agent {agent}, turn {index}: not one tool call: {assistant}"));
        };
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let id = call_id(agent, index);
        if assistant["role"] != "assistant"
            || call["id"] != id
            || call["function"]["name"] != "look"
            || arguments != json!({"at": index})
        {
            return Err(format!("agent {agent}, turn {index}: the call was changed: {assistant}"));
        }
        if tool["role"] != "tool"
            || tool["tool_call_id"] != id
            || text(tool) != format!("place {index} is quiet")
        {
            return Err(format!("agent {agent}, turn {index}: not the result of the tool: {tool}"));
        }
    }
    Ok((agent, turns.len() / 2))
}

/// Returns the text of a message, whose content is a string or a list of text parts.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn call_id(agent: usize, turn: usize) -> String {
    format!("call_{agent}_{turn}")
}

fn completion(agent: usize, done: usize, turns: usize) -> Value {
    let (message, reason) = if done < turns {
        let function = json!({"name": "look", "arguments": format!("{{\"at\": {done}}}")});
        let call = json!({"id": call_id(agent, done), "type": "function", "function": function});
        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
    } else {
        let answer = format!("Agent {agent} saw {turns} places.");
        (json!({"role": "assistant", "content": answer}), "stop")
    };
    let prompt_tokens = 100 + 40 * done;
    json!({
        "id": format!("chatcmpl-{agent}-{done}"),
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": null}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 20, "total_tokens": prompt_tokens + 20},
    })
}
