//! The documentation of templates is correct: the generated page is up to date, templates on the other pages parse,
//! and the quick reference contains every filter and section.
use std::path::Path;

use harn_template::{FILTERS, SECTIONS, Template, reference};

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn the_reference_is_what_the_tables_say() {
    let current = page("template-reference.md") == reference();
    assert!(current, "run `cargo run -p harn-template --example reference`");
}

#[test]
fn templates_in_the_guide_parse() {
    for name in ["template-syntax.md", "templates-migration.md"] {
        let text = page(name);
        let blocks: Vec<&str> =
            text.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(blocks.len() >= 2, "{name} has examples");
        for block in blocks {
            if let Err(error) = Template::inline(block) {
                panic!("{name}: {error} in\n{block}");
            }
        }
    }
}

#[test]
fn the_quick_reference_is_complete() {
    let text = page("templates-quickref.md");
    let filters = text.lines().find(|line| line.starts_with("- Filters:")).unwrap();
    for spec in FILTERS {
        assert!(
            filters.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == spec.name),
            "{}",
            spec.name
        );
    }
    for spec in SECTIONS {
        assert!(text.contains(spec.name), "{}", spec.name);
    }
}
