//! The programs in the README and the book run, and their output is as documented.
//!
//! A block with `harn` in its first line is a program; the `text` block after it is its output. `harn error FILE` marks
//! a program that fails: the block after it is its standard error. `harn part` marks an incomplete program, which is
//! not run. `harn file NAME` is a file for the commands of the page: a `console` block begins with `$ harn ...`,
//! followed by the standard output of that command.

use std::path::{Path, PathBuf};

use crate::common::{Ran, folder, harn_in, repository};

/// A fenced block: its info string, content and line.
struct Block {
    info: String,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { info: info.trim().to_owned(), text: String::new(), line: number + 1 });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn run(block: &Block) -> Ran {
    let name = block.info.strip_prefix("harn error ").unwrap_or("main.harn");
    let folder = folder(&[(name, &block.text)]);
    harn_in(folder.path(), &["run", name])
}

/// Runs the programs of a page. Returns their number.
fn check(path: &Path) -> usize {
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = blocks(&page);
    let mut count = 0;
    let files: Vec<(&str, &str)> =
        blocks.iter().filter_map(|b| Some((b.info.strip_prefix("harn file ")?, b.text.as_str()))).collect();
    let page_folder = folder(&files);
    for (i, block) in blocks.iter().enumerate() {
        if block.info == "console" {
            count += 1;
            let (line, printed) = block.text.split_once('\n').unwrap();
            let args: Vec<&str> = line.strip_prefix("$ harn ").unwrap().split(' ').collect();
            let ran = harn_in(page_folder.path(), &args);
            assert_eq!(ran.out, printed, "{}:{}\n{}", path.display(), block.line, ran.err);
            continue;
        }
        let is_error = block.info.starts_with("harn error ");
        if block.info != "harn" && !is_error {
            continue;
        }
        count += 1;
        let ran = run(block);
        let place = format!("{}:{}", path.display(), block.line);
        assert_eq!(ran.code, i32::from(is_error), "{place}\n{}", ran.shown());
        let printed = if is_error { &ran.err } else { &ran.out };
        if let Some(expected) = blocks.get(i + 1).filter(|next| next.info == "text") {
            assert_eq!(printed, &expected.text, "{place}");
        }
    }
    count
}

#[test]
fn the_readme() {
    assert!(check(&repository().join("README.md")) >= 1);
}

/// Returns the hand-written pages of the book.
fn pages() -> Vec<PathBuf> {
    let docs = repository().join("docs");
    let entries = std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages
}

#[test]
fn the_hand_written_pages() {
    let count: usize = pages().into_iter().map(|page| check(&page)).sum();
    assert!(count >= 90, "only {count} programs found");
}

/// Returns the number of sections of a page with headings of this level. Each must contain a program.
fn sections(page: &str, level: &str) -> usize {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let sections: Vec<&str> = text.split(&format!("\n{level} ")).skip(1).collect();
    for section in &sections {
        let title = section.lines().next().unwrap_or_default();
        assert!(section.contains("\n```harn"), "{page}: no program in the section `{title}`");
    }
    sections.len()
}

#[test]
fn there_are_idioms_and_recipes_enough() {
    let recipes = |names: &[&str]| -> usize {
        names.iter().map(|name| sections(&format!("recipes/{name}.md"), "##")).sum()
    };
    assert!(sections("python.md", "###") >= 40);
    assert!(recipes(&["models", "agents", "operations"]) >= 30);
    assert!(recipes(&["data", "programs"]) >= 20);
}

/// Returns the names in the first column of a page's tables of options.
fn listed(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let names =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut in_options = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("| ") {
            Some(head) if head.starts_with("Option |") => in_options = true,
            Some(row) if in_options => rows.extend(names(row.split(" | ").next().unwrap_or_default())),
            Some(_) => {}
            None if !line.starts_with('|') => in_options = false,
            None => {}
        }
    }
    rows
}

#[test]
fn every_option_has_its_row() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let names = |options: &[harn_vm::builtin::OptionField]| {
        sorted(options.iter().map(|option| option.name.to_owned()).collect())
    };
    let rows = listed("llm/options.md");
    assert_eq!(sorted(rows), names(harn_runtime::call_options()));
    let rows = listed("agents.md");
    assert_eq!(sorted(rows), names(harn_runtime::loop_options()));
}

/// Returns the pages below a directory.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { pages_below(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect()
}

/// Returns the lines of a page outside of fenced blocks.
fn unfenced(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns a page without code, which may contain text that looks like a link.
fn prose(page: &str) -> String {
    let mut out = String::new();
    for line in unfenced(page) {
        out.extend(line.split('`').step_by(2));
        out.push('\n');
    }
    out
}

/// Returns the anchors of the headings.
fn anchors(page: &str) -> Vec<String> {
    let mut fenced = false;
    let headings = page.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c => (c.is_alphanumeric() || c == '-' || c == '_').then(|| c.to_ascii_lowercase()),
        };
        heading.trim_start_matches('#').trim().chars().filter_map(kept).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the problem of a link, in the page itself or in the site that `make book` builds from `docs`.
fn broken(path: &Path, text: &str, link: &str) -> Option<&'static str> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    if target.contains("://") {
        return None;
    }
    let docs = repository().join("docs").canonicalize().unwrap();
    let Ok(found) = path.parent().unwrap().join(target).canonicalize() else { return Some("is not there") };
    if path.starts_with(&docs) && !target.is_empty() {
        if !found.starts_with(&docs) {
            return Some("leads out of the site");
        }
        if target.ends_with("README.md") {
            return Some("is another name in the site: link to the folder");
        }
    }
    let page =
        if target.is_empty() { text.to_owned() } else { std::fs::read_to_string(&found).unwrap_or_default() };
    (!anchor.is_empty() && !anchors(&page).iter().any(|known| known == anchor))
        .then_some("has no such heading")
}

#[test]
fn links_lead_somewhere() {
    let docs = repository().join("docs").canonicalize().unwrap();
    let mut links = 0;
    let pages = pages_below(&docs).into_iter().chain([repository().join("README.md")]);
    for path in pages.chain(contributor_pages()) {
        let text = std::fs::read_to_string(&path).unwrap();
        if path.ends_with("SUMMARY.md") {
            continue;
        }
        for link in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            links += 1;
            if let Some(problem) = broken(&path, &text, link) {
                panic!("{}: {link} {problem}", path.display());
            }
        }
    }
    assert!(links > 200, "only {links} links found");
}

#[test]
fn every_page_is_linked_from_the_index() {
    let index = std::fs::read_to_string(repository().join("docs/README.md")).unwrap();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            ["README.md", "SUMMARY.md"].contains(&&*name) || index.contains(&format!("({name})")),
            "{name} is not linked"
        );
    }
}

/// The table of contents of the site (`make book`) contains every page.
#[test]
fn the_summary_has_every_page() {
    let docs = repository().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for page in pages_below(&docs) {
        let path = page.strip_prefix(&docs).unwrap().to_string_lossy().replace('\\', "/");
        let listed = summary.contains(&format!("]({path})"));
        assert!(listed || path == "SUMMARY.md", "docs/SUMMARY.md lacks {path}");
    }
}

#[test]
fn the_reference_is_up_to_date() {
    let ran = harn_in(&repository(), &["explain", "--reference", "docs/reference", "--check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_pages_in_directories() {
    let directories = ["agents", "checks", "cli", "examples", "migrating", "recipes", "runs", "tutorials"];
    let pages = directories.map(|directory| pages_below(&repository().join("docs").join(directory)));
    let count: usize = pages.iter().flatten().map(|page| check(page)).sum();
    assert!(count >= 100, "only {count} programs found");
}

#[test]
fn the_pages_about_models() {
    let mut count = 0;
    let pages = [
        "README.md",
        "calls.md",
        "clouds.md",
        "costs.md",
        "options.md",
        "providers.md",
        "recording.md",
        "servers.md",
    ];
    for page in pages {
        count += check(&repository().join("docs/llm").join(page));
    }
    assert!(count >= 20, "only {count} programs found");
}

/// Returns the pages for contributors.
fn contributor_pages() -> Vec<PathBuf> {
    let root = repository();
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let mut pages: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path().join("README.md")).collect();
    pages.extend(["CONTRIBUTING.md", "conformance/README.md"].map(|page| root.join(page)));
    pages.extend(pages_below(&root.join("docs/adr")));
    pages
}

/// Whether a code span names a path, a make target, a part of `.ci/check` or a test module that does not exist. Paths
/// are relative to the repository, to the directory of the page, or to its `src`.
fn is_missing(span: &str, page: &Path) -> bool {
    let root = repository();
    let has_line = |file: &str, start: &str| {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        text.lines().any(|line| line.starts_with(start))
    };
    let parts = span.strip_prefix(".ci/check ").or_else(|| span.split_once("PARTS=").map(|(_, parts)| parts));
    let mut parts = parts.unwrap_or_default().split([' ', '"']).filter(|part| !part.is_empty());
    if !parts.all(|part| part.starts_with('-') || has_line(".ci/check", &format!("run_{part}()"))) {
        return true;
    }
    let words: Vec<&str> = span.split(' ').collect();
    match words.as_slice() {
        ["make", target, ..] => !has_line("Makefile", &format!("{target}:")),
        ["cargo", "test", "-p", of, "--test", "it", module] => {
            let tests = root.join("crates").join(of).join("tests");
            let files = [format!("{module}.rs"), format!("{module}/mod.rs"), format!("it/{module}.rs")];
            !files.iter().any(|file| tests.join(file).is_file())
        }
        [path] => {
            let is_file = [".md", ".rs", ".toml"].iter().any(|end| path.ends_with(end));
            let directory = page.parent().unwrap();
            let at = [root.join(path), directory.join(path), directory.join("src").join(path)];
            (path.contains('/') || is_file)
                && !path.starts_with("NAME.")
                && !at.iter().any(|path| path.exists())
        }
        _ => false,
    }
}

#[test]
fn pages_for_contributors_name_what_exists() {
    let mut spans = 0;
    for page in contributor_pages() {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        for span in unfenced(&text).flat_map(|line| line.split('`').skip(1).step_by(2)) {
            spans += 1;
            assert!(!is_missing(span, &page), "{}: `{span}` does not exist", page.display());
        }
    }
    assert!(spans > 500, "only {spans} names found");
    let page = repository().join("CONTRIBUTING.md");
    for part in [".ci/check tests no_such", "make no-such", "make check PARTS=\"tests no_such\""] {
        assert!(is_missing(part, &page), "{part}");
    }
    for file in ["a/b.rs", "no_such.md", "cargo test -p harn-cli --test it no_such"] {
        assert!(is_missing(file, &page), "{file}");
    }
}

/// The table of crates in CONTRIBUTING.md lists every crate, below all crates that it depends on.
#[test]
fn the_layout_lists_crates_from_the_bottom_up() {
    let root = repository();
    let page = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `crates/")?.split('`').next());
    let layout: Vec<&str> = rows.collect();
    assert_eq!(layout.len(), std::fs::read_dir(root.join("crates")).unwrap().count());
    for (at, of) in layout.iter().enumerate() {
        let manifest = std::fs::read_to_string(root.join("crates").join(of).join("Cargo.toml")).unwrap();
        let product = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let names = product.lines().filter_map(|line| line.split(['.', ' ']).next());
        for name in names.filter(|name| name.starts_with("harn-")) {
            assert!(layout[..at].contains(&name), "{of} uses {name}, which is not above it");
        }
    }
}

/// A row of "Where is what" links to at most two files, which contain the named items.
#[test]
fn a_look_up_takes_at_most_two_files() {
    let page = std::fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| Where ")?.split(" | ").nth(1));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let spans = row.split('`').skip(1).step_by(2);
        let (files, names): (Vec<&str>, Vec<&str>) = spans.partition(|span| span.contains('/'));
        assert!((1..=2).contains(&files.len()), "{row}");
        let text: String =
            files.iter().map(|file| std::fs::read_to_string(repository().join(file)).unwrap()).collect();
        for name in names {
            assert!(text.contains(name), "{row}: `{name}` is in none of the files");
        }
    }
}
