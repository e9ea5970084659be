//! The template rules of `harn lint`.

use std::fmt::Write;
use std::path::Path;

use harn_check::{RuleFilter, Settings, lint_template_file};
use harn_syntax::SourceFile;
use insta::assert_snapshot;

const IDENTITY: &str =
    "{{ if llm.provider == \"anthropic\" }}<a>{{ elif llm.family == \"qwen\" }}b{{ end }}\n";
const AWARE: &str = "{{ if llm.capabilities.native_tools }}x{{ end }}\n";

fn rules(text: &str, settings: &Settings) -> Vec<&'static str> {
    let found = lint_template_file(Path::new("prompts/a.harn.prompt"), text, settings);
    found.into_iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn findings_as_people_see_them() {
    let text = format!("{IDENTITY}{}{{{{ x | nope }}}}\n", AWARE.repeat(4));
    let file = SourceFile::new("a.harn.prompt", text.clone());
    let mut out = format!("{text}----\n");
    for diagnostic in lint_template_file(Path::new("a.harn.prompt"), &text, &Settings::default()) {
        let _ = writeln!(out, "{}", diagnostic.render(&file, false));
    }
    assert_snapshot!(out.trim_end());
}

#[test]
fn a_template_that_does_not_parse_is_one_error() {
    let text = "{{ if llm.model == \"x\" }}";
    let found = lint_template_file(Path::new("a.prompt"), text, &Settings::default());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, harn_syntax::Severity::Error);
    assert!(
        found[0].message.starts_with("template did not parse: a.prompt at 1:1: "),
        "{}",
        found[0].message
    );
}

#[test]
fn rules_can_be_turned_off_and_the_threshold_set() {
    let text = format!("{IDENTITY}{}", AWARE.repeat(4));
    let identity = "template-provider-identity-branch";
    let explosion = "template-variant-explosion";
    assert_eq!(rules(&text, &Settings::default()), [identity, identity, explosion]);
    let disabled = |entry: &str| Settings { disabled: vec![RuleFilter::parse(entry)], ..Settings::default() };
    assert_eq!(rules(&text, &disabled(identity)), [explosion]);
    assert_eq!(rules(&text, &disabled("template-variant-explosion:prompts/*")), [identity, identity]);
    assert_eq!(rules(&text, &disabled("template-variant-explosion:other/*")).len(), 3);
    let patient = Settings { template_variant_branch_threshold: Some(4), ..Settings::default() };
    assert_eq!(rules(&text, &patient), [identity, identity]);
    assert_eq!(rules("fine {{ x }}", &Settings::default()), [] as [&str; 0]);
}
