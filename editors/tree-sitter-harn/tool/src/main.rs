//! Generates, compiles and tests the tree-sitter parser of Harn.
//!
//! ```text
//! tree-sitter-harn-tool ROOT OUT [--update] [FILE...]
//! ```
//!
//! ROOT is the checkout, OUT the directory for the compiled parser. Without files everything is tested: the corpus,
//! the highlights, and every program of the repository; `--update` writes the trees of the corpus instead of
//! comparing them. With files, their trees are printed.

#![allow(clippy::disallowed_methods, reason = "a tool for the repository has no system to go through")]

mod corpus;
mod highlight;
mod programs;
mod shape;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use tree_sitter::{Language, Node, Parser, Tree};
use tree_sitter_generate::{OptLevel, generate_parser_in_directory};

/// An error message for the user.
type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("{failures} failed");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize, Problem> {
    let mut update = false;
    let mut words = Vec::new();
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--update" => update = true,
            _ => words.push(PathBuf::from(word)),
        }
    }
    let [root, out, files @ ..] = &words[..] else {
        return Err("usage: tree-sitter-harn-tool ROOT OUT [--update] [FILE...]".into());
    };
    let grammar = root.join("editors/tree-sitter-harn");
    generate(&grammar)?;
    let library = compile(&grammar, out)?;
    let language = load(&library)?;
    let mut parser = Parser::new();
    parser.set_language(&language)?;
    if !files.is_empty() {
        for file in files {
            println!("{}", shown(&tree(&mut parser, &std::fs::read_to_string(file)?)));
        }
        return Ok(0);
    }
    let mut failures = corpus::run(&grammar, &mut parser, update)?;
    failures += highlight::run(&grammar, &language)?;
    failures += programs::run(root, &mut parser)?;
    Ok(failures)
}

/// Writes `src/parser.c` from `grammar.js`.
fn generate(grammar: &Path) -> Result<(), Problem> {
    const ABI: usize = 15;
    let mut notes = Vec::new();
    let (none, file): (Option<&Path>, _) = (None, grammar.join("grammar.js"));
    generate_parser_in_directory(
        grammar,
        none,
        Some(file),
        ABI,
        None,
        None,
        true,
        OptLevel::default(),
        &mut notes,
    )?;
    if notes.is_empty() {
        return Ok(());
    }
    Err(notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").into())
}

/// Compiles the parser to a library, with the compiler set by `CC`.
fn compile(grammar: &Path, out: &Path) -> Result<PathBuf, Problem> {
    std::fs::create_dir_all(out)?;
    let source = grammar.join("src");
    let library = out.join(format!("{}harn{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args([
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-shared",
        "-fPIC",
        "-I",
    ]);
    command.arg(&source).arg(source.join("parser.c")).arg(source.join("scanner.c")).arg("-o").arg(&library);
    if !command.status().map_err(|error| format!("cannot start {}: {error}", compiler.display()))?.success() {
        return Err("the parser does not compile".into());
    }
    Ok(library)
}

fn load(library: &Path) -> Result<Language, Problem> {
    // SAFETY: the library was compiled from the generated parser, whose only exported function returns its tables.
    // It is never unloaded.
    unsafe {
        let library = libloading::Library::new(library)?;
        let function = *library.get::<unsafe extern "C" fn() -> *const ()>(b"tree_sitter_harn\0")?;
        std::mem::forget(library);
        Ok(tree_sitter::Language::from_raw(function().cast()))
    }
}

fn tree(parser: &mut Parser, text: &str) -> Tree {
    parser.reset();
    parser.parse(text, None).expect("a parser with a language and without a limit gives a tree")
}

/// Returns the first error node of a tree.
fn error(tree: &Tree) -> Option<Node<'_>> {
    let mut node = tree.root_node();
    if !node.has_error() {
        return None;
    }
    loop {
        let mut walk = node.walk();
        match node.children(&mut walk).find(|child| child.has_error() || child.is_missing()) {
            Some(child) if !node.is_error() => node = child,
            _ => return Some(node),
        }
    }
}

/// Formats a tree as in the corpus.
fn shown(tree: &Tree) -> String {
    let mut out = String::new();
    write(tree.root_node(), None, 0, &mut out);
    out
}

fn write(node: Node<'_>, field: Option<&str>, depth: usize, out: &mut String) {
    if depth > 0 {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
    if let Some(field) = field {
        out.push_str(field);
        out.push_str(": ");
    }
    out.push('(');
    if node.is_missing() {
        out.push_str("MISSING ");
    }
    out.push_str(node.kind());
    let mut walk = node.walk();
    if walk.goto_first_child() {
        loop {
            if walk.node().is_named() || walk.node().is_missing() {
                write(walk.node(), walk.field_name(), depth + 1, out);
            }
            if !walk.goto_next_sibling() {
                break;
            }
        }
    }
    out.push(')');
}
