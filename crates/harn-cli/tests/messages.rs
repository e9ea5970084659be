//! The exact error messages that new users see first: the rows of messages.txt.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use crate::common::{Ran, command, finish, folder};
use harn_strict_servers::{Request, answer as strict};

/// A row of the table: a program or a command line, and the lines that each command prints to standard error.
#[derive(Default)]
struct Row {
    /// The row as in the table.
    text: String,
    program: String,
    /// The arguments of each command, and its messages.
    expected: Vec<(Vec<String>, Vec<String>)>,
    /// Whether `check` and `run` report different messages, as two rules require.
    has_two_texts: bool,
}

impl Row {
    fn of(text: &str) -> Row {
        let mut row = Row { text: text.to_owned(), ..Row::default() };
        for line in text.lines() {
            if let Some(note) = line.strip_prefix("# ") {
                row.has_two_texts |= note.starts_with("two texts");
            } else if let Some(arguments) = line.strip_prefix("$ ") {
                let arguments = arguments.split(' ').map(|word| word.trim_matches('"').to_owned());
                row.expected.push((arguments.collect(), Vec::new()));
            } else if let Some(message) = line.strip_prefix("! ") {
                row.expected.last_mut().expect("a command before its messages").1.push(message.to_owned());
            } else if let Some((name @ ("check" | "run" | "both"), message)) = line.split_once("! ") {
                for command in ["check", "run"] {
                    if name == command || name == "both" {
                        row.expects(command, message);
                    }
                }
            } else {
                row.program += line;
                row.program.push('\n');
            }
        }
        row
    }

    /// Adds a message of a command about the program.
    fn expects(&mut self, command: &str, message: &str) {
        let arguments = [command.to_owned(), "row.harn".to_owned()];
        match self.expected.iter_mut().find(|(known, _)| *known == arguments) {
            Some((_, messages)) => messages.push(message.to_owned()),
            None => self.expected.push((arguments.to_vec(), vec![message.to_owned()])),
        }
    }

    /// Returns the first message of each command, without prefixes.
    fn plain(&self) -> Vec<&str> {
        let first = self.expected.iter().filter_map(|(_, messages)| messages.first());
        first
            .map(|message| PREFIXES.iter().fold(&**message, |text, prefix| text.trim_start_matches(prefix)))
            .collect()
    }
}

/// The prefixes of messages, in this order.
const PREFIXES: [&str; 7] =
    ["error: ", "warning: ", "Runtime error: ", "Type error: ", "Thrown: ", "preflight: ", "Import error: "];

fn rows() -> Vec<Row> {
    let rows = include_str!("messages.txt").split("\n\n").map(str::trim);
    rows.filter(|row| row.lines().any(|line| !line.starts_with('#'))).map(Row::of).collect()
}

/// Extracts the messages from the standard error of a command, without source excerpts and usage.
fn messages(ran: &Ran, replaced: &[(String, &str)]) -> Vec<String> {
    let mut in_usage = false;
    let mut found = Vec::new();
    for line in ran.err.lines() {
        let line = line.trim();
        in_usage = line.starts_with("Usage:") || (in_usage && !line.is_empty());
        let is_drawn = line.starts_with("-->")
            || line.trim_start_matches(|c: char| c.is_ascii_digit()).trim().starts_with('|');
        if line.is_empty() || in_usage || is_drawn || line.starts_with("For more information") {
            continue;
        }
        let line = line.trim_start_matches("= ").to_owned();
        found.push(replaced.iter().fold(line, |line, (given, shown)| line.replace(given, shown)));
    }
    found
}

/// Serves model calls; the first segment of the path selects the response.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) {
    let Ok(request) = Request::read(BufReader::new(&stream)) else { return };
    let (status, kind, body) = match request.target().split('/').nth(1).unwrap_or_default() {
        "401" => (
            "401 Unauthorized",
            "application/json",
            r#"{"error": {"message": "Incorrect API key provided"}}"#,
        ),
        "404" => (
            "404 Not Found",
            "application/json",
            r#"{"error": {"message": "The model `gpt-4o` does not exist"}}"#,
        ),
        "429" => {
            ("429 Too Many Requests", "application/json", r#"{"error": {"message": "Rate limit reached"}}"#)
        }
        "500" => ("500 Internal Server Error", "application/json", r#"{"error": {"message": "boom"}}"#),
        "html" => ("200 OK", "text/html", "<html>hi</html>"),
        "json" => ("200 OK", "application/json", r#"{"id": "#),
        // Waits until the client gives up.
        _ => return drop(stream.read(&mut [0; 16])),
    };
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(&strict("messages", &request, reply.as_bytes()));
}

/// Returns the difference between a row and the actual messages.
fn compare(row: &Row, server: &str) -> Option<String> {
    let program = row.program.replace("SERVER", server);
    let folder = folder(&[
        ("row.harn", &program),
        ("a.harn", "println(1)\n"),
        ("lib/m.harn", "pub fn known() { 1 }\n"),
        ("notes.txt", "x"),
        ("directory/notes.txt", "x"),
    ]);
    let place = std::fs::canonicalize(folder.path()).expect("a folder");
    let replaced = [(place.display().to_string(), "DIR"), (server.to_owned(), "SERVER")];
    let mut wrong = String::new();
    for (arguments, expected) in &row.expected {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = command(&arguments);
        command.current_dir(&place).env_clear().envs([("HOME", &*place), ("PATH", Path::new("/nosuch"))]);
        let got = messages(&finish(command, b""), &replaced);
        if got != *expected {
            wrong += &format!(
                "$ {}\nexpected\n  {}\ngot\n  {}\n",
                arguments.join(" "),
                expected.join("\n  "),
                got.join("\n  ")
            );
        }
    }
    let plain = row.plain();
    if !row.has_two_texts && plain.windows(2).any(|pair| pair[0] != pair[1]) {
        wrong += "check and run have two texts\n";
    }
    (!wrong.is_empty()).then(|| format!("{}\n{wrong}", row.text))
}

#[test]
fn the_first_messages_are_as_the_table_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || serve(&listener));
    let rows = rows();
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let part = rows.len().div_ceil(4);
        let work = rows.chunks(part).map(|rows| {
            scope.spawn(|| rows.iter().filter_map(|row| compare(row, &server)).collect::<Vec<_>>())
        });
        let work: Vec<_> = work.collect();
        work.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
