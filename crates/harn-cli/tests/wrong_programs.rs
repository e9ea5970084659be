//! Every mistake is reported: the programs of wrong_programs.txt.

use std::collections::BTreeSet;

use crate::common::{folder, harn_in};

/// Minimum number of programs whose mistake `harn check` finds without running them.
const BY_CHECK: usize = 75;

struct Wrong {
    name: &'static str,
    /// The mistake is only visible at run time.
    shows_late: bool,
    file: String,
    text: &'static str,
}

fn programs() -> Vec<Wrong> {
    let parts = include_str!("wrong_programs.txt").split("\n=== ").skip(1).enumerate();
    let program = |(at, part): (usize, &'static str)| {
        let (title, text) = part.split_once('\n').expect("a title and a program");
        let late = title.strip_prefix("[run] ");
        Wrong { name: late.unwrap_or(title), shows_late: late.is_some(), file: format!("{at:03}.harn"), text }
    };
    parts.map(program).collect()
}

#[test]
fn no_program_is_silently_wrong() {
    let all = programs();
    let files: Vec<(&str, &str)> = all.iter().map(|wrong| (wrong.file.as_str(), wrong.text)).collect();
    let dir = folder(&files);
    let checked = harn_in(dir.path(), &["check", "."]);
    let found: BTreeSet<&str> = (checked.out + &checked.err)
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--> ")?.split(':').next())
        .filter_map(|place| all.iter().map(|wrong| wrong.file.as_str()).find(|file| place.ends_with(file)))
        .collect();
    let mut failures = Vec::new();
    for wrong in &all {
        let early = found.contains(wrong.file.as_str());
        if early == wrong.shows_late {
            let told = if early { "is found by check" } else { "is not found by check" };
            failures.push(format!("{} {told}", wrong.name));
        }
        if wrong.shows_late {
            let ran = harn_in(dir.path(), &["run", &wrong.file]);
            if ran.code == 0 && ran.err.is_empty() {
                failures.push(format!("{} is silently wrong: {}", wrong.name, ran.out));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(found.len() >= BY_CHECK, "{} of {} programs", found.len(), all.len());
}
