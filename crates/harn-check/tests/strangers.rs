//! Programs by people who come from other languages, one mistake a line: the answer names the fix. A line is read, checked
//! and, when nothing was found, run; what counts is the first that is told.

use std::path::Path;
use std::rc::Rc;

use harn_check::{Source, World, check_program, is_error};
use harn_syntax::Diagnostic;
use harn_vm::Vm;

use crate::wrong_calls::{Table, machine};

/// Variables that the lines use, so that each line has its one mistake only.
const NAMES: [(&str, &str); 24] = [
    ("xs", "[1, 2]"),
    ("d", "{a: 1}"),
    ("name", "\"Ada\""),
    ("n", "1"),
    ("s", "\"ab\""),
    ("text", "\"t\""),
    ("data", "\"{}\""),
    ("user", "{a: 1}"),
    ("x", "1"),
    ("y", "2"),
    ("a", "1"),
    ("b", "2"),
    ("q", "1"),
    ("r", "1"),
    ("i", "1"),
    ("w", "2"),
    ("h", "3"),
    ("t", "[1, \"a\"]"),
    ("tasks", "[]"),
    ("pid", "1"),
    ("err", "nil"),
    ("cond", "true"),
    ("ch", "channel()"),
    ("result", "1"),
];

/// The line with the variables in front that it uses and does not declare.
fn program(line: &str) -> String {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let used = words(line);
    let declares = ["let", "var", "const", "fn", "func", "function", "for"];
    let own = used.iter().zip(used.iter().skip(1)).find(|(word, _)| declares.contains(&word.as_str()));
    let own = own.map(|(_, name)| name.clone());
    let needed =
        NAMES.iter().filter(|(name, _)| used.iter().any(|word| word == name) && own.as_deref() != Some(name));
    let mut text: String = needed.map(|(name, value)| format!("var {name} = {value}\n")).collect();
    text.push_str(line);
    text.push('\n');
    text
}

fn words(diagnostic: &Diagnostic) -> String {
    format!("{} = {}", diagnostic.message, diagnostic.help.as_deref().unwrap_or_default())
}

/// What somebody is told about a line, if anything.
fn told(vm: &Rc<Vm>, line: &str) -> Option<String> {
    let text = program(line);
    let parsed = harn_syntax::parse(&text);
    if let Some(error) = parsed.errors.first() {
        return Some(words(&error.diagnostic(&text)));
    }
    let table = Table(vm.clone());
    let system = harn_system::Memory::new();
    let files = harn_front::Through(&system);
    let world = World { signatures: &table, files, std_module: |_| None, prompt_asset: |_| None };
    let source = Source { name: "line.harn", dir: Path::new(""), text: &text, tree: &parsed.program };
    let found = check_program(&source, &world);
    let found = found.iter().find(|d| d.severity == harn_syntax::Severity::Error || is_error(d.code));
    if let Some(diagnostic) = found {
        return Some(words(diagnostic));
    }
    let source = harn_vm::Source { name: "line.harn".into(), text, dir: "/".into() };
    let program = match harn_vm::load(vm, &source) {
        Ok(program) => program,
        Err(error) => return Some(error.canonical(&source.text)),
    };
    let outcome = harn_vm::block_on(program.run(vm, None, &[])).ok()?;
    outcome.result.err().map(|error| words(&harn_vm::uncaught(vm, &error).0))
}

#[test]
fn nine_of_ten_answers_name_the_mend() {
    let programs = [
        ("Python", include_str!("strangers/python.txt")),
        ("JavaScript", include_str!("strangers/javascript.txt")),
        ("Go", include_str!("strangers/go.txt")),
        ("Rust", include_str!("strangers/rust.txt")),
        ("shell", include_str!("strangers/shell.txt")),
    ];
    let mut short = Vec::new();
    for (language, program) in programs {
        let lines: Vec<(&str, &str)> = program.lines().filter_map(|line| line.rsplit_once(" ### ")).collect();
        let mut missed = Vec::new();
        for (line, fix) in &lines {
            // Each line on a machine of its own: none sees what another left.
            let said = told(&machine(), line).unwrap_or_default();
            if !said.contains(fix) {
                missed.push(format!("{line}\n    wants {fix}\n    {said}"));
            }
        }
        let share = 100 * (lines.len() - missed.len()) / lines.len();
        println!("{language}: {share} % of {}", lines.len());
        assert!(lines.len() >= 60, "{language}: only {} lines", lines.len());
        if share < 90 {
            short.push(format!("{language}: {share} %\n{}", missed.join("\n")));
        }
    }
    assert!(short.is_empty(), "{}", short.join("\n"));
}
