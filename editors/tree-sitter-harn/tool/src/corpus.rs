//! The corpus: code fragments with their expected trees, in the format of the tree-sitter tool.

use std::path::Path;

use tree_sitter::Parser;

use crate::{Problem, shown, tree};

/// A test case: its name, code and tree.
struct Case {
    name: String,
    code: String,
    tree: String,
}

/// Compares the trees of the corpus, or updates them. Returns the number of cases that differ.
pub(crate) fn run(grammar: &Path, parser: &mut Parser, update: bool) -> Result<usize, Problem> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(grammar.join("test/corpus"))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let (mut count, mut failures) = (0, 0);
    for path in paths {
        let mut cases =
            read(&std::fs::read_to_string(&path)?).ok_or_else(|| format!("{}: no corpus", path.display()))?;
        for case in &mut cases {
            count += 1;
            let tree = tree(parser, &case.code);
            let found = shown(&tree);
            if update {
                if tree.root_node().has_error() {
                    return Err(
                        format!("{}: {}: an error in the tree\n{found}", path.display(), case.name).into()
                    );
                }
                case.tree = found;
            } else if found != case.tree {
                failures += 1;
                println!(
                    "{}: {}: the tree is\n{found}\nand should be\n{}",
                    path.display(),
                    case.name,
                    case.tree
                );
            }
        }
        if update {
            std::fs::write(&path, cases.iter().map(text).collect::<Vec<_>>().join("\n"))?;
        }
    }
    if count == 0 {
        return Err("the corpus is empty".into());
    }
    println!("corpus: {count} cases");
    Ok(failures)
}

fn read(text: &str) -> Option<Vec<Case>> {
    let mut cases = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if !line.starts_with("===") {
            return None;
        }
        let name = lines.next()?.to_owned();
        lines.next().filter(|line| line.starts_with("==="))?;
        let mut code = String::new();
        for line in lines.by_ref().take_while(|line| *line != "---") {
            code.push_str(line);
            code.push('\n');
        }
        let mut tree = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("===")) {
            tree.push(line);
        }
        let code = code.trim_start_matches('\n').trim_end().to_owned() + "\n";
        cases.push(Case { name, code, tree: tree.join("\n").trim().to_owned() });
    }
    Some(cases)
}

fn text(case: &Case) -> String {
    let line = "=".repeat(20);
    format!("{line}\n{}\n{line}\n\n{}\n---\n\n{}\n", case.name, case.code, case.tree)
}
