//! Branch traces and provenance spans.
use crate::common::bindings;
use harn_template::{AssetLoader, Branch, RenderContext, Rendered, Template};
use harn_value::Value;

fn asset(path: &str) -> Option<&'static str> {
    match path {
        "part.prompt" => Some("<{{ x }}{{ include \"inner.prompt\" }}>"),
        "inner.prompt" => Some("{{ if x }}!{{ end }}"),
        _ => None,
    }
}

fn record(template: &str, json: &str) -> Rendered {
    let loader = AssetLoader(asset);
    let context = RenderContext { loader: &loader, ..RenderContext::default() };
    Template::inline(template).unwrap().render_with_provenance(&bindings(json), &context).unwrap()
}

fn branches(template: &str, json: &str) -> Vec<String> {
    let show = |b: &Branch| {
        let label = b.branch_label.as_deref().unwrap_or("-");
        format!("{} {}:{}:{} {} [{label}]", b.kind, b.template_uri, b.line, b.col, b.branch_id)
    };
    record(template, json).branches.iter().map(show).collect()
}

/// Formats spans as `kind@line:col "text" value <parent`.
fn spans(template: &str, json: &str) -> Vec<String> {
    let rendered = record(template, json);
    let show = |span: &harn_template::Span| {
        let text = &rendered.text[span.output_start..span.output_end];
        let mut shown =
            format!("{}@{}:{} {text:?}", span.kind.as_str(), span.template_line, span.template_col);
        if let Some(value) = &span.bound_value {
            shown.push_str(&format!(" ={value}"));
        }
        if let Some(parent) = span.parent {
            shown.push_str(&format!(
                " in {}{}",
                rendered.spans[parent].kind.as_str(),
                rendered.spans[parent].template_uri
            ));
        }
        shown
    };
    rendered.spans.iter().map(show).collect()
}

#[test]
fn every_decision_is_recorded_in_order() {
    let template = "{{ if  a\n == 1 }}x{{ elif b }}y{{ else }}z{{ end }}";
    assert_eq!(branches(template, r#"{"a": 1}"#), ["if :1:1 if [a == 1]"]);
    assert_eq!(branches(template, r#"{"b": 1}"#), ["if :2:10 elif:1 [b]"]);
    assert_eq!(branches(template, "{}"), ["if :2:23 else [-]"]);
    assert_eq!(branches("é{{ if a }}{{ end }}", "{}"), ["if :1:2 none [-]"]);
    assert_eq!(
        branches("{{ if a }}{{ elif b }}{{ elif c }}{{ end }}", r#"{"c": 1}"#),
        ["if :1:23 elif:2 [c]"]
    );
}

#[test]
fn loops_includes_and_sections_record_each_execution() {
    let template = "{{ for x in xs }}{{ include \"std/part.prompt\" }}{{ section \"task\" }}{{ if x }}{{ end }}{{ endsection }}{{ end }}";
    assert_eq!(
        branches(template, r#"{"xs": [1, 0]}"#),
        [
            "if std://inner.prompt:1:1 if [x]",
            "if :1:69 if [x]",
            "section :1:49 plain [task]",
            "if std://inner.prompt:1:1 none [-]",
            "if :1:69 none [-]",
            "section :1:49 plain [task]",
        ]
    );
}

#[test]
fn spans_cover_what_each_directive_wrote() {
    assert_eq!(
        spans("a {{ x }}{{ y }} {{ x | upper }}", r#"{"x": "v"}"#),
        [
            "text@0:0 \"a \"",
            "legacy_bare@0:0 \"v\" =v",
            "legacy_bare@0:0 \"{{ y }}\"",
            "text@0:0 \" \"",
            "expr@1:18 \"V\" =V"
        ]
    );
    assert_eq!(
        spans("{{ for x in xs }}{{ if x }}{{ x }}{{ else }}-{{ end }}{{ end }}", r#"{"xs": [1, 0]}"#),
        [
            "legacy_bare@0:0 \"1\" =1",
            "if@1:18 \"1\"",
            "for_iteration@1:1 \"1\"",
            "text@0:0 \"-\"",
            "if@1:18 \"-\"",
            "for_iteration@1:1 \"-\"",
        ]
    );
    assert_eq!(spans("{{ if a }}x{{ end }}", "{}"), ["if@1:1 \"\""]);
}

#[test]
fn spans_in_includes_have_parents() {
    assert_eq!(
        spans("{{ include \"std/part.prompt\" with { x: 1 } }}", "{}"),
        [
            "text@0:0 \"<\" in include",
            "legacy_bare@0:0 \"1\" =1 in include",
            "text@0:0 \"!\" in includestd://part.prompt",
            "if@1:1 \"!\" in includestd://part.prompt",
            "include@1:9 \"!\" in include",
            "text@0:0 \">\" in include",
            "include@1:1 \"<1!>\"",
        ]
    );
}

#[test]
fn spans_move_with_the_envelope_of_a_section() {
    assert_eq!(
        spans(
            "A{{ section \"task\" }}\n {{ x }} {{ section \"examples\" }} é {{ endsection }}\n{{ endsection }}",
            r#"{"x": "v"}"#
        ),
        [
            "text@0:0 \"A\"",
            "text@0:0 \"\"",
            "legacy_bare@0:0 \"v\" =v",
            "text@0:0 \" \"",
            "text@0:0 \"é\"",
            "section@2:10 \"Examples:\\né\"",
            "text@0:0 \"\"",
            "section@1:2 \"Task:\\nv Examples:\\né\"",
        ]
    );
    let native = r#"{"llm": {"capabilities": {"structured_output_mode": "native_json"}}, "x": 1}"#;
    assert_eq!(
        spans("a{{ section \"output_format\" }} {{ x }} {{ endsection }}b", native),
        [
            "text@0:0 \"a\"",
            "text@0:0 \"\"",
            "legacy_bare@0:0 \"\" =1",
            "text@0:0 \"\"",
            "section@1:2 \"\"",
            "text@0:0 \"b\""
        ]
    );
}

#[test]
fn a_trace_has_no_spans_and_equal_renders_have_equal_records() {
    let template = Template::inline("{{ if x }}{{ x }}{{ end }}").unwrap();
    let context = RenderContext::default();
    let trace = template.render_with_trace(&bindings(r#"{"x": 1}"#), &context).unwrap();
    assert!(trace.spans.is_empty() && trace.branches.len() == 1 && trace.text == "1");
    let first = template.render_with_provenance(&Value::NIL, &context).unwrap();
    assert_eq!(first, template.render_with_provenance(&Value::NIL, &context).unwrap());
}
