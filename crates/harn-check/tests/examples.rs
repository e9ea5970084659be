//! Every code has an example: one program that it is found in, and one without any finding.

use std::rc::Rc;

use harn_check::{
    CODES, Example, Quiet, Settings, Source, World, check_invariants, check_program, check_templates,
    example, lint_program, lint_template_file, strict_types,
};

use crate::common::Project;
use crate::corpus::machine;

/// The codes of all findings in a project.
fn codes(project: &Project, shown: &Example, text: &str, world: &World<'_>) -> Vec<String> {
    project.write(shown.file, text);
    let dir = &project.dir;
    let system = harn_system::Real::new();
    let (settings, problems) = Settings::find(&system, dir);
    let mut found: Vec<String> = problems.iter().map(|located| located.diagnostic.code.to_owned()).collect();
    if shown.file.ends_with(".prompt") {
        let path = dir.join(shown.file);
        found.extend(lint_template_file(&path, text, &settings).iter().map(|d| d.code.to_owned()));
    }
    if shown.file.ends_with(".harn") {
        let parsed = harn_syntax::parse(text);
        assert!(parsed.errors.is_empty(), "{}: {:?}", shown.code, parsed.errors);
        let tree = parsed.program;
        let vm = harn_runtime::vm_builder(Rc::new(harn_system::Real::new())).build();
        let runtime = harn_runtime::llm_runtime_at(&vm, dir);
        let max_tools =
            |provider: Option<&str>, model: Option<&str>| harn_runtime::max_tools(&runtime, provider, model);
        let source = Source { name: "main.harn", dir, text, tree: &tree };
        let header = shown.code == "require-file-header";
        let rules = Settings { require_file_header: header, ..settings.clone() };
        found.extend(check_program(&source, world).iter().map(|d| d.code.to_owned()));
        found.extend(lint_program(&source, world, &rules, &max_tools).iter().map(|d| d.code.to_owned()));
        if shown.code == "W0110" {
            found.extend(strict_types(&tree).iter().map(|d| d.code.to_owned()));
        }
        if shown.code.starts_with('I') {
            let broken = check_invariants(&source, world);
            found.extend(broken.iter().map(|violation| violation.located().diagnostic.code.to_owned()));
        }
        let located = check_templates(&source, world, &settings, &Quiet::default());
        found.extend(located.iter().map(|located| located.diagnostic.code.to_owned()));
    }
    found
}

#[test]
fn every_code_is_found_in_its_example_and_nothing_in_the_mended_one() {
    let names = machine();
    let system = harn_system::Real::new();
    let world = World {
        signatures: &names,
        files: harn_front::Through(&system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    };
    let mut wrong = Vec::new();
    for entry in CODES {
        let Some(example) = example(entry.code) else {
            wrong.push(format!("{}: there is no example", entry.code));
            continue;
        };
        let project = Project::new(example.others);
        let before = codes(&project, example, example.wrong, &world);
        if !before.iter().any(|code| code == entry.code) {
            wrong.push(format!("{}: only {before:?} in the wrong program", entry.code));
        }
        let after = codes(&project, example, example.right, &world);
        if !after.is_empty() {
            wrong.push(format!("{}: {after:?} in the fixed program", entry.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
